// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Queue pairs: creating, changing, destroying. Posting is in post.c and wr.c.
 */
#include <errno.h>
#include <stdlib.h>

#include <ccan/minmax.h>

#include "moor.h"
#include "moor_abi.h"

#define SUPPORTED_COMP_MASK	(IBV_QP_INIT_ATTR_PD | \
				 IBV_QP_INIT_ATTR_CREATE_FLAGS | \
				 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)

/* ---- the two CQs of a QP ---- */

/* A requester of XRC has no receives, and no CQ for them. */
static struct moor_cq *recv_cq_of(const struct moor_qp *qp)
{
	struct ibv_cq *cq = qp->vqp.qp.recv_cq;

	return to_moor_cq(cq ? cq : qp->vqp.qp.send_cq);
}

/*
 * Locks both CQs. No order can keep two threads from waiting for each other, for one that
 * polls one of the CQs has locked it before: nobody waits with one of them locked here.
 */
static void lock_cqs(const struct moor_qp *qp)
{
	struct moor_cq *first = to_moor_cq(qp->vqp.qp.send_cq);
	struct moor_cq *second = recv_cq_of(qp), *busy;

	moor_cq_lock(first);
	while (first != second && !moor_cq_trylock(second)) {
		moor_cq_unlock(first);
		busy = second;
		second = first;
		first = busy;
		moor_cq_lock(first);
	}
}

static void unlock_cqs(const struct moor_qp *qp)
{
	struct moor_cq *send = to_moor_cq(qp->vqp.qp.send_cq);
	struct moor_cq *recv = recv_cq_of(qp);

	moor_cq_unlock(send);
	if (send != recv)
		moor_cq_unlock(recv);
}

static void clean_cqs(struct moor_qp *qp)
{
	struct moor_cq *send = to_moor_cq(qp->vqp.qp.send_cq);
	struct moor_cq *recv = recv_cq_of(qp);

	moor_cq_clean(send, &qp->owner);
	if (send != recv)
		moor_cq_clean(recv, &qp->owner);
}

/* ---- sizes ---- */

uint32_t moor_log2_of_at_least(size_t n)
{
	uint32_t log = 0;

	while ((size_t)1 << log < n)
		log++;
	return log;
}

/* Room for @wr WQEs of @wqe_size bytes. */
static int size_wq(const struct moor_context *ctx, struct moor_wq *wq,
		   uint32_t wr, size_t wqe_size, uint32_t min_log_stride)
{
	if (wr > ctx->max_wr)
		return EINVAL;
	wq->log_stride = max(moor_log2_of_at_least(wqe_size), min_log_stride);
	if (wq->log_stride > MOOR_MAX_LOG_STRIDE)
		return EINVAL;
	wq->depth = 1u << moor_log2_of_at_least(wr);
	wq->mask = wq->depth - 1;
	return 0;
}

static int size_sq(const struct moor_context *ctx, struct moor_qp *qp,
		   const struct ibv_qp_cap *cap)
{
	size_t head, sges, atomic, room;
	int err;

	if (cap->max_send_sge > ctx->max_sge ||
	    cap->max_inline_data > ctx->max_inline)
		return EINVAL;
	sges = cap->max_send_sge * sizeof(struct moor_sge);
	atomic = sizeof(struct moor_wqe_atomic) + sizeof(struct moor_sge);
	room = max_t(size_t, max(sges, atomic), cap->max_inline_data);
	head = sizeof(struct moor_sq_wqe) + qp->address_bytes;
	err = size_wq(ctx, &qp->sq, cap->max_send_wr, head + room,
		      MOOR_MIN_LOG_SQ_STRIDE);
	if (err)
		return err;
	room = ((size_t)1 << qp->sq.log_stride) - head;
	qp->sq.max_sge = min_t(size_t, room / sizeof(struct moor_sge),
			       ctx->max_sge);
	qp->max_inline = min_t(size_t, room, ctx->max_inline);
	return 0;
}

/**
 * moor_size_recv - choose the size of a queue of receives, shared or not
 * @ctx: the context
 * @wq: depth and stride are filled in
 * @max_wr: WQEs asked for, not 0
 * @max_sge: SGEs of one WQE
 *
 * Returns 0 or EINVAL.
 */
int moor_size_recv(const struct moor_context *ctx, struct moor_wq *wq,
		   uint32_t max_wr, uint32_t max_sge)
{
	size_t room;
	int err;

	if (max_sge > ctx->max_sge)
		return EINVAL;
	err = size_wq(ctx, wq, max_wr,
		      sizeof(struct moor_rq_wqe) +
		      max_sge * sizeof(struct moor_sge),
		      MOOR_MIN_LOG_RQ_STRIDE);
	if (err)
		return err;
	room = ((size_t)1 << wq->log_stride) - sizeof(struct moor_rq_wqe);
	wq->max_sge = min_t(size_t, room / sizeof(struct moor_sge),
			    ctx->max_sge);
	return 0;
}

/* A QP whose receives come from SRQs has no receive queue, whatever is asked for. */
static int size_rq(const struct moor_context *ctx, struct moor_qp *qp,
		   const struct ibv_qp_cap *cap)
{
	if (qp->owner.shared)
		return 0;
	if (cap->max_recv_sge > ctx->max_sge)
		return EINVAL;
	if (!cap->max_recv_wr) {
		/* Nobody can post, but nobody is given less than was asked for. */
		qp->rq.max_sge = cap->max_recv_sge;
		return 0;
	}
	return moor_size_recv(ctx, &qp->rq, cap->max_recv_wr,
			      cap->max_recv_sge);
}

static size_t wq_bytes(const struct moor_wq *wq)
{
	return align((size_t)wq->depth << wq->log_stride, MOOR_PAGE_SIZE);
}

/* What the queues really have room for. */
static void report_cap(const struct moor_qp *qp, struct ibv_qp_cap *cap)
{
	cap->max_send_wr = qp->sq.depth;
	cap->max_send_sge = qp->sq.max_sge;
	cap->max_inline_data = qp->max_inline;
	cap->max_recv_wr = qp->rq.depth;
	cap->max_recv_sge = qp->rq.max_sge;
}

/* ---- creating ---- */

static int check_attr(const struct ibv_context *context,
		      const struct ibv_qp_init_attr_ex *attr)
{
	bool sends_only = attr->qp_type == IBV_QPT_XRC_SEND;

	if ((attr->qp_type != IBV_QPT_RC && attr->qp_type != IBV_QPT_UC &&
	     attr->qp_type != IBV_QPT_UD && !sends_only) ||
	    !check_comp_mask(attr->comp_mask, SUPPORTED_COMP_MASK))
		return EOPNOTSUPP;
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
	    attr->create_flags)
		return EOPNOTSUPP;
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd ||
	    !attr->send_cq || (!attr->recv_cq && !sends_only))
		return EINVAL;
	/* Pollers look QPs up in the CQ's context, so it must be the QP's, too. */
	if (attr->send_cq->context != context ||
	    (attr->recv_cq && attr->recv_cq->context != context))
		return EINVAL;
	if (sends_only && attr->srq)
		return EINVAL;
	if (attr->srq && attr->srq->context != context)
		return EINVAL;
	return 0;
}

static int create_rings(struct moor_qp *qp)
{
	size_t sq_bytes = wq_bytes(&qp->sq);
	int err;

	err = moor_buf_alloc(&qp->buf, sq_bytes + wq_bytes(&qp->rq),
			     qp->parent, MOOR_RESOURCE_QP);
	if (err)
		return err;
	qp->sq.ring = qp->buf.addr;
	qp->rq.ring = qp->buf.addr + sq_bytes;
	return 0;
}

static int get_slots(struct moor_context *ctx, struct moor_qp *qp,
		     const struct moor_doorbell *where)
{
	int err;

	err = moor_slot_get(ctx, where, where->slot_offset, &qp->sq.slot);
	if (err || !qp->rq.depth)
		return err;
	err = moor_slot_get(ctx, where, where->slot_offset_rq, &qp->rq.slot);
	if (err)
		moor_slot_put(ctx, &qp->sq.slot);
	return err;
}

static void put_slots(struct moor_context *ctx, struct moor_qp *qp)
{
	if (qp->rq.depth)
		moor_slot_put(ctx, &qp->rq.slot);
	moor_slot_put(ctx, &qp->sq.slot);
}

static int create_in_kernel(struct moor_context *ctx, struct moor_qp *qp,
			    const struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr_ex kernel_attr = *attr;
	struct moor_ucmd_create_qp_resp resp = {};
	struct moor_ucmd_create_qp cmd = {
		.sq_addr = (uintptr_t)qp->sq.ring,
		.log_sq_depth = moor_log2_of_at_least(qp->sq.depth),
		.log_sq_stride = qp->sq.log_stride,
		.cookie = qp->owner.cookie,
	};
	int err;

	if (qp->rq.depth) {
		cmd.rq_addr = (uintptr_t)qp->rq.ring;
		cmd.log_rq_depth = moor_log2_of_at_least(qp->rq.depth);
		cmd.log_rq_stride = qp->rq.log_stride;
	}
	report_cap(qp, &kernel_attr.cap);
	kernel_attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	/* The kernel does not keep the CQ alive for the QP, so the QP must not use it. */
	if (attr->qp_type == IBV_QPT_XRC_SEND)
		kernel_attr.recv_cq = NULL;
	err = ibv_cmd_create_qp_ex(&ctx->vctx.context, &qp->vqp, &kernel_attr,
				   &cmd.ibv_cmd, sizeof(cmd), &resp.ibv_resp,
				   sizeof(resp));
	if (err)
		return err;
	qp->owner.qpn = qp->vqp.qp.qp_num;
	err = get_slots(ctx, qp, &resp.db);
	if (err)
		ibv_cmd_destroy_qp(&qp->vqp.qp);
	return err;
}

static int init_wr_ops(const struct moor_context *ctx, struct moor_qp *qp,
		       const struct ibv_qp_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return 0;
	return moor_qp_set_wr_ops(ctx, &qp->vqp.qp_ex, attr->qp_type,
				  attr->send_ops_flags);
}

/*
 * Does all that can fail; on failure nothing is left behind. Sizes beyond the limits
 * are EINVAL, whatever the type of the QP.
 */
static int init_qp(struct moor_context *ctx, struct moor_qp *qp,
		   struct ibv_qp_init_attr_ex *attr)
{
	int err;

	qp->owner.sq = &qp->sq;
	qp->owner.rq = attr->srq ? &to_moor_srq(attr->srq)->wq : &qp->rq;
	qp->owner.shared = attr->srq;
	if (attr->qp_type == IBV_QPT_UD)
		qp->address_bytes = sizeof(struct moor_wqe_ud);
	if (attr->qp_type == IBV_QPT_XRC_SEND)
		qp->address_bytes = sizeof(struct moor_wqe_xrc);
	err = size_sq(ctx, qp, &attr->cap);
	if (!err && attr->qp_type != IBV_QPT_XRC_SEND)
		err = size_rq(ctx, qp, &attr->cap);
	if (!err)
		err = check_attr(&ctx->vctx.context, attr);
	if (!err)
		err = init_wr_ops(ctx, qp, attr);
	if (err)
		return err;
	if (to_moor_pd(attr->pd)->contained)
		qp->parent = to_moor_pd(attr->pd);
	err = create_rings(qp);
	if (err)
		return err;
	err = moor_cookie_get(ctx, &qp->owner);
	if (err)
		goto free_rings;
	err = create_in_kernel(ctx, qp, attr);
	if (err)
		goto put_cookie;
	report_cap(qp, &attr->cap);
	return 0;

put_cookie:
	moor_cookie_put(ctx, &qp->owner);
free_rings:
	moor_buf_free(&qp->buf);
	return err;
}

struct ibv_qp *moor_create_qp_ex(struct ibv_context *context,
				 struct ibv_qp_init_attr_ex *attr)
{
	struct moor_qp *qp;
	bool lock;
	int err;

	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return moor_create_target(context, attr);
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	err = init_qp(to_moor_context(context), qp, attr);
	if (err) {
		free(qp);
		errno = err;
		return NULL;
	}
	if (attr->sq_sig_all)
		qp->always = MOOR_WQE_FLAG_SIGNALED;
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		qp->vqp.comp_mask |= VERBS_QP_EX;
	lock = !moor_single_threaded(qp->parent);
	moor_lock_init(&qp->sq.lock, lock);
	moor_lock_init(&qp->rq.lock, lock);
	if (qp->parent)
		atomic_fetch_add(&qp->parent->users, 1);
	return &qp->vqp.qp;
}

struct ibv_qp *moor_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex attr_ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp = moor_create_qp_ex(pd->context, &attr_ex);

	if (qp)
		attr->cap = attr_ex.cap;
	return qp;
}

/* ---- changing, querying, destroying ---- */

/*
 * The device has emptied the queue and zeroed its slot, but a thread that was posting may
 * have stored to the slot since. The device does not look at it before INIT (HWI WQ-18).
 */
static void reset_wq(struct moor_wq *wq)
{
	moor_lock(&wq->lock);
	wq->producer = 0;
	atomic_store(&wq->consumer, 0);
	if (wq->depth)
		moor_slot_store(&wq->slot, 0);
	moor_unlock(&wq->lock);
}

/*
 * Posting threads look at the state under the queue's lock: from here on none begins to
 * post. Once the CQs are clean no poller moves a consumer index. The queues' locks are
 * not taken within the CQs' locks: a thread that polls between ibv_wr_start() and
 * ibv_wr_complete() takes the send queue's lock first.
 */
static void reset_qp(struct moor_qp *qp)
{
	atomic_store(&qp->state, IBV_QPS_RESET);
	lock_cqs(qp);
	clean_cqs(qp);
	unlock_cqs(qp);
	reset_wq(&qp->sq);
	reset_wq(&qp->rq);
}

int moor_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask)
{
	struct moor_qp *qp = to_moor_qp(ibqp);
	struct ibv_modify_qp cmd = {};
	int err;

	err = ibv_cmd_modify_qp(ibqp, attr, attr_mask, &cmd, sizeof(cmd));
	if (err || !(attr_mask & IBV_QP_STATE))
		return err;
	if (attr->qp_state == IBV_QPS_RESET && !moor_qp_is_target(qp))
		reset_qp(qp);
	else
		atomic_store(&qp->state, attr->qp_state);
	return 0;
}

int moor_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int attr_mask,
		  struct ibv_qp_init_attr *init_attr)
{
	struct ibv_query_qp cmd;
	int err;

	err = ibv_cmd_query_qp(ibqp, attr, attr_mask, init_attr, &cmd,
			       sizeof(cmd));
	if (err)
		return err;
	report_cap(to_moor_qp(ibqp), &init_attr->cap);
	attr->cap = init_attr->cap;
	return 0;
}

/*
 * HWI ORD-4, ORD-5: the bytes of a message become visible in order, except in memory
 * registered with IBV_ACCESS_RELAXED_ORDERING, which asks for the opposite.
 */
int moor_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op,
				uint32_t flags)
{
	(void)qp;
	(void)flags;
	switch (op) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_RDMA_READ:
		return IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG;
	default:
		return 0;
	}
}

/*
 * The send queue's lock is left alone: whoever destroys the QP between ibv_wr_start() and
 * ibv_wr_complete() has it.
 */
static void mute(struct moor_qp *qp)
{
	moor_slot_mute(&qp->sq.slot);
	if (qp->rq.depth)
		moor_recvs_mute(&qp->rq);
}

static void unmute(struct moor_qp *qp)
{
	moor_slot_unmute(&qp->sq.slot);
	moor_slot_store(&qp->sq.slot, qp->sq.producer);
	moor_kick(&qp->sq.slot);
	if (qp->rq.depth)
		moor_recvs_unmute(&qp->rq);
}

int moor_destroy_qp(struct ibv_qp *ibqp)
{
	struct moor_context *ctx = to_moor_context(ibqp->context);
	struct moor_qp *qp = to_moor_qp(ibqp);
	int err;

	if (moor_qp_is_target(qp))
		return moor_destroy_target(qp);
	mute(qp);
	err = ibv_cmd_destroy_qp(ibqp);
	if (err) {
		unmute(qp);
		return err;
	}
	/* After this no CQE names the QP, and no poller has a pointer to it. */
	lock_cqs(qp);
	clean_cqs(qp);
	moor_cookie_put(ctx, &qp->owner);
	unlock_cqs(qp);

	put_slots(ctx, qp);
	moor_buf_free(&qp->buf);
	if (qp->parent)
		atomic_fetch_sub(&qp->parent->users, 1);
	moor_lock_destroy(&qp->sq.lock);
	moor_lock_destroy(&qp->rq.lock);
	free(qp);
	return 0;
}
