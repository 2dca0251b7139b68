#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# Graphs of objects that end in every way, for a minute, with every change: see
# try_graphs.c. Of the many graphs of shared rules, an eighth (lib/enumerate.c). The
# module of kernel clients is for the step "kernel" (tests/kernel/hold.c).
[ -e /sys/kernel/debug/moor_verbs_test ] ||
	insmod "build/modules/$(uname -r)/tree/tests/kernel/moor_verbs_test.ko" || exit 1
# The module that exports dma-bufs is for the step "dmabuf".
[ -e /dev/moor_exporter ] ||
	insmod "build/modules/$(uname -r)/tree/tests/kernel/moor_exporter.ko" || exit 1
# MOOR_FIRST is for callers that only want to know whether anything fails.
exec "$MOOR_TEST_PROGRAMS/try_graphs" --seconds 60 --share 8 ${MOOR_FIRST:+--first}
