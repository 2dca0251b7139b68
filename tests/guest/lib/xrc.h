/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Extended reliable connections (HWI 12.6): a requester, a target, and SRQs of their
 * domain.
 */
#ifndef XRC_H
#define XRC_H

#include "pair.h"

#define XRC_SIZE	256u		/* of a message */
#define XRC_DEPTH	8u		/* of an SRQ */
#define XRC_BUF		16384u

/* Where messages arrive: an SRQ with a CQ, a PD and memory of its own. */
struct inbox {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	uint8_t *buf;
	uint32_t number;
};

struct xrc {
	struct pair pair;		/* only GID and PSN are used */
	struct ibv_context *ctx;
	struct ibv_xrcd *xrcd;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *buf;
	struct side ini, tgt;
	struct inbox inbox[2];
};

/* These return NULL, with errno, on failure. */
struct ibv_xrcd *open_domain(struct ibv_context *ctx, int fd, int flags);
struct ibv_srq_init_attr_ex srq_attr(struct ibv_pd *pd, struct ibv_xrcd *xrcd,
				     struct ibv_cq *cq);
struct ibv_qp *make_target(struct ibv_context *ctx, struct ibv_xrcd *xrcd);
struct ibv_qp *open_target(struct ibv_context *ctx, struct ibv_xrcd *xrcd,
			   uint32_t number);

void open_inbox(struct inbox *in, struct ibv_context *ctx, struct ibv_xrcd *xrcd,
		int access);
void close_inbox(struct inbox *in);
/* Posts receive @n, into its own place of the buffer. */
int post_inbox(struct inbox *in, uint32_t n);

/* Makes everything but the target and the inboxes; @ops are IBV_QP_EX_WITH_*. */
void open_requester(struct xrc *x, struct ibv_context *ctx, int fd, uint64_t ops);
void close_requester(struct xrc *x);
int connect_one(struct xrc *x, struct side *side, uint32_t peer, bool target);
void reconnect(struct xrc *x);
/* Posts a request for SRQ @number and returns its status. */
enum ibv_wc_status xrc_ask(struct xrc *x, uint32_t number, enum ibv_wr_opcode opcode,
			   uint64_t remote, uint32_t rkey, uint32_t length);

#endif /* XRC_H */
