// SPDX-License-Identifier: GPL-2.0
/* CQs of the kernel that have failed, and outlive the queue pairs that they failed under. */

#include "kernel_pair.h"

static void cq_fails(struct moor_cq *cq)
{
	local_irq_disable();
	moor_kernel_cq_failed(cq);
	local_irq_enable();
}

/* How many queue pairs a CQ knows when the NIC is asked for one. */
struct users {
	const struct moor_kernel_cq *cq;
	u32 seen;
};

static void note_users(struct fake_nic *nic, const struct moor_cmd *cmd,
		       struct moor_cpl *answer)
{
	struct users *users = nic->behave.lie_arg;

	if (cmd->hdr.opcode == MOOR_CMD_CREATE_QP)
		users->seen = users->cq->num_qps;
}

/* A CQ that has failed is made anew for a queue pair, unless another completes to it yet. */
static void spent_renewed(struct kunit *test)
{
	struct kernel_pair *pair = kernel_pair_open(test);
	struct moor_kernel_cq *kcq = &pair->cq->kernel;
	struct fake_nic *nic = moor_kunit_nic();
	u32 made = nic->commands[MOOR_CMD_CREATE_CQ];
	struct users users = { .cq = kcq };
	struct ib_qp *first = &pair->qp->ibqp, *second;
	struct ib_wc wc;

	kernel_pair_write(pair, (struct moor_cqe){ .opcode = MOOR_CQE_RECV });
	kernel_pair_add_qp(test, pair, IB_QPT_RC);
	second = &pair->qp->ibqp;
	cq_fails(pair->cq);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(first), 0);
	kernel_pair_add_qp(test, pair, IB_QPT_RC);
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_CREATE_CQ], made);
	KUNIT_EXPECT_TRUE(test, kcq->failed);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(second), 0);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(&pair->qp->ibqp), 0);
	/* The user armed it before, and is told of the first completion. */
	ib_req_notify_cq(&pair->cq->ibcq, IB_CQ_NEXT_COMP);
	*kernel_slot_in_nic(&kcq->slot) = 0;
	nic->behave.lie_arg = &users;
	WRITE_ONCE(nic->behave.lie, note_users);
	kernel_pair_add_qp(test, pair, IB_QPT_RC);
	WRITE_ONCE(nic->behave.lie, NULL);
	KUNIT_EXPECT_EQ(test, users.cq->num_qps, 1);
	KUNIT_EXPECT_EQ(test, users.seen, 1);
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_CREATE_CQ], made + 1);
	KUNIT_EXPECT_FALSE(test, kcq->failed);
	KUNIT_EXPECT_EQ(test, kernel_slot_value(&kcq->slot), kcq->arm);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(&pair->cq->ibcq, 1, &wc), 0);
	pair->written = 0;
	KUNIT_EXPECT_EQ(test, kernel_pair_send(pair, 1, 0), 0);
	kernel_pair_write(pair, (struct moor_cqe){ .status = MOOR_WC_SUCCESS });
	KUNIT_EXPECT_EQ(test, ib_poll_cq(&pair->cq->ibcq, 1, &wc), 1);
	KUNIT_EXPECT_EQ(test, wc.status, IB_WC_SUCCESS);
	kernel_pair_close(test, pair);
}

/* A device that does not make it anew is of no use; the queue pair is known to no CQ. */
static void spent_refused(struct kunit *test)
{
	struct kernel_pair *pair = kernel_pair_open(test);
	struct kernel_pair *other = kernel_pair_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.send_cq = &other->cq->ibcq, .recv_cq = &pair->cq->ibcq,
		.cap = { KERNEL_DEPTH, KERNEL_DEPTH, 2, 1, 8 },
	};

	cq_fails(pair->cq);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(&pair->qp->ibqp), 0);
	nic->behave.fail_opcode = MOOR_CMD_CREATE_CQ;
	nic->behave.fail_status = MOOR_CMD_NO_RESOURCE;
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(ib_create_qp(pair->pd, &attr)), -ENOMEM);
	nic->behave.fail_status = 0;
	KUNIT_EXPECT_TRUE(test, moor_is_dead(pair->mdev));
	KUNIT_EXPECT_EQ(test, pair->cq->kernel.num_qps, 0);
	KUNIT_EXPECT_EQ(test, other->cq->kernel.num_qps, 1);
	ib_destroy_cq(&pair->cq->ibcq);
	ib_dealloc_pd(pair->pd);
	kernel_pair_close(test, other);
}

static struct kunit_case spent_cases[] = {
	KUNIT_CASE(spent_renewed),
	KUNIT_CASE(spent_refused),
	{}
};

static struct kunit_suite spent_suite = {
	.name = "moor_spent",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = spent_cases,
};

kunit_test_suite(spent_suite);
