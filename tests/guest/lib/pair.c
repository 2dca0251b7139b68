// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pair.h"
#include "tap.h"

/* Long enough for an emulated processor with a busy host under it. */
/* Under paging, one long READ may take a hundred page requests, each some 100 ms. */
#define DEADLINE_S	40
/* After one wait was too long, the next ones are short, so that the test ends. */
#define IMPATIENT_MS	100

#define FIRST_PSN	0xfffff0	/* wraps soon */
/* No connection gets that far; each fourth one wraps. */
#define PSN_STRIDE	(1u << 22)

/*
 * A lost packet is missed after 17 ms. A delayed one takes 1 ms; the rest is for a NIC
 * that waits for its processor: each timeout in that time leaves a retry less for lost
 * packets.
 */
#define IMPAIRED_TIMEOUT	12

const struct pair_config pair_defaults = {
	.type = IBV_QPT_RC,
	.buffer_size = 65536,
	.send_wr = 16, .recv_wr = 16, .sge = 4, .inline_data = 64,
	.mtu = IBV_MTU_1024,
	.qp_access = ALL_ACCESS,
	.timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1,
};

static bool is_moor(struct ibv_device *device)
{
	struct ibv_context *ctx = ibv_open_device(device);
	struct ibv_device_attr attr = {};

	if (!ctx)
		return false;
	ibv_query_device(ctx, &attr);
	ibv_close_device(ctx);
	return attr.vendor_id == 0x1af4 && attr.vendor_part_id == 0x10f0;
}

/* Opens the device @name, or with NULL the first Moor NIC. */
struct ibv_context *open_nic(const char *name, struct ibv_device_attr *attr)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;
	int i;

	for (i = 0; list && list[i] && !ctx; i++)
		if (name ? !strcmp(name, ibv_get_device_name(list[i])) :
			   is_moor(list[i]))
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		tap_bail("no such device: %s", name ? name : "a Moor NIC");
	ibv_free_device_list(list);
	if (ibv_query_device(ctx, attr))
		tap_bail("ibv_query_device: %s", strerror(errno));
	return ctx;
}

/* The RoCE v2 GID to connect by, into @pair, whose ctx is set. */
void pair_find_gid(struct pair *pair)
{
	struct ibv_gid_entry entry;
	int i;

	for (i = 0; i < 16; i++) {
		if (ibv_query_gid_ex(pair->ctx, 1, i, &entry, 0) ||
		    entry.gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		pair->gid = entry.gid;
		pair->gid_index = i;
		return;
	}
	tap_bail("no RoCE v2 GID: is the netdev up?");
}

static struct ibv_qp *create_qp(struct pair *pair, struct side *side)
{
	const struct pair_config *config = &pair->config;
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = side->send_cq,
		.recv_cq = side->recv_cq,
		.cap = {
			.max_send_wr = config->send_wr,
			.max_recv_wr = config->recv_wr,
			.max_send_sge = config->sge,
			.max_recv_sge = config->sge,
			.max_inline_data = config->inline_data,
		},
		.srq = config->srq,
		.qp_type = config->type,
		.sq_sig_all = config->sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pair->pd,
	};
	struct ibv_qp *qp;

	if (config->send_ops) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = config->send_ops;
	}
	qp = ibv_create_qp_ex(pair->ctx, &attr);
	if (!qp)
		tap_bail("ibv_create_qp_ex: %s", strerror(errno));
	side->cap = attr.cap;
	return qp;
}

static void open_side(struct pair *pair, struct side *side)
{
	const struct pair_config *config = &pair->config;

	side->send_cq = ibv_create_cq(pair->ctx, config->send_wr, NULL,
				      pair->channel, 0);
	side->recv_cq = ibv_create_cq(pair->ctx, config->recv_wr, NULL,
				      pair->channel, 0);
	if (!side->send_cq || !side->recv_cq)
		tap_bail("ibv_create_cq: %s", strerror(errno));
	side->qp = create_qp(pair, side);
	side->buf = aligned_alloc(4096, config->buffer_size);
	if (!side->buf)
		tap_bail("no memory");
	memset(side->buf, 0, config->buffer_size);
	side->mr = ibv_reg_mr(pair->pd, side->buf, config->buffer_size,
			      ALL_ACCESS);
	if (!side->mr)
		tap_bail("ibv_reg_mr: %s", strerror(errno));
}

/*
 * Makes two QPs in RESET, in pair->pd or in a new PD if that is NULL. Bails out on
 * failure.
 */
void pair_open(struct pair *pair, struct ibv_context *ctx,
	       const struct pair_config *config)
{
	pair->config = *config;
	pair->ctx = ctx;
	pair->owns_pd = !pair->pd;
	if (!pair->pd)
		pair->pd = ibv_alloc_pd(ctx);
	if (!pair->pd)
		tap_bail("ibv_alloc_pd: %s", strerror(errno));
	pair->channel = config->events ? ibv_create_comp_channel(ctx) : NULL;
	if (config->events && !pair->channel)
		tap_bail("ibv_create_comp_channel: %s", strerror(errno));
	pair_find_gid(pair);
	pair->psn = FIRST_PSN;
	open_side(pair, &pair->a);
	open_side(pair, &pair->b);
}

static void close_side(struct side *side)
{
	int err = ibv_destroy_qp(side->qp);

	err = err ? err : ibv_destroy_cq(side->send_cq);
	err = err ? err : ibv_destroy_cq(side->recv_cq);
	err = err ? err : ibv_dereg_mr(side->mr);
	if (err)
		tap_bail("cannot close a side: %s", strerror(err));
	free(side->buf);
}

void pair_close(struct pair *pair)
{
	int err;

	close_side(&pair->a);
	close_side(&pair->b);
	err = pair->channel ? ibv_destroy_comp_channel(pair->channel) : 0;
	if (err)
		tap_bail("ibv_destroy_comp_channel: %s", strerror(err));
	if (!pair->owns_pd)
		return;
	err = ibv_dealloc_pd(pair->pd);
	if (err)
		tap_bail("ibv_dealloc_pd: %s", strerror(err));
	pair->pd = NULL;
}

void pair_close_qp(struct side *side)
{
	int err = ibv_destroy_qp(side->qp);

	if (err)
		tap_bail("ibv_destroy_qp: %s", strerror(err));
	side->qp = NULL;
}

void pair_open_qp(struct pair *pair, struct side *side)
{
	side->qp = create_qp(pair, side);
}

int modify_to_init(struct pair *pair, struct side *side)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = pair->config.qp_access,
		.qkey = pair->config.qkey,
	};

	return ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
			     IBV_QP_PORT | (pair->config.type == IBV_QPT_UD ?
					    IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

/* Attributes about answers do not exist for unreliable connections. */
static int mask_for(const struct pair *pair, int common, int of_rc)
{
	return IBV_QP_STATE | common | (pair->config.type == IBV_QPT_RC ? of_rc : 0);
}

int modify_to_rtr(struct pair *pair, struct side *side, uint32_t dest_qpn)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = pair->config.mtu,
		.dest_qp_num = dest_qpn,
		.rq_psn = pair->psn,
		.max_dest_rd_atomic = pair->config.no_dest_rd_atomic ? 0 : 4,
		.min_rnr_timer = pair->config.min_rnr_timer,
		.ah_attr = {
			.grh = {
				.dgid = pair->gid,
				.sgid_index = pair->gid_index,
				.hop_limit = 1,
				/* only 20 bits are used */
				.flow_label = ~0u,
			},
			.is_global = 1,
			.port_num = 1,
		},
	};

	/* A datagram QP has no peer. */
	if (pair->config.type == IBV_QPT_UD)
		return ibv_modify_qp(side->qp, &attr, IBV_QP_STATE);
	return ibv_modify_qp(side->qp, &attr,
			     mask_for(pair, IBV_QP_AV | IBV_QP_PATH_MTU |
				      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
				      IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER));
}

int modify_to_rts(struct pair *pair, struct side *side)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = impaired() ? IMPAIRED_TIMEOUT : pair->config.timeout,
		.retry_cnt = impaired() ? 7 : pair->config.retry_cnt,
		.rnr_retry = pair->config.rnr_retry,
		.sq_psn = pair->psn,
		.max_rd_atomic = pair->config.no_rd_atomic ? 0 : 4,
	};

	return ibv_modify_qp(side->qp, &attr,
			     mask_for(pair, IBV_QP_SQ_PSN, IBV_QP_TIMEOUT |
				      IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_MAX_QP_RD_ATOMIC));
}

int modify_to(struct side *side, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return ibv_modify_qp(side->qp, &attr, IBV_QP_STATE);
}

enum ibv_qp_state query_state(struct side *side)
{
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(side->qp, &attr, IBV_QP_STATE, &init_attr))
		tap_bail("ibv_query_qp: %s", strerror(errno));
	return attr.qp_state;
}

/* From RESET to RTS, both. */
void pair_connect(struct pair *pair)
{
	struct side *sides[] = { &pair->a, &pair->b };
	int i, err = 0;

	/* Late packets of the last connection must not fall into this one's PSNs. */
	if (impaired())
		pair->psn = (pair->psn + PSN_STRIDE) & 0xffffff;
	for (i = 0; i < 2 && !err; i++)
		err = modify_to_init(pair, sides[i]);
	for (i = 0; i < 2 && !err; i++)
		err = modify_to_rtr(pair, sides[i], sides[!i]->qp->qp_num);
	for (i = 0; i < 2 && !err; i++)
		err = modify_to_rts(pair, sides[i]);
	if (err)
		tap_bail("cannot connect: %s", strerror(err));
}

/* Takes both QPs from any state to RTS, with empty queues. */
void pair_reset(struct pair *pair)
{
	int err = modify_to(&pair->a, IBV_QPS_RESET);

	err = err ? err : modify_to(&pair->b, IBV_QPS_RESET);
	if (err)
		tap_bail("cannot reset: %s", strerror(err));
	pair_connect(pair);
}

struct ibv_ah *pair_open_ah(struct pair *pair, const union ibv_gid *dgid)
{
	struct ibv_ah_attr attr = {
		.grh = {
			.dgid = *dgid, .sgid_index = pair->gid_index,
			.hop_limit = 17, .traffic_class = 0x24,
			.flow_label = 0x12345,
		},
		.is_global = 1, .port_num = 1,
	};
	struct ibv_ah *ah = ibv_create_ah(pair->pd, &attr);

	if (!ah)
		tap_bail("ibv_create_ah: %s", strerror(errno));
	return ah;
}

/* A pattern whose period is not that of pages or packets. */
static uint8_t pattern(size_t i, uint8_t seed)
{
	return (i * 7 + i / 251 + seed) & 0xff;
}

void fill(uint8_t *buf, size_t size, uint8_t seed)
{
	size_t i;

	for (i = 0; i < size; i++)
		buf[i] = pattern(i, seed);
}

bool is_filled(const uint8_t *buf, size_t size, uint8_t seed)
{
	size_t i;

	for (i = 0; i < size; i++) {
		if (buf[i] == pattern(i, seed))
			continue;
		tap_diag("byte %zu of %zu is 0x%02x, not 0x%02x", i, size,
			 buf[i], pattern(i, seed));
		return false;
	}
	return true;
}

bool is_all(const uint8_t *buf, size_t size, uint8_t value)
{
	size_t i;

	for (i = 0; i < size; i++) {
		if (buf[i] == value)
			continue;
		tap_diag("byte %zu of %zu is 0x%02x, not 0x%02x", i, size, buf[i], value);
		return false;
	}
	return true;
}

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

int post(struct side *side, const struct request *request)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)request->local,
		.length = request->length,
		.lkey = request->lkey,
	};
	struct ibv_send_wr *bad_wr, wr = {
		.wr_id = request->wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = request->opcode,
		.send_flags = request->flags | IBV_SEND_SIGNALED,
		.imm_data = request->imm,
	};

	if (is_atomic(request->opcode)) {
		wr.wr.atomic.remote_addr = request->remote;
		wr.wr.atomic.rkey = request->rkey;
		wr.wr.atomic.compare_add = request->compare_add;
		wr.wr.atomic.swap = request->swap;
	} else {
		wr.wr.rdma.remote_addr = request->remote;
		wr.wr.rdma.rkey = request->rkey;
	}
	return ibv_post_send(side->qp, &wr, &bad_wr);
}

int post_receive(struct side *side, uint64_t wr_id, void *addr,
		 uint32_t length, uint32_t lkey)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)addr, .length = length, .lkey = lkey,
	};
	struct ibv_recv_wr *bad_wr, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1,
	};

	return ibv_post_recv(side->qp, &wr, &bad_wr);
}

/* Do packets get lost, delayed and so on (tests/run-guest --impair)? */
bool impaired(void)
{
	return getenv("MOOR_TEST_IMPAIRED");
}

/*
 * Is @status the one that is due? If packets get lost, a status that the peer's answer
 * gives may be lost with that answer: the peer, in ERR, sends no other.
 */
bool ended_with(enum ibv_wc_status status, enum ibv_wc_status due)
{
	bool is_told = due == IBV_WC_REM_INV_REQ_ERR ||
		       due == IBV_WC_REM_ACCESS_ERR ||
		       due == IBV_WC_REM_OP_ERR;

	return status == due ||
	       (impaired() && is_told && status == IBV_WC_RETRY_EXC_ERR);
}

static int64_t now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000ll + time.tv_nsec / 1000000;
}

/* Polls until there is a completion; false when the deadline passed. */
bool wait_wc(struct ibv_cq *cq, struct ibv_wc *wc)
{
	static bool missed;
	int64_t end = now_ms() + (missed ? IMPATIENT_MS : DEADLINE_S * 1000);
	bool late;
	int n;

	/* The last look is behind the deadline: the machine may have stood still. */
	do {
		late = now_ms() >= end;
		n = ibv_poll_cq(cq, 1, wc);
	} while (!n && !late);
	if (n < 0)
		tap_bail("ibv_poll_cq: %d", n);
	missed |= !n;
	return n == 1;
}

/* A test point: the next completion has this ID and status. */
bool expect_wc(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status,
	       struct ibv_wc *wc, const char *what)
{
	if (!wait_wc(cq, wc)) {
		tap_ok(false, "%s", what);
		tap_diag("no completion in time");
		return false;
	}
	if (tap_ok(wc->wr_id == wr_id && ended_with(wc->status, status), "%s",
		   what))
		return true;
	tap_diag("wr_id %llu, wanted %llu; %s (syndrome %u), wanted %s",
		 (unsigned long long)wc->wr_id, (unsigned long long)wr_id,
		 ibv_wc_status_str(wc->status), wc->vendor_err,
		 ibv_wc_status_str(status));
	return false;
}

static bool event_within(struct ibv_context *ctx, int milliseconds)
{
	struct pollfd fd = { .fd = ctx->async_fd, .events = POLLIN };

	return poll(&fd, 1, milliseconds) == 1;
}

/* A test point: the next asynchronous event is this one, of a QP or SRQ. */
bool expect_event(struct ibv_context *ctx, enum ibv_event_type type,
		  const void *object, const char *what)
{
	struct ibv_async_event event;
	bool passed;

	if (!event_within(ctx, DEADLINE_S * 1000) ||
	    ibv_get_async_event(ctx, &event)) {
		tap_ok(false, "%s", what);
		tap_diag("no event in %d s", DEADLINE_S);
		return false;
	}
	passed = event.event_type == type && event.element.qp == object;
	tap_ok(passed, "%s", what);
	if (!passed)
		tap_diag("%s, wanted %s", ibv_event_type_str(event.event_type),
			 ibv_event_type_str(type));
	ibv_ack_async_event(&event);
	return passed;
}

/* Is there no asynchronous event now? */
bool no_event(struct ibv_context *ctx)
{
	return !event_within(ctx, 0);
}
