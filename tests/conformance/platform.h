/* SPDX-License-Identifier: GPL-2.0 */
/* What the platform between device and memory does. */
#ifndef CONFORMANCE_PLATFORM_H
#define CONFORMANCE_PLATFORM_H

#include <stdbool.h>

/*
 * Is the device told of writes that the platform refuses? A posted one may be lost without
 * a report, and then counts as done (HWI ACC-19), so that where not one kind of write is
 * reported none has to be. The first call tries that, and then begins the case anew: it
 * stands before all else that a case does.
 */
bool platform_reports_writes(void);

#endif /* CONFORMANCE_PLATFORM_H */
