/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queues, address handles and what they need: the make and end functions of struct kind
 * for the table in kinds.c.
 */
#ifndef QUEUES_H
#define QUEUES_H

#include "life.h"

#define QKEY		0x13572468u
#define INLINE_BYTES	32u	/* inline bytes that every QP takes */

/*
 * kinds.c: notes the PD that an object is in, also if that is an import or parent
 * domain.
 */
void hold_domain(struct node *node);

/* The path to this NIC itself, by a RoCE v2 GID. */
struct pair *own_path(struct ibv_context *ctx);
/* From RESET to RTS, or to RTR for an XRC target. Return: 0 or an errno. */
int connect_to(struct side *side, uint32_t peer);
int connect_to_itself(struct side *side);
/* Do two nodes stand for the same XRC domain? */
bool same_xrcd(const struct node *a, const struct node *b);
/*
 * For a child, while its parent is alive: opens all XRC targets whose domain has a
 * file, in a context of the child's own. have_targets() checks that they still exist.
 * Return: false if one cannot be opened.
 */
bool open_targets(struct life *life);
bool have_targets(void);
/*
 * Makes calls that these queues must refuse. Return: 0, or an errno if one was not
 * refused.
 */
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
