// SPDX-License-Identifier: GPL-2.0
/*
 * IBV_ACCESS_RELAXED_ORDERING (HWI ORD-4, ORD-9). If two writes go to one place, their
 * order shows afterwards: without the flag the later one always wins; with it a strict
 * NIC lets the earlier one win sometimes, but never where the interface promises an
 * order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "window.h"

#define SIZE	2048u
#define ROUNDS	100
#define RIGHTS	(ALL_ACCESS | IBV_ACCESS_MW_BIND)
#define RELAXED	IBV_ACCESS_RELAXED_ORDERING
#define BIG	65536u

static struct pair pair;
static bool strict;
/* MRs over side b's buffer, ordered and relaxed; and one over a's, relaxed. */
static struct ibv_mr *ordered, *relaxed, *relaxed_a;

static uint8_t *pattern_at(int which)
{
	return pair.a.buf + which * SIZE;
}

static struct ibv_send_wr wr_of(enum ibv_wr_opcode opcode, struct ibv_sge *sge,
				uint32_t rkey)
{
	return (struct ibv_send_wr){
		.wr_id = 1, .sg_list = sge, .num_sge = 1, .opcode = opcode,
		.wr.rdma = { (uintptr_t)pair.b.buf, rkey },
	};
}

static struct ibv_sge sge_of(const void *addr, uint32_t length, uint32_t lkey)
{
	return (struct ibv_sge){ (uintptr_t)addr, length, lkey };
}

/* Posts a chain of requests, of which the last is signaled, and waits for that. */
static void run(struct side *side, struct ibv_send_wr *wrs, int count)
{
	struct ibv_send_wr *bad_wr;
	struct ibv_wc wc;
	int i, err;

	for (i = 0; i < count; i++) {
		bool last = i == count - 1;

		wrs[i].next = last ? NULL : &wrs[i + 1];
		wrs[i].send_flags = last ? IBV_SEND_SIGNALED : 0;
	}
	err = ibv_post_send(side->qp, wrs, &bad_wr);
	if (err)
		tap_bail("ibv_post_send: %s", strerror(err));
	if (!wait_wc(side->send_cq, &wc) || wc.status)
		tap_bail("a request failed: %s", ibv_wc_status_str(wc.status));
}

/* The number of bytes in the buffer that are @value. */
static int bytes_of(const uint8_t *buf, uint8_t value)
{
	uint32_t i;
	int n = 0;

	for (i = 0; i < SIZE; i++)
		n += buf[i] == value;
	return n;
}

/* ---- where order is not promised ---- */

static void two_writes(uint32_t key)
{
	struct ibv_sge sges[2] = {
		sge_of(pattern_at(0), SIZE, pair.a.mr->lkey),
		sge_of(pattern_at(1), SIZE, pair.a.mr->lkey),
	};
	struct ibv_send_wr wrs[2] = {
		wr_of(IBV_WR_RDMA_WRITE, &sges[0], key),
		wr_of(IBV_WR_RDMA_WRITE, &sges[1], key),
	};

	run(&pair.a, wrs, 2);
}

/* One READ whose SGEs name the same memory twice. */
static void scatter_read(uint32_t key)
{
	struct ibv_sge sges[2] = {
		sge_of(pair.b.buf, SIZE, key), sge_of(pair.b.buf, SIZE, key),
	};
	struct ibv_send_wr wr = wr_of(IBV_WR_RDMA_READ, sges,
				      pair.a.mr->rkey);

	wr.num_sge = 2;
	wr.wr.rdma.remote_addr = (uintptr_t)pair.a.buf;
	run(&pair.b, &wr, 1);
}

static void scatter_receive(uint32_t key)
{
	struct ibv_sge from = sge_of(pair.a.buf, 2 * SIZE, pair.a.mr->lkey);
	struct ibv_sge sges[2] = {
		sge_of(pair.b.buf, SIZE, key), sge_of(pair.b.buf, SIZE, key),
	};
	struct ibv_recv_wr *bad, recv = { .sg_list = sges, .num_sge = 2 };
	struct ibv_send_wr wr = wr_of(IBV_WR_SEND, &from, 0);
	struct ibv_wc wc;

	if (ibv_post_recv(pair.b.qp, &recv, &bad))
		tap_bail("ibv_post_recv: %s", strerror(errno));
	run(&pair.a, &wr, 1);
	if (!wait_wc(pair.b.recv_cq, &wc) || wc.status ||
	    wc.byte_len != 2 * SIZE)
		tap_bail("a receive failed");
}

/* The number of rounds in which data of the first pattern was left. */
static int overtaken(void (*writer)(uint32_t key), uint32_t key)
{
	int round, n = 0;

	for (round = 0; round < ROUNDS; round++) {
		int first, second;

		memset(pair.b.buf, 0, SIZE);
		writer(key);
		first = bytes_of(pair.b.buf, 'A');
		second = bytes_of(pair.b.buf, 'B');
		if (first + second != SIZE) {
			tap_diag("%d bytes had not arrived",
				 SIZE - first - second);
			return -1;
		}
		n += first > 0;
	}
	return n;
}

static void expect_order(const char *what, void (*writer)(uint32_t key),
			 uint32_t key)
{
	tap_is(overtaken(writer, key), 0, "%s: in order", what);
}

static void expect_freedom(const char *what, void (*writer)(uint32_t key),
			   uint32_t key)
{
	int n = overtaken(writer, key);

	tap_ok(strict ? n > 0 : n >= 0, "%s: %d of %d not in order%s", what, n,
	       ROUNDS, strict ? "" : ", which nothing demands");
}

static void test_freedom(void)
{
	expect_order("write after write", two_writes, ordered->rkey);
	expect_freedom("write after write, relaxed", two_writes,
		       relaxed->rkey);
	expect_order("read response", scatter_read, ordered->lkey);
	expect_freedom("read response, relaxed", scatter_read, relaxed->lkey);
	expect_order("receive", scatter_receive, ordered->lkey);
	expect_freedom("receive, relaxed", scatter_receive, relaxed->lkey);
}

/* A window has the ordering of its MR, however it is bound. */
static void test_windows(enum ibv_mw_type type)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);

	must_bind(&apis[0], &pair.b, mw, ordered, (uintptr_t)pair.b.buf, SIZE,
		  IBV_ACCESS_REMOTE_WRITE);
	expect_order("window", two_writes, mw->rkey);
	if (type == IBV_MW_TYPE_2)
		invalidate(&apis[0], &pair.b, mw->rkey);
	must_bind(&apis[0], &pair.b, mw, relaxed, (uintptr_t)pair.b.buf, SIZE,
		  IBV_ACCESS_REMOTE_WRITE);
	expect_freedom("window of a relaxed MR", two_writes, mw->rkey);
	ibv_dealloc_mw(mw);
}

static void test_rereg(void)
{
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf, SIZE, RIGHTS);

	expect_order("before rereg", two_writes, mr->rkey);
	if (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			 RIGHTS | RELAXED))
		tap_bail("ibv_rereg_mr: %s", strerror(errno));
	expect_freedom("re-registered with the flag", two_writes, mr->rkey);
	if (ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RIGHTS))
		tap_bail("ibv_rereg_mr: %s", strerror(errno));
	expect_order("re-registered without it", two_writes, mr->rkey);
	ibv_dereg_mr(mr);
}

static void test_on_nic(void)
{
	struct ibv_alloc_dm_attr attr = { .length = SIZE };
	struct ibv_dm *dm = ibv_alloc_dm(pair.ctx, &attr);
	struct ibv_mr *mr;
	uint8_t copy[SIZE];
	int round, n = 0;

	mr = dm ? ibv_reg_dm_mr(pair.pd, dm, 0, SIZE, ALL_ACCESS | RELAXED |
				IBV_ACCESS_ZERO_BASED) : NULL;
	if (!mr)
		tap_bail("on-NIC memory: %s", strerror(errno));
	for (round = 0; round < ROUNDS; round++) {
		struct ibv_sge sges[2] = {
			sge_of(pattern_at(0), SIZE, pair.a.mr->lkey),
			sge_of(pattern_at(1), SIZE, pair.a.mr->lkey),
		};
		struct ibv_send_wr wrs[2] = {
			wr_of(IBV_WR_RDMA_WRITE, &sges[0], mr->rkey),
			wr_of(IBV_WR_RDMA_WRITE, &sges[1], mr->rkey),
		};

		wrs[0].wr.rdma.remote_addr = 0;
		wrs[1].wr.rdma.remote_addr = 0;
		run(&pair.a, wrs, 2);
		ibv_memcpy_from_dm(copy, dm, 0, SIZE);
		if (bytes_of(copy, 'A') + bytes_of(copy, 'B') != SIZE)
			tap_bail("data is missing");
		n += bytes_of(copy, 'A') > 0;
	}
	tap_ok(!strict || n > 0, "on-NIC memory, relaxed: %d of %d not in order",
	       n, ROUNDS);
	ibv_dereg_mr(mr);
	ibv_free_dm(dm);
}

/* ---- where order is promised ---- */

/* A relaxed WRITE and then an ordered one, which must not pass it. */
static void mixed_writes(uint32_t key)
{
	struct ibv_sge sges[2] = {
		sge_of(pattern_at(0), SIZE, pair.a.mr->lkey),
		sge_of(pattern_at(1), SIZE, pair.a.mr->lkey),
	};
	struct ibv_send_wr wrs[2] = {
		wr_of(IBV_WR_RDMA_WRITE, &sges[0], key),
		wr_of(IBV_WR_RDMA_WRITE, &sges[1], ordered->rkey),
	};

	run(&pair.a, wrs, 2);
}

static void test_atomics(void)
{
	volatile uint64_t *word = (void *)pair.b.buf;
	int round, wrong = 0;

	for (round = 0; round < ROUNDS; round++) {
		struct ibv_sge sges[3] = {
			sge_of(pattern_at(0), SIZE, pair.a.mr->lkey),
			sge_of(pattern_at(2), 8, pair.a.mr->lkey),
			sge_of(pattern_at(1), SIZE, pair.a.mr->lkey),
		};
		struct ibv_send_wr wrs[3] = {
			wr_of(IBV_WR_RDMA_WRITE, &sges[0], relaxed->rkey),
			wr_of(IBV_WR_ATOMIC_FETCH_AND_ADD, &sges[1],
			      relaxed->rkey),
			wr_of(IBV_WR_RDMA_WRITE, &sges[2], relaxed->rkey),
		};

		wrs[1].wr.atomic.remote_addr = (uintptr_t)pair.b.buf;
		wrs[1].wr.atomic.rkey = relaxed->rkey;
		wrs[1].wr.atomic.compare_add = 1;
		run(&pair.a, wrs, 2);
		wrong += *word != 0x4141414141414142;
		run(&pair.a, wrs, 3);
		wrong += bytes_of(pair.b.buf, 'B') != SIZE;
	}
	tap_is(wrong, 0, "atomics are not passed, in either direction");
}

static void test_read_after_write(void)
{
	int round, wrong = 0;

	for (round = 0; round < ROUNDS; round++) {
		struct ibv_sge sges[2] = {
			sge_of(pattern_at(round % 2), SIZE, pair.a.mr->lkey),
			sge_of(pattern_at(2), SIZE, relaxed_a->lkey),
		};
		struct ibv_send_wr wrs[2] = {
			wr_of(IBV_WR_RDMA_WRITE, &sges[0], relaxed->rkey),
			wr_of(IBV_WR_RDMA_READ, &sges[1], relaxed->rkey),
		};

		run(&pair.a, wrs, 2);
		wrong += bytes_of(pattern_at(2), 'A' + round % 2) != SIZE;
	}
	tap_is(wrong, 0, "a READ sees the WRITE before it");
}

/*
 * When the last byte of an ordered WRITE is seen, all the others must be there, even
 * before the completion.
 */
static void test_last_byte(void)
{
	volatile uint8_t *last = pair.b.buf + BIG - 1;
	uint8_t *source = aligned_alloc(4096, BIG);
	struct ibv_mr *mr = must_reg(pair.pd, source, BIG, 0);
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .local = source, .length = BIG,
		.lkey = mr->lkey, .remote = (uintptr_t)pair.b.buf,
		.rkey = ordered->rkey,
	};
	int round, wrong = 0;
	struct ibv_wc wc;

	for (round = 0; round < 64; round++) {
		memset(pair.b.buf, 0, BIG);
		memset(source, 'a' + round % 16, BIG);
		if (post(&pair.a, &request))
			tap_bail("ibv_post_send");
		while (!*last)
			;
		wrong += !!memcmp(pair.b.buf, source, BIG);
		if (!wait_wc(pair.a.send_cq, &wc) || wc.status)
			tap_bail("a write failed");
	}
	tap_is(wrong, 0, "the last byte is the last to be seen");
	ibv_dereg_mr(mr);
	free(source);
}

/* libibverbs derives further flags from the one bit that the provider reports. */
static void test_promised(void)
{
	static const enum ibv_wr_opcode promised[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV, IBV_WR_RDMA_READ,
	}, others[] = {
		IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_LOCAL_INV, IBV_WR_BIND_MW, (enum ibv_wr_opcode)200,
	};
	uint32_t caps = IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS;
	unsigned int wrong = 0;
	size_t i;

	for (i = 0; i < sizeof(promised) / sizeof(promised[0]); i++) {
		wrong += ibv_query_qp_data_in_order(pair.a.qp, promised[i], 0) != 1;
		wrong += ibv_query_qp_data_in_order(pair.a.qp, promised[i], caps) !=
			 (IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG |
			  IBV_QUERY_QP_DATA_IN_ORDER_ALIGNED_128_BYTES);
	}
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		wrong += ibv_query_qp_data_in_order(pair.a.qp, others[i], caps) != 0;
	tap_is(wrong, 0, "ibv_query_qp_data_in_order: whole messages");
}

int main(int argc, char **argv)
{
	const char *switches = getenv("MOOR_NIC_SWITCHES");
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;

	strict = switches && strstr(switches, "strict");
	config.buffer_size = BIG;
	pair_open(&pair, open_nic(argc > 1 ? argv[1] : NULL, &attr), &config);
	pair_connect(&pair);
	ordered = must_reg(pair.pd, pair.b.buf, BIG, RIGHTS);
	relaxed = must_reg(pair.pd, pair.b.buf, BIG, RIGHTS | RELAXED);
	relaxed_a = must_reg(pair.pd, pair.a.buf, BIG, RIGHTS | RELAXED);
	memset(pattern_at(0), 'A', SIZE);
	memset(pattern_at(1), 'B', SIZE);
	test_freedom();
	test_windows(IBV_MW_TYPE_1);
	test_windows(IBV_MW_TYPE_2);
	test_rereg();
	test_on_nic();
	expect_order("a write without the flag after one with it",
		     mixed_writes, relaxed->rkey);
	test_atomics();
	test_read_after_write();
	test_last_byte();
	test_promised();
	ibv_dereg_mr(ordered);
	ibv_dereg_mr(relaxed);
	ibv_dereg_mr(relaxed_a);
	pair_close(&pair);
	ibv_close_device(pair.ctx);
	return tap_done();
}
