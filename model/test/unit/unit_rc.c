// SPDX-License-Identifier: GPL-2.0
/* RC in loopback: data, statuses, errors, notification. */
#include <string.h>

#include "base/timer.h"
#include "guest.h"

#define PD	5
#define RIGHTS	(MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_REMOTE_WRITE | \
		 MOOR_ACCESS_REMOTE_READ | MOOR_ACCESS_REMOTE_ATOMIC)
#define LEN	100000u

struct pair {
	struct guest *g;
	struct guest_cq cq[2];
	struct guest_qp qp[2];
	uint64_t buf[2];
	uint32_t key[2];
};

static void fill(struct guest *g, uint64_t addr, uint32_t len, uint8_t seed)
{
	uint8_t *p = at(g, addr);
	uint32_t i;

	for (i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 7 + (i >> 8) + seed);
}

static void pair_start(struct pair *p, bool strict)
{
	static uint8_t seed;
	int i;

	memset(p, 0, sizeof(*p));
	p->g = guest_start(strict);
	guest_set_gid(p->g, 0, 1);
	for (i = 0; i < 2; i++) {
		if (make_cq(p->g, &p->cq[i], i, 8))
			ok(false, "create CQ");
		if (make_qp(p->g, &p->qp[i], 0x4000u * (i + 1) + 3 + i, PD,
			    &p->cq[i], &p->cq[i]))
			ok(false, "create QP");
		p->buf[i] = take(p->g, LEN);
		p->key[i] = make_mr(p->g, PD, RIGHTS, p->buf[i], LEN);
		fill(p->g, p->buf[i], LEN, ++seed);
	}
	connect_qp(p->g, &p->qp[0], p->qp[1].qpn);
	connect_qp(p->g, &p->qp[1], p->qp[0].qpn);
}

static bool same(struct pair *p, uint32_t len)
{
	return !memcmp(at(p->g, p->buf[0]), at(p->g, p->buf[1]), len);
}

/* One CQE of CQ @i with this status and wr_id. */
static bool got(struct pair *p, int i, uint8_t status, uint64_t wr_id,
		struct moor_cqe *cqe)
{
	struct moor_cqe dummy;

	cqe = cqe ? cqe : &dummy;
	memset(cqe, 0, sizeof(*cqe));
	if (!poll_cq(p->g, &p->cq[i], cqe))
		return false;
	if (cqe->status != status || cqe->wr_id != wr_id)
		ok(false, "status %u wr_id %llu, wanted %u %llu", cqe->status,
		   (unsigned long long)cqe->wr_id, status,
		   (unsigned long long)wr_id);
	return cqe->status == status && cqe->wr_id == wr_id &&
	       cqe->qpn == p->qp[i].qpn && cqe->cookie == p->qp[i].qpn + 7;
}

static bool quiet(struct pair *p, int i)
{
	struct moor_cqe cqe;

	return !poll_cq(p->g, &p->cq[i], &cqe);
}

static void test_data(bool strict)
{
	struct moor_sq_wqe *wqe;
	struct moor_sge s[3];
	struct moor_cqe cqe;
	struct pair p;
	uint64_t *word;
	uint32_t null;

	pair_start(&p, strict);
	s[0] = sge(p.buf[1], 10, p.key[1]);
	s[1] = sge(p.buf[1] + 10, 0, 0xdead);
	s[2] = sge(p.buf[1] + 10, LEN - 10, p.key[1]);
	post_recv(p.g, &p.qp[1], 77, s, 3);
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_SEND_IMM, 78);
	wqe->imm = 0xabcd;
	add_sge(wqe, sge(p.buf[0], 50000, p.key[0]));
	add_sge(wqe, sge(p.buf[0] + 50000, LEN - 50000, p.key[0]));
	ring(p.g, &p.qp[0]);
	ok(got(&p, 1, MOOR_WC_SUCCESS, 77, &cqe) && cqe.byte_len == LEN &&
	   cqe.imm == 0xabcd && (cqe.flags & MOOR_CQE_FLAG_IMM) &&
	   cqe.opcode == MOOR_CQE_RECV && cqe.src_qpn == p.qp[0].qpn,
	   "SEND_IMM: receive completion");
	ok(got(&p, 0, MOOR_WC_SUCCESS, 78, &cqe) && same(&p, LEN),
	   "SEND_IMM: send completion, data");

	fill(p.g, p.buf[0], LEN, 50);
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_WRITE, 79);
	wqe->remote_addr = p.buf[1];
	wqe->rkey = p.key[1];
	add_sge(wqe, sge(p.buf[0], LEN, p.key[0]));
	ring(p.g, &p.qp[0]);
	ok(got(&p, 0, MOOR_WC_SUCCESS, 79, NULL) && same(&p, LEN) &&
	   quiet(&p, 1), "WRITE");

	fill(p.g, p.buf[1], LEN, 51);
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_READ, 80);
	wqe->remote_addr = p.buf[1];
	wqe->rkey = p.key[1];
	add_sge(wqe, sge(p.buf[0], 1, p.key[0]));
	add_sge(wqe, sge(p.buf[0] + 1, LEN - 1, p.key[0]));
	ring(p.g, &p.qp[0]);
	ok(got(&p, 0, MOOR_WC_SUCCESS, 80, &cqe) && same(&p, LEN) &&
	   cqe.byte_len == LEN, "READ");

	post_recv(p.g, &p.qp[1], 81, NULL, 0);
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_WRITE_IMM, 82);
	wqe->flags |= MOOR_WQE_FLAG_INLINE;
	wqe->inline_length = 13;
	memcpy(wqe + 1, "Hello inline!", 13);
	wqe->imm = 99;
	wqe->remote_addr = p.buf[1] + 5;
	wqe->rkey = p.key[1];
	ring(p.g, &p.qp[0]);
	ok(got(&p, 1, MOOR_WC_SUCCESS, 81, &cqe) && cqe.byte_len == 13 &&
	   cqe.opcode == MOOR_CQE_RECV_WRITE_IMM && cqe.imm == 99 &&
	   got(&p, 0, MOOR_WC_SUCCESS, 82, NULL) &&
	   !memcmp((char *)at(p.g, p.buf[1]) + 5, "Hello inline!", 13),
	   "WRITE_IMM, inline");

	word = at(p.g, p.buf[1] + 64);
	*word = 1000;
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_FETCH_ADD, 83);
	wqe->remote_addr = p.buf[1] + 64;
	wqe->rkey = p.key[1];
	((struct moor_wqe_atomic *)(wqe + 1))->swap_add = 5;
	add_sge(wqe, sge(p.buf[0], 8, p.key[0]));
	ring(p.g, &p.qp[0]);
	ok(got(&p, 0, MOOR_WC_SUCCESS, 83, NULL) && *word == 1005 &&
	   *(uint64_t *)at(p.g, p.buf[0]) == 1000, "FETCH_ADD");
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_CMP_SWAP, 84);
	wqe->remote_addr = p.buf[1] + 64;
	wqe->rkey = p.key[1];
	((struct moor_wqe_atomic *)(wqe + 1))->swap_add = 42;
	((struct moor_wqe_atomic *)(wqe + 1))->compare = 1005;
	add_sge(wqe, sge(p.buf[0], 8, p.key[0]));
	ring(p.g, &p.qp[0]);
	ok(got(&p, 0, MOOR_WC_SUCCESS, 84, NULL) && *word == 42 &&
	   *(uint64_t *)at(p.g, p.buf[0]) == 1005, "CMP_SWAP");

	/* null MR */
	memset(at(p.g, p.buf[1]), 1, 100);
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_WRITE, 85);
	wqe->remote_addr = p.buf[1];
	wqe->rkey = p.key[1];
	null = (uint32_t)nic_reg_read(p.g->nic, MOOR_REG_NULL_LKEY, 4);
	add_sge(wqe, sge(0, 100, null));
	ring(p.g, &p.qp[0]);
	ok(got(&p, 0, MOOR_WC_SUCCESS, 85, NULL) &&
	   ((uint8_t *)at(p.g, p.buf[1]))[99] == 0, "null MR reads as zeros");
	guest_stop(p.g);
}

static void test_revoke(bool strict)
{
	struct moor_sq_wqe *wqe;
	struct moor_eqe eqe;
	struct pair p;

	pair_start(&p, strict);
	ok(revoke_key(p.g, p.key[1] ^ 1) == 2, "revoke: wrong nonce is unknown");
	ok(revoke_key(p.g, p.key[1]) == 0, "revoke");
	ok(revoke_key(p.g, p.key[1]) == 2, "revoke again: unknown");
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_WRITE, 1);
	wqe->remote_addr = p.buf[1];
	wqe->rkey = p.key[1];
	add_sge(wqe, sge(p.buf[0], 10, p.key[0]));
	next_send(p.g, &p.qp[0], MOOR_WQE_WRITE, 2);
	post_recv(p.g, &p.qp[1], 3, NULL, 0);
	ring(p.g, &p.qp[0]);
	ok(got(&p, 0, MOOR_WC_REM_ACCESS_ERR, 1, NULL), "WRITE by revoked key");
	ok(got(&p, 0, MOOR_WC_WR_FLUSH_ERR, 2, NULL), "next is flushed");
	ok(got(&p, 1, MOOR_WC_WR_FLUSH_ERR, 3, NULL), "receive is flushed");
	ok(next_event(p.g, 0, &eqe) && eqe.type == MOOR_EVENT_QP_ACCESS_ERR &&
	   eqe.number == p.qp[1].qpn, "event QP_ACCESS_ERR");
	post_recv(p.g, &p.qp[1], 4, NULL, 0);
	settle_timers(p.g, 100);
	ok(got(&p, 1, MOOR_WC_WR_FLUSH_ERR, 4, NULL),
	   "receive posted in ERR is flushed");
	guest_stop(p.g);

	pair_start(&p, strict);
	{
		struct moor_mr_context e = {
			.pd = PD, .access = RIGHTS, .iova = p.buf[1],
			.length = 4096, .xlat = flat(p.buf[0]),
		};

		revoke_key(p.g, p.key[1]);
		put_entry(p.g, p.key[1], &e, MOOR_MRC_TYPE_MR);
	}
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_WRITE, 1);
	wqe->remote_addr = p.buf[1];
	wqe->rkey = p.key[1];
	wqe->flags |= MOOR_WQE_FLAG_INLINE;
	wqe->inline_length = 4;
	memcpy(wqe + 1, "same", 4);
	ring(p.g, &p.qp[0]);
	ok(got(&p, 0, MOOR_WC_SUCCESS, 1, NULL) &&
	   !memcmp(at(p.g, p.buf[0]), "same", 4),
	   "rereg: same key, next generation, other memory");
	guest_stop(p.g);
}

static void try_remote(const char *what, uint8_t opcode, int64_t shift,
		       uint32_t len, uint32_t key_flip, uint32_t pd,
		       uint32_t access, uint8_t status)
{
	struct moor_sq_wqe *wqe;
	struct pair p;

	pair_start(&p, false);
	p.key[1] = make_mr(p.g, pd, access, p.buf[1] + 8192, 8192);
	wqe = next_send(p.g, &p.qp[0], opcode, 1);
	wqe->remote_addr = p.buf[1] + 8192 + shift;
	wqe->rkey = p.key[1] ^ key_flip;
	add_sge(wqe, sge(p.buf[0], len, p.key[0]));
	ring(p.g, &p.qp[0]);
	ok(got(&p, 0, status, 1, NULL), "%s", what);
	guest_stop(p.g);
}

static void try_local(const char *what, uint8_t opcode, struct moor_sge s,
		      bool pd_differs, uint32_t access, uint8_t status)
{
	struct moor_sq_wqe *wqe;
	struct pair p;
	uint32_t key;

	pair_start(&p, false);
	key = make_mr(p.g, pd_differs ? PD + 1 : PD, access, p.buf[0], 8192);
	wqe = next_send(p.g, &p.qp[0], opcode, 1);
	wqe->remote_addr = p.buf[1];
	wqe->rkey = p.key[1];
	add_sge(wqe, sge(p.buf[0] + s.addr, s.length, key ^ s.lkey));
	ring(p.g, &p.qp[0]);
	ok(got(&p, 0, status, 1, NULL), "%s", what);
	ok(quiet(&p, 1), "  nothing at the responder");
	guest_stop(p.g);
}

static void test_checks(void)
{
	try_remote("WRITE, all of it", MOOR_WQE_WRITE, 0, 8192, 0, PD, RIGHTS,
		   MOOR_WC_SUCCESS);
	try_remote("one byte before", MOOR_WQE_WRITE, -1, 10, 0, PD, RIGHTS,
		   MOOR_WC_REM_ACCESS_ERR);
	try_remote("one byte behind", MOOR_WQE_WRITE, 1, 8192, 0, PD, RIGHTS,
		   MOOR_WC_REM_ACCESS_ERR);
	try_remote("wraps", MOOR_WQE_WRITE, -(1ll << 32) - 20000000000ll, 8192,
		   0, PD, RIGHTS, MOOR_WC_REM_ACCESS_ERR);
	try_remote("key + 1", MOOR_WQE_READ, 0, 8, 1, PD, RIGHTS,
		   MOOR_WC_REM_ACCESS_ERR);
	try_remote("key, other index", MOOR_WQE_READ, 0, 8, 0x10000000, PD,
		   RIGHTS, MOOR_WC_REM_ACCESS_ERR);
	try_remote("other PD", MOOR_WQE_READ, 0, 8, 0, PD + 1, RIGHTS,
		   MOOR_WC_REM_ACCESS_ERR);
	try_remote("READ without right", MOOR_WQE_READ, 0, 8, 0, PD,
		   RIGHTS & ~MOOR_ACCESS_REMOTE_READ, MOOR_WC_REM_ACCESS_ERR);
	try_remote("WRITE without right", MOOR_WQE_WRITE, 0, 8, 0, PD,
		   RIGHTS & ~MOOR_ACCESS_REMOTE_WRITE, MOOR_WC_REM_ACCESS_ERR);
	try_remote("atomic without right", MOOR_WQE_FETCH_ADD, 0, 8, 0, PD,
		   RIGHTS & ~MOOR_ACCESS_REMOTE_ATOMIC, MOOR_WC_REM_ACCESS_ERR);
	try_remote("atomic, unaligned", MOOR_WQE_FETCH_ADD, 4, 8, 0, PD,
		   RIGHTS, MOOR_WC_REM_INV_REQ_ERR);
	try_remote("zero length, any key", MOOR_WQE_WRITE, 0, 0, 77, PD,
		   RIGHTS, MOOR_WC_SUCCESS);
	try_local("SGE wrong key", MOOR_WQE_WRITE, sge(0, 8, 1), false, RIGHTS,
		  MOOR_WC_LOC_PROT_ERR);
	try_local("SGE beyond", MOOR_WQE_WRITE, sge(8190, 3, 0), false, RIGHTS,
		  MOOR_WC_LOC_PROT_ERR);
	try_local("SGE other PD", MOOR_WQE_WRITE, sge(0, 8, 0), true, RIGHTS,
		  MOOR_WC_LOC_PROT_ERR);
	try_local("READ into read-only", MOOR_WQE_READ, sge(0, 8, 0), false, 0,
		  MOOR_WC_LOC_PROT_ERR);
	try_local("WRITE from read-only", MOOR_WQE_WRITE, sge(0, 8, 0), false,
		  0, MOOR_WC_SUCCESS);
	try_local("unknown opcode", 0x55, sge(0, 8, 0), false, RIGHTS,
		  MOOR_WC_LOC_QP_OP_ERR);
	try_local("LOCAL_INV with an SGE", MOOR_WQE_LOCAL_INV, sge(0, 8, 0),
		  false, RIGHTS, MOOR_WC_LOC_QP_OP_ERR);
	try_local("atomic of 4 bytes", MOOR_WQE_FETCH_ADD, sge(0, 4, 0), false,
		  RIGHTS, MOOR_WC_LOC_LEN_ERR);
}

static void test_receive_errors(void)
{
	struct moor_sq_wqe *wqe;
	struct moor_sge s;
	struct moor_eqe eqe;
	struct pair p;

	pair_start(&p, false);
	s = sge(p.buf[1], 10, p.key[1]);
	post_recv(p.g, &p.qp[1], 5, &s, 1);
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_SEND, 6);
	add_sge(wqe, sge(p.buf[0], 11, p.key[0]));
	ring(p.g, &p.qp[0]);
	ok(got(&p, 1, MOOR_WC_LOC_LEN_ERR, 5, NULL) &&
	   got(&p, 0, MOOR_WC_REM_INV_REQ_ERR, 6, NULL) &&
	   !next_event(p.g, 0, &eqe), "message too long for the receive");
	guest_stop(p.g);

	pair_start(&p, false);
	s = sge(p.buf[1], 10, p.key[1] ^ 2);
	post_recv(p.g, &p.qp[1], 5, &s, 1);
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_SEND, 6);
	add_sge(wqe, sge(p.buf[0], 10, p.key[0]));
	ring(p.g, &p.qp[0]);
	ok(got(&p, 1, MOOR_WC_LOC_PROT_ERR, 5, NULL) &&
	   got(&p, 0, MOOR_WC_REM_OP_ERR, 6, NULL), "receive SGE, wrong key");
	guest_stop(p.g);

	pair_start(&p, false);
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_SEND, 6);
	add_sge(wqe, sge(p.buf[0], 10, p.key[0]));
	ring(p.g, &p.qp[0]);
	ok(quiet(&p, 0), "no receive: waits");
	s = sge(p.buf[1], 10, p.key[1]);
	post_recv(p.g, &p.qp[1], 5, &s, 1);
	settle_timers(p.g, 10);
	ok(got(&p, 1, MOOR_WC_SUCCESS, 5, NULL) &&
	   got(&p, 0, MOOR_WC_SUCCESS, 6, NULL), "and goes on once there is");
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_SEND, 7);
	add_sge(wqe, sge(p.buf[0], 10, p.key[0]));
	ring(p.g, &p.qp[0]);
	settle_timers(p.g, 10);
	ok(got(&p, 0, MOOR_WC_RNR_RETRY_EXC_ERR, 7, NULL), "RNR retries spent");
	guest_stop(p.g);
}

/* A refused WRITE_IMM: its receive fails with it if the message is one packet. */
static void test_write_imm_refused(uint32_t len, unsigned int receives,
				   uint32_t key_flip)
{
	bool told = len <= 1024 && receives && key_flip;
	struct moor_sq_wqe *wqe;
	struct moor_cqe cqe;
	struct moor_eqe eqe;
	struct pair p;
	unsigned int i;

	pair_start(&p, false);
	for (i = 0; i < receives; i++)
		post_recv(p.g, &p.qp[1], 20 + i, NULL, 0);
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_WRITE_IMM, 6);
	wqe->remote_addr = p.buf[1];
	wqe->rkey = p.key[1] ^ key_flip;
	add_sge(wqe, sge(p.buf[0], len, p.key[0]));
	ring(p.g, &p.qp[0]);
	if (!key_flip) {
		ok(got(&p, 0, MOOR_WC_SUCCESS, 6, NULL) &&
		   got(&p, 1, MOOR_WC_SUCCESS, 20, NULL), "WRITE_IMM");
		guest_stop(p.g);
		return;
	}
	ok(got(&p, 0, MOOR_WC_REM_ACCESS_ERR, 6, &cqe) && !cqe.syndrome,
	   "WRITE_IMM of %u bytes, wrong key, %u receives", len, receives);
	if (told)
		ok(got(&p, 1, MOOR_WC_LOC_ACCESS_ERR, 20, &cqe) &&
		   cqe.syndrome == MOOR_SYN_KEY && !next_event(p.g, 0, &eqe),
		   "the receive tells it, and no event");
	else
		ok(next_event(p.g, 0, &eqe) &&
		   eqe.type == MOOR_EVENT_QP_ACCESS_ERR &&
		   eqe.number == p.qp[1].qpn, "an event tells it");
	for (i = told; i < receives; i++)
		ok(got(&p, 1, MOOR_WC_WR_FLUSH_ERR, 20 + i, NULL),
		   "receive %u is flushed", i);
	ok(quiet(&p, 1), "and that is all");
	guest_stop(p.g);
}

static void test_peer_gone(void)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_RESET,
	};
	struct moor_sq_wqe *wqe;
	struct pair p;

	pair_start(&p, false);
	ok(!modify(p.g, &cmd, p.qp[1].qpn), "peer to RESET");
	wqe = next_send(p.g, &p.qp[0], MOOR_WQE_WRITE, 7);
	add_sge(wqe, sge(p.buf[0], 10, p.key[0]));
	ring(p.g, &p.qp[0]);
	ok(quiet(&p, 0), "waits");
	settle_timers(p.g, 10);
	ok(got(&p, 0, MOOR_WC_RETRY_EXC_ERR, 7, NULL), "then gives up");
	ok(modify(p.g, &cmd, 12345) == MOOR_CMD_BAD_INDEX, "no such QP");
	cmd.state = MOOR_QPS_RTS;
	ok(modify(p.g, &cmd, p.qp[1].qpn) == MOOR_CMD_BAD_STATE,
	   "RESET to RTS");
	guest_stop(p.g);
}

/* Bit 7 of an error CQE's opcode tells the queue, whatever opcode the WQE has. */
static void test_error_opcodes(bool strict)
{
	unsigned int opcode, wrong = 0;
	struct moor_cqe send, recv;
	struct pair p;

	for (opcode = MOOR_WQE_REG_MR; opcode < 0x100; opcode += 5) {
		pair_start(&p, strict);
		post_recv(p.g, &p.qp[0], 8, NULL, 0);
		next_send(p.g, &p.qp[0], (uint8_t)opcode, 7);
		next_send(p.g, &p.qp[0], (uint8_t)opcode, 9);
		ring(p.g, &p.qp[0]);
		wrong += !got(&p, 0, MOOR_WC_LOC_QP_OP_ERR, 7, &send) ||
			 send.opcode & MOOR_CQE_RECV;
		wrong += !got(&p, 0, MOOR_WC_WR_FLUSH_ERR, 9, &send) ||
			 send.opcode & MOOR_CQE_RECV;
		wrong += !got(&p, 0, MOOR_WC_WR_FLUSH_ERR, 8, &recv) ||
			 !(recv.opcode & MOOR_CQE_RECV);
		guest_stop(p.g);
	}
	ok(!wrong, "an error tells by bit 7 which queue it is of");
}

/*
 * QPs that rest in ERR are looked at together, and not often: work requests that are
 * posted there are still flushed within 100 ms (HWI DB-22).
 */
static void test_rest(void)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_ERR,
	};
	static struct guest_qp many[64];
	unsigned int i, rare = 0, flushed = 0;
	struct moor_cqe cqe;
	struct pair p;

	pair_start(&p, false);
	for (i = 0; i < 64; i++) {
		if (make_qp(p.g, &many[i], 0x100 + i, PD, &p.cq[0], &p.cq[0]) ||
		    modify(p.g, &cmd, many[i].qpn))
			ok(false, "a QP in ERR");
		settle_timers(p.g, 1);
	}
	/* The waits between looks grow: give them time to reach the longest. */
	settle_timers(p.g, 400);
	for (i = 0; i < 5; i++) {
		uint64_t deadline = nic_next_deadline(p.g->nic);

		while (timer_now() < deadline)
			;
		settle(p.g);
		if (nic_next_deadline(p.g->nic) - timer_now() > 32000000)
			rare++;
	}
	ok(rare == 5, "64 QPs in ERR: looked at together, now and then");
	for (i = 0; i < 64; i++)
		post_recv(p.g, &many[i], i, NULL, 0);
	settle_timers(p.g, 100);
	while (poll_cq(p.g, &p.cq[0], &cqe))
		flushed += cqe.status == MOOR_WC_WR_FLUSH_ERR;
	ok(flushed == 64, "what is posted is flushed within 100 ms");
	guest_stop(p.g);
}

/* A QP that is flushed all the time does not keep others from being looked at. */
static void test_rest_of_others(void)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_ERR,
	};
	static struct guest_qp busy, other;
	uint64_t end = timer_now() + 100000000;
	struct moor_cqe cqe;
	bool flushed = false;
	uint64_t wr_id = 1;
	struct pair p;

	pair_start(&p, false);
	if (make_qp(p.g, &busy, 0x100, PD, &p.cq[0], &p.cq[0]) ||
	    make_qp(p.g, &other, 0x101, PD, &p.cq[1], &p.cq[1]) ||
	    modify(p.g, &cmd, busy.qpn) || modify(p.g, &cmd, other.qpn))
		ok(false, "two QPs in ERR");
	settle(p.g);
	post_recv(p.g, &other, 7, NULL, 0);
	while (!flushed && timer_now() < end) {
		next_send(p.g, &busy, MOOR_WQE_SEND, wr_id++);
		ring(p.g, &busy);
		settle(p.g);
		while (poll_cq(p.g, &p.cq[0], &cqe))
			;
		flushed = poll_cq(p.g, &p.cq[1], &cqe) && cqe.status == MOOR_WC_WR_FLUSH_ERR;
	}
	ok(flushed, "beside a QP that is flushed all the time: flushed within 100 ms");
	guest_stop(p.g);
}

static void test_notify(void)
{
	struct moor_sq_wqe *wqe;
	struct moor_eqe eqe;
	struct pair p;
	int i;

	pair_start(&p, false);
	arm_cq(p.g, &p.cq[0], MOOR_CQ_ARM_ANY);
	arm_cq(p.g, &p.cq[1], MOOR_CQ_ARM_SOLICITED);
	for (i = 0; i < 3; i++) {
		post_recv(p.g, &p.qp[1], i, NULL, 0);
		wqe = next_send(p.g, &p.qp[0], MOOR_WQE_SEND, i);
		if (i == 2)
			wqe->flags |= MOOR_WQE_FLAG_SOLICITED;
		ring(p.g, &p.qp[0]);
		if (i == 0)
			ok(next_event(p.g, 2, &eqe) && eqe.number == 0 &&
			   !next_event(p.g, 2, &eqe), "any: one event");
		if (i == 1)
			ok(!next_event(p.g, 2, &eqe), "not armed, not solicited");
		if (i == 2)
			ok(next_event(p.g, 2, &eqe) && eqe.number == 1,
			   "solicited");
	}
	ok(p.g->raised[3] == 2, "two interrupts");
	guest_stop(p.g);
}

static void test_overrun(void)
{
	struct moor_eqe eqe;
	struct pair p;
	int i;

	pair_start(&p, false);
	for (i = 0; i < 300; i++) {
		next_send(p.g, &p.qp[0], MOOR_WQE_WRITE, i);
		ring(p.g, &p.qp[0]);
	}
	ok(next_event(p.g, 0, &eqe) && eqe.type == MOOR_EVENT_CQ_ERROR &&
	   eqe.number == 0, "CQ overrun");
	guest_stop(p.g);

	pair_start(&p, false);
	p.qp[0].sq_producer += 65;
	ring(p.g, &p.qp[0]);
	ok(next_event(p.g, 0, &eqe) && eqe.type == MOOR_EVENT_QP_FATAL &&
	   eqe.number == p.qp[0].qpn, "producer index beyond the depth");
	guest_stop(p.g);
}

static void test_resize(void)
{
	struct moor_cmd_resize_cq cmd = {
		.hdr.opcode = MOOR_CMD_RESIZE_CQ, .cqn = 0, .log_cqe = 4,
	};
	struct moor_cqe cqe;
	struct pair p;
	bool good = true;
	int i;

	pair_start(&p, false);
	for (i = 0; i < 300; i++) {
		next_send(p.g, &p.qp[0], MOOR_WQE_WRITE, i);
		ring(p.g, &p.qp[0]);
		if (i < 290)
			good &= got(&p, 0, 0, i, NULL);
	}
	cmd.ring = flat(take(p.g, 4096));
	cmd.log_cqe = 3;
	ok(command(p.g, &cmd, sizeof(cmd)) == MOOR_CMD_BAD_PARAM,
	   "resize: ten do not fit into eight");
	cmd.log_cqe = 4;
	ok(!command(p.g, &cmd, sizeof(cmd)), "resize");
	p.cq[0].ring = cmd.ring.root & MOOR_PTE_ADDR;
	p.cq[0].log_cqe = 4;
	for (; i < 400; i++) {
		if (i > 303) {
			next_send(p.g, &p.qp[0], MOOR_WQE_WRITE, i - 4);
			ring(p.g, &p.qp[0]);
		}
		good &= got(&p, 0, 0, i - 10, &cqe);
	}
	for (i = 390; i < 396; i++)
		good &= got(&p, 0, 0, i, NULL);
	ok(good && quiet(&p, 0), "nothing lost, nothing twice");
	guest_stop(p.g);
}

int main(void)
{
	test_data(false);
	test_data(true);
	test_revoke(false);
	test_revoke(true);
	test_checks();
	test_receive_errors();
	test_write_imm_refused(1024, 1, 0);
	test_write_imm_refused(1, 1, 1);
	test_write_imm_refused(1024, 2, 1);
	test_write_imm_refused(1024, 0, 1);
	test_write_imm_refused(1025, 2, 1);
	test_peer_gone();
	test_error_opcodes(false);
	test_error_opcodes(true);
	test_rest();
	test_rest_of_others();
	test_notify();
	test_overrun();
	test_resize();
	return done();
}
