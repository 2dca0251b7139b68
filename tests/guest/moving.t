#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# Memory that moves under on-demand paging, in short. tests/stress/odp.t is the long one.
exec "$MOOR_TEST_PROGRAMS/moving" --seconds 60
