// SPDX-License-Identifier: GPL-2.0
/*
 * Unreliable connection (IBA 9.8, HWI 12.3): nothing is answered. When a packet of a
 * message is missing or refused, the rest of the message is dropped.
 */
#include "transport/port.h"
#include "transport/transport.h"

/*
 * Is the fault the receiver's own, of its queues or of what a receive names (HWI UC-4)?
 * If not, a receive that has been taken stays for the next message.
 */
static bool own_fault(const struct responder_fault *fault)
{
	return fault->nak == AETH_NAK_OPERATION;
}

static uint8_t uc_receive(struct nic *nic, struct qp *qp, struct packet *p)
{
	const struct packet_form *form = packet_form(p);
	struct responder *resp = &qp->resp;
	struct responder_fault fault = { 0 };
	uint8_t sender = MOOR_SYN_NONE;
	const uint32_t psn = resp->psn;
	enum placed placed;

	if ((form->kind != PACKET_KIND_SEND && form->kind != PACKET_KIND_WRITE) ||
	    (form->headers & PACKET_HAS_INV))
		return MOOR_SYN_NONE;
	if (form->first)
		resp->dropping = false;
	else if (p->psn != resp->psn || resp->message != form->kind)
		resp->dropping = true;
	resp->psn = (p->psn + p->num_psn) & PSN_MASK;
	if (resp->dropping) {
		nic->wire->traffic.gaps++;
		return MOOR_SYN_NONE;
	}
	if (!resp->established) {
		resp->established = true;
		qp_event(nic, qp, MOOR_EVENT_COMM_EST);
	}
	placed = responder_place(nic, qp, p, &fault, &sender);
	if (placed == PLACED)
		return MOOR_SYN_NONE;
	if (sender == SYN_PAGE_FAULT) {
		/* The sender waits for a page: the packet is still to come. */
		resp->psn = psn;
		return sender;
	}
	resp->message = PACKET_KIND_UNKNOWN;
	resp->dropping = true;
	fault.psn = p->psn;
	if (placed == PLACED_REFUSED && own_fault(&fault))
		responder_fail(nic, qp, &fault);
	else if (placed == PLACED_REFUSED)
		responder_log(qp, &fault);
	return sender;
}

const struct transport uc_transport = {
	.packets = PACKET_TRANSPORT_UC,
	.wqe_opcodes = WQE_BIT(SEND) | WQE_BIT(SEND_IMM) | WQE_BIT(WRITE) |
		       WQE_BIT(WRITE_IMM) | WQE_LOCAL,
	.may_begin = transport_begins_at_once,
	.receive = uc_receive,
	.answer = transport_has_no_answer,
	.rest = transport_has_no_timer,
	.expired = transport_has_no_timer,
};
