// SPDX-License-Identifier: GPL-2.0
/*
 * Reliable connection, the responder (IBA 9.7): requests, in the order of their
 * PSNs. What is sent back is in rc_answer.c.
 */
#include <endian.h>
#include <stddef.h>

#include "base/dma_map.h"
#include "memory/relaxed.h"
#include "transport/port.h"
#include "transport/rc.h"
#include "transport/xrc.h"

static void refuse(struct responder *resp, const char *rule, uint8_t nak,
		   uint8_t event, uint8_t syndrome)
{
	const struct responder_fault fault = {
		.rule = rule, .nak = nak, .event = event, .syndrome = syndrome,
	};

	responder_set_fault(resp, &fault, resp->psn);
}

static void refuse_request(struct responder *resp, const char *rule,
			   uint8_t syndrome)
{
	refuse(resp, rule, AETH_NAK_INVALID, MOOR_EVENT_QP_REQ_ERR, syndrome);
}

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
		const struct responder_answer *a = responder_answer_at(resp, i);

		num += a->pending && a->answered < a->num_psn;
	}
	return num < qp->max_dest_rd_atomic;
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

	/* Longer answers would have more PSNs than can be told apart (HWI RC-47). */
	if (p->dma_length > NIC_MAX_MSG_SIZE) {
		refuse_request(resp, "HWI WQ-9", MOOR_SYN_LENGTH);
		return;
	}
	if (p->num_psn && p->num_psn != num_psn) {
		refuse_request(resp, "HWI RC-30", MOOR_SYN_LENGTH);
		return;
	}
	stream_init(&range, &qp->actor, &seg, 1, MOOR_ACCESS_REMOTE_READ);
	if (!responder_check_range(nic, qp, &range, &fault)) {
		responder_set_fault(resp, &fault, resp->psn);
		return;
	}
	a = rc_new_answer(qp, p);
	a->num_psn = num_psn;
	a->range.epoch = seg.epoch;
	accept(resp, p, num_psn);
	/* If no other answer is due before, this begins now, with the grant just made. */
	if (resp->unanswered + 1 == resp->num_answers)
		rc_answer_read(nic, qp, a, &range, budget);
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

/*
 * Reaches all eight bytes of an atomic: that one of them may not be accessed stands above
 * their being out of place (HWI RC-21). @at is NULL if they are that (HWI RC-39).
 */
static uint8_t reach_word(struct nic *nic, struct mr_grant *grant, uint64_t **at)
{
	uint64_t done, run;

	*at = NULL;
	for (done = 0; done < sizeof(uint64_t); done += run) {
		uint8_t *ptr, syndrome;

		run = sizeof(uint64_t) - done;
		syndrome = mr_grant_ptr(nic, grant, done, &run, &ptr);
		if (syndrome)
			return syndrome;
		/* The address is aligned; the memory that it is mapped to need not be. */
		if (run == sizeof(uint64_t) && !((uintptr_t)ptr % sizeof(uint64_t)))
			*at = (uint64_t *)ptr;
	}
	return MOOR_SYN_NONE;
}

/* Where an atomic is to be done with right @need. NULL: the fault is set, or it waits. */
static uint64_t *atomic_place(struct nic *nic, struct qp *qp,
			      const struct packet *p, uint32_t need)
{
	struct segment seg = {
		.addr = p->addr, .length = sizeof(uint64_t), .key = p->rkey,
	};
	struct responder_fault fault;
	struct stream range;
	uint8_t syndrome;
	uint64_t *at;

	if (p->addr % sizeof(uint64_t)) {
		refuse_request(&qp->resp, "HWI RC-7", MOOR_SYN_ALIGNMENT);
		return NULL;
	}
	stream_init(&range, &qp->actor, &seg, 1, need);
	if (!responder_check_range(nic, qp, &range, &fault)) {
		responder_set_fault(&qp->resp, &fault, qp->resp.psn);
		return NULL;
	}
	syndrome = reach_word(nic, &range.grant, &at);
	if (!syndrome && need == MOOR_ACCESS_REMOTE_ATOMIC) {
		/* What it writes it has loaded: DMA has to allow both (HWI ERR-6). */
		range.grant.write = false;
		syndrome = reach_word(nic, &range.grant, &at);
	}
	if (syndrome) {
		if (responder_waits(nic, qp, p->psn, &range, seg.length,
				    &syndrome))
			return NULL;
		refuse(&qp->resp, "HWI RC-26", AETH_NAK_ACCESS,
		       MOOR_EVENT_QP_ACCESS_ERR, syndrome);
		qp->resp.fault.key = p->rkey;
		return NULL;
	}
	if (!at)
		refuse_request(&qp->resp, "HWI RC-39", MOOR_SYN_ALIGNMENT);
	return at;
}

static void take_atomic(struct nic *nic, struct qp *qp, const struct packet *p)
{
	struct responder *resp = &qp->resp;
	uint64_t *at = atomic_place(nic, qp, p, MOOR_ACCESS_REMOTE_ATOMIC);

	if (!at)
		return;
	/* Nothing relaxed passes an atomic (HWI ORD-12). */
	relaxed_release(nic);
	half_moved(&resp->half, p->psn, 1);
	rc_new_answer(qp, p)->original = do_atomic(p, at);
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
	half_moved(&resp->half, p->psn, 1);
	rc_new_answer(qp, p);
	__atomic_store_n(at, value, __ATOMIC_SEQ_CST);
	accept(resp, p, 1);
	return MOOR_SYN_NONE;
}

/* A RANGE without a byte ends after the rights of the QP, whatever its key is (HWI MPE-7). */
static bool flushes_nothing(const struct packet *p)
{
	return p->flush_level == MOOR_FLUSH_RANGE && !p->dma_length;
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
	if (flushes_nothing(p))
		return MOOR_SYN_NONE;
	if (p->flush_level == MOOR_FLUSH_REGION)
		return mr_grant_whole(nic, &qp->actor, p->rkey, need, &grant);
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
	if ((p->flush_type & MOOR_FLUSH_PERSISTENT) && !flushes_nothing(p) &&
	    !dma_map_sync(nic->dma)) {
		refuse(resp, "HWI MPE-12", AETH_NAK_OPERATION,
		       MOOR_EVENT_QP_FATAL, MOOR_SYN_NONE);
		return;
	}
	rc_new_answer(qp, p);
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
		half_moved(&resp->half, p->psn, p->num_psn);
		accept(resp, p, p->num_psn);
		if (p->ack_request)
			responder_set_due(resp, AETH_ACK);
		break;
	case PLACED_NOT_READY:
		resp->nak_sent = true;
		responder_set_due(resp, AETH_RNR_NAK | qp->min_rnr_timer);
		break;
	case PLACED_REFUSED:
		responder_set_fault(resp, &fault, resp->psn);
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

static void out_of_sequence(struct qp *qp)
{
	struct responder *resp = &qp->resp;

	if (resp->nak_sent)
		return;
	resp->nak_sent = true;
	responder_set_due(resp, AETH_NAK_SEQUENCE);
}

/*
 * A requester that has gone back need not cut its message into the same runs again. The
 * first @repeated packets of a run are here; is the next the one expected? Return: true
 * if so, and the run begins with it now.
 */
static bool cut_repeated(const struct responder *resp, struct packet *p,
			 uint32_t repeated)
{
	/* Not of what is under way; a repetition as a whole; by another MTU than ours. */
	if (resp->message != packet_form(p)->kind || repeated >= p->num_psn ||
	    p->num_psn != packets_of(resp->path_mtu, p->length))
		return false;
	packet_cut_front(p, repeated, repeated * mtu_of(resp->path_mtu));
	return true;
}

/*
 * What waits is the packet expected. Its requester may go, and another take its place: that
 * sends another message with this PSN, and no page of it has been asked for (HWI ODP-13).
 * A SEND goes where the first one went, into the receive that is held.
 */
static void meet_waiter(struct responder *resp, const struct packet *p)
{
	const struct responder_waiter *waiter = &resp->waiter;
	uint8_t kind = packet_form(p)->kind;
	bool elsewhere = kind != PACKET_KIND_SEND &&
			 (p->rkey != waiter->rkey || p->addr != waiter->addr);

	if (kind != waiter->kind || elsewhere)
		half_moved(&resp->half, p->psn, 1);
}

/* @p has parked the responder. Return: as rc_begin_to_wait(). */
static uint8_t become_waiter(struct nic *nic, struct qp *qp,
			     const struct packet *p)
{
	qp->resp.waiter = (struct responder_waiter){
		.kind = packet_form(p)->kind, .rkey = p->rkey, .addr = p->addr,
	};
	return rc_begin_to_wait(nic, qp);
}

uint8_t rc_take_request(struct nic *nic, struct qp *qp, struct packet *p)
{
	struct responder *resp = &qp->resp;
	const struct packet_form *form;
	int32_t ahead = psn_diff(p->psn, resp->psn);
	uint8_t sender = MOOR_SYN_NONE;
	uint32_t budget = PORT_UNIT;

	/*
	 * Unfinished answers are sent in the QP's own quanta, not in the requester's, unless
	 * the requester itself kept them up.
	 */
	if (responder_has_more(resp))
		budget = 0;
	resp->asked_later = false;
	if (half_is_parked(&resp->half))
		return rc_still_waits(nic, qp, p, ahead);
	if (ahead < 0 && cut_repeated(resp, p, (uint32_t)-ahead))
		ahead = 0;
	/* The responder has given up, and only answers what came before the fault. */
	if (resp->fault.set && ahead >= 0)
		return MOOR_SYN_NONE;
	form = packet_form(p);
	if (ahead < 0) {
		nic->wire->traffic.duplicates++;
		rc_take_again(qp, p);
	} else if (ahead > 0) {
		nic->wire->traffic.gaps++;
		out_of_sequence(qp);
	} else {
		resp->nak_sent = false;
		meet_waiter(resp, p);
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
		/* A READ has been accepted: rc_answer_read() has told the requester. */
		if (form->kind != PACKET_KIND_READ &&
		    half_is_parked(&resp->half))
			return become_waiter(nic, qp, p);
	}
	/* Sends at most a unit of answers at once; the QP's own quanta do the rest. */
	rc_answer(nic, qp, &budget);
	if (responder_has_more(resp))
		qp_enter_list(qp, &nic->qps->ready);
	return sender;
}
