// SPDX-License-Identifier: GPL-2.0
/* CQEs, notification, resizing (HWI 11.1, 11.2, 8.4). */
#include <string.h>

#include "traffic.h"

TEST_CASE(cqe, "the fields of a CQE", "CQ-4 CQ-5 CQ-6 CQ-7 CQ-8 CQ-18 VER-4 SYN-1",
	  0)
{
	static const uint8_t zero[6];
	uint64_t before, after;
	struct moor_cqe cqe;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 5 * DEPTH; i++) {
		bool send = i % 3 == 1;

		before = reg_read64(MOOR_REG_CLOCK);
		if (send)
			post_recv(&p.qp[1], ~(uint64_t)i, p.buf[1], 500, p.key[1]);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = send ? MOOR_WQE_SEND : i % 3 ? MOOR_WQE_READ :
				  MOOR_WQE_WRITE,
			.wr_id = (uint64_t)i << 40 | 7, .remote = p.buf[1],
			.rkey = p.key[1], SGE(p.buf[0], 100 + i, p.key[0]),
		});
		cqe = wait_cqe(&p.cq[0]);
		after = reg_read64(MOOR_REG_CLOCK);
		about("send %u", i);
		expect(cqe.wr_id == ((uint64_t)i << 40 | 7) && !cqe.status &&
		       !cqe.syndrome && cqe.qpn == p.qp[0].qpn &&
		       cqe.cookie == ~p.qp[0].qpn && cqe.wqe_index == i &&
		       cqe.byte_len == 100 + i &&
		       cqe.opcode == (send ? MOOR_WQE_SEND : i % 3 ?
				      MOOR_WQE_READ : MOOR_WQE_WRITE) &&
		       !cqe.pkey_index && !cqe.network && !cqe.priority &&
		       !memcmp(cqe.smac, zero, sizeof(cqe.smac)) && !cqe.vlan &&
		       !cqe.src_qpn && !cqe.imm && !cqe.flags && !cqe.reserved1 &&
		       !(cqe.phase & ~1u), "wr_id 0x%llx, QP 0x%x, WQE %u, opcode 0x%x",
		       (unsigned long long)cqe.wr_id, cqe.qpn, cqe.wqe_index,
		       cqe.opcode);
		expect(cqe.timestamp >= before && cqe.timestamp <= after,
		       "its time is not between before and after");
		if (!send)
			continue;
		cqe = wait_cqe(&p.cq[1]);
		about("receive %u", i);
		expect(cqe.wr_id == ~(uint64_t)i && cqe.qpn == p.qp[1].qpn &&
		       cqe.cookie == ~p.qp[1].qpn && cqe.wqe_index == i / 3 &&
		       cqe.src_qpn == p.qp[0].qpn && cqe.byte_len == 100 + i &&
		       cqe.opcode == MOOR_CQE_RECV && !cqe.flags && !cqe.imm,
		       "QP 0x%x, WQE %u, %u bytes, opcode 0x%x, flags 0x%x",
		       cqe.qpn, cqe.wqe_index, cqe.byte_len, cqe.opcode,
		       cqe.flags);
		if (cqe.wr_id != ~(uint64_t)i)
			return;
	}
}

TEST_CASE(cqe_time, "a CQE has the time when it was written, not that of the work", "CQ-7",
	  0)
{
	uint64_t then, last = 0;
	struct moor_cqe cqe;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	about("a SEND that waits for a receive");
	must_modify(&p.qp[0], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_RNR_RETRY, .rnr_retry = 7,
	});
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND, SGE(p.buf[0], 64, p.key[0]),
	});
	settle();
	then = reg_read64(MOOR_REG_CLOCK);
	post_recv(&p.qp[1], 1, p.buf[1], 64, p.key[1]);
	expect(wait_cqe(&p.cq[0]).timestamp >= then &&
	       wait_cqe(&p.cq[1]).timestamp >= then, "it is older");
	about("many at once");
	for (i = 0; i < DEPTH; i++)
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = i & 1 ? MOOR_WQE_READ : MOOR_WQE_WRITE,
			.remote = p.buf[1], .rkey = p.key[1],
			SGE(p.buf[0], 8, p.key[0]),
		});
	ring_send(&p.qp[0]);
	for (i = 0; i < DEPTH; i++) {
		cqe = wait_cqe(&p.cq[0]);
		if (!expect(cqe.timestamp >= last, "CQE %u: it goes backwards", i))
			break;
		last = cqe.timestamp;
	}
}

TEST_CASE(error_cqe, "with an error, bit 7 of the opcode tells the queue", "CQ-8 CQ-19", 0)
{
	static const uint8_t opcodes[] = { 0x7f, 0x80, 0x81, 0xff,
					   MOOR_WQE_WRITE };
	struct moor_cqe cqe;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 5; i++) {
		about("opcode 0x%02x", opcodes[i]);
		post_recv(&p.qp[0], 55, p.buf[0], 64, p.key[0]);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = opcodes[i], .wr_id = 44, .remote = p.buf[1],
			.rkey = ~p.key[1], SGE(p.buf[0], 8, p.key[0]),
		});
		cqe = wait_cqe(&p.cq[0]);
		expect(cqe.wr_id == 44 && cqe.status && !(cqe.opcode & 0x80) &&
		       cqe.qpn == p.qp[0].qpn && cqe.cookie == ~p.qp[0].qpn,
		       "send: wr_id %llu, opcode 0x%x",
		       (unsigned long long)cqe.wr_id, cqe.opcode);
		cqe = wait_cqe(&p.cq[0]);
		expect(cqe.wr_id == 55 && cqe.status == MOOR_WC_WR_FLUSH_ERR &&
		       cqe.opcode & 0x80 && cqe.qpn == p.qp[0].qpn,
		       "receive: wr_id %llu, status %u, opcode 0x%x",
		       (unsigned long long)cqe.wr_id, cqe.status, cqe.opcode);
		reconnect(&p);
	}
}

TEST_CASE(overrun, "a CQ that is full fails, with its QPs; nothing is written over",
	  "CQ-9 CQ-10 EV-6 CMD-13 CMD-30", 0)
{
	struct moor_cmd_resize_cq resize = {
		.hdr.opcode = MOOR_CMD_RESIZE_CQ, .log_cqe = 5,
	};
	struct moor_cqe cqe;
	unsigned int i, n;
	struct cq cq;
	struct qp qp;

	at_least(max_log_cqe, 3);
	make_cq(&cq, 0, 3);
	make_qp(&qp, &cq, &cq);
	connect_qp(&qp, qp.qpn);
	drop_events(MOOR_EQ_ASYNC);
	for (i = 0; i < 8; i++)
		post_send(&qp, (struct send_wr){
			.opcode = MOOR_WQE_WRITE, .wr_id = i,
		});
	expect_no_event(MOOR_EQ_ASYNC);
	expect(query_qp(&qp).state == MOOR_QPS_RTS, "a full CQ is no error");
	post_send(&qp, (struct send_wr){ .opcode = MOOR_WQE_WRITE, .wr_id = 8 });
	expect_event(MOOR_EVENT_CQ_ERROR, 0);
	expect(reaches_state(&qp, MOOR_QPS_ERR), "the QP is not in ERR");
	for (i = 0; i < 8; i++) {
		need(peek_cqe(&cq, &cqe), "CQE %u is not there", i);
		expect(cqe.wr_id == i && !cqe.status, "CQE %u is of %llu", i,
		       (unsigned long long)cqe.wr_id);
		cq.consumer++;
	}
	about("once failed, it stays so, and says it once");
	free_cqes(&cq);
	post_send(&qp, (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	settle();
	for (n = 0; next_event(MOOR_EQ_ASYNC, &(struct moor_eqe){ 0 }); n++)
		;
	expect(!n, "%u more events", n);
	expect(!peek_cqe(&cq, &cqe), "it takes a CQE");
	resize.ring = flat(take(PAGE));
	refused(resize, MOOR_CMD_BAD_STATE, cqn, "RESIZE_CQ");
}

TEST_CASE(overrun_by_receive, "a receive that finds its CQ full",
	  "CQ-9 CQ-10 EV-6 RC-42", 0)
{
	struct moor_cmd_create_qp cmd;
	struct cq small, cq;
	struct qp a, b;
	uint64_t buf;
	uint32_t key;
	unsigned int i;

	at_least(max_log_cqe, 3);
	make_cq(&small, 0, 2);
	make_cq(&cq, 1, 6);
	make_qp(&a, &cq, &cq);
	cmd = qp_command(&b, &cq, &small);
	must(cmd);
	connect_qp(&a, b.qpn);
	connect_qp(&b, a.qpn);
	drop_events(MOOR_EQ_ASYNC);
	buf = take(PAGE);
	key = make_mr(PD, ALL_RIGHTS, buf, PAGE);
	for (i = 0; i < 5; i++)
		post_recv(&b, i, buf, 64, key);
	for (i = 0; i < 5; i++)
		post_send(&a, (struct send_wr){
			.opcode = MOOR_WQE_SEND, SGE(buf, 64, key),
		});
	expect_event(MOOR_EVENT_CQ_ERROR, 0);
	expect(reaches_state(&b, MOOR_QPS_ERR), "the QP is not in ERR");
	for (i = 0; i < 4; i++)
		expect_cqe(&cq, 0, MOOR_WC_SUCCESS, 0);
	expect_cqe(&cq, 0, MOOR_WC_REM_OP_ERR, 0);
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(uc_overrun_by_receive, "UC: the same, and nobody but the receiver is told",
	  "RC-42 UC-4 CQ-10", HAS(UC))
{
	struct moor_cmd_create_qp cmd;
	struct cq small, cq;
	struct qp a, b;
	unsigned int i;

	make_cq(&small, 0, 1);
	make_cq(&cq, 1, 6);
	cmd = qp_command(&a, &cq, &cq);
	cmd.type = MOOR_QP_UC;
	must(cmd);
	cmd = qp_command(&b, &cq, &small);
	cmd.type = MOOR_QP_UC;
	must(cmd);
	connect_qp(&a, b.qpn);
	connect_qp(&b, a.qpn);
	drop_events(MOOR_EQ_ASYNC);
	for (i = 0; i < 3; i++) {
		put_recv(&b, i, NULL, 0);
		ring_recv(&b);
	}
	for (i = 0; i < 3; i++) {
		post_send(&a, (struct send_wr){ .opcode = MOOR_WQE_SEND });
		expect_cqe(&cq, 0, MOOR_WC_SUCCESS, 0);
	}
	expect_event(MOOR_EVENT_CQ_ERROR, 0);
	expect(reaches_state(&b, MOOR_QPS_ERR), "the QP is not in ERR");
	expect(query_qp(&a).state == MOOR_QPS_RTS, "the requester is not in RTS");
}

/* ---- notification ---- */

static void send_one(struct pair *p, unsigned int flags)
{
	post_recv(&p->qp[1], 1, p->buf[1], 64, p->key[1]);
	post_send(&p->qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND, .flags = flags | UNSIGNALED,
		SGE(p->buf[0], 64, p->key[0]),
	});
	wait_cqe(&p->cq[1]);
}

static void expect_completion(uint32_t cqn)
{
	struct moor_eqe eqe;

	if (expect(wait_event(MOOR_EQ_COMPLETION, &eqe), "no event of CQ %u", cqn))
		expect(eqe.type == MOOR_EVENT_COMPLETION && eqe.number == cqn,
		       "type 0x%x of %u", eqe.type, eqe.number);
}

TEST_CASE(arm_any, "armed for any: one event for one request",
	  "CQ-11 CQ-12 EV-5", 0)
{
	struct pair p;
	unsigned int i;

	make_pair(&p);
	send_one(&p, 0);
	expect_no_event(MOOR_EQ_COMPLETION);
	for (i = 0; i < 3; i++) {
		about("round %u", i);
		arm_cq(&p.cq[1], MOOR_CQ_ARM_ANY);
		expect_no_event(MOOR_EQ_COMPLETION);
		send_one(&p, 0);
		expect_completion(1);
		send_one(&p, 0);
		send_one(&p, MOOR_WQE_FLAG_SOLICITED);
		expect_no_event(MOOR_EQ_COMPLETION);
	}
	about("arm 3, and arm 0, are no request");
	arm_cq(&p.cq[1], 3);
	send_one(&p, 0);
	arm_cq(&p.cq[1], MOOR_CQ_ARM_NONE);
	send_one(&p, 0);
	expect_no_event(MOOR_EQ_COMPLETION);
	about("the same sequence again");
	arm_cq(&p.cq[1], MOOR_CQ_ARM_ANY);
	send_one(&p, 0);
	expect_completion(1);
	free_cqes(&p.cq[1]);
	send_one(&p, MOOR_WQE_FLAG_SOLICITED);
	expect_no_event(MOOR_EQ_COMPLETION);
}

TEST_CASE(arm_solicited, "armed for solicited: those and errors, no other",
	  "CQ-11 CQ-23 CQ-18 WQ-7", 0)
{
	struct moor_cqe cqe;
	struct pair p;

	make_pair(&p);
	arm_cq(&p.cq[1], MOOR_CQ_ARM_SOLICITED);
	send_one(&p, 0);
	send_one(&p, 0);
	expect_no_event(MOOR_EQ_COMPLETION);
	post_recv(&p.qp[1], 1, p.buf[1], 64, p.key[1]);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND, .flags = MOOR_WQE_FLAG_SOLICITED,
		SGE(p.buf[0], 64, p.key[0]),
	});
	cqe = wait_cqe(&p.cq[1]);
	expect(cqe.flags & MOOR_CQE_FLAG_SOLICITED, "the CQE does not say so");
	expect_completion(1);

	about("an error");
	wait_cqe(&p.cq[0]);
	arm_cq(&p.cq[0], MOOR_CQ_ARM_SOLICITED);
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	wait_cqe(&p.cq[0]);
	expect_no_event(MOOR_EQ_COMPLETION);
	post_send(&p.qp[0], (struct send_wr){ .opcode = 0x7f });
	wait_cqe(&p.cq[0]);
	expect_completion(0);
}

static void arm_to_sleep(struct cq *cq)
{
	arm_cq(cq, MOOR_CQ_ARM_ANY);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

TEST_CASE(arm_race, "no arrival is lost between arming and polling", "CQ-11 CQ-12 CQ-21 ORD-1",
	  0)
{
	struct moor_cqe cqe;
	struct moor_eqe eqe;
	unsigned int i;
	struct pair p;

	make_pair(&p);
	/* As a consumer sleeps: arm, poll once more, wait for the event. */
	for (i = 0; i < 300; i++) {
		uint64_t end = now_ns() + i % 50 * 1000;

		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_WRITE, .remote = p.buf[1],
			.rkey = p.key[1], SGE(p.buf[0], 64, p.key[0]),
		});
		while (now_ns() < end)
			;
		arm_to_sleep(&p.cq[0]);
		/*
		 * The event may be due to the round before, whose CQE was polled: it has
		 * answered this round's request, and a new request is needed (CQ-13).
		 */
		while (!poll_cqe(&p.cq[0], &cqe)) {
			need(wait_event(MOOR_EQ_COMPLETION, &eqe),
			     "round %u: no CQE, and no event behind it", i);
			arm_to_sleep(&p.cq[0]);
		}
		expect(!cqe.status, "status %u", cqe.status);
		drop_events(MOOR_EQ_COMPLETION);
		/* An open request would be answered in place of the next one. */
		if (i % 3)
			arm_cq(&p.cq[0], MOOR_CQ_ARM_NONE);
	}
}

/* ---- RESIZE_CQ ---- */

TEST_CASE(resize, "RESIZE_CQ: nothing is lost, nothing comes twice",
	  "CQ-3 CQ-14 CQ-15 CQ-16 CMD-11 CMD-12 CMD-16 CMD-30", 0)
{
	static const unsigned int sizes[] = { 6, 4, 7, 5, 4 };
	struct moor_cmd_resize_cq cmd = { .hdr.opcode = MOOR_CMD_RESIZE_CQ };
	uint64_t posted = 0, taken = 0, old;
	struct moor_eqe eqe;
	unsigned int i, j;
	struct cq cq;
	struct qp qp;

	at_least(max_log_cqe, 7);
	make_cq(&cq, 0, 5);
	make_qp(&qp, &cq, &cq);
	connect_qp(&qp, qp.qpn);
	for (i = 0; i < 5; i++) {
		about("to %u entries", 1u << sizes[i]);
		for (j = 0; j < 7 + i; j++)
			post_send(&qp, (struct send_wr){
				.opcode = MOOR_WQE_WRITE, .wr_id = posted++,
			});
		settle();
		cmd.log_cqe = (uint8_t)sizes[i];
		cmd.ring = flat(take(64u << sizes[i]));
		/* The old content of the new ring does not matter, not even phases. */
		memset(at(cmd.ring.root & MOOR_PTE_ADDR), i & 1 ? 0xff : 0,
		       64u << sizes[i]);
		must(cmd);
		old = cq.ring;
		memset(at(old), 0x77, 64u << cq.log_cqe);
		cq.ring = cmd.ring.root & MOOR_PTE_ADDR;
		j = cq.log_cqe;
		cq.log_cqe = sizes[i];
		while (taken < posted)
			expect_cqe(&cq, taken++, MOOR_WC_SUCCESS, 0);
		while (posted < taken + 8)
			post_send(&qp, (struct send_wr){
				.opcode = MOOR_WQE_WRITE, .wr_id = posted++,
			});
		while (taken < posted)
			expect_cqe(&cq, taken++, MOOR_WC_SUCCESS, 0);
		expect(is_all(old, 64u << j, 0x77), "the old ring is touched");
	}
	about("what does not fit");
	for (j = 0; j < 9; j++)
		post_send(&qp, (struct send_wr){
			.opcode = MOOR_WQE_WRITE, .wr_id = posted++,
		});
	settle();
	cmd.log_cqe = 3;
	cmd.ring = flat(take(PAGE));
	memset(at(cmd.ring.root & MOOR_PTE_ADDR), 0x66, PAGE);
	expect(do_command(cmd) == MOOR_CMD_BAD_PARAM, "status %u", answer.status);
	expect(is_all(cmd.ring.root & MOOR_PTE_ADDR, PAGE, 0x66),
	       "a command that fails writes to the new ring");
	cmd.log_cqe = (uint8_t)(dev.max_log_cqe + 1);
	refused(cmd, MOOR_CMD_BAD_PARAM, log_cqe, "beyond MAX_LOG_CQE");
	cmd.log_cqe = 5;
	cmd.ring.offset = 16;
	refused(cmd, MOOR_CMD_BAD_PARAM, ring, "an offset of 16");
	cmd.ring = flat(take(PAGE));
	cmd.ring.memory = MOOR_MEMORY_GATHER;
	refused(cmd, MOOR_CMD_BAD_PARAM, ring, "a gather list");
	cmd.ring = flat(take(PAGE));
	cmd.ring.root = 0;
	refused(cmd, MOOR_CMD_DMA_FAULT, ring, "a ring without an entry");
	cmd.ring = flat(take(PAGE));
	cmd.cqn = 1;
	refused(cmd, MOOR_CMD_BAD_INDEX, cqn, "a CQ that there is not");
	about("the refused ones have changed nothing");
	while (taken < posted)
		expect_cqe(&cq, taken++, MOOR_WC_SUCCESS, 0);
	about("a ring that is nowhere: now, or when it is needed (CMD-41)");
	cmd.cqn = 0;
	cmd.ring = flat(NOWHERE);
	drop_events(MOOR_EQ_ASYNC);
	i = do_command(cmd);
	post_send(&qp, (struct send_wr){ .opcode = MOOR_WQE_WRITE, .wr_id = posted++ });
	if (i == MOOR_CMD_DMA_FAULT) {
		expect_cqe(&cq, taken++, MOOR_WC_SUCCESS, 0);
		return;
	}
	expect(i == MOOR_CMD_OK, "status %u", i);
	settle();
	expect(!peek_cqe(&cq, &(struct moor_cqe){ 0 }), "the old ring is used");
	while (next_event(MOOR_EQ_ASYNC, &eqe))
		expect(eqe.type == MOOR_EVENT_CQ_ERROR && !eqe.number, "event 0x%x", eqe.type);
}

TEST_CASE(resize_torn, "RESIZE_CQ that can read the old ring in part does not write the new one",
	  "CQ-16 CMD-16 CMD-18 ACC-14 ERR-6", 0)
{
	struct moor_cmd_resize_cq cmd = {
		.hdr.opcode = MOOR_CMD_RESIZE_CQ, .log_cqe = 8,
	};
	const uint32_t before = PAGE / sizeof(struct moor_cqe) - 2;
	unsigned int i;
	uint64_t ring;
	struct cq cq;
	struct qp qp;

	at_least(max_log_cqe, 8);
	make_cq(&cq, 0, 7);
	make_qp(&qp, &cq, &cq);
	connect_qp(&qp, qp.qpn);
	/* The CQEs that stay begin in the first page and end in the second. */
	for (i = 0; i < before + 4; i++) {
		post_send(&qp, (struct send_wr){ .opcode = MOOR_WQE_WRITE, .wr_id = i });
		if (i < before)
			expect_cqe(&cq, i, MOOR_WC_SUCCESS, 0);
	}
	settle();
	ring = take(64u << cmd.log_cqe);
	memset(at(ring), 0x66, 64u << cmd.log_cqe);
	cmd.ring = flat(ring);
	for (i = 0; i < 2; i++) {
		about(i ? "half of the CQEs are for writing" : "half are nowhere");
		dma_unmap(cq.ring + PAGE, PAGE);
		if (i)
			dma_map(cq.ring + PAGE, PAGE, cq.ring + PAGE - MEMORY_BASE,
				DMA_WRITE);
		refused(cmd, MOOR_CMD_DMA_FAULT, ring, "the old ring");
		expect(is_all(ring, 64u << cmd.log_cqe, 0x66),
		       "the new ring is written");
		dma_restore();
	}
	must(cmd);
	cq.ring = ring;
	cq.log_cqe = cmd.log_cqe;
	for (i = before; i < before + 4; i++)
		expect_cqe(&cq, i, MOOR_WC_SUCCESS, 0);
}
