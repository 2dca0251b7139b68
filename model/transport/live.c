// SPDX-License-Identifier: GPL-2.0
/*
 * Memory tells nobody that it was written to: the NIC has to look. With 16,000 QPs
 * a look at all slots takes longer than a message. So a pass looks at the slots that
 * changed last; at those behind the last one, since a client with many QPs often uses
 * them in the order in which they were made; and at a stretch of all slots, so that
 * each of the others waits for a bounded number of passes.
 *
 * A client whose QP has just been served may post again within a message's time, and
 * each pass delays it. The first pass after work has its long stretch nevertheless,
 * since the client has not posted again yet; the passes that follow have a short one.
 */
#include <endian.h>

#include "transport/live.h"
#include "transport/qp.h"

/* Up to so many slots, all of them are looked at in each pass. */
#define FEW	192u
/* Beyond that, slots in a pass: behind the last that changed, and a stretch of all. */
#define AHEAD	16u
#define SWEEP	64u
/* The stretch in passes that follow on work, until so many passes have seen none. */
#define BRIEF_SWEEP	16u
#define BRIEF_PASSES	32u

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

/* Return: false when nothing is new there. */
static bool look_at(struct nic *nic, uint32_t place)
{
	struct live_sqs *live = nic->live;

	if (place >= live->count || !live_changed(&live->sq[place]))
		return false;
	qp_make_ready(nic, live->sq[place].qp);
	live->last = place;
	live->idle = 0;
	return true;
}

static void remember(struct live_sqs *live, uint32_t place)
{
	live->recent[live->num_recent++ % LIVE_RECENT] = place;
}

static void scan_recent(struct nic *nic)
{
	uint32_t i;

	for (i = 0; i < LIVE_RECENT; i++)
		look_at(nic, nic->live->recent[i]);
}

/* Return: the place behind the stretch; 0 at the end of all. */
static uint32_t scan_stretch(struct nic *nic, uint32_t first, uint32_t num)
{
	struct live_sqs *live = nic->live;
	uint32_t end = first + num < live->count ? first + num : live->count;

	for (; first < end; first++)
		if (look_at(nic, first))
			remember(live, first);
	return end < live->count ? end : 0;
}

static void scan_likely(struct nic *nic, bool brief)
{
	struct live_sqs *live = nic->live;

	look_at(nic, live->last);
	if (brief && nic->qps->ready.first)
		return;
	/*
	 * The recent places first: a slot found there is not remembered anew. A few slots
	 * in turn, if the look ahead found them, would drive each other out of @recent.
	 */
	scan_recent(nic);
	if (brief && nic->qps->ready.first)
		return;
	scan_stretch(nic, live->last + 1, AHEAD);
}

void live_scan(struct nic *nic)
{
	struct live_sqs *live = nic->live;
	/* What is ready before the scan has not been found by it, and may last long. */
	bool brief = live->idle && live->idle <= BRIEF_PASSES &&
		     !nic->qps->ready.first;

	if (live->count <= FEW) {
		live_scan_all(nic);
		return;
	}
	if (live->idle <= BRIEF_PASSES)
		live->idle++;
	scan_likely(nic, brief);
	if (!brief)
		live->swept = scan_stretch(nic, live->swept, SWEEP);
	else if (!nic->qps->ready.first)
		live->swept = scan_stretch(nic, live->swept, BRIEF_SWEEP);
}

void live_scan_all(struct nic *nic)
{
	scan_stretch(nic, 0, nic->live->count);
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
