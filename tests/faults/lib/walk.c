// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "counts.h"
#include "fault.h"
#include "holdings.h"
#include "tap.h"
#include "walk.h"

/* More points than any path has, so that a walk without end is stopped. */
#define MANY	20000

/* Sums over all paths. */
static unsigned int all_points, all_failures;

/* The results of one path. */
struct score {
	unsigned int failures;		/* calls that failed */
	unsigned int late;		/* of these, calls that took effect */
	int seen[WALK_ERRNOS + 2];
};

static bool is_sane(const struct path *path, int err)
{
	int i;

	for (i = 0; i < WALK_ERRNOS; i++)
		if (err == path->errnos[i])
			return true;
	return err == ENOMEM || err == EFAULT;
}

static void note_errno(struct score *score, int err)
{
	size_t i;

	for (i = 0; i < sizeof(score->seen) / sizeof(score->seen[0]); i++) {
		if (score->seen[i] == err)
			return;
		if (!score->seen[i]) {
			score->seen[i] = err;
			return;
		}
	}
}

/* After an error everything is as before the call, and the same call succeeds now. */
static bool recovers(const struct path *path, unsigned int nth, int err,
		     const struct holdings *held, struct score *score)
{
	struct holdings now;
	bool same;
	int again;

	score->failures++;
	note_errno(score, err);
	if (!is_sane(path, err)) {
		tap_diag("%s: point %u: %s", path->name, nth, strerror(err));
		return false;
	}
	holdings_get(&now);
	same = holdings_equal(held, &now);
	if (!same && !path->late) {
		tap_diag("%s: point %u: left something behind", path->name, nth);
		holdings_diag("before", held);
		holdings_diag("after", &now);
		return false;
	}
	if (same && path->intact && !path->intact()) {
		tap_diag("%s: point %u: what was there is broken", path->name, nth);
		return false;
	}
	again = path->call();
	if (again && again == path->again && path->late) {
		score->late++;
		return true;
	}
	if (again)
		tap_diag("%s: point %u: the same call after it: %s", path->name, nth,
			 strerror(again));
	return !again;
}

void must(int (*call)(void), const char *what)
{
	int err = call();

	if (err)
		tap_bail("%s, without a fault: %s", what, strerror(err));
}

/* Tries the @nth point of a path; @more is false if the path has fewer points. */
static bool try_point(const struct path *path, unsigned int nth, struct score *score,
		      bool *more)
{
	struct holdings start, held, end;
	bool good = true;
	int err;

	if (path->prepare)
		path->prepare();
	holdings_get(&start);
	if (path->before)
		must(path->before, path->name);
	holdings_get(&held);
	fault_arm(nth);
	err = path->call();
	*more = !fault_disarm();
	if (err && !*more) {
		tap_diag("%s: without a fault: %s", path->name, strerror(err));
		return false;
	}
	if (err)
		good = recovers(path, nth, err, &held, score);
	if (good && path->works && !path->works()) {
		tap_diag("%s: point %u: does not work", path->name, nth);
		good = false;
	}
	if (good && path->after)
		must(path->after, path->name);
	holdings_get(&end);
	if (good && !holdings_equal(&start, &end)) {
		tap_diag("%s: point %u: not everything is gone", path->name, nth);
		holdings_diag("at first", &start);
		holdings_diag("at last", &end);
		good = false;
	}
	return good;
}

static void list_errnos(const struct score *score, char *text, size_t size)
{
	size_t i, used = 0;

	text[0] = 0;
	for (i = 0; i < sizeof(score->seen) / sizeof(score->seen[0]); i++)
		if (score->seen[i])
			used += snprintf(text + used, size - used, " %s",
					 strerrorname_np(score->seen[i]));
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

void walk(const struct path *path)
{
	double start = seconds();
	struct score score = {};
	unsigned int nth = 0;
	bool more = true;
	char errnos[128];

	while (more && nth < MANY) {
		nth++;
		if (!try_point(path, nth, &score, &more)) {
			tap_ok(false, "%s", path->name);
			return;
		}
	}
	list_errnos(&score, errnos, sizeof(errnos));
	/* The last point tried was behind the end of the path. */
	tap_ok(nth > 1 && !more, "%s: %u points, %u calls failed:%s", path->name, nth - 1,
	       score.failures, errnos);
	if (score.late)
		tap_diag("%u of them had taken effect before the answer failed", score.late);
	tap_diag("%.1f s", seconds() - start);
	all_points += nth - 1;
	all_failures += score.failures;
}

int walk_done(struct pair *pair, long pinned)
{
	struct ibv_context *ctx = pair->ctx;
	struct request request = {
		.opcode = IBV_WR_RDMA_WRITE, .local = pair->a.buf, .length = 4096,
		.lkey = pair->a.mr->lkey, .remote = (uintptr_t)pair->b.buf,
		.rkey = pair->b.mr->rkey,
	};
	struct ibv_wc wc = {};

	fill(pair->a.buf, 4096, 3);
	tap_ok(!post(&pair->a, &request) && wait_wc(pair->a.send_cq, &wc) && !wc.status &&
	       is_filled(pair->b.buf, 4096, 3), "after all of it data moves");
	pair_close(pair);
	ibv_close_device(ctx);
	tap_is(pinned_pages() - pinned, 0, "no page stays pinned");
	tap_diag("%u points, %u calls failed", all_points, all_failures);
	return tap_done();
}
