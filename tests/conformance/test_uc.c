// SPDX-License-Identifier: GPL-2.0
/* Unreliable connections (HWI 12.3). */
#include <string.h>

#include "traffic.h"

/* As make_pair(), with UC QPs. */
static void make_uc_pair(struct pair *p)
{
	unsigned int i;

	at_least(max_cq, 2);
	at_least(max_mr_size, BUF);
	memset(p, 0, sizeof(*p));
	for (i = 0; i < 2; i++) {
		struct moor_cmd_create_qp cmd;

		make_cq(&p->cq[i], i, LOG_DEPTH + 1);
		cmd = qp_command(&p->qp[i], &p->cq[i], &p->cq[i]);
		cmd.type = MOOR_QP_UC;
		must(cmd);
		p->buf[i] = take_filled(BUF, i + 1);
		p->key[i] = make_mr(PD, ALL_RIGHTS, p->buf[i], BUF);
	}
	reconnect(p);
}

static struct send_wr uc_wr(const struct pair *p, uint8_t opcode, uint32_t len)
{
	return (struct send_wr){
		.opcode = opcode, .wr_id = 6, .imm = 0x4711,
		.remote = p->buf[1], .rkey = p->key[1],
		SGE(p->buf[0], len, p->key[0]),
	};
}

/* Sends @wr: whether it arrives or not, its CQE is a success. */
static void send_away(struct pair *p, struct send_wr wr)
{
	post_send(&p->qp[0], wr);
	expect_cqe(&p->cq[0], 6, MOOR_WC_SUCCESS, 0);
}

/*
 * Waits till all that was sent has come to the responder, in whatever time that takes: its
 * PSN moves on with what it drops, too (UC-5).
 */
static void arrives(const struct pair *p)
{
	wait_until(query_qp(&p->qp[1]).rq_psn == query_qp(&p->qp[0]).sq_psn);
}

/* For what nobody can wait for; a device that takes more time is not held to be wrong. */
static void rest(void)
{
	uint64_t end = now_ns() + 200000000;

	while (now_ns() < end)
		breathe();
}

/* @wr has no effect at the responder, which stays in RTS. */
static void is_dropped(struct pair *p, struct send_wr wr)
{
	send_away(p, wr);
	arrives(p);
	expect_no_cqe(&p->cq[1]);
	expect_no_event(MOOR_EQ_ASYNC);
	expect(query_qp(&p->qp[1]).state == MOOR_QPS_RTS,
	       "the responder is not in RTS");
}

static void expect_message(struct pair *p, uint8_t opcode, uint64_t wr_id,
			   uint32_t len)
{
	struct moor_cqe cqe;

	fill(p->buf[0], BUF, (unsigned int)wr_id + 20);
	memset(at(p->buf[1]), 0, BUF);
	send_away(p, uc_wr(p, opcode, len));
	cqe = expect_cqe(&p->cq[1], wr_id, MOOR_WC_SUCCESS, 0);
	expect(cqe.byte_len == len, "%u bytes", cqe.byte_len);
	expect(is_filled(p->buf[1], len, (unsigned int)wr_id + 20) &&
	       is_all(p->buf[1] + len, BUF - len, 0), "the data");
	if (opcode == MOOR_WQE_SEND_IMM || opcode == MOOR_WQE_WRITE_IMM)
		expect(cqe.flags & MOOR_CQE_FLAG_IMM && cqe.imm == 0x4711,
		       "immediate data 0x%x", cqe.imm);
}

TEST_CASE(uc_established, "UC: COMM_EST is for a message that is dropped as well, once",
	  "EV-10 UC-3", HAS(UC))
{
	struct pair p;

	make_uc_pair(&p);
	reset_qp(&p.qp[1]);
	must_modify(&p.qp[1], to_init());
	must_modify(&p.qp[1], to_rtr(p.qp[0].qpn));
	drop_events(MOOR_EQ_ASYNC);
	about("a SEND without a receive");
	send_away(&p, uc_wr(&p, MOOR_WQE_SEND, 64));
	expect_event(MOOR_EVENT_COMM_EST, p.qp[1].qpn);
	about("one that has a receive");
	post_recv(&p.qp[1], 1, p.buf[1], BUF, p.key[1]);
	expect_message(&p, MOOR_WQE_SEND, 1, 64);
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(uc_messages, "UC: what there is arrives, of every length", "UC-1 UC-2",
	  HAS(UC))
{
	static const uint8_t opcodes[] = { MOOR_WQE_SEND, MOOR_WQE_SEND_IMM,
					   MOOR_WQE_WRITE_IMM };
	static const uint32_t lengths[] = { 0, 1, 1024, 1025, 5000, BUF };
	unsigned int i, j;
	struct pair p;

	make_uc_pair(&p);
	for (i = 0; i < 3; i++) {
		for (j = 0; j < 6; j++) {
			if (lengths[j] > dev.max_msg_size)
				break;
			about("opcode %u, %u bytes", opcodes[i], lengths[j]);
			post_recv(&p.qp[1], i * 6 + j, p.buf[1], BUF, p.key[1]);
			expect_message(&p, opcodes[i], i * 6 + j, lengths[j]);
		}
	}
	about("WRITE");
	fill(p.buf[0], BUF, 70);
	send_away(&p, uc_wr(&p, MOOR_WQE_WRITE, longest(5000)));
	expect(wait_until(is_filled(p.buf[1], longest(5000), 70)), "the data");
	expect_no_cqe(&p.cq[1]);
}

TEST_CASE(uc_opcodes, "UC: opcodes that it does not have are malformed", "UC-1 RC-5",
	  HAS(UC))
{
	static const uint8_t opcodes[] = { MOOR_WQE_READ, MOOR_WQE_CMP_SWAP,
					   MOOR_WQE_FETCH_ADD, MOOR_WQE_SEND_INV,
					   MOOR_WQE_REG_MR };
	struct pair p;
	unsigned int i;

	make_uc_pair(&p);
	for (i = 0; i < 5; i++) {
		about("opcode %u", opcodes[i]);
		post_send(&p.qp[0], uc_wr(&p, opcodes[i], 8));
		expect_cqe(&p.cq[0], 6, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
		expect(query_qp(&p.qp[1]).state == MOOR_QPS_RTS,
		       "the responder is not in RTS");
		reconnect(&p);
	}
	expect(is_filled(p.buf[1], BUF, 2), "something is written");
}

TEST_CASE(uc_windows, "UC: windows are bound and invalidated", "UC-1 UC-3",
	  HAS(MW_TYPE_2B))
{
	uint32_t window, key;
	struct send_wr wr;
	struct pair p;

	skip_unless(dev.features & MOOR_FEATURE_UC);
	make_uc_pair(&p);
	window = make_window(PD, MOOR_MRC_TYPE_MW_2);
	key = (window & ~0xffu) | ((window + 1) & 0xff);
	post_send(&p.qp[1], (struct send_wr){
		.opcode = MOOR_WQE_BIND_MW, .wr_id = 9, .bind = {
			.mw_key = window, .new_key = key,
			.mr_lkey = p.key[1], .access = MOOR_ACCESS_REMOTE_WRITE,
			.addr = p.buf[1], .length = 4096,
		},
	});
	expect_cqe(&p.cq[1], 9, MOOR_WC_SUCCESS, 0);
	wr = uc_wr(&p, MOOR_WQE_WRITE, 4096);
	wr.rkey = key;
	send_away(&p, wr);
	expect(wait_until(is_filled(p.buf[1], 4096, 1)), "through the window: the data");
	post_send(&p.qp[1], (struct send_wr){
		.opcode = MOOR_WQE_LOCAL_INV, .wr_id = 10, .inv_key = key,
	});
	expect_cqe(&p.cq[1], 10, MOOR_WC_SUCCESS, 0);
	fill(p.buf[0], BUF, 33);
	is_dropped(&p, wr);
	expect(is_filled(p.buf[1], 4096, 1), "it is written without the window");
}

TEST_CASE(uc_nobody, "UC: nothing is acknowledged, and nobody has to be there", "UC-2",
	  HAS(UC))
{
	struct send_wr wr;
	struct pair p;

	make_uc_pair(&p);
	reset_qp(&p.qp[1]);
	send_away(&p, uc_wr(&p, MOOR_WQE_SEND, 64));
	send_away(&p, uc_wr(&p, MOOR_WQE_WRITE, 64));
	settle();
	expect(query_qp(&p.qp[0]).state == MOOR_QPS_RTS,
	       "the requester is not in RTS");
	expect(is_filled(p.buf[1], BUF, 2), "something is written");
	about("a local key");
	wr = uc_wr(&p, MOOR_WQE_SEND, 64);
	wr.sge[0].lkey ^= 1;
	post_send(&p.qp[0], wr);
	expect_cqe(&p.cq[0], 6, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_KEY);
	expect(reaches_state(&p.qp[0], MOOR_QPS_ERR), "not in ERR");
}

TEST_CASE(uc_error, "UC: an error of its own leads to ERR, and to SQE never",
	  "UC-6 RC-12 RC-13 QP-12", HAS(UC))
{
	struct send_wr good, bad;
	struct pair p;

	make_uc_pair(&p);
	bad = uc_wr(&p, MOOR_WQE_SEND, 64);
	good = bad;
	good.wr_id = 7;
	bad.sge[0].lkey ^= 1;
	post_recv(&p.qp[0], 8, p.buf[0], 64, p.key[0]);
	put_send(&p.qp[0], &bad);
	put_send(&p.qp[0], &good);
	ring_send(&p.qp[0]);
	expect_cqe(&p.cq[0], 6, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_KEY);
	expect_cqe(&p.cq[0], 7, MOOR_WC_WR_FLUSH_ERR, 0);
	expect_cqe(&p.cq[0], 8, MOOR_WC_WR_FLUSH_ERR, 0);
	expect(query_qp(&p.qp[0]).state == MOOR_QPS_ERR, "not in ERR");
	expect(modify(&p.qp[0], to_state(MOOR_QPS_RTS)) == MOOR_CMD_BAD_STATE,
	       "there is a way to RTS");
}

TEST_CASE(uc_attributes, "UC: what answers need may be set, and is for nothing", "UC-7",
	  HAS(UC))
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_MAX_RD_ATOMIC |
			MOOR_QP_ATTR_MAX_DEST_RD_ATOMIC |
			MOOR_QP_ATTR_MIN_RNR_TIMER | MOOR_QP_ATTR_TIMEOUT |
			MOOR_QP_ATTR_RETRY_CNT | MOOR_QP_ATTR_RNR_RETRY,
		.max_rd_atomic = 1, .max_dest_rd_atomic = 1, .min_rnr_timer = 1,
		.timeout = 1, .retry_cnt = 1, .rnr_retry = 1,
	};
	struct pair p;

	make_uc_pair(&p);
	must_modify(&p.qp[0], cmd);
	must_modify(&p.qp[1], cmd);
	about("no receive");
	is_dropped(&p, uc_wr(&p, MOOR_WQE_SEND, 64));
	post_recv(&p.qp[1], 1, p.buf[1], BUF, p.key[1]);
	expect_message(&p, MOOR_WQE_SEND, 1, 5000);
}

TEST_CASE(uc_dropped, "UC: what finds no place is dropped, and its receive serves the next",
	  "UC-3", HAS(UC))
{
	struct send_wr wr;
	struct pair p;

	make_uc_pair(&p);
	about("no receive");
	is_dropped(&p, uc_wr(&p, MOOR_WQE_SEND, 64));
	is_dropped(&p, uc_wr(&p, MOOR_WQE_WRITE_IMM, 64));
	post_recv(&p.qp[1], 1, p.buf[1], 64, p.key[1]);
	expect_no_cqe(&p.cq[1]);
	about("longer than the receive");
	is_dropped(&p, uc_wr(&p, MOOR_WQE_SEND, 65));
	expect_message(&p, MOOR_WQE_SEND, 1, 64);
	about("a remote key");
	wr = uc_wr(&p, MOOR_WQE_WRITE, 64);
	wr.rkey ^= 1;
	fill(p.buf[1], BUF, 2);
	is_dropped(&p, wr);
	post_recv(&p.qp[1], 2, p.buf[1], 64, p.key[1]);
	wr.opcode = MOOR_WQE_WRITE_IMM;
	is_dropped(&p, wr);
	about("a remote range that is absent half-way");
	wr.rkey = make_torn_mr(true, p.buf[1] + 8192);
	wr.remote = TORN_IOVA;
	wr.sge[0].length = 3 * PAGE;
	is_dropped(&p, wr);
	expect(is_filled(p.buf[1], 8192, 2), "something is written");
	expect_message(&p, MOOR_WQE_WRITE_IMM, 2, 3000);
}

TEST_CASE(uc_half_way, "UC: a message that ends half-way is dropped, its receive is not",
	  "UC-3 UC-2 RC-28 ACC-15", HAS(UC))
{
	struct send_wr wr;
	struct pair p;

	make_uc_pair(&p);
	post_recv(&p.qp[1], 1, p.buf[1], BUF, p.key[1]);
	wr = uc_wr(&p, MOOR_WQE_SEND, 3 * PAGE);
	wr.sge[0].lkey = make_torn_mr(true, p.buf[0]);
	wr.sge[0].addr = TORN_IOVA;
	post_send(&p.qp[0], wr);
	expect_cqe(&p.cq[0], 6, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_TRANSLATION);
	expect_no_cqe(&p.cq[1]);
	reset_qp(&p.qp[0]);
	connect_qp(&p.qp[0], p.qp[1].qpn);
	about("the next one finds its memory registered anew");
	rest();
	register_anew(p.key[1], PD, ALL_RIGHTS, p.buf[1], BUF);
	expect_message(&p, MOOR_WQE_SEND, 1, 100);
}

TEST_CASE(uc_any_psn, "UC: a message begins at any PSN, and one that is lost costs no other",
	  "UC-5", HAS(UC))
{
	struct moor_cmd_modify_qp rtr;
	uint32_t packets = 3, psn;
	struct pair p;

	make_uc_pair(&p);
	about("before the responder is there");
	reset_qp(&p.qp[1]);
	must_modify(&p.qp[1], to_init());
	post_recv(&p.qp[1], 1, p.buf[1], BUF, p.key[1]);
	send_away(&p, uc_wr(&p, MOOR_WQE_SEND, 64));
	rest();
	rtr = to_rtr(p.qp[0].qpn);
	rtr.rq_psn = 0x4000;
	must_modify(&p.qp[1], rtr);
	must_modify(&p.qp[1], to_rts());
	about("another PSN than the one that it expects");
	expect_message(&p, MOOR_WQE_SEND, 1, 64);
	psn = query_qp(&p.qp[0]).sq_psn;
	arrives(&p);
	expect(query_qp(&p.qp[1]).rq_psn == psn, "PSN 0x%x is expected, not 0x%x",
	       query_qp(&p.qp[1]).rq_psn, psn);
	about("a message that is dropped");
	is_dropped(&p, uc_wr(&p, MOOR_WQE_SEND, packets * 1024));
	expect(query_qp(&p.qp[1]).rq_psn == psn + packets,
	       "PSN 0x%x is expected, not 0x%x", query_qp(&p.qp[1]).rq_psn,
	       psn + packets);
	post_recv(&p.qp[1], 2, p.buf[1], BUF, p.key[1]);
	expect_message(&p, MOOR_WQE_SEND, 2, 5000);
}

TEST_CASE(uc_own_fault, "UC: the responder fails by its own receives, and nobody is told",
	  "UC-4 RC-29", HAS(UC))
{
	struct moor_sge sge = { .length = 64 };
	struct moor_rq_wqe *raw;
	struct send_wr wr;
	struct pair p;

	make_uc_pair(&p);
	about("a receive SGE");
	post_recv(&p.qp[1], 1, p.buf[1], 64, p.key[1] ^ 1);
	send_away(&p, uc_wr(&p, MOOR_WQE_SEND, 64));
	expect_cqe(&p.cq[1], 1, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_KEY);
	expect(reaches_state(&p.qp[1], MOOR_QPS_ERR), "not in ERR");
	expect_no_event(MOOR_EQ_ASYNC);
	expect(query_qp(&p.qp[0]).state == MOOR_QPS_RTS,
	       "the requester is not in RTS");

	about("a malformed receive");
	reconnect(&p);
	put_recv(&p.qp[1], 2, &sge, 1);
	raw = at(p.qp[1].rq);
	raw->num_sge = 255;
	ring_recv(&p.qp[1]);
	send_away(&p, uc_wr(&p, MOOR_WQE_SEND, 64));
	expect_cqe(&p.cq[1], 2, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	expect(reaches_state(&p.qp[1], MOOR_QPS_ERR), "not in ERR");
	expect_no_event(MOOR_EQ_ASYNC);

	about("a malformed receive, after a WRITE_IMM that was refused");
	reconnect(&p);
	put_recv(&p.qp[1], 3, &sge, 1);
	raw = at(p.qp[1].rq);
	raw->num_sge = 255;
	ring_recv(&p.qp[1]);
	wr = uc_wr(&p, MOOR_WQE_WRITE_IMM, 64);
	wr.rkey ^= 1;
	is_dropped(&p, wr);
	send_away(&p, uc_wr(&p, MOOR_WQE_SEND, 64));
	expect_cqe(&p.cq[1], 3, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	expect(reaches_state(&p.qp[1], MOOR_QPS_ERR), "not in ERR");

	about("a producer index that makes no sense");
	reconnect(&p);
	store_slot(p.qp[1].rq_slot, DEPTH + 1);
	send_away(&p, uc_wr(&p, MOOR_WQE_SEND, 64));
	expect_event(MOOR_EVENT_QP_FATAL, p.qp[1].qpn);
	expect(reaches_state(&p.qp[1], MOOR_QPS_ERR), "not in ERR");
	expect(query_qp(&p.qp[0]).state == MOOR_QPS_RTS,
	       "the requester is not in RTS");
}
