/* SPDX-License-Identifier: GPL-2.0 */
/* Work queues in guest memory (HWI 10). */
#ifndef MODEL_QUEUE_H
#define MODEL_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/translate.h"

struct nic;

struct queue {
	bool exists;
	bool broken;		/* unreachable, or a senseless producer index */
	uint8_t log_depth;
	uint8_t log_stride;
	uint32_t producer;	/* free-running, as last seen in the slot */
	uint32_t consumer;
	uint32_t slot_id;
	uint64_t *slot;
	struct xlat xlat;
	struct xlat_window window;
};

enum queue_look {
	QUEUE_EMPTY,
	QUEUE_WORK,
	QUEUE_BROKEN,		/* producer index beyond the depth */
};

/* A queue as a command gives it, and where the command has each part. */
struct queue_params {
	uint8_t log_depth;
	uint8_t log_stride;
	uint8_t min_log_stride;
	const struct moor_xlat *xlat;
	struct {
		uint32_t depth, stride, xlat;
	} at;
};

/* Return: enum moor_cmd_status; @queue changes only with MOOR_CMD_OK. */
uint8_t queue_init(struct nic *nic, struct queue *queue,
		   const struct queue_params *p, struct moor_cpl *cpl);
/* Loads the producer index that is in the slot now, unchecked. */
void queue_load_producer(struct queue *queue);
enum queue_look queue_look(struct queue *queue);
/* The WQE at the consumer index, in guest memory; NULL: unreachable. */
const uint8_t *queue_wqe(struct nic *nic, struct queue *queue);

#endif /* MODEL_QUEUE_H */
