// SPDX-License-Identifier: GPL-2.0
/*
 * MRs and windows of a process that closes its context. Nobody waits for a
 * single one then, so they are parked, as usable as before, and taken back many
 * at a time behind one fence (HWI 6.5).
 *
 * A parked MR outlives its handle but not its protection domain: before the
 * domain's number may become somebody else's, what is parked is taken back.
 *
 * All of this runs with the core's hw_destroy_rwsem held for writing, which
 * protects what a context has parked.
 */

#include "moor.h"

/**
 * moor_parking_open - a process closes its context, or the device leaves it
 * @uctx: context
 *
 * From here on the core destroys objects of this context, and nobody else does
 * anything with them.
 */
void moor_parking_open(struct moor_ucontext *uctx)
{
	uctx->closing = true;
}

static void moor_parking_fence(struct moor_dev *mdev,
			       struct moor_ucontext *uctx)
{
	u32 count = uctx->num_parked, i;

	if (!count)
		return;
	uctx->num_parked = 0;
	moor_keys_revoke(mdev, uctx->parked, count);
	for (i = 0; i < count; i++) {
		const struct moor_revocation *rev = &uctx->parked[i];

		if (rev->mr && rev->busy) {
			list_add_tail(&rev->mr->held, &uctx->held);
		} else if (rev->mr) {
			moor_mr_free(mdev, rev->mr);
		} else {
			if (rev->busy)
				moor_hw_kill(mdev, "it holds a window");
			moor_key_free(mdev, rev->key);
		}
	}
}

static void moor_parking_add(struct moor_dev *mdev, struct moor_ucontext *uctx,
			     u32 key, struct moor_mr *mr)
{
	uctx->parked[uctx->num_parked++] = (struct moor_revocation){
		.key = key,
		.mr = mr,
	};
	if (uctx->num_parked == ARRAY_SIZE(uctx->parked))
		moor_parking_fence(mdev, uctx);
}

/**
 * moor_park - leave a key to a later fence
 * @mdev: device
 * @uobj: the MR's or window's, or NULL for the kernel's
 * @key: its key
 * @mr: MR, freed when its key is; NULL for a window
 *
 * What has windows bound is held until they are gone.
 *
 * Return: false if somebody waits for this very key; then nothing is done.
 */
bool moor_park(struct moor_dev *mdev, const struct ib_uobject *uobj, u32 key,
	       struct moor_mr *mr)
{
	struct moor_ucontext *uctx = uobj ? to_muctx(uobj->context) : NULL;

	if (!uctx || !uctx->closing)
		return false;
	moor_parking_add(mdev, uctx, key, mr);
	return true;
}

static void moor_parking_retry(struct moor_dev *mdev,
			       struct moor_ucontext *uctx)
{
	struct moor_mr *mr, *next;
	LIST_HEAD(held);

	list_splice_init(&uctx->held, &held);
	list_for_each_entry_safe(mr, next, &held, held) {
		list_del(&mr->held);
		moor_parking_add(mdev, uctx, mr->key, mr);
	}
	moor_parking_fence(mdev, uctx);
}

static bool moor_parking_holds(const struct moor_ucontext *uctx, u32 pdn)
{
	const struct moor_mr *mr;

	list_for_each_entry(mr, &uctx->held, held)
		if (mr->reg.pdn == pdn)
			return true;
	return false;
}

/**
 * moor_parking_leave - take back what is parked before its domain goes
 * @mdev: device
 * @uobj: the protection domain's, or NULL for the kernel's
 * @pdn: number of the protection domain
 *
 * The core has seen to it that the domain has no window any more. So a device
 * that calls one of its MRs busy is wrong, and stopped: afterwards nothing is.
 */
void moor_parking_leave(struct moor_dev *mdev, const struct ib_uobject *uobj,
			u32 pdn)
{
	struct moor_ucontext *uctx = uobj ? to_muctx(uobj->context) : NULL;

	if (!uctx || !uctx->closing)
		return;
	moor_parking_fence(mdev, uctx);
	if (moor_parking_holds(uctx, pdn))
		moor_parking_retry(mdev, uctx);
	if (moor_parking_holds(uctx, pdn)) {
		moor_hw_kill(mdev, "it holds an MR that has no window");
		moor_parking_retry(mdev, uctx);
	}
}
