// SPDX-License-Identifier: GPL-2.0
/*
 * Fast registration: what is written into tables, and which table is in use when a work
 * request fails. The NIC executes nothing here: the cases write the CQEs.
 */

#include "kernel_pair.h"

static struct moor_fast_mr *fast_open(struct kunit *test,
				      struct kernel_pair *pair, u32 pages)
{
	struct ib_mr *mr = ib_alloc_mr(pair->pd, IB_MR_TYPE_MEM_REG, pages);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	return to_fast_mr(mr);
}

static void fast_map(struct kunit *test, struct moor_fast_mr *fast, u64 addr)
{
	struct scatterlist sg;

	sg_init_table(&sg, 1);
	sg_dma_address(&sg) = addr;
	sg_dma_len(&sg) = 2 * PAGE_SIZE;
	KUNIT_ASSERT_EQ(test, ib_map_mr_sg(&fast->mr.ibmr, &sg, 1, NULL, PAGE_SIZE),
			1);
}

static int fast_post(struct kernel_pair *pair, struct moor_fast_mr *fast,
		     int access)
{
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.mr = &fast->mr.ibmr,
		.key = fast->mr.ibmr.rkey,
		.access = access,
	};

	return ib_post_send(&pair->qp->ibqp, &wr.wr, NULL);
}

/* First entry of the table that the WQE at an index names. */
static u64 fast_first_page(struct kernel_pair *pair, u32 index)
{
	const struct moor_sq_wqe *wqe = moor_wqe_at(&pair->qp->kernel.sq, index);
	const struct moor_wqe_reg *reg = (const void *)(wqe + 1);
	const __le64 *table = fake_dma(le64_to_cpu(reg->xlat.root) & MOOR_PTE_ADDR);

	return le64_to_cpu(*table) & MOOR_PTE_ADDR;
}

static void fast_entry(struct kunit *test)
{
	struct kernel_pair *pair = kernel_pair_open(test);
	struct moor_fast_mr *fast = fast_open(test, pair, 3);
	const struct moor_mr_context *entry = moor_kunit_entry(fast->mr.key);
	struct moor_dev *mdev = pair->mdev;

	KUNIT_EXPECT_EQ(test, FIELD_GET(MOOR_MRC_TYPE, le64_to_cpu(entry->valid)),
			MOOR_MRC_TYPE_FAST_REG);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(entry->max_pages), 3);
	KUNIT_EXPECT_EQ(test, entry->access, 0);
	KUNIT_EXPECT_EQ(test, entry->length, 0);
	KUNIT_EXPECT_TRUE(test, IS_ERR(moor_alloc_mr(pair->pd, IB_MR_TYPE_SG_GAPS, 1)));
	KUNIT_EXPECT_TRUE(test, IS_ERR(moor_alloc_mr(pair->pd, IB_MR_TYPE_MEM_REG, 0)));
	KUNIT_EXPECT_TRUE(test, IS_ERR(moor_alloc_mr(pair->pd, IB_MR_TYPE_MEM_REG,
						     MOOR_FAST_MAX_PAGES + 1)));
	moor_hw_kill(mdev, "a case asked for it");
	KUNIT_EXPECT_PTR_EQ(test, moor_alloc_mr(pair->pd, IB_MR_TYPE_MEM_REG, 1),
			    ERR_PTR(-EIO));
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(&fast->mr.ibmr), 0);
	kernel_pair_close(test, pair);
}

static void fast_without(struct kunit *test)
{
	struct moor_dev *mdev = moor_kunit_replug(test, MOOR_FEATURE_FAST_REG);
	struct ib_pd *pd = moor_kunit_pd(test);

	KUNIT_EXPECT_EQ(test, mdev->ibdev.attrs.max_fast_reg_page_list_len, 0);
	KUNIT_EXPECT_FALSE(test, mdev->ibdev.attrs.device_cap_flags &
				 IB_DEVICE_MEM_MGT_EXTENSIONS);
	KUNIT_EXPECT_PTR_EQ(test, moor_alloc_mr(pd, IB_MR_TYPE_MEM_REG, 1),
			    ERR_PTR(-EOPNOTSUPP));
	moor_kunit_pd_free(test, pd);
}

/* Mapping never writes into the table of the last REG_MR. */
static void fast_tables(struct kunit *test)
{
	struct kernel_pair *pair = kernel_pair_open(test);
	struct moor_fast_mr *fast = fast_open(test, pair, 2);

	fast_map(test, fast, 0x10000);
	KUNIT_ASSERT_EQ(test, fast_post(pair, fast, IB_ACCESS_LOCAL_WRITE), 0);
	fast_map(test, fast, 0x20000);
	KUNIT_EXPECT_EQ(test, fast_first_page(pair, 0), 0x10000);
	fast_map(test, fast, 0x30000);
	KUNIT_EXPECT_EQ(test, fast_first_page(pair, 0), 0x10000);
	KUNIT_ASSERT_EQ(test, fast_post(pair, fast, IB_ACCESS_LOCAL_WRITE), 0);
	fast_map(test, fast, 0x40000);
	KUNIT_EXPECT_EQ(test, fast_first_page(pair, 1), 0x30000);
	KUNIT_EXPECT_EQ(test, fast_first_page(pair, 0), 0x40000);
	KUNIT_EXPECT_EQ(test, fast_post(pair, fast, IB_ACCESS_ON_DEMAND), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(&fast->mr.ibmr), 0);
	kernel_pair_close(test, pair);
}

/* Rights of FLUSH: those of the device, but not PERSISTENT: the pages are unknown. */
static void fast_flush(struct kunit *test)
{
	struct kernel_pair *pair = kernel_pair_open(test);
	struct moor_fast_mr *fast = fast_open(test, pair, 2);
	const struct moor_sq_wqe *wqe = moor_wqe_at(&pair->qp->kernel.sq, 0);
	const struct moor_wqe_reg *reg = (const void *)(wqe + 1);

	fast_map(test, fast, 0x10000);
	KUNIT_EXPECT_EQ(test, fast_post(pair, fast, IB_ACCESS_FLUSH_PERSISTENT),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, fast_post(pair, fast, IB_ACCESS_LOCAL_WRITE |
					IB_ACCESS_RELAXED_ORDERING |
					IB_ACCESS_FLUSH_GLOBAL), 0);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(reg->access),
			MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_RELAXED_ORDERING |
			MOOR_ACCESS_FLUSH_GLOBAL);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(&fast->mr.ibmr), 0);
	kernel_pair_close(test, pair);

	moor_kunit_replug(test, MOOR_FEATURE_FLUSH_GLOBAL);
	pair = kernel_pair_open(test);
	fast = fast_open(test, pair, 2);
	fast_map(test, fast, 0x10000);
	KUNIT_EXPECT_EQ(test, fast_post(pair, fast, IB_ACCESS_FLUSH_GLOBAL), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(&fast->mr.ibmr), 0);
	kernel_pair_close(test, pair);
}

/* A REG_MR that fails gives its table back: the table before it is still in use. */
static void fast_failed(struct kunit *test)
{
	struct kernel_pair *pair = kernel_pair_open(test);
	struct moor_fast_mr *fast = fast_open(test, pair, 2);
	struct ib_wc wc;

	fast_map(test, fast, 0x10000);
	fast_post(pair, fast, IB_ACCESS_LOCAL_WRITE);
	fast_map(test, fast, 0x20000);
	fast_post(pair, fast, IB_ACCESS_LOCAL_WRITE);
	kernel_pair_write(pair, (struct moor_cqe){
		.status = MOOR_WC_WR_FLUSH_ERR, .wqe_index = cpu_to_le32(1),
	});
	KUNIT_ASSERT_EQ(test, ib_poll_cq(&pair->cq->ibcq, 1, &wc), 1);
	KUNIT_EXPECT_EQ(test, wc.opcode, IB_WC_REG_MR);
	fast_map(test, fast, 0x30000);
	KUNIT_EXPECT_EQ(test, fast_first_page(pair, 0), 0x10000);
	KUNIT_EXPECT_EQ(test, fast_first_page(pair, 1), 0x30000);
	/* The MR may be gone when its REG_MR fails. */
	fast_post(pair, fast, IB_ACCESS_LOCAL_WRITE);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(&fast->mr.ibmr), 0);
	kernel_pair_write(pair, (struct moor_cqe){
		.status = MOOR_WC_WR_FLUSH_ERR, .wqe_index = cpu_to_le32(2),
	});
	KUNIT_EXPECT_EQ(test, ib_poll_cq(&pair->cq->ibcq, 1, &wc), 1);
	kernel_pair_close(test, pair);
}

/*
 * The CQ has failed, and the driver flushes what was posted. Which table the device uses
 * is unknown, so the MR cannot be mapped again; one without a REG_MR can.
 */
static void fast_flushed(struct kunit *test)
{
	struct kernel_pair *pair = kernel_pair_open(test);
	struct moor_fast_mr *fast = fast_open(test, pair, 2);
	struct moor_fast_mr *other = fast_open(test, pair, 2);
	struct scatterlist sg;
	struct ib_wc wc[2];

	fast_map(test, other, 0x50000);
	fast_map(test, fast, 0x10000);
	KUNIT_ASSERT_EQ(test, fast_post(pair, fast, IB_ACCESS_LOCAL_WRITE), 0);
	local_irq_disable();
	moor_kernel_cq_failed(pair->cq);
	local_irq_enable();
	fast_map(test, fast, 0x20000);
	moor_kernel_qp_stopped(pair->qp);
	KUNIT_ASSERT_EQ(test, ib_poll_cq(&pair->cq->ibcq, 2, wc), 1);
	KUNIT_EXPECT_EQ(test, wc[0].status, IB_WC_WR_FLUSH_ERR);
	KUNIT_EXPECT_EQ(test, wc[0].opcode, IB_WC_REG_MR);
	sg_init_table(&sg, 1);
	sg_dma_address(&sg) = 0x30000;
	sg_dma_len(&sg) = PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, ib_map_mr_sg(&fast->mr.ibmr, &sg, 1, NULL, PAGE_SIZE),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, fast_first_page(pair, 0), 0x10000);
	fast_map(test, other, 0x40000);
	/* A dead device uses neither table. */
	moor_hw_kill(pair->mdev, NULL);
	fast_map(test, fast, 0x30000);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(&fast->mr.ibmr), 0);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(&other->mr.ibmr), 0);
	kernel_pair_close(test, pair);
}

/* The MR of a failed REG_MR was looked up just before it went: its nodes are gone. */
static void fast_failed_late(struct kunit *test)
{
	struct kernel_pair *pair = kernel_pair_open(test);
	struct moor_fast_mr *fast = fast_open(test, pair, 2);
	u32 index = moor_key_index(pair->mdev, fast->mr.key);
	struct moor_node_pool *pool = &pair->mdev->nodes;
	struct moor_fast_mr late;
	u8 posted;

	fast_map(test, fast, 0x10000);
	KUNIT_ASSERT_EQ(test, fast_post(pair, fast, IB_ACCESS_LOCAL_WRITE), 0);
	late = *fast;
	posted = late.posted;
	/* A full pool keeps no node. */
	pool->count += S16_MAX;
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(&fast->mr.ibmr), 0);
	pool->count -= S16_MAX;
	/* A task that looked the MR up before can use it until a grace period is over. */
	KUNIT_ASSERT_EQ(test, xa_err(xa_store(&pair->mdev->fast_mrs, index, &late,
					      GFP_KERNEL)), 0);
	moor_fast_failed(pair->qp, 0);
	KUNIT_EXPECT_EQ(test, late.posted, !posted);
	xa_erase(&pair->mdev->fast_mrs, index);
	kernel_pair_close(test, pair);
}

/* What the NIC says of the MR: VALID, with the last key, or with one that nobody posted. */
static void say_valid(struct fake_nic *nic, const struct moor_cmd *cmd,
		      struct moor_cpl *answer)
{
	struct moor_cpl_mr_query *now = (void *)answer->out;
	const struct moor_fast_mr *fast = nic->behave.lie_arg;

	if (cmd->hdr.opcode != MOOR_CMD_MR_QUERY)
		return;
	*now = (struct moor_cpl_mr_query){
		.state = MOOR_MR_STATE_VALID,
		.key = cpu_to_le32(fast->mr.ibmr.rkey),
		.iova = cpu_to_le64(fast->mr.ibmr.iova),
		.length = cpu_to_le64(fast->mr.ibmr.length),
	};
}

static void settle(struct kernel_pair *pair, struct moor_fast_mr *fast)
{
	struct fake_nic *nic = moor_kunit_nic();

	nic->behave.lie_arg = fast;
	WRITE_ONCE(nic->behave.lie, say_valid);
	moor_fast_settle(pair->qp);
	WRITE_ONCE(nic->behave.lie, NULL);
}

/*
 * A REG_MR that took effect, and was not polled for; the MR was invalidated and registered
 * twice by another queue pair. Then the first one is reset: the table that is in use has
 * the address of that REG_MR's, but is not the one that the MR may be mapped into.
 */
static void fast_settled(struct kunit *test)
{
	struct kernel_pair *pair = kernel_pair_open(test);
	struct kernel_pair *other = kernel_pair_open(test);
	struct moor_fast_mr *fast = fast_open(test, pair, 2);
	struct scatterlist sg;
	u32 i;

	for (i = 0; i < 3; i++) {
		ib_update_fast_reg_key(&fast->mr.ibmr, i);
		fast_map(test, fast, 0x10000 * (i + 1));
		KUNIT_ASSERT_EQ(test, fast_post(i ? other : pair, fast, IB_ACCESS_LOCAL_WRITE),
				0);
	}
	settle(pair, fast);
	fast_map(test, fast, 0x50000);
	KUNIT_EXPECT_EQ(test, fast_first_page(other, 1), 0x30000);
	/* The second to last is valid: the last did not take effect. */
	ib_update_fast_reg_key(&fast->mr.ibmr, 1);
	fast_map(test, fast, 0x20000);
	fast->mr.ibmr.iova = le64_to_cpu(fast->said[!fast->posted].iova);
	settle(other, fast);
	KUNIT_EXPECT_EQ(test, fast->said[fast->posted].key, cpu_to_le32(fast->mr.ibmr.rkey));
	/* None of the two: the MR is mapped no more. */
	ib_update_fast_reg_key(&fast->mr.ibmr, 9);
	settle(other, fast);
	sg_init_table(&sg, 1);
	sg_dma_address(&sg) = 0x30000;
	sg_dma_len(&sg) = PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, ib_map_mr_sg(&fast->mr.ibmr, &sg, 1, NULL, PAGE_SIZE), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(&fast->mr.ibmr), 0);
	kernel_pair_close_qp(test, other);
	kernel_pair_close(test, pair);
}

static struct kunit_case fast_cases[] = {
	KUNIT_CASE(fast_entry),
	KUNIT_CASE(fast_without),
	KUNIT_CASE(fast_tables),
	KUNIT_CASE(fast_flush),
	KUNIT_CASE(fast_failed),
	KUNIT_CASE(fast_failed_late),
	KUNIT_CASE(fast_flushed),
	KUNIT_CASE(fast_settled),
	{}
};

static struct kunit_suite fast_suite = {
	.name = "moor_fast",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = fast_cases,
};

kunit_test_suite(fast_suite);
