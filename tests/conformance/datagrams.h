/* SPDX-License-Identifier: GPL-2.0 */
/* Datagrams (HWI 12.4). */
#ifndef CONFORMANCE_DATAGRAMS_H
#define CONFORMANCE_DATAGRAMS_H

#include "traffic.h"

#define QKEY		0x11223344u
#define UD_MTU		3		/* 1024 bytes */
#define UD_MAX		(128u << UD_MTU)

/* Entries of the GID table, beside GID_INDEX, which is of type ROCE_V2. */
#define V1_INDEX	1u
#define IPV4_INDEX	2u

/* QP 0 sends; the other QPs are receivers, or further senders. */
#define UD_QPS		3u

struct datagrams {
	struct cq cq[UD_QPS];
	struct qp qp[UD_QPS];
	uint64_t buf[UD_QPS];	/* filled with seeds 1 and so on */
	uint32_t key[UD_QPS];
	struct moor_wqe_ud to;	/* QP 1 */
};

/*
 * Makes the QPs, in RTS, each with a CQ, a buffer, and QKEY; sets the three GIDs, as far as
 * the device has room for them.
 */
void make_datagrams(struct datagrams *d);
void make_ud_qp(struct qp *qp, const struct cq *cq);
void start_ud_qp(const struct qp *qp, uint32_t qkey);
void set_gid(unsigned int index, uint8_t type, const uint8_t *gid, uint16_t vlan);
const uint8_t *gid_of(unsigned int index);

/* A SEND of @len bytes of QP 0's buffer, to d->to. */
struct send_wr datagram(const struct datagrams *d, uint64_t wr_id, uint32_t len);
/* Sends a datagram: its CQE is a success, whether it arrives or not. */
void send_datagram(struct datagrams *d, uint32_t len);
void recv_datagram(struct datagrams *d, unsigned int i, uint64_t wr_id,
		   uint32_t room);
/* Expects the CQE of a message of @len bytes at QP @i, and its data in the buffer. */
struct moor_cqe expect_datagram(struct datagrams *d, unsigned int i,
				uint64_t wr_id, uint32_t len);
/* The datagram has not arrived at QP @i, and no QP has failed. */
void expect_dropped(struct datagrams *d, unsigned int i);

#endif /* CONFORMANCE_DATAGRAMS_H */
