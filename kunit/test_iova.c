// SPDX-License-Identifier: GPL-2.0
/*
 * The address of an MR's first byte on the wire: congruent with the process's
 * address, or zero; and where each byte is then found.
 */

#include <linux/uaccess.h>

#include "harness.h"

struct place {
	const char *name;
	u64 iova;		/* of the page; the offset inside is the buffer's */
	u32 inside;		/* offset of the buffer in its first page */
	u64 cut;		/* bytes missing from its last page */
	int access;
};

static const struct place places[] = {
	{ "at zero, without the flag", 0, 0, 0, 0 },
	{ "at zero, from inside a page", 0, 4095, 1, 0 },
	{ "at zero, by the flag", 0, 0, 0, IB_ZERO_BASED },
	{ "by the flag, from inside a page", 0, 4095, 0, IB_ZERO_BASED },
	{ "by the flag, every end odd", 0, 1, 4095, IB_ZERO_BASED },
	{ "by the flag, an odd word", 0, 2045, 77, IB_ZERO_BASED },
	{ "at a page of its own", 0x5000, 33, 0, 0 },
	{ "at 2 MiB", 0x200000, 0, 0, 0 },
	{ "beside 2 MiB", 0x1ff000, 1, 1, 0 },
	{ "beside 1 GiB", 0x3ffff000, 17, 18, 0 },
	{ "above 2^52", 1ULL << 60, 4000, 0, 0 },
	{ "the last bytes there are", -(u64)REGION_LENGTH, 0, 0, 0 },
};

static void place_desc(const struct place *place, char *desc)
{
	strscpy(desc, place->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(place, places, place_desc);

/* All bytes, through the key, at the address that was asked for. */
static void iova_bytes(struct kunit *test)
{
	const struct place *place = test->param_value;
	unsigned long addr = moor_kunit_mmap_scattered(test, REGION_LENGTH) +
			     place->inside;
	u64 length = REGION_LENGTH - place->inside - place->cut;
	bool zero = place->access & IB_ZERO_BASED;
	u64 first = zero ? 0 : place->iova + place->inside;
	u8 *want = kunit_kmalloc(test, REGION_LENGTH, GFP_KERNEL);
	u8 *got = kunit_kzalloc(test, REGION_LENGTH, GFP_KERNEL);
	struct fake_nic *nic = moor_kunit_nic();
	struct ib_pd *pd = moor_kunit_pd(test);
	struct ib_mr *mr;

	KUNIT_ASSERT_NOT_NULL(test, want);
	KUNIT_ASSERT_NOT_NULL(test, got);
	get_random_bytes(want, length);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)addr, want, length), 0);
	/* With IB_ZERO_BASED the caller names no address for the wire. */
	mr = moor_kunit_reg(pd, addr, length, zero ? addr : first, place->access |
			    IB_ACCESS_LOCAL_WRITE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(moor_kunit_entry(mr->lkey)->iova), first);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, mr->lkey, 0, first, got, length,
					      false), 0);
	KUNIT_EXPECT_MEMEQ(test, got, want, length);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, mr->lkey, 0, first + 1, got,
					      length, false), MOOR_SYN_BOUNDS);
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, mr->lkey, 0, first - 1, got, 1,
					      false), MOOR_SYN_BOUNDS);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_kunit_pd_free(test, pd);
}

/* No other MR gets the key of the null MR, however many there are (HWI NUL-1). */
static void iova_null_key(struct kunit *test)
{
	unsigned long addr = moor_kunit_mmap(test, PAGE_SIZE, true);
	struct ib_pd *pd = moor_kunit_pd(test);
	struct moor_dev *mdev = test->priv;
	u32 i, taken = 0;
	struct ib_mr *mr;

	KUNIT_EXPECT_EQ(test, mdev->caps.null_lkey, FAKE_NULL_LKEY);
	KUNIT_EXPECT_EQ(test, moor_key_index(mdev, FAKE_NULL_LKEY),
			MOOR_MR_INDEX_NULL);
	for (i = 0; i < 2 * FAKE_CONSUMER_FIRST; i++) {
		mr = moor_kunit_reg(pd, addr, 1, addr, 0);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, mr);
		taken += moor_key_index(mdev, mr->lkey) <= MOOR_MR_INDEX_NULL;
		KUNIT_ASSERT_EQ(test, moor_kunit_dereg(mr), 0);
	}
	KUNIT_EXPECT_EQ(test, taken, 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_nic()->mr[MOOR_MR_INDEX_NULL].valid, 0);
	moor_kunit_pd_free(test, pd);
}

static struct kunit_case iova_cases[] = {
	KUNIT_CASE_PARAM(iova_bytes, place_gen_params),
	KUNIT_CASE(iova_null_key),
	{}
};

static struct kunit_suite iova_suite = {
	.name = "moor_iova",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = iova_cases,
};

kunit_test_suite(iova_suite);
