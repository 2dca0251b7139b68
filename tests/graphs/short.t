#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# Graphs of objects that come to every end, a minute of it, for every change: see try_graphs.c.
# Of those that are many and alike, an eighth (lib/enumerate.c).
# For what a user in the kernel has (tests/kernel/hold.c).
[ -e /sys/kernel/debug/moor_verbs_test ] ||
	insmod "build/modules/$(uname -r)/tree/tests/kernel/moor_verbs_test.ko" || exit 1
# For whose dma-bufs there are.
[ -e /dev/moor_exporter ] ||
	insmod "build/modules/$(uname -r)/tree/tests/kernel/moor_exporter.ko" || exit 1
# MOOR_FIRST is for who wants to know no more than that something fails.
exec "$MOOR_TEST_PROGRAMS/try_graphs" --seconds 60 --share 8 ${MOOR_FIRST:+--first}
