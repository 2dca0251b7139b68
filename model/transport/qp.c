// SPDX-License-Identifier: GPL-2.0
/* Queue pairs: create, query, destroy. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/layout.h"
#include "queues/cq.h"
#include "queues/event.h"
#include "queues/slot.h"
#include "queues/srq.h"
#include "transport/filter.h"
#include "transport/live.h"
#include "transport/qp.h"
#include "transport/transport.h"
#include "transport/xrc.h"

struct qp *qp_find(struct nic *nic, uint32_t qpn)
{
	struct qp *qp = nic->qps->qp[qpn % NIC_NUM_QP];

	return qp && qp->qpn == qpn ? qp : NULL;
}

static void queue_rewind(struct queue *queue)
{
	queue->producer = 0;
	queue->consumer = 0;
	queue->broken = false;
	if (queue->exists)
		db_zero(queue->slot);
}

void qp_to_reset(struct nic *nic, struct qp *qp)
{
	timer_stop(&nic->timers, &qp->timer);
	parking_end(nic, qp);
	qp_leave_list(qp);
	mw_unbind_all(nic, &qp->actor);
	queue_rewind(&qp->sq);
	queue_rewind(&qp->rq);
	if (qp->sq.exists)
		live_seen(nic, qp, 0);
	requester_reset(nic, qp);
	memset(&qp->resp, 0, sizeof(qp->resp));
	if (qp->is_target)
		xrc_turn_away(qp);
	memset(qp->dgid, 0, sizeof(qp->dgid));
	qp->state = MOOR_QPS_RESET;
	qp->draining = false;
	qp->sqd_event = false;
	qp->last_wqe_due = false;
	qp->access = 0;
	qp->path_mtu = 1;
	qp->max_rd_atomic = 0;
	qp->max_dest_rd_atomic = 0;
	qp->min_rnr_timer = 0;
	qp->timeout = 0;
	qp->retry_cnt = 0;
	qp->rnr_retry = 0;
	qp->sgid_index = 0;
	qp->dest_qpn = 0;
	qp->qkey = 0;
}

/* One of the two queues of a QP; it may be absent. */
struct side {
	struct queue_params queue;
	uint8_t absent;
	uint32_t doorbell;
	/* Offsets of these fields in the command. */
	struct {
		uint32_t absent, doorbell;
	} at;
};

#define QUEUE_AT(field)	((uint32_t)offsetof(struct moor_cmd_create_qp, field))

static uint8_t side_fail(struct moor_cpl *cpl, uint32_t where)
{
	cpl->detail = htole32(where);
	return MOOR_CMD_BAD_PARAM;
}

/* The fields of an absent queue have to be 0. */
static uint8_t side_absent(const struct side *s, struct moor_cpl *cpl)
{
	static const struct moor_xlat no_xlat;

	if (s->absent > 1)
		return side_fail(cpl, s->at.absent);
	if (s->queue.log_depth)
		return side_fail(cpl, s->queue.at.depth);
	if (s->queue.log_stride)
		return side_fail(cpl, s->queue.at.stride);
	if (s->doorbell)
		return side_fail(cpl, s->at.doorbell);
	if (memcmp(s->queue.xlat, &no_xlat, sizeof(no_xlat)))
		return side_fail(cpl, s->queue.at.xlat);
	return MOOR_CMD_OK;
}

static uint8_t side_init(struct nic *nic, struct queue *queue,
			 const struct side *s, struct moor_cpl *cpl)
{
	return s->absent ? side_absent(s, cpl) :
			   queue_init(nic, queue, &s->queue, cpl);
}

static const struct transport *transport_of(const struct nic *nic, uint8_t type)
{
	switch (type) {
	case MOOR_QP_RC:
		return &rc_transport;
	case MOOR_QP_UC:
		return nic_has(nic, MOOR_FEATURE_UC) ? &uc_transport : NULL;
	case MOOR_QP_UD:
		return nic_has(nic, MOOR_FEATURE_UD) ? &ud_transport : NULL;
	case MOOR_QP_XRC_INI:
	case MOOR_QP_XRC_TGT:
		return nic_has(nic, MOOR_FEATURE_XRC) ? &xrc_transport : NULL;
	default:
		return NULL;
	}
}

/* The flag of CREATE_QP, if the NIC knows it. */
static uint8_t srq_flag(const struct nic *nic)
{
	return nic_has(nic, MOOR_FEATURE_SRQ) ? MOOR_QP_FLAG_SRQ : 0;
}

static uint8_t check_numbers(struct nic *nic,
			     const struct moor_cmd_create_qp *cmd,
			     struct moor_cpl *cpl)
{
	uint32_t qpn = le32toh(cmd->qpn);

	if (qpn & ~NIC_NUMBER_MASK)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_create_qp, qpn);
	if (nic->qps->qp[qpn % NIC_NUM_QP])
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_create_qp, qpn);
	if (le32toh(cmd->pd) & ~NIC_NUMBER_MASK)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_create_qp, pd);
	if (cmd->type != MOOR_QP_XRC_TGT &&
	    !cq_find(nic, le32toh(cmd->send_cqn)))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_create_qp, send_cqn);
	if (cmd->type != MOOR_QP_XRC_TGT &&
	    !cq_find(nic, le32toh(cmd->recv_cqn)))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_create_qp, recv_cqn);
	if (!transport_of(nic, cmd->type))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_create_qp, type);
	if (cmd->flags & ~(MOOR_QP_FLAG_KERNEL | srq_flag(nic)))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_create_qp, flags);
	return MOOR_CMD_OK;
}

static uint8_t check_srq(struct nic *nic, const struct moor_cmd_create_qp *cmd,
			 struct moor_cpl *cpl)
{
	const struct srq *srq;

	if (!(cmd->flags & srq_flag(nic)))
		return cmd->srqn ? CMD_FAIL(cpl, MOOR_CMD_BAD_RESERVED,
					    struct moor_cmd_create_qp, srqn) :
				   MOOR_CMD_OK;
	srq = srq_find(nic, le32toh(cmd->srqn));
	if (!srq || srq->xrc)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_create_qp, srqn);
	if (cmd->no_rq != 1)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_create_qp, no_rq);
	return MOOR_CMD_OK;
}

/* Both doorbells or none; qp_to_reset() zeroes them. */
static uint8_t claim_doorbells(struct nic *nic, struct qp *qp,
			       const struct moor_cmd_create_qp *cmd,
			       struct moor_cpl *cpl)
{
	uint32_t index = qp->qpn % NIC_NUM_QP;
	uint8_t status;

	if (qp->sq.exists) {
		status = db_claim(nic, le32toh(cmd->sq_doorbell), SLOT_SQ,
				  index, &qp->sq.slot_id, &qp->sq.slot);
		if (status)
			return CMD_FAIL(cpl, status, struct moor_cmd_create_qp,
					sq_doorbell);
	}
	if (qp->rq.exists) {
		status = db_claim(nic, le32toh(cmd->rq_doorbell), SLOT_RQ,
				  index, &qp->rq.slot_id, &qp->rq.slot);
		if (status) {
			if (qp->sq.exists)
				db_release(nic, qp->sq.slot_id);
			return CMD_FAIL(cpl, status, struct moor_cmd_create_qp,
					rq_doorbell);
		}
	}
	return MOOR_CMD_OK;
}

static uint8_t init_queues(struct nic *nic, struct qp *qp,
			   const struct moor_cmd_create_qp *cmd,
			   struct moor_cpl *cpl)
{
	const struct side sq = {
		.queue = {
			.log_depth = cmd->log_sq_depth,
			.log_stride = cmd->log_sq_stride,
			.min_log_stride = MOOR_MIN_LOG_SQ_STRIDE,
			.xlat = &cmd->sq,
			.at = { QUEUE_AT(log_sq_depth),
				QUEUE_AT(log_sq_stride), QUEUE_AT(sq) },
		},
		.absent = cmd->no_sq,
		.doorbell = le32toh(cmd->sq_doorbell),
		.at = { QUEUE_AT(no_sq), QUEUE_AT(sq_doorbell) },
	};
	const struct side rq = {
		.queue = {
			.log_depth = cmd->log_rq_depth,
			.log_stride = cmd->log_rq_stride,
			.min_log_stride = MOOR_MIN_LOG_RQ_STRIDE,
			.xlat = &cmd->rq,
			.at = { QUEUE_AT(log_rq_depth),
				QUEUE_AT(log_rq_stride), QUEUE_AT(rq) },
		},
		.absent = cmd->no_rq,
		.doorbell = le32toh(cmd->rq_doorbell),
		.at = { QUEUE_AT(no_rq), QUEUE_AT(rq_doorbell) },
	};
	uint8_t status;

	status = side_init(nic, &qp->sq, &sq, cpl);
	if (!status)
		status = side_init(nic, &qp->rq, &rq, cpl);
	if (status)
		return status;
	return claim_doorbells(nic, qp, cmd, cpl);
}

/* Sets the CQs where both queues complete; an XRC target has none. */
static void set_cqs(struct nic *nic, struct qp *qp,
		    const struct moor_cmd_create_qp *cmd)
{
	if (qp->is_target)
		return;
	qp->send_cq = cq_find(nic, le32toh(cmd->send_cqn));
	qp->recv_cq = cq_find(nic, le32toh(cmd->recv_cqn));
	qp->send_cq->num_qp++;
	qp->recv_cq->num_qp++;
}

/* Sets the queue that receives are taken from, and the actor that checks their keys. */
static void set_receives(struct nic *nic, struct qp *qp,
			 const struct moor_cmd_create_qp *cmd)
{
	qp->recv_queue = &qp->rq;
	qp->recv_actor = &qp->actor;
	if (!(cmd->flags & MOOR_QP_FLAG_SRQ))
		return;
	qp->srq = srq_find(nic, le32toh(cmd->srqn));
	qp->srq->num_qp++;
	qp->recv_queue = &qp->srq->queue;
	qp->recv_actor = &qp->srq->actor;
}

uint8_t qp_create(struct nic *nic, const struct moor_cmd *raw,
		  struct moor_cpl *cpl)
{
	const struct moor_cmd_create_qp *cmd = (const void *)raw;
	/* First: a field that is reserved counts before all others (HWI CMD-28). */
	uint8_t status = xrc_check_reserved(nic, cmd, cpl);
	struct qp *qp;

	if (!status)
		status = check_srq(nic, cmd, cpl);
	if (!status)
		status = check_numbers(nic, cmd, cpl);
	if (!status)
		status = xrc_check_qp(cmd, cpl);
	if (status)
		return status;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return MOOR_CMD_NO_RESOURCE;
	qp->req.own = calloc(1, sizeof(*qp->req.own));
	if (!qp->req.own) {
		free(qp);
		return MOOR_CMD_NO_RESOURCE;
	}
	qp->transport = transport_of(nic, cmd->type);
	qp->datagrams = cmd->type == MOOR_QP_UD;
	qp->names_srq = cmd->type == MOOR_QP_XRC_INI;
	qp->is_target = cmd->type == MOOR_QP_XRC_TGT;
	qp->xrcd = le32toh(cmd->xrcd);
	qp->timer.expired = qp_timer_expired;
	qp->qpn = le32toh(cmd->qpn);
	qp->cookie = le32toh(cmd->cookie);
	qp->actor.qpn = qp->qpn;
	qp->actor.pd = le32toh(cmd->pd);
	qp->actor.kernel = cmd->flags & MOOR_QP_FLAG_KERNEL;
	status = init_queues(nic, qp, cmd, cpl);
	if (status) {
		free(qp->req.own);
		free(qp);
		return status;
	}

	set_cqs(nic, qp, cmd);
	set_receives(nic, qp, cmd);
	nic->qps->qp[qp->qpn % NIC_NUM_QP] = qp;
	if (qp->sq.exists)
		live_add(nic, qp);
	qp_to_reset(nic, qp);
	return MOOR_CMD_OK;
}

uint8_t qp_query(struct nic *nic, const struct moor_cmd *raw,
		 struct moor_cpl *cpl)
{
	const struct moor_cmd_query_qp *cmd = (const void *)raw;
	struct moor_cpl_query_qp *out = (void *)cpl->out;
	struct qp *qp = qp_find(nic, le32toh(cmd->qpn));

	if (!qp)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_query_qp, qpn);
	out->state = qp->state;
	out->sq_draining = qp->draining;
	out->sq_psn = htole32(qp->req.psn);
	out->rq_psn = htole32(qp->resp.psn);
	out->sq_consumer = htole32(qp->sq.consumer -
				   (qp->req.tail - qp->req.head));
	out->rq_consumer = htole32(qp->rq.consumer -
				   (qp->rq.exists && qp->resp.holds_wqe));
	return MOOR_CMD_OK;
}

static void qp_free(struct nic *nic, struct qp *qp)
{
	qp_to_reset(nic, qp);
	event_forget(nic, MOOR_EQ_ASYNC, QP_EVENTS, qp->qpn);
	if (qp->sq.exists) {
		live_remove(nic, qp);
		db_release(nic, qp->sq.slot_id);
	}
	if (qp->rq.exists)
		db_release(nic, qp->rq.slot_id);
	if (qp->srq)
		qp->srq->num_qp--;
	if (qp->datagrams)
		filter_forget(nic, qp->qpn);
	if (!qp->is_target) {
		qp->send_cq->num_qp--;
		qp->recv_cq->num_qp--;
	}
	nic->qps->qp[qp->qpn % NIC_NUM_QP] = NULL;
	free(qp->req.own);
	free(qp);
}

uint8_t qp_destroy(struct nic *nic, const struct moor_cmd *raw,
		   struct moor_cpl *cpl)
{
	const struct moor_cmd_destroy_qp *cmd = (const void *)raw;
	struct qp *qp = qp_find(nic, le32toh(cmd->qpn));

	if (!qp)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_destroy_qp, qpn);
	qp_free(nic, qp);
	return MOOR_CMD_OK;
}

void qp_reset_all(struct nic *nic)
{
	uint32_t i;

	for (i = 0; i < NIC_NUM_QP; i++) {
		if (nic->qps->qp[i])
			qp_free(nic, nic->qps->qp[i]);
	}
	timer_stop(&nic->timers, &nic->qps->rest);
}
