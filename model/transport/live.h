/* SPDX-License-Identifier: GPL-2.0 */
/* The send queues: their doorbells are scanned for work. */
#ifndef MODEL_LIVE_H
#define MODEL_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/state.h"

struct qp;

struct live_sq {
	uint64_t *slot;
	uint32_t seen;
	struct qp *qp;
};

/* As many are looked at in each pass, because they changed last. */
#define LIVE_RECENT	32u

struct live_sqs {
	uint32_t count;
	uint32_t swept;		/* where the next pass goes on */
	uint32_t last;		/* that was seen to change */
	uint32_t idle;		/* passes since, as far as they are counted */
	uint32_t num_recent;	/* ever; the last LIVE_RECENT are kept */
	uint32_t recent[LIVE_RECENT];	/* places, which may be others' by now */
	struct live_sq sq[NIC_NUM_QP];
};

void live_add(struct nic *nic, struct qp *qp);
void live_remove(struct nic *nic, struct qp *qp);
/* Makes the QPs ready whose slots have changed; of many not in each pass all. */
void live_scan(struct nic *nic);
/* All of them. */
void live_scan_all(struct nic *nic);
/* The same for one. */
void live_look(struct nic *nic, struct qp *qp);
/* What is in its slot is no news. */
void live_seen(struct nic *nic, const struct qp *qp, uint32_t producer);

#endif /* MODEL_LIVE_H */
