// SPDX-License-Identifier: GPL-2.0
/*
 * Doorbell slots of the kernel's queues. They come from page 0 and, when these are
 * used up, from pages that no process has.
 */

#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/slab.h>

#include "moor.h"

/* Page 0 is mapped anyway, for the command ring and the event queues. */
int moor_kernel_pages_init(struct moor_dev *mdev)
{
	struct moor_kernel_page *page = kzalloc_obj(*page);

	if (!page)
		return -ENOMEM;
	page->slots = mdev->db;
	page->kicks = mdev->kick;
	bitmap_set(page->used, 0, MOOR_DB_SLOT_KERNEL_FIRST);
	page->num_free = MOOR_DB_SLOTS_PER_PAGE - MOOR_DB_SLOT_KERNEL_FIRST;
	mutex_init(&mdev->kernel_pages.lock);
	INIT_LIST_HEAD(&mdev->kernel_pages.list);
	list_add(&page->list, &mdev->kernel_pages.list);
	return 0;
}

/* Pages are kept until the device goes, because slots are needed again. */
void moor_kernel_pages_destroy(struct moor_dev *mdev)
{
	struct moor_kernel_page *page, *next;

	list_for_each_entry_safe(page, next, &mdev->kernel_pages.list, list) {
		if (page->index) {
			iounmap(page->kicks);
			iounmap(page->slots);
			moor_db_free_page(mdev, page->index);
		}
		kfree(page);
	}
	mutex_destroy(&mdev->kernel_pages.lock);
}

static struct moor_kernel_page *moor_kernel_page_new(struct moor_dev *mdev)
{
	struct moor_kernel_page *page = kzalloc_obj(*page);
	phys_addr_t addr = mdev->db_bar;

	if (!page)
		return NULL;
	page->num_free = MOOR_DB_SLOTS_PER_PAGE;
	if (moor_db_alloc_page(mdev, &page->index))
		goto free_page;
	addr += (phys_addr_t)page->index * MOOR_PAGE_SIZE;
	page->slots = ioremap(addr, MOOR_PAGE_SIZE);
	if (!page->slots)
		goto free_index;
	page->kicks = ioremap(addr + mdev->caps.kick_offset, MOOR_PAGE_SIZE);
	if (!page->kicks)
		goto unmap;
	list_add_tail(&page->list, &mdev->kernel_pages.list);
	return page;

unmap:
	iounmap(page->slots);
free_index:
	moor_db_free_page(mdev, page->index);
free_page:
	kfree(page);
	return NULL;
}

/**
 * moor_kernel_slot_alloc - take a doorbell slot for a queue of the kernel
 * @mdev: device
 * @slot: filled in
 *
 * Return: 0, or -ENOMEM if there is no memory or no doorbell page left.
 */
int moor_kernel_slot_alloc(struct moor_dev *mdev, struct moor_kernel_slot *slot)
{
	struct moor_kernel_pages *pages = &mdev->kernel_pages;
	struct moor_kernel_page *page;

	mutex_lock(&pages->lock);
	list_for_each_entry(page, &pages->list, list) {
		if (page->num_free)
			goto found;
	}
	page = moor_kernel_page_new(mdev);
	if (!page) {
		mutex_unlock(&pages->lock);
		return -ENOMEM;
	}
found:
	slot->page = page;
	slot->number = find_first_zero_bit(page->used, MOOR_DB_SLOTS_PER_PAGE);
	slot->bell = page->slots + slot->number * MOOR_DB_SLOT_SIZE;
	__set_bit(slot->number, page->used);
	page->num_free--;
	mutex_unlock(&pages->lock);
	return 0;
}

/**
 * moor_kernel_slot_free - give a slot back; nothing is tied to it any more
 * @mdev: device
 * @slot: slot; may never have been taken
 */
void moor_kernel_slot_free(struct moor_dev *mdev, struct moor_kernel_slot *slot)
{
	if (!slot->page)
		return;
	mutex_lock(&mdev->kernel_pages.lock);
	__clear_bit(slot->number, slot->page->used);
	slot->page->num_free++;
	mutex_unlock(&mdev->kernel_pages.lock);
	slot->page = NULL;
}

/**
 * moor_kernel_slot_location - name a slot to the device
 * @slot: slot
 *
 * Return: page and slot (HWI 5.1)
 */
__le32 moor_kernel_slot_location(const struct moor_kernel_slot *slot)
{
	return cpu_to_le32(FIELD_PREP(MOOR_DB_PAGE, slot->page->index) |
			   FIELD_PREP(MOOR_DB_SLOT, slot->number));
}

/**
 * moor_kernel_slot_kick - wake a device that dozes (HWI 5.2)
 * @mdev: device
 * @slot: slot that has been stored
 *
 * Either this task sees that the device dozes, or the device sees the slot before it
 * dozes. The dozing word of a dead device stays as it was, but no register of a dead
 * device may be touched (moor_hw_kill()).
 */
void moor_kernel_slot_kick(struct moor_dev *mdev,
			   const struct moor_kernel_slot *slot)
{
	/* Orders the loads after the stores of the slot and the head (moor_wq_tell()). */
	mb();
	if (unlikely(le32_to_cpu(READ_ONCE(*mdev->doze))) && !moor_is_dead(mdev))
		writel(1, slot->page->kicks +
			  slot->number * MOOR_DB_SLOT_SIZE);
}
