// SPDX-License-Identifier: GPL-2.0
/*
 * A NIC with its driver for a whole suite, and after each case a look at what
 * the case left behind.
 */

#include <linux/module.h>

#include "fake.h"
#include "moor.h"

static struct fake_nic *nic;

struct fake_nic *moor_kunit_nic(void)
{
	return nic;
}

/**
 * moor_kunit_init - plug a NIC in before a case; its driver has probed it
 * @test: case
 *
 * Return: 0; it asserts
 */
int moor_kunit_init(struct kunit *test)
{
	nic = fake_nic_new(test);
	fake_nic_plug(nic);
	test->priv = fake_nic_driver(nic);
	if (!test->priv) {
		fake_nic_unplug(nic);
		fake_nic_free(nic);
		nic = NULL;
	}
	KUNIT_ASSERT_NOT_NULL_MSG(test, test->priv, "the driver did not probe");
	return 0;
}

/**
 * moor_kunit_exit - unplug the NIC after a case
 * @test: case
 *
 * Checks that nothing of it is left in the device.
 */
void moor_kunit_exit(struct kunit *test)
{
	u32 index;

	if (!nic)
		return;
	fake_nic_unplug(nic);
	for (index = 0; index < 1U << FAKE_MR_INDEX_BITS; index++)
		if (nic->mr[index].valid)
			break;
	KUNIT_EXPECT_EQ_MSG(test, index, 1U << FAKE_MR_INDEX_BITS,
			    "an entry of the context table stayed valid");
	KUNIT_EXPECT_EQ_MSG(test, nic->violations, 0,
			    "the driver broke the interface: %s",
			    nic->violation);
	KUNIT_EXPECT_EQ(test, nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER, 0);
	fake_nic_free(nic);
	nic = NULL;
}

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");
