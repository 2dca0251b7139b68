// SPDX-License-Identifier: GPL-2.0
/*
 * Events of the function as a whole while it is in use: function-level reset, PCI
 * errors, shutdown, sleep, a death while no command is under way.
 */

#include <linux/delay.h>
#include <linux/pci.h>

#include "process.h"

static const struct pci_error_handlers *handlers(struct pci_dev *pdev)
{
	return pdev->driver->err_handler;
}

/* A reset from sysfs or vfio: the device goes and is probed again. */
static void reset_function(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct moor_process *process = moor_process_busy(test);
	struct pci_dev *pdev = mdev->pdev;
	int i;

	for (i = 0; i < 3; i++) {
		device_lock(&pdev->dev);
		handlers(pdev)->reset_prepare(pdev);
		KUNIT_EXPECT_NULL(test, moor_kunit_attached(test));
		KUNIT_EXPECT_EQ(test, nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER, 0);
		fake_nic_reset(nic);
		handlers(pdev)->reset_done(pdev);
		device_unlock(&pdev->dev);
		moor_kunit_expect_working(test);
	}
	moor_process_expect_cut_off(process);
}

/* A reset after which the NIC is none of Moor's: the driver has no device any more. */
static void reset_fails(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct pci_dev *pdev = mdev->pdev;

	device_lock(&pdev->dev);
	handlers(pdev)->reset_prepare(pdev);
	nic->magic = 0;
	handlers(pdev)->reset_done(pdev);
	KUNIT_EXPECT_NULL(test, moor_kunit_attached(test));
	/* Reset once more, without a device; the NIC is well again. */
	handlers(pdev)->reset_prepare(pdev);
	nic->magic = MOOR_MAGIC;
	handlers(pdev)->reset_done(pdev);
	device_unlock(&pdev->dev);
	moor_kunit_expect_working(test);
}

/* A frozen channel: the device goes at once, and comes back after the slot's reset. */
static void error_recovered(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct moor_process *process = moor_process_busy(test);
	struct pci_dev *pdev = mdev->pdev;
	u8 bars[6 * 4];
	u32 i;

	device_lock(&pdev->dev);
	KUNIT_EXPECT_EQ(test, handlers(pdev)->error_detected(pdev,
							     pci_channel_io_normal),
			PCI_ERS_RESULT_CAN_RECOVER);
	KUNIT_EXPECT_PTR_EQ(test, moor_kunit_attached(test), mdev);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(mdev));

	pdev->error_state = pci_channel_io_frozen;
	nic->behave.frozen = true;
	KUNIT_EXPECT_EQ(test, handlers(pdev)->error_detected(pdev,
							     pci_channel_io_frozen),
			PCI_ERS_RESULT_NEED_RESET);
	KUNIT_EXPECT_NULL(test, moor_kunit_attached(test));
	KUNIT_EXPECT_EQ(test, nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER, 0);
	/* A reset of the slot clears the writable bits of the BARs. */
	memcpy(bars, nic->cfg + PCI_BASE_ADDRESS_0, sizeof(bars));
	for (i = 0; i < sizeof(bars); i++)
		nic->cfg[PCI_BASE_ADDRESS_0 + i] &=
			~nic->cfg_writable[PCI_BASE_ADDRESS_0 + i];
	fake_nic_reset(nic);
	pdev->error_state = pci_channel_io_normal;
	nic->behave.frozen = false;
	KUNIT_EXPECT_EQ(test, handlers(pdev)->slot_reset(pdev),
			PCI_ERS_RESULT_RECOVERED);
	KUNIT_EXPECT_MEMEQ(test, nic->cfg + PCI_BASE_ADDRESS_0, bars, sizeof(bars));
	handlers(pdev)->resume(pdev);
	device_unlock(&pdev->dev);
	moor_kunit_expect_working(test);
	/* A second resume changes nothing. */
	mdev = test->priv;
	handlers(pdev)->resume(pdev);
	KUNIT_EXPECT_PTR_EQ(test, moor_kunit_attached(test), mdev);
	moor_process_expect_cut_off(process);
}

/*
 * The device was to go on after an error, but another function's driver has asked for a
 * reset of the slot, which resets this one as well (Linux 7.3) or does not (6.12).
 */
static void error_of_another(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_process *process = moor_process_busy(test);
	struct pci_dev *pdev = ((struct moor_dev *)test->priv)->pdev;
	int resets;

	for (resets = 0; resets < 2; resets++) {
		device_lock(&pdev->dev);
		KUNIT_EXPECT_EQ(test, handlers(pdev)->error_detected(pdev,
								     pci_channel_io_normal),
				PCI_ERS_RESULT_CAN_RECOVER);
		if (resets)
			fake_nic_reset(nic);
		KUNIT_EXPECT_EQ(test, handlers(pdev)->slot_reset(pdev),
				PCI_ERS_RESULT_RECOVERED);
		KUNIT_EXPECT_NULL(test, moor_kunit_attached(test));
		handlers(pdev)->resume(pdev);
		device_unlock(&pdev->dev);
		KUNIT_EXPECT_NE(test, nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER, 0);
		moor_kunit_expect_working(test);
	}
	moor_process_expect_cut_off(process);
}

static void error_final(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct pci_dev *pdev = mdev->pdev;

	device_lock(&pdev->dev);
	KUNIT_EXPECT_EQ(test, handlers(pdev)->error_detected(pdev,
							     pci_channel_io_perm_failure),
			PCI_ERS_RESULT_DISCONNECT);
	KUNIT_EXPECT_NULL(test, moor_kunit_attached(test));
	/* The core reports the failure once more. */
	KUNIT_EXPECT_EQ(test, handlers(pdev)->error_detected(pdev,
							     pci_channel_io_perm_failure),
			PCI_ERS_RESULT_DISCONNECT);
	/* The function may answer again, but the core has given it up. */
	pdev->error_state = pci_channel_io_perm_failure;
	handlers(pdev)->reset_prepare(pdev);
	fake_nic_reset(nic);
	handlers(pdev)->reset_done(pdev);
	KUNIT_EXPECT_NULL(test, moor_kunit_attached(test));
	pdev->error_state = pci_channel_io_normal;
	nic->version = 0;
	handlers(pdev)->resume(pdev);
	device_unlock(&pdev->dev);
	KUNIT_EXPECT_NULL(test, moor_kunit_attached(test));
}

/* Another kernel takes over: no DMA, even if MRs are still registered. */
static void shutdown_stops_dma(struct kunit *test)
{
	struct moor_region *region = moor_region_new(test, ALL_RIGHTS);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct pci_dev *pdev = mdev->pdev;

	KUNIT_EXPECT_TRUE(test, netif_carrier_ok(mdev->netdev));
	pdev->driver->shutdown(pdev);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(mdev));
	KUNIT_EXPECT_EQ(test, nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER, 0);
	KUNIT_EXPECT_EQ(test, nic->status & MOOR_STATUS_ENABLED, 0);
	KUNIT_EXPECT_FALSE(test, netif_carrier_ok(mdev->netdev));
	pdev->driver->shutdown(pdev);
	moor_region_free(test, region);
}

/*
 * The function may lose its state in sleep, so processes lose the device before; after
 * resuming there is a new device.
 */
static void sleep_resumed(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct moor_process *process = moor_process_busy(test);
	struct pci_dev *pdev = mdev->pdev;
	const struct dev_pm_ops *pm = pdev->driver->driver.pm;
	struct net_device *netdev = mdev->netdev;
	int i;

	for (i = 0; i < 2; i++) {
		device_lock(&pdev->dev);
		KUNIT_EXPECT_EQ(test, pm->suspend(&pdev->dev), 0);
		KUNIT_EXPECT_FALSE(test, netif_carrier_ok(netdev));
		KUNIT_EXPECT_NULL(test, moor_kunit_attached(test));
		KUNIT_EXPECT_EQ(test, nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER, 0);
		KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
		fake_nic_reset(nic);
		KUNIT_EXPECT_EQ(test, pm->resume(&pdev->dev), 0);
		KUNIT_EXPECT_TRUE(test, netif_carrier_ok(netdev));
		device_unlock(&pdev->dev);
		moor_kunit_expect_working(test);
	}
	moor_process_expect_cut_off(process);
}

/* The NIC wakes up as an unknown device; after another sleep it is well again. */
static void sleep_not_resumed(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct pci_dev *pdev = mdev->pdev;
	const struct dev_pm_ops *pm = pdev->driver->driver.pm;

	device_lock(&pdev->dev);
	KUNIT_EXPECT_EQ(test, pm->freeze(&pdev->dev), 0);
	nic->magic = 0;
	KUNIT_EXPECT_EQ(test, pm->thaw(&pdev->dev), -ENODEV);
	KUNIT_EXPECT_NULL(test, moor_kunit_attached(test));
	KUNIT_EXPECT_EQ(test, pm->poweroff(&pdev->dev), 0);
	nic->magic = MOOR_MAGIC;
	KUNIT_EXPECT_EQ(test, pm->restore(&pdev->dev), 0);
	device_unlock(&pdev->dev);
	moor_kunit_expect_working(test);
}

/*
 * The system goes to sleep while a PCI error is being handled: the handlers that come late
 * leave the function alone, which only waking up starts again.
 */
static void sleep_during_error(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct pci_dev *pdev = ((struct moor_dev *)test->priv)->pdev;
	const struct dev_pm_ops *pm = pdev->driver->driver.pm;
	int frozen;

	for (frozen = 0; frozen < 2; frozen++) {
		device_lock(&pdev->dev);
		handlers(pdev)->error_detected(pdev, frozen ? pci_channel_io_frozen :
							      pci_channel_io_normal);
		KUNIT_EXPECT_EQ(test, pm->suspend(&pdev->dev), 0);
		handlers(pdev)->slot_reset(pdev);
		handlers(pdev)->resume(pdev);
		handlers(pdev)->reset_prepare(pdev);
		handlers(pdev)->reset_done(pdev);
		KUNIT_EXPECT_NULL(test, moor_kunit_attached(test));
		KUNIT_EXPECT_EQ(test, nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER, 0);
		fake_nic_reset(nic);
		KUNIT_EXPECT_EQ(test, pm->resume(&pdev->dev), 0);
		handlers(pdev)->reset_prepare(pdev);
		fake_nic_reset(nic);
		handlers(pdev)->reset_done(pdev);
		device_unlock(&pdev->dev);
		moor_kunit_expect_working(test);
	}
}

/* The device dies while no command is under way; the driver looks now and then. */
static void health_seen(struct kunit *test)
{
	struct moor_region *region = moor_region_new(test, ALL_RIGHTS);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;

	/* Time for several looks at a healthy device. */
	msleep(9000);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(mdev));
	WRITE_ONCE(nic->status, nic->status | MOOR_STATUS_FATAL);
	moor_kunit_wait(test, moor_is_dead(mdev));
	KUNIT_EXPECT_EQ(test, nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER, 0);
	moor_region_free(test, region);
}

/* Nothing looks at a NIC that has been let go. */
static void stop_ends_work(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;

	get_device(&mdev->ibdev.dev);
	KUNIT_EXPECT_TRUE(test, delayed_work_pending(&mdev->health_work));
	fake_nic_unplug(moor_kunit_nic());
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&mdev->health_work));
	KUNIT_EXPECT_FALSE(test, work_busy(&mdev->health_work.work));
	put_device(&mdev->ibdev.dev);
	fake_nic_plug(moor_kunit_nic());
	moor_kunit_expect_working(test);
}

/* The device refuses to destroy an EQ: it is stopped before the ring goes. */
static void remove_refused(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();

	nic->behave.fail_opcode = MOOR_CMD_DESTROY_EQ;
	nic->behave.fail_status = MOOR_CMD_BUSY;
	fake_nic_unplug(nic);
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_DESTROY_EQ], 1);
	nic->behave.fail_status = 0;
	fake_nic_plug(nic);
	moor_kunit_expect_working(test);
}

/* The driver waits until no transaction is pending, as long as PCIe allows. */
static void reset_pending(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	u8 *pending = moor_kunit_nic()->cfg + mdev->pdev->pcie_cap + PCI_EXP_DEVSTA;
	ktime_t begun = ktime_get();

	*pending |= PCI_EXP_DEVSTA_TRPND;
	mdev = moor_kunit_replug(test, 0);
	KUNIT_EXPECT_GE(test, ktime_ms_delta(ktime_get(), begun), 4000);
	begun = ktime_get();
	moor_hw_kill(mdev, NULL);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(mdev));
	KUNIT_EXPECT_GE(test, ktime_ms_delta(ktime_get(), begun), 4000);
	*pending &= ~PCI_EXP_DEVSTA_TRPND;
}

static struct kunit_case reset_cases[] = {
	KUNIT_CASE(reset_pending),
	KUNIT_CASE(reset_function),
	KUNIT_CASE(reset_fails),
	KUNIT_CASE(error_recovered),
	KUNIT_CASE(error_of_another),
	KUNIT_CASE(error_final),
	KUNIT_CASE(shutdown_stops_dma),
	KUNIT_CASE(sleep_resumed),
	KUNIT_CASE(sleep_not_resumed),
	KUNIT_CASE(sleep_during_error),
	KUNIT_CASE(health_seen),
	KUNIT_CASE(stop_ends_work),
	KUNIT_CASE(remove_refused),
	{}
};

static struct kunit_suite reset_suite = {
	.name = "moor_reset",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = reset_cases,
};

kunit_test_suite(reset_suite);
