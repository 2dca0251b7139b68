/* SPDX-License-Identifier: GPL-2.0 */
/* Shared receive queues (HWI 10.3). */
#ifndef CONFORMANCE_SHARED_H
#define CONFORMANCE_SHARED_H

#include "traffic.h"

#define SLOT	512u	/* of the buffer, for a receive */

struct srq {
	uint32_t srqn, slot;
	unsigned int log_depth, log_stride;
	uint64_t ring;
	uint32_t producer;
	uint32_t taken;			/* so many at least, of a small ring */
};

/* The command that creates @srq, with a new ring; to be sent, or changed before. */
struct moor_cmd_create_srq srq_command(struct srq *srq);
void make_srq(struct srq *srq);
uint8_t modify_srq(const struct srq *srq, uint32_t mask, uint32_t limit);
struct moor_cpl_query_srq query_srq(const struct srq *srq);

/* Writes a WQE into the next slot, without ringing. Return: the WQE. */
struct moor_rq_wqe *put_shared(struct srq *srq, uint64_t wr_id, const struct moor_sge *sge,
			       unsigned int num_sge);
void ring_shared(const struct srq *srq);
void post_shared(struct srq *srq, uint64_t wr_id, uint64_t addr, uint32_t len,
		 uint32_t lkey);

/* The command of a QP that takes its receives from @srq. */
struct moor_cmd_create_qp sharing_command(struct qp *qp, const struct cq *cq,
					  const struct srq *srq);
void make_sharing_qp(struct qp *qp, const struct cq *cq, const struct srq *srq);

/* Two connections: senders 0 and 1, to receivers that share an SRQ. */
struct sharing {
	struct cq send_cq[2], recv_cq[2];
	struct qp sender[2], receiver[2];
	struct srq srq;
	uint64_t buf;		/* BUF bytes, filled with seed 1 */
	uint32_t key;
};

void make_sharing(struct sharing *s, uint8_t type);
/* A SEND of @len bytes from the start of the buffer: its CQE has this status. */
void send_shared(struct sharing *s, unsigned int i, uint32_t len, uint8_t status);
/* The receive of WQE @index has come to receiver @i, as @wr_id. */
void came_shared(struct sharing *s, unsigned int i, uint64_t wr_id, uint32_t index,
		 uint32_t len);
/* Sender @i fails half-way through a SEND: its receiver holds a WQE. */
void abandon_shared(struct sharing *s, unsigned int i);
/* Resets both ends and connects them anew. */
void reconnect_shared(struct sharing *s, unsigned int i);

#endif /* CONFORMANCE_SHARED_H */
