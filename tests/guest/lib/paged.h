/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory for on-demand paging, in each state in which a page can be before the NIC asks
 * for it, or with a page server in the test itself.
 */
#ifndef PAGED_H
#define PAGED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pair.h"

#define PAGE		4096u
#define ON_DEMAND	(ALL_ACCESS | IBV_ACCESS_ON_DEMAND)

enum memory_kind {
	UNTOUCHED,		/* anonymous, no page yet */
	TOUCHED,
	READ_BEFORE,		/* mapped to the zero page */
	FILE_SHARED,		/* in the page cache, not mapped yet */
	FILE_PRIVATE,		/* the same; a write makes a private copy */
	FORKED,			/* a child has the same pages */
	WRITABLE_KINDS,
	READ_ONLY = WRITABLE_KINDS,
	MEMORY_KINDS
};

extern const char *const memory_kinds[MEMORY_KINDS];

struct memory {
	enum memory_kind kind;
	uint8_t *at;
	size_t size;
	uint8_t seed;
	uint8_t *file;		/* the test's own mapping of the file */
	int child, ask;		/* a forked process, and its pipe */
};

/* Maps private, anonymous memory; bails out if there is none. */
uint8_t *map_pages(size_t size);
void memory_make(struct memory *memory, enum memory_kind kind, size_t size);
/* The memory's contents when it was made. */
void memory_first(const struct memory *memory, uint8_t *copy);
/* Unmaps the memory. Have all who share it the contents that they should? */
bool memory_end(struct memory *memory);

/* ---- a page server ---- */

/* Opens a userfaultfd for the memory; -1 where the kernel has none. */
int server_open(void *at, size_t size);
/* Waits for a page fault. Returns the page's address, or NULL if none comes in time. */
uint8_t *server_wait(int server);
/* Fills in a page; false if there is one already. */
bool server_give(int server, void *page, const void *contents);

/* ---- counters, summed over the NIC's present MRs ---- */

struct paged {
	unsigned long long faults, handled, invalidations, prefetched;
};

struct paged paged_counts(void);

#endif /* PAGED_H */
