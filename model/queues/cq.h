/* SPDX-License-Identifier: GPL-2.0 */
/* Completion queues (HWI 11). */
#ifndef MODEL_CQ_H
#define MODEL_CQ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/state.h"
#include "base/timer.h"
#include "memory/translate.h"

struct cq {
	struct timer hold;	/* first; runs while an event is held back */
	uint32_t cqn;
	uint32_t eqn;
	uint32_t num_qp;	/* queues that complete here */
	uint8_t log_cqe;
	bool failed;		/* overrun or unreachable: no CQE any more */
	bool dirty;		/* in cqs->dirty */
	bool got_solicited;	/* among @unreported: solicited, or an error */
	bool no_hold;		/* the next evaluation holds nothing back */
	uint16_t mod_count;	/* CQEs that an event waits for */
	uint16_t mod_period;	/* us that an event waits at the most */
	uint32_t unreported;	/* CQEs that count for the next event */
	uint64_t first_at;	/* ns: when the first of these was written */
	uint64_t backlogged;	/* events kept back, a bit a type */
	uint32_t producer;	/* free-running */
	uint32_t consumer;	/* as last read from the slot */
	uint32_t arm_done;	/* arm sequence of the last event */
	uint32_t slot_id;
	uint64_t *slot;
	struct xlat ring;
	struct xlat_window window;
};

struct cqs {
	uint32_t num_dirty;
	struct cq *cq[NIC_MAX_CQ];
	struct cq *dirty[NIC_MAX_CQ];	/* written to, arm not evaluated */
};

struct cq *cq_find(struct nic *nic, uint32_t cqn);
/*
 * Writes a CQE; its phase is filled in. Return: false when the CQ has failed,
 * and the QP is to fail with it.
 */
bool cq_write(struct nic *nic, struct cq *cq, struct moor_cqe *cqe,
	      bool solicited);
/* Evaluates the arm requests of the CQs written to. */
void cq_flush(struct nic *nic);
void cq_reset(struct nic *nic);
uint8_t cq_create(struct nic *nic, const struct moor_cmd *cmd,
		  struct moor_cpl *cpl);
uint8_t cq_destroy(struct nic *nic, const struct moor_cmd *cmd,
		   struct moor_cpl *cpl);
uint8_t cq_resize(struct nic *nic, const struct moor_cmd *cmd,
		  struct moor_cpl *cpl);
uint8_t cq_modify(struct nic *nic, const struct moor_cmd *cmd,
		  struct moor_cpl *cpl);

#endif /* MODEL_CQ_H */
