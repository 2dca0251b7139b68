#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""iSCSI extensions for RDMA with the kernel's own modules and open-iscsi: a target and its
host in one guest, by an address of the NIC's own. What is written is read again, also when
the NIC is reset while it is being written.

isert (up to 7.3) does not let a device's removal wait for a connection whose end had begun
before: ib_core then warns of a CQ that is in use, and isert uses what it has freed. So when the
NIC is reset a command is at the target's disk, which keeps that end until removal waits for it."""

import glob
import os
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position
import storage  # pylint: disable=wrong-import-position
from guest import ADDRESS  # pylint: disable=wrong-import-position
from storage import MIB  # pylint: disable=wrong-import-position

CONFIG = "/sys/kernel/config/target"
BACKING = f"{CONFIG}/core/fileio_0"
STORE = f"{BACKING}/moor"
NAME = "iqn.2026-11.example.moor:disk"
TARGET = f"{CONFIG}/iscsi/{NAME}"
GROUP = f"{TARGET}/tpgt_1"
LUN = f"{GROUP}/lun/lun_0"
# The listener is bound to no address: one that is bound to an address ends with the
# device that has it.
PORTAL = f"{GROUP}/np/0.0.0.0:3260"
# The target's disk is a file on a file system that can be frozen to keep writers waiting.
IMAGE = "/tmp/moor-image"
SHELF = "/tmp/moor-shelf"
DISK = f"{SHELF}/disk"
SIZE = 64 * MIB
OTHER = f"{NAME}.other"
MODULES = ("loop", "scsi_transport_iscsi", "sd_mod", "target_core_file", "ib_isert", "ib_iser")
FILES = "/var/lib/iscsi"
# Exit statuses of iscsiadm(8).
NO_SESSION = 21
# A state in /proc/net/tcp.
ESTABLISHED = "01"
HOST = sys.modules[__name__]


def make_target():
    """Sets up a target with a disk of 64 MiB, open to every initiator, by RDMA."""
    guest.mount_configfs()
    with open(IMAGE, "ab") as file:
        file.truncate(SIZE + SIZE // 2)
    guest.run("mkfs.ext4", "-q", "-F", IMAGE)
    os.makedirs(SHELF)
    status, output = guest.run("mount", "-o", "loop", IMAGE, SHELF)
    guest.ok(not status, "the target has a file system", output)
    with open(DISK, "ab") as file:
        file.truncate(SIZE)
    os.makedirs(STORE)
    guest.write(f"{STORE}/control", f"fd_dev_name={DISK},fd_dev_size={SIZE}")
    guest.write(f"{STORE}/enable", "1")
    os.makedirs(GROUP)
    os.makedirs(LUN)
    os.symlink(STORE, f"{LUN}/moor")
    os.makedirs(PORTAL)
    guest.write(f"{PORTAL}/iser", "1")
    for name, value in (("authentication", "0"), ("generate_node_acls", "1"), ("demo_mode_write_protect", "0")):
        guest.write(f"{GROUP}/attrib/{name}", value)
    guest.write(f"{GROUP}/enable", "1")


def target_threads():
    """Names of the initiators that the target has connections of, until it is done with each."""
    return [comm for comm in guest.run("ps", "-e", "-o", "comm=")[1].split() if comm.startswith("iscsi_t")]


def remove_target():
    """Test points: takes the target down, once no session uses it any more."""
    guest.ok(guest.wait_for(lambda: not target_threads()), "the target is done", target_threads())
    guest.write(f"{GROUP}/enable", "0")
    os.unlink(f"{LUN}/moor")
    for path in (LUN, PORTAL, GROUP, TARGET, f"{CONFIG}/iscsi", STORE, BACKING):
        os.rmdir(path)
    status, output = guest.run("umount", SHELF)
    guest.ok(not status, "the target has let go of its disk", output)


def start_daemon():
    """A test point: starts the host's daemon, with its files in a writable place."""
    guest.run("mount", "-t", "tmpfs", "tmpfs", FILES)
    os.makedirs("/run/lock", exist_ok=True)
    # The daemon's process group is killed as a whole. With our output it would keep run-guest
    # waiting if this test is killed.
    daemon = subprocess.Popen(["iscsid", "-f"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, start_new_session=True)
    guest.ok(guest.wait_for(lambda: "ISCSIADM_ABSTRACT" in guest.read("/proc/net/unix")), "iscsid is there")
    return daemon


def stop_daemon(daemon):
    """Ends the daemon, and removes its files."""
    daemon.terminate()
    daemon.wait()
    guest.run("umount", FILES)


def discover():
    """Discovers the targets at the address: status and output."""
    return guest.run("iscsiadm", "-m", "discovery", "-t", "sendtargets", "-p", ADDRESS, "-I", "iser")


def node(*options, name=NAME):
    """Runs iscsiadm for a target: status and output."""
    return guest.run("iscsiadm", "-m", "node", "-T", name, "-p", ADDRESS, *options)


def connect():
    """The host logs in: 0 or what iscsiadm says."""
    return node("--login")[0]


def disks():
    """The block devices of the host's end."""
    return glob.glob("/sys/class/iscsi_session/session*/device/target*/*/block/*")


def disk():
    """The host's block device, once it exists."""
    found = guest.wait_for(lambda: any(os.path.exists(f"/dev/{os.path.basename(path)}") for path in disks()))
    return f"/dev/{os.path.basename(disks()[0])}" if found else ""


def held():
    """What kernel clients hold on NICs. CQs belong to ib_core, which lends and keeps them."""
    return [f"{kind}: {line}" for kind in ("cm_id", "qp", "cq", "mr", "pd")
            for line in guest.run("rdma", "resource", "show", kind)[1].splitlines()
            if line.strip() and "[ib_core]" not in line]


def complaints():
    """Lines in the kernel's log of either end, the NIC's driver and the core's accounting."""
    return [line for line in guest.run("dmesg")[1].splitlines()
            if any(who in line for who in ("iser: ", "isert: ", "moor 0000:", "restrack: "))]


def discovered():
    """Test points: discovery finds nothing at first, and the target once it exists."""
    status, output = discover()
    guest.ok(status and "connection failure" in output, "nobody listens: nothing is discovered", output)
    make_target()
    # The host's daemon may answer the login's end before libiscsi is done with the login: then
    # libiscsi refuses the next request, and iscsiadm says so and tries again.
    status, output = discover()
    said = [line for line in output.splitlines() if not line.startswith("iscsiadm: ")]
    guest.ok(status == 0 and said == [f"{ADDRESS}:3260,1 {NAME}"], "the target is discovered", output)


def refused():
    """A test point: logging in to an unknown target is refused by the target."""
    word = f"Unable to locate Target IQN: {OTHER}"
    said = guest.run("dmesg")[1].count(word)
    node("-I", "iser", "-o", "new", name=OTHER)
    # iscsiadm would retry for two minutes.
    for setting, value in (("session.initial_login_retry_max", "1"), ("conn[0].timeo.login_timeout", "5")):
        node("-o", "update", "-n", f"node.{setting}", "-v", value, name=OTHER)
    status, output = node("--login", name=OTHER)
    guest.ok(status and len(disks()) == 1 and guest.run("dmesg")[1].count(word) > said,
             "a target that there is not is refused", f"{status}: {output}")
    node("-o", "delete", name=OTHER)


def over_rdma():
    """Test points: the session is one of iSER, and its RDMA objects are on the NIC."""
    output = guest.run("iscsiadm", "-m", "session")[1]
    sockets = [line.split() for line in guest.read("/proc/net/tcp").splitlines()[1:]]
    guest.ok(output.startswith("iser: ") and len(output.splitlines()) == 1, "the session is iSER's", output)
    guest.ok(not [1 for socket in sockets if socket[1].endswith(":0CBC") and socket[3] == ESTABLISHED],
             "and nobody talks to the target by TCP", sockets)
    what = held()
    guest.ok(sum(line.startswith("qp: ") for line in what) == 2 and
             any(line.startswith("mr: ") and "[ib_iser]" in line for line in what),
             "both ends have a QP, the host has MRs", "\n".join(what))


def sleeps_in(what, frames=None):
    """Does a thread sleep in a function or module, among its innermost FRAMES (all)?"""
    for path in glob.glob("/proc/[0-9]*/task/[0-9]*/stack"):
        try:
            if any(what in line for line in guest.read(path).splitlines()[:frames]):
                return True
        except OSError:
            continue
    return False


def reset():
    """Test points: the NIC is reset while the target's disk is busy; then the target can be
    reached."""
    guest.run("fsfreeze", "--freeze", SHELF)
    guest.ok(guest.wait_for(lambda: sleeps_in("[target_core_file]")), "reset: a command waits at the target's disk")
    thread = threading.Thread(target=guest.reset)
    thread.start()
    guest.ok(guest.wait_for(lambda: sleeps_in("isert_cma_handler", 1)), "reset: the NIC waits for the target")
    guest.run("fsfreeze", "--unfreeze", SHELF)
    thread.join()
    guest.ok(guest.take_address(), "reset: the NIC has its address again")


def logout():
    """The host logs out. Returns 0 or iscsiadm's status."""
    return node("--logout")[0]


def sessions():
    """Test points: what the host's end goes through while its daemon runs."""
    discovered()
    said = complaints()
    guest.ok(connect() == 0, "logged in")
    if guest.ok(disk(), "there is a disk"):
        over_rdma()
        storage.moves(disk(), DISK, 16 * MIB, 131072)
        storage.moves(disk(), DISK, 2 * MIB, 4096)
        storage.file_system(disk())
        guest.ok(complaints() == said, "nobody complains", "\n".join(complaints()))
        refused()
        storage.breaks("logging out", HOST, SIZE // 2, logout, lambda: None)
        storage.survives("reset", disk(), DISK, SIZE // 2, reset)
        storage.moves(disk(), DISK, 4 * MIB, 65536)
        over_rdma()
        guest.ok(logout() == 0 and guest.wait_for(lambda: not disks()), "logged out")
    guest.ok(logout() == NO_SESSION, "who is not logged in cannot log out")


def main():
    """Runs the tests."""
    guest.needs("iSER", *MODULES)
    guest.load(*MODULES)
    guest.ok(guest.take_address(), f"the NIC has the address {ADDRESS}")
    guest.ok(not held(), "no kernel user has anything", "\n".join(held()))
    daemon = start_daemon()
    try:
        sessions()
    finally:
        stop_daemon(daemon)
    remove_target()
    guest.unload("ib_iser", "libiscsi", "scsi_transport_iscsi", "sd_mod")
    # The core has loaded drivers for all kinds of disks.
    guest.unload("ib_isert", "iscsi_target_mod",
                 *(f"target_core_{part}" for part in ("iblock", "file", "pscsi", "user", "mod")))
    guest.ok(guest.wait_for(lambda: not held()), "nothing is left", "\n".join(held()))
    guest.ok(*guest.moves_data("the NIC is there"))
    guest.done()


main()
