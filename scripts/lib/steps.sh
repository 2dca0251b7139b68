# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced by scripts/check and scripts/check-full: steps that pass or fail, and
# what they add up to. The caller sets logs, the folder for their output, and
# boot_seconds, after which a guest hangs.
# shellcheck source=scripts/lib/processes.sh
. "$top/scripts/lib/processes.sh"

passed=0 failed=0 skipped=0
# What tests/graphs wants of a boot: a NIC that can be broken, and counted slab objects.
# shellcheck disable=SC2034  # for who sources this
for_graphs=(--iommu --strict --control --append 'slab_debug=U,kmalloc-*')

# Each kind of accident hits this many of a hundred packets.
impairment=lose=5,repeat=5,reorder=5,delay=5,damage=5
# What may not tell the difference: the tests of the guest that move data or provoke errors.
# testing.rst says which are not among them, and why.
# shellcheck disable=SC2034  # for who sources this
impaired_tests=(
	kernel_verbs test_access_matrix test_atomic_write test_attack test_data test_dead_keys test_dead_process test_dm test_dma_fault
	test_errors test_exit_bound test_flags test_flush test_flush_refused test_holders test_import test_isolation test_lifetime
	test_notify test_null_mr test_placed_xrc test_queues test_race_bind test_race_free test_rereg test_traffic test_windows
	test_wr test_zero_based)

# Programs of others that take minutes: 'make check' has each on one kernel, check-full on both.
# shellcheck disable=SC2034  # for who sources this
programs_newest=nvme,perftest,pyverbs,rdma_cm,rdma_core_unstable
# shellcheck disable=SC2034  # for who sources this
programs_lts=iser,nfs,qperf,rds,smc

# impaired_port NAME VM-OPTION... -- TEST...: runs these tests on a port that impairs
# packets.
impaired_port() {
	local name=$1 options=()
	shift
	while [ "$1" != -- ]; do options+=("$1"); shift; done
	shift
	guest "$name" --control "${options[@]}" -- --impair "$impairment" --patience 4 "$@"
}

# aside FUNCTION: runs its steps in the background until 'join'. It has files of its own
# for what 'report' and 'failure' write: two that write to one at a time mix their lines.
aside() {
	rm -f -- "$logs/aside" ${points:+"$points.aside"} ${failures:+"$failures.aside"}
	(
		trap - EXIT
		passed=0 failed=0 skipped=0
		points=${points:+$points.aside} failures=${failures:+$failures.aside}
		"$1" || true
		echo "$passed $failed $skipped" >"$logs/aside"
	) &
	lane=$!
}
join() {
	local good=0 bad=1 left=0 file
	wait "$lane" || true
	read -r good bad left <"$logs/aside" || echo "not ok: the steps aside did not end well"
	passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + left))
	for file in "$points" "$failures"; do
		[ -z "$file" ] || [ ! -e "$file.aside" ] || { cat "$file.aside" >>"$file"; rm -f -- "$file.aside"; }
	done
}

# in_one_piece COMMAND...: its output when it has ended, set off to the right, for what prints
# more than a line beside something that prints, too.
in_one_piece() {
	local output=$logs/output status=0
	"$@" >"$output" 2>&1 || status=$?
	sed 's/^/  /' "$output"
	rm -f -- "$output"
	return "$status"
}

# alone COMMAND...: builds in build/, which 'make check' and a step of check-full may both be
# about to do: the second waits, outside of the time that its command may take.
alone() {
	local status=0
	{
		flock -n 6 || {
			say "another run is building (holds $build/lock/building); waiting for it to finish"
			attended flock 6
		}
		"$@" || status=$?
	} 6>"$build/lock/building"
	return "$status"
}

# report NAME FILE STATUS: the TAP in FILE, and a line for NAME itself, into the file that
# the caller named in points, if it did; 'whole' makes one TAP of it.
points=
report() {
	local line=ok
	[ -n "$points" ] || return 0
	[ "$3" = 0 ] || line='not ok'
	{
		[ ! -e "$2" ] || sed -nE "s|^ *(not )?ok\\b( [0-9]+)?( -)? *|\\1ok - $1: |p" "$2"
		echo "$line - $1"
	} >>"$points"
}
# whole FILE: everything reported so far, as one TAP.
whole() {
	awk '{ sub(/ok - /, "ok " NR " - "); print } END { print "1.." NR }' "$points" >"$1"
	rm -f -- "$points"
}

# failure NAME: what failed, and, from standard input, how, into the file that the caller
# named in failures, if it did: for the end, where people look.
failures=
failure() {
	[ -n "$failures" ] || return 0
	{ printf 'not ok %s\n' "$1"; head -n 30 | cut -c 1-200 | sed 's/^/    | /'; } >>"$failures"
}

# step NAME SECONDS COMMAND...: one thing that passes or fails, its output in a log.
# Each "ok" or "not ok" in there counts for itself; a command that prints none is one.
# What takes longer than SECONDS hangs: that must not hang everything.
step() {
	local name=$1 seconds=$2 log=$logs/$1.log started=$SECONDS status=0 good='' bad='' left=0
	shift 2
	attended timeout --kill-after=10 "$seconds" "$@" >"$log" 2>&1 </dev/null || status=$?
	# A KUnit suite is one "ok" with many cases: where there are totals, these count.
	read -r good bad left < <(sed -nE 's/^[a-z-]+: ([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?.*/\1 \2 0\4/p' \
		"$log" | tail -n 1) || true
	left=$((10#${left:-0}))
	if [ -z "$good" ]; then
		left=$(grep -acE '^ok\b.*# SKIP' "$log") || true
		good=$(($(grep -acE '^ok\b' "$log" || true) - left))
	fi
	[ -n "$bad" ] || bad=$(grep -acE '^not ok\b' "$log") || true
	if [ "$status" = 0 ] && [ "$bad" = 0 ]; then
		good=$((good + left > 0 ? good : 1))
		printf 'ok     %-28s %s passed (%d s)\n' "$name" "$good" $((SECONDS - started))
	else
		bad=$((bad > 0 ? bad : 1))
		printf 'not ok %-28s %s failed, status %d (%d s); log: %s\n' "$name" "$bad" "$status" \
			$((SECONDS - started)) "${log#"$top"/}"
		# The failed points with their diagnostics; or how the step ended.
		{ grep -aE -B 5 -A 5 -m 8 '^ *not ok\b' "$log" || tail -n 40 "$log"; } | sed 's/^/    | /'
		{ grep -aE -m 8 '^ *not ok\b' "$log" || tail -n 20 "$log"; } | failure "$name"
	fi
	passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + left))
	report "$name" "$log" $((status + bad))
	[ "$status" = 0 ] && [ "$bad" = 0 ]
}

# The guest takes 32 MiB of its memory from 256 MiB on for persistent.
persistent='memmap=32M!256M'

# last_test LOG: the test that a guest was at when it ended, from its console's log.
last_test() { LC_ALL=C sed -nE 's/.*moor-test: ([[:graph:]]+).*/\1/p' "$1" | tail -n 1; }

# guest NAME VM-OPTION... -- TEST...: the guest's tests in one boot; TEST... are
# arguments of tests/run-guest.
guest() {
	local name=$1 folder=$logs/$1 results=$logs/$1.results options=() status=0 good=0 bad=0 left=0 how during
	shift
	while [ "$1" != -- ]; do options+=("$1"); shift; done
	shift
	printf -- '--- guest tests: %s\n' "$name"
	rm -rf -- "$folder" "$results" "$results.tap"
	mkdir -p "$folder"
	attended "$top/scripts/vm" --timeout "$boot_seconds" --append "$persistent" "${options[@]}" --log "$folder" -- \
		"$top/tests/run-guest" --results "$results" "$@" </dev/null || status=$?
	how="status $status"
	[ -e "$results" ] && read -r good bad left <"$results" || how="no results, $how"
	[ "$status $good $bad" != '1 0 0' ] || [ ! -e "$results" ] || how='nothing but skips'
	# It ends badly also if the kernel warns after a test has passed, and if all were skipped.
	[ "$status" = 0 ] && [ -e "$results" ] || bad=$((bad > 0 ? bad : 1))
	passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + left))
	report "$name" "$results.tap" $((status + bad))
	[ "$bad" != 0 ] || return 0
	if [ "$status" -gt 1 ]; then
		during=$(last_test "$folder/console.log" 2>/dev/null)
		how+="${during:+, during $during}"
	fi
	printf 'not ok %s: %s\n' "$name" "$how"
	# What is short comes first, for only so much of it is kept.
	{
		cat "$folder/reason"
		tail -n +2 "$results"
		[ "$status" -le 1 ] || tail -qn 6 "$folder"/nic*.log
		cat "$folder/trouble"
	} 2>/dev/null | failure "$name: $how" || true
	return 1
}
