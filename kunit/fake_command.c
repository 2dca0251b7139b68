// SPDX-License-Identifier: GPL-2.0
/*
 * The fake NIC's commands (HWI 8.4): their checks, and the state that they change.
 */

#include "fake.h"

struct fake_verb {
	size_t size;		/* of the command's structure */
	u8 (*run)(struct fake_nic *nic, const void *cmd, void *out);
};

static u8 fake_nop(struct fake_nic *nic, const void *data, void *out)
{
	return MOOR_CMD_OK;
}

static u8 fake_create_eq(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_create_eq *cmd = data;
	u32 eqn = le32_to_cpu(cmd->eqn);
	struct fake_eq *eq = &nic->eqs[eqn];

	if (eqn >= FAKE_MAX_EQ || eq->live)
		return MOOR_CMD_BAD_INDEX;
	if (le16_to_cpu(cmd->vector) >= FAKE_VECTORS || !cmd->log_eqe ||
	    cmd->log_eqe > 8 || le64_to_cpu(cmd->base) % MOOR_PAGE_SIZE)
		return MOOR_CMD_BAD_PARAM;
	*eq = (struct fake_eq){
		.live = true,
		.base = le64_to_cpu(cmd->base),
		.log_size = cmd->log_eqe,
		.vector = le16_to_cpu(cmd->vector),
	};
	nic->slots[MOOR_DB_SLOT_EQ_CONSUMER + eqn] = 0;
	return MOOR_CMD_OK;
}

static u8 fake_destroy_eq(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_destroy_eq *cmd = data;
	u32 eqn = le32_to_cpu(cmd->eqn);

	if (eqn >= FAKE_MAX_EQ || !nic->eqs[eqn].live)
		return MOOR_CMD_BAD_INDEX;
	nic->eqs[eqn].live = false;
	return MOOR_CMD_OK;
}

/* Whether a queue may be tied to the slot: not to one that is the driver's own. */
bool fake_doorbell_ok(struct fake_nic *nic, __le32 doorbell)
{
	u32 page = FIELD_GET(MOOR_DB_PAGE, (u64)le32_to_cpu(doorbell));
	u32 slot = FIELD_GET(MOOR_DB_SLOT, (u64)le32_to_cpu(doorbell));

	if (page >= FAKE_DB_PAGES)
		return false;
	if (!page && slot < MOOR_DB_SLOT_KERNEL_FIRST)
		return false;
	nic->slots[page * MOOR_DB_SLOTS_PER_PAGE + slot] = 0;
	return true;
}

/* Every byte of a ring must be mapped, and be writable if the device writes. */
u8 fake_check_ring(struct fake_nic *nic, const struct moor_xlat *xlat,
		   u64 bytes, bool write)
{
	u64 byte, dma, left;

	for (byte = 0; byte < bytes; byte += left)
		if (!fake_xlat_find(nic, xlat, byte, write, &dma, &left))
			return MOOR_CMD_DMA_FAULT;
	return MOOR_CMD_OK;
}

static u8 fake_create_cq(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_create_cq *cmd = data;
	u32 cqn = le32_to_cpu(cmd->cqn), eqn = le32_to_cpu(cmd->eqn);
	u8 status;

	if (cqn >= FAKE_MAX_CQ || test_bit(cqn, nic->cqs))
		return MOOR_CMD_BAD_INDEX;
	if (eqn < MOOR_EQ_COMPLETION || eqn >= FAKE_MAX_EQ ||
	    !nic->eqs[eqn].live)
		return MOOR_CMD_BAD_INDEX;
	if (!fake_doorbell_ok(nic, cmd->doorbell) || !cmd->log_cqe)
		return MOOR_CMD_BAD_PARAM;
	status = fake_check_ring(nic, &cmd->ring,
				 sizeof(struct moor_cqe) << cmd->log_cqe, true);
	if (!status)
		set_bit(cqn, nic->cqs);
	return status;
}

static u8 fake_resize_cq(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_resize_cq *cmd = data;
	u32 cqn = le32_to_cpu(cmd->cqn);

	if (cqn >= FAKE_MAX_CQ || !test_bit(cqn, nic->cqs))
		return MOOR_CMD_BAD_INDEX;
	return fake_check_ring(nic, &cmd->ring,
			       sizeof(struct moor_cqe) << cmd->log_cqe, true);
}

static u8 fake_modify_cq(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_modify_cq *cmd = data;
	u32 cqn = le32_to_cpu(cmd->cqn);

	if (cqn >= FAKE_MAX_CQ || !test_bit(cqn, nic->cqs))
		return MOOR_CMD_BAD_INDEX;
	nic->moderation = (struct fake_moderation){
		cqn, le16_to_cpu(cmd->count), le16_to_cpu(cmd->period),
	};
	return MOOR_CMD_OK;
}

static u8 fake_destroy_cq(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_destroy_cq *cmd = data;
	u32 cqn = le32_to_cpu(cmd->cqn);

	if (cqn >= FAKE_MAX_CQ || !test_and_clear_bit(cqn, nic->cqs))
		return MOOR_CMD_BAD_INDEX;
	return MOOR_CMD_OK;
}

struct fake_qp *fake_find_qp(struct fake_nic *nic, __le32 qpn)
{
	struct fake_qp *qp = &nic->qps[le32_to_cpu(qpn) %
				       ARRAY_SIZE(nic->qps)];

	return qp->live && qp->qpn == le32_to_cpu(qpn) ? qp : NULL;
}

/* HWI XRC-4. */
static u8 fake_create_target(struct fake_qp *qp, const struct moor_cmd_create_qp *cmd)
{
	if (cmd->pd || cmd->send_cqn || cmd->recv_cqn || cmd->cookie)
		return MOOR_CMD_BAD_RESERVED;
	if (cmd->flags || !cmd->no_sq || !cmd->no_rq)
		return MOOR_CMD_BAD_PARAM;
	*qp = (struct fake_qp){
		.live = true,
		.qpn = le32_to_cpu(cmd->qpn),
		.type = cmd->type,
		.xrcd = le32_to_cpu(cmd->xrcd),
	};
	return MOOR_CMD_OK;
}

static u8 fake_create_qp(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_create_qp *cmd = data;
	u32 qpn = le32_to_cpu(cmd->qpn);
	struct fake_qp *qp = &nic->qps[qpn % ARRAY_SIZE(nic->qps)];
	u8 status = MOOR_CMD_OK;

	if (qpn >> 24 || qp->live)
		return MOOR_CMD_BAD_INDEX;
	if (cmd->type > MOOR_QP_XRC_TGT ||
	    (cmd->type >= MOOR_QP_XRC_INI &&
	     !(fake_features(nic) & MOOR_FEATURE_XRC)) ||
	    (cmd->type == MOOR_QP_UC && !(fake_features(nic) & MOOR_FEATURE_UC)) ||
	    (cmd->type == MOOR_QP_UD && !(fake_features(nic) & MOOR_FEATURE_UD)))
		return MOOR_CMD_BAD_PARAM;
	if (cmd->type == MOOR_QP_XRC_TGT)
		return fake_create_target(qp, cmd);
	if (cmd->xrcd)
		return MOOR_CMD_BAD_RESERVED;
	if (cmd->type == MOOR_QP_XRC_INI && !cmd->no_rq)
		return MOOR_CMD_BAD_PARAM;
	if (cmd->flags & MOOR_QP_FLAG_SRQ && !cmd->no_rq)
		return MOOR_CMD_BAD_PARAM;
	if (cmd->flags & MOOR_QP_FLAG_SRQ && !fake_find_srq(nic, cmd->srqn))
		return MOOR_CMD_BAD_INDEX;
	if (!test_bit(le32_to_cpu(cmd->send_cqn) % FAKE_MAX_CQ, nic->cqs) ||
	    !test_bit(le32_to_cpu(cmd->recv_cqn) % FAKE_MAX_CQ, nic->cqs))
		return MOOR_CMD_BAD_INDEX;
	if (!cmd->no_sq) {
		if (!fake_doorbell_ok(nic, cmd->sq_doorbell))
			return MOOR_CMD_BAD_PARAM;
		status = fake_check_ring(nic, &cmd->sq,
					 1ULL << (cmd->log_sq_depth +
						  cmd->log_sq_stride), false);
	}
	if (!status && !cmd->no_rq) {
		if (!fake_doorbell_ok(nic, cmd->rq_doorbell))
			return MOOR_CMD_BAD_PARAM;
		status = fake_check_ring(nic, &cmd->rq,
					 1ULL << (cmd->log_rq_depth +
						  cmd->log_rq_stride), false);
	}
	if (!status)
		*qp = (struct fake_qp){
			.live = true,
			.qpn = qpn,
			.type = cmd->type,
			.pd = le32_to_cpu(cmd->pd),
			.has_srq = cmd->flags & MOOR_QP_FLAG_SRQ,
			.srqn = le32_to_cpu(cmd->srqn),
		};
	return status;
}

/* A field of a later minor version is reserved in an earlier one. */
static bool fake_access_ok(struct fake_nic *nic,
			   const struct moor_cmd_modify_qp *cmd)
{
	u32 high = (u32)cmd->access_high << 8;

	if (!cmd->reserved1 && !(high & ~fake_flush_rights(nic)) &&
	    (!high || le32_to_cpu(cmd->mask) & MOOR_QP_ATTR_ACCESS))
		return true;
	fake_violation(nic, "MODIFY_QP has rights that the NIC does not know");
	return false;
}

static u8 fake_modify_qp(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_modify_qp *cmd = data;
	struct fake_qp *qp = fake_find_qp(nic, cmd->qpn);

	if (!qp)
		return MOOR_CMD_BAD_INDEX;
	if (!fake_access_ok(nic, cmd))
		return MOOR_CMD_BAD_RESERVED;
	if (le32_to_cpu(cmd->mask) & MOOR_QP_ATTR_ACCESS)
		qp->access = cmd->access | (u32)cmd->access_high << 8;
	if (le32_to_cpu(cmd->mask) & MOOR_QP_ATTR_STATE)
		qp->state = cmd->state;
	if (le32_to_cpu(cmd->mask) & MOOR_QP_ATTR_QKEY)
		qp->qkey = le32_to_cpu(cmd->qkey);
	if (le32_to_cpu(cmd->mask) & MOOR_QP_ATTR_PATH_MTU)
		qp->path_mtu = cmd->path_mtu;
	if (le32_to_cpu(cmd->mask) & MOOR_QP_ATTR_STATE &&
	    cmd->state == MOOR_QPS_RESET)
		fake_windows_of_qp(nic, qp->qpn);
	return MOOR_CMD_OK;
}

static u8 fake_query_qp(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_query_qp *cmd = data;
	struct fake_qp *qp = fake_find_qp(nic, cmd->qpn);
	struct moor_cpl_query_qp *cpl = out;

	if (!qp)
		return MOOR_CMD_BAD_INDEX;
	cpl->state = qp->state;
	/* The fake NIC sends and receives nothing: any PSNs will do. */
	cpl->sq_psn = cpu_to_le32(qp->qpn);
	return MOOR_CMD_OK;
}

static u8 fake_destroy_qp(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_destroy_qp *cmd = data;
	struct fake_qp *qp = fake_find_qp(nic, cmd->qpn);

	if (!qp)
		return MOOR_CMD_BAD_INDEX;
	fake_windows_of_qp(nic, qp->qpn);
	qp->live = false;
	return MOOR_CMD_OK;
}

static u8 fake_set_gid(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_set_gid *cmd = data;
	u32 index = le16_to_cpu(cmd->index);

	if (index >= FAKE_GIDS)
		return MOOR_CMD_BAD_INDEX;
	assign_bit(index, nic->gids, cmd->type != MOOR_GID_NONE);
	return MOOR_CMD_OK;
}

/* HWI REV-1 to REV-5 */
static u8 fake_mr_revoke(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_mr_revoke *cmd = data;
	struct moor_cpl_mr_revoke *cpl = out;
	u32 count = le32_to_cpu(cmd->count), busy = 0, unknown = 0;
	u32 i, index;

	if (!count || count > MOOR_REVOKE_MAX_KEYS)
		return MOOR_CMD_BAD_PARAM;
	for (i = 0; i < count; i++) {
		if (!fake_mr_find(nic, le32_to_cpu(cmd->key[i]), &index)) {
			unknown |= BIT(i);
			continue;
		}
		if (nic->windows[index]) {
			busy |= BIT(i);
			continue;
		}
		if (index >= FAKE_CONSUMER_FIRST)
			fake_window_unbind(nic, index);
		nic->revoked[index] = le64_to_cpu(nic->mr[index].valid);
	}
	cpl->busy = cpu_to_le32(busy);
	cpl->unknown = cpu_to_le32(unknown);
	return MOOR_CMD_OK;
}

/* HWI ODP-18 to ODP-22: software unmaps pages before it invalidates them. */
static u8 fake_mr_invalidate(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_mr_invalidate *cmd = data;
	u64 first = le64_to_cpu(cmd->addr), length = le64_to_cpu(cmd->length);
	const struct moor_mr_context *mr;
	u64 dma, left;
	u32 index;

	if (!fake_mr_find(nic, le32_to_cpu(cmd->key), &index) ||
	    index >= FAKE_CONSUMER_FIRST)
		return MOOR_CMD_BAD_INDEX;
	mr = &nic->mr[index];
	if (!(le32_to_cpu(mr->access) & MOOR_ACCESS_ON_DEMAND))
		return MOOR_CMD_BAD_STATE;
	first -= le64_to_cpu(mr->iova);
	if (!length || first >= le64_to_cpu(mr->length) ||
	    length > le64_to_cpu(mr->length) - first)
		return MOOR_CMD_BAD_PARAM;
	if (fake_xlat_find(nic, &mr->xlat, first, false, &dma, &left) ||
	    fake_xlat_find(nic, &mr->xlat, first + length - 1, false, &dma,
			   &left))
		fake_violation(nic, "what is still mapped is invalidated");
	nic->invalidated = *cmd;
	return MOOR_CMD_OK;
}

/* HWI ODP-13 */
static u8 fake_page_response(struct fake_nic *nic, const void *data, void *out)
{
	const struct moor_cmd_page_response *cmd = data;
	u32 token = le32_to_cpu(cmd->token);
	struct fake_page *page = &nic->pages[token % FAKE_PAGE_REQUESTS];

	if (cmd->status > MOOR_PAGE_FAILED)
		return MOOR_CMD_BAD_PARAM;
	if (!token || page->token != token || page->answered)
		return MOOR_CMD_BAD_INDEX;
	page->status = cmd->status;
	/* A test that sees @answered reads @status next. */
	smp_store_release(&page->answered, true);
	return MOOR_CMD_OK;
}

#define FAKE_VERB(code, name)						\
	[MOOR_CMD_##code] = { sizeof(struct moor_cmd_##name), fake_##name }

static const struct fake_verb fake_verbs[] = {
	[MOOR_CMD_NOP] = { sizeof(struct moor_cmd_hdr), fake_nop },
	FAKE_VERB(CREATE_EQ, create_eq),
	FAKE_VERB(DESTROY_EQ, destroy_eq),
	FAKE_VERB(CREATE_CQ, create_cq),
	FAKE_VERB(DESTROY_CQ, destroy_cq),
	FAKE_VERB(RESIZE_CQ, resize_cq),
	FAKE_VERB(MODIFY_CQ, modify_cq),
	FAKE_VERB(CREATE_QP, create_qp),
	FAKE_VERB(MODIFY_QP, modify_qp),
	FAKE_VERB(QUERY_QP, query_qp),
	FAKE_VERB(DESTROY_QP, destroy_qp),
	FAKE_VERB(CREATE_SRQ, create_srq),
	FAKE_VERB(MODIFY_SRQ, modify_srq),
	FAKE_VERB(QUERY_SRQ, query_srq),
	FAKE_VERB(DESTROY_SRQ, destroy_srq),
	[MOOR_CMD_ATTACH_FILTER] = { sizeof(struct moor_cmd_filter),
				     fake_attach_filter },
	[MOOR_CMD_DETACH_FILTER] = { sizeof(struct moor_cmd_filter),
				     fake_detach_filter },
	FAKE_VERB(SET_GID, set_gid),
	FAKE_VERB(MR_REVOKE, mr_revoke),
	FAKE_VERB(MR_QUERY, mr_query),
	FAKE_VERB(MR_WINDOWS, mr_windows),
	FAKE_VERB(MR_INVALIDATE, mr_invalidate),
	FAKE_VERB(PAGE_RESPONSE, page_response),
};

/**
 * fake_execute - execute a command
 * @nic: NIC, locked
 * @cmd: command
 * @out: zeroed output, of the completion's size
 *
 * Return: the status (HWI 8.2).
 */
u8 fake_execute(struct fake_nic *nic, const struct moor_cmd *cmd, void *out)
{
	const struct fake_verb *verb = &fake_verbs[cmd->hdr.opcode];

	if (cmd->hdr.opcode >= ARRAY_SIZE(fake_verbs) || !verb->run)
		return MOOR_CMD_BAD_OPCODE;
	/* A NIC without a feature does not know its opcodes (HWI FEAT-2). */
	if ((cmd->hdr.opcode == MOOR_CMD_MR_INVALIDATE ||
	     cmd->hdr.opcode == MOOR_CMD_PAGE_RESPONSE) &&
	    !(fake_features(nic) & MOOR_FEATURE_ODP))
		return MOOR_CMD_BAD_OPCODE;
	if (cmd->hdr.opcode == MOOR_CMD_MR_WINDOWS &&
	    !(fake_features(nic) & (MOOR_FEATURE_MW_TYPE_1 |
				    MOOR_FEATURE_MW_TYPE_2B)))
		return MOOR_CMD_BAD_OPCODE;
	if (cmd->hdr.opcode == MOOR_CMD_MODIFY_CQ &&
	    !(fake_features(nic) & MOOR_FEATURE_CQ_MODERATION))
		return MOOR_CMD_BAD_OPCODE;
	if (cmd->hdr.reserved1 || cmd->hdr.reserved2 ||
	    memchr_inv((const u8 *)cmd + verb->size, 0,
		       sizeof(*cmd) - verb->size)) {
		fake_violation(nic, "a command has reserved bytes that are not zero");
		return MOOR_CMD_BAD_RESERVED;
	}
	return verb->run(nic, cmd, out);
}
