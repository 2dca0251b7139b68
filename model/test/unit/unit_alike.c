// SPDX-License-Identifier: GPL-2.0
/*
 * On-demand paging is not seen in results (HWI 6.10): random requests end with the same
 * statuses, and leave the same memory, if all pages are there as if some come only while
 * the NIC is at work, and others go.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "paged.h"

#define ROUNDS		60u	/* of each kind */
#define MAX_OPS		6u
#define QUANTUM_NS	60000u	/* so long that the NIC serves one QP and comes back */

enum mistake { NONE, LOCAL_KEY, REMOTE_KEY, SHORT_RECEIVE };

struct op {
	uint8_t opcode, flags;
	enum mistake mistake;
	uint32_t off, len;	/* the same bytes of both sides, no other request's */
};

struct outcome {
	uint8_t sent[MAX_OPS], received[MAX_OPS];	/* statuses; 0xff: none */
	unsigned int requests;				/* for pages */
	uint8_t *memory[2];
};

static struct paged p;
static struct random dice;
static struct op ops[MAX_OPS];
static unsigned int num_ops;

static uint32_t below(uint32_t n)
{
	return random_below(&dice, n);
}

static bool takes_receive(const struct op *op)
{
	return op->opcode == MOOR_WQE_SEND || op->opcode == MOOR_WQE_WRITE_IMM;
}

static uint32_t any_length(void)
{
	switch (below(3)) {
	case 0: return 1 + below(300);
	case 1: return 1 + below(12000);
	default: return 200000 + below(500000);
	}
}

static void make_ops(bool with_mistake)
{
	static const uint8_t opcodes[] = {
		MOOR_WQE_READ, MOOR_WQE_READ, MOOR_WQE_WRITE, MOOR_WQE_SEND,
		MOOR_WQE_WRITE_IMM, MOOR_WQE_FETCH_ADD, MOOR_WQE_ATOMIC_WRITE,
	};
	uint32_t off = 0;
	unsigned int i;

	num_ops = 2 + below(MAX_OPS - 1);
	for (i = 0; i < num_ops; i++) {
		struct op *op = &ops[i];

		*op = (struct op){
			.opcode = opcodes[below(sizeof(opcodes))],
			.flags = MOOR_WQE_FLAG_SIGNALED |
				 (below(4) ? 0 : MOOR_WQE_FLAG_FENCE),
			.off = off, .len = any_length(),
		};
		if (op->opcode == MOOR_WQE_FETCH_ADD || op->opcode == MOOR_WQE_ATOMIC_WRITE)
			op->len = 8;
		else if (off + op->len > PAGED_SIZE - 2 * 4096)
			op->len = 1 + below(100);
		off = (off + op->len + 23) & ~7u;
	}
	if (!with_mistake)
		return;
	i = below(num_ops);
	ops[i].mistake = LOCAL_KEY + below(2);
	if (ops[i].opcode == MOOR_WQE_SEND)
		ops[i].mistake = below(2) ? LOCAL_KEY : SHORT_RECEIVE;
}

static void post(unsigned int i)
{
	const struct op *op = &ops[i];
	uint32_t half = op->opcode != MOOR_WQE_FETCH_ADD ? op->len / 3 : 0;
	struct moor_sq_wqe *wqe;

	if (takes_receive(op))
		paged_recv(&p, i, op->off,
			   op->mistake == SHORT_RECEIVE ? op->len - 1 : op->len);
	wqe = paged_post(&p, op->opcode, i, op->off + half, op->off, op->len - half);
	wqe->flags = op->flags;
	if (op->mistake == REMOTE_KEY)
		wqe->rkey ^= htole32(1);
	if (op->opcode == MOOR_WQE_FETCH_ADD)
		((struct moor_wqe_atomic *)(wqe + 1))->swap_add = htole64(3);
	else
		add_sge(wqe, paged_sge(&p, 0, op->off, half));
	if (op->mistake == LOCAL_KEY)
		((struct moor_sge *)((uint8_t *)(wqe + 1) +
			(op->opcode == MOOR_WQE_FETCH_ADD ?
			 sizeof(struct moor_wqe_atomic) : 0)))->lkey ^= htole32(1);
}

/* A page comes that the NIC has asked for, and perhaps some behind it. */
static bool serve(void)
{
	struct moor_cmd_page_response answer = { .hdr.opcode = MOOR_CMD_PAGE_RESPONSE };
	struct moor_page_request r;
	uint32_t page;
	int side;

	if (!paged_request(&p, &r))
		return false;
	side = r.key == htole32(p.m[1].key);
	page = (uint32_t)(le64toh(r.addr) - paged_addr(side, 0) + PAGED_OFFSET) / 4096;
	paged_in(&p, side, page, page < PAGED_PAGES - 4 ? 1 + below(3) : 1, true);
	answer.token = r.token;
	send_command(p.g, &answer, sizeof(answer));
	return true;
}

static void take_away(void)
{
	struct moor_cmd_mr_invalidate cmd = { .hdr.opcode = MOOR_CMD_MR_INVALIDATE };
	uint32_t page = 1 + below(PAGED_PAGES - 2);
	int side = (int)below(2);

	cmd.key = htole32(p.m[side].key);
	cmd.addr = htole64(paged_addr(side, page * 4096 - PAGED_OFFSET));
	cmd.length = htole64(4096);
	paged_out(&p, side, page, 1);
	send_command(p.g, &cmd, sizeof(cmd));
}

/* Everything, with pages that come and go between what the NIC does. */
static void work(struct outcome *outcome, bool absent)
{
	unsigned int idle = 0, turns;

	for (turns = 0; idle < 50 && turns < 4000; turns++) {
		bool more = nic_run(p.g->nic);

		if (absent && turns < 400 && !below(20))
			take_away();
		if (absent && (!more || !below(3)) && serve()) {
			outcome->requests++;
			more = true;
		}
		idle = more ? 0 : idle + 1;
	}
	settle_timers(p.g, 1000);
}

static void collect(struct outcome *outcome)
{
	struct moor_cqe cqe;
	int i;

	memset(outcome->sent, 0xff, sizeof(outcome->sent));
	memset(outcome->received, 0xff, sizeof(outcome->received));
	while (poll_cq(p.g, &p.cq[0], &cqe))
		outcome->sent[cqe.wr_id] = cqe.status;
	while (poll_cq(p.g, &p.cq[1], &cqe))
		outcome->received[cqe.wr_id] = cqe.status;
	for (i = 0; i < 2; i++) {
		outcome->memory[i] = malloc(PAGED_SIZE);
		if (!outcome->memory[i])
			abort();
		memcpy(outcome->memory[i], at(p.g, p.m[i].pages), PAGED_SIZE);
	}
}

static void run(struct outcome *outcome, bool strict, bool absent)
{
	unsigned int i;
	int side;

	*outcome = (struct outcome){ 0 };
	paged_start(&p, strict, MOOR_QP_RC);
	paged_retries(&p, 3, 7);
	for (side = 0; side < 2; side++) {
		paged_in(&p, side, 0, PAGED_PAGES, true);
		for (i = 0; absent && i < PAGED_PAGES; i++)
			if (!below(40))
				paged_out(&p, side, i, 1);
	}
	for (i = 0; i < num_ops; i++)
		post(i);
	announce(p.g, &p.qp[0]);
	work(outcome, absent);
	collect(outcome);
	paged_stop(&p);
}

/* Of requests that are refused parts may have been written. */
static bool are_alike(const struct outcome *a, const struct outcome *b, bool with_mistake)
{
	return !memcmp(a->sent, b->sent, sizeof(a->sent)) &&
	       !memcmp(a->received, b->received, sizeof(a->received)) &&
	       (with_mistake || (!memcmp(a->memory[0], b->memory[0], PAGED_SIZE) &&
				 !memcmp(a->memory[1], b->memory[1], PAGED_SIZE)));
}

static void forget(struct outcome *outcome)
{
	free(outcome->memory[0]);
	free(outcome->memory[1]);
}

static void test(bool strict, bool with_mistake)
{
	unsigned int i, good = 0, requests = 0;

	for (i = 0; i < ROUNDS; i++) {
		struct outcome present, absent;

		random_seed(&dice, 2 * i + 1000 * with_mistake);
		make_ops(with_mistake);
		run(&present, strict, false);
		run(&absent, strict, true);
		if (are_alike(&present, &absent, with_mistake))
			good++;
		else
			ok(false, "round %u", i);
		requests += absent.requests;
		forget(&present);
		forget(&absent);
	}
	ok(good == ROUNDS && requests > ROUNDS, "%u of %u end alike, %s, with %u page requests",
	   good, ROUNDS, with_mistake ? "one of them mistaken" : "all of them good", requests);
}

int main(void)
{
	unsigned int i;

	clock_step_ns = QUANTUM_NS;
	for (i = 0; i < 4; i++)
		test(i & 1, i & 2);
	return done();
}
