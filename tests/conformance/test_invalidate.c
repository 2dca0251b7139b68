// SPDX-License-Identifier: GPL-2.0
/* LOCAL_INV and SEND_INV of windows (HWI 6.8). */
#include <string.h>

#include "traffic.h"

#define LEN	PAGE
#define LONG	longest(1u << 20)	/* more than is answered at once */

/* A window bound on QP 1, over the start of its buffer. */
static uint32_t bound_window(struct pair *p)
{
	uint32_t key = make_window(PD, MOOR_MRC_TYPE_MW_2);

	post_send(&p->qp[1], (struct send_wr){
		.opcode = MOOR_WQE_BIND_MW,
		.bind = { .mw_key = key, .new_key = key, .mr_lkey = p->key[1],
			  .access = ALL_REMOTE, .addr = p->buf[1],
			  .length = LEN },
	});
	expect_cqe(&p->cq[1], 0, MOOR_WC_SUCCESS, 0);
	return key;
}

static enum moor_mr_state state_of(uint32_t key)
{
	struct moor_cpl_mr_query out;

	need(!query(key, &out), "MR_QUERY: status %u", answer.status);
	return out.state;
}

TEST_CASE(local_inv, "LOCAL_INV: the key is dead when it completes",
	  "INV-1 INV-3 DYN-11 REV-10", HAS(MW_TYPE_2B))
{
	struct pair p;
	unsigned int i;
	uint32_t key;

	make_pair(&p);
	for (i = 0; i < 5; i++) {
		key = bound_window(&p);
		expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], LEN, true);
		post_send(&p.qp[1], (struct send_wr){
			.opcode = MOOR_WQE_LOCAL_INV, .inv_key = key, .wr_id = 6,
		});
		expect_cqe(&p.cq[1], 6, MOOR_WC_SUCCESS, 0);
		memset(at(p.buf[1]), 0xbb, LEN);
		expect(state_of(key) == MOOR_MR_STATE_UNBOUND, "not UNBOUND");
		expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, false);
		expect(is_all(p.buf[1], LEN, 0xbb), "something is written");
		expect(revoke(p.key[1]) == REVOKED, "its MR is busy");
		p.key[1] = make_mr(PD, ALL_RIGHTS, p.buf[1], BUF);
	}
}

TEST_CASE(local_inv_waits, "LOCAL_INV waits till all that came before it is done", "WQ-14",
	  HAS(MW_TYPE_2B))
{
	struct moor_cmd_modify_qp rts = to_rts();
	struct pair p;
	uint32_t key;

	make_pair(&p);
	rts.mask = MOOR_QP_ATTR_TIMEOUT | MOOR_QP_ATTR_RETRY_CNT;
	rts.timeout = 14;
	rts.retry_cnt = 7;
	must_modify(&p.qp[1], rts);
	key = bound_window(&p);
	reset_qp(&p.qp[0]);
	put_send(&p.qp[1], &(struct send_wr){
		.opcode = MOOR_WQE_SEND, .wr_id = 5,
		SGE(p.buf[1], 64, p.key[1]),
	});
	put_send(&p.qp[1], &(struct send_wr){
		.opcode = MOOR_WQE_LOCAL_INV, .inv_key = key, .wr_id = 6,
	});
	ring_send(&p.qp[1]);
	/* The SEND has not been acknowledged. */
	expect_no_cqe(&p.cq[1]);
	expect(state_of(key) == MOOR_MR_STATE_BOUND, "not BOUND");
	post_recv(&p.qp[0], 7, p.buf[0], 64, p.key[0]);
	connect_qp(&p.qp[0], p.qp[1].qpn);
	expect_cqe(&p.cq[1], 5, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[1], 6, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[0], 7, MOOR_WC_SUCCESS, 0);
	expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], LEN, false);
}

TEST_CASE(local_inv_refused, "LOCAL_INV of anything else ends with MW_BIND_ERR",
	  "INV-4 INV-1 INV-7 DYN-14 NUL-2", HAS(MW_TYPE_2B))
{
	uint32_t key, mw_1 = 0, unbound;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	unbound = make_window(PD, MOOR_MRC_TYPE_MW_2);
	if (dev.features & MOOR_FEATURE_MW_TYPE_1) {
		mw_1 = make_window(PD, MOOR_MRC_TYPE_MW_1);
		post_send(&p.qp[1], (struct send_wr){
			.opcode = MOOR_WQE_BIND_MW,
			.bind = { .mw_key = mw_1, .new_key = mw_1,
				  .mr_lkey = p.key[1], .access = ALL_REMOTE,
				  .addr = p.buf[1], .length = LEN },
		});
		expect_cqe(&p.cq[1], 0, MOOR_WC_SUCCESS, 0);
	}
	for (i = 0; i < 8; i++) {
		static const char * const what[] = {
			"a plain MR", "an unbound window", "another byte",
			"another nonce", "index 0", "the null MR",
			"a type 1 window", "bound on another QP",
		};
		const uint32_t keys[] = {
			p.key[1], unbound, 0, 0, 0x77, dev.null_lkey, mw_1, 0,
		};
		struct moor_cqe cqe;

		if (i == 6 && !mw_1)
			continue;
		about("%s", what[i]);
		key = bound_window(&p);
		post_send(&p.qp[i != 7], (struct send_wr){
			.opcode = MOOR_WQE_LOCAL_INV, .wr_id = 6,
			.inv_key = i == 2 ? key ^ 1 : i == 3 ? key ^ 0x100 :
				   i == 7 ? key : keys[i],
		});
		cqe = wait_cqe(&p.cq[i != 7]);
		expect(cqe.status == MOOR_WC_MW_BIND_ERR && cqe.syndrome ==
		       (i < 6 ? MOOR_SYN_KEY : MOOR_SYN_WINDOW),
		       "status %u, syndrome %u", cqe.status, cqe.syndrome);
		expect(state_of(key) == MOOR_MR_STATE_BOUND,
		       "the window is unbound");
		expect(state_of(p.key[1]) == MOOR_MR_STATE_VALID,
		       "the MR is dead");
		if (mw_1)
			expect(state_of(mw_1) == MOOR_MR_STATE_BOUND,
			       "the type 1 window is unbound");
		reconnect(&p);
	}
}

TEST_CASE(send_inv, "SEND_INV: the receiver's key is dead, and its CQE names it",
	  "INV-1 INV-3 DYN-11 CQ-8", HAS(MW_TYPE_2B))
{
	struct moor_cqe cqe;
	struct pair p;
	uint32_t key;

	make_pair(&p);
	key = bound_window(&p);
	post_recv(&p.qp[1], 3, p.buf[1] + PAGE, PAGE, p.key[1]);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND_INV, .inv_key = key, .wr_id = 2,
		SGE(p.buf[0], 600, p.key[0]),
	});
	cqe = expect_cqe(&p.cq[1], 3, MOOR_WC_SUCCESS, 0);
	expect(cqe.opcode == MOOR_CQE_RECV && cqe.flags & MOOR_CQE_FLAG_INV &&
	       !(cqe.flags & MOOR_CQE_FLAG_IMM) && cqe.inv_key == key &&
	       cqe.byte_len == 600, "opcode 0x%x, flags 0x%x, key 0x%x",
	       cqe.opcode, cqe.flags, cqe.inv_key);
	expect_cqe(&p.cq[0], 2, MOOR_WC_SUCCESS, 0);
	expect(is_filled(p.buf[1] + PAGE, 600, 1), "the data has not come");
	expect(state_of(key) == MOOR_MR_STATE_UNBOUND, "not UNBOUND");
	expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, false);
}

/* The SEND before it is acknowledged, though the answer of a long READ delays that. */
TEST_CASE(send_inv_refused_behind, "SEND_INV refused: a SEND before it, and a READ, are done",
	  "INV-5 RC-27 RC-1", HAS(MW_TYPE_2B))
{
	uint64_t from = take_filled(LONG, 2), to = take(LONG);
	uint32_t from_key = make_mr(PD, ALL_RIGHTS, from, LONG);
	uint32_t to_key = make_mr(PD, ALL_RIGHTS, to, LONG);
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 2; i++) {
		about(i ? "behind a READ" : "without one");
		drop_events(MOOR_EQ_ASYNC);
		post_recv(&p.qp[1], 4, p.buf[1], PAGE, p.key[1]);
		post_recv(&p.qp[1], 5, p.buf[1] + PAGE, PAGE, p.key[1]);
		if (i)
			put_send(&p.qp[0], &(struct send_wr){
				.opcode = MOOR_WQE_READ, .wr_id = 1,
				.remote = from, .rkey = from_key,
				SGE(to, LONG, to_key),
			});
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_SEND, .wr_id = 2,
			SGE(p.buf[0], 600, p.key[0]),
		});
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_SEND_INV, .wr_id = 3,
			.inv_key = p.key[1], SGE(p.buf[0], 600, p.key[0]),
		});
		ring_send(&p.qp[0]);
		expect_cqe(&p.cq[1], 4, MOOR_WC_SUCCESS, 0);
		expect_cqe(&p.cq[1], 5, MOOR_WC_WR_FLUSH_ERR, 0);
		if (i)
			expect_cqe(&p.cq[0], 1, MOOR_WC_SUCCESS, 0);
		expect_cqe(&p.cq[0], 2, MOOR_WC_SUCCESS, 0);
		expect_cqe(&p.cq[0], 3, MOOR_WC_RETRY_EXC_ERR,
			   MOOR_SYN_NO_RESPONDER);
		expect_event(MOOR_EVENT_QP_ACCESS_ERR, p.qp[1].qpn);
		reconnect(&p);
	}
}

TEST_CASE(send_inv_refused, "SEND_INV of a key that may not be invalidated: nothing else is",
	  "INV-5 INV-7 DYN-14 RC-27", HAS(MW_TYPE_2B))
{
	uint32_t key, unbound;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	unbound = make_window(PD, MOOR_MRC_TYPE_MW_2);
	for (i = 0; i < 5; i++) {
		about("key %u", i);
		drop_events(MOOR_EQ_ASYNC);
		key = bound_window(&p);
		post_recv(&p.qp[1], 3, p.buf[1] + PAGE, PAGE, p.key[1]);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_SEND_INV, .wr_id = 2,
			.inv_key = i == 0 ? p.key[1] : i == 1 ? unbound :
				   i == 2 ? key ^ 1 : i == 3 ? dev.null_lkey :
				   key ^ 0x100,
			SGE(p.buf[0], 600, p.key[0]),
		});
		expect_cqe(&p.cq[1], 3, MOOR_WC_WR_FLUSH_ERR, 0);
		expect_cqe(&p.cq[0], 2, MOOR_WC_RETRY_EXC_ERR,
			   MOOR_SYN_NO_RESPONDER);
		expect_event(MOOR_EVENT_QP_ACCESS_ERR, p.qp[1].qpn);
		expect(reaches_state(&p.qp[1], MOOR_QPS_ERR),
		       "the receiver is not in ERR");
		expect(state_of(key) == MOOR_MR_STATE_BOUND &&
		       state_of(p.key[1]) == MOOR_MR_STATE_VALID,
		       "something is invalidated");
		reconnect(&p);
	}
}
