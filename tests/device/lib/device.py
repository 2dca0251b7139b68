# SPDX-License-Identifier: GPL-2.0
"""Shared by tests that break the device: programs to drive, and checks that nothing is left."""

import glob
import itertools
import os
import subprocess

import guest

PROMPTLY = 60  # seconds; it is hangs that are looked for, not slowness
EIO = 5

# The statuses of HWI CMD-8 to CMD-16, and one that does not exist; with their errnos.
STATUSES = {"BAD_OPCODE": 95, "BAD_RESERVED": 22, "BAD_PARAM": 22, "BAD_INDEX": 22,
            "BAD_STATE": 22, "BUSY": 16, "NO_RESOURCE": 12, "DMA_FAULT": 14, "0xa5": EIO}


class Program:
    """A program that is driven by its standard input. It must neither be killed nor hang."""

    def __init__(self, name, *arguments):
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen([f"{guest.PROGRAMS}/{name}", *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        first = self.process.stdout.readline()
        if first != b"ready\n":
            raise RuntimeError(f"{name}: {first.decode(errors='replace')}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def end(self, line=""):
        """Sends the last line, or just closes the input. Returns status and output."""
        output, _ = self.process.communicate(line.encode(), timeout=PROMPTLY)
        return self.process.returncode, output.decode(errors="replace")


class Words(Program):
    """A program that follows words: calling an instance with a word returns 0 or the errno."""

    def start(self, word):
        """Starts a call that may block."""
        self.process.stdin.write(f"{word}\n".encode())
        self.process.stdin.flush()

    def result(self):
        """The result of the call that was started."""
        return int(self.process.stdout.readline())

    def __call__(self, word):
        self.start(word)
        return self.result()


class Verbs(Words):
    """The program tests/device/verbs.c."""

    def __init__(self):
        super().__init__("verbs")

    def make(self):
        """Makes one object of each kind."""
        for word in ("reg", "cq", "qp", "init_qp", "mw"):
            if self(word):
                raise RuntimeError(f"verbs: {word} failed")


class Pager(Words):
    """The program tests/device/pager.c."""

    def __init__(self):
        super().__init__("pager")

    def moves(self, name):
        """A test point: a page is requested, and the data arrives in it."""
        errors = [self(word) for word in ("drop", "touch", "done")]
        guest.ok(not any(errors), f"{name}: a page is asked for, and data arrives", errors)


def address():
    """PCI address of the NIC."""
    return guest.functions()[0]


def debugfs(name):
    """The path of a file in the driver's debugfs directory."""
    return glob.glob(f"/sys/kernel/debug/moor/*/{name}")[0]


def counts():
    """What a test must leave as it was: pinned pages, context entries, objects of the core."""
    _, resources = guest.run("rdma", "resource")
    return {"pinned": guest.pinned_pages(),
            "context entries": len(guest.read(debugfs("mr")).splitlines()) - 1,
            "objects": resources.split("\n", 1)[0].partition(":")[2].strip()}


def leaves_nothing(before, name):
    """A test point: all counts return to @before, perhaps after a while."""
    now = {}

    def same():
        nonlocal now
        now = counts()
        return now == before

    guest.ok(guest.wait_for(same), f"{name}: nothing is left", f"{before} became {now}")


def status(word):
    """A number from the NIC's answer to "status"."""
    return int(dict(word.split("=") for word in guest.control("status").split())[word])


def fired():
    """How many faults of the control socket have struck."""
    return status("fired")


class Fault:
    """A fault of one command; it is armed when everything is prepared."""

    def __init__(self, rule):
        self.rule = rule
        self.before = None

    def arm(self):
        """Arms the fault."""
        self.before = fired()
        guest.control(self.rule)

    def struck(self):
        """Disarms it. Returns whether it has struck."""
        guest.control("clear")
        return fired() > self.before


def each_command(rule, attempt, known=None):
    """Applies the fault @rule to the first command of a call, then to the second, and so
    on. @attempt arms the fault that it is given and makes the call. Ends when the fault
    does not strike, or after @known commands. Returns the number of commands."""
    for nth in itertools.count() if known is None else range(known):
        fault = Fault(f"{rule} 1 after {nth}")
        attempt(fault)
        if not fault.struck():
            return nth
    return known


def has_bus_mastering(where):
    """Is Bus Master Enable set?"""
    with open(f"/sys/bus/pci/devices/{where}/config", "rb", buffering=0) as config:
        config.seek(4)
        return bool(int.from_bytes(config.read(2), "little") & 4)


def set_bus_mastering(where):
    """Sets Bus Master Enable behind the kernel's back."""
    with open(f"/sys/bus/pci/devices/{where}/config", "r+b", buffering=0) as config:
        config.seek(4)
        command = int.from_bytes(config.read(2), "little")
        config.seek(4)
        config.write((command | 4).to_bytes(2, "little"))


def dmesg_count(text):
    """How often the text is in the kernel's log."""
    return guest.run("dmesg")[1].count(text)


def bind(where, on):
    """Binds the NIC to the driver, or unbinds it. Returns whether that worked."""
    try:
        guest.write(f"{guest.DRIVER}/{'bind' if on else 'unbind'}", where)
    except OSError:
        return False
    return True


def recover(on):
    """Switches the driver's own recovery from a dead device on or off."""
    guest.write("/sys/module/moor/parameters/recover", "Y" if on else "N")


def rebind(where, name):
    """A test point: unbinds the NIC and binds it again, with all faults cleared."""
    guest.control("clear")
    guest.control("alive")
    guest.ok(bind(where, False) and bind(where, True) and guest.bring_up(),
             f"{name}: bound again it comes up")


def revive(where, name):
    """Test points: like rebind(), and the NIC then moves data."""
    rebind(where, name)
    guest.ok(*guest.moves_data(name))


def setup():
    """Bails out if there is no control socket. If the driver is loaded, switches its
    recovery off, so that a NIC that dies stays dead."""
    os.environ.setdefault("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    if not guest.control_port():
        print("Bail out! no control socket: boot with scripts/vm --control")
        raise SystemExit(1)
    guest.control("clear")
    if os.path.exists(guest.DRIVER):
        recover(False)
