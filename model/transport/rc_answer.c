// SPDX-License-Identifier: GPL-2.0
/*
 * Reliable connection, what the responder sends back (IBA 9.7): answers in the order
 * of the requests, and behind them the ACK or NAK that is due. An answer that is longer
 * than a packet is given a piece at a time, and what comes after it waits. Answers are
 * kept, for those that are lost are asked for again.
 */
#include "base/log.h"
#include "base/rules.h"
#include "transport/port.h"
#include "transport/rc.h"

/* The index of the oldest answer that is kept. */
static uint32_t first_answer(const struct responder *resp)
{
	return resp->num_answers - resp->kept;
}

struct responder_answer *rc_new_answer(struct qp *qp, const struct packet *p)
{
	struct responder *resp = &qp->resp;
	struct responder_answer *a;

	a = responder_answer_at(resp, resp->num_answers++);
	if (resp->kept < NIC_MAX_RD_ATOMIC)
		resp->kept++;
	/* The new answer takes the place of the oldest, which may be due once more. */
	if ((int32_t)(first_answer(resp) - resp->unanswered) > 0)
		resp->unanswered = first_answer(resp);
	*a = (struct responder_answer){
		.opcode = p->opcode & PACKET_OPCODE,
		.pending = true,
		.path_mtu = qp->path_mtu,
		.psn = p->psn,
		.num_psn = 1,
		.range = {
			.addr = p->addr,
			.length = p->dma_length,
			.key = p->rkey,
		},
		.actor = qp->actor,
	};
	return a;
}

/* ---- answering ---- */

static void answer_init(struct packet *p, struct nic *nic, const struct qp *qp,
			uint8_t opcode, uint32_t psn)
{
	packet_init(p, nic, qp, qp->transport->packets | opcode, psn);
	p->syndrome = AETH_ACK;
	p->msn = qp->resp.msn;
}

static void send_aeth(struct nic *nic, struct qp *qp, uint8_t syndrome,
		      uint32_t psn)
{
	struct packet p;

	answer_init(&p, nic, qp, PACKET_ACKNOWLEDGE, psn);
	p.syndrome = syndrome;
	port_send(nic, &p);
}

/* The first PSN that the responder has not answered, and may be asked for again. */
static uint32_t unanswered_psn(const struct qp *qp)
{
	const struct responder *resp = &qp->resp;
	uint32_t i;

	for (i = resp->unanswered; i != resp->num_answers; i++) {
		const struct responder_answer *a =
			&resp->answers[i % NIC_MAX_RD_ATOMIC];

		if (a->pending)
			return (a->psn + a->sent / mtu_of(a->path_mtu)) &
			       PSN_MASK;
	}
	return resp->psn;
}

/*
 * A responder that waits for a page (HWI ODP-15); timer code 0 is the longest. The requester
 * comes again by itself: what is ahead of that is no gap to tell of (HWI RC-43).
 */
static void not_ready(struct nic *nic, struct qp *qp, uint32_t psn)
{
	qp->resp.nak_sent = true;
	send_aeth(nic, qp, AETH_RNR_NAK |
		  (qp->min_rnr_timer ? qp->min_rnr_timer : 1), psn);
}

/* The responder begins to wait. Return: as port_send() of the packet not accepted. */
uint8_t rc_begin_to_wait(struct nic *nic, struct qp *qp)
{
	if (nic->wire->port->keeps)
		return PORT_KEPT;
	not_ready(nic, qp, unanswered_psn(qp));
	return MOOR_SYN_NONE;
}

/*
 * The responder still waits when @p comes. Of its unfinished answers the requester may
 * have lost more than the responder knows: it gets the NAK for a PSN that it asks for.
 */
uint8_t rc_still_waits(struct nic *nic, struct qp *qp, const struct packet *p,
		       int32_t ahead)
{
	if (nic->wire->port->keeps)
		return PORT_KEPT;
	if (ahead < 0 || (!ahead && unanswered_psn(qp) == p->psn))
		not_ready(nic, qp, p->psn);
	return MOOR_SYN_NONE;
}

/*
 * Sends a packet of an answer. Return: as port_send(). If the requester dropped it, all
 * answers rest till that asks again or goes: it may have gone when this returns.
 */
static uint8_t send_answer(struct nic *nic, struct qp *qp, struct packet *p)
{
	struct responder *resp = &qp->resp;
	uint8_t syndrome;

	resp->asked_later = true;
	syndrome = port_send(nic, p);
	if (syndrome != PORT_KEPT)
		resp->asked_later = false;
	return syndrome;
}

static void answer_atomic(struct nic *nic, struct qp *qp,
			  struct responder_answer *a)
{
	struct packet p;

	answer_init(&p, nic, qp, PACKET_ATOMIC_ACKNOWLEDGE, a->psn);
	p.original = a->original;
	a->answered = 1;
	a->pending = send_answer(nic, qp, &p) == PORT_KEPT;
}

/* Answers ATOMIC_WRITE or FLUSH as a READ of no bytes (HWI MPE-1). */
static void answer_empty(struct nic *nic, struct qp *qp,
			 struct responder_answer *a)
{
	struct stream nothing = { 0 };
	struct packet p;

	answer_init(&p, nic, qp, PACKET_READ_RESPONSE_ONLY, a->psn);
	p.payload = &nothing;
	a->pending = false;
	a->answered = 1;
	port_send(nic, &p);
}

static uint8_t read_opcode(bool first, bool last)
{
	if (first)
		return last ? PACKET_READ_RESPONSE_ONLY :
			      PACKET_READ_RESPONSE_FIRST;
	return last ? PACKET_READ_RESPONSE_LAST : PACKET_READ_RESPONSE_MIDDLE;
}

/*
 * Sends a packet of the answer to a READ; @from stands at its bytes. If they were sent
 * before, and the key is gone by now, the packet is dropped, for a NAK would end a
 * connection that has done nothing wrong.
 */
void rc_answer_read(struct nic *nic, struct qp *qp, struct responder_answer *a,
		    struct stream *from, uint32_t *budget)
{
	uint32_t mtu = mtu_of(a->path_mtu);
	uint32_t sent = a->sent, left = a->range.length - sent;
	uint32_t first = sent / mtu, psn = (a->psn + first) & PSN_MASK;
	uint32_t unit = half_unit(&qp->resp.half, psn, port_unit(nic, mtu), mtu);
	bool last = left <= unit;
	struct packet p;
	uint8_t syndrome;

	answer_init(&p, nic, qp, read_opcode(!sent, last), psn);
	p.length = last ? left : unit;
	p.num_psn = packets_of(a->path_mtu, p.length);
	p.payload = from;
	a->sent += p.length;
	a->pending = !last;
	*budget -= p.length < *budget ? p.length : *budget;

	syndrome = send_answer(nic, qp, &p);
	if (!syndrome) {
		half_moved(&qp->resp.half, psn, p.num_psn);
		if (a->answered < first + p.num_psn)
			a->answered = first + p.num_psn;
		return;
	}
	if (syndrome == PORT_KEPT ||
	    responder_waits(nic, qp, psn, from, a->range.length, &syndrome)) {
		a->sent = sent;
		a->pending = true;
		if (half_is_parked(&qp->resp.half) &&
		    rc_begin_to_wait(nic, qp) == PORT_KEPT)
			parking_hold_peer(nic, qp);
		return;
	}
	a->pending = false;
	if (first >= a->answered) {
		const struct responder_fault fault = {
			.nak = AETH_NAK_ACCESS,
			.event = MOOR_EVENT_QP_ACCESS_ERR,
			.syndrome = syndrome,
			.rule = "HWI RC-26",
			.key = a->range.key,
		};

		responder_set_fault(&qp->resp, &fault, psn);
	} else {
		log_refused("HWI RC-41", "QP 0x%06x: a READ at PSN %u once more, key 0x%08x: %s",
			    qp->qpn, psn, a->range.key, syndrome_name(syndrome));
	}
}

/* Answers a READ later than it was asked for: the key is checked for each packet. */
static void answer_read_later(struct nic *nic, struct qp *qp,
			      struct responder_answer *a, uint32_t *budget)
{
	struct stream from;

	stream_init(&from, &a->actor, &a->range, 1, MOOR_ACCESS_REMOTE_READ);
	stream_seek(&from, a->sent);
	rc_answer_read(nic, qp, a, &from, budget);
}

static void answer_later(struct nic *nic, struct qp *qp,
			 struct responder_answer *a, uint32_t *budget)
{
	switch (a->opcode) {
	case PACKET_READ_REQUEST:
		answer_read_later(nic, qp, a, budget);
		break;
	case PACKET_ATOMIC_WRITE:
	case PACKET_FLUSH:
		answer_empty(nic, qp, a);
		break;
	default:
		answer_atomic(nic, qp, a);
		break;
	}
}

static void send_due(struct nic *nic, struct qp *qp)
{
	struct responder *resp = &qp->resp;
	bool ack = !(resp->due & AETH_CODE);

	if (!resp->is_due)
		return;
	resp->is_due = false;
	send_aeth(nic, qp, resp->due, (resp->psn - ack) & PSN_MASK);
}

/*
 * A NAK acknowledges what came before it. Where no NAK is sent (HWI RC-27), an ACK that
 * is due is sent all the same: the messages before the fault have been received.
 */
static void give_up(struct nic *nic, struct qp *qp)
{
	const struct responder_fault fault = qp->resp.fault;

	/* First: a QP that is connected to itself takes no answer once it has failed. */
	if (fault.nak)
		send_aeth(nic, qp, fault.nak, fault.psn);
	else if (!(qp->resp.due & AETH_CODE))
		send_due(nic, qp);
	qp->resp.is_due = false;
	responder_fail(nic, qp, &fault);
}

/* Return: false when the QP has failed meanwhile. */
static bool still_answers(const struct qp *qp)
{
	return qp->state == MOOR_QPS_RTR || qp->state == MOOR_QPS_RTS ||
	       qp->state == MOOR_QPS_SQD;
}

void rc_answer(struct nic *nic, struct qp *qp, uint32_t *budget)
{
	struct responder *resp = &qp->resp;

	if (responder_rests(resp))
		return;
	for (; resp->unanswered != resp->num_answers; resp->unanswered++) {
		struct responder_answer *a =
			responder_answer_at(resp, resp->unanswered);

		while (a->pending && still_answers(qp)) {
			if (!*budget)
				return;
			answer_later(nic, qp, a, budget);
			if (responder_rests(resp))
				return;
			/* That answer has failed: none behind it is sent any more. */
			if (resp->fault.set && resp->fault.psn != resp->psn)
				goto fault;
		}
	}
fault:
	if (!still_answers(qp))
		return;
	if (resp->fault.set)
		give_up(nic, qp);
	else
		send_due(nic, qp);
}

/* ---- packets that were here before (IBA 9.7.5.1.4) ---- */

void rc_take_again(struct qp *qp, const struct packet *p)
{
	struct responder *resp = &qp->resp;
	uint8_t kind = packet_form(p)->kind;
	uint32_t i;

	if (kind == PACKET_KIND_SEND || kind == PACKET_KIND_WRITE) {
		/* An ACK or NAK that is due already acknowledges this packet too. */
		if (!resp->is_due)
			responder_set_due(resp, AETH_ACK);
		return;
	}
	/* The youngest answer: another with the same PSN may be 2^24 packets old. */
	for (i = resp->num_answers; i-- != first_answer(resp);) {
		struct responder_answer *a = responder_answer_at(resp, i);
		int32_t in = psn_diff(p->psn, a->psn);

		if (a->opcode != (p->opcode & PACKET_OPCODE) || in < 0 ||
		    in >= (int32_t)a->num_psn || a->range.key != p->rkey)
			continue;
		a->sent = (uint32_t)in * mtu_of(a->path_mtu);
		a->pending = a->range.addr + a->sent == p->addr;
		if (a->pending && (int32_t)(i - resp->unanswered) < 0)
			resp->unanswered = i;
		return;
	}
}
