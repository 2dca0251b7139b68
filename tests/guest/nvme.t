#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""NVMe over RDMA with the kernel's own modules: a target and its host in one guest, by an
address of the NIC's own. What is written is read again, also when the device leaves while
it is being written."""

import errno
import glob
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position
import storage  # pylint: disable=wrong-import-position
from guest import ADDRESS  # pylint: disable=wrong-import-position
from storage import MIB  # pylint: disable=wrong-import-position

CONFIG = "/sys/kernel/config/nvmet"
SUBSYSTEM = f"{CONFIG}/subsystems/moor"
PORT = f"{CONFIG}/ports/1"
LISTENS = f"{PORT}/subsystems/moor"
DISK = "/tmp/moor-disk"
SIZE = 64 * MIB
HOST = "11111111-2222-3333-4444-555555555555"


def make_target():
    """Sets up a namespace of 64 MiB, open to every host, at the NIC's address."""
    guest.mount_configfs()
    with open(DISK, "ab") as file:
        file.truncate(SIZE)
    os.makedirs(f"{SUBSYSTEM}/namespaces/1")
    guest.write(f"{SUBSYSTEM}/attr_allow_any_host", "1")
    guest.write(f"{SUBSYSTEM}/namespaces/1/device_path", DISK)
    guest.write(f"{SUBSYSTEM}/namespaces/1/enable", "1")
    os.makedirs(PORT)
    for name, value in (("traddr", ADDRESS), ("trtype", "rdma"), ("trsvcid", "4420"), ("adrfam", "ipv4")):
        guest.write(f"{PORT}/addr_{name}", value)
    os.symlink(SUBSYSTEM, LISTENS)


def remove_target():
    """Takes the target down, but not its disk."""
    os.unlink(LISTENS)
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
    """The host's block device, once it exists."""
    return disks()[0] if guest.wait_for(disks) else ""


def delete():
    """The host disconnects."""
    guest.write(glob.glob("/sys/class/nvme/nvme[0-9]/delete_controller")[0], "1")


def disconnect():
    """A test point: disconnects, and no block device is left."""
    delete()
    guest.ok(guest.wait_for(lambda: not disks()), "disconnected")


def listens_anew():
    """Has the target end its connections and listen again."""
    os.unlink(LISTENS)
    os.symlink(SUBSYSTEM, LISTENS)


def after_reset():
    """
    The kernel's target forgets to listen where its device leaves (nvmet_rdma_device_removal()
    of 6.12 and 7.3 repairs ports whose address changes, no others): the port is made anew.
    """
    guest.ok(guest.take_address(), "reset: the NIC has its address again")
    remove_target()
    make_target()


def main():
    """Runs the tests."""
    guest.needs("NVMe over RDMA", "nvmet-rdma", "nvme-rdma")
    guest.load("nvmet", "nvmet-rdma", "nvme-rdma")
    guest.ok(guest.take_address(), f"the NIC has the address {ADDRESS}")
    guest.ok(connect() == errno.ECONNRESET, "nobody listens: ECONNRESET")
    make_target()
    guest.ok(connect("other") != 0, "a subsystem that there is not is refused")
    guest.ok(connect() == 0, "connected")
    guest.ok(disk(), "there is a disk")
    storage.moves(disk(), DISK, 16 * MIB, 131072)
    storage.moves(disk(), DISK, 2 * MIB, 4096)
    storage.file_system(disk())
    storage.survives("the target leaves", disk(), DISK, SIZE // 2, listens_anew)
    host = sys.modules[__name__]
    storage.breaks("disconnecting", host, SIZE // 2, delete, lambda: None)
    storage.breaks("reset", host, SIZE // 2, guest.reset, after_reset)
    storage.moves(disk(), DISK, 4 * MIB, 65536)
    disconnect()
    remove_target()
    guest.unload("nvme-rdma", "nvmet-rdma")
    guest.ok(*guest.moves_data("the NIC is there"))
    guest.done()


main()
