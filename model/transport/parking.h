/* SPDX-License-Identifier: GPL-2.0 */
/* A half of a queue pair waits for a page (HWI 6.10). */
#ifndef MODEL_PARKING_H
#define MODEL_PARKING_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/transfer.h"
#include "transport/packet.h"

struct nic;
struct qp;

enum half_state {
	HALF_GOES,
	HALF_PARKED,		/* its page request is not answered */
	HALF_RESOLVED,		/* it was answered; what waited has not moved since */
	HALF_FAILED,		/* the same, but without a page; no other is sent for it */
};

/* What a requester or responder has to know of its waiting. */
struct half {
	uint8_t state;		/* enum half_state */
	uint32_t psn;		/* of the packet that waits or waited, if not HALF_GOES */
	uint32_t token;		/* of its page request */
	uint64_t backlogged;	/* as for event_post() */
};

static inline bool half_is_parked(const struct half *half)
{
	return half->state == HALF_PARKED;
}

/* Is the packet that waited one of the @num_psn from @psn on? */
static inline bool half_waited_in(const struct half *half, uint32_t psn,
				  uint32_t num_psn)
{
	return ((half->psn - psn) & PSN_MASK) < num_psn;
}

/*
 * Bytes of a message that are moved at once from @psn on: after a wait only @mtu (HWI
 * ODP-17). But if the page cannot be had, those before it are not to be moved bit by bit.
 */
static inline uint32_t half_unit(const struct half *half, uint32_t psn,
				 uint32_t unit, uint32_t mtu)
{
	return half->state == HALF_RESOLVED &&
	       half_waited_in(half, psn, (unit + mtu - 1) / mtu) ? mtu : unit;
}

/*
 * These packets have moved: the page that one of them waited for has served its purpose.
 * Whatever else moves, the answer holds for what waited (HWI ODP-13).
 */
static inline void half_moved(struct half *half, uint32_t psn, uint32_t num_psn)
{
	if (half->state > HALF_PARKED && half_waited_in(half, psn, num_psn))
		half->state = HALF_GOES;
}

/**
 * requester_waits() - an access by a QP's requester did not succeed
 * @nic: the NIC
 * @qp:  the QP
 * @psn: of the packet that needs the access
 * @s:   the stream that the access was to
 * @syndrome: of the access; result, if the requester does not wait: of its failure
 *
 * Return: true when the requester is parked till it gets a page.
 */
bool requester_waits(struct nic *nic, struct qp *qp, uint32_t psn,
		     const struct stream *s, uint8_t *syndrome);
/* The same for the responder; @end: as for odp_describe(). */
bool responder_waits(struct nic *nic, struct qp *qp, uint32_t psn,
		     const struct stream *s, uint32_t end, uint8_t *syndrome);

/* The responder of @qp is parked: the peer's requester waits too, without a time-out. */
void parking_hold_peer(struct nic *nic, struct qp *qp);
/* @qp is to get another peer: neither holds the other any more. */
void parking_leave_peer(struct nic *nic, struct qp *qp);

/* The QP goes to ERR or RESET: neither of its halves waits any more. */
void parking_end(struct nic *nic, struct qp *qp);

uint8_t parking_answer(struct nic *nic, const struct moor_cmd *cmd,
		       struct moor_cpl *cpl);

#endif /* MODEL_PARKING_H */
