// SPDX-License-Identifier: GPL-2.0
/*
 * The driver's own data in calls: reserved and unknown fields must be zero, sizes must
 * make sense, answers are no longer than requested and leak no kernel memory. And what
 * a process can map.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/moor-abi.h>

#include "pair.h"
#include "raw.h"
#include "tap.h"

#define PAGE	4096UL

static int fd;
static uint32_t pd_handle;
static uint32_t cq_handle;
static uint8_t *ring;
static struct moor_create_cq_resp cq_resp;
static uint64_t doze_offset;

static void test_context(void)
{
	uint64_t req[2] = {};
	struct moor_alloc_ucontext_resp resp;

	tap_is(raw_get_context(fd, NULL, 0, &resp), EINVAL, "context: no request");
	req[0] = 1;
	tap_is(raw_get_context(fd, req, 8, &resp), EINVAL, "context: reserved field");
	req[0] = 0;
	req[1] = 1;
	tap_is(raw_get_context(fd, req, 16, &resp), EOPNOTSUPP,
	       "context: unknown field");
	req[1] = 0;
	tap_is(raw_get_context(fd, req, 16, &resp), 0,
	       "context: unknown field that is zero");
	tap_is(resp.reserved, 0, "context: reserved part of the answer");
	tap_ok(resp.hw_version, "context: version of the interface");
	doze_offset = resp.doze_mmap_offset;
}

static int alloc_pd(const void *req, size_t size, uint32_t *handle)
{
	struct {
		struct ib_uverbs_alloc_pd_resp core;
		struct moor_alloc_pd_resp driver;
	} out = {};
	struct ib_uverbs_alloc_pd core = {};
	int err = raw_call(fd, &(struct raw){
		.number = IB_USER_VERBS_CMD_ALLOC_PD,
		.core = &core, .core_size = sizeof(core),
		.driver = req, .driver_size = size,
		.out = &out, .core_out = sizeof(out.core),
		.driver_out = sizeof(out.driver),
	});

	*handle = out.core.pd_handle;
	return err;
}

static void test_pd(void)
{
	const uint32_t zero[2] = {}, one[2] = { 0, 1 };

	tap_is(alloc_pd(one, 8, &pd_handle), EOPNOTSUPP, "PD: unknown field");
	tap_is(alloc_pd(zero, 8, &pd_handle), 0,
	       "PD: unknown field that is zero");
}

static int reg_mr(const void *req, size_t size)
{
	struct ib_uverbs_reg_mr core = {
		.start = (uintptr_t)ring, .length = PAGE,
		.hca_va = (uintptr_t)ring, .pd_handle = pd_handle,
		.access_flags = IBV_ACCESS_LOCAL_WRITE,
	};
	struct ib_uverbs_reg_mr_resp out;
	int err = raw_call(fd, &(struct raw){
		.number = IB_USER_VERBS_CMD_REG_MR,
		.core = &core, .core_size = sizeof(core),
		.driver = req, .driver_size = size,
		.out = &out, .core_out = sizeof(out),
	});

	if (!err) {
		struct ib_uverbs_dereg_mr dereg = { .mr_handle = out.mr_handle };

		err = raw_call(fd, &(struct raw){
			.number = IB_USER_VERBS_CMD_DEREG_MR,
			.core = &dereg, .core_size = sizeof(dereg),
		});
	}
	return err;
}

static void test_mr(void)
{
	const uint32_t zero[2] = {}, one[2] = { 1, 0 };

	tap_is(reg_mr(one, 8), EOPNOTSUPP, "MR: unknown field");
	tap_is(reg_mr(zero, 8), 0, "MR: unknown field that is zero");
	tap_is(reg_mr(NULL, 0), 0, "MR: nothing for the driver");
}

struct cq_input {
	struct moor_create_cq_req req;
	uint64_t unknown;
};

static int create_cq(const struct cq_input *input, size_t size, uint32_t cqe,
		     size_t out_size, uint32_t *handle)
{
	struct {
		struct ib_uverbs_create_cq_resp core;
		struct moor_create_cq_resp driver;
		uint64_t behind;
	} out;
	struct ib_uverbs_create_cq core = { .cqe = cqe, .comp_channel = -1 };
	int err;

	memset(&out, 0xa5, sizeof(out));
	err = raw_call(fd, &(struct raw){
		.number = IB_USER_VERBS_CMD_CREATE_CQ,
		.core = &core, .core_size = sizeof(core),
		.driver = input, .driver_size = size,
		.out = &out, .core_out = sizeof(out.core),
		.driver_out = out_size,
	});
	if (!err) {
		cq_resp = out.driver;
		*handle = out.core.cq_handle;
	}
	return err;
}

static int destroy_cq(uint32_t handle)
{
	struct ib_uverbs_destroy_cq core = { .cq_handle = handle };
	struct ib_uverbs_destroy_cq_resp out;

	return raw_call(fd, &(struct raw){
		.number = IB_USER_VERBS_CMD_DESTROY_CQ,
		.core = &core, .core_size = sizeof(core),
		.out = &out, .core_out = sizeof(out),
	});
}

static void cq_refused(struct cq_input input, size_t size, uint32_t cqe,
		       int wanted, const char *what)
{
	uint32_t handle;
	int err = create_cq(&input, size, cqe, sizeof(cq_resp), &handle);

	if (!err)
		destroy_cq(handle);
	tap_is(err, wanted, "CQ: %s", what);
}

static void test_cq(void)
{
	const struct cq_input good = {
		.req.ring_addr = (uintptr_t)ring, .req.log_cqe = 6,
	};
	const size_t size = sizeof(good.req);
	struct cq_input bad;
	uint32_t handle;

	cq_refused(good, size - 4, 64, EINVAL, "request too short");
	cq_refused(good, 0, 64, EINVAL, "no request");
	cq_refused(good, size, 65, EINVAL, "ring smaller than asked for");
	for (size_t i = 0; i < sizeof(good.req.reserved); i++) {
		bad = good;
		bad.req.reserved[i] = 1;
		cq_refused(bad, size, 64, EINVAL, "reserved byte");
	}
	bad = good;
	bad.unknown = 1;
	cq_refused(bad, sizeof(bad), 64, EOPNOTSUPP, "unknown field");
	bad = good;
	bad.req.ring_addr += 64;
	cq_refused(bad, size, 64, EINVAL, "unaligned ring");
	bad.req.ring_addr = 0;
	cq_refused(bad, size, 64, EFAULT, "ring at address 0");
	bad.req.ring_addr = -PAGE;
	cq_refused(bad, size, 64, EINVAL, "ring at the end of all addresses");
	bad = good;
	bad.req.log_cqe = 0;
	cq_refused(bad, size, 1, EINVAL, "ring of one entry");
	bad.req.log_cqe = 63;
	cq_refused(bad, size, 64, EINVAL, "ring of 2^63 entries");
	bad.req.log_cqe = 255;
	cq_refused(bad, size, 64, EINVAL, "ring of 2^255 entries");

	tap_is(create_cq(&good, sizeof(good), 64, 8, &handle), 0,
	       "CQ: a short answer is enough");
	tap_ok(cq_resp.cqn == 0xa5a5a5a5, "CQ: nothing written behind it");
	tap_is(destroy_cq(handle), 0, "CQ: destroyed");
	tap_is(create_cq(&good, size, 64, sizeof(cq_resp) + 8, &cq_handle), 0,
	       "CQ: a long answer");
	tap_is(cq_resp.reserved, 0, "CQ: reserved part of the answer");
}

struct qp_input {
	struct moor_create_qp_req req;
	uint64_t unknown;
};

static int create_qp(const struct qp_input *input, size_t size, uint32_t recv_wr)
{
	struct {
		struct ib_uverbs_create_qp_resp core;
		struct moor_create_qp_resp driver;
	} out = {};
	struct ib_uverbs_create_qp core = {
		.pd_handle = pd_handle, .send_cq_handle = cq_handle,
		.recv_cq_handle = cq_handle, .max_send_wr = 16,
		.max_recv_wr = recv_wr, .max_send_sge = 2, .max_recv_sge = 1,
		.qp_type = IBV_QPT_RC,
	};
	int err = raw_call(fd, &(struct raw){
		.number = IB_USER_VERBS_CMD_CREATE_QP,
		.core = &core, .core_size = sizeof(core),
		.driver = input, .driver_size = size,
		.out = &out, .core_out = sizeof(out.core),
		.driver_out = sizeof(out.driver),
	});

	if (!err) {
		struct ib_uverbs_destroy_qp destroy = {
			.qp_handle = out.core.qp_handle,
		};
		struct ib_uverbs_destroy_qp_resp gone;

		if (out.driver.qpn <= 1 || out.driver.reserved)
			return -1;
		err = raw_call(fd, &(struct raw){
			.number = IB_USER_VERBS_CMD_DESTROY_QP,
			.core = &destroy, .core_size = sizeof(destroy),
			.out = &gone, .core_out = sizeof(gone),
		});
	}
	return err;
}

static void test_qp(void)
{
	const struct qp_input good = {
		.req = {
			.sq_addr = (uintptr_t)ring + PAGE,
			.rq_addr = (uintptr_t)ring + 2 * PAGE,
			.log_sq_depth = 4, .log_sq_stride = 6,
			.log_rq_depth = 4, .log_rq_stride = 5,
		},
	};
	const size_t size = sizeof(good.req);
	struct qp_input bad;

	tap_is(create_qp(&good, size, 16), 0, "QP: created and destroyed");
	tap_is(create_qp(&good, sizeof(good), 16), 0,
	       "QP: unknown field that is zero");
	tap_is(create_qp(&good, size - 4, 16), EINVAL, "QP: request too short");
	tap_is(create_qp(&good, size, 17), EINVAL, "QP: receive queue too small");
	tap_is(create_qp(&good, size, 0), EINVAL,
	       "QP: a receive queue for no receives");
	bad = good;
	bad.unknown = 1ULL << 63;
	tap_is(create_qp(&bad, sizeof(bad), 16), EOPNOTSUPP, "QP: unknown field");
	bad = good;
	bad.req.rq_addr = 0;
	bad.req.log_rq_depth = 0;
	bad.req.log_rq_stride = 0;
	tap_is(create_qp(&bad, size, 0), 0, "QP: no receive queue");
	tap_is(create_qp(&bad, size, 16), EINVAL, "QP: a receive queue left out");

#define BAD_QP(field, value, wanted, what) do {				\
	bad = good;							\
	bad.req.field = (value);					\
	tap_is(create_qp(&bad, size, 16), wanted, "QP: " what);		\
} while (0)
	BAD_QP(sq_addr, (uintptr_t)ring + 8, EINVAL, "unaligned send queue");
	BAD_QP(rq_addr, (uintptr_t)ring + 8, EINVAL, "unaligned receive queue");
	BAD_QP(sq_addr, 0, EFAULT, "send queue at address 0");
	BAD_QP(rq_addr, 0, EFAULT, "receive queue at address 0");
	BAD_QP(log_sq_stride, 5, EINVAL, "send stride of 32");
	BAD_QP(log_sq_stride, 10, EINVAL, "send stride of 1024");
	BAD_QP(log_sq_stride, 255, EINVAL, "send stride of 2^255");
	BAD_QP(log_rq_stride, 4, EINVAL, "receive stride of 16");
	BAD_QP(log_rq_stride, 64, EINVAL, "receive stride of 2^64");
	BAD_QP(log_sq_depth, 3, EINVAL, "send queue too small");
	BAD_QP(log_sq_depth, 60, EINVAL, "send queue of 2^60 entries");
	BAD_QP(log_rq_depth, 255, EINVAL, "receive queue of 2^255 entries");
#undef BAD_QP
}

static void not_mapped(int file, uint64_t offset, size_t size, int protection,
		       int flags, int wanted, const char *what)
{
	void *addr = mmap(NULL, size, protection, flags, file, offset);
	int err = errno;

	if (addr != MAP_FAILED) {
		munmap(addr, size);
		err = 0;
	}
	tap_is(err, wanted, "mmap: %s", what);
}

static void test_mmap(void)
{
	const uint64_t doorbell = cq_resp.db.doorbell_mmap_offset;
	struct moor_alloc_ucontext_resp resp;
	const int rw = PROT_READ | PROT_WRITE;
	uint64_t req = 0;
	int other = raw_open();
	void *addr;

	if (other < 0 || raw_get_context(other, &req, sizeof(req), &resp))
		tap_bail("no second context: %s", strerror(errno));
	not_mapped(other, doorbell, PAGE, rw, MAP_SHARED, EINVAL,
		   "another process's doorbell page");
	not_mapped(other, cq_resp.db.kick_mmap_offset, PAGE, rw, MAP_SHARED,
		   EINVAL, "another process's kick page");
	close(other);
	not_mapped(fd, doorbell, PAGE, rw, MAP_SHARED, 0, "one's own doorbell page");
	not_mapped(fd, doorbell, 2 * PAGE, rw, MAP_SHARED, EINVAL, "two pages of it");
	not_mapped(fd, doorbell, PAGE, rw, MAP_PRIVATE, EINVAL, "a private copy");
	not_mapped(fd, 0x40000000, PAGE, rw, MAP_SHARED, EINVAL,
		   "an offset nobody gave");
	not_mapped(fd, 0xffffffffULL * PAGE, PAGE, rw, MAP_SHARED, EINVAL,
		   "the last offset that can be given");
	not_mapped(fd, doze_offset, PAGE, rw, MAP_SHARED, EPERM,
		   "the dozing word, writable");
	addr = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, doze_offset);
	tap_ok(addr != MAP_FAILED, "mmap: the dozing word, read-only");
	if (addr == MAP_FAILED)
		return;
	tap_ok(*(volatile uint32_t *)addr <= 1, "the dozing word is 0 or 1");
	errno = 0;
	tap_ok(mprotect(addr, PAGE, rw) && errno == EACCES,
	       "it cannot be made writable");
	munmap(addr, PAGE);
}

/* Garbage in all slots does no harm: each counts for its own queue alone. */
static void test_doorbells(void)
{
	volatile uint64_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				       MAP_SHARED, fd,
				       cq_resp.db.doorbell_mmap_offset);
	volatile uint32_t *kick = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				       MAP_SHARED, fd,
				       cq_resp.db.kick_mmap_offset);

	if (page == MAP_FAILED || kick == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	for (size_t i = 0; i < PAGE / 8; i++)
		page[i] = 0x9e3779b97f4a7c15ULL * (i + 1);
	for (size_t i = 0; i < PAGE / 4; i++)
		kick[i] = i;
	tap_is(destroy_cq(cq_handle), 0,
	       "garbage in every doorbell slot: the CQ still goes");
	munmap((void *)page, PAGE);
	munmap((void *)kick, PAGE);
}

int main(void)
{
	struct ibv_device_attr attr;
	struct ibv_context *ctx;

	fd = raw_open();
	if (fd < 0)
		tap_bail("uverbs0: %s", strerror(errno));
	ring = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	test_context();
	test_pd();
	test_mr();
	test_cq();
	test_qp();
	test_mmap();
	test_doorbells();
	close(fd);
	ctx = open_nic(NULL, &attr);
	tap_ok(ctx, "the NIC still works");
	ibv_close_device(ctx);
	return tap_done();
}
