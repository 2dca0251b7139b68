/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Graphs of objects: what they are made of, their text, all small ones and random
 * large ones. A graph is a list of steps in the order in which a process takes
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
#define GRAPH_TEXT	512

/* What a step can be to later ones. */
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
	QP		= 1 << 10,
	OBJECT		= 1 << 11,
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
	/* 0 or an errno. Acts, which are no OBJECTs, leave nothing of their own. */
	int (*make)(struct life *life, struct node *node);
	/* Gives an object back; 0 or an errno. */
	int (*end)(struct node *node);
	/* In use it cannot be ended: the kernel or libibverbs says EBUSY. */
	bool refuses;
};

extern const struct kind kinds[];
extern const unsigned int num_kinds;

/* Return: -1 if there is none of this name. */
int kind_by_name(const char *name);

/* Return: false if it is not a graph; @why is filled in then. */
bool graph_parse(struct graph *graph, const char *text, char *why, size_t size);
const char *graph_text(const struct graph *graph, char text[GRAPH_TEXT]);
/* The PD of the kernel that a step belongs to; MAX_STEPS: none. */
unsigned int graph_domain(const struct graph *graph, unsigned int step);
/* Without a step and all that need it. Return: false if nothing would be left. */
bool graph_without(const struct graph *graph, unsigned int step,
		   struct graph *rest);

/*
 * All graphs of up to @objects related objects, in all orders of making them, with
 * each way to bind their windows; and each again with the calls in between that
 * are to be refused. Stops when @visit returns false.
 */
void graph_each(unsigned int objects,
		bool (*visit)(const struct graph *graph, void *arg), void *arg);

/* A large one: the same for the same @seed. */
void graph_random(struct graph *graph, uint64_t seed);

#endif /* GRAPH_H */
