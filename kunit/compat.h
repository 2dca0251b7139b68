/* SPDX-License-Identifier: GPL-2.0 */
/* What KUnit of 6.12 does not have. */
#ifndef MOOR_KUNIT_COMPAT_H
#define MOOR_KUNIT_COMPAT_H

#include <kunit/test.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
/* It cannot expect a warning. The one that newer kernels may give does not come. */
struct kunit_suppressed_warning;

static inline struct kunit_suppressed_warning *
kunit_start_suppress_warning(struct kunit *test)
{
	return NULL;
}

static inline void kunit_end_suppress_warning(struct kunit *test,
					      struct kunit_suppressed_warning *warning)
{
}

static inline int
kunit_suppressed_warning_count(struct kunit_suppressed_warning *warning)
{
	return 0;
}
#endif

#endif /* MOOR_KUNIT_COMPAT_H */
