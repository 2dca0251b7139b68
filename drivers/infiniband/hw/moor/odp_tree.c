// SPDX-License-Identifier: GPL-2.0
/*
 * The tree of an MR that is paged on demand: branches, and the nodes above them,
 * which are made for the first branch and go with the last one.
 */

#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "moor.h"

/**
 * moor_odp_alloc_node - make a node of a translation
 * @odp: translation
 * @table: filled in, with one node that is empty
 *
 * Return: 0 or -ENOMEM.
 */
int moor_odp_alloc_node(struct moor_odp *odp, struct moor_table *table)
{
	int err = moor_table_alloc_nodes(odp->mdev, table, 1);

	if (err)
		return err;
	memset(moor_node_entries(table), 0, MOOR_PAGE_SIZE);
	odp->num_nodes++;
	return 0;
}

void moor_odp_free_node(struct moor_odp *odp, struct moor_table *table)
{
	moor_table_free(odp->mdev, table);
	odp->num_nodes--;
}

/* The entry of @parent that points to the node of height @height that maps @addr. */
static __le64 *moor_odp_slot(const struct moor_odp_node *parent,
			     const struct moor_odp *odp, u64 addr, u32 height)
{
	u32 shift = MOOR_MIN_PAGE_SHIFT + MOOR_NODE_SHIFT * height;

	return &moor_node_entries(&parent->table)[(addr - odp->base) >> shift &
						  (MOOR_NODE_ENTRIES - 1)];
}

static unsigned long moor_odp_node_id(const struct moor_odp *odp, u64 addr,
				      u32 height)
{
	u32 shift = MOOR_MIN_PAGE_SHIFT + MOOR_NODE_SHIFT * height;

	return (addr - odp->base) >> shift << 3 | height;
}

static struct moor_odp_node *moor_odp_node_new(struct moor_odp *odp,
					       struct moor_odp_node *parent,
					       u64 addr, u32 height)
{
	struct moor_odp_node *node = kzalloc_obj(*node);
	int err = -ENOMEM;

	if (!node)
		return ERR_PTR(err);
	node->parent = parent;
	node->slot = moor_odp_slot(parent, odp, addr, height);
	node->id = moor_odp_node_id(odp, addr, height);
	err = moor_odp_alloc_node(odp, &node->table);
	if (err)
		goto free;
	err = xa_err(xa_store(&odp->nodes, node->id, node, GFP_KERNEL));
	if (err)
		goto free_node;
	parent->children++;
	/* The node is empty before the device sees it. */
	dma_wmb();
	WRITE_ONCE(*node->slot, moor_node_entry(&node->table));
	return node;

free_node:
	moor_odp_free_node(odp, &node->table);
free:
	kfree(node);
	return ERR_PTR(err);
}

/* Free nodes without children, from @node up; @addr is in the range of all of them. */
static void moor_odp_trim(struct moor_odp *odp, struct moor_odp_node *node,
			  u64 addr)
{
	struct moor_odp_node *gone = NULL, *next;

	for (; node->parent && !node->children; node = next) {
		next = node->parent;
		WRITE_ONCE(*node->slot, 0);
		next->children--;
		xa_erase(&odp->nodes, node->id);
		node->parent = gone;
		gone = node;
	}
	if (gone)
		moor_odp_fence(odp, addr, addr + MOOR_BRANCH_SIZE);
	for (; gone; gone = next) {
		next = gone->parent;
		moor_odp_free_node(odp, &gone->table);
		kfree(gone);
	}
}

/* The node of height 2 for an address; the ones above it are made as needed. */
static struct moor_odp_node *moor_odp_parent(struct moor_odp *odp, u64 addr)
{
	struct moor_odp_node *node = &odp->root, *child;
	u32 height;

	for (height = odp->levels - 1; height >= 2; height--) {
		child = xa_load(&odp->nodes,
				moor_odp_node_id(odp, addr, height));
		if (!child)
			child = moor_odp_node_new(odp, node, addr, height);
		if (IS_ERR(child)) {
			moor_odp_trim(odp, node, addr);
			return child;
		}
		node = child;
	}
	return node;
}

static void moor_branch_release(struct moor_branch *branch)
{
	moor_odp_free_node(branch->odp, &branch->table);
	mutex_destroy(&branch->lock);
	kvfree(branch->pages);
	kfree(branch);
}

static int moor_branch_enter(struct moor_odp *odp, struct moor_branch *branch)
{
	int err;

	err = mmu_interval_notifier_insert(&branch->notifier, odp->mm,
					   branch->start, MOOR_BRANCH_SIZE,
					   &moor_branch_ops);
	if (err)
		return err;
	err = xa_err(xa_store(&odp->branches,
			      moor_branch_id(odp, branch->start), branch,
			      GFP_KERNEL));
	if (err)
		mmu_interval_notifier_remove(&branch->notifier);
	else
		branch->parent->children++;
	return err;
}

static struct moor_branch *moor_branch_make(struct moor_odp *odp, u64 addr)
{
	struct moor_branch *branch = kzalloc_obj(*branch);
	int err = -ENOMEM;

	if (!branch)
		return ERR_PTR(err);
	branch->odp = odp;
	branch->start = ALIGN_DOWN(addr, MOOR_BRANCH_SIZE);
	mutex_init(&branch->lock);
	branch->pages = kvcalloc(MOOR_NODE_ENTRIES, sizeof(*branch->pages),
				 GFP_KERNEL_ACCOUNT);
	if (!branch->pages)
		goto free;
	err = moor_odp_alloc_node(odp, &branch->table);
	if (err)
		goto free_pages;
	branch->parent = moor_odp_parent(odp, branch->start);
	if (IS_ERR(branch->parent)) {
		err = PTR_ERR(branch->parent);
		goto release;
	}
	branch->slot = moor_odp_slot(branch->parent, odp, branch->start, 1);
	err = moor_branch_enter(odp, branch);
	if (err)
		goto trim;
	return branch;

trim:
	moor_odp_trim(odp, branch->parent, branch->start);
release:
	moor_odp_free_node(odp, &branch->table);
free_pages:
	kvfree(branch->pages);
free:
	mutex_destroy(&branch->lock);
	kfree(branch);
	return ERR_PTR(err);
}

/**
 * moor_branch_new - make the branch of an address
 * @odp: translation, which has none there
 * @addr: address in a process that lives
 *
 * The process's memory cgroup is charged, also if a worker is the caller.
 *
 * Return: the branch, or an error pointer.
 */
struct moor_branch *moor_branch_new(struct moor_odp *odp, u64 addr)
{
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(odp->mm);
	struct mem_cgroup *before = set_active_memcg(memcg);
	struct moor_branch *branch = moor_branch_make(odp, addr);

	set_active_memcg(before);
	mem_cgroup_put(memcg);
	return branch;
}

/**
 * moor_branch_find - the branch of an address
 * @odp: translation
 * @addr: address in the process
 *
 * Return: the branch, or NULL.
 */
struct moor_branch *moor_branch_find(struct moor_odp *odp, u64 addr)
{
	lockdep_assert_held(&odp->lock);
	return xa_load(&odp->branches, moor_branch_id(odp, addr));
}

/**
 * moor_branch_free - free a branch
 * @branch: branch without pages: the device has forgotten it with its last page
 */
void moor_branch_free(struct moor_branch *branch)
{
	struct moor_odp *odp = branch->odp;

	lockdep_assert_held(&odp->lock);
	mmu_interval_notifier_remove(&branch->notifier);
	xa_erase(&odp->branches, moor_branch_id(odp, branch->start));
	branch->parent->children--;
	moor_odp_trim(odp, branch->parent, branch->start);
	moor_branch_release(branch);
}

static void moor_branch_drop(struct moor_branch *branch)
{
	moor_branch_drop_pages(branch);
	mmu_interval_notifier_remove(&branch->notifier);
	moor_branch_release(branch);
	cond_resched();
}

/**
 * moor_odp_free_tree - end a translation
 * @odp: translation that the device does not use any more
 */
void moor_odp_free_tree(struct moor_odp *odp)
{
	struct moor_odp_node *node;
	struct moor_branch *branch;
	unsigned long id;

	lockdep_assert_held(&odp->lock);
	xa_for_each(&odp->branches, id, branch)
		moor_branch_drop(branch);
	xa_destroy(&odp->branches);
	xa_for_each(&odp->nodes, id, node) {
		moor_odp_free_node(odp, &node->table);
		kfree(node);
	}
	xa_destroy(&odp->nodes);
	moor_odp_free_node(odp, &odp->root.table);
}
