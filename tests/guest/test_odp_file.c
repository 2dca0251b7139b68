// SPDX-License-Identifier: GPL-2.0
/*
 * A shared mapping of a file on a disk. The file system has to learn of every page that
 * is written: memory that is paged on demand tells it, page by page, and again after
 * each time that the page has gone to the disk; pinned memory cannot, so that the core
 * refuses to pin it for writing.
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
#include "window.h"

#define DISK	"/dev/ram0"
#define PLACE	"/run/test_odp_file"
#define FILE_	PLACE "/file"
#define PAGES	4u
#define SIZE	(PAGES * PAGE)
#define ROUNDS	6

static struct ibv_pd *pd;
static struct pair pair;
static uint8_t *there;			/* the file's mapping */
static uint8_t *on_disk;		/* what was read from it last */
static int file, direct;		/* the latter passes by the page cache */

static bool runs(const char *command)
{
	return system(command) == 0;
}

/* Return: false if the kernel has no disk of memory, or no file system for it. */
static bool mount_disk(void)
{
	if (!runs("modprobe brd rd_nr=1 rd_size=16384 2>/dev/null") ||
	    !runs("modprobe ext4 2>/dev/null"))
		return false;
	if (!runs("mkfs.ext4 -q -F " DISK " && mkdir -p " PLACE) ||
	    mount(DISK, PLACE, "ext4", 0, NULL))
		tap_bail("a file system on " DISK ": %s", strerror(errno));
	return true;
}

static void open_file(void)
{
	file = open(FILE_, O_RDWR | O_CREAT | O_TRUNC, 0600);
	direct = open(FILE_, O_RDONLY | O_DIRECT);
	if (file < 0 || direct < 0 || ftruncate(file, SIZE))
		tap_bail(FILE_ ": %s", strerror(errno));
	there = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (there == MAP_FAILED ||
	    posix_memalign((void **)&on_disk, PAGE, SIZE))
		tap_bail("mmap: %s", strerror(errno));
}

static bool disk_has(const uint8_t *data)
{
	return pread(direct, on_disk, SIZE, 0) == SIZE && !memcmp(on_disk, data, SIZE);
}

/* The NIC copies the pair's buffer into the file, or the file into the buffer. */
static bool moves(enum ibv_wr_opcode opcode, const struct ibv_mr *mr)
{
	return !ask(&pair, opcode, mr->rkey, (uintptr_t)there, SIZE).status;
}

static void test_pinned(void)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_mr(pd, there, SIZE, ALL_ACCESS);
	tap_ok(!mr && errno == EFAULT, "pinned for writing: EFAULT (errno %d)", errno);
	mr = must_reg(pd, there, SIZE, IBV_ACCESS_REMOTE_READ);
	memset(there, 0x5a, SIZE);
	tap_ok(moves(IBV_WR_RDMA_READ, mr) && pair.a.buf[SIZE - 1] == 0x5a,
	       "pinned for reading: works");
	ibv_dereg_mr(mr);
}

static void test_paged(void)
{
	struct ibv_mr *mr = must_reg(pd, there, SIZE, ON_DEMAND);
	unsigned int round, written = 0, seen = 0, kept = 0, dropped = 0;
	uint8_t was[SIZE];

	for (round = 0; round < ROUNDS; round++) {
		memset(pair.a.buf, 0x10 + round, SIZE);
		memcpy(was, pair.a.buf, SIZE);
		written += moves(IBV_WR_RDMA_WRITE, mr);
		seen += !memcmp(there, was, SIZE);
		/* The page is clean from here on, and may not be written unnoticed. */
		kept += !fsync(file) && disk_has(was);
		if (round % 2)
			dropped += !madvise(there, SIZE, MADV_DONTNEED) &&
				   !posix_fadvise(file, 0, SIZE, POSIX_FADV_DONTNEED);
		memset(pair.a.buf, 0, SIZE);
		seen += moves(IBV_WR_RDMA_READ, mr) && !memcmp(pair.a.buf, was, SIZE);
	}
	tap_is(dropped, ROUNDS / 2, "pages go from memory, and come back");
	tap_is(written, ROUNDS, "on demand: the NIC writes the file");
	tap_is(seen, 2 * ROUNDS, "the process sees it, and so does the NIC");
	tap_is(kept, ROUNDS, "and the disk has it after each fsync()");

	memset(was, 0x77, SIZE);
	tap_ok(pwrite(file, was, SIZE, 0) == SIZE && moves(IBV_WR_RDMA_READ, mr) &&
	       !memcmp(pair.a.buf, was, SIZE), "the NIC reads what write() wrote");

	/* What is cut off is no memory any more. */
	if (ftruncate(file, PAGE))
		tap_bail("ftruncate: %s", strerror(errno));
	tap_is(ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, (uintptr_t)there, SIZE).status,
	       IBV_WC_REM_ACCESS_ERR, "a file cut short: beyond its end");
	revive(&pair);
	tap_is(ask(&pair, IBV_WR_RDMA_WRITE, mr->rkey, (uintptr_t)there, PAGE).status,
	       IBV_WC_SUCCESS, "a file cut short: what is left");
	if (ftruncate(file, SIZE))
		tap_bail("ftruncate: %s", strerror(errno));
	memset(pair.a.buf, 0xff, SIZE);
	tap_ok(moves(IBV_WR_RDMA_READ, mr) && !pair.a.buf[PAGE] && !pair.a.buf[SIZE - 1],
	       "and long again: zeros");
	tap_is(ibv_dereg_mr(mr), 0, "deregistered");
}

int main(void)
{
	struct ibv_device_attr attr;
	struct ibv_context *ctx;

	if (!mount_disk()) {
		tap_skip("the kernel is built without brd or ext4", "a file on a disk");
		return tap_done();
	}
	open_file();
	ctx = open_nic(NULL, &attr);
	pair.pd = ibv_alloc_pd(ctx);
	pd = pair.pd;
	pair_open(&pair, ctx, &pair_defaults);
	pair_connect(&pair);
	test_pinned();
	test_paged();
	pair_close(&pair);
	tap_is(ibv_dealloc_pd(pd), 0, "nothing holds the PD");
	ibv_close_device(ctx);
	munmap(there, SIZE);
	free(on_disk);
	close(direct);
	close(file);
	tap_ok(!umount(PLACE) && !rmdir(PLACE) && runs("modprobe -r brd"),
	       "nothing holds the file system");
	return tap_done();
}
