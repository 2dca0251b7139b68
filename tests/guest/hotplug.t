#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""The device leaves while a process uses it, and comes back: by unbinding, by a
function level reset, by unloading the module, a hundred times."""

import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position

CHURN = f"{guest.PROGRAMS}/churn"
LOADS = 100
PROMPTLY = 20


def works():
    """Does the NIC move data?"""
    status, output = guest.run(f"{guest.PROGRAMS}/test_wr")
    return status == 0, output


def leave(name, action, come_back):
    """Takes the device away from a process; it must neither wait nor be killed."""
    pins = guest.pinned_pages()
    with subprocess.Popen([CHURN, "outlive"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        first = process.stdout.readline()
        guest.ok(first == b"ready\n", f"{name}: a process holds MRs and a QP", first)
        start = time.monotonic()
        action()
        guest.ok(time.monotonic() - start < PROMPTLY,
                 f"{name}: does not wait for the process")
        guest.ok(guest.wait_for(lambda: guest.pinned_pages() == pins),
                 f"{name}: its pages are unpinned")
        output, _ = process.communicate(b"gone\n")
        guest.ok(process.returncode == 0, f"{name}: its calls say so",
                 output.decode(errors="replace"))
    come_back()
    guest.ok(guest.bring_up(), f"{name}: the device is back")
    guest.ok(*reversed_ok(name))


def reversed_ok(name):
    """Arguments for ok(): the NIC works after what has been done."""
    passed, output = works()
    return passed, f"{name}: and moves data", output


def reload_many(count):
    """Unloads and loads the module; the number of times that it came up."""
    for turn in range(count):
        for command in (["rmmod", "moor"], ["insmod", guest.MODULE]):
            status, output = guest.run(*command)
            if status:
                print(f"# {' '.join(command)}: {output}")
                return turn
        if not guest.functions() or not os.path.isdir("/sys/class/infiniband/moor0"):
            return turn
    return count


def main():
    """All of it."""
    address = guest.functions()[0]
    leave("unbinding", lambda: guest.write(f"{guest.DRIVER}/unbind", address),
          lambda: guest.write(f"{guest.DRIVER}/bind", address))
    leave("function level reset",
          lambda: guest.write(f"/sys/bus/pci/devices/{address}/reset", "1"),
          lambda: None)
    guest.ok(reload_many(LOADS) == LOADS, f"{LOADS} times unloaded and loaded")
    guest.ok(guest.bring_up(), "after that the device has GIDs")
    guest.ok(*reversed_ok("after that"))
    guest.done()


main()
