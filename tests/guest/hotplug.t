#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""The device leaves while a process uses it, and comes back: by unbinding, and by a
function level reset. Or it stops answering: then the driver stops it, and everything can be
torn down."""

import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position

CHURN = f"{guest.PROGRAMS}/churn"
PROMPTLY = 20 * guest.PATIENCE
PCI_COMMAND = 4
PCI_COMMAND_MASTER = 4


def leave(name, action, come_back):
    """Takes the device away from a process, which must neither block that nor be killed."""
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
    guest.ok(*guest.moves_data(name))


def set_bus_master(address, on):
    """Sets or clears Bus Master Enable behind the driver's back."""
    with open(f"/sys/bus/pci/devices/{address}/config", "r+b", buffering=0) as config:
        config.seek(PCI_COMMAND)
        command = int.from_bytes(config.read(2), "little")
        command = command | PCI_COMMAND_MASTER if on else command & ~PCI_COMMAND_MASTER
        config.seek(PCI_COMMAND)
        config.write(command.to_bytes(2, "little"))


def fall_silent(address):
    """A fence that is never answered: deregistering must neither hang nor unpin memory that
    the NIC may still access."""
    pins = guest.pinned_pages()
    with subprocess.Popen([CHURN, "hold"], stdout=subprocess.PIPE) as process:
        guest.ok(process.stdout.readline() == b"ready\n", "silent device: a process holds MRs")
        set_bus_master(address, False)
        held = guest.pinned_pages() - pins
        process.kill()
        waiting = guest.wait_for(
            lambda: "moor_cmd_wait" in guest.read(f"/proc/{process.pid}/stack"))
        guest.ok(waiting and held and guest.pinned_pages() - pins == held,
                 "silent device: pages stay pinned while a fence is under way")
        guest.ok(guest.wait_for(lambda: guest.pinned_pages() == pins, 60),
                 "silent device: they are unpinned when it has been stopped")
    status, log = guest.run("dmesg")
    guest.ok(not status and "stopped: a command timed out" in log,
             "silent device: the log says why it was stopped")
    guest.write(f"{guest.DRIVER}/unbind", address)
    guest.write(f"{guest.DRIVER}/bind", address)
    guest.ok(guest.bring_up(), "silent device: it comes back when bound again")
    guest.ok(*guest.moves_data("silent device"))


def main():
    """Runs the tests."""
    address = guest.functions()[0]
    leave("unbinding", lambda: guest.write(f"{guest.DRIVER}/unbind", address),
          lambda: guest.write(f"{guest.DRIVER}/bind", address))
    leave("function level reset",
          lambda: guest.write(f"/sys/bus/pci/devices/{address}/reset", "1"),
          lambda: None)
    fall_silent(address)
    guest.done()


main()
