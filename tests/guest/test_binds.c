// SPDX-License-Identifier: GPL-2.0
/*
 * Binding memory windows (HWI 6.7): what the NIC refuses, what the provider refuses,
 * and which key a bind gives. Everything by ibv_post_send() and by ibv_wr_*().
 */
#include <errno.h>
#include <string.h>

#include "bench.h"
#include "tap.h"

/* ---- binds that are refused ---- */

struct bad_bind {
	struct ibv_mw *mw;
	uint32_t new_key;
	struct ibv_mr *mr;
	uint64_t addr, length;
	unsigned int access;
};

static struct ibv_mr *no_bind, *read_only, *foreign_mr, *null_mr;
static struct ibv_mw *foreign_mw;

static void mr_no_bind(struct bad_bind *b) { b->mr = no_bind; }
static void mr_read_only(struct bad_bind *b) { b->mr = read_only; }
static void mr_foreign(struct bad_bind *b) { b->mr = foreign_mr; }
static void mr_null(struct bad_bind *b) { b->mr = null_mr; }

static void one_before(struct bad_bind *b)
{
	b->addr = (uintptr_t)pair.b.buf - 1;
}

static void one_behind(struct bad_bind *b)
{
	b->addr = (uintptr_t)pair.b.buf;
	b->length = pair.config.buffer_size + 1;
}

static void wraps(struct bad_bind *b) { b->length = UINT64_MAX - 7; }
static void mw_foreign(struct bad_bind *b)
{
	b->mw = foreign_mw;
	b->new_key = ibv_inc_rkey(foreign_mw->rkey);
}

static const struct {
	const char *name;
	void (*spoil)(struct bad_bind *b);
	uint32_t syndrome;
} bad_binds[] = {
	{ "MR without MW_BIND", mr_no_bind, SYN_RIGHTS },
	{ "remote write on a read-only MR", mr_read_only, SYN_RIGHTS },
	{ "MR of another PD", mr_foreign, SYN_PD },
	{ "window of another PD", mw_foreign, SYN_PD },
	{ "null MR", mr_null, SYN_KEY },
	{ "one byte before the MR", one_before, SYN_BOUNDS },
	{ "one byte behind the MR", one_behind, SYN_BOUNDS },
	{ "length around the end", wraps, SYN_BOUNDS },
};

/* libibverbs itself refuses ibv_bind_mw() across PDs. */
static bool answered_by_library(const struct bad_bind *b)
{
	return api == &apis[0] && type == IBV_MW_TYPE_1 &&
	       b->new_key == ibv_inc_rkey(b->mw->rkey) &&
	       b->mr->pd != b->mw->pd;
}

static void test_bad_binds(void)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);
	size_t i;

	foreign_mw = must_alloc_mw(foreign_mr->pd, type);
	for (i = 0; i < sizeof(bad_binds) / sizeof(bad_binds[0]); i++) {
		struct bad_bind b = {
			.mw = mw, .new_key = ibv_inc_rkey(mw->rkey), .mr = mr,
			.addr = start(), .length = LENGTH, .access = RIGHTS,
		};
		uint32_t key;
		struct outcome o;

		bad_binds[i].spoil(&b);
		key = b.mw->rkey;
		o = bind_window(api, &pair.b, b.mw, b.new_key, b.mr, b.addr,
				b.length, b.access);
		if (answered_by_library(&b)) {
			tap_is(o.posted, EPERM, "%s: bind: %s", title(),
			       bad_binds[i].name);
			continue;
		}
		tap_ok(refused_with(o, bad_binds[i].syndrome) &&
		       query_state(&pair.b) == IBV_QPS_ERR, "%s: bind: %s",
		       title(), bad_binds[i].name);
		b.mw->rkey = key;
		revive(&pair);
		expect_refused(bad_binds[i].name, IBV_WR_RDMA_WRITE, b.new_key,
			       start(), 8);
	}
	bind_all(mw, RIGHTS);
	refill();
	tap_ok(is(ask(&pair, IBV_WR_RDMA_WRITE, mw->rkey, start(), LENGTH),
		  IBV_WC_SUCCESS) && only_written(1),
	       "%s: bind: then a good one", title());
	ibv_dealloc_mw(mw);
	ibv_dealloc_mw(foreign_mw);
	expect_free("no refused bind counts");
}

/* A bind that the provider refuses leaves the key as it was. */
static void test_refused_posts(void)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);
	uint32_t key = mw->rkey;
	struct outcome o;

	o = bind_window(api, &pair.b, mw, ibv_inc_rkey(key), mr, start(),
			LENGTH, IBV_ACCESS_MW_BIND);
	tap_ok(o.posted == EINVAL && mw->rkey == key,
	       "%s: a right that windows do not have", title());
	o = bind_window(api, &pair.b, mw, ibv_inc_rkey(key), NULL, start(),
			LENGTH, RIGHTS);
	tap_ok(o.posted == EINVAL && mw->rkey == key,
	       "%s: a range of no MR", title());
	if (api == &apis[1]) {
		struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair.b.qp);
		struct ibv_mw_bind_info info = {
			.mr = mr, .addr = start(), .length = LENGTH,
			.mw_access_flags = RIGHTS,
		};

		ibv_wr_start(qp);
		ibv_wr_bind_mw(qp, mw, ibv_inc_rkey(key), &info);
		ibv_wr_abort(qp);
		tap_is(mw->rkey, key, "%s: abort leaves the key alone", title());
	}
	bind_all(mw, RIGHTS);
	ibv_dealloc_mw(mw);
}

/* ---- which key a bind gives, and what mw->rkey is meanwhile ---- */

/* Binds by the round's API, without noting the new key. */
static struct outcome bind_raw(struct ibv_mw *mw, uint32_t new_key,
			       unsigned int access)
{
	uint32_t before = mw->rkey;
	struct outcome o = bind_window(api, &pair.b, mw, new_key, mr, start(),
				       LENGTH, access);

	mw->rkey = before;
	return o;
}

static void end_binding(struct ibv_mw *mw, uint32_t key)
{
	struct outcome o = {};

	if (type == IBV_MW_TYPE_2)
		o = invalidate(api, &pair.b, key);
	if (o.posted || o.status)
		tap_bail("cannot invalidate 0x%08x of window 0x%08x", key,
			 mw->rkey);
}

/* All values of the key's byte, the present one included, with any other bits. */
static void test_key_byte(void)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);
	uint32_t rest = mw->rkey & ~0xffu, i, key = mw->rkey;
	unsigned int wrong = 0;

	refill();
	for (i = 0; i < 3 * 256; i++) {
		/*
		 * @new_key: the present key, the byte alone, or the byte below foreign
		 * bits
		 */
		uint32_t new_key = (i & 0xff) |
				   (i < 256 ? rest : i < 512 ? 0 : ~rest & ~0xffu);

		wrong += !is(bind_raw(mw, new_key, RIGHTS), IBV_WC_SUCCESS);
		key = rest | (i & 0xff);
		wrong += !is(ask(&pair, IBV_WR_RDMA_WRITE, key, start(), LENGTH),
			     IBV_WC_SUCCESS);
		end_binding(mw, key);
	}
	tap_is(wrong, 0, "%s: the byte is the caller's, the rest the window's",
	       title());
	wrong = 0;
	for (i = 0; i < 3; i++) {
		wrong += !is(bind_raw(mw, key, RIGHTS), IBV_WC_SUCCESS);
		wrong += !is(ask(&pair, IBV_WR_RDMA_WRITE, key, start(), LENGTH),
			     IBV_WC_SUCCESS);
		end_binding(mw, key);
	}
	tap_is(wrong, 0, "%s: the same byte again", title());
	ibv_dealloc_mw(mw);
}

static int post_bind(struct ibv_mw *mw, uint32_t new_key, uint64_t length)
{
	struct ibv_mw_bind_info info = {
		.mr = mr, .addr = start(), .length = length,
		.mw_access_flags = RIGHTS,
	};
	struct ibv_send_wr *bad_wr, wr = {
		.wr_id = WINDOW_WR_ID, .opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = mw, .rkey = new_key, .bind_info = info },
	};
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair.b.qp);

	if (api == &apis[0])
		return ibv_post_send(pair.b.qp, &wr, &bad_wr);
	ibv_wr_start(qp);
	qp->wr_id = WINDOW_WR_ID;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(qp, mw, new_key, &info);
	return ibv_wr_complete(qp);
}

/*
 * Posting a bind must not change mw->rkey: whether it succeeds, is refused or is
 * flushed, the next key can be computed by ibv_inc_rkey(mw->rkey).
 */
static void test_key_stays(void)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);
	uint32_t key = mw->rkey, next = ibv_inc_rkey(key);
	struct outcome o;

	tap_ok(is(finish(&pair.b, post_bind(mw, next, LENGTH)), IBV_WC_SUCCESS) &&
	       mw->rkey == key, "%s: bound, mw->rkey as before", title());
	end_binding(mw, next);
	o = finish(&pair.b, post_bind(mw, next, UINT64_MAX));
	tap_ok(is(o, IBV_WC_MW_BIND_ERR) && mw->rkey == key,
	       "%s: refused, mw->rkey as before", title());
	o = finish(&pair.b, post_bind(mw, next, LENGTH));
	tap_ok(is(o, IBV_WC_WR_FLUSH_ERR) && mw->rkey == key,
	       "%s: flushed, mw->rkey as before", title());
	revive(&pair);
	refill();
	tap_ok(is(finish(&pair.b, post_bind(mw, next, LENGTH)), IBV_WC_SUCCESS) &&
	       is(ask(&pair, IBV_WR_RDMA_WRITE, next, start(), LENGTH),
		  IBV_WC_SUCCESS) && only_written(1),
	       "%s: and the next bind is good", title());
	ibv_dealloc_mw(mw);
}

/* Only ibv_bind_mw() chooses the key itself, and stores it in mw->rkey. */
static void test_key_of_bind_mw(void)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.wr_id = WINDOW_WR_ID, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = {
			.mr = mr, .addr = start(), .length = LENGTH,
			.mw_access_flags = RIGHTS,
		},
	};
	uint32_t key = mw->rkey;

	tap_ok(is(finish(&pair.b, ibv_bind_mw(pair.b.qp, mw, &bind)),
		  IBV_WC_SUCCESS) && mw->rkey == ibv_inc_rkey(key),
	       "ibv_bind_mw: the next key, in mw->rkey");
	key = mw->rkey;
	bind.bind_info.length = UINT64_MAX;
	tap_ok(is(finish(&pair.b, ibv_bind_mw(pair.b.qp, mw, &bind)),
		  IBV_WC_MW_BIND_ERR), "ibv_bind_mw: refused");
	revive(&pair);
	refill();
	tap_ok(is(ask(&pair, IBV_WR_RDMA_WRITE, key, start(), LENGTH),
		  IBV_WC_SUCCESS) && only_written(1),
	       "ibv_bind_mw: the binding before is as it was");
	/* As if the program had not put the key back. */
	bind.bind_info.length = LENGTH;
	tap_ok(is(finish(&pair.b, ibv_bind_mw(pair.b.qp, mw, &bind)),
		  IBV_WC_SUCCESS) &&
	       is(ask(&pair, IBV_WR_RDMA_WRITE, mw->rkey, start(), LENGTH),
		  IBV_WC_SUCCESS), "ibv_bind_mw: and the next one is good");
	bind.send_flags = 1u << 20;
	key = mw->rkey;
	tap_ok(ibv_bind_mw(pair.b.qp, mw, &bind) == EINVAL && mw->rkey == key,
	       "ibv_bind_mw: not posted, mw->rkey as before");
	ibv_dealloc_mw(mw);
}

static void open_others(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(pair.ctx);

	if (!pd)
		tap_bail("ibv_alloc_pd: %s", strerror(errno));
	no_bind = must_reg(pair.pd, pair.b.buf, pair.config.buffer_size,
			   ALL_ACCESS);
	read_only = must_reg(pair.pd, pair.b.buf, pair.config.buffer_size,
			     IBV_ACCESS_MW_BIND);
	foreign_mr = must_reg(pd, pair.b.buf, pair.config.buffer_size,
			      BINDABLE);
	null_mr = ibv_alloc_null_mr(pair.pd);
	if (!null_mr)
		tap_bail("ibv_alloc_null_mr: %s", strerror(errno));
}

static void close_others(void)
{
	struct ibv_pd *pd = foreign_mr->pd;

	if (ibv_dereg_mr(no_bind) || ibv_dereg_mr(read_only) ||
	    ibv_dereg_mr(foreign_mr) || ibv_dereg_mr(null_mr) ||
	    ibv_dealloc_pd(pd))
		tap_bail("cannot clean up");
}

int main(int argc, char **argv)
{
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(argc > 1 ? argv[1] : NULL, &attr);

	bench_open(ctx);
	open_others();
	for (api = apis; api < apis + 2; api++) {
		for (type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
			test_bad_binds();
			test_refused_posts();
			test_key_byte();
			test_key_stays();
		}
	}
	test_key_of_bind_mw();
	close_others();
	bench_close();
	ibv_close_device(ctx);
	return tap_done();
}
