// SPDX-License-Identifier: GPL-2.0
/*
 * Shared receive queues: random traffic on several connections; the test keeps track of
 * each WQE. Each is taken in order, and ends once, in the queue pair that took it.
 */
#include <string.h>

#include "base/random.h"
#include "guest.h"
#include "queues/srq.h"

#define PD	5
#define PAIRS	4u
#define STEPS	4000u
#define LEN	64u
#define SRQN	0x7009u
#define MAX_LOG	5u
#define NOT_HELD	~0u

/* One connection, and the WQE that its receiver should hold. */
struct pair {
	struct guest_cq send_cq, recv_cq;
	struct guest_qp sender, receiver;
	uint32_t held;
	bool connected;
};

static struct guest *g;
static struct pair pairs[PAIRS];
static struct random dice;
static uint64_t buf, ring_addr;
static uint32_t key, torn, slot;
static uint8_t log_depth;
static uint32_t posted, taken, lost;
static unsigned int wrong, ended, flushed, told;

static uint32_t below(uint32_t n)
{
	return random_below(&dice, n);
}

static void expect(bool good)
{
	wrong += !good;
}

static struct moor_rq_wqe *place_of(uint32_t index)
{
	return at(g, ring_addr + ((index & ((1u << log_depth) - 1)) << LOG_STRIDE));
}

static void put(uint32_t index)
{
	struct moor_rq_wqe *wqe = place_of(index);
	struct moor_sge s = sge(buf + LEN, LEN, key);

	memset(wqe, 0, 1u << LOG_STRIDE);
	wqe->wr_id = 0x1000 + index;
	wqe->num_sge = 1;
	memcpy(wqe + 1, &s, sizeof(s));
}

static void ring_srq(void)
{
	__atomic_store_n((uint64_t *)g->db_bar + slot, posted, __ATOMIC_SEQ_CST);
}

static uint8_t make_srq(void)
{
	struct moor_cmd_create_srq cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_SRQ, .srqn = SRQN, .pd = PD,
		.log_depth = log_depth, .log_stride = LOG_STRIDE,
	};

	slot = g->next_slot++;
	ring_addr = take(g, 1u << (MAX_LOG + LOG_STRIDE));
	cmd.doorbell = slot;
	cmd.ring = flat(ring_addr);
	return command(g, &cmd, sizeof(cmd));
}

static uint8_t make_receiver(struct pair *p, uint32_t qpn)
{
	struct moor_cmd_create_qp cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_QP, .qpn = qpn, .pd = PD,
		.send_cqn = p->recv_cq.cqn, .recv_cqn = p->recv_cq.cqn,
		.flags = MOOR_QP_FLAG_SRQ, .srqn = SRQN, .no_rq = 1, .no_sq = 1,
	};

	p->receiver = (struct guest_qp){ .qpn = qpn };
	return command(g, &cmd, sizeof(cmd));
}

static void to_state(uint32_t qpn, enum moor_qp_state state)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE, .state = (uint8_t)state,
	};

	expect(!modify(g, &cmd, qpn));
}

/* Expects this CQE as the next one. */
static void came(struct guest_cq *cq, uint8_t status, uint32_t index)
{
	struct moor_cqe cqe;

	expect(poll_cq(g, cq, &cqe) && cqe.status == status &&
	       (index == NOT_HELD || (cqe.wqe_index == index &&
				      cqe.wr_id == 0x1000 + index)));
}

static void send_one(struct pair *p, bool whole)
{
	struct moor_sq_wqe *wqe = next_send(g, &p->sender, MOOR_WQE_SEND, 1);

	wqe->flags = MOOR_WQE_FLAG_SIGNALED;
	add_sge(wqe, sge(buf, LEN / 2, key));
	if (!whole)
		add_sge(wqe, sge(0x100000 + 4096, LEN / 2, torn));
	ring(g, &p->sender);
}

/* A message, if there is a WQE for it; it may end half-way. */
static void message(struct pair *p)
{
	bool whole = below(3);
	uint32_t index = p->held;

	if (!p->connected || (index == NOT_HELD && taken == posted))
		return;
	if (index == NOT_HELD)
		index = taken++;
	send_one(p, whole);
	if (whole) {
		came(&p->send_cq, MOOR_WC_SUCCESS, NOT_HELD);
		came(&p->recv_cq, MOOR_WC_SUCCESS, index);
		p->held = NOT_HELD;
		ended++;
	} else {
		came(&p->send_cq, MOOR_WC_LOC_PROT_ERR, NOT_HELD);
		p->held = index;
		p->connected = false;
	}
}

static void last_wqe(const struct pair *p)
{
	struct moor_eqe eqe;

	expect(next_event(g, MOOR_EQ_ASYNC, &eqe) &&
	       eqe.type == MOOR_EVENT_LAST_WQE && eqe.number == p->receiver.qpn);
	expect(!next_event(g, MOOR_EQ_ASYNC, &eqe));
	told++;
}

/* Brings the receiver to ERR, mostly; then connects both QPs anew. */
static void begin_again(struct pair *p)
{
	if (below(4)) {
		to_state(p->receiver.qpn, MOOR_QPS_ERR);
		settle(g);
		if (p->held != NOT_HELD) {
			came(&p->recv_cq, MOOR_WC_WR_FLUSH_ERR, p->held);
			flushed++;
		}
		last_wqe(p);
	} else {
		lost += p->held != NOT_HELD;
	}
	p->held = NOT_HELD;
	to_state(p->receiver.qpn, MOOR_QPS_RESET);
	to_state(p->sender.qpn, MOOR_QPS_RESET);
	p->sender.sq_producer = 0;
	connect_qp(g, &p->sender, p->receiver.qpn);
	connect_qp(g, &p->receiver, p->sender.qpn);
	p->connected = true;
}

/* Gives the SRQ another ring, with the posted WQEs in their new places. */
static void move(void)
{
	struct moor_cmd_modify_srq cmd = {
		.hdr.opcode = MOOR_CMD_MODIFY_SRQ, .srqn = SRQN,
		.mask = MOOR_SRQ_ATTR_RING, .log_stride = LOG_STRIDE,
	};
	static uint64_t rings[2];
	static const struct guest *of;
	uint32_t n;

	log_depth = (uint8_t)(2 + below(4));
	if (posted - taken > 1u << log_depth)
		log_depth = MAX_LOG;
	if (of != g) {
		of = g;
		rings[0] = ring_addr;
		rings[1] = take(g, 1u << (MAX_LOG + LOG_STRIDE));
	}
	ring_addr = rings[ring_addr == rings[0]];
	for (n = taken; n != posted; n++)
		put(n);
	cmd.log_depth = log_depth;
	cmd.ring = flat(ring_addr);
	expect(!command(g, &cmd, sizeof(cmd)));
	memset(at(g, rings[ring_addr == rings[0]]), 0xff,
	       1u << (MAX_LOG + LOG_STRIDE));
}

static void post(void)
{
	if (posted - taken == 1u << log_depth)
		return;
	put(posted++);
	ring_srq();
}

static void walk(void)
{
	unsigned int i;

	for (i = 0; i < STEPS; i++) {
		struct pair *p = &pairs[below(PAIRS)];

		switch (below(16)) {
		case 0:
			begin_again(p);
			break;
		case 1:
			move();
			break;
		case 2 ... 8:
			post();
			break;
		default:
			message(p);
			break;
		}
	}
}

static void start(bool strict)
{
	uint64_t table;
	unsigned int i;

	g = guest_start(strict);
	guest_set_gid(g, 0, 1);
	random_seed(&dice, strict ? 11 : 12);
	log_depth = 3;
	ok(!make_srq(), "an SRQ");
	for (i = 0; i < PAIRS; i++) {
		struct pair *p = &pairs[i];

		*p = (struct pair){ .held = NOT_HELD, .connected = true };
		make_cq(g, &p->send_cq, 2 * i, 4);
		make_cq(g, &p->recv_cq, 2 * i + 1, 4);
		make_qp(g, &p->sender, 0x4010 + i, PD, &p->send_cq, &p->send_cq);
		expect(!make_receiver(p, 0x8020 + i));
		connect_qp(g, &p->sender, p->receiver.qpn);
		connect_qp(g, &p->receiver, p->sender.qpn);
	}
	buf = take(g, 4096);
	key = make_mr(g, PD, MOOR_ACCESS_LOCAL_WRITE, buf, 4096);
	/* Two pages, of which the second is absent. */
	table = take(g, 4096);
	*(uint64_t *)at(g, table) = take(g, 4096) | MOOR_PTE_PRESENT |
				    MOOR_PTE_LEAF | MOOR_PTE_WRITABLE;
	torn = (0x77u << 16) | 0x1234;
	{
		struct moor_mr_context e = {
			.pd = PD, .iova = 0x100000, .length = 8192,
			.xlat = { .root = table | MOOR_PTE_PRESENT,
				  .levels = 1, .page_shift = 12 },
		};

		put_entry(g, torn, &e, MOOR_MRC_TYPE_MR);
	}
}

static void test_at_random(bool strict)
{
	const struct srq *srq;
	unsigned int i, held = 0;

	posted = 0;
	taken = 0;
	lost = 0;
	wrong = 0;
	ended = 0;
	flushed = 0;
	told = 0;
	start(strict);
	walk();
	srq = srq_find(g->nic, SRQN);
	for (i = 0; i < PAIRS; i++)
		held += pairs[i].held != NOT_HELD;
	ok(!wrong && ended > 200 && flushed > 50 && lost > 10,
	   "%s: %u messages, %u WQEs flushed, %u lost at RESET: %u are wrong",
	   strict ? "strict" : "plain", ended, flushed, lost, wrong);
	ok(srq && srq->queue.consumer == taken &&
	   taken == ended + flushed + lost + held,
	   "each of %u WQEs ended once, or is held", taken);
	ok(told > 50, "LAST_WQE came %u times, once each", told);
	guest_stop(g);
}

int main(void)
{
	test_at_random(false);
	test_at_random(true);
	return done();
}
