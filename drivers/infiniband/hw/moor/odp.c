// SPDX-License-Identifier: GPL-2.0
/*
 * On-demand paging: the table of an MR whose pages come and go (HWI 6.10).
 *
 * The table is sparse. A branch is 2 MiB of the process's address space and is made at
 * the first fault in it, with the nodes above. Explicit MRs keep their branches: the
 * MR's length bounds their memory, and making and freeing a branch costs more than the
 * faults and invalidations themselves. Implicit MRs, which have no such bound, free a
 * branch soon after its last page has gone. The table of an explicit MR begins at the
 * 2 MiB boundary below its first byte, so that a branch is one node everywhere, and one
 * leaf where the process has a huge page.
 *
 * Locks, the outermost first: &moor_odp.lock (the tree); mmap_lock, only tried under
 * &moor_odp.lock, since a task that ends a registration takes that lock and must not
 * wait for the process; reclaim; &moor_branch.lock (the pages). Invalidations come from
 * within reclaim and take &moor_branch.lock alone. So under that lock nothing is
 * allocated that could wait, and no lock is taken whose holders allocate so. The core's
 * ib_umem_odp is not used: since 7.x hmm_range_fault() writes the flags that say what is
 * mapped for DMA without the mutex that invalidations take.
 */

#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/hmm.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "moor.h"
#include "trace.h"

/*
 * Attempts, when other tasks get in the way, before the device is left to ask again.
 * The pauses after them are 65 ms in all.
 */
#define MOOR_ODP_TRIES	16

/*
 * Behind the last address that a process may have, and within the span of a table of
 * the greatest height (HWI XLT-7). An address below, plus a branch, does not wrap.
 */
#define MOOR_ODP_END							\
	min_t(u64, TASK_SIZE,						\
	      BIT_ULL(MOOR_MIN_PAGE_SHIFT + MOOR_NODE_SHIFT * MOOR_MAX_LEVELS))

/* How long a branch stays empty before it is freed: most are filled again at once. */
#define MOOR_ODP_REAP_MS	100

/**
 * moor_odp_init - set up what all translations of a device share
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

/**
 * moor_odp_hold - enter no pages until the device has the MR's entry
 * @odp: translation that its key is about to lead to, or NULL
 *
 * Before the device has that entry, it knows no key that MR_INVALIDATE could name to
 * make it forget a page (HWI ODP-22).
 */
void moor_odp_hold(struct moor_odp *odp)
{
	if (odp)
		mutex_lock(&odp->lock);
}

/**
 * moor_odp_begin - let pages be entered again, after moor_odp_hold()
 * @odp: translation, or NULL
 * @key: under which the device has it
 */
void moor_odp_begin(struct moor_odp *odp, u32 key)
{
	if (!odp)
		return;
	odp->key = key;
	mutex_unlock(&odp->lock);
}

/**
 * moor_odp_leaving - the key of an MR is about to be revoked, or was not revoked
 * @odp: translation, or NULL
 * @leaving: true before the key's revocation, false if the revocation was refused
 */
void moor_odp_leaving(struct moor_odp *odp, bool leaving)
{
	if (odp)
		WRITE_ONCE(odp->leaving, leaving);
}

/**
 * moor_odp_fence - make the device forget a range (HWI ODP-19)
 * @odp: translation whose entries are absent there
 * @start: address in the process
 * @end: behind the last byte
 *
 * Afterwards pages and nodes of the range may be unmapped. If the device refuses since
 * the key is being revoked, the fence of that revocation counts, and is waited for. A
 * device that refuses for another reason is stopped, which fences everything.
 *
 * Context: also in reclaim
 */
void moor_odp_fence(struct moor_odp *odp, u64 start, u64 end)
{
	struct moor_dev *mdev = odp->mdev;

	start = max(start, odp->start);
	end = min(end, odp->end);
	if (!moor_cmd_mr_invalidate(mdev, odp->key,
				    start - odp->start + odp->iova,
				    end - start) || moor_is_dead(mdev))
		return;
	moor_keys_wait_sent(mdev);
	if (!READ_ONCE(odp->leaving))
		moor_hw_kill(mdev, "it did not forget a page");
}

/**
 * moor_odp_emptied - the last page of a branch has gone
 * @branch: branch, which is freed soon if its MR is implicit
 *
 * Context: in reclaim, with the branch's lock
 */
void moor_odp_emptied(struct moor_branch *branch)
{
	struct moor_odp *odp = branch->odp;

	if (!odp->implicit)
		return;
	xa_set_mark(&odp->branches, moor_branch_id(odp, branch->start),
		    MOOR_ODP_EMPTY);
	kref_get(&odp->ref);
	if (!queue_delayed_work(moor_odp_wq, &odp->reap,
				msecs_to_jiffies(MOOR_ODP_REAP_MS)))
		moor_odp_put(odp);
}

static void moor_odp_reap(struct work_struct *work)
{
	struct moor_odp *odp = container_of(to_delayed_work(work),
					    struct moor_odp, reap);
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

/* May the branch become one leaf, or is it one already? Otherwise it uses its node. */
static bool moor_branch_may_be_huge(const struct moor_branch *branch)
{
	return !READ_ONCE(branch->present) || READ_ONCE(branch->huge);
}

/*
 * Find the pages that the process has now, and fault none in: a fault may wait for
 * any other task, and so may a holder of mmap_lock, which is only tried. If the branch
 * may be one leaf, all of it is looked at; else page 0 of the branch counts as absent
 * unless it is in the range. On success &moor_branch.lock is held.
 */
static int moor_branch_look(struct moor_branch *branch, u64 start, u64 end)
{
	struct moor_odp *odp = branch->odp;
	struct hmm_range range = { .notifier = &branch->notifier };
	int err;

	range.notifier_seq = mmu_interval_read_begin(&branch->notifier);
	if (moor_branch_may_be_huge(branch)) {
		start = branch->start;
		end = moor_branch_end(branch);
	}
	odp->pfns[0] = 0;
	range.hmm_pfns = odp->pfns + moor_page_index(branch, start);
	range.start = start;
	range.end = end;
	if (!mmap_read_trylock(odp->mm))
		return -EBUSY;
	err = hmm_range_fault(&range);
	mmap_read_unlock(odp->mm);
	if (err)
		return err;
	mutex_lock(&branch->lock);
	if (mmu_interval_read_retry(&branch->notifier, range.notifier_seq)) {
		mutex_unlock(&branch->lock);
		return -EBUSY;
	}
	return 0;
}

static long moor_odp_map_locked(struct moor_odp *odp, u64 start, u64 end,
				bool write, u32 *fresh)
{
	struct moor_branch *branch = moor_branch_find(odp, start);
	bool made = !branch;
	long served;
	u32 before;
	int err;

	lockdep_assert_held(&odp->lock);
	if (made)
		branch = moor_branch_new(odp, start);
	if (IS_ERR(branch))
		return PTR_ERR(branch);
	err = moor_branch_look(branch, start, end);
	if (!err) {
		before = branch->present;
		served = moor_branch_set_range(branch, start, end, write);
		*fresh += branch->present - min(before, branch->present);
		mutex_unlock(&branch->lock);
	} else {
		served = err;
	}
	/* Freed at once: faults at addresses where nothing is mapped have no bound. */
	if (served <= 0 && (made || odp->implicit) &&
	    moor_branch_is_empty(branch))
		moor_branch_free(branch);
	return served;
}

static bool moor_odp_pass_over(struct mmu_interval_notifier *notifier,
			       const struct mmu_notifier_range *range,
			       unsigned long seq)
{
	return true;
}

static const struct mmu_interval_notifier_ops moor_odp_first_ops = {
	.invalidate = moor_odp_pass_over,
};

/*
 * The first notifier of a process takes mmap_lock for writing, later ones do not. So
 * insert a first one here, for nothing else, where &moor_odp.lock is not held.
 */
static int moor_odp_listen(struct moor_odp *odp)
{
	struct mmu_interval_notifier first;
	int err;

	if (READ_ONCE(odp->listens))
		return 0;
	err = mmu_interval_notifier_insert(&first, odp->mm, 0, PAGE_SIZE,
					   &moor_odp_first_ops);
	/* A signal of the caller: nothing has been done, so the call may begin anew. */
	if (err)
		return err == -EINTR ? -ERESTARTSYS : err;
	mmu_interval_notifier_remove(&first);
	WRITE_ONCE(odp->listens, true);
	return 0;
}

static long moor_odp_try_map(struct moor_odp *odp, u64 start, u64 end,
			     bool write, u32 *fresh)
{
	long served = -ESTALE;

	mutex_lock(&odp->lock);
	if (!odp->dead)
		served = moor_odp_map_locked(odp, start, end, write, fresh);
	mutex_unlock(&odp->lock);
	return served;
}

/*
 * Wait for a writer that may have been in the way, without odp->lock. A writer that is
 * about to wake up keeps mmap_read_trylock() out, but not mmap_read_lock(). So having had
 * the lock says nothing about this writer, which needs time to run.
 */
static void moor_odp_let_pass(struct moor_odp *odp, int try)
{
	mmap_read_lock(odp->mm);
	mmap_read_unlock(odp->mm);
	fsleep(BIT(try));
}

/**
 * moor_odp_map - enter the pages that the process has in a range now
 * @odp: translation
 * @start: address in the process, of a page
 * @end: behind the last page; in the same branch
 * @write: to be written
 * @fresh: the number of pages that were entered is added to it
 *
 * Waits for no page, and for the process's mmap_lock only without locks of this driver.
 * No page outside the range is entered, unless all of the branch is one huge page
 * inside the MR. Memory that describes the pages is charged to the process, not to the
 * caller.
 *
 * Return: pages that the device can use from @start on; 0 if the process does not have
 * the first one at the moment; -EFAULT if it never will, or the process has ended;
 * -EINVAL if the page is not huge, though promised; -ESTALE for a registration that is
 * over; -ENOMEM; -ERESTARTSYS if the process's first notifier met a signal of the caller.
 */
long moor_odp_map(struct moor_odp *odp, u64 start, u64 end, bool write,
		  u32 *fresh)
{
	struct mem_cgroup *memcg, *before;
	long served;
	int try;

	if (!mmget_not_zero(odp->mm))
		return -EFAULT;
	memcg = get_mem_cgroup_from_mm(odp->mm);
	before = set_active_memcg(memcg);
	served = moor_odp_listen(odp) ?: -EBUSY;
	for (try = 0; served == -EBUSY && try < MOOR_ODP_TRIES; try++) {
		served = moor_odp_try_map(odp, start, end, write, fresh);
		if (served == -EBUSY)
			moor_odp_let_pass(odp, try);
	}
	set_active_memcg(before);
	mem_cgroup_put(memcg);
	/* mmput() of the last reference would tear the address space down here. */
	mmput_async(odp->mm);
	return served == -EBUSY ? 0 : served;
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

/* Levels of a table for @span bytes, MOOR_ODP_END at most; two levels at least. */
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
 * Return: 0; -EFAULT for a range that no process can have; -ENOMEM.
 */
int moor_odp_new(struct moor_dev *mdev, struct moor_registration *reg,
		 struct moor_refusal *why)
{
	struct moor_xlat *xlat = &reg->table.xlat;
	bool implicit = moor_reg_is_implicit(reg);
	struct moor_odp *odp;

	if (!implicit && (reg->start >= MOOR_ODP_END ||
			  reg->length > MOOR_ODP_END - reg->start)) {
		why->reason = MOOR_REFUSAL_PAGE;
		why->value = max(reg->start, MOOR_ODP_END);
		return -EFAULT;
	}
	why->reason = MOOR_REFUSAL_MEMORY;
	odp = kzalloc_obj(*odp);
	if (!odp)
		return -ENOMEM;
	if (reg->zero_based)
		reg->iova = 0;
	odp->mdev = mdev;
	odp->start = reg->start;
	odp->implicit = implicit;
	odp->end = implicit ? MOOR_ODP_END : reg->start + reg->length;
	odp->iova = reg->iova;
	odp->base = ALIGN_DOWN(reg->start, MOOR_BRANCH_SIZE);
	odp->levels = moor_odp_levels(odp->end - odp->base);
	odp->writable = ib_access_writable(reg->access & MOOR_ACCESS_COMMON);
	odp->huge = reg->huge;
	odp->pfns = kvcalloc(MOOR_NODE_ENTRIES, sizeof(*odp->pfns),
			     GFP_KERNEL_ACCOUNT);
	if (!odp->pfns || moor_odp_alloc_node(odp, &odp->root.table)) {
		kvfree(odp->pfns);
		kfree(odp);
		return -ENOMEM;
	}
	kref_init(&odp->ref);
	mutex_init(&odp->lock);
	xa_init(&odp->nodes);
	xa_init(&odp->branches);
	INIT_DELAYED_WORK(&odp->reap, moor_odp_reap);
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

/**
 * moor_odp_release - end the paging of a registration
 * @odp: translation that the device does not use any more, and that no lookup by key
 *	finds
 *
 * Does not wait for tasks that wait for a page.
 */
void moor_odp_release(struct moor_odp *odp)
{
	mutex_lock(&odp->lock);
	odp->dead = true;
	moor_odp_free_tree(odp);
	mutex_unlock(&odp->lock);
	/* No branch is left that could become empty and queue @reap again. */
	if (cancel_delayed_work(&odp->reap))
		moor_odp_put(odp);
	moor_odp_put(odp);
}
