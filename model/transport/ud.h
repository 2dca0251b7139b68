/* SPDX-License-Identifier: GPL-2.0 */
/* Datagrams (HWI 12.4). */
#ifndef MODEL_UD_H
#define MODEL_UD_H

#include "transport/requester.h"

/* Reads the address segment at @from. Return: false when the WQE is malformed. */
bool ud_fetch_address(const struct nic *nic, struct address *to,
		      const uint8_t *from);
/* Adds the address to packet @p, which has all else. A group ends the quantum. */
void ud_address(const struct nic *nic, const struct qp *qp, struct request *r,
		struct packet *p, uint32_t *budget);
/* A datagram has reached this NIC. Return: as port_send(). */
uint8_t ud_receive(struct nic *nic, struct packet *p);

#endif /* MODEL_UD_H */
