// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Memory of the queues. The kernel pins it and the device reads and writes
 * it, so each buffer has whole pages, which nothing else uses.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "moor.h"

static void *map_memory(size_t size)
{
	void *addr = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return addr == MAP_FAILED ? NULL : addr;
}

/*
 * Asks the allocator of @parent. Returns 0 or an errno. If buf->addr is NULL
 * after 0, the allocator wants the default.
 */
static int ask_parent(struct moor_buf *buf, struct moor_pd *parent)
{
	void *addr = parent->alloc(&parent->pd, parent->pd_context, buf->size,
				   MOOR_PAGE_SIZE, buf->resource);

	if (addr == IBV_ALLOCATOR_USE_DEFAULT)
		return 0;
	if (!addr)
		return ENOMEM;
	if ((uintptr_t)addr % MOOR_PAGE_SIZE) {
		parent->free(&parent->pd, parent->pd_context, addr,
			     buf->resource);
		return EINVAL;
	}
	buf->addr = addr;
	buf->owner = parent;
	return 0;
}

static void release(struct moor_buf *buf)
{
	if (buf->owner)
		buf->owner->free(&buf->owner->pd, buf->owner->pd_context,
				 buf->addr, buf->resource);
	else
		munmap(buf->addr, buf->size);
}

/**
 * moor_buf_alloc - get zeroed memory for a queue
 * @buf: filled in
 * @size: bytes, not 0; rounded up to whole pages
 * @parent: a parent domain whose allocator is asked first, or NULL
 * @resource: what the memory is for
 *
 * Returns 0 or an errno.
 */
int moor_buf_alloc(struct moor_buf *buf, size_t size, struct moor_pd *parent,
		   enum moor_resource resource)
{
	int err;

	*buf = (struct moor_buf){
		.size = align(size, MOOR_PAGE_SIZE),
		.resource = resource,
	};
	if (parent && parent->alloc) {
		err = ask_parent(buf, parent);
		if (err)
			return err;
	}
	if (!buf->addr)
		buf->addr = map_memory(buf->size);
	if (!buf->addr)
		return ENOMEM;

	if (ibv_dontfork_range(buf->addr, buf->size)) {
		err = errno ?: ENOMEM;
		release(buf);
		return err;
	}
	if (buf->owner)
		memset(buf->addr, 0, buf->size);
	return 0;
}

/**
 * moor_buf_free - free the memory of moor_buf_alloc()
 * @buf: memory that the device does not use any more
 */
void moor_buf_free(struct moor_buf *buf)
{
	ibv_dofork_range(buf->addr, buf->size);
	release(buf);
}
