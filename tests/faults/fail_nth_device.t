#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 900
"""Probing the NIC, removing it, loading and unloading the driver, with each
allocation and copy on the way failing in turn.

There are thousands of points on these ways, most of them the core's, and each costs
a probe; so every so-many-th is tried, from a seeded start: as many of each way as the
environment variable MOOR_FAULT_TRIES says.

Some of the core's own code warns when an allocation fails that it had thought could
not: meanwhile warnings do not panic and do not get to the console, where they would
end the VM's run, but are read here, and those that are not known fail the test."""

import ctypes
import errno
import os
import random
import re
import sys
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(FOLDER, "../guest/lib"), os.path.join(FOLDER, "../../scripts/lib")]
import console  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position

DEBUGFS = "/sys/kernel/debug"
SETTINGS = {
    "failslab/ignore-gfp-wait": "N", "failslab/times": "-1", "failslab/verbose": "0",
    "fail_page_alloc/ignore-gfp-wait": "N", "fail_page_alloc/ignore-gfp-highmem": "N",
    "fail_page_alloc/min-order": "0", "fail_page_alloc/times": "-1",
    "fail_page_alloc/verbose": "0",
    "fail_usercopy/times": "-1", "fail_usercopy/verbose": "0",
}
TRIES = int(os.environ.get("MOOR_FAULT_TRIES", 25))
QUIET = {
    "/proc/sys/kernel/panic_on_warn": "0",
    "/sys/module/printk/parameters/ignore_loglevel": "N",
    "/proc/sys/kernel/printk": "1",
}
TROUBLE = re.compile(console.TROUBLE.pattern + r"|waiting for .* to become free")
# The core's own warnings: not all files of a /proc/irq/N could be made, and all are
# removed; kernel/trace could not set up the module's events, and misses them later.
KNOWN = re.compile(r"WARNING: .* at remove_proc_entry\+|WARNING: kernel/trace/trace_events\.c:")
ENDLESS = 1000000
SYS_FINIT_MODULE, SYS_DELETE_MODULE = 313, 176
LIBC = ctypes.CDLL(None, use_errno=True)
SEED = int(os.environ.get("MOOR_FAULT_SEED", time.time_ns() % 100000))
POINTS = []


class Log:
    """Reads the kernel's log from now on, and keeps it from the console."""

    def __init__(self):
        self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.file, 0, os.SEEK_END)
        self.before = {file: guest.read(file).split()[0] for file in QUIET}
        for file, value in QUIET.items():
            guest.write(file, value)

    def end(self):
        """Restores the settings. Returns unknown warnings, each with the lines behind it."""
        for file, value in self.before.items():
            guest.write(file, value)
        lines, wrong, more = [], [], 0
        while True:
            try:
                lines.append(os.read(self.file, 8192).decode(errors="replace").splitlines()[0])
            except BlockingIOError:
                break
            except BrokenPipeError:
                wrong.append("messages were lost")
        for line in lines:
            text = line.partition(";")[2]
            if TROUBLE.search(text) and not KNOWN.search(text):
                more = 40
            if more:
                wrong.append(text)
                more -= 1
        return wrong


class Injector:
    """The fail-nth file of this thread."""

    def __init__(self):
        for file, value in SETTINGS.items():
            guest.write(f"{DEBUGFS}/{file}", value)
        self.file = os.open("/proc/thread-self/fail-nth", os.O_RDWR)

    def run(self, nth, call):
        """Makes the call with the nth point failing. Returns errno or 0, and how many
        points were left."""
        os.pwrite(self.file, b"%d" % nth, 0)
        try:
            err = call()
        finally:
            try:
                left = int(os.pread(self.file, 16, 0))
            except OSError:  # reading was the point, so none was before it
                left = 1
            try:
                os.pwrite(self.file, b"0", 0)
            except OSError:
                os.pwrite(self.file, b"0", 0)
        return err, left


def writer(path, text):
    """A function that writes to a file which is open already: 0 or an errno."""
    file = os.open(path, os.O_WRONLY)

    def write():
        try:
            os.pwrite(file, text.encode(), 0)
        except OSError as error:
            return error.errno
        return 0
    return write


# Stays open, so that opening and closing it are no fault points.
MODULE = os.open(guest.MODULE, os.O_RDONLY)


def load():
    """Loads the module: 0 or an errno."""
    return ctypes.get_errno() if LIBC.syscall(SYS_FINIT_MODULE, MODULE, b"", 0) else 0


def unload():
    """Unloads it."""
    return ctypes.get_errno() if LIBC.syscall(SYS_DELETE_MODULE, b"moor", 0) else 0


def fail_each(injector, name, call, done, undo, sane):
    """Makes the points of a call fail; @done tells whether it has taken effect."""
    err, left = injector.run(ENDLESS, call)
    total = ENDLESS - left
    if not guest.ok(not err and done() and total, f"{name}: {total} points", f"errno {err}"):
        return
    step = max(1, total // TRIES)
    points = range(1 + random.randrange(step), total + 1, step)
    seen, problem, started = set(), None, time.monotonic()
    for point in points:
        problem = undo()
        if problem or done():
            problem = f"point {point}: cannot be undone: {problem}"
            break
        err, _ = injector.run(point, call)
        if err:
            seen.add(errno.errorcode[err])
            if err not in sane:
                problem = f"point {point}: {os.strerror(err)}"
                break
            again = 0 if done() else call()
            if again:
                problem = f"point {point}: the same call after it: {os.strerror(again)}"
                break
        if not done():
            problem = f"point {point}: errno {err}, and it is not done"
            break
    guest.ok(not problem, f"{name}: {len(points)} of them failed in turn: {' '.join(sorted(seen))}",
             problem)
    print(f"#   {time.monotonic() - started:.1f} s")
    POINTS.append(total)


def main():
    """Runs the tests."""
    if not os.path.exists(f"{DEBUGFS}/failslab"):
        print("1..0 # SKIP this kernel injects no faults (scripts/vm --kernel debug)")
        return
    random.seed(SEED)
    print(f"#   MOOR_FAULT_SEED={SEED}")
    injector = Injector()
    log = Log()
    address = guest.functions()[0]

    def bound():
        return address in guest.functions()

    bind = writer(f"{guest.DRIVER}/bind", address)
    unbind = writer(f"{guest.DRIVER}/unbind", address)
    sane = {errno.ENOMEM, errno.EFAULT, errno.ENOSPC}
    unbind()
    # Words for no memory: pci_request_region() says EBUSY, pci_alloc_irq_vectors() ENODEV, IPv6,
    # which gets to know the interface, ENOBUFS.
    fail_each(injector, "probe", bind, bound, unbind, sane | {errno.EBUSY, errno.ENODEV, errno.ENOBUFS})
    fail_each(injector, "remove", unbind, lambda: not bound(), bind, sane)

    # Probing has been tested: now the module alone.
    autoprobe = "/sys/bus/pci/drivers_autoprobe"

    def loaded():
        return os.path.exists("/sys/module/moor/initstate")

    guest.write(autoprobe, "0")
    unload()
    # EINVAL is module_add_driver()'s word for no memory.
    fail_each(injector, "load the module", load, loaded, unload, sane | {errno.EINVAL})
    fail_each(injector, "unload the module", unload, lambda: not loaded(), load, sane)
    guest.write(autoprobe, "1")
    wrong = log.end()
    guest.ok(not wrong, "the kernel reports nothing that is not known", "\n".join(wrong[:200]))
    guest.ok(load() == 0 and bound(), "after all of it the driver is loaded")
    guest.ok(guest.bring_up(), "and the NIC has GIDs")
    guest.ok(*guest.moves_data("after all of it"))
    print(f"#   {sum(POINTS)} points")
    guest.done()


main()
