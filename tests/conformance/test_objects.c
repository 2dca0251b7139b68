// SPDX-License-Identifier: GPL-2.0
/* Commands that create and destroy queues; the GID table (HWI 8.4). */
#include <string.h>

#include "traffic.h"

TEST_CASE(eq, "CREATE_EQ and DESTROY_EQ: ranges, and what is in use",
	  "EQ-1 EQ-2 EV-4 CMD-11 CMD-12 CMD-14 CMD-17 CMD-18 CMD-30", 0)
{
	struct moor_cmd_create_eq good = {
		.hdr.opcode = MOOR_CMD_CREATE_EQ, .eqn = dev.max_eq - 1,
		.log_eqe = LOG_EQE, .base = take(PAGE),
	}, cmd;
	struct moor_cmd_destroy_eq destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_EQ, .eqn = MOOR_EQ_COMPLETION,
	};
	struct cq cq;

	if (dev.max_eq == MOOR_EQ_COMPLETION + 1)
		good.eqn = 1;
#define BAD(status, field, value)					\
	do {								\
		cmd = good;						\
		cmd.field = value;					\
		refused(cmd, status, field, #field " = " #value);	\
	} while (0)
	BAD(MOOR_CMD_BAD_PARAM, vector, (uint16_t)dev.num_vectors);
	BAD(MOOR_CMD_BAD_PARAM, vector, 0xffff);
	BAD(MOOR_CMD_BAD_PARAM, log_eqe, (uint8_t)(dev.max_log_eqe + 1));
	BAD(MOOR_CMD_BAD_PARAM, log_eqe, 0xff);
	BAD(MOOR_CMD_BAD_PARAM, base, good.base + 32);
	BAD(MOOR_CMD_BAD_INDEX, eqn, dev.max_eq);
	BAD(MOOR_CMD_BAD_INDEX, eqn, ~0u);
	BAD(MOOR_CMD_BAD_INDEX, eqn, MOOR_EQ_ASYNC);
#undef BAD
	must(good);
	refused(good, MOOR_CMD_BAD_INDEX, eqn, "twice");
	make_cq(&cq, 0, 4);
	refused(destroy, MOOR_CMD_BUSY, eqn, "in use");
	destroy.eqn = good.eqn;
	must(destroy);
	refused(destroy, MOOR_CMD_BAD_INDEX, eqn, "gone");
	destroy.eqn = ~0u;
	refused(destroy, MOOR_CMD_BAD_INDEX, eqn, "beyond");
	must(good);
	about("one entry, and as many as there can be");
	destroy.eqn = good.eqn;
	must(destroy);
	good.log_eqe = 0;
	must(good);
	must(destroy);
	good.log_eqe = (uint8_t)(dev.max_log_eqe < 16 ? dev.max_log_eqe : 16);
	good.base = take(sizeof(struct moor_eqe) << good.log_eqe);
	must(good);
}

TEST_CASE(eq_gone, "no event is written to an EQ that is destroyed, none that was kept back",
	  "EQ-2 EV-18", 0)
{
	struct moor_cmd_destroy_eq destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_EQ, .eqn = MOOR_EQ_ASYNC,
	};
	uint64_t base, end;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	must(destroy);
	/* Of two entries, and events of both QPs in turns, so that none is merged. */
	make_eq(MOOR_EQ_ASYNC, 1, eq_vector(MOOR_EQ_ASYNC));
	base = next_event_place(MOOR_EQ_ASYNC);
	for (i = 0; i < 4; i++) {
		unsigned int from = i & 1;

		post_send(&p.qp[from], (struct send_wr){
			.opcode = MOOR_WQE_WRITE, .remote = p.buf[!from],
			.rkey = p.key[!from] ^ 1, SGE(p.buf[from], 8, p.key[from]),
		});
		expect_cqe(&p.cq[from], 0, MOOR_WC_REM_ACCESS_ERR, 0);
		reset_qp(&p.qp[0]);
		reset_qp(&p.qp[1]);
		connect_qp(&p.qp[0], p.qp[1].qpn);
		connect_qp(&p.qp[1], p.qp[0].qpn);
	}
	settle();
	must(destroy);
	memset(at(base), 0x99, PAGE);
	/* Room for two more, if anybody still looks at the slot (DB-22). */
	store_slot(MOOR_DB_SLOT_EQ_CONSUMER + MOOR_EQ_ASYNC, 2);
	end = now_ns() + 150000000;
	while (now_ns() < end)
		breathe();
	expect(is_all(base, PAGE, 0x99), "something is written");
	make_eq(MOOR_EQ_ASYNC, LOG_EQE, eq_vector(MOOR_EQ_ASYNC));
	expect_no_event(MOOR_EQ_ASYNC);
	expect(is_all(base, PAGE, 0x99), "something is written");
}

/* A table of @pages, or one, of which the last is absent. */
static struct moor_xlat short_of_one_page(unsigned int pages)
{
	uint64_t table = take(PAGE), memory = take((pages + 1) * PAGE);
	unsigned int i;

	for (i = 0; i + 1 < pages; i++)
		((uint64_t *)at(table))[i] = (memory + i * PAGE) |
			MOOR_PTE_PRESENT | MOOR_PTE_LEAF | MOOR_PTE_WRITABLE;
	return (struct moor_xlat){
		.root = table | MOOR_PTE_PRESENT, .levels = 1, .page_shift = 12,
	};
}

TEST_CASE(cq, "CREATE_CQ and DESTROY_CQ: ranges, and what is in use",
	  "CQ-1 CQ-2 CMD-11 CMD-12 CMD-14 CMD-16 CMD-17 CMD-18 CMD-30 WQ-2 XLT-7 RSV-2",
	  0)
{
	struct moor_cmd_destroy_cq destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_CQ,
	};
	const unsigned int log_size = dev.max_log_cqe < 9 ? dev.max_log_cqe : 9;
	struct moor_cmd_create_cq good, cmd;
	struct cq cq, last;
	struct qp qp;

	good = cq_command(&last, dev.max_cq - 1, log_size);
#define BAD(status, at_, field, value)					\
	do {								\
		cmd = good;						\
		cmd.field = value;					\
		refused(cmd, status, at_, #field " = " #value);		\
	} while (0)
	BAD(MOOR_CMD_BAD_INDEX, cqn, cqn, dev.max_cq);
	BAD(MOOR_CMD_BAD_INDEX, cqn, cqn, ~0u);
	BAD(MOOR_CMD_BAD_INDEX, eqn, eqn, MOOR_EQ_ASYNC);
	BAD(MOOR_CMD_BAD_INDEX, eqn, eqn, dev.max_eq);
	BAD(MOOR_CMD_BAD_INDEX, eqn, eqn, ~0u);
	BAD(MOOR_CMD_BAD_PARAM, log_cqe, log_cqe, (uint8_t)(dev.max_log_cqe + 1));
	BAD(MOOR_CMD_BAD_PARAM, log_cqe, log_cqe, 0xff);
	BAD(MOOR_CMD_BAD_PARAM, ring, ring.offset, 32);
	BAD(MOOR_CMD_BAD_PARAM, ring, ring.offset, 1);
	BAD(MOOR_CMD_BAD_PARAM, ring, ring.levels, 6);
	BAD(MOOR_CMD_BAD_PARAM, ring, ring.page_shift, 11);
	BAD(MOOR_CMD_BAD_PARAM, ring, ring.memory, 3);
	BAD(MOOR_CMD_BAD_PARAM, ring, ring.memory, MOOR_MEMORY_NIC);
	BAD(MOOR_CMD_BAD_PARAM, ring, ring.memory, MOOR_MEMORY_GATHER);
	BAD(MOOR_CMD_BAD_PARAM, ring, ring.entries, 1);
	BAD(MOOR_CMD_BAD_RESERVED, ring.reserved1, ring.reserved1, 1);
	BAD(MOOR_CMD_DMA_FAULT, ring, ring.root, 0);
	BAD(MOOR_CMD_DMA_FAULT, ring, ring.root,
	    good.ring.root & ~MOOR_PTE_WRITABLE);
	BAD(MOOR_CMD_DMA_FAULT, ring, ring,
	    short_of_one_page((unsigned int)((64u << log_size) / PAGE)));
#undef BAD
	cmd = good;
	cmd.ring.offset = ~0ull << 6;
	refused(cmd, MOOR_CMD_DMA_FAULT, ring, "an offset that wraps");
	must(good);
	refused(good, MOOR_CMD_BAD_INDEX, cqn, "twice");
	at_least(max_cq, 2);
	make_cq(&cq, 0, 4);
	make_qp(&qp, &last, &cq);
	destroy.cqn = last.cqn;
	refused(destroy, MOOR_CMD_BUSY, cqn, "in use by a send queue");
	destroy.cqn = cq.cqn;
	refused(destroy, MOOR_CMD_BUSY, cqn, "in use by a receive queue");
	destroy_qp(&qp);
	must(destroy);
	refused(destroy, MOOR_CMD_BAD_INDEX, cqn, "gone");
	destroy.cqn = ~0u;
	refused(destroy, MOOR_CMD_BAD_INDEX, cqn, "beyond");
	make_cq(&cq, 0, 0);
	make_qp(&qp, &cq, &cq);
	connect_qp(&qp, qp.qpn);
	for (unsigned int i = 0; i < 5; i++) {
		post_send(&qp, (struct send_wr){ .opcode = MOOR_WQE_WRITE, .wr_id = i });
		expect_cqe(&cq, i, MOOR_WC_SUCCESS, 0);
	}
}

TEST_CASE(qp, "CREATE_QP: ranges and contradictions",
	  "QP-1 CMD-11 CMD-12 CMD-16 CMD-17 CMD-18 CMD-27 CMD-30 WQ-2 WQ-6 WQ-10",
	  0)
{
	struct moor_cmd_destroy_qp destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_QP,
	};
	struct moor_cmd_create_qp good, cmd;
	struct qp qp, same_index;
	struct cq cq;

	make_cq(&cq, 0, 4);
	good = qp_command(&qp, &cq, &cq);
#define BAD(status, at_, field, value)					\
	do {								\
		cmd = good;						\
		cmd.field = value;					\
		refused(cmd, status, at_, #field " = " #value);		\
	} while (0)
	BAD(MOOR_CMD_BAD_PARAM, qpn, qpn, 1u << 24 | good.qpn);
	BAD(MOOR_CMD_BAD_PARAM, pd, pd, 1u << 24);
	BAD(MOOR_CMD_BAD_INDEX, send_cqn, send_cqn, dev.max_cq - 1 ? 1 : dev.max_cq);
	BAD(MOOR_CMD_BAD_INDEX, send_cqn, send_cqn, ~0u);
	BAD(MOOR_CMD_BAD_INDEX, recv_cqn, recv_cqn, dev.max_cq);
	BAD(MOOR_CMD_BAD_PARAM, type, type, 0xff);
	BAD(MOOR_CMD_BAD_PARAM, log_sq_depth, log_sq_depth,
	    (uint8_t)(dev.max_log_wqe + 1));
	BAD(MOOR_CMD_BAD_PARAM, log_rq_depth, log_rq_depth, 0xff);
	BAD(MOOR_CMD_BAD_PARAM, log_sq_stride, log_sq_stride,
	    MOOR_MIN_LOG_SQ_STRIDE - 1);
	BAD(MOOR_CMD_BAD_PARAM, log_sq_stride, log_sq_stride,
	    MOOR_MAX_LOG_STRIDE + 1);
	BAD(MOOR_CMD_BAD_PARAM, log_rq_stride, log_rq_stride,
	    MOOR_MIN_LOG_RQ_STRIDE - 1);
	BAD(MOOR_CMD_BAD_PARAM, log_rq_stride, log_rq_stride,
	    MOOR_MAX_LOG_STRIDE + 1);
	BAD(MOOR_CMD_BAD_PARAM, sq, sq.offset, 1u << (LOG_STRIDE - 1));
	BAD(MOOR_CMD_BAD_PARAM, rq, rq.offset, 16);
	BAD(MOOR_CMD_BAD_PARAM, sq, sq.levels, 6);
	BAD(MOOR_CMD_BAD_PARAM, sq_doorbell, sq_doorbell, 1);
	BAD(MOOR_CMD_BAD_PARAM, rq_doorbell, rq_doorbell, ~0u);
	BAD(MOOR_CMD_BAD_PARAM, sq, sq.memory, MOOR_MEMORY_NIC);
	BAD(MOOR_CMD_BAD_PARAM, sq, sq.memory, MOOR_MEMORY_GATHER);
	BAD(MOOR_CMD_BAD_PARAM, sq, sq.entries, 1u << 31);
	BAD(MOOR_CMD_BAD_PARAM, rq, rq.memory, MOOR_MEMORY_GATHER);
	BAD(MOOR_CMD_BAD_PARAM, rq, rq.entries, 1);
	BAD(MOOR_CMD_BAD_PARAM, flags, flags, 0x80);
	BAD(MOOR_CMD_BAD_PARAM, flags, flags, 0x04);
	BAD(MOOR_CMD_BAD_PARAM, no_rq, no_rq, 2);
	BAD(MOOR_CMD_BAD_PARAM, no_sq, no_sq, 0xff);
	BAD(MOOR_CMD_DMA_FAULT, sq, sq,
	    short_of_one_page((unsigned int)((1u << (LOG_DEPTH + LOG_STRIDE)) / PAGE)));
	BAD(MOOR_CMD_DMA_FAULT, rq, rq.root, 0);
#undef BAD
	must(good);
	refused(good, MOOR_CMD_BAD_INDEX, qpn, "twice");
	cmd = qp_command(&same_index, &cq, &cq);
	cmd.qpn = good.qpn ^ 1u << dev.qp_index_bits;
	if (dev.qp_index_bits < 24)
		refused(cmd, MOOR_CMD_BAD_INDEX, qpn, "another number, its index");
	destroy.qpn = cmd.qpn;
	refused(destroy, MOOR_CMD_BAD_INDEX, qpn, "destroyed by that number");
	destroy.qpn = good.qpn | 1u << 24;
	refused(destroy, MOOR_CMD_BAD_INDEX, qpn, "destroyed by one of 25 bits");
	expect(query_qp(&qp).state == MOOR_QPS_RESET, "it is not in RESET");
	destroy_qp(&qp);
	destroy.qpn = qp.qpn;
	refused(destroy, MOOR_CMD_BAD_INDEX, qpn, "gone");
	must(cmd);
}

TEST_CASE(half_qp, "a QP without a send queue, one without a receive queue",
	  "QP-1 QP-5 RC-10", 0)
{
	struct moor_cmd_destroy_cq destroy = {
		.hdr.opcode = MOOR_CMD_DESTROY_CQ, .cqn = 1,
	};
	struct moor_cmd_create_qp cmd;
	struct qp sender, receiver, odd;
	uint64_t buf = take_filled(PAGE, 1);
	struct cq cq, unused;
	uint32_t key;

	make_cq(&cq, 0, 4);
	make_cq(&unused, 1, 4);
	key = make_mr(PD, ALL_RIGHTS, buf, PAGE);
	cmd = qp_command(&sender, &cq, &unused);
	cmd.no_rq = 1;
	cmd.log_rq_stride = 0;
	cmd.log_rq_depth = cmd.log_rq_stride;
	cmd.rq_doorbell = 0;
	memset(&cmd.rq, 0, sizeof(cmd.rq));
	must(cmd);
	cmd = qp_command(&receiver, &cq, &cq);
	cmd.no_sq = 1;
	cmd.log_sq_stride = 0;
	cmd.log_sq_depth = cmd.log_sq_stride;
	cmd.sq_doorbell = 0;
	memset(&cmd.sq, 0, sizeof(cmd.sq));
	must(cmd);
	connect_qp(&sender, receiver.qpn);
	connect_qp(&receiver, sender.qpn);
	post_recv(&receiver, 2, buf + 2048, 64, key);
	post_send(&sender, (struct send_wr){
		.opcode = MOOR_WQE_SEND, .wr_id = 1, SGE(buf, 64, key),
	});
	expect(wait_cqe(&cq).status == 0 && wait_cqe(&cq).status == 0,
	       "a message");
	expect(same(buf, buf + 2048, 64), "its data");

	refused(destroy, MOOR_CMD_BUSY, cqn, "the CQ of a side that is not there");
	about("a SEND to who has no receive queue");
	must_modify(&sender, to_state(MOOR_QPS_RESET));
	sender.sq_producer = 0;
	make_qp(&odd, &cq, &cq);
	connect_qp(&odd, sender.qpn);
	connect_qp(&sender, odd.qpn);
	post_send(&odd, (struct send_wr){ .opcode = MOOR_WQE_SEND, .wr_id = 4 });
	expect_cqe(&cq, 4, MOOR_WC_RNR_RETRY_EXC_ERR, 0);
}

TEST_CASE(half_fields, "the fields of a side that is not there are zero", "QP-6 CMD-11", 0)
{
	struct moor_cmd_create_qp cmd;
	struct qp odd;
	struct cq cq;

	make_cq(&cq, 0, 4);
#define BAD(side, at_, field, value)					\
	do {								\
		cmd = qp_command(&odd, &cq, &cq);			\
		cmd.no_##side = 1;					\
		cmd.log_##side##_depth = 0;				\
		cmd.log_##side##_stride = 0;				\
		cmd.side##_doorbell = 0;				\
		memset(&cmd.side, 0, sizeof(cmd.side));			\
		cmd.field = value;					\
		refused(cmd, MOOR_CMD_BAD_PARAM, at_, #field);		\
	} while (0)
	BAD(rq, log_rq_depth, log_rq_depth, 1);
	BAD(rq, log_rq_stride, log_rq_stride, 5);
	BAD(rq, rq_doorbell, rq_doorbell, 600);
	BAD(rq, rq, rq.root, 1);
	BAD(sq, log_sq_depth, log_sq_depth, 1);
	BAD(sq, sq_doorbell, sq_doorbell, 600);
	BAD(sq, sq, sq.offset, 512);
#undef BAD
}

/* A device may run out of room before it runs out of numbers (CMD-15). */
static bool has_room(uint8_t status, const char *what, unsigned int number)
{
	expect(!status || (status == MOOR_CMD_NO_RESOURCE && number), "%s %u: status %u",
	       what, number, status);
	return !status;
}

TEST_CASE(capacity, "CQs of every number, and as many QPs as there is room for",
	  "REG-4 CMD-15 CMD-45", 0)
{
	const uint32_t some = 64;
	uint32_t n = dev.max_cq < some ? dev.max_cq : some, i;
	const unsigned int log_cqe = dev.max_log_cqe < 2 ? dev.max_log_cqe : 2;
	struct moor_cmd_create_cq cq_cmd;
	struct moor_cmd_create_qp qp_cmd;
	struct cq cq[64];
	struct qp qp[64];

	/* Numbers from both ends. */
	for (i = 0; i < n; i++) {
		cq_cmd = cq_command(&cq[i], i & 1 ? dev.max_cq - 1 - i / 2 : i / 2, log_cqe);
		if (!has_room(do_command(cq_cmd), "CQ", i))
			break;
	}
	n = 1u << dev.qp_index_bits < some ? 1u << dev.qp_index_bits : some;
	for (i = 0; i < n; i++) {
		qp_cmd = qp_command(&qp[i], &cq[0], &cq[0]);
		if (!has_room(do_command(qp_cmd), "QP", i))
			break;
	}
	/* Room is needed for making them alone. */
	for (n = i, i = 0; i < n; i++)
		if (!expect(query_qp(&qp[i]).state == MOOR_QPS_RESET &&
			    !modify(&qp[i], to_init()) && !modify(&qp[i], to_state(MOOR_QPS_ERR)) &&
			    query_qp(&qp[i]).state == MOOR_QPS_ERR, "QP %u", i))
			break;
}

TEST_CASE(gid, "SET_GID: entries of the table",
	  "GID-1 CMD-11 CMD-12 CMD-29 CMD-30 RC-19 RC-33", 0)
{
	struct moor_cmd_set_gid good = {
		.hdr.opcode = MOOR_CMD_SET_GID, .index = 0,
		.type = MOOR_GID_ROCE_V2, .vlan = MOOR_GID_NO_VLAN,
		.smac = { 2, 0, 0, 0, 0, 1 }, .gid = { 0xfe, 0x80, [15] = 9 },
	}, cmd;
	struct moor_cmd_modify_qp rtr;
	struct pair p;

	cmd = good;
	cmd.index = (uint16_t)dev.max_gid;
	refused(cmd, MOOR_CMD_BAD_INDEX, index, "an index beyond");
	cmd.index = 0xffff;
	refused(cmd, MOOR_CMD_BAD_INDEX, index, "the last index");
	cmd = good;
	cmd.type = 3;
	refused(cmd, MOOR_CMD_BAD_PARAM, type, "type 3");
	cmd = good;
	cmd.vlan = 0xfff;
	refused(cmd, MOOR_CMD_BAD_PARAM, vlan, "VLAN 0xfff");
	cmd.vlan = 0xfffe;
	refused(cmd, MOOR_CMD_BAD_PARAM, vlan, "VLAN 0xfffe");
	cmd.vlan = 0xffe;
	must(cmd);
	cmd.type = MOOR_GID_NONE;
	cmd.vlan = 0x8000;
	must(cmd);
	cmd = good;
	cmd.gid[15] = 1;
	must(cmd);
	at_least(max_gid, 2);
	cmd = good;
	cmd.index = (uint16_t)(dev.max_gid - 1);
	must(cmd);
	cmd.type = MOOR_GID_ROCE_V1;
	must(cmd);
	cmd.type = MOOR_GID_ROCE_V2;
	must(cmd);

	/* A connection from the last entry to itself. */
	make_pair(&p);
	reset_qp(&p.qp[0]);
	reset_qp(&p.qp[1]);
	for (unsigned int i = 0; i < 2; i++) {
		must_modify(&p.qp[i], to_init());
		rtr = to_rtr(p.qp[!i].qpn);
		rtr.sgid_index = (uint8_t)cmd.index;
		rtr.dgid[15] = 9;
		must_modify(&p.qp[i], rtr);
		must_modify(&p.qp[i], to_rts());
	}
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 64, true);
}

/* Bytes of a queue or ring; its offset, so that it ends with the third page of a table. */
static uint64_t till_third_page(uint64_t size)
{
	return 3 * PAGE - (size < PAGE ? PAGE : size);
}

TEST_CASE(broken_table, "a table with an entry that is absent or malformed is found out",
	  "CMD-41 CMD-16", 0)
{
	static const uint64_t entries[] = {
		0, MOOR_PTE_PRESENT, MOOR_PTE_LEAF | MOOR_PTE_WRITABLE,
		MOOR_PTE_PRESENT | MOOR_PTE_LEAF | MOOR_PTE_WRITABLE | 8,
	};
	struct moor_cmd_create_cq c_cq;
	struct moor_cmd_create_qp c_qp;
	uint64_t table = take(PAGE), memory = take(3 * PAGE);
	struct moor_xlat xlat = {
		.root = table | MOOR_PTE_PRESENT, .levels = 1, .page_shift = 12,
	};
	uint64_t *entry = at(table);
	const unsigned int log_cqe = dev.max_log_cqe < 7 ? dev.max_log_cqe : 7;
	const unsigned int log_wqe = dev.max_log_wqe < 4 ? dev.max_log_wqe : 4;
	unsigned int i;
	struct cq cq;
	struct qp qp;

	for (i = 0; i < 3; i++)
		entry[i] = (memory + i * PAGE) | MOOR_PTE_PRESENT |
			   MOOR_PTE_LEAF | MOOR_PTE_WRITABLE;
	make_cq(&cq, 0, 4);
	for (i = 0; i < 4; i++) {
		struct cq other;

		about("entry 0x%llx", (unsigned long long)entries[i]);
		entry[2] = (entries[i] ? memory : 0) | entries[i];
		c_qp = qp_command(&qp, &cq, &cq);
		c_qp.sq = xlat;
		c_qp.log_sq_depth = (uint8_t)log_wqe;
		c_qp.log_sq_stride = 9;
		c_qp.sq.offset = till_third_page(512u << log_wqe);
		refused(c_qp, MOOR_CMD_DMA_FAULT, sq, "CREATE_QP");
		at_least(max_cq, 2);
		c_cq = cq_command(&other, 1, log_cqe);
		c_cq.ring = xlat;
		c_cq.ring.offset = till_third_page(64u << log_cqe);
		refused(c_cq, MOOR_CMD_DMA_FAULT, ring, "CREATE_CQ");
	}
}

TEST_CASE(foreign_gid, "a destination that cannot be reached is refused at once",
	  "RC-19 QP-11", 0)
{
	struct moor_cmd_set_gid none = { .hdr.opcode = MOOR_CMD_SET_GID };
	struct moor_cmd_modify_qp rtr;
	struct pair p;

	make_pair(&p);
	reset_qp(&p.qp[0]);
	must_modify(&p.qp[0], to_init());
	rtr = to_rtr(p.qp[1].qpn);
	rtr.hdr.opcode = MOOR_CMD_MODIFY_QP;
	rtr.qpn = p.qp[0].qpn;
	rtr.dgid[15] = 77;
	refused(rtr, MOOR_CMD_BAD_PARAM, dgid, "a foreign GID");
	expect(query_qp(&p.qp[0]).state == MOOR_QPS_INIT, "not in INIT");
	must(none);
	rtr.dgid[15] = 1;
	refused(rtr, MOOR_CMD_BAD_PARAM, dgid, "a GID that is there no more");
}

TEST_CASE(no_path, "a cleared entry has no GID, and a QP without a path reaches nobody",
	  "GID-2 RC-33 QP-11", 0)
{
	struct moor_cmd_set_gid none = {
		.hdr.opcode = MOOR_CMD_SET_GID, .index = GID_INDEX,
	};
	struct moor_cmd_modify_qp rtr;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	must(none);
	for (i = 0; i < 2; i++) {
		reset_qp(&p.qp[i]);
		must_modify(&p.qp[i], to_init());
		rtr = to_rtr(p.qp[!i].qpn);
		rtr.hdr.opcode = MOOR_CMD_MODIFY_QP;
		rtr.qpn = p.qp[i].qpn;
		memset(rtr.dgid, 0, sizeof(rtr.dgid));
		refused(rtr, MOOR_CMD_BAD_PARAM, dgid, "a GID of zeros");
		rtr.mask &= ~(uint32_t)MOOR_QP_ATTR_PATH;
		must_modify(&p.qp[i], rtr);
		must_modify(&p.qp[i], to_rts());
	}
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	expect_cqe(&p.cq[0], 0, MOOR_WC_RETRY_EXC_ERR, MOOR_SYN_NO_RESPONDER);
}

TEST_CASE(connected, "QPs are connected by numbers and GIDs of both", "RC-33 RC-34 RC-11",
	  0)
{
	struct moor_cmd_set_gid gid = {
		.hdr.opcode = MOOR_CMD_SET_GID, .index = GID_INDEX,
		.type = MOOR_GID_ROCE_V1, .vlan = 5,
		.gid = { 0xfe, 0x80, [15] = 1 },
	};
	struct pair p;

	make_pair(&p);
	about("type and VLAN change in use");
	must(gid);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 64, true);
	about("the GID changes in use");
	gid.gid[15] = 2;
	must(gid);
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	expect_cqe(&p.cq[0], 0, MOOR_WC_RETRY_EXC_ERR, MOOR_SYN_NO_RESPONDER);
	about("and back");
	gid.gid[15] = 1;
	must(gid);
	reconnect(&p);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 64, true);
	at_least(max_gid, 2);
	about("another entry than the one that the peer names");
	gid.index = 1;
	gid.gid[15] = 2;
	must(gid);
	must_modify(&p.qp[1], to_state(MOOR_QPS_RESET));
	must_modify(&p.qp[1], to_init());
	must_modify(&p.qp[1], ({
		struct moor_cmd_modify_qp rtr = to_rtr(p.qp[0].qpn);

		rtr.sgid_index = 1;
		rtr;
	}));
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE });
	expect_cqe(&p.cq[0], 0, MOOR_WC_RETRY_EXC_ERR, MOOR_SYN_NO_RESPONDER);
}
