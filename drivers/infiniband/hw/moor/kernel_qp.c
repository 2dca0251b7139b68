// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs of the kernel: their queues, and what is left to do when they are
 * reset or destroyed. WQEs are posted in post.c.
 */

#include <linux/log2.h>
#include <linux/mm.h>

#include "moor.h"

static u8 moor_log_stride(u32 wqe_bytes, u8 least)
{
	return max_t(u8, order_base_2(wqe_bytes), least);
}

static int moor_kernel_wq_init(struct moor_dev *mdev, struct moor_kernel_wq *wq,
			       u8 log_depth, u8 log_stride)
{
	int err;

	wq->mask = BIT(log_depth) - 1;
	wq->log_stride = log_stride;
	wq->wr_id = kvzalloc_objs(*wq->wr_id, wq->mask + 1);
	if (!wq->wr_id)
		return -ENOMEM;
	err = moor_kernel_ring_alloc(mdev, &wq->ring,
				     1UL << (log_depth + log_stride));
	if (err)
		return err;
	return moor_kernel_slot_alloc(mdev, &wq->slot);
}

static int moor_kernel_rq_init(struct moor_dev *mdev, struct moor_kernel_wq *rq,
			       const struct moor_create_qp_req *req)
{
	rq->room = kvzalloc_objs(*rq->room, BIT(req->log_rq_depth));
	if (!rq->room)
		return -ENOMEM;
	return moor_kernel_wq_init(mdev, rq, req->log_rq_depth,
				   req->log_rq_stride);
}

static void moor_kernel_wq_release(struct moor_dev *mdev,
				   struct moor_kernel_wq *wq)
{
	moor_kernel_slot_free(mdev, &wq->slot);
	moor_kernel_ring_free(mdev, &wq->ring);
	kvfree(wq->room);
	kvfree(wq->wr_id);
}

/* A WQE with room for REG_MR has room for an atomic, too, which has exactly one SGE. */
static_assert(sizeof(struct moor_wqe_reg) >=
	      sizeof(struct moor_wqe_atomic) + sizeof(struct moor_sge));

/*
 * Depths and strides that hold what is asked for, and the segment of REG_MR or, for
 * datagrams, the address segment.
 */
static void moor_kernel_qp_sizes(const struct moor_qp *qp,
				 const struct ib_qp_cap *cap,
				 struct moor_create_qp_req *req)
{
	u32 payload = max3(cap->max_send_sge * sizeof(struct moor_sge),
			   cap->max_inline_data, sizeof(struct moor_wqe_reg));

	if (moor_qp_is_ud(qp))
		payload = max_t(u32, cap->max_inline_data,
				cap->max_send_sge * sizeof(struct moor_sge)) +
			  sizeof(struct moor_wqe_ud);
	if (cap->max_send_wr) {
		req->log_sq_depth = order_base_2(cap->max_send_wr);
		req->log_sq_stride =
			moor_log_stride(sizeof(struct moor_sq_wqe) + payload,
					MOOR_MIN_LOG_SQ_STRIDE);
	}
	if (cap->max_recv_wr) {
		req->log_rq_depth = order_base_2(cap->max_recv_wr);
		req->log_rq_stride =
			moor_log_stride(sizeof(struct moor_rq_wqe) +
					cap->max_recv_sge *
					sizeof(struct moor_sge),
					MOOR_MIN_LOG_RQ_STRIDE);
	}
}

/**
 * moor_kernel_qp_init - make the queues of a queue pair of the kernel
 * @qp: queue pair
 * @attr: attributes, checked; its capacities are updated to what there is
 * @req: the queues' sizes are filled in
 *
 * Return: 0, -EINVAL for WQEs larger than the device has, or -ENOMEM.
 */
int moor_kernel_qp_init(struct moor_qp *qp, struct ib_qp_init_attr *attr,
			struct moor_create_qp_req *req)
{
	struct moor_dev *mdev = to_mdev(qp->ibqp.device);
	struct moor_kernel_qp *kqp = &qp->kernel;
	int err = 0;

	moor_kernel_qp_sizes(qp, &attr->cap, req);
	if (req->log_sq_stride > MOOR_MAX_LOG_STRIDE ||
	    req->log_rq_stride > MOOR_MAX_LOG_STRIDE)
		return -EINVAL;
	spin_lock_init(&kqp->sq.lock);
	spin_lock_init(&kqp->rq.lock);
	if (attr->cap.max_send_wr)
		err = moor_kernel_wq_init(mdev, &kqp->sq, req->log_sq_depth,
					  req->log_sq_stride);
	if (!err && attr->cap.max_recv_wr)
		err = moor_kernel_rq_init(mdev, &kqp->rq, req);
	if (err) {
		moor_kernel_qp_release(qp);
		return err;
	}
	qp->sq.table.xlat = kqp->sq.ring.table.xlat;
	qp->rq.table.xlat = kqp->rq.ring.table.xlat;
	return 0;
}

/**
 * moor_kernel_qp_release - let the queues of a queue pair go
 * @qp: queue pair that the device does not know any more
 */
void moor_kernel_qp_release(struct moor_qp *qp)
{
	struct moor_dev *mdev = to_mdev(qp->ibqp.device);

	moor_kernel_wq_release(mdev, &qp->kernel.rq);
	moor_kernel_wq_release(mdev, &qp->kernel.sq);
}

/*
 * If the device is dead, a task that polls the CQ for other queue pairs must not see the
 * new head without the new tail, or it would flush completed WQEs over and over.
 */
static void moor_kernel_wq_reset(struct moor_dev *mdev,
				 struct moor_kernel_wq *wq, struct ib_cq *ibcq)
{
	struct moor_kernel_cq *kcq = &to_mcq(ibcq)->kernel;

	spin_lock_irq(&kcq->lock);
	spin_lock(&wq->lock);
	wq->head = 0;
	wq->tail = 0;
	/*
	 * The device has zeroed the slot (HWI QP-13), but a task that was posting may
	 * have stored an old head since: beyond the depth of the empty queue (HWI WQ-5).
	 */
	if (wq->slot.page && !moor_is_dead(mdev))
		moor_kernel_slot_store(&wq->slot, 0);
	spin_unlock(&wq->lock);
	spin_unlock_irq(&kcq->lock);
}

/**
 * moor_kernel_qp_reset - empty the queues of a queue pair
 * @qp: queue pair that the device has just put into RESET
 */
void moor_kernel_qp_reset(struct moor_qp *qp)
{
	struct moor_dev *mdev = to_mdev(qp->ibqp.device);

	clear_bit(MOOR_KERNEL_QP_LAST_WQE, &qp->kernel.flags);
	clear_bit(MOOR_KERNEL_QP_STOPPED, &qp->kernel.flags);
	moor_cqs_forget(qp);
	moor_fast_settle(qp);
	moor_kernel_wq_reset(mdev, &qp->kernel.sq, qp->ibqp.send_cq);
	moor_kernel_wq_reset(mdev, &qp->kernel.rq, qp->ibqp.recv_cq);
}

static void moor_kernel_qp_wake(struct ib_cq *ibcq)
{
	struct moor_kernel_cq *kcq = &to_mcq(ibcq)->kernel;

	if (READ_ONCE(kcq->failed))
		queue_work(moor_wq, &kcq->wake);
}

/**
 * moor_kernel_qp_stopped - let a drain of a queue pair end, even without CQEs
 * @qp: queue pair of the kernel that the device has just put into ERR
 */
void moor_kernel_qp_stopped(struct moor_qp *qp)
{
	set_bit(MOOR_KERNEL_QP_STOPPED, &qp->kernel.flags);
	/* Either this task sees that the CQ has failed, or its poller sees the flag. */
	smp_mb__after_atomic();
	moor_kernel_qp_wake(qp->ibqp.send_cq);
	moor_kernel_qp_wake(qp->ibqp.recv_cq);
}

/**
 * moor_kernel_qp_last_wqe_work - raise the last-WQE event that a dead device does not
 * @work: of a queue pair of the kernel
 *
 * A work, because no user expects its handler to be called from inside a verb.
 */
void moor_kernel_qp_last_wqe_work(struct work_struct *work)
{
	struct moor_qp *qp = container_of(work, struct moor_qp, kernel.last_wqe);
	struct ib_event event = {
		.device = qp->ibqp.device,
		.event = IB_EVENT_QP_LAST_WQE_REACHED,
		.element.qp = &qp->ibqp,
	};

	/* As in moor_qp_event(); an event that the device has sent is not repeated. */
	if (qp->ibqp.event_handler && READ_ONCE(qp->left_reset) &&
	    !test_and_set_bit(MOOR_KERNEL_QP_LAST_WQE, &qp->kernel.flags))
		qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
}

/**
 * moor_kernel_qp_last_wqe - have the user of a dead device told of the last WQE
 * @qp: queue pair of the kernel
 *
 * A task that drains a queue pair with an SRQ (ib_drain_qp()) waits for this event. A
 * dead device does not send it, but completes no receives either: the last is reached.
 */
void moor_kernel_qp_last_wqe(struct moor_qp *qp)
{
	if (qp->ibqp.srq)
		queue_work(moor_wq, &qp->kernel.last_wqe);
}

/**
 * moor_kernel_qps_wake - moor_kernel_qp_last_wqe() for all, as the device has died
 * @mdev: dead device
 *
 * The device may owe the event to users that took queue pairs to ERR before it died.
 */
void moor_kernel_qps_wake(struct moor_dev *mdev)
{
	struct moor_qp *qp;
	unsigned long index;

	/* A queue pair is freed only after its erase, which takes this lock. */
	xa_lock(&mdev->qps);
	xa_for_each(&mdev->qps, index, qp)
		if (moor_qp_is_kernel(qp))
			moor_kernel_qp_last_wqe(qp);
	xa_unlock(&mdev->qps);
}
