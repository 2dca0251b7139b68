/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Figures: medians, each printed as a line of CSV that tests/perf/bench
 * completes: what was measured, kind of memory, size, what the size counts,
 * device, nanoseconds. They are instructions where the guest's clock counts
 * these (scripts/vm --icount).
 */
#ifndef FIGURES_H
#define FIGURES_H

#include <stdint.h>

#define ROUNDS_MAX	101

/* The times that one operation took. */
struct figure {
	uint64_t took[ROUNDS_MAX];
	int count;
};

/*
 * What a figure is about beside the operation. @plain: nothing in particular.
 */
struct sort {
	const char *kind;	/* of memory */
	uint64_t size;
	const char *of;		/* what the size counts */
};

uint64_t now_ns(void);
/* Notes the time since @start, and sets @start to now. */
void take(struct figure *figure, uint64_t *start);
/* Prints the median of @figure, if that is not empty, and empties it. */
void show(struct figure *figure, const char *what, const struct sort *sort,
	  const char *whose);

#endif /* FIGURES_H */
