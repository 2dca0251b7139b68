#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 1500
"""Commands end in error: of each verb the first one, then the second and so on, with each
status. The errno is that of the status, the call leaves nothing behind, and works the next
time. A device that is in order does not refuse to end an object: one that does is stopped.
The same for probing and removing."""

import os
import sys
from errno import EINVAL

TOP = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{TOP}/../guest/lib", f"{TOP}/lib"]
import device  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position

# What is made before, the call, the call that undoes it, and its number of commands:
# registering above all has none.
CALLS = (
    ((), "open", "shut", 0),
    ((), "pd", "dealloc_pd", 0),
    ((), "ah", "destroy_ah", 0),
    ((), "reg", "dereg", 0),
    ((), "mw", "dealloc_mw", 0),
    ((), "dm", "free_dm", 0),
    (("dm",), "reg_dm", "dereg_dm", 0),
    ((), "cq", "destroy_cq", 1),
    (("cq",), "resize_cq", "resize_back", 1),
    (("cq",), "modify_cq", None, 1),
    (("cq",), "qp", "destroy_qp", 1),
    (("cq", "qp"), "init_qp", "reset_qp", 1),
    (("cq", "qp", "init_qp"), "reset_qp", "init_qp", 1),
    (("cq", "qp"), "query_qp", None, 1),
    (("cq",), "ud", "destroy_qp", 1),
    (("cq", "ud"), "join", "leave", 1),
)
UNDO = {call: undo for _, call, undo, _ in CALLS}

# A process that ends with all it has needs a command for each queue, one fence for all
# windows, and one for all MRs; where the kernel does not tell that it ends, a fence each.
TOLD = tuple(map(int, os.uname().release.split(".")[:2])) >= (7, 2)

# What is made before, the call that ends something, and its number of commands.
ENDS = (
    (("open",), "shut", 0),
    (("pd",), "dealloc_pd", 0),
    (("ah",), "destroy_ah", 0),
    (("cq", "qp"), "destroy_qp", 1),
    (("cq",), "destroy_cq", 1),
    (("cq", "ud", "join"), "leave", 1),
    (("reg",), "dereg", 1),
    (("reg",), "rereg", 1),
    (("mw",), "dealloc_mw", 1),
    (("dm", "reg_dm"), "dereg_dm", 1),
    (("dm",), "free_dm", 0),
    (("reg", "reg", "mw", "cq", "qp"), "end", 4 if TOLD else 5),
)
# Before these the core asks for the QP's port, for which it needs no answer.
ONLY = {"join": "ATTACH_FILTER", "leave": "DETACH_FILTER"}
POINTS = []


def rule(call, status):
    """Makes the commands of a call end with a status."""
    return f"fail {ONLY.get(call, 'any')} {status}"


def make(verbs, words):
    """Makes the objects that a call needs."""
    for word in words:
        if verbs(word):
            raise RuntimeError(word)


def failing(verbs, made, call, undo, commands):
    """Each command of a call fails with each status, and then the call works."""
    make(verbs, made)
    before = device.counts()
    found = None
    for status, errno in device.STATUSES.items():
        def attempt(fault, status=status, errno=errno):
            fault.arm()
            err = verbs(call)
            if not fault.struck():
                guest.ok(err == 0 and (not undo or verbs(undo) == 0),
                         f"{call}: works without, and is taken back", err)
                return
            name = f"{call}: a command ends with {status}"
            guest.ok(err == errno, f"{name}: errno {errno}", err)
            device.leaves_nothing(before, name)

        found = device.each_command(rule(call, status), attempt, found)
        guest.ok(found == commands, f"{call}: {commands} commands, each ended with {status}", found)
        if not commands:
            break
    POINTS.append(commands * len(device.STATUSES))
    for word in reversed(made):
        if UNDO[word] and verbs(UNDO[word]):
            raise RuntimeError(UNDO[word])


def refused_end(made, call, commands, where):
    """Each command that ends an object is refused with each status: the device is stopped,
    and the object is gone."""
    def attempt(fault):
        before = device.counts()
        with device.Verbs() as verbs:
            make(verbs, made)
            fault.arm()
            err = 0 if call == "end" else verbs(call)
            if call != "end" and fault.struck():
                guest.ok(verbs("fatal_event") == 0, f"{name}: the process hears of it")
                guest.ok(verbs("reg") == device.EIO, f"{name}: nothing can be registered")
            status, output = verbs.end()
            guest.ok(status == err == 0, f"{name}: 0, and the process ends as it likes", output)
        guest.ok(device.has_bus_mastering(where) != fault.struck(),
                 f"{name}: bus mastering is off, if one was refused")
        device.leaves_nothing(before, name)
        if fault.struck():
            device.rebind(where, name)

    found = None
    for status, errno in device.STATUSES.items():
        # That a QP is in no group does not count as refusing to detach it.
        if call == "leave" and errno == EINVAL:
            continue
        name = f"{call}, a command refused with {status}"
        found = device.each_command(rule(call, status), attempt, found)
        guest.ok(found == commands, f"{call}: {commands} commands, each refused with {status}", found)
        if not commands:
            break
    POINTS.append(commands * len(device.STATUSES))
    if commands:
        guest.ok(*guest.moves_data(f"{call} was refused"))


def queries():
    """A query fails, and nothing else does."""
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
    """Setting an entry of the GID table fails: the entry is absent, and can be set later."""
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


def probing(where):
    """Each command of probing fails: the driver cannot be bound, unless it does not need
    the command (setting a GID); then it can."""
    def attempt(fault):
        device.bind(where, False)
        before = guest.pinned_pages()
        fault.arm()
        bound = device.bind(where, True)
        guest.ok(bound or fault.struck(), f"probing, {status}: it works without")
        guest.ok(device.has_bus_mastering(where) == bound and
                 (bound or guest.pinned_pages() == before),
                 f"probing, {status}: {'bound' if bound else 'not bound, bus mastering is off'}")

    found = None
    for status in device.STATUSES:
        found = device.each_command(f"fail any {status}", attempt, found)
        guest.ok(found >= 2, f"probing: {found} commands, each ended with {status}")
        POINTS.append(found)
    guest.ok(guest.bring_up(), "probing: in the end it comes up")


def removing(where):
    """Each command of removing is refused: the driver is unbound all the same."""
    def attempt(fault):
        device.bind(where, True)
        guest.bring_up()
        fault.arm()
        guest.ok(device.bind(where, False) and not device.has_bus_mastering(where),
                 f"removing, {status}: unbound, bus mastering is off")

    found = None
    for status in device.STATUSES:
        found = device.each_command(f"fail any {status}", attempt, found)
        guest.ok(found >= 2, f"removing: {found} commands, each ended with {status}")
        POINTS.append(found)
    guest.ok(device.bind(where, True) and guest.bring_up(), "removing: in the end it comes up")
    guest.ok(*guest.moves_data("after all that"))


def main():
    """Runs the tests."""
    device.setup()
    where = device.address()
    with device.Verbs() as verbs:
        for call in CALLS:
            failing(verbs, *call)
    queries()
    gids()
    for end in ENDS:
        refused_end(*end, where)
    probing(where)
    removing(where)
    print(f"#   {sum(POINTS)} commands failed")
    guest.done()


main()
