// SPDX-License-Identifier: GPL-2.0
/* Datagrams that arrive (HWI 12.4). */
#include <string.h>

#include "datagrams.h"

TEST_CASE(ud_messages, "UD: what is sent arrives, of every length, behind 40 bytes",
	  "UD-1 UD-5 UD-8 UD-9 UD-10 WQ-6 WQ-7", HAS(UD))
{
	static const uint32_t lengths[] = { 0, 1, 3, 64, 1023, UD_MAX };
	struct datagrams d;
	struct send_wr wr;
	struct moor_cqe cqe;
	unsigned int i;

	make_datagrams(&d);
	for (i = 0; i < 6; i++) {
		about("%u bytes", lengths[i]);
		recv_datagram(&d, 1, i, MOOR_GRH_SIZE + lengths[i]);
		send_datagram(&d, lengths[i]);
		cqe = expect_datagram(&d, 1, i, lengths[i]);
		expect(cqe.flags == MOOR_CQE_FLAG_GRH, "flags 0x%x", cqe.flags);
	}
	about("immediate data, solicited");
	recv_datagram(&d, 1, 7, BUF);
	wr = datagram(&d, 6, 64);
	wr.opcode = MOOR_WQE_SEND_IMM;
	wr.flags = MOOR_WQE_FLAG_SOLICITED;
	post_send(&d.qp[0], wr);
	cqe = expect_datagram(&d, 1, 7, 64);
	expect(cqe.imm == 0x4711 &&
	       cqe.flags == (MOOR_CQE_FLAG_GRH | MOOR_CQE_FLAG_IMM |
			     MOOR_CQE_FLAG_SOLICITED), "0x%x, flags 0x%x",
	       cqe.imm, cqe.flags);
	cqe = expect_cqe(&d.cq[0], 6, MOOR_WC_SUCCESS, 0);
	expect(cqe.byte_len == 64 && cqe.opcode == MOOR_WQE_SEND_IMM &&
	       !cqe.flags && !cqe.network && !cqe.vlan, "the CQE of the send");
	about("inline");
	recv_datagram(&d, 1, 8, BUF);
	wr = datagram(&d, 6, 0);
	wr.data = at(d.buf[0]);
	wr.data_len = dev.max_inline < 100 ? dev.max_inline : 100;
	post_send(&d.qp[0], wr);
	expect_datagram(&d, 1, 8, wr.data_len);
	expect_cqe(&d.cq[0], 6, MOOR_WC_SUCCESS, 0);
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(ud_everybody, "UD: from one QP to several, to itself, and from several to one",
	  "UD-8 UD-9 UD-16 EV-10", HAS(UD))
{
	struct datagrams d;
	unsigned int i;
	bool sent;

	make_datagrams(&d);
	for (i = 0; i < 3 * UD_QPS; i++) {
		unsigned int to = i % UD_QPS;

		about("to QP %u", to);
		d.to.dest_qpn = d.qp[to].qpn;
		if (to) {
			recv_datagram(&d, to, i, BUF);
		} else {
			/* QP 0 receives its own datagrams in the rest of its buffer. */
			post_recv(&d.qp[0], i, d.buf[0] + BUF / 2, 512, d.key[0]);
		}
		post_send(&d.qp[0], datagram(&d, 99, 100));
		if (to) {
			expect_datagram(&d, to, i, 100);
			expect_cqe(&d.cq[0], 99, MOOR_WC_SUCCESS, 0);
			continue;
		}
		/* The CQE of the send says nothing of when it arrives. */
		sent = wait_cqe(&d.cq[0]).wr_id == 99;
		expect_cqe(&d.cq[0], sent ? i : 99, MOOR_WC_SUCCESS, 0);
	}
	expect(same(d.buf[0], d.buf[0] + BUF / 2 + MOOR_GRH_SIZE, 100),
	       "what it sent itself");
	about("to a QP in RTR: no COMM_EST");
	reset_qp(&d.qp[1]);
	must_modify(&d.qp[1], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_QKEY |
			MOOR_QP_ATTR_PATH_MTU | MOOR_QP_ATTR_RQ_PSN,
		.state = MOOR_QPS_INIT, .qkey = QKEY, .path_mtu = UD_MTU,
		.rq_psn = 0x777777,
	});
	must_modify(&d.qp[1], to_state(MOOR_QPS_RTR));
	d.to.dest_qpn = d.qp[1].qpn;
	recv_datagram(&d, 1, 50, BUF);
	send_datagram(&d, 64);
	expect_datagram(&d, 1, 50, 64);
	expect_no_event(MOOR_EQ_ASYNC);
}

/* ---- the forty bytes ---- */

static unsigned int be16(const uint8_t *from)
{
	return from[0] * 256u + from[1];
}

/* Length of the rest of a packet on a wire. */
static unsigned int behind(unsigned int len, bool imm)
{
	return 12 + 8 + (imm ? 4 : 0) + (len + 3) / 4 * 4 + 4;
}

static void is_ipv6(const struct datagrams *d, const uint8_t *grh,
		    unsigned int index, unsigned int payload, uint8_t next)
{
	expect(grh[0] == 0x6a && grh[1] == 0xb1 && grh[2] == 0x23 &&
	       grh[3] == 0x45, "%02x %02x %02x %02x", grh[0], grh[1], grh[2],
	       grh[3]);
	expect(be16(grh + 4) == payload, "length %u, where %u was due",
	       be16(grh + 4), payload);
	expect(grh[6] == next && grh[7] == 64, "next header 0x%x, hop limit %u",
	       grh[6], grh[7]);
	expect(!memcmp(grh + 8, gid_of(index), 16) &&
	       !memcmp(grh + 24, d->to.dgid, 16), "GIDs");
}

static void is_ipv4(const struct datagrams *d, const uint8_t *grh,
		    unsigned int payload)
{
	static const uint8_t zeros[20];
	const uint8_t *ip = grh + 20;
	uint32_t sum = 0;
	unsigned int i;

	expect(!memcmp(grh, zeros, 20), "the first 20 bytes are not zero");
	expect(ip[0] == 0x45 && ip[1] == 0xab && ip[8] == 64 && ip[9] == 17 &&
	       !be16(ip + 4) && be16(ip + 6) == 0x4000,
	       "%02x %02x %04x %04x %02x %02x", ip[0], ip[1], be16(ip + 4),
	       be16(ip + 6), ip[8], ip[9]);
	expect(be16(ip + 2) == 20 + payload, "length %u, where %u was due",
	       be16(ip + 2), 20 + payload);
	expect(!memcmp(ip + 12, gid_of(IPV4_INDEX) + 12, 4) &&
	       !memcmp(ip + 16, d->to.dgid + 12, 4), "addresses");
	for (i = 0; i < 20; i += 2)
		sum += be16(ip + i);
	expect((sum & 0xffff) + (sum >> 16) == 0xffff, "check sum");
}

TEST_CASE(ud_headers, "UD: the 40 bytes are the header that the sender's GID asks for",
	  "UD-10 UD-13 UD-15", HAS(UD))
{
	static const struct {
		unsigned int index;
		uint8_t network;
		uint16_t vlan;
	} forms[] = {
		{ GID_INDEX, MOOR_NETWORK_IPV6, MOOR_GID_NO_VLAN },
		{ V1_INDEX, MOOR_NETWORK_ROCE_V1, 0x123 },
		{ IPV4_INDEX, MOOR_NETWORK_IPV4, MOOR_GID_NO_VLAN },
	};
	struct datagrams d;
	unsigned int i, n;

	at_least(max_gid, IPV4_INDEX + 1);
	make_datagrams(&d);
	d.to.traffic_class = 0xab;
	d.to.flow_label = 0x12345;
	d.to.priority = 5;
	for (i = 0; i < 6; i++) {
		unsigned int index = forms[i % 3].index;
		bool imm = i >= 3;
		uint32_t len = 61 + i;
		struct send_wr wr;
		struct moor_cqe cqe;
		uint8_t smac[6] = { 2, 0, 0, 0, 7, (uint8_t)index };

		about("from GID %u, %u bytes", index, len);
		d.to.sgid_index = (uint8_t)index;
		memcpy(d.to.dgid, gid_of(index), 16);
		recv_datagram(&d, 1, i, BUF);
		wr = datagram(&d, 6, len);
		wr.opcode = imm ? MOOR_WQE_SEND_IMM : MOOR_WQE_SEND;
		post_send(&d.qp[0], wr);
		expect_cqe(&d.cq[0], 6, MOOR_WC_SUCCESS, 0);
		cqe = expect_datagram(&d, 1, i, len);
		expect(cqe.network == forms[i % 3].network &&
		       cqe.vlan == forms[i % 3].vlan && cqe.priority == 5 &&
		       !cqe.pkey_index && !memcmp(cqe.smac, smac, 6),
		       "network %u, VLAN 0x%x, priority %u, P_Key index %u",
		       cqe.network, cqe.vlan, cqe.priority, cqe.pkey_index);
		n = behind(len, imm);
		if (index == IPV4_INDEX)
			is_ipv4(&d, at(d.buf[1]), n + 8);
		else
			is_ipv6(&d, at(d.buf[1]), index,
				index == V1_INDEX ? n : n + 8,
				index == V1_INDEX ? 0x1b : 17);
	}
	about("in several SGEs");
	{
		struct moor_sge sges[3] = {
			{ d.buf[1], 10, d.key[1] },
			{ d.buf[1] + 10, 31, d.key[1] },
			{ d.buf[1] + 41, 200, d.key[1] },
		};

		memset(at(d.buf[1]), 0, BUF);
		put_recv(&d.qp[1], 9, sges, dev.max_sge < 3 ? 0 : 3);
		ring_recv(&d.qp[1]);
		send_datagram(&d, 64);
		if (dev.max_sge >= 3) {
			expect_datagram(&d, 1, 9, 64);
			is_ipv4(&d, at(d.buf[1]), behind(64, false) + 8);
		}
	}
}

TEST_CASE(ud_most_sges, "UD: behind the segment there is room for MAX_SGE SGEs",
	  "REG-4 UD-1 WQ-8", HAS(UD))
{
	struct datagrams d;
	struct send_wr wr;
	unsigned int i;

	make_datagrams(&d);
	wr = datagram(&d, 6, 0);
	need(dev.max_sge <= MAX_SGES, "MAX_SGE is %u", dev.max_sge);
	wr.num_sge = dev.max_sge;
	for (i = 0; i < wr.num_sge; i++)
		wr.sge[i] = (struct moor_sge){ d.buf[0] + i, 1, d.key[0] };
	recv_datagram(&d, 1, 9, BUF);
	post_send(&d.qp[0], wr);
	expect_cqe(&d.cq[0], 6, MOOR_WC_SUCCESS, 0);
	expect_datagram(&d, 1, 9, wr.num_sge);
}

TEST_CASE(ud_any_gid, "UD: any of the NIC's GIDs leads to it, whatever the sender's",
	  "UD-8 UD-9", HAS(UD))
{
	struct datagrams d;
	uint8_t nobody[16] = { 0x20, 0x01, [15] = 9 };

	at_least(max_gid, V1_INDEX + 1);
	make_datagrams(&d);
	d.to.sgid_index = V1_INDEX;
	recv_datagram(&d, 1, 1, BUF);
	send_datagram(&d, 64);
	expect_datagram(&d, 1, 1, 64);
	about("one that nobody has");
	recv_datagram(&d, 1, 2, BUF);
	memcpy(d.to.dgid, nobody, 16);
	send_datagram(&d, 64);
	expect_dropped(&d, 1);
	about("one that was cleared");
	memcpy(d.to.dgid, gid_of(V1_INDEX), 16);
	d.to.sgid_index = GID_INDEX;
	set_gid(V1_INDEX, MOOR_GID_NONE, gid_of(V1_INDEX), 0);
	send_datagram(&d, 64);
	expect_dropped(&d, 1);
	about("one that has come");
	set_gid(V1_INDEX, MOOR_GID_ROCE_V2, gid_of(V1_INDEX), 1);
	send_datagram(&d, 64);
	expect_datagram(&d, 1, 2, 64);
}

TEST_CASE(ud_qkeys, "UD: Q_Keys: the segment's, or with the top bit the QP's",
	  "UD-7 UD-9", HAS(UD))
{
	static const struct {
		uint32_t own, sent, receivers;
		bool arrives;
	} keys[] = {
		{ 1, QKEY, QKEY, true },
		{ 1, QKEY ^ 1, QKEY, false },
		{ 1, QKEY ^ 0x40000000, QKEY, false },
		{ 1, 0, 0, true },
		{ QKEY, 0x80000000, QKEY, true },
		{ QKEY, 0xffffffff, QKEY, true },
		{ QKEY, 0x80000000 | QKEY, 0x80000000 | QKEY, false },
		{ 0x80010000, 0x80010000, 0x80010000, true },
		{ 1, 0x80010000, 0x80010000, false },
		{ 0x80010000, 1, 0x80010000, false },
	};
	struct moor_cmd_modify_qp cmd = { .mask = MOOR_QP_ATTR_QKEY };
	struct datagrams d;
	unsigned int i;
	uint32_t taken;

	make_datagrams(&d);
	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		about("QP 0x%x, segment 0x%x, receiver 0x%x", keys[i].own,
		      keys[i].sent, keys[i].receivers);
		cmd.qkey = keys[i].own;
		must_modify(&d.qp[0], cmd);
		cmd.qkey = keys[i].receivers;
		must_modify(&d.qp[1], cmd);
		d.to.qkey = keys[i].sent;
		taken = query_qp(&d.qp[1]).rq_consumer;
		recv_datagram(&d, 1, i, BUF);
		send_datagram(&d, 64);
		if (keys[i].arrives) {
			expect_datagram(&d, 1, i, 64);
			continue;
		}
		expect_dropped(&d, 1);
		expect(query_qp(&d.qp[1]).rq_consumer == taken,
		       "a receive is taken");
		reset_qp(&d.qp[1]);
		start_ud_qp(&d.qp[1], QKEY);
	}
}

TEST_CASE(ud_receivers, "UD: who receives: type, number, state", "UD-9 QP-12", HAS(UD))
{
	static const struct {
		uint8_t state;
		bool receives;
	} states[] = {
		{ MOOR_QPS_RTR, true }, { MOOR_QPS_RTS, true },
		{ MOOR_QPS_SQD, true }, { MOOR_QPS_RESET, false },
		{ MOOR_QPS_INIT, false },
	};
	struct datagrams d;
	struct pair p;
	unsigned int i;

	make_datagrams(&d);
	for (i = 0; i < 5; i++) {
		about("state %u", states[i].state);
		reset_qp(&d.qp[1]);
		if (states[i].state != MOOR_QPS_RESET)
			must_modify(&d.qp[1], (struct moor_cmd_modify_qp){
				.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_QKEY |
					MOOR_QP_ATTR_PATH_MTU,
				.state = MOOR_QPS_INIT, .qkey = QKEY,
				.path_mtu = UD_MTU,
			});
		if (states[i].receives)
			must_modify(&d.qp[1], to_state(MOOR_QPS_RTR));
		if (states[i].receives && states[i].state != MOOR_QPS_RTR)
			must_modify(&d.qp[1], to_state(MOOR_QPS_RTS));
		if (states[i].state == MOOR_QPS_SQD)
			must_modify(&d.qp[1], to_state(MOOR_QPS_SQD));
		recv_datagram(&d, 1, i, BUF);
		send_datagram(&d, 64);
		if (states[i].receives)
			expect_datagram(&d, 1, i, 64);
		else
			expect_dropped(&d, 1);
	}
	about("a number that nobody has");
	reset_qp(&d.qp[1]);
	start_ud_qp(&d.qp[1], QKEY);
	recv_datagram(&d, 1, 9, BUF);
	d.to.dest_qpn = d.qp[1].qpn ^ 1u << dev.qp_index_bits;
	if (dev.qp_index_bits < 24)
		send_datagram(&d, 64);
	d.to.dest_qpn = 0xffffff;
	send_datagram(&d, 64);
	expect_dropped(&d, 1);

	about("a QP of another type");
	make_cq(&p.cq[0], UD_QPS, 4);
	make_qp(&p.qp[0], &p.cq[0], &p.cq[0]);
	connect_qp(&p.qp[0], d.qp[0].qpn);
	must_modify(&p.qp[0], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_QKEY, .qkey = QKEY,
	});
	post_recv(&p.qp[0], 1, d.buf[1], BUF, d.key[1]);
	d.to.dest_qpn = p.qp[0].qpn;
	send_datagram(&d, 64);
	expect_dropped(&d, 1);
	expect_no_cqe(&p.cq[0]);
	about("who is connected to a UD QP talks to nobody");
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_SEND });
	expect_cqe(&p.cq[0], 0, MOOR_WC_RETRY_EXC_ERR, MOOR_SYN_NO_RESPONDER);
	expect_no_cqe(&d.cq[0]);
}

TEST_CASE(ud_gsi, "UD: a QP with number 1 is one like others", "QP-16 UD-9", HAS(UD))
{
	struct moor_cmd_create_qp cmd, again;
	struct datagrams d;
	unsigned int i;
	struct qp gsi;
	struct cq cq;

	make_datagrams(&d);
	make_cq(&cq, UD_QPS, 4);
	cmd = qp_command(&gsi, &cq, &cq);
	cmd.type = MOOR_QP_UD;
	cmd.flags = MOOR_QP_FLAG_KERNEL;
	gsi.qpn = MOOR_QPN_GSI;
	cmd.qpn = gsi.qpn;
	/* A QP of the case may have that index: then the case goes on with another one. */
	for (i = 0; do_command(cmd); i++) {
		need(i < UD_QPS, "QP 1: status %u", answer.status);
		destroy_qp(&d.qp[i]);
	}
	while (i--) {
		do {
			again = qp_command(&d.qp[i], &d.cq[i], &d.cq[i]);
			again.type = MOOR_QP_UD;
		} while (do_command(again) == MOOR_CMD_BAD_INDEX);
		start_ud_qp(&d.qp[i], QKEY);
	}
	start_ud_qp(&gsi, 0x80010000);
	post_recv(&gsi, 3, d.buf[1], BUF, d.key[1]);
	d.to.dest_qpn = MOOR_QPN_GSI;
	d.to.qkey = 0x80010000;
	about("from who does not have its Q_Key");
	send_datagram(&d, 64);
	expect_no_cqe(&cq);
	about("from who has it");
	must_modify(&d.qp[0], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_QKEY, .qkey = 0x80010000,
	});
	send_datagram(&d, 64);
	expect(expect_cqe(&cq, 3, MOOR_WC_SUCCESS, 0).byte_len == 104, "its length");
}
