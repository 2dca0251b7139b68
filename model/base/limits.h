/* SPDX-License-Identifier: GPL-2.0 */
/* What this NIC has room for: BARs and the read-only registers (HWI 3, 4). */
#ifndef MODEL_LIMITS_H
#define MODEL_LIMITS_H

#include "moor/moor_hw.h"

#define NIC_MR_BAR_SIZE		(4u << 20)	/* BAR2: the context table */
#define NIC_DB_BAR_SIZE		(16u << 20)	/* BAR4, laid out as follows */
#define NIC_DB_PAGES		1024u
#define NIC_KICK_OFFSET		(4u << 20)
#define NIC_DM_OFFSET		(8u << 20)
#define NIC_DM_SIZE		(4u << 20)
#define NIC_DB_SLOTS		(NIC_DB_PAGES * MOOR_DB_SLOTS_PER_PAGE)

#define NIC_NUM_VECTORS		18u
#define NIC_MR_INDEX_BITS	16u
#define NIC_NUM_MR		(1u << NIC_MR_INDEX_BITS)
#define NIC_MR_CONSUMER_FIRST	0x8000u
#define NIC_NUM_MW		(NIC_NUM_MR - NIC_MR_CONSUMER_FIRST)
#define NIC_NULL_LKEY		((MOOR_MR_INDEX_NULL << 16) | 0x9e37u)
#define NIC_MAX_MSG_SIZE	(1u << 30)
#define NIC_QP_INDEX_BITS	14u
#define NIC_NUM_QP		(1u << NIC_QP_INDEX_BITS)
#define NIC_SRQ_INDEX_BITS	12u
#define NIC_NUM_SRQ		(1u << NIC_SRQ_INDEX_BITS)
#define NIC_MAX_CQ		16384u
#define NIC_MAX_EQ		18u
#define NIC_MAX_LOG_WQE		15u
#define NIC_MAX_SGE		16u
#define NIC_MAX_INLINE		448u
#define NIC_MAX_LOG_CQE		20u
#define NIC_MAX_GID		64u
#define NIC_NUM_PKEY		1u
/* A datagram that all filters match is no more work than a unit (HWI ERR-11). */
#define NIC_MAX_FILTER		64u
#define NIC_MAX_RD_ATOMIC	16u
#define NIC_NUM_REQUESTS	8192u
#define NIC_MAX_LOG_CMD		8u
#define NIC_MAX_LOG_EQE		15u
#define NIC_MAX_MR_SIZE		(1ULL << 63)
#define NIC_PAGE_SIZES		MOOR_MASK(38, 12)
#define NIC_FEATURES		(MOOR_FEATURE_DOZES | MOOR_FEATURE_ATOMICS | \
				 MOOR_FEATURE_MW_TYPE_1 | \
				 MOOR_FEATURE_MW_TYPE_2B | \
				 MOOR_FEATURE_FAST_REG | MOOR_FEATURE_ODP | \
				 MOOR_FEATURE_DM | \
				 MOOR_FEATURE_RELAXED_ORDERING | \
				 MOOR_FEATURE_UC | \
				 MOOR_FEATURE_CQ_MODERATION | \
				 MOOR_FEATURE_SRQ | MOOR_FEATURE_UD | \
				 MOOR_FEATURE_XRC | \
				 MOOR_FEATURE_ATOMIC_WRITE | \
				 MOOR_FEATURE_FLUSH_GLOBAL | \
				 MOOR_FEATURE_FLUSH_PERSISTENT)

#define NIC_NUMBER_MASK		0xffffffu	/* QP and PD numbers, PSNs */

#endif /* MODEL_LIMITS_H */
