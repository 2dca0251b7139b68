// SPDX-License-Identifier: GPL-2.0
/* Files of the client that change: cut short, read-only at first, unmapped and back. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest.h"

#define READ_WRITE	(DMA_PROT_READ | DMA_PROT_WRITE)
#define HUGE		(2u << 20)

static void test_torn(unsigned int flags, const char *what)
{
	int fd = memfd_create("guest", MFD_CLOEXEC | flags);
	uint8_t bytes[16] = { 1 }, zeros[16] = { 0 };
	struct dma_map *map = dma_map_create();

	if (fd < 0 || ftruncate(fd, 2 * HUGE)) {
		ok(true, "memory that is taken away, %s # SKIP %s", what,
		   strerror(errno));
		return;
	}
	dma_map_set_enabled(map, true);
	ok(!dma_map_add(map, 0, 2 * HUGE, READ_WRITE, fd, 0),
	   "a file is mapped, %s", what);
	if (ftruncate(fd, 0))
		abort();
	ok(dma_read(map, bytes, HUGE + 4096, sizeof(bytes)) &&
	   !memcmp(bytes, zeros, sizeof(bytes)) && dma_map_torn(),
	   "memory that is taken away reads as zeros, %s", what);
	ok(dma_write(map, 64, bytes, sizeof(bytes)), "and can be written, %s",
	   what);
	dma_map_destroy(map);
	close(fd);
}

static void test_read_only_first(void)
{
	int fd = memfd_create("guest", MFD_CLOEXEC), read_only;
	struct dma_map *map = dma_map_create();
	char path[64], text[8] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_only = open(path, O_RDONLY | O_CLOEXEC);
	if (ftruncate(fd, 4096) || read_only < 0)
		abort();
	dma_map_set_enabled(map, true);
	ok(!dma_map_add(map, 0, 4096, DMA_PROT_READ, read_only, 0),
	   "a file that is read-only, to be read");
	ok(dma_map_add(map, 4096, 4096, READ_WRITE, read_only, 0) == EACCES,
	   "to be written: EACCES");
	ok(!dma_map_add(map, 4096, 4096, READ_WRITE, fd, 0),
	   "the same file, not read-only now, to be written");
	ok(dma_write(map, 4096, "moored", 7) && dma_read(map, text, 0, 7) &&
	   !strcmp(text, "moored"), "what is written there is read here");
	ok(!dma_write(map, 0, text, 7), "which still cannot be written");
	dma_map_destroy(map);
	close(read_only);
	close(fd);
}

/* A torn mapping does not count against the next client. */
static void test_torn_by_the_last(void)
{
	struct dma_map *map = dma_map_create();
	int fd = memfd_create("guest", MFD_CLOEXEC);
	uint8_t byte;

	if (ftruncate(fd, 4096))
		abort();
	dma_map_set_enabled(map, true);
	if (dma_map_add(map, 0, 4096, READ_WRITE, fd, 0) || ftruncate(fd, 0))
		abort();
	ok(dma_read(map, &byte, 0, 1), "memory that is taken away is read");
	dma_map_clear(map);
	ok(!dma_map_torn(), "its client leaves: nothing of that is left");
	dma_map_destroy(map);
	close(fd);
}

static bool is_mapped(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	bool found = false;
	char line[256];

	if (!maps)
		abort();
	while (fgets(line, sizeof(line), maps))
		found |= !!strstr(line, name);
	fclose(maps);
	return found;
}

/* A DIMM is unplugged: the file is unmapped with its last range. */
static void test_given_up(void)
{
	int fd = memfd_create("unplugged", MFD_CLOEXEC);
	struct dma_map *map = dma_map_create();
	char text[8] = "";

	if (ftruncate(fd, 4 * 4096))
		abort();
	dma_map_set_enabled(map, true);
	ok(!dma_map_add(map, 0, 3 * 4096, READ_WRITE, fd, 0) &&
	   dma_write(map, 8192, "moored", 7), "memory is mapped");
	ok(!dma_map_remove(map, 4096, 4096) && !dma_map_remove(map, 0, 4096) &&
	   is_mapped("unplugged") && dma_read(map, text, 8192, 7) &&
	   !strcmp(text, "moored"), "and goes, but for a page: that is there");
	ok(!dma_map_remove(map, 8192, 4096) && !is_mapped("unplugged"),
	   "all of it goes: the file does, too");
	ok(!dma_map_add(map, 0, 4096, READ_WRITE, fd, 8192) &&
	   dma_read(map, text, 0, 7) && !strcmp(text, "moored"),
	   "and comes back with what was in it");
	dma_map_destroy(map);
	close(fd);
}

int main(void)
{
	log_open(NULL);
	test_torn(0, "pages of 4 KiB");
	test_torn(MFD_HUGETLB, "huge pages");
	test_read_only_first();
	test_torn_by_the_last();
	test_given_up();
	return done();
}
