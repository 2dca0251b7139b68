// SPDX-License-Identifier: GPL-2.0
/* Fuzz target: commands of any content, one or a batch, in any state (HWI 8). */
#include <endian.h>

#include "device/command.h"
#include "device/nic.h"
#include "transport/qp.h"
#include "world.h"

union any_command {
	struct moor_cmd any;
	struct moor_cmd_create_eq eq;
	struct moor_cmd_create_cq cq;
	struct moor_cmd_resize_cq resize;
	struct moor_cmd_modify_cq moderate;
	struct moor_cmd_create_qp qp;
	struct moor_cmd_modify_qp modify;
	struct moor_cmd_create_srq srq;
	struct moor_cmd_modify_srq change;
	struct moor_cmd_filter filter;
	struct moor_cmd_set_gid gid;
	struct moor_cmd_mr_revoke revoke;
	struct moor_cmd_mr_query query;
	struct moor_cmd_mr_windows windows;
	struct moor_cmd_mr_invalidate invalidate;
	struct moor_cmd_page_response response;
	uint64_t words[MOOR_CMD_SIZE / 8];
};

static void fill_queue_pair(struct moor_cmd_create_qp *qp, struct input *in)
{
	uint8_t sizes = input_u8(in), odd = input_u8(in);

	qp->qpn = WORLD_QPN(input_below(in, 4));
	qp->pd = WORLD_PD;
	qp->send_cqn = odd & 1;
	qp->recv_cqn = odd >> 1 & 1;
	qp->flags = odd >> 2 & 1;
	qp->type = odd >> 6;
	qp->log_sq_depth = sizes & 3;
	qp->log_rq_depth = sizes >> 2 & 3;
	qp->log_sq_stride = 6 + (sizes >> 4 & 3);
	qp->log_rq_stride = 6 + (sizes >> 6 & 3);
	qp->sq_doorbell = WORLD_SLOT(2 + input_below(in, 16));
	qp->rq_doorbell = WORLD_SLOT(2 + input_below(in, 16));
	qp->sq = some_xlat(in);
	qp->rq = some_xlat(in);
	if (odd & 0x10) {
		qp->no_sq = 1;
		qp->log_sq_depth = 0;
		qp->log_sq_stride = 0;
		qp->sq_doorbell = 0;
		qp->sq = (struct moor_xlat){ 0 };
	}
	if (odd & 0x20) {
		qp->no_rq = 1;
		qp->log_rq_depth = 0;
		qp->log_rq_stride = 0;
		qp->rq_doorbell = 0;
		qp->rq = (struct moor_xlat){ 0 };
	}
	if (odd & 0x08) {
		qp->flags |= MOOR_QP_FLAG_SRQ;
		qp->srqn = WORLD_SRQN + input_below(in, 2);
	}
}

static void fill_shared(struct moor_cmd_create_srq *srq, struct input *in)
{
	uint8_t sizes = input_u8(in);

	srq->srqn = WORLD_SRQN + input_below(in, 3);
	srq->pd = WORLD_PD;
	srq->flags = sizes >> 6 & 1;
	srq->log_depth = sizes & 7;
	srq->log_stride = 5 + (sizes >> 3 & 7);
	srq->doorbell = WORLD_SLOT(2 + input_below(in, 16));
	srq->ring = some_xlat(in);
}

static void fill_change(struct moor_cmd_modify_srq *change, struct input *in)
{
	uint8_t sizes = input_u8(in);

	change->srqn = WORLD_SRQN + input_below(in, 3);
	change->mask = sizes >> 6;
	change->limit = input_below(in, 20);
	change->log_depth = sizes & 7;
	change->log_stride = 5 + (sizes >> 3 & 7);
	if (change->mask & MOOR_SRQ_ATTR_RING)
		change->ring = some_xlat(in);
}

static void fill_filter(struct moor_cmd_filter *filter, struct input *in)
{
	filter->type = MOOR_FILTER_MULTICAST;
	filter->qpn = WORLD_QPN(input_below(in, 4));
	world_gid(filter->gid, WORLD_GROUP);
	filter->gid[15] = input_u8(in) & 3;
}

static void fill_modify(struct moor_cmd_modify_qp *modify, struct input *in)
{
	uint8_t access;

	modify->qpn = WORLD_QPN(input_below(in, 4));
	modify->mask = input_u16(in);
	modify->state = (uint8_t)input_below(in, 8);
	modify->path_mtu = (uint8_t)(1 + input_below(in, 5));
	modify->dest_qpn = WORLD_QPN(input_below(in, 4));
	access = input_u8(in);
	modify->access = (uint8_t)(access % 8 << 1);
	modify->access_high = access >> 5;
	modify->max_rd_atomic = (uint8_t)input_below(in, 18);
	modify->max_dest_rd_atomic = (uint8_t)input_below(in, 18);
	modify->timeout = (uint8_t)input_below(in, 33);
	modify->retry_cnt = (uint8_t)input_below(in, 9);
	modify->dgid[0] = 0xfe;
	modify->dgid[1] = 0x80;
}

/* A token: of a half of one of the QPs, mostly. */
static uint32_t some_token(struct input *in)
{
	uint8_t how = input_u8(in);
	const struct qp *qp = qp_find(w->nic, WORLD_QPN(how & 1));

	if (!qp || how & 0x80)
		return (uint32_t)some_number(in);
	return how & 2 ? qp->resp.half.token : qp->req.half.token;
}

/* Fills in the opcode's fields, with numbers from the input. */
static void fill(union any_command *cmd, struct input *in)
{
	unsigned int i;

	switch (cmd->any.hdr.opcode) {
	case MOOR_CMD_CREATE_EQ:
		cmd->eq.eqn = input_below(in, 20);
		cmd->eq.vector = (uint16_t)input_below(in, 20);
		cmd->eq.log_eqe = (uint8_t)input_below(in, 18);
		cmd->eq.base = some_addr(in) & ~0xfffull;
		break;
	case MOOR_CMD_CREATE_CQ:
		cmd->cq.cqn = input_below(in, 4);
		cmd->cq.eqn = input_below(in, 5);
		cmd->cq.doorbell = WORLD_SLOT(input_below(in, 16));
		cmd->cq.log_cqe = (uint8_t)input_below(in, 12);
		cmd->cq.ring = some_xlat(in);
		break;
	case MOOR_CMD_RESIZE_CQ:
		cmd->resize.cqn = input_below(in, 4);
		cmd->resize.log_cqe = (uint8_t)input_below(in, 12);
		cmd->resize.ring = some_xlat(in);
		break;
	case MOOR_CMD_MODIFY_CQ:
		cmd->moderate.cqn = input_below(in, 4);
		cmd->moderate.count = input_u8(in);
		cmd->moderate.period = input_u16(in);
		break;
	case MOOR_CMD_CREATE_QP:
		fill_queue_pair(&cmd->qp, in);
		break;
	case MOOR_CMD_MODIFY_QP:
		fill_modify(&cmd->modify, in);
		break;
	case MOOR_CMD_CREATE_SRQ:
		fill_shared(&cmd->srq, in);
		break;
	case MOOR_CMD_MODIFY_SRQ:
		fill_change(&cmd->change, in);
		break;
	case MOOR_CMD_QUERY_SRQ:
	case MOOR_CMD_DESTROY_SRQ:
		cmd->change.srqn = WORLD_SRQN + input_below(in, 3);
		break;
	case MOOR_CMD_ATTACH_FILTER:
	case MOOR_CMD_DETACH_FILTER:
		fill_filter(&cmd->filter, in);
		break;
	case MOOR_CMD_SET_GID:
		cmd->gid.index = (uint16_t)input_below(in, 66);
		cmd->gid.type = (uint8_t)input_below(in, 4);
		cmd->gid.vlan = MOOR_GID_NO_VLAN;
		cmd->gid.gid[0] = 0xfe;
		cmd->gid.gid[1] = 0x80;
		break;
	case MOOR_CMD_MR_REVOKE:
		cmd->revoke.count = input_below(in, 26);
		for (i = 0; i < cmd->revoke.count && i < MOOR_REVOKE_MAX_KEYS;
		     i++)
			cmd->revoke.key[i] = some_key(in);
		break;
	case MOOR_CMD_MR_QUERY:
		cmd->query.key = some_key(in);
		break;
	case MOOR_CMD_MR_WINDOWS:
		cmd->windows.key = some_key(in);
		cmd->windows.cursor = input_u8(in) & 1 ? some_index(in) : 0;
		cmd->windows.buffer = some_addr(in) & ~0xfffull;
		break;
	case MOOR_CMD_MR_INVALIDATE:
		cmd->invalidate.key = some_key(in);
		cmd->invalidate.addr = page_addr(PAGE_DATA) + some_number(in);
		cmd->invalidate.length = some_number(in);
		break;
	case MOOR_CMD_PAGE_RESPONSE:
		cmd->response.token = some_token(in);
		cmd->response.status = (uint8_t)input_below(in, 3);
		break;
	default:
		/* QUERY and DESTROY begin with a number; QPs have their own. */
		cmd->words[1] = cmd->any.hdr.opcode < MOOR_CMD_CREATE_QP ?
				input_below(in, 20) :
				WORLD_QPN(input_below(in, 4));
		break;
	}
}

static void one_command(struct input *in)
{
	static const uint8_t opcodes[] = {
		MOOR_CMD_NOP, MOOR_CMD_CREATE_EQ, MOOR_CMD_DESTROY_EQ,
		MOOR_CMD_CREATE_CQ, MOOR_CMD_DESTROY_CQ, MOOR_CMD_RESIZE_CQ,
		MOOR_CMD_CREATE_QP, MOOR_CMD_MODIFY_QP, MOOR_CMD_QUERY_QP,
		MOOR_CMD_DESTROY_QP, MOOR_CMD_SET_GID, MOOR_CMD_MR_REVOKE,
		MOOR_CMD_MR_QUERY, MOOR_CMD_MR_WINDOWS, MOOR_CMD_MR_INVALIDATE,
		MOOR_CMD_MODIFY_CQ, MOOR_CMD_PAGE_RESPONSE, MOOR_CMD_CREATE_SRQ,
		MOOR_CMD_MODIFY_SRQ, MOOR_CMD_QUERY_SRQ, MOOR_CMD_DESTROY_SRQ,
		MOOR_CMD_ATTACH_FILTER, MOOR_CMD_DETACH_FILTER,
	};
	union any_command cmd = { 0 };
	uint8_t which = input_u8(in), odd;

	cmd.any.hdr.opcode = opcodes[which % sizeof(opcodes)];
	fill(&cmd, in);
	/* Change up to three words. */
	for (odd = which / 64; odd; odd--)
		cmd.words[input_below(in, 16)] ^= some_number(in);
	if (!command(&cmd, sizeof(cmd)) && cmd.any.hdr.opcode)
		fuzz_reached++;
}

/* Bytes of the input as commands, several at once; the producer may be beyond them. */
static void raw_commands(struct input *in)
{
	unsigned int count = input_below(in, 18), i;
	uint32_t at = w->nic->commands->consumer;

	for (i = 0; i < count && input_left(in); i++) {
		uint8_t size = input_u8(in) % (MOOR_CMD_SIZE + 1);
		uint8_t *to = world_ptr(page_addr(PAGE_CMD) +
					(at + i) % (1u << WORLD_LOG_CMD) *
					MOOR_CMD_SIZE);

		memset(to, 0, MOOR_CMD_SIZE);
		input_bytes(in, to, size);
	}
	set_slot(MOOR_DB_SLOT_CMD_PRODUCER, at + count);
	set_slot(MOOR_DB_SLOT_CPL_ARM, input_u8(in));
	nic_kick(w->nic, 0, MOOR_DB_SLOT_CMD_PRODUCER);
	world_run();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	uint8_t how = input_u8(&in);

	world_begin(how & 1);
	w->nic->cfg.sync_commands = how & 2;
	world_setup();
	if (how & 4)
		world_connect();
	while (input_left(&in) && w->runs) {
		switch (input_below(&in, 8)) {
		case 0:
			raw_commands(&in);
			break;
		case 1:
		case 2:
			common_step(&in);
			break;
		default:
			one_command(&in);
			break;
		}
	}
	return 0;
}
