// SPDX-License-Identifier: GPL-2.0
/* Keys of plain MRs: no repetition, no order, no loss (HWI 6.2). */

#include <linux/mm.h>
#include <linux/workqueue.h>

#include "fake.h"
#include "moor.h"

#define REUSES	4096	/* of an index, all with different keys */

/* Key allocation needs only the capabilities. */
static int key_suite_init(struct kunit *test)
{
	struct moor_dev *mdev = kunit_kzalloc(test, sizeof(*mdev), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, mdev);
	mdev->caps.mr_index_bits = FAKE_MR_INDEX_BITS;
	mdev->caps.mr_consumer_first = FAKE_CONSUMER_FIRST;
	test->priv = mdev;
	return 0;
}

/* A device with few indices, so that each is reused soon. */
static struct moor_dev *key_dev(struct kunit *test, u32 index_bits, u32 indices)
{
	struct moor_dev *mdev = test->priv;

	mdev->caps.mr_index_bits = index_bits;
	mdev->caps.mr_consumer_first = MOOR_MR_INDEX_FIRST + indices;
	KUNIT_ASSERT_EQ(test, moor_keys_init(mdev), 0);
	return mdev;
}

static const u32 index_bits[] = { 12, 13, 16, 17, 20 };

static void index_bits_desc(const u32 *bits, char *desc)
{
	sprintf(desc, "%u index bits", *bits);
}

KUNIT_ARRAY_PARAM(index_bits, index_bits, index_bits_desc);

/* 2^20 index bits leave 12 of nonce: 4,096 reuses are the whole permutation. */
static void key_permutation(struct kunit *test)
{
	u32 bits = *(const u32 *)test->param_value;
	struct moor_dev *mdev = key_dev(test, bits, 1);
	u32 nonces = 1U << (32 - bits);
	unsigned long *seen = bitmap_zalloc(nonces, GFP_KERNEL);
	struct moor_mr mr = {};
	u32 i, nonce, repeats = 0, wrong_index = 0;

	KUNIT_ASSERT_NOT_NULL(test, seen);
	for (i = 0; i < REUSES; i++) {
		KUNIT_ASSERT_EQ(test, moor_key_alloc(mdev, &mr), 0);
		nonce = mr.key & (nonces - 1);
		repeats += test_and_set_bit(nonce, seen);
		wrong_index += moor_key_index(mdev, mr.key) !=
			       MOOR_MR_INDEX_FIRST;
		moor_key_free(mdev, mr.key);
	}
	KUNIT_EXPECT_EQ(test, repeats, 0);
	KUNIT_EXPECT_EQ(test, wrong_index, 0);
	if (nonces == REUSES)
		KUNIT_EXPECT_TRUE(test, bitmap_full(seen, nonces));
	bitmap_free(seen);
	moor_keys_destroy(mdev);
}

/*
 * The bits above the consumer's byte do not repeat before every nonce was used, so
 * that a key of an earlier window is dead, whatever its byte.
 */
static void key_consumer(struct kunit *test)
{
	const u32 nonces = 1U << (32 - FAKE_MR_INDEX_BITS - 8);
	struct moor_dev *mdev = key_dev(test, FAKE_MR_INDEX_BITS,
					(1U << FAKE_MR_INDEX_BITS) - 1 -
					MOOR_MR_INDEX_FIRST);
	unsigned long *seen = bitmap_zalloc(nonces, GFP_KERNEL);
	DECLARE_BITMAP(bytes, 256) = {};
	u32 i, key, more, repeats = 0, wrong_index = 0;

	KUNIT_ASSERT_NOT_NULL(test, seen);
	for (i = 0; i < nonces; i++) {
		KUNIT_ASSERT_EQ(test, moor_key_alloc_consumer(mdev, &key), 0);
		KUNIT_ASSERT_EQ(test, moor_key_alloc_consumer(mdev, &more), -ENOMEM);
		repeats += test_and_set_bit(key >> 8 & (nonces - 1), seen);
		wrong_index += moor_key_index(mdev, key) !=
			       (1U << FAKE_MR_INDEX_BITS) - 1;
		__set_bit(key & 0xff, bytes);
		moor_key_free(mdev, key);
	}
	KUNIT_EXPECT_EQ(test, repeats, 0);
	KUNIT_EXPECT_TRUE(test, bitmap_full(seen, nonces));
	KUNIT_EXPECT_EQ(test, wrong_index, 0);
	/* The byte is random: of 4,096 draws few values are missed. */
	KUNIT_EXPECT_GT(test, bitmap_weight(bytes, 256), 200);
	bitmap_free(seen);
	moor_keys_destroy(mdev);
}

/*
 * Freed indices queue up: an index is reused only after all others of its lane. The task
 * may be moved to another processor, and so to another lane, at any time. @next counts
 * the uses of each lane's indices.
 */
static bool key_is_next(struct moor_dev *mdev, u32 key, u32 *next)
{
	const struct moor_keys *keys = &mdev->keys;
	u32 slot = moor_key_index(mdev, key) - keys->first;
	u32 lane = slot >> keys->lane_bits;
	u32 first = lane << keys->lane_bits;
	u32 share = min(keys->size - first, BIT(keys->lane_bits));

	return slot == first + next[lane]++ % share;
}

static void key_fifo(struct kunit *test)
{
	const u32 indices = 64;
	struct moor_dev *mdev = key_dev(test, 12, indices);
	u32 next[MOOR_KEY_LANES] = {}, i, wrong = 0;
	struct moor_mr mr = {};

	for (i = 0; i < 10 * indices; i++) {
		KUNIT_ASSERT_EQ(test, moor_key_alloc(mdev, &mr), 0);
		wrong += !key_is_next(mdev, mr.key, next);
		moor_key_free(mdev, mr.key);
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);
	moor_keys_destroy(mdev);
}

/* Processors take from lanes of their own, whether they are more than lanes or fewer. */
static long key_take_here(void *arg)
{
	struct moor_mr mr = {};

	return moor_key_alloc(arg, &mr) ? U32_MAX : mr.key;
}

static void key_lanes(struct kunit *test)
{
	static const u32 lanes[] = { 1, 2, 3, MOOR_KEY_LANES };
	u32 cpu, key, slot, i;

	for (i = 0; i < ARRAY_SIZE(lanes); i++) {
		struct moor_dev *mdev = key_dev(test, 12, lanes[i]);
		struct moor_keys *keys = &mdev->keys;

		KUNIT_EXPECT_EQ(test, keys->num_lanes, lanes[i]);
		for_each_online_cpu(cpu) {
			key = work_on_cpu(cpu, key_take_here, mdev);
			slot = moor_key_index(mdev, key) - keys->first;
			KUNIT_EXPECT_EQ(test, slot >> keys->lane_bits,
					cpu % lanes[i]);
			moor_key_free(mdev, key);
		}
		KUNIT_EXPECT_EQ(test, moor_keys_used(keys), 0);
		moor_keys_destroy(mdev);
	}
}

/* The same while the free-running heads and tails of the lanes wrap. */
static void key_counts_wrap(struct kunit *test)
{
	enum { INDICES = 100 };
	struct moor_dev *mdev = key_dev(test, 12, INDICES);
	u32 next[MOOR_KEY_LANES] = {}, all[INDICES], i, wrong = 0;
	struct moor_keys *keys = &mdev->keys;
	struct moor_key_lane *lane;
	struct moor_mr mr = {};

	for (i = 0; i < INDICES; i++) {
		KUNIT_ASSERT_EQ(test, moor_key_alloc(mdev, &mr), 0);
		all[i] = mr.key;
	}
	/* No index is free: so the queue may begin anywhere. */
	for (lane = keys->lanes; lane < &keys->lanes[keys->num_lanes]; lane++) {
		KUNIT_ASSERT_EQ(test, lane->head, lane->tail);
		lane->head = U32_MAX - INDICES / MOOR_KEY_LANES;
		lane->tail = lane->head;
	}
	for (i = 0; i < INDICES; i++)
		moor_key_free(mdev, all[i]);
	KUNIT_ASSERT_EQ(test, moor_keys_used(keys), 0);
	for (i = 0; i < 10 * INDICES; i++) {
		KUNIT_ASSERT_EQ(test, moor_key_alloc(mdev, &mr), 0);
		wrong += !key_is_next(mdev, mr.key, next);
		KUNIT_ASSERT_EQ(test, moor_keys_used(keys), 1);
		moor_key_free(mdev, mr.key);
	}
	KUNIT_EXPECT_EQ(test, wrong, 0);
	moor_keys_destroy(mdev);
}

/* A device may have no windows: its consumer range is empty. */
static void key_no_consumer(struct kunit *test)
{
	struct moor_dev *mdev = key_dev(test, 12, (1U << 12) - MOOR_MR_INDEX_FIRST);
	u32 key;

	KUNIT_EXPECT_EQ(test, moor_key_alloc_consumer(mdev, &key), -ENOMEM);
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->mw_keys), 0);
	moor_keys_destroy(mdev);
}

/* All indices can be had, each once; then ENOMEM; then the freed ones again. */
static void key_exhaustion(struct kunit *test)
{
	const u32 indices = 1000;
	struct moor_dev *mdev = key_dev(test, 12, indices);
	DECLARE_BITMAP(seen, 4096) = {};
	struct moor_mr mr = {};
	u32 i, first = 0, twice = 0, outside = 0, index;

	for (i = 0; i < indices; i++) {
		KUNIT_ASSERT_EQ(test, moor_key_alloc(mdev, &mr), 0);
		first = first ?: mr.key;
		index = moor_key_index(mdev, mr.key);
		twice += test_and_set_bit(index, seen);
		outside += index < MOOR_MR_INDEX_FIRST ||
			   index >= MOOR_MR_INDEX_FIRST + indices;
	}
	KUNIT_EXPECT_EQ(test, twice, 0);
	KUNIT_EXPECT_EQ(test, outside, 0);
	KUNIT_EXPECT_EQ(test, moor_key_alloc(mdev, &mr), -ENOMEM);
	moor_key_free(mdev, first);
	KUNIT_ASSERT_EQ(test, moor_key_alloc(mdev, &mr), 0);
	KUNIT_EXPECT_EQ(test, moor_key_index(mdev, mr.key),
			moor_key_index(mdev, first));
	KUNIT_EXPECT_NE(test, mr.key, first);
	KUNIT_EXPECT_EQ(test, moor_key_alloc(mdev, &mr), -ENOMEM);
	moor_keys_destroy(mdev);
}

/*
 * The difference of one nonce of an index to the next takes many values: a
 * constant or rare stride is what the published attacks used. Among 4,095 random
 * differences of 20 bits, some 8 pairs are equal; 100 is far beyond chance.
 */
static void key_entropy(struct kunit *test)
{
	struct moor_dev *mdev = key_dev(test, 12, 1);
	const u32 mask = BIT(20) - 1;
	unsigned long *seen = bitmap_zalloc(mask + 1, GFP_KERNEL);
	u32 i, last = 0, equal = 0, ones = 0;
	struct moor_mr mr = {};

	KUNIT_ASSERT_NOT_NULL(test, seen);
	for (i = 0; i < REUSES; i++) {
		KUNIT_ASSERT_EQ(test, moor_key_alloc(mdev, &mr), 0);
		if (i)
			equal += test_and_set_bit((mr.key - last) & mask, seen);
		ones += hweight32(mr.key & mask);
		last = mr.key;
		moor_key_free(mdev, mr.key);
	}
	KUNIT_EXPECT_LT(test, equal, 100);
	/* Half of the bits, give or take 1 % (18 standard deviations). */
	KUNIT_EXPECT_GT(test, ones, 10 * REUSES * 99 / 100);
	KUNIT_EXPECT_LT(test, ones, 10 * REUSES * 101 / 100);
	bitmap_free(seen);
	moor_keys_destroy(mdev);
}

/* Two devices, or one after a reload, do not give the same sequence. */
static void key_secret(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	u32 keys[2][8], run, i, same = 0;
	struct moor_mr mr = {};

	for (run = 0; run < 2; run++) {
		KUNIT_ASSERT_EQ(test, moor_keys_init(mdev), 0);
		for (i = 0; i < 8; i++) {
			KUNIT_ASSERT_EQ(test, moor_key_alloc(mdev, &mr), 0);
			keys[run][i] = mr.key;
		}
		moor_keys_destroy(mdev);
	}
	for (i = 0; i < 8; i++)
		same += keys[0][i] == keys[1][i];
	KUNIT_EXPECT_LT(test, same, 2);
}

static struct kunit_case key_cases[] = {
	KUNIT_CASE_PARAM(key_permutation, index_bits_gen_params),
	KUNIT_CASE(key_consumer),
	KUNIT_CASE(key_fifo),
	KUNIT_CASE(key_lanes),
	KUNIT_CASE(key_counts_wrap),
	KUNIT_CASE(key_no_consumer),
	KUNIT_CASE(key_exhaustion),
	KUNIT_CASE(key_entropy),
	KUNIT_CASE(key_secret),
	{}
};

static struct kunit_suite key_suite = {
	.name = "moor_key",
	.init = key_suite_init,
	.test_cases = key_cases,
};

kunit_test_suite(key_suite);
