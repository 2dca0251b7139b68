// SPDX-License-Identifier: GPL-2.0
/* The place of ATOMIC_WRITE and FLUSH among other messages (HWI 12.7, 13). */
#include <string.h>

#include "paged.h"
#include "xrc.h"

#define BOTH	(HAS(ATOMIC_WRITE) | HAS(FLUSH_GLOBAL) | HAS(FLUSH_PERSISTENT))
#define RIGHTS	(ALL_RIGHTS | ALL_FLUSH)
#define WORD	0x8877665544332211ull

static const uint64_t word_value = WORD;

/* Does the device have the opcode's feature? */
static bool is_offered(uint8_t opcode)
{
	about("opcode 0x%02x", opcode);
	return opcode == MOOR_WQE_FLUSH ? flush_types() :
	       dev.features & MOOR_FEATURE_ATOMIC_WRITE;
}

#define FOR_EACH_OPCODE(opcode)						\
	for ((opcode) = MOOR_WQE_ATOMIC_WRITE; (opcode) <= MOOR_WQE_FLUSH; (opcode)++)

/* An ATOMIC_WRITE of WORD, inline, to @remote; or a FLUSH of eight bytes there. */
static struct send_wr either(uint8_t opcode, uint64_t remote, uint32_t rkey)
{
	if (opcode == MOOR_WQE_FLUSH)
		return flush_wr(flush_types(), MOOR_FLUSH_RANGE, remote, rkey, 8);
	return (struct send_wr){
		.opcode = opcode, .wr_id = 0xf1, .remote = remote,
		.rkey = rkey, .data = &word_value,
		.data_len = sizeof(word_value),
	};
}

/* Sets the limits of READs and the like at both ends, and no retries. */
static void set_limits(struct pair *p, uint8_t max_rd_atomic,
		       uint8_t max_dest_rd_atomic)
{
	must_modify(&p->qp[0], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_MAX_RD_ATOMIC | MOOR_QP_ATTR_TIMEOUT |
			MOOR_QP_ATTR_RETRY_CNT,
		.max_rd_atomic = max_rd_atomic,
	});
	must_modify(&p->qp[1], (struct moor_cmd_modify_qp){
		.mask = MOOR_QP_ATTR_MAX_DEST_RD_ATOMIC,
		.max_dest_rd_atomic = max_dest_rd_atomic,
	});
}

TEST_CASE(limits, "max_rd_atomic and max_dest_rd_atomic of 0 leave no room for them",
	  "MPE-1 WQ-8 RC-40 RC-5 EV-8", BOTH)
{
	uint8_t opcode;
	struct pair p;
	uint32_t key;

	make_pair(&p);
	key = make_mr(PD, RIGHTS, p.buf[1], BUF);
	FOR_EACH_OPCODE(opcode) {
		if (!is_offered(opcode))
			continue;
		set_limits(&p, 1, 1);
		post_send(&p.qp[0], either(opcode, p.buf[1], key));
		expect_cqe(&p.cq[0], 0xf1, MOOR_WC_SUCCESS, 0);
		fill(p.buf[1], BUF, 2);
		set_limits(&p, 0, 1);
		post_send(&p.qp[0], either(opcode, p.buf[1], key));
		expect_cqe(&p.cq[0], 0xf1, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
		reconnect(&p);
		set_limits(&p, 1, 0);
		drop_events(MOOR_EQ_ASYNC);
		/* The limit is checked before the key. */
		post_send(&p.qp[0], either(opcode, p.buf[1], key ^ 1));
		expect_cqe(&p.cq[0], 0xf1, MOOR_WC_REM_INV_REQ_ERR, 0);
		expect_event(MOOR_EVENT_QP_REQ_ERR, p.qp[1].qpn);
		reconnect(&p);
		expect(is_filled(p.buf[1], BUF, 2), "something is written");
	}
}

/* One QP posts, in turn, a long READ and two of each of the others; all at once. */
#define LONG	(1u << 20)
#define TURNS	6u

TEST_CASE(among_reads, "behind long READs: no more at once than there may be, answered in turn",
	  "MPE-1 WQ-14 RC-40 RC-14", BOTH)
{
	static const uint8_t kinds[] = { MOOR_WQE_READ, MOOR_WQE_ATOMIC_WRITE,
					 MOOR_WQE_FLUSH, MOOR_WQE_FLUSH,
					 MOOR_WQE_ATOMIC_WRITE };
	const uint32_t len = longest(LONG);
	uint64_t from = take_filled(len, 4), to = take(TURNS * len);
	uint32_t from_key = make_mr(PD, RIGHTS, from, len);
	uint32_t to_key = make_mr(PD, RIGHTS, to, TURNS * len);
	uint32_t key, most, psn, i, n = 0;
	struct pair p;

	at_least(max_mr_size, TURNS * len);
	make_pair(&p);
	key = make_mr(PD, RIGHTS, p.buf[1], BUF);
	for (most = 1; most <= 4 && most <= dev.max_rd_atomic; most++) {
		about("%u at once", most);
		set_limits(&p, (uint8_t)most, (uint8_t)most);
		memset(at(to), 0, TURNS * len);
		memset(at(p.buf[1]), 0, BUF);
		psn = query_qp(&p.qp[0]).sq_psn;
		for (i = 0, n = 0; i < TURNS * sizeof(kinds); i++) {
			uint8_t kind = kinds[i % sizeof(kinds)];
			uint32_t turn = i / (uint32_t)sizeof(kinds);
			struct send_wr wr = either(kind, p.buf[1] + 8 * n, key);

			if (kind == MOOR_WQE_READ)
				wr = (struct send_wr){
					.opcode = kind, .remote = from,
					.rkey = from_key,
					SGE(to + turn * len, len, to_key),
				};
			else if (!is_offered(kind))
				continue;
			about("%u at once", most);
			wr.wr_id = n++;
			put_send(&p.qp[0], &wr);
		}
		ring_send(&p.qp[0]);
		for (i = 0; i < n; i++)
			need(!expect_cqe(&p.cq[0], i, MOOR_WC_SUCCESS, 0).status,
			     "message %u", i);
		for (i = 0; i < TURNS; i++)
			expect(same(from, to + i * len, len), "READ %u", i);
		psn += TURNS * ((len + 1023) / 1024) + n - TURNS;
		expect(query_qp(&p.qp[0]).sq_psn == (psn & 0xffffff) &&
		       query_qp(&p.qp[1]).rq_psn == (psn & 0xffffff),
		       "the next PSN is 0x%x, not 0x%x",
		       query_qp(&p.qp[0]).sq_psn, psn & 0xffffff);
	}
}

TEST_CASE(among_all, "among messages of every kind they take effect in order", "MPE-1 WQ-14",
	  BOTH)
{
	struct pair p;
	uint32_t key;
	unsigned int i;

	make_pair(&p);
	key = make_mr(PD, RIGHTS, p.buf[1], BUF);
	for (i = 0; i < 20; i++) {
		about("round %u", i);
		fill(p.buf[0], BUF, i);
		memset(at(p.buf[1]), 0, BUF);
		post_recv(&p.qp[1], i, p.buf[1] + 8192, 4096, p.key[1]);
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_WRITE, .flags = UNSIGNALED,
			.remote = p.buf[1], .rkey = key,
			SGE(p.buf[0], 4096, p.key[0]),
		});
		if (dev.features & MOOR_FEATURE_ATOMIC_WRITE) {
			struct send_wr wr = either(MOOR_WQE_ATOMIC_WRITE,
						   p.buf[1] + 64, key);

			wr.flags = UNSIGNALED;
			put_send(&p.qp[0], &wr);
		}
		if (flush_types()) {
			struct send_wr wr = either(MOOR_WQE_FLUSH, p.buf[1], key);

			wr.flags = UNSIGNALED;
			put_send(&p.qp[0], &wr);
		}
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_READ, .flags = UNSIGNALED,
			.remote = p.buf[1], .rkey = key,
			SGE(p.buf[0] + 8192, 4096, p.key[0]),
		});
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_SEND, .wr_id = i,
			.flags = MOOR_WQE_FLAG_FENCE,
			SGE(p.buf[0] + 8192, 4096, p.key[0]),
		});
		ring_send(&p.qp[0]);
		expect_cqe(&p.cq[0], i, MOOR_WC_SUCCESS, 0);
		expect_cqe(&p.cq[1], i, MOOR_WC_SUCCESS, 0);
		expect(same(p.buf[1], p.buf[1] + 8192, 4096), "what is read");
		expect(!(dev.features & MOOR_FEATURE_ATOMIC_WRITE) ||
		       *(uint64_t *)at(p.buf[1] + 64) == WORD, "the word");
		expect(same(p.buf[0], p.buf[1], 64) &&
		       same(p.buf[0] + 72, p.buf[1] + 72, 4096 - 72), "the data");
	}
}

TEST_CASE(fenced, "FENCE: an ATOMIC_WRITE waits for the READ before it", "MPE-1 WQ-7 WQ-14",
	  HAS(ATOMIC_WRITE))
{
	const uint32_t len = longest(LONG);
	uint64_t from = take_filled(len, 4), to = take(len);
	uint32_t from_key = make_mr(PD, RIGHTS, from, len);
	uint32_t to_key = make_mr(PD, RIGHTS, to, len);
	uint64_t *last = at(from + len - 8);
	struct send_wr wr;
	unsigned int round;
	struct pair p;

	make_pair(&p);
	set_limits(&p, dev.max_rd_atomic < 2 ? 1 : 2,
		   dev.max_rd_atomic < 2 ? 1 : 2);
	for (round = 1; round <= 20; round++) {
		*last = round;
		put_send(&p.qp[0], &(struct send_wr){
			.opcode = MOOR_WQE_READ, .remote = from,
			.rkey = from_key, .flags = UNSIGNALED,
			SGE(to, len, to_key),
		});
		wr = either(MOOR_WQE_ATOMIC_WRITE, from + len - 8, from_key);
		wr.flags = MOOR_WQE_FLAG_FENCE;
		put_send(&p.qp[0], &wr);
		ring_send(&p.qp[0]);
		expect_cqe(&p.cq[0], wr.wr_id, MOOR_WC_SUCCESS, 0);
		if (!expect(*last == WORD &&
			    *(uint64_t *)at(to + len - 8) == round,
			    "round %u: what came later is read", round))
			return;
	}
}

TEST_CASE(flush_again, "a FLUSH that comes again is answered again", "MPE-1 RC-43 RC-48",
	  HAS(FLUSH_GLOBAL) | HAS(FLUSH_PERSISTENT))
{
	struct pair p;
	uint32_t key;
	unsigned int i;

	make_pair(&p);
	key = make_mr(PD, RIGHTS, p.buf[1], BUF);
	for (i = 0; i < 3; i++) {
		about("time %u", i);
		post_send(&p.qp[0], either(MOOR_WQE_FLUSH, p.buf[1], key));
		expect_cqe(&p.cq[0], 0xf1, MOOR_WC_SUCCESS, 0);
		expect(query_qp(&p.qp[1]).rq_psn == to_rtr(0).rq_psn + 1,
		       "the PSN due is 0x%x", query_qp(&p.qp[1]).rq_psn);
		reset_qp(&p.qp[0]);
		connect_qp(&p.qp[0], p.qp[1].qpn);
	}
}

/* ---- pages on demand ---- */

#define WRITTEN	(MOOR_PAGE_REQUEST_WRITE | MOOR_PAGE_REQUEST_RESPONDER)

TEST_CASE(word_page, "an ATOMIC_WRITE waits for a page that it may write, and is done once",
	  "MPE-2 MPE-4 ODP-7 ODP-15", HAS(ODP))
{
	struct moor_page_request r;
	struct paged p;
	uint64_t *word;
	unsigned int i;

	skip_unless(dev.features & MOOR_FEATURE_ATOMIC_WRITE);
	make_paged(&p);
	page_in(&p, 0, 0, PAGES, true);
	word = at(p.pages[1] + 2 * PAGE);
	paged_post(&p, MOOR_WQE_ATOMIC_WRITE, 5, 64, 2 * PAGE, 8);
	/* The page is absent; then read-only; then writable. */
	for (i = 0; i < 2; i++) {
		about("time %u", i);
		r = expect_request(&p, 1, 2 * PAGE, 1, WRITTEN);
		expect(r.length <= 8, "%u bytes", r.length);
		while_it_waits(&p);
		page_in(&p, 1, 2, 1, i);
		must_answer(r.token, MOOR_PAGE_RESOLVED);
	}
	expect_cqe(&p.pair.cq[0], 5, MOOR_WC_SUCCESS, 0);
	expect(same(p.pages[0] + 64, p.pages[1] + 2 * PAGE, 8), "the word");
	*word = WORD;
	reset_qp(&p.pair.qp[0]);
	connect_qp(&p.pair.qp[0], p.pair.qp[1].qpn);
	paged_post(&p, MOOR_WQE_ATOMIC_WRITE, 5, 64, 2 * PAGE, 8);
	expect_cqe(&p.pair.cq[0], 5, MOOR_WC_SUCCESS, 0);
	expect(*word == WORD, "it is done again");
	expect_no_event(MOOR_EQ_PAGE_REQUEST);
}

TEST_CASE(flush_behind_page, "a FLUSH does not end before a WRITE that waits for its page",
	  "MPE-1 MPE-8 MPE-9 ODP-15", HAS(ODP))
{
	struct moor_page_request r;
	struct moor_mr_context e;
	struct send_wr wr;
	struct paged p;

	skip_unless(flush_types());
	make_paged(&p);
	page_in(&p, 0, 0, PAGES, true);
	e = paged_entry(&p, 1);
	e.access |= ALL_FLUSH;
	p.key[1] = make_entry(&e, MOOR_MRC_TYPE_MR);
	paged_post(&p, MOOR_WQE_WRITE, 5, 0, PAGE, 64);
	wr = flush_wr(flush_types(), MOOR_FLUSH_RANGE, paged_addr(1, 0), p.key[1],
		      PAGES * PAGE);
	post_send(&p.pair.qp[0], wr);
	r = expect_request(&p, 1, PAGE, 1, WRITTEN);
	while_it_waits(&p);
	page_in(&p, 1, 1, 1, true);
	must_answer(r.token, MOOR_PAGE_RESOLVED);
	expect_cqe(&p.pair.cq[0], 5, MOOR_WC_SUCCESS, 0);
	expect_cqe(&p.pair.cq[0], wr.wr_id, MOOR_WC_SUCCESS, 0);
	expect(same(p.pages[0], p.pages[1] + PAGE, 64), "the data");
	/* The other pages have not been asked for. */
	expect_no_event(MOOR_EQ_PAGE_REQUEST);
}

/* The FLUSH waits for the READ, which waits for a page; the word has the FLUSH before it. */
TEST_CASE(word_behind_flush, "an ATOMIC_WRITE does not pass a FLUSH that waits, FENCE or not",
	  "MPE-9 MPE-1 ODP-15", HAS(ODP))
{
	uint8_t most = dev.max_rd_atomic < 3 ? (uint8_t)dev.max_rd_atomic : 3;
	struct moor_page_request r;
	struct moor_mr_context e;
	volatile uint64_t *word;
	struct send_wr wr;
	unsigned int i;
	struct paged p;

	skip_unless(flush_types() && dev.features & MOOR_FEATURE_ATOMIC_WRITE);
	make_paged(&p);
	set_limits(&p.pair, most, most);
	page_in(&p, 0, 0, PAGES, true);
	page_in(&p, 1, 5, 1, true);
	e = paged_entry(&p, 1);
	e.access |= ALL_FLUSH;
	p.key[1] = make_entry(&e, MOOR_MRC_TYPE_MR);
	word = at(p.pages[1] + 5 * PAGE);
	*word = 0;
	paged_post(&p, MOOR_WQE_WRITE, 1, 64, 5 * PAGE + 64, 64);
	paged_post(&p, MOOR_WQE_READ, 2, 0, PAGE, 64);
	wr = flush_wr(flush_types(), MOOR_FLUSH_REGION, 0, p.key[1], 0);
	wr.wr_id = 3;
	post_send(&p.pair.qp[0], wr);
	wr = either(MOOR_WQE_ATOMIC_WRITE, paged_addr(1, 5 * PAGE), p.key[1]);
	wr.wr_id = 4;
	post_send(&p.pair.qp[0], wr);
	r = expect_request(&p, 1, PAGE, 1, MOOR_PAGE_REQUEST_RESPONDER);
	expect_cqe(&p.pair.cq[0], 1, MOOR_WC_SUCCESS, 0);
	while_it_waits(&p);
	expect(!*word, "the word is there");
	page_in(&p, 1, 1, 1, true);
	must_answer(r.token, MOOR_PAGE_RESOLVED);
	for (i = 2; i <= 4; i++)
		expect_cqe(&p.pair.cq[0], i, MOOR_WC_SUCCESS, 0);
	expect(*word == WORD && same(p.pages[0] + 64, p.pages[1] + 5 * PAGE + 64, 64),
	       "the data");
}

/* ---- types of QPs ---- */

TEST_CASE(unreliable, "UC has neither", "UC-1 RC-5", HAS(UC))
{
	struct moor_cmd_create_qp cmd;
	unsigned int i;
	uint8_t opcode;
	struct pair p;
	uint32_t key;

	make_pair(&p);
	for (i = 0; i < 2; i++) {
		destroy_qp(&p.qp[i]);
		cmd = qp_command(&p.qp[i], &p.cq[i], &p.cq[i]);
		cmd.type = MOOR_QP_UC;
		must(cmd);
	}
	reconnect(&p);
	key = make_mr(PD, RIGHTS, p.buf[1], BUF);
	FOR_EACH_OPCODE(opcode) {
		is_offered(opcode);
		post_send(&p.qp[0], either(opcode, p.buf[1], key));
		expect_cqe(&p.cq[0], 0xf1, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
		reconnect(&p);
	}
	expect(is_filled(p.buf[1], BUF, 2), "something is written");
}

/* The requester's slots are the smallest: 32 + 16 + 16 bytes. */
TEST_CASE(xrc, "XRC has both, by the PD of the SRQ that is named",
	  "XRC-3 XRC-6 XRC-7 MPE-1 MPE-5 MPE-7", HAS(XRC))
{
	static const uint32_t pds[] = { PD, OTHER_PD };
	struct moor_cmd_create_qp cmd;
	uint8_t opcode;
	uint32_t key[2];
	unsigned int i;
	struct xrc x;

	skip_unless(flush_types() || dev.features & MOOR_FEATURE_ATOMIC_WRITE);
	make_xrc(&x);
	destroy_qp(&x.ini);
	cmd = ini_command(&x.ini, &x.send_cq);
	cmd.log_sq_stride = MOOR_MIN_LOG_SQ_STRIDE;
	x.ini.log_stride = MOOR_MIN_LOG_SQ_STRIDE;
	must(cmd);
	reconnect_xrc(&x);
	for (i = 0; i < 2; i++)
		key[i] = make_mr(pds[i], RIGHTS, x.buf, BUF);
	FOR_EACH_OPCODE(opcode) {
		for (i = 0; i < 2 && is_offered(opcode); i++) {
			about("opcode 0x%02x, SRQ %u", opcode, i);
			fill(x.buf, BUF, 1);
			post_for(&x, x.srq[i].srqn, either(opcode, x.buf, key[i]));
			expect_cqe(&x.send_cq, 0x5e, MOOR_WC_SUCCESS, 0);
			expect(opcode == MOOR_WQE_FLUSH ||
			       *(uint64_t *)at(x.buf) == WORD, "the word");
			about("opcode 0x%02x, SRQ %u, the other's key", opcode, i);
			fill(x.buf, BUF, 1);
			post_for(&x, x.srq[i].srqn,
				 either(opcode, x.buf, key[!i]));
			expect_cqe(&x.send_cq, 0x5e, MOOR_WC_REM_ACCESS_ERR, 0);
			expect(is_filled(x.buf, BUF, 1), "something is written");
			reconnect_xrc(&x);
		}
	}
	if (!is_offered(MOOR_WQE_FLUSH))
		return;
	about("its reserved bytes, behind the other segment");
	for (i = 0; i < 10; i += 9) {
		struct send_wr wr = either(MOOR_WQE_FLUSH, x.buf, key[0]);

		wr.flush.reserved1[i] = 1;
		post_for(&x, x.srq[0].srqn, wr);
		expect_cqe(&x.send_cq, 0x5e, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
		reconnect_xrc(&x);
	}
}
