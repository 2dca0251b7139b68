// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The ibv_wr_*() interface: work requests are built in their slots between
 * ibv_wr_start() and ibv_wr_complete(), which hold the send queue's lock.
 */
#include <errno.h>
#include <string.h>

#include <ccan/array_size.h>

#include "sq.h"

/* HWI UD-1 */
#define UD_OPS		(IBV_QP_EX_WITH_SEND | \
			 IBV_QP_EX_WITH_SEND_WITH_IMM)

#define WINDOW_FEATURES	(MOOR_FEATURE_MW_TYPE_1 | MOOR_FEATURE_MW_TYPE_2B)
#define INV_FEATURES	(MOOR_FEATURE_MW_TYPE_2B | MOOR_FEATURE_FAST_REG)

/* HWI UC-1 */
#define UC_OPS		(IBV_QP_EX_WITH_RDMA_WRITE | \
			 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | \
			 IBV_QP_EX_WITH_SEND | \
			 IBV_QP_EX_WITH_SEND_WITH_IMM | \
			 IBV_QP_EX_WITH_LOCAL_INV | \
			 IBV_QP_EX_WITH_BIND_MW)

#define RC_OPS		(UC_OPS | \
			 IBV_QP_EX_WITH_RDMA_READ | \
			 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
			 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | \
			 IBV_QP_EX_WITH_SEND_WITH_INV | \
			 IBV_QP_EX_WITH_FLUSH | \
			 IBV_QP_EX_WITH_ATOMIC_WRITE)

static_assert((int)IBV_FLUSH_GLOBAL == (int)MOOR_FLUSH_GLOBAL &&
	      (int)IBV_FLUSH_PERSISTENT == (int)MOOR_FLUSH_PERSISTENT &&
	      (int)IBV_FLUSH_RANGE == (int)MOOR_FLUSH_RANGE &&
	      (int)IBV_FLUSH_MR == (int)MOOR_FLUSH_REGION,
	      "wr_flush() hands them on as they are");

#define FLUSH_TYPES	(IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT)
#define FLUSH_FEATURES	(MOOR_FEATURE_FLUSH_GLOBAL | \
			 MOOR_FEATURE_FLUSH_PERSISTENT)

/* HWI MPE-2 */
#define ATOMIC_WRITE_BYTES	8

static void wr_start(struct ibv_qp_ex *ibqp)
{
	struct moor_qp *qp = to_moor_qp_ex(ibqp);

	moor_lock(&qp->sq.lock);
	qp->wr = NULL;
	qp->wr_producer = qp->sq.producer;
	qp->wr_error = moor_sq_open(qp) ? 0 : EINVAL;
}

static int wr_complete(struct ibv_qp_ex *ibqp)
{
	struct moor_qp *qp = to_moor_qp_ex(ibqp);
	int err = qp->wr_error;

	if (likely(!err && qp->wr_producer != qp->sq.producer)) {
		qp->sq.producer = qp->wr_producer;
		moor_slot_store(&qp->sq.slot, qp->wr_producer);
	}
	moor_unlock(&qp->sq.lock);
	moor_kick(&qp->sq.slot);
	return err;
}

static void wr_abort(struct ibv_qp_ex *ibqp)
{
	moor_unlock(&to_moor_qp_ex(ibqp)->sq.lock);
}

static uint8_t wr_flags(const struct moor_qp *qp)
{
	unsigned int flags = qp->vqp.qp_ex.wr_flags;
	uint8_t wqe_flags = qp->always;

	if (flags & IBV_SEND_SIGNALED)
		wqe_flags |= MOOR_WQE_FLAG_SIGNALED;
	if (flags & IBV_SEND_SOLICITED)
		wqe_flags |= MOOR_WQE_FLAG_SOLICITED;
	if (flags & IBV_SEND_FENCE)
		wqe_flags |= MOOR_WQE_FLAG_FENCE;
	return wqe_flags;
}

static struct moor_sq_wqe *wr_fail(struct moor_qp *qp, int err)
{
	if (!qp->wr_error)
		qp->wr_error = err;
	qp->wr = NULL;
	return NULL;
}

/*
 * As for ibv_post_send(). INLINE says nothing here, where there is a call for inline data, and
 * does no harm.
 */
#define KNOWN_WR_FLAGS	(IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_FENCE | IBV_SEND_INLINE)

/* Begins the next work request. Returns NULL once there was an error. */
static struct moor_sq_wqe *wr_begin(struct moor_qp *qp, uint8_t opcode)
{
	struct moor_sq_wqe *wqe;

	if (unlikely(qp->wr_error))
		return NULL;
	if (unlikely(moor_wq_full(&qp->sq, qp->wr_producer)))
		return wr_fail(qp, ENOMEM);
	if (unlikely(qp->vqp.qp_ex.wr_flags & ~KNOWN_WR_FLAGS))
		return wr_fail(qp, EINVAL);
	wqe = moor_wq_slot(&qp->sq, qp->wr_producer++);
	wqe->opcode = opcode;
	wqe->flags = wr_flags(qp);
	wqe->num_sge = 0;
	wqe->reserved1 = 0;
	wqe->wr_id = htole64(qp->vqp.qp_ex.wr_id);
	qp->wr = wqe;
	return wqe;
}

static struct moor_sq_wqe *wr_begin_remote(struct moor_qp *qp, uint8_t opcode,
					   uint32_t rkey, uint64_t remote_addr)
{
	struct moor_sq_wqe *wqe = wr_begin(qp, opcode);

	if (likely(wqe)) {
		wqe->remote_addr = htole64(remote_addr);
		wqe->rkey = htole32(rkey);
	}
	return wqe;
}

static void wr_send(struct ibv_qp_ex *qp)
{
	wr_begin(to_moor_qp_ex(qp), MOOR_WQE_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 imm_data)
{
	struct moor_sq_wqe *wqe = wr_begin(to_moor_qp_ex(qp),
					   MOOR_WQE_SEND_IMM);

	if (likely(wqe))
		wqe->imm = imm_data;
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey,
			  uint64_t remote_addr)
{
	wr_begin_remote(to_moor_qp_ex(qp), MOOR_WQE_WRITE, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey,
			      uint64_t remote_addr, __be32 imm_data)
{
	struct moor_sq_wqe *wqe = wr_begin_remote(to_moor_qp_ex(qp),
						  MOOR_WQE_WRITE_IMM, rkey,
						  remote_addr);

	if (likely(wqe))
		wqe->imm = imm_data;
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey,
			 uint64_t remote_addr)
{
	wr_begin_remote(to_moor_qp_ex(qp), MOOR_WQE_READ, rkey, remote_addr);
}

static void wr_atomic(struct ibv_qp_ex *qp, uint8_t opcode, uint32_t rkey,
		      uint64_t remote_addr, uint64_t swap_add, uint64_t compare)
{
	struct moor_sq_wqe *wqe = wr_begin_remote(to_moor_qp_ex(qp), opcode,
						  rkey, remote_addr);
	struct moor_wqe_atomic *atomic;

	if (unlikely(!wqe))
		return;
	atomic = moor_wqe_segment(to_moor_qp_ex(qp), wqe);
	atomic->swap_add = htole64(swap_add);
	atomic->compare = htole64(compare);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey,
			      uint64_t remote_addr, uint64_t compare,
			      uint64_t swap)
{
	wr_atomic(qp, MOOR_WQE_CMP_SWAP, rkey, remote_addr, swap, compare);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey,
				uint64_t remote_addr, uint64_t add)
{
	wr_atomic(qp, MOOR_WQE_FETCH_ADD, rkey, remote_addr, add, 0);
}

/* Is a flush's type or level unknown, or its length too large (HWI MPE-5)? */
static bool flush_is_wrong(size_t length, uint8_t type, uint8_t level)
{
	return !type || type & ~FLUSH_TYPES || level > IBV_FLUSH_MR ||
	       (level == IBV_FLUSH_RANGE && length > UINT32_MAX);
}

/* With level MR the length is ignored: programs pass anything. */
static void wr_flush(struct ibv_qp_ex *ibqp, uint32_t rkey,
		     uint64_t remote_addr, size_t length, uint8_t type,
		     uint8_t level)
{
	struct moor_qp *qp = to_moor_qp_ex(ibqp);
	struct moor_sq_wqe *wqe = wr_begin_remote(qp, MOOR_WQE_FLUSH, rkey,
						  remote_addr);
	struct moor_wqe_flush *flush;

	if (unlikely(!wqe))
		return;
	if (unlikely(flush_is_wrong(length, type, level))) {
		wr_fail(qp, EINVAL);
		return;
	}
	flush = moor_wqe_segment(qp, wqe);
	*flush = (struct moor_wqe_flush){
		.length = htole32(level == IBV_FLUSH_RANGE ? length : 0),
		.type = type,
		.level = level,
	};
}

/* The data go into the WQE: a slot of every send queue has room for them. */
static void wr_atomic_write(struct ibv_qp_ex *ibqp, uint32_t rkey,
			    uint64_t remote_addr, const void *data)
{
	struct moor_qp *qp = to_moor_qp_ex(ibqp);
	struct moor_sq_wqe *wqe = wr_begin_remote(qp, MOOR_WQE_ATOMIC_WRITE,
						  rkey, remote_addr);

	if (unlikely(!wqe))
		return;
	memcpy(moor_wqe_data(qp, wqe), data, ATOMIC_WRITE_BYTES);
	wqe->flags |= MOOR_WQE_FLAG_INLINE;
	wqe->inline_length = htole32(ATOMIC_WRITE_BYTES);
}

static_assert(sizeof(struct moor_sq_wqe) + sizeof(struct moor_wqe_xrc) +
	      sizeof(struct moor_wqe_flush) <= 1 << MOOR_MIN_LOG_SQ_STRIDE &&
	      sizeof(struct moor_wqe_flush) >= ATOMIC_WRITE_BYTES,
	      "FLUSH and ATOMIC_WRITE fit into the smallest slot");

static void wr_inv(struct ibv_qp_ex *qp, uint8_t opcode, uint32_t rkey)
{
	struct moor_sq_wqe *wqe = wr_begin(to_moor_qp_ex(qp), opcode);

	if (likely(wqe))
		wqe->inv_key = htole32(rkey);
}

static void wr_send_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	wr_inv(qp, MOOR_WQE_SEND_INV, rkey);
}

static void wr_local_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	wr_inv(qp, MOOR_WQE_LOCAL_INV, rkey);
}

static void wr_bind_mw(struct ibv_qp_ex *ibqp, struct ibv_mw *mw,
		       uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct moor_qp *qp = to_moor_qp_ex(ibqp);
	struct moor_sq_wqe *wqe = wr_begin(qp, MOOR_WQE_BIND_MW);

	if (likely(wqe) && moor_put_bind(wqe, mw, rkey, info))
		wr_fail(qp, EINVAL);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ibqp, struct ibv_ah *ah,
			   uint32_t remote_qpn, uint32_t remote_qkey)
{
	struct moor_sq_wqe *wqe = to_moor_qp_ex(ibqp)->wr;

	if (likely(wqe))
		moor_put_address(wqe, ah, remote_qpn, remote_qkey);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ibqp, uint32_t remote_srqn)
{
	struct moor_sq_wqe *wqe = to_moor_qp_ex(ibqp)->wr;

	/* Work that is the QP's own goes to nobody: a bind has its segment there. */
	if (likely(wqe) && wqe->opcode != MOOR_WQE_BIND_MW)
		moor_put_srqn(wqe, remote_srqn);
}

/* HWI FEAT-3: what a device without one of these features does not have. */
static uint64_t absent_ops(const struct moor_context *ctx)
{
	static const struct {
		uint64_t features, ops;
	} needs[] = {
		{ MOOR_FEATURE_ATOMICS, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
					IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD },
		{ WINDOW_FEATURES, IBV_QP_EX_WITH_BIND_MW },
		{ INV_FEATURES, IBV_QP_EX_WITH_LOCAL_INV |
				IBV_QP_EX_WITH_SEND_WITH_INV },
		{ FLUSH_FEATURES, IBV_QP_EX_WITH_FLUSH },
		{ MOOR_FEATURE_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE },
	};
	uint64_t ops = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(needs); i++)
		if (!(ctx->features & needs[i].features))
			ops |= needs[i].ops;
	/* The eight bytes are put into the WQE. */
	if (ctx->max_inline < ATOMIC_WRITE_BYTES)
		ops |= IBV_QP_EX_WITH_ATOMIC_WRITE;
	return ops;
}

static uint64_t ops_of_type(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_UD:
		return UD_OPS;
	case IBV_QPT_UC:
		return UC_OPS;
	default:
		return RC_OPS;
	}
}

static bool wqe_is_atomic(const struct moor_sq_wqe *wqe)
{
	return wqe->opcode == MOOR_WQE_CMP_SWAP ||
	       wqe->opcode == MOOR_WQE_FETCH_ADD;
}

static bool wqe_scatters(const struct moor_sq_wqe *wqe)
{
	return wqe->opcode == MOOR_WQE_READ || wqe_is_atomic(wqe);
}

/* An ATOMIC_WRITE's data are in the WQE; SGEs in their place would be sent as data. */
static bool wqe_is_complete(const struct moor_sq_wqe *wqe)
{
	return wqe->flags & MOOR_WQE_FLAG_INLINE;
}

static void wr_set_sge(struct ibv_qp_ex *ibqp, uint32_t lkey, uint64_t addr,
		       uint32_t length)
{
	struct moor_qp *qp = to_moor_qp_ex(ibqp);
	struct moor_sq_wqe *wqe = qp->wr;

	if (unlikely(!wqe))
		return;
	if (unlikely(wqe_is_complete(wqe))) {
		wr_fail(qp, EINVAL);
		return;
	}
	moor_set_sge(moor_wqe_data(qp, wqe), addr, length, lkey);
	wqe->num_sge = 1;
}

static void wr_set_sge_list(struct ibv_qp_ex *ibqp, size_t num_sge,
			    const struct ibv_sge *list)
{
	struct moor_qp *qp = to_moor_qp_ex(ibqp);
	struct moor_sq_wqe *wqe = qp->wr;
	struct moor_sge *to;
	size_t i;

	if (unlikely(!wqe))
		return;
	to = moor_wqe_data(qp, wqe);
	if (unlikely(wqe_is_complete(wqe) ||
		     num_sge > (wqe_is_atomic(wqe) ? 1 : qp->sq.max_sge))) {
		wr_fail(qp, EINVAL);
		return;
	}
	for (i = 0; i < num_sge; i++)
		moor_set_sge(&to[i], list[i].addr, list[i].length,
			     list[i].lkey);
	wqe->num_sge = num_sge;
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ibqp, size_t num_buf,
				    const struct ibv_data_buf *list)
{
	struct moor_qp *qp = to_moor_qp_ex(ibqp);
	struct moor_sq_wqe *wqe = qp->wr;
	size_t length = 0;
	uint8_t *to;
	size_t i;

	if (unlikely(!wqe))
		return;
	if (unlikely(wqe_scatters(wqe) || wqe_is_complete(wqe))) {
		wr_fail(qp, EINVAL);
		return;
	}
	to = moor_wqe_data(qp, wqe);
	for (i = 0; i < num_buf; i++) {
		if (unlikely(list[i].length > qp->max_inline - length)) {
			wr_fail(qp, EINVAL);
			return;
		}
		memcpy(to + length, list[i].addr, list[i].length);
		length += list[i].length;
	}
	wqe->flags |= MOOR_WQE_FLAG_INLINE;
	wqe->inline_length = htole32(length);
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(qp, 1, &buf);
}

/**
 * moor_qp_set_wr_ops - set the functions of an extended QP
 * @ctx: the context, for the features of the device
 * @qp: the QP
 * @type: type of the QP
 * @send_ops: IBV_QP_EX_WITH_* that the QP is to have
 *
 * Returns 0, or EOPNOTSUPP if one of them is not supported.
 */
int moor_qp_set_wr_ops(const struct moor_context *ctx, struct ibv_qp_ex *qp,
		       enum ibv_qp_type type, uint64_t send_ops)
{
	if (!check_comp_mask(send_ops, ops_of_type(type) & ~absent_ops(ctx)))
		return EOPNOTSUPP;

	qp->wr_start = wr_start;
	qp->wr_complete = wr_complete;
	qp->wr_abort = wr_abort;
	if (type == IBV_QPT_UD)
		qp->wr_set_ud_addr = wr_set_ud_addr;
	if (type == IBV_QPT_XRC_SEND)
		qp->wr_set_xrc_srqn = wr_set_xrc_srqn;
	qp->wr_set_sge = wr_set_sge;
	qp->wr_set_sge_list = wr_set_sge_list;
	qp->wr_set_inline_data = wr_set_inline_data;
	qp->wr_set_inline_data_list = wr_set_inline_data_list;
	if (send_ops & IBV_QP_EX_WITH_SEND)
		qp->wr_send = wr_send;
	if (send_ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		qp->wr_send_imm = wr_send_imm;
	if (send_ops & IBV_QP_EX_WITH_RDMA_WRITE)
		qp->wr_rdma_write = wr_rdma_write;
	if (send_ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		qp->wr_rdma_write_imm = wr_rdma_write_imm;
	if (send_ops & IBV_QP_EX_WITH_RDMA_READ)
		qp->wr_rdma_read = wr_rdma_read;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		qp->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		qp->wr_atomic_fetch_add = wr_atomic_fetch_add;
	if (send_ops & IBV_QP_EX_WITH_LOCAL_INV)
		qp->wr_local_inv = wr_local_inv;
	if (send_ops & IBV_QP_EX_WITH_BIND_MW)
		qp->wr_bind_mw = wr_bind_mw;
	if (send_ops & IBV_QP_EX_WITH_SEND_WITH_INV)
		qp->wr_send_inv = wr_send_inv;
	if (send_ops & IBV_QP_EX_WITH_FLUSH)
		qp->wr_flush = wr_flush;
	if (send_ops & IBV_QP_EX_WITH_ATOMIC_WRITE)
		qp->wr_atomic_write = wr_atomic_write;
	return 0;
}
