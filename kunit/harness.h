/* SPDX-License-Identifier: GPL-2.0 */
/* What several suites share. */
#ifndef MOOR_KUNIT_HARNESS_H
#define MOOR_KUNIT_HARNESS_H

#include <kunit/test.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_types.h>

#include "fake.h"
#include "moor.h"

/**
 * struct moor_user - a process that has opened the device
 * @mdev: device
 * @uctx: its context
 * @attrs: of the verb that it calls
 * @ufile: what the core wants to see behind a context
 * @udev: the same behind @ufile
 * @srcu: as while a verb is called
 * @in: a page of its memory, for input
 * @out: another one, for the driver's answer
 */
struct moor_user {
	struct moor_dev *mdev;
	struct moor_ucontext uctx;
	struct uverbs_attr_bundle attrs;
	struct ib_uverbs_file ufile;
	struct ib_uverbs_device *udev;
	int srcu;
	unsigned long in;
	unsigned long out;
};

/* Wait for what another thread does, for a time that is never reached. */
#define moor_kunit_wait(test, condition)				\
do {									\
	unsigned long end_ = jiffies + 100 * HZ;			\
									\
	while (!(condition) && time_before(jiffies, end_))		\
		schedule_timeout_uninterruptible(1);			\
	KUNIT_ASSERT_TRUE(test, condition);				\
} while (0)

int moor_kunit_init(struct kunit *test);
void moor_kunit_exit(struct kunit *test);
struct fake_nic *moor_kunit_nic(void);

unsigned long moor_kunit_mmap(struct kunit *test, size_t length, bool writable);
unsigned long moor_kunit_mmap_scattered(struct kunit *test, size_t length);
long moor_kunit_pinned(void);

struct moor_user *moor_user_open(struct kunit *test);
void moor_user_close(struct kunit *test, struct moor_user *user);
struct ib_udata *moor_user_udata(struct kunit *test, struct moor_user *user,
				 const void *in, size_t in_len, size_t out_len);
void moor_user_answer(struct kunit *test, struct moor_user *user, void *to,
		      size_t len);

/* test_cq.c */
struct moor_cq *moor_kunit_cq(struct kunit *test, struct moor_user *user);

#endif /* MOOR_KUNIT_HARNESS_H */
