/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Extended reliable connections (HWI 12.6): RC, but each message names the SRQ that it
 * is for. A target's @srq, and all that goes with it, is that of its last message.
 */
#ifndef MODEL_XRC_H
#define MODEL_XRC_H

#include "transport/qp.h"
#include "transport/packet.h"

/* Checks of CREATE_QP, reserved fields first. Return: enum moor_cmd_status. */
uint8_t xrc_check_reserved(const struct nic *nic,
			   const struct moor_cmd_create_qp *cmd,
			   struct moor_cpl *cpl);
uint8_t xrc_check_qp(const struct moor_cmd_create_qp *cmd, struct moor_cpl *cpl);

/* Aims the target @qp at the SRQ of request @p. Return: false when there is none. */
bool xrc_aim(struct nic *nic, struct qp *qp, const struct packet *p);
/* The target has no SRQ any more, nor a receive. */
void xrc_turn_away(struct qp *qp);
/* DESTROY_SRQ, of any kind of SRQ: targets do not keep theirs in use. */
uint8_t xrc_destroy_srq(struct nic *nic, const struct moor_cmd *cmd,
			struct moor_cpl *cpl);

#endif /* MODEL_XRC_H */
