#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""The device leaves the bus, or is reset, while it is idle, and while data moves and a
hundred registrations are in progress: no call hangs, nothing stays pinned, and once the
device is back it works."""

import os
import sys
import time

TOP = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{TOP}/../guest/lib", f"{TOP}/lib"]
import device  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position

DEVICES = "/sys/bus/pci/devices"


def idle(where):
    """An idle device dies: the driver notices although nothing uses it."""
    name = "dead while idle"
    before = device.counts()
    with device.Verbs() as verbs:
        verbs.make()
        guest.ok(verbs("clock") == 0, f"{name}: it has a clock")
        said = device.dmesg_count("it has failed, or left the bus")
        guest.control("dead")
        guest.ok(verbs("fatal_event") == 0, f"{name}: processes hear of it")
        guest.ok(device.dmesg_count("it has failed, or left the bus") == said + 1,
                 f"{name}: the log says so")
        guest.ok(verbs("reg") == device.EIO and verbs("cq") == device.EIO,
                 f"{name}: nothing new can be made")
        guest.ok(verbs("clock") == device.EIO, f"{name}: it has no time any more")
        guest.ok(verbs("query_device") == 0, f"{name}: what it could do is still known")
        guest.ok(not any(verbs(word) for word in
                         ("destroy_qp", "destroy_cq", "dereg", "dealloc_mw", "close")),
                 f"{name}: everything can be torn down")
        guest.ok(verbs.end()[0] == 0, f"{name}: the process ends as it likes")
    device.leaves_nothing(before, name)
    device.revive(where, name)


def under_load(name, action, come_back):
    """Something happens to the device while many threads of a process use it."""
    before = device.counts()
    with device.Program("traffic") as traffic:
        start = time.monotonic()
        action()
        guest.ok(time.monotonic() - start < device.PROMPTLY, f"{name}: does not hang")
        status, output = traffic.end("gone\n")
        guest.ok(status == 0, f"{name}: the process sees it and lets go of everything", output)
    pins = before["pinned"]
    guest.ok(guest.wait_for(lambda: guest.pinned_pages() == pins), f"{name}: nothing stays pinned",
             guest.pinned_pages() - pins)
    come_back()
    guest.ok(guest.bring_up(), f"{name}: the device is back")
    device.leaves_nothing(before, name)
    guest.ok(*guest.moves_data(name))


def wait_stopped(count):
    """Waits until the driver has seen that the device is dead."""
    return guest.wait_for(lambda: device.dmesg_count("stopped: it ") > count)


def dead_under_load(where):
    """The driver is unbound; bound again once the device lives, it works."""
    name = "dead under load"
    said = device.dmesg_count("stopped: it ")

    def action():
        guest.control("dead")
        guest.ok(wait_stopped(said), f"{name}: the driver notices")

    def come_back():
        refusals = device.dmesg_count("cannot be used: error -19")
        guest.ok(device.bind(where, False) and not device.bind(where, True), f"{name}: it cannot be bound")
        guest.ok(device.dmesg_count("cannot be used: error -19") == refusals + 1, f"{name}: the log says that, too")
        guest.control("alive")
        guest.ok(device.bind(where, True), f"{name}: it can when it lives")

    under_load(name, action, come_back)


def removed_under_load(where):
    """A surprise removal: the device leaves the bus before the driver is told."""
    name = "surprise removal under load"

    def action():
        guest.control("dead")
        guest.write(f"{DEVICES}/{where}/remove", "1")
        guest.ok(not os.path.exists(f"{DEVICES}/{where}"), f"{name}: the function is gone")

    def come_back():
        guest.write("/sys/bus/pci/rescan", "1")
        guest.ok(not os.path.exists(f"{DEVICES}/{where}"), f"{name}: a dead one is not found again")
        guest.control("alive")
        guest.write("/sys/bus/pci/rescan", "1")
        guest.ok(guest.wait_for(lambda: where in guest.functions()), f"{name}: one that lives is")

    under_load(name, action, come_back)


def reset_under_load(where):
    """A function level reset from sysfs."""
    name = "function level reset under load"
    under_load(name, lambda: guest.write(f"{DEVICES}/{where}/reset", "1"), lambda: None)


def fence_under_load(where):
    """A fence for many registrations is not answered."""
    name = "lost fence under load"
    said = device.dmesg_count("stopped: ")
    guest.write(device.debugfs("command_timeout_ms"), "2000")

    def action():
        guest.control("drop MR_REVOKE")
        guest.ok(guest.wait_for(lambda: device.dmesg_count("stopped: ") > said),
                 f"{name}: the device is stopped")
        guest.ok(not device.has_bus_mastering(where), f"{name}: bus mastering is off")

    under_load(name, action, lambda: device.bind(where, False) and device.bind(where, True))


def main():
    """Runs the tests."""
    device.setup()
    where = device.address()
    idle(where)
    reset_under_load(where)
    fence_under_load(where)
    dead_under_load(where)
    removed_under_load(where)
    guest.done()


main()
