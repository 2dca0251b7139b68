// SPDX-License-Identifier: GPL-2.0
/*
 * Keys of plain MRs (HWI 6.2): index and nonce.
 *
 * Freed indices queue up, so that each rests as long as possible. The nonces of
 * an index are a pseudo-random permutation of a counter: none comes back before
 * all have been used (2^(32 - MR_INDEX_BITS) uses), and who has seen some cannot
 * tell the next.
 */

#include <linux/mm.h>
#include <linux/random.h>

#include "moor.h"

#define MOOR_NONCE_ROUNDS	4

/**
 * moor_keys_init - make all keys free
 * @mdev: device
 *
 * Return: 0 or -ENOMEM.
 */
int moor_keys_init(struct moor_dev *mdev)
{
	struct moor_keys *keys = &mdev->keys;
	u32 i;

	spin_lock_init(&keys->lock);
	keys->first = MOOR_MR_INDEX_FIRST;
	keys->size = mdev->caps.mr_consumer_first - keys->first;
	keys->nonce_bits = 32 - mdev->caps.mr_index_bits;
	keys->head = 0;
	keys->tail = keys->size;
	get_random_bytes(&keys->secret, sizeof(keys->secret));

	keys->slots = kvzalloc_objs(*keys->slots, keys->size);
	keys->queue = kvzalloc_objs(*keys->queue, keys->size);
	if (!keys->slots || !keys->queue) {
		moor_keys_destroy(mdev);
		return -ENOMEM;
	}
	get_random_bytes(keys->queue, keys->size * sizeof(*keys->queue));
	for (i = 0; i < keys->size; i++) {
		keys->slots[i].count = keys->queue[i];
		keys->queue[i] = i;
	}
	return 0;
}

void moor_keys_destroy(struct moor_dev *mdev)
{
	kvfree(mdev->keys.queue);
	kvfree(mdev->keys.slots);
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

/**
 * moor_key_alloc - give an MR its key
 * @mdev: device
 * @mr: MR, filled in but for its key: readers of the table see it from here on
 *
 * Return: 0, or -ENOMEM if all keys are in use.
 */
int moor_key_alloc(struct moor_dev *mdev, struct moor_mr *mr)
{
	struct moor_keys *keys = &mdev->keys;
	u32 slot, nonce;

	spin_lock(&keys->lock);
	if (keys->head == keys->tail) {
		spin_unlock(&keys->lock);
		return -ENOMEM;
	}
	slot = keys->queue[keys->head % keys->size];
	keys->head++;
	nonce = moor_key_nonce(keys, slot, keys->slots[slot].count++);
	mr->key = (slot + keys->first) << keys->nonce_bits | nonce;
	keys->slots[slot].mr = mr;
	spin_unlock(&keys->lock);
	return 0;
}

/**
 * moor_key_index - index of a key in the context table
 * @mdev: device
 * @key: key
 *
 * Return: the index
 */
u32 moor_key_index(const struct moor_dev *mdev, u32 key)
{
	return key >> mdev->keys.nonce_bits;
}

/**
 * moor_key_free - let a key's index rest
 * @mdev: device
 * @key: key, of which the context table holds nothing any more
 *
 * Afterwards nobody reaches the MR through the table.
 */
void moor_key_free(struct moor_dev *mdev, u32 key)
{
	struct moor_keys *keys = &mdev->keys;
	u32 slot = moor_key_index(mdev, key) - keys->first;

	spin_lock(&keys->lock);
	keys->slots[slot].mr = NULL;
	keys->queue[keys->tail % keys->size] = slot;
	keys->tail++;
	spin_unlock(&keys->lock);
}
