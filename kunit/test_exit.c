// SPDX-License-Identifier: GPL-2.0
/*
 * The keys that a process leaves behind are revoked many to a fence: its windows',
 * then its MRs'. Only a key that is busy then has a fence of its own.
 */

#include <linux/version.h>

#include "process.h"

#define MANY	100

/* Fences for so many keys: one for each, where the core does not tell of the end. */
static u32 fences(u32 keys)
{
	return LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0) ? keys :
	       DIV_ROUND_UP(keys, MOOR_REVOKE_MAX_KEYS);
}

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

/* The process ends. Return: how many fences there were. */
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

static void exit_shares_fences(struct kunit *test)
{
	struct leaver *leaver = leaver_open(test);
	u32 before = revokes(), i;

	leaver_register(leaver, MANY);
	/* An MR that the process deregisters itself has its own fence. */
	for (i = 0; i < 10; i++)
		KUNIT_EXPECT_EQ(test, moor_process_dereg(leaver->process,
							 leaver->mrs[i]), 0);
	KUNIT_EXPECT_EQ(test, revokes() - before, 10);
	KUNIT_EXPECT_EQ(test, leaver_close(leaver), fences(MANY - 10));
	for (i = 0; i < MANY; i++)
		KUNIT_EXPECT_EQ(test, moor_kunit_entry(leaver->keys[i])->valid, 0);
}

/* Windows go first, younger or older than the MRs: no MR is found busy. */
static void exit_windows_younger(struct kunit *test)
{
	struct leaver *leaver = leaver_open(test);

	leaver_register(leaver, MANY);
	leaver_windows(leaver, MANY);
	leaver_bind(leaver, MANY);
	KUNIT_EXPECT_EQ(test, leaver_close(leaver), 2 * fences(MANY));
}

static void exit_windows_older(struct kunit *test)
{
	struct leaver *leaver = leaver_open(test);
	u32 taken;

	leaver_windows(leaver, MANY);
	leaver_register(leaver, MANY);
	leaver_bind(leaver, MANY);
	taken = leaver_close(leaver);
	/* Where each key has its own fence, each MR is found busy once. */
	if (fences(MANY) == MANY)
		taken -= MANY;
	KUNIT_EXPECT_EQ(test, taken, 2 * fences(MANY));
	KUNIT_EXPECT_FALSE(test, moor_is_dead(test->priv));
}

/* A device may execute commands in any order (HWI CMD-4): none relies on another. */
static void exit_windows_any_order(struct kunit *test)
{
	const u32 count = 2 * MOOR_REVOKE_MAX_KEYS;
	struct leaver *leaver = leaver_open(test);

	leaver_register(leaver, count);
	leaver_windows(leaver, count);
	leaver_bind(leaver, count);
	moor_kunit_nic()->behave.reverse = true;
	KUNIT_EXPECT_EQ(test, leaver_close(leaver), 2 * fences(count));
}

/* A device that calls an MR busy without a window is stopped, not waited for. */
static void exit_held_for_nothing(struct kunit *test)
{
	struct leaver *leaver = leaver_open(test);
	struct moor_dev *mdev = test->priv;

	leaver_register(leaver, MANY);
	moor_kunit_nic()->windows[moor_key_index(mdev, leaver->keys[7])] = 1;
	leaver_close(leaver);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(mdev));
}

/* The same for an MR whose PD had windows, which are gone. */
static void exit_held_for_windows_gone(struct kunit *test)
{
	struct leaver *leaver = leaver_open(test);
	struct moor_dev *mdev = test->priv;

	leaver_windows(leaver, 3);
	leaver_register(leaver, MANY);
	leaver_bind(leaver, 3);
	moor_kunit_nic()->windows[moor_key_index(mdev, leaver->keys[2])]++;
	leaver_close(leaver);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(mdev));
}

/* A device that calls a window busy is stopped: nothing can be bound to a window. */
static void exit_busy_window(struct kunit *test)
{
	struct leaver *leaver = leaver_open(test);
	struct moor_dev *mdev = test->priv;

	leaver_windows(leaver, 3);
	moor_kunit_nic()->windows[moor_key_index(mdev, leaver->windows[1])] = 1;
	leaver_close(leaver);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(mdev));
}

/* When the NIC is unplugged, or dead, everything is taken back without fences. */
static void exit_unplugged(struct kunit *test)
{
	struct leaver *leaver = leaver_open(test);

	leaver_windows(leaver, MANY);
	leaver_register(leaver, MANY);
	leaver_bind(leaver, MANY);
	moor_kunit_replug(test, 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_process_close(leaver->process);
}

static void exit_dead(struct kunit *test)
{
	struct leaver *leaver = leaver_open(test);

	leaver_windows(leaver, MANY);
	leaver_register(leaver, MANY);
	leaver_bind(leaver, MANY);
	moor_hw_kill(test->priv, "a test asks for it");
	KUNIT_EXPECT_EQ(test, leaver_close(leaver), 0);
}

static struct kunit_case exit_cases[] = {
	KUNIT_CASE(exit_shares_fences),
	KUNIT_CASE(exit_windows_younger),
	KUNIT_CASE(exit_windows_older),
	KUNIT_CASE(exit_windows_any_order),
	KUNIT_CASE(exit_held_for_nothing),
	KUNIT_CASE(exit_held_for_windows_gone),
	KUNIT_CASE(exit_busy_window),
	KUNIT_CASE(exit_unplugged),
	KUNIT_CASE(exit_dead),
	{}
};

static struct kunit_suite exit_suite = {
	.name = "moor_exit",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = exit_cases,
};

kunit_test_suite(exit_suite);
