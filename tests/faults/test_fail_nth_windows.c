// SPDX-License-Identifier: GPL-2.0
/* timeout: 600
 *
 * Windows, on-NIC memory, and the queries of moordv.h (which windows hold an MR, why a
 * registration failed), with each allocation and copy in the kernel failing in turn.
 * Null MRs do not exist in the kernel.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/moor_user_ioctl_cmds.h>
#include <rdma/rdma_netlink.h>

#include "counts.h"
#include "fault.h"
#include "holdings.h"
#include "tap.h"
#include "walk.h"
#include "window.h"

#define PAGE		4096u
#define LENGTH		2048u

static struct pair home;
static uint8_t *small;
static struct ibv_mr *mr;	/* of @small */
static struct ibv_mw *mw;
static struct ibv_dm *dm;
static struct ibv_mr *dm_mr;

/* ---- windows ---- */

static enum ibv_mw_type mw_type;

static int alloc_mw(void)
{
	errno = 0;
	mw = ibv_alloc_mw(home.pd, mw_type);
	return mw ? 0 : errno;
}

static int dealloc_mw(void)
{
	return ibv_dealloc_mw(mw);
}

static bool writes_through(void)
{
	memset(small, 0, LENGTH);
	fill(home.a.buf, LENGTH, 5);
	return !ask(&home, IBV_WR_RDMA_WRITE, mw->rkey, (uintptr_t)small, LENGTH).status &&
	       is_filled(small, LENGTH, 5);
}

static bool bind_works(void)
{
	must_bind(&apis[0], &home.b, mw, mr, (uintptr_t)small, PAGE,
		  IBV_ACCESS_REMOTE_WRITE);
	return writes_through();
}

static int make_bound(void)
{
	mw = must_alloc_mw(home.pd, mw_type);
	return bind_works() ? 0 : EIO;
}

static void walk_windows(void)
{
	static const char * const names[][2] = {
		[IBV_MW_TYPE_1] = { "allocate a window of type 1",
				    "deallocate a bound window of type 1" },
		[IBV_MW_TYPE_2] = { "allocate a window of type 2",
				    "deallocate a bound window of type 2" },
	};

	for (mw_type = IBV_MW_TYPE_1; mw_type <= IBV_MW_TYPE_2; mw_type++) {
		walk(&(struct path){
			.name = names[mw_type][0], .call = alloc_mw,
			.works = bind_works, .after = dealloc_mw,
		});
		walk(&(struct path){
			.name = names[mw_type][1], .before = make_bound,
			.call = dealloc_mw, .intact = writes_through,
		});
	}
}

/* ---- on-NIC memory ---- */

static int alloc_dm(void)
{
	struct ibv_alloc_dm_attr attr = { .length = 2 * PAGE };

	errno = 0;
	dm = ibv_alloc_dm(home.ctx, &attr);
	return dm ? 0 : errno;
}

static int free_dm(void)
{
	return ibv_free_dm(dm);
}

static bool dm_works(void)
{
	uint64_t out = 0x0123456789abcdefULL, in = 0;

	return !ibv_memcpy_to_dm(dm, PAGE + 8, &out, sizeof(out)) &&
	       !ibv_memcpy_from_dm(&in, dm, PAGE + 8, sizeof(in)) && in == out;
}

static int reg_dm(void)
{
	errno = 0;
	dm_mr = ibv_reg_dm_mr(home.pd, dm, PAGE, PAGE,
			      IBV_ACCESS_ZERO_BASED | ALL_ACCESS);
	return dm_mr ? 0 : errno;
}

static int dereg_dm(void)
{
	return ibv_dereg_mr(dm_mr);
}

static bool dm_mr_works(void)
{
	uint8_t in[64];

	fill(home.a.buf, sizeof(in), 6);
	return !ask(&home, IBV_WR_RDMA_WRITE, dm_mr->rkey, 0, sizeof(in)).status &&
	       !ibv_memcpy_from_dm(in, dm, PAGE, sizeof(in)) &&
	       is_filled(in, sizeof(in), 6);
}

static void walk_dm(void)
{
	walk(&(struct path){
		.name = "allocate on-NIC memory", .call = alloc_dm, .works = dm_works,
		.after = free_dm,
		/* Mapping the memory fails with this. */
		.errnos = { EAGAIN },
	});
	walk(&(struct path){
		.name = "free on-NIC memory", .before = alloc_dm,
		.call = free_dm, .intact = dm_works,
	});
	must(alloc_dm, "allocate on-NIC memory");
	walk(&(struct path){
		.name = "register on-NIC memory", .call = reg_dm,
		.works = dm_mr_works, .after = dereg_dm,
	});
	walk(&(struct path){
		.name = "deregister on-NIC memory", .before = reg_dm,
		.call = dereg_dm, .intact = dm_mr_works,
	});
	must(free_dm, "free on-NIC memory");
}

/* ---- queries of moordv.h ---- */

static int (*query_windows)(struct ibv_mr *mr, struct moor_window *windows,
			    uint32_t max, uint32_t *bound);
static int (*last_refusal)(struct ibv_context *ctx, struct moor_refusal *refusal);
static struct moor_window listed[3];
static uint32_t bound;
static struct moor_refusal refusal;
static int dump_command;
static unsigned int answers;
static char debugfs_file[128];

static int ask_windows(void)
{
	return query_windows(mr, listed, 3, &bound) < 0 ? errno : 0;
}

static bool windows_told(void)
{
	return bound == 1 && listed[0].rkey == mw->rkey && listed[0].pid == getpid();
}

static int ask_refusal(void)
{
	return last_refusal(home.ctx, &refusal) < 0 ? errno : 0;
}

static int read_debugfs(void)
{
	int fd = open(debugfs_file, O_RDONLY | O_CLOEXEC);
	char text[4096];
	ssize_t n;
	int err;

	if (fd < 0)
		return errno;
	do {
		n = read(fd, text, sizeof(text));
	} while (n > 0);
	err = n ? errno : 0;
	close(fd);
	return err;
}

static int dump(void)
{
	return resource_dump(dump_command, &answers);
}

static bool dump_answers(void)
{
	return answers > 0;
}

static void walk_debugfs(const char *file)
{
	char name[64];

	snprintf(name, sizeof(name), "read debugfs' %s", file);
	snprintf(debugfs_file, sizeof(debugfs_file), "/sys/kernel/debug/moor/%s/%s",
		 nic_address(), file);
	walk(&(struct path){ .name = name, .call = read_debugfs });
}

static void walk_dump(const char *name, int command)
{
	dump_command = command;
	if (dump() || !answers)
		tap_bail("%s", name);
	walk(&(struct path){
		.name = name, .call = dump, .works = dump_answers,
		/* Of the socket itself, and of receiving its message. */
		.errnos = { ENFILE, ENOBUFS },
	});
}

static void walk_questions(void)
{
	void *library = dlopen("/run/moor/libmoor.so.1", RTLD_NOW);

	if (!library)
		tap_bail("%s", dlerror());
	query_windows = (__typeof__(query_windows))dlsym(library, "moordv_query_windows");
	last_refusal = (__typeof__(last_refusal))dlsym(library, "moordv_last_refusal");
	if (!query_windows || !last_refusal)
		tap_bail("%s", dlerror());
	mw_type = IBV_MW_TYPE_2;
	must(make_bound, "bind a window");
	walk(&(struct path){
		.name = "who holds an MR", .call = ask_windows, .works = windows_told,
	});
	walk(&(struct path){ .name = "why a registration failed", .call = ask_refusal });
	walk_debugfs("mr");
	walk_debugfs("windows");
	walk_debugfs("refusals");
	walk_dump("rdma resource show mr", RDMA_NLDEV_CMD_RES_MR_GET);
	walk_dump("rdma resource show", RDMA_NLDEV_CMD_RES_GET);
	must(dealloc_mw, "deallocate the window");
}

int main(void)
{
	struct ibv_device_attr attr;
	struct ibv_context *ctx;
	long pinned;

	if (!fault_setup()) {
		printf("1..0 # SKIP " FAULT_NONE "\n");
		return 0;
	}
	pinned = pinned_pages();
	ctx = open_nic(NULL, &attr);
	pair_open(&home, ctx, &pair_defaults);
	pair_connect(&home);
	holdings_open();
	small = home.b.buf;
	mr = must_reg(home.pd, small, PAGE, BINDABLE | IBV_ACCESS_REMOTE_WRITE);

	walk_windows();
	walk_dm();
	walk_questions();

	if (ibv_dereg_mr(mr))
		tap_bail("ibv_dereg_mr");
	return walk_done(&home, pinned);
}
