// SPDX-License-Identifier: GPL-2.0
/* Reliable connections, when something goes wrong (HWI 12, 11.3). */
#include <string.h>

#include "platform.h"
#include "traffic.h"

static struct send_wr send_of(const struct pair *p, uint32_t len)
{
	return (struct send_wr){
		.opcode = MOOR_WQE_SEND, .wr_id = 6,
		SGE(p->buf[0], len, p->key[0]),
	};
}

TEST_CASE(local_errors, "an error of one's own: the responder notices nothing",
	  "RC-2 RC-3 RC-12 SYN-2 SYN-3", 0)
{
	static const uint8_t opcodes[] = { MOOR_WQE_SEND, MOOR_WQE_WRITE,
					   MOOR_WQE_READ };
	struct moor_eqe eqe;
	unsigned int i, j;
	struct pair p;

	make_pair(&p);
	for (i = 0; i < 3; i++) {
		for (j = 0; j < 3; j++) {
			struct send_wr wr = {
				.opcode = opcodes[i], .wr_id = 3,
				.remote = p.buf[1], .rkey = p.key[1],
				SGE(p.buf[0], 64, p.key[0]),
			};
			uint8_t due = MOOR_SYN_KEY;

			about("opcode %u, error %u", opcodes[i], j);
			if (j == 0)
				wr.sge[0].lkey ^= 0x100;
			else if (j == 1)
				wr.sge[0].lkey = make_mr(OTHER_PD, ALL_RIGHTS,
							 p.buf[0], BUF);
			else
				wr.sge[0].addr = p.buf[0] + BUF - 63;
			due = j == 0 ? MOOR_SYN_KEY : j == 1 ? MOOR_SYN_PD :
							       MOOR_SYN_BOUNDS;
			post_recv(&p.qp[1], 9, p.buf[1], 64, p.key[1]);
			post_send(&p.qp[0], wr);
			expect_cqe(&p.cq[0], 3, MOOR_WC_LOC_PROT_ERR, due);
			expect(query_qp(&p.qp[0]).state == MOOR_QPS_ERR,
			       "the requester is not in ERR");
			settle();
			expect(query_qp(&p.qp[1]).state == MOOR_QPS_RTS,
			       "the responder is not in RTS");
			expect(!next_event(MOOR_EQ_ASYNC, &eqe) ||
			       eqe.type == MOOR_EVENT_COMM_EST,
			       "event 0x%x", eqe.type);
			reconnect(&p);
		}
	}
	expect(is_filled(p.buf[1], BUF, 2), "something is written");
}

TEST_CASE(remote_errors, "a remote key that does not pass: both ends learn of it",
	  "RC-6 SYN-3 RC-12 EV-9", 0)
{
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 3; i++) {
		uint8_t opcode = i == 0 ? MOOR_WQE_WRITE : i == 1 ?
				 MOOR_WQE_READ : MOOR_WQE_FETCH_ADD;

		if (i == 2 && !(dev.features & MOOR_FEATURE_ATOMICS))
			continue;
		about("opcode %u", opcode);
		drop_events(MOOR_EQ_ASYNC);
		post_recv(&p.qp[1], 9, p.buf[1], 64, p.key[1]);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = opcode, .wr_id = 6, .remote = p.buf[1],
			.rkey = p.key[1] ^ 1, SGE(p.buf[0], 8, p.key[0]),
		});
		expect_cqe(&p.cq[0], 6, MOOR_WC_REM_ACCESS_ERR, 0);
		expect_event(MOOR_EVENT_QP_ACCESS_ERR, p.qp[1].qpn);
		expect(reaches_state(&p.qp[1], MOOR_QPS_ERR) &&
		       query_qp(&p.qp[0]).state == MOOR_QPS_ERR, "not in ERR");
		expect_cqe(&p.cq[1], 9, MOOR_WC_WR_FLUSH_ERR, 0);
		reconnect(&p);
	}
}

TEST_CASE(told_is_done, "when an error is told, by a CQE or an event, the QP is in ERR",
	  "ORD-1 RC-12 WQ-5 EV-7 EV-9", 0)
{
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 50; i++) {
		about("round %u", i);
		drop_events(MOOR_EQ_ASYNC);
		if (i & 1) {
			ring_slot(p.qp[1].sq_slot, DEPTH + 1);
			expect_event(MOOR_EVENT_QP_FATAL, p.qp[1].qpn);
		} else {
			post_send(&p.qp[0], (struct send_wr){
				.opcode = MOOR_WQE_WRITE, .remote = p.buf[1],
				.rkey = ~p.key[1], SGE(p.buf[0], 8, p.key[0]),
			});
			expect_event(MOOR_EVENT_QP_ACCESS_ERR, p.qp[1].qpn);
		}
		if (!expect(query_qp(&p.qp[1]).state == MOOR_QPS_ERR,
			    "not where the event is of"))
			return;
		if (!(i & 1)) {
			expect_cqe(&p.cq[0], 0, MOOR_WC_REM_ACCESS_ERR, 0);
			expect(query_qp(&p.qp[0]).state == MOOR_QPS_ERR,
			       "not where the CQE is of");
		}
		reconnect(&p);
	}
}

TEST_CASE(unaligned_atomic, "an atomic that is not aligned to eight bytes",
	  "RC-7 EV-8", HAS(ATOMICS))
{
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 1; i < 8; i++) {
		about("%u bytes off", i);
		drop_events(MOOR_EQ_ASYNC);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = i & 1 ? MOOR_WQE_FETCH_ADD : MOOR_WQE_CMP_SWAP,
			.remote = p.buf[1] + i, .rkey = p.key[1],
			SGE(p.buf[0], 8, p.key[0]), .atomic = { .swap_add = 1 },
		});
		expect_cqe(&p.cq[0], 0, MOOR_WC_REM_INV_REQ_ERR, 0);
		expect_event(MOOR_EVENT_QP_REQ_ERR, p.qp[1].qpn);
		expect(reaches_state(&p.qp[1], MOOR_QPS_ERR), "not in ERR");
		reconnect(&p);
	}
	expect(is_filled(p.buf[1], BUF, 2), "something is written");
}

TEST_CASE(no_rd_atomic, "READs and atomics of a responder that takes none", "RC-40 EV-8",
	  0)
{
	struct moor_cmd_modify_qp rtr;
	struct moor_cqe cqe;
	struct pair p;

	make_pair(&p);
	reset_qp(&p.qp[1]);
	must_modify(&p.qp[1], to_init());
	rtr = to_rtr(p.qp[0].qpn);
	rtr.max_dest_rd_atomic = 0;
	must_modify(&p.qp[1], rtr);
	drop_events(MOOR_EQ_ASYNC);
	cqe = move(&p, MOOR_WQE_READ, p.buf[0], p.key[0], p.buf[1], p.key[1], 8);
	expect(cqe.status == MOOR_WC_REM_INV_REQ_ERR, "status %u", cqe.status);
	expect_event(MOOR_EVENT_COMM_EST, p.qp[1].qpn);
	expect_event(MOOR_EVENT_QP_REQ_ERR, p.qp[1].qpn);
	expect(reaches_state(&p.qp[1], MOOR_QPS_ERR), "not in ERR");
}

TEST_CASE(too_long, "a message longer than the receive buffer", "RC-8 RC-29", 0)
{
	static const uint32_t room[] = { 0, 1, 99, 1024 };
	struct moor_eqe eqe;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 4; i++) {
		about("%u bytes of room", room[i]);
		fill(p.buf[1], BUF, 2);
		post_recv(&p.qp[1], 9, p.buf[1], room[i], p.key[1]);
		drop_events(MOOR_EQ_ASYNC);
		post_send(&p.qp[0], send_of(&p, room[i] + 1));
		expect_cqe(&p.cq[1], 9, MOOR_WC_LOC_LEN_ERR, MOOR_SYN_LENGTH);
		expect_cqe(&p.cq[0], 6, MOOR_WC_REM_INV_REQ_ERR, 0);
		expect(reaches_state(&p.qp[1], MOOR_QPS_ERR), "not in ERR");
		expect(!next_event(MOOR_EQ_ASYNC, &eqe) ||
		       eqe.type == MOOR_EVENT_COMM_EST, "event 0x%x", eqe.type);
		expect(!memcmp((uint8_t *)at(p.buf[1]) + room[i],
			       (uint8_t *)at(take_filled(BUF, 2)) + room[i], 64),
		       "bytes behind the buffer are written");
		reconnect(&p);
	}
}

TEST_CASE(receive_sge, "a receive SGE that does not pass", "RC-9 RC-29 SYN-2", 0)
{
	const bool lost = !platform_reports_writes();
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 6; i++) {
		const uint8_t due[] = { MOOR_SYN_KEY, MOOR_SYN_PD,
					MOOR_SYN_RIGHTS, MOOR_SYN_BOUNDS,
					MOOR_SYN_DMA, MOOR_SYN_TRANSLATION };
		uint64_t addr = p.buf[1], node;
		uint32_t key = p.key[1];
		struct moor_mr_context e;

		about("syndrome %u", due[i]);
		if (i == 0)
			key ^= 1;
		else if (i == 1)
			key = make_mr(OTHER_PD, ALL_RIGHTS, addr, BUF);
		else if (i == 2)
			key = make_mr(PD, 0, addr, BUF);
		else if (i == 3)
			addr += BUF - 63;
		else if (i == 4)
			key = make_mr(PD, ALL_RIGHTS, addr = NOWHERE, BUF);
		if (i == 5) {
			node = take(PAGE);
			e = mr_entry(PD, ALL_RIGHTS, addr, BUF);
			e.xlat = (struct moor_xlat){
				.root = node | MOOR_PTE_PRESENT, .levels = 1,
				.page_shift = 12,
			};
			key = make_entry(&e, MOOR_MRC_TYPE_MR);
		}
		post_recv(&p.qp[1], 9, addr, 64, key);
		post_send(&p.qp[0], send_of(&p, 64));
		if (expect_unless_lost(&p.cq[1], lost && due[i] == MOOR_SYN_DMA, 9,
				       MOOR_WC_LOC_PROT_ERR, due[i]).status) {
			expect_cqe(&p.cq[0], 6, MOOR_WC_REM_OP_ERR, 0);
			expect(reaches_state(&p.qp[1], MOOR_QPS_ERR), "not in ERR");
		}
		reconnect(&p);
	}
}

TEST_CASE(too_long_and_bad, "too long, and a first receive SGE that does not pass",
	  "RC-8 RC-9 RC-21", 0)
{
	struct moor_cqe cqe;
	struct pair p;
	bool length;

	make_pair(&p);
	about("one packet: the length counts");
	post_recv(&p.qp[1], 9, p.buf[1], 64, p.key[1] ^ 1);
	post_send(&p.qp[0], send_of(&p, 65));
	expect_cqe(&p.cq[1], 9, MOOR_WC_LOC_LEN_ERR, MOOR_SYN_LENGTH);
	expect_cqe(&p.cq[0], 6, MOOR_WC_REM_INV_REQ_ERR, 0);
	reconnect(&p);
	about("several: one or the other, and both ends say the same");
	post_recv(&p.qp[1], 9, p.buf[1], 2000, p.key[1] ^ 1);
	post_send(&p.qp[0], send_of(&p, 3000));
	cqe = wait_cqe(&p.cq[1]);
	length = cqe.status == MOOR_WC_LOC_LEN_ERR;
	expect(length ? cqe.syndrome == MOOR_SYN_LENGTH :
			cqe.status == MOOR_WC_LOC_PROT_ERR &&
			cqe.syndrome == MOOR_SYN_KEY,
	       "status %u, syndrome %u", cqe.status, cqe.syndrome);
	expect_cqe(&p.cq[0], 6, length ? MOOR_WC_REM_INV_REQ_ERR :
					 MOOR_WC_REM_OP_ERR, 0);
	expect(is_filled(p.buf[1], BUF, 2), "something is written");
	reconnect(&p);
	about("several, and nothing else wrong");
	post_recv(&p.qp[1], 9, p.buf[1], 2000, p.key[1]);
	post_send(&p.qp[0], send_of(&p, 3000));
	expect_cqe(&p.cq[1], 9, MOOR_WC_LOC_LEN_ERR, MOOR_SYN_LENGTH);
	expect_cqe(&p.cq[0], 6, MOOR_WC_REM_INV_REQ_ERR, 0);
	fill(p.buf[0], BUF, 2);
	expect(same(p.buf[0] + 2000, p.buf[1] + 2000, BUF - 2000),
	       "bytes behind the buffer are written");
}

/* ---- the order in which errors are found, and the QPs that report them ---- */

TEST_CASE(precedence, "what stands higher in the tables is told",
	  "RC-21 RC-5 RC-4 RC-2 RC-3 RC-7 RC-6 RC-10 RC-8 RC-22 RC-28", 0)
{
	struct moor_sq_wqe *raw;
	struct send_wr wr;
	struct pair p;
	uint32_t torn;

	make_pair(&p);
	wr = (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .remote = p.buf[1],
		.rkey = ~p.key[1], .flags = AS_IT_IS,
		SGE(0, dev.max_msg_size + 1, ~p.key[0]),
	};
	about("a malformed WQE before its length");
	raw = put_send(&p.qp[0], &wr);
	raw->reserved1 = 1;
	ring_send(&p.qp[0]);
	expect_cqe(&p.cq[0], 0, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	reconnect(&p);
	about("its length before its SGEs");
	post_send(&p.qp[0], wr);
	expect_cqe(&p.cq[0], 0, MOOR_WC_LOC_LEN_ERR, MOOR_SYN_LENGTH);
	reconnect(&p);
	about("an SGE before the remote key");
	wr.sge[0].length = 1;
	post_send(&p.qp[0], wr);
	expect_cqe(&p.cq[0], 0, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_KEY);
	reconnect(&p);
	about("an SGE before nobody answers");
	must_modify(&p.qp[1], to_state(MOOR_QPS_RESET));
	post_send(&p.qp[0], wr);
	expect_cqe(&p.cq[0], 0, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_KEY);
	reconnect(&p);
	about("memory that is absent before there is no receive");
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND,
		SGE(TORN_IOVA + 2 * PAGE, 8, make_torn_mr(true, p.buf[0])),
	});
	expect_cqe(&p.cq[0], 0, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_TRANSLATION);
	reconnect(&p);
	about("what the responder finds before a later byte that is absent");
	torn = make_torn_mr(true, p.buf[0]);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .remote = p.buf[1], .rkey = ~p.key[1],
		SGE(TORN_IOVA + 2 * PAGE - 4, 8, torn),
	});
	expect_cqe(&p.cq[0], 0, MOOR_WC_REM_ACCESS_ERR, 0);
	reconnect(&p);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND, SGE(TORN_IOVA + 2 * PAGE - 4, 8, torn),
	});
	expect_cqe(&p.cq[0], 0, MOOR_WC_RNR_RETRY_EXC_ERR, 0);
	reconnect(&p);
	post_recv(&p.qp[1], 9, p.buf[1], 7, p.key[1]);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND, SGE(TORN_IOVA + 2 * PAGE - 4, 8, torn),
	});
	expect_cqe(&p.cq[1], 9, MOOR_WC_LOC_LEN_ERR, MOOR_SYN_LENGTH);
	expect_cqe(&p.cq[0], 0, MOOR_WC_REM_INV_REQ_ERR, 0);
	reconnect(&p);
	about("that byte, where nothing else is wrong: the message has begun");
	drop_events(MOOR_EQ_ASYNC);
	post_recv(&p.qp[1], 9, p.buf[1], 8, p.key[1]);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND, SGE(TORN_IOVA + 2 * PAGE - 4, 8, torn),
	});
	expect_cqe(&p.cq[0], 0, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_TRANSLATION);
	expect_no_cqe(&p.cq[1]);
	expect(query_qp(&p.qp[1]).state == MOOR_QPS_RTS, "the responder has failed");
	reconnect(&p);
	about("the first SGE that does not pass");
	wr.sge[0] = (struct moor_sge){ .addr = p.buf[0] + BUF, .length = 1,
				       .lkey = p.key[0] };
	post_send(&p.qp[0], wr);
	expect_cqe(&p.cq[0], 0, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_BOUNDS);
	reconnect(&p);
	if (dev.features & MOOR_FEATURE_ATOMICS) {
		about("alignment before the key");
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_FETCH_ADD, .remote = p.buf[1] + 1,
			.rkey = ~p.key[1], SGE(p.buf[0], 8, p.key[0]),
		});
		expect_cqe(&p.cq[0], 0, MOOR_WC_REM_INV_REQ_ERR, 0);
	}
}

TEST_CASE(write_imm_refused, "a short WRITE with immediate that may not write: the receive says so",
	  "RC-25 RC-6 RC-29 SYN-1", 0)
{
	static const uint8_t due[] = { MOOR_SYN_KEY, MOOR_SYN_PD,
				       MOOR_SYN_RIGHTS, MOOR_SYN_BOUNDS,
				       MOOR_SYN_QP_RIGHTS };
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 5; i++) {
		uint64_t addr = p.buf[1];
		uint32_t key = p.key[1];

		about("syndrome %u", due[i]);
		if (i == 0)
			key ^= 1;
		else if (i == 1)
			key = make_mr(OTHER_PD, ALL_RIGHTS, addr, BUF);
		else if (i == 2)
			key = make_mr(PD, MOOR_ACCESS_LOCAL_WRITE, addr, BUF);
		else if (i == 3)
			addr += BUF - 10;
		else
			must_modify(&p.qp[1], (struct moor_cmd_modify_qp){
				.mask = MOOR_QP_ATTR_ACCESS,
				.access = MOOR_ACCESS_REMOTE_READ,
			});
		drop_events(MOOR_EQ_ASYNC);
		post_recv(&p.qp[1], 4, p.buf[1], 64, p.key[1]);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_WRITE_IMM, .remote = addr,
			.rkey = key, SGE(p.buf[0], 64, p.key[0]),
		});
		expect_cqe(&p.cq[0], 0, MOOR_WC_REM_ACCESS_ERR, 0);
		expect_cqe(&p.cq[1], 4, MOOR_WC_LOC_ACCESS_ERR, due[i]);
		expect(reaches_state(&p.qp[1], MOOR_QPS_ERR), "not in ERR");
		expect_no_event(MOOR_EQ_ASYNC);
		reconnect(&p);
	}
	about("without a receive");
	drop_events(MOOR_EQ_ASYNC);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_WRITE_IMM, .remote = p.buf[1],
		.rkey = p.key[1] ^ 1, SGE(p.buf[0], 64, p.key[0]),
	});
	expect_cqe(&p.cq[0], 0, MOOR_WC_REM_ACCESS_ERR, 0);
	expect_event(MOOR_EVENT_QP_ACCESS_ERR, p.qp[1].qpn);
	expect(reaches_state(&p.qp[1], MOOR_QPS_ERR), "not in ERR");
	reconnect(&p);
	about("longer than the path MTU");
	post_recv(&p.qp[1], 4, p.buf[1], 64, p.key[1]);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_WRITE_IMM, .remote = p.buf[1],
		.rkey = p.key[1] ^ 1, SGE(p.buf[0], 1025, p.key[0]),
	});
	expect_cqe(&p.cq[0], 0, MOOR_WC_REM_ACCESS_ERR, 0);
	expect_event(MOOR_EVENT_QP_ACCESS_ERR, p.qp[1].qpn);
	expect_cqe(&p.cq[1], 4, MOOR_WC_WR_FLUSH_ERR, 0);
}

TEST_CASE(with_itself, "a QP that is connected to itself is told its error, then flushes",
	  "RC-12 RC-13", 0)
{
	struct pair p;

	make_pair(&p);
	reset_qp(&p.qp[0]);
	connect_qp(&p.qp[0], p.qp[0].qpn);
	drop_events(MOOR_EQ_ASYNC);
	put_send(&p.qp[0], &(struct send_wr){
		.opcode = MOOR_WQE_WRITE, .wr_id = 1, .remote = p.buf[1],
		.rkey = p.key[1] ^ 1, SGE(p.buf[0], 64, p.key[0]),
	});
	post_send(&p.qp[0], send_of(&p, 64));
	expect_cqe(&p.cq[0], 1, MOOR_WC_REM_ACCESS_ERR, 0);
	expect_cqe(&p.cq[0], 6, MOOR_WC_WR_FLUSH_ERR, 0);
	expect_event(MOOR_EVENT_QP_ACCESS_ERR, p.qp[0].qpn);
}

TEST_CASE(receive_in_part, "of a receive SGE those bytes are checked that the message brings",
	  "ACC-1 WQ-16 RC-9", 0)
{
	uint32_t key;
	struct pair p;

	make_pair(&p);
	key = make_mr(PD, ALL_RIGHTS, p.buf[1], 1024);
	post_recv(&p.qp[1], 1, p.buf[1], 4096, key);
	post_recv(&p.qp[1], 2, p.buf[1], 4096, key);
	post_send(&p.qp[0], send_of(&p, 1024));
	expect_cqe(&p.cq[1], 1, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[0], 6, MOOR_WC_SUCCESS, 0);
	post_send(&p.qp[0], send_of(&p, 1025));
	expect_cqe(&p.cq[1], 2, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_BOUNDS);
	expect_cqe(&p.cq[0], 6, MOOR_WC_REM_OP_ERR, 0);
}

TEST_CASE(path_mtus_differ, "path MTUs that differ: what fits into the smaller one passes",
	  "RC-30", 0)
{
	struct moor_cmd_modify_qp rtr;
	struct pair p;

	make_pair(&p);
	reset_qp(&p.qp[1]);
	must_modify(&p.qp[1], to_init());
	rtr = to_rtr(p.qp[0].qpn);
	rtr.path_mtu = 1;
	must_modify(&p.qp[1], rtr);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 256, true);
	drop_events(MOOR_EQ_ASYNC);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .remote = p.buf[1], .rkey = p.key[1],
		SGE(p.buf[0], 257, p.key[0]),
	});
	expect_cqe(&p.cq[0], 0, MOOR_WC_REM_INV_REQ_ERR, 0);
	expect_event(MOOR_EVENT_QP_REQ_ERR, p.qp[1].qpn);
	expect(reaches_state(&p.qp[1], MOOR_QPS_ERR), "not in ERR");
}

TEST_CASE(atomic_result_torn, "an atomic whose answer has a place in part is not done", "RC-3",
	  HAS(ATOMICS))
{
	uint64_t before;
	struct pair p;

	make_pair(&p);
	before = *(uint64_t *)at(p.buf[1]);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_FETCH_ADD, .remote = p.buf[1],
		.rkey = p.key[1], .atomic = { .swap_add = 1 },
		SGE(TORN_IOVA + 2 * PAGE - 4, 8, make_torn_mr(true, p.buf[0])),
	});
	expect_cqe(&p.cq[0], 0, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_TRANSLATION);
	expect(*(uint64_t *)at(p.buf[1]) == before, "it is done");
}

TEST_CASE(odd_atomic_memory, "an atomic whose eight bytes are mapped out of place",
	  "RC-39 EV-8", HAS(ATOMICS))
{
	struct moor_mr_context e;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 1; i < 8; i += 3) {
		about("%u bytes off", i);
		e = mr_entry(PD, ALL_RIGHTS, p.buf[1] + i, PAGE);
		e.iova = 0x100000;
		drop_events(MOOR_EQ_ASYNC);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_FETCH_ADD, .remote = 0x100000,
			.rkey = make_entry(&e, MOOR_MRC_TYPE_MR),
			SGE(p.buf[0], 8, p.key[0]), .atomic = { .swap_add = 1 },
		});
		expect_cqe(&p.cq[0], 0, MOOR_WC_REM_INV_REQ_ERR, 0);
		expect_event(MOOR_EVENT_QP_REQ_ERR, p.qp[1].qpn);
		reconnect(&p);
	}
	expect(is_filled(p.buf[1], BUF, 2), "something is written");
}
