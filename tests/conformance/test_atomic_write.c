// SPDX-License-Identifier: GPL-2.0
/* ATOMIC_WRITE: its eight bytes, and their checks (HWI 12.7). */
#include <string.h>

#include "platform.h"
#include "traffic.h"

#define OLD	0x0102030405060708ull
#define NEW	0xf1f2f3f4f5f6f7f8ull

/* The word of buffer @side at @off. */
static volatile uint64_t *word(const struct pair *p, unsigned int side,
			       uint64_t off)
{
	return at(p->buf[side] + off);
}

/* A work request that writes NEW, inline, to the start of buffer 1. */
static struct send_wr word_wr(const struct pair *p)
{
	static const uint64_t value = NEW;

	return (struct send_wr){
		.opcode = MOOR_WQE_ATOMIC_WRITE, .wr_id = 0xa1,
		.remote = p->buf[1], .rkey = p->key[1],
		.data = &value, .data_len = sizeof(value),
	};
}

/* @wr ends with this status; if it fails, the word at the start of buffer 1 stays. */
static void expect_end(struct pair *p, struct send_wr wr, uint8_t status,
		       uint8_t syndrome)
{
	struct moor_cqe cqe;

	*word(p, 1, 0) = OLD;
	drop_events(MOOR_EQ_ASYNC);
	post_send(&p->qp[0], wr);
	cqe = expect_cqe(&p->cq[0], wr.wr_id, status, syndrome);
	if (!status) {
		expect(cqe.opcode == MOOR_WQE_ATOMIC_WRITE && cqe.byte_len == 8,
		       "opcode 0x%02x, %u bytes", cqe.opcode, cqe.byte_len);
		expect(*word(p, 1, 0) == NEW, "0x%llx is there",
		       (unsigned long long)*word(p, 1, 0));
	} else {
		expect(*word(p, 1, 0) == OLD, "it is written");
	}
	if (status == MOOR_WC_REM_ACCESS_ERR)
		expect_event(MOOR_EVENT_QP_ACCESS_ERR, p->qp[1].qpn);
	else if (status == MOOR_WC_REM_INV_REQ_ERR)
		expect_event(MOOR_EVENT_QP_REQ_ERR, p->qp[1].qpn);
	if (cqe.status)
		reconnect(p);
}

TEST_CASE(word_moves, "eight bytes, inline or of SGEs, and none beside them",
	  "MPE-2 CQ-18 WQ-6 WQ-13", HAS(ATOMIC_WRITE))
{
	struct send_wr wr;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	about("inline");
	expect_end(&p, word_wr(&p), MOOR_WC_SUCCESS, 0);
	wr = word_wr(&p);
	wr.data = NULL;
	wr.num_sge = 1;
	wr.sge[0] = (struct moor_sge){ p.buf[0] + 9, 8, p.key[0] };
	/* Eight different bytes at an odd address. */
	for (i = 0; i < 8; i++)
		((uint8_t *)at(p.buf[0]))[9 + i] = 0xf8 - i;
	about("one SGE, at an odd address");
	expect_end(&p, wr, MOOR_WC_SUCCESS, 0);
	about("two SGEs and one of nothing, 3 + 0 + 5");
	memcpy(at(p.buf[0] + 2048), at(p.buf[0] + 9), 3);
	memcpy(at(p.buf[0] + 4095), at(p.buf[0] + 12), 5);
	wr.num_sge = 3;
	wr.sge[0] = (struct moor_sge){ p.buf[0] + 2048, 3, p.key[0] };
	wr.sge[1] = (struct moor_sge){ NOWHERE, 0, 0xdead };
	wr.sge[2] = (struct moor_sge){ p.buf[0] + 4095, 5, p.key[0] };
	if (dev.max_sge >= 3)
		expect_end(&p, wr, MOOR_WC_SUCCESS, 0);
	about("every multiple of eight");
	for (i = 0; i < 64; i++) {
		fill(p.buf[1], BUF, 2);
		wr = word_wr(&p);
		wr.remote += 8 * i;
		post_send(&p.qp[0], wr);
		expect_cqe(&p.cq[0], wr.wr_id, MOOR_WC_SUCCESS, 0);
		expect(*word(&p, 1, 8 * i) == NEW && is_filled(p.buf[1], 8 * i, 2),
		       "word %u", i);
		fill(p.buf[0], BUF, 2);
		expect(same(p.buf[0] + 8 * i + 8, p.buf[1] + 8 * i + 8,
			    BUF - 8 * i - 8), "bytes behind word %u", i);
	}
}

TEST_CASE(word_length, "another length than eight", "MPE-2 WQ-9 RC-4 RC-21",
	  HAS(ATOMIC_WRITE))
{
	static const uint32_t lengths[] = { 0, 1, 4, 7, 9, 16, 32 };
	struct send_wr wr;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		about("%u bytes, inline", lengths[i]);
		wr = word_wr(&p);
		wr.data = at(p.buf[0]);
		wr.data_len = lengths[i];
		if (lengths[i] <= dev.max_inline)
			expect_end(&p, wr, MOOR_WC_LOC_LEN_ERR, MOOR_SYN_LENGTH);
		about("%u bytes", lengths[i]);
		wr.data = NULL;
		wr.num_sge = 1;
		/* The length is checked before the key. */
		wr.sge[0] = (struct moor_sge){ p.buf[0], lengths[i], 0xdead };
		expect_end(&p, wr, MOOR_WC_LOC_LEN_ERR, MOOR_SYN_LENGTH);
	}
	about("no SGE");
	wr = word_wr(&p);
	wr.data = NULL;
	expect_end(&p, wr, MOOR_WC_LOC_LEN_ERR, MOOR_SYN_LENGTH);
	about("a sum of 2^32 and 8");
	if (dev.max_sge < 2)
		return;
	wr.flags = AS_IT_IS;
	wr.num_sge = 2;
	wr.sge[0] = (struct moor_sge){ p.buf[0], 0x80000000, p.key[0] };
	wr.sge[1] = (struct moor_sge){ p.buf[0], 0x80000008, p.key[0] };
	expect_end(&p, wr, MOOR_WC_LOC_LEN_ERR, MOOR_SYN_LENGTH);
}

TEST_CASE(word_rights, "it needs what a WRITE needs, and not what an atomic does",
	  "MPE-2 RC-6 ACC-9 ACC-10 MR-5", HAS(ATOMIC_WRITE))
{
	struct moor_cmd_modify_qp cmd = { .mask = MOOR_QP_ATTR_ACCESS };
	uint32_t access, write = MOOR_ACCESS_REMOTE_WRITE;
	struct send_wr wr;
	struct pair p;

	make_pair(&p);
	wr = word_wr(&p);
	for (access = 0; access < 16; access += 2) {
		about("the QP's rights 0x%x", access);
		cmd.access = (uint8_t)access;
		must_modify(&p.qp[1], cmd);
		wr.rkey = p.key[1];
		expect_end(&p, wr, access & write ? MOOR_WC_SUCCESS :
			   MOOR_WC_REM_ACCESS_ERR, 0);
		about("the entry's rights 0x%x", access);
		cmd.access = ALL_REMOTE;
		must_modify(&p.qp[1], cmd);
		wr.rkey = make_mr(PD, access | MOOR_ACCESS_LOCAL_WRITE, p.buf[1],
				  BUF);
		expect_end(&p, wr, access & write ? MOOR_WC_SUCCESS :
			   MOOR_WC_REM_ACCESS_ERR, 0);
	}
	about("without LOCAL_WRITE");
	wr.rkey = make_mr(PD, write, p.buf[1], BUF);
	expect_end(&p, wr, MOOR_WC_REM_ACCESS_ERR, 0);
}

TEST_CASE(word_range, "all eight bytes lie inside, and are the domain's",
	  "MPE-2 RC-6 ACC-3 ACC-7 ACC-12", HAS(ATOMIC_WRITE))
{
	struct send_wr wr;
	struct pair p;

	make_pair(&p);
	wr = word_wr(&p);
	about("just so");
	wr.rkey = make_mr(PD, ALL_RIGHTS, p.buf[1], 8);
	expect_end(&p, wr, MOOR_WC_SUCCESS, 0);
	about("a byte too few behind");
	wr.rkey = make_mr(PD, ALL_RIGHTS, p.buf[1], 7);
	expect_end(&p, wr, MOOR_WC_REM_ACCESS_ERR, 0);
	about("a byte too few before");
	wr.rkey = make_mr(PD, ALL_RIGHTS, p.buf[1] + 1, 64);
	expect_end(&p, wr, MOOR_WC_REM_ACCESS_ERR, 0);
	about("another key");
	wr.rkey = p.key[1] ^ 1;
	expect_end(&p, wr, MOOR_WC_REM_ACCESS_ERR, 0);
	about("another PD");
	wr.rkey = make_mr(OTHER_PD, ALL_RIGHTS, p.buf[1], BUF);
	expect_end(&p, wr, MOOR_WC_REM_ACCESS_ERR, 0);
}

TEST_CASE(word_window, "through a window, by its rights", "MPE-2 MW-14 MW-16",
	  HAS(MW_TYPE_1))
{
	struct send_wr wr;
	struct pair p;
	uint32_t key;
	unsigned int i;

	skip_unless(dev.features & MOOR_FEATURE_ATOMIC_WRITE);
	make_pair(&p);
	for (i = 0; i < 2; i++) {
		about(i ? "REMOTE_WRITE" : "all else");
		key = make_window(PD, MOOR_MRC_TYPE_MW_1);
		post_send(&p.qp[1], (struct send_wr){
			.opcode = MOOR_WQE_BIND_MW, .wr_id = 9, .bind = {
				.mw_key = key, .new_key = key,
				.mr_lkey = p.key[1], .addr = p.buf[1],
				.length = 8, .access = i ?
				MOOR_ACCESS_REMOTE_WRITE :
				MOOR_ACCESS_REMOTE_READ |
				MOOR_ACCESS_REMOTE_ATOMIC } });
		expect_cqe(&p.cq[1], 9, MOOR_WC_SUCCESS, 0);
		wr = word_wr(&p);
		wr.rkey = key;
		expect_end(&p, wr, i ? MOOR_WC_SUCCESS : MOOR_WC_REM_ACCESS_ERR,
			   0);
	}
}

TEST_CASE(word_alignment, "an address that is no multiple of eight; the key counts behind that",
	  "MPE-2 RC-7 RC-21 EV-8", HAS(ATOMIC_WRITE))
{
	struct send_wr wr;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 1; i < 8; i++) {
		about("%u bytes off", i);
		wr = word_wr(&p);
		wr.remote += i;
		if (i & 1)
			wr.rkey = 0xdead;
		expect_end(&p, wr, MOOR_WC_REM_INV_REQ_ERR, 0);
	}
}

TEST_CASE(word_mapping, "where it is mapped, it is aligned and in one piece",
	  "MPE-2 RC-39 EV-8", HAS(ATOMIC_WRITE))
{
	uint64_t table = take(PAGE);
	struct moor_mr_context e;
	struct send_wr wr;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	for (i = 0; i < 8; i++) {
		about("mapped %u bytes off", i);
		e = mr_entry(PD, ALL_RIGHTS, p.buf[1] + i, PAGE);
		e.iova = 0x100000;
		wr = word_wr(&p);
		wr.remote = e.iova;
		wr.rkey = make_entry(&e, MOOR_MRC_TYPE_MR);
		expect_end(&p, wr, i ? MOOR_WC_REM_INV_REQ_ERR : MOOR_WC_SUCCESS,
			   0);
	}
	about("in two pages that do not touch");
	for (i = 0; i < 2; i++)
		((uint64_t *)at(table))[i] = (p.buf[1] + 5 * i * PAGE) |
			MOOR_PTE_PRESENT | MOOR_PTE_LEAF | MOOR_PTE_WRITABLE;
	e.xlat = (struct moor_xlat){
		.root = table | MOOR_PTE_PRESENT, .levels = 1, .page_shift = 12,
		.offset = PAGE - 4,
	};
	wr.rkey = make_entry(&e, MOOR_MRC_TYPE_MR);
	expect_end(&p, wr, MOOR_WC_REM_INV_REQ_ERR, 0);
}

TEST_CASE(word_memory, "memory that is not there, at either end",
	  "MPE-2 RC-2 RC-3 RC-21 RC-26 RC-28", HAS(ATOMIC_WRITE))
{
	const bool reported = platform_reports_writes();
	uint32_t torn, nowhere;
	struct send_wr wr;
	struct pair p;

	make_pair(&p);
	torn = make_torn_mr(true, p.buf[0]);
	nowhere = make_torn_mr(false, p.buf[0]);
	wr = word_wr(&p);
	wr.data = NULL;
	wr.num_sge = 1;
	about("its last four bytes");
	wr.sge[0] = (struct moor_sge){ TORN_IOVA + 2 * PAGE - 4, 8, torn };
	expect_end(&p, wr, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_TRANSLATION);
	wr.sge[0].lkey = nowhere;
	expect_end(&p, wr, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_DMA);
	about("the remote key before its last four bytes, behind its first");
	wr.rkey ^= 1;
	expect_end(&p, wr, MOOR_WC_REM_ACCESS_ERR, 0);
	wr.sge[0].addr = TORN_IOVA + 2 * PAGE;
	expect_end(&p, wr, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_DMA);
	wr.rkey = p.key[1];
	about("a key that does not pass");
	wr.sge[0] = (struct moor_sge){ p.buf[0], 8, p.key[0] ^ 1 };
	expect_end(&p, wr, MOOR_WC_LOC_PROT_ERR, MOOR_SYN_KEY);
	about("the responder's");
	wr = word_wr(&p);
	wr.remote = TORN_IOVA + 2 * PAGE;
	wr.rkey = torn;
	expect_end(&p, wr, MOOR_WC_REM_ACCESS_ERR, 0);
	about("the responder's last four bytes, which are out of place, too");
	wr.remote = TORN_WORD;
	wr.rkey = make_torn_word(true, p.buf[0]);
	expect_end(&p, wr, MOOR_WC_REM_ACCESS_ERR, 0);
	/* What is written where nothing is may be lost without a report (ACC-19). */
	if (!reported)
		return;
	about("the responder's, which is nowhere");
	wr.rkey = make_torn_word(false, p.buf[0]);
	expect_end(&p, wr, MOOR_WC_REM_ACCESS_ERR, 0);
	wr.remote = TORN_IOVA + 2 * PAGE;
	wr.rkey = nowhere;
	expect_end(&p, wr, MOOR_WC_REM_ACCESS_ERR, 0);
}

/* Looks at the word for a while; is it, each time, all zeros or all ones? */
static bool looks_whole(const struct pair *p, uint64_t *last, unsigned int *changes)
{
	unsigned int looks;

	for (looks = 0; looks < 64; looks++) {
		uint64_t seen = *word(p, 1, 0);

		*changes += seen != *last;
		*last = seen;
		if (seen && seen != ~0ull)
			return false;
	}
	return true;
}

TEST_CASE(word_whole, "who looks finds all of the old or all of the new, as do other QPs",
	  "MPE-3", HAS(ATOMIC_WRITE))
{
	const unsigned int n = DEPTH / 2;
	unsigned int round, i, changes = 0;
	uint64_t seen, last = 0, began = now_ns();
	struct moor_cqe cqe;
	struct pair p;

	at_least(max_log_wqe, 1);
	at_least(max_log_cqe, 2);
	make_pair(&p);
	*word(&p, 1, 0) = 0;
	for (round = 0; round < 60 || !looked_enough(changes, 5000, began); round++) {
		for (i = 0; i < n; i++) {
			static const uint64_t values[] = { ~0ull, 0 };
			struct send_wr wr = word_wr(&p);

			wr.data = &values[i & 1];
			wr.flags = i + 1 < n ? UNSIGNALED : 0;
			put_send(&p.qp[0], &wr);
			/* Each READ of the word by QP 1 has its own target. */
			put_send(&p.qp[1], &(struct send_wr){
				.opcode = MOOR_WQE_READ, .rkey = p.key[1],
				.remote = p.buf[1],
				.flags = i + 1 < n ? UNSIGNALED : 0,
				SGE(p.buf[0] + 64 + 8 * i, 8, p.key[0]),
			});
		}
		ring_send(&p.qp[0]);
		ring_send(&p.qp[1]);
		need(watch_until(!looks_whole(&p, &last, &changes) ||
				 poll_cqe(&p.cq[0], &cqe)), "no CQE");
		if (!expect(!last || last == ~0ull, "0x%llx is seen",
			    (unsigned long long)last))
			return;
		need(!cqe.status && !wait_cqe(&p.cq[1]).status, "status %u",
		     cqe.status);
		for (i = 0; i < n; i++) {
			seen = *word(&p, 0, 64 + 8 * i);
			expect(!seen || seen == ~0ull, "0x%llx is read",
			       (unsigned long long)seen);
		}
	}
}

TEST_CASE(word_and_atomics, "no atomic of another QP undoes it, nor it a half of one",
	  "MPE-4 RC-37", HAS(ATOMICS))
{
	const unsigned int n = DEPTH / 2;
	uint64_t seen, last = 0;
	unsigned int round, i;
	struct pair p;

	skip_unless(dev.features & MOOR_FEATURE_ATOMIC_WRITE);
	at_least(max_log_wqe, 1);
	at_least(max_log_cqe, 2);
	make_pair(&p);
	*word(&p, 1, 0) = 0;
	for (round = 0; round < 60; round++) {
		/* The upper half tells which was written last, the lower counts from there. */
		for (i = 0; i < n; i++) {
			uint64_t value = (round * n + i + 1ull) << 32;
			struct send_wr wr = word_wr(&p);

			wr.data = &value;
			wr.flags = i + 1 < n ? UNSIGNALED : 0;
			put_send(&p.qp[0], &wr);
			put_send(&p.qp[1], &(struct send_wr){
				.opcode = MOOR_WQE_FETCH_ADD, .rkey = p.key[1],
				.remote = p.buf[1], .atomic = { .swap_add = 1 },
				.flags = i + 1 < n ? UNSIGNALED : 0,
				SGE(p.buf[0] + 64 + 8 * i, 8, p.key[0]),
			});
		}
		ring_send(&p.qp[round & 1]);
		ring_send(&p.qp[!(round & 1)]);
		need(!wait_cqe(&p.cq[0]).status && !wait_cqe(&p.cq[1]).status,
		     "round %u: an error", round);
		for (i = 0; i <= n; i++) {
			seen = i < n ? *word(&p, 0, 64 + 8 * i) : *word(&p, 1, 0);
			need(seen == last || (!(uint32_t)seen && seen > last),
			     "round %u, %u: 0x%llx behind 0x%llx", round, i,
			     (unsigned long long)seen, (unsigned long long)last);
			last = i < n ? seen + 1 : seen;
		}
		if (!expect(last >> 32 == (round + 1) * n,
			    "round %u: what is written last is lost", round))
			return;
	}
}

/* Resets the requester, which begins again with the PSN that it had first. */
static void begin_again(struct pair *p)
{
	reset_qp(&p->qp[0]);
	connect_qp(&p->qp[0], p->qp[1].qpn);
	drop_events(MOOR_EQ_ASYNC);
}

TEST_CASE(word_again, "one that comes again is answered and not done again",
	  "MPE-1 MPE-4 RC-38 RC-43 RC-48", HAS(ATOMIC_WRITE))
{
	uint32_t kept = dev.max_rd_atomic < 8 ? dev.max_rd_atomic : 8, i;
	struct moor_cmd_modify_qp many = {
		.mask = MOOR_QP_ATTR_MAX_DEST_RD_ATOMIC,
		.max_dest_rd_atomic = (uint8_t)kept,
	};
	struct send_wr wr;
	struct moor_cqe cqe;
	struct pair p;

	make_pair(&p);
	must_modify(&p.qp[1], many);
	wr = word_wr(&p);
	for (i = 0; i < kept; i++) {
		*word(&p, 1, 0) = OLD;
		post_send(&p.qp[0], wr);
		expect_cqe(&p.cq[0], wr.wr_id, MOOR_WC_SUCCESS, 0);
		expect(*word(&p, 1, 0) == NEW, "%u is not done", i);
	}
	*word(&p, 1, 0) = OLD;
	begin_again(&p);
	for (i = 0; i < kept; i++) {
		post_send(&p.qp[0], wr);
		expect_cqe(&p.cq[0], wr.wr_id, MOOR_WC_SUCCESS, 0);
		expect(*word(&p, 1, 0) == OLD, "%u is done again", i);
	}
	about("behind them");
	for (; i < 300; i++) {
		post_send(&p.qp[0], wr);
		cqe = wait_cqe(&p.cq[0]);
		need(!cqe.status && *word(&p, 1, 0) == NEW, "%u: status %u", i,
		     cqe.status);
		*word(&p, 1, 0) = OLD;
	}
	about("the oldest, which may be forgotten");
	begin_again(&p);
	post_send(&p.qp[0], wr);
	cqe = wait_cqe(&p.cq[0]);
	expect(!cqe.status || cqe.status == MOOR_WC_RETRY_EXC_ERR, "status %u",
	       cqe.status);
	expect(*word(&p, 1, 0) == OLD, "it is done again");
}
