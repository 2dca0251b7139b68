// SPDX-License-Identifier: GPL-2.0
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/moor-abi.h>
#include <rdma/moor_user_ioctl_cmds.h>

#include "uverbs_call.h"

/* Newer than the headers that this may be compiled with. */
#define METHOD_REG_MR		5
#define ATTR_REG_MR_IOVA	3
#define ATTR_REG_MR_ADDR	4
#define ATTR_REG_MR_LENGTH	5
#define ATTR_REG_MR_ACCESS	6
#define ATTR_REG_MR_LKEY	9
#define ATTR_REG_MR_RKEY	10

struct pool pool[KINDS];
struct call call;
uint8_t *arena, *inputs, *answers;
size_t inputs_used, answers_used;
uint64_t random_state;
int gid_index;
uint8_t gid[16];
uint32_t picked;

/* ---- randomness ---- */

uint64_t next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

uint32_t below(uint32_t n)
{
	return (uint32_t)(next() >> 16) % n;
}

bool one_in(uint32_t n)
{
	return below(n) == 0;
}

/* ---- what there is to call with ---- */

uint32_t pick(enum kind kind)
{
	if (!pool[kind].count)
		return below(4);
	picked = below(pool[kind].count);
	return pool[kind].handle[picked];
}

static uint64_t memory(void)
{
	return (uintptr_t)arena + below(ARENA / PAGE / 2) * PAGE;
}

static void *input(const void *data, size_t size)
{
	void *place = inputs + inputs_used;

	inputs_used += (size + 7) & ~7ul;
	memcpy(place, data, size);
	return place;
}

static void *answer(size_t size)
{
	void *place = answers + answers_used;

	answers_used += (size + 7) & ~7ul;
	return place;
}

/* ---- the parts of a call ---- */

struct ib_uverbs_attr *attr(uint16_t id, uint16_t len, uint64_t data)
{
	struct ib_uverbs_attr *a = &call.ioctl.attrs[call.ioctl.hdr.num_attrs++];

	*a = (struct ib_uverbs_attr){
		.attr_id = id, .len = len, .flags = UVERBS_ATTR_F_MANDATORY,
		.data = data,
	};
	return a;
}

static void method(uint16_t object, uint16_t id)
{
	call.ioctl.hdr = (struct ib_uverbs_ioctl_hdr){
		.object_id = object, .method_id = id,
	};
}

static void attr_new(uint16_t id)
{
	call.handle = (const uint32_t *)&attr(id, 0, 0)->data;
}

static void attr_in(uint16_t id, const void *data, uint16_t len)
{
	uint64_t value = 0;

	/* Short ones are in the attribute itself. */
	if (len <= 8)
		memcpy(&value, data, len);
	else
		value = (uintptr_t)input(data, len);
	attr(id, len, value);
}

static void *attr_out(uint16_t id, uint16_t len)
{
	void *place = answer(len);

	attr(id, len, (uintptr_t)place);
	return place;
}

static void attr_u32(uint16_t id, uint32_t value)
{
	attr_in(id, &value, sizeof(value));
}

static void attr_u64(uint16_t id, uint64_t value)
{
	attr_in(id, &value, sizeof(value));
}

/* @core begins with the address of its answer, if it has one. */
static void *command(uint32_t number, const void *core, size_t core_size,
		     const void *driver, size_t driver_size, size_t answer_size)
{
	struct ib_uverbs_cmd_hdr *hdr = (void *)call.bytes;
	uint64_t place = answer_size ? (uintptr_t)answer(answer_size) : 0;

	call.by_write = true;
	call.size = sizeof(*hdr) + core_size + driver_size;
	memcpy(hdr + 1, core, core_size);
	if (place)
		memcpy(hdr + 1, &place, sizeof(place));
	if (driver_size)
		memcpy((uint8_t *)(hdr + 1) + core_size, driver, driver_size);
	*hdr = (struct ib_uverbs_cmd_hdr){
		.command = number, .in_words = call.size / 4,
		.out_words = answer_size / 4,
	};
	call.handle = (void *)(uintptr_t)place;
	return (void *)(uintptr_t)place;
}

#define COMMAND(number, core, answer) \
	command(IB_USER_VERBS_CMD_##number, &(core), sizeof(core), NULL, 0, answer)

/* ---- builders: contexts and questions ---- */

struct context_answer {
	struct ib_uverbs_get_context_resp core;
	struct moor_alloc_ucontext_resp driver;
};

static void get_context(void)
{
	struct moor_alloc_ucontext_req req = {};
	struct ib_uverbs_get_context core = {};
	struct context_answer *a;

	a = command(IB_USER_VERBS_CMD_GET_CONTEXT, &core, sizeof(core), &req,
		    sizeof(req), sizeof(*a));
	call.offset = (uint64_t *)&a->driver.doze_mmap_offset;
}

static void get_context_ioctl(void)
{
	struct moor_alloc_ucontext_req req = {};
	struct moor_alloc_ucontext_resp *resp;

	method(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT);
	attr_out(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, 4);
	attr_out(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, 8);
	attr_in(UVERBS_ATTR_UHW_IN, &req, sizeof(req));
	resp = attr_out(UVERBS_ATTR_UHW_OUT, sizeof(*resp));
	call.offset = (uint64_t *)&resp->doze_mmap_offset;
}

static void query_context(void)
{
	method(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT);
	attr_out(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, 4);
	attr_out(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, 8);
	attr_out(MOOR_ATTR_QUERY_CONTEXT_RESP, sizeof(struct moor_alloc_ucontext_resp));
}

static void query_device(void)
{
	struct ib_uverbs_query_device core = {};

	COMMAND(QUERY_DEVICE, core, sizeof(struct ib_uverbs_query_device_resp));
}

static void query_port(void)
{
	struct ib_uverbs_query_port core = { .port_num = 1 };

	COMMAND(QUERY_PORT, core, sizeof(struct ib_uverbs_query_port_resp));
}

static void query_port_ioctl(void)
{
	method(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
	attr_u64(UVERBS_ATTR_QUERY_PORT_PORT_NUM, 1);
	attr_out(UVERBS_ATTR_QUERY_PORT_RESP, sizeof(struct ib_uverbs_query_port_resp_ex));
}

static void query_gids(void)
{
	method(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE);
	attr_u64(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, 32);
	attr(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 4, 0);
	attr_out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, 32 * 16);
	attr_out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 8);
}

static void info_handles(void)
{
	method(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES);
	attr(UVERBS_ATTR_INFO_OBJECT_ID, 8, below(16));
	attr_out(UVERBS_ATTR_INFO_TOTAL_HANDLES, 4);
	attr_out(UVERBS_ATTR_INFO_HANDLES_LIST, 4 * POOL);
}

static void refusal(void)
{
	method(UVERBS_OBJECT_DEVICE, MOOR_METHOD_DEVICE_REFUSAL);
	attr_out(MOOR_ATTR_DEVICE_REFUSAL, sizeof(struct moor_refusal));
}

/* ---- builders: protection domains, address handles ---- */

static void alloc_pd(void)
{
	struct ib_uverbs_alloc_pd core = {};

	COMMAND(ALLOC_PD, core, sizeof(struct ib_uverbs_alloc_pd_resp) +
		sizeof(struct moor_alloc_pd_resp));
}

static void dealloc_pd(void)
{
	struct ib_uverbs_dealloc_pd core = { .pd_handle = pick(PD) };

	COMMAND(DEALLOC_PD, core, 0);
}

static void query_pd(void)
{
	method(UVERBS_OBJECT_PD, MOOR_METHOD_PD_QUERY);
	attr(MOOR_ATTR_PD_QUERY_HANDLE, 0, pick(PD));
	attr_out(MOOR_ATTR_PD_QUERY_RESP, sizeof(struct moor_alloc_pd_resp));
}

static void create_ah(void)
{
	struct ib_uverbs_create_ah core = {
		.pd_handle = pick(PD),
		.attr = {
			.grh = { .sgid_index = gid_index, .hop_limit = 1 },
			.is_global = 1, .port_num = 1,
		},
	};

	memcpy(core.attr.grh.dgid, gid, sizeof(gid));
	COMMAND(CREATE_AH, core, sizeof(struct ib_uverbs_create_ah_resp) +
		sizeof(struct moor_create_ah_resp));
}

static void destroy_ah(void)
{
	struct ib_uverbs_destroy_ah core = { .ah_handle = pick(AH) };

	COMMAND(DESTROY_AH, core, 0);
}

/* ---- builders: memory ---- */

static uint32_t access_flags(void)
{
	return IB_UVERBS_ACCESS_LOCAL_WRITE |
	       (below(8) ? IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_MW_BIND : 0) |
	       (one_in(4) ? IB_UVERBS_ACCESS_ZERO_BASED : 0) |
	       (one_in(4) ? IB_UVERBS_ACCESS_RELAXED_ORDERING : 0);
}

static void reg_mr(void)
{
	uint64_t start = memory() + below(PAGE);
	struct ib_uverbs_reg_mr core = {
		.start = start, .hca_va = start, .length = 1 + below(64 * PAGE),
		.pd_handle = pick(PD), .access_flags = access_flags(),
	};

	COMMAND(REG_MR, core, sizeof(struct ib_uverbs_reg_mr_resp));
}

static void reg_mr_ioctl(void)
{
	uint64_t start = memory();

	method(UVERBS_OBJECT_MR, METHOD_REG_MR);
	attr_new(0);
	attr(1, 0, pick(PD));
	attr_u64(ATTR_REG_MR_IOVA, start);
	attr_u64(ATTR_REG_MR_ADDR, start);
	attr_u64(ATTR_REG_MR_LENGTH, 1 + below(64 * PAGE));
	attr_u32(ATTR_REG_MR_ACCESS, access_flags());
	attr_out(ATTR_REG_MR_LKEY, 4);
	attr_out(ATTR_REG_MR_RKEY, 4);
}

static void rereg_mr(void)
{
	uint64_t start = memory();
	uint32_t pd = pick(PD);
	struct ib_uverbs_rereg_mr core = {
		.flags = 1 + below(7), .start = start, .hca_va = start,
		.length = 1 + below(16 * PAGE), .access_flags = access_flags(),
		.pd_handle = pd, .mr_handle = pick(MR),
	};

	COMMAND(REREG_MR, core, sizeof(struct ib_uverbs_rereg_mr_resp));
}

static void dereg_mr(void)
{
	struct ib_uverbs_dereg_mr core = { .mr_handle = pick(MR) };

	COMMAND(DEREG_MR, core, 0);
}

static void destroy_mr(void)
{
	method(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY);
	attr(UVERBS_ATTR_DESTROY_MR_HANDLE, 0, pick(MR));
}

static void query_mr(void)
{
	method(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR);
	attr(UVERBS_ATTR_QUERY_MR_HANDLE, 0, pick(MR));
	attr_out(UVERBS_ATTR_QUERY_MR_RESP_LKEY, 4);
	attr_out(UVERBS_ATTR_QUERY_MR_RESP_RKEY, 4);
	attr_out(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, 8);
}

static void list_windows(void)
{
	method(UVERBS_OBJECT_MR, MOOR_METHOD_MR_WINDOWS);
	attr(MOOR_ATTR_MR_WINDOWS_HANDLE, 0, pick(MR));
	attr_out(MOOR_ATTR_MR_WINDOWS_LIST, below(4) * sizeof(struct moor_window));
	attr_out(MOOR_ATTR_MR_WINDOWS_COUNT, 4);
}

static void alloc_mw(void)
{
	struct ib_uverbs_alloc_mw core = {
		.pd_handle = pick(PD), .mw_type = 1 + below(2),
	};

	COMMAND(ALLOC_MW, core, sizeof(struct ib_uverbs_alloc_mw_resp));
}

static void dealloc_mw(void)
{
	struct ib_uverbs_dealloc_mw core = { .mw_handle = pick(MW) };

	COMMAND(DEALLOC_MW, core, 0);
}

static void alloc_dm(void)
{
	struct moor_dm_location *location;

	method(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC);
	attr_new(UVERBS_ATTR_ALLOC_DM_HANDLE);
	attr_u64(UVERBS_ATTR_ALLOC_DM_LENGTH, 1 + below(4 * PAGE));
	attr_u32(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, below(14));
	location = attr_out(MOOR_ATTR_ALLOC_DM_RESP, sizeof(*location));
	call.offset = (uint64_t *)&location->mmap_offset;
}

static void free_dm(void)
{
	method(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE);
	attr(UVERBS_ATTR_FREE_DM_HANDLE, 0, pick(DM));
}

static void query_dm(void)
{
	struct moor_dm_location *location;

	method(UVERBS_OBJECT_DM, MOOR_METHOD_DM_QUERY);
	attr(MOOR_ATTR_DM_QUERY_HANDLE, 0, pick(DM));
	location = attr_out(MOOR_ATTR_DM_QUERY_RESP, sizeof(*location));
	call.offset = (uint64_t *)&location->mmap_offset;
}

static void reg_dm(void)
{
	method(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG);
	attr_new(UVERBS_ATTR_REG_DM_MR_HANDLE);
	attr_u64(UVERBS_ATTR_REG_DM_MR_OFFSET, below(64));
	attr_u64(UVERBS_ATTR_REG_DM_MR_LENGTH, below(512));
	attr(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, 0, pick(PD));
	attr_u32(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS,
		 IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_ZERO_BASED);
	attr(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, 0, pick(DM));
	attr_out(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, 4);
	attr_out(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, 4);
}

/* ---- builders: queues ---- */

static void create_channel(void)
{
	struct ib_uverbs_create_comp_channel core = {};

	COMMAND(CREATE_COMP_CHANNEL, core, sizeof(struct ib_uverbs_create_comp_channel_resp));
}

static void create_cq(void)
{
	struct moor_create_cq_req req = { .ring_addr = memory(), .log_cqe = 1 + below(7) };
	struct ib_uverbs_create_cq core = {
		.cqe = 1u << req.log_cqe, .comp_vector = below(2),
		.comp_channel = one_in(2) ? (int)pick(CHANNEL) : -1,
	};
	struct {
		struct ib_uverbs_create_cq_resp core;
		struct moor_create_cq_resp driver;
	} *a;

	a = command(IB_USER_VERBS_CMD_CREATE_CQ, &core, sizeof(core), &req,
		    sizeof(req), sizeof(*a));
	call.offset = (uint64_t *)(one_in(2) ? &a->driver.db.doorbell_mmap_offset :
					       &a->driver.db.kick_mmap_offset);
}

static void create_cq_ioctl(void)
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

static void resize_cq(void)
{
	struct moor_resize_cq_req req = { .ring_addr = memory(), .log_cqe = 1 + below(8) };
	struct ib_uverbs_resize_cq core = {
		.cq_handle = pick(CQ), .cqe = 1u << req.log_cqe,
	};

	command(IB_USER_VERBS_CMD_RESIZE_CQ, &core, sizeof(core), &req, sizeof(req),
		sizeof(struct ib_uverbs_resize_cq_resp));
}

static void destroy_cq(void)
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

static void create_qp(void)
{
	struct moor_create_qp_req req = qp_request();
	struct ib_uverbs_create_qp core = {
		.pd_handle = pick(PD), .send_cq_handle = pick(CQ),
		.recv_cq_handle = pick(CQ), .max_send_wr = 4, .max_recv_wr = 4,
		.max_send_sge = 1, .max_recv_sge = 1, .qp_type = IB_UVERBS_QPT_RC,
	};

	command(IB_USER_VERBS_CMD_CREATE_QP, &core, sizeof(core), &req, sizeof(req),
		sizeof(struct ib_uverbs_create_qp_resp) +
		sizeof(struct moor_create_qp_resp));
}

static void create_qp_ioctl(void)
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

static void query_qp(void)
{
	struct ib_uverbs_query_qp core = { .qp_handle = pick(QP), .attr_mask = 1 };

	COMMAND(QUERY_QP, core, sizeof(struct ib_uverbs_query_qp_resp));
}

/* A step up, if the QP is where it can be made, or all the way down. */
static void modify_qp(void)
{
	static const uint32_t masks[] = {
		IBV_QP_STATE,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
	};
	uint32_t state_wanted = one_in(4) ? below(7) : below(4);
	struct ib_uverbs_modify_qp core = {
		.qp_handle = pick(QP), .qp_state = state_wanted,
		.attr_mask = masks[state_wanted < 4 ? state_wanted : 0],
		.dest = { .sgid_index = gid_index, .hop_limit = 1, .is_global = 1, .port_num = 1 },
		.path_mtu = 3, .dest_qp_num = below(1 << 24), .qp_access_flags = 0xe,
		.max_rd_atomic = 1, .max_dest_rd_atomic = 1, .port_num = 1, .timeout = 14,
		.retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1,
	};

	memcpy(core.dest.dgid, gid, sizeof(gid));
	COMMAND(MODIFY_QP, core, 0);
}

static void destroy_qp(void)
{
	struct ib_uverbs_destroy_qp core = { .qp_handle = pick(QP) };

	COMMAND(DESTROY_QP, core, sizeof(struct ib_uverbs_destroy_qp_resp));
}

const struct op ops[] = {
	[OP_GET_CONTEXT] = { "get_context", get_context, 0, NONE, NONE },
	[OP_GET_CONTEXT_IOCTL] = { "get_context, ioctl", get_context_ioctl, 0, NONE, NONE },
	[OP_ALLOC_PD] = { "alloc_pd", alloc_pd, 4, PD, NONE },
	[OP_CREATE_CQ] = { "create_cq", create_cq, 3, CQ, NONE },
	[OP_OTHERS] = { "query_context", query_context, 1, NONE, NONE },
	{ "query_device", query_device, 1, NONE, NONE },
	{ "query_port", query_port, 1, NONE, NONE },
	{ "query_port, ioctl", query_port_ioctl, 1, NONE, NONE },
	{ "query_gids", query_gids, 1, NONE, NONE },
	{ "info_handles", info_handles, 1, NONE, NONE },
	{ "last refusal", refusal, 1, NONE, NONE },
	{ "dealloc_pd", dealloc_pd, 2, NONE, PD },
	{ "query_pd", query_pd, 1, NONE, NONE },
	{ "create_ah", create_ah, 2, AH, NONE },
	{ "destroy_ah", destroy_ah, 1, NONE, AH },
	{ "reg_mr", reg_mr, 6, MR, NONE },
	{ "reg_mr, ioctl", reg_mr_ioctl, 4, MR, NONE },
	{ "rereg_mr", rereg_mr, 5, NONE, NONE },
	{ "dereg_mr", dereg_mr, 4, NONE, MR },
	{ "dereg_mr, ioctl", destroy_mr, 4, NONE, MR },
	{ "query_mr", query_mr, 1, NONE, NONE },
	{ "list windows", list_windows, 3, NONE, NONE },
	{ "alloc_mw", alloc_mw, 3, MW, NONE },
	{ "dealloc_mw", dealloc_mw, 2, NONE, MW },
	{ "alloc_dm", alloc_dm, 3, DM, NONE },
	{ "free_dm", free_dm, 2, NONE, DM },
	{ "query_dm", query_dm, 1, NONE, NONE },
	{ "reg_dm_mr", reg_dm, 3, MR, NONE },
	{ "create_channel", create_channel, 1, CHANNEL, NONE },
	{ "create_cq, ioctl", create_cq_ioctl, 3, CQ, NONE },
	{ "resize_cq", resize_cq, 3, NONE, NONE },
	{ "destroy_cq", destroy_cq, 3, NONE, CQ },
	{ "create_qp", create_qp, 3, QP, NONE },
	{ "create_qp, ioctl", create_qp_ioctl, 3, QP, NONE },
	{ "query_qp", query_qp, 2, NONE, NONE },
	{ "modify_qp", modify_qp, 8, NONE, NONE },
	{ "destroy_qp", destroy_qp, 3, NONE, QP },
	{ "mmap", NULL, 3, NONE, NONE },
};

const size_t num_ops = sizeof(ops) / sizeof(ops[0]);
