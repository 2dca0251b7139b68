// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "given.h"
#include "tap.h"

#define PAGE		4096u
#define MAX_PAGES	64u

/* Makes a udmabuf of every other page of a file, from its end: no two are adjacent. */
int udmabuf_make(size_t size)
{
	int device = open(GIVEN_UDMABUF, O_RDWR), fd = -1;
	int file = memfd_create("dmabuf", MFD_ALLOW_SEALING);
	struct {
		struct udmabuf_create_list list;
		struct udmabuf_create_item items[MAX_PAGES];
	} create = { .list = { .count = size / PAGE } };
	unsigned int i;

	if (size > MAX_PAGES * PAGE || ftruncate(file, 2 * size) ||
	    fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK))
		tap_bail("memfd: %s", strerror(errno));
	for (i = 0; i < create.list.count; i++) {
		create.items[i].memfd = (uint32_t)file;
		create.items[i].offset = 2 * size - 2 * PAGE * (uint64_t)(i + 1);
		create.items[i].size = PAGE;
	}
	fd = ioctl(device, UDMABUF_CREATE_LIST, &create);
	close(file);
	close(device);
	return fd;
}

int heap_make(size_t size)
{
	struct dma_heap_allocation_data heap = {
		.len = size, .fd_flags = O_RDWR | O_CLOEXEC,
	};
	int device = open(GIVEN_HEAP, O_RDWR);
	int failed = ioctl(device, DMA_HEAP_IOCTL_ALLOC, &heap);

	close(device);
	return failed ? -1 : (int)heap.fd;
}
