/* SPDX-License-Identifier: GPL-2.0 */
/* Queue pairs: queues, state machine, and both sides of a connection. */
#ifndef MODEL_QP_H
#define MODEL_QP_H

#include "engine.h"
#include "mr.h"
#include "transfer.h"

struct queue {
	bool exists;
	bool broken;		/* unreachable, or a senseless producer index */
	uint8_t log_depth;
	uint8_t log_stride;
	uint32_t producer;	/* free-running, as last seen in the slot */
	uint32_t consumer;
	uint32_t slot_id;
	uint64_t *slot;
	struct xlat xlat;
	struct xlat_window window;
};

struct send_wqe {
	uint8_t opcode;		/* enum moor_wqe_opcode */
	uint8_t flags;		/* MOOR_WQE_FLAG_* */
	uint8_t num_sge;
	uint32_t index;		/* free-running */
	uint32_t imm;		/* as it was stored */
	uint32_t inv_key;	/* SEND_INV, LOCAL_INV */
	uint32_t rkey;
	uint32_t length;	/* of the message */
	uint64_t wr_id;
	uint64_t remote_addr;
	uint64_t swap_add;
	uint64_t compare;
	struct mw_request bind;
	struct segment sge[NIC_MAX_SGE];
	uint8_t data[NIC_MAX_INLINE];
};

struct recv_wqe {
	uint8_t num_sge;
	uint32_t index;
	uint64_t wr_id;
	uint64_t room;		/* bytes of all SGEs */
	struct segment sge[NIC_MAX_SGE];
};

/* What the QP asks: at most one WQE is under way. */
struct requester {
	bool active;		/* @wqe is under way */
	bool waiting;		/* for the timer, or for a peer */
	uint64_t message;	/* the responder's part of it; 0: not begun */
	uint32_t done;		/* bytes */
	uint32_t psn;		/* of the next request */
	uint8_t retries;	/* left */
	uint8_t rnr_retries;	/* left */
	bool rnr_wait;		/* @waiting is for min_rnr_timer */
	struct send_wqe wqe;
	struct stream local;
};

/* What the QP answers. */
struct responder {
	uint64_t message;	/* under way; 0: none */
	bool holds_wqe;		/* @wqe is taken, by @message or one abandoned */
	bool established;	/* COMM_EST is out, or not due */
	uint32_t psn;		/* expected */
	struct recv_wqe wqe;
	struct segment range;	/* of WRITE, READ */
	struct stream remote;
};

struct qp {
	struct timer timer;	/* first: timer callbacks find the QP by it */
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

	/* attributes of MODIFY_QP */
	uint8_t access;
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

	/* The QP at the other end, as of nic->connections. */
	struct qp *peer;
	uint64_t peer_as_of;

	struct requester req;
	struct responder resp;

	struct qp_list *list;	/* nic->ready, stalled, resting or NULL */
	struct qp *next, *prev;
};

/* Of a QP, in EQ 0. */
#define QP_EVENTS	(MOOR_BIT(MOOR_EVENT_QP_FATAL) | \
			 MOOR_BIT(MOOR_EVENT_QP_REQ_ERR) | \
			 MOOR_BIT(MOOR_EVENT_QP_ACCESS_ERR) | \
			 MOOR_BIT(MOOR_EVENT_COMM_EST) | \
			 MOOR_BIT(MOOR_EVENT_SQ_DRAINED))

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
/* To ERR; what is in the queues is flushed by the QP's next quanta. */
void qp_error(struct nic *nic, struct qp *qp);
/* QP_FATAL: a queue is unreachable, or its producer index senseless. */
void qp_queue_failed(struct nic *nic, struct qp *qp);
void qp_event(struct nic *nic, struct qp *qp, enum moor_event_type type);
void qp_timer_expired(struct nic *nic, struct timer *timer);
/* Something of a QP changed that may let a stalled requester go on; of any QP. */
void qp_connection_changed(struct nic *nic, struct qp *qp);
void qp_all_connections_changed(struct nic *nic);
/* QPs that rest in ERR are looked at. */
void qp_rest_over(struct nic *nic, struct timer *timer);
/* In SQD, with nothing under way any more. */
void qp_drained(struct nic *nic, struct qp *qp);

/* queue.c */
enum queue_look {
	QUEUE_EMPTY,
	QUEUE_WORK,
	QUEUE_BROKEN,		/* producer index beyond the depth */
};

enum queue_look queue_look(struct queue *queue);
/* The WQE at the consumer index, in guest memory; NULL: unreachable. */
const uint8_t *queue_wqe(struct nic *nic, struct queue *queue);

/* wqe.c */
enum wqe_form {
	WQE_OK,
	WQE_MALFORMED,		/* wr_id and index are good */
	WQE_TOO_LONG,		/* the message */
	WQE_UNREACHABLE,
};

enum wqe_form wqe_fetch_send(struct nic *nic, struct qp *qp,
			     struct send_wqe *wqe);
enum wqe_form wqe_fetch_recv(struct nic *nic, struct qp *qp,
			     struct recv_wqe *wqe);

/* complete.c */
/* Both put the QP into ERR when the CQ takes no CQE. */
void complete_send(struct nic *nic, struct qp *qp, const struct send_wqe *wqe,
		   uint8_t status, uint8_t syndrome);
/* A receive that went wrong. */
void complete_recv(struct nic *nic, struct qp *qp, const struct recv_wqe *wqe,
		   uint8_t status, uint8_t syndrome);
/* A receive that went well, of the message that @from sent. */
void complete_recv_message(struct nic *nic, struct qp *qp,
			   const struct recv_wqe *wqe, const struct qp *from);

/* rc_requester.c */
enum rc_step {
	RC_NEXT,		/* the WQE is done with */
	RC_MORE,		/* the quantum is used up */
	RC_WAIT,		/* for a timer or a peer */
};

/* Goes on with the WQE under way; takes what it moves off *@budget. */
enum rc_step rc_requester_step(struct nic *nic, struct qp *qp,
			       uint32_t *budget);
/* Takes a WQE that was fetched into req.wqe. */
void rc_requester_begin(struct nic *nic, struct qp *qp, enum wqe_form form);
/* Ends the WQE under way in error, and the QP with it. */
void rc_requester_fail(struct nic *nic, struct qp *qp, uint8_t status,
		       uint8_t syndrome);
/* The time to wait is over. */
void rc_requester_expired(struct nic *nic, struct qp *qp);

/* rc_responder.c */
enum rc_answer {
	RC_ACK,
	RC_SILENCE,
	RC_RNR_NAK,
	RC_NAK_INVALID,
	RC_NAK_ACCESS,
	RC_NAK_OPERATION,
};

/* The QP that @qp is connected to and that is able to answer, or NULL. */
struct qp *rc_peer(struct nic *nic, struct qp *qp);
/* The first packet of @from's message arrives at @qp. */
enum rc_answer rc_responder_begin(struct nic *nic, struct qp *qp,
				  struct qp *from);
/* A chunk could not be put or taken. */
enum rc_answer rc_responder_refuse(struct nic *nic, struct qp *qp,
				   struct qp *from, uint8_t syndrome);
/* Does an atomic; *@original gets what was there. */
enum rc_answer rc_responder_atomic(struct nic *nic, struct qp *qp,
				   struct qp *from, uint64_t *original);
/* The last packet has arrived. */
enum rc_answer rc_responder_end(struct nic *nic, struct qp *qp,
				struct qp *from);

/* PSNs that a message of @len bytes takes. */
static inline uint32_t rc_packets(const struct qp *qp, uint32_t len)
{
	uint32_t shift = 7 + qp->path_mtu;

	return len ? (uint32_t)(((uint64_t)len + (1u << shift) - 1) >> shift) :
		     1;
}

#endif /* MODEL_QP_H */
