// SPDX-License-Identifier: GPL-2.0
/* Where queues, lengths and tables end: the last that fits and the first that does not. */
#include <string.h>

#include "guest.h"
#include "memory/translate.h"

#define PD	5
#define RIGHTS	(MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_REMOTE_WRITE | \
		 MOOR_ACCESS_REMOTE_READ)
#define LEN	65536u
#define LOG_CQE	4
#define CQES	(1u << LOG_CQE)

static struct guest *g;
static struct guest_cq cq[2];
static struct guest_qp qp[2];
static uint64_t buf;
static uint32_t key;

static void start(void)
{
	int i;

	g = guest_start(false);
	guest_set_gid(g, 0, 1);
	buf = take(g, LEN);
	key = make_mr(g, PD, RIGHTS, buf, LEN);
	for (i = 0; i < 2; i++) {
		if (make_cq(g, &cq[i], i, LOG_CQE) ||
		    make_qp(g, &qp[i], 0x4000u * (i + 1) + 3 + i, PD,
			    &cq[i], &cq[i]))
			ok(false, "create CQ, QP");
	}
	connect_qp(g, &qp[0], qp[1].qpn);
	connect_qp(g, &qp[1], qp[0].qpn);
}

static bool done_with(uint8_t status)
{
	struct moor_cqe cqe;

	return poll_cq(g, &cq[0], &cqe) && cqe.status == status;
}

static void test_cq_full(void)
{
	struct moor_cqe cqe;
	struct moor_eqe eqe;
	unsigned int i, good = 0;

	start();
	for (i = 0; i < CQES; i++)
		next_send(g, &qp[0], MOOR_WQE_WRITE, i);
	ring(g, &qp[0]);
	ok(!next_event(g, 0, &eqe), "a CQ holds what it has room for");
	next_send(g, &qp[0], MOOR_WQE_WRITE, i);
	ring(g, &qp[0]);
	ok(next_event(g, 0, &eqe) && eqe.type == MOOR_EVENT_CQ_ERROR,
	   "one more: CQ_ERROR");
	for (i = 0; i < CQES && poll_cq(g, &cq[0], &cqe); i++)
		good += cqe.wr_id == i;
	ok(good == CQES, "and nothing is written over");
	guest_stop(g);
}

static void test_solicited_error(void)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_ERR,
	};
	struct moor_eqe eqe;

	start();
	arm_cq(g, &cq[0], MOOR_CQ_ARM_SOLICITED);
	next_send(g, &qp[0], MOOR_WQE_WRITE, 1);
	ring(g, &qp[0]);
	ok(!next_event(g, 2, &eqe), "success is not solicited");
	modify(g, &cmd, qp[0].qpn);
	next_send(g, &qp[0], MOOR_WQE_WRITE, 2);
	ring(g, &qp[0]);
	ok(next_event(g, 2, &eqe) && eqe.number == 0, "an error is");
	guest_stop(g);
}

/* A QP with the smallest slots: 32 bytes behind the head. */
static void make_narrow_qp(struct guest_qp *narrow)
{
	struct moor_cmd_create_qp cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_QP,
		.qpn = 0xc007, .pd = PD, .send_cqn = 0, .recv_cqn = 0,
		.log_sq_depth = LOG_DEPTH,
		.log_sq_stride = MOOR_MIN_LOG_SQ_STRIDE, .no_rq = 1,
	};

	*narrow = (struct guest_qp){ .qpn = cmd.qpn };
	narrow->sq = take(g, 1u << (LOG_DEPTH + MOOR_MIN_LOG_SQ_STRIDE));
	narrow->sq_slot = g->next_slot++;
	cmd.sq_doorbell = narrow->sq_slot;
	cmd.sq = flat(narrow->sq);
	if (command(g, &cmd, sizeof(cmd)))
		ok(false, "create QP");
	connect_qp(g, narrow, qp[1].qpn);
	connect_qp(g, &qp[1], narrow->qpn);
}

static void write_inline(struct guest_qp *from, unsigned int log_stride,
			 uint32_t length)
{
	uint32_t slot = from->sq_producer++ & ((1u << LOG_DEPTH) - 1);
	struct moor_sq_wqe *wqe = at(g, from->sq + (slot << log_stride));

	*wqe = (struct moor_sq_wqe){
		.opcode = MOOR_WQE_WRITE, .inline_length = length,
		.flags = MOOR_WQE_FLAG_SIGNALED | MOOR_WQE_FLAG_INLINE,
		.remote_addr = buf, .rkey = key,
	};
	ring(g, from);
}

static void to_reset(struct guest_qp *which)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_RESET,
	};

	modify(g, &cmd, which->qpn);
	which->sq_producer = 0;
}

static void test_inline(void)
{
	struct guest_qp narrow;

	start();
	write_inline(&qp[0], LOG_STRIDE, 448);
	ok(done_with(MOOR_WC_SUCCESS), "inline: MAX_INLINE");
	write_inline(&qp[0], LOG_STRIDE, 449);
	ok(done_with(MOOR_WC_LOC_QP_OP_ERR), "inline: one byte more");
	to_reset(&qp[1]);
	make_narrow_qp(&narrow);
	write_inline(&narrow, MOOR_MIN_LOG_SQ_STRIDE, 32);
	ok(done_with(MOOR_WC_SUCCESS), "inline: to the end of the slot");
	write_inline(&narrow, MOOR_MIN_LOG_SQ_STRIDE, 33);
	ok(done_with(MOOR_WC_LOC_QP_OP_ERR), "inline: beyond the slot");
	guest_stop(g);
}

/* The null MR stands for any length. */
static void test_message_length(void)
{
	uint32_t null;
	struct moor_sq_wqe *wqe;

	start();
	null = (uint32_t)nic_reg_read(g->nic, MOOR_REG_NULL_LKEY, 4);
	wqe = next_send(g, &qp[0], MOOR_WQE_WRITE, 1);
	wqe->remote_addr = buf;
	wqe->rkey = key;
	add_sge(wqe, sge(0, 0x80000000, null));
	add_sge(wqe, sge(0, 0x80000008, null));
	ring(g, &qp[0]);
	ok(done_with(MOOR_WC_LOC_LEN_ERR), "SGEs of 2^32 + 8 bytes");
	guest_stop(g);
}

static void test_psn(void)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_SQ_PSN,
		.state = MOOR_QPS_RTS, .sq_psn = 0xfffffe,
	};
	struct moor_sq_wqe *wqe;
	unsigned int i, good = 0;

	start();
	modify(g, &cmd, qp[0].qpn);
	wqe = next_send(g, &qp[0], MOOR_WQE_WRITE, 1);
	wqe->remote_addr = buf;
	wqe->rkey = key;
	wqe->flags |= MOOR_WQE_FLAG_INLINE;
	wqe->inline_length = 5;
	memcpy(wqe + 1, "early", 5);
	ring(g, &qp[0]);
	settle_timers(g, 10);
	ok(done_with(MOOR_WC_RETRY_EXC_ERR), "a PSN that is not due: no answer");
	ok(memcmp(at(g, buf), "early", 5), "and nothing is placed");
	guest_stop(g);

	start();
	cmd.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_RQ_PSN |
		   MOOR_QP_ATTR_SQ_PSN;
	cmd.rq_psn = cmd.sq_psn;
	modify(g, &cmd, qp[0].qpn);
	modify(g, &cmd, qp[1].qpn);
	for (i = 0; i < 6; i++) {
		next_send(g, &qp[0], MOOR_WQE_WRITE, i);
		ring(g, &qp[0]);
		good += done_with(MOOR_WC_SUCCESS);
	}
	ok(good == 6, "PSNs wrap");
	guest_stop(g);
}

/* Addresses above the span of the root's node do not wrap into the node. */
static void test_above_the_root(void)
{
	struct xlat_node node = { 0 };
	struct xlat_leaf leaf;
	struct xlat x = { .levels = 1, .page_shift = 12 };
	uint64_t table, i;

	start();
	table = take(g, 4096);
	x.root = table | MOOR_PTE_PRESENT;
	for (i = 0; i < 512; i++)
		((uint64_t *)at(g, table))[i] =
			(buf + (i & 7) * 4096) | MOOR_PTE_PRESENT | MOOR_PTE_LEAF;
	ok(!xlat_walk(g->nic, &x, (512 << 12) - 1, &leaf, &node),
	   "the last byte of a root's node");
	ok(xlat_walk(g->nic, &x, 512 << 12, &leaf, &node) ==
	   MOOR_SYN_TRANSLATION, "the byte above it");
	guest_stop(g);
}

static void test_command_interrupts(void)
{
	uint64_t *arm = (uint64_t *)g->db_bar + MOOR_DB_SLOT_CPL_ARM;
	struct moor_cmd nop = { .hdr.opcode = MOOR_CMD_NOP };
	unsigned int before;

	before = g->raised[MOOR_VECTOR_CMD];
	command(g, &nop, sizeof(nop));
	ok(g->raised[MOOR_VECTOR_CMD] == before, "no request: no interrupt");
	*arm = 1;
	command(g, &nop, sizeof(nop));
	command(g, &nop, sizeof(nop));
	ok(g->raised[MOOR_VECTOR_CMD] == before + 1, "a request: one interrupt");
	*arm = 2;
	command(g, &nop, sizeof(nop));
	ok(g->raised[MOOR_VECTOR_CMD] == before + 2, "another one: another");
}

static void test_bus_master(void)
{
	struct moor_cmd nop = { .hdr.opcode = MOOR_CMD_NOP };
	uint64_t len = 8;

	dma_map_set_enabled(g->dma, false);
	nic_set_bus_master(g->nic, false);
	ok(!dma_map_ptr(g->dma, buf, &len, false), "bus mastering off: no DMA");
	ok(command(g, &nop, sizeof(nop)) == 0xff, "no completion");
	dma_map_set_enabled(g->dma, true);
	nic_set_bus_master(g->nic, true);
	settle(g);
	ok(((struct moor_cpl *)at(g, g->cpl_base))[(g->commands - 1) & 63].tag ==
	   (uint16_t)(g->commands - 1), "on: it goes on where it was");
}

int main(void)
{
	test_cq_full();
	test_solicited_error();
	test_inline();
	test_message_length();
	test_psn();
	test_above_the_root();
	start();
	test_command_interrupts();
	test_bus_master();
	guest_stop(g);
	return done();
}
