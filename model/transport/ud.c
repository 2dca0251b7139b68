// SPDX-License-Identifier: GPL-2.0
/*
 * Datagrams (IBA 9.8.3, HWI 12.4): each is one packet, without a connection. A datagram
 * that no QP is to receive, or that does not fit, is dropped.
 */
#include "transport/complete.h"
#include "transport/filter.h"
#include "transport/gid.h"
#include "transport/port.h"
#include "transport/transport.h"
#include "transport/ud.h"

static bool receives(const struct qp *qp)
{
	return qp->state == MOOR_QPS_RTR || qp->state == MOOR_QPS_RTS ||
	       qp->state == MOOR_QPS_SQD || qp->state == MOOR_QPS_SQE;
}

/* The header, then the message. @culprit: as transfer(). */
static uint8_t place(struct nic *nic, struct qp *qp, struct packet *p,
		     struct stream **culprit)
{
	struct stream header = { .bytes = (uint8_t *)p->datagram->header };
	struct stream *to = &qp->resp.place;
	uint8_t syndrome;

	stream_init(to, qp->recv_actor, qp->resp.wqe.sge, qp->resp.wqe.num_sge,
		    MOOR_ACCESS_LOCAL_WRITE);
	syndrome = transfer(nic, to, &header, MOOR_GRH_SIZE, culprit);
	if (!syndrome)
		syndrome = transfer(nic, to, p->payload, p->length, culprit);
	return syndrome;
}

/* A receive is there, and has room. Return: as port_send(). */
static uint8_t fill_receive(struct nic *nic, struct qp *qp, struct packet *p)
{
	struct responder_fault fault = { 0 };
	struct stream *culprit;
	uint8_t syndrome = place(nic, qp, p, &culprit);

	if (syndrome && culprit == p->payload) {
		recv_wqe_anew(&qp->resp.wqe);
		return syndrome;
	}
	if (syndrome) {
		/* A datagram is not sent again when the page is there (HWI ODP-15). */
		responder_refuse_memory(&fault, syndrome == SYN_PAGE_FAULT ?
						MOOR_SYN_TRANSLATION : syndrome);
		responder_fail(nic, qp, &fault);
		return MOOR_SYN_NONE;
	}
	qp->resp.holds_wqe = false;
	if (!complete_recv_message(nic, qp, &qp->resp.wqe, p,
				   MOOR_GRH_SIZE + p->length)) {
		fault.rule = "HWI RC-42";
		responder_fail(nic, qp, &fault);
	}
	return MOOR_SYN_NONE;
}

/* @qp: the QP that @p is for, or NULL. Return: as port_send(). */
static uint8_t deliver(struct nic *nic, struct qp *qp, struct packet *p)
{
	struct responder_fault fault;

	if (!qp || !qp->datagrams || !receives(qp) || p->qkey != qp->qkey ||
	    p->length > mtu_of(qp->path_mtu))
		return MOOR_SYN_NONE;
	switch (responder_take_receive(nic, qp, &fault)) {
	case PLACED:
		if (MOOR_GRH_SIZE + p->length <= qp->resp.wqe.room)
			return fill_receive(nic, qp, p);
		break;
	case PLACED_REFUSED:
		responder_fail(nic, qp, &fault);
		break;
	default:
		break;
	}
	return MOOR_SYN_NONE;
}

/* Delivers to each QP that is attached. The payload is read once (HWI FLT-5). */
static uint8_t multicast(struct nic *nic, struct packet *p)
{
	uint32_t at = 0;
	const struct filter *f = filter_next(nic, p->dgid, &at);
	struct stream *culprit, to = { 0 };
	uint8_t bytes[PACKET_MAX_MTU], syndrome;

	if (!f || p->length > sizeof(bytes))
		return MOOR_SYN_NONE;
	to.bytes = bytes;
	syndrome = transfer(nic, &to, p->payload, p->length, &culprit);
	if (syndrome)
		return syndrome;
	for (; f; f = filter_next(nic, p->dgid, &at)) {
		struct stream from = { .bytes = bytes };
		struct packet copy = *p;

		copy.payload = &from;
		deliver(nic, qp_find(nic, f->qpn), &copy);
	}
	return MOOR_SYN_NONE;
}

uint8_t ud_receive(struct nic *nic, struct packet *p)
{
	const struct packet_form *form = packet_form(p);

	if (form->kind != PACKET_KIND_SEND || !form->first || !form->last ||
	    (form->headers & PACKET_HAS_INV) || !p->datagram)
		return MOOR_SYN_NONE;
	if (gid_is_multicast(p->dgid))
		return multicast(nic, p);
	if (!gid_is_own(nic, p->dgid))
		return MOOR_SYN_NONE;
	return deliver(nic, qp_find(nic, p->dest_qpn), p);
}

/* The table has no receive(): ud_receive() finds the QPs that a packet is for. */
const struct transport ud_transport = {
	.packets = PACKET_TRANSPORT_UD,
	.wqe_opcodes = WQE_BIT(SEND) | WQE_BIT(SEND_IMM),
	.may_begin = transport_begins_at_once,
	.answer = transport_has_no_answer,
	.rest = transport_has_no_timer,
	.expired = transport_has_no_timer,
};
