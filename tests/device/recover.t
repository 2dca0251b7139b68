#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""The device dies, and the driver recovers from that by itself: processes lose it, the
interface keeps its name and addresses, and new processes move data. A second death
within a minute stays. It may be removed, unbound or reset at the same time."""

import glob
import os
import sys

TOP = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{TOP}/../guest/lib", f"{TOP}/lib"]
import connected  # pylint: disable=wrong-import-position
import device  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position

EVENT_DEVICE_FATAL = 0x20
ASYNC_EQ = 0
ADDRESS = "192.0.2.77"
RDMA = "/sys/class/infiniband/moor0"


def net(where):
    """The NIC's interface."""
    return glob.glob(f"/sys/bus/pci/devices/{where}/net/*")[0]


def waits(text, count):
    """Waits until the log has this text more than @count times. Returns whether it has."""
    return guest.wait_for(lambda: device.dmesg_count(text) > count, device.PROMPTLY)


def afresh(where):
    """Binds the NIC again, after which it may be recovered without waiting a minute."""
    guest.control("clear")
    guest.control("alive")
    if not (device.bind(where, False) and device.bind(where, True) and guest.bring_up()):
        raise RuntimeError("cannot be bound again")


def addresses(where):
    """The interface's addresses and its index."""
    return guest.read(f"{net(where)}/ifindex").strip(), \
        guest.run("ip", "-4", "-o", "addr", "show", "dev", os.path.basename(net(where)))[1]


def pingpong(name):
    """A pingpong of rdma-core's own between two processes."""
    server = guest.run("sh", "-c", "ibv_rc_pingpong -g 0 -n 200 >/run/pingpong 2>&1 & "
                       "until ibv_rc_pingpong -g 0 -n 200 localhost; do "
                       "kill -0 $! || exit 1; done; wait $!")
    guest.ok(server[0] == 0, f"{name}: a pingpong works", server[1] + guest.read("/run/pingpong"))


def dies(where, name, strike, why):
    """A process with one object of each kind sees the device die; another one uses it
    afterwards."""
    afresh(where)
    guest.run("ip", "addr", "add", f"{ADDRESS}/24", "dev", os.path.basename(net(where)))
    before, had = device.counts(), addresses(where)
    line = f"recovered, as moor0; it had been stopped: {why}"
    recovered = device.dmesg_count(line)
    guest.write(device.debugfs("command_timeout_ms"), "1000")
    with device.Verbs() as verbs:
        verbs.make()
        strike(verbs)
        guest.ok(verbs("fatal_event") == 0, f"{name}: the process hears of it")
        guest.ok(waits(line, recovered),
                 f"{name}: the driver recovers from it, and says why")
        guest.ok(verbs("reg") == device.EIO and verbs("query_qp") == device.EIO,
                 f"{name}: what the process had is gone")
        guest.ok(verbs.end()[0] == 0, f"{name}: it ends as it likes")
    guest.ok(guest.wait_for(guest.ready), f"{name}: there are GIDs, and nobody did anything")
    guest.ok(addresses(where) == had and ADDRESS in had[1], f"{name}: the interface keeps its addresses",
             f"{had} became {addresses(where)}")
    device.leaves_nothing(before, name)
    guest.ok(*guest.moves_data(name))


def deaths(where):
    """Each way of dying that the driver can notice."""
    dies(where, "FATAL", lambda verbs: guest.control("fatal"), "")
    pingpong("FATAL")
    dies(where, "an event", lambda verbs: guest.control(f"event {ASYNC_EQ} {EVENT_DEVICE_FATAL}"),
         "the device reports a fatal error")

    def unanswered(verbs):
        guest.control("drop QUERY_QP")
        guest.ok(verbs("query_qp") == device.EIO, "no answer: the command fails")

    dies(where, "no answer", unanswered, "a command timed out")


def under_load(where):
    """The device dies while a hundred threads register and data moves."""
    name = "under load"
    afresh(where)
    before = device.counts()
    recovered = device.dmesg_count("recovered, as moor0")
    with device.Program("traffic") as traffic:
        guest.control("fatal")
        guest.ok(waits("recovered, as moor0", recovered), f"{name}: recovered")
        status, output = traffic.end("gone\n")
        guest.ok(status == 0, f"{name}: the process sees it and lets go of everything", output)
    device.leaves_nothing(before, name)
    guest.ok(*guest.moves_data(name))


def while_connected(where):
    """A connection of rdma_cm ends, and a new one can be made."""
    name = "connected"
    for again in range(2):
        afresh(where)
        recovered = device.dmesg_count("recovered, as moor0")
        connected.left(f"{name} ({again})", lambda: guest.control("fatal"))
        guest.ok(waits("recovered, as moor0", recovered), f"{name} ({again}): recovered")


def twice(where):
    """After a second death within a minute the device stays dead, until it is reset."""
    name = "twice in a minute"
    afresh(where)
    recovered = device.dmesg_count("recovered, as moor0")
    guest.control("fatal")
    guest.ok(waits("recovered, as moor0", recovered), f"{name}: recovered once")
    before = device.counts()
    rests = device.dmesg_count("recovered less than a minute ago")
    with device.Verbs() as verbs:
        verbs.make()
        guest.control("fatal")
        guest.ok(waits("recovered less than a minute ago", rests), f"{name}: and not twice")
        guest.ok(verbs("fatal_event") == 0 and verbs("reg") == device.EIO and
                 not device.has_bus_mastering(where), f"{name}: it stays dead")
        guest.ok(verbs.end()[0] == 0, f"{name}: the process ends as it likes")
    device.leaves_nothing(before, name)
    guest.write(f"/sys/bus/pci/devices/{where}/reset", "1")
    guest.ok(guest.wait_for(guest.ready), f"{name}: a reset by hand brings it back")
    guest.ok(*guest.moves_data(name))


def off(where):
    """With recovery switched off."""
    name = "recover=N"
    afresh(where)
    device.recover(False)
    offs = device.dmesg_count("recovery is off")
    guest.control("fatal")
    guest.ok(waits("recovery is off", offs) and not device.has_bus_mastering(where),
             f"{name}: it stays dead")
    device.recover(True)


def not_back(where):
    """The device has left the bus, so there is nothing to recover."""
    name = "off the bus"
    afresh(where)
    fails = device.dmesg_count("did not come back")
    guest.control("dead")
    guest.ok(waits("did not come back", fails) and not os.path.exists(RDMA),
             f"{name}: the driver gives up, and says so")
    guest.ok(guest.read(f"{net(where)}/carrier").strip() == "0", f"{name}: its interface has no carrier")
    guest.control("alive")
    guest.ok(device.bind(where, False) and device.bind(where, True) and guest.bring_up(),
             f"{name}: back, and bound again, it comes up")
    guest.ok(*guest.moves_data(name))


def reset_hangs(where):
    """No reset of the device ends: neither the driver's own nor that of who binds it again."""
    name = "a reset that hangs"
    afresh(where)
    before = device.counts()
    line = "not READY within 2 s of a reset: register STATUS is "
    failed = "did not come back after it was stopped: the device reports a fatal error (error -110)"
    fails, hangs = device.dmesg_count(failed), device.dmesg_count(line)
    with device.Verbs() as verbs:
        verbs.make()
        guest.control("reset hangs")
        guest.control("fatal")
        guest.ok(waits(failed, fails) and device.dmesg_count(line) == hangs + 1 and
                 not device.has_bus_mastering(where), f"{name}: the driver gives up, and says why")
        guest.ok(verbs("fatal_event") == 0 and verbs("reg") == device.EIO and verbs.end()[0] == 0,
                 f"{name}: the process hears of it, and ends as it likes")
    guest.ok(device.bind(where, False) and not device.bind(where, True) and
             device.dmesg_count(line) == hangs + 2 and not device.has_bus_mastering(where),
             f"{name}: the device cannot be bound, and the log says why")
    guest.control("reset ends")
    guest.ok(device.bind(where, True) and guest.bring_up(), f"{name}: it can when the reset has ended")
    device.leaves_nothing(before, name)
    guest.ok(*guest.moves_data(name))


def at_once(where, name, act, undo):
    """Something else happens to the device as soon as the driver has stopped it."""
    for _ in range(3):
        afresh(where)
        stopped = device.dmesg_count("stopped: ")
        with device.Program("traffic") as traffic:
            guest.control("fatal")
            while device.dmesg_count("stopped: ") == stopped:
                pass
            act()
            status, output = traffic.end("gone\n")
            guest.ok(status == 0, f"{name} at once: the process ends as it likes", output)
        undo()
        guest.ok(guest.wait_for(lambda: guest.functions() == [where]) and guest.bring_up(),
                 f"{name} at once: the device is back")
        guest.ok(*guest.moves_data(f"{name} at once"))


def main():
    """Runs the tests."""
    device.setup()
    device.recover(True)
    where = device.address()
    function = f"/sys/bus/pci/devices/{where}"
    deaths(where)
    under_load(where)
    while_connected(where)
    twice(where)
    off(where)
    not_back(where)
    reset_hangs(where)
    at_once(where, "removed", lambda: guest.write(f"{function}/remove", "1"),
            lambda: guest.write("/sys/bus/pci/rescan", "1"))
    at_once(where, "unbound", lambda: device.bind(where, False), lambda: device.bind(where, True))
    at_once(where, "reset", lambda: guest.write(f"{function}/reset", "1"), lambda: None)
    guest.done()


main()
