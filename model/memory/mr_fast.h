/* SPDX-License-Identifier: GPL-2.0 */
/* Fast registration (HWI 6.9). */
#ifndef MODEL_MR_FAST_H
#define MODEL_MR_FAST_H

#include <stdbool.h>
#include <stdint.h>

#include "memory/mr.h"

/* What REG_MR asks for. */
struct mr_fast_request {
	uint32_t key;
	uint32_t access;	/* MOOR_ACCESS_* */
	uint64_t iova;
	uint64_t length;
	struct moor_xlat xlat;
};

/**
 * mr_fast_register() - register
 * @nic:   the NIC
 * @actor: the QP whose send queue the request is in, a QP of the kernel
 * @req:   what the request asks for
 *
 * Return: MOOR_SYN_NONE, or why not; then nothing has changed.
 */
uint8_t mr_fast_register(struct nic *nic, const struct mr_actor *actor,
			 const struct mr_fast_request *req);
/*
 * LOCAL_INV by, or SEND_INV to, this QP; of a fast-registration MR or a window.
 * Return: MOOR_SYN_NONE, or why not.
 */
uint8_t mr_invalidate(struct nic *nic, const struct mr_actor *actor,
		      uint32_t key);

#endif /* MODEL_MR_FAST_H */
