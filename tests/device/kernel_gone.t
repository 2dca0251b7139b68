#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""The device dies, is recovered, reset, unbound or removed, or leaves a command unanswered,
while a kernel client (tests/kernel/gone.c) registers, writes and invalidates: work requests
complete, drains return, all objects can be destroyed, and nothing is left."""

import os
import sys

TOP = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{TOP}/../guest/lib", f"{TOP}/lib"]
import device  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position
import verbs  # pylint: disable=wrong-import-position

DEVICES = "/sys/bus/pci/devices"
ENOUGH = 500  # rounds of the client before something happens


def in_flight(name, action, come_back, seed):
    """Something happens to the device while the kernel client uses it."""
    before, moved = device.counts(), verbs.moved()
    user = verbs.start("gone", seed=seed)
    guest.ok(guest.wait_for(lambda: verbs.moved() - moved > ENOUGH), f"{name}: work is under way")
    action()
    user.join(device.PROMPTLY)
    if not guest.ok(not user.is_alive(), f"{name}: its user comes to an end"):
        guest.plan()
        os._exit(1)  # pylint: disable=protected-access
    verbs.report_results(name)
    come_back()
    guest.ok(guest.bring_up(), f"{name}: the device is back")
    device.leaves_nothing(before, name)
    guest.ok(*guest.moves_data(name))


def main():
    """Runs the tests, in each context in which the core polls completions."""
    device.setup()
    guest.ok(verbs.load(), "the test module is loaded")
    where = device.address()

    def dies():
        guest.control("dead")

    def lives():
        guest.control("alive")
        guest.ok(device.bind(where, False) and device.bind(where, True), "it can be bound again")

    def unbound():
        guest.ok(device.bind(where, False), "it is unbound")

    def unanswered():
        guest.write(device.debugfs("command_timeout_ms"), "1000")
        guest.control("drop MR_REVOKE")
        unbound()

    def pulled_out():
        guest.control("dead")
        guest.write(f"{DEVICES}/{where}/remove", "1")

    def plugged_in():
        guest.control("alive")
        guest.write("/sys/bus/pci/rescan", "1")

    def clear_and_bind():
        guest.control("clear")
        device.bind(where, True)

    for seed in range(3):
        in_flight(f"dies ({seed})", dies, lives, seed)
        in_flight(f"is unbound ({seed})", unbound, clear_and_bind, seed)
        in_flight(f"is reset ({seed})", lambda: guest.write(f"{DEVICES}/{where}/reset", "1"), lambda: None, seed)
        in_flight(f"is pulled out ({seed})", pulled_out, plugged_in, seed)
    device.recover(True)
    said = device.dmesg_count("recovered, as moor0")
    in_flight("dies, and the driver recovers", lambda: guest.control("fatal"), lambda: guest.ok(
        guest.wait_for(lambda: device.dmesg_count("recovered, as moor0") > said), "the driver recovers"), 0)
    device.recover(False)
    in_flight("leaves MR_REVOKE unanswered", unanswered, clear_and_bind, 0)
    guest.ok(verbs.unload(), "the test module is unloaded")
    guest.done()


main()
