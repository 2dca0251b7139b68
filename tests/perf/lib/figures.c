// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "figures.h"

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

void take(struct figure *figure, uint64_t *start)
{
	figure->took[figure->count++] = now_ns() - *start;
	*start = now_ns();
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

void show(struct figure *figure, const char *what, const struct sort *sort,
	  const char *whose)
{
	if (!figure->count)
		return;
	qsort(figure->took, figure->count, sizeof(*figure->took), by_value);
	printf("\"%s\",\"%s\",%llu,%s,%s,%llu\n", what, sort->kind,
	       (unsigned long long)sort->size, sort->of, whose,
	       (unsigned long long)figure->took[figure->count / 2]);
	/* A run that is cut short leaves the figures that it has. */
	fflush(stdout);
	figure->count = 0;
}
