// SPDX-License-Identifier: GPL-2.0
/*
 * Why a registration failed: the limit, the page, the flag, each with the values that
 * the caller needs; and looking for the page leaves nothing pinned.
 */

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/resource.h>
#include <linux/sched/signal.h>

#include "harness.h"

static const struct moor_refusal *last_refusal(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct moor_refusals *refusals = &mdev->refusals;

	KUNIT_ASSERT_GT(test, refusals->count, 0);
	return &refusals->last[(refusals->count - 1) % MOOR_REFUSALS_KEPT].refusal;
}

/* An ordinary user: without CAP_IPC_LOCK, and with a limit of memory to lock. */
struct limited {
	const struct cred *old;
	struct cred *cred;
	struct rlimit rlimit;
};

static void limit_begin(struct kunit *test, struct limited *limited, u64 bytes)
{
	struct rlimit *rlimit = &current->signal->rlim[RLIMIT_MEMLOCK];

	limited->cred = prepare_creds();
	KUNIT_ASSERT_NOT_NULL(test, limited->cred);
	cap_lower(limited->cred->cap_effective, CAP_IPC_LOCK);
	limited->old = override_creds(limited->cred);
	limited->rlimit = *rlimit;
	*rlimit = (struct rlimit){ bytes, bytes };
}

static void limit_end(struct limited *limited)
{
	current->signal->rlim[RLIMIT_MEMLOCK] = limited->rlimit;
	revert_creds(limited->old);
	put_cred(limited->cred);
}

/* Which limit, and how much of it is used, in bytes. */
static void refusal_memlock(struct kunit *test)
{
	const u64 limit = REGION_LENGTH + 3 * PAGE_SIZE;
	struct moor_region *region = moor_region_new(test, 0);
	unsigned long addr = moor_kunit_mmap(test, REGION_LENGTH, true);
	const struct moor_refusal *why;
	struct limited limited;
	struct ib_mr *mr;

	limit_begin(test, &limited, limit);
	mr = moor_kunit_reg(region->pd, addr, 4 * PAGE_SIZE, addr, 0);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -ENOMEM);
	why = last_refusal(test);
	KUNIT_EXPECT_EQ(test, why->reason, MOOR_REFUSAL_MEMLOCK);
	KUNIT_EXPECT_EQ(test, why->limit, limit);
	KUNIT_EXPECT_EQ(test, why->value, REGION_LENGTH);
	KUNIT_EXPECT_EQ(test, why->error, ENOMEM);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), REGION_PAGES);

	/* A page less fits. */
	mr = moor_kunit_reg(region->pd, addr, 3 * PAGE_SIZE, addr, 0);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), 0);
	if (!IS_ERR(mr))
		KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	limit_end(&limited);

	limit_begin(test, &limited, 0);
	mr = moor_kunit_reg(region->pd, addr, 1, addr, 0);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EPERM);
	why = last_refusal(test);
	KUNIT_EXPECT_EQ(test, why->reason, MOOR_REFUSAL_MEMLOCK);
	KUNIT_EXPECT_EQ(test, why->limit, 0);
	limit_end(&limited);
	moor_region_free(test, region);
}

struct hole {
	const char *name;
	u32 pages;		/* of the registration */
	u32 first;		/* page of it that is not mapped, or read-only */
	u32 inside;		/* where in its page the registration starts */
	int access;
	bool read_only;
};

static const struct hole holes[] = {
	{ "the first page", 3, 0, 0, 0 },
	{ "the first page, from inside", 3, 0, 100, 0 },
	{ "the second page, from inside", 3, 1, 100, 0 },
	{ "the last page", 24, 23, 4095, 0 },
	{ "the last looked at in one go", 40, 31, 0, 0 },
	{ "the first behind that", 40, 32, 0, 0 },
	{ "read-only, to be written", 40, 33, 7, IB_ACCESS_LOCAL_WRITE, true },
};

static void hole_desc(const struct hole *hole, char *desc)
{
	strscpy(desc, hole->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(hole, holes, hole_desc);

/* The refusal as a process gets it that asks for it. */
static void asked(struct kunit *test, const struct moor_refusal *why,
		  struct moor_refusal *told)
{
	struct moor_ucontext *uctx = kunit_kzalloc(test, sizeof(*uctx), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, uctx);
	uctx->refusal = *why;
	moor_refusal_last(test->priv, uctx, told);
}

/* The first page that cannot be pinned, found whatever lies before it. */
static void refusal_page(struct kunit *test)
{
	const struct hole *hole = test->param_value;
	size_t length = hole->pages * PAGE_SIZE;
	unsigned long addr = moor_kunit_mmap(test, length, true);
	unsigned long at = addr + hole->first * PAGE_SIZE;
	unsigned long start = addr + hole->inside;
	struct ib_pd *pd = moor_kunit_pd(test);
	const struct moor_refusal *why;
	struct moor_refusal told;
	struct ib_mr *mr;

	KUNIT_ASSERT_EQ(test, vm_munmap(at, PAGE_SIZE), 0);
	if (hole->read_only)
		KUNIT_ASSERT_EQ(test, vm_mmap(NULL, at, PAGE_SIZE, PROT_READ,
					      MAP_ANONYMOUS | MAP_PRIVATE |
					      MAP_FIXED, 0), at);
	mr = moor_kunit_reg(pd, start, length - hole->inside, start, hole->access);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EFAULT);
	why = last_refusal(test);
	KUNIT_EXPECT_EQ(test, why->reason, MOOR_REFUSAL_PAGE);
	/* The page is looked for when the refusal is asked for. */
	KUNIT_EXPECT_EQ(test, why->value, 0);
	asked(test, why, &told);
	KUNIT_EXPECT_EQ(test, told.value, max(at, start));
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	/* Without that page it works. */
	if (hole->first) {
		mr = moor_kunit_reg(pd, start, at - start, start, hole->access);
		KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), 0);
		if (!IS_ERR(mr))
			KUNIT_EXPECT_EQ(test, moor_kunit_dereg(mr), 0);
	}
	moor_kunit_pd_free(test, pd);
}

struct refused {
	const char *name;
	u64 length;
	int access;
	u32 reason;
	u64 value;
	u64 limit;
};

static const struct refused refuseds[] = {
	{ "nothing", 0, 0, MOOR_REFUSAL_LENGTH, 0, 1ULL << 40 },
	{ "too much", 2ULL << 40, 0, MOOR_REFUSAL_LENGTH, 2ULL << 40,
	  1ULL << 40 },
	{ "one flag of three", 1, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_ON_DEMAND |
	  IB_ACCESS_REMOTE_READ, MOOR_REFUSAL_FLAGS, IB_ACCESS_ON_DEMAND },
	{ "two flags", 1, IB_ACCESS_ON_DEMAND | IB_ACCESS_HUGETLB,
	  MOOR_REFUSAL_FLAGS, IB_ACCESS_ON_DEMAND | IB_ACCESS_HUGETLB },
	{ "rights without local write", 1, IB_ACCESS_REMOTE_WRITE |
	  IB_ACCESS_REMOTE_READ, MOOR_REFUSAL_FLAGS, IB_ACCESS_REMOTE_WRITE },
};

static void refused_desc(const struct refused *refused, char *desc)
{
	strscpy(desc, refused->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(refused, refuseds, refused_desc);

static void refusal_argument(struct kunit *test)
{
	const struct refused *refused = test->param_value;
	unsigned long addr = moor_kunit_mmap(test, PAGE_SIZE, true);
	struct ib_pd *pd = moor_kunit_pd(test);
	const struct moor_refusal *why;
	struct ib_mr *mr;

	mr = moor_kunit_reg(pd, addr, refused->length, addr, refused->access);
	KUNIT_EXPECT_TRUE(test, IS_ERR(mr));
	why = last_refusal(test);
	KUNIT_EXPECT_EQ(test, why->error, -PTR_ERR(mr));
	KUNIT_EXPECT_EQ(test, why->reason, refused->reason);
	KUNIT_EXPECT_EQ(test, why->value, refused->value);
	KUNIT_EXPECT_EQ(test, why->limit, refused->limit);
	KUNIT_EXPECT_EQ(test, why->start, addr);
	KUNIT_EXPECT_EQ(test, why->length, refused->length);
	KUNIT_EXPECT_EQ(test, why->access, refused->access);
	moor_kunit_pd_free(test, pd);
}

/* The device's limit, and a device that is dead. */
static void refusal_device(struct kunit *test)
{
	const u32 most = FAKE_CONSUMER_FIRST - MOOR_MR_INDEX_FIRST;
	unsigned long addr = moor_kunit_mmap(test, PAGE_SIZE, true);
	struct ib_mr **mrs = kunit_kcalloc(test, most, sizeof(*mrs), GFP_KERNEL);
	struct ib_pd *pd = moor_kunit_pd(test);
	const struct moor_refusal *why;
	struct ib_mr *mr;
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, mrs);
	for (i = 0; i < most; i++) {
		mrs[i] = moor_kunit_reg(pd, addr, 1, addr, 0);
		KUNIT_ASSERT_FALSE(test, IS_ERR(mrs[i]));
	}
	mr = moor_kunit_reg(pd, addr, 1, addr, 0);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -ENOMEM);
	why = last_refusal(test);
	KUNIT_EXPECT_EQ(test, why->reason, MOOR_REFUSAL_MR_LIMIT);
	KUNIT_EXPECT_EQ(test, why->limit, most);
	KUNIT_EXPECT_EQ(test, why->value, most);
	/* The kernel's own MRs count, too. */
	mr = moor_get_dma_mr(pd, 0);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -ENOMEM);

	moor_hw_kill(test->priv, "a test asks for it");
	mr = moor_kunit_reg(pd, addr, 1, addr, 0);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EIO);
	KUNIT_EXPECT_EQ(test, last_refusal(test)->reason, MOOR_REFUSAL_DEVICE);
	for (i = 0; i < most; i++)
		KUNIT_ASSERT_EQ(test, moor_kunit_dereg(mrs[i]), 0);
	moor_kunit_pd_free(test, pd);
}

static struct kunit_case refusal_cases[] = {
	KUNIT_CASE(refusal_memlock),
	KUNIT_CASE_PARAM(refusal_page, hole_gen_params),
	KUNIT_CASE_PARAM(refusal_argument, refused_gen_params),
	KUNIT_CASE(refusal_device),
	{}
};

static struct kunit_suite refusal_suite = {
	.name = "moor_refusal",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = refusal_cases,
};

kunit_test_suite(refusal_suite);
