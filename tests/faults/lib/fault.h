/* SPDX-License-Identifier: GPL-2.0 */
/* Faults that the kernel injects into what the calling thread does. */
#ifndef FAULT_H
#define FAULT_H

#include <stdbool.h>

#define FAULT_NONE	"this kernel injects no faults (scripts/vm --kernel debug)"

/* Needs root; false where the kernel has no fault injection. */
bool fault_setup(void);

/*
 * From here on the @nth point fails of those at which the kernel can fail for
 * this thread: allocations from slabs, of pages, and copies from and to it.
 */
void fault_arm(unsigned int nth);

/* Returns how many points are left to the one that was to fail; 0: it has. */
unsigned int fault_disarm(void);

#endif /* FAULT_H */
