// SPDX-License-Identifier: GPL-2.0
/*
 * Doorbell pages and slots (HWI 5). A page belongs to one process, from the first queue
 * that needs it, or the first memory that is paged, until its context is gone: mapping
 * it gives power over that process's queues alone.
 */

#include <linux/slab.h>

#include "moor.h"

int moor_db_init(struct moor_dev *mdev)
{
	spin_lock_init(&mdev->db_used_lock);
	mdev->db_used = bitmap_zalloc(mdev->caps.db_pages, GFP_KERNEL);
	if (!mdev->db_used)
		return -ENOMEM;
	__set_bit(0, mdev->db_used);
	return 0;
}

void moor_db_destroy(struct moor_dev *mdev)
{
	bitmap_free(mdev->db_used);
}

/**
 * moor_db_alloc_page - take a doorbell page that is free
 * @mdev: device
 * @index: filled in
 *
 * Return: 0 or -ENOMEM.
 */
int moor_db_alloc_page(struct moor_dev *mdev, u32 *index)
{
	u32 pages = mdev->caps.db_pages;
	int err = -ENOMEM;

	spin_lock(&mdev->db_used_lock);
	*index = find_first_zero_bit(mdev->db_used, pages);
	if (*index < pages) {
		__set_bit(*index, mdev->db_used);
		err = 0;
	}
	spin_unlock(&mdev->db_used_lock);
	return err;
}

/**
 * moor_db_free_page - give a doorbell page back to the device's pool
 * @mdev: device
 * @index: of the page; nothing maps it any more
 */
void moor_db_free_page(struct moor_dev *mdev, u32 index)
{
	spin_lock(&mdev->db_used_lock);
	__clear_bit(index, mdev->db_used);
	spin_unlock(&mdev->db_used_lock);
}

static void moor_db_release_page(struct moor_db_page *page)
{
	/* Kick first: moor_mmap_free() frees the index with the doorbell. */
	rdma_user_mmap_entry_remove(&page->kick->rdma_entry);
	rdma_user_mmap_entry_remove(&page->doorbell->rdma_entry);
	kfree(page);
}

static struct moor_db_page *moor_db_new_page(struct moor_ucontext *uctx)
{
	struct moor_dev *mdev = to_mdev(uctx->ibucontext.device);
	struct moor_db_page *page;
	int err;

	page = kzalloc_obj(*page);
	if (!page)
		return ERR_PTR(-ENOMEM);
	page->num_free = MOOR_DB_SLOTS_PER_PAGE;
	err = moor_db_alloc_page(mdev, &page->index);
	if (err)
		goto free_page;

	page->doorbell = moor_mmap_insert(uctx, MOOR_MMAP_DOORBELL,
					  page->index, 1);
	if (IS_ERR(page->doorbell)) {
		err = PTR_ERR(page->doorbell);
		moor_db_free_page(mdev, page->index);
		goto free_page;
	}
	page->kick = moor_mmap_insert(uctx, MOOR_MMAP_KICK, page->index, 1);
	if (IS_ERR(page->kick)) {
		err = PTR_ERR(page->kick);
		rdma_user_mmap_entry_remove(&page->doorbell->rdma_entry);
		goto free_page;
	}
	list_add(&page->list, &uctx->db_pages);
	return page;

free_page:
	kfree(page);
	return ERR_PTR(err);
}

/* A page with @num free slots: one that is there, or a new one. */
static struct moor_db_page *moor_db_page_with(struct moor_ucontext *uctx,
					      u32 num)
{
	struct moor_db_page *page;

	lockdep_assert_held(&uctx->db_lock);

	list_for_each_entry(page, &uctx->db_pages, list) {
		if (page->num_free >= num)
			return page;
	}
	return moor_db_new_page(uctx);
}

/**
 * moor_db_have_page - make sure that a context has a doorbell page
 * @uctx: context
 *
 * The device has a limited number of them: so there are no more contexts with what is
 * allocated after this.
 *
 * Return: 0, or -ENOMEM if there is no memory or no doorbell page left.
 */
int moor_db_have_page(struct moor_ucontext *uctx)
{
	struct moor_db_page *page;

	mutex_lock(&uctx->db_lock);
	page = moor_db_page_with(uctx, 0);
	mutex_unlock(&uctx->db_lock);
	return PTR_ERR_OR_ZERO(page);
}

/**
 * moor_db_alloc - take slots of one page
 * @uctx: context they are for
 * @db: filled in
 * @num: how many, 1 or 2
 *
 * Return: 0, or -ENOMEM if there is no memory or no doorbell page left.
 */
int moor_db_alloc(struct moor_ucontext *uctx, struct moor_db *db, u32 num)
{
	struct moor_db_page *page;
	u32 i;

	mutex_lock(&uctx->db_lock);
	page = moor_db_page_with(uctx, num);
	if (IS_ERR(page)) {
		mutex_unlock(&uctx->db_lock);
		return PTR_ERR(page);
	}
	for (i = 0; i < num; i++) {
		db->slot[i] = find_first_zero_bit(page->used,
						  MOOR_DB_SLOTS_PER_PAGE);
		__set_bit(db->slot[i], page->used);
	}
	page->num_free -= num;
	db->page = page;
	db->num = num;
	mutex_unlock(&uctx->db_lock);
	return 0;
}

/**
 * moor_db_free - give slots back; nothing is tied to them any more
 * @uctx: context they belong to
 * @db: slots
 */
void moor_db_free(struct moor_ucontext *uctx, struct moor_db *db)
{
	u32 i;

	mutex_lock(&uctx->db_lock);
	for (i = 0; i < db->num; i++)
		__clear_bit(db->slot[i], db->page->used);
	db->page->num_free += db->num;
	mutex_unlock(&uctx->db_lock);
}

/**
 * moor_db_release_pages - let go of all pages of a context
 * @uctx: context without queues
 */
void moor_db_release_pages(struct moor_ucontext *uctx)
{
	struct moor_db_page *page, *next;

	list_for_each_entry_safe(page, next, &uctx->db_pages, list)
		moor_db_release_page(page);
}

/**
 * moor_db_location - name a slot to the device
 * @db: slots
 * @n: which of them
 *
 * Return: page and slot (HWI 5.1)
 */
__le32 moor_db_location(const struct moor_db *db, u32 n)
{
	return cpu_to_le32(FIELD_PREP(MOOR_DB_PAGE, db->page->index) |
			   FIELD_PREP(MOOR_DB_SLOT, db->slot[n]));
}

/**
 * moor_db_describe - tell a process where its slots are
 * @db: slots
 * @out: filled in
 */
void moor_db_describe(const struct moor_db *db, struct moor_doorbell *out)
{
	out->doorbell_mmap_offset =
		rdma_user_mmap_get_offset(&db->page->doorbell->rdma_entry);
	out->kick_mmap_offset =
		rdma_user_mmap_get_offset(&db->page->kick->rdma_entry);
	out->slot_offset = db->slot[0] * MOOR_DB_SLOT_SIZE;
	if (db->num > 1)
		out->slot_offset_rq = db->slot[1] * MOOR_DB_SLOT_SIZE;
}
