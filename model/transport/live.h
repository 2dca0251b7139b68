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

/* So many places that changed last are looked at in each pass. */
#define LIVE_RECENT	32u

struct live_sqs {
	uint32_t count;
	uint32_t swept;		/* where the next pass goes on */
	uint32_t last;		/* the last place that was seen to change */
	uint32_t idle;		/* passes since, counted as far as is needed */
	uint32_t num_recent;	/* ever; the last LIVE_RECENT are kept */
	uint32_t recent[LIVE_RECENT];	/* places; other QPs may be there by now */
	struct live_sq sq[NIC_NUM_QP];
};

void live_add(struct nic *nic, struct qp *qp);
void live_remove(struct nic *nic, struct qp *qp);
/* Makes the QPs ready whose slots have changed; if there are many, a pass skips some. */
void live_scan(struct nic *nic);
/* The same, with a look at all slots. */
void live_scan_all(struct nic *nic);
/* The same for one QP. */
void live_look(struct nic *nic, struct qp *qp);
/* The QP's slot has value @producer, which is not to be taken for a change. */
void live_seen(struct nic *nic, const struct qp *qp, uint32_t producer);

#endif /* MODEL_LIVE_H */
