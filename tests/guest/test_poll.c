// SPDX-License-Identifier: GPL-2.0
/*
 * Verbs that a thread calls between ibv_start_poll() and ibv_end_poll(), where it holds
 * the CQ's lock and reads a completion in the ring: destroying and resetting a QP,
 * destroying an SRQ that completes there, resizing the CQ.
 */
#include <errno.h>
#include <string.h>

#include "pair.h"
#include "tap.h"

#define LENGTH	8
#define WRITES	20	/* more than a batch takes without telling the NIC */
#define DEPTH	128	/* of the send queues: more than the CQ holds */
#define OTHER	100	/* wr_id of the first write of the QP that stays */

/* Two QPs that send into one CQ. */
struct two {
	struct ibv_cq_ex *cq;
	struct pair gone, stays;
};

static void send_into(struct pair *pair, struct ibv_context *ctx, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq,
		.cap = { DEPTH, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
	};

	pair_open(pair, ctx, &pair_defaults);
	ibv_destroy_qp(pair->a.qp);
	pair->a.qp = ibv_create_qp(pair->pd, &attr);
	if (!pair->a.qp)
		tap_bail("ibv_create_qp: %s", strerror(errno));
	pair_connect(pair);
}

static void open_two(struct two *two, struct ibv_context *ctx, uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 2 * WRITES, .wc_flags = IBV_WC_EX_WITH_QP_NUM,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = flags,
	};

	*two = (struct two){ .cq = ibv_create_cq_ex(ctx, &attr) };
	if (!two->cq)
		tap_bail("ibv_create_cq_ex: %s", strerror(errno));
	send_into(&two->gone, ctx, ibv_cq_ex_to_cq(two->cq));
	send_into(&two->stays, ctx, ibv_cq_ex_to_cq(two->cq));
}

static void close_two(struct two *two)
{
	pair_close(&two->gone);
	pair_close(&two->stays);
	tap_is(ibv_destroy_cq(ibv_cq_ex_to_cq(two->cq)), 0, "the CQ goes");
}

/*
 * The completion is in the CQ before the next write ends; that this one has arrived is
 * what its receive says.
 */
static void write_ends(struct pair *pair, uint64_t wr_id)
{
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .wr_id = wr_id,
		.local = pair->a.buf, .length = LENGTH, .lkey = pair->a.mr->lkey,
		.remote = (uintptr_t)pair->b.buf, .rkey = pair->b.mr->rkey,
	};
	struct ibv_wc wc;

	if (post_receive(&pair->b, 0, NULL, 0, 0) || post(&pair->a, &request) ||
	    !wait_wc(pair->b.recv_cq, &wc) || wc.status)
		tap_bail("a write did not arrive");
}

/* Takes the first completion, of the QP that will go; the poll goes on. */
static void start(struct two *two)
{
	struct ibv_poll_cq_attr attr = {};
	int err;

	do {
		err = ibv_start_poll(two->cq, &attr);
	} while (err == ENOENT);
	if (err || two->cq->wr_id)
		tap_bail("ibv_start_poll: %s", strerror(err));
}

/* What was read before is read still. */
static void expect_current(struct two *two, uint32_t qpn, const char *what)
{
	tap_ok(two->cq->wr_id == 0 && two->cq->status == IBV_WC_SUCCESS &&
	       ibv_wc_read_opcode(two->cq) == IBV_WC_RDMA_WRITE &&
	       ibv_wc_read_qp_num(two->cq) == qpn, "%s: the completion is read still", what);
}

/* The poll goes on with these completions, in order, then it ends. */
static void expect_rest(struct two *two, unsigned int first, unsigned int count,
			const char *what)
{
	unsigned int n = 0;

	while (!ibv_next_poll(two->cq) && two->cq->wr_id == first + n)
		n++;
	tap_is(n, count, "%s: the rest, in order", what);
	ibv_end_poll(two->cq);
}

static int destroy(struct two *two)
{
	return ibv_destroy_qp(two->gone.a.qp);
}

static int reset(struct two *two)
{
	return modify_to(&two->gone.a, IBV_QPS_RESET);
}

/*
 * One QP's completions go, and the whole ring is filled by the other's, while a completion
 * of the first is read.
 */
static void test_gone(struct two *two, int (*go)(struct two *two), const char *what)
{
	uint32_t qpn = two->gone.a.qp->qp_num;
	int i, err, held = ibv_cq_ex_to_cq(two->cq)->cqe;

	for (i = 0; i < WRITES; i++)
		write_ends(&two->gone, i);
	start(two);
	tap_is(go(two), 0, "%s within a poll", what);
	for (i = 0; i < held; i++)
		write_ends(&two->stays, OTHER + i);
	expect_current(two, qpn, what);
	expect_rest(two, OTHER, held, what);
	write_ends(&two->stays, 7);
	do {
		err = ibv_start_poll(two->cq, &(struct ibv_poll_cq_attr){});
	} while (err == ENOENT);
	tap_ok(!err && two->cq->wr_id == 7, "%s: and the next poll", what);
	ibv_end_poll(two->cq);
}

static void test_resize(struct two *two)
{
	struct ibv_cq *cq = ibv_cq_ex_to_cq(two->cq);
	uint32_t qpn = two->gone.a.qp->qp_num;
	int i, before = cq->cqe;

	for (i = 0; i < WRITES; i++)
		write_ends(&two->gone, i);
	start(two);
	tap_is(ibv_resize_cq(cq, 20 * before), 0, "resized within a poll");
	tap_ok(cq->cqe >= 20 * before, "it has become larger");
	expect_current(two, qpn, "resized");
	expect_rest(two, 1, WRITES - 1, "resized");
	tap_is(ibv_resize_cq(cq, before), 0, "and back");
}

static void test_flags(struct ibv_context *ctx, uint32_t flags)
{
	struct two two;

	tap_diag(flags ? "single-threaded" : "with a lock");
	open_two(&two, ctx, flags);
	test_resize(&two);
	test_gone(&two, reset, "reset");
	pair_reset(&two.gone);
	test_gone(&two, destroy, "destroyed");
	pair_open_qp(&two.gone, &two.gone.a);
	close_two(&two);
}

int main(int argc, char **argv)
{
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(argc > 1 ? argv[1] : NULL, &attr);

	test_flags(ctx, 0);
	test_flags(ctx, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	ibv_close_device(ctx);
	return tap_done();
}
