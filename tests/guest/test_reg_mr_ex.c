// SPDX-License-Identifier: GPL-2.0
/*
 * ibv_reg_mr_ex() and ibv_alloc_buf(), which newer versions of libibverbs have (rdma-core
 * 65.0) and make of what the provider has: each set of fields, and what is refused. With an
 * older library there is nothing to test; rdma_core_unstable.t runs this with a newer one.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "owner.h"
#include "paged.h"
#include "tap.h"
#include "window.h"

#define SIZE	8192u
#define IOVA	0x123450000ull

/* As newer versions of verbs.h have it. */
struct asked {
	size_t length;
	int access;
	uint64_t fields;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	void *buf;
};

enum {
	HAS_IOVA = 1, HAS_ADDR = 2, HAS_FD = 4, HAS_FD_OFFSET = 8, HAS_DMAH = 16, HAS_BUF = 32,
	HAS_UNKNOWN = 64,
};

static struct pair pair;
static uint8_t *memory;
static struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *pd, struct asked *asked);
static void *(*alloc_buf)(struct ibv_pd *pd, size_t size, void **buf);
static void (*free_buf)(void *buf);
static struct ibv_mr *(*reg_buf_mr)(struct ibv_pd *pd, void *buf, void *addr, size_t length,
				    int access);

/* Returns whether this library has the calls. */
static bool find_calls(void)
{
	*(void **)&reg_mr_ex = dlsym(RTLD_DEFAULT, "ibv_reg_mr_ex");
	*(void **)&alloc_buf = dlsym(RTLD_DEFAULT, "ibv_alloc_buf");
	*(void **)&free_buf = dlsym(RTLD_DEFAULT, "ibv_free_buf");
	*(void **)&reg_buf_mr = dlsym(RTLD_DEFAULT, "ibv_reg_buf_mr");
	return reg_mr_ex && alloc_buf && free_buf && reg_buf_mr;
}

static struct asked ask_for(uint64_t fields, int access)
{
	return (struct asked){
		.length = SIZE, .access = access, .fields = fields, .addr = memory,
		.iova = IOVA, .fd = -1,
	};
}

/* The MR is there: its data goes to @to, by the address @at. */
static void expect_mr(struct ibv_mr *mr, uint64_t at, const uint8_t *to, const char *name)
{
	static uint8_t seed;

	if (!tap_ok(mr && mr->pd == pair.pd && mr->context == pair.ctx, "%s", name)) {
		tap_diag("%s", strerror(errno));
		return;
	}
	fill(pair.a.buf, SIZE, ++seed);
	tap_ok(!ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, at, SIZE).status &&
	       is_filled(to, SIZE, seed), "%s: data", name);
	tap_is(ibv_dereg_mr(mr), 0, "%s: dereg", name);
}

static void expect_refusal(struct asked asked, int err, const char *name)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = reg_mr_ex(pair.pd, &asked);
	if (!tap_ok(!mr && errno == err, "%s: %s", name, strerror(err)))
		tap_diag("%s", mr ? "registered" : strerror(errno));
	if (mr)
		ibv_dereg_mr(mr);
}

static void test_memory(void)
{
	struct asked asked = ask_for(HAS_ADDR, ALL_ACCESS);
	struct ibv_mr *mr = reg_mr_ex(pair.pd, &asked);

	tap_ok(mr && mr->addr == memory && mr->length == SIZE, "by address: its fields");
	expect_mr(mr, (uintptr_t)memory, memory, "by address");
	asked = ask_for(HAS_ADDR | HAS_IOVA, ALL_ACCESS);
	expect_mr(reg_mr_ex(pair.pd, &asked), IOVA, memory, "with an iova");
	asked.iova = 0;
	expect_mr(reg_mr_ex(pair.pd, &asked), 0, memory, "with iova 0");
	asked = ask_for(HAS_ADDR, ALL_ACCESS | IBV_ACCESS_ZERO_BASED);
	expect_mr(reg_mr_ex(pair.pd, &asked), 0, memory, "zero-based");
	asked = ask_for(HAS_ADDR, ON_DEMAND);
	expect_mr(reg_mr_ex(pair.pd, &asked), (uintptr_t)memory, memory, "on demand");
	asked.addr = NULL;
	asked.length = SIZE_MAX;
	expect_mr(reg_mr_ex(pair.pd, &asked), (uintptr_t)memory, memory, "implicit");
	/* Bits of the optional range that no kernel knows are dropped. */
	asked = ask_for(HAS_ADDR, ALL_ACCESS | IBV_ACCESS_RELAXED_ORDERING | 1 << 29);
	expect_mr(reg_mr_ex(pair.pd, &asked), (uintptr_t)memory, memory, "optional flags");
}

static void test_dmabuf(void)
{
	struct asked asked = ask_for(HAS_FD | HAS_FD_OFFSET | HAS_IOVA, ALL_ACCESS);
	struct buffer buffer;

	owner_open();
	buffer = buffer_make();
	asked.fd = buffer.fd;
	asked.fd_offset = PAGE;
	expect_mr(reg_mr_ex(pair.pd, &asked), IOVA, buffer.at + PAGE, "dma-buf");
	asked.fields |= HAS_ADDR;
	expect_refusal(asked, EINVAL, "dma-buf and address");
	asked.fields = HAS_FD | HAS_FD_OFFSET;
	expect_refusal(asked, EINVAL, "dma-buf without iova");
	asked.fields = HAS_FD | HAS_IOVA;
	expect_refusal(asked, EINVAL, "dma-buf without offset");
	asked.fields = HAS_FD | HAS_FD_OFFSET | HAS_IOVA;
	asked.fd_offset = BUFFER_SIZE;
	expect_refusal(asked, EFAULT, "beyond the dma-buf");
	buffer_put(&buffer);
	owner_close();
}

static void test_refusals(void)
{
	struct asked asked = ask_for(HAS_ADDR, IBV_ACCESS_REMOTE_WRITE);

	expect_refusal(asked, EINVAL, "remote write without local write");
	asked = ask_for(0, ALL_ACCESS);
	expect_refusal(asked, EINVAL, "neither address nor dma-buf");
	asked.fields = HAS_ADDR | HAS_FD_OFFSET;
	expect_refusal(asked, EINVAL, "address and the offset of a dma-buf");
	asked.fields = HAS_ADDR | HAS_DMAH;
	expect_refusal(asked, EOPNOTSUPP, "DMA handle");
	asked.fields = HAS_ADDR | HAS_UNKNOWN;
	expect_refusal(asked, EOPNOTSUPP, "unknown field");
	asked = ask_for(HAS_ADDR, ALL_ACCESS);
	asked.length = 0;
	expect_refusal(asked, EINVAL, "no length");
}

/* Memory that the library allocates for registrations. */
static void test_buffer(void)
{
	struct asked asked = ask_for(HAS_ADDR | HAS_BUF, ALL_ACCESS);
	struct ibv_pd *other = ibv_alloc_pd(pair.ctx);
	void *buf = NULL;
	uint8_t *at = alloc_buf(pair.pd, 2 * SIZE, &buf);

	if (!tap_ok(at && buf && other, "ibv_alloc_buf"))
		return;
	expect_mr(reg_buf_mr(pair.pd, buf, at, SIZE, ALL_ACCESS), (uintptr_t)at, at,
		  "ibv_reg_buf_mr");
	asked.buf = buf;
	asked.addr = at + SIZE;
	expect_mr(reg_mr_ex(pair.pd, &asked), (uintptr_t)at + SIZE, at + SIZE, "a part of it");
	asked.addr = at + SIZE + 1;
	expect_refusal(asked, EINVAL, "beyond its end");
	asked.fields = HAS_BUF;
	asked.addr = at;
	expect_refusal(asked, EINVAL, "without an address");
	errno = 0;
	tap_ok(!reg_buf_mr(other, buf, at, SIZE, ALL_ACCESS) && errno == EINVAL,
	       "of another domain: EINVAL");
	free_buf(buf);
	ibv_dealloc_pd(other);
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;

	if (!find_calls()) {
		tap_skip("this libibverbs has no ibv_reg_mr_ex()", "ibv_reg_mr_ex");
		return tap_done();
	}
	memory = aligned_alloc(4096, SIZE);
	if (!memory)
		tap_bail("no memory");
	memset(memory, 0, SIZE);
	pair_open(&pair, open_nic(argc > 1 ? argv[1] : NULL, &attr), &config);
	pair_connect(&pair);
	test_memory();
	test_dmabuf();
	test_refusals();
	test_buffer();
	pair_close(&pair);
	ibv_close_device(pair.ctx);
	return tap_done();
}
