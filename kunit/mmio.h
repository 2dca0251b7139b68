/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included before everything else where the architecture has no callbacks for
 * accesses to a device: the driver's accesses to its BARs end in mmio.c.
 */
#ifndef MOOR_KUNIT_MMIO_H
#define MOOR_KUNIT_MMIO_H

#include <linux/io.h>
#include <linux/pci.h>

void __iomem *fake_ioremap(resource_size_t addr, size_t size);
void __iomem *fake_pci_iomap(struct pci_dev *pdev, int bar, size_t size);
void fake_iounmap(void __iomem *addr);
u64 fake_read(const void __iomem *addr, int size);
void fake_write(void __iomem *addr, int size, u64 value);
void fake_copy_to(void __iomem *to, const void *from, size_t words);
void fake_set(void __iomem *to, u8 value, size_t bytes);

/* The kernel's functions take addresses with any qualifiers. */
#define fake_at(addr)				((void __iomem *)(addr))

#undef ioremap
#undef ioremap_wc
#undef iounmap
#undef pci_iomap
#undef pci_iounmap
#undef readl
#undef readq
#undef writel
#undef writeq
#undef __iowrite64_copy
#undef memset_io

#define ioremap(addr, size)			fake_ioremap(addr, size)
#define ioremap_wc(addr, size)			fake_ioremap(addr, size)
#define iounmap(addr)				fake_iounmap(addr)
#define pci_iomap(pdev, bar, size)		fake_pci_iomap(pdev, bar, size)
#define pci_iounmap(pdev, addr)		((void)(pdev), fake_iounmap(addr))
#define readl(addr)				((u32)fake_read(fake_at(addr), 4))
#define readq(addr)				fake_read(fake_at(addr), 8)
#define writel(value, addr)			fake_write(fake_at(addr), 4, value)
#define writeq(value, addr)			fake_write(fake_at(addr), 8, value)
#define __iowrite64_copy(to, from, words)	fake_copy_to(to, from, words)
#define memset_io(to, value, bytes)		fake_set(to, value, bytes)

#endif /* MOOR_KUNIT_MMIO_H */
