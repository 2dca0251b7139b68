// SPDX-License-Identifier: GPL-2.0
/*
 * Attacks: a peer, and a process with a context of its own, try to access
 * memory that is not theirs, by keys, addresses and windows that are almost
 * right. Each attempt must end in the error that the interface specifies, must
 * not change the victim's memory, and must not bring the attacker any of it.
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

#define BUFFER	8192u
#define FROM	2048u		/* the range that the victim has registered */
#define SIZE	1024u
#define RIGHTS	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		 IBV_ACCESS_REMOTE_ATOMIC)

static struct pair pair;	/* a attacks, b is attacked */
static unsigned int tries, leaks;

/* The pair's valid keys, which guesses must not hit. */
static uint32_t live_keys[16];
static unsigned int num_live;

static void live(uint32_t key)
{
	live_keys[num_live++] = key;
}

static bool is_live(uint32_t key)
{
	unsigned int i;

	for (i = 0; i < num_live; i++)
		if (live_keys[i] == key)
			return true;
	return false;
}

static uint64_t start(void)
{
	return (uintptr_t)pair.b.buf + FROM;
}

static void refill(void)
{
	fill(pair.a.buf, BUFFER, 1);
	fill(pair.b.buf, BUFFER, 2);
}

static void judge(const char *what, const char *how, struct outcome got,
		  enum ibv_wc_status wanted)
{
	bool untouched = is_filled(pair.a.buf, BUFFER, 1) &&
			 is_filled(pair.b.buf, BUFFER, 2);

	tries++;
	if (got.posted || !ended_with(got.status, wanted) || !untouched) {
		leaks++;
		tap_diag("LEAK: %s, %s: errno %d, %s; memory %s", what, how,
			 got.posted, ibv_wc_status_str(got.status),
			 untouched ? "untouched" : "CHANGED");
	}
	if (!got.posted && got.status)
		revive(&pair);
}

/* An attack over the network, by every kind of request. */
static void attack_remote(const char *what, uint32_t key, uint64_t addr,
			  uint32_t length)
{
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	unsigned int i;

	for (i = 0; i < 3; i++) {
		/*
		 * Atomics need eight aligned bytes, or they fail with another
		 * error.
		 */
		if (i == 2 && (addr % 8 || length != 8))
			continue;
		refill();
		judge(what, i == 0 ? "write" : i == 1 ? "read" : "atomic",
		      ask(&pair, opcodes[i], key, addr, length),
		      IBV_WC_REM_ACCESS_ERR);
	}
}

/* An attack by a process's own QP, with the key as lkey. */
static void attack_local(const char *what, uint32_t key, uint64_t addr,
			 uint32_t length)
{
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = 1,
		.local = (uint8_t *)(uintptr_t)addr, .length = length,
		.lkey = key, .remote = (uintptr_t)pair.b.buf,
		.rkey = pair.b.mr->rkey,
	};

	refill();
	judge(what, "gather", finish(&pair.a, post(&pair.a, &request)),
	      IBV_WC_LOC_PROT_ERR);
	request.opcode = IBV_WR_RDMA_READ;
	refill();
	judge(what, "scatter", finish(&pair.a, post(&pair.a, &request)),
	      IBV_WC_LOC_PROT_ERR);
}

static void report(const char *what, unsigned int tries_before,
		   unsigned int leaks_before)
{
	tap_ok(leaks == leaks_before, "%s: %u tries", what,
	       tries - tries_before);
}

#define SUITE(what, body)	do {					\
		unsigned int tries_was = tries, leaks_was = leaks;	\
		body;							\
		report(what, tries_was, leaks_was);			\
	} while (0)

/* Keys that differ from a valid one in one bit, or by one. */
static void near_keys(const char *what, uint32_t key)
{
	unsigned int bit;

	for (bit = 0; bit < 32; bit++) {
		uint32_t guess = key ^ 1u << bit;

		if (is_live(guess))
			continue;
		attack_remote(what, guess, start(), 8);
		if (bit % 4 == 0)
			attack_local(what, guess, start(), 8);
	}
	attack_remote(what, key + 1, start(), 8);
	attack_remote(what, key - 1, start(), 8);
}

/* Ranges that begin, end or wrap around outside of the MR. */
static void near_ranges(const char *what, uint32_t key, uint64_t first)
{
	static const struct {
		int64_t shift;
		uint32_t length;
	} ranges[] = {
		{ -1, 1 }, { -1, SIZE }, { -8, 8 }, { 1, SIZE }, { SIZE, 1 },
		{ SIZE, 8 }, { SIZE - 1, 2 }, { 0, SIZE + 1 },
		{ -(int64_t)SIZE, SIZE }, { INT64_MIN, 8 }, { INT64_MAX, 8 },
		{ 1ll << 32, 8 }, { -(1ll << 32), 8 },
	};
	unsigned int i;

	for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		attack_remote(what, key, first + (uint64_t)ranges[i].shift,
			      ranges[i].length);
	attack_remote(what, key, UINT64_MAX, 1);
	attack_remote(what, key, UINT64_MAX - 6, 8);
	attack_remote(what, key, UINT64_MAX - SIZE / 2, SIZE);
	if (first)
		attack_remote(what, key, 0, 8);
}

static void guess(unsigned int rounds)
{
	while (rounds--) {
		uint32_t key = (uint32_t)random() << 16 ^ (uint32_t)random();

		if (!is_live(key))
			attack_remote("guess", key, start(), 8);
	}
}

static void dead_keys(void)
{
	uint32_t old[16];
	unsigned int i;

	for (i = 0; i < 16; i++) {
		struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf, BUFFER,
					     ALL_ACCESS);

		old[i] = mr->rkey;
		ibv_dereg_mr(mr);
	}
	for (i = 0; i < 16; i++) {
		attack_remote("deregistered", old[i], start(), 8);
		attack_local("deregistered", old[i], start(), 8);
	}
}

static void other_pd(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(pair.ctx);
	struct ibv_mr *mr = must_reg(pd, pair.b.buf + FROM, SIZE, ALL_ACCESS);

	attack_remote("MR of another PD", mr->rkey, start(), 8);
	attack_local("MR of another PD", mr->lkey, start(), 8);
	if (ibv_dereg_mr(mr) || ibv_dealloc_pd(pd))
		tap_bail("cannot clean up");
}

/* As an rkey the null MR's key is refused: it does not even give zeros. */
static void null_mr(void)
{
	struct ibv_mr *null = ibv_alloc_null_mr(pair.pd);

	attack_remote("null MR", null->lkey, start(), 8);
	attack_remote("null MR", null->lkey, 0, 8);
	ibv_dereg_mr(null);
}

/* ---- windows ---- */

static void try_bind(const char *what, struct side *side, struct ibv_mw *mw,
		     struct ibv_mr *mr, uint64_t addr, uint64_t length)
{
	uint32_t key = mw->rkey, next = ibv_inc_rkey(key);

	refill();
	judge(what, "bind", bind_window(&apis[1], side, mw, next, mr, addr,
					length, RIGHTS), IBV_WC_MW_BIND_ERR);
	mw->rkey = key;
	attack_remote(what, next, addr, 8);
	attack_remote(what, key, addr, 8);
}

static void bad_windows(enum ibv_mw_type type, struct ibv_mr *bindable)
{
	struct ibv_pd *pd = ibv_alloc_pd(pair.ctx);
	struct ibv_mr *foreign = must_reg(pd, pair.b.buf + FROM, SIZE,
					  BINDABLE);
	struct ibv_mr *plain = must_reg(pair.pd, pair.b.buf + FROM, SIZE,
					ALL_ACCESS);
	struct ibv_mr *read_only = must_reg(pair.pd, pair.b.buf + FROM, SIZE,
					    IBV_ACCESS_MW_BIND |
					    IBV_ACCESS_REMOTE_READ);
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);
	struct ibv_mw *foreign_mw = must_alloc_mw(pd, type);
	unsigned int i;

	/* By both QPs: the victim's program may have been deceived. */
	for (i = 0; i < 2; i++) {
		struct side *side = i ? &pair.b : &pair.a;

		try_bind("wider at the start", side, mw, bindable,
			 start() - 1, SIZE);
		try_bind("wider at the end", side, mw, bindable, start(),
			 SIZE + 1);
		try_bind("wider than all", side, mw, bindable, start(),
			 UINT64_MAX);
		try_bind("from 0 on", side, mw, bindable, 0, UINT64_MAX);
		try_bind("around the end", side, mw, bindable, start() + 8,
			 (uint64_t)-8);
		try_bind("without MW_BIND", side, mw, plain, start(), SIZE);
		try_bind("more rights", side, mw, read_only, start(), SIZE);
		try_bind("MR of another PD", side, mw, foreign, start(), SIZE);
		try_bind("window of another PD", side, foreign_mw, foreign,
			 start(), SIZE);
	}
	if (ibv_dealloc_mw(mw) || ibv_dealloc_mw(foreign_mw) ||
	    ibv_dereg_mr(foreign) || ibv_dereg_mr(plain) ||
	    ibv_dereg_mr(read_only) || ibv_dealloc_pd(pd))
		tap_bail("cannot clean up: something is still bound");
}

static void window_keys(enum ibv_mw_type type, struct ibv_mr *bindable)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);
	unsigned int bit;

	for (bit = 0; bit < 32; bit++) {
		must_bind(&apis[1], &pair.b, mw, bindable, start(), SIZE,
			  RIGHTS);
		attack_remote("window, near key", mw->rkey ^ 1u << bit,
			      start(), 8);
		/*
		 * After the reset type 2 is unbound, and type 1 is bound by a
		 * new key.
		 */
	}
	if (type == IBV_MW_TYPE_1) {
		must_bind(&apis[1], &pair.b, mw, bindable, start(), SIZE,
			  RIGHTS);
		near_ranges("window", mw->rkey, start());
		must_bind(&apis[1], &pair.b, mw, bindable, start(), SIZE,
			  RIGHTS | IBV_ACCESS_ZERO_BASED);
		near_ranges("zero-based window", mw->rkey, 0);
	} else {
		must_bind(&apis[1], &pair.a, mw, bindable, start(), SIZE,
			  RIGHTS);
		attack_remote("window of another QP", mw->rkey, start(), 8);
	}
	attack_local("window as lkey", mw->rkey, start(), 8);
	if (ibv_dealloc_mw(mw))
		tap_bail("ibv_dealloc_mw");
	attack_remote("deallocated window", mw->rkey, start(), 8);
}

/* All earlier keys of a window. */
static void used_window_keys(struct ibv_mr *bindable)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, IBV_MW_TYPE_1);
	uint32_t first = mw->rkey & ~0xffu;
	unsigned int i;

	for (i = 0; i < 20; i++)
		must_bind(&apis[0], &pair.b, mw, bindable, start(), SIZE,
			  RIGHTS);
	for (i = 0; i < 256; i++)
		if ((first | i) != mw->rkey)
			attack_remote("window, used key", first | i, start(),
				      8);
	refill();
	tap_ok(!ask(&pair, IBV_WR_RDMA_READ, mw->rkey, start(), 8).status,
	       "the window's present key works");
	ibv_dealloc_mw(mw);
}

static void try_local_inv(const char *what, uint32_t key)
{
	refill();
	judge(what, "local invalidate", invalidate(&apis[0], &pair.a, key),
	      IBV_WC_MW_BIND_ERR);
}

static void try_send_inv(const char *what, uint32_t key)
{
	refill();
	/* Without data, for a message's data may be placed into the receive. */
	post_receive(&pair.b, 9, pair.b.buf, 64, pair.b.mr->lkey);
	judge(what, "send with invalidate",
	      finish(&pair.a, apis[0].send_inv(&pair.a, key, pair.a.buf, 0)),
	      IBV_WC_RETRY_EXC_ERR);
}

static bool works(uint32_t key)
{
	struct outcome o = ask(&pair, IBV_WR_RDMA_WRITE, key, start(), 8);

	return !o.posted && !o.status;
}

static void invalidations(struct ibv_mr *mr, struct ibv_mr *bindable)
{
	struct ibv_mw *one = must_alloc_mw(pair.pd, IBV_MW_TYPE_1);
	struct ibv_mw *two = must_alloc_mw(pair.pd, IBV_MW_TYPE_2);

	must_bind(&apis[0], &pair.b, one, bindable, start(), SIZE, RIGHTS);
	try_local_inv("plain MR", mr->rkey);
	try_send_inv("plain MR", mr->rkey);
	try_local_inv("type 1 window", one->rkey);
	try_send_inv("type 1 window", one->rkey);
	must_bind(&apis[0], &pair.b, two, bindable, start(), SIZE, RIGHTS);
	try_local_inv("another QP's window", two->rkey);
	must_bind(&apis[0], &pair.b, two, bindable, start(), SIZE, RIGHTS);
	try_send_inv("one bit off", two->rkey ^ 0x100);
	tap_ok(works(mr->rkey) && works(one->rkey),
	       "MR and window have survived the tries to invalidate them");
	ibv_dealloc_mw(one);
	ibv_dealloc_mw(two);
}

/* ---- memory that moves, processes that die ---- */

/*
 * Requests for an MR's old memory while it is re-registered with other memory:
 * once ibv_rereg_mr() has returned, the old memory must not change any more.
 */
static void racing_rereg(void)
{
	uint8_t *old = aligned_alloc(4096, 4096), *copy = malloc(4096);
	uint8_t *new = aligned_alloc(4096, 4096);
	struct ibv_mr *mr = must_reg(pair.pd, old, 4096, ALL_ACCESS);
	unsigned int round, i, stale = 0;
	struct ibv_wc wc;

	for (round = 0; round < 30; round++) {
		uint8_t *place = round & 1 ? new : old;
		uint8_t *next = round & 1 ? old : new;

		fill(pair.a.buf, BUFFER, 1);
		for (i = 0; i < 8; i++) {
			struct request request = {
				.opcode = IBV_WR_RDMA_WRITE, .wr_id = i,
				.local = pair.a.buf + 8 * (round + i),
				.length = 4096, .lkey = pair.a.mr->lkey,
				.remote = (uintptr_t)place, .rkey = mr->rkey,
			};

			post(&pair.a, &request);
		}
		if (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				 next, 4096, 0))
			tap_bail("ibv_rereg_mr: %s", strerror(errno));
		memcpy(copy, place, 4096);
		for (i = 0; i < 8; i++)
			if (!wait_wc(pair.a.send_cq, &wc))
				tap_bail("no completion");
		stale += memcmp(copy, place, 4096) != 0;
		tries++;
		revive(&pair);
	}
	leaks += stale;
	if (ibv_dereg_mr(mr))
		tap_bail("ibv_dereg_mr");
	free(old);
	free(new);
	free(copy);
}

struct victim {
	uint64_t addr;
	uint32_t rkey, mw_rkey;
};

/* Starts a process with a secret, an MR and a window. */
static pid_t start_victim(struct victim *victim, const char *name)
{
	int fds[2];
	pid_t pid;

	if (pipe(fds))
		tap_bail("pipe");
	pid = fork();
	if (!pid) {
		struct ibv_device_attr attr;
		struct pair own = {};
		struct ibv_mr *mr;
		struct ibv_mw *mw;

		pair_open(&own, open_nic(name, &attr), &pair_defaults);
		pair_connect(&own);
		fill(own.b.buf, 4096, 9);
		mr = must_reg(own.pd, own.b.buf, 4096, ALL_ACCESS |
			      IBV_ACCESS_MW_BIND);
		mw = must_alloc_mw(own.pd, IBV_MW_TYPE_1);
		must_bind(&apis[0], &own.b, mw, mr, (uintptr_t)own.b.buf, 4096,
			  RIGHTS);
		*victim = (struct victim){ (uintptr_t)own.b.buf, mr->rkey,
					   mw->rkey };
		if (write(fds[1], victim, sizeof(*victim)) != sizeof(*victim))
			_exit(1);
		for (;;)
			pause();
	}
	close(fds[1]);
	if (pid < 0 || read(fds[0], victim, sizeof(*victim)) !=
	    sizeof(*victim))
		tap_bail("no victim");
	close(fds[0]);
	return pid;
}

static void attack_victim(const char *what, const struct victim *victim)
{
	attack_remote(what, victim->rkey, victim->addr, 8);
	attack_remote(what, victim->mw_rkey, victim->addr, 8);
	attack_local(what, victim->rkey, victim->addr, 8);
	attack_local(what, victim->mw_rkey, victim->addr, 8);
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;
	const char *name = argc > 1 ? argv[1] : NULL;
	struct ibv_mr *mr, *bindable;
	struct ibv_device_attr attr;
	struct victim victim;
	pid_t pid;

	/* Fork before this process has a context that the child would share. */
	pid = start_victim(&victim, name);
	config.buffer_size = BUFFER;
	config.send_ops = WINDOW_OPS;
	pair_open(&pair, open_nic(name, &attr), &config);
	pair_connect(&pair);
	mr = must_reg(pair.pd, pair.b.buf + FROM, SIZE, ALL_ACCESS);
	bindable = must_reg(pair.pd, pair.b.buf + FROM, SIZE, BINDABLE);
	live(pair.a.mr->rkey);
	live(pair.b.mr->rkey);
	live(mr->rkey);
	live(bindable->rkey);
	srandom(1);

	SUITE("keys near a good one", near_keys("MR, near key", mr->rkey));
	SUITE("ranges near an MR", near_ranges("MR", mr->rkey, start()));
	SUITE("guesses", guess(50));
	SUITE("keys of deregistered MRs", dead_keys());
	SUITE("keys of another PD", other_pd());
	SUITE("the null MR from afar", null_mr());
	SUITE("binds, type 1", bad_windows(IBV_MW_TYPE_1, bindable));
	SUITE("binds, type 2", bad_windows(IBV_MW_TYPE_2, bindable));
	SUITE("windows, type 1", window_keys(IBV_MW_TYPE_1, bindable));
	SUITE("windows, type 2", window_keys(IBV_MW_TYPE_2, bindable));
	SUITE("used keys of a window", used_window_keys(bindable));
	SUITE("invalidation", invalidations(mr, bindable));
	SUITE("rereg against traffic", racing_rereg());
	SUITE("keys of another process", attack_victim("alive", &victim));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	SUITE("keys of a dead process", attack_victim("dead", &victim));

	tap_ok(!leaks, "cases tried: %u, leaks found: %u", tries, leaks);
	if (ibv_dereg_mr(mr) || ibv_dereg_mr(bindable))
		tap_bail("cannot clean up");
	pair_close(&pair);
	ibv_close_device(pair.ctx);
	return tap_done();
}
