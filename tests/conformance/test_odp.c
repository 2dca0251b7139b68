// SPDX-License-Identifier: GPL-2.0
/* On-demand paging (HWI 6.10): which half waits for a page, and how the wait ends. */
#include <string.h>

#include "paged.h"

#define WRITE		MOOR_PAGE_REQUEST_WRITE
#define RESPONDER	MOOR_PAGE_REQUEST_RESPONDER
#define AT		(PAGE + 1000)	/* a byte of page 1 */
#define TRANSLATION	MOOR_SYN_TRANSLATION

/* A row of the table of ODP-15, and the result if the page cannot be had. */
static const struct row {
	const char *name;
	uint8_t opcode;
	unsigned int absent;	/* whose memory is missing: side 0 or 1 */
	uint8_t flags;		/* of the request */
	uint8_t status, syndrome;
	uint8_t recv_status;	/* of the receive it takes; 0: it takes none */
	bool event;		/* QP_ACCESS_ERR at the responder */
} rows[] = {
	{ "WRITE, requester", MOOR_WQE_WRITE, 0, 0,
	  MOOR_WC_LOC_PROT_ERR, TRANSLATION, 0, false },
	{ "SEND, requester", MOOR_WQE_SEND, 0, 0,
	  MOOR_WC_LOC_PROT_ERR, TRANSLATION, 0, false },
	{ "READ, requester", MOOR_WQE_READ, 0, WRITE,
	  MOOR_WC_LOC_PROT_ERR, TRANSLATION, 0, false },
	{ "FETCH_ADD, requester", MOOR_WQE_FETCH_ADD, 0, WRITE,
	  MOOR_WC_LOC_PROT_ERR, TRANSLATION, 0, false },
	{ "ATOMIC_WRITE, requester", MOOR_WQE_ATOMIC_WRITE, 0, 0,
	  MOOR_WC_LOC_PROT_ERR, TRANSLATION, 0, false },
	{ "WRITE, responder", MOOR_WQE_WRITE, 1, WRITE | RESPONDER,
	  MOOR_WC_REM_ACCESS_ERR, 0, 0, true },
	{ "SEND, responder", MOOR_WQE_SEND, 1, WRITE | RESPONDER,
	  MOOR_WC_REM_OP_ERR, 0, MOOR_WC_LOC_PROT_ERR, false },
	{ "READ, responder", MOOR_WQE_READ, 1, RESPONDER,
	  MOOR_WC_REM_ACCESS_ERR, 0, 0, true },
	{ "FETCH_ADD, responder", MOOR_WQE_FETCH_ADD, 1, WRITE | RESPONDER,
	  MOOR_WC_REM_ACCESS_ERR, 0, 0, true },
	{ "ATOMIC_WRITE, responder", MOOR_WQE_ATOMIC_WRITE, 1,
	  WRITE | RESPONDER, MOOR_WC_REM_ACCESS_ERR, 0, 0, true },
};

#define FOR_EACH_ROW(row)						\
	for ((row) = rows; (row) < rows + sizeof(rows) / sizeof(rows[0]); (row)++)

static bool is_offered(const struct row *row)
{
	about("%s", row->name);
	if (row->opcode == MOOR_WQE_ATOMIC_WRITE)
		return dev.features & MOOR_FEATURE_ATOMIC_WRITE;
	return row->opcode != MOOR_WQE_FETCH_ADD ||
	       dev.features & MOOR_FEATURE_ATOMICS;
}

static bool is_a_word(const struct row *row)
{
	return row->opcode == MOOR_WQE_FETCH_ADD ||
	       row->opcode == MOOR_WQE_ATOMIC_WRITE;
}

static uint32_t length_of(const struct row *row, uint32_t len)
{
	return is_a_word(row) ? 8 : len;
}

/* Sends @len bytes, with all pages present except those of side @row->absent. */
static void begin_row(struct paged *p, const struct row *row, uint32_t len)
{
	host_begin();
	make_paged(p);
	page_in(p, !row->absent, 0, PAGES, true);
	if (row->opcode == MOOR_WQE_SEND)
		paged_recv(p, 1, AT, len);
	paged_post(p, row->opcode, 2, AT, AT, length_of(row, len));
}

static bool all_is_moved(struct paged *p, const struct row *row, uint32_t len)
{
	if (row->opcode != MOOR_WQE_FETCH_ADD)
		return same(p->pages[0] + AT, p->pages[1] + AT,
			    length_of(row, len));
	return *(uint64_t *)at(p->pages[1] + AT) ==
	       *(uint64_t *)at(p->pages[0] + AT) + 1;
}

static void expect_success(struct paged *p, const struct row *row, uint32_t len)
{
	if (row->opcode == MOOR_WQE_SEND)
		expect_cqe(&p->pair.cq[1], 1, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p->pair.cq[0], 2, MOOR_WC_SUCCESS, 0);
	expect(all_is_moved(p, row, len), "the data");
	expect_no_cqe(&p->pair.cq[0]);
	expect_no_cqe(&p->pair.cq[1]);
}

TEST_CASE(form, "an entry on demand has a table, of whatever length",
	  "ODP-6 MR-14 MR-5", HAS(ODP))
{
	struct moor_mr_context good, e;
	struct moor_cpl_mr_query out;
	struct paged p;

	make_paged(&p);
	good = paged_entry(&p, 0);
#define TRY(what, wanted, change)					\
	do {								\
		e = good;						\
		change;							\
		about(what);						\
		expect(query(make_entry(&e, MOOR_MRC_TYPE_MR), &out) ==	\
		       (wanted), "status %u", answer.status);		\
	} while (0)
	TRY("good", 0, (void)0);
	TRY("longer than MAX_MR_SIZE", 0,
	    (e.iova = 0, e.length = dev.max_mr_size + 1));
	TRY("an address space", 0, (e.iova = 0, e.length = ~0ull));
	TRY("which wraps", MOOR_CMD_BAD_INDEX, (e.iova = 2, e.length = ~0ull));
	TRY("whose bytes wrap", MOOR_CMD_BAD_INDEX,
	    (e.iova = 0, e.length = ~0ull, e.xlat.offset = 2));
	TRY("length 0", MOOR_CMD_BAD_INDEX, e.length = 0);
	TRY("no table", MOOR_CMD_BAD_INDEX, e.xlat = flat(p.pages[0]));
	TRY("on-NIC memory", MOOR_CMD_BAD_INDEX,
	    (e.xlat.levels = 0, e.xlat.memory = MOOR_MEMORY_NIC));
	if (dev.minor <= MOOR_HW_VERSION_MINOR)
		TRY("right 7", MOOR_CMD_BAD_INDEX, e.access |= 1u << 7);
#undef TRY
	about("all of memory");
	e = (struct moor_mr_context){ .pd = PD, .access = MOOR_ACCESS_ON_DEMAND };
	expect(query(make_entry(&e, MOOR_MRC_TYPE_ALL), &out) ==
	       MOOR_CMD_BAD_INDEX, "it is accepted");
}

TEST_CASE(rows_go_on, "who misses a page asks for it, and goes on when it is there",
	  "ODP-7 ODP-9 ODP-10 ODP-13 ODP-15 RC-3 EV-22 EV-19 EV-4 EV-2 CMD-43 MPE-2", HAS(ODP))
{
	struct moor_page_request r;
	const struct row *row;
	struct paged p;

	FOR_EACH_ROW(row) {
		if (!is_offered(row))
			continue;
		begin_row(&p, row, 64);
		r = expect_request(&p, row->absent, AT, row->absent, row->flags);
		expect(r.length <= length_of(row, 64), "%u bytes", r.length);
		expect(wait_until(interrupts(eq_vector(MOOR_EQ_PAGE_REQUEST))),
		       "no interrupt");
		while_it_waits(&p);
		expect(row->opcode == MOOR_WQE_FETCH_ADD ||
		       !all_is_moved(&p, row, 64), "it has moved already");
		expect(row->absent || query_qp(&p.pair.qp[1]).rq_psn ==
				      to_rtr(0).rq_psn, "it has been sent already");
		page_in(&p, row->absent, 1, 1, true);
		must_answer(r.token, MOOR_PAGE_RESOLVED);
		expect_success(&p, row, 64);
		expect_no_event(MOOR_EQ_PAGE_REQUEST);
	}
}

TEST_CASE(page_by_page, "a page at a time, and each asked for: all bytes arrive",
	  "ODP-7 ODP-10 ODP-13 ODP-15", HAS(ODP))
{
	const uint32_t len = (PAGES - 3) * PAGE;
	struct moor_page_request r;
	const struct row *row;
	struct paged p;
	uint64_t page;

	FOR_EACH_ROW(row) {
		if (is_a_word(row))
			continue;
		is_offered(row);
		begin_row(&p, row, len);
		for (page = 1; page * PAGE < AT + len; page++) {
			r = expect_request(&p, row->absent,
					   page == 1 ? AT : page * PAGE,
					   row->absent, row->flags);
			page_in(&p, row->absent, page, 1, true);
			must_answer(r.token, MOOR_PAGE_RESOLVED);
		}
		expect_success(&p, row, len);
		expect_no_event(MOOR_EQ_PAGE_REQUEST);
	}
}

TEST_CASE(gone_again, "a page that is gone again is asked for again", "ODP-13", HAS(ODP))
{
	struct moor_page_request r;
	const struct row *row;
	unsigned int i;
	struct paged p;

	FOR_EACH_ROW(row) {
		if (!is_offered(row))
			continue;
		begin_row(&p, row, 64);
		for (i = 0; i < 3; i++) {
			r = expect_request(&p, row->absent, AT, row->absent,
					   row->flags);
			must_answer(r.token, MOOR_PAGE_RESOLVED);
		}
		r = expect_request(&p, row->absent, AT, row->absent, row->flags);
		page_in(&p, row->absent, 1, 1, true);
		must_answer(r.token, MOOR_PAGE_RESOLVED);
		expect_success(&p, row, 64);
	}
}

/* The work request fails as with a TRANSLATION failure. */
static void expect_failure(struct paged *p, const struct row *row,
			   uint8_t syndrome)
{
	expect_cqe(&p->pair.cq[0], 2, row->status, row->syndrome ? syndrome : 0);
	if (row->recv_status)
		expect_cqe(&p->pair.cq[1], 1, row->recv_status, syndrome);
	if (row->event)
		expect_event(MOOR_EVENT_QP_ACCESS_ERR, p->pair.qp[1].qpn);
}

TEST_CASE(failed, "a page that cannot be had fails the access that needs it",
	  "ODP-13 RC-2 RC-3 RC-9 RC-26 RC-28", HAS(ODP))
{
	struct moor_page_request r;
	const struct row *row;
	struct paged p;

	FOR_EACH_ROW(row) {
		if (!is_offered(row))
			continue;
		begin_row(&p, row, 3 * PAGE);
		r = expect_request(&p, row->absent, AT, row->absent, row->flags);
		if (!is_a_word(row)) {
			page_in(&p, row->absent, 1, 1, true);
			must_answer(r.token, MOOR_PAGE_RESOLVED);
			r = expect_request(&p, row->absent, 2 * PAGE,
					   row->absent, row->flags);
		}
		drop_events(MOOR_EQ_ASYNC);
		must_answer(r.token, MOOR_PAGE_FAILED);
		expect_failure(&p, row, TRANSLATION);
		expect_no_event(MOOR_EQ_PAGE_REQUEST);
	}
}

TEST_CASE(failed_but_there, "FAILED, and the page is there: it goes on", "ODP-13",
	  HAS(ODP))
{
	struct moor_page_request r;
	const struct row *row;
	struct paged p;

	FOR_EACH_ROW(row) {
		if (!is_offered(row))
			continue;
		begin_row(&p, row, 64);
		r = expect_request(&p, row->absent, AT, row->absent, row->flags);
		page_in(&p, row->absent, 1, 1, true);
		must_answer(r.token, MOOR_PAGE_FAILED);
		expect_success(&p, row, 64);
	}
}

TEST_CASE(failed_with_others, "what else the half moves does not end FAILED", "ODP-13",
	  HAS(ODP))
{
	struct moor_page_request r;
	unsigned int absent, i;
	struct paged p;

	for (absent = 0; absent < 2; absent++) {
		about("side %u", absent);
		host_begin();
		make_paged(&p);
		for (i = 0; i < 2; i++)
			page_in(&p, i, 0, PAGES, true);
		page_out(&p, absent, 2, 1);
		paged_post(&p, MOOR_WQE_READ, 1, AT, AT, 2 * PAGE);
		paged_post(&p, MOOR_WQE_WRITE, 2, 5 * PAGE, 5 * PAGE, 64);
		r = expect_request(&p, absent, 2 * PAGE, absent,
				   absent ? RESPONDER : WRITE);
		paged_post(&p, MOOR_WQE_WRITE, 3, 5 * PAGE, 5 * PAGE, 64);
		must_answer(r.token, MOOR_PAGE_FAILED);
		expect_cqe(&p.pair.cq[0], 1, absent ? MOOR_WC_REM_ACCESS_ERR :
			   MOOR_WC_LOC_PROT_ERR, absent ? 0 : TRANSLATION);
		for (i = 2; i < 4; i++)
			expect_cqe(&p.pair.cq[0], i, MOOR_WC_WR_FLUSH_ERR, 0);
		expect_no_event(MOOR_EQ_PAGE_REQUEST);
	}
}

TEST_CASE(revoked_meanwhile, "a revoke does not wait for who waits", "ODP-23 REV-6",
	  HAS(ODP))
{
	struct moor_page_request r;
	const struct row *row;
	struct paged p;

	FOR_EACH_ROW(row) {
		if (!is_offered(row))
			continue;
		begin_row(&p, row, 64);
		r = expect_request(&p, row->absent, AT, row->absent, row->flags);
		drop_events(MOOR_EQ_ASYNC);
		expect(revoke(p.key[row->absent]) == REVOKED, "not revoked");
		while_it_waits(&p);
		page_in(&p, row->absent, 1, 1, true);
		must_answer(r.token, MOOR_PAGE_RESOLVED);
		expect_failure(&p, row, MOOR_SYN_KEY);
	}
}

/*
 * Sends two pages, of which the first is there and the second is absent at @absent. When
 * it is asked for, the responder's memory is registered anew, as it was, and it comes.
 * Return: false if nothing had been written till then, so that there are no two.
 */
static bool registers_anew(struct paged *p, uint8_t opcode, unsigned int absent)
{
	struct moor_page_request r;
	struct moor_mr_context e;

	host_begin();
	make_paged(p);
	page_in(p, !absent, 0, PAGES, true);
	page_in(p, absent, 1, 1, true);
	if (opcode == MOOR_WQE_SEND)
		paged_recv(p, 1, AT, 2 * PAGE);
	paged_post(p, opcode, 2, AT, AT, 2 * PAGE);
	r = expect_request(p, absent, 2 * PAGE, absent,
			   absent ? WRITE | RESPONDER : 0);
	if (!same(p->pages[0] + AT, p->pages[1] + AT, 64))
		return false;
	drop_events(MOOR_EQ_ASYNC);
	e = paged_entry(p, 1);
	need(revoke(p->key[1]) == REVOKED, "MR_REVOKE");
	write_entry(p->key[1], &e, MOOR_MRC_TYPE_MR);
	page_in(p, absent, 2, 2, true);
	must_answer(r.token, MOOR_PAGE_RESOLVED);
	return true;
}

TEST_CASE(anew_meanwhile, "a message that waits half-way meets no second registration",
	  "RC-45 ACC-15 ODP-13", HAS(ODP))
{
	unsigned int absent;
	struct paged p;

	for (absent = 0; absent < 2; absent++) {
		about("WRITE, side %u", absent);
		if (registers_anew(&p, MOOR_WQE_WRITE, absent)) {
			expect_cqe(&p.pair.cq[0], 2, MOOR_WC_REM_ACCESS_ERR, 0);
			expect_event(MOOR_EVENT_QP_ACCESS_ERR, p.pair.qp[1].qpn);
		}
		about("SEND, side %u", absent);
		if (registers_anew(&p, MOOR_WQE_SEND, absent)) {
			expect_cqe(&p.pair.cq[0], 2, MOOR_WC_REM_OP_ERR, 0);
			expect_cqe(&p.pair.cq[1], 1, MOOR_WC_LOC_PROT_ERR,
				   MOOR_SYN_KEY);
		}
	}
}

TEST_CASE(order_behind, "what stands behind who waits comes behind", "ODP-15 WQ-14",
	  HAS(ODP))
{
	struct moor_page_request r;
	unsigned int absent;
	struct paged p;

	for (absent = 0; absent < 2; absent++) {
		about("side %u", absent);
		host_begin();
		make_paged(&p);
		page_in(&p, !absent, 0, PAGES, true);
		page_in(&p, absent, 0, 1, true);
		page_in(&p, absent, 2, PAGES - 2, true);
		paged_recv(&p, 1, 3 * PAGE, 64);
		paged_post(&p, MOOR_WQE_WRITE, 2, AT, AT, 2 * PAGE);
		paged_post(&p, MOOR_WQE_SEND, 3, 4 * PAGE, 0, 64);
		paged_post(&p, MOOR_WQE_READ, 4, 5 * PAGE, AT, 64);
		r = expect_request(&p, absent, AT, absent,
				   absent ? WRITE | RESPONDER : 0);
		while_it_waits(&p);
		page_in(&p, absent, 1, 1, true);
		must_answer(r.token, MOOR_PAGE_RESOLVED);
		expect_cqe(&p.pair.cq[1], 1, MOOR_WC_SUCCESS, 0);
		expect_cqe(&p.pair.cq[0], 2, MOOR_WC_SUCCESS, 0);
		expect_cqe(&p.pair.cq[0], 3, MOOR_WC_SUCCESS, 0);
		expect_cqe(&p.pair.cq[0], 4, MOOR_WC_SUCCESS, 0);
		expect(same(p.pages[0] + AT, p.pages[1] + AT, 64) &&
		       same(p.pages[0] + 4 * PAGE, p.pages[1] + 3 * PAGE, 64) &&
		       same(p.pages[0] + 5 * PAGE, p.pages[1] + AT, 64),
		       "the data");
	}
}

TEST_CASE(receive_stays_taken, "a receive that was taken stays taken", "ODP-16", HAS(ODP))
{
	struct moor_page_request r;
	unsigned int i;
	struct paged p;

	make_paged(&p);
	page_in(&p, 0, 0, PAGES, true);
	for (i = 0; i < 2; i++)
		paged_recv(&p, i + 1, (i + 1) * PAGE, 64);
	for (i = 0; i < 2; i++)
		paged_post(&p, MOOR_WQE_SEND, i + 3, (i + 3) * PAGE, 0, 64);
	for (i = 0; i < 2; i++) {
		about("message %u", i);
		r = expect_request(&p, 1, (i + 1) * PAGE, 1, WRITE | RESPONDER);
		page_in(&p, 1, i + 1, 1, true);
		must_answer(r.token, MOOR_PAGE_RESOLVED);
		expect_cqe(&p.pair.cq[1], i + 1, MOOR_WC_SUCCESS, 0);
		expect_cqe(&p.pair.cq[0], i + 3, MOOR_WC_SUCCESS, 0);
		expect(same(p.pages[0] + (i + 3) * PAGE,
			    p.pages[1] + (i + 1) * PAGE, 64), "the data");
	}
}

TEST_CASE(both_halves, "the halves of a QP wait apart", "ODP-9 ODP-10", HAS(ODP))
{
	struct moor_page_request a, b;
	unsigned int first;
	struct paged p;

	for (first = 0; first < 2; first++) {
		about("the %s first", first ? "responder" : "requester");
		host_begin();
		make_paged(&p);
		page_in(&p, 1, 4, 1, true);
		paged_post(&p, MOOR_WQE_WRITE, 1, AT, AT, 64);
		a = expect_request(&p, 0, AT, 0, 0);
		post_send(&p.pair.qp[1], (struct send_wr){
			.opcode = MOOR_WQE_WRITE, .wr_id = 2,
			.remote = paged_addr(0, 6 * PAGE), .rkey = p.key[0],
			SGE(paged_addr(1, 4 * PAGE), 64, p.key[1]),
		});
		b = expect_request(&p, 0, 6 * PAGE, 0, WRITE | RESPONDER);
		expect(a.token != b.token, "one token for two");
		page_in(&p, 0, 0, PAGES, true);
		page_in(&p, 1, 0, PAGES, true);
		must_answer(first ? b.token : a.token, MOOR_PAGE_RESOLVED);
		expect_cqe(&p.pair.cq[first], first ? 2 : 1, MOOR_WC_SUCCESS, 0);
		expect_no_cqe(&p.pair.cq[!first]);
		must_answer(first ? a.token : b.token, MOOR_PAGE_RESOLVED);
		expect_cqe(&p.pair.cq[!first], first ? 1 : 2, MOOR_WC_SUCCESS, 0);
		expect(same(p.pages[0] + AT, p.pages[1] + AT, 64) &&
		       same(p.pages[1] + 4 * PAGE, p.pages[0] + 6 * PAGE, 64),
		       "the data");
	}
}

TEST_CASE(others, "another QP and the fences do not wait for who waits",
	  "ODP-9 REV-6", HAS(ODP))
{
	struct moor_page_request r;
	const struct row *row;
	struct cq cq;
	struct qp qp;
	struct paged p;

	FOR_EACH_ROW(row) {
		if (!is_offered(row))
			continue;
		begin_row(&p, row, 64);
		r = expect_request(&p, row->absent, AT, row->absent, row->flags);
		make_cq(&cq, 2, LOG_DEPTH);
		make_qp(&qp, &cq, &cq);
		connect_qp(&qp, qp.qpn);
		page_in(&p, row->absent, 5, 1, true);
		post_send(&qp, (struct send_wr){
			.opcode = MOOR_WQE_WRITE, .wr_id = 7,
			.remote = paged_addr(1, 5 * PAGE), .rkey = p.key[1],
			SGE(paged_addr(0, 5 * PAGE), 64, p.key[0]),
		});
		expect_cqe(&cq, 7, MOOR_WC_SUCCESS, 0);
		expect(!invalidate(p.key[row->absent],
				   paged_addr(row->absent, AT), 1),
		       "MR_INVALIDATE: status %u", answer.status);
		expect(revoke(make_mr(PD, 0, p.pages[0], PAGE)) == REVOKED,
		       "a revoke");
		while_it_waits(&p);
		page_in(&p, row->absent, 1, 1, true);
		must_answer(r.token, MOOR_PAGE_RESOLVED);
		expect_success(&p, row, 64);
	}
}

TEST_CASE(window, "through a window it is the MR that lacks a page", "ODP-10 MW-16",
	  HAS(ODP))
{
	struct moor_page_request r;
	struct paged p;
	uint32_t mw;

	skip_unless(dev.features & MOOR_FEATURE_MW_TYPE_1);
	make_paged(&p);
	page_in(&p, 0, 0, PAGES, true);
	mw = make_window(PD, MOOR_MRC_TYPE_MW_1);
	post_send(&p.pair.qp[1], (struct send_wr){
		.opcode = MOOR_WQE_BIND_MW, .wr_id = 1,
		.bind = { .mw_key = mw, .new_key = mw, .mr_lkey = p.key[1],
			  .access = MOOR_ACCESS_REMOTE_WRITE |
				    MOOR_BIND_ZERO_BASED,
			  .addr = paged_addr(1, 3 * PAGE), .length = 4 * PAGE },
	});
	expect_cqe(&p.pair.cq[1], 1, MOOR_WC_SUCCESS, 0);
	post_send(&p.pair.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .wr_id = 2, .remote = PAGE + 8,
		.rkey = mw, SGE(paged_addr(0, AT), 64, p.key[0]),
	});
	r = expect_request(&p, 1, 4 * PAGE + 8, 1, WRITE | RESPONDER);
	page_in(&p, 1, 4, 1, true);
	must_answer(r.token, MOOR_PAGE_RESOLVED);
	expect_cqe(&p.pair.cq[0], 2, MOOR_WC_SUCCESS, 0);
	expect(same(p.pages[0] + AT, p.pages[1] + 4 * PAGE + 8, 64), "the data");
}

TEST_CASE(unreliable, "UC: the requester waits; the responder drops, or fails",
	  "ODP-15 UC-3 UC-4", HAS(ODP))
{
	struct moor_page_request r;
	struct paged p;

	skip_unless(dev.features & MOOR_FEATURE_UC);
	make_paged_type(&p, MOOR_QP_UC);
	page_in(&p, 1, 0, PAGES, true);
	paged_post(&p, MOOR_WQE_WRITE, 1, AT, AT, 2 * PAGE);
	r = expect_request(&p, 0, AT, 0, 0);
	page_in(&p, 0, 0, PAGES, true);
	must_answer(r.token, MOOR_PAGE_RESOLVED);
	expect_cqe(&p.pair.cq[0], 1, MOOR_WC_SUCCESS, 0);
	expect(wait_until(same(p.pages[0] + AT, p.pages[1] + AT, 2 * PAGE)), "the data");

	about("a remote range");
	page_out(&p, 1, 3, 1);
	paged_post(&p, MOOR_WQE_WRITE, 2, AT, 3 * PAGE, 64);
	expect_cqe(&p.pair.cq[0], 2, MOOR_WC_SUCCESS, 0);
	expect_no_event(MOOR_EQ_PAGE_REQUEST);
	expect(query_qp(&p.pair.qp[1]).state == MOOR_QPS_RTS, "not in RTS");

	about("a receive");
	paged_recv(&p, 3, 3 * PAGE, 64);
	paged_post(&p, MOOR_WQE_SEND, 4, AT, 0, 64);
	expect_cqe(&p.pair.cq[0], 4, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.pair.cq[1], 3, MOOR_WC_LOC_PROT_ERR, TRANSLATION);
	expect_no_event(MOOR_EQ_PAGE_REQUEST);
}

/* What leaves before the wait is not sent again: the rest has to fit behind it. */
TEST_CASE(unreliable_long, "UC: a long message goes on, after a wait, where it was",
	  "ODP-15 UC-5", HAS(ODP))
{
	const uint32_t len = longest(1u << 20);
	struct moor_page_request r;
	uint32_t key[2], i;
	uint64_t far[2];
	struct paged p;

	skip_unless(dev.features & MOOR_FEATURE_UC);
	make_paged_type(&p, MOOR_QP_UC);
	for (i = 0; i < 2; i++) {
		far[i] = take_filled(len, 3 + i);
		key[i] = make_mr(PD, ALL_RIGHTS, far[i], len);
	}
	for (i = 0; i < 2; i++) {
		about("%s", i ? "SEND" : "WRITE");
		fill(far[1], len, 4);
		if (i)
			post_recv(&p.pair.qp[1], 1, far[1], len, key[1]);
		post_send(&p.pair.qp[0], (struct send_wr){
			.opcode = i ? MOOR_WQE_SEND : MOOR_WQE_WRITE, .wr_id = 2,
			.remote = far[1], .rkey = key[1], .num_sge = 2,
			.sge = { { far[0], len - 64, key[0] },
				 { paged_addr(0, AT), 64, p.key[0] } },
		});
		r = expect_request(&p, 0, AT, 0, 0);
		while_it_waits(&p);
		page_in(&p, 0, 1, 1, true);
		must_answer(r.token, MOOR_PAGE_RESOLVED);
		expect_cqe(&p.pair.cq[0], 2, MOOR_WC_SUCCESS, 0);
		if (i)
			expect_cqe(&p.pair.cq[1], 1, MOOR_WC_SUCCESS, 0);
		expect(wait_until(same(far[0], far[1], len - 64) &&
				  same(p.pages[0] + AT, far[1] + len - 64, 64)), "the data");
		page_out(&p, 0, 1, 1);
	}
}
