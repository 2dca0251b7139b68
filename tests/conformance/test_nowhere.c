// SPDX-License-Identifier: GPL-2.0
/* Queues and rings in memory that the platform refuses (HWI 8.2, CMD-41). */
#include "platform.h"
#include "traffic.h"

/* Of memory that the platform refuses: is the command refused for it at once, or not yet? */
#define FOUND_AT_ONCE(cmd)						\
	({								\
		uint8_t nowhere_status = do_command(cmd);		\
									\
		expect(!nowhere_status || nowhere_status == MOOR_CMD_DMA_FAULT,\
		       "status %u", nowhere_status);			\
		nowhere_status;						\
	})

TEST_CASE(queue_nowhere, "queues that are nowhere are found at CREATE_QP, or when a WQE is needed",
	  "CMD-41 CMD-16", 0)
{
	struct moor_cmd_create_qp cmd;
	struct cq cq;
	struct qp qp;

	make_cq(&cq, 0, 4);
	about("a send queue");
	cmd = qp_command(&qp, &cq, &cq);
	cmd.sq = flat(NOWHERE);
	if (!FOUND_AT_ONCE(cmd)) {
		connect_qp(&qp, qp.qpn);
		ring_slot(qp.sq_slot, 1);
		expect_event(MOOR_EVENT_QP_FATAL, qp.qpn);
		expect(reaches_state(&qp, MOOR_QPS_ERR), "not in ERR");
		destroy_qp(&qp);
	}
	about("a receive queue");
	cmd = qp_command(&qp, &cq, &cq);
	cmd.rq = flat(NOWHERE);
	if (!FOUND_AT_ONCE(cmd)) {
		connect_qp(&qp, qp.qpn);
		ring_slot(qp.rq_slot, 1);
		post_send(&qp, (struct send_wr){ .opcode = MOOR_WQE_SEND });
		expect_event(MOOR_EVENT_QP_FATAL, qp.qpn);
		expect(reaches_state(&qp, MOOR_QPS_ERR), "not in ERR");
	}
}

TEST_CASE(ring_nowhere, "so is the ring of a CQ, or with its first CQE", "CMD-41 CMD-16", 0)
{
	bool reports = platform_reports_writes();
	struct moor_cmd_create_cq cmd;
	struct cq cq;
	struct qp qp;

	cmd = cq_command(&cq, 0, 1);
	cmd.ring = flat(NOWHERE);
	if (FOUND_AT_ONCE(cmd))
		return;
	make_qp(&qp, &cq, &cq);
	connect_qp(&qp, qp.qpn);
	post_send(&qp, (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	if (!reports) {
		expect_no_event(MOOR_EQ_ASYNC);
		return;
	}
	expect_event(MOOR_EVENT_CQ_ERROR, cq.cqn);
	expect(reaches_state(&qp, MOOR_QPS_ERR), "not in ERR");
}

TEST_CASE(eq_nowhere, "and the memory of an EQ, or with its first event", "CMD-41 CMD-16", 0)
{
	struct moor_cmd_destroy_eq destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_EQ, .eqn = MOOR_EQ_COMPLETION,
	};
	struct moor_cmd_create_eq cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_EQ, .eqn = MOOR_EQ_COMPLETION,
		.log_eqe = LOG_EQE, .base = NOWHERE, .vector = 1,
	};
	bool reports = platform_reports_writes();
	struct cq cq;
	struct qp qp;

	must(destroy);
	if (FOUND_AT_ONCE(cmd) || !reports)
		return;
	make_cq(&cq, 0, 4);
	make_qp(&qp, &cq, &cq);
	connect_qp(&qp, qp.qpn);
	arm_cq(&cq, MOOR_CQ_ARM_ANY);
	post_send(&qp, (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	need(wait_until(reg_read(MOOR_REG_STATUS) & MOOR_STATUS_FATAL), "it goes on");
	expect(reg_read(MOOR_REG_FATAL_CODE) == MOOR_FATAL_DMA, "FATAL_CODE is %u",
	       reg_read(MOOR_REG_FATAL_CODE));
}
