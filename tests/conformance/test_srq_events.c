// SPDX-License-Identifier: GPL-2.0
/* Shared receive queues (HWI 10.3): their events, how they fail, and QPs that leave. */
#include "shared.h"

TEST_CASE(srq_limit, "SRQ_LIMIT: once, when fewer are posted than the limit",
	  "SRQ-2 SRQ-3 SRQ-9 EV-23 EV-19 DB-25", HAS(SRQ))
{
	struct sharing s;
	unsigned int n;

	make_sharing(&s, MOOR_QP_RC);
	for (n = 0; n < 10; n++)
		post_shared(&s.srq, n, s.buf + BUF / 2, SLOT, s.key);
	expect(!modify_srq(&s.srq, MOOR_SRQ_ATTR_LIMIT, 7), "it is refused");
	expect(query_srq(&s.srq).limit == 7, "limit %u", query_srq(&s.srq).limit);
	for (n = 0; n < 3; n++)
		send_shared(&s, n & 1, 64, MOOR_WC_SUCCESS);
	expect_no_event(MOOR_EQ_ASYNC);
	about("the seventh is taken");
	send_shared(&s, 0, 64, MOOR_WC_SUCCESS);
	expect_event(MOOR_EVENT_SRQ_LIMIT, s.srq.srqn);
	expect(!query_srq(&s.srq).limit, "it is still set");
	send_shared(&s, 0, 64, MOOR_WC_SUCCESS);
	expect_no_event(MOOR_EQ_ASYNC);
	about("set where fewer are posted already");
	expect(!modify_srq(&s.srq, MOOR_SRQ_ATTR_LIMIT, 6), "it is refused");
	expect(!query_srq(&s.srq).limit, "it is set all the same");
	expect_event(MOOR_EVENT_SRQ_LIMIT, s.srq.srqn);
	about("as many as are posted");
	expect(!modify_srq(&s.srq, MOOR_SRQ_ATTR_LIMIT, 5), "it is refused");
	expect_no_event(MOOR_EQ_ASYNC);
	about("none");
	expect(!modify_srq(&s.srq, MOOR_SRQ_ATTR_LIMIT, 0), "it is refused");
	for (n = 0; n < 5; n++)
		send_shared(&s, 0, 64, MOOR_WC_SUCCESS);
	expect_no_event(MOOR_EQ_ASYNC);
	about("ranges");
	expect(!modify_srq(&s.srq, 0, DEPTH + 1), "it is looked at without its bit");
	expect(modify_srq(&s.srq, MOOR_SRQ_ATTR_LIMIT, DEPTH + 1) ==
	       MOOR_CMD_BAD_PARAM, "a limit beyond the depth");
	expect(modify_srq(&s.srq, MOOR_SRQ_ATTR_LIMIT, ~0u) ==
	       MOOR_CMD_BAD_PARAM, "a limit of all ones");
	expect(modify_srq(&s.srq, 4, 0) == MOOR_CMD_BAD_PARAM, "an unknown bit");
	expect_no_event(MOOR_EQ_ASYNC);
	expect(!modify_srq(&s.srq, MOOR_SRQ_ATTR_LIMIT, DEPTH), "as many as fit");
	expect_event(MOOR_EVENT_SRQ_LIMIT, s.srq.srqn);
	s.srq.srqn ^= 1u;
	expect(modify_srq(&s.srq, 0, 0) == MOOR_CMD_BAD_INDEX, "no such SRQ");
}

TEST_CASE(srq_limit_senseless, "a limit passes over a senseless producer index, a message not",
	  "SRQ-9 SRQ-10 DB-25 CMD-30", HAS(SRQ))
{
	const uint32_t senseless[] = { DEPTH + 2, ~0u };
	struct sharing s;
	unsigned int i;

	at_least(max_log_wqe, 2);
	at_least(max_log_cqe, 3);
	make_sharing(&s, MOOR_QP_RC);
	for (i = 0; i < 2; i++) {
		about("index 0x%x", senseless[i]);
		post_shared(&s.srq, i, s.buf + BUF / 2, SLOT, s.key);
		store_slot(s.srq.slot, senseless[i]);
		expect(!modify_srq(&s.srq, MOOR_SRQ_ATTR_LIMIT, 4), "it is refused");
		expect(query_srq(&s.srq).limit == 4 && !query_srq(&s.srq).failed,
		       "limit %u", query_srq(&s.srq).limit);
		expect_no_event(MOOR_EQ_ASYNC);
		about("index 0x%x has been put right", senseless[i]);
		ring_shared(&s.srq);
		send_shared(&s, 0, 64, MOOR_WC_SUCCESS);
		came_shared(&s, 0, i, i, 64);
		expect_event(MOOR_EVENT_SRQ_LIMIT, s.srq.srqn);
		expect(!query_srq(&s.srq).limit, "it is still set");
	}
	about("a message");
	store_slot(s.srq.slot, 2 + DEPTH + 1);
	expect(!modify_srq(&s.srq, MOOR_SRQ_ATTR_LIMIT, 4), "it is refused");
	send_shared(&s, 0, 64, MOOR_WC_REM_OP_ERR);
	expect_events({ MOOR_EVENT_SRQ_ERROR, s.srq.srqn },
		      { MOOR_EVENT_QP_FATAL, s.receiver[0].qpn },
		      { MOOR_EVENT_LAST_WQE, s.receiver[0].qpn });
}

/* The SRQ has failed: each QP that needs a receive fails too; one event of the SRQ. */
static void has_failed(struct sharing *s)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		send_shared(s, i, 64, MOOR_WC_REM_OP_ERR);
		if (i)
			expect_events({ MOOR_EVENT_QP_FATAL, s->receiver[i].qpn },
				      { MOOR_EVENT_LAST_WQE, s->receiver[i].qpn });
		else
			expect_events({ MOOR_EVENT_SRQ_ERROR, s->srq.srqn },
				      { MOOR_EVENT_QP_FATAL, s->receiver[i].qpn },
				      { MOOR_EVENT_LAST_WQE, s->receiver[i].qpn });
		expect_no_event(MOOR_EQ_ASYNC);
		expect(query_qp(&s->receiver[i]).state == MOOR_QPS_ERR,
		       "receiver %u is not in ERR", i);
	}
	expect(query_srq(&s->srq).failed == 1, "the SRQ has not failed");
	expect(modify_srq(&s->srq, MOOR_SRQ_ATTR_LIMIT, 1) == MOOR_CMD_BAD_STATE,
	       "it can be modified");
	about("what is posted later does not mend it");
	reconnect_shared(s, 0);
	s->srq.producer = query_srq(&s->srq).consumer;
	post_shared(&s->srq, 1, s->buf + BUF / 2, 64, s->key);
	send_shared(s, 0, 64, MOOR_WC_REM_OP_ERR);
	expect_events({ MOOR_EVENT_QP_FATAL, s->receiver[0].qpn },
		      { MOOR_EVENT_LAST_WQE, s->receiver[0].qpn });
	expect_no_event(MOOR_EQ_ASYNC);
}

/* Gives the receivers an SRQ whose ring is nowhere. Return: false if it is refused (CMD-41). */
static bool srq_nowhere(struct sharing *s)
{
	struct moor_cmd_create_srq create;
	struct moor_cmd_create_qp cmd;
	unsigned int i;

	for (i = 0; i < 2; i++)
		destroy_qp(&s->receiver[i]);
	create = srq_command(&s->srq);
	create.ring = flat(NOWHERE);
	if (do_command(create) != MOOR_CMD_OK) {
		expect(answer.status == MOOR_CMD_DMA_FAULT, "status %u", answer.status);
		return false;
	}
	for (i = 0; i < 2; i++) {
		cmd = sharing_command(&s->receiver[i], &s->recv_cq[i], &s->srq);
		must(cmd);
		reconnect_shared(s, i);
	}
	return true;
}

TEST_CASE(srq_fails, "SRQ_ERROR: a senseless producer index, a slot out of reach",
	  "SRQ-10 EV-24 RC-23 WQ-5", HAS(SRQ))
{
	struct sharing s;

	make_sharing(&s, MOOR_QP_RC);
	about("a producer index, counted from what has been taken");
	post_shared(&s.srq, 1, s.buf + BUF / 2, 64, s.key);
	send_shared(&s, 1, 64, MOOR_WC_SUCCESS);
	came_shared(&s, 1, 1, 0, 64);
	store_slot(s.srq.slot, 1 + DEPTH + 1);
	expect(!query_srq(&s.srq).failed, "nobody has needed it yet");
	has_failed(&s);

	host_begin();
	make_sharing(&s, MOOR_QP_RC);
	about("a slot");
	post_shared(&s.srq, 1, s.buf + BUF / 2, 64, s.key);
	dma_unmap(s.srq.ring, QUEUE_SIZE);
	has_failed(&s);
	dma_restore();

	host_begin();
	about("a ring that was never there: it is refused, or fails when it is needed");
	make_sharing(&s, MOOR_QP_RC);
	if (!srq_nowhere(&s))
		return;
	post_shared(&s.srq, 1, s.buf + BUF / 2, 64, s.key);
	has_failed(&s);
}

TEST_CASE(srq_write_imm_refused, "a WRITE with immediate that is refused meets the SRQ",
	  "RC-25 SRQ-8 SRQ-10 SRQ-11 EV-24", HAS(SRQ))
{
	static const char *const what[] = {
		"good", "malformed", "a senseless producer index",
	};
	struct sharing s;
	unsigned int i;

	make_sharing(&s, MOOR_QP_RC);
	for (i = 0; i < 3; i++) {
		const struct moor_sge sge = { s.buf + BUF / 2, SLOT, s.key };

		about("%s", what[i]);
		if (i < 2) {
			put_shared(&s.srq, i, &sge, 1)->reserved1[3] = i == 1;
			ring_shared(&s.srq);
		} else {
			store_slot(s.srq.slot, i + DEPTH + 1);
		}
		post_send(&s.sender[0], (struct send_wr){
			.opcode = MOOR_WQE_WRITE_IMM, .remote = s.buf,
			.rkey = s.key ^ 1, SGE(s.buf, 64, s.key),
		});
		expect_cqe(&s.send_cq[0], 0, MOOR_WC_REM_ACCESS_ERR, 0);
		if (i < 2)
			expect_cqe(&s.recv_cq[0], i, i ? MOOR_WC_WR_FLUSH_ERR :
				   MOOR_WC_LOC_ACCESS_ERR, i ? 0 : MOOR_SYN_KEY);
		if (!i)
			expect_event(MOOR_EVENT_LAST_WQE, s.receiver[0].qpn);
		else if (i == 1)
			expect_events({ MOOR_EVENT_QP_ACCESS_ERR, s.receiver[0].qpn },
				      { MOOR_EVENT_LAST_WQE, s.receiver[0].qpn });
		else
			expect_events({ MOOR_EVENT_SRQ_ERROR, s.srq.srqn },
				      { MOOR_EVENT_QP_ACCESS_ERR, s.receiver[0].qpn },
				      { MOOR_EVENT_LAST_WQE, s.receiver[0].qpn });
		expect_no_event(MOOR_EQ_ASYNC);
		expect(query_srq(&s.srq).failed == (i == 2), "failed: %u",
		       query_srq(&s.srq).failed);
		expect(query_srq(&s.srq).consumer == (i < 2 ? i + 1 : 2),
		       "%u are taken", query_srq(&s.srq).consumer);
		reconnect_shared(&s, 0);
	}
}

TEST_CASE(srq_cq_fails, "LAST_WQE comes where the QP's CQ has failed, and nothing else",
	  "SRQ-11 CQ-10 RC-42 EV-25", HAS(SRQ))
{
	struct sharing s;
	struct cq small;
	unsigned int i;

	at_least(max_cq, 5);
	make_sharing(&s, MOOR_QP_RC);
	make_cq(&small, 4, 0);
	destroy_qp(&s.receiver[0]);
	make_sharing_qp(&s.receiver[0], &small, &s.srq);
	reset_qp(&s.sender[0]);
	connect_qp(&s.sender[0], s.receiver[0].qpn);
	connect_qp(&s.receiver[0], s.sender[0].qpn);
	for (i = 0; i < 4; i++)
		post_shared(&s.srq, i, s.buf + BUF / 2, SLOT, s.key);
	about("a CQ that is full is no error");
	send_shared(&s, 0, 64, MOOR_WC_SUCCESS);
	expect_no_event(MOOR_EQ_ASYNC);
	about("one that overruns");
	send_shared(&s, 0, 64, MOOR_WC_REM_OP_ERR);
	expect_events({ MOOR_EVENT_CQ_ERROR, small.cqn },
		      { MOOR_EVENT_LAST_WQE, s.receiver[0].qpn });
	expect_no_event(MOOR_EQ_ASYNC);
	expect(query_srq(&s.srq).consumer == 2, "%u are taken",
	       query_srq(&s.srq).consumer);
	about("the WQE that is held has no CQE");
	reconnect_shared(&s, 0);
	abandon_shared(&s, 0);
	expect_no_event(MOOR_EQ_ASYNC);
	must_modify(&s.receiver[0], to_state(MOOR_QPS_ERR));
	expect_event(MOOR_EVENT_LAST_WQE, s.receiver[0].qpn);
	expect_no_event(MOOR_EQ_ASYNC);
	about("the other QP is none the worse");
	send_shared(&s, 1, 64, MOOR_WC_SUCCESS);
	came_shared(&s, 1, 3, 3, 64);
}

TEST_CASE(srq_last_wqe, "LAST_WQE: once, behind the CQE of the WQE that was held",
	  "SRQ-8 SRQ-11 EV-25 QP-14", HAS(SRQ))
{
	struct moor_cqe cqe;
	struct sharing s;
	unsigned int i;

	make_sharing(&s, MOOR_QP_RC);
	about("by command, nothing held; what is posted stays");
	post_shared(&s.srq, 1, s.buf + BUF / 2, SLOT, s.key);
	must_modify(&s.receiver[0], to_state(MOOR_QPS_ERR));
	expect_event(MOOR_EVENT_LAST_WQE, s.receiver[0].qpn);
	must_modify(&s.receiver[0], to_state(MOOR_QPS_ERR));
	post_send(&s.receiver[0], (struct send_wr){ .opcode = MOOR_WQE_SEND });
	expect_cqe(&s.recv_cq[0], 0, MOOR_WC_WR_FLUSH_ERR, 0);
	expect_no_event(MOOR_EQ_ASYNC);
	expect_no_cqe(&s.recv_cq[0]);
	expect(!query_srq(&s.srq).consumer, "it is flushed");

	about("by command, a WQE held");
	reconnect_shared(&s, 0);
	abandon_shared(&s, 0);
	expect_no_event(MOOR_EQ_ASYNC);
	must_modify(&s.receiver[0], to_state(MOOR_QPS_ERR));
	expect_event(MOOR_EVENT_LAST_WQE, s.receiver[0].qpn);
	expect(poll_cqe(&s.recv_cq[0], &cqe) && cqe.wr_id == 1 &&
	       cqe.status == MOOR_WC_WR_FLUSH_ERR, "its CQE is not there");
	expect_no_event(MOOR_EQ_ASYNC);

	about("by itself");
	for (i = 0; i < 2; i++) {
		const struct moor_sge sge = { s.buf + BUF / 2, SLOT, s.key };

		reconnect_shared(&s, 0);
		put_shared(&s.srq, 2, &sge, 1)->reserved1[3] = 1;
		ring_shared(&s.srq);
		send_shared(&s, 0, 64, MOOR_WC_REM_OP_ERR);
		expect_event(MOOR_EVENT_LAST_WQE, s.receiver[0].qpn);
		expect(poll_cqe(&s.recv_cq[0], &cqe) && cqe.wr_id == 2 &&
		       cqe.status == MOOR_WC_LOC_QP_OP_ERR, "its CQE is not there");
		expect_no_event(MOOR_EQ_ASYNC);
	}
	about("the SRQ is none the worse");
	post_shared(&s.srq, 3, s.buf + BUF / 2, SLOT, s.key);
	send_shared(&s, 1, 64, MOOR_WC_SUCCESS);
	came_shared(&s, 1, 3, 3, 64);

	about("to RESET and away: none");
	must_modify(&s.receiver[0], to_state(MOOR_QPS_RESET));
	destroy_qp(&s.receiver[0]);
	destroy_qp(&s.receiver[1]);
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(srq_reset, "RESET takes the WQE that was held along, without a CQE",
	  "SRQ-8 SRQ-11 QP-13", HAS(SRQ))
{
	struct sharing s;

	make_sharing(&s, MOOR_QP_RC);
	post_shared(&s.srq, 1, s.buf + BUF / 2, SLOT, s.key);
	post_shared(&s.srq, 2, s.buf + BUF / 2, SLOT, s.key);
	abandon_shared(&s, 0);
	reconnect_shared(&s, 0);
	send_shared(&s, 0, 64, MOOR_WC_SUCCESS);
	came_shared(&s, 0, 2, 1, 64);
	expect_no_cqe(&s.recv_cq[0]);
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(srq_gone, "no event of an SRQ, and no look at it, when it is gone",
	  "SRQ-4 EV-17 DB-10", HAS(SRQ))
{
	struct moor_cmd_destroy_srq destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_SRQ,
	};
	struct moor_eqe eqe;
	struct sharing s;
	struct srq first;
	unsigned int i;

	make_sharing(&s, MOOR_QP_RC);
	make_srq(&first);
	about("while EQ 0 is full");
	for (i = 0; i < (1u << LOG_EQE) + 1; i++) {
		struct srq *srq = i < 1u << LOG_EQE ? &s.srq : &first;

		expect(!modify_srq(srq, MOOR_SRQ_ATTR_LIMIT, 1), "limit");
	}
	destroy.srqn = first.srqn;
	must(destroy);
	for (i = 0; i < 1u << LOG_EQE; i++)
		expect(wait_event(MOOR_EQ_ASYNC, &eqe) &&
		       eqe.type == MOOR_EVENT_SRQ_LIMIT &&
		       eqe.number == s.srq.srqn, "event %u", i);
	expect_no_event(MOOR_EQ_ASYNC);
	about("its slot is free, and zeroed for the next");
	store_slot(first.slot, 5);
	i = first.slot;
	{
		struct moor_cmd_create_srq cmd = srq_command(&first);

		cmd.doorbell = i;
		must(cmd);
	}
	expect(!modify_srq(&first, MOOR_SRQ_ATTR_LIMIT, 1), "limit");
	expect_event(MOOR_EVENT_SRQ_LIMIT, first.srqn);
}
