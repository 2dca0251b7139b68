// SPDX-License-Identifier: GPL-2.0
/*
 * The largest queues that the device announces: rings of megabytes, which are in
 * pieces, so that the page allocator has them.
 */

#include "verbs_test.h"

#define LONG	2048	/* messages: several pieces of each ring */

/* Fills a receive queue and flushes it: all receives must come back in order. */
static bool is_of_use(struct link *link, struct ib_qp *qp, struct ib_cq *cq,
		      u32 depth)
{
	struct ib_recv_wr wr = {};
	struct ib_wc wc;
	u32 i;

	link->qp[0] = qp;
	link->qp[1] = qp;
	link->cq[0] = cq;
	if (!link_state(link, 0, IB_QPS_INIT))
		return false;
	for (i = 0; i < depth; i++) {
		wr.wr_id = i;
		if (ib_post_recv(qp, &wr, NULL))
			return false;
	}
	if (ib_post_recv(qp, &wr, NULL) != -ENOMEM ||
	    !link_state(link, 0, IB_QPS_ERR))
		return false;
	for (i = 0; i < depth; i++)
		if (!link_poll(link, 0, &wc) || wc.wr_id != i ||
		    wc.status != IB_WC_WR_FLUSH_ERR)
			return false;
	return link_quiet(link, 0);
}

static void try_qp(struct ib_device *dev, struct ib_pd *pd, struct ib_cq *cq,
		   u32 sges)
{
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap = {
			.max_send_wr = 16, .max_send_sge = 1,
			.max_recv_wr = dev->attrs.max_qp_wr,
			.max_recv_sge = sges,
		},
	};
	struct link link = { .dev = dev };
	struct ib_qp *qp = ib_create_qp(pd, &attr);

	if (!point(!IS_ERR(qp), "%u receives of %u SGEs: %ld",
		   attr.cap.max_recv_wr, sges, (long)PTR_ERR_OR_ZERO(qp)))
		return;
	point(is_of_use(&link, qp, cq, attr.cap.max_recv_wr),
	      "and all of them are of use");
	ib_destroy_qp(qp);
}

static void test_limits(struct ib_device *dev, u32 seed)
{
	struct ib_cq_init_attr cq_attr = { .cqe = dev->attrs.max_qp_wr + 16 };
	struct ib_pd *pd = ib_alloc_pd(dev, 0);
	struct ib_cq *cq, *most;

	if (IS_ERR(pd))
		return;
	cq = ib_create_cq(dev, NULL, NULL, NULL, &cq_attr);
	if (!point(!IS_ERR(cq), "a CQ for as many receives as there can be"))
		goto dealloc;
	try_qp(dev, pd, cq, 1);
	try_qp(dev, pd, cq, dev->attrs.max_recv_sge);
	cq_attr.cqe = dev->attrs.max_cqe;
	most = ib_create_cq(dev, NULL, NULL, NULL, &cq_attr);
	if (point(!IS_ERR(most), "a CQ of %u: %ld", cq_attr.cqe,
		  (long)PTR_ERR_OR_ZERO(most)))
		ib_destroy_cq(most);
	cq_attr.cqe++;
	most = ib_create_cq(dev, NULL, NULL, NULL, &cq_attr);
	point(most == ERR_PTR(-EINVAL), "one more: EINVAL");
	ib_destroy_cq(cq);
dealloc:
	ib_dealloc_pd(pd);
}

/* Message @i: its word of @buffer. */
static struct ib_sge long_sge(struct link *link, struct buffer *buffer, u32 i)
{
	struct ib_sge sge = buffer_sge(link, buffer, sizeof(u64));

	sge.addr += i * sizeof(u64);
	return sge;
}

/* All receives are posted, then all sends: each WQE and each CQE has its own contents. */
static bool long_round(struct link *link, struct buffer *from, struct buffer *to)
{
	struct ib_send_wr send = {
		.opcode = IB_WR_SEND, .num_sge = 1, .send_flags = IB_SEND_SIGNALED,
	};
	struct ib_recv_wr recv = { .num_sge = 1 };
	struct ib_sge sge;
	struct ib_wc wc;
	u32 i;

	recv.sg_list = &sge;
	send.sg_list = &sge;
	for (i = 0; i < LONG; i++) {
		sge = long_sge(link, to, i);
		recv.wr_id = i;
		if (ib_post_recv(link->qp[1], &recv, NULL))
			return false;
	}
	for (i = 0; i < LONG; i++) {
		sge = long_sge(link, from, i);
		send.wr_id = LONG + i;
		if (link_send(link, 0, &send))
			return false;
	}
	for (i = 0; i < LONG; i++) {
		if (!link_poll(link, 0, &wc) || wc.status || wc.wr_id != LONG + i ||
		    !link_poll(link, 1, &wc) || wc.status || wc.wr_id != i)
			return false;
	}
	return link_quiet(link, 0) && link_quiet(link, 1);
}

/* Once more than there are places, so that the rings wrap. */
static void test_long_rings(struct ib_device *dev, u32 seed)
{
	struct buffer from = {}, to = {};
	struct link link;
	bool good = true;
	u32 round;

	if (!link_open(&link, dev, (struct link_how){ .depth = LONG }))
		return;
	if (!buffer_open(&from, dev, LONG * sizeof(u64)) ||
	    !buffer_open(&to, dev, LONG * sizeof(u64)))
		goto close;
	for (round = 0; good && round < 3; round++) {
		buffer_fill(&from, from.size, seed + round);
		good = long_round(&link, &from, &to) &&
		       buffer_is(&to, to.size, seed + round);
	}
	point(good, "%u messages at a time, %u times: each has its own data", LONG,
	      round);
close:
	buffer_close(&from);
	buffer_close(&to);
	link_close(&link);
}

const struct verbs_test limit_tests[] = {
	{ "limits", test_limits },
	{ "long_rings", test_long_rings },
	{}
};
