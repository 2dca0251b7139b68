/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * libmoor: queries that only Moor devices answer. Link with -lmoor. See
 * moordv_query_windows(3) and moordv_last_refusal(3).
 */
#ifndef MOORDV_H
#define MOORDV_H

#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/moor_user_ioctl_cmds.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * moordv_query_windows - list the windows that are bound to a memory region
 * @mr: the region, of a Moor device
 * @windows: room for @max windows; may be NULL if @max is 0
 * @max: at most that many are listed
 * @bound: number of windows bound to the region in all
 *
 * Returns the number of windows listed; -1 with errno set: EOPNOTSUPP (not a
 * Moor device, or a null MR), EINVAL (@bound is NULL), EFAULT (@windows or
 * @bound cannot be written), ENOMEM, EIO (device dead).
 */
int moordv_query_windows(struct ibv_mr *mr, struct moor_window *windows,
			 uint32_t max, uint32_t *bound);

/**
 * moordv_last_refusal - why a registration failed
 * @context: of a Moor device
 * @refusal: describes the last ibv_reg_mr(), ibv_rereg_mr(), ibv_reg_dmabuf_mr() or
 *	ibv_reg_dm_mr() of the context that failed; the reason is MOOR_REFUSAL_NONE if
 *	no call has failed
 *
 * Returns 0; -1 with errno set: EOPNOTSUPP (not a Moor device).
 */
int moordv_last_refusal(struct ibv_context *context,
			struct moor_refusal *refusal);

#ifdef __cplusplus
}
#endif

#endif /* MOORDV_H */
