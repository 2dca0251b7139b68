// SPDX-License-Identifier: GPL-2.0
/* Registers and features (HWI 4). */
#include <linux/pci_regs.h>
#include <string.h>

#include "traffic.h"
#include "vfio_user.h"

static const struct {
	uint32_t offset, size;
	bool writable;
	const char *name;
} registers[] = {
	{ MOOR_REG_MAGIC, 4, false, "MAGIC" },
	{ MOOR_REG_VERSION, 4, false, "VERSION" },
	{ MOOR_REG_STATUS, 4, false, "STATUS" },
	{ MOOR_REG_CONTROL, 4, true, "CONTROL" },
	{ MOOR_REG_FEATURES, 8, false, "FEATURES" },
	{ MOOR_REG_PAGE_SIZES, 8, false, "PAGE_SIZES" },
	{ MOOR_REG_NODE_GUID, 8, false, "NODE_GUID" },
	{ MOOR_REG_MAC, 8, false, "MAC" },
	{ MOOR_REG_MR_INDEX_BITS, 4, false, "MR_INDEX_BITS" },
	{ MOOR_REG_MR_CONSUMER_FIRST, 4, false, "MR_CONSUMER_FIRST" },
	{ MOOR_REG_NULL_LKEY, 4, false, "NULL_LKEY" },
	{ MOOR_REG_MAX_MSG_SIZE, 4, false, "MAX_MSG_SIZE" },
	{ MOOR_REG_QP_INDEX_BITS, 4, false, "QP_INDEX_BITS" },
	{ MOOR_REG_MAX_CQ, 4, false, "MAX_CQ" },
	{ MOOR_REG_MAX_EQ, 4, false, "MAX_EQ" },
	{ MOOR_REG_MAX_LOG_WQE, 4, false, "MAX_LOG_WQE" },
	{ MOOR_REG_MAX_SGE, 4, false, "MAX_SGE" },
	{ MOOR_REG_MAX_INLINE, 4, false, "MAX_INLINE" },
	{ MOOR_REG_MAX_LOG_CQE, 4, false, "MAX_LOG_CQE" },
	{ MOOR_REG_MAX_GID, 4, false, "MAX_GID" },
	{ MOOR_REG_MAX_RD_ATOMIC, 4, false, "MAX_RD_ATOMIC" },
	{ MOOR_REG_MAX_LOG_CMD, 4, false, "MAX_LOG_CMD" },
	{ MOOR_REG_MAX_LOG_EQE, 4, false, "MAX_LOG_EQE" },
	{ MOOR_REG_NUM_VECTORS, 4, false, "NUM_VECTORS" },
	{ MOOR_REG_MAX_MR_SIZE, 8, false, "MAX_MR_SIZE" },
	{ MOOR_REG_DB_PAGES, 4, false, "DB_PAGES" },
	{ MOOR_REG_KICK_OFFSET, 4, false, "KICK_OFFSET" },
	{ MOOR_REG_DM_OFFSET, 8, false, "DM_OFFSET" },
	{ MOOR_REG_DM_SIZE, 8, false, "DM_SIZE" },
	{ MOOR_REG_CMD_BASE, 8, true, "CMD_BASE" },
	{ MOOR_REG_CPL_BASE, 8, true, "CPL_BASE" },
	{ MOOR_REG_SRQ_INDEX_BITS, 4, false, "SRQ_INDEX_BITS" },
	{ MOOR_REG_MAX_FILTER, 4, false, "MAX_FILTER" },
	{ MOOR_REG_CMD_LOG_SIZE, 4, true, "CMD_LOG_SIZE" },
	{ MOOR_REG_DOZE_ADDR, 8, true, "DOZE_ADDR" },
	{ MOOR_REG_FENCE, 4, false, "FENCE" },
	{ MOOR_REG_CLOCK, 8, false, "CLOCK" },
	{ MOOR_REG_FATAL_CODE, 4, false, "FATAL_CODE" },
};

#define NUM_REGISTERS	(sizeof(registers) / sizeof(registers[0]))

static bool is_listed(uint32_t offset)
{
	unsigned int i;

	for (i = 0; i < NUM_REGISTERS; i++)
		if (offset - registers[i].offset < registers[i].size)
			return true;
	return false;
}

static uint64_t read_register(unsigned int i)
{
	return registers[i].size == 8 ? reg_read64(registers[i].offset) :
					reg_read(registers[i].offset);
}

/* Not so: what tells of the device's state. */
static bool is_constant(unsigned int i)
{
	return !registers[i].writable && registers[i].offset != MOOR_REG_STATUS &&
	       registers[i].offset != MOOR_REG_CLOCK &&
	       registers[i].offset != MOOR_REG_FATAL_CODE;
}

TEST_CASE(reset_values, "registers after a reset", "REG-4 REG-11 CTL-2", 0)
{
	uint64_t before[NUM_REGISTERS];
	unsigned int i;

	for (i = 0; i < NUM_REGISTERS; i++)
		before[i] = read_register(i);
	host_reset();
	for (i = 0; i < NUM_REGISTERS; i++)
		if (is_constant(i))
			expect(read_register(i) == before[i], "%s was 0x%llx, and is 0x%llx",
			       registers[i].name, (unsigned long long)before[i],
			       (unsigned long long)read_register(i));
	for (i = 0; i < NUM_REGISTERS; i++)
		if (registers[i].writable)
			expect(!read_register(i), "%s is 0x%llx", registers[i].name,
			       (unsigned long long)read_register(i));
	expect((reg_read(MOOR_REG_STATUS) & ~MOOR_STATUS_LINK_UP) ==
	       MOOR_STATUS_READY, "STATUS is 0x%x", reg_read(MOOR_REG_STATUS));
	expect(!reg_read(MOOR_REG_FATAL_CODE), "FATAL_CODE is %u",
	       reg_read(MOOR_REG_FATAL_CODE));
	expect(!reg_read(MOOR_REG_FENCE), "FENCE is %u", reg_read(MOOR_REG_FENCE));
}

TEST_CASE(read_only, "writes to read-only registers change nothing", "REG-3 REG-4", 0)
{
	static const uint64_t ones = ~0ull;
	unsigned int i;

	host_reset();
	for (i = 0; i < NUM_REGISTERS; i++) {
		uint64_t before = read_register(i);

		if (registers[i].writable || registers[i].offset == MOOR_REG_CLOCK)
			continue;
		vfio_user_write(MOOR_BAR_REGS, registers[i].offset, &ones,
				registers[i].size);
		expect(read_register(i) == before, "%s can be written",
		       registers[i].name);
	}
}

TEST_CASE(not_listed, "offsets that are no register read as zero, and take nothing",
	  "REG-3", 0)
{
	uint32_t offset;

	/* A later minor version may have registers there (VER-8). */
	skip_unless(dev.minor <= MOOR_HW_VERSION_MINOR);
	host_reset();
	for (offset = 0; offset < MOOR_MSIX_TABLE_OFFSET; offset += 4) {
		if (is_listed(offset) || (offset > 0x400 && offset % 0x1fc))
			continue;
		reg_write(offset, 0x5a5a5a5a);
		if (!expect(!reg_read(offset), "0x%x reads as 0x%x", offset,
			    reg_read(offset)))
			return;
	}
	expect(!reg_read(MOOR_REG_CMD_BASE) && !reg_read(MOOR_REG_CONTROL),
	       "a neighbour has changed");
}

TEST_CASE(halves, "an eight-byte register is two halves", "REG-1", 0)
{
	static const uint32_t wide[] = { MOOR_REG_CMD_BASE, MOOR_REG_CPL_BASE,
					 MOOR_REG_DOZE_ADDR };
	unsigned int i;

	host_reset();
	for (i = 0; i < 3; i++) {
		about("0x%x", wide[i]);
		reg_write64(wide[i], 0x123456789000);
		expect(reg_read64(wide[i]) == 0x123456789000 &&
		       reg_read(wide[i]) == 0x56789000 &&
		       reg_read(wide[i] + 4) == 0x1234, "written whole");
		reg_write(wide[i], 0x9abcd000);
		expect(reg_read64(wide[i]) == 0x12349abcd000, "the lower half");
		reg_write(wide[i] + 4, 0x4321);
		expect(reg_read64(wide[i]) == 0x43219abcd000, "the upper half");
	}
	about(NULL);
	expect((uint32_t)reg_read64(MOOR_REG_NODE_GUID) ==
	       reg_read(MOOR_REG_NODE_GUID) &&
	       reg_read64(MOOR_REG_NODE_GUID) >> 32 ==
	       reg_read(MOOR_REG_NODE_GUID + 4), "NODE_GUID in halves differs");
}

/* Least and greatest value. */
static const struct {
	uint32_t offset;
	uint64_t least, most;
} ranges[] = {
	{ MOOR_REG_MR_INDEX_BITS, 12, 20 },
	{ MOOR_REG_MAX_MSG_SIZE, 1u << 12, 1u << 31 },
	{ MOOR_REG_QP_INDEX_BITS, 2, 24 },
	{ MOOR_REG_MAX_CQ, 1, 1u << 24 },
	{ MOOR_REG_MAX_EQ, 3, 120 },
	{ MOOR_REG_MAX_LOG_WQE, 0, 24 },
	{ MOOR_REG_MAX_SGE, 1, 27 },
	{ MOOR_REG_MAX_INLINE, 0, 480 },
	{ MOOR_REG_MAX_LOG_CQE, 1, 24 },
	{ MOOR_REG_MAX_GID, 1, 255 },
	{ MOOR_REG_MAX_RD_ATOMIC, 1, 255 },
	{ MOOR_REG_MAX_LOG_CMD, 1, 16 },
	{ MOOR_REG_MAX_LOG_EQE, 7, 24 },
	{ MOOR_REG_NUM_VECTORS, 3, 1024 },
	{ MOOR_REG_DB_PAGES, 2, 1u << 19 },
	{ MOOR_REG_STATUS, MOOR_STATUS_READY, 0xf },
	{ MOOR_REG_FENCE, 0, 0 },
};

TEST_CASE(capacities, "capacities are in their ranges", "REG-4 REG-6 REG-9 KEY-1", 0)
{
	uint64_t mac = reg_read64(MOOR_REG_MAC);
	unsigned int i;

	expect(dev.consumer_first > MOOR_MR_INDEX_FIRST &&
	       dev.consumer_first <= dev.num_keys, "MR_CONSUMER_FIRST is %u",
	       dev.consumer_first);
	expect(dev.null_lkey >> dev.nonce_bits == MOOR_MR_INDEX_NULL,
	       "NULL_LKEY is 0x%x", dev.null_lkey);
	expect(dev.page_sizes & MOOR_BIT(12) &&
	       !(dev.page_sizes & MOOR_MASK(11, 0)), "PAGE_SIZES is 0x%llx",
	       (unsigned long long)dev.page_sizes);
	expect(reg_read64(MOOR_REG_NODE_GUID), "NODE_GUID is 0");
	expect(mac && !(mac & 1) && !(mac >> 48), "MAC is 0x%llx",
	       (unsigned long long)mac);
	for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		expect(reg_read(ranges[i].offset) >= ranges[i].least &&
		       reg_read(ranges[i].offset) <= ranges[i].most,
		       "register 0x%x is %u", ranges[i].offset,
		       reg_read(ranges[i].offset));
	expect(dev.max_mr_size >= 1u << 12 && dev.max_mr_size <= 1ull << 63,
	       "MAX_MR_SIZE is 0x%llx", (unsigned long long)dev.max_mr_size);
	expect(!(dev.kick_offset % PAGE) && !(dev.dm_size % PAGE),
	       "KICK_OFFSET or DM_SIZE is not whole pages");
	expect(!(dev.features & MOOR_FEATURE_DM) == !dev.dm_size,
	       "DM_SIZE is 0x%llx", (unsigned long long)dev.dm_size);
	expect(dev.features & MOOR_FEATURE_SRQ ?
	       dev.srq_index_bits >= 2 && dev.srq_index_bits <= 24 :
	       !dev.srq_index_bits, "SRQ_INDEX_BITS is %u", dev.srq_index_bits);
	expect(!(dev.features & MOOR_FEATURE_XRC) ||
	       dev.features & MOOR_FEATURE_SRQ, "XRC without SRQ");
	expect(dev.features & MOOR_FEATURE_UD ?
	       dev.max_filter && dev.max_filter <= 1u << 24 : !dev.max_filter,
	       "MAX_FILTER is %u", dev.max_filter);
}

/* What two clocks, one of which is the host's, may differ by in @ns (REG-10). */
static uint64_t tolerance(uint64_t ns)
{
	return ns / 1000 + 1000;
}

/* Has CLOCK counted what @least to @most ns of the host's are? */
static void expect_clock(uint64_t nic, uint64_t least, uint64_t most, const char *what)
{
	expect(nic + tolerance(least) >= least && nic <= most + tolerance(most),
	       "%s: %llu ns of its own in %llu to %llu", what, (unsigned long long)nic,
	       (unsigned long long)least, (unsigned long long)most);
}

TEST_CASE(clock_runs, "CLOCK counts nanoseconds since the last reset", "REG-4 REG-7", 0)
{
	uint64_t before = now_ns(), nic = reg_read64(MOOR_REG_CLOCK), after = now_ns(), late;
	unsigned int i;

	while (now_ns() - before < 20000000)
		breathe();
	late = now_ns();
	nic = reg_read64(MOOR_REG_CLOCK) - nic;
	expect_clock(nic, late - after, now_ns() - before, "running");
	before = now_ns();
	host_reset();
	after = now_ns();
	while (now_ns() - after < 2000000)
		breathe();
	/* It begins anew at some moment between the write and READY. */
	late = now_ns();
	nic = reg_read64(MOOR_REG_CLOCK);
	expect_clock(nic, late - after, now_ns() - before, "after a reset");
	for (i = 0; i < 1000; i++) {
		late = reg_read64(MOOR_REG_CLOCK);
		if (!expect(late >= nic, "it goes backwards"))
			break;
		nic = late;
	}
}

/* ---- features ---- */

static uint8_t wqe_status(uint8_t opcode)
{
	struct pair p;

	drop_events(MOOR_EQ_ASYNC);
	host_begin();
	make_pair(&p);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = opcode, .remote = p.buf[1], .rkey = p.key[1],
		.num_sge = opcode <= MOOR_WQE_FETCH_ADD ||
			   opcode == MOOR_WQE_ATOMIC_WRITE,
		.sge = { { .addr = p.buf[0], .length = 8, .lkey = p.key[0] } },
	});
	return wait_cqe(&p.cq[0]).status;
}

static uint8_t command_status(uint8_t opcode)
{
	struct moor_cmd_hdr cmd = { .opcode = opcode };

	return command(&cmd, sizeof(cmd));
}

TEST_CASE(features, "what FEATURES does not announce is refused as unknown",
	  "FEAT-1 FEAT-2 FEAT-3 CMD-9 RC-5 RSV-2", 0)
{
	const uint64_t f = dev.features;
	/* Numbers that mean nothing yet may be those of a later version (VER-8). */
	const bool later = dev.minor > MOOR_HW_VERSION_MINOR;
	bool windows = f & (MOOR_FEATURE_MW_TYPE_1 | MOOR_FEATURE_MW_TYPE_2B);
	bool invalidate = f & (MOOR_FEATURE_MW_TYPE_2B | MOOR_FEATURE_FAST_REG);
	bool flush = f & (MOOR_FEATURE_FLUSH_GLOBAL |
			  MOOR_FEATURE_FLUSH_PERSISTENT);
	const struct {
		bool offered;
		uint8_t opcode;
	} commands[] = {
		{ later, 0x7f }, { later, 0x24 }, { later, 0xff },
		{ f & MOOR_FEATURE_ODP, MOOR_CMD_MR_INVALIDATE },
		{ f & MOOR_FEATURE_ODP, MOOR_CMD_PAGE_RESPONSE },
		{ f & MOOR_FEATURE_SRQ, MOOR_CMD_CREATE_SRQ },
		{ f & MOOR_FEATURE_SRQ, MOOR_CMD_MODIFY_SRQ },
		{ f & MOOR_FEATURE_SRQ, MOOR_CMD_QUERY_SRQ },
		{ f & MOOR_FEATURE_SRQ, MOOR_CMD_DESTROY_SRQ },
		{ f & MOOR_FEATURE_UD, MOOR_CMD_ATTACH_FILTER },
		{ f & MOOR_FEATURE_UD, MOOR_CMD_DETACH_FILTER },
		{ windows, MOOR_CMD_MR_WINDOWS },
	}, wqes[] = {
		{ later, 0x0d }, { later, 0x7f }, { later, 0x80 },
		{ later, 0x81 }, { later, 0xff },
		{ f & MOOR_FEATURE_ATOMICS, MOOR_WQE_CMP_SWAP },
		{ f & MOOR_FEATURE_ATOMICS, MOOR_WQE_FETCH_ADD },
		{ windows, MOOR_WQE_BIND_MW },
		{ invalidate, MOOR_WQE_LOCAL_INV },
		{ invalidate, MOOR_WQE_SEND_INV },
		{ f & MOOR_FEATURE_FAST_REG, MOOR_WQE_REG_MR },
		{ f & MOOR_FEATURE_ATOMIC_WRITE, MOOR_WQE_ATOMIC_WRITE },
		{ flush, MOOR_WQE_FLUSH },
	}, types[] = {
		{ f & MOOR_FEATURE_FAST_REG, MOOR_MRC_TYPE_FAST_REG },
		{ f & MOOR_FEATURE_MW_TYPE_1, MOOR_MRC_TYPE_MW_1 },
		{ f & MOOR_FEATURE_MW_TYPE_2B, MOOR_MRC_TYPE_MW_2 },
		{ later, 6 }, { later, 0xff },
	};
	struct moor_mr_context entry = { .pd = PD };
	struct moor_cpl_mr_query out;
	unsigned int i;

	expect(command_status(MOOR_CMD_NOP) == MOOR_CMD_OK, "not even a NOP");
	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!commands[i].offered)
			expect(command_status(commands[i].opcode) ==
			       MOOR_CMD_BAD_OPCODE, "command 0x%02x is known",
			       commands[i].opcode);
	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!types[i].offered && dev.consumer_first < dev.num_keys) {
			uint32_t key = take_consumer_key();

			entry.max_pages = types[i].opcode ==
					  MOOR_MRC_TYPE_FAST_REG;
			write_entry(key, &entry, types[i].opcode);
			expect(query(key, &out) == MOOR_CMD_BAD_INDEX,
			       "entries of type %u are known", types[i].opcode);
		}
	for (i = 0; i < sizeof(wqes) / sizeof(wqes[0]); i++)
		if (!wqes[i].offered) {
			uint8_t status = wqe_status(wqes[i].opcode);

			expect(status == MOOR_WC_LOC_QP_OP_ERR,
			       "opcode 0x%02x: status %u", wqes[i].opcode, status);
		}
}

TEST_CASE(qp_features, "of a QP, what FEATURES does not announce is refused",
	  "FEAT-1 FEAT-2 FEAT-3 QP-11", 0)
{
	const bool later = dev.minor > MOOR_HW_VERSION_MINOR;
	static const struct {
		uint64_t feature;
		uint8_t type;
	} types[] = {
		{ MOOR_FEATURE_UC, MOOR_QP_UC }, { MOOR_FEATURE_UD, MOOR_QP_UD },
		{ MOOR_FEATURE_XRC, MOOR_QP_XRC_INI },
		{ MOOR_FEATURE_XRC, MOOR_QP_XRC_TGT }, { 0, 5 }, { 0, 0xff },
	};
	struct moor_cmd_create_qp cmd;
	struct moor_cmd_modify_qp change;
	struct cq cq;
	struct qp qp;
	unsigned int i;

	make_cq(&cq, 0, 4);
	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		cmd = qp_command(&qp, &cq, &cq);
		cmd.type = types[i].type;
		if (!(dev.features & types[i].feature) && (types[i].feature || !later))
			refused(cmd, MOOR_CMD_BAD_PARAM, type, "type %u", cmd.type);
	}
	make_qp(&qp, &cq, &cq);
	for (i = 14; i < 32; i++) {
		if (i < 16 ? dev.features & MOOR_FEATURE_UD : later)
			continue;
		change = (struct moor_cmd_modify_qp){ .mask = 1u << i };
		about("attribute %u", i);
		expect(modify(&qp, change) == MOOR_CMD_BAD_PARAM, "it is known");
	}
}

TEST_CASE(no_shared_queues, "without SRQs there is no QP with one", "FEAT-3 QP-19 CMD-28", 0)
{
	struct moor_cmd_create_qp cmd;
	struct cq cq;
	struct qp qp;

	skip_unless(!(dev.features & MOOR_FEATURE_SRQ));
	make_cq(&cq, 0, 4);
	cmd = qp_command(&qp, &cq, &cq);
	cmd.flags = MOOR_QP_FLAG_SRQ;
	refused(cmd, MOOR_CMD_BAD_PARAM, flags, "flag SRQ");
	cmd.srqn = 1;
	refused(cmd, MOOR_CMD_BAD_RESERVED, srqn, "flag SRQ, and an SRQ");
}

TEST_CASE(idle_rights, "a right whose feature is absent is no mistake, and asks for no other",
	  "FEAT-4", 0)
{
	struct pair p;
	uint32_t key;

	make_pair(&p);
	key = make_mr(PD, ALL_RIGHTS | ALL_FLUSH | MOOR_ACCESS_RELAXED_ORDERING,
		      p.buf[1], BUF);
	expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], 64, true);
	expect_remote(&p, MOOR_WQE_READ, key, p.buf[1], 64, true);
}

TEST_CASE(idle_window_rights, "nor does it ask for any of the MR behind a window",
	  "FEAT-4 MW-11 MW-19", HAS(MW_TYPE_1) | HAS(MW_TYPE_2B))
{
	static const struct {
		uint64_t feature;
		uint32_t right;
	} rights[] = {
		{ MOOR_FEATURE_ATOMICS, MOOR_ACCESS_REMOTE_ATOMIC },
		{ MOOR_FEATURE_FLUSH_PERSISTENT, MOOR_ACCESS_FLUSH_PERSISTENT },
	};
	struct pair p;
	unsigned int i;
	uint32_t key;
	bool asks;

	make_pair(&p);
	for (i = 0; i < 2; i++) {
		asks = dev.features & rights[i].feature;
		about("a window with right 0x%x", rights[i].right);
		key = make_window(PD, dev.features & MOOR_FEATURE_MW_TYPE_1 ?
				      MOOR_MRC_TYPE_MW_1 : MOOR_MRC_TYPE_MW_2);
		post_send(&p.qp[1], (struct send_wr){
			.opcode = MOOR_WQE_BIND_MW, .wr_id = 9, .bind = {
				.mw_key = key, .new_key = key,
				.mr_lkey = make_mr(PD, MOOR_ACCESS_MW_BIND,
						   p.buf[1], BUF),
				.access = rights[i].right, .addr = p.buf[1],
				.length = 64,
			},
		});
		expect_cqe(&p.cq[1], 9, asks ? MOOR_WC_MW_BIND_ERR : MOOR_WC_SUCCESS,
			   asks ? MOOR_SYN_RIGHTS : 0);
		reconnect(&p);
	}
}

TEST_CASE(no_paging, "without the feature an entry on demand is none",
	  "RSV-2 MR-14 FEAT-4", 0)
{
	struct moor_mr_context e = mr_entry(PD, MOOR_ACCESS_LOCAL_WRITE, 0, PAGE);
	struct moor_cpl_mr_query out;

	skip_unless(!(dev.features & MOOR_FEATURE_ODP));
	e.xlat = (struct moor_xlat){
		.root = take(PAGE) | MOOR_PTE_PRESENT, .levels = 1, .page_shift = 12,
	};
	expect(!query(make_entry(&e, MOOR_MRC_TYPE_MR), &out), "with a table alone it is none");
	e.access |= MOOR_ACCESS_ON_DEMAND;
	expect(query(make_entry(&e, MOOR_MRC_TYPE_MR), &out) == MOOR_CMD_BAD_INDEX, "it is known");
}
