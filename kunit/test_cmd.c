// SPDX-License-Identifier: GPL-2.0
/* The command ring (HWI 8): wrap, order, many issuers, errors, lost devices. */

#include <linux/kthread.h>

#include "harness.h"

#define ISSUERS	24	/* more than the ring has entries */
#define ROUNDS	60

static int run_nop(struct moor_dev *mdev)
{
	struct moor_cmd_hdr cmd = { .opcode = MOOR_CMD_NOP };

	return moor_cmd_exec(mdev, &cmd, sizeof(cmd), NULL, 0);
}

/* Three times around both rings, so that the phase has had both values. */
static void cmd_wrap(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	u32 i, before = nic->commands[MOOR_CMD_NOP];
	const u32 count = 3 * FAKE_BATCH + 5;

	KUNIT_ASSERT_EQ(test, 1U << mdev->cmdq.log_size, FAKE_BATCH);
	for (i = 0; i < count; i++)
		KUNIT_ASSERT_EQ(test, run_nop(mdev), 0);
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_NOP] - before, count);
	KUNIT_EXPECT_EQ(test, mdev->cmdq.producer, mdev->cmdq.consumer);
	KUNIT_EXPECT_TRUE(test, bitmap_full(mdev->cmdq.free_tags, FAKE_BATCH));
}

/* Indices are free-running: the step from 2^32 - 1 to 0 is like any other. */
static void cmd_index_wrap(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	u32 i;

	/* Move driver and NIC to the last lap together; no command is under way. */
	spin_lock_irq(&nic->lock);
	mdev->cmdq.producer += (u32)-64;
	mdev->cmdq.consumer += (u32)-64;
	nic->consumer += (u32)-64;
	nic->cpl_producer += (u32)-64;
	nic->slots[MOOR_DB_SLOT_CMD_PRODUCER] = nic->consumer;
	spin_unlock_irq(&nic->lock);
	for (i = 0; i < 200; i++)
		KUNIT_ASSERT_EQ(test, run_nop(mdev), 0);
	KUNIT_EXPECT_LT(test, mdev->cmdq.producer, 300);
	KUNIT_EXPECT_EQ(test, mdev->cmdq.producer, mdev->cmdq.consumer);
}

struct issuer {
	struct moor_dev *mdev;
	u32 number;
	u32 wrong;
	u32 failed;
	struct completion done;
};

/* Each issuer queries a QP of its own: another issuer's answer would be seen. */
static int issue(void *data)
{
	struct issuer *me = data;
	struct moor_cpl_query_qp out;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		memset(&out, 0xff, sizeof(out));
		if (moor_cmd_query_qp(me->mdev, me->number, &out))
			me->failed++;
		else if (le32_to_cpu(out.sq_psn) != me->number)
			me->wrong++;
	}
	complete(&me->done);
	return 0;
}

static void many_issuers(struct kunit *test)
{
	struct issuer *issuers = kunit_kcalloc(test, ISSUERS, sizeof(*issuers),
					       GFP_KERNEL);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	u32 i, wrong = 0, failed = 0;

	KUNIT_ASSERT_NOT_NULL(test, issuers);
	for (i = 0; i < ISSUERS; i++) {
		nic->qps[i] = (struct fake_qp){
			.live = true,
			.qpn = i,
		};
		issuers[i].mdev = mdev;
		issuers[i].number = i;
		init_completion(&issuers[i].done);
	}
	for (i = 0; i < ISSUERS; i++)
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(issue, &issuers[i],
							       "issuer%u", i));
	for (i = 0; i < ISSUERS; i++) {
		wait_for_completion(&issuers[i].done);
		wrong += issuers[i].wrong;
		failed += issuers[i].failed;
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);
	KUNIT_EXPECT_EQ(test, failed, 0);
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_QUERY_QP], ISSUERS * ROUNDS);
	KUNIT_EXPECT_TRUE(test, bitmap_full(mdev->cmdq.free_tags, FAKE_BATCH));
	KUNIT_EXPECT_EQ(test, mdev->cmdq.sleepers, 0);
	for (i = 0; i < ISSUERS; i++)
		nic->qps[i].live = false;
}

static void cmd_many_issuers(struct kunit *test)
{
	many_issuers(test);
}

static void cmd_out_of_order(struct kunit *test)
{
	moor_kunit_nic()->behave.reverse = true;
	many_issuers(test);
}

static int issue_once(void *data)
{
	struct issuer *me = data;

	me->failed = run_nop(me->mdev) != 0;
	complete(&me->done);
	return 0;
}

/* An issuer that finds no tag free waits; an issuer that frees a tag wakes it. */
static void cmd_tags_run_out(struct kunit *test)
{
	struct issuer *issuers = kunit_kcalloc(test, ISSUERS, sizeof(*issuers),
					       GFP_KERNEL);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	u32 i, failed = 0, missing = 0;

	KUNIT_ASSERT_NOT_NULL(test, issuers);
	WRITE_ONCE(nic->behave.pause, true);
	for (i = 0; i < ISSUERS; i++) {
		issuers[i].mdev = mdev;
		init_completion(&issuers[i].done);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(issue_once,
							       &issuers[i],
							       "issuer%u", i));
	}
	/* The last quarter of the tags is kept for invalidations. */
	moor_kunit_wait(test, bitmap_weight(mdev->cmdq.free_tags, FAKE_BATCH) ==
			      FAKE_BATCH / 4);
	WRITE_ONCE(nic->behave.pause, false);
	fake_nic_wake(nic);
	for (i = 0; i < ISSUERS; i++) {
		missing += !wait_for_completion_timeout(&issuers[i].done, 10 * HZ);
		failed += issuers[i].failed;
	}
	KUNIT_EXPECT_EQ(test, missing, 0);
	KUNIT_EXPECT_EQ(test, failed, 0);
	if (missing)
		wake_up_all(&mdev->cmdq.tag_wait);
}

/* A completion with a tag beyond the ring's is dropped; the next ones count. */
static void cmd_stray_completion(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	int i;

	/* A stray completion takes a place in the ring: too few to overflow it. */
	for (i = 0; i < 3; i++) {
		nic->behave.stray = true;
		KUNIT_EXPECT_EQ(test, run_nop(mdev), 0);
	}
	KUNIT_EXPECT_EQ(test, run_nop(mdev), 0);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(mdev));
}

/* An interrupt is lost: sleeping issuers look at the ring themselves now and then. */
static void cmd_lost_interrupt(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;

	nic->behave.mute = true;
	KUNIT_EXPECT_EQ(test, run_nop(mdev), 0);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(mdev));
	nic->behave.mute = false;
	KUNIT_EXPECT_EQ(test, run_nop(mdev), 0);
}

/* A dozing device is kicked, and only when it dozes. */
static void cmd_kick(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	u32 before = nic->kicks;

	KUNIT_ASSERT_TRUE(test, mdev->caps.features & MOOR_FEATURE_DOZES);
	KUNIT_EXPECT_EQ(test, run_nop(mdev), 0);
	KUNIT_EXPECT_GT(test, nic->kicks, before);
}

struct status_errno {
	const char *name;
	u8 status;
	int err;
};

static const struct status_errno statuses[] = {
	{ "BAD_OPCODE", MOOR_CMD_BAD_OPCODE, -EOPNOTSUPP },
	{ "BAD_RESERVED", MOOR_CMD_BAD_RESERVED, -EINVAL },
	{ "BAD_PARAM", MOOR_CMD_BAD_PARAM, -EINVAL },
	{ "BAD_INDEX", MOOR_CMD_BAD_INDEX, -EINVAL },
	{ "BAD_STATE", MOOR_CMD_BAD_STATE, -EINVAL },
	{ "BUSY", MOOR_CMD_BUSY, -EBUSY },
	{ "NO_RESOURCE", MOOR_CMD_NO_RESOURCE, -ENOMEM },
	{ "DMA_FAULT", MOOR_CMD_DMA_FAULT, -EFAULT },
	{ "unknown status", 0x7f, -EIO },
	{ "last status", 0xff, -EIO },
};

static void status_desc(const struct status_errno *status, char *desc)
{
	strscpy(desc, status->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(status, statuses, status_desc);

static void cmd_errno(struct kunit *test)
{
	const struct status_errno *expected = test->param_value;
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;

	nic->behave.fail_opcode = MOOR_CMD_NOP;
	nic->behave.fail_status = expected->status;
	KUNIT_EXPECT_EQ(test, run_nop(mdev), expected->err);
	nic->behave.fail_status = 0;
	KUNIT_EXPECT_EQ(test, run_nop(mdev), 0);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(mdev));
}

static void expect_dead(struct kunit *test, struct moor_dev *mdev)
{
	struct fake_nic *nic = moor_kunit_nic();
	u32 before = nic->commands[MOOR_CMD_NOP];

	KUNIT_EXPECT_TRUE(test, moor_is_dead(mdev));
	KUNIT_EXPECT_EQ(test, nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER, 0);
	KUNIT_EXPECT_EQ(test, run_nop(mdev), -EIO);
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_NOP], before);
	/* Ending an object succeeds: a dead device has no objects any more. */
	moor_cmd_destroy_cq(mdev, 1);
	moor_cmd_destroy_qp(mdev, 1);
}

/* A device that answers nothing is stopped, bus mastering first. */
static void cmd_timeout(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	unsigned long start = jiffies;

	moor_kunit_nic()->behave.hold = true;
	KUNIT_EXPECT_EQ(test, run_nop(mdev), -EIO);
	KUNIT_EXPECT_GE(test, jiffies - start, 10UL * HZ);
	KUNIT_EXPECT_LE(test, jiffies - start, 100UL * HZ);
	expect_dead(test, mdev);
}

/* The device has answered in time, but its interrupt is lost: it is not stopped. */
static void cmd_unheard(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct issuer issuer = { .mdev = test->priv };

	init_completion(&issuer.done);
	issuer.mdev->cmdq.timeout_ms = 1;
	nic->behave.mute = true;
	WRITE_ONCE(nic->behave.pause, true);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(issue_once, &issuer, "issuer"));
	moor_kunit_wait(test, READ_ONCE(issuer.mdev->cmdq.sleepers));
	WRITE_ONCE(nic->behave.pause, false);
	fake_nic_wake(nic);
	wait_for_completion(&issuer.done);
	KUNIT_EXPECT_EQ(test, issuer.failed, 0);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(issuer.mdev));
	nic->behave.mute = false;
}

/* A device that has left the bus is noticed long before the time-out. */
static void cmd_gone(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	unsigned long start = jiffies;

	nic->behave.hold = true;
	nic->status = ~0U;
	KUNIT_EXPECT_EQ(test, run_nop(mdev), -EIO);
	KUNIT_EXPECT_LE(test, jiffies - start, 2UL * HZ);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(mdev));
}

/* All waiting issuers learn of the death at once, also those without a tag. */
static void cmd_death_wakes_all(struct kunit *test)
{
	struct issuer *issuers = kunit_kcalloc(test, ISSUERS, sizeof(*issuers),
					       GFP_KERNEL);
	struct moor_dev *mdev = test->priv;
	u32 i, failed = 0;

	KUNIT_ASSERT_NOT_NULL(test, issuers);
	mdev->cmdq.timeout_ms = 1000;
	moor_kunit_nic()->behave.hold = true;
	for (i = 0; i < ISSUERS; i++) {
		issuers[i].mdev = mdev;
		init_completion(&issuers[i].done);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(issue, &issuers[i],
							       "issuer%u", i));
	}
	for (i = 0; i < ISSUERS; i++) {
		wait_for_completion(&issuers[i].done);
		failed += issuers[i].failed;
	}
	KUNIT_EXPECT_EQ(test, failed, ISSUERS * ROUNDS);
	expect_dead(test, mdev);
}

/* The device reports its death itself, by an event. */
static void cmd_device_fatal(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;

	fake_nic_event(nic, MOOR_EQ_ASYNC, MOOR_EVENT_DEVICE_FATAL,
		       MOOR_FATAL_INJECTED);
	moor_kunit_wait(test, moor_is_dead(mdev));
	flush_work(&mdev->fatal_work);
	expect_dead(test, mdev);
}

static struct kunit_case cmd_cases[] = {
	KUNIT_CASE(cmd_wrap),
	KUNIT_CASE(cmd_index_wrap),
	KUNIT_CASE(cmd_many_issuers),
	KUNIT_CASE(cmd_out_of_order),
	KUNIT_CASE(cmd_tags_run_out),
	KUNIT_CASE(cmd_stray_completion),
	KUNIT_CASE(cmd_lost_interrupt),
	KUNIT_CASE(cmd_kick),
	KUNIT_CASE_PARAM(cmd_errno, status_gen_params),
	KUNIT_CASE(cmd_timeout),
	KUNIT_CASE(cmd_unheard),
	KUNIT_CASE(cmd_gone),
	KUNIT_CASE(cmd_death_wakes_all),
	KUNIT_CASE(cmd_device_fatal),
	{}
};

static struct kunit_suite cmd_suite = {
	.name = "moor_cmd",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = cmd_cases,
};

kunit_test_suite(cmd_suite);
