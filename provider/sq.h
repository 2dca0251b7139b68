/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * WQEs in their slots (HWI 10).
 */
#ifndef MOOR_PROVIDER_SQ_H
#define MOOR_PROVIDER_SQ_H

#include <endian.h>
#include <stddef.h>

#include "moor.h"

/* The slot of a free-running index. */
static inline void *moor_wq_slot(const struct moor_wq *wq, uint32_t index)
{
	return wq->ring + ((size_t)(index & wq->mask) << wq->log_stride);
}

/* Is there no room for WQE @index? Pairs with the release in free_slots(). */
static inline bool moor_wq_full(const struct moor_wq *wq, uint32_t index)
{
	return index - atomic_load_explicit(&wq->consumer,
					    memory_order_acquire) >= wq->depth;
}

/*
 * May send requests be posted? IBA allows it from RTS on, and in the error
 * states, where they complete as flushed.
 */
static inline bool moor_sq_open(const struct moor_qp *qp)
{
	return atomic_load_explicit(&qp->state, memory_order_relaxed) >= IBV_QPS_RTS;
}

static inline void moor_set_sge(struct moor_sge *to, uint64_t addr,
				uint32_t length, uint32_t lkey)
{
	to->addr = htole64(addr);
	to->length = htole32(length);
	to->lkey = htole32(lkey);
}

/* Fills in where a datagram goes (HWI UD-1). */
static inline void moor_put_address(struct moor_sq_wqe *wqe, struct ibv_ah *ah,
				    uint32_t qpn, uint32_t qkey)
{
	struct moor_wqe_ud *segment = (struct moor_wqe_ud *)(wqe + 1);

	*segment = to_moor_ah(ah)->segment;
	segment->dest_qpn = htole32(qpn);
	segment->qkey = htole32(qkey);
}

/* Fills in the SRQ that a message is for (HWI XRC-3). */
static inline void moor_put_srqn(struct moor_sq_wqe *wqe, uint32_t srqn)
{
	struct moor_wqe_xrc *segment = (struct moor_wqe_xrc *)(wqe + 1);

	*segment = (struct moor_wqe_xrc){ .srqn = htole32(srqn) };
}

/* The opcode's own segment of a message's WQE: behind the address segment, if any. */
static inline void *moor_wqe_segment(const struct moor_qp *qp,
				     struct moor_sq_wqe *wqe)
{
	return (uint8_t *)(wqe + 1) + qp->address_bytes;
}

/* Where SGEs or inline data of a WQE start. */
static inline void *moor_wqe_data(const struct moor_qp *qp,
				  struct moor_sq_wqe *wqe)
{
	struct moor_wqe_atomic *atomic = moor_wqe_segment(qp, wqe);

	return wqe->opcode == MOOR_WQE_CMP_SWAP ||
	       wqe->opcode == MOOR_WQE_FETCH_ADD ? atomic + 1 : atomic;
}

#endif /* MOOR_PROVIDER_SQ_H */
