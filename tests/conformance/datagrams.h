/* SPDX-License-Identifier: GPL-2.0 */
/* Datagrams (HWI 12.4). */
#ifndef CONFORMANCE_DATAGRAMS_H
#define CONFORMANCE_DATAGRAMS_H

#include "traffic.h"

#define QKEY		0x11223344u
#define UD_MTU		3		/* 1024 bytes */
#define UD_MAX		(128u << UD_MTU)

/* Entries of the GID table, beside GID_INDEX: of type ROCE_V2 that one. */
#define V1_INDEX	1u
#define IPV4_INDEX	2u

/* A sender, or more, and receivers: QP 0 sends, the others are there for it. */
#define UD_QPS		3u

struct datagrams {
	struct cq cq[UD_QPS];
	struct qp qp[UD_QPS];
	uint64_t buf[UD_QPS];	/* filled with seeds 1 and so on */
	uint32_t key[UD_QPS];
	struct moor_wqe_ud to;	/* QP 1 */
};

/* In RTS, each with a CQ, a buffer, and QKEY; the three GIDs are set. */
void make_datagrams(struct datagrams *d);
void make_ud_qp(struct qp *qp, const struct cq *cq);
void start_ud_qp(const struct qp *qp, uint32_t qkey);
void set_gid(unsigned int index, uint8_t type, const uint8_t *gid, uint16_t vlan);
const uint8_t *gid_of(unsigned int index);

/* A SEND of @len bytes of QP 0's buffer, to d->to. */
struct send_wr datagram(const struct datagrams *d, uint64_t wr_id, uint32_t len);
/* It is sent; whatever becomes of it, that is a success. */
void send_datagram(struct datagrams *d, uint32_t len);
void recv_datagram(struct datagrams *d, unsigned int i, uint64_t wr_id,
		   uint32_t room);
/* The next CQE of QP @i is of a message of @len bytes, and these are there. */
struct moor_cqe expect_datagram(struct datagrams *d, unsigned int i,
				uint64_t wr_id, uint32_t len);
/* Nothing has come of what was sent, and no QP has failed. */
void expect_dropped(struct datagrams *d, unsigned int i);

#endif /* CONFORMANCE_DATAGRAMS_H */
