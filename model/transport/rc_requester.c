// SPDX-License-Identifier: GPL-2.0
/*
 * Reliable connection, the requester: acknowledgements, answers, going back
 * (IBA 9.7). Whatever is not acknowledged is sent again from the first such
 * packet on.
 */
#include <endian.h>
#include <stddef.h>

#include "base/log.h"
#include "transport/port.h"
#include "transport/rc.h"

/* IBA 9.7.5.2.8, in units of 10 us. */
static const uint32_t rnr_wait[32] = {
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288,
	16384, 24576, 32768, 49152,
};

#define RNR_UNIT_NS	10000u
#define RNR_FOR_EVER	7
#define ACK_UNIT_NS	4096u

/*
 * Earlier requests may have to be sent again with the very keys that a local request
 * changes: the local one waits until they are done (HWI WQ-14). One READ or atomic may
 * always go: max_rd_atomic may be 0 by now, but was not when the request was fetched.
 */
bool rc_may_begin(const struct qp *qp, const struct request *r)
{
	const struct requester *req = &qp->req;

	if (request_is_one_of(r, WQE_LOCAL))
		return req->next == req->head;
	if ((r->wqe.flags & MOOR_WQE_FLAG_FENCE) && req->num_reads)
		return false;
	return !request_is_one_of(r, WQE_ASKS) || !req->num_reads ||
	       req->num_reads < qp->max_rd_atomic;
}

static bool is_outstanding(const struct requester *req)
{
	return req->acked_psn != req->sent_psn;
}

/* The timer runs while there are packets that may be lost. */
void rc_rest(struct nic *nic, struct qp *qp)
{
	struct requester *req = &qp->req;

	if (req->waiting)
		return;
	if (!is_outstanding(req) || !qp->timeout || requester_pages(req)) {
		timer_stop(&nic->timers, &qp->timer);
	} else if (!qp->timer.place) {
		req->progress = false;
		timer_start(&nic->timers, &qp->timer, timer_now() +
			    ((uint64_t)ACK_UNIT_NS << qp->timeout));
	}
}

static void has_progress(struct qp *qp, uint32_t acked_psn)
{
	struct requester *req = &qp->req;

	req->acked_psn = acked_psn & PSN_MASK;
	req->retries = qp->retry_cnt;
	req->rnr_retries = qp->rnr_retry;
	/* An answer dropped for want of a page is asked for once the page is there. */
	if (!half_is_parked(&req->half))
		req->went_back = false;
	req->progress = true;
}

/*
 * The first request that is not acknowledged to its end. NULL: there is none that has
 * begun, or that request has failed, which no answer can make good.
 */
static struct request *first_open(struct requester *req)
{
	while (req->open != req->tail) {
		struct request *r = requester_at(req, req->open);

		if (r->state != REQUEST_DONE)
			return r->state == REQUEST_OPEN ? r : NULL;
		req->open++;
	}
	return NULL;
}

/*
 * The packets before @psn have reached the responder. Return: false when one of
 * them is a request whose own answer has not arrived.
 */
static bool acknowledge(struct qp *qp, uint32_t psn)
{
	struct requester *req = &qp->req;
	struct request *r;

	while (psn_diff(psn, req->acked_psn) > 0) {
		uint32_t end;

		r = first_open(req);
		if (!r)
			return true;
		if (request_is_one_of(r, WQE_ASKS))
			return false;
		end = (r->psn + r->num_psn) & PSN_MASK;
		if (psn_diff(psn, end) < 0) {
			has_progress(qp, psn);
			return true;
		}
		has_progress(qp, end);
		r->state = REQUEST_DONE;
	}
	return true;
}

/* Sends again from the first packet that is not acknowledged. */
static void begin_again(struct qp *qp)
{
	struct requester *req = &qp->req;
	struct request *r = first_open(req);

	req->num_reads = 0;
	req->next = req->open;
	req->offset = 0;
	if (r && !request_is_one_of(r, WQE_ASKS))
		req->offset = ((req->acked_psn - r->psn) & PSN_MASK) *
			      mtu_of(r->path_mtu);
	/* Packets that are sent again have the whole time-out to be answered in. */
	req->progress = true;
}

static void go_back(struct nic *nic, struct qp *qp)
{
	struct requester *req = &qp->req;
	struct request *r = first_open(req);

	if (!r)
		return;
	if (!req->retries) {
		requester_fail(qp, r, MOOR_WC_RETRY_EXC_ERR,
			       MOOR_SYN_NO_RESPONDER);
		requester_retire(nic, qp);
		return;
	}
	req->retries--;
	nic->wire->traffic.went_back++;
	begin_again(qp);
}

/*
 * The requester has dropped an answer: it asks for that once more, when it can. A responder
 * that does not know may send a NAK for what is behind, and answers nothing any more (HWI
 * RC-32). Return: as port_send() of the answer.
 */
static uint8_t ask_again(struct nic *nic, struct qp *qp)
{
	begin_again(qp);
	qp->req.went_back = true;
	return nic->wire->port->keeps ? PORT_KEPT : MOOR_SYN_NONE;
}

/* A later request was answered first: go back, but only once until that has an effect. */
static void answer_is_missing(struct nic *nic, struct qp *qp)
{
	if (qp->req.went_back || half_is_parked(&qp->req.half))
		return;
	qp->req.went_back = true;
	go_back(nic, qp);
}

void rc_expired(struct nic *nic, struct qp *qp)
{
	struct requester *req = &qp->req;

	if (req->waiting) {
		req->waiting = false;
		return;
	}
	if (requester_pages(req))
		return;
	if (is_outstanding(req) && !req->progress) {
		nic->wire->traffic.timeouts++;
		go_back(nic, qp);
	}
	if (qp->state != MOOR_QPS_ERR)
		rc_rest(nic, qp);
}

static void receiver_not_ready(struct nic *nic, struct qp *qp, uint8_t timer)
{
	struct requester *req = &qp->req;
	struct request *r = first_open(req);

	if (!r)
		return;
	if (qp->rnr_retry != RNR_FOR_EVER && !req->rnr_retries--) {
		requester_fail(qp, r, MOOR_WC_RNR_RETRY_EXC_ERR, MOOR_SYN_NONE);
		requester_retire(nic, qp);
		return;
	}
	/* This is an answer: a responder that is not ready is not gone. */
	req->retries = qp->retry_cnt;
	begin_again(qp);
	req->waiting = true;
	timer_start(&nic->timers, &qp->timer,
		    timer_now() + (uint64_t)rnr_wait[timer] * RNR_UNIT_NS);
}

/* Only the responder knows why: there is no syndrome here (HWI 11.3). */
static void refused(struct qp *qp, uint8_t nak)
{
	static const uint8_t status[] = {
		[AETH_NAK_INVALID - AETH_CODE] = MOOR_WC_REM_INV_REQ_ERR,
		[AETH_NAK_ACCESS - AETH_CODE] = MOOR_WC_REM_ACCESS_ERR,
		[AETH_NAK_OPERATION - AETH_CODE] = MOOR_WC_REM_OP_ERR,
	};
	struct request *r = first_open(&qp->req);

	if (r && nak <= AETH_NAK_OPERATION)
		requester_fail(qp, r, status[nak - AETH_CODE], MOOR_SYN_NONE);
}

static void take_aeth(struct nic *nic, struct qp *qp, const struct packet *p)
{
	uint8_t code = p->syndrome & AETH_CODE;
	bool is_ack = !code;

	/* A NAK acknowledges what came before it. */
	if (!acknowledge(qp, p->psn + is_ack))
		answer_is_missing(nic, qp);
	else if (code == AETH_RNR_NAK)
		receiver_not_ready(nic, qp, p->syndrome & AETH_VALUE);
	else if (p->syndrome == AETH_NAK_SEQUENCE)
		go_back(nic, qp);
	else if (code == AETH_CODE)
		refused(qp, p->syndrome);
}

/* The request that @p answers, if its answer is the one that is due; else NULL. */
static struct request *answered_by(struct nic *nic, struct qp *qp,
				   const struct packet *p, uint32_t opcodes)
{
	struct request *r;

	if (!acknowledge(qp, p->psn)) {
		answer_is_missing(nic, qp);
		return NULL;
	}
	r = first_open(&qp->req);
	return r && request_is_one_of(r, opcodes) &&
	       p->psn == qp->req.acked_psn ? r : NULL;
}

/* Request @r has its whole answer. */
static void end_question(struct qp *qp, struct request *r)
{
	r->state = REQUEST_DONE;
	if (qp->req.num_reads)
		qp->req.num_reads--;
}

/* @len bytes of @from are the next ones of the answer. */
static uint8_t take_answer(struct nic *nic, struct qp *qp, struct request *r,
			   struct stream *from, uint32_t len, uint32_t num_psn)
{
	uint32_t mtu = mtu_of(r->path_mtu), psn = qp->req.acked_psn;
	uint32_t unit = half_unit(&qp->req.half, psn, len, mtu);
	struct stream *culprit;
	uint8_t syndrome;

	if (half_is_parked(&qp->req.half))
		return ask_again(nic, qp);
	if (unit < len)
		num_psn = 1;
	else
		unit = len;
	if (qp->req.granted != r)
		stream_seek(&r->local, r->answered);
	syndrome = transfer(nic, &r->local, from, unit, &culprit);
	if (syndrome && culprit == from)
		return syndrome;
	if (syndrome) {
		if (requester_waits(nic, qp, psn, &r->local, &syndrome))
			return ask_again(nic, qp);
		requester_fail(qp, r, MOOR_WC_LOC_PROT_ERR, syndrome);
		return MOOR_SYN_NONE;
	}
	requester_moved(&qp->req, psn, num_psn);
	r->answered += unit;
	has_progress(qp, psn + num_psn);
	if (unit < len)
		return ask_again(nic, qp);
	if (r->answered == r->wqe.length)
		end_question(qp, r);
	return MOOR_SYN_NONE;
}

static uint8_t take_read_response(struct nic *nic, struct qp *qp,
				  struct packet *p)
{
	struct request *r = answered_by(nic, qp, p, WQE_ASKS & ~WQE_ATOMICS);
	bool reads = r && r->wqe.opcode == MOOR_WQE_READ;
	uint32_t left;
	bool last = packet_form(p)->last;

	if (!r)
		return MOOR_SYN_NONE;
	left = reads ? r->wqe.length - r->answered : 0;
	if (p->num_psn != packets_of(r->path_mtu, p->length) ||
	    (last ? p->length != left :
		    p->length >= left || !p->length ||
		    p->length % mtu_of(r->path_mtu))) {
		log_refused("HWI RC-1", "QP 0x%06x: a READ response of %u bytes does not fit",
			    qp->qpn, p->length);
		return MOOR_SYN_NONE;
	}
	if (reads)
		return take_answer(nic, qp, r, p->payload, p->length,
				   p->num_psn);
	has_progress(qp, qp->req.acked_psn + 1);
	end_question(qp, r);
	return MOOR_SYN_NONE;
}

static uint8_t take_atomic_response(struct nic *nic, struct qp *qp,
				    const struct packet *p)
{
	struct request *r = answered_by(nic, qp, p, WQE_ATOMICS);
	uint64_t original = htole64(p->original);
	struct stream from = { .bytes = (uint8_t *)&original };

	return r ? take_answer(nic, qp, r, &from, sizeof(original), 1) :
		   MOOR_SYN_NONE;
}

uint8_t rc_take_response(struct nic *nic, struct qp *qp, struct packet *p)
{
	struct requester *req = &qp->req;
	uint8_t syndrome = MOOR_SYN_NONE;

	/* An answer to a PSN that is not under way is a ghost. */
	if ((qp->state != MOOR_QPS_RTS && qp->state != MOOR_QPS_SQD) ||
	    req->waiting || psn_diff(p->psn, req->acked_psn) < 0 ||
	    psn_diff(p->psn, req->sent_psn) >= 0)
		return MOOR_SYN_NONE;
	switch (packet_form(p)->kind) {
	case PACKET_KIND_READ_RESPONSE:
		syndrome = take_read_response(nic, qp, p);
		break;
	case PACKET_KIND_ATOMIC_ACKNOWLEDGE:
		syndrome = take_atomic_response(nic, qp, p);
		break;
	default:
		take_aeth(nic, qp, p);
		break;
	}
	requester_retire(nic, qp);
	/* A request that waited for room, or for a fence, may go on. */
	qp_make_ready(nic, qp);
	return syndrome;
}
