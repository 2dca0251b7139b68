# SPDX-License-Identifier: GPL-2.0
"""What figures are taken of, in the guest: the NIC, and software RDMA beside it."""

import csv
import glob
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, f"{TOP}/tests/guest/lib")
import guest  # pylint: disable=wrong-import-position
import verbs  # pylint: disable=wrong-import-position

MOOR, RXE = "moor0", "rxe0"
SORT = ("what", "kind", "size", "of", "whose", "took")


def add_rxe(name=RXE, netdev="rxe-net", address="192.0.2.1", mtu=1500):
    """Software RDMA on a network device of its own."""
    if os.path.exists(f"/sys/class/infiniband/{name}"):
        return
    for command in (["modprobe", "rdma_rxe"],
                    ["ip", "link", "add", netdev, "mtu", str(mtu), "type", "dummy"],
                    ["ip", "addr", "replace", f"{address}/24", "dev", netdev],
                    ["ip", "link", "set", netdev, "up"],
                    ["rdma", "link", "add", name, "type", "rxe", "netdev", netdev]):
        status, output = guest.run(*command)
        if status:
            sys.exit(f"{' '.join(command)}: {output}")


def prepare(most):
    """Sets up what programs of tests/perf need: huge pages for that many bytes, the test
    module, rxe."""
    # Until it is seeded, the kernel's random generator takes 9,400 instructions for a
    # byte, and each of rxe's keys has a random byte.
    os.getrandom(1)
    add_rxe()
    guest.write("/proc/sys/vm/nr_hugepages", str((most >> 21) + 4))
    if not verbs.load():
        sys.exit("the test module cannot be loaded")


def gid(device):
    """The index of its first RoCE v2 GID."""
    types = glob.glob(f"/sys/class/infiniband/{device}/ports/1/gid_attrs/types/*")
    for path in sorted(types, key=lambda path: int(os.path.basename(path))):
        try:
            if guest.read(path).strip() == "RoCE v2":
                return os.path.basename(path)
        except OSError:
            continue
    return sys.exit(f"{device} has no RoCE v2 GID")


def listens(port):
    """Does a process listen on a TCP port?"""
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(path, encoding="ascii") as file:
            if re.search(rf":{port:04X} \S+:0000 0A", file.read()):
                return True
    return False


def program(name, *arguments):
    """Yields the lines that a program of tests/perf prints, as dictionaries."""
    command = [f"{guest.PROGRAMS}/{name}", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield from csv.DictReader(process.stdout, SORT)
    if process.returncode:
        sys.exit(f"{name}: status {process.returncode}")


def module(device):
    """Figures of fast registration and of rdma_rw, from the module of tests/kernel."""
    for test in ("figures", "rw_figures"):
        for line in verbs.run(test, device):
            found = re.match(r"# figure (\w+) calls (\d+) elapsed (\d+)", line)
            for which, took in zip(("calls", "elapsed"), found.groups()[1:] if found else ()):
                yield dict(zip(SORT, (f"{found.group(1)}: {which}", "", "0", "", device, took)))
            if line.startswith("not ok"):
                print(f"{device}: {line}", file=sys.stderr)
