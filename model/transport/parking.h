/* SPDX-License-Identifier: GPL-2.0 */
/* A half of a queue pair waits for a page (HWI 6.10). */
#ifndef MODEL_PARKING_H
#define MODEL_PARKING_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/transfer.h"

struct nic;
struct qp;

enum half_state {
	HALF_GOES,
	HALF_PARKED,		/* its page request is not answered */
	HALF_RESOLVED,		/* it was, and nothing has moved since */
	HALF_FAILED,		/* the same, and no other is sent */
};

/* What a requester or responder has to know of its waiting. */
struct half {
	uint8_t state;		/* enum half_state */
	uint32_t token;		/* of its page request */
	uint64_t backlogged;	/* as for event_post() */
};

static inline bool half_is_parked(const struct half *half)
{
	return half->state == HALF_PARKED;
}

/*
 * Of a message, what is moved at once: little, after a wait (HWI ODP-17); but what
 * lies before a page that cannot be had is not to be moved bit by bit.
 */
static inline uint32_t half_unit(const struct half *half, uint32_t unit,
				 uint32_t mtu)
{
	return half->state == HALF_RESOLVED ? mtu : unit;
}

/* What it waited for has served. */
static inline void half_moved(struct half *half)
{
	if (half->state > HALF_PARKED)
		half->state = HALF_GOES;
}

/**
 * requester_waits() - an access by a QP's requester did not succeed
 * @nic: the NIC
 * @qp:  the QP
 * @s:   whose access
 * @syndrome: of it; result, if the requester does not wait: of its failure
 *
 * Return: true when the requester is parked till it gets a page.
 */
bool requester_waits(struct nic *nic, struct qp *qp, const struct stream *s,
		     uint8_t *syndrome);
/* The same for the responder; @end: as for odp_describe(). */
bool responder_waits(struct nic *nic, struct qp *qp, const struct stream *s,
		     uint32_t end, uint8_t *syndrome);

/* Who asks a responder that is parked waits too, and does not count the time. */
void parking_hold_peer(struct nic *nic, struct qp *qp);
/* Until the responder goes on, or there is another one to ask. */
void parking_let_peer_go(struct nic *nic, struct qp *qp);

/* To ERR or RESET: nothing of it waits any more. */
void parking_end(struct nic *nic, struct qp *qp);

uint8_t parking_answer(struct nic *nic, const struct moor_cmd *cmd,
		       struct moor_cpl *cpl);

#endif /* MODEL_PARKING_H */
