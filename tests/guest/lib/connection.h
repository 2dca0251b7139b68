/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A connection that rdma_cm makes by an address of the NIC itself; one process has both
 * ends.
 */
#ifndef CONNECTION_H
#define CONNECTION_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include <rdma/rdma_cma.h>

#define CM_ADDRESS	"192.0.2.9"
#define CM_SLOTS	16
#define CM_SLOT		16384u		/* bytes */

/* The contents of an event that has been acknowledged. */
struct cm_seen {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	uint8_t data[256];		/* private data */
	struct ibv_ah_attr ah;		/* of a datagram QP, like the next two */
	uint32_t qpn, qkey;
};

struct end {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	uint8_t *buf;			/* CM_SLOTS of them */
};

struct connection {
	enum rdma_port_space space;	/* TCP: RC; UDP: datagrams */
	struct sockaddr_in to;
	struct rdma_cm_id *listener;
	struct end client, server;
};

void cm_address(struct sockaddr_in *to);
bool cm_event(struct end *end, enum rdma_cm_event_type type, struct cm_seen *seen,
	      const char *what);
void cm_listen(struct connection *cm);
void cm_hang_up(struct connection *cm);
void cm_resolve(struct connection *cm);
int cm_call(struct connection *cm, const char *words);
int cm_answer(struct connection *cm, const char *words);
void cm_open(struct connection *cm, enum rdma_port_space space);
void cm_close(struct connection *cm);
void end_open(struct connection *cm, struct end *end);
void end_close(struct end *end);
int end_receive(struct end *end, int slot);
int end_send(struct end *end, int slot, uint32_t length);

#endif /* CONNECTION_H */
