/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included before everything else: the barriers that the driver writes itself
 * also empty the write-combining buffer of fake_wc.c. Those inside writeq() and
 * the like do not; they order nothing in such a buffer on x86 either.
 */
#ifndef MOOR_KUNIT_BARRIER_H
#define MOOR_KUNIT_BARRIER_H

#include <linux/io.h>

void fake_wc_barrier(void);

#undef mb
#undef wmb

/* The barrier itself, and what it does to the buffer. */
#define mb()							\
do {								\
	asm volatile("mfence" : : : "memory");			\
	fake_wc_barrier();					\
} while (0)

/* The same. */
#define wmb()							\
do {								\
	asm volatile("sfence" : : : "memory");			\
	fake_wc_barrier();					\
} while (0)

#endif /* MOOR_KUNIT_BARRIER_H */
