// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "uverbs_build.h"

struct pool pool[KINDS];
struct call call;
uint8_t *arena, *inputs, *answers;
size_t inputs_used, answers_used;
uint64_t random_state;
int gid_index;
uint8_t gid[16];
uint32_t picked;
int uverbs_fd;

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

/* ---- arguments of calls ---- */

uint32_t pick(enum kind kind)
{
	if (!pool[kind].count)
		return below(4);
	picked = below(pool[kind].count);
	return pool[kind].object[picked].handle;
}

uint64_t memory(void)
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

void method(uint16_t object, uint16_t id)
{
	call.ioctl.hdr = (struct ib_uverbs_ioctl_hdr){
		.object_id = object, .method_id = id,
	};
}

void attr_new(uint16_t id)
{
	call.handle = (const uint32_t *)&attr(id, 0, 0)->data;
}

void attr_in(uint16_t id, const void *data, uint16_t len)
{
	uint64_t value = 0;

	/* Short ones are in the attribute itself. */
	if (len <= 8)
		memcpy(&value, data, len);
	else
		value = (uintptr_t)input(data, len);
	attr(id, len, value);
}

void *attr_out(uint16_t id, uint16_t len)
{
	void *place = answer(len);

	attr(id, len, (uintptr_t)place);
	return place;
}

void attr_u32(uint16_t id, uint32_t value)
{
	attr_in(id, &value, sizeof(value));
}

void attr_u64(uint16_t id, uint64_t value)
{
	attr_in(id, &value, sizeof(value));
}

void *command(uint32_t number, const void *core, size_t core_size,
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

void begin(void)
{
	inputs_used = 0;
	answers_used = 0;
	memset(&call, 0, sizeof(call));
}

int issue(void)
{
	if (call.by_write)
		return write(uverbs_fd, call.bytes, call.size) < 0 ? errno : 0;
	call.ioctl.hdr.length = sizeof(call.ioctl.hdr) +
				call.ioctl.hdr.num_attrs * sizeof(call.ioctl.attrs[0]);
	return ioctl(uverbs_fd, RDMA_VERBS_IOCTL, &call.ioctl) ? errno : 0;
}

const struct op ops[] = {
	[OP_GET_CONTEXT] = { "get_context", build_get_context, 0, NONE, NONE },
	[OP_GET_CONTEXT_IOCTL] = { "get_context, ioctl", build_get_context_ioctl, 0, NONE, NONE },
	[OP_ALLOC_PD] = { "alloc_pd", build_alloc_pd, 4, PD, NONE },
	[OP_CREATE_CQ] = { "create_cq", build_create_cq, 3, CQ, NONE },
	[OP_OTHERS] = { "query_context", build_query_context, 1, NONE, NONE },
	{ "query_device", build_query_device, 1, NONE, NONE },
	{ "query_port", build_query_port, 1, NONE, NONE },
	{ "query_port, ioctl", build_query_port_ioctl, 1, NONE, NONE },
	{ "query_gids", build_query_gids, 1, NONE, NONE },
	{ "info_handles", build_info_handles, 1, NONE, NONE },
	{ "last refusal", build_refusal, 1, NONE, NONE },
	{ "dealloc_pd", build_dealloc_pd, 2, NONE, PD },
	{ "query_pd", build_query_pd, 1, NONE, NONE },
	{ "create_ah", build_create_ah, 2, AH, NONE },
	{ "destroy_ah", build_destroy_ah, 1, NONE, AH },
	{ "reg_mr", build_reg_mr, 6, MR, NONE },
	{ "reg_mr, ioctl", build_reg_mr_ioctl, 4, MR, NONE },
	{ "rereg_mr", build_rereg_mr, 5, NONE, NONE },
	{ "dereg_mr", build_dereg_mr, 4, NONE, MR },
	{ "dereg_mr, ioctl", build_destroy_mr, 4, NONE, MR },
	{ "query_mr", build_query_mr, 1, NONE, NONE },
	{ "list windows", build_list_windows, 3, NONE, NONE },
	{ "alloc_mw", build_alloc_mw, 3, MW, NONE },
	{ "dealloc_mw", build_dealloc_mw, 2, NONE, MW },
	{ "alloc_dm", build_alloc_dm, 3, DM, NONE },
	{ "free_dm", build_free_dm, 2, NONE, DM },
	{ "query_dm", build_query_dm, 1, NONE, NONE },
	{ "reg_dm_mr", build_reg_dm, 3, MR, NONE },
	{ "reg_dmabuf_mr", build_reg_dmabuf, 3, MR, NONE },
	{ "advise_mr", build_advise_mr, 3, NONE, NONE },
	{ "move the dma-buf", NULL, 3, NONE, NONE, move_dmabuf },
	{ "create_channel", build_create_channel, 1, CHANNEL, NONE },
	{ "create_cq, ioctl", build_create_cq_ioctl, 3, CQ, NONE },
	{ "resize_cq", build_resize_cq, 3, NONE, NONE },
	{ "destroy_cq", build_destroy_cq, 3, NONE, CQ },
	{ "create_qp", build_create_qp, 3, QP, NONE },
	{ "create_qp, ioctl", build_create_qp_ioctl, 3, QP, NONE },
	{ "query_qp", build_query_qp, 2, NONE, NONE },
	{ "modify_qp", build_modify_qp, 8, NONE, NONE },
	{ "destroy_qp", build_destroy_qp, 3, NONE, QP },
	{ "mmap", NULL, 3, NONE, NONE, map_something },
	{ "bind a window", NULL, 6, NONE, NONE, bind_some },
	{ "unbind a window", NULL, 3, NONE, NONE, unbind_some },
	{ "post, as if in the kernel", NULL, 2, NONE, NONE, post_refused },
};

const size_t num_ops = sizeof(ops) / sizeof(ops[0]);
