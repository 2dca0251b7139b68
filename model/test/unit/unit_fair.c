// SPDX-License-Identifier: GPL-2.0
/* Shares of the NIC's time: among QPs, and between the halves of one QP. */
#include <string.h>

#include "device/command.h"
#include "guest.h"
#include "transport/qp.h"

#define PD	5
#define RIGHTS	(MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_REMOTE_WRITE | \
		 MOOR_ACCESS_REMOTE_READ)
#define LEN	(1u << 20)
#define UNIT	(256u << 10)
#define NUM_QP	4u

static struct guest *g;
static struct guest_cq cq[NUM_QP];
static struct guest_qp qp[NUM_QP];
static uint64_t buf[2];
static uint32_t key[2];

/* QP 0 is connected to 1, and 2 to 3; or each to itself. */
static void start(unsigned int peer)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_MAX_RD_ATOMIC | MOOR_QP_ATTR_MAX_DEST_RD_ATOMIC,
		.max_rd_atomic = NIC_MAX_RD_ATOMIC,
		.max_dest_rd_atomic = NIC_MAX_RD_ATOMIC,
	};
	unsigned int i;

	g = guest_start(false);
	guest_set_gid(g, 0, 1);
	for (i = 0; i < NUM_QP; i++)
		if (make_cq(g, &cq[i], i, 8) ||
		    make_qp(g, &qp[i], 0x4003 + i, PD, &cq[i], &cq[i]))
			ok(false, "create CQ, QP");
	for (i = 0; i < NUM_QP; i++) {
		connect_qp(g, &qp[i], qp[i ^ peer].qpn);
		modify(g, &cmd, qp[i].qpn);
	}
	for (i = 0; i < 2; i++) {
		buf[i] = take(g, LEN);
		key[i] = make_mr(g, PD, RIGHTS, buf[i], LEN);
	}
	memset(at(g, buf[0]), 'a', LEN);
	memset(at(g, buf[1]), 'b', LEN);
}

static void post(unsigned int i, uint8_t opcode, uint32_t len)
{
	struct moor_sq_wqe *wqe = next_send(g, &qp[i], opcode, 1);

	wqe->rkey = key[1];
	wqe->remote_addr = buf[1];
	add_sge(wqe, sge(buf[0], len, key[0]));
}

/* How many work requests have newly succeeded. */
static unsigned int ended(unsigned int i)
{
	struct moor_cqe cqe;
	unsigned int n = 0;

	while (poll_cq(g, &cq[i], &cqe))
		n += !cqe.status;
	return n;
}

/* A QP that answers one long READ after the other also does its own work. */
static void test_both_halves(uint8_t opcode, uint32_t len)
{
	unsigned int turns, reads = 0, i;

	start(1);
	for (i = 0; i < 2 * NIC_MAX_RD_ATOMIC; i++)
		post(0, MOOR_WQE_READ, LEN);
	announce(g, &qp[0]);
	nic_run(g->nic);
	post(1, opcode, len);
	announce(g, &qp[1]);
	for (turns = 0; turns < 1000 && !ended(1); turns++) {
		nic_run(g->nic);
		for (i = ended(0); i; i--, reads++)
			post(0, MOOR_WQE_READ, LEN);
		announce(g, &qp[0]);
	}
	ok(turns < 1000 && reads <= 2 * len / LEN + 8,
	   "opcode %u of %u bytes among READs without end: after %u of them",
	   opcode, len, reads);
	guest_stop(g);
}

/* A QP that reads gets no more of the NIC's time than a QP that writes. */
static void test_readers(void)
{
	unsigned int turns, writes = 0, reads = 0, most = 0, i;

	start(1);
	for (i = 0; i < 32; i++) {
		post(0, MOOR_WQE_WRITE, UNIT);
		post(2, MOOR_WQE_READ, UNIT);
	}
	announce(g, &qp[0]);
	announce(g, &qp[2]);
	for (turns = 0; turns < 1000 && writes < 32; turns++) {
		nic_run(g->nic);
		writes += ended(0);
		reads += ended(2);
		if (reads > writes && reads - writes > most)
			most = reads - writes;
	}
	settle(g);
	reads += ended(2);
	ok(writes == 32 && reads == 32 && most <= 2,
	   "READs get no more than WRITEs: %u units ahead", most);
	guest_stop(g);
}

/* Requests behind an unfinished READ do not finish it in the requester's turn. */
static void test_behind(void)
{
	struct qp *asks, *answers;
	unsigned int i;

	start(1);
	asks = qp_find(g->nic, qp[0].qpn);
	answers = qp_find(g->nic, qp[1].qpn);
	post(0, MOOR_WQE_READ, LEN);
	for (i = 0; i < 30; i++)
		post(0, MOOR_WQE_WRITE, 64);
	announce(g, &qp[0]);
	qp_run(g->nic, asks);
	qp_run(g->nic, asks);
	ok(answers->resp.answers[0].sent == UNIT,
	   "a unit of a READ in the turn of who asks, whatever he asks for then");
	settle(g);
	ok(ended(0) == 31, "  and it all ends");
	guest_stop(g);
}

/* A QP that is connected to itself answers its own READs, of any length. */
static void test_self(void)
{
	unsigned int good = 0, i;
	uint32_t len;

	for (len = UNIT; len <= LEN; len += UNIT / 2) {
		start(0);
		for (i = 0; i < 3; i++)
			post(0, MOOR_WQE_READ, len);
		ring(g, &qp[0]);
		good += ended(0) == 3 &&
			!memcmp(at(g, buf[0]), at(g, buf[1]), len);
		guest_stop(g);
	}
	ok(good == 7, "a QP that is connected to itself reads: %u of 7 lengths", good);
}

/*
 * A message that takes long must not time out: the responder acknowledges each unit,
 * whatever PSN the message begins with.
 */
static void test_long(uint8_t path_mtu)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_SQ_PSN | MOOR_QP_ATTR_RQ_PSN |
			MOOR_QP_ATTR_PATH_MTU, .path_mtu = path_mtu,
	};
	uint32_t psn, good = 0;

	start(1);
	for (psn = 0; psn < 64; psn++) {
		struct qp *asks = qp_find(g->nic, qp[0].qpn);

		cmd.sq_psn = psn;
		cmd.rq_psn = psn;
		modify(g, &cmd, qp[0].qpn);
		modify(g, &cmd, qp[1].qpn);
		post(0, MOOR_WQE_WRITE, LEN);
		announce(g, &qp[0]);
		qp_run(g->nic, asks);
		good += asks->req.acked_psn == psn + (UNIT >> 7 >> path_mtu);
		settle(g);
		good += ended(0);
	}
	ok(good == 128, "path MTU %u: a long message is acknowledged unit by unit",
	   path_mtu);
	guest_stop(g);
}

/* How many of @num commands @cmd, posted together, are done in one turn of the NIC. */
static uint32_t done_at_once(const void *cmd, size_t size, unsigned int num)
{
	struct moor_cmd *ring = at(g, g->cmd_base);
	uint32_t before = g->nic->commands->consumer, after;

	for (; num; num--) {
		memset(&ring[g->commands & 63], 0, sizeof(*ring));
		memcpy(&ring[g->commands++ & 63], cmd, size);
	}
	__atomic_store_n((uint64_t *)g->db_bar + MOOR_DB_SLOT_CMD_PRODUCER,
			 g->commands, __ATOMIC_RELEASE);
	nic_run(g->nic);
	after = g->nic->commands->consumer;
	settle(g);
	return after - before;
}

/* A command may walk a table of a million entries: QPs need not wait for several. */
static void test_commands(void)
{
	const struct moor_cmd_hdr nop = { .opcode = MOOR_CMD_NOP };
	struct moor_cmd_resize_cq resize = {
		.hdr.opcode = MOOR_CMD_RESIZE_CQ, .cqn = 1, .log_cqe = 8,
	};

	start(1);
	resize.ring = flat(take(g, 64u << 8));
	ok(done_at_once(&nop, sizeof(nop), 8) == 8, "eight commands in one turn");
	ok(done_at_once(&resize, sizeof(resize), 8) == 1,
	   "  but only one that walks a table");
	ok(!command(g, &resize, sizeof(resize)), "  of those, all are carried out");
	guest_stop(g);
}

int main(void)
{
	test_both_halves(MOOR_WQE_WRITE, 64);
	test_both_halves(MOOR_WQE_WRITE, LEN);
	test_both_halves(MOOR_WQE_READ, LEN);
	test_readers();
	test_behind();
	test_self();
	test_long(1);
	test_long(5);
	test_commands();
	return done();
}
