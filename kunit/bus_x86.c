// SPDX-License-Identifier: GPL-2.0
/*
 * The fake NIC's bus on x86: in a domain of its own, its memory window a hole in the
 * physical address space. The driver's accesses there end in mmio.c. What the PCI
 * core writes to the MSI-X table is lost in the hole, so the interrupt chip of the
 * bus writes it to the NIC.
 */

#include <linux/irq.h>
#include <linux/irq_work.h>
#include <linux/irqchip/irq-msi-lib.h>
#include <linux/irqdomain.h>
#include <linux/msi.h>

#include "bus.h"

#define BRIDGE_DOMAIN	0x10000	/* the first that no firmware names */

static struct pci_sysdata bridge_sysdata;
static struct irq_domain *bridge_msi_domain;

/* Runs in interrupt context, as a handler of a real device's message does. */
static void bridge_deliver(struct irq_work *work)
{
	struct fake_nic *nic = READ_ONCE(fake_bus.nic);

	if (nic)
		fake_nic_deliver(nic);
}

static DEFINE_IRQ_WORK(bridge_message, bridge_deliver);

/**
 * fake_nic_interrupt - deliver the interrupts that the NIC has raised
 * @nic: NIC
 */
void fake_nic_interrupt(struct fake_nic *nic)
{
	irq_work_queue(&bridge_message);
}

/* The NIC's entry for an interrupt: address, address, data, mask. */
static u32 *bridge_msix_entry(struct irq_data *data)
{
	return fake_bus.nic->msix[irq_data_get_msi_desc(data)->msi_index];
}

static void bridge_msix_write_msg(struct irq_data *data, struct msi_msg *msg)
{
	u32 *entry = bridge_msix_entry(data);

	entry[0] = msg->address_lo;
	entry[1] = msg->address_hi;
	entry[2] = msg->data;
}

static void bridge_msix_mask(struct irq_data *data)
{
	WRITE_ONCE(bridge_msix_entry(data)[3], PCI_MSIX_ENTRY_CTRL_MASKBIT);
}

/* An interrupt that was raised while its vector was masked comes now. */
static void bridge_msix_unmask(struct irq_data *data)
{
	WRITE_ONCE(bridge_msix_entry(data)[3], 0);
	irq_work_queue(&bridge_message);
}

static unsigned int bridge_msix_startup(struct irq_data *data)
{
	bridge_msix_unmask(data);
	return 0;
}

static void bridge_msix_ack(struct irq_data *data)
{
}

static bool bridge_init_dev_msi_info(struct device *dev, struct irq_domain *domain,
				     struct irq_domain *real_parent,
				     struct msi_domain_info *info)
{
	struct irq_chip *chip = info->chip;

	if (!msi_lib_init_dev_msi_info(dev, domain, real_parent, info))
		return false;
	chip->irq_write_msi_msg = bridge_msix_write_msg;
	chip->irq_startup = bridge_msix_startup;
	chip->irq_shutdown = bridge_msix_mask;
	chip->irq_mask = bridge_msix_mask;
	chip->irq_unmask = bridge_msix_unmask;
	chip->irq_ack = bridge_msix_ack;
	return true;
}

static const struct msi_parent_ops bridge_msi_parent_ops = {
	.required_flags = MSI_FLAG_USE_DEF_DOM_OPS | MSI_FLAG_USE_DEF_CHIP_OPS |
			  MSI_FLAG_NO_AFFINITY,
	.supported_flags = MSI_GENERIC_FLAGS_MASK | MSI_FLAG_PCI_MSIX,
	.bus_select_token = DOMAIN_BUS_NEXUS,
	.bus_select_mask = MATCH_PCI_MSI,
	.prefix = "fake-",
	.init_dev_msi_info = bridge_init_dev_msi_info,
};

/* As on User-Mode Linux's bus, a message carries the number of the interrupt. */
static void bridge_compose_msi_msg(struct irq_data *data, struct msi_msg *msg)
{
	msg->data = data->irq;
}

static struct irq_chip bridge_msi_chip = {
	.name = "fake NIC",
	.irq_compose_msi_msg = bridge_compose_msi_msg,
};

/* Edge-triggered: an interrupt that comes while its handler runs calls it once more. */
static int bridge_msi_alloc(struct irq_domain *domain, unsigned int virq,
			    unsigned int nr_irqs, void *args)
{
	const msi_alloc_info_t *info = args;

	irq_domain_set_info(domain, virq, info->desc->msi_index, &bridge_msi_chip,
			    NULL, handle_edge_irq, NULL, "edge");
	return 0;
}

static const struct irq_domain_ops bridge_msi_ops = {
	.alloc = bridge_msi_alloc,
};

static int bridge_msi_create(void)
{
	struct irq_domain_info info = {
		.ops = &bridge_msi_ops,
		.size = FAKE_VECTORS,
	};

	info.fwnode = irq_domain_alloc_named_fwnode("fake-nic");
	if (!info.fwnode)
		return -ENOMEM;
	bridge_msi_domain = msi_create_parent_irq_domain(&info, &bridge_msi_parent_ops);
	if (bridge_msi_domain)
		return 0;
	irq_domain_free_fwnode(info.fwnode);
	return -ENOMEM;
}

static void bridge_msi_destroy(void)
{
	struct fwnode_handle *fwnode = bridge_msi_domain->fwnode;

	irq_domain_remove(bridge_msi_domain);
	irq_domain_free_fwnode(fwnode);
}

static int bridge_domain_create(void)
{
	bridge_sysdata = (struct pci_sysdata){
		.domain = pci_bus_find_emul_domain_nr(0, BRIDGE_DOMAIN, INT_MAX),
		.node = NUMA_NO_NODE,
	};
	fake_bus.sysdata = &bridge_sysdata;
	return min(bridge_sysdata.domain, 0);
}

/* The window is a hole in the physical address space, above 4 GiB. */
int fake_bus_prepare(void)
{
	int err;

	err = allocate_resource(&iomem_resource, &fake_bus.window, BRIDGE_WINDOW,
				SZ_4G, iomem_resource.end, BRIDGE_WINDOW,
				NULL, NULL);
	if (err)
		return err;
	err = bridge_msi_create();
	if (err)
		goto release_window;
	err = bridge_domain_create();
	if (err)
		goto destroy_msi;
	return 0;

destroy_msi:
	bridge_msi_destroy();
release_window:
	release_resource(&fake_bus.window);
	return err;
}

void fake_bus_connect(void)
{
	dev_set_msi_domain(&fake_bus.bus->dev, bridge_msi_domain);
}

/* The NIC is off the bus: none of its messages is on its way afterwards. */
void fake_bus_release(void)
{
	irq_work_sync(&bridge_message);
	pci_bus_release_emul_domain_nr(bridge_sysdata.domain);
	bridge_msi_destroy();
	release_resource(&fake_bus.window);
}
