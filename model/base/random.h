/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random numbers that a seed repeats (xorshift64). Each user has a stream of its own,
 * so that the numbers drawn by one user change nothing for another.
 */
#ifndef MODEL_RANDOM_H
#define MODEL_RANDOM_H

#include <stdint.h>

struct random {
	uint64_t state;		/* anything but zero */
};

/* Seeds next to each other start far apart. */
static inline void random_seed(struct random *r, uint64_t seed)
{
	uint64_t mixed = (seed + 1) * 0x9e3779b97f4a7c15u;

	mixed ^= mixed >> 32;
	r->state = mixed ? mixed : 1;
}

static inline uint64_t random_next(struct random *r)
{
	r->state ^= r->state << 13;
	r->state ^= r->state >> 7;
	r->state ^= r->state << 17;
	return r->state;
}

/* A number below @n. */
static inline uint32_t random_below(struct random *r, uint32_t n)
{
	return (uint32_t)(random_next(r) >> 32) % n;
}

#endif /* MODEL_RANDOM_H */
