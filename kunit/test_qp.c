// SPDX-License-Identifier: GPL-2.0
/* Queue pairs in a process's memory: creation, states, events. */

#include "harness.h"

#define RING_BYTES	(64 * 1024)

struct qp_case {
	const char *name;
	struct moor_create_qp_req req;	/* its addresses are relative */
	struct ib_qp_cap cap;
	int err;
	u32 pages;			/* pinned, if there is no error */
	enum ib_qp_type type;
	u32 create_flags;
};

#define QP_REQ(sq_depth, sq_stride, rq_depth, rq_stride)		\
	{ 0, 32768, sq_depth, sq_stride, rq_depth, rq_stride }
#define QP_CAP(send, recv, ssge, rsge, inl) { send, recv, ssge, rsge, inl }

static const struct qp_case qp_cases_table[] = {
	{ "both queues", QP_REQ(6, 7, 6, 6), QP_CAP(64, 64, 4, 2, 64), 0, 3 },
	{ "most SGEs", QP_REQ(4, 9, 4, 9), QP_CAP(16, 16, 16, 16, 256), 0, 4 },
	{ "one entry each", QP_REQ(0, 6, 0, 5), QP_CAP(1, 1, 1, 1, 0), 0, 2 },
	{ "SGEs beyond the stride", QP_REQ(4, 6, 4, 6), QP_CAP(16, 16, 3, 2, 0), -EINVAL },
	{ "inline beyond the stride", QP_REQ(4, 6, 4, 6), QP_CAP(16, 16, 1, 1, 33), -EINVAL },
	{ "receive SGEs beyond the stride", QP_REQ(4, 7, 4, 5), QP_CAP(16, 16, 1, 2, 0), -EINVAL },
	{ "depth less than requests", QP_REQ(4, 7, 4, 6), QP_CAP(17, 16, 1, 1, 0), -EINVAL },
	{ "send stride too small", QP_REQ(4, 5, 4, 6), QP_CAP(16, 16, 0, 1, 0), -EINVAL },
	{ "receive stride too small", QP_REQ(4, 6, 4, 4), QP_CAP(16, 16, 1, 0, 0), -EINVAL },
	{ "stride too large", QP_REQ(4, 10, 4, 6), QP_CAP(16, 16, 1, 1, 0), -EINVAL },
	{ "stride 255", QP_REQ(4, 255, 4, 6), QP_CAP(16, 16, 1, 1, 0), -EINVAL },
	{ "depth 255", QP_REQ(255, 6, 4, 6), QP_CAP(16, 16, 1, 1, 0), -EINVAL },
	{ "too many requests", QP_REQ(16, 6, 4, 6), QP_CAP(65536, 16, 1, 1, 0), -EINVAL },
	{ "too many SGEs", QP_REQ(4, 9, 4, 9), QP_CAP(16, 16, 17, 16, 0), -EINVAL },
	{ "too much inline", QP_REQ(4, 9, 4, 9), QP_CAP(16, 16, 1, 1, 257), -EINVAL },
	{ "queue without requests", QP_REQ(4, 6, 4, 6), QP_CAP(0, 16, 1, 1, 0), -EINVAL },
	{ "not page-aligned", { 8, 32768, 4, 6, 4, 6 }, QP_CAP(16, 16, 1, 1, 0), -EINVAL },
	{ "receive queue not mapped", { 0, 0x100000000000, 4, 6, 4, 6 },
	  QP_CAP(16, 16, 1, 1, 0), -EFAULT },
	{ "UC", QP_REQ(4, 6, 4, 6), QP_CAP(16, 16, 1, 1, 0), 0, 2, IB_QPT_UC },
	{ "UD", QP_REQ(4, 7, 4, 6), QP_CAP(16, 16, 3, 1, 48), 0, 2, IB_QPT_UD },
	{ "UD, no room for the address", QP_REQ(4, 6, 4, 6), QP_CAP(16, 16, 1, 1, 0), -EINVAL,
	  0, IB_QPT_UD },
	{ "UD, inline beyond the stride", QP_REQ(4, 7, 4, 6), QP_CAP(16, 16, 1, 1, 49), -EINVAL,
	  0, IB_QPT_UD },
	{ "GSI", QP_REQ(4, 7, 4, 6), QP_CAP(16, 16, 1, 1, 0), -EOPNOTSUPP, 0, IB_QPT_GSI },
	{ "raw packet", QP_REQ(4, 6, 4, 6), QP_CAP(16, 16, 1, 1, 0), -EOPNOTSUPP,
	  0, IB_QPT_RAW_PACKET },
	{ "unknown create flag", QP_REQ(4, 6, 4, 6), QP_CAP(16, 16, 1, 1, 0), -EOPNOTSUPP,
	  0, IB_QPT_RC, 1 << 9 },
};

static void qp_case_desc(const struct qp_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(qp_case, qp_cases_table, qp_case_desc);

static u32 qps_there(struct moor_dev *mdev)
{
	unsigned long index;
	struct moor_qp *qp;
	u32 count = 0;

	xa_for_each(&mdev->qps, index, qp)
		count++;
	return count;
}

static void qp_input(struct kunit *test)
{
	const struct qp_case *c = test->param_value;
	struct moor_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	struct moor_user *user = moor_user_open(test);
	struct moor_create_qp_req req = c->req;
	struct ib_qp_init_attr attr = {
		.cap = c->cap,
		.qp_type = c->type ?: IB_QPT_RC,
		.create_flags = c->create_flags,
	};
	struct moor_create_qp_resp resp;
	struct moor_cq *cq = moor_kunit_cq(test, user);
	struct ib_pd *pd = ib_alloc_pd(&user->mdev->ibdev, 0);
	unsigned long ring = moor_kunit_mmap(test, RING_BYTES, true);
	long pinned = moor_kunit_pinned();
	u32 before = qps_there(user->mdev);
	struct ib_udata *udata;
	int err;

	KUNIT_ASSERT_NOT_NULL(test, qp);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	req.sq_addr += ring;
	req.rq_addr += ring;
	attr.send_cq = &cq->ibcq;
	attr.recv_cq = &cq->ibcq;
	qp->ibqp.device = &user->mdev->ibdev;
	qp->ibqp.qp_type = attr.qp_type;
	qp->ibqp.pd = pd;
	qp->ibqp.send_cq = &cq->ibcq;
	qp->ibqp.recv_cq = &cq->ibcq;
	udata = moor_user_udata(test, user, &req, sizeof(req), sizeof(resp));
	err = moor_create_qp(&qp->ibqp, &attr, udata);
	KUNIT_EXPECT_EQ(test, err, c->err);
	if (!err) {
		moor_user_answer(test, user, &resp, sizeof(resp));
		KUNIT_EXPECT_EQ(test, resp.qpn, qp->qpn);
		KUNIT_EXPECT_EQ(test, resp.qpn >> 24, 0);
		KUNIT_EXPECT_NE(test, resp.db.slot_offset, resp.db.slot_offset_rq);
		KUNIT_EXPECT_GE(test, attr.cap.max_send_wr, c->cap.max_send_wr);
		KUNIT_EXPECT_EQ(test, moor_kunit_pinned() - pinned, c->pages);
		KUNIT_EXPECT_EQ(test, moor_destroy_qp(&qp->ibqp, NULL), 0);
	}
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), pinned);
	KUNIT_EXPECT_EQ(test, qps_there(user->mdev), before);
	ib_dealloc_pd(pd);
	KUNIT_EXPECT_EQ(test, moor_destroy_cq(&cq->ibcq, NULL), 0);
	moor_user_close(test, user);
}

/* Create another QP with a pair's CQ and PD. */
static int create_like(struct kunit *test, struct moor_pair *pair,
		       struct moor_qp *qp, bool answerable)
{
	struct moor_create_qp_req req = {
		.sq_addr = moor_kunit_mmap(test, PAGE_SIZE, true),
		.log_sq_depth = 4, .log_sq_stride = 6,
	};
	struct ib_qp_init_attr attr = {
		.cap = { .max_send_wr = 16, .max_send_sge = 1 },
		.qp_type = IB_QPT_RC,
		.send_cq = &pair->cq->ibcq,
		.recv_cq = &pair->cq->ibcq,
	};
	struct ib_udata *udata;

	*qp = (struct moor_qp){ .ibqp = pair->qp->ibqp };
	udata = moor_user_udata(test, pair->user, &req, sizeof(req),
				sizeof(struct moor_create_qp_resp));
	if (!answerable)
		udata->outbuf = (void __user *)16UL;
	return moor_create_qp(&qp->ibqp, &attr, udata);
}

/* The device refuses, or the answer cannot be delivered: nothing is kept. */
static void qp_refused(struct kunit *test)
{
	struct moor_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct moor_pair pair;
	long pinned;

	KUNIT_ASSERT_NOT_NULL(test, qp);
	moor_pair_open(test, &pair);
	pinned = moor_kunit_pinned();
	nic->behave.fail_opcode = MOOR_CMD_CREATE_QP;
	nic->behave.fail_status = MOOR_CMD_NO_RESOURCE;
	KUNIT_EXPECT_EQ(test, create_like(test, &pair, qp, true), -ENOMEM);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), pinned);
	nic->behave.fail_status = 0;
	KUNIT_EXPECT_EQ(test, create_like(test, &pair, qp, false), -EFAULT);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), pinned);
	KUNIT_EXPECT_EQ(test, nic->commands[MOOR_CMD_DESTROY_QP], 1);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(mdev));
	KUNIT_ASSERT_EQ(test, create_like(test, &pair, qp, true), 0);

	/* A destroy that is refused stops the device: then the pages may go. */
	nic->behave.fail_opcode = MOOR_CMD_DESTROY_QP;
	nic->behave.fail_status = MOOR_CMD_BUSY;
	KUNIT_EXPECT_EQ(test, moor_destroy_qp(&qp->ibqp, NULL), 0);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(mdev));
	KUNIT_EXPECT_EQ(test, nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER, 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), pinned);
	moor_pair_close(test, &pair);
}

/* No answer can be copied, and the device refuses DESTROY_QP: it is stopped. */
static void qp_undo_refused(struct kunit *test)
{
	struct moor_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	struct moor_pair pair;
	long pinned;

	KUNIT_ASSERT_NOT_NULL(test, qp);
	moor_pair_open(test, &pair);
	pinned = moor_kunit_pinned();
	nic->behave.fail_opcode = MOOR_CMD_DESTROY_QP;
	nic->behave.fail_status = MOOR_CMD_BAD_PARAM;
	KUNIT_EXPECT_EQ(test, create_like(test, &pair, qp, false), -EFAULT);
	KUNIT_EXPECT_TRUE(test, moor_is_dead(mdev));
	KUNIT_EXPECT_EQ(test, nic->cfg[PCI_COMMAND] & PCI_COMMAND_MASTER, 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), pinned);
	moor_pair_close(test, &pair);
}

/* A QP number of 24 ones stands for multicast, however many bits are the index. */
static void qp_number_multicast(struct kunit *test)
{
	const u32 last = BIT(23) - 1;
	struct xarray objects;
	u32 number;
	int try;

	xa_init_flags(&objects, XA_FLAGS_ALLOC);
	for (try = 0; try < 64; try++) {
		KUNIT_ASSERT_EQ(test, moor_number_alloc(&objects, 23, last, test,
							&number), 0);
		KUNIT_EXPECT_EQ(test, number, last);
		xa_erase(&objects, last);
	}
	KUNIT_EXPECT_EQ(test, moor_number_alloc(&objects, 24, 0xfffffe, test,
						&number), 0);
	KUNIT_EXPECT_EQ(test, number, 0xfffffe);
	KUNIT_EXPECT_EQ(test, moor_number_alloc(&objects, 24, 0xfffffe, test,
						&number), -ENOMEM);
	xa_destroy(&objects);
}

/* All numbers of the device, none twice, then ENOMEM; QP 0 and 1 are IBA's. */
static void qp_exhaustion(struct kunit *test)
{
	const u32 most = BIT(FAKE_QP_INDEX_BITS) - MOOR_QP_INDEX_FIRST - 1;
	struct moor_qp *qps = kunit_kcalloc(test, most + 1, sizeof(*qps),
					    GFP_KERNEL);
	DECLARE_BITMAP(seen, BIT(FAKE_QP_INDEX_BITS)) = {};
	struct moor_pair pair;
	u32 i, index, twice = 0;

	KUNIT_ASSERT_NOT_NULL(test, qps);
	moor_pair_open(test, &pair);
	for (i = 0; i < most; i++) {
		KUNIT_ASSERT_EQ(test, create_like(test, &pair, &qps[i], true), 0);
		index = qps[i].qpn % BIT(FAKE_QP_INDEX_BITS);
		twice += test_and_set_bit(index, seen);
	}
	KUNIT_EXPECT_EQ(test, twice, 0);
	KUNIT_EXPECT_FALSE(test, test_bit(0, seen));
	KUNIT_EXPECT_FALSE(test, test_bit(1, seen));
	KUNIT_EXPECT_EQ(test, create_like(test, &pair, &qps[most], true), -ENOMEM);
	KUNIT_EXPECT_EQ(test, moor_destroy_qp(&qps[17].ibqp, NULL), 0);
	KUNIT_EXPECT_EQ(test, create_like(test, &pair, &qps[17], true), 0);
	for (i = 0; i < most; i++)
		KUNIT_ASSERT_EQ(test, moor_destroy_qp(&qps[i].ibqp, NULL), 0);
	moor_pair_close(test, &pair);
}

#define TO_INIT	(IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS)
#define TO_RTR	(IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN |	\
		 IB_QP_RQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER)
#define TO_RTS	(IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT |		\
		 IB_QP_RNR_RETRY | IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC)

static void path_attr(struct ib_qp_attr *attr)
{
	attr->port_num = MOOR_PORT;
	attr->path_mtu = IB_MTU_4096;
	attr->dest_qp_num = 77;
	attr->min_rnr_timer = 12;
	attr->timeout = 14;
	attr->retry_cnt = 7;
	attr->rnr_retry = 7;
	attr->max_rd_atomic = 4;
	attr->max_dest_rd_atomic = 4;
	attr->ah_attr.type = RDMA_AH_ATTR_TYPE_ROCE;
	rdma_ah_set_ah_flags(&attr->ah_attr, IB_AH_GRH);
}

static int move(struct moor_pair *pair, struct ib_qp_attr *attr,
		enum ib_qp_state state, int mask)
{
	attr->qp_state = state;
	return moor_modify_qp(&pair->qp->ibqp, attr, mask, NULL);
}

/* All the way up to RTS, and a query there; RESET clears the attributes. */
static void qp_states(struct kunit *test)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr = {}, seen;
	struct moor_pair pair;

	moor_pair_open(test, &pair);
	path_attr(&attr);
	attr.qp_access_flags = IB_ACCESS_REMOTE_READ;
	KUNIT_EXPECT_EQ(test, move(&pair, &attr, IB_QPS_RTR, TO_RTR), -EINVAL);
	KUNIT_ASSERT_EQ(test, move(&pair, &attr, IB_QPS_INIT, TO_INIT), 0);
	KUNIT_EXPECT_EQ(test, move(&pair, &attr, IB_QPS_RTS, TO_RTS), -EINVAL);
	KUNIT_ASSERT_EQ(test, move(&pair, &attr, IB_QPS_RTR, TO_RTR), 0);
	KUNIT_ASSERT_EQ(test, move(&pair, &attr, IB_QPS_RTS, TO_RTS), 0);

	KUNIT_ASSERT_EQ(test, moor_query_qp(&pair.qp->ibqp, &seen, 0, &init), 0);
	KUNIT_EXPECT_EQ(test, seen.qp_state, IB_QPS_RTS);
	KUNIT_EXPECT_EQ(test, seen.dest_qp_num, 77);
	KUNIT_EXPECT_EQ(test, seen.path_mtu, IB_MTU_4096);
	KUNIT_EXPECT_EQ(test, seen.qp_access_flags, IB_ACCESS_REMOTE_READ);
	KUNIT_EXPECT_EQ(test, seen.timeout, 14);
	KUNIT_EXPECT_EQ(test, init.cap.max_send_wr, 64);

	/* The device has put the QP into ERR by itself: a query shows that. */
	moor_kunit_nic()->qps[pair.qp->qpn % BIT(FAKE_QP_INDEX_BITS)].state =
		MOOR_QPS_ERR;
	KUNIT_ASSERT_EQ(test, moor_query_qp(&pair.qp->ibqp, &seen, 0, &init), 0);
	KUNIT_EXPECT_EQ(test, seen.qp_state, IB_QPS_ERR);

	KUNIT_ASSERT_EQ(test, move(&pair, &attr, IB_QPS_RESET, IB_QP_STATE), 0);
	KUNIT_ASSERT_EQ(test, moor_query_qp(&pair.qp->ibqp, &seen, 0, &init), 0);
	KUNIT_EXPECT_EQ(test, seen.qp_state, IB_QPS_RESET);
	KUNIT_EXPECT_EQ(test, seen.dest_qp_num, 0);
	moor_pair_close(test, &pair);
}

/* Rights of FLUSH, if the device has them: in version 1.5 the field is reserved. */
static void qp_access(struct kunit *test)
{
	const u32 flush = IB_ACCESS_FLUSH_GLOBAL | IB_ACCESS_FLUSH_PERSISTENT;
	static const struct {
		u64 no_features;
		u32 access;
	} devices[] = {
		{ 0, MOOR_ACCESS_REMOTE_WRITE | MOOR_ACCESS_FLUSH_GLOBAL |
		     MOOR_ACCESS_FLUSH_PERSISTENT },
		{ MOOR_FEATURE_FLUSH_PERSISTENT,
		  MOOR_ACCESS_REMOTE_WRITE | MOOR_ACCESS_FLUSH_GLOBAL },
		{ MOOR_FEATURE_FLUSH_GLOBAL, MOOR_ACCESS_REMOTE_WRITE },
	};
	struct fake_nic *nic = moor_kunit_nic();
	struct ib_qp_attr attr = {}, seen;
	struct ib_qp_init_attr init;
	struct moor_pair pair;
	const u32 *access;
	u32 i;

	path_attr(&attr);
	for (i = 0; i < ARRAY_SIZE(devices); i++) {
		if (i)
			moor_kunit_replug(test, devices[i].no_features);
		moor_pair_open(test, &pair);
		access = &nic->qps[pair.qp->qpn % BIT(FAKE_QP_INDEX_BITS)].access;
		attr.qp_access_flags = IB_ACCESS_REMOTE_WRITE | flush;
		KUNIT_ASSERT_EQ(test, move(&pair, &attr, IB_QPS_INIT, TO_INIT), 0);
		KUNIT_EXPECT_EQ(test, *access, devices[i].access);
		KUNIT_ASSERT_EQ(test, moor_query_qp(&pair.qp->ibqp, &seen, 0,
						    &init), 0);
		KUNIT_EXPECT_EQ(test, seen.qp_access_flags, attr.qp_access_flags);
		/* Rights stay if the call does not name them, and can be taken away. */
		KUNIT_ASSERT_EQ(test, move(&pair, &attr, IB_QPS_RTR, TO_RTR), 0);
		KUNIT_EXPECT_EQ(test, *access, devices[i].access);
		attr.qp_access_flags = IB_ACCESS_REMOTE_READ;
		KUNIT_ASSERT_EQ(test, move(&pair, &attr, IB_QPS_RTS,
					   TO_RTS | IB_QP_ACCESS_FLAGS), 0);
		KUNIT_EXPECT_EQ(test, *access, MOOR_ACCESS_REMOTE_READ);
		moor_pair_close(test, &pair);
	}
	KUNIT_EXPECT_EQ(test, nic->violations, 0);
}

#define UC_TO_RTR	(IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN)
#define UC_TO_RTS	(IB_QP_STATE | IB_QP_SQ_PSN)

static const struct fake_qp *at_device(const struct moor_pair *pair)
{
	return &moor_kunit_nic()->qps[pair->qp->qpn % BIT(FAKE_QP_INDEX_BITS)];
}

/* UC has no attributes that are about answers: naming those of RC is an error. */
static void qp_uc(struct kunit *test)
{
	static const int of_rc[] = {
		IB_QP_MAX_DEST_RD_ATOMIC, IB_QP_MIN_RNR_TIMER, IB_QP_TIMEOUT,
		IB_QP_RETRY_CNT, IB_QP_RNR_RETRY, IB_QP_MAX_QP_RD_ATOMIC,
	};
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr = {}, seen;
	struct moor_pair pair;
	u32 i;

	moor_pair_open_type(test, &pair, IB_QPT_UC);
	KUNIT_EXPECT_EQ(test, at_device(&pair)->type, MOOR_QP_UC);
	path_attr(&attr);
	KUNIT_ASSERT_EQ(test, move(&pair, &attr, IB_QPS_INIT, TO_INIT), 0);
	for (i = 0; i < ARRAY_SIZE(of_rc); i++)
		KUNIT_EXPECT_EQ(test, move(&pair, &attr, IB_QPS_RTR,
					   UC_TO_RTR | of_rc[i]), -EINVAL);
	KUNIT_EXPECT_EQ(test, move(&pair, &attr, IB_QPS_RTR,
				   UC_TO_RTR & ~IB_QP_RQ_PSN), -EINVAL);
	KUNIT_ASSERT_EQ(test, move(&pair, &attr, IB_QPS_RTR, UC_TO_RTR), 0);
	for (i = 0; i < ARRAY_SIZE(of_rc); i++)
		KUNIT_EXPECT_EQ(test, move(&pair, &attr, IB_QPS_RTS,
					   UC_TO_RTS | of_rc[i]), -EINVAL);
	KUNIT_ASSERT_EQ(test, move(&pair, &attr, IB_QPS_RTS, UC_TO_RTS), 0);
	KUNIT_ASSERT_EQ(test, moor_query_qp(&pair.qp->ibqp, &seen, 0, &init), 0);
	KUNIT_EXPECT_EQ(test, init.qp_type, IB_QPT_UC);
	KUNIT_EXPECT_EQ(test, seen.qp_state, IB_QPS_RTS);
	KUNIT_EXPECT_EQ(test, seen.dest_qp_num, 77);
	KUNIT_EXPECT_EQ(test, seen.timeout, 0);
	moor_pair_close(test, &pair);

	moor_pair_open(test, &pair);
	KUNIT_EXPECT_EQ(test, at_device(&pair)->type, MOOR_QP_RC);
	moor_pair_close(test, &pair);
}

/* A device of version 1.0 has no UC: it gets no command for such a QP. */
static void qp_no_uc(struct kunit *test)
{
	struct moor_dev *mdev = moor_kunit_replug(test, MOOR_FEATURE_UC);
	u32 before = moor_kunit_nic()->commands[MOOR_CMD_CREATE_QP];
	struct ib_cq_init_attr cq_attr = { .cqe = 16 };
	struct ib_qp_init_attr attr = {
		.cap = { 16, 16, 1, 1, 0 },
		.qp_type = IB_QPT_UC,
	};
	struct ib_pd *pd = ib_alloc_pd(&mdev->ibdev, 0);
	struct ib_cq *cq;
	struct ib_qp *qp;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	cq = ib_create_cq(&mdev->ibdev, NULL, NULL, NULL, &cq_attr);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq);
	attr.send_cq = cq;
	attr.recv_cq = cq;
	qp = ib_create_qp(pd, &attr);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(qp), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, moor_kunit_nic()->commands[MOOR_CMD_CREATE_QP], before);
	attr.qp_type = IB_QPT_RC;
	qp = ib_create_qp(pd, &attr);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(qp), 0);
	if (!IS_ERR(qp))
		ib_destroy_qp(qp);
	ib_destroy_cq(cq);
	ib_dealloc_pd(pd);
}

struct modify {
	const char *name;
	int mask;
	struct ib_qp_attr attr;
	int err;
};

/* Onto a QP on its way from INIT to RTR, or from RTR to RTS. */
static const struct modify modifies[] = {
	{ "path MTU 0", IB_QP_PATH_MTU, { .path_mtu = 0 }, -EINVAL },
	{ "path MTU 6", IB_QP_PATH_MTU, { .path_mtu = 6 }, -EINVAL },
	{ "destination of 25 bits", IB_QP_DEST_QPN, { .dest_qp_num = 1 << 24 }, -EINVAL },
	{ "RNR timer 32", IB_QP_MIN_RNR_TIMER, { .min_rnr_timer = 32 }, -EINVAL },
	{ "too many READs", IB_QP_MAX_DEST_RD_ATOMIC, { .max_dest_rd_atomic = 17 }, -EINVAL },
	{ "no path", IB_QP_AV, {}, -EINVAL },
	{ "alternate path", IB_QP_ALT_PATH, {}, -EOPNOTSUPP },
	{ "rate limit", IB_QP_RATE_LIMIT, {}, -EOPNOTSUPP },
	{ "unknown bit", 1 << 30, {}, -EOPNOTSUPP },
};

static void modify_desc(const struct modify *m, char *desc)
{
	strscpy(desc, m->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(modify, modifies, modify_desc);

static void qp_modify_bad(struct kunit *test)
{
	const struct modify *m = test->param_value;
	struct ib_qp_attr attr = {}, bad;
	struct moor_pair pair;
	u32 before;

	moor_pair_open(test, &pair);
	path_attr(&attr);
	KUNIT_ASSERT_EQ(test, move(&pair, &attr, IB_QPS_INIT, TO_INIT), 0);
	bad = attr;
	switch (m->mask) {
	case IB_QP_PATH_MTU:
		bad.path_mtu = m->attr.path_mtu;
		break;
	case IB_QP_DEST_QPN:
		bad.dest_qp_num = m->attr.dest_qp_num;
		break;
	case IB_QP_MIN_RNR_TIMER:
		bad.min_rnr_timer = m->attr.min_rnr_timer;
		break;
	case IB_QP_MAX_DEST_RD_ATOMIC:
		bad.max_dest_rd_atomic = m->attr.max_dest_rd_atomic;
		break;
	case IB_QP_AV:
		bad.ah_attr = m->attr.ah_attr;
		break;
	}
	before = moor_kunit_nic()->commands[MOOR_CMD_MODIFY_QP];
	KUNIT_EXPECT_EQ(test, move(&pair, &bad, IB_QPS_RTR, TO_RTR | m->mask),
			m->err);
	KUNIT_EXPECT_EQ(test, moor_kunit_nic()->commands[MOOR_CMD_MODIFY_QP],
			before);
	KUNIT_EXPECT_EQ(test, move(&pair, &attr, IB_QPS_RTR, TO_RTR), 0);
	moor_pair_close(test, &pair);
}

/* The device refuses: the QP stays as it was. */
static void qp_modify_refused(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct ib_qp_attr attr = {};
	struct moor_pair pair;

	moor_pair_open(test, &pair);
	path_attr(&attr);
	nic->behave.fail_opcode = MOOR_CMD_MODIFY_QP;
	nic->behave.fail_status = MOOR_CMD_BAD_STATE;
	KUNIT_EXPECT_EQ(test, move(&pair, &attr, IB_QPS_INIT, TO_INIT), -EINVAL);
	nic->behave.fail_status = 0;
	KUNIT_EXPECT_EQ(test, pair.qp->attr.qp_state, IB_QPS_RESET);
	KUNIT_EXPECT_EQ(test, move(&pair, &attr, IB_QPS_INIT, TO_INIT), 0);
	moor_pair_close(test, &pair);
}

static void remember_event(struct ib_event *event, void *context)
{
	WRITE_ONCE(*(int *)context, event->event + 1);
}

static void async_event(struct kunit *test, u8 type, u32 number)
{
	struct fake_nic *nic = moor_kunit_nic();
	u64 *seen = &nic->slots[MOOR_DB_SLOT_EQ_CONSUMER + MOOR_EQ_ASYNC];
	u64 before = READ_ONCE(*seen);

	fake_nic_event(nic, MOOR_EQ_ASYNC, type, number);
	moor_kunit_wait(test, READ_ONCE(*seen) != before);
}

/* Events find their QP by its whole number, not by its index. */
static void qp_events(struct kunit *test)
{
	static const struct {
		u8 type;
		enum ib_event_type event;
	} events[] = {
		{ MOOR_EVENT_QP_FATAL, IB_EVENT_QP_FATAL },
		{ MOOR_EVENT_QP_REQ_ERR, IB_EVENT_QP_REQ_ERR },
		{ MOOR_EVENT_QP_ACCESS_ERR, IB_EVENT_QP_ACCESS_ERR },
		{ MOOR_EVENT_COMM_EST, IB_EVENT_COMM_EST },
		{ MOOR_EVENT_SQ_DRAINED, IB_EVENT_SQ_DRAINED },
	};
	struct ib_qp_attr attr = {};
	struct moor_pair pair;
	int got = 0;
	u32 i;

	moor_pair_open(test, &pair);
	pair.qp->ibqp.event_handler = remember_event;
	pair.qp->ibqp.qp_context = &got;
	/* Events of a QP that never left RESET are dropped. */
	async_event(test, events[0].type, pair.qp->qpn);
	KUNIT_EXPECT_EQ(test, got, 0);
	path_attr(&attr);
	KUNIT_ASSERT_EQ(test, move(&pair, &attr, IB_QPS_INIT, TO_INIT), 0);
	for (i = 0; i < ARRAY_SIZE(events); i++) {
		async_event(test, events[i].type, pair.qp->qpn);
		KUNIT_EXPECT_EQ(test, got, events[i].event + 1);
		got = 0;
		async_event(test, events[i].type,
			    pair.qp->qpn ^ BIT(FAKE_QP_INDEX_BITS));
		KUNIT_EXPECT_EQ(test, got, 0);
	}
	pair.cq->ibcq.event_handler = remember_event;
	pair.cq->ibcq.cq_context = &got;
	async_event(test, MOOR_EVENT_CQ_ERROR, pair.cq->cqn);
	KUNIT_EXPECT_EQ(test, got, IB_EVENT_CQ_ERR + 1);
	/* Events of no QP, of no CQ, and of an unknown type. */
	async_event(test, MOOR_EVENT_QP_FATAL, ~0U);
	async_event(test, MOOR_EVENT_CQ_ERROR, ~0U);
	async_event(test, 0x7f, 0);
	moor_pair_close(test, &pair);
}

static struct kunit_case qp_cases[] = {
	KUNIT_CASE_PARAM(qp_input, qp_case_gen_params),
	KUNIT_CASE(qp_refused),
	KUNIT_CASE(qp_undo_refused),
	KUNIT_CASE(qp_number_multicast),
	KUNIT_CASE(qp_exhaustion),
	KUNIT_CASE(qp_states),
	KUNIT_CASE(qp_access),
	KUNIT_CASE(qp_uc),
	KUNIT_CASE(qp_no_uc),
	KUNIT_CASE_PARAM(qp_modify_bad, modify_gen_params),
	KUNIT_CASE(qp_modify_refused),
	KUNIT_CASE(qp_events),
	{}
};

static struct kunit_suite qp_suite = {
	.name = "moor_qp",
	.init = moor_kunit_init_all,
	.exit = moor_kunit_exit,
	.test_cases = qp_cases,
};

kunit_test_suite(qp_suite);
