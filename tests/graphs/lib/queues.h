/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queues, what they need, and address handles: for the table in kinds.c how each is made
 * and ended, as struct kind has it.
 */
#ifndef QUEUES_H
#define QUEUES_H

#include "life.h"

#define QKEY		0x13572468u
#define INLINE_BYTES	32u	/* that every QP has room for */

/* kinds.c: an object in a domain, perhaps through a name of it that is libibverbs' only. */
void hold_domain(struct node *node);

/* The way to this NIC itself, by a RoCE v2 GID. */
struct pair *own_path(struct ibv_context *ctx);
/* From RESET to RTS, or to RTR if the QP only answers. Return: 0 or an errno. */
int connect_to(struct side *side, uint32_t peer);
int connect_to_itself(struct side *side);
/* Do two nodes stand for one XRC domain? */
bool same_xrcd(const struct node *a, const struct node *b);
/*
 * For another process, while the maker is there: all XRC targets of a domain that has a
 * file, in a context of this one's own. And whether they are still there. Return: false
 * if not.
 */
bool open_targets(struct life *life);
bool have_targets(void);
/* What these queues are never to do. Return: 0, or an errno if it was not refused. */
int disturb_queue(struct life *life, struct node *node);

int make_ah(struct life *life, struct node *node);
int make_channel(struct life *life, struct node *node);
int make_cq(struct life *life, struct node *node);
int make_cq_on(struct life *life, struct node *node);
int make_qp(struct life *life, struct node *node);
int make_uc(struct life *life, struct node *node);
int make_ud(struct life *life, struct node *node);
int make_srq(struct life *life, struct node *node);
int make_rc_srq(struct life *life, struct node *node);
int make_ud_srq(struct life *life, struct node *node);
int make_xrcd(struct life *life, struct node *node);
int make_xrcd_file(struct life *life, struct node *node);
int make_xrc_srq(struct life *life, struct node *node);
int make_ini(struct life *life, struct node *node);
int make_tgt(struct life *life, struct node *node);
int make_open_tgt(struct life *life, struct node *node);

int end_ah(struct node *node);
int end_channel(struct node *node);
int end_cq(struct node *node);
int end_qp(struct node *node);
int end_srq(struct node *node);
int end_xrcd(struct node *node);

#endif /* QUEUES_H */
