// SPDX-License-Identifier: GPL-2.0
/* The responder of a reliable connection (IBA 9.7, HWI 12). */
#include <endian.h>

#include "log.h"
#include "qp.h"
#include "relaxed.h"

#define OPCODE_BIT(op)	(1u << MOOR_WQE_##op)
#define SENDS		(OPCODE_BIT(SEND) | OPCODE_BIT(SEND_IMM) | \
			 OPCODE_BIT(SEND_INV))
#define RECEIVES	(SENDS | OPCODE_BIT(WRITE_IMM))
#define WRITES		(OPCODE_BIT(WRITE) | OPCODE_BIT(WRITE_IMM))

static bool gid_matches(const struct nic *nic, uint8_t index,
			const uint8_t *gid)
{
	const struct gid_entry *entry = &nic->gid[index];

	return entry->type && !memcmp(entry->gid, gid, sizeof(entry->gid));
}

static struct qp *find_peer(struct nic *nic, const struct qp *qp)
{
	struct qp *peer = qp_find(nic, qp->dest_qpn);

	if (!peer || peer->dest_qpn != qp->qpn ||
	    (peer->state != MOOR_QPS_RTR && peer->state != MOOR_QPS_RTS &&
	     peer->state != MOOR_QPS_SQD))
		return NULL;
	if (!gid_matches(nic, peer->sgid_index, qp->dgid) ||
	    !gid_matches(nic, qp->sgid_index, peer->dgid))
		return NULL;
	return peer;
}

struct qp *rc_peer(struct nic *nic, struct qp *qp)
{
	if (qp->peer_as_of != nic->connections) {
		qp->peer = find_peer(nic, qp);
		qp->peer_as_of = nic->connections;
	}
	return qp->peer;
}

static enum rc_answer nak(struct nic *nic, struct qp *qp, struct qp *from,
			  enum rc_answer answer, const char *rule,
			  uint8_t syndrome)
{
	log_refused(rule, "QP 0x%06x: opcode 0x%02x from QP 0x%06x, rkey 0x%08x: %s",
		    qp->qpn, from->req.wqe.opcode, from->qpn,
		    from->req.wqe.rkey, syndrome_name(syndrome));
	if (answer == RC_NAK_ACCESS)
		qp_event(nic, qp, MOOR_EVENT_QP_ACCESS_ERR);
	else if (answer == RC_NAK_INVALID)
		qp_event(nic, qp, MOOR_EVENT_QP_REQ_ERR);
	qp_error(nic, qp);
	return answer;
}

static enum rc_answer nak_access(struct nic *nic, struct qp *qp,
				 struct qp *from, uint8_t syndrome)
{
	return nak(nic, qp, from, RC_NAK_ACCESS, syndrome_rule(syndrome),
		   syndrome);
}

/* The receive WQE tells what was wrong: no event. */
static enum rc_answer nak_receive(struct nic *nic, struct qp *qp,
				  enum rc_answer answer, const char *rule,
				  uint8_t status, uint8_t syndrome)
{
	log_refused(rule, "QP 0x%06x receive WQE %u: status %u (%s)",
		    qp->qpn, qp->resp.wqe.index, status,
		    syndrome_name(syndrome));
	qp->resp.holds_wqe = false;
	complete_recv(nic, qp, &qp->resp.wqe, status, syndrome);
	qp_error(nic, qp);
	return answer;
}

/* RC_ACK: there is a receive WQE to take, or one that an abandoned message took. */
static enum rc_answer look_for_receive(struct nic *nic, struct qp *qp)
{
	if (qp->resp.holds_wqe)
		return RC_ACK;
	switch (queue_look(&qp->rq)) {
	case QUEUE_WORK:
		return RC_ACK;
	case QUEUE_BROKEN:
		qp_queue_failed(nic, qp);
		return RC_NAK_OPERATION;
	default:
		return RC_RNR_NAK;
	}
}

static enum rc_answer take_receive(struct nic *nic, struct qp *qp)
{
	if (qp->resp.holds_wqe)
		return RC_ACK;
	switch (wqe_fetch_recv(nic, qp, &qp->resp.wqe)) {
	case WQE_OK:
		qp->resp.holds_wqe = true;
		return RC_ACK;
	case WQE_UNREACHABLE:
		qp_queue_failed(nic, qp);
		return RC_NAK_OPERATION;
	default:
		return nak_receive(nic, qp, RC_NAK_OPERATION, "HWI RC-24",
				   MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	}
}

static enum rc_answer begin_send(struct nic *nic, struct qp *qp,
				 struct qp *from)
{
	const struct send_wqe *wqe = &from->req.wqe;
	struct responder *resp = &qp->resp;
	enum rc_answer answer = look_for_receive(nic, qp);

	if (answer == RC_ACK)
		answer = take_receive(nic, qp);
	if (answer != RC_ACK)
		return answer;
	if (wqe->length > resp->wqe.room)
		return nak_receive(nic, qp, RC_NAK_INVALID, "HWI RC-8",
				   MOOR_WC_LOC_LEN_ERR, MOOR_SYN_LENGTH);
	resp->remote = (struct stream){
		.actor = &qp->actor,
		.segments = resp->wqe.sge,
		.num_segments = resp->wqe.num_sge,
		.need = MOOR_ACCESS_LOCAL_WRITE,
	};
	return RC_ACK;
}

/* Is there a receive WQE to tell an error by? Malformed or not, it does. */
static bool take_receive_for_error(struct nic *nic, struct qp *qp)
{
	return qp->resp.holds_wqe ||
	       (queue_look(&qp->rq) == QUEUE_WORK &&
		wqe_fetch_recv(nic, qp, &qp->resp.wqe) != WQE_UNREACHABLE);
}

/* HWI RC-6, RC-25: the packet that names the range may be the one that takes a receive. */
static enum rc_answer refuse_range(struct nic *nic, struct qp *qp,
				   struct qp *from, uint8_t syndrome)
{
	const struct send_wqe *wqe = &from->req.wqe;

	if (wqe->opcode == MOOR_WQE_WRITE_IMM &&
	    rc_packets(from, wqe->length) == 1 &&
	    take_receive_for_error(nic, qp))
		return nak_receive(nic, qp, RC_NAK_ACCESS, "HWI RC-25",
				   MOOR_WC_LOC_ACCESS_ERR, syndrome);
	return nak_access(nic, qp, from, syndrome);
}

/* The whole range of a WRITE or READ, as its first packet names it. */
static enum rc_answer begin_remote(struct nic *nic, struct qp *qp,
				   struct qp *from, uint32_t need)
{
	const struct send_wqe *wqe = &from->req.wqe;
	struct responder *resp = &qp->resp;
	struct mr_grant grant;
	uint8_t syndrome;

	if (!(qp->access & need))
		return refuse_range(nic, qp, from, MOOR_SYN_QP_RIGHTS);
	if (wqe->length) {
		syndrome = mr_grant_access(nic, &qp->actor, wqe->rkey,
					   wqe->remote_addr, wqe->length, need,
					   &grant);
		if (syndrome)
			return refuse_range(nic, qp, from, syndrome);
	}
	resp->range = (struct segment){
		.addr = wqe->remote_addr,
		.length = wqe->length,
		.key = wqe->rkey,
	};
	resp->remote = (struct stream){
		.actor = &qp->actor,
		.segments = &resp->range,
		.num_segments = 1,
		.need = need,
	};
	return RC_ACK;
}

static enum rc_answer begin_message(struct nic *nic, struct qp *qp,
				    struct qp *from)
{
	const struct send_wqe *wqe = &from->req.wqe;
	enum rc_answer answer;

	if (SENDS & 1u << wqe->opcode)
		return begin_send(nic, qp, from);
	if (WRITES & 1u << wqe->opcode) {
		answer = begin_remote(nic, qp, from, MOOR_ACCESS_REMOTE_WRITE);
		if (answer == RC_ACK && wqe->opcode == MOOR_WQE_WRITE_IMM)
			answer = look_for_receive(nic, qp);
		return answer;
	}
	if (!qp->max_dest_rd_atomic)
		return nak(nic, qp, from, RC_NAK_INVALID, "HWI RC-40",
			   MOOR_SYN_QP_RIGHTS);
	if (wqe->opcode == MOOR_WQE_READ)
		return begin_remote(nic, qp, from, MOOR_ACCESS_REMOTE_READ);
	if (wqe->remote_addr % sizeof(uint64_t))
		return nak(nic, qp, from, RC_NAK_INVALID, "HWI RC-7",
			   MOOR_SYN_ALIGNMENT);
	return begin_remote(nic, qp, from, MOOR_ACCESS_REMOTE_ATOMIC);
}

/* Packets that are not full have to be last: both ends agree on the MTU. */
static bool mtu_fits(const struct qp *qp, const struct qp *from)
{
	uint8_t smaller = qp->path_mtu < from->path_mtu ? qp->path_mtu :
							  from->path_mtu;

	return qp->path_mtu == from->path_mtu ||
	       from->req.wqe.length <= 128u << smaller;
}

enum rc_answer rc_responder_begin(struct nic *nic, struct qp *qp,
				  struct qp *from)
{
	struct responder *resp = &qp->resp;
	enum rc_answer answer;

	if (from->req.psn != resp->psn)
		return RC_SILENCE;
	/* HWI RC-22: a message before it that was abandoned is begun anew. */
	resp->message = 0;
	if (!resp->established) {
		resp->established = true;
		qp_event(nic, qp, MOOR_EVENT_COMM_EST);
	}
	if (!mtu_fits(qp, from))
		return nak(nic, qp, from, RC_NAK_INVALID, "HWI RC-30",
			   MOOR_SYN_LENGTH);
	answer = begin_message(nic, qp, from);
	if (answer == RC_ACK) {
		from->req.message = ++nic->last_message;
		resp->message = from->req.message;
	}
	return answer;
}

enum rc_answer rc_responder_refuse(struct nic *nic, struct qp *qp,
				   struct qp *from, uint8_t syndrome)
{
	if (SENDS & 1u << from->req.wqe.opcode)
		return nak_receive(nic, qp, RC_NAK_OPERATION, "HWI RC-9",
				   MOOR_WC_LOC_PROT_ERR, syndrome);
	return nak_access(nic, qp, from, syndrome);
}

static uint64_t atomic_result(const struct send_wqe *wqe, uint64_t old)
{
	if (wqe->opcode == MOOR_WQE_FETCH_ADD)
		return old + wqe->swap_add;
	return old == wqe->compare ? wqe->swap_add : old;
}

enum rc_answer rc_responder_atomic(struct nic *nic, struct qp *qp,
				   struct qp *from, uint64_t *original)
{
	const struct send_wqe *wqe = &from->req.wqe;
	uint64_t len = sizeof(uint64_t), old, new;
	struct mr_grant grant;
	uint8_t *ptr, syndrome;

	syndrome = mr_grant_access(nic, &qp->actor, wqe->rkey, wqe->remote_addr,
				   len, MOOR_ACCESS_REMOTE_ATOMIC, &grant);
	if (!syndrome)
		syndrome = mr_grant_ptr(nic, &grant, 0, &len, &ptr);
	if (syndrome)
		return nak_access(nic, qp, from, syndrome);
	/* The address is aligned, what it is mapped to need not be. */
	if (len < sizeof(uint64_t) || (uintptr_t)ptr % sizeof(uint64_t))
		return nak(nic, qp, from, RC_NAK_INVALID, "HWI RC-39",
			   MOOR_SYN_ALIGNMENT);

	/* Nothing relaxed passes an atomic (HWI ORD-12). */
	relaxed_release(nic);
	old = __atomic_load_n((uint64_t *)ptr, __ATOMIC_RELAXED);
	do {
		*original = le64toh(old);
		new = htole64(atomic_result(wqe, *original));
	} while (!__atomic_compare_exchange_n((uint64_t *)ptr, &old, new, false,
					      __ATOMIC_SEQ_CST,
					      __ATOMIC_RELAXED));
	return RC_ACK;
}

/* IBA's class J: a local error, of which the requester hears nothing (HWI RC-27). */
static enum rc_answer fail_invalidate(struct nic *nic, struct qp *qp,
				      const struct qp *from, uint8_t syndrome)
{
	log_refused("HWI RC-27", "QP 0x%06x: SEND_INV from QP 0x%06x, key 0x%08x: %s",
		    qp->qpn, from->qpn, from->req.wqe.inv_key,
		    syndrome_name(syndrome));
	qp_event(nic, qp, MOOR_EVENT_QP_ACCESS_ERR);
	qp_error(nic, qp);
	return RC_SILENCE;
}

enum rc_answer rc_responder_end(struct nic *nic, struct qp *qp,
				struct qp *from)
{
	const struct send_wqe *wqe = &from->req.wqe;
	struct responder *resp = &qp->resp;
	enum rc_answer answer;
	uint8_t syndrome;

	resp->message = 0;
	if (wqe->opcode == MOOR_WQE_SEND_INV) {
		syndrome = mw_invalidate(nic, &qp->actor, wqe->inv_key);
		if (syndrome)
			return fail_invalidate(nic, qp, from, syndrome);
	}
	if (wqe->opcode == MOOR_WQE_WRITE_IMM) {
		answer = look_for_receive(nic, qp);
		if (answer == RC_ACK)
			answer = take_receive(nic, qp);
		if (answer != RC_ACK)
			return answer;
	}
	resp->psn = (resp->psn + rc_packets(from, wqe->length)) &
		    NIC_NUMBER_MASK;
	if (RECEIVES & 1u << wqe->opcode) {
		resp->holds_wqe = false;
		complete_recv_message(nic, qp, &resp->wqe, from);
	}
	return RC_ACK;
}
