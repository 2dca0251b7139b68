// SPDX-License-Identifier: GPL-2.0
/*
 * Other messages of a half that waited for a page go on: what the answer said holds all
 * the same for the access that it was for (HWI ODP-13, ODP-17).
 */
#include <string.h>

#include "base/impairment.h"
#include "paged.h"
#include "transport/port.h"
#include "transport/qp.h"
#include "transport/transport.h"

#define WRITE		MOOR_PAGE_REQUEST_WRITE
#define RESPONDER	MOOR_PAGE_REQUEST_RESPONDER
#define AT		5000u	/* in page 1 */
#define LEN		50000u
#define ROUNDS		50u	/* no test of one page needs so many requests */
#define TWO_PAGES	77u	/* requests for LEN bytes, two pages at a time */

static struct paged p;

/* Byte 0 of page @page of an MR. */
static uint32_t page_at(uint32_t page)
{
	return page * 4096 - PAGED_OFFSET;
}

static uint32_t page_of(uint32_t off)
{
	return (off + PAGED_OFFSET) / 4096;
}

static void start(bool strict)
{
	int i;

	paged_start(&p, strict, MOOR_QP_RC);
	for (i = 0; i < 2; i++)
		paged_in(&p, i, 0, PAGED_PAGES, true);
}

/* A short WRITE to page @page of side 1, which comes from page 255. */
static void post_write(uint64_t wr_id, uint32_t page)
{
	paged_post(&p, MOOR_WQE_WRITE, wr_id, page_at(255), page_at(page), 64);
}

/* The next page request, as soon as it is there: other work may be left to do. */
static bool request_soon(struct moor_page_request *r)
{
	bool more = true;

	while (!paged_request(&p, r)) {
		if (!more)
			return false;
		more = nic_run(p.g->nic);
	}
	return true;
}

/* The status of the CQE of work request @wr_id, or 0xff; drops those before. */
static uint8_t status_of(uint64_t wr_id)
{
	struct moor_cqe cqe;

	while (poll_cq(p.g, &p.cq[0], &cqe))
		if (cqe.wr_id == wr_id)
			return cqe.status;
	return 0xff;
}

/* A READ whose page fails at the responder, while WRITEs come in behind it to @page. */
static void test_failed_there(bool strict, uint32_t page)
{
	struct moor_page_request r;
	unsigned int n = 0;

	start(strict);
	paged_out(&p, 1, 70, 2);
	paged_post(&p, MOOR_WQE_READ, 1, AT, AT, 600000);
	post_write(2, page);
	announce(p.g, &p.qp[0]);
	while (n < ROUNDS && request_soon(&r)) {
		n++;
		post_write(2 + n, page);
		announce(p.g, &p.qp[0]);
		paged_answer(&p, r.token, MOOR_PAGE_FAILED);
	}
	ok(n == 1 && status_of(1) == MOOR_WC_REM_ACCESS_ERR,
	   "WRITEs to page %u behind a READ whose page fails there: %u requests",
	   page, n);
	paged_stop(&p);
}

/*
 * The page fails where a READ's answer is to be placed, and a WRITE behind that is sent
 * again. The READs before and behind keep the responder busy: answers come later.
 */
static void test_failed_here(bool strict)
{
	struct moor_page_request r;
	unsigned int n = 0;

	start(strict);
	paged_out(&p, 0, 241, 1);
	paged_post(&p, MOOR_WQE_READ, 1, AT, AT, 800000);
	paged_post(&p, MOOR_WQE_READ, 2, page_at(240), AT, 8192);
	post_write(3, 250);
	paged_post(&p, MOOR_WQE_READ, 4, AT, AT, 800000);
	announce(p.g, &p.qp[0]);
	while (n < ROUNDS && request_soon(&r)) {
		n++;
		paged_answer(&p, r.token, MOOR_PAGE_FAILED);
	}
	ok(n == 1 && status_of(2) == MOOR_WC_LOC_PROT_ERR,
	   "a WRITE behind a READ whose page fails here: %u requests", n);
	paged_stop(&p);
}

/* On a wire, where all packets are late or lost; for longer than any other test lasts. */
static void start_on_wire(bool strict, struct impairment impairment)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_TIMEOUT, .timeout = 18,
	};

	start(strict);
	paged_retries(&p, 1, 0);
	modify(p.g, &cmd, p.qp[0].qpn);
	port_impair(p.g->nic, &impairment);
}

static void stop_on_wire(void)
{
	port_impair(p.g->nic, NULL);
	paged_stop(&p);
}

/* The same with answers that are late, since they come over a wire. */
static void test_failed_on_wire(bool strict)
{
	struct moor_page_request r;
	unsigned int n = 0;

	start_on_wire(strict, (struct impairment){ .delay = 100 });
	paged_out(&p, 0, 241, 1);
	paged_recv(&p, 5, page_at(250), 64);
	paged_post(&p, MOOR_WQE_READ, 1, page_at(240), AT, 8192);
	paged_post(&p, MOOR_WQE_SEND, 2, page_at(255), 0, 64);
	ring(p.g, &p.qp[0]);
	settle_timers(p.g, 100);
	while (n < ROUNDS && paged_request(&p, &r)) {
		n++;
		paged_answer(&p, r.token, MOOR_PAGE_FAILED);
		settle_timers(p.g, 100);
	}
	ok(n == 1 && status_of(1) == MOOR_WC_LOC_PROT_ERR,
	   "a SEND behind such a READ, on a wire: %u requests", n);
	stop_on_wire();
}

/* FAILED, and the page is there: it holds for one try. That is lost, and the page goes. */
static void test_failed_once(bool strict)
{
	uint64_t addr = paged_addr(0, page_at(255));
	struct moor_page_request r;
	bool good;

	start_on_wire(strict, (struct impairment){ .lose = 100 });
	paged_out(&p, 0, 255, 1);
	post_write(1, 200);
	ring(p.g, &p.qp[0]);
	good = paged_request(&p, &r);
	paged_in(&p, 0, 255, 1, true);
	good = good && !paged_answer(&p, r.token, MOOR_PAGE_FAILED);
	paged_out(&p, 0, 255, 1);
	good = good && !paged_invalidate(&p, 0, addr, 64) &&
	       paged_quiet(&p, 0) && !paged_request(&p, &r);
	port_impair(p.g->nic, NULL);
	settle_timers(p.g, 5000);
	good = good && paged_request(&p, &r) && r.addr == addr;
	paged_in(&p, 0, 255, 1, true);
	good = good && !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED);
	ok(good && status_of(1) == MOOR_WC_SUCCESS,
	   "after FAILED the page goes once more, and is asked for");
	stop_on_wire();
}

/*
 * A page of a WRITE fails; one of the READ before it is absent, too, but is asked for.
 * That is another page request, so that the WRITE's page may be asked for once more.
 */
static void test_not_failed(bool strict)
{
	struct moor_page_request r;
	unsigned int n = 0;

	start(strict);
	paged_out(&p, 0, 140, 1);
	paged_out(&p, 0, 255, 1);
	paged_post(&p, MOOR_WQE_READ, 1, AT, AT, 600000);
	post_write(2, 200);
	ring(p.g, &p.qp[0]);
	while (n < ROUNDS && paged_request(&p, &r)) {
		bool fails = r.addr == paged_addr(0, page_at(255));

		n++;
		if (!fails)
			paged_in(&p, 0, 140, 1, true);
		paged_answer(&p, r.token, fails ? MOOR_PAGE_FAILED :
						  MOOR_PAGE_RESOLVED);
	}
	ok(n <= 3 && paged_got(&p, 0, MOOR_WC_SUCCESS, 1, 0) &&
	   paged_got(&p, 0, MOOR_WC_LOC_PROT_ERR, 2, MOOR_SYN_TRANSLATION) &&
	   paged_same(&p, AT, AT, 600000),
	   "a WRITE whose page fails, and a READ whose page does not: %u requests",
	   n);
	paged_stop(&p);
}

/* Memory is so short that of side @side only the last two pages and @kept are present. */
static bool serve_two(int side, uint32_t kept, uint32_t *last,
		      const struct moor_page_request *r)
{
	uint32_t page = page_of((uint32_t)(r->addr - paged_addr(side, 0)));

	if (r->key != p.m[side].key)
		return false;
	paged_out(&p, side, 0, PAGED_PAGES);
	if (paged_invalidate(&p, side, paged_addr(side, 0),
			     PAGED_SIZE - PAGED_OFFSET))
		return false;
	paged_in(&p, side, kept, 1, true);
	paged_in(&p, side, *last, 1, true);
	paged_in(&p, side, page, 1, true);
	*last = page;
	return !paged_answer(&p, r->token, MOOR_PAGE_RESOLVED);
}

/*
 * Two pages at a time are enough for a READ, though WRITEs come in behind it, to a page
 * that stays (@page == @kept), or to one that is absent each time.
 */
static void test_short_there(bool strict, uint32_t page, uint32_t kept)
{
	unsigned int n = 0, enough = TWO_PAGES + (page != kept);
	struct moor_page_request r;
	uint32_t last = 0;
	bool good = true;

	start(strict);
	paged_out(&p, 1, 0, PAGED_PAGES);
	paged_in(&p, 1, kept, 1, true);
	paged_post(&p, MOOR_WQE_READ, 1, AT, AT, LEN);
	post_write(2, page);
	announce(p.g, &p.qp[0]);
	while (good && n <= enough && request_soon(&r)) {
		if (n++ < 20)
			post_write(2 + n, page);
		announce(p.g, &p.qp[0]);
		good = serve_two(1, kept, &last, &r);
	}
	ok(good && n > 12 && n <= enough && status_of(1) == MOOR_WC_SUCCESS &&
	   status_of(22) == MOOR_WC_SUCCESS && paged_same(&p, AT, AT, LEN),
	   "two pages there, WRITEs to %s: %u requests",
	   page == kept ? "a third" : "another", n);
	paged_stop(&p);
}

/* The same at the requester; the WRITEs come from page 255, which stays or not. */
static void test_short_here(bool strict, uint32_t kept)
{
	unsigned int n = 0, enough = TWO_PAGES + (kept != 255);
	struct moor_page_request r;
	uint32_t last = 0;
	bool good = true;

	start(strict);
	paged_post(&p, MOOR_WQE_READ, 1, page_at(20), AT, 800000);
	paged_post(&p, MOOR_WQE_READ, 2, AT, AT, LEN);
	post_write(3, 250);
	paged_post(&p, MOOR_WQE_READ, 4, page_at(20), AT, 800000);
	paged_out(&p, 0, 0, 16);
	announce(p.g, &p.qp[0]);
	while (good && n <= enough && request_soon(&r)) {
		uint32_t page = page_of((uint32_t)(r.addr - paged_addr(0, 0)));

		n++;
		paged_out(&p, 0, 0, 16);
		paged_out(&p, 0, 255, kept != 255);
		good = !paged_invalidate(&p, 0, paged_addr(0, 0),
					 PAGED_SIZE - PAGED_OFFSET);
		paged_in(&p, 0, last, 1, true);
		paged_in(&p, 0, page, 1, true);
		last = page;
		good = good && !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED);
	}
	ok(good && n > 12 && n <= enough && status_of(2) == MOOR_WC_SUCCESS &&
	   status_of(4) == MOOR_WC_SUCCESS && paged_same(&p, AT, AT, LEN),
	   "two pages here, a WRITE from %s: %u requests",
	   kept == 255 ? "a third" : "another", n);
	paged_stop(&p);
}

/* Of the first 16 pages of side 1 the last two are present, and all others. */
static bool serve_two_of_16(uint32_t *last, const struct moor_page_request *r)
{
	uint32_t page = page_of((uint32_t)(r->addr - paged_addr(1, 0)));

	paged_out(&p, 1, 0, 16);
	if (paged_invalidate(&p, 1, paged_addr(1, 0), page_at(16)))
		return false;
	paged_in(&p, 1, *last, 1, true);
	paged_in(&p, 1, page, 1, true);
	*last = page;
	return !paged_answer(&p, r->token, MOOR_PAGE_RESOLVED);
}

/*
 * A SEND finds no receive, but is told so behind the READ's answer. Meanwhile a WRITE more
 * than a run behind the SEND has to wait for its page here. When the SEND is sent again its
 * responder has two pages at a time: each of the two waits holds for its own packet.
 */
static void test_short_there_and_here(bool strict)
{
	struct moor_page_request r;
	unsigned int n = 0;
	uint32_t last = 0;
	bool good;

	start(strict);
	paged_retries(&p, 0, 7);
	paged_out(&p, 0, 50, 1);
	paged_post(&p, MOOR_WQE_READ, 1, page_at(120), page_at(120), 1500000);
	paged_post(&p, MOOR_WQE_SEND, 2, AT, 0, LEN);
	paged_post(&p, MOOR_WQE_WRITE, 3, page_at(51), page_at(20), 270000);
	paged_post(&p, MOOR_WQE_WRITE, 4, page_at(50), page_at(100), 64);
	ring(p.g, &p.qp[0]);
	good = paged_request(&p, &r) && r.addr == paged_addr(0, page_at(50));
	paged_in(&p, 0, 50, 1, true);
	good = good && !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED);
	paged_out(&p, 1, 0, 16);
	paged_recv(&p, 5, AT, LEN);
	settle_timers(p.g, 100);
	while (good && n <= TWO_PAGES && paged_request(&p, &r)) {
		n++;
		good = serve_two_of_16(&last, &r);
		settle_timers(p.g, 100);
	}
	ok(good && n > 12 && n <= TWO_PAGES && status_of(2) == MOOR_WC_SUCCESS &&
	   status_of(4) == MOOR_WC_SUCCESS && paged_same(&p, AT, AT, LEN),
	   "two pages there, a WRITE that has waited here: %u requests", n);
	paged_stop(&p);
}

/* Two pages here once more, with answers that come only after the WRITE has been tried. */
static void test_short_on_wire(bool strict)
{
	struct moor_page_request r;
	unsigned int n = 0;
	uint32_t last = 0;
	bool good = true;

	start_on_wire(strict, (struct impairment){ .delay = 100 });
	paged_out(&p, 0, 0, PAGED_PAGES);
	paged_post(&p, MOOR_WQE_READ, 1, AT, AT, LEN);
	post_write(2, 250);
	ring(p.g, &p.qp[0]);
	while (good && n <= TWO_PAGES && paged_request(&p, &r)) {
		n++;
		good = serve_two(0, 0, &last, &r);
		settle_timers(p.g, 100);
	}
	ok(good && n > 12 && n <= TWO_PAGES && status_of(1) == MOOR_WC_SUCCESS &&
	   status_of(2) == MOOR_WC_SUCCESS && paged_same(&p, AT, AT, LEN),
	   "two pages here, on a wire: %u requests", n);
	stop_on_wire();
}

/* The page comes while more of the answer is on its way: what is dropped was not lost. */
static void test_dropped_on_wire(bool strict)
{
	struct moor_page_request r;
	unsigned int turns = 0;
	bool good;

	start_on_wire(strict, (struct impairment){ .delay = 100 });
	paged_retries(&p, 0, 0);
	paged_out(&p, 0, 10, 1);
	paged_post(&p, MOOR_WQE_READ, 1, AT, AT, LEN);
	announce(p.g, &p.qp[0]);
	while (!paged_request(&p, &r) && turns++ < 10000)
		nic_run(p.g->nic);
	paged_in(&p, 0, 10, 1, true);
	good = !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED);
	settle_timers(p.g, 100);
	ok(good && status_of(1) == MOOR_WC_SUCCESS && paged_same(&p, AT, AT, LEN),
	   "a READ of which much is on the way, on a wire");
	stop_on_wire();
}

/*
 * A WRITE meets RNR NAK, and its page comes before the WRITE behind it. Silence meets that
 * (HWI RC-43): a NAK for a gap would find a requester that is sending again already, and
 * cost it a retry.
 */
static void test_behind_on_wire(bool strict)
{
	struct moor_cmd_modify_qp shortest = {
		.mask = MOOR_QP_ATTR_MIN_RNR_TIMER, .min_rnr_timer = 1,
	};
	struct moor_page_request r;
	unsigned int turns;
	bool good;

	start_on_wire(strict, (struct impairment){ .delay = 100 });
	paged_retries(&p, 0, 1);
	modify(p.g, &shortest, p.qp[1].qpn);
	paged_out(&p, 1, 70, 1);
	post_write(1, 70);
	announce(p.g, &p.qp[0]);
	for (turns = 0; turns < 20; turns++)
		nic_run(p.g->nic);
	post_write(2, 200);
	announce(p.g, &p.qp[0]);
	while (!paged_request(&p, &r) && turns++ < 10000)
		nic_run(p.g->nic);
	paged_in(&p, 1, 70, 1, true);
	good = !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED) &&
	       !p.g->nic->wire->traffic.gaps;
	settle_timers(p.g, 100);
	ok(good && p.g->nic->wire->traffic.gaps &&
	   paged_got(&p, 0, MOOR_WC_SUCCESS, 1, 0) &&
	   paged_got(&p, 0, MOOR_WC_SUCCESS, 2, 0),
	   "a WRITE behind one that met RNR NAK, on a wire");
	stop_on_wire();
}

/* QP 1 acknowledges packet @psn, though the wire has lost it. */
static void acknowledge(uint32_t psn)
{
	struct packet ack = {
		.opcode = PACKET_ACKNOWLEDGE, .psn = psn, .num_psn = 1, .syndrome = AETH_ACK,
		.src_qpn = p.qp[1].qpn, .dest_qpn = p.qp[0].qpn,
		.sgid = p.g->nic->gids->entry[0].gid, .dgid = p.g->nic->gids->entry[0].gid,
	};

	transport_receive(p.g->nic, &ack);
	settle(p.g);
}

/*
 * The requester has gone back to a packet whose page is gone, and an acknowledgment of it
 * comes late: the page of what is behind it fails the WRITE, and nothing waits for the first.
 */
static void test_acknowledged_on_wire(bool strict, uint32_t num_acked)
{
	uint32_t psn;
	struct moor_page_request r;
	unsigned int n = 0;

	start_on_wire(strict, (struct impairment){ .lose = 100 });
	paged_post(&p, MOOR_WQE_WRITE, 1, page_at(1), AT, 64);
	paged_post(&p, MOOR_WQE_WRITE, 2, page_at(2), AT, 3 * 4096);
	psn = qp_find(p.g->nic, p.qp[0].qpn)->req.acked_psn;
	ring(p.g, &p.qp[0]);
	paged_out(&p, 0, 0, PAGED_PAGES);
	paged_invalidate(&p, 0, paged_addr(0, 0), PAGED_SIZE - PAGED_OFFSET);
	settle_timers(p.g, 5000);
	while (n < ROUNDS && paged_request(&p, &r)) {
		if (!n++)
			acknowledge(psn + num_acked - 1);
		paged_answer(&p, r.token, MOOR_PAGE_FAILED);
		settle_timers(p.g, 5000);
	}
	ok(n == 2 && status_of(2) == MOOR_WC_LOC_PROT_ERR,
	   "a page fails behind %u acknowledged packets: %u requests", num_acked, n);
	stop_on_wire();
}

/*
 * The same packet once more, and nothing is behind it: when the page fails, the WRITE has
 * ended. A new SQ_PSN gives its PSN to another WRITE, whose page is asked for.
 */
static void test_psn_once_more(bool strict)
{
	struct moor_cmd_modify_qp cmd = { .mask = MOOR_QP_ATTR_SQ_PSN };
	uint64_t addr = paged_addr(0, page_at(254));
	struct moor_page_request r;
	bool good;

	start_on_wire(strict, (struct impairment){ .lose = 100 });
	cmd.sq_psn = qp_find(p.g->nic, p.qp[0].qpn)->req.acked_psn;
	post_write(1, 200);
	ring(p.g, &p.qp[0]);
	paged_out(&p, 0, 254, 2);
	paged_invalidate(&p, 0, paged_addr(0, page_at(254)), 2 * 4096);
	settle_timers(p.g, 5000);
	good = paged_request(&p, &r);
	acknowledge(cmd.sq_psn);
	good = good && status_of(1) == MOOR_WC_SUCCESS &&
	       !paged_answer(&p, r.token, MOOR_PAGE_FAILED) &&
	       !modify(p.g, &cmd, p.qp[0].qpn);
	port_impair(p.g->nic, NULL);
	paged_post(&p, MOOR_WQE_WRITE, 2, page_at(254), page_at(200), 64);
	ring(p.g, &p.qp[0]);
	good = good && paged_request(&p, &r) && r.addr == addr;
	paged_in(&p, 0, 254, 1, true);
	good = good && !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED);
	ok(good && status_of(2) == MOOR_WC_SUCCESS,
	   "a page fails for what is acknowledged; its PSN once more");
	stop_on_wire();
}

int main(void)
{
	unsigned int strict;

	for (strict = 0; strict < 2; strict++) {
		test_failed_there(strict, 200);
		test_failed_there(strict, 71);
		test_failed_here(strict);
		test_failed_on_wire(strict);
		test_failed_once(strict);
		test_not_failed(strict);
		test_short_there(strict, 200, 200);
		test_short_there(strict, 201, 200);
		test_short_here(strict, 255);
		test_short_here(strict, 0);
		test_short_there_and_here(strict);
		test_short_on_wire(strict);
		test_dropped_on_wire(strict);
		test_behind_on_wire(strict);
		test_acknowledged_on_wire(strict, 1);
		test_acknowledged_on_wire(strict, 2);
		test_acknowledged_on_wire(strict, 3);
		test_psn_once_more(strict);
	}
	return done();
}
