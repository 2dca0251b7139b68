/* SPDX-License-Identifier: GPL-2.0 */
/* Queue pairs: queues, state machine, and both sides of a connection. */
#ifndef MODEL_QP_H
#define MODEL_QP_H

#include "base/engine.h"
#include "memory/mr.h"
#include "memory/transfer.h"
#include "transport/packet.h"

struct transport;

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
	struct mr_fast_request reg;
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

enum request_state {
	REQUEST_OPEN,		/* to be sent, or to be answered */
	REQUEST_DONE,
	REQUEST_FAILED,		/* with @status */
};

/* A send WQE that was fetched: read once, sent as often as it takes. */
struct request {
	struct request *next;	/* in the pool */
	uint8_t state;		/* enum request_state */
	uint8_t status;		/* enum moor_wc_status */
	uint8_t syndrome;
	uint32_t psn;		/* of its first packet */
	uint32_t num_psn;	/* of its packets; of a READ, of the answer's */
	uint32_t answered;	/* bytes of a READ that have arrived */
	struct stream local;
	struct send_wqe wqe;
};

/* WQEs under way at once; a power of two. */
#define REQUESTER_WINDOW	128u

/*
 * What the QP asks. Requests are in the window in the order of the queue: those
 * from @head to @next were sent (the last of them perhaps in part), the others
 * were fetched. Indices run freely.
 */
struct requester {
	struct request *window[REQUESTER_WINDOW];
	struct request *own;	/* not of the pool: no QP starves another */
	bool own_taken;
	uint32_t head;
	uint32_t next;
	uint32_t tail;
	uint32_t offset;	/* bytes of @next that were sent */
	uint32_t open;		/* first request not wholly acknowledged */
	uint32_t psn;		/* of the next new request */
	uint32_t sent_psn;	/* beyond the last packet sent */
	uint32_t acked_psn;	/* first not acknowledged */
	uint32_t num_reads;	/* READs and atomics not answered */
	uint8_t retries;	/* left */
	uint8_t rnr_retries;	/* left */
	bool stopped;		/* a request has failed: nothing new */
	bool waiting;		/* for min_rnr_timer */
	bool went_back;		/* for a missing answer, in vain so far */
	bool progress;		/* since the timer was started */
};

static inline void requester_set_psn(struct requester *req, uint32_t psn)
{
	req->psn = psn;
	req->sent_psn = psn;
	req->acked_psn = psn;
}

static inline bool requester_idle(const struct requester *req)
{
	return req->head == req->tail;
}

/* READ or atomic whose answer is kept, in case it has to be sent again. */
struct responder_answer {
	uint8_t opcode;		/* of the request */
	bool pending;		/* to be sent */
	bool again;		/* not for the first time */
	uint32_t psn;
	uint32_t num_psn;
	uint32_t sent;		/* bytes of a READ */
	uint64_t original;	/* of an atomic */
	struct segment range;
};

/* Why a responder gives up. */
struct responder_fault {
	bool set;
	uint8_t nak;		/* AETH_NAK_*; 0: the requester is not told */
	uint8_t event;		/* enum moor_event_type, or 0 */
	uint8_t status;		/* of the receive WQE that is held, or 0 */
	uint8_t syndrome;
	const char *rule;	/* that the request broke */
	uint32_t key;		/* that it named */
	uint32_t psn;		/* at which the NAK speaks */
};

/* What the QP answers. */
struct responder {
	bool holds_wqe;		/* @wqe is taken from the receive queue */
	bool established;	/* COMM_EST is out, or not due */
	bool nak_sent;		/* for a gap in the PSNs that is still there */
	bool dropping;		/* UC: the rest of this message */
	uint8_t message;	/* enum packet_kind of the one under way, or 0 */
	uint8_t due;		/* syndrome of an AETH to be sent; @is_due */
	bool is_due;
	uint32_t psn;		/* expected */
	uint32_t msn;
	uint32_t placed;	/* bytes of the message under way */
	uint32_t unanswered;	/* first answer that may be pending */
	uint32_t num_answers;	/* ever; the last NIC_MAX_RD_ATOMIC are kept */
	struct recv_wqe wqe;
	struct segment range;	/* of a WRITE */
	struct stream place;
	struct responder_fault fault;	/* takes effect after all answers */
	struct responder_answer answers[NIC_MAX_RD_ATOMIC];
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

	struct requester req;
	struct responder resp;

	struct qp_list *list;	/* nic->ready, resting or NULL */
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
/* A receive that went well: @p was its message's last packet. */
void complete_recv_message(struct nic *nic, struct qp *qp,
			   const struct recv_wqe *wqe, const struct packet *p,
			   uint32_t length);

#endif /* MODEL_QP_H */
