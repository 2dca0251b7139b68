// SPDX-License-Identifier: GPL-2.0
/* Extended reliable connections (HWI 12.6). */
#include <string.h>

#include "paged.h"
#include "xrc.h"

TEST_CASE(xrc_srq_command_, "CREATE_SRQ with flag XRC: a domain, a CQ, a cookie",
	  "XRC-1 XRC-2 CQ-2 CMD-10 CMD-28 CMD-30 FEAT-3 QP-19", HAS(XRC))
{
	struct moor_cmd_destroy_cq destroy_cq = {
		.hdr.opcode = MOOR_CMD_DESTROY_CQ, .cqn = 3,
	};
	struct moor_cmd_create_srq cmd, good;
	struct moor_cmd_create_qp sharer;
	struct srq srq;
	struct cq cq;
	struct qp qp;

	make_cq(&cq, 3, 4);
	good = xrc_srq_command(&srq, &cq, PD);
	cmd = good;
	cmd.xrcd = 1u << 24;
	refused(cmd, MOOR_CMD_BAD_PARAM, xrcd, "a domain of 25 bits");
	cmd = good;
	cmd.cqn = 4;
	refused(cmd, MOOR_CMD_BAD_INDEX, cqn, "no CQ");
	cmd = good;
	cmd.flags = 0;
	cmd.log_depth = 0xff;
	refused(cmd, MOOR_CMD_BAD_RESERVED, xrcd, "without the flag, and worse");
	cmd.xrcd = 0;
	refused(cmd, MOOR_CMD_BAD_RESERVED, cqn, "without the flag");
	cmd.cqn = 0;
	refused(cmd, MOOR_CMD_BAD_RESERVED, cookie, "without the flag");
	cmd = good;
	cmd.flags = 0x80;
	refused(cmd, MOOR_CMD_BAD_RESERVED, xrcd, "with an unknown flag instead");
	must(good);
	refused(destroy_cq, MOOR_CMD_BUSY, cqn, "the SRQ completes there");
	sharer = sharing_command(&qp, &cq, &srq);
	refused(sharer, MOOR_CMD_BAD_INDEX, srqn, "of an RC QP");
	destroy_srq(&srq);
	must(destroy_cq);
}

TEST_CASE(xrc_qp_commands, "CREATE_QP: requesters without receives, targets without queues",
	  "XRC-1 XRC-3 XRC-4 CMD-28 CMD-30 QP-1", HAS(XRC))
{
	struct moor_cmd_create_qp good, cmd;
	struct srq srq;
	struct cq cq;
	struct qp qp, other;

	make_cq(&cq, 1, 4);
	make_srq(&srq);
#define BAD(status, field, value)					\
	do {								\
		cmd = good;						\
		cmd.field = value;					\
		refused(cmd, status, field, #field " = " #value);	\
	} while (0)
	about("XRC_INI");
	good = ini_command(&qp, &cq);
	BAD(MOOR_CMD_BAD_PARAM, no_rq, 0);
	BAD(MOOR_CMD_BAD_RESERVED, xrcd, XRCD);
	BAD(MOOR_CMD_BAD_PARAM, type, 9);
	cmd.xrcd = XRCD;
	refused(cmd, MOOR_CMD_BAD_RESERVED, xrcd, "of an unknown type");
	cmd = sharing_command(&other, &cq, &srq);
	cmd.type = MOOR_QP_XRC_INI;
	refused(cmd, MOOR_CMD_BAD_PARAM, flags, "flag SRQ");
	must(good);
	about("XRC_TGT");
	good = tgt_command(&qp);
	BAD(MOOR_CMD_BAD_PARAM, no_sq, 0);
	BAD(MOOR_CMD_BAD_PARAM, no_rq, 0);
	BAD(MOOR_CMD_BAD_PARAM, flags, MOOR_QP_FLAG_KERNEL);
	BAD(MOOR_CMD_BAD_PARAM, xrcd, 1u << 24);
	BAD(MOOR_CMD_BAD_RESERVED, pd, PD);
	BAD(MOOR_CMD_BAD_RESERVED, send_cqn, cq.cqn);
	BAD(MOOR_CMD_BAD_RESERVED, recv_cqn, cq.cqn);
	BAD(MOOR_CMD_BAD_RESERVED, cookie, 1);
#undef BAD
	must(good);
	destroy_qp(&qp);
	must(good);
}

TEST_CASE(xrc_send, "SENDs over one connection go to the SRQ that each names",
	  "XRC-3 XRC-5 XRC-6 XRC-7 SRQ-6 RC-33 CQ-18", HAS(XRC))
{
	struct moor_cqe cqe;
	struct xrc x;
	unsigned int n;

	make_xrc(&x);
	for (n = 0; n < 3 * DEPTH; n++) {
		unsigned int i = n % 3 == 1;
		uint64_t to = x.buf + BUF / 2 + n % DEPTH * 512;
		uint32_t index = query_srq(&x.srq[i]).consumer;

		about("message %u, to SRQ %u", n, i);
		memset(at(to), 0, 512);
		post_shared(&x.srq[i], 0x1000 + n, to, 512, x.key[i]);
		post_for(&x, x.srq[i].srqn, (struct send_wr){
			.opcode = n & 1 ? MOOR_WQE_SEND_IMM : MOOR_WQE_SEND,
			.imm = 0x12345600 + n, SGE(x.buf, 100 + n, x.key[0]),
		});
		expect_cqe(&x.send_cq, 0x5e, MOOR_WC_SUCCESS, 0);
		cqe = came_for(&x, i, 0x1000 + n, MOOR_WC_SUCCESS, 0);
		expect(cqe.byte_len == 100 + n && cqe.wqe_index == index &&
		       cqe.src_qpn == x.ini.qpn &&
		       cqe.opcode == MOOR_CQE_RECV &&
		       (n & 1 ? cqe.imm == 0x12345600 + n : !cqe.flags),
		       "%u bytes from 0x%x", cqe.byte_len, cqe.src_qpn);
		expect(same(x.buf, to, 100 + n) && is_all(to + 100 + n, 412 - n, 0),
		       "the data");
		expect_no_cqe(&x.recv_cq[!i]);
	}
	expect_no_event(MOOR_EQ_ASYNC);
}

TEST_CASE(xrc_long, "a message of many packets, and inline data", "XRC-3 XRC-6", HAS(XRC))
{
	struct xrc x;

	make_xrc(&x);
	post_shared(&x.srq[1], 1, x.buf + BUF / 2, BUF / 2, x.key[1]);
	memset(at(x.buf + BUF / 2), 0, BUF / 2);
	send_for(&x, x.srq[1].srqn, BUF / 2, MOOR_WC_SUCCESS);
	came_for(&x, 1, 1, MOOR_WC_SUCCESS, 0);
	expect(same(x.buf, x.buf + BUF / 2, BUF / 2), "the data");
	about("inline");
	post_shared(&x.srq[0], 2, x.buf + BUF / 2, 64, x.key[0]);
	post_for(&x, x.srq[0].srqn, (struct send_wr){
		.opcode = MOOR_WQE_SEND, .data = "12345678", .data_len = 8,
	});
	expect_cqe(&x.send_cq, 0x5e, MOOR_WC_SUCCESS, 0);
	came_for(&x, 0, 2, MOOR_WC_SUCCESS, 0);
	expect(!memcmp(at(x.buf + BUF / 2), "12345678", 8), "the data");
}

TEST_CASE(xrc_remote, "WRITE, READ and atomics by the PD of the SRQ that is named",
	  "XRC-3 XRC-6 XRC-7 RC-6 ACC-7 RC-38", HAS(XRC))
{
	static const uint8_t opcodes[] = {
		MOOR_WQE_WRITE, MOOR_WQE_READ, MOOR_WQE_FETCH_ADD,
		MOOR_WQE_CMP_SWAP, MOOR_WQE_WRITE_IMM,
	};
	uint64_t remote, *word;
	struct xrc x;
	unsigned int n, i;

	make_xrc(&x);
	remote = x.buf + BUF / 2;
	word = at(remote);
	for (n = 0; n < 2 * sizeof(opcodes); n++) {
		uint8_t opcode = opcodes[n / 2];
		struct send_wr wr = {
			.opcode = opcode, .remote = remote, .imm = 5,
			SGE(x.buf, 8, x.key[0]),
			.atomic = { .swap_add = 3, .compare = 40 },
		};

		i = n & 1;
		about("opcode %u, SRQ %u", opcode, i);
		if (!(dev.features & MOOR_FEATURE_ATOMICS) &&
		    (opcode == MOOR_WQE_CMP_SWAP || opcode == MOOR_WQE_FETCH_ADD))
			continue;
		fill(x.buf, 8, n + 1);
		*word = 40;
		wr.rkey = x.key[i];
		if (opcode == MOOR_WQE_WRITE_IMM)
			post_shared(&x.srq[i], 9, 0, 0, 0);
		post_for(&x, x.srq[i].srqn, wr);
		expect_cqe(&x.send_cq, 0x5e, MOOR_WC_SUCCESS, 0);
		switch (opcode) {
		case MOOR_WQE_WRITE_IMM:
			expect(came_for(&x, i, 9, MOOR_WC_SUCCESS, 0).opcode ==
			       MOOR_CQE_RECV_WRITE_IMM, "its receive");
			/* fallthrough */
		case MOOR_WQE_WRITE:
			expect(same(x.buf, remote, 8), "the data");
			break;
		case MOOR_WQE_READ:
			expect(*(uint64_t *)at(x.buf) == 40, "the data");
			break;
		default:
			expect(*(uint64_t *)at(x.buf) == 40 && *word ==
			       (opcode == MOOR_WQE_CMP_SWAP ? 3 : 43),
			       "%llu", (unsigned long long)*word);
			break;
		}
		about("opcode %u, SRQ %u, a key of the other's PD", opcode, i);
		wr.rkey = x.key[!i];
		*word = 40;
		post_for(&x, x.srq[i].srqn, wr);
		expect_cqe(&x.send_cq, 0x5e, MOOR_WC_REM_ACCESS_ERR, 0);
		expect(*word == 40, "the memory has changed");
		drop_events(MOOR_EQ_ASYNC);
		reconnect_xrc(&x);
	}
}

#define LONG_READ	(1u << 20)	/* several units: the rest is answered later */

TEST_CASE(xrc_many_reads, "READs of different SRQs under way together, each by its own PD",
	  "XRC-7 XRC-9", HAS(XRC))
{
	static const uint32_t pds[] = { PD, OTHER_PD };
	uint64_t from = take_filled(LONG_READ, 2), to = take(4 * LONG_READ);
	uint32_t into, key[2];
	struct xrc x;
	unsigned int n;

	at_least(max_rd_atomic, 2);
	at_least(max_msg_size, LONG_READ);
	at_least(max_mr_size, 4 * LONG_READ);
	make_xrc(&x);
	into = make_mr(PD, MOOR_ACCESS_LOCAL_WRITE, to, 4 * LONG_READ);
	for (n = 0; n < 2; n++)
		key[n] = make_mr(pds[n], MOOR_ACCESS_REMOTE_READ, from, LONG_READ);
	must_modify(&x.tgt, (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_MAX_DEST_RD_ATOMIC,
		.max_dest_rd_atomic = 2,
	});
	must_modify(&x.ini, (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_MAX_RD_ATOMIC, .max_rd_atomic = 2,
	});
	for (n = 0; n < 4; n++) {
		struct moor_wqe_xrc whose = { .srqn = x.srq[n & 1].srqn };
		struct send_wr wr = {
			.opcode = MOOR_WQE_READ, .wr_id = n, .whose = &whose,
			.remote = from, .rkey = key[n & 1],
			SGE(to + n * LONG_READ, LONG_READ, into),
		};

		put_send(&x.ini, &wr);
	}
	ring_send(&x.ini);
	for (n = 0; n < 4; n++)
		expect_cqe(&x.send_cq, n, MOOR_WC_SUCCESS, 0);
	for (n = 0; n < 4; n++)
		expect(same(from, to + n * LONG_READ, LONG_READ), "READ %u", n);
}

TEST_CASE(xrc_keys, "receive SGEs are checked by the SRQ's PD and KERNEL flag",
	  "XRC-7 ACC-20 RC-9", HAS(XRC))
{
	struct moor_mr_context all = { .pd = PD, .access = MOOR_ACCESS_LOCAL_WRITE };
	struct moor_cmd_create_srq cmd;
	struct srq srq;
	struct xrc x;
	uint32_t key;

	make_xrc(&x);
	about("a key of the other PD");
	post_shared(&x.srq[0], 1, x.buf, 64, x.key[1]);
	send_for(&x, x.srq[0].srqn, 64, MOOR_WC_REM_OP_ERR);
	came_for(&x, 0, 1, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_PD);
	drop_events(MOOR_EQ_ASYNC);
	reconnect_xrc(&x);
	about("all of memory");
	key = make_entry(&all, MOOR_MRC_TYPE_ALL);
	post_shared(&x.srq[0], 2, x.buf + BUF / 2, 64, key);
	send_for(&x, x.srq[0].srqn, 64, MOOR_WC_REM_OP_ERR);
	came_for(&x, 0, 2, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_KEY);
	reconnect_xrc(&x);
	about("all of memory, and the kernel's");
	cmd = xrc_srq_command(&srq, &x.recv_cq[0], PD);
	cmd.flags |= MOOR_SRQ_FLAG_KERNEL;
	must(cmd);
	post_shared(&srq, 3, x.buf + BUF / 2, 64, key);
	send_for(&x, srq.srqn, 64, MOOR_WC_SUCCESS);
	came_for(&x, 0, 3, MOOR_WC_SUCCESS, 0);
}

TEST_CASE(xrc_stride, "a segment that fits into the stride, and SGEs that do not",
	  "XRC-3 WQ-6 WQ-8", HAS(XRC))
{
	struct moor_cmd_create_qp cmd;
	struct xrc x;

	make_xrc(&x);
	destroy_qp(&x.ini);
	cmd = ini_command(&x.ini, &x.send_cq);
	cmd.log_sq_stride = MOOR_MIN_LOG_SQ_STRIDE;
	x.ini.log_stride = MOOR_MIN_LOG_SQ_STRIDE;
	must(cmd);
	reset_qp(&x.tgt);
	connect_qp(&x.ini, x.tgt.qpn);
	connect_qp(&x.tgt, x.ini.qpn);
	post_for(&x, x.srq[0].srqn, (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .remote = x.buf + BUF / 2,
		.rkey = x.key[0], SGE(x.buf, 64, x.key[0]),
	});
	expect_cqe(&x.send_cq, 0x5e, MOOR_WC_SUCCESS, 0);
	expect(same(x.buf, x.buf + BUF / 2, 64), "the data");
	((struct moor_sq_wqe *)at(x.ini.sq + 64))->num_sge = 2;
	post_for(&x, x.srq[0].srqn, (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .flags = AS_IT_IS, .num_sge = 2,
	});
	expect_cqe(&x.send_cq, 0x5e, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
}

TEST_CASE(xrc_pages, "a receive of an SRQ, and a remote range, wait for their pages",
	  "XRC-5 ODP-15 ODP-16", HAS(XRC))
{
	struct moor_page_request r;
	struct moor_cmd_create_srq create;
	struct moor_cmd_create_qp cmd;
	struct moor_wqe_xrc whose;
	struct srq srq;
	struct paged p;
	unsigned int n;

	skip_unless(dev.features & MOOR_FEATURE_ODP);
	make_paged(&p);
	create = xrc_srq_command(&srq, &p.pair.cq[1], PD);
	must(create);
	whose.srqn = srq.srqn;
	memset(whose.reserved1, 0, sizeof(whose.reserved1));
	cmd = ini_command(&p.pair.qp[0], &p.pair.cq[0]);
	must(cmd);
	cmd = tgt_command(&p.pair.qp[1]);
	must(cmd);
	connect_qp(&p.pair.qp[0], p.pair.qp[1].qpn);
	connect_qp(&p.pair.qp[1], p.pair.qp[0].qpn);
	page_in(&p, 0, 0, PAGES, true);
	post_shared(&srq, 7, paged_addr(1, 64), 256, p.key[1]);
	for (n = 0; n < 2; n++) {
		uint64_t off = n * PAGE + 64;

		about(n ? "a WRITE" : "a SEND");
		post_send(&p.pair.qp[0], (struct send_wr){
			.opcode = n ? MOOR_WQE_WRITE : MOOR_WQE_SEND,
			.wr_id = 1, .whose = &whose,
			.remote = paged_addr(1, off), .rkey = p.key[1],
			SGE(paged_addr(0, 0), 256, p.key[0]),
		});
		r = expect_request(&p, 1, off, 1, MOOR_PAGE_REQUEST_RESPONDER |
						  MOOR_PAGE_REQUEST_WRITE);
		while_it_waits(&p);
		page_in(&p, 1, n, 1, true);
		must_answer(r.token, MOOR_PAGE_RESOLVED);
		expect_cqe(&p.pair.cq[0], 1, MOOR_WC_SUCCESS, 0);
		if (!n)
			expect_cqe(&p.pair.cq[1], 7, MOOR_WC_SUCCESS, 0);
		expect(same(p.pages[0], p.pages[1] + off, 256), "the data");
	}
	about("its SRQ goes while it waits");
	post_send(&p.pair.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .wr_id = 2, .whose = &whose,
		.remote = paged_addr(1, 3 * PAGE), .rkey = p.key[1],
		SGE(paged_addr(0, 0), 64, p.key[0]),
	});
	r = expect_request(&p, 1, 3 * PAGE, 1, MOOR_PAGE_REQUEST_RESPONDER |
					       MOOR_PAGE_REQUEST_WRITE);
	destroy_srq(&srq);
	page_in(&p, 1, 3, 1, true);
	must_answer(r.token, MOOR_PAGE_RESOLVED);
	expect_cqe(&p.pair.cq[0], 2, MOOR_WC_REM_INV_REQ_ERR, 0);
}
