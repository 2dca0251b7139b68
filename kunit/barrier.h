/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included before everything else: the barriers that the driver writes itself
 * also empty the write-combining buffer of fake_wc.c. The barriers inside writeq()
 * and the like do not: on x86 they do not order such a buffer either.
 */
#ifndef MOOR_KUNIT_BARRIER_H
#define MOOR_KUNIT_BARRIER_H

#include <linux/io.h>

void fake_wc_barrier(void);

#undef mb
#undef wmb

/* The kernel's barrier, which also empties the buffer. */
#define mb()							\
do {								\
	asm volatile("mfence" : : : "memory");			\
	fake_wc_barrier();					\
} while (0)

/* As mb(). */
#define wmb()							\
do {								\
	asm volatile("sfence" : : : "memory");			\
	fake_wc_barrier();					\
} while (0)

#endif /* MOOR_KUNIT_BARRIER_H */
