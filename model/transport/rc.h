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

/* rc_answer.c */
/* An answer to request @p that is due behind all others; it is kept. */
struct responder_answer *rc_new_answer(struct qp *qp, const struct packet *p);
void rc_answer(struct nic *nic, struct qp *qp, uint32_t *budget);
void rc_answer_read(struct nic *nic, struct qp *qp, struct responder_answer *a,
		    struct stream *from, uint32_t *budget);
uint8_t rc_begin_to_wait(struct nic *nic, struct qp *qp);
uint8_t rc_still_waits(struct nic *nic, struct qp *qp, const struct packet *p,
		       int32_t ahead);
/* A request that was here before has come again. */
void rc_take_again(struct qp *qp, const struct packet *p);

#endif /* MODEL_RC_H */
