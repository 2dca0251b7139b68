// SPDX-License-Identifier: GPL-2.0
/*
 * Page requests of XRC targets, which belong to no process: the workers of the context
 * whose page is wanted answer them.
 */

#include "paged.h"

#define TARGETS	3
#define TOKENS	100	/* of the targets' requests */

/* A domain's targets, a process whose page does not come, and another process. */
struct targets {
	struct paged *late;
	struct paged_late page;
	struct ib_mr *mr;		/* MR of @page */
	struct moor_user *other;
	struct ib_pd *other_pd;
	struct ib_mr *other_mr;
	struct moor_xrcd xrcd;
	struct moor_qp *qp[TARGETS];
	u32 token;
};

static struct moor_qp *target_new(struct kunit *test, struct targets *t)
{
	struct moor_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_XRC_TGT, .xrcd = &t->xrcd.ibxrcd,
	};

	KUNIT_ASSERT_NOT_NULL(test, qp);
	qp->ibqp.device = t->xrcd.ibxrcd.device;
	qp->ibqp.qp_type = attr.qp_type;
	KUNIT_ASSERT_EQ(test, moor_create_qp(&qp->ibqp, &attr, NULL), 0);
	return qp;
}

static struct targets *targets_open(struct kunit *test)
{
	struct targets *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	struct moor_dev *mdev = test->priv;
	int i, workers;

	KUNIT_ASSERT_NOT_NULL(test, t);
	t->late = paged_open(test);
	t->other = moor_user_open(test);
	t->other_pd = moor_kunit_pd(test);
	t->other_mr = moor_kunit_reg_as(t->other_pd, t->late->addr, LENGTH, IOVA, PAGED,
					moor_user_udata(test, t->other, NULL, 0, 0));
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t->other_mr);
	t->xrcd.ibxrcd.device = &mdev->ibdev;
	KUNIT_ASSERT_EQ(test, moor_alloc_xrcd(&t->xrcd.ibxrcd, NULL), 0);
	/* Workers hold the module; targets have none. */
	workers = module_refcount(THIS_MODULE);
	for (i = 0; i < TARGETS; i++)
		t->qp[i] = target_new(test, t);
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), workers);
	paged_late_map(test, &t->page);
	t->mr = paged_reg(t->late, t->page.addr, PAGE_SIZE, t->page.addr,
			  IB_ACCESS_REMOTE_READ | IB_ACCESS_ON_DEMAND);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t->mr);
	t->token = TOKENS;
	return t;
}

static void targets_close(struct kunit *test, struct targets *t)
{
	int i;

	for (i = 0; i < TARGETS; i++)
		if (t->qp[i])
			KUNIT_EXPECT_EQ(test, moor_destroy_qp(&t->qp[i]->ibqp, NULL),
					0);
	KUNIT_EXPECT_EQ(test, moor_dealloc_xrcd(&t->xrcd.ibxrcd, NULL), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(t->mr), 0);
	paged_late_unmap(test, &t->page);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(t->other_mr), 0);
	moor_kunit_pd_free(test, t->other_pd);
	moor_user_close(test, t->other);
	paged_close(t->late);
}

static struct fake_page *target_ask_for(struct targets *t, int target, u8 flags,
					u32 key, u64 addr)
{
	struct moor_pair pair = { .qp = t->qp[target] };

	return moor_pair_ask(&pair, ++t->token, key, addr, 1, flags);
}

static u8 target_ask(struct kunit *test, struct targets *t, int target, u32 key,
		     u64 addr)
{
	struct fake_page *page = target_ask_for(t, target, RESPONDER, key, addr);

	moor_kunit_wait(test, moor_is_answered(page));
	return page->status;
}

/* The context, and page requests that are in its queue or in a worker. */
static u32 holders(const struct moor_user *user)
{
	return kref_read(&user->uctx.faults->ref);
}

/* A target has pages of any context, and no others. */
static void targets_pages(struct kunit *test)
{
	struct targets *t = targets_open(test);
	u32 key = t->other_mr->lkey;

	KUNIT_EXPECT_EQ(test, target_ask(test, t, 0, key, IOVA), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, target_ask(test, t, 0, t->late->mr->lkey, IOVA),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, target_ask(test, t, 0, key, IOVA + LENGTH),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, target_ask(test, t, 0, key + 1, IOVA),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, target_ask(test, t, 0, U32_MAX, IOVA), MOOR_PAGE_FAILED);
	moor_kunit_wait(test, holders(t->other) == 1);
	KUNIT_EXPECT_EQ(test, holders(t->late->pair.user), 1);
	complete_all(&t->page.come);
	targets_close(test, t);
}

/*
 * One context's page does not come, and all of its workers wait for it: pages of another
 * one come all the same. Targets, with or without a worker, go without waiting.
 */
static void targets_stuck(struct kunit *test)
{
	struct targets *t = targets_open(test);
	struct fake_page *page[4], *fifth;
	u32 key = t->mr->lkey;
	u64 addr = t->page.addr;
	int i;

	for (i = 0; i < 4; i++)
		page[i] = target_ask_for(t, i / 2, i % 2 ? RESPONDER : 0, key, addr);
	moor_kunit_wait(test, atomic_read(&t->page.asked) == 4);
	fifth = target_ask_for(t, 2, 0, key, addr);
	KUNIT_EXPECT_EQ(test, target_ask(test, t, 2, t->other_mr->lkey, IOVA),
			MOOR_PAGE_RESOLVED);
	moor_kunit_wait(test, holders(t->late->pair.user) == 6);
	for (i = 1; i < TARGETS; i++) {
		KUNIT_EXPECT_EQ(test, moor_destroy_qp(&t->qp[i]->ibqp, NULL), 0);
		t->qp[i] = NULL;
	}
	/* The fifth request, which no worker has begun, is dropped. */
	KUNIT_EXPECT_EQ(test, holders(t->late->pair.user), 5);
	complete_all(&t->page.come);
	moor_kunit_wait(test, holders(t->late->pair.user) == 1);
	for (i = 0; i < 4; i++)
		KUNIT_EXPECT_EQ(test, moor_is_answered(page[i]), i < 2);
	KUNIT_EXPECT_FALSE(test, moor_is_answered(fifth));
	KUNIT_EXPECT_EQ(test, atomic_read(&t->page.asked), 4);
	targets_close(test, t);
}

/*
 * The context whose page a target waits for is closed meanwhile: nothing waits, its
 * workers go when the page comes, and the target goes on with others.
 */
static void targets_owner_goes(struct kunit *test)
{
	struct targets *t = targets_open(test);
	struct fake_page *page;
	int workers;

	KUNIT_ASSERT_EQ(test, moor_kunit_dereg(t->other_mr), 0);
	t->other_mr = moor_kunit_reg_as(t->other_pd, t->page.addr, PAGE_SIZE,
					t->page.addr,
					IB_ACCESS_REMOTE_READ | IB_ACCESS_ON_DEMAND,
					moor_user_udata(test, t->other, NULL, 0, 0));
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t->other_mr);
	page = target_ask_for(t, 0, RESPONDER, t->other_mr->lkey, t->page.addr);
	moor_kunit_wait(test, atomic_read(&t->page.asked) == 1);
	workers = module_refcount(THIS_MODULE);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(t->other_mr), 0);
	moor_faults_close(&t->other->uctx);
	t->other->uctx.faults = NULL;
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), workers);
	KUNIT_EXPECT_EQ(test, target_ask(test, t, 1, t->late->mr->lkey, IOVA),
			MOOR_PAGE_RESOLVED);
	complete_all(&t->page.come);
	moor_kunit_wait(test, module_refcount(THIS_MODULE) == workers - 1);
	/* Its MR has gone: the request fails, since its QP still waits. */
	moor_kunit_wait(test, moor_is_answered(page));
	KUNIT_EXPECT_EQ(test, page->status, MOOR_PAGE_FAILED);
	t->other_mr = moor_kunit_reg_as(t->other_pd, t->late->addr, LENGTH, IOVA, PAGED,
					moor_user_udata(test, t->other, NULL, 0, 0));
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t->other_mr);
	KUNIT_EXPECT_EQ(test, target_ask(test, t, 0, t->other_mr->lkey, IOVA),
			MOOR_PAGE_RESOLVED);
	targets_close(test, t);
}

/* The NIC must not write more events than there is room for. */
static void let_events_be_seen(struct kunit *test)
{
	struct fake_eq *eq = &moor_kunit_nic()->eqs[MOOR_EQ_PAGE_REQUEST];
	struct moor_dev *mdev = test->priv;

	moor_kunit_wait(test, READ_ONCE(mdev->page_eq.consumer) ==
			      READ_ONCE(eq->producer));
}

/*
 * A lying device does not wait for its answers: requests overtake the worker of the half
 * that is at one before, in whatever context. Each queue is let go in the end.
 */
static void targets_burst(struct kunit *test)
{
	struct targets *t = targets_open(test);
	int i;

	/* Of the target, and of the QP of a process, for an MR and for none. */
	for (i = 0; i < 200; i++) {
		target_ask_for(t, 0, RESPONDER,
			       i % 2 ? t->other_mr->lkey : t->late->mr->lkey, IOVA);
		moor_pair_ask(&t->late->pair, ++t->token,
			      i % 2 ? t->late->mr->lkey : 0, IOVA, 1, RESPONDER);
		if (i % 4 == 3)
			let_events_be_seen(test);
	}
	KUNIT_EXPECT_EQ(test, target_ask(test, t, 0, t->other_mr->lkey, IOVA),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, paged_ask(t->late, IOVA, 1, RESPONDER),
			MOOR_PAGE_RESOLVED);
	moor_kunit_wait(test, holders(t->other) == 1);
	moor_kunit_wait(test, holders(t->late->pair.user) == 1);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(test->priv));
	complete_all(&t->page.come);
	targets_close(test, t);
}

static struct kunit_case odp_targets_cases[] = {
	KUNIT_CASE(targets_pages),
	KUNIT_CASE(targets_stuck),
	KUNIT_CASE(targets_owner_goes),
	KUNIT_CASE(targets_burst),
	{}
};

static struct kunit_suite odp_targets_suite = {
	.name = "moor_odp_targets",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = odp_targets_cases,
};

kunit_test_suite(odp_targets_suite);
