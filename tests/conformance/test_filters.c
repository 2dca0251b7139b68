// SPDX-License-Identifier: GPL-2.0
/* Filters: multicast (HWI 12.5). */
#include <string.h>

#include "datagrams.h"

static const uint8_t group[16] = { 0xff, 0x0e, [15] = 0x77 };
static const uint8_t other_group[16] = { 0xff, 0x0e, [15] = 0x78 };

static struct moor_cmd_filter filter(uint8_t opcode, const struct qp *qp,
				     const uint8_t *gid)
{
	struct moor_cmd_filter cmd = {
		.hdr.opcode = opcode, .type = MOOR_FILTER_MULTICAST,
		.qpn = qp->qpn,
	};

	memcpy(cmd.gid, gid, sizeof(cmd.gid));
	return cmd;
}

static uint8_t attach(const struct qp *qp, const uint8_t *gid)
{
	struct moor_cmd_filter cmd = filter(MOOR_CMD_ATTACH_FILTER, qp, gid);

	return do_command(cmd);
}

static uint8_t detach(const struct qp *qp, const uint8_t *gid)
{
	struct moor_cmd_filter cmd = filter(MOOR_CMD_DETACH_FILTER, qp, gid);

	return do_command(cmd);
}

TEST_CASE(filter_commands, "ATTACH_FILTER and DETACH_FILTER: ranges and contradictions",
	  "FLT-1 FLT-2 FLT-3 CMD-10 CMD-11 CMD-12 CMD-30", HAS(UD))
{
	static const uint8_t unicast[][16] = {
		{ 0 }, { 0xfe, 0x80, [15] = 1 }, { [10] = 0xff, 0xff, 223, 255, 255, 255 },
		{ [10] = 0xff, 0xff, 240, 0, 0, 0 }, { [10] = 0xff, 0xff, 10, 0, 0, 1 },
	};
	static const uint8_t multicast[][16] = {
		{ 0xff, 1 }, { [10] = 0xff, 0xff, 224, 0, 0, 0 },
		{ [10] = 0xff, 0xff, 239, 255, 255, 255 },
	};
	struct moor_cmd_filter good, cmd;
	struct datagrams d;
	struct qp rc;
	unsigned int i;
	uint8_t opcode;

	make_datagrams(&d);
	make_qp(&rc, &d.cq[0], &d.cq[0]);
	for (opcode = MOOR_CMD_ATTACH_FILTER; opcode <= MOOR_CMD_DETACH_FILTER;
	     opcode++) {
		good = filter(opcode, &d.qp[1], group);
#define BAD(status, at_, field, value)					\
	do {								\
		cmd = good;						\
		cmd.field = value;					\
		refused(cmd, status, at_, #field " = " #value);		\
	} while (0)
		BAD(MOOR_CMD_BAD_PARAM, type, type, 0);
		BAD(MOOR_CMD_BAD_PARAM, type, type, 2);
		BAD(MOOR_CMD_BAD_INDEX, qpn, qpn, rc.qpn);
		BAD(MOOR_CMD_BAD_INDEX, qpn, qpn, 1u << 24 | d.qp[1].qpn);
		BAD(MOOR_CMD_BAD_RESERVED, reserved1, reserved1[0], 1);
		BAD(MOOR_CMD_BAD_RESERVED, reserved1, reserved1[2], 0x80);
#undef BAD
		for (i = 0; i < 5; i++) {
			cmd = filter(opcode, &d.qp[1], unicast[i]);
			refused(cmd, MOOR_CMD_BAD_PARAM, gid, "unicast %u", i);
		}
	}
	for (i = 0; i < 3; i++) {
		about("multicast %u", i);
		cmd = filter(MOOR_CMD_DETACH_FILTER, &d.qp[1], multicast[i]);
		refused(cmd, MOOR_CMD_BAD_INDEX, gid, "not attached");
		expect(!attach(&d.qp[1], multicast[i]), "attach");
		cmd = filter(MOOR_CMD_DETACH_FILTER, &d.qp[2], multicast[i]);
		refused(cmd, MOOR_CMD_BAD_INDEX, gid, "another QP's");
		expect(!detach(&d.qp[1], multicast[i]), "detach");
		expect(detach(&d.qp[1], multicast[i]) == MOOR_CMD_BAD_INDEX,
		       "twice");
	}
}

TEST_CASE(filter_capacity, "as many filters as MAX_FILTER says", "REG-4 CMD-15 CMD-30 FLT-1",
	  HAS(UD))
{
	uint32_t n = dev.max_filter, i;
	struct datagrams d;
	uint8_t gid[16] = { 0xff, 0x0e };

	if (n > 4096)
		n = 4096;
	make_datagrams(&d);
	for (i = 0; i <= n; i++) {
		uint8_t status;

		memcpy(gid + 8, &i, sizeof(i));
		status = attach(&d.qp[1], gid);
		if (!expect(i < dev.max_filter ? !status :
			    status == MOOR_CMD_NO_RESOURCE, "filter %u: status %u",
			    i, status))
			return;
	}
	about("one that is there takes no more room");
	for (i = 0; i < n; i += n - 1 ? n - 1 : 1) {
		memcpy(gid + 8, &i, sizeof(i));
		expect(!attach(&d.qp[1], gid), "filter %u is refused", i);
	}
	expect(n < dev.max_filter ||
	       attach(&d.qp[2], gid) == MOOR_CMD_NO_RESOURCE,
	       "another QP's is not");
	about("one that has gone makes room");
	expect(!detach(&d.qp[1], gid), "detach");
	expect(!attach(&d.qp[1], group), "it is refused");
}

static void send_to_group(struct datagrams *d, const uint8_t *gid)
{
	memcpy(d->to.dgid, gid, 16);
	d->to.dest_qpn = 0xffffff;
	send_datagram(d, 64);
}

TEST_CASE(filter_delivery, "multicast: once to each QP that is attached",
	  "FLT-1 FLT-2 FLT-4 UD-2 UD-13 UD-15", HAS(UD))
{
	struct datagrams d;
	unsigned int i;

	at_least(max_filter, 5);
	make_datagrams(&d);
	about("nobody is attached");
	recv_datagram(&d, 1, 1, BUF);
	recv_datagram(&d, 2, 2, BUF);
	send_to_group(&d, group);
	expect_dropped(&d, 1);
	about("one, and that twice");
	expect(!attach(&d.qp[1], group) && !attach(&d.qp[1], group), "attach");
	expect(!attach(&d.qp[2], other_group), "attach");
	send_to_group(&d, group);
	expect_datagram(&d, 1, 1, 64);
	expect(!memcmp((uint8_t *)at(d.buf[1]) + 24, group, 16), "its header");
	expect_no_cqe(&d.cq[1]);
	expect_no_cqe(&d.cq[2]);
	about("twice, when another one has gone");
	expect(!attach(&d.qp[1], other_group) && !detach(&d.qp[1], group) &&
	       !attach(&d.qp[1], other_group) && !attach(&d.qp[1], group),
	       "attach");
	recv_datagram(&d, 1, 20, BUF);
	post_recv(&d.qp[1], 21, d.buf[1] + BUF / 2, 512, d.key[1]);
	expect(!detach(&d.qp[2], other_group), "detach");
	send_to_group(&d, other_group);
	expect_cqe(&d.cq[1], 20, MOOR_WC_SUCCESS, 0);
	expect_no_cqe(&d.cq[1]);
	expect(!detach(&d.qp[1], other_group) && !attach(&d.qp[2], other_group),
	       "attach");
	send_to_group(&d, group);
	expect_cqe(&d.cq[1], 21, MOOR_WC_SUCCESS, 0);
	about("both");
	expect(!attach(&d.qp[2], group), "attach");
	recv_datagram(&d, 1, 3, BUF);
	send_to_group(&d, group);
	expect_datagram(&d, 1, 3, 64);
	expect_datagram(&d, 2, 2, 64);
	about("any number of a QP will do");
	for (i = 0; i < 3; i++) {
		static const uint32_t numbers[] = { 0, 5, 0xfffffe };

		recv_datagram(&d, 1, 10 + i, BUF);
		d.to.dest_qpn = numbers[i];
		memcpy(d.to.dgid, group, 16);
		send_datagram(&d, 64);
		expect_datagram(&d, 1, 10 + i, 64);
	}
	about("but not one of more than 24 bits");
	recv_datagram(&d, 1, 13, BUF);
	d.to.dest_qpn = 1u << 24 | d.qp[1].qpn;
	post_send(&d.qp[0], datagram(&d, 14, 64));
	expect_cqe(&d.cq[0], 14, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	expect_no_cqe(&d.cq[1]);
	must_modify(&d.qp[0], to_state(MOOR_QPS_RTS));
	send_to_group(&d, group);
	expect_datagram(&d, 1, 13, 64);
	about("the sender too");
	expect(!attach(&d.qp[0], group), "attach");
	post_recv(&d.qp[0], 4, d.buf[0] + BUF / 2, 512, d.key[0]);
	recv_datagram(&d, 2, 5, BUF);
	post_send(&d.qp[0], datagram(&d, 6, 64));
	expect_datagram(&d, 2, 5, 64);
	i = wait_cqe(&d.cq[0]).wr_id == 4;
	expect_cqe(&d.cq[0], i ? 6 : 4, MOOR_WC_SUCCESS, 0);
	about("one has gone");
	expect(!detach(&d.qp[2], group), "detach");
	recv_datagram(&d, 1, 7, BUF);
	recv_datagram(&d, 2, 8, BUF);
	send_to_group(&d, group);
	expect_datagram(&d, 1, 7, 64);
	expect_no_cqe(&d.cq[2]);
	send_to_group(&d, other_group);
	expect_datagram(&d, 2, 8, 64);
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(filter_ipv4, "multicast over IPv4", "FLT-3 FLT-4 UD-4 UD-15", HAS(UD))
{
	static const uint8_t ipv4[16] = { [10] = 0xff, 0xff, 224, 0, 0, 251 };
	struct datagrams d;
	struct moor_cqe cqe;
	const uint8_t *ip;

	at_least(max_gid, IPV4_INDEX + 1);
	make_datagrams(&d);
	expect(!attach(&d.qp[1], ipv4), "attach");
	recv_datagram(&d, 1, 1, BUF);
	d.to.sgid_index = IPV4_INDEX;
	send_to_group(&d, ipv4);
	cqe = expect_datagram(&d, 1, 1, 64);
	ip = at(d.buf[1] + 20);
	expect(cqe.network == MOOR_NETWORK_IPV4 && ip[0] == 0x45 &&
	       !memcmp(ip + 16, ipv4 + 12, 4), "its header");
	about("from IPv4 to a group of IPv6");
	post_send(&d.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND, .wr_id = 2,
		.to = &(struct moor_wqe_ud){
			.dgid = { 0xff, 0x0e, [15] = 0x77 }, .qkey = QKEY,
			.sgid_index = IPV4_INDEX,
		},
	});
	expect_cqe(&d.cq[0], 2, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
}

TEST_CASE(filter_apart, "multicast: what becomes of it at one QP is nothing to the others",
	  "FLT-4 UD-9 UD-11 UD-12", HAS(UD))
{
	struct datagrams d;
	unsigned int i;

	at_least(max_filter, UD_QPS - 1);
	make_datagrams(&d);
	for (i = 1; i < UD_QPS; i++)
		expect(!attach(&d.qp[i], group), "attach");
	about("no receive");
	recv_datagram(&d, 2, 1, BUF);
	send_to_group(&d, group);
	expect_datagram(&d, 2, 1, 64);
	about("another Q_Key");
	must_modify(&d.qp[1], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_QKEY, .qkey = QKEY + 1,
	});
	recv_datagram(&d, 1, 2, BUF);
	recv_datagram(&d, 2, 3, BUF);
	send_to_group(&d, group);
	expect_datagram(&d, 2, 3, 64);
	expect_no_cqe(&d.cq[1]);
	about("one that fails");
	reset_qp(&d.qp[1]);
	start_ud_qp(&d.qp[1], QKEY);
	post_recv(&d.qp[1], 4, d.buf[1], BUF, d.key[1] ^ 1);
	recv_datagram(&d, 2, 5, BUF);
	send_to_group(&d, group);
	expect_datagram(&d, 2, 5, 64);
	expect_cqe(&d.cq[1], 4, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_KEY);
}

TEST_CASE(filter_memory, "multicast: the sender's memory is read before anybody has the message",
	  "FLT-5 RC-28", HAS(UD))
{
	struct datagrams d;
	struct send_wr wr;
	unsigned int i;

	at_least(max_filter, UD_QPS - 1);
	make_datagrams(&d);
	for (i = 1; i < UD_QPS; i++) {
		expect(!attach(&d.qp[i], group), "attach");
		recv_datagram(&d, i, i, BUF);
	}
	memcpy(d.to.dgid, group, 16);
	wr = datagram(&d, 9, 64);
	wr.sge[0] = (struct moor_sge){ TORN_IOVA + 2 * PAGE - 32, 64,
				       make_torn_mr(true, take(2 * PAGE)) };
	post_send(&d.qp[0], wr);
	expect_cqe(&d.cq[0], 9, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_TRANSLATION);
	for (i = 1; i < UD_QPS; i++) {
		expect_no_cqe(&d.cq[i]);
		expect(is_all(d.buf[i], BUF, 0), "something is written");
	}
	about("what it sends is what one of them receives into");
	must_modify(&d.qp[0], to_state(MOOR_QPS_RTS));
	wr = datagram(&d, 10, 64);
	wr.sge[0] = (struct moor_sge){ d.buf[1], 64, d.key[1] };
	fill(d.buf[1], 64, 33);
	fill(d.buf[0], 64, 33);
	post_send(&d.qp[0], wr);
	expect_cqe(&d.cq[0], 10, MOOR_WC_SUCCESS, 0);
	expect_datagram(&d, 2, 2, 64);
	expect(same(d.buf[0], d.buf[1] + MOOR_GRH_SIZE, 64), "the first copy");
}

TEST_CASE(filter_life, "a filter stays when its QP is reset, and goes with it",
	  "FLT-6 CTL-2", HAS(UD))
{
	struct datagrams d;
	uint32_t qpn;

	make_datagrams(&d);
	expect(!attach(&d.qp[1], group), "attach");
	reset_qp(&d.qp[1]);
	start_ud_qp(&d.qp[1], QKEY);
	recv_datagram(&d, 1, 1, BUF);
	send_to_group(&d, group);
	expect_datagram(&d, 1, 1, 64);
	about("a QP of the same number");
	destroy_qp(&d.qp[1]);
	qpn = d.qp[1].qpn;
	{
		struct moor_cmd_create_qp cmd = qp_command(&d.qp[1], &d.cq[1],
							   &d.cq[1]);

		cmd.type = MOOR_QP_UD;
		cmd.qpn = qpn;
		d.qp[1].qpn = qpn;
		must(cmd);
	}
	start_ud_qp(&d.qp[1], QKEY);
	recv_datagram(&d, 1, 2, BUF);
	send_to_group(&d, group);
	expect_dropped(&d, 1);
	expect(detach(&d.qp[1], group) == MOOR_CMD_BAD_INDEX, "it is attached");
	about("after a reset of the function");
	expect(!attach(&d.qp[1], group), "attach");
	host_begin();
	make_datagrams(&d);
	recv_datagram(&d, 1, 3, BUF);
	send_to_group(&d, group);
	expect_dropped(&d, 1);
}
