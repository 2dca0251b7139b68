// SPDX-License-Identifier: GPL-2.0
/*
 * A NIC that names objects in events while they are being made. If the creation fails,
 * the core frees the object, but not the events that it has queued for a process: so
 * events of an object are dropped as long as its creation may fail.
 */

#include "harness.h"

#define RING_BYTES	(64 * 1024)

static u32 heard;

static void hear_completion(struct ib_cq *cq, void *context)
{
	heard++;
}

static void hear_event(struct ib_event *event, void *context)
{
	heard++;
}

/* Send all kinds of events of an object before the answer to its creation. */
static void speak_early(struct fake_nic *nic, const struct moor_cmd *cmd,
			struct moor_cpl *answer)
{
	u32 number;

	switch (cmd->hdr.opcode) {
	case MOOR_CMD_CREATE_CQ:
		number = le32_to_cpu(((const struct moor_cmd_create_cq *)cmd)->cqn);
		fake_nic_event(nic, MOOR_EQ_COMPLETION, MOOR_EVENT_COMPLETION,
			       number);
		fake_nic_event(nic, MOOR_EQ_ASYNC, MOOR_EVENT_CQ_ERROR, number);
		break;
	case MOOR_CMD_CREATE_SRQ:
		number = le32_to_cpu(((const struct moor_cmd_create_srq *)cmd)->srqn);
		fake_nic_event(nic, MOOR_EQ_ASYNC, MOOR_EVENT_SRQ_LIMIT, number);
		fake_nic_event(nic, MOOR_EQ_ASYNC, MOOR_EVENT_SRQ_ERROR, number);
		break;
	}
}

static u64 events_handled(const struct fake_nic *nic)
{
	const u64 *slots = nic->slots;

	return READ_ONCE(slots[MOOR_DB_SLOT_EQ_CONSUMER + MOOR_EQ_ASYNC]) +
	       READ_ONCE(slots[MOOR_DB_SLOT_EQ_CONSUMER + MOOR_EQ_COMPLETION]);
}

/* How the creation ends. */
struct unborn_case {
	const char *name;
	u8 status;		/* of the command */
	bool fault;		/* the answer cannot be copied to the process */
	int err;
};

static const struct unborn_case unborn_cases_table[] = {
	{ "refused", MOOR_CMD_NO_RESOURCE, false, -ENOMEM },
	{ "not answered", 0, true, -EFAULT },
	{ "made", 0, false, 0 },
};

static void unborn_desc(const struct unborn_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(unborn, unborn_cases_table, unborn_desc);

static void begin(const struct unborn_case *c, u8 opcode, struct ib_udata *udata)
{
	struct fake_nic *nic = moor_kunit_nic();

	heard = 0;
	nic->behave.fail_opcode = opcode;
	nic->behave.fail_status = c->status;
	if (c->fault)
		udata->outbuf = (void __user *)16UL;
	WRITE_ONCE(nic->behave.lie, speak_early);
}

/* Both events have been handled, and reached no handler. */
static void end(struct kunit *test, u64 before)
{
	struct fake_nic *nic = moor_kunit_nic();

	WRITE_ONCE(nic->behave.lie, NULL);
	nic->behave.fail_status = 0;
	moor_kunit_wait(test, events_handled(nic) == before + 2);
	KUNIT_EXPECT_EQ(test, heard, 0);
}

static void unborn_cq(struct kunit *test)
{
	const struct unborn_case *c = test->param_value;
	struct moor_cq *cq = kunit_kzalloc(test, sizeof(*cq), GFP_KERNEL);
	u64 before = events_handled(moor_kunit_nic());
	struct moor_user *user = moor_user_open(test);
	struct ib_cq_init_attr attr = { .cqe = 256 };
	struct moor_create_cq_req req = {
		.ring_addr = moor_kunit_mmap(test, RING_BYTES, true),
		.log_cqe = 8,
	};
	struct ib_udata *udata;

	KUNIT_ASSERT_NOT_NULL(test, cq);
	cq->ibcq.device = &user->mdev->ibdev;
	cq->ibcq.comp_handler = hear_completion;
	cq->ibcq.event_handler = hear_event;
	udata = moor_user_udata(test, user, &req, sizeof(req),
				sizeof(struct moor_create_cq_resp));
	begin(c, MOOR_CMD_CREATE_CQ, udata);
	KUNIT_EXPECT_EQ(test, moor_create_cq(&cq->ibcq, &attr, &user->attrs), c->err);
	end(test, before);
	if (!c->err) {
		fake_nic_event(moor_kunit_nic(), MOOR_EQ_ASYNC, MOOR_EVENT_CQ_ERROR,
			       cq->cqn);
		moor_kunit_wait(test, heard == 1);
		KUNIT_EXPECT_EQ(test, moor_destroy_cq(&cq->ibcq, NULL), 0);
	}
	KUNIT_EXPECT_TRUE(test, xa_empty(&user->mdev->cqs));
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_user_close(test, user);
}

static void unborn_srq(struct kunit *test)
{
	const struct unborn_case *c = test->param_value;
	struct moor_srq *srq = kunit_kzalloc(test, sizeof(*srq), GFP_KERNEL);
	u64 before = events_handled(moor_kunit_nic());
	struct moor_user *user = moor_user_open(test);
	struct ib_pd *pd = moor_kunit_pd(test);
	struct ib_srq_init_attr attr = {
		.attr = { .max_wr = 16, .max_sge = 1 },
		.srq_type = IB_SRQT_BASIC,
	};
	struct moor_create_srq_req req = {
		.ring_addr = moor_kunit_mmap(test, RING_BYTES, true),
		.log_depth = 4,
		.log_stride = 5,
	};
	struct ib_udata *udata;

	KUNIT_ASSERT_NOT_NULL(test, srq);
	srq->ibsrq.device = &user->mdev->ibdev;
	srq->ibsrq.pd = pd;
	srq->ibsrq.event_handler = hear_event;
	udata = moor_user_udata(test, user, &req, sizeof(req),
				sizeof(struct moor_create_srq_resp));
	begin(c, MOOR_CMD_CREATE_SRQ, udata);
	KUNIT_EXPECT_EQ(test, moor_create_srq(&srq->ibsrq, &attr, udata), c->err);
	end(test, before);
	if (!c->err) {
		fake_nic_event(moor_kunit_nic(), MOOR_EQ_ASYNC, MOOR_EVENT_SRQ_LIMIT,
			       srq->srqn);
		moor_kunit_wait(test, heard == 1);
		KUNIT_EXPECT_EQ(test, moor_destroy_srq(&srq->ibsrq, NULL), 0);
	}
	KUNIT_EXPECT_TRUE(test, xa_empty(&user->mdev->srqs));
	moor_kunit_pd_free(test, pd);
	moor_user_close(test, user);
}

static struct kunit_case unborn_cases[] = {
	KUNIT_CASE_PARAM(unborn_cq, unborn_gen_params),
	KUNIT_CASE_PARAM(unborn_srq, unborn_gen_params),
	{}
};

static struct kunit_suite unborn_suite = {
	.name = "moor_unborn",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = unborn_cases,
};

kunit_test_suite(unborn_suite);
