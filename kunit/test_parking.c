// SPDX-License-Identifier: GPL-2.0
/*
 * What a process leaves behind is taken back many keys to a fence, and before the
 * number of its protection domain is anybody else's.
 */

#include "process.h"

#define MANY	100

/* A process, one PD of it, memory of MANY pages, and a QP for windows. */
struct leaver {
	struct moor_process *process;
	struct moor_create_qp_resp qp;
	unsigned long addr;
	u32 pd;
	u32 mrs[MANY];		/* handles */
	u32 keys[MANY];
	u32 windows[MANY];	/* rkeys */
};

static struct leaver *leaver_open(struct kunit *test)
{
	struct leaver *leaver = kunit_kzalloc(test, sizeof(*leaver), GFP_KERNEL);
	struct moor_alloc_ucontext_resp resp;
	struct moor_create_cq_resp cq;

	KUNIT_ASSERT_NOT_NULL(test, leaver);
	leaver->process = moor_process_open(test);
	KUNIT_ASSERT_EQ(test, moor_process_context(leaver->process, &resp), 0);
	leaver->addr = moor_kunit_mmap(test, MANY * PAGE_SIZE, true);
	leaver->pd = moor_process_pd(leaver->process);
	moor_process_qp(leaver->process, leaver->pd,
			moor_process_cq(leaver->process, &cq), &leaver->qp);
	return leaver;
}

static void leaver_register(struct leaver *leaver, u32 count)
{
	struct kunit *test = leaver->process->test;
	struct ib_uverbs_reg_mr_resp mr;
	u32 i;

	for (i = 0; i < count; i++) {
		KUNIT_ASSERT_EQ(test, moor_process_reg(leaver->process, leaver->pd,
						       leaver->addr + i * PAGE_SIZE,
						       PAGE_SIZE, ALL_RIGHTS, &mr),
				0);
		leaver->mrs[i] = mr.mr_handle;
		leaver->keys[i] = mr.lkey;
	}
}

static void leaver_windows(struct leaver *leaver, u32 count)
{
	struct kunit *test = leaver->process->test;
	struct ib_uverbs_alloc_mw_resp mw;
	u32 i;

	for (i = 0; i < count; i++) {
		KUNIT_ASSERT_EQ(test, moor_process_window(leaver->process,
							  leaver->pd, &mw), 0);
		leaver->windows[i] = mw.rkey;
	}
}

static void leaver_bind(struct leaver *leaver, u32 count)
{
	struct kunit *test = leaver->process->test;
	u32 i;

	for (i = 0; i < count; i++) {
		const struct fake_bind bind = {
			.mw_key = leaver->windows[i],
			.new_key = ib_inc_rkey(leaver->windows[i]),
			.mr_lkey = leaver->keys[i],
			.qpn = leaver->qp.qpn,
			.access = MOOR_ACCESS_REMOTE_READ,
			.addr = leaver->addr + i * PAGE_SIZE,
			.length = PAGE_SIZE,
		};

		KUNIT_ASSERT_EQ(test, fake_nic_bind(moor_kunit_nic(), &bind), 0);
	}
}

static u32 revokes(void)
{
	return moor_kunit_nic()->commands[MOOR_CMD_MR_REVOKE];
}

/* The process ends. Return: fences that took. */
static u32 leaver_close(struct leaver *leaver)
{
	struct kunit *test = leaver->process->test;
	struct moor_dev *mdev = test->priv;
	u32 before = revokes();

	moor_process_close(leaver->process);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->keys), 0);
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->mw_keys), 0);
	return revokes() - before;
}

static void parking_shares_fences(struct kunit *test)
{
	struct leaver *leaver = leaver_open(test);
	u32 before = revokes(), i;

	leaver_register(leaver, MANY);
	/* While somebody waits for it each MR has a fence. */
	for (i = 0; i < 10; i++)
		KUNIT_EXPECT_EQ(test, moor_process_dereg(leaver->process,
							 leaver->mrs[i]), 0);
	KUNIT_EXPECT_EQ(test, revokes() - before, 10);
	KUNIT_EXPECT_EQ(test, leaver_close(leaver),
			DIV_ROUND_UP(MANY - 10, MOOR_REVOKE_MAX_KEYS));
	for (i = 0; i < MANY; i++)
		KUNIT_EXPECT_EQ(test, moor_kunit_entry(leaver->keys[i])->valid, 0);
}

/* Windows younger than their MRs go first, and share the fences. */
static void parking_windows(struct kunit *test)
{
	struct leaver *leaver = leaver_open(test);

	leaver_register(leaver, MANY);
	leaver_windows(leaver, MANY);
	leaver_bind(leaver, MANY);
	KUNIT_EXPECT_EQ(test, leaver_close(leaver),
			DIV_ROUND_UP(2 * MANY, MOOR_REVOKE_MAX_KEYS));
}

/* Older ones are still bound when their MRs' turn comes: these have another. */
static void parking_held(struct kunit *test)
{
	struct leaver *leaver = leaver_open(test);

	leaver_windows(leaver, MANY);
	leaver_register(leaver, MANY);
	leaver_bind(leaver, MANY);
	KUNIT_EXPECT_LE(test, leaver_close(leaver),
			DIV_ROUND_UP(3 * MANY, MOOR_REVOKE_MAX_KEYS) + 1);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(test->priv));
}

/* What is parked works until it is taken back, before its domain's number is free. */
static void parking_before_the_domain(struct kunit *test)
{
	struct moor_region *region = moor_region_new(test, ALL_RIGHTS);
	u32 key = region->mr->lkey, pdn = to_mpd(region->pd)->pdn;
	const struct moor_mr_context *entry = moor_kunit_entry(key);
	struct moor_ucontext uctx = { .closing = true };
	struct ib_uobject uobj = { .context = &uctx.ibucontext };
	struct moor_dev *mdev = test->priv;
	u32 before = revokes();

	INIT_LIST_HEAD(&uctx.held);
	KUNIT_EXPECT_FALSE(test, moor_park(mdev, NULL, key, to_mmr(region->mr)));
	region->mr->uobject = &uobj;
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(region->mr), 0);
	KUNIT_EXPECT_EQ(test, revokes(), before);
	KUNIT_EXPECT_EQ(test, FIELD_GET(MOOR_MRC_KEY, le64_to_cpu(entry->valid)), key);
	moor_parking_leave(mdev, NULL, pdn);
	KUNIT_EXPECT_EQ(test, revokes(), before);
	moor_parking_leave(mdev, &uobj, pdn);
	KUNIT_EXPECT_EQ(test, revokes(), before + 1);
	KUNIT_EXPECT_EQ(test, entry->valid, 0);
	moor_kunit_pd_free(test, region->pd);
}

/* A device that holds an MR for no window's sake is stopped, not waited for. */
static void parking_held_for_nothing(struct kunit *test)
{
	struct leaver *leaver = leaver_open(test);
	struct moor_dev *mdev = test->priv;

	leaver_register(leaver, MANY);
	moor_kunit_nic()->windows[moor_key_index(mdev, leaver->keys[7])] = 1;
	leaver_close(leaver);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(mdev));
}

/* The same of a window, which nothing is bound to. */
static void parking_busy_window(struct kunit *test)
{
	struct leaver *leaver = leaver_open(test);
	struct moor_dev *mdev = test->priv;

	leaver_windows(leaver, 3);
	moor_kunit_nic()->windows[moor_key_index(mdev, leaver->windows[1])] = 1;
	leaver_close(leaver);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(mdev));
}

/* A NIC that leaves takes everything back at once; so does one that is dead. */
static void parking_unplugged(struct kunit *test)
{
	struct leaver *leaver = leaver_open(test);

	leaver_windows(leaver, MANY);
	leaver_register(leaver, MANY);
	leaver_bind(leaver, MANY);
	moor_kunit_replug(test, 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_process_close(leaver->process);
}

static void parking_dead(struct kunit *test)
{
	struct leaver *leaver = leaver_open(test);

	leaver_windows(leaver, MANY);
	leaver_register(leaver, MANY);
	leaver_bind(leaver, MANY);
	moor_hw_kill(test->priv, "a test asks for it");
	KUNIT_EXPECT_EQ(test, leaver_close(leaver), 0);
}

static struct kunit_case parking_cases[] = {
	KUNIT_CASE(parking_shares_fences),
	KUNIT_CASE(parking_windows),
	KUNIT_CASE(parking_held),
	KUNIT_CASE(parking_before_the_domain),
	KUNIT_CASE(parking_held_for_nothing),
	KUNIT_CASE(parking_busy_window),
	KUNIT_CASE(parking_unplugged),
	KUNIT_CASE(parking_dead),
	{}
};

static struct kunit_suite parking_suite = {
	.name = "moor_parking",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = parking_cases,
};

kunit_test_suite(parking_suite);
