// SPDX-License-Identifier: GPL-2.0
/* Requests, how they must end, and their effect on memory. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "tap.h"
#include "mix.h"

#define DEADLINE_S	60

/* The ways to access memory by a key. */
enum way {
	WRITE, READ, FETCH_ADD, CMP_SWAP,	/* by an rkey */
	GATHER, SCATTER, RECEIVE,		/* by an lkey */
	WAYS,
};

static const enum ibv_wr_opcode opcodes[] = {
	[WRITE] = IBV_WR_RDMA_WRITE, [READ] = IBV_WR_RDMA_READ,
	[FETCH_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
	[CMP_SWAP] = IBV_WR_ATOMIC_CMP_AND_SWP,
	[GATHER] = IBV_WR_RDMA_WRITE, [SCATTER] = IBV_WR_RDMA_READ,
};

static time_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec;
}

/* Waits for the next completion; yields so that other threads run meanwhile. */
void reap(struct worker *w, struct ibv_cq *cq, struct ibv_wc *wc)
{
	time_t end = now() + DEADLINE_S;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, wc))) {
		if (now() > end)
			wrong(w, "a completion is lost");
		sched_yield();
	}
	if (n < 0)
		wrong(w, "ibv_poll_cq: %d", n);
	count(w, COMPLETED);
}

/* Has this side's asynchronous events counted for the worker. */
void watch(struct worker *w, struct side *side)
{
	side->qp->qp_context = w;
}

static void await_events(struct worker *w)
{
	time_t end = now() + DEADLINE_S;

	while (atomic_load(&w->events) != w->events_due) {
		if (now() > end)
			wrong(w, "%llu asynchronous events, %llu are due",
			      (unsigned long long)w->events,
			      (unsigned long long)w->events_due);
		sched_yield();
	}
}

/* Resets and connects both QPs; this unbinds windows of type 2. */
void reset_qps(struct worker *w)
{
	count(w, QP_RESET);
	pair_reset(&w->pair);
	forget_type_2(w);
}

/* Gives the side that answers a new QP. */
void destroy_qp(struct worker *w)
{
	count(w, QP_DESTROY);
	pair_close_qp(&w->pair.b);
	pair_open_qp(&w->pair, &w->pair.b);
	watch(w, &w->pair.b);
	pair_reset(&w->pair);
	forget_type_2(w);
}

/*
 * The request posted to @side must end with @wanted. After an error, both QPs are
 * reset; before that it waits for the event that a refusal raises at the responder.
 */
void settle(struct worker *w, struct side *side, int posted,
	    enum ibv_wc_status wanted, bool peer_refuses, const char *what)
{
	struct ibv_wc wc;

	if (posted)
		wrong(w, "%s: posting: %s", what, strerror(posted));
	count(w, POSTED);
	reap(w, side->send_cq, &wc);
	if (wc.status != wanted)
		wrong(w, "%s: %s (syndrome %u), not %s", what,
		      ibv_wc_status_str(wc.status), wc.vendor_err,
		      ibv_wc_status_str(wanted));
	if (!wc.status)
		return;
	count(w, REFUSED_REQUEST);
	if (peer_refuses) {
		count(w, REFUSED_PEER);
		count(w, EVENTS_DUE);
		w->events_due++;
		await_events(w);
	}
	reset_qps(w);
}

void check_arena(struct worker *w, size_t offset, size_t length)
{
	size_t i;

	if (!memcmp(w->arena + offset, w->shadow + offset, length))
		return;
	for (i = offset; w->arena[i] == w->shadow[i]; i++)
		;
	wrong(w, "memory: byte %zu of the arena is 0x%02x, not 0x%02x", i,
	      w->arena[i], w->shadow[i]);
}

static bool is_atomic(enum way way)
{
	return way == FETCH_ADD || way == CMP_SWAP;
}

static unsigned int needed(enum way way)
{
	switch (way) {
	case WRITE:
		return IBV_ACCESS_REMOTE_WRITE;
	case READ:
		return IBV_ACCESS_REMOTE_READ;
	case FETCH_ADD:
	case CMP_SWAP:
		return IBV_ACCESS_REMOTE_ATOMIC;
	case GATHER:
		return 0;
	default:
		return IBV_ACCESS_LOCAL_WRITE;
	}
}

/* An attempt to access memory, and whether it is allowed. */
struct attempt {
	enum way way;
	uint32_t key, length;
	uint64_t addr;
	size_t offset;		/* in the arena; valid if allowed */
	bool allowed;
	const char *what;
};

/* Applies an atomic operation to the shadow. */
static void do_atomic(uint8_t *memory, const struct request *request)
{
	uint64_t value;

	memcpy(&value, memory, sizeof(value));
	if (request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		value += request->compare_add;
	else if (value == request->compare_add)
		value = request->swap;
	memcpy(memory, &value, sizeof(value));
}

/* Access by an rkey; the local end is a's buffer. */
static void attempt_remote(struct worker *w, const struct attempt *try)
{
	uint8_t *buf = w->pair.a.buf, *shadow = w->shadow + try->offset;
	uint8_t seed = (uint8_t)draw(w);
	struct request request = {
		.opcode = opcodes[try->way], .wr_id = w->steps,
		.local = buf, .length = try->length,
		.lkey = w->pair.a.mr->lkey,
		.remote = try->addr, .rkey = try->key,
		.compare_add = draw(w), .swap = draw(w),
	};

	/* Let half of the swaps take place. */
	if (try->way == CMP_SWAP && try->allowed && draw(w) & 1)
		memcpy(&request.compare_add, shadow, 8);
	fill(buf, try->length, seed);
	settle(w, &w->pair.a, post(&w->pair.a, &request),
	       try->allowed ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR, true,
	       try->what);
	if (try->allowed && try->way == WRITE)
		memcpy(shadow, buf, try->length);
	else if (try->allowed && memcmp(buf, shadow, try->length))
		wrong(w, "%s: read other data than is there", try->what);
	else if (!try->allowed && !is_filled(buf, try->length, seed))
		wrong(w, "%s: refused, but data has come", try->what);
	if (try->allowed && is_atomic(try->way))
		do_atomic(shadow, &request);
}

/*
 * Access by an lkey of a's in a send request; the other end is b's buffer, by a valid
 * key.
 */
static void attempt_local(struct worker *w, const struct attempt *try)
{
	uint8_t *buf = w->pair.b.buf, *shadow = w->shadow + try->offset;
	uint8_t seed = (uint8_t)draw(w);
	struct request request = {
		.opcode = opcodes[try->way], .wr_id = w->steps,
		.local = (uint8_t *)(uintptr_t)try->addr,
		.length = try->length, .lkey = try->key,
		.remote = (uintptr_t)buf, .rkey = w->pair.b.mr->rkey,
	};

	fill(buf, try->length, seed);
	settle(w, &w->pair.a, post(&w->pair.a, &request),
	       try->allowed ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR, false,
	       try->what);
	if (try->allowed && try->way == SCATTER)
		memcpy(shadow, buf, try->length);
	else if (try->allowed && memcmp(buf, shadow, try->length))
		wrong(w, "%s: sent other data than is there", try->what);
	else if (!try->allowed && !is_filled(buf, try->length, seed))
		wrong(w, "%s: refused, but data has come", try->what);
}

/* Access by the lkey of a receive of a's; b sends the message. */
static void attempt_receive(struct worker *w, const struct attempt *try)
{
	struct side *a = &w->pair.a, *b = &w->pair.b;
	struct request request = {
		.opcode = IBV_WR_SEND, .wr_id = w->steps, .local = b->buf,
		.length = try->length, .lkey = b->mr->lkey,
	};
	struct ibv_wc wc;

	if (post_receive(a, w->steps, (void *)(uintptr_t)try->addr,
			 try->length, try->key))
		wrong(w, "%s: posting a receive", try->what);
	count(w, POSTED);
	fill(b->buf, try->length, (uint8_t)draw(w));
	if (post(b, &request))
		wrong(w, "%s: posting a send", try->what);
	count(w, POSTED);
	reap(w, a->recv_cq, &wc);
	if (wc.status != (try->allowed ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR))
		wrong(w, "%s: the receive ends with %s", try->what,
		      ibv_wc_status_str(wc.status));
	reap(w, b->send_cq, &wc);
	if (wc.status != (try->allowed ? IBV_WC_SUCCESS : IBV_WC_REM_OP_ERR))
		wrong(w, "%s: the send ends with %s", try->what,
		      ibv_wc_status_str(wc.status));
	if (try->allowed) {
		memcpy(w->shadow + try->offset, b->buf, try->length);
		return;
	}
	/* The NIC logs a line for either end. */
	count(w, REFUSED_REQUEST);
	count(w, REFUSED_REQUEST);
	reset_qps(w);
}

static void attempt(struct worker *w, const struct attempt *try)
{
	if (try->way < GATHER)
		attempt_remote(w, try);
	else if (try->way < RECEIVE)
		attempt_local(w, try);
	else
		attempt_receive(w, try);
	if (try->allowed)
		check_arena(w, try->offset, try->length);
	else
		check_arena(w, 0, ARENA);
}

/*
 * Aims at some bytes of a range of the arena, aligned for an atomic both on the wire
 * and in memory. Seldom they reach one byte beyond one end of the range.
 */
static bool aim(struct worker *w, struct attempt *try, size_t offset,
		size_t length, uint64_t iova)
{
	size_t skip = below(w, length), left = length - skip;
	bool outside = !below(w, 16);

	try->length = 1 + below(w, left < REACH ? left : REACH);
	if (is_atomic(try->way)) {
		skip += -(iova + skip) & 7;
		try->length = 8;
		if (skip + 8 > length || (offset + skip) & 7)
			return false;
	} else if (outside && draw(w) & 1 && iova && iova < UINT64_MAX - length) {
		skip = -1;
	} else if (outside && length < REACH) {
		skip = 0;
		try->length = length + 1;
	} else {
		outside = false;
	}
	try->offset = offset + skip;
	try->addr = iova + skip;
	if (outside && !is_atomic(try->way))
		try->allowed = false;
	/* A refused access must not lie outside of the shadow either. */
	if (!try->allowed)
		try->offset = 0;
	return true;
}

/* Leave most attempts out that fail: an error resets both QPs and unbinds windows. */
static bool too_many_errors(struct worker *w, const struct attempt *try)
{
	return !try->allowed && below(w, 8);
}

/* Accesses a valid MR by its key in every way, with and without the right. */
void use_region(struct worker *w)
{
	struct region *r = some_region(w);
	struct attempt try = { .way = below(w, WAYS), .what = "a live key" };

	if (!r)
		return;
	try.key = r->mr->lkey;
	try.allowed = r->home &&
		      (r->access & needed(try.way)) == needed(try.way);
	if (!aim(w, &try, r->offset, r->length, wire_address(r, r->offset)) ||
	    too_many_errors(w, &try))
		return;
	count(w, LIVE_KEY);
	attempt(w, &try);
}

void use_window(struct worker *w)
{
	struct window *win = &w->windows[below(w, WINDOWS)];
	struct attempt try = { .way = below(w, WAYS), .what = "a window" };

	if (!win->mw)
		return;
	try.key = win->mw->rkey;
	try.length = 1;
	try.addr = (uintptr_t)w->arena;
	/* A window's key is no lkey, and while unbound it allows nothing. */
	try.allowed = win->region && try.way < GATHER &&
		      win->access & needed(try.way);
	if (win->region) {
		if (!aim(w, &try, win->offset, win->length, win->iova))
			return;
	} else if (is_atomic(try.way)) {
		return;
	}
	if (too_many_errors(w, &try))
		return;
	count(w, LIVE_KEY);
	attempt(w, &try);
}

/* Tries a key that was valid once; its memory may have another key now. */
void use_dead(struct worker *w)
{
	struct attempt try = { .way = below(w, WAYS), .what = "a dead key" };
	size_t offset = below(w, ARENA / 2) & ~7u;

	if (!w->num_dead)
		return;
	try.key = w->dead[below(w, w->num_dead < DEAD ? w->num_dead : DEAD)];
	try.addr = (uintptr_t)w->arena + offset;
	try.length = is_atomic(try.way) ? 8 : 1 + below(w, REACH);
	count(w, DEAD_KEY);
	attempt(w, &try);
}

/*
 * Tries the key of another worker, which has another PD and often is another process.
 */
void use_foreign(struct worker *w)
{
	unsigned int other = below(w, PROCESSES * THREADS);
	struct attempt try = { .way = below(w, WAYS), .what = "another's key" };

	try.key = atomic_load(&w->world->rkeys[other]);
	try.addr = atomic_load(&w->world->addrs[other]) & ~7ull;
	try.length = 8;
	if (other == w->number || !try.key)
		return;
	count(w, DEAD_KEY);
	attempt(w, &try);
}

/* The null MR: reads give zeros, writes vanish, and its key is no rkey. */
void use_null(struct worker *w)
{
	uint8_t *buf = w->pair.b.buf;
	uint32_t length = 1 + below(w, REACH), i;
	struct request request = {
		.opcode = below(w, 2) ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		.wr_id = w->steps, .local = (uint8_t *)(uintptr_t)draw(w),
		.length = length, .lkey = w->null->lkey,
		.remote = (uintptr_t)buf, .rkey = w->pair.b.mr->rkey,
	};
	struct attempt try = {
		.way = below(w, 2), .what = "the null MR from afar",
		.key = w->null->lkey, .addr = (uintptr_t)w->arena, .length = 8,
	};

	count(w, NULL_MR);
	if (!below(w, 8)) {
		attempt(w, &try);
		return;
	}
	fill(buf, length, 1);
	settle(w, &w->pair.a, post(&w->pair.a, &request), IBV_WC_SUCCESS, false,
	       "the null MR");
	if (request.opcode == IBV_WR_RDMA_READ) {
		if (!is_filled(buf, length, 1))
			wrong(w, "reading into the null MR has changed memory");
		return;
	}
	for (i = 0; i < length; i++)
		if (buf[i])
			wrong(w, "the null MR gives 0x%02x", buf[i]);
}

/* Sends many requests at once: all must complete, in order. */
void send_batch(struct worker *w)
{
	struct region *r = some_region(w);
	unsigned int n = 2 + below(w, 14), i;
	struct ibv_wc wc;

	if (!r || !r->home || !(r->access & IBV_ACCESS_REMOTE_WRITE))
		return;
	for (i = 0; i < n; i++) {
		size_t skip = below(w, r->length);
		size_t left = r->length - skip, length;
		struct request request;

		length = 1 + below(w, left < REACH / 16 ? left : REACH / 16);
		request = (struct request){
			.opcode = IBV_WR_RDMA_WRITE, .wr_id = i,
			.local = w->pair.a.buf + i * (REACH / 16),
			.length = length, .lkey = w->pair.a.mr->lkey,
			.remote = wire_address(r, r->offset + skip),
			.rkey = r->mr->rkey,
		};
		fill(request.local, length, (uint8_t)draw(w));
		memcpy(w->shadow + r->offset + skip, request.local, length);
		if (post(&w->pair.a, &request))
			wrong(w, "a batch: posting number %u", i);
		count(w, POSTED);
	}
	for (i = 0; i < n; i++) {
		reap(w, w->pair.a.send_cq, &wc);
		if (wc.wr_id != i || wc.status)
			wrong(w, "a batch: number %u of %u is number %llu: %s",
			      i, n, (unsigned long long)wc.wr_id,
			      ibv_wc_status_str(wc.status));
	}
	check_arena(w, 0, ARENA);
}
