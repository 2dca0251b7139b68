// SPDX-License-Identifier: GPL-2.0
/*
 * Memory windows (HWI 6.7): what a window allows, how it ends, and that an MR with
 * windows cannot be deregistered. Everything by ibv_post_send() and by ibv_wr_*().
 */
#include <errno.h>
#include <string.h>

#include "bench.h"
#include "tap.h"

/* The key that ibv_inc_rkey() turns into this one. */
static uint32_t dec_rkey(uint32_t key)
{
	return (key & ~0xffu) | ((key - 1) & 0xff);
}

/* A revival leaves a window of type 1 bound, but unbinds one of type 2. */
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

/* EBUSY leaves MR and window unchanged; the MR can go after the window. */
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

/* ---- invalidation ---- */

static void expect_no_inv(const char *what, uint32_t key, uint32_t syndrome)
{
	tap_ok(refused_with(invalidate(api, &pair.b, key), syndrome),
	       "%s: local invalidate: %s", title(), what);
	revive(&pair);
}

/* HWI RC-27: the receiving QP fails without an answer to its peer. */
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

/* A bind and a deregistration race: exactly one of them succeeds. */
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

int main(int argc, char **argv)
{
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(argc > 1 ? argv[1] : NULL, &attr);

	bench_open(ctx);
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
			test_as_lkey();
			test_race();
		}
		type = IBV_MW_TYPE_2;
		test_invalidate();
	}
	bench_close();
	ibv_close_device(ctx);
	return tap_done();
}
