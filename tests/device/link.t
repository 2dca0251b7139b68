#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The NIC's link decides the interface's carrier, and interface and carrier decide the
port: its state and events agree, whichever of them changes, and a device that is gone has
no link."""

import glob
import os
import sys

TOP = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{TOP}/../guest/lib", f"{TOP}/lib"]
import device  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position

PORT_DOWN, PORT_ACTIVE = 1, 4


def interface(where):
    """The NIC's interface in sysfs."""
    return glob.glob(f"/sys/bus/pci/devices/{where}/net/*")[0]


def settles(net, operstate):
    """Does the interface reach this operational state in time?"""
    return guest.wait_for(lambda: guest.read(f"{net}/operstate").strip() == operstate)


def set_interface(net, state):
    """Brings the interface up or down."""
    return guest.run("ip", "link", "set", os.path.basename(net), state)[0] == 0


def followed(verbs, net):
    """Interface and link, both of which the port needs, go and come back in turn."""
    guest.ok(settles(net, "up") and verbs("port_state") == PORT_ACTIVE,
             "interface up, link up: the port is active")
    guest.control("link down")
    guest.ok(verbs("port_err_event") == 0 and verbs("port_state") == PORT_DOWN,
             "link down: an event says so, and the port is down")
    guest.ok(settles(net, "down") and guest.read(f"{net}/carrier").strip() == "0",
             "link down: the interface has no carrier")
    set_interface(net, "down")
    set_interface(net, "up")
    guest.ok(verbs("port_state") == PORT_DOWN, "link down, interface up again: the port stays down")
    guest.control("link up")
    guest.ok(verbs("port_active_event") == 0 and verbs("port_state") == PORT_ACTIVE,
             "link up: an event says so, and the port is active")
    guest.ok(settles(net, "up"), "link up: the interface has a carrier")
    set_interface(net, "down")
    guest.ok(verbs("port_err_event") == 0 and verbs("port_state") == PORT_DOWN,
             "interface down: an event says so, and the port is down")
    set_interface(net, "up")
    guest.ok(verbs("port_active_event") == 0 and verbs("port_state") == PORT_ACTIVE,
             "interface up: an event says so, and the port is active")


def beside_rxe(verbs, net):
    """Another device over the same interface has events of its own.

    From 7.2 on the core makes them, for whichever of the two it finds first.
    """
    if not os.uname().release.startswith("6.12."):
        return
    if guest.run("modprobe", "--dry-run", "rdma_rxe")[0]:
        guest.skip("events beside rxe", "this kernel has none")
        return
    guest.load("rdma_rxe")
    status, output = guest.run("rdma", "link", "add", "rxe0", "type", "rxe",
                               "netdev", os.path.basename(net))
    guest.ok(not status, "there is a rxe0 over the NIC's interface", output)
    guest.control("link down")
    guest.ok(verbs("port_err_event") == 0, "link down beside rxe: an event says so")
    guest.control("link up")
    guest.ok(verbs("port_active_event") == 0, "link up beside rxe: an event says so")
    guest.run("rdma", "link", "delete", "rxe0")
    guest.unload("rdma_rxe")


def gone(verbs, net):
    """A dead device's registers read as ones, the link's bit included."""
    guest.control("dead")
    guest.ok(verbs("fatal_event") == 0 and verbs("port_state") == PORT_DOWN,
             "off the bus: the port is down")
    guest.ok(settles(net, "down"), "off the bus: the interface has no carrier")
    set_interface(net, "down")
    set_interface(net, "up")
    guest.ok(verbs("port_state") == PORT_DOWN, "off the bus: the interface does not bring it up")


def main():
    """Runs the tests."""
    device.setup()
    where = device.address()
    net = interface(where)
    with device.Verbs() as verbs:
        followed(verbs, net)
        beside_rxe(verbs, net)
        gone(verbs, net)
        guest.ok(verbs.end()[0] == 0, "the process ends as it likes")
    device.revive(where, "bound again")
    guest.ok(settles(interface(where), "up"), "bound again: its interface has a carrier")
    guest.done()


main()
