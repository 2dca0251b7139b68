/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Extended reliable connections (HWI 12.6): RC, but for whose message it is. A target's
 * @srq, and all that goes with it, is that of the message it has begun last.
 */
#ifndef MODEL_XRC_H
#define MODEL_XRC_H

#include "transport/qp.h"
#include "transport/packet.h"

/* Of CREATE_QP: enum moor_cmd_status. Reserved fields come before all others. */
uint8_t xrc_check_reserved(const struct moor_cmd_create_qp *cmd,
			   struct moor_cpl *cpl);
uint8_t xrc_check_qp(const struct moor_cmd_create_qp *cmd, struct moor_cpl *cpl);

/* A request of a target that is in turn. Return: false when there is no SRQ for it. */
bool xrc_aim(struct nic *nic, struct qp *qp, const struct packet *p);
/* The target has no message any more, nor a receive. */
void xrc_turn_away(struct qp *qp);
/* DESTROY_SRQ, of whatever kind: targets do not keep it. */
uint8_t xrc_destroy_srq(struct nic *nic, const struct moor_cmd *cmd,
			struct moor_cpl *cpl);

#endif /* MODEL_XRC_H */
