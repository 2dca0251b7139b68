// SPDX-License-Identifier: GPL-2.0
/*
 * Translation tables (HWI 7): what the device finds pinned memory by.
 */

#include <linux/dma-mapping.h>
#include <linux/log2.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "moor.h"

#define MOOR_POOL_FILL	64	/* nodes made at probe */
#define MOOR_POOL_KEEP	1024	/* free nodes kept for the next table */

static struct moor_node *moor_node_new(struct moor_dev *mdev)
{
	struct moor_node *node = kmalloc_obj(*node);

	if (!node)
		return NULL;
	node->pte = dma_alloc_coherent(&mdev->pdev->dev, MOOR_PAGE_SIZE,
				       &node->dma, GFP_KERNEL);
	if (!node->pte) {
		kfree(node);
		return NULL;
	}
	return node;
}

static void moor_nodes_release(struct moor_dev *mdev, struct moor_node *node)
{
	struct moor_node *next;

	for (; node; node = next) {
		next = node->next;
		dma_free_coherent(&mdev->pdev->dev, MOOR_PAGE_SIZE, node->pte,
				  node->dma);
		kfree(node);
		cond_resched();
	}
}

/**
 * moor_nodes_init - make the pool of table nodes
 * @mdev: device
 *
 * Return: 0 or -ENOMEM.
 */
int moor_nodes_init(struct moor_dev *mdev)
{
	struct moor_node_pool *pool = &mdev->nodes;
	struct moor_node *node;

	spin_lock_init(&pool->lock);
	while (pool->count < MOOR_POOL_FILL) {
		node = moor_node_new(mdev);
		if (!node) {
			moor_nodes_destroy(mdev);
			return -ENOMEM;
		}
		node->next = pool->free;
		pool->free = node;
		pool->count++;
	}
	return 0;
}

void moor_nodes_destroy(struct moor_dev *mdev)
{
	moor_nodes_release(mdev, mdev->nodes.free);
	mdev->nodes.free = NULL;
	mdev->nodes.count = 0;
}

/* Take from the pool what it has, up to @want. */
static u32 moor_nodes_take(struct moor_node_pool *pool, u32 want,
			   struct moor_node **list)
{
	struct moor_node *last = NULL;
	struct moor_node *node;
	u32 taken = 0;

	*list = NULL;
	spin_lock(&pool->lock);
	for (node = pool->free; node && taken < want; node = node->next) {
		last = node;
		taken++;
	}
	if (last) {
		*list = pool->free;
		pool->free = node;
		last->next = NULL;
		pool->count -= taken;
	}
	spin_unlock(&pool->lock);
	return taken;
}

/**
 * moor_table_alloc_nodes - take nodes for a table
 * @mdev: device
 * @table: filled in but for its translation
 * @want: how many
 *
 * Return: 0 or -ENOMEM.
 */
int moor_table_alloc_nodes(struct moor_dev *mdev, struct moor_table *table,
			   u32 want)
{
	struct moor_node *node;

	table->num_nodes = moor_nodes_take(&mdev->nodes, want, &table->nodes);
	while (table->num_nodes < want) {
		node = moor_node_new(mdev);
		if (!node) {
			moor_table_free(mdev, table);
			return -ENOMEM;
		}
		node->next = table->nodes;
		table->nodes = node;
		table->num_nodes++;
	}
	return 0;
}

/**
 * moor_table_free - give a table's nodes back
 * @mdev: device
 * @table: table that the device has no use of any more
 */
void moor_table_free(struct moor_dev *mdev, struct moor_table *table)
{
	struct moor_node_pool *pool = &mdev->nodes;
	struct moor_node *node;

	spin_lock(&pool->lock);
	while (table->nodes && pool->count < MOOR_POOL_KEEP) {
		node = table->nodes;
		table->nodes = node->next;
		node->next = pool->free;
		pool->free = node;
		pool->count++;
	}
	spin_unlock(&pool->lock);
	moor_nodes_release(mdev, table->nodes);
	table->nodes = NULL;
	table->num_nodes = 0;
}

/**
 * struct moor_fill - a tree being filled from left to right
 * @spare: nodes not yet used
 * @pos: by height - 1: the next entry
 * @end: by height - 1: behind the last entry of that node
 * @levels: height of the root's node
 */
struct moor_fill {
	struct moor_node *spare;
	__le64 *pos[MOOR_MAX_LEVELS];
	__le64 *end[MOOR_MAX_LEVELS];
	u32 levels;
};

/*
 * A new node at height @h + 1, entered in the one above it. It cannot run out of
 * nodes: their number was computed from the same sizes.
 */
static struct moor_node *moor_fill_node(struct moor_fill *fill, u32 h)
{
	struct moor_node *node;

	if (h + 1 < fill->levels && fill->pos[h + 1] == fill->end[h + 1] &&
	    !moor_fill_node(fill, h + 1))
		return NULL;
	node = fill->spare;
	if (WARN_ON_ONCE(!node))
		return NULL;
	fill->spare = node->next;
	if (h + 1 < fill->levels)
		*fill->pos[h + 1]++ = cpu_to_le64(node->dma | MOOR_PTE_PRESENT);
	fill->pos[h] = node->pte;
	fill->end[h] = node->pte + MOOR_NODE_ENTRIES;
	return node;
}

/* The next entry of a mapped scatterlist, as sg_next() but inline. */
static inline struct scatterlist *moor_sg_next(struct scatterlist *sg)
{
	sg++;
	return unlikely(sg_is_chain(sg)) ? sg_chain_ptr(sg) : sg;
}

/*
 * Fill the leaves: a block each, whose low bits are @bits. An entry that does
 * not begin where the one before it ended begins a block; the core's page size
 * search has seen to it that it is aligned (the very first one need not be).
 *
 * This loop is most of what registering costs beside pinning: the position is
 * kept in registers, and a node is changed only at its end.
 */
static int moor_fill_leaves(struct moor_fill *fill, struct sg_table *sgt,
			    u32 page_shift, u64 bits)
{
	struct scatterlist *sg = sgt->sgl;
	u64 size = BIT_ULL(page_shift);
	__le64 *pos = fill->pos[0];
	__le64 *end = fill->end[0];
	dma_addr_t run_end = ~(dma_addr_t)0;
	u64 block = 0;
	u32 i;

	for (i = sgt->nents; i; i--) {
		dma_addr_t addr = sg_dma_address(sg);

		if (addr != run_end)
			block = (addr & -size) | bits;
		run_end = addr + sg_dma_len(sg);
		for (; block < run_end; block += size) {
			if (unlikely(pos == end)) {
				if (!moor_fill_node(fill, 0))
					return -EINVAL;
				cond_resched();
				pos = fill->pos[0];
				end = fill->end[0];
			}
			*pos++ = cpu_to_le64(block);
		}
		if (i > 1)
			sg = moor_sg_next(sg);
	}
	fill->pos[0] = pos;
	return 0;
}

/* Nodes come from the pool as they were left: clear what is behind the data. */
static void moor_fill_clear_rest(struct moor_fill *fill)
{
	u32 h;

	for (h = 0; h < fill->levels; h++)
		memset(fill->pos[h], 0,
		       (u8 *)fill->end[h] - (u8 *)fill->pos[h]);
}

static u64 moor_leaf_bits(const struct ib_umem *umem)
{
	return MOOR_PTE_PRESENT | MOOR_PTE_LEAF |
	       (umem->writable ? MOOR_PTE_WRITABLE : 0);
}

/* Levels and nodes of a tree with so many leaves. */
static void moor_table_shape(u64 leaves, u32 *levels, u64 *nodes)
{
	*levels = 0;
	*nodes = 0;
	do {
		leaves = DIV_ROUND_UP_ULL(leaves, MOOR_NODE_ENTRIES);
		*nodes += leaves;
		(*levels)++;
	} while (leaves > 1);
}

/* A tree from @nodes, the first of which becomes its root's. */
static int moor_fill_tree(struct moor_node *nodes, u32 levels,
			  struct ib_umem *umem, u32 page_shift)
{
	struct moor_fill fill = { .spare = nodes, .levels = levels };
	int err;

	err = moor_fill_leaves(&fill, &umem->sgt_append.sgt, page_shift,
			       moor_leaf_bits(umem));
	if (!err)
		moor_fill_clear_rest(&fill);
	return err;
}

static int moor_table_build_tree(struct moor_dev *mdev,
				 struct moor_table *table,
				 struct ib_umem *umem, u64 iova)
{
	struct moor_xlat *xlat = &table->xlat;
	unsigned long page_size;
	u32 page_shift, levels;
	u64 nodes;
	int err;

	/* Sets umem->iova, which ib_umem_num_dma_blocks() goes by. */
	page_size = ib_umem_find_best_pgsz(umem, mdev->caps.page_sizes, iova);
	if (!page_size)
		return -EINVAL;
	page_shift = ilog2(page_size);
	moor_table_shape(ib_umem_num_dma_blocks(umem, page_size), &levels,
			 &nodes);
	if (levels > MOOR_MAX_LEVELS || nodes > U32_MAX)
		return -EINVAL;
	err = moor_table_alloc_nodes(mdev, table, nodes);
	if (err)
		return err;

	err = moor_fill_tree(table->nodes, levels, umem, page_shift);
	if (err) {
		moor_table_free(mdev, table);
		return err;
	}
	xlat->root = cpu_to_le64(table->nodes->dma | MOOR_PTE_PRESENT);
	xlat->offset = cpu_to_le64(iova & (page_size - 1));
	xlat->levels = levels;
	xlat->page_shift = page_shift;
	return 0;
}

/* Memory that is one piece for the device has no table: the root is its leaf. */
static void moor_table_build_leaf(struct moor_table *table,
				  struct ib_umem *umem)
{
	struct moor_xlat *xlat = &table->xlat;
	dma_addr_t addr = sg_dma_address(umem->sgt_append.sgt.sgl);

	xlat->root = cpu_to_le64(addr | moor_leaf_bits(umem));
	xlat->offset = cpu_to_le64(ib_umem_offset(umem));
	xlat->page_shift = MOOR_MIN_PAGE_SHIFT;
}

/**
 * moor_table_build - describe pinned memory to the device
 * @mdev: device
 * @table: filled in
 * @umem: pinned memory
 * @iova: address of its first byte as the device will be given it
 *
 * Return: 0; -ENOMEM; -EINVAL if no table can describe it.
 */
int moor_table_build(struct moor_dev *mdev, struct moor_table *table,
		     struct ib_umem *umem, u64 iova)
{
	*table = (struct moor_table){};
	if (umem->sgt_append.sgt.nents > 1)
		return moor_table_build_tree(mdev, table, umem, iova);
	moor_table_build_leaf(table, umem);
	return 0;
}

/**
 * moor_table_reserve - a table for memory that comes and goes, all of it
 * @mdev: device
 * @table: filled in; describes nothing yet
 * @start: address of the first byte
 * @length: bytes
 *
 * All hangs on the first entry of the root's node.
 *
 * Return: 0; -ENOMEM; -EINVAL if no table can be as large.
 */
int moor_table_reserve(struct moor_dev *mdev, struct moor_table *table,
		       u64 start, u64 length)
{
	struct moor_xlat *xlat = &table->xlat;
	u32 offset = offset_in_page(start);
	u32 levels;
	u64 nodes;
	int err;

	*table = (struct moor_table){};
	moor_table_shape(DIV_ROUND_UP_ULL(offset + length, MOOR_PAGE_SIZE),
			 &levels, &nodes);
	if (levels >= MOOR_MAX_LEVELS || nodes >= U32_MAX)
		return -EINVAL;
	err = moor_table_alloc_nodes(mdev, table, nodes + 1);
	if (err)
		return err;
	memset(table->nodes->pte, 0, MOOR_PAGE_SIZE);
	xlat->root = cpu_to_le64(table->nodes->dma | MOOR_PTE_PRESENT);
	xlat->offset = cpu_to_le64(offset);
	xlat->levels = levels + 1;
	xlat->page_shift = MOOR_MIN_PAGE_SHIFT;
	return 0;
}

/**
 * moor_table_fill - describe memory that has come
 * @table: of moor_table_reserve(); describes nothing, and the device knows that
 * @umem: memory, mapped in whole pages, as long as was reserved
 *
 * Return: 0, or -EINVAL with the table as it was.
 */
int moor_table_fill(struct moor_table *table, struct ib_umem *umem)
{
	struct moor_node *root = table->nodes;
	int err = moor_fill_tree(root->next, table->xlat.levels - 1, umem,
				 MOOR_MIN_PAGE_SHIFT);

	if (err)
		return err;
	/* What the nodes hold before the nodes (HWI ODP-18). */
	dma_wmb();
	WRITE_ONCE(*root->pte, cpu_to_le64(root->next->dma | MOOR_PTE_PRESENT));
	return 0;
}

/**
 * moor_table_empty - describe nothing
 * @table: of moor_table_reserve()
 *
 * The memory may be let go when the device has forgotten it (HWI ODP-19).
 */
void moor_table_empty(struct moor_table *table)
{
	WRITE_ONCE(*table->nodes->pte, 0);
}

/**
 * moor_ring_pin - describe a process's ring to the device
 * @mdev: device
 * @ring: filled in
 * @umem: pinned memory of the ring; this function's from here on
 *
 * Return: 0 or an errno, with nothing pinned.
 */
int moor_ring_pin(struct moor_dev *mdev, struct moor_ring *ring,
		  struct ib_umem *umem)
{
	int err = moor_table_build(mdev, &ring->table, umem, umem->address);

	if (err) {
		ib_umem_release(umem);
		return err;
	}
	ring->umem = umem;
	return 0;
}

/**
 * moor_ring_unpin - let a ring go
 * @mdev: device
 * @ring: ring that the device has no use of any more; may never have been pinned
 */
void moor_ring_unpin(struct moor_dev *mdev, struct moor_ring *ring)
{
	if (!ring->umem)
		return;
	moor_table_free(mdev, &ring->table);
	ib_umem_release(ring->umem);
	ring->umem = NULL;
}
