// SPDX-License-Identifier: GPL-2.0
/* Timers end in order and once; stopped ones do not. */
#include <stdlib.h>

#include "base/timer.h"
#include "guest.h"

#define TIMERS	1000

struct probe {
	struct timer timer;
	unsigned int ended;
};

static uint64_t last;
static bool ordered = true;

static void ended(struct nic *nic, struct timer *timer)
{
	struct probe *probe = (struct probe *)timer;

	(void)nic;
	ordered &= timer->deadline >= last && !timer->place;
	last = timer->deadline;
	probe->ended++;
}

int main(void)
{
	static struct probe probe[TIMERS];
	struct timer_heap heap = { 0 };
	bool good = true, early = true;
	unsigned int i;
	uint64_t now;

	srand(1);
	ok(timer_heap_init(&heap, TIMERS) && timer_next(&heap) == UINT64_MAX,
	   "none runs");
	for (i = 0; i < 5 * TIMERS; i++) {
		struct probe *p = &probe[rand() % TIMERS];

		p->timer.expired = ended;
		if (rand() % 3)
			timer_start(&heap, &p->timer, (uint64_t)rand() % 5000);
		else
			timer_stop(&heap, &p->timer);
	}
	for (i = 0; i < TIMERS; i++) {
		if (i % 3)
			timer_start(&heap, &probe[i].timer, 1000 + i);
		else
			timer_stop(&heap, &probe[i].timer);
		probe[i].timer.expired = ended;
	}
	for (now = 0; now < 3000; now += 100) {
		timer_expire(NULL, &heap, now);
		early &= last <= now && timer_next(&heap) > now;
	}
	for (i = 0; i < TIMERS; i++)
		good &= probe[i].ended == !!(i % 3);
	ok(good, "each that ran ended once, none that was stopped");
	ok(ordered && early, "in order, none early or late");
	ok(timer_next(&heap) == UINT64_MAX && !heap.count, "none is left");
	timer_heap_free(&heap);
	return done();
}
