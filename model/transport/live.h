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

struct live_sqs {
	uint32_t count;
	struct live_sq sq[NIC_NUM_QP];
};

void live_add(struct nic *nic, struct qp *qp);
void live_remove(struct nic *nic, struct qp *qp);
/* Makes the QPs ready whose slots have changed. */
void live_scan(struct nic *nic);
/* The same for one. */
void live_look(struct nic *nic, struct qp *qp);
/* What is in its slot is no news. */
void live_seen(struct nic *nic, const struct qp *qp, uint32_t producer);

#endif /* MODEL_LIVE_H */
