/* SPDX-License-Identifier: GPL-2.0 */
/* Memory windows (HWI 6.7). */
#ifndef MODEL_MW_H
#define MODEL_MW_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/mr.h"

/* What BIND_MW asks for. */
struct mw_request {
	uint32_t mw_key;
	uint32_t new_key;
	uint32_t mr_lkey;
	uint32_t access;	/* MOOR_ACCESS_REMOTE_*, MOOR_BIND_ZERO_BASED */
	uint64_t addr;
	uint64_t length;
};

/**
 * mw_bind() - bind a window, or unbind one of type 1
 * @nic:   the NIC
 * @actor: the QP whose send queue the request is in
 * @req:   what the request asks for
 *
 * Return: MOOR_SYN_NONE, or why not; then nothing has changed.
 */
uint8_t mw_bind(struct nic *nic, struct mr_actor *actor,
		const struct mw_request *req);
/* What mr_invalidate() does with a window. */
uint8_t mw_invalidate(struct nic *nic, const struct mr_actor *actor,
		      uint32_t key);
/* Unbinds the type 2 windows of a QP that is destroyed or reset. */
void mw_unbind_all(struct nic *nic, struct mr_actor *actor);
uint8_t mw_list(struct nic *nic, const struct moor_cmd *cmd,
		struct moor_cpl *cpl);

#endif /* MODEL_MW_H */
