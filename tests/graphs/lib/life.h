/* SPDX-License-Identifier: GPL-2.0 */
/* A graph that lives: its objects, in a context of their own. */
#ifndef LIFE_H
#define LIFE_H

#include "graph.h"
#include "window.h"

#define MAX_HOLDS	4

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
		int file;
	};
	struct side side;	/* a QP; or the one that binds for a PD */
	uint8_t *memory;
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

/* acts.c */
int act_binder(struct life *life, struct node *node);
int act_bind(struct life *life, struct node *node);
int act_unbind(struct life *life, struct node *node);
int act_rereg(struct life *life, struct node *node);
int act_rereg_pd(struct life *life, struct node *node);
int act_flush(struct life *life, struct node *node);
int act_disturb(struct life *life, struct node *node);
int act_free(struct life *life, struct node *node);

#endif /* LIFE_H */
