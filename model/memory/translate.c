// SPDX-License-Identifier: GPL-2.0
/* Translations: from a byte of an object to host memory (HWI 7). */
#include <endian.h>
#include <string.h>

#include "base/dma_map.h"
#include "base/state.h"
#include "memory/translate.h"

bool xlat_decode(struct xlat *x, const struct moor_xlat *raw)
{
	x->root = le64toh(raw->root);
	x->levels = raw->levels;
	x->page_shift = raw->page_shift;
	x->memory = raw->memory;
	x->on_demand = false;

	/* Gather lists come with a feature that this NIC does not have. */
	if (raw->reserved1 || raw->entries || x->levels > MOOR_MAX_LEVELS ||
	    x->memory > MOOR_MEMORY_NIC ||
	    (x->memory == MOOR_MEMORY_NIC && x->levels))
		return false;
	/*
	 * Read last: next to the root, compilers read both with one load. They
	 * have just been stored in two halves, for which such a load waits.
	 */
	x->offset = le64toh(raw->offset);
	return x->page_shift <= 63 &&
	       (NIC_PAGE_SIZES & MOOR_BIT(x->page_shift));
}

static bool is_leaf(uint64_t entry)
{
	return (entry & (MOOR_PTE_PRESENT | MOOR_PTE_LEAF | MOOR_PTE_RESERVED)) ==
	       (MOOR_PTE_PRESENT | MOOR_PTE_LEAF);
}

static bool is_node(uint64_t entry)
{
	return (entry & (MOOR_PTE_PRESENT | MOOR_PTE_LEAF | MOOR_PTE_WRITABLE |
			 MOOR_PTE_RESERVED)) == MOOR_PTE_PRESENT;
}

/* Slot of a node; the table's owner may be writing. */
static uint64_t load_entry(const uint64_t *entries, uint64_t slot)
{
	return le64toh(__atomic_load_n(&entries[slot % MOOR_NODE_ENTRIES],
				       __ATOMIC_RELAXED));
}

static void leaf_from_entry(struct xlat_leaf *leaf, uint64_t entry,
			    uint64_t in_leaf, uint64_t leaf_size)
{
	leaf->addr = (entry & MOOR_PTE_ADDR) + in_leaf;
	leaf->size = leaf_size - in_leaf;
	leaf->writable = entry & MOOR_PTE_WRITABLE;
}

/* A leaf whose end lies beyond 2^64 is malformed: its bytes would wrap. */
static bool leaf_wraps(uint64_t entry, uint64_t leaf_size)
{
	uint64_t last;

	return __builtin_add_overflow(entry & MOOR_PTE_ADDR, leaf_size - 1,
				      &last);
}

const uint64_t *xlat_node_ptr(struct nic *nic, uint64_t addr)
{
	uint64_t len = MOOR_PAGE_SIZE;
	const uint64_t *p;

	p = dma_map_ptr(nic->dma, addr, &len, false);
	return p && len == MOOR_PAGE_SIZE ? p : NULL;
}

/* The syndrome of a walk that meets an entry that is neither leaf nor node. */
static uint8_t no_way(const struct xlat *x, uint64_t entry)
{
	return x->on_demand && !(entry & MOOR_PTE_PRESENT) ?
	       SYN_PAGE_FAULT : MOOR_SYN_TRANSLATION;
}

static uint8_t walk_tree(struct nic *nic, const struct xlat *x, uint64_t byte,
			 struct xlat_leaf *leaf, struct xlat_node *node)
{
	uint64_t entry = x->root;
	unsigned int height;

	for (height = x->levels; height; height--) {
		unsigned int shift = x->page_shift +
				     MOOR_NODE_SHIFT * (height - 1);
		uint64_t size, addr = entry & MOOR_PTE_ADDR;
		const uint64_t *entries;

		/* Without a root there is no table that a page could enter. */
		if (!is_node(entry))
			return height == x->levels ? MOOR_SYN_TRANSLATION :
						     no_way(x, entry);
		entries = xlat_node_ptr(nic, addr);
		if (!entries)
			return MOOR_SYN_DMA;
		/* What lies above bit 63 is never addressed: slot 0. */
		if (shift >= 64) {
			entry = load_entry(entries, 0);
			continue;
		}
		/* A byte may lie behind the root's node, but not behind a lower one. */
		if (height == x->levels && shift + MOOR_NODE_SHIFT < 64 &&
		    byte >> (shift + MOOR_NODE_SHIFT))
			return MOOR_SYN_TRANSLATION;

		entry = load_entry(entries, byte >> shift);
		if (height > 1 && !is_leaf(entry))
			continue;
		node->entries = entries;
		node->addr = addr;
		node->shift = shift;
		node->prefix = byte >> shift >> MOOR_NODE_SHIFT;
		if (!is_leaf(entry))
			return no_way(x, entry);
		size = 1ULL << shift;
		if (leaf_wraps(entry, size))
			return MOOR_SYN_TRANSLATION;
		leaf_from_entry(leaf, entry, byte & (size - 1), size);
		return MOOR_SYN_NONE;
	}
	return MOOR_SYN_TRANSLATION;	/* a table of no height */
}

uint8_t xlat_walk(struct nic *nic, const struct xlat *x, uint64_t byte,
		  struct xlat_leaf *leaf, struct xlat_node *node)
{
	uint64_t addr;

	if (!x->levels) {
		if (!is_leaf(x->root) ||
		    __builtin_add_overflow(x->root & MOOR_PTE_ADDR, byte,
					   &addr))
			return MOOR_SYN_TRANSLATION;
		leaf->addr = addr;
		leaf->size = addr ? -addr : UINT64_MAX;
		leaf->writable = x->root & MOOR_PTE_WRITABLE;
		return MOOR_SYN_NONE;
	}

	if (node->entries &&
	    byte >> node->shift >> MOOR_NODE_SHIFT == node->prefix) {
		uint64_t size = 1ULL << node->shift;
		uint64_t entry = load_entry(node->entries, byte >> node->shift);

		if (is_leaf(entry) && !leaf_wraps(entry, size)) {
			leaf_from_entry(leaf, entry, byte & (size - 1), size);
			return MOOR_SYN_NONE;
		}
	}
	return walk_tree(nic, x, byte, leaf, node);
}

uint8_t xlat_host(struct nic *nic, const struct xlat *x,
		  const struct xlat_leaf *leaf, uint64_t *len, bool write,
		  uint8_t **ptr)
{
	if (write && !leaf->writable)
		return x->on_demand ? SYN_PAGE_FAULT : MOOR_SYN_TRANSLATION;
	if (*len > leaf->size)
		*len = leaf->size;
	if (x->memory == MOOR_MEMORY_NIC) {
		if (leaf->addr >= NIC_DM_SIZE)
			return MOOR_SYN_TRANSLATION;
		if (*len > NIC_DM_SIZE - leaf->addr)
			*len = NIC_DM_SIZE - leaf->addr;
		*ptr = nic->db_bar + NIC_DM_OFFSET + leaf->addr;
		return MOOR_SYN_NONE;
	}
	*ptr = dma_map_ptr(nic->dma, leaf->addr, len, write);
	return *ptr && *len ? MOOR_SYN_NONE : MOOR_SYN_DMA;
}

uint8_t *xlat_window_ptr(struct nic *nic, const struct xlat *x,
			 struct xlat_window *win, uint64_t pos, bool write)
{
	uint64_t byte = x->offset + pos;
	struct xlat_node node = { 0 };
	struct xlat_leaf leaf;
	uint64_t first, len;
	uint8_t *base;

	if (win->base && byte - win->first < win->size &&
	    win->generation == dma_map_generation(nic->dma))
		return win->base + (byte - win->first);

	first = byte & ~(uint64_t)(MOOR_PAGE_SIZE - 1);
	win->base = NULL;
	if (xlat_walk(nic, x, first, &leaf, &node))
		return NULL;
	len = leaf.size;
	if (xlat_host(nic, x, &leaf, &len, write, &base) ||
	    len < MOOR_PAGE_SIZE)
		return NULL;
	win->generation = dma_map_generation(nic->dma);
	win->first = first;
	win->size = len & ~(uint64_t)(MOOR_PAGE_SIZE - 1);
	win->base = base;
	return base + (byte - first);
}

bool xlat_reachable(struct nic *nic, const struct xlat *x, uint64_t size,
		    bool write)
{
	struct xlat_window win = { 0 };
	uint64_t pos = 0, end;

	if (__builtin_add_overflow(x->offset, size, &end))
		return false;
	while (pos < size) {
		if (!xlat_window_ptr(nic, x, &win, pos, write))
			return false;
		pos = win.first + win.size - x->offset;
	}
	return true;
}
