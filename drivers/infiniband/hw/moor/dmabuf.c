// SPDX-License-Identifier: GPL-2.0
/*
 * dma-buf: memory that the driver of another device has given to the process, as a
 * file. Where a buffer may move, dmabuf_move.c follows it. Elsewhere it stays in place
 * while it is registered, but its owner may take it back at any time: then the key is
 * revoked, as in deregistering. The key stays the MR's, of no use, until the MR is
 * deregistered. Such MRs are not re-registered (rereg.c).
 *
 * The buffer's reservation lock serialises its owner and the task that deregisters.
 * The fence is waited for under that lock.
 */

#include <linux/dma-buf.h>

#include "moor.h"

/* Windows would outlast what the owner takes back; the core lets neither flag pass. */
#define MOOR_ACCESS_NO_DMABUF	(IB_ACCESS_MW_BIND | IB_ZERO_BASED)

/* Called once for an MR, with the reservation lock; at the latest when the MR goes. */
static void moor_dmabuf_taken_back(void *private)
{
	struct moor_mr *mr = private;
	struct moor_dev *mdev = to_mdev(mr->reg.umem->ibdev);

	if (moor_key_revoke(mdev, mr->key))
		moor_hw_kill(mdev, "it holds an MR that no window can be bound to");
}

/**
 * moor_dmabuf_let_go - end the use of a dma-buf, if the memory is one
 * @reg: registration of an MR
 *
 * The MR's key is revoked, unless the owner of the buffer was quicker.
 *
 * Return: whether the memory is a dma-buf's
 */
bool moor_dmabuf_let_go(const struct moor_registration *reg)
{
	if (!moor_reg_is_dmabuf(reg))
		return false;
	if (reg->dmabuf)
		moor_dmabuf_end(reg->dmabuf);
	else
		ib_umem_dmabuf_revoke(to_ib_umem_dmabuf(reg->umem));
	return true;
}

/**
 * moor_dmabuf_check_list - check what the owner of a dma-buf has given
 * @umem: the buffer, mapped
 *
 * The core does not look. A table of a list that is too short would let the device go
 * on behind the buffer, or have no first piece at all.
 *
 * Return: 0; -EINVAL if the list is not the memory's length in whole pages.
 */
int moor_dmabuf_check_list(const struct ib_umem *umem)
{
	const struct sg_table *sgt = &umem->sgt_append.sgt;
	struct scatterlist *sg;
	u64 length = 0;
	u32 i;

	for_each_sg(sgt->sgl, sg, sgt->nents, i) {
		if (!PAGE_ALIGNED(sg_dma_address(sg) | sg_dma_len(sg)))
			return -EINVAL;
		length += sg_dma_len(sg);
	}
	return length == moor_dmabuf_pages(umem) * PAGE_SIZE ? 0 : -EINVAL;
}

/* Returns with the reservation lock held, unless it fails. */
static int moor_dmabuf_pin_and_lock(struct moor_dev *mdev,
				    struct moor_registration *reg, int fd)
{
	int access = reg->access & MOOR_ACCESS_COMMON;
	struct ib_umem_dmabuf *dmabuf;
	int err;

	dmabuf = ib_umem_dmabuf_get_pinned_revocable_and_lock(&mdev->ibdev,
							      reg->start,
							      reg->length, fd,
							      access);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	reg->umem = &dmabuf->umem;
	err = moor_dmabuf_check_list(reg->umem);
	if (!err)
		err = moor_table_build(mdev, &reg->table, reg->umem);
	if (err) {
		ib_umem_dmabuf_revoke_unlock(dmabuf);
		ib_umem_release(reg->umem);
	}
	return err;
}

static int moor_dmabuf_pin(struct moor_dev *mdev, struct moor_mr *mr, int fd,
			   struct moor_refusal *why)
{
	struct ib_umem_dmabuf *dmabuf;
	int err;

	err = moor_dmabuf_pin_and_lock(mdev, &mr->reg, fd);
	if (err)
		return err;
	dmabuf = to_ib_umem_dmabuf(mr->reg.umem);
	err = moor_mr_enter(mdev, mr, why);
	if (!err)
		ib_umem_dmabuf_set_revoke_locked(dmabuf, moor_dmabuf_taken_back,
						 mr);
	ib_umem_dmabuf_revoke_unlock(dmabuf);
	if (err)
		moor_reg_unpin(mdev, &mr->reg);
	return err;
}

/* Where buffers may move, those that cannot are treated alike: one kind, not two. */
static int moor_dmabuf_take(struct moor_dev *mdev, struct moor_mr *mr, int fd,
			    struct moor_refusal *why)
{
	int err;

	if (!moor_dmabufs_move() || !moor_has_odp(mdev))
		return moor_dmabuf_pin(mdev, mr, fd, why);
	err = moor_faults_open(mr->uctx);
	return err ?: moor_dmabuf_new(mdev, mr, fd, why);
}

/*
 * The core gives -EINVAL for a range outside the buffer, but also for a flag or for a
 * file of another kind. So the range is checked here.
 */
static int moor_dmabuf_check_range(int fd, struct moor_refusal *why)
{
	struct dma_buf *buf = dma_buf_get(fd);
	int err = 0;

	why->reason = MOOR_REFUSAL_OTHER;
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	if (why->start > buf->size || why->length > buf->size - why->start) {
		why->reason = MOOR_REFUSAL_LENGTH;
		why->value = why->length;
		why->limit = buf->size;
		err = -EFAULT;
	}
	dma_buf_put(buf);
	return err;
}

static struct moor_mr *moor_dmabuf_mr_new(struct ib_pd *ibpd,
					  struct moor_ucontext *uctx, u64 iova,
					  int fd, struct moor_refusal *why)
{
	struct moor_dev *mdev = to_mdev(ibpd->device);
	struct moor_mr *mr;
	int err;

	why->reason = MOOR_REFUSAL_DEVICE;
	if (moor_is_dead(mdev))
		return ERR_PTR(-EIO);
	err = moor_mr_check_access(moor_mr_supported(mdev) &
				   ~MOOR_ACCESS_NO_DMABUF, why->access, why);
	if (!err)
		err = moor_mr_check_range(mdev, why->start, why->length, iova,
					  why);
	if (!err)
		err = moor_dmabuf_check_range(fd, why);
	if (err)
		return ERR_PTR(err);

	why->reason = MOOR_REFUSAL_NONE;
	why->value = 0;
	why->limit = 0;
	mr = moor_mr_new(ibpd, why->access, MOOR_MRC_TYPE_MR);
	if (!mr) {
		why->reason = MOOR_REFUSAL_MEMORY;
		return ERR_PTR(-ENOMEM);
	}
	mr->uctx = uctx;
	mr->reg.start = why->start;
	mr->reg.length = why->length;
	mr->reg.iova = iova;
	err = moor_dmabuf_take(mdev, mr, fd, why);
	if (!err)
		return mr;
	if (why->reason == MOOR_REFUSAL_NONE)
		why->reason = moor_refusal_of_errno(err);
	kfree(mr);
	return ERR_PTR(err);
}

/**
 * moor_reg_user_mr_dmabuf - register memory of a dma-buf
 * @ibpd: protection domain
 * @offset: first byte in the buffer
 * @length: bytes
 * @iova: address of the first byte on the wire
 * @fd: the buffer
 * @access: IB_ACCESS_*
 * @attrs: of the call
 *
 * Return: the MR; -EBADF if @fd is no file, -EINVAL if it is no dma-buf, -EFAULT if the
 * buffer is too short; -EINVAL for an impossible range or a combination of rights that
 * IBA forbids; -EOPNOTSUPP for a flag that is not allowed for a dma-buf; the error of
 * the buffer's owner; -EINTR or -ERESTARTSYS if a signal comes while the buffer moves;
 * -ENOMEM; -EIO on a dead device.
 */
struct ib_mr *moor_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset,
				      u64 length, u64 iova, int fd, int access,
				      struct uverbs_attr_bundle *attrs)
{
	struct moor_refusal why = {
		.start = offset,
		.length = length,
		.access = access,
	};
	struct moor_ucontext *uctx =
		rdma_udata_to_drv_context(&attrs->driver_udata,
					  struct moor_ucontext, ibucontext);
	struct moor_mr *mr;
	int err;

	err = ib_no_udata_io(&attrs->driver_udata);
	if (err)
		return ERR_PTR(err);
	mr = moor_dmabuf_mr_new(ibpd, uctx, iova, fd, &why);
	if (IS_ERR(mr)) {
		moor_refuse(to_mdev(ibpd->device), &attrs->driver_udata, &why,
			    PTR_ERR(mr));
		return ERR_CAST(mr);
	}
	mr->ibmr.iova = iova;
	mr->ibmr.length = length;
	return &mr->ibmr;
}
