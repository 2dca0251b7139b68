/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Figures: the median of what was taken, as a line of CSV that tests/perf/bench
 * completes: what, kind of memory, size, of what, whose, nanoseconds. They are
 * instructions where the guest's clock counts these (scripts/vm --icount).
 */
#ifndef FIGURES_H
#define FIGURES_H

#include <stdint.h>

#define ROUNDS_MAX	101

/* What one thing took, time after time. */
struct figure {
	uint64_t took[ROUNDS_MAX];
	int count;
};

/* A kind of figures; the default is figures of nothing in particular. */
struct sort {
	const char *kind;	/* of memory */
	uint64_t size;
	const char *of;		/* what the size counts */
};

uint64_t now_ns(void);
/* Notes what has passed since @start, and begins anew. */
void take(struct figure *figure, uint64_t *start);
/* Its median in a line, unless nothing was taken; it is empty then. */
void show(struct figure *figure, const char *what, const struct sort *sort,
	  const char *whose);

#endif /* FIGURES_H */
