// SPDX-License-Identifier: GPL-2.0
/*
 * Completion queues of the kernel: creation, notification, and which queue
 * pairs complete to one. They are read in poll.c.
 */

#include <linux/log2.h>

#include "moor.h"

/* Is the CQ armed since the last call, and does any queue pair complete to it? */
static bool moor_cq_is_awaited(struct moor_kernel_cq *kcq)
{
	kcq->untold = !kcq->num_qps;
	return kcq->num_qps && xchg(&kcq->armed, false);
}

/**
 * moor_cq_tell - tell a user that there is something to poll
 * @cq: completion queue, of the kernel or not
 *
 * The handler of a kernel CQ is called only if the CQ was armed since the last call, even
 * if the device sends more events; what a process has armed only the device knows. And it
 * is not called while no queue pair completes to the CQ: ib_free_cq() ends the polling,
 * and frees what polling needs, before the driver learns that the CQ goes. A call that is
 * left out for this reason is made up for when a queue pair is added (moor_cq_add()).
 *
 * Context: with the lock of the CQ's event queue. So a handler never runs twice at a
 * time, and a task that takes the lock knows that the handler is not running.
 */
void moor_cq_tell(struct moor_cq *cq)
{
	lockdep_assert_held(&cq->eq->lock);
	if (!cq->uctx && !moor_cq_is_awaited(&cq->kernel))
		return;
	if (cq->ibcq.comp_handler)
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
}

/*
 * Calls the handler where no event does. A task that posts to a dead device, kills the
 * device or is in any other verb queues this work: no user expects a call from a verb.
 */
static void moor_cq_wake_work(struct work_struct *work)
{
	struct moor_cq *cq = container_of(work, struct moor_cq, kernel.wake);

	spin_lock_irq(&cq->eq->lock);
	moor_cq_tell(cq);
	spin_unlock_irq(&cq->eq->lock);
}

/**
 * moor_create_kernel_cq - create a completion queue for the kernel
 * @ibcq: completion queue
 * @attr: attributes
 *
 * Return: 0; -EOPNOTSUPP for flags; -EINVAL for an impossible size; -ENOMEM; or
 * what the device says.
 */
int moor_create_kernel_cq(struct ib_cq *ibcq,
			  const struct ib_cq_init_attr *attr)
{
	struct moor_dev *mdev = to_mdev(ibcq->device);
	struct moor_cq *cq = to_mcq(ibcq);
	struct moor_kernel_cq *kcq = &cq->kernel;
	int err;

	if (attr->flags)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > 1U << mdev->caps.max_log_cqe)
		return -EINVAL;
	kcq->log_cqe = max(order_base_2(attr->cqe), 1);
	ibcq->cqe = 1 << kcq->log_cqe;
	cq->eq = &mdev->comp_eqs[attr->comp_vector % mdev->num_comp];
	mutex_init(&cq->resize_lock);
	spin_lock_init(&kcq->lock);
	INIT_WORK(&kcq->wake, moor_cq_wake_work);
	hash_init(kcq->qps);

	err = moor_kernel_ring_alloc(mdev, &kcq->ring,
				     sizeof(struct moor_cqe) << kcq->log_cqe);
	if (err)
		return err;
	cq->ring.table.xlat = kcq->ring.table.xlat;
	err = moor_kernel_slot_alloc(mdev, &kcq->slot);
	if (err)
		goto free_ring;
	err = moor_cq_enter(mdev, cq, kcq->log_cqe);
	if (err)
		goto free_slot;
	moor_cq_reveal(mdev, cq);
	return 0;

free_slot:
	moor_kernel_slot_free(mdev, &kcq->slot);
free_ring:
	moor_kernel_ring_free(mdev, &kcq->ring);
	return err;
}

/**
 * moor_destroy_kernel_cq - let a completion queue's memory go
 * @cq: completion queue that the device does not know any more
 */
void moor_destroy_kernel_cq(struct moor_cq *cq)
{
	struct moor_dev *mdev = to_mdev(cq->ibcq.device);

	WARN_ON(!hash_empty(cq->kernel.qps));
	moor_kernel_slot_free(mdev, &cq->kernel.slot);
	moor_kernel_ring_free(mdev, &cq->kernel.ring);
}

/* Stores nothing while the device moves the CQ to another ring (HWI CQ-17). */
static void moor_kernel_cq_store(struct moor_dev *mdev,
				 struct moor_kernel_cq *kcq)
{
	lockdep_assert_held(&kcq->lock);
	if (!kcq->resizing && !moor_is_dead(mdev))
		moor_kernel_slot_store(&kcq->slot, kcq->arm | kcq->consumer);
}

/**
 * moor_resize_kernel_cq - move a completion queue of the kernel to another ring
 * @cq: completion queue
 * @cqe: entries asked for
 *
 * The command copies the CQEs not polled yet, so polls find nothing until it is done.
 *
 * Return: 0 or an errno, with the old ring in place.
 */
int moor_resize_kernel_cq(struct moor_cq *cq, unsigned int cqe)
{
	struct moor_dev *mdev = to_mdev(cq->ibcq.device);
	struct moor_kernel_cq *kcq = &cq->kernel;
	struct moor_kernel_ring ring;
	struct moor_ring described = {};
	u32 log_cqe;
	int err;

	if (!cqe || cqe > 1U << mdev->caps.max_log_cqe)
		return -EINVAL;
	log_cqe = max(order_base_2(cqe), 1);
	err = moor_kernel_ring_alloc(mdev, &ring,
				     sizeof(struct moor_cqe) << log_cqe);
	if (err)
		return err;
	described.table.xlat = ring.table.xlat;

	mutex_lock(&cq->resize_lock);
	spin_lock_irq(&kcq->lock);
	kcq->resizing = true;
	spin_unlock_irq(&kcq->lock);
	err = moor_cmd_resize_cq(mdev, cq->cqn, &described, log_cqe);
	spin_lock_irq(&kcq->lock);
	if (!err) {
		swap(kcq->ring, ring);
		kcq->log_cqe = log_cqe;
		cq->ibcq.cqe = 1 << log_cqe;
	}
	kcq->resizing = false;
	moor_kernel_cq_store(mdev, kcq);
	spin_unlock_irq(&kcq->lock);
	mutex_unlock(&cq->resize_lock);
	/* Polls in the meantime found nothing: have the user poll again. */
	queue_work(moor_wq, &kcq->wake);
	moor_kernel_ring_free(mdev, &ring);
	return err;
}

/**
 * moor_req_notify_cq - ask for an event
 * @ibcq: completion queue of the kernel
 * @flags: for which completions, and whether to look for missed ones
 *
 * Return: 1 if there is something to poll already and IB_CQ_REPORT_MISSED_EVENTS
 * is in @flags, else 0.
 */
int moor_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	bool solicited = (flags & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED;
	struct moor_dev *mdev = to_mdev(ibcq->device);
	struct moor_cq *cq = to_mcq(ibcq);
	struct moor_kernel_cq *kcq = &cq->kernel;
	unsigned long irqs;
	u32 seq;
	int missed;

	spin_lock_irqsave(&kcq->lock, irqs);
	seq = FIELD_GET(MOOR_DB_CQ_ARM_SEQ, kcq->arm) + 1;
	/* A pending request for any completion is not narrowed to solicited ones. */
	if (READ_ONCE(kcq->armed) && FIELD_GET(MOOR_DB_CQ_ARM, kcq->arm) == MOOR_CQ_ARM_ANY)
		solicited = false;
	kcq->arm = FIELD_PREP(MOOR_DB_CQ_ARM, solicited ? MOOR_CQ_ARM_SOLICITED :
							  MOOR_CQ_ARM_ANY) |
		   FIELD_PREP(MOOR_DB_CQ_ARM_SEQ, (u64)seq);
	WRITE_ONCE(kcq->armed, true);
	moor_kernel_cq_store(mdev, kcq);
	/* Arm, then look: a new CQE is found here, or the device sends an event. */
	mb();
	missed = flags & IB_CQ_REPORT_MISSED_EVENTS && moor_cq_has_work(cq);
	spin_unlock_irqrestore(&kcq->lock, irqs);
	return missed;
}

/**
 * moor_cqs_wake - have all users in the kernel told that the device has died
 * @mdev: dead device
 *
 * The users wait for completions, which poll.c gives them from now on.
 */
void moor_cqs_wake(struct moor_dev *mdev)
{
	struct moor_cq *cq;
	unsigned long cqn;

	/* A CQ is freed only after moor_cq_forget() has erased it under this lock. */
	xa_lock(&mdev->cqs);
	xa_for_each(&mdev->cqs, cqn, cq)
		if (!cq->uctx)
			queue_work(moor_wq, &cq->kernel.wake);
	xa_unlock(&mdev->cqs);
}

/**
 * moor_kernel_cq_failed - a completion queue of the kernel takes no CQE any more
 * @cq: completion queue
 *
 * What is posted to its queue pairs would never complete. As soon as its user has taken a
 * queue pair to ERR, where it moves no data, poll.c flushes it like those of a dead
 * device, so that a task that drains it comes to an end.
 *
 * A device reports the failure once (HWI CQ-9); repeated reports do not fill the log.
 *
 * Context: of the asynchronous event queue
 */
void moor_kernel_cq_failed(struct moor_cq *cq)
{
	struct moor_kernel_cq *kcq = &cq->kernel;

	if (READ_ONCE(kcq->failed))
		return;
	ibdev_err(cq->ibcq.device,
		  "completion queue %u of the kernel has failed: too small, or unreachable\n",
		  cq->cqn);
	/* With the lock, a poller that sees @failed sees the last CQE, too. */
	spin_lock(&kcq->lock);
	WRITE_ONCE(kcq->failed, true);
	spin_unlock(&kcq->lock);
	queue_work(moor_wq, &kcq->wake);
}

/* Has the CQ failed, and does no queue pair complete to it any more? */
static bool moor_cq_is_spent(struct moor_cq *cq)
{
	bool spent;

	spin_lock_irq(&cq->eq->lock);
	spent = READ_ONCE(cq->kernel.failed) && !cq->kernel.num_qps;
	spin_unlock_irq(&cq->eq->lock);
	return spent;
}

/*
 * Have the device make a spent CQ anew: those of ib_cq_pool_get() last as long as the
 * device, and are given to the next user whatever has become of them.
 */
static int moor_cq_renew(struct moor_cq *cq)
{
	struct moor_dev *mdev = to_mdev(cq->ibcq.device);
	struct moor_kernel_cq *kcq = &cq->kernel;
	int err;

	lockdep_assert_held(&cq->resize_lock);
	spin_lock_irq(&kcq->lock);
	kcq->resizing = true;
	spin_unlock_irq(&kcq->lock);
	moor_cmd_destroy_cq(mdev, cq->cqn);
	moor_kernel_ring_clear(&kcq->ring);
	cq->ring.table.xlat = kcq->ring.table.xlat;
	err = moor_cmd_create_cq(mdev, cq, kcq->log_cqe);
	if (err)
		moor_hw_kill(mdev, "it made a completion queue, but not once more");
	spin_lock_irq(&kcq->lock);
	kcq->consumer = 0;
	WRITE_ONCE(kcq->failed, err);
	kcq->resizing = false;
	moor_kernel_cq_store(mdev, kcq);
	spin_unlock_irq(&kcq->lock);
	return err;
}

static int moor_cq_add(struct ib_cq *ibcq, struct moor_cq_user *user,
		       struct moor_qp *qp)
{
	struct moor_cq *cq = to_mcq(ibcq);
	struct moor_kernel_cq *kcq = &cq->kernel;
	int err;

	user->qp = qp;
	/* Of several queue pairs that are made, only the first finds the CQ spent. */
	mutex_lock(&cq->resize_lock);
	err = moor_cq_is_spent(cq) ? moor_cq_renew(cq) : 0;
	if (err)
		goto unlock;
	spin_lock_irq(&cq->eq->lock);
	spin_lock(&kcq->lock);
	hash_add(kcq->qps, &user->node, qp->qpn);
	spin_unlock(&kcq->lock);
	kcq->num_qps++;
	if (kcq->untold)
		queue_work(moor_wq, &kcq->wake);
	spin_unlock_irq(&cq->eq->lock);
unlock:
	mutex_unlock(&cq->resize_lock);
	return err;
}

/* moor_cq_tell() holds the same lock: after the last removal it calls no handler. */
static void moor_cq_remove(struct ib_cq *ibcq, struct moor_cq_user *user)
{
	struct moor_cq *cq = to_mcq(ibcq);
	struct moor_kernel_cq *kcq = &cq->kernel;

	spin_lock_irq(&cq->eq->lock);
	spin_lock(&kcq->lock);
	hash_del(&user->node);
	spin_unlock(&kcq->lock);
	kcq->num_qps--;
	spin_unlock_irq(&cq->eq->lock);
}

/**
 * moor_cqs_enter - make a queue pair known to the CQs that it completes to
 * @qp: queue pair of the kernel that the device does not know yet; it has its number
 *
 * Return: 0 or an errno, with the queue pair known to none.
 */
int moor_cqs_enter(struct moor_qp *qp)
{
	struct moor_cq_user *users = qp->kernel.users;
	int err;

	err = moor_cq_add(qp->ibqp.send_cq, &users[0], qp);
	if (err || qp->ibqp.recv_cq == qp->ibqp.send_cq)
		return err;
	err = moor_cq_add(qp->ibqp.recv_cq, &users[1], qp);
	if (err)
		moor_cq_remove(qp->ibqp.send_cq, &users[0]);
	return err;
}

/**
 * moor_cqs_leave - make the CQs forget a queue pair
 * @qp: queue pair of the kernel, which the device does not know, or not any more
 *
 * CQEs of the queue pair that are not polled yet are passed over. If it was the last
 * queue pair of a CQ, the CQ's handler is not called from now on.
 */
void moor_cqs_leave(struct moor_qp *qp)
{
	struct moor_cq_user *users = qp->kernel.users;

	moor_cqs_forget(qp);
	moor_cq_remove(qp->ibqp.send_cq, &users[0]);
	if (qp->ibqp.recv_cq != qp->ibqp.send_cq)
		moor_cq_remove(qp->ibqp.recv_cq, &users[1]);
}

/* A resize copies CQEs that are not polled yet: it is over, or has not begun. */
static void moor_cq_forget_qp(struct moor_cq *cq, const struct moor_qp *qp)
{
	struct moor_kernel_cq *kcq = &cq->kernel;
	struct moor_cqe *cqe;
	struct moor_posted posted;
	u32 i;

	mutex_lock(&cq->resize_lock);
	spin_lock_irq(&kcq->lock);
	for (i = kcq->consumer; i - kcq->consumer < BIT(kcq->log_cqe); i++) {
		cqe = moor_cqe_at(kcq, i);
		if (!cqe)
			break;
		if (le32_to_cpu(cqe->qpn) != qp->qpn)
			continue;
		/* The SRQ goes on for its other queue pairs: free the entry. */
		if (cqe->opcode & MOOR_CQE_RECV && qp->ibqp.srq)
			moor_srq_complete(to_msrq(qp->ibqp.srq), cqe,
					  &posted);
		/* No queue pair has the number 0. */
		cqe->qpn = 0;
	}
	spin_unlock_irq(&kcq->lock);
	mutex_unlock(&cq->resize_lock);
}

/**
 * moor_cqs_forget - drop the CQEs of a queue pair that are not polled yet
 * @qp: queue pair of the kernel, reset or destroyed: the device writes no more of them
 */
void moor_cqs_forget(struct moor_qp *qp)
{
	moor_cq_forget_qp(to_mcq(qp->ibqp.send_cq), qp);
	if (qp->ibqp.recv_cq != qp->ibqp.send_cq)
		moor_cq_forget_qp(to_mcq(qp->ibqp.recv_cq), qp);
}
