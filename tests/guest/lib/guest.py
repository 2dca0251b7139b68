# SPDX-License-Identifier: GPL-2.0
"""Shared by tests written in Python: TAP, the NIC in sysfs, the driver."""

import glob
import os
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
PROGRAMS = os.environ.get("MOOR_TEST_PROGRAMS", f"{TOP}/build/tests")
MODULE = f"{TOP}/build/modules/{os.uname().release}/moor.ko"
DRIVER = "/sys/bus/pci/drivers/moor"
ADDRESS = "192.0.2.9"
GID = "ffff:c000:0209"
PATIENCE = int(os.environ.get("MOOR_TEST_PATIENCE", "1"))
_points = []


def ok(passed, name, detail=""):
    """A test point."""
    _points.append(bool(passed))
    print(f"{'ok' if passed else 'not ok'} {len(_points)} - {name}")
    if not passed and detail:
        for line in str(detail).splitlines():
            print(f"# {line}")
    sys.stdout.flush()
    return passed


def skip(name, reason):
    """A test point that is skipped."""
    _points.append(True)
    print(f"ok {len(_points)} - {name} # SKIP {reason}", flush=True)


def needs(what, *modules):
    """Ends the test, skipped, on a kernel that lacks a module."""
    for module in modules:
        if run("modprobe", "--dry-run", module)[0]:
            print(f"1..0 # SKIP this kernel has no {what}: it is built without {module}")
            sys.exit(0)


def load(*modules):
    """A test point: loads modules of the kernel's own."""
    status, output = run("modprobe", "-a", *modules)
    return ok(not status, f"loaded: {' '.join(modules)}", output)


def unload(*modules):
    """A test point: unloads them."""
    status, output = run("modprobe", "-r", *modules)
    return ok(not status, f"gone: {' '.join(modules)}", output)


def plan():
    """Prints the plan."""
    print(f"1..{len(_points)}", flush=True)


def done():
    """Prints the plan and ends the program."""
    plan()
    sys.exit(0 if all(_points) else 1)


def read(path):
    """Text of a file in sysfs or procfs."""
    with open(path, encoding="ascii") as file:
        return file.read()


def write(path, text):
    """Writes to a file in sysfs or procfs, unbuffered: closing a buffered file would retry."""
    with open(path, "wb", buffering=0) as file:
        file.write(text.encode("ascii"))


def mount_configfs():
    """Mounts configfs, by which kernel clients are configured."""
    if not os.path.ismount("/sys/kernel/config"):
        run("mount", "-t", "configfs", "none", "/sys/kernel/config")


def wait_for(condition, seconds=20):
    """Waits until condition() is true; False if it does not become so."""
    end = time.monotonic() + seconds * PATIENCE
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def run(*command):
    """Runs a program to its end: status and output."""
    done_ = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, check=False)
    return done_.returncode, done_.stdout.decode(errors="replace")


def control_port(nic=0):
    """The device file of a NIC's control socket, or None without --control."""
    for path in glob.glob("/sys/class/virtio-ports/*/name"):
        if read(path).strip() == f"moor.control.{nic}":
            return "/dev/" + os.path.basename(os.path.dirname(path))
    return None


def control(command, nic=0):
    """Sends a command to a NIC (moor-nic(1), CONTROL SOCKET). Returns the answer without
    "ok".

    A refused command is a mistake of the test: an exception.
    """
    with open(control_port(nic), "r+b", buffering=0) as port:
        port.write(command.encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            answer += port.read(4096)
    answer = answer.decode().strip()
    if not answer.startswith("ok"):
        raise RuntimeError(f"{command}: {answer}")
    return answer[2:].strip()


def has_iommu():
    """Does an IOMMU stand between the NIC and memory?"""
    return bool(glob.glob("/sys/class/iommu/*"))


def functions():
    """PCI addresses of the functions bound to the driver."""
    return sorted(os.path.basename(path) for path in glob.glob(f"{DRIVER}/*:*"))


def reset():
    """Resets the first NIC."""
    write(f"/sys/bus/pci/devices/{functions()[0]}/reset", "1")


def ready():
    """Has the NIC a RoCE v2 GID?"""
    for path in glob.glob("/sys/class/infiniband/moor*/ports/1/gid_attrs/types/*"):
        try:
            if read(path).strip() == "RoCE v2":
                return True
        except OSError:
            continue
    return False


def has_link():
    """Does the network stack see a carrier on all interfaces of NICs? Without one it routes
    nothing over them."""
    return all(read(path).strip() == "up" for path in glob.glob(f"{DRIVER}/*:*/net/*/operstate"))


def bring_up():
    """Brings the NIC's interfaces up and waits for GIDs and routes."""
    for path in glob.glob(f"{DRIVER}/*:*/net/*"):
        subprocess.run(["ip", "link", "set", os.path.basename(path), "up"], check=True)
    return wait_for(lambda: ready() and has_link())


def take_address():
    """Gives the NIC's interface ADDRESS; True when the core knows it."""
    netdev = os.path.basename(glob.glob(f"{DRIVER}/*:*/net/*")[0])
    return bring_up() and \
        not run("ip", "addr", "replace", f"{ADDRESS}/24", "dev", netdev)[0] and \
        wait_for(lambda: any(GID in read(path) for path in
                             glob.glob("/sys/class/infiniband/moor*/ports/1/gids/*")))


def moves_data(name):
    """Arguments for ok(): does the NIC move data?"""
    status, output = run(f"{PROGRAMS}/test_wr")
    return status == 0, f"{name}: and moves data", output


def pinned_pages():
    """The number of pages pinned now."""
    read("/proc/sys/vm/stat_refresh")
    counts = dict(line.split() for line in read("/proc/vmstat").splitlines())
    return int(counts["nr_foll_pin_acquired"]) - int(counts["nr_foll_pin_released"])


def slab_bytes():
    """Bytes in use by each slab cache."""
    for path in glob.glob("/sys/kernel/slab/*/shrink"):
        try:
            write(path, "1")
        except OSError:
            continue
    caches = {}
    for line in read("/proc/slabinfo").splitlines()[2:]:
        name, active, _, size = line.split()[:4]
        caches[name] = int(active) * int(size)
    return caches
