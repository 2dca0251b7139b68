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
# Completions to an event, with long waits beside short ones: about twice as many on a NIC
# that waits, as many on one that does not. A busy machine may hide that, but not each time.
FEWER = 1.35
TRIES = 3


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
    NIC had, and completions to an event with short and with long waits."""
    guest.write(f"{TRACEFS}/trace", "")
    commands = device.status("commands")
    verbs.report("dim")
    commands = device.status("commands") - commands
    asked = re.findall(r"cq_modify: .* comps=(\d+) usec=(\d+)", guest.read(f"{TRACEFS}/trace"))
    counts = [int(number) for number in re.search(
        r"short (\d+) (\d+) long (\d+) (\d+)", "\n".join(verbs.results())).groups()]
    short, long = counts[1] / max(counts[0], 1), counts[3] / max(counts[2], 1)
    print(f"# {name}: {commands} commands, {short:.2f} completions an event, {long:.2f} if it waits for long")
    return asked, commands, long / short


def tuned(others):
    """Whatever the core asks for has its effect. A test without tuning has that many @others."""
    for _ in range(TRIES):
        asked, commands, fewer = load("tuned")
        guest.ok(len(set(asked)) >= 6, f"tuned: {len(asked)} times, by {len(set(asked))} profiles", set(asked))
        guest.ok(commands == others + len(asked), "tuned: the NIC had a command for each", commands - others)
        if fewer > FEWER:
            break
    guest.ok(fewer > FEWER, f"tuned: to a completion there are {fewer:.2f} times fewer events", fewer)


def refused():
    """A NIC that refuses hears of it as well, and nothing else changes."""
    guest.control("fail MODIFY_CQ NO_RESOURCE always")
    for _ in range(TRIES):
        before = device.fired()
        asked, _, fewer = load("refused")
        had = device.fired() - before
        guest.ok(asked and had == len(asked), f"refused: the NIC had all {len(asked)}", had)
        if fewer < FEWER:
            break
    guest.control("clear")
    guest.ok(fewer < FEWER, f"refused: there are as many ({fewer:.2f})")


def main():
    """All of it."""
    device.setup()
    if not traced():
        print("1..0 # SKIP no tracefs with the core's events in this kernel")
        return
    guest.ok(verbs.load(), "the test module is loaded")
    guest.write(f"{EVENT}/enable", "1")
    tune(False)
    asked, others, _ = load("not tuned")
    guest.ok(not asked, "not tuned: the core asks for nothing", asked)
    tune(True)
    tuned(others)
    refused()
    guest.write(f"{EVENT}/enable", "0")
    guest.ok(verbs.unload(), "the test module is unloaded")
    guest.done()


main()
