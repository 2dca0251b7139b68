// SPDX-License-Identifier: GPL-2.0
/*
 * Keys that have been valid and used, and are not any more, in every kind of
 * operation that takes a key: each use fails with the right error and changes
 * no byte at either end. This must not depend on what a NIC has cached of the
 * key (--strict), nor on the memory having another key.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "window.h"

#define SIZE	8192u		/* of the memory that the key is for */
#define MESSAGE	3000u		/* some packets, over a page's end */
#define FROM	2048u
#define RIGHTS	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		 IBV_ACCESS_REMOTE_ATOMIC)

/* The uses of a key. The last one is tried with MRs alone. */
static const struct use {
	const char *name;
	enum ibv_wr_opcode opcode;
	enum { REMOTE, LOCAL, SECOND, RECEIVE, BIND } place;
} uses[] = {
	{ "WRITE", IBV_WR_RDMA_WRITE, REMOTE },
	{ "WRITE with immediate", IBV_WR_RDMA_WRITE_WITH_IMM, REMOTE },
	{ "READ", IBV_WR_RDMA_READ, REMOTE },
	{ "compare and swap", IBV_WR_ATOMIC_CMP_AND_SWP, REMOTE },
	{ "fetch and add", IBV_WR_ATOMIC_FETCH_AND_ADD, REMOTE },
#define NUM_REMOTE	5
	{ "SEND from it", IBV_WR_SEND, LOCAL },
	{ "SEND with immediate from it", IBV_WR_SEND_WITH_IMM, LOCAL },
	{ "WRITE from it", IBV_WR_RDMA_WRITE, LOCAL },
	{ "WRITE with immediate from it", IBV_WR_RDMA_WRITE_WITH_IMM, LOCAL },
	{ "READ into it", IBV_WR_RDMA_READ, LOCAL },
	{ "compare and swap into it", IBV_WR_ATOMIC_CMP_AND_SWP, LOCAL },
	{ "fetch and add into it", IBV_WR_ATOMIC_FETCH_AND_ADD, LOCAL },
	{ "SEND from it as second SGE", IBV_WR_SEND, SECOND },
	{ "WRITE from it as second SGE", IBV_WR_RDMA_WRITE, SECOND },
	{ "READ into it as second SGE", IBV_WR_RDMA_READ, SECOND },
	{ "receive into it", IBV_WR_SEND, RECEIVE },
	{ "bind to it", IBV_WR_BIND_MW, BIND },
};

#define NUM_USES	((int)(sizeof(uses) / sizeof(uses[0])))

static struct pair pair;
static struct ibv_pd *away;
static uint8_t *memory;
static struct ibv_mr *holder;	/* another MR over the memory */
static unsigned int tries;

static bool is_atomic(const struct use *use)
{
	return use->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       use->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool takes_receive(const struct use *use)
{
	return use->opcode == IBV_WR_SEND ||
	       use->opcode == IBV_WR_SEND_WITH_IMM ||
	       use->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static enum ibv_wc_status error_of(const struct use *use)
{
	static const enum ibv_wc_status errors[] = {
		[REMOTE] = IBV_WC_REM_ACCESS_ERR,
		[LOCAL] = IBV_WC_LOC_PROT_ERR,
		[SECOND] = IBV_WC_LOC_PROT_ERR,
		[RECEIVE] = IBV_WC_REM_OP_ERR,
		[BIND] = IBV_WC_MW_BIND_ERR,
	};

	return errors[use->place];
}

/* Posts the use's request, with @key as lkey or rkey. */
static int post_use(struct side *side, const struct use *use, uint32_t key,
		    uint64_t addr)
{
	struct side *peer = side == &pair.a ? &pair.b : &pair.a;
	struct ibv_sge sge[2] = {
		{ (uintptr_t)side->buf, MESSAGE, side->mr->lkey },
		{ addr, MESSAGE, key },
	};
	struct ibv_send_wr *bad_wr, wr = {
		.opcode = use->opcode, .send_flags = IBV_SEND_SIGNALED,
		.sg_list = sge, .num_sge = use->place == SECOND ? 2 : 1,
	};
	uint64_t remote = (uintptr_t)peer->buf;
	uint32_t rkey = peer->mr->rkey;

	if (use->place == LOCAL)
		sge[0] = sge[1];
	if (use->place == REMOTE) {
		remote = addr;
		rkey = key;
	}
	if (is_atomic(use)) {
		sge[0].length = 8;
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = *(uint64_t *)memory;
		wr.wr.atomic.swap = 77;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(side->qp, &wr, &bad_wr);
}

static struct outcome bind_to(uint32_t key, uint64_t addr)
{
	struct ibv_mw *mw = must_alloc_mw(pair.pd, IBV_MW_TYPE_1);
	struct ibv_mr mr = *pair.a.mr;
	struct outcome o;

	mr.lkey = key;
	o = bind_window(&apis[1], &pair.a, mw, ibv_inc_rkey(mw->rkey), &mr,
			addr, MESSAGE, RIGHTS);
	if (ibv_dealloc_mw(mw))
		tap_bail("ibv_dealloc_mw");
	return o;
}

static struct outcome try_use(const struct use *use, uint32_t key,
			      uint64_t addr)
{
	struct side *asks = use->place == RECEIVE ? &pair.b : &pair.a;
	struct side *other = use->place == RECEIVE ? &pair.a : &pair.b;

	if (use->place == BIND)
		return bind_to(key, addr);
	if (use->place == RECEIVE)
		post_receive(other, 1, (void *)(uintptr_t)addr, MESSAGE, key);
	else if (takes_receive(use))
		post_receive(other, 1, other->buf, 2 * MESSAGE,
			     other->mr->lkey);
	return finish(asks, post_use(asks, use, key, addr));
}

static void drain(void)
{
	struct ibv_wc wc;

	revive(&pair);
	while (ibv_poll_cq(pair.a.recv_cq, 1, &wc) > 0 ||
	       ibv_poll_cq(pair.b.recv_cq, 1, &wc) > 0)
		;
}

/* Has the receive into memory of a dead key failed? */
static bool receive_failed(void)
{
	struct ibv_wc wc;

	return wait_wc(pair.a.recv_cq, &wc) &&
	       wc.status == IBV_WC_LOC_PROT_ERR;
}

/* Uses the key while it is valid, so that the NIC may cache it. */
static unsigned int is_good(const struct use *use, uint32_t key, uint64_t addr)
{
	struct outcome o = try_use(use, key, addr);
	bool good = !o.posted && !o.status;

	if (!good)
		tap_diag("%s: alive: errno %d, %s", use->name, o.posted,
			 ibv_wc_status_str(o.status));
	return !good;
}

static unsigned int is_dead(const struct use *use, uint32_t key, uint64_t addr,
			    const uint8_t *target)
{
	struct outcome o;
	bool dead;

	tries++;
	drain();
	fill(pair.a.buf, 2 * MESSAGE, 1);
	fill(pair.b.buf, 2 * MESSAGE, 2);
	fill(memory, SIZE, 3);
	o = try_use(use, key, addr);
	dead = !o.posted && ended_with(o.status, error_of(use)) &&
	       (use->place != RECEIVE || receive_failed()) &&
	       is_filled(pair.a.buf, 2 * MESSAGE, 1) &&
	       is_filled(pair.b.buf, 2 * MESSAGE, 2) &&
	       is_filled(target, SIZE, 3);
	if (!dead)
		tap_diag("%s: dead: errno %d, %s (syndrome %u)", use->name,
			 o.posted, ibv_wc_status_str(o.status), o.syndrome);
	drain();
	return !dead;
}

/* ---- how an MR's key becomes invalid ---- */

enum death { DEREG, DEREG_AND_REG, MOVE, TO_OTHER_PD, LESS_RIGHTS, DEATHS };

static const char *const death_names[] = {
	[DEREG] = "deregistered",
	[DEREG_AND_REG] = "deregistered, its memory registered again",
	[MOVE] = "re-registered elsewhere",
	[TO_OTHER_PD] = "re-registered to another PD",
	[LESS_RIGHTS] = "re-registered without rights",
};

/* Makes @mr's key invalid. Returns the MR that exists afterwards, or NULL. */
static struct ibv_mr *end_mr(struct ibv_mr *mr, enum death death,
			     uint8_t *elsewhere)
{
	const int trans = IBV_REREG_MR_CHANGE_TRANSLATION;
	int err = 0;

	switch (death) {
	case MOVE:
		err = ibv_rereg_mr(mr, trans, NULL, elsewhere, SIZE, 0);
		break;
	case TO_OTHER_PD:
		err = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, away, NULL, 0,
				   0);
		break;
	case LESS_RIGHTS:
		err = ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL,
				   0, 0);
		break;
	default:
		err = ibv_dereg_mr(mr);
		mr = NULL;
		break;
	}
	if (err)
		tap_bail("cannot end the MR: %s", strerror(errno));
	if (death == DEREG_AND_REG)
		mr = must_reg(pair.pd, memory, SIZE,
			      ALL_ACCESS | IBV_ACCESS_MW_BIND);
	return mr;
}

/* An MR without rights may still be sent from. */
static bool still_may(const struct use *use, enum death death)
{
	return death == LESS_RIGHTS &&
	       (use->place == LOCAL || use->place == SECOND) &&
	       use->opcode != IBV_WR_RDMA_READ && !is_atomic(use);
}

static void test_mr(enum death death)
{
	uint8_t *elsewhere = aligned_alloc(4096, SIZE);
	uint64_t addr = (uintptr_t)memory + FROM;
	unsigned int wrong = 0;
	struct ibv_mr *mr;
	uint32_t key;
	int i;

	for (i = 0; i < NUM_USES; i++) {
		if (still_may(&uses[i], death))
			continue;
		mr = must_reg(pair.pd, memory, SIZE,
			      ALL_ACCESS | IBV_ACCESS_MW_BIND);
		key = mr->lkey;
		wrong += is_good(&uses[i], key, addr);
		mr = end_mr(mr, death, elsewhere);
		wrong += is_dead(&uses[i], key, addr, memory);
		if (mr && ibv_dereg_mr(mr))
			tap_bail("ibv_dereg_mr");
	}
	tap_is(wrong, 0, "an MR %s", death_names[death]);
	free(elsewhere);
}

/* On-NIC memory, after it has been freed. */
static void test_dm(void)
{
	struct ibv_alloc_dm_attr attr = { .length = SIZE };
	unsigned int wrong = 0;
	uint8_t *copy = malloc(SIZE);
	struct ibv_mr *mr;
	struct ibv_dm *dm;
	int i;

	dm = ibv_alloc_dm(pair.ctx, &attr);
	if (!dm)
		tap_bail("ibv_alloc_dm: %s", strerror(errno));
	for (i = 0; i < NUM_USES - 1; i++) {
		mr = ibv_reg_dm_mr(pair.pd, dm, 0, SIZE,
				   IBV_ACCESS_ZERO_BASED | ALL_ACCESS);
		if (!mr)
			tap_bail("ibv_reg_dm_mr: %s", strerror(errno));
		wrong += is_good(&uses[i], mr->lkey, FROM);
		fill(memory, SIZE, 3);
		if (ibv_dereg_mr(mr) ||
		    ibv_memcpy_to_dm(dm, 0, memory, SIZE))
			tap_bail("on-NIC memory");
		wrong += is_dead(&uses[i], mr->lkey, FROM, memory);
		if (ibv_memcpy_from_dm(copy, dm, 0, SIZE))
			tap_bail("on-NIC memory");
		wrong += !is_filled(copy, SIZE, 3);
	}
	tap_is(wrong, 0, "an MR over on-NIC memory");
	ibv_free_dm(dm);
	free(copy);
}

/* ---- how a window's key becomes invalid ---- */

static void unbind(struct ibv_mw *mw)
{
	struct ibv_mw_bind_info nothing = {};
	struct outcome o;

	o = finish(&pair.b, apis[1].bind(&pair.b, mw, ibv_inc_rkey(mw->rkey),
					 &nothing));
	if (o.posted || o.status)
		tap_bail("unbinding");
}

/* Binds the window again to the same memory: all but the key would be right. */
static void rebind(struct ibv_mw *mw)
{
	must_bind(&apis[1], &pair.b, mw, holder, (uintptr_t)memory, SIZE,
		  RIGHTS);
}

static void local_inv(struct ibv_mw *mw)
{
	struct outcome o = invalidate(&apis[1], &pair.b, mw->rkey);

	if (o.posted || o.status)
		tap_bail("LOCAL_INV");
}

static void remote_inv(struct ibv_mw *mw)
{
	struct outcome o;

	post_receive(&pair.b, 1, pair.b.buf, 64, pair.b.mr->lkey);
	o = finish(&pair.a, apis[1].send_inv(&pair.a, mw->rkey, pair.a.buf,
					     64));
	if (o.posted || o.status)
		tap_bail("SEND_WITH_INV");
}

static void reset(struct ibv_mw *mw)
{
	(void)mw;
	drain();
}

static void destroy(struct ibv_mw *mw)
{
	(void)mw;
	pair_close_qp(&pair.b);
	pair_open_qp(&pair, &pair.b);
	drain();
}

static void test_window(enum ibv_mw_type type, void (*end)(struct ibv_mw *mw),
			const char *name)
{
	uint64_t addr = (uintptr_t)memory + FROM;
	unsigned int wrong = 0;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	uint32_t key;
	int i;

	for (i = 0; i < NUM_REMOTE; i++) {
		mr = must_reg(pair.pd, memory, SIZE, BINDABLE);
		mw = must_alloc_mw(pair.pd, type);
		must_bind(&apis[1], &pair.b, mw, mr, (uintptr_t)memory, SIZE,
			  RIGHTS);
		key = mw->rkey;
		wrong += is_good(&uses[i], key, addr);
		if (end)
			end(mw);
		else if (ibv_dealloc_mw(mw))
			tap_bail("ibv_dealloc_mw");
		wrong += is_dead(&uses[i], key, addr, memory);
		if (end && ibv_dealloc_mw(mw))
			tap_bail("ibv_dealloc_mw");
		if (ibv_dereg_mr(mr))
			tap_bail("ibv_dereg_mr: %s", strerror(errno));
	}
	tap_is(wrong, 0, "a window of type %d %s", (int)type, name);
}

int main(void)
{
	struct pair_config config = pair_defaults;
	struct ibv_device_attr attr;

	config.send_ops = WINDOW_OPS;
	pair_open(&pair, open_nic(NULL, &attr), &config);
	pair_connect(&pair);
	away = ibv_alloc_pd(pair.ctx);
	memory = aligned_alloc(4096, SIZE);
	holder = must_reg(pair.pd, memory, SIZE, BINDABLE);

	for (enum death death = 0; death < DEATHS; death++)
		test_mr(death);
	test_dm();
	test_window(IBV_MW_TYPE_1, unbind, "unbound");
	test_window(IBV_MW_TYPE_1, rebind, "bound anew");
	test_window(IBV_MW_TYPE_1, NULL, "deallocated");
	test_window(IBV_MW_TYPE_2, local_inv, "invalidated here");
	test_window(IBV_MW_TYPE_2, remote_inv, "invalidated from afar");
	test_window(IBV_MW_TYPE_2, NULL, "deallocated");
	test_window(IBV_MW_TYPE_2, reset, "whose QP is reset");
	test_window(IBV_MW_TYPE_2, destroy, "whose QP is destroyed");
	tap_ok(tries > 100, "keys tried after their end: %u", tries);
	if (ibv_dereg_mr(holder) || ibv_dealloc_pd(away))
		tap_bail("cannot clean up");
	pair_close(&pair);
	return tap_done();
}
