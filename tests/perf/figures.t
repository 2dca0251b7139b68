#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""Registering costs no more than before: counted in instructions (scripts/vm --icount
--sync-commands), which other load does not change. Nothing is compared with numbers of
another machine or kernel, but with what the same boot takes for the same buffer: pinning
alone, an object of uverbs that needs no device, and rxe. The figures here are what Moor
takes beyond that."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import devices  # pylint: disable=wrong-import-position
from devices import MOOR, RXE, guest  # pylint: disable=wrong-import-position

PAGE, MOST = 4096, 4 << 20

# What it takes today, the greater of Linux 6.12 and 7.3. Instructions of Moor's own: of
# registering one page, of several and of each of them, and of deregistering:
ONE_PAGE, MORE_PAGES, EACH_PAGE, DEREG = 1270, 2500, 10, 1040
# Factors: changing rights of an object of uverbs, the end of a process with many MRs of
# deregistering one, and what Moor takes of what rxe does.
RIGHTS, END = 1.10, 0.60
OF_RXE = ((("reg", "4 KiB pages", PAGE), 0.85),
          (("reg", "2 MiB pages", MOST), 0.71),
          (("cycle: calls", "", 0), 0.80),
          (("cycle_with_map: calls", "", 0), 0.72))
# All limits leave this much room:
TOLERANCE = 0.10


def below(took, bar, name):
    """A test point."""
    bar = round(bar)
    guest.ok(took <= bar * (1 + TOLERANCE), f"{name}: {took}, {bar} and {TOLERANCE:.0%} are allowed")


def check_region(of, figures):
    """The figures of one buffer."""
    kind, size = of
    name = f"{kind}, {size >> 10} KiB"
    pages = size // PAGE
    ours = ONE_PAGE if pages == 1 else MORE_PAGES + EACH_PAGE * pages
    floor = {what: figures[what, *of, "pinning"] for what in ("reg", "dereg")}
    took = {what: figures[what, *of, MOOR] for what in ("reg", "dereg", "rereg: rights")}
    make, end = (figures[f"ibv_{what}_pd", "", 0, MOOR] for what in ("alloc", "dealloc"))
    below(took["reg"] - floor["reg"] - make, ours, f"{name}: reg beyond pinning and an object")
    below(took["dereg"] - floor["dereg"] - end, DEREG, f"{name}: dereg beyond letting go and an object")
    below(took["rereg: rights"], RIGHTS * make, f"{name}: rereg of rights beside {RIGHTS} of an object")
    moved = figures.get(("rereg: memory", *of, MOOR))
    if moved:
        below(moved, took["reg"] + floor["dereg"], f"{name}: rereg of memory beside reg and letting go")


def check_end(figures):
    """MRs of a process that ends share fences."""
    alone = figures["dereg", "4 KiB pages", PAGE, MOOR]
    below(figures["the end of a process with 1000 MRs: each", "", 0, MOOR], END * alone,
          f"the end of a process, for an MR: {END} of dereg")


def check_rxe(figures):
    """Where rxe is slower, and by how much."""
    for of, factor in OF_RXE:
        below(figures[*of, MOOR], factor * figures[*of, RXE], f"{of[0]}, {of[1]}: {factor} of rxe's")


def main():
    """Runs the tests."""
    devices.prepare(MOST)
    rows = list(devices.program("registration", "--most", str(MOST), "--step", "16", MOOR, RXE))
    for device in (MOOR, RXE):
        rows += devices.module(device)
    figures = {(row["what"], row["kind"], int(row["size"]), row["whose"]): int(row["took"]) for row in rows}
    regions = {(kind, size) for what, kind, size, whose in figures if (what, whose) == ("reg", "pinning")}
    guest.ok(len(regions) >= 9, f"{len(regions)} buffers")
    for of in sorted(regions):
        check_region(of, figures)
    check_end(figures)
    check_rxe(figures)
    guest.done()


main()
