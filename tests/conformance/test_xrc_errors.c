// SPDX-License-Identifier: GPL-2.0
/* Extended reliable connections on which requests fail (HWI 12.6). */
#include "platform.h"
#include "xrc.h"

/* Sends a message that breaks off, because its second half is absent. */
static void abandon_for(struct xrc *x, unsigned int i)
{
	uint32_t torn = make_torn_mr(true, take(2 * PAGE));

	post_for(x, x->srq[i].srqn, (struct send_wr){
		.opcode = MOOR_WQE_SEND, SGE(TORN_IOVA + 2 * PAGE - 64, 128, torn),
	});
	expect_cqe(&x->send_cq, 0x5e, MOOR_WC_LOC_PROT_ERR,
		   MOOR_SYN_TRANSLATION);
}

/* The target has refused a request: it is in ERR, with this event and no other. */
static void expect_refused(struct xrc *x, uint8_t event)
{
	expect_event(event, x->tgt.qpn);
	expect(reaches_state(&x->tgt, MOOR_QPS_ERR), "the target is not in ERR");
	expect_no_event(MOOR_EQ_ASYNC);
	reconnect_xrc(x);
}

TEST_CASE(xrc_no_srq, "no SRQ of that number, another domain's, and none for XRC",
	  "XRC-1 XRC-6 EV-8", HAS(XRC))
{
	static const uint8_t opcodes[] = {
		MOOR_WQE_SEND, MOOR_WQE_WRITE, MOOR_WQE_READ,
	};
	struct moor_cmd_create_srq cmd;
	struct srq plain, foreign;
	uint32_t numbers[3];
	struct xrc x;
	unsigned int i, n;

	make_xrc(&x);
	make_srq(&plain);
	cmd = xrc_srq_command(&foreign, &x.recv_cq[0], PD);
	cmd.xrcd = XRCD + 1;
	must(cmd);
	post_shared(&plain, 1, x.buf, 64, x.key[0]);
	post_shared(&foreign, 1, x.buf, 64, x.key[0]);
	numbers[0] = x.srq[0].srqn ^ 1u << 23;
	numbers[1] = plain.srqn;
	numbers[2] = foreign.srqn;
	for (i = 0; i < 3; i++) {
		for (n = 0; n < sizeof(opcodes); n++) {
			about("number %u, opcode %u", i, opcodes[n]);
			post_for(&x, numbers[i], (struct send_wr){
				.opcode = opcodes[n], .remote = x.buf + BUF / 2,
				.rkey = x.key[0], SGE(x.buf, 64, x.key[0]),
			});
			expect_cqe(&x.send_cq, 0x5e, MOOR_WC_REM_INV_REQ_ERR, 0);
			expect_refused(&x, MOOR_EVENT_QP_REQ_ERR);
		}
	}
	expect(!query_srq(&plain).consumer && !query_srq(&foreign).consumer,
	       "a receive is taken");
	expect(is_filled(x.buf, BUF, 1), "memory has changed");
}

TEST_CASE(xrc_empty, "an SRQ with nothing in it, and its limit and failure",
	  "XRC-7 RC-10 SRQ-7 SRQ-9 SRQ-10 RC-23", HAS(XRC))
{
	struct xrc x;

	make_xrc(&x);
	post_shared(&x.srq[1], 1, x.buf + BUF / 2, 64, x.key[1]);
	send_for(&x, x.srq[0].srqn, 64, MOOR_WC_RNR_RETRY_EXC_ERR);
	expect(!query_srq(&x.srq[1]).consumer, "it has taken the other's");
	reconnect_xrc(&x);
	drop_events(MOOR_EQ_ASYNC);
	about("too long for the receive");
	send_for(&x, x.srq[1].srqn, 65, MOOR_WC_REM_INV_REQ_ERR);
	came_for(&x, 1, 1, MOOR_WC_LOC_LEN_ERR, MOOR_SYN_LENGTH);
	reconnect_xrc(&x);
	drop_events(MOOR_EQ_ASYNC);
	about("its limit");
	post_shared(&x.srq[0], 2, x.buf + BUF / 2, 64, x.key[0]);
	expect(!modify_srq(&x.srq[0], MOOR_SRQ_ATTR_LIMIT, 1), "refused");
	send_for(&x, x.srq[0].srqn, 64, MOOR_WC_SUCCESS);
	came_for(&x, 0, 2, MOOR_WC_SUCCESS, 0);
	expect_event(MOOR_EVENT_SRQ_LIMIT, x.srq[0].srqn);
	about("its failure");
	store_slot(x.srq[0].slot, x.srq[0].producer + DEPTH + 1);
	send_for(&x, x.srq[0].srqn, 64, MOOR_WC_REM_OP_ERR);
	expect_events({ MOOR_EVENT_SRQ_ERROR, x.srq[0].srqn },
		      { MOOR_EVENT_QP_FATAL, x.tgt.qpn });
	expect(reaches_state(&x.tgt, MOOR_QPS_ERR), "the target is not in ERR");
	expect_no_event(MOOR_EQ_ASYNC);
	reconnect_xrc(&x);
	about("the other one is none the worse");
	post_shared(&x.srq[1], 3, x.buf + BUF / 2, 64, x.key[1]);
	send_for(&x, x.srq[1].srqn, 64, MOOR_WC_SUCCESS);
	came_for(&x, 1, 3, MOOR_WC_SUCCESS, 0);
}

TEST_CASE(xrc_held, "a receive that the target holds: for the same SRQ, for another, in ERR",
	  "XRC-8 RC-22", HAS(XRC))
{
	struct moor_cqe cqe;
	struct xrc x;

	make_xrc(&x);
	post_shared(&x.srq[0], 1, x.buf + BUF / 2, 256, x.key[0]);
	post_shared(&x.srq[1], 2, x.buf + BUF / 2, 256, x.key[1]);
	about("for the same SRQ");
	abandon_for(&x, 0);
	expect(query_srq(&x.srq[0]).consumer == 1, "none is held");
	reset_qp(&x.ini);
	connect_qp(&x.ini, x.tgt.qpn);
	send_for(&x, x.srq[0].srqn, 64, MOOR_WC_SUCCESS);
	came_for(&x, 0, 1, MOOR_WC_SUCCESS, 0);
	about("for another one");
	reconnect_xrc(&x);
	post_shared(&x.srq[0], 3, x.buf + BUF / 2, 256, x.key[0]);
	abandon_for(&x, 0);
	expect_no_cqe(&x.recv_cq[0]);
	reset_qp(&x.ini);
	connect_qp(&x.ini, x.tgt.qpn);
	send_for(&x, x.srq[1].srqn, 64, MOOR_WC_SUCCESS);
	came_for(&x, 1, 2, MOOR_WC_SUCCESS, 0);
	came_for(&x, 0, 3, MOOR_WC_WR_FLUSH_ERR, 0);
	about("in ERR");
	reconnect_xrc(&x);
	drop_events(MOOR_EQ_ASYNC);
	post_shared(&x.srq[1], 4, x.buf + BUF / 2, 256, x.key[1]);
	post_shared(&x.srq[1], 5, x.buf + BUF / 2, 256, x.key[1]);
	abandon_for(&x, 1);
	must_modify(&x.tgt, to_state(MOOR_QPS_ERR));
	came_for(&x, 1, 4, MOOR_WC_WR_FLUSH_ERR, 0);
	expect(!poll_cqe(&x.recv_cq[1], &cqe), "another one is flushed");
	expect_no_event(MOOR_EQ_ASYNC);
}

/* The target holds WQE @wr_id of SRQ 0; the requester is connected to it again. */
static void hold(struct xrc *x, uint64_t wr_id)
{
	reconnect_xrc(x);
	post_shared(&x->srq[0], wr_id, x->buf + BUF / 2, 256, x->key[0]);
	abandon_for(x, 0);
	expect_no_cqe(&x->recv_cq[0]);
	reset_qp(&x->ini);
	connect_qp(&x->ini, x->tgt.qpn);
	drop_events(MOOR_EQ_ASYNC);
}

TEST_CASE(xrc_held_by_any, "any message for another SRQ flushes it, whatever becomes of that",
	  "XRC-8 XRC-6 RC-10 CQ-10", HAS(XRC))
{
	static const uint8_t opcodes[] = { MOOR_WQE_WRITE, MOOR_WQE_READ };
	const struct moor_cmd_modify_qp for_ever = {
		.mask = MOOR_QP_ATTR_RNR_RETRY, .rnr_retry = 7,
	};
	const bool reported = platform_reports_writes();
	struct moor_cqe cqe;
	struct xrc x;
	unsigned int i;

	make_xrc(&x);
	for (i = 0; i < 2; i++) {
		about("opcode %u", opcodes[i]);
		hold(&x, i);
		post_for(&x, x.srq[1].srqn, (struct send_wr){
			.opcode = opcodes[i], .remote = x.buf + BUF / 2,
			.rkey = x.key[1], SGE(x.buf, 64, x.key[0]),
		});
		expect_cqe(&x.send_cq, 0x5e, MOOR_WC_SUCCESS, 0);
		came_for(&x, 0, i, MOOR_WC_WR_FLUSH_ERR, 0);
		expect(query_qp(&x.tgt).state == MOOR_QPS_RTS,
		       "the target has failed");
	}
	about("a SEND that finds no receive");
	hold(&x, 3);
	must_modify(&x.ini, for_ever);
	post_for(&x, x.srq[1].srqn, (struct send_wr){ .opcode = MOOR_WQE_SEND });
	came_for(&x, 0, 3, MOOR_WC_WR_FLUSH_ERR, 0);
	expect_no_cqe(&x.send_cq);
	post_shared(&x.srq[1], 4, x.buf + BUF / 2, 64, x.key[1]);
	expect_cqe(&x.send_cq, 0x5e, MOOR_WC_SUCCESS, 0);
	came_for(&x, 1, 4, MOOR_WC_SUCCESS, 0);
	about("a SEND to no SRQ");
	hold(&x, 5);
	send_for(&x, x.srq[0].srqn ^ 1u << 23, 64, MOOR_WC_REM_INV_REQ_ERR);
	came_for(&x, 0, 5, MOOR_WC_WR_FLUSH_ERR, 0);
	expect_refused(&x, MOOR_EVENT_QP_REQ_ERR);
	expect_no_cqe(&x.recv_cq[0]);
	about("another message for the same SRQ");
	hold(&x, 6);
	post_for(&x, x.srq[0].srqn, (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	expect_cqe(&x.send_cq, 0x5e, MOOR_WC_SUCCESS, 0);
	expect_no_cqe(&x.recv_cq[0]);
	send_for(&x, x.srq[0].srqn, 64, MOOR_WC_SUCCESS);
	came_for(&x, 0, 6, MOOR_WC_SUCCESS, 0);
	about("a CQ that cannot be told");
	hold(&x, 7);
	settle();
	dma_unmap(x.recv_cq[0].ring, PAGE);
	post_for(&x, x.srq[1].srqn, (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	cqe = wait_cqe(&x.send_cq);
	if (!cqe.status) {
		/* Good where a CQE that is not written is lost without a report (ACC-19). */
		dma_restore();
		expect_no_cqe(&x.recv_cq[0]);
		expect(!reported, "a CQE that cannot be written is passed over");
		return;
	}
	expect(cqe.status == MOOR_WC_RETRY_EXC_ERR && cqe.syndrome == MOOR_SYN_NO_RESPONDER,
	       "status %u, syndrome %u", cqe.status, cqe.syndrome);
	expect_event(MOOR_EVENT_CQ_ERROR, x.recv_cq[0].cqn);
	expect(query_qp(&x.tgt).state == MOOR_QPS_ERR, "the target is not in ERR");
	expect_no_event(MOOR_EQ_ASYNC);
	dma_restore();
}

TEST_CASE(xrc_held_reset, "with a target that goes to RESET or away it goes without a CQE",
	  "XRC-8 SRQ-8 QP-4 QP-13", HAS(XRC))
{
	struct xrc x;

	make_xrc(&x);
	about("to RESET");
	hold(&x, 1);
	must_modify(&x.tgt, to_state(MOOR_QPS_RESET));
	expect_no_cqe(&x.recv_cq[0]);
	reconnect_xrc(&x);
	post_shared(&x.srq[0], 2, x.buf + BUF / 2, 256, x.key[0]);
	send_for(&x, x.srq[0].srqn, 64, MOOR_WC_SUCCESS);
	came_for(&x, 0, 2, MOOR_WC_SUCCESS, 0);
	about("away");
	hold(&x, 3);
	destroy_qp(&x.tgt);
	expect_no_cqe(&x.recv_cq[0]);
	expect(query_srq(&x.srq[0]).consumer == 3, "it is back in the SRQ");
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(xrc_gone, "DESTROY_SRQ does not wait for targets, and takes what they hold",
	  "XRC-9 SRQ-4", HAS(XRC))
{
	struct xrc x;

	make_xrc(&x);
	post_shared(&x.srq[0], 1, x.buf + BUF / 2, 256, x.key[0]);
	abandon_for(&x, 0);
	destroy_srq(&x.srq[0]);
	expect_no_cqe(&x.recv_cq[0]);
	reset_qp(&x.ini);
	connect_qp(&x.ini, x.tgt.qpn);
	drop_events(MOOR_EQ_ASYNC);
	about("it is not there any more");
	send_for(&x, x.srq[0].srqn, 64, MOOR_WC_REM_INV_REQ_ERR);
	expect_refused(&x, MOOR_EVENT_QP_REQ_ERR);
	expect_no_cqe(&x.recv_cq[0]);
	about("the other one is");
	post_shared(&x.srq[1], 2, x.buf + BUF / 2, 256, x.key[1]);
	send_for(&x, x.srq[1].srqn, 64, MOOR_WC_SUCCESS);
	came_for(&x, 1, 2, MOOR_WC_SUCCESS, 0);
	about("also while a target has it last");
	destroy_srq(&x.srq[1]);
	must_modify(&x.tgt, to_state(MOOR_QPS_ERR));
	expect_no_cqe(&x.recv_cq[1]);
	destroy_qp(&x.tgt);
	expect_no_cqe(&x.recv_cq[1]);
}

TEST_CASE(xrc_one_way, "a requester answers nothing, and a target is no requester's peer of RC",
	  "XRC-5 RC-11 RC-33", HAS(XRC))
{
	struct moor_cmd_create_qp cmd;
	struct xrc x;
	struct qp rc;

	make_xrc(&x);
	about("between two requesters");
	cmd = ini_command(&rc, &x.send_cq);
	must(cmd);
	reset_qp(&x.ini);
	connect_qp(&x.ini, rc.qpn);
	connect_qp(&rc, x.ini.qpn);
	post_for(&x, x.srq[0].srqn, (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	expect_cqe(&x.send_cq, 0x5e, MOOR_WC_RETRY_EXC_ERR,
		   MOOR_SYN_NO_RESPONDER);
	about("from an RC QP to a target");
	make_qp(&rc, &x.send_cq, &x.send_cq);
	connect_qp(&rc, x.tgt.qpn);
	reset_qp(&x.tgt);
	connect_qp(&x.tgt, rc.qpn);
	post_send(&rc, (struct send_wr){ .opcode = MOOR_WQE_WRITE, .wr_id = 6 });
	expect_cqe(&x.send_cq, 6, MOOR_WC_RETRY_EXC_ERR, MOOR_SYN_NO_RESPONDER);
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(xrc_drained, "a target has nothing to drain: SQ_DRAINED comes at once", "XRC-5 EV-11",
	  HAS(XRC))
{
	struct xrc x;

	make_xrc(&x);
	drop_events(MOOR_EQ_ASYNC);
	must_modify(&x.tgt, (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_SQD_EVENT,
		.state = MOOR_QPS_SQD,
	});
	expect_event(MOOR_EVENT_SQ_DRAINED, x.tgt.qpn);
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(xrc_malformed, "the segment: 24 bits, nothing reserved, inside the stride",
	  "XRC-3 RC-5 WQ-8", HAS(XRC))
{
	static const struct moor_wqe_xrc bad[] = {
		{ .srqn = 1u << 24 }, { .srqn = ~0u }, { .reserved1 = { 1 } },
		{ .reserved1 = { 0, 1 } }, { .reserved1 = { 0, 0, 1u << 31 } },
	};
	struct xrc x;
	unsigned int i;

	make_xrc(&x);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct moor_wqe_xrc whose = bad[i];

		about("segment %u", i);
		whose.srqn |= x.srq[0].srqn;
		post_send(&x.ini, (struct send_wr){
			.opcode = MOOR_WQE_SEND, .wr_id = i, .whose = &whose,
		});
		expect_cqe(&x.send_cq, i, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
		reconnect_xrc(&x);
	}
	about("an opcode without a responder has none");
	if (!(dev.features & (MOOR_FEATURE_MW_TYPE_2B | MOOR_FEATURE_FAST_REG)))
		return;
	post_send(&x.ini, (struct send_wr){
		.opcode = MOOR_WQE_LOCAL_INV, .wr_id = 9, .inv_key = 0,
	});
	expect_cqe(&x.send_cq, 9, MOOR_WC_MW_BIND_ERR, MOOR_SYN_KEY);
}
