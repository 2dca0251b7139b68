// SPDX-License-Identifier: GPL-2.0
/* Queues of a user in the kernel, and the CQEs that a case writes for the NIC. */

#include "kernel_pair.h"

void kernel_pair_add_qp(struct kunit *test, struct kernel_pair *pair,
			enum ib_qp_type type)
{
	struct ib_qp_init_attr attr = {
		.qp_type = type,
		.send_cq = &pair->cq->ibcq,
		.recv_cq = &pair->cq->ibcq,
		.cap = { KERNEL_DEPTH, KERNEL_DEPTH, 2, 1, 8 },
		.sq_sig_type = IB_SIGNAL_REQ_WR,
	};
	struct ib_qp *qp = ib_create_qp(pair->pd, &attr);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, qp);
	pair->qp = to_mqp(qp);
}

struct kernel_pair *kernel_pair_open_type(struct kunit *test,
					  enum ib_qp_type type)
{
	struct kernel_pair *pair = kunit_kzalloc(test, sizeof(*pair), GFP_KERNEL);
	struct ib_cq_init_attr cq_attr = { .cqe = 2 * KERNEL_DEPTH };
	struct ib_cq *cq;

	KUNIT_ASSERT_NOT_NULL(test, pair);
	pair->mdev = test->priv;
	pair->pd = ib_alloc_pd(&pair->mdev->ibdev, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pair->pd);
	cq = ib_create_cq(&pair->mdev->ibdev, NULL, NULL, NULL, &cq_attr);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq);
	pair->cq = to_mcq(cq);
	kernel_pair_add_qp(test, pair, type);
	return pair;
}

struct kernel_pair *kernel_pair_open(struct kunit *test)
{
	return kernel_pair_open_type(test, IB_QPT_RC);
}

void kernel_pair_close_qp(struct kunit *test, struct kernel_pair *pair)
{
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(&pair->qp->ibqp), 0);
	ib_destroy_cq(&pair->cq->ibcq);
	ib_dealloc_pd(pair->pd);
}

/**
 * kernel_pair_close - close the last pair, and check that nothing is left
 * @test: case
 * @pair: from kernel_pair_open()
 */
void kernel_pair_close(struct kunit *test, struct kernel_pair *pair)
{
	kernel_pair_close_qp(test, pair);
	KUNIT_EXPECT_TRUE(test, xa_empty(&pair->mdev->qps));
	KUNIT_EXPECT_TRUE(test, xa_empty(&pair->mdev->fast_mrs));
	KUNIT_EXPECT_EQ(test, moor_keys_used(&pair->mdev->mw_keys), 0);
}

void kernel_pair_write(struct kernel_pair *pair, struct moor_cqe cqe)
{
	struct moor_kernel_cq *kcq = &pair->cq->kernel;
	struct moor_cqe *ring = moor_kernel_ring_at(&kcq->ring, 0);
	u32 index = pair->written++;

	if (!cqe.qpn)
		cqe.qpn = cpu_to_le32(pair->qp->qpn);
	cqe.phase = cpu_to_le32(!((index >> kcq->log_cqe) & 1));
	ring[index & (BIT(kcq->log_cqe) - 1)] = cqe;
}

/* Posts SENDs of no bytes, with numbers from @wr_id on. Return: 0, or what posting says. */
int kernel_pair_send(struct kernel_pair *pair, u32 count, u64 wr_id)
{
	struct ib_send_wr wr = { .opcode = IB_WR_SEND };
	int err = 0;

	while (count-- && !err) {
		wr.wr_id = wr_id++;
		err = ib_post_send(&pair->qp->ibqp, &wr, NULL);
	}
	return err;
}

u64 *kernel_slot_in_nic(const struct moor_kernel_slot *slot)
{
	struct fake_nic *nic = moor_kunit_nic();

	return &nic->slots[slot->page->index * MOOR_DB_SLOTS_PER_PAGE +
			   slot->number];
}
