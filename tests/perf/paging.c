// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: paging DEVICE [OTHER]
 *
 * What on-demand paging takes on one device and on another: an RDMA WRITE of 8 bytes to
 * a page that the device has, and to one that only the process has, which costs a page
 * request; giving a device 64 MiB that the process has, compared with pinning them; and
 * unmapping a page that no region has, that one has, and that 1,000 have. Prints
 * figures as lib/figures.h has them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "figures.h"
#include "paged.h"
#include "tap.h"
#include "window.h"

#define BIG		(64ul << 20)
#define ROUNDS		ROUNDS_MAX
#define FEW		5	/* rounds of operations that take long */
#define MANY		1000
#define STEP		37	/* pages between accesses: too far for read-ahead */

enum row { PRESENT, ABSENT, PREFETCH, PIN, TAKE_ALONE, TAKE_1, TAKE_MANY, ROWS };

static const char *const rows[ROWS] = {
	[PRESENT] = "WRITE to a page that the device has",
	[ABSENT] = "WRITE to one that the process has",
	[PREFETCH] = "ibv_advise_mr: prefetch of 64 MiB",
	[PIN] = "ibv_reg_mr of the same, pinned",
	[TAKE_ALONE] = "MADV_DONTNEED of a page",
	[TAKE_1] = "the same, one region has it",
	[TAKE_MANY] = "the same, 1,000 regions have it",
};

struct device {
	struct pair pair;
	struct figure figures[ROWS];
};

static uint8_t *big;

static struct ibv_mr *reg(struct device *device, void *at, size_t size)
{
	return must_reg(device->pair.pd, at, size, ALL_ACCESS | IBV_ACCESS_ON_DEMAND);
}

static void dereg(struct ibv_mr *mr)
{
	if (ibv_dereg_mr(mr))
		tap_bail("ibv_dereg_mr failed");
}

static void write_to(struct device *device, struct ibv_mr *mr, uint8_t *page)
{
	struct side *side = &device->pair.a;
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .local = side->buf, .length = 8,
		.lkey = side->mr->lkey, .remote = (uintptr_t)page, .rkey = mr->rkey,
	};
	struct ibv_wc wc;

	if (post(side, &request) || !wait_wc(side->send_cq, &wc) || wc.status)
		tap_bail("%s: WRITE failed", ibv_get_device_name(device->pair.ctx->device));
}

static void measure_writes(struct device *device)
{
	struct ibv_mr *mr = reg(device, big, BIG);
	uint64_t start;
	unsigned int i;

	for (i = 0; i < ROUNDS; i++) {
		uint8_t *page = big + (size_t)i * STEP * PAGE;

		/* The process has the page again, the device does not. */
		madvise(page, PAGE, MADV_DONTNEED);
		*page = 1;
		start = now_ns();
		write_to(device, mr, page);
		take(&device->figures[ABSENT], &start);
		write_to(device, mr, page);
		take(&device->figures[PRESENT], &start);
	}
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
	struct ibv_mr *mr;
	uint64_t start;
	unsigned int i;

	for (i = 0; i < FEW; i++) {
		mr = reg(device, big, BIG);
		start = now_ns();
		if (prefetch(device, mr))
			take(&device->figures[PREFETCH], &start);
		dereg(mr);
		start = now_ns();
		mr = must_reg(device->pair.pd, big, BIG, ALL_ACCESS);
		take(&device->figures[PIN], &start);
		dereg(mr);
	}
}

/* Unmaps a page on which @num regions of one page are registered. */
static void take_away(struct device *device, enum row row, unsigned int num, unsigned int rounds)
{
	static struct ibv_mr *mr[MANY];
	uint8_t *page = map_pages(PAGE);
	unsigned int i, round;
	uint64_t start;

	for (i = 0; i < num; i++)
		mr[i] = reg(device, page, PAGE);
	for (round = 0; round < rounds; round++) {
		*page = 1;
		for (i = 0; i < num; i++)
			write_to(device, mr[i], page);
		start = now_ns();
		madvise(page, PAGE, MADV_DONTNEED);
		take(&device->figures[row], &start);
	}
	for (i = 0; i < num; i++)
		dereg(mr[i]);
	munmap(page, PAGE);
}

static void measure(struct device *device, const char *name)
{
	static const struct sort plain = { .kind = "", .of = "" };
	struct ibv_device_attr attr;
	enum row row;

	device->pair.pd = NULL;
	pair_open(&device->pair, open_nic(name, &attr), &pair_defaults);
	pair_connect(&device->pair);
	measure_writes(device);
	measure_big(device);
	take_away(device, TAKE_ALONE, 0, ROUNDS);
	take_away(device, TAKE_1, 1, ROUNDS);
	take_away(device, TAKE_MANY, MANY, FEW);
	for (row = 0; row < ROWS; row++)
		show(&device->figures[row], rows[row], &plain, name);
}

int main(int argc, char **argv)
{
	static struct device devices[2];
	int num = argc - 1, i;

	if (num < 1 || num > 2 || !strcmp(argv[1], "--help")) {
		fprintf(stderr, "usage: paging DEVICE [OTHER]\n");
		return 1;
	}
	big = map_pages(BIG);
	madvise(big, BIG, MADV_NOHUGEPAGE);
	fill(big, BIG, 1);
	for (i = 0; i < num; i++)
		measure(&devices[i], argv[i + 1]);
	return 0;
}
