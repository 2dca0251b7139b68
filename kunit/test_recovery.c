// SPDX-License-Identifier: GPL-2.0
/*
 * Recovery from a dead device: what users lose, what comes back, when there is no
 * recovery, and other events of the function at the same time.
 */

#include <linux/pci.h>
#include <linux/workqueue.h>

#include "process.h"

static int recovery_init(struct kunit *test)
{
	int err = moor_kunit_init(test);

	moor_recover = true;
	return err;
}

static struct pci_dev *pci_function(struct kunit *test)
{
	return ((struct moor_dev *)test->priv)->pdev;
}

/* The driver's function, which outlives the case's device. */
static struct moor_function *function(struct kunit *test)
{
	return ((struct moor_dev *)test->priv)->function;
}

static void die(void)
{
	struct fake_nic *nic = moor_kunit_nic();

	WRITE_ONCE(nic->status, nic->status | MOOR_STATUS_FATAL);
}

/* Wait until a recovery has begun and is over. */
static void wait_recovered(struct kunit *test, struct moor_function *func)
{
	moor_kunit_wait(test, READ_ONCE(func->rest_until));
	flush_work(&func->recovery);
}

/* Dead, and it stays so. */
static void expect_stays_dead(struct kunit *test)
{
	struct moor_function *func = function(test);
	struct moor_dev *mdev = test->priv;
	u64 rest = func->rest_until;

	moor_kunit_wait(test, moor_is_dead(mdev));
	/* With the lock, the task that kills the device has finished. */
	mutex_lock(&mdev->kill_lock);
	mutex_unlock(&mdev->kill_lock);
	flush_work(&func->recovery);
	KUNIT_EXPECT_PTR_EQ(test, moor_kunit_attached(test), mdev);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(mdev));
	KUNIT_EXPECT_EQ(test, func->rest_until, rest);
	KUNIT_EXPECT_EQ(test, moor_kunit_nic()->cfg[PCI_COMMAND] &
			PCI_COMMAND_MASTER, 0);
	KUNIT_EXPECT_FALSE(test, netif_carrier_ok(func->netdev));
}

/* A reset by hand, as from sysfs. */
static void reset_by_hand(struct pci_dev *pdev)
{
	const struct pci_error_handlers *handlers = pdev->driver->err_handler;

	device_lock_assert(&pdev->dev);
	handlers->reset_prepare(pdev);
	fake_nic_reset(moor_kunit_nic());
	handlers->reset_done(pdev);
}

struct death {
	const char *name;
	void (*strike)(struct kunit *test, struct moor_process *process, u32 mr);
};

static void strike_fatal(struct kunit *test, struct moor_process *process, u32 mr)
{
	die();
}

static void strike_event(struct kunit *test, struct moor_process *process, u32 mr)
{
	fake_nic_event(moor_kunit_nic(), MOOR_EQ_ASYNC, MOOR_EVENT_DEVICE_FATAL, 0);
}

static void strike_refusal(struct kunit *test, struct moor_process *process, u32 mr)
{
	struct moor_function *func = function(test);
	struct fake_nic *nic = moor_kunit_nic();

	nic->behave.fail_opcode = MOOR_CMD_MR_REVOKE;
	nic->behave.fail_status = MOOR_CMD_BAD_INDEX;
	KUNIT_EXPECT_EQ(test, moor_process_dereg(process, mr), 0);
	wait_recovered(test, func);
	nic->behave.fail_status = 0;
}

static void strike_silence(struct kunit *test, struct moor_process *process, u32 mr)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;

	mdev->cmdq.timeout_ms = 1;
	WRITE_ONCE(nic->behave.pause, true);
	KUNIT_EXPECT_EQ(test, moor_process_dereg(process, mr), 0);
	WRITE_ONCE(nic->behave.pause, false);
	fake_nic_wake(nic);
}

static const struct death deaths[] = {
	{ "STATUS says so", strike_fatal },
	{ "an event says so", strike_event },
	{ "a command is refused", strike_refusal },
	{ "a command is not answered", strike_silence },
};

static void death_desc(const struct death *death, char *desc)
{
	strscpy(desc, death->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(death, deaths, death_desc);

/* Processes lose the device, the interface stays, and the new device works. */
static void recovery_from(struct kunit *test)
{
	const struct death *death = test->param_value;
	unsigned long addr = moor_kunit_mmap(test, REGION_LENGTH, true);
	struct moor_process *process = moor_process_open(test);
	struct moor_function *func = function(test);
	struct net_device *netdev = func->netdev;
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_alloc_ucontext_resp resp;
	struct ib_uverbs_reg_mr_resp mr;
	struct moor_create_cq_resp cq;

	KUNIT_ASSERT_EQ(test, moor_kunit_netdev_up(netdev, true), 0);
	KUNIT_ASSERT_EQ(test, moor_process_context(process, &resp), 0);
	KUNIT_ASSERT_EQ(test, moor_process_reg(process, moor_process_pd(process),
					       addr, REGION_LENGTH, ALL_RIGHTS,
					       &mr), 0);
	moor_process_cq(process, &cq);
	moor_kunit_wait(test, !bitmap_empty(nic->gids, FAKE_GIDS));

	death->strike(test, process, mr.mr_handle);
	wait_recovered(test, func);
	moor_kunit_expect_working(test);
	moor_process_expect_cut_off(process);
	KUNIT_EXPECT_PTR_EQ(test, func->netdev, netdev);
	KUNIT_EXPECT_TRUE(test, netif_running(netdev));
	KUNIT_EXPECT_TRUE(test, netif_carrier_ok(netdev));
	/* The reset cleared the device's GIDs; the interface sets them again. */
	moor_kunit_wait(test, !bitmap_empty(nic->gids, FAKE_GIDS));
	KUNIT_EXPECT_NE(test, nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER, 0);
}

/* After a second death within a minute there is no recovery but a reset by hand. */
static void recovery_once_a_minute(struct kunit *test)
{
	struct moor_function *func = function(test);
	struct pci_dev *pdev = pci_function(test);
	struct moor_process *process;
	u64 begin = get_jiffies_64();

	die();
	wait_recovered(test, func);
	moor_kunit_expect_working(test);
	KUNIT_EXPECT_GE(test, func->rest_until, begin + 60 * HZ);
	KUNIT_EXPECT_LE(test, func->rest_until, get_jiffies_64() + 60 * HZ);

	process = moor_process_busy(test);
	die();
	expect_stays_dead(test);
	/* There is no recovery after the minute either. */
	func->rest_until = get_jiffies_64();
	expect_stays_dead(test);
	moor_process_close(process);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);

	device_lock(&pdev->dev);
	reset_by_hand(pdev);
	device_unlock(&pdev->dev);
	moor_kunit_expect_working(test);
	/* A death after the minute is recovered from. */
	func->rest_until = 0;
	die();
	wait_recovered(test, func);
	moor_kunit_expect_working(test);
}

static void recovery_off(struct kunit *test)
{
	struct moor_process *process = moor_process_busy(test);
	struct pci_dev *pdev = pci_function(test);

	moor_recover = false;
	die();
	expect_stays_dead(test);
	moor_process_close(process);
	moor_recover = true;
	device_lock(&pdev->dev);
	reset_by_hand(pdev);
	device_unlock(&pdev->dev);
	moor_kunit_expect_working(test);
}

/* The device cannot be used after the reset; a later reset by hand helps. */
static void recovery_fails(struct kunit *test)
{
	struct moor_process *process = moor_process_busy(test);
	struct moor_function *func = function(test);
	struct pci_dev *pdev = pci_function(test);
	struct fake_nic *nic = moor_kunit_nic();

	nic->magic = 0;
	die();
	wait_recovered(test, func);
	KUNIT_EXPECT_NULL(test, moor_kunit_attached(test));
	KUNIT_EXPECT_FALSE(test, netif_carrier_ok(func->netdev));
	KUNIT_EXPECT_EQ(test, nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER, 0);
	moor_process_expect_cut_off(process);
	nic->magic = MOOR_MAGIC;
	device_lock(&pdev->dev);
	reset_by_hand(pdev);
	device_unlock(&pdev->dev);
	moor_kunit_expect_working(test);
}

struct rival {
	const char *name;
	void (*act)(struct pci_dev *pdev);
	void (*after)(struct kunit *test, struct pci_dev *pdev);
};

static void suspend(struct pci_dev *pdev)
{
	pdev->driver->driver.pm->suspend(&pdev->dev);
}

static void resume(struct kunit *test, struct pci_dev *pdev)
{
	KUNIT_EXPECT_NULL(test, moor_kunit_attached(test));
	fake_nic_reset(moor_kunit_nic());
	KUNIT_EXPECT_EQ(test, pdev->driver->driver.pm->resume(&pdev->dev), 0);
}

static void freeze_channel(struct pci_dev *pdev)
{
	pdev->error_state = pci_channel_io_frozen;
	moor_kunit_nic()->behave.frozen = true;
}

static void channel_recovered(struct kunit *test, struct pci_dev *pdev)
{
	const struct pci_error_handlers *handlers = pdev->driver->err_handler;

	/* The recovery has not touched the device while the channel was frozen. */
	KUNIT_EXPECT_NOT_NULL(test, moor_kunit_attached(test));
	handlers->error_detected(pdev, pci_channel_io_frozen);
	fake_nic_reset(moor_kunit_nic());
	pdev->error_state = pci_channel_io_normal;
	moor_kunit_nic()->behave.frozen = false;
	handlers->slot_reset(pdev);
	handlers->resume(pdev);
}

static void shut_down(struct pci_dev *pdev)
{
	pdev->driver->shutdown(pdev);
}

static void still_down(struct kunit *test, struct pci_dev *pdev)
{
	struct moor_function *func = pci_get_drvdata(pdev);

	KUNIT_EXPECT_EQ(test, moor_kunit_nic()->cfg[PCI_COMMAND] &
			PCI_COMMAND_MASTER, 0);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(moor_kunit_attached(test)));
	/* After a shutdown no reset brings the device back. */
	reset_by_hand(pdev);
	KUNIT_EXPECT_NULL(test, moor_kunit_attached(test));
	pdev->driver->err_handler->resume(pdev);
	KUNIT_EXPECT_NULL(test, moor_kunit_attached(test));
	KUNIT_EXPECT_EQ(test, moor_kunit_nic()->cfg[PCI_COMMAND] &
			PCI_COMMAND_MASTER, 0);
	/* Another kernel would follow; the case goes on with this one. */
	func->shut_down = false;
	reset_by_hand(pdev);
}

static const struct rival rivals[] = {
	{ "reset", reset_by_hand },
	{ "sleep", suspend, resume },
	{ "PCI error", freeze_channel, channel_recovered },
	{ "shutdown", shut_down, still_down },
};

static void rival_desc(const struct rival *rival, char *desc)
{
	strscpy(desc, rival->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(rival, rivals, rival_desc);

/* Another handler holds the device lock while a recovery waits for it, and wins. */
static void recovery_waits(struct kunit *test)
{
	const struct rival *rival = test->param_value;
	struct moor_process *process = moor_process_busy(test);
	struct moor_function *func = function(test);
	struct pci_dev *pdev = pci_function(test);

	device_lock(&pdev->dev);
	die();
	moor_kunit_wait(test, work_busy(&func->recovery) & WORK_BUSY_RUNNING);
	rival->act(pdev);
	device_unlock(&pdev->dev);
	flush_work(&func->recovery);
	KUNIT_EXPECT_EQ(test, func->rest_until, 0);
	if (rival->after) {
		device_lock(&pdev->dev);
		rival->after(test, pdev);
		device_unlock(&pdev->dev);
	}
	moor_kunit_expect_working(test);
	moor_process_expect_cut_off(process);
}

/* A user in the kernel, with a queue pair that has a receive posted. */
struct kernel_user {
	struct ib_client client;
	int added;
	int removed;
	int flushed;
	struct completion leaving;	/* the client is being removed ... */
	struct completion leave;	/* ... and may return */
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp;
	struct ib_cqe done;
};

static struct kernel_user *kernel_user;

static void count_flushed(struct ib_cq *cq, struct ib_wc *wc)
{
	kernel_user->flushed += wc->status == IB_WC_WR_FLUSH_ERR;
}

static int user_added(struct ib_device *ibdev)
{
	struct kernel_user *user = kernel_user;
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.cap = { 4, 4, 1, 1, 0 },
		.sq_sig_type = IB_SIGNAL_REQ_WR,
	};
	struct ib_qp_attr init = {
		.qp_state = IB_QPS_INIT,
		.port_num = MOOR_PORT,
	};
	struct ib_recv_wr wr = { .wr_cqe = &user->done };

	user->pd = ib_alloc_pd(ibdev, 0);
	user->cq = ib_alloc_cq(ibdev, NULL, 16, 0, IB_POLL_WORKQUEUE);
	attr.send_cq = user->cq;
	attr.recv_cq = user->cq;
	user->qp = ib_create_qp(user->pd, &attr);
	if (WARN_ON(IS_ERR(user->pd) || IS_ERR(user->cq) || IS_ERR(user->qp)))
		return -EIO;
	WARN_ON(ib_modify_qp(user->qp, &init, IB_QP_STATE | IB_QP_PKEY_INDEX |
			     IB_QP_PORT | IB_QP_ACCESS_FLAGS) ||
		ib_post_recv(user->qp, &wr, NULL));
	user->added++;
	return 0;
}

static void user_removed(struct ib_device *ibdev, void *data)
{
	struct kernel_user *user = kernel_user;

	complete(&user->leaving);
	wait_for_completion(&user->leave);
	/* The fake NIC flushes nothing; for a dead device the driver does. */
	if (moor_is_dead(to_mdev(ibdev)))
		ib_drain_qp(user->qp);
	ib_destroy_qp(user->qp);
	ib_free_cq(user->cq);
	ib_dealloc_pd(user->pd);
	user->removed++;
}

static void user_begin(struct kunit *test)
{
	kernel_user = kunit_kzalloc(test, sizeof(*kernel_user), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, kernel_user);
	init_completion(&kernel_user->leaving);
	init_completion(&kernel_user->leave);
	kernel_user->done.done = count_flushed;
	kernel_user->client.name = "moor-kunit";
	kernel_user->client.add = user_added;
	kernel_user->client.remove = user_removed;
	KUNIT_ASSERT_EQ(test, ib_register_client(&kernel_user->client), 0);
	KUNIT_ASSERT_EQ(test, kernel_user->added, 1);
}

/* A kernel user gets its work requests back, is removed, and added to the new device. */
static void recovery_kernel_user(struct kunit *test)
{
	struct moor_function *func = function(test);

	user_begin(test);
	complete_all(&kernel_user->leave);
	die();
	wait_recovered(test, func);
	KUNIT_EXPECT_EQ(test, kernel_user->removed, 1);
	KUNIT_EXPECT_EQ(test, kernel_user->flushed, 1);
	KUNIT_EXPECT_EQ(test, kernel_user->added, 2);
	moor_kunit_expect_working(test);
	ib_unregister_client(&kernel_user->client);
	KUNIT_EXPECT_EQ(test, kernel_user->removed, 2);
}

struct unplugging {
	struct work_struct work;
	struct fake_nic *nic;
};

static void unplug(struct work_struct *work)
{
	fake_nic_unplug(container_of(work, struct unplugging, work)->nic);
}

/* The NIC is unplugged during a recovery: the recovery ends first. */
static void recovery_removed_during(struct kunit *test)
{
	struct unplugging unplugging = { .nic = moor_kunit_nic() };

	user_begin(test);
	INIT_WORK_ONSTACK(&unplugging.work, unplug);
	die();
	moor_kunit_wait(test, completion_done(&kernel_user->leaving));
	schedule_work(&unplugging.work);
	complete_all(&kernel_user->leave);
	flush_work(&unplugging.work);
	destroy_work_on_stack(&unplugging.work);
	KUNIT_EXPECT_EQ(test, kernel_user->removed, 2);
	ib_unregister_client(&kernel_user->client);

	fake_nic_plug(moor_kunit_nic());
	moor_kunit_expect_working(test);
}

/* The NIC is unplugged before a recovery has begun, or as it begins. */
static void recovery_removed_first(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev;
	int i;

	for (i = 0; i < 5; i++) {
		mdev = test->priv;
		moor_hw_kill(mdev, "a case wants it");
		fake_nic_unplug(nic);
		fake_nic_plug(nic);
		moor_kunit_expect_working(test);
	}
}

static struct kunit_case recovery_cases[] = {
	KUNIT_CASE_PARAM(recovery_from, death_gen_params),
	KUNIT_CASE(recovery_once_a_minute),
	KUNIT_CASE(recovery_off),
	KUNIT_CASE(recovery_fails),
	KUNIT_CASE_PARAM(recovery_waits, rival_gen_params),
	KUNIT_CASE(recovery_kernel_user),
	KUNIT_CASE(recovery_removed_during),
	KUNIT_CASE(recovery_removed_first),
	{}
};

static struct kunit_suite recovery_suite = {
	.name = "moor_recovery",
	.init = recovery_init,
	.exit = moor_kunit_exit,
	.test_cases = recovery_cases,
};

kunit_test_suite(recovery_suite);
