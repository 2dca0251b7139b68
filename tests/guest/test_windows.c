// SPDX-License-Identifier: GPL-2.0
/*
 * Memory windows (HWI 6.7): what binding takes and refuses, what a window
 * allows, how it ends, and that an MR with windows cannot be deregistered.
 * Everything by ibv_post_send() and by ibv_wr_*().
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tap.h"
#include "window.h"

#define FROM	4096u		/* the range that windows are bound to */
#define LENGTH	3000u
#define RIGHTS	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		 IBV_ACCESS_REMOTE_ATOMIC)

static struct pair pair;
static struct ibv_mr *mr;	/* for windows: the buffer of side b */
static const struct api *api;
static enum ibv_mw_type type;

static uint64_t start(void)
{
	return (uintptr_t)pair.b.buf + FROM;
}

static bool is(struct outcome o, enum ibv_wc_status status)
{
	if (!o.posted && ended_with(o.status, status))
		return true;
	tap_diag("errno %d, %s (syndrome %u), wanted %s", o.posted,
		 ibv_wc_status_str(o.status), o.syndrome,
		 ibv_wc_status_str(status));
	return false;
}

/* The key before ibv_inc_rkey(). */
static uint32_t dec_rkey(uint32_t key)
{
	return (key & ~0xffu) | ((key - 1) & 0xff);
}

static const char *title(void)
{
	static char text[64];

	snprintf(text, sizeof(text), "type %d, %s", (int)type, api->name);
	return text;
}

/* Nobody has written outside of what the window covers. */
static bool only_written(uint8_t seed)
{
	return is_filled(pair.b.buf, FROM, 2) &&
	       is_filled(pair.b.buf + FROM, LENGTH, seed);
}

static void refill(void)
{
	fill(pair.a.buf, pair.config.buffer_size, 1);
	fill(pair.b.buf, pair.config.buffer_size, 2);
	fill(pair.b.buf + FROM, LENGTH, 3);
}

/* A request by @key fails at the responder and changes nothing. */
static void expect_refused(const char *what, enum ibv_wr_opcode opcode,
			   uint32_t key, uint64_t remote, uint32_t length)
{
	struct outcome o;

	refill();
	o = ask(&pair, opcode, key, remote, length);
	/* If the answer is lost, the syndrome is that nobody answers. */
	tap_ok(is(o, IBV_WC_REM_ACCESS_ERR) &&
	       (o.status == IBV_WC_RETRY_EXC_ERR || o.syndrome == SYN_NONE) &&
	       only_written(3) && is_filled(pair.a.buf, 4096, 1),
	       "%s: %s", title(), what);
	expect_event(pair.ctx, IBV_EVENT_QP_ACCESS_ERR, pair.b.qp,
		     "event at the responder");
	revive(&pair);
}

static void bind_all(struct ibv_mw *mw, unsigned int access)
{
	must_bind(api, &pair.b, mw, mr, start(), LENGTH, access);
}

/* A window of type 1 stays bound over a revival, one of type 2 does not. */
static void again(struct ibv_mw *mw, unsigned int access)
{
	if (type == IBV_MW_TYPE_2)
		bind_all(mw, access);
}

static void unbind(struct ibv_mw *mw)
{
	struct outcome o = type == IBV_MW_TYPE_2 ?
			   invalidate(api, &pair.b, mw->rkey) :
			   bind_window(api, &pair.b, mw,
				       ibv_inc_rkey(mw->rkey), NULL, 0, 0, 0);

	tap_ok(is(o, IBV_WC_SUCCESS) &&
	       o.opcode == (type == IBV_MW_TYPE_2 ? IBV_WC_LOCAL_INV :
						    IBV_WC_BIND_MW),
	       "%s: unbind", title());
}

static void test_life(void)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);
	uint32_t key = mw->rkey;
	struct outcome o;

	tap_ok(mw->type == type && mw->pd == pair.pd, "%s: alloc", title());
	expect_refused("not bound", IBV_WR_RDMA_WRITE, mw->rkey, start(), 8);
	refill();
	o = bind_window(api, &pair.b, mw, ibv_inc_rkey(key), mr, start(),
			LENGTH, IBV_ACCESS_REMOTE_WRITE);
	tap_ok(is(o, IBV_WC_SUCCESS) && o.opcode == IBV_WC_BIND_MW,
	       "%s: bind", title());
	tap_is(mw->rkey, ibv_inc_rkey(key), "%s: the new key is current",
	       title());
	tap_ok(is(ask(&pair, IBV_WR_RDMA_WRITE, mw->rkey, start(), LENGTH),
		  IBV_WC_SUCCESS) && only_written(1), "%s: write all of it",
	       title());
	expect_refused("key of before the bind", IBV_WR_RDMA_WRITE, key,
		       start(), 8);
	again(mw, IBV_ACCESS_REMOTE_WRITE);
	expect_refused("one byte before", IBV_WR_RDMA_WRITE, mw->rkey,
		       start() - 1, 8);
	again(mw, IBV_ACCESS_REMOTE_WRITE);
	expect_refused("one byte behind", IBV_WR_RDMA_WRITE, mw->rkey,
		       start() + 1, LENGTH);
	again(mw, IBV_ACCESS_REMOTE_WRITE);
	expect_refused("around the end of the address space",
		       IBV_WR_RDMA_WRITE, mw->rkey, UINT64_MAX - 3, 8);
	again(mw, IBV_ACCESS_REMOTE_WRITE);
	expect_refused("read without the right", IBV_WR_RDMA_READ, mw->rkey,
		       start(), 8);
	again(mw, IBV_ACCESS_REMOTE_WRITE);
	expect_refused("atomic without the right",
		       IBV_WR_ATOMIC_FETCH_AND_ADD, mw->rkey, start(), 8);
	again(mw, IBV_ACCESS_REMOTE_WRITE);
	expect_refused("by the MR's own key", IBV_WR_RDMA_WRITE, mr->rkey,
		       start(), 8);
	again(mw, IBV_ACCESS_REMOTE_WRITE);
	refill();
	tap_ok(is(ask(&pair, IBV_WR_RDMA_WRITE, mw->rkey, start(), LENGTH),
		  IBV_WC_SUCCESS) && only_written(1),
	       "%s: works after all of that", title());
	unbind(mw);
	expect_refused("unbound", IBV_WR_RDMA_WRITE, mw->rkey, start(), 8);
	tap_is(ibv_dealloc_mw(mw), 0, "%s: dealloc", title());
}

static void test_zero_based(void)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);

	refill();
	bind_all(mw, RIGHTS | IBV_ACCESS_ZERO_BASED);
	tap_ok(is(ask(&pair, IBV_WR_RDMA_WRITE, mw->rkey, 0, LENGTH),
		  IBV_WC_SUCCESS) && only_written(1), "%s: from 0", title());
	tap_ok(is(ask(&pair, IBV_WR_RDMA_READ, mw->rkey, LENGTH - 8, 8),
		  IBV_WC_SUCCESS) &&
	       !memcmp(pair.a.buf, pair.b.buf + FROM + LENGTH - 8, 8),
	       "%s: from 0, its end", title());
	expect_refused("from 0: the address", IBV_WR_RDMA_WRITE, mw->rkey,
		       start(), 8);
	ibv_dealloc_mw(mw);
}

/* EBUSY leaves MR and window as they are; the MR goes after the window. */
static void expect_busy(struct ibv_mw *mw, const char *what)
{
	struct request local = {
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = 5, .local = pair.b.buf,
		.length = 64, .lkey = mr->lkey,
		.remote = (uintptr_t)pair.a.buf, .rkey = pair.a.mr->rkey,
	};

	tap_is(ibv_dereg_mr(mr), EBUSY, "%s: %s: MR is busy", title(), what);
	refill();
	tap_ok(is(ask(&pair, IBV_WR_RDMA_WRITE, mw->rkey, start(), LENGTH),
		  IBV_WC_SUCCESS) && only_written(1),
	       "%s: %s: the window works on", title(), what);
	tap_ok(is(finish(&pair.b, post(&pair.b, &local)), IBV_WC_SUCCESS) &&
	       is_filled(pair.a.buf, 64, 2), "%s: %s: the MR works on",
	       title(), what);
}

static void expect_free(const char *what)
{
	tap_is(ibv_dereg_mr(mr), 0, "%s: %s: MR can go", title(), what);
	mr = must_reg(pair.pd, pair.b.buf, pair.config.buffer_size, BINDABLE);
}

static void test_busy(void)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);
	struct ibv_mr *other = must_reg(pair.pd, pair.b.buf,
					pair.config.buffer_size, BINDABLE);

	bind_all(mw, RIGHTS);
	expect_busy(mw, "bound");
	unbind(mw);
	expect_free("unbound");
	if (type == IBV_MW_TYPE_1) {
		bind_all(mw, RIGHTS);
		must_bind(api, &pair.b, mw, other, start(), LENGTH, RIGHTS);
		expect_free("bound elsewhere");
		refill();
		tap_ok(is(ask(&pair, IBV_WR_RDMA_WRITE, mw->rkey, start(),
			      LENGTH), IBV_WC_SUCCESS) && only_written(1),
		       "%s: bound elsewhere: works there", title());
		tap_is(ibv_dereg_mr(other), EBUSY,
		       "%s: bound elsewhere: that one is busy", title());
	}
	bind_all(mw, RIGHTS);
	expect_busy(mw, "bound again");
	tap_is(ibv_dealloc_mw(mw), 0, "%s: dealloc while bound", title());
	expect_free("window deallocated");
	tap_is(ibv_dereg_mr(other), 0, "%s: the other MR can go", title());
}

static void test_busy_qp(void)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);

	bind_all(mw, RIGHTS);
	if (modify_to(&pair.b, IBV_QPS_ERR))
		tap_bail("cannot modify to ERR");
	tap_is(ibv_dereg_mr(mr), EBUSY, "%s: QP in ERR: MR is busy", title());
	revive(&pair);
	if (type == IBV_MW_TYPE_2) {
		expect_free("QP was reset");
		expect_refused("QP was reset", IBV_WR_RDMA_WRITE, mw->rkey,
			       start(), 8);
		bind_all(mw, RIGHTS);
		pair_close_qp(&pair.b);
		expect_free("QP was destroyed");
		pair_open_qp(&pair, &pair.b);
		pair_reset(&pair);
		expect_refused("QP was destroyed", IBV_WR_RDMA_WRITE,
			       mw->rkey, start(), 8);
	} else {
		tap_is(ibv_dereg_mr(mr), EBUSY,
		       "%s: QP was reset: MR is busy", title());
		pair_close_qp(&pair.b);
		tap_is(ibv_dereg_mr(mr), EBUSY,
		       "%s: QP was destroyed: MR is busy", title());
		pair_open_qp(&pair, &pair.b);
		pair_reset(&pair);
		refill();
		tap_ok(is(ask(&pair, IBV_WR_RDMA_WRITE, mw->rkey, start(),
			      LENGTH), IBV_WC_SUCCESS) && only_written(1),
		       "%s: works through the new QP", title());
	}
	ibv_dealloc_mw(mw);
	expect_free("at the end");
}

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

static bool refused_with(struct outcome o, uint32_t syndrome)
{
	return is(o, IBV_WC_MW_BIND_ERR) && o.syndrome == syndrome;
}

/* libibverbs itself answers ibv_bind_mw() across PDs. */
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

/* What the provider itself refuses leaves the key as it was. */
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

/* By the API that the round is about, as a program that notes nothing. */
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

/* All values of the byte, the present one among them, the other bits anything. */
static void test_key_byte(void)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);
	uint32_t rest = mw->rkey & ~0xffu, i, key = mw->rkey;
	unsigned int wrong = 0;

	refill();
	for (i = 0; i < 3 * 256; i++) {
		/* mw->rkey, a byte alone, a byte below what is not the window's */
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
 * Posting a bind is no reason to change mw->rkey: it may end well, be refused, or be
 * flushed, and the next one is by ibv_inc_rkey(mw->rkey) each time.
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

/* ibv_bind_mw() alone chooses the key, and says so in mw->rkey. */
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
	/* The program forgot to put the key back. */
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

/* ---- invalidation ---- */

static void expect_no_inv(const char *what, uint32_t key, uint32_t syndrome)
{
	tap_ok(refused_with(invalidate(api, &pair.b, key), syndrome),
	       "%s: local invalidate: %s", title(), what);
	revive(&pair);
}

/* HWI RC-27: the receiver fails by itself, its peer hears nothing. */
static void expect_no_send_inv(const char *what, uint32_t key)
{
	struct ibv_wc wc;

	refill();
	post_receive(&pair.b, 9, pair.b.buf, 64, pair.b.mr->lkey);
	tap_ok(is(finish(&pair.a, api->send_inv(&pair.a, key, pair.a.buf, 64)),
		  IBV_WC_RETRY_EXC_ERR), "%s: send with invalidate: %s",
	       title(), what);
	tap_ok(expect_wc(pair.b.recv_cq, 9, IBV_WC_WR_FLUSH_ERR, &wc,
			 "the receive is flushed") &&
	       query_state(&pair.b) == IBV_QPS_ERR, "the receiver is in ERR");
	expect_event(pair.ctx, IBV_EVENT_QP_ACCESS_ERR, pair.b.qp,
		     "event at the responder");
	revive(&pair);
}

static void test_invalidate(void)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, IBV_MW_TYPE_2);
	struct ibv_mw *one = must_alloc_mw(pair.pd, IBV_MW_TYPE_1);
	struct ibv_wc wc = {};
	uint32_t key;

	must_bind(api, &pair.b, one, mr, start(), LENGTH, RIGHTS);
	expect_no_inv("not bound", mw->rkey, SYN_KEY);
	expect_no_inv("a plain MR", mr->rkey, SYN_KEY);
	expect_no_inv("type 1", one->rkey, SYN_WINDOW);
	expect_no_inv("a key of nobody", mr->rkey ^ 0x40, SYN_KEY);
	expect_no_send_inv("not bound", mw->rkey);
	expect_no_send_inv("a plain MR", mr->rkey);
	expect_no_send_inv("type 1", one->rkey);

	bind_all(mw, RIGHTS);
	key = dec_rkey(mw->rkey);
	expect_no_inv("old key", key, SYN_KEY);
	must_bind(api, &pair.a, mw, mr, start(), LENGTH, RIGHTS);
	expect_refused("bound on another QP", IBV_WR_RDMA_WRITE, mw->rkey,
		       start(), 8);
	must_bind(api, &pair.a, mw, mr, start(), LENGTH, RIGHTS);
	expect_no_inv("bound on another QP", mw->rkey, SYN_WINDOW);
	must_bind(api, &pair.a, mw, mr, start(), LENGTH, RIGHTS);
	expect_no_send_inv("bound on another QP", mw->rkey);

	bind_all(mw, RIGHTS);
	tap_ok(refused_with(bind_window(api, &pair.b, mw,
					ibv_inc_rkey(mw->rkey), mr, start(),
					LENGTH, RIGHTS), SYN_WINDOW),
	       "%s: bind: bound already", title());
	mw->rkey = dec_rkey(mw->rkey);
	revive(&pair);
	tap_ok(refused_with(bind_window(api, &pair.b, mw,
					ibv_inc_rkey(mw->rkey), mr, start(),
					0, RIGHTS), SYN_LENGTH),
	       "%s: bind: length 0", title());
	mw->rkey = dec_rkey(mw->rkey);
	revive(&pair);

	bind_all(mw, RIGHTS);
	refill();
	post_receive(&pair.b, 10, pair.b.buf, 64, pair.b.mr->lkey);
	tap_ok(is(finish(&pair.a, api->send_inv(&pair.a, mw->rkey, pair.a.buf,
						64)), IBV_WC_SUCCESS),
	       "%s: send with invalidate", title());
	expect_wc(pair.b.recv_cq, 10, IBV_WC_SUCCESS, &wc, "received");
	tap_ok(wc.opcode == IBV_WC_RECV && wc.byte_len == 64 &&
	       (wc.wc_flags & IBV_WC_WITH_INV) &&
	       !(wc.wc_flags & IBV_WC_WITH_IMM) &&
	       wc.invalidated_rkey == mw->rkey &&
	       is_filled(pair.b.buf, 64, 1),
	       "data, and the key that was invalidated");
	expect_refused("invalidated by the peer", IBV_WR_RDMA_WRITE, mw->rkey,
		       start(), 8);
	bind_all(mw, RIGHTS);
	refill();
	tap_ok(is(ask(&pair, IBV_WR_RDMA_WRITE, mw->rkey, start(), LENGTH),
		  IBV_WC_SUCCESS) && only_written(1), "%s: bound once more",
	       title());
	ibv_dealloc_mw(mw);
	ibv_dealloc_mw(one);
	expect_free("both deallocated");
}

static void test_as_lkey(void)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .wr_id = 5,
		.local = pair.b.buf + FROM, .length = 8,
		.remote = (uintptr_t)pair.a.buf, .rkey = pair.a.mr->rkey,
	};
	struct outcome o;

	bind_all(mw, RIGHTS);
	request.lkey = mw->rkey;
	o = finish(&pair.b, post(&pair.b, &request));
	tap_ok(is(o, IBV_WC_LOC_PROT_ERR) && o.syndrome == SYN_KEY,
	       "%s: window as lkey", title());
	revive(&pair);
	ibv_dealloc_mw(mw);
}

/* Whoever comes first wins: never both, never neither. */
static void test_race(void)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);
	unsigned int i, busy = 0, gone = 0, bad = 0;

	for (i = 0; i < 40; i++) {
		struct ibv_mw_bind_info info = {
			.mr = mr, .addr = start(), .length = LENGTH,
			.mw_access_flags = RIGHTS,
		};
		uint32_t key = mw->rkey;
		int posted = api->bind(&pair.b, mw, ibv_inc_rkey(key), &info);
		int err = ibv_dereg_mr(mr);
		struct outcome o = finish(&pair.b, posted);

		if (err == EBUSY && !o.status) {
			busy++;
			if (type == IBV_MW_TYPE_2)
				invalidate(api, &pair.b, mw->rkey);
			else
				bind_window(api, &pair.b, mw,
					    ibv_inc_rkey(mw->rkey), NULL, 0,
					    0, 0);
		} else if (!err && o.status == IBV_WC_MW_BIND_ERR) {
			gone++;
			mw->rkey = key;
			revive(&pair);
			mr = must_reg(pair.pd, pair.b.buf,
				      pair.config.buffer_size, BINDABLE);
		} else {
			bad++;
			tap_diag("errno %d, %s", err,
				 ibv_wc_status_str(o.status));
			break;
		}
	}
	tap_ok(!bad, "%s: bind against dereg: %u busy, %u gone", title(), busy,
	       gone);
	ibv_dealloc_mw(mw);
}

static void open_others(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(pair.ctx);

	if (!pd)
		tap_bail("ibv_alloc_pd: %s", strerror(errno));
	mr = must_reg(pair.pd, pair.b.buf, pair.config.buffer_size, BINDABLE);
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

	if (ibv_dereg_mr(mr) || ibv_dereg_mr(no_bind) ||
	    ibv_dereg_mr(read_only) || ibv_dereg_mr(foreign_mr) ||
	    ibv_dereg_mr(null_mr) || ibv_dealloc_pd(pd))
		tap_bail("cannot clean up");
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(argc > 1 ? argv[1] : NULL, &attr);

	config.send_ops = WINDOW_OPS;
	pair_open(&pair, ctx, &config);
	pair_connect(&pair);
	open_others();
	tap_ok(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW &&
	       attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B &&
	       !(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A) &&
	       attr.max_mw > 0, "windows of types 1 and 2B, max_mw %d",
	       attr.max_mw);
	for (api = apis; api < apis + 2; api++) {
		for (type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
			test_life();
			test_zero_based();
			test_busy();
			test_busy_qp();
			test_bad_binds();
			test_refused_posts();
			test_key_byte();
			test_key_stays();
			test_as_lkey();
			test_race();
		}
		type = IBV_MW_TYPE_2;
		test_invalidate();
	}
	test_key_of_bind_mw();
	close_others();
	pair_close(&pair);
	ibv_close_device(ctx);
	return tap_done();
}
