// SPDX-License-Identifier: GPL-2.0
/* timeout: 600
 *
 * Completion queues, queue pairs and address handles, with each allocation and copy in
 * the kernel failing in turn.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "counts.h"
#include "fault.h"
#include "holdings.h"
#include "tap.h"
#include "walk.h"
#include "window.h"

static struct pair pair;
static struct ibv_context *ctx;

/* ---- completion queues ---- */

#define CQES	256	/* two pages of them and more */

static struct ibv_comp_channel *channel, *used_channel;
static struct ibv_cq *cq;
static struct ibv_context *cq_ctx;

static int create_channel(void)
{
	errno = 0;
	channel = ibv_create_comp_channel(ctx);
	return channel ? 0 : errno;
}

static int destroy_channel(void)
{
	return ibv_destroy_comp_channel(channel);
}

static int create_cq(void)
{
	errno = 0;
	cq = ibv_create_cq(cq_ctx, CQES, NULL, used_channel, 0);
	return cq ? 0 : errno;
}

static int create_cq_ex(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = CQES, .channel = used_channel,
		.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};
	struct ibv_cq_ex *cq_ex;

	errno = 0;
	cq_ex = ibv_create_cq_ex(cq_ctx, &attr);
	cq = cq_ex ? ibv_cq_ex_to_cq(cq_ex) : NULL;
	return cq ? 0 : errno;
}

static int destroy_cq(void)
{
	return ibv_destroy_cq(cq);
}

static struct ibv_qp *new_qp(struct ibv_cq *queue)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = queue, .recv_cq = queue, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 64, .max_recv_wr = 64,
			 .max_send_sge = 4, .max_recv_sge = 4 },
	};

	return ibv_create_qp(pair.pd, &attr);
}

/* A receive posted to a QP in ERR is flushed, which shows that the CQ works. */
static bool completes(struct ibv_qp *qp, struct ibv_cq *queue)
{
	struct side side = { .send_cq = queue, .recv_cq = queue, .qp = qp };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;

	if (modify_to_init(&pair, &side) || ibv_modify_qp(qp, &attr, IBV_QP_STATE) ||
	    post_receive(&side, 7, pair.a.buf, 64, pair.a.mr->lkey))
		return false;
	return wait_wc(queue, &wc) && wc.wr_id == 7 && wc.status == IBV_WC_WR_FLUSH_ERR;
}

static bool cq_works(void)
{
	struct ibv_qp *qp = cq_ctx == ctx ? new_qp(cq) : NULL;
	bool good;

	/* The second context has no PD of its own. */
	if (cq_ctx != ctx)
		return !ibv_req_notify_cq(cq, 0);
	good = qp && completes(qp, cq);
	return qp && !ibv_destroy_qp(qp) && good;
}

static int resize_to;

static int resize_cq(void)
{
	return ibv_resize_cq(cq, resize_to);
}

static int open_for_cq(void)
{
	struct ibv_device_attr attr;

	cq_ctx = open_nic(nic_name(), &attr);
	return 0;
}

static int close_after_cq(void)
{
	int err = destroy_cq();

	return err ? err : ibv_close_device(cq_ctx);
}

static void walk_cqs(void)
{
	cq_ctx = ctx;
	walk(&(struct path){
		.name = "create a completion channel", .call = create_channel,
		.after = destroy_channel,
	});
	walk(&(struct path){
		.name = "destroy a completion channel", .before = create_channel,
		.call = destroy_channel,
	});
	walk(&(struct path){
		.name = "create a CQ", .call = create_cq, .works = cq_works,
		.after = destroy_cq,
	});
	walk(&(struct path){
		.name = "create an extended CQ", .call = create_cq_ex, .works = cq_works,
		.after = destroy_cq,
	});
	must(create_channel, "create a channel");
	used_channel = channel;
	walk(&(struct path){
		.name = "create a CQ with a channel", .call = create_cq,
		.works = cq_works, .after = destroy_cq,
	});
	used_channel = NULL;
	must(destroy_channel, "destroy the channel");
	resize_to = 4 * CQES;
	walk(&(struct path){
		.name = "resize a CQ", .before = create_cq, .call = resize_cq,
		.works = cq_works, .intact = cq_works, .after = destroy_cq,
		.late = true,
	});
	walk(&(struct path){
		.name = "destroy a CQ", .before = create_cq, .call = destroy_cq,
		.intact = cq_works, .late = true, .again = ENOENT,
	});
	/* A context's first CQ allocates and maps doorbell pages. */
	walk(&(struct path){
		.name = "create the first CQ of a context", .before = open_for_cq,
		.call = create_cq, .works = cq_works, .after = close_after_cq,
		.errnos = { EAGAIN },
	});
	cq_ctx = ctx;
}

/* ---- queue pairs ---- */

static struct ibv_qp *qp;

static int create_qp(void)
{
	errno = 0;
	qp = new_qp(cq);
	return qp ? 0 : errno;
}

static int create_qp_ex(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = pair.pd,
		.cap = { .max_send_wr = 64, .max_recv_wr = 64,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = WINDOW_OPS,
	};

	errno = 0;
	qp = ibv_create_qp_ex(ctx, &attr);
	return qp ? 0 : errno;
}

static int destroy_qp(void)
{
	return ibv_destroy_qp(qp);
}

static bool qp_works(void)
{
	return completes(qp, cq);
}

/* If destroying it failed, the QP still exists and can be destroyed from RESET. */
static bool qp_is_there(void)
{
	struct side side = { .qp = qp };

	return qp_works() && !modify_to(&side, IBV_QPS_RESET);
}

/* The state change that is tried, of the pair's QP a. */
static enum ibv_qp_state lower, upper;

static int go_up(void)
{
	switch (upper) {
	case IBV_QPS_INIT:
		return modify_to_init(&pair, &pair.a);
	case IBV_QPS_RTR:
		return modify_to_rtr(&pair, &pair.a, pair.b.qp->qp_num);
	case IBV_QPS_RTS:
		return modify_to_rts(&pair, &pair.a);
	default:
		return modify_to(&pair.a, upper);
	}
}

static int go_low(void)
{
	enum ibv_qp_state wanted = lower, stop = upper;

	lower = IBV_QPS_RESET;
	if (modify_to(&pair.a, IBV_QPS_RESET))
		tap_bail("reset");
	for (upper = IBV_QPS_INIT; upper <= wanted; upper++)
		if (go_up())
			tap_bail("cannot reach state %d", upper);
	lower = wanted;
	upper = stop;
	return 0;
}

static bool is_up(void)
{
	return query_state(&pair.a) == upper;
}

static bool is_low(void)
{
	return query_state(&pair.a) == lower;
}

static void walk_modify(const char *name, enum ibv_qp_state from, enum ibv_qp_state to)
{
	lower = from;
	upper = to;
	walk(&(struct path){
		.name = name, .before = go_low, .call = go_up, .works = is_up,
		.intact = is_low,
	});
}

static void walk_qps(void)
{
	must(create_cq, "create a CQ");
	walk(&(struct path){
		.name = "create a QP", .call = create_qp, .works = qp_works,
		.after = destroy_qp,
	});
	walk(&(struct path){
		.name = "create an extended QP", .call = create_qp_ex, .works = qp_works,
		.after = destroy_qp,
	});
	walk(&(struct path){
		.name = "destroy a QP", .before = create_qp, .call = destroy_qp,
		.intact = qp_is_there, .late = true, .again = ENOENT,
	});
	must(destroy_cq, "destroy the CQ");
	walk_modify("modify a QP to INIT", IBV_QPS_RESET, IBV_QPS_INIT);
	walk_modify("modify a QP to RTR", IBV_QPS_INIT, IBV_QPS_RTR);
	walk_modify("modify a QP to RTS", IBV_QPS_RTR, IBV_QPS_RTS);
	walk_modify("modify a QP to ERR", IBV_QPS_RTS, IBV_QPS_ERR);
	walk_modify("modify a QP to RESET", IBV_QPS_RTS, IBV_QPS_RESET);
	pair_reset(&pair);
}

/* ---- address handles ---- */

static struct ibv_ah *ah;

static int create_ah(void)
{
	struct ibv_ah_attr attr = {
		.grh = { .dgid = pair.gid, .sgid_index = pair.gid_index, .hop_limit = 1 },
		.is_global = 1, .port_num = 1,
	};

	errno = 0;
	ah = ibv_create_ah(pair.pd, &attr);
	return ah ? 0 : errno;
}

static int destroy_ah(void)
{
	return ibv_destroy_ah(ah);
}

static void walk_ahs(void)
{
	walk(&(struct path){
		.name = "create an address handle", .call = create_ah, .after = destroy_ah,
	});
	walk(&(struct path){
		.name = "destroy an address handle", .before = create_ah,
		.call = destroy_ah,
	});
}

int main(void)
{
	struct ibv_device_attr attr;
	long pinned;

	if (!fault_setup()) {
		printf("1..0 # SKIP " FAULT_NONE "\n");
		return 0;
	}
	pinned = pinned_pages();
	ctx = open_nic(nic_name(), &attr);
	pair_open(&pair, ctx, &pair_defaults);
	pair_connect(&pair);
	holdings_open();

	walk_cqs();
	walk_qps();
	walk_ahs();

	return walk_done(&pair, pinned);
}
