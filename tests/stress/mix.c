// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: mix [--seconds N] [--seed N]
 *
 * The stress mix: all that memory registration offers, used by several threads
 * of several processes for N seconds. The seed decides what each worker does,
 * step by step. At the end the counts are compared; the line "# refusals N"
 * says how many refusals were provoked, for each of which the NIC logs a line.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "counts.h"
#include "tap.h"
#include "mix.h"

static const char *const names[TALLIES] = {
	[POSTED] = "posted", [COMPLETED] = "completed",
	[REFUSED_REQUEST] = "requests refused",
	[REFUSED_PEER] = "by the peer",
	[EVENTS_DUE] = "events due", [EVENTS] = "events",
	[REG] = "registered", [REREG] = "re-registered",
	[DEREG] = "deregistered", [BUSY] = "busy", [BIND] = "binds",
	[UNBIND] = "unbinds", [SEND_INV] = "by a message",
	[LIVE_KEY] = "uses of live keys", [DEAD_KEY] = "of dead ones",
	[NULL_MR] = "null MR", [ON_NIC] = "on-NIC memory",
	[IMPORT] = "imports", [ORPHAN] = "unmapped early",
	[QP_RESET] = "QPs reset", [QP_DESTROY] = "destroyed",
};

/* The acts of a worker, and how often each is drawn. */
static const struct {
	unsigned int weight;
	void (*act)(struct worker *w);
} acts[] = {
	{ 20, toggle_region },
	{ 14, rereg_region },
	{ 8, toggle_window },
	{ 26, bind_or_unbind },
	{ 1, bind_wrongly },
	{ 24, use_region },
	{ 16, use_window },
	{ 2, use_dead },
	{ 1, use_foreign },
	{ 5, use_null },
	{ 8, send_batch },
	{ 2, orphan },
	{ 2, on_nic_memory },
	{ 1, import },
	{ 1, reset_qps },
	{ 1, destroy_qp },
};

#define ACTS	(sizeof(acts) / sizeof(acts[0]))

static uint64_t scramble(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/*
 * The next random number: depends only on the seed, the step and the place in
 * the step.
 */
uint64_t draw(struct worker *w)
{
	return scramble(w->seed + scramble(w->steps * 256 + ++w->draws));
}

unsigned int below(struct worker *w, unsigned int limit)
{
	return draw(w) % limit;
}

void count(struct worker *w, enum tally tally)
{
	atomic_fetch_add(&w->world->tallies[tally], 1);
}

/*
 * Reports something unexpected and ends the process, which its parent reports.
 */
_Noreturn void wrong(struct worker *w, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	tap_diag("WRONG: worker %u, step %llu: %s", w->number,
		 (unsigned long long)w->steps, text);
	fflush(stdout);
	_exit(1);
}

static void step(struct worker *w)
{
	unsigned int total = 0, i;

	w->steps++;
	w->draws = 0;
	for (i = 0; i < ACTS; i++)
		total += acts[i].weight;
	total = below(w, total);
	for (i = 0; total >= acts[i].weight; i++)
		total -= acts[i].weight;
	acts[i].act(w);
	if (w->steps % 64 == 0)
		check_arena(w, 0, ARENA);
}

static void set_up(struct worker *w)
{
	struct pair_config config = pair_defaults;

	config.send_ops = WINDOW_OPS;
	config.buffer_size = 2 * REACH;
	pair_open(&w->pair, w->ctx, &config);
	watch(w, &w->pair.b);
	pair_connect(&w->pair);
	w->away = ibv_alloc_pd(w->ctx);
	w->null = ibv_alloc_null_mr(w->pair.pd);
	w->arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	w->shadow = calloc(1, ARENA);
	if (!w->away || !w->null || w->arena == MAP_FAILED || !w->shadow)
		tap_bail("set-up: %s", strerror(errno));
}

/* MRs with bound windows refuse, and are deregistered after the windows. */
static void tear_down(struct worker *w)
{
	struct region *r;

	check_arena(w, 0, ARENA);
	for (r = w->regions; r < w->regions + REGIONS; r++)
		if (r->mr)
			dereg_region(w, r);
	for (int i = 0; i < WINDOWS; i++)
		if (w->windows[i].mw)
			dealloc_window(w, &w->windows[i]);
	for (r = w->regions; r < w->regions + REGIONS; r++)
		if (r->mr)
			dereg_region(w, r);
	if (ibv_dereg_mr(w->null) || ibv_dealloc_pd(w->away))
		wrong(w, "tearing down");
	pair_close(&w->pair);
	munmap(w->arena, ARENA);
	free(w->shadow);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	set_up(w);
	while (!atomic_load(&w->world->stop))
		step(w);
	tear_down(w);
	return NULL;
}

/* Counts an event: only refusals by a responder may raise one. */
static void take_event(struct ibv_context *ctx, struct world *world)
{
	struct pollfd fd = { .fd = ctx->async_fd, .events = POLLIN };
	struct ibv_async_event event;
	struct worker *w;

	if (poll(&fd, 1, 20) != 1)
		return;
	if (ibv_get_async_event(ctx, &event))
		tap_bail("ibv_get_async_event: %s", strerror(errno));
	w = event.event_type == IBV_EVENT_QP_ACCESS_ERR ?
	    event.element.qp->qp_context : NULL;
	if (!w)
		tap_bail("event: %s", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
	atomic_fetch_add(&world->tallies[EVENTS], 1);
	atomic_fetch_add(&w->events, 1);
}

/* Registers the MR that other processes import. */
static struct ibv_mr *export(struct ibv_context *ctx, struct ibv_pd *pd,
			     struct exported *ex)
{
	struct ibv_mr *mr = ibv_reg_mr_iova(pd, ex->memory, EXPORTED, 0,
					    ALL_ACCESS);

	if (!mr)
		tap_bail("exporting: %s", strerror(errno));
	ex->fd = ctx->cmd_fd;
	ex->pd = pd->handle;
	ex->mr = mr->handle;
	ex->rkey = mr->rkey;
	atomic_store(&ex->pid, getpid());
	return mr;
}

/* One process of the mix. Returns the exit status. */
static int live(struct world *world, unsigned int process, uint64_t seed)
{
	struct exported *ex = &world->exported[process];
	struct ibv_device_attr attr;
	struct ibv_context *ctx = open_nic(NULL, &attr);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct worker workers[THREADS] = {};
	struct ibv_mr *mr = export(ctx, pd, ex);
	pthread_t threads[THREADS];
	unsigned int i;

	for (i = 0; i < THREADS; i++) {
		workers[i].world = world;
		workers[i].process = process;
		workers[i].number = process * THREADS + i;
		workers[i].seed = scramble(seed) + workers[i].number;
		workers[i].ctx = ctx;
		if (pthread_create(&threads[i], NULL, work, &workers[i]))
			tap_bail("pthread_create");
	}
	for (i = 0; i < THREADS; i++)
		while (pthread_tryjoin_np(threads[i], NULL))
			take_event(ctx, world);
	/* Wait until no live process uses the exported MR any more. */
	while (atomic_exchange(&ex->in_use, true) &&
	       !atomic_load(&world->broken))
		take_event(ctx, world);
	if (ibv_dereg_mr(mr) || ibv_dealloc_pd(pd))
		tap_bail("the exported MR cannot be deregistered");
	for (i = 0; i < THREADS; i++)
		tap_diag("worker %u: %llu steps", workers[i].number,
			 (unsigned long long)workers[i].steps);
	if (own_pinned_kib())
		tap_bail("VmPin: %ld KiB when all is gone", own_pinned_kib());
	if (ibv_close_device(ctx))
		tap_bail("ibv_close_device");
	return 0;
}

static struct world *create(void)
{
	int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_ANONYMOUS;
	struct world *world = mmap(NULL, sizeof(*world), prot, flags, -1, 0);

	for (int i = 0; i < PROCESSES; i++)
		world->exported[i].memory = mmap(NULL, EXPORTED, prot, flags,
						 -1, 0);
	return world;
}

static void make_up_accounts(struct world *world)
{
	uint64_t n[TALLIES];

	for (int i = 0; i < TALLIES; i++) {
		n[i] = atomic_load(&world->tallies[i]);
		tap_diag("%-18s %llu", names[i], (unsigned long long)n[i]);
	}
	tap_is(n[COMPLETED], n[POSTED], "all that was posted has completed");
	tap_is(n[EVENTS], n[EVENTS_DUE], "each refusal of a peer is an event");
	for (int i = 0; i < TALLIES; i++)
		if (i != EVENTS_DUE && i != EVENTS)
			tap_ok(n[i], "%s: some", names[i]);
	/*
	 * One line of the NIC's log for each; the mix does not know by which
	 * rule.
	 */
	tap_diag("refusals %llu",
		 (unsigned long long)(n[REFUSED_REQUEST] + n[REFUSED_PEER] +
				      n[BUSY]));
}

static bool has_all(struct world *world)
{
	for (int i = 0; i < TALLIES; i++)
		if (!atomic_load(&world->tallies[i]))
			return false;
	return true;
}

/*
 * Runs for @seconds; up to ten times longer if some kind of act has not been
 * reached on a slow machine; shorter if a process has failed.
 */
static void let_run(struct world *world, time_t seconds)
{
	struct timespec tick = { .tv_sec = 1 };
	time_t passed = 0;
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	while (passed++ < seconds ||
	       (passed < 10 * seconds && !has_all(world)))
		if (sigtimedwait(&child, NULL, &tick) == SIGCHLD) {
			atomic_store(&world->broken, true);
			break;
		}
	atomic_store(&world->stop, true);
}

static void mix(time_t seconds, uint64_t seed)
{
	struct world *world = create();
	pid_t pids[PROCESSES];
	sigset_t child;
	int status;

	/*
	 * let_run() waits for SIGCHLD with sigtimedwait(), so it must be
	 * blocked.
	 */
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	fflush(stdout);
	for (int i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		if (!pids[i])
			exit(live(world, i, seed));
	}
	let_run(world, seconds);
	for (int i = 0; i < PROCESSES; i++) {
		if (waitpid(pids[i], &status, 0) != pids[i])
			tap_bail("waitpid: %s", strerror(errno));
		tap_is(status, 0, "process %d: everything as it must be", i);
	}
	make_up_accounts(world);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seconds", required_argument, NULL, 't' },
		{ "seed", required_argument, NULL, 's' },
		{},
	};
	long pinned = pinned_pages();
	uint64_t seed = time(NULL);
	time_t seconds = 10;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 't')
			seconds = strtol(optarg, NULL, 0);
		else if (option == 's')
			seed = strtoull(optarg, NULL, 0);
		else
			tap_bail("usage: mix [--seconds N] [--seed N]");
	}
	tap_diag("seed %llu, %ld seconds", (unsigned long long)seed,
		 (long)seconds);
	mix(seconds, seed);
	expect_nothing_left(pinned);
	return tap_done();
}
