// SPDX-License-Identifier: GPL-2.0
/*
 * Re-registering: another range, protection domain or set of rights under the
 * key that an MR has.
 *
 * Everything that can fail comes before the fence, so that a failure leaves the
 * registration as it was; after the fence nothing fails any more (HWI 6.5).
 */

#include "moor.h"
#include "trace.h"

static int moor_rereg_translation(struct moor_dev *mdev,
				  struct moor_registration *next, u64 start,
				  u64 length, u64 iova,
				  struct moor_refusal *why)
{
	int err;

	next->start = start;
	next->length = length;
	next->iova = iova;
	err = moor_reg_check_range(mdev, next, iova, why);
	if (err)
		return err;
	err = moor_reg_pin(mdev, next, why);
	/* Record the access that was pinned for, also if the call keeps the rights. */
	if (err)
		why->access |= next->access & IB_ACCESS_LOCAL_WRITE;
	return err;
}

/*
 * An MR that is paged on demand, or is to be, gets a new table for the same range: its
 * old table may be in use by invalidations. The range is in the address space of the
 * process that registered it, so another process is refused.
 */
static int moor_rereg_paging(struct moor_dev *mdev,
			     struct moor_registration *next, u64 iova,
			     struct moor_refusal *why)
{
	struct mm_struct *owner = next->odp ? next->odp->mm :
					      next->umem->owning_mm;

	if (owner != current->mm) {
		why->reason = MOOR_REFUSAL_OTHER;
		return -EACCES;
	}
	return moor_rereg_translation(mdev, next, next->start, next->length,
				      iova, why);
}

/*
 * The memory stays pinned as it is: what was pinned for reading may be shared
 * with other processes and is not to be written.
 */
static int moor_rereg_rights(struct moor_registration *next, u64 iova,
			     struct moor_refusal *why)
{
	u32 writes = next->access & (MOOR_ACCESS_LOCAL_WRITE |
				     MOOR_ACCESS_REMOTE_WRITE |
				     MOOR_ACCESS_REMOTE_ATOMIC);

	if (writes && !next->umem->writable) {
		why->reason = MOOR_REFUSAL_FLAGS;
		why->value = writes;
		return -EACCES;
	}
	next->iova = next->zero_based ? 0 : iova;
	return moor_reg_check_memory(next, why);
}

/*
 * Fill in @next, which the registration is to become. With IB_MR_REREG_TRANS, or if it
 * is paged on demand before or after, @next gets memory of its own. The request is in
 * @why.
 */
static int moor_rereg_prepare(struct ib_mr *ibmr, struct moor_ucontext *uctx,
			      struct moor_registration *next, int flags,
			      u64 iova, struct ib_pd *ibpd,
			      struct moor_refusal *why)
{
	struct moor_dev *mdev = to_mdev(ibmr->device);
	int err;

	why->reason = MOOR_REFUSAL_DEVICE;
	if (moor_is_dead(mdev))
		return -EIO;
	/* libibverbs does not offer this, and the buffer's owner may take it back. */
	why->reason = MOOR_REFUSAL_OTHER;
	if (moor_reg_is_dmabuf(next))
		return -EOPNOTSUPP;
	if (flags & IB_MR_REREG_PD)
		next->pdn = to_mpd(ibpd)->pdn;
	if (flags & IB_MR_REREG_ACCESS) {
		err = moor_reg_check_access(mdev, uctx, why->access, why);
		if (err)
			return err;
		moor_reg_set_access(next, why->access);
	}
	if (flags & IB_MR_REREG_TRANS)
		return moor_rereg_translation(mdev, next, why->start,
					      why->length, iova, why);
	if (next->odp || next->access & MOOR_ACCESS_ON_DEMAND)
		return moor_rereg_paging(mdev, next, ibmr->iova, why);
	return moor_rereg_rights(next, ibmr->iova, why);
}

/* The entry is cleared and nothing uses it: write it anew (HWI REV-8). */
static void moor_rereg_commit(struct moor_dev *mdev, struct moor_mr *mr,
			      const struct moor_registration *next)
{
	spinlock_t *lock = moor_key_lock(mdev, mr->key);

	moor_odp_hold(next->odp);
	spin_lock(lock);
	mr->reg = *next;
	mr->generation++;
	spin_unlock(lock);
	moor_mr_publish(mdev, mr);
	moor_odp_begin(next->odp, mr->key);
}

/**
 * moor_rereg_user_mr - change a registration in place
 * @ibmr: MR
 * @flags: IB_MR_REREG_*: which of the following count
 * @start: address of the first byte
 * @length: bytes
 * @iova: address of the first byte on the wire
 * @access: IB_ACCESS_*
 * @ibpd: protection domain
 * @udata: no input
 *
 * Until the old range is unpinned, both ranges count towards the process's limit.
 *
 * Return: NULL, with the keys as they were; -EBUSY while a window is bound;
 * -EACCES if memory pinned for reading is to be written, or if paging changes for
 * another process's memory; -EOPNOTSUPP for memory of a dma-buf; or what
 * moor_reg_user_mr() gives. After an error the registration is as it was.
 */
struct ib_mr *moor_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start,
				 u64 length, u64 iova, int access,
				 struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(ibmr->device);
	struct moor_mr *mr = to_mmr(ibmr);
	struct moor_registration next = mr->reg;
	struct moor_registration old = mr->reg;
	/* What the call does not change is taken from the region. */
	struct moor_refusal why = {
		.start = flags & IB_MR_REREG_TRANS ? start : mr->reg.start,
		.length = flags & IB_MR_REREG_TRANS ? length : mr->reg.length,
		.access = access,
	};
	struct moor_ucontext *uctx;
	bool other;
	int err;

	err = ib_no_udata_io(udata);
	if (err)
		return ERR_PTR(err);

	uctx = rdma_udata_to_drv_context(udata, struct moor_ucontext,
					 ibucontext);
	err = moor_rereg_prepare(ibmr, uctx, &next, flags, iova, ibpd, &why);
	if (err)
		goto refuse;
	other = next.umem != old.umem || next.odp != old.odp;
	moor_odp_leaving(old.odp, true);
	err = moor_key_revoke(mdev, mr->key);
	if (err) {
		moor_odp_leaving(old.odp, false);
		why.reason = MOOR_REFUSAL_WINDOWS;
		why.value = moor_mr_count_windows(mdev, mr->key,
						  mr->reg.access);
		moor_mr_trace_holders(mdev, mr->key);
		if (other)
			moor_reg_unpin(mdev, &next);
		goto refuse;
	}
	moor_rereg_commit(mdev, mr, &next);
	if (other)
		moor_reg_unpin(mdev, &old);
	trace_moor_rereg_mr(mdev, mr);
	return NULL;

refuse:
	moor_refuse(mdev, udata, &why, err);
	return ERR_PTR(err);
}
