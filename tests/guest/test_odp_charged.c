// SPDX-License-Identifier: GPL-2.0
/*
 * On-demand paging and memory cgroups: the page cache that the NIC's accesses fill, and
 * the tables that they need, are charged to the process that registered the memory,
 * although a worker of the kernel makes them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "paged.h"
#include "tap.h"

#define SIZE	(4u << 20)
#define BRANCH	(2ul << 20)	/* memory behind one node of a table */
#define BRANCHES	2048
#define POOL	1024		/* nodes that the driver may have kept of other tables */
#define ROOT	"/tmp/moor-cgroup"
#define GROUP	ROOT "/moor-charged"

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return good;
}

/* Moves this process to a cgroup of its own that counts memory. */
static bool enter_group(void)
{
	mkdir(ROOT, 0700);
	return !mount("none", ROOT, "cgroup2", 0, NULL) &&
	       write_file(ROOT "/cgroup.subtree_control", "+memory") &&
	       !mkdir(GROUP, 0700) && write_file(GROUP "/cgroup.procs", "0");
}

static void leave_group(void)
{
	write_file(ROOT "/cgroup.procs", "0");
	rmdir(GROUP);
	umount(ROOT);
	rmdir(ROOT);
}

/*
 * Bytes of a kind of memory that are charged to the group. The kernel adds up its counters
 * when some 64 pages a processor have changed, or after seconds: the last ones may be missing.
 */
static long long charged(const char *kind)
{
	FILE *file = fopen(GROUP "/memory.stat", "r");
	long long bytes = -1, value;
	char name[64];

	while (file && bytes < 0 && fscanf(file, "%63s %lld", name, &value) == 2)
		if (!strcmp(name, kind))
			bytes = value;
	if (file)
		fclose(file);
	return bytes;
}

/* A mapped file of which nothing is in the page cache. */
static uint8_t *map_uncached(int *fd)
{
	char path[] = "build/charged-XXXXXX";
	uint8_t *buf = malloc(SIZE), *at;

	*fd = mkstemp(path);
	if (*fd < 0 || !buf)
		tap_bail("a file in build/: %s", strerror(errno));
	unlink(path);
	fill(buf, SIZE, 9);
	if (write(*fd, buf, SIZE) != SIZE || fsync(*fd) ||
	    posix_fadvise(*fd, 0, SIZE, POSIX_FADV_DONTNEED))
		tap_bail("writing the file: %s", strerror(errno));
	free(buf);
	at = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, *fd, 0);
	if (at == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	return at;
}

static void test_page_cache(struct pair *pair)
{
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = 7, .length = SIZE,
		.remote = (uintptr_t)pair->b.buf, .rkey = pair->b.mr->rkey,
	};
	long long before, after;
	struct ibv_wc wc;
	struct ibv_mr *mr;
	uint8_t *at;
	int fd;

	at = map_uncached(&fd);
	mr = ibv_reg_mr(pair->pd, at, SIZE, IBV_ACCESS_ON_DEMAND);
	if (!mr)
		tap_bail("ibv_reg_mr: %s", strerror(errno));
	before = charged("file");
	request.local = at;
	request.lkey = mr->lkey;
	tap_ok(!post(&pair->a, &request) && wait_wc(pair->a.send_cq, &wc) && !wc.status &&
	       is_filled(pair->b.buf, SIZE, 9), "the NIC reads the file");
	after = charged("file");
	tap_ok(after - before >= SIZE / 2, "and the process's group is charged: %lld bytes of %u",
	       after - before, SIZE);
	ibv_dereg_mr(mr);
	munmap(at, SIZE);
	close(fd);
}

/* Pages far apart: a node and the driver's copy of it (8 KiB) for each of them. */
static void test_tables(struct pair *pair)
{
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = 8, .length = 1,
		.remote = (uintptr_t)pair->b.buf, .rkey = pair->b.mr->rkey,
	};
	uint8_t *at = mmap(NULL, BRANCHES * BRANCH, PROT_READ,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	long long before, least;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	int i;

	if (at == MAP_FAILED)
		tap_bail("mmap: %s", strerror(errno));
	madvise(at, BRANCHES * BRANCH, MADV_NOHUGEPAGE);
	mr = ibv_reg_mr(pair->pd, at, BRANCHES * BRANCH, IBV_ACCESS_ON_DEMAND);
	if (!mr)
		tap_bail("ibv_reg_mr: %s", strerror(errno));
	before = charged("kernel") - charged("pagetables");
	request.lkey = mr->lkey;
	for (i = 0; i < BRANCHES; i++) {
		request.local = at + i * BRANCH;
		if (post(&pair->a, &request) || !wait_wc(pair->a.send_cq, &wc) ||
		    wc.status)
			break;
	}
	tap_is(i, BRANCHES, "the NIC reads pages that are far apart");
	least = BRANCHES * 8192ll + (BRANCHES - POOL) * 4096ll;
	tap_ok(charged("kernel") - charged("pagetables") - before >= least,
	       "their tables are charged: %lld bytes, at least %lld expected",
	       charged("kernel") - charged("pagetables") - before, least);
	ibv_dereg_mr(mr);
	munmap(at, BRANCHES * BRANCH);
}

int main(void)
{
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;
	struct pair pair = {};

	config.buffer_size = SIZE;
	pair_open(&pair, open_nic(NULL, &attr), &config);
	pair_connect(&pair);
	if (enter_group()) {
		test_page_cache(&pair);
		test_tables(&pair);
	} else {
		tap_skip("no memory cgroups here", "the page cache is charged: %s",
			 strerror(errno));
	}
	leave_group();
	pair_close(&pair);
	return tap_done();
}
