// SPDX-License-Identifier: GPL-2.0
/* Unreliable connections of the kernel: messages, registrations, drain, silence. */

#include "verbs_test.h"

static const struct link_how uc = { .type = IB_QPT_UC };

/* Sends an empty message: what was sent before has arrived by then, or never will. */
static bool settle(struct link *link)
{
	struct ib_send_wr wr = {
		.wr_id = 90, .opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	struct ib_wc wc;

	return !link_recv(link, 1, 91) && !link_finish(link, 0, &wr) &&
	       link_poll(link, 1, &wc) && !wc.status && wc.wr_id == 91;
}

static void try_send(struct link *link, struct buffer *from, struct buffer *to)
{
	struct ib_sge out = buffer_sge(link, from, 3000);
	struct ib_sge in = buffer_sge(link, to, PAGE_SIZE);
	struct ib_recv_wr recv = { .wr_id = 5, .num_sge = 1, .sg_list = &in };
	struct ib_send_wr send = {
		.opcode = IB_WR_SEND_WITH_IMM, .num_sge = 1, .sg_list = &out,
		.send_flags = IB_SEND_SIGNALED, .ex.imm_data = cpu_to_be32(77),
	};
	struct ib_wc wc;

	buffer_fill(from, 3000, 1);
	point(!link_finish(link, 0, &send) && settle(link) &&
	      link_quiet(link, 1),
	      "a message that finds no receive: success, and nothing comes");
	ib_post_recv(link->qp[1], &recv, NULL);
	point(!link_finish(link, 0, &send) && link_poll(link, 1, &wc) &&
	      !wc.status && wc.wr_id == 5 && wc.byte_len == 3000 &&
	      wc.wc_flags == IB_WC_WITH_IMM &&
	      wc.ex.imm_data == cpu_to_be32(77) && buffer_is(to, 3000, 1),
	      "SEND with immediate, to the next receive");
}

static void try_write(struct link *link, struct buffer *from, struct buffer *to)
{
	struct ib_sge sge = buffer_sge(link, from, 3000);
	struct scatterlist sg;
	struct ib_mr *mr;

	mr = ib_alloc_mr(link->pd, IB_MR_TYPE_MEM_REG, 1);
	if (!point(!IS_ERR(mr), "an MR"))
		return;
	sg_init_table(&sg, 1);
	sg_dma_address(&sg) = to->dma;
	sg_dma_len(&sg) = PAGE_SIZE;
	ib_map_mr_sg(mr, &sg, 1, NULL, PAGE_SIZE);
	point(!fast_reg(link, 1, mr, mr->rkey, ALL_REMOTE), "REG_MR");
	buffer_fill(from, 3000, 2);
	point(!link_rdma(link, 0, IB_WR_RDMA_WRITE, &sge, mr->iova, mr->rkey) &&
	      settle(link) && buffer_is(to, 3000, 2), "WRITE");
	point(link_rdma(link, 0, IB_WR_RDMA_READ, &sge, mr->iova, mr->rkey) ==
	      -EINVAL, "READ: EINVAL");
	point(!fast_inv(link, 1, mr->rkey), "LOCAL_INV");
	buffer_fill(from, 3000, 3);
	point(!link_rdma(link, 0, IB_WR_RDMA_WRITE, &sge, mr->iova, mr->rkey) &&
	      settle(link) && buffer_is(to, 3000, 2),
	      "WRITE by the dead key: success, and nothing comes");
	ib_dereg_mr(mr);
}

static void test_uc(struct ib_device *dev, u32 seed)
{
	struct buffer from = {}, to = {};
	struct link link;

	if (!link_open(&link, dev, uc))
		return;
	if (buffer_open(&from, dev, PAGE_SIZE) && buffer_open(&to, dev, PAGE_SIZE)) {
		try_send(&link, &from, &to);
		try_write(&link, &from, &to);
	}
	buffer_close(&from);
	buffer_close(&to);
	link_close(&link);
}

struct waiting {
	struct ib_cqe cqe;
	int flushed;
};

static void count_flushed(struct ib_cq *cq, struct ib_wc *wc)
{
	struct waiting *waiting = container_of(wc->wr_cqe, struct waiting, cqe);

	waiting->flushed += wc->status == IB_WC_WR_FLUSH_ERR;
}

static void test_uc_drain(struct ib_device *dev, u32 seed)
{
	struct waiting waiting = { .cqe.done = count_flushed };
	struct ib_recv_wr recv = { .wr_cqe = &waiting.cqe };
	struct link_how how = uc;
	struct link link;
	int i;

	how.alloc_cq = true;
	how.poll_ctx = IB_POLL_SOFTIRQ;
	if (!link_open(&link, dev, how))
		return;
	for (i = 0; i < 10; i++)
		ib_post_recv(link.qp[1], &recv, NULL);
	ib_drain_qp(link.qp[1]);
	point(waiting.flushed == 10, "drained: all receives are flushed");
	link_close(&link);
}

const struct verbs_test uc_tests[] = {
	{ "uc", test_uc },
	{ "uc_drain", test_uc_drain },
	{}
};
