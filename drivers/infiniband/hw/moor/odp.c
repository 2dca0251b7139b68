// SPDX-License-Identifier: GPL-2.0
/*
 * On-demand paging: the table of an MR whose pages come and go (HWI 6.10).
 *
 * The table is sparse. Branches of 2 MiB of the process's address space are made at
 * the first fault in them, with the nodes above, and taken away when their last page
 * has gone; so explicit and implicit MRs differ in their height alone. Explicit ones
 * begin at the 2 MiB boundary below their first byte, so that a branch is one node
 * everywhere, and one leaf where the process has a huge page.
 *
 * Locks, the outermost first: &moor_odp.lock (the tree), mmap_lock, reclaim,
 * &moor_branch.lock (the pages). Invalidations come from within reclaim and take the
 * last of these alone: under it nothing is allocated that could wait, nor is a lock
 * taken under which anybody does so. The core's ib_umem_odp is not used: since 7.x
 * hmm_range_fault() writes, without the mutex that invalidations take, the very flags
 * that say what is mapped for DMA.
 */

#include <linux/dma-mapping.h>
#include <linux/hmm.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "moor.h"
#include "trace.h"

/* Times that invalidations may get in the way before the device asks anew. */
#define MOOR_ODP_TRIES	16

/**
 * moor_odp_init - what all translations of a device share
 * @mdev: device
 *
 * Return: 0 or -ENOMEM.
 */
int moor_odp_init(struct moor_dev *mdev)
{
	struct device *dev = &mdev->pdev->dev;

	if (!moor_has_odp(mdev))
		return 0;
	mdev->zeros = alloc_page(GFP_KERNEL | __GFP_ZERO);
	if (!mdev->zeros)
		return -ENOMEM;
	mdev->zeros_dma = dma_map_page(dev, mdev->zeros, 0, PAGE_SIZE,
				       DMA_TO_DEVICE);
	if (dma_mapping_error(dev, mdev->zeros_dma)) {
		__free_page(mdev->zeros);
		return -ENOMEM;
	}
	return 0;
}

void moor_odp_destroy(struct moor_dev *mdev)
{
	if (!moor_has_odp(mdev))
		return;
	dma_unmap_page(&mdev->pdev->dev, mdev->zeros_dma, PAGE_SIZE,
		       DMA_TO_DEVICE);
	__free_page(mdev->zeros);
}

static u64 moor_branch_end(const struct moor_branch *branch)
{
	return branch->start + MOOR_BRANCH_SIZE;
}

static unsigned long moor_branch_id(const struct moor_odp *odp, u64 addr)
{
	return (addr - odp->base) >> MOOR_BRANCH_SHIFT;
}

static u32 moor_page_index(const struct moor_branch *branch, u64 addr)
{
	return (addr - branch->start) >> MOOR_MIN_PAGE_SHIFT;
}

static __le64 *moor_node_entries(const struct moor_table *table)
{
	return table->nodes->pte;
}

static __le64 moor_node_entry(const struct moor_table *table)
{
	return cpu_to_le64(table->nodes->dma | MOOR_PTE_PRESENT);
}

/* One node, empty. */
static int moor_odp_alloc_node(struct moor_odp *odp, struct moor_table *table)
{
	int err = moor_table_alloc_nodes(odp->mdev, table, 1);

	if (err)
		return err;
	memset(moor_node_entries(table), 0, MOOR_PAGE_SIZE);
	odp->num_nodes++;
	return 0;
}

static void moor_odp_free_node(struct moor_odp *odp, struct moor_table *table)
{
	moor_table_free(odp->mdev, table);
	odp->num_nodes--;
}

/*
 * The device forgets a range (HWI ODP-19); afterwards its memory may be unmapped. If
 * it refuses because the key is being taken away, the fence that does so counts, and
 * is waited for. A device that refuses otherwise is stopped, which fences everything.
 */
static void moor_odp_fence(struct moor_odp *odp, u64 start, u64 end)
{
	struct moor_dev *mdev = odp->mdev;

	start = max(start, odp->start);
	end = min(end, odp->end);
	if (!moor_cmd_mr_invalidate(mdev, odp->key,
				    start - odp->start + odp->iova,
				    end - start) || moor_is_dead(mdev))
		return;
	mutex_lock(&mdev->mrs.commit);
	mutex_unlock(&mdev->mrs.commit);
	if (!READ_ONCE(odp->leaving))
		moor_hw_kill(mdev, "it did not forget a page");
}

/**
 * moor_odp_leaving - the key of an MR is about to be taken away, or was not
 * @odp: translation, or NULL
 * @leaving: set before its revocation, cleared if that was refused
 */
void moor_odp_leaving(struct moor_odp *odp, bool leaving)
{
	if (odp)
		WRITE_ONCE(odp->leaving, leaving);
}

static enum dma_data_direction moor_odp_direction(const struct moor_odp *odp)
{
	return odp->writable ? DMA_BIDIRECTIONAL : DMA_TO_DEVICE;
}

/*
 * The process still has the page: whoever takes it away waits for the lock. So it
 * can be marked dirty, though nobody holds a reference.
 */
static void moor_branch_unmap_page(struct moor_branch *branch, u32 index,
				   size_t size)
{
	struct moor_odp_page *page = &branch->pages[index];
	struct moor_odp *odp = branch->odp;

	lockdep_assert_held(&branch->lock);
	if (page->page) {
		dma_unmap_page(&odp->mdev->pdev->dev, page->pte & MOOR_PTE_ADDR,
			       size, moor_odp_direction(odp));
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

/* Make entries absent. How many pages were there? */
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

/* Take pages from the device; of a huge one all (HWI ODP-18). */
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

/* Some of the process's memory is about to go, or to be protected otherwise. */
static bool moor_branch_invalidate(struct mmu_interval_notifier *notifier,
				   const struct mmu_notifier_range *range,
				   unsigned long seq)
{
	struct moor_branch *branch =
		container_of(notifier, struct moor_branch, notifier);
	struct moor_odp *odp = branch->odp;

	if (!mmu_notifier_range_blockable(range))
		return false;
	mutex_lock(&branch->lock);
	mmu_interval_set_seq(notifier, seq);
	if (branch->present) {
		moor_branch_zap(branch,
				max_t(u64, range->start, branch->start),
				min_t(u64, range->end, moor_branch_end(branch)));
		if (!branch->present) {
			xa_set_mark(&odp->branches,
				    moor_branch_id(odp, branch->start),
				    MOOR_ODP_EMPTY);
			kref_get(&odp->ref);
			if (!queue_work(moor_wq, &odp->reap))
				moor_odp_put(odp);
		}
	}
	mutex_unlock(&branch->lock);
	return true;
}

static const struct mmu_interval_notifier_ops moor_branch_ops = {
	.invalidate = moor_branch_invalidate,
};

/* Where the node of height @height that maps @addr is named in the one above. */
static __le64 *moor_odp_slot(const struct moor_odp_node *parent,
			     const struct moor_odp *odp, u64 addr, u32 height)
{
	u32 shift = MOOR_MIN_PAGE_SHIFT + MOOR_NODE_SHIFT * height;

	return &moor_node_entries(&parent->table)[(addr - odp->base) >> shift &
						  (MOOR_NODE_ENTRIES - 1)];
}

static unsigned long moor_odp_node_id(const struct moor_odp *odp, u64 addr,
				      u32 height)
{
	u32 shift = MOOR_MIN_PAGE_SHIFT + MOOR_NODE_SHIFT * height;

	return (addr - odp->base) >> shift << 3 | height;
}

static struct moor_odp_node *moor_odp_node_new(struct moor_odp *odp,
					       struct moor_odp_node *parent,
					       u64 addr, u32 height)
{
	struct moor_odp_node *node = kzalloc_obj(*node);
	int err = -ENOMEM;

	if (!node)
		return ERR_PTR(err);
	node->parent = parent;
	node->slot = moor_odp_slot(parent, odp, addr, height);
	node->id = moor_odp_node_id(odp, addr, height);
	err = moor_odp_alloc_node(odp, &node->table);
	if (err)
		goto free;
	err = xa_err(xa_store(&odp->nodes, node->id, node, GFP_KERNEL));
	if (err)
		goto free_node;
	parent->children++;
	/* It is empty before the device sees it. */
	dma_wmb();
	WRITE_ONCE(*node->slot, moor_node_entry(&node->table));
	return node;

free_node:
	moor_odp_free_node(odp, &node->table);
free:
	kfree(node);
	return ERR_PTR(err);
}

/* Nodes without children go, from @node up; @addr is where the last one was. */
static void moor_odp_trim(struct moor_odp *odp, struct moor_odp_node *node,
			  u64 addr)
{
	struct moor_odp_node *gone = NULL, *next;

	for (; node->parent && !node->children; node = next) {
		next = node->parent;
		WRITE_ONCE(*node->slot, 0);
		next->children--;
		xa_erase(&odp->nodes, node->id);
		node->parent = gone;
		gone = node;
	}
	if (gone)
		moor_odp_fence(odp, addr, addr + MOOR_BRANCH_SIZE);
	for (; gone; gone = next) {
		next = gone->parent;
		moor_odp_free_node(odp, &gone->table);
		kfree(gone);
	}
}

/* The node of height 2 for an address; the ones above it are made as needed. */
static struct moor_odp_node *moor_odp_parent(struct moor_odp *odp, u64 addr)
{
	struct moor_odp_node *node = &odp->root, *child;
	u32 height;

	for (height = odp->levels - 1; height >= 2; height--) {
		child = xa_load(&odp->nodes,
				moor_odp_node_id(odp, addr, height));
		if (!child)
			child = moor_odp_node_new(odp, node, addr, height);
		if (IS_ERR(child)) {
			moor_odp_trim(odp, node, addr);
			return child;
		}
		node = child;
	}
	return node;
}

static void moor_branch_release(struct moor_branch *branch)
{
	moor_odp_free_node(branch->odp, &branch->table);
	mutex_destroy(&branch->lock);
	kvfree(branch);
}

static int moor_branch_enter(struct moor_odp *odp, struct moor_branch *branch)
{
	int err;

	err = mmu_interval_notifier_insert(&branch->notifier, odp->mm,
					   branch->start, MOOR_BRANCH_SIZE,
					   &moor_branch_ops);
	if (err)
		return err;
	err = xa_err(xa_store(&odp->branches,
			      moor_branch_id(odp, branch->start), branch,
			      GFP_KERNEL));
	if (err)
		mmu_interval_notifier_remove(&branch->notifier);
	else
		branch->parent->children++;
	return err;
}

/* Of a process that lives: the caller holds a reference to its memory. */
static struct moor_branch *moor_branch_new(struct moor_odp *odp, u64 addr)
{
	struct moor_branch *branch = kvzalloc(sizeof(*branch), GFP_KERNEL);
	int err;

	if (!branch)
		return ERR_PTR(-ENOMEM);
	branch->odp = odp;
	branch->start = ALIGN_DOWN(addr, MOOR_BRANCH_SIZE);
	mutex_init(&branch->lock);
	err = moor_odp_alloc_node(odp, &branch->table);
	if (err)
		goto free;
	branch->parent = moor_odp_parent(odp, branch->start);
	if (IS_ERR(branch->parent)) {
		err = PTR_ERR(branch->parent);
		goto release;
	}
	branch->slot = moor_odp_slot(branch->parent, odp, branch->start, 1);
	err = moor_branch_enter(odp, branch);
	if (err)
		goto trim;
	return branch;

trim:
	moor_odp_trim(odp, branch->parent, branch->start);
release:
	moor_odp_free_node(odp, &branch->table);
free:
	mutex_destroy(&branch->lock);
	kvfree(branch);
	return ERR_PTR(err);
}

/* A branch without pages: the device has forgotten it with the last one. */
static void moor_branch_free(struct moor_branch *branch)
{
	struct moor_odp *odp = branch->odp;

	lockdep_assert_held(&odp->lock);
	mmu_interval_notifier_remove(&branch->notifier);
	xa_erase(&odp->branches, moor_branch_id(odp, branch->start));
	branch->parent->children--;
	moor_odp_trim(odp, branch->parent, branch->start);
	moor_branch_release(branch);
}

/* Pages are entered under the odp's lock alone, so one that is empty stays so. */
static bool moor_branch_is_empty(struct moor_branch *branch)
{
	bool empty;

	mutex_lock(&branch->lock);
	empty = !branch->present;
	mutex_unlock(&branch->lock);
	return empty;
}

static void moor_odp_reap(struct work_struct *work)
{
	struct moor_odp *odp = container_of(work, struct moor_odp, reap);
	struct moor_branch *branch;
	unsigned long id;

	mutex_lock(&odp->lock);
	if (!odp->dead)
		xa_for_each_marked(&odp->branches, id, branch, MOOR_ODP_EMPTY) {
			xa_clear_mark(&odp->branches, id, MOOR_ODP_EMPTY);
			if (moor_branch_is_empty(branch))
				moor_branch_free(branch);
		}
	mutex_unlock(&odp->lock);
	moor_odp_put(odp);
}

/* What the process has of a page, as an entry's bits. */
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
 * Map a page for DMA. In place of the kernel's page of zeros, which everybody reads
 * who has not written yet, the device has one of its own: that one is part of the
 * kernel's image.
 */
static int moor_odp_map_page(struct moor_odp *odp, struct moor_odp_page *page,
			     unsigned long pfn, size_t size)
{
	struct device *dev = &odp->mdev->pdev->dev;
	struct page *from = hmm_pfn_to_page(pfn);
	dma_addr_t dma;

	if (is_zero_pfn(page_to_pfn(from))) {
		page->pte = odp->mdev->zeros_dma;
		return 0;
	}
	if (is_pci_p2pdma_page(from))
		return -EFAULT;
	dma = dma_map_page(dev, from, 0, size, moor_odp_direction(odp));
	if (dma_mapping_error(dev, dma))
		return -ENOMEM;
	page->page = from;
	page->pte = dma;
	return 0;
}

/*
 * Enter a page, or add the right to write one that is entered. The store is one of
 * eight bytes (HWI ODP-18).
 */
static int moor_branch_set(struct moor_branch *branch, u32 index, size_t size,
			   unsigned long pfn, __le64 *entry)
{
	struct moor_odp_page *page = &branch->pages[index];
	u64 bits = moor_odp_bits(branch->odp, pfn);
	int err;

	lockdep_assert_held(&branch->lock);
	if (!page->pte) {
		err = moor_odp_map_page(branch->odp, page, pfn, size);
		if (err)
			return err;
		branch->present += size >> MOOR_MIN_PAGE_SHIFT;
	}
	if (bits & ~page->pte) {
		page->pte |= bits;
		WRITE_ONCE(*entry, cpu_to_le64(page->pte));
	}
	return 0;
}

/* The whole branch is one huge page, and may be one leaf. */
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
	if (moor_branch_set(branch, 0, MOOR_BRANCH_SIZE, pfn, branch->slot))
		return false;
	branch->huge = true;
	return true;
}

/* May the device have it as it is? */
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
	int err = 0;
	u32 i;

	for (i = first; i < end; i++) {
		err = moor_odp_check_pfn(branch->odp, pfns[i]);
		if (!err && pfns[i] & HMM_PFN_VALID)
			err = moor_branch_set(branch, i, MOOR_PAGE_SIZE,
					      pfns[i], &entries[i]);
		if (err || (pfns[i] & need) != need)
			break;
		served++;
	}
	if (branch->present) {
		/* What the node holds before the node itself. */
		dma_wmb();
		WRITE_ONCE(*branch->slot, moor_node_entry(&branch->table));
	}
	return served ?: err;
}

/* Enter what @odp->pfns says, from @start to @end; see moor_odp_map(). */
static long moor_branch_set_range(struct moor_branch *branch, u64 start,
				  u64 end, bool write)
{
	u32 first = moor_page_index(branch, start);
	u32 last = moor_page_index(branch, end);

	lockdep_assert_held(&branch->lock);
	if (moor_branch_set_huge(branch, write))
		return last - first;
	/* Not as huge any more as it was, or not to be written all of it. */
	if (branch->huge)
		moor_branch_zap(branch, branch->start, moor_branch_end(branch));
	return moor_branch_set_pages(branch, first, last, write);
}

/*
 * What the process has at the moment, without making it have more: that may wait for
 * anybody. All of the branch is looked at, since a huge page is seen by its order.
 */
static int moor_branch_look(struct moor_branch *branch)
{
	struct moor_odp *odp = branch->odp;
	struct hmm_range range = {
		.notifier = &branch->notifier,
		.start = branch->start,
		.end = moor_branch_end(branch),
		.hmm_pfns = odp->pfns,
	};
	int err, try;

	for (try = 0; try < MOOR_ODP_TRIES; try++) {
		range.notifier_seq = mmu_interval_read_begin(&branch->notifier);
		mmap_read_lock(odp->mm);
		err = hmm_range_fault(&range);
		mmap_read_unlock(odp->mm);
		if (err == -EBUSY)
			continue;
		if (err)
			return err;
		mutex_lock(&branch->lock);
		if (!mmu_interval_read_retry(&branch->notifier,
					     range.notifier_seq))
			return 0;
		mutex_unlock(&branch->lock);
	}
	return -EBUSY;
}

static long moor_odp_map_locked(struct moor_odp *odp, u64 start, u64 end,
				bool write)
{
	struct moor_branch *branch;
	long served;
	int err;

	lockdep_assert_held(&odp->lock);
	branch = xa_load(&odp->branches, moor_branch_id(odp, start));
	if (!branch)
		branch = moor_branch_new(odp, start);
	if (IS_ERR(branch))
		return PTR_ERR(branch);
	err = moor_branch_look(branch);
	if (!err) {
		served = moor_branch_set_range(branch, start, end, write);
		mutex_unlock(&branch->lock);
	} else {
		served = err == -EBUSY ? 0 : err;
	}
	if (served <= 0 && moor_branch_is_empty(branch))
		moor_branch_free(branch);
	return served;
}

/**
 * moor_odp_map - enter what the process has there now
 * @odp: translation
 * @start: address in the process, of a page
 * @end: behind the last page; in the same branch
 * @write: to be written
 *
 * Waits for no page. Pages outside the MR are left alone, and so is what is behind
 * a page that the process has not.
 *
 * Return: pages that the device can use from @start on, 0 if the process has not
 * the first one at the moment; -EFAULT if it never will, or has ended; -EINVAL if
 * it is not huge, as was promised; -ENOENT for an MR that is gone; -ENOMEM.
 */
long moor_odp_map(struct moor_odp *odp, u64 start, u64 end, bool write)
{
	long served = -ENOENT;

	if (!mmget_not_zero(odp->mm))
		return -EFAULT;
	mutex_lock(&odp->lock);
	if (!odp->dead)
		served = moor_odp_map_locked(odp, start, end, write);
	mutex_unlock(&odp->lock);
	/* The last one out would tear the address space down here. */
	mmput_async(odp->mm);
	return served;
}

static void moor_odp_free(struct kref *ref)
{
	struct moor_odp *odp = container_of(ref, struct moor_odp, ref);

	mmdrop(odp->mm);
	mutex_destroy(&odp->lock);
	kvfree(odp->pfns);
	kfree(odp);
}

void moor_odp_put(struct moor_odp *odp)
{
	kref_put(&odp->ref, moor_odp_free);
}

/* As high as needed for @span bytes, and of two nodes at least. */
static u32 moor_odp_levels(u64 span)
{
	u32 levels = 2;

	while ((span - 1) >> (MOOR_MIN_PAGE_SHIFT + MOOR_NODE_SHIFT * levels))
		levels++;
	return levels;
}

/**
 * moor_odp_new - begin to page a registration on demand
 * @mdev: device
 * @reg: start, length, access, huge and zero_based are set, checked; iova, unless
 *	zero_based. The rest is filled in
 * @why: filled in on failure
 *
 * No memory of the process is looked at.
 *
 * Return: 0 or -ENOMEM.
 */
int moor_odp_new(struct moor_dev *mdev, struct moor_registration *reg,
		 struct moor_refusal *why)
{
	struct moor_xlat *xlat = &reg->table.xlat;
	struct moor_odp *odp = kzalloc_obj(*odp);

	why->reason = MOOR_REFUSAL_MEMORY;
	if (!odp)
		return -ENOMEM;
	if (reg->zero_based)
		reg->iova = 0;
	odp->mdev = mdev;
	odp->start = reg->start;
	odp->end = moor_reg_is_implicit(reg) ? TASK_SIZE :
					       reg->start + reg->length;
	odp->iova = reg->iova;
	odp->base = ALIGN_DOWN(reg->start, MOOR_BRANCH_SIZE);
	odp->levels = moor_odp_levels(odp->end - odp->base);
	odp->writable = ib_access_writable(reg->access & MOOR_ACCESS_COMMON);
	odp->huge = reg->huge;
	odp->pfns = kvzalloc_objs(*odp->pfns, MOOR_NODE_ENTRIES);
	if (!odp->pfns || moor_odp_alloc_node(odp, &odp->root.table)) {
		kvfree(odp->pfns);
		kfree(odp);
		return -ENOMEM;
	}
	kref_init(&odp->ref);
	mutex_init(&odp->lock);
	xa_init(&odp->nodes);
	xa_init(&odp->branches);
	INIT_WORK(&odp->reap, moor_odp_reap);
	odp->mm = current->mm;
	mmgrab(odp->mm);

	*xlat = (struct moor_xlat){
		.root = moor_node_entry(&odp->root.table),
		.offset = cpu_to_le64(reg->start - odp->base),
		.levels = odp->levels,
		.page_shift = MOOR_MIN_PAGE_SHIFT,
	};
	reg->odp = odp;
	return 0;
}

/* The device has no use of it any more. */
static void moor_branch_drop(struct moor_branch *branch)
{
	mutex_lock(&branch->lock);
	moor_branch_unmap(branch, 0, MOOR_NODE_ENTRIES);
	branch->present = 0;
	mutex_unlock(&branch->lock);
	mmu_interval_notifier_remove(&branch->notifier);
	moor_branch_release(branch);
	cond_resched();
}

/**
 * moor_odp_release - end the paging of a registration
 * @odp: translation that the device has no use of any more, and that nobody finds
 *	through its key
 *
 * Does not wait for pages that others wait for.
 */
void moor_odp_release(struct moor_odp *odp)
{
	struct moor_odp_node *node;
	struct moor_branch *branch;
	unsigned long id;

	mutex_lock(&odp->lock);
	odp->dead = true;
	xa_for_each(&odp->branches, id, branch)
		moor_branch_drop(branch);
	xa_destroy(&odp->branches);
	xa_for_each(&odp->nodes, id, node) {
		moor_odp_free_node(odp, &node->table);
		kfree(node);
	}
	xa_destroy(&odp->nodes);
	moor_odp_free_node(odp, &odp->root.table);
	mutex_unlock(&odp->lock);
	moor_odp_put(odp);
}
