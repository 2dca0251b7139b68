/* SPDX-License-Identifier: GPL-2.0 */
/* What fuzz target packets watches: memory, and the books of its two QPs. */
#ifndef FUZZ_PACKETS_H
#define FUZZ_PACKETS_H

#include "queue.h"

/* Written by who has it alone; and two pages that come and go, behind one key. */
#define PAGES_LOCAL	(PAGE_DATA + 6)
#define PAGES_PAGED	(PAGE_DATA + 14)
#define PAGED_KEY	(5u << 16 | 0x1200)
#define PAGED_IOVA	page_addr(PAGES_LOCAL)

/* Pages that the NIC has been told to forget: nobody writes there. */
extern bool guarded[2];

void fill_memory(void);
void enter_regions(void);
void guard(unsigned int i);
void check_memory(void);
void check_guards(void);
/* What a packet carries is nothing that it may not. */
void check_secret(const void *from, size_t len);

/* No WQE completes twice, and none that nobody posted: @posted, and what is in the queues. */
void check_books(uint32_t posted);
/* Nothing that may be lost is waited for without a timer. */
bool rests(const struct qp *qp);

#endif /* FUZZ_PACKETS_H */
