// SPDX-License-Identifier: GPL-2.0
/*
 * Every allocation of a call fails in turn, until a pass sees no failure: the call
 * returns an error and leaves nothing behind, and the next call works.
 */

#include <linux/fault-inject.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/uaccess.h>

#include "process.h"

#define LENGTH		(24 * PAGE_SIZE)
#define MOST_POINTS	2000
#define HARMLESS_TRIES	3	/* of an allocation that may fail */

/* A call to try, and what it leaves when it works. */
struct attempt {
	struct moor_user *user;
	struct moor_process *process;
	struct moor_pair *pair;
	struct ib_pd *pd;
	struct ib_mr *mr;
	struct ib_cq *cq;	/* of the kernel */
	u32 pd_handle;
	u8 gid;
	unsigned long addr;
	u64 length;
	long kept;		/* pages that are pinned all the while */
	bool cqs;		/* there are CQs all the while */
	bool qps;		/* there are QPs all the while */
	u32 returned;		/* most nodes that a failing call gave back */
	int (*call)(struct kunit *test, struct attempt *attempt);
};

/* Copies from and to the process fail as well, where the kernel can do that. */
static bool may_fail_with(int err)
{
	return err == -ENOMEM ||
	       (IS_ENABLED(CONFIG_FAULT_INJECTION_USERCOPY) && err == -EFAULT);
}

/* Make the call with its @nth allocation failing. Return: whether it had so many. */
static bool fail_at(struct kunit *test, struct attempt *attempt, u32 nth, int *err)
{
	struct moor_dev *mdev = test->priv;
	u32 nodes = mdev->nodes.count;
	bool reached;

	current->fail_nth = nth;
	*err = attempt->call(test, attempt);
	reached = !current->fail_nth;
	current->fail_nth = 0;
	KUNIT_EXPECT_TRUE_MSG(test, !*err || may_fail_with(*err),
			      "%d at allocation %u", *err, nth);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), attempt->kept);
	KUNIT_EXPECT_EQ(test, mdev->nodes.count, nodes);
	KUNIT_EXPECT_EQ(test, xa_empty(&mdev->cqs), !attempt->cqs);
	KUNIT_EXPECT_EQ(test, xa_empty(&mdev->qps), !attempt->qps);
	return reached;
}

/*
 * Try the call with the first, second, ... allocation failing. Some failures do no
 * harm: then the call works. What failed may be something that is made once and kept,
 * as a slab's extensions are: the next call has one allocation less, and those behind
 * have moved up. So the same number is tried again.
 */
static void fail_in_turn(struct kunit *test, struct attempt *attempt, u32 least)
{
	u32 nth, tries, failed = 0;
	bool reached = true;
	int err;

	/* Makes the allocations that are kept afterwards, such as page tables. */
	KUNIT_ASSERT_EQ(test, attempt->call(test, attempt), 0);
	for (nth = 1; nth < MOST_POINTS; nth++) {
		err = 0;
		for (tries = 0; tries < HARMLESS_TRIES && reached && !err; tries++)
			reached = fail_at(test, attempt, nth, &err);
		if (!reached)
			break;
		failed++;
	}
	kunit_info(test, "%u allocations failed in turn\n", failed);
	KUNIT_EXPECT_GE(test, failed, least);
	KUNIT_EXPECT_LT(test, nth, MOST_POINTS);
	KUNIT_EXPECT_EQ(test, attempt->call(test, attempt), 0);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(test->priv));
}

/* Failures are injected while objects are made, not while they are undone. */
static void injection_over(void)
{
	if (current->fail_nth)
		current->fail_nth = INT_MAX;
}

static int try_mr(struct kunit *test, struct attempt *attempt)
{
	struct ib_mr *mr;

	mr = moor_reg_user_mr(attempt->pd, attempt->addr, attempt->length,
			      attempt->addr, IB_ACCESS_LOCAL_WRITE, NULL);
	injection_over();
	if (IS_ERR(mr))
		return PTR_ERR(mr);
	mr->device = attempt->pd->device;
	mr->pd = attempt->pd;
	KUNIT_EXPECT_EQ(test, moor_dereg_mr(mr, NULL), 0);
	return 0;
}

#define LARGE_LENGTH	(1200 * PAGE_SIZE)
#define LARGE_NODES	4u	/* three of leaves and a root */

/*
 * As try_mr(), with no node in the pool: the table allocates several nodes of its
 * own, and when one fails, those before it are in the pool afterwards.
 */
static int try_mr_table(struct kunit *test, struct attempt *attempt)
{
	struct moor_dev *mdev = test->priv;
	int err;

	moor_nodes_destroy(mdev);
	err = try_mr(test, attempt);
	if (err)
		attempt->returned = max(attempt->returned, mdev->nodes.count);
	moor_nodes_destroy(mdev);
	return err;
}

static void fault_mr(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct moor_pd pd = { .ibpd.device = &mdev->ibdev };
	struct attempt attempt = {
		.pd = &pd.ibpd,
		.addr = moor_kunit_mmap_scattered(test, LARGE_LENGTH),
		.length = LENGTH,
		.call = try_mr,
	};

	KUNIT_ASSERT_EQ(test, moor_alloc_pd(&pd.ibpd, NULL), 0);
	fail_in_turn(test, &attempt, 3);
	attempt.call = try_mr_table;
	attempt.length = LARGE_LENGTH;
	fail_in_turn(test, &attempt, 7);
	KUNIT_EXPECT_EQ(test, attempt.returned, LARGE_NODES - 1);
	moor_dealloc_pd(&pd.ibpd, NULL);
}

static int try_cq(struct kunit *test, struct attempt *attempt)
{
	struct moor_user *user = attempt->user;
	struct ib_cq_init_attr attr = { .cqe = 256 };
	struct moor_cq cq = { .ibcq.device = &user->mdev->ibdev };
	int err;

	err = moor_create_cq(&cq.ibcq, &attr, &user->attrs);
	injection_over();
	if (!err)
		KUNIT_EXPECT_EQ(test, moor_destroy_cq(&cq.ibcq, NULL), 0);
	return err;
}

static void fault_cq(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	struct attempt attempt = { .user = user, .call = try_cq };
	struct moor_create_cq_req req = {
		.ring_addr = moor_kunit_mmap(test, LENGTH, true),
		.log_cqe = 8,
	};

	moor_user_udata(test, user, &req, sizeof(req),
			sizeof(struct moor_create_cq_resp));
	fail_in_turn(test, &attempt, 3);
	moor_user_close(test, user);
}

static int try_fast_mr(struct kunit *test, struct attempt *attempt)
{
	struct moor_dev *mdev = test->priv;
	struct ib_mr *mr = ib_alloc_mr(attempt->pd, IB_MR_TYPE_MEM_REG, 16);

	injection_over();
	if (!IS_ERR(mr))
		KUNIT_EXPECT_EQ(test, ib_dereg_mr(mr), 0);
	KUNIT_EXPECT_TRUE(test, xa_empty(&mdev->fast_mrs));
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->mw_keys), 0);
	return PTR_ERR_OR_ZERO(mr);
}

/* With no node in the pool: the MR's two tables are allocated, too. */
static int try_fast_mr_tables(struct kunit *test, struct attempt *attempt)
{
	int err;

	moor_nodes_destroy(test->priv);
	err = try_fast_mr(test, attempt);
	moor_nodes_destroy(test->priv);
	return err;
}

static int try_kernel_cq(struct kunit *test, struct attempt *attempt)
{
	struct ib_cq_init_attr attr = { .cqe = 256 };
	struct ib_cq *cq = ib_create_cq(attempt->pd->device, NULL, NULL, NULL,
					&attr);

	injection_over();
	if (IS_ERR(cq))
		return PTR_ERR(cq);
	ib_destroy_cq(cq);
	return 0;
}

static int try_kernel_qp(struct kunit *test, struct attempt *attempt)
{
	struct ib_qp_init_attr attr = {
		.cap = { 64, 64, 1, 1, 0 },
		.qp_type = IB_QPT_RC,
		.send_cq = attempt->cq,
		.recv_cq = attempt->cq,
	};
	struct ib_qp *qp = ib_create_qp(attempt->pd, &attr);

	injection_over();
	KUNIT_EXPECT_EQ(test, hash_empty(to_mcq(attempt->cq)->kernel.qps),
			IS_ERR(qp));
	if (IS_ERR(qp))
		return PTR_ERR(qp);
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(qp), 0);
	return 0;
}

/* All objects that kernel users make, by the core's calls. */
static void fault_kernel(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	struct attempt attempt = {
		.pd = ib_alloc_pd(&mdev->ibdev, 0), .call = try_fast_mr,
	};
	struct ib_cq_init_attr attr = { .cqe = 256 };

	fail_in_turn(test, &attempt, 3);
	attempt.call = try_fast_mr_tables;
	fail_in_turn(test, &attempt, 5);
	attempt.call = try_kernel_cq;
	fail_in_turn(test, &attempt, 2);
	attempt.cq = ib_create_cq(attempt.pd->device, NULL, NULL, NULL, &attr);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, attempt.cq);
	attempt.cqs = true;
	attempt.call = try_kernel_qp;
	fail_in_turn(test, &attempt, 7);
	ib_destroy_cq(attempt.cq);
	ib_dealloc_pd(attempt.pd);
}

static int try_ucontext(struct kunit *test, struct attempt *attempt)
{
	struct moor_user *user = attempt->user;
	struct moor_ucontext *uctx = kunit_kzalloc(test, sizeof(*uctx),
						   GFP_KERNEL);
	struct moor_db db = {};
	int err;

	if (!uctx)
		return -ENOMEM;
	uctx->ibucontext.device = &user->mdev->ibdev;
	uctx->ibucontext.ufile = user->ufile;
	xa_init_flags(&uctx->ibucontext.mmap_xa, XA_FLAGS_ALLOC);
	err = moor_alloc_ucontext(&uctx->ibucontext, &user->attrs.driver_udata);
	if (!err) {
		err = moor_db_alloc(uctx, &db, 2);
		if (!err)
			moor_db_free(uctx, &db);
		moor_dealloc_ucontext(&uctx->ibucontext);
	}
	injection_over();
	KUNIT_EXPECT_TRUE(test, xa_empty(&uctx->ibucontext.mmap_xa));
	KUNIT_EXPECT_EQ(test, bitmap_weight(user->mdev->db_used,
					    FAKE_DB_PAGES), 1);
	return err;
}

static void fault_ucontext(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	struct attempt attempt = { .user = user, .call = try_ucontext };
	struct moor_alloc_ucontext_req req = {};

	moor_user_udata(test, user, &req, sizeof(req),
			sizeof(struct moor_alloc_ucontext_resp));
	fail_in_turn(test, &attempt, 4);
	moor_user_close(test, user);
}

static int try_qp(struct kunit *test, struct attempt *attempt)
{
	struct ib_qp *qp = &attempt->pair->qp->ibqp;
	struct ib_qp_init_attr attr = {
		.cap = { 64, 64, 1, 1, 0 },
		.qp_type = IB_QPT_RC,
		.send_cq = qp->send_cq,
		.recv_cq = qp->recv_cq,
	};
	int err;

	err = moor_create_qp(qp, &attr, &attempt->user->attrs.driver_udata);
	injection_over();
	if (!err)
		KUNIT_EXPECT_EQ(test, moor_destroy_qp(qp, NULL), 0);
	return err;
}

/* On a pair whose QP is destroyed and made again; its CQ stays. */
static void fault_qp(struct kunit *test)
{
	struct moor_pair pair;
	struct moor_create_qp_req req = {
		.log_sq_depth = 6, .log_sq_stride = 6,
		.log_rq_depth = 6, .log_rq_stride = 6,
	};
	struct attempt attempt = { .pair = &pair, .call = try_qp };
	struct ib_qp_init_attr attr = { .cap = { 64, 64, 1, 1, 0 } };
	struct ib_udata *udata;

	moor_pair_open(test, &pair);
	KUNIT_ASSERT_EQ(test, moor_destroy_qp(&pair.qp->ibqp, NULL), 0);
	attempt.user = pair.user;
	req.sq_addr = moor_kunit_mmap_scattered(test, PAGE_SIZE);
	req.rq_addr = moor_kunit_mmap_scattered(test, PAGE_SIZE);
	udata = moor_user_udata(test, pair.user, &req, sizeof(req),
				sizeof(struct moor_create_qp_resp));
	attempt.kept = moor_kunit_pinned();
	attempt.cqs = true;
	fail_in_turn(test, &attempt, 5);

	attr.qp_type = IB_QPT_RC;
	attr.send_cq = &pair.cq->ibcq;
	attr.recv_cq = &pair.cq->ibcq;
	KUNIT_ASSERT_EQ(test, moor_create_qp(&pair.qp->ibqp, &attr, udata), 0);
	moor_pair_close(test, &pair);
}

static int try_rereg(struct kunit *test, struct attempt *attempt)
{
	struct moor_mr *mr = to_mmr(attempt->mr);
	struct moor_mr_context before = *moor_kunit_entry(mr->key);
	struct ib_mr *other;

	other = moor_rereg_user_mr(attempt->mr, IB_MR_REREG_TRANS, attempt->addr,
				   LENGTH, attempt->addr, 0, attempt->pd, NULL);
	injection_over();
	KUNIT_EXPECT_FALSE(test, other && !IS_ERR(other));
	if (IS_ERR(other))
		KUNIT_EXPECT_MEMEQ(test, (u8 *)moor_kunit_entry(mr->key),
				   (u8 *)&before, sizeof(before));
	return PTR_ERR_OR_ZERO(other);
}

/* A failure leaves the MR as it was, a success under the same key. */
static void fault_rereg(struct kunit *test)
{
	struct moor_region *region = moor_region_new(test, ALL_RIGHTS);
	struct attempt attempt = {
		.pd = region->pd,
		.mr = region->mr,
		.addr = moor_kunit_mmap_scattered(test, LENGTH),
		.call = try_rereg,
		.kept = REGION_PAGES,
	};

	fail_in_turn(test, &attempt, 2);
	moor_region_free(test, region);
}

static int try_pd(struct kunit *test, struct attempt *attempt)
{
	struct moor_dev *mdev = test->priv;
	struct moor_pd pd = { .ibpd.device = &mdev->ibdev };
	int err;

	err = moor_alloc_pd(&pd.ibpd, NULL);
	injection_over();
	if (!err) {
		KUNIT_EXPECT_EQ(test, pd.pdn, IDA_BITMAP_BITS);
		moor_dealloc_pd(&pd.ibpd, NULL);
	}
	return err;
}

/* A PD whose number makes the ID allocator need another piece of memory. */
static void fault_pd(struct kunit *test)
{
	struct attempt attempt = { .call = try_pd };
	struct moor_dev *mdev = test->priv;
	struct moor_pd *pds = kunit_kcalloc(test, IDA_BITMAP_BITS, sizeof(*pds),
					    GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, pds);
	for (i = 1; i < IDA_BITMAP_BITS; i++) {
		pds[i].ibpd.device = &mdev->ibdev;
		KUNIT_ASSERT_EQ(test, moor_alloc_pd(&pds[i].ibpd, NULL), 0);
	}
	fail_in_turn(test, &attempt, 1);
	for (i = 1; i < IDA_BITMAP_BITS; i++)
		moor_dealloc_pd(&pds[i].ibpd, NULL);
}

static int try_window(struct kunit *test, struct attempt *attempt)
{
	struct moor_process *process = attempt->process;
	struct ib_uverbs_dealloc_mw cmd = {};
	struct moor_verb verb = {
		IB_USER_VERBS_CMD_DEALLOC_MW, VERB_IN(cmd),
	};
	struct ib_uverbs_alloc_mw_resp resp;
	struct moor_dev *mdev = test->priv;
	int err;

	err = moor_process_window(process, attempt->pd_handle, &resp);
	injection_over();
	if (!err) {
		cmd.mw_handle = resp.mw_handle;
		KUNIT_EXPECT_EQ(test, moor_process_write(process, &verb), 0);
	}
	KUNIT_EXPECT_EQ(test, moor_keys_used(&mdev->mw_keys), 0);
	return err;
}

static int try_process_mr(struct kunit *test, struct attempt *attempt)
{
	struct moor_process *process = attempt->process;
	struct ib_uverbs_reg_mr_resp resp;
	int err;

	err = moor_process_reg(process, attempt->pd_handle, attempt->addr, LENGTH,
			       IB_ACCESS_LOCAL_WRITE, &resp);
	injection_over();
	if (!err)
		KUNIT_EXPECT_EQ(test, moor_process_dereg(process, resp.mr_handle), 0);
	return err;
}

static int try_dm(struct kunit *test, struct attempt *attempt)
{
	struct moor_process *process = attempt->process;
	struct moor_dev *mdev = test->priv;
	u64 length = 5000;
	u32 alignment = 0;
	int err;

	moor_call_begin(process, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC);
	moor_call_handle(process, UVERBS_ATTR_ALLOC_DM_HANDLE, 0);
	moor_call_room(process, UVERBS_ATTR_ALLOC_DM_LENGTH, &length, 8);
	moor_call_room(process, UVERBS_ATTR_ALLOC_DM_ALIGNMENT, &alignment, 4);
	moor_call_room(process, MOOR_ATTR_ALLOC_DM_RESP, NULL,
		       sizeof(struct moor_dm_location));
	err = moor_call_run(process);
	injection_over();
	if (!err) {
		u32 handle = process->call.attrs[0].data;

		moor_call_begin(process, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE);
		moor_call_handle(process, UVERBS_ATTR_FREE_DM_HANDLE, handle);
		KUNIT_EXPECT_EQ(test, moor_call_run(process), 0);
	}
	KUNIT_EXPECT_TRUE(test, bitmap_empty(mdev->dm.used, mdev->dm.pages));
	return err;
}

struct process_fault {
	const char *name;
	int (*call)(struct kunit *test, struct attempt *attempt);
};

static const struct process_fault process_faults[] = {
	{ "reg_mr", try_process_mr },
	{ "alloc_mw", try_window },
	{ "alloc_dm", try_dm },
};

static void process_fault_desc(const struct process_fault *fault, char *desc)
{
	strscpy(desc, fault->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(process_fault, process_faults, process_fault_desc);

/* The system call as a whole, with the allocations of the core. */
static void fault_process(struct kunit *test)
{
	const struct process_fault *fault = test->param_value;
	struct moor_process *process = moor_process_open(test);
	struct moor_alloc_ucontext_resp resp;
	struct attempt attempt = {
		.process = process,
		.addr = moor_kunit_mmap_scattered(test, LENGTH),
		.call = fault->call,
	};

	KUNIT_ASSERT_EQ(test, moor_process_context(process, &resp), 0);
	attempt.pd_handle = moor_process_pd(process);
	fail_in_turn(test, &attempt, 2);
	moor_process_close(process);
}

static int try_ah(struct kunit *test, struct attempt *attempt)
{
	struct rdma_ah_attr attr = {
		.type = RDMA_AH_ATTR_TYPE_ROCE,
		.port_num = MOOR_PORT,
		.roce.dmac = { 2, 3, 4, 5, 6, 7 },
	};
	struct ib_ah *ah;

	rdma_ah_set_grh(&attr, NULL, 0, attempt->gid, 1, 0);
	attr.grh.dgid.global.subnet_prefix = cpu_to_be64(0xfe80000000000000ULL);
	attr.grh.dgid.raw[15] = 1;
	ah = rdma_create_ah(attempt->pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
	injection_over();
	if (IS_ERR(ah))
		return PTR_ERR(ah);
	rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
	return 0;
}

/* The driver allocates nothing for an AH; the core does. */
static void fault_ah(struct kunit *test)
{
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_dev *mdev = test->priv;
	/* The GSI's CQ and QP are there. */
	struct attempt attempt = { .call = try_ah, .cqs = true, .qps = true };

	rtnl_lock();
	KUNIT_EXPECT_EQ(test, dev_open(mdev->netdev, NULL), 0);
	rtnl_unlock();
	moor_kunit_wait(test, !bitmap_empty(nic->gids, FAKE_GIDS));
	attempt.gid = find_first_bit(nic->gids, FAKE_GIDS);
	attempt.pd = moor_kunit_pd(test);
	fail_in_turn(test, &attempt, 1);
	moor_kunit_pd_free(test, attempt.pd);
	rtnl_lock();
	dev_close(mdev->netdev);
	rtnl_unlock();
}

static struct kunit_case fault_cases[] = {
	KUNIT_CASE(fault_mr),
	KUNIT_CASE(fault_cq),
	KUNIT_CASE(fault_ucontext),
	KUNIT_CASE(fault_qp),
	KUNIT_CASE(fault_kernel),
	KUNIT_CASE(fault_rereg),
	KUNIT_CASE(fault_pd),
	KUNIT_CASE_PARAM(fault_process, process_fault_gen_params),
	{}
};

static struct kunit_suite fault_suite = {
	.name = "moor_fault",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = fault_cases,
};

static struct kunit_case fault_ah_cases[] = {
	KUNIT_CASE(fault_ah),
	{}
};

static struct kunit_suite fault_ah_suite = {
	.name = "moor_fault_ah",
	.init = moor_kunit_init_all,
	.exit = moor_kunit_exit,
	.test_cases = fault_ah_cases,
};

kunit_test_suites(&fault_suite, &fault_ah_suite);
