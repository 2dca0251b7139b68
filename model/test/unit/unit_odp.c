// SPDX-License-Identifier: GPL-2.0
/* Memory on demand: entries, page faults, and invalidation (HWI 6.10). */
#include <string.h>

#include "memory/odp.h"
#include "paged.h"

#define WRITE		MOOR_ACCESS_REMOTE_WRITE
#define READ		MOOR_ACCESS_REMOTE_READ
#define HUGE_PAGE	(2u << 20)

static struct paged p;
static const struct mr_actor user = { .qpn = 9, .pd = PAGED_PD };

/* Accesses one byte as a peer would. */
static uint8_t try_key(uint32_t key, uint64_t addr, uint32_t need,
		       struct stream *s, struct segment *seg, uint8_t **ptr)
{
	uint64_t len = 1;
	uint8_t syndrome;

	*seg = (struct segment){ .addr = addr, .length = 1, .key = key };
	stream_init(s, &user, seg, 1, need);
	syndrome = stream_grant(p.g->nic, s, 1);
	return syndrome ? syndrome :
	       mr_grant_ptr(p.g->nic, &s->grant, 0, &len, ptr);
}

static uint8_t try(uint32_t key, uint64_t addr, uint32_t need)
{
	struct segment seg;
	struct stream s;
	uint8_t *ptr;

	return try_key(key, addr, need, &s, &seg, &ptr);
}

static uint8_t try_page(int side, uint32_t page, uint32_t need)
{
	return try(p.m[side].key,
		   paged_addr(side, page * 4096 + 2000 - PAGED_OFFSET), need);
}

/* Does page @page of side 0 lead to page @is of its memory? */
static bool leads_to(uint32_t page, uint32_t is)
{
	struct segment seg;
	struct stream s;
	uint8_t *ptr;

	if (try_key(p.m[0].key,
		    paged_addr(0, page * 4096 + 2000 - PAGED_OFFSET), READ, &s,
		    &seg, &ptr))
		return false;
	/* Compare contents: the NIC has its own mapping of the guest's memory. */
	return !memcmp(ptr, paged_at(&p, 0, is * 4096 + 2000 - PAGED_OFFSET),
		       16);
}

static struct moor_mr_context good_entry(void)
{
	return (struct moor_mr_context){
		.pd = PAGED_PD, .access = PAGED_RIGHTS, .iova = PAGED_IOVA(0),
		.length = 100 * 4096,
		.xlat = { .root = p.m[0].root | MOOR_PTE_PRESENT,
			  .page_shift = 12, .levels = 2 },
	};
}

static uint8_t try_entry(struct moor_mr_context e, unsigned int type)
{
	uint32_t key = p.g->next_mr++ << 16 | 0x55aa;

	put_entry(p.g, key, &e, type);
	return try(key, e.iova, READ);
}

static void test_form(void)
{
	struct moor_mr_context e = good_entry();

	paged_in(&p, 0, 0, 1, true);
	ok(!try_entry(e, MOOR_MRC_TYPE_MR), "a good entry");
	e.length = NIC_MAX_MR_SIZE + 1;
	ok(!try_entry(e, MOOR_MRC_TYPE_MR), "longer than MAX_MR_SIZE");
	e.access &= ~(uint32_t)MOOR_ACCESS_ON_DEMAND;
	ok(try_entry(e, MOOR_MRC_TYPE_MR) == MOOR_SYN_KEY,
	   "which without ON_DEMAND it may not be");
	e = good_entry();
	e.iova = 0;
	e.length = ~0ull;
	ok(!try_entry(e, MOOR_MRC_TYPE_MR), "an address space");
	e.iova = 2;
	ok(try_entry(e, MOOR_MRC_TYPE_MR) == MOOR_SYN_KEY, "that wraps");
	e.iova = 0;
	e.xlat.offset = 2;
	ok(try_entry(e, MOOR_MRC_TYPE_MR) == MOOR_SYN_KEY,
	   "whose translation wraps");
	e = good_entry();
	e.length = 0;
	ok(try_entry(e, MOOR_MRC_TYPE_MR) == MOOR_SYN_KEY, "length 0");
	e = good_entry();
	e.xlat = flat(p.m[0].pages);
	ok(try_entry(e, MOOR_MRC_TYPE_MR) == MOOR_SYN_KEY, "no table");
	e.xlat.memory = MOOR_MEMORY_NIC;
	ok(try_entry(e, MOOR_MRC_TYPE_MR) == MOOR_SYN_KEY, "on-NIC memory");
	e = (struct moor_mr_context){
		.pd = PAGED_PD, .access = READ | MOOR_ACCESS_ON_DEMAND,
	};
	ok(try_entry(e, MOOR_MRC_TYPE_ALL) == MOOR_SYN_KEY, "all of memory");
}

static void set_entry(uint64_t node, unsigned int slot, uint64_t entry)
{
	((uint64_t *)at(p.g, node))[slot] = entry;
}

/* The syndrome of an access to a byte of page 3, with @entry in the lowest node. */
static uint8_t with_entry(uint64_t entry, uint32_t need)
{
	uint8_t syndrome;

	set_entry(p.m[0].node, 3, entry);
	syndrome = try_page(0, 3, need);
	set_entry(p.m[0].node, 3, 0);
	paged_invalidate(&p, 0, paged_addr(0, 0), PAGED_SIZE - PAGED_OFFSET);
	return syndrome;
}

static void test_faults(void)
{
	uint64_t node = p.m[0].node | MOOR_PTE_PRESENT;
	uint64_t leaf = p.m[0].pages | MOOR_PTE_PRESENT | MOOR_PTE_LEAF;
	struct moor_mr_context e = good_entry();

	ok(with_entry(0, READ) == SYN_PAGE_FAULT, "absent at the lowest height");
	ok(with_entry(leaf & ~MOOR_PTE_PRESENT, READ) == SYN_PAGE_FAULT,
	   "the rest of an absent entry has no meaning");
	ok(with_entry(leaf, WRITE) == SYN_PAGE_FAULT, "a write to what is read-only");
	ok(!with_entry(leaf, READ), "which may be read");
	ok(!with_entry(leaf | MOOR_PTE_WRITABLE, WRITE), "a write");
	ok(with_entry(leaf | 1u << 5, READ) == MOOR_SYN_TRANSLATION,
	   "a reserved bit is a failure");
	ok(with_entry(node, READ) == MOOR_SYN_TRANSLATION,
	   "a node at the lowest height is");
	ok(with_entry((~0ull & MOOR_PTE_ADDR) | MOOR_PTE_PRESENT |
		      MOOR_PTE_LEAF, READ) == MOOR_SYN_DMA,
	   "and memory that there is not");

	set_entry(p.m[0].root, 0, 0);
	ok(try_page(0, 3, READ) == SYN_PAGE_FAULT, "absent below the root");
	set_entry(p.m[0].root, 0, node | MOOR_PTE_WRITABLE);
	ok(try_page(0, 3, READ) == MOOR_SYN_TRANSLATION, "a writable node");
	set_entry(p.m[0].root, 0, 0xdead000000000ull | MOOR_PTE_PRESENT);
	ok(try_page(0, 3, READ) == MOOR_SYN_DMA, "an unreachable node");
	set_entry(p.m[0].root, 0, node);

	e.length = ~0ull >> 1;
	ok(try_entry(e, MOOR_MRC_TYPE_MR) == SYN_PAGE_FAULT, "its first byte");
	e.iova -= 4096ull << 18;
	put_entry(p.g, p.g->next_mr << 16 | 1, &e, MOOR_MRC_TYPE_MR);
	ok(try(p.g->next_mr++ << 16 | 1, PAGED_IOVA(0), READ) ==
	   MOOR_SYN_TRANSLATION, "beyond what the root's node spans");
	e = good_entry();
	e.xlat.root = 0;
	ok(try_entry(e, MOOR_MRC_TYPE_MR) == MOOR_SYN_TRANSLATION, "no root");
	e = good_entry();
	e.access &= ~(uint32_t)MOOR_ACCESS_ON_DEMAND;
	ok(try_entry(e, MOOR_MRC_TYPE_MR) == MOOR_SYN_TRANSLATION,
	   "absent, and not on demand");
}

/* The page request for @len bytes from @off on, of which byte @missing is absent. */
static void describe(uint32_t off, uint32_t len, uint32_t missing,
		     uint32_t want, uint32_t need)
{
	struct segment seg = {
		.addr = paged_addr(0, off), .length = len, .key = p.m[0].key,
	};
	struct moor_page_request r = { 0 };
	struct stream s;
	uint64_t run = 1;
	uint8_t *ptr;
	bool good;

	stream_init(&s, &user, &seg, 1, need);
	/* The grant need not cover the whole segment. */
	good = !stream_grant(p.g->nic, &s, missing + 1) &&
	       mr_grant_ptr(p.g->nic, &s.grant, missing, &run, &ptr) ==
	       SYN_PAGE_FAULT && odp_describe(p.g->nic, &s, len, &r);
	ok(good && r.key == p.m[0].key &&
	   r.addr == paged_addr(0, off + missing) && r.length == want &&
	   r.flags == (need == WRITE ? MOOR_PAGE_REQUEST_WRITE : 0),
	   "%u bytes from %u, %u is missing: %u from 0x%llx", len, off,
	   missing, r.length, (unsigned long long)r.addr);
}

static void test_describe(void)
{
	uint32_t all = PAGED_SIZE - PAGED_OFFSET;

	describe(0, 1, 0, 1, READ);
	describe(5000, 9000, 0, 9000, READ);
	describe(5000, 9000, 8999, 1, WRITE);
	describe(5000, 9000, 100, 8900, WRITE);
	/* A receive's segment that is longer than its MR. */
	describe(all - 10, 1000, 0, 10, WRITE);
	describe(all - 10, 1000, 9, 1, WRITE);
}

static uint8_t invalidate(uint32_t key, uint64_t addr, uint64_t length)
{
	struct moor_cmd_mr_invalidate cmd = {
		.hdr.opcode = MOOR_CMD_MR_INVALIDATE,
		.key = key, .addr = addr, .length = length,
	};

	return command(p.g, &cmd, sizeof(cmd));
}

static void test_refused(void)
{
	uint32_t all = PAGED_SIZE - PAGED_OFFSET, key = p.m[0].key, other;
	uint64_t first = paged_addr(0, 0);
	struct moor_mr_context window = { .pd = PAGED_PD };
	struct moor_cmd_mr_invalidate cmd = {
		.hdr.opcode = MOOR_CMD_MR_INVALIDATE, .reserved1 = 1,
		.key = key, .addr = first, .length = 1,
	};

	ok(!invalidate(key, first, all) && !invalidate(key, first, 1) &&
	   !invalidate(key, first + all - 1, 1), "all, its first and last byte");
	ok(invalidate(key, first, 0) == MOOR_CMD_BAD_PARAM &&
	   p.g->cpl.detail == 24, "no byte");
	ok(invalidate(key, first - 1, 2) == MOOR_CMD_BAD_PARAM &&
	   p.g->cpl.detail == 16, "the byte before");
	ok(invalidate(key, first + all, 1) == MOOR_CMD_BAD_PARAM &&
	   p.g->cpl.detail == 16, "the byte behind");
	ok(invalidate(key, first + 1, all) == MOOR_CMD_BAD_PARAM &&
	   p.g->cpl.detail == 24, "one byte too many");
	ok(invalidate(key, first + 1, ~0ull) == MOOR_CMD_BAD_PARAM &&
	   p.g->cpl.detail == 24, "a range that wraps");
	ok(invalidate(key ^ 1, first, 1) == MOOR_CMD_BAD_INDEX &&
	   p.g->cpl.detail == 8, "another key");
	ok(invalidate(NIC_NULL_LKEY, first, 1) == MOOR_CMD_BAD_INDEX, "the null MR");
	ok(command(p.g, &cmd, sizeof(cmd)) == MOOR_CMD_BAD_RESERVED &&
	   p.g->cpl.detail == 12, "the reserved field");
	other = make_mr(p.g, PAGED_PD, READ, p.m[0].pages, 4096);
	ok(invalidate(other, p.m[0].pages, 1) == MOOR_CMD_BAD_STATE &&
	   p.g->cpl.detail == 8, "an MR that is not on demand");
	other = NIC_MR_CONSUMER_FIRST << 16 | 0x100;
	put_entry(p.g, other, &window, MOOR_MRC_TYPE_MW_1);
	ok(invalidate(other, first, 1) == MOOR_CMD_BAD_STATE, "a window");
	ok(!revoke_key(p.g, key) &&
	   invalidate(key, first, 1) == MOOR_CMD_BAD_INDEX, "a revoked key");
}

/* Pages 10 to 19 are known; then their entries change, and a range is invalidated. */
static void test_range(bool strict, uint64_t from, uint64_t to,
		       uint32_t first_forgotten, uint32_t last_forgotten)
{
	uint64_t *node = at(p.g, p.m[0].node);
	bool good = true;
	uint32_t i;

	paged_in(&p, 0, 10, 10, true);
	for (i = 10; i < 20; i++)
		good = good && leads_to(i, i);
	memcpy(node + 10, node + 30, 10 * sizeof(*node));
	for (i = 10; i < 20; i++)
		node[i] = (p.m[0].pages + (i + 100) * 4096) | MOOR_PTE_PRESENT |
			  MOOR_PTE_LEAF;
	good = good && !paged_invalidate(&p, 0, paged_addr(0, 0) + from,
					 to - from);
	for (i = 10; i < 20; i++)
		good = good &&
		       leads_to(i, strict && (i < first_forgotten ||
					      i > last_forgotten) ? i : i + 100);
	ok(good, "%s: %llu to %llu invalidated", strict ? "strict" : "not strict",
	   (unsigned long long)from, (unsigned long long)to);
	paged_invalidate(&p, 0, paged_addr(0, 0), PAGED_SIZE - PAGED_OFFSET);
}

static void test_ranges(bool strict)
{
	const uint64_t page = 4096, at_12 = 12 * page - PAGED_OFFSET;

	test_range(strict, at_12, at_12 + 4 * page, 12, 15);
	test_range(strict, at_12 - 1, at_12 + 4 * page, 11, 15);
	test_range(strict, at_12, at_12 + 4 * page + 1, 12, 16);
	test_range(strict, at_12 + 4095, at_12 + 4096, 12, 12);
	test_range(strict, at_12, at_12 + 1, 12, 12);
	test_range(strict, at_12 + 100, at_12 + 3 * page + 1, 12, 15);
	test_range(strict, 0, PAGED_SIZE - PAGED_OFFSET, 10, 19);
}

/* Invalidating any byte of a 2 MiB leaf forgets it; a neighbour's bytes do not. */
static void test_huge(bool strict)
{
	uint64_t huge = (take(p.g, 3 * HUGE_PAGE) + HUGE_PAGE - 1) &
			~(uint64_t)(HUGE_PAGE - 1), other = huge + HUGE_PAGE;
	struct moor_mr_context e = good_entry();
	uint32_t key = p.g->next_mr++ << 16 | 0x77;
	static const uint32_t bytes[] = { 0, 4096, 1234567, HUGE_PAGE - 1 };
	struct segment seg;
	struct stream s;
	uint8_t *was, *is;
	unsigned int i;

	e.length = 2 * HUGE_PAGE;
	put_entry(p.g, key, &e, MOOR_MRC_TYPE_MR);
	for (i = 0; i < 4; i++) {
		set_entry(p.m[0].root, 0, huge | MOOR_PTE_PRESENT | MOOR_PTE_LEAF);
		try_key(key, e.iova + 1000000, READ, &s, &seg, &was);
		set_entry(p.m[0].root, 0, other | MOOR_PTE_PRESENT | MOOR_PTE_LEAF);
		invalidate(key, e.iova + HUGE_PAGE, HUGE_PAGE);
		try_key(key, e.iova + 1000000, READ, &s, &seg, &is);
		ok(is == was + (strict ? 0 : HUGE_PAGE),
		   "a neighbour's range is not its own");
		invalidate(key, e.iova + bytes[i], 1);
		try_key(key, e.iova + 1000000, READ, &s, &seg, &is);
		ok(is == was + HUGE_PAGE, "byte %u of a huge page", bytes[i]);
		invalidate(key, e.iova, 2 * HUGE_PAGE);
	}
	set_entry(p.m[0].root, 0, p.m[0].node | MOOR_PTE_PRESENT);
}

/* A branch is replaced by another node. */
static void test_node(bool strict)
{
	uint64_t other = take(p.g, 4096);

	paged_in(&p, 0, 20, 2, true);
	ok(leads_to(20, 20) && try_page(0, 25, READ) == SYN_PAGE_FAULT,
	   "one page is there, another is not");
	memset(at(p.g, other), 0, 4096);
	set_entry(p.m[0].root, 0, other | MOOR_PTE_PRESENT);
	paged_in(&p, 0, 25, 1, true);
	ok(strict ? leads_to(25, 25) : try_page(0, 25, READ) == SYN_PAGE_FAULT,
	   "a node without invalidation is %s", strict ? "kept" : "gone");
	paged_invalidate(&p, 0, paged_addr(0, 200 * 4096), 1);
	ok(try_page(0, 21, READ) == SYN_PAGE_FAULT,
	   "any byte that it spans makes it forgotten");
	set_entry(p.m[0].root, 0, p.m[0].node | MOOR_PTE_PRESENT);
	paged_out(&p, 0, 20, 6);
	paged_invalidate(&p, 0, paged_addr(0, 0), PAGED_SIZE - PAGED_OFFSET);
}

static void test_becomes_writable(bool strict)
{
	paged_in(&p, 0, 40, 1, false);
	ok(!try_page(0, 40, READ) && try_page(0, 40, WRITE) == SYN_PAGE_FAULT,
	   "read-only");
	paged_in(&p, 0, 40, 1, true);
	ok(!try_page(0, 40, WRITE), "writable, without an invalidation");
	paged_in(&p, 0, 40, 1, false);
	ok(strict ? !try_page(0, 40, WRITE) :
		    try_page(0, 40, WRITE) == SYN_PAGE_FAULT,
	   "read-only again: %s", strict ? "not known" : "known");
	paged_invalidate(&p, 0, paged_addr(0, 40 * 4096), 1);
	ok(try_page(0, 40, WRITE) == SYN_PAGE_FAULT, "invalidated");
	paged_out(&p, 0, 40, 1);
	paged_invalidate(&p, 0, paged_addr(0, 40 * 4096), 1);
}

int main(void)
{
	unsigned int strict;

	for (strict = 0; strict < 2; strict++) {
		paged_start(&p, strict, MOOR_QP_RC);
		/* First, before anything is kept of the first MR. */
		test_faults();
		test_describe();
		test_form();
		paged_out(&p, 0, 0, 1);
		test_ranges(strict);
		test_node(strict);
		test_huge(strict);
		test_becomes_writable(strict);
		test_refused();
		paged_stop(&p);
	}
	return done();
}
