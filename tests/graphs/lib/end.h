/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How graphs end. A batch of them is in one process, each graph in a context of its
 * own.
 */
#ifndef END_H
#define END_H

#include <stdbool.h>

#include "graph.h"

#define MAX_BATCH	64

struct end {
	const char *name;
	bool slow;		/* the NIC goes away and has to come back */
	bool needs_control;	/* needs the model's control socket */
	bool breaks_making;	/* faults while objects are made: any error is fine */

	/* Called in this order; NULL: nothing to do. */
	void (*prepare)(unsigned int chance);	/* before the process starts */
	void (*strike)(unsigned int chance, int pid);	/* when all objects exist */
	/*
	 * In the process, whose contexts are open. It exits after that, unless @waits
	 * is set.
	 */
	void (*leave)(void);
	bool waits;		/* the process stays until the strike is checked */
	void (*mend)(void);	/* when the process is gone */
};

extern const struct end ends[];
extern const unsigned int num_ends;

const struct end *end_by_name(const char *name);

/*
 * Makes @count graphs in one process and ends them; @chance seeds what is random about
 * that. Return: false with @why if a graph could not be made or something stays behind.
 */
bool end_graphs(const struct end *end, const struct graph *graphs,
		unsigned int count, unsigned int chance, char *why,
		unsigned int size);

#endif /* END_H */
