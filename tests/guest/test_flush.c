// SPDX-License-Identifier: GPL-2.0
/*
 * FLUSH (HWI 12.7): memory that may be registered for it, and data written before a
 * FLUSH, which is placed once the FLUSH has completed, for all kinds of memory.
 * Refusals are in test_flush_refused.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "paged.h"
#include "placed.h"
#include "tap.h"

#define SIZE		65536u
#define FROM		4093u
#define LENGTH		3000u
#define PATTERN		2048u
#define PATIENCE_S	60
#define RELAXED		IBV_ACCESS_RELAXED_ORDERING
#define GLOBAL		IBV_ACCESS_FLUSH_GLOBAL
#define PERSISTENT	IBV_ACCESS_FLUSH_PERSISTENT

/* enum ib_odp_transport_cap_bits; rdma-core has had them since 57. */
#define ODP_FLUSH	(1u << 6)
#define ODP_ATOMIC_WRITE (1u << 7)

static struct pair pair;
static bool strict;

static void test_announced(void)
{
	const uint64_t caps = 1ull << 38 | 1ull << 39 | 1ull << 40;
	struct ibv_device_attr_ex attr = {};
	uint32_t odp;

	if (ibv_query_device_ex(pair.ctx, NULL, &attr))
		tap_bail("ibv_query_device_ex: %s", strerror(errno));
	tap_is(attr.device_cap_flags_ex & caps, caps,
	       "both kinds of FLUSH, and ATOMIC_WRITE, are announced");
	odp = attr.odp_caps.per_transport_caps.rc_odp_caps;
	tap_is(odp & (ODP_FLUSH | ODP_ATOMIC_WRITE), ODP_FLUSH | ODP_ATOMIC_WRITE,
	       "with on-demand paging, too");
	odp = attr.odp_caps.per_transport_caps.uc_odp_caps |
	      attr.odp_caps.per_transport_caps.ud_odp_caps;
	tap_ok(!(odp & (ODP_FLUSH | ODP_ATOMIC_WRITE)), "of RC alone");
}

/* ---- registration ---- */

static void refuse(void *at, unsigned int access, int due, const char *what)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_mr(pair.pd, at, PAGE, access);
	tap_is(mr ? 0 : errno, due, "%s", what);
	if (mr)
		ibv_dereg_mr(mr);
}

/* Ordinary memory does not survive a power loss, so persistent access is refused. */
static void test_refused(void)
{
	struct ibv_alloc_dm_attr attr = { .length = PAGE };
	struct ibv_dm *dm = ibv_alloc_dm(pair.ctx, &attr);
	struct ibv_mr *mr;

	refuse(pair.b.buf, PERSISTENT, EINVAL, "PERSISTENT alone");
	refuse(pair.b.buf, FLUSHABLE | PERSISTENT, EINVAL, "PERSISTENT beside all others");
	refuse(pair.b.buf, FLUSHABLE | PERSISTENT | IBV_ACCESS_ON_DEMAND, EOPNOTSUPP,
	       "PERSISTENT of what is paged on demand");
	if (!dm)
		tap_bail("ibv_alloc_dm: %s", strerror(errno));
	errno = 0;
	mr = ibv_reg_dm_mr(pair.pd, dm, 0, PAGE, FLUSHABLE | PERSISTENT |
			   IBV_ACCESS_ZERO_BASED);
	tap_is(mr ? 0 : errno, EOPNOTSUPP, "PERSISTENT of on-NIC memory");
	ibv_free_dm(dm);
}

static void test_registration(void)
{
	uint8_t *at = pair.b.buf;
	struct ibv_mr *mr = must_reg(pair.pd, at, SIZE, GLOBAL);

	expect_flushed(&pair, flush_range(mr->rkey, at, SIZE), "with no other right");
	ibv_dereg_mr(mr);
	mr = ibv_reg_mr_iova(pair.pd, at, SIZE, 1ull << 40, FLUSHABLE);
	if (!mr)
		tap_bail("ibv_reg_mr_iova: %s", strerror(errno));
	expect_flushed(&pair, flush_range(mr->rkey, (void *)(1ull << 40), SIZE),
		       "by another address");
	ibv_dereg_mr(mr);
	mr = ibv_reg_mr(pair.pd, at, SIZE, FLUSHABLE | IBV_ACCESS_ZERO_BASED);
	if (!mr)
		tap_bail("ibv_reg_mr: %s", strerror(errno));
	expect_flushed(&pair, flush_range(mr->rkey, NULL, SIZE), "by addresses from 0");
	ibv_dereg_mr(mr);
}

static void rereg(struct ibv_mr *mr, unsigned int access, int due, const char *what)
{
	int err = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, access);

	tap_is(err ? errno : 0, due, "re-registered: %s", what);
}

static void expect_no_right(const struct ibv_mr *mr, const char *what)
{
	struct flush flush = flush_range(mr->rkey, pair.b.buf, 1);

	fill_sides(&pair);
	expect_refusal(&pair, post_flush(&pair.a, &flush), IBV_WC_REM_ACCESS_ERR, what);
}

static void test_rereg(void)
{
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf, SIZE, ALL_ACCESS);

	expect_no_right(mr, "before it is re-registered");
	rereg(mr, FLUSHABLE, 0, "it may be flushed");
	expect_flushed(&pair, flush_region(mr->rkey), "flushed");
	rereg(mr, FLUSHABLE | PERSISTENT, EINVAL, "as persistent");
	expect_flushed(&pair, flush_region(mr->rkey), "it is as it was");
	rereg(mr, ALL_ACCESS, 0, "it may not be flushed");
	expect_no_right(mr, "not any more");
	ibv_dereg_mr(mr);
}

/* ---- data is placed after a FLUSH ---- */

static struct outcome write_to(uint32_t rkey, const void *at, uint32_t length)
{
	return ask(&pair, IBV_WR_RDMA_WRITE, rkey, (uintptr_t)at, length);
}

static void test_levels(struct ibv_mr *mr, const char *kind)
{
	static const size_t lengths[] = { 0, 1, 7, PAGE, SIZE - FROM };
	uint8_t *at = pair.b.buf + FROM;
	unsigned int i;

	tap_diag("%s", kind);
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		fill_sides(&pair);
		tap_ok(!write_to(mr->rkey, at, lengths[i]).status, "WRITE of %zu bytes",
		       lengths[i]);
		expect_flushed(&pair, flush_range(mr->rkey, at, lengths[i]),
			       "FLUSH of the range");
		expect_flushed(&pair, flush_region(mr->rkey), "FLUSH of the region");
		tap_ok(is_filled(pair.b.buf, FROM, 2) && is_filled(at, lengths[i], 1),
		       "the data is there, and nothing else");
	}
	expect_flushed(&pair, flush_range(mr->rkey ^ 0x40, NULL, 0),
		       "no bytes, of nobody knows what");
}

/* The same completion, read through an extended CQ. */
static void test_cq_ex(const struct ibv_mr *mr)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(pair.ctx, &attr);
	struct flush flush = flush_range(mr->rkey, pair.b.buf, SIZE);
	struct ibv_cq *plain = pair.a.send_cq;
	struct ibv_poll_cq_attr poll_attr = {};
	time_t end = time(NULL) + PATIENCE_S;
	int err;

	if (!cq)
		tap_bail("ibv_create_cq_ex: %s", strerror(errno));
	pair_close_qp(&pair.a);
	pair.a.send_cq = ibv_cq_ex_to_cq(cq);
	pair_open_qp(&pair, &pair.a);
	pair_reset(&pair);
	if (post_flush(&pair.a, &flush))
		tap_bail("ibv_wr_complete");
	do {
		err = ibv_start_poll(cq, &poll_attr);
	} while (err == ENOENT && time(NULL) < end);
	if (tap_is(err, 0, "an extended CQ")) {
		tap_ok(!cq->status && ibv_wc_read_opcode(cq) == IBV_WC_FLUSH,
		       "says FLUSH");
		ibv_end_poll(cq);
	}
	pair_close_qp(&pair.a);
	pair.a.send_cq = plain;
	pair_open_qp(&pair, &pair.a);
	pair_reset(&pair);
	ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
}

/* ---- ordering of relaxed WRITEs by a FLUSH ---- */

static struct ibv_qp_ex *batch(void)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair.a.qp);

	ibv_wr_start(qp);
	qp->wr_flags = 0;
	return qp;
}

static void add_write(struct ibv_qp_ex *qp, const uint8_t *from, uint32_t length,
		      uint32_t rkey, const void *to)
{
	ibv_wr_rdma_write(qp, rkey, (uintptr_t)to);
	ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)from, length);
}

static void add_flush(struct ibv_qp_ex *qp, const struct flush *f)
{
	ibv_wr_flush(qp, f->rkey, f->at, f->length, f->type, f->level);
}

static void end_batch(struct ibv_qp_ex *qp)
{
	int err = ibv_wr_complete(qp);

	if (err)
		tap_bail("ibv_wr_complete: %s", strerror(err));
}

/* In how many rounds some data of the first of two WRITEs outlives the second. */
static int overtaken(uint32_t rkey, const struct flush *between)
{
	int round, n = 0, rounds = impaired() ? 10 : 100;
	struct ibv_wc wc;

	memset(pair.a.buf, 'A', PATTERN);
	memset(pair.a.buf + PATTERN, 'B', PATTERN);
	for (round = 0; round < rounds; round++) {
		struct ibv_qp_ex *qp = batch();

		memset(pair.b.buf, 0, PATTERN);
		add_write(qp, pair.a.buf, PATTERN, rkey, pair.b.buf);
		if (between)
			add_flush(qp, between);
		qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
		add_write(qp, pair.a.buf + PATTERN, PATTERN, rkey, pair.b.buf);
		end_batch(qp);
		if (!wait_wc(pair.a.send_cq, &wc) || wc.status)
			tap_bail("a request failed: %s", ibv_wc_status_str(wc.status));
		n += memcmp(pair.b.buf, pair.a.buf + PATTERN, PATTERN) != 0;
	}
	return n;
}

static void test_order(void)
{
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf, SIZE, FLUSHABLE | RELAXED);
	struct flush range = flush_range(mr->rkey, pair.b.buf, PATTERN);
	struct flush region = flush_region(mr->rkey);
	int n = overtaken(mr->rkey, NULL);

	tap_ok(strict && !impaired() ? n > 0 : n >= 0,
	       "two relaxed WRITEs: %d not in order%s", n,
	       strict ? "" : ", which nothing demands");
	tap_is(overtaken(mr->rkey, &range), 0, "with a FLUSH of the range between them");
	tap_is(overtaken(mr->rkey, &region), 0, "of the region");
	ibv_dereg_mr(mr);
}

/* Does @at get this value in time? */
static bool wait_for_byte(const volatile uint8_t *at, uint8_t value)
{
	time_t end = time(NULL) + PATIENCE_S;

	while (*at != value && time(NULL) < end)
		;
	return *at == value;
}

/*
 * WRITEs data, a FLUSH, and behind it one more byte. Once that byte is seen, all data
 * must be there, though nothing has completed and nothing else orders the two WRITEs.
 */
static void test_without_completion(void)
{
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf, SIZE, FLUSHABLE | RELAXED);
	struct flush flush = flush_range(mr->rkey, pair.b.buf, PATTERN);
	int round, wrong = 0, rounds = impaired() ? 10 : 50;
	volatile uint8_t *told = pair.b.buf + SIZE - 1;
	struct ibv_qp_ex *qp;
	struct ibv_wc wc;

	for (round = 0; round < rounds; round++) {
		memset(pair.b.buf, 0, SIZE);
		memset(pair.a.buf, round + 1, SIZE);
		qp = batch();
		add_write(qp, pair.a.buf, PATTERN, mr->rkey, pair.b.buf);
		add_flush(qp, &flush);
		qp->wr_flags = IBV_SEND_FENCE;
		add_write(qp, pair.a.buf, 1, mr->rkey, pair.b.buf + SIZE - 1);
		end_batch(qp);
		wrong += !wait_for_byte(told, round + 1) ||
			 memcmp(pair.b.buf, pair.a.buf, PATTERN);
		if (write_to(mr->rkey, pair.b.buf, 0).status)
			tap_bail("a request failed");
	}
	tap_is(wrong, 0, "what was flushed is seen before what came after");
	tap_is(ibv_poll_cq(pair.a.send_cq, 1, &wc), 0, "and nobody was told");
	ibv_dereg_mr(mr);
}

/* ---- windows, on-NIC memory, pages that are not there ---- */

/* The right is the window's own: its MR need not have it (HWI MW-14). */
static void test_window(enum ibv_mw_type type, const struct api *api)
{
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf, SIZE, BINDABLE);
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);
	uint8_t *at = pair.b.buf + FROM;
	unsigned int rights = IBV_ACCESS_REMOTE_WRITE | GLOBAL;
	struct flush flush;

	tap_diag("window of type %d, %s", (int)type, api->name);
	fill_sides(&pair);
	must_bind(api, &pair.b, mw, mr, (uintptr_t)at, LENGTH, rights);
	tap_ok(!write_to(mw->rkey, at, LENGTH).status, "WRITE");
	expect_flushed(&pair, flush_range(mw->rkey, at, LENGTH), "FLUSH of the range");
	expect_flushed(&pair, flush_region(mw->rkey), "FLUSH of all of it");
	tap_ok(is_filled(at, LENGTH, 1), "the data is there");

	fill_sides(&pair);
	flush = flush_range(mw->rkey, at, LENGTH + 1);
	expect_refusal(&pair, post_flush(&pair.a, &flush), IBV_WC_REM_ACCESS_ERR,
		       "a byte beyond it");
	must_bind(api, &pair.b, mw, mr, (uintptr_t)at, LENGTH, rights);
	flush = flush_region(mw->rkey);
	flush.type = IBV_FLUSH_PERSISTENT;
	expect_refusal(&pair, post_flush(&pair.a, &flush), IBV_WC_REM_ACCESS_ERR,
		       "the other right");
	must_bind(api, &pair.b, mw, mr, (uintptr_t)at, LENGTH, IBV_ACCESS_REMOTE_WRITE);
	flush = flush_region(mw->rkey);
	expect_refusal(&pair, post_flush(&pair.a, &flush), IBV_WC_REM_ACCESS_ERR,
		       "no right");
	ibv_dealloc_mw(mw);
	ibv_dereg_mr(mr);
}

/* Only of the region it is known whether memory is persistent (HWI MW-19). */
static void test_persistent_window(enum ibv_mw_type type, const struct api *api)
{
	struct ibv_mr *mr = must_reg(pair.pd, pair.b.buf, SIZE, BINDABLE | FLUSHABLE);
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);
	struct outcome o = bind_window(api, &pair.b, mw, ibv_inc_rkey(mw->rkey), mr,
				       (uintptr_t)pair.b.buf, LENGTH, PERSISTENT);

	if (!tap_ok(!o.posted && o.status == IBV_WC_MW_BIND_ERR &&
		    o.syndrome == SYN_RIGHTS,
		    "type %d, %s: a persistent window of what is not", (int)type,
		    api->name))
		tap_diag("errno %d, %s (%u)", o.posted, ibv_wc_status_str(o.status),
			 o.syndrome);
	revive(&pair);
	ibv_dealloc_mw(mw);
	ibv_dereg_mr(mr);
}

static void test_on_nic(void)
{
	struct ibv_alloc_dm_attr attr = { .length = LENGTH };
	struct ibv_dm *dm = ibv_alloc_dm(pair.ctx, &attr);
	struct ibv_mr *mr;
	uint8_t seen[LENGTH];

	mr = dm ? ibv_reg_dm_mr(pair.pd, dm, 0, LENGTH, FLUSHABLE | RELAXED |
				IBV_ACCESS_ZERO_BASED) : NULL;
	if (!mr)
		tap_bail("on-NIC memory: %s", strerror(errno));
	fill_sides(&pair);
	tap_ok(!write_to(mr->rkey, NULL, LENGTH).status, "on-NIC memory: WRITE");
	expect_flushed(&pair, flush_range(mr->rkey, NULL, LENGTH), "FLUSH of the range");
	expect_flushed(&pair, flush_region(mr->rkey), "FLUSH of the region");
	tap_ok(!ibv_memcpy_from_dm(seen, dm, 0, LENGTH) && is_filled(seen, LENGTH, 1),
	       "the data is there");
	ibv_dereg_mr(mr);
	ibv_free_dm(dm);
}

static bool same(const struct paged *a, const struct paged *b)
{
	return a->faults == b->faults && a->handled == b->handled &&
	       a->invalidations == b->invalidations && a->prefetched == b->prefetched;
}

/* A page that is absent has no data to be flushed: FLUSH must not request it. */
static void test_paged(bool implicit)
{
	uint8_t *at = map_pages(SIZE);
	struct ibv_mr *mr = implicit ?
		must_reg(pair.pd, NULL, SIZE_MAX, FLUSHABLE | IBV_ACCESS_ON_DEMAND) :
		must_reg(pair.pd, at, SIZE, FLUSHABLE | IBV_ACCESS_ON_DEMAND);
	struct paged before = paged_counts(), now;

	tap_diag("on demand, %s", implicit ? "implicit" : "explicit");
	expect_flushed(&pair, flush_range(mr->rkey, at, SIZE), "FLUSH of absent pages");
	expect_flushed(&pair, flush_region(mr->rkey), "FLUSH of the region");
	now = paged_counts();
	tap_ok(same(&before, &now), "no page was asked for");
	fill_sides(&pair);
	tap_ok(!write_to(mr->rkey, at + PAGE, LENGTH).status, "WRITE to one of them");
	before = paged_counts();
	expect_flushed(&pair, flush_range(mr->rkey, at, SIZE), "FLUSH of all");
	expect_flushed(&pair, flush_region(mr->rkey), "FLUSH of the region");
	now = paged_counts();
	tap_ok(same(&before, &now), "no page was asked for");
	tap_ok(is_filled(at + PAGE, LENGTH, 1), "the data is there");
	ibv_dereg_mr(mr);
	munmap(at, SIZE);
}

int main(int argc, char **argv)
{
	const char *switches = getenv("MOOR_NIC_SWITCHES");
	struct pair_config config = pair_defaults;
	struct ibv_mr *mr;
	unsigned int i;

	strict = switches && strstr(switches, "strict");
	config.send_ops = PLACED_OPS;
	config.qp_access = FLUSHABLE | PERSISTENT;
	pair_open(&pair, open_nic(argc > 1 ? argv[1] : NULL, &pair.attr), &config);
	pair_connect(&pair);
	test_announced();
	test_refused();
	test_registration();
	test_rereg();
	mr = must_reg(pair.pd, pair.b.buf, SIZE, FLUSHABLE);
	test_levels(mr, "ordered");
	test_cq_ex(mr);
	ibv_dereg_mr(mr);
	mr = must_reg(pair.pd, pair.b.buf, SIZE, FLUSHABLE | RELAXED);
	test_levels(mr, "relaxed");
	ibv_dereg_mr(mr);
	test_order();
	test_without_completion();
	for (i = 0; i < 2; i++) {
		test_window(IBV_MW_TYPE_1, &apis[i]);
		test_window(IBV_MW_TYPE_2, &apis[i]);
		test_persistent_window(IBV_MW_TYPE_1, &apis[i]);
		test_persistent_window(IBV_MW_TYPE_2, &apis[i]);
	}
	test_on_nic();
	test_paged(false);
	test_paged(true);
	pair_close(&pair);
	ibv_close_device(pair.ctx);
	return tap_done();
}
