// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of a dma-buf: registering it; and where it is pinned, what is left when the
 * owner takes the buffer back.
 */

#include <linux/dma-buf.h>
#include <linux/fdtable.h>

#include "../tests/kernel/exporter.h"
#include "harness.h"

#define LENGTH		(EXPORTER_PAGES * PAGE_SIZE)
#define IOVA		0x123456000ULL
#define RIGHTS		(ALL_RIGHTS & ~IB_ACCESS_MW_BIND)
#define TO_WRITE	(MOOR_ACCESS_REMOTE_WRITE | MOOR_ACCESS_LOCAL_WRITE)

/* A buffer, and an MR of all of it. */
struct lent {
	struct kunit *test;
	struct moor_user *user;
	struct ib_pd *pd;
	struct ib_mr *mr;
	int fd;
};

static struct ib_mr *lent_reg(struct lent *lent, u64 offset, u64 length, u64 iova,
			      int fd, int access)
{
	struct ib_mr *mr;

	moor_user_udata(lent->test, lent->user, NULL, 0, 0);
	mr = moor_reg_user_mr_dmabuf(lent->pd, offset, length, iova, fd, access,
				     &lent->user->attrs);
	if (!IS_ERR(mr)) {
		mr->device = lent->pd->device;
		mr->pd = lent->pd;
	}
	return mr;
}

static struct lent *lent_open(struct kunit *test)
{
	struct lent *lent = kunit_kzalloc(test, sizeof(*lent), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, lent);
	lent->test = test;
	lent->user = moor_user_open(test);
	lent->pd = moor_kunit_pd(test);
	lent->fd = exported_make();
	KUNIT_ASSERT_GE(test, lent->fd, 0);
	lent->mr = lent_reg(lent, 0, LENGTH, IOVA, lent->fd, RIGHTS);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, lent->mr);
	return lent;
}

/* With a NIC that cannot send page requests, buffers are pinned and do not move. */
static struct lent *lent_open_pinned(struct kunit *test)
{
	moor_kunit_replug(test, MOOR_FEATURE_ODP);
	return lent_open(test);
}

static void lent_close(struct lent *lent)
{
	KUNIT_EXPECT_EQ(lent->test, moor_dereg_mr(lent->mr, NULL), 0);
	close_fd(lent->fd);
	moor_kunit_pd_free(lent->test, lent->pd);
	moor_user_close(lent->test, lent->user);
}

static int lent_write(struct lent *lent, u64 offset, u64 value)
{
	return fake_nic_access(moor_kunit_nic(), lent->mr->rkey, TO_WRITE,
			       IOVA + offset, &value, sizeof(value), true);
}

static u64 lent_read(struct lent *lent, u64 offset)
{
	u64 value = 0;

	KUNIT_EXPECT_EQ(lent->test,
			fake_nic_access(moor_kunit_nic(), lent->mr->rkey,
					MOOR_ACCESS_REMOTE_READ, IOVA + offset,
					&value, sizeof(value), false), 0);
	return value;
}

static void test_pages(struct kunit *test)
{
	struct lent *lent = lent_open(test);
	u64 i;

	for (i = 0; i < EXPORTER_PAGES; i++)
		KUNIT_EXPECT_EQ(test, lent_write(lent, i * PAGE_SIZE + 8, i + 1), 0);
	for (i = 0; i < EXPORTER_PAGES; i++)
		KUNIT_EXPECT_EQ(test, lent_read(lent, i * PAGE_SIZE + 8), i + 1);
	KUNIT_EXPECT_NE(test, lent_write(lent, LENGTH - 4, 0), 0);
	lent_close(lent);
}

/* A second MR, of other bytes of the same buffer at another address. */
static void test_offset(struct kunit *test)
{
	struct lent *lent = lent_open(test);
	struct ib_mr *mr = lent_reg(lent, 3 * PAGE_SIZE + 16, PAGE_SIZE, 16,
				    lent->fd, RIGHTS);
	u64 value = 0x4711;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	KUNIT_EXPECT_EQ(test, fake_nic_access(moor_kunit_nic(), mr->rkey, TO_WRITE,
					      16, &value, sizeof(value), true), 0);
	KUNIT_EXPECT_EQ(test, lent_read(lent, 3 * PAGE_SIZE + 16), value);
	KUNIT_EXPECT_EQ(test, moor_dereg_mr(mr, NULL), 0);
	lent_close(lent);
}

static void test_taken_back(struct kunit *test)
{
	struct lent *lent = lent_open_pinned(test);
	u32 key = lent->mr->rkey, used = moor_keys_used(&moor_kunit_attached(test)->keys);
	struct ib_mr *other;

	KUNIT_EXPECT_EQ(test, exported_change(EXPORTER_TAKE_BACK, lent->fd), 0);
	KUNIT_EXPECT_NE(test, lent_write(lent, 0, 1), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_entry(key)->valid, 0);
	KUNIT_EXPECT_EQ(test, moor_keys_used(&moor_kunit_attached(test)->keys), used);
	/* Taking the buffer back again changes nothing. */
	KUNIT_EXPECT_EQ(test, exported_change(EXPORTER_TAKE_BACK, lent->fd), 0);
	other = lent_reg(lent, 0, LENGTH, IOVA, lent->fd, RIGHTS);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(other), -ENODEV);
	moor_kunit_expect_working(test);
	lent_close(lent);
}

static void test_stays(struct kunit *test)
{
	struct lent *lent = lent_open_pinned(test);

	KUNIT_EXPECT_EQ(test, lent_write(lent, 0, 7), 0);
	KUNIT_EXPECT_EQ(test, exported_change(EXPORTER_MOVE, lent->fd), -EBUSY);
	KUNIT_EXPECT_EQ(test, lent_read(lent, 0), 7);
	KUNIT_EXPECT_EQ(test, moor_dereg_mr(lent->mr, NULL), 0);
	KUNIT_EXPECT_EQ(test, exported_change(EXPORTER_MOVE, lent->fd), 0);
	lent->mr = lent_reg(lent, 0, LENGTH, IOVA, lent->fd, RIGHTS);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, lent->mr);
	KUNIT_EXPECT_EQ(test, lent_read(lent, 0), 7);
	lent_close(lent);
}

/* A device that calls an MR busy to which no window can be bound is stopped. */
static void test_not_given_back(struct kunit *test)
{
	struct lent *lent = lent_open_pinned(test);

	moor_kunit_hold(lent->mr, 1);
	KUNIT_EXPECT_EQ(test, exported_change(EXPORTER_TAKE_BACK, lent->fd), 0);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(moor_kunit_attached(test)));
	lent_close(lent);
}

static void test_refused(struct kunit *test)
{
	static const struct {
		u64 offset, length, iova;
		int access, err;
	} wrong[] = {
		{ 0, LENGTH + 1, 0, RIGHTS, -EFAULT },
		{ LENGTH, PAGE_SIZE, 0, RIGHTS, -EFAULT },
		{ LENGTH + PAGE_SIZE, PAGE_SIZE, 0, RIGHTS, -EFAULT },
		{ 0, 0, 0, RIGHTS, -EINVAL },
		{ 0, PAGE_SIZE, -(u64)PAGE_SIZE + 1, RIGHTS, -EINVAL },
		{ 8, PAGE_SIZE, 16, RIGHTS, -EINVAL },
		{ -(u64)PAGE_SIZE, 2 * PAGE_SIZE, 0, RIGHTS, -EINVAL },
		{ 0, PAGE_SIZE, 0, IB_ACCESS_REMOTE_WRITE, -EINVAL },
		{ 0, PAGE_SIZE, 0, ALL_RIGHTS, -EOPNOTSUPP },
		{ 0, PAGE_SIZE, 0, RIGHTS | IB_ZERO_BASED, -EOPNOTSUPP },
		{ 0, PAGE_SIZE, 0, RIGHTS | IB_ACCESS_ON_DEMAND, -EOPNOTSUPP },
		{ 0, PAGE_SIZE, 0, RIGHTS | IB_ACCESS_FLUSH_PERSISTENT, -EOPNOTSUPP },
	};
	struct lent *lent = lent_open(test);
	struct ib_mr *mr;
	int i;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		mr = lent_reg(lent, wrong[i].offset, wrong[i].length,
			      wrong[i].iova, lent->fd, wrong[i].access);
		KUNIT_EXPECT_EQ_MSG(test, PTR_ERR_OR_ZERO(mr), wrong[i].err,
				    "case %d", i);
	}
	mr = lent_reg(lent, 0, PAGE_SIZE, 0, lent->fd,
		      RIGHTS | IB_ACCESS_FLUSH_GLOBAL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	KUNIT_EXPECT_EQ(test, moor_dereg_mr(mr, NULL), 0);
	mr = lent_reg(lent, 0, LENGTH + 1, 0, lent->fd, RIGHTS);
	KUNIT_EXPECT_EQ(test, lent->user->uctx.refusal.limit, LENGTH);
	mr = lent_reg(lent, 0, LENGTH, 0, -1, RIGHTS);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EBADF);
	KUNIT_EXPECT_EQ(test, exported_change(EXPORTER_FAIL, lent->fd), 0);
	mr = lent_reg(lent, 0, LENGTH, 0, lent->fd, RIGHTS);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EXPORTER_ERROR);
	mr = moor_rereg_user_mr(lent->mr, IB_MR_REREG_ACCESS, 0, 0, 0, RIGHTS,
				lent->pd, moor_user_udata(test, lent->user, NULL, 0, 0));
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, lent_write(lent, 0, 1), 0);
	lent_close(lent);
}

/* The owner of a pinned buffer gives less than its size: the core does not look. */
static void test_short(struct kunit *test)
{
	struct lent *lent = lent_open_pinned(test);
	struct ib_mr *mr;

	KUNIT_EXPECT_EQ(test, exported_change(EXPORTER_SHORT, lent->fd), 0);
	mr = lent_reg(lent, 0, LENGTH, 0, lent->fd, RIGHTS);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EINVAL);
	mr = lent_reg(lent, 0, LENGTH, 0, lent->fd, RIGHTS);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	KUNIT_EXPECT_EQ(test, moor_dereg_mr(mr, NULL), 0);
	lent_close(lent);
}

/* The same for the ring of a CQ, which Linux 7.2 and later take from a dma-buf, too. */
static void test_short_ring(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct ib_umem_dmabuf *umem;
	struct moor_ring ring = {};
	int fd = exported_make(), run;

	KUNIT_ASSERT_GE(test, fd, 0);
	KUNIT_EXPECT_EQ(test, exported_change(EXPORTER_SHORT, fd), 0);
	for (run = 0; run < 2; run++) {
		umem = ib_umem_dmabuf_get_pinned(&mdev->ibdev, 0, LENGTH, fd,
						 IB_ACCESS_LOCAL_WRITE);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, umem);
		KUNIT_EXPECT_EQ(test, moor_ring_pin(mdev, &ring, &umem->umem),
				run ? 0 : -EINVAL);
	}
	moor_ring_unpin(mdev, &ring);
	close_fd(fd);
}

/* The driver knows no input here and has no answer: unknown input is not ignored. */
static void test_private(struct kunit *test)
{
	struct lent *lent = lent_open(test);
	u64 unknown = 1, answer = 0;
	struct ib_mr *mr;

	moor_user_udata(test, lent->user, &unknown, sizeof(unknown), 0);
	mr = moor_reg_user_mr_dmabuf(lent->pd, 0, LENGTH, IOVA, lent->fd, RIGHTS,
				     &lent->user->attrs);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EOPNOTSUPP);
	unknown = 0;
	moor_user_udata(test, lent->user, &unknown, sizeof(unknown), sizeof(answer));
	mr = moor_reg_user_mr_dmabuf(lent->pd, 0, 0, IOVA, lent->fd, RIGHTS,
				     &lent->user->attrs);
	KUNIT_EXPECT_TRUE(test, IS_ERR(mr));
	moor_user_answer(test, lent->user, &answer, sizeof(answer));
	KUNIT_EXPECT_EQ(test, answer, 0);
	lent_close(lent);
}

static void test_dead(struct kunit *test)
{
	struct lent *lent = lent_open(test);
	struct ib_mr *mr;

	moor_hw_kill(moor_kunit_attached(test), NULL);
	mr = lent_reg(lent, 0, LENGTH, 0, lent->fd, RIGHTS);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EIO);
	/* The buffer's owner can take it back all the same. */
	KUNIT_EXPECT_EQ(test, exported_change(EXPORTER_TAKE_BACK, lent->fd), 0);
	lent_close(lent);
}

static struct kunit_case dmabuf_cases[] = {
	KUNIT_CASE(test_pages),
	KUNIT_CASE(test_offset),
	KUNIT_CASE(test_taken_back),
	KUNIT_CASE(test_stays),
	KUNIT_CASE(test_not_given_back),
	KUNIT_CASE(test_refused),
	KUNIT_CASE(test_short),
	KUNIT_CASE(test_short_ring),
	KUNIT_CASE(test_private),
	KUNIT_CASE(test_dead),
	{}
};

static struct kunit_suite dmabuf_suite = {
	.name = "moor_dmabuf",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = dmabuf_cases,
};

kunit_test_suite(dmabuf_suite);
