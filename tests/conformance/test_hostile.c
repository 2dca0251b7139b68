// SPDX-License-Identifier: GPL-2.0
/*
 * Garbage: registers, configuration space, doorbells and kicks, the context table,
 * rings, queues and tables. Seeded, so that failures can be repeated. The device
 * answers all the time, touches no memory that it was not given, and works after a
 * reset (HWI 14.4).
 */
#include <linux/pci_regs.h>
#include <string.h>
#include <time.h>

#include "traffic.h"
#include "vfio_user.h"

#define STEPS		4000u
#define SEED		0x6d6f6f72636f6e66ull

static uint64_t state;

static uint32_t any(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 32);
}

static uint32_t below(uint32_t bound)
{
	return any() % bound;
}

/* A number of the kind that breaks things. */
static uint64_t odd_number(void)
{
	switch (below(8)) {
	case 0: return 0;
	case 1: return ~0ull - below(16);
	case 2: return 1ull << below(64);
	case 3: return (1ull << below(64)) - 1;
	case 4: return MEMORY_BASE + below(MEMORY_SIZE);
	case 5: return below(4096);
	case 6: return below(16) * PAGE;
	default: return (uint64_t)any() << 32 | any();
	}
}

static void scribble(uint64_t addr, unsigned int words)
{
	uint64_t *p = at(addr);

	while (words--)
		*p++ = odd_number();
}

/* Memory that was not given to the device, and must not change. */
static uint64_t guarded;

static void guard(void)
{
	guarded = take(16 * PAGE);
	memset(at(guarded), 0x3c, 16 * PAGE);
	dma_unmap(guarded, 16 * PAGE);
}

/* Garbage in the configuration space may have put it to sleep, or taken its BARs away. */
static void wake_up(void)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	uint32_t pm = config_capability(PCI_CAP_ID_PM);

	if (pm && config_read16(pm + PCI_PM_CTRL) & PCI_PM_CTRL_STATE_MASK) {
		config_write16(pm + PCI_PM_CTRL, 0);
		nanosleep(&pause, NULL);
	}
	bus_master(true);
}

static void expect_guarded(void)
{
	expect(is_all(guarded, 16 * PAGE, 0x3c),
	       "memory that is not mapped is written");
	expect(reg_read(MOOR_REG_MAGIC) == MOOR_MAGIC, "MAGIC is 0x%x",
	       reg_read(MOOR_REG_MAGIC));
}

static void expect_works(void)
{
	struct pair p;

	dma_restore();
	host_begin();
	make_pair(&p);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], BUF, true);
	expect(same(p.buf[0], p.buf[1], BUF), "the data");
}

TEST_CASE(garbage_registers, "garbage in registers and configuration space", "ERR-6 ERR-9 CTL-6",
	  0)
{
	static const uint32_t sizes[] = { 1, 2, 4, 4, 4, 8, 8, 8 };
	unsigned int i;

	state = SEED;
	guard();
	for (i = 0; i < STEPS; i++) {
		uint64_t value = odd_number();
		uint32_t size = sizes[below(8)];
		unsigned int kind = below(8);

		/* What the function does without Memory Space Enable is its own affair. */
		if (kind == 7)
			value = below(4);
		if (kind < 6)
			vfio_user_write(MOOR_BAR_REGS, below(2) ? below(0x200) & ~3u :
					below(MOOR_BAR_REGS_SIZE), &value, size);
		else if (kind == 6)
			vfio_user_write(7, below(256), &value, size);
		else
			vfio_user_write(MOOR_BAR_REGS, MOOR_REG_CONTROL, &value, 4);
		if (i % 500 == 0) {
			wake_up();
			expect_guarded();
		}
	}
	wake_up();
	expect_guarded();
	expect_works();
}

TEST_CASE(garbage_commands, "garbage in the command ring", "ERR-6 ERR-9 CMD-18", 0)
{
	static const uint8_t opcodes[] = {
		MOOR_CMD_CREATE_EQ, MOOR_CMD_DESTROY_EQ, MOOR_CMD_CREATE_CQ,
		MOOR_CMD_DESTROY_CQ, MOOR_CMD_RESIZE_CQ, MOOR_CMD_CREATE_QP,
		MOOR_CMD_MODIFY_QP, MOOR_CMD_QUERY_QP, MOOR_CMD_DESTROY_QP,
		MOOR_CMD_SET_GID, MOOR_CMD_MR_REVOKE, MOOR_CMD_MR_QUERY,
		MOOR_CMD_MR_WINDOWS,
	};
	const unsigned int batch = 1u << (dev.max_log_cmd < 5 ? dev.max_log_cmd : 5);
	unsigned int i, j, unknown = 0;

	state = SEED;
	guard();
	for (i = 1; i <= STEPS; i++) {
		struct moor_cmd cmd = { .hdr.opcode = opcodes[below(13)] };

		for (j = 0; j < sizeof(cmd.in) / 4; j++) {
			uint32_t value = (uint32_t)(below(3) ? below(4) :
						    odd_number());

			if (below(4))
				memcpy(cmd.in + 4 * j, &value, 4);
		}
		if (below(2))
			memset(cmd.in + 24 + below(40), 0, 56);
		issue(&cmd, sizeof(cmd));
		if (i % batch)
			continue;
		/* The device may have been given a ring or an EQ that faults. */
		for (j = 0; j < batch; j++) {
			if (!wait_until(poll_completion(&answer) ||
					reg_read(MOOR_REG_STATUS) &
					MOOR_STATUS_FATAL))
				need(false, "no answer to command %u", i);
			unknown += answer.status > MOOR_CMD_DMA_FAULT;
		}
		if (reg_read(MOOR_REG_STATUS) & MOOR_STATUS_FATAL)
			host_begin();
	}
	expect(!unknown, "%u answers of a status that there is not", unknown);
	expect_guarded();
	expect_works();
}

TEST_CASE(garbage_wqes, "garbage in work queues", "ERR-6 ERR-7 ERR-9 WQ-8 RC-13", 0)
{
	struct moor_cqe cqe;
	unsigned int i, j;
	struct pair p;

	state = SEED;
	make_pair(&p);
	guard();
	for (i = 1; i <= STEPS / 10; i++) {
		struct send_wr wr = {
			.opcode = (uint8_t)(below(8) ? below(14) : any()),
			.flags = AS_IT_IS | below(16), .num_sge = below(5),
			.inv_key = below(2) ? p.key[below(2)] : any(),
			.rkey = below(4) ? p.key[1] : (uint32_t)odd_number(),
			.remote = below(4) ? p.buf[1] + below(BUF) : odd_number(),
			.reg = { .key = any(), .length = odd_number() },
		};

		for (j = 0; j < wr.num_sge; j++)
			wr.sge[j] = (struct moor_sge){
				.addr = below(4) ? p.buf[0] + below(BUF) :
					odd_number(),
				.length = below(4) ? below(9000) :
					  (uint32_t)odd_number(),
				.lkey = below(4) ? p.key[0] : any(),
			};
		scribble(p.qp[1].rq + ((uint64_t)below(DEPTH) << LOG_STRIDE), 8);
		store_slot(p.qp[1].rq_slot, below(2) ? below(DEPTH) : any());
		put_send(&p.qp[0], &wr);
		if (below(4))
			scribble(p.qp[0].sq + ((p.qp[0].sq_producer - 1) &
					       (DEPTH - 1)) * (1ull << LOG_STRIDE), 4);
		if (i % 4)
			continue;
		ring_send(&p.qp[0]);
		settle();
		if (poll_cqe(&p.cq[0], &cqe) || below(4) == 0)
			reconnect(&p);
		drop_events(MOOR_EQ_ASYNC);
		expect(!(reg_read(MOOR_REG_STATUS) & MOOR_STATUS_FATAL),
		       "WQE %u is fatal", i);
	}
	expect_guarded();
	expect_works();
}

TEST_CASE(garbage_entries, "garbage in the context table and in tables", "ERR-6 ERR-7 ERR-9 XLT-10",
	  0)
{
	unsigned int i, j, tables = 8, keys;
	uint64_t table;
	struct pair p;

	at_least(consumer_first, 8);
	keys = dev.consumer_first - MOOR_MR_INDEX_FIRST - 2;
	if (keys > 400)
		keys = 400;
	state = SEED;
	make_pair(&p);
	table = take(tables * PAGE);
	guard();
	for (i = 0; i < STEPS / 8; i++) {
		struct moor_mr_context e = mr_entry(PD, ALL_RIGHTS, p.buf[1], BUF);
		uint32_t key = take_key();
		struct moor_cqe cqe;

		/* Tables that name tables, themselves, and absent memory. */
		for (j = 0; j < 64; j++)
			((uint64_t *)at(table))[below(tables * 512)] =
				below(2) ? odd_number() :
				(table + below(tables) * PAGE) | below(8);
		e.xlat = (struct moor_xlat){
			.root = (table + below(tables) * PAGE) | 1,
			.levels = (uint8_t)below(6),
			.page_shift = (uint8_t)(below(2) ? 12 : below(64)),
			.offset = below(2) ? 0 : odd_number(),
		};
		if (below(2))
			((uint64_t *)&e)[1 + below(7)] = odd_number();
		write_entry(key, &e, below(8) ? 1 : below(8));
		cqe = move(&p, below(2) ? MOOR_WQE_WRITE : MOOR_WQE_READ,
			   p.buf[0], p.key[0], p.buf[1] + below(BUF), key,
			   below(5000));
		expect(cqe.status <= MOOR_WC_RNR_RETRY_EXC_ERR, "status %u",
		       cqe.status);
		if (cqe.status)
			reconnect(&p);
		if (i % keys == keys - 1) {
			host_begin();
			make_pair(&p);
			table = take(tables * PAGE);
			dma_restore();
			guard();
		}
	}
	expect_guarded();
	expect_works();
}

TEST_CASE(garbage_doorbells, "garbage in doorbells and kicks", "ERR-6 ERR-8 ERR-9 DB-4 DB-15", 0)
{
	const uint32_t slots = dev.db_pages * MOOR_DB_SLOTS_PER_PAGE;
	uint64_t held, places = dev.dm_size < PAGE ? 0 : PAGE;
	struct moor_cqe cqe;
	struct pair p;
	unsigned int i;

	state = SEED;
	make_pair(&p);
	guard();
	for (held = 0; held < places; held += 8)
		bar_write64(MOOR_BAR_DB, dev.dm_offset + held, ~held);
	for (i = 0; i < STEPS; i++) {
		uint32_t slot = below(4) ? (MOOR_DB_SLOTS_PER_PAGE + below(2048)) % slots :
					   below(slots);

		/* All slots, except those of the pair and of the driver. */
		if (slot >= MOOR_DB_SLOTS_PER_PAGE &&
		    (slot < p.cq[0].slot || slot > p.qp[1].rq_slot))
			store_slot(slot, odd_number());
		kick(below(2) ? slot : below(16));
	}
	expect(!nop(), "commands work no more");
	for (held = 0; held < places; held += 8)
		if (!expect(bar_read64(MOOR_BAR_DB, dev.dm_offset + held) == ~held,
			    "on-NIC memory has changed"))
			break;
	expect(!peek_cqe(&p.cq[0], &cqe) && !peek_cqe(&p.cq[1], &cqe),
	       "a CQE of nothing");
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], BUF, true);
	expect_guarded();
	expect_works();
}

TEST_CASE(leaves, "a host that leaves with work under way: the next one finds a device",
	  "CTL-6 ERR-9", 0)
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
	/* No other case comes behind: a server may end with its client. */
	skip_unless(device_reattach());
	expect_works();
}
