// SPDX-License-Identifier: GPL-2.0
/*
 * ibv_reg_dmabuf_mr(): memory that another driver owns, here udmabuf (pages of a file,
 * in any order) and the system's heap (large pages).
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counts.h"
#include "given.h"
#include "tap.h"
#include "window.h"

#define PAGE	4096u
#define SIZE	(64 * PAGE)
#define IOVA	0x7000ff000000ull

/* A dma-buf, and this process's mapping of it. */
struct buffer {
	int fd;
	uint8_t *at;
};

static struct pair pair;
static struct ibv_device_attr attr;

static int open_udmabuf(void)
{
	return udmabuf_make(SIZE);
}

static int open_heap(void)
{
	return heap_make(SIZE);
}

static struct buffer see(int fd)
{
	struct buffer b = { .fd = fd };

	if (fd < 0)
		tap_bail("no dma-buf: %s", strerror(errno));
	b.at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (b.at == MAP_FAILED)
		tap_bail("mmap of a dma-buf: %s", strerror(errno));
	return b;
}

static void put(struct buffer *b)
{
	munmap(b->at, SIZE);
	close(b->fd);
}

static struct ibv_mr *reg(int fd, uint64_t offset, size_t length, uint64_t iova,
			  int access)
{
	errno = 0;
	return ibv_reg_dmabuf_mr(pair.pd, offset, length, iova, fd, access);
}

static struct ibv_mr *must(int fd, uint64_t offset, size_t length, uint64_t iova)
{
	struct ibv_mr *mr = reg(fd, offset, length, iova, ALL_ACCESS);

	if (!mr)
		tap_bail("ibv_reg_dmabuf_mr: %s", strerror(errno));
	return mr;
}

static bool moved(enum ibv_wr_opcode opcode, uint32_t lkey, uint8_t *local,
		  uint32_t rkey, uint64_t remote, uint32_t length)
{
	struct request request = {
		.opcode = opcode, .wr_id = 7, .local = local, .length = length,
		.lkey = lkey, .rkey = rkey, .remote = remote, .compare_add = 5,
	};
	struct ibv_wc wc;

	return !post(&pair.a, &request) && wait_wc(pair.a.send_cq, &wc) &&
	       wc.status == IBV_WC_SUCCESS;
}

/* A range of a dma-buf, at either end of a message. */
static void test_range(struct buffer *b, uint64_t offset, uint32_t length,
		       uint64_t iova, const char *what)
{
	struct ibv_mr *mr = must(b->fd, offset, length, iova);

	memset(b->at, 0xee, SIZE);
	fill(pair.a.buf, length, 1);
	tap_ok(moved(IBV_WR_RDMA_WRITE, pair.a.mr->lkey, pair.a.buf, mr->rkey,
		     iova, length) && is_filled(b->at + offset, length, 1) &&
	       (!offset || b->at[offset - 1] == 0xee) &&
	       (offset + length == SIZE || b->at[offset + length] == 0xee),
	       "%s: WRITE into it", what);
	fill(b->at + offset, length, 2);
	tap_ok(moved(IBV_WR_RDMA_READ, pair.a.mr->lkey, pair.a.buf, mr->rkey,
		     iova, length) && is_filled(pair.a.buf, length, 2),
	       "%s: READ from it", what);
	fill(b->at + offset, length, 3);
	tap_ok(moved(IBV_WR_RDMA_WRITE, mr->lkey, (uint8_t *)(uintptr_t)iova,
		     pair.b.mr->rkey, (uintptr_t)pair.b.buf, length) &&
	       is_filled(pair.b.buf, length, 3), "%s: WRITE out of it", what);
	fill(pair.b.buf, length, 4);
	tap_ok(moved(IBV_WR_RDMA_READ, mr->lkey, (uint8_t *)(uintptr_t)iova,
		     pair.b.mr->rkey, (uintptr_t)pair.b.buf, length) &&
	       is_filled(b->at + offset, length, 4), "%s: READ into it", what);
	tap_ok(!moved(IBV_WR_RDMA_WRITE, pair.a.mr->lkey, pair.a.buf, mr->rkey,
		      iova + 1, length), "%s: and not a byte beyond", what);
	revive(&pair);
	tap_is(ibv_dereg_mr(mr), 0, "%s: deregistered", what);
}

static void test_atomic(struct buffer *b)
{
	struct ibv_mr *mr = must(b->fd, PAGE, PAGE, IOVA);
	uint64_t *counter = (uint64_t *)(b->at + PAGE + 8);

	*counter = 37;
	tap_ok(moved(IBV_WR_ATOMIC_FETCH_AND_ADD, pair.a.mr->lkey, pair.a.buf,
		     mr->rkey, IOVA + 8, 8) && *counter == 42 &&
	       *(uint64_t *)pair.a.buf == 37, "an atomic");
	tap_is(ibv_dereg_mr(mr), 0, "deregistered");
}

static void test_wrong(struct buffer *b)
{
	int file = memfd_create("no dma-buf", 0);
	struct ibv_mr *mr;

	tap_ok(!reg(-1, 0, PAGE, 0, ALL_ACCESS) && errno == EBADF,
	       "no file: EBADF");
	tap_ok(!reg(file, 0, PAGE, 0, ALL_ACCESS) && errno == EINVAL,
	       "no dma-buf: EINVAL");
	close(file);
	tap_ok(!reg(b->fd, 0, SIZE + 1, 0, ALL_ACCESS) && errno == EFAULT,
	       "longer than it is: EFAULT");
	tap_ok(!reg(b->fd, SIZE, PAGE, 0, ALL_ACCESS) && errno == EFAULT,
	       "behind it: EFAULT");
	tap_ok(!reg(b->fd, UINT64_MAX - PAGE + 1, PAGE, 0, ALL_ACCESS) &&
	       errno == EFAULT, "at the end of the world: EFAULT");
	tap_ok(!reg(b->fd, 0, 0, 0, ALL_ACCESS) && errno == EINVAL,
	       "nothing: EINVAL");
	tap_ok(!reg(b->fd, 0, PAGE, UINT64_MAX - PAGE + 2, ALL_ACCESS) &&
	       errno == EINVAL, "an iova that wraps: EINVAL");
	tap_ok(!reg(b->fd, 1, PAGE, 0, ALL_ACCESS) && errno == EINVAL,
	       "an iova that is not congruent: EINVAL");
	tap_ok(!reg(b->fd, 0, PAGE, 0, IBV_ACCESS_REMOTE_WRITE) &&
	       errno == EINVAL, "REMOTE_WRITE without LOCAL_WRITE: EINVAL");
	tap_ok(!reg(b->fd, 0, PAGE, 0, ALL_ACCESS | IBV_ACCESS_MW_BIND) &&
	       errno, "MW_BIND: refused, %s", strerror(errno));
	tap_ok(!reg(b->fd, 0, PAGE, 0, ALL_ACCESS | IBV_ACCESS_ON_DEMAND) &&
	       errno, "ON_DEMAND: refused, %s", strerror(errno));
	mr = reg(b->fd, 0, PAGE, IOVA, 0);
	tap_ok(mr && !moved(IBV_WR_RDMA_READ, mr->lkey,
			    (uint8_t *)(uintptr_t)IOVA, pair.b.mr->rkey,
			    (uintptr_t)pair.b.buf, 8),
	       "without rights nothing is written there");
	revive(&pair);
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    ALL_ACCESS), IBV_REREG_MR_ERR_INPUT,
	       "such an MR cannot be registered anew");
	tap_ok(mr && !ibv_dereg_mr(mr), "deregistered");
}

/* The MR outlives the buffer's descriptor, and goes with its process. */
static void test_exit(int (*open_buffer)(void))
{
	struct buffer b = see(open_buffer());
	struct ibv_mr *mr = must(b.fd, 0, SIZE, IOVA);
	pid_t child;
	int status;

	close(b.fd);
	fill(pair.a.buf, 100, 7);
	tap_ok(moved(IBV_WR_RDMA_WRITE, pair.a.mr->lkey, pair.a.buf, mr->rkey,
		     IOVA, 100) && is_filled(b.at, 100, 7),
	       "it stays registered when its file is closed");
	tap_is(ibv_dereg_mr(mr), 0, "deregistered");
	munmap(b.at, SIZE);

	child = fork();
	if (!child) {
		struct ibv_context *ctx = open_nic(NULL, &attr);
		struct ibv_pd *pd = ibv_alloc_pd(ctx);
		int fd = open_buffer();

		_exit(!pd || !ibv_reg_dmabuf_mr(pd, 0, SIZE, 0, fd, ALL_ACCESS));
	}
	tap_ok(waitpid(child, &status, 0) == child && !status,
	       "a process ends with one registered");
}

static void test_buffer(const char *device, int (*open_buffer)(void))
{
	struct buffer b;

	if (access(device, R_OK | W_OK)) {
		tap_skip("the kernel has no such device", "memory of %s", device);
		return;
	}
	b = see(open_buffer());
	tap_diag("%s", device);
	test_range(&b, 0, PAGE, 0, "the first page, at iova 0");
	test_range(&b, 0, SIZE, IOVA, "all of it");
	test_range(&b, 3 * PAGE, 5 * PAGE, IOVA, "some pages");
	test_range(&b, 3 * PAGE + 7, 2 * PAGE + 1, IOVA + 7, "odd bytes");
	test_range(&b, SIZE - 1, 1, IOVA + PAGE - 1, "the last byte");
	test_atomic(&b);
	test_wrong(&b);
	put(&b);
	test_exit(open_buffer);
}

int main(void)
{
	struct pair_config config = pair_defaults;
	long pinned = pinned_pages();

	config.buffer_size = SIZE;
	pair_open(&pair, open_nic(NULL, &attr), &config);
	pair_connect(&pair);
	test_buffer(GIVEN_UDMABUF, open_udmabuf);
	test_buffer(GIVEN_HEAP, open_heap);
	pair_close(&pair);
	expect_nothing_left(pinned);
	return tap_done();
}
