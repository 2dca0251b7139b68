/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TAP output. One call is one test point; the plan is printed at the end.
 */
#ifndef TAP_H
#define TAP_H

#include <stdbool.h>

#define PRINTF(n) __attribute__((format(printf, n, n + 1)))

bool tap_ok(bool passed, const char *format, ...) PRINTF(2);
bool tap_is(long long got, long long wanted, const char *format, ...) PRINTF(3);
void tap_skip(const char *reason, const char *format, ...) PRINTF(2);
void tap_diag(const char *format, ...) PRINTF(1);
_Noreturn void tap_bail(const char *format, ...) PRINTF(1);
int tap_done(void);

#endif /* TAP_H */
