// SPDX-License-Identifier: GPL-2.0
/*
 * Keys (HWI 6.2): index and nonce, and for windows the consumer's byte below.
 * Plain MRs have one range of indices, windows the other.
 *
 * A range is divided into lanes. A processor takes from a lane of its own as long as
 * there is an index. Freed indices queue up in the lane that they are of, so that each
 * rests until all others of the lane that are free have been used. The nonces of
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

static struct moor_key_lane *moor_keys_lane(struct moor_keys *keys, u32 slot)
{
	return &keys->lanes[(slot >> keys->lane_bits) % MOOR_KEY_LANES];
}

static void moor_lane_give(struct moor_key_lane *lane, u32 slot)
{
	lane->queue[lane->tail++ & lane->mask] = slot;
}

static void moor_lane_init(struct moor_key_lane *lane, u32 *queue, u32 entries)
{
	spin_lock_init(&lane->lock);
	lane->head = 0;
	lane->tail = 0;
	lane->mask = entries - 1;
	lane->queue = queue;
}

static int moor_keys_fill(struct moor_keys *keys, u32 first, u32 size)
{
	u32 share = DIV_ROUND_UP(size, MOOR_KEY_LANES);
	u32 i;

	keys->first = first;
	keys->size = size;
	/* The range of windows may be empty. */
	keys->lane_bits = share ? order_base_2(share) : 0;
	keys->num_lanes = DIV_ROUND_UP(size, BIT(keys->lane_bits));
	get_random_bytes(&keys->secret, sizeof(keys->secret));

	keys->slots = kvzalloc_objs(*keys->slots, size);
	keys->queue = kvzalloc_objs(*keys->queue,
				    MOOR_KEY_LANES << keys->lane_bits);
	if (!keys->slots || !keys->queue)
		return -ENOMEM;
	for (i = 0; i < MOOR_KEY_LANES; i++)
		moor_lane_init(&keys->lanes[i],
			       &keys->queue[i << keys->lane_bits],
			       BIT(keys->lane_bits));
	get_random_bytes(keys->queue, size * sizeof(*keys->queue));
	for (i = 0; i < size; i++) {
		/* Each index is put where its random number was. */
		keys->slots[i].count = keys->queue[i];
		moor_lane_give(moor_keys_lane(keys, i), i);
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

/* The slot of a lane that has been free longest, or -ENOMEM. */
static int moor_lane_take(struct moor_key_lane *lane)
{
	int slot = -ENOMEM;

	spin_lock(&lane->lock);
	if (lane->head != lane->tail)
		slot = lane->queue[lane->head++ & lane->mask];
	spin_unlock(&lane->lock);
	return slot;
}

/* From this processor's lane, or from the next one that has an index. */
static int moor_keys_take(struct moor_keys *keys)
{
	u32 mine = raw_smp_processor_id(), i;
	int slot = -ENOMEM;

	for (i = 0; i < keys->num_lanes && slot < 0; i++)
		slot = moor_lane_take(&keys->lanes[(mine + i) % keys->num_lanes]);
	return slot;
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
	int slot = moor_keys_take(keys);

	if (slot < 0)
		return slot;
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
	int slot = moor_keys_take(keys);

	if (slot < 0)
		return slot;
	*key = moor_keys_next(keys, slot) | get_random_u8();
	return 0;
}

/**
 * moor_keys_lock - the lock under which the MR of an index does not go away
 * @keys: range
 * @slot: index in @keys; of any other number it is one of the locks, too
 *
 * Return: the lock.
 */
spinlock_t *moor_keys_lock(struct moor_keys *keys, u32 slot)
{
	return &moor_keys_lane(keys, slot)->lock;
}

/**
 * moor_key_lock - the lock under which the MR of a key does not go away
 * @mdev: device
 * @key: any number; what is no MR's key has one of the locks, too
 *
 * Return: the lock, which also protects what re-registering replaces of the MR.
 */
spinlock_t *moor_key_lock(struct moor_dev *mdev, u32 key)
{
	return moor_keys_lock(&mdev->keys,
			      moor_key_index(mdev, key) - mdev->keys.first);
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
	lockdep_assert_held(moor_keys_lock(keys, slot));
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
	struct moor_key_lane *lane = moor_keys_lane(keys, slot);

	spin_lock(&lane->lock);
	WRITE_ONCE(keys->slots[slot].mr, NULL);
	moor_lane_give(lane, slot);
	spin_unlock(&lane->lock);
}

/**
 * moor_keys_used - keys in use
 * @keys: range
 *
 * Return: how many; while others take and free keys, about how many.
 */
u32 moor_keys_used(struct moor_keys *keys)
{
	u32 used = keys->size, i;

	for (i = 0; i < keys->num_lanes; i++) {
		spin_lock(&keys->lanes[i].lock);
		used -= keys->lanes[i].tail - keys->lanes[i].head;
		spin_unlock(&keys->lanes[i].lock);
	}
	return used;
}
