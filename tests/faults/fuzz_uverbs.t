#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# Random calls for a minute, or for MOOR_FUZZ_SECONDS.
exec "$MOOR_TEST_PROGRAMS/fuzz_uverbs" --seconds "${MOOR_FUZZ_SECONDS:-60}"
