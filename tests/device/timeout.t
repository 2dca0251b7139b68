#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
"""A command is never answered: whichever it is, its issuer gets EIO, the device is
stopped with bus mastering off, everything can be torn down, and bound again, or with
the module loaded again, the NIC works."""

import os
import sys

TOP = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{TOP}/../guest/lib", f"{TOP}/lib"]
import device  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position

TIMEOUT_MS = 1000

# What is made before, the call, its command, and what the call gives: what ends an
# object ends it.
CALLS = (
    ((), "cq", "CREATE_CQ", device.EIO),
    (("cq",), "resize_cq", "RESIZE_CQ", device.EIO),
    (("cq",), "qp", "CREATE_QP", device.EIO),
    (("cq", "qp"), "init_qp", "MODIFY_QP", device.EIO),
    (("cq", "qp"), "query_qp", "QUERY_QP", device.EIO),
    (("cq", "qp"), "destroy_qp", "DESTROY_QP", 0),
    (("cq",), "destroy_cq", "DESTROY_CQ", 0),
    (("reg 100",), "rereg", "MR_REVOKE", 0),
    (("reg 100", "mw"), "dealloc_mw", "MR_REVOKE", 0),
    (("reg 100", "cq", "qp"), "dereg", "MR_REVOKE", 0),
)


def unanswered(where, made, call, opcode, errno):
    """One call whose command is dropped."""
    name = f"{call}: {opcode} is not answered"
    before = device.counts()
    guest.write(device.debugfs("command_timeout_ms"), str(TIMEOUT_MS))
    with device.Verbs() as verbs:
        for word in made:
            if verbs(word):
                raise RuntimeError(word)
        held = guest.pinned_pages()
        guest.control(f"drop {opcode}")
        verbs.start(call)
        if call == "dereg":
            guest.ok(guest.wait_for(lambda: "moor_cmd_exec" in guest.read(
                f"/proc/{verbs.process.pid}/stack")) and guest.pinned_pages() == held,
                     f"{name}: meanwhile its pages stay pinned")
        err = verbs.result()
        guest.ok(err == errno, f"{name}: errno {errno}", err)
        guest.ok(not device.has_bus_mastering(where), f"{name}: bus mastering is off")
        guest.ok(verbs("fatal_event") == 0, f"{name}: the process hears of it")
        guest.ok(verbs("reg") == device.EIO and verbs("cq") == device.EIO,
                 f"{name}: nothing new can be made")
        status, output = verbs.end()
        guest.ok(status == 0, f"{name}: the process ends as it likes", output)
    device.leaves_nothing(before, name)


def reload_module(name):
    """Loads the driver again."""
    done = not any(guest.run(*command)[0] for command in (["rmmod", "moor"], ["insmod", guest.MODULE]))
    guest.ok(done and guest.bring_up(), f"{name}: loaded again it comes up")
    guest.ok(*guest.moves_data(name))


def probing(where):
    """The driver's first command; the time-out that it starts with is long."""
    device.bind(where, False)
    guest.control("drop CREATE_EQ")
    guest.ok(not device.bind(where, True), "CREATE_EQ is not answered: no driver")
    guest.ok(not device.has_bus_mastering(where), "CREATE_EQ is not answered: bus mastering is off")
    guest.ok(device.bind(where, True) and guest.bring_up(), "and then it can be bound")


def unbinding(where):
    """The driver's last command."""
    guest.write(device.debugfs("command_timeout_ms"), str(TIMEOUT_MS))
    guest.control("drop DESTROY_EQ always")
    guest.ok(device.bind(where, False), "DESTROY_EQ is not answered: unbinding works")
    guest.control("clear")
    guest.ok(device.bind(where, True) and guest.bring_up(), "and so does binding again")


def main():
    """All of it."""
    device.setup()
    where = device.address()
    for number, call in enumerate(CALLS):
        unanswered(where, *call)
        if number + 1 < len(CALLS):
            guest.ok(device.bind(where, False) and device.bind(where, True) and guest.bring_up(),
                     f"{call[1]}: bound again it comes up")
    reload_module("after all that")
    probing(where)
    unbinding(where)
    guest.ok(*guest.moves_data("in the end"))
    guest.done()


main()
