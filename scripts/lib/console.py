# SPDX-License-Identifier: GPL-2.0
"""What the guest's kernel has said on its console: for scripts/lib/vm.py."""

import re

# Messages of the guest's kernel that make the run fail. Warnings and oopses panic (see
# kernel_arguments() in vm.py), so most of these end the guest as well.
TROUBLE = re.compile(
    r"Kernel panic|BUG: |WARNING: |Oops: |general protection fault|"
    r"INFO: task .* blocked|rcu: INFO: .* stall|soft lockup|hard LOCKUP|"
    r"UBSAN: |KASAN: |unreferenced object|DMAR: \[(DMA|INTR)|refcount_t: |"
    r"list_(add|del) corruption|scheduling while atomic"
)


def console_lines(console):
    """The kernel messages of the guest."""
    try:
        with open(console, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def without_foreign_races(lines):
    """The lines, and the number of KCSAN reports left out: those without the driver.

    The kernel has many other data races, most of them intended.
    """
    kept, start, foreign = [], None, 0
    for line in lines:
        kept.append(line)
        if not line.endswith("=" * 66):
            continue
        if start is None:
            start = len(kept) - 1
        elif any("KCSAN" in reported for reported in kept[start:start + 2]):
            if not any("[moor]" in reported for reported in kept[start:]):
                del kept[start:]
                foreign += 1
            start = None
        else:
            start = len(kept) - 1
    return kept, foreign


def kernel_trouble(console):
    """The lines that report an error, if there are any, and the number of races left out."""
    lines, foreign = without_foreign_races(console_lines(console))
    for number, line in enumerate(lines):
        if TROUBLE.search(line):
            begin = max(0, number - 3)
            tests = [line for line in lines[:begin] if "moor-test: " in line]
            return tests[-1:] + lines[begin:number + 60], foreign
    return [], foreign


def lost_patch(options, trouble):
    """Did an emulated processor run into a breakpoint that was already removed?

    The kernel patches instructions behind a breakpoint. Now and then one of two emulated
    processors meets it after the kernel has finished.
    """
    return not options.kvm and any("Oops: int3" in line for line in trouble) and \
        not any("[moor" in line for line in trouble)


def has_begun(console):
    """Has the guest started the command?"""
    return any("moor-vm: running the command" in line for line in console_lines(console))
