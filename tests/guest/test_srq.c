// SPDX-License-Identifier: GPL-2.0
/*
 * Shared receive queues (HWI 10.3): sizes, data through two QPs, slots that become
 * free, the limit, resizing, the end of a QP that uses one, a PD of its own, and WQEs
 * that get lost.
 */
#include <errno.h>
#include <string.h>

#include "pair.h"
#include "tap.h"

#define DEPTH	8u
#define SIZE	256u

struct shared {
	struct pair pair;
	struct ibv_pd *pd;
	struct ibv_srq *srq;
};

static struct ibv_srq *make_srq(struct ibv_pd *pd, uint32_t depth, uint32_t sge)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = depth, .max_sge = sge },
	};
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);

	if (!srq)
		tap_bail("ibv_create_srq: %s", strerror(errno));
	tap_ok(attr.attr.max_wr >= depth && attr.attr.max_sge >= sge,
	       "SRQ of %u WQEs: %u", depth, attr.attr.max_wr);
	return srq;
}

/* Opens a pair that receives from one SRQ, whose PD is the QPs' or another. */
static void open_shared(struct shared *shared, struct ibv_context *ctx,
			enum ibv_qp_type type, bool own_pd)
{
	struct pair_config config = pair_defaults;

	memset(shared, 0, sizeof(*shared));
	shared->pair.pd = ibv_alloc_pd(ctx);
	shared->pd = own_pd ? ibv_alloc_pd(ctx) : shared->pair.pd;
	if (!shared->pair.pd || !shared->pd)
		tap_bail("ibv_alloc_pd: %s", strerror(errno));
	shared->srq = make_srq(shared->pd, DEPTH, 2);
	config.type = type;
	config.srq = shared->srq;
	config.recv_wr = 64;
	pair_open(&shared->pair, ctx, &config);
	pair_connect(&shared->pair);
}

static void close_shared(struct shared *shared)
{
	tap_is(ibv_destroy_srq(shared->srq), EBUSY, "an SRQ that QPs have");
	pair_close(&shared->pair);
	tap_is(ibv_destroy_srq(shared->srq), 0, "SRQ destroyed");
	if (shared->pd != shared->pair.pd)
		ibv_dealloc_pd(shared->pd);
	if (ibv_dealloc_pd(shared->pair.pd))
		tap_bail("the PD is still used");
}

/* Posts receive @n, to its place in B's buffer. */
static int post_shared(struct shared *shared, uint32_t n, uint32_t lkey)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)shared->pair.b.buf + n % 64 * SIZE,
		.length = SIZE, .lkey = lkey,
	};
	struct ibv_recv_wr *bad = NULL, wr = {
		.wr_id = 1000 + n, .sg_list = &sge, .num_sge = 1,
	};
	int err = ibv_post_srq_recv(shared->srq, &wr, &bad);

	if (err && bad != &wr)
		tap_bail("ibv_post_srq_recv failed and named no request");
	return err;
}

static void post_many(struct shared *shared, uint32_t from, uint32_t count)
{
	uint32_t i;

	for (i = from; i < from + count; i++)
		if (post_shared(shared, i, shared->pair.b.mr->lkey))
			tap_bail("cannot post receive %u", i);
}

/* Sends message @n, which the peer gets in receive @n. Are data and ID right? */
static bool pass(struct shared *shared, struct side *side, uint32_t n)
{
	struct pair *pair = &shared->pair;
	struct side *peer = side == &pair->a ? &pair->b : &pair->a;
	uint8_t *from = pair->a.buf;
	uint8_t *to = pair->b.buf + n % 64 * SIZE;
	struct request request = {
		.opcode = IBV_WR_SEND, .wr_id = n, .local = from,
		.length = SIZE, .lkey = pair->a.mr->lkey,
	};
	struct ibv_wc sent, received;

	fill(from, SIZE, n);
	memset(to, 0, SIZE);
	if (post(side, &request) || !wait_wc(side->send_cq, &sent) ||
	    !wait_wc(peer->recv_cq, &received))
		return false;
	return sent.status == IBV_WC_SUCCESS &&
	       received.status == IBV_WC_SUCCESS &&
	       received.wr_id == 1000 + n && received.byte_len == SIZE &&
	       received.qp_num == peer->qp->qp_num && is_filled(to, SIZE, n);
}

static void test_limits(struct ibv_context *ctx, const struct ibv_device_attr *device)
{
	const struct { uint32_t wr, sge; const char *name; } bad[] = {
		{ 0, 1, "no WQE" },
		{ device->max_srq_wr + 1, 1, "too many WQEs" },
		{ 1, device->max_srq_sge + 1, "too many SGEs" },
	};
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_srq_init_attr_ex attr_ex = {
		.attr = { .max_wr = 3, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC, .pd = pd,
	};
	struct ibv_srq_attr attr;
	struct ibv_srq *srq;
	unsigned int i;

	tap_ok(device->max_srq > 0 && device->max_srq_wr > 0 &&
	       device->max_srq_sge > 0, "SRQs are announced");
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ibv_srq_init_attr init = {
			.attr = { .max_wr = bad[i].wr, .max_sge = bad[i].sge },
		};

		errno = 0;
		tap_ok(!ibv_create_srq(pd, &init), "%s: refused", bad[i].name);
		tap_is(errno, EINVAL, "%s: errno", bad[i].name);
	}
	attr_ex.attr.srq_limit = 3;
	srq = ibv_create_srq_ex(ctx, &attr_ex);
	if (!srq)
		tap_bail("ibv_create_srq_ex: %s", strerror(errno));
	tap_is(attr_ex.attr.srq_limit, 0, "a new SRQ has no limit, and says so");
	tap_is(ibv_query_srq(srq, &attr), 0, "ibv_query_srq");
	tap_ok(attr.max_wr == 4 && attr.max_wr == attr_ex.attr.max_wr &&
	       attr.max_sge >= 1 && !attr.srq_limit, "of the extended form: %u WQEs",
	       attr.max_wr);
	tap_is(ibv_destroy_srq(srq), 0, "destroyed");
	ibv_dealloc_pd(pd);
}

/* Goes round the ring many times, from both sides; a full SRQ must refuse. */
static void test_data(struct shared *shared)
{
	struct pair *pair = &shared->pair;
	uint32_t n, good = 0;

	tap_is(post_receive(&pair->b, 1, pair->b.buf, 1, pair->b.mr->lkey), EINVAL,
	       "a receive of the QP's own");
	post_many(shared, 0, DEPTH);
	tap_is(post_shared(shared, DEPTH, pair->b.mr->lkey), ENOMEM,
	       "one receive too many");
	for (n = 0; n < 5 * DEPTH; n++) {
		good += pass(shared, n & 1 ? &pair->b : &pair->a, n);
		if (post_shared(shared, n + DEPTH, pair->b.mr->lkey))
			break;
	}
	tap_is(good, 5 * DEPTH, "messages to either QP, in the order of the SRQ");
	tap_ok(no_event(pair->ctx), "no event");
	/* Leaves the SRQ empty. */
	for (good = 0; n < 6 * DEPTH; n++)
		good += pass(shared, &pair->a, n);
	tap_is(good, DEPTH, "the rest");
}

static void test_limit_event(struct shared *shared)
{
	struct pair *pair = &shared->pair;
	struct ibv_srq_attr attr = { .srq_limit = 4 };
	uint32_t n, good = 0;

	post_many(shared, 0, DEPTH);
	tap_is(ibv_modify_srq(shared->srq, &attr, IBV_SRQ_LIMIT), 0, "a limit");
	memset(&attr, 0, sizeof(attr));
	tap_ok(!ibv_query_srq(shared->srq, &attr) && attr.srq_limit == 4,
	       "a query tells it: %u", attr.srq_limit);
	for (n = 0; n < 4; n++)
		good += pass(shared, &pair->a, n);
	tap_ok(good == 4 && no_event(pair->ctx), "at the limit: no event");
	tap_ok(pass(shared, &pair->a, n++), "below the limit");
	expect_event(pair->ctx, IBV_EVENT_SRQ_LIMIT_REACHED, shared->srq,
		     "below it: the event");
	tap_ok(!ibv_query_srq(shared->srq, &attr) && !attr.srq_limit,
	       "the limit is gone");
	tap_ok(pass(shared, &pair->a, n++) && no_event(pair->ctx), "and is told once");
	attr.srq_limit = 3;
	tap_is(ibv_modify_srq(shared->srq, &attr, IBV_SRQ_LIMIT), 0,
	       "a limit that is reached already");
	expect_event(pair->ctx, IBV_EVENT_SRQ_LIMIT_REACHED, shared->srq,
		     "that one's event");
	attr.srq_limit = DEPTH + 1;
	tap_is(ibv_modify_srq(shared->srq, &attr, IBV_SRQ_LIMIT), EINVAL,
	       "a limit above the size");
	for (good = 0; n < DEPTH; n++)
		good += pass(shared, &pair->a, n);
	tap_ok(good == 2 && no_event(pair->ctx), "the rest");
}

static void test_resize(struct shared *shared)
{
	struct pair *pair = &shared->pair;
	struct ibv_srq_attr attr = { .max_wr = 4 * DEPTH };
	uint32_t n, good = 0;

	post_many(shared, 0, DEPTH);
	for (n = 0; n < 3; n++)
		good += pass(shared, &pair->a, n);
	tap_is(good, 3, "before");
	tap_is(ibv_modify_srq(shared->srq, &attr, IBV_SRQ_MAX_WR), 0, "a larger ring");
	tap_ok(!ibv_query_srq(shared->srq, &attr) && attr.max_wr == 4 * DEPTH,
	       "a query tells its size: %u", attr.max_wr);
	post_many(shared, DEPTH, 4 * DEPTH - 5);
	tap_is(post_shared(shared, 0, pair->b.mr->lkey), ENOMEM, "it is full");
	attr.max_wr = DEPTH;
	tap_is(ibv_modify_srq(shared->srq, &attr, IBV_SRQ_MAX_WR), EINVAL,
	       "a ring with no room for what is posted");
	for (good = 0; n < 4 * DEPTH; n++)
		good += pass(shared, n & 1 ? &pair->b : &pair->a, n);
	tap_is(good, 4 * DEPTH - 3, "all that were posted, before and after");
	attr.max_wr = DEPTH;
	tap_is(ibv_modify_srq(shared->srq, &attr, IBV_SRQ_MAX_WR), 0, "a smaller ring");
	for (good = 0; n < 5 * DEPTH - 5; n++)
		good += pass(shared, &pair->a, n);
	tap_is(good, DEPTH - 5, "and what was left, there");
	attr.max_wr = 0;
	tap_is(ibv_modify_srq(shared->srq, &attr, IBV_SRQ_MAX_WR), EINVAL, "no ring");
}

/* A QP's end raises one event; the receives stay for other QPs. */
static void test_last_wqe(struct shared *shared)
{
	struct pair *pair = &shared->pair;
	struct ibv_wc wc;

	post_many(shared, 0, 2);
	tap_is(modify_to(&pair->b, IBV_QPS_ERR), 0, "a QP to ERR");
	expect_event(pair->ctx, IBV_EVENT_QP_LAST_WQE_REACHED, pair->b.qp,
		     "its event");
	tap_is(modify_to(&pair->b, IBV_QPS_ERR), 0, "once more to ERR");
	tap_ok(no_event(pair->ctx), "the event comes once");
	tap_is(ibv_poll_cq(pair->b.recv_cq, 1, &wc), 0, "no receive is flushed");
	pair_reset(pair);
	tap_ok(pass(shared, &pair->a, 0) && pass(shared, &pair->b, 1),
	       "and they are there for the next connection");
	tap_is(modify_to(&pair->b, IBV_QPS_ERR), 0, "after RESET to ERR");
	expect_event(pair->ctx, IBV_EVENT_QP_LAST_WQE_REACHED, pair->b.qp,
		     "its event again");
	pair_reset(pair);
}

/* A test point: both QPs have raised the last WQE event, in any order. */
static void expect_both_last(struct pair *pair)
{
	const struct ibv_qp *qps[2];
	struct ibv_async_event event;
	int i;

	for (i = 0; i < 2; i++) {
		if (ibv_get_async_event(pair->ctx, &event))
			tap_bail("ibv_get_async_event");
		tap_is(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED,
		       "a last WQE was reached");
		qps[i] = event.element.qp;
		ibv_ack_async_event(&event);
	}
	tap_ok((qps[0] == pair->a.qp && qps[1] == pair->b.qp) ||
	       (qps[0] == pair->b.qp && qps[1] == pair->a.qp), "once of either QP");
	tap_ok(no_event(pair->ctx), "and nothing else");
}

/* Receives are checked against the SRQ's PD, everything else against the QP's. */
static void test_own_pd(struct ibv_context *ctx)
{
	struct shared shared;
	struct pair *pair = &shared.pair;
	struct request request;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	open_shared(&shared, ctx, IBV_QPT_RC, true);
	mr = ibv_reg_mr(shared.pd, pair->b.buf, pair->config.buffer_size,
			ALL_ACCESS);
	if (!mr)
		tap_bail("ibv_reg_mr: %s", strerror(errno));
	tap_is(post_shared(&shared, 0, mr->lkey), 0, "memory of the SRQ's PD");
	tap_ok(pass(&shared, &pair->a, 0), "is received into");
	tap_is(post_shared(&shared, 1, pair->b.mr->lkey), 0, "memory of the QP's PD");
	request = (struct request){
		.opcode = IBV_WR_SEND, .wr_id = 1, .local = pair->a.buf,
		.length = SIZE, .lkey = pair->a.mr->lkey,
	};
	tap_is(post(&pair->a, &request), 0, "sent");
	expect_wc(pair->a.send_cq, 1, IBV_WC_REM_OP_ERR, &wc, "the sender is told");
	expect_wc(pair->b.recv_cq, 1001, IBV_WC_LOC_PROT_ERR, &wc,
		  "and so is the receiver");
	expect_both_last(pair);
	ibv_dereg_mr(mr);
	close_shared(&shared);
}

/*
 * A reset of a QP that has taken a WQE must free the slot, though nothing completes.
 * Over UC, a message that is too long for its receive leaves the QP with one.
 */
static void test_lost(struct ibv_context *ctx)
{
	struct shared shared;
	struct pair *pair = &shared.pair;
	struct request request;
	struct ibv_wc wc;
	uint32_t n, good;

	open_shared(&shared, ctx, IBV_QPT_UC, false);
	post_many(&shared, 0, DEPTH);
	for (n = 0; n < DEPTH; n++) {
		request = (struct request){
			.opcode = IBV_WR_SEND, .wr_id = n, .local = pair->a.buf,
			.length = SIZE + 1, .lkey = pair->a.mr->lkey,
		};
		if (post(&pair->a, &request) || !wait_wc(pair->a.send_cq, &wc) ||
		    wc.status != IBV_WC_SUCCESS)
			tap_bail("message %u is not sent", n);
		pair_reset(pair);
	}
	tap_is(ibv_poll_cq(pair->b.recv_cq, 1, &wc), 0, "no completion of what was held");
	for (n = 0; n < DEPTH && !post_shared(&shared, n, pair->b.mr->lkey); n++)
		;
	tap_is(n, DEPTH, "all that were lost can be posted again");
	tap_is(post_shared(&shared, n, pair->b.mr->lkey), ENOMEM, "and not one more");
	for (n = 0, good = 0; n < DEPTH; n++)
		good += pass(&shared, &pair->a, n);
	tap_is(good, DEPTH, "they are received into");
	close_shared(&shared);
}

int main(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC };
	struct ibv_device_attr device;
	struct ibv_context *ctx = open_nic(NULL, &device);
	struct shared shared;
	unsigned int i;

	test_limits(ctx, &device);
	for (i = 0; i < 2; i++) {
		tap_diag(types[i] == IBV_QPT_RC ? "RC" : "UC");
		open_shared(&shared, ctx, types[i], false);
		test_data(&shared);
		test_limit_event(&shared);
		test_resize(&shared);
		test_last_wqe(&shared);
		close_shared(&shared);
	}
	test_own_pd(ctx);
	test_lost(ctx);
	ibv_close_device(ctx);
	return tap_done();
}
