// SPDX-License-Identifier: GPL-2.0
/* Datagrams as bytes, over an impaired port, and datagrams that wait for a page. */
#include <string.h>

#include "guest.h"
#include "transport/port.h"
#include "transport/transport.h"

#define PD	5
#define QKEY	0x1234u
#define QPN(i)	(0x4003u + 0x4001u * (i))
#define LEN	4096u

static struct guest *g;
static struct guest_cq cq[2];
static struct guest_qp qp[2];
static uint64_t buf[2];
static uint32_t key[2];

static void to_rts(unsigned int i)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_QKEY |
			MOOR_QP_ATTR_PATH_MTU,
		.state = MOOR_QPS_INIT, .qkey = QKEY, .path_mtu = 3,
	};
	unsigned int state;

	for (state = MOOR_QPS_INIT; state <= MOOR_QPS_RTS; state++) {
		cmd.state = (uint8_t)state;
		modify(g, &cmd, QPN(i));
	}
}

static void start(void)
{
	unsigned int i;

	g = guest_start(false);
	guest_set_gid(g, 0, 1);
	for (i = 0; i < 2; i++) {
		make_cq(g, &cq[i], i, 6);
		make_special_qp(g, &qp[i], QPN(i), PD, &cq[i], &cq[i],
				MOOR_QP_UD, 0);
		buf[i] = take(g, LEN);
		key[i] = make_mr(g, PD, MOOR_ACCESS_LOCAL_WRITE, buf[i], LEN);
		to_rts(i);
	}
}

static void post(uint32_t len)
{
	struct moor_sq_wqe *wqe = next_send(g, &qp[0], MOOR_WQE_SEND, 1);
	struct moor_wqe_ud *to = (void *)(wqe + 1);
	struct moor_sge from = sge(buf[0], len, key[0]);

	*to = (struct moor_wqe_ud){
		.dgid = { 0xfe, 0x80, [15] = 1 }, .dest_qpn = QPN(1),
		.qkey = QKEY, .hop_limit = 9,
	};
	wqe->num_sge = 1;
	memcpy(to + 1, &from, sizeof(from));
	ring(g, &qp[0]);
}

static void recv_at(uint64_t addr, uint32_t len, uint32_t lkey)
{
	struct moor_sge to = sge(addr, len, lkey);

	post_recv(g, &qp[1], 2, &to, 1);
	announce(g, &qp[1]);
}

static bool arrived(uint32_t len)
{
	struct moor_cqe cqe;

	return poll_cq(g, &cq[1], &cqe) && !cqe.status &&
	       cqe.byte_len == MOOR_GRH_SIZE + len && cqe.src_qpn == QPN(0);
}

/* ---- bytes ---- */

static void test_bytes(void)
{
	unsigned int len, i, bad = 0, taken = 0, imm;

	for (imm = 0; imm < 2; imm++) {
		for (len = 0; len < 9; len++) {
			uint8_t payload[9] = "abcdefgh", bytes[80] = { 0 };
			struct packet in = {
				.opcode = PACKET_TRANSPORT_UD |
					  (imm ? PACKET_SEND_ONLY_IMM :
						 PACKET_SEND_ONLY),
				.dest_qpn = 0x123456, .src_qpn = 0xabcdef,
				.qkey = 0x89abcdef, .imm = 0x04030201,
				.length = len, .psn = 0x777,
			}, out = { 0 };
			const uint8_t *data;
			size_t size = packet_encode(&in, payload, bytes);

			bad += size != 12 + 8 + imm * 4 + (len + 3) / 4 * 4 + 4 ||
			       !packet_decode(&out, &data, bytes, size) ||
			       out.qkey != in.qkey || out.src_qpn != in.src_qpn ||
			       out.length != len || memcmp(data, payload, len) ||
			       (imm && out.imm != in.imm) ||
			       bytes[12] != 0x89 || bytes[16] || bytes[17] != 0xab;
			for (i = 0; i < size; i++) {
				bytes[i] ^= 4;
				taken += packet_decode(&out, &data, bytes, size);
				bytes[i] ^= 4;
			}
			for (i = 0; i < size; i++)
				taken += packet_decode(&out, &data, bytes, i);
		}
	}
	ok(!bad, "what is made into bytes comes back: %u do not", bad);
	ok(!taken, "what is damaged or cut off is noticed: %u are not", taken);
}

static void receive(uint8_t opcode, uint32_t qkey, uint32_t len,
		    const struct datagram *d, uint8_t gid)
{
	uint8_t payload[LEN] = { 0 }, bytes[LEN + PACKET_OVERHEAD];
	uint8_t dgid[16] = { 0xfe, 0x80, [15] = gid };
	struct packet out = {
		.opcode = opcode, .dest_qpn = QPN(1), .src_qpn = QPN(0),
		.qkey = qkey, .length = len,
	}, in = { .sgid = dgid, .dgid = dgid, .datagram = d };
	size_t size = packet_encode(&out, payload, bytes);

	transport_receive_bytes(g->nic, &in, bytes, size);
	settle(g);
}

static void test_wire(void)
{
	static const uint8_t others[] = {
		PACKET_SEND_FIRST, PACKET_SEND_MIDDLE, PACKET_SEND_LAST,
		PACKET_SEND_LAST_IMM, PACKET_WRITE_ONLY, PACKET_WRITE_ONLY_IMM,
		PACKET_READ_REQUEST, PACKET_FETCH_ADD, PACKET_ACKNOWLEDGE,
		PACKET_SEND_ONLY_INV, PACKET_SEND_ONLY_INV + 1, 0x1f,
	};
	const struct datagram d = { .network = MOOR_NETWORK_IPV6 };
	const uint8_t good = PACKET_TRANSPORT_UD | PACKET_SEND_ONLY;
	struct moor_cqe cqe;
	unsigned int i;

	start();
	recv_at(buf[1], LEN, key[1]);
	for (i = 0; i < sizeof(others); i++)
		receive(PACKET_TRANSPORT_UD | others[i], QKEY, 8, &d, 1);
	receive(PACKET_TRANSPORT_RC | PACKET_SEND_ONLY, QKEY, 8, &d, 1);
	receive(PACKET_TRANSPORT_UC | PACKET_SEND_ONLY, QKEY, 8, &d, 1);
	receive(good, QKEY + 1, 8, &d, 1);
	receive(good, QKEY, 1025, &d, 1);
	receive(good, QKEY, 8, &d, 2);
	receive(good, QKEY, 8, NULL, 1);
	ok(!poll_cq(g, &cq[1], &cqe), "packets that are no datagram of its own");
	receive(good, QKEY, 8, &d, 1);
	ok(arrived(8), "and one that is");
	guest_stop(g);
}

static void test_tricks(void)
{
	const struct impairment tricks[] = {
		{ .repeat = 100 }, { .lose = 100 }, { .damage = 100 },
		{ .delay = 100 },
	};
	static const unsigned int times[] = { 2, 0, 0, 1 };
	unsigned int i, n;

	for (i = 0; i < 4; i++) {
		struct moor_cqe cqe;
		bool good = true;

		start();
		port_impair(g->nic, &tricks[i]);
		for (n = 0; n < 3; n++)
			recv_at(buf[1], LEN, key[1]);
		memset(at(g, buf[0]), 0x3c, LEN);
		post(777);
		good = poll_cq(g, &cq[0], &cqe) && !cqe.status;
		settle_timers(g, 10);
		for (n = 0; arrived(777); n++)
			good = good && ((uint8_t *)at(g, buf[1]))[7] == 9 &&
			       !memcmp(at(g, buf[1] + MOOR_GRH_SIZE),
				       at(g, buf[0]), 777);
		ok(good && n == times[i],
		   "a datagram that is %s comes %u times",
		   ((const char *[]){ "repeated", "lost", "damaged",
				      "delayed" })[i], n);
		guest_stop(g);
	}
}

/* ---- the end of a message ---- */

static void test_registered_anew(void)
{
	uint64_t table, page;
	struct moor_mr_context e = {
		.pd = PD, .iova = 0x100000, .length = 8192,
		.xlat = { .levels = 1, .page_shift = 12 },
	};
	uint32_t torn = (0x77u << 16) | 0x1234;
	struct moor_sq_wqe *wqe;
	struct moor_wqe_ud *to;
	struct moor_sge from;
	struct moor_cqe cqe;
	struct moor_cmd_modify_qp rts = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_RTS,
	};

	start();
	table = take(g, 4096);
	page = take(g, 4096);
	*(uint64_t *)at(g, table) = page | MOOR_PTE_PRESENT | MOOR_PTE_LEAF;
	e.xlat.root = table | MOOR_PTE_PRESENT;
	put_entry(g, torn, &e, MOOR_MRC_TYPE_MR);
	recv_at(buf[1], LEN, key[1]);
	wqe = next_send(g, &qp[0], MOOR_WQE_SEND, 1);
	to = (void *)(wqe + 1);
	*to = (struct moor_wqe_ud){
		.dgid = { 0xfe, 0x80, [15] = 1 }, .dest_qpn = QPN(1), .qkey = QKEY,
	};
	from = sge(0x100000 + 4096 - 32, 64, torn);
	wqe->num_sge = 1;
	memcpy(to + 1, &from, sizeof(from));
	ring(g, &qp[0]);
	ok(poll_cq(g, &cq[0], &cqe) && cqe.status == MOOR_WC_LOC_PROT_ERR,
	   "a message whose sender's memory ends half-way");
	revoke_key(g, key[1]);
	e = (struct moor_mr_context){
		.pd = PD, .access = MOOR_ACCESS_LOCAL_WRITE, .iova = buf[1],
		.length = LEN, .xlat = flat(buf[1]),
	};
	put_entry(g, key[1], &e, MOOR_MRC_TYPE_MR);
	modify(g, &rts, QPN(0));
	post(64);
	ok(arrived(64), "its receive, registered anew, serves the next one");
	guest_stop(g);
}

/* ---- pages that never come ---- */

static bool page_never_comes(void)
{
	struct moor_cmd_page_response cmd = {
		.hdr.opcode = MOOR_CMD_PAGE_RESPONSE, .status = MOOR_PAGE_FAILED,
	};
	struct moor_eqe eqe;
	struct moor_cqe cqe;

	post(64);
	if (!next_event(g, 1, &eqe))
		return false;
	cmd.token = ((struct moor_page_request *)&eqe)->token;
	if (command(g, &cmd, sizeof(cmd)))
		return false;
	settle(g);
	return poll_cq(g, &cq[0], &cqe) && cqe.status == MOOR_WC_LOC_PROT_ERR;
}

/* More such datagrams than a port has room for, with packets of the path MTU. */
static void test_unsent(void)
{
	static const struct impairment none;
	struct moor_cmd_modify_qp rts = {
		.mask = MOOR_QP_ATTR_STATE, .state = MOOR_QPS_RTS,
	};
	struct moor_mr_context e = {
		.pd = PD, .access = MOOR_ACCESS_ON_DEMAND, .length = LEN,
		.xlat = { .levels = 1, .page_shift = 12 },
	};
	uint32_t paged = (0x78u << 16) | 0x1234, good;
	unsigned int n = 0;

	start();
	port_impair(g->nic, &none);
	e.iova = buf[0];
	e.xlat.root = take(g, 4096) | MOOR_PTE_PRESENT;
	memset(at(g, e.xlat.root & ~(uint64_t)4095), 0, 4096);
	put_entry(g, paged, &e, MOOR_MRC_TYPE_MR);
	good = key[0];
	key[0] = paged;
	while (n < 70 && page_never_comes()) {
		modify(g, &rts, QPN(0));
		n++;
	}
	ok(n == 70, "%u of 70 messages whose page does not come have failed", n);
	key[0] = good;
	recv_at(buf[1], LEN, key[1]);
	post(64);
	settle_timers(g, 100);
	ok(arrived(64), "and the next one arrives");
	guest_stop(g);
}

/* ---- a CQ without room ---- */

/*
 * In SQE a flush overruns the CQ, which puts the QP into ERR. That the queue cannot be
 * reached where the flush goes on is no news then (HWI WQ-5, CQ-10).
 */
static void test_overrun_in_sqe(void)
{
	unsigned int i, errors = 0, others = 0;
	struct moor_eqe eqe;

	start();
	make_cq(g, &cq[0], 7, 1);
	make_special_qp(g, &qp[0], QPN(2), PD, &cq[0], &cq[0], MOOR_QP_UD, 0);
	to_rts(2);
	dma_map_remove(g->dma, qp[0].sq + 4096, 4096);
	for (i = 0; i < 10; i++)
		next_send(g, &qp[0], i ? MOOR_WQE_SEND : MOOR_WQE_WRITE, i);
	ring(g, &qp[0]);
	while (next_event(g, 0, &eqe))
		*(eqe.type == MOOR_EVENT_CQ_ERROR ? &errors : &others) += 1;
	ok(errors == 1 && !others,
	   "a CQ is overrun in SQE: %u CQ_ERROR, %u other events", errors, others);
	guest_stop(g);
}

int main(void)
{
	test_bytes();
	test_wire();
	test_tricks();
	test_registered_anew();
	test_unsent();
	test_overrun_in_sqe();
	return done();
}
