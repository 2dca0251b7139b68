// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "xrc.h"

struct ibv_xrcd *open_domain(struct ibv_context *ctx, int fd, int flags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd, .oflags = flags,
	};

	errno = 0;
	return ibv_open_xrcd(ctx, &attr);
}

struct ibv_srq_init_attr_ex srq_attr(struct ibv_pd *pd, struct ibv_xrcd *xrcd,
				     struct ibv_cq *cq)
{
	return (struct ibv_srq_init_attr_ex){
		.attr = { .max_wr = XRC_DEPTH, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC, .pd = pd, .xrcd = xrcd, .cq = cq,
	};
}

void open_inbox(struct inbox *in, struct ibv_context *ctx, struct ibv_xrcd *xrcd,
		int access)
{
	struct ibv_srq_init_attr_ex attr;

	in->pd = ibv_alloc_pd(ctx);
	in->cq = ibv_create_cq(ctx, 2 * XRC_DEPTH, NULL, NULL, 0);
	in->buf = aligned_alloc(4096, XRC_BUF);
	if (!in->pd || !in->cq || !in->buf)
		tap_bail("cannot open an inbox: %s", strerror(errno));
	memset(in->buf, 0, XRC_BUF);
	in->mr = ibv_reg_mr(in->pd, in->buf, XRC_BUF, ALL_ACCESS | access);
	attr = srq_attr(in->pd, xrcd, in->cq);
	in->srq = ibv_create_srq_ex(ctx, &attr);
	if (!in->mr || !in->srq || ibv_get_srq_num(in->srq, &in->number))
		tap_bail("cannot open an inbox: %s", strerror(errno));
}

void close_inbox(struct inbox *in)
{
	if (ibv_destroy_srq(in->srq) || ibv_destroy_cq(in->cq) ||
	    ibv_dereg_mr(in->mr) || ibv_dealloc_pd(in->pd))
		tap_bail("cannot close an inbox");
	free(in->buf);
}

struct ibv_qp *make_target(struct ibv_context *ctx, struct ibv_xrcd *xrcd)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV, .xrcd = xrcd,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
	};

	return ibv_create_qp_ex(ctx, &attr);
}

struct ibv_qp *open_target(struct ibv_context *ctx, struct ibv_xrcd *xrcd,
			   uint32_t number)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
			     IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = number, .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV,
	};

	errno = 0;
	return ibv_open_qp(ctx, &attr);
}

static struct ibv_qp *make_requester(struct xrc *x, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = x->cq, .qp_type = IBV_QPT_XRC_SEND, .pd = x->pd,
		.cap = { .max_send_wr = 16, .max_send_sge = 1,
			 .max_inline_data = 32, .max_recv_wr = 5 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = ops,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(x->ctx, &attr);

	if (!qp)
		tap_bail("no requester: %s", strerror(errno));
	tap_is(attr.cap.max_recv_wr, 0, "a requester has no receives");
	return qp;
}

/* Takes a QP from RESET to RTS; requesters and targets need different attributes. */
int connect_one(struct xrc *x, struct side *side, uint32_t peer, bool target)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer, .rq_psn = 77, .max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = {
			.grh = { .dgid = x->pair.gid,
				 .sgid_index = x->pair.gid_index, .hop_limit = 1 },
			.is_global = 1, .port_num = 1,
		},
	};
	int err = modify_to_init(&x->pair, side);

	if (err)
		return err;
	err = ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_AV |
			    IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    (target ? IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER : 0));
	if (err)
		return err;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = impaired() ? 12 : 10,
		.retry_cnt = impaired() ? 7 : 2, .rnr_retry = impaired() ? 7 : 2,
		.sq_psn = 77, .max_rd_atomic = 4,
	};
	return ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN |
			     IBV_QP_TIMEOUT | (target ? 0 : IBV_QP_RETRY_CNT |
					       IBV_QP_RNR_RETRY |
					       IBV_QP_MAX_QP_RD_ATOMIC));
}

void reconnect(struct xrc *x)
{
	int err = modify_to(&x->ini, IBV_QPS_RESET);

	err = err ? err : modify_to(&x->tgt, IBV_QPS_RESET);
	err = err ? err : connect_one(x, &x->tgt, x->ini.qp->qp_num, true);
	err = err ? err : connect_one(x, &x->ini, x->tgt.qp->qp_num, false);
	if (err)
		tap_bail("cannot connect: %s", strerror(err));
}

void open_requester(struct xrc *x, struct ibv_context *ctx, int fd, uint64_t ops)
{
	memset(x, 0, sizeof(*x));
	x->ctx = ctx;
	x->pair.ctx = ctx;
	x->pair.config = pair_defaults;
	pair_find_gid(&x->pair);
	x->xrcd = open_domain(ctx, fd, O_CREAT);
	if (!x->xrcd)
		tap_bail("ibv_open_xrcd: %s", strerror(errno));
	x->pd = ibv_alloc_pd(ctx);
	x->cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	x->buf = aligned_alloc(4096, XRC_BUF);
	if (!x->pd || !x->cq || !x->buf)
		tap_bail("no memory");
	x->mr = ibv_reg_mr(x->pd, x->buf, XRC_BUF, ALL_ACCESS);
	if (!x->mr)
		tap_bail("ibv_reg_mr: %s", strerror(errno));
	x->ini.qp = make_requester(x, ops);
}

void close_requester(struct xrc *x)
{
	if (ibv_destroy_qp(x->ini.qp) || ibv_destroy_cq(x->cq) ||
	    ibv_dereg_mr(x->mr) || ibv_dealloc_pd(x->pd))
		tap_bail("cannot close the requester");
	free(x->buf);
	tap_is(ibv_close_xrcd(x->xrcd), 0, "the domain is closed");
}

int post_inbox(struct inbox *in, uint32_t n)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)in->buf + n % XRC_DEPTH * XRC_SIZE, .length = XRC_SIZE,
		.lkey = in->mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = { .wr_id = n, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_srq_recv(in->srq, &wr, &bad);
}

enum ibv_wc_status xrc_ask(struct xrc *x, uint32_t number, enum ibv_wr_opcode opcode,
			   uint64_t remote, uint32_t rkey, uint32_t length)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)x->buf, .length = length, .lkey = x->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED, .imm_data = htobe32(99),
		.qp_type.xrc.remote_srqn = number,
	};
	struct ibv_wc wc;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	    opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 40;
		wr.wr.atomic.swap = 7;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	if (ibv_post_send(x->ini.qp, &wr, &bad) || !wait_wc(x->cq, &wc))
		tap_bail("a request does not complete");
	return wc.status;
}
