// SPDX-License-Identifier: GPL-2.0
/*
 * Every call about memory with a parent domain in the place of a protection domain: what it
 * makes is of the domain within, and serves the queue pairs of that.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "owner.h"
#include "paged.h"
#include "tap.h"
#include "window.h"

#define SIZE	8192u
#define RIGHTS	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static struct ibv_context *ctx;
static struct ibv_pd *pd, *parent;
static struct pair pair;		/* its queue pairs are of @pd */
static uint8_t *buf;

static bool nic_writes(uint32_t rkey, uint64_t at, uint8_t seed)
{
	fill(pair.a.buf, SIZE, seed);
	return ask(&pair, IBV_WR_RDMA_WRITE, rkey, at, SIZE).status == IBV_WC_SUCCESS;
}

/* The MR is of the parent domain, and a queue pair of the domain within may use it. */
static void expect_mr(struct ibv_mr *mr, uint64_t at, const uint8_t *memory, const char *name)
{
	static uint8_t seed;

	if (!tap_ok(mr && mr->pd == parent && mr->context == ctx, "%s", name)) {
		tap_diag("%s", strerror(errno));
		return;
	}
	tap_ok(nic_writes(mr->rkey, at, ++seed) && is_filled(memory, SIZE, seed),
	       "%s: data by a queue pair of the domain within", name);
	tap_is(ibv_dereg_mr(mr), 0, "%s: dereg", name);
}

static void test_registrations(void)
{
	struct buffer buffer;

	expect_mr(ibv_reg_mr(parent, buf, SIZE, ALL_ACCESS), (uintptr_t)buf, buf, "ibv_reg_mr");
	expect_mr(ibv_reg_mr_iova(parent, buf, SIZE, 0x70000, ALL_ACCESS), 0x70000, buf,
		  "ibv_reg_mr_iova");
	expect_mr(ibv_reg_mr(parent, buf, SIZE, ALL_ACCESS | IBV_ACCESS_ZERO_BASED), 0, buf,
		  "zero-based");
	expect_mr(ibv_reg_mr(parent, buf, SIZE, ON_DEMAND), (uintptr_t)buf, buf, "on demand");
	expect_mr(ibv_reg_mr(parent, NULL, SIZE_MAX, ON_DEMAND), (uintptr_t)buf, buf, "implicit");
	owner_open();
	buffer = buffer_make();
	buffer_reg(&buffer, parent);
	expect_mr(buffer.mr, 0, buffer.at, "ibv_reg_dmabuf_mr");
	buffer_put(&buffer);
	owner_close();
}

static void test_null(void)
{
	struct ibv_mr *null = ibv_alloc_null_mr(parent);
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = 1, .length = SIZE,
		.remote = (uintptr_t)pair.b.buf, .rkey = pair.b.mr->rkey,
	};
	uint32_t i = 0;

	if (!tap_ok(null && null->pd == parent, "ibv_alloc_null_mr"))
		return;
	request.lkey = null->lkey;
	memset(pair.b.buf, 1, SIZE);
	tap_ok(is(finish(&pair.a, post(&pair.a, &request)), IBV_WC_SUCCESS),
	       "ibv_alloc_null_mr: a queue pair of the domain within");
	while (i < SIZE && !pair.b.buf[i])
		i++;
	tap_is(i, SIZE, "ibv_alloc_null_mr: zeros");
	tap_is(ibv_dereg_mr(null), 0, "ibv_alloc_null_mr: dereg");
}

static void test_on_nic(void)
{
	struct ibv_alloc_dm_attr attr = { .length = SIZE };
	struct ibv_dm *dm = ibv_alloc_dm(ctx, &attr);
	uint8_t *copy = malloc(SIZE);
	struct ibv_mr *mr;

	if (!dm || !copy)
		tap_bail("no on-NIC memory: %s", strerror(errno));
	mr = ibv_reg_dm_mr(parent, dm, 0, SIZE, ALL_ACCESS | IBV_ACCESS_ZERO_BASED);
	if (tap_ok(mr && mr->pd == parent, "ibv_reg_dm_mr")) {
		tap_ok(nic_writes(mr->rkey, 0, 77) && !ibv_memcpy_from_dm(copy, dm, 0, SIZE) &&
		       is_filled(copy, SIZE, 77), "ibv_reg_dm_mr: data");
		tap_is(ibv_dereg_mr(mr), 0, "ibv_reg_dm_mr: dereg");
	}
	free(copy);
	tap_is(ibv_free_dm(dm), 0, "on-NIC memory is freed");
}

/* A window and memory of the same domain, or of two. */
static void test_window(struct ibv_mw *mw, struct ibv_mr *mr, const char *name)
{
	static uint8_t seed;
	struct outcome o;

	/* ibv_bind_mw() itself, in the library's header, takes no two pointers for one domain. */
	if (mw->type == IBV_MW_TYPE_1 && mw->pd != mr->pd) {
		o = bind_window(&apis[0], &pair.b, mw, ibv_inc_rkey(mw->rkey), mr,
				(uintptr_t)buf, SIZE, RIGHTS);
		tap_is(o.posted, EPERM, "type 1: %s: EPERM", name);
		return;
	}
	must_bind(&apis[0], &pair.b, mw, mr, (uintptr_t)buf, SIZE, RIGHTS);
	tap_ok(nic_writes(mw->rkey, (uintptr_t)buf, ++seed) && is_filled(buf, SIZE, seed),
	       "type %d: %s: data", (int)mw->type, name);
	tap_is(ibv_dereg_mr(mr), EBUSY, "bound: the memory is busy");
}

static void test_windows(enum ibv_mw_type type)
{
	static const char *const names[] = {
		"both of the inner domain", "a window of the parent domain",
		"memory of the parent domain", "both of the parent domain",
	};
	int i;

	for (i = 0; i < 4; i++) {
		struct ibv_mw *mw = must_alloc_mw(i & 1 ? parent : pd, type);
		struct ibv_mr *mr = must_reg(i & 2 ? parent : pd, buf, SIZE, BINDABLE | RIGHTS);

		test_window(mw, mr, names[i]);
		tap_is(ibv_dealloc_mw(mw), 0, "the window goes");
		tap_is(ibv_dereg_mr(mr), 0, "and then the memory");
	}
}

static int rereg(struct ibv_mr *mr, int flags, struct ibv_pd *to)
{
	return ibv_rereg_mr(mr, flags, to, buf, SIZE,
			    flags & IBV_REREG_MR_CHANGE_ACCESS ? ALL_ACCESS : 0);
}

static void test_rereg(void)
{
	struct ibv_pd *other = ibv_alloc_pd(ctx);
	struct ibv_mr *mr = must_reg(other, buf, SIZE, ALL_ACCESS);

	tap_is(ask(&pair, IBV_WR_RDMA_READ, mr->rkey, (uintptr_t)buf, SIZE).status,
	       IBV_WC_REM_ACCESS_ERR, "memory of another domain is out of reach");
	revive(&pair);
	tap_ok(!rereg(mr, IBV_REREG_MR_CHANGE_PD, parent) && mr->pd == parent,
	       "ibv_rereg_mr into the parent domain");
	tap_ok(nic_writes(mr->rkey, (uintptr_t)buf, 5) && is_filled(buf, SIZE, 5),
	       "within reach");
	tap_is(ibv_dealloc_pd(other), 0, "it has left its domain");
	tap_ok(!rereg(mr, IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION, NULL) &&
	       mr->pd == parent, "its other attributes change, too");
	expect_mr(mr, (uintptr_t)buf, buf, "re-registered");
}

static void test_advice(void)
{
	struct ibv_pd *other = ibv_alloc_pd(ctx);
	struct ibv_mr *mr = must_reg(parent, buf, SIZE, ON_DEMAND);
	struct ibv_sge sge = { (uintptr_t)buf, SIZE, mr->lkey };
	struct ibv_pd *domains[] = { pd, parent };
	int i;

	for (i = 0; i < 2; i++)
		tap_is(ibv_advise_mr(domains[i], IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				     IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), 0,
		       "advice with the %s domain", i ? "parent" : "inner");
	tap_is(ibv_advise_mr(other, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			     IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), EPERM,
	       "advice with another domain");
	tap_is(ibv_dereg_mr(mr), 0, "dereg");
	ibv_dealloc_pd(other);
}

/* To the kernel, memory of the parent domain is of the domain within, which it holds. */
static void test_end(void)
{
	struct ibv_mr *mr = must_reg(parent, buf, SIZE, ALL_ACCESS);

	tap_is(ibv_dealloc_pd(pd), EBUSY, "the inner domain is busy");
	tap_is(ibv_dereg_mr(mr), 0, "dereg");
	tap_is(ibv_dealloc_pd(parent), 0, "the parent domain goes");
}

int main(int argc, char **argv)
{
	struct ibv_parent_domain_init_attr attr = {};
	struct pair_config config = pair_defaults;
	struct ibv_device_attr device;

	ctx = open_nic(argc > 1 ? argv[1] : NULL, &device);
	pd = ibv_alloc_pd(ctx);
	attr.pd = pd;
	parent = pd ? ibv_alloc_parent_domain(ctx, &attr) : NULL;
	buf = aligned_alloc(4096, SIZE);
	if (!parent || !buf)
		tap_bail("no parent domain: %s", strerror(errno));
	memset(buf, 0, SIZE);
	pair.pd = pd;
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	test_registrations();
	test_null();
	test_on_nic();
	test_windows(IBV_MW_TYPE_1);
	test_windows(IBV_MW_TYPE_2);
	test_rereg();
	test_advice();
	test_end();
	pair_close(&pair);
	tap_is(ibv_dealloc_pd(pd), 0, "and the inner domain");
	ibv_close_device(ctx);
	return tap_done();
}
