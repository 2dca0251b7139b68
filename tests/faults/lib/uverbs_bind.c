// SPDX-License-Identifier: GPL-2.0
/*
 * Windows are bound by work requests, not by calls (HWI 6.7, 10), so this posts to a QP
 * that is in no pool. Changed calls may hit that QP all the same, and so may doorbell
 * writes at random through a mapping: then nothing is bound until there is another
 * context.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <infiniband/verbs.h>
#include <moor/moor_hw.h>

#include "uverbs_build.h"

#define LOG_CQE		4
#define LOG_DEPTH	4
#define LOG_STRIDE	7
#define WAIT_NS		200000000ull	/* for a completion, if there is one */

static struct {
	bool works;
	uint32_t pd, qp, qpn;
	uint8_t *rings;			/* a page each: CQ, SQ, RQ */
	void *pages[3];			/* of doorbells: CQ, SQ, its kick page */
	volatile uint64_t *cq_slot, *sq_slot;
	volatile uint32_t *kick;
	uint32_t consumer, producer;
} binder;

uint32_t pick_pd(void)
{
	return binder.works && below(4) ? binder.pd : pick(PD);
}

static bool to_state(uint32_t state)
{
	begin();
	put_modify_qp(binder.qp, state, binder.qpn);
	return !issue();
}

static bool to_rts(void)
{
	binder.producer = 0;
	*binder.sq_slot = 0;
	return to_state(IBV_QPS_RESET) && to_state(IBV_QPS_INIT) &&
	       to_state(IBV_QPS_RTR) && to_state(IBV_QPS_RTS);
}

static bool make_queues(struct moor_create_cq_resp *cq, struct moor_create_qp_resp *qp)
{
	struct moor_create_qp_req req = {
		.sq_addr = (uintptr_t)binder.rings + PAGE,
		.rq_addr = (uintptr_t)binder.rings + 2 * PAGE,
		.log_sq_depth = LOG_DEPTH, .log_sq_stride = LOG_STRIDE,
		.log_rq_depth = LOG_DEPTH, .log_rq_stride = LOG_STRIDE,
	};
	const struct cq_answer *new_cq;
	const struct qp_answer *new_qp;
	uint32_t handle;

	begin();
	build_alloc_pd();
	if (issue())
		return false;
	binder.pd = *call.handle;
	begin();
	new_cq = put_create_cq((uintptr_t)binder.rings, LOG_CQE, -1);
	if (issue())
		return false;
	handle = new_cq->core.cq_handle;
	*cq = new_cq->driver;
	begin();
	new_qp = put_create_qp(&req, binder.pd, handle, handle);
	if (issue())
		return false;
	binder.qp = new_qp->core.qp_handle;
	binder.qpn = new_qp->core.qpn;
	*qp = new_qp->driver;
	return true;
}

static void *map_page(uint32_t number, uint64_t offset)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, uverbs_fd,
			  offset);

	binder.pages[number] = page == MAP_FAILED ? NULL : page;
	return binder.pages[number];
}

bool binder_open(void)
{
	struct moor_create_cq_resp cq;
	struct moor_create_qp_resp qp;

	if (!binder.rings)
		binder.rings = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (binder.rings == MAP_FAILED)
		return false;
	memset(binder.rings, 0, 3 * PAGE);
	if (!make_queues(&cq, &qp) || !map_page(0, cq.db.doorbell_mmap_offset) ||
	    !map_page(1, qp.db.doorbell_mmap_offset) ||
	    !map_page(2, qp.db.kick_mmap_offset))
		return false;
	binder.cq_slot = binder.pages[0] + cq.db.slot_offset;
	binder.sq_slot = binder.pages[1] + qp.db.slot_offset;
	binder.kick = binder.pages[2] + qp.db.slot_offset;
	binder.consumer = 0;
	binder.works = to_rts();
	return binder.works;
}

void binder_close(void)
{
	int i;

	for (i = 0; i < 3; i++)
		if (binder.pages[i])
			munmap(binder.pages[i], PAGE);
	memset(binder.pages, 0, sizeof(binder.pages));
	binder.works = false;
}

/* ---- work requests ---- */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* Waits for the next CQE. Returns its status, or -1. */
static int completion(void)
{
	struct moor_cqe *cqe = (struct moor_cqe *)binder.rings +
			       (binder.consumer & ((1u << LOG_CQE) - 1));
	uint32_t phase = !(binder.consumer >> LOG_CQE & 1);
	uint64_t end = now_ns() + WAIT_NS;

	while ((__atomic_load_n(&cqe->phase, __ATOMIC_ACQUIRE) & 1) != phase)
		if (now_ns() > end)
			return -1;
	*binder.cq_slot = ++binder.consumer;
	return cqe->status;
}

static struct moor_sq_wqe *new_wqe(uint8_t opcode)
{
	uint32_t slot = binder.producer++ & ((1u << LOG_DEPTH) - 1);
	struct moor_sq_wqe *wqe = (void *)(binder.rings + PAGE + (slot << LOG_STRIDE));

	*wqe = (struct moor_sq_wqe){ .opcode = opcode, .flags = MOOR_WQE_FLAG_SIGNALED };
	return wqe;
}

/*
 * Rings the doorbell and waits. Returns 0; or EREMOTEIO if the NIC refused the request,
 * after which the QP is reset.
 */
static int post(void)
{
	int status;

	__atomic_store_n(binder.sq_slot, binder.producer, __ATOMIC_SEQ_CST);
	*binder.kick = 1;
	status = completion();
	if (status > 0)
		binder.works = to_rts();
	else if (status < 0)
		binder.works = false;
	return status ? EREMOTEIO : 0;
}

/* The QP's reset has unbound all windows of type 2 (HWI DYN-11). */
static void note_reset(void)
{
	uint32_t i;

	for (i = 0; i < pool[MW].count; i++)
		if (pool[MW].object[i].type == 2)
			pool[MW].object[i].bound = false;
}

static int post_bind(struct object *mw, const struct moor_wqe_bind *bind)
{
	int err;

	*(struct moor_wqe_bind *)(new_wqe(MOOR_WQE_BIND_MW) + 1) = *bind;
	err = post();
	if (!err)
		mw->key = bind->new_key;
	else
		note_reset();
	return err;
}

/* A key is the consumer's in its lowest byte alone. */
static uint32_t next_key(uint32_t key)
{
	return (key & ~0xffu) | ((key + 1) & 0xff);
}

static struct object *any(enum kind kind)
{
	return pool[kind].count ? &pool[kind].object[below(pool[kind].count)] : NULL;
}

int bind_some(void)
{
	struct object *mw = any(MW), *mr = any(MR);
	struct moor_wqe_bind bind = {};
	int err;

	if (!binder.works || !mw || !mr || (mw->type == 2 && mw->bound))
		return ENOENT;
	bind.mw_key = mw->key;
	bind.new_key = next_key(mw->key);
	bind.mr_lkey = mr->key;
	bind.access = MOOR_ACCESS_REMOTE_READ;
	bind.addr = mr->start;
	bind.length = 1 + below(64);
	err = post_bind(mw, &bind);
	mw->bound = !err || (mw->type == 1 && mw->bound);
	return err;
}

int unbind_some(void)
{
	struct object *mw = any(MW);
	struct moor_wqe_bind bind = {};
	int err;

	if (!binder.works || !mw || !mw->bound)
		return ENOENT;
	bind.mw_key = mw->key;
	bind.new_key = next_key(mw->key);
	if (mw->type == 1) {
		err = post_bind(mw, &bind);
	} else {
		new_wqe(MOOR_WQE_LOCAL_INV)->inv_key = mw->key;
		err = post();
		if (err)
			note_reset();
	}
	mw->bound = mw->bound && err;
	return err;
}
