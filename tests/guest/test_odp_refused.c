// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that cannot be had end in a completion with an error, not in a wait. And wrong
 * calls, with their errnos.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "message.h"
#include "paged.h"
#include "tap.h"
#include "window.h"

#define SIZE	(8 * PAGE)
#define HALF	(4 * PAGE)	/* from here on no page can be had */
#define LENGTH	(3 * PAGE)

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct pair pair;

/* Reasons why a page cannot be had. */
enum hole { UNMAPPED, NO_ACCESS, NOT_WRITABLE, BEYOND_FILE, HOLES };

static const char *const holes[HOLES] = {
	"unmapped", "PROT_NONE", "read-only", "beyond the file's end",
};

/* Maps memory of which the first half is usable and the second is not. */
static uint8_t *make_hole(enum hole hole)
{
	uint8_t *at = map_pages(SIZE);
	int fd;

	if (hole == UNMAPPED)
		munmap(at + HALF, SIZE - HALF);
	if (hole == NO_ACCESS)
		mprotect(at + HALF, SIZE - HALF, PROT_NONE);
	if (hole == NOT_WRITABLE)
		mprotect(at + HALF, SIZE - HALF, PROT_READ);
	if (hole != BEYOND_FILE)
		return at;
	munmap(at, SIZE);
	fd = memfd_create("short", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, HALF))
		tap_bail("memfd: %s", strerror(errno));
	at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	close(fd);
	return at;
}

static void expect_end(enum ibv_wr_opcode opcode, uint8_t *local, uint32_t lkey,
		       uint8_t *remote, uint32_t rkey, enum ibv_wc_status due,
		       const char *what, const char *where, const char *hole)
{
	struct request request = {
		.opcode = opcode, .wr_id = 9, .local = local, .lkey = lkey,
		.length = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : LENGTH,
		.remote = (uintptr_t)remote, .rkey = rkey, .compare_add = 1,
	};
	struct outcome o;

	o = finish(&pair.a, post(&pair.a, &request));
	if (!tap_ok(!o.posted && o.status == due, "%s, %s %s", what, where, hole))
		tap_diag("%s (%u), wanted %s", ibv_wc_status_str(o.status),
			 o.syndrome, ibv_wc_status_str(due));
	if (!due)
		return;
	tap_is(query_state(&pair.a), IBV_QPS_ERR, "%s, %s %s: the QP is in ERR",
	       what, where, hole);
	revive(&pair);
}

/*
 * Accesses wholly and half in the hole. Where pages are read-only, reading them works.
 */
static void test_hole(enum hole hole, bool implicit)
{
	uint8_t *bad = make_hole(hole), *good = map_pages(SIZE);
	struct ibv_mr *mr = implicit ? must_reg(pd, NULL, SIZE_MAX, ON_DEMAND) :
				       must_reg(pd, bad, SIZE, ON_DEMAND);
	struct ibv_mr *other = must_reg(pd, good, SIZE, ON_DEMAND);
	enum ibv_wc_status here = IBV_WC_LOC_PROT_ERR, there = IBV_WC_REM_ACCESS_ERR;
	bool readable = hole == NOT_WRITABLE;
	uint32_t at;

	fill(good, SIZE, 7);
	for (at = HALF; at >= HALF - PAGE; at -= PAGE) {
		const char *where = at == HALF ? "wholly" : "partly";

		expect_end(IBV_WR_RDMA_WRITE, bad + at, mr->lkey, good, other->rkey,
			   readable ? IBV_WC_SUCCESS : here, "WRITE from", where,
			   holes[hole]);
		expect_end(IBV_WR_RDMA_WRITE, good, other->lkey, bad + at, mr->rkey,
			   there, "WRITE to", where, holes[hole]);
		expect_end(IBV_WR_RDMA_READ, good, other->lkey, bad + at, mr->rkey,
			   readable ? IBV_WC_SUCCESS : there, "READ from", where,
			   holes[hole]);
		expect_end(IBV_WR_RDMA_READ, bad + at, mr->lkey, good, other->rkey,
			   here, "READ to", where, holes[hole]);
	}
	expect_end(IBV_WR_ATOMIC_FETCH_AND_ADD, good, other->lkey, bad + HALF,
		   mr->rkey, there, "atomic at", "wholly", holes[hole]);
	expect_end(IBV_WR_ATOMIC_FETCH_AND_ADD, bad + HALF, mr->lkey, good,
		   other->rkey, here, "answer of an atomic to", "wholly", holes[hole]);
	/* The pages beside the hole are still usable. */
	fill(good, SIZE, 7);
	expect_end(IBV_WR_RDMA_WRITE, good, other->lkey, bad + PAGE, mr->rkey,
		   IBV_WC_SUCCESS, "WRITE beside", "what is", holes[hole]);
	tap_ok(is_filled(bad + PAGE, LENGTH, 7), "data beside what is %s", holes[hole]);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(other);
	munmap(bad, SIZE);
	munmap(good, SIZE);
}

/* A receive into the hole: both the receiver and the sender get an error. */
static void test_receive(enum hole hole)
{
	uint8_t *bad = make_hole(hole);
	struct ibv_mr *mr = must_reg(pd, bad, SIZE, ON_DEMAND);
	struct request request = {
		.opcode = IBV_WR_SEND, .wr_id = 9, .local = pair.a.buf,
		.lkey = pair.a.mr->lkey, .length = LENGTH,
	};
	struct outcome o;
	struct ibv_wc wc;

	if (post_receive(&pair.b, 4, bad + HALF, LENGTH, mr->lkey))
		tap_bail("posting");
	o = finish(&pair.a, post(&pair.a, &request));
	tap_ok(!o.posted && o.status == IBV_WC_REM_OP_ERR, "receive into %s: sender",
	       holes[hole]);
	expect_wc(pair.b.recv_cq, 4, IBV_WC_LOC_PROT_ERR, &wc, "receive into what is not");
	tap_is(query_state(&pair.b), IBV_QPS_ERR, "receive into %s: the QP is in ERR",
	       holes[hole]);
	revive(&pair);
	ibv_dereg_mr(mr);
	munmap(bad, SIZE);
}

/* Memory that is unmapped and mapped again becomes usable again. */
static void test_comes_back(void)
{
	uint8_t *at = map_pages(SIZE);
	struct ibv_mr *mr = must_reg(pd, at, SIZE, ON_DEMAND);

	fill(pair.a.buf, SIZE, 1);
	tap_is(ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, (uintptr_t)at, SIZE).status,
	       IBV_WC_SUCCESS, "mapped");
	tap_ok(is_filled(at, SIZE, 1), "mapped: data");
	munmap(at, SIZE);
	tap_is(ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, (uintptr_t)at, SIZE).status,
	       IBV_WC_REM_ACCESS_ERR, "unmapped");
	revive(&pair);
	if (mmap(at, SIZE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at)
		tap_bail("mmap: %s", strerror(errno));
	fill(pair.a.buf, SIZE, 2);
	tap_is(ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, (uintptr_t)at, SIZE).status,
	       IBV_WC_SUCCESS, "mapped again");
	tap_ok(is_filled(at, SIZE, 2), "mapped again: data");
	ibv_dereg_mr(mr);
	munmap(at, SIZE);
}

/* ---- wrong calls ---- */

#define BRANCHES	(4ul << 20)	/* two branches of the table */

static void refuse(const char *what, void *at, size_t length, uint64_t iova,
		   unsigned int access, int due)
{
	struct ibv_mr *mr = ibv_reg_mr_iova(pd, at, length, iova, access);

	tap_is(mr ? 0 : errno, due, "%s", what);
	if (mr)
		ibv_dereg_mr(mr);
}

/* A re-registration that is refused changes nothing. */
static void test_rereg_too_long(uint8_t *at)
{
	struct ibv_mr *mr = must_reg(pd, at, SIZE, ON_DEMAND);

	errno = 0;
	tap_ok(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)PAGE,
			    1ul << 58, 0) && errno == EFAULT, "re-registered with 2^58 bytes");
	tap_is(ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, (uintptr_t)at, SIZE).status,
	       IBV_WC_SUCCESS, "what it was it is yet");
	tap_is(ibv_dereg_mr(mr), 0, "and can go");
}

static void test_errnos(void)
{
	static const size_t short_of_end[] = { 0, 1, PAGE, 2 * PAGE };
	uint8_t *at = map_pages(SIZE);
	uint64_t addr = (uintptr_t)at;
	unsigned int i;

	refuse("remote write without local write", at, SIZE, addr,
	       IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_WRITE, EINVAL);
	refuse("of no length", at, 0, addr, ON_DEMAND, EINVAL);
	refuse("behind the end of all addresses", (void *)-PAGE, SIZE, -(uint64_t)PAGE,
	       ON_DEMAND, EINVAL);
	refuse("address not congruent", at, SIZE, addr + 1, ON_DEMAND, EINVAL);
	refuse("huge pages without paging", at, SIZE, addr,
	       ALL_ACCESS | IBV_ACCESS_HUGETLB, EOPNOTSUPP);
	refuse("implicit from another address", NULL, SIZE_MAX, PAGE, ON_DEMAND, EINVAL);
	refuse("implicit of huge pages", NULL, SIZE_MAX, 0,
	       ON_DEMAND | IBV_ACCESS_HUGETLB, EINVAL);
	refuse("implicit without paging", NULL, SIZE_MAX, 0, ALL_ACCESS, EINVAL);
	refuse("as it should be", at, SIZE, addr, ON_DEMAND, 0);
	refuse("implicit, as it should be", NULL, SIZE_MAX, 0, ON_DEMAND, 0);
	/*
	 * Addresses that no process can have; near the end of all addresses no sum may
	 * wrap.
	 */
	refuse("2^63 bytes", (void *)PAGE, 1ull << 63, PAGE, ON_DEMAND, EFAULT);
	refuse("2^58 bytes", (void *)PAGE, 1ull << 58, PAGE, ON_DEMAND, EFAULT);
	refuse("from here to 2^57", at, (1ull << 57) - addr, addr, ON_DEMAND, EFAULT);
	for (i = 0; i < sizeof(short_of_end) / sizeof(*short_of_end); i++)
		refuse("the last addresses there are", (void *)-BRANCHES,
		       BRANCHES - short_of_end[i], -BRANCHES, ON_DEMAND, EFAULT);
	refuse("the kernel's memory", (void *)(0xffffull << 48), SIZE, 0xffffull << 48,
	       ON_DEMAND, EFAULT);
	refuse("nearly all that a process can have", (void *)PAGE, (1ull << 47) - 2 * PAGE,
	       PAGE, ON_DEMAND, 0);
	test_rereg_too_long(at);
	munmap(at, SIZE);
	/* Pages are not looked up before they are used. */
	refuse("what is not mapped", at, SIZE, addr, ON_DEMAND, 0);
}

/* The bounds of a paged MR hold like those of any other. */
static void test_bounds(void)
{
	uint8_t *at = map_pages(SIZE);
	struct ibv_mr *mr = must_reg(pd, at + PAGE + 5, PAGE, ON_DEMAND);
	uint64_t first = (uintptr_t)at + PAGE + 5;
	struct ibv_mr *reads = must_reg(pd, at, SIZE, IBV_ACCESS_REMOTE_READ |
					IBV_ACCESS_ON_DEMAND);

	tap_is(ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, first, PAGE).status,
	       IBV_WC_SUCCESS, "all of an MR");
	tap_is(ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, first, PAGE + 1).status,
	       IBV_WC_REM_ACCESS_ERR, "a byte more");
	revive(&pair);
	tap_is(ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, first - 1, 2).status,
	       IBV_WC_REM_ACCESS_ERR, "a byte before");
	revive(&pair);
	tap_is(ask(&pair, IBV_WR_RDMA_WRITE, reads->rkey, (uintptr_t)at, 8).status,
	       IBV_WC_REM_ACCESS_ERR, "without the right");
	revive(&pair);
	tap_ok(!at[PAGE + 4] && !at[2 * PAGE + 5], "nothing beside it is written");
	ibv_dereg_mr(mr);
	ibv_dereg_mr(reads);
	munmap(at, SIZE);
}

int main(void)
{
	struct ibv_device_attr attr;
	enum hole hole;

	ctx = open_nic(NULL, &attr);
	pair.pd = ibv_alloc_pd(ctx);
	pd = pair.pd;
	pair_open(&pair, ctx, &pair_defaults);
	pair_connect(&pair);
	for (hole = 0; hole < HOLES; hole++) {
		test_hole(hole, false);
		test_hole(hole, true);
		test_receive(hole);
	}
	test_comes_back();
	test_bounds();
	test_errnos();
	pair_close(&pair);
	tap_is(ibv_dealloc_pd(pd), 0, "nothing holds the PD");
	ibv_close_device(ctx);
	return tap_done();
}
