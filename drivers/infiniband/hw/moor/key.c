// SPDX-License-Identifier: GPL-2.0
/*
 * Keys (HWI 6.2): index and nonce, and for windows the consumer's byte below.
 * Plain MRs have one range of indices, windows the other.
 *
 * Freed indices queue up, so that each rests as long as possible. The nonces of
 * an index are a pseudo-random permutation of a counter: none comes back before
 * all have been used (2^(32 - MR_INDEX_BITS) uses; for windows 8 bits fewer, so
 * that a key of an earlier window is dead whatever its consumer byte), and a peer that
 * has seen some cannot predict the next.
 */

#include <linux/bitops.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/random.h>

#include "moor.h"

#define MOOR_NONCE_ROUNDS	4

static int moor_keys_fill(struct moor_keys *keys, u32 first, u32 size)
{
	u32 i;

	spin_lock_init(&keys->lock);
	keys->first = first;
	keys->size = size;
	keys->head = 0;
	keys->tail = size;
	get_random_bytes(&keys->secret, sizeof(keys->secret));

	keys->slots = kvzalloc_objs(*keys->slots, size);
	/* The range of windows may be empty. */
	keys->mask = size ? roundup_pow_of_two(size) - 1 : 0;
	keys->queue = kvzalloc_objs(*keys->queue, keys->mask + 1);
	if (!keys->slots || !keys->queue)
		return -ENOMEM;
	get_random_bytes(keys->queue, size * sizeof(*keys->queue));
	for (i = 0; i < size; i++) {
		keys->slots[i].count = keys->queue[i];
		keys->queue[i] = i;
	}
	return 0;
}

/**
 * moor_keys_init - make all keys free
 * @mdev: device
 *
 * Return: 0 or -ENOMEM.
 */
int moor_keys_init(struct moor_dev *mdev)
{
	u32 bits = mdev->caps.mr_index_bits;
	u32 consumer = mdev->caps.mr_consumer_first;
	int err;

	mdev->keys.nonce_bits = 32 - bits;
	mdev->keys.nonce_shift = 0;
	mdev->mw_keys.nonce_shift = hweight32(MOOR_KEY_CONSUMER);
	mdev->mw_keys.nonce_bits = 32 - bits - mdev->mw_keys.nonce_shift;
	err = moor_keys_fill(&mdev->keys, MOOR_MR_INDEX_FIRST,
			     consumer - MOOR_MR_INDEX_FIRST);
	if (!err)
		err = moor_keys_fill(&mdev->mw_keys, consumer,
				     BIT(bits) - consumer);
	if (err)
		moor_keys_destroy(mdev);
	return err;
}

static void moor_keys_release(struct moor_keys *keys)
{
	kvfree(keys->queue);
	kvfree(keys->slots);
	keys->queue = NULL;
	keys->slots = NULL;
}

void moor_keys_destroy(struct moor_dev *mdev)
{
	moor_keys_release(&mdev->mw_keys);
	moor_keys_release(&mdev->keys);
}

/* Round, index and half of the nonce: 2 + n + (32 - n) / 2 bits, 30 at most. */
static u32 moor_key_mix(const struct moor_keys *keys, u32 slot, u32 round,
			u32 half)
{
	u32 half_bits = (keys->nonce_bits + 1) / 2;

	return hsiphash_1u32(round << 30 | slot << half_bits | half,
			     &keys->secret);
}

/*
 * A Feistel network over the nonce's bits. Each round changes one half by a
 * function of the other, which can be undone whatever the function is; so the
 * whole is a permutation.
 */
static u32 moor_key_nonce(const struct moor_keys *keys, u32 slot, u32 count)
{
	u32 low_bits = keys->nonce_bits / 2;
	u32 low_mask = BIT(low_bits) - 1;
	u32 high_mask = BIT(keys->nonce_bits - low_bits) - 1;
	u32 low = count & low_mask;
	u32 high = (count >> low_bits) & high_mask;
	u32 round;

	for (round = 0; round < MOOR_NONCE_ROUNDS; round += 2) {
		high ^= moor_key_mix(keys, slot, round, low) & high_mask;
		low ^= moor_key_mix(keys, slot, round + 1, high) & low_mask;
	}
	return high << low_bits | low;
}

/* The index that has been free longest. */
static int moor_keys_take(struct moor_keys *keys, u32 *slot)
{
	int err = -ENOMEM;

	spin_lock(&keys->lock);
	if (keys->head != keys->tail) {
		*slot = keys->queue[keys->head & keys->mask];
		keys->head++;
		err = 0;
	}
	spin_unlock(&keys->lock);
	return err;
}

/* The next key of an index. The index is the caller's, so no lock is needed. */
static u32 moor_keys_next(struct moor_keys *keys, u32 slot)
{
	u32 nonce = moor_key_nonce(keys, slot, keys->slots[slot].count++);

	return ((slot + keys->first) << keys->nonce_bits | nonce) <<
	       keys->nonce_shift;
}

/**
 * moor_key_alloc - give an MR its key
 * @mdev: device
 * @mr: MR, filled in but for its key: readers of the slots see the MR from here on
 *
 * Return: 0, or -ENOMEM if all keys are in use.
 */
int moor_key_alloc(struct moor_dev *mdev, struct moor_mr *mr)
{
	struct moor_keys *keys = &mdev->keys;
	u32 slot;
	int err;

	err = moor_keys_take(keys, &slot);
	if (err)
		return err;
	mr->key = moor_keys_next(keys, slot);
	WRITE_ONCE(keys->slots[slot].moving, mr->reg.dmabuf);
	/* Pairs with moor_keys_mr(): a reader that finds the MR finds it complete. */
	smp_store_release(&keys->slots[slot].mr, mr);
	return 0;
}

/**
 * moor_key_alloc_consumer - a key with a consumer byte
 * @mdev: device
 * @key: filled in; the consumer byte is random
 *
 * Return: 0, or -ENOMEM if all keys are in use.
 */
int moor_key_alloc_consumer(struct moor_dev *mdev, u32 *key)
{
	struct moor_keys *keys = &mdev->mw_keys;
	u32 slot;
	int err;

	err = moor_keys_take(keys, &slot);
	if (!err)
		*key = moor_keys_next(keys, slot) | get_random_u8();
	return err;
}

/**
 * moor_keys_mr - the MR that has an index
 * @keys: range
 * @slot: index in @keys
 *
 * Return: the MR, which exists as long as the caller holds the lock, or NULL.
 */
struct moor_mr *moor_keys_mr(struct moor_keys *keys, u32 slot)
{
	lockdep_assert_held(&keys->lock);
	/* Pairs with moor_key_alloc(). */
	return smp_load_acquire(&keys->slots[slot].mr);
}

/**
 * moor_key_index - index of a key in the context table
 * @mdev: device
 * @key: key of either range
 *
 * Return: the index.
 */
u32 moor_key_index(const struct moor_dev *mdev, u32 key)
{
	return key >> mdev->keys.nonce_bits;
}

/**
 * moor_key_is_moving - is this the key of a dma-buf that may move?
 * @mdev: device
 * @key: any number
 *
 * Context: any, without a lock; so the answer may be wrong for a key that has just gone.
 *
 * Return: whether it is.
 */
bool moor_key_is_moving(const struct moor_dev *mdev, u32 key)
{
	const struct moor_keys *keys = &mdev->keys;
	u32 index = moor_key_index(mdev, key);

	return index >= keys->first && index < mdev->mw_keys.first &&
	       READ_ONCE(keys->slots[index - keys->first].moving);
}

/**
 * moor_key_free - let a key's index rest
 * @mdev: device
 * @key: key, of which the context table holds nothing any more
 *
 * Afterwards no lookup by key reaches the MR.
 */
void moor_key_free(struct moor_dev *mdev, u32 key)
{
	u32 index = moor_key_index(mdev, key);
	struct moor_keys *keys = index < mdev->mw_keys.first ? &mdev->keys :
							       &mdev->mw_keys;
	u32 slot = index - keys->first;

	spin_lock(&keys->lock);
	WRITE_ONCE(keys->slots[slot].mr, NULL);
	keys->queue[keys->tail & keys->mask] = slot;
	keys->tail++;
	spin_unlock(&keys->lock);
}

/**
 * moor_keys_used - keys in use
 * @keys: range
 *
 * Return: how many.
 */
u32 moor_keys_used(struct moor_keys *keys)
{
	u32 used;

	spin_lock(&keys->lock);
	used = keys->size - (keys->tail - keys->head);
	spin_unlock(&keys->lock);
	return used;
}
