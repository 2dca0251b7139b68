// SPDX-License-Identifier: GPL-2.0
/*
 * Prefetches for on-demand paging: ibv_advise_mr(). And the counters of an MR.
 */

#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <net/netlink.h>
#include <rdma/restrack.h>
#include <rdma/rdma_netlink.h>

#include "moor.h"

/* To be prefetched: memory of the process, or a dma-buf, which is mapped as a whole. */
struct moor_advice {
	struct moor_odp *odp;
	struct moor_dmabuf *dmabuf;
	u64 start;
	u64 end;
};

/**
 * struct moor_prefetch - pieces of memory that the device will need
 * @work: fetches them
 * @queue: of the context
 * @advice: what is to be done
 * @count: of @piece
 * @piece: the memory
 */
struct moor_prefetch {
	struct work_struct work;
	struct moor_fault_queue *queue;
	enum ib_uverbs_advise_mr_advice advice;
	u32 count;
	struct moor_advice piece[];
};

/* The registered range, and the address and right to check a request against. */
static void moor_advice_range(struct moor_mr *mr, struct moor_advice *piece,
			      u64 *iova, bool *writable)
{
	const struct moor_registration *reg = &mr->reg;

	piece->odp = reg->odp;
	piece->dmabuf = reg->dmabuf;
	*iova = reg->iova;
	if (piece->odp) {
		kref_get(&piece->odp->ref);
		piece->start = piece->odp->start;
		piece->end = piece->odp->end;
		*writable = piece->odp->writable;
	} else {
		kref_get(&piece->dmabuf->ref);
		piece->start = reg->start;
		piece->end = reg->start + reg->length;
		*writable = reg->umem->writable;
	}
}

static int moor_advice_find(struct moor_dev *mdev, u32 pdn, bool write,
			    const struct ib_sge *sge, struct moor_advice *piece)
{
	spinlock_t *lock = moor_key_lock(mdev, sge->lkey);
	u64 offset, length, iova;
	struct moor_mr *mr;
	bool writable;

	spin_lock(lock);
	mr = moor_paged_mr(mdev, sge->lkey, pdn);
	if (!IS_ERR(mr))
		moor_advice_range(mr, piece, &iova, &writable);
	spin_unlock(lock);
	if (IS_ERR(mr))
		return PTR_ERR(mr);
	if (write && !writable)
		return -EPERM;
	offset = sge->addr - iova;
	length = piece->end - piece->start;
	if (offset > length || sge->length > length - offset)
		return -EFAULT;
	piece->start += offset;
	piece->end = piece->start + sge->length;
	return 0;
}

/* Is all of the range in the process's address space? */
static bool moor_advice_is_mapped(const struct moor_advice *piece)
{
	struct mm_struct *mm = piece->odp->mm;
	struct vm_area_struct *vma;
	struct vma_iterator vmi;
	u64 end = piece->start;

	if (!mmget_not_zero(mm))
		return false;
	mmap_read_lock(mm);
	vma_iter_init(&vmi, mm, end);
	for_each_vma_range(vmi, vma, piece->end) {
		if (vma->vm_start > end)
			break;
		end = vma->vm_end;
	}
	mmap_read_unlock(mm);
	/* mmput() of the last reference would tear the address space down here. */
	mmput_async(mm);
	return end >= piece->end;
}

/*
 * Enter the pages that the process has, and skip those that it does not have. The error
 * of a place where nothing is mapped is left to moor_advice_is_mapped(), which finds it
 * wherever it is.
 */
static long moor_advice_look(const struct moor_advice *piece, u64 start,
			     u32 *fresh)
{
	u64 end = min3(PAGE_ALIGN(piece->end), PAGE_ALIGN(piece->odp->end),
		       ALIGN_DOWN(start, MOOR_BRANCH_SIZE) + MOOR_BRANCH_SIZE);
	long pages = moor_odp_map(piece->odp, start, end, false, fresh);

	return pages < 0 && pages != -EFAULT ? pages : (end - start) >> PAGE_SHIFT;
}

static int moor_advice_map(const struct moor_advice *piece,
			   enum ib_uverbs_advise_mr_advice advice)
{
	u32 fresh = 0;
	int err;

	if (advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return 0;
	err = moor_dmabuf_fault(piece->dmabuf, &fresh);
	atomic64_add(fresh, &piece->dmabuf->counters.prefetch);
	return err;
}

static int moor_advice_follow(const struct moor_advice *piece,
			      enum ib_uverbs_advise_mr_advice advice)
{
	bool look = advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
	bool write = advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	u64 start = ALIGN_DOWN(piece->start, PAGE_SIZE);
	u32 fresh = 0;
	long pages = 1;

	while (start < piece->end && pages > 0) {
		if (fatal_signal_pending(current))
			return -EINTR;
		if (look)
			pages = moor_advice_look(piece, start, &fresh);
		else
			pages = moor_odp_fault(piece->odp, start, piece->end,
					       write, &fresh);
		if (pages > 0)
			start += pages * PAGE_SIZE;
		cond_resched();
	}
	atomic64_add(fresh, &piece->odp->counters.prefetch);
	/* The page went away each time before it could be entered, or the translation. */
	if (!pages || pages == -ESTALE)
		return -EAGAIN;
	if (pages < 0)
		return pages;
	return look && !moor_advice_is_mapped(piece) ? -EFAULT : 0;
}

static int moor_prefetch_run(const struct moor_prefetch *prefetch)
{
	int err = 0;
	u32 i;

	for (i = 0; i < prefetch->count && !err; i++)
		err = prefetch->piece[i].dmabuf ?
		      moor_advice_map(&prefetch->piece[i], prefetch->advice) :
		      moor_advice_follow(&prefetch->piece[i],
					 prefetch->advice);
	return err;
}

static void moor_prefetch_free(struct moor_prefetch *prefetch)
{
	u32 i;

	for (i = 0; i < prefetch->count; i++) {
		if (prefetch->piece[i].odp)
			moor_odp_put(prefetch->piece[i].odp);
		if (prefetch->piece[i].dmabuf)
			moor_dmabuf_put(prefetch->piece[i].dmabuf);
	}
	kvfree(prefetch);
}

/* Prefetches of all contexts, also of closed ones: nobody is charged for the threads. */
static atomic_t moor_prefetches_all;

static void moor_prefetch_work(struct work_struct *work)
{
	struct moor_prefetch *prefetch =
		container_of(work, struct moor_prefetch, work);
	struct moor_fault_queue *queue = prefetch->queue;

	/* The result is dropped: advice may be ignored. */
	moor_prefetch_run(prefetch);
	moor_prefetch_free(prefetch);
	atomic_dec(&queue->prefetches);
	atomic_dec(&moor_prefetches_all);
	moor_faults_put(queue);
}

/* Leave the prefetch to a worker, unless too many are under way. */
static bool moor_prefetch_queue(struct moor_prefetch *prefetch,
				struct moor_fault_queue *queue)
{
	if (!atomic_add_unless(&moor_prefetches_all, 1, MOOR_PREFETCHES_ALL))
		return false;
	if (!atomic_add_unless(&queue->prefetches, 1, MOOR_PREFETCHES)) {
		atomic_dec(&moor_prefetches_all);
		return false;
	}
	kref_get(&queue->ref);
	prefetch->queue = queue;
	INIT_WORK(&prefetch->work, moor_prefetch_work);
	queue_work(queue->wq[MOOR_FAULT_ADVICE], &prefetch->work);
	return true;
}

/**
 * moor_advise_mr - let the device have pages before it asks for them
 * @ibpd: protection domain
 * @advice: to be read, to be written, or only pages that the process has already
 * @flags: IB_UVERBS_ADVISE_MR_FLAG_FLUSH: wait for the prefetch
 * @sg_list: memory
 * @num_sge: entries of @sg_list
 * @attrs: of the call, or NULL for a call of the kernel, which is waited for
 *
 * Return: 0; -EOPNOTSUPP for another advice; -ENOENT for an unknown key, -EPERM for a
 * key of another domain or without the right to write, -EINVAL for an MR that is not
 * paged; -EFAULT for memory outside an MR, or, if waited for, that the process does not
 * have; -EINVAL, if waited for, for a page that is not huge in an MR with HUGETLB;
 * -EAGAIN if a page went away each time before it could be entered, or the MR got
 * another translation; the owner's error for a dma-buf that cannot be mapped again;
 * -EINTR; -ERESTARTSYS, for the core to begin anew; -ENOMEM.
 */
int moor_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice,
		   u32 flags, struct ib_sge *sg_list, u32 num_sge,
		   struct uverbs_attr_bundle *attrs)
{
	struct moor_prefetch *prefetch;
	bool write = advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	int err = 0;
	u32 i;

	if (advice > IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return -EOPNOTSUPP;
	prefetch = kvzalloc(struct_size(prefetch, piece, num_sge),
			    GFP_KERNEL_ACCOUNT);
	if (!prefetch)
		return -ENOMEM;
	prefetch->advice = advice;
	prefetch->count = num_sge;
	for (i = 0; i < num_sge && !err; i++)
		err = moor_advice_find(to_mdev(ibpd->device),
				       to_mpd(ibpd)->pdn, write, &sg_list[i],
				       &prefetch->piece[i]);
	if (!err && attrs && !(flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH) &&
	    moor_prefetch_queue(prefetch, to_muctx(attrs->context)->faults))
		return 0;
	if (!err)
		err = moor_prefetch_run(prefetch);
	moor_prefetch_free(prefetch);
	return err;
}

static int moor_put_counters(struct sk_buff *msg,
			     const struct moor_odp_counters *counters)
{
	struct nlattr *table;

	table = nla_nest_start(msg, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	if (!table)
		return -EMSGSIZE;
	if (rdma_nl_stat_hwcounter_entry(msg, "page_faults",
					 atomic64_read(&counters->faults)) ||
	    rdma_nl_stat_hwcounter_entry(msg, "page_faults_handled",
					 atomic64_read(&counters->handled)) ||
	    rdma_nl_stat_hwcounter_entry(msg, "page_invalidations",
					 atomic64_read(&counters->invalidations)) ||
	    rdma_nl_stat_hwcounter_entry(msg, "page_prefetch",
					 atomic64_read(&counters->prefetch))) {
		nla_nest_cancel(msg, table);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, table);
	return 0;
}

/**
 * moor_fill_stat_mr_entry - what happened to an MR
 * @msg: netlink message
 * @ibmr: MR
 *
 * Return: 0 or -EMSGSIZE.
 */
int moor_fill_stat_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	const struct moor_registration *reg = &to_mmr(ibmr)->reg;
	struct moor_dev *mdev = to_mdev(ibmr->device);
	spinlock_t *lock = moor_key_lock(mdev, to_mmr(ibmr)->key);
	int err = 0;

	/* Re-registering replaces @odp and @dmabuf, under this lock. */
	spin_lock(lock);
	if (reg->odp)
		err = moor_put_counters(msg, &reg->odp->counters);
	else if (reg->dmabuf)
		err = moor_put_counters(msg, &reg->dmabuf->counters);
	spin_unlock(lock);
	return err;
}
