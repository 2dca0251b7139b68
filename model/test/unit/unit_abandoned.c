// SPDX-License-Identifier: GPL-2.0
/*
 * Messages that are left half-way: the path goes away and comes back, local memory
 * turns out to be absent, a window that they name is bound anew.
 */
#include <string.h>

#include "guest.h"

#define PD	5
#define RIGHTS	(MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_REMOTE_WRITE | \
		 MOOR_ACCESS_REMOTE_READ | MOOR_ACCESS_REMOTE_ATOMIC | \
		 MOOR_ACCESS_MW_BIND)
#define LEN	(8u << 20)	/* dozens of quanta of the NIC's */
#define WINDOW	0x80004200u

static struct guest *g;
static struct guest_cq cq[3];
static struct guest_qp qp[3];	/* 0 sends to 1; 2 binds windows */
static uint64_t buf[2];
static uint32_t key[2];

static void fill(uint64_t addr, uint32_t len, uint8_t seed)
{
	uint8_t *p = at(g, addr);
	uint32_t i;

	for (i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 7 + (i >> 8) + seed);
}

static void start(bool strict)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_TIMEOUT | MOOR_QP_ATTR_RETRY_CNT,
		.timeout = 12, .retry_cnt = 7,
	};
	int i;

	g = guest_start(strict);
	guest_set_gid(g, 0, 1);
	for (i = 0; i < 3; i++) {
		if (make_cq(g, &cq[i], i, 8) ||
		    make_qp(g, &qp[i], 0x4000u * (i + 1) + 3 + i, PD, &cq[i],
			    &cq[i]))
			ok(false, "create CQ, QP");
	}
	for (i = 0; i < 2; i++) {
		buf[i] = take(g, LEN);
		fill(buf[i], LEN, i + 1);
		key[i] = make_mr(g, PD, RIGHTS, buf[i], LEN);
	}
	connect_qp(g, &qp[0], qp[1].qpn);
	connect_qp(g, &qp[1], qp[0].qpn);
	connect_qp(g, &qp[2], qp[2].qpn);
	modify(g, &cmd, qp[0].qpn);
}

static bool no_cqe(int i)
{
	struct moor_cqe cqe;

	return !poll_cq(g, &cq[i], &cqe);
}

static bool got(int i, uint8_t status, uint64_t wr_id)
{
	struct moor_cqe cqe = {};

	return poll_cq(g, &cq[i], &cqe) && cqe.status == status &&
	       cqe.wr_id == wr_id;
}

static void set_path(bool there)
{
	struct moor_cmd_set_gid none = { .hdr.opcode = MOOR_CMD_SET_GID };

	if (there)
		guest_set_gid(g, 0, 1);
	else
		command(g, &none, sizeof(none));
}

static struct moor_cpl_query_qp query(int i)
{
	struct moor_cmd_query_qp cmd = {
		.hdr.opcode = MOOR_CMD_QUERY_QP, .qpn = qp[i].qpn,
	};
	struct moor_cpl_query_qp out = {};

	if (!command(g, &cmd, sizeof(cmd)))
		memcpy(&out, g->cpl.out, sizeof(out));
	return out;
}

static void post(uint8_t opcode, uint64_t wr_id, uint32_t lkey, uint64_t addr,
		 uint32_t len, uint32_t rkey, uint64_t remote)
{
	struct moor_sq_wqe *wqe = next_send(g, &qp[0], opcode, wr_id);

	wqe->rkey = rkey;
	wqe->remote_addr = remote;
	add_sge(wqe, sge(addr, len, lkey));
	announce(g, &qp[0]);
}

/* Begins a message of LEN bytes and leaves it half-way. */
static bool begin(uint8_t opcode, uint64_t wr_id, uint32_t rkey)
{
	post(opcode, wr_id, key[0], buf[0], LEN, rkey, buf[1]);
	nic_run(g->nic);
	return memcmp(at(g, buf[0]), at(g, buf[1]), 4096) == 0 &&
	       memcmp(at(g, buf[0]), at(g, buf[1]), LEN) != 0;
}

/* The path goes away in the middle of a message, and is back soon. */
static void test_path(uint8_t opcode, const char *what)
{
	struct moor_sge s = sge(buf[1], LEN, key[1]), other = sge(buf[1], 8, key[1]);
	bool receives = opcode == MOOR_WQE_SEND || opcode == MOOR_WQE_WRITE_IMM;

	post_recv(g, &qp[1], 10, &s, 1);
	post_recv(g, &qp[1], 11, &other, 1);
	ok(begin(opcode, 1, key[1]), "%s: half-way", what);
	set_path(false);
	ok(no_cqe(0) && no_cqe(1), "%s: the path is gone", what);
	set_path(true);
	settle_timers(g, 200);
	ok(got(0, MOOR_WC_SUCCESS, 1) &&
	   !memcmp(at(g, buf[0]), at(g, buf[1]), LEN),
	   "%s: ends well, with all of its data", what);
	ok(receives ? got(1, MOOR_WC_SUCCESS, 10) : no_cqe(1),
	   "%s: one receive, or none", what);
	ok(no_cqe(0) && no_cqe(1) && query(1).rq_consumer == receives,
	   "%s: nothing twice", what);
}

/* An MR of eight pages of buf[0], of which page @absent is absent. */
static uint32_t make_holed(unsigned int absent, bool writable)
{
	uint64_t node = take(g, 4096), *entry = at(g, node);
	uint32_t k = g->next_mr++ << 16 | 0x1234;
	struct moor_mr_context e = {
		.pd = PD, .access = RIGHTS, .iova = buf[0], .length = 8 * 4096,
		.xlat = { .root = node | MOOR_PTE_PRESENT, .levels = 1,
			  .page_shift = 12 },
	};
	unsigned int i;

	for (i = 0; i < 8; i++)
		entry[i] = (buf[0] + i * 4096) | MOOR_PTE_PRESENT |
			   MOOR_PTE_LEAF | (writable ? MOOR_PTE_WRITABLE : 0);
	entry[absent] = 0;
	put_entry(g, k, &e, MOOR_MRC_TYPE_MR);
	return k;
}

/* Brings QP 0 back to RTS; its next PSN is the one that QP 1 expects. */
static void revive_sender(void)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_RESET,
	};

	modify(g, &cmd, qp[0].qpn);
	qp[0].sq_producer = 0;
	qp[0].rq_producer = 0;
	connect_qp(g, &qp[0], qp[1].qpn);
	cmd.mask = MOOR_QP_ATTR_SQ_PSN;
	cmd.sq_psn = query(1).rq_psn;
	modify(g, &cmd, qp[0].qpn);
}

/* Absent local memory: nothing happens at the responder. */
static void test_absent(void)
{
	struct moor_mr_context again = {
		.pd = PD, .access = RIGHTS, .iova = buf[1], .length = LEN,
		.xlat = flat(buf[1]),
	};
	struct moor_sge s = sge(buf[1], LEN, key[1]);
	uint32_t holed = make_holed(0, true), later = make_holed(5, true);
	uint32_t read_only = make_holed(5, false);
	uint64_t *word = at(g, buf[1] + 64);
	struct moor_sq_wqe *wqe;
	struct moor_eqe eqe;

	post_recv(g, &qp[1], 20, &s, 1);
	post(MOOR_WQE_SEND, 2, holed, buf[0], 8192, 0, 0);
	settle(g);
	ok(got(0, MOOR_WC_LOC_PROT_ERR, 2) && no_cqe(1) &&
	   query(1).rq_consumer == 0 && query(1).state == MOOR_QPS_RTS,
	   "SEND from a page that is absent: the receive stays");
	revive_sender();
	post(MOOR_WQE_READ, 3, read_only, buf[0], 4096, key[1], buf[1]);
	settle(g);
	ok(got(0, MOOR_WC_LOC_PROT_ERR, 3), "READ to a page that is read-only");
	revive_sender();
	*word = 77;
	wqe = next_send(g, &qp[0], MOOR_WQE_FETCH_ADD, 4);
	((struct moor_wqe_atomic *)(wqe + 1))->swap_add = 1;
	wqe->rkey = key[1];
	wqe->remote_addr = buf[1] + 64;
	/* Its last four bytes are on the absent page. */
	add_sge(wqe, sge(buf[0] + 5 * 4096 - 4, 8, later));
	ring(g, &qp[0]);
	ok(got(0, MOOR_WC_LOC_PROT_ERR, 4) && *word == 77,
	   "an atomic whose result has no place is not done");

	revive_sender();
	post(MOOR_WQE_SEND, 5, later, buf[0], 8 * 4096, 0, 0);
	settle(g);
	ok(got(0, MOOR_WC_LOC_PROT_ERR, 5) && no_cqe(1) &&
	   query(1).rq_consumer == 0 && query(1).state == MOOR_QPS_RTS &&
	   !next_event(g, 0, &eqe), "SEND that ends half-way: nobody is told");
	revive_sender();
	fill(buf[0], LEN, 9);
	/* The MR that the message used is registered anew before the next one. */
	revoke_key(g, key[1]);
	put_entry(g, key[1], &again, MOOR_MRC_TYPE_MR);
	post(MOOR_WQE_WRITE, 6, key[0], buf[0], 64, key[1], buf[1] + 4096);
	settle(g);
	ok(got(0, MOOR_WC_SUCCESS, 6) && no_cqe(1),
	   "a WRITE in its place leaves the receive alone");
	post(MOOR_WQE_SEND, 7, key[0], buf[0], 100, 0, 0);
	settle(g);
	ok(got(0, MOOR_WC_SUCCESS, 7) && got(1, MOOR_WC_SUCCESS, 20) &&
	   !memcmp(at(g, buf[0]), at(g, buf[1]), 100) &&
	   query(1).rq_consumer == 1, "the next SEND has the receive");

	/* If a bad WRITE comes instead, the error is the WRITE's, not the receive's. */
	post_recv(g, &qp[1], 21, &s, 1);
	post(MOOR_WQE_SEND, 8, later, buf[0], 8 * 4096, 0, 0);
	settle(g);
	ok(got(0, MOOR_WC_LOC_PROT_ERR, 8), "half-way again");
	revive_sender();
	post(MOOR_WQE_WRITE, 9, key[0], buf[0], 64, later, buf[0] + 5 * 4096);
	settle(g);
	ok(got(0, MOOR_WC_REM_ACCESS_ERR, 9) && got(1, MOOR_WC_WR_FLUSH_ERR, 21),
	   "then a WRITE to where nothing is: the receive is flushed");
}

static void post_bind(unsigned int byte, uint64_t addr, uint64_t len)
{
	struct moor_sq_wqe *wqe = next_send(g, &qp[2], MOOR_WQE_BIND_MW, byte);
	struct moor_wqe_bind bind = {
		.mw_key = WINDOW, .new_key = byte, .mr_lkey = key[1],
		.access = MOOR_ACCESS_REMOTE_WRITE | MOOR_ACCESS_REMOTE_READ |
			  (uint32_t)MOOR_BIND_ZERO_BASED,
		.addr = addr, .length = len,
	};

	memcpy(wqe + 1, &bind, sizeof(bind));
	announce(g, &qp[2]);
}

/* Is each byte of one of the two fills? */
static bool is_either(uint64_t addr, uint32_t len, uint8_t seed, uint8_t other)
{
	const uint8_t *p = at(g, addr);
	uint32_t i;

	for (i = 0; i < len; i++)
		if (p[i] != (uint8_t)(i * 7 + (i >> 8) + seed) &&
		    p[i] != (uint8_t)(i * 7 + (i >> 8) + other))
			return false;
	return true;
}

/*
 * A window is bound anew in the middle of a message, with the same key byte, at once or
 * after a bind with byte @via: the rest of the message goes nowhere.
 */
static void test_rebind(uint8_t opcode, const char *what, unsigned int via)
{
	struct moor_mr_context window = { .pd = PD };
	uint32_t half = LEN / 2;
	bool good;

	put_entry(g, WINDOW, &window, MOOR_MRC_TYPE_MW_1);
	post_bind(1, buf[1], half);
	settle(g);
	ok(got(2, MOOR_WC_SUCCESS, 1), "%s: bound", what);
	fill(buf[1] + half, half, 3);
	post(opcode, 1, key[0], buf[0], half, (WINDOW & ~0xffu) | 1, 0);
	nic_run(g->nic);
	ok(no_cqe(0), "%s: half-way", what);
	if (via)
		post_bind(via, buf[1] + half, half);
	post_bind(1, buf[1] + half, half);
	settle(g);
	good = !via || got(2, MOOR_WC_SUCCESS, via);
	ok(good && got(2, MOOR_WC_SUCCESS, 1), "%s: bound elsewhere", what);
	ok(got(0, MOOR_WC_REM_ACCESS_ERR, 1), "%s: refused", what);
	ok(is_either(buf[0], half, 1, 2) && is_either(buf[1], half, 1, 2) &&
	   is_either(buf[1] + half, half, 3, 3),
	   "%s: nothing went the new way", what);
}

int main(void)
{
	static const struct {
		uint8_t opcode;
		const char *name;
	} ops[] = {
		{ MOOR_WQE_SEND, "SEND" }, { MOOR_WQE_WRITE, "WRITE" },
		{ MOOR_WQE_WRITE_IMM, "WRITE_IMM" }, { MOOR_WQE_READ, "READ" },
	};
	unsigned int strict, i;

	for (strict = 0; strict < 2; strict++) {
		for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
			start(strict);
			test_path(ops[i].opcode, ops[i].name);
			guest_stop(g);
		}
		start(strict);
		test_absent();
		guest_stop(g);
		for (i = 0; i < 4; i++) {
			start(strict);
			test_rebind(i & 1 ? MOOR_WQE_READ : MOOR_WQE_WRITE,
				    i & 1 ? "READ, window" : "WRITE, window",
				    i & 2);
			guest_stop(g);
		}
	}
	return done();
}
