// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: crowd DEVICE BYTES MOST
 *
 * Holds up to MOST regions of BYTES, all in the same few megabytes of huge pages (of
 * small pages if BYTES is a page). For tests/perf/many, which writes commands to
 * standard input: "reg N", or "dereg N" for the N oldest regions. After each command it
 * prints a median over the last regions and the mean of all N, in nanoseconds, which
 * are instructions where the guest's clock counts these (scripts/vm --icount).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "figures.h"
#include "mapping.h"
#include "open.h"
#include "tap.h"

#define PAGE	4096
#define MEMORY	(4ul << 20)

static struct ibv_pd *pd;
static struct mapping mapping;
static struct ibv_mr **mrs;
static size_t bytes, most, first, last;	/* mrs[first] to mrs[last - 1] are alive */

static void reg_one(void)
{
	char *at = mapping.at + last * bytes % mapping.length;

	if (last == most)
		tap_bail("no more than %zu", most);
	mrs[last] = ibv_reg_mr(pd, at, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!mrs[last])
		tap_bail("region %zu: ibv_reg_mr", last);
	last++;
}

static void dereg_one(void)
{
	if (first == last || ibv_dereg_mr(mrs[first]))
		tap_bail("region %zu: ibv_dereg_mr", first);
	first++;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void work(void (*one)(void), size_t times)
{
	uint64_t took[ROUNDS_MAX], begin = now_ns(), start;
	size_t count = times < ROUNDS_MAX ? times : ROUNDS_MAX, i;

	for (i = 0; i < times; i++) {
		start = now_ns();
		one();
		took[i % ROUNDS_MAX] = now_ns() - start;
	}
	begin = now_ns() - begin;
	qsort(took, count, sizeof(*took), by_value);
	printf("%llu %llu\n", (unsigned long long)took[count / 2],
	       (unsigned long long)(begin / times));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[64];
	size_t times;

	if (argc != 4) {
		fprintf(stderr, "usage: crowd DEVICE BYTES MOST\n");
		return 1;
	}
	bytes = strtoul(argv[2], NULL, 0);
	most = strtoul(argv[3], NULL, 0);
	pd = open_pd(argv[1]);
	if (!bytes || MEMORY % bytes ||
	    mapping_make(&mapping, bytes > PAGE ? THP : IN_ORDER, MEMORY))
		tap_bail("no memory for regions of %zu bytes", bytes);
	/* Touch these pages before the kernel's memory is measured. */
	mrs = malloc(most * sizeof(*mrs));
	memset(mrs, 0xff, most * sizeof(*mrs));
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "reg %zu", &times) == 1 && times)
			work(reg_one, times);
		else if (sscanf(line, "dereg %zu", &times) == 1 && times)
			work(dereg_one, times);
		else
			tap_bail("what is this: %s", line);
	}
	return 0;
}
