#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""The core tunes a CQ of a kernel client that is under load (tests/kernel/dim.c). The NIC
must get each MODIFY_CQ that the core asks for, with changing values, also if it refuses
them; with tuning off there must be none. What MODIFY_CQ does is tested by test_moderation
and the conformance suite."""

import os
import re
import sys

TOP = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{TOP}/../guest/lib", f"{TOP}/lib"]
import device  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position
import verbs  # pylint: disable=wrong-import-position

TRACEFS = "/sys/kernel/tracing"
EVENT = f"{TRACEFS}/events/rdma_core/cq_modify"


def traced():
    """Is there a tracefs with the core's event?"""
    if not os.path.isdir(f"{TRACEFS}/events"):
        guest.run("mount", "-n", "-t", "tracefs", "tracefs", TRACEFS)
    return os.path.isdir(EVENT)


def tune(on):
    """Switches tuning on or off, for CQs made from now on."""
    status, output = guest.run("rdma", "dev", "set", "moor0", "adaptive-moderation", "on" if on else "off")
    if status:
        raise RuntimeError(output)


def load(name):
    """Puts a CQ under load. Returns the values that the core asked for, in order, and the
    number of commands that the NIC has fetched."""
    guest.write(f"{TRACEFS}/trace", "")
    commands = device.status("commands")
    verbs.report("dim")
    commands = device.status("commands") - commands
    asked = re.findall(r"cq_modify: .* comps=(\d+) usec=(\d+)", guest.read(f"{TRACEFS}/trace"))
    print(f"# {name}: {commands} commands")
    return asked, commands


def tuned(others):
    """Test points: the NIC gets a command for each value that the core asks for, beside the
    @others that a load without tuning takes."""
    asked, commands = load("tuned")
    guest.ok(len(set(asked)) >= 2, f"tuned: {len(asked)} times, by {len(set(asked))} profiles", set(asked))
    guest.ok(commands == others + len(asked), "tuned: the NIC had a command for each", commands - others)


def refused():
    """A test point: the same with a NIC that refuses; the core goes on asking."""
    before = device.fired()
    guest.control("fail MODIFY_CQ NO_RESOURCE always")
    asked, _ = load("refused")
    guest.control("clear")
    had = device.fired() - before
    guest.ok(asked and had == len(asked), f"refused: the NIC had all {len(asked)}", had)


def main():
    """Runs the tests."""
    device.setup()
    if not traced():
        print("1..0 # SKIP no tracefs with the core's events in this kernel")
        return
    guest.ok(verbs.load(), "the test module is loaded")
    guest.write(f"{EVENT}/enable", "1")
    tune(False)
    asked, others = load("not tuned")
    guest.ok(not asked, "not tuned: the core asks for nothing", asked)
    tune(True)
    tuned(others)
    refused()
    guest.write(f"{EVENT}/enable", "0")
    guest.ok(verbs.unload(), "the test module is unloaded")
    guest.done()


main()
