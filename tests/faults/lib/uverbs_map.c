// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "uverbs_build.h"

#define MAPS		8
#define OFFSETS		16

static struct {
	void *addr;
	size_t size;
} maps[MAPS];
static uint64_t offsets[OFFSETS];

void keep_offset(uint64_t offset)
{
	offsets[below(OFFSETS)] = offset;
}

void forget_offsets(void)
{
	memset(offsets, 0, sizeof(offsets));
}

static void unmap(uint32_t slot)
{
	/* Either the whole mapping or its first page alone. */
	if (maps[slot].addr)
		munmap(maps[slot].addr, one_in(4) ? PAGE : maps[slot].size);
	maps[slot].addr = NULL;
}

void unmap_some(void)
{
	uint32_t i;

	for (i = 0; i < MAPS; i++)
		if (one_in(2))
			unmap(i);
}

/*
 * Maps a page at an offset that a call returned, or at a random one, and writes to it
 * if that is possible.
 */
int map_something(void)
{
	uint64_t offset = one_in(6) ? below(64) * PAGE : offsets[below(OFFSETS)];
	size_t size = one_in(6) ? PAGE * (1 + below(5)) : PAGE;
	int prot = one_in(4) ? PROT_READ : PROT_READ | PROT_WRITE;
	uint32_t slot = below(MAPS);
	void *map;

	unmap(slot);
	map = mmap(NULL, size, prot, one_in(16) ? MAP_PRIVATE : MAP_SHARED, uverbs_fd,
		   offset);
	if (map == MAP_FAILED)
		return errno;
	maps[slot].addr = map;
	maps[slot].size = size;
	if (prot & PROT_WRITE)
		((volatile uint64_t *)map)[below(PAGE / 8)] = next();
	return 0;
}
