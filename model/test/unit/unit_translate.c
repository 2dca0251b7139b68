// SPDX-License-Identifier: GPL-2.0
/* The walk: every height, every way an entry can be wrong (HWI 7). */
#include <string.h>

#include "guest.h"
#include "memory/translate.h"

#define P	MOOR_PTE_PRESENT
#define W	MOOR_PTE_WRITABLE
#define L	MOOR_PTE_LEAF

static struct guest *g;
static uint64_t nodes[MOOR_MAX_LEVELS];

static uint8_t walk(const struct xlat *x, uint64_t byte, struct xlat_leaf *leaf)
{
	struct xlat_node node = { 0 };
	struct xlat_leaf again;
	uint8_t syndrome = xlat_walk(g->nic, x, byte, leaf, &node);

	/* Walk again from the node that was found. */
	if (!syndrome && (xlat_walk(g->nic, x, byte, &again, &node) ||
			  again.addr != leaf->addr ||
			  again.size != leaf->size ||
			  again.writable != leaf->writable))
		ok(false, "a second walk gives something else");
	return syndrome;
}

/* A path of nodes whose lowest holds @entry, everything else absent. */
static struct xlat path(unsigned int levels, unsigned int page_shift,
			unsigned int at_height, uint64_t byte, uint64_t entry)
{
	struct xlat x = {
		.root = nodes[levels - 1] | P, .levels = (uint8_t)levels,
		.page_shift = (uint8_t)page_shift,
	};
	unsigned int h;

	for (h = levels; h >= at_height; h--) {
		unsigned int shift = page_shift + 9 * (h - 1);
		uint64_t *node = at(g, nodes[h - 1]);
		uint64_t slot = shift < 64 ? byte >> shift & 511 : 0;

		memset(node, 0, 4096);
		node[slot] = h > at_height ? nodes[h - 2] | P : entry;
	}
	return x;
}

static void test_heights(void)
{
	unsigned int levels, height;

	for (levels = 1; levels <= MOOR_MAX_LEVELS; levels++) {
		for (height = 1; height <= levels; height++) {
			unsigned int shift = 12 + 9 * (height - 1);
			uint64_t byte = (1ull << (12 + 9 * levels)) - 1000;
			uint64_t size = 1ull << shift;
			struct xlat x = path(levels, 12, height, byte,
					     0x5555000ull | P | L | W);
			struct xlat_leaf leaf;

			ok(!walk(&x, byte, &leaf) && leaf.size == 1000 &&
			   leaf.addr == 0x5555000 + size - 1000 &&
			   leaf.writable, "%u levels, leaf at height %u",
			   levels, height);
			ok(walk(&x, byte - size, &leaf) ==
			   MOOR_SYN_TRANSLATION, "  absent before it");
			ok(walk(&x, 1ull << (12 + 9 * levels), &leaf) ==
			   MOOR_SYN_TRANSLATION, "  nothing above the root");
		}
	}
}

static void test_malformed(void)
{
	static const struct {
		uint64_t entry;
		const char *what;
	} bad[] = {
		{ 0, "absent" },
		{ 0x1000 | L | W, "leaf that is not present" },
		{ 0x1000 | P | L | 8, "reserved bit 3" },
		{ 0x1000 | P | L | 0x800, "reserved bit 11" },
		{ 0x1000 | P, "node at height 0" },
		{ ~0xfffull | P | L, "leaf that wraps" },
	};
	struct xlat_leaf leaf;
	unsigned int i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		/* A leaf of 2 MiB, so that the last page's address wraps. */
		bool wraps = i == 5;
		struct xlat x = path(2, 12, wraps ? 2 : 1, 0x201000,
				     bad[i].entry);

		ok(walk(&x, 0x201000, &leaf) == MOOR_SYN_TRANSLATION,
		   "%s", bad[i].what);
	}
	{
		struct xlat x = path(2, 12, 2, 0, nodes[0] | P | W);

		ok(walk(&x, 0, &leaf) == MOOR_SYN_TRANSLATION,
		   "node with WRITABLE");
		x = path(2, 12, 2, 0, 0xdead0000000ull | P);
		ok(walk(&x, 0, &leaf) == MOOR_SYN_DMA, "node out of reach");
		x = path(1, 12, 1, 0, nodes[0] | P | L);
		ok(!walk(&x, 5, &leaf) && leaf.addr == nodes[0] + 5 &&
		   !leaf.writable, "read-only leaf");
	}
}

static void test_wide(void)
{
	uint64_t byte = ~0ull - 4095;
	struct xlat x = path(5, 38, 1, byte, 0x8000 | P | L);
	struct xlat_leaf leaf;

	ok(!walk(&x, byte, &leaf) &&
	   leaf.addr == 0x8000 + (1ull << 38) - 4096 && leaf.size == 4096,
	   "38 + 45 bits: the surplus is not addressed");

	x = (struct xlat){ .root = 0x10000 | P };
	ok(walk(&x, 0, &leaf) == MOOR_SYN_TRANSLATION, "level 0, and a node");
	x = (struct xlat){ .root = 0x10000 | L };
	ok(walk(&x, 0, &leaf) == MOOR_SYN_TRANSLATION, "level 0, not present");
	x = path(1, 12, 1, 0, 0x8000 | P | L);
	x.root |= L;
	ok(walk(&x, 0, &leaf) == MOOR_SYN_TRANSLATION, "a leaf as root of a tree");
	x.root ^= L | W;
	ok(walk(&x, 0, &leaf) == MOOR_SYN_TRANSLATION, "a root with WRITABLE");
	x.root ^= W | P;
	ok(walk(&x, 0, &leaf) == MOOR_SYN_TRANSLATION, "a root that is absent");
	x = (struct xlat){ .root = 0x10000 | P | L };
	ok(!walk(&x, 0x123, &leaf) && leaf.addr == 0x10123 && !leaf.writable,
	   "level 0");
	ok(walk(&x, ~0ull - 0xffff, &leaf) == MOOR_SYN_TRANSLATION,
	   "level 0, wraps");
}

static bool decodes(struct moor_xlat raw)
{
	struct xlat x;

	return xlat_decode(&x, &raw);
}

static void test_decode(void)
{
	struct moor_xlat good = {
		.root = 0x1000 | P, .levels = 2, .page_shift = 12,
	}, bad;

	ok(decodes(good), "tree");
	bad = good;
	bad.levels = 6;
	ok(!decodes(bad), "6 levels");
	bad = good;
	bad.page_shift = 11;
	ok(!decodes(bad), "page shift 11");
	bad = good;
	bad.page_shift = 39;
	ok(!decodes(bad), "page shift 39");
	bad = good;
	bad.page_shift = 200;
	ok(!decodes(bad), "page shift 200");
	bad = good;
	bad.reserved1 = 1;
	ok(!decodes(bad), "reserved byte");
	bad = good;
	bad.memory = MOOR_MEMORY_GATHER;
	ok(!decodes(bad), "gather list");
	bad = good;
	bad.memory = MOOR_MEMORY_NIC;
	ok(!decodes(bad), "tree of on-NIC memory");
}

int main(void)
{
	unsigned int i;

	g = guest_start(false);
	for (i = 0; i < MOOR_MAX_LEVELS; i++)
		nodes[i] = take(g, 4096);
	test_heights();
	test_malformed();
	test_wide();
	test_decode();
	guest_stop(g);
	return done();
}
