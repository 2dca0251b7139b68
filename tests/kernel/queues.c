// SPDX-License-Identifier: GPL-2.0
/* Posting, polling, completion events, many queues. */

#include <linux/completion.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/wait.h>

#include "verbs_test.h"

/* What each opcode does to memory, and what its completions contain. */
static void test_messages(struct ib_device *dev, u32 seed)
{
	struct buffer from = {}, to = {};
	struct ib_recv_wr recv = { .wr_id = 5, .num_sge = 1 };
	struct ib_send_wr send = {
		.wr_id = 6, .num_sge = 1, .send_flags = IB_SEND_SIGNALED,
	};
	struct ib_sge out, in;
	struct link link;
	struct ib_wc wc;

	if (!link_open(&link, dev, (struct link_how){}))
		return;
	if (!buffer_open(&from, dev, PAGE_SIZE) || !buffer_open(&to, dev, PAGE_SIZE))
		goto close;
	out = buffer_sge(&link, &from, 3000);
	in = buffer_sge(&link, &to, PAGE_SIZE);
	send.sg_list = &out;
	recv.sg_list = &in;
	buffer_fill(&from, 3000, 1);
	ib_post_recv(link.qp[1], &recv, NULL);
	send.opcode = IB_WR_SEND_WITH_IMM;
	send.ex.imm_data = cpu_to_be32(0x12345678);
	ib_post_send(link.qp[0], &send, NULL);
	point(link_poll(&link, 0, &wc) && !wc.status && wc.wr_id == 6 &&
	      wc.opcode == IB_WC_SEND && wc.qp == link.qp[0],
	      "SEND with immediate: its completion");
	point(link_poll(&link, 1, &wc) && !wc.status && wc.wr_id == 5 &&
	      wc.opcode == IB_WC_RECV && wc.byte_len == 3000 &&
	      wc.wc_flags == IB_WC_WITH_IMM && wc.qp == link.qp[1] &&
	      wc.src_qp == link.qp[0]->qp_num &&
	      wc.ex.imm_data == cpu_to_be32(0x12345678) &&
	      buffer_is(&to, 3000, 1), "and the receiver's, with data");

	/* The SGE of inline data is a kernel address. */
	buffer_fill(&from, 3000, 2);
	recv.wr_id = 7;
	ib_post_recv(link.qp[1], &recv, NULL);
	send.opcode = IB_WR_SEND;
	send.send_flags |= IB_SEND_INLINE;
	out = (struct ib_sge){ .addr = (uintptr_t)from.mem, .length = 3000 };
	point(ib_post_send(link.qp[0], &send, NULL) == -EINVAL,
	      "more inline data than fits: EINVAL");
	send.send_flags &= ~IB_SEND_INLINE;
	out = buffer_sge(&link, &from, 3000);
	point(!link_finish(&link, 0, &send) && link_poll(&link, 1, &wc) &&
	      buffer_is(&to, 3000, 2), "SEND");
	send.num_sge = 5;
	point(ib_post_send(link.qp[0], &send, NULL) == -EINVAL,
	      "too many SGEs: EINVAL");
	send.num_sge = 1;
	send.opcode = IB_WR_RDMA_READ_WITH_INV;
	point(ib_post_send(link.qp[0], &send, NULL) == -EINVAL,
	      "an opcode that is not there: EINVAL");
close:
	buffer_close(&from);
	buffer_close(&to);
	link_close(&link);
}

static void test_atomics(struct ib_device *dev, u32 seed)
{
	struct ib_atomic_wr wr = {
		.wr = { .num_sge = 1, .send_flags = IB_SEND_SIGNALED },
	};
	struct buffer result = {}, word = {};
	struct link link;
	struct ib_sge sge;
	struct ib_mr *mr;
	struct scatterlist sg;

	if (!link_open(&link, dev, (struct link_how){}))
		return;
	mr = ib_alloc_mr(link.pd, IB_MR_TYPE_MEM_REG, 1);
	if (!point(!IS_ERR(mr), "an MR"))
		goto close;
	if (!buffer_open(&result, dev, PAGE_SIZE) || !buffer_open(&word, dev, PAGE_SIZE))
		goto dereg;
	sg_init_table(&sg, 1);
	sg_dma_address(&sg) = word.dma;
	sg_dma_len(&sg) = PAGE_SIZE;
	ib_map_mr_sg(mr, &sg, 1, NULL, PAGE_SIZE);
	fast_reg(&link, 1, mr, mr->rkey, ALL_REMOTE);
	*(u64 *)word.mem = 40;
	sge = buffer_sge(&link, &result, 8);
	wr.wr.sg_list = &sge;
	wr.remote_addr = mr->iova;
	wr.rkey = mr->rkey;
	wr.wr.opcode = IB_WR_ATOMIC_FETCH_AND_ADD;
	wr.compare_add = 2;
	point(!link_finish(&link, 0, &wr.wr) && *(u64 *)word.mem == 42 &&
	      *(u64 *)result.mem == 40, "fetch and add");
	wr.wr.opcode = IB_WR_ATOMIC_CMP_AND_SWP;
	wr.compare_add = 42;
	wr.swap = 7;
	point(!link_finish(&link, 0, &wr.wr) && *(u64 *)word.mem == 7 &&
	      *(u64 *)result.mem == 42, "compare and swap");
	fast_inv(&link, 1, mr->rkey);
dereg:
	buffer_close(&result);
	buffer_close(&word);
	ib_dereg_mr(mr);
close:
	link_close(&link);
}

/* A queue takes as many work requests as were announced, many times round the ring. */
static void test_full(struct ib_device *dev, u32 seed)
{
	struct ib_send_wr wr = { .opcode = IB_WR_SEND };
	const struct ib_send_wr *bad;
	u32 sent = 0, turn, i;
	bool good = true;
	struct link link;
	struct ib_wc wc;

	if (!link_open(&link, dev, (struct link_how){ .depth = 16 }))
		return;
	for (turn = 0; turn < 50; turn++) {
		for (i = 0; i < 16; i++)
			good &= !link_recv(&link, 1, sent + i);
		good &= link_recv(&link, 1, 0) == -ENOMEM;
		for (i = 0; i < 16; i++) {
			wr.wr_id = sent + i;
			wr.send_flags = i == 15 ? IB_SEND_SIGNALED : 0;
			good &= !link_send(&link, 0, &wr);
		}
		/*
		 * Nothing has been polled yet, so the queue is full even if all
		 * requests have completed.
		 */
		wr.wr_id = 0;
		bad = NULL;
		good &= ib_post_send(link.qp[0], &wr, &bad) == -ENOMEM &&
			bad == &wr;
		good &= link_poll(&link, 0, &wc) && !wc.status &&
			wc.wr_id == sent + 15;
		for (i = 0; i < 16; i++)
			good &= link_poll(&link, 1, &wc) && !wc.status &&
				wc.wr_id == sent + i;
		sent += 16;
	}
	point(good, "%u messages through queues of 16, one more is ENOMEM", sent);
	link_close(&link);
}

/* Counts the completions of work requests with wr_cqe. */
struct waiter {
	struct ib_cqe sent;
	struct ib_cqe received;
	struct completion all;
	atomic_t left;
	atomic_t failed;
};

static void waiter_done(struct waiter *waiter, struct ib_wc *wc)
{
	if (wc->status)
		atomic_inc(&waiter->failed);
	if (atomic_dec_and_test(&waiter->left))
		complete(&waiter->all);
}

static void waiter_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	waiter_done(container_of(wc->wr_cqe, struct waiter, sent), wc);
}

static void waiter_received(struct ib_cq *cq, struct ib_wc *wc)
{
	waiter_done(container_of(wc->wr_cqe, struct waiter, received), wc);
}

static bool waiter_wait(struct link *link, struct waiter *waiter)
{
	unsigned long end = jiffies + PATIENCE;

	if (link->how.poll_ctx != IB_POLL_DIRECT)
		return wait_for_completion_timeout(&waiter->all, PATIENCE);
	while (!try_wait_for_completion(&waiter->all) && time_before(jiffies, end)) {
		ib_process_cq_direct(link->cq[0], -1);
		ib_process_cq_direct(link->cq[1], -1);
		cond_resched();
	}
	return !atomic_read(&waiter->left);
}

/* Sends messages from side 0 to side 1. Return: whether all went well, at both. */
bool send_and_wait(struct link *link, u32 count)
{
	struct waiter waiter = {
		.sent.done = waiter_sent,
		.received.done = waiter_received,
	};
	struct ib_recv_wr recv = { .wr_cqe = &waiter.received };
	struct ib_send_wr send = {
		.wr_cqe = &waiter.sent,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	u32 i;

	init_completion(&waiter.all);
	atomic_set(&waiter.left, 2 * count);
	atomic_set(&waiter.failed, 0);
	for (i = 0; i < count; i++)
		if (ib_post_recv(link->qp[1], &recv, NULL))
			return false;
	for (i = 0; i < count; i++)
		if (ib_post_send(link->qp[0], &send, NULL))
			return false;
	return waiter_wait(link, &waiter) && !atomic_read(&waiter.failed);
}

static void test_contexts(struct ib_device *dev, u32 seed)
{
	static const struct {
		enum ib_poll_context ctx;
		const char *name;
	} all[] = {
		{ IB_POLL_DIRECT, "direct" },
		{ IB_POLL_SOFTIRQ, "softirq" },
		{ IB_POLL_WORKQUEUE, "workqueue" },
		{ IB_POLL_UNBOUND_WORKQUEUE, "unbound workqueue" },
	};
	struct link link;
	bool good;
	u32 i, turn;

	for (i = 0; i < ARRAY_SIZE(all); i++) {
		struct link_how how = {
			.alloc_cq = true, .poll_ctx = all[i].ctx,
		};

		if (!link_open(&link, dev, how))
			return;
		/*
		 * Most turns post one message at a time, so that each needs an event of
		 * its own.
		 */
		for (turn = 0, good = true; turn < 200 && good; turn++)
			good = send_and_wait(&link, turn % 10 ? 1 : 100);
		point(good, "%s: every completion is told of (%u turns)",
		      all[i].name, turn);
		link_close(&link);
	}
}

struct counted {
	atomic_t events;
	wait_queue_head_t wait;
};

static void count_event(struct ib_cq *cq, void *context)
{
	struct counted *counted = context;

	atomic_inc(&counted->events);
	wake_up(&counted->wait);
}

/* Which completions raise an event, and when ib_req_notify_cq() reports missed ones. */
static void test_notify(struct ib_device *dev, u32 seed)
{
	struct ib_send_wr send = { .opcode = IB_WR_SEND };
	struct counted counted = {};
	struct link link;
	struct ib_cq *cq;
	struct ib_wc wc;
	int before;

	init_waitqueue_head(&counted.wait);
	if (!link_open(&link, dev, (struct link_how){}))
		return;
	cq = link.cq[1];
	cq->comp_handler = count_event;
	cq->cq_context = &counted;
	point(ib_req_notify_cq(cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) == 0,
	      "armed, nothing is there");
	link_recv(&link, 1, 1);
	link_send(&link, 0, &send);
	point(wait_event_timeout(counted.wait, atomic_read(&counted.events) == 1,
				 PATIENCE), "a completion gives an event");
	point(ib_req_notify_cq(cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) == 1,
	      "armed again, one is there that was not polled");
	point(ib_req_notify_cq(cq, IB_CQ_NEXT_COMP) == 0,
	      "which is said to those alone who ask");
	link_poll(&link, 1, &wc);

	/* The CQ is armed for any completion: use that up first. */
	before = atomic_read(&counted.events);
	link_recv(&link, 1, 2);
	link_send(&link, 0, &send);
	wait_event_timeout(counted.wait, atomic_read(&counted.events) > before,
			   PATIENCE);
	link_poll(&link, 1, &wc);
	before = atomic_read(&counted.events);
	ib_req_notify_cq(cq, IB_CQ_SOLICITED);
	link_recv(&link, 1, 3);
	link_recv(&link, 1, 4);
	link_send(&link, 0, &send);
	link_poll(&link, 1, &wc);
	send.send_flags = IB_SEND_SOLICITED;
	link_send(&link, 0, &send);
	point(wait_event_timeout(counted.wait,
				 atomic_read(&counted.events) > before, PATIENCE) &&
	      atomic_read(&counted.events) == before + 1 &&
	      link_poll(&link, 1, &wc) && wc.wr_id == 4,
	      "of two messages the solicited one gives an event");
	link_close(&link);
}

#define COUNT	8
#define PERIOD	65535	/* us; the longest there is */

/*
 * Does an event come with the eighth completion, and none before? On a busy machine the
 * period may end sooner; then it is tried again.
 */
static bool moderated(struct link *link, struct counted *counted)
{
	struct ib_send_wr send = { .opcode = IB_WR_SEND };
	struct ib_cq *cq = link->cq[1];
	bool early, told = false;
	struct ib_wc wc;
	ktime_t end;
	u32 i, tries;

	for (tries = 0; tries < 20; tries++) {
		atomic_set(&counted->events, 0);
		end = ktime_add_us(ktime_get(), PERIOD);
		ib_req_notify_cq(cq, IB_CQ_NEXT_COMP);
		for (i = 0, early = false; i < COUNT; i++) {
			early |= atomic_read(&counted->events);
			link_recv(link, 1, i);
			link_send(link, 0, &send);
			if (!link_poll(link, 1, &wc) || wc.status)
				return false;
		}
		told = wait_event_timeout(counted->wait,
					  atomic_read(&counted->events) == 1,
					  PATIENCE);
		if (!told || ktime_before(ktime_get(), end))
			return told && !early;
	}
	return false;
}

static void test_moderation(struct ib_device *dev, u32 seed)
{
	struct ib_send_wr send = { .opcode = IB_WR_SEND };
	struct link_how how = { .alloc_cq = true, .poll_ctx = IB_POLL_SOFTIRQ };
	struct counted counted = {};
	struct link link;
	ktime_t start;

	if (!dev->attrs.cq_caps.max_cq_moderation_period) {
		point(!dev->ops.modify_cq, "a device that moderates nothing");
		return;
	}
	init_waitqueue_head(&counted.wait);
	if (!link_open(&link, dev, (struct link_how){}))
		return;
	link.cq[1]->comp_handler = count_event;
	link.cq[1]->cq_context = &counted;
	point(!rdma_set_cq_moderation(link.cq[1], COUNT, PERIOD),
	      "moderation is set");
	point(moderated(&link, &counted), "an event comes with %u completions", COUNT);
	atomic_set(&counted.events, 0);
	start = ktime_get();
	ib_req_notify_cq(link.cq[1], IB_CQ_NEXT_COMP);
	link_recv(&link, 1, 0);
	link_send(&link, 0, &send);
	point(wait_event_timeout(counted.wait, atomic_read(&counted.events) == 1,
				 PATIENCE) &&
	      ktime_us_delta(ktime_get(), start) >= PERIOD * 9 / 10,
	      "and with fewer after the period");
	link_close(&link);

	if (!link_open(&link, dev, how))
		return;
	point(link.cq[0]->dim && link.cq[1]->dim, "the core tunes its CQs by itself");
	link_close(&link);
}

#define MANY	160

/* More queues than one doorbell page has slots for; all of them must work. */
static void test_many(struct ib_device *dev, u32 seed)
{
	struct link *links = kcalloc(MANY, sizeof(*links), GFP_KERNEL);
	struct ib_send_wr send = {
		.opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED,
	};
	bool good = true;
	struct ib_wc wc;
	u32 open, i;

	if (!links)
		return;
	for (open = 0; open < MANY; open++)
		if (!link_open(&links[open], dev, (struct link_how){ .depth = 4 }))
			break;
	point(open == MANY, "%u queue pairs with a CQ each", 2 * open);
	for (i = 0; i < open; i++)
		good &= !link_recv(&links[i], 1, i) &&
			!link_finish(&links[i], 0, &send) &&
			link_poll(&links[i], 1, &wc) && wc.wr_id == i;
	point(good, "each pair moves a message");
	for (i = 0; i < open; i++)
		good &= link_quiet(&links[i], 0) && link_quiet(&links[i], 1);
	point(good, "and no other's completion");
	while (open--)
		link_close(&links[open]);
	kfree(links);
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
/* Resizes a CQ with completions in it, up and down. */
static void test_resize(struct ib_device *dev, u32 seed)
{
	struct ib_send_wr send = { .opcode = IB_WR_SEND };
	static const int sizes[] = { 64, 16, 256, 32 };
	bool good = true;
	struct link link;
	struct ib_wc wc;
	u32 i, n, id = 0;

	if (!link_open(&link, dev, (struct link_how){ .depth = 16 }))
		return;
	for (i = 0; i < 4 * ARRAY_SIZE(sizes); i++) {
		for (n = 0; n < 8; n++)
			good &= !link_recv(&link, 1, id + n);
		send.send_flags = 0;
		for (n = 0; n < 7; n++)
			good &= !link_send(&link, 0, &send);
		send.send_flags = IB_SEND_SIGNALED;
		good &= !link_finish(&link, 0, &send);
		good &= !ib_resize_cq(link.cq[1], sizes[i % ARRAY_SIZE(sizes)]);
		for (n = 0; n < 8; n++)
			good &= link_poll(&link, 1, &wc) && !wc.status &&
				wc.wr_id == id + n;
		id += 8;
	}
	point(good, "a CQ keeps its completions while its ring changes");
	point(ib_resize_cq(link.cq[1], dev->attrs.max_cqe + 1) == -EINVAL,
	      "more than there can be: EINVAL");
	link_close(&link);
}
#endif

const struct verbs_test queue_tests[] = {
	{ "messages", test_messages },
	{ "atomics", test_atomics },
	{ "full", test_full },
	{ "contexts", test_contexts },
	{ "notify", test_notify },
	{ "moderation", test_moderation },
	{ "many", test_many },
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
	{ "resize", test_resize },
#endif
	{}
};
