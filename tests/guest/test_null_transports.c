// SPDX-License-Identifier: GPL-2.0
/*
 * The null MR (HWI 6.6) where test_null_mr does not go: datagrams and the header before
 * them, unreliable connections, shared receives, those of extended connections.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "tap.h"
#include "window.h"
#include "xrc.h"

#define SIZE	16384u
#define GRH	((uint32_t)sizeof(struct ibv_grh))
#define QKEY	0x1234u
#define NOWHERE	0xffffffff81000000ull	/* not an address of a process */

static struct ibv_context *ctx;

static struct ibv_mr *must_alloc_null(struct ibv_pd *pd)
{
	struct ibv_mr *null = ibv_alloc_null_mr(pd);

	if (!null)
		tap_bail("ibv_alloc_null_mr: %s", strerror(errno));
	return null;
}

static struct ibv_sge hole(const struct ibv_mr *null, uint32_t length)
{
	return (struct ibv_sge){ NOWHERE, length, null->lkey };
}

static struct ibv_sge real(const struct side *side, uint32_t from, uint32_t length)
{
	return (struct ibv_sge){ (uintptr_t)side->buf + from, length, side->mr->lkey };
}

static void refill(struct pair *pair)
{
	fill(pair->a.buf, SIZE, 1);
	memset(pair->b.buf, 'b', SIZE);
}

/* A receive of @count SGEs, on the pair's SRQ if it has one. */
static void must_receive(struct pair *pair, uint64_t wr_id, struct ibv_sge *sges, int count)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = wr_id, .sg_list = sges, .num_sge = count };

	if (pair->config.srq ? ibv_post_srq_recv(pair->config.srq, &wr, &bad) :
			       ibv_post_recv(pair->b.qp, &wr, &bad))
		tap_bail("a receive is not posted");
}

/* Side a's request, and, unless it is a plain RDMA write, what has arrived of it. */
static bool goes(struct pair *pair, struct ibv_send_wr wr, uint32_t length)
{
	bool received = wr.opcode != IBV_WR_RDMA_WRITE;
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr.wr_id = 1;
	wr.send_flags = IBV_SEND_SIGNALED;
	if (ibv_post_send(pair->a.qp, &wr, &bad) || !wait_wc(pair->a.send_cq, &wc) || wc.status)
		return false;
	return !received || (wait_wc(pair->b.recv_cq, &wc) && !wc.status &&
			     wc.byte_len == length && wc.wr_id == 2);
}

/* ---- datagrams ---- */

static bool datagram_goes(struct pair *pair, struct ibv_ah *ah, struct ibv_sge *sges, int count,
			  uint32_t length)
{
	struct ibv_send_wr wr = {
		.sg_list = sges, .num_sge = count, .opcode = IBV_WR_SEND,
		.wr.ud = { ah, pair->b.qp->qp_num, QKEY },
	};

	return goes(pair, wr, GRH + length);
}

static void test_datagrams(struct pair *pair, const struct ibv_mr *null)
{
	struct ibv_ah *ah = pair_open_ah(pair, &pair->gid);
	struct ibv_sge from[3], to[3];

	refill(pair);
	to[0] = hole(null, GRH);
	to[1] = real(&pair->b, 0, 1000);
	from[0] = real(&pair->a, 0, 900);
	must_receive(pair, 2, to, 2);
	tap_ok(datagram_goes(pair, ah, from, 1, 900) && is_filled(pair->b.buf, 900, 1) &&
	       is_all(pair->b.buf + 900, SIZE - 900, 'b'), "datagram: the header vanishes");

	refill(pair);
	to[0] = real(&pair->b, 0, GRH);
	to[1] = hole(null, 500);
	to[2] = real(&pair->b, GRH, 400);
	must_receive(pair, 2, to, 3);
	tap_ok(datagram_goes(pair, ah, from, 1, 900) &&
	       !memcmp(pair->b.buf + GRH, pair->a.buf + 500, 400) &&
	       is_all(pair->b.buf + GRH + 400, SIZE - GRH - 400, 'b'),
	       "datagram: the first part vanishes");

	refill(pair);
	to[0] = hole(null, 5000);
	must_receive(pair, 2, to, 1);
	tap_ok(datagram_goes(pair, ah, from, 1, 900) && is_all(pair->b.buf, SIZE, 'b'),
	       "datagram: all of it vanishes");

	refill(pair);
	from[0] = hole(null, 100);
	from[1] = real(&pair->a, 0, 300);
	from[2] = hole(null, 1);
	to[0] = real(&pair->b, 0, SIZE);
	must_receive(pair, 2, to, 1);
	tap_ok(datagram_goes(pair, ah, from, 3, 401) && is_all(pair->b.buf + GRH, 100, 0) &&
	       is_filled(pair->b.buf + GRH + 100, 300, 1) &&
	       is_all(pair->b.buf + GRH + 400, 1, 0) &&
	       is_all(pair->b.buf + GRH + 401, SIZE - GRH - 401, 'b'),
	       "datagram: zeros around data");
	ibv_destroy_ah(ah);
}

/* ---- connections ---- */

static void test_connection(struct pair *pair, const struct ibv_mr *null, const char *name)
{
	struct ibv_sge from[3] = {
		hole(null, 2000), real(&pair->a, 0, 2000), hole(null, 2000),
	};
	struct ibv_sge to[3] = {
		real(&pair->b, 0, 1000), hole(null, 3000), real(&pair->b, 1000, 3000),
	};
	struct ibv_send_wr wr = {
		.sg_list = from, .num_sge = 3, .opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { (uintptr_t)pair->b.buf, pair->b.mr->rkey },
	};

	refill(pair);
	tap_ok(goes(pair, wr, 6000), "%s: a write of zeros and data", name);
	/* An unreliable write has completed before it arrives: the next message is behind it. */
	must_receive(pair, 2, to, 0);
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	tap_ok(goes(pair, wr, 6000) && is_all(pair->b.buf, 2000, 0) &&
	       is_filled(pair->b.buf + 2000, 2000, 1) && is_all(pair->b.buf + 4000, 2000, 0) &&
	       is_all(pair->b.buf + 6000, SIZE - 6000, 'b'), "%s: is as it was asked for", name);

	refill(pair);
	from[0] = real(&pair->a, 0, 6000);
	wr.num_sge = 1;
	wr.opcode = IBV_WR_SEND;
	must_receive(pair, 2, to, 3);
	tap_ok(goes(pair, wr, 6000) && !memcmp(pair->b.buf, pair->a.buf, 1000) &&
	       !memcmp(pair->b.buf + 1000, pair->a.buf + 4000, 2000) &&
	       is_all(pair->b.buf + 3000, SIZE - 3000, 'b'),
	       "%s: a part of a message vanishes", name);

	refill(pair);
	to[0] = hole(null, 6000);
	must_receive(pair, 2, to, 1);
	tap_ok(goes(pair, wr, 6000) && is_all(pair->b.buf, SIZE, 'b'),
	       "%s: a message vanishes", name);
}

static struct ibv_srq *must_create_srq(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 3 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);

	if (!srq)
		tap_bail("ibv_create_srq: %s", strerror(errno));
	return srq;
}

static void test_pair(enum ibv_qp_type type, bool shared, const char *name)
{
	struct pair_config config = pair_defaults;
	struct pair pair = { .pd = ibv_alloc_pd(ctx) };
	struct ibv_mr *null = must_alloc_null(pair.pd);

	config.type = type;
	config.qkey = QKEY;
	config.buffer_size = SIZE;
	if (shared)
		config.srq = must_create_srq(pair.pd);
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	if (type == IBV_QPT_UD)
		test_datagrams(&pair, null);
	else
		test_connection(&pair, null, name);
	pair_close(&pair);
	if (shared)
		tap_is(ibv_destroy_srq(config.srq), 0, "%s: SRQ destroyed", name);
	tap_ok(!ibv_dereg_mr(null) && !ibv_dealloc_pd(pair.pd), "%s: closed", name);
}

/* ---- extended connections: the PD of receives is that of the SRQ ---- */

/* Requests take their data from x->mr: the null MR in its place gives zeros. */
static void test_extended(void)
{
	struct ibv_mr *null, *mr;
	struct ibv_wc wc;
	struct xrc x;

	open_requester(&x, ctx, -1, 0);
	open_inbox(&x.inbox[0], ctx, x.xrcd, 0);
	x.tgt.qp = make_target(ctx, x.xrcd);
	if (!x.tgt.qp)
		tap_bail("no target: %s", strerror(errno));
	reconnect(&x);
	null = must_alloc_null(x.pd);

	memset(x.buf, 'x', XRC_BUF);
	memset(x.inbox[0].buf, 'i', XRC_BUF);
	mr = x.mr;
	x.mr = null;
	tap_ok(!post_inbox(&x.inbox[0], 0) &&
	       !xrc_ask(&x, x.inbox[0].number, IBV_WR_SEND, 0, 0, 200) &&
	       wait_wc(x.inbox[0].cq, &wc) && !wc.status && wc.byte_len == 200 &&
	       is_all(x.inbox[0].buf, 200, 0) &&
	       is_all(x.inbox[0].buf + 200, XRC_BUF - 200, 'i'), "extended: zeros are sent");
	x.mr = mr;

	memset(x.inbox[0].buf, 'i', XRC_BUF);
	mr = x.inbox[0].mr;
	x.inbox[0].mr = null;
	tap_ok(!post_inbox(&x.inbox[0], 0) &&
	       !xrc_ask(&x, x.inbox[0].number, IBV_WR_SEND, 0, 0, 200) &&
	       wait_wc(x.inbox[0].cq, &wc) && !wc.status && wc.byte_len == 200 &&
	       is_all(x.inbox[0].buf, XRC_BUF, 'i'), "extended: a message vanishes");
	x.inbox[0].mr = mr;

	tap_is(ibv_dereg_mr(null), 0, "extended: dereg");
	ibv_destroy_qp(x.tgt.qp);
	close_inbox(&x.inbox[0]);
	close_requester(&x);
}

int main(int argc, char **argv)
{
	struct ibv_device_attr attr;

	ctx = open_nic(argc > 1 ? argv[1] : NULL, &attr);
	test_pair(IBV_QPT_UD, false, "datagram");
	test_pair(IBV_QPT_UD, true, "shared datagram");
	test_pair(IBV_QPT_UC, false, "unreliable");
	test_pair(IBV_QPT_UC, true, "unreliable, shared");
	test_pair(IBV_QPT_RC, true, "reliable, shared");
	test_extended();
	ibv_close_device(ctx);
	return tap_done();
}
