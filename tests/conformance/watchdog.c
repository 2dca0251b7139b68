// SPDX-License-Identifier: GPL-2.0
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "watchdog.h"

/* What a case may take; none needs a tenth of it on a slow machine. */
#define CASE_SECONDS	300

/* The case may be anywhere, in printf() too: only what is safe in a signal handler. */
static void out_of_time(int sig)
{
	static const char text[] = "Bail out! a case has not ended in its time\n";

	(void)sig;
	_exit(write(STDOUT_FILENO, text, sizeof(text) - 1) < 0 ? EXIT_FAILURE : EXIT_UNTESTED);
}

void watchdog_start(void)
{
	signal(SIGALRM, out_of_time);
	alarm(CASE_SECONDS);
}

void watchdog_stop(void)
{
	alarm(0);
}
