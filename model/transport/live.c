// SPDX-License-Identifier: GPL-2.0
#include <endian.h>

#include "transport/live.h"
#include "transport/qp.h"

void live_add(struct nic *nic, struct qp *qp)
{
	struct live_sq *live = &nic->live->sq[nic->live->count];

	live->slot = qp->sq.slot;
	live->seen = 0;
	live->qp = qp;
	qp->live_index = nic->live->count++;
}

void live_remove(struct nic *nic, struct qp *qp)
{
	struct live_sq *hole = &nic->live->sq[qp->live_index];

	*hole = nic->live->sq[--nic->live->count];
	hole->qp->live_index = hole - nic->live->sq;
}

static bool live_changed(struct live_sq *live)
{
	uint32_t value = (uint32_t)le64toh(__atomic_load_n(live->slot,
							   __ATOMIC_RELAXED));

	if (value == live->seen)
		return false;
	live->seen = value;
	return true;
}

void live_scan(struct nic *nic)
{
	uint32_t i;

	for (i = 0; i < nic->live->count; i++) {
		if (live_changed(&nic->live->sq[i]))
			qp_make_ready(nic, nic->live->sq[i].qp);
	}
}

void live_look(struct nic *nic, struct qp *qp)
{
	if (live_changed(&nic->live->sq[qp->live_index]))
		qp_make_ready(nic, qp);
}

void live_seen(struct nic *nic, const struct qp *qp, uint32_t producer)
{
	nic->live->sq[qp->live_index].seen = producer;
}
