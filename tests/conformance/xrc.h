/* SPDX-License-Identifier: GPL-2.0 */
/* Extended reliable connections (HWI 12.6). */
#ifndef CONFORMANCE_XRC_H
#define CONFORMANCE_XRC_H

#include "shared.h"

#define XRCD	0x77u
#define COOKIE	0xc00c1e00u	/* of SRQ 0; each SRQ has its own */

/* An XRC_INI QP and its target, and two SRQs of the target's domain, of two PDs. */
struct xrc {
	struct cq send_cq, recv_cq[2];
	struct srq srq[2];
	struct qp ini, tgt;
	uint64_t buf;			/* BUF bytes, filled with seed 1 */
	uint32_t key[2];		/* of PD, of OTHER_PD */
};

/* The commands that create SRQs and QPs; to be sent, or changed before. */
struct moor_cmd_create_srq xrc_srq_command(struct srq *srq, const struct cq *cq,
					   uint32_t pd);
struct moor_cmd_create_qp ini_command(struct qp *qp, const struct cq *cq);
struct moor_cmd_create_qp tgt_command(struct qp *qp);

void make_xrc(struct xrc *x);
void reconnect_xrc(struct xrc *x);
void destroy_srq(const struct srq *srq);

/* Posts a work request for SRQ number @srqn. */
void post_for(struct xrc *x, uint32_t srqn, struct send_wr wr);
/* Does a SEND for SRQ @srqn, of @len bytes of the buffer: its CQE has this status. */
void send_for(struct xrc *x, uint32_t srqn, uint32_t len, uint8_t status);
/* Expects the CQE of a receive of SRQ @i. */
struct moor_cqe came_for(struct xrc *x, unsigned int i, uint64_t wr_id,
			 uint8_t status, uint8_t syndrome);

#endif /* CONFORMANCE_XRC_H */
