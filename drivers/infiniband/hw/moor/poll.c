// SPDX-License-Identifier: GPL-2.0
/*
 * Reading completion queues of the kernel (HWI 11). CQEs are checked before use: the
 * driver keeps its own record of which work requests a CQE may end.
 */

#include "moor.h"

static const u8 moor_wc_opcodes[] = {
	[MOOR_WQE_SEND]		= IB_WC_SEND,
	[MOOR_WQE_SEND_IMM]	= IB_WC_SEND,
	[MOOR_WQE_SEND_INV]	= IB_WC_SEND,
	[MOOR_WQE_WRITE]	= IB_WC_RDMA_WRITE,
	[MOOR_WQE_WRITE_IMM]	= IB_WC_RDMA_WRITE,
	[MOOR_WQE_READ]		= IB_WC_RDMA_READ,
	[MOOR_WQE_CMP_SWAP]	= IB_WC_COMP_SWAP,
	[MOOR_WQE_FETCH_ADD]	= IB_WC_FETCH_ADD,
	[MOOR_WQE_LOCAL_INV]	= IB_WC_LOCAL_INV,
	[MOOR_WQE_BIND_MW]	= IB_WC_SEND,
	[MOOR_WQE_REG_MR]	= IB_WC_REG_MR,
	[MOOR_WQE_ATOMIC_WRITE]	= IB_WC_ATOMIC_WRITE,
	[MOOR_WQE_FLUSH]	= IB_WC_FLUSH,
};

/**
 * moor_cqe_at - the CQE of an index
 * @kcq: completion queue
 * @index: free-running
 *
 * Return: the CQE, or NULL if the device has not written it yet.
 */
struct moor_cqe *moor_cqe_at(const struct moor_kernel_cq *kcq, u32 index)
{
	size_t offset = (index & (BIT(kcq->log_cqe) - 1)) * sizeof(struct moor_cqe);
	struct moor_cqe *cqe = moor_kernel_ring_at(&kcq->ring, offset);
	u32 stale = (index >> kcq->log_cqe) & MOOR_PHASE;

	if ((le32_to_cpu(READ_ONCE(cqe->phase)) & MOOR_PHASE) == stale)
		return NULL;
	/* The phase was stored last; the rest is read after it. */
	dma_rmb();
	return cqe;
}

static const u8 moor_network_types[] = {
	[MOOR_NETWORK_ROCE_V1]	= RDMA_NETWORK_ROCE_V1,
	[MOOR_NETWORK_IPV4]	= RDMA_NETWORK_IPV4,
	[MOOR_NETWORK_IPV6]	= RDMA_NETWORK_IPV6,
};

/* The queue pair of a CQE, if it completes here. */
static struct moor_qp *moor_cqe_qp(struct moor_kernel_cq *kcq,
				   const struct moor_cqe *cqe)
{
	u32 qpn = le32_to_cpu(READ_ONCE(cqe->qpn));
	struct moor_cq_user *user;

	hash_for_each_possible(kcq->qps, user, node, qpn) {
		if (user->qp->qpn == qpn)
			return user->qp;
	}
	return NULL;
}

/* What a send was posted as. Its WQE is not overwritten yet. */
static u8 moor_posted_opcode(const struct moor_kernel_wq *sq, u32 index)
{
	const struct moor_sq_wqe *wqe = moor_wqe_at(sq, index);

	return wqe->opcode;
}

/*
 * Take a WQE off its queue, with all before it. The opcode of a CQE in error has no meaning
 * (HWI CQ-8), but there are users that ask for it before they ask for the status.
 *
 * Return: false if there is none.
 */
static bool moor_wq_complete(struct moor_qp *qp, bool recv,
			     const struct moor_cqe *cqe,
			     struct moor_posted *posted)
{
	struct moor_kernel_wq *wq = recv ? &qp->kernel.rq : &qp->kernel.sq;
	u32 index = le32_to_cpu(READ_ONCE(cqe->wqe_index));

	/* Pairs with moor_wq_advance(): a device may lie about what it has seen. */
	if (index - wq->tail >= smp_load_acquire(&wq->head) - wq->tail)
		return false;
	posted->wr_id = wq->wr_id[index & wq->mask];
	if (recv) {
		posted->room = wq->room[index & wq->mask];
	} else if (likely(!READ_ONCE(cqe->status))) {
		posted->opcode = READ_ONCE(cqe->opcode);
	} else {
		posted->opcode = moor_posted_opcode(wq, index);
		moor_fast_failed(qp, index);
	}
	/* Posters may reuse the WQEs from here on: pairs with moor_wq_is_full(). */
	smp_store_release(&wq->tail, index + 1);
	return true;
}

/* Take a WQE off the queue that the CQE is of. Return: false if there is none. */
static bool moor_cqe_complete(const struct moor_cq *cq, struct moor_qp *qp,
			      bool recv, const struct moor_cqe *cqe,
			      struct moor_posted *posted)
{
	if (&cq->ibcq != (recv ? qp->ibqp.recv_cq : qp->ibqp.send_cq))
		return false;
	if (recv && qp->ibqp.srq)
		return moor_srq_complete(to_msrq(qp->ibqp.srq), cqe, posted);
	return moor_wq_complete(qp, recv, cqe, posted);
}

static enum ib_wc_opcode moor_send_wc_opcode(u8 opcode)
{
	return opcode < ARRAY_SIZE(moor_wc_opcodes) ? moor_wc_opcodes[opcode] :
						      IB_WC_SEND;
}

/* Facts about a datagram that only its completion reports (HWI UD-13). */
static void moor_fill_datagram(struct ib_wc *wc, const struct moor_cqe *cqe)
{
	u16 vlan = le16_to_cpu(cqe->vlan);
	u8 network = READ_ONCE(cqe->network);

	wc->wc_flags |= IB_WC_GRH | IB_WC_WITH_SMAC;
	wc->pkey_index = le16_to_cpu(cqe->pkey_index);
	wc->sl = cqe->priority;
	wc->port_num = MOOR_PORT;
	memcpy(wc->smac, cqe->smac, ETH_ALEN);
	if (vlan != MOOR_GID_NO_VLAN) {
		wc->wc_flags |= IB_WC_WITH_VLAN;
		wc->vlan_id = vlan;
	}
	if (network && network < ARRAY_SIZE(moor_network_types)) {
		wc->wc_flags |= IB_WC_WITH_NETWORK_HDR_TYPE;
		wc->network_hdr_type = moor_network_types[network];
	}
}

static void moor_fill_recv_wc(struct ib_wc *wc, u8 opcode,
			      const struct moor_cqe *cqe)
{
	if (opcode == MOOR_CQE_RECV_WRITE_IMM)
		wc->opcode = IB_WC_RECV_RDMA_WITH_IMM;
	wc->src_qp = le32_to_cpu(cqe->src_qpn);
	if (cqe->flags & MOOR_CQE_FLAG_INV) {
		wc->wc_flags = IB_WC_WITH_INVALIDATE;
		wc->ex.invalidate_rkey = le32_to_cpu(cqe->inv_key);
	} else if (cqe->flags & MOOR_CQE_FLAG_IMM) {
		wc->wc_flags = IB_WC_WITH_IMM;
		wc->ex.imm_data = cqe->imm;
	}
	if (cqe->flags & MOOR_CQE_FLAG_GRH)
		moor_fill_datagram(wc, cqe);
}

/*
 * Users read as many bytes as the completion reports, even beyond the posted memory. The
 * data of a write is not in that memory; a datagram is never a write.
 */
static bool moor_wc_overruns(const struct ib_wc *wc, const struct moor_qp *qp,
			     u8 opcode, const struct moor_posted *posted)
{
	return (opcode != MOOR_CQE_RECV_WRITE_IMM || moor_qp_is_ud(qp)) &&
	       wc->byte_len > posted->room;
}

/*
 * One CQE. Return: true if it gave a completion; some are of queue pairs that are
 * gone. The device may change the CQE meanwhile: what is checked is read once, and a CQE
 * that changes gives no more than a wrong completion.
 */
static bool moor_take_cqe(struct moor_cq *cq, const struct moor_cqe *cqe,
			  struct ib_wc *wc)
{
	struct moor_qp *qp = moor_cqe_qp(&cq->kernel, cqe);
	u8 opcode = READ_ONCE(cqe->opcode);
	bool recv = opcode & MOOR_CQE_RECV;
	struct moor_posted posted;

	if (!qp)
		return false;
	if (!moor_cqe_complete(cq, qp, recv, cqe, &posted)) {
		moor_hw_kill_later(to_mdev(cq->ibcq.device),
				   "it completed a request that is not posted");
		return false;
	}
	*wc = (struct ib_wc){
		.wr_id = posted.wr_id,
		.status = min_t(u8, READ_ONCE(cqe->status), IB_WC_GENERAL_ERR),
		.opcode = recv ? IB_WC_RECV : moor_send_wc_opcode(posted.opcode),
		.vendor_err = cqe->syndrome,
		.qp = &qp->ibqp,
	};
	/* What else a CQE in error says has no meaning. */
	if (unlikely(wc->status))
		return true;
	wc->byte_len = le32_to_cpu(READ_ONCE(cqe->byte_len));
	if (!recv)
		return true;
	if (unlikely(moor_wc_overruns(wc, qp, opcode, &posted))) {
		moor_hw_kill_later(to_mdev(cq->ibcq.device),
				   "it wrote more bytes than a receive has room for");
		wc->status = IB_WC_LOC_LEN_ERR;
	}
	moor_fill_recv_wc(wc, opcode, cqe);
	return true;
}

/*
 * Will this CQ get no more CQEs of a queue pair? Then the driver flushes what is posted.
 * While the device lives, only after the queue pair has been stopped: once a work request
 * has completed, its owner may reuse the memory.
 */
static bool moor_qp_is_unheard(const struct moor_cq *cq, const struct moor_qp *qp)
{
	return moor_is_dead(to_mdev(cq->ibcq.device)) ||
	       (cq->kernel.failed &&
		test_bit(MOOR_KERNEL_QP_STOPPED, &qp->kernel.flags));
}

/* Can there be queue pairs for which moor_qp_is_unheard() holds? */
static bool moor_cq_is_silent(const struct moor_cq *cq)
{
	return moor_is_dead(to_mdev(cq->ibcq.device)) || cq->kernel.failed;
}

/* Flush the WQEs that the device will not complete, the oldest first. */
static int moor_flush_wq(struct moor_qp *qp, struct moor_kernel_wq *wq,
			 int num, struct ib_wc *wc)
{
	/* Makes the wr_ids before head visible: pairs with moor_wq_advance(). */
	u32 head = smp_load_acquire(&wq->head);
	bool recv = wq == &qp->kernel.rq;
	int n;

	for (n = 0; n < num && wq->tail != head; n++) {
		if (!recv)
			moor_fast_flushed(qp, wq->tail);
		wc[n] = (struct ib_wc){
			.wr_id = wq->wr_id[wq->tail & wq->mask],
			.status = IB_WC_WR_FLUSH_ERR,
			.opcode = recv ? IB_WC_RECV :
				  moor_send_wc_opcode(moor_posted_opcode(wq, wq->tail)),
			.qp = &qp->ibqp,
		};
		/* Pairs with moor_wq_is_full(). */
		smp_store_release(&wq->tail, wq->tail + 1);
	}
	return n;
}

static int moor_flush_silent(struct moor_cq *cq, int num, struct ib_wc *wc)
{
	struct moor_cq_user *user;
	int bucket, n = 0;

	hash_for_each(cq->kernel.qps, bucket, user, node) {
		struct moor_qp *qp = user->qp;

		if (!moor_qp_is_unheard(cq, qp))
			continue;
		if (qp->ibqp.send_cq == &cq->ibcq)
			n += moor_flush_wq(qp, &qp->kernel.sq, num - n, wc + n);
		if (qp->ibqp.recv_cq == &cq->ibcq)
			n += moor_flush_wq(qp, &qp->kernel.rq, num - n, wc + n);
	}
	return n;
}

static bool moor_wq_has_work(const struct moor_kernel_wq *wq)
{
	return wq->tail != READ_ONCE(wq->head);
}

/* Has a queue WQEs for moor_flush_silent()? Queues of other CQs do not count. */
static bool moor_qp_has_work(const struct moor_cq *cq, const struct moor_qp *qp)
{
	return (qp->ibqp.send_cq == &cq->ibcq &&
		moor_wq_has_work(&qp->kernel.sq)) ||
	       (qp->ibqp.recv_cq == &cq->ibcq &&
		moor_wq_has_work(&qp->kernel.rq));
}

/**
 * moor_cq_has_work - is there something to poll?
 * @cq: completion queue of the kernel, locked
 *
 * Return: true if there is, or if a resize hides what there is.
 */
bool moor_cq_has_work(struct moor_cq *cq)
{
	struct moor_cq_user *user;
	int bucket;

	lockdep_assert_held(&cq->kernel.lock);
	if (cq->kernel.resizing ||
	    moor_cqe_at(&cq->kernel, cq->kernel.consumer))
		return true;
	if (!moor_cq_is_silent(cq))
		return false;
	hash_for_each(cq->kernel.qps, bucket, user, node) {
		if (moor_qp_is_unheard(cq, user->qp) &&
		    moor_qp_has_work(cq, user->qp))
			return true;
	}
	return false;
}

/**
 * moor_poll_cq - take completions off a completion queue of the kernel
 * @ibcq: completion queue
 * @num: most that are wanted
 * @wc: filled in
 *
 * On a dead device everything that was posted to queue pairs is flushed. If the CQ has
 * failed, what was posted to queue pairs that their users have taken to ERR is. So a
 * task that drains a queue pair comes to an end.
 *
 * Return: how many.
 */
int moor_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc)
{
	struct moor_cq *cq = to_mcq(ibcq);
	struct moor_kernel_cq *kcq = &cq->kernel;
	const struct moor_cqe *cqe;
	unsigned long irqs;
	u32 first, end;
	int n = 0;

	spin_lock_irqsave(&kcq->lock, irqs);
	if (kcq->resizing)
		goto unlock;
	first = kcq->consumer;
	end = first + BIT(kcq->log_cqe);
	/* At most one ring: a device that writes as fast as we read does not keep us. */
	while (n < num && kcq->consumer != end) {
		cqe = moor_cqe_at(kcq, kcq->consumer);
		if (!cqe)
			break;
		n += moor_take_cqe(cq, cqe, &wc[n]);
		/*
		 * The device may overwrite the CQE once it sees the consumer index: all
		 * reads of it come before (HWI DB-7). writeq() orders writes alone.
		 */
		smp_store_release(&kcq->consumer, kcq->consumer + 1);
	}
	if (unlikely(moor_cq_is_silent(cq)))
		n += moor_flush_silent(cq, num - n, wc + n);
	else if (kcq->consumer != first)
		moor_kernel_slot_store(&kcq->slot, kcq->arm | kcq->consumer);
unlock:
	spin_unlock_irqrestore(&kcq->lock, irqs);
	return n;
}
