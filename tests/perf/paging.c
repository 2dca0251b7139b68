// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: paging DEVICE [OTHER]
 *
 * What on-demand paging takes on one device and on another, in nanoseconds of this
 * machine; with 'scripts/vm --icount' they are instructions. Medians: an RDMA WRITE of
 * 8 bytes to a page that the device has, and to one that only the process has, which
 * is one fault more; giving a device 64 MiB that the process has, beside pinning them;
 * and taking a page away from the process, that nobody else has, or one region, or 1,000.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "paged.h"
#include "tap.h"
#include "window.h"

#define BIG		(64ul << 20)
#define ROUNDS		101
#define FEW		5	/* of what takes long */
#define MANY		1000
#define STEP		37	/* pages: nobody takes that for reading on */

enum row { PRESENT, ABSENT, PREFETCH, PIN, TAKE_ALONE, TAKE_1, TAKE_MANY, ROWS };

static const char *const rows[ROWS] = {
	[PRESENT] = "WRITE to a page that the device has",
	[ABSENT] = "WRITE to one that the process has",
	[PREFETCH] = "ibv_advise_mr of 64 MiB",
	[PIN] = "ibv_reg_mr of the same, pinned",
	[TAKE_ALONE] = "MADV_DONTNEED of a page",
	[TAKE_1] = "the same, one region has it",
	[TAKE_MANY] = "the same, 1,000 regions have it",
};

struct device {
	struct pair pair;
	uint64_t took[ROWS];	/* 0: it cannot do that */
};

static uint8_t *big;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
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

static struct ibv_mr *reg(struct device *device, void *at, size_t size)
{
	return must_reg(device->pair.pd, at, size, ALL_ACCESS | IBV_ACCESS_ON_DEMAND);
}

static void dereg(struct ibv_mr *mr)
{
	if (ibv_dereg_mr(mr))
		tap_bail("ibv_dereg_mr failed");
}

static uint64_t write_to(struct device *device, struct ibv_mr *mr, uint8_t *page)
{
	struct side *side = &device->pair.a;
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .local = side->buf, .length = 8,
		.lkey = side->mr->lkey, .remote = (uintptr_t)page, .rkey = mr->rkey,
	};
	uint64_t started = now_ns();
	struct ibv_wc wc;

	if (post(side, &request) || !wait_wc(side->send_cq, &wc) || wc.status)
		tap_bail("%s: WRITE failed", ibv_get_device_name(device->pair.ctx->device));
	return now_ns() - started;
}

static void measure_writes(struct device *device)
{
	static uint64_t absent[ROUNDS], present[ROUNDS];
	struct ibv_mr *mr = reg(device, big, BIG);
	unsigned int i;

	for (i = 0; i < ROUNDS; i++) {
		uint8_t *page = big + (size_t)i * STEP * PAGE;

		/* The process's again, and nobody else's. */
		madvise(page, PAGE, MADV_DONTNEED);
		*page = 1;
		absent[i] = write_to(device, mr, page);
		present[i] = write_to(device, mr, page);
	}
	device->took[ABSENT] = median(absent, ROUNDS);
	device->took[PRESENT] = median(present, ROUNDS);
	dereg(mr);
}

static bool prefetch(struct device *device, struct ibv_mr *mr)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)mr->addr, .length = mr->length, .lkey = mr->lkey,
	};

	return !ibv_advise_mr(device->pair.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			      IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
}

static void measure_big(struct device *device)
{
	uint64_t ahead[FEW], pin[FEW], started;
	struct ibv_mr *mr;
	unsigned int i;
	bool can = true;

	for (i = 0; i < FEW; i++) {
		mr = reg(device, big, BIG);
		started = now_ns();
		can &= prefetch(device, mr);
		ahead[i] = now_ns() - started;
		dereg(mr);
		started = now_ns();
		mr = must_reg(device->pair.pd, big, BIG, ALL_ACCESS);
		pin[i] = now_ns() - started;
		dereg(mr);
	}
	device->took[PREFETCH] = can ? median(ahead, FEW) : 0;
	device->took[PIN] = median(pin, FEW);
}

/* Of a page that @num regions of a page have. */
static uint64_t take_away(struct device *device, unsigned int num, unsigned int rounds)
{
	static struct ibv_mr *mr[MANY];
	uint64_t took[ROUNDS], started;
	uint8_t *page = map_pages(PAGE);
	unsigned int i, round;

	for (i = 0; i < num; i++)
		mr[i] = reg(device, page, PAGE);
	for (round = 0; round < rounds; round++) {
		*page = 1;
		for (i = 0; i < num; i++)
			write_to(device, mr[i], page);
		started = now_ns();
		madvise(page, PAGE, MADV_DONTNEED);
		took[round] = now_ns() - started;
	}
	for (i = 0; i < num; i++)
		dereg(mr[i]);
	munmap(page, PAGE);
	return median(took, rounds);
}

static void measure(struct device *device, const char *name)
{
	struct ibv_device_attr attr;

	device->pair.pd = NULL;
	pair_open(&device->pair, open_nic(name, &attr), &pair_defaults);
	pair_connect(&device->pair);
	measure_writes(device);
	measure_big(device);
	device->took[TAKE_ALONE] = take_away(device, 0, ROUNDS);
	device->took[TAKE_1] = take_away(device, 1, ROUNDS);
	device->took[TAKE_MANY] = take_away(device, MANY, FEW);
}

int main(int argc, char **argv)
{
	static struct device devices[2];
	int num = argc - 1, i;
	enum row row;

	if (num < 1 || num > 2 || !strcmp(argv[1], "--help")) {
		fprintf(stderr, "usage: paging DEVICE [OTHER]\n");
		return 1;
	}
	big = map_pages(BIG);
	madvise(big, BIG, MADV_NOHUGEPAGE);
	fill(big, BIG, 1);
	for (i = 0; i < num; i++)
		measure(&devices[i], argv[i + 1]);
	printf("%-36s", "");
	for (i = 0; i < num; i++)
		printf(" %12s", argv[i + 1]);
	for (row = 0; row < ROWS; row++) {
		printf("\n%-36s", rows[row]);
		for (i = 0; i < num; i++)
			printf(" %12llu", (unsigned long long)devices[i].took[row]);
	}
	printf("\n");
	return 0;
}
