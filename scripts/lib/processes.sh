# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced by scripts that shall leave nothing behind at work, however they end: what holds a
# lock of theirs, too, keeps it.

# attended COMMAND...: its status. bash waits for what is in the foreground before it obeys
# a signal, and what has a process group of its own, as timeout has, is told of no Ctrl-C.
attended() {
	"$@" &
	wait $!
}

# hold PID: stops it and all processes that it has started, and notes them in held. One that
# stands still starts no more meanwhile, and takes none of the others out of sight.
hold() {
	local children child
	kill -STOP "$1" 2>/dev/null || return 0
	held+=("$1")
	children=$(cat "/proc/$1/task/"*/children 2>/dev/null) || true
	for child in $children; do hold "$child"; done
}

# alive PID: what has ended, and only waits for its parent to notice, is not.
alive() {
	local stat
	{ read -r stat <"/proc/$1/stat"; } 2>/dev/null && [[ ${stat##*) } != [ZX]* ]]
}

# At the end of the script, by a signal or not. Who does not obey in ten seconds is killed.
end_all() {
	local children child pid tries left=()
	trap '' INT TERM HUP
	held=()
	children=$(cat "/proc/$$/task/"*/children 2>/dev/null) || true
	for child in $children; do hold "$child"; done
	[ ${#held[@]} -gt 0 ] || return 0
	kill -TERM "${held[@]}" 2>/dev/null || true
	kill -CONT "${held[@]}" 2>/dev/null || true
	for ((tries = 0; tries < 100; tries++)); do
		left=()
		for pid in "${held[@]}"; do ! alive "$pid" || left+=("$pid"); done
		[ ${#left[@]} -gt 0 ] || return 0
		sleep 0.1
	done
	kill -KILL "${left[@]}" 2>/dev/null || true
}
trap end_all EXIT
