# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced by the parts of this test: the README's commands.

# shellcheck disable=SC2034  # used by those
recipe_nic='The NIC in your own virtual machine' recipe_host='The driver and the provider in that machine' \
	recipe_traffic='First traffic'

# readme_block HEADING N: the Nth indented block below it.
readme_block() {
	awk -v heading="## $1" -v wanted="$2" '
		/^## /                      { inside = $0 == heading; next }
		inside && /^    / && !open  { open = 1; n++ }
		inside && /^[^ ]/           { open = 0 }
		inside && open && n == wanted { print substr($0, 5) }
	' "$(dirname -- "${BASH_SOURCE[0]}")/../../README.md"
}

# readme_count HEADING: how many there are
readme_count() {
	local n=0
	while [ -n "$(readme_block "$1" $((n + 1)))" ]; do n=$((n + 1)); done
	echo "$n"
}
