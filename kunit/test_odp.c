// SPDX-License-Identifier: GPL-2.0
/*
 * On-demand paging: page requests and their answers, what is entered in tables, and
 * what is taken away when the process's memory goes.
 */

#include <linux/mman.h>
#include <linux/uaccess.h>

#include "paged.h"

static void odp_entry(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	const struct moor_mr_context *entry = moor_kunit_entry(paged->mr->lkey);

	KUNIT_EXPECT_EQ(test, le32_to_cpu(entry->access),
			ALL_RIGHTS | MOOR_ACCESS_ON_DEMAND);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(entry->length), LENGTH);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(entry->iova), IOVA);
	KUNIT_EXPECT_EQ(test, entry->xlat.levels, 2);
	KUNIT_EXPECT_EQ(test, entry->xlat.page_shift, MOOR_MIN_PAGE_SHIFT);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(entry->xlat.offset),
			paged->addr % MOOR_BRANCH_SIZE);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), paged->pinned);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA, false), MOOR_SYN_TRANSLATION);
	paged_close(paged);
}

/* Read and write faults, by either half; and the data, both ways. */
static void odp_fault(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	u8 byte = 0x42, seen;
	u32 before;

	KUNIT_ASSERT_EQ(test, put_user(byte, (u8 __user *)paged->addr), 0);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, 0), MOOR_PAGE_RESOLVED);
	byte = 0;
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, paged->mr->lkey, 0, IOVA,
					      &byte, 1, false), 0);
	KUNIT_EXPECT_EQ(test, byte, 0x42);
	/* The device may write pages that the process may write. */
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA, true), 0);
	KUNIT_ASSERT_EQ(test, get_user(seen, (u8 __user *)paged->addr), 0);
	KUNIT_EXPECT_EQ(test, seen, 0x77);

	/* An untouched page is the page of zeros, which must not be written. */
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + PAGE_SIZE, false),
			MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA + PAGE_SIZE + 99, 1, 0),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + PAGE_SIZE, false), 0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + PAGE_SIZE, true),
			MOOR_SYN_TRANSLATION);
	before = paged_invalidations();
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA + PAGE_SIZE, 1, TO_WRITE | RESPONDER),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, paged_invalidations(), before + 1);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + PAGE_SIZE, true), 0);
	KUNIT_ASSERT_EQ(test, get_user(seen, (u8 __user *)paged->addr +
				       PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, seen, 0x77);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + 2 * PAGE_SIZE, false),
			MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, atomic64_read(&paged_odp(paged)->counters.faults), 3);
	KUNIT_EXPECT_EQ(test, atomic64_read(&paged_odp(paged)->counters.handled), 3);
	KUNIT_EXPECT_EQ(test, atomic64_read(&paged_odp(paged)->counters.invalidations),
			1);
	paged_close(paged);
}

/* An MR that begins and ends within pages: these are mapped, but none beside them. */
static void odp_edges(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	u64 iova = IOVA + 100;

	paged->mr = paged_reg(paged, paged->addr + PAGE_SIZE + 100,
			      2 * PAGE_SIZE, iova, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, iova, U32_MAX, TO_WRITE),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, iova, true), 0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, iova + 2 * PAGE_SIZE - 1, true), 0);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, iova + 2 * PAGE_SIZE, 1, 0),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, iova - 1, 1, 0), MOOR_PAGE_FAILED);
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, LENGTH), 0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, iova, false), MOOR_SYN_TRANSLATION);
	paged_close(paged);
}

/* Part of a branch is unmapped, then the rest; the MR keeps the branch. */
static void odp_invalidate(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct fake_nic *nic = moor_kunit_nic();

	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, LENGTH, TO_WRITE),
			MOOR_PAGE_RESOLVED);
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr + 2 * PAGE_SIZE, PAGE_SIZE),
			0);
	KUNIT_EXPECT_EQ(test, paged_invalidations(), 1);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(nic->invalidated.key), paged->mr->lkey);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(nic->invalidated.addr),
			IOVA + 2 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(nic->invalidated.length), PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + PAGE_SIZE, true), 0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + 2 * PAGE_SIZE, false),
			MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + 3 * PAGE_SIZE, true), 0);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA + 2 * PAGE_SIZE, 1, 0),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_odp(paged)->num_nodes, 2);

	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, LENGTH), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&paged_odp(paged)->counters.invalidations),
			PAGES);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA, false), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, 0), MOOR_PAGE_FAILED);
	paged_expect_nodes(paged, 2);
	paged_close(paged);
}

/* What is refused is the end of the range, not a page that is not mapped yet. */
static void odp_refused_range(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	struct moor_refusal told;
	struct ib_mr *mr;

	mr = paged_reg(paged, TASK_SIZE - PAGE_SIZE, 2 * PAGE_SIZE, 0, PAGED);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(mr), -EFAULT);
	moor_refusal_last(test->priv, &paged->pair.user->uctx, &told);
	KUNIT_EXPECT_EQ(test, told.reason, MOOR_REFUSAL_PAGE);
	KUNIT_EXPECT_EQ(test, told.value, TASK_SIZE);
	paged_close(paged);
}

/* A fault where the process has no memory fails, and leaves no nodes. */
static void odp_hole(struct kunit *test)
{
	struct paged *paged = paged_open(test);

	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, LENGTH), 0);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, 0), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, LENGTH, TO_WRITE),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_odp(paged)->num_nodes, 1);
	paged_close(paged);
}

/* Map new memory in the place of the old. */
static void odp_replace(struct kunit *test, struct paged *paged)
{
	KUNIT_ASSERT_EQ(test, vm_mmap(NULL, paged->addr, LENGTH,
				      PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, 0),
			paged->addr);
}

/* New memory in place of all pages of a branch is entered in the same branch. */
static void odp_refilled(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct moor_branch *branch;
	unsigned long first = 0;
	u8 seen;

	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, TO_WRITE), MOOR_PAGE_RESOLVED);
	branch = xa_find(&paged_odp(paged)->branches, &first, ULONG_MAX, XA_PRESENT);
	KUNIT_ASSERT_NOT_NULL(test, branch);
	odp_replace(test, paged);
	KUNIT_EXPECT_EQ(test, paged_invalidations(), 1);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA, true), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, TO_WRITE), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&paged_odp(paged)->branches, first), branch);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA, true), 0);
	KUNIT_ASSERT_EQ(test, get_user(seen, (u8 __user *)paged->addr), 0);
	KUNIT_EXPECT_EQ(test, seen, 0x77);
	paged_close(paged);
}

/* All of the process's memory: branches, and the nodes above, come and go. */
static void odp_implicit(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	const struct moor_mr_context *entry;
	unsigned long here = paged->addr;
	u32 full;

	paged->mr = paged_reg(paged, 0, U64_MAX, 0, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	entry = moor_kunit_entry(paged->mr->lkey);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(entry->iova), 0);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(entry->length), U64_MAX);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(entry->xlat.offset), 0);
	KUNIT_EXPECT_GE(test, entry->xlat.levels, 3);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, here, LENGTH, TO_WRITE),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, here, true), 0);
	full = entry->xlat.levels;
	KUNIT_EXPECT_EQ(test, paged_odp(paged)->num_nodes, full);
	/* Where nothing is mapped, and beyond the process's addresses. */
	KUNIT_EXPECT_EQ(test, paged_ask(paged, PAGE_SIZE, 1, 0), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, PAGE_SIZE, LENGTH, 0),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, TASK_SIZE, 1, 0), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, U64_MAX - 1, 1, 0), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_odp(paged)->num_nodes, full);
	KUNIT_ASSERT_EQ(test, vm_munmap(here, LENGTH), 0);
	paged_expect_nodes(paged, 1);
	paged_close(paged);
}

/* An empty branch that is filled again in time stays; otherwise it is taken away. */
static void odp_implicit_refilled(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	unsigned long here = paged->addr;
	struct moor_odp *odp;
	u32 full;

	paged->mr = paged_reg(paged, 0, U64_MAX, 0, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	odp = paged_odp(paged);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, here, 1, TO_WRITE), MOOR_PAGE_RESOLVED);
	full = odp->num_nodes;
	odp_replace(test, paged);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, here, 1, TO_WRITE), MOOR_PAGE_RESOLVED);
	paged_expect_nodes(paged, full);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, here, true), 0);
	KUNIT_ASSERT_EQ(test, vm_munmap(here, LENGTH), 0);
	paged_expect_nodes(paged, 1);
	paged_close(paged);
}

/* An MR is deregistered while a branch of it waits to be taken away. */
static void odp_implicit_ends(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	struct moor_odp *odp;

	paged->mr = paged_reg(paged, 0, U64_MAX, 0, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	odp = paged_odp(paged);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, paged->addr, 1, TO_WRITE),
			MOOR_PAGE_RESOLVED);
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, LENGTH), 0);
	kref_get(&odp->ref);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(paged->mr), 0);
	paged->mr = NULL;
	KUNIT_EXPECT_FALSE(test, delayed_work_pending(&odp->reap));
	KUNIT_EXPECT_EQ(test, kref_read(&odp->ref), 1);
	moor_odp_put(odp);
	paged_close(paged);
}

/* An implicit MR has iova 0 and no huge pages; other checks are as for pinned memory. */
static void odp_refused(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	struct moor_ucontext *uctx = &paged->pair.user->uctx;
	u64 at = paged->addr;

	KUNIT_EXPECT_PTR_EQ(test, paged_reg(paged, 0, U64_MAX, PAGE_SIZE, PAGED),
			    ERR_PTR(-EINVAL));
	KUNIT_EXPECT_EQ(test, uctx->refusal.reason, MOOR_REFUSAL_IOVA);
	KUNIT_EXPECT_PTR_EQ(test, paged_reg(paged, 0, U64_MAX, 0,
					    PAGED | IB_ZERO_BASED),
			    ERR_PTR(-EINVAL));
	KUNIT_EXPECT_EQ(test, uctx->refusal.value, IB_ZERO_BASED);
	KUNIT_EXPECT_PTR_EQ(test, paged_reg(paged, 0, U64_MAX, 0,
					    PAGED | IB_ACCESS_HUGETLB),
			    ERR_PTR(-EINVAL));
	KUNIT_EXPECT_EQ(test, uctx->refusal.value, IB_ACCESS_HUGETLB);
	KUNIT_EXPECT_PTR_EQ(test, paged_reg(paged, 0, U64_MAX, 0, ALL_RIGHTS),
			    ERR_PTR(-EINVAL));
	KUNIT_EXPECT_PTR_EQ(test, paged_reg(paged, at, 0, at, PAGED),
			    ERR_PTR(-EINVAL));
	KUNIT_EXPECT_PTR_EQ(test, paged_reg(paged, at, U64_MAX - 1, at, PAGED),
			    ERR_PTR(-EINVAL));
	KUNIT_EXPECT_PTR_EQ(test, paged_reg(paged, at, LENGTH, at + 1, PAGED),
			    ERR_PTR(-EINVAL));
	KUNIT_EXPECT_PTR_EQ(test, paged_reg(paged, at, LENGTH, at,
					    IB_ACCESS_ON_DEMAND |
					    IB_ACCESS_REMOTE_WRITE),
			    ERR_PTR(-EINVAL));
	/* IB_ACCESS_HUGETLB needs IB_ACCESS_ON_DEMAND. */
	KUNIT_EXPECT_PTR_EQ(test, paged_reg(paged, at, LENGTH, at,
					    ALL_RIGHTS | IB_ACCESS_HUGETLB),
			    ERR_PTR(-EOPNOTSUPP));
	/* Kernel users have no context that answers page requests. */
	KUNIT_EXPECT_PTR_EQ(test, moor_kunit_reg(paged->pair.pd, at, LENGTH, at,
						 PAGED),
			    ERR_PTR(-EOPNOTSUPP));
	KUNIT_EXPECT_PTR_EQ(test, moor_get_dma_mr(paged->pair.pd,
						  IB_ACCESS_ON_DEMAND),
			    ERR_PTR(-EOPNOTSUPP));
	paged_close(paged);
}

static void odp_zero_based(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);

	paged->mr = paged_reg(paged, paged->addr + 100, PAGE_SIZE, 100,
			      PAGED | IB_ZERO_BASED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, 0, PAGE_SIZE, TO_WRITE),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, 0, true), 0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, PAGE_SIZE - 1, true), 0);
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(moor_kunit_nic()->invalidated.addr), 0);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(moor_kunit_nic()->invalidated.length),
			PAGE_SIZE - 100);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, PAGE_SIZE - 1, true), 0);
	paged_close(paged);
}

/* Memory that the process may only read, and an MR without write rights. */
static void odp_read_only(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	unsigned long fixed = moor_kunit_mmap(test, PAGE_SIZE, false);

	paged->mr = paged_reg(paged, fixed, PAGE_SIZE, fixed, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, fixed, 1, TO_WRITE), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, fixed, 1, 0), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, fixed, false), 0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, fixed, true), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(paged->mr), 0);

	paged->mr = paged_reg(paged, paged->addr, LENGTH, IOVA,
			      IB_ACCESS_REMOTE_READ | IB_ACCESS_ON_DEMAND);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, TO_WRITE), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, 0), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA, false), 0);
	paged_close(paged);
}

/* Pages that are not huge, in an MR with IB_ACCESS_HUGETLB. */
static void odp_broken_promise(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);

	paged->mr = paged_reg(paged, paged->addr, LENGTH, IOVA,
			      PAGED | IB_ACCESS_HUGETLB);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, TO_WRITE), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA, false), MOOR_SYN_TRANSLATION);
	paged_close(paged);
}

/* A false page request is answered, and no memory is mapped that the QP may not use. */
static void odp_lies(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct moor_dev *mdev = test->priv;
	struct ib_pd *other = moor_kunit_pd(test);
	struct ib_mr *foreign, *pinned;
	u32 key;

	foreign = moor_kunit_reg_as(other, paged->addr, LENGTH, IOVA, PAGED,
				    paged_udata(test, &paged->pair));
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, foreign);
	pinned = moor_kunit_reg(paged->pair.pd, paged->addr, LENGTH, IOVA, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pinned);
	KUNIT_ASSERT_EQ(test, moor_key_alloc_consumer(mdev, &key), 0);
	KUNIT_EXPECT_EQ(test, paged_ask_key(paged, foreign->lkey, IOVA, 1, 0),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, to_mmr(foreign)->reg.odp->num_nodes, 1);
	KUNIT_EXPECT_EQ(test, paged_ask_key(paged, pinned->lkey, IOVA, 1, 0),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_ask_key(paged, key, IOVA, 1, 0),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_ask_key(paged, paged->mr->lkey ^ 1, IOVA, 1, 0),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_ask_key(paged, 0, IOVA, 1, 0), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_ask_key(paged, U32_MAX, IOVA, 1, 0),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, U64_MAX, U32_MAX, 0xff),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 0, 0), MOOR_PAGE_RESOLVED);
	moor_key_free(mdev, key);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(pinned), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(foreign), 0);
	moor_kunit_pd_free(test, other);
	paged_close(paged);
}

/* Sequential faults map more and more pages each. */
static void odp_sequential(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	u64 length = 4 * SZ_1M, at;
	u32 faults = 0;

	paged->addr = moor_kunit_mmap(test, length, true);
	paged->mr = paged_reg(paged, paged->addr, length, IOVA, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	for (at = IOVA; at < IOVA + length; at += PAGE_SIZE) {
		if (!paged_touch(paged, at, true))
			continue;
		KUNIT_ASSERT_EQ(test, paged_ask(paged, at, PAGE_SIZE, TO_WRITE),
				MOOR_PAGE_RESOLVED);
		KUNIT_ASSERT_EQ(test, paged_touch(paged, at, true), 0);
		faults++;
	}
	KUNIT_EXPECT_LE(test, faults, 16);
	kunit_info(test, "%u page requests\n", faults);
	/* Faults in another order map one page each. */
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, length), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(paged->mr), 0);
	paged->addr = moor_kunit_mmap(test, length, true);
	paged->mr = paged_reg(paged, paged->addr, length, IOVA, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	for (at = IOVA + 64 * PAGE_SIZE; at > IOVA; at -= 2 * PAGE_SIZE) {
		KUNIT_ASSERT_EQ(test, paged_ask(paged, at, 1, 0), MOOR_PAGE_RESOLVED);
		KUNIT_EXPECT_EQ(test, paged_touch(paged, at + PAGE_SIZE, false),
				MOOR_SYN_TRANSLATION);
	}
	paged_close(paged);
}

/* A device that refuses to invalidate is stopped before the page is given back. */
static void odp_no_fence(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct fake_nic *nic = moor_kunit_nic();

	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, TO_WRITE), MOOR_PAGE_RESOLVED);
	nic->behave.fail_opcode = MOOR_CMD_MR_INVALIDATE;
	nic->behave.fail_status = MOOR_CMD_BAD_INDEX;
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, LENGTH), 0);
	nic->behave.fail_status = 0;
	KUNIT_EXPECT_TRUE(test, moor_is_dead(test->priv));
	paged_close(paged);
}

/* Re-register from paged to pinned memory and back, with the same range or another. */
static void odp_rereg(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	u64 at = paged->addr;

	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, TO_WRITE), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_ACCESS, 0, 0, 0,
					  ALL_RIGHTS), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), paged->pinned + PAGES);
	KUNIT_EXPECT_NULL(test, paged_odp(paged));
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA, true), 0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA + LENGTH - 1, true), 0);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, 1, TO_WRITE), MOOR_PAGE_FAILED);

	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_ACCESS, 0, 0, 0,
					  PAGED | IB_ZERO_BASED), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), paged->pinned);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, 0, true), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, 0, 1, TO_WRITE), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, 0, true), 0);

	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_ACCESS, 0, 0, 0,
					  PAGED), 0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA, true), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, IOVA, LENGTH, TO_WRITE),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_TRANS, 0, U64_MAX,
					  0, 0), 0);
	KUNIT_EXPECT_EQ(test, paged_ask(paged, at, 1, TO_WRITE), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, at, true), 0);

	/* So much memory cannot be pinned: the MR stays as it was. */
	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_ACCESS, 0, 0, 0,
					  ALL_RIGHTS), -EINVAL);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, at, true), 0);
	moor_kunit_hold(paged->mr, 1);
	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_TRANS, at, LENGTH,
					  IOVA, 0), -EBUSY);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, at, true), 0);
	moor_kunit_hold(paged->mr, 0);
	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_TRANS |
					  IB_MR_REREG_ACCESS,
					  at, LENGTH, IOVA, ALL_RIGHTS), 0);
	KUNIT_EXPECT_EQ(test, paged_touch(paged, IOVA, true), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), paged->pinned + PAGES);
	paged_close(paged);
}

/* A device without paging. */
static void odp_absent(struct kunit *test)
{
	struct moor_dev *mdev = moor_kunit_replug(test, MOOR_FEATURE_ODP);
	struct paged *paged;

	KUNIT_EXPECT_FALSE(test, mdev->ibdev.attrs.kernel_cap_flags &
			   IBK_ON_DEMAND_PAGING);
	KUNIT_EXPECT_EQ(test, mdev->ibdev.attrs.odp_caps.general_caps, 0);
	KUNIT_EXPECT_NULL(test, mdev->ibdev.ops.advise_mr);
	paged = paged_open_bare(test);
	KUNIT_EXPECT_NULL(test, paged->pair.qp->pager);
	KUNIT_EXPECT_PTR_EQ(test, paged_reg(paged, paged->addr, LENGTH, IOVA,
					    PAGED), ERR_PTR(-EOPNOTSUPP));
	paged_close(paged);
}

static void odp_caps(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	const struct ib_odp_caps *caps = &mdev->ibdev.attrs.odp_caps;

	KUNIT_EXPECT_TRUE(test, mdev->ibdev.attrs.kernel_cap_flags &
			  IBK_ON_DEMAND_PAGING);
	KUNIT_EXPECT_EQ(test, caps->general_caps,
			IB_ODP_SUPPORT | IB_ODP_SUPPORT_IMPLICIT);
	KUNIT_EXPECT_EQ(test, caps->per_transport_caps.rc_odp_caps,
			IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV |
			IB_ODP_SUPPORT_WRITE | IB_ODP_SUPPORT_READ |
			IB_ODP_SUPPORT_ATOMIC | IB_ODP_SUPPORT_SRQ_RECV |
			IB_ODP_SUPPORT_FLUSH | IB_ODP_SUPPORT_ATOMIC_WRITE);
	KUNIT_EXPECT_EQ(test, caps->per_transport_caps.xrc_odp_caps,
			caps->per_transport_caps.rc_odp_caps);
	KUNIT_EXPECT_EQ(test, caps->per_transport_caps.uc_odp_caps,
			IB_ODP_SUPPORT_SEND);
	KUNIT_EXPECT_EQ(test, caps->per_transport_caps.ud_odp_caps,
			IB_ODP_SUPPORT_SEND);
}

/* What a device does not have is not there for paging either. */
static void odp_caps_of_less(struct kunit *test)
{
	struct moor_dev *mdev = moor_kunit_replug(test, MOOR_FEATURE_ATOMICS |
						  MOOR_FEATURE_UC);
	const struct ib_odp_caps *caps = &mdev->ibdev.attrs.odp_caps;

	KUNIT_EXPECT_EQ(test, caps->per_transport_caps.rc_odp_caps,
			IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV |
			IB_ODP_SUPPORT_WRITE | IB_ODP_SUPPORT_READ |
			IB_ODP_SUPPORT_SRQ_RECV | IB_ODP_SUPPORT_FLUSH |
			IB_ODP_SUPPORT_ATOMIC_WRITE);
	KUNIT_EXPECT_EQ(test, caps->per_transport_caps.uc_odp_caps, 0);
}

static struct kunit_case odp_cases[] = {
	KUNIT_CASE(odp_entry),
	KUNIT_CASE(odp_refused_range),
	KUNIT_CASE(odp_fault),
	KUNIT_CASE(odp_edges),
	KUNIT_CASE(odp_invalidate),
	KUNIT_CASE(odp_hole),
	KUNIT_CASE(odp_refilled),
	KUNIT_CASE(odp_implicit),
	KUNIT_CASE(odp_implicit_refilled),
	KUNIT_CASE(odp_implicit_ends),
	KUNIT_CASE(odp_refused),
	KUNIT_CASE(odp_zero_based),
	KUNIT_CASE(odp_read_only),
	KUNIT_CASE(odp_broken_promise),
	KUNIT_CASE(odp_lies),
	KUNIT_CASE(odp_sequential),
	KUNIT_CASE(odp_no_fence),
	KUNIT_CASE(odp_rereg),
	KUNIT_CASE(odp_absent),
	KUNIT_CASE(odp_caps),
	KUNIT_CASE(odp_caps_of_less),
	{}
};

static struct kunit_suite odp_suite = {
	.name = "moor_odp",
	.init = moor_kunit_init_all,
	.exit = moor_kunit_exit,
	.test_cases = odp_cases,
};

kunit_test_suite(odp_suite);
