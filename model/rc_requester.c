// SPDX-License-Identifier: GPL-2.0
/*
 * The requester of a reliable connection. One WQE is under way at a time, and
 * the responder is a QP of this NIC, so that a message needs no packets: what
 * packets would tell (IBA 9.7) is what the responder's functions return.
 */
#include <endian.h>

#include "log.h"
#include "qp.h"
#include "rules.h"

/* IBA 9.7.5.2.8, in units of 10 us. */
static const uint32_t rnr_wait[32] = {
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288,
	16384, 24576, 32768, 49152,
};

#define RNR_UNIT_NS	10000u
#define RNR_FOR_EVER	7
#define ACK_UNIT_NS	4096u

static bool is_atomic(const struct send_wqe *wqe)
{
	return wqe->opcode == MOOR_WQE_CMP_SWAP ||
	       wqe->opcode == MOOR_WQE_FETCH_ADD;
}

/* Concerns this NIC alone: no responder is asked. */
static bool is_local(const struct send_wqe *wqe)
{
	return wqe->opcode == MOOR_WQE_LOCAL_INV ||
	       wqe->opcode == MOOR_WQE_BIND_MW;
}

void rc_requester_fail(struct nic *nic, struct qp *qp, uint8_t status,
		       uint8_t syndrome)
{
	struct requester *req = &qp->req;

	log_refused(work_rule(req->wqe.opcode, status, syndrome),
		    "QP 0x%06x WQE %u opcode 0x%02x: status %u (%s)",
		    qp->qpn, req->wqe.index, req->wqe.opcode, status,
		    syndrome_name(syndrome));
	req->active = false;
	complete_send(nic, qp, &req->wqe, status, syndrome);
	qp_error(nic, qp);
}

/* Translation and DMA of the first @len bytes that were granted. */
static uint8_t resolve(struct nic *nic, struct mr_grant *grant, uint64_t len)
{
	uint64_t done = 0;
	uint8_t *ptr;

	while (done < len) {
		uint64_t run = len - done;
		uint8_t syndrome = mr_grant_ptr(nic, grant, done, &run, &ptr);

		if (syndrome)
			return syndrome;
		done += run;
	}
	return MOOR_SYN_NONE;
}

/*
 * HWI RC-21: before the responder sees anything. An atomic is done once, so that
 * all of its result has to have a place.
 */
static uint8_t check_sges(struct nic *nic, const struct qp *qp)
{
	const struct send_wqe *wqe = &qp->req.wqe;
	struct mr_grant grant[2];	/* the first SGE's, any other's */
	uint8_t i, syndrome, other = 0;

	for (i = 0; i < wqe->num_sge; i++) {
		const struct segment *sge = &wqe->sge[i];

		if (!sge->length)
			continue;
		syndrome = mr_grant_access(nic, &qp->actor, sge->key, sge->addr,
					   sge->length, qp->req.local.need,
					   &grant[other]);
		if (syndrome)
			return syndrome;
		other = 1;
	}
	if (!other || grant[0].kind == MR_KIND_NULL)
		return MOOR_SYN_NONE;
	return resolve(nic, &grant[0], is_atomic(wqe) ? sizeof(uint64_t) : 1);
}

void rc_requester_begin(struct nic *nic, struct qp *qp, enum wqe_form form)
{
	struct requester *req = &qp->req;
	const struct send_wqe *wqe = &req->wqe;
	bool asks_data = wqe->opcode == MOOR_WQE_READ || is_atomic(wqe);

	req->active = true;
	req->message = 0;
	req->done = 0;
	req->retries = qp->retry_cnt;
	req->rnr_retries = qp->rnr_retry;
	if (form == WQE_MALFORMED || (form == WQE_OK && asks_data &&
				      !qp->max_rd_atomic)) {
		rc_requester_fail(nic, qp, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
		return;
	}
	if (form == WQE_TOO_LONG ||
	    (is_atomic(wqe) && wqe->length != sizeof(uint64_t))) {
		rc_requester_fail(nic, qp, MOOR_WC_LOC_LEN_ERR,
				  MOOR_SYN_LENGTH);
		return;
	}
	req->local = (struct stream){
		.actor = &qp->actor,
		.bytes = wqe->flags & MOOR_WQE_FLAG_INLINE ? wqe->data : NULL,
		.segments = wqe->sge,
		.num_segments = wqe->num_sge,
		.need = asks_data ? MOOR_ACCESS_LOCAL_WRITE : 0,
	};
}

/* Begins the message anew once the wait is over. */
static enum rc_step wait_ns(struct nic *nic, struct qp *qp, uint64_t ns)
{
	struct requester *req = &qp->req;

	req->message = 0;
	req->done = 0;
	req->local.current = 0;
	req->local.offset = 0;
	req->waiting = true;
	if (ns) {
		qp_leave_list(qp);
		timer_start(&nic->timers, &qp->timer, timer_now() + ns);
	} else {
		qp_enter_list(qp, &nic->stalled);
	}
	return RC_WAIT;
}

static enum rc_step nothing_answers(struct nic *nic, struct qp *qp)
{
	qp->req.rnr_wait = false;
	return wait_ns(nic, qp, qp->timeout ?
		       (uint64_t)ACK_UNIT_NS << qp->timeout : 0);
}

static enum rc_step receiver_not_ready(struct nic *nic, struct qp *qp,
				       const struct qp *peer)
{
	struct requester *req = &qp->req;

	if (qp->rnr_retry != RNR_FOR_EVER && !req->rnr_retries--) {
		rc_requester_fail(nic, qp, MOOR_WC_RNR_RETRY_EXC_ERR,
				  MOOR_SYN_NONE);
		return RC_NEXT;
	}
	req->rnr_wait = true;
	return wait_ns(nic, qp, (uint64_t)rnr_wait[peer->min_rnr_timer] *
				RNR_UNIT_NS);
}

void rc_requester_expired(struct nic *nic, struct qp *qp)
{
	struct requester *req = &qp->req;

	req->waiting = false;
	if (req->rnr_wait)
		return;
	if (!req->retries) {
		rc_requester_fail(nic, qp, MOOR_WC_RETRY_EXC_ERR,
				  MOOR_SYN_NO_RESPONDER);
		return;
	}
	req->retries--;
}

static enum rc_step not_acked(struct nic *nic, struct qp *qp,
			      const struct qp *peer, enum rc_answer answer)
{
	static const uint8_t status[] = {
		[RC_NAK_INVALID] = MOOR_WC_REM_INV_REQ_ERR,
		[RC_NAK_ACCESS] = MOOR_WC_REM_ACCESS_ERR,
		[RC_NAK_OPERATION] = MOOR_WC_REM_OP_ERR,
	};

	if (answer == RC_SILENCE)
		return nothing_answers(nic, qp);
	if (answer == RC_RNR_NAK)
		return receiver_not_ready(nic, qp, peer);
	/* Why is the responder's to know (HWI SYN-3). */
	rc_requester_fail(nic, qp, status[answer], MOOR_SYN_NONE);
	return RC_NEXT;
}

static enum rc_answer do_atomic(struct nic *nic, struct qp *qp, struct qp *peer,
				uint8_t *local_syndrome)
{
	struct requester *req = &qp->req;
	enum rc_answer answer;
	struct stream from;
	uint64_t original;
	struct stream *culprit;

	answer = rc_responder_atomic(nic, peer, qp, &original);
	if (answer != RC_ACK)
		return answer;
	original = htole64(original);
	from = (struct stream){ .bytes = (const uint8_t *)&original };
	*local_syndrome = transfer(nic, &req->local, &from, sizeof(original),
				   &culprit);
	return RC_ACK;
}

/* Moves the rest of the message, or what the budget allows. */
static enum rc_answer move(struct nic *nic, struct qp *qp, struct qp *peer,
			   uint32_t *budget, uint8_t *local_syndrome)
{
	struct requester *req = &qp->req;
	struct stream *local = &req->local, *remote = &peer->resp.remote;
	bool read = req->wqe.opcode == MOOR_WQE_READ;
	uint32_t len = req->wqe.length - req->done;
	struct stream *culprit;
	uint8_t syndrome;

	if (len > *budget)
		len = *budget;
	syndrome = transfer(nic, read ? local : remote, read ? remote : local,
			    len, &culprit);
	if (syndrome && culprit == remote)
		return rc_responder_refuse(nic, peer, qp, syndrome);
	*local_syndrome = syndrome;
	*budget -= len;
	req->done += len;
	return RC_ACK;
}

static void finished(struct nic *nic, struct qp *qp)
{
	struct requester *req = &qp->req;

	req->active = false;
	req->message = 0;
	if (req->wqe.flags & MOOR_WQE_FLAG_SIGNALED)
		complete_send(nic, qp, &req->wqe, MOOR_WC_SUCCESS,
			      MOOR_SYN_NONE);
	if (qp->draining)
		qp_drained(nic, qp);
}

static void do_local(struct nic *nic, struct qp *qp)
{
	const struct send_wqe *wqe = &qp->req.wqe;
	uint8_t syndrome = wqe->opcode == MOOR_WQE_BIND_MW ?
			   mw_bind(nic, &qp->actor, &wqe->bind) :
			   mw_invalidate(nic, &qp->actor, wqe->inv_key);

	if (syndrome)
		rc_requester_fail(nic, qp, MOOR_WC_MW_BIND_ERR, syndrome);
	else
		finished(nic, qp);
}

enum rc_step rc_requester_step(struct nic *nic, struct qp *qp,
			       uint32_t *budget)
{
	struct requester *req = &qp->req;
	uint8_t local_syndrome = MOOR_SYN_NONE;
	enum rc_answer answer = RC_ACK;
	struct qp *peer;

	if (is_local(&req->wqe)) {
		do_local(nic, qp);
		return RC_NEXT;
	}
	if (!req->message) {
		local_syndrome = check_sges(nic, qp);
		if (local_syndrome) {
			rc_requester_fail(nic, qp, MOOR_WC_LOC_PROT_ERR,
					  local_syndrome);
			return RC_NEXT;
		}
	}
	peer = rc_peer(nic, qp);
	/* The responder was reset, or failed, halfway through. */
	if (!peer || (req->message && peer->resp.message != req->message))
		return nothing_answers(nic, qp);
	if (!req->message)
		answer = rc_responder_begin(nic, peer, qp);
	if (answer == RC_ACK)
		answer = is_atomic(&req->wqe) ?
			 do_atomic(nic, qp, peer, &local_syndrome) :
			 move(nic, qp, peer, budget, &local_syndrome);
	if (answer == RC_ACK && local_syndrome) {
		rc_requester_fail(nic, qp, MOOR_WC_LOC_PROT_ERR,
				  local_syndrome);
		return RC_NEXT;
	}
	if (answer == RC_ACK && !is_atomic(&req->wqe) &&
	    req->done < req->wqe.length)
		return RC_MORE;
	if (answer == RC_ACK)
		answer = rc_responder_end(nic, peer, qp);
	if (answer != RC_ACK)
		return not_acked(nic, qp, peer, answer);
	req->psn = (req->psn + rc_packets(qp, req->wqe.length)) &
		   NIC_NUMBER_MASK;
	finished(nic, qp);
	return RC_NEXT;
}
