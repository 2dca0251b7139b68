// SPDX-License-Identifier: GPL-2.0
/*
 * More completions than a CQ holds (HWI CQ-9): nothing that waits in it is
 * overwritten, the CQ fails with an event, QPs that need it fail with it, others
 * do not notice, and all of it can be destroyed and made anew.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "pair.h"
#include "tap.h"

#define DEPTH		4
#define TIMEOUT_MS	20000
/*
 * More entries in a ring, for completions that a batch has taken but not told the NIC
 * of.
 */
#define SPARE		8

static struct ibv_context *ctx;

static struct request write_of(const struct pair *pair, uint64_t wr_id)
{
	return (struct request){
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = wr_id,
		.local = pair->a.buf, .length = 8, .lkey = pair->a.mr->lkey,
		.remote = (uintptr_t)pair->b.buf, .rkey = pair->b.mr->rkey,
	};
}

static void open_pair(struct pair *pair)
{
	struct pair_config config = pair_defaults;

	config.send_wr = 64;
	config.recv_wr = 64;
	config.timeout = 8;
	config.retry_cnt = 2;
	pair_open(pair, ctx, &config);
	pair_connect(pair);
}

/* Waits for the QP to leave RTS; returns its state, RTS if that takes too long. */
static enum ibv_qp_state state_after_rts(struct side *side)
{
	time_t end = time(NULL) + TIMEOUT_MS / 1000;
	enum ibv_qp_state state;

	do {
		state = query_state(side);
	} while (state == IBV_QPS_RTS && time(NULL) < end);
	return state;
}

/* Is the next asynchronous event the failure of this CQ? */
static bool failed(struct ibv_cq *cq)
{
	struct pollfd fd = { .fd = ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	bool good;

	if (poll(&fd, 1, TIMEOUT_MS) != 1 || ibv_get_async_event(ctx, &event))
		return false;
	good = event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == cq;
	if (!good)
		tap_diag("%s", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
	return good;
}

/* Counts the successful completions in the CQ, with consecutive IDs from @wr_id on. */
static int successes(struct ibv_cq *cq, uint64_t wr_id)
{
	struct ibv_wc wc;
	int n = 0;

	while (ibv_poll_cq(cq, 1, &wc) == 1) {
		if (wc.wr_id != wr_id + n || wc.status)
			tap_bail("wr_id %llu: %s", (unsigned long long)wc.wr_id,
				 ibv_wc_status_str(wc.status));
		n++;
	}
	return n;
}

static bool works(struct pair *pair)
{
	struct request request = write_of(pair, 7);
	struct ibv_wc wc;

	fill(pair->a.buf, 8, 9);
	return !post(&pair->a, &request) && wait_wc(pair->a.send_cq, &wc) &&
	       wc.wr_id == 7 && !wc.status && is_filled(pair->b.buf, 8, 9);
}

/* Posts requests until the CQ of @cqe entries is full, and one more. */
static void overrun(struct pair *pair, int cqe)
{
	struct request request;
	int i;

	for (i = 0; i <= cqe; i++) {
		request = write_of(pair, 100 + i);
		if (post(&pair->a, &request))
			tap_bail("ibv_post_send");
	}
}

static void test_send_cq(void)
{
	struct pair pair = {}, other = {}, sharing = {};
	struct ibv_cq *cq, *spare;
	struct request request;
	struct ibv_wc wc;
	int cqe;

	open_pair(&pair);
	open_pair(&other);
	sharing.pd = pair.pd;
	open_pair(&sharing);
	cq = pair.a.send_cq;
	if (ibv_resize_cq(cq, DEPTH))
		tap_bail("ibv_resize_cq: %s", strerror(errno));
	cqe = cq->cqe + SPARE;
	/* A second QP that completes in this CQ. */
	spare = sharing.a.send_cq;
	pair_close_qp(&sharing.a);
	sharing.a.send_cq = cq;
	pair_open_qp(&sharing, &sharing.a);
	pair_reset(&sharing);

	post_receive(&pair.a, 50, pair.a.buf, 8, pair.a.mr->lkey);
	overrun(&pair, cqe - 1);
	tap_ok(wait_wc(cq, &wc) && wc.wr_id == 100 && !wc.status &&
	       no_event(ctx), "as many as the CQ holds");
	request = write_of(&pair, 100 + cqe);
	post(&pair.a, &request);
	request = write_of(&pair, 101 + cqe);
	post(&pair.a, &request);
	tap_ok(failed(cq), "one more than the CQ holds: it fails");
	tap_is(query_state(&pair.a), IBV_QPS_ERR, "its QP fails with it");
	expect_wc(pair.a.recv_cq, 50, IBV_WC_WR_FLUSH_ERR, &wc,
		  "the other CQ gets what is flushed");
	tap_is(successes(cq, 101), cqe, "what was in the CQ stays, in order");
	tap_is(query_state(&sharing.a), IBV_QPS_RTS,
	       "a QP that has not needed it goes on");
	request = write_of(&sharing, 1);
	post(&sharing.a, &request);
	tap_is(state_after_rts(&sharing.a), IBV_QPS_ERR, "until it needs it");
	tap_is(ibv_poll_cq(cq, 1, &wc), 0, "nothing comes out of it any more");
	tap_ok(no_event(ctx), "and it does not fail twice");
	tap_ok(works(&other), "QPs with other CQs do not notice");

	pair_close_qp(&sharing.a);
	sharing.a.send_cq = spare;
	pair_open_qp(&sharing, &sharing.a);
	pair_reset(&sharing);
	tap_ok(works(&sharing), "a new QP with another CQ works");
	pair_close_qp(&pair.a);
	tap_is(ibv_destroy_cq(cq), 0, "destroy the CQ");
	pair.a.send_cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
	pair_open_qp(&pair, &pair.a);
	pair_reset(&pair);
	tap_ok(works(&pair), "with a new CQ all is well");
	pair_close(&sharing);
	pair_close(&pair);
	pair_close(&other);
}

static void test_receive_cq(void)
{
	struct request request;
	struct pair pair = {};
	struct ibv_cq *cq;
	struct ibv_wc wc;
	int i, cqe;

	open_pair(&pair);
	cq = pair.b.recv_cq;
	if (ibv_resize_cq(cq, DEPTH))
		tap_bail("ibv_resize_cq: %s", strerror(errno));
	cqe = cq->cqe + SPARE;
	for (i = 0; i < cqe + 3; i++)
		post_receive(&pair.b, 200 + i, pair.b.buf, 8,
			     pair.b.mr->lkey);
	for (i = 0; i < cqe + 2; i++) {
		request = write_of(&pair, 300 + i);
		request.opcode = IBV_WR_SEND;
		post(&pair.a, &request);
	}
	tap_ok(failed(cq), "more receives than the CQ holds: it fails");
	tap_is(query_state(&pair.b), IBV_QPS_ERR, "its QP fails with it");
	tap_is(successes(cq, 200), cqe, "what was in the CQ stays, in order");
	for (i = 0; i < cqe && wait_wc(pair.a.send_cq, &wc) && !wc.status; i++)
		;
	tap_is(i, cqe, "what has its completion was acknowledged");
	expect_wc(pair.a.send_cq, 300 + i, IBV_WC_REM_OP_ERR, &wc,
		  "what found no room for one failed there");
	pair_close(&pair);
}

/* Polls @count completions in one batch, and posts a request for each. */
static int take_in_one_batch(struct pair *pair, struct ibv_cq_ex *cq, int count)
{
	struct ibv_poll_cq_attr poll_attr = {};
	time_t end = time(NULL) + TIMEOUT_MS / 1000;
	struct request request;
	int taken = 0, err;

	do {
		err = ibv_start_poll(cq, &poll_attr);
	} while (err && time(NULL) < end);
	if (err)
		return 0;
	while (!cq->status && cq->wr_id == 500u + taken && ++taken < count) {
		request = write_of(pair, 500 + taken);
		if (post(&pair->a, &request))
			break;
		do {
			err = ibv_next_poll(cq);
		} while (err && time(NULL) < end);
		if (err)
			break;
	}
	ibv_end_poll(cq);
	return taken;
}

/*
 * Opens a pair whose sends complete in an extended CQ. Returns the CQ that this
 * replaces.
 */
static struct ibv_cq *open_batch(struct pair *pair, struct ibv_cq_ex **cq)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = DEPTH };
	struct ibv_cq *spare;

	*cq = ibv_create_cq_ex(ctx, &attr);
	if (!*cq)
		tap_bail("ibv_create_cq_ex: %s", strerror(errno));
	open_pair(pair);
	spare = pair->a.send_cq;
	pair_close_qp(&pair->a);
	pair->a.send_cq = ibv_cq_ex_to_cq(*cq);
	pair_open_qp(pair, &pair->a);
	pair_reset(pair);
	return spare;
}

/* WRITEs and waits for the data, which comes just before the completion. */
static bool write_and_wait(struct pair *pair, uint8_t value)
{
	volatile uint8_t *there = pair->b.buf;
	struct request request = write_of(pair, value);
	time_t end = time(NULL) + TIMEOUT_MS / 1000;

	pair->a.buf[0] = value;
	if (post(&pair->a, &request))
		return false;
	while (*there != value)
		if (time(NULL) > end)
			return false;
	return true;
}

/*
 * A CQ with room for all outstanding requests must not overrun, however it is polled.
 */
static void test_full(void)
{
	struct ibv_poll_cq_attr poll_attr = {};
	struct pair pair = {};
	struct ibv_cq *spare;
	struct ibv_cq_ex *cq;
	uint8_t value = 0;
	bool good = true;
	int i, cqe;

	spare = open_batch(&pair, &cq);
	cqe = pair.a.send_cq->cqe;
	tap_ok(cqe >= DEPTH, "at least what was asked for");
	for (i = 0; i < cqe; i++)
		good &= write_and_wait(&pair, ++value);
	tap_ok(good && !ibv_start_poll(cq, &poll_attr), "a CQ is full");
	for (i = 0; i < 5 * cqe && good; i++) {
		good = cq->status == IBV_WC_SUCCESS && write_and_wait(&pair, ++value) &&
		       !ibv_next_poll(cq);
	}
	tap_is(i, 5 * cqe, "and stays full, in one batch that posts for what it takes");
	ibv_end_poll(cq);
	tap_ok(no_event(ctx), "it does not fail");
	ibv_destroy_cq(spare);
	pair_close(&pair);
}

/* A CQ that never holds more than one completion must never count as full. */
static void test_batch(void)
{
	struct request request;
	struct pair pair = {};
	struct ibv_cq *spare;
	struct ibv_cq_ex *cq;
	int count;

	spare = open_batch(&pair, &cq);
	count = 3 * (pair.a.send_cq->cqe + SPARE);
	request = write_of(&pair, 500);
	post(&pair.a, &request);
	tap_is(take_in_one_batch(&pair, cq, count), count,
	       "one at a time, three rings of them, in one batch");
	tap_ok(no_event(ctx), "and the CQ does not fail");
	ibv_destroy_cq(spare);
	pair_close(&pair);
}

int main(int argc, char **argv)
{
	struct ibv_device_attr attr;

	ctx = open_nic(argc > 1 ? argv[1] : NULL, &attr);
	test_send_cq();
	test_receive_cq();
	test_batch();
	test_full();
	ibv_close_device(ctx);
	return tap_done();
}
