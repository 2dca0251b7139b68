#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# timeout: 1500
# Graphs of objects that end in every way, for ten minutes: see try_graphs.c. The module
# of kernel clients is for the step "kernel" (tests/kernel/hold.c).
[ -e /sys/kernel/debug/moor_verbs_test ] ||
	insmod "build/modules/$(uname -r)/tree/tests/kernel/moor_verbs_test.ko" || exit 1
# The module that exports dma-bufs is for the step "dmabuf".
[ -e /dev/moor_exporter ] ||
	insmod "build/modules/$(uname -r)/tree/tests/kernel/moor_exporter.ko" || exit 1
exec "$MOOR_TEST_PROGRAMS/try_graphs" --seconds 600
