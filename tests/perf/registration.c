// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: registration DEVICE [ROUNDS]
 *
 * What ibv_reg_mr, ibv_dereg_mr and the end of a process with MRs take on DEVICE:
 * a line for each size, "KIB REG DEREG", medians of ROUNDS (default 100), in
 * nanoseconds of this machine; with 'scripts/vm --icount' they are instructions.
 * Last, "close COUNT NS": closing a device with COUNT MRs of a page, by the MR.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <infiniband/verbs.h>

#define ROUNDS_MAX	1000
#define CLOSE_COUNT	1000

static const size_t sizes_kib[] = { 4, 64, 1024, 4096 };

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **at;
	struct ibv_context *ctx = NULL;

	for (at = list; at && *at && !ctx; at++)
		if (!strcmp(ibv_get_device_name(*at), name))
			ctx = ibv_open_device(*at);
	if (!ctx)
		die(name);
	ibv_free_device_list(list);
	return ctx;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t median(uint64_t *values, int count)
{
	qsort(values, count, sizeof(*values), by_value);
	return values[count / 2];
}

static char *map_pages(size_t length)
{
	char *mem = mmap(NULL, length, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		die("mmap");
	/* Pages of the smallest size, all there. */
	madvise(mem, length, MADV_NOHUGEPAGE);
	memset(mem, 1, length);
	return mem;
}

static void measure_size(struct ibv_pd *pd, size_t length, int rounds)
{
	static uint64_t reg[ROUNDS_MAX], dereg[ROUNDS_MAX];
	char *mem = map_pages(length);
	int i;

	for (i = 0; i < rounds; i++) {
		uint64_t start = now_ns(), middle;
		struct ibv_mr *mr = ibv_reg_mr(pd, mem, length, IBV_ACCESS_LOCAL_WRITE);

		if (!mr)
			die("ibv_reg_mr");
		middle = now_ns();
		if (ibv_dereg_mr(mr))
			die("ibv_dereg_mr");
		dereg[i] = now_ns() - middle;
		reg[i] = middle - start;
	}
	printf("%zu %llu %llu\n", length / 1024, (unsigned long long)median(reg, rounds),
	       (unsigned long long)median(dereg, rounds));
	munmap(mem, length);
}

/* What is left open is the kernel's to take back, as when a process ends. */
static void measure_close(const char *name)
{
	struct ibv_context *ctx = open_device(name);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	char *mem = map_pages(4096);
	uint64_t start;
	int i;

	if (!pd)
		die("ibv_alloc_pd");
	for (i = 0; i < CLOSE_COUNT; i++)
		if (!ibv_reg_mr(pd, mem, 4096, IBV_ACCESS_LOCAL_WRITE))
			die("ibv_reg_mr");
	start = now_ns();
	ibv_close_device(ctx);
	printf("close %d %llu\n", CLOSE_COUNT,
	       (unsigned long long)(now_ns() - start) / CLOSE_COUNT);
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 100;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	size_t i;

	if (argc < 2 || !strcmp(argv[1], "--help") || rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: registration DEVICE [ROUNDS, 1 to %d]\n", ROUNDS_MAX);
		return 1;
	}
	ctx = open_device(argv[1]);
	pd = ibv_alloc_pd(ctx);
	if (!pd)
		die("ibv_alloc_pd");
	for (i = 0; i < sizeof(sizes_kib) / sizeof(*sizes_kib); i++)
		measure_size(pd, sizes_kib[i] * 1024, rounds);
	ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	measure_close(argv[1]);
	return 0;
}
