// SPDX-License-Identifier: GPL-2.0
/* timeout: 300
 *
 * Usage: test_dead_process [--kills N] [--seed N]
 *
 * Processes are killed in every phase of using memory: while they register, bind,
 * transfer, re-register, fork, deregister and exit. MRs and windows are made and freed
 * in any order. Nothing of the processes may be left.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "counts.h"
#include "tap.h"
#include "window.h"

#define LENGTH	(128u << 10)
#define FULL	(BINDABLE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define MRS	5
#define WINDOWS	6
#define IN_FLIGHT 6
/* Some memory is cached, so checks are made now and then alone. */
#define LOOK_EVERY 100

/* The objects that a process makes and frees, over and over. */
struct life {
	struct pair pair;
	uint8_t *buf;
	struct ibv_mr *mr[MRS];
	struct ibv_mw *mw[WINDOWS];
	struct ibv_mr *bound_to[WINDOWS];
	struct ibv_dm *dm;
	struct ibv_mr *dm_mr;
};

static unsigned int below(unsigned int limit)
{
	return random() % limit;
}

static void reg_or_alloc(struct life *life, unsigned int which)
{
	if (which < MRS) {
		unsigned int skip = below(LENGTH / 2);

		life->mr[which] = must_reg(life->pair.pd, life->buf + skip,
					   1 + below(LENGTH - skip), FULL);
		return;
	}
	which -= MRS;
	life->mw[which] = must_alloc_mw(life->pair.pd, which & 1 ?
					IBV_MW_TYPE_2 : IBV_MW_TYPE_1);
	life->bound_to[which] = NULL;
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
}

/* Registers MRs and allocates windows, mixed at random. */
static void reg(struct life *life)
{
	unsigned int order[MRS + WINDOWS], i, other;

	for (i = 0; i < MRS + WINDOWS; i++) {
		other = below(i + 1);
		order[i] = order[other];
		order[other] = i;
	}
	for (i = 0; i < MRS + WINDOWS; i++)
		reg_or_alloc(life, order[i]);
	use_dm(life);
}

static void bind(struct life *life)
{
	unsigned int i;

	for (i = 0; i < WINDOWS; i++) {
		struct ibv_mr *mr = life->mr[below(MRS)];

		/* One window of each type stays unbound. */
		if (i >= 2)
			life->bound_to[i] = mr;
		if (i >= 2)
			must_bind(&apis[i % 4 / 2], &life->pair.b, life->mw[i],
				  mr, (uintptr_t)mr->addr, mr->length,
				  IBV_ACCESS_REMOTE_WRITE);
	}
}

/* Many requests at once, through windows and MRs, also to on-NIC memory. */
static void traffic(struct life *life)
{
	struct ibv_wc wc;
	unsigned int i;

	for (i = 0; i < IN_FLIGHT; i++) {
		struct ibv_mr *mr = life->mr[i % MRS];
		struct request request = {
			.opcode = IBV_WR_RDMA_WRITE, .local = life->pair.a.buf,
			.lkey = life->pair.a.mr->lkey, .rkey = mr->rkey,
			.remote = (uintptr_t)mr->addr,
			.length = mr->length < 60000 ? mr->length : 60000,
		};

		if (i >= 2 && life->bound_to[i])
			request = (struct request){
				.opcode = IBV_WR_RDMA_WRITE, .length = 1,
				.local = life->pair.a.buf,
				.lkey = life->pair.a.mr->lkey,
				.rkey = life->mw[i]->rkey,
				.remote = (uintptr_t)life->bound_to[i]->addr,
			};
		if (i == 0) {
			request.remote = 0;
			request.rkey = life->dm_mr->rkey;
		}
		if (post(&life->pair.a, &request))
			tap_bail("posting");
	}
	for (i = 0; i < IN_FLIGHT; i++)
		if (!wait_wc(life->pair.a.send_cq, &wc) || wc.status)
			tap_bail("request %u: %s", i,
				 ibv_wc_status_str(wc.status));
}

static bool is_held(const struct life *life, const struct ibv_mr *mr)
{
	unsigned int i;

	for (i = 0; i < WINDOWS; i++)
		if (life->mw[i] && life->bound_to[i] == mr)
			return true;
	return false;
}

static void rereg(struct life *life)
{
	unsigned int i;
	int err;

	for (i = 0; i < 2 * MRS; i++) {
		struct ibv_mr *mr = life->mr[i % MRS];

		errno = 0;
		err = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				   life->buf + below(LENGTH / 2),
				   1 + below(LENGTH / 2), 0);
		if (errno != (is_held(life, mr) ? EBUSY : 0) || !err != !errno)
			tap_bail("ibv_rereg_mr: %s", strerror(errno));
	}
}

/* Forks a child, which inherits the device's file and may outlive this process. */
static void multiply(struct life *life)
{
	pid_t pid = fork();

	if (!pid) {
		memset(life->buf, 1, LENGTH);
		memset(life->pair.a.buf, 1, life->pair.config.buffer_size);
		_exit(0);
	}
	memset(life->buf, 2, LENGTH);
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		tap_bail("fork: %s", strerror(errno));
}

/*
 * Deregisters and deallocates in random order: MRs refuse while windows are bound to
 * them.
 */
static void dereg(struct life *life)
{
	unsigned int left = MRS + WINDOWS, which;
	int err;

	if (ibv_dereg_mr(life->dm_mr) || ibv_free_dm(life->dm))
		tap_bail("letting on-NIC memory go");
	while (left) {
		which = below(MRS + WINDOWS);
		if (which >= MRS && life->mw[which - MRS]) {
			if (ibv_dealloc_mw(life->mw[which - MRS]))
				tap_bail("ibv_dealloc_mw");
			life->mw[which - MRS] = NULL;
			left--;
		} else if (which < MRS && life->mr[which]) {
			err = ibv_dereg_mr(life->mr[which]);
			if (err != (is_held(life, life->mr[which]) ? EBUSY : 0))
				tap_bail("ibv_dereg_mr: %s", strerror(err));
			if (err)
				continue;
			life->mr[which] = NULL;
			left--;
		}
	}
}

/* Exits with all objects. */
static void leave(struct life *life)
{
	(void)life;
	_exit(0);
}

static const struct phase {
	const char *name;
	void (*act)(struct life *life);
} phases[] = {
	{ "registering", reg }, { "binding", bind }, { "traffic", traffic },
	{ "re-registering", rereg }, { "forking", multiply },
	{ "exiting", leave }, { "deregistering", dereg },
};

#define PHASES	((int)(sizeof(phases) / sizeof(phases[0])))

/* The process: reports each phase as it begins, without waiting for the parent. */
static _Noreturn void live(int say, int end, unsigned int seed)
{
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;
	struct life life = {};
	char phase;
	int i;

	srandom(seed);
	setpgid(0, 0);
	config.send_ops = WINDOW_OPS;
	pair_open(&life.pair, open_nic(NULL, &attr), &config);
	pair_connect(&life.pair);
	life.buf = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (life.buf == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	for (i = 0;; i = (i + 1) % PHASES) {
		if (phases[i].act == leave && i != end)
			continue;
		phase = i;
		if (write(say, &phase, 1) != 1)
			exit(1);
		phases[i].act(&life);
	}
}

/* A random delay, so that the seed decides at which moment the process is killed. */
static void linger(unsigned int max_us)
{
	struct timespec pause = { .tv_nsec = below(max_us) * 1000 };

	nanosleep(&pause, NULL);
}

/*
 * Kills a process in phase @phase or soon after, first alone, then with all of its
 * descendants. A process that exits may have ended before.
 */
static bool die_in(int phase)
{
	int ends[2], status, rounds = 1 + below(2);
	unsigned int seed = random();
	pid_t pid;
	char at;

	if (pipe(ends))
		tap_bail("pipe: %s", strerror(errno));
	fflush(NULL);
	pid = fork();
	if (!pid) {
		close(ends[0]);
		live(ends[1], phase, seed);
	}
	close(ends[1]);
	/* A process that exits does so in its first round. */
	if (phases[phase].act == leave)
		rounds = 1;
	while (rounds && read(ends[0], &at, 1) == 1)
		rounds -= at == phase;
	linger(below(2) ? 200 : 10000);
	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid)
		tap_bail("waitpid: %s", strerror(errno));
	linger(1000);
	kill(-pid, SIGKILL);
	/* This process is the subreaper, so it waits for descendants too. */
	while (waitpid(-1, NULL, 0) > 0)
		;
	close(ends[0]);
	if (phases[phase].act == leave && WIFEXITED(status))
		return !rounds && !WEXITSTATUS(status);
	return !rounds && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* Can all of the NIC's memory be allocated? */
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

static void kill_many(unsigned int kills)
{
	int killed[PHASES] = {}, tried[PHASES] = {}, phase;
	long pinned = pinned_pages();
	unsigned int i;

	for (i = 0; i < kills; i++) {
		phase = i % PHASES;
		tried[phase]++;
		killed[phase] += die_in(phase);
		if (i % LOOK_EVERY == LOOK_EVERY - 1)
			expect_nothing_left(pinned);
	}
	for (phase = 0; phase < PHASES; phase++)
		tap_is(killed[phase], tried[phase], "killed while %s: %d times",
		       phases[phase].name, tried[phase]);
	expect_nothing_left(pinned);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "kills", required_argument, NULL, 'k' },
		{ "seed", required_argument, NULL, 's' },
		{},
	};
	unsigned int kills = 50, seed = time(NULL);
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'k')
			kills = strtoul(optarg, NULL, 0);
		else if (option == 's')
			seed = strtoul(optarg, NULL, 0);
		else
			tap_bail("usage: test_dead_process [--kills N] [--seed N]");
	}
	tap_diag("seed %u", seed);
	srandom(seed);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	kill_many(kills);
	expect_all_free();
	return tap_done();
}
