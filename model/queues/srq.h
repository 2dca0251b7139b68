/* SPDX-License-Identifier: GPL-2.0 */
/* Shared receive queues (HWI 10.3). */
#ifndef MODEL_SRQ_H
#define MODEL_SRQ_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/mr.h"
#include "queues/queue.h"

struct cq;

struct srq {
	uint32_t srqn;
	uint32_t num_qp;
	uint32_t limit;		/* 0: none */
	bool xrc;		/* with the following (HWI XRC-2) */
	uint32_t xrcd;
	uint32_t cookie;
	struct cq *cq;
	bool told;		/* SRQ_ERROR is out */
	uint64_t backlogged;	/* events kept back, a bit a type */
	struct mr_actor actor;	/* with its PD and rights SGEs are checked */
	struct queue queue;
};

struct srqs {
	struct srq *srq[NIC_NUM_SRQ];
};

struct srq *srq_find(struct nic *nic, uint32_t srqn);
/* A WQE has been taken. */
void srq_look_at_limit(struct nic *nic, struct srq *srq);
/* The SRQ has been found broken: SRQ_ERROR is posted once. */
void srq_fail(struct nic *nic, struct srq *srq);
void srq_reset_all(struct nic *nic);
uint8_t srq_create(struct nic *nic, const struct moor_cmd *cmd,
		   struct moor_cpl *cpl);
uint8_t srq_modify(struct nic *nic, const struct moor_cmd *cmd,
		   struct moor_cpl *cpl);
uint8_t srq_query(struct nic *nic, const struct moor_cmd *cmd,
		  struct moor_cpl *cpl);
uint8_t srq_destroy(struct nic *nic, const struct moor_cmd *cmd,
		    struct moor_cpl *cpl);

#endif /* MODEL_SRQ_H */
