/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Transports: what becomes of work requests between two queues. A requester
 * cuts them into packets, a port carries these, a responder receives them and
 * answers. Neither side sees more of the other than packets.
 */
#ifndef MODEL_TRANSPORT_H
#define MODEL_TRANSPORT_H

#include "transport/packet.h"
#include "transport/qp.h"

/* How the types of queue pairs differ. */
struct transport {
	uint8_t packets;	/* PACKET_TRANSPORT_* */
	uint32_t wqe_opcodes;	/* bits of those it has */
	/* May the first packet of the next request go out? */
	bool (*may_begin)(const struct qp *qp, const struct request *request);
	/* Else a request is done when its last packet is out. */
	bool acknowledged;
	/* A packet has arrived. Return: as port_send(). */
	uint8_t (*receive)(struct nic *nic, struct qp *qp, struct packet *p);
	/* The responder's half of a quantum. Return: true when there is more. */
	bool (*answer)(struct nic *nic, struct qp *qp, uint32_t *budget);
	/* The quantum is over. */
	void (*rest)(struct nic *nic, struct qp *qp);
	/* The QP's timer has ended. */
	void (*expired)(struct nic *nic, struct qp *qp);
};

extern const struct transport rc_transport;
extern const struct transport uc_transport;

/*
 * A packet of QP @qp, to be filled in and sent: without payload, and what the
 * opcode's extended headers need is not set. Field by field, for compilers turn
 * an initialiser into a string instruction that takes as long as all the rest.
 */
static inline void packet_init(struct packet *p, struct nic *nic,
			       const struct qp *qp, uint8_t opcode,
			       uint32_t psn)
{
	const struct gid_entry *own = &nic->gid[qp->sgid_index];

	p->opcode = opcode;
	p->solicited = false;
	p->ack_request = false;
	p->psn = psn;
	p->num_psn = 1;
	p->dest_qpn = qp->dest_qpn;
	p->src_qpn = qp->qpn;
	p->sgid = own->type ? own->gid : NULL;
	p->dgid = qp->dgid;
	p->payload = NULL;
	p->length = 0;
}

/**
 * transport_receive() - a packet has reached this NIC
 * @nic: the NIC
 * @p:   the packet
 *
 * Return: as port_send().
 */
uint8_t transport_receive(struct nic *nic, struct packet *p);

/* PSNs that @len bytes take. */
static inline uint32_t packets_of(const struct qp *qp, uint32_t len)
{
	uint32_t shift = 7 + qp->path_mtu;

	return len ? (uint32_t)(((uint64_t)len + (1u << shift) - 1) >> shift) :
		     1;
}

/* ---- requester.c: what all transports have in common ---- */

/* Goes on with what the send queue asks for. */
enum requester_step {
	REQUESTER_SENT,		/* a packet went out, or a WQE has ended */
	REQUESTER_RESTS,	/* nothing to do, or something is waited for */
};

enum requester_step requester_step(struct nic *nic, struct qp *qp,
				   uint32_t *budget);
/* Ends what is done at the head of the window, in order. */
void requester_retire(struct nic *nic, struct qp *qp);
/* @request ends with this status when all before it have ended. */
void requester_fail(struct qp *qp, struct request *request, uint8_t status,
		    uint8_t syndrome);
/* Flushes the oldest WQE. Return: false when there is none. */
bool requester_flush_one(struct nic *nic, struct qp *qp);
/* Forgets all requests. */
void requester_reset(struct nic *nic, struct qp *qp);

static inline struct request *requester_at(const struct requester *req,
					   uint32_t index)
{
	return req->window[index % REQUESTER_WINDOW];
}

static inline bool request_is_one_of(const struct request *r, uint32_t opcodes)
{
	return r->wqe.opcode < 32 && (opcodes >> r->wqe.opcode & 1);
}

#define WQE_BIT(op)	(1u << MOOR_WQE_##op)
#define WQE_LOCAL	(WQE_BIT(LOCAL_INV) | WQE_BIT(BIND_MW) | WQE_BIT(REG_MR))
#define WQE_ATOMICS	(WQE_BIT(CMP_SWAP) | WQE_BIT(FETCH_ADD))
/* Answered by more than an acknowledgment. */
#define WQE_ASKS_DATA	(WQE_BIT(READ) | WQE_ATOMICS)

/* ---- responder.c: the same ---- */

/* What came of a packet of a SEND or WRITE. */
enum placed {
	PLACED,
	PLACED_SENDER_FAULT,	/* its payload could not be had */
	PLACED_NOT_READY,	/* there is no receive WQE */
	PLACED_REFUSED,		/* @fault says why */
};

/**
 * responder_place() - take a packet of a SEND or WRITE
 * @nic:   the NIC
 * @qp:    whose responder receives it
 * @p:     the packet
 * @fault: result: why it was refused
 * @syndrome: result: the sender's fault
 *
 * Return: what came of it. Nothing has changed but with PLACED, save that
 * bytes may have been written and a receive WQE is held for the next message.
 */
enum placed responder_place(struct nic *nic, struct qp *qp, struct packet *p,
			    struct responder_fault *fault, uint8_t *syndrome);
/* A local fault, told to its own side: CQE or event, and ERR. */
void responder_fail(struct nic *nic, struct qp *qp,
		    const struct responder_fault *fault);
/* Is the range of a WRITE, READ or atomic allowed? Then it is granted. */
bool responder_check_range(struct nic *nic, struct qp *qp, struct stream *range,
			   struct responder_fault *fault);
bool responder_flush_one(struct nic *nic, struct qp *qp);

#endif /* MODEL_TRANSPORT_H */
