/* SPDX-License-Identifier: GPL-2.0 */
/* Timers of the NIC: a binary heap on CLOCK_MONOTONIC. */
#ifndef MODEL_TIMER_H
#define MODEL_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct nic;

struct timer {
	uint64_t deadline;	/* ns */
	uint32_t place;		/* in the heap, from 1; 0: not running */
	void (*expired)(struct nic *nic, struct timer *timer);
};

struct timer_heap {
	struct timer **slots;	/* slots[1] ends first */
	uint32_t count;
};

uint64_t timer_now(void);

/* Room for @timers at once. Return: false when there is no memory. */
bool timer_heap_init(struct timer_heap *heap, uint32_t timers);

/* Starts or restarts. */
void timer_start(struct timer_heap *heap, struct timer *timer,
		 uint64_t deadline);
void timer_stop(struct timer_heap *heap, struct timer *timer);

/* UINT64_MAX: none runs. */
uint64_t timer_next(const struct timer_heap *heap);

/* Calls expired() of the timers that have ended by @now. */
void timer_expire(struct nic *nic, struct timer_heap *heap, uint64_t now);

void timer_heap_free(struct timer_heap *heap);

#endif /* MODEL_TIMER_H */
