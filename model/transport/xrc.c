// SPDX-License-Identifier: GPL-2.0
/* Extended reliable connections (HWI 12.6). */
#include <endian.h>

#include "base/layout.h"
#include "queues/srq.h"
#include "transport/complete.h"
#include "transport/rc.h"
#include "transport/xrc.h"

uint8_t xrc_check_reserved(const struct nic *nic,
			   const struct moor_cmd_create_qp *cmd,
			   struct moor_cpl *cpl)
{
	if (cmd->type != MOOR_QP_XRC_TGT || !nic_has(nic, MOOR_FEATURE_XRC))
		return cmd->xrcd ? CMD_FAIL(cpl, MOOR_CMD_BAD_RESERVED,
					    struct moor_cmd_create_qp, xrcd) :
				   MOOR_CMD_OK;
	if (cmd->pd)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_RESERVED,
				struct moor_cmd_create_qp, pd);
	if (cmd->send_cqn)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_RESERVED,
				struct moor_cmd_create_qp, send_cqn);
	if (cmd->recv_cqn)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_RESERVED,
				struct moor_cmd_create_qp, recv_cqn);
	if (cmd->cookie)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_RESERVED,
				struct moor_cmd_create_qp, cookie);
	return MOOR_CMD_OK;
}

uint8_t xrc_check_qp(const struct moor_cmd_create_qp *cmd, struct moor_cpl *cpl)
{
	bool target = cmd->type == MOOR_QP_XRC_TGT;

	if (!target && cmd->type != MOOR_QP_XRC_INI)
		return MOOR_CMD_OK;
	if (cmd->flags & (target ? 0xff : MOOR_QP_FLAG_SRQ))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_create_qp, flags);
	if (cmd->no_rq != 1)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_create_qp, no_rq);
	if (target && cmd->no_sq != 1)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_create_qp, no_sq);
	if (le32toh(cmd->xrcd) & ~NIC_NUMBER_MASK)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_create_qp, xrcd);
	return MOOR_CMD_OK;
}

/* Makes @srq the source of receives, CQ, cookie, and PD and rights of @qp. */
static void take_srq(struct qp *qp, struct srq *srq)
{
	qp->srq = srq;
	qp->recv_queue = &srq->queue;
	qp->recv_actor = &srq->actor;
	qp->recv_cq = srq->cq;
	qp->cookie = srq->cookie;
	qp->actor.pd = srq->actor.pd;
	qp->actor.kernel = srq->actor.kernel;
}

bool xrc_aim(struct nic *nic, struct qp *qp, const struct packet *p)
{
	struct responder *resp = &qp->resp;
	struct srq *srq;

	if (!packet_form(p)->first)
		return qp->srq;
	srq = srq_find(nic, p->srqn);
	if (!srq || !srq->xrc || srq->xrcd != qp->xrcd)
		return false;
	if (resp->holds_wqe && srq != qp->srq) {
		resp->holds_wqe = false;
		complete_recv(nic, qp, &resp->wqe, MOOR_WC_WR_FLUSH_ERR,
			      MOOR_SYN_NONE);
		/* The old SRQ's CQ takes no CQE: the QP has failed too (HWI CQ-10). */
		if (qp->state == MOOR_QPS_ERR)
			return false;
	}
	take_srq(qp, srq);
	return true;
}

void xrc_turn_away(struct qp *qp)
{
	qp->srq = NULL;
	qp->recv_queue = &qp->rq;
	qp->recv_actor = &qp->actor;
	qp->recv_cq = NULL;
	qp->resp.holds_wqe = false;
	/* A fault that is still to take effect has no receive to tell of it any more. */
	qp->resp.fault.status = 0;
}

uint8_t xrc_destroy_srq(struct nic *nic, const struct moor_cmd *raw,
			struct moor_cpl *cpl)
{
	const struct moor_cmd_destroy_srq *cmd = (const void *)raw;
	const struct srq *srq = srq_find(nic, le32toh(cmd->srqn));
	uint32_t i;

	for (i = 0; srq && srq->xrc && i < NIC_NUM_QP; i++) {
		struct qp *qp = nic->qps->qp[i];

		if (qp && qp->is_target && qp->srq == srq)
			xrc_turn_away(qp);
	}
	return srq_destroy(nic, raw, cpl);
}

/* XRC_INI only asks, XRC_TGT only answers. */
static uint8_t xrc_receive(struct nic *nic, struct qp *qp, struct packet *p)
{
	if (packet_asks(p))
		return qp->is_target ? rc_take_request(nic, qp, p) :
				       MOOR_SYN_NONE;
	if (packet_form(p)->kind == PACKET_KIND_UNKNOWN || qp->is_target)
		return MOOR_SYN_NONE;
	return rc_take_response(nic, qp, p);
}

const struct transport xrc_transport = {
	.packets = PACKET_TRANSPORT_XRC,
	.wqe_opcodes = WQE_RC,
	.may_begin = rc_may_begin,
	.acknowledged = true,
	.receive = xrc_receive,
	.answer = rc_answer,
	.rest = rc_rest,
	.expired = rc_expired,
};
