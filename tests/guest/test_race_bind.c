// SPDX-License-Identifier: GPL-2.0
/*
 * Threads bind and unbind windows, one request or many at a time, while another thread
 * deregisters their MR. That gives 0 or EBUSY. After EBUSY everything works as before.
 * After 0 no window is bound, none can be bound any more, and no key gives access.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tap.h"
#include "window.h"

#define ROUNDS		25	/* at least, and until both results were met */
#define MOST		20	/* times as many, at most */
#define BINDERS		2
#define AT_ONCE		6	/* requests under way of a binder that does not wait */
#define LENGTH		4096u
#define RIGHTS		(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* A thread with a QP and a window of its own. */
struct binder {
	struct pair pair;	/* b binds, a uses the window */
	struct ibv_mw *mw;
	uint32_t key;		/* of the last request that succeeded */
	bool bound;		/* likewise */
	bool waits;		/* for each request, before it posts the next */
	atomic_uint binds;	/* that succeeded in this round */
	unsigned int late;	/* of these, posted after the MR was gone */
	struct outcome end;	/* of the request that failed */
};

static struct pair pair;	/* the deregistering thread's */
static struct ibv_mr *mr;
static struct ibv_mr shown;	/* a copy of @mr, used when that is gone */
static atomic_bool over, gone;
static atomic_int begun;

static uint64_t start(void)
{
	return (uintptr_t)pair.b.buf;
}

static int post_one(struct binder *binder, bool bind)
{
	struct ibv_mw_bind_info info = {
		.mr = &shown, .addr = start(), .length = LENGTH,
		.mw_access_flags = RIGHTS,
	};
	struct side *b = &binder->pair.b;

	if (!bind && binder->mw->type == IBV_MW_TYPE_2)
		return apis[1].local_inv(b, binder->mw->rkey);
	if (!bind)
		info = (struct ibv_mw_bind_info){};
	return apis[binder->waits ? 0 : 1].bind(b, binder->mw,
						ibv_inc_rkey(binder->mw->rkey),
						&info);
}

/* Binds and unbinds until a request fails, which must happen once the MR is gone. */
static void *bind_on(void *arg)
{
	struct binder *binder = arg;
	unsigned int posted = 0, done = 0, limit = binder->waits ? 1 : AT_ONCE;
	unsigned int first_late = UINT_MAX;

	atomic_fetch_add(&begun, 1);
	for (;;) {
		while (posted - done < limit && !binder->late &&
		       !atomic_load(&over)) {
			if (first_late == UINT_MAX && atomic_load(&gone))
				first_late = posted;
			if (post_one(binder, posted++ % 2 == 0))
				tap_bail("posting a bind");
		}
		if (posted == done)
			return NULL;
		binder->end = finish(&binder->pair.b, 0);
		if (binder->end.status)
			break;
		binder->bound = done % 2 == 0;
		atomic_fetch_add(&binder->binds, binder->bound);
		binder->late += binder->bound && done >= first_late;
		if (binder->bound || binder->mw->type == IBV_MW_TYPE_1)
			binder->key = ibv_inc_rkey(binder->key);
		done++;
	}
	/* The requests behind the failed one must be flushed. */
	for (done++; done != posted; done++)
		if (finish(&binder->pair.b, 0).status != IBV_WC_WR_FLUSH_ERR)
			tap_bail("not flushed");
	return NULL;
}

static bool writes(struct pair *by, uint32_t rkey, uint8_t seed)
{
	struct outcome o;

	fill(by->a.buf, LENGTH, seed);
	o = ask(by, IBV_WR_RDMA_WRITE, rkey, start(), LENGTH);
	return !o.posted && !o.status &&
	       is_filled(pair.b.buf, LENGTH, seed);
}

static bool is_refused(struct pair *by, uint32_t rkey)
{
	bool refused;

	fill(pair.b.buf, LENGTH, 1);
	fill(by->a.buf, LENGTH, 2);
	refused = ended_with(ask(by, IBV_WR_RDMA_WRITE, rkey, start(),
				 LENGTH).status, IBV_WC_REM_ACCESS_ERR);
	pair_reset(by);
	return refused && is_filled(pair.b.buf, LENGTH, 1);
}

/*
 * Checks a binder after the MR, with key @key, is gone. Returns the number of errors.
 */
static unsigned int check_gone(struct binder *binder, uint32_t key)
{
	unsigned int wrong = 0;
	struct outcome o;

	wrong += binder->bound || binder->late;
	wrong += binder->end.status != IBV_WC_MW_BIND_ERR ||
		 binder->end.syndrome != SYN_KEY;
	pair_reset(&binder->pair);
	wrong += !is_refused(&binder->pair, key);
	/* The window's last key, and the one that the failed bind was to give. */
	wrong += !is_refused(&binder->pair, binder->key);
	wrong += !is_refused(&binder->pair, ibv_inc_rkey(binder->key));
	/* Nor may the requests behind the failed one have changed the window. */
	binder->mw->rkey = binder->key;
	o = bind_window(&apis[1], &binder->pair.b, binder->mw,
			ibv_inc_rkey(binder->key), &shown, start(), LENGTH,
			RIGHTS);
	wrong += o.posted || o.status != IBV_WC_MW_BIND_ERR ||
		 o.syndrome != SYN_KEY;
	pair_reset(&binder->pair);
	return wrong;
}

static void start_round(struct binder *binders, enum ibv_mw_type type)
{
	mr = must_reg(pair.pd, pair.b.buf, LENGTH,
		      ALL_ACCESS | IBV_ACCESS_MW_BIND);
	shown = *mr;
	atomic_store(&over, false);
	atomic_store(&gone, false);
	atomic_store(&begun, 0);
	for (int i = 0; i < BINDERS; i++) {
		binders[i].mw = must_alloc_mw(pair.pd, type);
		binders[i].key = binders[i].mw->rkey;
		binders[i].bound = false;
		atomic_store(&binders[i].binds, 0);
		binders[i].late = 0;
	}
}

static pthread_t let_bind(struct binder *binder)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, bind_on, binder))
		tap_bail("pthread_create");
	return thread;
}

/* One MR's end: counts EBUSY and errors until deregistering succeeds. */
static void play(struct binder *binders, enum ibv_mw_type type,
		 unsigned int *busy, unsigned int *wrong)
{
	pthread_t threads[BINDERS];
	uint32_t key;
	int err, i;

	start_round(binders, type);
	key = mr->rkey;
	for (i = 0; i < BINDERS; i++)
		threads[i] = let_bind(&binders[i]);
	while (atomic_load(&begun) < BINDERS)
		sched_yield();
	while ((err = ibv_dereg_mr(mr)) == EBUSY) {
		++*busy;
		*wrong += !writes(&pair, key, *busy);
	}
	if (err)
		tap_bail("ibv_dereg_mr: %s", strerror(err));
	atomic_store(&gone, true);
	for (i = 0; i < BINDERS; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < BINDERS; i++) {
		*wrong += check_gone(&binders[i], key);
		if (ibv_dealloc_mw(binders[i].mw))
			tap_bail("ibv_dealloc_mw");
	}
}

static void race(struct binder *binders, enum ibv_mw_type type, bool waits)
{
	unsigned int busy = 0, wrong = 0, binds = 0, round, i;
	char title[64];

	snprintf(title, sizeof(title), "type %d, %s", (int)type,
		 waits ? "one by one" : "many at a time");
	for (round = 0; round < ROUNDS || (!(busy && binds > ROUNDS) &&
					   round < MOST * ROUNDS); round++) {
		for (i = 0; i < BINDERS; i++)
			binders[i].waits = waits;
		play(binders, type, &busy, &wrong);
		for (i = 0; i < BINDERS; i++)
			binds += atomic_load(&binders[i].binds);
	}
	tap_is(wrong, 0, "%s: 0 is the end, EBUSY changes nothing", title);
	tap_ok(busy, "%s: EBUSY was met: %u times", title, busy);
	tap_ok(binds > ROUNDS, "%s: windows were bound: %u times", title,
	       binds);
}

/*
 * One window stays bound while another is bound and unbound: deregistering is refused
 * each time, and MR and windows work as before. When the window is gone it succeeds.
 */
static void hold(struct binder *comes, struct binder *stays,
		 enum ibv_mw_type type)
{
	unsigned int wrong = 0, i;
	uint32_t key = mr->rkey;
	pthread_t thread;

	must_bind(&apis[1], &stays->pair.b, stays->mw, mr, start(), LENGTH,
		  RIGHTS);
	comes->waits = true;
	thread = let_bind(comes);
	/* As often as it takes for the other window to have been bound meanwhile. */
	for (i = 0; i < 50 || !atomic_load(&comes->binds); i++) {
		if (ibv_dereg_mr(mr) != EBUSY)
			tap_bail("deregistered with a window bound");
		errno = 0;
		wrong += !ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL,
				       NULL, 0, 0) || errno != EBUSY;
		wrong += !writes(&stays->pair, stays->mw->rkey, i);
		wrong += !writes(&pair, key, ~i);
	}
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	wrong += comes->bound ? !writes(&comes->pair, comes->key, 99) :
				!is_refused(&comes->pair, comes->key);
	if (ibv_dealloc_mw(comes->mw))
		tap_bail("ibv_dealloc_mw");
	wrong += ibv_dereg_mr(mr) != EBUSY;
	wrong += !writes(&stays->pair, stays->mw->rkey, 100);
	if (ibv_dealloc_mw(stays->mw))
		tap_bail("ibv_dealloc_mw");
	tap_is(wrong, 0, "type %d: each time refused, all works as before",
	       (int)type);
	tap_is(ibv_dereg_mr(mr), 0, "type %d: without windows it goes",
	       (int)type);
	tap_ok(is_refused(&pair, key), "type %d: and the key is dead",
	       (int)type);
}

int main(void)
{
	static const enum ibv_mw_type types[] = {
		IBV_MW_TYPE_1, IBV_MW_TYPE_2,
	};
	struct pair_config config = pair_defaults;
	struct binder binders[BINDERS] = {};
	struct ibv_device_attr attr;
	unsigned int i;

	config.send_ops = WINDOW_OPS;
	pair_open(&pair, open_nic(NULL, &attr), &config);
	pair_connect(&pair);
	for (i = 0; i < BINDERS; i++) {
		binders[i].pair.pd = pair.pd;
		pair_open(&binders[i].pair, pair.ctx, &config);
		pair_connect(&binders[i].pair);
	}
	for (i = 0; i < 2; i++) {
		race(binders, types[i], true);
		race(binders, types[i], false);
		start_round(binders, types[i]);
		hold(&binders[0], &binders[1], types[i]);
	}
	for (i = 0; i < BINDERS; i++)
		pair_close(&binders[i].pair);
	pair_close(&pair);
	return tap_done();
}
