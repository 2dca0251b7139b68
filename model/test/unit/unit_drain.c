// SPDX-License-Identifier: GPL-2.0
/*
 * SQD while a request waits for those before it: that request has not begun, and does not
 * begin before RTS (HWI RC-16). A READ waits for a page as long as the test likes.
 */
#include <string.h>

#include "paged.h"

#define RESPONDER	MOOR_PAGE_REQUEST_RESPONDER
#define AT		5000u	/* in page 1 */
#define FAR		700000u
#define LEN		600000u
#define READ_PSNS	586u
#define PAGE		140u	/* in the third unit of the READ's answer */

static struct paged p;

/* What is behind the READ, and waits for its end. */
struct row {
	const char *name;
	uint8_t opcode;
	uint8_t flags;
	uint32_t num_psn;
};

static const struct row rows[] = {
	{ "WRITE, FENCE", MOOR_WQE_WRITE, MOOR_WQE_FLAG_FENCE, 3 },
	{ "SEND, FENCE", MOOR_WQE_SEND, MOOR_WQE_FLAG_FENCE, 3 },
	{ "READ beyond max_rd_atomic", MOOR_WQE_READ, 0, 3 },
	{ "FETCH_ADD beyond max_rd_atomic", MOOR_WQE_FETCH_ADD, 0, 1 },
	{ "LOCAL_INV", MOOR_WQE_LOCAL_INV, 0, 0 },
};

#define NUM_ROWS	(sizeof(rows) / sizeof(rows[0]))

static void set(unsigned int i, uint32_t mask, struct moor_cmd_modify_qp cmd)
{
	cmd.mask = mask;
	if (modify(p.g, &cmd, p.qp[i].qpn))
		ok(false, "MODIFY_QP");
	settle_timers(p.g, 100);
}

static void to_state(uint8_t state)
{
	set(0, MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_SQD_EVENT,
	    (struct moor_cmd_modify_qp){ .state = state });
}

/* Is QUERY_QP's answer this one? */
static bool queried(bool draining, uint32_t consumer, uint32_t psn)
{
	struct moor_cmd_query_qp cmd = {
		.hdr.opcode = MOOR_CMD_QUERY_QP, .qpn = p.qp[0].qpn,
	};
	const struct moor_cpl_query_qp *out = (const void *)p.g->cpl.out;

	if (!command(p.g, &cmd, sizeof(cmd)) && out->sq_draining == draining &&
	    out->sq_consumer == consumer && out->sq_psn == psn)
		return true;
	ok(false, "draining %u, consumer %u, PSN %u", out->sq_draining,
	   out->sq_consumer, out->sq_psn);
	return false;
}

static unsigned int drained_events(void)
{
	struct moor_eqe eqe;
	unsigned int n = 0;

	while (next_event(p.g, MOOR_EQ_ASYNC, &eqe))
		n += eqe.type == MOOR_EVENT_SQ_DRAINED;
	return n;
}

static void post_row(const struct row *row, uint64_t wr_id)
{
	struct moor_sq_wqe *wqe;

	if (row->opcode == MOOR_WQE_LOCAL_INV) {
		wqe = next_send(p.g, &p.qp[0], row->opcode, wr_id);
		/* No such key: whether it was looked at shows in the status. */
		wqe->inv_key = p.m[0].key ^ 0xff;
	} else if (row->opcode == MOOR_WQE_FETCH_ADD) {
		wqe = paged_post(&p, row->opcode, wr_id, FAR, FAR, 8);
		((struct moor_wqe_atomic *)(wqe + 1))->swap_add = 1;
	} else {
		wqe = paged_post(&p, row->opcode, wr_id, FAR, FAR, 3000);
	}
	wqe->flags |= row->flags;
}

/* The status with which such a request ends if it is carried out. */
static bool got_row(const struct row *row, uint64_t wr_id)
{
	return row->opcode == MOOR_WQE_LOCAL_INV ?
	       paged_got(&p, 0, MOOR_WC_MW_BIND_ERR, wr_id, MOOR_SYN_KEY) :
	       paged_got(&p, 0, MOOR_WC_SUCCESS, wr_id, 0);
}

/* READ 1 waits, with @row and a WRITE behind it, when the QP goes to SQD; then it ends. */
static bool drain(const struct row *row, int absent)
{
	uint8_t flags = absent ? RESPONDER : MOOR_PAGE_REQUEST_WRITE;
	bool good;
	int i;

	paged_start(&p, false, MOOR_QP_RC);
	for (i = 0; i < 2; i++) {
		paged_in(&p, i, 0, PAGED_PAGES, true);
		set(0, MOOR_QP_ATTR_MAX_RD_ATOMIC,
		    (struct moor_cmd_modify_qp){ .max_rd_atomic = 1 });
	}
	paged_out(&p, absent, PAGE, 1);
	paged_recv(&p, 10, FAR, 3000);
	paged_post(&p, MOOR_WQE_READ, 1, AT, AT, LEN);
	post_row(row, 2);
	paged_post(&p, MOOR_WQE_WRITE, 3, FAR + 50000, FAR + 50000, 64);
	ring(p.g, &p.qp[0]);
	to_state(MOOR_QPS_SQD);
	good = queried(true, 0, READ_PSNS) && !drained_events();
	paged_in(&p, absent, PAGE, 1, true);
	good = good && paged_let_go(&p, absent, PAGE * 4096 - PAGED_OFFSET, absent,
				    flags, MOOR_PAGE_RESOLVED);
	return good && paged_got(&p, 0, MOOR_WC_SUCCESS, 1, 0) &&
	       paged_same(&p, AT, AT, LEN);
}

/* The queue is drained without the request; in RTS it begins, and once. */
static void test_on(const struct row *row, int absent)
{
	bool good = drain(row, absent);

	ok(good && paged_quiet(&p, 0) && paged_quiet(&p, 1) &&
	   queried(false, 1, READ_PSNS) && drained_events() == 1 &&
	   !paged_same(&p, FAR, FAR, 64), "%s: it does not begin in SQD", row->name);
	to_state(MOOR_QPS_RTS);
	good = got_row(row, 2);
	if (row->num_psn)
		good = good && paged_got(&p, 0, MOOR_WC_SUCCESS, 3, 0) &&
		       queried(false, 3, READ_PSNS + row->num_psn + 1) &&
		       paged_same(&p, FAR + 50000, FAR + 50000, 64);
	if (row->opcode == MOOR_WQE_SEND)
		good = good && paged_got(&p, 1, MOOR_WC_SUCCESS, 10, 0);
	if (row->opcode == MOOR_WQE_FETCH_ADD)
		good = good && *(uint64_t *)paged_at(&p, 1, FAR) ==
			       *(uint64_t *)paged_at(&p, 0, FAR) + 1;
	else if (row->num_psn)
		good = good && paged_same(&p, FAR, FAR, 3000);
	ok(good && paged_quiet(&p, 1), "  and then it does, once");
	paged_stop(&p);
}

/* What has not begun is flushed, and has no PSN. */
static void test_flush(const struct row *row, int absent)
{
	bool good = drain(row, absent);

	to_state(MOOR_QPS_ERR);
	ok(good && paged_got(&p, 0, MOOR_WC_WR_FLUSH_ERR, 2, 0) &&
	   paged_got(&p, 0, MOOR_WC_WR_FLUSH_ERR, 3, 0) && paged_quiet(&p, 0) &&
	   queried(false, 3, READ_PSNS) && !paged_same(&p, FAR, FAR, 64),
	   "%s: in ERR it is flushed", row->name);
	paged_stop(&p);
}

/* As the last case, but straight from RTS: the READ is flushed too. */
static void test_error(const struct row *row)
{
	bool good;

	paged_start(&p, false, MOOR_QP_RC);
	paged_in(&p, 0, 0, PAGED_PAGES, true);
	paged_in(&p, 1, 0, PAGE, true);
	set(0, MOOR_QP_ATTR_MAX_RD_ATOMIC,
	    (struct moor_cmd_modify_qp){ .max_rd_atomic = 1 });
	paged_post(&p, MOOR_WQE_READ, 1, AT, AT, LEN);
	post_row(row, 2);
	ring(p.g, &p.qp[0]);
	to_state(MOOR_QPS_ERR);
	good = paged_got(&p, 0, MOOR_WC_WR_FLUSH_ERR, 1, 0) &&
	       paged_got(&p, 0, MOOR_WC_WR_FLUSH_ERR, 2, 0);
	ok(good && queried(false, 2, READ_PSNS), "%s: flushed, it has no PSN",
	   row->name);
	paged_stop(&p);
}

/* A request begins with what the QP has when it begins (HWI QP-10). */
static void test_attributes(void)
{
	const struct moor_cmd_modify_qp cmd = {
		.sq_psn = 0x500, .rq_psn = 0x500, .path_mtu = 1,
	};
	bool good = drain(&rows[0], 1);
	unsigned int i;

	for (i = 0; i < 2; i++)
		set(i, MOOR_QP_ATTR_SQ_PSN | MOOR_QP_ATTR_RQ_PSN |
		    MOOR_QP_ATTR_PATH_MTU, cmd);
	to_state(MOOR_QPS_RTS);
	ok(good && paged_got(&p, 0, MOOR_WC_SUCCESS, 2, 0) &&
	   paged_got(&p, 0, MOOR_WC_SUCCESS, 3, 0) &&
	   paged_same(&p, FAR, FAR, 3000) && queried(false, 3, 0x500 + 12 + 1),
	   "a new PSN and path MTU, set in SQD");
	paged_stop(&p);
}

/* One that waits for a page of its own has begun, and ends; refused then, it has no PSN. */
static void test_waits(uint8_t status)
{
	bool good;

	paged_start(&p, false, MOOR_QP_RC);
	paged_in(&p, 1, 0, PAGED_PAGES, true);
	paged_post(&p, MOOR_WQE_WRITE, 1, AT, AT, 64);
	ring(p.g, &p.qp[0]);
	to_state(MOOR_QPS_SQD);
	good = queried(true, 0, 1) && !drained_events();
	if (status == MOOR_PAGE_RESOLVED)
		paged_in(&p, 0, 0, PAGED_PAGES, true);
	good = good && paged_let_go(&p, 0, AT, 0, 0, status);
	if (status == MOOR_PAGE_RESOLVED)
		good = good && paged_got(&p, 0, MOOR_WC_SUCCESS, 1, 0) &&
		       drained_events() == 1 && queried(false, 1, 1);
	else
		good = good && paged_got(&p, 0, MOOR_WC_LOC_PROT_ERR, 1,
					 MOOR_SYN_TRANSLATION) &&
		       queried(false, 1, 0);
	ok(good, "who waits for a page, %u, ends in SQD", status);
	paged_stop(&p);
}

int main(void)
{
	unsigned int i;
	int absent;

	for (i = 0; i < NUM_ROWS; i++) {
		for (absent = 0; absent < 2; absent++) {
			test_on(&rows[i], absent);
			test_flush(&rows[i], absent);
		}
		test_error(&rows[i]);
	}
	test_attributes();
	test_waits(MOOR_PAGE_RESOLVED);
	test_waits(MOOR_PAGE_FAILED);
	return done();
}
