/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counts what the guest's processor executes, without its idling.
 *
 * The clock of such a guest (scripts/vm --icount) counts instructions while there are
 * any; while the processor is halted it follows the host's clock, so waiting for a NIC
 * would be charged with this host's time. Therefore the processor never halts here: a
 * process of the lowest priority (SCHED_IDLE) runs a loop of two instructions and
 * counts its turns. The turns are subtracted, those that the scheduler gives it for
 * fairness included. What is left was executed by other processes, kernel threads and
 * interrupts, also by interrupts in the midst of a turn.
 */
#ifndef SPARE_H
#define SPARE_H

#include <stdint.h>

/*
 * Starts that process and measures a turn, the clock's ticks included. Ends the program
 * where the clock does not count instructions.
 */
void spare_begin(void);

/* Instructions since some time in the past, without those of spare turns. */
uint64_t busy(void);

#endif /* SPARE_H */
