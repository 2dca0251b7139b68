// SPDX-License-Identifier: GPL-2.0
/*
 * A kernel client whose device goes while it is in use: it dies, or is removed.
 * Whatever was posted completes once, queue pairs can be drained and all objects
 * destroyed. tests/device/kernel_gone.t makes the device go.
 */

#include <linux/slab.h>
#include <linux/wait.h>

#include "verbs_test.h"

#define CHAINS		8
#define STEPS		3	/* REG_MR, WRITE, LOCAL_INV */
#define RECVS		16
#define LENGTH		512	/* bytes that a WRITE moves within the page */

/* A work request, and whether its completion is due. */
struct wait_for {
	struct ib_cqe cqe;
	struct gone *gone;
	struct chain *chain;	/* NULL: a receive */
	bool posted;
};

/* REG_MR, WRITE and LOCAL_INV of one MR, posted again whenever they have completed. */
struct chain {
	struct wait_for step[STEPS];
	struct ib_reg_wr reg;
	struct ib_rdma_wr write;
	struct ib_send_wr inv;
	struct ib_sge sge;
	struct ib_mr *mr;
};

struct gone {
	struct link link;
	struct buffer buffer;
	struct chain chains[CHAINS];
	struct wait_for recvs[2][RECVS];
	wait_queue_head_t wait;
	bool over;		/* a request was flushed, or the test ends */
	bool wrong;		/* a completion was not due, or had another status */
	atomic_t rounds;
};

static void chain_post(struct chain *chain);

static void chain_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct wait_for *done = container_of(wc->wr_cqe, struct wait_for, cqe);
	struct gone *gone = done->gone;
	struct chain *chain = done->chain;
	int i;

	if (!done->posted || (wc->status && wc->status != IB_WC_WR_FLUSH_ERR))
		WRITE_ONCE(gone->wrong, true);
	done->posted = false;
	/* The unsignaled requests before it have ended, too. */
	for (i = 0; chain && &chain->step[i] != done; i++)
		chain->step[i].posted = false;
	if (wc->status || !chain) {
		WRITE_ONCE(gone->over, true);
		wake_up(&gone->wait);
		return;
	}
	atomic_inc(&gone->rounds);
	atomic_inc(&moved);
	if (device_leaves(gone->link.dev))
		wake_up(&gone->wait);
	if (!READ_ONCE(gone->over))
		chain_post(chain);
}

static void chain_post(struct chain *chain)
{
	const struct ib_send_wr *bad = NULL;
	u32 key = ib_inc_rkey(chain->mr->rkey);
	int i;

	ib_update_fast_reg_key(chain->mr, key);
	chain->reg.key = chain->mr->rkey;
	chain->write.rkey = chain->mr->rkey;
	chain->sge.lkey = chain->mr->lkey;
	chain->inv.ex.invalidate_rkey = chain->mr->rkey;
	for (i = 0; i < STEPS; i++)
		chain->step[i].posted = true;
	if (ib_post_send(chain->step[0].gone->link.qp[0], &chain->reg.wr, &bad))
		WRITE_ONCE(chain->step[0].gone->wrong, true);
}

/*
 * The WRITE goes from the first half of the page to the second; both sides share a PD.
 */
static bool chain_open(struct gone *gone, struct chain *chain, u64 page)
{
	struct scatterlist sg;
	int i;

	chain->mr = ib_alloc_mr(gone->link.pd, IB_MR_TYPE_MEM_REG, 1);
	if (IS_ERR(chain->mr)) {
		chain->mr = NULL;
		return false;
	}
	for (i = 0; i < STEPS; i++)
		chain->step[i] = (struct wait_for){
			.cqe.done = chain_done, .gone = gone, .chain = chain,
		};
	sg_init_table(&sg, 1);
	sg_dma_address(&sg) = page;
	sg_dma_len(&sg) = PAGE_SIZE;
	if (ib_map_mr_sg(chain->mr, &sg, 1, NULL, PAGE_SIZE) != 1)
		return false;
	chain->sge.addr = chain->mr->iova;
	chain->sge.length = LENGTH;
	chain->reg.wr.wr_cqe = &chain->step[0].cqe;
	chain->reg.wr.opcode = IB_WR_REG_MR;
	chain->reg.wr.next = &chain->write.wr;
	chain->reg.mr = chain->mr;
	chain->reg.access = ALL_REMOTE;
	chain->write.wr.wr_cqe = &chain->step[1].cqe;
	chain->write.wr.opcode = IB_WR_RDMA_WRITE;
	chain->write.wr.sg_list = &chain->sge;
	chain->write.wr.num_sge = 1;
	chain->write.wr.next = &chain->inv;
	chain->write.remote_addr = chain->mr->iova + PAGE_SIZE / 2;
	chain->inv.wr_cqe = &chain->step[2].cqe;
	chain->inv.opcode = IB_WR_LOCAL_INV;
	/* Fence: the key must not go while the WRITE uses it. */
	chain->inv.send_flags = IB_SEND_SIGNALED | IB_SEND_FENCE;
	return true;
}

static bool post_recvs(struct gone *gone, int side)
{
	struct ib_recv_wr wr = {};
	int i;

	for (i = 0; i < RECVS; i++) {
		struct wait_for *recv = &gone->recvs[side][i];

		*recv = (struct wait_for){
			.cqe.done = chain_done, .gone = gone, .posted = true,
		};
		wr.wr_cqe = &recv->cqe;
		if (ib_post_recv(gone->link.qp[side], &wr, NULL))
			return false;
	}
	return true;
}

static u32 still_posted(struct gone *gone)
{
	u32 left = 0, i, n;

	for (i = 0; i < CHAINS; i++)
		for (n = 0; n < STEPS; n++)
			left += gone->chains[i].step[n].posted;
	for (i = 0; i < RECVS; i++)
		left += gone->recvs[0][i].posted + gone->recvs[1][i].posted;
	return left;
}

static bool begin(struct gone *gone)
{
	u32 i;

	for (i = 0; i < CHAINS; i++)
		if (!chain_open(gone, &gone->chains[i],
				gone->buffer.dma + i * PAGE_SIZE))
			return false;
	if (!post_recvs(gone, 0) || !post_recvs(gone, 1))
		return false;
	for (i = 0; i < CHAINS; i++)
		chain_post(&gone->chains[i]);
	return true;
}

/* Posts once more: that must still work, and be flushed. */
static bool flushes_one_more(struct gone *gone)
{
	struct chain *chain = &gone->chains[0];

	chain_post(chain);
	ib_drain_sq(gone->link.qp[0]);
	return !still_posted(gone);
}

static void end(struct gone *gone)
{
	bool good = true;
	u32 i;

	WRITE_ONCE(gone->over, true);
	ib_drain_qp(gone->link.qp[0]);
	/* A handler that had not seen @over may have posted behind the first drain. */
	ib_drain_sq(gone->link.qp[0]);
	ib_drain_qp(gone->link.qp[1]);
	point(!still_posted(gone) && !gone->wrong,
	      "drained: each work request has completed, and once");
	point(flushes_one_more(gone), "and what is posted afterwards");
	for (i = 0; i < CHAINS; i++)
		if (gone->chains[i].mr)
			good &= !ib_dereg_mr(gone->chains[i].mr);
	point(good, "each MR is deregistered");
}

static void test_gone(struct ib_device *dev, u32 seed)
{
	static const enum ib_poll_context contexts[] = {
		IB_POLL_SOFTIRQ, IB_POLL_WORKQUEUE, IB_POLL_UNBOUND_WORKQUEUE,
	};
	struct link_how how = {
		.alloc_cq = true,
		.poll_ctx = contexts[seed % ARRAY_SIZE(contexts)],
	};
	struct gone *gone = kzalloc(sizeof(*gone), GFP_KERNEL);

	if (!gone)
		return;
	init_waitqueue_head(&gone->wait);
	if (!link_open(&gone->link, dev, how))
		goto free;
	if (!buffer_open(&gone->buffer, dev, CHAINS * PAGE_SIZE))
		goto close;
	if (begin(gone)) {
		point(wait_event_timeout(gone->wait, READ_ONCE(gone->over) ||
					 device_leaves(dev), 6 * PATIENCE),
		      "the device goes, or dies");
		note("%d rounds", atomic_read(&gone->rounds));
	} else {
		point(false, "work is under way");
	}
	end(gone);
	buffer_close(&gone->buffer);
close:
	link_close(&gone->link);
free:
	kfree(gone);
}

const struct verbs_test gone_tests[] = {
	{ "gone", test_gone },
	{}
};
