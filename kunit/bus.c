// SPDX-License-Identifier: GPL-2.0
/*
 * The fake NIC on a PCI bus of its own, behind a host bridge that is there as long
 * as a NIC is plugged in. One NIC at a time.
 */

#include <linux/unaligned.h>

#include "bus.h"

struct fake_bus fake_bus = {
	.window = { .name = "fake NIC", .flags = IORESOURCE_MEM },
	.busn = { .name = "fake NIC", .flags = IORESOURCE_BUS },
};

static int bus_cfg_read(struct pci_bus *bus, unsigned int devfn, int where,
			int size, u32 *val)
{
	if (devfn) {
		PCI_SET_ERROR_RESPONSE(val);
		return PCIBIOS_DEVICE_NOT_FOUND;
	}
	*val = fake_cfg_read(fake_bus.nic, where, size);
	return PCIBIOS_SUCCESSFUL;
}

static int bus_cfg_write(struct pci_bus *bus, unsigned int devfn, int where,
			 int size, u32 val)
{
	if (devfn)
		return PCIBIOS_DEVICE_NOT_FOUND;
	fake_cfg_write(fake_bus.nic, where, size, val);
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops bus_ops = {
	.read = bus_cfg_read,
	.write = bus_cfg_write,
};

/**
 * fake_decode - which BAR an address hits
 * @addr: on the bus
 * @bar: set to its number
 * @offset: set to the offset in the BAR
 *
 * Decodes the address as the function's command and BAR registers are set.
 *
 * Return: whether a BAR is hit.
 */
bool fake_decode(u64 addr, int *bar, u32 *offset)
{
	const struct fake_nic *nic = fake_bus.nic;
	u64 base;
	u32 size, at;

	if (!nic || !(nic->cfg[PCI_COMMAND] & PCI_COMMAND_MEMORY))
		return false;
	for (*bar = MOOR_BAR_REGS; *bar <= MOOR_BAR_DB; *bar += 2) {
		at = PCI_BASE_ADDRESS_0 + 4 * *bar;
		base = get_unaligned_le64(nic->cfg + at) &
		       PCI_BASE_ADDRESS_MEM_MASK;
		size = -get_unaligned_le32(nic->cfg_writable + at);
		*offset = addr - base;
		if (addr - base < size)
			return true;
	}
	return false;
}

static int bus_create(void)
{
	LIST_HEAD(resources);

	pci_add_resource(&resources, &fake_bus.window);
	pci_add_resource(&resources, &fake_bus.busn);
	fake_bus.bus = pci_create_root_bus(NULL, fake_bus.busn.start, &bus_ops,
					   fake_bus.sysdata, &resources);
	if (fake_bus.bus)
		return 0;
	pci_free_resource_list(&resources);
	return -ENOMEM;
}

/**
 * fake_nic_plug - put the NIC on the bus, where the driver probes it
 * @nic: NIC
 */
void fake_nic_plug(struct fake_nic *nic)
{
	WRITE_ONCE(fake_bus.nic, nic);
	if (WARN_ON(fake_bus_prepare()))
		return;
	if (WARN_ON(bus_create())) {
		fake_bus_release();
		return;
	}
	fake_bus_connect();
	pci_lock_rescan_remove();
	pci_rescan_bus(fake_bus.bus);
	pci_unlock_rescan_remove();
}

/**
 * fake_nic_unplug - remove the driver, then take the NIC off the bus
 * @nic: NIC
 */
void fake_nic_unplug(struct fake_nic *nic)
{
	struct pci_host_bridge *bridge;

	if (!fake_bus.bus)
		return;
	bridge = to_pci_host_bridge(fake_bus.bus->bridge);
	pci_lock_rescan_remove();
	pci_stop_root_bus(fake_bus.bus);
	pci_remove_root_bus(fake_bus.bus);
	pci_unlock_rescan_remove();
	/* pci_create_root_bus() leaves the first reference to its caller. */
	pci_free_host_bridge(bridge);
	fake_bus.bus = NULL;
	if (atomic_read(&nic->mappings))
		fake_violation(nic, "a mapping of a BAR is left");
	WRITE_ONCE(fake_bus.nic, NULL);
	fake_bus_release();
}
