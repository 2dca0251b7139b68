/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A NIC of 2^20 contexts, half of them for plain MRs: more than base/limits.h gives it.
 * The compiler includes this first (-include); it includes limits.h and overrides it,
 * and limits.h is not read again. See tests/perf/nic/make.
 */
#ifndef PERF_NIC_LARGE_H
#define PERF_NIC_LARGE_H

#include "base/limits.h"

#undef NIC_MR_INDEX_BITS
#define NIC_MR_INDEX_BITS	20u
#undef NIC_MR_CONSUMER_FIRST
#define NIC_MR_CONSUMER_FIRST	0x80000u
#undef NIC_MR_BAR_SIZE
#define NIC_MR_BAR_SIZE		(64u << 20)	/* 64 bytes a context */
#undef NIC_NULL_LKEY
#define NIC_NULL_LKEY		((MOOR_MR_INDEX_NULL << 12) | 0xe37u)

#endif /* PERF_NIC_LARGE_H */
