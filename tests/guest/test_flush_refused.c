// SPDX-License-Identifier: GPL-2.0
/*
 * FLUSH (HWI 12.7): what the library, the requester and the responder refuse, and how
 * either side learns of it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "placed.h"
#include "tap.h"

#define SIZE		65536u
#define FROM		4096u
#define LENGTH		3000u
#define GLOBAL		IBV_ACCESS_FLUSH_GLOBAL
#define PERSISTENT	IBV_ACCESS_FLUSH_PERSISTENT

static struct pair pair;
/* MRs over side b's buffer: one to be flushed, one of another PD. */
static struct ibv_mr *mr, *foreign;
static uint32_t dead;

static struct flush good(void)
{
	return flush_range(mr->rkey, pair.b.buf + FROM, LENGTH);
}

/* ---- the responder ---- */

static void no_right(struct flush *f)
{
	f->rkey = pair.b.mr->rkey;
}

static void no_right_of_region(struct flush *f)
{
	*f = flush_region(pair.b.mr->rkey);
}

static void unknown_key(struct flush *f)
{
	f->rkey ^= 0x40;
}

static void dead_key(struct flush *f)
{
	f->rkey = dead;
}

static void dead_region(struct flush *f)
{
	*f = flush_region(dead);
}

static void foreign_key(struct flush *f)
{
	f->rkey = foreign->rkey;
}

static void foreign_region(struct flush *f)
{
	*f = flush_region(foreign->rkey);
}

static void beyond_end(struct flush *f)
{
	f->length = SIZE - FROM + 1;
}

static void before_start(struct flush *f)
{
	f->at = (uintptr_t)pair.b.buf - 1;
}

static void around_the_end(struct flush *f)
{
	f->at = UINT64_MAX - 10;
}

static void longest(struct flush *f)
{
	f->length = UINT32_MAX;
}

static void persistent(struct flush *f)
{
	f->type = IBV_FLUSH_PERSISTENT;
}

static void both(struct flush *f)
{
	f->type = IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT;
}

static void persistent_region(struct flush *f)
{
	*f = flush_region(mr->rkey);
	f->type = IBV_FLUSH_PERSISTENT;
}

static void test_responder(void)
{
	static const struct {
		const char *name;
		void (*spoil)(struct flush *f);
	} cases[] = {
		{ "no right", no_right },
		{ "no right, of the region", no_right_of_region },
		{ "unknown key", unknown_key },
		{ "dead key", dead_key },
		{ "dead key, of the region", dead_region },
		{ "key of another PD", foreign_key },
		{ "key of another PD, of the region", foreign_region },
		{ "beyond the end", beyond_end },
		{ "before the start", before_start },
		{ "around the end of the address space", around_the_end },
		{ "of four gigabytes less one", longest },
		{ "persistent", persistent },
		{ "both types, and one of the rights", both },
		{ "persistent, of the region", persistent_region },
	};
	struct flush f;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		f = good();
		cases[i].spoil(&f);
		fill_sides(&pair);
		expect_refusal(&pair, post_flush(&pair.a, &f), IBV_WC_REM_ACCESS_ERR,
			       cases[i].name);
		expect_flushed(&pair, good(), "and then one that is good");
	}
}

/* The QP's rights are checked first, whatever the length (HWI ACC-10, ACC-11). */
static void test_rights_of_qp(unsigned int access)
{
	static const uint8_t types[] = {
		IBV_FLUSH_GLOBAL, IBV_FLUSH_PERSISTENT,
		IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT,
	};
	unsigned int needed, i;
	struct flush f;
	char what[64];

	pair.config.qp_access = access;
	pair_reset(&pair);
	fill_sides(&pair);
	for (i = 0; i < sizeof(types); i++) {
		snprintf(what, sizeof(what), "QP's rights 0x%x, type %u", access, types[i]);
		f = flush_range(mr->rkey, pair.b.buf, 0);
		f.type = types[i];
		needed = (types[i] & IBV_FLUSH_GLOBAL ? GLOBAL : 0) |
			 (types[i] & IBV_FLUSH_PERSISTENT ? PERSISTENT : 0);
		if (!(needed & ~access))
			expect_flushed(&pair, f, what);
		else
			expect_refusal(&pair, post_flush(&pair.a, &f),
				       IBV_WC_REM_ACCESS_ERR, what);
	}
	f = flush_region(mr->rkey);
	if (!(access & GLOBAL))
		expect_refusal(&pair, post_flush(&pair.a, &f), IBV_WC_REM_ACCESS_ERR,
			       "of the region");
}

/* FLUSH counts as a READ: it fails if either QP allows no outstanding READ. */
static void test_none_outstanding(void)
{
	struct flush f = good();

	pair.config.no_rd_atomic = true;
	pair_reset(&pair);
	fill_sides(&pair);
	expect_refusal(&pair, post_flush(&pair.a, &f), IBV_WC_LOC_QP_OP_ERR,
		       "max_rd_atomic 0");
	pair.config.no_rd_atomic = false;
	pair.config.no_dest_rd_atomic = true;
	pair_reset(&pair);
	expect_refusal(&pair, post_flush(&pair.a, &f), IBV_WC_REM_INV_REQ_ERR,
		       "max_dest_rd_atomic 0");
	pair.config.no_dest_rd_atomic = false;
	pair_reset(&pair);
	expect_flushed(&pair, good(), "and then four");
}

/* ---- the requester, and its library ---- */

static void refused_here(struct flush f, const char *what)
{
	struct ibv_wc wc;

	tap_is(post_flush(&pair.a, &f), EINVAL, "%s: EINVAL", what);
	tap_is(ibv_poll_cq(pair.a.send_cq, 1, &wc), 0, "%s: nothing was posted", what);
}

static void test_library(void)
{
	struct flush f = good();

	f.type = 0;
	refused_here(f, "no type");
	f.type = IBV_FLUSH_GLOBAL | 4;
	refused_here(f, "a type that there is not");
	f = good();
	f.level = 2;
	refused_here(f, "a level that there is not");
	f = good();
	f.length = 1ull << 32;
	refused_here(f, "four gigabytes");
	f.length = SIZE_MAX;
	refused_here(f, "everything");
	f.level = IBV_FLUSH_MR;
	expect_flushed(&pair, f, "the region, and its length is not looked at");
	expect_flushed(&pair, good(), "a good one");
}

/* If one request of a batch is bad, none is posted. */
static void test_batch(void)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair.a.qp);
	struct flush f = good();
	struct ibv_wc wc;

	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(qp, f.rkey, f.at, f.length, f.type, f.level);
	ibv_wr_flush(qp, f.rkey, f.at, 1ull << 32, f.type, f.level);
	ibv_wr_flush(qp, f.rkey, f.at, f.length, f.type, f.level);
	tap_is(ibv_wr_complete(qp), EINVAL, "a bad one between two good ones: EINVAL");
	tap_is(ibv_poll_cq(pair.a.send_cq, 1, &wc), 0, "none was posted");
}

/* FLUSH carries no data. The NIC checks that, as with other such requests. */
static void test_data(void)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair.a.qp);
	struct flush f = good();

	fill_sides(&pair);
	ibv_wr_start(qp);
	qp->wr_id = PLACED_WR_ID;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(qp, f.rkey, f.at, f.length, f.type, f.level);
	ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)pair.a.buf, 8);
	expect_refusal(&pair, ibv_wr_complete(qp), IBV_WC_LOC_QP_OP_ERR,
		       "a FLUSH with an SGE");
}

static void refused_post(struct side *side, enum ibv_wr_opcode opcode, const char *what)
{
	struct ibv_sge sge = { (uintptr_t)pair.a.buf, 8, pair.a.mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = opcode,
		.wr.rdma = { (uintptr_t)pair.b.buf, mr->rkey },
	};

	tap_is(ibv_post_send(side->qp, &wr, &bad), EINVAL, "%s: EINVAL", what);
}

static struct ibv_qp *create(enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = pair.a.send_cq, .recv_cq = pair.a.recv_cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = type, .pd = pair.pd, .send_ops_flags = ops,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};

	errno = 0;
	return ibv_create_qp_ex(pair.ctx, &attr);
}

/* IBA defines FLUSH and ATOMIC_WRITE for RC and XRC alone. */
static void test_other_types(enum ibv_qp_type type, const char *name)
{
	struct pair_config config = pair_defaults;
	struct pair other = { .attr = pair.attr };

	tap_ok(!create(type, IBV_QP_EX_WITH_FLUSH) && errno == EOPNOTSUPP,
	       "%s, FLUSH: %s", name, strerror(errno));
	tap_ok(!create(type, IBV_QP_EX_WITH_ATOMIC_WRITE) && errno == EOPNOTSUPP,
	       "%s, ATOMIC_WRITE: %s", name, strerror(errno));
	config.type = type;
	config.qkey = 5;
	pair_open(&other, pair.ctx, &config);
	pair_connect(&other);
	refused_post(&other.a, IBV_WR_ATOMIC_WRITE, name);
	refused_post(&other.a, IBV_WR_FLUSH, name);
	pair_close(&other);
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;
	struct ibv_pd *pd;
	struct ibv_mr *gone;

	config.send_ops = PLACED_OPS;
	config.qp_access = FLUSHABLE | PERSISTENT;
	pair_open(&pair, open_nic(argc > 1 ? argv[1] : NULL, &pair.attr), &config);
	pair_connect(&pair);
	pd = ibv_alloc_pd(pair.ctx);
	if (!pd)
		tap_bail("ibv_alloc_pd: %s", strerror(errno));
	mr = must_reg(pair.pd, pair.b.buf, SIZE, FLUSHABLE);
	foreign = must_reg(pd, pair.b.buf, SIZE, FLUSHABLE);
	gone = must_reg(pair.pd, pair.b.buf, SIZE, FLUSHABLE);
	dead = gone->rkey;
	ibv_dereg_mr(gone);

	test_library();
	test_batch();
	test_data();
	/* ibv_post_send() has no fields that say what to flush. */
	refused_post(&pair.a, IBV_WR_FLUSH, "FLUSH by ibv_post_send()");
	test_responder();
	test_none_outstanding();
	test_rights_of_qp(ALL_ACCESS);
	test_rights_of_qp(ALL_ACCESS | GLOBAL);
	test_rights_of_qp(ALL_ACCESS | PERSISTENT);
	test_rights_of_qp(GLOBAL | PERSISTENT);
	test_other_types(IBV_QPT_UC, "UC");
	test_other_types(IBV_QPT_UD, "UD");

	ibv_dereg_mr(mr);
	ibv_dereg_mr(foreign);
	ibv_dealloc_pd(pd);
	pair_close(&pair);
	ibv_close_device(pair.ctx);
	return tap_done();
}
