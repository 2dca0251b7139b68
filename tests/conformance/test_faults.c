// SPDX-License-Identifier: GPL-2.0
/* Fatal errors, Bus Master Enable, isolation (HWI 14). */
#include <string.h>
#include <time.h>

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
	unsigned int i;

	for (i = 0; i < (dev.features & MOOR_FEATURE_DOZES ? 3 : 2); i++) {
		about("register 0x%x", regs[i]);
		settle();
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
		.log_eqe = LOG_EQE, .base = take(PAGE), .vector = 1,
	};
	struct moor_cmd_destroy_eq destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_EQ, .eqn = MOOR_EQ_COMPLETION,
	};
	struct pair p;

	must(destroy);
	must(cmd);
	make_pair(&p);
	settle();
	dma_unmap(cmd.base, PAGE);
	arm_cq(&p.cq[0], MOOR_CQ_ARM_ANY);
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	expect_fatal(MOOR_FATAL_DMA);
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

/* Stores into BAR2, a slot that is tied to nothing and on-NIC memory, and reads it back. */
static void stores_stay(const char *when, uint64_t seed)
{
	/* The entry's body alone: it stays INVALID. */
	const uint64_t entry = (uint64_t)(dev.num_keys - 1) * 64 + 16;
	const uint64_t slot = 2 * PAGE - 8;

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
	const uint64_t slot = 2 * PAGE - 8;

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
	make_cq(&cq, 5, 4);
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
