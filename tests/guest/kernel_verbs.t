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

# What the first measure means something with an instruction clock alone, and the device is
# to do something under the others (tests/device/kernel_gone.t and dim.t).
ELSEWHERE = ("figures", "rw_figures", "gone", "dim")

# A message that is lost there is lost; tests/device/uc.t counts those that are.
UNRELIABLE = ("uc",)


def rw_as_asked():
    """The kernel's command line says how rdma_rw is to go."""
    forced = "ib_core.force_mr=1" in guest.read("/proc/cmdline").split()
    said = guest.read(f"{verbs.FOLDER}/results")
    guest.ok(("by fast registrations" in said) == forced, f"rw: force_mr is {int(forced)}", said)


def grown_since(slabs):
    """
    By how many bytes slab caches have grown, those that did so by more than a page. What
    kmemleak notes of each of them would count them twice.
    """
    grown = {name: size - slabs.get(name, 0) for name, size in guest.slab_bytes().items()
             if not name.startswith("kmemleak_")}
    return {name: size for name, size in grown.items() if abs(size) > 4096}


def main():
    """All tests of the module."""
    if not guest.ok(verbs.load(), "the test module is loaded"):
        guest.done()
    slabs = guest.slab_bytes()
    for name in verbs.names():
        if name in ELSEWHERE:
            continue
        if name in UNRELIABLE and "MOOR_TEST_IMPAIRED" in os.environ:
            guest.skip(name, "an unreliable connection loses what packets are lost")
            continue
        verbs.report(name)
        if name == "rw":
            rw_as_asked()
    # What is freed after a grace period goes a little later.
    guest.ok(guest.wait_for(lambda: sum(grown_since(slabs).values()) < 1 << 20),
             "nothing is left behind", f"more bytes in slab caches: {grown_since(slabs)}")
    guest.ok(verbs.unload(), "the test module is unloaded")
    guest.done()


main()
