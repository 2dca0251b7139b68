// SPDX-License-Identifier: GPL-2.0
/*
 * Answers of Moor's own methods to programs older or newer than the driver: an older
 * one gets the beginning of the structure, never less than in 1.0; a newer one gets
 * zeros at the end. The sizes of 1.0 are literal, since they have to stay when
 * structures grow.
 */
#include <errno.h>
#include <string.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/moor-abi.h>
#include <rdma/moor_user_ioctl_cmds.h>

#include "raw.h"
#include "tap.h"
#include "window.h"

#define ROOM		512
#define LONGER		40
#define NOT_WRITTEN	0xa5
#define NUM_WINDOWS	3

static struct pair pair;

/* A method with one answer; @handle is the object that it queries, if there is one. */
struct method {
	const char *name;
	uint16_t object, method, handle_id, answer_id;
	uint32_t handle;
	size_t size, first_size;	/* now, and in 1.0 */
};

static int ask_method(const struct method *method, size_t size, uint8_t *answer)
{
	struct raw_attr attrs[2] = {
		{ method->answer_id, size, (uintptr_t)answer },
		{ method->handle_id, 0, method->handle },
	};

	memset(answer, NOT_WRITTEN, ROOM);
	return raw_ioctl(pair.ctx->cmd_fd, method->object, method->method, attrs,
			 method->handle_id ? 2 : 1);
}

static void test_method(const struct method *method)
{
	uint8_t whole[ROOM], answer[ROOM];
	size_t longer = method->size + LONGER;

	tap_is(ask_method(method, method->size, whole), 0, "%s", method->name);
	tap_is(ask_method(method, method->first_size, answer), 0,
	       "%s: as 1.0 asked", method->name);
	tap_ok(!memcmp(answer, whole, method->first_size) &&
	       is_all(answer + method->first_size, ROOM - method->first_size,
		      NOT_WRITTEN), "%s: the beginning, and no more", method->name);
	tap_is(ask_method(method, longer, answer), 0, "%s: for more than there is",
	       method->name);
	tap_ok(!memcmp(answer, whole, method->size) &&
	       is_all(answer + method->size, LONGER, 0) &&
	       is_all(answer + longer, ROOM - longer, NOT_WRITTEN),
	       "%s: all, and zeros behind it", method->name);
	tap_is(ask_method(method, method->first_size - 1, answer), EINVAL,
	       "%s: for less than 1.0 had", method->name);
	tap_ok(is_all(answer, ROOM, NOT_WRITTEN), "%s: nothing", method->name);
}

static void test_methods(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 100 };
	struct ibv_dm *dm = ibv_alloc_dm(pair.ctx, &attr);
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pair.pd, &srq_attr);
	struct ibv_mr *mr = ibv_reg_mr(pair.pd, pair.a.buf, 64,
				       IBV_ACCESS_REMOTE_WRITE);
	const struct method methods[] = {
		{ "context", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT,
		  0, MOOR_ATTR_QUERY_CONTEXT_RESP, 0,
		  sizeof(struct moor_alloc_ucontext_resp), 32 },
		{ "refusal", UVERBS_OBJECT_DEVICE, MOOR_METHOD_DEVICE_REFUSAL,
		  0, MOOR_ATTR_DEVICE_REFUSAL, 0,
		  sizeof(struct moor_refusal), 48 },
		{ "PD", UVERBS_OBJECT_PD, MOOR_METHOD_PD_QUERY,
		  MOOR_ATTR_PD_QUERY_HANDLE, MOOR_ATTR_PD_QUERY_RESP,
		  pair.pd->handle, sizeof(struct moor_alloc_pd_resp), 8 },
		{ "on-NIC memory", UVERBS_OBJECT_DM, MOOR_METHOD_DM_QUERY,
		  MOOR_ATTR_DM_QUERY_HANDLE, MOOR_ATTR_DM_QUERY_RESP,
		  dm ? dm->handle : 0, sizeof(struct moor_dm_location), 16 },
		{ "SRQ", UVERBS_OBJECT_SRQ, MOOR_METHOD_SRQ_QUERY,
		  MOOR_ATTR_SRQ_QUERY_HANDLE, MOOR_ATTR_SRQ_QUERY_RESP,
		  srq ? srq->handle : 0, sizeof(struct moor_srq_state), 8 },
	};
	size_t i;

	if (!dm || !srq || mr)
		tap_bail("no on-NIC memory, no SRQ, or an MR that is not allowed");
	for (i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		test_method(&methods[i]);
	ibv_destroy_srq(srq);
	ibv_free_dm(dm);
}

/* Allocating on-NIC memory answers with its location. Returns an errno. */
static int alloc_dm(size_t size, struct moor_dm_location *where)
{
	uint8_t answer[ROOM];
	struct raw_attr attrs[] = {
		{ UVERBS_ATTR_ALLOC_DM_HANDLE, 0, 0 },
		{ UVERBS_ATTR_ALLOC_DM_LENGTH, 8, 100 },
		{ UVERBS_ATTR_ALLOC_DM_ALIGNMENT, 4, 0 },
		{ MOOR_ATTR_ALLOC_DM_RESP, size, (uintptr_t)answer },
	};
	struct raw_attr handle = { UVERBS_ATTR_FREE_DM_HANDLE, 0, 0 };
	int err;

	memset(answer, NOT_WRITTEN, sizeof(answer));
	err = raw_ioctl(pair.ctx->cmd_fd, UVERBS_OBJECT_DM,
			UVERBS_METHOD_DM_ALLOC, attrs, 4);
	if (err)
		return err;
	memcpy(where, answer, sizeof(*where));
	if (size > sizeof(*where) &&
	    !is_all(answer + sizeof(*where), size - sizeof(*where), 0))
		err = EBADMSG;
	handle.data = attrs[0].data;
	return raw_ioctl(pair.ctx->cmd_fd, UVERBS_OBJECT_DM,
			 UVERBS_METHOD_DM_FREE, &handle, 1) ?: err;
}

static void test_alloc_dm(void)
{
	struct moor_dm_location where = {};

	tap_ok(!alloc_dm(16, &where) && where.mmap_offset && where.length == 100,
	       "allocating on-NIC memory: as 1.0 asked");
	tap_ok(!alloc_dm(16 + LONGER, &where) && where.length == 100,
	       "allocating on-NIC memory: for more than there is");
	tap_is(alloc_dm(15, &where), EINVAL,
	       "allocating on-NIC memory: for less than 1.0 had");
}

/*
 * Lists the windows of @mr, in entries of @entry bytes (0: not given). Returns an
 * errno.
 */
static int ask_list(struct ibv_mr *mr, uint64_t entry, uint8_t *list, size_t size,
		    uint32_t *count)
{
	struct raw_attr attrs[] = {
		{ MOOR_ATTR_MR_WINDOWS_HANDLE, 0, mr->handle },
		{ MOOR_ATTR_MR_WINDOWS_LIST, size, (uintptr_t)list },
		{ MOOR_ATTR_MR_WINDOWS_COUNT, sizeof(*count), (uintptr_t)count },
		{ MOOR_ATTR_MR_WINDOWS_ENTRY_SIZE, 8, entry },
	};

	memset(list, NOT_WRITTEN, ROOM);
	*count = 0;
	return raw_ioctl(pair.ctx->cmd_fd, UVERBS_OBJECT_MR,
			 MOOR_METHOD_MR_WINDOWS, attrs, entry ? 4 : 3);
}

/* Are the windows of @list, in entries of @entry bytes, those of @known? */
static bool is_list(const uint8_t *list, size_t entry,
		    const struct moor_window *known, size_t num)
{
	size_t i;

	for (i = 0; i < num; i++)
		if (memcmp(list + i * entry, &known[i], sizeof(*known)) ||
		    !is_all(list + i * entry + sizeof(*known),
			    entry - sizeof(*known), 0))
			return false;
	return is_all(list + num * entry, ROOM - num * entry, NOT_WRITTEN);
}

static void test_entries(struct ibv_mr *mr)
{
	const size_t now = sizeof(struct moor_window), grown = now + LONGER;
	struct moor_window known[NUM_WINDOWS];
	uint8_t list[ROOM];
	uint32_t count;

	tap_ok(!ask_list(mr, now, list, NUM_WINDOWS * now, &count) &&
	       count == NUM_WINDOWS, "windows of an MR");
	memcpy(known, list, sizeof(known));
	tap_ok(known[0].type == 2 && known[0].qpn == pair.b.qp->qp_num &&
	       known[0].length == 8, "one of them");
	tap_ok(!ask_list(mr, 0, list, NUM_WINDOWS * 40, &count) &&
	       count == NUM_WINDOWS && is_list(list, 40, known, NUM_WINDOWS),
	       "entries as 1.0 had them, and asked for them");
	tap_ok(!ask_list(mr, grown, list, NUM_WINDOWS * grown, &count) &&
	       count == NUM_WINDOWS && is_list(list, grown, known, NUM_WINDOWS),
	       "entries that have grown");
	tap_ok(!ask_list(mr, grown, list, 2 * grown, &count) &&
	       count == NUM_WINDOWS && is_list(list, grown, known, 2),
	       "entries that have grown, not room for all");
	tap_is(ask_list(mr, 39, list, ROOM, &count), EINVAL,
	       "entries smaller than 1.0 had them");
	tap_ok(!ask_list(mr, UINT64_MAX, list, ROOM, &count) &&
	       count == NUM_WINDOWS && is_all(list, ROOM, 0),
	       "an entry larger than all the room: none is listed");
}

static void test_windows(void)
{
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf, 4096, BINDABLE);
	struct ibv_mw *mw[NUM_WINDOWS];
	int i;

	for (i = 0; i < NUM_WINDOWS; i++) {
		mw[i] = must_alloc_mw(pair.pd, IBV_MW_TYPE_2);
		must_bind(&apis[0], &pair.b, mw[i], mr,
			  (uintptr_t)pair.b.buf + 16 * i, 8,
			  IBV_ACCESS_REMOTE_READ);
	}
	test_entries(mr);
	for (i = 0; i < NUM_WINDOWS; i++)
		ibv_dealloc_mw(mw[i]);
	ibv_dereg_mr(mr);
}

int main(int argc, char **argv)
{
	struct ibv_device_attr attr;

	pair_open(&pair, open_nic(argc > 1 ? argv[1] : NULL, &attr), &pair_defaults);
	pair_connect(&pair);
	test_methods();
	test_alloc_dm();
	test_windows();
	pair_close(&pair);
	ibv_close_device(pair.ctx);
	return tap_done();
}
