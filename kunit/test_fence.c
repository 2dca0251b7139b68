// SPDX-License-Identifier: GPL-2.0
/*
 * Fences: when pages are let go, which keys share a fence, how many fences are under way
 * at once, and what a device gets that does not fence.
 */

#include <linux/bitmap.h>
#include <linux/kthread.h>

#include "harness.h"

struct worker {
	struct ib_mr *mr;
	int err;
	struct completion done;
};

static int dereg_thread(void *data)
{
	struct worker *me = data;

	me->err = moor_kunit_dereg(me->mr);
	complete_all(&me->done);
	return 0;
}

/* Pages stay pinned, and the key taken, until the fence is answered. */
static void fence_before_unpin(struct kunit *test)
{
	struct moor_region *region = moor_region_new(test, ALL_RIGHTS);
	struct fake_nic *nic = moor_kunit_nic();
	struct worker worker = { .mr = region->mr };

	init_completion(&worker.done);
	WRITE_ONCE(nic->behave.pause, true);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(dereg_thread, &worker,
						       "dereg"));
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&worker.done, HZ), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), REGION_PAGES);
	KUNIT_EXPECT_NE(test, moor_kunit_entry(region->mr->lkey)->valid, 0);
	WRITE_ONCE(nic->behave.pause, false);
	fake_nic_wake(nic);
	wait_for_completion(&worker.done);
	KUNIT_EXPECT_EQ(test, worker.err, 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_kunit_pd_free(test, region->pd);
}

/* Tasks that deregister at the same time share fences; each gets its own result. */
static void fence_is_shared(struct kunit *test)
{
	const u32 count = 60, busy_every = 7;
	unsigned long addr = moor_kunit_mmap(test, REGION_LENGTH, true);
	struct fake_nic *nic = moor_kunit_nic();
	struct ib_pd *pd = moor_kunit_pd(test);
	struct worker *workers;
	u32 i, before;

	workers = kunit_kcalloc(test, count, sizeof(*workers), GFP_KERNEL);
	for (i = 0; i < count; i++) {
		workers[i].mr = moor_kunit_reg(pd, addr, REGION_LENGTH, addr, ALL_RIGHTS);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, workers[i].mr);
		moor_kunit_hold(workers[i].mr, i % busy_every == 0);
		init_completion(&workers[i].done);
	}
	before = nic->commands[MOOR_CMD_MR_REVOKE];
	WRITE_ONCE(nic->behave.pause, true);
	for (i = 0; i < count; i++)
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(dereg_thread,
							       &workers[i],
							       "dereg%u", i));
	/* All tasks wait now, behind the first task's fence. */
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&workers[0].done, HZ), 0);
	WRITE_ONCE(nic->behave.pause, false);
	fake_nic_wake(nic);
	for (i = 0; i < count; i++) {
		wait_for_completion(&workers[i].done);
		KUNIT_EXPECT_EQ(test, workers[i].err,
				i % busy_every ? 0 : -EBUSY);
	}
	/* One key alone, then 59 keys, 24 to a fence. */
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_MR_REVOKE] - before, 4);
	for (i = 0; i < count; i += busy_every) {
		moor_kunit_hold(workers[i].mr, 0);
		KUNIT_EXPECT_EQ(test, moor_kunit_dereg(workers[i].mr), 0);
	}
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_kunit_pd_free(test, pd);
}

struct leaver {
	struct moor_dev *mdev;
	struct list_head revs;
	struct completion done;
	u32 count;
	struct ib_mr *mrs[];
};

/* Revokes keys as the driver does when a process ends. */
static int leaver_thread(void *data)
{
	struct leaver *me = data;

	moor_keys_revoke(me->mdev, &me->revs);
	complete_all(&me->done);
	return 0;
}

/* Looks at what is under way as the NIC takes a fence. */
struct fence_watch {
	struct moor_dev *mdev;
	u32 before;		/* number of fences before the case */
	u32 pause_after;	/* the fence after which the NIC pauses, or 0 */
	u32 alone;		/* a fence whose keys are counted, or 0 */
	u32 count;		/* keys of that fence */
	u32 most;		/* commands that were under way at once */
};

static void watch_fences(struct fake_nic *nic, const struct moor_cmd *cmd,
			 struct moor_cpl *answer)
{
	struct fence_watch *watch = nic->behave.lie_arg;
	u32 entries = 1U << watch->mdev->cmdq.log_size;
	u32 number = nic->commands[MOOR_CMD_MR_REVOKE] - watch->before;

	watch->most = max(watch->most, entries -
			  bitmap_weight(watch->mdev->cmdq.free_tags, entries));
	if (number == watch->alone)
		watch->count = le32_to_cpu(((const struct moor_cmd_mr_revoke *)cmd)->count);
	if (number == watch->pause_after)
		WRITE_ONCE(nic->behave.pause, true);
}

static void watch_begin(struct kunit *test, struct fence_watch *watch)
{
	struct fake_nic *nic = moor_kunit_nic();

	watch->mdev = test->priv;
	watch->before = nic->commands[MOOR_CMD_MR_REVOKE];
	nic->behave.lie_arg = watch;
	nic->behave.lie = watch_fences;
}

/* Registers what a process leaves behind. */
static struct leaver *leaver_new(struct kunit *test, struct ib_pd *pd,
				 unsigned long addr, u32 count)
{
	struct leaver *leaver;
	u32 i;

	leaver = kunit_kzalloc(test, struct_size(leaver, mrs, count), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, leaver);
	leaver->mdev = test->priv;
	leaver->count = count;
	INIT_LIST_HEAD(&leaver->revs);
	init_completion(&leaver->done);
	for (i = 0; i < count; i++) {
		struct ib_mr *mr = moor_kunit_reg(pd, addr, PAGE_SIZE, addr, 0);

		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
		moor_revocation_add(&to_mmr(mr)->exit, mr->lkey, &leaver->revs);
		leaver->mrs[i] = mr;
	}
	return leaver;
}

static void leaver_free(struct kunit *test, struct leaver *leaver)
{
	u32 i;

	for (i = 0; i < leaver->count; i++)
		KUNIT_EXPECT_EQ(test, moor_kunit_dereg(leaver->mrs[i]), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&leaver->mdev->mrs.num_pending), 0);
}

static const struct leaving {
	u32 tags;
	u32 keys;	/* of which the last batch is more than the tags are for, or not */
} leaving[] = {
	{ 1, 72 }, { 1, 250 }, { 3, 90 }, { 3, 250 }, { 16, 250 },
};

static void leaving_desc(const struct leaving *leaving, char *desc)
{
	sprintf(desc, "%u keys, %u tags", leaving->keys, leaving->tags);
}

KUNIT_ARRAY_PARAM(leaving, leaving, leaving_desc);

/*
 * The keys of a process that leaves: full fences, AT_ONCE of them under way at a time; with
 * few tags fewer, as a task that has all of them would wait for itself. All are done when
 * the last one is.
 */
static void fence_leaver(struct kunit *test)
{
	enum { AT_ONCE = 4 };
	const struct leaving *leaving = test->param_value;
	unsigned long addr = moor_kunit_mmap(test, PAGE_SIZE, true);
	u32 wanted = DIV_ROUND_UP(leaving->keys, MOOR_REVOKE_MAX_KEYS);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	u32 usual = mdev->cmdq.ordinary_tags;
	struct ib_pd *pd = moor_kunit_pd(test);
	struct fence_watch watch = {};
	struct leaver *leaver;

	leaver = leaver_new(test, pd, addr, leaving->keys);
	watch_begin(test, &watch);
	mdev->cmdq.ordinary_tags = leaving->tags;
	/* The first answer comes when a task that waits for answers has sent what it may. */
	WRITE_ONCE(nic->behave.pause, true);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(leaver_thread, leaver,
						       "leaver"));
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&leaver->done, HZ), 0);
	WRITE_ONCE(nic->behave.pause, false);
	fake_nic_wake(nic);
	wait_for_completion(&leaver->done);
	mdev->cmdq.ordinary_tags = usual;
	nic->behave.lie = NULL;
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_MR_REVOKE] - watch.before, wanted);
	KUNIT_EXPECT_EQ(test, watch.most, min(leaving->tags, AT_ONCE));
	leaver_free(test, leaver);
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_MR_REVOKE] - watch.before, wanted);
	moor_kunit_pd_free(test, pd);
}

/* The second of several fences fails: the device is stopped, and all is let go. */
static void fence_leaver_fails(struct kunit *test)
{
	enum { MANY = 100 };
	unsigned long addr = moor_kunit_mmap(test, PAGE_SIZE, true);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct ib_pd *pd = moor_kunit_pd(test);
	struct leaver *leaver;

	leaver = leaver_new(test, pd, addr, MANY);
	nic->behave.fail_opcode = MOOR_CMD_MR_REVOKE;
	nic->behave.fail_status = MOOR_CMD_BAD_PARAM;
	nic->behave.fail_after = 1;
	leaver_thread(leaver);
	KUNIT_EXPECT_EQ(test, nic->behave.fail_after, 0);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(mdev));
	KUNIT_EXPECT_EQ(test, bitmap_weight(mdev->cmdq.free_tags, 1U << mdev->cmdq.log_size),
			1U << mdev->cmdq.log_size);
	leaver_free(test, leaver);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_kunit_pd_free(test, pd);
}

/*
 * A task that deregisters while many keys are revoked at once is in the next batch, and
 * shares a fence of it with some of the many keys. So there is no fence more, unless the
 * task is so quick that it sends its fence alone.
 */
static void fence_leaver_lets_others_in(struct kunit *test)
{
	enum { MANY = 250, AT_ONCE = 4 };
	unsigned long addr = moor_kunit_mmap(test, PAGE_SIZE, true);
	u32 wanted = DIV_ROUND_UP(MANY + 1, MOOR_REVOKE_MAX_KEYS);
	struct fence_watch watch = {
		.alone = AT_ONCE + 1,
		.pause_after = 2 * AT_ONCE,
	};
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct ib_pd *pd = moor_kunit_pd(test);
	struct worker worker = {};
	struct leaver *leaver;

	init_completion(&worker.done);
	worker.mr = moor_kunit_reg(pd, addr, PAGE_SIZE, addr, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, worker.mr);
	leaver = leaver_new(test, pd, addr, MANY);
	watch_begin(test, &watch);
	WRITE_ONCE(nic->behave.pause, true);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(leaver_thread, leaver,
						       "leaver"));
	moor_kunit_wait(test, mutex_is_locked(&mdev->mrs.commit));
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(dereg_thread, &worker,
						       "dereg"));
	/* The worker sleeps: so its key is pending. */
	moor_kunit_wait(test, wq_has_sleeper(&mdev->mrs.sent));
	WRITE_ONCE(nic->behave.pause, false);
	fake_nic_wake(nic);
	KUNIT_EXPECT_NE(test, wait_for_completion_timeout(&worker.done, 5 * HZ), 0);
	KUNIT_EXPECT_FALSE(test, completion_done(&leaver->done));
	nic->behave.lie = NULL;
	WRITE_ONCE(nic->behave.pause, false);
	fake_nic_wake(nic);
	wait_for_completion(&leaver->done);
	wait_for_completion(&worker.done);
	KUNIT_EXPECT_EQ(test, worker.err, 0);
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_MR_REVOKE] - watch.before,
			wanted + (watch.count == 1));
	leaver_free(test, leaver);
	moor_kunit_pd_free(test, pd);
}

/* A fence that fails or times out stops the device; then the pages may go. */
static void fence_fails(struct kunit *test)
{
	struct moor_region *region = moor_region_new(test, ALL_RIGHTS);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;

	nic->behave.fail_opcode = MOOR_CMD_MR_REVOKE;
	nic->behave.fail_status = MOOR_CMD_BAD_PARAM;
	moor_region_free(test, region);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(mdev));
	KUNIT_EXPECT_EQ(test, nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER, 0);
}

static void fence_times_out(struct kunit *test)
{
	struct moor_region *region = moor_region_new(test, ALL_RIGHTS);
	struct moor_dev *mdev = test->priv;

	mdev->cmdq.timeout_ms = 1000;
	moor_kunit_nic()->behave.hold = true;
	moor_region_free(test, region);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(mdev));
}

static struct kunit_case fence_cases[] = {
	KUNIT_CASE(fence_before_unpin),
	KUNIT_CASE(fence_is_shared),
	KUNIT_CASE_PARAM(fence_leaver, leaving_gen_params),
	KUNIT_CASE(fence_leaver_fails),
	KUNIT_CASE(fence_leaver_lets_others_in),
	KUNIT_CASE(fence_fails),
	KUNIT_CASE(fence_times_out),
	{}
};

static struct kunit_suite fence_suite = {
	.name = "moor_fence",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = fence_cases,
};

kunit_test_suite(fence_suite);
