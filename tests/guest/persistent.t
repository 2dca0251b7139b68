#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 120
"""FLUSH_PERSISTENT on memory that the guest holds to be persistent (the kernel's argument
memmap=32M!256M), as a DAX device; the program persistent does the rest."""

import glob
import os
import subprocess
import sys
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position

ND = "/sys/bus/nd"
HUGE = 2 << 20
MODULES = ("nd_e820", "nd_pmem", "dax_pmem", "device_dax")


def namespace():
    """The first namespace that the kernel made of persistent memory, or None."""
    return os.path.basename(next(iter(sorted(glob.glob(f"{ND}/devices/namespace*"))), ""))


def make_dax(name):
    """Makes a DAX device of a namespace, as daxctl does; its file, or nothing."""
    for driver in glob.glob(f"{ND}/drivers/nd_pmem/{name}"):
        guest.write(f"{os.path.dirname(driver)}/unbind", name)
    region = os.path.realpath(f"{ND}/devices/{name}/..")
    seed = guest.read(f"{region}/dax_seed").strip()
    for attribute, value in (("mode", "ram"), ("align", str(HUGE)), ("uuid", str(uuid.uuid4())),
                             ("namespace", name)):
        guest.write(f"{ND}/devices/{seed}/{attribute}", value)
    guest.write(f"{ND}/drivers/dax_pmem/bind", seed)
    guest.wait_for(lambda: glob.glob("/dev/dax*"))
    return next(iter(glob.glob("/dev/dax*")), "")


def main():
    """Runs the program, whose test points these are, but for those of setting up."""
    guest.needs("persistent memory", *MODULES)
    guest.run("modprobe", "-a", *MODULES)
    name = namespace()
    if not name:
        print("1..0 # SKIP no persistent memory here: scripts/vm --append 'memmap=32M!256M'")
        sys.exit(0)
    file = next(iter(glob.glob("/dev/dax*")), "") or make_dax(name)
    if not file:
        print(f"Bail out! no DAX device came of {name}")
        sys.exit(1)
    sys.exit(subprocess.run([f"{guest.PROGRAMS}/persistent", file], check=False).returncode)


main()
