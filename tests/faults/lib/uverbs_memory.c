// SPDX-License-Identifier: GPL-2.0
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/moor_user_ioctl_cmds.h>

#include "uverbs_build.h"

/* Newer than the headers that this may be compiled with. */
#define METHOD_REG_MR		5
#define ATTR_REG_MR_IOVA	3
#define ATTR_REG_MR_ADDR	4
#define ATTR_REG_MR_LENGTH	5
#define ATTR_REG_MR_ACCESS	6
#define ATTR_REG_MR_LKEY	9
#define ATTR_REG_MR_RKEY	10

static uint32_t access_flags(void)
{
	return IB_UVERBS_ACCESS_LOCAL_WRITE |
	       (below(8) ? IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_MW_BIND : 0) |
	       (one_in(4) ? IB_UVERBS_ACCESS_ZERO_BASED : 0) |
	       (one_in(4) ? IB_UVERBS_ACCESS_RELAXED_ORDERING : 0);
}

static uint64_t first_byte(uint32_t access, uint64_t start)
{
	return access & IB_UVERBS_ACCESS_ZERO_BASED ? 0 : start;
}

void build_reg_mr(void)
{
	uint64_t start = memory() + below(PAGE);
	struct ib_uverbs_reg_mr core = {
		.start = start, .hca_va = start, .length = 1 + below(64 * PAGE),
		.pd_handle = pick_pd(), .access_flags = access_flags(),
	};
	struct ib_uverbs_reg_mr_resp *resp;

	resp = COMMAND(REG_MR, core, sizeof(*resp));
	call.key = &resp->lkey;
	call.made.start = first_byte(core.access_flags, start);
}

void build_reg_mr_ioctl(void)
{
	uint32_t access = access_flags();
	uint64_t start = memory();

	method(UVERBS_OBJECT_MR, METHOD_REG_MR);
	attr_new(0);
	attr(1, 0, pick_pd());
	attr_u64(ATTR_REG_MR_IOVA, start);
	attr_u64(ATTR_REG_MR_ADDR, start);
	attr_u64(ATTR_REG_MR_LENGTH, 1 + below(64 * PAGE));
	attr_u32(ATTR_REG_MR_ACCESS, access);
	call.key = attr_out(ATTR_REG_MR_LKEY, 4);
	call.made.start = first_byte(access, start);
	attr_out(ATTR_REG_MR_RKEY, 4);
}

void build_rereg_mr(void)
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

void build_dereg_mr(void)
{
	struct ib_uverbs_dereg_mr core = { .mr_handle = pick(MR) };

	COMMAND(DEREG_MR, core, 0);
}

void build_destroy_mr(void)
{
	method(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY);
	attr(UVERBS_ATTR_DESTROY_MR_HANDLE, 0, pick(MR));
}

void build_query_mr(void)
{
	method(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR);
	attr(UVERBS_ATTR_QUERY_MR_HANDLE, 0, pick(MR));
	attr_out(UVERBS_ATTR_QUERY_MR_RESP_LKEY, 4);
	attr_out(UVERBS_ATTR_QUERY_MR_RESP_RKEY, 4);
	attr_out(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, 8);
}

void build_list_windows(void)
{
	method(UVERBS_OBJECT_MR, MOOR_METHOD_MR_WINDOWS);
	attr(MOOR_ATTR_MR_WINDOWS_HANDLE, 0, pick(MR));
	attr_out(MOOR_ATTR_MR_WINDOWS_LIST, below(4) * sizeof(struct moor_window));
	attr_out(MOOR_ATTR_MR_WINDOWS_COUNT, 4);
}

void build_alloc_mw(void)
{
	struct ib_uverbs_alloc_mw core = {
		.pd_handle = pick_pd(), .mw_type = 1 + below(2),
	};
	struct ib_uverbs_alloc_mw_resp *resp;

	resp = COMMAND(ALLOC_MW, core, sizeof(*resp));
	call.key = &resp->rkey;
	call.made.type = core.mw_type;
}

void build_dealloc_mw(void)
{
	struct ib_uverbs_dealloc_mw core = { .mw_handle = pick(MW) };

	COMMAND(DEALLOC_MW, core, 0);
}

void build_alloc_dm(void)
{
	struct moor_dm_location *location;

	method(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC);
	attr_new(UVERBS_ATTR_ALLOC_DM_HANDLE);
	attr_u64(UVERBS_ATTR_ALLOC_DM_LENGTH, 1 + below(4 * PAGE));
	attr_u32(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, below(14));
	location = attr_out(MOOR_ATTR_ALLOC_DM_RESP, sizeof(*location));
	call.offset = (uint64_t *)&location->mmap_offset;
}

void build_free_dm(void)
{
	method(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE);
	attr(UVERBS_ATTR_FREE_DM_HANDLE, 0, pick(DM));
}

void build_query_dm(void)
{
	struct moor_dm_location *location;

	method(UVERBS_OBJECT_DM, MOOR_METHOD_DM_QUERY);
	attr(MOOR_ATTR_DM_QUERY_HANDLE, 0, pick(DM));
	location = attr_out(MOOR_ATTR_DM_QUERY_RESP, sizeof(*location));
	call.offset = (uint64_t *)&location->mmap_offset;
}

void build_reg_dm(void)
{
	method(UVERBS_OBJECT_MR, UVERBS_METHOD_DM_MR_REG);
	attr_new(UVERBS_ATTR_REG_DM_MR_HANDLE);
	attr_u64(UVERBS_ATTR_REG_DM_MR_OFFSET, below(64));
	attr_u64(UVERBS_ATTR_REG_DM_MR_LENGTH, below(512));
	attr(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, 0, pick_pd());
	attr_u32(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS,
		 IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_MW_BIND |
		 IB_UVERBS_ACCESS_ZERO_BASED);
	attr(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, 0, pick(DM));
	call.key = attr_out(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, 4);
	attr_out(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, 4);
}
