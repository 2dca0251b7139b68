// SPDX-License-Identifier: GPL-2.0
/*
 * The flags of a request, by ibv_post_send() and by ibv_wr_*(): signaled, solicited,
 * inline.
 */
#include <poll.h>
#include <string.h>

#include "pair.h"
#include "tap.h"

struct way {
	const char *name;
	/* Sends one byte. */
	int (*send)(struct pair *pair, uint64_t wr_id, unsigned int flags);
	/* Writes two buffers inline. */
	int (*write_inline)(struct pair *pair, void *one, size_t one_length,
			    void *two, size_t two_length);
};

static int post_send(struct pair *pair, uint64_t wr_id, unsigned int flags)
{
	struct ibv_sge sge = { (uintptr_t)pair->a.buf, 1, pair->a.mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = flags,
	};

	return ibv_post_send(pair->a.qp, &wr, &bad);
}

static int post_inline(struct pair *pair, void *one, size_t one_length,
		       void *two, size_t two_length)
{
	struct ibv_sge sges[] = { { (uintptr_t)one, one_length, 0 },
				  { (uintptr_t)two, two_length, 0 } };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 9, .sg_list = sges, .num_sge = 2,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
		.wr.rdma = { (uintptr_t)pair->b.buf, pair->b.mr->rkey },
	};

	return ibv_post_send(pair->a.qp, &wr, &bad);
}

static int wr_send(struct pair *pair, uint64_t wr_id, unsigned int flags)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->a.qp);

	ibv_wr_start(qp);
	qp->wr_id = wr_id;
	qp->wr_flags = flags;
	ibv_wr_send(qp);
	ibv_wr_set_sge(qp, pair->a.mr->lkey, (uintptr_t)pair->a.buf, 1);
	return ibv_wr_complete(qp);
}

static int wr_inline(struct pair *pair, void *one, size_t one_length,
		     void *two, size_t two_length)
{
	struct ibv_data_buf list[] = { { one, one_length }, { two, two_length } };
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->a.qp);

	ibv_wr_start(qp);
	qp->wr_id = 9;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, pair->b.mr->rkey, (uintptr_t)pair->b.buf);
	ibv_wr_set_inline_data_list(qp, 2, list);
	return ibv_wr_complete(qp);
}

static const struct way ways[] = {
	{ "ibv_post_send()", post_send, post_inline },
	{ "ibv_wr_*()", wr_send, wr_inline },
};

static void send(struct pair *pair, const struct way *way, uint64_t wr_id,
		 unsigned int flags)
{
	post_receive(&pair->b, wr_id, pair->b.buf, 1, pair->b.mr->lkey);
	if (way->send(pair, wr_id, flags))
		tap_bail("%s: cannot post", way->name);
}

static void receive(struct pair *pair, uint64_t wr_id)
{
	struct ibv_wc wc;

	if (!wait_wc(pair->b.recv_cq, &wc) || wc.status || wc.wr_id != wr_id ||
	    wc.byte_len != 1)
		tap_bail("a message did not arrive");
}

static void test_signaled(struct pair *pair, const struct way *way)
{
	struct ibv_wc wc;
	uint64_t i;

	for (i = 0; i < 3; i++) {
		send(pair, way, i, 0);
		receive(pair, i);
	}
	send(pair, way, 3, IBV_SEND_SIGNALED);
	receive(pair, 3);
	expect_wc(pair->a.send_cq, 3, IBV_WC_SUCCESS, &wc, way->name);
	tap_is(ibv_poll_cq(pair->a.send_cq, 1, &wc), 0,
	       "%s: no completion for what is not signaled", way->name);
}

static bool event_of(struct pair *pair, struct ibv_cq *cq)
{
	struct pollfd fd = { .fd = pair->channel->fd, .events = POLLIN };
	struct ibv_cq *from;
	void *context;

	if (poll(&fd, 1, 20000) != 1 ||
	    ibv_get_cq_event(pair->channel, &from, &context))
		return false;
	ibv_ack_cq_events(from, 1);
	return from == cq;
}

/*
 * Events come in the order of completions: if the sender's comes first, the receiver
 * had none.
 */
static void test_solicited(struct pair *pair, const struct way *way)
{
	struct ibv_wc wc;

	if (ibv_req_notify_cq(pair->b.recv_cq, 1) ||
	    ibv_req_notify_cq(pair->a.send_cq, 0))
		tap_bail("ibv_req_notify_cq");
	send(pair, way, 1, IBV_SEND_SIGNALED);
	receive(pair, 1);
	tap_ok(event_of(pair, pair->a.send_cq),
	       "%s: no event for what is not solicited", way->name);
	expect_wc(pair->a.send_cq, 1, IBV_WC_SUCCESS, &wc, way->name);
	send(pair, way, 2, IBV_SEND_SOLICITED);
	receive(pair, 2);
	tap_ok(event_of(pair, pair->b.recv_cq),
	       "%s: an event for what is", way->name);
}

/* The limit applies to the sum of the buffers. */
static void test_inline(struct pair *pair, const struct way *way)
{
	uint32_t most = pair->a.cap.max_inline_data, first = most / 2;
	uint8_t data[most + 1];
	struct ibv_wc wc;

	fill(data, most + 1, 3);
	memset(pair->b.buf, 0, most + 1);
	tap_is(way->write_inline(pair, data, first, data + first, most - first),
	       0, "%s: %u bytes inline in two pieces", way->name, most);
	expect_wc(pair->a.send_cq, 9, IBV_WC_SUCCESS, &wc, way->name);
	tap_ok(is_filled(pair->b.buf, most, 3) && !pair->b.buf[most],
	       "%s: they arrive", way->name);
	memset(pair->b.buf, 0, most + 1);
	tap_is(way->write_inline(pair, data, first, data + first,
				 most - first + 1), EINVAL,
	       "%s: one byte more: EINVAL", way->name);
	tap_ok(!ibv_poll_cq(pair->a.send_cq, 1, &wc) && !pair->b.buf[0],
	       "%s: it was not posted", way->name);
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;
	struct pair pair = {};
	struct ibv_context *ctx;
	unsigned int i;

	ctx = open_nic(argc > 1 ? argv[1] : NULL, &pair.attr);
	config.send_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
	config.inline_data = 100;
	config.events = true;
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		test_signaled(&pair, &ways[i]);
		test_solicited(&pair, &ways[i]);
		test_inline(&pair, &ways[i]);
	}
	pair_close(&pair);
	ibv_close_device(ctx);
	return tap_done();
}
