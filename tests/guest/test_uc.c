// SPDX-License-Identifier: GPL-2.0
/*
 * Unreliable connections (HWI 12.3): each operation with its data, operations that are
 * refused because they need an answer, messages that are dropped silently, errors that
 * are reported all the same, and windows.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "message.h"
#include "tap.h"
#include "window.h"

#define UC_OPS	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | \
		 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | \
		 IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV)

static struct pair_config uc_config(void)
{
	struct pair_config config = pair_defaults;

	config.type = IBV_QPT_UC;
	return config;
}

static void test_data(struct ibv_context *ctx, enum ibv_mtu mtu)
{
	struct pair_config config = uc_config();
	struct pair pair = {};

	tap_diag("path MTU %d", 128 << mtu);
	config.mtu = mtu;
	config.sge = 16;
	config.inline_data = 200;
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	test_messages(&pair);
	test_message_shapes(&pair);
	tap_ok(no_event(ctx), "no event");
	pair_close(&pair);
}

/* ---- states and attributes ---- */

static int add_attribute(struct pair *pair, struct side *side, int bit,
			 enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {
		.qp_state = state, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = side->qp->qp_num, .max_dest_rd_atomic = 1,
		.max_rd_atomic = 1, .min_rnr_timer = 1, .timeout = 14,
		.retry_cnt = 7, .rnr_retry = 7,
		.ah_attr = {
			.grh = { .dgid = pair->gid,
				 .sgid_index = pair->gid_index, .hop_limit = 1 },
			.is_global = 1, .port_num = 1,
		},
	};
	int mask = state == IBV_QPS_RTR ?
		   IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN :
		   IBV_QP_SQ_PSN;

	return ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | mask | bit);
}

static void test_attributes(struct ibv_context *ctx)
{
	static const struct {
		const char *name;
		enum ibv_qp_state state;
		int bit;
	} of_rc[] = {
		{ "max_dest_rd_atomic", IBV_QPS_RTR, IBV_QP_MAX_DEST_RD_ATOMIC },
		{ "min_rnr_timer", IBV_QPS_RTR, IBV_QP_MIN_RNR_TIMER },
		{ "timeout", IBV_QPS_RTS, IBV_QP_TIMEOUT },
		{ "retry_cnt", IBV_QPS_RTS, IBV_QP_RETRY_CNT },
		{ "rnr_retry", IBV_QPS_RTS, IBV_QP_RNR_RETRY },
		{ "max_rd_atomic", IBV_QPS_RTS, IBV_QP_MAX_QP_RD_ATOMIC },
	};
	struct pair_config config = uc_config();
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct pair pair = {};
	size_t i;

	pair_open(&pair, ctx, &config);
	tap_is(modify_to_init(&pair, &pair.a), 0, "to INIT");
	for (i = 0; i < sizeof(of_rc) / sizeof(of_rc[0]); i++) {
		if (i == 2)
			tap_is(modify_to_rtr(&pair, &pair.a, pair.b.qp->qp_num),
			       0, "to RTR");
		tap_is(add_attribute(&pair, &pair.a, of_rc[i].bit, of_rc[i].state),
		       EINVAL, "an attribute of RC: %s", of_rc[i].name);
	}
	tap_is(modify_to_rts(&pair, &pair.a), 0, "to RTS");
	tap_ok(!ibv_query_qp(pair.a.qp, &attr, IBV_QP_STATE, &init) &&
	       attr.qp_state == IBV_QPS_RTS && init.qp_type == IBV_QPT_UC &&
	       attr.dest_qp_num == pair.b.qp->qp_num &&
	       attr.path_mtu == config.mtu, "what a query says");
	pair_close(&pair);
}

/* ---- operations that need an answer ---- */

static const struct { enum ibv_wr_opcode opcode; uint64_t op; const char *name; } answered[] = {
	{ IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ, "READ" },
	{ IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, "CMP_AND_SWP" },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, "FETCH_AND_ADD" },
	{ IBV_WR_SEND_WITH_INV, IBV_QP_EX_WITH_SEND_WITH_INV, "SEND_WITH_INV" },
};

static void test_refused(struct pair *pair)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)pair->a.buf, .length = 8,
		.lkey = pair->a.mr->lkey,
	};
	struct ibv_send_wr *bad, wr[2] = {
		{ .wr_id = 1, .next = &wr[1], .opcode = IBV_WR_RDMA_WRITE,
		  .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1,
		  .wr.rdma = { (uintptr_t)pair->b.buf, pair->b.mr->rkey } },
		{ .wr_id = 2, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge,
		  .num_sge = 1,
		  .wr.atomic = { .remote_addr = (uintptr_t)pair->b.buf,
				 .rkey = pair->b.mr->rkey } },
	};
	struct ibv_wc wc;
	size_t i;

	for (i = 0; i < sizeof(answered) / sizeof(answered[0]); i++) {
		wr[1].opcode = answered[i].opcode;
		bad = NULL;
		tap_ok(ibv_post_send(pair->a.qp, wr, &bad) == EINVAL &&
		       bad == &wr[1], "%s is refused: EINVAL", answered[i].name);
		expect_wc(pair->a.send_cq, 1, IBV_WC_SUCCESS, &wc,
			  "the write before it is posted");
	}
	tap_is(ibv_poll_cq(pair->a.send_cq, 1, &wc), 0, "and nothing else");
	tap_ok(settle_pair(pair), "the connection goes on");
}

static void test_refused_ops(struct pair *pair)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = pair->a.send_cq, .recv_cq = pair->a.recv_cq,
		.cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_UC, .pd = pair->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};
	struct ibv_qp *qp;
	size_t i;

	for (i = 0; i < sizeof(answered) / sizeof(answered[0]); i++) {
		attr.qp_type = IBV_QPT_UC;
		attr.send_ops_flags = UC_OPS | answered[i].op;
		errno = 0;
		tap_ok(!ibv_create_qp_ex(pair->ctx, &attr) && errno == EOPNOTSUPP,
		       "ibv_wr_*() of %s: EOPNOTSUPP", answered[i].name);
		attr.qp_type = IBV_QPT_RC;
		qp = ibv_create_qp_ex(pair->ctx, &attr);
		tap_ok(qp, "RC has it");
		if (qp)
			ibv_destroy_qp(qp);
	}
}

/* ---- ibv_wr_*() ---- */

static void begin_wr(struct ibv_qp_ex *qp, uint64_t wr_id)
{
	ibv_wr_start(qp);
	qp->wr_id = wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED;
}

static void end_wr(struct pair *pair, uint64_t wr_id, uint32_t length,
		   const char *what)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->a.qp);
	struct ibv_wc wc;

	ibv_wr_set_sge(qp, pair->a.mr->lkey, (uintptr_t)pair->a.buf + 5, length);
	tap_is(ibv_wr_complete(qp), 0, "%s", what);
	expect_wc(pair->a.send_cq, wr_id, IBV_WC_SUCCESS, &wc, what);
}

static void test_wr(struct pair *pair)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->a.qp);
	uint64_t to = (uintptr_t)pair->b.buf + GUARD;
	uint32_t rkey = pair->b.mr->rkey;
	struct ibv_wc wc;
	int i;

	for (i = 0; i < 4; i++) {
		bool write = i >= 2, imm = i & 1;
		const char *name = ((const char *[]){
			"ibv_wr_send", "ibv_wr_send_imm", "ibv_wr_rdma_write",
			"ibv_wr_rdma_write_imm" })[i];

		fill_both(pair);
		if (!write || imm)
			post_receive(&pair->b, 40, (void *)to, 5000,
				     pair->b.mr->lkey);
		begin_wr(qp, 30 + i);
		if (write && imm)
			ibv_wr_rdma_write_imm(qp, rkey, to, htobe32(7));
		else if (write)
			ibv_wr_rdma_write(qp, rkey, to);
		else if (imm)
			ibv_wr_send_imm(qp, htobe32(7));
		else
			ibv_wr_send(qp);
		end_wr(pair, 30 + i, 4000, name);
		if (!write || imm) {
			expect_wc(pair->b.recv_cq, 40, IBV_WC_SUCCESS, &wc, name);
			tap_ok(wc.byte_len == 4000 && (!imm || wc.imm_data == htobe32(7)),
			       "%s: the receive", name);
		}
		tap_ok(settle_pair(pair) &&
		       arrived(pair, &pair->a, 5, &pair->b, GUARD, 4000),
		       "%s: data", name);
	}
}

/* ---- windows ---- */

/* Does a WRITE by this key arrive? Both QPs must stay in RTS either way. */
static bool reaches(struct pair *pair, uint32_t rkey, uint64_t addr,
		    uint32_t length)
{
	uint8_t *at = (uint8_t *)addr;
	struct outcome o;

	fill_both(pair);
	o = ask(pair, IBV_WR_RDMA_WRITE, rkey, addr, length);
	if (o.posted || o.status || !settle_pair(pair) || !no_event(pair->ctx))
		tap_bail("the connection has suffered");
	return arrived(pair, &pair->a, 0, &pair->b, at - pair->b.buf, length);
}

static void test_window(struct pair *pair, const struct api *api,
			enum ibv_mw_type type)
{
	struct ibv_mr *mr = must_reg(pair->pd, pair->b.buf, 8192, BINDABLE);
	struct ibv_mw *mw = must_alloc_mw(pair->pd, type);
	uint64_t addr = (uintptr_t)pair->b.buf + 100;
	int number = type == IBV_MW_TYPE_1 ? 1 : 2;
	struct outcome o;
	uint32_t key;

	must_bind(api, &pair->b, mw, mr, addr, 3000, IBV_ACCESS_REMOTE_WRITE);
	key = mw->rkey;
	tap_ok(reaches(pair, key, addr, 3000), "%s, window of type %d: its range",
	       api->name, number);
	tap_ok(!reaches(pair, key, addr + 1, 3000) &&
	       rest_untouched(pair, &pair->b, 0, 0),
	       "%s, window of type %d: beyond it", api->name, number);
	tap_is(ibv_dereg_mr(mr), EBUSY, "%s, window of type %d: holds its MR",
	       api->name, number);
	if (number == 2) {
		o = invalidate(api, &pair->b, key);
		tap_ok(!o.posted && !o.status && o.opcode == IBV_WC_LOCAL_INV,
		       "%s: LOCAL_INV", api->name);
	} else {
		must_bind(api, &pair->b, mw, NULL, 0, 0, 0);
	}
	tap_ok(!reaches(pair, key, addr, 8) && rest_untouched(pair, &pair->b, 0, 0),
	       "%s, window of type %d: its key is dead", api->name, number);
	tap_is(ibv_dereg_mr(mr), 0, "%s, window of type %d: lets its MR go",
	       api->name, number);
	ibv_dealloc_mw(mw);
}

/* As with RC, a bind's requester is its own responder, so errors are reported. */
static void test_bad_bind(struct pair *pair)
{
	struct ibv_mr *mr = must_reg(pair->pd, pair->b.buf, 4096,
				     IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mw *mw = must_alloc_mw(pair->pd, IBV_MW_TYPE_2);
	uint32_t key = mw->rkey;
	struct outcome o;

	o = bind_window(&apis[1], &pair->b, mw, ibv_inc_rkey(key), mr,
			(uintptr_t)pair->b.buf, 64, IBV_ACCESS_REMOTE_WRITE);
	tap_ok(!o.posted && o.status == IBV_WC_MW_BIND_ERR &&
	       o.syndrome == SYN_RIGHTS, "a bind to an MR without MW_BIND");
	tap_is(query_state(&pair->b), IBV_QPS_ERR, "puts its QP into ERR");
	revive(pair);
	ibv_dealloc_mw(mw);
	ibv_dereg_mr(mr);
}

static void test_windows(struct pair *pair)
{
	size_t i;

	for (i = 0; i < sizeof(apis) / sizeof(apis[0]); i++) {
		test_window(pair, &apis[i], IBV_MW_TYPE_1);
		test_window(pair, &apis[i], IBV_MW_TYPE_2);
	}
	test_bad_bind(pair);
}

/* ---- messages that are dropped silently ---- */

static void rkey_unknown(struct pair *pair, struct request *r)
{
	(void)pair;
	r->rkey ^= 0x40;
}

static void beyond_end(struct pair *pair, struct request *r)
{
	r->remote = (uintptr_t)pair->b.buf + pair->config.buffer_size - r->length + 1;
}

static void too_long(struct pair *pair, struct request *r)
{
	(void)pair;
	r->length += 1;
}

static void too_long_packet(struct pair *pair, struct request *r)
{
	(void)pair;
	r->length = 1001;
}

static void packet_rkey_unknown(struct pair *pair, struct request *r)
{
	rkey_unknown(pair, r);
	r->length = 1000;
}

/* Messages of 3,000 bytes, three packets. A receive of @room bytes is posted. */
static const struct dropped {
	const char *name;
	enum ibv_wr_opcode opcode;
	void (*spoil)(struct pair *pair, struct request *r);
	uint32_t room;		/* 0: no receive at all */
	bool begins;		/* some of the data may be placed */
} dropped[] = {
	{ "write: unknown rkey", IBV_WR_RDMA_WRITE, rkey_unknown, 3000, false },
	{ "write: beyond the end", IBV_WR_RDMA_WRITE, beyond_end, 3000, false },
	{ "write with immediate: unknown rkey", IBV_WR_RDMA_WRITE_WITH_IMM,
	  rkey_unknown, 3000, false },
	{ "write with immediate, one packet: unknown rkey",
	  IBV_WR_RDMA_WRITE_WITH_IMM, packet_rkey_unknown, 3000, false },
	{ "write with immediate: no receive", IBV_WR_RDMA_WRITE_WITH_IMM, NULL, 0,
	  true },
	{ "send: no receive", IBV_WR_SEND, NULL, 0, false },
	{ "send: longer than the receive", IBV_WR_SEND, too_long, 3000, true },
	{ "send, one packet: longer than the receive", IBV_WR_SEND,
	  too_long_packet, 1000, false },
};

static struct request good_request(struct pair *pair, enum ibv_wr_opcode opcode)
{
	return request_at(pair, opcode, 7, 3000);
}

/* The sender succeeds, no event comes, and the next message takes the receive. */
static void drop(struct pair *pair, const struct dropped *c)
{
	struct request r = good_request(pair, c->opcode), next;
	struct ibv_wc wc;

	fill_both(pair);
	if (c->spoil)
		c->spoil(pair, &r);
	if (c->room)
		post_receive(&pair->b, 50, pair->b.buf + GUARD, c->room,
			     pair->b.mr->lkey);
	if (post(&pair->a, &r))
		tap_bail("cannot post");
	expect_wc(pair->a.send_cq, r.wr_id, IBV_WC_SUCCESS, &wc, c->name);
	next = request_at(pair, IBV_WR_SEND_WITH_IMM, 0, 0);
	if (!c->room)
		post_receive(&pair->b, 50, NULL, 0, 0);
	if (post(&pair->a, &next))
		tap_bail("cannot post");
	expect_wc(pair->a.send_cq, next.wr_id, IBV_WC_SUCCESS, &wc,
		  "the next message");
	expect_wc(pair->b.recv_cq, 50, IBV_WC_SUCCESS, &wc,
		  "the next message has the receive");
	tap_ok(wc.opcode == IBV_WC_RECV && !wc.byte_len &&
	       wc.wc_flags == IBV_WC_WITH_IMM && wc.imm_data == next.imm,
	       "and it is the next one");
	tap_ok(rest_untouched(pair, &pair->b, GUARD, c->begins ? 3000 : 0),
	       "%s: memory", c->name);
	tap_ok(no_event(pair->ctx) && query_state(&pair->a) == IBV_QPS_RTS &&
	       query_state(&pair->b) == IBV_QPS_RTS, "%s: nobody is told", c->name);
}

/* A message to a peer that is in another state, or connected to another QP. */
static void drop_absent(struct pair *pair, const char *name)
{
	struct request r = good_request(pair, IBV_WR_RDMA_WRITE);
	struct ibv_wc wc;

	fill_both(pair);
	if (post(&pair->a, &r))
		tap_bail("cannot post");
	expect_wc(pair->a.send_cq, r.wr_id, IBV_WC_SUCCESS, &wc, name);
	tap_ok(rest_untouched(pair, &pair->b, 0, 0), "%s: memory", name);
	tap_is(query_state(&pair->a), IBV_QPS_RTS, "%s: the sender's state", name);
	revive(pair);
	tap_ok(settle_pair(pair), "%s: connected again it works", name);
}

static void test_dropped(struct pair *pair)
{
	size_t i;

	for (i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
		drop(pair, &dropped[i]);
	modify_to(&pair->b, IBV_QPS_ERR);
	drop_absent(pair, "peer in ERR");
	modify_to(&pair->b, IBV_QPS_RESET);
	drop_absent(pair, "peer in RESET");
}

/* A QP drops packets of the other connection type. */
static void test_other_type(struct ibv_context *ctx, enum ibv_qp_type of_a)
{
	struct pair_config config = pair_defaults;
	bool uc = of_a == IBV_QPT_UC;
	struct pair pair = {};
	struct request r;
	struct ibv_wc wc;

	config.timeout = 1;
	config.retry_cnt = 1;
	config.type = of_a;
	pair_open(&pair, ctx, &config);
	pair_close_qp(&pair.b);
	pair.config.type = uc ? IBV_QPT_RC : IBV_QPT_UC;
	pair_open_qp(&pair, &pair.b);
	modify_to_init(&pair, &pair.b);
	modify_to_rtr(&pair, &pair.b, pair.a.qp->qp_num);
	pair.config.type = of_a;
	modify_to_init(&pair, &pair.a);
	modify_to_rtr(&pair, &pair.a, pair.b.qp->qp_num);
	modify_to_rts(&pair, &pair.a);
	fill_both(&pair);
	r = good_request(&pair, IBV_WR_RDMA_WRITE);
	if (post(&pair.a, &r))
		tap_bail("cannot post");
	expect_wc(pair.a.send_cq, r.wr_id,
		  uc ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR, &wc,
		  uc ? "UC to a QP of RC" : "RC to a QP of UC");
	tap_ok(rest_untouched(&pair, &pair.b, 0, 0), "does not arrive");
	pair_close(&pair);
}

/* ---- errors that are reported ---- */

static void test_local_error(struct pair *pair)
{
	struct request r = good_request(pair, IBV_WR_SEND), next = r;
	struct ibv_wc wc;

	r.lkey ^= 0x40;
	next.wr_id++;
	post_receive(&pair->b, 60, pair->b.buf, 3000, pair->b.mr->lkey);
	if (post(&pair->a, &r) || post(&pair->a, &next))
		tap_bail("cannot post");
	expect_wc(pair->a.send_cq, r.wr_id, IBV_WC_LOC_PROT_ERR, &wc,
		  "unknown lkey: the sender is told");
	expect_wc(pair->a.send_cq, next.wr_id, IBV_WC_WR_FLUSH_ERR, &wc,
		  "the request after it is flushed");
	tap_is(query_state(&pair->a), IBV_QPS_ERR, "state of the sender");
	tap_is(query_state(&pair->b), IBV_QPS_RTS, "state of the receiver");
	tap_is(ibv_poll_cq(pair->b.recv_cq, 1, &wc), 0, "the receive waits");
	revive(pair);
}

static void test_receive_bad_lkey(struct pair *pair)
{
	struct request r = good_request(pair, IBV_WR_SEND);
	struct ibv_wc wc;

	post_receive(&pair->b, 61, pair->b.buf, 3000, pair->b.mr->lkey ^ 0x40);
	post_receive(&pair->b, 62, pair->b.buf, 3000, pair->b.mr->lkey);
	if (post(&pair->a, &r))
		tap_bail("cannot post");
	expect_wc(pair->a.send_cq, r.wr_id, IBV_WC_SUCCESS, &wc,
		  "receive with a bad lkey: the sender is not told");
	expect_wc(pair->b.recv_cq, 61, IBV_WC_LOC_PROT_ERR, &wc,
		  "receive with a bad lkey: the receiver is");
	expect_wc(pair->b.recv_cq, 62, IBV_WC_WR_FLUSH_ERR, &wc,
		  "the receive after it is flushed");
	tap_is(query_state(&pair->a), IBV_QPS_RTS, "state of the sender");
	tap_is(query_state(&pair->b), IBV_QPS_ERR, "state of the receiver");
	revive(pair);
}

static void test_flush(struct pair *pair)
{
	struct request r = good_request(pair, IBV_WR_RDMA_WRITE);
	struct ibv_wc wc;

	post_receive(&pair->a, 70, pair->a.buf, 8, pair->a.mr->lkey);
	tap_is(modify_to(&pair->a, IBV_QPS_ERR), 0, "to ERR");
	tap_is(post(&pair->a, &r), 0, "a request is taken in ERR");
	expect_wc(pair->a.send_cq, r.wr_id, IBV_WC_WR_FLUSH_ERR, &wc,
		  "and flushed");
	expect_wc(pair->a.recv_cq, 70, IBV_WC_WR_FLUSH_ERR, &wc,
		  "the receive is flushed");
	revive(pair);
	tap_ok(settle_pair(pair), "works again after a reset");
}

int main(int argc, char **argv)
{
	struct pair_config config = uc_config();
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(argc > 1 ? argv[1] : NULL, &attr);
	struct pair pair = {};

	test_data(ctx, IBV_MTU_1024);
	test_data(ctx, IBV_MTU_256);
	test_data(ctx, IBV_MTU_4096);
	test_attributes(ctx);

	config.send_ops = UC_OPS;
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	test_refused(&pair);
	test_refused_ops(&pair);
	test_wr(&pair);
	test_windows(&pair);
	test_dropped(&pair);
	test_local_error(&pair);
	test_receive_bad_lkey(&pair);
	test_flush(&pair);
	pair_close(&pair);
	test_other_type(ctx, IBV_QPT_UC);
	test_other_type(ctx, IBV_QPT_RC);
	ibv_close_device(ctx);
	return tap_done();
}
