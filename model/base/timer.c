// SPDX-License-Identifier: GPL-2.0
/* Timers of the NIC: a binary heap on CLOCK_MONOTONIC. */
#include <stdlib.h>
#include <time.h>

#include "base/timer.h"

uint64_t timer_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static void place(struct timer_heap *heap, struct timer *timer, uint32_t at)
{
	heap->slots[at] = timer;
	timer->place = at;
}

static void sift_up(struct timer_heap *heap, struct timer *timer, uint32_t at)
{
	while (at > 1 && heap->slots[at / 2]->deadline > timer->deadline) {
		place(heap, heap->slots[at / 2], at);
		at /= 2;
	}
	place(heap, timer, at);
}

static void sift_down(struct timer_heap *heap, struct timer *timer, uint32_t at)
{
	uint32_t child;

	while ((child = 2 * at) <= heap->count) {
		if (child < heap->count && heap->slots[child + 1]->deadline <
					   heap->slots[child]->deadline)
			child++;
		if (heap->slots[child]->deadline >= timer->deadline)
			break;
		place(heap, heap->slots[child], at);
		at = child;
	}
	place(heap, timer, at);
}

bool timer_heap_init(struct timer_heap *heap, uint32_t timers)
{
	heap->slots = calloc((size_t)timers + 1, sizeof(*heap->slots));
	return heap->slots;
}

void timer_start(struct timer_heap *heap, struct timer *timer,
		 uint64_t deadline)
{
	timer_stop(heap, timer);
	timer->deadline = deadline;
	sift_up(heap, timer, ++heap->count);
}

void timer_stop(struct timer_heap *heap, struct timer *timer)
{
	uint32_t at = timer->place;
	struct timer *last;

	if (!at)
		return;
	timer->place = 0;
	last = heap->slots[heap->count--];
	if (last == timer)
		return;
	if (at > 1 && heap->slots[at / 2]->deadline > last->deadline)
		sift_up(heap, last, at);
	else
		sift_down(heap, last, at);
}

uint64_t timer_next(const struct timer_heap *heap)
{
	return heap->count ? heap->slots[1]->deadline : UINT64_MAX;
}

void timer_expire(struct nic *nic, struct timer_heap *heap, uint64_t now)
{
	/* A timer that its expired() starts again ends after @now: no endless loop. */
	while (heap->count && heap->slots[1]->deadline <= now) {
		struct timer *timer = heap->slots[1];

		timer_stop(heap, timer);
		timer->expired(nic, timer);
	}
}

void timer_heap_free(struct timer_heap *heap)
{
	free(heap->slots);
	*heap = (struct timer_heap){ 0 };
}
