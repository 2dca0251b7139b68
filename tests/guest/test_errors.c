// SPDX-License-Identifier: GPL-2.0
/*
 * Requests that fail, and how either side learns of it (HWI 12). After each case memory
 * is unchanged, both QPs are in the right state, and after a reset both work again.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "pair.h"
#include "tap.h"

#define LENGTH	3000
#define NO_RECV	((enum ibv_wc_status)-1)

struct error_case {
	const char *name;
	enum ibv_wr_opcode opcode;
	/* makes one field of a valid request wrong */
	void (*spoil)(struct pair *pair, struct request *request);
	enum ibv_wc_status send_status;
	enum ibv_wc_status recv_status;		/* NO_RECV: no receive is consumed */
	enum ibv_qp_state responder_state;
	int event;				/* at the responder; -1: none */
};

/* Objects of another PD, and MRs with fewer rights. */
static struct ibv_pd *other_pd;
static struct ibv_mr *other_mr, *no_remote, *read_only;
static uint8_t *other_buf;

static void lkey_unknown(struct pair *pair, struct request *request)
{
	(void)pair;
	request->lkey ^= 0x40;
}

static void lkey_other_pd(struct pair *pair, struct request *request)
{
	(void)pair;
	request->lkey = other_mr->lkey;
	request->local = other_buf;
}

/* One packet only: with more, those before the bad byte may be sent. */
static void local_beyond_end(struct pair *pair, struct request *request)
{
	request->length = 512;
	request->local = pair->a.buf + pair->config.buffer_size -
			 request->length + 1;
}

static void local_before_start(struct pair *pair, struct request *request)
{
	request->local = pair->a.buf - 1;
}

static void local_read_only(struct pair *pair, struct request *request)
{
	(void)pair;
	request->lkey = read_only->lkey;
}

static void rkey_unknown(struct pair *pair, struct request *request)
{
	(void)pair;
	request->rkey ^= 0x40;
}

/* One packet with the whole request: then the receive fails with the error, too. */
static void packet_rkey_unknown(struct pair *pair, struct request *request)
{
	request->length = 1024;
	rkey_unknown(pair, request);
}

static void rkey_other_pd(struct pair *pair, struct request *request)
{
	(void)pair;
	request->rkey = other_mr->rkey;
	request->remote = (uintptr_t)other_buf;
}

static void rkey_no_rights(struct pair *pair, struct request *request)
{
	(void)pair;
	request->rkey = no_remote->rkey;
}

static void remote_beyond_end(struct pair *pair, struct request *request)
{
	/* Atomics need eight aligned bytes, or the alignment would be the error. */
	request->remote = (uintptr_t)pair->b.buf + pair->config.buffer_size -
			  request->length + (request->length == 8 ? 8 : 1);
}

static void packet_beyond_end(struct pair *pair, struct request *request)
{
	request->length = 512;
	remote_beyond_end(pair, request);
}

static void remote_before_start(struct pair *pair, struct request *request)
{
	request->remote = (uintptr_t)pair->b.buf - 1;
}

static void remote_wraps(struct pair *pair, struct request *request)
{
	(void)pair;
	request->remote = UINT64_MAX - request->length / 2;
}

static void packet(struct pair *pair, struct request *request)
{
	(void)pair;
	request->length = 1;
}

static void remote_misaligned(struct pair *pair, struct request *request)
{
	(void)pair;
	request->remote += 4;
}

static void unspoiled(struct pair *pair, struct request *request)
{
	(void)pair;
	(void)request;
}

#define LOCAL(what, op, fn) \
	{ what, op, fn, IBV_WC_LOC_PROT_ERR, NO_RECV, IBV_QPS_RTS, -1 }
#define REMOTE(what, op, fn) \
	{ what, op, fn, IBV_WC_REM_ACCESS_ERR, NO_RECV, IBV_QPS_ERR, \
	  IBV_EVENT_QP_ACCESS_ERR }

#define REMOTE_IMM(what, fn) \
	{ what, IBV_WR_RDMA_WRITE_WITH_IMM, fn, IBV_WC_REM_ACCESS_ERR, \
	  IBV_WC_LOC_ACCESS_ERR, IBV_QPS_ERR, -1 }

static const struct error_case cases[] = {
	LOCAL("send: unknown lkey", IBV_WR_SEND, lkey_unknown),
	LOCAL("send: lkey of another PD", IBV_WR_SEND, lkey_other_pd),
	LOCAL("send: beyond the end", IBV_WR_SEND, local_beyond_end),
	LOCAL("send: before the start", IBV_WR_SEND, local_before_start),
	LOCAL("write: unknown lkey", IBV_WR_RDMA_WRITE, lkey_unknown),
	LOCAL("write: beyond the end", IBV_WR_RDMA_WRITE, local_beyond_end),
	LOCAL("read: unknown lkey", IBV_WR_RDMA_READ, lkey_unknown),
	LOCAL("read: into memory without local write", IBV_WR_RDMA_READ,
	      local_read_only),
	LOCAL("atomic: lkey of another PD", IBV_WR_ATOMIC_FETCH_AND_ADD,
	      lkey_other_pd),
	LOCAL("atomic: into memory without local write",
	      IBV_WR_ATOMIC_CMP_AND_SWP, local_read_only),

	REMOTE("write: unknown rkey", IBV_WR_RDMA_WRITE, rkey_unknown),
	REMOTE("write: rkey of another PD", IBV_WR_RDMA_WRITE, rkey_other_pd),
	REMOTE("write: no remote write", IBV_WR_RDMA_WRITE, rkey_no_rights),
	REMOTE("write: beyond the end", IBV_WR_RDMA_WRITE, remote_beyond_end),
	REMOTE("write: before the start", IBV_WR_RDMA_WRITE,
	       remote_before_start),
	REMOTE("write: around the end of the address space",
	       IBV_WR_RDMA_WRITE, remote_wraps),
	REMOTE("write with immediate, three packets: unknown rkey",
	       IBV_WR_RDMA_WRITE_WITH_IMM, rkey_unknown),
	REMOTE_IMM("write with immediate, a packet: unknown rkey",
		   packet_rkey_unknown),
	REMOTE_IMM("write with immediate, a packet: beyond the end",
		   packet_beyond_end),
	REMOTE("read: unknown rkey", IBV_WR_RDMA_READ, rkey_unknown),
	REMOTE("read: rkey of another PD", IBV_WR_RDMA_READ, rkey_other_pd),
	REMOTE("read: no remote read", IBV_WR_RDMA_READ, rkey_no_rights),
	REMOTE("read: beyond the end", IBV_WR_RDMA_READ, remote_beyond_end),
	REMOTE("atomic: unknown rkey", IBV_WR_ATOMIC_FETCH_AND_ADD,
	       rkey_unknown),
	REMOTE("atomic: no remote atomic", IBV_WR_ATOMIC_CMP_AND_SWP,
	       rkey_no_rights),
	REMOTE("atomic: beyond the end", IBV_WR_ATOMIC_FETCH_AND_ADD,
	       remote_beyond_end),
	{ "atomic: not aligned", IBV_WR_ATOMIC_FETCH_AND_ADD,
	  remote_misaligned, IBV_WC_REM_INV_REQ_ERR, NO_RECV, IBV_QPS_ERR,
	  IBV_EVENT_QP_REQ_ERR },
};

static struct request good_request(const struct pair *pair,
				   enum ibv_wr_opcode opcode)
{
	bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
		      opcode == IBV_WR_ATOMIC_CMP_AND_SWP;

	return (struct request){
		.opcode = opcode, .wr_id = 11,
		.local = pair->a.buf,
		.length = atomic ? 8 : LENGTH,
		.lkey = pair->a.mr->lkey,
		.remote = (uintptr_t)pair->b.buf,
		.rkey = pair->b.mr->rkey,
		.compare_add = 1,
	};
}

static bool memory_untouched(const struct pair *pair)
{
	return is_filled(pair->a.buf, pair->config.buffer_size, 1) &&
	       is_filled(pair->b.buf, pair->config.buffer_size, 2) &&
	       is_filled(other_buf, 4096, 3);
}

/* After a reset both QPs work, and no old completion is in the CQs. */
static void check_alive(struct pair *pair, const char *name)
{
	struct request request = good_request(pair, IBV_WR_SEND);
	struct ibv_wc wc = {};
	bool good;

	pair_reset(pair);
	post_receive(&pair->b, 12, pair->b.buf, LENGTH, pair->b.mr->lkey);
	good = !post(&pair->a, &request) && wait_wc(pair->a.send_cq, &wc) &&
	       wc.wr_id == 11 && wc.status == IBV_WC_SUCCESS &&
	       wait_wc(pair->b.recv_cq, &wc) && wc.wr_id == 12 &&
	       wc.status == IBV_WC_SUCCESS;
	if (!good)
		tap_diag("%s: wr_id %llu, %s", name,
			 (unsigned long long)wc.wr_id,
			 ibv_wc_status_str(wc.status));
	tap_ok(good && is_filled(pair->b.buf, LENGTH, 1),
	       "%s: works again after a reset", name);
}

static void check_receive(struct pair *pair, const struct error_case *c)
{
	struct ibv_wc wc;

	if (c->recv_status != NO_RECV)
		expect_wc(pair->b.recv_cq, 21, c->recv_status, &wc,
			  "receive that it hit");
	else if (c->responder_state == IBV_QPS_ERR)
		expect_wc(pair->b.recv_cq, 21, IBV_WC_WR_FLUSH_ERR, &wc,
			  "receive not consumed, flushed");
	else
		tap_is(ibv_poll_cq(pair->b.recv_cq, 1, &wc), 0,
		       "receive not consumed");
}

static void run_case(struct pair *pair, const struct error_case *c)
{
	struct request request = good_request(pair, c->opcode);
	struct request next = request;
	struct ibv_wc wc;

	tap_diag("%s", c->name);
	fill(pair->a.buf, pair->config.buffer_size, 1);
	fill(pair->b.buf, pair->config.buffer_size, 2);
	fill(other_buf, 4096, 3);
	c->spoil(pair, &request);
	next.opcode = IBV_WR_RDMA_WRITE;
	next.length = 0;
	next.wr_id = 12;

	post_receive(&pair->b, 21, pair->b.buf, LENGTH, pair->b.mr->lkey);
	if (post(&pair->a, &request) || post(&pair->a, &next))
		tap_bail("ibv_post_send refused");
	expect_wc(pair->a.send_cq, 11, c->send_status, &wc, c->name);
	expect_wc(pair->a.send_cq, 12, IBV_WC_WR_FLUSH_ERR, &wc,
		  "the request after it is flushed");
	tap_is(query_state(&pair->a), IBV_QPS_ERR, "state of the requester");
	tap_is(query_state(&pair->b), c->responder_state,
	       "state of the responder");
	if (c->event >= 0)
		expect_event(pair->ctx, c->event, pair->b.qp,
			     "event at the responder");
	else
		tap_ok(no_event(pair->ctx), "no event");
	check_receive(pair, c);
	tap_ok(memory_untouched(pair), "memory untouched");
	check_alive(pair, c->name);
}

/* Rights of the responder's QP, whatever the MR allows. */
static void test_qp_rights(struct ibv_context *ctx)
{
	static const struct error_case denied[] = {
		REMOTE("write: QP without remote write", IBV_WR_RDMA_WRITE,
		       unspoiled),
		REMOTE_IMM("write with immediate, a packet: QP without remote write",
			   packet),
		REMOTE("read: QP without remote read", IBV_WR_RDMA_READ,
		       unspoiled),
		REMOTE("atomic: QP without remote atomic",
		       IBV_WR_ATOMIC_FETCH_AND_ADD, unspoiled),
	};
	struct pair_config config = pair_defaults;
	struct pair pair = {};
	size_t i;

	config.qp_access = IBV_ACCESS_LOCAL_WRITE;
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	for (i = 0; i < sizeof(denied) / sizeof(denied[0]); i++)
		run_case(&pair, &denied[i]);
	pair_close(&pair);
}

static void flush_events(struct pair *pair)
{
	struct ibv_async_event event;

	while (!no_event(pair->ctx)) {
		if (ibv_get_async_event(pair->ctx, &event))
			tap_bail("ibv_get_async_event");
		ibv_ack_async_event(&event);
	}
}

static void test_receive_too_short(struct pair *pair)
{
	struct request request = good_request(pair, IBV_WR_SEND);
	struct ibv_wc wc;

	post_receive(&pair->b, 21, pair->b.buf, LENGTH - 1, pair->b.mr->lkey);
	post(&pair->a, &request);
	expect_wc(pair->a.send_cq, 11, IBV_WC_REM_INV_REQ_ERR, &wc,
		  "message longer than the receive: requester");
	expect_wc(pair->b.recv_cq, 21, IBV_WC_LOC_LEN_ERR, &wc,
		  "message longer than the receive: responder");
	tap_is(query_state(&pair->b), IBV_QPS_ERR,
	       "message longer than the receive: state of the responder");
	flush_events(pair);
	check_alive(pair, "message longer than the receive");
}

static void test_receive_bad_lkey(struct pair *pair)
{
	struct request request = good_request(pair, IBV_WR_SEND);
	struct ibv_wc wc;

	post_receive(&pair->b, 21, pair->b.buf, LENGTH,
		     pair->b.mr->lkey ^ 0x40);
	post(&pair->a, &request);
	expect_wc(pair->a.send_cq, 11, IBV_WC_REM_OP_ERR, &wc,
		  "receive with a bad lkey: requester");
	expect_wc(pair->b.recv_cq, 21, IBV_WC_LOC_PROT_ERR, &wc,
		  "receive with a bad lkey: responder");
	tap_is(query_state(&pair->b), IBV_QPS_ERR,
	       "receive with a bad lkey: state of the responder");
	flush_events(pair);
	check_alive(pair, "receive with a bad lkey");
}

/* In ERR, outstanding requests are flushed, and so are those posted later. */
static void test_flush(struct pair *pair)
{
	struct request request = good_request(pair, IBV_WR_RDMA_WRITE);
	struct ibv_wc wc;
	int i;

	for (i = 0; i < 3; i++)
		post_receive(&pair->b, 30 + i, pair->b.buf, 8,
			     pair->b.mr->lkey);
	if (modify_to(&pair->b, IBV_QPS_ERR) || modify_to(&pair->a, IBV_QPS_ERR))
		tap_bail("cannot modify to ERR");
	tap_is(post_receive(&pair->b, 33, pair->b.buf, 8, pair->b.mr->lkey), 0,
	       "receive accepted in ERR");
	for (i = 0; i < 4; i++)
		expect_wc(pair->b.recv_cq, 30 + i, IBV_WC_WR_FLUSH_ERR, &wc,
			  "receive flushed, in order");
	for (i = 0; i < 3; i++) {
		request.wr_id = 40 + i;
		tap_is(post(&pair->a, &request), 0, "request accepted in ERR");
	}
	for (i = 0; i < 3; i++)
		expect_wc(pair->a.send_cq, 40 + i, IBV_WC_WR_FLUSH_ERR, &wc,
			  "request flushed, in order");
	check_alive(pair, "flush");
}

/*
 * A completion in error has the opcode that was posted, though a device need not say it:
 * there are programs that look at the opcode before the status.
 */
static void test_flush_opcodes(struct pair *pair)
{
	static const struct {
		enum ibv_wr_opcode posted;
		enum ibv_wc_opcode completed;
	} opcodes[] = {
		{ IBV_WR_SEND, IBV_WC_SEND },
		{ IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE },
		{ IBV_WR_RDMA_READ, IBV_WC_RDMA_READ },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD },
	};
	struct request request;
	bool sends, recvs = true;
	struct ibv_wc wc;
	size_t i, round;

	if (modify_to(&pair->b, IBV_QPS_ERR) || modify_to(&pair->a, IBV_QPS_ERR))
		tap_bail("cannot modify to ERR");
	for (i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		request = good_request(pair, opcodes[i].posted);
		sends = true;
		for (round = 0; sends && recvs && round < 64; round++) {
			sends = !post(&pair->a, &request) &&
				wait_wc(pair->a.send_cq, &wc) && !wc.wc_flags &&
				wc.opcode == opcodes[i].completed;
			recvs = !post_receive(&pair->b, 1, NULL, 0, 0) &&
				wait_wc(pair->b.recv_cq, &wc) && !wc.wc_flags &&
				wc.opcode == IBV_WC_RECV;
		}
		tap_ok(sends, "flushed, with its opcode: %d", opcodes[i].posted);
	}
	tap_ok(recvs, "flushed, with its opcode: receives");
	check_alive(pair, "flush with opcodes");
}

/* A reset drops outstanding requests without completions. */
static void test_reset(struct pair *pair)
{
	struct ibv_wc wc;

	post_receive(&pair->b, 50, pair->b.buf, 8, pair->b.mr->lkey);
	if (modify_to(&pair->b, IBV_QPS_ERR))
		tap_bail("cannot modify to ERR");
	pair_reset(pair);
	tap_is(ibv_poll_cq(pair->b.recv_cq, 1, &wc), 0,
	       "no completion from before a reset");
	check_alive(pair, "reset");
}

static void test_rnr(struct ibv_context *ctx)
{
	struct pair_config config = pair_defaults;
	struct pair pair = {};
	struct request request;
	struct ibv_wc wc;
	int rounds;

	config.rnr_retry = 2;
	config.min_rnr_timer = 1;
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	fill(pair.a.buf, pair.config.buffer_size, 1);
	request = good_request(&pair, IBV_WR_SEND);
	post(&pair.a, &request);
	expect_wc(pair.a.send_cq, 11, IBV_WC_RNR_RETRY_EXC_ERR, &wc,
		  "no receive, rnr_retry spent");
	tap_is(query_state(&pair.b), IBV_QPS_RTS,
	       "no receive: the responder stays as it is");
	check_alive(&pair, "no receive");
	pair_close(&pair);

	config.rnr_retry = 7;
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	fill(pair.a.buf, pair.config.buffer_size, 1);
	request = good_request(&pair, IBV_WR_SEND);
	post(&pair.a, &request);
	/* Querying the QP takes time, in which the NIC can retry. */
	for (rounds = 0; rounds < 30; rounds++)
		if (query_state(&pair.a) != IBV_QPS_RTS ||
		    ibv_poll_cq(pair.a.send_cq, 1, &wc))
			break;
	tap_is(rounds, 30, "no receive, rnr_retry 7: still trying");
	post_receive(&pair.b, 12, pair.b.buf, LENGTH, pair.b.mr->lkey);
	expect_wc(pair.a.send_cq, 11, IBV_WC_SUCCESS, &wc,
		  "receive posted late: request");
	expect_wc(pair.b.recv_cq, 12, IBV_WC_SUCCESS, &wc,
		  "receive posted late: receive");
	tap_ok(is_filled(pair.b.buf, LENGTH, 1), "receive posted late: data");
	pair_close(&pair);
}

static void check_silence(struct pair *pair, const char *name)
{
	struct request request = good_request(pair, IBV_WR_RDMA_WRITE);
	struct ibv_wc wc;

	fill(pair->a.buf, pair->config.buffer_size, 1);
	fill(pair->b.buf, pair->config.buffer_size, 2);
	post(&pair->a, &request);
	expect_wc(pair->a.send_cq, 11, IBV_WC_RETRY_EXC_ERR, &wc, name);
	tap_ok(is_filled(pair->b.buf, pair->config.buffer_size, 2),
	       "%s: memory untouched", name);
	check_alive(pair, name);
}

/* No answer comes: the peer is in a wrong state, or connected to another QP. */
static void test_silence(struct ibv_context *ctx)
{
	struct pair_config config = pair_defaults;
	struct pair pair = {};

	config.timeout = 8;	/* 1 ms */
	config.retry_cnt = 2;
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	modify_to(&pair.b, IBV_QPS_RESET);
	check_silence(&pair, "peer in RESET");
	modify_to(&pair.b, IBV_QPS_ERR);
	check_silence(&pair, "peer in ERR");
	modify_to(&pair.b, IBV_QPS_RESET);
	modify_to_init(&pair, &pair.b);
	modify_to_rtr(&pair, &pair.b, pair.b.qp->qp_num);
	check_silence(&pair, "peer connected to another QP");
	pair_close(&pair);
}

static void open_others(struct pair *pair)
{
	other_pd = ibv_alloc_pd(pair->ctx);
	other_buf = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!other_pd || other_buf == MAP_FAILED)
		tap_bail("cannot set up");
	other_mr = ibv_reg_mr(other_pd, other_buf, 4096, ALL_ACCESS);
	no_remote = ibv_reg_mr(pair->pd, pair->b.buf, pair->config.buffer_size,
			       IBV_ACCESS_LOCAL_WRITE);
	read_only = ibv_reg_mr(pair->pd, pair->a.buf, pair->config.buffer_size,
			       IBV_ACCESS_REMOTE_READ);
	if (!other_mr || !no_remote || !read_only)
		tap_bail("ibv_reg_mr: %s", strerror(errno));
}

static void close_others(void)
{
	if (ibv_dereg_mr(other_mr) || ibv_dereg_mr(no_remote) ||
	    ibv_dereg_mr(read_only) || ibv_dealloc_pd(other_pd))
		tap_bail("cannot clean up");
}

int main(int argc, char **argv)
{
	struct pair pair = {};
	struct ibv_device_attr attr;
	size_t i;

	struct ibv_context *ctx = open_nic(argc > 1 ? argv[1] : NULL, &attr);

	pair_open(&pair, ctx, &pair_defaults);
	open_others(&pair);
	pair_connect(&pair);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		run_case(&pair, &cases[i]);
	fill(pair.a.buf, pair.config.buffer_size, 1);
	test_receive_too_short(&pair);
	test_receive_bad_lkey(&pair);
	test_flush(&pair);
	test_flush_opcodes(&pair);
	test_reset(&pair);
	test_qp_rights(ctx);
	test_rnr(ctx);
	test_silence(ctx);
	close_others();
	pair_close(&pair);
	ibv_close_device(ctx);
	return tap_done();
}
