# SPDX-License-Identifier: GPL-2.0
"""Runs the stress mix (tests/stress/mix.c) and compares what the NIC and the kernel have
logged meanwhile with what the mix provoked."""

import glob
import os
import re
import time

import guest

LOGS = os.environ.get("MOOR_LOGS", "")
# The NIC's messages when it is reset.
EXPECTED = re.compile(r"moor-nic: [\d.]+ (listening on|vfio-user: client: |"
                      r"guest: config: bus mastering o|(config|client): \d+ more like the one before)")
REFUSED = re.compile(r"moor-nic: [\d.]+ refused: (HWI [^:]+): ")
HELD_BACK = re.compile(r"moor-nic: [\d.]+ (HWI [^:]+): (\d+) more like the one before")
PROVOKED = re.compile(r"^#\s+refusals (\d+)$", re.MULTILINE)
# Messages to ignore: of an emulated machine on a busy host, whose clocks differ and
# whose processors are slow; and those that come once a boot.
MACHINE = re.compile(r"\[ *[\d.]+\] (clocksource: |tsc: |TSC found unstable|sched_clock: |random: crng|"
                     r"hrtimer: interrupt took |workqueue: .* hogged CPU)")
POINT = re.compile(r"^(ok|not ok) \d+ - (.*)$")


def kernel_log():
    """The lines that the kernel has printed, without those to be ignored."""
    return [line for line in guest.run("dmesg")[1].splitlines() if not MACHINE.match(line)]


def reload():
    """Unbinds the driver and binds it again: the reset makes the NIC write counts of log
    lines that it has suppressed."""
    for function in guest.functions():
        guest.write(f"{guest.DRIVER}/unbind", function)
        guest.write(f"{guest.DRIVER}/bind", function)
    guest.ok(guest.bring_up(), "driver unbound, reset and bound: the device is there")


def nic_logs():
    """What each NIC has logged: lines by file."""
    logs = {}
    for path in sorted(glob.glob(f"{LOGS}/nic*.log")):
        with open(path, encoding="utf-8", errors="replace") as file:
            logs[path] = file.read().splitlines()
    return logs


def refusals(lines):
    """Refusals by rule, and lines that are neither refusals nor expected."""
    counts, others = {}, []
    for line in lines:
        refused, held_back = REFUSED.match(line), HELD_BACK.match(line)
        if refused:
            counts[refused.group(1)] = counts.get(refused.group(1), 0) + 1
        elif held_back:
            rule, number = held_back.groups()
            counts[rule] = counts.get(rule, 0) + int(number)
        elif not EXPECTED.match(line):
            others.append(line)
    return counts, others


def compare(before, provoked):
    """Test points: since @before the NIC has logged what was provoked, and nothing else."""
    if not LOGS:
        guest.skip("the NIC's log", "it is outside of what the guest sees")
        return
    counts, others = refusals([line for path, lines in nic_logs().items()
                               for line in lines[len(before.get(path, [])):]])
    for rule in sorted(counts):
        print(f"# {rule}: {counts[rule]}")
    got = sum(counts.values())
    guest.ok(got == provoked, f"NIC's log: {got} refusals, as provoked", f"provoked: {provoked}")
    guest.ok(not others, "NIC's log: nothing else", "\n".join(others[:20]))


def mix(seconds):
    """Runs the mix for some seconds, with all test points."""
    seed = os.environ.get("MOOR_STRESS_SEED", str(int(time.time())))
    print("# the mix is repeated with MOOR_STRESS_SEED=" + seed)
    reload()
    before, kernel = nic_logs(), kernel_log()
    slabs = guest.slab_bytes()
    status, output = guest.run(f"{guest.PROGRAMS}/mix", "--seconds", str(seconds), "--seed", seed)
    said = kernel_log()[len(kernel):]
    for line in output.splitlines():
        point = POINT.match(line)
        if point:
            guest.ok(point.group(1) == "ok", point.group(2))
        else:
            print(line if line.startswith("#") else f"# {line}")
    guest.ok(status == 0, "the mix ends well", f"status {status}")
    guest.ok(not said, "the kernel has said nothing", "\n".join(said[:20]))
    grown = sum(guest.slab_bytes().values()) - sum(slabs.values())
    guest.ok(grown < 2 << 20, f"slab caches are as they were: {grown} bytes more")
    reload()
    compare(before, sum(int(number) for number in PROVOKED.findall(output)))
