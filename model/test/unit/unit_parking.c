// SPDX-License-Identifier: GPL-2.0
/* Which half waits for a page, and how the wait ends (HWI ODP-9 to ODP-17). */
#include <stdlib.h>
#include <string.h>

#include "paged.h"
#include "transport/qp.h"

#define WRITE		MOOR_PAGE_REQUEST_WRITE
#define RESPONDER	MOOR_PAGE_REQUEST_RESPONDER
#define AT		5000u		/* in page 1 */
#define TRANSLATION	MOOR_SYN_TRANSLATION

static struct paged p;

static void all_in(int side)
{
	paged_in(&p, side, 0, PAGED_PAGES, true);
}

/* The page of byte @off of an MR. */
static uint32_t page_of(uint32_t off)
{
	return (off + PAGED_OFFSET) / 4096;
}

/* A row of the table of ODP-15: an operation, and whose memory is missing. */
struct row {
	const char *name;
	uint8_t opcode;
	int absent;		/* side whose memory is missing */
	uint8_t flags;		/* of the requests */
	uint8_t status;		/* of the send, if the page cannot be had */
	uint8_t syndrome;
	uint8_t recv_status;	/* then of the receive, or 0: there is none */
	uint8_t event;		/* then at the responder */
};

static const struct row rows[] = {
	{ "WRITE, requester", MOOR_WQE_WRITE, 0, 0,
	  MOOR_WC_LOC_PROT_ERR, TRANSLATION, 0, 0 },
	{ "SEND, requester", MOOR_WQE_SEND, 0, 0,
	  MOOR_WC_LOC_PROT_ERR, TRANSLATION, 0, 0 },
	{ "READ, requester", MOOR_WQE_READ, 0, WRITE,
	  MOOR_WC_LOC_PROT_ERR, TRANSLATION, 0, 0 },
	{ "WRITE, responder", MOOR_WQE_WRITE, 1, WRITE | RESPONDER,
	  MOOR_WC_REM_ACCESS_ERR, 0, 0, MOOR_EVENT_QP_ACCESS_ERR },
	{ "WRITE_IMM, responder", MOOR_WQE_WRITE_IMM, 1, WRITE | RESPONDER,
	  MOOR_WC_REM_ACCESS_ERR, 0, MOOR_WC_WR_FLUSH_ERR,
	  MOOR_EVENT_QP_ACCESS_ERR },
	{ "SEND, responder", MOOR_WQE_SEND, 1, WRITE | RESPONDER,
	  MOOR_WC_REM_OP_ERR, 0, MOOR_WC_LOC_PROT_ERR, 0 },
	{ "READ, responder", MOOR_WQE_READ, 1, RESPONDER,
	  MOOR_WC_REM_ACCESS_ERR, 0, 0, MOOR_EVENT_QP_ACCESS_ERR },
};

#define NUM_ROWS	(sizeof(rows) / sizeof(rows[0]))

static bool takes_receive(uint8_t opcode)
{
	return opcode == MOOR_WQE_SEND || opcode == MOOR_WQE_WRITE_IMM;
}

static void begin_row(const struct row *row, bool strict, uint32_t len)
{
	paged_start(&p, strict, MOOR_QP_RC);
	all_in(!row->absent);
	paged_recv(&p, 1, AT, len);
	paged_post(&p, row->opcode, 2, AT, AT, len);
	ring(p.g, &p.qp[0]);
}

/* @len bytes, paged in page by page: all arrive, and no QP gives up. */
static void test_row(const struct row *row, bool strict, uint32_t len)
{
	unsigned int pages = page_of(AT + len - 1) - page_of(AT) + 1, n;
	bool received;

	begin_row(row, strict, len);
	ok(paged_quiet(&p, 0) && paged_quiet(&p, 1), "%s: it waits", row->name);
	n = paged_serve(&p, row->absent, row->absent, row->flags);
	received = !takes_receive(row->opcode) ||
		   paged_got(&p, 1, MOOR_WC_SUCCESS, 1, 0);
	ok(n == pages && received && paged_got(&p, 0, MOOR_WC_SUCCESS, 2, 0) &&
	   paged_same(&p, AT, AT, len) && paged_quiet(&p, 0) &&
	   paged_quiet(&p, 1), "%s: %u bytes arrive, %u requests of %u",
	   row->name, len, n, pages);
	paged_stop(&p);
}

/* Page @pages of the message cannot be had. */
static void test_failed(const struct row *row, bool strict, uint32_t pages)
{
	uint32_t len = 600000, missing = page_of(AT) + pages;
	uint32_t off = pages ? missing * 4096 - PAGED_OFFSET : AT;
	struct moor_eqe eqe = { 0 };
	bool good, told;

	begin_row(row, strict, len);
	if (pages)
		paged_in(&p, row->absent, 0, missing, true);
	good = !pages || paged_let_go(&p, row->absent, AT, row->absent,
				      row->flags, MOOR_PAGE_RESOLVED);
	good = good && paged_let_go(&p, row->absent, off, row->absent,
				    row->flags, MOOR_PAGE_FAILED);
	good = good && paged_got(&p, 0, row->status, 2, row->syndrome);
	if (row->recv_status == MOOR_WC_LOC_PROT_ERR)
		good = good && paged_got(&p, 1, MOOR_WC_LOC_PROT_ERR, 1,
					 TRANSLATION);
	else if (row->recv_status)
		good = good && paged_got(&p, 1, row->recv_status, 1, 0);
	told = next_event(p.g, MOOR_EQ_ASYNC, &eqe) &&
	       (eqe.type != MOOR_EVENT_COMM_EST ||
		next_event(p.g, MOOR_EQ_ASYNC, &eqe));
	ok(good && told == !!row->event && eqe.type == row->event,
	   "%s: page %u fails", row->name, pages);
	paged_stop(&p);
}

/* FAILED, though the page has come after all; other pages are still asked for. */
static void test_failed_once(const struct row *row)
{
	uint32_t far = AT + 100000;
	bool good;

	begin_row(row, false, 64);
	paged_in(&p, row->absent, page_of(AT), 1, true);
	good = paged_let_go(&p, row->absent, AT, row->absent, row->flags,
			    MOOR_PAGE_FAILED) &&
	       paged_got(&p, 0, MOOR_WC_SUCCESS, 2, 0);
	paged_recv(&p, 3, far, 64);
	paged_post(&p, row->opcode, 4, far, far, 64);
	ring(p.g, &p.qp[0]);
	ok(good && paged_serve(&p, row->absent, row->absent, row->flags) == 1 &&
	   paged_got(&p, 0, MOOR_WC_SUCCESS, 4, 0) &&
	   paged_same(&p, far, far, 64),
	   "%s: FAILED, and it is there; the next is asked for", row->name);
	paged_stop(&p);
}

/* Memory is so short that only the last two pages are present. */
static void test_short_of_memory(const struct row *row, bool strict)
{
	uint32_t len = 50000, all = PAGED_SIZE - PAGED_OFFSET, page, last = 0;
	struct moor_page_request r;
	unsigned int n = 0;
	bool good = true;

	begin_row(row, strict, len);
	while (good && n++ < 100 && paged_request(&p, &r)) {
		page = page_of((uint32_t)(r.addr - paged_addr(row->absent, 0)));
		paged_out(&p, row->absent, 0, PAGED_PAGES);
		good = !paged_invalidate(&p, row->absent,
					 paged_addr(row->absent, 0), all);
		paged_in(&p, row->absent, last, 1, true);
		paged_in(&p, row->absent, page, 1, true);
		last = page;
		good = good && !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED);
		settle_timers(p.g, 100);
	}
	ok(good && n > 13 && n < 100 &&
	   paged_got(&p, 0, MOOR_WC_SUCCESS, 2, 0) &&
	   paged_same(&p, AT, AT, len),
	   "%s: two pages at a time are enough, %u requests", row->name, n);
	paged_stop(&p);
}

/* The page has been taken away again when the wait ends. */
static void test_gone_again(const struct row *row, bool strict)
{
	struct moor_page_request r;
	uint32_t token;
	bool good;

	begin_row(row, strict, 64);
	good = paged_request(&p, &r) &&
	       !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED);
	settle_timers(p.g, 100);
	token = r.token;
	good = good && paged_request(&p, &r) && r.token != token &&
	       paged_is(&p, &r, row->absent, AT, row->absent, row->flags) &&
	       paged_answer(&p, token, MOOR_PAGE_RESOLVED) == MOOR_CMD_BAD_INDEX;
	paged_in(&p, row->absent, 0, 4, true);
	ok(good && !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED) &&
	   paged_got(&p, 0, MOOR_WC_SUCCESS, 2, 0) && paged_same(&p, AT, AT, 64),
	   "%s: the page is gone again, and is asked for again", row->name);
	paged_stop(&p);
}

/* The MR is revoked while a QP waits for a page of it. */
static void test_revoked(const struct row *row, bool strict)
{
	bool local = !row->absent, sends = row->opcode == MOOR_WQE_SEND;
	struct moor_page_request r;
	bool good;

	begin_row(row, strict, 64);
	good = paged_request(&p, &r) &&
	       revoke_key(p.g, p.m[row->absent].key) == 0 &&
	       !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED);
	settle_timers(p.g, 100);
	good = good && paged_got(&p, 0, row->status, 2,
				 local ? MOOR_SYN_KEY : 0);
	if (sends && !local)
		good = good && paged_got(&p, 1, MOOR_WC_LOC_PROT_ERR, 1,
					 MOOR_SYN_KEY);
	ok(good, "%s: the key is revoked meanwhile", row->name);
	paged_stop(&p);
}

static struct moor_sq_wqe *post_add(uint64_t wr_id, uint32_t off,
				    uint32_t remote, uint64_t add)
{
	struct moor_sq_wqe *wqe = paged_post(&p, MOOR_WQE_FETCH_ADD, wr_id, off,
					     remote, 8);

	((struct moor_wqe_atomic *)(wqe + 1))->swap_add = add;
	return wqe;
}

/* Byte @off of an MR, which is aligned, as a word. */
static uint64_t *word(int side, uint32_t off)
{
	return (void *)paged_at(&p, side, off);
}

/* In page 2; the word is aligned in the MR and in memory. */
#define WORD_AT		8000u

/* The page of an atomic's result, of its target, or both are absent: it is done once. */
static void test_atomic(bool strict, bool local, bool remote)
{
	bool good = true;

	paged_start(&p, strict, MOOR_QP_RC);
	if (!local)
		all_in(0);
	if (!remote)
		all_in(1);
	*word(1, WORD_AT) = 40;
	post_add(1, WORD_AT, WORD_AT, 2);
	ring(p.g, &p.qp[0]);
	good = paged_quiet(&p, 0) && *word(1, WORD_AT) == 40;
	if (local) {
		paged_in(&p, 0, 1, 1, true);
		good = good && paged_let_go(&p, 0, WORD_AT, 0, WRITE,
					    MOOR_PAGE_RESOLVED);
	}
	if (remote) {
		good = good && paged_quiet(&p, 0);
		paged_in(&p, 1, 1, 1, true);
		good = good && paged_let_go(&p, 1, WORD_AT, 1,
					    WRITE | RESPONDER,
					    MOOR_PAGE_RESOLVED);
	}
	ok(good && paged_got(&p, 0, MOOR_WC_SUCCESS, 1, 0) &&
	   *word(0, WORD_AT) == 40 && *word(1, WORD_AT) == 42,
	   "FETCH_ADD, absent:%s%s", local ? " result" : "",
	   remote ? " target" : "");
	paged_stop(&p);
}

static void test_atomic_failed(bool local)
{
	bool good;

	paged_start(&p, false, MOOR_QP_RC);
	all_in(local);
	*word(1, WORD_AT) = 40;
	post_add(1, WORD_AT, WORD_AT, 2);
	ring(p.g, &p.qp[0]);
	good = paged_let_go(&p, !local, WORD_AT, !local,
			    WRITE | (local ? 0 : RESPONDER), MOOR_PAGE_FAILED);
	good = good && (local ?
			paged_got(&p, 0, MOOR_WC_LOC_PROT_ERR, 1, TRANSLATION) :
			paged_got(&p, 0, MOOR_WC_REM_ACCESS_ERR, 1, 0));
	ok(good && *word(1, WORD_AT) == 40, "FETCH_ADD, %s: it is not done",
	   local ? "result fails" : "target fails");
	paged_stop(&p);
}

/*
 * A long READ finds a local page absent, in its third unit, when the atomic behind it has
 * been done: the atomic's answer is dropped, and its result's page goes meanwhile.
 */
static void test_atomic_once(bool strict)
{
	uint32_t len = 600000, off = 140 * 4096 - PAGED_OFFSET;
	bool good;

	paged_start(&p, strict, MOOR_QP_RC);
	all_in(1);
	paged_in(&p, 0, 0, 140, true);
	paged_in(&p, 0, 141, 60, true);
	paged_fill(&p, 0, 77);
	*word(1, WORD_AT + 700000) = 1;
	paged_post(&p, MOOR_WQE_READ, 1, AT, AT, len);
	post_add(2, WORD_AT + 700000, WORD_AT + 700000, 2);
	ring(p.g, &p.qp[0]);
	good = *word(1, WORD_AT + 700000) == 3 && paged_quiet(&p, 0);
	paged_out(&p, 0, page_of(WORD_AT + 700000), 1);
	paged_invalidate(&p, 0, paged_addr(0, WORD_AT + 700000), 8);
	paged_in(&p, 0, 140, 1, true);
	good = good && paged_let_go(&p, 0, off, 0, WRITE, MOOR_PAGE_RESOLVED) &&
	       paged_got(&p, 0, MOOR_WC_SUCCESS, 1, 0) && paged_quiet(&p, 0);
	good = good && paged_serve(&p, 0, 0, WRITE) == 1 &&
	       paged_got(&p, 0, MOOR_WC_SUCCESS, 2, 0);
	ok(good && paged_same(&p, AT, AT, len) &&
	   *word(0, WORD_AT + 700000) == 1 && *word(1, WORD_AT + 700000) == 3,
	   "an atomic whose answer was dropped is done once");
	paged_stop(&p);
}

/* Requests behind one that waits do not pass it, and follow in order. */
static void test_order(int absent, bool strict)
{
	uint32_t len = 5000;
	bool good;

	paged_start(&p, strict, MOOR_QP_RC);
	all_in(0);
	all_in(1);
	paged_out(&p, absent, page_of(AT), 1);
	paged_recv(&p, 1, 20000, 64);
	paged_recv(&p, 2, 30000, 64);
	paged_post(&p, MOOR_WQE_WRITE, 3, AT, AT, len);
	paged_post(&p, MOOR_WQE_SEND, 4, 20000, 0, 64);
	paged_post(&p, MOOR_WQE_READ, 5, 40000, AT, len);
	ring(p.g, &p.qp[0]);
	settle_timers(p.g, 100);
	good = paged_quiet(&p, 0) && paged_quiet(&p, 1) &&
	       !paged_same(&p, 20000, 20000, 64);
	good = good && paged_serve(&p, absent, absent,
				   absent ? WRITE | RESPONDER : 0) == 1;
	good = good && paged_got(&p, 1, MOOR_WC_SUCCESS, 1, 0) &&
	       paged_got(&p, 0, MOOR_WC_SUCCESS, 3, 0) &&
	       paged_got(&p, 0, MOOR_WC_SUCCESS, 4, 0) &&
	       paged_got(&p, 0, MOOR_WC_SUCCESS, 5, 0);
	ok(good && paged_same(&p, AT, AT, len) &&
	   paged_same(&p, 20000, 20000, 64) && paged_same(&p, 40000, AT, len),
	   "side %d is absent: what comes behind comes behind", absent);
	paged_stop(&p);
}

/*
 * A READ that waits for a page of either side, and a WRITE and a SEND behind it: all
 * arrive, and nothing is lost or mixed up.
 */
static void test_behind_a_read(int absent, bool strict)
{
	uint32_t len = 600000, middle = 70 * 4096 - PAGED_OFFSET;
	bool good;

	paged_start(&p, strict, MOOR_QP_RC);
	all_in(0);
	all_in(1);
	paged_out(&p, absent, 70, 1);
	paged_recv(&p, 3, 700000, 1000);
	paged_post(&p, MOOR_WQE_READ, 1, AT, AT, len);
	paged_post(&p, MOOR_WQE_WRITE, 2, 800000, 900000, 1000);
	paged_post(&p, MOOR_WQE_SEND, 3, 700000, 0, 1000);
	ring(p.g, &p.qp[0]);
	settle_timers(p.g, 100);
	good = paged_quiet(&p, 0);
	paged_in(&p, absent, 70, 1, true);
	good = good && paged_let_go(&p, absent, middle, absent,
				    absent ? RESPONDER : WRITE,
				    MOOR_PAGE_RESOLVED);
	good = good && paged_got(&p, 0, MOOR_WC_SUCCESS, 1, 0) &&
	       paged_got(&p, 0, MOOR_WC_SUCCESS, 2, 0) &&
	       paged_got(&p, 0, MOOR_WC_SUCCESS, 3, 0) &&
	       paged_got(&p, 1, MOOR_WC_SUCCESS, 3, 0);
	ok(good && paged_same(&p, AT, AT, len) &&
	   paged_same(&p, 800000, 900000, 1000) &&
	   paged_same(&p, 700000, 700000, 1000) && paged_quiet(&p, 0) &&
	   paged_quiet(&p, 1), "a READ that waits %s, and others behind it",
	   absent ? "there" : "here");
	paged_stop(&p);
}

#define ONE_QP		50000u		/* so long that one QP has its turn in nic_run() */
#define TOO_LATE	100000000u	/* longer than the time-out */

/* @ns pass, and then the NIC works once. */
static void run_after(uint64_t ns)
{
	clock_step_ns = ns;
	__wrap_timer_now();
	clock_step_ns = ONE_QP;
	nic_run(p.g->nic);
}

/*
 * A responder meets the absent page in a turn of its own, in the READ's third unit: the ACK
 * timer, which has begun anew since the second unit, goes on. It ends when the page is
 * there, but the requester has had no turn since, as another QP's came first: the time was
 * the wait's, and no retry is spent, of which there is none.
 */
static void test_stale_timer(bool strict)
{
	struct moor_cmd_modify_qp timeout = {
		.mask = MOOR_QP_ATTR_TIMEOUT, .timeout = 12,
	};
	struct moor_cmd_page_response cmd = {
		.hdr.opcode = MOOR_CMD_PAGE_RESPONSE,
	};
	uint64_t step_ns = clock_step_ns;
	struct moor_page_request r;
	struct guest_qp third;
	bool good;

	paged_start(&p, strict, MOOR_QP_RC);
	all_in(0);
	all_in(1);
	paged_out(&p, 1, 140, 1);
	modify(p.g, &timeout, p.qp[0].qpn);
	good = !make_qp(p.g, &third, 0x777, PAGED_PD, &p.cq[1], &p.cq[1]);
	connect_qp(p.g, &third, third.qpn);
	paged_post(&p, MOOR_WQE_READ, 1, AT, AT, 600000);
	announce(p.g, &p.qp[0]);
	run_after(0);
	run_after(0);
	run_after(TOO_LATE);
	next_send(p.g, &third, MOOR_WQE_WRITE, 2);
	announce(p.g, &third);
	good = good && !paged_request(&p, &r);
	run_after(0);
	good = good && paged_request(&p, &r);
	paged_in(&p, 1, 140, 1, true);
	cmd.token = r.token;
	send_command(p.g, &cmd, sizeof(cmd));
	run_after(0);
	run_after(TOO_LATE);
	clock_step_ns = step_ns;
	settle_timers(p.g, 1);
	ok(good && paged_got(&p, 0, MOOR_WC_SUCCESS, 1, 0) &&
	   paged_same(&p, AT, AT, 600000),
	   "the time that a responder waits is none of the time-out");
	paged_stop(&p);
}

/* A message that waits keeps the receive that it has taken; the next gets the next. */
static void test_same_receive(bool strict)
{
	struct moor_cmd_query_qp query = {
		.hdr.opcode = MOOR_CMD_QUERY_QP, .qpn = 0,
	};
	const struct moor_cpl_query_qp *out;
	bool good;

	paged_start(&p, strict, MOOR_QP_RC);
	all_in(0);
	paged_recv(&p, 1, AT, 64);
	paged_recv(&p, 2, 20000, 64);
	paged_post(&p, MOOR_WQE_SEND, 3, AT, 0, 64);
	paged_post(&p, MOOR_WQE_SEND, 4, 20000, 0, 64);
	ring(p.g, &p.qp[0]);
	query.qpn = p.qp[1].qpn;
	good = !command(p.g, &query, sizeof(query));
	out = (const void *)p.g->cpl.out;
	good = good && !out->rq_consumer &&
	       paged_serve(&p, 1, 1, WRITE | RESPONDER) == 2;
	ok(good && paged_got(&p, 1, MOOR_WC_SUCCESS, 1, 0) &&
	   paged_got(&p, 1, MOOR_WC_SUCCESS, 2, 0) &&
	   paged_same(&p, AT, AT, 64) && paged_same(&p, 20000, 20000, 64),
	   "each message has the receive it took");
	paged_stop(&p);
}

/*
 * A SEND has used a registration, and waits for its next page: when the SEND goes on, it
 * uses no other registration (HWI RC-45).
 */
static void test_registered_anew(bool strict)
{
	uint32_t page = page_of(AT), off = (page + 1) * 4096 - PAGED_OFFSET;
	struct moor_mr_context entry;
	bool good;

	paged_start(&p, strict, MOOR_QP_RC);
	all_in(0);
	paged_in(&p, 1, page, 1, true);
	paged_recv(&p, 1, AT, 8192);
	paged_post(&p, MOOR_WQE_SEND, 2, AT, AT, 8192);
	ring(p.g, &p.qp[0]);
	memcpy(&entry, (struct moor_mr_context *)p.g->mr_bar + (p.m[1].key >> 16),
	       sizeof(entry));
	revoke_key(p.g, p.m[1].key);
	put_entry(p.g, p.m[1].key, &entry, MOOR_MRC_TYPE_MR);
	all_in(1);
	good = paged_let_go(&p, 1, off, 1, WRITE | RESPONDER, MOOR_PAGE_RESOLVED);
	ok(good && paged_got(&p, 1, MOOR_WC_LOC_PROT_ERR, 1, MOOR_SYN_KEY) &&
	   paged_got(&p, 0, MOOR_WC_REM_OP_ERR, 2, 0),
	   "a SEND never meets two registrations");
	paged_stop(&p);
}

/*
 * A READ waits for a page of its responder. Neither a third QP that names one of the two
 * as its peer and turns away again, nor the requester's turning away, is its end: the one
 * changes nothing, after the other there is nobody to wait for.
 */
static void test_strangers(void)
{
	struct moor_cmd_modify_qp away = { .mask = MOOR_QP_ATTR_DEST_QPN };
	struct guest_qp third;
	const struct qp *asks;

	begin_row(&rows[NUM_ROWS - 1], false, 64);
	asks = qp_find(p.g->nic, p.qp[0].qpn);
	if (make_qp(p.g, &third, 0x777, PAGED_PD, &p.cq[0], &p.cq[0]))
		abort();
	connect_qp(p.g, &third, p.qp[0].qpn);
	ok(asks->req.held, "a requester waits for its responder's page");
	away.dest_qpn = 0x777;
	ok(!modify(p.g, &away, third.qpn) && asks->req.held,
	   "  and goes on waiting when another QP leaves it");
	ok(!modify(p.g, &away, p.qp[0].qpn) && !asks->req.held,
	   "  but not when it leaves its responder");
	paged_stop(&p);
}

int main(void)
{
	unsigned int i, strict;

	for (strict = 0; strict < 2; strict++) {
		for (i = 0; i < NUM_ROWS; i++) {
			test_row(&rows[i], strict, 64);
			test_row(&rows[i], strict, 600000);
			test_failed(&rows[i], strict, 0);
			test_failed(&rows[i], strict, 100);
			test_short_of_memory(&rows[i], strict);
			test_gone_again(&rows[i], strict);
			test_revoked(&rows[i], strict);
		}
		for (i = 1; i < 4; i++)
			test_atomic(strict, i & 1, i & 2);
		test_atomic_once(strict);
		for (i = 0; i < 2; i++) {
			test_order((int)i, strict);
			test_behind_a_read((int)i, strict);
			test_atomic_failed(i);
		}
		test_stale_timer(strict);
		test_same_receive(strict);
		test_registered_anew(strict);
	}
	for (i = 0; i < NUM_ROWS; i++)
		test_failed_once(&rows[i]);
	test_strangers();
	return done();
}
