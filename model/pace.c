// SPDX-License-Identifier: GPL-2.0
/*
 * A NIC that spins sees a doorbell at once. A NIC that naps sees it after half a nap
 * and a wake-up, 50 us. A NIC that dozes sees it after a kick, for which a vCPU and a
 * thread of QEMU have to be woken. But vCPUs that poll want processors, too: where
 * there are not enough, a NIC that spins takes from the guest what the guest waits for.
 *
 * So the NIC spins as long as no thread waits for a processor. The scheduler tells how
 * long the NIC's thread was ready to run and did not run; and how many threads are
 * ready in all: where two vCPUs share the processor beside the NIC's, only they wait.
 * If threads wait for more than an eighth of the time, the NIC naps instead. It tries
 * to spin again later, and later still if that was too early.
 *
 * The scheduler likes to put a woken thread on the processor of the thread that woke
 * it. For a thread that the NIC wakes this is the NIC's processor, even if another is
 * idle: a register read waited there until the NIC stopped spinning, a millisecond. So
 * the NIC naps for a while after it woke a thread: QEMU's thread wakes the vCPU's, and
 * the vCPU's thread wakes a thread of the guest. (With a yield instead of a nap, the
 * NIC has the processor back after milliseconds, if other threads want it, too.)
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "pace.h"

/* How long the NIC stays awake after work. */
#define AWAKE_NS	1000000u

/* How long a thread that the NIC has woken may need to wake the threads behind it. */
#define LEAVE_NS	300000u

/* How long the NIC spins before it looks at the harm done, and how much is allowed. */
#define ACCOUNT_NS	500000u
#define HARM_NS		1000000u

/*
 * How long the NIC does not try to spin again: twice as long each time that spinning
 * did harm, and less by four times the time that it spun without harm. So a guest that
 * rests, and leaves processors free for a moment, does not bring it down at once.
 */
#define PENALTY_MIN_NS	8000000u
#define PENALTY_FIRST_NS	64000000u
#define PENALTY_MAX_NS	256000000u
#define FORGETS		4

void pace_sources_open(struct pace_sources *sources)
{
	cpu_set_t mine;

	*sources = (struct pace_sources){ .schedstat = -1, .loadavg = -1 };
	if (sched_getaffinity(0, sizeof(mine), &mine) || CPU_COUNT(&mine) < 2)
		return;
	sources->processors = CPU_COUNT(&mine);
	sources->schedstat = open("/proc/thread-self/schedstat",
				  O_RDONLY | O_CLOEXEC);
	sources->loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
}

void pace_sources_close(struct pace_sources *sources)
{
	if (sources->schedstat >= 0)
		close(sources->schedstat);
	if (sources->loadavg >= 0)
		close(sources->loadavg);
}

void pace_init(struct pace *pace, const struct pace_sources *sources, uint64_t now)
{
	*pace = (struct pace){
		.sources = *sources, .busy_at = now,
		.penalty = PENALTY_FIRST_NS,
	};
}

/* Reads the number that @format finds in the file. Return: false if there is none. */
static bool read_number(int fd, const char *format, unsigned long long *number)
{
	char text[128];
	ssize_t len = -1;

	if (fd >= 0)
		len = pread(fd, text, sizeof(text) - 1, 0);
	if (len <= 0)
		return false;
	text[len] = 0;
	return sscanf(text, format, number) == 1;
}

/* Return: false when one of the two files cannot be read. */
static bool look_at_processors(const struct pace *pace, uint64_t *waited, bool *crowded)
{
	unsigned long long wait, ready;

	if (!read_number(pace->sources.schedstat, "%*u %llu", &wait) ||
	    !read_number(pace->sources.loadavg, "%*s %*s %*s %llu", &ready))
		return false;
	*waited = wait;
	*crowded = ready > pace->sources.processors;
	return true;
}

static void begin_to_spin(struct pace *pace, uint64_t now)
{
	bool crowded;

	pace->harm = 0;
	if (look_at_processors(pace, &pace->waited, &crowded))
		pace->spins_since = now;
	else
		pace->naps_until = UINT64_MAX;
}

/* Adds up the harm of spinning for @span. Return: false when that is not known. */
static bool take_account(struct pace *pace, uint64_t span)
{
	uint64_t before = pace->waited, forgiven = span / 8;
	bool crowded;

	if (!look_at_processors(pace, &pace->waited, &crowded))
		return false;
	pace->harm += pace->waited - before + (crowded ? span : 0);
	pace->harm -= pace->harm < forgiven ? pace->harm : forgiven;
	return true;
}

static void did_no_harm(struct pace *pace, uint64_t span)
{
	if (pace->penalty > PENALTY_MIN_NS + FORGETS * span)
		pace->penalty -= FORGETS * span;
	else
		pace->penalty = PENALTY_MIN_NS;
}

static bool may_go_on(struct pace *pace, uint64_t now)
{
	uint64_t span = now - pace->spins_since;

	if (span < ACCOUNT_NS)
		return true;
	if (take_account(pace, span) && pace->harm <= HARM_NS) {
		pace->spins_since = now;
		if (!pace->harm)
			did_no_harm(pace, span);
		return true;
	}
	pace->naps_until = now + pace->penalty;
	pace->penalty *= 2;
	if (pace->penalty > PENALTY_MAX_NS)
		pace->penalty = PENALTY_MAX_NS;
	return false;
}

void pace_worked(struct pace *pace, uint64_t now)
{
	pace->busy_at = now;
}

void pace_woke(struct pace *pace, uint64_t now)
{
	pace->leaves_until = now + LEAVE_NS;
}

enum pace_step pace_next(struct pace *pace, uint64_t now)
{
	if (now - pace->busy_at >= AWAKE_NS) {
		pace->spins_since = 0;
		return PACE_DOZE;
	}
	if (now >= pace->naps_until && !pace->spins_since)
		begin_to_spin(pace, now);
	if (now < pace->naps_until || !may_go_on(pace, now)) {
		pace->spins_since = 0;
		return PACE_NAP;
	}
	return now < pace->leaves_until ? PACE_NAP : PACE_SPIN;
}
