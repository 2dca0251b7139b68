/* SPDX-License-Identifier: GPL-2.0 */
/* Ends the program when a case does not end by itself. */
#ifndef CONFORMANCE_WATCHDOG_H
#define CONFORMANCE_WATCHDOG_H

/* The status of a suite that has not come to its end. */
#define EXIT_UNTESTED	3

void watchdog_start(void);
void watchdog_stop(void);

#endif /* CONFORMANCE_WATCHDOG_H */
