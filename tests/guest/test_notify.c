// SPDX-License-Identifier: GPL-2.0
/*
 * Completion events: one for each ibv_req_notify_cq(), none without, and for solicited
 * completions and errors alone if so requested (HWI 11.2).
 */
#include <poll.h>

#include "message.h"
#include "tap.h"

static bool event_within(struct ibv_comp_channel *channel, int milliseconds)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };

	return poll(&fd, 1, milliseconds) == 1;
}

/* A test point: an event comes, for @cq. */
static void expect_cq_event(struct pair *pair, struct ibv_cq *cq,
			    const char *what)
{
	struct ibv_cq *event_cq;
	void *context;

	if (!event_within(pair->channel, 20000) ||
	    ibv_get_cq_event(pair->channel, &event_cq, &context)) {
		tap_ok(false, "%s", what);
		tap_diag("no event");
		return;
	}
	ibv_ack_cq_events(event_cq, 1);
	tap_ok(event_cq == cq, "%s", what);
}

/*
 * Events follow completions, by an interrupt. So the absence of one can only be tested
 * by something behind it in the same queue that has come.
 */
static void expect_no_cq_event(struct pair *pair, const char *what)
{
	struct ibv_cq *probe = pair->a.send_cq;
	struct ibv_cq *event_cq = NULL;
	void *context;

	if (ibv_req_notify_cq(probe, 0))
		tap_bail("ibv_req_notify_cq");
	exchange(pair, 1, 0);
	if (!event_within(pair->channel, 20000) ||
	    ibv_get_cq_event(pair->channel, &event_cq, &context))
		tap_bail("the probe gave no event");
	ibv_ack_cq_events(event_cq, 1);
	tap_ok(event_cq == probe && !event_within(pair->channel, 0), "%s",
	       what);
	while (event_within(pair->channel, 0)) {
		ibv_get_cq_event(pair->channel, &event_cq, &context);
		ibv_ack_cq_events(event_cq, 1);
	}
}

static void test_any(struct pair *pair)
{
	struct ibv_cq *cq = pair->b.recv_cq;

	exchange(pair, 2, 0);
	expect_no_cq_event(pair, "no request: no event");

	exchange(pair, 1, 0);
	tap_is(ibv_req_notify_cq(cq, 0), 0, "ibv_req_notify_cq");
	tap_ok(!event_within(pair->channel, 0),
	       "no event for completions before the request");
	exchange(pair, 3, 0);
	expect_cq_event(pair, cq, "an event after the request");
	expect_no_cq_event(pair, "one event only");
}

static void test_solicited(struct pair *pair)
{
	struct ibv_cq *cq = pair->b.recv_cq;
	struct ibv_wc wc;

	ibv_req_notify_cq(cq, 1);
	exchange(pair, 2, 0);
	expect_no_cq_event(pair, "solicited: no event for what is not");
	exchange(pair, 1, IBV_SEND_SOLICITED);
	expect_cq_event(pair, cq, "solicited: an event for what is");

	ibv_req_notify_cq(cq, 0);
	ibv_req_notify_cq(cq, 1);
	exchange(pair, 1, 0);
	expect_cq_event(pair, cq, "a solicited request does not narrow another");

	ibv_req_notify_cq(cq, 1);
	post_receive(&pair->b, 3, pair->b.buf, 1, pair->b.mr->lkey);
	modify_to(&pair->b, IBV_QPS_ERR);
	expect_wc(cq, 3, IBV_WC_WR_FLUSH_ERR, &wc, "solicited: a flushed receive");
	expect_cq_event(pair, cq, "solicited: an event for an error");
	pair_reset(pair);
}

/*
 * Two requests for one completion: one may stay open, and raise an event after this
 * test.
 */
static void test_repeated(struct pair *pair)
{
	struct ibv_cq *cq = pair->b.recv_cq;

	ibv_req_notify_cq(cq, 0);
	ibv_req_notify_cq(cq, 0);
	exchange(pair, 1, 0);
	expect_cq_event(pair, cq, "requested twice: an event");
	expect_no_cq_event(pair, "requested twice: one event");
}

/*
 * Fetches the events of @cq. Are there any, and none of other CQs? They end at a probe:
 * a WRITE that completes in another CQ.
 */
static bool fetch_events(struct pair *pair, struct ibv_cq *cq)
{
	struct request write = {
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = 1,
		.local = pair->a.buf, .length = 1, .lkey = pair->a.mr->lkey,
		.remote = (uintptr_t)pair->b.buf, .rkey = pair->b.mr->rkey,
	};
	struct ibv_cq *probe = pair->a.send_cq, *event_cq;
	void *context;
	struct ibv_wc wc;
	int events = 0;

	if (ibv_req_notify_cq(probe, 0) || post(&pair->a, &write) ||
	    !wait_wc(probe, &wc) || wc.status)
		tap_bail("the probe did not end");
	for (;; events++) {
		if (!event_within(pair->channel, 20000) ||
		    ibv_get_cq_event(pair->channel, &event_cq, &context))
			tap_bail("the probe gave no event");
		ibv_ack_cq_events(event_cq, 1);
		if (event_cq != cq)
			return event_cq == probe && events;
	}
}

/*
 * The events fetched after the last request belong to earlier ones. There may be fewer
 * than requests: if a request is stored before the NIC has looked for the CQE of the
 * one before, one event answers both (HWI CQ-21). Therefore a command stands between
 * them, which this NIC executes after it has looked.
 */
static void test_fetched_late(struct ibv_context *ctx, const struct pair_config *config,
			      int queued)
{
	struct pair pair = {};
	struct ibv_cq *cq;
	int i;

	pair_open(&pair, ctx, config);
	pair_connect(&pair);
	cq = pair.b.recv_cq;
	for (i = 0; i < queued; i++) {
		ibv_req_notify_cq(cq, i != 0);
		exchange(&pair, 1, IBV_SEND_SOLICITED);
		if (!event_within(pair.channel, 20000))
			tap_bail("no event");
		query_state(&pair.b);
	}
	ibv_req_notify_cq(cq, 0);
	tap_ok(fetch_events(&pair, cq), "events that are fetched late");
	ibv_req_notify_cq(cq, 1);
	exchange(&pair, 1, 0);
	expect_cq_event(&pair, cq, "the last request is not narrowed");
	pair_close(&pair);
}

/* More events than one EQ page or poll takes at once. */
static void test_many(struct pair *pair)
{
	struct ibv_cq *cq = pair->b.recv_cq, *event_cq;
	void *context;
	int i;

	for (i = 0; i < 1000; i++) {
		ibv_req_notify_cq(cq, 0);
		exchange(pair, 1, 0);
		if (!event_within(pair->channel, 20000))
			break;
		ibv_get_cq_event(pair->channel, &event_cq, &context);
		ibv_ack_cq_events(event_cq, 1);
	}
	tap_is(i, 1000, "1,000 requests give 1,000 events");
}

/*
 * Requests that were replaced before they were answered make later ones for solicited
 * completions ask for any; not for ever.
 */
static void test_solicited_again(struct pair *pair)
{
	struct ibv_cq *cq = pair->b.recv_cq;
	int i;

	ibv_req_notify_cq(cq, 0);
	ibv_req_notify_cq(cq, 0);
	exchange(pair, 1, 0);
	expect_cq_event(pair, cq, "requested twice again: an event");
	for (i = 0; i < 8; i++) {
		ibv_req_notify_cq(cq, 1);
		exchange(pair, 1, 0);
		if (!fetch_events(pair, cq))
			break;
	}
	if (!tap_ok(i < 8, "solicited: none for what is not, a few events later"))
		return;
	exchange(pair, 1, IBV_SEND_SOLICITED);
	expect_cq_event(pair, cq, "solicited: and one for what is");
}

/* Gives side b a new QP, which receives into @cq. */
static void receive_into(struct pair *pair, struct ibv_cq *cq)
{
	if (ibv_destroy_qp(pair->b.qp))
		tap_bail("ibv_destroy_qp");
	pair->b.qp = ibv_create_qp(pair->pd, &(struct ibv_qp_init_attr){
		.send_cq = pair->b.send_cq, .recv_cq = cq,
		.cap = { 4, 16, 1, 1, 0 }, .qp_type = IBV_QPT_RC });
	if (!pair->b.qp)
		tap_bail("ibv_create_qp: %s", strerror(errno));
	pair->b.recv_cq = cq;
	pair_reset(pair);
}

/*
 * Between ibv_start_poll() and ibv_end_poll() the thread that requests an event holds
 * the CQ's lock.
 */
static void test_within_poll(struct pair *pair)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16, .channel = pair->channel };
	struct ibv_cq_ex *cq_ex = ibv_create_cq_ex(pair->ctx, &attr);
	struct ibv_cq *cq = ibv_cq_ex_to_cq(cq_ex), *before = pair->b.recv_cq;
	struct ibv_poll_cq_attr poll_attr = {};
	struct request request = {
		.opcode = IBV_WR_SEND, .wr_id = 1,
		.local = pair->a.buf, .length = 1, .lkey = pair->a.mr->lkey,
	};
	struct ibv_wc wc;
	int err;

	receive_into(pair, cq);
	post_receive(&pair->b, 2, pair->b.buf, 1, pair->b.mr->lkey);
	if (post(&pair->a, &request) || !wait_wc(pair->a.send_cq, &wc) || wc.status)
		tap_bail("a message did not arrive");
	do {
		err = ibv_start_poll(cq_ex, &poll_attr);
	} while (err == ENOENT);
	tap_is(err || ibv_req_notify_cq(cq, 0), 0, "a request within a poll");
	tap_ok(cq_ex->wr_id == 2 && ibv_next_poll(cq_ex) == ENOENT, "the poll goes on");
	ibv_end_poll(cq_ex);
	tap_ok(!fetch_events(pair, cq), "no event for what was polled before");
	exchange(pair, 1, 0);
	expect_cq_event(pair, cq, "an event for what comes after");
	receive_into(pair, before);
	tap_is(ibv_destroy_cq(cq), 0, "that CQ goes");
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(argc > 1 ? argv[1] : NULL, &attr);
	struct pair pair = {};

	config.events = true;
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	test_any(&pair);
	test_solicited(&pair);
	test_repeated(&pair);
	test_solicited_again(&pair);
	test_many(&pair);
	test_within_poll(&pair);
	pair_close(&pair);
	test_fetched_late(ctx, &config, 1);
	test_fetched_late(ctx, &config, 3);
	ibv_close_device(ctx);
	return tap_done();
}
