// SPDX-License-Identifier: GPL-2.0
/*
 * When completion handlers of kernel users are called: for events, true and false ones,
 * and by the driver when the device is dead.
 */

#include <linux/delay.h>

#include "harness.h"

#define DEPTH	8

/* A CQ, and how often its handler was called; @within: in the user's own task. */
struct told_cq {
	struct moor_cq *cq;
	struct task_struct *user;
	int told;
	int within;
};

/* A queue pair of a kernel user, with a CQ for sends and another for receives. */
struct told_user {
	struct moor_dev *mdev;
	struct ib_pd *pd;
	struct told_cq send;
	struct told_cq recv;
	struct ib_qp *qp;
};

static void tell(struct ib_cq *cq, void *context)
{
	struct told_cq *told = context;

	told->told++;
	told->within += current == told->user;
}

static void cq_open(struct kunit *test, struct told_cq *told)
{
	struct moor_dev *mdev = test->priv;
	struct ib_cq_init_attr attr = { .cqe = 2 * DEPTH };
	struct ib_cq *cq = ib_create_cq(&mdev->ibdev, tell, NULL, told, &attr);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq);
	told->cq = to_mcq(cq);
	told->user = current;
}

/* Calls of the handler, after a pending work has run. */
static int times_told(struct told_cq *told)
{
	flush_work(&told->cq->kernel.wake);
	return told->told;
}

static void add_qp(struct kunit *test, struct told_user *user)
{
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.send_cq = &user->send.cq->ibcq,
		.recv_cq = &user->recv.cq->ibcq,
		.cap = { DEPTH, DEPTH, 1, 1, 0 },
		.sq_sig_type = IB_SIGNAL_REQ_WR,
	};

	user->qp = ib_create_qp(user->pd, &attr);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, user->qp);
}

static void remove_qp(struct kunit *test, struct told_user *user)
{
	KUNIT_EXPECT_EQ(test, ib_destroy_qp(user->qp), 0);
}

static struct told_user *told_open(struct kunit *test)
{
	struct told_user *user = kunit_kzalloc(test, sizeof(*user), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, user);
	user->mdev = test->priv;
	user->pd = ib_alloc_pd(&user->mdev->ibdev, 0);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, user->pd);
	cq_open(test, &user->send);
	cq_open(test, &user->recv);
	add_qp(test, user);
	return user;
}

/* The user's queue pair has been removed. */
static void told_close(struct told_user *user)
{
	ib_destroy_cq(&user->recv.cq->ibcq);
	ib_destroy_cq(&user->send.cq->ibcq);
	ib_dealloc_pd(user->pd);
}

static void post_sends(struct kunit *test, struct told_user *user, u32 count,
		       u64 wr_id)
{
	struct ib_send_wr wr = { .opcode = IB_WR_SEND };

	for (; count; count--) {
		wr.wr_id = wr_id++;
		KUNIT_ASSERT_EQ(test, ib_post_send(user->qp, &wr, NULL), 0);
	}
}

static void arm(struct told_cq *told)
{
	ib_req_notify_cq(&told->cq->ibcq, IB_CQ_NEXT_COMP);
}

/* Are there completions to poll for which no event will come? */
static int missed(struct told_cq *told)
{
	return ib_req_notify_cq(&told->cq->ibcq, IB_CQ_NEXT_COMP |
				IB_CQ_REPORT_MISSED_EVENTS);
}

/* So many flushed completions, in their order, and nothing else. */
static void expect_flushed(struct kunit *test, struct told_cq *told, int count,
			   u64 wr_id)
{
	struct ib_wc wc[DEPTH];
	int n = ib_poll_cq(&told->cq->ibcq, DEPTH, wc);

	KUNIT_ASSERT_EQ(test, n, count);
	while (n--) {
		KUNIT_EXPECT_EQ(test, wc[n].status, IB_WC_WR_FLUSH_ERR);
		KUNIT_EXPECT_EQ(test, wc[n].wr_id, wr_id + n);
	}
}

/* All work requests are flushed, each to its CQ, and armed handlers are called. */
static void told_dead(struct kunit *test)
{
	struct told_user *user = told_open(test);
	struct ib_recv_wr recv = { .wr_id = 70 };
	struct ib_wc wc[DEPTH];

	post_sends(test, user, 3, 10);
	ib_post_recv(user->qp, &recv, NULL);
	arm(&user->send);
	arm(&user->recv);
	moor_hw_kill(user->mdev, "a case asked for it");
	KUNIT_EXPECT_EQ(test, times_told(&user->send), 1);
	KUNIT_EXPECT_EQ(test, times_told(&user->recv), 1);
	KUNIT_EXPECT_EQ(test, missed(&user->recv), 1);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(&user->recv.cq->ibcq, DEPTH, wc), 1);
	KUNIT_EXPECT_EQ(test, wc->status, IB_WC_WR_FLUSH_ERR);
	KUNIT_EXPECT_EQ(test, wc->wr_id, 70);
	/* Completions of the other CQ do not count here. */
	KUNIT_EXPECT_EQ(test, missed(&user->recv), 0);
	KUNIT_EXPECT_EQ(test, missed(&user->send), 1);
	expect_flushed(test, &user->send, 3, 10);
	KUNIT_EXPECT_EQ(test, missed(&user->send), 0);
	/* Later work requests are flushed, too. */
	post_sends(test, user, 1, 20);
	KUNIT_EXPECT_EQ(test, times_told(&user->send), 2);
	KUNIT_EXPECT_EQ(test, times_told(&user->recv), 1);
	KUNIT_EXPECT_EQ(test, missed(&user->recv), 0);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(&user->send.cq->ibcq, DEPTH, wc), 1);
	KUNIT_EXPECT_EQ(test, user->send.within, 0);
	KUNIT_EXPECT_EQ(test, user->recv.within, 0);
	remove_qp(test, user);
	told_close(user);
}

/* A device that dozed when it died is not kicked: its BARs are not touched any more. */
static void told_dozing(struct kunit *test)
{
	struct told_user *user = told_open(test);
	struct fake_nic *nic = moor_kunit_nic();
	u32 kicks;

	arm(&user->send);
	moor_hw_kill(user->mdev, "a case asked for it");
	KUNIT_EXPECT_EQ(test, times_told(&user->send), 1);
	arm(&user->send);
	kicks = nic->kicks;
	WRITE_ONCE(*user->mdev->doze, cpu_to_le32(1));
	post_sends(test, user, 1, 10);
	KUNIT_EXPECT_EQ(test, nic->kicks, kicks);
	KUNIT_EXPECT_EQ(test, times_told(&user->send), 2);
	remove_qp(test, user);
	told_close(user);
}

static void send_event_of(struct kunit *test, u32 eqn, u8 type, u32 number)
{
	struct fake_nic *nic = moor_kunit_nic();
	u64 *seen = &nic->slots[MOOR_DB_SLOT_EQ_CONSUMER + eqn];
	u64 before = READ_ONCE(*seen);

	fake_nic_event(nic, eqn, type, number);
	moor_kunit_wait(test, READ_ONCE(*seen) == before + 1);
}

static void send_event(struct kunit *test, u32 cqn)
{
	send_event_of(test, MOOR_EQ_COMPLETION, MOOR_EVENT_COMPLETION, cqn);
}

static void qp_to(struct kunit *test, struct told_user *user, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state, .port_num = MOOR_PORT };
	int mask = IB_QP_STATE;

	if (state == IB_QPS_INIT)
		mask |= IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS;
	KUNIT_ASSERT_EQ(test, ib_modify_qp(user->qp, &attr, mask), 0);
}

/*
 * A CQ that has failed gets no CQEs any more: the driver flushes what was posted as soon
 * as the queue pair moves no data, and not before. The other CQ is not affected.
 */
static void told_failed(struct kunit *test)
{
	struct told_user *user = told_open(test);
	struct ib_cq *send_cq = &user->send.cq->ibcq;
	struct ib_recv_wr recv = { .wr_id = 70 };
	struct ib_wc wc[DEPTH];

	qp_to(test, user, IB_QPS_INIT);
	post_sends(test, user, 3, 10);
	ib_post_recv(user->qp, &recv, NULL);
	arm(&user->send);
	arm(&user->recv);
	send_event_of(test, MOOR_EQ_ASYNC, MOOR_EVENT_CQ_ERROR, user->send.cq->cqn);
	KUNIT_EXPECT_EQ(test, times_told(&user->send), 1);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(send_cq, DEPTH, wc), 0);
	KUNIT_EXPECT_EQ(test, missed(&user->send), 0);
	/* The same event once more changes nothing. */
	send_event_of(test, MOOR_EQ_ASYNC, MOOR_EVENT_CQ_ERROR, user->send.cq->cqn);
	KUNIT_EXPECT_EQ(test, times_told(&user->send), 1);
	qp_to(test, user, IB_QPS_ERR);
	KUNIT_EXPECT_EQ(test, times_told(&user->send), 2);
	KUNIT_EXPECT_EQ(test, missed(&user->send), 1);
	expect_flushed(test, &user->send, 3, 10);
	KUNIT_EXPECT_EQ(test, missed(&user->send), 0);
	/* A drain posts a work request of its own. */
	post_sends(test, user, 1, 20);
	KUNIT_EXPECT_EQ(test, times_told(&user->send), 3);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(send_cq, DEPTH, wc), 1);
	KUNIT_EXPECT_EQ(test, wc->wr_id, 20);
	KUNIT_EXPECT_EQ(test, times_told(&user->recv), 0);
	KUNIT_EXPECT_EQ(test, missed(&user->recv), 0);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(&user->recv.cq->ibcq, DEPTH, wc), 0);
	/* After RESET the queue pair may work again: nothing is flushed. */
	qp_to(test, user, IB_QPS_RESET);
	post_sends(test, user, 1, 30);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(send_cq, DEPTH, wc), 0);
	KUNIT_EXPECT_EQ(test, user->send.within, 0);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(user->mdev));
	remove_qp(test, user);
	told_close(user);
}

/* The queue pair goes to ERR first, as for a drain, and then its CQ fails. */
static void told_failed_late(struct kunit *test)
{
	struct told_user *user = told_open(test);
	struct ib_wc wc;

	qp_to(test, user, IB_QPS_INIT);
	post_sends(test, user, 1, 10);
	arm(&user->send);
	qp_to(test, user, IB_QPS_ERR);
	KUNIT_EXPECT_EQ(test, times_told(&user->send), 0);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(&user->send.cq->ibcq, 1, &wc), 0);
	send_event_of(test, MOOR_EQ_ASYNC, MOOR_EVENT_CQ_ERROR, user->send.cq->cqn);
	KUNIT_EXPECT_EQ(test, times_told(&user->send), 1);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(&user->send.cq->ibcq, 1, &wc), 1);
	KUNIT_EXPECT_EQ(test, wc.wr_id, 10);
	remove_qp(test, user);
	told_close(user);
}

/* A kernel queue that the device cannot read is not flushed: the device is stopped. */
static void told_fatal(struct kunit *test)
{
	struct told_user *user = told_open(test);
	u32 qpn = user->qp->qp_num;
	struct ib_wc wc;

	/* The QP has not left RESET: the event is dropped. */
	send_event_of(test, MOOR_EQ_ASYNC, MOOR_EVENT_QP_FATAL, qpn);
	flush_work(&user->mdev->fatal_work);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(user->mdev));
	qp_to(test, user, IB_QPS_INIT);
	send_event_of(test, MOOR_EQ_ASYNC, MOOR_EVENT_QP_ACCESS_ERR, qpn);
	flush_work(&user->mdev->fatal_work);
	KUNIT_EXPECT_FALSE(test, moor_is_dead(user->mdev));
	post_sends(test, user, 1, 10);
	arm(&user->send);
	fake_nic_event(moor_kunit_nic(), MOOR_EQ_ASYNC, MOOR_EVENT_QP_FATAL, qpn);
	moor_kunit_wait(test, moor_is_dead(user->mdev));
	flush_work(&user->mdev->fatal_work);
	KUNIT_EXPECT_EQ(test, times_told(&user->send), 1);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(&user->send.cq->ibcq, 1, &wc), 1);
	KUNIT_EXPECT_EQ(test, wc.status, IB_WC_WR_FLUSH_ERR);
	remove_qp(test, user);
	told_close(user);
}

/* Whatever events there are, a handler is called only if armed, and once. */
static void told_unasked(struct kunit *test)
{
	struct told_user *user = told_open(test);
	u32 cqn = user->send.cq->cqn;

	send_event(test, cqn);
	KUNIT_EXPECT_EQ(test, user->send.told, 0);
	arm(&user->send);
	send_event(test, cqn);
	KUNIT_EXPECT_EQ(test, user->send.told, 1);
	send_event(test, cqn);
	KUNIT_EXPECT_EQ(test, user->send.told, 1);
	arm(&user->send);
	send_event(test, cqn);
	KUNIT_EXPECT_EQ(test, user->send.told, 2);
	KUNIT_EXPECT_EQ(test, user->recv.told, 0);
	remove_qp(test, user);
	told_close(user);
}

/* A CQ of IB_POLL_DIRECT is never armed: the core warns if its handler is called. */
static void told_direct(struct kunit *test)
{
	struct told_user *user = told_open(test);
	struct ib_cq *own = &user->send.cq->ibcq;
	struct ib_cq *cq = ib_alloc_cq(own->device, NULL, DEPTH, 0, IB_POLL_DIRECT);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq);
	remove_qp(test, user);
	user->send.cq = to_mcq(cq);
	send_event(test, user->send.cq->cqn);
	add_qp(test, user);
	send_event(test, user->send.cq->cqn);
	moor_hw_kill(user->mdev, "a case asked for it");
	remove_qp(test, user);
	ib_free_cq(cq);
	user->send.cq = to_mcq(own);
	told_close(user);
}

/* Resizing calls the handler of an armed CQ: a poll meanwhile may have missed CQEs. */
static void told_resized(struct kunit *test)
{
	struct told_user *user = told_open(test);
	struct ib_cq *cq = &user->send.cq->ibcq;

	KUNIT_EXPECT_EQ(test, moor_resize_cq(cq, 4 * DEPTH, NULL), 0);
	KUNIT_EXPECT_EQ(test, times_told(&user->send), 0);
	arm(&user->send);
	KUNIT_EXPECT_EQ(test, moor_resize_cq(cq, DEPTH, NULL), 0);
	KUNIT_EXPECT_EQ(test, times_told(&user->send), 1);
	KUNIT_EXPECT_EQ(test, user->send.within, 0);
	remove_qp(test, user);
	told_close(user);
}

static bool telling;

static void tell_slowly(struct work_struct *work)
{
	WRITE_ONCE(telling, true);
	msleep(100);
	WRITE_ONCE(telling, false);
}

/* A CQ is not freed while a work calls its handler, or is still to do so. */
static void told_to_the_end(struct kunit *test)
{
	struct told_user *user = told_open(test);

	remove_qp(test, user);
	user->send.cq->kernel.wake.func = tell_slowly;
	moor_hw_kill(user->mdev, "a case asked for it");
	moor_kunit_wait(test, READ_ONCE(telling));
	told_close(user);
	KUNIT_EXPECT_FALSE(test, READ_ONCE(telling));
}

/* An event counts in the CQ's own event queue alone. */
static void told_elsewhere(struct kunit *test)
{
	struct told_user *user = told_open(test);
	struct moor_cq *cq = user->send.cq;
	struct moor_eq *eq = cq->eq;

	arm(&user->send);
	/* With one processor there is no second EQ for completions. */
	cq->eq = &user->mdev->async_eq;
	send_event(test, cq->cqn);
	KUNIT_EXPECT_EQ(test, user->send.told, 0);
	cq->eq = eq;
	send_event(test, cq->cqn);
	KUNIT_EXPECT_EQ(test, user->send.told, 1);
	remove_qp(test, user);
	told_close(user);
}

/*
 * A user whose last queue pair is gone may have ended the polling already: neither an
 * event nor the device's death calls its handler. The next queue pair makes up for it.
 */
static void told_quiet(struct kunit *test)
{
	struct told_user *user = told_open(test);
	u32 cqn = user->send.cq->cqn;

	remove_qp(test, user);
	arm(&user->send);
	send_event(test, cqn);
	KUNIT_EXPECT_EQ(test, times_told(&user->send), 0);
	add_qp(test, user);
	KUNIT_EXPECT_EQ(test, times_told(&user->send), 1);
	arm(&user->send);
	remove_qp(test, user);
	add_qp(test, user);
	KUNIT_EXPECT_EQ(test, times_told(&user->send), 1);
	remove_qp(test, user);
	moor_hw_kill(user->mdev, "a case asked for it");
	KUNIT_EXPECT_EQ(test, times_told(&user->send), 1);
	KUNIT_EXPECT_EQ(test, times_told(&user->recv), 0);
	KUNIT_EXPECT_EQ(test, user->send.within, 0);
	told_close(user);
}

/* A softirq's handler may still arm a CQ after the core's wait: the driver waits. */
static void told_softirq(struct kunit *test)
{
	struct moor_dev *mdev = test->priv;
	bool waited = false;
	unsigned long begun;
	struct ib_cq *cq;
	int try;

	/* A normal grace period beside an expedited one may not be counted. */
	for (try = 0; try < 20 && !waited; try++) {
		cq = ib_alloc_cq(&mdev->ibdev, NULL, DEPTH, 0, IB_POLL_SOFTIRQ);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq);
		begun = get_state_synchronize_rcu();
		ib_free_cq(cq);
		waited = poll_state_synchronize_rcu(begun);
	}
	KUNIT_EXPECT_TRUE(test, waited);
}

static struct kunit_case told_cases[] = {
	KUNIT_CASE(told_dead),
	KUNIT_CASE(told_dozing),
	KUNIT_CASE(told_failed),
	KUNIT_CASE(told_failed_late),
	KUNIT_CASE(told_fatal),
	KUNIT_CASE(told_unasked),
	KUNIT_CASE(told_direct),
	KUNIT_CASE(told_resized),
	KUNIT_CASE(told_to_the_end),
	KUNIT_CASE(told_elsewhere),
	KUNIT_CASE(told_quiet),
	KUNIT_CASE(told_softirq),
	{}
};

static struct kunit_suite told_suite = {
	.name = "moor_told",
	.init = moor_kunit_init,
	.exit = moor_kunit_exit,
	.test_cases = told_cases,
};

kunit_test_suite(told_suite);
