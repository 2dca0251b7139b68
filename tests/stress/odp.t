#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# timeout: 3600
# Memory that moves under on-demand paging, for 15 minutes, or up to three times as long
# until each kind of disturbance has taken effect a thousand times.
exec "$MOOR_TEST_PROGRAMS/moving" --seconds 900 --least 1000
