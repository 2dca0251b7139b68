#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# timeout: 1500
# Graphs of objects that come to every end, ten minutes of it: see try_graphs.c.
# For what a user in the kernel has (tests/kernel/hold.c).
[ -e /sys/kernel/debug/moor_verbs_test ] ||
	insmod "build/modules/$(uname -r)/tree/tests/kernel/moor_verbs_test.ko" || exit 1
# For whose dma-bufs there are.
[ -e /dev/moor_exporter ] ||
	insmod "build/modules/$(uname -r)/tree/tests/kernel/moor_exporter.ko" || exit 1
exec "$MOOR_TEST_PROGRAMS/try_graphs" --seconds 600
