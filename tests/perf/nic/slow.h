/* SPDX-License-Identifier: GPL-2.0 */
/* The linker's names for the wrapper of command_run(), and for command_run() itself. */
#ifndef PERF_NIC_SLOW_H
#define PERF_NIC_SLOW_H

#include "device/command.h"

bool __real_command_run(struct nic *nic);
bool __wrap_command_run(struct nic *nic);

#endif /* PERF_NIC_SLOW_H */
