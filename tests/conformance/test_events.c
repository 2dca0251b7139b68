// SPDX-License-Identifier: GPL-2.0
/* Event queues and events (HWI 9). */
#include <string.h>

#include "platform.h"
#include "traffic.h"

/* An empty WRITE through a QP that is connected to itself, for one CQE. */
static void one_cqe(struct qp *qp, struct cq *cq)
{
	post_send(qp, (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	wait_cqe(cq);
}

static void self_connected(struct qp *qp, struct cq *cq, uint32_t cqn)
{
	make_cq(cq, cqn, LOG_DEPTH);
	make_qp(qp, cq, cq);
	connect_qp(qp, qp->qpn);
}

TEST_CASE(entries, "events of 32 bytes, phases, and the vector of the EQ",
	  "EV-1 EV-2 EV-4 EV-5 EV-19 VER-4 EQ-1", 0)
{
	const uint32_t number = dev.max_cq > 3 ? 3 : 0;
	static const uint8_t zeros[32];
	struct moor_eqe eqe;
	unsigned int i;
	struct cq cq;
	struct qp qp;

	self_connected(&qp, &cq, number);
	drop_events(MOOR_EQ_ASYNC);
	for (i = 0; i < 5u << LOG_EQE; i++) {
		settle();
		interrupts(eq_vector(MOOR_EQ_COMPLETION));
		interrupts(eq_vector(MOOR_EQ_ASYNC));
		arm_cq(&cq, MOOR_CQ_ARM_ANY);
		one_cqe(&qp, &cq);
		if (!expect(wait_event(MOOR_EQ_COMPLETION, &eqe) &&
			    eqe.type == MOOR_EVENT_COMPLETION &&
			    eqe.number == number &&
			    !memcmp(eqe.reserved1, zeros, sizeof(eqe.reserved1)) &&
			    !memcmp(eqe.reserved2, zeros, sizeof(eqe.reserved2)) &&
			    !(eqe.phase & ~1u),
			    "event %u: type 0x%x of %u", i, eqe.type, eqe.number))
			return;
		if (!expect(wait_until(interrupts(eq_vector(MOOR_EQ_COMPLETION))),
			    "event %u: no interrupt", i))
			return;
		expect(!interrupts(eq_vector(MOOR_EQ_ASYNC)),
		       "an interrupt of EQ 0");
	}
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(own_vector, "each EQ raises its own vector; several may share one",
	  "EQ-1 EV-2 CQ-1", 0)
{
	struct moor_cmd_create_cq cmd;
	unsigned int last = dev.num_vectors - 1;
	struct cq cq;
	struct qp qp;

	cmd = cq_command(&cq, 0, dev.max_log_cqe < 4 ? dev.max_log_cqe : 4);
	if (dev.max_eq > 3) {
		make_eq(3, LOG_EQE, last);
		cmd.eqn = 3;
	} else {
		last = eq_vector(MOOR_EQ_COMPLETION);
	}
	must(cmd);
	make_qp(&qp, &cq, &cq);
	connect_qp(&qp, qp.qpn);
	settle();
	interrupts(last);
	interrupts(eq_vector(MOOR_EQ_COMPLETION));
	arm_cq(&cq, MOOR_CQ_ARM_ANY);
	one_cqe(&qp, &cq);
	expect(wait_until(interrupts(last)), "the last vector is not raised");
	if (last != eq_vector(MOOR_EQ_COMPLETION))
		expect(!interrupts(eq_vector(MOOR_EQ_COMPLETION)),
		       "another EQ's is");
}

/* Makes an EQ anew, with few entries, so that few events fill it. */
#define LOG_FEW		2u
#define FEW		(1u << LOG_FEW)

static void make_small_eq(uint32_t eqn)
{
	struct moor_cmd_destroy_eq destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_EQ, .eqn = eqn,
	};

	must(destroy);
	make_eq(eqn, LOG_FEW, eq_vector(eqn));
}

/* Has the EQ, of which nothing has been consumed yet, @num events or more? */
static bool has_events(uint32_t eqn, unsigned int num)
{
	const struct moor_eqe *first = at(next_event_place(eqn));

	return __atomic_load_n(&first[num - 1].phase, __ATOMIC_ACQUIRE) & 1;
}

/*
 * Lets a CQ's event follow the CQE that is there. Of one that is kept back nobody can
 * see when that is: it has more time than any device needs.
 */
static void let_event_come(unsigned int number)
{
	uint64_t end = now_ns() + 10000000;

	if (number <= FEW) {
		need(wait_until(has_events(MOOR_EQ_COMPLETION, number)),
		     "event %u does not come", number);
		return;
	}
	settle();
	while (now_ns() < end)
		breathe();
}

TEST_CASE(full, "an EQ is not overrun: events are kept back, in order, and none is lost",
	  "EV-3 EQ-1", 0)
{
	struct qp qp[FEW + 9];
	struct cq cq[FEW + 9];
	unsigned int n = FEW + 9, i;
	struct moor_eqe eqe;

	at_least(max_cq, FEW + 2);
	at_least(qp_index_bits, LOG_FEW + 1);
	if (n > dev.max_cq)
		n = dev.max_cq;
	if (n > 1u << dev.qp_index_bits)
		n = 1u << dev.qp_index_bits;
	make_small_eq(MOOR_EQ_COMPLETION);
	for (i = 0; i < n; i++) {
		/* Their numbers are not the order. */
		self_connected(&qp[i], &cq[i], n - 1 - i);
		arm_cq(&cq[i], MOOR_CQ_ARM_ANY);
		one_cqe(&qp[i], &cq[i]);
		let_event_come(i + 1);
	}
	for (i = 0; i < n; i++) {
		need(wait_event(MOOR_EQ_COMPLETION, &eqe), "%u events of %u", i, n);
		expect(eqe.type == MOOR_EVENT_COMPLETION && eqe.number == cq[i].cqn,
		       "type 0x%x of CQ %u where CQ %u was due", eqe.type, eqe.number,
		       cq[i].cqn);
	}
	expect_no_event(MOOR_EQ_COMPLETION);
}

TEST_CASE(established, "COMM_EST: the first packet while in RTR", "EV-10 EV-19 RC-15",
	  0)
{
	struct moor_eqe eqe;
	struct pair p;

	make_pair(&p);
	reset_qp(&p.qp[0]);
	reset_qp(&p.qp[1]);
	connect_qp(&p.qp[0], p.qp[1].qpn);
	must_modify(&p.qp[1], to_init());
	must_modify(&p.qp[1], to_rtr(p.qp[0].qpn));
	drop_events(MOOR_EQ_ASYNC);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 64, true);
	expect_event(MOOR_EVENT_COMM_EST, p.qp[1].qpn);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 64, true);
	settle();
	expect(!next_event(MOOR_EQ_ASYNC, &eqe), "a second event");
}

/* Connects the pair anew, QP 1 up to RTR; it expects PSNs that are @ahead of its peer's. */
static void up_to_rtr(struct pair *p, int32_t ahead)
{
	struct moor_cmd_modify_qp rtr = to_rtr(p->qp[0].qpn);

	reset_qp(&p->qp[0]);
	reset_qp(&p->qp[1]);
	connect_qp(&p->qp[0], p->qp[1].qpn);
	must_modify(&p->qp[1], to_init());
	rtr.rq_psn += (uint32_t)ahead;
	must_modify(&p->qp[1], rtr);
	drop_events(MOOR_EQ_ASYNC);
}

TEST_CASE(established_by_any, "COMM_EST: whatever becomes of the request; no other PSN counts",
	  "EV-10 RC-10 RC-6 RC-43", 0)
{
	struct moor_cmd_modify_qp psn = to_rtr(0);
	int32_t ahead;
	struct pair p;

	make_pair(&p);
	about("a SEND without a receive");
	up_to_rtr(&p, 0);
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_SEND });
	expect_cqe(&p.cq[0], 0, MOOR_WC_RNR_RETRY_EXC_ERR, 0);
	expect_event(MOOR_EVENT_COMM_EST, p.qp[1].qpn);
	expect_no_event(MOOR_EQ_ASYNC);
	about("a WRITE that is refused");
	up_to_rtr(&p, 0);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .remote = p.buf[1],
		.rkey = p.key[1] ^ 1, SGE(p.buf[0], 64, p.key[0]),
	});
	expect_cqe(&p.cq[0], 0, MOOR_WC_REM_ACCESS_ERR, 0);
	expect_event(MOOR_EVENT_COMM_EST, p.qp[1].qpn);
	expect_event(MOOR_EVENT_QP_ACCESS_ERR, p.qp[1].qpn);
	expect_no_event(MOOR_EQ_ASYNC);
	psn.mask = MOOR_QP_ATTR_RQ_PSN;
	for (ahead = -100; ahead <= 100; ahead += 200) {
		about("a responder whose PSN is %d ahead", ahead);
		up_to_rtr(&p, ahead);
		post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE });
		expect_cqe(&p.cq[0], 0, MOOR_WC_RETRY_EXC_ERR,
			   MOOR_SYN_NO_RESPONDER);
		expect_no_event(MOOR_EQ_ASYNC);
		about("and then is not");
		must_modify(&p.qp[1], psn);
		reset_qp(&p.qp[0]);
		connect_qp(&p.qp[0], p.qp[1].qpn);
		expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 64, true);
		expect_event(MOOR_EVENT_COMM_EST, p.qp[1].qpn);
		expect_no_event(MOOR_EQ_ASYNC);
	}
}

TEST_CASE(drained, "SQ_DRAINED: in SQD, when notification was asked for",
	  "EV-11 RC-16", 0)
{
	struct moor_cmd_modify_qp sqd = to_state(MOOR_QPS_SQD);
	struct moor_eqe eqe;
	struct pair p;

	make_pair(&p);
	drop_events(MOOR_EQ_ASYNC);
	must_modify(&p.qp[0], sqd);
	settle();
	expect(!next_event(MOOR_EQ_ASYNC, &eqe), "unasked");
	must_modify(&p.qp[0], to_state(MOOR_QPS_RTS));
	sqd.mask |= MOOR_QP_ATTR_SQD_EVENT;
	must_modify(&p.qp[0], sqd);
	expect_event(MOOR_EVENT_SQ_DRAINED, p.qp[0].qpn);
	expect(!query_qp(&p.qp[0]).sq_draining, "it is still draining");
	about("from SQD to SQD");
	must_modify(&p.qp[0], sqd);
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(drained_behind, "SQ_DRAINED comes behind the CQEs of what has ended", "EV-11 ORD-1", 0)
{
	struct moor_cmd_modify_qp sqd = to_state(MOOR_QPS_SQD);
	uint32_t round, i, posted, there, ended = 0;
	struct moor_cqe cqe;
	struct moor_eqe eqe;
	struct pair p;

	sqd.mask |= MOOR_QP_ATTR_SQD_EVENT;
	make_pair(&p);
	for (round = 0; round < 20; round++) {
		about("round %u", round);
		posted = DEPTH < 4 ? 1 : DEPTH - 1;
		for (i = 0; i < posted; i++)
			put_send(&p.qp[0], &(struct send_wr){
				.opcode = MOOR_WQE_WRITE, .remote = p.buf[1],
				.rkey = p.key[1], SGE(p.buf[0], 2048, p.key[0]),
			});
		ring_send(&p.qp[0]);
		for (i = 0; i < round * 20; i++)
			peek_cqe(&p.cq[0], &cqe);
		must_modify(&p.qp[0], sqd);
		/* At once: what comes behind it comes soon. */
		need(watch_until(next_event(MOOR_EQ_ASYNC, &eqe)) &&
		     eqe.type == MOOR_EVENT_SQ_DRAINED, "no event");
		for (there = 0; poll_cqe(&p.cq[0], &cqe); there++)
			;
		ended += there;
		expect(query_qp(&p.qp[0]).sq_consumer == ended,
		       "%u WQEs have ended, %u CQEs are there",
		       query_qp(&p.qp[0]).sq_consumer, ended);
		must_modify(&p.qp[0], to_state(MOOR_QPS_RTS));
		for (; there < posted; there++, ended++)
			expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
	}
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(left_before_drained, "there is none when it has left SQD before", "EV-11 QP-12", 0)
{
	struct moor_cmd_modify_qp sqd = to_state(MOOR_QPS_SQD);
	struct pair p;

	sqd.mask |= MOOR_QP_ATTR_SQD_EVENT;
	make_pair(&p);
	must_modify(&p.qp[0], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_RNR_RETRY, .rnr_retry = 7,
	});
	/* It waits for a receive. */
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_SEND, .wr_id = 1 });
	settle();
	must_modify(&p.qp[0], sqd);
	expect(query_qp(&p.qp[0]).sq_draining, "it does not drain");
	must_modify(&p.qp[0], to_state(MOOR_QPS_RTS));
	post_recv(&p.qp[1], 2, 0, 0, 0);
	expect_cqe(&p.cq[0], 1, MOOR_WC_SUCCESS, 0);
	expect_no_event(MOOR_EQ_ASYNC);
	about("in SQD again, unasked");
	must_modify(&p.qp[0], to_state(MOOR_QPS_SQD));
	expect_no_event(MOOR_EQ_ASYNC);
	about("and asked");
	must_modify(&p.qp[0], to_state(MOOR_QPS_RTS));
	must_modify(&p.qp[0], sqd);
	expect_event(MOOR_EVENT_SQ_DRAINED, p.qp[0].qpn);
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(fatal_queue, "QP_FATAL: a producer index that makes no sense",
	  "EV-7 EV-19 WQ-5", 0)
{
	const uint32_t beyond[] = { DEPTH + 1, DEPTH + 100, 1u << 31 };
	struct pair p;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		about("%u ahead", beyond[i]);
		host_begin();
		make_pair(&p);
		drop_events(MOOR_EQ_ASYNC);
		post_recv(&p.qp[0], 7, p.buf[0], 64, p.key[0]);
		ring_slot(p.qp[0].sq_slot, beyond[i]);
		expect_event(MOOR_EVENT_QP_FATAL, p.qp[0].qpn);
		expect(reaches_state(&p.qp[0], MOOR_QPS_ERR), "not in ERR");
		expect_cqe(&p.cq[0], 7, MOOR_WC_WR_FLUSH_ERR, 0);
		expect_no_cqe(&p.cq[0]);
		about("a receive queue, %u ahead", beyond[i]);
		host_begin();
		make_pair(&p);
		drop_events(MOOR_EQ_ASYNC);
		store_slot(p.qp[1].rq_slot, beyond[i]);
		post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_SEND });
		expect_event(MOOR_EVENT_QP_FATAL, p.qp[1].qpn);
		expect_cqe(&p.cq[0], 0, MOOR_WC_REM_OP_ERR, 0);
	}
}

TEST_CASE(counted_from, "a queue that is full is none that is senseless: one WQE more is",
	  "WQ-5 QP-15 EV-7 RC-23", 0)
{
	const struct moor_cmd_modify_qp for_ever = {
		.mask = MOOR_QP_ATTR_RNR_RETRY, .rnr_retry = 7,
	};
	struct pair p;
	unsigned int i;

	make_pair(&p);
	must_modify(&p.qp[0], for_ever);
	drop_events(MOOR_EQ_ASYNC);
	for (i = 0; i < 5; i++)
		expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 64, true);
	about("full, the first WQE under way");
	for (i = 0; i < DEPTH; i++)
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_SEND, .wr_id = i });
	ring_send(&p.qp[0]);
	expect_no_cqe(&p.cq[0]);
	expect(query_qp(&p.qp[0]).sq_consumer == 5, "%u have ended",
	       query_qp(&p.qp[0]).sq_consumer);
	about("a receive queue that is full");
	for (i = 0; i < DEPTH; i++)
		put_recv(&p.qp[1], i, NULL, 0);
	ring_recv(&p.qp[1]);
	for (i = 0; i < DEPTH; i++) {
		expect_cqe(&p.cq[0], i, MOOR_WC_SUCCESS, 0);
		expect_cqe(&p.cq[1], i, MOOR_WC_SUCCESS, 0);
	}
	expect_no_event(MOOR_EQ_ASYNC);
	about("one more than full");
	ring_slot(p.qp[0].sq_slot, p.qp[0].sq_producer + DEPTH + 1);
	expect_event(MOOR_EVENT_QP_FATAL, p.qp[0].qpn);
	expect(reaches_state(&p.qp[0], MOOR_QPS_ERR), "not in ERR");
	about("one receive more than full");
	reset_qp(&p.qp[0]);
	connect_qp(&p.qp[0], p.qp[1].qpn);
	must_modify(&p.qp[1], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_RQ_PSN, .rq_psn = to_rtr(0).rq_psn,
	});
	store_slot(p.qp[1].rq_slot, p.qp[1].rq_producer + DEPTH + 1);
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_SEND });
	expect_cqe(&p.cq[0], 0, MOOR_WC_REM_OP_ERR, 0);
	expect_event(MOOR_EVENT_QP_FATAL, p.qp[1].qpn);
}

/* Stores nonsense into the slots of QP 0, in each state up to RTR. */
static void nonsense_till_rtr(struct pair *p)
{
	struct moor_eqe eqe;
	unsigned int state;

	reset_qp(&p->qp[0]);
	drop_events(MOOR_EQ_ASYNC);
	for (state = MOOR_QPS_RESET; state <= MOOR_QPS_RTR; state++) {
		if (state == MOOR_QPS_INIT)
			must_modify(&p->qp[0], to_init());
		else if (state == MOOR_QPS_RTR)
			must_modify(&p->qp[0], to_rtr(p->qp[1].qpn));
		ring_slot(p->qp[0].sq_slot, DEPTH + 1 + state);
		store_slot(p->qp[0].rq_slot, DEPTH + 1 + state);
		settle();
		expect(!next_event(MOOR_EQ_ASYNC, &eqe), "state %u: event 0x%x",
		       state, eqe.type);
		expect(query_qp(&p->qp[0]).state == state,
		       "it has left state %u", state);
	}
}

TEST_CASE(early_producer, "a senseless producer index is found when a WQE would be taken up",
	  "WQ-18 WQ-5 RC-17 EV-7", 0)
{
	struct pair p;

	make_pair(&p);
	nonsense_till_rtr(&p);
	must_modify(&p.qp[0], to_rts());
	expect_event(MOOR_EVENT_QP_FATAL, p.qp[0].qpn);
	expect(reaches_state(&p.qp[0], MOOR_QPS_ERR), "not in ERR");
}

TEST_CASE(mended_producer, "one that has been put right by then does nothing",
	  "WQ-18 RC-16", 0)
{
	struct moor_eqe eqe;
	struct pair p;

	make_pair(&p);
	nonsense_till_rtr(&p);
	ring_slot(p.qp[0].sq_slot, 0);
	store_slot(p.qp[0].rq_slot, 0);
	must_modify(&p.qp[0], to_rts());
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
	about("in SQD");
	must_modify(&p.qp[0], to_state(MOOR_QPS_SQD));
	ring_slot(p.qp[0].sq_slot, DEPTH + 2);
	settle();
	expect(query_qp(&p.qp[0]).state == MOOR_QPS_SQD, "not in SQD");
	ring_send(&p.qp[0]);
	must_modify(&p.qp[0], to_state(MOOR_QPS_RTS));
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
	expect(!next_event(MOOR_EQ_ASYNC, &eqe), "event 0x%x", eqe.type);
}

TEST_CASE(unreachable_queue, "QP_FATAL: a queue that cannot be reached any more",
	  "EV-7 WQ-5 RC-23", 0)
{
	/* Of a queue, in whole pages. */
	uint64_t pages = ((DEPTH << LOG_STRIDE) + PAGE - 1) & ~(PAGE - 1);
	struct pair p;

	make_pair(&p);
	drop_events(MOOR_EQ_ASYNC);
	settle();
	dma_unmap(p.qp[0].sq, pages);
	ring_slot(p.qp[0].sq_slot, 1);
	expect_event(MOOR_EVENT_QP_FATAL, p.qp[0].qpn);
	expect(reaches_state(&p.qp[0], MOOR_QPS_ERR), "not in ERR");
	dma_restore();

	about("a receive queue");
	host_begin();
	make_pair(&p);
	drop_events(MOOR_EQ_ASYNC);
	settle();
	/* A device may read a receive as soon as it sees the slot. */
	dma_unmap(p.qp[1].rq, pages);
	post_recv(&p.qp[1], 1, p.buf[1], 64, p.key[1]);
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_SEND });
	expect_event(MOOR_EVENT_QP_FATAL, p.qp[1].qpn);
	expect_cqe(&p.cq[0], 0, MOOR_WC_REM_OP_ERR, 0);
	dma_restore();
}

TEST_CASE(unreachable_cq, "CQ_ERROR: the ring of a CQ that cannot be reached any more",
	  "EV-6 CQ-9 CQ-10", 0)
{
	bool reports = platform_reports_writes();
	struct pair p;

	make_pair(&p);
	drop_events(MOOR_EQ_ASYNC);
	settle();
	dma_unmap(p.cq[0].ring, PAGE);
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	if (reports) {
		expect_event(MOOR_EVENT_CQ_ERROR, p.cq[0].cqn);
		expect(reaches_state(&p.qp[0], MOOR_QPS_ERR), "the QP is not in ERR");
	}
	expect_no_event(MOOR_EQ_ASYNC);
	expect(is_all(p.cq[0].ring, PAGE, 0), "it is written");
	dma_restore();
}

/* Fills EQ 2 with events of a CQ that the case does not look at. */
static void fill_completion_eq(struct qp *qp, struct cq *cq)
{
	unsigned int i;

	make_small_eq(MOOR_EQ_COMPLETION);
	make_cq(cq, 0, LOG_DEPTH);
	make_qp(qp, cq, cq);
	connect_qp(qp, qp->qpn);
	for (i = 0; i < FEW; i++) {
		arm_cq(cq, MOOR_CQ_ARM_ANY);
		one_cqe(qp, cq);
		let_event_come(i + 1);
	}
}

TEST_CASE(merged, "while an event is kept back, further ones like it are one with it",
	  "EV-16 EV-3", 0)
{
	unsigned int i, others = 0, ones = 0;
	struct moor_eqe eqe;
	struct cq cq[2];
	struct qp qp[2];

	fill_completion_eq(&qp[0], &cq[0]);
	self_connected(&qp[1], &cq[1], 1);
	for (i = 0; i < 5; i++) {
		arm_cq(&cq[1], MOOR_CQ_ARM_ANY);
		one_cqe(&qp[1], &cq[1]);
		settle();
	}
	while (others < FEW && wait_event(MOOR_EQ_COMPLETION, &eqe))
		others += eqe.number == 0;
	expect(wait_event(MOOR_EQ_COMPLETION, &eqe) && eqe.number == 1,
	       "the event that was kept back does not come");
	settle();
	while (next_event(MOOR_EQ_COMPLETION, &eqe))
		ones++;
	expect(!ones, "%u more of them", ones);
}

TEST_CASE(gone_with_queue, "an event that is kept back goes with its queue", "EV-17", 0)
{
	struct moor_cmd_destroy_cq destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_CQ, .cqn = 1,
	};
	struct moor_eqe eqe;
	struct cq cq[2];
	struct qp qp[2];
	unsigned int n = 0;

	fill_completion_eq(&qp[0], &cq[0]);
	self_connected(&qp[1], &cq[1], 1);
	arm_cq(&cq[1], MOOR_CQ_ARM_ANY);
	one_cqe(&qp[1], &cq[1]);
	settle();
	destroy_qp(&qp[1]);
	must(destroy);
	while (n < FEW && wait_event(MOOR_EQ_COMPLETION, &eqe))
		n += expect(eqe.number == 0, "an event of CQ %u", eqe.number);
	expect_no_event(MOOR_EQ_COMPLETION);
}

/* A WRITE of QP 0 that the QP @qp, which is connected to it anew, refuses with an event. */
static void access_error(struct pair *p, struct qp *qp)
{
	reset_qp(&p->qp[0]);
	reset_qp(qp);
	connect_qp(&p->qp[0], qp->qpn);
	connect_qp(qp, p->qp[0].qpn);
	post_send(&p->qp[0], (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .remote = p->buf[1],
		.rkey = p->key[1] ^ 1, SGE(p->buf[0], 8, p->key[0]),
	});
	expect_cqe(&p->cq[0], 0, MOOR_WC_REM_ACCESS_ERR, 0);
	settle();
}

TEST_CASE(of_a_qp, "those of a QP that are kept back stay at RESET, and go when it is destroyed",
	  "EV-17 EV-3", 0)
{
	struct qp stays, goes;
	unsigned int i;
	struct pair p;

	make_pair(&p);
	make_qp(&stays, &p.cq[1], &p.cq[1]);
	make_qp(&goes, &p.cq[1], &p.cq[1]);
	make_small_eq(MOOR_EQ_ASYNC);
	for (i = 0; i < FEW; i++) {
		access_error(&p, &p.qp[1]);
		need(has_events(MOOR_EQ_ASYNC, i + 1), "event %u does not come", i);
	}
	access_error(&p, &goes);
	access_error(&p, &stays);
	reset_qp(&stays);
	destroy_qp(&goes);
	for (i = 0; i < FEW; i++)
		expect_event(MOOR_EVENT_QP_ACCESS_ERR, p.qp[1].qpn);
	expect_event(MOOR_EVENT_QP_ACCESS_ERR, stays.qpn);
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(no_eq, "an event whose EQ does not exist is lost", "EV-18 EQ-2", 0)
{
	struct moor_cmd_destroy_eq destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_EQ, .eqn = MOOR_EQ_ASYNC,
	};
	const uint64_t old = next_event_place(MOOR_EQ_ASYNC) & ~(PAGE - 1);
	struct pair p;

	make_pair(&p);
	must(destroy);
	memset(at(old), 0x99, PAGE);
	expect(move(&p, MOOR_WQE_WRITE, p.buf[0], p.key[0], p.buf[1],
		    p.key[1] ^ 1, 8).status == MOOR_WC_REM_ACCESS_ERR, "status");
	settle();
	expect(is_all(old, PAGE, 0x99), "it is written where EQ 0 was");
	make_eq(MOOR_EQ_ASYNC, LOG_EQE, eq_vector(MOOR_EQ_ASYNC));
	expect_no_event(MOOR_EQ_ASYNC);
	expect(is_all(old, PAGE, 0x99), "it is written where EQ 0 was");
	reconnect(&p);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1] ^ 1, p.buf[1], 8, false);
}
