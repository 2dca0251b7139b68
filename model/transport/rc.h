/* SPDX-License-Identifier: GPL-2.0 */
/* The two halves of a reliable connection. */
#ifndef MODEL_RC_H
#define MODEL_RC_H

#include "transport/transport.h"

/* rc_requester.c */
bool rc_may_begin(const struct qp *qp, const struct request *request);
uint8_t rc_take_response(struct nic *nic, struct qp *qp, struct packet *p);
void rc_rest(struct nic *nic, struct qp *qp);
void rc_expired(struct nic *nic, struct qp *qp);

/* rc_responder.c */
uint8_t rc_take_request(struct nic *nic, struct qp *qp, struct packet *p);
void rc_answer(struct nic *nic, struct qp *qp, uint32_t *budget);

#endif /* MODEL_RC_H */
