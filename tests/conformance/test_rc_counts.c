// SPDX-License-Identifier: GPL-2.0
/* Reliable connections: what is counted and timed, and how it changes meanwhile (HWI 12). */
#include <string.h>

#include "traffic.h"

#define US(n)	((n) * 1000ull)
#define MS(n)	((n) * 1000000ull)

static struct send_wr send_of(const struct pair *p, uint64_t wr_id)
{
	return (struct send_wr){
		.opcode = MOOR_WQE_SEND, .wr_id = wr_id, SGE(p->buf[0], 64, p->key[0]),
	};
}

/* Nothing completes for so long. */
static void stays_quiet(struct pair *p, uint64_t ns)
{
	uint64_t end = now_ns() + ns;
	struct moor_cqe cqe;

	while (now_ns() < end && !peek_cqe(&p->cq[0], &cqe))
		breathe();
	expect_no_cqe(&p->cq[0]);
}

/* ---- min_rnr_timer ---- */

/* HWI LAY-32 in nanoseconds. */
static uint64_t rnr_wait(unsigned int code)
{
	if (code <= 1)
		return US(10) * (code ? 1 : 65536);
	return US(10) * (code & 1 ? 3ull << (code - 3) / 2 : 1ull << code / 2);
}

/* Waits that are short beside what a retry takes are measured by several of them. */
static uint8_t retries_of(unsigned int code)
{
	return rnr_wait(code) < MS(30) ? 6 : 1;
}

TEST_CASE(rnr_codes, "every code of min_rnr_timer stands for its time at least",
	  "LAY-32 RC-10 RC-36", 0)
{
	enum { MOST_PAIRS = 16, CODES = 32 };
	unsigned int room = 1u << dev.qp_index_bits;
	const unsigned int num = room / 2 < MOST_PAIRS ? room / 2 : MOST_PAIRS;
	struct qp qp[2 * MOST_PAIRS];
	struct moor_cmd_modify_qp rtr, rts;
	uint64_t began[CODES] = { 0 };
	unsigned int code, first, i;
	struct moor_cqe cqe;
	struct cq cq;

	at_least(max_log_cqe, 4);
	make_cq(&cq, 0, 4);
	for (i = 0; i < 2 * num; i++)
		make_qp(&qp[i], &cq, &cq);
	/* A code for each pair, at once; those that are left over next. */
	for (first = 0; first < CODES; first += num) {
		for (i = 0; i < num; i++) {
			code = first + i < CODES ? first + i : 1;
			reset_qp(&qp[2 * i]);
			reset_qp(&qp[2 * i + 1]);
			must_modify(&qp[2 * i], to_init());
			must_modify(&qp[2 * i], to_rtr(qp[2 * i + 1].qpn));
			rts = to_rts();
			rts.rnr_retry = retries_of(code);
			must_modify(&qp[2 * i], rts);
			must_modify(&qp[2 * i + 1], to_init());
			rtr = to_rtr(qp[2 * i].qpn);
			rtr.min_rnr_timer = (uint8_t)code;
			must_modify(&qp[2 * i + 1], rtr);
		}
		for (code = first; code < first + num && code < CODES; code++) {
			began[code] = reg_read64(MOOR_REG_CLOCK);
			post_send(&qp[2 * (code - first)], (struct send_wr){
				.opcode = MOOR_WQE_SEND, .wr_id = code,
			});
		}
		while (code-- > first) {
			uint64_t due, took;

			cqe = wait_cqe(&cq);
			need(cqe.wr_id >= first && cqe.wr_id < CODES, "a CQE of %llu",
			     (unsigned long long)cqe.wr_id);
			about("code %llu", (unsigned long long)cqe.wr_id);
			expect(cqe.status == MOOR_WC_RNR_RETRY_EXC_ERR, "status %u",
			       cqe.status);
			due = rnr_wait((unsigned int)cqe.wr_id) *
			      retries_of((unsigned int)cqe.wr_id);
			took = cqe.timestamp - began[cqe.wr_id];
			/* CLOCK is true within 500 millionths (REG-10). */
			expect(took >= due - due / 1000, "after %llu us, where %llu were due",
			       (unsigned long long)took / 1000, (unsigned long long)due / 1000);
		}
	}
}

/* ---- attributes that change while a message waits ---- */

static void set_rnr_retry(const struct pair *p, uint8_t rnr_retry)
{
	must_modify(&p->qp[0], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_RNR_RETRY, .rnr_retry = rnr_retry,
	});
}

#define CODE	24u	/* 40.96 ms */

TEST_CASE(rnr_for_ever, "an RNR_RETRY of 7 holds at once for what waits already", "QP-10 RC-10",
	  0)
{
	unsigned int tries;
	struct pair p;

	make_pair(&p);
	for (tries = 0; tries < 10; tries++) {
		uint64_t began = now_ns();

		connect_with(&p, CODE, 1, 0, 0);
		drop_events(MOOR_EQ_ASYNC);
		post_send(&p.qp[0], send_of(&p, 1));
		set_rnr_retry(&p, 7);
		/* On a busy machine it may have come too late. */
		if (now_ns() - began < rnr_wait(CODE) / 2)
			break;
	}
	need(tries < 10, "the machine is too busy to tell");
	stays_quiet(&p, 6 * rnr_wait(CODE));
	post_recv(&p.qp[1], 2, p.buf[1], 64, p.key[1]);
	expect_cqe(&p.cq[0], 1, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[1], 2, MOOR_WC_SUCCESS, 0);
}

TEST_CASE(rnr_no_more, "an RNR_RETRY of less than 7 ends a wait for ever", "QP-10 RC-10", 0)
{
	struct pair p;
	uint8_t retry;

	make_pair(&p);
	for (retry = 0; retry < 7; retry += 3) {
		about("to %u", retry);
		connect_with(&p, 14, 7, 0, 0);
		post_send(&p.qp[0], send_of(&p, 1));
		expect_no_cqe(&p.cq[0]);
		set_rnr_retry(&p, retry);
		expect_cqe(&p.cq[0], 1, MOOR_WC_RNR_RETRY_EXC_ERR, 0);
	}
}

TEST_CASE(time_out_changes, "a new TIMEOUT holds from when the timer is next started",
	  "QP-10 RC-36", 0)
{
	const struct moor_cmd_modify_qp none = { .mask = MOOR_QP_ATTR_TIMEOUT };
	const uint64_t once = 4096ull << 11;
	unsigned int tries;
	struct pair p;

	make_pair(&p);
	for (tries = 0; tries < 10; tries++) {
		uint64_t began;

		connect_with(&p, 1, 1, 11, 3);
		reset_qp(&p.qp[1]);
		began = now_ns();
		post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE, .wr_id = 1 });
		must_modify(&p.qp[0], none);
		if (now_ns() - began < once)
			break;
		must_modify(&p.qp[0], to_state(MOOR_QPS_ERR));
		wait_cqe(&p.cq[0]);
	}
	need(tries < 10, "the machine is too busy to tell");
	/* The timer runs out once more; four times each is as long as it may take. */
	stays_quiet(&p, 6 * 4 * once);
	connect_qp(&p.qp[1], p.qp[0].qpn);
	stays_quiet(&p, 0);
	must_modify(&p.qp[0], to_state(MOOR_QPS_ERR));
	expect_cqe(&p.cq[0], 1, MOOR_WC_WR_FLUSH_ERR, 0);
}

/* ---- counts that begin anew ---- */

#define LONG_CODE	28u	/* 163.84 ms */

/* Waits till the message has met no receive, but not till it is sent again. */
static bool then_post(struct pair *p, uint64_t wr_id, uint64_t began)
{
	while (now_ns() - began < MS(10))
		breathe();
	post_recv(&p->qp[1], wr_id, p->buf[1], 64, p->key[1]);
	return now_ns() - began < rnr_wait(LONG_CODE) / 2;
}

TEST_CASE(rnr_anew, "rnr_retry counts anew for each message that is acknowledged", "RC-36 RC-10",
	  0)
{
	unsigned int tries, i;
	bool in_time = false;
	struct moor_cqe cqe;
	struct pair p;

	make_pair(&p);
	for (tries = 0; tries < 5 && !in_time; tries++) {
		uint64_t began = now_ns();

		connect_with(&p, LONG_CODE, 1, 0, 0);
		for (i = 0; i < 3; i++) {
			const struct send_wr wr = send_of(&p, i);

			put_send(&p.qp[0], &wr);
		}
		ring_send(&p.qp[0]);
		for (i = 0; i < 3; i++, began = now_ns()) {
			about("message %u", i);
			in_time = then_post(&p, i, began);
			cqe = wait_cqe(&p.cq[0]);
			if (!in_time)
				break;
			/* A retry for each of them, where one at a time is allowed. */
			expect(!cqe.status && cqe.wr_id == i, "status %u", cqe.status);
			if (cqe.status)
				return;
			expect_cqe(&p.cq[1], i, MOOR_WC_SUCCESS, 0);
		}
		/* What the rest has come to is of no interest. */
		while (!in_time && i++ < 2)
			wait_cqe(&p.cq[0]);
		while (!in_time && poll_cqe(&p.cq[1], &cqe))
			;
	}
	expect(in_time, "the machine is too busy to tell");
}

TEST_CASE(retry_anew, "retry_cnt counts anew for each message that is acknowledged", "RC-36 RC-11",
	  0)
{
	const uint64_t once = 4096ull << 14;	/* 67 ms */
	unsigned int tries, i;
	bool in_time = false;
	struct moor_cqe cqe;
	struct pair p;

	make_pair(&p);
	for (tries = 0; tries < 5 && !in_time; tries++) {
		connect_with(&p, 1, 1, 14, 1);
		for (i = 0; i < 3; i++) {
			struct moor_cmd_modify_qp rtr = to_rtr(p.qp[0].qpn);
			uint64_t began;

			about("message %u", i);
			reset_qp(&p.qp[1]);
			must_modify(&p.qp[1], to_init());
			began = now_ns();
			post_send(&p.qp[0], (struct send_wr){
				.opcode = MOOR_WQE_WRITE, .wr_id = i,
			});
			while (now_ns() - began < MS(10))
				breathe();
			/* The responder is there when the requester goes back, the only time. */
			rtr.rq_psn += i;
			must_modify(&p.qp[1], rtr);
			in_time = now_ns() - began < once;
			cqe = wait_cqe(&p.cq[0]);
			if (!in_time)
				break;
			expect(!cqe.status && cqe.wr_id == i, "status %u", cqe.status);
			if (cqe.status)
				return;
		}
	}
	expect(in_time, "the machine is too busy to tell");
}
