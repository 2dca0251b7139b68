/* SPDX-License-Identifier: GPL-2.0 */
/* What must be as it was when everybody has gone. */
#ifndef COUNTS_H
#define COUNTS_H

/* Pages pinned now, of all processes. */
long pinned_pages(void);
/* Memory that the caller has pinned, as its status tells. */
long own_pinned_kib(void);
/* As the driver lists them; MRs of all memory are the kernel's, for its MADs too. */
int live_mrs(void);
int live_windows(void);
/* Test points: no MR, no window, no more pages pinned than @pinned. */
void expect_nothing_left(long pinned);

#endif /* COUNTS_H */
