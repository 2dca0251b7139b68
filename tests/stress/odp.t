#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# timeout: 1500
# Memory that moves under on-demand paging: 15 minutes of it, and each kind of
# disturbance a thousand times.
exec "$MOOR_TEST_PROGRAMS/moving" --seconds 900 --least 1000
