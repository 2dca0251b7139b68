#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The driver's tracepoints: registering, re-registering, deregistering, refusals and
queries of windows, each with its fields as the program saw them."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position

TRACEFS = "/sys/kernel/tracing"
EVENTS = f"{TRACEFS}/events/moor"


def mounted():
    """Is there a tracefs with events?"""
    if not os.path.isdir(f"{TRACEFS}/events"):
        guest.run("mount", "-n", "-t", "tracefs", "tracefs", TRACEFS)
    return os.path.isdir(f"{TRACEFS}/events")


def parse(line):
    """An event of the trace: name, device and fields, all as text; or None."""
    found = re.search(r": (moor_\w+): (moor\d+) (.*)", line)
    if not found:
        return None
    name, device, rest = found.groups()
    fields = dict(re.findall(r"(page shift|\w+) ((?:0x)?[0-9a-f]+)\b", rest))
    return {"event": name, "device": device, "text": rest, **fields}


def record():
    """Runs the program that causes the events. Returns its output, and the trace."""
    guest.write(f"{TRACEFS}/trace", "")
    guest.write(f"{EVENTS}/enable", "1")
    try:
        status, output = guest.run(f"{guest.PROGRAMS}/traced")
    finally:
        guest.write(f"{EVENTS}/enable", "0")
    trace = [event for event in map(parse, guest.read(f"{TRACEFS}/trace").splitlines()) if event]
    did = [dict(re.findall(r"(\w+)=(\S+)", line)) for line in output.splitlines()]
    return status, output, did, trace


def same(event, did, *names):
    """Does the event have these fields as the program has them?"""
    return all(name in event and int(event[name], 0) == int(did[name], 0) for name in names)


def find(trace, name, did):
    """The events of this name about the program's MR."""
    return [event for event in trace
            if event["event"] == name and int(event["key"], 0) == int(did["key"], 0)]


def main():
    """Runs the tests."""
    if not mounted():
        print("1..0 # SKIP no tracefs with events in this kernel")
        return
    if not guest.ok(os.path.isdir(EVENTS), "the driver has events"):
        guest.done()
    status, output, did, trace = record()
    shown = "\n".join(str(event) for event in trace)
    if not guest.ok(status == 0, "the program did what it should", output):
        guest.done()
    steps = {step["step"]: step for step in did}
    for step in ("reg", "rereg"):
        events = find(trace, f"moor_{step}_mr", steps[step])
        guest.ok(len(events) == 1 and events[0]["device"] == "moor0" and
                 same(events[0], steps[step], "start", "length", "iova", "access"),
                 f"{step}: one event, with range and rights", shown)
    busy = find(trace, "moor_dereg_mr_busy", steps["busy"])
    guest.ok(len(busy) == 1 and busy[0]["windows"] == "2",
             "busy: one event, two windows", shown)
    holders = find(trace, "moor_mr_holder", steps["busy"])
    # An event for the deregistration, and one for a rereg that is refused.
    guest.ok(len(holders) == 4, "busy: an event for each window, twice", shown)
    for step in ("window1", "window2"):
        events = [event for event in holders
                  if int(event["window"], 0) == int(steps[step]["rkey"], 0)]
        guest.ok(len(events) == 2 and
                 all(same(event, steps[step], "type", "qpn", "pid", "iova", "length", "access")
                     for event in events),
                 f"busy: {step}: QP, process, range and rights", shown)
    gone = find(trace, "moor_dereg_mr", steps["dereg"])
    guest.ok(len(gone) == 1, "dereg: one event", shown)
    refused = [event for event in trace if event["event"] == "moor_reg_refused"]
    for step in ("windows", "page", "flags"):
        events = [event for event in refused if f" {step} value" in " " + event["text"]]
        # The page at fault is looked up only when the process asks for the reason.
        value = steps[step] if step != "page" else {"value": "0"}
        guest.ok(len(events) == 1 and same(events[0], value, "value") and
                 same(events[0], steps[step], "error", "start", "length", "access"),
                 f"refused: {step}: its value, and the call's arguments", shown)
    guest.ok(len(refused) == 3, "refused: nothing else", shown)
    guest.done()


main()
