/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory for on-demand paging: in all states that a page can be in before a NIC
 * asks for it, or with a page server of the test's own behind it.
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
	READ_BEFORE,		/* the page of zeros that everybody has */
	FILE_SHARED,		/* in the page cache, not mapped yet */
	FILE_PRIVATE,		/* the same; written, it becomes the process's own */
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
	uint8_t *file;		/* the other mapping of a file */
	int child, ask;		/* the process, and where it waits to be asked */
};

/* Private and anonymous; bails out if there is none. */
uint8_t *map_pages(size_t size);
void memory_make(struct memory *memory, enum memory_kind kind, size_t size);
/* Its contents when it was made. */
void memory_first(const struct memory *memory, uint8_t *copy);
/* Unmaps it. Do all who share it see of it what they should? */
bool memory_end(struct memory *memory);

/* ---- a page server ---- */

/* Serves nothing by itself; -1 where the kernel has none. */
int server_open(void *at, size_t size);
/* Waits till somebody waits for a page; its address, or NULL in the end. */
uint8_t *server_wait(int server);
/* Gives a page; false if there is one already. */
bool server_give(int server, void *page, const void *contents);

/* ---- what was counted, of all MRs of the NIC's there are now ---- */

struct paged {
	unsigned long long faults, handled, invalidations, prefetched;
};

struct paged paged_counts(void);

#endif /* PAGED_H */
