// SPDX-License-Identifier: GPL-2.0
/*
 * A slow NIC: it runs a command a millisecond after it has found it in the ring. Linked
 * with --wrap=command_run; see tests/perf/nic/make.
 */
#include "base/timer.h"
#include "device/command.h"
#include "slow.h"

#define DELAY_NS	1000000ull

bool __wrap_command_run(struct nic *nic)
{
	static uint64_t due;

	if (!command_pending(nic))
		return false;
	if (!due)
		due = timer_now() + DELAY_NS;
	if (timer_now() < due)
		return false;
	due = 0;
	return __real_command_run(nic);
}
