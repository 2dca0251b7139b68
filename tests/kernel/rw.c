// SPDX-License-Identifier: GPL-2.0
/*
 * rdma_rw contexts of all sizes in both directions, as storage targets use them. With
 * ib_core.force_mr=1 on the kernel's command line they go through fast registration.
 */

#include <linux/completion.h>
#include <rdma/rw.h>

#include "verbs_test.h"

#define PAGES	300	/* more than rdma_rw registers at once */
#define MR_PAGES	256	/* the most that rdma_rw registers at once */
#define OTHER	0xee

struct transfer {
	struct ib_cqe cqe;
	struct completion done;
	enum ib_wc_status status;
};

static void transfer_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct transfer *transfer = container_of(wc->wr_cqe, struct transfer,
						 cqe);

	transfer->status = wc->status;
	complete(&transfer->done);
}

/* The most registrations that a context has used so far. */
static int most_mrs;

/* Side 0 writes the peer's memory or reads it. Return: 0, a status or an errno. */
static int transfer(struct link *link, struct pages *local, u64 addr, u32 rkey,
		    enum dma_data_direction dir)
{
	struct transfer transfer = { .cqe.done = transfer_done };
	unsigned long end = jiffies + PATIENCE;
	struct rdma_rw_ctx ctx = {};
	int got;

	init_completion(&transfer.done);
	got = rdma_rw_ctx_init(&ctx, link->qp[0], 1, local->sg, local->nents, 0,
			       addr, rkey, dir);
	if (got < 0)
		return got;
	most_mrs = max(most_mrs, link->qp[0]->mrs_used);
	got = rdma_rw_ctx_post(&ctx, link->qp[0], 1, &transfer.cqe, NULL);
	while (!got && !try_wait_for_completion(&transfer.done)) {
		ib_process_cq_direct(link->cq[0], -1);
		cond_resched();
		if (time_after(jiffies, end))
			got = -ETIMEDOUT;
	}
	rdma_rw_ctx_destroy(&ctx, link->qp[0], 1, local->sg, local->nents, dir);
	return got ?: transfer.status;
}

/* Makes a list of the range, unmapped: rdma_rw maps it. */
static bool describe(struct pages *pages, u32 offset, u32 length)
{
	bool good = pages_map(pages, offset, length);

	pages_unmap(pages);
	return good;
}

static bool try_size(struct link *link, struct pages *local,
		     struct pages *remote, struct ib_mr *mr, u32 offset,
		     u32 length, u8 seed)
{
	int read, write;
	bool good;

	if (!describe(local, offset, length))
		return false;
	pages_set(remote, OTHER);
	pages_fill(local, seed);
	write = transfer(link, local, mr->iova, mr->rkey, DMA_TO_DEVICE);
	/* The peer's mapped range is longer than this transfer. */
	remote->length = length;
	good = !write && pages_are(remote, seed) &&
	       pages_same_outside(remote, OTHER);
	pages_fill(remote, seed + 1);
	pages_set(local, OTHER);
	read = transfer(link, local, mr->iova, mr->rkey, DMA_FROM_DEVICE);
	good = good && !read && pages_are(local, seed + 1) &&
	       pages_same_outside(local, OTHER);
	remote->length = PAGES * PAGE_SIZE;
	if (!good)
		note("offset %u length %u: write %d, read %d", offset, length,
		     write, read);
	return good;
}

static void test_rw(struct ib_device *dev, u32 seed)
{
	/*
	 * rdma_rw registers by list entries. An IOMMU makes a single entry of the list,
	 * which then has to fit into one registration.
	 */
	u32 pages = device_iommu_mapped(dev->dma_device) ? MR_PAGES : PAGES;
	const u32 lengths[] = {
		1, 511, 4096, 4097, 16384, 65536, 65537, 300000,
		(pages - 1) * PAGE_SIZE,
	};
	struct link_how how = {
		.alloc_cq = true, .poll_ctx = IB_POLL_DIRECT, .rdma_ctxs = 4,
		.depth = 64, .max_sge = 16,
	};
	static const u32 offsets[] = { 0, 1, 3000 };
	struct pages local = {}, remote = {};
	struct link link;
	struct ib_mr *mr;
	bool good = true;
	u32 i, j, n = 0;

	most_mrs = 0;
	if (!link_open(&link, dev, how))
		return;
	mr = ib_alloc_mr(link.pd, IB_MR_TYPE_MEM_REG, PAGES);
	if (!point(!IS_ERR(mr), "an MR of %u pages", PAGES))
		goto close;
	if (!pages_alloc(&local, dev, PAGES) || !pages_alloc(&remote, dev, PAGES) ||
	    !pages_map(&remote, 0, PAGES * PAGE_SIZE) || !fast_map(mr, &remote))
		goto dereg;
	point(!fast_reg(&link, 1, mr, mr->rkey, ALL_REMOTE), "the peer's memory");
	for (i = 0; i < ARRAY_SIZE(offsets); i++)
		for (j = 0; j < ARRAY_SIZE(lengths); j++)
			good &= try_size(&link, &local, &remote, mr, offsets[i],
					 lengths[j], n++);
	point(good, "%u sizes and offsets, written and read, with data", n);
	if (list_empty(&link.qp[0]->rdma_mrs))
		point(!most_mrs, "without registrations");
	else
		point(most_mrs == DIV_ROUND_UP(pages, MR_PAGES) &&
		      !link.qp[0]->mrs_used, "by fast registrations, up to %d a context",
		      most_mrs);
	describe(&local, 0, PAGE_SIZE);
	point(ended_with(transfer(&link, &local, mr->iova, mr->rkey ^ 1,
				  DMA_TO_DEVICE), IB_WC_REM_ACCESS_ERR),
	      "another key: the user is told");
dereg:
	if (local.page)
		pages_free(&local);
	ib_dereg_mr(mr);
	if (remote.page)
		pages_free(&remote);
close:
	link_close(&link);
}

const struct verbs_test rw_tests[] = {
	{ "rw", test_rw },
	{}
};
