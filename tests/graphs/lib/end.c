// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "end.h"
#include "nic.h"
#include "queues.h"
#include "residue.h"
#include "tap.h"

#define PATIENCE_S	60	/* longer than any batch takes */
#define COMMANDS	4	/* the fewest commands that end a graph may take */

/* ---- in the process that made the graphs ---- */

static struct life lives[MAX_BATCH];
static unsigned int num_lives;

static void leave_open(void)
{
}

/* Closes the contexts with all objects still in them. */
static void leave_closed(void)
{
	unsigned int i;
	int err;

	for (i = 0; i < num_lives; i++) {
		err = life_close(&lives[i]);
		if (err) {
			printf("# closing: %s\n", strerror(err));
			_exit(3);
		}
	}
}

/*
 * The child, after its parent's end: adds an MR to each PD that it can import, and
 * checks that the XRC targets still exist.
 */
static void inherit(void)
{
	static char memory[100];
	unsigned int i;

	for (i = 0; i < num_lives; i++) {
		struct life *life = &lives[i];
		struct ibv_context *ctx = ibv_import_device(life->ctx->cmd_fd);
		struct ibv_pd *pd = NULL;

		if (life->node[0].live && life->node[0].kind->roles & KERNEL_PD && ctx)
			pd = ibv_import_pd(ctx, life->node[0].pd->handle);
		if (pd && !ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE))
			_exit(5);
	}
	_exit(have_targets() ? 0 : 6);
}

/*
 * Forks a child that inherits the device files and opens the XRC targets by the file of
 * their domain. When this process is gone the child imports the PDs, adds MRs, and
 * ends.
 */
static void leave_to_heir(void)
{
	int gone[2], ready[2];
	unsigned int i;
	char byte = 0;

	if (pipe(gone) || pipe(ready))
		return;
	if (fork()) {
		close(ready[1]);
		/* A target can only be opened while its maker is alive. */
		if (read(ready[0], &byte, 1) != 1)
			printf("# heir: it has not opened what there is\n");
		return;
	}
	close(gone[1]);
	for (i = 0; i < num_lives; i++)
		if (!open_targets(&lives[i]))
			_exit(7);
	if (write(ready[1], &byte, 1) != 1 || read(gone[0], &byte, 1))
		_exit(4);
	inherit();
}

/* ---- in the parent: how graphs end ---- */

static void strike_kill(unsigned int chance, int pid)
{
	(void)chance;
	kill(pid, SIGKILL);
}

static void strike_unbind(unsigned int chance, int pid)
{
	(void)chance;
	(void)pid;
	nic_unbind();
}

static void strike_remove(unsigned int chance, int pid)
{
	(void)chance;
	(void)pid;
	nic_remove();
}

static void strike_reset(unsigned int chance, int pid)
{
	(void)chance;
	(void)pid;
	nic_reset();
}

static void bind_again(void)
{
	if (!nic_is_bound())
		nic_bind();
	nic_bring_up();
}

static void scan_again(void)
{
	nic_rescan();
	nic_bring_up();
}

/* The NIC refuses one of the commands that take the objects back. */
static void strike_refusal(unsigned int chance, int pid)
{
	(void)pid;
	nic_control("fail any BUSY 1 after %u", chance);
}

/* The NIC refuses one command of each kind that few graphs use, and one of any kind. */
static void prepare_refusal(unsigned int chance)
{
	static const char * const rare[] = {
		"CREATE_CQ", "CREATE_QP", "MODIFY_QP", "CREATE_SRQ", "MODIFY_SRQ",
		"ATTACH_FILTER",
	};
	unsigned int i;

	for (i = 0; i < sizeof(rare) / sizeof(rare[0]); i++)
		nic_control("fail %s NO_RESOURCE 1 after %u", rare[i], chance % COMMANDS);
	nic_control("fail any NO_RESOURCE 1 after %u", chance);
}

static void strike_dead(unsigned int chance, int pid)
{
	(void)chance;
	(void)pid;
	nic_control("dead");
}

static void mend(void)
{
	nic_control("clear");
	nic_control("alive");
	if (!nic_is_stopped())
		return;
	nic_unbind();
	bind_again();
}

const struct end ends[] = {
	{ .name = "exit", .leave = leave_open },
	{ .name = "kill", .leave = leave_open, .waits = true, .strike = strike_kill },
	{ .name = "close", .leave = leave_closed },
	{ .name = "heir", .leave = leave_to_heir },
	{ .name = "unbind", .slow = true, .leave = leave_open, .waits = true,
	  .strike = strike_unbind, .mend = bind_again },
	{ .name = "remove", .slow = true, .leave = leave_open, .waits = true,
	  .strike = strike_remove, .mend = scan_again },
	{ .name = "reset", .slow = true, .leave = leave_open, .waits = true,
	  .strike = strike_reset, .mend = nic_bring_up },
	{ .name = "fail", .slow = true, .needs_control = true, .leave = leave_open,
	  .strike = strike_refusal, .mend = mend },
	{ .name = "fail_making", .slow = true, .needs_control = true,
	  .breaks_making = true, .leave = leave_open, .prepare = prepare_refusal,
	  .mend = mend },
	{ .name = "dead", .slow = true, .needs_control = true, .leave = leave_open,
	  .strike = strike_dead, .mend = mend },
};

const unsigned int num_ends = sizeof(ends) / sizeof(ends[0]);

const struct end *end_by_name(const char *name)
{
	unsigned int i;

	for (i = 0; i < num_ends; i++)
		if (!strcmp(ends[i].name, name))
			return &ends[i];
	return NULL;
}

/*
 * The process with the graphs: says "made" or what went wrong, and waits to be told to
 * end.
 */
static _Noreturn void live(const struct end *end, const struct graph *graphs,
			   unsigned int count, int say, int hear)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	char text[GRAPH_TEXT], byte;
	int i;

	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), nic_name()))
			break;
	if (!list || !list[i])
		tap_bail("no device %s", nic_name());
	for (num_lives = 0; num_lives < count; num_lives++) {
		struct life *life = &lives[num_lives];

		if (life_make(life, list[i], &graphs[num_lives]) || end->breaks_making)
			continue;
		dprintf(say, "%s: %s", graph_text(&graphs[num_lives], text),
			life->error);
		_exit(1);
	}
	dprintf(say, "made");
	/* Meanwhile the parent arms the fault, if this end has one. */
	if (read(hear, &byte, 1) != 1)
		_exit(2);
	end->leave();
	dprintf(say, "left");
	if (end->waits && read(hear, &byte, 1) < 0)
		_exit(2);
	_exit(0);
}

struct talk {
	int hear, say, pid;
};

/* Is @word the next that the process says? If not, @why is what it said. */
static bool expect(const struct talk *talk, const char *word, char *why,
		   unsigned int size)
{
	ssize_t n = read(talk->hear, why, size - 1);

	why[n > 0 ? n : 0] = 0;
	if (!strcmp(why, word))
		return true;
	if (n <= 0)
		snprintf(why, size, "the process ended before it said \"%s\"", word);
	return false;
}

static void start(struct talk *talk, const struct end *end,
		  const struct graph *graphs, unsigned int count)
{
	int up[2], down[2];

	if (pipe(up) || pipe(down))
		tap_bail("pipe: %s", strerror(errno));
	fflush(NULL);
	talk->pid = fork();
	if (talk->pid < 0)
		tap_bail("fork: %s", strerror(errno));
	if (!talk->pid) {
		close(up[0]);
		close(down[1]);
		live(end, graphs, count, up[1], down[0]);
	}
	close(up[1]);
	close(down[0]);
	talk->hear = up[0];
	talk->say = down[1];
}

/*
 * Waits for the process and its descendants. Have all exited with 0, or been @killed?
 */
static bool wait_for_all(const struct talk *talk, bool killed, char *why,
			 unsigned int size)
{
	bool good = true;
	int status;

	close(talk->hear);
	close(talk->say);
	while (wait(&status) > 0) {
		if (!status || (killed && WIFSIGNALED(status)))
			continue;
		if (good)
			snprintf(why, size, "a process ended with status %#x", status);
		good = false;
	}
	return good;
}

/*
 * Tells the process to leave. The strike comes before that, or after it if @end waits.
 */
static bool end_process(const struct end *end, const struct talk *talk,
			const struct residue *before, unsigned int chance,
			char *why, unsigned int size)
{
	if (!end->waits && end->strike)
		end->strike(chance, talk->pid);
	if (write(talk->say, "x", 1) != 1 || !expect(talk, "left", why, size))
		return false;
	if (end->waits && end->strike)
		end->strike(chance, talk->pid);
	/*
	 * The process still lives: pages that it loses here are not unpinned by its
	 * exit.
	 */
	return !end->waits || end->strike == strike_kill ||
	       residue_unpinned(before, why, size);
}

bool end_graphs(const struct end *end, const struct graph *graphs,
		unsigned int count, unsigned int chance, char *why,
		unsigned int size)
{
	struct residue before;
	struct talk talk;
	char later[256];
	bool good;

	chance %= COMMANDS * count;
	residue_get(&before);
	if (end->prepare)
		end->prepare(chance);
	start(&talk, end, graphs, count);
	good = expect(&talk, "made", why, size) &&
	       end_process(end, &talk, &before, chance, why, size);
	if (!wait_for_all(&talk, end->strike == strike_kill, later, sizeof(later)) && good) {
		snprintf(why, size, "%s", later);
		good = false;
	}
	if (end->mend)
		end->mend();
	if (!residue_same(&before, later, sizeof(later)) && good) {
		snprintf(why, size, "%s", later);
		good = false;
	}
	return good;
}
