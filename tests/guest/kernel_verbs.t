#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""The verbs that the kernel's own users call: fast registration, kernel queues, drain,
rdma_rw, by a module that is such a user (tests/kernel)."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position
import verbs  # pylint: disable=wrong-import-position

# What these measure means something with an instruction clock alone, and the device is
# to go under the other (tests/device/kernel_gone.t).
ELSEWHERE = ("figures", "rw_figures", "gone")


def rw_as_asked():
    """The kernel's command line says how rdma_rw is to go."""
    forced = "ib_core.force_mr=1" in guest.read("/proc/cmdline").split()
    said = guest.read(f"{verbs.FOLDER}/results")
    guest.ok(("by fast registrations" in said) == forced, f"rw: force_mr is {int(forced)}", said)


def main():
    """All tests of the module."""
    if not guest.ok(verbs.load(), "the test module is loaded"):
        guest.done()
    slabs = guest.slab_bytes()
    for name in verbs.names():
        if name not in ELSEWHERE:
            verbs.report(name)
        if name == "rw":
            rw_as_asked()
    grown = sum(guest.slab_bytes().values()) - sum(slabs.values())
    guest.ok(grown < 1 << 20, "nothing is left behind", f"{grown} bytes more in slab caches")
    guest.ok(verbs.unload(), "the test module is unloaded")
    guest.done()


main()
