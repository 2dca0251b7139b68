/* SPDX-License-Identifier: GPL-2.0 */
/* Faults for those of the kernel's workers that work for the driver. */
#ifndef WORKERS_H
#define WORKERS_H

#include <stdbool.h>

/*
 * Makes the @nth fault point of each worker fail (fault_arm()). Bails out if none is
 * found.
 */
void workers_arm(unsigned int nth);

/* Returns whether a worker has hit that point. */
bool workers_disarm(void);

#endif /* WORKERS_H */
