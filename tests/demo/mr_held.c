// SPDX-License-Identifier: GPL-2.0
/*
 * What the manual pages of ibv_dereg_mr() and ibv_reg_mr() leave open, for people to
 * read: which windows hold a memory region that cannot be deregistered, what a null MR
 * does, and why a registration failed.
 *
 * Exit status: 0 when every step went as it should.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <moordv.h>

#include "window.h"

#define SIZE	4096u
#define HOLE	(16 * SIZE)

static struct pair pair;

static void check(bool good, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs(good ? "  " : "  FAILED: ", stdout);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	if (!good)
		exit(1);
}

static void show_holder(void)
{
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf, SIZE, BINDABLE);
	struct ibv_mw *mw = must_alloc_mw(pair.pd, IBV_MW_TYPE_2);
	struct moor_window window;
	uint32_t bound;
	int ret;

	must_bind(&apis[0], &pair.b, mw, mr, (uintptr_t)pair.b.buf, 512,
		  IBV_ACCESS_REMOTE_WRITE);
	ret = ibv_dereg_mr(mr);
	check(ret == EBUSY, "ibv_dereg_mr        \"%s\": a window is bound to it",
	      strerror(ret));
	ret = moordv_query_windows(mr, &window, 1, &bound);
	check(ret == 1 && bound == 1 && window.rkey == mw->rkey,
	      "who holds it        %u window: rkey 0x%08x, type %u, %" PRIu64
	      " bytes, QP 0x%06x of process %d%s", bound, window.rkey,
	      window.type, (uint64_t)window.length, window.qpn, window.pid,
	      window.pid == getpid() ? " (this one)" : "");
	check(!ask(&pair, IBV_WR_RDMA_WRITE, mw->rkey, (uintptr_t)pair.b.buf,
		   512).status, "RDMA WRITE          through the window: works as before");
	check(!invalidate(&apis[0], &pair.b, mw->rkey).status,
	      "IBV_WR_LOCAL_INV    the window is unbound");
	ret = ibv_dereg_mr(mr);
	check(!ret, "ibv_dereg_mr        %d", ret);
	ibv_dealloc_mw(mw);
}

/* An RDMA operation between @local, under @lkey, and side b's buffer. */
static enum ibv_wc_status transfer(enum ibv_wr_opcode opcode, void *local,
				   uint32_t lkey)
{
	const struct request request = {
		.opcode = opcode, .wr_id = 1, .local = local, .length = SIZE,
		.lkey = lkey, .remote = (uintptr_t)pair.b.buf,
		.rkey = pair.b.mr->rkey,
	};

	return finish(&pair.a, post(&pair.a, &request)).status;
}

static void show_null_mr(void)
{
	struct ibv_mr *null = ibv_alloc_null_mr(pair.pd);
	enum ibv_wc_status status;
	size_t zeros = 0;

	check(null, "ibv_alloc_null_mr   lkey 0x%08x", null ? null->lkey : 0);
	fill(pair.a.buf, SIZE, 1);
	fill(pair.b.buf, SIZE, 2);
	status = transfer(IBV_WR_RDMA_READ, pair.a.buf, null->lkey);
	check(!status && is_filled(pair.a.buf, SIZE, 1),
	      "RDMA READ           into it: %s, and no byte of memory changed",
	      ibv_wc_status_str(status));
	status = transfer(IBV_WR_RDMA_WRITE, pair.a.buf, null->lkey);
	while (zeros < SIZE && !pair.b.buf[zeros])
		zeros++;
	check(!status && zeros == SIZE,
	      "RDMA WRITE          from it: %s, %zu zeros arrived",
	      ibv_wc_status_str(status), zeros);
	ibv_dereg_mr(null);
}

static void show_refusal(void)
{
	uint8_t *memory = mmap(NULL, 2 * HOLE, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct moor_refusal why;
	struct ibv_mr *mr;
	int err;

	munmap(memory + HOLE, SIZE);
	mr = ibv_reg_mr(pair.pd, memory, 2 * HOLE, IBV_ACCESS_LOCAL_WRITE);
	err = errno;
	check(!mr && err == EFAULT, "ibv_reg_mr          \"%s\"", strerror(err));
	err = moordv_last_refusal(pair.ctx, &why);
	check(!err && why.reason == MOOR_REFUSAL_PAGE &&
	      why.value == (uintptr_t)memory + HOLE,
	      "why                 the page at 0x%" PRIx64 ", %" PRIu64
	      " KiB into the buffer, cannot be pinned", (uint64_t)why.value,
	      (uint64_t)(why.value - why.start) / 1024);
	munmap(memory, 2 * HOLE);
}

int main(int argc, char **argv)
{
	struct ibv_device_attr attr;

	if (argc != 2) {
		fprintf(stderr, "usage: %s DEVICE    who holds an MR, and other questions\n",
			argv[0]);
		return 2;
	}
	pair_open(&pair, open_nic(argv[1], &attr), &pair_defaults);
	pair_connect(&pair);
	show_holder();
	show_null_mr();
	show_refusal();
	pair_close(&pair);
	return 0;
}
