/* SPDX-License-Identifier: GPL-2.0 */
/* Faults for the kernel's workers that have worked for the driver, and are to again. */
#ifndef WORKERS_H
#define WORKERS_H

#include <stdbool.h>

/* The @nth point of each of them is to fail (fault_arm()); bails out if there is none. */
void workers_arm(unsigned int nth);

/* Has one of them come as far as that? */
bool workers_disarm(void);

#endif /* WORKERS_H */
