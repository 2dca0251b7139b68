/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the guest's processor does, without what it does because it has nothing to do.
 *
 * The clock of such a guest (scripts/vm --icount) counts instructions as long as there are
 * any; while the processor is halted it follows the host's. Whoever waits for a NIC would so
 * be charged with how long that took on this host. So nobody halts here: a process that runs
 * where no other wants to (SCHED_IDLE) turns round in a loop of two instructions and counts
 * its turns, and these are taken off; also those that the scheduler now and then gives it
 * for the sake of fairness. What is left is all that anybody else executed: processes, kernel
 * threads, and interrupts, those in the midst of a turn included.
 */
#ifndef SPARE_H
#define SPARE_H

#include <stdint.h>

/*
 * Starts that process and learns what a turn takes, the ticks of the clock during it
 * included. Ends the program where the clock counts something else than instructions.
 */
void spare_begin(void);

/* Instructions of the guest since some time in the past, without those of spare turns. */
uint64_t busy(void);

#endif /* SPARE_H */
