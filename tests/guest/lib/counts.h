/* SPDX-License-Identifier: GPL-2.0 */
/* Counts that must be as before when all objects have gone. */
#ifndef COUNTS_H
#define COUNTS_H

/* Pages pinned at present, by all processes. */
long pinned_pages(void);
/* The caller's pinned memory, VmPin of its status. */
long own_pinned_kib(void);
/*
 * MRs that the driver lists, without those of all memory, which the kernel has for its
 * MADs.
 */
int live_mrs(void);
int live_windows(void);
/* Test points: no MR, no window, and no more than @pinned pages pinned. */
void expect_nothing_left(long pinned);

#endif /* COUNTS_H */
