#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
# Debian's ibverbs-utils and perftest, server and client in one guest. What they
# say of their own success is believed; the pingpongs' -c checks the data.
set -uo pipefail

dev=
for path in /sys/class/infiniband/*; do
	[ "$(cat "$path/device/vendor" 2>/dev/null)" = 0x1af4 ] && dev=${path##*/}
done
[ -n "$dev" ] || { echo "Bail out! no Moor NIC"; exit 1; }
for ((gid = 0; gid < 16; gid++)); do
	[ "$(cat "/sys/class/infiniband/$dev/ports/1/gid_attrs/types/$gid" 2>/dev/null)" = "RoCE v2" ] && break
done
[ "$gid" -lt 16 ] || { echo "Bail out! $dev has no RoCE v2 GID"; exit 1; }

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
number=0 failed=0
port=18515
seconds=$((60 * ${MOOR_TEST_PATIENCE:-1}))

# listens PORT: does a process listen there?
listens() { grep -qhi ":$(printf %04X "$1") 0*:0000 0A" /proc/net/tcp /proc/net/tcp6; }

# both COMMAND...: as a server and, once that listens, as its client
both() {
	local server status
	port=$((port + 1))
	timeout "$seconds" "$@" -p "$port" >"$logs/server" 2>&1 &
	server=$!
	until listens "$port"; do
		kill -0 "$server" 2>/dev/null || return 1
	done
	timeout "$seconds" "$@" -p "$port" localhost >"$logs/client" 2>&1
	status=$?
	[ "$status" = 0 ] || kill "$server" 2>/dev/null
	# A pingpong that finds wrong data says so, and succeeds.
	wait "$server" && [ "$status" = 0 ] && ! grep -q 'invalid data' "$logs/server" "$logs/client"
}

check() {	# COMMAND...: a test point
	number=$((number + 1))
	: >"$logs/client"
	if both "$@"; then
		echo "ok $number - $*"
	else
		echo "not ok $number - $*"
		sed 's/^/#   server: /' "$logs/server"
		sed 's/^/#   client: /' "$logs/client"
		failed=1
	fi
}

pingpong() { check "ibv_$1_pingpong" -d "$dev" -g "$gid" -n 200 "${@:2}"; }
perf() { check "$1" -d "$dev" -x "$gid" -F "${@:2}"; }

pingpong rc -c
pingpong rc -c -s 100000 -m 4096
pingpong rc -c -e
pingpong rc -c -t
pingpong rc -c -N
pingpong uc -c
pingpong uc -c -s 100000 -m 4096
pingpong uc -e
pingpong ud -c
pingpong ud -c -s 1000 -e
pingpong srq -c
pingpong srq -c -s 100000 -m 4096 -q 4
pingpong xsrq
pingpong xsrq -s 100000 -m 4096
perf ib_send_bw -n 200 -s 4096 -b
perf ib_send_lat -n 200
perf ib_send_bw -c UD -n 200 -s 1024
perf ib_send_lat -c UD -n 200
perf ib_send_bw -n 200 -s 4096 -r 64 --use-srq
perf ib_write_bw -n 200 -s 65536 -q 4
perf ib_read_bw -n 200 -s 65536
perf ib_read_lat -n 200 -e
perf ib_atomic_bw -n 200 -A FETCH_AND_ADD
perf ib_atomic_lat -n 200 -A CMP_AND_SWAP
perf ib_send_bw -c UC -n 200 -s 4096
perf ib_send_lat -c UC -n 200
perf ib_write_bw -c UC -n 200 -s 65536 -q 4
perf ib_write_lat -c UC -n 200
perf ib_send_bw -c XRC -n 200 -s 4096
perf ib_send_bw -c XRC -n 200 -s 65536 -b -q 4
perf ib_send_lat -c XRC -n 200
perf ib_write_bw -c XRC -n 200 -s 65536 -q 4
perf ib_write_lat -c XRC -n 200
perf ib_read_bw -c XRC -n 200 -s 65536
perf ib_atomic_bw -c XRC -n 200 -A FETCH_AND_ADD
echo "1..$number"
exit "$failed"
