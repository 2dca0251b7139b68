// SPDX-License-Identifier: GPL-2.0
/* Memory for packets from an untrusted wire: its rights, and checks that they hold. */
#include <stdlib.h>

#include "packets.h"

/*
 * Pages of PAGE_DATA: PAGES_OPEN, with all rights between the edges of the MR;
 * PAGES_READ, for reading; PAGES_LOCAL, for local writing only; PAGES_SECRET, of no MR;
 * and PAGES_PAGED, which come and go.
 */
#define PAGES_OPEN	(PAGE_DATA + 0)
#define PAGES_READ	(PAGE_DATA + 4)
#define PAGES_SECRET	(PAGE_DATA + 8)
#define SECRET_PAGES	6u
#define OPEN_FIRST	0x40u
#define OPEN_LENGTH	0x3123u
#define OPEN_RIGHTS	(MOOR_ACCESS_ALL & ~(MOOR_ACCESS_RELAXED_ORDERING | \
					     MOOR_ACCESS_ON_DEMAND))
#define READ_BYTE	0x55
#define GUARD_BYTE	0x99

/* Inputs cannot learn SECRET from comparisons: is_secret() compares hashes. */
#define SECRET		0xc3a5f19be7d28cb4ull
#define HIDE(word)	(((word) ^ 0x5bd1e995u) * 0x9e3779b97f4a7c15ull)

static bool is_secret(uint64_t word)
{
	unsigned int i;

	for (i = 0; i < 64; i += 8)
		if (HIDE(word) == HIDE(SECRET << i | SECRET >> (-i & 63)))
			return true;
	return false;
}

void fill_memory(void)
{
	uint64_t *words = world_ptr(page_addr(PAGES_SECRET));
	uint8_t *open = world_ptr(page_addr(PAGES_OPEN));
	unsigned int i;

	for (i = 0; i < SECRET_PAGES * MOOR_PAGE_SIZE / sizeof(*words); i++)
		words[i] = SECRET;
	memset(world_ptr(page_addr(PAGES_READ)), READ_BYTE, 2 * MOOR_PAGE_SIZE);
	memcpy(open, words, OPEN_FIRST);
	memcpy(open + OPEN_FIRST + OPEN_LENGTH, words,
	       4 * MOOR_PAGE_SIZE - OPEN_FIRST - OPEN_LENGTH);
}

/* The keys are those of world_enter_regions(). */
static void enter_region(uint32_t index, uint32_t access, uint64_t addr,
			 uint64_t length, struct moor_xlat xlat)
{
	const struct moor_mr_context e = {
		.valid = (uint64_t)(index << 16 | 0x1200) << 32 |
			 (uint64_t)w->generation << 8 | MOOR_MRC_TYPE_MR,
		.pd = WORLD_PD, .access = access, .iova = addr,
		.length = length, .xlat = xlat,
	};

	put_entry(index, &e);
}

void enter_regions(void)
{
	const struct moor_xlat tree = {
		.root = page_addr(PAGE_TABLE) | MOOR_PTE_PRESENT,
		.levels = 1, .page_shift = MOOR_MIN_PAGE_SHIFT,
	};
	const struct moor_xlat sparse = {
		.root = page_addr(PAGE_TABLE + 1) | MOOR_PTE_PRESENT,
		.levels = 1, .page_shift = MOOR_MIN_PAGE_SHIFT,
	};
	uint64_t *table = world_ptr(page_addr(PAGE_TABLE));
	uint64_t open = page_addr(PAGES_OPEN) + OPEN_FIRST;
	unsigned int i;

	world_enter_regions();
	w->generation++;
	for (i = 0; i < 2; i++)
		table[i] = page_addr(PAGES_LOCAL + !i) | MOOR_PTE_PRESENT |
			   MOOR_PTE_LEAF | MOOR_PTE_WRITABLE;
	enter_region(2, OPEN_RIGHTS, open, OPEN_LENGTH, flat(open));
	enter_region(3, MOOR_ACCESS_REMOTE_READ | MOOR_ACCESS_MW_BIND,
		     page_addr(PAGES_READ), 2 * MOOR_PAGE_SIZE,
		     flat(page_addr(PAGES_READ)));
	enter_region(4, MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_RELAXED_ORDERING,
		     page_addr(PAGES_LOCAL), 2 * MOOR_PAGE_SIZE, tree);
	enter_region(5, OPEN_RIGHTS | MOOR_ACCESS_ON_DEMAND, PAGED_IOVA,
		     2 * MOOR_PAGE_SIZE, sparse);
}

void check_secret(const void *from, size_t len)
{
	const uint8_t *at = from;
	uint64_t word;

	for (; len >= sizeof(word); at += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		if (is_secret(word))
			abort();
	}
}

void check_memory(void)
{
	static uint64_t secret[SECRET_PAGES * MOOR_PAGE_SIZE / sizeof(uint64_t)];
	static uint8_t read[2 * MOOR_PAGE_SIZE];
	const uint8_t *open = world_ptr(page_addr(PAGES_OPEN));
	unsigned int i;

	if (!secret[0]) {
		for (i = 0; i < sizeof(secret) / sizeof(secret[0]); i++)
			secret[i] = SECRET;
		memset(read, READ_BYTE, sizeof(read));
	}
	if (memcmp(world_ptr(page_addr(PAGES_SECRET)), secret, sizeof(secret)) ||
	    memcmp(world_ptr(page_addr(PAGES_READ)), read, sizeof(read)) ||
	    memcmp(open, secret, OPEN_FIRST) ||
	    memcmp(open + OPEN_FIRST + OPEN_LENGTH, secret,
		   4 * MOOR_PAGE_SIZE - OPEN_FIRST - OPEN_LENGTH))
		abort();
}

bool guarded[2];

void guard(unsigned int i)
{
	memset(world_ptr(page_addr(PAGES_PAGED + i)), GUARD_BYTE, MOOR_PAGE_SIZE);
	guarded[i] = true;
}

void check_guards(void)
{
	unsigned int i, at;

	for (i = 0; i < 2; i++) {
		const uint8_t *page = world_ptr(page_addr(PAGES_PAGED + i));

		for (at = 0; guarded[i] && at < MOOR_PAGE_SIZE; at++)
			if (page[at] != GUARD_BYTE)
				abort();
	}
}
