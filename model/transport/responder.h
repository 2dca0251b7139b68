/* SPDX-License-Identifier: GPL-2.0 */
/* The half of a queue pair that answers: what all transports have in common. */
#ifndef MODEL_RESPONDER_H
#define MODEL_RESPONDER_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/packet.h"
#include "transport/parking.h"
#include "transport/wqe.h"

/* An answer that is no mere acknowledgment: kept, in case it has to be sent again. */
struct responder_answer {
	uint8_t opcode;		/* of the request */
	bool pending;		/* to be sent */
	uint8_t path_mtu;	/* when it was asked for (HWI QP-10) */
	uint32_t psn;
	uint32_t num_psn;
	uint32_t answered;	/* of these, sent at least once */
	uint32_t sent;		/* bytes of a READ */
	uint64_t original;	/* of an atomic */
	struct segment range;
	struct mr_actor actor;	/* with this PD the request was accepted */
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
	uint32_t psn;		/* of the NAK */
};

/* The packet that @half waits or waited with, unless that is an answer. */
struct responder_waiter {
	uint8_t kind;		/* enum packet_kind */
	uint32_t rkey;
	uint64_t addr;
};

/* What the QP answers. */
struct responder {
	bool holds_wqe;		/* @wqe is taken from the receive queue */
	bool established;	/* COMM_EST is out, or not due */
	bool nak_sent;		/* for the PSN expected: a gap, or no receive */
	bool dropping;		/* UC: the rest of this message */
	uint8_t message;	/* enum packet_kind of the one under way, or 0 */
	uint8_t tried;		/* of one that may begin anew at @tried_psn, or 0 */
	uint8_t due;		/* syndrome of an AETH to be sent; @is_due */
	bool is_due;
	bool asked_later;	/* the requester dropped an answer; what is behind waits */
	uint8_t path_mtu;	/* when the message under way began */
	uint32_t psn;		/* expected */
	uint32_t msn;
	uint32_t placed;	/* bytes of the message under way */
	uint32_t unanswered;	/* first answer that may be pending */
	uint32_t num_answers;	/* ever, modulo 2^32 */
	uint32_t kept;		/* of them, the last: NIC_MAX_RD_ATOMIC at the most */
	struct recv_wqe wqe;
	uint32_t tried_psn;
	struct segment range;	/* of a WRITE */
	struct stream place;
	struct half half;
	struct responder_waiter waiter;
	struct responder_fault fault;	/* takes effect after all answers */
	struct responder_answer answers[NIC_MAX_RD_ATOMIC];
};

/* Do the answers wait: for a page, or for a requester that waits for one? */
static inline bool responder_rests(const struct responder *resp)
{
	return half_is_parked(&resp->half) || resp->asked_later;
}

/* Has the responder an answer that it can go on with in its next quantum? */
static inline bool responder_has_more(const struct responder *resp)
{
	return resp->unanswered != resp->num_answers && !responder_rests(resp);
}

static inline struct responder_answer *
responder_answer_at(struct responder *resp, uint32_t index)
{
	return &resp->answers[index % NIC_MAX_RD_ATOMIC];
}

/* An ACK or NAK, which is sent behind the answers that are still to come. */
static inline void responder_set_due(struct responder *resp, uint8_t syndrome)
{
	resp->is_due = true;
	resp->due = syndrome;
}

/* The responder gives up at @psn, when all that came before it is answered. */
static inline void responder_set_fault(struct responder *resp,
				       const struct responder_fault *fault,
				       uint32_t psn)
{
	resp->fault = *fault;
	resp->fault.set = true;
	resp->fault.psn = psn;
}

/* What came of a packet of a SEND or WRITE. */
enum placed {
	PLACED,
	PLACED_SENDER_FAULT,	/* its payload could not be had */
	PLACED_NOT_READY,	/* there is no receive WQE */
	PLACED_PARKED,		/* a page is missing, and was asked for */
	PLACED_REFUSED,		/* @fault says why */
};

/**
 * responder_place() - take a packet of a SEND or WRITE
 * @nic:   the NIC
 * @qp:    the QP whose responder receives the packet
 * @p:     the packet
 * @fault: result: why it was refused
 * @syndrome: result: the sender's fault
 *
 * Return: what came of the packet. Unless PLACED, the message has not gone on, though
 * bytes may have been written, and a receive WQE may be held for the next message.
 */
enum placed responder_place(struct nic *nic, struct qp *qp, struct packet *p,
			    struct responder_fault *fault, uint8_t *syndrome);
/*
 * Takes a receive WQE for a message: the one that an earlier message held, if that did
 * not end. Return: PLACED if there is a WQE, else PLACED_NOT_READY or PLACED_REFUSED.
 */
enum placed responder_take_receive(struct nic *nic, struct qp *qp,
				   struct responder_fault *fault);
/* Sets @fault: an SGE of the receive is no good. */
void responder_refuse_memory(struct responder_fault *fault, uint8_t syndrome);
/* Logs a request that is refused. */
void responder_log(const struct qp *qp, const struct responder_fault *fault);
/*
 * Reports a fault on the responder's own side, by CQE or event unless its CQ has failed;
 * the QP goes to ERR.
 */
void responder_fail(struct nic *nic, struct qp *qp,
		    const struct responder_fault *fault);
/* Is the range of a WRITE, READ or atomic allowed? Then it is granted. */
bool responder_check_range(struct nic *nic, struct qp *qp, struct stream *range,
			   struct responder_fault *fault);
bool responder_flush_one(struct nic *nic, struct qp *qp);

#endif /* MODEL_RESPONDER_H */
