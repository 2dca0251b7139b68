// SPDX-License-Identifier: GPL-2.0
/* timeout: 600
 *
 * Contexts, protection domains and queries, with each allocation and copy in the kernel
 * failing in turn. Parent domains do not exist in the kernel.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/moor-abi.h>
#include <rdma/moor_user_ioctl_cmds.h>

#include "counts.h"
#include "fault.h"
#include "holdings.h"
#include "raw.h"
#include "tap.h"
#include "walk.h"
#include "window.h"

static struct pair pair;
static struct ibv_context *ctx;
static struct ibv_device *device;

/* ---- contexts ---- */

static struct ibv_context *other;

static int open_context(void)
{
	errno = 0;
	other = ibv_open_device(device);
	return other ? 0 : errno;
}

static bool context_works(void)
{
	struct ibv_device_attr attr;

	return !ibv_query_device(other, &attr) && attr.vendor_part_id == 0x10f0;
}

static int close_context(void)
{
	return ibv_close_device(other);
}

/* The device's file stays open as long as the device is mapped. */
static void unmap_device(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	char line[512];

	while (file && fgets(line, sizeof(line), file))
		if (strstr(line, "/dev/infiniband/uverbs") &&
		    sscanf(line, "%lx-%lx", &start, &end) == 2)
			munmap((void *)start, end - start);
	if (file)
		fclose(file);
}

/* Opens a context with objects that only closing it frees, as when a process ends. */
static int open_rich(void)
{
	static struct pair rich;
	struct ibv_alloc_dm_attr attr = { .length = 4096 };

	must(open_context, "open a context");
	rich = (struct pair){};
	pair_open(&rich, other, &pair_defaults);
	pair_connect(&rich);
	if (!ibv_alloc_mw(rich.pd, IBV_MW_TYPE_2) || !ibv_alloc_dm(other, &attr))
		tap_bail("cannot fill a context");
	unmap_device();
	return 0;
}

/* Comes last, for open_rich() unmaps the device for all contexts. */
static void walk_rich(void)
{
	walk(&(struct path){
		.name = "close a context with everything in it",
		.before = open_rich, .call = close_context,
	});
}

static void walk_contexts(void)
{
	walk(&(struct path){
		.name = "open a context", .call = open_context,
		.works = context_works, .after = close_context,
		/*
		 * EAGAIN comes from mapping the dozing word, ENOENT from libibverbs,
		 * which looks elsewhere for a device file that it cannot open.
		 */
		.errnos = { EAGAIN, ENOENT },
	});
	walk(&(struct path){
		.name = "close a context", .before = open_context, .call = close_context,
	});
}

/* ---- queries ---- */

static int query_device(void)
{
	struct ibv_device_attr_ex attr;

	return ibv_query_device_ex(ctx, NULL, &attr);
}

static int query_clock(void)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	return ibv_query_rt_values_ex(ctx, &values);
}

static int query_port(void)
{
	struct ibv_port_attr attr;

	return ibv_query_port(ctx, 1, &attr);
}

static int query_qp(void)
{
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;

	return ibv_query_qp(pair.a.qp, &attr, IBV_QP_STATE, &init_attr);
}

/* Queries an object like ibv_import_device() and its relatives. */
static int import(uint16_t object, uint16_t method, int handle, uint16_t answer_attr,
		  uint16_t size)
{
	uint64_t answer[8] = {};
	struct raw_attr attrs[] = {
		{ .id = answer_attr, .size = size, .data = (uintptr_t)answer },
		{ .id = 1U << UVERBS_ID_NS_SHIFT, .data = handle },
	};

	return raw_ioctl(ctx->cmd_fd, object, method, attrs, handle < 0 ? 1 : 2);
}

static int import_context(void)
{
	uint64_t core;
	uint32_t vectors;
	struct moor_alloc_ucontext_resp answer = {};
	struct raw_attr attrs[] = {
		{ .id = UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS,
		  .size = sizeof(vectors), .data = (uintptr_t)&vectors },
		{ .id = UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT,
		  .size = sizeof(core), .data = (uintptr_t)&core },
		{ .id = MOOR_ATTR_QUERY_CONTEXT_RESP,
		  .size = sizeof(answer), .data = (uintptr_t)&answer },
	};

	return raw_ioctl(ctx->cmd_fd, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT,
			 attrs, 3);
}

static int import_pd(void)
{
	return import(UVERBS_OBJECT_PD, MOOR_METHOD_PD_QUERY, pair.pd->handle,
		      MOOR_ATTR_PD_QUERY_RESP, sizeof(struct moor_alloc_pd_resp));
}

static struct ibv_dm *dm;

static int import_dm(void)
{
	return import(UVERBS_OBJECT_DM, MOOR_METHOD_DM_QUERY, dm->handle,
		      MOOR_ATTR_DM_QUERY_RESP, sizeof(struct moor_dm_location));
}

static void walk_questions(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 4096 };

	dm = ibv_alloc_dm(ctx, &attr);
	if (!dm)
		tap_bail("ibv_alloc_dm: %s", strerror(errno));
	walk(&(struct path){ .name = "query the device", .call = query_device });
	walk(&(struct path){ .name = "query the clock", .call = query_clock });
	walk(&(struct path){ .name = "query the port", .call = query_port });
	walk(&(struct path){ .name = "query a QP", .call = query_qp });
	walk(&(struct path){ .name = "import a context", .call = import_context });
	walk(&(struct path){ .name = "import a PD", .call = import_pd });
	walk(&(struct path){ .name = "import on-NIC memory", .call = import_dm });
	ibv_free_dm(dm);
}

/* ---- protection domains ---- */

static struct ibv_pd *pd;

static int alloc_pd(void)
{
	errno = 0;
	pd = ibv_alloc_pd(ctx);
	return pd ? 0 : errno;
}

static int dealloc_pd(void)
{
	return ibv_dealloc_pd(pd);
}

static bool pd_works(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, pair.b.buf, 4096, ALL_ACCESS);
	struct outcome o;

	if (!mr)
		return false;
	/* The MR is of another PD than the QP. */
	o = ask(&pair, IBV_WR_RDMA_READ, mr->rkey, (uintptr_t)mr->addr, 64);
	revive(&pair);
	return o.status == IBV_WC_REM_ACCESS_ERR && !ibv_dereg_mr(mr);
}

static void walk_pds(void)
{
	walk(&(struct path){
		.name = "allocate a PD", .call = alloc_pd, .works = pd_works,
		.after = dealloc_pd,
	});
	walk(&(struct path){
		.name = "deallocate a PD", .before = alloc_pd, .call = dealloc_pd,
		.intact = pd_works,
	});
}

static struct ibv_device *find_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), nic_name()))
			return list[i];
	tap_bail("libibverbs does not know %s", nic_name());
}

int main(void)
{
	struct ibv_device_attr attr;
	long pinned;

	if (!fault_setup()) {
		printf("1..0 # SKIP " FAULT_NONE "\n");
		return 0;
	}
	device = find_device();
	pinned = pinned_pages();
	holdings_open();
	walk_rich();
	ctx = open_nic(nic_name(), &attr);
	pair_open(&pair, ctx, &pair_defaults);
	pair_connect(&pair);

	walk_contexts();
	walk_questions();
	walk_pds();

	return walk_done(&pair, pinned);
}
