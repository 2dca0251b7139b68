// SPDX-License-Identifier: GPL-2.0
/* Extended reliable connections: domains, targets, requesters, their receive queues. */

#include "harness.h"

#define COOKIE	0x1234

/* A process's XRC domain, and the objects that are made with it. */
struct xrc {
	struct moor_user *user;
	struct ib_pd *pd;
	struct moor_cq *cq;
	struct moor_xrcd *xrcd;
	struct moor_qp *qp;
	struct moor_srq *srq;
};

static struct moor_xrcd *xrc_domain(struct kunit *test, struct moor_dev *mdev)
{
	struct moor_xrcd *xrcd = kunit_kzalloc(test, sizeof(*xrcd), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, xrcd);
	xrcd->ibxrcd.device = &mdev->ibdev;
	KUNIT_ASSERT_EQ(test, moor_alloc_xrcd(&xrcd->ibxrcd, NULL), 0);
	return xrcd;
}

static struct xrc *xrc_open(struct kunit *test)
{
	struct xrc *x = kunit_kzalloc(test, sizeof(*x), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, x);
	x->user = moor_user_open(test);
	x->pd = moor_kunit_pd(test);
	x->cq = moor_kunit_cq(test, x->user);
	x->xrcd = xrc_domain(test, x->user->mdev);
	x->qp = kunit_kzalloc(test, sizeof(*x->qp), GFP_KERNEL);
	x->srq = kunit_kzalloc(test, sizeof(*x->srq), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, x->qp);
	KUNIT_ASSERT_NOT_NULL(test, x->srq);
	x->qp->ibqp.device = &x->user->mdev->ibdev;
	x->srq->ibsrq.device = &x->user->mdev->ibdev;
	return x;
}

static void xrc_close(struct kunit *test, struct xrc *x)
{
	struct moor_dev *mdev = x->user->mdev;

	KUNIT_EXPECT_TRUE(test, xa_empty(&mdev->qps));
	KUNIT_EXPECT_TRUE(test, xa_empty(&mdev->srqs));
	KUNIT_EXPECT_EQ(test, moor_dealloc_xrcd(&x->xrcd->ibxrcd, NULL), 0);
	KUNIT_EXPECT_TRUE(test, ida_is_empty(&mdev->xrcdns));
	KUNIT_EXPECT_EQ(test, moor_destroy_cq(&x->cq->ibcq, NULL), 0);
	moor_kunit_pd_free(test, x->pd);
	moor_user_close(test, x->user);
}

static void xrc_domains(struct kunit *test)
{
	struct xrc *x = xrc_open(test);
	struct moor_xrcd *other = xrc_domain(test, x->user->mdev);
	u64 input = 1;

	KUNIT_EXPECT_NE(test, x->xrcd->xrcdn, 0);
	KUNIT_EXPECT_NE(test, other->xrcdn, 0);
	KUNIT_EXPECT_NE(test, other->xrcdn, x->xrcd->xrcdn);
	KUNIT_EXPECT_EQ(test, moor_dealloc_xrcd(&other->ibxrcd, NULL), 0);
	KUNIT_EXPECT_EQ(test, moor_alloc_xrcd(&other->ibxrcd,
					      moor_user_udata(test, x->user, &input,
							      sizeof(input), 0)),
			-EOPNOTSUPP);
	xrc_close(test, x);
}

static void xrc_event(struct ib_event *event, void *context)
{
	(*(int *)context)++;
}

/* Send an event of a QP, and wait until the driver has handled it. */
static void xrc_say(struct kunit *test, u32 qpn)
{
	struct fake_nic *nic = moor_kunit_nic();
	u64 *seen = &nic->slots[MOOR_DB_SLOT_EQ_CONSUMER + MOOR_EQ_ASYNC];
	u64 before = READ_ONCE(*seen);

	fake_nic_event(nic, MOOR_EQ_ASYNC, MOOR_EVENT_QP_FATAL, qpn);
	moor_kunit_wait(test, READ_ONCE(*seen) != before);
}

/* A target has no queues, no PD and no CQ; the SRQs' PDs count. */
static void xrc_target(struct kunit *test)
{
	struct xrc *x = xrc_open(test);
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_XRC_TGT,
		.cap = { .max_send_wr = 7, .max_recv_wr = 7 },
	};
	struct ib_qp_attr state = { .qp_state = IB_QPS_INIT, .port_num = 1 };
	struct fake_nic *nic = moor_kunit_nic();
	struct ib_qp *ibqp = &x->qp->ibqp;
	struct ib_qp_init_attr init;
	struct fake_qp *fake;
	int events = 0;

	ibqp->qp_type = IB_QPT_XRC_TGT;
	KUNIT_EXPECT_EQ(test, moor_create_qp(ibqp, &attr, NULL), -EINVAL);
	attr.xrcd = &x->xrcd->ibxrcd;
	KUNIT_ASSERT_EQ(test, moor_create_qp(ibqp, &attr, NULL), 0);
	KUNIT_EXPECT_EQ(test, attr.cap.max_send_wr, 0);
	KUNIT_EXPECT_EQ(test, attr.cap.max_recv_wr, 0);
	KUNIT_EXPECT_EQ(test, ibqp->qp_num, x->qp->qpn);
	fake = fake_find_qp(nic, cpu_to_le32(x->qp->qpn));
	KUNIT_ASSERT_NOT_NULL(test, fake);
	KUNIT_EXPECT_EQ(test, fake->type, MOOR_QP_XRC_TGT);
	KUNIT_EXPECT_EQ(test, fake->xrcd, x->xrcd->xrcdn);
	/* The QP is not ready in the core yet: the event is dropped. */
	ibqp->event_handler = xrc_event;
	ibqp->qp_context = &events;
	xrc_say(test, x->qp->qpn);
	KUNIT_EXPECT_EQ(test, events, 0);
	KUNIT_EXPECT_EQ(test, moor_modify_qp(ibqp, &state, IB_QP_STATE |
					     IB_QP_PKEY_INDEX | IB_QP_PORT |
					     IB_QP_ACCESS_FLAGS, NULL), 0);
	xrc_say(test, x->qp->qpn);
	KUNIT_EXPECT_EQ(test, events, 1);
	state.qp_state = IB_QPS_ERR;
	KUNIT_EXPECT_EQ(test, moor_modify_qp(ibqp, &state, IB_QP_STATE, NULL), 0);
	KUNIT_EXPECT_EQ(test, moor_query_qp(ibqp, &state, IB_QP_STATE, &init), 0);
	KUNIT_EXPECT_EQ(test, state.qp_state, IB_QPS_ERR);
	state.qp_state = IB_QPS_RESET;
	KUNIT_EXPECT_EQ(test, moor_modify_qp(ibqp, &state, IB_QP_STATE, NULL), 0);
	KUNIT_EXPECT_EQ(test, moor_destroy_qp(ibqp, NULL), 0);
	KUNIT_EXPECT_FALSE(test, fake->live);
	xrc_close(test, x);
}

struct ini_case {
	const char *name;
	u8 log_stride;
	u32 max_sge;
	bool kernel;
	int err;
};

static const struct ini_case ini_cases_table[] = {
	{ "one SGE", 6, 1, false, 0 },
	{ "two SGEs beyond the stride", 6, 2, false, -EINVAL },
	{ "two SGEs", 7, 2, false, 0 },
	{ "the kernel's", 6, 1, true, -EOPNOTSUPP },
};

static void ini_case_desc(const struct ini_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(ini_case, ini_cases_table, ini_case_desc);

/* XRC's segment takes room in the WQE; receives that are asked for do not count. */
static void xrc_requester(struct kunit *test)
{
	const struct ini_case *c = test->param_value;
	struct xrc *x = xrc_open(test);
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_XRC_INI, .send_cq = &x->cq->ibcq,
		.cap = { .max_send_wr = 16, .max_send_sge = c->max_sge,
			 .max_recv_wr = 3, .max_recv_sge = 1 },
	};
	struct moor_create_qp_req req = {
		.sq_addr = moor_kunit_mmap(test, PAGE_SIZE, true),
		.log_sq_depth = 4, .log_sq_stride = c->log_stride,
		.cookie = COOKIE,
	};
	struct ib_qp *ibqp = &x->qp->ibqp;
	struct ib_udata *udata;
	struct fake_qp *fake;
	int err;

	ibqp->qp_type = IB_QPT_XRC_INI;
	ibqp->pd = x->pd;
	ibqp->send_cq = attr.send_cq;
	udata = moor_user_udata(test, x->user, &req, sizeof(req),
				sizeof(struct moor_create_qp_resp));
	err = moor_create_qp(ibqp, &attr, c->kernel ? NULL : udata);
	KUNIT_EXPECT_EQ(test, err, c->err);
	if (!err) {
		fake = fake_find_qp(moor_kunit_nic(), cpu_to_le32(x->qp->qpn));
		KUNIT_ASSERT_NOT_NULL(test, fake);
		KUNIT_EXPECT_EQ(test, fake->type, MOOR_QP_XRC_INI);
		KUNIT_EXPECT_EQ(test, attr.cap.max_recv_wr, 0);
		KUNIT_EXPECT_EQ(test, moor_destroy_qp(ibqp, NULL), 0);
	}
	xrc_close(test, x);
}

struct xsrq_case {
	const char *name;
	enum ib_srq_type type;
	u32 cookie;
	bool kernel;
	int err;
};

static const struct xsrq_case xsrq_cases_table[] = {
	{ "XRC", IB_SRQT_XRC, COOKIE, false, 0 },
	{ "XRC, without a cookie", IB_SRQT_XRC, 0, false, 0 },
	{ "basic, with a cookie", IB_SRQT_BASIC, COOKIE, false, -EINVAL },
	{ "the kernel's", IB_SRQT_XRC, 0, true, -EOPNOTSUPP },
};

static void xsrq_case_desc(const struct xsrq_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(xsrq_case, xsrq_cases_table, xsrq_case_desc);

static void xrc_srq(struct kunit *test)
{
	const struct xsrq_case *c = test->param_value;
	struct xrc *x = xrc_open(test);
	struct ib_srq_init_attr attr = {
		.attr = { .max_wr = 16, .max_sge = 1 }, .srq_type = c->type,
	};
	struct moor_create_srq_req req = {
		.ring_addr = moor_kunit_mmap(test, PAGE_SIZE, true),
		.log_depth = 4, .log_stride = 5, .cookie = c->cookie,
	};
	struct ib_srq *ibsrq = &x->srq->ibsrq;
	struct ib_udata *udata;
	struct fake_srq *fake;
	int err;

	ibsrq->srq_type = c->type;
	ibsrq->pd = x->pd;
	ibsrq->ext.xrc.xrcd = &x->xrcd->ibxrcd;
	ibsrq->ext.cq = &x->cq->ibcq;
	udata = moor_user_udata(test, x->user, &req, sizeof(req),
				sizeof(struct moor_create_srq_resp));
	err = moor_create_srq(ibsrq, &attr, c->kernel ? NULL : udata);
	KUNIT_EXPECT_EQ(test, err, c->err);
	if (!err) {
		fake = fake_find_srq(moor_kunit_nic(), cpu_to_le32(x->srq->srqn));
		KUNIT_ASSERT_NOT_NULL(test, fake);
		KUNIT_EXPECT_EQ(test, fake->flags, MOOR_SRQ_FLAG_XRC);
		KUNIT_EXPECT_EQ(test, fake->xrcd, x->xrcd->xrcdn);
		KUNIT_EXPECT_EQ(test, fake->cqn, x->cq->cqn);
		KUNIT_EXPECT_EQ(test, fake->cookie, c->cookie);
		KUNIT_EXPECT_EQ(test, ibsrq->ext.xrc.srq_num, x->srq->srqn);
		KUNIT_EXPECT_EQ(test, moor_destroy_srq(ibsrq, NULL), 0);
	}
	xrc_close(test, x);
}

/* A device without XRC works as before. */
static void xrc_absent(struct kunit *test)
{
	struct moor_dev *mdev = moor_kunit_replug(test, MOOR_FEATURE_XRC);
	struct ib_device_attr attr = {};

	KUNIT_EXPECT_NULL(test, mdev->ibdev.ops.alloc_xrcd);
	KUNIT_EXPECT_NOT_NULL(test, mdev->ibdev.ops.create_srq);
	KUNIT_EXPECT_EQ(test, mdev->ibdev.ops.query_device(&mdev->ibdev, &attr, NULL),
			0);
	KUNIT_EXPECT_FALSE(test, attr.device_cap_flags & IB_DEVICE_XRC);
	KUNIT_EXPECT_EQ(test, attr.odp_caps.per_transport_caps.xrc_odp_caps, 0);
}

static struct kunit_case xrc_cases[] = {
	KUNIT_CASE(xrc_domains),
	KUNIT_CASE(xrc_target),
	KUNIT_CASE_PARAM(xrc_requester, ini_case_gen_params),
	KUNIT_CASE_PARAM(xrc_srq, xsrq_case_gen_params),
	KUNIT_CASE(xrc_absent),
	{}
};

static struct kunit_suite xrc_suite = {
	.name = "moor_xrc",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = xrc_cases,
};

kunit_test_suite(xrc_suite);
