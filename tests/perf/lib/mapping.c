// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <linux/mman.h>
#include <linux/udmabuf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mapping.h"

#define PAGE	4096ul
#define HUGE	(2ul << 20)
#define GIGANTIC	(1ul << 30)
#define MIB	(1ul << 20)

/* udmabuf takes 1,024 pieces and 64 MiB by default. */
const struct mapping_info mapping_info[MAPPING_KINDS] = {
	[IN_ORDER] = { "4 KiB pages", PAGE, 1024 * MIB },
	[SCATTERED] = { "4 KiB pages, scattered", PAGE, 1024 * MIB },
	[DMABUF] = { "dma-buf, scattered", PAGE, 4 * MIB },
	[THP] = { "transparent huge pages", 4 * MIB, 1024 * MIB },
	[HUGETLB] = { "2 MiB pages", 4 * MIB, 1024 * MIB },
	[ASKEW] = { "2 MiB pages, iova off a page", 4 * MIB, 1024 * MIB },
	[ODD] = { "2 MiB pages but one", 4 * MIB, 1024 * MIB },
	[HUGETLB_1G] = { "1 GiB pages", GIGANTIC, 1024 * MIB },
};

/* Touching neighbours far apart in time has them allocated far apart in memory. */
static void touch(char *at, size_t length, bool scattered)
{
	size_t step = scattered ? 7 * PAGE : PAGE, first, i;

	for (first = 0; first < step; first += PAGE)
		for (i = first; i < length; i += step)
			at[i] = 1;
}

static int map_anonymous(struct mapping *mapping)
{
	bool gigantic = mapping->kind == HUGETLB_1G;
	bool taken = mapping->kind == HUGETLB || mapping->kind == ASKEW || gigantic;
	bool given = mapping->kind == THP || mapping->kind == ODD;

	/* 1 GiB pages are aligned by themselves, and there is none to spare. */
	mapping->map_length = mapping->length + (gigantic ? 0 : HUGE);
	mapping->map = mmap(NULL, mapping->map_length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | (taken ? MAP_HUGETLB : 0) |
			    (gigantic ? MAP_HUGE_1GB : 0), -1, 0);
	if (mapping->map == MAP_FAILED)
		return -1;
	mapping->at = mapping->map + -(uintptr_t)mapping->map % HUGE;
	if (!taken)
		madvise(mapping->map, mapping->map_length, given ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	if (mapping->kind == ODD)
		madvise(mapping->at + mapping->length / 2, HUGE, MADV_NOHUGEPAGE);
	touch(mapping->at, mapping->length, mapping->kind == SCATTERED);
	return 0;
}

/* Makes a udmabuf of every other page of a file, from its end. */
static int dmabuf_of(int file, size_t length)
{
	size_t pages = length / PAGE, i;
	struct udmabuf_create_list *list = calloc(1, sizeof(*list) + pages * sizeof(*list->list));
	int device = open("/dev/udmabuf", O_RDWR), fd;

	list->count = pages;
	for (i = 0; i < pages; i++)
		list->list[i] = (struct udmabuf_create_item){
			.memfd = file, .offset = 2 * length - 2 * PAGE * (i + 1), .size = PAGE,
		};
	fd = ioctl(device, UDMABUF_CREATE_LIST, list);
	close(device);
	free(list);
	return fd;
}

static int make_dmabuf(struct mapping *mapping)
{
	int file = memfd_create("memory", MFD_ALLOW_SEALING);

	if (!ftruncate(file, 2 * mapping->length) && !fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK))
		mapping->fd = dmabuf_of(file, mapping->length);
	close(file);
	return mapping->fd < 0 ? -1 : 0;
}

int mapping_make(struct mapping *mapping, enum mapping_kind kind, size_t length)
{
	*mapping = (struct mapping){ .kind = kind, .length = length, .fd = -1 };
	if (kind == DMABUF)
		return make_dmabuf(mapping);
	if (map_anonymous(mapping))
		return -1;
	mapping->iova = (uintptr_t)mapping->at + (kind == ASKEW ? PAGE : 0);
	return 0;
}

void mapping_free(struct mapping *mapping)
{
	if (mapping->fd >= 0)
		close(mapping->fd);
	else
		munmap(mapping->map, mapping->map_length);
}
