// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: moving [--seconds N] [--seed N] [--least N]
 *
 * Memory that moves under on-demand paging: two workers have the NIC write and read it
 * and check every byte, while another thread unmaps, replaces, shares and protects
 * pages, joins and splits huge pages, and has the kernel move them.
 *
 * A page holds what was written last, or zeros if it was unmapped since, but never the
 * old data again after zeros. So data that the NIC reads is stale if it is older than
 * the last write, or if it is not zero where the process has seen zero before; and the
 * NIC has written to a stale page if the process does not find the data.
 *
 * Each kind of disturbance must have taken effect at least --least times; for that the
 * test may take three times as long, and then has only those left that have not. Where a
 * call alone does not tell, the kernel's counters do.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "counts.h"
#include "paged.h"
#include "tap.h"
#include "window.h"

#define HUGE	(2ul << 20)
#define TARGET	(2 * HUGE)
#define PAGES	(TARGET / PAGE)
#define PIECE	16u		/* pages moved at a time, at most */
#define WORDS	(PAGE / 8)
#define ROUNDS	10		/* of each worker, at least */
#define PAUSE	300		/* ms, between compactions of all memory */

struct worker {
	unsigned int number;
	uint64_t state;			/* of the random numbers */
	pthread_t thread;
	struct pair pair;
	struct ibv_mr *target_mr, *source_mr, *buffer_mr;
	uint8_t *target, *source, *buffer;
	uint64_t due[PAGES];		/* the value of each word of a page, or 0 */
	uint64_t rounds;
	int server;			/* page server, or -1 */
};

enum event {
	DROP, REPLACE, MOVE, FORK, PROTECT, SPLIT, COLLAPSE, MERGE, COMPACT, SERVE,
	EVENTS
};

static const char *const events[EVENTS] = {
	[DROP] = "MADV_DONTNEED", [REPLACE] = "munmap and mmap", [MOVE] = "mremap",
	[FORK] = "fork", [PROTECT] = "mprotect", [SPLIT] = "huge pages split",
	[COLLAPSE] = "huge pages collapsed", [MERGE] = "pages merged and parted",
	[COMPACT] = "compaction", [SERVE] = "userfaultfd",
};

static struct worker workers[2];
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static atomic_bool stop, failed;
static atomic_ulong counts[EVENTS];
/* Events that the kernel counts: its counter's name, and the value at the start. */
static const char *const counted_by[EVENTS] = {
	[SPLIT] = "thp_split_pmd", [MERGE] = "cow_ksm",
};

static unsigned long base[EVENTS];
static unsigned long least = 1;
static atomic_uint disturbances;	/* odd while one is under way */
static uint64_t state;			/* random numbers of the thread that disturbs */
static bool merges;			/* the kernel has KSM */

static uint64_t draw(uint64_t *from)
{
	*from ^= *from << 13;
	*from ^= *from >> 7;
	*from ^= *from << 17;
	return *from;
}

static unsigned int below(uint64_t *from, unsigned int limit)
{
	return (draw(from) >> 20) % limit;
}

static void count(enum event event)
{
	atomic_fetch_add(&counts[event], 1);
}

static unsigned long vmstat(const char *wanted)
{
	FILE *file = fopen("/proc/vmstat", "r");
	unsigned long value, found = 0;
	char name[64];

	while (file && fscanf(file, "%63s %lu", name, &value) == 2)
		if (!strcmp(name, wanted))
			found = value;
	if (file)
		fclose(file);
	return found;
}

static unsigned long times(enum event event)
{
	return counted_by[event] ? vmstat(counted_by[event]) - base[event] :
				   atomic_load(&counts[event]);
}

static bool lacks(enum event event)
{
	return times(event) < least && (merges || event != MERGE);
}

static bool enough(void)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		if (workers[i].rounds < ROUNDS)
			return false;
	for (i = 0; i < EVENTS; i++)
		if (lacks(i))
			return false;
	return true;
}

static bool wrong(const struct worker *w, const char *what, unsigned int page,
		  uint64_t got, uint64_t due)
{
	tap_diag("worker %u, round %llu, page %u: %s: 0x%llx, due 0x%llx", w->number,
		 (unsigned long long)w->rounds, page, what, (unsigned long long)got,
		 (unsigned long long)due);
	atomic_store(&failed, true);
	atomic_store(&stop, true);
	return false;
}

static void stamp(uint8_t *at, unsigned int pages, uint64_t with)
{
	uint64_t *word = (void *)at, *end = word + pages * WORDS;

	while (word < end)
		*word++ = with;
}

/* ---- moving data ---- */

/*
 * When a page is unmapped, the kernel finishes notifiers before it flushes the
 * processors' TLBs: in between the NIC sees the next page and this processor still the
 * old one. So wait for the disturbance to end before looking at the word.
 */
static bool has_gone(const uint64_t *word)
{
	unsigned int now = atomic_load(&disturbances);

	while (now % 2 && atomic_load(&disturbances) == now)
		sched_yield();
	return !__atomic_load_n(word, __ATOMIC_RELAXED);
}

/*
 * Compares for each word, in this order: what the process saw, the NIC read, the
 * process sees.
 */
static bool check(struct worker *w, unsigned int first, unsigned int pages,
		  const uint64_t *before, const uint64_t *read, const uint64_t *after)
{
	const uint64_t *words = (uint64_t *)(w->target + first * PAGE);
	unsigned int i;

	for (i = 0; i < pages * WORDS; i++) {
		uint64_t due = w->due[first + i / WORDS];
		unsigned int page = first + i / WORDS;

		if (before[i] && before[i] != due)
			return wrong(w, "in memory", page, before[i], due);
		if (read[i] && (read[i] != due || !before[i]))
			return wrong(w, "read", page, read[i], before[i] ? due : 0);
		if (after[i] && (after[i] != due || (!read[i] && !has_gone(&words[i]))))
			return wrong(w, "in memory after it was read", page, after[i],
				     read[i] ? due : 0);
	}
	return true;
}

static bool moved(struct worker *w, enum ibv_wr_opcode opcode, unsigned int first,
		  unsigned int pages)
{
	bool reads = opcode == IBV_WR_RDMA_READ;
	struct request request = {
		.opcode = opcode, .wr_id = w->rounds, .length = pages * PAGE,
		.local = reads ? w->buffer : w->source,
		.lkey = reads ? w->buffer_mr->lkey : w->source_mr->lkey,
		.remote = (uintptr_t)w->target + first * PAGE,
		.rkey = w->target_mr->rkey,
	};
	struct ibv_wc wc = {};

	if (opcode == IBV_WR_SEND &&
	    post_receive(&w->pair.b, w->rounds, w->target + first * PAGE, pages * PAGE,
			 w->target_mr->lkey))
		return false;
	if (post(&w->pair.a, &request) || !wait_wc(w->pair.a.send_cq, &wc) || wc.status)
		return wrong(w, "completion", first, wc.status, opcode);
	return opcode != IBV_WR_SEND ||
	       (wait_wc(w->pair.b.recv_cq, &wc) && !wc.status);
}

static bool look(struct worker *w, unsigned int first, unsigned int pages)
{
	static _Thread_local uint64_t before[PIECE * WORDS], after[PIECE * WORDS];

	memcpy(before, w->target + first * PAGE, pages * PAGE);
	if (!moved(w, IBV_WR_RDMA_READ, first, pages))
		return false;
	memcpy(after, w->target + first * PAGE, pages * PAGE);
	return check(w, first, pages, before, (uint64_t *)w->buffer, after);
}

static bool round_of(struct worker *w)
{
	unsigned int pages = 1 + below(&w->state, PIECE), i;
	unsigned int first = below(&w->state, PAGES - pages + 1);
	uint64_t with = ++w->rounds << 8 | (w->number + 1);
	bool done = true;

	/*
	 * First check that the pages still hold what was left there in the last round.
	 */
	if (!look(w, first, pages))
		return false;
	for (i = 0; i < pages; i++)
		w->due[first + i] = with;
	stamp(w->source, pages, with);
	switch (below(&w->state, 4)) {
	case 0:
		stamp(w->target + first * PAGE, pages, with);
		break;
	case 1:
		done = moved(w, IBV_WR_SEND, first, pages);
		break;
	default:
		done = moved(w, IBV_WR_RDMA_WRITE, first, pages);
	}
	return done && look(w, first, pages);
}

static void *work(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load(&stop) && round_of(w))
		;
	if (!atomic_load(&stop)) {
		atomic_store(&failed, true);
		atomic_store(&stop, true);
	}
	return NULL;
}

static uint8_t *map_aligned(size_t size)
{
	uint8_t *room = map_pages(size + HUGE);
	uint8_t *at = (void *)(((uintptr_t)room + HUGE - 1) & -HUGE);

	munmap(room, at - room);
	munmap(at + size, room + HUGE - at);
	return at;
}

/*
 * The first worker has MRs of its own and huge pages, the second an implicit MR and a
 * page server.
 */
static void set_up(struct worker *w, unsigned int number, uint64_t seed)
{
	w->number = number;
	w->state = seed * 2 + number + 1;
	w->pair.pd = pd;
	pair_open(&w->pair, ctx, &pair_defaults);
	pair_connect(&w->pair);
	w->target = map_aligned(TARGET);
	w->source = map_pages(PIECE * PAGE);
	w->buffer = map_pages(PIECE * PAGE);
	w->server = -1;
	if (number) {
		w->target_mr = must_reg(pd, NULL, SIZE_MAX, ON_DEMAND);
		w->source_mr = w->target_mr;
		w->buffer_mr = w->target_mr;
		w->server = server_open(w->target, TARGET);
		return;
	}
	w->target_mr = must_reg(pd, w->target, TARGET, ON_DEMAND);
	w->source_mr = must_reg(pd, w->source, PIECE * PAGE, ON_DEMAND);
	w->buffer_mr = must_reg(pd, w->buffer, PIECE * PAGE, ON_DEMAND);
}

static void tear_down(struct worker *w)
{
	int err = ibv_dereg_mr(w->target_mr);

	if (!err && w->source_mr != w->target_mr)
		err = ibv_dereg_mr(w->source_mr) ?: ibv_dereg_mr(w->buffer_mr);
	if (err)
		tap_bail("ibv_dereg_mr: %s", strerror(err));
	if (w->server >= 0)
		close(w->server);
	pair_close(&w->pair);
	munmap(w->target, TARGET);
	munmap(w->source, PIECE * PAGE);
	munmap(w->buffer, PIECE * PAGE);
}

/* ---- disturbing ---- */

static void *serve(void *arg)
{
	static const uint8_t zeros[PAGE];
	struct worker *w = arg;
	struct pollfd fd = { .fd = w->server, .events = POLLIN };
	uint8_t *page;

	/* Serve until the worker has ended, so that nothing can fault any more. */
	while (poll(&fd, 1, 100) >= 0 && !(fd.revents & POLLNVAL)) {
		if (!(fd.revents & POLLIN)) {
			if (atomic_load(&stop) && !w->thread)
				return NULL;
			continue;
		}
		page = server_wait(w->server);
		if (page && server_give(w->server, page, zeros))
			count(SERVE);
	}
	return NULL;
}

/*
 * Forks a child, which checks that the NIC's writes for its parent do not show in its
 * memory.
 */
static void fork_and_compare(struct worker *w)
{
	static pid_t child;
	unsigned int first = below(&state, PAGES - PIECE), i;
	uint8_t *copy;
	int status;

	if (child && waitpid(child, &status, 0) == child && status)
		wrong(w, "a child's memory", 0, status, 0);
	child = fork();
	if (child < 0)
		tap_bail("fork: %s", strerror(errno));
	if (child) {
		count(FORK);
		return;
	}
	copy = mmap(NULL, PIECE * PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(copy, w->target + first * PAGE, PIECE * PAGE);
	for (i = 0; i < 8; i++)
		if (memcmp(copy, w->target + first * PAGE, PIECE * PAGE))
			_exit(1);
	_exit(0);
}

static void write_to(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	if (!file || fputs(text, file) < 0 || fclose(file))
		tap_bail("%s: %s", path, strerror(errno));
}

static void replace(struct worker *w, bool by_moving)
{
	uint8_t *at = w->target, *other;

	if (by_moving) {
		other = map_pages(TARGET);
		at = mremap(other, TARGET, TARGET, MREMAP_MAYMOVE | MREMAP_FIXED, at);
	} else {
		at = mmap(at, TARGET, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	}
	if (at != w->target)
		tap_bail("replacing memory: %s", strerror(errno));
	count(by_moving ? MOVE : REPLACE);
}

static void protect(uint8_t *at, size_t size)
{
	/* No access is forbidden meanwhile, but notifiers are called. */
	if (mprotect(at, size, PROT_READ | PROT_WRITE | PROT_EXEC) ||
	    mprotect(at, size, PROT_READ | PROT_WRITE))
		tap_bail("mprotect: %s", strerror(errno));
}

/* Splits the huge page first, if there is one: else collapsing would do nothing. */
static bool collapse(uint8_t *at)
{
	unsigned long before = vmstat("thp_collapse_alloc");

	protect(at + below(&state, HUGE / PAGE) * PAGE, PAGE);
	return !madvise(at, HUGE, MADV_COLLAPSE) &&
	       vmstat("thp_collapse_alloc") > before;
}

/* Compacting all memory takes long, so a thread of its own does it. */
static void *compact(void *arg)
{
	unsigned long before;

	while (!atomic_load(&stop)) {
		before = vmstat("pgmigrate_success");
		write_to("/proc/sys/vm/compact_memory", "1");
		if (vmstat("pgmigrate_success") > before)
			count(COMPACT);
		poll(NULL, 0, PAUSE);
	}
	return arg;
}

/* Any, or, once the time is over, one that lacks, if a few draws find one. */
static enum event next_event(bool late)
{
	enum event event = below(&state, EVENTS);
	unsigned int draws;

	for (draws = 0; late && draws < 2 * EVENTS && !lacks(event); draws++)
		event = below(&state, EVENTS);
	return event;
}

static void disturb(enum event event)
{
	struct worker *w = &workers[below(&state, 2)];
	unsigned int pages = 1 + below(&state, 64);
	uint8_t *at = w->target + below(&state, PAGES - pages + 1) * PAGE;

	/* These would take the second worker's page server away. */
	if (event == REPLACE || event == MOVE || event == SPLIT || event == COLLAPSE ||
	    event == MERGE)
		w = &workers[0];
	switch (event) {
	case REPLACE:
	case MOVE:
		replace(w, event == MOVE);
		return;
	case FORK:
		fork_and_compare(w);
		return;
	case PROTECT:
		protect(at, pages * PAGE);
		protect(w->source, PIECE * PAGE);
		protect(w->buffer, PIECE * PAGE);
		break;
	case SPLIT:
		madvise(w->target, TARGET, MADV_HUGEPAGE);
		protect(w->target + below(&state, PAGES) * PAGE, PAGE);
		return;
	case COLLAPSE:
		if (!collapse(w->target + below(&state, 2) * HUGE))
			return;
		break;
	case MERGE:
		if (!merges)
			return;
		madvise(w->target, TARGET, below(&state, 8) ? MADV_MERGEABLE :
							      MADV_UNMERGEABLE);
		return;
	default:
		event = DROP;
		madvise(at, pages * PAGE, MADV_DONTNEED);
	}
	count(event);
}

/* Has KSM scan all pages without a pause, pages that change included. */
static void merge(void)
{
	if (prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0))
		tap_bail("PR_SET_MEMORY_MERGE: %s", strerror(errno));
	write_to("/sys/kernel/mm/ksm/smart_scan", "0");
	write_to("/sys/kernel/mm/ksm/pages_to_scan", "200");
	write_to("/sys/kernel/mm/ksm/run", "1");
}

static void run(int seconds)
{
	unsigned long moved = vmstat("pgmigrate_success");
	time_t start = time(NULL), now = start;
	pthread_t server, compactor;
	struct paged paged;
	enum event event;
	unsigned int i;

	for (i = 0; i < EVENTS; i++)
		base[i] = counted_by[i] ? vmstat(counted_by[i]) : 0;
	if (merges)
		merge();
	pthread_create(&compactor, NULL, compact, NULL);
	pthread_create(&server, NULL, serve, &workers[1]);
	for (i = 0; i < 2; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	do {
		event = next_event(now >= start + seconds);
		atomic_fetch_add(&disturbances, 1);
		disturb(event);
		atomic_fetch_add(&disturbances, 1);
		now = time(NULL);
	} while (!atomic_load(&stop) && (now < start + seconds ||
					 (now < start + 3 * seconds && !enough())));
	atomic_store(&stop, true);
	pthread_join(compactor, NULL);
	for (i = 0; i < 2; i++)
		pthread_join(workers[i].thread, NULL);
	workers[1].thread = 0;
	pthread_join(server, NULL);
	if (merges)
		write_to("/sys/kernel/mm/ksm/run", "2");
	while (wait(NULL) > 0)
		;
	tap_diag("%ld s; pages moved by the kernel: %lu", (long)(now - start),
		 vmstat("pgmigrate_success") - moved);
	paged = paged_counts();
	tap_diag("page requests: %llu, pages taken away: %llu", paged.faults,
		 paged.invalidations);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seconds", required_argument, NULL, 's' },
		{ "seed", required_argument, NULL, 'r' },
		{ "least", required_argument, NULL, 'l' },
		{}
	};
	uint64_t seed = time(NULL);
	struct ibv_device_attr attr;
	long pinned = pinned_pages();
	int option, seconds = 60;
	unsigned int i;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 's')
			seconds = atoi(optarg);
		else if (option == 'r')
			seed = strtoull(optarg, NULL, 0);
		else if (option == 'l')
			least = strtoul(optarg, NULL, 0);
		else
			return 2;
	}
	tap_diag("seed %llu", (unsigned long long)seed);
	state = seed * 977 + 1;
	merges = !access("/sys/kernel/mm/ksm/run", W_OK);
	ctx = open_nic(NULL, &attr);
	pd = ibv_alloc_pd(ctx);
	for (i = 0; i < 2; i++)
		set_up(&workers[i], i, seed);
	run(seconds);
	tap_ok(!atomic_load(&failed), "nothing stale was read or written");
	for (i = 0; i < 2; i++)
		tap_ok(workers[i].rounds >= ROUNDS, "worker %u: %llu rounds", i,
		       (unsigned long long)workers[i].rounds);
	for (i = 0; i < EVENTS; i++) {
		if (i == MERGE && !merges)
			tap_skip("the kernel has no KSM", "%s", events[i]);
		else
			tap_ok(times(i) >= least, "%s: %lu times", events[i], times(i));
	}
	for (i = 0; i < 2; i++)
		tear_down(&workers[i]);
	tap_is(ibv_dealloc_pd(pd), 0, "nothing holds the PD");
	ibv_close_device(ctx);
	expect_nothing_left(pinned);
	return tap_done();
}
