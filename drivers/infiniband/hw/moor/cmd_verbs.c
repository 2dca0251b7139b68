// SPDX-License-Identifier: GPL-2.0
/*
 * The commands of HWI 8.4, typed. On a dead device, commands that make an object fail;
 * those that end one succeed, because the device has no objects any more.
 */

#include "moor.h"

/*
 * The core has made sure that nothing uses the object. A device that refuses to let
 * go of the object would go on using its memory, so the device is stopped, with all
 * its objects: afterwards the memory may be freed in either case.
 */
static void moor_cmd_end(struct moor_dev *mdev, const void *cmd, size_t len,
			 const char *refusal)
{
	if (moor_cmd_exec(mdev, cmd, len, NULL, 0))
		moor_hw_kill(mdev, refusal);
}

/* The device gave an impossible answer: nothing else that it says can be trusted. */
static int moor_cmd_absurd(struct moor_dev *mdev, const char *what)
{
	moor_hw_kill(mdev, what);
	return -EIO;
}

int moor_cmd_create_eq(struct moor_dev *mdev, const struct moor_eq *eq)
{
	struct moor_cmd_create_eq cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_EQ,
		.eqn = cpu_to_le32(eq->eqn),
		.vector = cpu_to_le16(eq->vector),
		.log_eqe = eq->log_size,
		.base = cpu_to_le64(eq->dma),
	};

	return moor_cmd_exec(mdev, &cmd, sizeof(cmd), NULL, 0);
}

void moor_cmd_destroy_eq(struct moor_dev *mdev, u32 eqn)
{
	struct moor_cmd_destroy_eq cmd = {
		.hdr.opcode = MOOR_CMD_DESTROY_EQ,
		.eqn = cpu_to_le32(eqn),
	};

	moor_cmd_end(mdev, &cmd, sizeof(cmd),
		     "it refused to destroy an event queue");
}

int moor_cmd_create_cq(struct moor_dev *mdev, const struct moor_cq *cq,
		       u8 log_cqe)
{
	struct moor_cmd_create_cq cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_CQ,
		.cqn = cpu_to_le32(cq->cqn),
		.eqn = cpu_to_le32(cq->eq->eqn),
		.doorbell = cq->uctx ? moor_db_location(&cq->db, 0) :
			    moor_kernel_slot_location(&cq->kernel.slot),
		.log_cqe = log_cqe,
		.ring = cq->ring.table.xlat,
	};

	return moor_cmd_exec(mdev, &cmd, sizeof(cmd), NULL, 0);
}

int moor_cmd_resize_cq(struct moor_dev *mdev, u32 cqn,
		       const struct moor_ring *ring, u8 log_cqe)
{
	struct moor_cmd_resize_cq cmd = {
		.hdr.opcode = MOOR_CMD_RESIZE_CQ,
		.cqn = cpu_to_le32(cqn),
		.log_cqe = log_cqe,
		.ring = ring->table.xlat,
	};

	return moor_cmd_exec(mdev, &cmd, sizeof(cmd), NULL, 0);
}

int moor_cmd_modify_cq(struct moor_dev *mdev, u32 cqn, u16 count, u16 period)
{
	struct moor_cmd_modify_cq cmd = {
		.hdr.opcode = MOOR_CMD_MODIFY_CQ,
		.cqn = cpu_to_le32(cqn),
		.count = cpu_to_le16(count),
		.period = cpu_to_le16(period),
	};

	return moor_cmd_exec(mdev, &cmd, sizeof(cmd), NULL, 0);
}

void moor_cmd_destroy_cq(struct moor_dev *mdev, u32 cqn)
{
	struct moor_cmd_destroy_cq cmd = {
		.hdr.opcode = MOOR_CMD_DESTROY_CQ,
		.cqn = cpu_to_le32(cqn),
	};

	moor_cmd_end(mdev, &cmd, sizeof(cmd),
		     "it refused to destroy a completion queue");
}

static u8 moor_cmd_qp_type(enum ib_qp_type type)
{
	switch (type) {
	case IB_QPT_UC:
		return MOOR_QP_UC;
	case IB_QPT_UD:
	case IB_QPT_GSI:
		return MOOR_QP_UD;
	case IB_QPT_XRC_INI:
		return MOOR_QP_XRC_INI;
	case IB_QPT_XRC_TGT:
		return MOOR_QP_XRC_TGT;
	default:
		return MOOR_QP_RC;
	}
}

int moor_cmd_create_target(struct moor_dev *mdev, u32 qpn, u32 xrcdn)
{
	struct moor_cmd_create_qp cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_QP,
		.qpn = cpu_to_le32(qpn),
		.type = MOOR_QP_XRC_TGT,
		.no_sq = 1,
		.no_rq = 1,
		.xrcd = cpu_to_le32(xrcdn),
	};

	return moor_cmd_exec(mdev, &cmd, sizeof(cmd), NULL, 0);
}

int moor_cmd_create_qp(struct moor_dev *mdev, const struct moor_qp *qp,
		       const struct moor_create_qp_req *req)
{
	/* A QP without receives names a CQ all the same (HWI QP-5). */
	struct ib_cq *recv_cq = qp->ibqp.recv_cq ?: qp->ibqp.send_cq;
	struct moor_cmd_create_qp cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_QP,
		.qpn = cpu_to_le32(qp->qpn),
		.pd = cpu_to_le32(to_mpd(qp->ibqp.pd)->pdn),
		.send_cqn = cpu_to_le32(to_mcq(qp->ibqp.send_cq)->cqn),
		.recv_cqn = cpu_to_le32(to_mcq(recv_cq)->cqn),
		.cookie = cpu_to_le32(req->cookie),
		.type = moor_cmd_qp_type(qp->ibqp.qp_type),
		.flags = qp->uctx ? 0 : MOOR_QP_FLAG_KERNEL,
		.log_sq_depth = req->log_sq_depth,
		.log_sq_stride = req->log_sq_stride,
		.log_rq_depth = req->log_rq_depth,
		.log_rq_stride = req->log_rq_stride,
		.no_sq = !qp->cap.max_send_wr,
		.no_rq = !qp->cap.max_recv_wr,
	};

	if (!cmd.no_sq) {
		cmd.sq_doorbell = qp->uctx ? moor_db_location(&qp->db, 0) :
				  moor_kernel_slot_location(&qp->kernel.sq.slot);
		cmd.sq = qp->sq.table.xlat;
	}
	if (!cmd.no_rq) {
		cmd.rq_doorbell = qp->uctx ? moor_db_location(&qp->db, 1) :
				  moor_kernel_slot_location(&qp->kernel.rq.slot);
		cmd.rq = qp->rq.table.xlat;
	}
	if (qp->ibqp.srq) {
		cmd.flags |= MOOR_QP_FLAG_SRQ;
		cmd.srqn = cpu_to_le32(to_msrq(qp->ibqp.srq)->srqn);
	}
	return moor_cmd_exec(mdev, &cmd, sizeof(cmd), NULL, 0);
}

/**
 * moor_cmd_query_qp - what a queue pair is at the moment
 * @mdev: device
 * @qpn: its number
 * @out: filled in; its state is a valid one
 *
 * Return: 0 or an errno.
 */
int moor_cmd_query_qp(struct moor_dev *mdev, u32 qpn,
		      struct moor_cpl_query_qp *out)
{
	struct moor_cmd_query_qp cmd = {
		.hdr.opcode = MOOR_CMD_QUERY_QP,
		.qpn = cpu_to_le32(qpn),
	};
	int err = moor_cmd_exec(mdev, &cmd, sizeof(cmd), out, sizeof(*out));

	if (!err && out->state > MOOR_QPS_ERR)
		return moor_cmd_absurd(mdev, "a QP is in no state that there is");
	return err;
}

void moor_cmd_destroy_qp(struct moor_dev *mdev, u32 qpn)
{
	struct moor_cmd_destroy_qp cmd = {
		.hdr.opcode = MOOR_CMD_DESTROY_QP,
		.qpn = cpu_to_le32(qpn),
	};

	moor_cmd_end(mdev, &cmd, sizeof(cmd),
		     "it refused to destroy a queue pair");
}

int moor_cmd_create_srq(struct moor_dev *mdev, const struct moor_srq *srq)
{
	struct moor_cmd_create_srq cmd = {
		.hdr.opcode = MOOR_CMD_CREATE_SRQ,
		.srqn = cpu_to_le32(srq->srqn),
		.pd = cpu_to_le32(to_mpd(srq->ibsrq.pd)->pdn),
		.doorbell = srq->uctx ? moor_db_location(&srq->db, 0) :
			    moor_kernel_slot_location(&srq->kernel.slot),
		.flags = srq->uctx ? 0 : MOOR_SRQ_FLAG_KERNEL,
		.log_depth = srq->log_depth,
		.log_stride = srq->log_stride,
		.ring = srq->ring.table.xlat,
	};

	if (srq->ibsrq.srq_type == IB_SRQT_XRC) {
		cmd.flags |= MOOR_SRQ_FLAG_XRC;
		cmd.xrcd = cpu_to_le32(to_mxrcd(srq->ibsrq.ext.xrc.xrcd)->xrcdn);
		cmd.cqn = cpu_to_le32(to_mcq(srq->ibsrq.ext.cq)->cqn);
		cmd.cookie = cpu_to_le32(srq->cookie);
	}
	return moor_cmd_exec(mdev, &cmd, sizeof(cmd), NULL, 0);
}

/* The caller has filled in @cmd, except for the opcode. */
int moor_cmd_modify_srq(struct moor_dev *mdev, struct moor_cmd_modify_srq *cmd)
{
	cmd->hdr.opcode = MOOR_CMD_MODIFY_SRQ;
	return moor_cmd_exec(mdev, cmd, sizeof(*cmd), NULL, 0);
}

int moor_cmd_query_srq(struct moor_dev *mdev, u32 srqn,
		       struct moor_cpl_query_srq *out)
{
	struct moor_cmd_query_srq cmd = {
		.hdr.opcode = MOOR_CMD_QUERY_SRQ,
		.srqn = cpu_to_le32(srqn),
	};

	return moor_cmd_exec(mdev, &cmd, sizeof(cmd), out, sizeof(*out));
}

void moor_cmd_destroy_srq(struct moor_dev *mdev, u32 srqn)
{
	struct moor_cmd_destroy_srq cmd = {
		.hdr.opcode = MOOR_CMD_DESTROY_SRQ,
		.srqn = cpu_to_le32(srqn),
	};

	moor_cmd_end(mdev, &cmd, sizeof(cmd),
		     "it refused to destroy a shared receive queue");
}

static int moor_cmd_filter(struct moor_dev *mdev, u8 opcode, u32 qpn,
			   const union ib_gid *gid)
{
	struct moor_cmd_filter cmd = {
		.hdr.opcode = opcode,
		.type = MOOR_FILTER_MULTICAST,
		.qpn = cpu_to_le32(qpn),
	};

	memcpy(cmd.gid, gid->raw, sizeof(cmd.gid));
	return moor_cmd_exec(mdev, &cmd, sizeof(cmd), NULL, 0);
}

int moor_cmd_attach_filter(struct moor_dev *mdev, u32 qpn,
			   const union ib_gid *gid)
{
	return moor_cmd_filter(mdev, MOOR_CMD_ATTACH_FILTER, qpn, gid);
}

int moor_cmd_detach_filter(struct moor_dev *mdev, u32 qpn,
			   const union ib_gid *gid)
{
	return moor_cmd_filter(mdev, MOOR_CMD_DETACH_FILTER, qpn, gid);
}

int moor_cmd_set_gid(struct moor_dev *mdev, u16 index, u8 type, u16 vlan,
		     const u8 *smac, const union ib_gid *gid)
{
	struct moor_cmd_set_gid cmd = {
		.hdr.opcode = MOOR_CMD_SET_GID,
		.index = cpu_to_le16(index),
		.type = type,
		.vlan = cpu_to_le16(vlan),
	};

	memcpy(cmd.smac, smac, sizeof(cmd.smac));
	memcpy(cmd.gid, gid->raw, sizeof(cmd.gid));
	return moor_cmd_exec(mdev, &cmd, sizeof(cmd), NULL, 0);
}

int moor_cmd_clear_gid(struct moor_dev *mdev, u16 index)
{
	struct moor_cmd_set_gid cmd = {
		.hdr.opcode = MOOR_CMD_SET_GID,
		.index = cpu_to_le16(index),
		.type = MOOR_GID_NONE,
	};
	int err = moor_cmd_exec(mdev, &cmd, sizeof(cmd), NULL, 0);

	return err && moor_is_dead(mdev) ? 0 : err;
}

/**
 * moor_cmd_mr_revoke_start - take keys away and fence what they were used for
 * @mdev: device
 * @fence: keys and their number are set; the rest is filled in here
 *
 * moor_cmd_mr_revoke_wait() is to follow, also on a dead device.
 */
void moor_cmd_mr_revoke_start(struct moor_dev *mdev, struct moor_fence *fence)
{
	fence->cmd.hdr.opcode = MOOR_CMD_MR_REVOKE;
	fence->cmd.count = cpu_to_le32(fence->count);
	fence->tag = moor_cmd_start(mdev, &fence->cmd,
				    offsetof(typeof(fence->cmd), key) +
				    fence->count * sizeof(fence->cmd.key[0]));
}

/**
 * moor_cmd_mr_revoke_wait - wait until keys are taken away
 * @mdev: device
 * @fence: started
 * @busy: bit n: key n was refused
 *
 * A device that does not know a key has lost it, and with it the accesses that a
 * fence would have waited for: it is stopped.
 *
 * Return: 0 or an errno; -EIO on a dead device, which fences everything.
 */
int moor_cmd_mr_revoke_wait(struct moor_dev *mdev,
			    const struct moor_fence *fence, u32 *busy)
{
	struct moor_cpl_mr_revoke out;
	int err;

	err = moor_cmd_errno(moor_cmd_wait(mdev, fence->tag, &out, sizeof(out)));
	if (err)
		return err;
	if (out.unknown)
		return moor_cmd_absurd(mdev, "it has lost a key");
	*busy = le32_to_cpu(out.busy);
	if (*busy & ~GENMASK(fence->count - 1, 0))
		return moor_cmd_absurd(mdev, "it refused a key that was not named");
	return 0;
}

/**
 * moor_cmd_mr_invalidate - make the device forget part of a translation
 * @mdev: device
 * @key: of an MR with ON_DEMAND
 * @addr: first byte, in the MR's own address space
 * @length: bytes
 *
 * Context: also in reclaim. Allocates nothing, and waits for no other command.
 *
 * Return: 0 when nothing uses that part any more, or an errno.
 */
int moor_cmd_mr_invalidate(struct moor_dev *mdev, u32 key, u64 addr,
			   u64 length)
{
	struct moor_cmd_mr_invalidate cmd = {
		.hdr.opcode = MOOR_CMD_MR_INVALIDATE,
		.key = cpu_to_le32(key),
		.addr = cpu_to_le64(addr),
		.length = cpu_to_le64(length),
	};

	return moor_cmd_exec(mdev, &cmd, sizeof(cmd), NULL, 0);
}

/**
 * moor_cmd_page_response - answer a page request
 * @mdev: device
 * @token: of the request
 * @resolved: the page is there; false: it cannot be had
 *
 * It does not matter if no QP waits for the answer any more (HWI ODP-13). A QP that waits
 * and gets no answer waits for ever: a device that refuses for other reasons is stopped.
 */
void moor_cmd_page_response(struct moor_dev *mdev, u32 token, bool resolved)
{
	struct moor_cmd_page_response cmd = {
		.hdr.opcode = MOOR_CMD_PAGE_RESPONSE,
		.token = cpu_to_le32(token),
		.status = resolved ? MOOR_PAGE_RESOLVED : MOOR_PAGE_FAILED,
	};
	int status = moor_cmd_status(mdev, &cmd, sizeof(cmd), NULL, 0);

	if (status > MOOR_CMD_OK && status != MOOR_CMD_BAD_INDEX)
		moor_hw_kill(mdev, "it did not take an answer about a page");
}

/**
 * moor_cmd_mr_query - what an entry of the context table is at the moment
 * @mdev: device
 * @key: its key; the consumer byte does not matter
 * @out: filled in
 *
 * Return: 0; -EINVAL if the device knows no such key; or another errno.
 */
int moor_cmd_mr_query(struct moor_dev *mdev, u32 key,
		      struct moor_cpl_mr_query *out)
{
	struct moor_cmd_mr_query cmd = {
		.hdr.opcode = MOOR_CMD_MR_QUERY,
		.key = cpu_to_le32(key),
	};

	return moor_cmd_exec(mdev, &cmd, sizeof(cmd), out, sizeof(*out));
}

/**
 * moor_cmd_mr_windows - some of the windows bound to an MR
 * @mdev: device
 * @key: of the MR
 * @cursor: 0, or where the answer before ended
 * @buffer: page for MOOR_WINDOWS_PER_PAGE of struct moor_window_info
 * @out: how many were written, no more than there is room for, and where to go on
 *
 * Return: 0; -EINVAL if the device knows no such key; or another errno.
 */
int moor_cmd_mr_windows(struct moor_dev *mdev, u32 key, u32 cursor,
			dma_addr_t buffer, struct moor_cpl_mr_windows *out)
{
	struct moor_cmd_mr_windows cmd = {
		.hdr.opcode = MOOR_CMD_MR_WINDOWS,
		.key = cpu_to_le32(key),
		.cursor = cpu_to_le32(cursor),
		.buffer = cpu_to_le64(buffer),
	};
	int err = moor_cmd_exec(mdev, &cmd, sizeof(cmd), out, sizeof(*out));

	if (!err && le32_to_cpu(out->count) > MOOR_WINDOWS_PER_PAGE)
		return moor_cmd_absurd(mdev, "it lists more windows than there is room for");
	return err;
}
