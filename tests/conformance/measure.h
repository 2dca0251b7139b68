/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CONFORMANCE_MEASURE_H
#define CONFORMANCE_MEASURE_H

#include <stdbool.h>

/* Prints latencies and rates. Return: whether everything went well. */
bool measure_nic(void);

#endif /* CONFORMANCE_MEASURE_H */
