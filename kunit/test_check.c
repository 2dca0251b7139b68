// SPDX-License-Identifier: GPL-2.0
/*
 * The checks of a registration's arguments, before anything is done: access flags,
 * ranges, and the words for refusals. No NIC is needed.
 */

#include <linux/mman.h>

#include "harness.h"

#define KNOWN	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |		\
		 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC |		\
		 IB_ACCESS_MW_BIND | IB_ZERO_BASED)
#define REMOTE	(IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC)

/* The device's rights for flags that were accepted. */
static u32 rights_of(int access)
{
	static const struct {
		int flag;
		u32 right;
	} pairs[] = {
		{ IB_ACCESS_LOCAL_WRITE, MOOR_ACCESS_LOCAL_WRITE },
		{ IB_ACCESS_REMOTE_WRITE, MOOR_ACCESS_REMOTE_WRITE },
		{ IB_ACCESS_REMOTE_READ, MOOR_ACCESS_REMOTE_READ },
		{ IB_ACCESS_REMOTE_ATOMIC, MOOR_ACCESS_REMOTE_ATOMIC },
		{ IB_ACCESS_MW_BIND, MOOR_ACCESS_MW_BIND },
		{ IB_ACCESS_RELAXED_ORDERING, MOOR_ACCESS_RELAXED_ORDERING },
	};
	u32 i, rights = 0;

	for (i = 0; i < ARRAY_SIZE(pairs); i++)
		if (access & pairs[i].flag)
			rights |= pairs[i].right;
	return rights;
}

/* Every set of the known flags, alone and with each of the 32 bits. */
static void check_access(struct kunit *test)
{
	u32 known, other, sets = 0;

	for (known = 0; known <= KNOWN; known++) {
		if (known & ~KNOWN)
			continue;
		for (other = 0; other <= 32; other++) {
			int access = known | (other < 32 ? BIT(other) : 0);
			u32 missing = access & ~(KNOWN | IB_ACCESS_OPTIONAL);
			struct moor_registration reg = {};
			struct moor_refusal why = {};
			int err = moor_mr_check_access(MOOR_ACCESS_SUPPORTED,
						       access, &why);

			sets++;
			if (missing) {
				KUNIT_EXPECT_EQ(test, err, -EOPNOTSUPP);
				KUNIT_EXPECT_EQ(test, why.value, missing);
				KUNIT_EXPECT_EQ(test, why.reason,
						MOOR_REFUSAL_FLAGS);
				continue;
			}
			if (access & REMOTE && !(access & IB_ACCESS_LOCAL_WRITE)) {
				KUNIT_EXPECT_EQ(test, err, -EINVAL);
				KUNIT_EXPECT_EQ(test, why.value, access & REMOTE);
				continue;
			}
			KUNIT_EXPECT_EQ_MSG(test, err, 0, "access %#x", access);
			moor_reg_set_access(&reg, access);
			KUNIT_EXPECT_EQ(test, reg.access, rights_of(access));
			KUNIT_EXPECT_EQ(test, reg.zero_based,
					!!(access & IB_ZERO_BASED));
		}
	}
	KUNIT_EXPECT_EQ(test, sets, 64 * 33);
}

struct extent {
	const char *name;
	u64 start;
	u64 length;
	u64 iova;
	u32 reason;		/* 0: the range is accepted */
};

#define MOST	BIT_ULL(40)

static const struct extent ranges[] = {
	{ "one byte at zero", 0, 1, 0 },
	{ "the most there may be", 0x1000, MOST, 0x1000 },
	{ "a byte more", 0x1000, MOST + 1, 0x1000, MOOR_REFUSAL_LENGTH },
	{ "nothing", 0x1000, 0, 0x1000, MOOR_REFUSAL_LENGTH },
	{ "the last byte of all", U64_MAX, 1, U64_MAX },
	{ "one behind it", U64_MAX, 2, 0xfff, MOOR_REFUSAL_LENGTH },
	{ "the end of the address wraps to zero", -0x1000ULL, 0x1001, 0,
	  MOOR_REFUSAL_LENGTH },
	{ "ends with the address space", -0x1000ULL, 0x1000, 0 },
	{ "iova ends with its space", 0, 0x1000, -0x1000ULL },
	{ "iova wraps to zero", 0, 0x1001, -0x1000ULL, MOOR_REFUSAL_IOVA },
	{ "congruent, elsewhere", 0x1234, 77, 0xabc234 },
	{ "off by one", 0x1234, 77, 0xabc235, MOOR_REFUSAL_IOVA },
	{ "off by half a page", 0x1234, 77, 0xabca34, MOOR_REFUSAL_IOVA },
};

static void range_desc(const struct extent *range, char *desc)
{
	strscpy(desc, range->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(range, ranges, range_desc);

static void check_range(struct kunit *test)
{
	const struct extent *range = test->param_value;
	struct moor_refusal why = {};
	int err = moor_mr_check_range(test->priv, range->start, range->length,
				      range->iova, &why);

	KUNIT_EXPECT_EQ(test, err, range->reason ? -EINVAL : 0);
	if (!range->reason)
		return;
	KUNIT_EXPECT_EQ(test, why.reason, range->reason);
	if (range->reason == MOOR_REFUSAL_LENGTH) {
		KUNIT_EXPECT_EQ(test, why.value, range->length);
		KUNIT_EXPECT_EQ(test, why.limit, MOST);
	} else {
		KUNIT_EXPECT_EQ(test, why.value, range->iova);
	}
}

/* Every reason has a word of its own. */
static void check_reasons(struct kunit *test)
{
	u32 i, j;

	for (i = MOOR_REFUSAL_NONE; i <= MOOR_REFUSAL_OTHER; i++) {
		KUNIT_ASSERT_NOT_NULL(test, moor_refusal_name(i));
		for (j = 0; j < i; j++)
			KUNIT_EXPECT_STRNEQ(test, moor_refusal_name(i),
					    moor_refusal_name(j));
	}
}

/* If the missing page is mapped again meanwhile, the refusal names page 0, no other. */
static void check_page_gone(struct kunit *test)
{
	struct moor_ucontext *uctx = kunit_kzalloc(test, sizeof(*uctx), GFP_KERNEL);
	unsigned long addr = moor_kunit_mmap(test, REGION_LENGTH, true);
	struct moor_refusal why = { .value = 1, .limit = 1 };
	struct moor_dev *mdev = test->priv;

	KUNIT_ASSERT_NOT_NULL(test, uctx);
	KUNIT_EXPECT_EQ(test, moor_refusal_of_pin(&why, addr, REGION_LENGTH,
						  -EFAULT), -EFAULT);
	KUNIT_EXPECT_EQ(test, why.reason, MOOR_REFUSAL_PAGE);
	KUNIT_EXPECT_EQ(test, why.limit, 0);
	spin_lock_init(&mdev->refusals.lock);
	uctx->refusal = why;
	uctx->refusal.start = addr;
	uctx->refusal.length = REGION_LENGTH;
	moor_refusal_last(mdev, uctx, &why);
	KUNIT_EXPECT_EQ(test, why.value, 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
}

/* Lack of memory and other errors of pinning are told apart. */
static void check_errnos(struct kunit *test)
{
	unsigned long addr = moor_kunit_mmap(test, PAGE_SIZE, true);
	struct moor_refusal why = {};

	KUNIT_EXPECT_EQ(test, moor_refusal_of_pin(&why, addr, 1, -ENOMEM),
			-ENOMEM);
	KUNIT_EXPECT_EQ(test, why.reason, MOOR_REFUSAL_MEMORY);
	KUNIT_EXPECT_EQ(test, moor_refusal_of_pin(&why, addr, 1, -EINTR),
			-EINTR);
	KUNIT_EXPECT_EQ(test, why.reason, MOOR_REFUSAL_OTHER);
	KUNIT_EXPECT_EQ(test, moor_refusal_of_pin(&why, addr, 1, -EINVAL),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, why.reason, MOOR_REFUSAL_OTHER);
}

/* The page and the slot of a doorbell are in separate bits (HWI DB-8). */
static void check_doorbell(struct kunit *test)
{
	struct moor_db_page page = {};
	struct moor_db db = { .page = &page, .num = 2 };
	u32 i, location;

	for (i = 0; i < MOOR_DB_SLOTS_PER_PAGE; i += 73) {
		page.index = 1000 + i;
		db.slot[0] = i;
		db.slot[1] = MOOR_DB_SLOTS_PER_PAGE - 1 - i;
		location = le32_to_cpu(moor_db_location(&db, 0));
		KUNIT_EXPECT_EQ(test, location, (1000 + i) << 9 | i);
		location = le32_to_cpu(moor_db_location(&db, 1));
		KUNIT_EXPECT_EQ(test, location, (1000 + i) << 9 | (511 - i));
	}
}

static struct kunit_case check_cases[] = {
	KUNIT_CASE(check_access),
	KUNIT_CASE_PARAM(check_range, range_gen_params),
	KUNIT_CASE(check_reasons),
	KUNIT_CASE(check_page_gone),
	KUNIT_CASE(check_errnos),
	KUNIT_CASE(check_doorbell),
	{}
};

static struct kunit_suite check_suite = {
	.name = "moor_check",
	.init = moor_bare_init,
	.exit = moor_bare_exit,
	.test_cases = check_cases,
};

kunit_test_suite(check_suite);
