#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""Commands that end in error: the errno is the one for it, the call leaves nothing
behind, and the next one works. What ends an object is not refused by a device that
keeps its promises: one that does is stopped."""

import os
import sys

TOP = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{TOP}/../guest/lib", f"{TOP}/lib"]
import device  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position

# HWI 8.2, and what a status is that there is not.
STATUSES = {"BAD_OPCODE": 95, "BAD_RESERVED": 22, "BAD_PARAM": 22, "BAD_INDEX": 22,
            "BAD_STATE": 22, "BUSY": 16, "NO_RESOURCE": 12, "DMA_FAULT": 14, "0xa5": device.EIO}

# What is made before, the call, its command, and what takes it back.
CALLS = (
    ((), "cq", "CREATE_CQ", ("destroy_cq",)),
    (("cq",), "resize_cq", "RESIZE_CQ", ("destroy_cq",)),
    (("cq",), "qp", "CREATE_QP", ("destroy_qp", "destroy_cq")),
    (("cq", "qp"), "init_qp", "MODIFY_QP", ("destroy_qp", "destroy_cq")),
    (("cq", "qp", "init_qp"), "reset_qp", "MODIFY_QP", ("destroy_qp", "destroy_cq")),
    (("cq", "qp"), "query_qp", "QUERY_QP", ("destroy_qp", "destroy_cq")),
)

ENDS = (("destroy_qp", "DESTROY_QP"), ("destroy_cq", "DESTROY_CQ"), ("dereg", "MR_REVOKE"),
        ("dealloc_mw", "MR_REVOKE"), ("rereg", "MR_REVOKE"))


def fails(verbs, before, call, opcode, status):
    """One call that the device fails."""
    guest.control(f"fail {opcode} {status}")
    err = verbs(call)
    name = f"{call}: {opcode} ends with {status}"
    guest.ok(err == STATUSES[status], f"{name}: errno {STATUSES[status]}", err)
    device.leaves_nothing(before, name)


def failing(verbs, made, call, opcode, undo):
    """A call that fails with each status, and then works."""
    for word in made:
        if verbs(word):
            raise RuntimeError(word)
    before = device.counts()
    for status in STATUSES:
        fails(verbs, before, call, opcode, status)
    guest.ok(verbs(call) == 0, f"{call}: works after that")
    guest.ok(not any(verbs(word) for word in undo), f"{call}: and all is taken back")


def refused_end(call, opcode, where):
    """Ending an object is refused: the device is stopped, and the object is gone."""
    before = device.counts()
    with device.Verbs() as verbs:
        verbs.make()
        if call == "destroy_cq":
            verbs("destroy_qp")
        guest.control(f"fail {opcode} BUSY always")
        err = verbs(call)
        guest.ok(err == 0, f"{call}, refused by the device: 0", err)
        guest.ok(not device.has_bus_mastering(where), f"{call}, refused: bus mastering is off")
        guest.ok(verbs("fatal_event") == 0, f"{call}, refused: the process hears of it")
        guest.ok(verbs("reg") == device.EIO, f"{call}, refused: nothing can be registered")
        status, output = verbs.end()
        guest.ok(status == 0, f"{call}, refused: the process ends as it likes", output)
    device.leaves_nothing(before, f"{call}, refused")
    device.revive(where, f"{call}, refused")


def queries():
    """Asking fails; nothing else does."""
    with device.Verbs() as verbs:
        verbs.make()
        guest.control("fail MR_QUERY NO_RESOURCE")
        status, output = guest.run("rdma", "resource", "show", "mr", "-dd")
        guest.ok(status == 0 and "windows 0" in output, "MR_QUERY fails: no windows are shown", output)
        guest.control("fail MR_WINDOWS NO_RESOURCE always")
        try:
            guest.read(device.debugfs("windows"))
            err = 0
        except OSError as error:
            err = error.errno
        guest.control("clear")
        guest.ok(err == 12, "MR_WINDOWS fails: reading its file says ENOMEM", err)
        guest.ok(guest.read(device.debugfs("windows")).startswith("rkey"), "and works after that")


def gids():
    """An entry of the GID table cannot be set: it is not there, and can be set later."""
    netdev = os.listdir(f"/sys/bus/pci/devices/{device.address()}/net")[0]

    def change(action, expect):
        done = device.fired()
        guest.run("ip", "addr", action, "192.0.2.1/24", "dev", netdev)
        return guest.wait_for(expect if expect else lambda: device.fired() > done)

    def listed():
        return ":c000:0201" in guest.run("rdma", "system")[1] or any(
            "c000:0201" in guest.read(path) for path in
            device.glob.glob("/sys/class/infiniband/moor*/ports/1/gids/*"))

    guest.control("fail SET_GID NO_RESOURCE always")
    guest.ok(change("add", None) and not listed(), "SET_GID fails: no such GID")
    guest.control("clear")
    guest.run("ip", "addr", "del", "192.0.2.1/24", "dev", netdev)
    guest.ok(change("add", listed), "and there is when it does not")
    guest.control("fail SET_GID NO_RESOURCE always")
    guest.ok(change("del", lambda: not listed()), "clearing it fails: it is gone none the less")
    guest.control("clear")


def event_queues(where):
    """The driver cannot be bound, and later it can."""
    for after in range(2):
        device.bind(where, False)
        guest.control(f"fail CREATE_EQ NO_RESOURCE 1 after {after}")
        before = guest.pinned_pages()
        guest.ok(not device.bind(where, True), f"CREATE_EQ number {after + 1} fails: no driver")
        guest.ok(not device.has_bus_mastering(where) and guest.pinned_pages() == before,
                 f"CREATE_EQ number {after + 1} fails: bus mastering is off")
        guest.control("clear")
        guest.ok(device.bind(where, True) and guest.bring_up(), "and then it can be bound")
    guest.control("fail DESTROY_EQ BUSY always")
    guest.ok(device.bind(where, False), "DESTROY_EQ is refused: unbinding works")
    guest.control("clear")
    guest.ok(device.bind(where, True) and guest.bring_up(), "and so does binding again")
    guest.ok(*guest.moves_data("DESTROY_EQ was refused"))


def main():
    """All of it."""
    device.setup()
    where = device.address()
    with device.Verbs() as verbs:
        for call in CALLS:
            failing(verbs, *call)
    queries()
    gids()
    for call, opcode in ENDS:
        refused_end(call, opcode, where)
    event_queues(where)
    guest.done()


main()
