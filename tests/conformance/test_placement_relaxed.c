// SPDX-License-Identifier: GPL-2.0
/* ATOMIC_WRITE and FLUSH among writes that may be reordered (HWI 12.7, 13). */
#include <string.h>

#include "traffic.h"

#define RIGHTS	(ALL_RIGHTS | ALL_FLUSH)
#define WORD	0x8877665544332211ull
#define LONG	(1u << 20)

static const uint64_t word_value = WORD;

/* An ATOMIC_WRITE of WORD, inline, to @remote. */
static struct send_wr word_wr(uint64_t remote, uint32_t rkey)
{
	return (struct send_wr){
		.opcode = MOOR_WQE_ATOMIC_WRITE, .wr_id = 0xf1,
		.remote = remote, .rkey = rkey, .data = &word_value,
		.data_len = sizeof(word_value),
	};
}

/* So many of them, and of READs, may be under way at once. */
static void set_limits(struct pair *p, uint8_t most)
{
	must_modify(&p->qp[0], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_MAX_RD_ATOMIC, .max_rd_atomic = most,
	});
	must_modify(&p->qp[1], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_MAX_DEST_RD_ATOMIC,
		.max_dest_rd_atomic = most,
	});
}

/* A key of buffer 1 with RELAXED_ORDERING and all other rights. */
static uint32_t relax(struct pair *p)
{
	make_pair(p);
	return make_mr(PD, RIGHTS | MOOR_ACCESS_RELAXED_ORDERING, p->buf[1],
		       BUF);
}

/* Writes half @half of the source to the first half of the target. */
static void put_half(struct pair *p, unsigned int half, uint32_t key,
		     unsigned int flags)
{
	put_send(&p->qp[0], &(struct send_wr){
		.opcode = MOOR_WQE_WRITE, .flags = flags, .remote = p->buf[1],
		.rkey = key, SGE(p->buf[0] + half * BUF / 2, BUF / 2, p->key[0]),
	});
}

/* Of two writes with the flag either may win, but not with a FLUSH between them. */
TEST_CASE(relaxed_flush, "the flag: of two writes to a place and a FLUSH between, the later stays",
	  "MPE-9 MPE-1 WQ-7 ORD-9", HAS(FLUSH_GLOBAL) | HAS(FLUSH_PERSISTENT))
{
	struct send_wr wr;
	unsigned int round;
	uint32_t key;
	struct pair p;

	key = relax(&p);
	for (round = 0; round < 60; round++) {
		about("round %u", round);
		fill(p.buf[0], BUF / 2, round);
		fill(p.buf[0] + BUF / 2, BUF / 2, round + 1);
		put_half(&p, 0, key, UNSIGNALED);
		wr = flush_wr(round & 2 ? flush_types() : flush_types() & -flush_types(),
			      round & 1, p.buf[1], key, BUF / 2);
		wr.flags = UNSIGNALED;
		put_send(&p.qp[0], &wr);
		put_half(&p, 1, key, MOOR_WQE_FLAG_FENCE);
		ring_send(&p.qp[0]);
		expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
		if (!expect(is_filled(p.buf[1], BUF / 2, round + 1),
			    "not all of the later one"))
			return;
	}
}

TEST_CASE(relaxed_flag, "the flag: who sees what was sent behind a FLUSH sees what it flushed",
	  "MPE-9 MPE-1", HAS(FLUSH_GLOBAL) | HAS(FLUSH_PERSISTENT))
{
	volatile uint64_t *flag;
	struct send_wr wr;
	uint64_t place;
	uint32_t key, flag_key;
	unsigned int round;
	struct pair p;

	key = relax(&p);
	place = take(PAGE + BUF);
	flag_key = make_mr(PD, RIGHTS | MOOR_ACCESS_RELAXED_ORDERING, place,
			   PAGE + BUF);
	flag = at(place);
	for (round = 1; round <= 100; round++) {
		uint64_t number = round;

		fill(p.buf[0], BUF, round);
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .flags = UNSIGNALED,
			.remote = p.buf[1], .rkey = key,
			SGE(p.buf[0], BUF, p.key[0]),
		});
		wr = flush_wr(flush_types(), MOOR_FLUSH_RANGE, p.buf[1], key, BUF);
		wr.flags = UNSIGNALED;
		put_send(&p.qp[0], &wr);
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .remote = place,
			.flags = UNSIGNALED | MOOR_WQE_FLAG_FENCE,
			.rkey = flag_key, .data = &number, .data_len = 8,
		});
		/* More work, before a CQE makes all data visible. */
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .remote = place + PAGE,
			.rkey = flag_key, SGE(p.buf[0], BUF, p.key[0]),
		});
		ring_send(&p.qp[0]);
		need(watch_until(*flag == round), "the flag does not come");
		if (!expect(is_filled(p.buf[1], BUF, round),
			    "round %u: before the data", round))
			return;
		wait_cqe(&p.cq[0]);
	}
}

TEST_CASE(relaxed_word, "the flag: nothing passes an ATOMIC_WRITE, whatever its own key has",
	  "MPE-4 ORD-11 ORD-12 ORD-13", HAS(ATOMIC_WRITE))
{
	uint32_t keys[2], round;
	struct pair p;
	uint64_t *word;

	keys[0] = relax(&p);
	keys[1] = make_mr(PD, RIGHTS, p.buf[1], BUF);
	word = at(p.buf[1]);
	for (round = 0; round < 120; round++) {
		struct send_wr wr = word_wr(p.buf[1], keys[round & 1]);

		about("round %u", round);
		fill(p.buf[0], BUF, round);
		/* ATOMIC_WRITE after a write to the same place: the word stays. */
		put_half(&p, 0, keys[0], UNSIGNALED);
		put_send(&p.qp[0], &wr);
		ring_send(&p.qp[0]);
		expect_cqe(&p.cq[0], wr.wr_id, MOOR_WC_SUCCESS, 0);
		if (!expect(*word == WORD && same(p.buf[0] + 8, p.buf[1] + 8,
						  BUF / 2 - 8),
			    "a write before it has come late"))
			return;
		/* ATOMIC_WRITE before a write, without a CQE between: the write stays. */
		wr.flags = UNSIGNALED;
		put_send(&p.qp[0], &wr);
		put_half(&p, 1, keys[0], 0);
		ring_send(&p.qp[0]);
		expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
		if (!expect(same(p.buf[0] + BUF / 2, p.buf[1], BUF / 2),
			    "a write behind it has come early"))
			return;
	}
}

/*
 * A write with the flag, a FLUSH of it, and a word in the same place, all under way at once,
 * without FENCE. A READ before them takes time to be answered, and so the FLUSH does.
 */
TEST_CASE(relaxed_flush_word, "the flag: a FLUSH is done before an ATOMIC_WRITE behind it is",
	  "MPE-9 MPE-4", HAS(ATOMIC_WRITE))
{
	const uint32_t len = longest(LONG);
	uint64_t from = take_filled(len, 4), to = take(len);
	uint32_t from_key = make_mr(PD, RIGHTS, from, len);
	uint32_t to_key = make_mr(PD, RIGHTS, to, len);
	uint8_t most = dev.max_rd_atomic < 3 ? (uint8_t)dev.max_rd_atomic : 3;
	struct send_wr wr;
	unsigned int round;
	uint32_t key;
	struct pair p;

	skip_unless(flush_types());
	key = relax(&p);
	set_limits(&p, most);
	for (round = 0; round < 60; round++) {
		about("round %u", round);
		fill(p.buf[0], BUF, round);
		if (round & 1 && most == 3)
			put_send(&p.qp[0], &(struct send_wr){
				.opcode = MOOR_WQE_READ, .flags = UNSIGNALED,
				.remote = from, .rkey = from_key,
				SGE(to, len, to_key),
			});
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .flags = UNSIGNALED,
			.remote = p.buf[1], .rkey = key,
			SGE(p.buf[0], 4096, p.key[0]),
		});
		wr = flush_wr(round & 2 ? flush_types() : flush_types() & -flush_types(),
			      round & 4 ? MOOR_FLUSH_REGION : MOOR_FLUSH_RANGE,
			      p.buf[1], key, 4096);
		wr.flags = UNSIGNALED;
		put_send(&p.qp[0], &wr);
		wr = word_wr(p.buf[1] + 1024, key);
		put_send(&p.qp[0], &wr);
		ring_send(&p.qp[0]);
		expect_cqe(&p.cq[0], wr.wr_id, MOOR_WC_SUCCESS, 0);
		if (!expect(*(uint64_t *)at(p.buf[1] + 1024) == WORD &&
			    same(p.buf[0], p.buf[1], 1024) &&
			    same(p.buf[0] + 1032, p.buf[1] + 1032, 4096 - 1032),
			    "what was flushed has come behind the word"))
			return;
	}
}

TEST_CASE(relaxed_word_seen, "the flag: who sees the word sees what was sent before it",
	  "MPE-4 ORD-12", HAS(ATOMIC_WRITE))
{
	volatile uint64_t *word;
	uint32_t key, word_key;
	unsigned int round;
	uint64_t place;
	struct pair p;

	key = relax(&p);
	place = take(PAGE);
	word_key = make_mr(PD, RIGHTS | MOOR_ACCESS_RELAXED_ORDERING, place, PAGE);
	word = at(place);
	for (round = 1; round <= 100; round++) {
		uint64_t number = round;
		struct send_wr wr = word_wr(place, word_key);

		fill(p.buf[0], BUF, round);
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .flags = UNSIGNALED,
			.remote = p.buf[1], .rkey = key,
			SGE(p.buf[0], BUF, p.key[0]),
		});
		wr.data = &number;
		put_send(&p.qp[0], &wr);
		ring_send(&p.qp[0]);
		need(watch_until(*word == round), "the word does not come");
		if (!expect(is_filled(p.buf[1], BUF, round),
			    "round %u: before the data", round))
			return;
		wait_cqe(&p.cq[0]);
	}
}
