// SPDX-License-Identifier: GPL-2.0
/* What a page fault is, and which entries an invalidation forgets (HWI 6.10). */
#include <string.h>

#include "paged.h"

#define P		MOOR_PTE_PRESENT
#define W		MOOR_PTE_WRITABLE
#define L		MOOR_PTE_LEAF
#define RESPONDER	MOOR_PAGE_REQUEST_RESPONDER

static uint64_t *entry_of(struct paged *p, uint64_t page)
{
	return (uint64_t *)at(p->node[1]) + page;
}

/* Does page @page of side 1 lead to page @is of its memory? */
static bool leads_to(struct paged *p, uint64_t page, uint64_t is)
{
	struct moor_cqe cqe;

	memset(at(p->pages[0]), 0, 64);
	cqe = move(&p->pair, MOOR_WQE_READ, paged_addr(0, 0), p->key[0],
		   paged_addr(1, page * PAGE), p->key[1], 64);
	return !cqe.status && same(p->pages[0], p->pages[1] + is * PAGE, 64);
}

/* Has the work request ended, or has a page been asked for? */
static bool ends_or_waits(struct paged *p, bool *waits)
{
	struct moor_eqe eqe;
	struct moor_cqe cqe;

	*waits = next_event(MOOR_EQ_PAGE_REQUEST, &eqe);
	return *waits || peek_cqe(&p->pair.cq[1], &cqe);
}

/* The syndrome of an access to 64 bytes of page 3 with @entry; 0: success. */
#define FAULT	0xff
static uint8_t meets(struct paged *p, uint64_t entry, bool write)
{
	uint8_t syndrome = FAULT;
	bool waits;

	*entry_of(p, 3) = entry;
	post_send(&p->pair.qp[1], (struct send_wr){
		.opcode = write ? MOOR_WQE_READ : MOOR_WQE_WRITE,
		.remote = paged_addr(0, 0), .rkey = p->key[0],
		SGE(paged_addr(1, 3 * PAGE), 64, p->key[1]),
	});
	need(wait_until(ends_or_waits(p, &waits)), "it neither ends nor waits");
	if (!waits)
		syndrome = wait_cqe(&p->pair.cq[1]).syndrome;
	if (syndrome)
		reconnect(&p->pair);
	page_out(p, 1, 3, 1);
	return syndrome;
}

TEST_CASE(page_faults, "what is absent is waited for; what is wrong is wrong",
	  "ODP-7 XLT-10 XLT-18 ACC-13", HAS(ODP))
{
	struct moor_mr_context e;
	uint64_t leaf, *root;
	uint8_t got;
	struct paged p;

	make_paged(&p);
	page_in(&p, 0, 0, PAGES, true);
	leaf = p.pages[1] | P | L;
	root = at(p.root[1]);
#define MEETS(what, entry, write, wanted)				\
	do {								\
		got = meets(&p, entry, write);				\
		expect(got == (wanted), "%s: %u where %u was due", what,	\
		       got, (unsigned int)(wanted));			\
	} while (0)
	MEETS("absent", 0, false, FAULT);
	MEETS("absent, full of other bits", ~P, false, FAULT);
	MEETS("present", leaf, false, 0);
	MEETS("read-only, to be written", leaf, true, FAULT);
	MEETS("writable", leaf | W, true, 0);
	MEETS("a reserved bit", leaf | 1u << 3, false, MOOR_SYN_TRANSLATION);
	MEETS("a node of the lowest height", p.node[1] | P, false,
	      MOOR_SYN_TRANSLATION);
	MEETS("no memory", NOWHERE | P | L, false, MOOR_SYN_DMA);
	*root = 0;
	MEETS("no node", leaf, false, FAULT);
	*root = p.node[1] | P | W;
	MEETS("a writable node", leaf, false, MOOR_SYN_TRANSLATION);
	*root = NOWHERE | P;
	MEETS("a node that is nowhere", leaf, false, MOOR_SYN_DMA);
	*root = p.node[1] | P;
#undef MEETS
	about("beyond the root's node");
	e = paged_entry(&p, 1);
	e.length = 2ull << 30;
	expect_local(&p.pair, MOOR_WQE_WRITE, make_entry(&e, MOOR_MRC_TYPE_MR),
		     paged_addr(1, 1ull << 30), 8, MOOR_SYN_TRANSLATION);
	about("no root");
	e = paged_entry(&p, 1);
	e.xlat.root = 0;
	expect_local(&p.pair, MOOR_WQE_WRITE, make_entry(&e, MOOR_MRC_TYPE_MR),
		     paged_addr(1, 0), 8, MOOR_SYN_TRANSLATION);
	about("not on demand");
	e = paged_entry(&p, 1);
	e.access = ALL_RIGHTS;
	/* The page alone, for such an entry is no longer than MAX_MR_SIZE. */
	e.iova = paged_addr(1, 3 * PAGE);
	e.length = PAGE;
	e.xlat.offset = 3 * PAGE;
	expect_local(&p.pair, MOOR_WQE_WRITE, make_entry(&e, MOOR_MRC_TYPE_MR),
		     paged_addr(1, 3 * PAGE), 8, MOOR_SYN_TRANSLATION);
}

TEST_CASE(refusals, "MR_INVALIDATE: ranges inside an MR on demand, nothing else",
	  "ODP-22 CMD-42 CMD-30 CMD-11 CMD-12 CMD-13", HAS(ODP))
{
	struct moor_cmd_mr_invalidate good = {
		.hdr.opcode = MOOR_CMD_MR_INVALIDATE,
	}, cmd;
	struct paged p;

	make_paged(&p);
	good.key = p.key[1];
	good.addr = paged_addr(1, 0);
	good.length = PAGES * PAGE;
	must(good);
#define BAD(what, change, status, field)				\
	do {								\
		cmd = good;						\
		change;							\
		refused(cmd, status, field, what);			\
	} while (0)
	BAD("no byte", cmd.length = 0, MOOR_CMD_BAD_PARAM, length);
	BAD("a byte too many", cmd.length++, MOOR_CMD_BAD_PARAM, length);
	BAD("a range that wraps", cmd.length = ~0ull, MOOR_CMD_BAD_PARAM, length);
	BAD("the byte before", (cmd.addr--, cmd.length = 1), MOOR_CMD_BAD_PARAM,
	    addr);
	BAD("the byte behind", (cmd.addr += good.length, cmd.length = 1),
	    MOOR_CMD_BAD_PARAM, addr);
	BAD("another nonce", cmd.key ^= 1, MOOR_CMD_BAD_INDEX, key);
	BAD("no entry", cmd.key = take_key(), MOOR_CMD_BAD_INDEX, key);
	BAD("the null MR", cmd.key = dev.null_lkey, MOOR_CMD_BAD_INDEX, key);
	BAD("not on demand",
	    (cmd.key = make_mr(PD, ALL_RIGHTS, p.pages[0], PAGE),
	     cmd.addr = p.pages[0], cmd.length = 1), MOOR_CMD_BAD_STATE, key);
	cmd = good;
	cmd.addr += good.length - 1;
	cmd.length = 1;
	must(cmd);
	expect(revoke(p.key[1]) == REVOKED, "not revoked");
	BAD("revoked", (void)0, MOOR_CMD_BAD_INDEX, key);
#undef BAD
}

static void not_on_demand(uint32_t key, const char *what)
{
	struct moor_cmd_mr_invalidate cmd = {
		.hdr.opcode = MOOR_CMD_MR_INVALIDATE, .key = key, .length = 1,
	};

	refused(cmd, MOOR_CMD_BAD_STATE, key, "%s", what);
	if (key_index(key) < dev.consumer_first)
		return;
	cmd.key = key ^ 0x5a;
	refused(cmd, MOOR_CMD_BAD_STATE, key, "%s, another consumer byte", what);
	cmd.key = key ^ 0x100;
	refused(cmd, MOOR_CMD_BAD_INDEX, key, "%s, another nonce", what);
}

TEST_CASE(other_types, "MR_INVALIDATE of what is never on demand",
	  "ODP-22 NUL-2 CMD-12 CMD-13", HAS(ODP))
{
	struct moor_mr_context e = { .pd = PD, .access = ALL_RIGHTS };
	struct moor_cmd_create_qp cmd;
	uint32_t key;
	struct cq cq;
	struct qp qp;

	not_on_demand(make_entry(&e, MOOR_MRC_TYPE_ALL), "all of memory");
	expect(invalidate(dev.null_lkey, 0, 1) == MOOR_CMD_BAD_INDEX,
	       "the null MR: status %u", answer.status);
	if (dev.features & MOOR_FEATURE_MW_TYPE_1)
		not_on_demand(make_window(PD, MOOR_MRC_TYPE_MW_1), "a window");
	if (!(dev.features & MOOR_FEATURE_FAST_REG))
		return;
	e = (struct moor_mr_context){ .pd = PD, .max_pages = 1 };
	key = make_entry(&e, MOOR_MRC_TYPE_FAST_REG);
	not_on_demand(key, "a fast-registration MR that is FREE");
	make_cq(&cq, 0, 4);
	cmd = qp_command(&qp, &cq, &cq);
	cmd.flags |= MOOR_QP_FLAG_KERNEL;
	must(cmd);
	connect_qp(&qp, qp.qpn);
	post_send(&qp, (struct send_wr){
		.opcode = MOOR_WQE_REG_MR, .wr_id = 1, .reg = {
			.key = key, .access = MOOR_ACCESS_LOCAL_WRITE,
			.length = PAGE, .xlat = flat(take(PAGE)),
		},
	});
	expect_cqe(&cq, 1, MOOR_WC_SUCCESS, 0);
	not_on_demand(key, "one that is VALID");
}

TEST_CASE(window_bound, "windows do not hold up an invalidation", "ODP-22", HAS(ODP))
{
	struct paged p;
	uint32_t mw;

	skip_unless(dev.features & MOOR_FEATURE_MW_TYPE_1);
	make_paged(&p);
	page_in(&p, 0, 0, PAGES, true);
	page_in(&p, 1, 0, PAGES, true);
	mw = make_window(PD, MOOR_MRC_TYPE_MW_1);
	post_send(&p.pair.qp[1], (struct send_wr){
		.opcode = MOOR_WQE_BIND_MW,
		.bind = { .mw_key = mw, .new_key = mw, .mr_lkey = p.key[1],
			  .access = MOOR_ACCESS_REMOTE_READ,
			  .addr = paged_addr(1, 0), .length = PAGE },
	});
	expect_cqe(&p.pair.cq[1], 0, MOOR_WC_SUCCESS, 0);
	expect(invalidate(mw, paged_addr(1, 0), PAGE) != MOOR_CMD_OK,
	       "by the window's key");
	*entry_of(&p, 0) = (p.pages[1] + 9 * PAGE) | P | L;
	need(!invalidate(p.key[1], paged_addr(1, 0), PAGE), "status %u",
	     answer.status);
	p.key[1] = mw;
	expect(leads_to(&p, 0, 9), "the window leads to what was there");
}

TEST_CASE(forgets, "an invalidation forgets every entry that spans a byte of its range",
	  "ODP-19 XLT-11", HAS(ODP))
{
	/* Bytes from the start of page 5 on, and the pages they touch. */
	static const struct {
		int64_t from, to;
		unsigned int first, last;
	} ranges[] = {
		{ 0, PAGE, 5, 5 }, { 0, 1, 5, 5 }, { PAGE - 1, PAGE, 5, 5 },
		{ -1, 1, 4, 5 }, { PAGE - 1, PAGE + 1, 5, 6 },
		{ 100, 3 * PAGE, 5, 7 }, { 100, 3 * PAGE + 1, 5, 8 },
		{ -5 * (int64_t)PAGE, 11 * PAGE, 0, 15 },
	};
	unsigned int i, page;
	struct paged p;

	make_paged(&p);
	page_in(&p, 0, 0, PAGES, true);
	for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		page_in(&p, 1, 0, PAGES, true);
		for (page = 0; page < PAGES; page++)
			need(leads_to(&p, page, page), "page %u", page);
		/* The pages of the range now lead to others, in reverse order. */
		for (page = ranges[i].first; page <= ranges[i].last; page++)
			*entry_of(&p, page) = (p.pages[1] + (15 - page) * PAGE) |
					      P | L | W;
		need(!invalidate(p.key[1], paged_addr(1, 5 * PAGE) +
				 (uint64_t)ranges[i].from,
				 (uint64_t)(ranges[i].to - ranges[i].from)),
		     "status %u", answer.status);
		for (page = 0; page < PAGES; page++) {
			bool other = page >= ranges[i].first &&
				     page <= ranges[i].last;

			expect(leads_to(&p, page, other ? 15 - page : page),
			       "range %u: page %u", i, page);
		}
		page_out(&p, 1, 0, PAGES);
	}
}

TEST_CASE(forgets_high, "also what stands higher in the table, nodes and huge leaves",
	  "ODP-19 XLT-11 XLT-5", HAS(ODP))
{
	static const uint64_t bytes[] = { 0, PAGE, 1234567, (2u << 20) - 1 };
	uint64_t huge, *root, other;
	struct moor_mr_context e;
	unsigned int i;
	struct paged p;

	make_paged(&p);
	page_in(&p, 0, 0, PAGES, true);
	huge = take_filled(8u << 20, 7);
	root = at(p.root[1]);
	other = take(PAGE);
	e = paged_entry(&p, 1);
	e.length = 4u << 20;
	p.key[1] = make_entry(&e, MOOR_MRC_TYPE_MR);
	p.pages[1] = huge;
	for (i = 0; i < 4; i++) {
		about("byte %llu", (unsigned long long)bytes[i]);
		*root = huge | P | L | W;
		need(leads_to(&p, 300, 300), "a huge page");
		*root = (huge + (4u << 20)) | P | L | W;
		need(!invalidate(p.key[1], paged_addr(1, bytes[i]), 1),
		     "status %u", answer.status);
		expect(leads_to(&p, 300, 1324), "the huge leaf is kept");
		about("a node, byte %llu", (unsigned long long)bytes[i]);
		*root = p.node[1] | P;
		need(!invalidate(p.key[1], paged_addr(1, 0), 4u << 20),
		     "status %u", answer.status);
		page_in(&p, 1, 0, PAGES, true);
		need(leads_to(&p, 3, 3), "through a node");
		memset(at(other), 0, PAGE);
		((uint64_t *)at(other))[4] = (huge + 9 * PAGE) | P | L;
		*root = other | P;
		need(!invalidate(p.key[1], paged_addr(1, bytes[i]), 1),
		     "status %u", answer.status);
		expect(leads_to(&p, 4, 9), "the node is kept");
		need(!invalidate(p.key[1], paged_addr(1, 0), 4u << 20),
		     "status %u", answer.status);
	}
}

TEST_CASE(fence, "what was under way has been done when an invalidation is over",
	  "ODP-19 REV-5 ORD-1", HAS(ODP))
{
	const uint32_t len = 8 * PAGE;
	unsigned int round, i;
	struct moor_eqe eqe;
	struct moor_cqe cqe;
	struct paged p;

	for (round = 0; round < 20; round++) {
		host_begin();
		make_paged(&p);
		page_in(&p, 0, 0, PAGES, true);
		page_in(&p, 1, 0, PAGES, true);
		for (i = 0; i < 16; i++)
			paged_post(&p, MOOR_WQE_WRITE, i, 0, 0, len);
		for (i = 0; i < round * 50; i++)
			peek_cqe(&p.pair.cq[0], &cqe);
		page_out(&p, 1, 0, PAGES);
		memset(at(p.pages[1]), 0xdd, len);
		settle();
		if (!expect(is_all(p.pages[1], len, 0xdd),
			    "round %u: written after the invalidation", round))
			return;
		/* Whether a QP waits now depends on timing. */
		if (!next_event(MOOR_EQ_PAGE_REQUEST, &eqe))
			continue;
		page_in(&p, 1, 0, PAGES, true);
		must_answer(eqe.number, MOOR_PAGE_RESOLVED);
		for (i = 0; i < 16; i++)
			expect_cqe(&p.pair.cq[0], i, MOOR_WC_SUCCESS, 0);
		expect(same(p.pages[0], p.pages[1], len), "the data");
	}
}

TEST_CASE(becomes_writable, "what becomes writable is so without an invalidation",
	  "ODP-8 ODP-7", HAS(ODP))
{
	struct moor_page_request r;
	struct paged p;

	make_paged(&p);
	page_in(&p, 0, 0, PAGES, true);
	page_in(&p, 1, 3, 1, false);
	expect(leads_to(&p, 3, 3), "read-only, to be read");
	paged_post(&p, MOOR_WQE_WRITE, 1, 0, 3 * PAGE, 64);
	r = expect_request(&p, 1, 3 * PAGE, 1,
			   RESPONDER | MOOR_PAGE_REQUEST_WRITE);
	page_in(&p, 1, 3, 1, true);
	must_answer(r.token, MOOR_PAGE_RESOLVED);
	expect_cqe(&p.pair.cq[0], 1, MOOR_WC_SUCCESS, 0);
	expect(same(p.pages[0], p.pages[1] + 3 * PAGE, 64), "the data");
	about("and read-only again");
	page_in(&p, 1, 3, 1, false);
	need(!invalidate(p.key[1], paged_addr(1, 3 * PAGE), PAGE), "status %u",
	     answer.status);
	paged_post(&p, MOOR_WQE_WRITE, 2, 0, 3 * PAGE, 64);
	r = expect_request(&p, 1, 3 * PAGE, 1,
			   RESPONDER | MOOR_PAGE_REQUEST_WRITE);
	page_in(&p, 1, 3, 1, true);
	must_answer(r.token, MOOR_PAGE_RESOLVED);
	expect_cqe(&p.pair.cq[0], 2, MOOR_WC_SUCCESS, 0);
}
