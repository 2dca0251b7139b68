// SPDX-License-Identifier: GPL-2.0
/*
 * The pages of a branch: entered when the process has them, taken away when they go.
 * The branch's lock, which is taken in reclaim (see odp.c), protects all of this.
 */

#include <linux/dma-mapping.h>
#include <linux/hmm.h>
#include <linux/memremap.h>
#include <linux/mm.h>

#include "moor.h"
#include "trace.h"

/*
 * An IOMMU lets the device write what the process may write, and no more: a page
 * that is only read may be shared by many processes (KSM, a file).
 */
static enum dma_data_direction moor_odp_direction(u64 pte)
{
	return pte & MOOR_PTE_WRITABLE ? DMA_BIDIRECTIONAL : DMA_TO_DEVICE;
}

/*
 * The process still has the page: a task that takes the page away waits for the branch's
 * lock in the notifier. So the page can be marked dirty, though we hold no reference.
 */
static void moor_branch_unmap_page(struct moor_branch *branch, u32 index,
				   size_t size)
{
	struct moor_odp_page *page = &branch->pages[index];
	struct moor_odp *odp = branch->odp;

	lockdep_assert_held(&branch->lock);
	if (page->page) {
		dma_unmap_page(&odp->mdev->pdev->dev, page->pte & MOOR_PTE_ADDR,
			       size, moor_odp_direction(page->pte));
		if (page->pte & MOOR_PTE_WRITABLE)
			set_page_dirty(compound_head(page->page));
	}
	*page = (struct moor_odp_page){};
}

static void moor_branch_unmap(struct moor_branch *branch, u32 first, u32 end)
{
	u32 i;

	if (branch->huge) {
		moor_branch_unmap_page(branch, 0, MOOR_BRANCH_SIZE);
		branch->huge = false;
		return;
	}
	for (i = first; i < end; i++)
		moor_branch_unmap_page(branch, i, MOOR_PAGE_SIZE);
}

/* Make entries absent. Returns how many pages were there. */
static u32 moor_branch_clear(struct moor_branch *branch, u32 first, u32 end)
{
	__le64 *entries = moor_node_entries(&branch->table);
	u32 i, gone = 0;

	for (i = first; i < end; i++) {
		if (!branch->pages[i].pte)
			continue;
		WRITE_ONCE(entries[i], 0);
		gone++;
	}
	return gone;
}

/* Take pages from the device; a huge page as a whole (HWI ODP-18). */
static void moor_branch_zap(struct moor_branch *branch, u64 start, u64 end)
{
	struct moor_odp *odp = branch->odp;
	u32 first, last, gone;

	lockdep_assert_held(&branch->lock);
	if (branch->huge) {
		start = branch->start;
		end = moor_branch_end(branch);
	}
	first = moor_page_index(branch, start);
	last = moor_page_index(branch, end);
	gone = branch->huge ? branch->present :
			      moor_branch_clear(branch, first, last);
	if (!gone)
		return;
	branch->present -= gone;
	if (!branch->present)
		WRITE_ONCE(*branch->slot, 0);
	moor_odp_fence(odp, start, end);
	moor_branch_unmap(branch, first, last);
	atomic64_add(gone, &odp->counters.invalidations);
	trace_moor_odp_invalidate(odp, start, end, gone);
}

/*
 * Lock a branch. Who may not sleep, as when memory is taken from a process that was
 * killed for want of memory, cannot wait for a fence: the branch has to be empty.
 */
static bool moor_branch_lock(struct moor_branch *branch, bool blockable)
{
	if (blockable) {
		mutex_lock(&branch->lock);
		return true;
	}
	if (!mutex_trylock(&branch->lock))
		return false;
	if (!branch->present)
		return true;
	mutex_unlock(&branch->lock);
	return false;
}

/* Some of the process's memory is about to go, or to be protected otherwise. */
static bool moor_branch_invalidate(struct mmu_interval_notifier *notifier,
				   const struct mmu_notifier_range *range,
				   unsigned long seq)
{
	struct moor_branch *branch =
		container_of(notifier, struct moor_branch, notifier);

	if (!moor_branch_lock(branch, mmu_notifier_range_blockable(range)))
		return false;
	mmu_interval_set_seq(notifier, seq);
	if (branch->present) {
		moor_branch_zap(branch,
				max_t(u64, range->start, branch->start),
				min_t(u64, range->end, moor_branch_end(branch)));
		if (!branch->present)
			moor_odp_emptied(branch);
	}
	mutex_unlock(&branch->lock);
	return true;
}

const struct mmu_interval_notifier_ops moor_branch_ops = {
	.invalidate = moor_branch_invalidate,
};

/**
 * moor_branch_is_empty - has the last page of a branch gone?
 * @branch: branch
 *
 * Context: with the odp's lock: pages are entered only under that lock
 *
 * Return: whether it has; then the branch stays empty while that lock is held
 */
bool moor_branch_is_empty(struct moor_branch *branch)
{
	bool empty;

	mutex_lock(&branch->lock);
	empty = !branch->present;
	mutex_unlock(&branch->lock);
	return empty;
}

/**
 * moor_branch_drop_pages - let the pages of a branch go
 * @branch: branch that the device does not use any more
 */
void moor_branch_drop_pages(struct moor_branch *branch)
{
	mutex_lock(&branch->lock);
	moor_branch_unmap(branch, 0, MOOR_NODE_ENTRIES);
	branch->present = 0;
	mutex_unlock(&branch->lock);
}

/* The bits of a page's entry, from what the process may do with the page. */
static u64 moor_odp_bits(const struct moor_odp *odp, unsigned long pfn)
{
	u64 bits = MOOR_PTE_PRESENT | MOOR_PTE_LEAF;

	if (pfn & HMM_PFN_WRITE && odp->writable)
		bits |= MOOR_PTE_WRITABLE;
	return bits;
}

static bool moor_pfn_is_huge(unsigned long pfn)
{
	return pfn & HMM_PFN_VALID &&
	       hmm_pfn_to_map_order(pfn) >= MOOR_NODE_SHIFT;
}

/*
 * Map a page for DMA. The kernel's page of zeros, which a process reads where it has
 * not written yet, is part of the kernel's image. The device gets a page of zeros of
 * its own instead.
 */
static int moor_odp_map_page(struct moor_odp *odp, struct moor_odp_page *page,
			     unsigned long pfn, size_t size, u64 bits)
{
	struct device *dev = &odp->mdev->pdev->dev;
	struct page *from = hmm_pfn_to_page(pfn);
	dma_addr_t dma;

	if (is_zero_pfn(page_to_pfn(from))) {
		page->pte = odp->mdev->zeros_dma | bits;
		return 0;
	}
	if (is_pci_p2pdma_page(from))
		return -EFAULT;
	dma = dma_map_page(dev, from, 0, size, moor_odp_direction(bits));
	if (dma_mapping_error(dev, dma))
		return -ENOMEM;
	page->page = from;
	page->pte = dma | bits;
	return 0;
}

/*
 * A page that was entered for reading may become writable without an invalidation (a
 * child that shared it has ended). It is mapped for reading, so take it away, to be
 * entered anew. As a fence takes time, there is one for all such pages, which what lies
 * between them pays for.
 */
static void moor_branch_zap_upgraded(struct moor_branch *branch, u32 first,
				     u32 end)
{
	const unsigned long *pfns = branch->odp->pfns;
	u32 from = end, to = end, i;

	for (i = first; i < end; i++) {
		u64 pte = branch->pages[i].pte;

		if (!pte || !(pfns[i] & HMM_PFN_VALID) ||
		    !(moor_odp_bits(branch->odp, pfns[i]) & ~pte))
			continue;
		from = min(from, i);
		to = i + 1;
	}
	if (from < end)
		moor_branch_zap(branch, branch->start + (u64)from * MOOR_PAGE_SIZE,
				branch->start + (u64)to * MOOR_PAGE_SIZE);
}

/* Enter a page. The store is one of eight bytes (HWI ODP-18). */
static int moor_branch_set(struct moor_branch *branch, u32 index, size_t size,
			   unsigned long pfn, __le64 *entry)
{
	struct moor_odp_page *page = &branch->pages[index];
	u64 bits = moor_odp_bits(branch->odp, pfn);
	int err;

	lockdep_assert_held(&branch->lock);
	if (page->pte)
		return 0;
	err = moor_odp_map_page(branch->odp, page, pfn, size, bits);
	if (err)
		return err;
	branch->present += size >> MOOR_MIN_PAGE_SHIFT;
	/* The page's contents before its entry (HWI ODP-18). */
	dma_wmb();
	WRITE_ONCE(*entry, cpu_to_le64(page->pte));
	return 0;
}

/* Enter the whole branch as one leaf, if it is one huge page that allows that. */
static bool moor_branch_set_huge(struct moor_branch *branch, bool write)
{
	struct moor_odp *odp = branch->odp;
	unsigned long pfn = odp->pfns[0];

	if (branch->present && !branch->huge)
		return false;
	if (branch->start < odp->start || moor_branch_end(branch) > odp->end)
		return false;
	if (!moor_pfn_is_huge(pfn) || (write && !(pfn & HMM_PFN_WRITE)) ||
	    (pfn & ~HMM_PFN_FLAGS) % MOOR_NODE_ENTRIES)
		return false;
	moor_branch_zap_upgraded(branch, 0, 1);
	if (moor_branch_set(branch, 0, MOOR_BRANCH_SIZE, pfn, branch->slot))
		return false;
	branch->huge = true;
	return true;
}

/* May the device have this page as it is? */
static int moor_odp_check_pfn(const struct moor_odp *odp, unsigned long pfn)
{
	if (pfn & HMM_PFN_ERROR)
		return -EFAULT;
	if (odp->huge && pfn & HMM_PFN_VALID && !moor_pfn_is_huge(pfn))
		return -EINVAL;
	return 0;
}

static long moor_branch_set_pages(struct moor_branch *branch, u32 first,
				  u32 end, bool write)
{
	__le64 *entries = moor_node_entries(&branch->table);
	const unsigned long *pfns = branch->odp->pfns;
	unsigned long need = HMM_PFN_VALID | (write ? HMM_PFN_WRITE : 0);
	long served = 0;
	int err;
	u32 i;

	moor_branch_zap_upgraded(branch, first, end);
	for (i = first; i < end; i++) {
		err = moor_odp_check_pfn(branch->odp, pfns[i]);
		if (!err && pfns[i] & HMM_PFN_VALID)
			err = moor_branch_set(branch, i, MOOR_PAGE_SIZE,
					      pfns[i], &entries[i]);
		if (err && i == first)
			served = err;
		if (!err && (pfns[i] & need) == need && served == i - first)
			served++;
	}
	if (branch->present) {
		/* The node's contents before the entry that points to the node. */
		dma_wmb();
		WRITE_ONCE(*branch->slot, moor_node_entry(&branch->table));
	}
	return served;
}

/**
 * moor_branch_set_range - enter the pages that the process has
 * @branch: branch
 * @start: address of a page
 * @end: behind the last page
 * @write: to be written
 *
 * Those pages are in &moor_odp.pfns.
 *
 * Return: as moor_odp_map().
 */
long moor_branch_set_range(struct moor_branch *branch, u64 start, u64 end,
			   bool write)
{
	u32 first = moor_page_index(branch, start);
	u32 last = moor_page_index(branch, end);

	lockdep_assert_held(&branch->lock);
	if (moor_branch_set_huge(branch, write))
		return last - first;
	/* The leaf cannot stay: not a huge page any more, or not writable as asked. */
	if (branch->huge)
		moor_branch_zap(branch, branch->start, moor_branch_end(branch));
	return moor_branch_set_pages(branch, first, last, write);
}
