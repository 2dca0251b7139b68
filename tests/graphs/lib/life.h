/* SPDX-License-Identifier: GPL-2.0 */
/* A graph in being: the objects of its steps, in a context of their own. */
#ifndef LIFE_H
#define LIFE_H

#include "graph.h"
#include "window.h"

#define MAX_HOLDS	4

/* Stores the object that @call returns in a node's @member. Gives 0 or an errno. */
#define made(member, call)	(((member) = (call)) ? 0 : errno ? errno : EIO)

/* A step that has been taken. */
struct node {
	const struct kind *kind;
	struct node *need[MAX_NEEDS];
	/* Kernel objects that have to outlive this one; for a bound window, its MR. */
	struct node *holds[MAX_HOLDS];
	struct node *of;	/* what an import or a parent domain stands for */
	bool live;
	union {
		struct ibv_pd *pd;
		struct ibv_mr *mr;
		struct ibv_dm *dm;
		struct ibv_mw *mw;
		struct ibv_ah *ah;
		struct ibv_comp_channel *channel;
		struct ibv_cq *cq;
		struct ibv_srq *srq;
		struct ibv_xrcd *xrcd;
		int file;
	};
	struct side side;	/* of a QP; of a PD: the QP that binds for it */
	uint8_t *memory;
	/* For messages: */
	bool up;		/* the QP can send and receive, as far as is known */
	bool joined;		/* the QP is in a multicast group */
	unsigned int receives;	/* posted to a RECEIVER, not taken as far as known */
	bool contended;		/* waiting messages may take any number of these */
};

struct life {
	struct ibv_context *ctx;
	struct ibv_context *imported;	/* the same device file, imported */
	struct node node[MAX_STEPS];
	unsigned int count;
	char error[160];	/* what went wrong */
};

/* Opens @device and takes the steps. Return: false, with life->error, if one failed. */
bool life_make(struct life *life, struct ibv_device *device,
	       const struct graph *graph);
/* Closes the contexts with all objects still in them. Return: 0 or an errno. */
int life_close(struct life *life);

/* kinds.c: the object that an import or a parent domain stands for, or @node itself. */
struct node *node_real(struct node *node);
bool node_in_use(const struct life *life, const struct node *node);

/* The PD that an object is in at present. */
struct node *node_domain(struct node *node);
/*
 * Is it in use, or in a group? If so, and if its kind @refuses, kind->end() must fail.
 */
bool node_must_stay(const struct life *life, const struct node *node);

/* acts.c */
int act_binder(struct life *life, struct node *node);
int act_bind(struct life *life, struct node *node);
int act_unbind(struct life *life, struct node *node);
int act_rereg(struct life *life, struct node *node);
int act_rereg_pd(struct life *life, struct node *node);
int act_disturb(struct life *life, struct node *node);
int act_free(struct life *life, struct node *node);

/* messages.c */
int act_flush(struct life *life, struct node *node);
int act_post(struct life *life, struct node *node);
int act_limit(struct life *life, struct node *node);
int act_resize(struct life *life, struct node *node);
int act_send(struct life *life, struct node *node);
int act_datagram(struct life *life, struct node *node);
int act_join(struct life *life, struct node *node);
int act_xrc(struct life *life, struct node *node);
int act_use(struct life *life, struct node *node);

#endif /* LIFE_H */
