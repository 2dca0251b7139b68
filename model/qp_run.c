// SPDX-License-Identifier: GPL-2.0
/* QPs at work: lists, quanta, flushing, errors. */
#include "log.h"
#include "qp.h"
#include "relaxed.h"

#define QUANTUM_BYTES	(256u << 10)
#define QUANTUM_WQES	32u

/*
 * Receive queues are not kicked for (HWI DB-16), yet in ERR what is posted is
 * flushed: look now and then, at all that rest there at once, less and less often
 * (HWI DB-22).
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
	if (qp->req.waiting)
		return false;
	return qp->state == MOOR_QPS_RTS ||
	       (qp->state == MOOR_QPS_SQD && qp->req.active);
}

void qp_make_ready(struct nic *nic, struct qp *qp)
{
	if (qp->list != &nic->ready &&
	    (may_ask(qp) || qp->state == MOOR_QPS_ERR))
		qp_enter_list(qp, &nic->ready);
}

static void end_stall(struct nic *nic, struct qp *qp)
{
	if (!qp || qp->list != &nic->stalled)
		return;
	qp_leave_list(qp);
	qp->req.waiting = false;
	qp_make_ready(nic, qp);
}

/* Of the others only the one that it is connected to can have waited for it. */
void qp_connection_changed(struct nic *nic, struct qp *qp)
{
	nic->connections++;
	end_stall(nic, qp);
	end_stall(nic, qp_find(nic, qp->dest_qpn));
}

void qp_all_connections_changed(struct nic *nic)
{
	nic->connections++;
	while (nic->stalled.first)
		end_stall(nic, nic->stalled.first);
}

void qp_event(struct nic *nic, struct qp *qp, enum moor_event_type type)
{
	if (qp->backlogged & MOOR_BIT(type))
		return;
	if (event_post(nic, MOOR_EQ_ASYNC, type, qp->qpn))
		qp->backlogged |= MOOR_BIT(type);
}

static void rest_anew(struct nic *nic)
{
	nic->rest_ns = REST_MIN_NS;
	timer_start(&nic->timers, &nic->rest, timer_now() + REST_MIN_NS);
}

void qp_error(struct nic *nic, struct qp *qp)
{
	if (qp->state == MOOR_QPS_ERR)
		return;
	qp->state = MOOR_QPS_ERR;
	qp->draining = false;
	qp->req.waiting = false;
	qp->resp.message = 0;
	timer_stop(&nic->timers, &qp->timer);
	rest_anew(nic);
	qp_enter_list(qp, &nic->ready);
	qp_connection_changed(nic, qp);
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

/* Return: true when something was flushed. */
static bool flush_one_send(struct nic *nic, struct qp *qp)
{
	if (!qp->req.active) {
		if (queue_look(&qp->sq) != QUEUE_WORK ||
		    wqe_fetch_send(nic, qp, &qp->req.wqe) == WQE_UNREACHABLE)
			return false;
	}
	qp->req.active = false;
	complete_send(nic, qp, &qp->req.wqe, MOOR_WC_WR_FLUSH_ERR,
		      MOOR_SYN_NONE);
	return true;
}

static bool flush_one_recv(struct nic *nic, struct qp *qp)
{
	if (!qp->resp.holds_wqe) {
		if (queue_look(&qp->rq) != QUEUE_WORK ||
		    wqe_fetch_recv(nic, qp, &qp->resp.wqe) == WQE_UNREACHABLE)
			return false;
	}
	qp->resp.holds_wqe = false;
	complete_recv(nic, qp, &qp->resp.wqe, MOOR_WC_WR_FLUSH_ERR,
		      MOOR_SYN_NONE);
	return true;
}

void qp_rest_over(struct nic *nic, struct timer *timer)
{
	(void)timer;
	while (nic->resting.first)
		qp_enter_list(nic->resting.first, &nic->ready);
	nic->rest_ns = nic->rest_ns < REST_MAX_NS / 2 ? 2 * nic->rest_ns :
							REST_MAX_NS;
}

/* Till more is posted to it. */
static void take_rest(struct nic *nic, struct qp *qp, bool flushed)
{
	qp_leave_list(qp);
	if (!qp->rq.exists || qp->rq.broken)
		return;
	if (flushed)
		rest_anew(nic);
	else if (!nic->rest.place)
		timer_start(&nic->timers, &nic->rest,
			    timer_now() + nic->rest_ns);
	qp_enter_list(qp, &nic->resting);
}

static void flush(struct nic *nic, struct qp *qp)
{
	uint32_t sends = 0, recvs = 0;

	while (sends < QUANTUM_WQES && flush_one_send(nic, qp))
		sends++;
	while (recvs < QUANTUM_WQES && flush_one_recv(nic, qp))
		recvs++;
	if (sends == QUANTUM_WQES || recvs == QUANTUM_WQES)
		qp_enter_list(qp, &nic->ready);
	else
		take_rest(nic, qp, sends || recvs);
}

/* Return: true when a WQE is under way. */
static bool next_wqe(struct nic *nic, struct qp *qp)
{
	enum queue_look look;
	enum wqe_form form;

	if (qp->state != MOOR_QPS_RTS)
		return false;
	look = queue_look(&qp->sq);
	if (look == QUEUE_EMPTY)
		return false;
	nic->live[qp->live_index].seen = qp->sq.producer;
	if (look == QUEUE_BROKEN) {
		qp_queue_failed(nic, qp);
		return false;
	}
	form = wqe_fetch_send(nic, qp, &qp->req.wqe);
	if (form == WQE_UNREACHABLE) {
		qp_queue_failed(nic, qp);
		return false;
	}
	rc_requester_begin(nic, qp, form);
	return qp->req.active;
}

static void ask(struct nic *nic, struct qp *qp)
{
	uint32_t wqes = QUANTUM_WQES - nic_chance(nic, QUANTUM_WQES);
	uint32_t budget = QUANTUM_BYTES;

	while (may_ask(qp)) {
		if (!qp->req.active && !next_wqe(nic, qp))
			break;
		switch (rc_requester_step(nic, qp, &budget)) {
		case RC_NEXT:
			if (--wqes && budget)
				continue;
			/* fallthrough */
		case RC_MORE:
			qp_enter_list(qp, &nic->ready);
			return;
		case RC_WAIT:
			return;
		}
	}
	/* An error has put it there once more, to be flushed. */
	if (qp->state != MOOR_QPS_ERR)
		qp_leave_list(qp);
}

void qp_run(struct nic *nic, struct qp *qp)
{
	if (qp->state == MOOR_QPS_ERR)
		flush(nic, qp);
	else
		ask(nic, qp);
	relaxed_release(nic);
}

void qp_timer_expired(struct nic *nic, struct timer *timer)
{
	struct qp *qp = (struct qp *)timer;

	if (qp->state != MOOR_QPS_ERR)
		rc_requester_expired(nic, qp);
	qp_make_ready(nic, qp);
}
