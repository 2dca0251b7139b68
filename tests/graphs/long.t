#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# timeout: 1500
# Graphs of objects that come to every end, ten minutes of it: see try_graphs.c.
exec "$MOOR_TEST_PROGRAMS/try_graphs" --seconds 600
