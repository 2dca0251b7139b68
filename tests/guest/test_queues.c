// SPDX-License-Identifier: GPL-2.0
/*
 * Posting and the queues themselves: limits and their errno, states that allow posting,
 * resizing, completions of a destroyed QP, parent domains.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"
#include "tap.h"

static struct request write_request(const struct pair *pair, uint64_t wr_id)
{
	return (struct request){
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = wr_id,
		.local = pair->a.buf, .length = 8, .lkey = pair->a.mr->lkey,
		.remote = (uintptr_t)pair->b.buf, .rkey = pair->b.mr->rkey,
	};
}

static void test_states(struct pair *pair)
{
	struct request request = write_request(pair, 1);
	struct ibv_wc wc;

	tap_is(post(&pair->a, &request), EINVAL, "send in RESET: EINVAL");
	tap_is(post_receive(&pair->a, 1, pair->a.buf, 8, pair->a.mr->lkey),
	       EINVAL, "receive in RESET: EINVAL");
	modify_to_init(pair, &pair->a);
	tap_is(post(&pair->a, &request), EINVAL, "send in INIT: EINVAL");
	tap_is(post_receive(&pair->a, 9, pair->a.buf, 8, pair->a.mr->lkey), 0,
	       "receive in INIT");
	modify_to_rtr(pair, &pair->a, pair->b.qp->qp_num);
	tap_is(post(&pair->a, &request), EINVAL, "send in RTR: EINVAL");
	modify_to(&pair->a, IBV_QPS_ERR);
	expect_wc(pair->a.recv_cq, 9, IBV_WC_WR_FLUSH_ERR, &wc,
		  "receive posted in INIT is flushed in ERR");
	pair_reset(pair);
}

/*
 * A NIC without a wire refuses a path to another NIC at once. This uses RoCE v1: for v2
 * the core looks for the neighbour first, and does not find it.
 */
static void test_elsewhere(struct pair *pair)
{
	union ibv_gid own = pair->gid;
	int index = pair->gid_index;
	struct ibv_gid_entry entry;

	for (pair->gid_index = 0; ; pair->gid_index++)
		if (ibv_query_gid_ex(pair->ctx, 1, pair->gid_index, &entry, 0))
			tap_bail("no RoCE v1 GID");
		else if (entry.gid_type == IBV_GID_TYPE_ROCE_V1)
			break;
	modify_to(&pair->a, IBV_QPS_RESET);
	modify_to_init(pair, &pair->a);
	pair->gid = entry.gid;
	pair->gid.raw[15] ^= 1;
	tap_is(modify_to_rtr(pair, &pair->a, pair->b.qp->qp_num), EINVAL,
	       "RTR to another NIC's GID: EINVAL");
	tap_is(query_state(&pair->a), IBV_QPS_INIT, "the QP stays in INIT");
	pair->gid = entry.gid;
	tap_is(modify_to_rtr(pair, &pair->a, pair->b.qp->qp_num), 0,
	       "RTR to its own GID");
	pair->gid = own;
	pair->gid_index = index;
	pair_reset(pair);
}

/* However fast the device is, the queue is full if nothing is polled. */
static void test_full(struct pair *pair)
{
	struct request request = write_request(pair, 0);
	struct ibv_wc wc;
	uint32_t n;
	int err = 0;

	for (n = 0; !err && n <= pair->a.cap.max_send_wr; n++)
		err = post(&pair->a, &request);
	tap_is(err, ENOMEM, "send queue full: ENOMEM");
	tap_is(n - 1, pair->a.cap.max_send_wr, "it took max_send_wr requests");
	while (--n)
		if (!wait_wc(pair->a.send_cq, &wc) || wc.status)
			break;
	tap_is(n, 0, "and all of them complete");
	tap_is(post(&pair->a, &request), 0, "then there is room again");
	wait_wc(pair->a.send_cq, &wc);

	for (n = 0, err = 0; !err && n <= pair->b.cap.max_recv_wr; n++)
		err = post_receive(&pair->b, n, pair->b.buf, 8,
				   pair->b.mr->lkey);
	tap_is(err, ENOMEM, "receive queue full: ENOMEM");
	tap_is(n - 1, pair->b.cap.max_recv_wr, "it took max_recv_wr receives");
	pair_reset(pair);
}

/* The requests of a chain before the bad one are posted. */
static void test_bad_wr(struct pair *pair)
{
	uint32_t too_many = pair->a.cap.max_send_sge + 1;
	uint32_t too_many_recv = pair->a.cap.max_recv_sge + 1;
	struct ibv_sge sge[too_many + too_many_recv];
	struct ibv_send_wr wr[2] = {}, *bad_wr = NULL;
	struct ibv_recv_wr recv = { .sg_list = sge, .num_sge = too_many_recv };
	struct ibv_recv_wr *bad_recv = NULL;
	struct ibv_wc wc;
	uint32_t i;

	for (i = 0; i < too_many + too_many_recv; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)pair->a.buf, 8,
					   pair->a.mr->lkey };
	wr[0] = (struct ibv_send_wr){
		.wr_id = 1, .sg_list = sge, .num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.next = &wr[1],
		.wr.rdma = { (uintptr_t)pair->b.buf, pair->b.mr->rkey },
	};
	wr[1] = wr[0];
	wr[1].next = NULL;
	wr[1].num_sge = too_many;
	tap_is(ibv_post_send(pair->a.qp, wr, &bad_wr), EINVAL,
	       "too many SGEs: EINVAL");
	tap_ok(bad_wr == &wr[1], "bad_wr is the second");
	expect_wc(pair->a.send_cq, 1, IBV_WC_SUCCESS, &wc,
		  "the first was posted");
	wr[1].num_sge = 1;
	wr[1].opcode = IBV_WR_TSO;
	tap_is(ibv_post_send(pair->a.qp, &wr[1], &bad_wr), EINVAL,
	       "unsupported opcode: EINVAL");
	wr[1].opcode = 200;
	tap_is(ibv_post_send(pair->a.qp, &wr[1], &bad_wr), EINVAL,
	       "unknown opcode: EINVAL");
	wr[1].opcode = IBV_WR_RDMA_WRITE;
	wr[1].send_flags = 1 << 20;
	tap_is(ibv_post_send(pair->a.qp, &wr[1], &bad_wr), EINVAL,
	       "unknown flag: EINVAL");
	wr[1].send_flags = IBV_SEND_INLINE;
	sge[0].length = pair->a.cap.max_inline_data + 1;
	tap_is(ibv_post_send(pair->a.qp, &wr[1], &bad_wr), EINVAL,
	       "too much inline data: EINVAL");
	sge[0].length = 8;
	wr[1].opcode = IBV_WR_RDMA_READ;
	tap_is(ibv_post_send(pair->a.qp, &wr[1], &bad_wr), EINVAL,
	       "inline read: EINVAL");
	tap_is(ibv_post_recv(pair->a.qp, &recv, &bad_recv), EINVAL,
	       "receive with too many SGEs: EINVAL");
	tap_ok(bad_recv == &recv, "bad_wr is the receive");
	tap_is(ibv_poll_cq(pair->a.send_cq, 1, &wc), 0,
	       "nothing of this was posted");
}

static void test_limits(struct pair *pair)
{
	struct ibv_qp_init_attr good = {
		.send_cq = pair->a.send_cq, .recv_cq = pair->a.recv_cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_init_attr attr = good;
	struct ibv_qp *qp;

	qp = ibv_create_qp(pair->pd, &attr);
	tap_ok(qp && attr.cap.max_send_wr >= 1 && attr.cap.max_recv_wr >= 1,
	       "the smallest QP");
	if (qp)
		ibv_destroy_qp(qp);

	attr = good;
	attr.cap.max_recv_wr = 0;
	attr.cap.max_recv_sge = 2;
	qp = ibv_create_qp(pair->pd, &attr);
	tap_ok(qp && !attr.cap.max_recv_wr && attr.cap.max_recv_sge >= 2,
	       "a QP without receives has no less than was asked for");
	if (qp)
		ibv_destroy_qp(qp);

	attr = good;
	attr.cap.max_send_wr = pair->attr.max_qp_wr;
	attr.cap.max_recv_wr = pair->attr.max_qp_wr;
	attr.cap.max_send_sge = pair->attr.max_sge;
	attr.cap.max_recv_sge = pair->attr.max_sge;
	qp = ibv_create_qp(pair->pd, &attr);
	tap_ok(qp, "the largest QP that the device announces");
	if (qp)
		ibv_destroy_qp(qp);

	attr = good;
	attr.cap.max_send_wr = pair->attr.max_qp_wr + 1;
	tap_ok(!ibv_create_qp(pair->pd, &attr) && errno == EINVAL,
	       "a larger send queue: EINVAL");
	attr = good;
	attr.cap.max_recv_wr = UINT32_MAX;
	tap_ok(!ibv_create_qp(pair->pd, &attr) && errno == EINVAL,
	       "a larger receive queue: EINVAL");
	attr = good;
	attr.cap.max_recv_sge = pair->attr.max_sge + 1;
	tap_ok(!ibv_create_qp(pair->pd, &attr) && errno == EINVAL,
	       "more SGEs: EINVAL");
	attr = good;
	attr.cap.max_inline_data = 1 << 20;
	tap_ok(!ibv_create_qp(pair->pd, &attr) && errno == EINVAL,
	       "a megabyte of inline data: EINVAL");
	attr = good;
	attr.qp_type = IBV_QPT_RAW_PACKET;
	tap_ok(!ibv_create_qp(pair->pd, &attr) && errno == EOPNOTSUPP,
	       "a QP type that there is not: EOPNOTSUPP");
	tap_ok(!ibv_create_cq(pair->ctx, pair->attr.max_cqe + 1, NULL, NULL, 0) &&
	       errno == EINVAL, "a larger CQ: EINVAL");
	tap_ok(!ibv_create_cq(pair->ctx, 0, NULL, NULL, 0) && errno == EINVAL,
	       "an empty CQ: EINVAL");
}

/* more than the smallest ring of a CQ holds */
#define FILLING	20

/*
 * Posts FILLING requests. When it returns, all but the last have completed: that one is
 * fenced behind a READ, and its data has arrived.
 */
static void fill_cq(struct pair *pair, uint64_t wr_id)
{
	volatile uint8_t *last = pair->b.buf + 100;
	struct request request;
	int i;

	*last = 0;
	*pair->a.buf = 1;
	for (i = 0; i < FILLING; i++) {
		request = write_request(pair, wr_id + i);
		if (i == FILLING - 2) {
			request.opcode = IBV_WR_RDMA_READ;
			request.local += 200;
		} else if (i == FILLING - 1) {
			request.flags = IBV_SEND_FENCE;
			request.remote += 100;
		}
		if (post(&pair->a, &request))
			tap_bail("cannot post");
	}
	while (!*last)
		;
}

/* Resizing keeps the completions that are in the ring. */
static void test_resize(struct pair *pair)
{
	static const int sizes[] = { 64, 1000, 5, 300, 8, 4096, 16 };
	struct ibv_cq *cq = pair->a.send_cq;
	uint64_t wr_id = 0, polled = 0;
	struct request request;
	struct ibv_wc wc;
	size_t i;
	int n;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		/* Different fill and index each time, across many wraps. */
		for (n = 0; n < 37; n++) {
			request = write_request(pair, wr_id++);
			if (post(&pair->a, &request))
				break;
			if (n < 34 &&
			    (!wait_wc(cq, &wc) || wc.wr_id != polled++))
				break;
		}
		tap_is(n, 37, "resize to %d: traffic before", sizes[i]);
		tap_is(ibv_resize_cq(cq, sizes[i]), 0, "resize to %d",
		       sizes[i]);
		tap_ok(cq->cqe >= sizes[i], "resize to %d: %d entries",
		       sizes[i], cq->cqe);
		while (polled < wr_id && wait_wc(cq, &wc) &&
		       wc.wr_id == polled && !wc.status)
			polled++;
		tap_is(polled, wr_id, "resize to %d: all completions, in order",
		       sizes[i]);
		tap_is(ibv_poll_cq(cq, 1, &wc), 0, "resize to %d: no others",
		       sizes[i]);
	}

	fill_cq(pair, 100);
	tap_is(ibv_resize_cq(cq, 2), EINVAL,
	       "resize below what waits in the CQ: EINVAL");
	tap_is(ibv_resize_cq(cq, pair->attr.max_cqe + 1), EINVAL,
	       "resize beyond the device's limit: EINVAL");
	for (n = 0; n < FILLING && wait_wc(cq, &wc) && wc.wr_id == 100u + n; n++)
		;
	tap_is(n, FILLING, "a CQ that could not be resized goes on");
	tap_is(ibv_resize_cq(cq, pair->config.send_wr), 0, "resize back");
}

/* Receives of side b so far; they are numbered from 1. */
static atomic_uint posted;

/* Posts receives until that fails because the QP is in RESET. */
static void *post_receives(void *arg)
{
	struct pair *pair = arg;
	int err = 0;

	while (err != EINVAL) {
		err = post_receive(&pair->b, posted + 1, pair->b.buf, 8,
				   pair->b.mr->lkey);
		posted += !err;
	}
	return NULL;
}

/* Resets the QP while another thread posts receives. */
static void reset_under_posts(struct pair *pair)
{
	pthread_t thread;

	posted = 0;
	if (pthread_create(&thread, NULL, post_receives, pair))
		tap_bail("pthread_create");
	while (posted < 16)
		;
	if (modify_to(&pair->b, IBV_QPS_RESET) || modify_to(&pair->a, IBV_QPS_RESET))
		tap_bail("cannot reset");
	pthread_join(thread, NULL);
}

/*
 * After such a reset the receive queue must be empty, of receives posted meanwhile,
 * too.
 */
static void test_reset_race(struct ibv_context *ctx)
{
	struct pair_config config = pair_defaults;
	struct pair pair = {};
	struct request request;
	struct ibv_wc wc;
	int i;

	config.recv_wr = 16384;
	config.rnr_retry = 0;
	pair_open(&pair, ctx, &config);
	for (i = 0; i < 50; i++) {
		pair_connect(&pair);
		reset_under_posts(&pair);
		pair_connect(&pair);
		request = write_request(&pair, 1);
		request.opcode = IBV_WR_SEND;
		if (post(&pair.a, &request) || !wait_wc(pair.a.send_cq, &wc))
			tap_bail("a message did not end");
		if (wc.status != IBV_WC_RNR_RETRY_EXC_ERR)
			break;
		modify_to(&pair.a, IBV_QPS_RESET);
		modify_to(&pair.b, IBV_QPS_RESET);
	}
	if (!tap_is(i, 50, "reset while another thread posts: the queue is empty"))
		tap_diag("status %d; %u had been posted", wc.status, posted);
	pair_close(&pair);
}

/* Two QPs on one CQ: one is destroyed with completions in the ring. */
static void test_clean(struct ibv_context *ctx)
{
	struct pair one = {}, two = {};
	struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq,
		.cap = { 16, 16, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
	};
	struct side *sides[] = { &one.a, &two.a };
	struct pair *pairs[] = { &one, &two };
	struct request request;
	struct ibv_wc wc;
	int ring = 1, i, n;

	/* It has a power of two of entries, and some of them are the provider's own. */
	while (ring <= cq->cqe)
		ring *= 2;
	for (i = 0; i < 2; i++) {
		pair_open(pairs[i], ctx, &pair_defaults);
		ibv_destroy_qp(sides[i]->qp);
		sides[i]->qp = ibv_create_qp(pairs[i]->pd, &attr);
		if (!sides[i]->qp)
			tap_bail("ibv_create_qp: %s", strerror(errno));
		pair_connect(pairs[i]);
	}
	/*
	 * Go to ten entries before the ring's end, so that the moved completions cross
	 * it.
	 */
	for (n = 0; n < ring - 10; n++) {
		request = write_request(&two, n);
		if (post(&two.a, &request) || !wait_wc(cq, &wc))
			tap_bail("a write did not end");
	}
	/* 1, 100, 2, 101, ...; each waits until the write before has arrived. */
	for (n = 0; n < 10; n++)
		for (i = 0; i < 2; i++) {
			request = write_request(pairs[i], i * 100 + n);
			request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
			post_receive(&pairs[i]->b, 0, NULL, 0, 0);
			if (post(sides[i], &request) ||
			    !wait_wc(pairs[i]->b.recv_cq, &wc))
				tap_bail("a write did not arrive");
		}
	tap_is(ibv_destroy_qp(one.a.qp), 0, "destroy a QP with completions");
	for (n = 0; n < 10; n++)
		if (!wait_wc(cq, &wc) || wc.wr_id != 100u + n ||
		    wc.qp_num != two.a.qp->qp_num)
			break;
	tap_is(n, 10, "the other QP's completions are there, in order");
	tap_is(ibv_poll_cq(cq, 1, &wc), 0, "the destroyed QP's are not");
	for (n = 0; n < 200; n++) {
		request = write_request(&two, 500 + n);
		if (post(&two.a, &request) || !wait_wc(cq, &wc) ||
		    wc.wr_id != 500u + n)
			break;
	}
	tap_is(n, 200, "and the CQ goes on");

	one.a.qp = ibv_create_qp(one.pd, &attr);
	pair_close(&one);
	pair_close(&two);
	tap_is(ibv_destroy_cq(cq), 0, "destroy the CQ");
}

static void *counted_alloc(struct ibv_pd *pd, void *context, size_t size,
			   size_t alignment, uint64_t type)
{
	void *memory = NULL;

	(void)pd;
	(void)type;
	++*(int *)context;
	return posix_memalign(&memory, alignment, size) ? NULL : memory;
}

static void counted_free(struct ibv_pd *pd, void *context, void *memory,
			 uint64_t type)
{
	(void)pd;
	(void)type;
	--*(int *)context;
	free(memory);
}

/*
 * A parent domain is a PD, so another one may contain it. The flag without a name in older
 * versions of libibverbs, ALLOW_CC_UNPROTECTED_ALLOC, asks for nothing.
 */
static void test_nested(struct ibv_pd *parent, struct ibv_pd *pd)
{
	struct ibv_parent_domain_init_attr attr = { .pd = parent, .comp_mask = 1 << 2 };
	struct ibv_pd *nested = ibv_alloc_parent_domain(pd->context, &attr);
	struct ibv_mr *mr;
	char byte;

	if (!tap_ok(nested, "a parent domain of a parent domain")) {
		tap_diag("%s", strerror(errno));
		return;
	}
	mr = ibv_reg_mr(nested, &byte, sizeof(byte), IBV_ACCESS_LOCAL_WRITE);
	tap_ok(mr, "registers memory");
	tap_is(ibv_dealloc_pd(pd), EBUSY, "the PD within both is busy");
	tap_is(ibv_dereg_mr(mr), 0, "deregister it");
	tap_is(ibv_dealloc_pd(nested), 0, "deallocate that parent domain");
	attr.comp_mask = 1 << 3;
	errno = 0;
	tap_ok(!ibv_alloc_parent_domain(pd->context, &attr) && errno == EOPNOTSUPP,
	       "a flag that has no meaning yet: EOPNOTSUPP");
}

static void test_parent_domain(struct ibv_context *ctx)
{
	struct ibv_td_init_attr td_attr = {};
	struct ibv_td *td = ibv_alloc_td(ctx, &td_attr);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	int live = 0;
	struct ibv_parent_domain_init_attr attr = {
		.pd = pd, .td = td,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = counted_alloc, .free = counted_free,
		.pd_context = &live,
	};
	struct ibv_pd *parent = ibv_alloc_parent_domain(ctx, &attr);
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr qp_attr = {
		.send_cq = cq, .recv_cq = cq,
		.cap = { 16, 16, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp;

	if (!tap_ok(td && parent, "a parent domain with thread domain and allocator"))
		tap_bail("%s", strerror(errno));
	qp = ibv_create_qp(parent, &qp_attr);
	tap_ok(qp && live > 0, "a QP has its memory from the allocator");
	tap_is(ibv_dealloc_pd(pd), EBUSY, "its PD is busy");
	tap_is(ibv_dealloc_td(td), EBUSY, "its thread domain is busy");
	tap_is(ibv_dealloc_pd(parent), EBUSY,
	       "a parent domain whose memory a QP has is busy");
	tap_is(ibv_destroy_qp(qp), 0, "destroy the QP");
	tap_is(live, 0, "and the memory is given back");
	test_nested(parent, pd);
	tap_is(ibv_dealloc_pd(parent), 0, "deallocate the parent domain");
	tap_is(ibv_dealloc_td(td), 0, "deallocate the thread domain");
	tap_is(ibv_dealloc_pd(pd), 0, "deallocate the PD");
	tap_is(ibv_destroy_cq(cq), 0, "destroy the CQ");
}

/* A failed request frees its own place in the queue, and no other. */
static void test_places(struct pair *pair)
{
	struct request request = write_request(pair, 0);
	uint32_t n, round, depth = pair->a.cap.max_recv_wr, wrong = 0;
	struct ibv_wc wc;

	pair_reset(pair);
	modify_to(&pair->a, IBV_QPS_ERR);
	for (round = 0; round < 3 && !wrong; round++) {
		for (n = 0; n < depth; n++)
			wrong += post_receive(&pair->a, n, pair->a.buf, 8,
					      pair->a.mr->lkey) != 0;
		for (n = 0; n < depth && !wrong; n++)
			wrong += !wait_wc(pair->a.recv_cq, &wc) || wc.wr_id != n ||
				 wc.status != IBV_WC_WR_FLUSH_ERR;
		for (n = 0; n < pair->a.cap.max_send_wr; n++)
			wrong += post(&pair->a, &request) != 0;
		for (n = 0; n < pair->a.cap.max_send_wr && !wrong; n++)
			wrong += !wait_wc(pair->a.send_cq, &wc) ||
				 wc.status != IBV_WC_WR_FLUSH_ERR;
	}
	tap_is(wrong, 0, "in ERR both queues take what they hold, again and again");
	pair_reset(pair);
}

struct kept_memory {
	void *start;
	size_t size;
};

static void *kept_alloc(struct ibv_pd *pd, void *context, size_t size,
			size_t alignment, uint64_t type)
{
	struct kept_memory *kept = context;

	(void)pd;
	(void)type;
	kept->size = size;
	return posix_memalign(&kept->start, alignment, size) ? NULL : kept->start;
}

static void kept_free(struct ibv_pd *pd, void *context, void *memory,
		      uint64_t type)
{
	(void)pd;
	(void)context;
	(void)type;
	free(memory);
}

#define MAGIC	0x5ca1ab1e0ddba11ull

/* The opcode of the send WQE with this wr_id, or NULL. */
static uint8_t *find_opcode(struct kept_memory *ring, uint64_t wr_id)
{
	uint8_t *p = ring->start;
	size_t i;

	for (i = 0; i + 64 <= ring->size; i += 8)
		if (!memcmp(p + i + 8, &wr_id, sizeof(wr_id)))
			return p + i;
	return NULL;
}

/*
 * A program overwrites an opcode in its send queue with one that looks like a
 * receive's: the error must be the send's, and the receive queue must not change.
 */
static void test_scribbled(struct ibv_context *ctx)
{
	struct kept_memory ring = {};
	struct ibv_parent_domain_init_attr attr = {
		.pd = ibv_alloc_pd(ctx),
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = kept_alloc, .free = kept_free, .pd_context = &ring,
	};
	struct pair pair = { .pd = ibv_alloc_parent_domain(ctx, &attr) };
	struct request request;
	uint8_t *opcode;
	struct ibv_wc wc;
	uint32_t n;

	if (!pair.pd)
		tap_bail("ibv_alloc_parent_domain: %s", strerror(errno));
	pair_open(&pair, ctx, &pair_defaults);
	/* @ring is the memory of the QP that was made last, b's. */
	pair_connect(&pair);
	modify_to(&pair.b, IBV_QPS_SQD);
	request = write_request(&pair, MAGIC);
	tap_is(post(&pair.b, &request), 0, "posted in SQD");
	opcode = find_opcode(&ring, MAGIC);
	if (!opcode)
		tap_bail("the WQE is not where it is expected");
	*opcode = 0x81;
	modify_to(&pair.b, IBV_QPS_RTS);
	expect_wc(pair.b.send_cq, MAGIC, IBV_WC_LOC_QP_OP_ERR, &wc,
		  "an opcode like a receive's: LOC_QP_OP_ERR");
	for (n = 0; n < pair.b.cap.max_recv_wr; n++)
		if (post_receive(&pair.b, n, pair.b.buf, 8, pair.b.mr->lkey) ||
		    !wait_wc(pair.b.recv_cq, &wc) || wc.wr_id != n)
			break;
	tap_is(n, pair.b.cap.max_recv_wr, "and the receive queue has all its places");
	pair_close(&pair);
	if (ibv_dealloc_pd(pair.pd) || ibv_dealloc_pd(attr.pd))
		tap_bail("cannot clean up");
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;
	struct pair pair = {};
	struct ibv_context *ctx;

	ctx = open_nic(argc > 1 ? argv[1] : NULL, &pair.attr);
	config.send_wr = 2 * FILLING;
	pair_open(&pair, ctx, &config);
	test_states(&pair);
	test_elsewhere(&pair);
	test_full(&pair);
	test_bad_wr(&pair);
	test_limits(&pair);
	test_resize(&pair);
	test_places(&pair);
	pair_close(&pair);
	test_clean(ctx);
	test_reset_race(ctx);
	test_parent_domain(ctx);
	test_scribbled(ctx);
	ibv_close_device(ctx);
	return tap_done();
}
