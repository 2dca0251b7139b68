// SPDX-License-Identifier: GPL-2.0
/*
 * The ibv_wr_*() interface and the extended CQ: each operation with its data,
 * batches, aborts, errors that surface at ibv_wr_complete(), threads.
 */
#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "pair.h"
#include "tap.h"

#define ALL_OPS	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | \
		 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | \
		 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
		 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

static uint64_t remote(const struct pair *pair)
{
	return (uintptr_t)pair->b.buf;
}

/* Starts one signaled request. */
static struct ibv_qp_ex *start(struct pair *pair, uint64_t wr_id)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->a.qp);

	ibv_wr_start(qp);
	qp->wr_id = wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	return qp;
}

static void set_sge(struct pair *pair, struct ibv_qp_ex *qp, uint32_t length)
{
	ibv_wr_set_sge(qp, pair->a.mr->lkey, (uintptr_t)pair->a.buf, length);
}

static void finish(struct pair *pair, struct ibv_qp_ex *qp, uint64_t wr_id,
		   const char *what)
{
	struct ibv_wc wc;

	tap_is(ibv_wr_complete(qp), 0, "%s: posted", what);
	expect_wc(pair->a.send_cq, wr_id, IBV_WC_SUCCESS, &wc, what);
}

static void refill(struct pair *pair)
{
	fill(pair->a.buf, pair->config.buffer_size, 5);
	fill(pair->b.buf, pair->config.buffer_size, 6);
}

static void test_write(struct pair *pair)
{
	struct ibv_qp_ex *qp;
	struct ibv_wc wc;

	refill(pair);
	qp = start(pair, 1);
	ibv_wr_rdma_write(qp, pair->b.mr->rkey, remote(pair));
	set_sge(pair, qp, 5000);
	finish(pair, qp, 1, "write");
	tap_ok(is_filled(pair->b.buf, 5000, 5), "write: data");

	refill(pair);
	post_receive(&pair->b, 2, NULL, 0, 0);
	qp = start(pair, 3);
	ibv_wr_rdma_write_imm(qp, pair->b.mr->rkey, remote(pair), htobe32(77));
	set_sge(pair, qp, 3);
	finish(pair, qp, 3, "write with immediate");
	expect_wc(pair->b.recv_cq, 2, IBV_WC_SUCCESS, &wc,
		  "write with immediate: receive");
	tap_ok(wc.imm_data == htobe32(77) && is_filled(pair->b.buf, 3, 5),
	       "write with immediate: data");
}

static void test_send(struct pair *pair)
{
	struct ibv_sge list[3];
	struct ibv_qp_ex *qp;
	struct ibv_wc wc;
	int i;

	refill(pair);
	post_receive(&pair->b, 4, pair->b.buf, 4096, pair->b.mr->lkey);
	qp = start(pair, 5);
	ibv_wr_send(qp);
	for (i = 0; i < 3; i++)
		list[i] = (struct ibv_sge){ (uintptr_t)pair->a.buf + i * 1000,
					    1000, pair->a.mr->lkey };
	ibv_wr_set_sge_list(qp, 3, list);
	finish(pair, qp, 5, "send of three SGEs");
	expect_wc(pair->b.recv_cq, 4, IBV_WC_SUCCESS, &wc, "send: receive");
	tap_ok(wc.byte_len == 3000 && is_filled(pair->b.buf, 3000, 5),
	       "send: data");

	post_receive(&pair->b, 6, pair->b.buf, 4096, pair->b.mr->lkey);
	qp = start(pair, 7);
	ibv_wr_send_imm(qp, htobe32(78));
	finish(pair, qp, 7, "empty send with immediate");
	expect_wc(pair->b.recv_cq, 6, IBV_WC_SUCCESS, &wc,
		  "empty send with immediate: receive");
	tap_ok(wc.byte_len == 0 && wc.imm_data == htobe32(78),
	       "empty send with immediate: what arrived");
}

static void test_inline(struct pair *pair)
{
	char one[] = "one", two[] = "and two";
	struct ibv_data_buf list[] = { { one, 3 }, { two, 7 } };
	struct ibv_qp_ex *qp;

	refill(pair);
	qp = start(pair, 8);
	ibv_wr_rdma_write(qp, pair->b.mr->rkey, remote(pair));
	ibv_wr_set_inline_data(qp, one, 3);
	memset(one, 0, 3);
	finish(pair, qp, 8, "inline data");
	tap_ok(!memcmp(pair->b.buf, "one", 3), "inline data: data");

	memcpy(one, "ONE", 3);
	qp = start(pair, 9);
	ibv_wr_rdma_write(qp, pair->b.mr->rkey, remote(pair));
	ibv_wr_set_inline_data_list(qp, 2, list);
	finish(pair, qp, 9, "list of inline data");
	tap_ok(!memcmp(pair->b.buf, "ONEand two", 10),
	       "list of inline data: data");
}

static void test_read_and_atomics(struct pair *pair)
{
	uint64_t value = 5, got;
	struct ibv_qp_ex *qp;

	refill(pair);
	qp = start(pair, 10);
	ibv_wr_rdma_read(qp, pair->b.mr->rkey, remote(pair));
	set_sge(pair, qp, 2500);
	finish(pair, qp, 10, "read");
	tap_ok(is_filled(pair->a.buf, 2500, 6), "read: data");

	memcpy(pair->b.buf, &value, 8);
	qp = start(pair, 11);
	ibv_wr_atomic_fetch_add(qp, pair->b.mr->rkey, remote(pair), 4);
	set_sge(pair, qp, 8);
	finish(pair, qp, 11, "fetch and add");
	memcpy(&got, pair->a.buf, 8);
	memcpy(&value, pair->b.buf, 8);
	tap_ok(got == 5 && value == 9, "fetch and add: data");

	qp = start(pair, 12);
	ibv_wr_atomic_cmp_swp(qp, pair->b.mr->rkey, remote(pair), 9, 1000);
	set_sge(pair, qp, 8);
	finish(pair, qp, 12, "compare and swap");
	memcpy(&got, pair->a.buf, 8);
	memcpy(&value, pair->b.buf, 8);
	tap_ok(got == 9 && value == 1000, "compare and swap: data");
}

static void add_write(struct pair *pair, struct ibv_qp_ex *qp, uint64_t wr_id)
{
	qp->wr_id = wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, pair->b.mr->rkey, remote(pair));
	set_sge(pair, qp, 1);
}

static void test_batches(struct pair *pair)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->a.qp);
	uint32_t depth = pair->a.cap.max_send_wr;
	struct ibv_wc wc;
	uint32_t i;

	ibv_wr_start(qp);
	for (i = 0; i < depth; i++)
		add_write(pair, qp, i);
	tap_is(ibv_wr_complete(qp), 0, "a batch that fills the queue");
	for (i = 0; i < depth && wait_wc(pair->a.send_cq, &wc) &&
	     wc.wr_id == i; i++)
		;
	tap_is(i, depth, "a batch that fills the queue: completions");

	ibv_wr_start(qp);
	for (i = 0; i < depth + 1; i++)
		add_write(pair, qp, i);
	tap_is(ibv_wr_complete(qp), ENOMEM, "a batch that is too large: ENOMEM");

	ibv_wr_start(qp);
	add_write(pair, qp, 1);
	ibv_wr_abort(qp);
	ibv_wr_start(qp);
	add_write(pair, qp, 99);
	tap_is(ibv_wr_complete(qp), 0, "a batch after an aborted one");
	expect_wc(pair->a.send_cq, 99, IBV_WC_SUCCESS, &wc,
		  "nothing but the last batch was posted");
	tap_is(ibv_poll_cq(pair->a.send_cq, 1, &wc), 0, "and only once");
}

static void test_errors(struct pair *pair)
{
	static char large[4096];
	uint32_t too_many = pair->a.cap.max_send_sge + 1;
	struct ibv_sge list[too_many];
	struct ibv_qp_ex *qp = start(pair, 1);
	struct ibv_wc wc;

	memset(list, 0, sizeof(list));
	ibv_wr_send(qp);
	ibv_wr_set_sge_list(qp, too_many, list);
	tap_is(ibv_wr_complete(qp), EINVAL, "too many SGEs: EINVAL");
	qp = start(pair, 1);
	ibv_wr_send(qp);
	ibv_wr_set_inline_data(qp, large, sizeof(large));
	ibv_wr_send(qp);
	set_sge(pair, qp, 1);
	tap_is(ibv_wr_complete(qp), EINVAL, "too much inline data: EINVAL");
	qp = start(pair, 1);
	ibv_wr_rdma_read(qp, pair->b.mr->rkey, remote(pair));
	ibv_wr_set_inline_data(qp, large, 1);
	tap_is(ibv_wr_complete(qp), EINVAL, "inline read: EINVAL");
	qp = start(pair, 1);
	qp->wr_flags |= IBV_SEND_IP_CSUM;
	ibv_wr_send(qp);
	set_sge(pair, qp, 1);
	tap_is(ibv_wr_complete(qp), EINVAL, "a flag that the NIC does not have: EINVAL");
	tap_is(ibv_poll_cq(pair->a.send_cq, 1, &wc), 0,
	       "nothing of this was posted");
}

static void test_unsupported(struct pair *pair)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = pair->a.send_cq, .recv_cq = pair->a.recv_cq,
		.cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pair->pd, .send_ops_flags = IBV_QP_EX_WITH_TSO,
	};

	tap_ok(!ibv_create_qp_ex(pair->ctx, &attr) && errno == EOPNOTSUPP,
	       "an operation that there is not: EOPNOTSUPP");
	attr.send_ops_flags = 0;
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	tap_ok(!ibv_create_qp_ex(pair->ctx, &attr) && errno == EOPNOTSUPP,
	       "a create flag that there is not: EOPNOTSUPP");
}

#define THREADS		4
#define ROUNDS		300

struct poster {
	struct pair *pair;
	pthread_t thread;
	int number, failures;
};

/* A thread whose requests add 1 to its own counter at the peer; all share one CQ. */
static void *run_poster(void *arg)
{
	struct poster *poster = arg;
	struct pair *pair = poster->pair;
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->a.qp);
	struct ibv_wc wc;
	int i, err;

	for (i = 0; i < ROUNDS; i++) {
		do {
			ibv_wr_start(qp);
			qp->wr_id = 1;
			qp->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_atomic_fetch_add(qp, pair->b.mr->rkey,
						remote(pair) + poster->number * 8, 1);
			ibv_wr_set_sge(qp, pair->a.mr->lkey,
				       (uintptr_t)pair->a.buf + poster->number * 8, 8);
			err = ibv_wr_complete(qp);
		} while (err == ENOMEM);
		if (err || !wait_wc(pair->a.send_cq, &wc) || wc.status)
			poster->failures++;
	}
	return NULL;
}

static void test_threads(struct pair *pair)
{
	struct poster posters[THREADS];
	uint64_t values[THREADS];
	int i, good = 0;

	memset(pair->b.buf, 0, 64);
	for (i = 0; i < THREADS; i++) {
		posters[i] = (struct poster){ .pair = pair, .number = i };
		if (pthread_create(&posters[i].thread, NULL, run_poster,
				   &posters[i]))
			tap_bail("pthread_create");
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(posters[i].thread, NULL);
	memcpy(values, pair->b.buf, sizeof(values));
	for (i = 0; i < THREADS; i++)
		good += values[i] == ROUNDS && !posters[i].failures;
	tap_is(good, THREADS, "threads share a QP and a CQ: nothing lost");
}

static uint64_t device_clock(struct ibv_context *ctx)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

	if (ibv_query_rt_values_ex(ctx, &values) ||
	    values.comp_mask != IBV_VALUES_MASK_RAW_CLOCK)
		return 0;
	return values.raw_clock.tv_sec * 1000000000ull +
	       values.raw_clock.tv_nsec;
}

/* The read functions of an extended CQ, compared with the traffic that was sent. */
static void test_cq_ex(struct pair *pair)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 64,
		.wc_flags = IBV_WC_STANDARD_FLAGS |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(pair->ctx, &attr);
	struct ibv_poll_cq_attr poll_attr = {};
	uint64_t last, ts, end;
	struct ibv_wc wc;
	int i, err, good = 0;

	if (!tap_ok(cq, "an extended CQ with timestamps"))
		return;
	if (ibv_destroy_qp(pair->b.qp))
		tap_bail("ibv_destroy_qp");
	pair->b.qp = ibv_create_qp(pair->pd, &(struct ibv_qp_init_attr){
		.send_cq = pair->b.send_cq, .recv_cq = ibv_cq_ex_to_cq(cq),
		.cap = { 4, 16, 1, 1, 0 }, .qp_type = IBV_QPT_RC });
	if (!pair->b.qp)
		tap_bail("ibv_create_qp: %s", strerror(errno));
	pair_reset(pair);
	tap_is(ibv_start_poll(cq, &poll_attr), ENOENT, "empty: ENOENT");
	last = device_clock(pair->ctx);
	tap_ok(last, "ibv_query_rt_values_ex gives the device's clock");
	for (i = 0; i < 10; i++) {
		struct ibv_qp_ex *qp = start(pair, i);

		post_receive(&pair->b, 100 + i, pair->b.buf, 100,
			     pair->b.mr->lkey);
		ibv_wr_send_imm(qp, htobe32(i));
		set_sge(pair, qp, i + 1);
		if (ibv_wr_complete(qp) || !wait_wc(pair->a.send_cq, &wc))
			tap_bail("cannot send");
	}
	do {
		err = ibv_start_poll(cq, &poll_attr);
	} while (err == ENOENT);
	for (i = 0; !err; i++) {
		ts = ibv_wc_read_completion_ts(cq);
		good += cq->wr_id == 100u + i && cq->status == IBV_WC_SUCCESS &&
			ibv_wc_read_opcode(cq) == IBV_WC_RECV &&
			ibv_wc_read_wc_flags(cq) == IBV_WC_WITH_IMM &&
			ibv_wc_read_imm_data(cq) == htobe32(i) &&
			ibv_wc_read_byte_len(cq) == i + 1u &&
			ibv_wc_read_qp_num(cq) == pair->b.qp->qp_num &&
			ibv_wc_read_vendor_err(cq) == 0 && ts >= last;
		last = ts;
		do {
			err = ibv_next_poll(cq);
		} while (err == ENOENT && i < 9);
	}
	ibv_end_poll(cq);
	end = device_clock(pair->ctx);
	tap_ok(last <= end && end - last < 60000000000ull,
	       "timestamps are on that clock's scale");
	tap_is(good, 10, "an extended CQ: all readers of ten completions");
	if (ibv_destroy_qp(pair->b.qp) ||
	    ibv_destroy_cq(ibv_cq_ex_to_cq(cq)))
		tap_bail("cannot destroy");
	pair->b.qp = ibv_create_qp(pair->pd, &(struct ibv_qp_init_attr){
		.send_cq = pair->b.send_cq, .recv_cq = pair->b.recv_cq,
		.cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC });
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;
	struct pair pair = {};
	struct ibv_context *ctx;

	ctx = open_nic(argc > 1 ? argv[1] : NULL, &pair.attr);
	config.send_ops = ALL_OPS;
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	test_write(&pair);
	test_send(&pair);
	test_inline(&pair);
	test_read_and_atomics(&pair);
	test_batches(&pair);
	test_errors(&pair);
	test_unsupported(&pair);
	test_threads(&pair);
	test_cq_ex(&pair);
	pair_close(&pair);
	ibv_close_device(ctx);
	return tap_done();
}
