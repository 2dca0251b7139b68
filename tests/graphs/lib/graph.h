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
#define MAX_KINDS	64
#define GRAPH_TEXT	1024

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
	QP		= 1 << 10,	/* has receives of its own */
	OBJECT		= 1 << 11,
	AH		= 1 << 12,
	DATAGRAMS	= 1 << 13,	/* a QP of type UD */
	SRQ		= 1 << 14,	/* not of XRC */
	XRC_SRQ		= 1 << 15,
	ANY_SRQ		= 1 << 16,
	SHARES		= 1 << 17,	/* a connected QP with an SRQ */
	RECEIVER	= 1 << 18,	/* a queue of receives, of which there is an account */
	DOMAIN		= 1 << 19,	/* of XRC */
	REQUESTER	= 1 << 20,
	RESPONDER	= 1 << 21,
	/* Acts, of which "use" does all that are possible. */
	MESSAGES	= 1 << 22,
	/* What decides which large graphs are enumerated: see enumerate.c. */
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

/* Which graphs are wanted. */
struct plan {
	unsigned int objects;	/* all of up to so many, and no others; 0: by the rule */
	unsigned int share;	/* of what the rule has a share of, one in so many */
	unsigned int turn;	/* which */
};

/*
 * Graphs of related objects, in all orders of making them, with each way to bind their
 * windows; and each again with messages that pass and the calls that are to be refused.
 * Which those are enumerate.c says. Stops when @visit returns false.
 *
 * Return: how many there are, those of other shares, too.
 */
unsigned int graph_each(const struct plan *plan,
			bool (*visit)(const struct graph *graph, void *arg), void *arg);

/* A large one: the same for the same @seed. */
void graph_random(struct graph *graph, uint64_t seed);

#endif /* GRAPH_H */
