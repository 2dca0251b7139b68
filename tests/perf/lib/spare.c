// SPDX-License-Identifier: GPL-2.0
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "figures.h"
#include "spare.h"
#include "tap.h"

#define PERIODS		9
#define PERIOD_NS	50000000ull
#define TURNS		1000000ull

static volatile uint64_t *turns;
static double ns_of_turn;

static _Noreturn void turn_round(void)
{
	const struct sched_param none = { 0 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sched_setscheduler(0, SCHED_IDLE, &none))
		_exit(1);
	/* A turn is these two instructions. The process ends with its parent. */
	asm volatile("1: incq %0\n\tjmp 1b" : "+m" (*turns));
	__builtin_unreachable();
}

/* Does each instruction take a nanosecond, in short loops and in long ones? */
static bool counts_instructions(void)
{
	uint64_t start = now_ns(), left = TURNS, few, many;

	asm volatile("1: decq %0\n\tjnz 1b" : "+r" (left) : : "cc");
	few = now_ns() - start;
	left = TURNS;
	start = now_ns();
	asm volatile("1: .rept 14\n\tnop\n\t.endr\n\tdecq %0\n\tjnz 1b" : "+r" (left) : : "cc");
	many = now_ns() - start;
	return few > 1.95 * TURNS && few < 2.1 * TURNS &&
	       many > 15.6 * TURNS && many < 16.4 * TURNS;
}

static int by_value(const void *a, const void *b)
{
	return *(const double *)a > *(const double *)b ? 1 : -1;
}

/* With no other work but the clock's ticks: nanoseconds of a turn. */
static double learn(void)
{
	double took[PERIODS];
	int i;

	for (i = 0; i < PERIODS; i++) {
		uint64_t start = now_ns(), before = *turns;

		usleep(PERIOD_NS / 1000);
		took[i] = (double)(now_ns() - start) / (*turns - before);
	}
	qsort(took, PERIODS, sizeof(*took), by_value);
	return took[PERIODS / 2];
}

void spare_begin(void)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) != 1 || !counts_instructions())
		tap_bail("a guest is needed whose clock counts instructions: scripts/vm --icount");
	turns = mmap(NULL, sizeof(*turns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	if (turns == MAP_FAILED)
		tap_bail("no memory");
	*turns = 0;
	switch (fork()) {
	case -1:
		tap_bail("cannot fork");
	case 0:
		turn_round();
	}
	ns_of_turn = learn();
	fprintf(stderr, "a spare turn of 2 instructions: %.4f with what happens anyway\n",
		ns_of_turn);
	if (!(ns_of_turn > 1.95 && ns_of_turn < 2.2))
		tap_bail("who has nothing to do does not turn round");
}

uint64_t busy(void)
{
	return now_ns() - (uint64_t)(ns_of_turn * *turns);
}
