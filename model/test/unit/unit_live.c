// SPDX-License-Identifier: GPL-2.0
/* Many send queues: how many passes over the doorbells it takes to see one. */
#include <endian.h>
#include <stdlib.h>

#include "device/doze.h"
#include "guest.h"
#include "transport/live.h"
#include "transport/qp.h"

#define PD	5
#define NUM	600u

/* Slots in the stretch of a pass: at rest, and in most passes soon after work. */
#define LONG	64u
#define BRIEF	16u
/* Passes in which all slots are seen: without other work, and with work in each. */
#define PASSES	(NUM / BRIEF + 1)
#define BUSY_PASSES	(NUM / LONG + 1)

static struct guest *g;
static struct guest_cq cq;
static struct guest_qp qp[NUM];

static void start(unsigned int num)
{
	unsigned int i;

	g = guest_start(false);
	guest_set_gid(g, 0, 1);
	if (make_cq(g, &cq, 0, 8))
		abort();
	for (i = 0; i < num; i++) {
		if (make_qp(g, &qp[i], i + 3, PD, &cq, &cq))
			abort();
		connect_qp(g, &qp[i], qp[i].qpn);
	}
}

static struct qp *nic_qp(unsigned int i)
{
	return qp_find(g->nic, qp[i].qpn);
}

/* A WRITE of nothing, and its doorbell without a kick. */
static void post(unsigned int i)
{
	uint64_t *slot = (uint64_t *)g->db_bar + qp[i].sq_slot;

	next_send(g, &qp[i], MOOR_WQE_WRITE, i);
	__atomic_store_n(slot, htole64(qp[i].sq_producer), __ATOMIC_RELEASE);
}

/* How many passes it takes until QP @i is seen, while QP @busy is posted to. */
static unsigned int passes(unsigned int i, unsigned int busy)
{
	unsigned int n = 0;
	struct moor_cqe cqe;

	post(i);
	do {
		if (busy < NUM)
			post(busy);
		live_scan(g->nic);
		n++;
	} while (nic_qp(i)->list != &g->nic->qps->ready && n < 2 * NUM);
	settle(g);
	while (poll_cq(g, &cq, &cqe))
		;
	return n;
}

static void test_order(void)
{
	unsigned int i, most = 0, first, slow = 0;

	for (i = 0; i < NUM; i++) {
		unsigned int n = passes((i * 263 + 100) % NUM, NUM);

		most = n > most ? n : most;
	}
	ok(most > 1 && most <= PASSES, "any of %u: seen in pass %u at the latest", NUM, most);
	first = passes(0, NUM);
	for (i = 1; i < NUM; i++)
		slow += passes(i, NUM) > 1;
	ok(first && !slow, "one after the other: in the first pass, but %u", slow);
	/* Twice: a QP that is already in the list of recent ones is not added again. */
	for (i = 0; i < 2 * LIVE_RECENT; i++)
		passes((i % LIVE_RECENT * 263 + 100) % NUM, NUM);
	for (i = 0; i < LIVE_RECENT; i++)
		slow += passes((i * 59 % LIVE_RECENT * 263 + 100) % NUM, NUM) > 1;
	ok(!slow, "those that were used last: in the first pass, but %u", slow);
	for (i = 0; i < LIVE_RECENT; i++)
		passes(100 + i % 16, NUM);
	for (i = 0; i < 4 * LIVE_RECENT; i++)
		slow += passes(100 + i % 16, NUM) > 1;
	ok(!slow, "sixteen in turn: in the first pass, but %u", slow);
	for (i = 2, most = 0; i < NUM; i++) {
		unsigned int n = passes(i * 263 % NUM, 1);

		most = n > most ? n : most;
	}
	ok(most <= BUSY_PASSES, "beside one that is always used: in pass %u at the latest", most);
}

/* How many slots there are in a pass's stretch. */
static unsigned int stretch(void)
{
	uint32_t before = g->nic->live->swept;

	live_scan(g->nic);
	return (g->nic->live->swept + NUM - before) % NUM;
}

/* Starts at the first slot, so that no stretch ends at the last one. */
static void test_brief(void)
{
	unsigned int brief = 0, none, i;

	for (i = 0; i < NUM; i++)
		live_scan(g->nic);
	for (i = 0; i < NUM && g->nic->live->swept; i++)
		live_scan(g->nic);
	ok(stretch() == LONG, "at rest a pass has a long stretch");
	post(1);
	ok(stretch() == LONG, "  and one that finds work, too");
	settle(g);
	g->nic->live->swept = 0;
	g->nic->live->idle = 0;
	ok(stretch() == LONG, "as has the first one behind work");
	while (brief < NUM && stretch() == BRIEF)
		brief++;
	ok(brief == 32, "the next 32 have a short one (%u), then it is long again", brief);
	post(1);
	live_scan(g->nic);
	settle(g);
	g->nic->live->idle = 1;
	post(1);
	none = stretch();
	ok(!none && nic_qp(1)->list == &g->nic->qps->ready,
	   "who posts again at once is seen without any");
	settle(g);
}

/*
 * A QP has work that goes on from pass to pass, and rang once. Those that ring meanwhile
 * are seen as soon as beside a QP that rings each time.
 */
static void test_long_work(void)
{
	unsigned int most = 0, i;
	struct moor_cqe cqe;

	for (i = 2; i < NUM; i++) {
		unsigned int n = 0;

		qp_make_ready(g->nic, nic_qp(1));
		g->nic->live->idle = 1;
		post(i * 263 % NUM);
		do {
			live_scan(g->nic);
			n++;
		} while (nic_qp(i * 263 % NUM)->list != &g->nic->qps->ready &&
			 n < 2 * NUM);
		most = n > most ? n : most;
		settle(g);
		while (poll_cq(g, &cq, &cqe))
			;
	}
	ok(most <= BUSY_PASSES, "beside one whose work goes on: in pass %u at the latest", most);
}

static void test_others(void)
{
	struct moor_cmd_destroy_qp cmd = {
		.hdr.opcode = MOOR_CMD_DESTROY_QP,
	};
	unsigned int i, lost = 0;
	struct moor_cqe cqe;

	for (i = 0; i < NUM / 2; i++) {
		cmd.qpn = qp[i].qpn;
		lost += command(g, &cmd, sizeof(cmd));
	}
	for (; i < NUM; i++)
		lost += passes(i, NUM) > PASSES;
	ok(!lost, "half of them are destroyed: the others are seen");

	while (nic_run(g->nic))
		;
	post(NUM / 2 + 7);
	ok(!nic_doze(g->nic), "before it dozes it looks at all of them");
	settle(g);
	ok(poll_cq(g, &cq, &cqe) && cqe.wr_id == htole64(NUM / 2 + 7), "  and finds it");
}

/* The NIC looks when both a doorbell and a command have come. */
static void test_command(void)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_ERR,
	};
	struct moor_cqe cqe;

	start(1);
	post(0);
	ok(!modify(g, &cmd, qp[0].qpn) && poll_cq(g, &cq, &cqe) && !cqe.status,
	   "what was posted before a command is done before it");
	guest_stop(g);
}

int main(void)
{
	test_command();
	start(NUM);
	test_order();
	test_brief();
	test_long_work();
	test_others();
	guest_stop(g);
	return done();
}
