/* SPDX-License-Identifier: GPL-2.0 */
/* The half of a queue pair that asks: what all transports have in common. */
#ifndef MODEL_REQUESTER_H
#define MODEL_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/packet.h"
#include "transport/parking.h"
#include "transport/wqe.h"

enum request_state {
	REQUEST_NEW,		/* waits for others, and has not begun; the last of all */
	REQUEST_OPEN,		/* to be sent, or to be answered */
	REQUEST_DONE,
	REQUEST_FAILED,		/* with @status */
};

/* A send WQE that was fetched: read once, sent as often as it takes. */
struct request {
	struct request *next;	/* in the pool */
	uint8_t state;		/* enum request_state */
	uint8_t status;		/* enum moor_wc_status */
	uint8_t syndrome;
	uint8_t form;		/* enum wqe_form */
	uint8_t path_mtu;	/* when the request began, for all of it (HWI QP-10) */
	uint32_t psn;		/* of its first packet */
	uint32_t num_psn;	/* PSNs of its packets; of a READ, of the answer's */
	uint32_t answered;	/* bytes of a READ that have arrived */
	struct stream local;
	struct datagram datagram;	/* of a QP of type UD */
	struct send_wqe wqe;
};

/* WQEs under way at once; a power of two. */
#define REQUESTER_WINDOW	128u

/*
 * The asking half of a QP. Requests are in the window in queue order: those
 * from @head to @next were sent (the last of them perhaps in part), the others
 * are to be sent again, or were just fetched. Indices run freely.
 */
struct requester {
	struct request *window[REQUESTER_WINDOW];
	struct request *own;	/* not of the pool: no QP starves another */
	/* The request being sent, if memory is granted: its answer needs no new grant. */
	const struct request *granted;
	bool own_taken;
	uint32_t head;
	uint32_t next;
	uint32_t tail;
	uint32_t offset;	/* bytes of @next that were sent */
	uint32_t open;		/* first request not wholly acknowledged */
	uint32_t psn;		/* of the next request that begins */
	bool renumbered;	/* @psn does not follow those of the window */
	uint32_t sent_psn;	/* beyond the last packet sent */
	uint32_t acked_psn;	/* first not acknowledged */
	uint32_t num_reads;	/* READs and atomics not answered */
	uint8_t retries;	/* left */
	uint8_t rnr_retries;	/* left */
	bool stopped;		/* a request has failed: nothing new */
	bool waiting;		/* for min_rnr_timer */
	bool held;		/* by a responder that is parked */
	bool went_back;		/* for a missing answer, in vain so far */
	bool progress;		/* or another try, since the timer was started */
	struct half half;
	struct half peer_half;	/* of the responder, once that has let this one go */
};

/* Sets the PSN of the next message, which begins when all before it have ended. */
static inline void requester_set_psn(struct requester *req, uint32_t psn)
{
	req->psn = psn;
	req->renumbered = true;
}

/* Does the requester send nothing, since it or the responder waits for a page? */
static inline bool requester_pages(const struct requester *req)
{
	return req->held || half_is_parked(&req->half);
}

/* Does what waited for a page, here or at the responder, have to move before the rest? */
static inline bool requester_waited(const struct requester *req)
{
	return req->half.state || req->peer_half.state;
}

/* These packets have moved: as half_moved(). */
static inline void requester_moved(struct requester *req, uint32_t psn,
				   uint32_t num_psn)
{
	half_moved(&req->half, psn, num_psn);
	half_moved(&req->peer_half, psn, num_psn);
}

/* The requester goes on after a request that failed and has ended. */
static inline void requester_go_on(struct requester *req)
{
	req->stopped = false;
	req->half.state = HALF_GOES;
}

static inline bool requester_idle(const struct requester *req)
{
	return req->head == req->tail;
}

static inline struct request *requester_at(const struct requester *req,
					   uint32_t index)
{
	return req->window[index % REQUESTER_WINDOW];
}

/* Is a request under way, so that SQD is not drained (HWI RC-16)? */
static inline bool requester_is_busy(const struct requester *req)
{
	return !requester_idle(req) &&
	       requester_at(req, req->head)->state != REQUEST_NEW;
}

static inline bool request_is_one_of(const struct request *r, uint32_t opcodes)
{
	return r->wqe.opcode < 32 && (opcodes >> r->wqe.opcode & 1);
}

/* Requests beyond each QP's own. */
struct request_pool {
	struct request *memory;	/* [NIC_NUM_REQUESTS] */
	uint32_t made;		/* the others were never used */
	struct request *unused;
};

/* request.c */
bool requester_init(struct nic *nic);
void requester_exit(struct nic *nic);
/* A QP's own request first, then those of the pool, which all QPs share. Or NULL. */
struct request *request_get(struct nic *nic, struct requester *req);
void request_put(struct nic *nic, struct requester *req, struct request *r);
/* Ends the requests at the head of the window that are done, in order. */
void requester_retire(struct nic *nic, struct qp *qp);
/* @request ends with this status when all before it have ended. */
void requester_fail(struct qp *qp, struct request *request, uint8_t status,
		    uint8_t syndrome);
/* Flushes the oldest WQE. Return: false when there is none. */
bool requester_flush_one(struct nic *nic, struct qp *qp);
/* Forgets all requests. */
void requester_reset(struct nic *nic, struct qp *qp);

/* requester.c: goes on with what the send queue asks for. */
enum requester_step {
	REQUESTER_SENT,		/* a packet went out, or a WQE has ended */
	REQUESTER_RESTS,	/* nothing to do, or something is waited for */
};

enum requester_step requester_step(struct nic *nic, struct qp *qp,
				   uint32_t *budget);

#endif /* MODEL_REQUESTER_H */
