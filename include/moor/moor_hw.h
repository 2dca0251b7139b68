/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Moor hardware interface: PCI identity, BARs, registers and doorbells.
 *
 * Shared by the NIC model, the kernel driver and the libibverbs provider. The
 * normative text is Documentation/hardware-interface.rst; in a comment "HWI n.m"
 * names its section and "HWI AB-n" its rule. Everything multi-byte is
 * little-endian.
 */
#ifndef MOOR_HW_H
#define MOOR_HW_H

#include <linux/types.h>

/* Bits h..l of a 64-bit word; usable with the kernel's FIELD_GET()/FIELD_PREP(). */
#define MOOR_MASK(h, l)	((~0ULL >> (63 - (h))) & (~0ULL << (l)))
#define MOOR_BIT(n)	(1ULL << (n))

/* HWI VER-6: version of the interface. Another major number is another interface. */
#define MOOR_HW_VERSION_MAJOR	1
#define MOOR_HW_VERSION_MINOR	6

/* HWI PCI-1: identity (the range 1af4:10f0-10ff is free for experiments). */
#define MOOR_PCI_VENDOR_ID	0x1af4
#define MOOR_PCI_DEVICE_ID	0x10f0
#define MOOR_PCI_REVISION	0x01
#define MOOR_PCI_CLASS		0x020000

/* HWI BAR-1: BARs. */
#define MOOR_BAR_REGS		0	/* registers, MSI-X */
#define MOOR_BAR_MR		2	/* MR context table, written by the driver alone */
#define MOOR_BAR_DB		4	/* doorbell pages, kick pages, on-NIC memory */

#define MOOR_BAR_REGS_SIZE	0x10000
#define MOOR_MSIX_TABLE_OFFSET	0x8000
#define MOOR_MSIX_PBA_OFFSET	0xc000
#define MOOR_PAGE_SIZE		4096

/* HWI REG-4: registers in BAR0. "64" marks an eight-byte register. */
#define MOOR_REG_MAGIC			0x000
#define MOOR_REG_VERSION		0x004
#define MOOR_REG_STATUS			0x008
#define MOOR_REG_CONTROL		0x00c
#define MOOR_REG_FEATURES		0x010	/* 64 */
#define MOOR_REG_PAGE_SIZES		0x018	/* 64: bit n set: pages of 2^n bytes */
#define MOOR_REG_NODE_GUID		0x020	/* 64 */
#define MOOR_REG_MAC			0x028	/* 64: byte 0 of the address in bits 7:0 */
#define MOOR_REG_MR_INDEX_BITS		0x030
#define MOOR_REG_MR_CONSUMER_FIRST	0x034
#define MOOR_REG_NULL_LKEY		0x038
#define MOOR_REG_MAX_MSG_SIZE		0x03c
#define MOOR_REG_QP_INDEX_BITS		0x040
#define MOOR_REG_MAX_CQ			0x044
#define MOOR_REG_MAX_EQ			0x048
#define MOOR_REG_MAX_LOG_WQE		0x04c
#define MOOR_REG_MAX_SGE		0x050
#define MOOR_REG_MAX_INLINE		0x054
#define MOOR_REG_MAX_LOG_CQE		0x058
#define MOOR_REG_MAX_GID		0x05c
#define MOOR_REG_MAX_RD_ATOMIC		0x060
#define MOOR_REG_MAX_LOG_CMD		0x064
#define MOOR_REG_MAX_LOG_EQE		0x068
#define MOOR_REG_NUM_VECTORS		0x06c
#define MOOR_REG_MAX_MR_SIZE		0x070	/* 64 */
#define MOOR_REG_DB_PAGES		0x078
#define MOOR_REG_KICK_OFFSET		0x07c	/* of the kick pages in BAR4, bytes */
#define MOOR_REG_DM_OFFSET		0x080	/* 64: of on-NIC memory in BAR4, bytes */
#define MOOR_REG_DM_SIZE		0x088	/* 64: bytes */
#define MOOR_REG_SRQ_INDEX_BITS		0x090	/* feature SRQ, else 0 */
#define MOOR_REG_MAX_FILTER		0x094	/* feature UD, else 0 */
#define MOOR_REG_CMD_BASE		0x100	/* 64: command ring, DMA address */
#define MOOR_REG_CPL_BASE		0x108	/* 64: command completion ring */
#define MOOR_REG_CMD_LOG_SIZE		0x110	/* entries of both, log2 */
#define MOOR_REG_DOZE_ADDR		0x118	/* 64: the dozing word, DMA address */
#define MOOR_REG_FENCE			0x180
#define MOOR_REG_CLOCK			0x188	/* 64: ns, free-running */
#define MOOR_REG_FATAL_CODE		0x190

#define MOOR_MAGIC			0x524f4f4d	/* "MOOR" in memory order */

#define MOOR_VERSION_MAJOR		MOOR_MASK(31, 16)
#define MOOR_VERSION_MINOR		MOOR_MASK(15, 0)

#define MOOR_STATUS_READY		MOOR_BIT(0)	/* reset is over */
#define MOOR_STATUS_ENABLED		MOOR_BIT(1)
#define MOOR_STATUS_FATAL		MOOR_BIT(2)	/* see MOOR_REG_FATAL_CODE */
#define MOOR_STATUS_LINK_UP		MOOR_BIT(3)

#define MOOR_CONTROL_ENABLE		MOOR_BIT(0)
#define MOOR_CONTROL_RESET		MOOR_BIT(1)

#define MOOR_FEATURE_DOZES		MOOR_BIT(0)	/* needs kicks, HWI DB-13 */
#define MOOR_FEATURE_ATOMICS		MOOR_BIT(1)
#define MOOR_FEATURE_MW_TYPE_1		MOOR_BIT(2)
#define MOOR_FEATURE_MW_TYPE_2B		MOOR_BIT(3)
#define MOOR_FEATURE_FAST_REG		MOOR_BIT(4)
#define MOOR_FEATURE_ODP		MOOR_BIT(5)
#define MOOR_FEATURE_SG_GAPS		MOOR_BIT(6)	/* reserved (HWI RSV-1) */
#define MOOR_FEATURE_DM			MOOR_BIT(7)
#define MOOR_FEATURE_RELAXED_ORDERING	MOOR_BIT(8)
#define MOOR_FEATURE_UC			MOOR_BIT(9)
#define MOOR_FEATURE_CQ_MODERATION	MOOR_BIT(10)
#define MOOR_FEATURE_SRQ		MOOR_BIT(11)
#define MOOR_FEATURE_UD			MOOR_BIT(12)
#define MOOR_FEATURE_XRC		MOOR_BIT(13)
#define MOOR_FEATURE_ATOMIC_WRITE	MOOR_BIT(14)
#define MOOR_FEATURE_FLUSH_GLOBAL	MOOR_BIT(15)
#define MOOR_FEATURE_FLUSH_PERSISTENT	MOOR_BIT(16)

enum moor_fatal_code {
	MOOR_FATAL_NONE			= 0,
	MOOR_FATAL_BAD_SETUP		= 1,	/* ENABLE with bad ring registers */
	MOOR_FATAL_CMD_RING		= 2,	/* producer index more than a ring ahead */
	MOOR_FATAL_DMA			= 3,	/* a ring or the dozing word is unreachable */
	MOOR_FATAL_INJECTED		= 4,
};

/*
 * HWI 5: doorbells. A doorbell page holds 512 slots of eight bytes, each of
 * them memory that keeps the last value written; the kick page that goes with
 * it has the same layout and is written to only while the dozing word is set.
 */
#define MOOR_DB_SLOT_SIZE		8
#define MOOR_DB_SLOTS_PER_PAGE		(MOOR_PAGE_SIZE / MOOR_DB_SLOT_SIZE)

/* Page 0 is the driver's. Its first slots are fixed. */
#define MOOR_DB_SLOT_CMD_PRODUCER	0	/* command ring producer index */
#define MOOR_DB_SLOT_CPL_ARM		1	/* a change asks for an interrupt */
#define MOOR_DB_SLOT_EQ_CONSUMER	8	/* + EQ number: consumer index */
#define MOOR_DB_SLOT_KERNEL_FIRST	128	/* first one for kernel queues */

/* A slot of a send or (shared) receive queue: producer index, free-running. */
#define MOOR_DB_QUEUE_PRODUCER		MOOR_MASK(31, 0)

/* A slot of a CQ. What an arm asks for, and until when: HWI CQ-11. */
#define MOOR_DB_CQ_CONSUMER		MOOR_MASK(31, 0)
#define MOOR_DB_CQ_ARM			MOOR_MASK(33, 32)
#define MOOR_DB_CQ_ARM_SEQ		MOOR_MASK(63, 34)

enum moor_cq_arm {
	MOOR_CQ_ARM_NONE	= 0,
	MOOR_CQ_ARM_SOLICITED	= 1,
	MOOR_CQ_ARM_ANY		= 2,
};

/* MSI-X vectors: one is fixed; CREATE_EQ gives each EQ its vector. */
#define MOOR_VECTOR_CMD		0
#define MOOR_VECTOR_ASYNC	1	/* software uses this vector for EQ 0 */

#include "moor_mr.h"
#include "moor_cmd.h"
#include "moor_queue.h"

#endif /* MOOR_HW_H */
