// SPDX-License-Identifier: GPL-2.0
/* Reliable connections: what ends in the middle of a message (HWI 12). */
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

TEST_CASE(half_way, "what is met half-way: at either end, translation or DMA",
	  "RC-26 RC-28 RC-9 RC-3 ACC-13 ACC-14", 0)
{
	const bool reported = platform_reports_writes();
	unsigned int absent;
	struct pair p;
	uint32_t key;

	make_pair(&p);
	for (absent = 0; absent < 2; absent++) {
		uint8_t syndrome = absent ? MOOR_SYN_TRANSLATION : MOOR_SYN_DMA;

		about("%s", absent ? "absent" : "nowhere");
		key = make_torn_mr(absent, p.buf[1]);
		expect_remote(&p, MOOR_WQE_WRITE, key, TORN_IOVA, 2 * PAGE, true);
		expect_remote(&p, MOOR_WQE_READ, key, TORN_IOVA, 3 * PAGE, false);
		expect_local(&p, MOOR_WQE_WRITE, key, TORN_IOVA, 3 * PAGE,
			     syndrome);
		if (absent) {
			expect_remote(&p, MOOR_WQE_WRITE, key, TORN_IOVA, 3 * PAGE,
				      false);
			expect_local(&p, MOOR_WQE_READ, key, TORN_IOVA, 3 * PAGE,
				     syndrome);
		} else {
			expect_lost(&p, MOOR_WQE_WRITE, TORN_IOVA, key, 3 * PAGE);
			expect_lost(&p, MOOR_WQE_READ, TORN_IOVA, key, 3 * PAGE);
		}
		expect_local(&p, MOOR_WQE_WRITE, key, TORN_IOVA + 2 * PAGE, 8,
			     syndrome);
		post_recv(&p.qp[1], 9, TORN_IOVA, 3 * PAGE, key);
		post_send(&p.qp[0], send_of(&p, 3 * PAGE));
		if (expect_unless_lost(&p.cq[1], !absent && !reported, 9, MOOR_WC_LOC_PROT_ERR,
				       syndrome).status)
			expect_cqe(&p.cq[0], 6, MOOR_WC_REM_OP_ERR, 0);
		reconnect(&p);
	}
}

/* A SEND of @len bytes, of which those in a third page are absent, is left half-way. */
static void begins_anew(uint32_t len)
{
	struct moor_cmd_modify_qp rts = to_rts();
	struct pair p;
	uint32_t torn;

	make_pair(&p);
	torn = make_torn_mr(true, p.buf[0]);
	post_recv(&p.qp[1], 1, p.buf[1], BUF, p.key[1]);
	post_recv(&p.qp[1], 2, p.buf[1], BUF, p.key[1]);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND, .wr_id = 5,
		SGE(TORN_IOVA + 2 * PAGE + 64 - len, len, torn),
	});
	expect_cqe(&p.cq[0], 5, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_TRANSLATION);
	expect_no_cqe(&p.cq[1]);
	expect(query_qp(&p.qp[1]).state == MOOR_QPS_RTS, "the responder has failed");
	/* A part of it may have been acknowledged: then it does not begin anew. */
	if (query_qp(&p.qp[1]).rq_psn != rts.sq_psn && len > 1024)
		return;
	/* The requester is connected again, and begins with the same PSN. */
	reset_qp(&p.qp[0]);
	must_modify(&p.qp[0], to_init());
	must_modify(&p.qp[0], to_rtr(p.qp[1].qpn));
	must_modify(&p.qp[0], rts);
	fill(p.buf[0], BUF, 50);
	register_anew(p.key[1], PD, ALL_RIGHTS, p.buf[1], BUF);
	about("by a WRITE, which needs no receive");
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 64, true);
	expect_no_cqe(&p.cq[1]);
	about("and then by a SEND, whose receive is registered anew");
	post_send(&p.qp[0], send_of(&p, 5000));
	expect_cqe(&p.cq[0], 6, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[1], 1, MOOR_WC_SUCCESS, 0);
	expect(is_filled(p.buf[1], 5000, 50), "the data");
	post_send(&p.qp[0], send_of(&p, 10));
	expect_cqe(&p.cq[1], 2, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[0], 6, MOOR_WC_SUCCESS, 0);
}

TEST_CASE(left_half_way, "a message that is left half-way begins anew, on the receive it took",
	  "RC-22 RC-28 RC-31 ACC-15", 0)
{
	about("one packet");
	begins_anew(128);
	host_begin();
	about("several");
	begins_anew(2 * PAGE + 64);
}

/* Long enough that a device which acknowledges parts of messages has done so. */
#define LONG	(1u << 20)

/* A SEND breaks off, and in its place comes a message of 64 bytes of this opcode and key. */
static void half_way_then(uint8_t opcode, uint32_t rkey)
{
	const uint32_t len = longest(LONG);
	struct moor_cmd_modify_qp rts = to_rts();
	uint64_t table = take(PAGE), from = take_filled(len, 7), i;
	struct moor_mr_context e = mr_entry(PD, ALL_RIGHTS, 0x10000000, len);
	struct pair p;
	uint64_t to;
	uint32_t key;

	for (i = 0; i < 3 * len / 4 / PAGE; i++)
		((uint64_t *)at(table))[i] = (from + i * PAGE) |
					     MOOR_PTE_PRESENT | MOOR_PTE_LEAF;
	e.xlat = (struct moor_xlat){
		.root = table | MOOR_PTE_PRESENT, .levels = 1, .page_shift = 12,
	};
	make_pair(&p);
	to = take(len);
	key = make_mr(PD, ALL_RIGHTS, to, len);
	post_recv(&p.qp[1], 1, to, len, key);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND, .wr_id = 5,
		SGE(0x10000000, len, make_entry(&e, MOOR_MRC_TYPE_MR)),
	});
	expect_cqe(&p.cq[0], 5, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_TRANSLATION);
	drop_events(MOOR_EQ_ASYNC);
	rts.sq_psn = query_qp(&p.qp[1]).rq_psn;
	/* A responder need not acknowledge anything but a message's end. */
	skip_unless(rts.sq_psn != to_rts().sq_psn);
	reset_qp(&p.qp[0]);
	must_modify(&p.qp[0], to_init());
	must_modify(&p.qp[0], to_rtr(p.qp[1].qpn));
	must_modify(&p.qp[0], rts);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = opcode, .wr_id = 6, .remote = p.buf[1], .rkey = rkey,
		SGE(p.buf[0], 64, p.key[0]),
	});
	expect_cqe(&p.cq[0], 6, MOOR_WC_REM_INV_REQ_ERR, 0);
	expect_event(MOOR_EVENT_QP_REQ_ERR, p.qp[1].qpn);
	expect_cqe(&p.cq[1], 1, MOOR_WC_WR_FLUSH_ERR, 0);
	expect(reaches_state(&p.qp[1], MOOR_QPS_ERR), "not in ERR");
}

TEST_CASE(another_half_way, "what comes instead of the rest of a message is an invalid request",
	  "RC-44 RC-22 RC-28", 0)
{
	about("a SEND");
	half_way_then(MOOR_WQE_SEND, 0);
	about("a WRITE with a key that does not pass: that is not looked at");
	host_begin();
	half_way_then(MOOR_WQE_WRITE, 0);
}
