// SPDX-License-Identifier: GPL-2.0
/*
 * The fake NIC on User-Mode Linux's PCI bus, where ioremap() and readl() end in
 * callbacks. One NIC at a time.
 */

#include <linux/irq.h>
#include <linux/pci.h>
#include <linux/unaligned.h>
#include <virt-pci.h>

#include "fake.h"

static struct fake_nic *plugged;

static unsigned long uml_cfg_read(struct um_pci_device *pci, unsigned int offset,
				  int size)
{
	return fake_cfg_read(plugged, offset, size);
}

static void uml_cfg_write(struct um_pci_device *pci, unsigned int offset,
			  int size, unsigned long val)
{
	fake_cfg_write(plugged, offset, size, val);
}

static unsigned long uml_bar_read(struct um_pci_device *pci, int bar,
				  unsigned int offset, int size)
{
	return fake_bar_read(plugged, bar, offset, size);
}

static void uml_bar_write(struct um_pci_device *pci, int bar,
			  unsigned int offset, int size, unsigned long val)
{
	fake_bar_write(plugged, bar, offset, size, val);
}

static void uml_bar_copy_from(struct um_pci_device *pci, int bar, void *buffer,
			      unsigned int offset, int size)
{
	for (; size >= 8; size -= 8, offset += 8, buffer += 8)
		put_unaligned(fake_bar_read(plugged, bar, offset, 8),
			      (u64 *)buffer);
}

static void uml_bar_copy_to(struct um_pci_device *pci, int bar,
			    unsigned int offset, const void *buffer, int size)
{
	for (; size >= 8; size -= 8, offset += 8, buffer += 8)
		fake_bar_write(plugged, bar, offset, 8,
			       get_unaligned((u64 *)buffer));
}

static void uml_bar_set(struct um_pci_device *pci, int bar, unsigned int offset,
			u8 value, int size)
{
	for (; size >= 8; size -= 8, offset += 8)
		fake_bar_write(plugged, bar, offset, 8,
			       value * 0x0101010101010101ULL);
}

static const struct um_pci_ops uml_ops = {
	.cfgspace_read = uml_cfg_read,
	.cfgspace_write = uml_cfg_write,
	.bar_read = uml_bar_read,
	.bar_write = uml_bar_write,
	.bar_copy_from = uml_bar_copy_from,
	.bar_copy_to = uml_bar_copy_to,
	.bar_set = uml_bar_set,
};

static struct um_pci_device function = { .ops = &uml_ops };

/**
 * fake_nic_plug - put the NIC on the bus: its driver probes it
 * @nic: NIC
 */
void fake_nic_plug(struct fake_nic *nic)
{
	plugged = nic;
	WARN_ON(um_pci_device_register(&function));
}

/**
 * fake_nic_unplug - take it off the bus, its driver first
 * @nic: NIC
 */
void fake_nic_unplug(struct fake_nic *nic)
{
	struct pci_dev *pdev = pci_get_device(MOOR_PCI_VENDOR_ID,
					      MOOR_PCI_DEVICE_ID, NULL);

	/* The bus forgets the function before its driver: let that go now. */
	if (pdev)
		pci_stop_and_remove_bus_device_locked(pdev);
	pci_dev_put(pdev);
	um_pci_device_unregister(&function);
}

/**
 * fake_nic_interrupt - carry out what the NIC has raised
 * @nic: NIC
 *
 * There is one processor, and interrupts are off while a handler runs.
 */
void fake_nic_interrupt(struct fake_nic *nic)
{
	fake_nic_deliver(nic);
}
