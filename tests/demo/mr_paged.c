// SPDX-License-Identifier: GPL-2.0
/*
 * On-demand paging, for people to read: a region of which nothing is pinned, a write to
 * a missing page, how long that takes, and the counters.
 *
 * Exit status: 0 when every step went as it should.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "counts.h"
#include "paged.h"
#include "tap.h"
#include "window.h"

#define REGION		(1ul << 30)
#define ROUNDS		101

static struct pair pair;
static uint8_t *memory;
static struct ibv_mr *mr;

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e6 + ts.tv_nsec / 1e3;
}

/* Microseconds from the post to the completion. */
static double write_page(void)
{
	double start = now_us();
	struct outcome o = ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, (uintptr_t)memory, PAGE);
	double us = now_us() - start;

	if (o.posted || o.status || memcmp(memory, pair.a.buf, PAGE))
		tap_bail("RDMA WRITE: %s, or other data than sent",
			 ibv_wc_status_str(o.status));
	return us;
}

static int by_value(const void *a, const void *b)
{
	return *(const double *)a > *(const double *)b ? 1 : -1;
}

static double median(double us[ROUNDS])
{
	qsort(us, ROUNDS, sizeof(*us), by_value);
	return us[ROUNDS / 2];
}

int main(int argc, char **argv)
{
	static double absent[ROUNDS], present[ROUNDS], gone[ROUNDS];
	struct paged counted;
	double start, us;
	long pinned;
	int i;

	if (argc != 2) {
		fprintf(stderr, "usage: %s DEVICE    a page fault of the NIC's, and its cost\n",
			argv[0]);
		return 2;
	}
	pair_open(&pair, open_nic(argv[1], &pair.attr), &pair_defaults);
	pair_connect(&pair);
	memory = map_pages(REGION);
	/*
	 * Without huge pages, whatever the kernel's policy is, each page faults by
	 * itself.
	 */
	if (madvise(memory, REGION, MADV_NOHUGEPAGE))
		tap_bail("madvise");
	pinned = pinned_pages();
	start = now_us();
	mr = must_reg(pair.pd, memory, REGION, ON_DEMAND);
	us = now_us() - start;
	if (pinned_pages() != pinned)
		tap_bail("pages are pinned");
	printf("  ibv_reg_mr          1 GiB, IBV_ACCESS_ON_DEMAND: no page pinned, %.0f us\n", us);
	for (i = 0; i < ROUNDS; i++) {
		fill(pair.a.buf, PAGE, i);
		absent[i] = write_page();
		present[i] = write_page();
		start = now_us();
		if (madvise(memory, PAGE, MADV_DONTNEED))
			tap_bail("madvise");
		gone[i] = now_us() - start;
	}
	printf("  RDMA WRITE          4 KiB to a page that is not there: data as sent, %.0f us\n"
	       "  RDMA WRITE          to one that is: data as sent, %.0f us; so a fault costs %.0f\n"
	       "  MADV_DONTNEED       takes it away, and the NIC forgets it: %.0f us\n"
	       "                      (medians of %u)\n", median(absent), median(present),
	       median(absent) - median(present), median(gone), ROUNDS);
	counted = paged_counts();
	if (counted.faults < ROUNDS || counted.handled != counted.faults ||
	    counted.invalidations < ROUNDS)
		tap_bail("other counts than %u of each: %llu %llu %llu", ROUNDS, counted.faults,
			 counted.handled, counted.invalidations);
	printf("  rdma statistic      show mr: page_faults %llu page_faults_handled %llu\n"
	       "                      page_invalidations %llu page_prefetch %llu\n",
	       counted.faults, counted.handled, counted.invalidations, counted.prefetched);
	ibv_dereg_mr(mr);
	pair_close(&pair);
	return 0;
}
