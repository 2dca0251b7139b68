/* SPDX-License-Identifier: GPL-2.0 */
/* Two QPs, each with memory on demand, and a host that pages it (HWI 6.10). */
#ifndef CONFORMANCE_PAGED_H
#define CONFORMANCE_PAGED_H

#include "traffic.h"

#define PAGES		16u
#define PAGED_RIGHTS	(ALL_RIGHTS | MOOR_ACCESS_ON_DEMAND)

/* @pages: filled with seeds 1 and 2; the MRs have them at paged_addr(side, 0). */
struct paged {
	struct pair pair;
	uint64_t pages[2];
	uint64_t root[2], node[2];	/* of tables of two levels */
	uint32_t key[2];
};

/* Makes RC QPs and EQ 1; no page is present. */
void make_paged(struct paged *p);
void make_paged_type(struct paged *p, uint8_t type);
uint64_t paged_addr(unsigned int side, uint64_t off);
struct moor_mr_context paged_entry(const struct paged *p, unsigned int side);

void page_in(struct paged *p, unsigned int side, uint64_t page,
	     unsigned int num, bool writable);
void page_out(struct paged *p, unsigned int side, uint64_t page,
	      unsigned int num);
/* Return: the command's status. */
uint8_t invalidate(uint32_t key, uint64_t addr, uint64_t length);

/* A work request of QP 0, between byte @local of side 0 and @remote of side 1. */
void paged_post(struct paged *p, uint8_t opcode, uint64_t wr_id, uint64_t local,
		uint64_t remote, uint32_t len);
void paged_recv(struct paged *p, uint64_t wr_id, uint64_t off, uint32_t len);

/* Expects a page request for byte @off of @side, by this half of QP @qp. */
struct moor_page_request expect_request(struct paged *p, unsigned int side,
					uint64_t off, unsigned int qp,
					uint8_t flags);
uint8_t answer_request(uint32_t token, uint8_t status);
void must_answer(uint32_t token, uint8_t status);

/* Waits longer than any time-out of a QP; nothing may complete meanwhile. */
void while_it_waits(struct paged *p);

#endif /* CONFORMANCE_PAGED_H */
