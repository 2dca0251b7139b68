// SPDX-License-Identifier: GPL-2.0
/*
 * The owner of a dma-buf takes it back, at rest and under traffic: afterwards no access
 * reaches it, the MR keeps its key, which is of no use, and nothing else is disturbed.
 * The owner is a test module (tests/kernel/exporter.c).
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "counts.h"
#include "owner.h"
#include "tap.h"
#include "window.h"

#define SIZE	BUFFER_SIZE
#define ROUNDS	50

static struct pair pair;
static struct ibv_device_attr attr;

static struct buffer make(void)
{
	struct buffer b = buffer_make();

	buffer_reg(&b, pair.pd);
	return b;
}

static enum ibv_wc_status write_to(const struct buffer *b, uint32_t length)
{
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = 7, .local = pair.a.buf,
		.length = length, .lkey = pair.a.mr->lkey,
		.rkey = b->mr->rkey, .remote = 0,
	};
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };

	if (post(&pair.a, &request) || !wait_wc(pair.a.send_cq, &wc))
		return IBV_WC_GENERAL_ERR;
	return wc.status;
}

static void test_at_rest(void)
{
	struct buffer b = make(), other = make();
	uint8_t *own = pair.b.buf;
	struct ibv_wc wc;

	fill(pair.a.buf, SIZE, 1);
	tap_is(write_to(&b, SIZE), IBV_WC_SUCCESS, "a WRITE into it");
	tap_ok(is_filled(b.at, SIZE, 1), "arrives");
	owner_must(EXPORTER_TAKE_BACK, &b);
	tap_is(write_to(&b, SIZE), IBV_WC_REM_ACCESS_ERR,
	       "taken back: REM_ACCESS_ERR");
	tap_ok(buffer_is_marked(&b), "not a byte of it is written");
	revive(&pair);
	tap_is(post(&pair.a, &(struct request){
		.opcode = IBV_WR_RDMA_READ, .wr_id = 8, .local = 0,
		.length = 8, .lkey = b.mr->lkey, .rkey = pair.b.mr->rkey,
		.remote = (uintptr_t)own }), 0, "a READ into it is posted");
	expect_wc(pair.a.send_cq, 8, IBV_WC_LOC_PROT_ERR, &wc, "LOC_PROT_ERR");
	revive(&pair);
	tap_is(write_to(&other, SIZE), IBV_WC_SUCCESS, "another one is served");
	owner_must(EXPORTER_TAKE_BACK, &b);
	tap_ok(!ibv_reg_dmabuf_mr(pair.pd, 0, SIZE, 0, b.fd, ALL_ACCESS) &&
	       errno == ENODEV, "registered anew: what its owner says, %s",
	       strerror(errno));
	tap_is(live_mrs(), 4, "its MR is there still");
	tap_is(ibv_dereg_mr(b.mr), 0, "and is deregistered");
	tap_is(ibv_dereg_mr(other.mr), 0, "as is the other one");
	buffer_put(&b);
	buffer_put(&other);
}

static void test_failing(void)
{
	struct buffer b = buffer_make();

	owner_must(EXPORTER_FAIL, &b);
	tap_ok(!ibv_reg_dmabuf_mr(pair.pd, 0, SIZE, 0, b.fd, ALL_ACCESS) &&
	       errno == EXPORTER_ERROR, "memory that is not to be had: %s",
	       strerror(errno));
	buffer_put(&b);
}

static void *taker(void *arg)
{
	const struct buffer *b = arg;

	/* Wait until the first WRITE has arrived. */
	while (!__atomic_load_n(&b->at[SIZE - 1], __ATOMIC_RELAXED))
		sched_yield();
	owner_must(EXPORTER_TAKE_BACK, b);
	return NULL;
}

/* WRITEs until one fails; returns whether that has the right status. */
static bool written_till_taken(struct buffer *b)
{
	enum ibv_wc_status status;

	do {
		status = write_to(b, SIZE);
	} while (status == IBV_WC_SUCCESS);
	return status == IBV_WC_REM_ACCESS_ERR;
}

static void test_under_traffic(void)
{
	unsigned int i, good = 0, kept = 0;

	fill(pair.a.buf, SIZE, 3);
	pair.a.buf[SIZE - 1] = 1;
	for (i = 0; i < ROUNDS; i++) {
		struct buffer b = make();
		pthread_t thread;

		pthread_create(&thread, NULL, taker, &b);
		good += written_till_taken(&b);
		pthread_join(thread, NULL);
		kept += buffer_is_marked(&b);
		revive(&pair);
		if (ibv_dereg_mr(b.mr))
			tap_bail("ibv_dereg_mr: %s", strerror(errno));
		buffer_put(&b);
	}
	tap_is(good, ROUNDS, "under traffic: REM_ACCESS_ERR each time");
	tap_is(kept, ROUNDS, "and nothing is written afterwards");
}

/* Taking back and deregistering race: either order must work. */
static void test_race(void)
{
	unsigned int i, failed = 0;

	for (i = 0; i < ROUNDS; i++) {
		struct buffer b = make();
		pthread_t thread;

		b.at[SIZE - 1] = 1;
		pthread_create(&thread, NULL, taker, &b);
		if (i & 1)
			sched_yield();
		failed += !!ibv_dereg_mr(b.mr);
		pthread_join(thread, NULL);
		buffer_put(&b);
	}
	tap_is(failed, 0, "deregistered while it is taken back");
}

int main(void)
{
	struct pair_config config = pair_defaults;
	long pinned = pinned_pages();

	owner_open();
	config.buffer_size = SIZE;
	pair_open(&pair, open_nic(NULL, &attr), &config);
	pair_connect(&pair);
	test_at_rest();
	test_failing();
	test_under_traffic();
	test_race();
	pair_close(&pair);
	owner_close();
	expect_nothing_left(pinned);
	return tap_done();
}
