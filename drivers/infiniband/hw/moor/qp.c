// SPDX-License-Identifier: GPL-2.0
/*
 * Queue pairs: creation, query, destruction. Both rings are the process's
 * memory, their producer indices doorbell slots of its own page.
 */

#include <linux/pid.h>
#include <rdma/ib_cache.h>

#include "moor.h"

static int moor_qp_alloc_qpn(struct moor_dev *mdev, struct moor_qp *qp)
{
	if (qp->ibqp.qp_type == IB_QPT_GSI) {
		qp->qpn = MOOR_QPN_GSI;
		return xa_insert(&mdev->qps, MOOR_QPN_GSI, qp, GFP_KERNEL);
	}
	return moor_number_alloc(&mdev->qps, mdev->caps.qp_index_bits,
				 MOOR_QP_INDEX_FIRST, qp, &qp->qpn);
}

static u32 moor_qp_index(const struct moor_dev *mdev, u32 qpn)
{
	return qpn & (BIT(mdev->caps.qp_index_bits) - 1);
}

static void moor_qp_erase(struct moor_dev *mdev, struct moor_qp *qp)
{
	xa_erase(&mdev->qps, moor_qp_index(mdev, qp->qpn));
	moor_eq_sync(&mdev->async_eq);
	if (moor_has_odp(mdev))
		moor_eq_sync(&mdev->page_eq);
	if (moor_qp_is_kernel(qp))
		cancel_work_sync(&qp->kernel.last_wqe);
}

/**
 * moor_qp_find - the queue pair that an event names
 * @mdev: device
 * @qpn: its number, all bits: the index may have another owner by now
 *
 * Context: handler of an event queue that moor_qp_erase() waits for (moor_eq_sync())
 *
 * Return: the queue pair, or NULL.
 */
struct moor_qp *moor_qp_find(struct moor_dev *mdev, u32 qpn)
{
	struct moor_qp *qp = xa_load(&mdev->qps, moor_qp_index(mdev, qpn));

	return qp && qp->qpn == qpn ? qp : NULL;
}

/**
 * moor_qp_owner - the process that owns a queue pair
 * @mdev: device
 * @qpn: its number
 * @comm: filled in with the name of the process, TASK_COMM_LEN, or NULL
 *
 * Return: the process, for the caller to put, or NULL if there is no such queue
 * pair; then @comm is left alone.
 */
struct pid *moor_qp_owner(struct moor_dev *mdev, u32 qpn, char *comm)
{
	struct pid *owner = NULL;
	struct moor_qp *qp;

	/* A queue pair is freed only after its erase, which takes this lock. */
	xa_lock(&mdev->qps);
	qp = xa_load(&mdev->qps, moor_qp_index(mdev, qpn));
	if (qp && qp->qpn == qpn) {
		owner = get_pid(qp->owner);
		if (comm)
			strscpy(comm, qp->comm, sizeof(qp->comm));
	}
	xa_unlock(&mdev->qps);
	return owner;
}

static bool moor_qp_has_type(const struct moor_dev *mdev, enum ib_qp_type type,
			     bool user)
{
	switch (type) {
	case IB_QPT_RC:
		return true;
	case IB_QPT_UC:
		return mdev->caps.features & MOOR_FEATURE_UC;
	case IB_QPT_UD:
		return mdev->caps.features & MOOR_FEATURE_UD;
	case IB_QPT_GSI:
		return mdev->caps.features & MOOR_FEATURE_UD && !user;
	case IB_QPT_XRC_INI:
	case IB_QPT_XRC_TGT:
		return mdev->caps.features & MOOR_FEATURE_XRC;
	default:
		return false;
	}
}

/* Are the CQs of the queues given? A target completes to the CQs of the SRQs it uses. */
static bool moor_qp_has_cqs(const struct ib_qp_init_attr *attr)
{
	switch (attr->qp_type) {
	case IB_QPT_XRC_TGT:
		return attr->xrcd;
	case IB_QPT_XRC_INI:
		return attr->send_cq;
	default:
		return attr->send_cq && attr->recv_cq;
	}
}

static int moor_qp_check_attr(const struct moor_dev *mdev,
			      const struct ib_qp_init_attr *attr, bool user)
{
	const struct ib_qp_cap *cap = &attr->cap;

	if (!moor_qp_has_type(mdev, attr->qp_type, user))
		return -EOPNOTSUPP;
	/* A work request of the kernel has no field for the SRQ that it is for. */
	if (attr->qp_type == IB_QPT_XRC_INI && !user)
		return -EOPNOTSUPP;
	if (attr->create_flags || attr->rwq_ind_tbl)
		return -EOPNOTSUPP;
	if (!moor_qp_has_cqs(attr))
		return -EINVAL;
	if (attr->qp_type == IB_QPT_GSI && attr->port_num != MOOR_PORT)
		return -EINVAL;
	if (cap->max_send_wr > 1U << mdev->caps.max_log_wqe ||
	    cap->max_recv_wr > 1U << mdev->caps.max_log_wqe ||
	    cap->max_send_sge > mdev->caps.max_sge ||
	    cap->max_recv_sge > mdev->caps.max_sge ||
	    cap->max_inline_data > mdev->caps.max_inline)
		return -EINVAL;
	return 0;
}

/**
 * moor_check_queue - is a work queue as a process may choose it?
 * @mdev: device
 * @addr: where it is
 * @log_depth: log2 of its WQEs
 * @log_stride: log2 of the bytes of one
 * @min_log_stride: the least
 * @max_wr: WQEs that the process has asked for
 * @wqe_bytes: bytes of a WQE with what the process has asked for
 *
 * Return: 0 or -EINVAL.
 */
int moor_check_queue(const struct moor_dev *mdev, u64 addr, u8 log_depth,
		     u8 log_stride, u8 min_log_stride, u32 max_wr,
		     u32 wqe_bytes)
{
	/* No requests, no queue. */
	if (!max_wr)
		return addr || log_depth || log_stride ? -EINVAL : 0;
	if (!PAGE_ALIGNED(addr))
		return -EINVAL;
	if (log_depth > mdev->caps.max_log_wqe || max_wr > 1U << log_depth)
		return -EINVAL;
	if (log_stride < min_log_stride || log_stride > MOOR_MAX_LOG_STRIDE ||
	    wqe_bytes > 1U << log_stride)
		return -EINVAL;
	return 0;
}

static int moor_qp_check_req(const struct moor_qp *qp,
			     const struct moor_create_qp_req *req,
			     const struct ib_qp_cap *cap)
{
	const struct moor_dev *mdev = to_mdev(qp->ibqp.device);
	u32 payload = max_t(u32, cap->max_send_sge * sizeof(struct moor_sge),
			    cap->max_inline_data);
	int err;

	if (moor_qp_is_ud(qp))
		payload += sizeof(struct moor_wqe_ud);
	if (qp->ibqp.qp_type == IB_QPT_XRC_INI)
		payload += sizeof(struct moor_wqe_xrc);
	err = moor_check_queue(mdev, req->sq_addr, req->log_sq_depth,
			       req->log_sq_stride, MOOR_MIN_LOG_SQ_STRIDE,
			       cap->max_send_wr,
			       sizeof(struct moor_sq_wqe) + payload);
	if (err)
		return err;
	return moor_check_queue(mdev, req->rq_addr, req->log_rq_depth,
				req->log_rq_stride, MOOR_MIN_LOG_RQ_STRIDE,
				cap->max_recv_wr,
				sizeof(struct moor_rq_wqe) +
				cap->max_recv_sge * sizeof(struct moor_sge));
}

/**
 * moor_pin_queue - pin a work queue of a process, which the device only reads
 * @mdev: device
 * @ring: filled in
 * @addr: where it is
 * @log_depth: log2 of its WQEs
 * @log_stride: log2 of the bytes of one
 *
 * Return: 0 or an errno.
 */
int moor_pin_queue(struct moor_dev *mdev, struct moor_ring *ring, u64 addr,
		   u8 log_depth, u8 log_stride)
{
	struct ib_umem *umem;

	umem = ib_umem_get_va(&mdev->ibdev, addr,
			      1UL << (log_depth + log_stride), 0);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	return moor_ring_pin(mdev, ring, umem);
}

static int moor_qp_pin_queues(struct moor_dev *mdev, struct moor_qp *qp,
			      const struct moor_create_qp_req *req,
			      const struct ib_qp_cap *cap)
{
	int err;

	if (cap->max_send_wr) {
		err = moor_pin_queue(mdev, &qp->sq, req->sq_addr,
				     req->log_sq_depth, req->log_sq_stride);
		if (err)
			return err;
	}
	if (cap->max_recv_wr) {
		err = moor_pin_queue(mdev, &qp->rq, req->rq_addr,
				     req->log_rq_depth, req->log_rq_stride);
		if (err) {
			moor_ring_unpin(mdev, &qp->sq);
			return err;
		}
	}
	return 0;
}

static int moor_qp_respond(struct moor_qp *qp, struct ib_udata *udata)
{
	struct moor_create_qp_resp resp = { .qpn = qp->qpn };

	moor_db_describe(&qp->db, &resp.db);
	return ib_respond_udata(udata, resp);
}

/* Make the queues of a process's QP, and remember which process it is. */
static int moor_user_qp_init(struct moor_qp *qp,
			     const struct ib_qp_init_attr *attr,
			     struct ib_udata *udata,
			     struct moor_create_qp_req *req)
{
	struct moor_dev *mdev = to_mdev(qp->ibqp.device);
	int err;

	err = ib_copy_validate_udata_in(udata, *req, cookie);
	if (err)
		return err;
	err = moor_qp_check_req(qp, req, &attr->cap);
	if (err)
		return err;
	err = moor_qp_pin_queues(mdev, qp, req, &attr->cap);
	if (err)
		return err;
	qp->uctx = rdma_udata_to_drv_context(udata, struct moor_ucontext,
					     ibucontext);
	err = moor_db_alloc(qp->uctx, &qp->db, 2);
	if (err)
		goto unpin;
	err = -ENOMEM;
	if (moor_has_odp(mdev)) {
		qp->pager = moor_pager_new(qp);
		if (!qp->pager)
			goto free_db;
	}
	qp->owner = get_pid(task_tgid(current));
	get_task_comm(qp->comm, current->group_leader);
	return 0;

free_db:
	moor_db_free(qp->uctx, &qp->db);
unpin:
	moor_ring_unpin(mdev, &qp->rq);
	moor_ring_unpin(mdev, &qp->sq);
	return err;
}

static int moor_target_init(struct moor_qp *qp)
{
	if (!moor_has_odp(to_mdev(qp->ibqp.device)))
		return 0;
	qp->pager = moor_pager_new(qp);
	return qp->pager ? 0 : -ENOMEM;
}

/* The device does not know the QP any more. */
static void moor_qp_release(struct moor_qp *qp)
{
	struct moor_dev *mdev = to_mdev(qp->ibqp.device);

	moor_pager_close(qp->pager);
	if (qp->uctx) {
		put_pid(qp->owner);
		moor_db_free(qp->uctx, &qp->db);
		moor_ring_unpin(mdev, &qp->rq);
		moor_ring_unpin(mdev, &qp->sq);
	} else if (moor_qp_is_kernel(qp)) {
		moor_kernel_qp_release(qp);
	}
	/*
	 * Not mutex_destroy(): until the core takes the QP out of its lists, which it
	 * does last, "rdma resource show" may query the QP, which the device refuses.
	 */
}

static void moor_qp_set_caps(struct moor_qp *qp, struct ib_qp_init_attr *attr,
			     const struct moor_create_qp_req *req)
{
	if (attr->cap.max_send_wr)
		attr->cap.max_send_wr = 1U << req->log_sq_depth;
	if (attr->cap.max_recv_wr)
		attr->cap.max_recv_wr = 1U << req->log_rq_depth;
	qp->cap = attr->cap;
	qp->sq_sig_type = attr->sq_sig_type;
}

/**
 * moor_create_qp - create a queue pair
 * @ibqp: queue pair
 * @attr: attributes; its capacities are updated to what there is
 * @udata: struct moor_create_qp_req and _resp; NULL for a kernel user, and for an
 *	XRC target, even if a process asks for it
 *
 * Return: 0; -EOPNOTSUPP for what Moor does not have; -EINVAL; -EBUSY for a
 * second GSI QP; -ENOMEM; or what pinning the rings gives.
 */
int moor_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr,
		   struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(ibqp->device);
	struct moor_create_qp_req req = {};
	struct moor_qp *qp = to_mqp(ibqp);
	int err;

	/* Receives come from an SRQ, or there are none: no receive queue is made. */
	if (ibqp->srq || attr->qp_type == IB_QPT_XRC_INI) {
		attr->cap.max_recv_wr = 0;
		attr->cap.max_recv_sge = 0;
	}
	if (moor_qp_is_target(qp))
		memset(&attr->cap, 0, sizeof(attr->cap));
	err = moor_qp_check_attr(mdev, attr, udata);
	if (err)
		return err;
	if (moor_qp_is_target(qp))
		err = moor_target_init(qp);
	else if (udata)
		err = moor_user_qp_init(qp, attr, udata, &req);
	else
		err = moor_kernel_qp_init(qp, attr, &req);
	if (err)
		return err;

	mutex_init(&qp->lock);
	if (moor_qp_is_kernel(qp))
		INIT_WORK(&qp->kernel.last_wqe, moor_kernel_qp_last_wqe_work);
	moor_qp_set_caps(qp, attr, &req);
	err = moor_qp_alloc_qpn(mdev, qp);
	if (err)
		goto release;
	if (qp->pager)
		qp->pager->qpn = qp->qpn;
	/* Before the command, so that no CQ is made anew to which a queue pair completes. */
	if (moor_qp_is_kernel(qp)) {
		err = moor_cqs_enter(qp);
		if (err)
			goto erase;
	}
	if (moor_qp_is_target(qp))
		err = moor_cmd_create_target(mdev, qp->qpn,
					     to_mxrcd(attr->xrcd)->xrcdn);
	else
		err = moor_cmd_create_qp(mdev, qp, &req);
	if (err)
		goto leave;
	ibqp->qp_num = qp->qpn;
	if (udata)
		err = moor_qp_respond(qp, udata);
	if (err)
		goto destroy;
	return 0;

destroy:
	moor_cmd_destroy_qp(mdev, qp->qpn);
leave:
	if (moor_qp_is_kernel(qp))
		moor_cqs_leave(qp);
erase:
	moor_qp_erase(mdev, qp);
release:
	moor_qp_release(qp);
	return err;
}

/* The path as it was set, without the core's references. */
static void moor_qp_copy_path(struct rdma_ah_attr *to,
			      const struct rdma_ah_attr *from)
{
	*to = *from;
	to->grh.sgid_attr = NULL;
}

/**
 * moor_query_qp - attributes of a queue pair
 * @ibqp: queue pair
 * @attr: filled in
 * @mask: what is asked for; everything is given
 * @init_attr: filled in
 *
 * The driver remembers what was set; it asks the device for what changes by itself.
 *
 * Return: 0 or an errno; -EAGAIN for a QP that is being destroyed, which before 7.x the
 * core's list of QPs can ask for: it leaves the QP out then, any other error ends the list.
 */
int moor_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_qp_init_attr *init_attr)
{
	struct moor_dev *mdev = to_mdev(ibqp->device);
	struct moor_qp *qp = to_mqp(ibqp);
	struct moor_cpl_query_qp state;
	int err;

	/* Held across the command: what it says and @qp->attr belong together. */
	mutex_lock(&qp->lock);
	err = qp->leaving ? -EAGAIN : moor_cmd_query_qp(mdev, qp->qpn, &state);
	if (err)
		goto unlock;
	qp->attr.qp_state = state.state;
	*attr = qp->attr;
	moor_qp_copy_path(&attr->ah_attr, &qp->attr.ah_attr);
unlock:
	mutex_unlock(&qp->lock);
	if (err)
		return err;

	attr->cur_qp_state = attr->qp_state;
	attr->sq_draining = state.sq_draining;
	attr->sq_psn = le32_to_cpu(state.sq_psn);
	attr->rq_psn = le32_to_cpu(state.rq_psn);
	attr->cap = qp->cap;
	attr->port_num = MOOR_PORT;
	attr->path_mig_state = IB_MIG_MIGRATED;

	init_attr->event_handler = ibqp->event_handler;
	init_attr->qp_context = ibqp->qp_context;
	init_attr->send_cq = ibqp->send_cq;
	init_attr->recv_cq = ibqp->recv_cq;
	init_attr->srq = ibqp->srq;
	init_attr->cap = qp->cap;
	init_attr->sq_sig_type = qp->sq_sig_type;
	init_attr->qp_type = ibqp->qp_type;
	init_attr->port_num = MOOR_PORT;
	return 0;
}

/**
 * moor_destroy_qp - destroy a queue pair
 * @ibqp: queue pair
 * @udata: unused
 *
 * Return: 0. A device that refuses is stopped.
 */
int moor_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct moor_dev *mdev = to_mdev(ibqp->device);
	struct moor_qp *qp = to_mqp(ibqp);

	mutex_lock(&qp->lock);
	qp->leaving = true;
	mutex_unlock(&qp->lock);
	moor_cmd_destroy_qp(mdev, qp->qpn);
	moor_qp_erase(mdev, qp);
	if (moor_qp_is_kernel(qp)) {
		moor_cqs_leave(qp);
		moor_fast_settle(qp);
	}
	moor_qp_release(qp);
	return 0;
}
