// SPDX-License-Identifier: GPL-2.0
/* Shared receive queues: create to destroy, the limit, another ring (HWI 10.3). */
#include <endian.h>
#include <stdlib.h>

#include "base/layout.h"
#include "base/log.h"
#include "queues/cq.h"
#include "queues/event.h"
#include "queues/slot.h"
#include "queues/srq.h"

#define SRQ_EVENTS	(MOOR_BIT(MOOR_EVENT_SRQ_LIMIT) | \
			 MOOR_BIT(MOOR_EVENT_SRQ_ERROR))

struct srq *srq_find(struct nic *nic, uint32_t srqn)
{
	struct srq *srq = nic->srqs->srq[srqn % NIC_NUM_SRQ];

	return srq && srq->srqn == srqn ? srq : NULL;
}

static void srq_event(struct nic *nic, struct srq *srq, uint8_t type)
{
	event_post(nic, MOOR_EQ_ASYNC, type, srq->srqn, &srq->backlogged);
}

void srq_look_at_limit(struct nic *nic, struct srq *srq)
{
	const struct queue *queue = &srq->queue;

	if (queue->producer - queue->consumer >= srq->limit)
		return;
	srq->limit = 0;
	srq_event(nic, srq, MOOR_EVENT_SRQ_LIMIT);
}

void srq_fail(struct nic *nic, struct srq *srq)
{
	if (srq->told)
		return;
	srq->told = true;
	log_refused("HWI SRQ-10", "SRQ 0x%06x: unreachable or producer index beyond its depth",
		    srq->srqn);
	srq_event(nic, srq, MOOR_EVENT_SRQ_ERROR);
}

/* The flag of CREATE_SRQ, if the NIC knows it. */
static uint8_t xrc_flag(const struct nic *nic)
{
	return nic_has(nic, MOOR_FEATURE_XRC) ? MOOR_SRQ_FLAG_XRC : 0;
}

static uint8_t check_numbers(struct nic *nic,
			     const struct moor_cmd_create_srq *cmd,
			     struct moor_cpl *cpl)
{
	uint32_t srqn = le32toh(cmd->srqn);

	if (srqn & ~NIC_NUMBER_MASK)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_create_srq, srqn);
	if (nic->srqs->srq[srqn % NIC_NUM_SRQ])
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_create_srq, srqn);
	if (le32toh(cmd->pd) & ~NIC_NUMBER_MASK)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_create_srq, pd);
	if (cmd->flags & ~(MOOR_SRQ_FLAG_KERNEL | xrc_flag(nic)))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_create_srq, flags);
	return MOOR_CMD_OK;
}

/* Fields that are reserved without flag XRC. */
static uint8_t check_reserved(const struct nic *nic,
			      const struct moor_cmd_create_srq *cmd,
			      struct moor_cpl *cpl)
{
	if (cmd->flags & xrc_flag(nic))
		return MOOR_CMD_OK;
	if (cmd->xrcd)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_RESERVED,
				struct moor_cmd_create_srq, xrcd);
	if (cmd->cqn)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_RESERVED,
				struct moor_cmd_create_srq, cqn);
	if (cmd->cookie)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_RESERVED,
				struct moor_cmd_create_srq, cookie);
	return MOOR_CMD_OK;
}

static uint8_t check_xrc(struct nic *nic, const struct moor_cmd_create_srq *cmd,
			 struct moor_cpl *cpl)
{
	if (!(cmd->flags & MOOR_SRQ_FLAG_XRC))
		return MOOR_CMD_OK;
	if (le32toh(cmd->xrcd) & ~NIC_NUMBER_MASK)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_create_srq, xrcd);
	if (!cq_find(nic, le32toh(cmd->cqn)))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_create_srq, cqn);
	return MOOR_CMD_OK;
}

static void set_xrc(struct nic *nic, struct srq *srq,
		    const struct moor_cmd_create_srq *cmd)
{
	if (!(cmd->flags & MOOR_SRQ_FLAG_XRC))
		return;
	srq->xrc = true;
	srq->xrcd = le32toh(cmd->xrcd);
	srq->cookie = le32toh(cmd->cookie);
	srq->cq = cq_find(nic, le32toh(cmd->cqn));
	srq->cq->num_qp++;
}

/* The struct queue_params of either command that brings a ring. */
#define RING(type, cmd) {						\
	.log_depth = (cmd)->log_depth, .log_stride = (cmd)->log_stride,	\
	.min_log_stride = MOOR_MIN_LOG_RQ_STRIDE, .xlat = &(cmd)->ring,	\
	.at = { offsetof(struct type, log_depth),			\
		offsetof(struct type, log_stride),			\
		offsetof(struct type, ring) } }

uint8_t srq_create(struct nic *nic, const struct moor_cmd *raw,
		   struct moor_cpl *cpl)
{
	const struct moor_cmd_create_srq *cmd = (const void *)raw;
	const struct queue_params ring = RING(moor_cmd_create_srq, cmd);
	uint32_t srqn = le32toh(cmd->srqn);
	struct queue queue = { 0 };
	struct srq *srq;
	uint8_t status;

	/* Reserved fields count before all others (HWI CMD-28). */
	status = check_reserved(nic, cmd, cpl);
	if (!status)
		status = check_numbers(nic, cmd, cpl);
	if (!status)
		status = check_xrc(nic, cmd, cpl);
	if (!status)
		status = queue_init(nic, &queue, &ring, cpl);
	if (status)
		return status;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return MOOR_CMD_NO_RESOURCE;
	status = db_claim(nic, le32toh(cmd->doorbell), SLOT_SRQ,
			  srqn % NIC_NUM_SRQ, &queue.slot_id, &queue.slot);
	if (status) {
		free(srq);
		return CMD_FAIL(cpl, status, struct moor_cmd_create_srq,
				doorbell);
	}
	db_zero(queue.slot);
	srq->srqn = srqn;
	srq->actor.pd = le32toh(cmd->pd);
	srq->actor.kernel = cmd->flags & MOOR_SRQ_FLAG_KERNEL;
	srq->queue = queue;
	set_xrc(nic, srq, cmd);
	nic->srqs->srq[srqn % NIC_NUM_SRQ] = srq;
	return MOOR_CMD_OK;
}

/* Goes on with another ring, which has the posted WQEs already (HWI SRQ-14). */
static uint8_t change_ring(struct nic *nic, struct srq *srq,
			   const struct moor_cmd_modify_srq *cmd,
			   struct moor_cpl *cpl)
{
	const struct queue_params ring = RING(moor_cmd_modify_srq, cmd);
	struct queue *queue = &srq->queue;
	uint32_t posted = queue->producer - queue->consumer;

	if (posted > 1u << queue->log_depth ||
	    (cmd->log_depth < 32 && posted > 1u << cmd->log_depth))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_modify_srq, log_depth);
	return queue_init(nic, queue, &ring, cpl);
}

/* Slots of the SRQ after the command; a depth that is no good is refused later. */
static uint64_t slots_of(const struct srq *srq,
			 const struct moor_cmd_modify_srq *cmd, uint32_t mask)
{
	return 1ULL << ((mask & MOOR_SRQ_ATTR_RING ? cmd->log_depth :
						     srq->queue.log_depth) & 63);
}

uint8_t srq_modify(struct nic *nic, const struct moor_cmd *raw,
		   struct moor_cpl *cpl)
{
	const struct moor_cmd_modify_srq *cmd = (const void *)raw;
	struct srq *srq = srq_find(nic, le32toh(cmd->srqn));
	uint32_t mask = le32toh(cmd->mask);
	uint8_t status;

	if (!srq)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_modify_srq, srqn);
	if (srq->queue.broken)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_STATE,
				struct moor_cmd_modify_srq, srqn);
	if (mask & ~(uint32_t)MOOR_SRQ_ATTR_ALL)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_modify_srq, mask);
	if ((mask & MOOR_SRQ_ATTR_LIMIT) &&
	    le32toh(cmd->limit) > slots_of(srq, cmd, mask))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_modify_srq, limit);
	queue_load_producer(&srq->queue);
	if (mask & MOOR_SRQ_ATTR_RING) {
		status = change_ring(nic, srq, cmd, cpl);
		if (status)
			return status;
	}
	if (mask & MOOR_SRQ_ATTR_LIMIT) {
		srq->limit = le32toh(cmd->limit);
		srq_look_at_limit(nic, srq);
	}
	return MOOR_CMD_OK;
}

uint8_t srq_query(struct nic *nic, const struct moor_cmd *raw,
		  struct moor_cpl *cpl)
{
	const struct moor_cmd_query_srq *cmd = (const void *)raw;
	struct moor_cpl_query_srq *out = (void *)cpl->out;
	struct srq *srq = srq_find(nic, le32toh(cmd->srqn));

	if (!srq)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_query_srq, srqn);
	out->failed = srq->queue.broken;
	out->limit = htole32(srq->limit);
	out->consumer = htole32(srq->queue.consumer);
	return MOOR_CMD_OK;
}

static void srq_free(struct nic *nic, struct srq *srq)
{
	event_forget(nic, MOOR_EQ_ASYNC, SRQ_EVENTS, srq->srqn);
	if (srq->xrc)
		srq->cq->num_qp--;
	db_release(nic, srq->queue.slot_id);
	nic->srqs->srq[srq->srqn % NIC_NUM_SRQ] = NULL;
	free(srq);
}

uint8_t srq_destroy(struct nic *nic, const struct moor_cmd *raw,
		    struct moor_cpl *cpl)
{
	const struct moor_cmd_destroy_srq *cmd = (const void *)raw;
	struct srq *srq = srq_find(nic, le32toh(cmd->srqn));

	if (!srq)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_destroy_srq, srqn);
	if (srq->num_qp)
		return CMD_FAIL(cpl, MOOR_CMD_BUSY, struct moor_cmd_destroy_srq,
				srqn);
	srq_free(nic, srq);
	return MOOR_CMD_OK;
}

void srq_reset_all(struct nic *nic)
{
	uint32_t i;

	for (i = 0; i < NIC_NUM_SRQ; i++) {
		if (nic->srqs->srq[i])
			srq_free(nic, nic->srqs->srq[i]);
	}
}
