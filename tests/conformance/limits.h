/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A NIC with other limits than base/limits.h gives it, for run-lesser: the compiler
 * includes a file first (-include) that includes this one and then sets limits of its own;
 * limits.h is not read again. What hangs on another limit is computed from it here.
 */
#ifndef CONFORMANCE_NIC_LIMITS_H
#define CONFORMANCE_NIC_LIMITS_H

#include "base/limits.h"

#undef NIC_MR_BAR_SIZE
#define NIC_MR_BAR_SIZE		(64u << NIC_MR_INDEX_BITS)
#undef NIC_MR_CONSUMER_FIRST
#define NIC_MR_CONSUMER_FIRST	(NIC_NUM_MR / 2)
#undef NIC_NULL_LKEY
#define NIC_NULL_LKEY		((MOOR_MR_INDEX_NULL << (32 - NIC_MR_INDEX_BITS)) | 0xe37u)

/* BAR4 without gaps: doorbell pages, kick pages, on-NIC memory; as small as it can be. */
#undef NIC_KICK_OFFSET
#define NIC_KICK_OFFSET		(NIC_DB_PAGES * MOOR_PAGE_SIZE)
#undef NIC_DM_OFFSET
#define NIC_DM_OFFSET		(2u * NIC_KICK_OFFSET)
#undef NIC_DB_BAR_SIZE
#define NIC_DB_BAR_SIZE		NIC_POWER_OF_TWO(1ull * NIC_DM_OFFSET + NIC_DM_SIZE)
#define NIC_POWER_OF_TWO(n)	(1ull << (64 - __builtin_clzll((n) - 1)))

#endif /* CONFORMANCE_NIC_LIMITS_H */
