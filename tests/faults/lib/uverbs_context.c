// SPDX-License-Identifier: GPL-2.0
#include <string.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/moor-abi.h>
#include <rdma/moor_user_ioctl_cmds.h>

#include "uverbs_build.h"

/* ---- contexts and questions ---- */

struct context_answer {
	struct ib_uverbs_get_context_resp core;
	struct moor_alloc_ucontext_resp driver;
};

void build_get_context(void)
{
	struct moor_alloc_ucontext_req req = {};
	struct ib_uverbs_get_context core = {};
	struct context_answer *a;

	a = command(IB_USER_VERBS_CMD_GET_CONTEXT, &core, sizeof(core), &req,
		    sizeof(req), sizeof(*a));
	call.offset = (uint64_t *)&a->driver.doze_mmap_offset;
}

void build_get_context_ioctl(void)
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

void build_query_context(void)
{
	method(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT);
	attr_out(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, 4);
	attr_out(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, 8);
	attr_out(MOOR_ATTR_QUERY_CONTEXT_RESP, sizeof(struct moor_alloc_ucontext_resp));
}

void build_query_device(void)
{
	struct ib_uverbs_query_device core = {};

	COMMAND(QUERY_DEVICE, core, sizeof(struct ib_uverbs_query_device_resp));
}

void build_query_port(void)
{
	struct ib_uverbs_query_port core = { .port_num = 1 };

	COMMAND(QUERY_PORT, core, sizeof(struct ib_uverbs_query_port_resp));
}

void build_query_port_ioctl(void)
{
	method(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
	attr_u64(UVERBS_ATTR_QUERY_PORT_PORT_NUM, 1);
	attr_out(UVERBS_ATTR_QUERY_PORT_RESP, sizeof(struct ib_uverbs_query_port_resp_ex));
}

void build_query_gids(void)
{
	method(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE);
	attr_u64(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, 32);
	attr(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 4, 0);
	attr_out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, 32 * 16);
	attr_out(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 8);
}

void build_info_handles(void)
{
	method(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES);
	attr(UVERBS_ATTR_INFO_OBJECT_ID, 8, below(16));
	attr_out(UVERBS_ATTR_INFO_TOTAL_HANDLES, 4);
	attr_out(UVERBS_ATTR_INFO_HANDLES_LIST, 4 * POOL);
}

void build_refusal(void)
{
	method(UVERBS_OBJECT_DEVICE, MOOR_METHOD_DEVICE_REFUSAL);
	attr_out(MOOR_ATTR_DEVICE_REFUSAL, sizeof(struct moor_refusal));
}

/* ---- protection domains, address handles ---- */

void build_alloc_pd(void)
{
	struct ib_uverbs_alloc_pd core = {};

	COMMAND(ALLOC_PD, core, sizeof(struct ib_uverbs_alloc_pd_resp) +
		sizeof(struct moor_alloc_pd_resp));
}

void build_dealloc_pd(void)
{
	struct ib_uverbs_dealloc_pd core = { .pd_handle = pick(PD) };

	COMMAND(DEALLOC_PD, core, 0);
}

void build_query_pd(void)
{
	method(UVERBS_OBJECT_PD, MOOR_METHOD_PD_QUERY);
	attr(MOOR_ATTR_PD_QUERY_HANDLE, 0, pick(PD));
	attr_out(MOOR_ATTR_PD_QUERY_RESP, sizeof(struct moor_alloc_pd_resp));
}

void build_create_ah(void)
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

void build_destroy_ah(void)
{
	struct ib_uverbs_destroy_ah core = { .ah_handle = pick(AH) };

	COMMAND(DESTROY_AH, core, 0);
}
