// SPDX-License-Identifier: GPL-2.0
/*
 * The fake NIC's bus on User-Mode Linux, where ioremap() and readl() end in
 * callbacks. Its messages use the interrupts of the PCI bus that User-Mode Linux
 * has itself, with which it shares a domain.
 */

#include <linux/logic_iomem.h>
#include <linux/unaligned.h>

#include "bus.h"

/* Neither memory nor User-Mode Linux's own bus is here. */
#define WINDOW_START	0xe0000000

/* The BAR that a mapping is part of: @priv of its accesses. */
static int mapped_bars[] = { 0, 1, 2, 3, 4 };

static unsigned long uml_read(void *bar, unsigned int offset, int size)
{
	return fake_bar_read(fake_bus.nic, *(int *)bar, offset, size);
}

static void uml_write(void *bar, unsigned int offset, int size, unsigned long val)
{
	fake_bar_write(fake_bus.nic, *(int *)bar, offset, size, val);
}

static void uml_set(void *bar, unsigned int offset, u8 value, int size)
{
	for (; size >= 8; size -= 8, offset += 8)
		uml_write(bar, offset, 8, value * 0x0101010101010101ULL);
}

static void uml_copy_from(void *bar, void *buffer, unsigned int offset, int size)
{
	for (; size >= 8; size -= 8, offset += 8, buffer += 8)
		put_unaligned(uml_read(bar, offset, 8), (u64 *)buffer);
}

static void uml_copy_to(void *bar, unsigned int offset, const void *buffer, int size)
{
	for (; size >= 8; size -= 8, offset += 8, buffer += 8)
		uml_write(bar, offset, 8, get_unaligned((u64 *)buffer));
}

static void uml_unmap(void *bar)
{
	atomic_dec(&fake_bus.nic->mappings);
}

static const struct logic_iomem_ops uml_ops = {
	.read = uml_read,
	.write = uml_write,
	.set = uml_set,
	.copy_from = uml_copy_from,
	.copy_to = uml_copy_to,
	.unmap = uml_unmap,
};

static long uml_map(unsigned long offset, size_t size,
		    const struct logic_iomem_ops **ops, void **priv)
{
	u32 start;
	int bar;

	if (WARN_ON(!fake_decode(WINDOW_START + offset, &bar, &start)))
		return -ENXIO;
	atomic_inc(&fake_bus.nic->mappings);
	*ops = &uml_ops;
	*priv = &mapped_bars[bar];
	return start;
}

static const struct logic_iomem_region_ops uml_region_ops = { .map = uml_map };

/* Registered for the first NIC and kept: a region cannot be unregistered. */
int fake_bus_prepare(void)
{
	if (fake_bus.window.start)
		return 0;
	fake_bus.window.start = WINDOW_START;
	fake_bus.window.end = WINDOW_START + BRIDGE_WINDOW - 1;
	fake_bus.busn.start = 1;
	fake_bus.busn.end = 1;
	return logic_iomem_add_region(&fake_bus.window, &uml_region_ops);
}

void fake_bus_connect(void)
{
}

void fake_bus_release(void)
{
}

/**
 * fake_nic_interrupt - deliver the interrupts that the NIC has raised
 * @nic: NIC
 *
 * There is one processor, and interrupts are off while a handler runs.
 */
void fake_nic_interrupt(struct fake_nic *nic)
{
	fake_nic_deliver(nic);
}
