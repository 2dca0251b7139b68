/* SPDX-License-Identifier: GPL-2.0 */
/* Ports: what carries packets. */
#ifndef MODEL_PORT_H
#define MODEL_PORT_H

#include "base/impairment.h"
#include "base/state.h"
#include "transport/packet.h"

/* What carries packets, and how much of a message is one packet. */
struct port {
	/* Bytes of a message in one packet, for a path MTU of @mtu. */
	uint32_t (*unit)(uint32_t mtu);
	/* As port_send(). */
	uint8_t (*send)(struct nic *nic, struct packet *p);
	/* A receiver that waits for a page tells the sender by PORT_KEPT, not a NAK. */
	bool keeps;
	/* Packets of a QP that may be on their way, at most 2^23. */
	uint32_t window;
};

/* What happened to packets, since the program started. */
struct traffic {
	uint64_t sent_again;	/* packets of requesters */
	uint64_t went_back;	/* how often a requester did */
	uint64_t timeouts;
	uint64_t duplicates;
	uint64_t gaps;		/* packets out of sequence */
	uint64_t carried;	/* by a port that impairs, and of these */
	uint64_t lost;
	uint64_t repeated;
	uint64_t reordered;
	uint64_t delayed;
	uint64_t damaged;	/* noticed, and dropped */
};

/* Where packets of this NIC go. */
struct wire {
	const struct port *port;
	struct impaired *impaired;	/* NULL while nothing is impaired */
	struct traffic traffic;
};

extern const struct port loopback_port;
extern const struct port impaired_port;

/*
 * The most of a message that is one packet on a port that carries no frames.
 * Key, rights, window and translation are checked for each packet anew, and a
 * fence waits for no packet but the one that is being carried.
 */
#define PORT_UNIT	(256u << 10)

/* The receiver waits for a page: the sender keeps the packet, to send it again. */
#define PORT_KEPT	0xfeu

/* PSNs of different ages can be told apart up to here (IBA 9.7.2). */
#define PORT_MAX_WINDOW	(1u << 23)

/**
 * port_send() - carry a packet
 * @nic: the NIC
 * @p:   the packet; after the return it and its payload belong to the sender again
 *
 * When this returns, the packet may have been received, and its answer too. A
 * packet that no QP takes is lost without a word.
 *
 * Return: MOOR_SYN_NONE. Else nothing has been sent: PORT_KEPT, or why the payload
 * could not be had, which may be SYN_PAGE_FAULT.
 */
uint8_t port_send(struct nic *nic, struct packet *p);

uint32_t port_unit(const struct nic *nic, uint32_t mtu);

/* ---- port_impaired.c ---- */

/* The port that the configuration asks for. Return: false: no memory. */
bool port_init(struct nic *nic);
/* Impairs from now on; NULL: carries packets as they are. Return: false: no memory. */
bool port_impair(struct nic *nic, const struct impairment *impairment);
/* Packets on their way are lost. */
void port_reset(struct nic *nic);

#endif /* MODEL_PORT_H */
