// SPDX-License-Identifier: GPL-2.0
/* timeout: 300
 *
 * Processes killed while they register, bind, re-register, transfer and let
 * go, in any phase: nothing of theirs is left.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"
#include "window.h"

#define DEATHS	50
#define LENGTH	(256 * 1024u)
#define FULL	(BINDABLE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define WINDOWS	4

/* What a process makes and unmakes, over and over. */
struct life {
	struct pair pair;
	uint8_t *buf;
	struct ibv_mr *mr, *dm_mr;
	struct ibv_mw *mw[WINDOWS];
	struct ibv_dm *dm;
};

static void reg(struct life *life)
{
	life->mr = must_reg(life->pair.pd, life->buf, LENGTH, FULL);
}

static void alloc_windows(struct life *life)
{
	int i;

	for (i = 0; i < WINDOWS; i++)
		life->mw[i] = must_alloc_mw(life->pair.pd, i & 1 ?
					    IBV_MW_TYPE_2 : IBV_MW_TYPE_1);
}

static void bind_windows(struct life *life)
{
	int i;

	for (i = 0; i < WINDOWS; i++)
		must_bind(&apis[0], &life->pair.b, life->mw[i], life->mr,
			  (uintptr_t)life->buf + i, 1000,
			  IBV_ACCESS_REMOTE_WRITE);
}

static void use_windows(struct life *life)
{
	int i;

	for (i = 0; i < WINDOWS; i++)
		if (ask(&life->pair, IBV_WR_RDMA_WRITE, life->mw[i]->rkey,
			(uintptr_t)life->buf + i, 1000).status)
			tap_bail("writing through window %d", i);
}

static void be_refused(struct life *life)
{
	if (ibv_dereg_mr(life->mr) != EBUSY)
		tap_bail("deregistering with windows bound");
}

static void use_dm(struct life *life)
{
	struct ibv_alloc_dm_attr attr = { .length = LENGTH };

	life->dm = ibv_alloc_dm(life->pair.ctx, &attr);
	if (!life->dm)
		tap_bail("ibv_alloc_dm: %s", strerror(errno));
	life->dm_mr = ibv_reg_dm_mr(life->pair.pd, life->dm, 0, LENGTH,
				    IBV_ACCESS_ZERO_BASED | ALL_ACCESS);
	if (!life->dm_mr)
		tap_bail("ibv_reg_dm_mr: %s", strerror(errno));
	if (ask(&life->pair, IBV_WR_RDMA_WRITE, life->dm_mr->rkey, 0,
		60000).status)
		tap_bail("writing to on-NIC memory");
}

static void free_windows(struct life *life)
{
	int i;

	for (i = 0; i < WINDOWS; i++)
		if (ibv_dealloc_mw(life->mw[i]))
			tap_bail("ibv_dealloc_mw");
}

static void rereg(struct life *life)
{
	int i;

	for (i = 0; i < 20; i++)
		if (ibv_rereg_mr(life->mr, IBV_REREG_MR_CHANGE_TRANSLATION,
				 NULL, life->buf, LENGTH - i * 4096, 0))
			tap_bail("ibv_rereg_mr: %s", strerror(errno));
}

static void let_go(struct life *life)
{
	if (ibv_dereg_mr(life->dm_mr) || ibv_free_dm(life->dm) ||
	    ibv_dereg_mr(life->mr))
		tap_bail("letting go");
}

static void (* const phases[])(struct life *life) = {
	reg, alloc_windows, bind_windows, use_windows, be_refused, use_dm,
	free_windows, rereg, let_go,
};

#define PHASES	((int)(sizeof(phases) / sizeof(phases[0])))

/* Says which phase begins, and waits for nobody. */
static _Noreturn void live(int say)
{
	struct ibv_device_attr attr;
	struct life life = {};
	char phase;
	int i;

	pair_open(&life.pair, open_nic(NULL, &attr), &pair_defaults);
	pair_connect(&life.pair);
	life.buf = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (life.buf == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	for (i = 0;; i = (i + 1) % PHASES) {
		phase = i;
		if (write(say, &phase, 1) != 1)
			exit(1);
		phases[i](&life);
	}
}

/* Kills a process in its second round, in phase @phase or soon after. */
static bool die_in(int phase)
{
	int ends[2], status, round = 0;
	char at;
	pid_t pid;

	if (pipe(ends))
		tap_bail("pipe: %s", strerror(errno));
	fflush(NULL);
	pid = fork();
	if (!pid) {
		close(ends[0]);
		live(ends[1]);
	}
	close(ends[1]);
	while (round < 2 && read(ends[0], &at, 1) == 1)
		round += at == phase;
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	close(ends[0]);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* Lines of a debugfs file beside its head. */
static int live_entries(const char *file)
{
	char command[128];
	int lines = -1;
	FILE *pipe;

	snprintf(command, sizeof(command),
		 "cat /sys/kernel/debug/moor/*/%s | tail -n +2 | wc -l", file);
	pipe = popen(command, "r");
	if (!pipe || fscanf(pipe, "%d", &lines) != 1)
		tap_bail("%s", command);
	pclose(pipe);
	return lines;
}

static long pinned_pages(void)
{
	FILE *refresh = fopen("/proc/sys/vm/stat_refresh", "r");
	FILE *file = fopen("/proc/vmstat", "r");
	long value, pinned = 0;
	char name[64];

	/* The counts lag behind by what each processor has not handed in. */
	if (!refresh || !file || fgetc(refresh) != EOF)
		tap_bail("reading the counts of pages");
	while (fscanf(file, "%63s %ld", name, &value) == 2) {
		if (!strcmp(name, "nr_foll_pin_acquired"))
			pinned += value;
		if (!strcmp(name, "nr_foll_pin_released"))
			pinned -= value;
	}
	fclose(refresh);
	fclose(file);
	return pinned;
}

/* All of the NIC's memory can be had, and all of its windows. */
static void expect_all_free(void)
{
	struct ibv_device_attr_ex attr = {};
	struct ibv_alloc_dm_attr dm_attr = {};
	struct ibv_context *ctx = open_nic(NULL, &attr.orig_attr);
	struct ibv_dm *dm;

	ibv_query_device_ex(ctx, NULL, &attr);
	dm_attr.length = attr.max_dm_size;
	dm = ibv_alloc_dm(ctx, &dm_attr);
	tap_ok(dm, "all of the on-NIC memory is free");
	if (dm)
		ibv_free_dm(dm);
	ibv_close_device(ctx);
}

int main(void)
{
	long pinned = pinned_pages();
	int i, killed[PHASES] = {}, tried[PHASES] = {};

	for (i = 0; i < DEATHS; i++) {
		tried[i % PHASES]++;
		killed[i % PHASES] += die_in(i % PHASES);
	}
	for (i = 0; i < PHASES; i++)
		tap_is(killed[i], tried[i], "killed in phase %d", i);
	tap_is(live_entries("mr"), 0, "no MR is left");
	tap_is(live_entries("windows"), 0, "no window is left");
	tap_is(pinned_pages() - pinned, 0, "no page stays pinned");
	expect_all_free();
	return tap_done();
}
