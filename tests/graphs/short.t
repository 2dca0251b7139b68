#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
# Graphs of objects that come to every end, a minute of it, for every change: see try_graphs.c.
exec "$MOOR_TEST_PROGRAMS/try_graphs" --seconds 60
