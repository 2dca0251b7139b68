/* SPDX-License-Identifier: GPL-2.0 */
/* Helpers that several suites share. */
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
 * @ufile: the file that the core expects in a context
 * @udev: the device that the core expects in @ufile
 * @srcu: of the read lock that the core holds while a verb is called
 * @in: a page of the process's memory, for input
 * @out: another page of it, for the driver's answer
 */
struct moor_user {
	struct moor_dev *mdev;
	struct moor_ucontext uctx;
	struct uverbs_attr_bundle attrs;
	struct ib_uverbs_file *ufile;
	struct ib_uverbs_device *udev;
	int srcu;
	unsigned long in;
	unsigned long out;
};

#define ALL_RIGHTS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |	\
			 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC |	\
			 IB_ACCESS_MW_BIND)
#define REGION_PAGES	24
#define REGION_LENGTH	(REGION_PAGES * PAGE_SIZE)

/* An MR of REGION_LENGTH, its memory and its protection domain. */
struct moor_region {
	struct ib_pd *pd;
	struct ib_mr *mr;
	unsigned long addr;
};

/* A queue pair with all that belongs to it. */
struct moor_pair {
	struct moor_user *user;
	struct moor_cq *cq;
	struct ib_pd *pd;
	struct moor_qp *qp;
};

/* Wait for another thread. The limit is so long that only a hang reaches it. */
#define moor_kunit_wait(test, condition)				\
do {									\
	unsigned long end_ = jiffies + 100 * HZ;			\
									\
	while (!(condition) && time_before(jiffies, end_))		\
		schedule_timeout_uninterruptible(1);			\
	KUNIT_ASSERT_TRUE(test, condition);				\
} while (0)

int moor_kunit_init(struct kunit *test);
int moor_kunit_init_all(struct kunit *test);
void moor_kunit_exit(struct kunit *test);
struct fake_nic *moor_kunit_nic(void);
struct moor_dev *moor_kunit_attached(struct kunit *test);
int moor_kunit_netdev_up(struct net_device *netdev, bool up);
struct moor_dev *moor_kunit_replug(struct kunit *test, u64 no_features);
int moor_bare_init(struct kunit *test);
void moor_bare_exit(struct kunit *test);

unsigned long moor_kunit_mmap(struct kunit *test, size_t length, bool writable);
unsigned long moor_kunit_mmap_scattered(struct kunit *test, size_t length);
struct file *moor_kunit_open(const char *path, int flags);
long moor_kunit_pinned(void);

struct moor_user *moor_user_open(struct kunit *test);
void moor_user_close(struct kunit *test, struct moor_user *user);
struct ib_udata *moor_user_udata(struct kunit *test, struct moor_user *user,
				 const void *in, size_t in_len, size_t out_len);
void moor_user_answer(struct kunit *test, struct moor_user *user, void *to,
		      size_t len);

/* region.c */
struct ib_pd *moor_kunit_pd(struct kunit *test);
void moor_kunit_pd_free(struct kunit *test, struct ib_pd *pd);
struct ib_mr *moor_kunit_reg_as(struct ib_pd *pd, u64 start, u64 length,
				u64 iova, int access, struct ib_udata *udata);
struct ib_mr *moor_kunit_reg(struct ib_pd *pd, u64 start, u64 length, u64 iova,
			     int access);
int moor_kunit_dereg(struct ib_mr *mr);
void moor_kunit_hold(struct ib_mr *mr, u32 windows);
struct moor_region *moor_region_new(struct kunit *test, int access);
void moor_region_free(struct kunit *test, struct moor_region *region);
void moor_kunit_expect_working(struct kunit *test);
const struct moor_mr_context *moor_kunit_entry(u32 key);

/* queue.c */
struct moor_cq *moor_kunit_cq(struct kunit *test, struct moor_user *user);
void moor_pair_open(struct kunit *test, struct moor_pair *pair);
void moor_pair_open_type(struct kunit *test, struct moor_pair *pair,
			 enum ib_qp_type type);
void moor_pair_close(struct kunit *test, struct moor_pair *pair);
struct fake_page *moor_pair_ask(const struct moor_pair *pair, u32 token, u32 key,
				u64 addr, u32 length, u8 flags);
bool moor_is_answered(struct fake_page *page);

#endif /* MOOR_KUNIT_HARNESS_H */
