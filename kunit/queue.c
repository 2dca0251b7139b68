// SPDX-License-Identifier: GPL-2.0
/* Queues of a case's own process, for suites that need one to begin with. */

#include "harness.h"

#define RING_BYTES	(64 * 1024)

/**
 * moor_kunit_cq - create a completion queue
 * @test: case
 * @user: process
 *
 * Return: the CQ, for moor_destroy_cq()
 */
struct moor_cq *moor_kunit_cq(struct kunit *test, struct moor_user *user)
{
	struct moor_cq *cq = kunit_kzalloc(test, sizeof(*cq), GFP_KERNEL);
	struct ib_cq_init_attr attr = { .cqe = 200 };
	struct moor_create_cq_req req = {
		.ring_addr = moor_kunit_mmap(test, RING_BYTES, true),
		.log_cqe = 8,
	};

	KUNIT_ASSERT_NOT_NULL(test, cq);
	cq->ibcq.device = &user->mdev->ibdev;
	moor_user_udata(test, user, &req, sizeof(req),
			sizeof(struct moor_create_cq_resp));
	KUNIT_ASSERT_EQ(test, moor_create_cq(&cq->ibcq, &attr, &user->attrs), 0);
	return cq;
}

/**
 * moor_pair_open_type - create a queue pair in RESET, with its CQ, PD and process
 * @test: case
 * @pair: filled in, for moor_pair_close()
 * @type: of the queue pair
 */
void moor_pair_open_type(struct kunit *test, struct moor_pair *pair,
			 enum ib_qp_type type)
{
	unsigned long ring;
	struct moor_create_qp_req req = {
		.log_sq_depth = 6, .log_sq_stride = 6,
		.log_rq_depth = 6, .log_rq_stride = 6,
	};
	struct ib_qp_init_attr attr = {
		.cap = { 64, 64, 1, 1, 0 },
		.qp_type = type,
	};
	struct ib_udata *udata;

	pair->user = moor_user_open(test);
	pair->cq = moor_kunit_cq(test, pair->user);
	pair->pd = moor_kunit_pd(test);
	ring = moor_kunit_mmap(test, RING_BYTES, true);
	req.sq_addr = ring;
	req.rq_addr = ring + RING_BYTES / 2;
	pair->qp = kunit_kzalloc(test, sizeof(*pair->qp), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, pair->qp);
	attr.send_cq = &pair->cq->ibcq;
	attr.recv_cq = &pair->cq->ibcq;
	pair->qp->ibqp = (struct ib_qp){
		.device = &pair->user->mdev->ibdev,
		.pd = pair->pd,
		.send_cq = &pair->cq->ibcq,
		.recv_cq = &pair->cq->ibcq,
		.qp_type = type,
	};
	udata = moor_user_udata(test, pair->user, &req, sizeof(req),
				sizeof(struct moor_create_qp_resp));
	KUNIT_ASSERT_EQ(test, moor_create_qp(&pair->qp->ibqp, &attr, udata), 0);
}

void moor_pair_open(struct kunit *test, struct moor_pair *pair)
{
	moor_pair_open_type(test, pair, IB_QPT_RC);
}

void moor_pair_close(struct kunit *test, struct moor_pair *pair)
{
	KUNIT_EXPECT_EQ(test, moor_destroy_qp(&pair->qp->ibqp, NULL), 0);
	moor_kunit_pd_free(test, pair->pd);
	KUNIT_EXPECT_EQ(test, moor_destroy_cq(&pair->cq->ibcq, NULL), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_user_close(test, pair->user);
}

/**
 * moor_pair_ask - let the NIC ask for a page, and do not wait for the answer
 * @pair: pair whose QP needs the page
 * @token: of the request, different each time
 * @key: of an MR
 * @addr: byte
 * @length: hint
 * @flags: MOOR_PAGE_REQUEST_*
 *
 * Return: where the answer will be.
 */
struct fake_page *moor_pair_ask(const struct moor_pair *pair, u32 token, u32 key,
				u64 addr, u32 length, u8 flags)
{
	const struct moor_page_request request = {
		.type = MOOR_EVENT_PAGE_REQUEST,
		.flags = flags,
		.token = cpu_to_le32(token),
		.key = cpu_to_le32(key),
		.qpn = cpu_to_le32(pair->qp->qpn),
		.addr = cpu_to_le64(addr),
		.length = cpu_to_le32(length),
	};

	return fake_nic_page_request(moor_kunit_nic(), &request);
}

bool moor_is_answered(struct fake_page *page)
{
	/* Pairs with the fake NIC's release: the status is there. */
	return smp_load_acquire(&page->answered);
}
