// SPDX-License-Identifier: GPL-2.0
/* Shared receive queues of the kernel: their memory, posting, completing. */

#include <linux/log2.h>
#include <linux/mm.h>

#include "moor.h"

static void moor_srq_fill_free(struct moor_kernel_srq *ksrq)
{
	u32 i;

	for (i = 0; i <= ksrq->mask; i++)
		ksrq->wrs[i].next = i + 1;
	ksrq->wrs[ksrq->mask].next = MOOR_SRQ_WR_NONE;
	ksrq->free = 0;
}

/**
 * moor_kernel_srq_init - make the queue of a shared receive queue of the kernel
 * @srq: shared receive queue
 * @max_wr: WQEs that it is to hold, checked
 *
 * Return: 0, -EINVAL for WQEs larger than the device has, or -ENOMEM.
 */
int moor_kernel_srq_init(struct moor_srq *srq, u32 max_wr)
{
	struct moor_dev *mdev = to_mdev(srq->ibsrq.device);
	struct moor_kernel_srq *ksrq = &srq->kernel;
	int err;

	srq->log_depth = order_base_2(max_wr);
	srq->log_stride = max_t(u8, MOOR_MIN_LOG_RQ_STRIDE,
				order_base_2(sizeof(struct moor_rq_wqe) +
					     srq->max_sge *
					     sizeof(struct moor_sge)));
	if (srq->log_stride > MOOR_MAX_LOG_STRIDE)
		return -EINVAL;
	spin_lock_init(&ksrq->lock);
	ksrq->mask = BIT(srq->log_depth) - 1;
	ksrq->log_stride = srq->log_stride;
	ksrq->wrs = kvzalloc_objs(*ksrq->wrs, ksrq->mask + 1);
	if (!ksrq->wrs)
		return -ENOMEM;
	moor_srq_fill_free(ksrq);
	err = moor_kernel_ring_alloc(mdev, &ksrq->ring,
				     1UL << (srq->log_depth + srq->log_stride));
	if (err)
		goto free_wrs;
	err = moor_kernel_slot_alloc(mdev, &ksrq->slot);
	if (err)
		goto free_ring;
	srq->ring.table.xlat = ksrq->ring.table.xlat;
	return 0;

free_ring:
	moor_kernel_ring_free(mdev, &ksrq->ring);
free_wrs:
	kvfree(ksrq->wrs);
	return err;
}

/**
 * moor_kernel_srq_release - let the queue go
 * @srq: shared receive queue that the device does not know any more
 */
void moor_kernel_srq_release(struct moor_srq *srq)
{
	struct moor_dev *mdev = to_mdev(srq->ibsrq.device);
	struct moor_kernel_srq *ksrq = &srq->kernel;

	moor_kernel_slot_free(mdev, &ksrq->slot);
	moor_kernel_ring_free(mdev, &ksrq->ring);
	kvfree(ksrq->wrs);
}

/**
 * moor_srq_complete - a receive has ended: its entry may be used again
 * @srq: shared receive queue of the kernel
 * @cqe: CQE of the receive; names the entry
 * @posted: filled in
 *
 * A WQE that ends without a CQE keeps its entry busy: with its queue pair (HWI SRQ-8),
 * which a user that destroys one before draining it accepts, or for a CQ that has failed.
 *
 * Return: false if no such receive is posted.
 */
bool moor_srq_complete(struct moor_srq *srq, const struct moor_cqe *cqe,
		       struct moor_posted *posted)
{
	struct moor_kernel_srq *ksrq = &srq->kernel;
	u64 number = le64_to_cpu(READ_ONCE(cqe->wr_id));
	struct moor_srq_wr *entry;
	unsigned long irqs;
	bool busy;

	if (number > ksrq->mask)
		return false;
	entry = &ksrq->wrs[number];
	spin_lock_irqsave(&ksrq->lock, irqs);
	busy = entry->busy && entry->index == le32_to_cpu(cqe->wqe_index);
	if (busy) {
		*posted = entry->posted;
		entry->busy = false;
		entry->next = ksrq->free;
		ksrq->free = number;
	}
	spin_unlock_irqrestore(&ksrq->lock, irqs);
	return busy;
}

/* The next WQE, with the free entry that it names. */
static int moor_srq_put(struct moor_srq *srq, const struct ib_recv_wr *wr)
{
	struct moor_kernel_srq *ksrq = &srq->kernel;
	u32 number = ksrq->free;
	struct moor_srq_wr *entry;
	struct moor_rq_wqe *wqe;
	int err;

	lockdep_assert_held(&ksrq->lock);
	if (unlikely(number == MOOR_SRQ_WR_NONE))
		return -ENOMEM;
	wqe = moor_kernel_ring_at(&ksrq->ring,
				  (size_t)(ksrq->head & ksrq->mask) <<
				  ksrq->log_stride);
	err = moor_put_sges((struct moor_sge *)(wqe + 1), wr->sg_list,
			    wr->num_sge, srq->max_sge);
	if (unlikely(err))
		return err;
	wqe->wr_id = cpu_to_le64(number);
	wqe->num_sge = wr->num_sge;
	entry = &ksrq->wrs[number];
	ksrq->free = entry->next;
	entry->posted.wr_id = wr->wr_id;
	entry->posted.room = moor_recv_room(wr);
	entry->index = ksrq->head;
	/*
	 * Whoever reuses a buffer has read it before the device may write it, as writeq()
	 * alone does not say: it orders writes.
	 */
	smp_store_release(&ksrq->head, ksrq->head + 1);
	entry->busy = true;
	return 0;
}

/**
 * moor_post_srq_recv - post to a shared receive queue of the kernel
 * @ibsrq: shared receive queue
 * @wr: work requests
 * @bad_wr: on failure, the first that was not posted
 *
 * No kick: the device reads the slot when a message needs a receive (HWI DB-25).
 *
 * Return: 0; -ENOMEM if the queue is full; -EINVAL for too many SGEs.
 */
int moor_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		       const struct ib_recv_wr **bad_wr)
{
	struct moor_srq *srq = to_msrq(ibsrq);
	struct moor_kernel_srq *ksrq = &srq->kernel;
	unsigned long irqs;
	int err = 0;
	u32 first;

	spin_lock_irqsave(&ksrq->lock, irqs);
	first = ksrq->head;
	for (; wr; wr = wr->next) {
		err = moor_srq_put(srq, wr);
		if (unlikely(err)) {
			*bad_wr = wr;
			break;
		}
	}
	if (ksrq->head != first && !moor_is_dead(to_mdev(ibsrq->device)))
		moor_kernel_slot_store(&ksrq->slot, ksrq->head);
	spin_unlock_irqrestore(&ksrq->lock, irqs);
	return err;
}
