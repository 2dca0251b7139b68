// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Shared receive queues (HWI 10.3): creating, changing, destroying, posting. Slots are
 * given back in poll.c, by the pollers of all CQs on which receives complete.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/cmd_ioctl.h>
#include <rdma/moor_user_ioctl_cmds.h>

#include "moor_abi.h"
#include "sq.h"

#define BASIC_COMP_MASK	(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD)
#define XRC_COMP_MASK	(BASIC_COMP_MASK | IBV_SRQ_INIT_ATTR_XRCD | \
			 IBV_SRQ_INIT_ATTR_CQ)

static bool is_xrc(const struct moor_srq *srq)
{
	return srq->vsrq.srq_type == IBV_SRQT_XRC;
}

static void report_attr(const struct moor_srq *srq, struct ibv_srq_attr *attr)
{
	attr->max_wr = srq->wq.depth;
	attr->max_sge = srq->wq.max_sge;
}

static struct moor_create_srq_req describe(const struct moor_srq *srq)
{
	return (struct moor_create_srq_req){
		.ring_addr = (uintptr_t)srq->wq.ring,
		.log_depth = moor_log2_of_at_least(srq->wq.depth),
		.log_stride = srq->wq.log_stride,
		.cookie = srq->owner.cookie,
	};
}

static int create_basic(struct moor_srq *srq, struct ibv_srq_init_attr_ex *attr,
			struct moor_create_srq_resp *out)
{
	struct ibv_srq_init_attr plain = { .attr = attr->attr };
	struct moor_ucmd_create_srq_resp resp = {};
	struct moor_ucmd_create_srq cmd = { .drv_payload = describe(srq) };
	int err;

	err = ibv_cmd_create_srq(attr->pd, &srq->vsrq.srq, &plain, &cmd.ibv_cmd,
				 sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	*out = resp.drv_payload;
	return err;
}

static int create_xrc(struct moor_srq *srq, struct ibv_srq_init_attr_ex *attr,
		      struct moor_create_srq_resp *out)
{
	struct moor_ucmd_create_xsrq_resp resp = {};
	struct moor_ucmd_create_xsrq cmd = { .drv_payload = describe(srq) };
	int err;

	err = ibv_cmd_create_srq_ex(attr->pd->context, &srq->vsrq, attr,
				    &cmd.ibv_cmd, sizeof(cmd), &resp.ibv_resp,
				    sizeof(resp));
	*out = resp.drv_payload;
	return err;
}

static int create_in_kernel(struct moor_context *ctx, struct moor_srq *srq,
			    const struct ibv_srq_init_attr_ex *wanted)
{
	struct ibv_srq_init_attr_ex attr = *wanted;
	struct moor_create_srq_resp resp;
	int err;

	report_attr(srq, &attr.attr);
	err = is_xrc(srq) ? create_xrc(srq, &attr, &resp) :
			    create_basic(srq, &attr, &resp);
	if (err)
		return err;
	srq->vsrq.srq_num = resp.srqn;
	err = moor_slot_get(ctx, &resp.db, resp.db.slot_offset, &srq->wq.slot);
	if (err)
		ibv_cmd_destroy_srq(&srq->vsrq.srq);
	return err;
}

/* Does all that can fail; on failure nothing is left behind. */
static int init_srq(struct moor_context *ctx, struct moor_srq *srq,
		    const struct ibv_srq_init_attr_ex *attr)
{
	int err;

	if (!attr->attr.max_wr)
		return EINVAL;
	err = moor_size_recv(ctx, &srq->wq, attr->attr.max_wr,
			     attr->attr.max_sge);
	if (err)
		return err;
	atomic_init(&srq->wq.most, srq->wq.depth);
	if (to_moor_pd(attr->pd)->contained)
		srq->parent = to_moor_pd(attr->pd);
	err = moor_buf_alloc(&srq->buf,
			     (size_t)srq->wq.depth << srq->wq.log_stride,
			     srq->parent, MOOR_RESOURCE_SRQ);
	if (err)
		return err;
	srq->wq.ring = srq->buf.addr;
	if (is_xrc(srq))
		err = moor_cookie_get(ctx, &srq->owner);
	if (err)
		goto free_buf;
	err = create_in_kernel(ctx, srq, attr);
	if (err)
		goto put_cookie;
	return 0;

put_cookie:
	if (is_xrc(srq))
		moor_cookie_put(ctx, &srq->owner);
free_buf:
	moor_buf_free(&srq->buf);
	return err;
}

/* @attr: checked: of a known type, with a PD and all else that the type needs. */
static struct ibv_srq *create_srq(struct ibv_srq_init_attr_ex *attr)
{
	struct moor_srq *srq = calloc(1, sizeof(*srq));
	int err;

	if (!srq)
		return NULL;
	srq->vsrq.srq_type = attr->srq_type;
	srq->owner.rq = &srq->wq;
	srq->owner.shared = true;
	err = init_srq(to_moor_context(attr->pd->context), srq, attr);
	if (err) {
		free(srq);
		errno = err;
		return NULL;
	}
	moor_lock_init(&srq->wq.lock, !moor_single_threaded(srq->parent));
	if (srq->parent)
		atomic_fetch_add(&srq->parent->users, 1);
	report_attr(srq, &attr->attr);
	/* ibv_modify_srq() sets one. An empty queue would be below it at once. */
	attr->attr.srq_limit = 0;
	return &srq->vsrq.srq;
}

struct ibv_srq *moor_create_srq(struct ibv_pd *pd,
				struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex attr_ex = {
		.attr = attr->attr, .srq_type = IBV_SRQT_BASIC, .pd = pd,
	};
	struct ibv_srq *srq = create_srq(&attr_ex);

	if (srq)
		attr->attr = attr_ex.attr;
	return srq;
}

static int check_attr(const struct ibv_context *context,
		      const struct ibv_srq_init_attr_ex *attr,
		      enum ibv_srq_type type)
{
	if (!check_comp_mask(attr->comp_mask, type == IBV_SRQT_XRC ?
			     XRC_COMP_MASK : BASIC_COMP_MASK) ||
	    (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC))
		return EOPNOTSUPP;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd ||
	    attr->pd->context != context)
		return EINVAL;
	if (type == IBV_SRQT_BASIC)
		return 0;
	if ((attr->comp_mask & XRC_COMP_MASK) != XRC_COMP_MASK || !attr->xrcd ||
	    !attr->cq || attr->xrcd->context != context ||
	    attr->cq->context != context)
		return EINVAL;
	return 0;
}

struct ibv_srq *moor_create_srq_ex(struct ibv_context *context,
				   struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq_init_attr_ex attr_ex = *attr;
	struct ibv_srq *srq;
	int err;

	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		attr_ex.srq_type = IBV_SRQT_BASIC;
	err = check_attr(context, attr, attr_ex.srq_type);
	if (err) {
		errno = err;
		return NULL;
	}
	srq = create_srq(&attr_ex);
	if (!srq)
		return NULL;
	attr->attr = attr_ex.attr;
	/* libibverbs sets these for ibv_create_srq() only. */
	srq->srq_context = attr->srq_context;
	srq->pd = attr->pd;
	return srq;
}

/*
 * Copies the WQEs that are not known to have been taken to their places in another ring.
 * If that ring is too small for them, either the oldest have been taken in fact, or the
 * device refuses the ring.
 */
static void copy_wqes(const struct moor_wq *from, const struct moor_wq *to)
{
	uint32_t first = atomic_load_explicit(&from->consumer,
					      memory_order_acquire);
	uint32_t i;

	if (from->producer - first > to->depth)
		first = from->producer - to->depth;
	for (i = first; i != from->producer; i++)
		memcpy(moor_wq_slot(to, i), moor_wq_slot(from, i),
		       (size_t)1 << from->log_stride);
}

/* Called with the queue's lock held: no thread posts while the device changes rings. */
static int resize_locked(struct moor_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct moor_wq other = { .log_stride = srq->wq.log_stride };
	struct moor_ucmd_modify_srq cmd = {};
	struct moor_buf buf;
	int err;

	other.depth = 1u << moor_log2_of_at_least(attr->max_wr);
	other.mask = other.depth - 1;
	err = moor_buf_alloc(&buf, (size_t)other.depth << other.log_stride,
			     srq->parent, MOOR_RESOURCE_SRQ);
	if (err)
		return err;
	other.ring = buf.addr;
	copy_wqes(&srq->wq, &other);
	if (atomic_load(&srq->wq.most) < other.depth)
		atomic_store(&srq->wq.most, other.depth);
	cmd.ring_addr = (uintptr_t)buf.addr;
	cmd.log_depth = moor_log2_of_at_least(other.depth);
	err = ibv_cmd_modify_srq(&srq->vsrq.srq, attr, mask, &cmd.ibv_cmd,
				 sizeof(cmd));
	if (err) {
		moor_buf_free(&buf);
		return err;
	}
	moor_buf_free(&srq->buf);
	srq->buf = buf;
	srq->wq.ring = other.ring;
	srq->wq.depth = other.depth;
	srq->wq.mask = other.mask;
	return 0;
}

int moor_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct moor_srq *srq = to_moor_srq(ibsrq);
	struct ibv_modify_srq cmd;
	int err;

	if (!(mask & IBV_SRQ_MAX_WR))
		return ibv_cmd_modify_srq(ibsrq, attr, mask, &cmd, sizeof(cmd));
	if (!attr->max_wr ||
	    attr->max_wr > to_moor_context(ibsrq->context)->max_wr)
		return EINVAL;
	moor_lock(&srq->wq.lock);
	err = resize_locked(srq, attr, mask);
	moor_unlock(&srq->wq.lock);
	if (!err)
		attr->max_wr = srq->wq.depth;
	return err;
}

int moor_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct ibv_query_srq cmd;
	int err;

	err = ibv_cmd_query_srq(ibsrq, attr, &cmd, sizeof(cmd));
	if (!err)
		report_attr(to_moor_srq(ibsrq), attr);
	return err;
}

int moor_get_srq_num(struct ibv_srq *ibsrq, uint32_t *number)
{
	*number = to_moor_srq(ibsrq)->vsrq.srq_num;
	return 0;
}

/* After this no CQE names the SRQ, and no poller has a pointer to it. */
static void forget_receives(struct moor_srq *srq)
{
	struct moor_cq *cq = to_moor_cq(srq->vsrq.cq);

	moor_cq_lock(cq);
	moor_cq_clean(cq, &srq->owner);
	moor_cookie_put(to_moor_context(srq->vsrq.srq.context), &srq->owner);
	moor_cq_unlock(cq);
}

int moor_destroy_srq(struct ibv_srq *ibsrq)
{
	struct moor_srq *srq = to_moor_srq(ibsrq);
	int err;

	moor_recvs_mute(&srq->wq);
	err = ibv_cmd_destroy_srq(ibsrq);
	if (err) {
		moor_recvs_unmute(&srq->wq);
		return err;
	}
	if (is_xrc(srq))
		forget_receives(srq);
	moor_slot_put(to_moor_context(ibsrq->context), &srq->wq.slot);
	moor_buf_free(&srq->buf);
	if (srq->parent)
		atomic_fetch_sub(&srq->parent->users, 1);
	moor_lock_destroy(&srq->wq.lock);
	free(srq);
	return 0;
}

/*
 * A WQE that a QP took and lost at its reset or end has no CQE (HWI SRQ-8): only the
 * device knows that the slot is free.
 */
static int ask_taken(struct moor_srq *srq)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_SRQ, MOOR_METHOD_SRQ_QUERY, 2);
	struct moor_srq_state state = {};
	int err;

	fill_attr_in_obj(cmd, MOOR_ATTR_SRQ_QUERY_HANDLE, srq->vsrq.srq.handle);
	fill_attr_out_ptr(cmd, MOOR_ATTR_SRQ_QUERY_RESP, &state);
	err = execute_ioctl(srq->vsrq.srq.context, cmd);
	if (!err)
		moor_srq_taken(&srq->wq, state.consumer);
	return err;
}

static int post_recvs(struct moor_wq *wq, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad_wr)
{
	int err;

	moor_lock(&wq->lock);
	err = moor_wq_put_recvs(wq, wr, bad_wr);
	moor_unlock(&wq->lock);
	return err;
}

/* The device looks at the slot when a message needs a receive: no kick (HWI DB-25). */
int moor_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad_wr)
{
	struct moor_srq *srq = to_moor_srq(ibsrq);
	int err = post_recvs(&srq->wq, wr, bad_wr);

	if (likely(err != ENOMEM) || ask_taken(srq))
		return err;
	return post_recvs(&srq->wq, *bad_wr, bad_wr);
}
