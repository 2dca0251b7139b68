// SPDX-License-Identifier: GPL-2.0
/* Which queue pair a packet is for, and what its transport does with it. */
#include <stddef.h>
#include <string.h>

#include "transport/rc.h"
#include "transport/transport.h"
#include "transport/ud.h"

static bool gid_is(const struct nic *nic, uint8_t index, const uint8_t *gid)
{
	const struct gid_entry *entry = &nic->gids->entry[index];

	return entry->type && !memcmp(entry->gid, gid, sizeof(entry->gid));
}

/* Is @p from the queue pair, and the address, that @qp is connected to? */
static bool is_from_peer(const struct nic *nic, const struct qp *qp,
			 const struct packet *p)
{
	return p->src_qpn == qp->dest_qpn &&
	       !memcmp(p->sgid, qp->dgid, sizeof(qp->dgid)) &&
	       gid_is(nic, qp->sgid_index, p->dgid);
}

uint8_t transport_receive(struct nic *nic, struct packet *p)
{
	struct qp *qp = qp_find(nic, p->dest_qpn);

	if ((p->opcode & PACKET_TRANSPORT) == PACKET_TRANSPORT_UD)
		return ud_receive(nic, p);
	if (!qp || (p->opcode & PACKET_TRANSPORT) != qp->transport->packets ||
	    (qp->state != MOOR_QPS_RTR && qp->state != MOOR_QPS_RTS &&
	     qp->state != MOOR_QPS_SQD) || !is_from_peer(nic, qp, p))
		return MOOR_SYN_NONE;
	return qp->transport->receive(nic, qp, p);
}

bool transport_receive_bytes(struct nic *nic, struct packet *p,
			     const uint8_t *bytes, size_t len)
{
	struct stream payload = { 0 };
	const uint8_t *at;

	if (!packet_decode(p, &at, bytes, len))
		return false;
	/* The cast is safe: a payload is only read. */
	payload.bytes = (uint8_t *)at;
	p->payload = &payload;
	transport_receive(nic, p);
	p->payload = NULL;
	return true;
}

bool transport_begins_at_once(const struct qp *qp, const struct request *request)
{
	(void)qp;
	(void)request;
	return true;
}

void transport_has_no_answer(struct nic *nic, struct qp *qp, uint32_t *budget)
{
	(void)nic;
	(void)qp;
	(void)budget;
}

void transport_has_no_timer(struct nic *nic, struct qp *qp)
{
	(void)nic;
	(void)qp;
}

static uint8_t rc_receive(struct nic *nic, struct qp *qp, struct packet *p)
{
	switch (packet_form(p)->kind) {
	case PACKET_KIND_UNKNOWN:
		return MOOR_SYN_NONE;
	case PACKET_KIND_READ_RESPONSE:
	case PACKET_KIND_ACKNOWLEDGE:
	case PACKET_KIND_ATOMIC_ACKNOWLEDGE:
		return rc_take_response(nic, qp, p);
	default:
		return rc_take_request(nic, qp, p);
	}
}

const struct transport rc_transport = {
	.packets = PACKET_TRANSPORT_RC,
	.wqe_opcodes = WQE_RC,
	.may_begin = rc_may_begin,
	.acknowledged = true,
	.receive = rc_receive,
	.answer = rc_answer,
	.rest = rc_rest,
	.expired = rc_expired,
};
