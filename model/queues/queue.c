// SPDX-License-Identifier: GPL-2.0
/* Work queues in guest memory (HWI 10). */
#include <endian.h>

#include "base/layout.h"
#include "queues/queue.h"
#include "queues/slot.h"

static uint8_t fail(struct moor_cpl *cpl, uint8_t status, uint32_t where)
{
	cpl->detail = htole32(where);
	return status;
}

uint8_t queue_init(struct nic *nic, struct queue *queue,
		   const struct queue_params *p, struct moor_cpl *cpl)
{
	struct xlat xlat;

	if (p->log_depth > NIC_MAX_LOG_WQE)
		return fail(cpl, MOOR_CMD_BAD_PARAM, p->at.depth);
	if (p->log_stride < p->min_log_stride ||
	    p->log_stride > MOOR_MAX_LOG_STRIDE)
		return fail(cpl, MOOR_CMD_BAD_PARAM, p->at.stride);
	if (!xlat_decode(&xlat, p->xlat) || xlat.memory != MOOR_MEMORY_HOST ||
	    xlat.offset % (1u << p->log_stride))
		return fail(cpl, MOOR_CMD_BAD_PARAM, p->at.xlat);
	if (!xlat_reachable(nic, &xlat, 1ULL << (p->log_depth + p->log_stride),
			    false))
		return fail(cpl, MOOR_CMD_DMA_FAULT, p->at.xlat);
	queue->xlat = xlat;
	queue->window.base = NULL;
	queue->log_depth = p->log_depth;
	queue->log_stride = p->log_stride;
	queue->exists = true;
	return MOOR_CMD_OK;
}

void queue_load_producer(struct queue *queue)
{
	queue->producer = (uint32_t)FIELD(MOOR_DB_QUEUE_PRODUCER,
					  le64toh(db_load(queue->slot)));
}

enum queue_look queue_look(struct queue *queue)
{
	if (!queue->exists || queue->broken)
		return QUEUE_EMPTY;
	queue_load_producer(queue);
	if (queue->producer == queue->consumer)
		return QUEUE_EMPTY;
	if (queue->producer - queue->consumer > 1u << queue->log_depth) {
		queue->broken = true;
		return QUEUE_BROKEN;
	}
	return QUEUE_WORK;
}

const uint8_t *queue_wqe(struct nic *nic, struct queue *queue)
{
	uint64_t slot = queue->consumer & ((1u << queue->log_depth) - 1);
	const uint8_t *wqe;

	wqe = xlat_window_ptr(nic, &queue->xlat, &queue->window,
			      slot << queue->log_stride, false);
	if (!wqe)
		queue->broken = true;
	return wqe;
}
