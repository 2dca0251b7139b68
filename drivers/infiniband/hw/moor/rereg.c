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
	int err = moor_mr_check_range(mdev, start, length, iova, why);

	if (err)
		return err;
	next->start = start;
	next->length = length;
	next->iova = iova;
	err = moor_reg_pin(mdev, next, why);
	/* What the memory was to be pinned for, if the call left the rights alone. */
	if (err)
		why->access |= next->access & IB_ACCESS_LOCAL_WRITE;
	return err;
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
	return 0;
}

/* What the registration is to become; with IB_MR_REREG_TRANS it is pinned. */
static int moor_rereg_prepare(struct ib_mr *ibmr,
			      struct moor_registration *next, int flags,
			      u64 start, u64 length, u64 iova, int access,
			      struct ib_pd *ibpd, struct moor_refusal *why)
{
	struct moor_dev *mdev = to_mdev(ibmr->device);
	int err;

	why->reason = MOOR_REFUSAL_DEVICE;
	if (moor_is_dead(mdev))
		return -EIO;
	if (flags & IB_MR_REREG_PD)
		next->pdn = to_mpd(ibpd)->pdn;
	if (flags & IB_MR_REREG_ACCESS) {
		err = moor_mr_check_access(access, why);
		if (err)
			return err;
		moor_reg_set_access(next, access);
	}
	if (flags & IB_MR_REREG_TRANS)
		return moor_rereg_translation(mdev, next, start, length, iova,
					      why);
	return moor_rereg_rights(next, ibmr->iova, why);
}

/* The entry is cleared and nothing uses it: write it anew (HWI REV-8). */
static void moor_rereg_commit(struct moor_dev *mdev, struct moor_mr *mr,
			      const struct moor_registration *next)
{
	spin_lock(&mdev->keys.lock);
	mr->reg = *next;
	mr->generation++;
	spin_unlock(&mdev->keys.lock);
	moor_mr_publish(mdev, mr);
}

/**
 * moor_rereg_user_mr - change a registration in place
 * @ibmr: MR
 * @flags: IB_MR_REREG_*: which of the following count
 * @start: address of the first byte
 * @length: bytes
 * @iova: what the wire calls the first byte
 * @access: IB_ACCESS_*
 * @ibpd: protection domain
 * @udata: no input
 *
 * Until the old range is unpinned both count towards the process's limit.
 *
 * Return: NULL, with the keys as they were; -EBUSY while a window is bound;
 * -EACCES if memory pinned for reading is to be written; or what
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
	struct moor_refusal why = {
		.start = start,
		.length = length,
		.access = access,
	};
	int err;

	err = ib_no_udata_io(udata);
	if (err)
		return ERR_PTR(err);

	err = moor_rereg_prepare(ibmr, &next, flags, start, length, iova,
				 access, ibpd, &why);
	if (err)
		goto refuse;
	err = moor_key_revoke(mdev, mr->key);
	if (err) {
		why.reason = MOOR_REFUSAL_WINDOWS;
		why.value = moor_mr_count_windows(mdev, mr);
		moor_mr_trace_holders(mdev, mr->key);
		if (flags & IB_MR_REREG_TRANS)
			moor_reg_unpin(mdev, &next);
		goto refuse;
	}
	moor_rereg_commit(mdev, mr, &next);
	if (flags & IB_MR_REREG_TRANS)
		moor_reg_unpin(mdev, &old);
	trace_moor_rereg_mr(mdev, mr);
	return NULL;

refuse:
	moor_refuse(mdev, udata, &why, err);
	return ERR_PTR(err);
}
