// SPDX-License-Identifier: GPL-2.0
/* The books that QPs keep of packets, as far as they can be wrong. */
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
	/* Of what the QP has been given, which may be more than now. */
	if (qp->transport->acknowledged && req->num_reads > NIC_MAX_RD_ATOMIC)
		abort();
	/* Beyond the end is whatever comes behind it in memory. */
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
	/* Then the message is forgotten, and its WQE was flushed. */
	if (qp->state == MOOR_QPS_ERR)
		return;
	if ((resp->message == PACKET_KIND_SEND &&
	     resp->placed > resp->wqe.room) ||
	    (resp->message == PACKET_KIND_WRITE &&
	     resp->placed >= resp->range.length))
		abort();
}

/* Who waits has a token of his own, and is somebody who could go on. */
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

/* No WQE completes twice, and none that nobody posted. */
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
 * Nothing that may be lost is waited for without a timer; and where nothing is waited
 * for, nothing is left undone.
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
	/* A message that nobody acknowledges may be long. */
	return !qp->transport->acknowledged || requester_idle(req);
}
