// SPDX-License-Identifier: GPL-2.0
/*
 * The responder's half that all transports share: receives, the placing of
 * SENDs and WRITEs packet by packet, and what is done about errors.
 */
#include "base/log.h"
#include "base/rules.h"
#include "memory/mr_fast.h"
#include "queues/srq.h"
#include "transport/complete.h"
#include "transport/responder.h"
#include "transport/transport.h"

static bool refuse(struct responder_fault *fault, const char *rule, uint8_t nak,
		   uint8_t event, uint8_t status, uint8_t syndrome)
{
	*fault = (struct responder_fault){
		.set = true,
		.rule = rule,
		.nak = nak,
		.event = event,
		.status = status,
		.syndrome = syndrome,
	};
	return false;
}

static bool refuse_request(struct responder_fault *fault, uint8_t syndrome)
{
	return refuse(fault, "HWI RC-30", AETH_NAK_INVALID, MOOR_EVENT_QP_REQ_ERR, 0,
		      syndrome);
}

static bool refuse_access(struct responder_fault *fault, uint8_t syndrome)
{
	return refuse(fault, syndrome_rule(syndrome), AETH_NAK_ACCESS,
		      MOOR_EVENT_QP_ACCESS_ERR, 0, syndrome);
}

/* The CQE of the receive WQE tells what was wrong: there is no event. */
static bool refuse_receive(struct responder_fault *fault, const char *rule,
			   uint8_t nak, uint8_t status, uint8_t syndrome)
{
	return refuse(fault, rule, nak, 0, status, syndrome);
}

void responder_log(const struct qp *qp, const struct responder_fault *fault)
{
	log_refused(fault->rule, "QP 0x%06x: a request at PSN %u, key 0x%08x: %s", qp->qpn,
		    fault->psn, fault->key, syndrome_name(fault->syndrome));
}

void responder_fail(struct nic *nic, struct qp *qp,
		    const struct responder_fault *fault)
{
	struct responder *resp = &qp->resp;

	if (fault->status) {
		log_refused(fault->rule, "QP 0x%06x receive WQE %u: status %u (%s)",
			    qp->qpn, resp->wqe.index, fault->status,
			    syndrome_name(fault->syndrome));
		resp->holds_wqe = false;
		complete_recv(nic, qp, &resp->wqe, fault->status,
			      fault->syndrome);
	} else if (fault->event) {
		responder_log(qp, fault);
		qp_event(nic, qp, fault->event);
	} else {
		log_refused(fault->rule, "QP 0x%06x receive WQE %u: its CQ takes no CQE",
			    qp->qpn, resp->wqe.index);
	}
	qp_error(nic, qp);
}

/* Return: false when the queue is broken, and the QP with it. */
static bool look_for_receive(struct qp *qp, bool *there)
{
	*there = qp->resp.holds_wqe;
	if (*there)
		return true;
	switch (queue_look(qp->recv_queue)) {
	case QUEUE_WORK:
		*there = true;
		return true;
	case QUEUE_BROKEN:
		return false;
	default:
		/* Another QP may have found the SRQ broken before. */
		return !qp->recv_queue->broken;
	}
}

enum placed responder_take_receive(struct nic *nic, struct qp *qp,
				   struct responder_fault *fault)
{
	struct responder *resp = &qp->resp;
	bool there;

	if (!look_for_receive(qp, &there))
		goto broken;
	if (!there)
		return PLACED_NOT_READY;
	if (resp->holds_wqe)
		return PLACED;
	switch (wqe_fetch_recv(nic, qp->recv_queue, &resp->wqe)) {
	case WQE_OK:
		resp->holds_wqe = true;
		if (qp->srq)
			srq_look_at_limit(nic, qp->srq);
		return PLACED;
	case WQE_UNREACHABLE:
		goto broken;
	default:
		resp->holds_wqe = true;
		if (qp->srq)
			srq_look_at_limit(nic, qp->srq);
		refuse_receive(fault, "HWI RC-24", AETH_NAK_OPERATION,
			       MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
		return PLACED_REFUSED;
	}
broken:
	if (qp->srq)
		srq_fail(nic, qp->srq);
	refuse(fault, "HWI RC-23", AETH_NAK_OPERATION, MOOR_EVENT_QP_FATAL, 0,
	       MOOR_SYN_NONE);
	return PLACED_REFUSED;
}

bool responder_check_range(struct nic *nic, struct qp *qp, struct stream *range,
			   struct responder_fault *fault)
{
	const struct segment *seg = range->segments;
	uint8_t syndrome;

	if (!(qp->access & range->need))
		syndrome = MOOR_SYN_QP_RIGHTS;
	else if (seg->length)
		syndrome = stream_grant(nic, range, seg->length);
	else
		/* A range of no bytes needs no key (HWI ACC-11). */
		syndrome = MOOR_SYN_NONE;
	if (!syndrome)
		return true;
	refuse_access(fault, syndrome);
	fault->key = seg->key;
	return false;
}

/*
 * Does the message whose first packet stopped half-way come again? An unreliable connection
 * repeats nothing, but its requester too waits for pages (HWI ODP-15).
 */
static bool may_begin_anew(const struct qp *qp, enum placed result,
			   uint8_t sender)
{
	return result == PLACED_PARKED || sender == SYN_PAGE_FAULT ||
	       (sender && qp->transport->acknowledged);
}

/*
 * Is @p a message that was tried before? Bytes may have been written: it goes on under the
 * registrations that it met then (HWI RC-45).
 */
static bool begins_anew(const struct responder *resp, const struct packet *p)
{
	return resp->tried == packet_form(p)->kind && resp->tried_psn == p->psn;
}

/* The receive may be left by another message, or by a first try of this. */
static enum placed begin_send(struct nic *nic, struct qp *qp,
			      const struct packet *p,
			      struct responder_fault *fault)
{
	struct responder *resp = &qp->resp;
	enum placed taken = responder_take_receive(nic, qp, fault);

	if (taken != PLACED)
		return taken;
	if (!begins_anew(resp, p))
		recv_wqe_anew(&resp->wqe);
	stream_init(&resp->place, qp->recv_actor, resp->wqe.sge,
		    resp->wqe.num_sge, MOOR_ACCESS_LOCAL_WRITE);
	return PLACED;
}

/*
 * A WRITE with immediate that is a single packet takes a receive, if one is there: its
 * CQE tells why the WRITE was refused (IBA 11.6.2), but not on UC (HWI UC-3).
 */
static void tell_receive(struct nic *nic, struct qp *qp, const struct packet *p,
			 struct responder_fault *fault)
{
	struct responder_fault of_receive;

	if (qp->transport->acknowledged &&
	    (packet_form(p)->headers & PACKET_HAS_IMM) &&
	    p->dma_length <= mtu_of(qp->resp.path_mtu) &&
	    responder_take_receive(nic, qp, &of_receive) == PLACED)
		fault->status = MOOR_WC_LOC_ACCESS_ERR;
}

static enum placed begin_write(struct nic *nic, struct qp *qp,
			       const struct packet *p,
			       struct responder_fault *fault)
{
	struct responder *resp = &qp->resp;
	const struct segment *tried = &resp->range;
	bool anew = begins_anew(resp, p) && tried->addr == p->addr &&
		    tried->length == p->dma_length && tried->key == p->rkey;

	resp->range = (struct segment){
		.addr = p->addr,
		.length = p->dma_length,
		.key = p->rkey,
		.epoch = anew ? tried->epoch : 0,
	};
	stream_init(&resp->place, &qp->actor, &resp->range, 1,
		    MOOR_ACCESS_REMOTE_WRITE);
	if (responder_check_range(nic, qp, &resp->place, fault))
		return PLACED;
	tell_receive(nic, qp, p, fault);
	return PLACED_REFUSED;
}

/* Packets that are not full have to be last: both ends agree on the MTU. */
static bool fits_mtu(const struct qp *qp, const struct packet *p)
{
	uint8_t path_mtu = qp->resp.path_mtu;

	return p->num_psn == packets_of(path_mtu, p->length) &&
	       (packet_form(p)->last ||
		(p->length && !(p->length % mtu_of(path_mtu))));
}

/* Does the packet agree with where the message is to end? */
static bool check_length(const struct qp *qp, const struct packet *p,
			 uint32_t placed, struct responder_fault *fault)
{
	const struct packet_form *form = packet_form(p);
	const struct responder *resp = &qp->resp;
	uint64_t end = (uint64_t)placed + p->length;

	if (form->kind == PACKET_KIND_SEND)
		return end <= resp->wqe.room ||
		       refuse_receive(fault, "HWI RC-8", AETH_NAK_INVALID,
				      MOOR_WC_LOC_LEN_ERR, MOOR_SYN_LENGTH);
	return (form->last ? end == resp->range.length :
			     end < resp->range.length) ||
	       refuse_request(fault, MOOR_SYN_LENGTH);
}

/*
 * No requester sends a packet again that an unreliable connection has not taken (HWI
 * ODP-15): that does not wait. The length of a SEND is not known before its last packet.
 */
static bool waits_for_page(struct nic *nic, struct qp *qp,
			   const struct packet *p, uint8_t *syndrome)
{
	const struct packet_form *form = packet_form(p);
	const struct stream *place = &qp->resp.place;
	bool known = form->kind == PACKET_KIND_SEND && form->last;

	if (qp->transport->acknowledged)
		return responder_waits(nic, qp, p->psn, place, known ?
				       place->granted_to :
				       place->segments[place->current].length,
				       syndrome);
	if (*syndrome == SYN_PAGE_FAULT)
		*syndrome = MOOR_SYN_TRANSLATION;
	return false;
}

void responder_refuse_memory(struct responder_fault *fault, uint8_t syndrome)
{
	refuse_receive(fault, "HWI RC-9", AETH_NAK_OPERATION,
		       MOOR_WC_LOC_PROT_ERR, syndrome);
}

/* Places the bytes of a packet. */
static enum placed put(struct nic *nic, struct qp *qp, struct packet *p,
		       uint32_t placed, struct responder_fault *fault,
		       uint8_t *sender)
{
	struct responder *resp = &qp->resp;
	struct stream *culprit;
	uint8_t syndrome;

	/* At byte 0 the stream stands already, and a seek would drop a WRITE's grant. */
	if (placed)
		stream_seek(&resp->place, placed);
	syndrome = transfer(nic, &resp->place, p->payload, p->length, &culprit);
	if (!syndrome)
		return PLACED;
	if (culprit == p->payload) {
		*sender = syndrome;
		return PLACED_SENDER_FAULT;
	}
	if (waits_for_page(nic, qp, p, &syndrome))
		return PLACED_PARKED;
	if (packet_form(p)->kind == PACKET_KIND_SEND) {
		responder_refuse_memory(fault, syndrome);
	} else {
		refuse_access(fault, syndrome);
		fault->key = resp->range.key;
	}
	return PLACED_REFUSED;
}

/* The last packet of a message: its receive ends. */
static enum placed end_message(struct nic *nic, struct qp *qp,
			       const struct packet *p, uint32_t length,
			       struct responder_fault *fault)
{
	uint8_t syndrome = packet_form(p)->headers & PACKET_HAS_INV ?
			   mr_invalidate(nic, &qp->actor, p->inv_key) :
			   MOOR_SYN_NONE;

	/* The receiver's own fault, of which the sender is not told. */
	if (syndrome) {
		refuse(fault, "HWI RC-27", 0, MOOR_EVENT_QP_ACCESS_ERR, 0,
		       syndrome);
		fault->key = p->inv_key;
		return PLACED_REFUSED;
	}
	qp->resp.holds_wqe = false;
	if (complete_recv_message(nic, qp, &qp->resp.wqe, p, length))
		return PLACED;
	/* Without a CQE the client never hears of the message: tell the sender so. */
	refuse(fault, "HWI RC-42", AETH_NAK_OPERATION, 0, 0, MOOR_SYN_NONE);
	return PLACED_REFUSED;
}

enum placed responder_place(struct nic *nic, struct qp *qp, struct packet *p,
			    struct responder_fault *fault, uint8_t *sender)
{
	const struct packet_form *form = packet_form(p);
	bool ends_receive = form->last && (form->kind == PACKET_KIND_SEND ||
					   (form->headers & PACKET_HAS_IMM));
	struct responder *resp = &qp->resp;
	uint32_t placed = form->first ? 0 : resp->placed;
	enum placed result = PLACED;

	if (form->first)
		resp->path_mtu = qp->path_mtu;
	if (!fits_mtu(qp, p)) {
		refuse_request(fault, MOOR_SYN_LENGTH);
		return PLACED_REFUSED;
	}
	if (form->first)
		result = form->kind == PACKET_KIND_SEND ?
			 begin_send(nic, qp, p, fault) :
			 begin_write(nic, qp, p, fault);
	/* A WRITE with immediate takes a receive only for its CQE. */
	if (result == PLACED && ends_receive)
		result = responder_take_receive(nic, qp, fault);
	if (result == PLACED && !check_length(qp, p, placed, fault))
		result = PLACED_REFUSED;
	if (result == PLACED)
		result = put(nic, qp, p, placed, fault, sender);
	if (result == PLACED && ends_receive)
		result = end_message(nic, qp, p, placed + p->length, fault);
	resp->tried = PACKET_KIND_UNKNOWN;
	if (result != PLACED) {
		if (form->first && may_begin_anew(qp, result, *sender))
			resp->tried = form->kind;
		resp->tried_psn = p->psn;
		return result;
	}
	resp->placed = placed + p->length;
	resp->message = form->last ? PACKET_KIND_UNKNOWN : form->kind;
	return PLACED;
}

bool responder_flush_one(struct nic *nic, struct qp *qp)
{
	struct responder *resp = &qp->resp;

	if (!resp->holds_wqe) {
		if (queue_look(&qp->rq) != QUEUE_WORK ||
		    wqe_fetch_recv(nic, &qp->rq, &resp->wqe) == WQE_UNREACHABLE)
			return false;
	}
	resp->holds_wqe = false;
	complete_recv(nic, qp, &resp->wqe, MOOR_WC_WR_FLUSH_ERR, MOOR_SYN_NONE);
	return true;
}
