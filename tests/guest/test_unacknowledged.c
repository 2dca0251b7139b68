// SPDX-License-Identifier: GPL-2.0
/*
 * A queue is destroyed while an event of it is not acknowledged: the call waits, and till
 * then the thread that has the event may go on using the queue. What it does there does
 * not reach the queues that were made meanwhile, to which the kernel gave what the old one
 * had.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "message.h"
#include "tap.h"

#define FRESH	4	/* pairs whose QPs are made meanwhile */
#define LATE	3	/* posts to the old queue, or completions that it had */
#define MANY	100	/* completions, or receives: more than a queue has */

/* One kind of queue: all of these return 0 or an errno. */
struct kind {
	const char *name;
	int (*destroy)(void *queue);
	int (*ask)(void *queue);	/* is it there? */
	int (*use)(struct pair *old);
};

struct destroyer {
	pthread_t thread;
	const struct kind *kind;
	void *queue;
	int result;
	struct pair fresh[FRESH];	/* closed when the thread has ended */
};

static void open_old(struct pair *old, struct ibv_context *ctx, struct ibv_srq *srq)
{
	struct pair_config config = pair_defaults;

	config.events = true;
	config.srq = srq;
	pair_open(old, ctx, &config);
	pair_connect(old);
}

/* With new queues in place of what has gone. */
static void close_old(struct pair *old)
{
	old->config.srq = NULL;
	if (!old->a.qp)
		pair_open_qp(old, &old->a);
	if (!old->b.qp)
		pair_open_qp(old, &old->b);
	pair_close(old);
}

static int message(struct pair *pair, struct ibv_wc *wc)
{
	const struct request request = {
		.opcode = IBV_WR_SEND, .wr_id = 1,
		.local = pair->a.buf, .length = 1, .lkey = pair->a.mr->lkey,
	};

	if (post(&pair->a, &request) || !wait_wc(pair->a.send_cq, wc))
		return EIO;
	return wc->status || !wait_wc(pair->b.recv_cq, wc) || wc->status ? EIO : 0;
}

/* The receive that takes a message is the one that was posted for it, of either side. */
static bool works(struct pair *pair)
{
	struct ibv_wc wc;
	uint64_t n;

	/* With a command the NIC has looked at what was stored before it. */
	if (query_state(&pair->a) != IBV_QPS_RTS)
		return false;
	for (n = 10; n < 10 + LATE; n++)
		if (post_receive(&pair->b, n, pair->b.buf, 1, pair->b.mr->lkey) ||
		    message(pair, &wc) || wc.wr_id != n)
			return false;
	return true;
}

static void *destroy(void *argument)
{
	struct destroyer *d = argument;

	/* Busy is also a queue that is being asked for (wait_until_gone()). */
	do
		d->result = d->kind->destroy(d->queue);
	while (d->result == EBUSY);
	return NULL;
}

static void wait_until_gone(const struct kind *kind, void *queue)
{
	while (!kind->ask(queue))
		;
}

/*
 * The caller has an event of @queue, and acknowledges it then. Only QPs are made once the
 * queue has gone: a send queue has its doorbell then, of which the NIC takes every value.
 */
static void begin_destroying(struct destroyer *d, const struct kind *kind, void *queue,
			     struct ibv_context *ctx)
{
	unsigned int i;

	*d = (struct destroyer){ .kind = kind, .queue = queue, .result = -1 };
	for (i = 0; i < FRESH; i++) {
		pair_open(&d->fresh[i], ctx, &pair_defaults);
		pair_close_qp(&d->fresh[i].a);
		pair_close_qp(&d->fresh[i].b);
	}
	if (kind->ask(queue))
		tap_bail("%s: it cannot be asked for", kind->name);
	if (pthread_create(&d->thread, NULL, destroy, d))
		tap_bail("pthread_create");
	wait_until_gone(kind, queue);
	for (i = 0; i < FRESH; i++) {
		pair_open_qp(&d->fresh[i], &d->fresh[i].a);
		pair_open_qp(&d->fresh[i], &d->fresh[i].b);
		pair_connect(&d->fresh[i]);
	}
}

static void test_late_use(struct destroyer *d, struct pair *old)
{
	unsigned int i, good = 0;

	tap_is(d->kind->use(old), 0, "%s: used before its event is acknowledged", d->kind->name);
	for (i = 0; i < FRESH; i++)
		good += works(&d->fresh[i]);
	tap_is(good, FRESH, "%s: what was made meanwhile works", d->kind->name);
	tap_is(d->kind->use(old), 0, "%s: used again", d->kind->name);
	for (i = good = 0; i < FRESH; i++)
		good += works(&d->fresh[i]);
	tap_is(good, FRESH, "%s: it works still", d->kind->name);
}

static void end_destroying(struct destroyer *d)
{
	unsigned int i;

	pthread_join(d->thread, NULL);
	tap_is(d->result, 0, "%s: destroyed once its event is acknowledged", d->kind->name);
	for (i = 0; i < FRESH; i++)
		pair_close(&d->fresh[i]);
}

/* ---- completion queues ---- */

static int destroy_cq(void *cq)
{
	return ibv_destroy_cq(cq);
}

static int ask_cq(void *cq)
{
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE };

	return ibv_modify_cq(cq, &attr);
}

static int use_cq(struct pair *old)
{
	struct ibv_wc wc;
	int n = ibv_poll_cq(old->b.recv_cq, 1, &wc);

	return n ? EIO : ibv_req_notify_cq(old->b.recv_cq, 0);
}

static void test_cq(struct ibv_context *ctx)
{
	static const struct kind kind = { "CQ", destroy_cq, ask_cq, use_cq };
	struct pair old = {};
	struct destroyer d;
	struct ibv_cq *cq;
	void *context;

	open_old(&old, ctx, NULL);
	if (ibv_req_notify_cq(old.b.recv_cq, 0))
		tap_bail("ibv_req_notify_cq");
	exchange(&old, LATE, 0);
	if (ibv_get_cq_event(old.channel, &cq, &context) || cq != old.b.recv_cq)
		tap_bail("no event of the CQ");
	tap_is(ibv_destroy_cq(cq), EBUSY, "a CQ that queue pairs have");
	exchange(&old, MANY, 0);
	pair_close_qp(&old.a);
	pair_close_qp(&old.b);
	begin_destroying(&d, &kind, cq, ctx);
	test_late_use(&d, &old);
	ibv_ack_cq_events(cq, 1);
	end_destroying(&d);
	old.b.recv_cq = ibv_create_cq(ctx, 1, NULL, NULL, 0);
	close_old(&old);
}

/* ---- shared receive queues ---- */

static int destroy_srq(void *srq)
{
	return ibv_destroy_srq(srq);
}

static int ask_srq(void *srq)
{
	struct ibv_srq_attr attr;

	return ibv_query_srq(srq, &attr);
}

static int post_to_srq(struct ibv_srq *srq, const struct side *side)
{
	struct ibv_sge sge = { (uintptr_t)side->buf, 1, side->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static int use_srq(struct pair *old)
{
	return post_to_srq(old->config.srq, &old->b);
}

/* Return: an event of @type, not acknowledged. */
static struct ibv_async_event wait_for(struct ibv_context *ctx, enum ibv_event_type type)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(ctx, &event)) {
		if (event.event_type == type)
			return event;
		ibv_ack_async_event(&event);
	}
	tap_bail("ibv_get_async_event: %s", strerror(errno));
}

static void test_srq(struct ibv_context *ctx)
{
	static const struct kind kind = { "SRQ", destroy_srq, ask_srq, use_srq };
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = LATE };
	struct ibv_async_event event;
	struct pair old = { .pd = ibv_alloc_pd(ctx) };
	struct ibv_srq *srq = old.pd ? ibv_create_srq(old.pd, &init) : NULL;
	struct destroyer d;
	struct ibv_wc wc;
	unsigned int i;

	if (!srq)
		tap_bail("ibv_create_srq: %s", strerror(errno));
	open_old(&old, ctx, srq);
	for (i = 0; i < LATE; i++)
		post_to_srq(srq, &old.b);
	if (ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) || message(&old, &wc))
		tap_bail("a message that takes a shared receive");
	event = wait_for(ctx, IBV_EVENT_SRQ_LIMIT_REACHED);
	tap_is(ibv_destroy_srq(srq), EBUSY, "an SRQ that queue pairs have");
	for (i = 0; i < MANY; i++)
		if (post_to_srq(srq, &old.b) || message(&old, &wc))
			tap_bail("a message that takes another shared receive");
	pair_close_qp(&old.a);
	pair_close_qp(&old.b);
	begin_destroying(&d, &kind, srq, ctx);
	test_late_use(&d, &old);
	ibv_ack_async_event(&event);
	end_destroying(&d);
	close_old(&old);
	tap_is(ibv_dealloc_pd(old.pd), 0, "its PD goes");
}

/* ---- queue pairs ---- */

static int destroy_qp(void *qp)
{
	return ibv_destroy_qp(qp);
}

static int ask_qp(void *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);
}

static int use_qp(struct pair *old)
{
	const struct request request = {
		.opcode = IBV_WR_SEND, .wr_id = 1,
		.local = old->a.buf, .length = 1, .lkey = old->a.mr->lkey,
	};
	int err = post(&old->a, &request);

	return err ? err : post_receive(&old->a, 3, old->a.buf, 1, old->a.mr->lkey);
}

static void test_qp(struct ibv_context *ctx)
{
	static const struct kind kind = { "QP", destroy_qp, ask_qp, use_qp };
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1,
	};
	struct ibv_async_event event;
	struct pair old = {};
	struct destroyer d;

	open_old(&old, ctx, NULL);
	exchange(&old, LATE, 0);
	if (ibv_modify_qp(old.a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY))
		tap_bail("SQD");
	event = wait_for(ctx, IBV_EVENT_SQ_DRAINED);
	if (modify_to(&old.a, IBV_QPS_RTS))
		tap_bail("RTS");
	begin_destroying(&d, &kind, old.a.qp, ctx);
	test_late_use(&d, &old);
	ibv_ack_async_event(&event);
	end_destroying(&d);
	old.a.qp = NULL;
	close_old(&old);
}

int main(int argc, char **argv)
{
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(argc > 1 ? argv[1] : NULL, &attr);

	test_cq(ctx);
	test_srq(ctx);
	test_qp(ctx);
	ibv_close_device(ctx);
	return tap_done();
}
