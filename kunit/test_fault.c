// SPDX-License-Identifier: GPL-2.0
/*
 * Every allocation fails in turn, until a pass sees no more failure: the call
 * says so, nothing of it stays, and the next one works.
 */

#include <linux/fault-inject.h>
#include <linux/uaccess.h>

#include "harness.h"

#define LENGTH		(24 * PAGE_SIZE)
#define MOST_POINTS	2000

/* Something that can be tried, and what it leaves when it works. */
struct attempt {
	struct moor_user *user;
	struct ib_pd *pd;
	unsigned long addr;
	int (*call)(struct kunit *test, struct attempt *attempt);
};

/*
 * Calls with the first, second, ... allocation failing. Some may fail without
 * harm; then the call works.
 */
static void fail_in_turn(struct kunit *test, struct attempt *attempt, u32 least)
{
	struct moor_dev *mdev = test->priv;
	u32 nodes = mdev->nodes.count;
	u32 nth, failed = 0;
	bool reached;
	int err;

	/* What is allocated once and kept, such as page tables. */
	KUNIT_ASSERT_EQ(test, attempt->call(test, attempt), 0);
	for (nth = 1; nth < MOST_POINTS; nth++) {
		current->fail_nth = nth;
		err = attempt->call(test, attempt);
		reached = !current->fail_nth;
		current->fail_nth = 0;
		KUNIT_EXPECT_TRUE_MSG(test, !err || err == -ENOMEM,
				      "%d at allocation %u", err, nth);
		KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
		KUNIT_EXPECT_EQ(test, mdev->nodes.count, nodes);
		KUNIT_EXPECT_TRUE(test, xa_empty(&mdev->cqs));
		KUNIT_EXPECT_TRUE(test, xa_empty(&mdev->qps));
		if (!reached)
			break;
		failed++;
	}
	kunit_info(test, "%u allocations failed in turn\n", failed);
	KUNIT_EXPECT_GE(test, failed, least);
	KUNIT_EXPECT_LT(test, nth, MOST_POINTS);
	KUNIT_EXPECT_EQ(test, attempt->call(test, attempt), 0);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(mdev));
}

/* Undoing is not to fail: only making is tried. */
static void injection_over(void)
{
	if (current->fail_nth)
		current->fail_nth = INT_MAX;
}

static int try_mr(struct kunit *test, struct attempt *attempt)
{
	struct ib_mr *mr;

	mr = moor_reg_user_mr(attempt->pd, attempt->addr, LENGTH, attempt->addr,
			      IB_ACCESS_LOCAL_WRITE, NULL);
	injection_over();
	if (IS_ERR(mr))
		return PTR_ERR(mr);
	mr->device = attempt->pd->device;
	KUNIT_EXPECT_EQ(test, moor_dereg_mr(mr, NULL), 0);
	return 0;
}

static void fault_mr(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct moor_pd pd = { .ibpd.device = &mdev->ibdev };
	struct attempt attempt = {
		.pd = &pd.ibpd,
		.addr = moor_kunit_mmap_scattered(test, LENGTH),
		.call = try_mr,
	};

	KUNIT_ASSERT_EQ(test, moor_alloc_pd(&pd.ibpd, NULL), 0);
	fail_in_turn(test, &attempt, 3);
	moor_dealloc_pd(&pd.ibpd, NULL);
}

static int try_cq(struct kunit *test, struct attempt *attempt)
{
	struct moor_user *user = attempt->user;
	struct ib_cq_init_attr attr = { .cqe = 256 };
	struct moor_cq cq = { .ibcq.device = &user->mdev->ibdev };
	int err;

	err = moor_create_cq(&cq.ibcq, &attr, &user->attrs);
	injection_over();
	if (!err)
		KUNIT_EXPECT_EQ(test, moor_destroy_cq(&cq.ibcq, NULL), 0);
	return err;
}

static void fault_cq(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	struct attempt attempt = { .user = user, .call = try_cq };
	struct moor_create_cq_req req = {
		.ring_addr = moor_kunit_mmap(test, LENGTH, true),
		.log_cqe = 8,
	};

	moor_user_udata(test, user, &req, sizeof(req),
			sizeof(struct moor_create_cq_resp));
	fail_in_turn(test, &attempt, 3);
	moor_user_close(test, user);
}

static int try_ucontext(struct kunit *test, struct attempt *attempt)
{
	struct moor_user *user = attempt->user;
	struct moor_ucontext *uctx = kunit_kzalloc(test, sizeof(*uctx),
						   GFP_KERNEL);
	struct moor_db db = {};
	int err;

	if (!uctx)
		return -ENOMEM;
	uctx->ibucontext.device = &user->mdev->ibdev;
	uctx->ibucontext.ufile = &user->ufile;
	xa_init_flags(&uctx->ibucontext.mmap_xa, XA_FLAGS_ALLOC);
	err = moor_alloc_ucontext(&uctx->ibucontext, &user->attrs.driver_udata);
	if (!err) {
		err = moor_db_alloc(uctx, &db, 2);
		if (!err)
			moor_db_free(uctx, &db);
		moor_dealloc_ucontext(&uctx->ibucontext);
	}
	injection_over();
	KUNIT_EXPECT_TRUE(test, xa_empty(&uctx->ibucontext.mmap_xa));
	KUNIT_EXPECT_EQ(test, bitmap_weight(user->mdev->db_used,
					    FAKE_DB_PAGES), 1);
	return err;
}

static void fault_ucontext(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	struct attempt attempt = { .user = user, .call = try_ucontext };
	struct moor_alloc_ucontext_req req = {};

	moor_user_udata(test, user, &req, sizeof(req),
			sizeof(struct moor_alloc_ucontext_resp));
	fail_in_turn(test, &attempt, 4);
	moor_user_close(test, user);
}

static struct kunit_case fault_cases[] = {
	KUNIT_CASE(fault_mr),
	KUNIT_CASE(fault_cq),
	KUNIT_CASE(fault_ucontext),
	{}
};

static struct kunit_suite fault_suite = {
	.name = "moor_fault",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = fault_cases,
};

kunit_test_suite(fault_suite);
