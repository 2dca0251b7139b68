// SPDX-License-Identifier: GPL-2.0
/* Doorbells, dozing, kicks (HWI 5). */
#include <string.h>

#include "shared.h"
#include "vfio_user.h"

static struct send_wr small_write(const struct pair *p, uint64_t wr_id)
{
	return (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .wr_id = wr_id, .remote = p->buf[1],
		.rkey = p->key[1], SGE(p->buf[0], 64, p->key[0]),
	};
}

TEST_CASE(mailbox, "a slot keeps the last value stored; tied to nothing it does nothing",
	  "DB-1 DB-4 DB-5", 0)
{
	uint32_t last = dev.db_pages * MOOR_DB_SLOTS_PER_PAGE - 1, slot;
	static const uint32_t some[] = { 2, 7, 127, 128, 511, 512, 513 };
	unsigned int i;

	for (i = 0; i <= 7; i++) {
		slot = i < 7 ? some[i] : last;
		store_slot(slot, 0x123456789abcdef0ull + i);
		if (dev.features & MOOR_FEATURE_DOZES)
			kick(slot);
		expect(bar_read64(MOOR_BAR_DB, slot * 8ull) ==
		       0x123456789abcdef0ull + i, "slot %u", slot);
		store_slot(slot, i);
		expect(bar_read64(MOOR_BAR_DB, slot * 8ull) == i, "slot %u", slot);
	}
	expect_no_event(MOOR_EQ_ASYNC);
	expect(!nop(), "the device works no more");
}

TEST_CASE(created_slots, "CREATE_EQ, CREATE_CQ and CREATE_QP zero their slots", "DB-10", 0)
{
	struct moor_cmd_destroy_eq destroy_eq = {
		.hdr.opcode = MOOR_CMD_DESTROY_EQ, .eqn = MOOR_EQ_COMPLETION,
	};
	struct moor_cmd_create_qp qp_cmd;
	struct moor_cmd_create_cq cq_cmd;
	struct cq cq;
	struct qp qp;

	must(destroy_eq);
	store_slot(MOOR_DB_SLOT_EQ_CONSUMER + MOOR_EQ_COMPLETION, ~0ull << 32 | 5);
	make_eq(MOOR_EQ_COMPLETION, LOG_EQE, eq_vector(MOOR_EQ_COMPLETION));
	expect(!bar_read64(MOOR_BAR_DB, (MOOR_DB_SLOT_EQ_CONSUMER +
					 MOOR_EQ_COMPLETION) * 8ull), "of an EQ");
	cq_cmd = cq_command(&cq, 0, dev.max_log_cqe < 4 ? dev.max_log_cqe : 4);
	store_slot(cq.slot, ~0ull);
	must(cq_cmd);
	expect(!bar_read64(MOOR_BAR_DB, cq.slot * 8ull), "of a CQ");
	qp_cmd = qp_command(&qp, &cq, &cq);
	store_slot(qp.sq_slot, 3);
	store_slot(qp.rq_slot, 3);
	must(qp_cmd);
	expect(!bar_read64(MOOR_BAR_DB, qp.sq_slot * 8ull), "of a send queue");
	expect(!bar_read64(MOOR_BAR_DB, qp.rq_slot * 8ull), "of a receive queue");
	connect_qp(&qp, qp.qpn);
	expect_no_cqe(&cq);
}

/* A translation that leads nowhere: no device may miss that (CMD-41). */
static const struct moor_xlat absent = { .page_shift = MOOR_MIN_PAGE_SHIFT };

/* The command is refused, and what @slot holds stays. */
static void keeps_slot(uint32_t slot, const void *cmd, size_t size, uint8_t wanted,
		       const char *what)
{
	const uint64_t value = 0xfedcba9876543210ull + slot;
	uint8_t status;

	about("%s", what);
	store_slot(slot, value);
	status = command(cmd, size);
	expect(status == wanted, "status %u", status);
	expect(bar_read64(MOOR_BAR_DB, slot * 8ull) == value, "it holds 0x%llx",
	       (unsigned long long)bar_read64(MOOR_BAR_DB, slot * 8ull));
}

#define KEEPS(slot, cmd, wanted, what)	\
	keeps_slot(slot, &(cmd), sizeof(cmd), wanted, what)

TEST_CASE(kept_slots, "a command that is refused leaves the slots that it names as they are",
	  "CMD-18 DB-5", 0)
{
	struct moor_cmd_create_qp qp_cmd;
	struct moor_cmd_create_cq cq_cmd;
	uint32_t sq_slot, rq_slot;
	struct cq cq, other;
	struct qp qp;

	make_cq(&cq, 0, 4);
	qp_cmd = qp_command(&qp, &cq, &cq);
	sq_slot = qp_cmd.sq_doorbell;
	rq_slot = qp_cmd.rq_doorbell;
	qp_cmd.rq_doorbell = sq_slot;
	KEEPS(sq_slot, qp_cmd, MOOR_CMD_BUSY, "one slot for both queues");
	qp_cmd.rq_doorbell = cq.slot;
	KEEPS(sq_slot, qp_cmd, MOOR_CMD_BUSY, "another that is in use");
	qp_cmd.rq_doorbell = 0;
	KEEPS(sq_slot, qp_cmd, MOOR_CMD_BAD_PARAM, "another of the driver's");
	qp_cmd.sq_doorbell = cq.slot;
	qp_cmd.rq_doorbell = rq_slot;
	KEEPS(rq_slot, qp_cmd, MOOR_CMD_BUSY, "the send queue's is in use");
	qp_cmd.sq_doorbell = sq_slot;
	qp_cmd.rq = absent;
	KEEPS(sq_slot, qp_cmd, MOOR_CMD_DMA_FAULT, "a queue that is nowhere");
	at_least(max_cq, 2);
	cq_cmd = cq_command(&other, 1, 1);
	cq_cmd.ring = absent;
	KEEPS(other.slot, cq_cmd, MOOR_CMD_DMA_FAULT, "a CQ that is nowhere");
}

TEST_CASE(kept_shared_slot, "and so does that of an SRQ", "CMD-18 DB-5", HAS(SRQ))
{
	struct moor_cmd_create_srq cmd;
	struct srq srq;

	cmd = srq_command(&srq);
	cmd.ring = absent;
	KEEPS(srq.slot, cmd, MOOR_CMD_DMA_FAULT, "an SRQ that is nowhere");
}

#undef KEEPS

TEST_CASE(own_slots, "a slot rings only the queue that is tied to it",
	  "DB-3 DB-8 ERR-8", 0)
{
	struct moor_cqe cqe;
	struct pair p, q;
	unsigned int i;
	uint32_t slot;

	make_pair(&p);
	memset(&q, 0, sizeof(q));
	make_cq(&q.cq[0], 2, 4);
	make_qp(&q.qp[0], &q.cq[0], &q.cq[0]);
	put_send(&p.qp[0], &(struct send_wr){
		.opcode = MOOR_WQE_WRITE, .wr_id = 5, .remote = p.buf[1],
		.rkey = p.key[1], SGE(p.buf[0], 64, p.key[0]),
	});
	for (i = 0; i < 6; i++) {
		const uint32_t others[] = {
			q.qp[0].sq_slot, q.qp[0].rq_slot, q.cq[0].slot,
			p.qp[0].rq_slot, p.qp[0].sq_slot + 64, 200,
		};

		slot = others[i];
		store_slot(slot, 1);
		if (dev.features & MOOR_FEATURE_DOZES)
			kick(slot);
	}
	settle();
	expect(!peek_cqe(&p.cq[0], &cqe), "another slot has rung the queue");
	ring_send(&p.qp[0]);
	expect_cqe(&p.cq[0], 5, MOOR_WC_SUCCESS, 0);
}

TEST_CASE(slot_claims, "a slot is tied to one queue; the driver's own are tied to none",
	  "DB-3 DB-8 DB-17 DB-18 CMD-11 CMD-30", 0)
{
	/* The driver's own, and pages that there are not. */
	const uint32_t wrong[] = {
		MOOR_DB_SLOT_CMD_PRODUCER, MOOR_DB_SLOT_CPL_ARM,
		MOOR_DB_SLOT_EQ_CONSUMER, MOOR_DB_SLOT_KERNEL_FIRST - 1,
		dev.db_pages * MOOR_DB_SLOTS_PER_PAGE, ~0u,
	};
	struct moor_cmd_create_qp good, cmd;
	struct moor_cmd_create_cq cq_cmd;
	struct qp qp, other;
	struct cq cq, last;
	unsigned int i;

	make_cq(&cq, 0, 4);
	make_qp(&qp, &cq, &cq);
	good = qp_command(&other, &cq, &cq);
	cmd = good;
	for (i = 0; i < 3; i++) {
		cmd.sq_doorbell = i == 0 ? cq.slot : i == 1 ? qp.sq_slot : qp.rq_slot;
		expect(do_command(cmd) == MOOR_CMD_BUSY, "a slot in use: status %u",
		       answer.status);
	}
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cmd = good;
		cmd.sq_doorbell = wrong[i];
		refused(cmd, MOOR_CMD_BAD_PARAM, sq_doorbell, "slot %u", wrong[i]);
		cmd = good;
		cmd.rq_doorbell = wrong[i];
		refused(cmd, MOOR_CMD_BAD_PARAM, rq_doorbell, "slot %u", wrong[i]);
	}
	cmd = good;
	cmd.rq_doorbell = cmd.sq_doorbell;
	expect(do_command(cmd) == MOOR_CMD_BUSY,
	       "one slot for both queues: status %u", answer.status);
	expect(!do_command(good), "slots of a command that failed: status %u",
	       answer.status);
	destroy_qp(&other);
	good.rq_doorbell = dev.db_pages * MOOR_DB_SLOTS_PER_PAGE - 1;
	expect(!do_command(good), "the last slot, and one that is free again: status %u",
	       answer.status);
	at_least(max_cq, 2);
	cq_cmd = cq_command(&last, 1, 1);
	for (i = 0; i < 3; i++) {
		cq_cmd.doorbell = i == 0 ? cq.slot : i == 1 ? qp.sq_slot : qp.rq_slot;
		expect(do_command(cq_cmd) == MOOR_CMD_BUSY,
		       "a CQ's, in use: status %u", answer.status);
	}
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cq_cmd.doorbell = wrong[i];
		refused(cq_cmd, MOOR_CMD_BAD_PARAM, doorbell, "slot %u", wrong[i]);
	}
	cq_cmd.doorbell = other.rq_slot;
	expect(!do_command(cq_cmd), "a CQ's, free again: status %u", answer.status);
}

TEST_CASE(indices, "values are indices from 0 on: the same again is nothing, a leap is many",
	  "DB-6 DB-9 WQ-1", 0)
{
	struct pair p;
	unsigned int i, n;

	make_pair(&p);
	for (n = 1; n < DEPTH; n = n * 2 + 1) {
		for (i = 0; i < n; i++) {
			struct send_wr wr = small_write(&p, n + i);

			put_send(&p.qp[0], &wr);
		}
		ring_send(&p.qp[0]);
		ring_send(&p.qp[0]);
		for (i = 0; i < n; i++)
			expect_cqe(&p.cq[0], n + i, MOOR_WC_SUCCESS, 0);
		ring_send(&p.qp[0]);
		expect_no_cqe(&p.cq[0]);
	}
	/* Many times around: the index is not the slot's number. */
	for (i = 0; i < 5 * DEPTH; i++) {
		struct moor_cqe cqe;

		post_send(&p.qp[0], small_write(&p, i));
		cqe = expect_cqe(&p.cq[0], i, MOOR_WC_SUCCESS, 0);
		if (!expect(cqe.wqe_index == p.qp[0].sq_producer - 1,
			    "WQE %u is called %u", p.qp[0].sq_producer - 1,
			    cqe.wqe_index))
			return;
	}
}

/* Looks at the word till it is 1, for a while: the device may stay awake for ever. */
static bool falls_asleep(void)
{
	uint64_t end = now_ns() + 50000000;

	while (!dozing() && now_ns() < end)
		breathe();
	return dozing();
}

TEST_CASE(dozing_word, "1 before it sleeps, 0 after it wakes", "DB-11", HAS(DOZES))
{
	struct moor_cmd_hdr cmd = { .opcode = MOOR_CMD_NOP };
	bool slept = false, woke = false;
	struct moor_cpl cpl;
	unsigned int i;

	for (i = 0; i < 200 && !(slept && woke); i++) {
		slept |= falls_asleep();
		if (i > 20)
			skip_unless(slept);
		issue(&cmd, sizeof(cmd));
		need(wait_until(({
			woke |= !dozing();
			poll_completion(&cpl);
		})), "no completion of command %u", i);
		woke |= !dozing();
	}
	expect(woke, "it never wakes");
}

TEST_CASE(without_dozing, "who never dozes needs no kicks and writes no word", "DB-11",
	  0)
{
	uint64_t word = take(PAGE);
	unsigned int i;

	skip_unless(!(dev.features & MOOR_FEATURE_DOZES));
	host_reset();
	host_set_up_registers(1);
	memset(at(word), 0xa5, PAGE);
	reg_write64(MOOR_REG_DOZE_ADDR, word);
	reg_write(MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE);
	for (i = 0; i < 100; i++)
		expect(!nop(), "command");
	settle();
	expect(is_all(word, PAGE, 0xa5), "something is written there");
}

TEST_CASE(kicks, "a kick wakes it; one that nobody needs is harmless",
	  "DB-12 DB-15", HAS(DOZES))
{
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 8; i++) {
		falls_asleep();
		post_send(&p.qp[0], small_write(&p, i));
		expect_cqe(&p.cq[0], i, MOOR_WC_SUCCESS, 0);
	}
	for (i = 0; i < 64; i++) {
		kick(p.qp[0].sq_slot);
		kick(p.qp[0].rq_slot);
		kick(p.cq[0].slot);
		kick(MOOR_DB_SLOT_CMD_PRODUCER);
		kick(MOOR_DB_SLOT_CPL_ARM);
		kick(MOOR_DB_SLOT_EQ_CONSUMER);
		kick(dev.db_pages * MOOR_DB_SLOTS_PER_PAGE - 1);
	}
	expect_no_cqe(&p.cq[0]);
	expect_no_cqe(&p.cq[1]);
	post_send(&p.qp[0], small_write(&p, 99));
	expect_cqe(&p.cq[0], 99, MOOR_WC_SUCCESS, 0);
}

TEST_CASE(no_lost_doorbell, "a doorbell rung while it falls asleep is not lost", "DB-14",
	  HAS(DOZES))
{
	struct pair p;
	unsigned int i;

	make_pair(&p);
	/* Doorbells at all times while it falls asleep, in small steps. */
	for (i = 0; i < 400; i++) {
		uint64_t end = now_ns() + i * 4000;

		while (now_ns() < end)
			;
		post_send(&p.qp[0], small_write(&p, i));
		if (!expect(expect_cqe(&p.cq[0], i, MOOR_WC_SUCCESS, 0).wr_id == i,
			    "after %u us", i * 4))
			return;
	}
}

TEST_CASE(unkicked_slots, "slots of receives, CQs and EQs take effect without a kick",
	  "DB-16", 0)
{
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 4 * DEPTH; i++) {
		settle();
		post_recv(&p.qp[1], i, p.buf[1], 64, p.key[1]);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_SEND, SGE(p.buf[0], 64, p.key[0]),
		});
		if (!expect(!expect_cqe(&p.cq[1], i, MOOR_WC_SUCCESS, 0).status,
			    "message %u", i))
			return;
		expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
		if (i > DEPTH)
			i += DEPTH - 1;
	}
}

/* Receives of one side and messages of the other, in turns: none may be missing. */
static void receive_each(struct pair *p, unsigned int from, unsigned int num)
{
	struct qp *sender = &p->qp[from], *receiver = &p->qp[!from];
	unsigned int i;

	for (i = 0; i < num; i++) {
		post_recv(receiver, i, p->buf[!from], 64, p->key[!from]);
		post_send(sender, (struct send_wr){
			.opcode = MOOR_WQE_SEND, .wr_id = i,
			SGE(p->buf[from], 64, p->key[from]),
		});
	}
	for (i = 0; i < num; i++) {
		need(!expect_cqe(&p->cq[from], i, MOOR_WC_SUCCESS, 0).status,
		     "message %u of %u from side %u", i, num, from);
		expect_cqe(&p->cq[!from], i, MOOR_WC_SUCCESS, 0);
	}
}

/* Of two slots either may be the one that a device comes to first. */
TEST_CASE(receives_first, "a receive posted before a send is there for it: it need not come again",
	  "ORD-3 DB-16", 0)
{
	const struct moor_cmd_modify_qp once = { .mask = MOOR_QP_ATTR_RNR_RETRY };
	unsigned int i, from, round;
	struct pair p;

	make_pair(&p);
	for (i = 0; i < 2; i++)
		must_modify(&p.qp[i], once);
	for (round = 0; round < 20; round++)
		for (from = 0; from < 2; from++) {
			if (round < 3)
				settle();
			receive_each(&p, from, 1);
			receive_each(&p, from, DEPTH - 1);
		}
}

TEST_CASE(shared_first, "a shared receive posted before a send is there for it, too",
	  "ORD-3 DB-25", HAS(SRQ))
{
	const struct moor_cmd_modify_qp once = { .mask = MOOR_QP_ATTR_RNR_RETRY };
	struct sharing s;
	unsigned int i;

	make_sharing(&s, MOOR_QP_RC);
	for (i = 0; i < 2; i++)
		must_modify(&s.sender[i], once);
	for (i = 0; i < 4 * DEPTH; i++) {
		if (i < 4)
			settle();
		post_shared(&s.srq, i, s.buf + SLOT, 64, s.key);
		send_shared(&s, i & 1, 64, MOOR_WC_SUCCESS);
		came_shared(&s, i & 1, i, i, 64);
	}
}

TEST_CASE(consumed_first, "a CQ has the room that was made in it before the work was posted",
	  "ORD-3 DB-16 CQ-9", 0)
{
	struct cq cq;
	struct qp qp;
	unsigned int i, j;

	make_cq(&cq, 0, 1);
	make_qp(&qp, &cq, &cq);
	connect_qp(&qp, qp.qpn);
	for (i = 0; i < 200; i++) {
		for (j = 0; j < 2; j++)
			put_send(&qp, &(struct send_wr){
				.opcode = MOOR_WQE_WRITE, .wr_id = j,
			});
		ring_send(&qp);
		for (j = 0; j < 2; j++)
			need(!expect_cqe(&cq, j, MOOR_WC_SUCCESS, 0).status,
			     "round %u", i);
	}
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(unnamed_bits, "bits of a slot that nothing names are not looked at", "DB-19", 0)
{
	const uint64_t upper = 0xdeadbeefull << 32;
	struct moor_cmd_hdr cmd = { .opcode = MOOR_CMD_NOP };
	struct pair p;

	make_pair(&p);
	post_recv(&p.qp[1], 3, p.buf[1], 64, p.key[1]);
	store_slot(p.qp[1].rq_slot, upper | 1);
	put_send(&p.qp[0], &(struct send_wr){
		.opcode = MOOR_WQE_SEND, SGE(p.buf[0], 64, p.key[0]),
	});
	ring_slot(p.qp[0].sq_slot, upper | 1);
	expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[1], 3, MOOR_WC_SUCCESS, 0);
	expect_no_event(MOOR_EQ_ASYNC);
	issue(&cmd, sizeof(cmd));
	wait_completion(&answer);
	issue(&cmd, sizeof(cmd));
	ring_slot(MOOR_DB_SLOT_CMD_PRODUCER, upper |
		  (uint32_t)bar_read64(MOOR_BAR_DB, 0));
	wait_completion(&answer);
	expect(!answer.status && !nop(), "a command");
}

TEST_CASE(senseless_consumer, "a consumer index that makes no sense frees nothing",
	  "DB-20 CQ-9 EV-3", 0)
{
	/* Beyond the producer, which is 8; more than a ring behind it. */
	static const uint32_t wrong[] = { 9, 13, 1u << 31, 0xfffffff7, 0xffff0000 };
	struct moor_eqe eqe;
	struct moor_cqe cqe;
	unsigned int i, j;
	struct cq cq;
	struct qp qp;

	at_least(max_log_cqe, 4);
	at_least(max_log_wqe, 3);
	for (i = 0; i < 5; i++) {
		about("consumer index %u", wrong[i]);
		host_begin();
		make_cq(&cq, 0, 3);
		make_qp(&qp, &cq, &cq);
		connect_qp(&qp, qp.qpn);
		for (j = 0; j < 8; j++)
			post_send(&qp, (struct send_wr){ .opcode = MOOR_WQE_WRITE });
		settle();
		drop_events(MOOR_EQ_ASYNC);
		store_slot(cq.slot, wrong[i]);
		post_send(&qp, (struct send_wr){
			.opcode = MOOR_WQE_WRITE, .wr_id = 9,
		});
		expect_event(MOOR_EVENT_CQ_ERROR, 0);
		need(peek_cqe(&cq, &cqe), "a CQE is gone");
		expect(!cqe.wr_id, "a CQE is written over");
	}
	about("an EQ");
	host_begin();
	make_cq(&cq, 0, 4);
	make_qp(&qp, &cq, &cq);
	connect_qp(&qp, qp.qpn);
	store_slot(MOOR_DB_SLOT_EQ_CONSUMER + MOOR_EQ_COMPLETION, 100);
	arm_cq(&cq, MOOR_CQ_ARM_ANY);
	post_send(&qp, (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	wait_cqe(&cq);
	settle();
	store_slot(MOOR_DB_SLOT_EQ_CONSUMER + MOOR_EQ_COMPLETION, 0);
	expect(wait_event(MOOR_EQ_COMPLETION, &eqe) &&
	       eqe.type == MOOR_EVENT_COMPLETION, "its event is lost");
}

/*
 * Every 100 ms at the least, to which a machine that is busy adds its own: so of several
 * waits most are shorter than twice that.
 */
#define LOOKS		3u
#define LOOK_NS		200000000ull
#define REST_NS		550000000ull

TEST_CASE(looked_at, "unkicked slots are looked at every 100 ms while the device sleeps", "DB-22",
	  0)
{
	unsigned int i, late = 0;
	uint64_t began;
	struct pair p;

	make_pair(&p);
	must_modify(&p.qp[0], to_state(MOOR_QPS_ERR));
	for (i = 0; i < LOOKS; i++) {
		/* Long enough for a device that looks ever more rarely. */
		for (began = now_ns(); now_ns() - began < REST_NS;)
			breathe();
		began = now_ns();
		post_recv(&p.qp[0], i, p.buf[0], 64, p.key[0]);
		expect_cqe(&p.cq[0], i, MOOR_WC_WR_FLUSH_ERR, 0);
		late += now_ns() - began > LOOK_NS;
	}
	expect(late <= LOOKS / 2, "%u receives of %u are flushed late", late, LOOKS);
}

/* Connects the pair anew; QP @from then asks for what its peer refuses, with an event. */
static void fail_at(struct pair *p, unsigned int from)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		reset_qp(&p->qp[i]);
	for (i = 0; i < 2; i++)
		connect_qp(&p->qp[i], p->qp[!i].qpn);
	post_send(&p->qp[from], (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .remote = p->buf[!from],
		.rkey = p->key[!from] ^ 1, SGE(p->buf[from], 8, p->key[from]),
	});
	expect_cqe(&p->cq[from], 0, MOOR_WC_REM_ACCESS_ERR, 0);
}

TEST_CASE(eq_looked_at, "and so are those of EQs whose events are kept back", "DB-22 EV-3", 0)
{
	struct moor_cmd_destroy_eq destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_EQ, .eqn = MOOR_EQ_ASYNC,
	};
	unsigned int i, j, late = 0;
	struct moor_eqe eqe;
	uint64_t began;
	struct pair p;

	make_pair(&p);
	must(destroy);
	make_eq(MOOR_EQ_ASYNC, 1, eq_vector(MOOR_EQ_ASYNC));
	for (i = 0; i < LOOKS; i++) {
		/* Room for two: the third is kept back, and not merged with the first. */
		for (j = 0; j < 3; j++)
			fail_at(&p, j & 1);
		settle();
		began = now_ns();
		for (j = 0; j < 3; j++)
			need(wait_event(MOOR_EQ_ASYNC, &eqe) &&
			     eqe.number == p.qp[!(j & 1)].qpn, "event %u", j);
		late += now_ns() - began > LOOK_NS;
	}
	expect(late <= LOOKS / 2, "%u events of %u come late", late, LOOKS);
}

TEST_CASE(kick_anything, "value and size of a kick do not matter", "DB-15 DB-21", 0)
{
	static const uint8_t bytes[8] = { 0xff, 0, 1, 2, 3, 4, 5, 6 };
	unsigned int size;
	struct pair p;

	make_pair(&p);
	for (size = 1; size <= 8; size *= 2) {
		settle();
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .wr_id = size,
		});
		store_slot(p.qp[0].sq_slot, p.qp[0].sq_producer);
		vfio_user_write(MOOR_BAR_DB, dev.kick_offset +
				p.qp[0].sq_slot * 8ull, bytes, size);
		expect_cqe(&p.cq[0], size, MOOR_WC_SUCCESS, 0);
	}
}
