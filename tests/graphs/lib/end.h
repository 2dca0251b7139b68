/* SPDX-License-Identifier: GPL-2.0 */
/* The ends that graphs come to: a batch of them in one process, each by itself. */
#ifndef END_H
#define END_H

#include <stdbool.h>

#include "graph.h"

#define MAX_BATCH	64

struct end {
	const char *name;
	bool slow;		/* the NIC goes, and has to come back */
	bool needs_control;	/* it is to break down on demand */
	bool breaks_making;	/* while the objects are made: any error is fine */

	/* What happens, in this order; NULL: nothing. */
	void (*prepare)(unsigned int chance);	/* before the process starts */
	void (*strike)(unsigned int chance, int pid);	/* all objects are there */
	/* In the process: the contexts are open. It ends after that, unless it waits. */
	void (*leave)(void);
	bool waits;		/* until the strike is over and looked at */
	void (*mend)(void);	/* the process is gone */
};

extern const struct end ends[];
extern const unsigned int num_ends;

const struct end *end_by_name(const char *name);

/*
 * Makes @count graphs and ends them; @chance is for what is random about the end.
 * Return: false with @why if one could not be made or something stays behind.
 */
bool end_graphs(const struct end *end, const struct graph *graphs,
		unsigned int count, unsigned int chance, char *why,
		unsigned int size);

#endif /* END_H */
