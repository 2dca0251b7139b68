// SPDX-License-Identifier: GPL-2.0
/*
 * The context table in BAR2 (HWI 6): publishing an MR is writing its entry,
 * taking it back is a fence that many may share.
 */

#include <linux/io-64-nonatomic-lo-hi.h>

#include "moor.h"
#include "regs.h"

#define MOOR_REMOTE_RIGHTS	(MOOR_ACCESS_REMOTE_WRITE |		\
				 MOOR_ACCESS_REMOTE_READ |		\
				 MOOR_ACCESS_REMOTE_ATOMIC |		\
				 MOOR_ACCESS_FLUSH_GLOBAL |		\
				 MOOR_ACCESS_FLUSH_PERSISTENT)

/**
 * moor_mr_table_init - map the context table
 * @mdev: device
 *
 * Return: 0 or -ENOMEM.
 */
int moor_mr_table_init(struct moor_dev *mdev)
{
	struct moor_mr_table *mrs = &mdev->mrs;

	init_llist_head(&mrs->pending);
	atomic_set(&mrs->num_pending, 0);
	mutex_init(&mrs->commit);
	init_waitqueue_head(&mrs->sent);
	mrs->entries = ioremap_wc(pci_resource_start(mdev->pdev, MOOR_BAR_MR),
				  sizeof(*mrs->entries) <<
				  mdev->caps.mr_index_bits);
	return mrs->entries ? 0 : -ENOMEM;
}

void moor_mr_table_destroy(struct moor_dev *mdev)
{
	iounmap(mdev->mrs.entries);
	mutex_destroy(&mdev->mrs.commit);
}

static void __iomem *moor_mr_entry(struct moor_dev *mdev, u32 key)
{
	return &mdev->mrs.entries[moor_key_index(mdev, key)];
}

static u64 moor_mr_valid_word(u32 key, u8 type, u8 generation)
{
	return FIELD_PREP(MOOR_MRC_TYPE, type) |
	       FIELD_PREP(MOOR_MRC_GENERATION, generation) |
	       FIELD_PREP(MOOR_MRC_KEY, key);
}

/* If the device has died since the caller checked, its BARs are not touched any more. */
static void moor_mr_write_entry(struct moor_dev *mdev, u32 key, u64 valid,
				const struct moor_mr_context *body)
{
	void __iomem *entry = moor_mr_entry(mdev, key);
	const size_t skip = offsetof(struct moor_mr_context, pd);

	if (moor_is_dead(mdev))
		return;
	__iowrite64_copy(entry + skip, (const u8 *)body + skip,
			 (sizeof(*body) - skip) / sizeof(u64));
	/* The body before the word that makes it valid (HWI MR-7). */
	wmb();
	writeq(valid, entry);
	/*
	 * The word may linger in this CPU's write-combining buffer while
	 * another CPU rings a doorbell: empty it.
	 */
	wmb();
}

/**
 * moor_mr_publish - make an MR known to the device
 * @mdev: device
 * @mr: MR, complete
 *
 * No command, no interrupt, no sleep. A peer may learn a key with remote rights
 * by a way that is faster than a posted write. So for such a key FENCE is read: the
 * device answers when all of the entry has taken effect (HWI ORD-2).
 */
void moor_mr_publish(struct moor_dev *mdev, const struct moor_mr *mr)
{
	const struct moor_registration *reg = &mr->reg;
	const struct moor_mr_context body = {
		.pd = cpu_to_le32(reg->pdn),
		.access = cpu_to_le32(reg->access & MOOR_ACCESS_ALL),
		.iova = cpu_to_le64(reg->iova),
		.length = cpu_to_le64(reg->length),
		.xlat = reg->table.xlat,
	};

	moor_mr_write_entry(mdev, mr->key,
			    moor_mr_valid_word(mr->key, mr->type,
					       mr->generation), &body);
	if (reg->access & MOOR_REMOTE_RIGHTS && !moor_is_dead(mdev))
		moor_read32(mdev->regs, MOOR_REG_FENCE);
}

/**
 * moor_mw_publish - make a window known to the device
 * @mdev: device
 * @key: the window's first key
 * @type: enum moor_mrc_type
 * @pdn: number of the window's protection domain
 *
 * The key cannot be used before the window is bound, and the entry is written before
 * the doorbell that posts the bind (HWI ORD-3).
 */
void moor_mw_publish(struct moor_dev *mdev, u32 key, u8 type, u32 pdn)
{
	const struct moor_mr_context body = { .pd = cpu_to_le32(pdn) };

	moor_mr_write_entry(mdev, key, moor_mr_valid_word(key, type, 0), &body);
}

/**
 * moor_fast_publish - make a fast-registration MR known to the device
 * @mdev: device
 * @key: the MR's first key
 * @pdn: number of the MR's protection domain
 * @max_pages: pages that the MR's tables have room for
 *
 * As with a window, the key cannot be used before a work request was posted for it.
 */
void moor_fast_publish(struct moor_dev *mdev, u32 key, u32 pdn, u32 max_pages)
{
	const struct moor_mr_context body = {
		.pd = cpu_to_le32(pdn),
		.max_pages = cpu_to_le64(max_pages),
	};

	moor_mr_write_entry(mdev, key,
			    moor_mr_valid_word(key, MOOR_MRC_TYPE_FAST_REG, 0),
			    &body);
}

/* The revocation that was handed over first, of those that have not been sent. */
static struct moor_revocation *moor_revoke_next(struct moor_mr_table *mrs)
{
	struct llist_node *first = mrs->unsent;

	if (!first)
		first = llist_reverse_order(llist_del_all(&mrs->pending));
	if (!first)
		return NULL;
	mrs->unsent = first->next;
	return llist_entry(first, struct moor_revocation, pending);
}

/* Take as many keys as a command holds, and start it. */
static u32 moor_fence_start(struct moor_dev *mdev, struct moor_fence *fence)
{
	struct moor_mr_table *mrs = &mdev->mrs;
	struct moor_revocation *rev;
	u32 count = 0;

	while (count < MOOR_REVOKE_MAX_KEYS) {
		rev = moor_revoke_next(mrs);
		if (!rev)
			break;
		fence->cmd.key[count] = cpu_to_le32(rev->key);
		fence->revs[count++] = rev;
	}
	fence->count = count;
	if (count) {
		atomic_sub(count, &mrs->num_pending);
		moor_cmd_mr_revoke_start(mdev, fence);
	}
	return count;
}

/*
 * A device whose fence fails is stopped, which fences too. In both cases the memory of
 * keys that were not refused may be unpinned afterwards; the entries of such keys are
 * cleared.
 */
static void moor_fence_finish(struct moor_dev *mdev, struct moor_fence *fence)
{
	struct moor_revocation *rev;
	u32 busy = 0, i;

	if (moor_cmd_mr_revoke_wait(mdev, fence, &busy)) {
		moor_hw_kill(mdev, "a fence failed");
		busy = 0;
	}
	for (i = 0; i < fence->count; i++) {
		rev = fence->revs[i];
		rev->busy = busy & BIT(i);
		if (!rev->busy && !moor_is_dead(mdev))
			writeq(0, moor_mr_entry(mdev, rev->key));
	}
}

/*
 * Send the keys that are pending, or the first of many. A process that leaves has more
 * than a command holds: so several commands are under way before one is waited for.
 */
static void moor_revoke_batch(struct moor_dev *mdev)
{
	struct moor_mr_table *mrs = &mdev->mrs;
	u32 most = min(MOOR_FENCES_AT_ONCE, mdev->cmdq.ordinary_tags);
	u32 count = MOOR_REVOKE_MAX_KEYS, sent = 0, i, j;

	lockdep_assert_held(&mrs->commit);
	/* A fence that is not full has taken all; keys that come now share the next. */
	while (count == MOOR_REVOKE_MAX_KEYS && sent < most) {
		count = moor_fence_start(mdev, &mrs->fences[sent]);
		if (count)
			sent++;
	}
	for (i = 0; i < sent; i++)
		moor_fence_finish(mdev, &mrs->fences[i]);
	/*
	 * Empty the write-combining buffer: a late zero would take the index's
	 * next key away.
	 */
	wmb();
	for (i = 0; i < sent; i++)
		for (j = 0; j < mrs->fences[i].count; j++)
			/* Pairs with moor_revoke_wait(): the waiter returns, its key may go. */
			smp_store_release(&mrs->fences[i].revs[j]->done, true);
}

/* Tasks that find the mutex taken sleep on @sent until another task unlocks it. */
static void moor_commit_unlock(struct moor_mr_table *mrs)
{
	mutex_unlock(&mrs->commit);
	/* wq_has_sleeper() has the barrier between the mutex and the look for tasks. */
	if (wq_has_sleeper(&mrs->sent))
		wake_up_all(&mrs->sent);
}

/**
 * moor_keys_wait_sent - wait until the fences under way are over
 * @mdev: device
 *
 * Context: also in reclaim
 */
void moor_keys_wait_sent(struct moor_dev *mdev)
{
	mutex_lock(&mdev->mrs.commit);
	moor_commit_unlock(&mdev->mrs);
}

/*
 * Hand over, at once, as many keys as fill the batch that takes the last of them. So the
 * next task waits for that batch, not for all keys of this task, and a fence that is
 * shared costs no additional one, as far as it is known what else is pending.
 */
static struct moor_revocation *moor_revoke_hand_over(struct moor_mr_table *mrs,
						     struct list_head *revs)
{
	u32 room = MOOR_BATCH_KEYS -
		   atomic_read(&mrs->num_pending) % MOOR_BATCH_KEYS;
	struct llist_node *first = NULL, *last = NULL;
	struct moor_revocation *rev;
	u32 count = 0;

	do {
		rev = list_first_entry(revs, struct moor_revocation, list);
		list_del(&rev->list);
		rev->pending.next = first;
		first = &rev->pending;
		last = last ?: first;
	} while (++count < room && !list_empty(revs));
	atomic_add(count, &mrs->num_pending);
	llist_add_batch(first, last, &mrs->pending);
	return rev;
}

/* Keys are sent in order: when @last is done, so are all handed over before it. */
static void moor_revoke_wait(struct moor_dev *mdev, struct moor_revocation *last)
{
	struct moor_mr_table *mrs = &mdev->mrs;
	bool sends;

	for (;;) {
		sends = false;
		/* Pairs with moor_revoke_batch(): @done is seen after @busy is set. */
		wait_event(mrs->sent, smp_load_acquire(&last->done) ||
			   (sends = mutex_trylock(&mrs->commit)));
		if (!sends)
			return;
		/* One batch, then unlock: the tasks whose keys it held can return. */
		if (!last->done)
			moor_revoke_batch(mdev);
		moor_commit_unlock(mrs);
	}
}

/**
 * moor_keys_revoke - take keys away and wait until nothing uses them
 * @mdev: device
 * @revs: list of revocations, which is empty afterwards; which of them were
 *	busy is filled in
 *
 * Group commit: the task that has the mutex sends the pending keys, its own included.
 * Tasks that come meanwhile wait for the next fence, or to send it. A task whose keys
 * are done returns without the mutex, or it would be in the way of the next sender. If
 * a key was not busy, its entry is cleared and no access is under way. If it was busy,
 * a window is bound, and nothing has changed for the key.
 *
 * The fences of keys of one call may be done in any order.
 */
void moor_keys_revoke(struct moor_dev *mdev, struct list_head *revs)
{
	might_lock(&mdev->mrs.commit);
	while (!list_empty(revs))
		moor_revoke_wait(mdev, moor_revoke_hand_over(&mdev->mrs, revs));
}

/**
 * moor_key_revoke - take a key away and wait until nothing uses it
 * @mdev: device
 * @key: of an MR or a window; the value of its consumer byte does not matter
 *
 * Return: 0 with the entry cleared and no access under way; -EBUSY with a
 * window bound and nothing changed.
 */
int moor_key_revoke(struct moor_dev *mdev, u32 key)
{
	struct moor_revocation rev = { .key = key };

	might_lock(&mdev->mrs.commit);
	atomic_inc(&mdev->mrs.num_pending);
	llist_add(&rev.pending, &mdev->mrs.pending);
	moor_revoke_wait(mdev, &rev);
	return rev.busy ? -EBUSY : 0;
}
