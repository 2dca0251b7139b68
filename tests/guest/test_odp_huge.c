// SPDX-License-Identifier: GPL-2.0
/*
 * On-demand paging of huge pages: of hugetlbfs, which the process promises with
 * IBV_ACCESS_HUGETLB, and transparent ones. A broken promise must be an error, never a
 * wrong translation.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "paged.h"
#include "tap.h"
#include "window.h"

#define HUGE	(2ul << 20)
#define PAGES	4
#define SIZE	(PAGES * HUGE)
#define RESERVE	64

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct pair pair;
static uint8_t *here;
static struct ibv_mr *local;

static bool reserve(int pages)
{
	FILE *file = fopen("/proc/sys/vm/nr_hugepages", "r+");
	int got = -1;

	if (!file || fprintf(file, "%d", pages) < 0 || fflush(file))
		tap_bail("/proc/sys/vm/nr_hugepages: %s", strerror(errno));
	rewind(file);
	if (fscanf(file, "%d", &got) != 1)
		got = -1;
	fclose(file);
	return got == pages;
}

static uint8_t *map_huge(void)
{
	uint8_t *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (at == MAP_FAILED)
		tap_bail("huge pages: %s", strerror(errno));
	return at;
}

/* WRITEs @length bytes to @at of the region and READs them back. */
static bool there_and_back(struct ibv_mr *mr, uint8_t *there, size_t at, size_t length,
			   uint8_t seed)
{
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = 1, .local = here + at,
		.lkey = local->lkey, .length = length,
		.remote = (uintptr_t)there + at, .rkey = mr->rkey,
	};

	fill(here + at, length, seed);
	if (finish(&pair.a, post(&pair.a, &request)).status ||
	    !is_filled(there + at, length, seed))
		return false;
	fill(there + at, length, seed + 1);
	request.opcode = IBV_WR_RDMA_READ;
	return !finish(&pair.a, post(&pair.a, &request)).status &&
	       is_filled(here + at, length, seed + 1);
}

static void test_kept(unsigned int access, const char *name)
{
	uint8_t *there = map_huge();
	struct ibv_mr *mr = must_reg(pd, there, SIZE, ON_DEMAND | access);
	size_t at;

	tap_ok(there_and_back(mr, there, 0, SIZE, 1), "%s: all of it", name);
	tap_ok(paged_counts().faults >= 1 && paged_counts().faults <= PAGES,
	       "%s: a page request for each page at most", name);
	for (at = HUGE - 100; at < SIZE - HUGE; at += HUGE)
		tap_ok(there_and_back(mr, there, at, 200, at >> 12),
		       "%s: from one page to the next", name);
	madvise(there + HUGE, HUGE, MADV_DONTNEED);
	tap_is(there[HUGE], 0, "%s: a page taken away", name);
	tap_ok(there_and_back(mr, there, HUGE - PAGE, HUGE + 2 * PAGE, 9),
	       "%s: and asked for again", name);
	tap_is(ibv_dereg_mr(mr), 0, "%s: deregistered", name);
	munmap(there, SIZE);
}

/* A part of a huge page is given to the NIC as small pages, and must work, too. */
static void test_parts(void)
{
	uint8_t *there = map_huge();
	struct ibv_mr *mr = must_reg(pd, there + HUGE / 2, 2 * HUGE,
				     ON_DEMAND | IBV_ACCESS_HUGETLB);

	tap_ok(there_and_back(mr, there, HUGE / 2, 2 * HUGE, 3), "from the midst of pages");
	tap_is(ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey,
		   (uintptr_t)there + HUGE / 2 - 1, 2).status, IBV_WC_REM_ACCESS_ERR,
	       "what is before it in the page is out of bounds");
	revive(&pair);
	tap_is(ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey,
		   (uintptr_t)there + 5 * HUGE / 2 - 1, 2).status, IBV_WC_REM_ACCESS_ERR,
	       "what is behind it in the page too");
	revive(&pair);
	ibv_dereg_mr(mr);
	munmap(there, SIZE);
}

static void test_broken(void)
{
	uint8_t *there = map_pages(SIZE);
	struct ibv_mr *mr;

	/* Keep khugepaged from making the huge pages that were promised. */
	madvise(there, SIZE, MADV_NOHUGEPAGE);
	mr = must_reg(pd, there, SIZE, ON_DEMAND | IBV_ACCESS_HUGETLB);
	fill(pair.a.buf, PAGE, 5);
	tap_is(ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, (uintptr_t)there, PAGE).status,
	       IBV_WC_REM_ACCESS_ERR, "small pages where huge ones were promised");
	tap_is(there[0], 0, "nothing is written");
	revive(&pair);
	ibv_dereg_mr(mr);
	munmap(there, SIZE);

	/* The promise is kept at first, then broken. */
	there = map_huge();
	mr = must_reg(pd, there, SIZE, ON_DEMAND | IBV_ACCESS_HUGETLB);
	tap_ok(there_and_back(mr, there, 0, SIZE, 1), "a promise that is kept");
	munmap(there + HUGE, HUGE);
	if (mmap(there + HUGE, HUGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != there + HUGE)
		tap_bail("mmap: %s", strerror(errno));
	madvise(there + HUGE, HUGE, MADV_NOHUGEPAGE);
	tap_is(ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, (uintptr_t)there + HUGE,
		   PAGE).status, IBV_WC_REM_ACCESS_ERR, "and broken in the midst");
	tap_is(there[HUGE], 0, "nothing is written");
	revive(&pair);
	tap_ok(there_and_back(mr, there, 2 * HUGE, 2 * HUGE, 4), "the rest is as it was");
	ibv_dereg_mr(mr);
	munmap(there, SIZE);
}

/* Transparent huge pages: made, split, collapsed. */
static void test_transparent(void)
{
	uint8_t *room = map_pages(SIZE + HUGE);
	uint8_t *there = (void *)(((uintptr_t)room + HUGE - 1) & -HUGE);
	struct ibv_mr *mr = must_reg(pd, there, SIZE, ON_DEMAND);

	madvise(there, SIZE, MADV_HUGEPAGE);
	tap_ok(there_and_back(mr, there, 0, SIZE, 1), "transparent: data");
	mprotect(there + HUGE + 5 * PAGE, PAGE, PROT_READ);
	tap_ok(there_and_back(mr, there, 2 * HUGE, HUGE, 2), "transparent: beside");
	mprotect(there + HUGE + 5 * PAGE, PAGE, PROT_READ | PROT_WRITE);
	tap_ok(there_and_back(mr, there, HUGE, HUGE, 3), "transparent: taken apart");
	madvise(there + 3 * HUGE + PAGE, PAGE, MADV_DONTNEED);
	tap_ok(there_and_back(mr, there, 3 * HUGE, HUGE, 4), "transparent: one page gone");
#ifdef MADV_COLLAPSE
	madvise(there, SIZE, MADV_COLLAPSE);
#endif
	tap_ok(there_and_back(mr, there, 0, SIZE, 5), "transparent: put together");
	ibv_dereg_mr(mr);
	munmap(room, SIZE + HUGE);
}

int main(void)
{
	struct ibv_device_attr attr;

	if (!tap_ok(reserve(RESERVE), "the guest has %d huge pages", RESERVE))
		return tap_done();
	ctx = open_nic(NULL, &attr);
	pair.pd = ibv_alloc_pd(ctx);
	pd = pair.pd;
	pair_open(&pair, ctx, &pair_defaults);
	pair_connect(&pair);
	here = map_pages(SIZE);
	local = must_reg(pd, here, SIZE, ON_DEMAND);
	if (ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH,
			  &(struct ibv_sge){ (uintptr_t)here, SIZE, local->lkey }, 1))
		tap_bail("ibv_advise_mr");
	test_kept(IBV_ACCESS_HUGETLB, "promised");
	test_kept(0, "huge");
	test_parts();
	test_broken();
	test_transparent();
	ibv_dereg_mr(local);
	munmap(here, SIZE);
	pair_close(&pair);
	tap_is(ibv_dealloc_pd(pd), 0, "nothing holds the PD");
	ibv_close_device(ctx);
	reserve(0);
	return tap_done();
}
