# SPDX-License-Identifier: GPL-2.0
"""What tests of a broken device share: programs to drive, and what must not be left."""

import glob
import itertools
import os
import subprocess

import guest

PROMPTLY = 60  # seconds; a hang is what is looked for, not slowness
EIO = 5

# HWI CMD-8 to CMD-16, and what a status is that there is not.
STATUSES = {"BAD_OPCODE": 95, "BAD_RESERVED": 22, "BAD_PARAM": 22, "BAD_INDEX": 22,
            "BAD_STATE": 22, "BUSY": 16, "NO_RESOURCE": 12, "DMA_FAULT": 14, "0xa5": EIO}


class Program:
    """A process that is told what to do, and that nothing may kill or hang."""

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
        """Tells it the last thing, or just closes its input: status and output."""
        output, _ = self.process.communicate(line.encode(), timeout=PROMPTLY)
        return self.process.returncode, output.decode(errors="replace")


class Words(Program):
    """Does things one by one: an instance called with a word gives 0 or the errno."""

    def start(self, word):
        """Begins a call that may block."""
        self.process.stdin.write(f"{word}\n".encode())
        self.process.stdin.flush()

    def result(self):
        """What became of it."""
        return int(self.process.stdout.readline())

    def __call__(self, word):
        self.start(word)
        return self.result()


class Verbs(Words):
    """Calls verbs."""

    def __init__(self):
        super().__init__("verbs")

    def make(self):
        """One of each object."""
        for word in ("reg", "cq", "qp", "init_qp", "mw"):
            if self(word):
                raise RuntimeError(f"verbs: {word} failed")


class Pager(Words):
    """Uses memory that is paged on demand."""

    def __init__(self):
        super().__init__("pager")

    def moves(self, name):
        """A test point: a page is asked for, and data is there."""
        errors = [self(word) for word in ("drop", "touch", "done")]
        guest.ok(not any(errors), f"{name}: a page is asked for, and data arrives", errors)


def address():
    """PCI address of the NIC."""
    return guest.functions()[0]


def debugfs(name):
    """A file of the driver's in debugfs."""
    return glob.glob(f"/sys/kernel/debug/moor/*/{name}")[0]


def counts():
    """What a test may not leave more of: pages, MRs that the driver has, objects of the core."""
    _, resources = guest.run("rdma", "resource")
    return {"pinned": guest.pinned_pages(),
            "context entries": len(guest.read(debugfs("mr")).splitlines()) - 1,
            "objects": resources.split("\n", 1)[0].partition(":")[2].strip()}


def leaves_nothing(before, name):
    """A test point: everything is let go, if not at once."""
    now = {}

    def same():
        nonlocal now
        now = counts()
        return now == before

    guest.ok(guest.wait_for(same), f"{name}: nothing is left", f"{before} became {now}")


def status(word):
    """One of the numbers in the NIC's status."""
    return int(dict(word.split("=") for word in guest.control("status").split())[word])


def fired():
    """How often the NIC did what it was asked for."""
    return status("fired")


class Fault:
    """What is to go wrong with one command; it is armed when all is ready for that."""

    def __init__(self, rule):
        self.rule = rule
        self.before = None

    def arm(self):
        """From now on."""
        self.before = fired()
        guest.control(self.rule)

    def struck(self):
        """Has it come to pass? From now on it does not."""
        guest.control("clear")
        return fired() > self.before


def each_command(rule, attempt, known=None):
    """Lets the first command go wrong as @rule says, then the second ... until @attempt,
    which arms the fault that it is given, has no more; or as many as are @known to be
    there. Returns how many there are."""
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
    """How often the kernel has said something."""
    return guest.run("dmesg")[1].count(text)


def bind(where, on):
    """Gives the NIC to the driver, or takes it away: whether that worked."""
    try:
        guest.write(f"{guest.DRIVER}/{'bind' if on else 'unbind'}", where)
    except OSError:
        return False
    return True


def recover(on):
    """Is the driver to recover from a death by itself?"""
    guest.write("/sys/module/moor/parameters/recover", "Y" if on else "N")


def rebind(where, name):
    """Binds the NIC again."""
    guest.control("clear")
    guest.control("alive")
    guest.ok(bind(where, False) and bind(where, True) and guest.bring_up(),
             f"{name}: bound again it comes up")


def revive(where, name):
    """The same, after which it has to work."""
    rebind(where, name)
    guest.ok(*guest.moves_data(name))


def setup():
    """Bails out where there is no control socket. A NIC that dies stays dead, if there is
    a driver already that would recover it."""
    os.environ.setdefault("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    if not guest.control_port():
        print("Bail out! no control socket: boot with scripts/vm --control")
        raise SystemExit(1)
    guest.control("clear")
    if os.path.exists(guest.DRIVER):
        recover(False)
