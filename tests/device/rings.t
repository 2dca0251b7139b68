#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""The NIC writes nonsense into its rings, writes entries twice, or an interrupt is lost:
the driver logs that, but not without limit, and either the next call works or the device is
stopped."""

import os
import sys
import time

TOP = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{TOP}/../guest/lib", f"{TOP}/lib"]
import device  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position

ASYNC_EQ, FIRST_CQ_EQ = 0, 2
COMMAND_VECTOR, ASYNC_VECTOR = 0, 1
BUSY = 16
PORT_DOWN, PORT_ACTIVE = 1, 4
EVENT_DEVICE_FATAL = 0x20
# printk's default rate limit lets 10 lines through in 5 seconds, from each place.
LINES_AT_MOST = 30


def lines():
    """What the kernel has logged."""
    return len(guest.run("dmesg")[1].splitlines())


def stray(verbs):
    """Completions of commands that were not issued."""
    said = device.dmesg_count("completion of no command")
    for tag in (0, 1, 0x7f, 0x80, 0xffff):
        guest.control(f"stray {tag}")
    guest.ok(guest.wait_for(lambda: device.dmesg_count("completion of no command") > said),
             "stray completions: the driver says so")
    guest.ok(verbs("query_qp") == 0, "stray completions: the next command works")


def twice(verbs):
    """A second completion of a command comes while the next one of the same slot is under way."""
    guest.control("twice QUERY_QP")
    guest.ok(verbs("query_qp") == 0, "answered twice: the command itself works")
    guest.control("fail QUERY_QP BUSY")
    err = verbs("query_qp")
    guest.ok(err == BUSY, "answered twice: the next command gets its own answer", err)
    guest.ok(verbs("query_qp") == 0, "answered twice: and so does the one after")


def accepted(command):
    """Can the NIC write to this ring now?"""
    try:
        guest.control(command)
    except RuntimeError:
        return False
    return True


def garbage(verbs):
    """Random entries where the next ones are due."""
    before = lines()
    for _ in range(3):
        written = guest.control("garbage commands 128")
        if not guest.ok(written == "128 written" and verbs("query_qp") == 0,
                        "garbage in the completion ring: the next command works", written):
            return
    for eqn in (ASYNC_EQ, FIRST_CQ_EQ):
        taken = 0
        for _ in range(8):
            taken += guest.wait_for(lambda eqn=eqn: accepted(f"garbage events {eqn} 64"))
        guest.ok(taken == 8 and verbs("query_qp") == 0,
                 f"garbage in event queue {eqn}: the driver takes it, and commands work", taken)
    guest.ok(0 < lines() - before <= LINES_AT_MOST, "garbage: complaints are limited",
             f"{lines() - before} lines")


def events_still_come(verbs, name):
    """A completion event, and an asynchronous one."""
    guest.ok(verbs("complete") == 0 and verbs("cq_event") == 0, f"{name}: a CQ event comes")
    guest.control("link down")
    down = guest.wait_for(lambda: verbs("port_state") == PORT_DOWN)
    guest.control("link up")
    guest.ok(down and guest.wait_for(lambda: verbs("port_state") == PORT_ACTIVE),
             f"{name}: the port follows the link")


def lost_interrupts(verbs):
    """A lost interrupt: the issuer of a command polls the answer; events come with the next
    one."""
    guest.control(f"lose always {COMMAND_VECTOR}")
    start = time.monotonic()
    good = not any(verbs(word) for word in ("query_qp", "dereg", "reg", "mw", "dealloc_mw"))
    guest.ok(good and time.monotonic() - start < device.PROMPTLY,
             "command interrupts lost: commands end all the same")
    guest.control("clear")

    if verbs("reset_qp") or verbs("init_qp"):
        raise RuntimeError("QP")
    done = device.fired()
    guest.control("lose 1")
    guest.ok(verbs("complete") == 0 and verbs("no_cq_event") == 0 and device.fired() > done,
             "CQ interrupt lost: no event comes by itself")
    guest.control("clear")
    for eqn in range(FIRST_CQ_EQ, FIRST_CQ_EQ + os.cpu_count()):
        guest.control(f"event {eqn} 0xee")
    guest.ok(verbs("cq_event") == 0, "CQ interrupt lost: it comes with the queue's next interrupt")


def overwritten(where, name):
    """The device writes completions to another place than the driver reads."""
    before = device.counts()
    guest.write(device.debugfs("command_timeout_ms"), "1000")
    with device.Verbs() as verbs:
        verbs.make()
        guest.control("scribble")
        guest.ok(verbs("query_qp") == device.EIO, f"{name}: the next command fails")
        guest.ok(verbs("fatal_event") == 0 and not device.has_bus_mastering(where),
                 f"{name}: the device is stopped")
        guest.ok(verbs.end()[0] == 0, f"{name}: the process ends as it likes")
    device.leaves_nothing(before, name)
    device.revive(where, name)


def fatal(where, name, fault):
    """The device reports an error of its own."""
    before = device.counts()
    with device.Verbs() as verbs:
        verbs.make()
        guest.control(fault)
        guest.ok(verbs("fatal_event") == 0, f"{name}: processes hear of it")
        guest.ok(verbs("reg") == device.EIO and not device.has_bus_mastering(where),
                 f"{name}: the device is stopped")
        guest.ok(verbs.end()[0] == 0, f"{name}: the process ends as it likes")
    device.leaves_nothing(before, name)
    device.revive(where, name)


def main():
    """Runs the tests."""
    device.setup()
    where = device.address()
    before = device.counts()
    with device.Verbs() as verbs:
        verbs.make()
        stray(verbs)
        twice(verbs)
        garbage(verbs)
        events_still_come(verbs, "garbage")
        lost_interrupts(verbs)
        guest.ok(verbs.end()[0] == 0, "the process that saw all that ends as it likes")
    device.leaves_nothing(before, "all that")
    guest.ok(*guest.moves_data("all that"))
    overwritten(where, "completion ring overwritten")
    fatal(where, "FATAL", "fatal")
    fatal(where, "an event alone says so", f"event {ASYNC_EQ} {EVENT_DEVICE_FATAL}")
    guest.done()


main()
