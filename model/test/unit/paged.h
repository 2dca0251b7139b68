/* SPDX-License-Identifier: GPL-2.0 */
/* Two connected QPs with memory on demand (HWI 6.10), and a host that pages it. */
#ifndef TEST_PAGED_H
#define TEST_PAGED_H

#include "guest.h"

#define PAGED_PD	5
#define PAGED_RIGHTS	(MOOR_ACCESS_LOCAL_WRITE | MOOR_ACCESS_REMOTE_WRITE | \
			 MOOR_ACCESS_REMOTE_READ | \
			 MOOR_ACCESS_REMOTE_ATOMIC | MOOR_ACCESS_MW_BIND | \
			 MOOR_ACCESS_ON_DEMAND)
#define PAGED_PAGES	512u	/* one node of the table */
#define PAGED_SIZE	(PAGED_PAGES * 4096u)
#define PAGED_IOVA(i)	(0x7f0000000000ull + 0x100000000ull * (i))
#define PAGED_OFFSET	104u	/* of the MR's first byte in its first page */

/* Memory of side @i: its MR has PAGED_SIZE - PAGED_OFFSET bytes from PAGED_IOVA on. */
struct paged_memory {
	uint64_t pages;		/* DMA address of the first */
	uint64_t root, node;	/* of its table */
	uint32_t key;
};

struct paged {
	struct guest *g;
	struct guest_cq cq[2];
	struct guest_qp qp[2];
	struct paged_memory m[2];
	uint8_t mtu;
};

/* No page is present, and the QPs make no retries: a wait on the wire ends them. */
void paged_start(struct paged *p, bool strict, uint8_t type);
void paged_stop(struct paged *p);
void paged_fill(struct paged *p, int side, uint8_t seed);
/* Byte @off of the MR, as the host sees it, and as a work request names it. */
uint8_t *paged_at(struct paged *p, int side, uint32_t off);
uint64_t paged_addr(int side, uint32_t off);

/* Pages from @page on become present, writable or not; or absent. */
void paged_in(struct paged *p, int side, uint32_t page, uint32_t num,
	      bool writable);
void paged_out(struct paged *p, int side, uint32_t page, uint32_t num);
uint8_t paged_invalidate(struct paged *p, int side, uint64_t addr,
			 uint64_t length);

/*
 * Pages in what is asked for, a page at a time, till there are no requests. Return:
 * how many there were, all of this MR, QP and flags; 0: one was not.
 */
unsigned int paged_serve(struct paged *p, int mr, int qp, uint8_t flags);

/* The next request, or false. */
bool paged_request(struct paged *p, struct moor_page_request *request);
uint8_t paged_answer(struct paged *p, uint32_t token, uint8_t status);
/* Is @r as expected? Prints what is not. */
bool paged_is(struct paged *p, const struct moor_page_request *r, int mr,
	      uint32_t off, int qp, uint8_t flags);

/* Expects this request as the next one, and answers it. */
bool paged_let_go(struct paged *p, int mr, uint32_t off, int qp, uint8_t flags,
		  uint8_t status);
void paged_retries(struct paged *p, uint8_t retry_cnt, uint8_t rnr_retry);

struct moor_sge paged_sge(struct paged *p, int side, uint32_t off,
			  uint32_t len);
/* From (or, READ and atomics, to) byte @off of side 0, with byte @remote of side 1. */
struct moor_sq_wqe *paged_post(struct paged *p, uint8_t opcode, uint64_t wr_id,
			       uint32_t off, uint32_t remote, uint32_t len);
void paged_recv(struct paged *p, uint64_t wr_id, uint32_t off, uint32_t len);
/* Expects one CQE at this side, with these values. */
bool paged_got(struct paged *p, int side, uint8_t status, uint64_t wr_id,
	       uint8_t syndrome);
bool paged_quiet(struct paged *p, int side);
bool paged_same(struct paged *p, uint32_t off, uint32_t remote, uint32_t len);

#endif /* TEST_PAGED_H */
