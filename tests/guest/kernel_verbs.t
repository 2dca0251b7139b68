#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""The verbs of kernel clients: fast registration, kernel queues, drain, rdma_rw. The client
is a test module (tests/kernel)."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position
import verbs  # pylint: disable=wrong-import-position

# Not run here: "figures" needs an instruction clock, and for the others the device has
# to do something (tests/device/kernel_gone.t and dim.t).
ELSEWHERE = ("figures", "rw_figures", "gone", "dim")

# A lost message stays lost there; tests/device/uc.t counts those.
UNRELIABLE = ("uc",)


def rw_as_asked():
    """A test point: rdma_rw registers exactly if the kernel's command line asks for that."""
    forced = "ib_core.force_mr=1" in guest.read("/proc/cmdline").split()
    said = guest.read(f"{verbs.FOLDER}/results")
    guest.ok(("by fast registrations" in said) == forced, f"rw: force_mr is {int(forced)}", said)


def grown_since(slabs):
    """The growth in bytes of the slab caches that have grown by more than a page, without
    kmemleak's own notes of objects."""
    grown = {name: size - slabs.get(name, 0) for name, size in guest.slab_bytes().items()
             if not name.startswith("kmemleak_")}
    return {name: size for name, size in grown.items() if abs(size) > 4096}


def main():
    """Runs all tests of the module."""
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
    # Objects that RCU frees go a little later.
    guest.ok(guest.wait_for(lambda: sum(grown_since(slabs).values()) < 1 << 20),
             "nothing is left behind", f"more bytes in slab caches: {grown_since(slabs)}")
    guest.ok(verbs.unload(), "the test module is unloaded")
    guest.done()


main()
