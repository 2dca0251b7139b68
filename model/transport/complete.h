/* SPDX-License-Identifier: GPL-2.0 */
/* CQEs of work requests (HWI 11). */
#ifndef MODEL_COMPLETE_H
#define MODEL_COMPLETE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/packet.h"
#include "transport/wqe.h"

/* Puts the QP into ERR when the CQ takes no CQE; so does complete_recv(). */
void complete_send(struct nic *nic, struct qp *qp, const struct send_wqe *wqe,
		   uint8_t status, uint8_t syndrome);
/* A receive that went wrong. */
void complete_recv(struct nic *nic, struct qp *qp, const struct recv_wqe *wqe,
		   uint8_t status, uint8_t syndrome);
/* A receive that went well: @p was its message's last packet. Return: cq_write()'s. */
bool complete_recv_message(struct nic *nic, struct qp *qp,
			   const struct recv_wqe *wqe, const struct packet *p,
			   uint32_t length);

#endif /* MODEL_COMPLETE_H */
