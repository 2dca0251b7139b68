// SPDX-License-Identifier: GPL-2.0
/*
 * Where there is no bus to simulate a PCI function on. What a NIC does when it is
 * looked at, and DMA and interrupts of its own, take one that calls back for each
 * access, as User-Mode Linux's does.
 */

#include "fake.h"

void *fake_dma(u64 addr)
{
	return phys_to_virt(addr);
}

/* No case goes on behind it, so that none gets to what follows here. */
struct fake_nic *fake_nic_new(struct kunit *test)
{
	kunit_skip(test, "needs a NIC, and this architecture has no simulated PCI bus");
}

void fake_nic_plug(struct fake_nic *nic)
{
}

void fake_nic_unplug(struct fake_nic *nic)
{
}

void fake_nic_free(struct fake_nic *nic)
{
}

struct moor_dev *fake_nic_driver(struct fake_nic *nic)
{
	return NULL;
}
