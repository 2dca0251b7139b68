/* SPDX-License-Identifier: GPL-2.0 */
/* Checks of fuzz target packets: memory, and the state of its two QPs. */
#ifndef FUZZ_PACKETS_H
#define FUZZ_PACKETS_H

#include "queue.h"

/* Pages without remote rights; and two pages that come and go, behind one key. */
#define PAGES_LOCAL	(PAGE_DATA + 6)
#define PAGES_PAGED	(PAGE_DATA + 14)
#define PAGED_KEY	(5u << 16 | 0x1200)
#define PAGED_IOVA	page_addr(PAGES_LOCAL)

/* Pages that the NIC has been told to forget, and must not write to. */
extern bool guarded[2];

void fill_memory(void);
void enter_regions(void);
void guard(unsigned int i);
void check_memory(void);
void check_guards(void);
/* A packet carries no secret. */
void check_secret(const void *from, size_t len);

/* Only posted WQEs complete, and once: @posted, and those in the queues. */
void check_books(uint32_t posted);
/* Return: whether the QP is at rest. */
bool rests(const struct qp *qp);

#endif /* FUZZ_PACKETS_H */
