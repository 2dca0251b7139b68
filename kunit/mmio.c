// SPDX-License-Identifier: GPL-2.0
/*
 * Accesses to the fake NIC's BARs, where the architecture has no callbacks for them:
 * mmio.h puts these functions in place of the kernel's in the driver's objects. A
 * mapping is the address on the bus itself, which only these functions can access.
 */

#include <linux/unaligned.h>

#include "bus.h"

/**
 * fake_ioremap - map part of a BAR
 * @addr: on the bus
 * @size: bytes
 *
 * Return: the mapping, for fake_iounmap(), or NULL if there is no BAR.
 */
void __iomem *fake_ioremap(resource_size_t addr, size_t size)
{
	u32 offset;
	int bar;

	if (WARN_ON(!fake_decode(addr, &bar, &offset)))
		return NULL;
	atomic_inc(&fake_bus.nic->mappings);
	return (void __iomem *)addr;
}

void __iomem *fake_pci_iomap(struct pci_dev *pdev, int bar, size_t size)
{
	return fake_ioremap(pci_resource_start(pdev, bar), size);
}

void fake_iounmap(void __iomem *addr)
{
	atomic_dec(&fake_bus.nic->mappings);
}

/**
 * fake_read - read from a BAR
 * @addr: mapped
 * @size: bytes
 *
 * Return: the value, or all ones if there is no BAR.
 */
u64 fake_read(const void __iomem *addr, int size)
{
	u32 offset;
	int bar;

	if (WARN_ON(!fake_decode((__force u64)addr, &bar, &offset)))
		return U64_MAX;
	return fake_bar_read(fake_bus.nic, bar, offset, size);
}

/**
 * fake_write - write to a BAR
 * @addr: mapped
 * @size: bytes
 * @value: value
 */
void fake_write(void __iomem *addr, int size, u64 value)
{
	u32 offset;
	int bar;

	if (!WARN_ON(!fake_decode((__force u64)addr, &bar, &offset)))
		fake_bar_write(fake_bus.nic, bar, offset, size, value);
}

void fake_copy_to(void __iomem *to, const void *from, size_t words)
{
	for (; words; words--, to += 8, from += 8)
		fake_write(to, 8, get_unaligned((u64 *)from));
}

void fake_set(void __iomem *to, u8 value, size_t bytes)
{
	for (; bytes >= 8; bytes -= 8, to += 8)
		fake_write(to, 8, value * 0x0101010101010101ULL);
}
