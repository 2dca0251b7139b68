// SPDX-License-Identifier: GPL-2.0
/* When the NIC spins, naps and dozes (Documentation/performance.rst 2). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guest.h"
#include "pace.h"

#define US	1000ull
#define MS	1000000ull

static struct pace_sources told;	/* values in place of the scheduler's */
static uint64_t now = 77 * MS;

static void tell(int fd, const char *text)
{
	ssize_t len = (ssize_t)strlen(text);

	if (ftruncate(fd, 0) || pwrite(fd, text, len, 0) != len)
		abort();
}

static void has_waited(uint64_t ns)
{
	char text[64];

	snprintf(text, sizeof(text), "12345 %llu 17\n", (unsigned long long)ns);
	tell(told.schedstat, text);
}

static void are_ready(unsigned int threads)
{
	char text[64];

	snprintf(text, sizeof(text), "0.52 1.90 2.70 %u/101 25716\n", threads);
	tell(told.loadavg, text);
}

/* The step after @span of work with gaps of at most 10 us. */
static enum pace_step after(struct pace *pace, uint64_t span)
{
	uint64_t end = now + span;
	enum pace_step step;

	do {
		now += 10 * US;
		pace_worked(pace, now);
		step = pace_next(pace, now);
	} while (now < end);
	return step;
}

static void test_alone(void)
{
	struct pace pace;

	has_waited(5 * MS);
	are_ready(told.processors);
	pace_init(&pace, &told, now);
	ok(after(&pace, 20 * MS) == PACE_SPIN, "nobody else wants the processor: it spins");
	now += 999 * US;
	ok(pace_next(&pace, now) == PACE_SPIN, "  for 999 us after work");
	now += 1 * US;
	ok(pace_next(&pace, now) == PACE_DOZE, "  after a millisecond it dozes");
	now += 3000 * MS;
	ok(after(&pace, 0) == PACE_SPIN, "  and spins again when there is work");
}

static void test_woken(void)
{
	struct pace pace;

	has_waited(5 * MS);
	are_ready(told.processors);
	pace_init(&pace, &told, now);
	ok(after(&pace, 20 * MS) == PACE_SPIN, "nobody was woken: it spins");
	pace_woke(&pace, now);
	ok(pace_next(&pace, now) == PACE_NAP, "somebody was woken: it leaves him the processor");
	now += 299 * US;
	ok(pace_next(&pace, now) == PACE_NAP, "  for 299 us");
	now += 1 * US;
	ok(pace_next(&pace, now) == PACE_SPIN, "  then it spins again");
	are_ready(told.processors + 1);
	ok(after(&pace, 20 * MS) == PACE_NAP, "others want the processors: it naps");
	pace_woke(&pace, now);
	now += 300 * US;
	ok(pace_next(&pace, now) == PACE_NAP, "  for longer than whom it has woken needs");
	now += 1 * MS;
	pace_woke(&pace, now);
	ok(pace_next(&pace, now) == PACE_DOZE, "nothing to do: to wake somebody is no work");
}

/* Others wait @waits for a processor in each 490 us of spinning: does the NIC go on? */
static void test_account(uint64_t waits, unsigned int ready, bool goes_on,
			 const char *what)
{
	uint64_t waited = 5 * MS;
	struct pace pace;
	unsigned int i;

	has_waited(waited);
	are_ready(ready);
	pace_init(&pace, &told, now);
	for (i = 0; i < 200 && after(&pace, 0) == PACE_SPIN; i++) {
		now += 490 * US;
		has_waited(waited += waits);
	}
	ok((i == 200) == goes_on, "%s: it %s, after %u accounts", what,
	   goes_on ? "spins" : "naps", i);
}

static void test_accounts(void)
{
	unsigned int processors = told.processors;
	struct pace pace;

	test_account(60 * US, processors, true, "an eighth of the time goes to others");
	test_account(70 * US, processors, false, "more than an eighth");
	test_account(0, processors + 1, false, "others wait for each other");

	has_waited(0);
	are_ready(processors + 1);
	pace_init(&pace, &told, now);
	ok(after(&pace, 900 * US) == PACE_SPIN, "they are many, for a moment");
	are_ready(processors);
	ok(after(&pace, 20 * MS) == PACE_SPIN, "  which it does not mind");
}

static void test_starved(void)
{
	uint64_t waited = 5 * MS, began;
	unsigned int tries;
	struct pace pace;

	has_waited(waited);
	are_ready(told.processors);
	pace_init(&pace, &told, now);
	ok(after(&pace, 100 * US) == PACE_SPIN, "others want the processor: it tries");
	has_waited(waited += 2 * MS);
	ok(after(&pace, 500 * US) == PACE_NAP, "  and naps when it has seen that");
	ok(after(&pace, 63 * MS) == PACE_NAP, "  for 64 ms at least");
	has_waited(waited += 900 * MS);
	ok(after(&pace, 2 * MS) == PACE_SPIN,
	   "what it waited meanwhile does not count: it tries again");

	for (began = now, tries = 0; now - began < 10000 * MS;) {
		if (after(&pace, 0) == PACE_SPIN) {
			has_waited(waited += 2 * MS);
			tries += after(&pace, 500 * US) == PACE_NAP;
		}
	}
	ok(tries >= 38 && tries <= 46,
	   "starved for 10 s: %u tries, four a second when it knows", tries);
	now += 5 * MS;
	ok(pace_next(&pace, now) == PACE_DOZE, "a guest that rests is no reason to forget");
	ok(pace.penalty == 256 * MS && after(&pace, 0) == PACE_NAP, "  it naps on");
	while (after(&pace, 0) != PACE_SPIN)
		;
	ok(after(&pace, 2 * MS) == PACE_SPIN && pace.penalty > 200 * MS,
	   "the others have gone: it spins, and has not forgotten them yet");
	ok(after(&pace, 400 * MS) == PACE_SPIN && pace.penalty == 8 * MS,
	   "  in a while it has");
}

static void test_not_known(void)
{
	struct pace_sources none = told;
	struct pace pace;

	none.schedstat = -1;
	pace_init(&pace, &none, now);
	ok(after(&pace, 20 * MS) == PACE_NAP, "no account: it naps");
	none = told;
	none.loadavg = -1;
	pace_init(&pace, &none, now);
	ok(after(&pace, 20 * MS) == PACE_NAP, "no count of threads: it naps");
	tell(told.schedstat, "");
	pace_init(&pace, &told, now);
	ok(after(&pace, 20 * MS) == PACE_NAP, "an empty account: it naps");
	now += 1 * MS;
	ok(pace_next(&pace, now) == PACE_DOZE, "  and dozes");
}

int main(void)
{
	told = (struct pace_sources){
		.schedstat = memfd_create("schedstat", MFD_CLOEXEC),
		.loadavg = memfd_create("loadavg", MFD_CLOEXEC),
		.processors = 3,
	};
	test_alone();
	test_woken();
	test_accounts();
	test_starved();
	test_not_known();
	pace_sources_close(&told);
	return done();
}
