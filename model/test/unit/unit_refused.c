// SPDX-License-Identifier: GPL-2.0
/*
 * What the responder refuses while the requester lacks a page for an answer that comes
 * before: the answer is asked for again (HWI ODP-15), so the responder gives up only behind
 * it, however long that takes; or when nobody will ask any more.
 */
#include <endian.h>
#include <string.h>

#include "paged.h"

#define WRITE		MOOR_PAGE_REQUEST_WRITE
#define RESPONDER	MOOR_PAGE_REQUEST_RESPONDER
#define RUN		(256u << 10)	/* bytes that loopback carries at once */
#define LEN		(7 * RUN)	/* of a READ that is still answered when all is posted */
#define PAGE		230u		/* amid it */
#define WORD_PAGE	460u		/* behind it */

static struct paged p;

static uint32_t page_at(uint32_t page)
{
	return page * 4096 - PAGED_OFFSET;
}

static void start(bool strict, uint8_t timeout)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_TIMEOUT, .timeout = timeout,
	};
	int i;

	paged_start(&p, strict, MOOR_QP_RC);
	paged_retries(&p, 3, 7);
	modify(p.g, &cmd, p.qp[0].qpn);
	for (i = 0; i < 2; i++)
		paged_in(&p, i, 0, PAGED_PAGES, true);
}

/* A WRITE whose key is nobody's. */
static void post_bad_write(uint64_t wr_id)
{
	paged_post(&p, MOOR_WQE_WRITE, wr_id, page_at(470), page_at(470), 64)->rkey ^=
		htole32(1);
}

/* The READ, and behind it what is refused. */
static void read_and_refuse(void)
{
	paged_post(&p, MOOR_WQE_READ, 1, 0, 0, LEN);
	post_bad_write(2);
	ring(p.g, &p.qp[0]);
	settle_timers(p.g, 100);
}

/* Has the responder given up, and said so once? */
static bool has_given_up(void)
{
	struct moor_eqe eqe;
	unsigned int n = 0;

	while (next_event(p.g, 0, &eqe))
		n += eqe.type == MOOR_EVENT_QP_ACCESS_ERR &&
		     le32toh(eqe.number) == p.qp[1].qpn;
	return n == 1;
}

/*
 * The page is missing at the requester, or at the responder, for which what it has refused
 * already can wait as well.
 */
static void test_read(bool strict, uint8_t timeout, int side)
{
	bool good;

	start(strict, timeout);
	paged_out(&p, side, PAGE, 1);
	read_and_refuse();
	good = paged_quiet(&p, 0) && !has_given_up();
	paged_in(&p, side, PAGE, 1, true);
	good = good && paged_let_go(&p, side, page_at(PAGE), side, side ? RESPONDER : WRITE,
				    MOOR_PAGE_RESOLVED);
	settle_timers(p.g, 1000);
	ok(good && paged_got(&p, 0, MOOR_WC_SUCCESS, 1, 0) &&
	   paged_got(&p, 0, MOOR_WC_REM_ACCESS_ERR, 2, 0) &&
	   paged_same(&p, 0, 0, LEN) && has_given_up(),
	   "a WRITE is refused behind a READ, side %d waits, time-out code %u", side, timeout);
	paged_stop(&p);
}

/*
 * The page goes when the atomic has been sent, and the READ is still being answered. (A strict
 * NIC remembers it till it is told.)
 */
static void test_atomic(void)
{
	uint64_t before;
	bool good;

	start(false, 14);
	memcpy(&before, paged_at(&p, 1, page_at(WORD_PAGE) + 8), sizeof(before));
	paged_post(&p, MOOR_WQE_READ, 1, 0, 0, LEN);
	paged_post(&p, MOOR_WQE_FETCH_ADD, 2, page_at(WORD_PAGE), page_at(WORD_PAGE) + 8, 8);
	post_bad_write(3);
	announce(p.g, &p.qp[0]);
	nic_run(p.g->nic);
	paged_out(&p, 0, WORD_PAGE, 1);
	settle_timers(p.g, 100);
	good = paged_got(&p, 0, MOOR_WC_SUCCESS, 1, 0) && paged_quiet(&p, 0) && !has_given_up();
	paged_in(&p, 0, WORD_PAGE, 1, true);
	good = good && paged_let_go(&p, 0, page_at(WORD_PAGE), 0, WRITE, MOOR_PAGE_RESOLVED);
	settle_timers(p.g, 1000);
	ok(good && paged_got(&p, 0, MOOR_WC_SUCCESS, 2, 0) &&
	   paged_got(&p, 0, MOOR_WC_REM_ACCESS_ERR, 3, 0) && has_given_up() &&
	   !memcmp(paged_at(&p, 0, page_at(WORD_PAGE)), &before, sizeof(before)),
	   "a WRITE is refused behind an atomic");
	paged_stop(&p);
}

/* Who was to ask again does not: the page is not to be had, or the QP has other plans. */
enum end { NO_PAGE, TO_ERR, TO_RESET, ANOTHER_PEER, PEER_OF_ANOTHER, NUM_ENDS };

static uint8_t bring_about(enum end end)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = end < ANOTHER_PEER ? MOOR_QP_ATTR_STATE : MOOR_QP_ATTR_DEST_QPN,
		.state = end == TO_ERR ? MOOR_QPS_ERR : MOOR_QPS_RESET,
		.dest_qpn = 0x7777,
	};

	if (end == NO_PAGE)
		return !paged_let_go(&p, 0, page_at(PAGE), 0, WRITE, MOOR_PAGE_FAILED);
	return modify(p.g, &cmd, p.qp[end == PEER_OF_ANOTHER].qpn);
}

static void test_no_more(bool strict, enum end end)
{
	static const char *const what[NUM_ENDS] = {
		[NO_PAGE] = "the page is not to be had", [TO_ERR] = "it goes to ERR",
		[TO_RESET] = "it goes to RESET", [ANOTHER_PEER] = "it is to have another peer",
		[PEER_OF_ANOTHER] = "the responder is to have another peer",
	};
	bool good;

	start(strict, 14);
	paged_out(&p, 0, PAGE, 1);
	read_and_refuse();
	good = !has_given_up() && !bring_about(end);
	settle_timers(p.g, 1000);
	ok(good && has_given_up(), "the requester does not ask again: %s", what[end]);
	paged_stop(&p);
}

int main(void)
{
	unsigned int strict;
	int end;

	for (strict = 0; strict < 2; strict++) {
		test_read(strict, 14, 0);
		test_read(strict, 0, 0);
		test_read(strict, 14, 1);
		for (end = 0; end < NUM_ENDS; end++)
			test_no_more(strict, end);
	}
	test_atomic();
	return done();
}
