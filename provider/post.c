// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * ibv_post_send() and ibv_post_recv() (HWI 10).
 */
#include <errno.h>
#include <string.h>

#include <ccan/array_size.h>

#include "sq.h"

#define OP_REMOTE	(1 << 0)	/* has a remote address and key */
#define OP_IMM		(1 << 1)	/* has immediate data */
#define OP_ATOMIC	(1 << 2)
#define OP_GATHERS	(1 << 3)	/* reads local memory: inline is possible */
#define OP_INV		(1 << 4)	/* names a key to invalidate */
#define OP_LOCAL	(1 << 5)	/* moves no data */
#define OP_RC		(1 << 6)	/* not on UC (HWI UC-1) */
#define OP_KNOWN	(1 << 7)
#define OP_UD		(1 << 8)	/* on UD, too (HWI UD-1) */
#define OP_PLACED	(1 << 9)	/* only if the device has it (HWI MPE-2) */

struct op_info {
	uint8_t opcode;
	uint16_t traits;
};

/*
 * IBV_WR_FLUSH is not here: struct ibv_send_wr has no fields for the range and the type
 * of a flush, and a guess would promise what the caller did not ask for. Callers use
 * ibv_wr_flush().
 */
static const struct op_info ops[] = {
	[IBV_WR_RDMA_WRITE] = { MOOR_WQE_WRITE,
				OP_KNOWN | OP_REMOTE | OP_GATHERS },
	[IBV_WR_RDMA_WRITE_WITH_IMM] = { MOOR_WQE_WRITE_IMM,
				OP_KNOWN | OP_REMOTE | OP_GATHERS | OP_IMM },
	[IBV_WR_SEND] = { MOOR_WQE_SEND, OP_KNOWN | OP_GATHERS | OP_UD },
	[IBV_WR_SEND_WITH_IMM] = { MOOR_WQE_SEND_IMM,
				OP_KNOWN | OP_GATHERS | OP_IMM | OP_UD },
	[IBV_WR_RDMA_READ] = { MOOR_WQE_READ, OP_KNOWN | OP_REMOTE | OP_RC },
	[IBV_WR_ATOMIC_CMP_AND_SWP] = { MOOR_WQE_CMP_SWAP,
				OP_KNOWN | OP_REMOTE | OP_ATOMIC | OP_RC },
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = { MOOR_WQE_FETCH_ADD,
				OP_KNOWN | OP_REMOTE | OP_ATOMIC | OP_RC },
	[IBV_WR_SEND_WITH_INV] = { MOOR_WQE_SEND_INV,
				OP_KNOWN | OP_GATHERS | OP_INV | OP_RC },
	[IBV_WR_LOCAL_INV] = { MOOR_WQE_LOCAL_INV,
				OP_KNOWN | OP_LOCAL | OP_INV },
	[IBV_WR_BIND_MW] = { MOOR_WQE_BIND_MW, OP_KNOWN | OP_LOCAL },
	[IBV_WR_ATOMIC_WRITE] = { MOOR_WQE_ATOMIC_WRITE,
				OP_KNOWN | OP_REMOTE | OP_GATHERS | OP_RC |
				OP_PLACED },
};

static_assert((int)IBV_SEND_FENCE == 1 << 0 && (int)IBV_SEND_SIGNALED == 1 << 1 &&
	      (int)IBV_SEND_SOLICITED == 1 << 2 && (int)IBV_SEND_INLINE == 1 << 3,
	      "wqe_flags[] has these four as its index");

/* IBV_SEND_* in the device's terms. */
static const uint8_t wqe_flags[16] = {
#define F(n)	(((n) & IBV_SEND_FENCE ? MOOR_WQE_FLAG_FENCE : 0) |		\
		((n) & IBV_SEND_SIGNALED ? MOOR_WQE_FLAG_SIGNALED : 0) |	\
		((n) & IBV_SEND_SOLICITED ? MOOR_WQE_FLAG_SOLICITED : 0) |	\
		((n) & IBV_SEND_INLINE ? MOOR_WQE_FLAG_INLINE : 0))
	F(0), F(1), F(2), F(3), F(4), F(5), F(6), F(7),
	F(8), F(9), F(10), F(11), F(12), F(13), F(14), F(15),
#undef F
};

static int put_inline(const struct moor_qp *qp, struct moor_sq_wqe *wqe,
		      const struct ibv_send_wr *wr)
{
	uint8_t *to = moor_wqe_data(qp, wqe);
	uint32_t length = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (sge->length > qp->max_inline - length)
			return EINVAL;
		memcpy(to + length, (void *)(uintptr_t)sge->addr, sge->length);
		length += sge->length;
	}
	wqe->inline_length = htole32(length);
	wqe->num_sge = 0;
	return 0;
}

static int put_sges(const struct moor_qp *qp, struct moor_sq_wqe *wqe,
		    const struct ibv_send_wr *wr, uint16_t traits)
{
	uint32_t max = traits & OP_ATOMIC ? 1 : qp->sq.max_sge;
	struct moor_sge *to = moor_wqe_data(qp, wqe);
	int i;

	if (unlikely((uint32_t)wr->num_sge > max))
		return EINVAL;
	for (i = 0; i < wr->num_sge; i++)
		moor_set_sge(&to[i], wr->sg_list[i].addr,
			     wr->sg_list[i].length, wr->sg_list[i].lkey);
	wqe->num_sge = wr->num_sge;
	return 0;
}

static void put_atomic(const struct moor_qp *qp, struct moor_sq_wqe *wqe,
		       const struct ibv_send_wr *wr)
{
	struct moor_wqe_atomic *atomic = moor_wqe_segment(qp, wqe);

	wqe->remote_addr = htole64(wr->wr.atomic.remote_addr);
	wqe->rkey = htole32(wr->wr.atomic.rkey);
	if (wqe->opcode == MOOR_WQE_CMP_SWAP) {
		atomic->swap_add = htole64(wr->wr.atomic.swap);
		atomic->compare = htole64(wr->wr.atomic.compare_add);
	} else {
		atomic->swap_add = htole64(wr->wr.atomic.compare_add);
	}
}

static int put_local(struct moor_sq_wqe *wqe, const struct ibv_send_wr *wr)
{
	wqe->num_sge = 0;
	if (wr->send_flags & IBV_SEND_INLINE)
		return EINVAL;
	if (wr->opcode != IBV_WR_BIND_MW)
		return 0;
	return moor_put_bind(wqe, wr->bind_mw.mw, wr->bind_mw.rkey,
			     &wr->bind_mw.bind_info);
}

static bool has_op(const struct moor_qp *qp, uint16_t traits)
{
	if (qp->vqp.qp.qp_type == IBV_QPT_UD)
		return traits & OP_UD;
	if (traits & OP_PLACED &&
	    !(to_moor_context(qp->vqp.qp.context)->features &
	      MOOR_FEATURE_ATOMIC_WRITE))
		return false;
	return traits & OP_KNOWN &&
	       (!(traits & OP_RC) || qp->vqp.qp.qp_type != IBV_QPT_UC);
}

/* Behind the head: the destination, where the connection does not determine it. */
static void put_address(const struct moor_qp *qp, struct moor_sq_wqe *wqe,
			const struct ibv_send_wr *wr)
{
	if (qp->vqp.qp.qp_type == IBV_QPT_UD)
		moor_put_address(wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn,
				 wr->wr.ud.remote_qkey);
	else
		moor_put_srqn(wqe, wr->qp_type.xrc.remote_srqn);
}

/* Fills the slot of WQE @index. Returns 0 or an errno. */
static int put_wqe(const struct moor_qp *qp, uint32_t index,
		   const struct ibv_send_wr *wr)
{
	struct moor_sq_wqe *wqe = moor_wq_slot(&qp->sq, index);
	const struct op_info *op;

	if (unlikely(wr->opcode >= ARRAY_SIZE(ops) ||
		     wr->send_flags >= ARRAY_SIZE(wqe_flags) ||
		     wr->num_sge < 0))
		return EINVAL;
	op = &ops[wr->opcode];
	if (unlikely(!has_op(qp, op->traits)))
		return EINVAL;

	wqe->opcode = op->opcode;
	wqe->flags = wqe_flags[wr->send_flags] | qp->always;
	wqe->reserved1 = 0;
	wqe->wr_id = htole64(wr->wr_id);
	if (op->traits & OP_IMM)
		wqe->imm = wr->imm_data;
	if (op->traits & OP_INV)
		wqe->inv_key = htole32(wr->invalidate_rkey);
	if (qp->address_bytes)
		put_address(qp, wqe, wr);
	if (op->traits & OP_LOCAL)
		return put_local(wqe, wr);
	if (op->traits & OP_ATOMIC) {
		put_atomic(qp, wqe, wr);
	} else if (op->traits & OP_REMOTE) {
		wqe->remote_addr = htole64(wr->wr.rdma.remote_addr);
		wqe->rkey = htole32(wr->wr.rdma.rkey);
	}
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return put_sges(qp, wqe, wr, op->traits);
	if (unlikely(!(op->traits & OP_GATHERS)))
		return EINVAL;
	return put_inline(qp, wqe, wr);
}

int moor_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		   struct ibv_send_wr **bad_wr)
{
	struct moor_qp *qp = to_moor_qp(ibqp);
	struct moor_wq *sq = &qp->sq;
	uint32_t index;
	int err = 0;

	moor_lock(&sq->lock);
	if (unlikely(!moor_sq_open(qp) || moor_qp_is_target(qp))) {
		moor_unlock(&sq->lock);
		*bad_wr = wr;
		return EINVAL;
	}
	for (index = sq->producer; wr; wr = wr->next, index++) {
		err = moor_wq_full(sq, index) ? ENOMEM :
						put_wqe(qp, index, wr);
		if (unlikely(err)) {
			*bad_wr = wr;
			break;
		}
	}
	if (likely(index != sq->producer)) {
		sq->producer = index;
		moor_slot_store(&sq->slot, index);
	}
	moor_unlock(&sq->lock);

	moor_kick(&sq->slot);
	return err;
}

static int put_recv_wqe(const struct moor_wq *rq, uint32_t index,
			const struct ibv_recv_wr *wr)
{
	struct moor_rq_wqe *wqe = moor_wq_slot(rq, index);
	struct moor_sge *to = (struct moor_sge *)(wqe + 1);
	int i;

	if (unlikely((uint32_t)wr->num_sge > rq->max_sge))
		return EINVAL;
	wqe->wr_id = htole64(wr->wr_id);
	wqe->num_sge = wr->num_sge;
	for (i = 0; i < wr->num_sge; i++)
		moor_set_sge(&to[i], wr->sg_list[i].addr,
			     wr->sg_list[i].length, wr->sg_list[i].lkey);
	return 0;
}

/**
 * moor_wq_put_recvs - post to a queue of receives, shared or not
 * @rq: queue, locked
 * @wr: work requests
 * @bad_wr: on failure, the first that was not posted
 *
 * The device looks at the doorbell when it needs a receive WQE: no kick.
 *
 * Returns 0 or an errno.
 */
int moor_wq_put_recvs(struct moor_wq *rq, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad_wr)
{
	uint32_t index;
	int err = 0;

	for (index = rq->producer; wr; wr = wr->next, index++) {
		err = moor_wq_full(rq, index) ? ENOMEM :
						put_recv_wqe(rq, index, wr);
		if (unlikely(err)) {
			*bad_wr = wr;
			break;
		}
	}
	if (likely(index != rq->producer)) {
		rq->producer = index;
		moor_slot_store(&rq->slot, index);
	}
	return err;
}

/* While the queue, or the QP of it, is being destroyed: see moor_slot_mute(). */
void moor_recvs_mute(struct moor_wq *rq)
{
	moor_lock(&rq->lock);
	moor_slot_mute(&rq->slot);
	moor_unlock(&rq->lock);
}

void moor_recvs_unmute(struct moor_wq *rq)
{
	moor_lock(&rq->lock);
	moor_slot_unmute(&rq->slot);
	moor_slot_store(&rq->slot, rq->producer);
	moor_unlock(&rq->lock);
}

/* IBA allows receives from INIT on. */
static bool rq_is_open(const struct moor_qp *qp)
{
	return atomic_load_explicit(&qp->state, memory_order_relaxed) != IBV_QPS_RESET &&
	       qp->rq.depth;
}

int moor_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		   struct ibv_recv_wr **bad_wr)
{
	struct moor_wq *rq = &to_moor_qp(ibqp)->rq;
	int err = EINVAL;

	moor_lock(&rq->lock);
	if (likely(rq_is_open(to_moor_qp(ibqp))))
		err = moor_wq_put_recvs(rq, wr, bad_wr);
	else
		*bad_wr = wr;
	moor_unlock(&rq->lock);
	return err;
}
