// SPDX-License-Identifier: GPL-2.0
/* Two queue pairs of one device, connected to each other. */

#include <linux/etherdevice.h>
#include <rdma/ib_cache.h>
#include <rdma/rw.h>

#include "verbs_test.h"

#define PORT	1
#define FIRST_PSN	0xfffff0	/* wraps soon */
/* No connection gets that far; each fourth one wraps. */
#define PSN_STRIDE	BIT(22)

/* An ACK counts as missed after 67 ms, or after 16. */
#define ACK_TIMEOUT		14
#define IMPAIRED_TIMEOUT	12

static const struct ib_gid_attr *find_gid(struct ib_device *dev)
{
	const struct ib_gid_attr *gid;
	int i;

	for (i = 0; i < dev->port_data[PORT].immutable.gid_tbl_len; i++) {
		gid = rdma_get_gid_attr(dev, PORT, i);
		if (IS_ERR(gid))
			continue;
		if (gid->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP)
			return gid;
		rdma_put_gid_attr(gid);
	}
	return NULL;
}

static struct ib_cq *open_cq(struct link *link)
{
	struct ib_cq_init_attr attr = {
		.cqe = link->how.cqe ?: 2 * link->how.depth,
	};

	if (link->how.alloc_cq)
		return ib_alloc_cq(link->dev, link, attr.cqe, 0,
				   link->how.poll_ctx);
	return ib_create_cq(link->dev, NULL, NULL, link, &attr);
}

static struct ib_qp *open_qp(struct link *link, int side)
{
	struct ib_qp_init_attr attr = {
		.qp_type = link->how.type,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.send_cq = link->cq[side],
		.recv_cq = link->cq[side],
		.port_num = PORT,
		.cap = {
			.max_send_wr = link->how.depth,
			.max_recv_wr = link->how.depth,
			.max_send_sge = link->how.max_sge,
			.max_recv_sge = 1,
			.max_inline_data = link->how.max_inline,
			.max_rdma_ctxs = link->how.rdma_ctxs,
		},
	};

	return ib_create_qp(link->pd, &attr);
}

/* Modifies with the attributes that IBA requires for each state on the way to RTS. */
static int modify(struct link *link, int side, enum ib_qp_state state)
{
	struct ib_qp_attr attr = {
		.qp_state = state,
		.port_num = PORT,
		.qp_access_flags = IB_ACCESS_REMOTE_WRITE |
				   IB_ACCESS_REMOTE_READ |
				   IB_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = link->qp[!side]->qp_num,
		.rq_psn = link->psn,
		.sq_psn = link->psn,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = impaired ? IMPAIRED_TIMEOUT : ACK_TIMEOUT,
		.retry_cnt = 7,
		.rnr_retry = 3,
	};
	int mask = IB_QP_STATE;

	switch (state) {
	case IB_QPS_INIT:
		mask |= IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS;
		break;
	case IB_QPS_RTR:
		mask |= IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN |
			IB_QP_RQ_PSN;
		if (link->how.type == IB_QPT_RC)
			mask |= IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER;
		attr.ah_attr.type = RDMA_AH_ATTR_TYPE_ROCE;
		rdma_ah_set_port_num(&attr.ah_attr, PORT);
		rdma_ah_set_grh(&attr.ah_attr, NULL, 0, link->gid->index, 64, 0);
		memcpy(rdma_ah_retrieve_grh(&attr.ah_attr)->dgid.raw,
		       link->gid->gid.raw, sizeof(link->gid->gid.raw));
		rdma_read_gid_l2_fields(link->gid, NULL,
					attr.ah_attr.roce.dmac);
		break;
	case IB_QPS_RTS:
		mask |= IB_QP_SQ_PSN;
		if (link->how.type == IB_QPT_RC)
			mask |= IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
				IB_QP_RNR_RETRY | IB_QP_MAX_QP_RD_ATOMIC;
		break;
	default:
		break;
	}
	return ib_modify_qp(link->qp[side], &attr, mask);
}

/**
 * link_state - take a queue pair to a state
 * @link: link
 * @side: which of the two
 * @state: the next, or one that every state leads to
 *
 * Return: true if it worked.
 */
bool link_state(struct link *link, int side, enum ib_qp_state state)
{
	int err = modify(link, side, state);

	if (err)
		note("side %d to state %d: %d", side, state, err);
	return !err;
}

/**
 * link_connect - take both queue pairs from RESET to RTS
 * @link: link
 *
 * Return: true if it worked.
 */
bool link_connect(struct link *link)
{
	static const enum ib_qp_state way[] = {
		IB_QPS_INIT, IB_QPS_RTR, IB_QPS_RTS,
	};
	int i;

	/* Late packets of the last connection must not fall into this one's PSNs. */
	link->psn = (link->psn + PSN_STRIDE) & 0xffffff;
	for (i = 0; i < ARRAY_SIZE(way); i++)
		if (!link_state(link, 0, way[i]) || !link_state(link, 1, way[i]))
			return false;
	return true;
}

/**
 * link_revive - reset and connect both queue pairs after an error
 * @link: link
 *
 * Return: true if it worked.
 */
bool link_revive(struct link *link)
{
	struct ib_wc wc;
	int side;

	for (side = 0; side < 2; side++) {
		if (!link_state(link, side, IB_QPS_RESET))
			return false;
		while (ib_poll_cq(link->cq[side], 1, &wc) > 0)
			;
	}
	return link_connect(link);
}

/**
 * link_open - make a link
 * @link: filled in
 * @dev: device
 * @how: how
 *
 * Return: true if it worked; what failed is a test point that failed.
 */
bool link_open(struct link *link, struct ib_device *dev, struct link_how how)
{
	int i;

	*link = (struct link){ .dev = dev, .psn = FIRST_PSN, .how = how };
	link->how.type = how.type ?: IB_QPT_RC;
	link->how.depth = how.depth ?: LINK_DEPTH;
	link->how.max_sge = how.max_sge ?: 4;
	link->gid = find_gid(dev);
	if (!link->gid)
		return point(false, "the device has a RoCE v2 GID");
	link->pd = ib_alloc_pd(dev, 0);
	if (IS_ERR(link->pd)) {
		link->pd = NULL;
		goto fail;
	}
	for (i = 0; i < 2; i++) {
		link->cq[i] = open_cq(link);
		if (IS_ERR(link->cq[i])) {
			link->cq[i] = NULL;
			goto fail;
		}
		link->qp[i] = open_qp(link, i);
		if (IS_ERR(link->qp[i])) {
			note("QP: %ld", PTR_ERR(link->qp[i]));
			link->qp[i] = NULL;
			goto fail;
		}
	}
	if (how.no_connect || link_connect(link))
		return true;
fail:
	link_close(link);
	return point(false, "a link of two queue pairs");
}

/* Other queue pairs of the same CQs, with which none is left in between. */
bool link_again(struct link *link)
{
	int i;

	for (i = 0; i < 2; i++) {
		ib_destroy_qp(link->qp[i]);
		link->qp[i] = NULL;
	}
	for (i = 0; i < 2; i++) {
		link->qp[i] = open_qp(link, i);
		if (IS_ERR(link->qp[i])) {
			note("QP: %ld", PTR_ERR(link->qp[i]));
			link->qp[i] = NULL;
			return false;
		}
	}
	return link_connect(link);
}

void link_close(struct link *link)
{
	int i;

	for (i = 0; i < 2; i++)
		if (link->qp[i])
			ib_destroy_qp(link->qp[i]);
	for (i = 0; i < 2; i++) {
		if (!link->cq[i])
			continue;
		if (link->how.alloc_cq)
			ib_free_cq(link->cq[i]);
		else
			ib_destroy_cq(link->cq[i]);
	}
	if (link->pd)
		ib_dealloc_pd(link->pd);
	if (link->gid)
		rdma_put_gid_attr(link->gid);
}

/**
 * link_poll - wait for a completion
 * @link: link
 * @side: which side's CQ
 * @wc: filled in
 *
 * Return: true if there was one.
 */
bool link_poll(struct link *link, int side, struct ib_wc *wc)
{
	unsigned long end = jiffies + PATIENCE;

	do {
		if (ib_poll_cq(link->cq[side], 1, wc) == 1)
			return true;
		cond_resched();
	} while (time_before(jiffies, end));
	note("no completion on side %d", side);
	return false;
}

/* Return: true if there is no completion to be polled. */
bool link_quiet(struct link *link, int side)
{
	struct ib_wc wc;

	return !ib_poll_cq(link->cq[side], 1, &wc);
}

/* Posts work requests. Return: 0 or an errno. */
int link_send(struct link *link, int side, struct ib_send_wr *wr)
{
	const struct ib_send_wr *bad;

	return ib_post_send(link->qp[side], wr, &bad);
}

/* Posts and waits for one completion. Return: its status, or an errno. */
int link_finish(struct link *link, int side, struct ib_send_wr *wr)
{
	struct ib_wc wc;
	int err;

	err = link_send(link, side, wr);
	if (err)
		return err;
	return link_poll(link, side, &wc) ? wc.status : -ETIMEDOUT;
}

/* Posts a receive without a buffer. */
int link_recv(struct link *link, int side, u64 wr_id)
{
	struct ib_recv_wr wr = { .wr_id = wr_id };

	return ib_post_recv(link->qp[side], &wr, NULL);
}

/* READ or WRITE with one SGE. Return: its status, or an errno. */
int link_rdma(struct link *link, int side, enum ib_wr_opcode opcode,
	      struct ib_sge *sge, u64 addr, u32 rkey)
{
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = opcode,
			.send_flags = IB_SEND_SIGNALED,
			.sg_list = sge,
			.num_sge = 1,
		},
		.remote_addr = addr,
		.rkey = rkey,
	};

	return link_finish(link, side, &wr.wr);
}

/**
 * ended_with - compare a status with the one that is due
 * @got: status, or an errno
 * @due: the status that the peer's answer gives; if packets get lost, that
 *	answer may be, and a peer in ERR sends no other
 *
 * Return: true if it is.
 */
bool ended_with(int got, enum ib_wc_status due)
{
	bool is_told = due == IB_WC_REM_INV_REQ_ERR ||
		       due == IB_WC_REM_ACCESS_ERR || due == IB_WC_REM_OP_ERR;

	return got == due || (impaired && is_told && got == IB_WC_RETRY_EXC_ERR);
}
