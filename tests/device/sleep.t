#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""The machine goes to sleep while the NIC is in use: processes lose the device as when
it is reset, nothing stays pinned, and it works when the machine is awake again.

With scripts/vm --initramfs the machine really goes to sleep ("mem"): the NIC loses its
power, and with it all its state. Otherwise the guest's root is on virtio-fs, whose
driver refuses to be suspended. So the kernel suspends one device after the other, the
NIC among the first, meets that one, and wakes up again all that it has suspended: for
the NIC that is sleep and waking up. Idle is tried like that in any case, and disk there
alone: with --initramfs Linux 7.3 would forget the serial ports (scripts/lib/vm.py)."""

import glob
import os
import sys

TOP = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{TOP}/../guest/lib", f"{TOP}/lib"]
import device  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position

EOPNOTSUPP = 95
POWER = "/sys/power"
PM_TEST = f"{POWER}/pm_test"


def has_virtiofs():
    """Is there the device whose driver refuses to be suspended?"""
    return bool(glob.glob("/sys/bus/virtio/drivers/virtiofs/virtio*"))


def loses_power(state):
    """Can the machine really sleep? If so, scripts/vm wakes it."""
    return state == "mem" and not has_virtiofs()


def sleep(state):
    """Sleeps, or has all devices suspended that come before one that refuses, and wakes up."""
    guest.write(PM_TEST, "none" if loses_power(state) else "devices")
    guest.write(f"{POWER}/pm_async", "0")
    try:
        guest.write(f"{POWER}/state", state)
    except OSError as error:
        if error.errno != EOPNOTSUPP:
            raise
    finally:
        guest.write(PM_TEST, "none")


def carrier_changes(where):
    """How often the NIC's interface has lost its carrier or got one."""
    return int(guest.read(glob.glob(f"/sys/bus/pci/devices/{where}/net/*/carrier_changes")[0]))


def slept(where, state, program):
    """Sleeps and wakes up once."""
    name = f"{state}, {program}"
    before = device.counts()
    changes = carrier_changes(where)
    resets = device.status("resets")
    with device.Program(program) as user:
        sleep(state)
        changes = carrier_changes(where) - changes
        guest.ok(changes == 2, f"{name}: the NIC was suspended, and resumed", changes)
        guest.ok(device.status("resets") - resets == loses_power(state),
                 f"{name}: it {'was' if loses_power(state) else 'was not'} without power")
        guest.ok(guest.bring_up(), f"{name}: the device is back")
        status, output = user.end("gone\n" if program == "traffic" else "")
        guest.ok(status == 0, f"{name}: a process from before has lost it, and ends as it likes",
                 output)
    device.leaves_nothing(before, name)
    guest.ok(*guest.moves_data(name))


def broken_while_asleep(where):
    """The NIC cannot be used after waking up, and can be bound when it works again."""
    name = "broken while asleep"
    guest.control("fail CREATE_EQ NO_RESOURCE always")
    sleep("freeze")
    guest.ok(not os.path.exists("/sys/class/infiniband/moor0"), f"{name}: there is no RDMA device")
    guest.control("clear")
    guest.ok(device.bind(where, False) and device.bind(where, True) and guest.bring_up(),
             f"{name}: bound again it comes up")
    guest.ok(*guest.moves_data(name))


def main():
    """Runs the tests."""
    device.setup()
    if not os.path.exists(PM_TEST):
        print("1..0 # SKIP this kernel has no /sys/power/pm_test")
        return
    where = device.address()
    states = guest.read(f"{POWER}/state").split()
    slept(where, "freeze", "verbs")
    for state in ("freeze", "mem", "disk") if has_virtiofs() else ("freeze", "mem"):
        if state in states:
            slept(where, state, "traffic")
    broken_while_asleep(where)
    guest.done()


main()
