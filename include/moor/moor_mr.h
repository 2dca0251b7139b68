/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Moor hardware interface: MR context entries, keys and translation tables
 * (HWI 6 and 7). Included by moor_hw.h.
 */
#ifndef MOOR_MR_H
#define MOOR_MR_H

/*
 * HWI XLT-1: a translation. Byte x of the object is found at byte offset + x of
 * the space that the tree under @root maps.
 */
struct moor_xlat {
	__le64 root;		/* a table entry; names the node, or is the leaf */
	__le64 offset;		/* of the object's first byte in the mapped space */
	__u8 levels;		/* 0: @root is a leaf; n: a tree n nodes deep */
	__u8 page_shift;	/* log2 of what a leaf of the lowest node maps */
	__u8 memory;		/* enum moor_memory */
	__u8 reserved1;
	__le32 entries;		/* zero; reserved for MOOR_MEMORY_GATHER */
};

enum moor_memory {
	MOOR_MEMORY_HOST	= 0,
	MOOR_MEMORY_NIC		= 1,	/* @root is a leaf: byte offset in on-NIC memory */
	MOOR_MEMORY_GATHER	= 2,	/* reserved (HWI RSV-2) */
};

/* A table entry: eight bytes, 512 in a node of 4 KiB. */
#define MOOR_PTE_PRESENT	MOOR_BIT(0)
#define MOOR_PTE_WRITABLE	MOOR_BIT(1)	/* in leaves only */
#define MOOR_PTE_LEAF		MOOR_BIT(2)
#define MOOR_PTE_RESERVED	MOOR_MASK(11, 3)
#define MOOR_PTE_ADDR		MOOR_MASK(63, 12)

#define MOOR_NODE_SHIFT		9
#define MOOR_NODE_ENTRIES	(1 << MOOR_NODE_SHIFT)
#define MOOR_MAX_LEVELS		5
#define MOOR_MIN_PAGE_SHIFT	12

/* HWI MR-3: an entry of the context table in BAR2. */
struct moor_mr_context {
	__le64 valid;		/* MOOR_MRC_*: written last, cleared after a revoke */
	__le32 pd;
	__le32 access;		/* MOOR_ACCESS_* */
	__le64 iova;		/* address of the first byte */
	__le64 length;		/* bytes; iova + length - 1 does not wrap */
	struct moor_xlat xlat;
	__le64 max_pages;	/* MOOR_MRC_TYPE_FAST_REG: pages its tables hold, else 0 */
};

#define MOOR_MRC_TYPE		MOOR_MASK(7, 0)
#define MOOR_MRC_GENERATION	MOOR_MASK(15, 8)
#define MOOR_MRC_RESERVED	MOOR_MASK(31, 16)
#define MOOR_MRC_KEY		MOOR_MASK(63, 32)

enum moor_mrc_type {
	MOOR_MRC_TYPE_INVALID	= 0,
	MOOR_MRC_TYPE_MR	= 1,	/* plain memory region */
	MOOR_MRC_TYPE_FAST_REG	= 2,	/* fast-registration MR, starts free */
	MOOR_MRC_TYPE_MW_1	= 3,	/* memory window, starts unbound */
	MOOR_MRC_TYPE_MW_2	= 4,
	MOOR_MRC_TYPE_ALL	= 5,	/* all of memory; kernel QPs only */
};

/* The first five, and the two of FLUSH, have the values of enum ib_access_flags. */
#define MOOR_ACCESS_LOCAL_WRITE		MOOR_BIT(0)
#define MOOR_ACCESS_REMOTE_WRITE	MOOR_BIT(1)
#define MOOR_ACCESS_REMOTE_READ		MOOR_BIT(2)
#define MOOR_ACCESS_REMOTE_ATOMIC	MOOR_BIT(3)
#define MOOR_ACCESS_MW_BIND		MOOR_BIT(4)
#define MOOR_ACCESS_RELAXED_ORDERING	MOOR_BIT(5)
#define MOOR_ACCESS_ON_DEMAND		MOOR_BIT(6)	/* feature ODP (HWI ODP-6) */
#define MOOR_ACCESS_FLUSH_GLOBAL	MOOR_BIT(8)
#define MOOR_ACCESS_FLUSH_PERSISTENT	MOOR_BIT(9)
#define MOOR_ACCESS_ALL			(MOOR_MASK(6, 0) | MOOR_MASK(9, 8))

/*
 * HWI KEY-1: a key is an index into the context table in its upper
 * MR_INDEX_BITS bits and a nonce below. From index MR_CONSUMER_FIRST on, bits
 * 7:0 belong to the consumer (HWI KEY-4: fast-registration MRs and windows).
 */
#define MOOR_KEY_CONSUMER	MOOR_MASK(7, 0)

/* The index of the key in NULL_LKEY; entry 0 is never valid (HWI KEY-5). */
#define MOOR_MR_INDEX_NULL	1
#define MOOR_MR_INDEX_FIRST	2

_Static_assert(sizeof(struct moor_xlat) == 24, "HWI MR-3");
_Static_assert(sizeof(struct moor_mr_context) == 64, "HWI MR-3");

#endif /* MOOR_MR_H */
