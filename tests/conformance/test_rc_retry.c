// SPDX-License-Identifier: GPL-2.0
/* Reliable connections: retries, and the time after an error (HWI 12). */
#include <string.h>

#include "traffic.h"

static struct send_wr send_of(const struct pair *p, uint32_t len)
{
	return (struct send_wr){
		.opcode = MOOR_WQE_SEND, .wr_id = 6,
		SGE(p->buf[0], len, p->key[0]),
	};
}

TEST_CASE(rnr, "no receive: retried after min_rnr_timer, rnr_retry times",
	  "RC-10 RC-36 REV-6", 0)
{
	const uint64_t wait_ns = 10240000;	/* code 20 */
	struct moor_eqe eqe;
	uint64_t started, took;
	unsigned int retry;
	struct pair p;

	make_pair(&p);
	for (retry = 0; retry < 4; retry++) {
		about("rnr_retry %u", retry);
		connect_with(&p, 20, (uint8_t)retry, 14, 7);
		drop_events(MOOR_EQ_ASYNC);
		started = now_ns();
		post_send(&p.qp[0], send_of(&p, 64));
		expect_cqe(&p.cq[0], 6, MOOR_WC_RNR_RETRY_EXC_ERR, 0);
		took = now_ns() - started;
		expect(took >= retry * wait_ns, "after %llu us",
		       (unsigned long long)took / 1000);
		expect(query_qp(&p.qp[1]).state == MOOR_QPS_RTS,
		       "the responder is not in RTS");
		expect(!next_event(MOOR_EQ_ASYNC, &eqe), "event 0x%x", eqe.type);
	}
}

TEST_CASE(rnr_ends, "a receive that comes while it is retried is taken", "RC-10", 0)
{
	struct pair p;

	make_pair(&p);
	connect_with(&p, 14, 7, 14, 7);
	post_send(&p.qp[0], send_of(&p, 64));
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_WRITE_IMM, .wr_id = 7,
	});
	expect_no_cqe(&p.cq[0]);
	post_recv(&p.qp[1], 9, p.buf[1], 64, p.key[1]);
	expect_cqe(&p.cq[1], 9, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[0], 6, MOOR_WC_SUCCESS, 0);
	expect(is_filled(p.buf[1], 64, 1), "the data");
	expect_no_cqe(&p.cq[0]);
	post_recv(&p.qp[1], 10, 0, 0, 0);
	expect_cqe(&p.cq[1], 10, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[0], 7, MOOR_WC_SUCCESS, 0);
}

TEST_CASE(rnr_behind, "no receive for what follows a long READ: retry_cnt is not for that",
	  "RC-10 RC-36", 0)
{
	const uint32_t len = longest(1u << 20);
	uint64_t big = take(len);
	uint32_t key = make_mr(PD, ALL_RIGHTS, big, len), i;
	struct pair p;

	make_pair(&p);
	connect_with(&p, 14, 7, 0, 0);
	put_send(&p.qp[0], &(struct send_wr){
		.opcode = MOOR_WQE_READ, .wr_id = 5, .remote = big, .rkey = key,
		SGE(big, len, key),
	});
	for (i = 0; i < 2; i++) {
		const struct send_wr wr = send_of(&p, 64);

		put_send(&p.qp[0], &wr);
	}
	ring_send(&p.qp[0]);
	expect_cqe(&p.cq[0], 5, MOOR_WC_SUCCESS, 0);
	for (i = 0; i < 2; i++) {
		expect_no_cqe(&p.cq[0]);
		post_recv(&p.qp[1], i, p.buf[1], 64, p.key[1]);
		expect_cqe(&p.cq[1], i, MOOR_WC_SUCCESS, 0);
		expect_cqe(&p.cq[0], 6, MOOR_WC_SUCCESS, 0);
	}
}

TEST_CASE(mtu_changes, "what has begun goes on with the path MTU that it began with",
	  "QP-10 RC-30", 0)
{
	const struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_PATH_MTU, .path_mtu = 1,
	};
	struct pair p;

	make_pair(&p);
	connect_with(&p, 14, 7, 14, 7);
	post_send(&p.qp[0], send_of(&p, 3000));
	expect_no_cqe(&p.cq[0]);
	must_modify(&p.qp[0], cmd);
	post_recv(&p.qp[1], 9, p.buf[1], BUF, p.key[1]);
	expect_cqe(&p.cq[1], 9, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[0], 6, MOOR_WC_SUCCESS, 0);
	expect(is_filled(p.buf[1], 3000, 1), "the data");
	about("the next message");
	post_recv(&p.qp[1], 10, p.buf[1], BUF, p.key[1]);
	post_send(&p.qp[0], send_of(&p, 3000));
	expect_cqe(&p.cq[0], 6, MOOR_WC_REM_INV_REQ_ERR, 0);
}

TEST_CASE(nobody, "nobody answers: retried after the time-out, retry_cnt times",
	  "RC-11 RC-32 RC-33 ERR-9", 0)
{
	static const char * const why[] = {
		"no such QP", "a QP in RESET", "a QP in INIT", "a QP in ERR",
		"a QP that is connected elsewhere", "a PSN that has been",
		"a PSN that is still to come",
	};
	struct moor_cmd_modify_qp cmd;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 7; i++) {
		about("%s", why[i]);
		connect_with(&p, 1, 2, 6, 2);
		drop_events(MOOR_EQ_ASYNC);
		fill(p.buf[1], BUF, 2);
		if (i == 0) {
			reset_qp(&p.qp[0]);
			connect_qp(&p.qp[0], p.qp[1].qpn ^ 1u << 22);
		} else if (i < 3) {
			reset_qp(&p.qp[1]);
			if (i == 2)
				must_modify(&p.qp[1], to_init());
		} else if (i == 3) {
			must_modify(&p.qp[1], to_state(MOOR_QPS_ERR));
		} else if (i == 4) {
			reset_qp(&p.qp[1]);
			connect_qp(&p.qp[1], p.qp[1].qpn);
		} else {
			reset_qp(&p.qp[1]);
			must_modify(&p.qp[1], to_init());
			cmd = to_rtr(p.qp[0].qpn);
			cmd.rq_psn += i == 5 ? 1000 : -100;
			must_modify(&p.qp[1], cmd);
		}
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_WRITE, .wr_id = 6,
			.remote = p.buf[1], .rkey = p.key[1],
			SGE(p.buf[0], 64, p.key[0]),
		});
		expect_cqe(&p.cq[0], 6, MOOR_WC_RETRY_EXC_ERR,
			   MOOR_SYN_NO_RESPONDER);
		expect(is_filled(p.buf[1], BUF, 2), "something is written");
	}
}

TEST_CASE(psn_behind, "a PSN that is behind counts as a repetition: nothing is carried out",
	  "RC-43 RC-46", 0)
{
	struct moor_cmd_modify_qp cmd;
	struct pair p;

	make_pair(&p);
	connect_with(&p, 1, 2, 6, 2);
	reset_qp(&p.qp[1]);
	must_modify(&p.qp[1], to_init());
	cmd = to_rtr(p.qp[0].qpn);
	cmd.rq_psn += 10;
	must_modify(&p.qp[1], cmd);
	post_recv(&p.qp[1], 1, p.buf[1], 64, p.key[1]);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND, .wr_id = 6,
		SGE(p.buf[0], 64, p.key[0]),
	});
	expect_cqe(&p.cq[0], 6, MOOR_WC_RETRY_EXC_ERR, MOOR_SYN_NO_RESPONDER);
	expect_no_cqe(&p.cq[1]);
	expect(is_filled(p.buf[1], BUF, 2), "something is written");
	expect(query_qp(&p.qp[1]).rq_psn == cmd.rq_psn, "it is counted");
}

TEST_CASE(psn_ahead, "a NAK for a PSN that is not under way is none", "RC-46", 0)
{
	struct moor_cmd_modify_qp cmd;
	struct pair p;

	make_pair(&p);
	connect_with(&p, 1, 2, 0, 0);
	cmd = to_rtr(p.qp[0].qpn);
	cmd.mask = MOOR_QP_ATTR_RQ_PSN;
	cmd.rq_psn -= 10;
	must_modify(&p.qp[1], cmd);
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE, .wr_id = 6 });
	expect_no_cqe(&p.cq[0]);
	must_modify(&p.qp[0], to_state(MOOR_QPS_ERR));
	expect_cqe(&p.cq[0], 6, MOOR_WC_WR_FLUSH_ERR, 0);
}

TEST_CASE(types_differ, "QPs of two types are not connected", "RC-33 RC-11", HAS(UC))
{
	struct moor_cmd_create_qp cmd;
	struct cq cq, other;
	struct qp rc, uc;

	make_cq(&cq, 0, LOG_DEPTH);
	make_cq(&other, 1, LOG_DEPTH);
	make_qp(&rc, &cq, &cq);
	cmd = qp_command(&uc, &other, &other);
	cmd.type = MOOR_QP_UC;
	must(cmd);
	connect_qp(&rc, uc.qpn);
	connect_qp(&uc, rc.qpn);
	put_recv(&uc, 1, NULL, 0);
	ring_recv(&uc);
	put_recv(&rc, 2, NULL, 0);
	ring_recv(&rc);
	post_send(&uc, (struct send_wr){ .opcode = MOOR_WQE_SEND, .wr_id = 3 });
	expect_cqe(&other, 3, MOOR_WC_SUCCESS, 0);
	post_send(&rc, (struct send_wr){ .opcode = MOOR_WQE_SEND, .wr_id = 4 });
	expect_cqe(&cq, 4, MOOR_WC_RETRY_EXC_ERR, MOOR_SYN_NO_RESPONDER);
	expect_no_cqe(&other);
}

TEST_CASE(retry_count, "the time-out and its number of retries", "RC-11 RC-36", 0)
{
	uint64_t started, took;
	unsigned int i;
	struct pair p;

	make_pair(&p);
	for (i = 0; i < 4; i++) {
		/* 4.096 us << 11: 8.4 ms, of which a device may take four times as much. */
		about("retry_cnt %u", i);
		connect_with(&p, 1, 1, 11, (uint8_t)i);
		reset_qp(&p.qp[1]);
		started = now_ns();
		post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE });
		expect_cqe(&p.cq[0], 0, MOOR_WC_RETRY_EXC_ERR,
			   MOOR_SYN_NO_RESPONDER);
		took = now_ns() - started;
		expect(took >= (i + 1) * 8388608ull, "after %llu us",
		       (unsigned long long)took / 1000);
	}
}

TEST_CASE(path_returns, "a responder that comes back in time is found again",
	  "RC-11 RC-1", 0)
{
	struct pair p;

	make_pair(&p);
	connect_with(&p, 1, 7, 14, 7);
	must_modify(&p.qp[1], to_state(MOOR_QPS_RESET));
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .wr_id = 6, .remote = p.buf[1],
		.rkey = p.key[1], SGE(p.buf[0], 64, p.key[0]),
	});
	expect_no_cqe(&p.cq[0]);
	connect_qp(&p.qp[1], p.qp[0].qpn);
	expect_cqe(&p.cq[0], 6, MOOR_WC_SUCCESS, 0);
	expect(is_filled(p.buf[1], 64, 1), "the data");
}

TEST_CASE(no_more_reads, "READs that have begun end although max_rd_atomic becomes 0",
	  "QP-10 WQ-8", 0)
{
	const struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_MAX_RD_ATOMIC,
	};
	struct send_wr wr;
	struct pair p;

	make_pair(&p);
	connect_with(&p, 1, 2, 14, 7);
	reset_qp(&p.qp[1]);
	wr = (struct send_wr){
		.opcode = MOOR_WQE_READ, .wr_id = 6, .remote = p.buf[1],
		.rkey = p.key[1], SGE(p.buf[0], 64, p.key[0]),
	};
	post_send(&p.qp[0], wr);
	wr.wr_id = 7;
	post_send(&p.qp[0], wr);
	expect_no_cqe(&p.cq[0]);
	must_modify(&p.qp[0], cmd);
	connect_qp(&p.qp[1], p.qp[0].qpn);
	expect_cqe(&p.cq[0], 6, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[0], 7, MOOR_WC_SUCCESS, 0);
	expect(is_filled(p.buf[0], 64, 2), "the data");
	wr.wr_id = 8;
	post_send(&p.qp[0], wr);
	expect_cqe(&p.cq[0], 8, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
}

TEST_CASE(for_ever, "rnr_retry 7 and timeout 0 wait for ever", "RC-10 RC-36", 0)
{
	struct pair p;
	unsigned int i;

	make_pair(&p);
	connect_with(&p, 1, 7, 14, 7);
	post_send(&p.qp[0], send_of(&p, 64));
	for (i = 0; i < 3; i++)
		expect_no_cqe(&p.cq[0]);
	post_recv(&p.qp[1], 1, p.buf[1], 64, p.key[1]);
	expect_cqe(&p.cq[0], 6, MOOR_WC_SUCCESS, 0);
	wait_cqe(&p.cq[1]);

	connect_with(&p, 1, 1, 0, 1);
	must_modify(&p.qp[1], to_state(MOOR_QPS_ERR));
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	for (i = 0; i < 3; i++)
		expect_no_cqe(&p.cq[0]);
	must_modify(&p.qp[0], to_state(MOOR_QPS_ERR));
	expect_cqe(&p.cq[0], 0, MOOR_WC_WR_FLUSH_ERR, 0);
}

/* ---- duplicate requests ---- */

/* Resets the requester, which begins again with the PSN that it had first. */
static void begin_again(struct pair *p)
{
	reset_qp(&p->qp[0]);
	connect_qp(&p->qp[0], p->qp[1].qpn);
	drop_events(MOOR_EQ_ASYNC);
}

TEST_CASE(read_again, "a READ is answered again, unless its key does not allow it any more",
	  "RC-41 RC-45 RC-31 RC-1", 0)
{
	struct moor_cmd_modify_qp rts = to_rts();
	struct moor_mr_context e;
	struct send_wr wr;
	struct pair p;

	make_pair(&p);
	wr = (struct send_wr){
		.opcode = MOOR_WQE_READ, .wr_id = 6, .remote = p.buf[1],
		.rkey = make_mr(PD, ALL_RIGHTS, p.buf[1], BUF),
		SGE(p.buf[0], 3000, p.key[0]),
	};
	post_send(&p.qp[0], wr);
	expect_cqe(&p.cq[0], 6, MOOR_WC_SUCCESS, 0);
	fill(p.buf[1], BUF, 9);
	begin_again(&p);
	post_send(&p.qp[0], wr);
	expect_cqe(&p.cq[0], 6, MOOR_WC_SUCCESS, 0);
	expect(is_filled(p.buf[0], 3000, 9), "what is there now is not read");
	about("its key is revoked");
	need(revoke(wr.rkey) == REVOKED, "MR_REVOKE");
	fill(p.buf[1], BUF, 10);
	begin_again(&p);
	post_send(&p.qp[0], wr);
	expect_cqe(&p.cq[0], 6, MOOR_WC_RETRY_EXC_ERR, MOOR_SYN_NO_RESPONDER);
	expect(is_filled(p.buf[0], 3000, 9), "it is read all the same");
	expect(query_qp(&p.qp[1]).state == MOOR_QPS_RTS,
	       "the responder is not in RTS");
	expect_no_event(MOOR_EQ_ASYNC);
	about("its key is registered anew, just as it was");
	e = mr_entry(PD, ALL_RIGHTS, p.buf[1], BUF);
	write_entry(wr.rkey, &e, MOOR_MRC_TYPE_MR);
	begin_again(&p);
	post_send(&p.qp[0], wr);
	expect_cqe(&p.cq[0], 6, MOOR_WC_RETRY_EXC_ERR, MOOR_SYN_NO_RESPONDER);
	expect(is_filled(p.buf[0], 3000, 9), "it is read all the same");
	about("a request that is new");
	begin_again(&p);
	rts.mask = MOOR_QP_ATTR_SQ_PSN;
	rts.sq_psn += 3;
	must_modify(&p.qp[0], rts);
	expect_remote(&p, MOOR_WQE_READ, wr.rkey, p.buf[1], 64, true);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 64, true);
}

TEST_CASE(atomic_again, "an atomic that comes again is not done again, its answer is the same",
	  "RC-38 RC-1", HAS(ATOMICS))
{
	struct send_wr wr;
	uint64_t *word;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	word = at(p.buf[1]);
	*word = 40;
	wr = (struct send_wr){
		.opcode = MOOR_WQE_FETCH_ADD, .wr_id = 6, .remote = p.buf[1],
		.rkey = p.key[1], SGE(p.buf[0], 8, p.key[0]),
		.atomic = { .swap_add = 2 },
	};
	for (i = 0; i < 3; i++) {
		about("time %u", i);
		memset(at(p.buf[0]), 0, 8);
		post_send(&p.qp[0], wr);
		expect_cqe(&p.cq[0], 6, MOOR_WC_SUCCESS, 0);
		expect(*(uint64_t *)at(p.buf[0]) == 40 && *word == 42,
		       "%llu before, %llu after",
		       (unsigned long long)*(uint64_t *)at(p.buf[0]),
		       (unsigned long long)*word);
		begin_again(&p);
	}
}

static struct moor_cqe add_one(struct pair *p)
{
	memset(at(p->buf[0]), 0xff, 8);
	post_send(&p->qp[0], (struct send_wr){
		.opcode = MOOR_WQE_FETCH_ADD, .remote = p->buf[1],
		.rkey = p->key[1], SGE(p->buf[0], 8, p->key[0]),
		.atomic = { .swap_add = 1 },
	});
	return wait_cqe(&p->cq[0]);
}

TEST_CASE(answers_kept, "answers of the last max_dest_rd_atomic are kept, older ones may be gone",
	  "RC-48 RC-38", HAS(ATOMICS))
{
	uint32_t kept = dev.max_rd_atomic < 8 ? dev.max_rd_atomic : 8, i;
	struct moor_cmd_modify_qp many = {
		.mask = MOOR_QP_ATTR_MAX_DEST_RD_ATOMIC,
		.max_dest_rd_atomic = (uint8_t)kept,
	};
	uint64_t *word, *was;
	struct moor_cqe cqe;
	struct pair p;

	make_pair(&p);
	must_modify(&p.qp[1], many);
	word = at(p.buf[1]);
	was = at(p.buf[0]);
	*word = 0;
	for (i = 0; i < kept; i++)
		need(!add_one(&p).status && *was == i, "atomic %u", i);
	begin_again(&p);
	for (i = 0; i < kept; i++)
		expect(!add_one(&p).status && *was == i, "again, %u: %llu was there",
		       i, (unsigned long long)*was);
	for (; i < 300; i++)
		need(!add_one(&p).status && *was == i, "atomic %u", i);
	begin_again(&p);
	cqe = add_one(&p);
	expect(cqe.status ? cqe.status == MOOR_WC_RETRY_EXC_ERR : !*was,
	       "the oldest: status %u, %llu was there", cqe.status,
	       (unsigned long long)*was);
	expect(*word == 300, "an atomic is done again");
}

TEST_CASE(send_again, "a SEND or WRITE that comes again is acknowledged, and not done again",
	  "RC-1", 0)
{
	struct send_wr wr;
	struct pair p;

	make_pair(&p);
	wr = (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .wr_id = 6, .remote = p.buf[1],
		.rkey = p.key[1], SGE(p.buf[0], 64, p.key[0]),
	};
	post_recv(&p.qp[1], 1, p.buf[1] + 4096, 64, p.key[1]);
	post_recv(&p.qp[1], 2, p.buf[1] + 4096, 64, p.key[1]);
	post_send(&p.qp[0], wr);
	post_send(&p.qp[0], send_of(&p, 64));
	expect_cqe(&p.cq[0], 6, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[0], 6, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[1], 1, MOOR_WC_SUCCESS, 0);
	fill(p.buf[0], BUF, 9);
	begin_again(&p);
	post_send(&p.qp[0], wr);
	post_send(&p.qp[0], send_of(&p, 64));
	expect_cqe(&p.cq[0], 6, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[0], 6, MOOR_WC_SUCCESS, 0);
	expect_no_cqe(&p.cq[1]);
	expect(is_filled(p.buf[1], 64, 1), "it is written again");
	about("what is new");
	post_send(&p.qp[0], send_of(&p, 64));
	expect_cqe(&p.cq[0], 6, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[1], 2, MOOR_WC_SUCCESS, 0);
	expect(is_filled(p.buf[1] + 4096, 64, 9), "the data");
}

TEST_CASE(reads_at_once, "no more READs at once than max_rd_atomic", "RC-40", 0)
{
	const uint32_t len = longest(1u << 20);
	uint32_t key_from, key_to;
	uint64_t from, to;
	unsigned int i;
	struct pair p;

	at_least(max_mr_size, 8 * len);
	make_pair(&p);
	from = take_filled(len, 4);
	to = take(8 * len);
	key_from = make_mr(PD, ALL_RIGHTS, from, len);
	key_to = make_mr(PD, ALL_RIGHTS, to, 8 * len);
	for (i = 0; i < 8; i++)
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_READ, .wr_id = i, .remote = from,
			.rkey = key_from, SGE(to + i * len, len, key_to),
		});
	ring_send(&p.qp[0]);
	for (i = 0; i < 8; i++)
		expect_cqe(&p.cq[0], i, MOOR_WC_SUCCESS, 0);
	for (i = 0; i < 8; i++)
		expect(same(from, to + i * len, len), "READ %u: the data", i);
}

/* ---- after an error ---- */

TEST_CASE(flush, "all later WQEs of both queues are flushed, in order",
	  "RC-12 RC-13 RC-18 SYN-1 CQ-19", 0)
{
	struct pair p;
	unsigned int i, sends = 0, receives = 0;

	make_pair(&p);
	for (i = 0; i < 6; i++)
		post_recv(&p.qp[0], 100 + i, p.buf[0], 64, p.key[0]);
	for (i = 0; i < 6; i++) {
		struct send_wr wr = { .opcode = i ? MOOR_WQE_WRITE : 0x7f,
				 .wr_id = i };

		put_send(&p.qp[0], &wr);
	}
	ring_send(&p.qp[0]);
	for (i = 0; i < 12; i++) {
		struct moor_cqe cqe = wait_cqe(&p.cq[0]);

		if (cqe.opcode & 0x80)
			expect(cqe.wr_id == 100 + receives++ &&
			       cqe.status == MOOR_WC_WR_FLUSH_ERR,
			       "receive %llu, status %u",
			       (unsigned long long)cqe.wr_id, cqe.status);
		else
			expect(cqe.wr_id == sends++ &&
			       cqe.status == (cqe.wr_id ? MOOR_WC_WR_FLUSH_ERR :
					      MOOR_WC_LOC_QP_OP_ERR),
			       "send %llu, status %u",
			       (unsigned long long)cqe.wr_id, cqe.status);
	}
	about("posted in ERR");
	expect(query_qp(&p.qp[0]).state == MOOR_QPS_ERR, "not in ERR");
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE, .wr_id = 50 });
	expect_cqe(&p.cq[0], 50, MOOR_WC_WR_FLUSH_ERR, 0);
	post_send(&p.qp[0], (struct send_wr){ .opcode = 0x7f, .wr_id = 52 });
	expect_cqe(&p.cq[0], 52, MOOR_WC_WR_FLUSH_ERR, 0);
	post_recv(&p.qp[0], 51, p.buf[0], 64, p.key[0]);
	expect_cqe(&p.cq[0], 51, MOOR_WC_WR_FLUSH_ERR, 0);
}

TEST_CASE(flush_by_command, "MODIFY_QP to ERR flushes what there is", "RC-13 RC-18 QP-14",
	  0)
{
	struct pair p;
	unsigned int i;

	make_pair(&p);
	connect_with(&p, 20, 7, 14, 7);
	for (i = 0; i < 3; i++)
		post_send(&p.qp[0], send_of(&p, 64));
	post_recv(&p.qp[0], 8, p.buf[0], 64, p.key[0]);
	expect_no_cqe(&p.cq[0]);
	must_modify(&p.qp[0], to_state(MOOR_QPS_ERR));
	for (i = 0; i < 4; i++) {
		struct moor_cqe cqe = wait_cqe(&p.cq[0]);

		expect(cqe.status == MOOR_WC_WR_FLUSH_ERR, "status %u",
		       cqe.status);
	}
	/* The peer's messages reach no QP. */
	post_send(&p.qp[1], (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	connect_with(&p, 1, 2, 6, 2);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 64, true);
}
