// SPDX-License-Identifier: GPL-2.0
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/moor-abi.h>

#include "uverbs_build.h"

void build_create_channel(void)
{
	struct ib_uverbs_create_comp_channel core = {};

	COMMAND(CREATE_COMP_CHANNEL, core, sizeof(struct ib_uverbs_create_comp_channel_resp));
}

const struct cq_answer *put_create_cq(uint64_t ring, uint8_t log_cqe, int channel)
{
	struct moor_create_cq_req req = { .ring_addr = ring, .log_cqe = log_cqe };
	struct ib_uverbs_create_cq core = {
		.cqe = 1u << req.log_cqe, .comp_vector = below(2),
		.comp_channel = channel,
	};

	return command(IB_USER_VERBS_CMD_CREATE_CQ, &core, sizeof(core), &req,
		       sizeof(req), sizeof(struct cq_answer));
}

void build_create_cq(void)
{
	const struct cq_answer *a;

	a = put_create_cq(memory(), 1 + below(7), one_in(2) ? (int)pick(CHANNEL) : -1);
	call.offset = (uint64_t *)(one_in(2) ? &a->driver.db.doorbell_mmap_offset :
					       &a->driver.db.kick_mmap_offset);
}

void build_create_cq_ioctl(void)
{
	struct moor_create_cq_req req = { .ring_addr = memory(), .log_cqe = 1 + below(7) };
	struct moor_create_cq_resp *resp;

	method(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE);
	attr_new(UVERBS_ATTR_CREATE_CQ_HANDLE);
	attr_u32(UVERBS_ATTR_CREATE_CQ_CQE, 1u << req.log_cqe);
	attr_u64(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 1);
	attr_u32(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0);
	attr_out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4);
	attr_in(UVERBS_ATTR_UHW_IN, &req, sizeof(req));
	resp = attr_out(UVERBS_ATTR_UHW_OUT, sizeof(*resp));
	call.offset = (uint64_t *)&resp->db.doorbell_mmap_offset;
}

void build_resize_cq(void)
{
	struct moor_resize_cq_req req = { .ring_addr = memory(), .log_cqe = 1 + below(8) };
	struct ib_uverbs_resize_cq core = {
		.cq_handle = pick(CQ), .cqe = 1u << req.log_cqe,
	};

	command(IB_USER_VERBS_CMD_RESIZE_CQ, &core, sizeof(core), &req, sizeof(req),
		sizeof(struct ib_uverbs_resize_cq_resp));
}

void build_destroy_cq(void)
{
	struct ib_uverbs_destroy_cq core = { .cq_handle = pick(CQ) };

	COMMAND(DESTROY_CQ, core, sizeof(struct ib_uverbs_destroy_cq_resp));
}

static struct moor_create_qp_req qp_request(void)
{
	return (struct moor_create_qp_req){
		.sq_addr = memory(), .rq_addr = memory(),
		.log_sq_depth = 2 + below(5), .log_rq_depth = 2 + below(5),
		.log_sq_stride = 7 + below(2), .log_rq_stride = 6 + below(2),
		.cookie = below(100),
	};
}

const struct qp_answer *put_create_qp(const struct moor_create_qp_req *req, uint32_t pd,
				      uint32_t send_cq, uint32_t recv_cq)
{
	struct ib_uverbs_create_qp core = {
		.pd_handle = pd, .send_cq_handle = send_cq, .recv_cq_handle = recv_cq,
		.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1,
		.qp_type = IB_UVERBS_QPT_RC,
	};

	return command(IB_USER_VERBS_CMD_CREATE_QP, &core, sizeof(core), req,
		       sizeof(*req), sizeof(struct qp_answer));
}

void build_create_qp(void)
{
	struct moor_create_qp_req req = qp_request();

	put_create_qp(&req, pick(PD), pick(CQ), pick(CQ));
}

void build_create_qp_ioctl(void)
{
	struct ib_uverbs_qp_cap cap = {
		.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1,
	};
	struct moor_create_qp_req req = qp_request();
	struct moor_create_qp_resp *resp;

	method(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE);
	attr_new(UVERBS_ATTR_CREATE_QP_HANDLE);
	attr(UVERBS_ATTR_CREATE_QP_PD_HANDLE, 0, pick(PD));
	attr(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, 0, pick(CQ));
	attr(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, 0, pick(CQ));
	attr_u64(UVERBS_ATTR_CREATE_QP_USER_HANDLE, 1);
	attr_in(UVERBS_ATTR_CREATE_QP_CAP, &cap, sizeof(cap));
	attr(UVERBS_ATTR_CREATE_QP_TYPE, 8, IB_UVERBS_QPT_RC);
	attr_out(UVERBS_ATTR_CREATE_QP_RESP_CAP, sizeof(cap));
	attr_out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, 4);
	attr_in(UVERBS_ATTR_UHW_IN, &req, sizeof(req));
	resp = attr_out(UVERBS_ATTR_UHW_OUT, sizeof(*resp));
	call.offset = (uint64_t *)&resp->db.kick_mmap_offset;
}

void build_query_qp(void)
{
	struct ib_uverbs_query_qp core = { .qp_handle = pick(QP), .attr_mask = 1 };

	COMMAND(QUERY_QP, core, sizeof(struct ib_uverbs_query_qp_resp));
}

/* To @state: one step up, if the QP is in the state below, or down to RESET. */
void put_modify_qp(uint32_t qp, uint32_t state, uint32_t peer)
{
	static const uint32_t masks[] = {
		IBV_QP_STATE,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
	};
	struct ib_uverbs_modify_qp core = {
		.qp_handle = qp, .qp_state = state, .attr_mask = masks[state < 4 ? state : 0],
		.dest = { .sgid_index = gid_index, .hop_limit = 1, .is_global = 1, .port_num = 1 },
		.path_mtu = 3, .dest_qp_num = peer, .qp_access_flags = 0xe,
		.max_rd_atomic = 1, .max_dest_rd_atomic = 1, .port_num = 1, .timeout = 14,
		.retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1,
	};

	memcpy(core.dest.dgid, gid, sizeof(gid));
	COMMAND(MODIFY_QP, core, 0);
}

void build_modify_qp(void)
{
	uint32_t state = one_in(4) ? below(7) : below(4);

	put_modify_qp(pick(QP), state, below(1 << 24));
}

void build_destroy_qp(void)
{
	struct ib_uverbs_destroy_qp core = { .qp_handle = pick(QP) };

	COMMAND(DESTROY_QP, core, sizeof(struct ib_uverbs_destroy_qp_resp));
}
