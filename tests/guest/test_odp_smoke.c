// SPDX-License-Identifier: GPL-2.0
/* On-demand paging at work: each operation on memory that nothing has touched. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pair.h"
#include "tap.h"

#define SIZE	(4 << 20)
#define ODP	(ALL_ACCESS | IBV_ACCESS_ON_DEMAND)

static uint8_t *map(size_t size)
{
	uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);

	if (p == MAP_FAILED)
		abort();
	return p;
}

static void go(struct pair *pair, enum ibv_wr_opcode opcode, uint8_t *local,
	       uint32_t lkey, uint8_t *remote, uint32_t rkey, uint32_t length,
	       enum ibv_wc_status due, const char *what)
{
	struct request request = {
		.opcode = opcode, .wr_id = 1, .local = local, .lkey = lkey,
		.length = length, .remote = (uintptr_t)remote, .rkey = rkey,
		.compare_add = 1,
	};
	struct ibv_wc wc;

	if (post(&pair->a, &request))
		abort();
	expect_wc(pair->a.send_cq, 1, due, &wc, what);
}

static void run(struct ibv_context *ctx, struct ibv_pd *pd, bool implicit)
{
	struct pair pair = { .pd = pd };
	uint8_t *src = map(SIZE), *dst = map(SIZE);
	struct ibv_mr *s, *d;
	int i;

	if (implicit) {
		s = ibv_reg_mr(pd, NULL, SIZE_MAX, ODP);
		d = s;
	} else {
		s = ibv_reg_mr(pd, src, SIZE, ODP);
		d = ibv_reg_mr(pd, dst, SIZE, ODP);
	}
	if (!tap_ok(s && d, "registered, implicit %d: %s", implicit, strerror(errno)))
		return;
	pair_open(&pair, ctx, &pair_defaults);
	pair_connect(&pair);
	memset(src, 0x5a, SIZE);
	go(&pair, IBV_WR_RDMA_WRITE, src, s->lkey, dst, d->rkey, SIZE,
	   IBV_WC_SUCCESS, "WRITE of 4 MiB");
	tap_ok(!memcmp(src, dst, SIZE), "data");
	madvise(dst, SIZE, MADV_DONTNEED);
	go(&pair, IBV_WR_RDMA_READ, dst, d->lkey, src, s->rkey, SIZE,
	   IBV_WC_SUCCESS, "READ of 4 MiB");
	tap_ok(!memcmp(src, dst, SIZE), "data");
	madvise(dst, SIZE, MADV_DONTNEED);
	go(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, src, s->lkey, dst, d->rkey, 8,
	   IBV_WC_SUCCESS, "atomic");
	tap_ok(*(uint64_t *)dst == 1, "data");
	for (i = 0; i < SIZE; i += 4096)
		src[i] = i >> 12;
	madvise(dst, SIZE, MADV_DONTNEED);
	for (i = 0; i < SIZE; i += 4096) {
		struct request request = {
			.opcode = IBV_WR_RDMA_WRITE, .wr_id = 1, .local = src + i,
			.lkey = s->lkey, .length = 4096,
			.remote = (uintptr_t)dst + i, .rkey = d->rkey,
		};
		struct ibv_wc wc;

		if (post(&pair.a, &request) || !wait_wc(pair.a.send_cq, &wc) ||
		    wc.status)
			break;
	}
	tap_ok(i == SIZE && !memcmp(src, dst, SIZE), "pages in a row");
	for (i = 0; i < 1000; i++) {
		struct request request = {
			.opcode = IBV_WR_RDMA_WRITE, .wr_id = 1, .local = src,
			.lkey = s->lkey, .length = 65536,
			.remote = (uintptr_t)dst, .rkey = d->rkey,
		};
		struct ibv_wc wc;

		src[i] = i;
		if (post(&pair.a, &request))
			break;
		madvise(dst, 65536, MADV_DONTNEED);
		if (!wait_wc(pair.a.send_cq, &wc) || wc.status)
			break;
	}
	tap_ok(i == 1000, "racing madvise: %d", i);
	munmap(dst, SIZE);
	go(&pair, IBV_WR_RDMA_WRITE, src, s->lkey, dst, d->rkey, 4096,
	   IBV_WC_REM_ACCESS_ERR, "unmapped");
	pair_close(&pair);
	tap_is(ibv_dereg_mr(s), 0, "dereg");
	if (d != s)
		tap_is(ibv_dereg_mr(d), 0, "dereg");
	munmap(src, SIZE);
}

int main(void)
{
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(NULL, &attr);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);

	run(ctx, pd, false);
	run(ctx, pd, true);
	tap_is(ibv_dealloc_pd(pd), 0, "dealloc");
	ibv_close_device(ctx);
	return tap_done();
}
