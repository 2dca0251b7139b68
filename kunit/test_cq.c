// SPDX-License-Identifier: GPL-2.0
/* Completion queues in a process's memory. */

#include <linux/uaccess.h>

#include "harness.h"

#define RING_BYTES	(64 * 1024)

/* Make a CQ as uverbs would. */
static int cq_create(struct kunit *test, struct moor_user *user,
		     struct moor_cq *cq, const void *in, size_t in_len,
		     struct ib_cq_init_attr *attr)
{
	moor_user_udata(test, user, in, in_len,
			sizeof(struct moor_create_cq_resp));
	memset(cq, 0, sizeof(*cq));
	cq->ibcq.device = &user->mdev->ibdev;
	return moor_create_cq(&cq->ibcq, attr, &user->attrs);
}

static void cq_life(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_cq *cq = moor_kunit_cq(test, user);
	struct moor_create_cq_resp resp;

	moor_user_answer(test, user, &resp, sizeof(resp));
	KUNIT_EXPECT_EQ(test, resp.cqn, cq->cqn);
	KUNIT_EXPECT_EQ(test, resp.reserved, 0);
	KUNIT_EXPECT_EQ(test, cq->ibcq.cqe, 256);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 4);
	KUNIT_EXPECT_TRUE(test, test_bit(cq->cqn, nic->cqs));
	KUNIT_EXPECT_EQ(test, moor_destroy_cq(&cq->ibcq, NULL), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_user_close(test, user);
}

struct cq_case {
	const char *name;
	struct moor_create_cq_req req;	/* its ring_addr is relative */
	unsigned int cqe;
	u32 flags;
	size_t cut;			/* bytes missing from the request */
	int err;
};

static const struct cq_case cq_bad[] = {
	{ "smallest", { 0, 1 }, 1, 0, 0, 0 },
	{ "timestamps", { 0, 4 }, 16, IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION, 0, 0 },
	{ "unknown flag", { 0, 4 }, 16, 1U << 31, 0, -EOPNOTSUPP },
	{ "log_cqe 0", { 0, 0 }, 1, 0, 0, -EINVAL },
	{ "log_cqe beyond the device's", { 0, 17 }, 16, 0, 0, -EINVAL },
	{ "log_cqe 255", { 0, 255 }, 16, 0, 0, -EINVAL },
	{ "more entries than the ring", { 0, 4 }, 17, 0, 0, -EINVAL },
	{ "no entries", { 0, 4 }, 0, 0, 0, -EINVAL },
	{ "ring not page-aligned", { 64, 4 }, 16, 0, 0, -EINVAL },
	{ "reserved", { 0, 4, { [6] = 1 } }, 16, 0, 0, -EINVAL },
	{ "request too short", { 0, 4 }, 16, 0, 8, -EINVAL },
	{ "ring not mapped", { 0x100000000000, 4 }, 16, 0, 0, -EFAULT },
	{ "ring longer than memory", { 0, 16 }, 16, 0, 0, -EFAULT },
};

static void cq_case_desc(const struct cq_case *c, char *desc)
{
	strscpy(desc, c->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(cq_bad, cq_bad, cq_case_desc);

static void cq_input(struct kunit *test)
{
	const struct cq_case *c = test->param_value;
	struct ib_cq_init_attr attr = { .cqe = c->cqe, .flags = c->flags };
	struct moor_cq *cq = kunit_kzalloc(test, sizeof(*cq), GFP_KERNEL);
	struct moor_user *user = moor_user_open(test);
	struct moor_create_cq_req req = c->req;
	int err;

	KUNIT_ASSERT_NOT_NULL(test, cq);
	/* One page is mapped there, and nothing behind it. */
	req.ring_addr += moor_kunit_mmap(test, PAGE_SIZE, true);
	err = cq_create(test, user, cq, &req, sizeof(req) - c->cut, &attr);
	KUNIT_EXPECT_EQ(test, err, c->err);
	if (!err)
		KUNIT_EXPECT_EQ(test, moor_destroy_cq(&cq->ibcq, NULL), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	KUNIT_EXPECT_TRUE(test, xa_empty(&user->mdev->cqs));
	moor_user_close(test, user);
}

/* The device refuses a CQ: everything is undone, and the next CQ works. */
static void cq_refused(struct kunit *test)
{
	struct moor_cq *cq = kunit_kzalloc(test, sizeof(*cq), GFP_KERNEL);
	struct moor_user *user = moor_user_open(test);
	struct ib_cq_init_attr attr = { .cqe = 256 };
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_create_cq_req req = {
		.ring_addr = moor_kunit_mmap(test, RING_BYTES, true),
		.log_cqe = 8,
	};

	KUNIT_ASSERT_NOT_NULL(test, cq);
	nic->behave.fail_opcode = MOOR_CMD_CREATE_CQ;
	nic->behave.fail_status = MOOR_CMD_NO_RESOURCE;
	KUNIT_EXPECT_EQ(test, cq_create(test, user, cq, &req, sizeof(req),
					&attr), -ENOMEM);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	KUNIT_EXPECT_TRUE(test, xa_empty(&user->mdev->cqs));
	nic->behave.fail_status = 0;
	cq = moor_kunit_cq(test, user);

	/* A device that refuses to destroy a CQ is stopped; then the pages may go. */
	nic->behave.fail_opcode = MOOR_CMD_DESTROY_CQ;
	nic->behave.fail_status = MOOR_CMD_BUSY;
	KUNIT_EXPECT_EQ(test, moor_destroy_cq(&cq->ibcq, NULL), 0);
	nic->behave.fail_status = 0;
	KUNIT_EXPECT_TRUE(test, moor_is_dead(user->mdev));
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_user_close(test, user);
}

/* If the answer cannot be copied to the process, the CQ is destroyed. */
static void cq_answer_fault(struct kunit *test)
{
	struct moor_cq *cq = kunit_kzalloc(test, sizeof(*cq), GFP_KERNEL);
	struct moor_user *user = moor_user_open(test);
	struct ib_cq_init_attr attr = { .cqe = 256 };
	struct moor_create_cq_req req = {
		.ring_addr = moor_kunit_mmap(test, RING_BYTES, true),
		.log_cqe = 8,
	};
	struct ib_udata *udata;

	KUNIT_ASSERT_NOT_NULL(test, cq);
	udata = moor_user_udata(test, user, &req, sizeof(req), 32);
	udata->outbuf = (void __user *)16UL;
	cq->ibcq.device = &user->mdev->ibdev;
	KUNIT_EXPECT_EQ(test, moor_create_cq(&cq->ibcq, &attr, &user->attrs),
			-EFAULT);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	KUNIT_EXPECT_TRUE(test, xa_empty(&user->mdev->cqs));
	moor_user_close(test, user);
}

static void cq_resize(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_cq *cq = moor_kunit_cq(test, user);
	struct moor_resize_cq_req req = {
		.ring_addr = moor_kunit_mmap(test, RING_BYTES, true),
		.log_cqe = 10,
	};
	struct ib_udata *udata;
	u64 answer[2];

	udata = moor_user_udata(test, user, &req, sizeof(req), 8);
	KUNIT_EXPECT_EQ(test, moor_resize_cq(&cq->ibcq, 1000, udata), 0);
	KUNIT_EXPECT_EQ(test, cq->ibcq.cqe, 1024);
	/* There is no answer: a provider that expects one reads zeros. */
	moor_user_answer(test, user, answer, sizeof(answer));
	KUNIT_EXPECT_EQ(test, answer[0], 0);
	KUNIT_EXPECT_EQ(test, answer[1], 0xaaaaaaaaaaaaaaaa);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 16);

	/* The device refuses: the old ring stays, the new ring is unpinned. */
	nic->behave.fail_opcode = MOOR_CMD_RESIZE_CQ;
	nic->behave.fail_status = MOOR_CMD_BAD_PARAM;
	req.log_cqe = 8;
	udata = moor_user_udata(test, user, &req, sizeof(req), 0);
	KUNIT_EXPECT_EQ(test, moor_resize_cq(&cq->ibcq, 256, udata), -EINVAL);
	KUNIT_EXPECT_EQ(test, cq->ibcq.cqe, 1024);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 16);
	req.reserved[0] = 1;
	udata = moor_user_udata(test, user, &req, sizeof(req), 0);
	KUNIT_EXPECT_EQ(test, moor_resize_cq(&cq->ibcq, 256, udata), -EINVAL);
	KUNIT_EXPECT_EQ(test, moor_destroy_cq(&cq->ibcq, NULL), 0);
	KUNIT_EXPECT_EQ(test, moor_kunit_pinned(), 0);
	moor_user_close(test, user);
}

static void cq_moderation(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_cq *cq = moor_kunit_cq(test, user);
	struct ib_device *ibdev = &user->mdev->ibdev;

	KUNIT_EXPECT_EQ(test, ibdev->attrs.cq_caps.max_cq_moderation_count,
			U16_MAX);
	KUNIT_EXPECT_EQ(test, ibdev->attrs.cq_caps.max_cq_moderation_period,
			U16_MAX);
	KUNIT_EXPECT_TRUE(test, ibdev->use_cq_dim);
	KUNIT_ASSERT_NOT_NULL(test, ibdev->ops.modify_cq);
	KUNIT_EXPECT_EQ(test, rdma_set_cq_moderation(&cq->ibcq, 0x1234, 0xabcd), 0);
	KUNIT_EXPECT_EQ(test, nic->moderation.cqn, cq->cqn);
	KUNIT_EXPECT_EQ(test, nic->moderation.count, 0x1234);
	KUNIT_EXPECT_EQ(test, nic->moderation.period, 0xabcd);

	nic->behave.fail_opcode = MOOR_CMD_MODIFY_CQ;
	nic->behave.fail_status = MOOR_CMD_BAD_PARAM;
	KUNIT_EXPECT_EQ(test, rdma_set_cq_moderation(&cq->ibcq, 1, 1), -EINVAL);
	nic->behave.fail_status = 0;
	moor_hw_kill(user->mdev, "a case asked for it");
	KUNIT_EXPECT_EQ(test, rdma_set_cq_moderation(&cq->ibcq, 1, 1), -EIO);
	KUNIT_EXPECT_EQ(test, moor_destroy_cq(&cq->ibcq, NULL), 0);
	moor_user_close(test, user);
}

/* A device without moderation: the driver does not offer it. */
static void cq_no_moderation(struct kunit *test)
{
	struct moor_dev *mdev = moor_kunit_replug(test, MOOR_FEATURE_CQ_MODERATION);

	KUNIT_EXPECT_EQ(test, mdev->ibdev.attrs.cq_caps.max_cq_moderation_count, 0);
	KUNIT_EXPECT_EQ(test, mdev->ibdev.attrs.cq_caps.max_cq_moderation_period, 0);
	KUNIT_EXPECT_FALSE(test, mdev->ibdev.use_cq_dim);
	KUNIT_EXPECT_NULL(test, mdev->ibdev.ops.modify_cq);
}

static void count_completion(struct ib_cq *cq, void *context)
{
	atomic_inc(context);
}

/* A completion event reaches its CQ; an event for a destroyed CQ is dropped. */
static void cq_event(struct kunit *test)
{
	struct moor_user *user = moor_user_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	struct moor_cq *cq = moor_kunit_cq(test, user);
	u64 *seen = &nic->slots[MOOR_DB_SLOT_EQ_CONSUMER + MOOR_EQ_COMPLETION];
	u32 cqn = cq->cqn, i;
	atomic_t count = ATOMIC_INIT(0);

	cq->ibcq.comp_handler = count_completion;
	cq->ibcq.cq_context = &count;
	/* Twice around the EQ. */
	for (i = 1; i <= 600; i++) {
		fake_nic_event(nic, MOOR_EQ_COMPLETION, MOOR_EVENT_COMPLETION,
			       cqn);
		moor_kunit_wait(test, READ_ONCE(*seen) == i);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&count), 600);
	KUNIT_EXPECT_EQ(test, moor_destroy_cq(&cq->ibcq, NULL), 0);
	fake_nic_event(nic, MOOR_EQ_COMPLETION, MOOR_EVENT_COMPLETION, cqn);
	fake_nic_event(nic, MOOR_EQ_COMPLETION, MOOR_EVENT_COMPLETION, ~0U);
	moor_kunit_wait(test, READ_ONCE(*seen) == 602);
	KUNIT_EXPECT_EQ(test, atomic_read(&count), 600);
	moor_user_close(test, user);
}

static struct kunit_case cq_cases[] = {
	KUNIT_CASE(cq_life),
	KUNIT_CASE_PARAM(cq_input, cq_bad_gen_params),
	KUNIT_CASE(cq_refused),
	KUNIT_CASE(cq_answer_fault),
	KUNIT_CASE(cq_resize),
	KUNIT_CASE(cq_moderation),
	KUNIT_CASE(cq_no_moderation),
	KUNIT_CASE(cq_event),
	{}
};

static struct kunit_suite cq_suite = {
	.name = "moor_cq",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = cq_cases,
};

kunit_test_suite(cq_suite);
