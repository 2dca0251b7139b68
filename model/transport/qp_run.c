// SPDX-License-Identifier: GPL-2.0
/* QPs at work: lists, quanta, flushing, errors. */
#include <stddef.h>

#include "base/log.h"
#include "memory/relaxed.h"
#include "queues/event.h"
#include "transport/transport.h"

#define QUANTUM_BYTES	(256u << 10)
#define QUANTUM_WQES	32u
#define QUANTUM_PACKETS	32u

/*
 * Receive queues are not kicked for (HWI DB-16), yet in ERR the receives that are
 * posted have to be flushed: look at all QPs that rest in ERR now and then, less and
 * less often (HWI DB-22).
 */
#define REST_MIN_NS	1000000u
#define REST_MAX_NS	64000000u

void qp_leave_list(struct qp *qp)
{
	struct qp_list *list = qp->list;

	if (!list)
		return;
	*(qp->prev ? &qp->prev->next : &list->first) = qp->next;
	*(qp->next ? &qp->next->prev : &list->last) = qp->prev;
	qp->list = NULL;
}

void qp_enter_list(struct qp *qp, struct qp_list *list)
{
	qp_leave_list(qp);
	qp->list = list;
	qp->next = NULL;
	qp->prev = list->last;
	*(list->last ? &list->last->next : &list->first) = qp;
	list->last = qp;
}

static bool may_ask(const struct qp *qp)
{
	if (qp->req.waiting || requester_pages(&qp->req))
		return false;
	return qp->state == MOOR_QPS_RTS ||
	       (qp->state == MOOR_QPS_SQD && requester_is_busy(&qp->req));
}

void qp_make_ready(struct nic *nic, struct qp *qp)
{
	if (qp->list != &nic->qps->ready &&
	    (may_ask(qp) || qp->state >= MOOR_QPS_SQE))
		qp_enter_list(qp, &nic->qps->ready);
}

void qp_event(struct nic *nic, struct qp *qp, enum moor_event_type type)
{
	event_post(nic, MOOR_EQ_ASYNC, type, qp->qpn, &qp->backlogged);
}

/* A QP flushed all the time does not put off the look at the others (HWI DB-22). */
static void rest_anew(struct nic *nic)
{
	struct timer *rest = &nic->qps->rest;
	uint64_t at = timer_now() + REST_MIN_NS;

	nic->qps->rest_ns = REST_MIN_NS;
	if (!rest->place || rest->deadline > at)
		timer_start(&nic->timers, rest, at);
}

void qp_error(struct nic *nic, struct qp *qp)
{
	if (qp->state == MOOR_QPS_ERR)
		return;
	qp->state = MOOR_QPS_ERR;
	qp->draining = false;
	qp->last_wqe_due = qp->srq && !qp->is_target;
	qp->req.waiting = false;
	timer_stop(&nic->timers, &qp->timer);
	parking_end(nic, qp);
	rest_anew(nic);
	qp_enter_list(qp, &nic->qps->ready);
}

void qp_send_error(struct nic *nic, struct qp *qp)
{
	if (qp->state == MOOR_QPS_ERR)
		return;
	qp->state = MOOR_QPS_SQE;
	qp->draining = false;
	qp_enter_list(qp, &nic->qps->ready);
}

void qp_queue_failed(struct nic *nic, struct qp *qp)
{
	log_refused("HWI WQ-5", "QP 0x%06x: queue unreachable or producer index beyond its depth",
		    qp->qpn);
	qp_event(nic, qp, MOOR_EVENT_QP_FATAL);
	qp_error(nic, qp);
}

void qp_drained(struct nic *nic, struct qp *qp)
{
	qp->draining = false;
	if (qp->sqd_event)
		qp_event(nic, qp, MOOR_EVENT_SQ_DRAINED);
	qp->sqd_event = false;
}

void qp_rest_over(struct nic *nic, struct timer *timer)
{
	(void)timer;
	while (nic->qps->resting.first)
		qp_enter_list(nic->qps->resting.first, &nic->qps->ready);
	nic->qps->rest_ns = nic->qps->rest_ns < REST_MAX_NS / 2 ? 2 * nic->qps->rest_ns :
							REST_MAX_NS;
}

/* The QP rests in ERR, till more receives are posted to it. */
static void take_rest(struct nic *nic, struct qp *qp, bool flushed)
{
	qp_leave_list(qp);
	if (!qp->rq.exists || qp->rq.broken)
		return;
	if (flushed)
		rest_anew(nic);
	else if (!nic->qps->rest.place)
		timer_start(&nic->timers, &nic->qps->rest,
			    timer_now() + nic->qps->rest_ns);
	qp_enter_list(qp, &nic->qps->resting);
}

static uint32_t flush_sends(struct nic *nic, struct qp *qp)
{
	uint32_t sends = 0;

	while (sends < QUANTUM_WQES && requester_flush_one(nic, qp))
		sends++;
	return sends;
}

/* In SQE: receives go on. */
static void flush_sends_alone(struct nic *nic, struct qp *qp)
{
	bool more = flush_sends(nic, qp) == QUANTUM_WQES;

	/* A CQ that takes no CQE has put the QP into ERR meanwhile (HWI WQ-5). */
	if (qp->sq.broken && qp->state == MOOR_QPS_SQE)
		qp_queue_failed(nic, qp);
	else if (more)
		qp_enter_list(qp, &nic->qps->ready);
	else if (qp->state == MOOR_QPS_SQE)
		qp_leave_list(qp);
}

static void flush_all(struct nic *nic, struct qp *qp)
{
	uint32_t sends = flush_sends(nic, qp), recvs = 0;

	while (recvs < QUANTUM_WQES && responder_flush_one(nic, qp))
		recvs++;
	if (qp->last_wqe_due) {
		qp->last_wqe_due = false;
		qp_event(nic, qp, MOOR_EVENT_LAST_WQE);
	}
	if (sends == QUANTUM_WQES || recvs == QUANTUM_WQES)
		qp_enter_list(qp, &nic->qps->ready);
	else
		take_rest(nic, qp, sends || recvs);
}

static void flush(struct nic *nic, struct qp *qp)
{
	if (qp->state == MOOR_QPS_ERR)
		flush_all(nic, qp);
	else
		flush_sends_alone(nic, qp);
}

/*
 * Runs both halves of the QP, each with a budget of its own: one goes on even if the
 * other waits, or has no end of work. Return: true when there is more to do. There may
 * be answers again: a QP that is connected to itself may just have asked for them.
 */
static bool work(struct nic *nic, struct qp *qp)
{
	uint32_t packets = QUANTUM_PACKETS - nic_chance(nic, QUANTUM_PACKETS);
	uint32_t answers = QUANTUM_BYTES, requests = QUANTUM_BYTES;

	qp->transport->answer(nic, qp, &answers);
	while (may_ask(qp)) {
		if (!packets-- || !requests)
			return true;
		if (requester_step(nic, qp, &requests) == REQUESTER_RESTS)
			break;
	}
	return responder_has_more(&qp->resp);
}

void qp_run(struct nic *nic, struct qp *qp)
{
	bool more = true;

	if (qp->state >= MOOR_QPS_SQE) {
		flush(nic, qp);
	} else {
		more = work(nic, qp);
		/* If it has failed, it is in the ready list already, to be flushed. */
		if (qp->state < MOOR_QPS_SQE) {
			qp->transport->rest(nic, qp);
			if (more)
				qp_enter_list(qp, &nic->qps->ready);
			else
				qp_leave_list(qp);
		}
	}
	relaxed_release(nic);
}

void qp_timer_expired(struct nic *nic, struct timer *timer)
{
	struct qp *qp = (struct qp *)timer;

	if (qp->state != MOOR_QPS_ERR)
		qp->transport->expired(nic, qp);
	qp_make_ready(nic, qp);
}
