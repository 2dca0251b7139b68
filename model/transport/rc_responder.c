// SPDX-License-Identifier: GPL-2.0
/*
 * Reliable connection, the responder (IBA 9.7): requests in the order of their
 * PSNs, answers in the order of the requests. An answer that is longer than a
 * packet is given a piece at a time, and what comes after it waits.
 */
#include <endian.h>
#include <stddef.h>

#include "base/dma_map.h"
#include "memory/relaxed.h"
#include "transport/port.h"
#include "transport/rc.h"
#include "transport/xrc.h"

static struct responder_answer *answer_at(struct responder *resp, uint32_t i)
{
	return &resp->answers[i % NIC_MAX_RD_ATOMIC];
}

/* The index of the oldest answer that is kept. */
static uint32_t first_answer(const struct responder *resp)
{
	return resp->num_answers - resp->kept;
}

static void set_due(struct responder *resp, uint8_t syndrome)
{
	resp->is_due = true;
	resp->due = syndrome;
}

static void set_fault(struct responder *resp,
		      const struct responder_fault *fault, uint32_t psn)
{
	resp->fault = *fault;
	resp->fault.set = true;
	resp->fault.psn = psn;
}

static void refuse(struct responder *resp, const char *rule, uint8_t nak,
		   uint8_t event, uint8_t syndrome)
{
	const struct responder_fault fault = {
		.rule = rule, .nak = nak, .event = event, .syndrome = syndrome,
	};

	set_fault(resp, &fault, resp->psn);
}

static void refuse_request(struct responder *resp, const char *rule,
			   uint8_t syndrome)
{
	refuse(resp, rule, AETH_NAK_INVALID, MOOR_EVENT_QP_REQ_ERR, syndrome);
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

/* A responder that waits for a page (HWI ODP-15); timer code 0 is the longest. */
static void not_ready(struct nic *nic, struct qp *qp, uint32_t psn)
{
	send_aeth(nic, qp, AETH_RNR_NAK |
		  (qp->min_rnr_timer ? qp->min_rnr_timer : 1), psn);
}

/* The responder begins to wait. Return: as port_send() of the packet not accepted. */
static uint8_t begin_to_wait(struct nic *nic, struct qp *qp)
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
static uint8_t still_waits(struct nic *nic, struct qp *qp,
			   const struct packet *p, int32_t ahead)
{
	if (nic->wire->port->keeps)
		return PORT_KEPT;
	if (ahead < 0 || (!ahead && unanswered_psn(qp) == p->psn))
		not_ready(nic, qp, p->psn);
	return MOOR_SYN_NONE;
}

static void answer_atomic(struct nic *nic, struct qp *qp,
			  struct responder_answer *a)
{
	struct packet p;

	answer_init(&p, nic, qp, PACKET_ATOMIC_ACKNOWLEDGE, a->psn);
	p.original = a->original;
	a->pending = false;
	a->answered = 1;
	port_send(nic, &p);
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
static void answer_read(struct nic *nic, struct qp *qp,
			struct responder_answer *a, struct stream *from,
			uint32_t *budget)
{
	uint32_t mtu = mtu_of(a->path_mtu);
	uint32_t unit = half_unit(&qp->resp.half, port_unit(nic, mtu), mtu);
	uint32_t sent = a->sent, left = a->range.length - sent;
	bool last = left <= unit;
	uint32_t first = sent / mtu, psn = (a->psn + first) & PSN_MASK;
	struct packet p;
	uint8_t syndrome;

	answer_init(&p, nic, qp, read_opcode(!sent, last), psn);
	p.length = last ? left : unit;
	p.num_psn = packets_of(a->path_mtu, p.length);
	p.payload = from;
	a->sent += p.length;
	a->pending = !last;
	*budget -= p.length < *budget ? p.length : *budget;

	syndrome = port_send(nic, &p);
	if (!syndrome) {
		half_moved(&qp->resp.half);
		if (a->answered < first + p.num_psn)
			a->answered = first + p.num_psn;
		return;
	}
	if (responder_waits(nic, qp, from, a->range.length, &syndrome)) {
		a->sent = sent;
		a->pending = true;
		if (half_is_parked(&qp->resp.half) &&
		    begin_to_wait(nic, qp) == PORT_KEPT)
			parking_hold_peer(nic, qp);
		return;
	}
	a->pending = false;
	if (first >= a->answered) {
		refuse(&qp->resp, "HWI RC-26", AETH_NAK_ACCESS,
		       MOOR_EVENT_QP_ACCESS_ERR, syndrome);
		qp->resp.fault.psn = psn;
		qp->resp.fault.key = a->range.key;
	}
}

/* Answers a READ later than it was asked for: the key is checked for each packet. */
static void answer_read_later(struct nic *nic, struct qp *qp,
			      struct responder_answer *a, uint32_t *budget)
{
	struct stream from;

	stream_init(&from, &a->actor, &a->range, 1, MOOR_ACCESS_REMOTE_READ);
	stream_seek(&from, a->sent);
	answer_read(nic, qp, a, &from, budget);
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

	if (half_is_parked(&resp->half))
		return;
	for (; resp->unanswered != resp->num_answers; resp->unanswered++) {
		struct responder_answer *a = answer_at(resp, resp->unanswered);

		while (a->pending && still_answers(qp)) {
			if (!*budget)
				return;
			answer_later(nic, qp, a, budget);
			if (half_is_parked(&resp->half))
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

/* ---- requests ---- */

static void accept(struct responder *resp, const struct packet *p,
		   uint32_t num_psn)
{
	resp->psn = (resp->psn + num_psn) & PSN_MASK;
	if (packet_form(p)->last)
		resp->msn = (resp->msn + 1) & PSN_MASK;
}

/*
 * May one more READ or atomic be answered? An answer that is sent again does not count:
 * the packet that asked for it may be a late one, of a READ that ended long ago.
 */
static bool has_room(struct qp *qp)
{
	struct responder *resp = &qp->resp;
	uint32_t i, num = 0;

	for (i = resp->unanswered; i != resp->num_answers; i++) {
		const struct responder_answer *a = answer_at(resp, i);

		num += a->pending && a->answered < a->num_psn;
	}
	return num < qp->max_dest_rd_atomic;
}

static struct responder_answer *new_answer(struct qp *qp,
					   const struct packet *p)
{
	struct responder *resp = &qp->resp;
	struct responder_answer *a;

	a = answer_at(resp, resp->num_answers++);
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

static void take_read(struct nic *nic, struct qp *qp, const struct packet *p,
		      uint32_t *budget)
{
	struct responder *resp = &qp->resp;
	uint32_t num_psn = packets_of(qp->path_mtu, p->dma_length);
	struct responder_fault fault;
	struct segment seg = {
		.addr = p->addr, .length = p->dma_length, .key = p->rkey,
	};
	struct responder_answer *a;
	struct stream range;

	if (p->num_psn && p->num_psn != num_psn) {
		refuse_request(resp, "HWI RC-30", MOOR_SYN_LENGTH);
		return;
	}
	stream_init(&range, &qp->actor, &seg, 1, MOOR_ACCESS_REMOTE_READ);
	if (!responder_check_range(nic, qp, &range, &fault)) {
		set_fault(resp, &fault, resp->psn);
		return;
	}
	a = new_answer(qp, p);
	a->num_psn = num_psn;
	a->range.epoch = seg.epoch;
	accept(resp, p, num_psn);
	/* If no other answer is due before, this begins now, with the grant just made. */
	if (resp->unanswered + 1 == resp->num_answers)
		answer_read(nic, qp, a, &range, budget);
}

static uint64_t atomic_result(const struct packet *p, uint64_t old)
{
	if ((p->opcode & PACKET_OPCODE) == PACKET_FETCH_ADD)
		return old + p->swap_add;
	return old == p->compare ? p->swap_add : old;
}

static uint64_t do_atomic(const struct packet *p, uint64_t *at)
{
	uint64_t old = __atomic_load_n(at, __ATOMIC_RELAXED), new;

	do {
		new = htole64(atomic_result(p, le64toh(old)));
	} while (!__atomic_compare_exchange_n(at, &old, new, false,
					      __ATOMIC_SEQ_CST,
					      __ATOMIC_RELAXED));
	return le64toh(old);
}

/* Where an atomic is to be done with right @need. NULL: the fault is set, or it waits. */
static uint64_t *atomic_place(struct nic *nic, struct qp *qp,
			      const struct packet *p, uint32_t need)
{
	uint64_t len = sizeof(uint64_t);
	struct segment seg = {
		.addr = p->addr, .length = sizeof(uint64_t), .key = p->rkey,
	};
	struct responder_fault fault;
	struct stream range;
	uint8_t *ptr, syndrome;

	if (p->addr % sizeof(uint64_t)) {
		refuse_request(&qp->resp, "HWI RC-7", MOOR_SYN_ALIGNMENT);
		return NULL;
	}
	stream_init(&range, &qp->actor, &seg, 1, need);
	if (!responder_check_range(nic, qp, &range, &fault)) {
		set_fault(&qp->resp, &fault, qp->resp.psn);
		return NULL;
	}
	syndrome = mr_grant_ptr(nic, &range.grant, 0, &len, &ptr);
	if (syndrome) {
		if (responder_waits(nic, qp, &range, seg.length, &syndrome))
			return NULL;
		refuse(&qp->resp, "HWI RC-26", AETH_NAK_ACCESS,
		       MOOR_EVENT_QP_ACCESS_ERR, syndrome);
		qp->resp.fault.key = p->rkey;
		return NULL;
	}
	/* The address is aligned; the memory that it is mapped to need not be. */
	if (len < sizeof(uint64_t) || (uintptr_t)ptr % sizeof(uint64_t)) {
		refuse_request(&qp->resp, "HWI RC-39", MOOR_SYN_ALIGNMENT);
		return NULL;
	}
	return (uint64_t *)ptr;
}

static void take_atomic(struct nic *nic, struct qp *qp, const struct packet *p)
{
	struct responder *resp = &qp->resp;
	uint64_t *at = atomic_place(nic, qp, p, MOOR_ACCESS_REMOTE_ATOMIC);

	if (!at)
		return;
	/* Nothing relaxed passes an atomic (HWI ORD-12). */
	relaxed_release(nic);
	half_moved(&resp->half);
	new_answer(qp, p)->original = do_atomic(p, at);
	accept(resp, p, 1);
}

/* Return: as port_send(). */
static uint8_t take_atomic_write(struct nic *nic, struct qp *qp,
				 const struct packet *p)
{
	struct responder *resp = &qp->resp;
	struct stream *culprit, to = { 0 };
	uint64_t value, *at;
	uint8_t syndrome;

	if (p->length != sizeof(value) || p->dma_length != sizeof(value)) {
		refuse_request(resp, "HWI MPE-2", MOOR_SYN_LENGTH);
		return MOOR_SYN_NONE;
	}
	at = atomic_place(nic, qp, p, MOOR_ACCESS_REMOTE_WRITE);
	if (!at)
		return MOOR_SYN_NONE;
	to.bytes = (uint8_t *)&value;
	syndrome = transfer(nic, &to, p->payload, sizeof(value), &culprit);
	if (syndrome)
		return syndrome;
	/* Nothing relaxed passes an atomic (HWI ORD-12). */
	relaxed_release(nic);
	half_moved(&resp->half);
	new_answer(qp, p);
	__atomic_store_n(at, value, __ATOMIC_SEQ_CST);
	accept(resp, p, 1);
	return MOOR_SYN_NONE;
}

/* Is the FLUSH allowed (HWI MPE-7)? Return: why not, or MOOR_SYN_NONE. */
static uint8_t check_flush(struct nic *nic, const struct qp *qp,
			   const struct packet *p)
{
	uint32_t need = 0;
	struct mr_grant grant;

	if (p->flush_type & MOOR_FLUSH_GLOBAL)
		need |= MOOR_ACCESS_FLUSH_GLOBAL;
	if (p->flush_type & MOOR_FLUSH_PERSISTENT)
		need |= MOOR_ACCESS_FLUSH_PERSISTENT;
	if ((qp->access & need) != need)
		return MOOR_SYN_QP_RIGHTS;
	if (p->flush_level == MOOR_FLUSH_REGION)
		return mr_grant_whole(nic, &qp->actor, p->rkey, need, &grant);
	if (!p->dma_length)
		return MOOR_SYN_NONE;
	return mr_grant_access(nic, &qp->actor, p->rkey, p->addr,
			       p->dma_length, need, &grant);
}

/*
 * One thread does all DMA: what came before the FLUSH is in memory, but for relaxed
 * writes that are held back on purpose. No byte is touched (HWI MPE-8).
 */
static void take_flush(struct nic *nic, struct qp *qp, const struct packet *p)
{
	struct responder *resp = &qp->resp;
	uint8_t syndrome;

	if (!flush_is_known(p->flush_type, p->flush_level)) {
		refuse_request(resp, "HWI MPE-5", MOOR_SYN_WQE);
		return;
	}
	syndrome = check_flush(nic, qp, p);
	if (syndrome) {
		refuse(resp, "HWI MPE-7", AETH_NAK_ACCESS,
		       MOOR_EVENT_QP_ACCESS_ERR, syndrome);
		resp->fault.key = p->rkey;
		return;
	}
	relaxed_release(nic);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if ((p->flush_type & MOOR_FLUSH_PERSISTENT) && !dma_map_sync(nic->dma)) {
		refuse(resp, "HWI MPE-12", AETH_NAK_OPERATION,
		       MOOR_EVENT_QP_FATAL, MOOR_SYN_NONE);
		return;
	}
	new_answer(qp, p);
	accept(resp, p, 1);
}

/* Return: as port_send(). */
static uint8_t take_data(struct nic *nic, struct qp *qp, struct packet *p)
{
	struct responder *resp = &qp->resp;
	struct responder_fault fault = { 0 };
	uint8_t sender = MOOR_SYN_NONE;

	switch (responder_place(nic, qp, p, &fault, &sender)) {
	case PLACED:
		half_moved(&resp->half);
		accept(resp, p, p->num_psn);
		if (p->ack_request)
			set_due(resp, AETH_ACK);
		break;
	case PLACED_NOT_READY:
		resp->nak_sent = true;
		set_due(resp, AETH_RNR_NAK | qp->min_rnr_timer);
		break;
	case PLACED_REFUSED:
		set_fault(resp, &fault, resp->psn);
		break;
	case PLACED_PARKED:
	case PLACED_SENDER_FAULT:
		break;
	}
	return sender;
}

static bool in_sequence(const struct responder *resp,
			const struct packet_form *form)
{
	return form->first ? !resp->message : resp->message == form->kind;
}

/* ---- packets that were here before (IBA 9.7.5.1.4) ---- */

static void take_again(struct qp *qp, const struct packet *p)
{
	struct responder *resp = &qp->resp;
	uint8_t kind = packet_form(p)->kind;
	uint32_t i;

	if (kind == PACKET_KIND_SEND || kind == PACKET_KIND_WRITE) {
		/* An ACK or NAK that is due already acknowledges this packet too. */
		if (!resp->is_due)
			set_due(resp, AETH_ACK);
		return;
	}
	/* The youngest answer: another with the same PSN may be 2^24 packets old. */
	for (i = resp->num_answers; i-- != first_answer(resp);) {
		struct responder_answer *a = answer_at(resp, i);
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

static void out_of_sequence(struct qp *qp)
{
	struct responder *resp = &qp->resp;

	if (resp->nak_sent)
		return;
	resp->nak_sent = true;
	set_due(resp, AETH_NAK_SEQUENCE);
}

uint8_t rc_take_request(struct nic *nic, struct qp *qp, struct packet *p)
{
	const struct packet_form *form = packet_form(p);
	struct responder *resp = &qp->resp;
	int32_t ahead = psn_diff(p->psn, resp->psn);
	uint8_t sender = MOOR_SYN_NONE;
	uint32_t budget = PORT_UNIT;

	/* Unfinished answers are sent in the QP's own quanta, not in the requester's. */
	if (responder_has_more(resp))
		budget = 0;
	/* The responder has given up, and only answers what came before the fault. */
	if (resp->fault.set)
		return MOOR_SYN_NONE;
	if (half_is_parked(&resp->half))
		return still_waits(nic, qp, p, ahead);
	if (ahead < 0) {
		nic->wire->traffic.duplicates++;
		take_again(qp, p);
	} else if (ahead > 0) {
		nic->wire->traffic.gaps++;
		out_of_sequence(qp);
	} else {
		resp->nak_sent = false;
		/* A NAK that is still due asked for this packet, which is here now. */
		if (resp->due & AETH_CODE)
			resp->is_due = false;
		if (!resp->established) {
			resp->established = true;
			qp_event(nic, qp, MOOR_EVENT_COMM_EST);
		}
		if (!in_sequence(resp, form))
			refuse_request(resp, "HWI RC-1", MOOR_SYN_LENGTH);
		else if (qp->is_target && !xrc_aim(nic, qp, p))
			refuse_request(resp, "HWI XRC-6", MOOR_SYN_QP_RIGHTS);
		else if (form->kind > PACKET_KIND_WRITE && !has_room(qp))
			refuse_request(resp, "HWI RC-40", MOOR_SYN_QP_RIGHTS);
		else if (form->kind == PACKET_KIND_READ)
			take_read(nic, qp, p, &budget);
		else if (form->kind == PACKET_KIND_ATOMIC)
			take_atomic(nic, qp, p);
		else if (form->kind == PACKET_KIND_ATOMIC_WRITE)
			sender = take_atomic_write(nic, qp, p);
		else if (form->kind == PACKET_KIND_FLUSH)
			take_flush(nic, qp, p);
		else
			sender = take_data(nic, qp, p);
		/* A READ has been accepted: answer_read() has told the requester. */
		if (form->kind != PACKET_KIND_READ &&
		    half_is_parked(&resp->half))
			return begin_to_wait(nic, qp);
	}
	/* Sends at most a unit of answers at once; the QP's own quanta do the rest. */
	rc_answer(nic, qp, &budget);
	if (responder_has_more(resp))
		qp_enter_list(qp, &nic->qps->ready);
	return sender;
}
