// SPDX-License-Identifier: GPL-2.0
/*
 * Shared receive queues (HWI 10.3). A process's ring is its memory and its producer
 * index a doorbell slot of its own page, as of other queues.
 */

#include "moor.h"

static u32 moor_srq_index(const struct moor_dev *mdev, u32 srqn)
{
	return srqn & (BIT(mdev->caps.srq_index_bits) - 1);
}

/**
 * moor_srq_find - the shared receive queue that an event names
 * @mdev: device
 * @srqn: its number, all bits: the index may have another owner by now
 *
 * Context: of the asynchronous event queue
 *
 * Return: the shared receive queue, or NULL.
 */
struct moor_srq *moor_srq_find(struct moor_dev *mdev, u32 srqn)
{
	struct moor_srq *srq = xa_load(&mdev->srqs, moor_srq_index(mdev, srqn));

	return srq && srq->srqn == srqn ? srq : NULL;
}

static void moor_srq_erase(struct moor_dev *mdev, struct moor_srq *srq)
{
	xa_erase(&mdev->srqs, moor_srq_index(mdev, srq->srqn));
	moor_eq_sync(&mdev->async_eq);
}

/* From here on events find the SRQ; not earlier, for the reason in moor_cq_reveal(). */
static void moor_srq_reveal(struct moor_dev *mdev, struct moor_srq *srq)
{
	WARN_ON(xa_is_err(xa_store(&mdev->srqs, moor_srq_index(mdev, srq->srqn),
				   srq, GFP_KERNEL)));
}

static int moor_srq_check_attr(const struct moor_dev *mdev,
			       const struct ib_srq_init_attr *attr, bool user)
{
	if (attr->srq_type != IB_SRQT_BASIC && attr->srq_type != IB_SRQT_XRC)
		return -EOPNOTSUPP;
	if (attr->srq_type == IB_SRQT_XRC &&
	    !(user && mdev->caps.features & MOOR_FEATURE_XRC))
		return -EOPNOTSUPP;
	if (!attr->attr.max_wr ||
	    attr->attr.max_wr > 1U << mdev->caps.max_log_wqe ||
	    attr->attr.max_sge > mdev->caps.max_sge)
		return -EINVAL;
	return 0;
}

static int moor_srq_check_ring(const struct moor_dev *mdev, u64 addr,
			       u8 log_depth, u8 log_stride, u32 max_wr,
			       u32 max_sge)
{
	return moor_check_queue(mdev, addr, log_depth, log_stride,
				MOOR_MIN_LOG_RQ_STRIDE, max_wr,
				sizeof(struct moor_rq_wqe) +
				max_sge * sizeof(struct moor_sge));
}

static int moor_user_srq_init(struct moor_srq *srq,
			      const struct ib_srq_attr *attr,
			      struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(srq->ibsrq.device);
	struct moor_create_srq_req req = {};
	int err;

	err = ib_copy_validate_udata_in(udata, req, cookie);
	if (err)
		return err;
	if (memchr_inv(req.reserved, 0, sizeof(req.reserved)) ||
	    (req.cookie && srq->ibsrq.srq_type != IB_SRQT_XRC))
		return -EINVAL;
	srq->cookie = req.cookie;
	err = moor_srq_check_ring(mdev, req.ring_addr, req.log_depth,
				  req.log_stride, attr->max_wr, attr->max_sge);
	if (err)
		return err;
	err = moor_pin_queue(mdev, &srq->ring, req.ring_addr, req.log_depth,
			     req.log_stride);
	if (err)
		return err;
	srq->log_depth = req.log_depth;
	srq->log_stride = req.log_stride;
	srq->uctx = rdma_udata_to_drv_context(udata, struct moor_ucontext,
					      ibucontext);
	err = moor_db_alloc(srq->uctx, &srq->db, 1);
	if (err)
		moor_ring_unpin(mdev, &srq->ring);
	return err;
}

/* The device does not know the SRQ any more. */
static void moor_srq_release(struct moor_srq *srq)
{
	if (srq->uctx) {
		moor_db_free(srq->uctx, &srq->db);
		moor_ring_unpin(to_mdev(srq->ibsrq.device), &srq->ring);
	} else {
		moor_kernel_srq_release(srq);
	}
	mutex_destroy(&srq->lock);
}

static int moor_srq_respond(struct moor_srq *srq, struct ib_udata *udata)
{
	struct moor_create_srq_resp resp = { .srqn = srq->srqn };

	moor_db_describe(&srq->db, &resp.db);
	return ib_respond_udata(udata, resp);
}

/**
 * moor_create_srq - create a shared receive queue
 * @ibsrq: shared receive queue
 * @attr: attributes; the size is updated to what there is
 * @udata: struct moor_create_srq_req and _resp; NULL for a kernel user
 *
 * Return: 0; -EOPNOTSUPP for other types than the basic one and, of a process, XRC;
 * -EINVAL; -ENOMEM; or what pinning the ring gives.
 */
int moor_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr,
		    struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(ibsrq->device);
	struct moor_srq *srq = to_msrq(ibsrq);
	int err;

	err = moor_srq_check_attr(mdev, attr, udata);
	if (err)
		return err;
	srq->max_sge = attr->attr.max_sge;
	err = udata ? moor_user_srq_init(srq, &attr->attr, udata) :
		      moor_kernel_srq_init(srq, attr->attr.max_wr);
	if (err)
		return err;

	mutex_init(&srq->lock);
	err = moor_number_alloc(&mdev->srqs, mdev->caps.srq_index_bits, 0, NULL,
				&srq->srqn);
	if (err)
		goto release;
	err = moor_cmd_create_srq(mdev, srq);
	if (err)
		goto erase;
	attr->attr.max_wr = 1U << srq->log_depth;
	if (ibsrq->srq_type == IB_SRQT_XRC)
		ibsrq->ext.xrc.srq_num = srq->srqn;
	if (udata)
		err = moor_srq_respond(srq, udata);
	if (err)
		goto destroy;
	moor_srq_reveal(mdev, srq);
	return 0;

destroy:
	moor_cmd_destroy_srq(mdev, srq->srqn);
erase:
	moor_srq_erase(mdev, srq);
release:
	moor_srq_release(srq);
	return err;
}

/* Another ring, of the same stride, in which the process has put its WQEs. */
static int moor_srq_pin_other(struct moor_srq *srq, u32 max_wr,
			      struct ib_udata *udata, struct moor_ring *ring,
			      u8 *log_depth)
{
	struct moor_dev *mdev = to_mdev(srq->ibsrq.device);
	struct moor_modify_srq_req req = {};
	int err;

	/* No kernel user resizes an SRQ. */
	if (!udata)
		return -EOPNOTSUPP;
	err = ib_copy_validate_udata_in(udata, req, reserved);
	if (err)
		return err;
	if (!max_wr || memchr_inv(req.reserved, 0, sizeof(req.reserved)))
		return -EINVAL;
	err = moor_srq_check_ring(mdev, req.ring_addr, req.log_depth,
				  srq->log_stride, max_wr, srq->max_sge);
	if (err)
		return err;
	*log_depth = req.log_depth;
	return moor_pin_queue(mdev, ring, req.ring_addr, req.log_depth,
			      srq->log_stride);
}

/* The device takes the new ring and gives the old one back, or refuses. */
static int moor_srq_move(struct moor_srq *srq, struct moor_cmd_modify_srq *cmd,
			 u32 max_wr, struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(srq->ibsrq.device);
	struct moor_ring ring;
	u8 log_depth;
	int err;

	lockdep_assert_held(&srq->lock);
	err = moor_srq_pin_other(srq, max_wr, udata, &ring, &log_depth);
	if (err)
		return err;
	cmd->mask |= cpu_to_le32(MOOR_SRQ_ATTR_RING);
	cmd->log_depth = log_depth;
	cmd->log_stride = srq->log_stride;
	cmd->ring = ring.table.xlat;
	err = moor_cmd_modify_srq(mdev, cmd);
	if (!err) {
		swap(srq->ring, ring);
		srq->log_depth = log_depth;
	}
	moor_ring_unpin(mdev, &ring);
	return err;
}

/**
 * moor_modify_srq - set the limit, or move to another ring
 * @ibsrq: shared receive queue
 * @attr: attributes
 * @mask: which of them
 * @udata: struct moor_modify_srq_req with IB_SRQ_MAX_WR, else no input
 *
 * Return: 0, or an errno and all is as it was: -EINVAL for a limit above the size, and
 * for a size that has no room for what is posted.
 */
int moor_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		    enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct moor_srq *srq = to_msrq(ibsrq);
	struct moor_cmd_modify_srq cmd = { .srqn = cpu_to_le32(srq->srqn) };
	int err;

	if (mask & ~(IB_SRQ_MAX_WR | IB_SRQ_LIMIT))
		return -EINVAL;
	if (mask & IB_SRQ_LIMIT) {
		cmd.mask |= cpu_to_le32(MOOR_SRQ_ATTR_LIMIT);
		cmd.limit = cpu_to_le32(attr->srq_limit);
	}
	if (!(mask & IB_SRQ_MAX_WR)) {
		err = ib_is_udata_in_empty(udata);
		return err ?: moor_cmd_modify_srq(to_mdev(ibsrq->device), &cmd);
	}
	/* Held across the command: @ring must be the one the device uses. */
	mutex_lock(&srq->lock);
	err = moor_srq_move(srq, &cmd, attr->max_wr, udata);
	mutex_unlock(&srq->lock);
	return err;
}

/**
 * moor_query_srq - attributes of a shared receive queue
 * @ibsrq: shared receive queue
 * @attr: filled in
 *
 * Return: 0 or an errno.
 */
int moor_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct moor_srq *srq = to_msrq(ibsrq);
	struct moor_cpl_query_srq state;
	int err;

	mutex_lock(&srq->lock);
	err = moor_cmd_query_srq(to_mdev(ibsrq->device), srq->srqn, &state);
	attr->max_wr = 1U << srq->log_depth;
	mutex_unlock(&srq->lock);
	if (err)
		return err;
	attr->max_sge = srq->max_sge;
	attr->srq_limit = le32_to_cpu(state.limit);
	return 0;
}

/**
 * moor_destroy_srq - destroy a shared receive queue
 * @ibsrq: shared receive queue; no queue pair has it
 * @udata: unused
 *
 * Return: 0. A device that refuses is stopped.
 */
int moor_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(ibsrq->device);
	struct moor_srq *srq = to_msrq(ibsrq);

	moor_cmd_destroy_srq(mdev, srq->srqn);
	moor_srq_erase(mdev, srq);
	moor_srq_release(srq);
	return 0;
}
