/* SPDX-License-Identifier: GPL-2.0 */
/* Fault injection into what the calling thread does in the kernel. */
#ifndef FAULT_H
#define FAULT_H

#include <stdbool.h>

#define FAULT_NONE	"this kernel injects no faults (scripts/vm --kernel debug)"

/* Needs root; false where the kernel has no fault injection. */
bool fault_setup(void);

/*
 * Makes the @nth fault point of this thread fail from now on: an allocation from a slab
 * or of pages, or a copy from or to the process.
 */
void fault_arm(unsigned int nth);

/* Returns how many points were left before the armed one; 0: it was hit. */
unsigned int fault_disarm(void);

#endif /* FAULT_H */
