// SPDX-License-Identifier: GPL-2.0
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tap.h"

static int count, failed;

static void print_line(bool passed, const char *format, va_list args)
{
	printf("%sok %d - ", passed ? "" : "not ", ++count);
	vprintf(format, args);
	failed += !passed;
}

/* A test point; returns @passed. */
bool tap_ok(bool passed, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line(passed, format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	return passed;
}

/* A test point: are the two equal? If not, prints both. */
bool tap_is(long long got, long long wanted, const char *format, ...)
{
	bool passed = got == wanted;
	va_list args;

	va_start(args, format);
	print_line(passed, format, args);
	va_end(args);
	printf("\n");
	if (!passed)
		tap_diag("got %lld (0x%llx), wanted %lld (0x%llx)", got, got,
			 wanted, wanted);
	fflush(stdout);
	return passed;
}

void tap_skip(const char *reason, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line(true, format, args);
	va_end(args);
	printf(" # SKIP %s\n", reason);
	fflush(stdout);
}

void tap_diag(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("#   ");
	vprintf(format, args);
	printf("\n");
	va_end(args);
}

/* Ends the program, because its other tests would make no sense. */
_Noreturn void tap_bail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("Bail out! ");
	vprintf(format, args);
	printf("\n");
	va_end(args);
	exit(1);
}

/* Prints the plan. Returns the exit status. */
int tap_done(void)
{
	printf("1..%d\n", count);
	return failed ? 1 : 0;
}
