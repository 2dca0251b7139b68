// SPDX-License-Identifier: GPL-2.0
/* Resets of every kind (HWI 4.1). */
#include <linux/pci_regs.h>
#include <string.h>
#include <time.h>

#include "traffic.h"

/* Words of the context table: of the entries behind those of a case, some of all. */
#define TABLE_WORDS	((uint64_t)dev.num_keys * 8)
#define TABLE_STEP	(TABLE_WORDS / 512)

/* The first slot of the last page. */
static uint64_t last_page(void)
{
	return (uint64_t)(dev.db_pages - 1) * MOOR_DB_SLOTS_PER_PAGE;
}

/* Leaves state everywhere: registers, entries, slots, objects, traffic under way. */
static void leave_traces(struct pair *p)
{
	uint64_t i;

	bus_master(true);
	host_reset();
	host_enable();
	make_eq(MOOR_EQ_ASYNC, LOG_EQE, 0);
	make_eq(MOOR_EQ_COMPLETION, LOG_EQE, 0);
	must(((struct moor_cmd_set_gid){
		.hdr.opcode = MOOR_CMD_SET_GID, .type = MOOR_GID_ROCE_V2,
		.vlan = MOOR_GID_NO_VLAN, .gid = { 0xfe, 0x80, [15] = 1 },
	}));
	make_pair(p);
	/* The bodies of entries, which stay INVALID, and slots that are tied to nothing. */
	for (i = (uint64_t)key_index(p->key[1]) * 8 + 8; i < TABLE_WORDS; i += TABLE_STEP)
		bar_write64(MOOR_BAR_MR, (i | 1) * 8, ~i);
	bar_write64(MOOR_BAR_MR, (TABLE_WORDS - 1) * 8, ~0ull);
	for (i = 0; i < MOOR_DB_SLOTS_PER_PAGE; i++)
		if (dev.db_pages > 2)
			store_slot((uint32_t)(last_page() + i), ~i);
	store_slot((uint32_t)last_page() + MOOR_DB_SLOTS_PER_PAGE - 1, 1);
	for (i = 0; i < DEPTH; i++)
		put_send(&p->qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .remote = p->buf[1],
			.rkey = p->key[1], SGE(p->buf[0], BUF, p->key[0]),
		});
	ring_send(&p->qp[0]);
}

/* Gives the function back its BARs, without which the host asks it nothing: no DMA yet. */
static void expect_no_memory_space(void)
{
	struct timespec pause = { .tv_nsec = 100000000 };

	/* PCIe gives a function this time after its own reset. */
	nanosleep(&pause, NULL);
	expect(!(config_read16(PCI_COMMAND) & (PCI_COMMAND_MASTER | PCI_COMMAND_MEMORY)),
	       "the command register is 0x%x", config_read16(PCI_COMMAND));
	bus_master(false);
}

static void expect_no_traces(const struct pair *p)
{
	uint64_t i, bad = 0;

	wait_ready();
	expect((reg_read(MOOR_REG_STATUS) & ~MOOR_STATUS_LINK_UP) ==
	       MOOR_STATUS_READY, "STATUS is 0x%x", reg_read(MOOR_REG_STATUS));
	expect(!reg_read(MOOR_REG_CONTROL) && !reg_read(MOOR_REG_CMD_LOG_SIZE) &&
	       !reg_read64(MOOR_REG_CMD_BASE) && !reg_read64(MOOR_REG_CPL_BASE) &&
	       !reg_read64(MOOR_REG_DOZE_ADDR), "a register has kept its value");
	memset(at(p->buf[1]), 0xee, BUF);
	memset(at(p->cq[0].ring), 0xee, PAGE);
	for (i = 0; i < (uint64_t)key_index(p->key[1]) * 8 + 8; i++)
		bad |= bar_read64(MOOR_BAR_MR, i * 8);
	for (; i < TABLE_WORDS; i += TABLE_STEP)
		bad |= bar_read64(MOOR_BAR_MR, (i | 1) * 8);
	bad |= bar_read64(MOOR_BAR_MR, (TABLE_WORDS - 1) * 8);
	expect(!bad, "BAR2 is not zero");
	bad = 0;
	for (i = 0; i < 2 * MOOR_DB_SLOTS_PER_PAGE; i++)
		bad |= bar_read64(MOOR_BAR_DB, i * 8);
	for (i = 0; i < MOOR_DB_SLOTS_PER_PAGE; i++)
		bad |= bar_read64(MOOR_BAR_DB, (last_page() + i) * 8);
	expect(!bad, "the doorbell pages are not zero");
	for (i = 0; i < 100; i++)
		reg_read(MOOR_REG_STATUS);
	expect(is_all(p->buf[1], BUF, 0xee) && is_all(p->cq[0].ring, PAGE, 0xee),
	       "there is DMA after the reset");
}

/* No object is left, and a driver can begin anew. */
static void expect_no_objects(const struct pair *p)
{
	struct moor_cmd_query_qp query_qp = {
		.hdr.opcode = MOOR_CMD_QUERY_QP, .qpn = p->qp[0].qpn,
	};
	struct moor_cmd_destroy_cq destroy_cq = {
		.hdr.opcode = MOOR_CMD_DESTROY_CQ, .cqn = p->cq[0].cqn,
	};
	struct moor_cmd_destroy_eq destroy_eq = {
		.hdr.opcode = MOOR_CMD_DESTROY_EQ, .eqn = MOOR_EQ_ASYNC,
	};
	struct moor_cpl_mr_query out;

	bus_master(true);
	host_enable();
	refused(query_qp, MOOR_CMD_BAD_INDEX, qpn, "the QP is still there");
	refused(destroy_cq, MOOR_CMD_BAD_INDEX, cqn, "the CQ is still there");
	refused(destroy_eq, MOOR_CMD_BAD_INDEX, eqn, "the EQ is still there");
	expect(query(p->key[1], &out) == MOOR_CMD_BAD_INDEX,
	       "the MR is still there");
}

TEST_CASE(reset, "CONTROL.RESET: everything is gone, the configuration space stays",
	  "CTL-1 CTL-2 CTL-3 CTL-6 CTL-12", 0)
{
	struct pair p;

	leave_traces(&p);
	host_reset();
	expect(!reg_read(MOOR_REG_CONTROL), "CONTROL.RESET reads as %u",
	       reg_read(MOOR_REG_CONTROL));
	expect(config_read16(PCI_COMMAND) & PCI_COMMAND_MASTER,
	       "Bus Master Enable is gone");
	expect_no_traces(&p);
	expect_no_objects(&p);
}

TEST_CASE(reset_in_flight, "after READY nothing of before reaches memory any more", "CTL-22", 0)
{
	unsigned int round, i;
	struct moor_cqe cqe;
	struct pair p;

	for (round = 0; round < 10; round++) {
		host_begin();
		make_pair(&p);
		for (i = 0; i < DEPTH; i++)
			put_send(&p.qp[0], &(struct send_wr){
				.opcode = i & 1 ? MOOR_WQE_WRITE : MOOR_WQE_READ,
				.remote = p.buf[1], .rkey = p.key[1],
				SGE(p.buf[0], BUF, p.key[0]),
			});
		ring_send(&p.qp[0]);
		for (i = 0; i < round * 40; i++)
			peek_cqe(&p.cq[0], &cqe);
		host_reset();
		memset(at(p.buf[0]), 0xaa, BUF);
		memset(at(p.buf[1]), 0xaa, BUF);
		memset(at(p.cq[0].ring), 0xaa, PAGE);
		for (i = 0; i < 200; i++)
			reg_read(MOOR_REG_STATUS);
		expect(is_all(p.buf[0], BUF, 0xaa) && is_all(p.buf[1], BUF, 0xaa) &&
		       is_all(p.cq[0].ring, PAGE, 0xaa), "round %u", round);
	}
}

TEST_CASE(flr, "FLR: the same, and the configuration space is reset", "CTL-5 CTL-3", 0)
{
	uint32_t cap = config_capability(PCI_CAP_ID_EXP);
	struct pair p;

	leave_traces(&p);
	device_flr();
	expect_no_memory_space();
	expect(!(config_read16(cap + PCI_EXP_DEVCTL) & PCI_EXP_DEVCTL_BCR_FLR),
	       "the bit that asks for it stays");
	expect_no_traces(&p);
	expect_no_objects(&p);

	leave_traces(&p);
	device_platform_reset();
	expect_no_memory_space();
	expect_no_traces(&p);
	expect_no_objects(&p);
}

TEST_CASE(flr_link, "FLR leaves what both ends of the link have to agree on", "CTL-5", 0)
{
	const uint16_t fields = PCI_EXP_LNKCTL_ASPMC | PCI_EXP_LNKCTL_RCB |
				PCI_EXP_LNKCTL_CCC;
	uint32_t at = config_capability(PCI_CAP_ID_EXP) + PCI_EXP_LNKCTL;
	uint16_t set;

	config_write16(at, fields);
	/* Not all are writable in every device. */
	set = config_read16(at);
	device_flr();
	expect_no_memory_space();
	expect(!((config_read16(at) ^ set) & fields), "Link Control was 0x%x, and is 0x%x", set,
	       config_read16(at));
	config_write16(at, 0);
	wait_ready();
}

TEST_CASE(msix, "the MSI-X table outlives a reset by CONTROL, but not FLR",
	  "CTL-16 CTL-5", 0)
{
	static const uint32_t entry[] = { 0xfee00000, 0, 0x4711, 0 };
	unsigned int i;

	for (i = 0; i < 4; i++)
		reg_write(MOOR_MSIX_TABLE_OFFSET + 4 * i, entry[i]);
	host_reset();
	for (i = 0; i < 4; i++)
		expect(reg_read(MOOR_MSIX_TABLE_OFFSET + 4 * i) == entry[i],
		       "RESET: word %u has changed", i);
	reg_write(MOOR_REG_CONTROL, 0);
	wait_ready();
	expect(reg_read(MOOR_MSIX_TABLE_OFFSET + 8) == entry[2],
	       "ENABLE clear: the entry has changed");
	device_flr();
	expect_no_memory_space();
	wait_ready();
	expect(reg_read(MOOR_MSIX_TABLE_OFFSET + 12) & PCI_MSIX_ENTRY_CTRL_MASKBIT,
	       "FLR: the entry is not masked");
}

TEST_CASE(before_enable, "what BAR2 and slots got before ENABLE counts from then on",
	  "CTL-21", 0)
{
	struct moor_cpl_mr_query out;
	uint32_t key;

	host_reset();
	key = make_mr(PD, ALL_RIGHTS, take(PAGE), PAGE);
	store_slot(MOOR_DB_SLOT_CPL_ARM, 1);
	interrupts(MOOR_VECTOR_CMD);
	host_enable();
	expect(!query(key, &out) && out.state == MOOR_MR_STATE_VALID,
	       "the MR: status %u, state %u", answer.status, out.state);
	expect(wait_until(interrupts(MOOR_VECTOR_CMD)), "no interrupt");
}

TEST_CASE(gids_gone, "a reset clears the GID table", "CTL-2 QP-11", 0)
{
	struct moor_cmd_modify_qp rtr;
	struct cq cq;
	struct qp qp;

	host_reset();
	host_enable();
	make_eq(MOOR_EQ_COMPLETION, LOG_EQE, eq_vector(MOOR_EQ_COMPLETION));
	make_cq(&cq, 0, 4);
	make_qp(&qp, &cq, &cq);
	must_modify(&qp, to_init());
	rtr = to_rtr(qp.qpn);
	expect(modify(&qp, rtr) == MOOR_CMD_BAD_PARAM, "status %u", answer.status);
}

TEST_CASE(disable, "CONTROL with ENABLE clear stops the function as a reset does",
	  "CTL-10", 0)
{
	struct pair p;

	leave_traces(&p);
	reg_write(MOOR_REG_CONTROL, 0);
	expect_no_traces(&p);
	expect_no_objects(&p);
}

TEST_CASE(reset_anywhere, "reset works in every state", "CTL-6 CTL-3 ERR-3", 0)
{
	host_reset();
	host_reset();
	host_enable();
	expect(!nop(), "after two resets");

	/* A device that has failed in the set-up is reset, too. */
	host_reset();
	host_set_up_registers(0);
	reg_write(MOOR_REG_CONTROL, MOOR_CONTROL_ENABLE);
	need(reg_read(MOOR_REG_STATUS) & MOOR_STATUS_FATAL, "no failure");
	host_reset();
	host_enable();
	expect(!nop(), "after a failure");

	bus_master(false);
	host_reset();
	bus_master(true);
	host_enable();
	expect(!nop(), "without Bus Master Enable");

	reg_write(MOOR_REG_CONTROL, MOOR_CONTROL_RESET | MOOR_CONTROL_ENABLE);
	wait_ready();
	expect(!(reg_read(MOOR_REG_STATUS) & MOOR_STATUS_ENABLED),
	       "RESET with ENABLE: it is enabled");
	host_reset();
	host_enable();
	expect(!nop(), "RESET with ENABLE");
}

/*
 * The second one comes at once, or later by as much as makes it come in mid-reset where
 * that takes long enough to be met.
 */
TEST_CASE(reset_twice, "a reset that is written while another is under way", "CTL-6 CTL-3 CTL-12",
	  0)
{
	static const uint32_t again[] = {
		MOOR_CONTROL_RESET, 0, MOOR_CONTROL_RESET | MOOR_CONTROL_ENABLE,
	};
	uint64_t began = now_ns(), took, until;
	unsigned int i, j;
	struct pair p;

	host_reset();
	took = now_ns() - began;
	for (i = 0; i < 6; i++) {
		about("CONTROL 0x%x, %s", again[i % 3], i < 3 ? "at once" : "half-way");
		host_begin();
		leave_traces(&p);
		for (j = 0; j < 3; j++) {
			reg_write(MOOR_REG_CONTROL, j ? again[i % 3] :
							MOOR_CONTROL_RESET);
			until = now_ns() + (i < 3 ? 0 : took / 2);
			while (now_ns() < until)
				;
		}
		wait_ready();
		expect_no_traces(&p);
		expect_no_objects(&p);
	}
}
