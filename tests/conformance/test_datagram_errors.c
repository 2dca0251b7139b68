// SPDX-License-Identifier: GPL-2.0
/* Datagrams that do not arrive (HWI 12.4). */
#include <string.h>

#include "datagrams.h"
#include "paged.h"
#include "shared.h"

/* Expects QP 0 in SQE, and brings it back to RTS. */
static void go_on(struct datagrams *d)
{
	expect(query_qp(&d->qp[0]).state == MOOR_QPS_SQE, "the sender is not in SQE");
	must_modify(&d->qp[0], to_state(MOOR_QPS_RTS));
}

/* @wr is refused, and nothing arrives. */
static void is_refused(struct datagrams *d, struct send_wr wr, uint8_t status,
		       uint8_t syndrome)
{
	wr.wr_id = 0xbad;
	post_send(&d->qp[0], wr);
	expect_cqe(&d->cq[0], 0xbad, status, syndrome);
	expect_no_cqe(&d->cq[1]);
	expect_no_event(MOOR_EQ_ASYNC);
	go_on(d);
}

TEST_CASE(ud_segments, "UD: address segments that are malformed, and such that are not",
	  "UD-2 UD-3 UD-4 UD-6 RC-5 WQ-8", HAS(UD))
{
	struct moor_wqe_ud good;
	struct datagrams d;

	make_datagrams(&d);
	good = d.to;
	recv_datagram(&d, 1, 1, BUF);
#define TRY(is_bad, field, value)					\
	do {								\
		about(#field " = " #value);				\
		d.to = good;						\
		d.to.field = value;					\
		if (is_bad)						\
			is_refused(&d, datagram(&d, 0, 64),		\
				   MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE); \
		else							\
			send_datagram(&d, 64);				\
	} while (0)
	TRY(true, reserved1, 1);
	TRY(true, reserved1, 0x8000);
	TRY(true, reserved2, 1);
	TRY(true, reserved2, 1u << 31);
	TRY(true, sgid_index, (uint8_t)dev.max_gid);
	TRY(true, sgid_index, 0xff);
	TRY(true, pkey_index, 1);
	TRY(true, pkey_index, 0x8000);
	TRY(true, flow_label, 1u << 20);
	TRY(true, flow_label, ~0u);
	TRY(true, dest_qpn, 1u << 24 | d.qp[1].qpn);
	TRY(true, priority, 8);
	TRY(true, priority, 0xff);
	about("an entry without a GID");
	d.to = good;
	if (dev.max_gid > V1_INDEX)
		set_gid(V1_INDEX, MOOR_GID_NONE, gid_of(V1_INDEX), 0);
	d.to.sgid_index = V1_INDEX;
	is_refused(&d, datagram(&d, 0, 64), MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	about("no destination");
	d.to = good;
	memset(d.to.dgid, 0, 16);
	is_refused(&d, datagram(&d, 0, 64), MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	about("IPv4 to IPv6");
	d.to = good;
	d.to.sgid_index = IPV4_INDEX;
	is_refused(&d, datagram(&d, 0, 64), MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	about("IPv6 to IPv4");
	d.to.sgid_index = GID_INDEX;
	memcpy(d.to.dgid, gid_of(IPV4_INDEX), 16);
	is_refused(&d, datagram(&d, 0, 64), MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	/* To a number that no QP has, so that the receive stays. */
	good.dest_qpn ^= 1u << (dev.qp_index_bits < 24 ? dev.qp_index_bits : 0);
	TRY(false, sgid_index, IPV4_INDEX - IPV4_INDEX);
	TRY(false, flow_label, 0xfffff);
	TRY(false, priority, 7);
	TRY(false, hop_limit, 0);
	TRY(false, traffic_class, 0xff);
	TRY(false, udp_sport, 0xffff);
	TRY(false, dmac[0], 0xff);
	TRY(false, dest_qpn, 0xffffff);
#undef TRY
	about("ROCE_V1 carries any");
	d.to = good;
	set_gid(V1_INDEX, MOOR_GID_ROCE_V1, gid_of(V1_INDEX), MOOR_GID_NO_VLAN);
	d.to.sgid_index = V1_INDEX;
	memcpy(d.to.dgid, gid_of(IPV4_INDEX), 16);
	send_datagram(&d, 64);
	expect_dropped(&d, 1);
}

TEST_CASE(ud_wqes, "UD: opcodes, strides, and what goes for every send WQE",
	  "UD-1 UD-2 UD-14 RC-5 WQ-8 SYN-2", HAS(UD))
{
	static const uint8_t opcodes[] = {
		MOOR_WQE_SEND_INV, MOOR_WQE_WRITE, MOOR_WQE_WRITE_IMM,
		MOOR_WQE_READ, MOOR_WQE_CMP_SWAP, MOOR_WQE_FETCH_ADD,
		MOOR_WQE_LOCAL_INV, MOOR_WQE_BIND_MW, MOOR_WQE_REG_MR,
		MOOR_WQE_ATOMIC_WRITE, MOOR_WQE_FLUSH, 0xff, 0x0d,
	};
	struct moor_cmd_create_qp cmd;
	struct moor_sq_wqe *raw;
	struct datagrams d;
	struct send_wr wr;
	unsigned int i;

	make_datagrams(&d);
	recv_datagram(&d, 1, 1, BUF);
	for (i = 0; i < sizeof(opcodes); i++) {
		/* A later minor version may have given a meaning to the last one (VER-8). */
		if (opcodes[i] == 0x0d && dev.minor > MOOR_HW_VERSION_MINOR)
			break;
		about("opcode 0x%02x", opcodes[i]);
		wr = datagram(&d, 0, 8);
		wr.opcode = opcodes[i];
		if (wr.opcode == MOOR_WQE_FLUSH) {
			wr.num_sge = 0;
			wr.flush.type = MOOR_FLUSH_GLOBAL;
		}
		is_refused(&d, wr, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	}
	about("a flag that there is not");
	wr = datagram(&d, 0, 8);
	wr.flags = 0x10;
	is_refused(&d, wr, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	about("the reserved byte");
	wr = datagram(&d, 0xbad, 8);
	raw = put_send(&d.qp[0], &wr);
	raw->reserved1 = 1;
	ring_send(&d.qp[0]);
	expect_cqe(&d.cq[0], 0xbad, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	go_on(&d);

	about("a slot without room for the segment");
	destroy_qp(&d.qp[0]);
	cmd = qp_command(&d.qp[0], &d.cq[0], &d.cq[0]);
	cmd.type = MOOR_QP_UD;
	cmd.log_sq_stride = MOOR_MIN_LOG_SQ_STRIDE;
	must(cmd);
	start_ud_qp(&d.qp[0], QKEY);
	raw = at(d.qp[0].sq);
	*raw = (struct moor_sq_wqe){ .opcode = MOOR_WQE_SEND, .wr_id = 0xbad };
	memcpy(raw + 1, &d.to, sizeof(d.to));
	ring_slot(d.qp[0].sq_slot, 1);
	expect_cqe(&d.cq[0], 0xbad, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	about("one with room for three SGEs or 48 bytes behind it");
	for (i = 0; i < 6; i++) {
		destroy_qp(&d.qp[0]);
		cmd = qp_command(&d.qp[0], &d.cq[0], &d.cq[0]);
		cmd.type = MOOR_QP_UD;
		cmd.log_sq_stride = 7;
		must(cmd);
		start_ud_qp(&d.qp[0], QKEY);
		d.qp[0].log_stride = 7;
		wr = datagram(&d, 6, 8);
		wr.num_sge = i < 3 ? i + 2 : 0;
		wr.sge[1] = wr.sge[0];
		wr.sge[2] = wr.sge[0];
		wr.data = i < 3 ? NULL : at(d.buf[0]);
		wr.data_len = i < 3 ? 0 : 44 + i;
		wr.flags = AS_IT_IS;
		if (wr.num_sge > 3 || wr.data_len > 48) {
			/* put_send() cannot post a WQE that is larger than its slot. */
			raw = at(d.qp[0].sq);
			*raw = (struct moor_sq_wqe){
				.opcode = MOOR_WQE_SEND, .wr_id = 6,
				.num_sge = (uint8_t)wr.num_sge,
				.flags = wr.data ? MOOR_WQE_FLAG_INLINE : 0,
				.inline_length = wr.data_len,
			};
			memcpy(raw + 1, &d.to, sizeof(d.to));
			ring_slot(d.qp[0].sq_slot, 1);
			expect_cqe(&d.cq[0], 6, MOOR_WC_LOC_QP_OP_ERR,
				   MOOR_SYN_WQE);
			continue;
		}
		if (dev.max_sge < wr.num_sge || dev.max_inline < wr.data_len)
			continue;
		post_send(&d.qp[0], wr);
		expect_cqe(&d.cq[0], 6, MOOR_WC_SUCCESS, 0);
	}
}

TEST_CASE(ud_length, "UD: a message is at most a path MTU long", "UD-5 UD-14 RC-4 CQ-18",
	  HAS(UD))
{
	struct moor_cmd_modify_qp cmd = { .mask = MOOR_QP_ATTR_PATH_MTU };
	struct datagrams d;
	struct send_wr wr;
	unsigned int mtu;

	make_datagrams(&d);
	for (mtu = 1; mtu <= 5; mtu++) {
		uint32_t most = 128u << mtu;

		about("path MTU %u", most);
		cmd.path_mtu = (uint8_t)mtu;
		must_modify(&d.qp[0], cmd);
		must_modify(&d.qp[1], cmd);
		recv_datagram(&d, 1, mtu, BUF);
		is_refused(&d, datagram(&d, 0, most + 1), MOOR_WC_LOC_LEN_ERR,
			   MOOR_SYN_LENGTH);
		is_refused(&d, datagram(&d, 0, BUF), MOOR_WC_LOC_LEN_ERR,
			   MOOR_SYN_LENGTH);
		send_datagram(&d, most);
		expect_datagram(&d, 1, mtu, most);
	}
	about("never set: 256");
	reset_qp(&d.qp[0]);
	must_modify(&d.qp[0], to_state(MOOR_QPS_INIT));
	must_modify(&d.qp[0], to_state(MOOR_QPS_RTR));
	must_modify(&d.qp[0], to_state(MOOR_QPS_RTS));
	is_refused(&d, datagram(&d, 0, 257), MOOR_WC_LOC_LEN_ERR, MOOR_SYN_LENGTH);
	send_datagram(&d, 256);
	if (dev.max_inline < 257)
		return;
	about("inline");
	wr = datagram(&d, 0, 0);
	wr.data = at(d.buf[0]);
	wr.data_len = 257;
	is_refused(&d, wr, MOOR_WC_LOC_LEN_ERR, MOOR_SYN_LENGTH);
}

TEST_CASE(ud_attributes, "UD: MODIFY_QP: Q_Key, P_Key index, and what has no effect",
	  "UD-5 UD-6 QP-7 QP-8 QP-11 QP-17", HAS(UD))
{
	struct moor_cmd_modify_qp cmd = {
		.hdr.opcode = MOOR_CMD_MODIFY_QP, .mask = MOOR_QP_ATTR_PKEY_INDEX,
	};
	struct datagrams d;

	make_datagrams(&d);
	cmd.qpn = d.qp[1].qpn;
	cmd.pkey_index = 1;
	refused(cmd, MOOR_CMD_BAD_PARAM, pkey_index, "P_Key index 1");
	cmd.pkey_index = 0x8000;
	refused(cmd, MOOR_CMD_BAD_PARAM, pkey_index, "P_Key index 0x8000");
	cmd.mask = 0;
	cmd.qkey = 7;
	must(cmd);
	cmd.pkey_index = 0;
	cmd.mask = MOOR_QP_ATTR_PKEY_INDEX;
	must(cmd);
	about("a path, a peer and timers");
	must_modify(&d.qp[1], (struct moor_cmd_modify_qp){
		.mask = MOOR_MASK(13, 1) & ~MOOR_QP_ATTR_PATH_MTU,
		.sgid_index = (uint8_t)(dev.max_gid - 1), .dest_qpn = 0x123456, .rq_psn = 99,
		.sq_psn = 98, .min_rnr_timer = 3, .timeout = 4, .retry_cnt = 5,
		.rnr_retry = 6, .dgid = { 0xfe, 0x80, [15] = 1 },
	});
	recv_datagram(&d, 1, 1, BUF);
	send_datagram(&d, 64);
	expect_datagram(&d, 1, 1, 64);
	about("SQD_EVENT");
	drop_events(MOOR_EQ_ASYNC);
	must_modify(&d.qp[1], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_STATE | MOOR_QP_ATTR_SQD_EVENT,
		.state = MOOR_QPS_SQD,
	});
	expect_event(MOOR_EVENT_SQ_DRAINED, d.qp[1].qpn);
	about("of an RC QP");
	cmd = (struct moor_cmd_modify_qp){
		.hdr.opcode = MOOR_CMD_MODIFY_QP, .qkey = 5,
		.mask = MOOR_QP_ATTR_PKEY_INDEX | MOOR_QP_ATTR_QKEY,
	};
	make_qp(&d.qp[1], &d.cq[1], &d.cq[1]);
	cmd.qpn = d.qp[1].qpn;
	must(cmd);
}

TEST_CASE(ud_dropped, "UD: no receive, a short one, a smaller path MTU: dropped",
	  "UD-11 WQ-16", HAS(UD))
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_PATH_MTU, .path_mtu = 1,
	};
	struct datagrams d;

	make_datagrams(&d);
	about("no receive");
	send_datagram(&d, 64);
	expect_dropped(&d, 1);
	about("one that is a byte too short");
	recv_datagram(&d, 1, 1, MOOR_GRH_SIZE + 63);
	send_datagram(&d, 64);
	expect_dropped(&d, 1);
	expect(is_all(d.buf[1], BUF, 0), "something is written");
	expect(query_qp(&d.qp[1]).state == MOOR_QPS_RTS, "the receiver failed");
	about("it serves the next message");
	send_datagram(&d, 63);
	expect_datagram(&d, 1, 1, 63);
	about("one without room for the header");
	recv_datagram(&d, 1, 2, MOOR_GRH_SIZE - 1);
	send_datagram(&d, 0);
	expect_dropped(&d, 1);
	reset_qp(&d.qp[1]);
	start_ud_qp(&d.qp[1], QKEY);
	about("one with room for that alone");
	recv_datagram(&d, 1, 3, MOOR_GRH_SIZE);
	send_datagram(&d, 0);
	expect_datagram(&d, 1, 3, 0);
	about("a smaller path MTU");
	must_modify(&d.qp[1], cmd);
	recv_datagram(&d, 1, 4, BUF);
	send_datagram(&d, 257);
	expect_dropped(&d, 1);
	expect(query_qp(&d.qp[1]).rq_consumer == 1, "a receive is taken");
	send_datagram(&d, 256);
	expect_datagram(&d, 1, 4, 256);
}

/* Receiver 1 fails, with the CQE of its receive or an event; the sender does not fail. */
static void fails(struct datagrams *d, const char *what, uint8_t status,
		  uint8_t syndrome, uint8_t event)
{
	about("%s", what);
	send_datagram(d, 64);
	if (status)
		expect_cqe(&d->cq[1], 1, status, syndrome);
	if (event)
		expect_event(event, d->qp[1].qpn);
	expect_no_event(MOOR_EQ_ASYNC);
	expect(query_qp(&d->qp[1]).state == MOOR_QPS_ERR, "it is not in ERR");
	expect(query_qp(&d->qp[0]).state == MOOR_QPS_RTS, "the sender failed");
	reset_qp(&d->qp[1]);
	start_ud_qp(&d->qp[1], QKEY);
}

TEST_CASE(ud_own_faults, "UD: what a receiver's own queue or memory is to blame for",
	  "UD-12 RC-9 RC-23 RC-24 WQ-5 WQ-15", HAS(UD))
{
	struct moor_rq_wqe *raw;
	struct datagrams d;

	make_datagrams(&d);
	post_recv(&d.qp[1], 1, d.buf[1], BUF, d.key[1] ^ 1);
	fails(&d, "a key", MOOR_WC_LOC_PROT_ERR, MOOR_SYN_KEY, 0);
	post_recv(&d.qp[1], 1, d.buf[1] + BUF - 64, 104, d.key[1]);
	fails(&d, "bounds, met by the message", MOOR_WC_LOC_PROT_ERR,
	      MOOR_SYN_BOUNDS, 0);
	post_recv(&d.qp[1], 1, d.buf[1], BUF, make_mr(OTHER_PD, ALL_RIGHTS,
						      d.buf[1], BUF));
	fails(&d, "a PD", MOOR_WC_LOC_PROT_ERR, MOOR_SYN_PD, 0);
	post_recv(&d.qp[1], 1, TORN_IOVA + 2 * PAGE - 50, 104,
		  make_torn_mr(true, take(2 * PAGE)));
	fails(&d, "a translation", MOOR_WC_LOC_PROT_ERR, MOOR_SYN_TRANSLATION, 0);
	post_recv(&d.qp[1], 1, d.buf[1], BUF, d.key[1]);
	raw = at(d.qp[1].rq);
	raw->reserved1[6] = 1;
	fails(&d, "a malformed receive", MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE, 0);
	store_slot(d.qp[1].rq_slot, DEPTH + 1);
	fails(&d, "a producer index", 0, 0, MOOR_EVENT_QP_FATAL);
}

TEST_CASE(ud_own_memory, "UD: what the sender's memory is to blame for",
	  "UD-8 UD-14 RC-2 RC-3 RC-28 QP-15", HAS(UD))
{
	struct datagrams d;
	struct send_wr wr;
	uint32_t torn, psn;

	make_datagrams(&d);
	torn = make_torn_mr(true, take_filled(2 * PAGE, 9));
	recv_datagram(&d, 1, 1, BUF);
	psn = query_qp(&d.qp[0]).sq_psn;
	about("a key");
	wr = datagram(&d, 0, 64);
	wr.sge[0].lkey ^= 1;
	is_refused(&d, wr, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_KEY);
	about("the first byte");
	wr.sge[0] = (struct moor_sge){ TORN_IOVA + 2 * PAGE, 64, torn };
	is_refused(&d, wr, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_TRANSLATION);
	expect(query_qp(&d.qp[0]).sq_psn == psn, "what is refused has a PSN");
	about("a later one; the receive serves the next message");
	wr.sge[0] = (struct moor_sge){ TORN_IOVA + 2 * PAGE - 32, 64, torn };
	is_refused(&d, wr, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_TRANSLATION);
	expect(query_qp(&d.qp[0]).sq_psn == psn + 1, "it has no PSN");
	memset(at(d.buf[1]), 0, BUF);
	send_datagram(&d, 64);
	expect_datagram(&d, 1, 1, 64);
}

TEST_CASE(ud_sqe, "UD: in SQE sends are flushed, receives go on; RTS leads out",
	  "UD-14 QP-12 QP-15", HAS(UD))
{
	static const uint8_t nowhere[] = { MOOR_QPS_INIT, MOOR_QPS_RTR,
					   MOOR_QPS_SQD, MOOR_QPS_SQE };
	struct datagrams d;
	struct send_wr wr;
	unsigned int i;

	make_datagrams(&d);
	recv_datagram(&d, 1, 1, BUF);
	recv_datagram(&d, 0, 2, BUF / 2);
	wr = datagram(&d, 0xbad, 64);
	wr.opcode = MOOR_WQE_WRITE;
	put_send(&d.qp[0], &wr);
	for (i = 0; i < 3; i++) {
		wr = datagram(&d, 10 + i, 64);
		wr.flags = i == 1 ? UNSIGNALED : 0;
		put_send(&d.qp[0], &wr);
	}
	ring_send(&d.qp[0]);
	expect_cqe(&d.cq[0], 0xbad, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	for (i = 0; i < 3; i++)
		expect_cqe(&d.cq[0], 10 + i, MOOR_WC_WR_FLUSH_ERR, 0);
	about("later ones");
	for (i = 0; i < 2 * DEPTH; i++) {
		post_send(&d.qp[0], datagram(&d, i, 64));
		expect_cqe(&d.cq[0], i, MOOR_WC_WR_FLUSH_ERR, 0);
	}
	expect_no_cqe(&d.cq[1]);
	about("receives");
	d.to.dest_qpn = d.qp[0].qpn;
	wr = datagram(&d, 5, 64);
	wr.sge[0] = (struct moor_sge){ d.buf[1], 64, d.key[1] };
	post_send(&d.qp[1], wr);
	expect_cqe(&d.cq[1], 5, MOOR_WC_SUCCESS, 0);
	expect_cqe(&d.cq[0], 2, MOOR_WC_SUCCESS, 0);
	about("where it may go");
	for (i = 0; i < 4; i++)
		expect(modify(&d.qp[0], to_state(nowhere[i])) ==
		       MOOR_CMD_BAD_STATE, "to state %u", nowhere[i]);
	go_on(&d);
	d.to.dest_qpn = d.qp[1].qpn;
	send_datagram(&d, 64);
	expect_datagram(&d, 1, 1, 64);

	about("to ERR: receives are flushed too");
	recv_datagram(&d, 0, 7, 64);
	wr = datagram(&d, 0xbad, 64);
	wr.opcode = MOOR_WQE_READ;
	post_send(&d.qp[0], wr);
	expect_cqe(&d.cq[0], 0xbad, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	expect_no_cqe(&d.cq[0]);
	must_modify(&d.qp[0], to_state(MOOR_QPS_ERR));
	expect_cqe(&d.cq[0], 7, MOOR_WC_WR_FLUSH_ERR, 0);
	expect_no_event(MOOR_EQ_ASYNC);
	about("to RESET");
	reset_qp(&d.qp[0]);
	start_ud_qp(&d.qp[0], QKEY);
	send_datagram(&d, 64);
}

TEST_CASE(ud_sqe_queue, "UD: a queue that is senseless in SQE, or in RTS: ERR", "UD-14 WQ-5",
	  HAS(UD))
{
	struct datagrams d;
	struct send_wr wr;
	unsigned int i;

	make_datagrams(&d);
	for (i = 0; i < 2; i++) {
		about("in %s", i ? "SQE" : "RTS");
		if (i) {
			wr = datagram(&d, 0xbad, 64);
			wr.opcode = MOOR_WQE_WRITE;
			post_send(&d.qp[0], wr);
			expect_cqe(&d.cq[0], 0xbad, MOOR_WC_LOC_QP_OP_ERR,
				   MOOR_SYN_WQE);
		}
		ring_slot(d.qp[0].sq_slot, d.qp[0].sq_producer + DEPTH + 1);
		expect(reaches_state(&d.qp[0], MOOR_QPS_ERR), "it is not in ERR");
		expect_event(MOOR_EVENT_QP_FATAL, d.qp[0].qpn);
		expect_no_event(MOOR_EQ_ASYNC);
		reset_qp(&d.qp[0]);
		start_ud_qp(&d.qp[0], QKEY);
	}
}

TEST_CASE(ud_shared, "UD: receives from an SRQ; a short one serves the QP's next message",
	  "SRQ-5 SRQ-7 SRQ-8 SRQ-9 SRQ-10 UD-11 UD-12", HAS(UD))
{
	struct moor_cmd_create_qp cmd;
	struct datagrams d;
	struct moor_cqe cqe;
	struct srq srq;

	skip_unless(dev.features & MOOR_FEATURE_SRQ);
	make_datagrams(&d);
	make_srq(&srq);
	cmd = sharing_command(&d.qp[1], &d.cq[1], &srq);
	cmd.type = MOOR_QP_UD;
	must(cmd);
	start_ud_qp(&d.qp[1], QKEY);
	d.to.dest_qpn = d.qp[1].qpn;
	about("empty");
	send_datagram(&d, 64);
	expect_dropped(&d, 1);
	about("short, then not");
	memset(at(d.buf[1]), 0, BUF);
	post_shared(&srq, 1, d.buf[1], MOOR_GRH_SIZE + 60, d.key[1]);
	post_shared(&srq, 2, d.buf[1], BUF, d.key[1]);
	send_datagram(&d, 64);
	expect_dropped(&d, 1);
	send_datagram(&d, 60);
	cqe = expect_datagram(&d, 1, 1, 60);
	expect(cqe.wqe_index == 0, "WQE %u", cqe.wqe_index);
	send_datagram(&d, 64);
	cqe = expect_datagram(&d, 1, 2, 64);
	expect(cqe.wqe_index == 1, "WQE %u", cqe.wqe_index);
	about("longer than the receiver's path MTU: no WQE is taken");
	must_modify(&d.qp[1], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_PATH_MTU, .path_mtu = 1,
	});
	post_shared(&srq, 3, d.buf[1], BUF, d.key[1]);
	expect(!modify_srq(&srq, MOOR_SRQ_ATTR_LIMIT, 1), "limit");
	send_datagram(&d, 257);
	expect_dropped(&d, 1);
	expect(query_srq(&srq).consumer == 2 && query_srq(&srq).limit == 1,
	       "%u are taken", query_srq(&srq).consumer);
	send_datagram(&d, 256);
	cqe = expect_datagram(&d, 1, 3, 256);
	expect(cqe.wqe_index == 2, "WQE %u", cqe.wqe_index);
	expect_event(MOOR_EVENT_SRQ_LIMIT, srq.srqn);
	about("nor does it find that the SRQ is senseless");
	store_slot(srq.slot, 3 + DEPTH + 1);
	send_datagram(&d, 257);
	expect_dropped(&d, 1);
	expect(!query_srq(&srq).failed, "the SRQ has failed");
	ring_shared(&srq);
	about("to ERR");
	must_modify(&d.qp[1], to_state(MOOR_QPS_ERR));
	expect_event(MOOR_EVENT_LAST_WQE, d.qp[1].qpn);
}

TEST_CASE(ud_pages, "UD: the requester waits for pages; a receive does not",
	  "UD-12 ODP-15", HAS(UD))
{
	struct moor_page_request r;
	struct datagrams d;
	struct paged p;
	struct send_wr wr;

	skip_unless(dev.features & MOOR_FEATURE_ODP);
	make_paged(&p);
	make_cq(&d.cq[0], 2, 5);
	make_cq(&d.cq[1], 3, 5);
	set_gid(GID_INDEX, MOOR_GID_ROCE_V2, gid_of(GID_INDEX), MOOR_GID_NO_VLAN);
	make_ud_qp(&d.qp[0], &d.cq[0]);
	make_ud_qp(&d.qp[1], &d.cq[1]);
	start_ud_qp(&d.qp[0], QKEY);
	start_ud_qp(&d.qp[1], QKEY);
	p.pair.qp[0] = d.qp[0];
	d.to = (struct moor_wqe_ud){ .dest_qpn = d.qp[1].qpn, .qkey = QKEY };
	memcpy(d.to.dgid, gid_of(GID_INDEX), 16);
	wr = (struct send_wr){
		.opcode = MOOR_WQE_SEND, .wr_id = 1, .to = &d.to,
		SGE(paged_addr(0, PAGE - 64), 128, p.key[0]),
	};
	page_in(&p, 0, 0, 1, true);
	page_in(&p, 1, 0, 1, true);
	post_recv(&d.qp[1], 2, paged_addr(1, 0), 1000, p.key[1]);
	about("of the sender, in the middle");
	post_send(&d.qp[0], wr);
	r = expect_request(&p, 0, PAGE, 0, 0);
	expect_no_cqe(&d.cq[0]);
	expect_no_cqe(&d.cq[1]);
	page_in(&p, 0, 1, 1, true);
	must_answer(r.token, MOOR_PAGE_RESOLVED);
	expect_cqe(&d.cq[0], 1, MOOR_WC_SUCCESS, 0);
	expect_cqe(&d.cq[1], 2, MOOR_WC_SUCCESS, 0);
	expect(same(p.pages[0] + PAGE - 64, p.pages[1] + MOOR_GRH_SIZE, 128),
	       "the data");
	about("of the sender, and it cannot be had");
	page_out(&p, 0, 1, 1);
	post_recv(&d.qp[1], 3, paged_addr(1, 0), 1000, p.key[1]);
	post_send(&d.qp[0], wr);
	r = expect_request(&p, 0, PAGE, 0, 0);
	must_answer(r.token, MOOR_PAGE_FAILED);
	expect_cqe(&d.cq[0], 1, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_TRANSLATION);
	go_on(&d);
	page_in(&p, 0, 1, 1, true);
	post_send(&d.qp[0], wr);
	expect_cqe(&d.cq[0], 1, MOOR_WC_SUCCESS, 0);
	expect_cqe(&d.cq[1], 3, MOOR_WC_SUCCESS, 0);
	about("of the receiver");
	post_recv(&d.qp[1], 4, paged_addr(1, PAGE - 100), 1000, p.key[1]);
	post_send(&d.qp[0], wr);
	expect_cqe(&d.cq[0], 1, MOOR_WC_SUCCESS, 0);
	expect_cqe(&d.cq[1], 4, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_TRANSLATION);
	expect_no_event(MOOR_EQ_PAGE_REQUEST);
	expect(query_qp(&d.qp[1]).state == MOOR_QPS_ERR, "it is not in ERR");
}
