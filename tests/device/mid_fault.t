#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
"""Both halves of a queue pair wait for pages that are not served, and meanwhile the device
is reset, removed, dies or is recovered. None of that may wait for the pages. Then the pages
come, or the process is killed, and nothing is left."""

import os
import sys
import time

TOP = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{TOP}/../guest/lib", f"{TOP}/lib"]
import device  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position

DEVICES = "/sys/bus/pci/devices"
TIMEOUT_MS = 1000


def stops(order):
    """A command to the NIC after which the driver stops it."""
    def act(_):
        said = device.dmesg_count("stopped: ")
        guest.control(order)
        guest.ok(guest.wait_for(lambda: device.dmesg_count("stopped: ") > said),
                 f"{order}: the driver stops it, and says so")
    return act


def again(where):
    """Binds the NIC again; it works."""
    guest.control("clear")
    guest.control("alive")
    return device.bind(where, False) and device.bind(where, True)


def recovers(_):
    """The NIC dies, and the driver recovers it by itself."""
    device.recover(True)
    said = device.dmesg_count("recovered, as moor0")
    guest.control("fatal")
    guest.ok(guest.wait_for(lambda: device.dmesg_count("recovered, as moor0") > said, device.PROMPTLY),
             "fatal: the driver recovers from it, and says so")
    device.recover(False)


def pulled(where):
    """A surprise removal: the NIC leaves the bus before the driver is told."""
    guest.control("dead")
    guest.write(f"{DEVICES}/{where}/remove", "1")


def found(where):
    """Plugs the NIC in again."""
    guest.control("alive")
    guest.write("/sys/bus/pci/rescan", "1")
    return guest.wait_for(lambda: where in guest.functions())


# The ways for the device to go, and to come back.
WAYS = {
    "function level reset": (lambda where: guest.write(f"{DEVICES}/{where}/reset", "1"),
                             lambda where: True),
    "unbinding": (lambda where: device.bind(where, False), lambda where: device.bind(where, True)),
    "surprise removal": (pulled, found),
    "death, off the bus": (stops("dead"), again),
    "death, FATAL": (stops("fatal"), again),
    "recovery": (recovers, again),
}


def kill(pager, name):
    """Kills the process, and with it its page server."""
    pager.process.kill()
    guest.ok(pager.process.wait(device.PROMPTLY) == -9, f"{name}: the process can be killed")


def serve(pager, name):
    """Serves the pages: the driver's workers find that nothing waits for them any more."""
    guest.ok(pager("gone") == 0, f"{name}: nothing can be had of it")
    guest.ok(pager("serve") == 0 and pager("no_success") == 0, f"{name}: the pages come, nothing succeeds")
    status, output = pager.end()
    guest.ok(status == 0, f"{name}: the process ends as it likes", output)


def goes(where, way, end):
    """One way for the device to go, with one end of the process."""
    name = f"{way}, {'killed' if end is kill else 'served'}"
    act, come_back = WAYS[way]
    before = device.counts()
    with device.Pager() as pager:
        guest.ok(pager("park") == 0 and pager("nothing") == 0, f"{name}: both halves wait for a page")
        start = time.monotonic()
        act(where)
        guest.ok(time.monotonic() - start < device.PROMPTLY, f"{name}: waits for nobody")
        end(pager, name)
    pins = before["pinned"]
    guest.ok(guest.wait_for(lambda: guest.pinned_pages() == pins), f"{name}: nothing stays pinned",
             guest.pinned_pages() - pins)
    guest.ok(come_back(where) and guest.bring_up(), f"{name}: the device is back")
    device.leaves_nothing(before, name)


def untouched(where):
    """The NIC is reset and then the pages come: nothing may be written to them."""
    name = "reset, the page comes"
    with device.Pager() as pager:
        guest.ok(pager("park") == 0, f"{name}: both halves wait for a page")
        guest.write(f"{DEVICES}/{where}/reset", "1")
        guest.ok(pager("serve") == 0 and pager("no_success") == 0 and pager("untouched") == 0,
                 f"{name}: the pages are what the server gave")
    guest.ok(guest.bring_up(), f"{name}: the device is back")


def page_goes(where):
    """A process with requests that wait for pages unmaps other pages, and the NIC does not
    answer MR_INVALIDATE."""
    name = "lost MR_INVALIDATE"
    before = device.counts()
    guest.write(device.debugfs("command_timeout_ms"), str(TIMEOUT_MS))
    with device.Pager() as pager:
        pager.moves(name)
        guest.ok(pager("park") == 0, f"{name}: both halves wait for a page")
        guest.control("drop MR_INVALIDATE")
        guest.ok(pager("drop") == 0 and not device.has_bus_mastering(where),
                 f"{name}: the device is stopped, and the page goes")
        serve(pager, name)
    guest.ok(again(where) and guest.bring_up(), f"{name}: bound again it comes up")
    device.leaves_nothing(before, name)


def main():
    """Runs the tests."""
    device.setup()
    where = device.address()
    for way in WAYS:
        for end in serve, kill:
            goes(where, way, end)
        guest.ok(*guest.moves_data(way))
    untouched(where)
    page_goes(where)
    with device.Pager() as pager:
        pager.moves("after all that")
    guest.done()


main()
