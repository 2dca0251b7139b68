// SPDX-License-Identifier: GPL-2.0
/* No two seeds near each other draw the same numbers, or begin alike. */
#include "base/random.h"
#include "guest.h"

#define SEEDS	1000u

int main(void)
{
	static uint64_t drawn[SEEDS];
	unsigned int i, j, same = 0, low = 0;
	struct random random;

	for (i = 0; i < SEEDS; i++) {
		random_seed(&random, i);
		low += random_below(&random, 100) < 5;
		drawn[i] = random_next(&random);
		for (j = 0; j < i; j++)
			same += drawn[j] == drawn[i];
	}
	ok(!same, "%u seeds: all draw other numbers (%u times the same)", SEEDS, same);
	/* 50 of them, if the first number is as random as those that follow. */
	ok(low > 25 && low < 75, "five of a hundred begin with a number below 5 (%u)", low);
	random_seed(&random, UINT64_MAX);
	ok(random.state && random_next(&random), "the seed that would give a state of 0");
	return done();
}
