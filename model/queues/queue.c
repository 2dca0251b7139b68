// SPDX-License-Identifier: GPL-2.0
/* Work queues in guest memory (HWI 10). */
#include <endian.h>

#include "base/layout.h"
#include "queues/queue.h"
#include "queues/slot.h"

enum queue_look queue_look(struct queue *queue)
{
	if (!queue->exists || queue->broken)
		return QUEUE_EMPTY;
	queue->producer = (uint32_t)FIELD(MOOR_DB_QUEUE_PRODUCER,
					  le64toh(db_load(queue->slot)));
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
