// SPDX-License-Identifier: GPL-2.0
/*
 * Modifying queue pairs: the core's attributes become the device's.
 */

#include <rdma/ib_cache.h>

#include "moor.h"

#define MOOR_QP_UNSUPPORTED	(IB_QP_ALT_PATH | IB_QP_PATH_MIG_STATE |	\
				 IB_QP_CAP | IB_QP_RATE_LIMIT)
#define MOOR_REMOTE_ACCESS	(IB_ACCESS_REMOTE_WRITE |			\
				 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC)
#define MOOR_PSN_MASK		0xffffff

static bool moor_qp_numbers_ok(const struct moor_dev *mdev,
			       const struct ib_qp_attr *attr, int mask)
{
	if (mask & IB_QP_PKEY_INDEX && attr->pkey_index)
		return false;
	if (mask & IB_QP_PATH_MTU && (attr->path_mtu < IB_MTU_256 ||
				      attr->path_mtu > IB_MTU_4096))
		return false;
	if (mask & IB_QP_TIMEOUT && attr->timeout > 31)
		return false;
	if (mask & IB_QP_RETRY_CNT && attr->retry_cnt > 7)
		return false;
	if (mask & IB_QP_RNR_RETRY && attr->rnr_retry > 7)
		return false;
	if (mask & IB_QP_MIN_RNR_TIMER && attr->min_rnr_timer > 31)
		return false;
	if (mask & IB_QP_DEST_QPN && attr->dest_qp_num > MOOR_PSN_MASK)
		return false;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC &&
	    attr->max_rd_atomic > mdev->caps.max_rd_atomic)
		return false;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC &&
	    attr->max_dest_rd_atomic > mdev->caps.max_rd_atomic)
		return false;
	return true;
}

static int moor_qp_check_modify(struct moor_qp *qp,
				const struct ib_qp_attr *attr, int mask)
{
	struct moor_dev *mdev = to_mdev(qp->ibqp.device);
	enum ib_qp_state from, to;

	lockdep_assert_held(&qp->lock);
	if (mask & ~IB_QP_ATTR_STANDARD_BITS || mask & MOOR_QP_UNSUPPORTED)
		return -EOPNOTSUPP;
	from = mask & IB_QP_CUR_STATE ? attr->cur_qp_state : qp->attr.qp_state;
	to = mask & IB_QP_STATE ? attr->qp_state : from;
	if (!ib_modify_qp_is_ok(from, to, qp->ibqp.qp_type, mask))
		return -EINVAL;
	if (!moor_qp_numbers_ok(mdev, attr, mask))
		return -EINVAL;
	if (mask & IB_QP_AV &&
	    (attr->ah_attr.type != RDMA_AH_ATTR_TYPE_ROCE ||
	     !(rdma_ah_get_ah_flags(&attr->ah_attr) & IB_AH_GRH) ||
	     rdma_ah_read_grh(&attr->ah_attr)->sgid_index >=
	     mdev->caps.max_gid))
		return -EINVAL;
	return 0;
}

static void moor_qp_put_path(struct moor_cmd_modify_qp *cmd,
			     const struct moor_qp *qp,
			     const struct ib_qp_attr *attr, int mask)
{
	const struct rdma_ah_attr *ah = &attr->ah_attr;
	const struct ib_global_route *grh = rdma_ah_read_grh(ah);
	u32 dest = mask & IB_QP_DEST_QPN ? attr->dest_qp_num :
					   qp->attr.dest_qp_num;
	u32 label = grh->flow_label & IB_GRH_FLOWLABEL_MASK;

	cmd->sgid_index = grh->sgid_index;
	cmd->hop_limit = grh->hop_limit;
	cmd->traffic_class = grh->traffic_class;
	cmd->flow_label = cpu_to_le32(label);
	cmd->udp_sport = cpu_to_le16(rdma_get_udp_sport(label, qp->qpn, dest));
	memcpy(cmd->dmac, ah->roce.dmac, sizeof(cmd->dmac));
	memcpy(cmd->dgid, grh->dgid.raw, sizeof(cmd->dgid));
}

/* Fields that are only copied: their bits in both masks and where they go. */
static u32 moor_qp_put_numbers(struct moor_cmd_modify_qp *cmd,
			       const struct ib_qp_attr *attr, int mask)
{
	u32 bits = 0;

	if (mask & IB_QP_PATH_MTU) {
		bits |= MOOR_QP_ATTR_PATH_MTU;
		cmd->path_mtu = attr->path_mtu;
	}
	if (mask & IB_QP_DEST_QPN) {
		bits |= MOOR_QP_ATTR_DEST_QPN;
		cmd->dest_qpn = cpu_to_le32(attr->dest_qp_num);
	}
	if (mask & IB_QP_RQ_PSN) {
		bits |= MOOR_QP_ATTR_RQ_PSN;
		cmd->rq_psn = cpu_to_le32(attr->rq_psn & MOOR_PSN_MASK);
	}
	if (mask & IB_QP_SQ_PSN) {
		bits |= MOOR_QP_ATTR_SQ_PSN;
		cmd->sq_psn = cpu_to_le32(attr->sq_psn & MOOR_PSN_MASK);
	}
	if (mask & IB_QP_MAX_QP_RD_ATOMIC) {
		bits |= MOOR_QP_ATTR_MAX_RD_ATOMIC;
		cmd->max_rd_atomic = attr->max_rd_atomic;
	}
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC) {
		bits |= MOOR_QP_ATTR_MAX_DEST_RD_ATOMIC;
		cmd->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	}
	if (mask & IB_QP_MIN_RNR_TIMER) {
		bits |= MOOR_QP_ATTR_MIN_RNR_TIMER;
		cmd->min_rnr_timer = attr->min_rnr_timer;
	}
	if (mask & IB_QP_TIMEOUT) {
		bits |= MOOR_QP_ATTR_TIMEOUT;
		cmd->timeout = attr->timeout;
	}
	if (mask & IB_QP_RETRY_CNT) {
		bits |= MOOR_QP_ATTR_RETRY_CNT;
		cmd->retry_cnt = attr->retry_cnt;
	}
	if (mask & IB_QP_RNR_RETRY) {
		bits |= MOOR_QP_ATTR_RNR_RETRY;
		cmd->rnr_retry = attr->rnr_retry;
	}
	return bits;
}

/* A datagram QP has no path of its own; its packet size is the port's. */
static u32 moor_qp_put_datagram(struct moor_cmd_modify_qp *cmd,
				const struct moor_qp *qp,
				const struct ib_qp_attr *attr, int mask)
{
	u32 bits = 0;

	if (!moor_qp_is_ud(qp))
		return 0;
	if (mask & IB_QP_QKEY) {
		bits |= MOOR_QP_ATTR_QKEY;
		cmd->qkey = cpu_to_le32(attr->qkey);
	}
	if (mask & IB_QP_PKEY_INDEX) {
		bits |= MOOR_QP_ATTR_PKEY_INDEX;
		cmd->pkey_index = cpu_to_le16(attr->pkey_index);
	}
	if (mask & IB_QP_STATE && attr->qp_state == IB_QPS_INIT) {
		bits |= MOOR_QP_ATTR_PATH_MTU;
		cmd->path_mtu = moor_port_mtu(to_mdev(qp->ibqp.device));
	}
	return bits;
}

/* Rights that the device does not have must not be sent to it (HWI VER-9). */
static void moor_qp_put_access(struct moor_cmd_modify_qp *cmd,
			       const struct moor_qp *qp, u32 access)
{
	u32 flush = access & moor_flush_rights(to_mdev(qp->ibqp.device));

	cmd->access = access & MOOR_REMOTE_ACCESS;
	cmd->access_high = flush >> 8;
}

static int moor_qp_send_modify(struct moor_qp *qp,
			       const struct ib_qp_attr *attr, int mask)
{
	struct moor_cmd_modify_qp cmd = {
		.hdr.opcode = MOOR_CMD_MODIFY_QP,
		.qpn = cpu_to_le32(qp->qpn),
	};
	u32 bits = moor_qp_put_numbers(&cmd, attr, mask) |
		   moor_qp_put_datagram(&cmd, qp, attr, mask);

	if (mask & IB_QP_STATE) {
		bits |= MOOR_QP_ATTR_STATE;
		cmd.state = attr->qp_state;
	}
	if (mask & IB_QP_ACCESS_FLAGS) {
		bits |= MOOR_QP_ATTR_ACCESS;
		moor_qp_put_access(&cmd, qp, attr->qp_access_flags);
	}
	if (mask & IB_QP_AV) {
		bits |= MOOR_QP_ATTR_PATH;
		moor_qp_put_path(&cmd, qp, attr, mask);
	}
	if (mask & IB_QP_EN_SQD_ASYNC_NOTIFY && attr->en_sqd_async_notify)
		bits |= MOOR_QP_ATTR_SQD_EVENT;
	cmd.mask = cpu_to_le32(bits);
	return moor_cmd_exec(to_mdev(qp->ibqp.device), &cmd, sizeof(cmd), NULL,
			     0);
}

static bool moor_qp_is_reset(const struct ib_qp_attr *attr, int mask)
{
	return mask & IB_QP_STATE && attr->qp_state == IB_QPS_RESET;
}

/* Remember what was set, for queries. */
static void moor_qp_remember(struct moor_qp *qp, const struct ib_qp_attr *attr,
			     int mask)
{
	struct ib_qp_attr *shadow = &qp->attr;

	lockdep_assert_held(&qp->lock);
	if (moor_qp_is_reset(attr, mask)) {
		memset(shadow, 0, sizeof(*shadow));
		return;
	}
	if (mask & IB_QP_STATE) {
		shadow->qp_state = attr->qp_state;
		WRITE_ONCE(qp->left_reset, true);
	}
	if (mask & IB_QP_ACCESS_FLAGS)
		shadow->qp_access_flags = attr->qp_access_flags;
	if (mask & IB_QP_QKEY)
		shadow->qkey = attr->qkey;
	if (mask & IB_QP_AV)
		shadow->ah_attr = attr->ah_attr;
	if (mask & IB_QP_PATH_MTU)
		shadow->path_mtu = attr->path_mtu;
	if (mask & IB_QP_DEST_QPN)
		shadow->dest_qp_num = attr->dest_qp_num;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		shadow->max_rd_atomic = attr->max_rd_atomic;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		shadow->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IB_QP_MIN_RNR_TIMER)
		shadow->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IB_QP_TIMEOUT)
		shadow->timeout = attr->timeout;
	if (mask & IB_QP_RETRY_CNT)
		shadow->retry_cnt = attr->retry_cnt;
	if (mask & IB_QP_RNR_RETRY)
		shadow->rnr_retry = attr->rnr_retry;
}

/*
 * A task that drains a queue pair of the kernel takes it to ERR first, and frees memory
 * next: a device that does not obey is stopped, and on a dead device the step succeeds,
 * since poll.c flushes what is posted.
 */
static bool moor_qp_must_stop(const struct moor_qp *qp,
			      const struct ib_qp_attr *attr, int mask)
{
	return moor_qp_is_kernel(qp) && mask & IB_QP_STATE &&
	       (attr->qp_state == IB_QPS_ERR || attr->qp_state == IB_QPS_RESET);
}

/**
 * moor_modify_qp - change attributes of a queue pair
 * @ibqp: queue pair
 * @attr: attributes
 * @mask: which of them
 * @udata: no input
 *
 * Return: 0, even if the device refuses to take a QP of the kernel to ERR or RESET;
 * -EINVAL for a transition or value that IBA does not allow; -EOPNOTSUPP for what
 * Moor does not have; -ENOMEM.
 */
int moor_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		   struct ib_udata *udata)
{
	struct moor_pager *pager = NULL;
	struct moor_qp *qp = to_mqp(ibqp);
	int err;

	err = ib_no_udata_io(udata);
	if (err)
		return err;

	/* Held across the command: transitions take effect in their order. */
	mutex_lock(&qp->lock);
	err = moor_qp_check_modify(qp, attr, mask);
	if (err)
		goto unlock;
	if (qp->pager && moor_qp_is_reset(attr, mask)) {
		pager = moor_pager_another(qp->pager);
		err = pager ? 0 : -ENOMEM;
	}
	if (err)
		goto unlock;
	err = moor_qp_send_modify(qp, attr, mask);
	if (err && moor_qp_must_stop(qp, attr, mask)) {
		moor_hw_kill(to_mdev(ibqp->device),
			     "it refused to stop a queue pair");
		/* The device may have died while this QP was on its way out of RESET. */
		moor_kernel_qp_last_wqe(qp);
		err = 0;
	}
	if (err)
		goto unlock;
	if (moor_qp_is_kernel(qp) && moor_qp_is_reset(attr, mask))
		moor_kernel_qp_reset(qp);
	else if (moor_qp_must_stop(qp, attr, mask))
		moor_kernel_qp_stopped(qp);
	if (pager)
		pager = moor_pager_swap(qp, pager);
	moor_qp_remember(qp, attr, mask);
unlock:
	mutex_unlock(&qp->lock);
	moor_pager_close(pager);
	return err;
}
