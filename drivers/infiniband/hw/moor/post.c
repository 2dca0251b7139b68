// SPDX-License-Identifier: GPL-2.0
/*
 * Posting work requests of the kernel (HWI 10): no command, no allocation, and
 * no lock but the queue's.
 */

#include "moor.h"

/**
 * moor_put_sges - a scatter/gather list as the device reads it
 * @to: where it goes
 * @sges: list
 * @num: entries of it
 * @max: most that there may be
 *
 * Return: 0 or -EINVAL.
 */
int moor_put_sges(struct moor_sge *to, const struct ib_sge *sges, int num,
		  u32 max)
{
	int i;

	if (unlikely(num < 0 || num > max))
		return -EINVAL;
	for (i = 0; i < num; i++) {
		to[i].addr = cpu_to_le64(sges[i].addr);
		to[i].length = cpu_to_le32(sges[i].length);
		to[i].lkey = cpu_to_le32(sges[i].lkey);
	}
	return 0;
}

/**
 * moor_recv_room - how much memory a receive has
 * @wr: receive, whose SGEs are good
 *
 * Return: bytes, at most U32_MAX, which is more than a message can have.
 */
u32 moor_recv_room(const struct ib_recv_wr *wr)
{
	u64 room = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++)
		room += wr->sg_list[i].length;
	return min_t(u64, room, U32_MAX);
}

/* Where SGEs or inline data of a message start. */
static void *moor_wqe_data(const struct moor_qp *qp, struct moor_sq_wqe *wqe)
{
	return (u8 *)(wqe + 1) +
	       (moor_qp_is_ud(qp) ? sizeof(struct moor_wqe_ud) : 0);
}

/* The data itself; addresses are the kernel's own here. */
static int moor_put_inline(const struct moor_qp *qp, struct moor_sq_wqe *wqe,
			   const struct ib_send_wr *wr)
{
	u8 *to = moor_wqe_data(qp, wqe);
	u32 length = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		const struct ib_sge *sge = &wr->sg_list[i];

		if (sge->length > qp->cap.max_inline_data - length)
			return -EINVAL;
		memcpy(to + length,
		       (const void *)(uintptr_t)sge->addr, sge->length);
		length += sge->length;
	}
	wqe->flags |= MOOR_WQE_FLAG_INLINE;
	wqe->inline_length = cpu_to_le32(length);
	return 0;
}

/* SGEs or inline data of a message. */
static int moor_put_data(const struct moor_qp *qp, struct moor_sq_wqe *wqe,
			 const struct ib_send_wr *wr)
{
	if (wr->send_flags & IB_SEND_INLINE)
		return moor_put_inline(qp, wqe, wr);
	wqe->num_sge = wr->num_sge;
	return moor_put_sges(moor_wqe_data(qp, wqe), wr->sg_list, wr->num_sge,
			     qp->cap.max_send_sge);
}

static void moor_put_remote(struct moor_sq_wqe *wqe, u64 addr, u32 rkey)
{
	wqe->remote_addr = cpu_to_le64(addr);
	wqe->rkey = cpu_to_le32(rkey);
}

static int moor_put_rdma(const struct moor_qp *qp, struct moor_sq_wqe *wqe,
			 const struct ib_send_wr *wr, u8 opcode)
{
	wqe->opcode = opcode;
	moor_put_remote(wqe, rdma_wr(wr)->remote_addr, rdma_wr(wr)->rkey);
	return moor_put_data(qp, wqe, wr);
}

static int moor_put_read(const struct moor_qp *qp, struct moor_sq_wqe *wqe,
			 const struct ib_send_wr *wr)
{
	if (wr->send_flags & IB_SEND_INLINE)
		return -EINVAL;
	return moor_put_rdma(qp, wqe, wr, MOOR_WQE_READ);
}

static int moor_put_atomic(struct moor_sq_wqe *wqe, const struct ib_send_wr *wr)
{
	struct moor_wqe_atomic *segment = (struct moor_wqe_atomic *)(wqe + 1);
	const struct ib_atomic_wr *atomic = atomic_wr(wr);

	if (wr->num_sge != 1 || wr->send_flags & IB_SEND_INLINE)
		return -EINVAL;
	moor_put_remote(wqe, atomic->remote_addr, atomic->rkey);
	if (wr->opcode == IB_WR_ATOMIC_CMP_AND_SWP) {
		wqe->opcode = MOOR_WQE_CMP_SWAP;
		segment->swap_add = cpu_to_le64(atomic->swap);
		segment->compare = cpu_to_le64(atomic->compare_add);
	} else {
		wqe->opcode = MOOR_WQE_FETCH_ADD;
		segment->swap_add = cpu_to_le64(atomic->compare_add);
		segment->compare = 0;
	}
	wqe->num_sge = 1;
	return moor_put_sges((struct moor_sge *)(segment + 1), wr->sg_list, 1,
			     1);
}

/* Where a datagram goes (HWI UD-1). */
static void moor_put_address(const struct moor_qp *qp, struct moor_sq_wqe *wqe,
			     const struct ib_ud_wr *wr)
{
	struct moor_wqe_ud *segment = (struct moor_wqe_ud *)(wqe + 1);

	*segment = to_mah(wr->ah)->segment;
	/* Of other types it is the queue pair's, which is 0: the request's is not set. */
	segment->pkey_index = qp->ibqp.qp_type == IB_QPT_GSI ?
			      cpu_to_le16(wr->pkey_index) : 0;
	segment->dest_qpn = cpu_to_le32(wr->remote_qpn);
	segment->qkey = cpu_to_le32(wr->remote_qkey);
}

/*
 * Is it an operation of the queue pair's type (HWI UC-1, UD-1)? The core has no structure
 * for FLUSH, so that no kernel user can post it.
 */
static bool moor_has_opcode(const struct moor_qp *qp, enum ib_wr_opcode opcode)
{
	const struct moor_dev *mdev = to_mdev(qp->ibqp.device);

	if (moor_qp_is_ud(qp))
		return opcode == IB_WR_SEND || opcode == IB_WR_SEND_WITH_IMM;
	if (opcode == IB_WR_ATOMIC_WRITE)
		return qp->ibqp.qp_type == IB_QPT_RC &&
		       mdev->caps.features & MOOR_FEATURE_ATOMIC_WRITE;
	return qp->ibqp.qp_type == IB_QPT_RC ||
	       (opcode != IB_WR_RDMA_READ && opcode != IB_WR_SEND_WITH_INV &&
		opcode != IB_WR_ATOMIC_CMP_AND_SWP &&
		opcode != IB_WR_ATOMIC_FETCH_AND_ADD);
}

static int moor_put_wqe(struct moor_qp *qp, struct moor_sq_wqe *wqe,
			const struct ib_send_wr *wr)
{
	if (!moor_has_opcode(qp, wr->opcode))
		return -EINVAL;
	if (moor_qp_is_ud(qp))
		moor_put_address(qp, wqe, ud_wr(wr));

	switch (wr->opcode) {
	case IB_WR_RDMA_WRITE:
		return moor_put_rdma(qp, wqe, wr, MOOR_WQE_WRITE);
	case IB_WR_RDMA_WRITE_WITH_IMM:
		wqe->imm = wr->ex.imm_data;
		return moor_put_rdma(qp, wqe, wr, MOOR_WQE_WRITE_IMM);
	case IB_WR_ATOMIC_WRITE:
		return moor_put_rdma(qp, wqe, wr, MOOR_WQE_ATOMIC_WRITE);
	case IB_WR_SEND:
		wqe->opcode = MOOR_WQE_SEND;
		return moor_put_data(qp, wqe, wr);
	case IB_WR_SEND_WITH_IMM:
		wqe->opcode = MOOR_WQE_SEND_IMM;
		wqe->imm = wr->ex.imm_data;
		return moor_put_data(qp, wqe, wr);
	case IB_WR_SEND_WITH_INV:
		wqe->opcode = MOOR_WQE_SEND_INV;
		wqe->inv_key = cpu_to_le32(wr->ex.invalidate_rkey);
		return moor_put_data(qp, wqe, wr);
	case IB_WR_RDMA_READ:
		return moor_put_read(qp, wqe, wr);
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return moor_put_atomic(wqe, wr);
	case IB_WR_LOCAL_INV:
		wqe->opcode = MOOR_WQE_LOCAL_INV;
		wqe->inv_key = cpu_to_le32(wr->ex.invalidate_rkey);
		return 0;
	case IB_WR_REG_MR:
		return moor_put_reg_mr(wqe, reg_wr(wr));
	default:
		return -EINVAL;
	}
}

static u8 moor_send_flags(const struct moor_qp *qp, int send_flags)
{
	u8 flags = 0;

	if (send_flags & IB_SEND_SIGNALED ||
	    qp->sq_sig_type == IB_SIGNAL_ALL_WR)
		flags |= MOOR_WQE_FLAG_SIGNALED;
	if (send_flags & IB_SEND_SOLICITED)
		flags |= MOOR_WQE_FLAG_SOLICITED;
	if (send_flags & IB_SEND_FENCE)
		flags |= MOOR_WQE_FLAG_FENCE;
	return flags;
}

/* Pairs with poll.c, which lets a slot go when its WQE has ended. */
static bool moor_wq_is_full(const struct moor_kernel_wq *wq, u32 head)
{
	/* The device's reads of the old WQE come before it is overwritten. */
	return head - smp_load_acquire(&wq->tail) > wq->mask;
}

/* With the queue's lock: makes new WQEs known to the device. */
static void moor_wq_advance(struct moor_dev *mdev, struct moor_kernel_wq *wq,
			    u32 head)
{
	lockdep_assert_held(&wq->lock);
	/* Pairs with poll.c, under another lock: pollers that see head see the wr_ids. */
	smp_store_release(&wq->head, head);
	if (!moor_is_dead(mdev))
		moor_kernel_slot_store(&wq->slot, head);
}

/*
 * Without the lock, because a kick is slow. A device that died before it saw the slot
 * completes nothing, and a failed CQ gets no CQEs: then poll.c flushes, and the waiting
 * user has to be told. If the device dies or the CQ fails later, the user is told then,
 * and its poll finds the new head (moor_cqs_wake(), moor_kernel_cq_failed()).
 */
static void moor_wq_tell(struct moor_dev *mdev, struct moor_kernel_wq *wq,
			 struct ib_cq *ibcq)
{
	struct moor_kernel_cq *kcq = &to_mcq(ibcq)->kernel;

	moor_kernel_slot_kick(mdev, &wq->slot);
	if (unlikely(moor_is_dead(mdev) || READ_ONCE(kcq->failed)))
		queue_work(moor_wq, &kcq->wake);
}

/**
 * moor_post_send - post to a send queue of the kernel
 * @ibqp: queue pair
 * @wr: work requests
 * @bad_wr: on failure, the first that was not posted
 *
 * Return: 0; -ENOMEM if the queue is full; -EINVAL if there is none, and for what
 * cannot be expressed or does not fit. What is against the device's rules completes in error.
 */
int moor_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		   const struct ib_send_wr **bad_wr)
{
	struct moor_dev *mdev = to_mdev(ibqp->device);
	struct moor_qp *qp = to_mqp(ibqp);
	struct moor_kernel_wq *wq = &qp->kernel.sq;
	unsigned long irqs;
	u32 head, first;
	int err = 0;

	if (unlikely(!wq->ring.pieces)) {
		*bad_wr = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&wq->lock, irqs);
	first = wq->head;
	for (head = first; wr; wr = wr->next, head++) {
		struct moor_sq_wqe *wqe = moor_wqe_at(wq, head);

		if (unlikely(moor_wq_is_full(wq, head))) {
			err = -ENOMEM;
			break;
		}
		wqe->flags = moor_send_flags(qp, wr->send_flags);
		wqe->num_sge = 0;
		wqe->reserved1 = 0;
		wqe->wr_id = cpu_to_le64(head);
		err = moor_put_wqe(qp, wqe, wr);
		if (unlikely(err))
			break;
		wq->wr_id[head & wq->mask] = wr->wr_id;
	}
	if (head != first)
		moor_wq_advance(mdev, wq, head);
	spin_unlock_irqrestore(&wq->lock, irqs);
	if (head != first)
		moor_wq_tell(mdev, wq, ibqp->send_cq);
	if (unlikely(err))
		*bad_wr = wr;
	return err;
}

/**
 * moor_post_recv - post to a receive queue of the kernel
 * @ibqp: queue pair
 * @wr: work requests
 * @bad_wr: on failure, the first that was not posted
 *
 * Return: 0; -ENOMEM if the queue is full; -EINVAL if there is none, and for too
 * many SGEs.
 */
int moor_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr)
{
	struct moor_dev *mdev = to_mdev(ibqp->device);
	struct moor_qp *qp = to_mqp(ibqp);
	struct moor_kernel_wq *wq = &qp->kernel.rq;
	unsigned long irqs;
	u32 head, first;
	int err = 0;

	if (unlikely(!wq->ring.pieces)) {
		*bad_wr = wr;
		return -EINVAL;
	}
	spin_lock_irqsave(&wq->lock, irqs);
	first = wq->head;
	for (head = first; wr; wr = wr->next, head++) {
		struct moor_rq_wqe *wqe = moor_wqe_at(wq, head);

		if (unlikely(moor_wq_is_full(wq, head))) {
			err = -ENOMEM;
			break;
		}
		err = moor_put_sges((struct moor_sge *)(wqe + 1), wr->sg_list,
				    wr->num_sge, qp->cap.max_recv_sge);
		if (unlikely(err))
			break;
		wqe->wr_id = cpu_to_le64(head);
		wqe->num_sge = wr->num_sge;
		wq->wr_id[head & wq->mask] = wr->wr_id;
		wq->room[head & wq->mask] = moor_recv_room(wr);
	}
	if (head != first)
		moor_wq_advance(mdev, wq, head);
	spin_unlock_irqrestore(&wq->lock, irqs);
	if (head != first)
		moor_wq_tell(mdev, wq, ibqp->recv_cq);
	if (unlikely(err))
		*bad_wr = wr;
	return err;
}
