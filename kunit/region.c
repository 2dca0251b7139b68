// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions of a case's own process, made and destroyed as uverbs does it, with
 * the core's part of the work.
 */

#include <rdma/restrack.h>

#include "harness.h"

/**
 * moor_kunit_pd - create a protection domain of a process
 * @test: case
 *
 * Not by ib_alloc_pd(), which gives PDs of the kernel an MR of their own.
 *
 * Return: the PD, for moor_kunit_pd_free()
 */
struct ib_pd *moor_kunit_pd(struct kunit *test)
{
	struct moor_pd *pd = kunit_kzalloc(test, sizeof(*pd), GFP_KERNEL);
	struct moor_dev *mdev = test->priv;

	KUNIT_ASSERT_NOT_NULL(test, pd);
	pd->ibpd.device = &mdev->ibdev;
	KUNIT_ASSERT_EQ(test, moor_alloc_pd(&pd->ibpd, NULL), 0);
	return &pd->ibpd;
}

void moor_kunit_pd_free(struct kunit *test, struct ib_pd *pd)
{
	KUNIT_EXPECT_EQ(test, atomic_read(&pd->usecnt), 0);
	KUNIT_EXPECT_EQ(test, moor_dealloc_pd(pd, NULL), 0);
}

/**
 * moor_kunit_reg_as - register memory
 * @pd: protection domain
 * @start: address of the first byte
 * @length: bytes
 * @iova: address of the first byte on the wire
 * @access: IB_ACCESS_*
 * @udata: of a process, or NULL
 *
 * Return: as moor_reg_user_mr(), for moor_kunit_dereg()
 */
struct ib_mr *moor_kunit_reg_as(struct ib_pd *pd, u64 start, u64 length,
				u64 iova, int access, struct ib_udata *udata)
{
	struct ib_mr *mr = moor_reg_user_mr(pd, start, length, iova, access,
					    udata);

	if (IS_ERR(mr))
		return mr;
	mr->device = pd->device;
	mr->pd = pd;
	mr->type = IB_MR_TYPE_USER;
	atomic_inc(&pd->usecnt);
	rdma_restrack_new(&mr->res, RDMA_RESTRACK_MR);
	rdma_restrack_set_name(&mr->res, NULL);
	rdma_restrack_add(&mr->res);
	return mr;
}

struct ib_mr *moor_kunit_reg(struct ib_pd *pd, u64 start, u64 length, u64 iova,
			     int access)
{
	return moor_kunit_reg_as(pd, start, length, iova, access, NULL);
}

int moor_kunit_dereg(struct ib_mr *mr)
{
	return ib_dereg_mr_user(mr, NULL);
}

/**
 * moor_kunit_hold - make NIC and driver believe that windows are bound to an MR
 * @mr: MR
 * @windows: how many
 *
 * The driver believes that the MR's PD has a window: without, no MR of it can be busy.
 */
void moor_kunit_hold(struct ib_mr *mr, u32 windows)
{
	struct moor_dev *mdev = to_mdev(mr->device);

	atomic_set(&to_mpd(mr->pd)->mws_made, 1);
	moor_kunit_nic()->windows[moor_key_index(mdev, mr->lkey)] = windows;
}

/**
 * moor_region_new - register memory that takes a table to describe
 * @test: case
 * @access: IB_ACCESS_*
 *
 * Return: the registration, for moor_region_free()
 */
struct moor_region *moor_region_new(struct kunit *test, int access)
{
	struct moor_region *region = kunit_kzalloc(test, sizeof(*region),
						   GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, region);
	region->addr = moor_kunit_mmap_scattered(test, REGION_LENGTH);
	region->pd = moor_kunit_pd(test);
	region->mr = moor_kunit_reg(region->pd, region->addr, REGION_LENGTH,
				    region->addr, access);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, region->mr);
	return region;
}

void moor_region_free(struct kunit *test, struct moor_region *region)
{
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(region->mr), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_kunit_pd_free(test, region->pd);
}

/* The entry of BAR2 that a key names. */
const struct moor_mr_context *moor_kunit_entry(u32 key)
{
	return &moor_kunit_nic()->mr[key >> (32 - FAKE_MR_INDEX_BITS)];
}

/* The driver has a working NIC: an MR is registered and fenced, and nothing is left. */
void moor_kunit_expect_working(struct kunit *test)
{
	KUNIT_ASSERT_NOT_NULL(test, moor_kunit_attached(test));
	moor_region_free(test, moor_region_new(test, ALL_RIGHTS));
	KUNIT_EXPECT_FALSE(test, moor_is_dead(test->priv));
}
