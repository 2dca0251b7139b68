// SPDX-License-Identifier: GPL-2.0
/* Set-up: rings, ENABLE and its result, CONTROL and STATUS (HWI 4). */
#include <time.h>

#include "platform.h"
#include "traffic.h"

#define READ_ONLY	0x600000000000ull

static unsigned int usual_log_ring(void)
{
	return dev.max_log_cmd < LOG_RING ? dev.max_log_cmd : LOG_RING;
}

static void try_set_up(const char *what, uint32_t reg, uint64_t value,
		       bool accepted)
{
	uint64_t low = reg == MOOR_REG_DOZE_ADDR ? 3 : PAGE - 1, kept;
	uint32_t status, code;

	about("%s", what);
	host_reset();
	host_set_up_registers(usual_log_ring());
	reg_write64(reg, value);
	/* Bits below the alignment need not be there: then the address is aligned. */
	if (reg != MOOR_REG_CMD_LOG_SIZE && value & low) {
		kept = reg_read64(reg);
		expect(!((kept ^ value) & ~low) && !(kept & ~value),
		       "it reads as 0x%llx", (unsigned long long)kept);
		accepted = !(kept & low);
	}
	reg_write(MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE);
	status = reg_read(MOOR_REG_STATUS);
	code = reg_read(MOOR_REG_FATAL_CODE);
	expect(!(status & MOOR_STATUS_ENABLED) == !accepted &&
	       !(status & MOOR_STATUS_FATAL) == accepted, "STATUS is 0x%x",
	       status);
	expect(accepted ? !code : code == MOOR_FATAL_BAD_SETUP,
	       "FATAL_CODE is %u", code);
}

TEST_CASE(set_up, "ENABLE answers with ENABLED, or with FATAL and a reason",
	  "CTL-8 CTL-13 CMD-1 ERR-1", 0)
{
	uint64_t ring = take(MOOR_CMD_SIZE << LOG_RING);

	try_set_up("all is well", MOOR_REG_CMD_BASE, ring, true);
	expect(reg_read(MOOR_REG_CONTROL) == MOOR_CONTROL_ENABLE,
	       "CONTROL is 0x%x", reg_read(MOOR_REG_CONTROL));
	try_set_up("rings of two", MOOR_REG_CMD_LOG_SIZE, 1, true);
	try_set_up("CMD_BASE + 8", MOOR_REG_CMD_BASE, ring + 8, false);
	try_set_up("CMD_BASE + 2048", MOOR_REG_CMD_BASE, ring + 2048, false);
	try_set_up("CPL_BASE + 64", MOOR_REG_CPL_BASE, ring + 64, false);
	try_set_up("CMD_LOG_SIZE 0", MOOR_REG_CMD_LOG_SIZE, 0, false);
	try_set_up("CMD_LOG_SIZE beyond MAX_LOG_CMD", MOOR_REG_CMD_LOG_SIZE,
		   dev.max_log_cmd + 1, false);
	try_set_up("CMD_LOG_SIZE 32", MOOR_REG_CMD_LOG_SIZE, 32, false);
	try_set_up("CMD_LOG_SIZE of all ones", MOOR_REG_CMD_LOG_SIZE, ~0u, false);
	if (dev.features & MOOR_FEATURE_DOZES)
		try_set_up("DOZE_ADDR + 2", MOOR_REG_DOZE_ADDR, ring + 2, false);
	bus_master(false);
	try_set_up("without Bus Master Enable", MOOR_REG_CMD_BASE, ring, false);
}

static bool is_fatal(void)
{
	return reg_read(MOOR_REG_STATUS) & MOOR_STATUS_FATAL;
}

/*
 * A device whose dozing word is nowhere fails when it falls asleep. One that never does
 * needs neither the word nor a kick. Return: whether it fails.
 */
static bool falls_asleep(void)
{
	const struct timespec pause = { .tv_nsec = 40000000 };
	struct moor_cmd_hdr cmd = { .opcode = MOOR_CMD_NOP };
	struct moor_cpl cpl;
	unsigned int i;

	for (i = 0; i < 4 && !is_fatal(); i++) {
		issue(&cmd, sizeof(cmd));
		need(wait_until(is_fatal() || poll_completion(&cpl)),
		     "it sleeps, and nobody can know");
		nanosleep(&pause, NULL);
	}
	return is_fatal();
}

TEST_CASE(unreachable_set_up, "a ring or a dozing word that DMA does not reach",
	  "CTL-13 ERR-1 ERR-2", 0)
{
	static const uint32_t regs[] = { MOOR_REG_CMD_BASE, MOOR_REG_CPL_BASE,
					 MOOR_REG_DOZE_ADDR };
	bool reports = platform_reports_writes();
	uint32_t code;
	unsigned int i;

	for (i = 0; i < (dev.features & MOOR_FEATURE_DOZES ? 3 : 2); i++) {
		about("register 0x%x", regs[i]);
		/* The others are written alone (ACC-19). */
		if (regs[i] != MOOR_REG_CMD_BASE && !reports)
			continue;
		host_reset();
		host_set_up_registers(1);
		reg_write64(regs[i], NOWHERE);
		reg_write(MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE);
		if (regs[i] == MOOR_REG_DOZE_ADDR && !falls_asleep())
			continue;
		if (!is_fatal()) {
			store_slot(MOOR_DB_SLOT_CMD_PRODUCER, 1);
			kick(MOOR_DB_SLOT_CMD_PRODUCER);
		}
		need(wait_until(reg_read(MOOR_REG_STATUS) & MOOR_STATUS_FATAL),
		     "STATUS is 0x%x", reg_read(MOOR_REG_STATUS));
		code = reg_read(MOOR_REG_FATAL_CODE);
		expect(code == MOOR_FATAL_BAD_SETUP || code == MOOR_FATAL_DMA,
		       "FATAL_CODE is %u", code);
	}
}

TEST_CASE(read_only_ring, "the device needs no more than to read commands",
	  "CTL-13", 0)
{
	uint64_t base;

	host_reset();
	host_set_up_registers(dev.max_log_cmd < 4 ? dev.max_log_cmd : 4);
	base = reg_read64(MOOR_REG_CMD_BASE);
	dma_map(READ_ONLY, PAGE, base - MEMORY_BASE, DMA_READ);
	reg_write64(MOOR_REG_CMD_BASE, READ_ONLY);
	reg_write(MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE);
	need(reg_read(MOOR_REG_STATUS) & MOOR_STATUS_ENABLED,
	     "FATAL_CODE %u", reg_read(MOOR_REG_FATAL_CODE));
	expect(!nop(), "a command");
}

TEST_CASE(control_writes, "ENABLE twice, ENABLE when FATAL, reserved bits",
	  "CTL-14 CTL-15 ERR-3", 0)
{
	static const uint32_t reserved[] = { 4, 1u << 31, 0xfffffffc };
	unsigned int i;

	expect(!nop(), "enabled");
	reg_write(MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE);
	expect(!nop(), "enabled twice");
	for (i = 0; i < 3; i++) {
		about("0x%x", reserved[i]);
		reg_write(MOOR_REG_CONTROL, reserved[i]);
		reg_write(MOOR_REG_CONTROL, reserved[i] | MOOR_CONTROL_RESET);
		expect(reg_read(MOOR_REG_CONTROL) == MOOR_CONTROL_ENABLE &&
		       reg_read(MOOR_REG_STATUS) & MOOR_STATUS_ENABLED &&
		       !nop(), "it has an effect");
	}
	host_reset();
	host_set_up_registers(usual_log_ring());
	reg_write(MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE | 4);
	expect(!(reg_read(MOOR_REG_STATUS) & MOOR_STATUS_ENABLED),
	       "ENABLE with a reserved bit enables");
	about("when FATAL");
	reg_write(MOOR_REG_CMD_LOG_SIZE, 0);
	reg_write(MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE);
	reg_write(MOOR_REG_CMD_LOG_SIZE, 1);
	reg_write(MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE);
	expect(reg_read(MOOR_REG_STATUS) & MOOR_STATUS_FATAL &&
	       !(reg_read(MOOR_REG_STATUS) & MOOR_STATUS_ENABLED),
	       "STATUS is 0x%x", reg_read(MOOR_REG_STATUS));
	about("CONTROL 0 leads out as RESET does");
	reg_write(MOOR_REG_CONTROL, 0);
	wait_ready();
	expect(!(reg_read(MOOR_REG_STATUS) & MOOR_STATUS_FATAL) &&
	       !reg_read(MOOR_REG_FATAL_CODE), "STATUS is 0x%x",
	       reg_read(MOOR_REG_STATUS));
}

TEST_CASE(largest_ring, "command rings of every size up to MAX_LOG_CMD",
	  "CMD-1 CMD-7 CTL-8", 0)
{
	uint32_t log;
	unsigned int i;

	for (log = 1; log <= dev.max_log_cmd && log <= 16; log++) {
		about("%u entries", 1u << log);
		host_reset();
		host_set_up_registers(log);
		reg_write(MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE);
		need(reg_read(MOOR_REG_STATUS) & MOOR_STATUS_ENABLED,
		     "FATAL_CODE %u", reg_read(MOOR_REG_FATAL_CODE));
		for (i = 0; i < 5u << (log < 5 ? log : 0); i++)
			if (!expect(!nop(), "command %u", i))
				break;
	}
}

TEST_CASE(enabled_registers, "ring registers are read-only while enabled", "CTL-9", 0)
{
	static const uint32_t regs[] = { MOOR_REG_CMD_BASE, MOOR_REG_CPL_BASE,
					 MOOR_REG_DOZE_ADDR };
	uint32_t log = reg_read(MOOR_REG_CMD_LOG_SIZE);
	unsigned int i;

	for (i = 0; i < 3; i++) {
		uint64_t before = reg_read64(regs[i]);

		reg_write64(regs[i], MEMORY_BASE + MEMORY_SIZE / 2);
		reg_write(regs[i] + 4, 77);
		expect(reg_read64(regs[i]) == before, "0x%x has changed", regs[i]);
	}
	reg_write(MOOR_REG_CMD_LOG_SIZE, log + 1);
	expect(reg_read(MOOR_REG_CMD_LOG_SIZE) == log, "CMD_LOG_SIZE has changed");
	expect(!nop(), "and commands do not work any more");
}

TEST_CASE(link, "STATUS has the bits it is said to have; loopback needs no link",
	  "CTL-11 CTL-17", 0)
{
	uint32_t status = reg_read(MOOR_REG_STATUS);
	struct pair p;

	expect(status == (MOOR_STATUS_READY | MOOR_STATUS_ENABLED |
			  MOOR_STATUS_LINK_UP), "STATUS is 0x%x", status);
	make_pair(&p);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 64, true);
}
