#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""NVMe over RDMA with the kernel's own modules: a target and its host in one guest, by an
address of the NIC's own. What is written is read again, also when the device leaves while
it is being written."""

import errno
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position

ADDRESS = "192.0.2.9"
CONFIG = "/sys/kernel/config/nvmet"
SUBSYSTEM = f"{CONFIG}/subsystems/moor"
PORT = f"{CONFIG}/ports/1"
DISK = "/tmp/moor-disk"
MIB = 1 << 20
SIZE = 64 * MIB
HOST = "11111111-2222-3333-4444-555555555555"


def address():
    """Gives the NIC's interface its address; True when the core knows it."""
    netdev = os.path.basename(glob.glob(f"{guest.DRIVER}/*:*/net/*")[0])
    return guest.bring_up() and \
        not guest.run("ip", "addr", "replace", f"{ADDRESS}/24", "dev", netdev)[0] and \
        guest.wait_for(lambda: any("ffff:c000:0209" in guest.read(path) for path in
                                   glob.glob("/sys/class/infiniband/moor*/ports/1/gids/*")))


def make_target():
    """A namespace of 64 MiB that anybody may use, at the NIC's address."""
    if not os.path.isdir("/sys/kernel/config/nvmet"):
        guest.run("mount", "-t", "configfs", "none", "/sys/kernel/config")
    with open(DISK, "ab") as file:
        file.truncate(SIZE)
    os.makedirs(f"{SUBSYSTEM}/namespaces/1")
    guest.write(f"{SUBSYSTEM}/attr_allow_any_host", "1")
    guest.write(f"{SUBSYSTEM}/namespaces/1/device_path", DISK)
    guest.write(f"{SUBSYSTEM}/namespaces/1/enable", "1")
    os.makedirs(PORT)
    for name, value in (("traddr", ADDRESS), ("trtype", "rdma"), ("trsvcid", "4420"), ("adrfam", "ipv4")):
        guest.write(f"{PORT}/addr_{name}", value)
    os.symlink(SUBSYSTEM, f"{PORT}/subsystems/moor")


def remove_target():
    """All of it away but the disk."""
    os.unlink(f"{PORT}/subsystems/moor")
    os.rmdir(PORT)
    guest.write(f"{SUBSYSTEM}/namespaces/1/enable", "0")
    os.rmdir(f"{SUBSYSTEM}/namespaces/1")
    os.rmdir(SUBSYSTEM)


def connect(name="moor", port=4420):
    """Connects to a subsystem: 0 or an errno."""
    try:
        guest.write("/dev/nvme-fabrics",
                    f"transport=rdma,traddr={ADDRESS},trsvcid={port},nqn={name},hostnqn=moor-host,hostid={HOST},"
                    "reconnect_delay=1,ctrl_loss_tmo=120")
    except OSError as error:
        return error.errno
    return 0


def disks():
    """The block devices of the host's end."""
    return glob.glob("/dev/nvme[0-9]n1")


def disk():
    """Its block device, once it is there."""
    return disks()[0] if guest.wait_for(disks) else ""


def on_disk(length):
    """What the target has."""
    with open(DISK, "rb") as file:
        return file.read(length)


def write_disk(data, block):
    """Writes past the page cache, as dd does it; the process."""
    with open("/tmp/moor-data", "wb") as file:
        file.write(data)
    return subprocess.Popen(["dd", "if=/tmp/moor-data", f"of={disk()}", f"bs={block}", "oflag=direct",
                             "conv=fsync", "status=none"], stdin=subprocess.DEVNULL)


def read_disk(length, block):
    """What is there, past the page cache."""
    return subprocess.run(["dd", f"if={disk()}", f"bs={block}", f"count={length // block}", "iflag=direct",
                           "status=none"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False).stdout


def moves(length, block, name):
    """Test points: what is written is read again."""
    data = os.urandom(length)
    guest.ok(write_disk(data, block).wait() == 0, f"{name}: written")
    guest.ok(read_disk(length, block) == data, f"{name}: the same is read")
    guest.ok(on_disk(length) == data, f"{name}: the target has it")


def leaves():
    """
    The device leaves while data is on its way. The kernel's host ends its connections
    then: what was not written is an error, what was is there when it connects anew.
    """
    function = guest.functions()[0]
    data = os.urandom(32 * MIB)
    writer = write_disk(data, 65536)
    guest.wait_for(lambda: on_disk(MIB) == data[:MIB])
    on_its_way = writer.poll() is None
    guest.write(f"/sys/bus/pci/devices/{function}/reset", "1")
    guest.ok(on_its_way, "reset: data was on its way")
    guest.ok(writer.wait() != 0, "reset: who writes is told")
    guest.ok(guest.wait_for(lambda: not disks()), "reset: the disk is gone")
    guest.ok(address(), "reset: the NIC has its address again")
    remove_target()
    make_target()
    guest.ok(guest.wait_for(lambda: connect() == 0, 60), "reset: connected anew, to a port made anew")
    guest.ok(disk() and read_disk(MIB, 131072) == data[:MIB], "reset: what was written is there")


def main():
    """All of it."""
    if guest.run("modprobe", "--dry-run", "nvmet-rdma")[0]:
        print("1..0 # SKIP this kernel has no NVMe over RDMA: the debug and KCSAN kernels are built without it")
        return
    for module in ("nvmet", "nvmet-rdma", "nvme-rdma"):
        status, output = guest.run("modprobe", module)
        guest.ok(not status, f"{module} is loaded", output)
    guest.ok(address(), f"the NIC has the address {ADDRESS}")
    guest.ok(connect() == errno.ECONNRESET, "nobody listens: ECONNRESET")
    make_target()
    guest.ok(connect("other") != 0, "a subsystem that there is not is refused")
    guest.ok(connect() == 0, "connected")
    guest.ok(disk(), "there is a disk")
    moves(16 * MIB, 131072, "blocks of 128 KiB")
    moves(2 * MIB, 4096, "blocks of 4 KiB")
    leaves()
    moves(4 * MIB, 65536, "after that")
    guest.write(glob.glob("/sys/class/nvme/nvme[0-9]/delete_controller")[0], "1")
    guest.ok(guest.wait_for(lambda: not disks()), "disconnected")
    remove_target()
    status, output = guest.run("modprobe", "-r", "nvme-rdma", "nvmet-rdma")
    guest.ok(not status, "the modules go", output)
    guest.ok(*guest.moves_data("the NIC is there"))
    guest.done()


main()
