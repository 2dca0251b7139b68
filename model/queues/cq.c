// SPDX-License-Identifier: GPL-2.0
/* Completion queues: CQEs, notification, moderation, create to destroy (HWI 11). */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/layout.h"
#include "base/lie.h"
#include "base/log.h"
#include "memory/relaxed.h"
#include "queues/cq.h"
#include "queues/event.h"
#include "queues/slot.h"

struct cq *cq_find(struct nic *nic, uint32_t cqn)
{
	return cqn < NIC_MAX_CQ ? nic->cqs->cq[cqn] : NULL;
}

static void cq_event(struct nic *nic, struct cq *cq, uint32_t eqn, uint8_t type)
{
	event_post(nic, eqn, type, cq->cqn, &cq->backlogged);
}

/* The slot of @cq is to be evaluated. */
static void cq_mark(struct nic *nic, struct cq *cq)
{
	if (cq->dirty)
		return;
	cq->dirty = true;
	nic->cqs->dirty[nic->cqs->num_dirty++] = cq;
}

static uint32_t ring_phase(uint32_t index, uint8_t log_cqe)
{
	return !(index >> log_cqe & 1);
}

static struct moor_cqe *ring_entry(struct nic *nic, const struct xlat *ring,
				   struct xlat_window *window, uint8_t log_cqe,
				   uint32_t index, bool write)
{
	uint64_t slot = index & ((1u << log_cqe) - 1);

	return (struct moor_cqe *)xlat_window_ptr(nic, ring, window,
						  slot * sizeof(struct moor_cqe),
						  write);
}

static void cq_load_consumer(struct cq *cq)
{
	cq->consumer = (uint32_t)FIELD(MOOR_DB_CQ_CONSUMER,
				       le64toh(db_load(cq->slot)));
}

static bool cq_full(struct cq *cq)
{
	uint32_t depth = 1u << cq->log_cqe;

	if (cq->producer - cq->consumer < depth)
		return false;
	cq_load_consumer(cq);
	/* A consumer index from beyond the producer frees nothing either. */
	return cq->producer - cq->consumer >= depth;
}

/* Is the event to wait for more CQEs (HWI CQ-26)? A timer then evaluates the CQ again. */
static bool cq_holds(struct nic *nic, struct cq *cq)
{
	uint64_t end = cq->first_at + cq->mod_period * 1000ull;

	if (cq->no_hold || cq->got_solicited ||
	    cq->unreported >= cq->mod_count || timer_now() >= end)
		return false;
	timer_start(&nic->timers, &cq->hold, end);
	return true;
}

static void cq_hold_over(struct nic *nic, struct timer *timer)
{
	cq_mark(nic, (struct cq *)timer);
}

static void cq_evaluate(struct nic *nic, struct cq *cq)
{
	uint64_t slot = le64toh(db_load(cq->slot));
	uint32_t arm = FIELD(MOOR_DB_CQ_ARM, slot);
	uint32_t seq = FIELD(MOOR_DB_CQ_ARM_SEQ, slot);
	bool wanted;

	cq->consumer = (uint32_t)FIELD(MOOR_DB_CQ_CONSUMER, slot);
	wanted = seq != cq->arm_done &&
		 (arm == MOOR_CQ_ARM_ANY ? cq->unreported :
		  arm == MOOR_CQ_ARM_SOLICITED && cq->got_solicited);
	cq->dirty = false;
	if (wanted && cq_holds(nic, cq))
		return;
	timer_stop(&nic->timers, &cq->hold);
	cq->unreported = 0;
	cq->got_solicited = false;
	cq->no_hold = false;
	if (!wanted)
		return;
	cq->arm_done = seq;
	cq_event(nic, cq, cq->eqn, MOOR_EVENT_COMPLETION);
}

void cq_flush(struct nic *nic)
{
	uint32_t i;

	if (!nic->cqs->num_dirty)
		return;
	/* CQEs are written before the slots are read (HWI CQ-12). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (i = 0; i < nic->cqs->num_dirty; i++)
		cq_evaluate(nic, nic->cqs->dirty[i]);
	nic->cqs->num_dirty = 0;
}

/* An event that the CQ holds back is written now. */
static void cq_let_go(struct nic *nic, struct cq *cq)
{
	cq->no_hold = true;
	cq_mark(nic, cq);
	cq_flush(nic);
}

static void cq_fail(struct nic *nic, struct cq *cq, const char *why)
{
	log_refused("HWI CQ-9", "CQ %u: %s", cq->cqn, why);
	cq->failed = true;
	cq_let_go(nic, cq);
	cq_event(nic, cq, MOOR_EQ_ASYNC, MOOR_EVENT_CQ_ERROR);
}

bool cq_write(struct nic *nic, struct cq *cq, struct moor_cqe *cqe,
	      bool solicited)
{
	uint64_t now = timer_now();
	struct moor_cqe *to;

	if (cq->failed)
		return false;
	/* The data that a CQE reports is there before the CQE (HWI ORD-1). */
	relaxed_release(nic);
	if (cq_full(cq)) {
		cq_fail(nic, cq, "overrun");
		return false;
	}
	to = ring_entry(nic, &cq->ring, &cq->window, cq->log_cqe, cq->producer,
			true);
	if (!to) {
		cq_fail(nic, cq, "ring unreachable");
		return false;
	}
	if (!cq->unreported++)
		cq->first_at = now;
	cq->got_solicited |= solicited || cqe->status;
	cqe->timestamp = htole64(now - nic->clock_base);
	cqe->phase = htole32(ring_phase(cq->producer, cq->log_cqe));
	lie_cqe(nic, cqe);
	memcpy(to, cqe, offsetof(struct moor_cqe, phase));
	__atomic_store_n(&to->phase, cqe->phase, __ATOMIC_RELEASE);
	cq->producer++;
	cq_mark(nic, cq);
	return true;
}

/* The ring of a new CQ, or the next one of an old CQ. */
static uint8_t decode_ring(struct nic *nic, struct xlat *xlat,
			   const struct moor_xlat *raw, uint8_t log_cqe)
{
	if (!xlat_decode(xlat, raw) || xlat->memory != MOOR_MEMORY_HOST ||
	    xlat->offset % sizeof(struct moor_cqe))
		return MOOR_CMD_BAD_PARAM;
	if (!xlat_reachable(nic, xlat, sizeof(struct moor_cqe) << log_cqe,
			    true))
		return MOOR_CMD_DMA_FAULT;
	return MOOR_CMD_OK;
}

uint8_t cq_create(struct nic *nic, const struct moor_cmd *raw,
		  struct moor_cpl *cpl)
{
	const struct moor_cmd_create_cq *cmd = (const void *)raw;
	uint32_t cqn = le32toh(cmd->cqn), eqn = le32toh(cmd->eqn);
	struct xlat ring;
	uint8_t status;
	struct cq *cq;

	if (cqn >= NIC_MAX_CQ || nic->cqs->cq[cqn])
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_create_cq, cqn);
	if (eqn < MOOR_EQ_COMPLETION || eqn >= NIC_MAX_EQ ||
	    !nic->events->eq[eqn].exists)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_create_cq, eqn);
	if (cmd->log_cqe > NIC_MAX_LOG_CQE)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_create_cq, log_cqe);
	status = decode_ring(nic, &ring, &cmd->ring, cmd->log_cqe);
	if (status)
		return CMD_FAIL(cpl, status, struct moor_cmd_create_cq, ring);
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return MOOR_CMD_NO_RESOURCE;
	status = db_claim(nic, le32toh(cmd->doorbell), SLOT_CQ, cqn,
			  &cq->slot_id, &cq->slot);
	if (status) {
		free(cq);
		return CMD_FAIL(cpl, status, struct moor_cmd_create_cq,
				doorbell);
	}

	db_zero(cq->slot);
	cq->hold.expired = cq_hold_over;
	cq->cqn = cqn;
	cq->eqn = eqn;
	cq->log_cqe = cmd->log_cqe;
	cq->ring = ring;
	nic->cqs->cq[cqn] = cq;
	nic->events->eq[eqn].num_cq++;
	return MOOR_CMD_OK;
}

static void cq_free(struct nic *nic, struct cq *cq)
{
	timer_stop(&nic->timers, &cq->hold);
	event_forget(nic, cq->eqn, MOOR_BIT(MOOR_EVENT_COMPLETION), cq->cqn);
	event_forget(nic, MOOR_EQ_ASYNC, MOOR_BIT(MOOR_EVENT_CQ_ERROR), cq->cqn);
	db_release(nic, cq->slot_id);
	nic->events->eq[cq->eqn].num_cq--;
	nic->cqs->cq[cq->cqn] = NULL;
	free(cq);
}

uint8_t cq_destroy(struct nic *nic, const struct moor_cmd *raw,
		   struct moor_cpl *cpl)
{
	const struct moor_cmd_destroy_cq *cmd = (const void *)raw;
	struct cq *cq = cq_find(nic, le32toh(cmd->cqn));

	if (!cq)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_destroy_cq, cqn);
	if (cq->num_qp)
		return CMD_FAIL(cpl, MOOR_CMD_BUSY, struct moor_cmd_destroy_cq,
				cqn);
	cq_flush(nic);
	cq_free(nic, cq);
	return MOOR_CMD_OK;
}

/* Can the CQEs be read that the consumer has not taken yet? */
static bool ring_readable(struct nic *nic, const struct cq *cq)
{
	struct xlat_window window = { 0 };
	uint32_t index;

	for (index = cq->consumer; index != cq->producer; index++)
		if (!ring_entry(nic, &cq->ring, &window, cq->log_cqe, index,
				false))
			return false;
	return true;
}

/*
 * Copies the CQEs that the consumer has not taken yet. The others get the phase
 * that says "not written in this pass": on a pass whose phase is 0 a fresh
 * page of zeros would read as full of CQEs.
 */
static bool copy_ring(struct nic *nic, const struct cq *cq,
		      const struct xlat *ring, uint8_t log_cqe)
{
	struct xlat_window old = { 0 }, new = { 0 };
	uint32_t index = cq->consumer, i;
	struct moor_cqe *from, *to, cqe;

	for (i = 0; i < 1u << log_cqe; i++, index++) {
		bool full = (int32_t)(cq->producer - index) > 0;
		uint32_t phase = ring_phase(index, log_cqe);

		to = ring_entry(nic, ring, &new, log_cqe, index, true);
		if (!to)
			return false;
		if (full) {
			from = ring_entry(nic, &cq->ring, &old, cq->log_cqe,
					  index, false);
			if (!from)
				return false;
			fetch(&cqe, from, sizeof(cqe));
			memcpy(to, &cqe, offsetof(struct moor_cqe, phase));
		} else {
			phase = !phase;
		}
		__atomic_store_n(&to->phase, htole32(phase), __ATOMIC_RELEASE);
	}
	return true;
}

uint8_t cq_resize(struct nic *nic, const struct moor_cmd *raw,
		  struct moor_cpl *cpl)
{
	const struct moor_cmd_resize_cq *cmd = (const void *)raw;
	struct cq *cq = cq_find(nic, le32toh(cmd->cqn));
	struct xlat ring;
	uint8_t status;

	if (!cq)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_resize_cq, cqn);
	if (cq->failed)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_STATE,
				struct moor_cmd_resize_cq, cqn);
	cq_load_consumer(cq);
	if (cmd->log_cqe > NIC_MAX_LOG_CQE ||
	    cq->producer - cq->consumer > 1u << cmd->log_cqe ||
	    cq->producer - cq->consumer > 1u << cq->log_cqe)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_resize_cq, log_cqe);
	status = decode_ring(nic, &ring, &cmd->ring, cmd->log_cqe);
	/* All is reached before anything is written to the new ring (HWI CQ-16). */
	if (!status && (!ring_readable(nic, cq) ||
			!copy_ring(nic, cq, &ring, cmd->log_cqe)))
		status = MOOR_CMD_DMA_FAULT;
	if (status)
		return CMD_FAIL(cpl, status, struct moor_cmd_resize_cq, ring);
	cq->ring = ring;
	cq->log_cqe = cmd->log_cqe;
	cq->window.base = NULL;
	return MOOR_CMD_OK;
}

uint8_t cq_modify(struct nic *nic, const struct moor_cmd *raw,
		  struct moor_cpl *cpl)
{
	const struct moor_cmd_modify_cq *cmd = (const void *)raw;
	struct cq *cq = cq_find(nic, le32toh(cmd->cqn));

	if (!cq)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_modify_cq, cqn);
	cq_let_go(nic, cq);
	cq->mod_count = le16toh(cmd->count);
	cq->mod_period = le16toh(cmd->period);
	return MOOR_CMD_OK;
}

void cq_reset(struct nic *nic)
{
	uint32_t cqn;

	nic->cqs->num_dirty = 0;
	for (cqn = 0; cqn < NIC_MAX_CQ; cqn++) {
		if (nic->cqs->cq[cqn])
			cq_free(nic, nic->cqs->cq[cqn]);
	}
}
