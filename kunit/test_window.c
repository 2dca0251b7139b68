// SPDX-License-Identifier: GPL-2.0
/*
 * Memory windows: their entries, MRs that they hold, and the list of windows that hold
 * an MR. The device binds windows; the fake NIC does so as if a bind were posted.
 */

#include <linux/kthread.h>
#include <linux/pid_namespace.h>
#include <rdma/restrack.h>

#include "harness.h"

#define RIGHTS	(MOOR_ACCESS_REMOTE_READ | MOOR_ACCESS_REMOTE_WRITE)

/* An MR, and a QP to bind windows with, of one PD. @lkey outlives @mr. */
struct stage {
	struct moor_pair pair;
	struct ib_mr *mr;
	u32 lkey;
	unsigned long addr;
};

static struct stage *stage_open(struct kunit *test)
{
	struct stage *stage = kunit_kzalloc(test, sizeof(*stage), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, stage);
	moor_pair_open(test, &stage->pair);
	stage->addr = moor_kunit_mmap_scattered(test, REGION_LENGTH);
	stage->mr = moor_kunit_reg(stage->pair.pd, stage->addr, REGION_LENGTH,
				   stage->addr, ALL_RIGHTS);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, stage->mr);
	stage->lkey = stage->mr->lkey;
	return stage;
}

static u32 windows_of(struct ib_mr *ibmr)
{
	return moor_mr_count_windows(to_mdev(ibmr->device), ibmr->lkey,
				     to_mmr(ibmr)->reg.access);
}

static void stage_close(struct kunit *test, struct stage *stage)
{
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(stage->mr), 0);
	moor_pair_close(test, &stage->pair);
}

static int window_alloc(struct kunit *test, struct ib_pd *pd, int type,
			struct ib_mw **out)
{
	struct moor_mw *mw = kunit_kzalloc(test, sizeof(*mw), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mw);
	mw->ibmw.device = pd->device;
	mw->ibmw.pd = pd;
	mw->ibmw.type = type;
	*out = &mw->ibmw;
	return moor_alloc_mw(&mw->ibmw, NULL);
}

static struct ib_mw *window_new(struct kunit *test, struct ib_pd *pd, int type)
{
	struct ib_mw *mw;

	KUNIT_ASSERT_EQ(test, window_alloc(test, pd, type, &mw), 0);
	return mw;
}

/* Bind to @length bytes from the second page on; the key's byte goes up. */
static int window_bind(struct stage *stage, struct ib_mw *mw, u64 length)
{
	struct fake_bind bind = {
		.mw_key = mw->rkey,
		.new_key = ib_inc_rkey(mw->rkey),
		.mr_lkey = stage->lkey,
		.qpn = stage->pair.qp->qpn,
		.access = RIGHTS,
		.addr = stage->addr + PAGE_SIZE,
		.length = length,
	};
	int err = fake_nic_bind(moor_kunit_nic(), &bind);

	/* As a provider does after a bind. */
	if (!err)
		mw->rkey = bind.new_key;
	return err;
}

static bool window_invalidate(struct stage *stage, struct ib_mw *mw)
{
	return fake_nic_invalidate(moor_kunit_nic(), mw->rkey,
				   stage->pair.qp->qpn);
}

struct kind {
	const char *name;
	int type;
	u8 entry;
	u64 feature;
};

static const struct kind kinds[] = {
	{ "type 1", IB_MW_TYPE_1, MOOR_MRC_TYPE_MW_1, MOOR_FEATURE_MW_TYPE_1 },
	{ "type 2", IB_MW_TYPE_2, MOOR_MRC_TYPE_MW_2, MOOR_FEATURE_MW_TYPE_2B },
};

static void kind_desc(const struct kind *kind, char *desc)
{
	strscpy(desc, kind->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(kind, kinds, kind_desc);

/* The entry in BAR2, field by field, and its end (HWI MR-3, KEY-3). */
static void window_life(struct kunit *test)
{
	const struct kind *kind = test->param_value;
	const size_t body = offsetof(struct moor_mr_context, access);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct ib_pd *pd = moor_kunit_pd(test);
	struct ib_mw *mw = window_new(test, pd, kind->type);
	const struct moor_mr_context *entry = moor_kunit_entry(mw->rkey);
	u64 valid = le64_to_cpu(entry->valid);
	u32 revokes = nic->commands[MOOR_CMD_MR_REVOKE];

	KUNIT_EXPECT_GE(test, moor_key_index(mdev, mw->rkey), FAKE_CONSUMER_FIRST);
	KUNIT_EXPECT_EQ(test, FIELD_GET(MOOR_MRC_TYPE, valid), kind->entry);
	KUNIT_EXPECT_EQ(test, FIELD_GET(MOOR_MRC_KEY, valid), mw->rkey);
	KUNIT_EXPECT_EQ(test, valid & MOOR_MRC_RESERVED, 0);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(entry->pd), to_mpd(pd)->pdn);
	KUNIT_EXPECT_FALSE(test, memchr_inv((u8 *)entry + body, 0,
					    sizeof(*entry) - body));
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->mw_keys), 1);
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->keys), 0);
	KUNIT_EXPECT_EQ(test, revokes, 0);

	KUNIT_EXPECT_EQ(test, moor_dealloc_mw(mw), 0);
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_MR_REVOKE], 1);
	KUNIT_EXPECT_EQ(test, entry->valid, 0);
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->mw_keys), 0);
	moor_kunit_pd_free(test, pd);
}

/* A NIC with only the other type of window. */
static void window_no_feature(struct kunit *test)
{
	const struct kind *kind = test->param_value;
	struct ib_device_attr *attr;
	struct moor_dev *mdev;
	struct ib_pd *pd;
	struct ib_mw *mw;

	mdev = moor_kunit_replug(test, kind->feature);
	pd = moor_kunit_pd(test);
	KUNIT_EXPECT_EQ(test, window_alloc(test, pd, kind->type, &mw),
			-EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, window_alloc(test, pd, 3 - kind->type, &mw), 0);
	KUNIT_EXPECT_EQ(test, moor_dealloc_mw(mw), 0);
	attr = &mdev->ibdev.attrs;
	KUNIT_EXPECT_EQ(test, attr->max_mw, FAKE_WINDOWS);
	KUNIT_EXPECT_EQ(test, !(attr->device_cap_flags & IB_DEVICE_MEM_WINDOW),
			kind->type == IB_MW_TYPE_1);
	KUNIT_EXPECT_EQ(test, !(attr->device_cap_flags &
				IB_DEVICE_MEM_WINDOW_TYPE_2B),
			kind->type == IB_MW_TYPE_2);
	moor_kunit_pd_free(test, pd);
}

/* A NIC without windows: none of its MRs is ever held. */
static void window_none(struct kunit *test)
{
	struct moor_region *region;
	struct moor_dev *mdev;

	mdev = moor_kunit_replug(test, MOOR_FEATURE_MW_TYPE_1 |
				 MOOR_FEATURE_MW_TYPE_2B);
	KUNIT_EXPECT_EQ(test, mdev->ibdev.attrs.max_mw, 0);
	region = moor_region_new(test, ALL_RIGHTS);
	KUNIT_EXPECT_EQ(test, moor_windows_visit(mdev, region->mr->lkey, NULL,
						 NULL), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, windows_of(region->mr), 0);
	moor_region_free(test, region);
}

static void window_input(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	struct ib_pd *pd = moor_kunit_pd(test);
	struct moor_mw mw = { .ibmw = {
		.device = pd->device, .pd = pd, .type = IB_MW_TYPE_2,
	} };
	struct moor_dev *mdev = test->priv;
	struct ib_udata *udata;
	u8 in[8] = {};

	udata = moor_user_udata(test, user, in, sizeof(in), 0);
	KUNIT_EXPECT_EQ(test, moor_alloc_mw(&mw.ibmw, udata), 0);
	KUNIT_EXPECT_EQ(test, moor_dealloc_mw(&mw.ibmw), 0);
	in[7] = 1;
	udata = moor_user_udata(test, user, in, sizeof(in), 0);
	KUNIT_EXPECT_EQ(test, moor_alloc_mw(&mw.ibmw, udata), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->mw_keys), 0);
	moor_kunit_pd_free(test, pd);
	moor_user_close(test, user);
}

/* All indices can be had; then ENOMEM; then a freed one again. */
static void window_exhaustion(struct kunit *test)
{
	struct ib_mw **mws = kunit_kcalloc(test, FAKE_WINDOWS, sizeof(*mws),
					   GFP_KERNEL);
	struct ib_pd *pd = moor_kunit_pd(test);
	struct ib_mw *more;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, mws);
	for (i = 0; i < FAKE_WINDOWS; i++)
		mws[i] = window_new(test, pd, 1 + i % 2);
	KUNIT_EXPECT_EQ(test, window_alloc(test, pd, IB_MW_TYPE_1, &more),
			-ENOMEM);
	KUNIT_EXPECT_EQ(test, moor_dealloc_mw(mws[1000]), 0);
	KUNIT_EXPECT_EQ(test, window_alloc(test, pd, IB_MW_TYPE_1, &mws[1000]), 0);
	for (i = 0; i < FAKE_WINDOWS; i++)
		KUNIT_ASSERT_EQ(test, moor_dealloc_mw(mws[i]), 0);
	moor_kunit_pd_free(test, pd);
}

static void window_dead(struct kunit *test)
{
	struct ib_pd *pd = moor_kunit_pd(test);
	struct ib_mw *mw = window_new(test, pd, IB_MW_TYPE_1), *more;
	struct moor_dev *mdev = test->priv;

	moor_hw_kill(mdev, "a test asks for it");
	KUNIT_EXPECT_EQ(test, window_alloc(test, pd, IB_MW_TYPE_1, &more), -EIO);
	KUNIT_EXPECT_EQ(test, moor_dealloc_mw(mw), 0);
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->mw_keys), 0);
	moor_kunit_pd_free(test, pd);
}

/* How the window's hold on the MR ends. */
enum release {
	BY_INVALIDATE,
	BY_UNBIND,
	BY_REBIND,
	BY_DEALLOC,
	BY_QP_RESET,
	BY_QP_DESTROY,
};

struct hold {
	const char *name;
	int type;
	enum release release;
};

static const struct hold holds[] = {
	{ "type 1, bound to nothing", IB_MW_TYPE_1, BY_UNBIND },
	{ "type 1, bound elsewhere", IB_MW_TYPE_1, BY_REBIND },
	{ "type 1, deallocated", IB_MW_TYPE_1, BY_DEALLOC },
	{ "type 2, invalidated", IB_MW_TYPE_2, BY_INVALIDATE },
	{ "type 2, deallocated", IB_MW_TYPE_2, BY_DEALLOC },
	{ "type 2, its QP reset", IB_MW_TYPE_2, BY_QP_RESET },
	{ "type 2, its QP destroyed", IB_MW_TYPE_2, BY_QP_DESTROY },
};

static void hold_desc(const struct hold *hold, char *desc)
{
	strscpy(desc, hold->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(hold, holds, hold_desc);

static void let_go(struct kunit *test, struct stage *stage, struct ib_mw *mw,
		   enum release release)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };
	struct ib_qp *qp = &stage->pair.qp->ibqp;
	struct ib_mr *held = stage->mr;

	switch (release) {
	case BY_INVALIDATE:
		KUNIT_EXPECT_TRUE(test, window_invalidate(stage, mw));
		break;
	case BY_UNBIND:
		KUNIT_EXPECT_EQ(test, window_bind(stage, mw, 0), 0);
		break;
	case BY_REBIND:
		stage->mr = moor_kunit_reg(stage->pair.pd, stage->addr,
					   REGION_LENGTH, stage->addr, ALL_RIGHTS);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, stage->mr);
		stage->lkey = stage->mr->lkey;
		KUNIT_EXPECT_EQ(test, window_bind(stage, mw, 1), 0);
		swap(stage->mr, held);
		KUNIT_EXPECT_EQ(test, moor_kunit_dereg(held), -EBUSY);
		KUNIT_EXPECT_EQ(test, moor_kunit_dereg(stage->mr), 0);
		stage->mr = held;
		stage->lkey = held->lkey;
		KUNIT_EXPECT_EQ(test, window_bind(stage, mw, 0), 0);
		break;
	case BY_DEALLOC:
		KUNIT_EXPECT_EQ(test, moor_dealloc_mw(mw), 0);
		break;
	case BY_QP_RESET:
		KUNIT_EXPECT_EQ(test, moor_modify_qp(qp, &attr, IB_QP_STATE,
						     NULL), 0);
		break;
	case BY_QP_DESTROY:
		moor_cmd_destroy_qp(test->priv, stage->pair.qp->qpn);
		break;
	}
}

static u32 tracked(struct moor_dev *mdev)
{
	return rdma_restrack_count(&mdev->ibdev, RDMA_RESTRACK_MR, true);
}

/* An MR that is held cannot be deregistered, and stays usable; afterwards it can. */
static void window_holds(struct kunit *test)
{
	const struct hold *hold = test->param_value;
	struct stage *stage = stage_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct ib_mw *mw = window_new(test, stage->pair.pd, hold->type);
	const struct moor_mr_context *entry = moor_kunit_entry(stage->mr->lkey);
	struct moor_mr_context before;
	u64 at = stage->addr + PAGE_SIZE;
	u32 count = tracked(mdev), i;
	u8 byte = 0x77, got = 0;

	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, mw->rkey, 0, at, &got, 1,
					      false), MOOR_SYN_KEY);
	KUNIT_ASSERT_EQ(test, window_bind(stage, mw, PAGE_SIZE), 0);
	before = *entry;
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, moor_kunit_dereg(stage->mr), -EBUSY);
		KUNIT_EXPECT_EQ(test, tracked(mdev), count);
		KUNIT_EXPECT_TRUE(test, stage->mr->res.valid);
		KUNIT_EXPECT_MEMEQ(test, (u8 *)entry, (u8 *)&before,
				   sizeof(before));
		KUNIT_EXPECT_EQ(test, fake_nic_access(nic, mw->rkey,
						      MOOR_ACCESS_REMOTE_WRITE,
						      at, &byte, 1, true), 0);
		KUNIT_EXPECT_EQ(test, fake_nic_access(nic, stage->mr->lkey, 0,
						      at, &got, 1, false), 0);
		KUNIT_EXPECT_EQ(test, got, byte);
	}
	KUNIT_EXPECT_EQ(test, windows_of(stage->mr), 1);

	let_go(test, stage, mw, hold->release);
	KUNIT_EXPECT_EQ(test, windows_of(stage->mr), 0);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, mw->rkey, 0, at, &got, 1,
					      false), MOOR_SYN_KEY);
	if (hold->release == BY_QP_DESTROY)
		/* For moor_destroy_qp(), which sends DESTROY_QP, too. */
		nic->qps[stage->pair.qp->qpn % ARRAY_SIZE(nic->qps)].live = true;
	if (hold->release != BY_DEALLOC)
		KUNIT_EXPECT_EQ(test, moor_dealloc_mw(mw), 0);
	stage_close(test, stage);
}

struct binder {
	struct stage *stage;
	struct ib_mw *mw;
	u32 bound;
	bool stop;
	struct completion done;
};

static int bind_thread(void *data)
{
	struct binder *me = data;

	while (!READ_ONCE(me->stop)) {
		if (!window_bind(me->stage, me->mw, 1)) {
			me->bound++;
			schedule_timeout_uninterruptible(1);
			window_invalidate(me->stage, me->mw);
		}
		schedule_timeout_uninterruptible(1);
	}
	complete(&me->done);
	return 0;
}

/* Binds race with the deregistration of the MR: one of the two wins. */
static void window_races(struct kunit *test)
{
	struct binder binder = {};
	u32 busy = 0, round;
	int err;

	for (round = 0; round < 30; round++) {
		struct stage *stage = stage_open(test);
		struct ib_mw *mw = window_new(test, stage->pair.pd, IB_MW_TYPE_2);

		binder.stage = stage;
		binder.mw = mw;
		WRITE_ONCE(binder.stop, false);
		init_completion(&binder.done);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(bind_thread,
							       &binder, "bind"));
		schedule_timeout_uninterruptible(round % 4);
		while ((err = moor_kunit_dereg(stage->mr)) == -EBUSY) {
			busy++;
			schedule_timeout_uninterruptible(1);
		}
		KUNIT_EXPECT_EQ(test, err, 0);
		/* The rings of the CQ and the QP stay. */
		KUNIT_EXPECT_LT(test, moor_kunit_pinned(), REGION_PAGES);
		WRITE_ONCE(binder.stop, true);
		wait_for_completion(&binder.done);
		KUNIT_EXPECT_EQ(test, moor_dealloc_mw(mw), 0);
		moor_pair_close(test, &stage->pair);
	}
	KUNIT_EXPECT_GT(test, binder.bound, 0);
	KUNIT_EXPECT_GT(test, busy, 0);
}

struct seen {
	struct kunit *test;
	unsigned long *bits;
	u32 count;
	u32 twice;
};

static void remember_window(void *arg, const struct moor_window_info *info)
{
	u32 index = le32_to_cpu(info->key) >> (32 - FAKE_MR_INDEX_BITS);
	struct seen *seen = arg;

	seen->count++;
	seen->twice += test_and_set_bit(index - FAKE_CONSUMER_FIRST, seen->bits);
}

/*
 * More windows than two answers hold, each named once; answers that name none; a broken list
 * ends, too.
 */
static void window_list(struct kunit *test)
{
	const u32 count = 2 * MOOR_WINDOWS_PER_PAGE + 44;
	struct stage *stage = stage_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct ib_mw **mws = kunit_kcalloc(test, count, sizeof(*mws), GFP_KERNEL);
	struct seen seen = { .test = test };
	u32 i, key = stage->mr->lkey;

	KUNIT_ASSERT_NOT_NULL(test, mws);
	seen.bits = bitmap_zalloc(FAKE_WINDOWS, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, seen.bits);
	KUNIT_EXPECT_EQ(test, moor_windows_visit(mdev, key, remember_window,
						 &seen), 0);
	KUNIT_EXPECT_EQ(test, seen.count, 0);
	for (i = 0; i < count; i++) {
		mws[i] = window_new(test, stage->pair.pd, 1 + i % 2);
		KUNIT_ASSERT_EQ(test, window_bind(stage, mws[i], 1 + i), 0);
	}
	KUNIT_EXPECT_EQ(test, moor_windows_visit(mdev, key, remember_window,
						 &seen), 0);
	KUNIT_EXPECT_EQ(test, seen.count, count);
	KUNIT_EXPECT_EQ(test, seen.twice, 0);
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_MR_WINDOWS], 4);
	KUNIT_EXPECT_EQ(test, windows_of(stage->mr),
			count);
	nic->behave.circle = true;
	KUNIT_EXPECT_EQ(test, moor_windows_visit(mdev, key, remember_window,
						 &seen), 0);
	KUNIT_EXPECT_LE(test, seen.count, 3 * FAKE_WINDOWS);
	nic->behave.circle = false;
	/* Only the last one is left: most answers name none. */
	for (i = 0; i < count - 1; i++)
		KUNIT_ASSERT_EQ(test, moor_dealloc_mw(mws[i]), 0);
	seen.count = 0;
	nic->behave.brief = true;
	KUNIT_EXPECT_EQ(test, moor_windows_visit(mdev, key, remember_window,
						 &seen), 0);
	KUNIT_EXPECT_EQ(test, seen.count, 1);
	/* A list without end ends without a window, too. */
	KUNIT_ASSERT_EQ(test, moor_dealloc_mw(mws[i]), 0);
	nic->behave.circle = true;
	nic->commands[MOOR_CMD_MR_WINDOWS] = 0;
	KUNIT_EXPECT_EQ(test, moor_windows_visit(mdev, key, remember_window,
						 &seen), 0);
	KUNIT_EXPECT_EQ(test, seen.count, 1);
	KUNIT_EXPECT_LE(test, nic->commands[MOOR_CMD_MR_WINDOWS], FAKE_WINDOWS + 1);
	bitmap_free(seen.bits);
	KUNIT_EXPECT_EQ(test, moor_windows_visit(mdev, key ^ 1, NULL, NULL),
			-EINVAL);
	stage_close(test, stage);
}

/* The description of a window, and of a window whose QP is gone. */
static void window_describe(struct kunit *test)
{
	struct stage *stage = stage_open(test);
	struct moor_window_info info = {
		.key = cpu_to_le32(0x12345678),
		.type = cpu_to_le32(MOOR_MRC_TYPE_MW_2),
		.qpn = cpu_to_le32(stage->pair.qp->qpn),
		.access = cpu_to_le32(RIGHTS),
		.iova = cpu_to_le64(0x1000),
		.length = cpu_to_le64(77),
	};
	char comm[TASK_COMM_LEN] = "?";
	struct moor_window window;

	moor_window_describe(test->priv, &window, &info, &init_pid_ns, comm);
	KUNIT_EXPECT_EQ(test, window.rkey, 0x12345678);
	KUNIT_EXPECT_EQ(test, window.type, 2);
	KUNIT_EXPECT_EQ(test, window.qpn, stage->pair.qp->qpn);
	KUNIT_EXPECT_EQ(test, window.pid, task_tgid_nr(current));
	KUNIT_EXPECT_STREQ(test, comm, current->group_leader->comm);
	KUNIT_EXPECT_EQ(test, window.iova, 0x1000);
	KUNIT_EXPECT_EQ(test, window.length, 77);
	KUNIT_EXPECT_EQ(test, window.access, RIGHTS);

	info.type = cpu_to_le32(MOOR_MRC_TYPE_MW_1);
	info.qpn = cpu_to_le32(stage->pair.qp->qpn ^ BIT(FAKE_QP_INDEX_BITS));
	strscpy(comm, "?");
	moor_window_describe(test->priv, &window, &info, &init_pid_ns, comm);
	KUNIT_EXPECT_EQ(test, window.type, 1);
	KUNIT_EXPECT_EQ(test, window.pid, 0);
	KUNIT_EXPECT_STREQ(test, comm, "?");
	stage_close(test, stage);
}

static struct kunit_case window_cases[] = {
	KUNIT_CASE_PARAM(window_life, kind_gen_params),
	KUNIT_CASE_PARAM(window_no_feature, kind_gen_params),
	KUNIT_CASE(window_none),
	KUNIT_CASE(window_input),
	KUNIT_CASE(window_exhaustion),
	KUNIT_CASE(window_dead),
	KUNIT_CASE_PARAM(window_holds, hold_gen_params),
	KUNIT_CASE(window_races),
	KUNIT_CASE(window_list),
	KUNIT_CASE(window_describe),
	{}
};

static struct kunit_suite window_suite = {
	.name = "moor_window",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = window_cases,
};

kunit_test_suite(window_suite);
