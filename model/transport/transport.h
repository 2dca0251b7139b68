/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Transports: what becomes of work requests between two queues. A requester cuts
 * work requests into packets, a port carries the packets, a responder receives and
 * answers them. Neither side sees more of the other than packets.
 */
#ifndef MODEL_TRANSPORT_H
#define MODEL_TRANSPORT_H

#include "transport/gid.h"
#include "transport/packet.h"
#include "transport/qp.h"

/* How the types of queue pairs differ. */
struct transport {
	uint8_t packets;	/* PACKET_TRANSPORT_* */
	uint32_t wqe_opcodes;	/* bits of the opcodes that it has */
	/* May the first packet of the next request go out? */
	bool (*may_begin)(const struct qp *qp, const struct request *request);
	/* If false, a request is done when its last packet is out. */
	bool acknowledged;
	/* A packet has arrived. Return: as port_send(). */
	uint8_t (*receive)(struct nic *nic, struct qp *qp, struct packet *p);
	/* The responder's half of a quantum. */
	void (*answer)(struct nic *nic, struct qp *qp, uint32_t *budget);
	/* The quantum is over. */
	void (*rest)(struct nic *nic, struct qp *qp);
	/* The QP's timer has ended. */
	void (*expired)(struct nic *nic, struct qp *qp);
};

extern const struct transport rc_transport;
extern const struct transport uc_transport;
extern const struct transport ud_transport;
extern const struct transport xrc_transport;

/* For transports whose packets are not answered. */
bool transport_begins_at_once(const struct qp *qp, const struct request *request);
void transport_has_no_answer(struct nic *nic, struct qp *qp, uint32_t *budget);
void transport_has_no_timer(struct nic *nic, struct qp *qp);

/*
 * Begins a packet of QP @qp: without payload; the fields of the opcode's extended
 * headers are not set. Fields are set one by one, for compilers turn an initialiser
 * into a string instruction that takes as long as all the rest.
 */
static inline void packet_init(struct packet *p, struct nic *nic,
			       const struct qp *qp, uint8_t opcode,
			       uint32_t psn)
{
	const struct gid_entry *own = &nic->gids->entry[qp->sgid_index];

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

/**
 * transport_receive_bytes() - the same for a packet that was carried as bytes
 * @nic:   the NIC
 * @p:     sender and addresses, as the port knows them
 * @bytes: of the packet, of which none is trusted
 * @len:   how many
 *
 * Return: false when it was damaged on its way.
 */
bool transport_receive_bytes(struct nic *nic, struct packet *p,
			     const uint8_t *bytes, size_t len);

/* Bytes of the MTU that attribute @path_mtu means. */
static inline uint32_t mtu_of(uint8_t path_mtu)
{
	return 128u << path_mtu;
}

/* PSNs that @len bytes take. */
static inline uint32_t packets_of(uint8_t path_mtu, uint32_t len)
{
	uint32_t shift = 7 + path_mtu;

	return len ? (uint32_t)(((uint64_t)len + (1u << shift) - 1) >> shift) :
		     1;
}

#endif /* MODEL_TRANSPORT_H */
