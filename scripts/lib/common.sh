# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced by the scripts: where things are, and how to speak to the user.

# The project's top directory, without symbolic links.
top=$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck disable=SC2034  # used by the scripts that source this file
build=$top/build
# Some containers and services set no HOME.
: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
cache=${XDG_CACHE_HOME:-${HOME:?is not set, and you have none: set HOME or XDG_CACHE_HOME}/.cache}/moor
self=${0##*/}

say()  { printf '%s: %s\n' "$self" "$*" >&2; }
die()  { printf '%s: %s\n' "$self" "$*" >&2; exit "${die_status:-1}"; }

# repository ARGUMENT...: git on this checkout, which may belong to another user: git refuses that
# otherwise.
repository() { git -c safe.directory="$top" "$@"; }

# What decides how a test ends is said by who calls it, not by chance.
clean_environment() {
	unset MOOR_NIC MOOR_KUNIT_TIMEOUT MOOR_GUESSES CC CFLAGS LDFLAGS ARCH LLVM CROSS_COMPILE KBUILD_OUTPUT MAKEFLAGS
}

# The proxy that this machine's apt is told of, for programs that ask the environment alone.
export_proxy() {
	local http='' https=''
	eval "$(apt-config shell http Acquire::http::Proxy https Acquire::https::Proxy)"
	[ -z "${http#DIRECT}" ] || export http_proxy="${http_proxy-$http}"
	[ -z "${https#DIRECT}" ] || export https_proxy="${https_proxy-$https}"
}

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
		die "no Debian root at build/root; run 'make vm-parts' first, which makes it and all else that is needed"
	printf '%s\n' "$root"
}

# enter_root ROOT COMMAND...: replaces this process with COMMAND in ROOT. The
# mounts live in a namespace of their own and die with it: a killed command
# leaves nothing of the host's mounted in the cache, for an rm -rf to follow.
# ENTER_ROOT_PREFIX holds a command to run it under, as scripts/vm needs.
enter_root() {
	local root=$1
	shift
	exec "${ENTER_ROOT_PREFIX[@]}" unshare -m --propagation private -- \
		"$top/scripts/lib/enter-root" "$root" "$top" "$cache" "$@"
}
ENTER_ROOT_PREFIX=()
