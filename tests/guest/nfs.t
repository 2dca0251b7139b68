#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""NFS over RDMA with the kernel's own modules: a server and its client in one guest, by an
address of the NIC's own. The server has no other transport, so that nothing can fall back."""

import errno
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position
import storage  # pylint: disable=wrong-import-position
from guest import ADDRESS  # pylint: disable=wrong-import-position
from storage import MIB, PLACE  # pylint: disable=wrong-import-position

EXPORT = "/tmp/moor-export"
NFSD = "/proc/fs/nfsd"
OPTIONS = ("-t", "nfs", "-o", "proto=rdma,port=20049,vers=4.2")
SOURCE = f"{ADDRESS}:/"


def serve():
    """Test points: exports a folder, over RDMA alone."""
    os.makedirs(EXPORT)
    os.makedirs("/run/rpcbind", exist_ok=True)
    # The root is read-only, so the state of the server's programs is kept elsewhere.
    for command in (("mount", "-t", "tmpfs", "tmpfs", "/var/lib/nfs"),
                    ("touch", "/var/lib/nfs/etab", "/var/lib/nfs/rmtab"),
                    ("mkdir", "-p", "/var/lib/nfs/rpc_pipefs", "/var/lib/nfs/v4recovery"),
                    ("mount", "-t", "nfsd", "nfsd", NFSD),
                    ("rpcbind",),
                    ("exportfs", "-o", "rw,fsid=0,no_root_squash,insecure,no_subtree_check", f"{ADDRESS}:{EXPORT}"),
                    ("rpc.mountd", "-N", "3")):
        status, output = guest.run(*command)
        guest.ok(not status, " ".join(command), output)
    # No client has state to reclaim, so the server need not wait for the grace period.
    for limit in ("nfsv4leasetime", "nfsv4gracetime"):
        guest.write(f"{NFSD}/{limit}", "10\n")
    guest.write(f"{NFSD}/versions", "-3 +4 +4.2\n")
    guest.write(f"{NFSD}/portlist", "rdma 20049\n")
    guest.write(f"{NFSD}/threads", "4\n")
    ports = guest.read(f"{NFSD}/portlist").split("\n")
    guest.ok(ports[0].startswith("rdma 20049") and not any("tcp" in port for port in ports),
             "the server listens over RDMA alone", ports)
    # If the server has ended it itself, this fails as busy.
    try:
        guest.write(f"{NFSD}/v4_end_grace", "Y\n")
    except OSError as error:
        guest.ok(error.errno == errno.EBUSY, "the server's grace has ended", error)


def over_rdma():
    """A test point: the client's transport is RDMA, and its requests went that way."""
    wanted = guest.read("/proc/self/mountstats").partition(f"mounted on {PLACE} ")[2].partition("\ndevice ")[0]
    guest.ok("proto=rdma" in wanted and "xprt:\trdma" in wanted, "the mount is over RDMA", wanted)


def moves(length, name):
    """Test points: what the client writes is on the server, and the other way round."""
    ours, theirs = os.urandom(length), os.urandom(length)
    with open(f"{PLACE}/{name}.out", "wb") as file:
        file.write(ours)
        os.fsync(file.fileno())
    guest.ok(storage.beginning(f"{EXPORT}/{name}.out", length + 1) == ours,
             f"{name}: the server has what was written")
    with open(f"{EXPORT}/{name}.in", "wb") as file:
        file.write(theirs)
    guest.ok(storage.beginning(f"{PLACE}/{name}.in", length + 1) == theirs, f"{name}: the client reads what is there")


def names():
    """Test points: answers that do not fit into one message."""
    for i in range(500):
        with open(f"{EXPORT}/a file with quite a long name, number {i}", "wb"):
            pass
    guest.ok(sorted(os.listdir(PLACE)) == sorted(os.listdir(EXPORT)), "a long folder is listed")
    try:
        os.stat(f"{PLACE}/nothing")
        missing = False
    except FileNotFoundError:
        missing = True
    guest.ok(missing, "what is not there is not there")


def stop():
    """A test point: stops the server."""
    guest.write(f"{NFSD}/threads", "0\n")
    guest.run("exportfs", "-ua")
    guest.run("killall", "rpc.mountd", "rpcbind")
    guest.ok(guest.wait_for(lambda: "[rdma_cm]" not in guest.run("rdma", "resource", "show", "qp")[1]),
             "no QP is left", guest.run("rdma", "resource", "show", "qp")[1])


def main():
    """Runs the tests."""
    guest.needs("NFS over RDMA", "rpcrdma", "nfsd", "nfsv4")
    guest.load("rpcrdma", "nfsd", "nfsv4")
    guest.ok(guest.take_address(), f"the NIC has the address {ADDRESS}")
    serve()
    status, _ = guest.run("mount", *OPTIONS, f"{ADDRESS}:/nothing", "/mnt")
    guest.ok(status, "what is not exported is not mounted")
    if storage.mount(SOURCE, *OPTIONS):
        over_rdma()
        moves(100, "inline")
        moves(100 * 1000, "a chunk")
        moves(8 * MIB, "many chunks")
        names()
        storage.fill()
        storage.unmount()
        storage.mount(SOURCE, *OPTIONS)
        storage.still_there()
        storage.unmount()
    stop()
    guest.run("umount", NFSD)
    guest.unload("nfsv4", "nfsd")
    guest.unload("rpcrdma")
    guest.ok(*guest.moves_data("the NIC is there"))
    guest.done()


main()
