// SPDX-License-Identifier: GPL-2.0
/* MODIFY_QP, QUERY_QP, DESTROY_QP: states and attributes (HWI 8.4). */
#include <string.h>

#include "traffic.h"

#define NUM_STATES	(MOOR_QPS_ERR + 1)

/* Brings a QP to a state; software cannot bring an RC QP to SQE. */
static void bring_to(struct qp *qp, enum moor_qp_state state)
{
	reset_qp(qp);
	if (state == MOOR_QPS_RESET)
		return;
	must_modify(qp, to_init());
	if (state == MOOR_QPS_INIT)
		return;
	must_modify(qp, to_rtr(qp->qpn));
	if (state == MOOR_QPS_RTR)
		return;
	must_modify(qp, to_rts());
	if (state == MOOR_QPS_RTS)
		return;
	must_modify(qp, to_state(state));
}

static struct moor_cmd_modify_qp transition(const struct qp *qp,
					    enum moor_qp_state from,
					    enum moor_qp_state to)
{
	if (to == MOOR_QPS_INIT)
		return to_init();
	if (to == MOOR_QPS_RTR)
		return to_rtr(qp->qpn);
	if (to == MOOR_QPS_RTS && from == MOOR_QPS_RTR)
		return to_rts();
	return to_state(to);
}

TEST_CASE(transitions, "every transition that IBA has, and no other",
	  "QP-2 QP-3 QP-12 CMD-13 CMD-18 CMD-30", 0)
{
	/* By the state before; bit n: to state n. */
	static const uint8_t allowed[NUM_STATES] = {
		[MOOR_QPS_RESET] = 1u << MOOR_QPS_RESET | 1u << MOOR_QPS_INIT |
				   1u << MOOR_QPS_ERR,
		[MOOR_QPS_INIT] = 1u << MOOR_QPS_RESET | 1u << MOOR_QPS_INIT |
				  1u << MOOR_QPS_RTR | 1u << MOOR_QPS_ERR,
		[MOOR_QPS_RTR] = 1u << MOOR_QPS_RESET | 1u << MOOR_QPS_RTS |
				 1u << MOOR_QPS_ERR,
		[MOOR_QPS_RTS] = 1u << MOOR_QPS_RESET | 1u << MOOR_QPS_RTS |
				 1u << MOOR_QPS_SQD | 1u << MOOR_QPS_ERR,
		[MOOR_QPS_SQD] = 1u << MOOR_QPS_RESET | 1u << MOOR_QPS_RTS |
				 1u << MOOR_QPS_SQD | 1u << MOOR_QPS_ERR,
		[MOOR_QPS_ERR] = 1u << MOOR_QPS_RESET | 1u << MOOR_QPS_ERR,
	};
	unsigned int from, to;
	struct cq cq;
	struct qp qp;

	make_cq(&cq, 0, 4);
	make_qp(&qp, &cq, &cq);
	for (from = 0; from < NUM_STATES; from++) {
		for (to = 0; to < NUM_STATES; to++) {
			uint8_t status, due;

			if (from == MOOR_QPS_SQE)
				continue;
			about("%u to %u", from, to);
			bring_to(&qp, from);
			expect(query_qp(&qp).state == from, "not there");
			status = modify(&qp, transition(&qp, from, to));
			due = allowed[from] >> to & 1 ? MOOR_CMD_OK :
							MOOR_CMD_BAD_STATE;
			expect(status == due, "status %u where %u was due",
			       status, due);
			expect(query_qp(&qp).state == (due ? from : to),
			       "state %u", query_qp(&qp).state);
		}
	}
}

TEST_CASE(attributes, "attributes out of range are refused",
	  "QP-2 QP-11 CMD-10 CMD-11 CMD-17 CMD-18", 0)
{
	struct moor_cmd_modify_qp cmd;
	struct cq cq;
	struct qp qp;

	make_cq(&cq, 0, 4);
	make_qp(&qp, &cq, &cq);
#define BAD(good, field, value)						\
	do {								\
		cmd = good;						\
		cmd.hdr.opcode = MOOR_CMD_MODIFY_QP;			\
		cmd.qpn = qp.qpn;					\
		cmd.field = value;					\
		refused(cmd, MOOR_CMD_BAD_PARAM, field,			\
			#field " = " #value);				\
	} while (0)
	BAD(to_init(), access, 0x80);
	BAD(to_init(), access, MOOR_ACCESS_LOCAL_WRITE);
	BAD(to_init(), access, MOOR_ACCESS_MW_BIND);
	BAD(to_init(), access_high, 4);
	BAD(to_init(), access_high, 0x83);
	BAD(to_init(), state, 7);
	BAD(to_init(), state, 0xff);
	BAD(to_init(), mask, 1u << 31);
	must_modify(&qp, to_init());
	BAD(to_rtr(1), path_mtu, 0);
	BAD(to_rtr(1), path_mtu, 6);
	BAD(to_rtr(1), path_mtu, 0xff);
	BAD(to_rtr(1), min_rnr_timer, 32);
	if (dev.max_rd_atomic < 255)
		BAD(to_rtr(1), max_dest_rd_atomic, (uint8_t)(dev.max_rd_atomic + 1));
	BAD(to_rtr(1), sgid_index, (uint8_t)dev.max_gid);
	BAD(to_rtr(1), dest_qpn, 1u << 24);
	BAD(to_rtr(1), flow_label, 1u << 20);
	BAD(to_rtr(1), rq_psn, 1u << 24);
	must_modify(&qp, to_rtr(1));
	BAD(to_rts(), sq_psn, 1u << 24);
	if (dev.max_rd_atomic < 255)
		BAD(to_rts(), max_rd_atomic, (uint8_t)(dev.max_rd_atomic + 1));
	BAD(to_rts(), timeout, 32);
	BAD(to_rts(), retry_cnt, 8);
	BAD(to_rts(), rnr_retry, 8);
#undef BAD
	expect(query_qp(&qp).state == MOOR_QPS_RTR, "a refused one has had effect");
	must_modify(&qp, to_rts());
	cmd = to_init();
	cmd.hdr.opcode = MOOR_CMD_MODIFY_QP;
	cmd.qpn = qp.qpn ^ 1;
	refused(cmd, MOOR_CMD_BAD_INDEX, qpn, "another QP");
	cmd = (struct moor_cmd_modify_qp){
		.hdr.opcode = MOOR_CMD_MODIFY_QP, .qpn = qp.qpn, .reserved1 = 1,
	};
	refused(cmd, MOOR_CMD_BAD_RESERVED, reserved1, "the reserved byte");
}

TEST_CASE(query_states, "QUERY_QP: state, PSNs, indices", "QP-3 QP-15 CMD-12 VER-4", 0)
{
	struct moor_cmd_query_qp cmd = { .hdr.opcode = MOOR_CMD_QUERY_QP };
	struct moor_cpl_query_qp out;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 3; i++)
		post_recv(&p.qp[1], i, p.buf[1], BUF, p.key[1]);
	for (i = 0; i < 3; i++) {
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_SEND,
			SGE(p.buf[0], i ? 100 : 2500, p.key[0]),
		});
		wait_cqe(&p.cq[0]);
		wait_cqe(&p.cq[1]);
	}
	/* 2,500 bytes are three packets of 1,024. */
	out = query_qp(&p.qp[0]);
	expect(out.state == MOOR_QPS_RTS && out.sq_consumer == 3 &&
	       !out.rq_consumer && out.sq_psn == 0x123 + 5 && !out.sq_draining &&
	       !out.reserved1 && out.rq_psn == 0x123,
	       "requester: state %u, consumer %u, PSN 0x%x", out.state,
	       out.sq_consumer, out.sq_psn);
	out = query_qp(&p.qp[1]);
	expect(!out.sq_consumer && out.rq_consumer == 3 &&
	       out.rq_psn == 0x123 + 5, "responder: consumer %u, PSN 0x%x",
	       out.rq_consumer, out.rq_psn);
	cmd.qpn = ~0u;
	refused(cmd, MOOR_CMD_BAD_INDEX, qpn, "no such number");
	cmd.qpn = p.qp[0].qpn ^ 1u << 23;
	refused(cmd, MOOR_CMD_BAD_INDEX, qpn, "its index, another number");
}

TEST_CASE(query_psn, "QUERY_QP: a message that has begun has all of its PSNs, another none",
	  "QP-15 RC-2 RC-5 RC-28", 0)
{
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 3; i++) {
		static const uint32_t due[] = { 0, 0, 3 * PAGE / 1024 };
		struct send_wr wr = {
			.opcode = i ? MOOR_WQE_WRITE : 0xff,
			.remote = p.buf[1], .rkey = p.key[1],
			SGE(p.buf[0], 3 * PAGE, p.key[0]),
		};
		uint32_t psn = query_qp(&p.qp[0]).sq_psn;

		about("%s", !i ? "malformed" : i == 1 ? "a key" : "half-way");
		if (i == 1)
			wr.sge[0].lkey ^= 1;
		else if (i == 2)
			wr.sge[0] = (struct moor_sge){
				TORN_IOVA, 3 * PAGE, make_torn_mr(true, p.buf[0]),
			};
		put_send(&p.qp[0], &wr);
		wr.opcode = MOOR_WQE_WRITE;
		put_send(&p.qp[0], &wr);
		ring_send(&p.qp[0]);
		expect_cqe(&p.cq[0], 0, i ? MOOR_WC_LOC_PROT_ERR :
			   MOOR_WC_LOC_QP_OP_ERR, i == 2 ? MOOR_SYN_TRANSLATION :
			   i ? MOOR_SYN_KEY : MOOR_SYN_WQE);
		expect_cqe(&p.cq[0], 0, MOOR_WC_WR_FLUSH_ERR, 0);
		expect(query_qp(&p.qp[0]).sq_psn == psn + due[i],
		       "PSN 0x%x, before 0x%x", query_qp(&p.qp[0]).sq_psn, psn);
		reconnect(&p);
	}
}

TEST_CASE(without_state, "attributes alone may be set in every state", "QP-17 QP-12", 0)
{
	static const enum moor_qp_state states[] = {
		MOOR_QPS_RESET, MOOR_QPS_INIT, MOOR_QPS_RTR, MOOR_QPS_RTS,
		MOOR_QPS_SQD, MOOR_QPS_ERR,
	};
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_ACCESS | MOOR_QP_ATTR_MIN_RNR_TIMER |
			MOOR_QP_ATTR_SQ_PSN | MOOR_QP_ATTR_RQ_PSN,
		.access = MOOR_ACCESS_REMOTE_READ, .min_rnr_timer = 3,
	};
	enum moor_qp_state from = MOOR_QPS_RESET;
	struct moor_cpl_query_qp out;
	unsigned int i;
	struct cq cq;
	struct qp qp;

	make_cq(&cq, 0, 4);
	make_qp(&qp, &cq, &cq);
	for (i = 0; i < 6; i++) {
		about("state %u", states[i]);
		if (i)
			must_modify(&qp, transition(&qp, from, states[i]));
		from = states[i];
		cmd.sq_psn = 100 + i;
		cmd.rq_psn = 200 + i;
		must_modify(&qp, cmd);
		out = query_qp(&qp);
		expect(out.state == states[i] && out.sq_psn == 100 + i &&
		       out.rq_psn == 200 + i, "state %u, PSNs %u and %u",
		       out.state, out.sq_psn, out.rq_psn);
	}
}

TEST_CASE(to_reset, "to RESET: both queues empty, indices and slots zero",
	  "QP-2 QP-13 DB-10", 0)
{
	struct moor_cpl_query_qp out;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 5; i++) {
		post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE });
		wait_cqe(&p.cq[0]);
		post_recv(&p.qp[0], i, p.buf[0], 64, p.key[0]);
	}
	reset_qp(&p.qp[0]);
	out = query_qp(&p.qp[0]);
	expect(out.state == MOOR_QPS_RESET && !out.sq_consumer &&
	       !out.rq_consumer, "state %u, consumers %u and %u", out.state,
	       out.sq_consumer, out.rq_consumer);
	expect(!bar_read64(MOOR_BAR_DB, p.qp[0].sq_slot * 8ull) &&
	       !bar_read64(MOOR_BAR_DB, p.qp[0].rq_slot * 8ull),
	       "the slots are not zero");
	expect_no_cqe(&p.cq[0]);
	/* Receives that were posted before are gone. */
	connect_qp(&p.qp[0], p.qp[1].qpn);
	reset_qp(&p.qp[1]);
	connect_qp(&p.qp[1], p.qp[0].qpn);
	post_recv(&p.qp[0], 77, p.buf[0], 64, p.key[0]);
	post_send(&p.qp[1], (struct send_wr){ .opcode = MOOR_WQE_SEND });
	expect_cqe(&p.cq[0], 77, MOOR_WC_SUCCESS, 0);
}

TEST_CASE(destroyed, "after DESTROY_QP: no access, no CQE, no effect of its slots",
	  "QP-4 CQ-2 DB-4", 0)
{
	unsigned int round, i;
	struct moor_cqe cqe;
	struct pair p;

	for (round = 0; round < 10; round++) {
		host_begin();
		make_pair(&p);
		post_recv(&p.qp[0], 1, p.buf[0], 64, p.key[0]);
		for (i = 0; i < DEPTH; i++)
			put_send(&p.qp[0], &(struct send_wr){
				.opcode = i & 1 ? MOOR_WQE_WRITE : MOOR_WQE_READ,
				.remote = p.buf[1], .rkey = p.key[1],
				SGE(p.buf[0], BUF, p.key[0]),
			});
		ring_send(&p.qp[0]);
		for (i = 0; i < round * 40; i++)
			peek_cqe(&p.cq[0], &cqe);
		destroy_qp(&p.qp[0]);
		memset(at(p.buf[0]), 0xaa, BUF);
		memset(at(p.buf[1]), 0xaa, BUF);
		while (poll_cqe(&p.cq[0], &cqe))
			;
		ring_slot(p.qp[0].sq_slot, DEPTH + 1);
		settle();
		expect(is_all(p.buf[0], BUF, 0xaa) && is_all(p.buf[1], BUF, 0xaa),
		       "round %u: access afterwards", round);
		expect(!peek_cqe(&p.cq[0], &cqe), "round %u: a CQE afterwards",
		       round);
	}
}

TEST_CASE(masked, "fields that the mask does not name are not looked at",
	  "QP-7 QP-8 CMD-29", 0)
{
	struct moor_cmd_modify_qp cmd;
	struct pair p;

	make_pair(&p);
	memset(&cmd, 0xff, sizeof(cmd));
	memset(&cmd.hdr, 0, sizeof(cmd.hdr));
	cmd.reserved1 = 0;
	cmd.mask = 0;
	must_modify(&p.qp[0], cmd);
	cmd.mask = MOOR_QP_ATTR_ACCESS;
	cmd.access = MOOR_ACCESS_REMOTE_READ;
	cmd.access_high = 0;
	must_modify(&p.qp[1], cmd);
	expect_remote(&p, MOOR_WQE_READ, p.key[1], p.buf[1], 64, true);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 64, false);
	cmd.mask = 0;
	must_modify(&p.qp[1], cmd);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 64, true);
}

TEST_CASE(defaults, "what was never named has its default; new values hold for later messages",
	  "QP-9 QP-10", 0)
{
	struct moor_cmd_modify_qp rtr;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 2; i++) {
		reset_qp(&p.qp[i]);
		must_modify(&p.qp[i], to_state(MOOR_QPS_INIT));
		rtr = to_rtr(p.qp[!i].qpn);
		rtr.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_PATH |
			   MOOR_QP_ATTR_DEST_QPN;
		must_modify(&p.qp[i], rtr);
		must_modify(&p.qp[i], to_state(MOOR_QPS_RTS));
	}
	about("PSN 0, a path MTU of 256");
	post_recv(&p.qp[1], 1, p.buf[1], 1000, p.key[1]);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND, SGE(p.buf[0], 1000, p.key[0]),
	});
	expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[1], 1, MOOR_WC_SUCCESS, 0);
	expect(query_qp(&p.qp[0]).sq_psn == 4, "the next PSN is %u",
	       query_qp(&p.qp[0]).sq_psn);
	about("no RNR retries");
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_SEND });
	expect_cqe(&p.cq[0], 0, MOOR_WC_RNR_RETRY_EXC_ERR, 0);
	about("no rights");
	must_modify(&p.qp[0], to_state(MOOR_QPS_RESET));
	p.qp[0].sq_producer = 0;
	connect_qp(&p.qp[0], p.qp[1].qpn);
	must_modify(&p.qp[0], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_SQ_PSN, .sq_psn = 4,
	});
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	expect(wait_cqe(&p.cq[0]).status, "a WRITE is allowed");
}

TEST_CASE(named_in_reset, "what is named in RESET stays, but not what comes with RESET",
	  "QP-18 QP-17", 0)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_RQ_PSN | MOOR_QP_ATTR_SQ_PSN,
		.rq_psn = 0x111, .sq_psn = 0x222,
	};
	struct moor_cpl_query_qp out;
	struct pair p;

	make_pair(&p);
	reset_qp(&p.qp[0]);
	must_modify(&p.qp[0], cmd);
	must_modify(&p.qp[0], to_state(MOOR_QPS_INIT));
	out = query_qp(&p.qp[0]);
	expect(out.rq_psn == 0x111 && out.sq_psn == 0x222,
	       "PSNs 0x%x and 0x%x in INIT", out.rq_psn, out.sq_psn);
	cmd.mask |= MOOR_QP_ATTR_STATE;
	cmd.state = MOOR_QPS_RESET;
	must_modify(&p.qp[0], cmd);
	out = query_qp(&p.qp[0]);
	expect(!out.rq_psn && !out.sq_psn, "PSNs 0x%x and 0x%x with RESET",
	       out.rq_psn, out.sq_psn);
}

TEST_CASE(to_error, "after the command to ERR a QP moves no data, either way",
	  "QP-14 RC-32", 0)
{
	unsigned int round, i, side;
	struct moor_cqe cqe;
	struct pair p;

	make_pair(&p);
	for (round = 0; round < 12; round++) {
		side = round & 1;
		about("round %u", round);
		for (i = 0; i < DEPTH; i++)
			put_send(&p.qp[0], &(struct send_wr){
				.opcode = i & 2 ? MOOR_WQE_WRITE : MOOR_WQE_READ,
				.remote = p.buf[1], .rkey = p.key[1],
				SGE(p.buf[0], BUF, p.key[0]),
			});
		ring_send(&p.qp[0]);
		for (i = 0; i < round * 30; i++)
			peek_cqe(&p.cq[0], &cqe);
		must_modify(&p.qp[side], to_state(MOOR_QPS_ERR));
		memset(at(p.buf[0]), 0xaa, BUF);
		memset(at(p.buf[1]), 0xaa, BUF);
		for (i = 0; i < DEPTH; i++)
			cqe = wait_cqe(&p.cq[0]);
		if (!expect(is_all(p.buf[0], BUF, 0xaa) &&
			    is_all(p.buf[1], BUF, 0xaa), "data is moved"))
			return;
		reconnect(&p);
	}
}
