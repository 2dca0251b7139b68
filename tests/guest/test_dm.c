// SPDX-License-Identifier: GPL-2.0
/*
 * On-NIC memory (HWI 7.3): allocation, copying, registration, traffic into and out of
 * it, and that no process sees another one's old data.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"
#include "window.h"

#define PAGE	4096u
#define LENGTH	10000u		/* not a whole number of pages */
#define RIGHTS	(IBV_ACCESS_ZERO_BASED | ALL_ACCESS)

static struct pair pair;
static uint64_t max_size;
static uint8_t copy[LENGTH + PAGE];

static struct ibv_dm *alloc(size_t length, uint32_t log_align)
{
	struct ibv_alloc_dm_attr attr = {
		.length = length, .log_align_req = log_align,
	};

	errno = 0;
	return ibv_alloc_dm(pair.ctx, &attr);
}

static struct ibv_dm *must_alloc(size_t length)
{
	struct ibv_dm *dm = alloc(length, 0);

	if (!dm)
		tap_bail("ibv_alloc_dm of %zu: %s", length, strerror(errno));
	return dm;
}

/* The CPU copies units of four bytes; @offset and @length may be any. */
static bool holds(struct ibv_dm *dm, size_t offset, size_t length, uint8_t seed)
{
	memset(copy, 0xee, sizeof(copy));
	return !ibv_memcpy_from_dm(copy, dm, 0, LENGTH) &&
	       is_filled(copy + offset, length, seed);
}

static bool store(struct ibv_dm *dm, size_t offset, size_t length, uint8_t seed)
{
	if (ibv_memcpy_from_dm(copy, dm, 0, LENGTH))
		return false;
	fill(copy + offset, length, seed);
	return !ibv_memcpy_to_dm(dm, 0, copy, LENGTH);
}

static bool is_zero(struct ibv_dm *dm, size_t length)
{
	size_t i;

	memset(copy, 0xee, length);
	if (ibv_memcpy_from_dm(copy, dm, 0, length))
		return false;
	for (i = 0; i < length; i++)
		if (copy[i])
			return false;
	return true;
}

static void test_limits(void)
{
	struct ibv_dm *dm;

	dm = alloc(max_size, 0);
	tap_ok(dm, "all of it: %llu bytes", (unsigned long long)max_size);
	tap_ok(!alloc(1, 0) && errno == ENOMEM, "then not a byte: ENOMEM");
	tap_is(ibv_free_dm(dm), 0, "free");
	tap_ok(!alloc(max_size + 1, 0) && errno == EINVAL,
	       "more than there is: EINVAL");
	tap_ok(!alloc(0, 0) && errno == EINVAL, "nothing: EINVAL");
	tap_ok(!alloc(1, 63) && errno == EINVAL, "alignment 2^63: EINVAL");
	tap_ok(!alloc(1, 200) && errno == EINVAL, "alignment 2^200: EINVAL");
	dm = alloc(1, 16);
	tap_ok(dm, "alignment 2^16");
	ibv_free_dm(dm);
}

/* Twice allocates small pieces until nothing is left: both times as many. */
static void test_exhaustion(void)
{
	size_t i, count = max_size / PAGE;
	struct ibv_dm **dms = calloc(count + 1, sizeof(*dms));
	int run;

	for (run = 0; run < 2; run++) {
		for (i = 0; i <= count; i++) {
			dms[i] = alloc(1 + i % PAGE, 0);
			if (!dms[i])
				break;
		}
		tap_ok(i == count && errno == ENOMEM,
		       "run %d: a page for each of %zu", run, i);
		while (i--)
			ibv_free_dm(dms[i]);
	}
	free(dms);
}

static void test_copy(void)
{
	struct ibv_dm *one = must_alloc(LENGTH), *two = must_alloc(LENGTH);

	tap_ok(is_zero(one, LENGTH) && is_zero(two, LENGTH), "zero at first");
	tap_ok(store(one, 0, LENGTH, 1) && store(two, 0, LENGTH, 2) &&
	       holds(one, 0, LENGTH, 1) && holds(two, 0, LENGTH, 2),
	       "copied in and out");
	tap_is(ibv_memcpy_to_dm(one, 2, copy, 4), EINVAL, "an odd offset: EINVAL");
	tap_is(ibv_memcpy_from_dm(copy, one, 4, 3), EINVAL, "an odd length: EINVAL");
	tap_ok(!ibv_memcpy_to_dm(one, 4, copy, 12), "units of four bytes");
	/* Pages have 4 KiB, but the limit is the length that was asked for. */
	tap_ok(ibv_memcpy_to_dm(one, LENGTH - 4, copy, 8) &&
	       ibv_memcpy_from_dm(copy, one, LENGTH, 4) &&
	       ibv_memcpy_to_dm(one, UINT64_MAX - 3, copy, 8),
	       "not beyond the end");
	ibv_free_dm(one);
	ibv_free_dm(two);
	one = must_alloc(max_size);
	tap_ok(is_zero(one, LENGTH), "zero for its next owner");
	ibv_free_dm(one);
}

static struct ibv_mr *reg(struct ibv_dm *dm, uint64_t offset, size_t length,
			  unsigned int access)
{
	errno = 0;
	return ibv_reg_dm_mr(pair.pd, dm, offset, length, access);
}

static void expect_no_reg(struct ibv_dm *dm, uint64_t offset, size_t length,
			  unsigned int access, int wanted, const char *what)
{
	struct ibv_mr *mr = reg(dm, offset, length, access);

	tap_ok(!mr && errno == wanted, "%s: %s (errno %d)", what,
	       strerror(wanted), errno);
}

static void expect(enum ibv_wr_opcode opcode, const struct ibv_mr *mr,
		   uint64_t remote, uint32_t length, enum ibv_wc_status status,
		   const char *what)
{
	struct outcome o = ask(&pair, opcode, mr->rkey, remote, length);

	tap_ok(!o.posted && ended_with(o.status, status), "%s: %s", what,
	       ibv_wc_status_str(o.status));
	if (o.status)
		revive(&pair);
}

static void test_reg(void)
{
	struct ibv_dm *dm = must_alloc(LENGTH);
	struct ibv_mr *mr;

	expect_no_reg(dm, 0, LENGTH, ALL_ACCESS, EINVAL, "addresses not from 0");
	expect_no_reg(dm, 0, LENGTH + 1, RIGHTS, EINVAL, "a byte too long");
	expect_no_reg(dm, 1, LENGTH, RIGHTS, EINVAL, "a byte too far");
	expect_no_reg(dm, UINT64_MAX, 2, RIGHTS, EINVAL, "around the end");
	expect_no_reg(dm, 0, LENGTH,
		      IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE, EINVAL,
		      "remote write without local write");
	expect_no_reg(dm, 0, LENGTH, RIGHTS | IBV_ACCESS_HUGETLB, EOPNOTSUPP,
		      "huge pages");
	expect_no_reg(dm, 0, LENGTH, RIGHTS | IBV_ACCESS_ON_DEMAND, EOPNOTSUPP,
		      "on demand");

	mr = reg(dm, 0, 0, RIGHTS);
	tap_ok(mr, "no bytes are registered");
	expect(IBV_WR_RDMA_WRITE, mr, 0, 1, IBV_WC_REM_ACCESS_ERR,
	       "and nothing is written there");
	tap_is(ibv_dereg_mr(mr), 0, "dereg");

	mr = reg(dm, 0, LENGTH, RIGHTS);
	tap_ok(mr, "registered");
	tap_ok(ibv_free_dm(dm) == EBUSY, "not to be freed while registered");
	tap_ok(store(dm, 0, LENGTH, 3) && holds(dm, 0, LENGTH, 3),
	       "and still there");
	tap_ok(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
			    pair.a.buf, PAGE, 0) && errno == EINVAL,
	       "not to be re-registered: EINVAL");
	tap_is(ibv_dereg_mr(mr), 0, "dereg");
	tap_is(ibv_free_dm(dm), 0, "then free");
}

/* Remote access from byte @offset of the memory on. */
static void test_remote(uint64_t offset)
{
	const uint32_t length = 3000;
	struct ibv_dm *dm = must_alloc(LENGTH);
	struct ibv_mr *mr = reg(dm, offset, length, RIGHTS);
	uint64_t sum;

	if (!mr)
		tap_bail("ibv_reg_dm_mr: %s", strerror(errno));
	tap_diag("offset %llu", (unsigned long long)offset);
	store(dm, 0, LENGTH, 4);
	fill(pair.a.buf, length, 8);
	expect(IBV_WR_RDMA_WRITE, mr, 0, length, IBV_WC_SUCCESS, "write");
	tap_ok(holds(dm, offset, length, 8), "the data is there");
	fill(copy, LENGTH, 4);
	memcpy(copy + offset, pair.a.buf, length);
	memcpy(pair.b.buf, copy, LENGTH);
	ibv_memcpy_from_dm(copy, dm, 0, LENGTH);
	tap_ok(!memcmp(copy, pair.b.buf, LENGTH), "and nowhere else");

	store(dm, offset, length, 6);
	expect(IBV_WR_RDMA_READ, mr, 0, length, IBV_WC_SUCCESS, "read");
	tap_ok(is_filled(pair.a.buf, length, 6), "the data came");

	if (offset % 8 == 0) {
		memset(copy, 0, 8);
		ibv_memcpy_to_dm(dm, offset + 16, copy, 8);
		expect(IBV_WR_ATOMIC_FETCH_AND_ADD, mr, 16, 8, IBV_WC_SUCCESS,
		       "fetch and add");
		ibv_memcpy_from_dm(&sum, dm, offset + 16, 8);
		tap_is(sum, 1, "added");
	}
	expect(IBV_WR_RDMA_WRITE, mr, 1, length, IBV_WC_REM_ACCESS_ERR,
	       "a byte beyond the end");
	expect(IBV_WR_RDMA_READ, mr, UINT64_MAX, 1, IBV_WC_REM_ACCESS_ERR,
	       "a byte before the start");
	tap_is(ibv_dereg_mr(mr), 0, "dereg");
	tap_is(ibv_free_dm(dm), 0, "free");
}

/* The memory as the local end: sent from, read into. */
static void test_local(void)
{
	struct ibv_dm *dm = must_alloc(LENGTH);
	struct ibv_mr *mr = reg(dm, 0, LENGTH, RIGHTS);
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = 1, .local = NULL,
		.length = LENGTH, .remote = (uintptr_t)pair.b.buf,
		.rkey = pair.b.mr->rkey,
	};
	struct outcome o;

	if (!mr)
		tap_bail("ibv_reg_dm_mr: %s", strerror(errno));
	request.lkey = mr->lkey;
	store(dm, 0, LENGTH, 11);
	fill(pair.b.buf, LENGTH, 1);
	o = finish(&pair.a, post(&pair.a, &request));
	tap_ok(!o.posted && !o.status && is_filled(pair.b.buf, LENGTH, 11),
	       "written from on-NIC memory");
	fill(pair.b.buf, LENGTH, 12);
	request.opcode = IBV_WR_RDMA_READ;
	o = finish(&pair.a, post(&pair.a, &request));
	tap_ok(!o.posted && !o.status && holds(dm, 0, LENGTH, 12),
	       "read into on-NIC memory");
	ibv_dereg_mr(mr);
	ibv_free_dm(dm);
}

/* A window bound to the MR holds it, as with any other MR. */
static void test_window(enum ibv_mw_type type)
{
	struct ibv_dm *dm = must_alloc(LENGTH);
	struct ibv_mr *mr = reg(dm, 0, LENGTH, RIGHTS | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);

	if (!mr)
		tap_bail("ibv_reg_dm_mr: %s", strerror(errno));
	must_bind(&apis[0], &pair.b, mw, mr, 100, 200, IBV_ACCESS_REMOTE_WRITE);
	tap_is(ibv_dereg_mr(mr), EBUSY, "window of type %d: dereg: EBUSY",
	       (int)type);
	store(dm, 0, LENGTH, 1);
	fill(pair.a.buf, 200, 9);
	tap_ok(!ask(&pair, IBV_WR_RDMA_WRITE, mw->rkey, 100, 200).status &&
	       holds(dm, 100, 200, 9), "and it works");
	tap_ok(ended_with(ask(&pair, IBV_WR_RDMA_WRITE, mw->rkey, 101,
			      200).status, IBV_WC_REM_ACCESS_ERR),
	       "in its range alone");
	revive(&pair);
	tap_is(ibv_dealloc_mw(mw), 0, "dealloc");
	tap_is(ibv_dereg_mr(mr), 0, "then dereg");
	tap_is(ibv_free_dm(dm), 0, "free");
}

static void test_import(void)
{
	struct ibv_dm *dm = must_alloc(LENGTH), *twin;
	struct ibv_context *ctx = ibv_import_device(dup(pair.ctx->cmd_fd));

	if (!tap_ok(ctx, "import the context"))
		return;
	twin = ibv_import_dm(ctx, dm->handle);
	tap_ok(twin, "import the on-NIC memory");
	tap_ok(twin && store(dm, 0, LENGTH, 5) && holds(twin, 0, LENGTH, 5),
	       "it is the same");
	errno = 0;
	tap_ok(!ibv_import_dm(ctx, dm->handle + 1000) && errno == ENOENT,
	       "a handle of nothing (errno %d)", errno);
	if (twin)
		ibv_unimport_dm(twin);
	ibv_close_device(ctx);
	tap_ok(holds(dm, 0, LENGTH, 5), "and stays");
	tap_is(ibv_free_dm(dm), 0, "free");
}

int main(void)
{
	static const uint64_t offsets[] = { 0, 1, PAGE - 8, PAGE, LENGTH - 3000 };
	struct ibv_device_attr_ex attr = {};
	size_t i;

	pair_open(&pair, open_nic(NULL, &attr.orig_attr), &pair_defaults);
	pair_connect(&pair);
	ibv_query_device_ex(pair.ctx, NULL, &attr);
	max_size = attr.max_dm_size;
	if (!tap_ok(max_size, "the NIC has memory"))
		return tap_done();
	test_limits();
	test_exhaustion();
	test_copy();
	test_reg();
	for (i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
		test_remote(offsets[i]);
	test_local();
	test_window(IBV_MW_TYPE_1);
	test_window(IBV_MW_TYPE_2);
	test_import();
	return tap_done();
}
