// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "queues.h"

#define CQ_DEPTH	128	/* more than the acts of a graph leave unpolled */
#define SRQ_DEPTH	8
#define RNR_TIMER	24	/* 41 ms: many messages wait, and the NIC is busy */
#define BEYOND		(1u << 30)
#define MAX_TARGETS	256

/* ---- the path to this NIC itself ---- */

struct pair *own_path(struct ibv_context *ctx)
{
	/* Of the NIC: the same for all contexts. */
	static struct pair path;

	if (!path.ctx) {
		path = (struct pair){ .ctx = ctx, .config = pair_defaults };
		path.config.qkey = QKEY;
		path.config.min_rnr_timer = RNR_TIMER;
		pair_find_gid(&path);
	}
	return &path;
}

/*
 * pair.c knows RC, UC and UD. On its way to RTR an XRC requester takes the attributes
 * of UC, for it answers nothing, and an XRC target goes no further than RTR.
 */
int connect_to(struct side *side, uint32_t peer)
{
	struct pair *path = own_path(side->qp->context);
	enum ibv_qp_type type = side->qp->qp_type;
	int err;

	path->config.type = type;
	err = modify_to_init(path, side);
	if (type == IBV_QPT_XRC_SEND)
		path->config.type = IBV_QPT_UC;
	if (type == IBV_QPT_XRC_RECV)
		path->config.type = IBV_QPT_RC;
	if (!err)
		err = modify_to_rtr(path, side, peer);
	if (err || type == IBV_QPT_XRC_RECV)
		return err;
	path->config.type = type == IBV_QPT_XRC_SEND ? IBV_QPT_RC : type;
	return modify_to_rts(path, side);
}

int connect_to_itself(struct side *side)
{
	return connect_to(side, side->qp->qp_num);
}

/* An address handle of this NIC itself. */
int make_ah(struct life *life, struct node *node)
{
	const struct pair *path = own_path(life->ctx);
	struct ibv_ah_attr attr = {
		.grh = { .dgid = path->gid, .sgid_index = path->gid_index, .hop_limit = 1 },
		.is_global = 1, .port_num = 1,
	};

	hold_domain(node);
	return made(node->ah, ibv_create_ah(node->need[0]->pd, &attr));
}

int end_ah(struct node *node)
{
	return ibv_destroy_ah(node->ah);
}

/* ---- completion queues ---- */

int make_channel(struct life *life, struct node *node)
{
	return made(node->channel, ibv_create_comp_channel(life->ctx));
}

int end_channel(struct node *node)
{
	return ibv_destroy_comp_channel(node->channel);
}

int make_cq(struct life *life, struct node *node)
{
	return made(node->cq, ibv_create_cq(life->ctx, CQ_DEPTH, NULL, NULL, 0));
}

int make_cq_on(struct life *life, struct node *node)
{
	node->holds[0] = node->need[0];
	return made(node->cq, ibv_create_cq(life->ctx, CQ_DEPTH, NULL,
					    node->need[0]->channel, 0));
}

int end_cq(struct node *node)
{
	return ibv_destroy_cq(node->cq);
}

/* ---- queue pairs ---- */

/*
 * An imported PD, and an SRQ made with one, belong to another context than the CQs. The
 * core must refuse that; the QP is then made with the real PD, and without such an SRQ.
 */
static int make_qp_of(struct life *life, struct node *node, enum ibv_qp_type type,
		      struct node *srq)
{
	struct ibv_pd *pd = node->need[0]->pd;
	struct ibv_qp_init_attr attr = {
		.send_cq = node->side.send_cq, .recv_cq = node->side.recv_cq,
		.srq = srq ? srq->srq : NULL,
		.qp_type = type,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16,
			 .max_send_sge = 1, .max_recv_sge = 1,
			 .max_inline_data = INLINE_BYTES },
	};

	hold_domain(node);
	if (pd->context != life->ctx || (srq && srq->srq->context != life->ctx)) {
		if (ibv_create_qp(pd, &attr) || errno != EINVAL)
			return ENODATA;
		pd = node_real(node->need[0])->pd;
		if (srq && srq->srq->context != life->ctx)
			attr.srq = NULL;
	}
	if (attr.srq)
		node->holds[3] = srq;
	return made(node->side.qp, ibv_create_qp(pd, &attr));
}

static void take_cqs(struct node *node, struct node *send, struct node *recv)
{
	node->holds[2] = send;
	node->side.send_cq = send->cq;
	if (!recv)
		return;
	node->side.recv_cq = recv->cq;
	if (recv != send)
		node->holds[3] = recv;
}

int make_qp(struct life *life, struct node *node)
{
	take_cqs(node, node->need[1], node->need[2]);
	return make_qp_of(life, node, IBV_QPT_RC, NULL);
}

int make_uc(struct life *life, struct node *node)
{
	take_cqs(node, node->need[1], node->need[2]);
	return make_qp_of(life, node, IBV_QPT_UC, NULL);
}

int make_ud(struct life *life, struct node *node)
{
	take_cqs(node, node->need[1], node->need[1]);
	return make_qp_of(life, node, IBV_QPT_UD, NULL);
}

int make_rc_srq(struct life *life, struct node *node)
{
	take_cqs(node, node->need[2], node->need[2]);
	return make_qp_of(life, node, IBV_QPT_RC, node->need[1]);
}

int make_ud_srq(struct life *life, struct node *node)
{
	take_cqs(node, node->need[2], node->need[2]);
	return make_qp_of(life, node, IBV_QPT_UD, node->need[1]);
}

int make_ini(struct life *life, struct node *node)
{
	take_cqs(node, node->need[1], NULL);
	return make_qp_of(life, node, IBV_QPT_XRC_SEND, NULL);
}

int end_qp(struct node *node)
{
	return ibv_destroy_qp(node->side.qp);
}

/* ---- shared receive queues ---- */

int make_srq(struct life *life, struct node *node)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = SRQ_DEPTH, .max_sge = 1 },
	};

	(void)life;
	hold_domain(node);
	return made(node->srq, ibv_create_srq(node->need[0]->pd, &attr));
}

/*
 * As with QPs: domain and CQ never belong to the context that a PD was imported into.
 */
int make_xrc_srq(struct life *life, struct node *node)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = SRQ_DEPTH, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC, .pd = node->need[0]->pd,
		.xrcd = node->need[1]->xrcd, .cq = node->need[2]->cq,
	};

	hold_domain(node);
	node->holds[2] = node->need[1];
	node->holds[3] = node->need[2];
	if (attr.pd->context != life->ctx) {
		if (ibv_create_srq_ex(life->ctx, &attr) || errno != EINVAL)
			return ENODATA;
		attr.pd = node_real(node->need[0])->pd;
	}
	return made(node->srq, ibv_create_srq_ex(life->ctx, &attr));
}

int end_srq(struct node *node)
{
	return ibv_destroy_srq(node->srq);
}

/* ---- extended reliable connections ---- */

static struct ibv_xrcd *open_xrcd(struct ibv_context *ctx, int fd, int flags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd, .oflags = flags,
	};

	return ibv_open_xrcd(ctx, &attr);
}

int make_xrcd(struct life *life, struct node *node)
{
	return made(node->xrcd, open_xrcd(life->ctx, -1, O_CREAT));
}

/* The file that names an XRC domain: all graphs of a process share one. */
static int domain_file(void)
{
	static int file = -1;

	if (file < 0)
		file = memfd_create("graphs", MFD_CLOEXEC);
	return file;
}

int make_xrcd_file(struct life *life, struct node *node)
{
	return made(node->xrcd, open_xrcd(life->ctx, domain_file(), O_CREAT));
}

static bool has_file(const struct node *node)
{
	return node->kind->make == make_xrcd_file;
}

bool same_xrcd(const struct node *a, const struct node *b)
{
	return a == b || (has_file(a) && has_file(b));
}

int end_xrcd(struct node *node)
{
	return ibv_close_xrcd(node->xrcd);
}

int make_tgt(struct life *life, struct node *node)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV, .xrcd = node->need[0]->xrcd,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
	};

	node->holds[0] = node->need[0];
	return made(node->side.qp, ibv_create_qp_ex(life->ctx, &attr));
}

static struct ibv_qp *open_target(struct ibv_context *ctx, struct ibv_xrcd *xrcd,
				  const struct node *target)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
			     IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = target->side.qp->qp_num, .xrcd = xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	return ibv_open_qp(ctx, &attr);
}

/*
 * Opens another handle of a target. By a domain other than the target's it must be
 * refused.
 */
int make_open_tgt(struct life *life, struct node *node)
{
	struct node *domain = node->need[0], *target = node->need[1];

	if (!same_xrcd(domain, target->holds[0])) {
		if (open_target(life->ctx, domain->xrcd, target) || errno != EINVAL)
			return ENODATA;
		domain = target->holds[0];
	}
	node->holds[0] = domain;
	return made(node->side.qp, open_target(life->ctx, domain->xrcd, target));
}

/* ---- for the child that outlives its parent ---- */

static struct ibv_qp *targets[MAX_TARGETS];
static unsigned int num_targets;

bool open_targets(struct life *life)
{
	static struct ibv_context *ctx;
	static struct ibv_xrcd *xrcd;
	unsigned int i;

	for (i = 0; i < life->count && num_targets < MAX_TARGETS; i++) {
		const struct node *node = &life->node[i];

		if (!node->live || !(node->kind->roles & RESPONDER) ||
		    !has_file(node->holds[0]))
			continue;
		if (!ctx)
			ctx = ibv_open_device(life->ctx->device);
		if (ctx && !xrcd)
			xrcd = open_xrcd(ctx, domain_file(), 0);
		targets[num_targets] = xrcd ? open_target(ctx, xrcd, node) : NULL;
		if (!targets[num_targets++])
			return false;
	}
	return true;
}

bool have_targets(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	unsigned int i;

	for (i = 0; i < num_targets; i++)
		if (ibv_query_qp(targets[i], &attr, IBV_QP_STATE, &init))
			return false;
	return true;
}

/* ---- what has to be refused ---- */

static int must_be_invalid(int err)
{
	return err == EINVAL ? 0 : err ? err : ENODATA;
}

int disturb_queue(struct life *life, struct node *node)
{
	struct ibv_srq_attr attr = { .srq_limit = BEYOND };
	struct ibv_send_wr *bad_send, send = { .opcode = IBV_WR_SEND };
	struct ibv_recv_wr *bad_recv, recv = {};
	int err = 0;

	if (node->kind->roles & ANY_SRQ)
		err = must_be_invalid(ibv_modify_srq(node->srq, &attr, IBV_SRQ_LIMIT));
	if (node->kind->roles & REQUESTER)
		err = must_be_invalid(ibv_post_recv(node->side.qp, &recv, &bad_recv));
	if (node->kind->roles & RESPONDER)
		err = must_be_invalid(ibv_post_send(node->side.qp, &send, &bad_send));
	if (has_file(node))
		err = must_be_invalid(open_xrcd(life->ctx, domain_file(),
						O_CREAT | O_EXCL) ? 0 : errno);
	return err;
}
