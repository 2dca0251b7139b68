// SPDX-License-Identifier: GPL-2.0
/*
 * Translation tables (HWI 7): for every shape of pinned memory, a walk finds each byte
 * at its address. The pages are invented: only their addresses count.
 */

#include <linux/prandom.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <linux/vmalloc.h>

#include "harness.h"

/* Pinned memory in @segments equal pieces. */
struct layout {
	const char *name;
	u32 segments;
	u64 size;		/* of each */
	u64 stride;		/* from one's address to the next's; 0: random */
	u64 base;		/* address of the first */
	u64 start;		/* first byte, into the first piece */
	u64 cut;		/* bytes missing from the last piece */
	u64 at;			/* where the process has it: a page */
	u32 levels;		/* expected */
	u32 page_shift;		/* expected, of trees */
};

struct memory {
	struct ib_umem umem;
	dma_addr_t *addr;
	u32 *len;
	u32 segments;
	u64 size;		/* of each, if all are equal */
};

static void memory_free(struct memory *mem)
{
	sg_free_table(&mem->umem.sgt_append.sgt);
	vfree(mem->addr);
	vfree(mem->len);
}

static void memory_alloc(struct kunit *test, struct memory *mem, u32 segments)
{
	*mem = (struct memory){ .segments = segments };
	mem->addr = vcalloc(segments, sizeof(*mem->addr));
	mem->len = vcalloc(segments, sizeof(*mem->len));
	KUNIT_ASSERT_NOT_NULL(test, mem->addr);
	KUNIT_ASSERT_NOT_NULL(test, mem->len);
	KUNIT_ASSERT_EQ(test, sg_alloc_table(&mem->umem.sgt_append.sgt,
					     segments, GFP_KERNEL), 0);
	mem->umem.writable = 1;
}

/* The scatterlist as the core would have it after mapping. */
static void memory_finish(struct memory *mem, u64 start, u64 cut)
{
	struct scatterlist *sg;
	u64 total = 0;
	int i;

	for_each_sgtable_dma_sg(&mem->umem.sgt_append.sgt, sg, i) {
		sg_dma_address(sg) = mem->addr[i];
		sg_dma_len(sg) = mem->len[i];
		total += mem->len[i];
	}
	mem->umem.address = start;
	mem->umem.length = total - offset_in_page(start) - cut;
}

/* Where byte @at of the object is, by the pieces themselves. */
static u64 memory_find(const struct memory *mem, u64 at)
{
	u32 i;

	at += offset_in_page(mem->umem.address);
	if (mem->size)
		return mem->addr[at / mem->size] + at % mem->size;
	for (i = 0; at >= mem->len[i]; i++)
		at -= mem->len[i];
	return mem->addr[i] + at;
}

static void check_byte(struct kunit *test, const struct memory *mem,
		       const struct moor_table *table, u64 at)
{
	u64 dma, left;
	bool found;

	found = fake_xlat_find(moor_kunit_nic(), &table->xlat, at,
			       mem->umem.writable, &dma, &left);
	KUNIT_ASSERT_TRUE_MSG(test, found, "byte %#llx is not found", at);
	KUNIT_ASSERT_EQ_MSG(test, dma, memory_find(mem, at), "byte %#llx", at);
}

/* Both ends of every piece, and of the whole; bytes in between by chance. */
static void check_table(struct kunit *test, const struct memory *mem,
			const struct moor_table *table)
{
	u64 at = 0, length = mem->umem.length, step;
	u32 i, every = max(1U, mem->segments / 2000);

	for (i = 0; i < mem->segments && at < length; i++) {
		step = mem->len[i] - (i ? 0 : offset_in_page(mem->umem.address));
		if (i % every == 0 || i == mem->segments - 1) {
			check_byte(test, mem, table, at);
			check_byte(test, mem, table,
				   min(at + step, length) - 1);
			check_byte(test, mem, table, at +
				   get_random_u64() % (min(at + step, length) - at));
		}
		at += step;
	}
	check_byte(test, mem, table, length - 1);
}

/*
 * A walk must find no byte before the first leaf or behind the last: the MR does not
 * own it.
 */
static void check_ends(struct kunit *test, const struct memory *mem,
		       const struct moor_table *table)
{
	const struct moor_xlat *xlat = &table->xlat;
	u64 last = le64_to_cpu(xlat->offset) + mem->umem.length - 1;
	u64 page = BIT_ULL(xlat->page_shift);
	u64 beyond = round_down(last, page) + page - le64_to_cpu(xlat->offset);
	u64 first = round_down(le64_to_cpu(xlat->offset), page);
	struct moor_xlat whole = *xlat;
	u64 dma, left;

	if (!xlat->levels)
		return;
	KUNIT_EXPECT_FALSE(test, fake_xlat_find(moor_kunit_nic(), xlat, beyond,
						false, &dma, &left));
	whole.offset = 0;
	if (first)
		KUNIT_EXPECT_FALSE(test, fake_xlat_find(moor_kunit_nic(), &whole,
							first - 1, false, &dma,
							&left));
}

/* Nodes come with the contents of their last use: fill them with entries that show. */
static void spoil_pool(struct moor_dev *mdev)
{
	struct moor_node *node;

	for (node = mdev->nodes.free; node; node = node->next)
		memset64((u64 *)node->pte,
			 SZ_1G | MOOR_PTE_PRESENT | MOOR_PTE_LEAF,
			 MOOR_NODE_ENTRIES);
}

static const struct layout layouts[] = {
	/* one piece: no table, whatever its alignment */
	{ "a byte", 1, SZ_4K, 0, 0x10000, 0x123, SZ_4K - 0x124, 0, 0 },
	{ "a page", 1, SZ_4K, 0, 0x10000, 0, 0, 0, 0 },
	{ "odd start in one piece", 1, SZ_1M, 0, 0x7000, 0xfff, 1, 0x5000, 0 },
	{ "2 GiB in one piece", 1, SZ_2G, 0, 0x7000, 0, 0, 0, 0 },
	/* 4 KiB pages around the sizes of nodes */
	{ "2 pages", 2, SZ_4K, 3 * SZ_4K, 0x1000, 0, 0, 0, 1, 12 },
	{ "3 pages, odd start", 3, SZ_4K, 3 * SZ_4K, 0x1000, 0xabc, 0xef, 0, 1, 12 },
	{ "511 pages", 511, SZ_4K, 2 * SZ_4K, 0x1000, 0, 0, 0, 1, 12 },
	{ "512 pages", 512, SZ_4K, 2 * SZ_4K, 0x1000, 0, 0, 0, 1, 12 },
	{ "513 pages", 513, SZ_4K, 2 * SZ_4K, 0x1000, 0, 0, 0, 2, 12 },
	{ "513 pages, odd start", 513, SZ_4K, 2 * SZ_4K, 0x1000, 0xffe, 0xfff, 0x3000, 2, 12 },
	{ "262144 pages", 262144, SZ_4K, 2 * SZ_4K, 0x1000, 0, 0, 0, 2, 12 },
	{ "262145 pages", 262145, SZ_4K, 2 * SZ_4K, 0x1000, 0, 0, 0, 3, 12 },
	{ "backwards", 600, SZ_4K, -(u64)SZ_4K, SZ_16M, 0, 0, 0, 2, 12 },
	/* every page size */
	{ "8 KiB", 5, SZ_8K, 3 * SZ_8K, SZ_8K, 0, 0, 0, 1, 13 },
	{ "16 KiB", 5, SZ_16K, 3 * SZ_16K, SZ_16K, 0, 0, 0, 1, 14 },
	{ "32 KiB", 5, SZ_32K, 3 * SZ_32K, SZ_32K, 0, 0, 0, 1, 15 },
	{ "64 KiB", 5, SZ_64K, 3 * SZ_64K, SZ_64K, 0, 0, 0, 1, 16 },
	{ "128 KiB", 5, SZ_128K, 3 * SZ_128K, SZ_128K, 0, 0, 0, 1, 17 },
	{ "256 KiB", 5, SZ_256K, 3 * SZ_256K, SZ_256K, 0, 0, 0, 1, 18 },
	{ "512 KiB", 5, SZ_512K, 3 * SZ_512K, SZ_512K, 0, 0, 0, 1, 19 },
	{ "1 MiB", 5, SZ_1M, 3 * SZ_1M, SZ_1M, 0, 0, 0, 1, 20 },
	{ "2 MiB", 5, SZ_2M, 3 * SZ_2M, SZ_2M, 0, 0, 0, 1, 21 },
	{ "4 MiB", 5, SZ_4M, 3ULL * SZ_4M, SZ_4M, 0, 0, 0, 1, 22 },
	{ "8 MiB", 5, SZ_8M, 3ULL * SZ_8M, SZ_8M, 0, 0, 0, 1, 23 },
	{ "16 MiB", 5, SZ_16M, 3ULL * SZ_16M, SZ_16M, 0, 0, 0, 1, 24 },
	{ "32 MiB", 5, SZ_32M, 3ULL * SZ_32M, SZ_32M, 0, 0, 0, 1, 25 },
	{ "64 MiB", 5, SZ_64M, 3ULL * SZ_64M, SZ_64M, 0, 0, 0, 1, 26 },
	{ "128 MiB", 5, SZ_128M, 3ULL * SZ_128M, SZ_128M, 0, 0, 0, 1, 27 },
	{ "256 MiB", 5, SZ_256M, 3ULL * SZ_256M, SZ_256M, 0, 0, 0, 1, 28 },
	{ "512 MiB", 5, SZ_512M, 3ULL * SZ_512M, SZ_512M, 0, 0, 0, 1, 29 },
	{ "1 GiB", 5, SZ_1G, 3ULL * SZ_1G, SZ_1G, 0, 0, 0, 1, 30 },
	{ "2 GiB", 5, SZ_2G, 3ULL * SZ_2G, SZ_2G, 0, 0, 0, 1, 31 },
	/* huge */
	{ "1 TiB in 1 GiB", 1024, SZ_1G, 2ULL * SZ_1G, SZ_1G, 0, 0, 0, 2, 30 },
	{ "200 GiB in 2 MiB", 102400, SZ_2M, 3ULL * SZ_2M, SZ_2M, 0, 0, 0, 2, 21 },
	{ "high addresses", 700, SZ_4K, 7ULL * SZ_4K, 0xfffffff000000000, 0, 0, 0, 2, 12 },
	/* alignment: only that of the seams counts, not that of the addresses */
	{ "2 MiB, off by 4 KiB", 5, SZ_2M, 3 * SZ_2M, SZ_2M, 0, 0, 0x1000, 1, 21 },
	{ "2 MiB, off by 64 KiB", 5, SZ_2M, 3 * SZ_2M, SZ_2M, 0, 0, 0x10000, 1, 21 },
	{ "2 MiB, both off by 64 KiB", 5, SZ_2M, 3 * SZ_2M, SZ_2M + SZ_64K, 0, 0, 0x10000, 1, 21 },
	{ "2 MiB, lying at odd pages", 5, SZ_2M, 3 * SZ_2M + SZ_4K, 0x5000, 0, 0, 0x7000, 1, 21 },
	{ "2 MiB, odd start", 5, SZ_2M, 3 * SZ_2M, SZ_2M, 0x777, 0, 0, 1, 21 },
	{ "2 MiB, last one cut", 5, SZ_2M, 3 * SZ_2M, SZ_2M, 0, SZ_1M + 5, 0, 1, 21 },
	{ "2 MiB, far away", 5, SZ_2M, 3 * SZ_2M, SZ_2M, 0, 0, 0x7f0000000000, 1, 21 },
	{ "24 KiB", 5, 6 * SZ_4K, SZ_1M, SZ_1M, 0, 0, 0x3000, 1, 13 },
	/* several pieces that are one */
	{ "pieces without gaps", 64, SZ_4K, SZ_4K, SZ_256K, 0, 0, 0x40000, 0 },
};

static void layout_desc(const struct layout *layout, char *desc)
{
	strscpy(desc, layout->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(layout, layouts, layout_desc);

static void layout_memory(struct kunit *test, const struct layout *layout,
			  struct memory *mem)
{
	u32 i;

	memory_alloc(test, mem, layout->segments);
	for (i = 0; i < layout->segments; i++) {
		mem->addr[i] = layout->base + i * layout->stride;
		mem->len[i] = layout->size;
	}
	mem->size = layout->size;
	memory_finish(mem, layout->at + layout->start, layout->cut);
}

static void xlat_layout(struct kunit *test)
{
	const struct layout *layout = test->param_value;
	struct moor_dev *mdev = test->priv;
	struct moor_table table;
	struct memory mem;

	layout_memory(test, layout, &mem);
	spoil_pool(mdev);
	KUNIT_ASSERT_EQ(test, moor_table_build(mdev, &table, &mem.umem), 0);
	KUNIT_EXPECT_EQ(test, table.xlat.memory, MOOR_MEMORY_HOST);
	KUNIT_EXPECT_EQ(test, table.xlat.levels, layout->levels);
	if (layout->levels)
		KUNIT_EXPECT_EQ(test, table.xlat.page_shift, layout->page_shift);
	else
		KUNIT_EXPECT_EQ(test, table.num_nodes, 0);
	check_table(test, &mem, &table);
	check_ends(test, &mem, &table);
	moor_table_free(mdev, &table);
	KUNIT_EXPECT_EQ(test, table.num_nodes, 0);
	memory_free(&mem);
}

/* A piece or several alike, none of which follows the one before it. */
struct pieces {
	u32 count;
	u64 size;
};

#define MAX_PIECES	6

/* Pinned memory that is not all of a size. */
struct mixture {
	const char *name;
	u64 at;			/* where the process has it */
	struct pieces pieces[MAX_PIECES];
	u32 levels;		/* expected */
	u32 page_shift;
	u32 nodes;
};

static const struct mixture mixtures[] = {
	{ "1 GiB of 2 MiB, one in small pages", 0,
	  { { 200, SZ_2M }, { 512, SZ_4K }, { 311, SZ_2M } }, 2, 12, 2 },
	{ "the same, elsewhere", 3ULL * SZ_1G + 5 * SZ_2M,
	  { { 200, SZ_2M }, { 512, SZ_4K }, { 311, SZ_2M } }, 2, 12, 2 },
	{ "the first one in small pages", SZ_2M,
	  { { 512, SZ_4K }, { 100, SZ_2M } }, 2, 12, 2 },
	{ "the last one in small pages", SZ_2M,
	  { { 100, SZ_2M }, { 512, SZ_4K } }, 2, 12, 2 },
	{ "some small pages at either end", SZ_2M - 7 * SZ_4K,
	  { { 7, SZ_4K }, { 100, SZ_2M }, { 5, SZ_4K } }, 2, 12, 3 },
	{ "a page before and a page behind", SZ_2M - SZ_4K,
	  { { 1, SZ_4K }, { 3, SZ_2M }, { 1, SZ_4K } }, 1, 21, 1 },
	{ "pages of 64 KiB among a few of 2 MiB", SZ_1G,
	  { { 3, SZ_2M }, { 32, SZ_64K }, { 3, SZ_2M } }, 1, 16, 1 },
	{ "pages of 64 KiB among many of 2 MiB", SZ_1G,
	  { { 30, SZ_2M }, { 32, SZ_64K }, { 30, SZ_2M } }, 2, 12, 2 },
	{ "pages of 64 KiB, and one of 2 MiB", SZ_1G,
	  { { 320, SZ_64K }, { 1, SZ_2M }, { 320, SZ_64K } }, 2, 16, 3 },
	{ "pages of 1 GiB, 2 MiB and 4 KiB", 7ULL * SZ_1G,
	  { { 1, SZ_1G }, { 512, SZ_2M }, { 512, SZ_4K }, { 511, SZ_2M }, { 2, SZ_1G } },
	  3, 12, 4 },
	{ "2 MiB after 1 MiB", SZ_1M, { { 1, SZ_1M }, { 9, SZ_2M } }, 1, 21, 1 },
	{ "a large page that stands askew", 0,
	  { { 256, SZ_4K }, { 1, SZ_2M }, { 256, SZ_4K } }, 2, 12, 3 },
	{ "a piece of 6 MiB that stands askew", 0,
	  { { 256, SZ_4K }, { 1, 3 * SZ_2M }, { 3, SZ_4K } }, 2, 12, 3 },
};

static void mixture_desc(const struct mixture *mixture, char *desc)
{
	strscpy(desc, mixture->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(mixture, mixtures, mixture_desc);

static void mixture_memory(struct kunit *test, const struct mixture *mixture,
			   struct memory *mem)
{
	u32 segments = 0, i, j, k = 0;
	u64 addr = SZ_64G;

	for (i = 0; i < MAX_PIECES; i++)
		segments += mixture->pieces[i].count;
	memory_alloc(test, mem, segments);
	for (i = 0; i < MAX_PIECES; i++) {
		for (j = 0; j < mixture->pieces[i].count; j++, k++) {
			mem->addr[k] = addr;
			mem->len[k] = mixture->pieces[i].size;
			addr += mem->len[k] + SZ_4K;
		}
	}
	memory_finish(mem, mixture->at, 0);
}

static void xlat_mixture(struct kunit *test)
{
	const struct mixture *mixture = test->param_value;
	struct moor_dev *mdev = test->priv;
	struct moor_table table;
	struct memory mem;

	mixture_memory(test, mixture, &mem);
	spoil_pool(mdev);
	KUNIT_ASSERT_EQ(test, moor_table_build(mdev, &table, &mem.umem), 0);
	KUNIT_EXPECT_EQ(test, table.xlat.levels, mixture->levels);
	KUNIT_EXPECT_EQ(test, table.xlat.page_shift, mixture->page_shift);
	KUNIT_EXPECT_EQ(test, table.num_nodes, mixture->nodes);
	check_table(test, &mem, &table);
	check_ends(test, &mem, &table);
	moor_table_free(mdev, &table);
	memory_free(&mem);
}

/* What 1,600 pages may be made of, one time and the next. */
#define REFILL_AT	0x123

static const struct mixture refills[] = {
	{ "pages", REFILL_AT, { { 1600, SZ_4K } } },
	{ "one piece", REFILL_AT, { { 1, 1600 * SZ_4K } } },
	{ "large ones first", REFILL_AT, { { 3, SZ_2M }, { 64, SZ_4K } } },
	{ "large ones askew", REFILL_AT, { { 64, SZ_4K }, { 3, SZ_2M } } },
	{ "one in the middle", REFILL_AT,
	  { { 512, SZ_4K }, { 1, SZ_2M }, { 9, SZ_256K } } },
	{ "64 KiB", REFILL_AT, { { 100, SZ_64K } } },
};

/*
 * The same nodes describe each memory that comes, and keep no entry of the one before;
 * the device's entry for the MR never changes.
 */
static void xlat_refill(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct moor_table table;
	struct moor_xlat xlat;
	struct memory mem;
	u32 i, j, spare;
	u64 dma, left;
	bool writable;

	spoil_pool(mdev);
	KUNIT_ASSERT_EQ(test, moor_table_reserve(mdev, &table, REFILL_AT,
						 1600 * SZ_4K - REFILL_AT), 0);
	KUNIT_EXPECT_EQ(test, table.num_nodes, 1 + 1 + 4);
	xlat = table.xlat;
	spare = mdev->nodes.count;
	for (i = 0; i < ARRAY_SIZE(refills) * ARRAY_SIZE(refills); i++) {
		j = (i & 1 ? i / ARRAY_SIZE(refills) : i) % ARRAY_SIZE(refills);
		mixture_memory(test, &refills[j], &mem);
		writable = i & 2;
		mem.umem.writable = writable;
		KUNIT_EXPECT_FALSE(test, fake_xlat_find(moor_kunit_nic(), &xlat,
							0, false, &dma, &left));
		KUNIT_ASSERT_EQ(test, moor_table_fill(&table, &mem.umem), 0);
		KUNIT_EXPECT_EQ(test, fake_xlat_find(moor_kunit_nic(), &xlat, 0,
						     true, &dma, &left),
				writable);
		check_table(test, &mem, &table);
		check_ends(test, &mem, &table);
		moor_table_empty(&table);
		memory_free(&mem);
	}
	KUNIT_EXPECT_MEMEQ(test, &table.xlat, &xlat, sizeof(xlat));
	KUNIT_EXPECT_EQ(test, mdev->nodes.count, spare);
	moor_table_free(mdev, &table);
}

/*
 * A leaf's first byte is not below address 0, and its last not beyond 2^64: where
 * large ones would be, smaller ones are taken.
 */
static void xlat_last_addresses(struct kunit *test)
{
	static const struct {
		u64 first, last;
		u32 page_shift;
	} cases[] = {
		{ SZ_4G, SZ_8G, 21 },
		{ SZ_2M - SZ_4K, SZ_8G, 21 },
		{ SZ_2M - SZ_8K, SZ_8G, 20 },
		{ 0x3000, SZ_8G, 14 },
		{ 0, SZ_8G, 12 },
		{ SZ_4G, -(u64)SZ_2M, 21 },
		{ SZ_4G, -(u64)SZ_2M + SZ_4K, 20 },
		{ SZ_4G, -(u64)SZ_4K, 12 },
		{ SZ_8K, -(u64)SZ_8K, 13 },
	};
	struct moor_dev *mdev = test->priv;
	struct moor_table table;
	struct memory mem;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		memory_alloc(test, &mem, 3);
		mem.addr[0] = cases[i].first;
		mem.len[0] = SZ_4K;
		mem.addr[1] = SZ_16G;
		mem.len[1] = SZ_2M;
		mem.addr[2] = cases[i].last;
		mem.len[2] = SZ_4K;
		/* No address of the process is aligned. */
		memory_finish(&mem, SZ_1M + 0x7000, 0);
		KUNIT_ASSERT_EQ(test, moor_table_build(mdev, &table, &mem.umem),
				0);
		KUNIT_EXPECT_EQ_MSG(test, table.xlat.page_shift,
				    cases[i].page_shift, "case %u", i);
		check_table(test, &mem, &table);
		moor_table_free(mdev, &table);
		memory_free(&mem);
	}
}

/* A piece of a dma-buf that is not whole pages is refused, wherever it is. */
static void xlat_no_pages(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	u32 count = mdev->nodes.count;
	struct moor_table table;
	struct memory mem;
	u32 i, j;

	for (i = 0; i < 600; i += 13) {
		for (j = 0; j < 2; j++) {
			memory_alloc(test, &mem, 601);
			for (u32 k = 0; k < 601; k++) {
				mem.addr[k] = SZ_1G + k * SZ_8K;
				mem.len[k] = SZ_4K;
			}
			if (j)
				mem.addr[i] += SZ_2K;
			else
				mem.len[i] += SZ_2K;
			memory_finish(&mem, 0, 0);
			mem.umem.is_dmabuf = 1;
			KUNIT_EXPECT_EQ_MSG(test,
					    moor_table_build(mdev, &table,
							     &mem.umem),
					    -EINVAL, "piece %u", i);
			KUNIT_EXPECT_EQ(test, table.num_nodes, 0);
			memory_free(&mem);
		}
	}
	KUNIT_EXPECT_EQ(test, mdev->nodes.count, count);
}

static u64 random_size(struct rnd_state *rnd)
{
	switch (prandom_u32_state(rnd) % 4) {
	case 0:
		return SZ_4K;
	case 1:
		return SZ_2M * (1 + prandom_u32_state(rnd) % 600);
	default:
		return SZ_4K * (1 + prandom_u32_state(rnd) % 700);
	}
}

/*
 * Pieces of random sizes at random places, the first and last cut at random, and
 * half of the time where huge pages would be.
 */
static void xlat_random(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct moor_table table;
	struct rnd_state rnd;
	struct memory mem;
	u32 round, i, segments;
	u64 start, last, at, mask;

	prandom_seed_state(&rnd, 20261120);
	for (round = 0; round < 600; round++) {
		segments = 1 + prandom_u32_state(&rnd) % 40;
		mask = round & 2 ? ~(u64)SZ_2M + 1 : PAGE_MASK;
		memory_alloc(test, &mem, segments);
		at = SZ_1M;
		for (i = 0; i < segments; i++) {
			/* A third of them follow the one before. */
			if (prandom_u32_state(&rnd) % 3)
				at += SZ_4K * (1 + prandom_u32_state(&rnd) % 5000);
			mem.addr[i] = at;
			mem.len[i] = random_size(&rnd);
			at += mem.len[i];
		}
		start = prandom_u32_state(&rnd) % SZ_4K;
		last = prandom_u32_state(&rnd) % (SZ_4K - start);
		start += ((u64)prandom_u32_state(&rnd) << 12) & mask;
		memory_finish(&mem, start, last);
		mem.umem.writable = round & 1;
		spoil_pool(mdev);
		KUNIT_ASSERT_EQ(test, moor_table_build(mdev, &table,
						       &mem.umem), 0);
		check_table(test, &mem, &table);
		check_ends(test, &mem, &table);
		moor_table_free(mdev, &table);
		memory_free(&mem);
	}
}

/* Leaves of a device that announces few page sizes; huge ones it has in any case. */
static void xlat_page_sizes(struct kunit *test)
{
	static const struct layout layout = {
		"", 5, SZ_1G, 3ULL * SZ_1G, SZ_1G,
	};
	struct moor_dev *mdev = test->priv;
	struct moor_table table;
	struct memory mem;
	u32 shift;

	layout_memory(test, &layout, &mem);
	for (shift = 18; shift <= 30; shift += 3) {
		mdev->caps.page_sizes = SZ_4K | BIT_ULL(shift);
		KUNIT_ASSERT_EQ(test, moor_table_build(mdev, &table,
						       &mem.umem), 0);
		KUNIT_EXPECT_EQ(test, table.xlat.page_shift,
				shift < 21 ? 12 : shift);
		check_table(test, &mem, &table);
		moor_table_free(mdev, &table);
	}
	memory_free(&mem);
}

/* Memory pinned for reading has no writable leaf, in a tree and without one. */
static void xlat_read_only(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct moor_table table;
	struct memory mem;
	u64 dma, left;
	u32 segments;

	for (segments = 1; segments <= 700; segments += 699) {
		struct layout layout = {
			"", segments, SZ_4K, SZ_8K, SZ_1M,
		};

		layout_memory(test, &layout, &mem);
		mem.umem.writable = 0;
		KUNIT_ASSERT_EQ(test, moor_table_build(mdev, &table,
						       &mem.umem), 0);
		check_table(test, &mem, &table);
		KUNIT_EXPECT_FALSE(test, fake_xlat_find(moor_kunit_nic(),
							&table.xlat, 0, true,
							&dma, &left));
		moor_table_free(mdev, &table);
		memory_free(&mem);
	}
}

/* Nodes come from the pool and go back; further ones are allocated. */
static void xlat_pool(struct kunit *test)
{
	static const struct layout large = {
		"", 200000, SZ_4K, SZ_8K, SZ_1M,
	};
	struct moor_dev *mdev = test->priv;
	u32 before = mdev->nodes.count;
	struct moor_table tables[4];
	struct memory mem;
	u32 i;

	layout_memory(test, &large, &mem);
	for (i = 0; i < ARRAY_SIZE(tables); i++) {
		KUNIT_ASSERT_EQ(test, moor_table_build(mdev, &tables[i],
						       &mem.umem), 0);
		KUNIT_EXPECT_EQ(test, tables[i].num_nodes,
				DIV_ROUND_UP(200000, 512) + 1);
	}
	KUNIT_EXPECT_EQ(test, mdev->nodes.count, 0);
	check_table(test, &mem, &tables[0]);
	check_table(test, &mem, &tables[3]);
	for (i = 0; i < ARRAY_SIZE(tables); i++)
		moor_table_free(mdev, &tables[i]);
	KUNIT_EXPECT_GE(test, mdev->nodes.count, before);
	memory_free(&mem);
}

static struct kunit_case xlat_cases[] = {
	KUNIT_CASE_PARAM(xlat_layout, layout_gen_params),
	KUNIT_CASE_PARAM(xlat_mixture, mixture_gen_params),
	KUNIT_CASE(xlat_refill),
	KUNIT_CASE(xlat_last_addresses),
	KUNIT_CASE(xlat_no_pages),
	KUNIT_CASE(xlat_random),
	KUNIT_CASE(xlat_page_sizes),
	KUNIT_CASE(xlat_read_only),
	KUNIT_CASE(xlat_pool),
	{}
};

static struct kunit_suite xlat_suite = {
	.name = "moor_xlat",
	.init = moor_bare_init,
	.exit = moor_bare_exit,
	.test_cases = xlat_cases,
};

kunit_test_suite(xlat_suite);
