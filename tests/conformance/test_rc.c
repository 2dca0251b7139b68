// SPDX-License-Identifier: GPL-2.0
/* Reliable connections, when all goes well (HWI 12). */
#include <string.h>

#include "traffic.h"

static const uint32_t lengths[] = { 0, 1, 7, 255, 256, 257, 1023, 1024, 1025,
				    2048, 4095, 4096, 4097, 40000, BUF };

#define NUM_LENGTHS	(sizeof(lengths) / sizeof(lengths[0]))

TEST_CASE(send, "SEND, of every length", "RC-1 RC-15 ORD-1", 0)
{
	struct moor_cqe cqe;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < NUM_LENGTHS; i++) {
		uint32_t len = lengths[i];

		if (len > dev.max_msg_size)
			break;
		about("%u bytes", len);
		fill(p.buf[0], BUF, i + 10);
		memset(at(p.buf[1]), 0, BUF);
		post_recv(&p.qp[1], i, p.buf[1], BUF, p.key[1]);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_SEND, .wr_id = i + 100,
			SGE(p.buf[0], len, p.key[0]),
		});
		cqe = expect_cqe(&p.cq[1], i, MOOR_WC_SUCCESS, 0);
		expect(cqe.byte_len == len && cqe.opcode == MOOR_CQE_RECV &&
		       !(cqe.flags & MOOR_CQE_FLAG_IMM), "%u bytes, flags 0x%x",
		       cqe.byte_len, cqe.flags);
		expect(is_filled(p.buf[1], len, i + 10) &&
		       is_all(p.buf[1] + len, BUF - len, 0), "the data");
		expect_cqe(&p.cq[0], i + 100, MOOR_WC_SUCCESS, 0);
	}
}

TEST_CASE(immediate, "immediate data is carried as the consumer stored it",
	  "RC-20 CQ-8 RC-1", 0)
{
	const uint32_t imm = 0x11223344;
	struct moor_cqe cqe;
	struct pair p;

	make_pair(&p);
	post_recv(&p.qp[1], 1, p.buf[1], 100, p.key[1]);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND_IMM, .imm = imm,
		SGE(p.buf[0], 100, p.key[0]),
	});
	cqe = expect_cqe(&p.cq[1], 1, MOOR_WC_SUCCESS, 0);
	expect(cqe.imm == imm && cqe.flags & MOOR_CQE_FLAG_IMM &&
	       cqe.opcode == MOOR_CQE_RECV && cqe.byte_len == 100,
	       "SEND_IMM: 0x%x, flags 0x%x, opcode 0x%x", cqe.imm, cqe.flags,
	       cqe.opcode);
	expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);

	post_recv(&p.qp[1], 2, 0, 0, 0);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_WRITE_IMM, .imm = imm,
		.remote = p.buf[1] + 5, .rkey = p.key[1],
		SGE(p.buf[0], 3000, p.key[0]),
	});
	cqe = expect_cqe(&p.cq[1], 2, MOOR_WC_SUCCESS, 0);
	expect(cqe.imm == imm && cqe.flags & MOOR_CQE_FLAG_IMM &&
	       cqe.opcode == MOOR_CQE_RECV_WRITE_IMM && cqe.byte_len == 3000,
	       "WRITE_IMM: 0x%x, flags 0x%x, opcode 0x%x, %u bytes", cqe.imm,
	       cqe.flags, cqe.opcode, cqe.byte_len);
	expect(is_filled(p.buf[1] + 5, 3000, 1), "its data");
	expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
	/* The receive's buffers are not written. */
	post_recv(&p.qp[1], 3, p.buf[1] + 8192, 100, p.key[1]);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_WRITE_IMM, .imm = 0, .remote = p.buf[1],
		.rkey = p.key[1],
	});
	expect(!expect_cqe(&p.cq[1], 3, MOOR_WC_SUCCESS, 0).byte_len,
	       "a WRITE_IMM of nothing has a length");
	expect(((uint8_t *)at(p.buf[1]))[8192] == (uint8_t)(8192 * 7 + 32 * 13 + 2),
	       "the receive's buffer is written");
}

TEST_CASE(write_read, "WRITE and READ, of every length and alignment",
	  "RC-1 XLT-4", 0)
{
	struct pair p;
	unsigned int i, shift;

	make_pair(&p);
	for (i = 0; i < NUM_LENGTHS; i++) {
		for (shift = 0; shift < 4; shift++) {
			uint64_t from = p.buf[0] + shift * 3;
			uint64_t to = p.buf[1] + shift * 5;
			uint32_t len = lengths[i] > 16 ? lengths[i] - 16 :
							 lengths[i];

			if (len > dev.max_msg_size)
				break;
			about("%u bytes, %u", len, shift);
			fill(p.buf[0], BUF, i);
			memset(at(p.buf[1]), 0, BUF);
			expect(!move(&p, MOOR_WQE_WRITE, from, p.key[0], to,
				     p.key[1], len).status, "WRITE");
			expect(same(from, to, len) &&
			       is_all(p.buf[1], to - p.buf[1], 0) &&
			       is_all(to + len, p.buf[1] + BUF - to - len, 0),
			       "WRITE: the data");
			fill(p.buf[1], BUF, i + 1);
			memset(at(p.buf[0]), 0, BUF);
			expect(move(&p, MOOR_WQE_READ, from, p.key[0], to,
				    p.key[1], len).byte_len == len,
			       "READ: the length");
			expect(same(from, to, len) &&
			       is_all(p.buf[0], from - p.buf[0], 0) &&
			       is_all(from + len, p.buf[0] + BUF - from - len, 0),
			       "READ: the data");
		}
	}
	expect_no_cqe(&p.cq[1]);
}

TEST_CASE(itself, "a QP that is connected to itself: what is long, with no time-out to help",
	  "RC-33 RC-1 ERR-9", 0)
{
	const uint32_t len = longest(1u << 20);
	uint64_t from = take_filled(len, 1), to = take(len);
	uint32_t from_key = make_mr(PD, ALL_RIGHTS, from, len);
	uint32_t to_key = make_mr(PD, ALL_RIGHTS, to, len);
	struct send_wr wr = {
		.opcode = MOOR_WQE_READ, .remote = from, .rkey = from_key,
		SGE(to, len, to_key),
	};
	struct pair p;
	unsigned int i;

	make_pair(&p);
	reset_qp(&p.qp[0]);
	connect_qp(&p.qp[0], p.qp[0].qpn);
	must_modify(&p.qp[0], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_TIMEOUT,
	});
	for (i = 0; i < 3; i++) {
		wr.wr_id = i;
		put_send(&p.qp[0], &wr);
	}
	ring_send(&p.qp[0]);
	for (i = 0; i < 3; i++)
		expect_cqe(&p.cq[0], i, MOOR_WC_SUCCESS, 0);
	expect(same(from, to, len), "the data");
}

static struct moor_cqe atomic(struct pair *p, uint8_t opcode, uint64_t compare,
			      uint64_t swap_add)
{
	post_send(&p->qp[0], (struct send_wr){
		.opcode = opcode, .remote = p->buf[1] + 64, .rkey = p->key[1],
		SGE(p->buf[0], 8, p->key[0]),
		.atomic = { .compare = compare, .swap_add = swap_add },
	});
	return wait_cqe(&p->cq[0]);
}

TEST_CASE(atomics, "compare-and-swap, fetch-and-add", "RC-1 RC-38 WQ-6", HAS(ATOMICS))
{
	uint64_t *word, *old;
	struct moor_cqe cqe;
	struct pair p;

	make_pair(&p);
	word = at(p.buf[1] + 64);
	old = at(p.buf[0]);
	*word = ~0ull - 1;
	cqe = atomic(&p, MOOR_WQE_FETCH_ADD, 0, 5);
	expect(!cqe.status && *old == ~0ull - 1 && *word == 3 &&
	       cqe.byte_len == 8 && cqe.opcode == MOOR_WQE_FETCH_ADD,
	       "FETCH_ADD: status %u, %llu before, %llu after", cqe.status,
	       (unsigned long long)*old, (unsigned long long)*word);
	cqe = atomic(&p, MOOR_WQE_CMP_SWAP, 3, 0x123456789abcdef0);
	expect(!cqe.status && *old == 3 && *word == 0x123456789abcdef0,
	       "CMP_SWAP: status %u, %llu before", cqe.status,
	       (unsigned long long)*old);
	cqe = atomic(&p, MOOR_WQE_CMP_SWAP, 3, 77);
	expect(!cqe.status && *old == 0x123456789abcdef0 &&
	       *word == 0x123456789abcdef0, "CMP_SWAP of another value");
	expect(((uint8_t *)at(p.buf[1]))[72] && ((uint8_t *)at(p.buf[0]))[9],
	       "neighbours are written");
}

TEST_CASE(atomic_alone, "atomics of two QPs on one word are all done", "RC-37 RC-38",
	  HAS(ATOMICS))
{
	const unsigned int n = DEPTH / 2, rounds = 10;
	unsigned int i, j, round;
	uint64_t *word;
	struct pair p;

	at_least(max_log_wqe, 1);
	at_least(max_log_cqe, 2);
	make_pair(&p);
	word = at(p.buf[1] + 64);
	*word = 0;
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < 2; i++) {
			for (j = 0; j < n; j++)
				put_send(&p.qp[i], &(struct send_wr){
					.opcode = MOOR_WQE_FETCH_ADD,
					.remote = p.buf[1] + 64,
					.rkey = p.key[1],
					SGE(p.buf[i] + 4096 + j * 8, 8, p.key[i]),
					.atomic = { .swap_add = 1 },
				});
		}
		ring_send(&p.qp[0]);
		ring_send(&p.qp[1]);
		for (i = 0; i < 2; i++)
			for (j = 0; j < n; j++)
				expect_cqe(&p.cq[i], 0, MOOR_WC_SUCCESS, 0);
	}
	expect(*word == 2 * n * rounds, "%llu of %u",
	       (unsigned long long)*word, 2 * n * rounds);
}

TEST_CASE(gather_scatter, "SGEs of a READ and of a WRITE", "RC-1 ACC-1", 0)
{
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 2; i++) {
		struct send_wr wr = {
			.opcode = i ? MOOR_WQE_READ : MOOR_WQE_WRITE,
			.remote = p.buf[1] + 100, .rkey = p.key[1], .num_sge = 3,
			.sge = {
				{ p.buf[0] + 5000, 1, p.key[0] },
				{ p.buf[0] + 10, 3000, p.key[0] },
				{ p.buf[0] + 9000, 77, p.key[0] },
			},
		};

		post_send(&p.qp[0], wr);
		expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
		expect(same(p.buf[0] + 5000, p.buf[1] + 100, 1) &&
		       same(p.buf[0] + 10, p.buf[1] + 101, 3000) &&
		       same(p.buf[0] + 9000, p.buf[1] + 3101, 77), "opcode %u",
		       wr.opcode);
		fill(p.buf[1], BUF, 99);
	}
}

TEST_CASE(rtr_and_rts, "in RTR it answers, in RTS it asks too; send WQEs wait till then",
	  "RC-15 RC-17 RC-35", 0)
{
	struct pair p;

	make_pair(&p);
	reset_qp(&p.qp[0]);
	reset_qp(&p.qp[1]);
	must_modify(&p.qp[0], to_init());
	must_modify(&p.qp[1], to_init());
	post_recv(&p.qp[1], 3, p.buf[1], 64, p.key[1]);
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_SEND, .wr_id = 2, SGE(p.buf[0], 64, p.key[0]),
	});
	expect_no_cqe(&p.cq[0]);
	must_modify(&p.qp[0], to_rtr(p.qp[1].qpn));
	must_modify(&p.qp[1], to_rtr(p.qp[0].qpn));
	expect_no_cqe(&p.cq[0]);
	must_modify(&p.qp[0], to_rts());
	expect_cqe(&p.cq[0], 2, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.cq[1], 3, MOOR_WC_SUCCESS, 0);
}

TEST_CASE(sqd, "in SQD no new WQE starts, and it still answers", "RC-16", 0)
{
	struct pair p;

	make_pair(&p);
	must_modify(&p.qp[0], to_state(MOOR_QPS_SQD));
	post_send(&p.qp[0], (struct send_wr){ .opcode = MOOR_WQE_WRITE, .wr_id = 2 });
	expect_no_cqe(&p.cq[0]);
	post_send(&p.qp[1], (struct send_wr){
		.opcode = MOOR_WQE_WRITE, .remote = p.buf[0], .rkey = p.key[0],
		SGE(p.buf[1], 64, p.key[1]),
	});
	expect_cqe(&p.cq[1], 0, MOOR_WC_SUCCESS, 0);
	must_modify(&p.qp[0], to_state(MOOR_QPS_RTS));
	expect_cqe(&p.cq[0], 2, MOOR_WC_SUCCESS, 0);
}

TEST_CASE(psn_wrap, "PSNs wrap at 2^24", "RC-14 QP-15", 0)
{
	struct moor_cmd_modify_qp rtr, rts = to_rts();
	struct pair p;
	unsigned int i;

	make_pair(&p);
	reset_qp(&p.qp[0]);
	reset_qp(&p.qp[1]);
	for (i = 0; i < 2; i++) {
		must_modify(&p.qp[i], to_init());
		rtr = to_rtr(p.qp[!i].qpn);
		rts.sq_psn = 0xfffffe;
		rtr.rq_psn = rts.sq_psn;
		must_modify(&p.qp[i], rtr);
		must_modify(&p.qp[i], rts);
	}
	for (i = 0; i < 6; i++)
		expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 1500, true);
	expect(query_qp(&p.qp[0]).sq_psn == 10, "the next PSN is 0x%x",
	       query_qp(&p.qp[0]).sq_psn);
}

TEST_CASE(path_mtus, "every path MTU", "QP-2 RC-14", 0)
{
	unsigned int mtu, i;
	struct pair p;

	make_pair(&p);
	for (mtu = 1; mtu <= 5; mtu++) {
		about("%u bytes", 128u << mtu);
		reset_qp(&p.qp[0]);
		reset_qp(&p.qp[1]);
		for (i = 0; i < 2; i++) {
			struct moor_cmd_modify_qp rtr = to_rtr(p.qp[!i].qpn);

			must_modify(&p.qp[i], to_init());
			rtr.path_mtu = (uint8_t)mtu;
			must_modify(&p.qp[i], rtr);
			must_modify(&p.qp[i], to_rts());
		}
		fill(p.buf[0], BUF, mtu);
		expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], 10000, true);
		expect(is_filled(p.buf[1], 10000, mtu), "the data");
		expect(query_qp(&p.qp[0]).sq_psn == 0x123 +
		       (10000 + (128u << mtu) - 1) / (128u << mtu),
		       "the next PSN is 0x%x", query_qp(&p.qp[0]).sq_psn);
	}
}

TEST_CASE(many_pairs, "many QPs at once, each with its own data", "RC-1 RC-19", 0)
{
	enum { MOST_PAIRS = 12, EACH = 8 };
	unsigned int num = 1u << dev.qp_index_bits;
	const unsigned int pairs = num / 2 < MOST_PAIRS ? num / 2 : MOST_PAIRS;
	struct qp qp[2 * MOST_PAIRS];
	struct cq cq;
	uint64_t from, to;
	uint32_t key;
	unsigned int i, j;

	at_least(max_log_wqe, 3);
	at_least(max_log_cqe, 7);
	at_least(max_mr_size, 2 * pairs * PAGE);
	make_cq(&cq, 0, 8);
	from = take(pairs * PAGE);
	to = take(pairs * PAGE);
	for (i = 0; i < pairs; i++)
		fill(from + i * PAGE, PAGE, i * 11);
	key = make_mr(PD, ALL_RIGHTS, from, to + pairs * PAGE - from);
	for (i = 0; i < 2 * pairs; i++)
		make_qp(&qp[i], &cq, &cq);
	for (i = 0; i < 2 * pairs; i++)
		connect_qp(&qp[i], qp[i ^ 1].qpn);
	for (j = 0; j < EACH; j++)
		for (i = 0; i < pairs; i++)
			post_send(&qp[2 * i], (struct send_wr){
				.opcode = MOOR_WQE_WRITE, .rkey = key,
				.remote = to + i * PAGE + j * 512,
				SGE(from + i * PAGE + j * 512, 512, key),
			});
	for (i = 0; i < pairs * EACH; i++)
		expect_cqe(&cq, 0, MOOR_WC_SUCCESS, 0);
	for (i = 0; i < pairs; i++)
		expect(is_filled(to + i * PAGE, PAGE, i * 11), "pair %u", i);
}
