// SPDX-License-Identifier: GPL-2.0
/*
 * Translation tables (HWI 7): the nodes that they are made of. xlat_tree.c fills the
 * nodes.
 */

#include <linux/dma-mapping.h>
#include <linux/slab.h>

#include "moor.h"

#define MOOR_POOL_FILL	64	/* nodes made at probe */
#define MOOR_POOL_KEEP	1024	/* free nodes kept for the next table */

static struct moor_node *moor_node_new(struct moor_dev *mdev)
{
	struct moor_node *node = kmalloc_obj(*node);

	if (!node)
		return NULL;
	/* Charged to who needs it, though the pool may give it to another one later. */
	node->pte = dma_alloc_coherent(&mdev->pdev->dev, MOOR_PAGE_SIZE,
				       &node->dma, GFP_KERNEL_ACCOUNT);
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

/*
 * Registrations that have nothing in common do not wait for each other here: a task
 * that finds the pool locked makes a node, or lets its nodes go.
 */
static struct moor_node *moor_nodes_take(struct moor_node_pool *pool)
{
	struct moor_node *node;

	if (!spin_trylock(&pool->lock))
		return NULL;
	node = pool->free;
	if (node) {
		pool->free = node->next;
		pool->count--;
	}
	spin_unlock(&pool->lock);
	return node;
}

/**
 * moor_table_add_node - take another node for a table
 * @mdev: device
 * @table: table that gets the node, in front of its others
 *
 * Return: the node, with what it held before, or NULL.
 */
struct moor_node *moor_table_add_node(struct moor_dev *mdev,
				      struct moor_table *table)
{
	struct moor_node *node = moor_nodes_take(&mdev->nodes);

	if (!node)
		node = moor_node_new(mdev);
	if (!node)
		return NULL;
	node->next = table->nodes;
	table->nodes = node;
	table->num_nodes++;
	return node;
}

/**
 * moor_table_alloc_nodes - take nodes for a table
 * @mdev: device
 * @table: filled in but for its translation; has no nodes yet
 * @want: how many
 *
 * Return: 0 or -ENOMEM.
 */
int moor_table_alloc_nodes(struct moor_dev *mdev, struct moor_table *table,
			   u32 want)
{
	*table = (struct moor_table){};
	while (table->num_nodes < want) {
		if (!moor_table_add_node(mdev, table)) {
			moor_table_free(mdev, table);
			return -ENOMEM;
		}
	}
	return 0;
}

static struct moor_node *moor_nodes_last(struct moor_node *node)
{
	while (node->next)
		node = node->next;
	return node;
}

/* Give all of a table's nodes to the pool, if it is free and has room for them. */
static bool moor_nodes_give(struct moor_node_pool *pool,
			    const struct moor_table *table)
{
	struct moor_node *last;
	bool room;

	if (table->num_nodes > MOOR_POOL_KEEP)
		return false;
	last = moor_nodes_last(table->nodes);
	if (!spin_trylock(&pool->lock))
		return false;
	room = pool->count + table->num_nodes <= MOOR_POOL_KEEP;
	if (room) {
		last->next = pool->free;
		pool->free = table->nodes;
		pool->count += table->num_nodes;
	}
	spin_unlock(&pool->lock);
	return room;
}

/**
 * moor_table_free - give a table's nodes back
 * @mdev: device
 * @table: table that the device does not use any more
 */
void moor_table_free(struct moor_dev *mdev, struct moor_table *table)
{
	if (table->nodes && !moor_nodes_give(&mdev->nodes, table))
		moor_nodes_release(mdev, table->nodes);
	table->nodes = NULL;
	table->num_nodes = 0;
}

/**
 * moor_ring_pin - describe a process's ring to the device
 * @mdev: device
 * @ring: filled in
 * @umem: pinned memory of the ring, of a CQ also a dma-buf; owned by this function
 *	from here on
 *
 * Return: 0 or an errno, with nothing pinned.
 */
int moor_ring_pin(struct moor_dev *mdev, struct moor_ring *ring,
		  struct ib_umem *umem)
{
	int err = umem->is_dmabuf ? moor_dmabuf_check_list(umem) : 0;

	if (!err)
		err = moor_table_build(mdev, &ring->table, umem);
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
 * @ring: ring that the device does not use any more; may never have been pinned
 */
void moor_ring_unpin(struct moor_dev *mdev, struct moor_ring *ring)
{
	if (!ring->umem)
		return;
	moor_table_free(mdev, &ring->table);
	ib_umem_release(ring->umem);
	ring->umem = NULL;
}
