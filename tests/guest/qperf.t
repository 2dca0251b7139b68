#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""Debian's qperf, server and client in one guest, connected by rdma_cm (-cm1). Its tests of
RC run that way, all of them; it checks the results of atomics (ver_*) itself.

Its tests of UC and UD know no rdma_cm, and neither does RC without -cm1: they address the
peer by its LID, without a GRH. RoCE has no LIDs, and the core refuses the address before
any driver sees it (rdma_check_ah_attr() in drivers/infiniband/core/verbs.c). So what has
to be shown of those is that rxe, too, says the same. Debian's build has no XRC at all.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position
from guest import ADDRESS  # pylint: disable=wrong-import-position

SECONDS = 5 * guest.PATIENCE
FIRST_PORT = 19765
BY_CM = (("rc_bw", "-ar1"), ("rc_lat",), ("rc_lat", "-m", "4K", "-cp1"), ("rc_bi_bw",), ("rc_rdma_read_bw",),
         ("rc_rdma_read_lat",), ("rc_rdma_write_bw", "-m", "1M"), ("rc_rdma_write_lat",),
         ("rc_rdma_write_poll_lat",), ("rc_compare_swap_mr",), ("rc_fetch_add_mr",), ("ver_rc_compare_swap",),
         ("ver_rc_fetch_add",))
# One of each kind: they differ in what they send, and do not get there.
BY_LID = ("rc_bw", "uc_bw", "uc_rdma_write_lat", "ud_bw")
RESULT = re.compile(r"^ +(?:bw|latency|msg_rate) += +([0-9.,]+) ", re.MULTILINE)
# Whoever is first says it, and the client passes on what the server says, if there is time.
REFUSED = re.compile(r"^(?:server: )?(failed to (?:modify|create) .*)$", re.MULTILINE)


def listens(port):
    """Does a process listen at the port?"""
    wanted = re.compile(f":{port:04X} 0+:0000 0A ")
    return any(wanted.search(guest.read(f"/proc/net/{table}")) for table in ("tcp", "tcp6"))


def measure(port, *arguments):
    """Runs a server and its client for one test: the client's status, and both outputs."""
    with tempfile.TemporaryFile() as said, \
         subprocess.Popen(["qperf", "-lp", str(port)], stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                          start_new_session=True) as server:
        # Otherwise the client's first try fails, and the next is a second later.
        guest.wait_for(lambda: listens(port))
        status, output = guest.run("timeout", str(6 * SECONDS), "qperf", ADDRESS, "-lp", str(port),
                                   "-to", str(SECONDS), "-t", "1", *arguments)
        # The server has forked a child for its client.
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        said.seek(0)
        return status, output + said.read().decode(errors="replace")


def by_cm(port):
    """Test points: the test runs and counts something; an unknown test fails."""
    for arguments in BY_CM:
        port += 1
        status, output = measure(port, "-cm1", *arguments)
        found = RESULT.search(output)
        guest.ok(not status and found and float(found.group(1).replace(",", "")) > 0, " ".join(arguments), output)
    status, output = measure(port + 1, "-cm1", "rc_nothing")
    guest.ok(status and not RESULT.search(output), "a test that there is not fails", output)
    return port + 1


def refusal(port, device, name):
    """What qperf says of a peer addressed by LID; empty if it succeeds."""
    status, output = measure(port, "-i", device, name)
    found = REFUSED.search(output)
    return found.group(1) if status and found else ""


def by_lid(port):
    """Test points: tests that address by LID fail in the same words on Moor and on rxe."""
    for name in BY_LID:
        said = [refusal(port + 1 + i, device, name) for i, device in enumerate(("moor0", "rxe0"))]
        port += 2
        guest.ok(said[0] and said[0] == said[1], f"{name}, by LID: refused, over rxe too: {said[0]}", said)


def beside_rxe(port):
    """The tests that RoCE cannot have, over Moor and over rxe."""
    if guest.run("modprobe", "--dry-run", "rdma_rxe")[0]:
        guest.skip("UC, UD and RC by LID", "this kernel has no rxe to compare with")
        return
    guest.load("rdma_rxe")
    status, output = guest.run("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "lo")
    guest.ok(not status, "there is a rxe0", output)
    by_lid(port)
    guest.run("rdma", "link", "delete", "rxe0")
    guest.unload("rdma_rxe")


def main():
    """Runs the tests."""
    guest.ok(guest.take_address(), f"the NIC has the address {ADDRESS}")
    beside_rxe(by_cm(FIRST_PORT))
    guest.ok(guest.wait_for(lambda: "qperf" not in guest.run("rdma", "resource", "show", "qp")[1]),
             "no QP is left", guest.run("rdma", "resource", "show", "qp")[1])
    guest.ok(*guest.moves_data("the NIC is there"))
    guest.done()


main()
