// SPDX-License-Identifier: GPL-2.0
/*
 * A message waits for a page at its responder, its requester goes, and the page fails. Then
 * another message has that PSN: FAILED is not of its pages (HWI ODP-13).
 */
#include "paged.h"

#define RESPONDER	MOOR_PAGE_REQUEST_RESPONDER
#define WAITS		4096u	/* where the first message is to go */
#define ELSEWHERE	(50 * 4096u)
#define LOCAL		(200 * 4096u)

static struct paged p;

static const struct {
	uint8_t opcode;
	const char *name;
} ops[] = {
	{ MOOR_WQE_SEND, "SEND" },
	{ MOOR_WQE_WRITE, "WRITE" },
	{ MOOR_WQE_FETCH_ADD, "FETCH_ADD" },
	{ MOOR_WQE_ATOMIC_WRITE, "ATOMIC_WRITE" },
	{ MOOR_WQE_READ, "READ" },
};

#define NUM_OPS		(sizeof(ops) / sizeof(ops[0]))

/* Eight bytes at @remote of side 1, which are aligned there. */
static void post(unsigned int op, uint64_t wr_id, uint32_t remote)
{
	if (ops[op].opcode == MOOR_WQE_SEND)
		paged_recv(&p, wr_id, remote, 8);
	paged_post(&p, ops[op].opcode, wr_id, LOCAL, remote, 8);
	ring(p.g, &p.qp[0]);
}

/* QP 0 goes to RESET. */
static void leave(void)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_RESET,
	};

	modify(p.g, &cmd, p.qp[0].qpn);
	p.qp[0].sq_producer = 0;
}

/* It comes back, with the PSN that QP 1 expects. */
static void come_back(void)
{
	struct moor_cmd_modify_qp cmd = { .mask = MOOR_QP_ATTR_SQ_PSN };

	connect_qp(p.g, &p.qp[0], p.qp[1].qpn);
	modify(p.g, &cmd, p.qp[0].qpn);
	paged_retries(&p, 0, 0);
}

static bool wait_and_fail(unsigned int op)
{
	struct moor_page_request r;

	post(op, 1, WAITS);
	if (!paged_request(&p, &r) || !(r.flags & RESPONDER))
		return false;
	leave();
	return !paged_answer(&p, r.token, MOOR_PAGE_FAILED);
}

/* The page of @op fails, and @other has its PSN. Return: whether it came so far. */
static bool start(bool strict, unsigned int op, unsigned int other, uint32_t remote)
{
	bool good;

	paged_start(&p, strict, MOOR_QP_RC);
	paged_in(&p, 0, 0, PAGED_PAGES, true);
	good = wait_and_fail(op);
	come_back();
	post(other, 2, remote);
	return good;
}

static void test_another(bool strict, unsigned int op, unsigned int other)
{
	struct moor_page_request r;
	bool good;

	good = start(strict, op, other, ELSEWHERE) && paged_request(&p, &r) &&
	       r.addr == paged_addr(1, ELSEWHERE);
	paged_in(&p, 1, 0, PAGED_PAGES, true);
	good = good && !paged_answer(&p, r.token, MOOR_PAGE_RESOLVED);
	ok(good && paged_got(&p, 0, MOOR_WC_SUCCESS, 2, 0),
	   "%s, then %s elsewhere", ops[op].name, ops[other].name);
	paged_stop(&p);
}

/* The same message: that is what the page failed for. */
static void test_the_same(bool strict, unsigned int op)
{
	struct moor_page_request r;
	struct moor_cqe cqe;
	bool good;

	good = start(strict, op, op, WAITS) && !paged_request(&p, &r);
	ok(good && poll_cq(p.g, &p.cq[0], &cqe) && cqe.wr_id == 2 && cqe.status,
	   "%s, and the same again", ops[op].name);
	paged_stop(&p);
}

int main(void)
{
	unsigned int strict, op, other;

	for (strict = 0; strict < 2; strict++) {
		for (op = 0; op < NUM_OPS - 1; op++) {
			/* A second SEND takes the receive of the first. */
			for (other = !op; other < NUM_OPS; other++)
				test_another(strict, op, other);
			test_the_same(strict, op);
		}
	}
	return done();
}
