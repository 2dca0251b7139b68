// SPDX-License-Identifier: GPL-2.0
/* timeout: 180
 *
 * The owner of a dma-buf moves it, at rest and under traffic. Accesses by the MR find
 * its contents, wherever they are, and the NIC does not touch the pages that the buffer
 * has left: the owner fills these with one byte, and checks them at each move. On a
 * kernel where a registered buffer cannot move, the test shows just that.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counts.h"
#include "owner.h"
#include "paged.h"
#include "tap.h"
#include "window.h"

#define SIZE	BUFFER_SIZE
#define ROUNDS	200

static struct ibv_device_attr attr;
static struct ibv_context *ctx;
static struct pair pair;

static struct buffer make(void)
{
	struct buffer b = buffer_make();

	buffer_reg(&b, pair.pd);
	return b;
}

static void dereg(struct ibv_mr *mr)
{
	int err = ibv_dereg_mr(mr);

	if (err)
		tap_bail("ibv_dereg_mr: %s", strerror(err));
}

static void drop(struct buffer *b)
{
	dereg(b->mr);
	buffer_put(b);
}

/* A request of side a on the dma-buf, by its rkey. */
static struct request remote(enum ibv_wr_opcode opcode, const struct buffer *b,
			     uint64_t iova, uint32_t length)
{
	return (struct request){
		.opcode = opcode, .wr_id = 7, .local = pair.a.buf,
		.length = length, .lkey = pair.a.mr->lkey,
		.rkey = b->mr->rkey, .remote = iova, .compare_add = 5,
	};
}

static struct request local(enum ibv_wr_opcode opcode, const struct buffer *b,
			    uint64_t iova, uint32_t length)
{
	return (struct request){
		.opcode = opcode, .wr_id = 7, .local = (uint8_t *)(uintptr_t)iova,
		.length = length, .lkey = b->mr->lkey,
		.rkey = pair.b.mr->rkey, .remote = (uintptr_t)pair.b.buf,
	};
}

static enum ibv_wc_status status_of(struct pair *p, struct request request)
{
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };

	if (post(&p->a, &request) || !wait_wc(p->a.send_cq, &wc))
		return IBV_WC_GENERAL_ERR;
	return wc.status;
}

static bool done(struct request request)
{
	return status_of(&pair, request) == IBV_WC_SUCCESS;
}

static void move(const struct buffer *b)
{
	owner_must(EXPORTER_MOVE, b);
}

/* ---- at rest ---- */

static bool received(const struct buffer *b)
{
	struct request send = {
		.opcode = IBV_WR_SEND, .wr_id = 7, .local = pair.a.buf,
		.length = SIZE, .lkey = pair.a.mr->lkey,
	};
	struct ibv_wc wc;

	return !post_receive(&pair.b, 6, NULL, SIZE, b->mr->lkey) &&
	       done(send) && wait_wc(pair.b.recv_cq, &wc) &&
	       wc.status == IBV_WC_SUCCESS && is_filled(b->at, SIZE, 5);
}

/* A move before each operation, which finds what the operation before it wrote. */
static void test_at_rest(void)
{
	struct buffer b = make();
	struct paged before, after;

	fill(b.at, SIZE, 1);
	before = paged_counts();
	move(&b);
	tap_ok(is_filled(b.at, SIZE, 1), "the process sees it where it is");
	tap_ok(done(remote(IBV_WR_RDMA_READ, &b, 0, SIZE)) &&
	       is_filled(pair.a.buf, SIZE, 1), "moved: READ from it");
	move(&b);
	fill(pair.a.buf, SIZE, 2);
	tap_ok(done(remote(IBV_WR_RDMA_WRITE, &b, 0, SIZE)) &&
	       is_filled(b.at, SIZE, 2), "moved: WRITE into it");
	move(&b);
	tap_ok(done(local(IBV_WR_RDMA_WRITE, &b, 0, SIZE)) &&
	       is_filled(pair.b.buf, SIZE, 2), "moved: WRITE out of it");
	move(&b);
	fill(pair.b.buf, SIZE, 4);
	tap_ok(done(local(IBV_WR_RDMA_READ, &b, 0, SIZE)) &&
	       is_filled(b.at, SIZE, 4), "moved: READ into it");
	move(&b);
	fill(pair.a.buf, SIZE, 5);
	tap_ok(received(&b), "moved: SEND into it");
	move(&b);
	*(uint64_t *)(b.at + 8) = 37;
	tap_ok(done(remote(IBV_WR_ATOMIC_FETCH_AND_ADD, &b, 8, 8)) &&
	       *(uint64_t *)(b.at + 8) == 42 && *(uint64_t *)pair.a.buf == 37,
	       "moved: an atomic");
	after = paged_counts();
	tap_is((long long)(after.handled - before.handled), 6,
	       "one page request each");
	tap_is((long long)(after.invalidations - before.invalidations), 6 * EXPORTER_PAGES,
	       "and nothing else was invalidated");
	move(&b);
	drop(&b);
}

/* An MR of a part of the buffer that begins and ends inside pages. */
static void test_range(void)
{
	struct buffer b = make();
	uint64_t offset = 3 * PAGE + 7, length = 2 * PAGE + 1;
	struct ibv_mr *all = b.mr;

	b.mr = ibv_reg_dmabuf_mr(pair.pd, offset, length, PAGE + 7, b.fd,
				 ALL_ACCESS);
	if (!b.mr)
		tap_bail("ibv_reg_dmabuf_mr: %s", strerror(errno));
	memset(b.at, 0xee, SIZE);
	move(&b);
	fill(pair.a.buf, (uint32_t)length, 1);
	tap_ok(done(remote(IBV_WR_RDMA_WRITE, &b, PAGE + 7, (uint32_t)length)) &&
	       is_filled(b.at + offset, length, 1) && b.at[offset - 1] == 0xee &&
	       b.at[offset + length] == 0xee, "some bytes, with an iova");
	move(&b);
	tap_ok(!done(remote(IBV_WR_RDMA_WRITE, &b, PAGE + 7,
			    (uint32_t)length + 1)), "not one more");
	revive(&pair);
	dereg(b.mr);
	b.mr = all;
	tap_ok(done(remote(IBV_WR_RDMA_READ, &b, offset, (uint32_t)length)) &&
	       is_filled(pair.a.buf, length, 1), "the other MR has moved, too");
	drop(&b);
}

/* ---- under traffic ---- */

struct mover {
	const struct buffer *b;
	pthread_t thread;
	bool stop;
	unsigned long moves;
	int err;
};

static void *mover_run(void *arg)
{
	struct mover *mover = arg;

	while (!__atomic_load_n(&mover->stop, __ATOMIC_RELAXED) && !mover->err) {
		mover->err = owner_does(EXPORTER_MOVE, mover->b);
		__atomic_add_fetch(&mover->moves, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void mover_start(struct mover *mover, const struct buffer *b)
{
	*mover = (struct mover){ .b = b };
	if (pthread_create(&mover->thread, NULL, mover_run, mover))
		tap_bail("pthread_create");
}

static int mover_stop(struct mover *mover)
{
	__atomic_store_n(&mover->stop, true, __ATOMIC_RELAXED);
	pthread_join(mover->thread, NULL);
	return mover->err ? mover->err : owner_does(EXPORTER_MOVE, mover->b);
}

/* Data to the buffer and back, by WRITE and READ and by each key. */
static bool round_trip(const struct buffer *b, uint8_t seed)
{
	fill(pair.a.buf, SIZE, seed);
	if (!done(remote(IBV_WR_RDMA_WRITE, b, 0, SIZE)) ||
	    !is_filled(b->at, SIZE, seed))
		return false;
	memset(pair.b.buf, 0, SIZE);
	if (!done(local(IBV_WR_RDMA_WRITE, b, 0, SIZE)) ||
	    !is_filled(pair.b.buf, SIZE, seed))
		return false;
	fill(pair.b.buf, SIZE, seed + 1);
	if (!done(local(IBV_WR_RDMA_READ, b, 0, SIZE)) ||
	    !is_filled(b->at, SIZE, seed + 1))
		return false;
	return done(remote(IBV_WR_RDMA_READ, b, 0, SIZE)) &&
	       is_filled(pair.a.buf, SIZE, seed + 1);
}

static void test_under_traffic(void)
{
	struct buffer b = make();
	struct paged before = paged_counts(), after;
	struct mover mover;
	unsigned int i;

	mover_start(&mover, &b);
	for (i = 0; i < ROUNDS && round_trip(&b, (uint8_t)(2 * i)); i++)
		;
	tap_is(i, ROUNDS, "data there and back while it moves");
	tap_is(mover_stop(&mover), 0, "nobody has written where it had been");
	after = paged_counts();
	tap_diag("%lu moves, %llu page requests", mover.moves,
		 after.handled - before.handled);
	tap_ok(mover.moves >= ROUNDS && after.handled - before.handled >= ROUNDS / 4,
	       "it has moved all the while");
	drop(&b);
}

/* MRs are deregistered while the buffer moves and is written. */
static void test_dereg(void)
{
	struct buffer b = buffer_make();
	unsigned int i, wrong = 0;
	struct mover mover;

	mover_start(&mover, &b);
	for (i = 0; i < ROUNDS; i++) {
		struct request request;
		struct ibv_wc wc = {};

		buffer_reg(&b, pair.pd);
		request = remote(IBV_WR_RDMA_WRITE, &b, 0, SIZE);
		if (post(&pair.a, &request))
			tap_bail("posting");
		dereg(b.mr);
		wrong += !wait_wc(pair.a.send_cq, &wc) ||
			 (wc.status != IBV_WC_SUCCESS &&
			  wc.status != IBV_WC_REM_ACCESS_ERR);
		if (wc.status)
			revive(&pair);
	}
	tap_is(wrong, 0, "deregistered while it moves and is written");
	tap_is(mover_stop(&mover), 0, "nobody has written where it had been");
	buffer_put(&b);
}

/* A process that writes to the buffer until it is killed. */
static _Noreturn void write_for_ever(struct buffer *b)
{
	struct pair own = {};

	own.config = pair_defaults;
	own.config.buffer_size = SIZE;
	pair_open(&own, open_nic(NULL, &attr), &own.config);
	pair_connect(&own);
	buffer_reg(b, own.pd);
	for (;;)
		status_of(&own, (struct request){
			.opcode = IBV_WR_RDMA_WRITE, .wr_id = 7,
			.local = own.a.buf, .length = SIZE,
			.lkey = own.a.mr->lkey, .rkey = b->mr->rkey });
}

static void test_exit(void)
{
	struct buffer b = buffer_make();
	unsigned int i, clean = 0;
	struct mover mover;

	for (i = 0; i < 5; i++) {
		pid_t child;
		int status;

		b.at[0] = 1;
		child = fork();
		if (!child)
			write_for_ever(&b);
		/* The child has begun when it has overwritten this byte. */
		while (__atomic_load_n(&b.at[0], __ATOMIC_RELAXED) == 1)
			;
		mover_start(&mover, &b);
		while (__atomic_load_n(&mover.moves, __ATOMIC_RELAXED) < 50)
			;
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		clean += !mover_stop(&mover);
	}
	tap_is(clean, 5, "a process is killed that writes to it while it moves");
	buffer_put(&b);
}

/* ---- when it cannot be mapped ---- */

/* Each failure fails one access; the next one finds what was in the buffer. */
static void test_failed(void)
{
	struct buffer b = make();

	fill(b.at, SIZE, 7);
	move(&b);
	owner_must(EXPORTER_FAIL, &b);
	tap_is(status_of(&pair, remote(IBV_WR_RDMA_WRITE, &b, 0, 8)),
	       IBV_WC_REM_ACCESS_ERR, "it cannot be mapped again: REM_ACCESS_ERR");
	revive(&pair);
	tap_ok(done(remote(IBV_WR_RDMA_READ, &b, 0, SIZE)) &&
	       is_filled(pair.a.buf, SIZE, 7), "then it can: READ from it");
	move(&b);
	owner_must(EXPORTER_SHORT, &b);
	tap_is(status_of(&pair, local(IBV_WR_RDMA_READ, &b, 0, 8)),
	       IBV_WC_LOC_PROT_ERR, "locally, too short: LOC_PROT_ERR");
	revive(&pair);
	tap_ok(done(local(IBV_WR_RDMA_WRITE, &b, 0, SIZE)) &&
	       is_filled(pair.b.buf, SIZE, 7), "then it can: WRITE out of it");
	tap_is(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    ALL_ACCESS), IBV_REREG_MR_ERR_INPUT,
	       "it cannot be registered anew");
	tap_is(live_mrs(), 3, "its MR is there still");
	drop(&b);
}

/* The owner refuses every mapping from now on. */
static void test_taken_back(void)
{
	struct buffer b = make(), other = make();

	move(&b);
	owner_must(EXPORTER_TAKE_BACK, &b);
	tap_is(status_of(&pair, remote(IBV_WR_RDMA_WRITE, &b, 0, 8)),
	       IBV_WC_REM_ACCESS_ERR, "taken back after moves: REM_ACCESS_ERR");
	revive(&pair);
	tap_is(status_of(&pair, local(IBV_WR_RDMA_READ, &b, 0, 8)),
	       IBV_WC_LOC_PROT_ERR, "locally: LOC_PROT_ERR");
	revive(&pair);
	tap_ok(buffer_is_marked(&b), "and nothing written");
	move(&other);
	tap_ok(done(remote(IBV_WR_RDMA_WRITE, &other, 0, SIZE)),
	       "another one is served");
	drop(&b);
	drop(&other);
}

/* ---- while a move is under way ---- */

#define STUCK	5	/* requests: more than a context has workers */

static struct pair stuck[STUCK];

static bool nothing_completed(struct pair *p)
{
	struct ibv_wc wc;

	return ibv_poll_cq(p->a.send_cq, 1, &wc) == 0;
}

static void stuck_open(const struct buffer *b)
{
	struct request request = remote(IBV_WR_RDMA_WRITE, b, 0, 64);
	int i;

	for (i = 0; i < STUCK; i++) {
		stuck[i] = (struct pair){ .pd = pair.pd };
		pair_open(&stuck[i], ctx, &pair_defaults);
		pair_connect(&stuck[i]);
		fill(stuck[i].a.buf, 64, (uint8_t)i);
		request.local = stuck[i].a.buf;
		request.lkey = stuck[i].a.mr->lkey;
		request.remote = (uint64_t)i * PAGE;
		if (post(&stuck[i].a, &request))
			tap_bail("posting");
	}
}

static unsigned int stuck_done(enum ibv_wc_status status)
{
	unsigned int i, as_due = 0;
	struct ibv_wc wc;

	for (i = 0; i < STUCK; i++)
		as_due += wait_wc(stuck[i].a.send_cq, &wc) &&
			  wc.status == status;
	return as_due;
}

static void stuck_close(void)
{
	int i;

	for (i = 0; i < STUCK; i++)
		pair_close(&stuck[i]);
}

/* Meanwhile page requests for the process's memory and other buffers are served. */
static void expect_others_go_on(void)
{
	uint8_t *memory = map_pages(SIZE);
	struct buffer other = make();
	struct buffer paged = {
		.mr = ibv_reg_mr(pair.pd, memory, SIZE, ON_DEMAND),
	};
	unsigned int i;

	for (i = 0; i < 20; i++) {
		madvise(memory, SIZE, MADV_DONTNEED);
		if (!done(remote(IBV_WR_RDMA_WRITE, &paged, (uintptr_t)memory,
				 SIZE)))
			break;
	}
	tap_is(i, 20, "under way: pages of the process are served");
	dereg(paged.mr);
	drop(&other);
	munmap(memory, SIZE);
}

static void test_fence(void)
{
	struct buffer b = make();
	unsigned int i, right = 0;

	owner_must(EXPORTER_MOVE_BEGIN, &b);
	stuck_open(&b);
	expect_others_go_on();
	tap_ok(nothing_completed(&stuck[0]), "nothing is written before it is there");
	owner_must(EXPORTER_MOVE_END, &b);
	tap_is(stuck_done(IBV_WC_SUCCESS), STUCK, "then all go on");
	for (i = 0; i < STUCK; i++)
		right += is_filled(b.at + i * PAGE, 64, (uint8_t)i);
	tap_is(right, STUCK, "with their data");
	stuck_close();

	owner_must(EXPORTER_MOVE_BEGIN, &b);
	stuck_open(&b);
	tap_is(ibv_dereg_mr(b.mr), 0, "under way it is deregistered");
	owner_must(EXPORTER_MOVE_END, &b);
	tap_is(stuck_done(IBV_WC_REM_ACCESS_ERR), STUCK, "who waits is told");
	stuck_close();

	buffer_reg(&b, pair.pd);
	owner_must(EXPORTER_MOVE_BEGIN, &b);
	stuck_open(&b);
	stuck_close();
	tap_ok(true, "and whoever waits may leave");
	owner_must(EXPORTER_MOVE_END, &b);
	tap_is(owner_does(EXPORTER_MOVE, &b), 0, "nobody has written where it had been");
	drop(&b);
}

static void test_advise(void)
{
	struct buffer b = make();
	struct ibv_sge sge = { .length = SIZE, .lkey = b.mr->lkey };
	struct paged before = paged_counts(), after;

	move(&b);
	tap_is(ibv_advise_mr(pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			     IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), 0,
	       "it is mapped on advice");
	tap_ok(done(remote(IBV_WR_RDMA_WRITE, &b, 0, SIZE)), "and written");
	after = paged_counts();
	tap_is((long long)(after.faults - before.faults), 0,
	       "without a page request");
	tap_is((long long)(after.prefetched - before.prefetched), EXPORTER_PAGES,
	       "all of it was prefetched");
	drop(&b);
}

static void test_moving(void)
{
	test_at_rest();
	test_range();
	test_under_traffic();
	test_dereg();
	test_exit();
	test_failed();
	test_taken_back();
	test_fence();
	test_advise();
}

/* A registered buffer is pinned: it can be taken back (test_dmabuf_owner), not moved. */
static void test_pinned(void)
{
	struct buffer b = make();

	fill(pair.a.buf, SIZE, 1);
	tap_ok(done(remote(IBV_WR_RDMA_WRITE, &b, 0, SIZE)), "WRITE into it");
	tap_is(owner_does(EXPORTER_MOVE, &b), EBUSY, "it cannot move");
	tap_ok(is_filled(b.at, SIZE, 1), "and is where it was");
	dereg(b.mr);
	tap_is(owner_does(EXPORTER_MOVE, &b), 0, "deregistered, it can");
	buffer_reg(&b, pair.pd);
	tap_ok(done(remote(IBV_WR_RDMA_READ, &b, 0, SIZE)) &&
	       is_filled(pair.a.buf, SIZE, 1), "and is found where it is");
	drop(&b);
}

static bool can_move(void)
{
	struct buffer b = make();
	int err = owner_does(EXPORTER_MOVE, &b);

	drop(&b);
	return !err;
}

int main(void)
{
	struct pair_config config = pair_defaults;
	long pinned = pinned_pages();
	bool moves;

	owner_open();
	config.buffer_size = SIZE;
	ctx = open_nic(NULL, &attr);
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	moves = can_move();
	owner_expects(moves);
	if (moves)
		test_moving();
	else
		test_pinned();
	pair_close(&pair);
	owner_close();
	expect_nothing_left(pinned);
	return tap_done();
}
