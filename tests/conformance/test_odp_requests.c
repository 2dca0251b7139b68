// SPDX-License-Identifier: GPL-2.0
/* Page requests: tokens, QPs that go while waiting, and EQ 1 (HWI 6.10). */
#include <string.h>

#include "paged.h"

#define WRITE		MOOR_PAGE_REQUEST_WRITE
#define RESPONDER	MOOR_PAGE_REQUEST_RESPONDER
#define AT		(PAGE + 1000)

/* Posts a WRITE whose page at side @absent is absent. Return: the page request. */
static struct moor_page_request begin(struct paged *p, unsigned int absent)
{
	host_begin();
	make_paged(p);
	page_in(p, !absent, 0, PAGES, true);
	paged_post(p, MOOR_WQE_WRITE, 1, AT, AT, 64);
	return expect_request(p, absent, AT, absent,
			      absent ? WRITE | RESPONDER : 0);
}

static void refused_answer(uint32_t token, uint8_t status, uint8_t why)
{
	uint8_t got = answer_request(token, status);

	expect(got == why, "token 0x%08x, status %u: %u where %u was due", token,
	       status, got, why);
}

TEST_CASE(tokens, "a token lets one half go, once; no other number does",
	  "ODP-10 ODP-13 CMD-43 CMD-30 CMD-11 CMD-12 CMD-18", HAS(ODP))
{
	struct moor_cmd_page_response cmd = {
		.hdr.opcode = MOOR_CMD_PAGE_RESPONSE,
	};
	struct moor_page_request r;
	unsigned int absent, bit;
	struct paged p;

	for (absent = 0; absent < 2; absent++) {
		about("side %u", absent);
		r = begin(&p, absent);
		page_in(&p, absent, 0, PAGES, true);
		cmd.token = r.token;
		for (bit = 0; bit < 32; bit++)
			refused_answer(r.token ^ 1u << bit, MOOR_PAGE_RESOLVED,
				       MOOR_CMD_BAD_INDEX);
		cmd.token = ~r.token;
		cmd.status = 0;
		refused(cmd, MOOR_CMD_BAD_INDEX, token, "no token");
		cmd.token = r.token;
		cmd.status = 2;
		refused(cmd, MOOR_CMD_BAD_PARAM, status, "status 2");
		cmd.status = 255;
		refused(cmd, MOOR_CMD_BAD_PARAM, status, "status 255");
		expect_no_cqe(&p.pair.cq[0]);
		must_answer(r.token, MOOR_PAGE_RESOLVED);
		expect_cqe(&p.pair.cq[0], 1, MOOR_WC_SUCCESS, 0);
		refused_answer(r.token, MOOR_PAGE_RESOLVED, MOOR_CMD_BAD_INDEX);
	}
}

TEST_CASE(not_soon, "a token does not come again soon", "ODP-10 ODP-11", HAS(ODP))
{
	uint32_t seen[100];
	unsigned int i, j;
	struct paged p;

	seen[0] = begin(&p, 0).token;
	for (i = 1; i < 100; i++) {
		must_answer(seen[i - 1], MOOR_PAGE_RESOLVED);
		seen[i] = expect_request(&p, 0, AT, 0, 0).token;
		for (j = 0; j < i; j++)
			need(seen[i] != seen[j], "request %u has the token of %u",
			     i, j);
	}
}

enum end { TO_ERR, TO_RESET, DESTROYED, NUM_ENDS };

static const char *const ends[] = { "ERR", "RESET", "destroyed" };

static void end_qp(struct qp *qp, enum end end)
{
	if (end == DESTROYED)
		destroy_qp(qp);
	else
		must_modify(qp, to_state(end == TO_ERR ? MOOR_QPS_ERR :
							  MOOR_QPS_RESET));
}

TEST_CASE(waiter_goes, "with the QP the request goes; who asked it finds silence",
	  "ODP-13 ODP-23", HAS(ODP))
{
	struct moor_page_request r;
	unsigned int absent;
	enum end end;
	struct paged p;

	for (absent = 0; absent < 2; absent++) {
		for (end = 0; end < NUM_ENDS; end++) {
			about("side %u, %s", absent, ends[end]);
			r = begin(&p, absent);
			end_qp(&p.pair.qp[absent], end);
			if (absent)
				expect_cqe(&p.pair.cq[0], 1,
					   MOOR_WC_RETRY_EXC_ERR,
					   MOOR_SYN_NO_RESPONDER);
			else if (end == TO_ERR)
				expect_cqe(&p.pair.cq[0], 1,
					   MOOR_WC_WR_FLUSH_ERR, 0);
			page_in(&p, absent, 0, PAGES, true);
			refused_answer(r.token, MOOR_PAGE_RESOLVED,
				       MOOR_CMD_BAD_INDEX);
			expect_no_cqe(&p.pair.cq[0]);
			expect(!same(p.pages[0] + AT, p.pages[1] + AT, 64),
			       "it has moved");
		}
	}
}

TEST_CASE(peer_goes, "who waits does so though his peer has gone", "ODP-13", HAS(ODP))
{
	struct moor_page_request r;
	enum end end;
	struct paged p;

	for (end = 0; end < NUM_ENDS; end++) {
		about("%s", ends[end]);
		r = begin(&p, 1);
		end_qp(&p.pair.qp[0], end);
		if (end == TO_ERR)
			expect_cqe(&p.pair.cq[0], 1, MOOR_WC_WR_FLUSH_ERR, 0);
		page_in(&p, 1, 0, PAGES, true);
		must_answer(r.token, MOOR_PAGE_RESOLVED);
		expect_no_cqe(&p.pair.cq[0]);
		expect(!same(p.pages[0] + AT, p.pages[1] + AT, 64), "it has moved");
	}
}

TEST_CASE(after_reset, "a QP that waited works again after RESET", "ODP-13 ODP-23",
	  HAS(ODP))
{
	unsigned int absent, i;
	struct paged p;

	for (absent = 0; absent < 2; absent++) {
		about("side %u", absent);
		begin(&p, absent);
		for (i = 0; i < 2; i++)
			reset_qp(&p.pair.qp[i]);
		for (i = 0; i < 2; i++)
			connect_qp(&p.pair.qp[i], p.pair.qp[!i].qpn);
		page_in(&p, absent, 0, PAGES, true);
		paged_post(&p, MOOR_WQE_WRITE, 2, AT, AT, 64);
		expect_cqe(&p.pair.cq[0], 2, MOOR_WC_SUCCESS, 0);
		expect(same(p.pages[0] + AT, p.pages[1] + AT, 64), "the data");
	}
}

/* Makes a QP, connected to itself, that writes from page @page of side 0. */
static void lone_write(struct paged *p, struct qp *qp, const struct cq *cq,
		       uint64_t page)
{
	make_qp(qp, cq, cq);
	connect_qp(qp, qp->qpn);
	post_send(qp, (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .wr_id = page,
		.remote = paged_addr(1, page * PAGE), .rkey = p->key[1],
		SGE(paged_addr(0, page * PAGE), 64, p->key[0]),
	});
	settle();
}

TEST_CASE(eq_full, "requests that EQ 1 has no room for come later, each for itself",
	  "ODP-12 ODP-23 EV-3 EV-19 EV-16 EV-17", HAS(ODP))
{
	static struct qp qp[(1u << LOG_EQE) + 12];
	const unsigned int n = sizeof(qp) / sizeof(qp[0]), gone = n - 6;
	struct moor_page_request r;
	enum end end;
	unsigned int i;
	struct paged p;

	for (end = 0; end < NUM_ENDS; end++) {
		about("one that is kept back is %s", ends[end]);
		host_begin();
		make_paged(&p);
		page_in(&p, 1, 0, PAGES, true);
		for (i = 0; i < n; i++)
			lone_write(&p, &qp[i], &p.pair.cq[0], i % PAGES);
		end_qp(&qp[gone], end);
		if (end == TO_ERR)
			expect_cqe(&p.pair.cq[0], gone % PAGES,
				   MOOR_WC_WR_FLUSH_ERR, 0);
		for (i = 0; i < n; i++) {
			if (i == gone)
				continue;
			p.pair.qp[0] = qp[i];
			r = expect_request(&p, 0, i % PAGES * PAGE, 0, 0);
			page_in(&p, 0, i % PAGES, 1, true);
			must_answer(r.token, MOOR_PAGE_RESOLVED);
			expect_cqe(&p.pair.cq[0], i % PAGES, MOOR_WC_SUCCESS, 0);
			page_out(&p, 0, i % PAGES, 1);
		}
		expect_no_event(MOOR_EQ_PAGE_REQUEST);
	}
}

TEST_CASE(no_eq_1, "without EQ 1 nobody waits", "ODP-12 EV-4 EQ-2", HAS(ODP))
{
	struct moor_cmd_destroy_eq destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_EQ, .eqn = MOOR_EQ_PAGE_REQUEST,
	};
	unsigned int absent;
	struct paged p;
	uint64_t old;

	for (absent = 0; absent < 2; absent++) {
		about("side %u", absent);
		host_begin();
		make_paged(&p);
		old = next_event_place(MOOR_EQ_PAGE_REQUEST) & ~(PAGE - 1);
		must(destroy);
		memset(at(old), 0x99, PAGE);
		page_in(&p, !absent, 0, PAGES, true);
		paged_post(&p, MOOR_WQE_WRITE, 1, AT, AT, 64);
		if (absent)
			expect_cqe(&p.pair.cq[0], 1, MOOR_WC_REM_ACCESS_ERR, 0);
		else
			expect_cqe(&p.pair.cq[0], 1, MOOR_WC_LOC_PROT_ERR,
				   MOOR_SYN_TRANSLATION);
		settle();
		expect(is_all(old, PAGE, 0x99), "it is written where EQ 1 was");
	}
}

TEST_CASE(strangers, "a third QP that names one that waits, and then another, changes nothing",
	  "ODP-15 QP-11", HAS(ODP))
{
	struct moor_cmd_modify_qp away = { .mask = MOOR_QP_ATTR_DEST_QPN };
	struct moor_page_request r;
	struct paged p;
	struct qp third;

	make_paged(&p);
	page_in(&p, 0, 0, PAGES, true);
	make_qp(&third, &p.pair.cq[0], &p.pair.cq[0]);
	connect_qp(&third, p.pair.qp[0].qpn);
	paged_post(&p, MOOR_WQE_READ, 1, AT, AT, 64);
	r = expect_request(&p, 1, AT, 1, RESPONDER);
	away.dest_qpn = third.qpn;
	must_modify(&third, away);
	while_it_waits(&p);
	page_in(&p, 1, 0, PAGES, true);
	must_answer(r.token, MOOR_PAGE_RESOLVED);
	expect_cqe(&p.pair.cq[0], 1, MOOR_WC_SUCCESS, 0);
	about("who waits names another itself, which does not answer");
	page_out(&p, 1, 0, PAGES);
	paged_post(&p, MOOR_WQE_READ, 2, AT, AT, 64);
	r = expect_request(&p, 1, AT, 1, RESPONDER);
	must_modify(&p.pair.qp[0], away);
	expect_cqe(&p.pair.cq[0], 2, MOOR_WC_RETRY_EXC_ERR, MOOR_SYN_NO_RESPONDER);
	must_answer(r.token, MOOR_PAGE_RESOLVED);
}

TEST_CASE(goes_first, "what waited goes on before what came behind it", "ODP-13 ODP-15", HAS(ODP))
{
	struct moor_page_request r;
	struct paged p;
	uint8_t status;

	for (status = MOOR_PAGE_RESOLVED; status <= MOOR_PAGE_FAILED; status++) {
		about("status %u", status);
		host_begin();
		make_paged(&p);
		page_in(&p, 0, 0, PAGES, true);
		paged_post(&p, MOOR_WQE_READ, 1, AT, AT, 64);
		r = expect_request(&p, 1, AT, 1, RESPONDER);
		/* Another page, which is not there either. */
		paged_post(&p, MOOR_WQE_WRITE, 2, 5 * PAGE, 5 * PAGE, 64);
		while_it_waits(&p);
		expect_no_event(MOOR_EQ_PAGE_REQUEST);
		page_in(&p, 1, 1, status == MOOR_PAGE_RESOLVED, true);
		must_answer(r.token, status);
		if (status == MOOR_PAGE_FAILED) {
			expect_cqe(&p.pair.cq[0], 1, MOOR_WC_REM_ACCESS_ERR, 0);
			expect_cqe(&p.pair.cq[0], 2, MOOR_WC_WR_FLUSH_ERR, 0);
			expect_no_event(MOOR_EQ_PAGE_REQUEST);
			continue;
		}
		expect_cqe(&p.pair.cq[0], 1, MOOR_WC_SUCCESS, 0);
		r = expect_request(&p, 1, 5 * PAGE, 1, WRITE | RESPONDER);
		page_in(&p, 1, 5, 1, true);
		must_answer(r.token, MOOR_PAGE_RESOLVED);
		expect_cqe(&p.pair.cq[0], 2, MOOR_WC_SUCCESS, 0);
		expect(same(p.pages[0] + 5 * PAGE, p.pages[1] + 5 * PAGE, 64),
		       "the data");
	}
}

/*
 * The page that a WRITE is sent from fails; the one that the READ before it is to be placed
 * in is there as soon as it is asked for, which ends what the other answer said. So there
 * are three requests at the most.
 */
TEST_CASE(failed_for_one, "FAILED is for what waited: another message's page is asked for",
	  "ODP-13 ODP-10", HAS(ODP))
{
	const uint32_t len = longest(1u << 20);
	unsigned int requests = 0, done = 0;
	struct moor_page_request r;
	struct moor_cqe cqe;
	uint32_t key[2], i;
	uint64_t far[2];
	struct paged p;

	make_paged(&p);
	for (i = 0; i < 2; i++) {
		far[i] = take_filled(len, 3 + i);
		key[i] = make_mr(PD, ALL_RIGHTS, far[i], len);
	}
	put_send(&p.pair.qp[0], &(struct send_wr){
		.opcode = MOOR_WQE_READ, .wr_id = 1, .remote = far[1],
		.rkey = key[1], .num_sge = 2,
		.sge = { { far[0], len - 64, key[0] },
			 { paged_addr(0, AT), 64, p.key[0] } },
	});
	put_send(&p.pair.qp[0], &(struct send_wr){
		.opcode = MOOR_WQE_WRITE, .wr_id = 2, .remote = far[1],
		.rkey = key[1], SGE(paged_addr(0, 5 * PAGE), 64, p.key[0]),
	});
	ring_send(&p.pair.qp[0]);
	while (done < 2) {
		struct moor_eqe eqe;
		bool asked, fails;

		need(wait_until((asked = next_event(MOOR_EQ_PAGE_REQUEST, &eqe)) ||
				peek_cqe(&p.pair.cq[0], &cqe)), "neither request nor CQE");
		if (!asked) {
			done++;
			expect_cqe(&p.pair.cq[0], done, done == 1 ? MOOR_WC_SUCCESS :
				   MOOR_WC_LOC_PROT_ERR, done == 1 ? 0 :
				   MOOR_SYN_TRANSLATION);
			continue;
		}
		memcpy(&r, &eqe, sizeof(r));
		fails = r.addr == paged_addr(0, 5 * PAGE);
		expect(fails || r.addr == paged_addr(0, AT), "request %u is for 0x%llx",
		       requests, (unsigned long long)(r.addr - paged_addr(0, 0)));
		need(++requests <= 3, "a fourth request");
		page_in(&p, 0, 1, !fails, true);
		must_answer(r.token, fails ? MOOR_PAGE_FAILED : MOOR_PAGE_RESOLVED);
	}
	expect(same(far[0], far[1], len - 64) &&
	       same(far[1] + len - 64, p.pages[0] + AT, 64), "the data");
	expect_no_event(MOOR_EQ_PAGE_REQUEST);
}

TEST_CASE(word_in_two, "an atomic in two pages waits for either; with both there it fails",
	  "RC-21 RC-26 RC-39 ODP-7 ODP-10 ODP-13", HAS(ODP))
{
	struct moor_mr_context e;
	struct moor_page_request r;
	struct paged p;
	unsigned int i;

	skip_unless(dev.features & MOOR_FEATURE_ATOMICS);
	for (i = 0; i < 2; i++) {
		about(i ? "it comes" : "it cannot be had");
		host_begin();
		make_paged(&p);
		page_in(&p, 0, 0, PAGES, true);
		page_in(&p, 1, 0, 1, true);
		e = paged_entry(&p, 1);
		e.length -= PAGE;
		e.xlat.offset = 4;
		p.key[1] = make_entry(&e, MOOR_MRC_TYPE_MR);
		paged_post(&p, MOOR_WQE_FETCH_ADD, 1, AT, PAGE - 8, 8);
		r = expect_request(&p, 1, PAGE - 4, 1, WRITE | RESPONDER);
		if (i)
			page_in(&p, 1, 1, 1, true);
		must_answer(r.token, i ? MOOR_PAGE_RESOLVED : MOOR_PAGE_FAILED);
		expect_cqe(&p.pair.cq[0], 1, i ? MOOR_WC_REM_INV_REQ_ERR :
						 MOOR_WC_REM_ACCESS_ERR, 0);
		expect_event(i ? MOOR_EVENT_QP_REQ_ERR : MOOR_EVENT_QP_ACCESS_ERR,
			     p.pair.qp[1].qpn);
	}
}

TEST_CASE(drain, "who waits is not drained", "ODP-9 EV-11 RC-16", HAS(ODP))
{
	struct moor_cmd_modify_qp sqd = to_state(MOOR_QPS_SQD);
	struct moor_page_request r;
	struct moor_cqe cqe;
	struct paged p;

	r = begin(&p, 0);
	sqd.mask |= MOOR_QP_ATTR_SQD_EVENT;
	drop_events(MOOR_EQ_ASYNC);
	must_modify(&p.pair.qp[0], sqd);
	expect_no_event(MOOR_EQ_ASYNC);
	expect(query_qp(&p.pair.qp[0]).sq_draining, "it has drained");
	page_in(&p, 0, 0, PAGES, true);
	must_answer(r.token, MOOR_PAGE_RESOLVED);
	expect_event(MOOR_EVENT_SQ_DRAINED, p.pair.qp[0].qpn);
	need(peek_cqe(&p.pair.cq[0], &cqe), "it comes before the CQE");
	expect_cqe(&p.pair.cq[0], 1, MOOR_WC_SUCCESS, 0);
}

TEST_CASE(drain_fenced, "SQD is drained without a WQE that waits for a READ: it begins in RTS",
	  "RC-16 QP-12 QP-15 EV-11 WQ-7", HAS(ODP))
{
	const uint32_t len = longest(1u << 20);
	struct moor_cmd_modify_qp sqd = to_state(MOOR_QPS_SQD);
	uint64_t far[2], psn;
	struct moor_page_request r;
	struct moor_cqe cqe;
	uint32_t key[2], i;
	struct paged p;

	make_paged(&p);
	for (i = 0; i < 2; i++) {
		far[i] = take_filled(len, 3 + i);
		key[i] = make_mr(PD, ALL_RIGHTS, far[i], len);
	}
	psn = query_qp(&p.pair.qp[0]).sq_psn + len / 1024;
	/* The READ's last bytes are for a page that is absent: it lasts. */
	put_send(&p.pair.qp[0], &(struct send_wr){
		.opcode = MOOR_WQE_READ, .wr_id = 1, .remote = far[1],
		.rkey = key[1], .num_sge = 2,
		.sge = { { far[0], len - 64, key[0] },
			 { paged_addr(0, AT), 64, p.key[0] } },
	});
	put_send(&p.pair.qp[0], &(struct send_wr){
		.opcode = MOOR_WQE_WRITE, .wr_id = 2, .remote = far[1],
		.rkey = key[1], .flags = MOOR_WQE_FLAG_FENCE,
		SGE(far[0] + len - 64, 64, key[0]),
	});
	ring_send(&p.pair.qp[0]);
	r = expect_request(&p, 0, AT, 0, WRITE);
	sqd.mask |= MOOR_QP_ATTR_SQD_EVENT;
	drop_events(MOOR_EQ_ASYNC);
	must_modify(&p.pair.qp[0], sqd);
	expect_no_event(MOOR_EQ_ASYNC);
	page_in(&p, 0, 0, PAGES, true);
	must_answer(r.token, MOOR_PAGE_RESOLVED);
	expect_event(MOOR_EVENT_SQ_DRAINED, p.pair.qp[0].qpn);
	need(peek_cqe(&p.pair.cq[0], &cqe), "it comes before the CQE");
	expect_cqe(&p.pair.cq[0], 1, MOOR_WC_SUCCESS, 0);
	expect_no_cqe(&p.pair.cq[0]);
	expect(query_qp(&p.pair.qp[0]).sq_psn == (psn & 0xffffff),
	       "what has not begun has a PSN");
	expect(is_filled(far[1], 64, 4), "it has begun");
	must_modify(&p.pair.qp[0], to_state(MOOR_QPS_RTS));
	expect_cqe(&p.pair.cq[0], 2, MOOR_WC_SUCCESS, 0);
}

TEST_CASE(established_waiting, "COMM_EST does not wait for the page that its request waits for",
	  "EV-10 ODP-15", HAS(ODP))
{
	struct moor_page_request r;
	struct paged p;

	make_paged(&p);
	page_in(&p, 0, 0, PAGES, true);
	reset_qp(&p.pair.qp[1]);
	must_modify(&p.pair.qp[1], to_init());
	must_modify(&p.pair.qp[1], to_rtr(p.pair.qp[0].qpn));
	drop_events(MOOR_EQ_ASYNC);
	paged_post(&p, MOOR_WQE_WRITE, 1, AT, AT, 64);
	r = expect_request(&p, 1, AT, 1, WRITE | RESPONDER);
	expect_event(MOOR_EVENT_COMM_EST, p.pair.qp[1].qpn);
	page_in(&p, 1, 0, PAGES, true);
	must_answer(r.token, MOOR_PAGE_RESOLVED);
	expect_cqe(&p.pair.cq[0], 1, MOOR_WC_SUCCESS, 0);
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(device_reset, "a reset of the device in mid-wait", "ODP-13 CTL-4", HAS(ODP))
{
	struct moor_page_request r;
	struct paged p;

	r = begin(&p, 1);
	host_begin();
	make_paged(&p);
	refused_answer(r.token, MOOR_PAGE_RESOLVED, MOOR_CMD_BAD_INDEX);
	page_in(&p, 0, 0, PAGES, true);
	page_in(&p, 1, 0, PAGES, true);
	paged_post(&p, MOOR_WQE_WRITE, 2, AT, AT, 64);
	expect_cqe(&p.pair.cq[0], 2, MOOR_WC_SUCCESS, 0);
	expect_no_event(MOOR_EQ_PAGE_REQUEST);
}
