#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# rdma-core's own tests; tests/pyverbs says which and what may be skipped.
# One of them puts queues into a huge page at either side.
echo 4 >/proc/sys/vm/nr_hugepages
exec tests/pyverbs/run
