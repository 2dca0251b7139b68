// SPDX-License-Identifier: GPL-2.0
/* Flushing and draining in every state. */

#include <linux/sched.h>

#include "verbs_test.h"

static const char *state_name(enum ib_qp_state state)
{
	static const char *const names[] = {
		"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR",
	};

	return names[state];
}

/* Takes side 1 from RESET to @state, and leaves side 0 as it is. */
static bool walk_to(struct link *link, enum ib_qp_state state)
{
	static const enum ib_qp_state way[] = {
		IB_QPS_INIT, IB_QPS_RTR, IB_QPS_RTS, IB_QPS_SQD,
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(way); i++) {
		if (!link_state(link, 1, way[i]))
			return false;
		if (way[i] == state)
			return true;
	}
	return state == IB_QPS_ERR && link_state(link, 1, IB_QPS_ERR);
}

/* Each queue's work requests must come back in order, all flushed, with their opcodes. */
static bool all_flushed(struct link *link, u32 sends, u32 recvs)
{
	u32 next_send = 0, next_recv = 0;
	struct ib_wc wc;

	while (next_send < sends || next_recv < recvs) {
		if (!link_poll(link, 1, &wc) ||
		    wc.status != IB_WC_WR_FLUSH_ERR || wc.qp != link->qp[1])
			return false;
		if (wc.wr_id >= 1000) {
			if (wc.opcode != IB_WC_RECV || wc.wr_id != 1000 + next_recv++)
				return false;
		} else if (wc.opcode != IB_WC_SEND || wc.wr_id != next_send++) {
			return false;
		}
	}
	return link_quiet(link, 1);
}

static bool post(struct link *link, u32 sends, u32 recvs)
{
	struct ib_send_wr wr = { .opcode = IB_WR_SEND };
	u32 i;

	for (i = 0; i < recvs; i++)
		if (link_recv(link, 1, 1000 + i))
			return false;
	for (i = 0; i < sends; i++) {
		wr.wr_id = i;
		/* A flushed one completes whether or not it is signaled. */
		wr.send_flags = i % 2 ? IB_SEND_SIGNALED : 0;
		if (link_send(link, 1, &wr))
			return false;
	}
	return true;
}

/*
 * Work posted in a state that does not execute it is flushed in ERR, and forgotten in
 * RESET.
 */
static void test_flush(struct ib_device *dev, u32 seed)
{
	static const enum ib_qp_state states[] = {
		IB_QPS_INIT, IB_QPS_RTR, IB_QPS_SQD, IB_QPS_ERR,
	};
	struct link link;
	bool good;
	u32 i, n;

	if (!link_open(&link, dev, (struct link_how){ .no_connect = true }))
		return;
	for (i = 0; i < ARRAY_SIZE(states); i++) {
		for (n = 0, good = true; n < 4; n++) {
			u32 sends = n & 1 ? 11 : 0, recvs = n & 2 ? 13 : 0;

			good &= walk_to(&link, states[i]) &&
				post(&link, sends, recvs) &&
				link_state(&link, 1, IB_QPS_ERR) &&
				all_flushed(&link, sends, recvs) &&
				link_state(&link, 1, IB_QPS_RESET);
		}
		point(good, "%s, then ERR: all that was posted is flushed",
		      state_name(states[i]));
		good = walk_to(&link, states[i]) && post(&link, 11, 13) &&
		       link_state(&link, 1, IB_QPS_RESET) &&
		       link_quiet(&link, 1) && walk_to(&link, IB_QPS_INIT) &&
		       post(&link, LINK_DEPTH, LINK_DEPTH) &&
		       link_state(&link, 1, IB_QPS_ERR) &&
		       all_flushed(&link, LINK_DEPTH, LINK_DEPTH) &&
		       link_state(&link, 1, IB_QPS_RESET);
		point(good, "%s, then RESET: nothing of it is left",
		      state_name(states[i]));
	}
	link_close(&link);
}

/* Destroying a queue pair drops its completions that were not polled. */
static void test_forget(struct ib_device *dev, u32 seed)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED,
	};
	struct link link;
	struct ib_wc wc;
	u32 i;

	if (!link_open(&link, dev, (struct link_how){}))
		return;
	for (i = 0; i < 8; i++)
		link_recv(&link, 1, i);
	for (i = 0; i < 8; i++)
		link_send(&link, 0, &wr);
	for (i = 0; i < 8; i++)
		link_poll(&link, 0, &wc);
	point(ib_req_notify_cq(link.cq[1], IB_CQ_NEXT_COMP |
			       IB_CQ_REPORT_MISSED_EVENTS) == 1,
	      "8 receives have completed");
	ib_destroy_qp(link.qp[1]);
	link.qp[1] = NULL;
	point(link_quiet(&link, 1), "their queue pair is destroyed: none is left");
	link_close(&link);
}

/* Long enough for a software NIC to doze. */
static void rest(void)
{
	schedule_timeout_uninterruptible(msecs_to_jiffies(4));
}

static void never(struct ib_cq *cq, struct ib_wc *wc)
{
}

/* ib_drain_qp() returns, with receives and without, also on a NIC that dozes. */
static void test_drain(struct ib_device *dev, u32 seed)
{
	static const enum ib_poll_context contexts[] = {
		IB_POLL_DIRECT, IB_POLL_SOFTIRQ, IB_POLL_WORKQUEUE,
		IB_POLL_UNBOUND_WORKQUEUE,
	};
	struct ib_cqe cqe = { .done = never };
	struct ib_recv_wr recv = { .wr_cqe = &cqe };
	struct ib_send_wr send = {
		.wr_cqe = &cqe, .opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	struct link link;
	u32 i, turn, n;

	for (i = 0; i < ARRAY_SIZE(contexts); i++) {
		struct link_how how = {
			.alloc_cq = true, .poll_ctx = contexts[i],
		};

		for (turn = 0; turn < 12; turn++) {
			if (!link_open(&link, dev, how))
				return;
			for (n = 0; n < (turn & 1 ? 20 : 0); n++)
				ib_post_recv(link.qp[0], &recv, NULL);
			/* The peer has no receive for it, so it stays under way. */
			if (turn & 2)
				ib_post_send(link.qp[0], &send, NULL);
			if (turn & 4)
				rest();
			ib_drain_qp(link.qp[0]);
			/* Drain again after some time in ERR. */
			if (turn >= 8)
				rest();
			ib_drain_rq(link.qp[0]);
			ib_drain_sq(link.qp[0]);
			link_close(&link);
		}
		point(true, "context %d: %u queue pairs drained", contexts[i],
		      turn);
	}
}

static atomic_t ended;

static void count_ended(struct ib_cq *cq, struct ib_wc *wc)
{
	atomic_inc(&ended);
}

/*
 * A CQ that is too small fails. Even then each work request posted to its queue pairs
 * must complete once when they are drained; and when they are gone, it works again.
 */
static void test_overrun(struct ib_device *dev, u32 seed)
{
	static const enum ib_poll_context contexts[] = {
		IB_POLL_DIRECT, IB_POLL_SOFTIRQ, IB_POLL_UNBOUND_WORKQUEUE,
	};
	const int each = 20;
	struct ib_cqe cqe = { .done = count_ended };
	struct ib_recv_wr recv = { .wr_cqe = &cqe };
	struct ib_send_wr send = {
		.wr_cqe = &cqe, .opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	struct link link;
	int i, n;

	for (i = 0; i < ARRAY_SIZE(contexts); i++) {
		struct link_how how = {
			.alloc_cq = true, .poll_ctx = contexts[i], .cqe = 8,
		};

		if (!link_open(&link, dev, how))
			return;
		atomic_set(&ended, 0);
		for (n = 0; n < each; n++) {
			ib_post_recv(link.qp[0], &recv, NULL);
			ib_post_recv(link.qp[1], &recv, NULL);
		}
		for (n = 0; n < each; n++)
			ib_post_send(link.qp[0], &send, NULL);
		ib_drain_qp(link.qp[0]);
		ib_drain_qp(link.qp[1]);
		point(atomic_read(&ended) == 3 * each,
		      "context %d, CQs too small: all has ended once", contexts[i]);
		/* As ib_cq_pool_get() gives a CQ to one user after the other. */
		point(link_again(&link) && send_and_wait(&link, 4),
		      "context %d, CQs that have failed: other queue pairs use them",
		      contexts[i]);
		link_close(&link);
	}
}

const struct verbs_test state_tests[] = {
	{ "flush", test_flush },
	{ "forget", test_forget },
	{ "drain", test_drain },
	{ "overrun", test_overrun },
	{}
};
