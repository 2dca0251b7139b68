// SPDX-License-Identifier: GPL-2.0
/* MODIFY_QP: attributes, and the state machine of IBA 10.3. */
#include <endian.h>
#include <string.h>

#include "base/layout.h"
#include "transport/gid.h"
#include "transport/qp.h"

#define STATE_BIT(s)	(1u << MOOR_QPS_##s)
#define ANYWHERE	(STATE_BIT(RESET) | STATE_BIT(ERR))

/* Where a QP may go by command. */
static const uint8_t transitions[] = {
	[MOOR_QPS_RESET] = ANYWHERE | STATE_BIT(INIT),
	[MOOR_QPS_INIT] = ANYWHERE | STATE_BIT(INIT) | STATE_BIT(RTR),
	[MOOR_QPS_RTR] = ANYWHERE | STATE_BIT(RTS),
	[MOOR_QPS_RTS] = ANYWHERE | STATE_BIT(RTS) | STATE_BIT(SQD),
	[MOOR_QPS_SQD] = ANYWHERE | STATE_BIT(SQD) | STATE_BIT(RTS),
	[MOOR_QPS_SQE] = ANYWHERE | STATE_BIT(RTS),
	[MOOR_QPS_ERR] = ANYWHERE,
};

#define QP_ATTR_OF_UD	(MOOR_QP_ATTR_QKEY | MOOR_QP_ATTR_PKEY_INDEX)

struct limit {
	uint32_t mask;		/* MOOR_QP_ATTR_*: looked at if this is set */
	uint32_t value, min, max;
	uint8_t offset;		/* of the field */
};

#define LIMIT(attr, field, raw, low, high) {				\
	.mask = MOOR_QP_ATTR_##attr, .value = (raw), .min = (low),	\
	.max = (high), .offset = offsetof(struct moor_cmd_modify_qp, field) }

static uint8_t check_limits(const struct nic *nic,
			    const struct moor_cmd_modify_qp *cmd, uint32_t mask,
			    struct moor_cpl *cpl)
{
	const struct limit limits[] = {
		LIMIT(STATE, state, cmd->state, 0, MOOR_QPS_ERR),
		LIMIT(PATH, sgid_index, cmd->sgid_index, 0, NIC_MAX_GID - 1),
		LIMIT(PATH, flow_label, le32toh(cmd->flow_label), 0, 0xfffff),
		LIMIT(PATH_MTU, path_mtu, cmd->path_mtu, 1, 5),
		LIMIT(DEST_QPN, dest_qpn, le32toh(cmd->dest_qpn), 0,
		      NIC_NUMBER_MASK),
		LIMIT(RQ_PSN, rq_psn, le32toh(cmd->rq_psn), 0,
		      NIC_NUMBER_MASK),
		LIMIT(SQ_PSN, sq_psn, le32toh(cmd->sq_psn), 0,
		      NIC_NUMBER_MASK),
		LIMIT(MAX_RD_ATOMIC, max_rd_atomic, cmd->max_rd_atomic, 0,
		      NIC_MAX_RD_ATOMIC),
		LIMIT(MAX_DEST_RD_ATOMIC, max_dest_rd_atomic,
		      cmd->max_dest_rd_atomic, 0, NIC_MAX_RD_ATOMIC),
		LIMIT(MIN_RNR_TIMER, min_rnr_timer, cmd->min_rnr_timer, 0, 31),
		LIMIT(TIMEOUT, timeout, cmd->timeout, 0, 31),
		LIMIT(RETRY_CNT, retry_cnt, cmd->retry_cnt, 0, 7),
		LIMIT(RNR_RETRY, rnr_retry, cmd->rnr_retry, 0, 7),
		LIMIT(PKEY_INDEX, pkey_index, le16toh(cmd->pkey_index), 0,
		      NIC_NUM_PKEY - 1),
	};
	unsigned int i;

	if ((mask & ~(uint32_t)MOOR_QP_ATTR_ALL) ||
	    (mask & QP_ATTR_OF_UD && !nic_has(nic, MOOR_FEATURE_UD)))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_modify_qp, mask);
	if ((mask & MOOR_QP_ATTR_ACCESS) &&
	    (cmd->access & ~(MOOR_ACCESS_REMOTE_WRITE |
			     MOOR_ACCESS_REMOTE_READ |
			     MOOR_ACCESS_REMOTE_ATOMIC)))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_modify_qp, access);
	if ((mask & MOOR_QP_ATTR_ACCESS) &&
	    (cmd->access_high & ~((MOOR_ACCESS_FLUSH_GLOBAL |
				   MOOR_ACCESS_FLUSH_PERSISTENT) >> 8)))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_modify_qp, access_high);
	for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		const struct limit *l = &limits[i];

		if ((mask & l->mask) &&
		    (l->value < l->min || l->value > l->max)) {
			cpl->detail = htole32(l->offset);
			return MOOR_CMD_BAD_PARAM;
		}
	}
	/* There is no wire yet: only this NIC's own GIDs can be reached (HWI QP-11). */
	if ((mask & MOOR_QP_ATTR_PATH) && !gid_is_own(nic, cmd->dgid))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_PARAM,
				struct moor_cmd_modify_qp, dgid);
	return MOOR_CMD_OK;
}

static void set_attributes(struct nic *nic, struct qp *qp,
			   const struct moor_cmd_modify_qp *cmd, uint32_t mask)
{
	if (mask & MOOR_QP_ATTR_ACCESS)
		qp->access = (uint16_t)((cmd->access_high << 8 | cmd->access) &
					mr_rights(nic));
	if (mask & MOOR_QP_ATTR_PATH) {
		qp->sgid_index = cmd->sgid_index;
		memcpy(qp->dgid, cmd->dgid, sizeof(qp->dgid));
	}
	if (mask & MOOR_QP_ATTR_PATH_MTU)
		qp->path_mtu = cmd->path_mtu;
	if (mask & MOOR_QP_ATTR_DEST_QPN) {
		parking_leave_peer(nic, qp);
		qp->dest_qpn = le32toh(cmd->dest_qpn);
	}
	if (mask & MOOR_QP_ATTR_RQ_PSN)
		qp->resp.psn = le32toh(cmd->rq_psn);
	if (mask & MOOR_QP_ATTR_SQ_PSN)
		requester_set_psn(&qp->req, le32toh(cmd->sq_psn));
	if (mask & MOOR_QP_ATTR_MAX_RD_ATOMIC)
		qp->max_rd_atomic = cmd->max_rd_atomic;
	if (mask & MOOR_QP_ATTR_MAX_DEST_RD_ATOMIC)
		qp->max_dest_rd_atomic = cmd->max_dest_rd_atomic;
	if (mask & MOOR_QP_ATTR_MIN_RNR_TIMER)
		qp->min_rnr_timer = cmd->min_rnr_timer;
	if (mask & MOOR_QP_ATTR_TIMEOUT)
		qp->timeout = cmd->timeout;
	if (mask & MOOR_QP_ATTR_RETRY_CNT)
		qp->retry_cnt = cmd->retry_cnt;
	if (mask & MOOR_QP_ATTR_RNR_RETRY)
		qp->rnr_retry = cmd->rnr_retry;
	if (mask & MOOR_QP_ATTR_QKEY)
		qp->qkey = le32toh(cmd->qkey);
}

static void enter_sqd(struct nic *nic, struct qp *qp, bool notify)
{
	qp->state = MOOR_QPS_SQD;
	qp->sqd_event = notify;
	qp->draining = requester_is_busy(&qp->req);
	if (!qp->draining)
		qp_drained(nic, qp);
}

static void enter_state(struct nic *nic, struct qp *qp, uint8_t state,
			bool notify)
{
	switch (state) {
	case MOOR_QPS_RESET:
		qp_to_reset(nic, qp);
		return;
	case MOOR_QPS_ERR:
		qp_error(nic, qp);
		return;
	case MOOR_QPS_SQD:
		if (qp->state != MOOR_QPS_SQD)
			enter_sqd(nic, qp, notify);
		break;
	default:
		if (qp->state == MOOR_QPS_SQE)
			requester_go_on(&qp->req);
		qp->state = state;
		qp->draining = false;
		if (state == MOOR_QPS_RTS) {
			qp->resp.established = true;
			qp_make_ready(nic, qp);
		}
		break;
	}
}

uint8_t qp_modify(struct nic *nic, const struct moor_cmd *raw,
		  struct moor_cpl *cpl)
{
	const struct moor_cmd_modify_qp *cmd = (const void *)raw;
	struct qp *qp = qp_find(nic, le32toh(cmd->qpn));
	uint32_t mask = le32toh(cmd->mask);
	uint8_t status, state;

	if (!qp)
		return CMD_FAIL(cpl, MOOR_CMD_BAD_INDEX,
				struct moor_cmd_modify_qp, qpn);
	status = check_limits(nic, cmd, mask, cpl);
	if (status)
		return status;
	state = mask & MOOR_QP_ATTR_STATE ? cmd->state : qp->state;
	if ((mask & MOOR_QP_ATTR_STATE) &&
	    !(transitions[qp->state] & 1u << state))
		return CMD_FAIL(cpl, MOOR_CMD_BAD_STATE,
				struct moor_cmd_modify_qp, state);

	set_attributes(nic, qp, cmd, mask);
	if (mask & MOOR_QP_ATTR_STATE)
		enter_state(nic, qp, state, mask & MOOR_QP_ATTR_SQD_EVENT);
	return MOOR_CMD_OK;
}
