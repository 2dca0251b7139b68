// SPDX-License-Identifier: GPL-2.0
/*
 * Waiting for commands: a sleeping issuer is woken by the event, not by the look at
 * the NIC that it takes twice a second. User-Mode Linux's time jumps when all tasks
 * sleep and stands still otherwise, so that waits can be exact; elsewhere the limit
 * is longer.
 */

#include <linux/delay.h>
#include <linux/kthread.h>

#include "harness.h"

#define AT_ONCE		msecs_to_jiffies(IS_ENABLED(CONFIG_UML) ? 100 : 300)
#define SLEEPERS	6

static int run_nop(struct moor_dev *mdev)
{
	struct moor_cmd_hdr cmd = { .opcode = MOOR_CMD_NOP };

	return moor_cmd_exec(mdev, &cmd, sizeof(cmd), NULL, 0);
}

struct sleeper {
	struct moor_dev *mdev;
	int err;
	struct completion done;
};

static int sleeper_thread(void *data)
{
	struct sleeper *me = data;

	me->err = run_nop(me->mdev);
	complete(&me->done);
	return 0;
}

/* Start another issuer, which is asleep when this returns. */
static void sleeper_start(struct kunit *test, struct sleeper *me)
{
	struct moor_dev *mdev = test->priv;
	u32 before = READ_ONCE(mdev->cmdq.sleepers);

	*me = (struct sleeper){ .mdev = mdev };
	init_completion(&me->done);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(sleeper_thread, me,
						       "sleeper"));
	moor_kunit_wait(test, READ_ONCE(mdev->cmdq.sleepers) == before + 1);
	/* The issuer gets past its last look at the ring, well before the next. */
	msleep(20);
}

static void expect_woken(struct kunit *test, struct sleeper *me, int err)
{
	if (!wait_for_completion_timeout(&me->done, AT_ONCE)) {
		KUNIT_FAIL(test, "it was not woken");
		wait_for_completion(&me->done);
	}
	KUNIT_EXPECT_EQ(test, me->err, err);
}

/* The NIC answers late, with an interrupt. */
static void wait_interrupt(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct sleeper sleeper;
	int i;

	for (i = 0; i < 5; i++) {
		WRITE_ONCE(nic->behave.pause, true);
		sleeper_start(test, &sleeper);
		WRITE_ONCE(nic->behave.pause, false);
		fake_nic_wake(nic);
		expect_woken(test, &sleeper, 0);
	}
}

/* As fake_complete(), for one command that the NIC holds. */
static void complete_held(struct fake_nic *nic, u16 tag)
{
	struct moor_cpl *ring = fake_dma(nic->ring_cpl);
	struct moor_cpl *cpl = &ring[nic->cpl_producer & (FAKE_BATCH - 1)];
	u32 phase = !(nic->cpl_producer >> nic->log_size & 1);
	u64 arm;

	memset(cpl, 0, offsetof(struct moor_cpl, phase));
	cpl->tag = cpu_to_le16(tag);
	/* The phase goes last. */
	smp_store_release(&cpl->phase, cpu_to_le32(phase));
	nic->cpl_producer++;
	/* The completion before the look at the arm slot: HWI CMD-19. */
	smp_mb();
	arm = READ_ONCE(nic->slots[MOOR_DB_SLOT_CPL_ARM]);
	if (arm == nic->last_arm)
		return;
	nic->last_arm = arm;
	set_bit(MOOR_VECTOR_CMD, nic->msix_pending);
	fake_nic_wake(nic);
}

/*
 * Several issuers sleep and are answered one by one: each answer uses up a request
 * for an interrupt, and only the handler asks for the next one.
 */
static void wait_one_by_one(struct kunit *test)
{
	struct sleeper *sleepers = kunit_kcalloc(test, SLEEPERS,
						 sizeof(*sleepers), GFP_KERNEL);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	u16 tags[SLEEPERS];
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, sleepers);
	nic->behave.hold = true;
	for (i = 0; i < SLEEPERS; i++) {
		u32 place = mdev->cmdq.producer & (FAKE_BATCH - 1);

		sleeper_start(test, &sleepers[i]);
		tags[i] = le16_to_cpu(mdev->cmdq.ring[place].hdr.tag);
	}
	for (i = 0; i < SLEEPERS; i++) {
		complete_held(nic, tags[i]);
		expect_woken(test, &sleepers[i], 0);
	}
	nic->behave.hold = false;
	KUNIT_EXPECT_EQ(test, run_nop(mdev), 0);
}

/*
 * Answers to an earlier or a later command of a slot do not complete the command that
 * has the slot now: the tag counts the uses of its slot.
 */
static void wait_other_answer(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct sleeper sleeper;
	u32 i, place;
	u16 before;

	for (i = 0; i < 3; i++) {
		/* The count in the tag wraps meanwhile. */
		mdev->cmdq.slots[0].tag = U16_MAX + 1 - 2 * FAKE_BATCH;
		place = mdev->cmdq.producer & (FAKE_BATCH - 1);
		KUNIT_ASSERT_EQ(test, run_nop(mdev), 0);
		before = le16_to_cpu(mdev->cmdq.ring[place].hdr.tag) + i * FAKE_BATCH;
		mdev->cmdq.slots[0].tag = before;
		nic->behave.hold = true;
		sleeper_start(test, &sleeper);
		complete_held(nic, before);
		complete_held(nic, before + 2 * FAKE_BATCH);
		if (wait_for_completion_timeout(&sleeper.done, AT_ONCE)) {
			KUNIT_FAIL(test, "another one's answer was taken");
			break;
		}
		complete_held(nic, before + FAKE_BATCH);
		expect_woken(test, &sleeper, 0);
		nic->behave.hold = false;
	}
	nic->behave.hold = false;
	KUNIT_EXPECT_EQ(test, run_nop(mdev), 0);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(mdev));
}

/* The NIC dies while issuers sleep. */
static void wait_death(struct kunit *test)
{
	struct sleeper *sleepers = kunit_kcalloc(test, SLEEPERS,
						 sizeof(*sleepers), GFP_KERNEL);
	struct moor_dev *mdev = test->priv;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, sleepers);
	moor_kunit_nic()->behave.hold = true;
	for (i = 0; i < SLEEPERS; i++)
		sleeper_start(test, &sleepers[i]);
	moor_hw_kill(mdev, "a test asks for it");
	for (i = 0; i < SLEEPERS; i++)
		expect_woken(test, &sleepers[i], -EIO);
}

/* However a command ends, its tag is free afterwards. */
static void wait_tags(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;

	nic->behave.fail_opcode = MOOR_CMD_NOP;
	nic->behave.fail_status = MOOR_CMD_BAD_PARAM;
	KUNIT_EXPECT_EQ(test, run_nop(mdev), -EINVAL);
	nic->behave.fail_status = 0;
	KUNIT_EXPECT_TRUE(test, bitmap_full(mdev->cmdq.free_tags, FAKE_BATCH));
	moor_hw_kill(mdev, "a test asks for it");
	KUNIT_EXPECT_EQ(test, run_nop(mdev), -EIO);
	KUNIT_EXPECT_TRUE(test, bitmap_full(mdev->cmdq.free_tags, FAKE_BATCH));
}

static struct kunit_case wait_cases[] = {
	KUNIT_CASE(wait_interrupt),
	KUNIT_CASE(wait_one_by_one),
	KUNIT_CASE(wait_other_answer),
	KUNIT_CASE(wait_death),
	KUNIT_CASE(wait_tags),
	{}
};

static struct kunit_suite wait_suite = {
	.name = "moor_wait",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = wait_cases,
};

kunit_test_suite(wait_suite);
