// SPDX-License-Identifier: GPL-2.0
/*
 * Page requests and their answers (HWI 6.10). Each half of a queue pair has one
 * request at a time, stored in its own struct half: no half runs short of them.
 */
#include <endian.h>

#include <string.h>

#include "base/layout.h"
#include "memory/odp.h"
#include "queues/event.h"
#include "transport/parking.h"
#include "transport/qp.h"

/* A token: the QP's index, which half, and a count, so that it is not reused soon. */
#define TOKEN_RESPONDER	NIC_NUM_QP
#define TOKEN_COUNT	(2 * NIC_NUM_QP)

static bool park(struct nic *nic, struct qp *qp, struct half *half, uint32_t psn,
		 const struct stream *s, uint32_t end)
{
	bool responder = half == &qp->resp.half;
	struct moor_page_request request = {
		.type = MOOR_EVENT_PAGE_REQUEST,
		.flags = responder ? MOOR_PAGE_REQUEST_RESPONDER : 0,
		.qpn = htole32(qp->qpn),
	};
	struct moor_eqe entry;

	if ((half->state == HALF_FAILED && half->psn == psn) ||
	    !event_has_queue(nic, MOOR_EQ_PAGE_REQUEST) ||
	    !odp_describe(nic, s, end, &request))
		return false;
	half->state = HALF_PARKED;
	half->psn = psn;
	half->token = nic->qps->page_requests++ * TOKEN_COUNT +
		      (responder ? TOKEN_RESPONDER : 0) +
		      qp->qpn % NIC_NUM_QP;
	request.token = htole32(half->token);
	memcpy(&entry, &request, sizeof(entry));
	event_post_entry(nic, MOOR_EQ_PAGE_REQUEST, &entry, &half->backlogged);
	return true;
}

static bool waits(struct nic *nic, struct qp *qp, struct half *half, uint32_t psn,
		  const struct stream *s, uint32_t end, uint8_t *syndrome)
{
	if (*syndrome != SYN_PAGE_FAULT)
		return false;
	/* An answer to this very packet may have parked the half or failed the QP. */
	if (half_is_parked(half) || qp->state == MOOR_QPS_ERR ||
	    park(nic, qp, half, psn, s, end))
		return true;
	*syndrome = MOOR_SYN_TRANSLATION;
	return false;
}

bool requester_waits(struct nic *nic, struct qp *qp, uint32_t psn,
		     const struct stream *s, uint8_t *syndrome)
{
	return waits(nic, qp, &qp->req.half, psn, s,
		     s->segments ? s->segments[s->current].length : 0,
		     syndrome);
}

bool responder_waits(struct nic *nic, struct qp *qp, uint32_t psn,
		     const struct stream *s, uint32_t end, uint8_t *syndrome)
{
	return waits(nic, qp, &qp->resp.half, psn, s, end, syndrome);
}

/* The other end of the connection. A QP that names another one is none. */
static struct qp *find_peer(struct nic *nic, const struct qp *qp)
{
	struct qp *peer = qp_find(nic, qp->dest_qpn);

	return peer && peer->dest_qpn == qp->qpn ? peer : NULL;
}

void parking_hold_peer(struct nic *nic, struct qp *qp)
{
	struct qp *peer = find_peer(nic, qp);

	if (peer)
		peer->req.held = true;
}

/*
 * The requester of @qp is held no more. Its timer may have been left running, but the wait
 * is no part of the time-out: what was sent has a whole one from now on (HWI ODP-15).
 */
static void release(struct nic *nic, struct qp *qp)
{
	qp->req.held = false;
	qp->req.progress = true;
	qp_make_ready(nic, qp);
}

static void let_peer_go(struct nic *nic, const struct qp *qp)
{
	struct qp *peer = find_peer(nic, qp);

	if (!peer || !peer->req.held)
		return;
	/* A mark stays till that packet has come: an answer that waits next needs none here. */
	if (peer->req.peer_half.state == HALF_GOES &&
	    qp->resp.half.state != HALF_FAILED) {
		peer->req.peer_half.state = HALF_RESOLVED;
		peer->req.peer_half.psn = qp->resp.half.psn;
	}
	release(nic, peer);
}

/* Whoever dropped an answer of @qp does not ask for it again. */
static void let_answers_go(struct nic *nic, struct qp *qp)
{
	if (!qp || !qp->resp.asked_later)
		return;
	qp->resp.asked_later = false;
	qp_enter_list(qp, &nic->qps->ready);
}

void parking_leave_peer(struct nic *nic, struct qp *qp)
{
	let_peer_go(nic, qp);
	let_answers_go(nic, qp);
	let_answers_go(nic, find_peer(nic, qp));
	if (!qp->req.held)
		return;
	release(nic, qp);
}

/* Ends the wait of @half; its token is not valid any more. */
static void leave(struct nic *nic, struct half *half, enum half_state state)
{
	if (half->backlogged)
		event_forget(nic, MOOR_EQ_PAGE_REQUEST,
			     MOOR_BIT(MOOR_EVENT_PAGE_REQUEST), half->token);
	half->backlogged = 0;
	half->state = state;
}

void parking_end(struct nic *nic, struct qp *qp)
{
	qp->req.held = false;
	let_answers_go(nic, find_peer(nic, qp));
	if (half_is_parked(&qp->req.half))
		leave(nic, &qp->req.half, HALF_GOES);
	if (!half_is_parked(&qp->resp.half))
		return;
	leave(nic, &qp->resp.half, HALF_GOES);
	let_peer_go(nic, qp);
}

/* The half of @qp that waits for the answer to page request @token, or NULL. */
static struct half *find_half(struct qp *qp, uint32_t token)
{
	struct half *half;

	if (!qp)
		return NULL;
	half = token & TOKEN_RESPONDER ? &qp->resp.half : &qp->req.half;
	return half_is_parked(half) && half->token == token ? half : NULL;
}

uint8_t parking_answer(struct nic *nic, const struct moor_cmd *raw,
		       struct moor_cpl *cpl)
{
	const struct moor_cmd_page_response *cmd = (const void *)raw;
	uint32_t token = le32toh(cmd->token);
	struct qp *qp = nic->qps->qp[token % NIC_NUM_QP];
	struct half *half = find_half(qp, token);

	if (!half)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_page_response, token);
	if (cmd->status > MOOR_PAGE_FAILED)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_page_response, status);

	leave(nic, half, cmd->status == MOOR_PAGE_FAILED ? HALF_FAILED :
							   HALF_RESOLVED);
	/* First: what waited is tried again before the peer sends more. */
	qp_enter_list(qp, &nic->qps->ready);
	if (half == &qp->resp.half)
		let_peer_go(nic, qp);
	return MOOR_CMD_OK;
}
