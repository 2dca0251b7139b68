// SPDX-License-Identifier: GPL-2.0
/* timeout: 600
 *
 * Shared receive queues, XRC domains and the objects in these, with each allocation and
 * copy in the kernel failing in turn.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "counts.h"
#include "fault.h"
#include "holdings.h"
#include "tap.h"
#include "walk.h"

#define WQES	256	/* four pages of them and more */
#define SIZE	256u
#define FILE_NAME "/tmp/xrc-faults"

static struct pair pair;
static struct ibv_context *ctx;
static struct ibv_cq *cq;		/* used by all objects of this test */
static struct ibv_srq *srq;

/* ---- messages ---- */

static bool post_srq(void)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)pair.b.buf, .length = SIZE,
		.lkey = pair.b.mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1 };

	return !ibv_post_srq_recv(srq, &wr, &bad);
}

static bool post_to(struct ibv_qp *qp, uint32_t srqn)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)pair.a.buf, .length = SIZE,
		.lkey = pair.a.mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = 8, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED, .qp_type.xrc.remote_srqn = srqn,
	};

	return !ibv_post_send(qp, &wr, &bad);
}

/* Does a message from @qp arrive by the SRQ? @srqn is used by XRC QPs alone. */
static bool arrives(struct ibv_qp *qp, uint32_t srqn)
{
	static uint8_t seed;
	struct ibv_wc wc;
	int i, ids = 0;

	fill(pair.a.buf, SIZE, ++seed);
	if (!post_srq() || !post_to(qp, srqn))
		return false;
	for (i = 0; i < 2; i++) {
		if (!wait_wc(cq, &wc) || wc.status != IBV_WC_SUCCESS)
			return false;
		ids += wc.wr_id;
	}
	return ids == 7 + 8 && is_filled(pair.b.buf, SIZE, seed);
}

/* ---- shared receive queues ---- */

static int create_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = WQES, .max_sge = 1 } };

	errno = 0;
	srq = ibv_create_srq(pair.pd, &attr);
	return srq ? 0 : errno;
}

static int destroy_srq(void)
{
	return ibv_destroy_srq(srq);
}

/* Tries the SRQ with a QP that is connected to itself. */
static bool srq_works(void)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_send_sge = 1 },
	};
	struct side side = { .qp = ibv_create_qp(pair.pd, &attr) };
	bool good;

	if (!side.qp)
		return false;
	good = !modify_to_init(&pair, &side) &&
	       !modify_to_rtr(&pair, &side, side.qp->qp_num) &&
	       !modify_to_rts(&pair, &side) && arrives(side.qp, 0);
	return !ibv_destroy_qp(side.qp) && good;
}

static int resize_srq(void)
{
	struct ibv_srq_attr attr = { .max_wr = 4 * WQES };

	return ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
}

static int limit_srq(void)
{
	struct ibv_srq_attr attr = { .srq_limit = 0 };

	return ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT);
}

static int query_srq(void)
{
	struct ibv_srq_attr attr;

	return ibv_query_srq(srq, &attr);
}

static struct ibv_qp *qp;

static int create_qp(void)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 64, .max_send_sge = 4 },
	};

	errno = 0;
	qp = ibv_create_qp(pair.pd, &attr);
	return qp ? 0 : errno;
}

static int destroy_qp(void)
{
	return ibv_destroy_qp(qp);
}

static void walk_srqs(void)
{
	walk(&(struct path){
		.name = "create an SRQ", .call = create_srq, .works = srq_works,
		.after = destroy_srq,
	});
	walk(&(struct path){
		.name = "resize an SRQ", .before = create_srq, .call = resize_srq,
		.works = srq_works, .intact = srq_works, .after = destroy_srq,
	});
	walk(&(struct path){
		.name = "set an SRQ's limit", .before = create_srq, .call = limit_srq,
		.works = srq_works, .intact = srq_works, .after = destroy_srq,
	});
	walk(&(struct path){
		.name = "query an SRQ", .before = create_srq, .call = query_srq,
		.intact = srq_works, .after = destroy_srq,
	});
	walk(&(struct path){
		.name = "destroy an SRQ", .before = create_srq, .call = destroy_srq,
		.intact = srq_works, .late = true, .again = ENOENT,
	});
	must(create_srq, "create an SRQ");
	walk(&(struct path){
		.name = "create a QP that has it", .call = create_qp,
		.works = srq_works, .after = destroy_qp,
	});
	must(destroy_srq, "destroy the SRQ");
}

/* ---- XRC ---- */

static int file;
static struct ibv_xrcd *xrcd;
static struct side requester, target;

static int open_xrcd(void)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = file, .oflags = O_CREAT,
	};

	errno = 0;
	xrcd = ibv_open_xrcd(ctx, &attr);
	return xrcd ? 0 : errno;
}

static int close_xrcd(void)
{
	return ibv_close_xrcd(xrcd);
}

static int create_xrc_srq(void)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = WQES, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC, .pd = pair.pd, .xrcd = xrcd, .cq = cq,
	};

	errno = 0;
	srq = ibv_create_srq_ex(ctx, &attr);
	return srq ? 0 : errno;
}

static int create_target(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV, .xrcd = xrcd,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
	};

	errno = 0;
	target.qp = ibv_create_qp_ex(ctx, &attr);
	return target.qp ? 0 : errno;
}

static int destroy_target(void)
{
	return ibv_destroy_qp(target.qp);
}

static int create_requester(void)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .qp_type = IBV_QPT_XRC_SEND,
		.cap = { .max_send_wr = 64, .max_send_sge = 4 },
	};

	errno = 0;
	requester.qp = ibv_create_qp(pair.pd, &attr);
	return requester.qp ? 0 : errno;
}

static int destroy_requester(void)
{
	return ibv_destroy_qp(requester.qp);
}

/* An XRC requester takes fewer attributes on its way to RTR than other QPs. */
static int requester_to_rtr(void)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = pair.config.mtu,
		.dest_qp_num = target.qp->qp_num, .rq_psn = pair.psn,
		.ah_attr = {
			.grh = { .dgid = pair.gid, .sgid_index = pair.gid_index,
				 .hop_limit = 1 },
			.is_global = 1, .port_num = 1,
		},
	};

	return ibv_modify_qp(requester.qp, &attr, IBV_QP_STATE | IBV_QP_AV |
			     IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
}

/* Sends a message from the requester through the target to the SRQ. */
static bool xrc_works(void)
{
	uint32_t srqn;
	bool good;

	good = !modify_to(&requester, IBV_QPS_RESET) &&
	       !modify_to(&target, IBV_QPS_RESET) &&
	       !modify_to_init(&pair, &target) &&
	       !modify_to_rtr(&pair, &target, requester.qp->qp_num) &&
	       !modify_to_init(&pair, &requester) && !requester_to_rtr() &&
	       !modify_to_rts(&pair, &requester) &&
	       !ibv_get_srq_num(srq, &srqn) && arrives(requester.qp, srqn);
	return !modify_to(&requester, IBV_QPS_RESET) &&
	       !modify_to(&target, IBV_QPS_RESET) && good;
}

static bool domain_works(void)
{
	bool good;

	if (create_target())
		return false;
	good = !create_xrc_srq() && !destroy_srq();
	return !destroy_target() && good;
}

static void walk_xrc(void)
{
	file = open(FILE_NAME, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0)
		tap_bail(FILE_NAME ": %s", strerror(errno));
	walk(&(struct path){
		.name = "open an XRC domain", .call = open_xrcd,
		.works = domain_works, .after = close_xrcd,
	});
	walk(&(struct path){
		.name = "close an XRC domain", .before = open_xrcd,
		.call = close_xrcd, .intact = domain_works,
	});
	must(open_xrcd, "open a domain");
	must(create_target, "create a target");
	must(create_requester, "create a requester");
	walk(&(struct path){
		.name = "create an XRC SRQ", .call = create_xrc_srq,
		.works = xrc_works, .after = destroy_srq,
	});
	must(create_xrc_srq, "create an XRC SRQ");
	must(destroy_target, "destroy the target");
	walk(&(struct path){
		.name = "create a target", .call = create_target,
		.works = xrc_works, .after = destroy_target,
	});
	must(create_target, "create a target");
	must(destroy_requester, "destroy the requester");
	walk(&(struct path){
		.name = "create a requester", .call = create_requester,
		.works = xrc_works, .after = destroy_requester,
	});
	must(destroy_target, "destroy the target");
	must(destroy_srq, "destroy the SRQ");
	must(close_xrcd, "close the domain");
	close(file);
	unlink(FILE_NAME);
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
	cq = ibv_create_cq(ctx, 256, NULL, NULL, 0);
	if (!cq)
		tap_bail("ibv_create_cq: %s", strerror(errno));
	holdings_open();

	walk_srqs();
	walk_xrc();

	if (ibv_destroy_cq(cq))
		tap_bail("the CQ is still used");
	return walk_done(&pair, pinned);
}
