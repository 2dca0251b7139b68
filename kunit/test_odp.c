// SPDX-License-Identifier: GPL-2.0
/*
 * On-demand paging: page requests and their answers, what is entered in tables, and
 * what is taken away when the process's memory goes.
 */

#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/uaccess.h>
#include <net/netlink.h>
#include <uapi/rdma/rdma_netlink.h>

#include "harness.h"

#define PAGED		(ALL_RIGHTS | IB_ACCESS_ON_DEMAND)
#define PAGES		8
#define LENGTH		(PAGES * PAGE_SIZE)
#define IOVA		0x123456000ULL
#define TO_WRITE		MOOR_PAGE_REQUEST_WRITE
#define RESPONDER	MOOR_PAGE_REQUEST_RESPONDER
#define REMOTE_WRITE	(MOOR_ACCESS_REMOTE_WRITE | MOOR_ACCESS_LOCAL_WRITE)

/* An MR of LENGTH whose pages are untouched, a QP that faults, and their process. */
struct paged {
	struct kunit *test;
	struct moor_pair pair;
	struct ib_mr *mr;
	unsigned long addr;
	u32 token;
	long pinned;		/* without @mr */
};

static struct ib_udata *no_udata(struct kunit *test, struct moor_pair *pair)
{
	return moor_user_udata(test, pair->user, NULL, 0, 0);
}

static struct ib_mr *paged_reg(struct paged *paged, u64 start, u64 length,
			       u64 iova, int access)
{
	return moor_kunit_reg_as(paged->pair.pd, start, length, iova, access,
				 no_udata(paged->test, &paged->pair));
}

static struct paged *paged_open_bare(struct kunit *test)
{
	struct paged *paged = kunit_kzalloc(test, sizeof(*paged), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, paged);
	paged->test = test;
	moor_pair_open(test, &paged->pair);
	paged->addr = moor_kunit_mmap(test, LENGTH, true);
	paged->pinned = moor_kunit_pinned();
	return paged;
}

static struct paged *paged_open(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);

	paged->mr = paged_reg(paged, paged->addr, LENGTH, IOVA, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	return paged;
}

static void paged_close(struct paged *paged)
{
	struct kunit *test = paged->test;

	if (paged->mr)
		KUNIT_EXPECT_EQ(test, moor_kunit_dereg(paged->mr), 0);
	moor_pair_close(test, &paged->pair);
}

static struct moor_odp *paged_odp(struct paged *paged)
{
	return to_mmr(paged->mr)->reg.odp;
}

/* Ask, and do not wait for the answer. */
static struct fake_page *ask_for(struct paged *paged, u32 key, u64 addr,
				 u32 length, u8 flags)
{
	return moor_pair_ask(&paged->pair, ++paged->token, key, addr, length,
			     flags);
}

static u8 ask_key(struct paged *paged, u32 key, u64 addr, u32 length, u8 flags)
{
	struct fake_page *page = ask_for(paged, key, addr, length, flags);

	moor_kunit_wait(paged->test, moor_is_answered(page));
	return page->status;
}

static u8 ask(struct paged *paged, u64 addr, u32 length, u8 flags)
{
	return ask_key(paged, paged->mr->lkey, addr, length, flags);
}

/* What the device makes of a byte: 0, or a syndrome. */
static int touch(struct paged *paged, u64 addr, bool write)
{
	u8 byte = 0x77;

	return fake_nic_access(moor_kunit_nic(), paged->mr->lkey,
			       write ? REMOTE_WRITE : 0, addr, &byte, 1, write);
}

static u32 invalidations(void)
{
	return moor_kunit_nic()->commands[MOOR_CMD_MR_INVALIDATE];
}

/* The branches that were emptied are taken away, by and by. */
static void expect_nodes(struct paged *paged, u32 nodes)
{
	moor_kunit_wait(paged->test,
			READ_ONCE(paged_odp(paged)->num_nodes) == nodes);
}

static void odp_entry(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	const struct moor_mr_context *entry = moor_kunit_entry(paged->mr->lkey);

	KUNIT_EXPECT_EQ(test, le32_to_cpu(entry->access),
			MOOR_ACCESS_COMMON | MOOR_ACCESS_ON_DEMAND);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(entry->length), LENGTH);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(entry->iova), IOVA);
	KUNIT_EXPECT_EQ(test, entry->xlat.levels, 2);
	KUNIT_EXPECT_EQ(test, entry->xlat.page_shift, MOOR_MIN_PAGE_SHIFT);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(entry->xlat.offset),
			paged->addr % MOOR_BRANCH_SIZE);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), paged->pinned);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA, false), MOOR_SYN_TRANSLATION);
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
	KUNIT_EXPECT_EQ(test, ask(paged, IOVA, 1, 0), MOOR_PAGE_RESOLVED);
	byte = 0;
	KUNIT_EXPECT_EQ(test, fake_nic_access(nic, paged->mr->lkey, 0, IOVA,
					      &byte, 1, false), 0);
	KUNIT_EXPECT_EQ(test, byte, 0x42);
	/* What the process may write, the device may. */
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA, true), 0);
	KUNIT_ASSERT_EQ(test, get_user(seen, (u8 __user *)paged->addr), 0);
	KUNIT_EXPECT_EQ(test, seen, 0x77);

	/* Untouched: the page of zeros, which is not to be written. */
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA + PAGE_SIZE, false),
			MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, ask(paged, IOVA + PAGE_SIZE + 99, 1, 0),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA + PAGE_SIZE, false), 0);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA + PAGE_SIZE, true),
			MOOR_SYN_TRANSLATION);
	before = invalidations();
	KUNIT_EXPECT_EQ(test, ask(paged, IOVA + PAGE_SIZE, 1, TO_WRITE | RESPONDER),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, invalidations(), before + 1);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA + PAGE_SIZE, true), 0);
	KUNIT_ASSERT_EQ(test, get_user(seen, (u8 __user *)paged->addr +
					     PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, seen, 0x77);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA + 2 * PAGE_SIZE, false),
			MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, atomic64_read(&paged_odp(paged)->counters.faults), 3);
	KUNIT_EXPECT_EQ(test, atomic64_read(&paged_odp(paged)->counters.handled), 3);
	KUNIT_EXPECT_EQ(test, atomic64_read(&paged_odp(paged)->counters.invalidations),
			1);
	paged_close(paged);
}

/* A MR that begins and ends within pages: these, and none beside them. */
static void odp_edges(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	u64 iova = IOVA + 100;

	paged->mr = paged_reg(paged, paged->addr + PAGE_SIZE + 100,
			      2 * PAGE_SIZE, iova, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	KUNIT_EXPECT_EQ(test, ask(paged, iova, U32_MAX, TO_WRITE),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, touch(paged, iova, true), 0);
	KUNIT_EXPECT_EQ(test, touch(paged, iova + 2 * PAGE_SIZE - 1, true), 0);
	KUNIT_EXPECT_EQ(test, ask(paged, iova + 2 * PAGE_SIZE, 1, 0),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, ask(paged, iova - 1, 1, 0), MOOR_PAGE_FAILED);
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, LENGTH), 0);
	expect_nodes(paged, 1);
	paged_close(paged);
}

/* Part of a branch goes, then the rest, and with it the branch. */
static void odp_invalidate(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct fake_nic *nic = moor_kunit_nic();

	KUNIT_EXPECT_EQ(test, ask(paged, IOVA, LENGTH, TO_WRITE),
			MOOR_PAGE_RESOLVED);
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr + 2 * PAGE_SIZE, PAGE_SIZE),
			0);
	KUNIT_EXPECT_EQ(test, invalidations(), 1);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(nic->invalidated.key), paged->mr->lkey);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(nic->invalidated.addr),
			IOVA + 2 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(nic->invalidated.length), PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA + PAGE_SIZE, true), 0);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA + 2 * PAGE_SIZE, false),
			MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA + 3 * PAGE_SIZE, true), 0);
	KUNIT_EXPECT_EQ(test, ask(paged, IOVA + 2 * PAGE_SIZE, 1, 0),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_odp(paged)->num_nodes, 2);

	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, LENGTH), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&paged_odp(paged)->counters.invalidations),
			PAGES);
	expect_nodes(paged, 1);
	KUNIT_EXPECT_EQ(test, ask(paged, IOVA, 1, 0), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_odp(paged)->num_nodes, 1);
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
	KUNIT_EXPECT_EQ(test, ask(paged, here, LENGTH, TO_WRITE),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, touch(paged, here, true), 0);
	full = entry->xlat.levels;
	KUNIT_EXPECT_EQ(test, paged_odp(paged)->num_nodes, full);
	/* Where nothing is, and beyond where anything can be. */
	KUNIT_EXPECT_EQ(test, ask(paged, PAGE_SIZE, 1, 0), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, ask(paged, TASK_SIZE, 1, 0), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, ask(paged, U64_MAX - 1, 1, 0), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, paged_odp(paged)->num_nodes, full);
	KUNIT_ASSERT_EQ(test, vm_munmap(here, LENGTH), 0);
	expect_nodes(paged, 1);
	paged_close(paged);
}

/* Implicit has one address and no promise; the others fail as pinned memory does. */
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
	/* Huge pages are promised with paging alone. */
	KUNIT_EXPECT_PTR_EQ(test, paged_reg(paged, at, LENGTH, at,
					    ALL_RIGHTS | IB_ACCESS_HUGETLB),
			    ERR_PTR(-EOPNOTSUPP));
	/* The kernel has nobody to answer its page requests. */
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
	KUNIT_EXPECT_EQ(test, ask(paged, 0, PAGE_SIZE, TO_WRITE),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, touch(paged, 0, true), 0);
	KUNIT_EXPECT_EQ(test, touch(paged, PAGE_SIZE - 1, true), 0);
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(moor_kunit_nic()->invalidated.addr), 0);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(moor_kunit_nic()->invalidated.length),
			PAGE_SIZE - 100);
	KUNIT_EXPECT_EQ(test, touch(paged, PAGE_SIZE - 1, true), 0);
	paged_close(paged);
}

/* What the process may only read, and an MR that is only to be read. */
static void odp_read_only(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	unsigned long fixed = moor_kunit_mmap(test, PAGE_SIZE, false);

	paged->mr = paged_reg(paged, fixed, PAGE_SIZE, fixed, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	KUNIT_EXPECT_EQ(test, ask(paged, fixed, 1, TO_WRITE), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, ask(paged, fixed, 1, 0), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, touch(paged, fixed, false), 0);
	KUNIT_EXPECT_EQ(test, touch(paged, fixed, true), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(paged->mr), 0);

	paged->mr = paged_reg(paged, paged->addr, LENGTH, IOVA,
			      IB_ACCESS_REMOTE_READ | IB_ACCESS_ON_DEMAND);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	KUNIT_EXPECT_EQ(test, ask(paged, IOVA, 1, TO_WRITE), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, ask(paged, IOVA, 1, 0), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA, false), 0);
	paged_close(paged);
}

/* Pages that are not as huge as they were said to be. */
static void odp_broken_promise(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);

	paged->mr = paged_reg(paged, paged->addr, LENGTH, IOVA,
			      PAGED | IB_ACCESS_HUGETLB);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	KUNIT_EXPECT_EQ(test, ask(paged, IOVA, 1, TO_WRITE), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA, false), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, paged_odp(paged)->num_nodes, 1);
	paged_close(paged);
}

/* Whatever the event says: an answer, and nothing that is not the QP's. */
static void odp_lies(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct moor_dev *mdev = test->priv;
	struct ib_pd *other = moor_kunit_pd(test);
	struct ib_mr *foreign, *pinned;
	u32 key;

	foreign = moor_kunit_reg_as(other, paged->addr, LENGTH, IOVA, PAGED,
				    no_udata(test, &paged->pair));
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, foreign);
	pinned = moor_kunit_reg(paged->pair.pd, paged->addr, LENGTH, IOVA, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pinned);
	KUNIT_ASSERT_EQ(test, moor_key_alloc_consumer(mdev, &key), 0);
	KUNIT_EXPECT_EQ(test, ask_key(paged, foreign->lkey, IOVA, 1, 0),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, to_mmr(foreign)->reg.odp->num_nodes, 1);
	KUNIT_EXPECT_EQ(test, ask_key(paged, pinned->lkey, IOVA, 1, 0),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, ask_key(paged, key, IOVA, 1, 0),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, ask_key(paged, paged->mr->lkey ^ 1, IOVA, 1, 0),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, ask_key(paged, 0, IOVA, 1, 0), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, ask_key(paged, U32_MAX, IOVA, 1, 0),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, ask(paged, U64_MAX, U32_MAX, 0xff),
			MOOR_PAGE_FAILED);
	KUNIT_EXPECT_EQ(test, ask(paged, IOVA, 0, 0), MOOR_PAGE_RESOLVED);
	moor_key_free(mdev, key);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(pinned), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(foreign), 0);
	moor_kunit_pd_free(test, other);
	paged_close(paged);
}

/* A QP that there is not, and one of a process that has nothing paged: no answer. */
static void odp_nobody_asks(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	struct fake_nic *nic = moor_kunit_nic();
	struct fake_page *page;

	page = ask_for(paged, 0, 0, 1, 0);
	moor_eq_sync(&((struct moor_dev *)test->priv)->page_eq);
	paged->pair.qp->qpn ^= 1 << FAKE_QP_INDEX_BITS;
	ask_for(paged, 0, 0, 1, 0);
	paged->pair.qp->qpn ^= 1 << FAKE_QP_INDEX_BITS;
	fake_nic_event(nic, MOOR_EQ_PAGE_REQUEST, MOOR_EVENT_COMM_EST, 0);
	paged->mr = paged_reg(paged, paged->addr, LENGTH, IOVA, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	/* All that came before has been handled when this one is. */
	KUNIT_EXPECT_EQ(test, ask(paged, IOVA, 1, 0), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_FALSE(test, moor_is_answered(page));
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_PAGE_RESPONSE], 1);
	paged_close(paged);
}

/* Who reads on and on is given more and more. */
static void odp_sequential(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	u64 length = 4 * SZ_1M, at;
	u32 faults = 0;

	paged->addr = moor_kunit_mmap(test, length, true);
	paged->mr = paged_reg(paged, paged->addr, length, IOVA, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	for (at = IOVA; at < IOVA + length; at += PAGE_SIZE) {
		if (!touch(paged, at, true))
			continue;
		KUNIT_ASSERT_EQ(test, ask(paged, at, PAGE_SIZE, TO_WRITE),
				MOOR_PAGE_RESOLVED);
		KUNIT_ASSERT_EQ(test, touch(paged, at, true), 0);
		faults++;
	}
	KUNIT_EXPECT_LE(test, faults, 16);
	kunit_info(test, "%u page requests\n", faults);
	/* Who jumps about is not. */
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, length), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(paged->mr), 0);
	paged->addr = moor_kunit_mmap(test, length, true);
	paged->mr = paged_reg(paged, paged->addr, length, IOVA, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	for (at = IOVA + 64 * PAGE_SIZE; at > IOVA; at -= 2 * PAGE_SIZE) {
		KUNIT_ASSERT_EQ(test, ask(paged, at, 1, 0), MOOR_PAGE_RESOLVED);
		KUNIT_EXPECT_EQ(test, touch(paged, at + PAGE_SIZE, false),
				MOOR_SYN_TRANSLATION);
	}
	paged_close(paged);
}

/* Keeps everybody away from the process's memory. */
struct hog {
	struct mm_struct *mm;
	struct completion begun;
	struct completion over;
	struct completion gone;
};

static int hog_run(void *data)
{
	struct hog *hog = data;

	mmap_write_lock(hog->mm);
	complete(&hog->begun);
	wait_for_completion(&hog->over);
	mmap_write_unlock(hog->mm);
	complete(&hog->gone);
	return 0;
}

static void hog_start(struct kunit *test, struct hog *hog)
{
	hog->mm = current->mm;
	init_completion(&hog->begun);
	init_completion(&hog->over);
	init_completion(&hog->gone);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(hog_run, hog, "hog"));
	wait_for_completion(&hog->begun);
}

static void hog_stop(struct hog *hog)
{
	complete(&hog->over);
	wait_for_completion(&hog->gone);
}

/* The process does not let anybody at its memory: nobody waits for that. */
static void odp_stuck(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_odp *odp = paged_odp(paged);
	struct moor_pager *pager = paged->pair.qp->pager;
	struct fake_page *page;
	struct hog hog;

	kref_get(&odp->ref);
	kref_get(&pager->ref);
	hog_start(test, &hog);
	page = ask_for(paged, paged->mr->lkey, IOVA, 1, 0);
	moor_kunit_wait(test, atomic64_read(&odp->counters.faults) == 1);
	KUNIT_EXPECT_EQ(test, moor_destroy_qp(&paged->pair.qp->ibqp, NULL), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(paged->mr), 0);
	KUNIT_EXPECT_FALSE(test, moor_is_answered(page));
	hog_stop(&hog);
	moor_kunit_wait(test, kref_read(&pager->ref) == 1);
	KUNIT_EXPECT_EQ(test, kref_read(&odp->ref), 1);
	KUNIT_EXPECT_FALSE(test, moor_is_answered(page));
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_PAGE_RESPONSE], 0);
	moor_odp_put(odp);
	moor_pager_close(pager);

	moor_kunit_pd_free(test, paged->pair.pd);
	KUNIT_EXPECT_EQ(test, moor_destroy_cq(&paged->pair.cq->ibcq, NULL), 0);
	moor_user_close(test, paged->pair.user);
}

static int paged_rereg(struct paged *paged, int flags, u64 start, u64 length,
		       u64 iova, int access)
{
	struct ib_mr *other;

	other = moor_rereg_user_mr(paged->mr, flags, start, length, iova, access,
				   paged->pair.pd,
				   no_udata(paged->test, &paged->pair));
	if (!other && flags & IB_MR_REREG_TRANS) {
		paged->mr->iova = iova;
		paged->mr->length = length;
	}
	return other ? PTR_ERR(other) : 0;
}

struct last_worker {
	struct work_struct work;
	struct moor_fault_queue *queue;
};

static void last_worker_run(struct work_struct *work)
{
	struct last_worker *last = container_of(work, struct last_worker, work);
	struct work_struct *end = &last->queue->destroy;
	int i;

	moor_faults_put(last->queue);
	while (!(work_busy(end) & WORK_BUSY_RUNNING))
		cond_resched();
	/* Who ends the queue gets as far as waiting for this one. */
	for (i = 0; i < 1000; i++)
		yield();
}

/* Whoever works on a page outlives the context: the workers go with the last one. */
static void odp_last_worker(struct kunit *test)
{
	int before = module_refcount(THIS_MODULE);
	struct moor_ucontext uctx = {};
	struct last_worker last;

	KUNIT_ASSERT_EQ(test, moor_faults_open(&uctx), 0);
	last.queue = uctx.faults;
	kref_get(&last.queue->ref);
	moor_faults_close(&uctx);
	KUNIT_EXPECT_EQ(test, module_refcount(THIS_MODULE), before + 1);
	INIT_WORK_ONSTACK(&last.work, last_worker_run);
	queue_work(last.queue->wq[MOOR_FAULT_PAGE], &last.work);
	moor_kunit_wait(test, module_refcount(THIS_MODULE) == before);
	destroy_work_on_stack(&last.work);
}

/* Re-registered while a page is waited for: the answer is for what it is then. */
static void odp_stuck_rereg(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct moor_odp *old = paged_odp(paged);
	struct fake_page *page;
	struct hog hog;

	kref_get(&old->ref);
	hog_start(test, &hog);
	page = ask_for(paged, paged->mr->lkey, IOVA, 1, TO_WRITE);
	moor_kunit_wait(test, atomic64_read(&old->counters.faults) == 1);
	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_PD, 0, 0, 0, 0), 0);
	KUNIT_EXPECT_PTR_NE(test, paged_odp(paged), old);
	hog_stop(&hog);
	moor_kunit_wait(test, moor_is_answered(page));
	KUNIT_EXPECT_EQ(test, page->status, MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA, true), 0);
	moor_odp_put(old);
	paged_close(paged);
}

/* A window is bound: nothing of the MR changes, its pages come and go. */
static void odp_busy(struct kunit *test)
{
	struct paged *paged = paged_open(test);

	KUNIT_EXPECT_EQ(test, ask(paged, IOVA, 1, TO_WRITE), MOOR_PAGE_RESOLVED);
	moor_kunit_hold(paged->mr, 1);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(paged->mr), -EBUSY);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA, true), 0);
	KUNIT_EXPECT_EQ(test, ask(paged, IOVA + PAGE_SIZE, 1, TO_WRITE),
			MOOR_PAGE_RESOLVED);
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA, true), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA + PAGE_SIZE, true), 0);
	moor_kunit_hold(paged->mr, 0);
	paged_close(paged);
}

/* A device that does not forget is stopped before the page is given back. */
static void odp_no_fence(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct fake_nic *nic = moor_kunit_nic();

	KUNIT_EXPECT_EQ(test, ask(paged, IOVA, 1, TO_WRITE), MOOR_PAGE_RESOLVED);
	nic->behave.fail_opcode = MOOR_CMD_MR_INVALIDATE;
	nic->behave.fail_status = MOOR_CMD_BAD_INDEX;
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, LENGTH), 0);
	nic->behave.fail_status = 0;
	KUNIT_EXPECT_TRUE(test, moor_is_dead(test->priv));
	paged_close(paged);
}

/*
 * Nobody may be waiting any more. Any other refusal leaves somebody waiting for ever: the
 * device is stopped.
 */
static void odp_answer_refused(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;

	nic->behave.fail_opcode = MOOR_CMD_PAGE_RESPONSE;
	nic->behave.fail_status = MOOR_CMD_BAD_INDEX;
	ask_for(paged, paged->mr->lkey, IOVA, 1, 0);
	moor_kunit_wait(test, READ_ONCE(nic->commands[MOOR_CMD_PAGE_RESPONSE]) == 1);
	nic->behave.fail_status = 0;
	KUNIT_EXPECT_EQ(test, ask(paged, IOVA + PAGE_SIZE, 1, 0),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(mdev));
	nic->behave.fail_status = MOOR_CMD_BAD_PARAM;
	ask_for(paged, paged->mr->lkey, IOVA, 1, 0);
	moor_kunit_wait(test, moor_is_dead(mdev));
	nic->behave.fail_status = 0;
	paged_close(paged);
}

/* On a device that is dead pages go without asking, and nobody waits. */
static void odp_dead(struct kunit *test)
{
	struct paged *paged = paged_open(test);

	KUNIT_EXPECT_EQ(test, ask(paged, IOVA, LENGTH, TO_WRITE),
			MOOR_PAGE_RESOLVED);
	moor_hw_kill(test->priv, NULL);
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, invalidations(), 0);
	KUNIT_EXPECT_PTR_EQ(test, paged_reg(paged, paged->addr, LENGTH, IOVA,
					    PAGED), ERR_PTR(-EIO));
	paged_close(paged);
}

/* Into paging and out of it, by the rights alone or with another range. */
static void odp_rereg(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	u64 at = paged->addr;

	KUNIT_EXPECT_EQ(test, ask(paged, IOVA, 1, TO_WRITE), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_ACCESS, 0, 0, 0,
					  ALL_RIGHTS), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), paged->pinned + PAGES);
	KUNIT_EXPECT_NULL(test, paged_odp(paged));
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA, true), 0);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA + LENGTH - 1, true), 0);
	KUNIT_EXPECT_EQ(test, ask(paged, IOVA, 1, TO_WRITE), MOOR_PAGE_FAILED);

	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_ACCESS, 0, 0, 0,
					  PAGED | IB_ZERO_BASED), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), paged->pinned);
	KUNIT_EXPECT_EQ(test, touch(paged, 0, true), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, ask(paged, 0, 1, TO_WRITE), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, touch(paged, 0, true), 0);

	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_ACCESS, 0, 0, 0,
					  PAGED), 0);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA, true), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, ask(paged, IOVA, LENGTH, TO_WRITE),
			MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_TRANS, 0, U64_MAX,
					  0, 0), 0);
	KUNIT_EXPECT_EQ(test, ask(paged, at, 1, TO_WRITE), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, touch(paged, at, true), 0);

	/* So much cannot be pinned. What was, still is. */
	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_ACCESS, 0, 0, 0,
					  ALL_RIGHTS), -EINVAL);
	KUNIT_EXPECT_EQ(test, touch(paged, at, true), 0);
	moor_kunit_hold(paged->mr, 1);
	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_TRANS, at, LENGTH,
					  IOVA, 0), -EBUSY);
	KUNIT_EXPECT_EQ(test, touch(paged, at, true), 0);
	moor_kunit_hold(paged->mr, 0);
	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_TRANS |
						 IB_MR_REREG_ACCESS,
					  at, LENGTH, IOVA, ALL_RIGHTS), 0);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA, true), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), paged->pinned + PAGES);
	paged_close(paged);
}

static int advise(struct paged *paged, u32 key, u64 addr, u32 length,
		  enum ib_uverbs_advise_mr_advice advice, u32 flags)
{
	struct ib_sge sge = { .addr = addr, .length = length, .lkey = key };

	return moor_advise_mr(paged->pair.pd, advice, flags, &sge, 1,
			      &paged->pair.user->attrs);
}

#define PREFETCH	IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH
#define PREFETCH_WRITE	IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define NO_FAULT	IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
#define FLUSH		IB_UVERBS_ADVISE_MR_FLAG_FLUSH

static void odp_advise(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	u32 key = paged->mr->lkey;

	KUNIT_EXPECT_EQ(test, advise(paged, key, IOVA, LENGTH, NO_FAULT, FLUSH),
			0);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA, false), MOOR_SYN_TRANSLATION);
	KUNIT_ASSERT_EQ(test, put_user(1, (u8 __user *)paged->addr + PAGE_SIZE), 0);
	KUNIT_ASSERT_EQ(test, put_user(1, (u8 __user *)paged->addr +
					  3 * PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, advise(paged, key, IOVA, LENGTH, NO_FAULT, FLUSH),
			0);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA, false), MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA + PAGE_SIZE, false), 0);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA + 2 * PAGE_SIZE, false),
			MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA + 3 * PAGE_SIZE, false), 0);
	KUNIT_EXPECT_EQ(test, advise(paged, key, IOVA + 1, LENGTH - 1, PREFETCH,
				     FLUSH), 0);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA + LENGTH - 1, false), 0);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA + LENGTH - 1, true),
			MOOR_SYN_TRANSLATION);
	KUNIT_EXPECT_EQ(test, advise(paged, key, IOVA, LENGTH, PREFETCH_WRITE,
				     FLUSH), 0);
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA + LENGTH - 1, true), 0);
	/* Each was entered twice, zeros first, but for those that were there. */
	KUNIT_EXPECT_EQ(test, atomic64_read(&paged_odp(paged)->counters.prefetch),
			2 * PAGES - 2);
	KUNIT_EXPECT_EQ(test, atomic64_read(&paged_odp(paged)->counters.faults), 0);
	paged_close(paged);
}

static void odp_advise_refused(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct ib_pd *other = moor_kunit_pd(test);
	struct moor_dev *mdev = test->priv;
	u32 key = paged->mr->lkey, consumer;
	struct ib_mr *foreign, *fixed;

	foreign = moor_kunit_reg_as(other, paged->addr, LENGTH, IOVA, PAGED,
				    no_udata(test, &paged->pair));
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, foreign);
	fixed = paged_reg(paged, paged->addr, LENGTH, IOVA, IB_ACCESS_ON_DEMAND);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixed);
	KUNIT_ASSERT_EQ(test, moor_key_alloc_consumer(mdev, &consumer), 0);
	KUNIT_EXPECT_EQ(test, advise(paged, key, IOVA, LENGTH, 99, FLUSH),
			-EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, advise(paged, key ^ 1, IOVA, 1, PREFETCH, FLUSH),
			-ENOENT);
	KUNIT_EXPECT_EQ(test, advise(paged, consumer, IOVA, 1, PREFETCH, FLUSH),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, advise(paged, foreign->lkey, IOVA, 1, PREFETCH, 0),
			-EPERM);
	KUNIT_EXPECT_EQ(test, advise(paged, fixed->lkey, IOVA, 1, PREFETCH_WRITE,
				     0), -EPERM);
	KUNIT_EXPECT_EQ(test, advise(paged, fixed->lkey, IOVA, 1, PREFETCH,
				     FLUSH), 0);
	KUNIT_EXPECT_EQ(test, advise(paged, key, IOVA, LENGTH + 1, PREFETCH, 0),
			-EFAULT);
	KUNIT_EXPECT_EQ(test, advise(paged, key, IOVA - 1, 1, PREFETCH, 0),
			-EFAULT);
	KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, PAGE_SIZE), 0);
	KUNIT_EXPECT_EQ(test, advise(paged, key, IOVA, LENGTH, PREFETCH, FLUSH),
			-EFAULT);
	KUNIT_EXPECT_EQ(test, advise(paged, key, IOVA, LENGTH, NO_FAULT, FLUSH),
			-EFAULT);
	KUNIT_EXPECT_EQ(test, paged_odp(paged)->num_nodes, 1);
	moor_key_free(mdev, consumer);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(fixed), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_dereg(foreign), 0);
	moor_kunit_pd_free(test, other);
	paged_close(paged);
}

struct advisor {
	struct paged *paged;
	struct completion done;
};

static int advisor_run(void *data)
{
	struct advisor *advisor = data;
	struct paged *paged = advisor->paged;

	advise(paged, paged->mr->lkey, IOVA, LENGTH, PREFETCH_WRITE, 0);
	complete_all(&advisor->done);
	return 0;
}

/* In the background, and no more than so much of it: who wants more waits for it. */
static void odp_advise_later(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct moor_fault_queue *queue = paged->pair.user->uctx.faults;
	struct advisor advisor = { .paged = paged };
	struct hog hog;
	u32 i;

	init_completion(&advisor.done);
	hog_start(test, &hog);
	for (i = 0; i < 16; i++)
		KUNIT_EXPECT_EQ(test, advise(paged, paged->mr->lkey, IOVA,
					     LENGTH, PREFETCH_WRITE, 0), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue->prefetches), 16);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, kthread_run(advisor_run, &advisor,
						       "advisor"));
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&advisor.done, HZ), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&queue->prefetches), 16);
	hog_stop(&hog);
	wait_for_completion(&advisor.done);
	moor_kunit_wait(test, !atomic_read(&queue->prefetches));
	KUNIT_EXPECT_EQ(test, touch(paged, IOVA + LENGTH - 1, true), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&paged_odp(paged)->counters.prefetch),
			PAGES);
	paged_close(paged);
}

/* Each allocation fails in turn: of the first fault in a branch, and its nodes. */
static void odp_no_memory(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	struct moor_dev *mdev = test->priv;
	u32 nth, failed = 0;
	bool reached = true;
	int err;

	paged->mr = paged_reg(paged, 0, U64_MAX, 0, PAGED);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	KUNIT_ASSERT_EQ(test, put_user(1, (u8 __user *)paged->addr), 0);
	for (nth = 1; reached && nth < 500; nth++) {
		moor_nodes_destroy(mdev);
		current->fail_nth = nth;
		err = advise(paged, paged->mr->lkey, paged->addr, 1, NO_FAULT,
			     FLUSH);
		reached = !current->fail_nth;
		current->fail_nth = 0;
		if (!err && reached) {
			/* Without harm: once more from the beginning. */
			KUNIT_ASSERT_EQ(test, vm_munmap(paged->addr, LENGTH), 0);
			expect_nodes(paged, 1);
			paged->addr = moor_kunit_mmap(test, LENGTH, true);
			KUNIT_ASSERT_EQ(test, put_user(1, (u8 __user *)paged->addr),
					0);
		}
		if (!err)
			continue;
		failed++;
		KUNIT_EXPECT_EQ(test, err, -ENOMEM);
		KUNIT_EXPECT_EQ(test, paged_odp(paged)->num_nodes, 1);
		KUNIT_EXPECT_TRUE(test, xa_empty(&paged_odp(paged)->nodes));
		KUNIT_EXPECT_TRUE(test, xa_empty(&paged_odp(paged)->branches));
	}
	kunit_info(test, "%u allocations failed in turn\n", failed);
	KUNIT_EXPECT_GE(test, failed, 3);
	KUNIT_EXPECT_EQ(test, touch(paged, paged->addr, true), 0);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(mdev));
	paged_close(paged);
}

/* Memory of which there is none, for some time. */
struct shortage {
	struct page *page;
	u32 left;		/* faults that find none */
	u32 met;		/* that have */
};

static vm_fault_t shortage_fault(struct vm_fault *vmf)
{
	struct shortage *shortage = vmf->vma->vm_private_data;

	if (shortage->left) {
		shortage->left--;
		shortage->met++;
		return VM_FAULT_OOM;
	}
	get_page(shortage->page);
	vmf->page = shortage->page;
	return 0;
}

static const struct vm_operations_struct shortage_vm_ops = {
	.fault = shortage_fault,
};

static int shortage_mmap(struct file *file, struct vm_area_struct *vma)
{
	vma->vm_ops = &shortage_vm_ops;
	vma->vm_private_data = file->private_data;
	return 0;
}

static const struct file_operations shortage_ops = {
	.owner = THIS_MODULE,
	.mmap = shortage_mmap,
};

/* At an address, or if that is 0 anywhere. */
static unsigned long shortage_map(struct kunit *test, struct shortage *shortage,
				  unsigned long at)
{
	unsigned long flags = MAP_SHARED | (at ? MAP_FIXED : 0);
	struct file *file;

	file = anon_inode_getfile("shortage", &shortage_ops, shortage, O_RDWR);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, file);
	at = vm_mmap(file, at, PAGE_SIZE, PROT_READ, flags, 0);
	fput(file);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(at));
	return at;
}

/* Memory is short for a moment: nobody is told. For longer: the fault fails. */
static void odp_short_of_memory(struct kunit *test)
{
	struct paged *paged = paged_open_bare(test);
	struct shortage shortage = { .left = 5 };
	unsigned long at = shortage_map(test, &shortage, 0);
	struct moor_odp_counters *counters;

	shortage.page = alloc_page(GFP_KERNEL | __GFP_ZERO);
	KUNIT_ASSERT_NOT_NULL(test, shortage.page);
	paged->mr = paged_reg(paged, at, PAGE_SIZE, at,
			      IB_ACCESS_REMOTE_READ | IB_ACCESS_ON_DEMAND);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, paged->mr);
	counters = &paged_odp(paged)->counters;
	KUNIT_EXPECT_EQ(test, ask(paged, at, 1, 0), MOOR_PAGE_RESOLVED);
	KUNIT_EXPECT_EQ(test, shortage.met, 5);
	KUNIT_EXPECT_EQ(test, touch(paged, at, false), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&counters->faults), 1);

	shortage_map(test, &shortage, at);
	shortage.left = U32_MAX;
	shortage.met = 0;
	KUNIT_EXPECT_EQ(test, ask(paged, at, 1, 0), MOOR_PAGE_FAILED);
	KUNIT_EXPECT_GT(test, shortage.met, 5);
	KUNIT_EXPECT_LT(test, shortage.met, 20);
	KUNIT_EXPECT_EQ(test, atomic64_read(&counters->faults), 2);
	KUNIT_EXPECT_EQ(test, atomic64_read(&counters->handled), 1);
	KUNIT_EXPECT_EQ(test, advise(paged, paged->mr->lkey, at, 1, PREFETCH,
				     FLUSH), -ENOMEM);
	KUNIT_ASSERT_EQ(test, vm_munmap(at, PAGE_SIZE), 0);
	paged_close(paged);
	__free_page(shortage.page);
}

/* With few vectors page requests come with the asynchronous events. */
static void odp_few_vectors(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev;
	struct paged *paged;

	nic->behave.odd_register = MOOR_REG_NUM_VECTORS;
	nic->behave.odd_value = MOOR_VECTOR_ASYNC + 2;
	mdev = moor_kunit_replug(test, 0);
	KUNIT_EXPECT_EQ(test, mdev->num_comp, 1);
	KUNIT_EXPECT_EQ(test, nic->eqs[MOOR_EQ_PAGE_REQUEST].vector,
			MOOR_VECTOR_ASYNC);
	paged = paged_open(test);
	KUNIT_EXPECT_EQ(test, ask(paged, IOVA, 1, 0), MOOR_PAGE_RESOLVED);
	paged_close(paged);
	nic->behave.odd_register = 0;
}

/* A device without paging, to a driver that has it. */
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
			IB_ODP_SUPPORT_ATOMIC | IB_ODP_SUPPORT_SRQ_RECV);
	KUNIT_EXPECT_EQ(test, caps->per_transport_caps.uc_odp_caps,
			IB_ODP_SUPPORT_SEND);
	KUNIT_EXPECT_EQ(test, caps->per_transport_caps.ud_odp_caps,
			IB_ODP_SUPPORT_SEND);
}

/* "rdma statistic show mr"; a message too short is left as it was. */
static void odp_statistic(struct kunit *test)
{
	struct paged *paged = paged_open(test);
	struct sk_buff *msg;
	size_t room;
	u32 len;

	msg = nlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, msg);
	KUNIT_EXPECT_EQ(test, moor_fill_stat_mr_entry(msg, paged->mr), 0);
	KUNIT_EXPECT_EQ(test, nla_type((struct nlattr *)msg->data),
			RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	/* Less by more than what alignment may have cost. */
	room = msg->len - 4 * sizeof(u64);
	nlmsg_free(msg);
	while (room) {
		room -= 4;
		msg = nlmsg_new(NLMSG_GOODSIZE, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, msg);
		skb_put(msg, skb_tailroom(msg) - room);
		len = msg->len;
		KUNIT_EXPECT_EQ(test, moor_fill_stat_mr_entry(msg, paged->mr),
				-EMSGSIZE);
		KUNIT_EXPECT_EQ(test, msg->len, len);
		nlmsg_free(msg);
	}
	KUNIT_EXPECT_EQ(test, paged_rereg(paged, IB_MR_REREG_ACCESS, 0, 0, 0, 0),
			0);
	KUNIT_EXPECT_EQ(test, moor_fill_stat_mr_entry(NULL, paged->mr), 0);
	paged_close(paged);
}

static struct kunit_case odp_cases[] = {
	KUNIT_CASE(odp_entry),
	KUNIT_CASE(odp_fault),
	KUNIT_CASE(odp_edges),
	KUNIT_CASE(odp_invalidate),
	KUNIT_CASE(odp_implicit),
	KUNIT_CASE(odp_refused),
	KUNIT_CASE(odp_zero_based),
	KUNIT_CASE(odp_read_only),
	KUNIT_CASE(odp_broken_promise),
	KUNIT_CASE(odp_lies),
	KUNIT_CASE(odp_nobody_asks),
	KUNIT_CASE(odp_sequential),
	KUNIT_CASE(odp_stuck),
	KUNIT_CASE(odp_stuck_rereg),
	KUNIT_CASE(odp_last_worker),
	KUNIT_CASE(odp_busy),
	KUNIT_CASE(odp_no_fence),
	KUNIT_CASE(odp_answer_refused),
	KUNIT_CASE(odp_dead),
	KUNIT_CASE(odp_rereg),
	KUNIT_CASE(odp_advise),
	KUNIT_CASE(odp_advise_refused),
	KUNIT_CASE(odp_advise_later),
	KUNIT_CASE(odp_no_memory),
	KUNIT_CASE(odp_short_of_memory),
	KUNIT_CASE(odp_few_vectors),
	KUNIT_CASE(odp_absent),
	KUNIT_CASE(odp_caps),
	KUNIT_CASE(odp_statistic),
	{}
};

static struct kunit_suite odp_suite = {
	.name = "moor_odp",
	.init = moor_kunit_init_all,
	.exit = moor_kunit_exit,
	.test_cases = odp_cases,
};

kunit_test_suite(odp_suite);
