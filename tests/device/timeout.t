#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
"""A command is never answered: of each verb the first one, then the second and so on. Its
issuer gets EIO, the device is stopped with bus mastering off, everything can be torn down,
and after binding again, or loading the module again, the NIC works. The same for probing
and removing."""

import os
import sys

TOP = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{TOP}/../guest/lib", f"{TOP}/lib"]
import device  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position

TIMEOUT_MS = 1000

# What is made before, the call, its number of commands, and its result: calls that end
# an object succeed.
CALLS = (
    ((), "open", 0, 0),
    ((), "pd", 0, 0),
    ((), "reg", 0, 0),
    ((), "mw", 0, 0),
    ((), "dm", 0, 0),
    ((), "cq", 1, device.EIO),
    (("cq",), "resize_cq", 1, device.EIO),
    (("cq",), "modify_cq", 1, device.EIO),
    (("cq",), "qp", 1, device.EIO),
    (("cq", "qp"), "init_qp", 1, device.EIO),
    (("cq", "qp"), "query_qp", 1, device.EIO),
    (("cq", "qp"), "destroy_qp", 1, 0),
    (("cq",), "destroy_cq", 1, 0),
    (("reg 100",), "rereg", 1, 0),
    (("reg 100", "mw"), "dealloc_mw", 1, 0),
    (("dm", "reg_dm"), "dereg_dm", 1, 0),
    (("reg 100", "cq", "qp"), "dereg", 1, 0),
)
POINTS = []


def unanswered(where, made, call, commands, errno):
    """Each command of a call is dropped in turn."""
    name = f"{call}: a command is not answered"

    def attempt(fault):
        before = device.counts()
        guest.write(device.debugfs("command_timeout_ms"), str(TIMEOUT_MS))
        with device.Verbs() as verbs:
            for word in made:
                if verbs(word):
                    raise RuntimeError(word)
            held = guest.pinned_pages()
            fault.arm()
            verbs.start(call)
            if call == "dereg" and fault.rule.endswith("after 0"):
                guest.ok(guest.wait_for(lambda: "moor_cmd_wait" in guest.read(
                    f"/proc/{verbs.process.pid}/stack")) and guest.pinned_pages() == held,
                         f"{name}: meanwhile its pages stay pinned")
            err = verbs.result()
            if not fault.struck():
                guest.ok(err == 0, f"{call}: works if all are answered", err)
            else:
                guest.ok(err == errno, f"{name}: errno {errno}", err)
                guest.ok(not device.has_bus_mastering(where), f"{name}: bus mastering is off")
                guest.ok(verbs("fatal_event") == 0, f"{name}: the process hears of it")
                guest.ok(verbs("reg") == device.EIO and verbs("cq") == device.EIO,
                         f"{name}: nothing new can be made")
            status, output = verbs.end()
            guest.ok(status == 0, f"{name}: the process ends as it likes", output)
        device.leaves_nothing(before, name)
        if fault.struck():
            device.rebind(where, name)

    found = device.each_command("drop any", attempt)
    guest.ok(found == commands, f"{call}: {commands} commands, each not answered", found)
    POINTS.append(found)


def reload_module(name):
    """Loads the driver again."""
    done = not any(guest.run(*command)[0] for command in (["rmmod", "moor"], ["insmod", guest.MODULE]))
    device.recover(False)
    guest.ok(done and guest.bring_up(), f"{name}: loaded again it comes up")
    guest.ok(*guest.moves_data(name))


def probing(where):
    """The driver's first commands; its initial time-out is long."""
    def attempt(fault):
        device.bind(where, False)
        fault.arm()
        bound = device.bind(where, True)
        guest.ok(bound != fault.struck(), "probing: bound if all are answered")
        guest.ok(device.has_bus_mastering(where) == bound,
                 f"probing: bus mastering is {'on' if bound else 'off'}")

    found = device.each_command("drop CREATE_EQ", attempt)
    guest.ok(found >= 2, f"probing: {found} commands, each not answered")
    guest.ok(guest.bring_up(), "probing: in the end it comes up")
    POINTS.append(found)


def unbinding(where):
    """The commands of unbinding."""
    def attempt(fault):
        device.bind(where, True)
        guest.bring_up()
        guest.write(device.debugfs("command_timeout_ms"), str(TIMEOUT_MS))
        fault.arm()
        guest.ok(device.bind(where, False) and not device.has_bus_mastering(where),
                 "removing: unbound, bus mastering is off")

    found = device.each_command("drop any", attempt)
    guest.ok(found >= 2, f"removing: {found} commands, each not answered")
    POINTS.append(found)
    guest.ok(device.bind(where, True) and guest.bring_up(), "removing: in the end it comes up")


def main():
    """Runs the tests."""
    device.setup()
    where = device.address()
    for call in CALLS:
        unanswered(where, *call)
    reload_module("after all that")
    probing(where)
    unbinding(where)
    guest.ok(*guest.moves_data("in the end"))
    print(f"#   {sum(POINTS)} commands not answered")
    guest.done()


main()
