// SPDX-License-Identifier: GPL-2.0
/* Consistency checks of the QPs' state. */
#include <stdlib.h>

#include "packets.h"
#include "queues/cq.h"
#include "transport/port.h"
#include "transport/transport.h"

static void check_requester(const struct qp *qp)
{
	const struct requester *req = &qp->req;
	uint32_t i, used = req->tail - req->head;

	if (used > REQUESTER_WINDOW || req->next - req->head > used ||
	    req->open - req->head > used || req->psn & ~PSN_MASK ||
	    req->sent_psn & ~PSN_MASK || req->acked_psn & ~PSN_MASK ||
	    psn_diff(req->sent_psn, req->acked_psn) < 0 ||
	    (!req->renumbered && psn_diff(req->psn, req->sent_psn) < 0) ||
	    psn_diff(req->sent_psn, req->acked_psn) > (int32_t)PORT_MAX_WINDOW)
		abort();
	/* max_rd_atomic may have been larger before: only the NIC's limit holds. */
	if (qp->transport->acknowledged && req->num_reads > NIC_MAX_RD_ATOMIC)
		abort();
	/* An offset beyond the message's end would read other memory. */
	if (req->next != req->tail &&
	    req->offset > requester_at(req, req->next)->wqe.length)
		abort();
	for (i = req->head; i != req->tail; i++) {
		const struct request *r = requester_at(req, i);

		if (r->state > REQUEST_FAILED || r->answered > r->wqe.length ||
		    (r != req->own && (r < w->nic->requests->memory ||
		     r >= w->nic->requests->memory + w->nic->requests->made)))
			abort();
	}
}

static void check_responder(const struct qp *qp)
{
	const struct responder *resp = &qp->resp;
	uint32_t i;

	if (resp->psn & ~PSN_MASK || resp->msn & ~PSN_MASK ||
	    resp->num_answers - resp->unanswered > NIC_MAX_RD_ATOMIC)
		abort();
	for (i = resp->unanswered; i != resp->num_answers; i++) {
		const struct responder_answer *a =
			&resp->answers[i % NIC_MAX_RD_ATOMIC];

		if (a->pending && a->sent > a->range.length)
			abort();
	}
	/* In ERR the message is forgotten, and its WQE was flushed. */
	if (qp->state == MOOR_QPS_ERR)
		return;
	if ((resp->message == PACKET_KIND_SEND &&
	     resp->placed > resp->wqe.room) ||
	    (resp->message == PACKET_KIND_WRITE &&
	     resp->placed >= resp->range.length))
		abort();
}

/* A half that waits has a token of its own, and a QP in a state in which it can go on. */
static void check_half(const struct qp *qp, const struct half *half)
{
	uint32_t owner = (qp->qpn % NIC_NUM_QP) |
			 (half == &qp->resp.half ? NIC_NUM_QP : 0);

	if (half->state > HALF_FAILED || (half->backlogged &&
					  !half_is_parked(half)))
		abort();
	if (half_is_parked(half) && (half->token % (2 * NIC_NUM_QP) != owner ||
				     qp->state == MOOR_QPS_ERR ||
				     qp->state < MOOR_QPS_RTR))
		abort();
}

/* Only posted WQEs complete, and once: @posted, and those in the queues. */
void check_books(uint32_t posted)
{
	uint32_t done = 0;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		check_requester(world_qp(i));
		check_responder(world_qp(i));
		check_half(world_qp(i), &world_qp(i)->req.half);
		check_half(world_qp(i), &world_qp(i)->resp.half);
		posted += w->sq_producer[i] + w->rq_producer[i];
		done += cq_find(w->nic, i)->producer;
	}
	if (done > posted || w->nic->fatal_code)
		abort();
}

/*
 * Whether a QP is at rest: it waits for no packet with a time-out; and if it waits for
 * nothing, nothing is left undone.
 */
bool rests(const struct qp *qp)
{
	const struct requester *req = &qp->req;

	if (qp->state >= MOOR_QPS_SQE)
		return requester_idle(req);
	if (half_is_parked(&req->half) || half_is_parked(&qp->resp.half))
		return false;
	if (qp->state != MOOR_QPS_RTS && qp->state != MOOR_QPS_SQD)
		return true;
	if (req->acked_psn != req->sent_psn)
		return !qp->timeout;
	/* Without acknowledgements, a long message may be unfinished. */
	return !qp->transport->acknowledged || requester_idle(req) ||
	       (qp->state == MOOR_QPS_SQD && !requester_is_busy(req));
}
