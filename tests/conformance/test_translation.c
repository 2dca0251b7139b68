// SPDX-License-Identifier: GPL-2.0
/* Table entries and the walk (HWI 7.1, 7.2). */
#include <string.h>

#include "platform.h"
#include "traffic.h"

#define P	MOOR_PTE_PRESENT
#define W	MOOR_PTE_WRITABLE
#define L	MOOR_PTE_LEAF

/* Buffer 1 once more, so high that a huge leaf can end in it. */
#define HIGH	(1ull << 60)

static uint64_t node[MOOR_MAX_LEVELS + 1];	/* by height */

static uint64_t *entry_at(unsigned int height, uint64_t byte, unsigned int shift)
{
	unsigned int bits = shift + MOOR_NODE_SHIFT * (height - 1);
	uint64_t slot = bits < 64 ? byte >> bits & (MOOR_NODE_ENTRIES - 1) : 0;

	return (uint64_t *)at(node[height]) + slot;
}

/* A path of nodes down to @height, where @entry is; all else is absent. */
static struct moor_xlat path(unsigned int levels, unsigned int shift,
			     unsigned int height, uint64_t byte, uint64_t entry)
{
	unsigned int h;

	for (h = levels; h >= height; h--) {
		memset(at(node[h]), 0, PAGE);
		*entry_at(h, byte, shift) = h > height ? node[h - 1] | P : entry;
	}
	return (struct moor_xlat){
		.root = node[levels] | P, .offset = byte,
		.levels = (uint8_t)levels, .page_shift = (uint8_t)shift,
	};
}

static void begin(struct pair *p)
{
	unsigned int h;

	make_pair(p);
	for (h = 1; h <= MOOR_MAX_LEVELS; h++)
		node[h] = take(PAGE);
	dma_map(HIGH, BUF, p->buf[1] - MEMORY_BASE, DMA_BOTH);
}

static uint32_t mr_of(struct moor_xlat xlat, uint64_t len)
{
	struct moor_mr_context e = mr_entry(PD, ALL_RIGHTS, 0x10000, len);

	e.xlat = xlat;
	return make_entry(&e, MOOR_MRC_TYPE_MR);
}

/* The translation leads to @where: 64 bytes are written there. */
static void finds(struct pair *p, struct moor_xlat xlat, uint64_t where)
{
	uint32_t key = mr_of(xlat, 64);

	memset(at(where & ~(PAGE - 1)), 0, PAGE);
	expect_remote(p, MOOR_WQE_WRITE, key, 0x10000, 64, true);
	expect(is_filled(where, 64, 1), "the data is elsewhere");
	expect_local(p, MOOR_WQE_WRITE, key, 0x10000, 64, 0);
}

static void fails_locally(struct pair *p, struct moor_xlat xlat, uint8_t syndrome)
{
	expect_local(p, MOOR_WQE_WRITE, mr_of(xlat, 64), 0x10000, 64, syndrome);
}

static void fails(struct pair *p, struct moor_xlat xlat, uint8_t syndrome)
{
	uint32_t key = mr_of(xlat, 64);

	expect_local(p, MOOR_WQE_WRITE, key, 0x10000, 64, syndrome);
	expect(move(p, MOOR_WQE_WRITE, p->buf[0], p->key[0], 0x10000, key, 64)
	       .status == MOOR_WC_REM_ACCESS_ERR, "a peer succeeds");
	reconnect(p);
}

TEST_CASE(heights, "a leaf may stand at every height of every number of levels",
	  "XLT-1 XLT-3 XLT-5 XLT-10 ACC-13", 0)
{
	unsigned int levels, height;
	struct pair p;

	begin(&p);
	for (levels = 1; levels <= MOOR_MAX_LEVELS; levels++) {
		for (height = 1; height <= levels; height++) {
			uint64_t size = 1ull << (12 + 9 * (height - 1));
			/* The last bytes of the space, and of the leaf. */
			uint64_t byte = (1ull << (12 + 9 * levels)) - 64;
			uint64_t leaf = HIGH + PAGE - size;
			struct moor_xlat xlat;

			about("%u levels, a leaf at height %u", levels, height);
			xlat = path(levels, 12, height, byte, leaf | P | L | W);
			finds(&p, xlat, p.buf[1] + PAGE - 64);
			xlat.offset -= size;
			fails(&p, xlat, MOOR_SYN_TRANSLATION);
		}
	}
}

TEST_CASE(above_root, "bytes above what the root's node spans do not exist", "XLT-6",
	  0)
{
	struct moor_xlat xlat;
	unsigned int levels;
	struct pair p;

	begin(&p);
	for (levels = 1; levels <= MOOR_MAX_LEVELS; levels++) {
		about("%u levels", levels);
		xlat = path(levels, 12, 1, 0, p.buf[1] | P | L | W);
		finds(&p, xlat, p.buf[1]);
		xlat.offset = 1ull << (12 + 9 * levels);
		fails(&p, xlat, MOOR_SYN_TRANSLATION);
		xlat.offset = 1ull << 63;
		fails(&p, xlat, MOOR_SYN_TRANSLATION);
	}
}

TEST_CASE(malformed, "an absent or malformed entry fails the access that met it",
	  "XLT-3 XLT-10 XLT-12 VER-3 ACC-13", 0)
{
	const uint64_t byte = 0x201000;
	bool reports = platform_reports_writes();
	struct moor_xlat xlat;
	unsigned int bit;
	struct pair p;

	begin(&p);
	about("absent");
	xlat = path(2, 12, 1, byte, 0);
	fails(&p, xlat, MOOR_SYN_TRANSLATION);
	about("absent no longer");
	*entry_at(1, byte, 12) = p.buf[1] | P | L | W;
	finds(&p, xlat, p.buf[1]);
	about("not present, the rest well-formed");
	fails(&p, path(2, 12, 1, byte, p.buf[1] | L | W), MOOR_SYN_TRANSLATION);
	for (bit = 3; bit < 12; bit++) {
		about("reserved bit %u of a leaf", bit);
		fails(&p, path(2, 12, 1, byte, p.buf[1] | P | L | W | 1ull << bit),
		      MOOR_SYN_TRANSLATION);
		about("reserved bit %u of a node", bit);
		xlat = path(2, 12, 1, byte, p.buf[1] | P | L | W);
		*entry_at(2, byte, 12) |= 1ull << bit;
		fails(&p, xlat, MOOR_SYN_TRANSLATION);
	}
	about("a node with WRITABLE");
	xlat = path(2, 12, 1, byte, p.buf[1] | P | L | W);
	*entry_at(2, byte, 12) |= W;
	fails(&p, xlat, MOOR_SYN_TRANSLATION);
	about("a node at height 0");
	fails(&p, path(2, 12, 1, byte, p.buf[1] | P), MOOR_SYN_TRANSLATION);
	about("a node that is nowhere");
	fails(&p, path(2, 12, 2, byte, NOWHERE | P), MOOR_SYN_DMA);
	about("a leaf that is nowhere");
	xlat = path(2, 12, 1, byte, NOWHERE | P | L | W);
	if (reports)
		fails(&p, xlat, MOOR_SYN_DMA);
	else
		fails_locally(&p, xlat, MOOR_SYN_DMA);
	about("a node that names itself");
	xlat = path(2, 12, 2, 0, node[2] | P);
	fails(&p, xlat, MOOR_SYN_TRANSLATION);
}

TEST_CASE(later_pages, "every page is walked for, not the first alone",
	  "XLT-5 XLT-10 XLT-1 ACC-13", 0)
{
	const unsigned int pages = longest(9 * PAGE) / PAGE;
	struct moor_xlat xlat;
	struct pair p;
	unsigned int i;
	uint32_t key;

	begin(&p);
	xlat = path(1, 12, 1, 0, 0);
	xlat.offset = 123;
	for (i = 0; i < pages; i++)
		((uint64_t *)at(node[1]))[i] =
			(p.buf[1] + (pages - 1 - i) * PAGE) | P | L | W;
	key = mr_of(xlat, pages * PAGE - 123);
	expect_remote(&p, MOOR_WQE_WRITE, key, 0x10000, pages * PAGE - 123, true);
	expect(same(p.buf[0], p.buf[1] + (pages - 1) * PAGE + 123, PAGE - 123), "page 0");
	for (i = 1; i < pages; i++)
		expect(same(p.buf[0] + i * PAGE - 123,
			    p.buf[1] + (pages - 1 - i) * PAGE, PAGE), "page %u", i);
	for (i = 0; i < pages; i++) {
		uint64_t kept = ((uint64_t *)at(node[1]))[i];

		about("page %u absent", i);
		((uint64_t *)at(node[1]))[i] = 0;
		key = mr_of(xlat, pages * PAGE - 123);
		expect_remote(&p, MOOR_WQE_WRITE, key, 0x10000,
			      pages * PAGE - 123, false);
		expect_local(&p, MOOR_WQE_WRITE, key, 0x10000,
			     pages * PAGE - 123, MOOR_SYN_TRANSLATION);
		expect_local(&p, MOOR_WQE_READ, key, 0x10000,
			     pages * PAGE - 123, MOOR_SYN_TRANSLATION);
		((uint64_t *)at(node[1]))[i] = kept;
	}
}

TEST_CASE(read_only, "a leaf without WRITABLE is read and not written",
	  "XLT-3 ACC-13", 0)
{
	struct moor_xlat tree, root;
	struct pair p;
	uint32_t key;
	unsigned int i;

	begin(&p);
	tree = path(3, 12, 1, 5 * PAGE, p.buf[1] | P | L);
	root = flat(p.buf[1]);
	root.root &= ~W;
	for (i = 0; i < 2; i++) {
		about("%u levels", i ? 0 : 3);
		key = mr_of(i ? root : tree, 64);
		expect_remote(&p, MOOR_WQE_READ, key, 0x10000, 64, true);
		expect_local(&p, MOOR_WQE_WRITE, key, 0x10000, 64, 0);
		expect_local(&p, MOOR_WQE_READ, key, 0x10000, 64,
			     MOOR_SYN_TRANSLATION);
		fill(p.buf[1], 64, 2);
		fill(p.buf[0], 64, 1);
		expect_remote(&p, MOOR_WQE_WRITE, key, 0x10000, 64, false);
		if (dev.features & MOOR_FEATURE_ATOMICS)
			expect_remote(&p, MOOR_WQE_FETCH_ADD, key, 0x10000, 8,
				      false);
		expect(is_filled(p.buf[1], 64, 2), "it is written");
	}
}

TEST_CASE(page_sizes, "every page size that PAGE_SIZES announces, and no other",
	  "XLT-7 XLT-8 XLT-9", 0)
{
	unsigned int shift, levels;
	struct moor_xlat xlat;
	struct pair p;

	begin(&p);
	for (shift = 12; shift < 64; shift++) {
		if (!(dev.page_sizes >> shift & 1))
			continue;
		for (levels = 1; levels <= MOOR_MAX_LEVELS; levels += 2) {
			unsigned int bits = shift + 9 * levels;
			uint64_t size = 1ull << shift;
			uint64_t top = bits < 64 ? 1ull << bits : 0, leaf;

			/* The end of the last page, which is not aligned to its size. */
			about("pages of 2^%u, %u levels", shift, levels);
			leaf = size > HIGH ? 0 : HIGH + PAGE - size;
			xlat = path(levels, shift, 1, top - size + HIGH + PAGE - leaf - 128,
				    leaf | P | L | W);
			finds(&p, xlat, p.buf[1] + PAGE - 128);
		}
	}
	for (shift = 0; shift < 256; shift++) {
		if (shift >= 12 && shift < 64 && dev.page_sizes >> shift & 1)
			continue;
		about("page_shift %u", shift);
		for (levels = 0; levels <= 1; levels++) {
			xlat = levels ? path(1, 12, 1, 0, p.buf[1] | P | L | W) :
					flat(p.buf[1]);
			xlat.page_shift = (uint8_t)shift;
			fails(&p, xlat, MOOR_SYN_KEY);
		}
		if (shift > 70)
			shift += 13;
	}
}

TEST_CASE(levels, "0 to 5 levels; what the root is has to fit", "XLT-4 XLT-5 XLT-7",
	  0)
{
	struct moor_xlat xlat;
	unsigned int i;
	struct pair p;

	begin(&p);
	about("no table: one block");
	finds(&p, flat(p.buf[1] + 3 * PAGE + 17), p.buf[1] + 3 * PAGE + 17);
	xlat = flat(p.buf[1]);
	xlat.offset = 7 * PAGE + 5;
	finds(&p, xlat, p.buf[1] + 7 * PAGE + 5);
	for (i = 0; i < 6; i++) {
		static const char * const what[] = {
			"6 levels", "255 levels", "level 0, and a node",
			"a tree, and a leaf", "a root with a reserved bit",
			"a tree's root with WRITABLE",
		};
		about("%s", what[i]);
		xlat = path(1, 12, 1, 0, p.buf[1] | P | L | W);
		if (i < 2)
			xlat.levels = i ? 255 : 6;
		else if (i == 2)
			xlat.levels = 0;
		else
			xlat.root |= i == 3 ? L : i == 4 ? 8 : W;
		fails(&p, xlat, i < 2 ? MOOR_SYN_KEY : MOOR_SYN_TRANSLATION);
	}
}

TEST_CASE(node_nowhere, "a node that DMA does not reach is a DMA failure", "XLT-18 ACC-14",
	  0)
{
	struct moor_xlat xlat = flat(MEMORY_BASE);
	struct pair p;

	begin(&p);
	xlat.root = NOWHERE | P;
	xlat.levels = 1;
	fails(&p, xlat, MOOR_SYN_DMA);
	fails(&p, path(2, 12, 2, 0x10000, NOWHERE | P), MOOR_SYN_DMA);
}

TEST_CASE(top_leaf, "a block at the end of all addresses: no byte fails for those beyond",
	  "XLT-4 XLT-10", 0)
{
	struct moor_xlat xlat = flat(MEMORY_BASE);
	uint32_t key;
	struct pair p;

	begin(&p);
	/* No memory is mapped there: the leaf's bytes fail in DMA, not in translation. */
	xlat.root = (~0ull & MOOR_PTE_ADDR) | P | L | W;
	key = mr_of(xlat, 2 * PAGE);
	expect_local(&p, MOOR_WQE_WRITE, key, 0x10000, 64, MOOR_SYN_DMA);
	expect_local(&p, MOOR_WQE_WRITE, key, 0x10000 + PAGE, 64,
		     MOOR_SYN_TRANSLATION);
}

TEST_CASE(wrapping_leaf, "a leaf whose bytes go beyond 2^64 reaches nothing",
	  "XLT-10 ERR-6 ERR-7", 0)
{
	struct moor_xlat xlat = flat(MEMORY_BASE);
	struct pair p;

	begin(&p);
	xlat.root = (~0ull & MOOR_PTE_ADDR) | P | L | W;
	xlat.offset = PAGE;
	fails(&p, xlat, MOOR_SYN_TRANSLATION);
	xlat = path(2, 12, 2, 0x10000, (~0ull & MOOR_PTE_ADDR) | P | L | W);
	fails(&p, xlat, MOOR_SYN_TRANSLATION);
}
