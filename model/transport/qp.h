/* SPDX-License-Identifier: GPL-2.0 */
/* Queue pairs: state machine, and both sides of a connection. */
#ifndef MODEL_QP_H
#define MODEL_QP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/state.h"
#include "memory/mr.h"
#include "queues/queue.h"
#include "transport/requester.h"
#include "transport/responder.h"

struct transport;
struct qp;

struct qp_list {
	struct qp *first, *last;
};

struct qp {
	struct timer timer;	/* first: timer callbacks find the QP by it */
	const struct transport *transport;
	uint32_t qpn;
	uint32_t cookie;
	uint32_t live_index;
	uint8_t state;		/* enum moor_qp_state */
	bool draining;		/* SQD, and a WQE is still under way */
	bool sqd_event;
	uint64_t backlogged;	/* events kept back, a bit a type */
	struct mr_actor actor;
	struct cq *send_cq;
	struct cq *recv_cq;
	struct queue sq;
	struct queue rq;
	struct srq *srq;	/* instead of @rq, or NULL */
	struct queue *recv_queue;	/* @rq, or the SRQ's */
	const struct mr_actor *recv_actor;	/* of receives, likewise */
	bool last_wqe_due;	/* in ERR, with an SRQ: LAST_WQE is not out */
	bool datagrams;		/* type UD */
	bool names_srq;		/* type XRC_INI: its WQEs name an SRQ */
	bool is_target;		/* type XRC_TGT: @srq is the last message's (xrc.h) */
	uint32_t xrcd;		/* of a target */

	/* attributes of MODIFY_QP */
	uint16_t access;
	uint8_t path_mtu;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t sgid_index;
	uint8_t dgid[16];
	uint32_t dest_qpn;
	uint32_t qkey;

	struct requester req;
	struct responder resp;

	struct qp_list *list;	/* one of qps, or NULL */
	struct qp *next, *prev;
};

struct qps {
	struct qp_list ready;	/* there is something to do, or may be */
	struct qp_list resting;	/* in ERR, flushed, receives may be posted */
	struct timer rest;	/* till @resting is looked at */
	uint64_t rest_ns;	/* the length of such a rest now */
	uint32_t page_requests;	/* ever */
	struct qp *qp[NIC_NUM_QP];
};

/* Events of a QP, in EQ 0. */
#define QP_EVENTS	(MOOR_BIT(MOOR_EVENT_QP_FATAL) | \
			 MOOR_BIT(MOOR_EVENT_QP_REQ_ERR) | \
			 MOOR_BIT(MOOR_EVENT_QP_ACCESS_ERR) | \
			 MOOR_BIT(MOOR_EVENT_COMM_EST) | \
			 MOOR_BIT(MOOR_EVENT_SQ_DRAINED) | \
			 MOOR_BIT(MOOR_EVENT_LAST_WQE))

/* qp.c */
struct qp *qp_find(struct nic *nic, uint32_t qpn);
void qp_reset_all(struct nic *nic);
uint8_t qp_create(struct nic *nic, const struct moor_cmd *cmd,
		  struct moor_cpl *cpl);
uint8_t qp_query(struct nic *nic, const struct moor_cmd *cmd,
		 struct moor_cpl *cpl);
uint8_t qp_destroy(struct nic *nic, const struct moor_cmd *cmd,
		   struct moor_cpl *cpl);
/* Drops all work and attributes; queues are empty afterwards. */
void qp_to_reset(struct nic *nic, struct qp *qp);

/* qp_modify.c */
uint8_t qp_modify(struct nic *nic, const struct moor_cmd *cmd,
		  struct moor_cpl *cpl);

/* qp_run.c */
void qp_enter_list(struct qp *qp, struct qp_list *list);
void qp_leave_list(struct qp *qp);
void qp_make_ready(struct nic *nic, struct qp *qp);
/* A quantum of the requester, or of flushing. */
void qp_run(struct nic *nic, struct qp *qp);
/* Puts the QP into ERR; its next quanta flush what is in the queues. */
void qp_error(struct nic *nic, struct qp *qp);
/* Puts a QP of type UD into SQE: only its sends are flushed (HWI UD-14). */
void qp_send_error(struct nic *nic, struct qp *qp);
/* QP_FATAL: a queue is unreachable, or its producer index senseless. */
void qp_queue_failed(struct nic *nic, struct qp *qp);
void qp_event(struct nic *nic, struct qp *qp, enum moor_event_type type);
void qp_timer_expired(struct nic *nic, struct timer *timer);
/* QPs that rest in ERR are looked at. */
void qp_rest_over(struct nic *nic, struct timer *timer);
/* The QP is in SQD, and none of its requests is under way any more. */
void qp_drained(struct nic *nic, struct qp *qp);

#endif /* MODEL_QP_H */
