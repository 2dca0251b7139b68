// SPDX-License-Identifier: GPL-2.0
/*
 * What the NIC has, as it announces it in FEATURES (HWI 4.2), works; what it does not
 * have is refused with EOPNOTSUPP. The NIC that moor-nic is has all of it: to see the
 * refusals, run this with a lesser one (scripts/vm --model-arg --without=all).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <moor/moor_hw.h>

#include "pair.h"
#include "raw.h"
#include "tap.h"

#define WINDOWS	(MOOR_FEATURE_MW_TYPE_1 | MOOR_FEATURE_MW_TYPE_2B)
#define INVALID	(MOOR_FEATURE_MW_TYPE_2B | MOOR_FEATURE_FAST_REG)
/* What every NIC has: a bit that is none of FEATURES'. */
#define ALWAYS	(1ull << 63)
#define FLUSHES	(MOOR_FEATURE_FLUSH_GLOBAL | MOOR_FEATURE_FLUSH_PERSISTENT)

static struct ibv_context *ctx;
static struct ibv_device_attr_ex attr;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static uint64_t features;

/* Test point: @err is what there has to be, as the NIC has one of @needs or has not. */
static void result(int err, uint64_t needs, const char *what)
{
	tap_is(err, features & needs ? 0 : EOPNOTSUPP, "%s, which %s", what,
	       features & needs ? "is there" : "is not there");
}

/* Test point: a capability of the device is told if the NIC has one of @needs. */
static void told(bool cap, uint64_t needs, const char *what)
{
	tap_is(cap, (features & needs) != 0, "%s is told", what);
}

static void try_qp(enum ibv_qp_type type, uint64_t ops, uint64_t needs, const char *what)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = type, .send_cq = cq, .recv_cq = cq, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = ops,
		.cap = { .max_send_wr = 1, .max_send_sge = 1, .max_inline_data = 8 },
	};
	struct ibv_qp *qp;

	if (type != IBV_QPT_XRC_SEND) {
		init.cap.max_recv_wr = 1;
		init.cap.max_recv_sge = 1;
	}
	errno = 0;
	qp = ibv_create_qp_ex(ctx, &init);
	result(qp ? 0 : errno, needs, what);
	if (qp)
		ibv_destroy_qp(qp);
}

static void try_window(enum ibv_mw_type type, uint64_t needs, const char *what)
{
	struct ibv_mw *mw;

	errno = 0;
	mw = ibv_alloc_mw(pd, type);
	result(mw ? 0 : errno, needs, what);
	if (mw)
		ibv_dealloc_mw(mw);
}

static void try_mr(unsigned int access, uint64_t needs, const char *what)
{
	static char page[4096] __attribute__((aligned(4096)));
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_mr(pd, page, sizeof(page), access);
	result(mr ? 0 : errno, needs, what);
	if (mr)
		ibv_dereg_mr(mr);
}

static void try_dm(void)
{
	struct ibv_alloc_dm_attr dm_attr = { .length = 64 };
	struct ibv_dm *dm;

	errno = 0;
	dm = ibv_alloc_dm(ctx, &dm_attr);
	result(dm ? 0 : errno, MOOR_FEATURE_DM, "on-NIC memory");
	if (dm)
		ibv_free_dm(dm);
}

static void try_srq(void)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_srq *srq;

	errno = 0;
	srq = ibv_create_srq(pd, &srq_attr);
	result(srq ? 0 : errno, MOOR_FEATURE_SRQ, "a shared receive queue");
	if (srq)
		ibv_destroy_srq(srq);
}

static void try_ah(void)
{
	struct ibv_ah_attr ah_attr = {
		.grh.hop_limit = 1, .is_global = 1, .port_num = 1,
	};
	struct ibv_ah *ah;

	if (ibv_query_gid(ctx, 1, 0, &ah_attr.grh.dgid))
		tap_bail("ibv_query_gid: %s", strerror(errno));
	errno = 0;
	ah = ibv_create_ah(pd, &ah_attr);
	result(ah ? 0 : errno, MOOR_FEATURE_UD, "an address handle");
	if (ah)
		ibv_destroy_ah(ah);
}

static void try_xrcd(void)
{
	struct ibv_xrcd_init_attr xrcd_attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1, .oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd;

	errno = 0;
	xrcd = ibv_open_xrcd(ctx, &xrcd_attr);
	result(xrcd ? 0 : errno, MOOR_FEATURE_XRC, "an XRC domain");
	if (xrcd)
		ibv_close_xrcd(xrcd);
}

static void try_moderation(void)
{
	struct ibv_modify_cq_attr cq_attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = { .cq_count = 2, .cq_period = 1 },
	};

	result(ibv_modify_cq(cq, &cq_attr), MOOR_FEATURE_CQ_MODERATION,
	       "moderation of a CQ");
}

static void test_queues(void)
{
	try_qp(IBV_QPT_RC, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ, ALWAYS, "an RC QP");
	try_qp(IBV_QPT_UC, IBV_QP_EX_WITH_SEND, MOOR_FEATURE_UC, "a UC QP");
	try_qp(IBV_QPT_UD, IBV_QP_EX_WITH_SEND, MOOR_FEATURE_UD, "a UD QP");
	try_qp(IBV_QPT_XRC_SEND, IBV_QP_EX_WITH_SEND, MOOR_FEATURE_XRC, "an XRC QP");
	try_qp(IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, MOOR_FEATURE_ATOMICS,
	       "a QP that compares and swaps");
	try_qp(IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, MOOR_FEATURE_ATOMICS,
	       "a QP that fetches and adds");
	try_qp(IBV_QPT_RC, IBV_QP_EX_WITH_BIND_MW, WINDOWS, "a QP that binds windows");
	try_qp(IBV_QPT_RC, IBV_QP_EX_WITH_LOCAL_INV, INVALID, "a QP that invalidates");
	try_qp(IBV_QPT_RC, IBV_QP_EX_WITH_SEND_WITH_INV, INVALID, "one that does so at the peer");
	try_qp(IBV_QPT_RC, IBV_QP_EX_WITH_FLUSH, FLUSHES, "a QP that flushes");
	try_qp(IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_WRITE, MOOR_FEATURE_ATOMIC_WRITE,
	       "a QP with atomic writes");
	try_srq();
	try_ah();
	try_xrcd();
	try_moderation();
}

static void test_memory(void)
{
	try_window(IBV_MW_TYPE_1, MOOR_FEATURE_MW_TYPE_1, "a window of type 1");
	try_window(IBV_MW_TYPE_2, MOOR_FEATURE_MW_TYPE_2B, "a window of type 2");
	try_mr(IBV_ACCESS_LOCAL_WRITE, ALWAYS, "an MR");
	try_mr(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND |
	       IBV_ACCESS_RELAXED_ORDERING, ALWAYS, "an MR with rights that nothing may need");
	try_mr(IBV_ACCESS_ON_DEMAND, MOOR_FEATURE_ODP, "an MR on demand");
	try_mr(IBV_ACCESS_FLUSH_GLOBAL, MOOR_FEATURE_FLUSH_GLOBAL, "an MR to be flushed");
	try_dm();
}

static void test_capabilities(void)
{
	const struct ibv_device_attr *old = &attr.orig_attr;
	const uint32_t rc = attr.odp_caps.per_transport_caps.rc_odp_caps;
	const bool odp = features & MOOR_FEATURE_ODP;

	told(old->atomic_cap == IBV_ATOMIC_HCA, MOOR_FEATURE_ATOMICS, "atomic_cap");
	told(old->device_cap_flags & IBV_DEVICE_MEM_WINDOW, MOOR_FEATURE_MW_TYPE_1,
	     "windows of type 1");
	told(old->device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, MOOR_FEATURE_MW_TYPE_2B,
	     "windows of type 2B");
	told(old->max_mw, WINDOWS, "max_mw");
	told(old->device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS, MOOR_FEATURE_FAST_REG,
	     "fast registration");
	told(attr.odp_caps.general_caps & IBV_ODP_SUPPORT, MOOR_FEATURE_ODP, "paging");
	told(attr.max_dm_size, MOOR_FEATURE_DM, "max_dm_size");
	told(attr.cq_mod_caps.max_cq_count, MOOR_FEATURE_CQ_MODERATION, "moderation");
	told(old->max_srq, MOOR_FEATURE_SRQ, "max_srq");
	told(old->max_ah, MOOR_FEATURE_UD, "max_ah");
	told(old->max_mcast_grp, MOOR_FEATURE_UD, "max_mcast_grp");
	told(old->device_cap_flags & IBV_DEVICE_XRC, MOOR_FEATURE_XRC, "XRC");
	told(rc & IBV_ODP_SUPPORT_ATOMIC, odp ? MOOR_FEATURE_ATOMICS : 0, "paging of atomics");
	told(rc & IBV_ODP_SUPPORT_SRQ_RECV, odp ? MOOR_FEATURE_SRQ : 0,
	     "paging of shared receives");
	told(attr.odp_caps.per_transport_caps.uc_odp_caps, odp ? MOOR_FEATURE_UC : 0,
	     "paging of UC");
	told(attr.odp_caps.per_transport_caps.ud_odp_caps, odp ? MOOR_FEATURE_UD : 0,
	     "paging of UD");
	told(attr.xrc_odp_caps, odp ? MOOR_FEATURE_XRC : 0, "paging of XRC");
}

/* FEATURES, through a context of its own. */
static uint64_t announced(void)
{
	struct moor_alloc_ucontext_resp resp;

	close(raw_open_context(&resp));
	return resp.features | ALWAYS;
}

int main(int argc, char **argv)
{
	struct ibv_device_attr plain;

	ctx = open_nic(argc > 1 ? argv[1] : NULL, &plain);
	features = announced();
	tap_diag("FEATURES is 0x%llx", (unsigned long long)(features & ~ALWAYS));
	if (ibv_query_device_ex(ctx, NULL, &attr))
		tap_bail("ibv_query_device_ex: %s", strerror(errno));
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	if (!pd || !cq)
		tap_bail("PD or CQ: %s", strerror(errno));
	test_queues();
	test_memory();
	test_capabilities();
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
	return tap_done();
}
