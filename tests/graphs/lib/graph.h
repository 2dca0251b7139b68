/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Graphs of objects: kinds of steps, the text form, enumerating small graphs and making
 * random large ones. A graph is a list of steps in the order in which a process takes
 * them; each names its kind and the earlier steps that it needs. As text:
 *
 *	pd,dm,dm_mr.0.1,mw1.0,bind.3.2
 *
 * is a PD, on-NIC memory, an MR over that in PD 0, a window of type 1 in it, and
 * the window (step 3) bound to the MR (step 2).
 */
#ifndef GRAPH_H
#define GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_NEEDS	3
#define MAX_STEPS	32
#define MAX_KINDS	64
#define GRAPH_TEXT	1024

/* What later steps can use a step as. */
enum role {
	KERNEL_PD	= 1 << 0,
	IMPORTED_PD	= 1 << 1,
	ANY_PD		= 1 << 2,
	KERNEL_MR	= 1 << 3,	/* of memory: can be re-registered */
	TARGET		= 1 << 4,	/* an MR that windows can be bound to */
	KERNEL_DM	= 1 << 5,
	ANY_DM		= 1 << 6,
	WINDOW		= 1 << 7,
	CHANNEL		= 1 << 8,
	CQ		= 1 << 9,
	QP		= 1 << 10,	/* has receives of its own */
	OBJECT		= 1 << 11,
	AH		= 1 << 12,
	DATAGRAMS	= 1 << 13,	/* a QP of type UD */
	SRQ		= 1 << 14,	/* not of XRC */
	XRC_SRQ		= 1 << 15,
	ANY_SRQ		= 1 << 16,
	SHARES		= 1 << 17,	/* a connected QP with an SRQ */
	RECEIVER	= 1 << 18,	/* a queue whose posted receives are counted */
	DOMAIN		= 1 << 19,	/* of XRC */
	REQUESTER	= 1 << 20,
	RESPONDER	= 1 << 21,
	/* Acts with messages; the act "use" does all of these that are possible. */
	MESSAGES	= 1 << 22,
	/* Groups of kinds, by which enumerate.c decides what larger graphs to visit. */
	FURTHER		= 1 << 23,
	PART		= 1 << 24,
	WHOLE_XRC	= 1 << 25,
};

struct step {
	uint8_t kind;			/* index of kinds[] */
	uint8_t need[MAX_NEEDS];	/* indices of earlier steps */
};

struct graph {
	unsigned int count;
	struct step step[MAX_STEPS];
};

struct life;
struct node;

struct kind {
	const char *name;
	enum role roles;
	enum role needs[MAX_NEEDS];	/* a role each; 0: no more */
	/*
	 * Returns 0 or an errno. Acts, the kinds that are no OBJECTs, leave no object
	 * of their own.
	 */
	int (*make)(struct life *life, struct node *node);
	/* Gives an object back; 0 or an errno. */
	int (*end)(struct node *node);
	/* While in use @end fails with EBUSY, from the kernel or from libibverbs. */
	bool refuses;
};

extern const struct kind kinds[];
extern const unsigned int num_kinds;

/* Return: -1 if there is none of this name. */
int kind_by_name(const char *name);

/* Return: false, with @why, if @text is no graph. */
bool graph_parse(struct graph *graph, const char *text, char *why, size_t size);
const char *graph_text(const struct graph *graph, char text[GRAPH_TEXT]);
/* The step that makes the kernel's PD of a step; MAX_STEPS: it has none. */
unsigned int graph_domain(const struct graph *graph, unsigned int step);
/*
 * @rest is @graph without a step and all that need it. Return: false if that is empty.
 */
bool graph_without(const struct graph *graph, unsigned int step,
		   struct graph *rest);

/* Which graphs graph_each() visits. */
struct plan {
	unsigned int objects;	/* all graphs of up to so many; 0: by rules[] */
	unsigned int share;	/* of graphs of shared rules, one in so many */
	unsigned int turn;	/* which of these shares */
};

/*
 * Visits graphs of related objects, in all orders of making them, with each way to bind
 * their windows; and each graph again with messages that pass and the calls that are to
 * be refused. rules[] in enumerate.c says which. Stops when @visit returns false.
 *
 * Return: the number of graphs, those of other shares included.
 */
unsigned int graph_each(const struct plan *plan,
			bool (*visit)(const struct graph *graph, void *arg), void *arg);

/* Makes a large graph, the same one for the same @seed. */
void graph_random(struct graph *graph, uint64_t seed);

#endif /* GRAPH_H */
