/* SPDX-License-Identifier: GPL-2.0 */
/* Access to the registers of BAR0 (HWI 4). */
#ifndef MOOR_REGS_H
#define MOOR_REGS_H

#include <linux/io.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <moor/moor_hw.h>

static inline u32 moor_read32(const void __iomem *regs, u32 offset)
{
	return readl(regs + offset);
}

static inline u64 moor_read64(const void __iomem *regs, u32 offset)
{
	return readq(regs + offset);
}

static inline void moor_write32(void __iomem *regs, u32 offset, u32 value)
{
	writel(value, regs + offset);
}

static inline void moor_write64(void __iomem *regs, u32 offset, u64 value)
{
	writeq(value, regs + offset);
}

/* What a register of a function that has left the bus reads as (HWI ERR-5). */
static inline bool moor_reads_as_gone(u32 status)
{
	return status == ~0U;
}

#endif /* MOOR_REGS_H */
