// SPDX-License-Identifier: GPL-2.0
/*
 * --strict: keep valid entries and present translations as long as HWI 6.1 and
 * 7.2 let a device keep them, that is until a revoke, so that a driver that
 * forgets one works on memory it thinks it has taken back, and is caught.
 */
#include <stdlib.h>
#include <string.h>

#include "memory/mr_state.h"
#include "memory/mr_strict.h"

/* One 4 KiB stretch of the space of an MR. */
struct kept_page {
	uint32_t index;
	uint32_t epoch;		/* of the index when it was kept */
	uint64_t page;		/* byte of the space >> 12 */
	struct xlat_leaf leaf;	/* from the start of the stretch */
};

#define LOG_KEPT_PAGES	15
#define NUM_KEPT_PAGES	(1u << LOG_KEPT_PAGES)

struct mr_strict {
	struct moor_mr_context entry[NIC_NUM_MR];	/* valid 0: none */
	uint32_t epoch[NIC_NUM_MR];	/* moved on to drop an index's pages */
	struct kept_page pages[NUM_KEPT_PAGES];
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

static struct kept_page *page_slot(struct nic *nic, uint32_t index,
				   uint64_t page)
{
	uint64_t hash = (page ^ (uint64_t)index << 40) * 0x9e3779b97f4a7c15ULL;

	return &nic->mr->strict->pages[hash >> (64 - LOG_KEPT_PAGES)];
}

uint8_t mr_strict_walk(struct nic *nic, struct mr_grant *grant, uint64_t byte,
		       struct xlat_leaf *leaf)
{
	uint64_t in_page = byte % MOOR_PAGE_SIZE;
	struct kept_page *kept = page_slot(nic, grant->index,
					   byte / MOOR_PAGE_SIZE);
	uint8_t syndrome;

	if (kept->index != grant->index || kept->page != byte / MOOR_PAGE_SIZE ||
	    kept->epoch != nic->mr->strict->epoch[grant->index]) {
		syndrome = xlat_walk(nic, &grant->xlat, byte - in_page,
				     &kept->leaf, &grant->node);
		if (syndrome) {
			kept->epoch = 0;
			return syndrome;
		}
		kept->index = grant->index;
		kept->epoch = nic->mr->strict->epoch[grant->index];
		kept->page = byte / MOOR_PAGE_SIZE;
	}
	*leaf = kept->leaf;
	leaf->addr += in_page;
	leaf->size -= in_page;
	return MOOR_SYN_NONE;
}
