// SPDX-License-Identifier: GPL-2.0
/* timeout: 180
 *
 * Features of regions, with regions that are paged on demand: windows, zero-based
 * addresses, re-registration into paging and out of it, unreliable connections, and
 * many faults at once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "counts.h"
#include "message.h"
#include "paged.h"
#include "tap.h"
#include "window.h"

#define SIZE	(8 * PAGE)
#define QPS	64
#define PART	(2 * PAGE)
#define FULL	(BINDABLE | ON_DEMAND)
#define RIGHTS	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct pair pair;

/* Drops all pages, so that the memory is as if untouched. */
static void forget(uint8_t *at)
{
	madvise(at, SIZE, MADV_DONTNEED);
}

static bool arrives(uint32_t rkey, uint64_t remote, const uint8_t *at, uint32_t length)
{
	static uint8_t seed;
	struct outcome o;

	fill(pair.a.buf, length, ++seed);
	o = ask(&pair, IBV_WR_RDMA_WRITE, rkey, remote, length);
	return !o.posted && !o.status && is_filled(at, length, seed);
}

static void test_window(enum ibv_mw_type type, unsigned int more, bool implicit,
			const char *name)
{
	uint8_t *at = map_pages(SIZE);
	struct ibv_mr *mr = implicit ? must_reg(pd, NULL, SIZE_MAX, FULL) :
				       must_reg(pd, at, SIZE, FULL);
	struct ibv_mw *mw = must_alloc_mw(pd, type);
	uint64_t first = (uintptr_t)at + 3000, wire = more ? 0 : first;
	struct outcome o;

	must_bind(&apis[0], &pair.b, mw, mr, first, PART, RIGHTS | more);
	tap_ok(arrives(mw->rkey, wire, at + 3000, PART), "%s: untouched", name);
	forget(at);
	tap_is(ask(&pair, IBV_WR_RDMA_READ, mw->rkey, wire, PART).status, IBV_WC_SUCCESS,
	       "%s: READ", name);
	tap_ok(!pair.a.buf[0] && !memcmp(pair.a.buf, pair.a.buf + 1, PART - 1),
	       "%s: reads zeros", name);
	tap_ok(arrives(mw->rkey, wire + PAGE, at + 3000 + PAGE, PAGE),
	       "%s: what was read is written", name);
	tap_is(ibv_dereg_mr(mr), EBUSY, "%s: busy", name);
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, FULL),
	       IBV_REREG_MR_ERR_CMD, "%s: not re-registered", name);
	forget(at);
	tap_ok(arrives(mw->rkey, wire, at + 3000, PART), "%s: as usable as before", name);
	o = ask(&pair, IBV_WR_RDMA_WRITE, mw->rkey, wire, PART + 1);
	tap_is(o.status, IBV_WC_REM_ACCESS_ERR, "%s: a byte more", name);
	revive(&pair);
	/* A window of type 2 was unbound by the QP's reset. */
	if (type == IBV_MW_TYPE_1) {
		munmap(at + PAGE, PAGE);
		tap_is(ask(&pair, IBV_WR_RDMA_WRITE, mw->rkey, wire, PART).status,
		       IBV_WC_REM_ACCESS_ERR, "%s: a page that is not to be had", name);
		revive(&pair);
	}
	tap_is(ibv_dealloc_mw(mw), 0, "%s: deallocated", name);
	tap_is(ibv_dereg_mr(mr), 0, "%s: deregistered", name);
	munmap(at, SIZE);
}

static void test_zero_based(void)
{
	uint8_t *at = map_pages(SIZE);
	struct ibv_mr *mr = must_reg(pd, at + 100, SIZE - 100,
				     ON_DEMAND | IBV_ACCESS_ZERO_BASED);

	tap_ok(arrives(mr->rkey, 0, at + 100, PART), "from zero: the first bytes");
	tap_ok(arrives(mr->rkey, SIZE - 100 - PART, at + SIZE - PART, PART),
	       "from zero: the last bytes");
	tap_is(ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, SIZE - 100, 1).status,
	       IBV_WC_REM_ACCESS_ERR, "from zero: a byte more");
	revive(&pair);
	ibv_dereg_mr(mr);
	mr = ibv_reg_mr_iova(pd, at + 7, SIZE - 7, 0x123456789000 + 7, ON_DEMAND);
	tap_ok(mr && arrives(mr->rkey, 0x123456789000 + 3 * PAGE, at + 3 * PAGE, PART),
	       "at another address on the wire");
	ibv_dereg_mr(mr);
	munmap(at, SIZE);
}

static void test_rereg(void)
{
	uint8_t *at = map_pages(SIZE), *other = map_pages(SIZE);
	struct ibv_mr *mr = must_reg(pd, at, SIZE, ALL_ACCESS);
	long pinned = pinned_pages();

	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ON_DEMAND), 0,
	       "into paging");
	tap_is(pinned - pinned_pages(), SIZE / PAGE, "nothing is pinned any more");
	forget(at);
	tap_ok(arrives(mr->rkey, (uintptr_t)at + 5, at + 5, PART), "data");
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, SIZE, 0), 0,
	       "to another range");
	tap_ok(arrives(mr->rkey, (uintptr_t)other + 5, other + 5, PART), "data");
	tap_is(ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, (uintptr_t)at, 8).status,
	       IBV_WC_REM_ACCESS_ERR, "the range before is out of bounds");
	revive(&pair);
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_ACCESS), 0,
	       "out of paging");
	tap_is(pinned_pages(), pinned, "all is pinned again");
	tap_ok(arrives(mr->rkey, (uintptr_t)other, other, SIZE), "data");
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ON_DEMAND), 0,
	       "into paging again");
	munmap(other, SIZE);
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL_ACCESS),
	       IBV_REREG_MR_ERR_CMD, "what is not mapped cannot be pinned");
	if (mmap(other, SIZE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != other)
		tap_bail("mmap: %s", strerror(errno));
	tap_ok(arrives(mr->rkey, (uintptr_t)other, other, SIZE), "and all is as it was");
	ibv_dereg_mr(mr);
	munmap(at, SIZE);
	munmap(other, SIZE);
}

/* ---- unreliable connections ---- */

static bool uc_sent(struct pair *uc, uint8_t *from, uint32_t lkey, uint8_t *to,
		    uint32_t to_lkey, struct ibv_wc *wc)
{
	struct request request = {
		.opcode = IBV_WR_SEND, .wr_id = 1, .local = from, .lkey = lkey,
		.length = PART,
	};
	struct ibv_wc sent;

	return !post_receive(&uc->b, 2, to, PART, to_lkey) && !post(&uc->a, &request) &&
	       wait_wc(uc->a.send_cq, &sent) && !sent.status &&
	       wait_wc(uc->b.recv_cq, wc);
}

static void test_uc(void)
{
	struct pair_config config = pair_defaults;
	struct memory source;
	uint8_t *to = map_pages(SIZE);
	struct ibv_mr *from_mr, *to_mr;
	struct pair uc = { .pd = pd };
	struct ibv_sge sge;
	struct ibv_wc wc;

	config.type = IBV_QPT_UC;
	pair_open(&uc, ctx, &config);
	pair_connect(&uc);
	memory_make(&source, FILE_PRIVATE, SIZE);
	from_mr = must_reg(pd, source.at, SIZE, ON_DEMAND);
	to_mr = must_reg(pd, to, SIZE, ON_DEMAND);
	tap_ok(uc_sent(&uc, source.at, from_mr->lkey, uc.b.buf, uc.b.mr->lkey, &wc) &&
	       !wc.status && is_filled(uc.b.buf, PART, source.seed), "UC: sent from pages to come");
	tap_ok(uc_sent(&uc, source.at, from_mr->lkey, to, to_mr->lkey, &wc) &&
	       wc.status == IBV_WC_LOC_PROT_ERR, "UC: who receives cannot wait for a page");
	pair_reset(&uc);
	sge = (struct ibv_sge){ (uintptr_t)to, SIZE, to_mr->lkey };
	tap_ok(!ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH,
			      &sge, 1) &&
	       uc_sent(&uc, source.at, from_mr->lkey, to, to_mr->lkey, &wc) && !wc.status &&
	       is_filled(to, PART, source.seed), "UC: received into pages that are there");
	tap_is(paged_counts().faults, 1, "UC: no page was asked for to receive");
	ibv_dereg_mr(from_mr);
	ibv_dereg_mr(to_mr);
	tap_ok(memory_end(&source), "UC: the source is as it was");
	munmap(to, SIZE);
	pair_close(&uc);
}

/* ---- many at once ---- */

static void test_many(void)
{
	struct pair_config config = pair_defaults;
	uint8_t *here = map_pages(QPS * PART), *there = map_pages(QPS * PART);
	struct ibv_mr *lmr = must_reg(pd, here, QPS * PART, ON_DEMAND);
	struct ibv_mr *rmr = must_reg(pd, NULL, SIZE_MAX, ON_DEMAND);
	static struct pair pairs[QPS];
	int i, round, right = 0;
	struct ibv_wc wc;

	config.buffer_size = PAGE;
	for (i = 0; i < QPS; i++) {
		pairs[i].pd = pd;
		pair_open(&pairs[i], ctx, &config);
		pair_connect(&pairs[i]);
	}
	for (round = 0; round < 4; round++) {
		madvise(there, QPS * PART, MADV_DONTNEED);
		madvise(here, QPS * PART, MADV_DONTNEED);
		for (i = 0; i < QPS; i++)
			here[i * PART + PAGE] = i + round;
		for (i = 0; i < QPS; i++) {
			struct request request = {
				.opcode = IBV_WR_RDMA_WRITE, .wr_id = i,
				.local = here + i * PART, .lkey = lmr->lkey,
				.length = PART, .rkey = rmr->rkey,
				.remote = (uintptr_t)there + (QPS - 1 - i) * PART,
			};

			if (post(&pairs[i].a, &request))
				tap_bail("posting");
		}
		for (i = 0; i < QPS; i++)
			right += wait_wc(pairs[i].a.send_cq, &wc) && !wc.status &&
				 !memcmp(here + i * PART,
					 there + (QPS - 1 - i) * PART, PART);
	}
	tap_is(right, 4 * QPS, "%d QPs that fault at once", QPS);
	for (i = 0; i < QPS; i++)
		pair_close(&pairs[i]);
	ibv_dereg_mr(lmr);
	ibv_dereg_mr(rmr);
	munmap(here, QPS * PART);
	munmap(there, QPS * PART);
}

int main(void)
{
	struct ibv_device_attr attr;
	long pinned = pinned_pages();

	ctx = open_nic(NULL, &attr);
	pair.pd = ibv_alloc_pd(ctx);
	pd = pair.pd;
	pair_open(&pair, ctx, &pair_defaults);
	pair_connect(&pair);
	test_window(IBV_MW_TYPE_1, 0, false, "type 1");
	test_window(IBV_MW_TYPE_1, 0, true, "type 1, implicit");
	test_window(IBV_MW_TYPE_2, 0, false, "type 2");
	test_window(IBV_MW_TYPE_2, IBV_ACCESS_ZERO_BASED, false, "type 2, from zero");
	test_window(IBV_MW_TYPE_2, IBV_ACCESS_ZERO_BASED, true, "type 2, from zero, implicit");
	test_zero_based();
	test_rereg();
	test_uc();
	test_many();
	pair_close(&pair);
	tap_is(ibv_dealloc_pd(pd), 0, "nothing holds the PD");
	ibv_close_device(ctx);
	expect_nothing_left(pinned);
	return tap_done();
}
