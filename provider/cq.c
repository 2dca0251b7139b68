// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Completion queues: creating, resizing, destroying. The fast path is in
 * poll.c.
 */
#include <errno.h>
#include <stdlib.h>

#include "compat.h"
#include "moor.h"
#include "moor_abi.h"

#define SUPPORTED_COMP_MASK	(IBV_CQ_INIT_ATTR_MASK_FLAGS | \
				 IBV_CQ_INIT_ATTR_MASK_PD)
#define SUPPORTED_WC_FLAGS	(IBV_WC_STANDARD_FLAGS | \
				 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)

/*
 * Returns log2 of the size of a ring for @cqe CQEs, or a negative errno. The ring needs a
 * little more room than @cqe (take_cqe() in poll.c).
 */
static int ring_log_size(const struct moor_context *ctx, uint32_t cqe)
{
	int log = MOOR_CQ_MIN_LOG;

	if (!cqe || cqe > moor_cq_most(ctx->max_cqe))
		return -EINVAL;
	while (cqe > moor_cq_most(1u << log))
		log++;
	return log;
}

static int check_attr(const struct ibv_cq_init_attr_ex *attr)
{
	uint32_t flags = 0;

	if (!check_comp_mask(attr->comp_mask, SUPPORTED_COMP_MASK) ||
	    !check_comp_mask(attr->wc_flags, SUPPORTED_WC_FLAGS))
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS)
		flags = attr->flags;
	/* The device never overwrites CQEs, it cannot ignore an overrun. */
	if (!check_comp_mask(flags, IBV_CREATE_CQ_ATTR_SINGLE_THREADED))
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
	    (!attr->parent_domain || !to_moor_pd(attr->parent_domain)->contained))
		return EINVAL;
	return 0;
}

static bool wants_lock(const struct ibv_cq_init_attr_ex *attr,
		       const struct moor_pd *parent)
{
	return !(attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
		 attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) &&
	       !moor_single_threaded(parent);
}

/* Creates the CQ in the kernel and maps its doorbell. The ring exists already. */
static int create_in_kernel(struct moor_context *ctx, struct moor_cq *cq,
			    const struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_init_attr_ex kernel_attr = *attr;
	struct moor_ucmd_create_cq_resp resp = {};
	struct moor_ucmd_create_cq cmd = {
		.ring_addr = (uintptr_t)cq->buf.addr,
		.log_cqe = cq->log_cqe,
	};
	int err;

	kernel_attr.cqe = 1u << cq->log_cqe;
	err = moor_cmd_create_cq_ex(&ctx->vctx.context, &kernel_attr, &cq->vcq,
				    &cmd.ibv_cmd, sizeof(cmd), &resp.ibv_resp,
				    sizeof(resp), CREATE_CQ_CMD_FLAGS_TS_IGNORED_EX);
	if (err)
		return err;
	err = moor_slot_get(ctx, &resp.db, resp.db.slot_offset, &cq->slot);
	if (err)
		ibv_cmd_destroy_cq(&cq->vcq.cq);
	return err;
}

static struct moor_cq *create_cq(struct ibv_context *context,
				 const struct ibv_cq_init_attr_ex *attr)
{
	struct moor_context *ctx = to_moor_context(context);
	struct moor_cq *cq;
	int log, err;

	err = check_attr(attr);
	if (err)
		goto fail;
	log = ring_log_size(ctx, attr->cqe);
	if (log < 0) {
		err = -log;
		goto fail;
	}
	cq = calloc(1, sizeof(*cq));
	if (!cq) {
		err = ENOMEM;
		goto fail;
	}
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		cq->parent = to_moor_pd(attr->parent_domain);
	cq->log_cqe = log;
	err = moor_buf_alloc(&cq->buf, sizeof(struct moor_cqe) << log,
			     cq->parent, MOOR_RESOURCE_CQ);
	if (err)
		goto free_cq;
	cq->ring = cq->buf.addr;
	err = create_in_kernel(ctx, cq, attr);
	if (err)
		goto free_buf;
	cq->vcq.cq.cqe = moor_cq_most(1u << log);
	moor_lock_init(&cq->lock, wants_lock(attr, cq->parent));
	moor_lock_init(&cq->request_lock, true);
	if (cq->parent)
		atomic_fetch_add(&cq->parent->users, 1);
	return cq;

free_buf:
	moor_buf_free(&cq->buf);
free_cq:
	free(cq);
fail:
	errno = err;
	return NULL;
}

struct ibv_cq *moor_create_cq(struct ibv_context *context, int cqe,
			      struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe,
		.channel = channel,
		.comp_vector = vector,
	};
	struct moor_cq *cq = create_cq(context, &attr);

	return cq ? &cq->vcq.cq : NULL;
}

struct ibv_cq_ex *moor_create_cq_ex(struct ibv_context *context,
				    struct ibv_cq_init_attr_ex *attr)
{
	struct moor_cq *cq = create_cq(context, attr);

	if (!cq)
		return NULL;
	moor_cq_set_readers(&cq->vcq.cq_ex, attr->wc_flags);
	return &cq->vcq.cq_ex;
}

/* Called with @cq->lock held: no thread polls while the device moves to the new ring. */
static int resize_locked(struct moor_cq *cq, int log)
{
	struct ib_uverbs_resize_cq_resp resp;
	struct moor_ucmd_resize_cq cmd = { .log_cqe = log };
	struct moor_buf buf;
	int err;

	err = moor_buf_alloc(&buf, sizeof(struct moor_cqe) << log, cq->parent,
			     MOOR_RESOURCE_CQ);
	if (err)
		return err;
	cmd.ring_addr = (uintptr_t)buf.addr;
	moor_cq_announce(cq);
	err = ibv_cmd_resize_cq(&cq->vcq.cq, 1 << log, &cmd.ibv_cmd,
				sizeof(cmd), &resp, sizeof(resp));
	if (err) {
		moor_buf_free(&buf);
		return err;
	}
	moor_cq_keep_current(cq);
	moor_buf_free(&cq->buf);
	cq->buf = buf;
	cq->ring = buf.addr;
	cq->log_cqe = log;
	cq->vcq.cq.cqe = moor_cq_most(1u << log);
	return 0;
}

int moor_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct moor_cq *cq = to_moor_cq(ibcq);
	int log = ring_log_size(to_moor_context(ibcq->context), cqe);
	int err = 0;

	if (log < 0)
		return -log;
	moor_cq_lock(cq);
	if ((uint32_t)log != cq->log_cqe)
		err = resize_locked(cq, log);
	moor_cq_unlock(cq);
	return err;
}

int moor_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr)
{
	struct ibv_modify_cq cmd = {};

	return ibv_cmd_modify_cq(ibcq, attr, &cmd, sizeof(cmd));
}

int moor_destroy_cq(struct ibv_cq *ibcq)
{
	struct moor_cq *cq = to_moor_cq(ibcq);
	int err;

	moor_cq_mute(cq);
	err = ibv_cmd_destroy_cq(ibcq);
	if (err) {
		moor_cq_unmute(cq);
		return err;
	}
	moor_slot_put(to_moor_context(ibcq->context), &cq->slot);
	moor_buf_free(&cq->buf);
	if (cq->parent)
		atomic_fetch_sub(&cq->parent->users, 1);
	moor_lock_destroy(&cq->request_lock);
	moor_lock_destroy(&cq->lock);
	free(cq);
	return 0;
}
