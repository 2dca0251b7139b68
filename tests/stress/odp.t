#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# timeout: 3600
# Memory that moves under on-demand paging: 15 minutes of it, three times that if need be
# until each kind of disturbance has had its effect a thousand times.
exec "$MOOR_TEST_PROGRAMS/moving" --seconds 900 --least 1000
