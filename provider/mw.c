// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Memory windows. The kernel allocates them; binding is a work request.
 */
#include <errno.h>
#include <stdlib.h>

#include "sq.h"

struct ibv_mw *moor_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ib_uverbs_alloc_mw_resp resp;
	struct ibv_alloc_mw cmd;
	struct ibv_mw *mw;
	int err;

	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return NULL;
	err = ibv_cmd_alloc_mw(pd, type, mw, &cmd, sizeof(cmd), &resp,
			       sizeof(resp));
	if (err) {
		free(mw);
		errno = err;
		return NULL;
	}
	return mw;
}

int moor_dealloc_mw(struct ibv_mw *mw)
{
	int err = ibv_cmd_dealloc_mw(mw);

	if (err)
		return err;
	free(mw);
	return 0;
}

/*
 * Type 1: the provider chooses the next key and returns it in the window, as
 * ibv_bind_mw(3) says. A bind that is posted as a work request has its key from the
 * caller, and does not change mw->rkey.
 */
int moor_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw,
		 struct ibv_mw_bind *mw_bind)
{
	struct ibv_send_wr *bad_wr, wr = {
		.wr_id = mw_bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = mw_bind->send_flags,
		.bind_mw = {
			.mw = mw,
			.rkey = ibv_inc_rkey(mw->rkey),
			.bind_info = mw_bind->bind_info,
		},
	};
	int err;

	err = moor_post_send(qp, &wr, &bad_wr);
	if (!err)
		mw->rkey = wr.bind_mw.rkey;
	return err;
}

/*
 * LOCAL_WRITE is not a right that a window can give; libibverbs accepts it here
 * all the same, and programs pass the flags of the MR.
 */
#define BIND_RIGHTS	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
			 IBV_ACCESS_REMOTE_ATOMIC | \
			 IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT)
#define BIND_FLAGS	(BIND_RIGHTS | IBV_ACCESS_LOCAL_WRITE | \
			 IBV_ACCESS_ZERO_BASED)

/**
 * moor_put_bind - fill in the segment of a BIND_MW
 * @wqe: the WQE, its head is done
 * @mw: the window
 * @rkey: the next key; its lowest byte counts
 * @info: what to bind it to; no MR: unbind it (type 1)
 *
 * The device checks whether the window can be bound. Returns 0 or EINVAL.
 */
int moor_put_bind(struct moor_sq_wqe *wqe, const struct ibv_mw *mw,
		  uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct moor_wqe_bind *bind = (struct moor_wqe_bind *)(wqe + 1);
	uint32_t access = info->mw_access_flags & BIND_RIGHTS;

	if (info->mw_access_flags & ~BIND_FLAGS ||
	    (info->length && !info->mr))
		return EINVAL;
	if (info->mw_access_flags & IBV_ACCESS_ZERO_BASED)
		access |= (uint32_t)MOOR_BIND_ZERO_BASED;
	bind->mw_key = htole32(mw->rkey);
	bind->new_key = htole32(rkey);
	bind->mr_lkey = htole32(info->mr ? info->mr->lkey : 0);
	bind->access = htole32(access);
	bind->addr = htole64(info->addr);
	bind->length = htole64(info->length);
	return 0;
}
