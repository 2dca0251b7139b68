// SPDX-License-Identifier: GPL-2.0
/*
 * Datagrams (HWI 12.4, 12.5): data and the header before it, Q_Keys, datagrams that are
 * dropped silently, errors that lead to SQE, address handles, groups, and shared
 * receives.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pair.h"
#include "tap.h"

#define GRH		((uint32_t)sizeof(struct ibv_grh))
#define QKEY		0x11223344u
#define QKEY_OF_QP	0x80000000u
#define GUARD		0xa5

struct datagrams {
	struct pair pair;
	struct ibv_ah *ah;
	uint32_t mtu;
};

static void open_datagrams(struct datagrams *all, struct ibv_context *ctx,
			   uint64_t ops, struct ibv_srq *srq)
{
	struct pair_config config = pair_defaults;
	struct ibv_port_attr port;

	memset(all, 0, sizeof(*all));
	config.type = IBV_QPT_UD;
	config.qkey = QKEY;
	config.send_ops = ops;
	config.inline_data = 100;
	config.srq = srq;
	pair_open(&all->pair, ctx, &config);
	pair_connect(&all->pair);
	if (ibv_query_port(ctx, 1, &port))
		tap_bail("ibv_query_port");
	all->mtu = 128u << port.active_mtu;
	all->ah = pair_open_ah(&all->pair, &all->pair.gid);
}

static void close_datagrams(struct datagrams *all)
{
	tap_is(ibv_destroy_ah(all->ah), 0, "address handle destroyed");
	pair_close(&all->pair);
}

static int post_datagram(struct datagrams *all, enum ibv_wr_opcode opcode,
			 uint64_t wr_id, uint32_t length, uint32_t qkey,
			 unsigned int flags)
{
	struct pair *pair = &all->pair;
	struct ibv_sge sge = {
		.addr = (uintptr_t)pair->a.buf, .length = length,
		.lkey = pair->a.mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED | flags,
		.imm_data = htonl(0xabcd0000 | (uint32_t)wr_id),
		.wr.ud = {
			.ah = all->ah, .remote_qpn = pair->b.qp->qp_num,
			.remote_qkey = qkey,
		},
	};

	return ibv_post_send(pair->a.qp, &wr, &bad);
}

static int receive(struct datagrams *all, uint64_t wr_id, uint32_t length)
{
	struct side *b = &all->pair.b;

	memset(b->buf, GUARD, all->pair.config.buffer_size);
	return post_receive(b, wr_id, b->buf, length, b->mr->lkey);
}

static bool is_ipv4(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

static uint16_t folded_sum(const uint8_t *bytes, unsigned int length)
{
	uint32_t sum = 0;
	unsigned int i;

	for (i = 0; i < length; i += 2)
		sum += bytes[i] << 8 | bytes[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* The 40 bytes before a message: addresses, length, hop limit. */
static bool header_is_right(const struct pair *pair, uint32_t length, bool imm)
{
	uint32_t behind = 8 + 12 + 8 + (imm ? 4 : 0) + ((length + 3) & ~3u) + 4;
	const uint8_t *h = pair->b.buf, *gid = pair->gid.raw;

	if (!is_ipv4(&pair->gid))
		return h[0] >> 4 == 6 && (h[4] << 8 | h[5]) == (int)behind &&
		       h[6] == 17 && !memcmp(h + 8, gid, 16) &&
		       !memcmp(h + 24, gid, 16);
	return h[20] == 0x45 && h[21] == 0x24 &&
	       (h[22] << 8 | h[23]) == (int)behind + 20 && h[29] == 17 &&
	       folded_sum(h + 20, 20) == 0xffff && !memcmp(h + 32, gid + 12, 4) &&
	       !memcmp(h + 36, gid + 12, 4);
}

/* A test point: the datagram that A has posted arrives at B, unchanged. */
static void expect_datagram(struct datagrams *all, uint64_t wr_id, uint32_t length,
			    uint8_t seed, bool imm, const char *what)
{
	struct pair *pair = &all->pair;
	struct ibv_wc sent, wc;
	bool good;

	if (!wait_wc(pair->a.send_cq, &sent) || !wait_wc(pair->b.recv_cq, &wc)) {
		tap_ok(false, "%s: no completion", what);
		return;
	}
	good = sent.status == IBV_WC_SUCCESS && wc.status == IBV_WC_SUCCESS &&
	       sent.wr_id == wr_id && sent.opcode == IBV_WC_SEND &&
	       wc.opcode == IBV_WC_RECV && wc.byte_len == GRH + length &&
	       wc.src_qp == pair->a.qp->qp_num && wc.wc_flags & IBV_WC_GRH &&
	       !wc.pkey_index && !wc.slid &&
	       !(wc.wc_flags & IBV_WC_WITH_IMM) == !imm &&
	       (!imm || wc.imm_data == htonl(0xabcd0000 | (uint32_t)wr_id));
	if (!tap_ok(good, "%s: completions", what))
		tap_diag("%s, %s, %u bytes, flags %#x", ibv_wc_status_str(sent.status),
			 ibv_wc_status_str(wc.status), wc.byte_len, wc.wc_flags);
	tap_ok(header_is_right(pair, length, imm), "%s: header", what);
	tap_ok(is_filled(pair->b.buf + GRH, length, seed) &&
	       pair->b.buf[GRH + length] == GUARD, "%s: data", what);
}

static void test_data(struct datagrams *all)
{
	const uint32_t sizes[] = { 0, 1, 63, 64, 255, all->mtu - 1, all->mtu };
	const enum ibv_wr_opcode opcodes[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM };
	char what[64];
	unsigned int i;

	for (i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t length = sizes[i / 2];
		unsigned int flags = length && length <= 100 ? IBV_SEND_INLINE : 0;

		snprintf(what, sizeof(what), "%u bytes%s%s", length,
			 i & 1 ? ", immediate" : "", flags ? ", inline" : "");
		fill(all->pair.a.buf, length, i);
		if (receive(all, 1, GRH + length) ||
		    post_datagram(all, opcodes[i & 1], i, length, QKEY, flags))
			tap_bail("cannot post");
		expect_datagram(all, i, length, i, i & 1, what);
	}
}

/* By ibv_wr_*(), with an extended CQ that is polled by ibv_poll_cq(). */
static void test_builder(struct ibv_context *ctx)
{
	struct datagrams all;
	struct ibv_qp_ex *qp;
	struct pair *pair = &all.pair;

	open_datagrams(&all, ctx, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
		       NULL);
	qp = ibv_qp_to_qp_ex(pair->a.qp);
	fill(pair->a.buf, 200, 7);
	receive(&all, 1, 4096);
	ibv_wr_start(qp);
	qp->wr_id = 5;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qp);
	/* Set the data before the address. */
	ibv_wr_set_sge(qp, pair->a.mr->lkey, (uintptr_t)pair->a.buf, 200);
	ibv_wr_set_ud_addr(qp, all.ah, pair->b.qp->qp_num, QKEY);
	tap_is(ibv_wr_complete(qp), 0, "ibv_wr_send");
	expect_datagram(&all, 5, 200, 7, false, "ibv_wr_send");
	receive(&all, 1, 4096);
	ibv_wr_start(qp);
	qp->wr_id = 6;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(qp, htonl(0xabcd0006));
	ibv_wr_set_ud_addr(qp, all.ah, pair->b.qp->qp_num, QKEY);
	ibv_wr_set_inline_data(qp, pair->a.buf, 99);
	tap_is(ibv_wr_complete(qp), 0, "ibv_wr_send_imm");
	expect_datagram(&all, 6, 99, 7, true, "ibv_wr_send_imm, inline");
	close_datagrams(&all);
}

/* The datagram is dropped: the next one takes its receive. */
static void expect_dropped(struct datagrams *all, uint32_t length, uint32_t qkey,
			   uint32_t room, const char *what)
{
	struct ibv_wc wc;

	fill(all->pair.a.buf, 600, 9);
	receive(all, 1, room);
	tap_is(post_datagram(all, IBV_WR_SEND, 1, length, qkey, 0), 0, "%s: posted",
	       what);
	expect_wc(all->pair.a.send_cq, 1, IBV_WC_SUCCESS, &wc,
		  "and out: nobody answers");
	tap_is(post_datagram(all, IBV_WR_SEND, 2, 100, QKEY, 0), 0, "the next one");
	expect_datagram(all, 2, 100, 9, false, "which takes that receive");
}

static void test_dropped(struct datagrams *all)
{
	struct ibv_wc wc;

	expect_dropped(all, 50, QKEY ^ 1, 4096, "another Q_Key");
	expect_dropped(all, 101, QKEY, GRH + 100, "longer than the receive");
	/* A datagram that finds no receive. */
	tap_is(post_datagram(all, IBV_WR_SEND, 3, 10, QKEY, 0), 0, "to nobody");
	expect_wc(all->pair.a.send_cq, 3, IBV_WC_SUCCESS, &wc, "is out");
	expect_dropped(all, 20, ~QKEY & ~QKEY_OF_QP, 4096, "another Q_Key again");
	/* The top bit selects the QP's own Q_Key, whatever the other bits are. */
	fill(all->pair.a.buf, 64, 3);
	receive(all, 1, 4096);
	tap_is(post_datagram(all, IBV_WR_SEND, 4, 64, QKEY_OF_QP | 99, 0), 0,
	       "the QP's Q_Key");
	expect_datagram(all, 4, 64, 3, false, "with the QP's Q_Key");
	tap_ok(no_event(all->pair.ctx), "no event");
}

static void test_refused(struct datagrams *all)
{
	static const enum ibv_wr_opcode others[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV, IBV_WR_LOCAL_INV,
	};
	struct pair *pair = &all->pair;
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = pair->a.send_cq, .recv_cq = pair->a.recv_cq,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
		.qp_type = IBV_QPT_UD, .pd = pair->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_ah_attr ah = {
		.grh = { .dgid = pair->gid, .sgid_index = 200 },
		.is_global = 1, .port_num = 1,
	};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr now;
	unsigned int i;

	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		tap_is(post_datagram(all, others[i], 1, 8, QKEY, 0), EINVAL,
		       "operation %d", others[i]);
	errno = 0;
	tap_ok(!ibv_create_qp_ex(pair->ctx, &attr), "ibv_wr_rdma_write: refused");
	tap_is(errno, EOPNOTSUPP, "ibv_wr_rdma_write: errno");
	errno = 0;
	tap_ok(!ibv_create_ah(pair->pd, &ah), "an empty GID of its own: refused");
	tap_is(errno, EINVAL, "an empty GID of its own: errno");
	ah.grh.sgid_index = pair->gid_index;
	ah.is_global = 0;
	errno = 0;
	tap_ok(!ibv_create_ah(pair->pd, &ah), "no GRH: refused");
	tap_is(errno, EINVAL, "no GRH: errno");
	tap_ok(!ibv_query_qp(pair->a.qp, &now, IBV_QP_QKEY, &init) &&
	       now.qkey == QKEY && init.qp_type == IBV_QPT_UD, "a query tells the Q_Key");
}

/* A send that fails stops the sends behind it, but no receive. */
static void test_sqe(struct datagrams *all)
{
	struct pair *pair = &all->pair;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE,
	};
	struct ibv_wc wc;

	tap_is(post_datagram(all, IBV_WR_SEND, 1, all->mtu + 1, QKEY, 0), 0,
	       "a message longer than the MTU");
	expect_wc(pair->a.send_cq, 1, IBV_WC_LOC_LEN_ERR, &wc, "fails");
	tap_is(query_state(&pair->a), IBV_QPS_SQE, "and the state is SQE");
	tap_is(post_datagram(all, IBV_WR_SEND, 2, 1, QKEY, 0), 0, "one behind it");
	expect_wc(pair->a.send_cq, 2, IBV_WC_WR_FLUSH_ERR, &wc, "is flushed");
	tap_is(ibv_modify_qp(pair->a.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0,
	       "to RTS");
	fill(pair->a.buf, 32, 4);
	receive(all, 1, 4096);
	tap_is(post_datagram(all, IBV_WR_SEND, 3, 32, QKEY, 0), 0, "and once more");
	expect_datagram(all, 3, 32, 4, false, "in RTS again");
	tap_ok(no_event(pair->ctx), "no event");
}

static union ibv_gid group_of(const struct pair *pair)
{
	union ibv_gid gid = pair->gid;

	if (is_ipv4(&gid)) {
		gid.raw[12] = 239;
		gid.raw[13] = 1;
		return gid;
	}
	memset(gid.raw, 0, sizeof(gid.raw));
	gid.raw[0] = 0xff;
	gid.raw[1] = 0x0e;
	gid.raw[15] = 0x77;
	return gid;
}

static void test_group(struct datagrams *all)
{
	struct pair *pair = &all->pair;
	union ibv_gid group = group_of(pair);
	struct ibv_ah *direct = all->ah;
	struct ibv_wc wc;

	all->ah = pair_open_ah(pair, &group);
	tap_is(ibv_attach_mcast(pair->b.qp, &pair->gid, 0), EINVAL, "no group");
	tap_is(ibv_attach_mcast(pair->b.qp, &group, 0), 0, "B joins");
	tap_is(ibv_attach_mcast(pair->b.qp, &group, 0), 0, "and joins again");
	fill(pair->a.buf, 100, 5);
	receive(all, 1, 4096);
	tap_is(post_datagram(all, IBV_WR_SEND, 1, 100, QKEY, 0), 0, "to the group");
	if (wait_wc(pair->b.recv_cq, &wc))
		tap_ok(wc.status == IBV_WC_SUCCESS && wc.byte_len == GRH + 100 &&
		       is_filled(pair->b.buf + GRH, 100, 5), "B has it");
	else
		tap_ok(false, "B has it");
	expect_wc(pair->a.send_cq, 1, IBV_WC_SUCCESS, &wc, "it is out");
	tap_is(ibv_attach_mcast(pair->a.qp, &group, 0), 0, "A joins");
	receive(all, 1, 4096);
	post_receive(&pair->a, 2, pair->a.buf + 8192, 4096, pair->a.mr->lkey);
	tap_is(post_datagram(all, IBV_WR_SEND, 2, 100, QKEY, 0), 0, "to both");
	expect_wc(pair->a.send_cq, 2, IBV_WC_SUCCESS, &wc, "it is out");
	expect_wc(pair->b.recv_cq, 1, IBV_WC_SUCCESS, &wc, "B has it");
	expect_wc(pair->a.recv_cq, 2, IBV_WC_SUCCESS, &wc, "A has its own");
	tap_ok(is_filled(pair->a.buf + 8192 + GRH, 100, 5), "with its data");

	tap_is(ibv_detach_mcast(pair->b.qp, &group, 0), 0, "B leaves");
	tap_is(ibv_detach_mcast(pair->b.qp, &group, 0), EINVAL, "and was not in it");
	/*
	 * The core distinguishes by LID, Ethernet does not: the first detach leaves the
	 * group.
	 */
	tap_ok(!ibv_attach_mcast(pair->b.qp, &group, 0) &&
	       !ibv_attach_mcast(pair->b.qp, &group, 1), "B joins by two LIDs");
	tap_ok(!ibv_detach_mcast(pair->b.qp, &group, 0) &&
	       !ibv_detach_mcast(pair->b.qp, &group, 1), "and leaves by both");
	receive(all, 1, 4096);
	post_receive(&pair->a, 3, pair->a.buf + 8192, 4096, pair->a.mr->lkey);
	tap_is(post_datagram(all, IBV_WR_SEND, 3, 100, QKEY, 0), 0, "to A alone");
	expect_wc(pair->a.send_cq, 3, IBV_WC_SUCCESS, &wc, "it is out");
	expect_wc(pair->a.recv_cq, 3, IBV_WC_SUCCESS, &wc, "A has it");
	tap_is(ibv_poll_cq(pair->b.recv_cq, 1, &wc), 0, "B does not");
	tap_is(ibv_destroy_qp(pair->a.qp), EBUSY, "a QP that is in a group");
	post_receive(&pair->a, 4, pair->a.buf + 8192, 4096, pair->a.mr->lkey);
	tap_is(post_datagram(all, IBV_WR_SEND, 4, 100, QKEY, 0), 0, "it stays: to itself");
	expect_wc(pair->a.send_cq, 4, IBV_WC_SUCCESS, &wc, "it is out");
	expect_wc(pair->a.recv_cq, 4, IBV_WC_SUCCESS, &wc, "and A has it");
	tap_is(ibv_detach_mcast(pair->a.qp, &group, 0), 0, "A leaves");
	ibv_destroy_ah(all->ah);
	all->ah = direct;
}

/* A QP that receives datagrams from an SRQ. */
static void test_shared(struct ibv_context *ctx)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	struct datagrams all;
	struct pair *pair = &all.pair;
	struct ibv_recv_wr *bad, wr = { .wr_id = 8, .num_sge = 1 };
	struct ibv_sge sge = { .length = 4096 };
	struct ibv_mr *mr;
	unsigned int i;

	if (!srq)
		tap_bail("ibv_create_srq: %s", strerror(errno));
	open_datagrams(&all, ctx, 0, srq);
	mr = ibv_reg_mr(pd, pair->b.buf, 4096, IBV_ACCESS_LOCAL_WRITE);
	sge.addr = (uintptr_t)pair->b.buf;
	sge.lkey = mr->lkey;
	wr.sg_list = &sge;
	for (i = 0; i < 10; i++) {
		fill(pair->a.buf, 300, i);
		memset(pair->b.buf, GUARD, 4096);
		tap_is(ibv_post_srq_recv(srq, &wr, &bad), 0, "a shared receive");
		tap_is(post_datagram(&all, IBV_WR_SEND, i, 300, QKEY, 0), 0, "a message");
		expect_datagram(&all, i, 300, i, false, "through an SRQ");
	}
	ibv_dereg_mr(mr);
	close_datagrams(&all);
	tap_is(ibv_destroy_srq(srq), 0, "SRQ destroyed");
	ibv_dealloc_pd(pd);
}

int main(void)
{
	struct ibv_device_attr device;
	struct ibv_context *ctx = open_nic(NULL, &device);
	struct datagrams all;

	tap_ok(device.max_ah > 0 && device.max_mcast_grp > 0 &&
	       device.max_mcast_qp_attach > 0, "address handles and groups are announced");
	open_datagrams(&all, ctx, 0, NULL);
	test_data(&all);
	test_dropped(&all);
	test_refused(&all);
	test_sqe(&all);
	test_group(&all);
	close_datagrams(&all);
	test_builder(ctx);
	test_shared(ctx);
	ibv_close_device(ctx);
	return tap_done();
}
