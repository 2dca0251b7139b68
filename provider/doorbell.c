// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Mapping of doorbell and kick pages. The kernel puts the slots of many queues
 * on one page; a page is mapped for its first slot and unmapped with its last
 * slot.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "moor.h"

static int map_device_page(struct moor_context *ctx, uint64_t offset,
			   void **page)
{
	*page = mmap(NULL, MOOR_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
		     ctx->vctx.context.cmd_fd, offset);
	return *page == MAP_FAILED ? errno : 0;
}

static int map_pages(struct moor_context *ctx, const struct moor_doorbell *where,
		     struct moor_doorbell_page **mapped)
{
	struct moor_doorbell_page *page = calloc(1, sizeof(*page));
	int err;

	if (!page)
		return ENOMEM;
	page->offset = where->doorbell_mmap_offset;
	err = map_device_page(ctx, where->doorbell_mmap_offset,
			      &page->doorbells);
	if (err)
		goto free_page;
	err = map_device_page(ctx, where->kick_mmap_offset, &page->kicks);
	if (err)
		goto unmap_doorbells;
	list_add(&ctx->doorbell_pages, &page->entry);
	*mapped = page;
	return 0;

unmap_doorbells:
	munmap(page->doorbells, MOOR_PAGE_SIZE);
free_page:
	free(page);
	return err;
}

static void unmap_pages(struct moor_doorbell_page *page)
{
	list_del(&page->entry);
	munmap(page->kicks, MOOR_PAGE_SIZE);
	munmap(page->doorbells, MOOR_PAGE_SIZE);
	free(page);
}

static struct moor_doorbell_page *find_page(struct moor_context *ctx,
					    uint64_t offset)
{
	struct moor_doorbell_page *page;

	list_for_each(&ctx->doorbell_pages, page, entry)
		if (page->offset == offset)
			return page;
	return NULL;
}

/**
 * moor_slot_get - map the slot that the kernel gave to a queue
 * @ctx: the context
 * @where: mmap offsets of the pages, from the kernel's response
 * @slot_offset: byte offset of the slot in these pages
 * @slot: filled in
 *
 * Returns 0 or an errno.
 */
int moor_slot_get(struct moor_context *ctx, const struct moor_doorbell *where,
		  uint32_t slot_offset, struct moor_slot *slot)
{
	struct moor_doorbell_page *page;
	int err = 0;

	if (slot_offset > MOOR_PAGE_SIZE - MOOR_DB_SLOT_SIZE ||
	    slot_offset % MOOR_DB_SLOT_SIZE)
		return EPROTO;

	pthread_mutex_lock(&ctx->lock);
	page = find_page(ctx, where->doorbell_mmap_offset);
	if (!page)
		err = map_pages(ctx, where, &page);
	if (!err)
		page->users++;
	pthread_mutex_unlock(&ctx->lock);
	if (err)
		return err;

	slot->page = page;
	slot->doorbell = page->doorbells + slot_offset;
	slot->kick = page->kicks + slot_offset;
	slot->doze = ctx->doze;
	return 0;
}

/**
 * moor_slot_put - give back a slot of moor_slot_get()
 * @ctx: the context
 * @slot: the slot; the kernel has destroyed its queue
 */
void moor_slot_put(struct moor_context *ctx, struct moor_slot *slot)
{
	struct moor_doorbell_page *page = slot->page;

	pthread_mutex_lock(&ctx->lock);
	if (--page->users == 0)
		unmap_pages(page);
	pthread_mutex_unlock(&ctx->lock);
}

/**
 * moor_slots_close - unmap the pages of queues that were never destroyed
 * @ctx: the context, which is being closed
 */
void moor_slots_close(struct moor_context *ctx)
{
	struct moor_doorbell_page *page, *next;

	list_for_each_safe(&ctx->doorbell_pages, page, next, entry)
		unmap_pages(page);
}
