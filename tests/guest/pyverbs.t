#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# timeout: 1200
# rdma-core's own tests; tests/pyverbs says which and what may be skipped.
# One of them puts queues into a huge page at either side.
echo 4 >/proc/sys/vm/nr_hugepages
# rdma_cm's go by the interface's address.
for netdev in /sys/bus/pci/drivers/moor/*/net/*; do
	ip addr replace 192.0.2.9/24 dev "${netdev##*/}"
done
exec tests/pyverbs/run --timeout $((180 * ${MOOR_TEST_PATIENCE:-1}))
