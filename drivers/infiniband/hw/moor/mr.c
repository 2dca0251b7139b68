// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions: registering and deregistering.
 *
 * Two invariants. Pages are unpinned only after a successful fence, or when the
 * device is dead. A context entry is valid only while its MR, its table and its
 * pinned memory exist.
 */

#include <linux/slab.h>
#include <rdma/restrack.h>

#include "moor.h"
#include "trace.h"

#define MOOR_ACCESS_SUPPORTED	(IB_ACCESS_LOCAL_WRITE |		\
				 IB_ACCESS_REMOTE_WRITE |		\
				 IB_ACCESS_REMOTE_READ |		\
				 IB_ACCESS_REMOTE_ATOMIC |		\
				 IB_ACCESS_MW_BIND |			\
				 IB_ACCESS_RELAXED_ORDERING)

/* The device's bits are the core's, but for optional ones. */
static u32 moor_mr_rights(int access)
{
	u32 rights = access & (MOOR_ACCESS_LOCAL_WRITE |
			       MOOR_ACCESS_REMOTE_WRITE |
			       MOOR_ACCESS_REMOTE_READ |
			       MOOR_ACCESS_REMOTE_ATOMIC |
			       MOOR_ACCESS_MW_BIND);

	if (access & IB_ACCESS_RELAXED_ORDERING)
		rights |= MOOR_ACCESS_RELAXED_ORDERING;
	return rights;
}

static int moor_mr_check_access(int access)
{
	/* Optional flags may always be ignored. */
	if (access & ~(MOOR_ACCESS_SUPPORTED | IB_ACCESS_OPTIONAL))
		return -EOPNOTSUPP;
	if (access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IB_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

static int moor_mr_check_range(const struct moor_dev *mdev, u64 start,
			       u64 length, u64 iova)
{
	u64 last;

	if (!length || length > mdev->caps.max_mr_size)
		return -EINVAL;
	if (check_add_overflow(start, length - 1, &last) ||
	    check_add_overflow(iova, length - 1, &last))
		return -EINVAL;
	if (offset_in_page(start) != offset_in_page(iova))
		return -EINVAL;
	return 0;
}

static struct moor_mr *moor_mr_new(struct ib_pd *ibpd, int access, u8 type)
{
	struct moor_mr *mr = kzalloc_obj(*mr);

	if (!mr)
		return NULL;
	mr->access = moor_mr_rights(access);
	mr->pdn = to_mpd(ibpd)->pdn;
	mr->type = type;
	return mr;
}

/* From here on the device serves it. */
static int moor_mr_enter(struct moor_dev *mdev, struct moor_mr *mr)
{
	int err = moor_key_alloc(mdev, mr);

	if (err)
		return err;
	moor_mr_publish(mdev, mr);
	mr->ibmr.lkey = mr->key;
	mr->ibmr.rkey = mr->key;
	return 0;
}

/**
 * moor_reg_user_mr - register memory of the calling process
 * @ibpd: protection domain
 * @start: address of the first byte
 * @length: bytes
 * @iova: what the wire calls the first byte
 * @access: IB_ACCESS_*
 * @udata: no input
 *
 * Sleeps in pinning and allocating alone: no command is issued.
 *
 * Return: the MR; -EINVAL for an impossible range or a combination of rights
 * that IBA forbids; -EOPNOTSUPP for a flag we do not have; -ENOMEM also for the
 * device's or the process's limit; -EFAULT for what is not mapped.
 */
struct ib_mr *moor_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length,
			       u64 iova, int access, struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(ibpd->device);
	struct moor_mr *mr;
	int err;

	err = ib_no_udata_io(udata);
	if (!err)
		err = moor_mr_check_access(access);
	if (!err)
		err = moor_mr_check_range(mdev, start, length, iova);
	if (err)
		return ERR_PTR(err);

	mr = moor_mr_new(ibpd, access, MOOR_MRC_TYPE_MR);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->start = start;
	mr->length = length;
	mr->iova = iova;

	mr->umem = ib_umem_get_va(ibpd->device, start, length, access);
	if (IS_ERR(mr->umem)) {
		err = PTR_ERR(mr->umem);
		goto free_mr;
	}
	err = moor_table_build(mdev, &mr->table, mr->umem, iova);
	if (err)
		goto release;
	err = moor_mr_enter(mdev, mr);
	if (err)
		goto free_table;

	mr->ibmr.iova = iova;
	mr->ibmr.length = length;
	trace_moor_reg_mr(mdev, mr);
	return &mr->ibmr;

free_table:
	moor_table_free(mdev, &mr->table);
release:
	ib_umem_release(mr->umem);
free_mr:
	kfree(mr);
	return ERR_PTR(err);
}

/**
 * moor_get_dma_mr - all of memory, for the kernel
 * @ibpd: protection domain
 * @access: IB_ACCESS_*
 *
 * The device honours such a key on QPs of the kernel alone (HWI 6.1).
 *
 * Return: the MR or an errno.
 */
struct ib_mr *moor_get_dma_mr(struct ib_pd *ibpd, int access)
{
	struct moor_dev *mdev = to_mdev(ibpd->device);
	struct moor_mr *mr;
	int err;

	err = moor_mr_check_access(access);
	if (err)
		return ERR_PTR(err);
	mr = moor_mr_new(ibpd, access, MOOR_MRC_TYPE_ALL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	err = moor_mr_enter(mdev, mr);
	if (err) {
		kfree(mr);
		return ERR_PTR(err);
	}
	return &mr->ibmr;
}

/*
 * The core takes an MR out of its resource tracking before it asks us, and does
 * not put it back when we refuse.
 */
static void moor_mr_track_again(struct ib_mr *ibmr)
{
	rdma_restrack_new(&ibmr->res, RDMA_RESTRACK_MR);
	rdma_restrack_set_name(&ibmr->res, NULL);
	rdma_restrack_add(&ibmr->res);
}

/**
 * moor_dereg_mr - deregister
 * @ibmr: MR
 * @udata: unused
 *
 * Return: 0, or -EBUSY while a window is bound to it; then it is as usable as
 * before. No other error, and none for the kernel's MRs, which nothing binds.
 */
int moor_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(ibmr->device);
	struct moor_mr *mr = to_mmr(ibmr);
	int err;

	err = moor_mr_revoke(mdev, mr);
	trace_moor_dereg_mr(mdev, mr, err);
	if (err) {
		moor_mr_track_again(ibmr);
		return err;
	}
	moor_key_free(mdev, mr->key);
	if (mr->umem) {
		moor_table_free(mdev, &mr->table);
		ib_umem_release(mr->umem);
	}
	kfree(mr);
	return 0;
}
