// SPDX-License-Identifier: GPL-2.0
/*
 * Verbs that a thread calls between ibv_start_poll() and ibv_end_poll(), where it holds
 * the CQ's lock and reads a completion in the ring: destroying and resetting a QP,
 * destroying an SRQ that completes there, resizing the CQ. Another thread may destroy a QP
 * that completes there meanwhile.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tap.h"
#include "xrc.h"

#define LENGTH	8
#define WRITES	20	/* more than a batch takes without telling the NIC */
#define DEPTH	128	/* of the send queues: more than the CQ holds */
#define OTHER	100	/* wr_id of the first write of the QP that stays */
#define SECONDS	20	/* until a completion counts as lost */
#define ROUNDS	100	/* of two threads that destroy QPs */
#define HANG	120	/* seconds until they count as waiting for each other */

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

static struct ibv_cq_ex *open_cq(struct ibv_context *ctx, uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 2 * WRITES, .wc_flags = IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_BYTE_LEN,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = flags,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ctx, &attr);

	if (!cq)
		tap_bail("ibv_create_cq_ex: %s", strerror(errno));
	return cq;
}

static void open_two(struct two *two, struct ibv_context *ctx, uint32_t flags)
{
	*two = (struct two){ .cq = open_cq(ctx, flags) };
	send_into(&two->gone, ctx, ibv_cq_ex_to_cq(two->cq));
	send_into(&two->stays, ctx, ibv_cq_ex_to_cq(two->cq));
}

static void close_two(struct two *two)
{
	pair_close(&two->gone);
	pair_close(&two->stays);
	tap_is(ibv_destroy_cq(ibv_cq_ex_to_cq(two->cq)), 0, "the CQ goes");
}

/* One write; when it has arrived, its own completion may be on its way still. */
static void write_arrives(struct pair *pair, uint64_t wr_id)
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

/* Begins a poll with the next completion, which has to be this one. */
static void start(struct ibv_cq_ex *cq, uint64_t wr_id, const char *what)
{
	struct ibv_poll_cq_attr attr = {};
	time_t end = time(NULL) + SECONDS;
	int err;

	do {
		err = ibv_start_poll(cq, &attr);
	} while (err == ENOENT && time(NULL) < end);
	if (err || cq->wr_id != wr_id)
		tap_bail("%s: ibv_start_poll: %s", what, strerror(err));
}

/* Goes on with the poll. Return: is there another completion? */
static bool next(struct ibv_cq_ex *cq)
{
	time_t end = time(NULL) + SECONDS;
	int err;

	do {
		err = ibv_next_poll(cq);
	} while (err == ENOENT && time(NULL) < end);
	return !err;
}

/* What was read before is read still. */
static void expect_current(struct ibv_cq_ex *cq, enum ibv_wc_opcode opcode, uint32_t qpn,
			   const char *what)
{
	tap_ok(cq->status == IBV_WC_SUCCESS && ibv_wc_read_opcode(cq) == opcode &&
	       ibv_wc_read_qp_num(cq) == qpn, "%s: the completion is read still", what);
}

/* The poll goes on with these completions, in order, and with no other; then it ends. */
static void expect_rest(struct two *two, unsigned int first, unsigned int count,
			const char *what)
{
	unsigned int n = 0;

	while (n < count && next(two->cq) && two->cq->wr_id == first + n)
		n++;
	tap_is(n, count, "%s: the rest, in order", what);
	tap_is(ibv_next_poll(two->cq), ENOENT, "%s: and no other", what);
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
	int i, held = ibv_cq_ex_to_cq(two->cq)->cqe;

	for (i = 0; i < WRITES; i++)
		write_arrives(&two->gone, i);
	start(two->cq, 0, what);
	tap_is(go(two), 0, "%s within a poll", what);
	for (i = 0; i < held; i++)
		write_arrives(&two->stays, OTHER + i);
	expect_current(two->cq, IBV_WC_RDMA_WRITE, qpn, what);
	expect_rest(two, OTHER, held, what);
	write_arrives(&two->stays, 7);
	start(two->cq, 7, "the next poll");
	ibv_end_poll(two->cq);
}

static void test_resize(struct two *two)
{
	struct ibv_cq *cq = ibv_cq_ex_to_cq(two->cq);
	uint32_t qpn = two->gone.a.qp->qp_num;
	int i, before = cq->cqe;

	for (i = 0; i < WRITES; i++)
		write_arrives(&two->gone, i);
	start(two->cq, 0, "resized");
	tap_is(ibv_resize_cq(cq, 20 * before), 0, "resized within a poll");
	tap_ok(cq->cqe >= 20 * before, "it has become larger");
	expect_current(two->cq, IBV_WC_RDMA_WRITE, qpn, "resized");
	expect_rest(two, 1, WRITES - 1, "resized");
	tap_is(ibv_resize_cq(cq, before), 0, "and back");
}

static struct ibv_srq *open_srq(struct inbox *in, struct xrc *x)
{
	struct ibv_srq_init_attr_ex attr = srq_attr(in->pd, x->xrcd, in->cq);
	struct ibv_srq *srq = ibv_create_srq_ex(x->ctx, &attr);

	if (!srq || ibv_get_srq_num(srq, &in->number))
		tap_bail("ibv_create_srq_ex: %s", strerror(errno));
	return srq;
}

/* The SRQ of an inbox goes while one of its two completions is read. */
static void test_srq(struct ibv_context *ctx, uint32_t flags)
{
	struct ibv_cq_ex *cq = open_cq(ctx, flags);
	struct inbox *in;
	struct xrc x;
	int i;

	open_requester(&x, ctx, -1, IBV_QP_EX_WITH_SEND);
	in = &x.inbox[0];
	x.tgt.qp = make_target(ctx, x.xrcd);
	open_inbox(in, ctx, x.xrcd, 0);
	if (!x.tgt.qp || ibv_destroy_srq(in->srq) || ibv_destroy_cq(in->cq))
		tap_bail("no inbox: %s", strerror(errno));
	in->cq = ibv_cq_ex_to_cq(cq);
	in->srq = open_srq(in, &x);
	reconnect(&x);
	for (i = 0; i < 2; i++)
		if (post_inbox(in, i) || xrc_ask(&x, in->number, IBV_WR_SEND, 0, 0, XRC_SIZE))
			tap_bail("a message did not arrive");
	start(cq, 0, "an SRQ");
	tap_is(ibv_destroy_srq(in->srq), 0, "an SRQ destroyed within a poll");
	expect_current(cq, IBV_WC_RECV, x.tgt.qp->qp_num, "an SRQ");
	tap_is(ibv_next_poll(cq), ENOENT, "its other completion has gone with it");
	ibv_end_poll(cq);
	in->srq = open_srq(in, &x);
	tap_is(ibv_destroy_qp(x.tgt.qp), 0, "the target goes");
	close_inbox(in);
	close_requester(&x);
}

/* Is the next completion a flushed one of what was posted, and says nothing else? */
static bool is_bare(struct ibv_cq_ex *cq, uint64_t wr_id, enum ibv_wc_opcode opcode)
{
	bool bare;

	start(cq, wr_id, "an error");
	bare = cq->status == IBV_WC_WR_FLUSH_ERR && ibv_wc_read_opcode(cq) == opcode &&
	       !ibv_wc_read_wc_flags(cq) && !ibv_wc_read_byte_len(cq);
	ibv_end_poll(cq);
	return bare;
}

static void test_error(struct two *two)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct pair *pair = &two->stays;
	struct request request = {
		.opcode = IBV_WR_RDMA_READ, .local = pair->a.buf, .length = LENGTH,
	};
	bool good = true;
	int i;

	if (ibv_modify_qp(pair->a.qp, &attr, IBV_QP_STATE))
		tap_bail("cannot modify to ERR: %s", strerror(errno));
	for (i = 0; i < 64 && good; i++) {
		request.wr_id = i;
		if (post(&pair->a, &request))
			tap_bail("a request was not accepted in ERR");
		good = is_bare(two->cq, i, IBV_WC_RDMA_READ);
		if (post_receive(&pair->a, OTHER + i, NULL, 0, 0))
			tap_bail("a receive was not accepted in ERR");
		good &= is_bare(two->cq, OTHER + i, IBV_WC_RECV);
	}
	tap_ok(good, "completions in error say what was posted");
}

/* QPs that complete in two CQs: a thread polls one of these, the other polls none. */
struct crossing {
	struct pair pair;
	struct ibv_cq *polled, *other;
	struct ibv_qp *own, *others;
	pthread_barrier_t begin, end;
	int failed;
};

static struct ibv_qp *open_crossing(const struct crossing *x)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = x->other, .recv_cq = x->polled,
		.cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(x->pair.pd, &attr);

	if (!qp)
		tap_bail("ibv_create_qp: %s", strerror(errno));
	return qp;
}

static void *destroy_others(void *argument)
{
	struct crossing *x = argument;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&x->begin);
		x->failed += !!ibv_destroy_qp(x->others);
		pthread_barrier_wait(&x->end);
	}
	return NULL;
}

/*
 * Who destroys a QP locks both CQs. With either CQ as the one that is polled: no order of
 * locking is good for both.
 */
static void test_crossing(struct ibv_context *ctx, struct ibv_cq_ex *polled,
			  struct ibv_cq_ex *other)
{
	struct crossing x = {
		.polled = ibv_cq_ex_to_cq(polled), .other = ibv_cq_ex_to_cq(other),
	};
	pthread_t thread;
	int i;

	send_into(&x.pair, ctx, x.polled);
	pthread_barrier_init(&x.begin, NULL, 2);
	pthread_barrier_init(&x.end, NULL, 2);
	alarm(HANG);
	if (pthread_create(&thread, NULL, destroy_others, &x))
		tap_bail("pthread_create");
	for (i = 0; i < ROUNDS; i++) {
		x.own = open_crossing(&x);
		x.others = open_crossing(&x);
		write_arrives(&x.pair, i);
		start(polled, i, "crosswise");
		pthread_barrier_wait(&x.begin);
		x.failed += !!ibv_destroy_qp(x.own);
		ibv_end_poll(polled);
		pthread_barrier_wait(&x.end);
	}
	pthread_join(thread, NULL);
	alarm(0);
	tap_is(x.failed, 0, "two threads destroy QPs of the same CQs, one of them within a poll");
	pthread_barrier_destroy(&x.begin);
	pthread_barrier_destroy(&x.end);
	pair_close(&x.pair);
}

static void test_crosswise(struct ibv_context *ctx)
{
	struct ibv_cq_ex *one = open_cq(ctx, 0), *two = open_cq(ctx, 0);

	test_crossing(ctx, one, two);
	test_crossing(ctx, two, one);
	if (ibv_destroy_cq(ibv_cq_ex_to_cq(one)) || ibv_destroy_cq(ibv_cq_ex_to_cq(two)))
		tap_bail("ibv_destroy_cq");
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
	test_error(&two);
	close_two(&two);
	test_srq(ctx, flags);
}

int main(int argc, char **argv)
{
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(argc > 1 ? argv[1] : NULL, &attr);

	test_flags(ctx, 0);
	test_flags(ctx, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	test_crosswise(ctx);
	ibv_close_device(ctx);
	return tap_done();
}
