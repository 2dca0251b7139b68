// SPDX-License-Identifier: GPL-2.0
/* FLUSH: its form, its checks, and that it writes no data (HWI 12.7). */
#include <string.h>

#include "paged.h"

#define GLOBAL		MOOR_FLUSH_GLOBAL
#define PERSISTENT	MOOR_FLUSH_PERSISTENT
#define RANGE		MOOR_FLUSH_RANGE
#define REGION		MOOR_FLUSH_REGION
#define FLUSHES		(HAS(FLUSH_GLOBAL) | HAS(FLUSH_PERSISTENT))

/* An MR in the middle of a buffer. */
#define FIRST		(4 * PAGE + 100)
#define LEN		5000u

/* The types of FLUSH that the device has: without the feature a right allows nothing. */
static uint32_t rights_of(uint8_t some)
{
	return (some & GLOBAL ? MOOR_ACCESS_FLUSH_GLOBAL : 0) |
	       (some & PERSISTENT ? MOOR_ACCESS_FLUSH_PERSISTENT : 0);
}

static void expect_flush(struct pair *p, struct send_wr wr, bool allowed)
{
	struct moor_cqe cqe;

	drop_events(MOOR_EQ_ASYNC);
	post_send(&p->qp[0], wr);
	cqe = expect_cqe(&p->cq[0], wr.wr_id, allowed ? MOOR_WC_SUCCESS :
			 MOOR_WC_REM_ACCESS_ERR, 0);
	if (!cqe.status) {
		expect(cqe.opcode == MOOR_WQE_FLUSH && !cqe.byte_len,
		       "opcode 0x%02x, %u bytes", cqe.opcode, cqe.byte_len);
		return;
	}
	if (!allowed)
		expect_event(MOOR_EVENT_QP_ACCESS_ERR, p->qp[1].qpn);
	reconnect(p);
}

/* Flushes of both levels, of eight bytes at @addr. */
static void expect_flushes(struct pair *p, uint8_t type, uint32_t key,
			   uint64_t addr, bool allowed)
{
	expect_flush(p, flush_wr(type, RANGE, addr, key, 8), allowed);
	expect_flush(p, flush_wr(type, REGION, addr, key, 8), allowed);
}

TEST_CASE(flush_rights, "each type needs its right in the entry, and no other",
	  "MPE-7 MR-5 ACC-9 FEAT-4 CQ-18", FLUSHES)
{
	uint8_t type, some;
	uint32_t key;
	struct pair p;

	make_pair(&p);
	for (some = 0; some < 4; some++) {
		key = make_mr(PD, rights_of(some), p.buf[1], BUF);
		for (type = 1; type < 4; type++) {
			about("rights %u, type %u", some, type);
			expect_flushes(&p, type, key, p.buf[1],
				       !(type & ~(some & flush_types())));
		}
	}
	about("every other right");
	key = make_mr(PD, ALL_RIGHTS, p.buf[1], BUF);
	expect_flushes(&p, flush_types(), key, p.buf[1], false);
	about("what it allows beside");
	key = make_mr(PD, ALL_FLUSH, p.buf[1], BUF);
	expect_remote(&p, MOOR_WQE_WRITE, key, p.buf[1], 8, false);
	expect_remote(&p, MOOR_WQE_READ, key, p.buf[1], 8, false);
	expect_local(&p, MOOR_WQE_READ, key, p.buf[1], 8, MOOR_SYN_RIGHTS);
	expect(is_filled(p.buf[1], BUF, 2), "something is written");
}

TEST_CASE(flush_qp_rights, "and in the QP's access flags, of a length of 0 too",
	  "MPE-7 ACC-10 ACC-11 QP-2 QP-9 QP-10", FLUSHES)
{
	struct moor_cmd_modify_qp cmd = {
		.mask = MOOR_QP_ATTR_ACCESS, .access = ALL_REMOTE,
	};
	uint8_t type, some;
	uint32_t key;
	struct pair p;

	make_pair(&p);
	key = make_mr(PD, ALL_FLUSH, p.buf[1], BUF);
	for (some = 0; some < 4; some++) {
		for (type = 1; type < 4; type++) {
			bool allowed = !(type & ~(some & flush_types()));
			struct send_wr wr = flush_wr(type, RANGE, NOWHERE,
						     0xdead, 0);

			about("the QP's rights %u, type %u", some, type);
			cmd.access_high = some;
			must_modify(&p.qp[1], cmd);
			expect_flush(&p, flush_wr(type, REGION, 0, key, 0),
				     allowed);
			must_modify(&p.qp[1], cmd);
			expect_flush(&p, wr, allowed);
		}
	}
	about("rights that were never named");
	reset_qp(&p.qp[0]);
	connect_qp(&p.qp[0], p.qp[1].qpn);
	reset_qp(&p.qp[1]);
	must_modify(&p.qp[1], to_state(MOOR_QPS_INIT));
	must_modify(&p.qp[1], to_rtr(p.qp[0].qpn));
	must_modify(&p.qp[1], to_rts());
	expect_flush(&p, flush_wr(flush_types(), REGION, 0, key, 0), false);
	about("a mask that does not name them");
	cmd.mask = 0;
	cmd.access_high = 0xff;
	must_modify(&p.qp[1], cmd);
	expect_flush(&p, flush_wr(flush_types(), REGION, 0, key, 0), true);
}

TEST_CASE(flush_range, "RANGE lies inside; of REGION neither address nor length counts",
	  "MPE-6 MPE-7 ACC-12 ACC-17", FLUSHES)
{
	static const struct {
		int64_t shift;
		uint32_t len;
		bool inside;
	} ranges[] = {
		{ 0, LEN, true }, { 0, 1, true }, { LEN - 1, 1, true },
		{ 1, LEN - 1, true }, { -1, 1, false }, { -1, LEN, false },
		{ LEN, 1, false }, { LEN - 1, 2, false }, { 0, LEN + 1, false },
		{ 0, ~0u, false }, { 1ll << 32, 8, false },
		{ INT64_MIN, 8, false }, { -16, 32, false },
	};
	struct pair p;
	unsigned int i;
	uint32_t key;
	uint64_t iova;

	make_pair(&p);
	iova = p.buf[1] + FIRST;
	key = make_mr(PD, ALL_FLUSH, iova, LEN);
	for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		uint64_t addr = iova + (uint64_t)ranges[i].shift;

		about("%u bytes at %lld", ranges[i].len,
		      (long long)ranges[i].shift);
		expect_flush(&p, flush_wr(flush_types(), RANGE, addr, key,
					  ranges[i].len), ranges[i].inside);
		expect_flush(&p, flush_wr(flush_types(), REGION, addr, key,
					  ranges[i].len), true);
	}
	about("bytes that wrap");
	expect_flush(&p, flush_wr(flush_types(), RANGE, ~0ull - 7, key, 16), false);
	expect_flush(&p, flush_wr(flush_types(), REGION, ~0ull, key, ~0u), true);
}

TEST_CASE(flush_keys, "the key is one that is good, of either level",
	  "MPE-6 MPE-7 ACC-3 ACC-4 ACC-7", FLUSHES)
{
	uint32_t key, others;
	unsigned int bit;
	struct pair p;

	make_pair(&p);
	key = make_mr(PD, ALL_FLUSH, p.buf[1], BUF);
	others = make_mr(OTHER_PD, ALL_FLUSH, p.buf[1], BUF);
	for (bit = 0; bit < 32; bit += 5) {
		about("bit %u", bit);
		expect_flushes(&p, flush_types(), key ^ 1u << bit, p.buf[1], false);
	}
	about("another PD");
	expect_flushes(&p, flush_types(), others, p.buf[1], false);
	about("the null MR");
	expect_flushes(&p, flush_types(), dev.null_lkey, p.buf[1], false);
	about("the key itself");
	expect_flushes(&p, flush_types(), key, p.buf[1], true);
	about("revoked");
	need(revoke(key) == REVOKED, "MR_REVOKE");
	expect_flushes(&p, flush_types(), key, p.buf[1], false);
}

TEST_CASE(flush_untouched, "no byte is touched, nor has to be there", "MPE-8 ACC-13 ACC-14",
	  FLUSHES)
{
	const uint64_t len = dev.max_mr_size < 1ull << 33 ? dev.max_mr_size :
							    1ull << 33;
	struct moor_mr_context e = mr_entry(PD, ALL_FLUSH, NOWHERE, len);
	uint64_t node = take(PAGE);
	struct pair p;
	uint32_t key;

	make_pair(&p);
	about("memory that is nowhere");
	key = make_entry(&e, MOOR_MRC_TYPE_MR);
	expect_flushes(&p, flush_types(), key, NOWHERE, true);
	/* The length is not of a message: MAX_MSG_SIZE does not limit it. */
	if (len > ~0u)
		expect_flush(&p, flush_wr(flush_types(), RANGE, NOWHERE, key, ~0u),
			     true);
	about("a table with nothing in it");
	e = mr_entry(PD, ALL_FLUSH, p.buf[1], BUF);
	e.xlat = (struct moor_xlat){
		.root = node | MOOR_PTE_PRESENT, .levels = 1, .page_shift = 12,
	};
	key = make_entry(&e, MOOR_MRC_TYPE_MR);
	expect_flushes(&p, flush_types(), key, p.buf[1] + PAGE, true);
	expect(is_filled(p.buf[1], BUF, 2) && is_all(node, PAGE, 0),
	       "something is written");
}

TEST_CASE(flush_pages, "pages on demand that are absent are not asked for", "MPE-8 ODP-7",
	  FLUSHES)
{
	struct moor_mr_context e;
	struct paged p;
	uint32_t key;

	skip_unless(dev.features & MOOR_FEATURE_ODP);
	make_paged(&p);
	e = paged_entry(&p, 1);
	e.access |= ALL_FLUSH;
	key = make_entry(&e, MOOR_MRC_TYPE_MR);
	expect_flushes(&p.pair, flush_types(), key, paged_addr(1, PAGE), true);
	expect_flush(&p.pair, flush_wr(flush_types(), RANGE, paged_addr(1, 0), key,
				       PAGES * PAGE), true);
	expect_no_event(MOOR_EQ_PAGE_REQUEST);
	about("beyond its end");
	expect_flush(&p.pair, flush_wr(flush_types(), RANGE, paged_addr(1, 0), key,
				       PAGES * PAGE + 1), false);
}

/* ---- windows, registrations, all of memory ---- */

/* Binds a window on QP 1. Return: the syndrome, or 0. */
static uint8_t bind(struct pair *p, struct moor_wqe_bind b)
{
	struct moor_cqe cqe;

	post_send(&p->qp[1], (struct send_wr){
		.opcode = MOOR_WQE_BIND_MW, .wr_id = 9, .bind = b,
	});
	cqe = wait_cqe(&p->cq[1]);
	need(!cqe.status == !cqe.syndrome, "BIND_MW: status %u", cqe.status);
	if (cqe.status)
		reconnect(p);
	return cqe.syndrome;
}

static void windows_of_type(struct pair *p, unsigned int type)
{
	uint32_t bare = make_mr(PD, MOOR_ACCESS_MW_BIND, p->buf[1], BUF);
	uint32_t lasting = make_mr(PD, MOOR_ACCESS_MW_BIND | ALL_FLUSH,
				   p->buf[1], BUF);
	struct moor_wqe_bind b = { .addr = p->buf[1] + FIRST, .length = LEN };
	struct moor_cpl_mr_query out;
	uint8_t some, kind;
	uint32_t key;

	for (some = 0; some < 4; some++) {
		key = make_window(PD, type);
		b.mw_key = key;
		b.new_key = key;
		b.access = rights_of(some);
		b.mr_lkey = bare;
		about("type %u, rights %u, of an MR without them", type, some);
		if (some & flush_types() & PERSISTENT) {
			expect(bind(p, b) == MOOR_SYN_RIGHTS, "it is bound");
			b.mr_lkey = lasting;
		}
		about("type %u, rights %u", type, some);
		need(!bind(p, b), "it is not bound");
		expect(!query(key, &out) && out.access == b.access,
		       "MR_QUERY: rights 0x%x", out.access);
		for (kind = 1; kind < 4; kind++) {
			bool allowed = !(kind & ~(some & flush_types()));

			expect_flushes(p, kind, key, b.addr, allowed);
			/* The binding has ended with the reset of its QP. */
			if (!allowed && type == MOOR_MRC_TYPE_MW_2)
				need(!bind(p, b), "it is not bound anew");
		}
	}
	expect_flush(p, flush_wr(flush_types(), RANGE, b.addr, key, LEN), true);
	expect_flush(p, flush_wr(flush_types(), REGION, 0, key, ~0u), true);
	expect_flush(p, flush_wr(flush_types(), RANGE, b.addr, key, LEN + 1), false);
	need(type == MOOR_MRC_TYPE_MW_1 || !bind(p, b), "it is not bound anew");
	expect_flush(p, flush_wr(flush_types(), RANGE, b.addr - 1, key, 2), false);
}

TEST_CASE(flush_windows, "a window lends its own rights; PERSISTENT its MR has to have too",
	  "MPE-6 MPE-7 MW-12 MW-14 MW-19 CMD-31", FLUSHES)
{
	struct pair p;

	skip_unless(dev.features &
		    (MOOR_FEATURE_MW_TYPE_1 | MOOR_FEATURE_MW_TYPE_2B));
	make_pair(&p);
	if (dev.features & MOOR_FEATURE_MW_TYPE_1)
		windows_of_type(&p, MOOR_MRC_TYPE_MW_1);
	if (dev.features & MOOR_FEATURE_MW_TYPE_2B)
		windows_of_type(&p, MOOR_MRC_TYPE_MW_2);
}

TEST_CASE(flush_unbound, "a window that is not bound, or bound elsewhere, is no range",
	  "MPE-6 ACC-4 ACC-5", HAS(MW_TYPE_2B))
{
	struct moor_wqe_bind b;
	struct pair p;
	uint32_t key;

	skip_unless(flush_types());
	make_pair(&p);
	key = make_window(PD, MOOR_MRC_TYPE_MW_2);
	expect_flushes(&p, flush_types(), key, p.buf[0], false);
	b = (struct moor_wqe_bind){
		.mw_key = key, .new_key = key, .access = ALL_FLUSH,
		.addr = p.buf[0], .length = LEN,
		.mr_lkey = make_mr(PD, ALL_FLUSH | MOOR_ACCESS_MW_BIND,
				   p.buf[0], BUF),
	};
	/* Bound by the requester, not by the responder. */
	post_send(&p.qp[0], (struct send_wr){
		.opcode = MOOR_WQE_BIND_MW, .wr_id = 9, .bind = b,
	});
	expect_cqe(&p.cq[0], 9, MOOR_WC_SUCCESS, 0);
	expect_flush(&p, flush_wr(flush_types(), REGION, 0, key, 0), false);
}

/* A pair of kernel QPs. */
static void make_kernel_pair(struct pair *p)
{
	unsigned int i;

	make_pair(p);
	for (i = 0; i < 2; i++) {
		struct moor_cmd_create_qp cmd;

		destroy_qp(&p->qp[i]);
		cmd = qp_command(&p->qp[i], &p->cq[i], &p->cq[i]);
		cmd.flags = MOOR_QP_FLAG_KERNEL;
		must(cmd);
	}
	reconnect(p);
}

TEST_CASE(flush_registration, "a fast registration has rights of its own", "MPE-7 FR-1 FR-8",
	  HAS(FAST_REG))
{
	struct moor_mr_context e = { .pd = PD, .max_pages = 1 };
	uint8_t some, type;
	uint32_t key;
	struct pair p;

	skip_unless(flush_types());
	make_kernel_pair(&p);
	for (some = 0; some < 4; some++) {
		key = make_entry(&e, MOOR_MRC_TYPE_FAST_REG);
		post_send(&p.qp[1], (struct send_wr){
			.opcode = MOOR_WQE_REG_MR, .wr_id = 8, .remote = PAGE,
			.reg = { .key = key, .access = rights_of(some),
				 .length = 100, .xlat = {
					.root = p.buf[1] | MOOR_PTE_PRESENT |
						MOOR_PTE_LEAF,
					.page_shift = 12 } },
		});
		expect_cqe(&p.cq[1], 8, MOOR_WC_SUCCESS, 0);
		for (type = 1; type < 4; type++) {
			about("rights %u, type %u", some, type);
			expect_flushes(&p, type, key, PAGE,
				       !(type & ~(some & flush_types())));
		}
	}
	expect_flush(&p, flush_wr(flush_types(), RANGE, PAGE, key, 101), false);
}

TEST_CASE(flush_all, "all of memory, of a QP that the kernel has made", "MPE-6 MPE-7 ACC-18",
	  FLUSHES)
{
	struct moor_mr_context e = { .pd = PD, .access = ALL_FLUSH };
	struct pair p;
	uint32_t key;

	make_kernel_pair(&p);
	key = make_entry(&e, MOOR_MRC_TYPE_ALL);
	expect_flushes(&p, flush_types(), key, p.buf[1], true);
	expect_flush(&p, flush_wr(flush_types(), RANGE, ~0ull - 7, key, 8), true);
	expect_flush(&p, flush_wr(flush_types(), RANGE, ~0ull - 7, key, 9), false);
	e.access = ALL_RIGHTS & ~MOOR_ACCESS_MW_BIND;
	about("without the rights");
	expect_flushes(&p, flush_types(), make_entry(&e, MOOR_MRC_TYPE_ALL), p.buf[1],
		       false);
	about("a user's QP");
	host_begin();
	make_pair(&p);
	e.access = ALL_FLUSH;
	expect_flushes(&p, flush_types(), make_entry(&e, MOOR_MRC_TYPE_ALL), p.buf[1],
		       false);
}

/* ---- form ---- */

static void malformed(struct pair *p, struct send_wr wr)
{
	post_send(&p->qp[0], wr);
	expect_cqe(&p->cq[0], wr.wr_id, MOOR_WC_LOC_QP_OP_ERR, MOOR_SYN_WQE);
	reconnect(p);
}

TEST_CASE(flush_malformed, "types and levels that there are not, reserved bytes, SGEs",
	  "MPE-5 WQ-8 RC-5 RC-21 VER-3", FLUSHES)
{
	static const uint8_t no_types[] = { 0, 4, 5, 7, 0x80, 0xff };
	static const uint8_t no_levels[] = { 2, 3, 0x10, 0x80, 0xff };
	struct send_wr good, wr;
	struct pair p;
	unsigned int i;

	make_pair(&p);
	good = flush_wr(flush_types(), REGION, p.buf[1],
			make_mr(PD, ALL_FLUSH, p.buf[1], BUF), 8);
	for (i = 0; i < sizeof(no_types); i++) {
		about("type %u", no_types[i]);
		wr = good;
		wr.flush.type = no_types[i];
		malformed(&p, wr);
	}
	for (i = 0; i < sizeof(no_levels); i++) {
		about("level %u", no_levels[i]);
		wr = good;
		wr.flush.level = no_levels[i];
		malformed(&p, wr);
	}
	for (i = 0; i < sizeof(wr.flush.reserved1); i++) {
		about("reserved byte %u", i);
		wr = good;
		wr.flush.reserved1[i] = (uint8_t)(1u << i % 8);
		malformed(&p, wr);
	}
	about("an SGE");
	wr = good;
	wr.num_sge = 1;
	malformed(&p, wr);
	about("inline");
	wr = good;
	wr.data = "";
	malformed(&p, wr);
	about("with every flag that there may be");
	wr = good;
	wr.flags = MOOR_WQE_FLAG_SOLICITED | MOOR_WQE_FLAG_FENCE;
	expect_flush(&p, wr, true);
}

TEST_CASE(flush_stride, "its segment fits into the smallest slot, and is all that is looked at",
	  "MPE-5 WQ-4 WQ-6", FLUSHES)
{
	struct moor_cmd_create_qp cmd;
	struct moor_sq_wqe *raw;
	struct send_wr wr;
	struct pair p;

	make_pair(&p);
	destroy_qp(&p.qp[0]);
	cmd = qp_command(&p.qp[0], &p.cq[0], &p.cq[0]);
	p.qp[0].log_stride = MOOR_MIN_LOG_SQ_STRIDE;
	cmd.log_sq_stride = MOOR_MIN_LOG_SQ_STRIDE;
	cmd.log_rq_stride = MOOR_MIN_LOG_SQ_STRIDE;
	must(cmd);
	reconnect(&p);
	wr = flush_wr(flush_types(), RANGE, p.buf[1],
		      make_mr(PD, ALL_FLUSH, p.buf[1], BUF), BUF);
	raw = put_send(&p.qp[0], &wr);
	raw->imm = ~0u;
	raw->inline_length = ~0u;
	ring_send(&p.qp[0]);
	expect_cqe(&p.cq[0], wr.wr_id, MOOR_WC_SUCCESS, 0);
}
