// SPDX-License-Identifier: GPL-2.0
/*
 * ibv_advise_mr() gives the NIC pages before it requests them. It does not request
 * these later, and the counters show that.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "paged.h"
#include "tap.h"
#include "window.h"

#define PAGES	8
#define SIZE	(PAGES * PAGE)
#define HUGE	(2ul << 20)
#define READ	IBV_ADVISE_MR_ADVICE_PREFETCH
#define WRITE	IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define LOOK	IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
#define FLUSH	IBV_ADVISE_MR_FLAG_FLUSH

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct pair pair;

static int advise(struct ibv_pd *of, enum ibv_advise_mr_advice advice, uint32_t flags,
		  uint32_t lkey, const uint8_t *at, uint32_t length)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)at, .length = length, .lkey = lkey,
	};

	return ibv_advise_mr(of, advice, flags, &sge, 1);
}

static enum ibv_wc_status move(enum ibv_wr_opcode opcode, struct ibv_mr *mr, uint8_t *at)
{
	return ask(&pair, opcode, mr->rkey, (uintptr_t)at, SIZE).status;
}

/* Waits for a prefetch in the background to be complete. */
static bool prefetched(unsigned long long pages)
{
	int i;

	for (i = 0; i < 100 && paged_counts().prefetched < pages; i++)
		poll(NULL, 0, 10);
	return paged_counts().prefetched == pages;
}

static void test_prefetch(enum ibv_advise_mr_advice advice, uint32_t flags,
			  const char *name)
{
	uint8_t *at = map_pages(SIZE);
	struct ibv_mr *mr = must_reg(pd, at, SIZE, ON_DEMAND);

	tap_is(advise(pd, advice, flags, mr->lkey, at, SIZE), 0, "%s", name);
	tap_ok(prefetched(PAGES), "%s: each page counted", name);
	tap_is(move(IBV_WR_RDMA_READ, mr, at), IBV_WC_SUCCESS, "%s: READ", name);
	tap_is(paged_counts().faults, 0, "%s: nothing asked for to be read", name);
	fill(pair.a.buf, SIZE, 4);
	tap_is(move(IBV_WR_RDMA_WRITE, mr, at), IBV_WC_SUCCESS, "%s: WRITE", name);
	tap_ok((paged_counts().faults == 0) == (advice == WRITE),
	       "%s: asked for to be written only if it was not given so", name);
	tap_ok(is_filled(at, SIZE, 4), "%s: data", name);
	ibv_dereg_mr(mr);
	munmap(at, SIZE);
}

/* PREFETCH_NO_FAULT must not add pages to the process. */
static void test_look(void)
{
	uint8_t *at = map_pages(SIZE);
	struct ibv_mr *mr = must_reg(pd, at, SIZE, ON_DEMAND);
	unsigned char in[PAGES];

	fill(at, 2 * PAGE, 1);
	tap_is(advise(pd, LOOK, FLUSH, mr->lkey, at, SIZE), 0, "what the process has");
	tap_ok(!mincore(at, SIZE, in) && in[1] & 1 && !(in[2] & 1) && !(in[7] & 1),
	       "what it has not it still has not");
	tap_is(ask(&pair, IBV_WR_RDMA_READ, mr->rkey, (uintptr_t)at, 2 * PAGE).status,
	       IBV_WC_SUCCESS, "READ of what it has");
	tap_is(paged_counts().faults, 0, "not asked for");
	tap_is(move(IBV_WR_RDMA_READ, mr, at), IBV_WC_SUCCESS, "READ of the rest");
	tap_is(paged_counts().faults, 1, "asked for");
	ibv_dereg_mr(mr);
	munmap(at, SIZE);
}

/* Where nothing is mapped, what lies behind is entered all the same, and EFAULT says so. */
static void test_look_past(void)
{
	uint8_t *at = map_pages(2 * HUGE + HUGE);
	uint8_t *from = at + -(uintptr_t)at % HUGE;
	struct ibv_mr *mr = must_reg(pd, from, 2 * HUGE, ON_DEMAND);
	int i;

	fill(from, PAGE, 1);
	fill(from + HUGE, SIZE, 1);
	for (i = 1; i >= 0; i--) {
		munmap(from + i * PAGE, PAGE);
		tap_is(advise(pd, LOOK, FLUSH, mr->lkey, from, 2 * HUGE), EFAULT,
		       "page %d is not mapped", i);
		tap_is(ask(&pair, IBV_WR_RDMA_READ, mr->rkey, (uintptr_t)from + HUGE,
			   SIZE).status, IBV_WC_SUCCESS, "READ of what lies behind");
		tap_is(paged_counts().faults, 0, "not asked for");
		ibv_dereg_mr(mr);
		mr = must_reg(pd, from, 2 * HUGE, ON_DEMAND);
	}
	ibv_dereg_mr(mr);
	munmap(at, 3 * HUGE);
}

/*
 * Prefetches all of an MR, several ranges and keys, an implicit MR, and a single byte.
 */
static void test_pieces(void)
{
	uint8_t *at = map_pages(2 * SIZE);
	struct ibv_mr *mr = must_reg(pd, at, SIZE, ON_DEMAND);
	struct ibv_mr *all = must_reg(pd, NULL, SIZE_MAX, ON_DEMAND);
	struct ibv_sge sge[3] = {
		{ .addr = (uintptr_t)at + 1, .length = 1, .lkey = mr->lkey },
		{ .addr = (uintptr_t)at + 2 * PAGE - 1, .length = 2, .lkey = mr->lkey },
		{ .addr = (uintptr_t)at + SIZE, .length = SIZE, .lkey = all->lkey },
	};

	tap_is(ibv_advise_mr(pd, WRITE, FLUSH, sge, 3), 0, "several pieces");
	tap_is(paged_counts().prefetched, 3 + PAGES, "pieces: pages that they touch");
	tap_is(move(IBV_WR_RDMA_WRITE, all, at + SIZE), IBV_WC_SUCCESS,
	       "pieces: WRITE to the implicit one");
	tap_is(paged_counts().faults, 0, "pieces: not asked for");
	ibv_dereg_mr(mr);
	ibv_dereg_mr(all);
	munmap(at, 2 * SIZE);
}

/*
 * The errnos of the manual page: ranges out of bounds or unmapped, keys that are none.
 */
static void test_errnos(void)
{
	struct ibv_pd *other = ibv_alloc_pd(ctx);
	uint8_t *at = map_pages(SIZE);
	struct ibv_mr *mr = must_reg(pd, at, SIZE, ON_DEMAND);
	struct ibv_mr *reads = must_reg(pd, at, SIZE, IBV_ACCESS_REMOTE_READ |
					IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *pinned = must_reg(pd, at, SIZE, ALL_ACCESS);
	uint32_t dead, flags;

	for (flags = 0; flags <= FLUSH; flags += FLUSH) {
		tap_is(advise(pd, READ, flags, mr->lkey, at, SIZE + 1), EFAULT,
		       "beyond its end, flags %u", flags);
		tap_is(advise(pd, READ, flags, mr->lkey, at - 1, 2), EFAULT,
		       "before its first byte, flags %u", flags);
		tap_is(advise(pd, READ, flags, mr->lkey + 1, at, SIZE), ENOENT,
		       "no key, flags %u", flags);
		tap_is(advise(other, READ, flags, mr->lkey, at, SIZE), EPERM,
		       "another domain's, flags %u", flags);
		tap_is(advise(pd, WRITE, flags, reads->lkey, at, SIZE), EPERM,
		       "without the right to write, flags %u", flags);
		tap_is(advise(pd, READ, flags, pinned->lkey, at, SIZE), EINVAL,
		       "of what is not paged, flags %u", flags);
		tap_is(advise(pd, LOOK + 1, flags, mr->lkey, at, SIZE), EOPNOTSUPP,
		       "another advice, flags %u", flags);
	}
	tap_is(advise(pd, READ, FLUSH << 1, mr->lkey, at, SIZE), EINVAL, "another flag");
	tap_is(ibv_advise_mr(pd, READ, FLUSH, NULL, 0), EINVAL, "of no pieces");
	dead = reads->lkey;
	ibv_dereg_mr(reads);
	tap_is(advise(pd, READ, FLUSH, dead, at, SIZE), ENOENT, "a key that is gone");
	ibv_dereg_mr(pinned);
	tap_is(advise(pd, READ, FLUSH, mr->lkey, at, SIZE), 0, "as it should be");
	munmap(at + PAGE, PAGE);
	tap_is(advise(pd, READ, FLUSH, mr->lkey, at, SIZE), EFAULT,
	       "parts of it are not mapped");
	tap_is(advise(pd, READ, 0, mr->lkey, at, SIZE), 0,
	       "in the background nobody is told");
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(other);
	munmap(at, SIZE);
}

static void test_caps(void)
{
	struct ibv_device_attr_ex attr = {};
	struct ibv_odp_caps *caps = &attr.odp_caps;
	uint32_t rc = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
		      IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;

	tap_is(ibv_query_device_ex(ctx, NULL, &attr), 0, "ibv_query_device_ex");
	tap_is(caps->general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
	       "explicit and implicit");
	tap_is(caps->per_transport_caps.rc_odp_caps & rc, rc, "RC: all operations");
	tap_is(caps->per_transport_caps.uc_odp_caps, IBV_ODP_SUPPORT_SEND,
	       "UC: what is sent, for who receives cannot wait");
	tap_is(caps->per_transport_caps.ud_odp_caps, IBV_ODP_SUPPORT_SEND,
	       "UD: SEND, for who receives cannot wait");
}

int main(void)
{
	struct ibv_device_attr attr;

	ctx = open_nic(NULL, &attr);
	pair.pd = ibv_alloc_pd(ctx);
	pd = pair.pd;
	pair_open(&pair, ctx, &pair_defaults);
	pair_connect(&pair);
	test_caps();
	test_prefetch(READ, FLUSH, "to be read");
	test_prefetch(WRITE, FLUSH, "to be written");
	test_prefetch(READ, 0, "to be read, in the background");
	test_prefetch(WRITE, 0, "to be written, in the background");
	test_look();
	test_look_past();
	test_pieces();
	test_errnos();
	pair_close(&pair);
	tap_is(ibv_dealloc_pd(pd), 0, "nothing holds the PD");
	ibv_close_device(ctx);
	return tap_done();
}
