// SPDX-License-Identifier: GPL-2.0
/* Shared receive queues: creation, changes, events; kernel SRQs: posting, completing. */

#include <linux/delay.h>

#include "harness.h"

#define DEPTH	4
#define RING	(64 * 1024)

/* ---- SRQs of a process ---- */

struct srq_case {
	const char *name;
	u32 max_wr;
	u32 max_sge;
	u8 log_depth;
	u8 log_stride;
	u32 offset;		/* of the ring in mapped memory */
	u8 reserved;
	enum ib_srq_type type;
	int err;
};

static const struct srq_case srq_cases_table[] = {
	{ "plain", 16, 1, 4, 5, 0, 0, IB_SRQT_BASIC, 0 },
	{ "more room than asked for", 9, 2, 5, 6, 0, 0, IB_SRQT_BASIC, 0 },
	{ "one WQE without SGEs", 1, 0, 0, 5, 0, 0, IB_SRQT_BASIC, 0 },
	{ "no WQE", 0, 1, 4, 5, 0, 0, IB_SRQT_BASIC, -EINVAL },
	{ "too many WQEs", 65536, 1, 16, 5, 0, 0, IB_SRQT_BASIC, -EINVAL },
	{ "too many SGEs", 16, 17, 4, 9, 0, 0, IB_SRQT_BASIC, -EINVAL },
	{ "fewer WQEs than asked for", 17, 1, 4, 5, 0, 0, IB_SRQT_BASIC, -EINVAL },
	{ "SGEs beyond the stride", 16, 2, 4, 5, 0, 0, IB_SRQT_BASIC, -EINVAL },
	{ "stride too small", 16, 0, 4, 4, 0, 0, IB_SRQT_BASIC, -EINVAL },
	{ "stride too large", 16, 1, 4, 10, 0, 0, IB_SRQT_BASIC, -EINVAL },
	{ "not page-aligned", 16, 1, 4, 5, 8, 0, IB_SRQT_BASIC, -EINVAL },
	{ "reserved field", 16, 1, 4, 5, 0, 1, IB_SRQT_BASIC, -EINVAL },
	{ "not mapped", 16, 1, 4, 5, 1 << 30, 0, IB_SRQT_BASIC, -EFAULT },
	{ "tag matching", 16, 1, 4, 5, 0, 0, IB_SRQT_TM, -EOPNOTSUPP },
};

static void srq_case_desc(const struct srq_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(srq_case, srq_cases_table, srq_case_desc);

static void srq_input(struct kunit *test)
{
	const struct srq_case *c = test->param_value;
	struct moor_srq *srq = kunit_kzalloc(test, sizeof(*srq), GFP_KERNEL);
	struct moor_user *user = moor_user_open(test);
	struct ib_pd *pd = moor_kunit_pd(test);
	struct ib_srq_init_attr attr = {
		.attr = { .max_wr = c->max_wr, .max_sge = c->max_sge },
		.srq_type = c->type,
	};
	struct moor_create_srq_req req = {
		.ring_addr = moor_kunit_mmap(test, RING, true) + c->offset,
		.log_depth = c->log_depth,
		.log_stride = c->log_stride,
		.reserved[1] = c->reserved,
	};
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_create_srq_resp resp;
	long pinned = moor_kunit_pinned();
	struct ib_udata *udata;
	struct fake_srq *fake;
	int err;

	KUNIT_ASSERT_NOT_NULL(test, srq);
	srq->ibsrq.device = &user->mdev->ibdev;
	srq->ibsrq.pd = pd;
	udata = moor_user_udata(test, user, &req, sizeof(req), sizeof(resp));
	err = moor_create_srq(&srq->ibsrq, &attr, udata);
	KUNIT_EXPECT_EQ(test, err, c->err);
	if (!err) {
		moor_user_answer(test, user, &resp, sizeof(resp));
		KUNIT_EXPECT_EQ(test, resp.srqn, srq->srqn);
		KUNIT_EXPECT_EQ(test, attr.attr.max_wr, 1U << c->log_depth);
		KUNIT_EXPECT_GT(test, moor_kunit_pinned(), pinned);
		fake = fake_find_srq(nic, cpu_to_le32(srq->srqn));
		KUNIT_ASSERT_NOT_NULL(test, fake);
		KUNIT_EXPECT_EQ(test, fake->pd, to_mpd(pd)->pdn);
		KUNIT_EXPECT_EQ(test, fake->flags, 0);
		KUNIT_EXPECT_EQ(test, moor_destroy_srq(&srq->ibsrq, NULL), 0);
		KUNIT_EXPECT_FALSE(test, fake->live);
	}
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), pinned);
	KUNIT_EXPECT_TRUE(test, xa_empty(&user->mdev->srqs));
	moor_kunit_pd_free(test, pd);
	moor_user_close(test, user);
}

/* ---- SRQs of the kernel ---- */

struct srq_user {
	struct moor_dev *mdev;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_srq *ibsrq;
	struct moor_srq *srq;
	struct ib_qp *qp;
	enum ib_event_type srq_event;
	enum ib_event_type qp_event;
	int srq_events;
	int qp_events;
	int qp_told;		/* QP event handlers that have returned */
	bool slow;		/* make those handlers slow */
	struct task_struct *qp_teller;
	u32 written;
};

static void srq_event(struct ib_event *event, void *context)
{
	struct srq_user *user = context;

	user->srq_event = event->event;
	user->srq_events++;
}

static void srq_qp_event(struct ib_event *event, void *context)
{
	struct srq_user *user = context;

	user->qp_event = event->event;
	user->qp_teller = current;
	user->qp_events++;
	if (user->slow)
		msleep(100);
	user->qp_told++;
}

static struct srq_user *srq_open(struct kunit *test)
{
	struct srq_user *user = kunit_kzalloc(test, sizeof(*user), GFP_KERNEL);
	struct ib_cq_init_attr cq_attr = { .cqe = 16 };
	struct ib_srq_init_attr srq_attr = {
		.event_handler = srq_event, .srq_context = user,
		.attr = { .max_wr = DEPTH, .max_sge = 1 },
	};
	struct ib_qp_init_attr qp_attr = {
		.event_handler = srq_qp_event, .qp_context = user,
		.qp_type = IB_QPT_RC, .cap = { 1, 7, 1, 3, 0 },
	};

	KUNIT_ASSERT_NOT_NULL(test, user);
	user->mdev = test->priv;
	user->pd = ib_alloc_pd(&user->mdev->ibdev, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, user->pd);
	user->cq = ib_create_cq(&user->mdev->ibdev, NULL, NULL, NULL, &cq_attr);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, user->cq);
	user->ibsrq = ib_create_srq(user->pd, &srq_attr);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, user->ibsrq);
	user->srq = to_msrq(user->ibsrq);
	qp_attr.send_cq = user->cq;
	qp_attr.recv_cq = user->cq;
	qp_attr.srq = user->ibsrq;
	user->qp = ib_create_qp(user->pd, &qp_attr);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, user->qp);
	KUNIT_EXPECT_EQ(test, qp_attr.cap.max_recv_wr, 0);
	return user;
}

static void srq_close(struct kunit *test, struct srq_user *user)
{
	if (user->qp)
		KUNIT_EXPECT_EQ(test, ib_destroy_qp(user->qp), 0);
	ib_destroy_srq(user->ibsrq);
	ib_destroy_cq(user->cq);
	ib_dealloc_pd(user->pd);
	KUNIT_EXPECT_TRUE(test, xa_empty(&user->mdev->srqs));
}

static int srq_post(struct srq_user *user, u64 wr_id)
{
	struct ib_recv_wr wr = { .wr_id = wr_id };
	const struct ib_recv_wr *bad;

	return ib_post_srq_recv(user->ibsrq, &wr, &bad);
}

/* The device ends the WQE that is posted at @index now, as entry @number. */
static void srq_end(struct srq_user *user, u32 index, u64 number)
{
	struct moor_kernel_cq *kcq = &to_mcq(user->cq)->kernel;
	struct moor_cqe *ring = moor_kernel_ring_at(&kcq->ring, 0);

	ring[user->written & (BIT(kcq->log_cqe) - 1)] = (struct moor_cqe){
		.wr_id = cpu_to_le64(number),
		.qpn = cpu_to_le32(user->qp->qp_num),
		.wqe_index = cpu_to_le32(index),
		.opcode = MOOR_CQE_RECV,
		.phase = cpu_to_le32(!((user->written >> kcq->log_cqe) & 1)),
	};
	user->written++;
}

static u64 srq_number(struct srq_user *user, u32 index)
{
	struct moor_kernel_srq *ksrq = &user->srq->kernel;
	struct moor_rq_wqe *wqe =
		moor_kernel_ring_at(&ksrq->ring,
				    (index & ksrq->mask) << ksrq->log_stride);

	return le64_to_cpu(wqe->wr_id);
}

/* Receives end in another order than they were posted in; slots come round meanwhile. */
static void srq_order(struct kunit *test)
{
	struct srq_user *user = srq_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_kernel_slot *slot = &user->srq->kernel.slot;
	u64 numbers[DEPTH];
	struct ib_wc wc;
	u32 i;

	for (i = 0; i < DEPTH; i++) {
		KUNIT_EXPECT_EQ(test, srq_post(user, 100 + i), 0);
		numbers[i] = srq_number(user, i);
	}
	KUNIT_EXPECT_EQ(test, srq_post(user, 99), -ENOMEM);
	KUNIT_EXPECT_EQ(test, nic->slots[slot->page->index *
					 MOOR_DB_SLOTS_PER_PAGE + slot->number],
			DEPTH);
	/* The last first: the slot of WQE 0 is written again before WQE 0 ends. */
	for (i = DEPTH; --i; ) {
		srq_end(user, i, numbers[i]);
		KUNIT_ASSERT_EQ(test, ib_poll_cq(user->cq, 1, &wc), 1);
		KUNIT_EXPECT_EQ(test, wc.wr_id, 100 + i);
		KUNIT_EXPECT_EQ(test, srq_post(user, 200 + i), 0);
		KUNIT_EXPECT_EQ(test, srq_post(user, 99), -ENOMEM);
	}
	srq_end(user, 0, numbers[0]);
	KUNIT_ASSERT_EQ(test, ib_poll_cq(user->cq, 1, &wc), 1);
	KUNIT_EXPECT_EQ(test, wc.wr_id, 100);
	KUNIT_EXPECT_EQ(test, srq_post(user, 200), 0);
	KUNIT_EXPECT_EQ(test, srq_post(user, 99), -ENOMEM);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(user->mdev));
	/* A WQE whose CQE is not polled comes free with the queue pair. */
	srq_end(user, DEPTH, srq_number(user, DEPTH));
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(user->qp), 0);
	user->qp = NULL;
	KUNIT_EXPECT_EQ(test, srq_post(user, 300), 0);
	KUNIT_EXPECT_EQ(test, srq_post(user, 99), -ENOMEM);
	srq_close(test, user);
}

/* A CQE for a WQE that is not posted, has ended, or is another one, is a lie. */
static void srq_lies(struct kunit *test)
{
	static const struct { u32 index; u64 number; } lies[] = {
		{ 0, DEPTH }, { 0, 1 }, { 1, 0 }, { 0, ~0ULL },
	};
	struct srq_user *user = srq_open(test);
	struct moor_posted posted = {};
	u32 i;

	KUNIT_EXPECT_EQ(test, srq_post(user, 7), 0);
	KUNIT_ASSERT_EQ(test, srq_number(user, 0), 0);
	for (i = 0; i < ARRAY_SIZE(lies); i++) {
		struct moor_cqe cqe = {
			.wr_id = cpu_to_le64(lies[i].number),
			.wqe_index = cpu_to_le32(lies[i].index),
		};

		KUNIT_EXPECT_FALSE(test, moor_srq_complete(user->srq, &cqe,
							   &posted));
	}
	KUNIT_EXPECT_TRUE(test, moor_srq_complete(user->srq,
						  &(struct moor_cqe){}, &posted));
	KUNIT_EXPECT_EQ(test, posted.wr_id, 7);
	KUNIT_EXPECT_EQ(test, posted.room, 0);
	KUNIT_EXPECT_FALSE(test, moor_srq_complete(user->srq,
						   &(struct moor_cqe){}, &posted));
	srq_close(test, user);
}

static void srq_to_err(struct kunit *test, struct srq_user *user)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .port_num = 1 };

	KUNIT_ASSERT_EQ(test, ib_modify_qp(user->qp, &attr, IB_QP_STATE |
					   IB_QP_PKEY_INDEX | IB_QP_PORT |
					   IB_QP_ACCESS_FLAGS), 0);
	attr.qp_state = IB_QPS_ERR;
	KUNIT_ASSERT_EQ(test, ib_modify_qp(user->qp, &attr, IB_QP_STATE), 0);
}

static void srq_events_come(struct kunit *test)
{
	struct srq_user *user = srq_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	u32 srqn = user->srq->srqn;

	fake_nic_event(nic, MOOR_EQ_ASYNC, MOOR_EVENT_SRQ_LIMIT, srqn);
	moor_kunit_wait(test, READ_ONCE(user->srq_events) == 1);
	KUNIT_EXPECT_EQ(test, user->srq_event, IB_EVENT_SRQ_LIMIT_REACHED);
	fake_nic_event(nic, MOOR_EQ_ASYNC, MOOR_EVENT_SRQ_ERROR, srqn);
	moor_kunit_wait(test, READ_ONCE(user->srq_events) == 2);
	KUNIT_EXPECT_EQ(test, user->srq_event, IB_EVENT_SRQ_ERR);
	/* Another SRQ of the same index, as of an earlier one: dropped. */
	fake_nic_event(nic, MOOR_EQ_ASYNC, MOOR_EVENT_SRQ_LIMIT,
		       srqn ^ 1 << FAKE_SRQ_INDEX_BITS);
	srq_to_err(test, user);
	fake_nic_event(nic, MOOR_EQ_ASYNC, MOOR_EVENT_LAST_WQE, user->qp->qp_num);
	moor_kunit_wait(test, READ_ONCE(user->qp_events) == 1);
	KUNIT_EXPECT_EQ(test, user->qp_event, IB_EVENT_QP_LAST_WQE_REACHED);
	KUNIT_EXPECT_EQ(test, user->srq_events, 2);
	/* It comes once, whatever the device says. */
	fake_nic_event(nic, MOOR_EQ_ASYNC, MOOR_EVENT_LAST_WQE, user->qp->qp_num);
	fake_nic_event(nic, MOOR_EQ_ASYNC, MOOR_EVENT_SRQ_LIMIT, srqn);
	moor_kunit_wait(test, READ_ONCE(user->srq_events) == 3);
	KUNIT_EXPECT_EQ(test, user->qp_events, 1);
	/* The device has sent the event: its death does not cause it again. */
	moor_hw_kill(user->mdev, NULL);
	flush_work(&to_mqp(user->qp)->kernel.last_wqe);
	KUNIT_EXPECT_EQ(test, user->qp_events, 1);
	srq_close(test, user);
}

/* The device dies while the core makes a queue pair, which its user does not know yet. */
static void srq_dead_early(struct kunit *test)
{
	struct srq_user *user = srq_open(test);

	moor_hw_kill(user->mdev, NULL);
	flush_work(&to_mqp(user->qp)->kernel.last_wqe);
	KUNIT_EXPECT_EQ(test, user->qp_events, 0);
	/* The queue pair was just leaving RESET, and is drained afterwards. */
	WRITE_ONCE(to_mqp(user->qp)->left_reset, true);
	to_mqp(user->qp)->attr.qp_state = IB_QPS_INIT;
	KUNIT_EXPECT_EQ(test, ib_modify_qp(user->qp, &(struct ib_qp_attr){
					   .qp_state = IB_QPS_ERR }, IB_QP_STATE), 0);
	flush_work(&to_mqp(user->qp)->kernel.last_wqe);
	KUNIT_EXPECT_EQ(test, user->qp_events, 1);
	srq_close(test, user);
}

/* The room of a receive is known, so that a false length in its CQE is noticed. */
static void srq_room(struct kunit *test)
{
	struct srq_user *user = srq_open(test);
	struct ib_sge sge = { .length = 100 };
	struct ib_recv_wr wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1 };
	struct moor_posted posted = {};

	KUNIT_ASSERT_EQ(test, ib_post_srq_recv(user->ibsrq, &wr, NULL), 0);
	KUNIT_ASSERT_EQ(test, srq_number(user, 0), 0);
	KUNIT_EXPECT_TRUE(test, moor_srq_complete(user->srq,
						  &(struct moor_cqe){}, &posted));
	KUNIT_EXPECT_EQ(test, posted.room, 100);
	srq_close(test, user);
}

static void srq_changes(struct kunit *test)
{
	struct srq_user *user = srq_open(test);
	struct ib_srq_attr attr = { .srq_limit = DEPTH };

	KUNIT_EXPECT_EQ(test, ib_modify_srq(user->ibsrq, &attr, IB_SRQ_LIMIT), 0);
	attr = (struct ib_srq_attr){};
	KUNIT_EXPECT_EQ(test, ib_query_srq(user->ibsrq, &attr), 0);
	KUNIT_EXPECT_EQ(test, attr.srq_limit, DEPTH);
	KUNIT_EXPECT_EQ(test, attr.max_wr, DEPTH);
	KUNIT_EXPECT_EQ(test, attr.max_sge, 1);
	attr.srq_limit = DEPTH + 1;
	KUNIT_EXPECT_EQ(test, ib_modify_srq(user->ibsrq, &attr, IB_SRQ_LIMIT), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_modify_srq(user->ibsrq, &attr, IB_SRQ_MAX_WR),
			-EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, ib_modify_srq(user->ibsrq, &attr, 1 << 5), -EINVAL);
	srq_close(test, user);
}

/* A user that drains a queue pair of a dead device gets the event that it waits for. */
static void srq_dead(struct kunit *test)
{
	struct srq_user *user = srq_open(test);
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };

	srq_to_err(test, user);
	fake_nic_event(moor_kunit_nic(), MOOR_EQ_ASYNC, MOOR_EVENT_LAST_WQE,
		       user->qp->qp_num);
	moor_kunit_wait(test, READ_ONCE(user->qp_events) == 1);
	KUNIT_ASSERT_EQ(test, ib_modify_qp(user->qp, &attr, IB_QP_STATE), 0);
	/* After RESET, the drain waits for an event that a dead device cannot send. */
	srq_to_err(test, user);
	KUNIT_EXPECT_EQ(test, user->qp_events, 1);
	user->slow = true;
	moor_hw_kill(user->mdev, NULL);
	moor_kunit_wait(test, READ_ONCE(user->qp_events) == 2);
	KUNIT_EXPECT_EQ(test, srq_post(user, 1), 0);
	attr.qp_state = IB_QPS_ERR;
	KUNIT_EXPECT_EQ(test, ib_modify_qp(user->qp, &attr, IB_QP_STATE), 0);
	/* Destroying the queue pair waits for the user's handler. */
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(user->qp), 0);
	user->qp = NULL;
	KUNIT_EXPECT_EQ(test, READ_ONCE(user->qp_told), 2);
	KUNIT_EXPECT_EQ(test, user->qp_event, IB_EVENT_QP_LAST_WQE_REACHED);
	KUNIT_EXPECT_PTR_NE(test, user->qp_teller, current);
	srq_close(test, user);
}

static void srq_absent(struct kunit *test)
{
	struct moor_dev *mdev = moor_kunit_replug(test, MOOR_FEATURE_SRQ);

	KUNIT_EXPECT_EQ(test, mdev->ibdev.attrs.max_srq, 0);
	KUNIT_EXPECT_NULL(test, mdev->ibdev.ops.create_srq);
}

static struct kunit_case srq_cases[] = {
	KUNIT_CASE_PARAM(srq_input, srq_case_gen_params),
	KUNIT_CASE(srq_order),
	KUNIT_CASE(srq_lies),
	KUNIT_CASE(srq_events_come),
	KUNIT_CASE(srq_changes),
	KUNIT_CASE(srq_room),
	KUNIT_CASE(srq_dead),
	KUNIT_CASE(srq_dead_early),
	KUNIT_CASE(srq_absent),
	{}
};

static struct kunit_suite srq_suite = {
	.name = "moor_srq",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = srq_cases,
};

kunit_test_suite(srq_suite);
