/* SPDX-License-Identifier: GPL-2.0 */
/* Posting on the two QPs of world_connect(), for fuzz targets. */
#ifndef FUZZ_QUEUE_H
#define FUZZ_QUEUE_H

#include "transport/qp.h"
#include "world.h"

#define SLOT_BYTES	(1u << WORLD_LOG_STRIDE)
#define SLOT_MASK	((1u << WORLD_LOG_DEPTH) - 1)

/* The next slot of a send queue of world_connect(), zeroed. */
static inline struct moor_sq_wqe *next_send(unsigned int i)
{
	uint32_t slot = w->sq_producer[i]++ & SLOT_MASK;
	void *wqe = world_ptr(page_addr(PAGE_SQ + i) + slot * SLOT_BYTES);

	memset(wqe, 0, SLOT_BYTES);
	return wqe;
}

static inline struct moor_rq_wqe *next_recv(unsigned int i)
{
	uint32_t slot;
	void *wqe;

	if (w->shared)
		i = 0;
	slot = w->rq_producer[i]++ & SLOT_MASK;
	wqe = world_ptr(page_addr(PAGE_RQ + i) + slot * SLOT_BYTES);
	memset(wqe, 0, SLOT_BYTES);
	return wqe;
}

static inline void ring_send(unsigned int i)
{
	uint32_t slot = WORLD_SLOT(2 + i);

	set_slot(slot, w->sq_producer[i]);
	nic_kick(w->nic, slot / MOOR_DB_SLOTS_PER_PAGE,
		 slot % MOOR_DB_SLOTS_PER_PAGE);
	world_run();
}

static inline void ring_recv(unsigned int i)
{
	if (w->shared)
		i = 0;
	set_slot(WORLD_SLOT(4 + i), w->rq_producer[i]);
}

/* Chooses the kind of QPs, by the first byte of an input. */
void choose_queues(uint8_t how);
/* Posts a send WQE. Return: true when the doorbell should be rung now. */
bool post_send(struct input *in);
void post_recv(struct input *in);
/* Posts bytes of the input as they are, to a send or a receive queue. */
void post_raw(struct input *in);

/* The QP, or NULL when it has been destroyed. */
static inline struct qp *world_qp(unsigned int i)
{
	return qp_find(w->nic, WORLD_QPN(i));
}

/* CQEs of success in the first rings of the CQs. */
static inline unsigned int successes(void)
{
	unsigned int i, count = 0;

	for (i = 0; i < 2u << WORLD_LOG_CQE; i++) {
		const struct moor_cqe *cqe =
			(const struct moor_cqe *)world_ptr(page_addr(PAGE_CQ +
						(i >> WORLD_LOG_CQE))) +
			(i & ((1u << WORLD_LOG_CQE) - 1));

		count += cqe->qpn && !cqe->status;
	}
	return count;
}

#endif /* FUZZ_QUEUE_H */
