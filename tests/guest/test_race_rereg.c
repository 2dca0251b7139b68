// SPDX-License-Identifier: GPL-2.0
/*
 * Re-registering under traffic: a message uses the old memory, the new one, or fails,
 * but never uses both; once ibv_rereg_mr() has returned, the old memory does not change
 * any more.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tap.h"
#include "window.h"

/*
 * So long that the NIC handles other work, such as a rereg, in the middle of a message.
 */
#define LENGTH	(1u << 20)
#define READERS	4
#define AT_ONCE	2		/* READs of a reader under way */
#define MOVES	120
#define ROUNDS	128
/* A race that has not shown by then is given up. */
#define MOST		30	/* times as many of either */
#define PATIENCE_NS	20000000000ull

/* Results of the READs of all readers. */
static struct {
	atomic_uint met[2], refused, mixed, odd;
} reads;

static struct ibv_mr *mr;
static uint8_t *place[2];	/* the memory of the MR, in turn */
static uint64_t remote;		/* the MR's first address, always the same */
static atomic_bool over;
static atomic_bool begun;

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static uint8_t *map(void)
{
	uint8_t *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1,
			       0);

	if (memory == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	return memory;
}

/* Unlike is_all(), says nothing of the first other byte: this is asked of either place. */
static bool consists_of(const uint8_t *buf, size_t size, uint8_t value)
{
	return buf[0] == value && !memcmp(buf, buf + 1, size - 1);
}

/* Sorts a READ by its result. Its data must come from one place alone. */
static void judge(const uint8_t *buf, const struct ibv_wc *wc)
{
	if (ended_with(wc->status, IBV_WC_REM_ACCESS_ERR))
		atomic_fetch_add(&reads.refused, 1);
	else if (wc->status && wc->status != IBV_WC_WR_FLUSH_ERR)
		atomic_fetch_add(&reads.odd, 1);
	else if (!wc->status && consists_of(buf, LENGTH, 1))
		atomic_fetch_add(&reads.met[0], 1);
	else if (!wc->status && consists_of(buf, LENGTH, 2))
		atomic_fetch_add(&reads.met[1], 1);
	else if (!wc->status)
		atomic_fetch_add(&reads.mixed, 1);
}

/* A thread that reads the MR without a pause. */
static void *read_on(void *arg)
{
	struct pair *pair = arg;
	struct side *a = &pair->a;
	struct request request = {
		.opcode = IBV_WR_RDMA_READ, .length = LENGTH,
		.lkey = a->mr->lkey, .remote = remote, .rkey = mr->rkey,
	};
	struct ibv_wc wc;
	bool failed;
	int i;

	while (!atomic_load(&over)) {
		memset(a->buf, 0, AT_ONCE * LENGTH);
		for (i = 0; i < AT_ONCE; i++) {
			request.wr_id = i;
			request.local = a->buf + i * LENGTH;
			if (post(a, &request))
				tap_bail("posting a READ");
		}
		for (i = 0, failed = false; i < AT_ONCE; i++) {
			if (!wait_wc(a->send_cq, &wc))
				tap_bail("a READ is lost");
			judge(a->buf + wc.wr_id * LENGTH, &wc);
			failed |= wc.status;
		}
		if (failed)
			pair_reset(pair);
	}
	return NULL;
}

static void move_to(int where)
{
	int err = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
			       place[where], LENGTH, 0);

	if (err)
		tap_bail("ibv_rereg_mr: %d, %s", err, strerror(errno));
}

/* Moves the MR to a place, and waits until a READ has used that. */
static void stay_at(int where)
{
	unsigned int before = atomic_load(&reads.met[where]);
	uint64_t start = now_ns();

	move_to(where);
	while (atomic_load(&reads.met[where]) == before) {
		if (now_ns() - start > PATIENCE_NS)
			tap_bail("no READ has met a place");
		sched_yield();
	}
}

/*
 * Moves the MR between its places under the readers, until a READ has met the change.
 */
static void race_reads(struct pair *readers)
{
	pthread_t threads[READERS];
	int i;

	for (i = 0; i < READERS; i++)
		if (pthread_create(&threads[i], NULL, read_on, &readers[i]))
			tap_bail("pthread_create");
	for (i = 0; i < MOVES || (!atomic_load(&reads.refused) && i < MOST * MOVES); i++) {
		/* 7 is odd, so that this visits both places in turn. */
		if (i % 7 == 0)
			stay_at(~i & 1);
		else
			move_to(~i & 1);
	}
	atomic_store(&over, true);
	for (i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	tap_ok(reads.met[0] && reads.met[1], "READs met either place: %u and %u times",
	       reads.met[0], reads.met[1]);
	tap_ok(reads.refused, "or an error: %u times", reads.refused);
	tap_is(reads.mixed, 0, "no READ met both");
	tap_is(reads.odd, 0, "and no other error");
}

/*
 * A WRITE that begins @delay after the rereg that it races with; if negative, before.
 */
struct late_write {
	struct pair *pair;
	int64_t delay;		/* ns */
	struct outcome outcome;
};

static void wait_for(int64_t delay)
{
	uint64_t start = now_ns();

	while (delay > 0 && now_ns() - start < (uint64_t)delay)
		;
}

static void *write_late(void *arg)
{
	struct late_write *write = arg;
	struct side *a = &write->pair->a;
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = 1, .local = a->buf,
		.length = LENGTH, .lkey = a->mr->lkey,
		.remote = remote, .rkey = mr->rkey,
	};

	atomic_store(&begun, true);
	wait_for(write->delay);
	write->outcome = finish(a, post(a, &request));
	return NULL;
}

struct score {
	unsigned int old, new, refused, wrong;
};

static void race_one_write(struct late_write *write, int from,
			   struct score *score)
{
	static uint8_t copy[LENGTH];
	uint8_t *old = place[from], *new = place[!from];
	struct outcome *o = &write->outcome;
	pthread_t thread;

	memset(old, 0, LENGTH);
	memset(new, 0, LENGTH);
	atomic_store(&begun, false);
	if (pthread_create(&thread, NULL, write_late, write))
		tap_bail("pthread_create");
	while (!atomic_load(&begun))
		sched_yield();
	wait_for(-write->delay);
	move_to(!from);
	/* From here on the old place must not change. */
	memcpy(copy, old, LENGTH);
	pthread_join(thread, NULL);
	score->wrong += !!memcmp(copy, old, LENGTH);
	if (o->posted ||
	    (o->status && !ended_with(o->status, IBV_WC_REM_ACCESS_ERR)))
		score->wrong++;
	else if (o->status)
		score->refused++;
	else if (consists_of(old, LENGTH, 7) && consists_of(new, LENGTH, 0))
		score->old++;
	else if (consists_of(new, LENGTH, 7) && consists_of(old, LENGTH, 0))
		score->new++;
	else
		score->wrong++;
	if (o->status && !consists_of(new, LENGTH, 0))
		score->wrong++;
	if (o->status)
		pair_reset(write->pair);
}

/*
 * The delays cover all of the time that a rereg takes on this machine, around a moment
 * at which half of the WRITEs are early enough for the old place: each WRITE to the old
 * place moves it to later, each to the new place to earlier. So both results show,
 * however slowly this machine posts.
 */
static void race_writes(struct pair *pair)
{
	struct late_write write = { .pair = pair };
	int64_t start, longest = 1, moment = 0;
	struct score score = {}, before;
	int i;

	memset(pair->a.buf, 7, LENGTH);
	move_to(0);
	for (i = 0; i < ROUNDS || (!(score.old && score.new) && i < MOST * ROUNDS); i++) {
		before = score;
		start = now_ns();
		race_one_write(&write, i & 1, &score);
		if (i < 8)
			longest = now_ns() - start;
		moment += longest / 16 * ((int)(score.old - before.old) -
					  (int)(score.new - before.new));
		write.delay = moment + longest * (i % 64 - 32) / 64;
	}
	tap_is(score.wrong, 0, "WRITEs: one place or an error, and never too late");
	tap_ok(score.old && score.new, "some met the old, some the new place: %u, %u; %u an error",
	       score.old, score.new, score.refused);
}

int main(void)
{
	struct pair_config config = pair_defaults;
	struct pair readers[READERS] = {};
	struct ibv_device_attr attr;
	struct pair pair = {};
	int i;

	config.buffer_size = AT_ONCE * LENGTH;
	/*
	 * One second: a NIC that is starved of processor time must not resend a READ
	 * whose key is dead by then, for it would get no answer and end in another
	 * error.
	 */
	config.timeout = 18;
	pair_open(&pair, open_nic(NULL, &attr), &config);
	pair_connect(&pair);
	for (i = 0; i < READERS; i++) {
		readers[i].pd = pair.pd;
		pair_open(&readers[i], pair.ctx, &config);
		pair_connect(&readers[i]);
	}
	for (i = 0; i < 2; i++) {
		place[i] = map();
		memset(place[i], i + 1, LENGTH);
	}
	/* With an iova, the remote address stays when the memory is replaced. */
	mr = must_reg(pair.pd, place[0], LENGTH,
		      ALL_ACCESS | IBV_ACCESS_ZERO_BASED);
	race_reads(readers);
	race_writes(&pair);
	if (ibv_dereg_mr(mr))
		tap_bail("ibv_dereg_mr");
	for (i = 0; i < READERS; i++)
		pair_close(&readers[i]);
	pair_close(&pair);
	return tap_done();
}
