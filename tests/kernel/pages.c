// SPDX-License-Identifier: GPL-2.0
/*
 * Memory for tests: pages that mostly do not lie side by side, of which a range is
 * mapped for DMA. Bytes are counted from the start of the first page.
 */

#include <linux/highmem.h>
#include <linux/slab.h>

#include "verbs_test.h"

/* Keeps every other page that the allocator gives, so that few lie side by side. */
bool pages_alloc(struct pages *pages, struct ib_device *dev, u32 num)
{
	struct page *between;
	u32 i;

	*pages = (struct pages){ .dev = dev };
	pages->page = kcalloc(num, sizeof(*pages->page), GFP_KERNEL);
	pages->sg = kcalloc(num, sizeof(*pages->sg), GFP_KERNEL);
	if (!pages->page || !pages->sg)
		goto fail;
	for (i = 0; i < num; i++) {
		between = alloc_page(GFP_KERNEL);
		pages->page[num - 1 - i] = alloc_page(GFP_KERNEL);
		if (between)
			__free_page(between);
		if (!pages->page[num - 1 - i])
			goto fail;
	}
	pages->num = num;
	return true;

fail:
	pages->num = num;
	pages_free(pages);
	return point(false, "%u pages of memory", num);
}

void pages_free(struct pages *pages)
{
	u32 i;

	pages_unmap(pages);
	for (i = 0; pages->page && i < pages->num; i++)
		if (pages->page[i])
			__free_page(pages->page[i]);
	kfree(pages->page);
	kfree(pages->sg);
	pages->page = NULL;
}

/* The list has an entry for each page that the range touches. */
bool pages_map(struct pages *pages, u32 offset, u32 length)
{
	u32 first = offset / PAGE_SIZE, done = 0, i;

	pages_unmap(pages);
	pages->nents = DIV_ROUND_UP(offset % PAGE_SIZE + length, PAGE_SIZE);
	if (!length || first + pages->nents > pages->num)
		return false;
	sg_init_table(pages->sg, pages->nents);
	for (i = 0; i < pages->nents; i++) {
		u32 in = i ? 0 : offset % PAGE_SIZE;
		u32 part = min_t(u32, PAGE_SIZE - in, length - done);

		sg_set_page(&pages->sg[i], pages->page[first + i], part, in);
		done += part;
	}
	pages->offset = offset;
	pages->length = length;
	pages->mapped = ib_dma_map_sg(pages->dev, pages->sg, pages->nents,
				      DMA_BIDIRECTIONAL);
	return pages->mapped > 0;
}

void pages_unmap(struct pages *pages)
{
	if (pages->mapped)
		ib_dma_unmap_sg(pages->dev, pages->sg, pages->nents,
				DMA_BIDIRECTIONAL);
	pages->mapped = 0;
}

static u8 pattern(u8 seed, u32 byte)
{
	return seed + byte * 7 + byte / 251;
}

/*
 * Visits the bytes of the mapped range, or those outside of it. The callers sync it for
 * the CPU and, after writes, for the device.
 */
static bool visit(struct pages *pages, bool inside, bool put, bool patterned,
		  u8 value)
{
	u32 byte, in_range;
	bool outside;

	for (byte = 0; byte < pages->num * PAGE_SIZE; byte++) {
		u8 *at = (u8 *)page_address(pages->page[byte / PAGE_SIZE]) +
			 byte % PAGE_SIZE;

		in_range = byte - pages->offset;
		outside = in_range >= pages->length;
		if (inside == outside)
			continue;
		if (put)
			*at = patterned ? pattern(value, in_range) : value;
		else if (READ_ONCE(*at) !=
			 (patterned ? pattern(value, in_range) : value))
			return false;
	}
	return true;
}

static void for_cpu(struct pages *pages)
{
	if (pages->mapped && !ib_uses_virt_dma(pages->dev))
		dma_sync_sg_for_cpu(pages->dev->dma_device, pages->sg,
				    pages->nents, DMA_BIDIRECTIONAL);
}

static void for_device(struct pages *pages)
{
	if (pages->mapped && !ib_uses_virt_dma(pages->dev))
		dma_sync_sg_for_device(pages->dev->dma_device, pages->sg,
				       pages->nents, DMA_BIDIRECTIONAL);
}

/* A pattern into the range. */
void pages_fill(struct pages *pages, u8 seed)
{
	for_cpu(pages);
	visit(pages, true, true, true, seed);
	for_device(pages);
}

/* One value into all of the memory. */
void pages_set(struct pages *pages, u8 value)
{
	for_cpu(pages);
	visit(pages, true, true, false, value);
	visit(pages, false, true, false, value);
	for_device(pages);
}

/* Is the pattern in the range? */
bool pages_are(struct pages *pages, u8 seed)
{
	for_cpu(pages);
	return visit(pages, true, false, true, seed);
}

/* Is the value all over the range? */
bool pages_all(struct pages *pages, u8 value)
{
	for_cpu(pages);
	return visit(pages, true, false, false, value);
}

/* Is the value everywhere outside of the range? */
bool pages_same_outside(struct pages *pages, u8 value)
{
	return visit(pages, false, false, false, value);
}

bool buffer_open(struct buffer *buffer, struct ib_device *dev, u32 size)
{
	*buffer = (struct buffer){ .dev = dev, .size = size };
	buffer->mem = alloc_pages_exact(size, GFP_KERNEL | __GFP_ZERO);
	if (!buffer->mem)
		return point(false, "%u bytes of memory in one piece", size);
	buffer->dma = ib_dma_map_single(dev, buffer->mem, size,
					DMA_BIDIRECTIONAL);
	if (!ib_dma_mapping_error(dev, buffer->dma))
		return true;
	free_pages_exact(buffer->mem, size);
	buffer->mem = NULL;
	return point(false, "%u bytes are mapped for DMA", size);
}

void buffer_close(struct buffer *buffer)
{
	if (!buffer->mem)
		return;
	ib_dma_unmap_single(buffer->dev, buffer->dma, buffer->size,
			    DMA_BIDIRECTIONAL);
	free_pages_exact(buffer->mem, buffer->size);
}

struct ib_sge buffer_sge(struct link *link, struct buffer *buffer, u32 length)
{
	return (struct ib_sge){
		.addr = buffer->dma,
		.length = length,
		.lkey = link->pd->local_dma_lkey,
	};
}

void buffer_fill(struct buffer *buffer, u32 length, u8 seed)
{
	u32 i;

	ib_dma_sync_single_for_cpu(buffer->dev, buffer->dma, buffer->size,
				   DMA_BIDIRECTIONAL);
	for (i = 0; i < length; i++)
		buffer->mem[i] = pattern(seed, i);
	ib_dma_sync_single_for_device(buffer->dev, buffer->dma, buffer->size,
				      DMA_BIDIRECTIONAL);
}

bool buffer_is(struct buffer *buffer, u32 length, u8 seed)
{
	u32 i;

	ib_dma_sync_single_for_cpu(buffer->dev, buffer->dma, buffer->size,
				   DMA_BIDIRECTIONAL);
	for (i = 0; i < length; i++)
		if (buffer->mem[i] != pattern(seed, i))
			return false;
	return true;
}
