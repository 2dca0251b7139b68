// SPDX-License-Identifier: GPL-2.0
/*
 * Which windows hold an MR, and why a registration failed: by moordv.h as root and as
 * an ordinary user, by "rdma resource", and in debugfs.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <rdma/moor_user_ioctl_cmds.h>

#include "owner.h"
#include "tap.h"
#include "window.h"

#define LIBRARY		"/run/moor/libmoor.so.1"
#define FULL		(BINDABLE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ)
#define RIGHTS		(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define PAGE		4096u
#define MEMLOCK		(1024 * 1024u)
#define NOBODY		65534
#define MANY		1700	/* more than one answer of the kernel, and 13 of the device, hold */

static struct pair pair;
static int (*query_windows)(struct ibv_mr *mr, struct moor_window *windows,
			    uint32_t max, uint32_t *bound);
static int (*last_refusal)(struct ibv_context *ctx,
			   struct moor_refusal *refusal);

static void load_library(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW);

	if (!library)
		tap_bail("%s", dlerror());
	query_windows = (__typeof__(query_windows))
		dlsym(library, "moordv_query_windows");
	last_refusal = (__typeof__(last_refusal))
		dlsym(library, "moordv_last_refusal");
	if (!query_windows || !last_refusal)
		tap_bail("%s", dlerror());
}

/*
 * Counts the lines of a command's output that contain @text; @line is the last of them.
 */
static int grep(const char *command, const char *text, char *line, int size)
{
	FILE *pipe = popen(command, "r");
	char buf[1024];
	int found = 0;

	if (!pipe)
		tap_bail("popen: %s", strerror(errno));
	while (fgets(buf, sizeof(buf), pipe))
		if (strstr(buf, text)) {
			found++;
			if (line)
				snprintf(line, size, "%s", buf);
		}
	pclose(pipe);
	return found;
}

static bool debugfs_windows(char *line, int size, uint32_t rkey)
{
	char key[16];

	snprintf(key, sizeof(key), "0x%08x", rkey);
	return grep("cat /sys/kernel/debug/moor/*/windows", key, line, size) ==
	       1;
}

/* The number of windows that "rdma resource" shows for the MR. */
static int tracked_windows(const struct ibv_mr *mr)
{
	char key[32], line[1024], *found;
	int count;

	/* JSON output has one line for each MR. */
	snprintf(key, sizeof(key), "\"rkey\":\"%x\"", mr->rkey);
	if (grep("rdma resource show mr -ddj", key, line, sizeof(line)) != 1)
		return -1;
	found = strstr(line, "drv_windows");
	return found && sscanf(found, "drv_windows\":%d", &count) == 1 ?
	       count : -2;
}

/* The output of "rdma resource" for MRs, with single spaces. */
static const char *resources(void)
{
	static char text[65536];
	FILE *pipe = popen("rdma resource show mr -dd | tr -s ' \\t\\n' ' '",
			   "r");
	size_t size = pipe ? fread(text, 1, sizeof(text) - 1, pipe) : 0;

	if (!pipe || pclose(pipe))
		tap_bail("rdma resource: no answer");
	text[size] = 0;
	return text;
}

/*
 * Does the output contain the MR, with its process and with this window as holder @n?
 */
static bool resource_names(const char *text, const struct ibv_mr *mr,
			   const struct ibv_mw *mw, int n)
{
	char owner[128], window[192];
	const char *found, *end;

	snprintf(owner, sizeof(owner), "rkey 0x%x lkey 0x%x mrlen %zu pdn ",
		 mr->rkey, mr->lkey, mr->length);
	found = strstr(text, owner);
	end = found ? strstr(found, "dev moor") : NULL;
	snprintf(owner, sizeof(owner), "pid %d comm test_holders", getpid());
	snprintf(window, sizeof(window),
		 "drv_window%d_rkey 0x%x drv_window%d_type %d drv_window%d_qpn 0x%x drv_window%d_pid %d ",
		 n, mw->rkey, n, (int)mw->type, n, pair.b.qp->qp_num, n,
		 getpid());
	if (!found || !strstr(found, owner) || !strstr(found, window))
		return false;
	return !end || (strstr(found, owner) < end &&
			strstr(found, window) < end);
}

static bool is_window(const struct moor_window *window,
		      const struct ibv_mw *mw, int type, uint64_t iova,
		      uint64_t length, uint32_t access)
{
	return window->rkey == mw->rkey && window->type == (uint32_t)type &&
	       window->qpn == pair.b.qp->qp_num && window->pid == getpid() &&
	       window->iova == iova && window->length == length &&
	       window->access == access;
}

static void check_listing(const struct ibv_mr *mr, struct ibv_mw *mws[2])
{
	uint64_t base = (uintptr_t)mr->addr;
	char wanted[64], line[512] = "";
	struct moor_window list[3];
	uint32_t bound = 99;
	const char *text;
	int i, n, found = 0;

	n = query_windows((struct ibv_mr *)mr, list, 3, &bound);
	tap_ok(n == 2 && bound == 2, "two windows are listed (%d, %u)", n,
	       bound);
	for (i = 0; i < n; i++)
		found += is_window(&list[i], mws[0], 1, base, 100,
				   IBV_ACCESS_REMOTE_WRITE) ||
			 is_window(&list[i], mws[1], 2, base + PAGE, 200,
				   RIGHTS);
	tap_is(found, 2, "with key, type, QP, owner, range and rights");
	n = query_windows((struct ibv_mr *)mr, list, 1, &bound);
	tap_ok(n == 1 && bound == 2, "room for one: one listed, two counted");
	n = query_windows((struct ibv_mr *)mr, NULL, 0, &bound);
	tap_ok(n == 0 && bound == 2, "no room: two counted");

	tap_is(tracked_windows(mr), 2, "rdma resource: two windows");
	text = resources();
	tap_ok((resource_names(text, mr, mws[0], 0) &&
		resource_names(text, mr, mws[1], 1)) ||
	       (resource_names(text, mr, mws[0], 1) &&
		resource_names(text, mr, mws[1], 0)),
	       "rdma resource: their keys, types, QPs and owners, and the MR's");
	snprintf(wanted, sizeof(wanted), "%d test_holders", getpid());
	tap_ok(debugfs_windows(line, sizeof(line), mws[0]->rkey) &&
	       strstr(line, wanted), "debugfs: the first, and its owner");
	tap_ok(debugfs_windows(line, sizeof(line), mws[1]->rkey) &&
	       strstr(line, wanted), "debugfs: the second, and its owner");
	snprintf(wanted, sizeof(wanted), "0x%08x", mr->rkey);
	tap_ok(strstr(line, wanted), "debugfs: and the MR");
}

static void test_holders(void)
{
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf,
				     pair.config.buffer_size, FULL);
	struct ibv_mw *mws[2] = {
		must_alloc_mw(pair.pd, IBV_MW_TYPE_1),
		must_alloc_mw(pair.pd, IBV_MW_TYPE_2),
	};
	uint64_t base = (uintptr_t)mr->addr;
	uint32_t bound = 99;

	tap_ok(query_windows(mr, NULL, 0, &bound) == 0 && bound == 0,
	       "no window yet");
	tap_is(tracked_windows(mr), 0, "rdma resource: none");
	must_bind(&apis[0], &pair.b, mws[0], mr, base, 100,
		  IBV_ACCESS_REMOTE_WRITE);
	must_bind(&apis[0], &pair.b, mws[1], mr, base + PAGE, 200, RIGHTS);
	check_listing(mr, mws);

	tap_is(ibv_dereg_mr(mr), EBUSY, "dereg: EBUSY");
	tap_diag("after EBUSY:");
	check_listing(mr, mws);
	tap_ok(!ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, base, 512).status &&
	       !ask(&pair, IBV_WR_RDMA_WRITE, mws[0]->rkey, base, 100).status &&
	       !ask(&pair, IBV_WR_RDMA_READ, mws[1]->rkey, base + PAGE,
		    200).status, "the MR and its windows work");

	tap_is(ibv_dealloc_mw(mws[0]), 0, "dealloc one");
	tap_is(ibv_dereg_mr(mr), EBUSY, "dereg: EBUSY");
	tap_ok(query_windows(mr, NULL, 0, &bound) == 0 && bound == 1,
	       "one window is left");
	tap_is(tracked_windows(mr), 1, "rdma resource: one");
	tap_ok(!invalidate(&apis[0], &pair.b, mws[1]->rkey).status,
	       "invalidate the other");
	tap_ok(!debugfs_windows(NULL, 0, mws[1]->rkey), "debugfs: gone");
	tap_is(ibv_dereg_mr(mr), 0, "dereg");
	ibv_dealloc_mw(mws[1]);
}

/* More windows than one answer holds. */
static void test_many(void)
{
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf,
				     pair.config.buffer_size, FULL);
	static struct moor_window list[MANY + 1];
	static struct ibv_mw *mws[MANY];
	int i, j, n, times, found = 0;
	uint32_t bound = 0;
	const char *text;
	char key[32];

	for (i = 0; i < MANY; i++) {
		mws[i] = must_alloc_mw(pair.pd, IBV_MW_TYPE_1);
		must_bind(&apis[0], &pair.b, mws[i], mr,
			  (uintptr_t)mr->addr + i, 1, IBV_ACCESS_REMOTE_READ);
	}
	n = query_windows(mr, list, MANY + 1, &bound);
	tap_ok(n == MANY && bound == MANY, "%d windows are listed", n);
	for (i = 0; i < MANY; i++) {
		for (times = 0, j = 0; j < n; j++)
			times += list[j].rkey == mws[i]->rkey;
		found += times == 1;
	}
	tap_is(found, MANY, "each of them once");
	tap_is(tracked_windows(mr), MANY, "rdma resource: %d", MANY);
	text = resources();
	for (found = 0, i = 0; i < MANY; i++) {
		snprintf(key, sizeof(key), "_rkey 0x%x ", mws[i]->rkey);
		found += !!strstr(text, key);
	}
	tap_is(found, 8, "rdma resource: as many of them as it lists");
	for (i = 0; i < MANY; i++)
		ibv_dealloc_mw(mws[i]);
	tap_is(ibv_dereg_mr(mr), 0, "dereg when they are gone");
}

/* ---- why a registration failed ---- */

static void expect_reason(const char *what, struct ibv_context *ctx,
			  uint32_t reason, int error, uint64_t value,
			  uint64_t limit, void *start, uint64_t length)
{
	struct moor_refusal why = {};
	int got = last_refusal(ctx, &why);

	tap_ok(!got && why.reason == reason && why.error == error &&
	       why.value == value && why.limit == limit &&
	       why.start == (uintptr_t)start && why.length == length,
	       "%s: reason %u error %d value %#llx limit %#llx start %#llx length %#llx",
	       what, why.reason, why.error, (unsigned long long)why.value,
	       (unsigned long long)why.limit, (unsigned long long)why.start,
	       (unsigned long long)why.length);
}

static void expect_no_mr(struct ibv_pd *pd, void *start, size_t length,
			 unsigned int access, int error, const char *what)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_mr(pd, start, length, access);
	tap_ok(!mr && errno == error, "%s: %s (errno %d)", what,
	       strerror(error), errno);
}

static uint8_t *map(size_t length, int protection)
{
	uint8_t *p = mmap(NULL, length, protection,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	return p;
}

/* Failures that any process may cause. */
static void test_reasons(struct ibv_pd *pd, uint64_t max_mr_size)
{
	struct ibv_context *ctx = pd->context;
	uint8_t *buf = map(64 * PAGE, PROT_READ | PROT_WRITE);

	munmap(buf + 40 * PAGE, PAGE);
	expect_no_mr(pd, buf + 5, 60 * PAGE, IBV_ACCESS_LOCAL_WRITE, EFAULT,
		     "a hole in page 40");
	expect_reason("hole", ctx, MOOR_REFUSAL_PAGE, EFAULT,
		      (uintptr_t)buf + 40 * PAGE, 0, buf + 5, 60 * PAGE);
	mprotect(buf + 7 * PAGE, PAGE, PROT_READ);
	expect_no_mr(pd, buf, 64 * PAGE, IBV_ACCESS_LOCAL_WRITE, EFAULT,
		     "page 7 read-only");
	expect_reason("read-only", ctx, MOOR_REFUSAL_PAGE, EFAULT,
		      (uintptr_t)buf + 7 * PAGE, 0, buf, 64 * PAGE);
	expect_no_mr(pd, buf, PAGE, IBV_ACCESS_LOCAL_WRITE |
		     IBV_ACCESS_HUGETLB, EOPNOTSUPP, "huge pages");
	expect_reason("flags", ctx, MOOR_REFUSAL_FLAGS, EOPNOTSUPP,
		      IBV_ACCESS_HUGETLB, 0, buf, PAGE);
	expect_no_mr(pd, buf, 0, 0, EINVAL, "no bytes");
	expect_reason("length", ctx, MOOR_REFUSAL_LENGTH, EINVAL, 0,
		      max_mr_size, buf, 0);
	/* A success does not clear the last reason. */
	ibv_dereg_mr(must_reg(pd, buf, PAGE, 0));
	expect_reason("still", ctx, MOOR_REFUSAL_LENGTH, EINVAL, 0,
		      max_mr_size, buf, 0);
	munmap(buf, 64 * PAGE);
}

/* debugfs shows root all of them, with their processes. */
static void test_debugfs_reasons(void)
{
	static const struct {
		int error;
		const char *reason;
		int count;
	} wanted[] = {
		{ EFAULT, "page", 2 }, { EOPNOTSUPP, "flags", 1 },
		{ EINVAL, "length", 1 }, { EBUSY, "windows", 1 },
	};
	char line[128];
	size_t i;

	for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		snprintf(line, sizeof(line), "%7d %-15s %5d %-8s ", getpid(),
			 "test_holders", wanted[i].error, wanted[i].reason);
		tap_is(grep("cat /sys/kernel/debug/moor/*/refusals", line, NULL,
			    0), wanted[i].count, "debugfs: %s",
		       wanted[i].reason);
	}
}

static void test_rereg_reason(void)
{
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf, PAGE, FULL);
	struct ibv_mw *mw = must_alloc_mw(pair.pd, IBV_MW_TYPE_1);

	must_bind(&apis[0], &pair.b, mw, mr, (uintptr_t)mr->addr, 100, RIGHTS);
	ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, pair.a.buf,
		     PAGE, 0);
	expect_reason("rereg with a window", pair.ctx, MOOR_REFUSAL_WINDOWS,
		      EBUSY, 1, 0, pair.a.buf, PAGE);
	ibv_dealloc_mw(mw);
	ibv_dereg_mr(mr);
}

/* The memory lock limit applies only without CAP_IPC_LOCK. */
static _Noreturn void run_as_nobody(void)
{
	struct rlimit limit = { MEMLOCK, MEMLOCK };
	struct moor_refusal why = {};
	struct ibv_device_attr attr;
	struct ibv_context *ctx;
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	uint8_t *buf;

	if (setrlimit(RLIMIT_MEMLOCK, &limit) || setgid(NOBODY) ||
	    setuid(NOBODY))
		tap_bail("becoming nobody: %s", strerror(errno));
	ctx = open_nic(NULL, &attr);
	pd = ibv_alloc_pd(ctx);
	if (!pd)
		tap_bail("ibv_alloc_pd: %s", strerror(errno));
	last_refusal(ctx, &why);
	tap_is(why.reason, MOOR_REFUSAL_NONE, "nobody: no failure yet");
	buf = map(2 * MEMLOCK, PROT_READ | PROT_WRITE);
	mr = must_reg(pd, buf, MEMLOCK / 2, IBV_ACCESS_LOCAL_WRITE);
	expect_no_mr(pd, buf, MEMLOCK, IBV_ACCESS_LOCAL_WRITE, ENOMEM,
		     "nobody: beyond the limit");
	expect_reason("nobody: memlock", ctx, MOOR_REFUSAL_MEMLOCK, ENOMEM,
		      MEMLOCK / 2, MEMLOCK, buf, MEMLOCK);
	/* A registration that moves keeps its old pages until the new ones are pinned. */
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
			    buf + MEMLOCK, MEMLOCK / 2 + PAGE, 0),
	       IBV_REREG_MR_ERR_CMD, "nobody: old and new together beyond it");
	tap_ok(errno == ENOMEM && mr->length == MEMLOCK / 2,
	       "nobody: ENOMEM, and as it was (errno %d)", errno);
	tap_is(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
			    buf + MEMLOCK, MEMLOCK / 2, 0), 0,
	       "nobody: old and new together up to it");
	ibv_dereg_mr(mr);
	mr = ibv_reg_mr(pd, buf, MEMLOCK, IBV_ACCESS_LOCAL_WRITE);
	tap_ok(mr, "nobody: up to the limit");
	ibv_dereg_mr(mr);
	test_reasons(pd, attr.max_mr_size);
	limit.rlim_cur = 0;
	setrlimit(RLIMIT_MEMLOCK, &limit);
	expect_no_mr(pd, buf, 1, IBV_ACCESS_LOCAL_WRITE, EPERM,
		     "nobody: a limit of nothing");
	expect_reason("nobody: none", ctx, MOOR_REFUSAL_MEMLOCK, EPERM, 0, 0,
		      buf, 1);
	ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	exit(tap_done());
}

/* Runs the test as nobody in a process of its own, and takes over its test points. */
static void test_as_nobody(const char *self)
{
	char command[512], line[512];
	FILE *pipe;

	snprintf(command, sizeof(command), "%s nobody", self);
	pipe = popen(command, "r");
	if (!pipe)
		tap_bail("popen: %s", strerror(errno));
	while (fgets(line, sizeof(line), pipe)) {
		line[strcspn(line, "\n")] = 0;
		tap_diag("%s", line);
	}
	tap_is(pclose(pipe), 0, "an ordinary user is told the same");
	tap_ok(grep("cat /sys/kernel/debug/moor/*/refusals", "memlock", NULL,
		    0) >= 2, "debugfs: and the administrator as well");
}

/* No window can be bound to a dma-buf, whether or not its key is good. */
static void test_taken_back(void)
{
	struct buffer b;
	uint32_t bound = 7;

	owner_open();
	b = buffer_make();
	buffer_reg(&b, pair.pd);
	tap_is(query_windows(b.mr, NULL, 0, &bound), 0, "windows of a dma-buf");
	tap_is(bound, 0, "there are none");
	bound = 7;
	owner_must(EXPORTER_TAKE_BACK, &b);
	tap_is(query_windows(b.mr, NULL, 0, &bound), 0, "of one that was taken back");
	tap_is(bound, 0, "likewise");
	tap_is(ibv_dereg_mr(b.mr), 0, "it is deregistered");
	buffer_put(&b);
	owner_close();
}

int main(int argc, char *argv[])
{
	struct ibv_device_attr attr;

	load_library();
	if (argc > 1)
		run_as_nobody();
	test_as_nobody(argv[0]);
	pair_open(&pair, open_nic(NULL, &attr), &pair_defaults);
	pair_connect(&pair);
	test_holders();
	test_many();
	test_reasons(pair.pd, attr.max_mr_size);
	test_rereg_reason();
	test_debugfs_reasons();
	test_taken_back();
	return tap_done();
}
