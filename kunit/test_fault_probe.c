// SPDX-License-Identifier: GPL-2.0
/*
 * From probe to remove with every allocation failing in turn, the core's own
 * included, and with every CREATE_EQ refused: the device is left alone, nothing is
 * kept, and the next probe takes the device.
 */

#include <linux/fault-inject.h>
#include <linux/pci.h>

#include "compat.h"
#include "harness.h"

#define MOST_POINTS	5000

/* Every allocation; fewer where time is real and the kernel ten times as slow. */
#define STEP		(IS_ENABLED(CONFIG_UML) ? 1 : 8)
#define LEAST_FAILED	(100 / STEP)

/* The NIC's function, with no driver bound to it. */
static struct pci_dev *function_open(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct pci_dev *pdev = pci_dev_get(mdev->pdev);

	device_release_driver(&pdev->dev);
	KUNIT_EXPECT_NULL(test, pci_get_drvdata(pdev));
	return pdev;
}

static void function_close(struct kunit *test, struct pci_dev *pdev)
{
	KUNIT_EXPECT_EQ(test, device_attach(&pdev->dev), 1);
	KUNIT_EXPECT_NOT_NULL(test, pci_get_drvdata(pdev));
	pci_dev_put(pdev);
}

/*
 * The kernel checks, too: its DMA debugging for mappings that a driver leaves when it
 * is unbound, and the driver core for resources of an earlier driver.
 */
static void expect_alone(struct kunit *test, struct pci_dev *pdev)
{
	struct fake_nic *nic = moor_kunit_nic();

	KUNIT_EXPECT_NULL(test, pci_get_drvdata(pdev));
	KUNIT_EXPECT_FALSE(test, pci_is_enabled(pdev));
	KUNIT_EXPECT_EQ(test, nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER, 0);
	KUNIT_EXPECT_EQ(test, nic->violations, 0);
}

/*
 * A file of /proc/irq that could not be made does no harm, but the kernel warns when it
 * is to be removed: once at most, and only if an allocation has failed.
 */
static void release_after_failure(struct kunit *test, struct pci_dev *pdev,
				  bool failed)
{
	struct kunit_suppressed_warning *missed;

	missed = kunit_start_suppress_warning(test);
	device_release_driver(&pdev->dev);
	kunit_end_suppress_warning(test, missed);
	KUNIT_EXPECT_LE(test, kunit_suppressed_warning_count(missed), failed);
}

static void fault_probe(struct kunit *test)
{
	struct pci_dev *pdev = function_open(test);
	u32 nth, failed = 0, bound = 0;
	bool reached;
	int err;

	for (nth = 1; nth < MOST_POINTS; nth += STEP) {
		current->fail_nth = nth;
		err = device_attach(&pdev->dev);
		reached = !current->fail_nth;
		current->fail_nth = 0;
		/* Some failures do no harm. */
		bound += err == 1;
		KUNIT_EXPECT_EQ(test, !pci_get_drvdata(pdev), err != 1);
		release_after_failure(test, pdev, reached);
		expect_alone(test, pdev);
		if (!reached)
			break;
		failed++;
	}
	KUNIT_EXPECT_EQ(test, err, 1);
	kunit_info(test, "%u allocations failed in turn, %u of them without harm\n",
		   failed, bound - 1);
	KUNIT_EXPECT_GE(test, failed, LEAST_FAILED);
	KUNIT_EXPECT_GE(test, failed - bound, LEAST_FAILED);
	KUNIT_EXPECT_LT(test, nth, MOST_POINTS);
	function_close(test, pdev);
}

/* Removing cannot fail, whatever is allocated on the way. */
static void fault_remove(struct kunit *test)
{
	struct pci_dev *pdev = function_open(test);
	u32 nth, failed = 0;
	bool reached;

	for (nth = 1; nth < MOST_POINTS; nth += STEP) {
		KUNIT_ASSERT_EQ(test, device_attach(&pdev->dev), 1);
		current->fail_nth = nth;
		device_release_driver(&pdev->dev);
		reached = !current->fail_nth;
		current->fail_nth = 0;
		expect_alone(test, pdev);
		if (!reached)
			break;
		failed++;
	}
	kunit_info(test, "%u allocations failed in turn\n", failed);
	KUNIT_EXPECT_LT(test, nth, MOST_POINTS);
	function_close(test, pdev);
}

/* The first CREATE_EQ is refused, then the second. */
static void fault_command(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct pci_dev *pdev = function_open(test);
	u32 kept;

	nic->behave.fail_opcode = MOOR_CMD_CREATE_EQ;
	nic->behave.fail_status = MOOR_CMD_NO_RESOURCE;
	for (kept = 0; kept < 2; kept++) {
		nic->behave.fail_after = kept;
		KUNIT_EXPECT_NE(test, device_attach(&pdev->dev), 1);
		expect_alone(test, pdev);
		KUNIT_EXPECT_EQ(test, nic->behave.fail_after, 0);
	}
	nic->behave.fail_status = 0;
	function_close(test, pdev);
}

/* A device that rejects its set-up, and a device that is gone at that moment. */
static void fault_enable(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct pci_dev *pdev = function_open(test);

	nic->behave.no_enable = true;
	KUNIT_EXPECT_NE(test, device_attach(&pdev->dev), 1);
	expect_alone(test, pdev);
	/* The device has been reset, and has forgotten its rings (HWI CTL-25). */
	KUNIT_EXPECT_EQ(test, nic->ring_cmd, 0);
	nic->behave.no_enable = false;
	nic->status = ~0U;
	KUNIT_EXPECT_NE(test, device_attach(&pdev->dev), 1);
	expect_alone(test, pdev);
	fake_nic_reset(nic);
	function_close(test, pdev);
}

static struct kunit_case fault_probe_cases[] = {
	KUNIT_CASE_SLOW(fault_probe),
	KUNIT_CASE_SLOW(fault_remove),
	KUNIT_CASE(fault_command),
	KUNIT_CASE(fault_enable),
	{}
};

static struct kunit_suite fault_probe_suite = {
	.name = "moor_fault_probe",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = fault_probe_cases,
};

kunit_test_suite(fault_probe_suite);
