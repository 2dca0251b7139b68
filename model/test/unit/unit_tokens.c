// SPDX-License-Identifier: GPL-2.0
/* Page requests: tokens, both halves, QPs that go while waiting, EQ 1 (HWI 6.10). */
#include <stdlib.h>
#include <string.h>

#include "base/lie.h"
#include "paged.h"
#include "transport/port.h"
#include "transport/qp.h"

#define WRITE		MOOR_PAGE_REQUEST_WRITE
#define RESPONDER	MOOR_PAGE_REQUEST_RESPONDER
#define AT		5000u		/* in page 1 */

static struct paged p;

static void all_in(int side)
{
	paged_in(&p, side, 0, PAGED_PAGES, true);
}

static void start(uint8_t type)
{
	paged_start(&p, false, type);
}

/* A WRITE whose memory is absent on side @absent, and its request. */
static struct moor_page_request wait_for_write(int absent)
{
	struct moor_page_request r;

	all_in(!absent);
	paged_post(&p, MOOR_WQE_WRITE, 1, AT, AT, 64);
	ring(p.g, &p.qp[0]);
	if (!paged_request(&p, &r) ||
	    !paged_is(&p, &r, absent, AT, absent,
		      absent ? WRITE | RESPONDER : 0))
		ok(false, "a request");
	return r;
}

static bool refused(uint32_t token, uint8_t status, uint8_t why, uint32_t at)
{
	return paged_answer(&p, token, status) == why && p.g->cpl.detail == at;
}

/* A token that differs from the request's in any bit ends no wait. */
static void test_tokens(int absent)
{
	struct moor_page_request r;
	struct moor_cmd_page_response cmd = {
		.hdr.opcode = MOOR_CMD_PAGE_RESPONSE,
	};
	bool good = true;
	unsigned int i;

	start(MOOR_QP_RC);
	good = refused(0, 0, MOOR_CMD_BAD_INDEX, 8) &&
	       refused(3, 0, MOOR_CMD_BAD_INDEX, 8);
	r = wait_for_write(absent);
	all_in(absent);
	for (i = 0; i < 32; i++)
		good = good && refused(r.token ^ 1u << i, MOOR_PAGE_RESOLVED,
				       MOOR_CMD_BAD_INDEX, 8);
	ok(good && paged_quiet(&p, 0), "tokens that nobody has");
	ok(refused(r.token, 2, MOOR_CMD_BAD_PARAM, 12) &&
	   refused(r.token, 255, MOOR_CMD_BAD_PARAM, 12) && paged_quiet(&p, 0),
	   "an unknown status");
	cmd.token = r.token;
	cmd.reserved1[2] = 1;
	ok(command(p.g, &cmd, sizeof(cmd)) == MOOR_CMD_BAD_RESERVED &&
	   paged_quiet(&p, 0), "a reserved byte");
	ok(!paged_answer(&p, r.token, MOOR_PAGE_RESOLVED) &&
	   paged_got(&p, 0, MOOR_WC_SUCCESS, 1, 0), "the right one");
	ok(refused(r.token, MOOR_PAGE_RESOLVED, MOOR_CMD_BAD_INDEX, 8),
	   "the same once more");
	paged_stop(&p);
}

/* Tokens of a half are not reused soon. */
static void test_tokens_differ(void)
{
	struct moor_page_request r;
	uint32_t seen[200];
	unsigned int i, j, n;

	start(MOOR_QP_RC);
	r = wait_for_write(0);
	for (n = 0; n < 200; n++) {
		seen[n] = r.token;
		paged_answer(&p, r.token, MOOR_PAGE_RESOLVED);
		if (!paged_request(&p, &r))
			break;
	}
	for (i = 0; i < n; i++)
		for (j = 0; j < i; j++)
			if (seen[i] == seen[j])
				n = 0;
	ok(n == 200, "200 tokens of a half, all different");
	paged_stop(&p);
}

static void to_state(unsigned int qp, uint8_t state)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE, .state = state,
	};

	if (modify(p.g, &cmd, p.qp[qp].qpn))
		ok(false, "MODIFY_QP");
}

static void destroy(unsigned int qp)
{
	struct moor_cmd_destroy_qp cmd = {
		.hdr.opcode = MOOR_CMD_DESTROY_QP, .qpn = p.qp[qp].qpn,
	};

	if (command(p.g, &cmd, sizeof(cmd)))
		ok(false, "DESTROY_QP");
}

enum end { TO_ERR, TO_RESET, DESTROYED, NUM_ENDS };

static const char *const ends[] = { "ERR", "RESET", "destroyed" };

static void end_qp(unsigned int qp, enum end end)
{
	if (end == DESTROYED)
		destroy(qp);
	else
		to_state(qp, end == TO_ERR ? MOOR_QPS_ERR : MOOR_QPS_RESET);
	settle_timers(p.g, 100);
}

/* The QP that waits goes: its token is dead, and its peer gets no answer. */
static void test_waiter_goes(int absent, enum end end)
{
	struct moor_page_request r;
	bool good = true;

	start(MOOR_QP_RC);
	r = wait_for_write(absent);
	end_qp(absent, end);
	if (absent)
		good = paged_got(&p, 0, MOOR_WC_RETRY_EXC_ERR, 1,
				 MOOR_SYN_NO_RESPONDER);
	else if (end == TO_ERR)
		good = paged_got(&p, 0, MOOR_WC_WR_FLUSH_ERR, 1, 0);
	all_in(absent);
	ok(good && refused(r.token, MOOR_PAGE_RESOLVED, MOOR_CMD_BAD_INDEX, 8) &&
	   paged_quiet(&p, 0) && !paged_same(&p, AT, AT, 64),
	   "the %s waits and is %s: its token is dead",
	   absent ? "responder" : "requester", ends[end]);
	paged_stop(&p);
}

/* A requester goes whose packet the responder has held up: the responder still waits. */
static void test_held_goes(enum end end)
{
	struct moor_page_request r, other;
	bool good;

	start(MOOR_QP_RC);
	r = wait_for_write(1);
	end_qp(0, end);
	good = end != TO_ERR || paged_got(&p, 0, MOOR_WC_WR_FLUSH_ERR, 1, 0);
	all_in(1);
	ok(good && !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED) &&
	   !paged_request(&p, &other) && paged_quiet(&p, 0) &&
	   !paged_same(&p, AT, AT, 64), "the peer of who waits is %s", ends[end]);
	paged_stop(&p);
}

/* A requester is held up by a responder that is connected to another QP meanwhile. */
static void test_connected_elsewhere(void)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_DEST_QPN, .dest_qpn = 77,
	};
	struct moor_page_request r;
	bool good;

	start(MOOR_QP_RC);
	r = wait_for_write(1);
	modify(p.g, &cmd, p.qp[1].qpn);
	settle_timers(p.g, 100);
	good = paged_got(&p, 0, MOOR_WC_RETRY_EXC_ERR, 1, MOOR_SYN_NO_RESPONDER);
	ok(good && !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED),
	   "the responder has another peer: the first one finds silence");
	paged_stop(&p);
}

/* The halves of a QP wait independently, and can go on in either order. */
static void test_both_halves(bool requester_first, bool self)
{
	struct moor_page_request a, b;
	struct guest_qp *other;
	struct moor_sq_wqe *wqe;
	bool good;

	start(MOOR_QP_RC);
	if (self) {
		struct moor_cmd_modify_qp cmd = {
			.mask = MOOR_QP_ATTR_DEST_QPN | MOOR_QP_ATTR_SQ_PSN |
				MOOR_QP_ATTR_RQ_PSN,
			.dest_qpn = p.qp[0].qpn,
		};

		modify(p.g, &cmd, p.qp[0].qpn);
	}
	/* The requester of QP 0 for side 0; its responder for side 1. */
	paged_post(&p, MOOR_WQE_WRITE, 1, AT, AT, 64);
	if (self) {
		ring(p.g, &p.qp[0]);
		good = paged_request(&p, &a) && paged_is(&p, &a, 0, AT, 0, 0);
		paged_in(&p, 0, 1, 1, false);
		good = good && !paged_answer(&p, a.token, MOOR_PAGE_RESOLVED) &&
		       paged_request(&p, &b) &&
		       paged_is(&p, &b, 1, AT, 0, WRITE | RESPONDER) &&
		       a.token != b.token && paged_quiet(&p, 0);
		paged_in(&p, 1, 1, 1, true);
		ok(good && !paged_answer(&p, b.token, MOOR_PAGE_RESOLVED) &&
		   paged_got(&p, 0, MOOR_WC_SUCCESS, 1, 0) &&
		   paged_same(&p, AT, AT, 64), "a QP connected to itself");
		paged_stop(&p);
		return;
	}
	other = &p.qp[1];
	wqe = next_send(p.g, other, MOOR_WQE_WRITE, 2);
	wqe->remote_addr = paged_addr(0, 20000);
	wqe->rkey = p.m[0].key;
	add_sge(wqe, paged_sge(&p, 1, 20000, 64));
	paged_in(&p, 1, 4, 1, true);	/* from there it is sent */
	announce(p.g, &p.qp[0]);
	ring(p.g, other);
	good = paged_request(&p, &a) && paged_request(&p, &b) &&
	       a.token != b.token && paged_is(&p, &a, 0, AT, 0, 0) &&
	       paged_is(&p, &b, 0, 20000, 0, WRITE | RESPONDER);
	all_in(0);
	all_in(1);
	good = good && !paged_answer(&p, requester_first ? a.token : b.token,
				     MOOR_PAGE_RESOLVED);
	settle_timers(p.g, 100);
	good = good && paged_got(&p, !requester_first, MOOR_WC_SUCCESS,
				 requester_first ? 1 : 2, 0) &&
	       paged_quiet(&p, requester_first);
	good = good && !paged_answer(&p, requester_first ? b.token : a.token,
				     MOOR_PAGE_RESOLVED);
	ok(good && paged_got(&p, requester_first, MOOR_WC_SUCCESS,
			     requester_first ? 2 : 1, 0) &&
	   paged_same(&p, AT, AT, 64) && paged_same(&p, 20000, 20000, 64),
	   "both halves wait, the %s is let go first",
	   requester_first ? "requester" : "responder");
	paged_stop(&p);
}

/* Makes QP number @i of the test's own, connected to itself. */
static void make_lone_qp(struct guest_qp *qp, unsigned int i)
{
	if (make_qp(p.g, qp, 0x8100 + i, PAGED_PD, &p.cq[0], &p.cq[0]))
		abort();
	connect_qp(p.g, qp, qp->qpn);
}

static void post_lone(struct guest_qp *qp, uint64_t wr_id, uint32_t page)
{
	struct moor_sq_wqe *wqe = next_send(p.g, qp, MOOR_WQE_WRITE, wr_id);
	uint32_t off = page * 4096 - PAGED_OFFSET;

	wqe->remote_addr = paged_addr(1, off);
	wqe->rkey = p.m[1].key;
	add_sge(wqe, paged_sge(&p, 0, off, 64));
	ring(p.g, qp);
}

/* More requests than EQ 1 has room for: all come, each once, in their order. */
static void test_eq_full(enum end end)
{
	static struct guest_qp qp[40];
	struct moor_page_request r;
	bool good = true;
	unsigned int i;

	start(MOOR_QP_RC);
	all_in(1);
	for (i = 0; i < 40; i++) {
		make_lone_qp(&qp[i], i);
		post_lone(&qp[i], i, i + 1);
	}
	/* QP 20, whose request is kept back, goes before the request is written. */
	p.qp[0] = qp[20];
	end_qp(0, end);
	if (end == TO_ERR)
		good = paged_got(&p, 0, MOOR_WC_WR_FLUSH_ERR, 20, 0);
	for (i = 0; i < 40; i++) {
		if (i == 20)
			continue;
		settle_timers(p.g, 10);
		p.qp[0] = qp[i];
		good = good && paged_request(&p, &r) &&
		       paged_is(&p, &r, 0, (i + 1) * 4096 - PAGED_OFFSET, 0, 0);
		paged_in(&p, 0, i + 1, 1, true);
		good = good && !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED) &&
		       paged_got(&p, 0, MOOR_WC_SUCCESS, i, 0);
	}
	ok(good && !paged_request(&p, &r),
	   "40 requests, EQ of 16; one of those kept back is %s", ends[end]);
	paged_stop(&p);
}

static void test_no_eq(void)
{
	struct moor_cmd_destroy_eq cmd = {
		.hdr.opcode = MOOR_CMD_DESTROY_EQ, .eqn = MOOR_EQ_PAGE_REQUEST,
	};
	bool good;

	start(MOOR_QP_RC);
	good = !command(p.g, &cmd, sizeof(cmd));
	all_in(1);
	paged_post(&p, MOOR_WQE_WRITE, 1, AT, AT, 64);
	ring(p.g, &p.qp[0]);
	ok(good && paged_got(&p, 0, MOOR_WC_LOC_PROT_ERR, 1,
			     MOOR_SYN_TRANSLATION), "no EQ 1: no wait");
	paged_stop(&p);
}

/* How many fields differ from the true request of QP 0's requester. */
static unsigned int lies_of(const struct moor_page_request *r)
{
	const struct half *half = &qp_find(p.g->nic, p.qp[0].qpn)->req.half;

	return (r->type != MOOR_EVENT_PAGE_REQUEST) + (r->flags != 0) +
	       (r->token != half->token) + (r->key != p.m[0].key) +
	       (r->qpn != p.qp[0].qpn) + (r->addr != paged_addr(0, AT)) +
	       (r->length != 64) + (r->phase != 1);
}

/* A lying NIC writes one wrong field into a request, and accepts the true token. */
static void test_lies(void)
{
	const struct moor_page_request *entry;
	unsigned int seed, good = 0;
	uint32_t token;

	for (seed = 0; seed < 50; seed++) {
		start(MOOR_QP_RC);
		all_in(1);
		lie_begin(p.g->nic, seed, 1, LIE_EVENTS);
		paged_post(&p, MOOR_WQE_WRITE, 1, AT, AT, 64);
		ring(p.g, &p.qp[0]);
		entry = at(p.g, p.g->eq_base[MOOR_EQ_PAGE_REQUEST]);
		token = qp_find(p.g->nic, p.qp[0].qpn)->req.half.token;
		good += lies_of(entry) == 1;
		all_in(0);
		if (paged_answer(&p, token, MOOR_PAGE_RESOLVED) ||
		    !paged_got(&p, 0, MOOR_WC_SUCCESS, 1, 0))
			good = 0;
		paged_stop(&p);
	}
	ok(good == 50, "%u requests of 50 lie in one field", good);
}

/* Neither another QP nor a command waits for the half that waits. */
static void test_others_go_on(int absent)
{
	struct moor_page_request r;
	struct guest_qp qp;
	uint32_t other;
	bool good;

	start(MOOR_QP_RC);
	r = wait_for_write(absent);
	paged_in(&p, absent, 9, 1, true);
	make_lone_qp(&qp, 0);
	post_lone(&qp, 2, 9);
	good = paged_got(&p, 0, MOOR_WC_SUCCESS, 2, 0);
	other = make_mr(p.g, PAGED_PD, 0, p.m[0].pages, 4096);
	good = good && !revoke_key(p.g, other) &&
	       !paged_invalidate(&p, absent, paged_addr(absent, AT), 1) &&
	       !revoke_key(p.g, p.m[absent].key);
	ok(good && !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED),
	   "another QP and the fences go on");
	paged_stop(&p);
}

/* SQD: a request that waits for a page has to end before the queue is drained. */
static void test_sqd(void)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_SQD_EVENT,
		.state = MOOR_QPS_SQD,
	};
	struct moor_page_request r;
	struct moor_eqe eqe;
	bool good;

	start(MOOR_QP_RC);
	r = wait_for_write(0);
	good = !modify(p.g, &cmd, p.qp[0].qpn);
	while (next_event(p.g, MOOR_EQ_ASYNC, &eqe))
		good = good && eqe.type != MOOR_EVENT_SQ_DRAINED;
	all_in(0);
	good = good && !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED) &&
	       paged_got(&p, 0, MOOR_WC_SUCCESS, 1, 0);
	while (next_event(p.g, MOOR_EQ_ASYNC, &eqe) &&
	       eqe.type != MOOR_EVENT_SQ_DRAINED)
		;
	ok(good && eqe.type == MOOR_EVENT_SQ_DRAINED, "who waits is not drained");
	paged_stop(&p);
}

/* An access through a window requests the MR's page, by the MR's key and address. */
static void test_window(void)
{
	uint32_t mw = NIC_MR_CONSUMER_FIRST << 16 | 0x4200;
	struct moor_mr_context e = { .pd = PAGED_PD };
	struct moor_wqe_bind *bind;
	struct moor_sq_wqe *wqe;
	bool good;

	start(MOOR_QP_RC);
	all_in(0);
	put_entry(p.g, mw, &e, MOOR_MRC_TYPE_MW_1);
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_BIND_MW, 1);
	bind = (void *)(wqe + 1);
	*bind = (struct moor_wqe_bind){
		.mw_key = mw, .new_key = mw, .mr_lkey = p.m[1].key,
		.access = MOOR_ACCESS_REMOTE_WRITE | MOOR_BIND_ZERO_BASED,
		.addr = paged_addr(1, 10000), .length = 100000,
	};
	wqe = paged_post(&p, MOOR_WQE_WRITE, 2, AT, 0, 64);
	wqe->remote_addr = 5000;
	wqe->rkey = mw;
	ring(p.g, &p.qp[0]);
	good = paged_got(&p, 0, MOOR_WC_SUCCESS, 1, 0) && paged_quiet(&p, 0);
	all_in(1);
	good = good && paged_let_go(&p, 1, 15000, 1, WRITE | RESPONDER,
				    MOOR_PAGE_RESOLVED);
	ok(good && paged_got(&p, 0, MOOR_WC_SUCCESS, 2, 0) &&
	   paged_same(&p, AT, 15000, 64), "through a window");
	paged_stop(&p);
}

/* UC: the requester waits, the responder does not. */
static void test_uc(uint8_t opcode, int absent)
{
	bool takes = opcode != MOOR_WQE_WRITE, good;
	struct moor_page_request r;
	uint32_t len = 600000;	/* several packets, in loopback too */

	start(MOOR_QP_UC);
	all_in(!absent);
	paged_in(&p, absent, 0, 2, true);	/* the message's beginning */
	if (takes)
		paged_recv(&p, 1, AT, len);
	paged_post(&p, opcode, 2, AT, AT, len);
	ring(p.g, &p.qp[0]);
	if (!absent) {
		good = paged_quiet(&p, 0) && paged_serve(&p, 0, 0, 0) == 146 &&
		       paged_got(&p, 0, MOOR_WC_SUCCESS, 2, 0) &&
		       paged_same(&p, AT, AT, len) &&
		       (!takes || paged_got(&p, 1, MOOR_WC_SUCCESS, 1, 0));
	} else {
		good = !paged_request(&p, &r) &&
		       paged_got(&p, 0, MOOR_WC_SUCCESS, 2, 0) &&
		       (opcode != MOOR_WQE_SEND ||
			paged_got(&p, 1, MOOR_WC_LOC_PROT_ERR, 1,
				  MOOR_SYN_TRANSLATION)) &&
		       paged_quiet(&p, 1);
	}
	ok(good, "UC, opcode %u, %s", opcode, absent ? "responder" : "requester");
	paged_stop(&p);
}

/* A port that carries bytes keeps no packet: RNR NAKs, or requests are sent again. */
static void test_wire(uint8_t opcode, int absent, const char *impaired)
{
	static const struct impairment none, lossy = {
		.lose = 5, .repeat = 5, .reorder = 5, .delay = 5, .damage = 5,
	};
	struct moor_page_request r;
	uint32_t len = 40000;
	unsigned int n = 0, rounds;
	bool good = true, sent = false;
	struct moor_cqe cqe;

	start(MOOR_QP_RC);
	if (!port_impair(p.g->nic, impaired ? &lossy : &none))
		abort();
	/* Without loss nothing has to be sent again because of a time-out. */
	paged_retries(&p, impaired ? 7 : 0, 7);
	all_in(!absent);
	paged_recv(&p, 1, AT, len);
	paged_post(&p, opcode, 2, AT, AT, len);
	ring(p.g, &p.qp[0]);
	for (rounds = 0; rounds < 2000 && !sent; rounds++) {
		settle_timers(p.g, 20);
		sent = poll_cq(p.g, &p.cq[0], &cqe);
		if (!paged_request(&p, &r))
			continue;
		n++;
		/* The host is slow. */
		settle_timers(p.g, 50);
		paged_in(&p, absent, (uint32_t)(r.addr - paged_addr(absent, 0) +
						PAGED_OFFSET) / 4096, 1, true);
		good = good && !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED);
	}
	ok(good && n == 11 && sent && !cqe.status && paged_same(&p, AT, AT, len),
	   "wire%s, opcode %u, %s: %u requests, status %u",
	   impaired ? impaired : "", opcode,
	   absent ? "responder" : "requester", n, sent ? cqe.status : 99);
	paged_stop(&p);
}

int main(void)
{
	static const uint8_t opcodes[] = {
		MOOR_WQE_WRITE, MOOR_WQE_SEND, MOOR_WQE_READ,
	};
	unsigned int i, side;
	enum end end;

	for (side = 0; side < 2; side++) {
		test_tokens((int)side);
		test_others_go_on((int)side);
		test_both_halves(side, false);
		for (end = 0; end < NUM_ENDS; end++)
			test_waiter_goes((int)side, end);
		for (i = 0; i < 3; i++) {
			test_wire(opcodes[i], (int)side, NULL);
			test_wire(opcodes[i], (int)side, " that loses");
			if (opcodes[i] != MOOR_WQE_READ)
				test_uc(opcodes[i], (int)side);
		}
		test_uc(MOOR_WQE_WRITE_IMM, (int)side);
	}
	test_both_halves(true, true);
	for (end = 0; end < NUM_ENDS; end++) {
		test_held_goes(end);
		test_eq_full(end);
	}
	test_tokens_differ();
	test_connected_elsewhere();
	test_no_eq();
	test_sqd();
	test_window();
	test_lies();
	return done();
}
