// SPDX-License-Identifier: GPL-2.0
/* Who waits for a page, and what becomes of it (HWI ODP-9 to ODP-17). */
#include <string.h>

#include "paged.h"

#define WRITE		MOOR_PAGE_REQUEST_WRITE
#define RESPONDER	MOOR_PAGE_REQUEST_RESPONDER

static struct paged p;

/*
 * Pages in what is asked for, a page at a time, till nobody asks. Return: how
 * many requests there were; all of them of this MR, QP and flags.
 */
static unsigned int serve(int mr, int qp, uint8_t flags)
{
	struct moor_page_request r;
	unsigned int count = 0;

	settle_timers(p.g, 100);
	while (paged_request(&p, &r)) {
		uint32_t off = (uint32_t)(r.addr - paged_addr(mr, 0));

		if (!paged_is(&p, &r, mr, off, qp, flags))
			return 0;
		paged_in(&p, mr, (off + PAGED_OFFSET) / 4096, 1, true);
		if (paged_answer(&p, r.token, MOOR_PAGE_RESOLVED)) {
			ok(false, "PAGE_RESPONSE");
			return 0;
		}
		count++;
		settle_timers(p.g, 100);
	}
	return count;
}

static void all_in(int side)
{
	paged_in(&p, side, 0, PAGED_PAGES, true);
}

/* A row of the table of ODP-15: an operation, and whose memory is missing. */
struct row {
	const char *name;
	uint8_t opcode;
	int absent;		/* side */
	uint8_t flags;		/* of the requests */
};

static const struct row rows[] = {
	{ "WRITE, requester", MOOR_WQE_WRITE, 0, 0 },
	{ "SEND, requester", MOOR_WQE_SEND, 0, 0 },
	{ "READ, requester", MOOR_WQE_READ, 0, WRITE },
	{ "WRITE, responder", MOOR_WQE_WRITE, 1, WRITE | RESPONDER },
	{ "WRITE_IMM, responder", MOOR_WQE_WRITE_IMM, 1, WRITE | RESPONDER },
	{ "SEND, responder", MOOR_WQE_SEND, 1, WRITE | RESPONDER },
	{ "READ, responder", MOOR_WQE_READ, 1, RESPONDER },
};

static bool takes_receive(uint8_t opcode)
{
	return opcode == MOOR_WQE_SEND || opcode == MOOR_WQE_WRITE_IMM;
}

/* @len bytes, no more than one page at a time: all arrive, nobody loses patience. */
static void one_row(const struct row *row, bool strict, uint32_t len)
{
	unsigned int pages = (PAGED_OFFSET + 5000 % 4096 + len + 4095) / 4096, n;
	bool received;

	paged_start(&p, strict, MOOR_QP_RC);
	all_in(!row->absent);
	paged_recv(&p, 1, 5000, len);
	paged_post(&p, row->opcode, 2, 5000, 5000, len);
	ring(p.g, &p.qp[0]);
	ok(paged_quiet(&p, 0) && paged_quiet(&p, 1), "%s: it waits", row->name);
	n = serve(row->absent, row->absent, row->flags);
	received = !takes_receive(row->opcode) ||
		   paged_got(&p, 1, MOOR_WC_SUCCESS, 1, 0);
	ok(n == pages && received && paged_got(&p, 0, MOOR_WC_SUCCESS, 2, 0) &&
	   paged_same(&p, 5000, 5000, len) && paged_quiet(&p, 0) &&
	   paged_quiet(&p, 1), "%s: %u bytes arrive, %u requests of %u",
	   row->name, len, n, pages);
	paged_stop(&p);
}

int main(void)
{
	unsigned int i, strict;

	for (strict = 0; strict < 2; strict++)
		for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			one_row(&rows[i], strict, 64);
			one_row(&rows[i], strict, 600000);
		}
	return done();
}
