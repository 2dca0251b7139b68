# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced by the scripts: where things are, and how to speak to the user.

# The project's top directory, without symbolic links.
top=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck disable=SC2034  # used by the scripts that source this file
build=$top/build
cache=${XDG_CACHE_HOME:-${HOME:?HOME is not set: set HOME or XDG_CACHE_HOME}/.cache}/moor
self=${0##*/}

say()  { printf '%s: %s\n' "$self" "$*" >&2; }
die()  { printf '%s: %s\n' "$self" "$*" >&2; exit "${die_status:-1}"; }

# usage FILE: the comment block at the top of a script is its help text.
usage() { sed -n '/^# Usage:/,/^[^#]/ { s/^# \{0,1\}//p }' "$1"; }

need_root() {
	[ "$(id -u)" = 0 ] ||
		die "needs root (to enter the Debian root with chroot); you are $(id -un). Run it with sudo."
}

# The Debian root this checkout is set up with, or a message that says what to do.
root_dir() {
	local root
	root=$(readlink -e -- "$build/root") && [ -e "$root/.moor-complete" ] ||
		die "no Debian root at build/root; run 'make setup' first"
	printf '%s\n' "$root"
}

# enter_root ROOT COMMAND...: replaces this process with COMMAND in ROOT. The
# mounts live in a namespace of their own and die with it: a killed command
# leaves nothing of the host's mounted in the cache, for an rm -rf to follow.
enter_root() {
	local root=$1
	shift
	# shellcheck disable=SC2016  # for the inner shell
	exec unshare -m --propagation private -- bash -euc '
		root=$1 cwd=$PWD top=$2 cache=$3; shift 3
		mount -t proc proc "$root/proc"
		mount --rbind /sys "$root/sys"
		mount --rbind /dev "$root/dev"
		mount --rbind /tmp "$root/tmp"
		mount -t tmpfs -o mode=755 run "$root/run"
		ln -sfn "$top/build/provider" "$root/run/moor"
		for dir in "$top" "$cache"; do
			mkdir -p "$root$dir"
			mount --rbind "$dir" "$root$dir"
		done
		case $cwd/ in
		"$top"/*|"$cache"/*) ;;
		*) cwd=$top ;;
		esac
		exec chroot "$root" /usr/bin/env -C "$cwd" \
			PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"
	' - "$root" "$top" "$cache" "$@"
}
