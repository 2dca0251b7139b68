// SPDX-License-Identifier: GPL-2.0
/* Fatal errors, Bus Master Enable, isolation (HWI 14). */
#include <string.h>
#include <time.h>

#include "platform.h"
#include "traffic.h"

/* Reads STATUS more and more rarely: reads may keep a device from sleeping. */
static bool becomes_fatal(void)
{
	struct timespec pause = { .tv_nsec = 20000 };
	uint64_t end = now_ns() + DUE_NS;

	while (!(reg_read(MOOR_REG_STATUS) & MOOR_STATUS_FATAL)) {
		if (now_ns() >= end)
			return false;
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < 100000000)
			pause.tv_nsec *= 2;
	}
	return true;
}

/* STATUS is FATAL with this code; registers still answer. */
static void expect_fatal(uint32_t code)
{
	uint64_t before;

	need(becomes_fatal(), "STATUS is 0x%x", reg_read(MOOR_REG_STATUS));
	expect(reg_read(MOOR_REG_FATAL_CODE) == code, "FATAL_CODE is %u",
	       reg_read(MOOR_REG_FATAL_CODE));
	expect(reg_read(MOOR_REG_STATUS) & MOOR_STATUS_ENABLED,
	       "ENABLED is clear");
	before = reg_read64(MOOR_REG_CLOCK);
	expect(reg_read(MOOR_REG_MAGIC) == MOOR_MAGIC &&
	       wait_until(reg_read64(MOOR_REG_CLOCK) > before),
	       "registers do not answer");
}

TEST_CASE(unreachable_rings, "a ring or the dozing word that cannot be reached any more",
	  "ERR-1 ERR-2 ERR-3 CTL-13", 0)
{
	static const uint32_t regs[] = { MOOR_REG_CMD_BASE, MOOR_REG_CPL_BASE,
					 MOOR_REG_DOZE_ADDR };
	struct moor_cmd_hdr cmd = { .opcode = MOOR_CMD_NOP };
	bool reports = platform_reports_writes();
	unsigned int i;

	for (i = 0; i < (dev.features & MOOR_FEATURE_DOZES ? 3 : 2); i++) {
		about("register 0x%x", regs[i]);
		/* The others are written alone (ACC-19). */
		if (regs[i] != MOOR_REG_CMD_BASE && !reports)
			continue;
		settle();
		/* A device that stays awake, as it may, does not write the word. */
		if (regs[i] == MOOR_REG_DOZE_ADDR && !dozing())
			continue;
		dma_unmap(reg_read64(regs[i]), PAGE);
		issue(&cmd, sizeof(cmd));
		expect_fatal(MOOR_FATAL_DMA);
		dma_restore();
		host_begin();
		expect(!nop(), "after a reset");
	}
}

TEST_CASE(unreachable_eq, "an EQ that cannot be reached any more", "ERR-1 ERR-3", 0)
{
	struct moor_cmd_create_eq cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_EQ, .eqn = MOOR_EQ_COMPLETION,
		.log_eqe = LOG_EQE, .vector = 1,
	};
	struct moor_cmd_destroy_eq destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_EQ, .eqn = MOOR_EQ_COMPLETION,
	};
	bool reports = platform_reports_writes();
	struct pair p;

	cmd.base = take(PAGE);
	must(destroy);
	must(cmd);
	make_pair(&p);
	settle();
	dma_unmap(cmd.base, PAGE);
	arm_cq(&p.cq[0], MOOR_CQ_ARM_ANY);
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	if (reports)
		expect_fatal(MOOR_FATAL_DMA);
	else
		expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
	expect(is_all(cmd.base, PAGE, 0), "it is written");
}

TEST_CASE(no_dma_after, "after a fatal error there is no DMA", "ERR-2", 0)
{
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < DEPTH; i++)
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .remote = p.buf[1],
			.rkey = p.key[1], SGE(p.buf[0], BUF, p.key[0]),
		});
	ring_send(&p.qp[0]);
	ring_slot(MOOR_DB_SLOT_CMD_PRODUCER, 1u << 30);
	expect_fatal(MOOR_FATAL_CMD_RING);
	memset(at(p.buf[1]), 0xcd, BUF);
	memset(at(p.cq[0].ring), 0xcd, PAGE);
	ring_send(&p.qp[0]);
	for (i = 0; i < 500; i++)
		reg_read(MOOR_REG_STATUS);
	expect(is_all(p.buf[1], BUF, 0xcd) && is_all(p.cq[0].ring, PAGE, 0xcd),
	       "there is");
}

/* The body of the last entry alone, which stays INVALID, and the last slot. */
static uint64_t last_entry(void)
{
	return (uint64_t)(dev.num_keys - 1) * 64 + 16;
}

static uint64_t last_slot(void)
{
	return (uint64_t)dev.db_pages * PAGE - 8;
}

/* Stores into BAR2, a slot that is tied to nothing and on-NIC memory, and reads it back. */
static void stores_stay(const char *when, uint64_t seed)
{
	const uint64_t entry = last_entry(), slot = last_slot();

	bar_write64(MOOR_BAR_MR, entry, seed);
	bar_write64(MOOR_BAR_DB, slot, seed + 1);
	if (dev.dm_size)
		bar_write64(MOOR_BAR_DB, dev.dm_offset + PAGE - 8, seed + 2);
	expect(bar_read64(MOOR_BAR_MR, entry) == seed, "%s: BAR2", when);
	expect(bar_read64(MOOR_BAR_DB, slot) == seed + 1, "%s: a slot", when);
	expect(!dev.dm_size || bar_read64(MOOR_BAR_DB, dev.dm_offset + PAGE - 8) ==
	       seed + 2, "%s: on-NIC memory", when);
}

TEST_CASE(stores_always_stay, "BAR2, slots and on-NIC memory keep what they get, in every state",
	  "CTL-21 ERR-2 ERR-4 CTL-2", 0)
{
	const uint64_t slot = last_slot();

	host_reset();
	stores_stay("before ENABLE", 0x1111222233334444);
	host_enable();
	expect(bar_read64(MOOR_BAR_DB, slot) == 0x1111222233334445,
	       "ENABLE changes a slot");
	stores_stay("enabled", 0x2222333344445555);
	bus_master(false);
	expect(bar_read64(MOOR_BAR_DB, slot) == 0x2222333344445556,
	       "Bus Master Enable changes a slot");
	stores_stay("without Bus Master Enable", 0x3333444455556666);
	bus_master(true);
	ring_slot(MOOR_DB_SLOT_CMD_PRODUCER, 1u << 30);
	expect_fatal(MOOR_FATAL_CMD_RING);
	expect(bar_read64(MOOR_BAR_DB, slot) == 0x3333444455556667,
	       "the fatal error changes a slot");
	stores_stay("FATAL", 0x4444555566667777);
	host_reset();
	expect(!bar_read64(MOOR_BAR_DB, slot), "a reset does not zero the slot");
	expect(!bar_read64(MOOR_BAR_MR, last_entry()), "a reset does not zero the entry");
}

TEST_CASE(bus_master_stops, "Bus Master Enable cleared in mid-flight, and set again",
	  "ERR-4 ERR-10 PCI-4", 0)
{
	struct moor_cqe cqe;
	unsigned int round, i;
	struct pair p;

	make_pair(&p);
	for (round = 0; round < 10; round++) {
		about("round %u", round);
		fill(p.buf[0], BUF, round);
		for (i = 0; i < DEPTH / 2; i++)
			put_send(&p.qp[0], &(struct send_wr){
				.opcode = MOOR_WQE_WRITE, .remote = p.buf[1],
				.wr_id = i, .rkey = p.key[1],
				SGE(p.buf[0], BUF, p.key[0]),
			});
		ring_send(&p.qp[0]);
		for (i = 0; i < round * 50; i++)
			peek_cqe(&p.cq[0], &cqe);
		bus_master(false);
		memset(at(p.buf[1]), 0xee, BUF);
		for (i = 0; i < 50; i++)
			reg_read(MOOR_REG_STATUS);
		expect(is_all(p.buf[1], BUF, 0xee), "there is DMA");
		expect(!(reg_read(MOOR_REG_STATUS) & MOOR_STATUS_FATAL),
		       "it is fatal");
		bus_master(true);
		for (i = 0; i < DEPTH / 2; i++)
			expect_cqe(&p.cq[0], i, MOOR_WC_SUCCESS, 0);
	}
}

/* ---- time while Bus Master Enable is clear ---- */

#define PERIOD_US	40000u

/* Takes Bus Master Enable away for @ns. Return: when it came back, or a moment earlier. */
static uint64_t stand_still(uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	bus_master(false);
	while (now_ns() < end)
		breathe();
	end = now_ns();
	bus_master(true);
	return end;
}

TEST_CASE(clock_goes_on, "CLOCK goes on while Bus Master Enable is clear", "ERR-10 REG-7", 0)
{
	uint64_t before, after, began, took;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		about("read %s", i ? "meanwhile" : "afterwards");
		before = reg_read64(MOOR_REG_CLOCK);
		began = now_ns();
		stand_still(5000000);
		if (i) {
			bus_master(false);
			wait_until(now_ns() - began > 10000000);
		}
		took = now_ns() - began;
		after = reg_read64(MOOR_REG_CLOCK);
		/* REG-10: within 500 millionths, in steps of a microsecond. */
		expect(after - before >= took - took / 1000 - 1000,
		       "%llu ns of %llu", (unsigned long long)(after - before),
		       (unsigned long long)took);
	}
}

/* What a message waits for: @answered if there is no receive for it, else for any answer. */
static const struct wait {
	const char *name;
	bool answered;
	uint8_t code;		/* of min_rnr_timer, or timeout */
	uint64_t least;		/* ns */
	uint8_t status;		/* when no retry is left */
} waits[] = {
	{ "RNR wait", true, 24, 40960000, MOOR_WC_RNR_RETRY_EXC_ERR },
	{ "ACK time-out", false, 13, 33554432, MOOR_WC_RETRY_EXC_ERR },
};

static void set_waits(struct pair *p, const struct wait *wait, uint8_t retries)
{
	reconnect(p);
	must_modify(&p->qp[0], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_RNR_RETRY | MOOR_QP_ATTR_RETRY_CNT |
			MOOR_QP_ATTR_TIMEOUT,
		.rnr_retry = retries, .retry_cnt = retries,
		.timeout = wait->answered ? 0 : wait->code,
	});
	if (wait->answered)
		must_modify(&p->qp[1], (struct moor_cmd_modify_qp){
			.mask = MOOR_QP_ATTR_MIN_RNR_TIMER,
			.min_rnr_timer = wait->code,
		});
	else
		reset_qp(&p->qp[1]);
}

static void send_waiting(struct pair *p)
{
	post_send(&p->qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND, .wr_id = 6, SGE(p->buf[0], 64, p->key[0]),
	});
}

static void expect_waited(struct pair *p, const struct wait *wait)
{
	expect_cqe(&p->cq[0], 6, wait->status, wait->answered ? 0 : MOOR_SYN_NO_RESPONDER);
}

/*
 * How long this device waits, which may be longer than it has to (LAY-32): the shortest
 * of some waits, and the longest.
 */
static void measure_wait(struct pair *p, const struct wait *wait, uint64_t *shortest,
			 uint64_t *longest)
{
	uint64_t took;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		set_waits(p, wait, wait->answered);
		took = now_ns();
		send_waiting(p);
		expect_waited(p, wait);
		took = now_ns() - took;
		*shortest = i && *shortest < took ? *shortest : took;
		*longest = i && *longest > took ? *longest : took;
	}
	expect(*shortest + *shortest / 1000 >= wait->least, "it waits for %llu us",
	       (unsigned long long)*shortest / 1000);
}

/*
 * Sends a message that waits for @usual ns, and takes Bus Master Enable away for @ns while
 * it does. On a machine that is so busy that the wait may be over before that, it tries
 * again. @left: about this much of the wait was left. Return: as stand_still().
 */
static uint64_t wait_without(struct pair *p, const struct wait *wait, uint8_t retries,
			     uint64_t usual, uint64_t ns, uint64_t *left)
{
	uint64_t began, took;
	unsigned int tries;

	for (tries = 0; tries < 20; tries++) {
		set_waits(p, wait, retries);
		began = now_ns();
		send_waiting(p);
		/* It is on its way, and the NAK has come. */
		nop();
		wait_until(now_ns() - began > 2000000);
		bus_master(false);
		took = now_ns() - began;
		if (took < usual) {
			*left = usual - took;
			return stand_still(ns);
		}
		bus_master(true);
	}
	need(false, "the machine is too busy to tell");
	return 0;
}

TEST_CASE(runs_out, "what runs out while Bus Master Enable is clear takes effect when it is set",
	  "ERR-10 RC-36", 0)
{
	const struct wait *wait;
	uint64_t since, took = 0, left = 0, shortest = 0, longest = 0;
	unsigned int i, tries;
	struct pair p;

	make_pair(&p);
	for (i = 0; i < 2; i++) {
		wait = &waits[i];
		about("%s", wait->name);
		measure_wait(&p, wait, &shortest, &longest);
		/* Slow machines have some tries: time that stood still would fail each of them. */
		for (tries = 0; tries < 10; tries++) {
			since = wait_without(&p, wait, wait->answered, shortest,
					     4 * longest, &left);
			expect_waited(&p, wait);
			took = now_ns() - since;
			if (took < left / 2)
				break;
		}
		expect(took < left / 2, "after %llu us, when %llu us had been left",
		       (unsigned long long)took / 1000, (unsigned long long)left / 1000);
	}
}

TEST_CASE(runs_out_once, "a wait that has run out several times over has run out once",
	  "ERR-10 RC-36", 0)
{
	uint64_t since, took, left;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 2; i++) {
		about("%s", waits[i].name);
		since = wait_without(&p, &waits[i], 3, waits[i].least,
				     8 * waits[i].least, &left);
		expect_waited(&p, &waits[i]);
		took = now_ns() - since;
		/* Of three retries or more one has been spent. */
		expect(took >= 2 * waits[i].least, "the last retry after %llu us",
		       (unsigned long long)took / 1000);
	}
}

TEST_CASE(moderation_runs_out, "an event that was held back comes when Bus Master Enable is set",
	  "ERR-10 CQ-26", HAS(CQ_MODERATION))
{
	const uint64_t period = PERIOD_US * 1000ull;
	uint64_t began, since, took = 0, left = 0;
	struct moor_eqe eqe;
	unsigned int tries;
	struct pair p;

	make_pair(&p);
	must(((struct moor_cmd_modify_cq){
		.hdr.opcode = MOOR_CMD_MODIFY_CQ, .cqn = 1, .count = 0xffff,
		.period = PERIOD_US,
	}));
	for (tries = 0; tries < 20; tries++) {
		began = now_ns();
		arm_cq(&p.cq[1], MOOR_CQ_ARM_ANY);
		post_recv(&p.qp[1], 1, p.buf[1], 64, p.key[1]);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_SEND, .flags = UNSIGNALED,
			SGE(p.buf[0], 64, p.key[0]),
		});
		wait_cqe(&p.cq[1]);
		bus_master(false);
		took = now_ns() - began;
		left = took < period ? period - took : 0;
		since = stand_still(2 * period);
		need(wait_event(MOOR_EQ_COMPLETION, &eqe), "no event");
		took = now_ns() - since;
		expect(eqe.type == MOOR_EVENT_COMPLETION && eqe.number == 1,
		       "event 0x%x of %u", eqe.type, eqe.number);
		expect_no_event(MOOR_EQ_COMPLETION);
		if (took < left)
			break;
	}
	expect(took < left, "after %llu us, when %llu us had been left",
	       (unsigned long long)took / 1000, (unsigned long long)left / 1000);
}

TEST_CASE(unmapped_in_flight, "memory taken away in mid-flight is not touched any more",
	  "ERR-6 ACC-14", 0)
{
	unsigned int round, i;
	struct pair p;

	make_pair(&p);
	for (round = 0; round < 10; round++) {
		for (i = 0; i < DEPTH / 2; i++)
			put_send(&p.qp[0], &(struct send_wr){
				.opcode = MOOR_WQE_WRITE, .remote = p.buf[1],
				.rkey = p.key[1], SGE(p.buf[0], BUF, p.key[0]),
			});
		ring_send(&p.qp[0]);
		dma_unmap(p.buf[1], BUF);
		memset(at(p.buf[1]), 0xee, BUF);
		for (i = 0; i < DEPTH / 2; i++)
			wait_cqe(&p.cq[0]);
		if (!expect(is_all(p.buf[1], BUF, 0xee), "round %u", round))
			return;
		dma_restore();
		reconnect(&p);
	}
}

TEST_CASE(fair, "one QP's work does not keep others, or commands, waiting for ever",
	  "ERR-9", 0)
{
	struct qp self;
	struct pair p;
	unsigned int i;
	struct cq cq;

	make_pair(&p);
	make_cq(&cq, 2, 4);
	make_qp(&self, &cq, &cq);
	connect_qp(&self, self.qpn);
	for (i = 0; i < DEPTH - 1; i++)
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .remote = p.buf[1],
			.rkey = p.key[1], .flags = UNSIGNALED,
			SGE(p.buf[0], BUF, p.key[0]),
		});
	put_send(&p.qp[0], &(struct send_wr){
		.opcode = MOOR_WQE_WRITE, .wr_id = 99,
	});
	ring_send(&p.qp[0]);
	expect(!nop(), "a command");
	post_send(&self, (struct send_wr){ .opcode = MOOR_WQE_WRITE, .wr_id = 7 });
	expect_cqe(&cq, 7, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[0], 99, MOOR_WC_SUCCESS, 0);
}
