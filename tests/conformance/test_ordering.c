// SPDX-License-Identifier: GPL-2.0
/* The order in which data becomes visible (HWI 13). */
#include <string.h>

#include "traffic.h"

#define WORDS	(BUF / 8 - 1)
#define LEN	(WORDS * 8)

/* Fills a message with counting words; each has its own numbers. */
static void count_up(uint64_t addr, uint64_t first)
{
	uint64_t *words = at(addr), i;

	for (i = 0; i < WORDS; i++)
		words[i] = first + i;
}

/*
 * If a word is visible, all words before it are, in its message and in earlier ones.
 * Looks from the end back, while the message is written; counts in @halves the looks that
 * see a part of it.
 */
static bool in_order(uint64_t addr, uint64_t first, unsigned int *halves)
{
	const volatile uint64_t *words = at(addr);
	bool seen = false, missed = false;
	uint64_t i;

	for (i = WORDS; i--; ) {
		uint64_t now = __atomic_load_n(&words[i], __ATOMIC_ACQUIRE);

		if (seen && now < first)
			return false;
		seen |= now >= first;
		missed |= now < first;
	}
	*halves += seen && missed;
	return true;
}

TEST_CASE(byte_order, "what is received becomes visible in order, message after message",
	  "ORD-4 ORD-5 ORD-1", 0)
{
	static const uint8_t opcodes[] = { MOOR_WQE_WRITE, MOOR_WQE_SEND,
					   MOOR_WQE_READ };
	unsigned int kind, round, halves;
	struct moor_cqe cqe;
	bool ordered;
	struct pair p;

	make_pair(&p);
	for (kind = 0; kind < 3; kind++) {
		bool read = opcodes[kind] == MOOR_WQE_READ;
		uint64_t began = now_ns();

		halves = 0;
		for (round = 1; round <= 30 || !looked_enough(halves, 500, began); round++) {
			/* Devices may write wider units, so that a message begins inside of one. */
			uint64_t here = p.buf[0] + (read && round % 2 ? 8 : 0);
			uint64_t there = p.buf[1] + (!read && round % 2 ? 8 : 0);
			uint64_t from = read ? there : here, to = read ? here : there;
			uint64_t first = round * 1000000ull;

			about("opcode %u, round %u", opcodes[kind], round);
			count_up(from, first);
			memset(at(to), 0, LEN);
			if (opcodes[kind] == MOOR_WQE_SEND)
				post_recv(&p.qp[1], 1, there, LEN, p.key[1]);
			post_send(&p.qp[0], (struct send_wr){
				.opcode = opcodes[kind], .remote = there,
				.rkey = p.key[1], SGE(here, LEN, p.key[0]),
			});
			need(watch_until(!(ordered = in_order(to, first, &halves)) ||
					 peek_cqe(&p.cq[0], &cqe)), "no CQE");
			if (!expect(ordered, "a later word before an earlier one"))
				return;
			expect(same(from, to, LEN), "a CQE before its data");
			wait_cqe(&p.cq[0]);
			if (opcodes[kind] == MOOR_WQE_SEND)
				wait_cqe(&p.cq[1]);
		}
	}
}

TEST_CASE(flag_behind_data, "a message after another: the flag comes after the data",
	  "ORD-4", 0)
{
	volatile uint64_t *flag;
	struct moor_cqe cqe;
	unsigned int round;
	struct pair p;

	make_pair(&p);
	flag = at(p.buf[1] + BUF - 8);
	for (round = 1; round <= 60; round++) {
		uint64_t number = round;

		fill(p.buf[0], BUF - 8, round);
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .flags = UNSIGNALED,
			.remote = p.buf[1], .rkey = p.key[1],
			SGE(p.buf[0], BUF - 8, p.key[0]),
		});
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .remote = p.buf[1] + BUF - 8,
			.rkey = p.key[1], .data = &number, .data_len = 8,
		});
		ring_send(&p.qp[0]);
		need(watch_until(__atomic_load_n(flag, __ATOMIC_ACQUIRE) == round),
		     "the flag does not come");
		if (!expect(is_filled(p.buf[1], BUF - 8, round),
			    "round %u: the flag before the data", round))
			return;
		need(wait_until(poll_cqe(&p.cq[0], &cqe)), "no CQE");
	}
}

/*
 * Two messages to one place, by these keys: the later one stays. Unlike a look, this
 * does not depend on the right moment.
 */
static void expect_overwrite(struct pair *p, uint32_t first_key,
			     uint32_t second_key)
{
	const uint32_t half = BUF / 2;
	unsigned int i, round;

	for (round = 0; round < 60; round++) {
		fill(p->buf[0], half, round);
		fill(p->buf[0] + half, half, round + 1);
		for (i = 0; i < 2; i++)
			put_send(&p->qp[0], &(struct send_wr){
				.opcode = MOOR_WQE_WRITE,
				.flags = i ? 0 : UNSIGNALED,
				.remote = p->buf[1],
				.rkey = i ? second_key : first_key,
				SGE(p->buf[0] + i * half, half, p->key[0]),
			});
		ring_send(&p->qp[0]);
		expect_cqe(&p->cq[0], 0, MOOR_WC_SUCCESS, 0);
		if (!expect(is_filled(p->buf[1], half, round + 1),
			    "round %u: not all of the later one", round))
			return;
	}
}

TEST_CASE(overwrite, "of two messages to one place the later one stays", "ORD-4", 0)
{
	struct pair p;

	make_pair(&p);
	expect_overwrite(&p, p.key[1], p.key[1]);
}

TEST_CASE(done_with, "after its CQE, of whatever status, the memory of a WQE is left alone",
	  "ORD-16", 0)
{
	const uint32_t len = longest(8u << 20);
	uint64_t from = take_filled(len, 3), to = take(len);
	uint32_t key_from = make_mr(PD, ALL_RIGHTS, from, len);
	uint32_t key_to = make_mr(PD, ALL_RIGHTS, to, len);
	struct moor_cqe cqe;
	unsigned int round;
	struct pair p;

	make_pair(&p);
	for (round = 0; round < 10; round++) {
		memset(at(to), 0, len);
		post_recv(&p.qp[1], 1, to, len, key_to);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_SEND, SGE(from, len, key_from),
		});
		watch_until(((volatile uint8_t *)at(to))[round * len / 20 + 1]);
		/* An error of the receiver's own queue cuts the message off. */
		post_send(&p.qp[1], (struct send_wr){ .opcode = 0x7f, .wr_id = 2 });
		do
			cqe = wait_cqe(&p.cq[1]);
		while (cqe.wr_id != 1);
		memset(at(to), 0xaa, len);
		wait_cqe(&p.cq[0]);
		if (!expect(is_all(to, len, 0xaa), "round %u, status %u: written after it",
			    round, cqe.status))
			return;
		reconnect(&p);
	}
}

TEST_CASE(fence_register, "a read of FENCE: what was written to BAR2 governs", "ORD-2 ORD-3",
	  0)
{
	struct moor_cpl_mr_query out;
	unsigned int num = dev.consumer_first - MOOR_MR_INDEX_FIRST, i;

	for (i = 0; i < 200 && i < num; i++) {
		uint32_t key = make_mr(PD, i & 31, MEMORY_BASE + i, 64);

		if (i & 1)
			reg_read(MOOR_REG_FENCE);
		if (!expect(!query(key, &out) && out.access == (i & 31) &&
			    out.iova == MEMORY_BASE + i,
			    "entry %u: status %u", i, answer.status))
			return;
	}
}

TEST_CASE(overlap, "source and target that overlap: it completes, whatever the bytes",
	  "ORD-6", 0)
{
	struct pair p;

	make_pair(&p);
	expect(!move(&p, MOOR_WQE_WRITE, p.buf[1], p.key[1], p.buf[1] + 100,
		     p.key[1], 5000).status, "forwards");
	expect(!move(&p, MOOR_WQE_WRITE, p.buf[1] + 100, p.key[1], p.buf[1],
		     p.key[1], 5000).status, "backwards");
	expect(!move(&p, MOOR_WQE_READ, p.buf[1], p.key[1], p.buf[1], p.key[1],
		     5000).status, "onto itself");
	fill(p.buf[0], BUF, 1);
	expect_remote(&p, MOOR_WQE_WRITE, p.key[1], p.buf[1], BUF, true);
	expect(is_filled(p.buf[1], BUF, 1), "another message after them");
}

/* ---- RELAXED_ORDERING ---- */

static void relax(struct pair *p)
{
	unsigned int i;

	make_pair(p);
	for (i = 0; i < 2; i++)
		p->key[i] = make_mr(PD, ALL_RIGHTS | MOOR_ACCESS_RELAXED_ORDERING,
				    p->buf[i], BUF);
}

/* UC QPs: without acknowledgements there is an event without a CQE before it. */
static void make_uc(struct pair *p)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct moor_cmd_create_qp cmd = qp_command(&p->qp[i], &p->cq[i],
							   &p->cq[i]);

		cmd.type = MOOR_QP_UC;
		must(cmd);
	}
}

TEST_CASE(relaxed_cqe, "the flag: data is there before its CQE, and before the fence",
	  "ORD-9 ORD-10 REV-5 MR-5", HAS(RELAXED_ORDERING))
{
	unsigned int round;
	struct pair p;

	relax(&p);
	for (round = 0; round < 40; round++) {
		uint32_t key = make_mr(PD, ALL_RIGHTS |
				       MOOR_ACCESS_RELAXED_ORDERING, p.buf[1],
				       BUF);

		about("round %u", round);
		fill(p.buf[0], BUF, round);
		expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], BUF, true);
		expect(is_filled(p.buf[1], BUF, round), "a WRITE");
		fill(p.buf[0], 5000, round + 1);
		post_recv(&p.qp[1], 5, p.buf[1], 5000, p.key[1]);
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_SEND, .flags = UNSIGNALED,
			SGE(p.buf[0], 5000, p.key[0]),
		});
		expect_cqe(&p.cq[1], 5, MOOR_WC_SUCCESS, 0);
		expect(is_filled(p.buf[1], 5000, round + 1), "a SEND");
		fill(p.buf[1], BUF, round + 2);
		expect_local(&p, MOOR_WQE_READ, p.key[0], p.buf[0], BUF, 0);
		expect(is_filled(p.buf[0], BUF, round + 2), "a READ");
		post_send(&p.qp[0], (struct send_wr){
			.opcode = MOOR_WQE_WRITE, .remote = p.buf[1],
			.flags = UNSIGNALED, .rkey = key,
			SGE(p.buf[0], BUF, p.key[0]),
		});
		expect(revoke(key) == REVOKED, "not revoked");
		memset(at(p.buf[1]), 0xdd, BUF);
		settle();
		if (!expect(is_all(p.buf[1], BUF, 0xdd), "after the fence"))
			return;
		reconnect(&p);
	}
}

TEST_CASE(relaxed_ordered, "the flag: a write without it comes after those with it",
	  "ORD-11 ORD-14", HAS(RELAXED_ORDERING))
{
	volatile uint64_t *flag;
	uint64_t place;
	uint32_t key;
	unsigned int round;
	struct pair p;

	relax(&p);
	place = take(PAGE + BUF);
	key = make_mr(PD, ALL_RIGHTS, place, PAGE + BUF);
	flag = at(place);
	for (round = 1; round <= 200; round++) {
		uint64_t number = round;

		fill(p.buf[0], BUF, round);
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .flags = UNSIGNALED,
			.remote = p.buf[1], .rkey = p.key[1],
			SGE(p.buf[0], BUF, p.key[0]),
		});
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .flags = UNSIGNALED,
			.remote = place, .rkey = key, .data = &number,
			.data_len = 8,
		});
		/* More work, before a CQE makes all data visible. */
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .remote = place + PAGE,
			.rkey = key, SGE(p.buf[0], BUF, p.key[0]),
		});
		ring_send(&p.qp[0]);
		need(watch_until(__atomic_load_n(flag, __ATOMIC_ACQUIRE) == round),
		     "the flag does not come");
		if (!expect(is_filled(p.buf[1], BUF, round),
			    "round %u: before the data", round))
			return;
		wait_cqe(&p.cq[0]);
	}
}

TEST_CASE(relaxed_overwrite, "the flag: what comes after it to the same place, without it, stays",
	  "ORD-11 ORD-12", HAS(RELAXED_ORDERING))
{
	unsigned int round;
	uint64_t *word;
	uint32_t key;
	struct pair p;

	relax(&p);
	key = make_mr(PD, ALL_RIGHTS, p.buf[1], BUF);
	expect_overwrite(&p, p.key[1], key);
	if (!(dev.features & MOOR_FEATURE_ATOMICS))
		return;
	word = at(p.buf[1]);
	for (round = 0; round < 60; round++) {
		memset(at(p.buf[0]), (int)round, BUF);
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .flags = UNSIGNALED,
			.remote = p.buf[1], .rkey = p.key[1],
			SGE(p.buf[0], BUF / 2, p.key[0]),
		});
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_FETCH_ADD, .remote = p.buf[1],
			.rkey = key, SGE(p.buf[0] + BUF - 8, 8, p.key[0]),
			.atomic = { .swap_add = 1 },
		});
		ring_send(&p.qp[0]);
		expect_cqe(&p.cq[0], 0, MOOR_WC_SUCCESS, 0);
		if (!expect(*word == round * 0x0101010101010101ull + 1,
			    "round %u: after an atomic 0x%llx", round,
			    (unsigned long long)*word))
			return;
	}
}

/* Writes zeros, by a key with the flag, to a place that the device writes next. */
static void put_zeros(struct pair *p, uint64_t place, uint32_t length,
		      unsigned int flags)
{
	uint64_t page = place & ~(PAGE - 1);

	memset(at(p->buf[0]), 0, length);
	put_send(&p->qp[0], &(struct send_wr){
		.opcode = MOOR_WQE_WRITE, .flags = flags, .remote = place,
		.rkey = make_mr(PD, ALL_RIGHTS | MOOR_ACCESS_RELAXED_ORDERING,
				page, PAGE),
		SGE(p->buf[0], length, p->key[0]),
	});
}

TEST_CASE(relaxed_rings, "the flag: a CQE and an event stay where data was written before",
	  "ORD-10", HAS(RELAXED_ORDERING))
{
	const struct moor_cqe *cqe;
	const struct moor_eqe *eqe;
	struct moor_eqe event;
	unsigned int round;
	struct pair p;

	at_least(max_log_wqe, 2);
	at_least(max_log_cqe, 3);
	relax(&p);
	for (round = 0; round < 8; round++) {
		cqe = at(p.cq[0].ring + round * sizeof(*cqe));
		put_zeros(&p, p.cq[0].ring + round * sizeof(*cqe), sizeof(*cqe), 0);
		ring_send(&p.qp[0]);
		wait_cqe(&p.cq[0]);
		settle();
		if (!expect(cqe->phase & 1, "round %u: the CQE is gone", round))
			return;
	}
	if (!(dev.features & MOOR_FEATURE_UC))
		return;
	make_uc(&p);
	for (round = 0; round < 8; round++) {
		reconnect(&p);
		eqe = at(next_event_place(MOOR_EQ_ASYNC));
		put_zeros(&p, next_event_place(MOOR_EQ_ASYNC), sizeof(*eqe),
			  UNSIGNALED);
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_SEND, .flags = UNSIGNALED,
		});
		store_slot(p.qp[1].rq_slot, DEPTH + 1);
		ring_send(&p.qp[0]);
		need(wait_event(MOOR_EQ_ASYNC, &event) &&
		     event.type == MOOR_EVENT_QP_FATAL, "no QP_FATAL");
		settle();
		if (!expect(eqe->phase & 1, "round %u: the event is gone", round))
			return;
	}
}

TEST_CASE(relaxed_event, "the flag: an event comes after what was written before it",
	  "ORD-10", HAS(RELAXED_ORDERING))
{
	struct moor_eqe eqe;
	unsigned int round;
	struct pair p;

	skip_unless(dev.features & MOOR_FEATURE_UC);
	relax(&p);
	make_uc(&p);
	for (round = 1; round <= 60; round++) {
		reconnect(&p);
		fill(p.buf[0], BUF, round);
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .flags = UNSIGNALED,
			.remote = p.buf[1], .rkey = p.key[1],
			SGE(p.buf[0], BUF, p.key[0]),
		});
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_SEND, .flags = UNSIGNALED,
		});
		store_slot(p.qp[1].rq_slot, DEPTH + 1);
		ring_send(&p.qp[0]);
		need(watch_until(next_event(MOOR_EQ_ASYNC, &eqe)) &&
		     eqe.type == MOOR_EVENT_QP_FATAL, "no QP_FATAL");
		if (!expect(is_filled(p.buf[1], BUF, round),
			    "round %u: before the data", round))
			return;
	}
}

TEST_CASE(relaxed_atomic, "the flag: nothing passes an atomic", "ORD-12",
	  HAS(RELAXED_ORDERING))
{
	volatile uint64_t *word;
	uint64_t place;
	uint32_t key;
	unsigned int round;
	struct pair p;

	relax(&p);
	skip_unless(dev.features & MOOR_FEATURE_ATOMICS);
	place = take(PAGE);
	key = make_mr(PD, ALL_RIGHTS, place, PAGE);
	word = at(place);
	for (round = 1; round <= 60; round++) {
		fill(p.buf[0], BUF, round);
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .flags = UNSIGNALED,
			.remote = p.buf[1], .rkey = p.key[1],
			SGE(p.buf[0], BUF - 64, p.key[0]),
		});
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_FETCH_ADD, .remote = place,
			.rkey = key, SGE(p.buf[0] + BUF - 64, 8, p.key[0]),
			.atomic = { .swap_add = 1 },
		});
		ring_send(&p.qp[0]);
		need(watch_until(__atomic_load_n(word, __ATOMIC_ACQUIRE) == round),
		     "the atomic is not done");
		if (!expect(is_filled(p.buf[1], BUF - 64, round),
			    "round %u: before the data", round))
			return;
		wait_cqe(&p.cq[0]);
	}
}

TEST_CASE(relaxed_read_back, "the flag: a later message reads what an earlier one wrote",
	  "ORD-13", HAS(RELAXED_ORDERING))
{
	unsigned int round;
	struct pair p;

	relax(&p);
	for (round = 1; round <= 60; round++) {
		fill(p.buf[0], 4096, round);
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .flags = UNSIGNALED,
			.remote = p.buf[1] + 3, .rkey = p.key[1],
			SGE(p.buf[0], 4096, p.key[0]),
		});
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_READ, .remote = p.buf[1] + 3,
			.rkey = p.key[1], SGE(p.buf[0] + 8192, 4096, p.key[0]),
		});
		ring_send(&p.qp[0]);
		wait_cqe(&p.cq[0]);
		if (!expect(same(p.buf[0], p.buf[0] + 8192, 4096),
			    "round %u: other bytes", round))
			return;
	}
}

TEST_CASE(relaxed_window, "the flag of an MR counts for a window bound to it",
	  "ORD-9 ORD-10", HAS(RELAXED_ORDERING))
{
	unsigned int type, round;
	struct pair p;
	uint32_t key;

	relax(&p);
	skip_unless(dev.features &
		    (MOOR_FEATURE_MW_TYPE_1 | MOOR_FEATURE_MW_TYPE_2B));
	type = dev.features & MOOR_FEATURE_MW_TYPE_1 ? MOOR_MRC_TYPE_MW_1 :
						       MOOR_MRC_TYPE_MW_2;
	key = make_window(PD, type);
	post_send(&p.qp[1], (struct send_wr){
		.opcode = MOOR_WQE_BIND_MW,
		.bind = { .mw_key = key, .new_key = key, .mr_lkey = p.key[1],
			  .access = ALL_REMOTE, .addr = p.buf[1],
			  .length = BUF },
	});
	expect_cqe(&p.cq[1], 0, MOOR_WC_SUCCESS, 0);
	for (round = 0; round < 20; round++) {
		fill(p.buf[0], BUF, round);
		expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], BUF, true);
		expect(is_filled(p.buf[1], BUF, round), "round %u", round);
	}
}
