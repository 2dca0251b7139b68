// SPDX-License-Identifier: GPL-2.0
/* Completion events that wait for more CQEs (HWI 11.4). */
#include <string.h>

#include "traffic.h"

/* The longest period, so that a case has time while it runs. */
#define PERIOD_US	65535u
#define PERIOD_NS	(PERIOD_US * 1000ull)

static void moderate(uint32_t cqn, uint16_t count, uint16_t period)
{
	struct moor_cmd_modify_cq cmd = {
		.hdr.opcode = MOOR_CMD_MODIFY_CQ, .cqn = cqn, .count = count,
		.period = period,
	};

	must(cmd);
}

/* Sends messages to side 1, without CQEs at side 0. */
static void send(struct pair *p, unsigned int count, unsigned int flags)
{
	while (count--) {
		post_recv(&p->qp[1], 1, p->buf[1], 64, p->key[1]);
		post_send(&p->qp[0], (struct send_wr){
			.opcode = MOOR_WQE_SEND, .flags = flags | UNSIGNALED,
			SGE(p->buf[0], 64, p->key[0]),
		});
		wait_cqe(&p->cq[1]);
	}
}

static bool event_of(uint32_t cqn)
{
	struct moor_eqe eqe;

	return wait_event(MOOR_EQ_COMPLETION, &eqe) &&
	       eqe.type == MOOR_EVENT_COMPLETION && eqe.number == cqn;
}

static bool no_event(void)
{
	struct moor_eqe eqe;

	settle();
	return !next_event(MOOR_EQ_COMPLETION, &eqe);
}

/* When held_back() armed the CQ; in_time(): the period is not over yet. */
static uint64_t asked;

static bool in_time(void)
{
	return now_ns() - asked < PERIOD_NS;
}

/*
 * An event at once, so that no CQE from before it can count for a later request, as it may
 * (CQ-22).
 */
static void begin_counting(struct pair *p)
{
	drop_events(MOOR_EQ_COMPLETION);
	arm_cq(&p->cq[1], MOOR_CQ_ARM_ANY);
	send(p, 1, MOOR_WQE_FLAG_SOLICITED);
	need(event_of(1), "no event of what is solicited");
}

/*
 * Arms CQ 1 and sends @count messages. On a busy machine the period may end before
 * the look at the EQ: then it tries again. Return: whether the event is held back,
 * within the period.
 */
static bool held_back(struct pair *p, unsigned int count)
{
	unsigned int tries;
	bool none;

	for (tries = 0; tries < 20; tries++) {
		begin_counting(p);
		asked = now_ns();
		arm_cq(&p->cq[1], MOOR_CQ_ARM_ANY);
		send(p, count, 0);
		none = no_event();
		if (in_time())
			return none;
		if (none)
			event_of(1);
	}
	need(false, "the machine is too busy to tell");
	return false;
}

/* Does the event come with @last more messages, after @first were too few? */
static bool comes_with(struct pair *p, unsigned int first, unsigned int last)
{
	unsigned int tries;

	for (tries = 0; tries < 20; tries++) {
		if (!held_back(p, first))
			return false;
		send(p, last, 0);
		if (!event_of(1))
			return false;
		if (in_time())
			return true;
	}
	return false;
}

TEST_CASE(moderated_count, "an event waits for as many CQEs as it should, and no more",
	  "CQ-25 CQ-26", HAS(CQ_MODERATION))
{
	static const uint16_t counts[] = { 2, 5, 16 };
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 3; i++) {
		about("count %u", counts[i]);
		moderate(1, counts[i], PERIOD_US);
		expect(comes_with(&p, counts[i] - 1u, 1), "not with that many");
		send(&p, counts[i], 0);
		expect(no_event(), "an event without a request");
	}
}

TEST_CASE(moderated_period, "an event waits as long as it should, and no longer",
	  "CQ-25 CQ-26 CQ-27", HAS(CQ_MODERATION))
{
	static const uint16_t periods[] = { 1000, 20000, PERIOD_US };
	uint64_t start, took;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 3; i++) {
		about("period %u", periods[i]);
		moderate(1, 0xffff, periods[i]);
		begin_counting(&p);
		start = now_ns();
		arm_cq(&p.cq[1], MOOR_CQ_ARM_ANY);
		send(&p, 3, 0);
		expect(event_of(1), "no event");
		took = now_ns() - start;
		expect(took >= periods[i] * 1000ull, "an event after %llu us",
		       (unsigned long long)took / 1000);
		expect(no_event(), "two events");
	}
	about("a period that nothing was held back in does not run");
	moderate(1, 2, PERIOD_US);
	begin_counting(&p);
	arm_cq(&p.cq[1], MOOR_CQ_ARM_ANY);
	send(&p, 2, 0);
	expect(event_of(1), "no event");
	expect(held_back(&p, 1), "an event before its time");
}

TEST_CASE(moderated_not, "what is not held back: solicited CQEs, errors, odd settings",
	  "CQ-25 CQ-26 CQ-23", HAS(CQ_MODERATION))
{
	static const uint16_t none[][2] = {
		{ 0, PERIOD_US }, { 1, PERIOD_US }, { 0xffff, 0 }, { 0, 0 },
	};
	uint64_t start;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 4; i++) {
		about("count %u, period %u", none[i][0], none[i][1]);
		moderate(1, none[i][0], none[i][1]);
		start = now_ns();
		arm_cq(&p.cq[1], MOOR_CQ_ARM_ANY);
		send(&p, 1, 0);
		expect(event_of(1), "no event");
	}
	moderate(1, 0xffff, PERIOD_US);
	for (i = 0; i < 20; i++) {
		about("solicited, request for %s", i & 1 ? "any" : "those");
		start = now_ns();
		arm_cq(&p.cq[1], i & 1 ? MOOR_CQ_ARM_ANY : MOOR_CQ_ARM_SOLICITED);
		send(&p, 1, 0);
		send(&p, 1, MOOR_WQE_FLAG_SOLICITED);
		expect(event_of(1), "no event");
		if (now_ns() - start < PERIOD_NS)
			break;
	}
	expect(i < 20, "each event came with the end of the period");
	for (i = 0; i < 20; i++) {
		about("an error");
		start = now_ns();
		arm_cq(&p.cq[1], MOOR_CQ_ARM_ANY);
		post_recv(&p.qp[1], 1, p.buf[1], 64, p.key[1]);
		must_modify(&p.qp[1], to_state(MOOR_QPS_ERR));
		wait_cqe(&p.cq[1]);
		expect(event_of(1), "no event");
		if (now_ns() - start < PERIOD_NS)
			break;
		reconnect(&p);
	}
	expect(i < 20, "each event came with the end of the period");
}

TEST_CASE(moderated_again, "one event, also if polled and asked for again; MODIFY_CQ ends the wait",
	  "CQ-25 CQ-26 CQ-27", HAS(CQ_MODERATION))
{
	struct moor_eqe eqe;
	struct pair p;

	make_pair(&p);
	moderate(1, 9, PERIOD_US);
	about("asked for again");
	arm_cq(&p.cq[1], MOOR_CQ_ARM_ANY);
	send(&p, 2, 0);
	arm_cq(&p.cq[1], MOOR_CQ_ARM_ANY);
	expect(event_of(1), "no event");
	expect(no_event(), "two events");
	send(&p, 1, 0);
	expect(no_event(), "the second request has been answered too");

	about("no request any more");
	expect(held_back(&p, 2), "an event before its time");
	arm_cq(&p.cq[1], MOOR_CQ_ARM_NONE);
	moderate(1, 9, PERIOD_US);
	expect(no_event(), "an event without a request");

	about("MODIFY_CQ");
	expect(held_back(&p, 8), "an event before its time");
	moderate(1, 9, PERIOD_US);
	expect(next_event(MOOR_EQ_COMPLETION, &eqe) && eqe.number == 1,
	       "the completion is there, the event is not");
	about("the new values");
	moderate(1, 3, PERIOD_US);
	expect(comes_with(&p, 2, 1), "not with three");
}

TEST_CASE(moderated_moves, "RESIZE_CQ and overrun while an event is held back",
	  "CQ-26 CQ-29", HAS(CQ_MODERATION))
{
	struct moor_cmd_resize_cq resize = {
		.hdr.opcode = MOOR_CMD_RESIZE_CQ, .cqn = 1, .log_cqe = 2,
	};
	struct moor_eqe eqe;
	struct pair p;
	unsigned int i;

	at_least(max_log_cqe, 2);
	make_pair(&p);
	moderate(1, 9, PERIOD_US);
	about("RESIZE_CQ");
	expect(held_back(&p, 2), "an event before its time");
	resize.ring = flat(take(PAGE));
	must(resize);
	p.cq[1].ring = resize.ring.root & MOOR_PTE_ADDR;
	p.cq[1].log_cqe = resize.log_cqe;
	expect(event_of(1) && now_ns() - asked >= PERIOD_NS, "not after its period");
	expect(comes_with(&p, 8, 1), "the settings are gone");

	about("overrun");
	drop_events(MOOR_EQ_ASYNC);
	arm_cq(&p.cq[1], MOOR_CQ_ARM_ANY);
	for (i = 0; i < 5; i++) {
		post_recv(&p.qp[1], i, p.buf[1], 64, p.key[1]);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_SEND, .flags = UNSIGNALED,
			SGE(p.buf[0], 64, p.key[0]),
		});
	}
	expect_event(MOOR_EVENT_CQ_ERROR, 1);
	expect(next_event(MOOR_EQ_COMPLETION, &eqe) && eqe.number == 1,
	       "CQ_ERROR is there, the event is not");
	expect(no_event(), "two events");
}

TEST_CASE(moderated_destroyed, "what a CQ holds back goes with it, and so do its settings",
	  "CQ-25 CQ-29 CQ-2", HAS(CQ_MODERATION))
{
	struct moor_cmd_destroy_cq destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_CQ, .cqn = 1,
	};
	struct pair p;

	make_pair(&p);
	moderate(1, 9, PERIOD_US);
	expect(held_back(&p, 2), "an event before its time");
	destroy_qp(&p.qp[0]);
	destroy_qp(&p.qp[1]);
	must(destroy);
	drop_events(MOOR_EQ_COMPLETION);
	make_cq(&p.cq[1], 1, LOG_DEPTH);
	make_qp(&p.qp[0], &p.cq[0], &p.cq[1]);
	make_qp(&p.qp[1], &p.cq[0], &p.cq[1]);
	connect_qp(&p.qp[0], p.qp[1].qpn);
	connect_qp(&p.qp[1], p.qp[0].qpn);
	about("a new one of that number");
	send(&p, 1, 0);
	expect(no_event(), "an event without a request");
	moderate(1, 9, PERIOD_US);
	begin_counting(&p);
	asked = now_ns();
	arm_cq(&p.cq[1], MOOR_CQ_ARM_ANY);
	send(&p, 1, 0);
	expect(event_of(1) && now_ns() - asked >= PERIOD_NS, "not after its period");
}

TEST_CASE(moderated_race, "a consumer that sleeps is woken, however events are moderated",
	  "CQ-26 CQ-27 CQ-21", HAS(CQ_MODERATION))
{
	unsigned int i, taken = 0, posted = 0;
	struct moor_cqe cqe;
	struct moor_eqe eqe;
	struct pair p;

	make_pair(&p);
	for (i = 0; i < 300; i++) {
		uint64_t end = now_ns() + i % 50 * 1000;

		if (!(i % 10))
			moderate(0, (uint16_t)(i / 10 % 6), (uint16_t)(i % 70 * 3));
		do {
			post_send(&p.qp[0], (struct send_wr){
				.opcode = MOOR_WQE_WRITE, .wr_id = posted++,
				.remote = p.buf[1], .rkey = p.key[1],
				SGE(p.buf[0], 64, p.key[0]),
			});
		} while (posted % 3);
		while (now_ns() < end)
			;
		while (taken < posted) {
			if (poll_cqe(&p.cq[0], &cqe)) {
				expect(cqe.wr_id == taken++ && !cqe.status,
				       "status %u", cqe.status);
				continue;
			}
			arm_cq(&p.cq[0], MOOR_CQ_ARM_ANY);
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
			if (!peek_cqe(&p.cq[0], &cqe))
				need(wait_event(MOOR_EQ_COMPLETION, &eqe),
				     "round %u: neither CQE nor event", i);
		}
		drop_events(MOOR_EQ_COMPLETION);
	}
}

TEST_CASE(moderated_what, "MODIFY_CQ of a CQ that there is not", "CMD-12 CMD-30",
	  HAS(CQ_MODERATION))
{
	struct moor_cmd_modify_cq cmd = {
		.hdr.opcode = MOOR_CMD_MODIFY_CQ, .cqn = 7, .count = 1,
	};

	refused(cmd, MOOR_CMD_BAD_INDEX, cqn, "a CQ that there is not");
	cmd.cqn = dev.max_cq;
	refused(cmd, MOOR_CMD_BAD_INDEX, cqn, "beyond MAX_CQ");
}
