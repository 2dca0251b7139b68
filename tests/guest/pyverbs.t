#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# rdma-core's own tests; tests/pyverbs says which and what may be skipped.
exec tests/pyverbs/run
