/* SPDX-License-Identifier: GPL-2.0 */
/* An MR that is paged on demand, with a device that asks for its pages: see paged.c. */
#ifndef MOOR_KUNIT_PAGED_H
#define MOOR_KUNIT_PAGED_H

#include <linux/completion.h>
#include <linux/mm.h>

#include "harness.h"

#define PAGED		(ALL_RIGHTS | IB_ACCESS_ON_DEMAND)
#define PAGES		8
#define LENGTH		(PAGES * PAGE_SIZE)
#define IOVA		0x123456000ULL
#define TO_WRITE	MOOR_PAGE_REQUEST_WRITE
#define RESPONDER	MOOR_PAGE_REQUEST_RESPONDER
#define REMOTE_WRITE	(MOOR_ACCESS_REMOTE_WRITE | MOOR_ACCESS_LOCAL_WRITE)

/* Advice, and its flag. */
#define PREFETCH	IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH
#define PREFETCH_WRITE	IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define NO_FAULT	IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
#define FLUSH		IB_UVERBS_ADVISE_MR_FLAG_FLUSH

/* An MR of LENGTH whose pages are untouched, a QP that faults, and their process. */
struct paged {
	struct kunit *test;
	struct moor_pair pair;
	struct ib_mr *mr;
	unsigned long addr;
	u32 token;
	long pinned;		/* without @mr */
};

/* A thread that holds mmap_lock, so that no fault in the process's memory goes on. */
struct paged_hog {
	struct mm_struct *mm;
	struct completion begun;
	struct completion over;
	struct completion gone;
};

/* A page whose faults wait for @come. */
struct paged_late {
	struct page *page;
	unsigned long addr;
	atomic_t asked;		/* faults that wait for it, or have waited */
	struct completion come;
};

struct ib_udata *paged_udata(struct kunit *test, struct moor_pair *pair);
struct ib_mr *paged_reg(struct paged *paged, u64 start, u64 length,
			u64 iova, int access);
struct paged *paged_open_bare(struct kunit *test);
struct paged *paged_open(struct kunit *test);
void paged_close(struct paged *paged);
struct moor_odp *paged_odp(struct paged *paged);
struct fake_page *paged_ask_for(struct paged *paged, u32 key, u64 addr,
				u32 length, u8 flags);
u8 paged_ask_key(struct paged *paged, u32 key, u64 addr, u32 length, u8 flags);
u8 paged_ask(struct paged *paged, u64 addr, u32 length, u8 flags);
int paged_touch(struct paged *paged, u64 addr, bool write);
u32 paged_invalidations(void);
void paged_expect_nodes(struct paged *paged, u32 nodes);
int paged_rereg(struct paged *paged, int flags, u64 start, u64 length,
		u64 iova, int access);
void paged_hog_queue(struct kunit *test, struct paged_hog *hog);
void paged_hog_start(struct kunit *test, struct paged_hog *hog);
void paged_hog_stop(struct paged_hog *hog);
unsigned long paged_map(struct kunit *test, const struct file_operations *ops,
			void *private, unsigned long at);
void paged_late_map(struct kunit *test, struct paged_late *late);
void paged_late_unmap(struct kunit *test, struct paged_late *late);
int paged_advise(struct paged *paged, u32 key, u64 addr, u32 length,
		 enum ib_uverbs_advise_mr_advice advice, u32 flags);

#endif /* MOOR_KUNIT_PAGED_H */
