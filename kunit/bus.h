/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The PCI bus that the fake NIC is plugged into, and what each architecture does
 * for it in its own way: bus_uml.c, bus_x86.c.
 */
#ifndef MOOR_KUNIT_BUS_H
#define MOOR_KUNIT_BUS_H

#include <linux/pci.h>
#include <linux/sizes.h>

#include "fake.h"

#define BRIDGE_WINDOW	SZ_16M

/**
 * struct fake_bus - a root bus for one NIC
 * @nic: plugged in, or NULL
 * @bus: of the PCI core, while there is one
 * @window: bus addresses of the NIC's BARs
 * @busn: number of the bus, as a resource
 * @sysdata: the architecture's data of a root bus
 */
struct fake_bus {
	struct fake_nic *nic;
	struct pci_bus *bus;
	struct resource window;
	struct resource busn;
	void *sysdata;
};

extern struct fake_bus fake_bus;

bool fake_decode(u64 addr, int *bar, u32 *offset);

int fake_bus_prepare(void);
void fake_bus_connect(void);
void fake_bus_release(void);

#endif /* MOOR_KUNIT_BUS_H */
