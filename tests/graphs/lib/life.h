/* SPDX-License-Identifier: GPL-2.0 */
/* A graph that lives: its objects, in a context of their own. */
#ifndef LIFE_H
#define LIFE_H

#include "graph.h"
#include "window.h"

#define MAX_HOLDS	4

/* What a call made, in a node's member; 0 or an errno. */
#define made(member, call)	(((member) = (call)) ? 0 : errno ? errno : EIO)

/* A step that was taken. */
struct node {
	const struct kind *kind;
	struct node *need[MAX_NEEDS];
	/* Kernel objects that this one keeps from going; a bound window its MR. */
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
	struct side side;	/* a QP; or the one that binds for a PD */
	uint8_t *memory;
	/* Of messages: */
	bool up;		/* a QP that can send and receive, as far as is known */
	bool joined;		/* a QP that is in a group */
	unsigned int receives;	/* that are posted to a RECEIVER and not taken ... */
	bool contended;		/* ... unless messages wait there: nobody knows for how many */
};

struct life {
	struct ibv_context *ctx;
	struct ibv_context *imported;	/* the same device file once more */
	struct node node[MAX_STEPS];
	unsigned int count;
	char error[160];	/* what went wrong */
};

/* Opens @device. Return: false with life->error if a step did not come to what it has to. */
bool life_make(struct life *life, struct ibv_device *device,
	       const struct graph *graph);
/* ibv_close_device(), whatever is there. Return: 0 or an errno. */
int life_close(struct life *life);

/* kinds.c: the object that an import or a parent domain stands for. */
struct node *node_real(struct node *node);
bool node_in_use(const struct life *life, const struct node *node);

/* The PD that an object is in as things are. */
struct node *node_domain(struct node *node);
/* Is it in use, or in a group? Then kind->end() has to be refused, if it ever is. */
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
