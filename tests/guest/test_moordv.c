// SPDX-License-Identifier: GPL-2.0
/*
 * moordv.h, used by a program that links with the provider: errors of its functions,
 * and refusals whose reasons the provider finds itself, because the kernel's core
 * refuses before the call reaches the driver.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <moordv.h>

#include "tap.h"
#include "window.h"

#define SIZE	8192u
#define RIGHTS	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		 IBV_ACCESS_FLUSH_GLOBAL)

#define GROUPS	"/tmp/moordv-groups"

static struct pair pair;

static void test_holders(void)
{
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf, SIZE, BINDABLE);
	struct ibv_mw *mw = must_alloc_mw(pair.pd, IBV_MW_TYPE_2);
	struct moor_window w = {};
	uint32_t bound = 99;

	must_bind(&apis[0], &pair.b, mw, mr, (uintptr_t)pair.b.buf + 16, 200,
		  RIGHTS | IBV_ACCESS_ZERO_BASED);
	tap_ok(moordv_query_windows(mr, &w, 1, &bound) == 1 && bound == 1 &&
	       w.rkey == mw->rkey && w.type == 2 &&
	       w.qpn == pair.b.qp->qp_num && w.pid == getpid() &&
	       w.iova == 0 && w.length == 200 && w.access == RIGHTS,
	       "a zero-based window, by a program linked with libmoor");
	tap_ok(moordv_query_windows(mr, &w, 1, NULL) == -1 && errno == EINVAL,
	       "nowhere to count");
	if (ibv_dealloc_mw(mw) || ibv_dereg_mr(mr))
		tap_bail("cannot clean up");
}

static void test_owner_gone(void)
{
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf, SIZE, BINDABLE);
	struct ibv_mw *mw = must_alloc_mw(pair.pd, IBV_MW_TYPE_1);
	struct moor_window window = {};
	uint32_t bound;

	must_bind(&apis[0], &pair.b, mw, mr, (uintptr_t)pair.b.buf, 8, RIGHTS);
	pair_close_qp(&pair.b);
	tap_ok(moordv_query_windows(mr, &window, 1, &bound) == 1 &&
	       window.rkey == mw->rkey && window.pid == 0,
	       "QP destroyed: its owner is not known any more");
	pair_open_qp(&pair, &pair.b);
	pair_reset(&pair);
	ibv_dealloc_mw(mw);
	ibv_dereg_mr(mr);
}

static void test_not_ours(void)
{
	struct ibv_mr *null = ibv_alloc_null_mr(pair.pd);
	uint32_t bound;

	tap_ok(moordv_query_windows(null, NULL, 0, &bound) == -1 &&
	       errno == EOPNOTSUPP, "a null MR has no windows");
	ibv_dereg_mr(null);
}

/* ---- refusals ---- */

static void expect_refusal(const char *what, uint32_t reason, int error,
			   struct moor_refusal *refusal)
{
	int err = moordv_last_refusal(pair.ctx, refusal);

	if (!tap_ok(!err && refusal->reason == reason &&
		    refusal->error == error, "why: %s", what))
		tap_diag("%d: reason %u, error %d; limit %llu, value %llu", err,
			 refusal->reason, refusal->error,
			 (unsigned long long)refusal->limit,
			 (unsigned long long)refusal->value);
}

static void refuse(const char *what, void *addr, size_t length, uint64_t iova,
		   unsigned int access, uint32_t reason, int error,
		   struct moor_refusal *refusal)
{
	struct ibv_mr *mr = ibv_reg_mr_iova(pair.pd, addr, length, iova,
					    access);

	if (mr || errno != error) {
		tap_ok(false, "%s: refused", what);
		tap_diag("errno %d, wanted %d", mr ? 0 : errno, error);
		if (mr)
			ibv_dereg_mr(mr);
		return;
	}
	expect_refusal(what, reason, error, refusal);
	tap_ok(refusal->start == (uintptr_t)addr &&
	       refusal->length == length && refusal->access == access,
	       "why: %s: the arguments", what);
}

static void test_refusals(void)
{
	uint8_t *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t addr = (uintptr_t)memory;
	struct moor_refusal r = {};

	expect_refusal("nothing yet", MOOR_REFUSAL_NONE, 0, &r);
	refuse("remote write without local write", memory, 4096, addr,
	       IBV_ACCESS_REMOTE_WRITE, MOOR_REFUSAL_FLAGS, EINVAL, &r);
	tap_is(r.value, IBV_ACCESS_REMOTE_WRITE, "the flag");
	refuse("huge pages", memory, 4096, addr,
	       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_HUGETLB,
	       MOOR_REFUSAL_FLAGS, EOPNOTSUPP, &r);
	tap_is(r.value, IBV_ACCESS_HUGETLB, "the flag");
	refuse("memory that is not persistent", memory, 4096, addr,
	       IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT,
	       MOOR_REFUSAL_FLAGS, EINVAL, &r);
	tap_is(r.value, IBV_ACCESS_FLUSH_PERSISTENT, "the flag");
	refuse("address not congruent", memory, 4096, addr + 1,
	       IBV_ACCESS_LOCAL_WRITE, MOOR_REFUSAL_IOVA, EINVAL, &r);
	tap_is(r.value, addr + 1, "the address");
	refuse("on demand, address not congruent", memory, 4096, addr + 1,
	       IBV_ACCESS_ON_DEMAND, MOOR_REFUSAL_IOVA, EINVAL, &r);
	refuse("on demand, remote write without local write", memory, 4096, addr,
	       IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_WRITE,
	       MOOR_REFUSAL_FLAGS, EINVAL, &r);
	tap_is(r.value, IBV_ACCESS_REMOTE_WRITE, "the flag");
	munmap(memory, 4096);
}

/* Where the call gives no range or rights, the reason has those of the region. */
static void test_rereg_refused(void)
{
	uint8_t *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = must_reg(pair.pd, at, SIZE, IBV_ACCESS_LOCAL_WRITE |
				     IBV_ACCESS_ON_DEMAND);
	struct moor_refusal r = {};

	munmap(at + SIZE / 2, SIZE / 2);
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    IBV_ACCESS_LOCAL_WRITE), IBV_REREG_MR_ERR_CMD,
	       "rights alone, out of paging: what is not there cannot be pinned");
	expect_refusal("which page", MOOR_REFUSAL_PAGE, EFAULT, &r);
	tap_ok(r.start == (uintptr_t)at && r.length == SIZE &&
	       r.value == (uintptr_t)at + SIZE / 2, "why: the region, and the page");
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_HUGETLB),
	       IBV_REREG_MR_ERR_CMD, "rights that cannot be had");
	expect_refusal("which right", MOOR_REFUSAL_FLAGS, EOPNOTSUPP, &r);
	tap_ok(r.start == (uintptr_t)at && r.length == SIZE &&
	       r.value == IBV_ACCESS_HUGETLB, "why: the region, and the right");
	ibv_dereg_mr(mr);
	mr = must_reg(pair.pd, at, SIZE / 2, IBV_ACCESS_LOCAL_WRITE);
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, at, SIZE, 0),
	       IBV_REREG_MR_ERR_CMD, "a range alone, of which half is not there");
	expect_refusal("which page of it", MOOR_REFUSAL_PAGE, EFAULT, &r);
	tap_ok(r.start == (uintptr_t)at && r.length == SIZE &&
	       r.value == (uintptr_t)at + SIZE / 2, "why: the range, and the page");
	ibv_dereg_mr(mr);
	munmap(at, SIZE / 2);
}

static void put(const char *file, const char *format, ...)
{
	char text[64];
	va_list args;
	int fd = open(file, O_WRONLY);

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		tap_bail("%s: %s", file, strerror(errno));
	close(fd);
}

/* More objects than the process's control group may have. */
static void test_control_group(void)
{
	static uint8_t memory[4096];
	struct moor_refusal r = {};
	FILE *kinds;
	char line[256] = "";

	/* ENODEV also if the kernel has no control groups. */
	if (mkdir(GROUPS, 0700) ||
	    (mount("none", GROUPS, "cgroup2", 0, NULL) && errno != ENODEV))
		tap_bail(GROUPS ": %s", strerror(errno));
	kinds = fopen(GROUPS "/cgroup.controllers", "r");
	if (!kinds || !fgets(line, sizeof(line), kinds) || !strstr(line, "rdma")) {
		tap_skip("this kernel does not limit RDMA objects", "a control group");
	} else {
		put(GROUPS "/cgroup.subtree_control", "+rdma");
		mkdir(GROUPS "/none", 0700);
		put(GROUPS "/none/rdma.max", "%s hca_object=0",
		    ibv_get_device_name(pair.ctx->device));
		put(GROUPS "/none/cgroup.procs", "%d", getpid());
		refuse("the control group", memory, 4096, (uintptr_t)memory,
		       IBV_ACCESS_LOCAL_WRITE, MOOR_REFUSAL_OTHER, EAGAIN, &r);
		put(GROUPS "/cgroup.procs", "%d", getpid());
		rmdir(GROUPS "/none");
		put(GROUPS "/cgroup.subtree_control", "-rdma");
	}
	if (kinds)
		fclose(kinds);
	umount(GROUPS);
	rmdir(GROUPS);
}

/* The core checks flags and addresses before it looks up the buffer. */
static void refuse_dmabuf(const char *what, uint64_t iova, unsigned int access,
			  uint32_t reason, uint64_t value)
{
	struct moor_refusal r = {};
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.pd, 4096, 100, iova, -1, access);

	if (!tap_ok(!mr && errno == EINVAL, "dma-buf, %s: refused", what))
		return;
	expect_refusal(what, reason, EINVAL, &r);
	tap_ok(r.value == value && r.start == 4096 && r.length == 100 &&
	       r.access == access, "why: %s: the arguments", what);
}

static void test_dmabuf_refusals(void)
{
	static const unsigned int flags[] = {
		IBV_ACCESS_MW_BIND, IBV_ACCESS_ZERO_BASED, IBV_ACCESS_HUGETLB,
		IBV_ACCESS_ON_DEMAND, IBV_ACCESS_FLUSH_GLOBAL,
		IBV_ACCESS_FLUSH_PERSISTENT,
	};
	unsigned int i;

	for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		refuse_dmabuf("a flag", 0, IBV_ACCESS_LOCAL_WRITE | flags[i],
			      MOOR_REFUSAL_FLAGS, flags[i]);
	refuse_dmabuf("address not congruent", 1,
		      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING,
		      MOOR_REFUSAL_IOVA, 1);
}

/* Registering on-NIC memory: @start of the reason is the offset in it. */
static void refuse_dm(const char *what, struct ibv_dm *dm, uint64_t offset, size_t length,
		      unsigned int access, uint32_t reason, int error,
		      struct moor_refusal *refusal)
{
	struct ibv_mr *mr = ibv_reg_dm_mr(pair.pd, dm, offset, length, access);

	if (!tap_ok(!mr && errno == error, "on-NIC memory, %s: refused", what))
		return;
	expect_refusal(what, reason, error, refusal);
	tap_ok(refusal->start == offset && refusal->length == length &&
	       refusal->access == access, "why: %s: the arguments", what);
}

/* On-NIC MRs cannot be re-registered, which must not be blamed on an argument. */
static void rereg_dm(struct ibv_dm *dm)
{
	unsigned int access = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE;
	struct ibv_mr *mr = ibv_reg_dm_mr(pair.pd, dm, 0, 100, access);
	struct moor_refusal r = {};

	if (!mr)
		tap_bail("ibv_reg_dm_mr: %s", strerror(errno));
	tap_ok(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, access) &&
	       errno == EINVAL, "on-NIC memory is not registered anew");
	expect_refusal("on-NIC memory anew", MOOR_REFUSAL_OTHER, EINVAL, &r);
	/* Nor on a range that this call does not use. */
	tap_ok(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pair.pd, (void *)-8, 100, 0) &&
	       errno == EINVAL, "nor for another PD");
	expect_refusal("another PD, and a range that wraps", MOOR_REFUSAL_OTHER, EINVAL, &r);
	ibv_dereg_mr(mr);
}

static void test_dm_refusals(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 100 };
	struct ibv_dm *dm = ibv_alloc_dm(pair.ctx, &attr);
	unsigned int access = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE;
	struct moor_refusal r = {};

	if (!dm)
		tap_bail("ibv_alloc_dm: %s", strerror(errno));
	refuse_dm("addresses not from 0", dm, 0, 100, IBV_ACCESS_LOCAL_WRITE,
		  MOOR_REFUSAL_FLAGS, EINVAL, &r);
	tap_is(r.value, IBV_ACCESS_ZERO_BASED, "the flag");
	refuse_dm("beyond its end", dm, 40, 61, access, MOOR_REFUSAL_LENGTH, EINVAL, &r);
	tap_ok(r.value == 61 && r.limit == 60, "the length, and what there is");
	refuse_dm("behind its end", dm, 101, 1, access, MOOR_REFUSAL_LENGTH, EINVAL, &r);
	tap_ok(r.value == 1 && !r.limit, "nothing is there");
	refuse_dm("huge pages", dm, 0, 100, access | IBV_ACCESS_HUGETLB,
		  MOOR_REFUSAL_FLAGS, EOPNOTSUPP, &r);
	tap_is(r.value, IBV_ACCESS_HUGETLB, "the flag");
	refuse_dm("remote write without local write", dm, 8, 8,
		  IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE,
		  MOOR_REFUSAL_FLAGS, EINVAL, &r);
	tap_is(r.value, IBV_ACCESS_REMOTE_WRITE, "the flag");
	rereg_dm(dm);
	ibv_free_dm(dm);
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;

	config.send_ops = WINDOW_OPS;
	pair_open(&pair, open_nic(argc > 1 ? argv[1] : NULL, &attr), &config);
	pair_connect(&pair);
	test_refusals();
	test_rereg_refused();
	test_dm_refusals();
	test_dmabuf_refusals();
	test_control_group();
	test_holders();
	test_owner_gone();
	test_not_ours();
	pair_close(&pair);
	ibv_close_device(pair.ctx);
	return tap_done();
}
