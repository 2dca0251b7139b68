#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
"""A NIC that lies: in completions of commands, in events, in CQEs, or in all of them, now
and then or each time, by twelve seeds each. No call hangs, the kernel does not warn (the
debug kernel would), nothing is left, and the NIC works afterwards; if it was stopped, a
line in the log says why."""

import os
import sys

TOP = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{TOP}/../guest/lib", f"{TOP}/lib"]
import device  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position

TIMEOUT_MS = 1000  # for commands whose answer is not found
SEEDS = int(os.environ.get("MOOR_LIE_SEEDS", "12"))
ONE_IN = (1, 4, 16, 50)  # one lie in so many
WHERE = ("commands", "events", "cqes", "")
ROUNDS = 6


def listen(where, seed, one_in, about):
    """Runs a process on a lying NIC. Returns the number of lies, and whether the NIC was
    stopped."""
    name = f"lie {seed} {one_in} {about}".strip()
    before = device.counts()
    guest.write(device.debugfs("command_timeout_ms"), str(TIMEOUT_MS))
    said = device.dmesg_count("stopped: ")
    with device.Program("lied_to", str(ROUNDS)) as process:
        lies = device.fired()
        guest.control(name)
        status, output = process.end("go\n")
    # The NIC goes on lying while the process ends.
    lies = device.fired() - lies
    guest.control("clear")
    stopped = not device.has_bus_mastering(where)
    guest.ok(status == 0, f"{name}: {lies} lies, and the process ends", output)
    guest.ok(not stopped or device.dmesg_count("stopped: ") > said,
             f"{name}: {'stopped, and a line says why' if stopped else 'it works on'}")
    # Lies in CQEs and events may make a queue useless, and no more.
    device.leaves_nothing(before, name)
    if stopped or about != "cqes":
        device.rebind(where, name)
    return lies, stopped


def main():
    """Runs the tests."""
    device.setup()
    where = device.address()
    for about in WHERE:
        lies = stops = 0
        for seed in range(SEEDS):
            told, stopped = listen(where, seed, ONE_IN[seed % len(ONE_IN)], about)
            lies, stops = lies + told, stops + stopped
        guest.ok(lies >= SEEDS // 2, f"{about or 'everywhere'}: {lies} lies, {stops} times stopped")
        guest.ok(*guest.moves_data(about or "everywhere"))
    guest.done()


main()
