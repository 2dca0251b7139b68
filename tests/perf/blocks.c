// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: blocks ROUNDS NAME=DISK [NAME=DISK...]
 *
 * Counts the guest's instructions (lib/spare.h) for reading and writing blocks past the
 * page cache: of 4 and of 128 KiB, one and 16 at a time, on the disks in turn, ROUNDS
 * times. Prints the figures of each round (lib/figures.h). The disks' contents are
 * lost.
 *
 * The kernel's own asynchronous I/O, without a library; consecutive blocks are not
 * adjacent, or the block layer would merge the requests.
 */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <linux/fs.h>
#include <unistd.h>

#include "figures.h"
#include "spare.h"
#include "tap.h"

#define DEPTH_MAX	16u
#define LARGE	(128u << 10)
#define DISKS_MAX	8
#define STRIDE		3u

struct disk {
	char *name;
	int fd;
	uint64_t bytes;
};

struct load {
	const char *what;
	bool writes;
	unsigned int size, depth, count;
};

static const struct load loads[] = {
	{ "read, 1 at a time", false, 4096, 1, 1600 },
	{ "write, 1 at a time", true, 4096, 1, 1600 },
	{ "read, 16 at a time", false, 4096, 16, 3200 },
	{ "write, 16 at a time", true, 4096, 16, 3200 },
	{ "read, 1 at a time", false, LARGE, 1, 160 },
	{ "write, 1 at a time", true, LARGE, 1, 160 },
	{ "read, 16 at a time", false, LARGE, 16, 320 },
	{ "write, 16 at a time", true, LARGE, 16, 320 },
};

static struct disk disks[DISKS_MAX];
static aio_context_t context;
static uint8_t *buffers;

static void submit(struct iocb **list, long num)
{
	while (num) {
		long done = syscall(SYS_io_submit, context, num, list);

		if (done <= 0)
			tap_bail("io_submit: %m");
		list += done;
		num -= done;
	}
}

/* The offset of a request: every block comes once before any comes again. */
static uint64_t place(const struct disk *disk, const struct load *load, unsigned int number)
{
	uint64_t blocks = disk->bytes / load->size;

	while (blocks % STRIDE == 0)
		blocks--;
	return (uint64_t)number * STRIDE % blocks * load->size;
}

/* Runs @count requests of a kind, with up to @load->depth under way. */
static void run(const struct disk *disk, const struct load *load, unsigned int count)
{
	struct iocb blocks[DEPTH_MAX] = { 0 }, *list[DEPTH_MAX];
	unsigned int issued = 0, done = 0, again, i;
	struct io_event events[DEPTH_MAX];
	long num;

	for (i = 0; i < load->depth && i < count; i++) {
		blocks[i].aio_lio_opcode = load->writes ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
		blocks[i].aio_fildes = disk->fd;
		blocks[i].aio_buf = (uintptr_t)(buffers + i * LARGE);
		blocks[i].aio_nbytes = load->size;
		blocks[i].aio_offset = place(disk, load, issued++);
		list[i] = &blocks[i];
	}
	submit(list, i);
	while (done < count) {
		num = syscall(SYS_io_getevents, context, 1, (long)DEPTH_MAX, events, NULL);
		if (num <= 0)
			tap_bail("io_getevents: %m");
		for (again = 0, i = 0; i < num; i++) {
			struct iocb *block = (struct iocb *)(uintptr_t)events[i].obj;

			if (events[i].res != load->size)
				tap_bail("%s: %s: %lld", disk->name, load->what,
					 (long long)events[i].res);
			if (issued == count)
				continue;
			block->aio_offset = place(disk, load, issued++);
			list[again++] = block;
		}
		submit(list, again);
		done += num;
	}
}

static void measure(const struct disk *disk, const struct load *load)
{
	struct sort sort = { .kind = "", .size = load->size, .of = "bytes" };
	struct figure figure = { .count = 1 };
	uint64_t start, passed;

	run(disk, load, 4 * load->depth + 16);
	start = busy();
	passed = now_ns();
	run(disk, load, load->count);
	figure.took[0] = (busy() - start) / load->count;
	/* The same with the time of waiting, and without subtracting idle turns. */
	fprintf(stderr, "%s: %u bytes, %s: %llu, waiting included\n", disk->name, load->size,
		load->what, (unsigned long long)((now_ns() - passed) / load->count));
	show(&figure, load->what, &sort, disk->name);
}

static void open_disk(struct disk *disk, char *argument)
{
	char *path = strchr(argument, '=');

	if (!path)
		tap_bail("%s: NAME=DISK expected", argument);
	*path++ = '\0';
	disk->name = argument;
	disk->fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (disk->fd < 0 || ioctl(disk->fd, BLKGETSIZE64, &disk->bytes))
		tap_bail("%s: %m", path);
}

/* Pages of one size, so that requests have the same number of pieces on all disks. */
static void make_buffers(void)
{
	const size_t length = DEPTH_MAX * LARGE;

	buffers = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffers == MAP_FAILED || madvise(buffers, length, MADV_NOHUGEPAGE))
		tap_bail("no memory");
	memset(buffers, 0x5a, length);
}

int main(int argc, char **argv)
{
	const struct load all = { "write all", true, LARGE, 1, 0 };
	int num = argc - 2, rounds = argc > 1 ? atoi(argv[1]) : 0, round, i;
	unsigned int l;

	if (rounds < 1 || num < 1 || num > DISKS_MAX) {
		fprintf(stderr, "usage: blocks ROUNDS NAME=DISK [NAME=DISK...]\n");
		return 1;
	}
	for (i = 0; i < num; i++)
		open_disk(&disks[i], argv[i + 2]);
	make_buffers();
	if (syscall(SYS_io_setup, DEPTH_MAX, &context))
		tap_bail("io_setup: %m");
	/* Write everything once, so that the disk has allocated all of its memory. */
	run(&disks[0], &all, disks[0].bytes / LARGE);
	spare_begin();
	for (l = 0; l < sizeof(loads) / sizeof(*loads); l++)
		for (round = 0; round < rounds; round++)
			for (i = 0; i < num; i++)
				measure(&disks[i], &loads[l]);
	return 0;
}
