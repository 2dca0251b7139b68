// SPDX-License-Identifier: GPL-2.0
/*
 * --strict: keep valid entries and present translations as long as HWI 6.1 and
 * 7.2 let a device keep them, that is until a revoke. So a driver that forgets a
 * revoke is caught: the NIC works on memory that the driver thinks it took back.
 */
#include <stdlib.h>
#include <string.h>

#include "memory/mr_state.h"
#include "memory/mr_strict.h"

/* One 4 KiB stretch of the space of an MR. */
struct kept_page {
	uint32_t index;
	uint64_t epoch;		/* of the index when it was kept; 0: empty */
	uint64_t page;		/* byte of the space >> 12 */
	unsigned int shift;	/* log2 of the size of the leaf in the table */
	struct xlat_leaf leaf;	/* from the start of the stretch */
};

/* A node of the lowest height, even if the table no longer leads to it. */
struct kept_node {
	uint32_t index;
	uint64_t epoch;		/* as above */
	struct xlat_node node;	/* its place in host memory is looked up anew */
};

#define LOG_KEPT_PAGES	15
#define NUM_KEPT_PAGES	(1u << LOG_KEPT_PAGES)
#define LOG_KEPT_NODES	12
#define NUM_KEPT_NODES	(1u << LOG_KEPT_NODES)

struct mr_strict {
	struct moor_mr_context entry[NIC_NUM_MR];	/* valid 0: none */
	uint64_t epoch[NIC_NUM_MR];	/* moved on to drop an index's pages */
	struct kept_page pages[NUM_KEPT_PAGES];
	struct kept_node nodes[NUM_KEPT_NODES];
};

bool mr_strict_init(struct nic *nic)
{
	nic->mr->strict = calloc(1, sizeof(*nic->mr->strict));
	if (!nic->mr->strict)
		return false;
	mr_strict_reset(nic);
	return true;
}

void mr_strict_exit(struct nic *nic)
{
	free(nic->mr->strict);
}

void mr_strict_reset(struct nic *nic)
{
	struct mr_strict *strict = nic->mr->strict;
	uint32_t i;

	memset(strict, 0, sizeof(*strict));
	/* Pages of epoch 0 are empty slots. */
	for (i = 0; i < NIC_NUM_MR; i++)
		strict->epoch[i] = 1;
}

void mr_strict_drop_pages(struct nic *nic, uint32_t index)
{
	nic->mr->strict->epoch[index]++;
}

void mr_strict_drop(struct nic *nic, uint32_t index)
{
	nic->mr->strict->entry[index].valid = 0;
	mr_strict_drop_pages(nic, index);
}

const struct moor_mr_context *mr_strict_entry(struct nic *nic, uint32_t index)
{
	const struct moor_mr_context *entry = &nic->mr->strict->entry[index];

	return entry->valid ? entry : NULL;
}

void mr_strict_keep(struct nic *nic, uint32_t index,
		    const struct moor_mr_context *entry)
{
	nic->mr->strict->entry[index] = *entry;
}

/* Does the leaf, of which a stretch is kept, span a byte of the range? */
static bool leaf_spans(const struct kept_page *kept, uint64_t first,
		       uint64_t last)
{
	uint64_t at = kept->page * MOOR_PAGE_SIZE >> kept->shift;

	return at >= first >> kept->shift && at <= last >> kept->shift;
}

static bool node_spans(const struct xlat_node *node, uint64_t first,
		       uint64_t last)
{
	return node->prefix >= first >> node->shift >> MOOR_NODE_SHIFT &&
	       node->prefix <= last >> node->shift >> MOOR_NODE_SHIFT;
}

void mr_strict_drop_range(struct nic *nic, uint32_t index, uint64_t first,
			  uint64_t last)
{
	struct mr_strict *strict = nic->mr->strict;
	uint32_t i;

	for (i = 0; i < NUM_KEPT_PAGES; i++) {
		struct kept_page *kept = &strict->pages[i];

		if (kept->index == index && kept->epoch &&
		    leaf_spans(kept, first, last))
			kept->epoch = 0;
	}
	for (i = 0; i < NUM_KEPT_NODES; i++) {
		struct kept_node *kept = &strict->nodes[i];

		if (kept->index == index && kept->epoch &&
		    node_spans(&kept->node, first, last))
			kept->epoch = 0;
	}
}

static uint64_t hash(uint32_t index, uint64_t what)
{
	return (what ^ (uint64_t)index << 40) * 0x9e3779b97f4a7c15ULL;
}

static struct kept_page *page_slot(struct nic *nic, uint32_t index,
				   uint64_t page)
{
	return &nic->mr->strict->pages[hash(index, page) >>
				       (64 - LOG_KEPT_PAGES)];
}

static struct kept_node *node_slot(struct nic *nic, uint32_t index,
				   uint64_t prefix)
{
	return &nic->mr->strict->nodes[hash(index, prefix) >>
				       (64 - LOG_KEPT_NODES)];
}

/* Puts the kept node of this byte, if any, into @grant. Return: false: it is gone. */
static bool recall_node(struct nic *nic, struct mr_grant *grant, uint64_t byte)
{
	uint64_t prefix = byte >> grant->xlat.page_shift >> MOOR_NODE_SHIFT;
	const struct kept_node *kept = node_slot(nic, grant->index, prefix);

	if (kept->index != grant->index || kept->node.prefix != prefix ||
	    kept->epoch != nic->mr->strict->epoch[grant->index])
		return true;
	grant->node = kept->node;
	grant->node.entries = xlat_node_ptr(nic, kept->node.addr);
	return grant->node.entries;
}

static void keep_node(struct nic *nic, const struct mr_grant *grant)
{
	struct kept_node *kept;

	if (!grant->node.entries || grant->node.shift != grant->xlat.page_shift)
		return;
	kept = node_slot(nic, grant->index, grant->node.prefix);
	kept->index = grant->index;
	kept->epoch = nic->mr->strict->epoch[grant->index];
	kept->node = grant->node;
}

uint8_t mr_strict_walk(struct nic *nic, struct mr_grant *grant, uint64_t byte,
		       struct xlat_leaf *leaf)
{
	uint64_t in_page = byte % MOOR_PAGE_SIZE;
	struct kept_page *kept = page_slot(nic, grant->index,
					   byte / MOOR_PAGE_SIZE);
	uint8_t syndrome;

	/* Kept as read-only, wanted writable: look again in the table (HWI ODP-8). */
	if (kept->index != grant->index || kept->page != byte / MOOR_PAGE_SIZE ||
	    kept->epoch != nic->mr->strict->epoch[grant->index] ||
	    (grant->write && !kept->leaf.writable)) {
		if (!recall_node(nic, grant, byte))
			return MOOR_SYN_DMA;
		syndrome = xlat_walk(nic, &grant->xlat, byte - in_page,
				     &kept->leaf, &grant->node);
		keep_node(nic, grant);
		if (syndrome) {
			kept->epoch = 0;
			return syndrome;
		}
		kept->index = grant->index;
		kept->epoch = nic->mr->strict->epoch[grant->index];
		kept->page = byte / MOOR_PAGE_SIZE;
		kept->shift = grant->xlat.levels ? grant->node.shift : 63;
	}
	*leaf = kept->leaf;
	leaf->addr += in_page;
	leaf->size -= in_page;
	return MOOR_SYN_NONE;
}
