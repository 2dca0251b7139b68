// SPDX-License-Identifier: GPL-2.0
/* timeout: 600
 *
 * Registering, re-registering and deregistering memory of every shape, with each
 * allocation and copy on the way failing in turn. With a vIOMMU those are among
 * them that map memory for the NIC: of address ranges and of page tables.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>

#include "counts.h"
#include "fault.h"
#include "holdings.h"
#include "raw.h"
#include "tap.h"
#include "walk.h"
#include "window.h"

#define PAGE		4096u
#define SMALL		PAGE
#define HUGE		(2u << 20)
/* more leaves than a node holds: the table has two levels of nodes */
#define SCATTERED	(1100 * PAGE)
#define NODES		4
#define LENGTH		2048u
#define FULL		(BINDABLE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define REDUCED		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)
#define IOVA		0x10000000u
#define MAX_HELD	1024
#define ENDLESS		1000000u

static struct pair home, away;
static uint8_t *small, *huge, *scattered;
static struct ibv_mr *mr;

/* The MR's memory, and its first byte's address on the wire. */
static uint8_t *target;
static size_t target_length;
static uint64_t target_iova;
static unsigned int target_access;

static uint8_t *map(size_t length, int flags)
{
	uint8_t *p = mmap(NULL, length, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | flags, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static uint8_t *map_huge(void)
{
	FILE *file = fopen("/proc/sys/vm/nr_hugepages", "w");

	if (!file || fprintf(file, "4\n") < 0 || fclose(file))
		tap_bail("nr_hugepages: %s", strerror(errno));
	return map(HUGE, MAP_HUGETLB);
}

/* Maps pages of which no two neighbours are physically contiguous. */
static uint8_t *map_scattered(void)
{
	const size_t pages = SCATTERED / PAGE;
	uint8_t *p = map(SCATTERED, 0);
	int fd = memfd_create("scattered", MFD_CLOEXEC);
	size_t i, j;

	if (!p || fd < 0 || ftruncate(fd, SCATTERED) ||
	    fallocate(fd, 0, 0, SCATTERED))
		tap_bail("memfd: %s", strerror(errno));
	for (i = 0; i < pages; i++) {
		j = i % 2 * (pages / 2) + i / 2;
		if (mmap(p + i * PAGE, PAGE, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, j * PAGE) ==
		    MAP_FAILED)
			tap_bail("mmap: %s", strerror(errno));
	}
	close(fd);
	return p;
}

static bool has_iommu(void)
{
	DIR *dir = opendir("/sys/class/iommu");
	struct dirent *entry;
	bool found = false;

	while (dir && (entry = readdir(dir)))
		found |= entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return found;
}

/* Does a WRITE to the MR arrive at both of its ends? */
static bool moves(struct pair *pair, uint32_t rkey, uint8_t *memory, size_t length,
		  uint64_t iova)
{
	uint64_t last = length - LENGTH;

	fill(pair->a.buf, LENGTH, 5);
	memset(memory, 0, LENGTH);
	memset(memory + last, 0, LENGTH);
	if (ask(pair, IBV_WR_RDMA_WRITE, rkey, iova, LENGTH).status ||
	    !is_filled(memory, LENGTH, 5))
		return false;
	fill(pair->a.buf, LENGTH, 9);
	return !ask(pair, IBV_WR_RDMA_WRITE, rkey, iova + last, LENGTH).status &&
	       is_filled(memory + last, LENGTH, 9);
}

/* ---- registering ---- */

static int reg(void)
{
	errno = 0;
	mr = ibv_reg_mr_iova(home.pd, target, target_length, target_iova, target_access);
	return mr ? 0 : errno;
}

static int dereg(void)
{
	int err = ibv_dereg_mr(mr);

	if (!err)
		mr = NULL;
	return err;
}

static bool reg_works(void)
{
	return moves(&home, mr->rkey, target, target_length,
		     target_access & IBV_ACCESS_ZERO_BASED ? 0 : target_iova);
}

static void aim(uint8_t *memory, size_t length, uint64_t iova, unsigned int access)
{
	target = memory;
	target_length = length;
	target_iova = iova;
	target_access = access;
}

static void aim_at(uint8_t *memory, size_t length)
{
	aim(memory, length, (uintptr_t)memory, FULL);
}

static void walk_reg(const char *name)
{
	walk(&(struct path){
		.name = name, .call = reg, .works = reg_works, .after = dereg,
	});
}

/*
 * The driver keeps free table nodes for the next table. These MRs use them up, so that
 * the next table has to allocate all of its nodes: until a registration passes more
 * fault points than one that still found free nodes.
 */
static struct ibv_mr *held[MAX_HELD];
static int num_held;

static void hold_nodes(void)
{
	static unsigned int least = ENDLESS;
	unsigned int points;

	do {
		if (num_held == MAX_HELD)
			tap_bail("the driver keeps more nodes than it should");
		fault_arm(ENDLESS);
		must(reg, "register");
		points = ENDLESS - fault_disarm();
		held[num_held++] = mr;
		if (points < least)
			least = points;
	} while (points < least + 2 * NODES);
	mr = NULL;
}

static void release_nodes(void)
{
	while (num_held)
		if (ibv_dereg_mr(held[--num_held]))
			tap_bail("ibv_dereg_mr: %s", strerror(errno));
}

/* The levels of the table of the only MR of that length. */
static int levels(size_t length)
{
	char line[256];
	FILE *pipe;
	int n = -1;

	snprintf(line, sizeof(line),
		 "awk '$8 == \"%#zx\" { print $10 }' /sys/kernel/debug/moor/%s/mr", length,
		 nic_address());
	pipe = popen(line, "r");
	if (!pipe || fscanf(pipe, "%d", &n) != 1)
		tap_diag("%s", line);
	if (pipe)
		pclose(pipe);
	return n;
}

/* ---- registering by ioctl(), which libibverbs does not use yet ---- */

#define METHOD_REG_MR	5	/* newer than the headers */

static uint32_t raw_handle, raw_lkey, raw_rkey;

static int reg_raw(void)
{
	struct raw_attr attrs[] = {
		{ .id = 0 },
		{ .id = 1, .data = home.pd->handle },
		{ .id = 3, .size = 8, .data = target_iova },
		{ .id = 4, .size = 8, .data = (uintptr_t)target },
		{ .id = 5, .size = 8, .data = target_length },
		{ .id = 6, .size = 4, .data = target_access },
		{ .id = 9, .size = 4, .data = (uintptr_t)&raw_lkey },
		{ .id = 10, .size = 4, .data = (uintptr_t)&raw_rkey },
	};
	int err = raw_ioctl(home.ctx->cmd_fd, UVERBS_OBJECT_MR, METHOD_REG_MR, attrs, 8);

	raw_handle = attrs[0].data;
	return err;
}

static bool raw_works(void)
{
	return moves(&home, raw_rkey, target, target_length, target_iova);
}

static int dereg_raw(void)
{
	struct raw_attr attr = { .id = UVERBS_ATTR_DESTROY_MR_HANDLE, .data = raw_handle };

	return raw_ioctl(home.ctx->cmd_fd, UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY,
			 &attr, 1);
}

static void walk_raw(void)
{
	const char *name = "register 4 KiB by ioctl";
	int err = reg_raw();

	if (err == EPROTONOSUPPORT) {
		tap_skip("this kernel registers by write() only", "%s", name);
		return;
	}
	if (!err)
		must(dereg_raw, "deregister by ioctl");
	walk(&(struct path){
		.name = name, .call = reg_raw, .works = raw_works, .after = dereg_raw,
	});
}

static void walk_registering(void)
{
	aim_at(small, SMALL);
	walk_reg("register 4 KiB");
	walk_raw();
	aim(small, SMALL, (uintptr_t)small, IBV_ACCESS_LOCAL_WRITE |
	    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING);
	walk_reg("register, optional flags");
	aim(small, SMALL, (uintptr_t)small, FULL | IBV_ACCESS_ZERO_BASED);
	walk_reg("register, zero-based");
	aim(small, SMALL, IOVA, FULL);
	walk_reg("register, another address for the wire");
	aim_at(huge, HUGE);
	walk_reg("register a huge page");

	aim_at(scattered, SCATTERED);
	must(reg, "register");
	if (has_iommu())
		tap_is(levels(SCATTERED), 0, "scattered pages are one piece to the NIC");
	else
		tap_is(levels(SCATTERED), 2, "scattered pages need two levels of table");
	must(dereg, "deregister");
	walk(&(struct path){
		.name = "register scattered pages", .call = reg, .works = reg_works,
		.prepare = has_iommu() ? NULL : hold_nodes, .after = dereg,
	});
	release_nodes();
}

/* Nothing is mapped there: refused, after the kernel has tried to fault the page in. */
static int reg_hole(void)
{
	if (reg())
		return errno == EFAULT ? 0 : errno;
	return EEXIST;
}

static int make_hole(void)
{
	return munmap(target + PAGE, PAGE) ? errno : 0;
}

static int fill_hole(void)
{
	if (mmap(target + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		 MAP_ANONYMOUS | MAP_POPULATE | MAP_FIXED, -1, 0) == MAP_FAILED)
		return errno;
	return 0;
}

static void walk_refusing(void)
{
	uint8_t *memory = map(3 * PAGE, 0);

	aim_at(memory, 3 * PAGE);
	walk(&(struct path){
		.name = "be refused, a page is missing", .before = make_hole,
		.call = reg_hole, .after = fill_hole,
	});
	munmap(memory, 3 * PAGE);
}

/* ---- deregistering ---- */

static void walk_dereg(const char *name)
{
	walk(&(struct path){
		.name = name, .before = reg, .call = dereg, .intact = reg_works,
	});
}

static void walk_deregistering(void)
{
	aim_at(small, SMALL);
	walk_dereg("deregister 4 KiB");
	aim_at(huge, HUGE);
	walk_dereg("deregister a huge page");
	aim_at(scattered, SCATTERED);
	walk_dereg("deregister scattered pages");
}

/* ---- re-registering ---- */

static int rereg_flags;

static int rereg(void)
{
	unsigned int access = rereg_flags & IBV_REREG_MR_CHANGE_ACCESS ? REDUCED : 0;

	errno = 0;
	if (!ibv_rereg_mr(mr, rereg_flags, away.pd, scattered, SCATTERED, access))
		return 0;
	return errno ? errno : EPROTO;
}

static bool reads(struct pair *pair, uint8_t *memory, size_t length)
{
	uint8_t *last = memory + length - LENGTH;
	bool arrived;

	fill(memory, LENGTH, 3);
	fill(last, LENGTH, 4);
	arrived = !ask(pair, IBV_WR_RDMA_READ, mr->rkey, (uintptr_t)memory, LENGTH).status &&
		  is_filled(pair->a.buf, LENGTH, 3) &&
		  !ask(pair, IBV_WR_RDMA_READ, mr->rkey, (uintptr_t)last, LENGTH).status &&
		  is_filled(pair->a.buf, LENGTH, 4);
	if (!arrived)
		revive(pair);
	return arrived;
}

static bool rereg_works(void)
{
	bool moved = rereg_flags & IBV_REREG_MR_CHANGE_TRANSLATION;

	return reads(rereg_flags & IBV_REREG_MR_CHANGE_PD ? &away : &home,
		     moved ? scattered : small, moved ? SCATTERED : SMALL);
}

/*
 * Called if holdings are as before: the rereg may have taken effect all the same, or
 * not.
 */
static bool rereg_intact(void)
{
	return reads(&home, small, SMALL) || rereg_works();
}

static void walk_reregistering(void)
{
	char name[64];

	aim_at(small, SMALL);
	for (rereg_flags = 1; rereg_flags < 8; rereg_flags++) {
		snprintf(name, sizeof(name), "re-register, flags %d", rereg_flags);
		walk(&(struct path){
			.name = name, .before = reg, .call = rereg,
			.works = rereg_works, .intact = rereg_intact,
			.after = dereg, .late = true,
		});
	}
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
	ctx = open_nic(nic_name(), &attr);
	pair_open(&home, ctx, &pair_defaults);
	pair_connect(&home);
	pair_open(&away, ctx, &pair_defaults);
	pair_connect(&away);
	holdings_open();
	small = map(SMALL, 0);
	huge = map_huge();
	scattered = map_scattered();
	if (!small || !huge)
		tap_bail("mmap: %s", strerror(errno));

	walk_registering();
	walk_refusing();
	walk_deregistering();
	walk_reregistering();

	pair_close(&away);
	return walk_done(&home, pinned);
}
