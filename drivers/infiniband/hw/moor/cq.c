// SPDX-License-Identifier: GPL-2.0
/*
 * Completion queues. The ring is the process's memory and its consumer index a
 * doorbell slot; the driver only makes, resizes and ends it.
 */

#include <linux/log2.h>

#include "moor.h"

/* A process sees its ring in powers of two, and says which. */
static int moor_cq_check_size(const struct moor_dev *mdev, u8 log_cqe,
			      unsigned int cqe, u64 ring_addr)
{
	if (log_cqe < 1 || log_cqe > mdev->caps.max_log_cqe)
		return -EINVAL;
	if (!cqe || cqe > 1U << log_cqe)
		return -EINVAL;
	if (!PAGE_ALIGNED(ring_addr))
		return -EINVAL;
	return 0;
}

static size_t moor_cq_ring_bytes(u8 log_cqe)
{
	return sizeof(struct moor_cqe) << log_cqe;
}

static int moor_cq_respond(struct moor_cq *cq, struct ib_udata *udata)
{
	struct moor_create_cq_resp resp = { .cqn = cq->cqn };

	moor_db_describe(&cq->db, &resp.db);
	return ib_respond_udata(udata, resp);
}

/*
 * On return no event handler and no work uses the CQ any more. Completions come through
 * the CQ's own EQ and errors through the asynchronous one; but a device may err, and
 * name the CQ in any EQ.
 */
static void moor_cq_forget(struct moor_dev *mdev, struct moor_cq *cq)
{
	u32 i;

	xa_erase(&mdev->cqs, cq->cqn);
	for (i = 0; i < mdev->num_comp; i++)
		moor_eq_sync(&mdev->comp_eqs[i]);
	moor_eq_sync(&mdev->async_eq);
	if (!cq->uctx)
		cancel_work_sync(&cq->kernel.wake);
}

/**
 * moor_cq_enter - give a CQ its number and make it known to the device
 * @mdev: device
 * @cq: CQ with ring, doorbell and event queue
 * @log_cqe: log2 of its entries
 *
 * Events do not find it yet: see moor_cq_reveal().
 *
 * Return: 0 or an errno.
 */
int moor_cq_enter(struct moor_dev *mdev, struct moor_cq *cq, u8 log_cqe)
{
	int err = xa_alloc_cyclic(&mdev->cqs, &cq->cqn, NULL,
				  XA_LIMIT(0, mdev->caps.max_cq - 1),
				  &mdev->next_cqn, GFP_KERNEL);

	if (err < 0)
		return -ENOMEM;
	err = moor_cmd_create_cq(mdev, cq, log_cqe);
	if (err)
		moor_cq_forget(mdev, cq);
	return err;
}

/**
 * moor_cq_reveal - let events find a CQ
 * @mdev: device
 * @cq: CQ whose creation cannot fail any more
 *
 * A device may name the CQ while it is being made. If its creation then fails, the core
 * frees it without looking for its events, but those of a process's CQ are in a list.
 */
void moor_cq_reveal(struct moor_dev *mdev, struct moor_cq *cq)
{
	/* Nothing to allocate: the place is reserved. */
	WARN_ON(xa_is_err(xa_store(&mdev->cqs, cq->cqn, cq, GFP_KERNEL)));
}

/**
 * moor_create_cq - create a completion queue
 * @ibcq: completion queue
 * @attr: attributes
 * @attrs: with struct moor_create_cq_req and _resp; NULL for a kernel user
 *
 * Return: 0; -EOPNOTSUPP for unknown flags; -EINVAL; -ENOMEM;
 * or what pinning the ring gives.
 */
int moor_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		   struct uverbs_attr_bundle *attrs)
{
	struct moor_dev *mdev = to_mdev(ibcq->device);
	struct moor_create_cq_req req = {};
	struct moor_cq *cq = to_mcq(ibcq);
	struct ib_udata *udata;
	struct ib_umem *umem;
	int err;

	if (!attrs)
		return moor_create_kernel_cq(ibcq, attr);
	if (attr->flags & ~IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION)
		return -EOPNOTSUPP;
	udata = &attrs->driver_udata;
	err = ib_copy_validate_udata_in(udata, req, reserved);
	if (err)
		return err;
	if (memchr_inv(req.reserved, 0, sizeof(req.reserved)))
		return -EINVAL;
	err = moor_cq_check_size(mdev, req.log_cqe, attr->cqe, req.ring_addr);
	if (err)
		return err;

	cq->uctx = rdma_udata_to_drv_context(udata, struct moor_ucontext,
					     ibucontext);
	cq->eq = &mdev->comp_eqs[attr->comp_vector % mdev->num_comp];
	mutex_init(&cq->resize_lock);

	umem = ib_umem_get_cq_buf_or_va(ibcq->device, attrs, req.ring_addr,
					moor_cq_ring_bytes(req.log_cqe),
					IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	err = moor_ring_pin(mdev, &cq->ring, umem);
	if (err)
		return err;
	err = moor_db_alloc(cq->uctx, &cq->db, 1);
	if (err)
		goto unpin;
	ibcq->cqe = 1 << req.log_cqe;
	err = moor_cq_enter(mdev, cq, req.log_cqe);
	if (err)
		goto free_db;
	err = moor_cq_respond(cq, udata);
	if (err)
		goto destroy;
	moor_cq_reveal(mdev, cq);
	return 0;

destroy:
	moor_cmd_destroy_cq(mdev, cq->cqn);
	moor_cq_forget(mdev, cq);
free_db:
	moor_db_free(cq->uctx, &cq->db);
unpin:
	moor_ring_unpin(mdev, &cq->ring);
	return err;
}

/**
 * moor_resize_cq - move a completion queue to another ring
 * @ibcq: completion queue
 * @cqe: entries asked for
 * @udata: struct moor_resize_cq_req; NULL for a kernel user
 *
 * Return: 0 or an errno, with the old ring in place.
 */
int moor_resize_cq(struct ib_cq *ibcq, unsigned int cqe,
		   struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(ibcq->device);
	struct moor_cq *cq = to_mcq(ibcq);
	struct moor_resize_cq_req req = {};
	struct moor_ring ring;
	struct ib_umem *umem;
	int err;

	if (!udata)
		return moor_resize_kernel_cq(cq, cqe);
	err = ib_copy_validate_udata_in(udata, req, reserved);
	if (err)
		return err;
	if (memchr_inv(req.reserved, 0, sizeof(req.reserved)))
		return -EINVAL;
	/* Respond now, while the resize can still fail. */
	err = ib_respond_empty_udata(udata);
	if (err)
		return err;
	err = moor_cq_check_size(mdev, req.log_cqe, cqe, req.ring_addr);
	if (err)
		return err;

	umem = ib_umem_get_va(ibcq->device, req.ring_addr,
			      moor_cq_ring_bytes(req.log_cqe),
			      IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	err = moor_ring_pin(mdev, &ring, umem);
	if (err)
		return err;

	/* Held across the command: @ring must be the one the device uses. */
	mutex_lock(&cq->resize_lock);
	err = moor_cmd_resize_cq(mdev, cq->cqn, &ring, req.log_cqe);
	if (!err) {
		swap(cq->ring, ring);
		ibcq->cqe = 1 << req.log_cqe;
	}
	mutex_unlock(&cq->resize_lock);
	moor_ring_unpin(mdev, &ring);
	return err;
}

/**
 * moor_modify_cq - let completion events wait for more completions
 * @ibcq: completion queue, of the kernel or not
 * @count: completions that an event waits for
 * @period: microseconds, but no longer
 *
 * Return: 0 or an errno.
 */
int moor_modify_cq(struct ib_cq *ibcq, u16 count, u16 period)
{
	return moor_cmd_modify_cq(to_mdev(ibcq->device), to_mcq(ibcq)->cqn,
				  count, period);
}

/**
 * moor_destroy_cq - destroy a completion queue
 * @ibcq: completion queue
 * @udata: unused
 *
 * Return: 0. A device that refuses is stopped.
 */
int moor_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(ibcq->device);
	struct moor_cq *cq = to_mcq(ibcq);

	moor_cmd_destroy_cq(mdev, cq->cqn);
	moor_cq_forget(mdev, cq);
	if (cq->uctx) {
		moor_db_free(cq->uctx, &cq->db);
		moor_ring_unpin(mdev, &cq->ring);
	} else {
		/*
		 * irq_poll_disable() waits till a handler has called
		 * irq_poll_complete(), but the handler arms the CQ after that.
		 */
		if (ibcq->poll_ctx == IB_POLL_SOFTIRQ)
			synchronize_rcu();
		moor_destroy_kernel_cq(cq);
	}
	mutex_destroy(&cq->resize_lock);
	return 0;
}
