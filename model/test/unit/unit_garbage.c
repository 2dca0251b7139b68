// SPDX-License-Identifier: GPL-2.0
/*
 * Garbage in registers, rings, queues, tables, context entries and doorbells:
 * the sanitizers watch, and the NIC has to come back to rest and to work.
 */
#include <stdlib.h>
#include <string.h>

#include "guest.h"

#define ROUNDS		400
#define STEPS		400
#define FIRST_WINDOW	0x8000u
#define WINDOWS		4

static uint64_t state;

static uint64_t rnd(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint64_t below(uint64_t n)
{
	return rnd() % n;
}

/* Numbers that have a meaning somewhere. */
static uint64_t odd_number(void)
{
	static const uint64_t some[] = {
		0, 1, 2, 7, 8, 63, 64, 65, 0xff, 0xfff, 0x1000, 0x1001,
		0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff,
		0x100000000, 0x7fffffffffffffff, 0x8000000000000000,
		~0ull, ~0ull << 12, GUEST_BASE, GUEST_BASE | 3, GUEST_BASE | 7,
		GUEST_BASE + GUEST_MEMORY - 8,
	};

	switch (below(3)) {
	case 0:
		return some[below(sizeof(some) / sizeof(some[0]))];
	case 1:
		return rnd() >> below(64);
	default:
		return GUEST_BASE + (below(GUEST_MEMORY) & ~7ull);
	}
}

static void scribble(struct guest *g)
{
	uint64_t used = g->next - GUEST_BASE;
	uint64_t n = 1 + below(8);

	while (n--)
		*(uint64_t *)at(g, GUEST_BASE + (below(used) & ~7ull)) =
			odd_number();
}

static void scribble_bars(struct guest *g)
{
	uint64_t index = below(2) ? below(16) : FIRST_WINDOW + below(WINDOWS);
	uint64_t *entry = (uint64_t *)g->mr_bar + 8 * index + below(8);
	uint64_t *slot = (uint64_t *)g->db_bar + MOOR_DB_SLOTS_PER_PAGE +
			 below(24);

	if (below(2))
		*entry = below(2) ? odd_number() :
				    *entry ^ 1ull << below(64);
	else
		*slot = below(2) ? odd_number() : *slot + below(70);
}

/* A page of table entries that point at each other and elsewhere. */
static uint64_t garbage_table(struct guest *g, uint64_t *pages)
{
	uint64_t *table = at(g, pages[below(4)]);
	unsigned int i;

	for (i = 0; i < 64; i++)
		table[below(8) ? below(16) : below(512)] =
			((below(2) ? pages[below(4)] :
			  odd_number() & ~0xfffull)) | below(8);
	return pages[below(4)] | 1 | below(2) << 2 | below(2) << 1;
}

static struct moor_xlat some_xlat(struct guest *g, uint64_t *pages)
{
	struct moor_xlat x = flat(pages[below(4)]);

	if (below(4)) {
		x.root = garbage_table(g, pages);
		x.levels = (uint8_t)below(7);
		x.page_shift = (uint8_t)(below(8) ? 12 : below(64));
		x.offset = below(2) ? below(1 << 20) & ~511ull : odd_number();
		x.memory = below(8) ? 0 : (uint8_t)below(3);
	}
	return x;
}

static uint32_t some_window(void)
{
	return (FIRST_WINDOW + (uint32_t)below(WINDOWS)) << 16 | 0x1200 |
	       (uint32_t)below(4);
}

static void some_command(struct guest *g, uint64_t *pages)
{
	static const uint8_t opcodes[] = {
		0x00, 0x01, 0x02, 0x10, 0x11, 0x12, 0x13, 0x20, 0x21, 0x22, 0x23,
		0x30, 0x40, 0x41, 0x42, 0x43, 0x44, 0x77, 0xff,
	};
	union {
		struct moor_cmd any;
		struct moor_cmd_create_cq cq;
		struct moor_cmd_resize_cq resize;
		struct moor_cmd_create_qp qp;
		struct moor_cmd_modify_qp modify;
		struct moor_cmd_mr_revoke revoke;
		struct moor_cmd_mr_windows windows;
		uint8_t bytes[MOOR_CMD_SIZE];
	} cmd = { 0 };
	unsigned int i;

	cmd.any.hdr.opcode = opcodes[below(sizeof(opcodes))];
	for (i = 0; i < 4; i++)
		cmd.bytes[8 + 4 * below(8)] = (uint8_t)below(20);
	switch (cmd.any.hdr.opcode) {
	case MOOR_CMD_CREATE_CQ:
		cmd.cq.eqn = 2;
		cmd.cq.doorbell = 512 + (uint32_t)below(30);
		cmd.cq.log_cqe = (uint8_t)below(12);
		cmd.cq.ring = some_xlat(g, pages);
		break;
	case MOOR_CMD_RESIZE_CQ:
		cmd.resize.cqn = (uint32_t)below(3);
		cmd.resize.log_cqe = (uint8_t)below(12);
		cmd.resize.ring = some_xlat(g, pages);
		break;
	case MOOR_CMD_CREATE_QP:
		cmd.qp.qpn = (uint32_t)below(8);
		cmd.qp.send_cqn = (uint32_t)below(2);
		cmd.qp.recv_cqn = (uint32_t)below(2);
		cmd.qp.log_sq_depth = (uint8_t)below(10);
		cmd.qp.log_rq_depth = (uint8_t)below(10);
		cmd.qp.log_sq_stride = (uint8_t)(6 + below(4));
		cmd.qp.log_rq_stride = (uint8_t)(5 + below(5));
		cmd.qp.sq_doorbell = 512 + (uint32_t)below(60);
		cmd.qp.rq_doorbell = 512 + (uint32_t)below(60);
		cmd.qp.sq = some_xlat(g, pages);
		cmd.qp.rq = some_xlat(g, pages);
		break;
	case MOOR_CMD_MR_REVOKE:
		cmd.revoke.count = 1;
		cmd.revoke.reserved1 = 0;
		memset(cmd.revoke.key, 0, sizeof(cmd.revoke.key));
		cmd.revoke.key[0] = below(2) ? some_window() :
				    (uint32_t)(2 + below(4)) << 16 | 0x1234;
		break;
	case MOOR_CMD_MR_WINDOWS:
		cmd.windows.key = (uint32_t)(2 + below(4)) << 16 | 0x1234;
		cmd.windows.cursor = below(2) ? 0 : (uint32_t)odd_number();
		cmd.windows.buffer = pages[below(4)];
		break;
	case MOOR_CMD_MODIFY_QP:
		cmd.modify.qpn = below(2) ? 0x4003 : 0x8004;
		cmd.modify.mask = (uint32_t)below(1 << 14);
		cmd.modify.state = (uint8_t)below(7);
		cmd.modify.path_mtu = (uint8_t)(1 + below(5));
		cmd.modify.dest_qpn = below(2) ? 0x4003 : 0x8004;
		cmd.modify.max_rd_atomic = 1;
		cmd.modify.max_dest_rd_atomic = 1;
		cmd.modify.timeout = (uint8_t)below(5);
		cmd.modify.retry_cnt = (uint8_t)below(3);
		cmd.modify.access = (uint8_t)(below(8) << 1);
		cmd.modify.dgid[0] = 0xfe;
		cmd.modify.dgid[1] = 0x80;
		cmd.modify.dgid[15] = (uint8_t)below(3);
		break;
	}
	if (!below(4))
		cmd.bytes[below(sizeof(cmd))] = (uint8_t)rnd();
	command(g, &cmd, sizeof(cmd));
}

static void some_bind(struct moor_sq_wqe *wqe, uint64_t buf)
{
	uint32_t key = some_window();
	struct moor_wqe_bind bind = {
		.mw_key = key, .new_key = key ^ (uint32_t)below(4),
		.mr_lkey = (uint32_t)(2 + below(4)) << 16 | 0x1234,
		.access = below(8) ? (uint32_t)below(8) << 1 : (uint32_t)rnd(),
		.addr = below(8) ? buf + below(8192) : odd_number(),
		.length = below(8) ? below(8192) : odd_number(),
	};

	memcpy(wqe + 1, &bind, sizeof(bind));
}

static void some_send(struct guest *g, struct guest_qp *qp, uint64_t buf)
{
	static const uint8_t opcodes[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 0x33 };
	struct moor_sq_wqe *wqe;
	unsigned int n = (unsigned int)below(4);

	wqe = next_send(g, qp, opcodes[below(sizeof(opcodes))], 1);
	if (wqe->opcode == MOOR_WQE_BIND_MW || wqe->opcode == MOOR_WQE_LOCAL_INV)
		n = !below(16);
	while (n--)
		add_sge(wqe, sge(below(4) ? buf + below(8192) : odd_number(),
				 (uint32_t)(below(4) ? below(5000) :
						       odd_number()),
				 (uint32_t)(2 + below(4)) << 16 | 0x1234));
	wqe->remote_addr = below(4) ? buf + below(8192) : odd_number();
	wqe->rkey = (uint32_t)(2 + below(4)) << 16 | 0x1234;
	if (below(2))
		wqe->rkey = some_window();
	if (wqe->opcode == MOOR_WQE_BIND_MW)
		some_bind(wqe, buf);
	if (wqe->opcode == MOOR_WQE_LOCAL_INV || wqe->opcode == MOOR_WQE_SEND_INV)
		wqe->inv_key = some_window();
	if (wqe->opcode != MOOR_WQE_BIND_MW && !below(3)) {
		wqe->flags |= MOOR_WQE_FLAG_INLINE;
		wqe->inline_length = (uint32_t)(below(2) ? below(600) :
							   odd_number());
	}
	if (!below(16))
		((uint8_t *)wqe)[below(512)] = (uint8_t)rnd();
	ring(g, qp);
}

static void some_register(struct guest *g)
{
	uint32_t offset = (uint32_t)(below(2) ? below(0x200) : below(0x8000)) &
			  ~7u;

	if (below(2))
		offset = 0x100 + 8 * (uint32_t)below(4);
	nic_reg_read(g->nic, offset, 8);
	nic_reg_read(g->nic, offset | 4, 4);
	/* CONTROL is left to the caller: most writes reset the NIC. */
	if (offset != 8)
		nic_reg_write(g->nic, offset, odd_number(), 8);
}

static void some_recv(struct guest *g, struct guest_qp *qp, uint64_t buf)
{
	struct moor_sge s[2];

	s[0] = sge(buf + below(4096), (uint32_t)below(6000),
		   (uint32_t)(2 + below(4)) << 16 | 0x1234);
	s[1] = sge(odd_number(), (uint32_t)odd_number(),
		   (uint32_t)(2 + below(4)) << 16 | 0x1234);
	post_recv(g, qp, 2, s, (unsigned int)below(3));
}

static void step(struct guest *g, struct guest_qp *qp, struct guest_cq *cq,
		 uint64_t *pages)
{
	struct moor_cqe cqe;
	struct moor_eqe eqe;
	unsigned int i = (unsigned int)below(2);

	switch (below(12)) {
	case 0:
		if (!below(4))
			scribble(g);
		break;
	case 1:
		scribble_bars(g);
		break;
	case 2:
	case 3:
		some_command(g, pages);
		break;
	case 4:
	case 5:
	case 6:
		some_send(g, &qp[i], pages[0]);
		break;
	case 7:
	case 8:
		some_recv(g, &qp[i], pages[0]);
		break;
	case 9:
		some_register(g);
		nic_kick(g->nic, (uint32_t)below(1030), (uint32_t)below(520));
		settle(g);
		break;
	case 10:
		while (poll_cq(g, &cq[i], &cqe) && below(50))
			;
		next_event(g, (unsigned int)below(3), &eqe);
		break;
	case 11:
		if (below(20))
			settle_timers(g, 1);
		else
			nic_set_bus_master(g->nic, below(2));
		break;
	}
}

static void a_round(bool strict, unsigned int *worked)
{
	struct guest *g = guest_start(strict);
	struct guest_cq cq[2];
	struct guest_qp qp[2];
	struct moor_cmd nop = { .hdr.opcode = MOOR_CMD_NOP };
	uint64_t pages[4];
	unsigned int i;

	guest_set_gid(g, 0, 1);
	for (i = 0; i < 4; i++)
		pages[i] = take(g, 16384);
	for (i = 0; i < 2; i++) {
		make_cq(g, &cq[i], i, 6);
		make_qp(g, &qp[i], 0x4000u * (i + 1) + 3 + i, 5, &cq[i],
			&cq[i]);
	}
	for (i = 0; i < 4; i++) {
		struct moor_mr_context e = {
			.pd = 5, .access = 0x1f, .iova = pages[0],
			.length = 16384, .xlat = i ? some_xlat(g, pages) :
						     flat(pages[0]),
		};

		put_entry(g, (i + 2) << 16 | 0x1234, &e, MOOR_MRC_TYPE_MR);
	}
	for (i = 0; i < WINDOWS; i++) {
		struct moor_mr_context e = { .pd = 5 };

		put_entry(g, (FIRST_WINDOW + i) << 16 | 0x1200, &e,
			  i & 1 ? MOOR_MRC_TYPE_MW_2 : MOOR_MRC_TYPE_MW_1);
	}
	connect_qp(g, &qp[0], qp[1].qpn);
	connect_qp(g, &qp[1], qp[0].qpn);
	for (i = 0; i < STEPS; i++)
		step(g, qp, cq, pages);

	nic_set_bus_master(g->nic, true);
	nic_reset(g->nic);
	guest_setup(g);
	*worked += !command(g, &nop, sizeof(nop.hdr));
	guest_stop(g);
}

int main(int argc, char **argv)
{
	unsigned int i, worked = 0;

	for (i = 0; i < ROUNDS; i++) {
		state = 0x9e3779b97f4a7c15ull * (i + 1) +
			(argc > 1 ? strtoull(argv[1], NULL, 0) : 0);
		a_round(i & 1, &worked);
	}
	ok(worked == ROUNDS, "%u rounds of garbage, %u resets to a NIC that works",
	   ROUNDS, worked);
	return done();
}
