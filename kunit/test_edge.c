// SPDX-License-Identifier: GPL-2.0
/*
 * Rare paths: tables for which the pool has too few nodes, leaves larger than the
 * memory in them, pages that are only looked at, numbers that must not be guessed,
 * commands that a NIC refuses or is slow with.
 */

#include <linux/fault-inject.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>

#include "harness.h"

#define TREE_PAGES	600	/* two nodes of leaves, and the root's */
#define TREE_NODES	3
#define TREE_OTHERS	3	/* allocations before: MR, umem, its scatterlist */
#define PAIRS		6

/* Leaves @keep nodes in the pool, and returns the others. */
static struct moor_node *pool_drain(struct moor_dev *mdev, u32 keep)
{
	struct moor_node_pool *pool = &mdev->nodes;
	struct moor_node *first = pool->free, **link = &pool->free;
	struct moor_node *taken;
	u32 i;

	for (i = 0; i < keep; i++)
		link = &(*link)->next;
	taken = *link;
	*link = NULL;
	pool->free = keep ? first : NULL;
	pool->count = keep;
	return taken;
}

static void pool_fill(struct moor_dev *mdev, struct moor_node *nodes)
{
	while (nodes) {
		struct moor_node *next = nodes->next;

		nodes->next = mdev->nodes.free;
		mdev->nodes.free = nodes;
		mdev->nodes.count++;
		nodes = next;
	}
}

/*
 * The pool is short of nodes, and each of the allocations for the missing ones
 * fails in turn: no page stays pinned, and the pool's nodes go back to it.
 */
static u32 nodes_fail(struct kunit *test, struct ib_pd *pd, unsigned long addr,
		      u32 keep)
{
	struct moor_dev *mdev = test->priv;
	struct moor_node *rest;
	bool reached = true, again = false;
	u32 nth, failed = 0;
	struct ib_mr *mr;

	rest = pool_drain(mdev, keep);
	for (nth = 1; reached; nth++) {
		current->fail_nth = nth;
		mr = moor_kunit_reg(pd, addr, TREE_PAGES * PAGE_SIZE, addr, 0);
		reached = !current->fail_nth;
		current->fail_nth = 0;
		if (!IS_ERR(mr)) {
			/* This failure did no harm; the MR's nodes are the pool's now. */
			KUNIT_ASSERT_EQ(test, moor_kunit_dereg(mr), 0);
			pool_fill(mdev, rest);
			rest = pool_drain(mdev, keep);
			/* Or the kernel's debugging allocated in between: once more. */
			again = reached && !again;
			nth -= again;
			continue;
		}
		again = false;
		failed++;
		KUNIT_EXPECT_EQ(test, PTR_ERR(mr), -ENOMEM);
		KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
		KUNIT_EXPECT_GE_MSG(test, mdev->nodes.count, keep,
				    "nodes are lost at allocation %u", nth);
		pool_fill(mdev, rest);
		rest = pool_drain(mdev, keep);
	}
	pool_fill(mdev, rest);
	return failed;
}

static void edge_nodes(struct kunit *test)
{
	unsigned long addr = moor_kunit_mmap_scattered(test, TREE_PAGES * PAGE_SIZE);
	struct ib_pd *pd = moor_kunit_pd(test);
	u32 keep;
	struct ib_mr *mr;

	/* Makes the allocations that are kept afterwards. */
	mr = moor_kunit_reg(pd, addr, TREE_PAGES * PAGE_SIZE, addr, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	KUNIT_ASSERT_EQ(test, to_mmr(mr)->reg.table.num_nodes, TREE_NODES);
	KUNIT_ASSERT_EQ(test, moor_kunit_dereg(mr), 0);
	/* Each missing node is one allocation more. */
	for (keep = TREE_NODES; keep; keep--)
		KUNIT_EXPECT_GE(test, nodes_fail(test, pd, addr, keep),
				TREE_OTHERS + TREE_NODES - keep);
	moor_kunit_pd_free(test, pd);
}

/* A full pool takes no more nodes: they are freed. */
static void edge_full_pool(struct kunit *test)
{
	unsigned long addr = moor_kunit_mmap_scattered(test, TREE_PAGES * PAGE_SIZE);
	struct ib_pd *pd = moor_kunit_pd(test);
	struct moor_dev *mdev = test->priv;
	const u32 full = 1024;
	struct ib_mr *mr;
	u32 count;

	mr = moor_kunit_reg(pd, addr, TREE_PAGES * PAGE_SIZE, addr, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	count = mdev->nodes.count;
	mdev->nodes.count = full;
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	KUNIT_EXPECT_EQ(test, mdev->nodes.count, full);
	mdev->nodes.count = count;
	moor_kunit_pd_free(test, pd);
}

/*
 * A pool that another task has locked is not waited for: nodes are made, and freed. The
 * lock is taken without its rules, as this task sleeps while it has it.
 */
#if defined(CONFIG_SMP) && !defined(CONFIG_PREEMPT_RT)
static void edge_locked_pool(struct kunit *test)
{
	unsigned long addr = moor_kunit_mmap_scattered(test, TREE_PAGES * PAGE_SIZE);
	struct ib_pd *pd = moor_kunit_pd(test);
	struct moor_dev *mdev = test->priv;
	arch_spinlock_t *lock = &mdev->nodes.lock.rlock.raw_lock;
	u32 count = mdev->nodes.count;
	struct ib_mr *mr;

	KUNIT_ASSERT_GE(test, count, TREE_NODES);
	arch_spin_lock(lock);
	mr = moor_kunit_reg(pd, addr, TREE_PAGES * PAGE_SIZE, addr, 0);
	KUNIT_EXPECT_EQ(test, mdev->nodes.count, count);
	if (!IS_ERR(mr)) {
		KUNIT_EXPECT_EQ(test, to_mmr(mr)->reg.table.num_nodes, TREE_NODES);
		KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	}
	KUNIT_EXPECT_EQ(test, mdev->nodes.count, count);
	arch_spin_unlock(lock);
	KUNIT_EXPECT_NOT_ERR_OR_NULL(test, mr);
	moor_kunit_pd_free(test, pd);
}
#else
static void edge_locked_pool(struct kunit *test)
{
	kunit_skip(test, "a spinning lock of another processor is not to be had");
}
#endif

/* Memory that begins in the middle of a large leaf, at the same place as its iova. */
static void edge_first_leaf(struct kunit *test)
{
	const u64 inside = SZ_1M + PAGE_SIZE, odd = 5, second = 5ULL * SZ_1G;
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct ib_umem umem = { .writable = 1 };
	struct moor_table table;
	struct scatterlist *sg;
	u64 dma, left;

	KUNIT_ASSERT_EQ(test, sg_alloc_table(&umem.sgt_append.sgt, 2, GFP_KERNEL), 0);
	sg = umem.sgt_append.sgt.sgl;
	sg_dma_address(sg) = SZ_1G + inside;
	sg_dma_len(sg) = SZ_2M - inside;
	sg = sg_next(sg);
	sg_dma_address(sg) = second;
	sg_dma_len(sg) = SZ_2M;
	umem.address = SZ_1G + inside + odd;
	umem.length = 2 * SZ_2M - inside - odd;

	KUNIT_ASSERT_EQ(test, moor_table_build(mdev, &table, &umem), 0);
	KUNIT_EXPECT_EQ(test, table.xlat.page_shift, ilog2(SZ_2M));
	KUNIT_ASSERT_TRUE(test, fake_xlat_find(nic, &table.xlat, 0, true, &dma,
					       &left));
	KUNIT_EXPECT_EQ(test, dma, SZ_1G + inside + odd);
	KUNIT_ASSERT_TRUE(test, fake_xlat_find(nic, &table.xlat,
					       SZ_2M - inside - odd, true, &dma,
					       &left));
	KUNIT_EXPECT_EQ(test, dma, second);
	moor_table_free(mdev, &table);
	sg_free_table(&umem.sgt_append.sgt);
}

/* The search for the page that cannot be pinned leaves no page pinned. */
static void edge_probed_pages(struct kunit *test)
{
	unsigned long addr = moor_kunit_mmap(test, 3 * PAGE_SIZE, true);
	struct ib_pd *pd = moor_kunit_pd(test);
	struct moor_dev *mdev = test->priv;
	struct moor_ucontext *uctx;
	struct moor_refusal why;
	struct page *page;
	struct ib_mr *mr;

	uctx = kunit_kzalloc(test, sizeof(*uctx), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, uctx);
	KUNIT_ASSERT_EQ(test, vm_munmap(addr + 2 * PAGE_SIZE, PAGE_SIZE), 0);
	mr = moor_kunit_reg(pd, addr, 3 * PAGE_SIZE, addr, IB_ACCESS_LOCAL_WRITE);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EFAULT);
	/* The search is made when the refusal is asked for. */
	uctx->refusal = mdev->refusals.last[(mdev->refusals.count - 1) %
					    MOOR_REFUSALS_KEPT].refusal;
	moor_refusal_last(mdev, uctx, &why);
	KUNIT_EXPECT_EQ(test, why.value, addr + 2 * PAGE_SIZE);
	KUNIT_ASSERT_EQ(test, get_user_pages_fast(addr, 1, FOLL_WRITE, &page), 1);
	KUNIT_EXPECT_FALSE(test, folio_maybe_dma_pinned(page_folio(page)));
	put_page(page);
	moor_kunit_pd_free(test, pd);
}

/* A QP's number does not tell the number of the next QP. */
static void edge_qp_numbers(struct kunit *test)
{
	u32 i, index, last = 0, near = 0, above = 0;
	struct moor_pair pair;

	for (i = 0; i < PAIRS; i++) {
		moor_pair_open(test, &pair);
		index = pair.qp->qpn & (BIT(FAKE_QP_INDEX_BITS) - 1);
		near += i && (index == last || index == last + 1);
		above |= pair.qp->qpn >> FAKE_QP_INDEX_BITS;
		last = index;
		moor_pair_close(test, &pair);
	}
	KUNIT_EXPECT_LT(test, near, PAIRS - 1);
	KUNIT_EXPECT_NE(test, above, 0);
}

/* A QP that the NIC refuses leaves its number free, and its rings unpinned. */
static void edge_qp_refused(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct ib_qp_init_attr attr = {
		.cap = { 64, 0, 1, 0, 0 },
		.qp_type = IB_QPT_RC,
	};
	struct moor_create_qp_req req = {
		.log_sq_depth = 6, .log_sq_stride = 6,
		.sq_addr = moor_kunit_mmap(test, PAGE_SIZE, true),
	};
	struct moor_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	struct ib_udata *udata;
	struct moor_pair pair;
	long pinned;

	KUNIT_ASSERT_NOT_NULL(test, qp);
	moor_pair_open(test, &pair);
	KUNIT_ASSERT_EQ(test, moor_destroy_qp(&pair.qp->ibqp, NULL), 0);
	pinned = moor_kunit_pinned();
	attr.send_cq = &pair.cq->ibcq;
	attr.recv_cq = &pair.cq->ibcq;
	qp->ibqp = (struct ib_qp){
		.device = &mdev->ibdev, .pd = pair.pd, .qp_type = IB_QPT_RC,
		.send_cq = attr.send_cq, .recv_cq = attr.recv_cq,
	};
	udata = moor_user_udata(test, pair.user, &req, sizeof(req),
				sizeof(struct moor_create_qp_resp));
	nic->behave.fail_opcode = MOOR_CMD_CREATE_QP;
	nic->behave.fail_status = MOOR_CMD_NO_RESOURCE;
	KUNIT_EXPECT_EQ(test, moor_create_qp(&qp->ibqp, &attr, udata), -ENOMEM);
	KUNIT_EXPECT_TRUE(test, xa_empty(&mdev->qps));
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), pinned);
	nic->behave.fail_status = 0;
	udata = moor_user_udata(test, pair.user, &req, sizeof(req),
				sizeof(struct moor_create_qp_resp));
	KUNIT_EXPECT_EQ(test, moor_create_qp(&qp->ibqp, &attr, udata), 0);
	pair.qp = qp;
	moor_pair_close(test, &pair);
}

struct closer {
	struct moor_cq *cq;
	struct completion done;
};

static int closer_thread(void *data)
{
	struct closer *me = data;

	moor_destroy_cq(&me->cq->ibcq, NULL);
	complete_all(&me->done);
	return 0;
}

/* A CQ's ring is pinned until the NIC has destroyed the CQ. */
static void edge_cq_ring(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	struct closer closer = { .cq = moor_kunit_cq(test, user) };
	long pinned = moor_kunit_pinned();

	KUNIT_ASSERT_GT(test, pinned, 0);
	init_completion(&closer.done);
	WRITE_ONCE(nic->behave.pause, true);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(closer_thread, &closer,
						       "closer"));
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&closer.done,
							  HZ / 10), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), pinned);
	WRITE_ONCE(nic->behave.pause, false);
	fake_nic_wake(nic);
	wait_for_completion(&closer.done);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_user_close(test, user);
}

static struct kunit_case edge_cases[] = {
	KUNIT_CASE(edge_nodes),
	KUNIT_CASE(edge_full_pool),
	KUNIT_CASE(edge_locked_pool),
	KUNIT_CASE(edge_first_leaf),
	KUNIT_CASE(edge_probed_pages),
	KUNIT_CASE(edge_qp_numbers),
	KUNIT_CASE(edge_qp_refused),
	KUNIT_CASE(edge_cq_ring),
	{}
};

static struct kunit_suite edge_suite = {
	.name = "moor_edge",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = edge_cases,
};

kunit_test_suite(edge_suite);
