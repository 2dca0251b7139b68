// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: try_graphs [--seconds N] [--seed N] [--share N | --objects N] [--deep] [--first]
 *		      [--end NAME]... [GRAPH...]
 *
 * Makes graphs of objects in a process and ends the process or the NIC in each possible
 * way: all graphs of few related objects (see enumerate.c), then random large ones
 * until the time is over. After each batch nothing of it may be left, and the kernel
 * must not have complained. If a batch fails, the graph at fault is searched for, made
 * as small as possible and shown; given as an argument it is tried alone. The step
 * "kernel" stands for objects of a kernel client, for which tests/kernel has to be
 * loaded.
 *
 *   --seconds N   start no more random graphs after that time (default 60)
 *   --seed N      of random graphs and of how batches end (default: the time)
 *   --share N     of the graphs of shared rules try one in N, chosen by the
 *                 seed, and others in each pass (default 1: all)
 *   --objects N   instead, all graphs of up to N objects, of any kinds
 *   --deep        count slab objects after each batch, which takes a second
 *   --first       stop at the first batch that fails, without the search
 *   --end NAME    only these ends: exit, kill, close, heir (a child also has the
 *                 files open), unbind, remove, reset, and with scripts/vm
 *                 --control fail, fail_making, dead
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "end.h"
#include "life.h"
#include "nic.h"
#include "residue.h"
#include "tap.h"

#define MAX_FAILURES	5	/* give up after so many */
#define MAX_ENDS	16
#define RANDOM_BATCH	16	/* graphs in a batch of large ones */
#define ROUND		12	/* batches between counts of slab objects */
#define WHY		256

static struct {
	unsigned int seconds, seed, objects, share;
	bool deep, first;
	const struct end *end[MAX_ENDS];
	unsigned int num_ends;
} options = { .seconds = 60, .share = 1 };

/* The results of an end: the one with the same index in options.end[]. */
struct score {
	unsigned int graphs, batches, failures;
};

static struct score scores[MAX_ENDS];

static struct score *score_of(const struct end *end)
{
	unsigned int i;

	for (i = 0; i + 1 < options.num_ends && options.end[i] != end; i++)
		;
	return &scores[i];
}

/* Graphs of one process, which end together. */
struct batch {
	const struct end *end;
	unsigned int chance, count;
	struct graph graph[MAX_BATCH];
};

/* The batch that is being filled, and those since slab objects were last counted. */
static struct batch batch, round[ROUND];
static unsigned int batches, in_round, failures;
static long objects;

/* Does nothing of a batch stay behind? @deep: count slab objects as well. */
static bool survives(const struct batch *tried, bool deep, char why[WHY])
{
	long before = deep ? residue_objects() : 0, more = 0;
	bool good;

	good = end_graphs(tried->end, tried->graph, tried->count, tried->chance, why, WHY);
	if (good && deep)
		more = residue_objects() - before;
	if (more > 0)
		snprintf(why, WHY, "%ld slab objects more", more);
	if (good && more <= 0)
		return true;
	/*
	 * Start anew, so that what was lost now does not count against the next batch.
	 */
	nic_unbind();
	nic_bind();
	nic_bring_up();
	return false;
}

/* Leaves out each step without which the graph still fails. */
static void shrink(struct batch *one, bool deep, char why[WHY])
{
	struct batch less = *one;
	char other[WHY];
	unsigned int i;

	for (i = one->graph[0].count; i-- > 0;) {
		if (i >= one->graph[0].count ||
		    !graph_without(&one->graph[0], i, &less.graph[0]) ||
		    survives(&less, deep, other))
			continue;
		one->graph[0] = less.graph[0];
		memcpy(why, other, WHY);
	}
}

/* Replaces a batch by one of its halves if that fails alone. */
static bool halve(struct batch *tried, bool deep, char why[WHY])
{
	struct batch half = *tried;
	unsigned int middle = tried->count / 2;
	char other[WHY];

	half.count = middle;
	if (survives(&half, deep, other)) {
		half.count = tried->count - middle;
		memcpy(half.graph, &tried->graph[middle], half.count * sizeof(half.graph[0]));
		if (survives(&half, deep, other))
			return false;
	}
	*tried = half;
	memcpy(why, other, WHY);
	return true;
}

/* Looks for the one graph at fault; several may fail only together. */
static void find_culprit(struct batch *tried, bool deep, char why[WHY])
{
	while (tried->count > 1 && halve(tried, deep, why))
		;
	if (tried->count == 1)
		shrink(tried, deep, why);
}

static void show_culprit(const struct batch *bad, bool deep, char why[WHY])
{
	struct batch tried = *bad;
	char text[GRAPH_TEXT];
	unsigned int i;

	failures = options.first ? MAX_FAILURES : failures + 1;
	if (!options.first)
		find_culprit(&tried, deep, why);
	tap_ok(false, "%s: %s", tried.end->name, why);
	printf("#   try_graphs --end %s --seed %u%s", tried.end->name, tried.chance,
	       deep ? " --deep" : "");
	for (i = 0; i < tried.count; i++)
		printf(" %s", graph_text(&tried.graph[i], text));
	printf("\n");
	fflush(stdout);
}

/* If the machine dies, its log says which batch it was. */
static void note(const struct batch *next)
{
	char text[GRAPH_TEXT];
	int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	dprintf(fd, "<6>graphs: batch %u, --end %s --seed %u, %u of them from %s\n",
		batches, next->end->name, next->chance, next->count,
		graph_text(&next->graph[0], text));
	close(fd);
}

/* Counts slab objects. If there are more, tries the batches of the round one by one. */
static void end_round(void)
{
	unsigned int i, count = in_round;
	long before = objects;
	char why[WHY];

	in_round = 0;
	objects = residue_objects();
	if (objects <= before)
		return;
	for (i = 0; i < count && failures < MAX_FAILURES; i++) {
		if (survives(&round[i], true, why))
			continue;
		score_of(round[i].end)->failures++;
		show_culprit(&round[i], true, why);
	}
	/* Caches or pools may have grown once: count from here on. */
	objects = residue_objects();
}

static void end_batch(unsigned int which)
{
	char why[WHY];

	if (!batch.count || failures >= MAX_FAILURES)
		return;
	batch.end = options.end[which % options.num_ends];
	batch.chance = options.seed + batches;
	note(&batch);
	batches++;
	score_of(batch.end)->batches++;
	score_of(batch.end)->graphs += batch.count;
	if (!survives(&batch, false, why)) {
		score_of(batch.end)->failures++;
		show_culprit(&batch, false, why);
		objects = residue_objects();
	} else {
		round[in_round++] = batch;
	}
	batch.count = 0;
	if (in_round == ROUND)
		end_round();
}

/* One pass over all small graphs: batch by batch, with the ends in turn. */
struct pass {
	unsigned int which, graphs;
	bool stopped;
};

static bool collect(const struct graph *graph, void *arg)
{
	struct pass *pass = arg;

	batch.graph[batch.count++] = *graph;
	pass->graphs++;
	if (batch.count == MAX_BATCH)
		end_batch(pass->which++);
	pass->stopped = failures >= MAX_FAILURES;
	return !pass->stopped;
}

/* Pass @number, counted from 0. */
static void try_all(unsigned int number, time_t start)
{
	const struct plan plan = {
		.objects = options.objects, .share = options.share,
		.turn = options.seed + number,
	};
	struct pass pass = { .which = options.seed + number };
	unsigned int total = graph_each(&plan, collect, &pass);

	end_batch(pass.which);
	tap_diag("pass %u of %u: %u of %u small graphs, %ld s", number + 1, options.num_ends,
		 pass.graphs, total, (long)(time(NULL) - start));
	/* Only the first pass checks that no graph was left out. */
	if (!number)
		tap_ok(!pass.stopped && (options.share > 1 || pass.graphs == total),
		       "%u of the %u small graphs come to an end", pass.graphs, total);
}

static void try_random(time_t end)
{
	unsigned int which = options.seed;
	uint64_t i;

	for (i = 0; time(NULL) < end && failures < MAX_FAILURES; i++) {
		graph_random(&batch.graph[batch.count++], ((uint64_t)options.seed << 32) + i);
		if (batch.count == RANDOM_BATCH)
			end_batch(which++);
	}
	end_batch(which);
}

static void try_given(char **texts, int count)
{
	unsigned int which;
	char why[WHY];
	int i;

	if (count > MAX_BATCH)
		tap_bail("more than %d graphs", MAX_BATCH);
	for (i = 0; i < count; i++)
		if (!graph_parse(&batch.graph[i], texts[i], why, sizeof(why)))
			tap_bail("%s: %s", texts[i], why);
	batch.count = count;
	batch.chance = options.seed;
	for (which = 0; which < options.num_ends; which++) {
		batch.end = options.end[which];
		if (survives(&batch, options.deep, why))
			tap_ok(true, "%s", batch.end->name);
		else
			tap_ok(false, "%s: %s", batch.end->name, why);
	}
}

static void report(void)
{
	unsigned int i;

	for (i = 0; i < options.num_ends; i++)
		tap_ok(!scores[i].failures && scores[i].graphs,
		       "%s: %u graphs in %u batches leave nothing", options.end[i]->name,
		       scores[i].graphs, scores[i].batches);
}

static void parse_options(int argc, char **argv)
{
	static const struct option names[] = {
		{ "seconds", required_argument, NULL, 's' },
		{ "seed", required_argument, NULL, 'r' },
		{ "objects", required_argument, NULL, 'o' },
		{ "share", required_argument, NULL, 'p' },
		{ "end", required_argument, NULL, 'e' },
		{ "deep", no_argument, NULL, 'd' },
		{ "first", no_argument, NULL, 'f' },
		{},
	};
	int option;

	options.seed = time(NULL) % 1000000;
	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (option == 's')
			options.seconds = strtoul(optarg, NULL, 0);
		else if (option == 'r')
			options.seed = strtoul(optarg, NULL, 0);
		else if (option == 'o')
			options.objects = strtoul(optarg, NULL, 0);
		else if (option == 'p')
			options.share = strtoul(optarg, NULL, 0) ?: 1;
		else if (option == 'd')
			options.deep = true;
		else if (option == 'f')
			options.first = true;
		else if (option == 'e' && end_by_name(optarg) && options.num_ends < MAX_ENDS)
			options.end[options.num_ends++] = end_by_name(optarg);
		else
			tap_bail("unknown option: the head of this program's source lists them");
	}
	if (options.num_ends)
		return;
	for (option = 0; option < (int)num_ends; option++)
		if (!ends[option].needs_control || nic_has_control())
			options.end[options.num_ends++] = &ends[option];
}

/*
 * A warning must not panic the kernel while its culprit is searched for; scripts/vm
 * reports it at the end.
 */
static void outlive_warnings(void)
{
	int fd = open("/proc/sys/kernel/panic_on_warn", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "0", 1) != 1)
		tap_bail("panic_on_warn: %s", strerror(errno));
	close(fd);
}

int main(int argc, char **argv)
{
	time_t start = time(NULL), took;
	unsigned int pass = 0;
	char why[WHY];

	parse_options(argc, argv);
	outlive_warnings();
	nic_keep_dead();
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	holdings_open();
	tap_diag("seed %u", options.seed);
	/* The first graph fills caches, so it is not counted. */
	batch = (struct batch){ .end = end_by_name("exit"), .count = 1 };
	graph_random(&batch.graph[0], 1);
	survives(&batch, false, why);
	batch.count = 0;
	objects = residue_objects();
	/* The driver has some at any time; a kernel that cannot count them has said why. */
	tap_ok(objects, "slab objects can be counted (scripts/vm --append slab_debug=U,kmalloc-*)");

	if (optind < argc) {
		try_given(argv + optind, argc - optind);
		return tap_done();
	}
	/* As many passes as there is time for; in each a graph meets another end. */
	do {
		try_all(pass++, start);
		took = time(NULL) - start;
	} while (pass < options.num_ends && failures < MAX_FAILURES &&
		 took + took / pass < options.seconds);
	try_random(start + options.seconds);
	end_round();
	report();
	return tap_done();
}
