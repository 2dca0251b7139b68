#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""The core tunes a CQ of a user in the kernel that is under load (tests/kernel/dim.c): the NIC
gets each MODIFY_CQ that the core wants, with ever other values, and while they let events wait
for long there are fewer to a completion. Not so if the NIC refuses them, and there is none
if tuning is off."""

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
# With waits that are long the core picks what it finds in busy moments, so those of a NIC
# that waits are held against those of one that does not: about twice as many completions, a
# quarter more where the kernel takes its time (KASAN). A NIC that only says so has as many.
# Where more than MANY come together anyhow (KASAN, and the machine has more to do), there is
# little that waiting could add.
FEWER, FEWER_OF_MANY, MANY = 1.15, 1.05, 20
ROUNDS = 3


def traced():
    """Is there a tracefs with the core's event?"""
    if not os.path.isdir(f"{TRACEFS}/events"):
        guest.run("mount", "-n", "-t", "tracefs", "tracefs", TRACEFS)
    return os.path.isdir(EVENT)


def tune(on):
    """Is the core to tune CQs that are made from now on?"""
    status, output = guest.run("rdma", "dev", "set", "moor0", "adaptive-moderation", "on" if on else "off")
    if status:
        raise RuntimeError(output)


def load(name):
    """Puts a CQ under load: the values that the core asked for in turn, the commands that the
    NIC had, and events and their completions while waits were long."""
    guest.write(f"{TRACEFS}/trace", "")
    commands = device.status("commands")
    verbs.report("dim")
    commands = device.status("commands") - commands
    asked = re.findall(r"cq_modify: .* comps=(\d+) usec=(\d+)", guest.read(f"{TRACEFS}/trace"))
    counts = re.search(r"# (short (\d+) (\d+) long (\d+) (\d+))", "\n".join(verbs.results()))
    print(f"# {name}: {commands} commands, {counts.group(1)}")
    return asked, commands, int(counts.group(4)), int(counts.group(5))


def tuned(others):
    """The NIC has a command for whatever the core asks for, beside the @others that a load has
    without tuning: events and completions."""
    asked, commands, *counts = load("tuned")
    guest.ok(len(set(asked)) >= 6, f"tuned: {len(asked)} times, by {len(set(asked))} profiles", set(asked))
    guest.ok(commands == others + len(asked), "tuned: the NIC had a command for each", commands - others)
    return counts


def refused():
    """The same of a NIC that refuses, and hears of each as well."""
    before = device.fired()
    guest.control("fail MODIFY_CQ NO_RESOURCE always")
    asked, _, *counts = load("refused")
    guest.control("clear")
    had = device.fired() - before
    guest.ok(asked and had == len(asked), f"refused: the NIC had all {len(asked)}", had)
    return counts


def ratio(counts):
    """Completions to an event."""
    events, completions = map(sum, zip(*counts))
    return completions / max(events, 1)


def main():
    """All of it."""
    device.setup()
    if not traced():
        print("1..0 # SKIP no tracefs with the core's events in this kernel")
        return
    guest.ok(verbs.load(), "the test module is loaded")
    guest.write(f"{EVENT}/enable", "1")
    tune(False)
    asked, others, *_ = load("not tuned")
    guest.ok(not asked, "not tuned: the core asks for nothing", asked)
    tune(True)
    rounds = [(tuned(others), refused()) for _ in range(ROUNDS)]
    waits, does_not = map(ratio, zip(*rounds))
    guest.ok(waits > (FEWER_OF_MANY if does_not > MANY else FEWER) * does_not,
             f"{does_not:.2f} completions an event become {waits:.2f} by waiting")
    guest.write(f"{EVENT}/enable", "0")
    guest.ok(verbs.unload(), "the test module is unloaded")
    guest.done()


main()
