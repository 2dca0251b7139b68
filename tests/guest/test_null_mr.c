// SPDX-License-Identifier: GPL-2.0
/*
 * ibv_alloc_null_mr (HWI 6.6): reads give zeros, writes vanish, at every address
 * and length, alone and among other SGEs, without DMA; and it is good as an lkey
 * only.
 */
#include <errno.h>
#include <string.h>

#include "tap.h"
#include "window.h"

#define SIZE	65536u
#define KERNEL	0xffffffff81000000ull	/* not an address of a process */

static struct pair pair;
static struct ibv_mr *null;

/* Addresses without memory, or close to wrapping around. */
static const uint64_t nowhere[] = {
	0, 1, 4096, KERNEL, UINT64_MAX, UINT64_MAX - 100,
};

static struct ibv_sge real(const uint8_t *buf, uint32_t length)
{
	const struct side *side = buf >= pair.a.buf && buf < pair.a.buf + SIZE ?
				  &pair.a : &pair.b;

	return (struct ibv_sge){ (uintptr_t)buf, length, side->mr->lkey };
}

static struct ibv_sge hole(uint64_t addr, uint32_t length)
{
	return (struct ibv_sge){ addr, length, null->lkey };
}

/* Posts side a's request and returns its status. */
static enum ibv_wc_status ask_for(enum ibv_wr_opcode opcode,
				  struct ibv_sge *sges, int count,
				  uint64_t remote, uint32_t rkey)
{
	struct ibv_send_wr *bad_wr, wr = {
		.wr_id = 1, .sg_list = sges, .num_sge = count,
		.opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { remote, rkey },
	};
	struct ibv_wc wc;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	    opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 5;
	}
	if (ibv_post_send(pair.a.qp, &wr, &bad_wr))
		tap_bail("ibv_post_send");
	if (!wait_wc(pair.a.send_cq, &wc))
		tap_bail("no completion");
	return wc.status;
}

static enum ibv_wc_status with_b(enum ibv_wr_opcode opcode,
				 struct ibv_sge *sges, int count)
{
	return ask_for(opcode, sges, count, (uintptr_t)pair.b.buf,
		       pair.b.mr->rkey);
}

static void refill(void)
{
	memset(pair.a.buf, 'a', SIZE);
	memset(pair.b.buf, 'b', SIZE);
}

/* Is a side's buffer, from @from on, as refill() left it? */
static bool rest_is(const struct side *side, uint32_t from)
{
	return is_all(side->buf + from, SIZE - from, side == &pair.a ? 'a' : 'b');
}

/* ---- reads give zeros ---- */

static void test_reads(void)
{
	static const uint32_t lengths[] = { 1, 100, 4096, 10000, SIZE };
	struct ibv_sge sges[4];
	size_t i;

	for (i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
		uint32_t length = lengths[i % 5];

		refill();
		sges[0] = hole(nowhere[i], length);
		tap_ok(!with_b(IBV_WR_RDMA_WRITE, sges, 1) &&
		       is_all(pair.b.buf, length, 0) && rest_is(&pair.b, length),
		       "write from %#llx: %u zeros",
		       (unsigned long long)nowhere[i], length);
	}
	refill();
	sges[0] = real(pair.a.buf, 100);
	sges[1] = hole(KERNEL, 5000);
	sges[2] = real(pair.a.buf + 100, 33);
	sges[3] = hole(0, 1);
	tap_ok(!with_b(IBV_WR_RDMA_WRITE, sges, 4) &&
	       is_all(pair.b.buf, 100, 'a') && is_all(pair.b.buf + 100, 5000, 0) &&
	       is_all(pair.b.buf + 5100, 33, 'a') && is_all(pair.b.buf + 5133, 1, 0) &&
	       rest_is(&pair.b, 5134), "write: zeros among data");
}

static void test_send(void)
{
	struct ibv_sge from[3], to;
	struct ibv_wc wc;

	refill();
	to = real(pair.b.buf, SIZE);
	post_receive(&pair.b, 2, (void *)(uintptr_t)to.addr, to.length,
		     to.lkey);
	from[0] = hole(UINT64_MAX, 3000);
	from[1] = real(pair.a.buf, 3000);
	from[2] = hole(7, 3000);
	tap_ok(!with_b(IBV_WR_SEND, from, 3), "send: zeros around data");
	expect_wc(pair.b.recv_cq, 2, IBV_WC_SUCCESS, &wc, "send: received");
	tap_ok(wc.byte_len == 9000 && is_all(pair.b.buf, 3000, 0) &&
	       is_all(pair.b.buf + 3000, 3000, 'a') &&
	       is_all(pair.b.buf + 6000, 3000, 0) && rest_is(&pair.b, 9000),
	       "send: as sent");
}

/* ---- writes vanish ---- */

static void test_writes(void)
{
	struct ibv_sge sges[4];
	size_t i;

	for (i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
		refill();
		sges[0] = hole(nowhere[i], SIZE);
		tap_ok(!with_b(IBV_WR_RDMA_READ, sges, 1) &&
		       rest_is(&pair.a, 0) && rest_is(&pair.b, 0),
		       "read into %#llx vanishes",
		       (unsigned long long)nowhere[i]);
	}
	refill();
	fill(pair.b.buf, 6000, 1);
	sges[0] = hole(KERNEL, 1000);
	sges[1] = real(pair.a.buf, 2000);
	sges[2] = hole(0, 2000);
	sges[3] = real(pair.a.buf + 2000, 1000);
	tap_ok(!with_b(IBV_WR_RDMA_READ, sges, 4) &&
	       !memcmp(pair.a.buf, pair.b.buf + 1000, 2000) &&
	       !memcmp(pair.a.buf + 2000, pair.b.buf + 5000, 1000) &&
	       rest_is(&pair.a, 3000), "read: parts of it vanish");

	refill();
	fill(pair.b.buf, 8, 1);
	sges[0] = hole(3, 8);
	i = *(uint64_t *)pair.b.buf;
	tap_ok(!with_b(IBV_WR_ATOMIC_FETCH_AND_ADD, sges, 1) &&
	       *(uint64_t *)pair.b.buf == i + 5 && rest_is(&pair.a, 0),
	       "atomic: done, its result vanishes");
}

static void test_receive(void)
{
	struct ibv_sge to[3], from;
	struct ibv_recv_wr *bad, recv = {
		.wr_id = 3, .sg_list = to, .num_sge = 3,
	};
	struct ibv_wc wc;

	refill();
	fill(pair.a.buf, 9000, 5);
	to[0] = real(pair.b.buf, 1000);
	to[1] = hole(KERNEL, 7000);
	to[2] = real(pair.b.buf + 1000, 1000);
	from = real(pair.a.buf, 9000);
	if (ibv_post_recv(pair.b.qp, &recv, &bad))
		tap_bail("ibv_post_recv");
	tap_ok(!with_b(IBV_WR_SEND, &from, 1), "receive: sent");
	expect_wc(pair.b.recv_cq, 3, IBV_WC_SUCCESS, &wc, "receive: completed");
	tap_ok(wc.byte_len == 9000 &&
	       !memcmp(pair.b.buf, pair.a.buf, 1000) &&
	       !memcmp(pair.b.buf + 1000, pair.a.buf + 8000, 1000) &&
	       rest_is(&pair.b, 2000), "receive: the middle of it vanishes");

	refill();
	to[0] = hole(0, SIZE);
	recv.num_sge = 1;
	from = real(pair.a.buf, SIZE);
	if (ibv_post_recv(pair.b.qp, &recv, &bad))
		tap_bail("ibv_post_recv");
	tap_ok(!with_b(IBV_WR_SEND, &from, 1), "receive of nothing: sent");
	expect_wc(pair.b.recv_cq, 3, IBV_WC_SUCCESS, &wc,
		  "receive of nothing: completed");
	tap_ok(wc.byte_len == SIZE && rest_is(&pair.b, 0),
	       "receive of nothing: all of it vanishes");
}

/* Both ends use the null MR: nothing is written. */
static void test_both(void)
{
	struct ibv_sge from = hole(1, SIZE), to = hole(2, SIZE);
	struct ibv_wc wc;

	refill();
	post_receive(&pair.b, 4, (void *)(uintptr_t)to.addr, to.length,
		     to.lkey);
	tap_ok(!with_b(IBV_WR_SEND, &from, 1) && rest_is(&pair.a, 0) &&
	       rest_is(&pair.b, 0), "zeros vanish");
	expect_wc(pair.b.recv_cq, 4, IBV_WC_SUCCESS, &wc, "and complete");
}

/* ---- what it is not good for ---- */

static void refused_as_rkey(enum ibv_wr_opcode opcode, const char *what,
			    uint32_t rkey)
{
	struct ibv_sge sge = real(pair.a.buf, 8);
	enum ibv_wc_status status;

	refill();
	status = ask_for(opcode, &sge, 1, (uintptr_t)pair.b.buf, rkey);
	tap_ok(ended_with(status, IBV_WC_REM_ACCESS_ERR) &&
	       rest_is(&pair.a, 0) && rest_is(&pair.b, 0), "as the rkey of a %s: %s", what,
	       ibv_wc_status_str(status));
	expect_event(pair.ctx, IBV_EVENT_QP_ACCESS_ERR, pair.b.qp,
		     "event at the responder");
	revive(&pair);
}

static void test_as_rkey(void)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		const char *name;
	} ops[] = {
		{ IBV_WR_RDMA_WRITE, "write" },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, "write with immediate" },
		{ IBV_WR_RDMA_READ, "read" },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, "fetch and add" },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, "compare and swap" },
	};
	size_t i;

	for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		refused_as_rkey(ops[i].opcode, ops[i].name, null->lkey);
		refused_as_rkey(ops[i].opcode, ops[i].name, null->rkey);
	}
}

static void test_binds(enum ibv_mw_type type)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, type);
	uint32_t key = mw->rkey;
	struct outcome o;

	o = bind_window(&apis[0], &pair.b, mw, ibv_inc_rkey(key), null, 0, 4096,
			IBV_ACCESS_REMOTE_READ);
	tap_ok(!o.posted && o.status == IBV_WC_MW_BIND_ERR &&
	       o.syndrome == SYN_KEY, "bind of type %d: %s", (int)type,
	       ibv_wc_status_str(o.status));
	/*
	 * The refused bind has changed nothing but mw->rkey, which is the library's
	 * note.
	 */
	mw->rkey = key;
	revive(&pair);
	must_bind(&apis[0], &pair.b, mw, pair.b.mr, (uintptr_t)pair.b.buf, 4096,
		  IBV_ACCESS_REMOTE_READ);
	tap_ok(!ask(&pair, IBV_WR_RDMA_READ, mw->rkey, (uintptr_t)pair.b.buf,
		    4096).status, "type %d: the window takes a real MR",
	       (int)type);
	ibv_dealloc_mw(mw);
}

static void test_rereg(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(pair.ctx);
	int flags, refused = 0;

	for (flags = 1; flags < 8; flags++) {
		errno = 0;
		refused += ibv_rereg_mr(null, flags, pd, pair.a.buf, 4096,
					flags & IBV_REREG_MR_CHANGE_ACCESS ?
					IBV_ACCESS_LOCAL_WRITE : 0) ==
			   IBV_REREG_MR_ERR_INPUT && errno == EINVAL;
	}
	tap_is(refused, 7, "rereg: EINVAL, whatever its flags");
	ibv_dealloc_pd(pd);
}

/* Any number of null MRs, in any PD, have the same key. */
static void test_pds(void)
{
	struct ibv_pd *pd = ibv_alloc_pd(pair.ctx);
	struct ibv_mr *other = pd ? ibv_alloc_null_mr(pd) : NULL;
	struct ibv_sge sge;

	if (!other)
		tap_bail("ibv_alloc_null_mr: %s", strerror(errno));
	tap_ok(other->lkey == null->lkey && other->length == SIZE_MAX &&
	       !other->addr && other->pd == pd, "another one, of another PD");
	refill();
	sge = (struct ibv_sge){ 9, 50, other->lkey };
	tap_ok(!with_b(IBV_WR_RDMA_WRITE, &sge, 1) && is_all(pair.b.buf, 50, 0),
	       "its key is good with every PD");
	tap_is(ibv_dereg_mr(other), 0, "dereg");
	tap_ok(!with_b(IBV_WR_RDMA_WRITE, &sge, 1), "and stays good");
	tap_is(ibv_dealloc_pd(pd), 0, "it does not hold its PD");
}

int main(int argc, char **argv)
{
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;

	config.buffer_size = SIZE;
	pair_open(&pair, open_nic(argc > 1 ? argv[1] : NULL, &attr), &config);
	/* Replace side b's MR by one that windows can be bound to. */
	ibv_dereg_mr(pair.b.mr);
	pair.b.mr = must_reg(pair.pd, pair.b.buf, SIZE,
			     ALL_ACCESS | IBV_ACCESS_MW_BIND);
	pair_connect(&pair);
	null = ibv_alloc_null_mr(pair.pd);
	if (!tap_ok(null && null->lkey, "alloc"))
		return tap_done();
	test_reads();
	test_send();
	test_writes();
	test_receive();
	test_both();
	test_as_rkey();
	test_binds(IBV_MW_TYPE_1);
	test_binds(IBV_MW_TYPE_2);
	test_rereg();
	test_pds();
	tap_is(ibv_dereg_mr(null), 0, "dereg");
	pair_close(&pair);
	ibv_close_device(pair.ctx);
	return tap_done();
}
