#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""rdma-core's own programs that connect by rdma_cm, and perftest's with -R, unchanged: both
ends in one guest, by an address of the NIC's own. And the device leaves while there is a
connection: its owner is told, and nothing blocks."""

import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import connected  # pylint: disable=wrong-import-position
import guest  # pylint: disable=wrong-import-position

ADDRESS = "192.0.2.9"
GROUP = "239.1.2.3"
LIMIT = 60
TRIES = 5
TRACE = "/proc/sys/debug/exception-trace"

# Arguments of a server and its client.
PROGRAMS = (
    (["rping", "-s", "-a", ADDRESS, "-C", "50", "-S", "1000", "-V"],
     ["rping", "-c", "-a", ADDRESS, "-C", "50", "-S", "1000", "-V"]),
    (["rping", "-s", "-a", ADDRESS, "-C", "20", "-S", "60000", "-V"],
     ["rping", "-c", "-a", ADDRESS, "-C", "20", "-S", "60000", "-V"]),
    (["ucmatose", "-b", ADDRESS, "-c", "3"], ["ucmatose", "-s", ADDRESS, "-c", "3"]),
    (["udaddy", "-b", ADDRESS, "-c", "2"], ["udaddy", "-s", ADDRESS, "-c", "2"]),
    # Numbers of QPs that do not exist: on one NIC both ends may not give the same ones.
    (["cmtime", "-b", ADDRESS, "-c", "20", "-q", "1000"],
     ["cmtime", "-s", ADDRESS, "-c", "20", "-q", "2000"]),
    # Without "b" the server spins while it waits.
    (["rstream", "-b", ADDRESS, "-S", "4096", "-C", "100", "-T", "b", "-T", "v"],
     ["rstream", "-s", ADDRESS, "-S", "4096", "-C", "100", "-T", "b", "-T", "v"]),
)


def listening(process):
    """Does the server wait for connections? The core reports LISTEN a little earlier; a
    server that has not returned from rdma_listen() does not sleep interruptibly."""
    if "state LISTEN" not in guest.run("rdma", "resource", "show", "cm_id")[1]:
        return False
    states = [guest.read(path).rpartition(")")[2].split()[0]
              for path in glob.glob(f"/proc/{process.pid}/task/*/stat")]
    return bool(states) and set(states) == {"S"}


def start(command):
    """A program whose output is kept."""
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)


def end(process, name):
    """What is wrong with how the program has ended, or an empty text."""
    try:
        output, _ = process.communicate(timeout=LIMIT)
        if not process.returncode:
            return ""
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    return f"{name}: status {process.returncode}\n{output.decode(errors='replace')}"


def attempt(server, client):
    """What is wrong with how server and client have ended, or an empty text."""
    waiting = start(server)
    wrong = "" if guest.wait_for(lambda: listening(waiting)) else "nobody listens\n"
    wrong += end(start(client), "client")
    if wrong:
        waiting.kill()
    return wrong + end(waiting, "server")


def both(server, client):
    """A test point: server and client run to their end."""
    wrong = attempt(server, client)
    guest.ok(not wrong, " ".join(client), wrong)


def perf(*command):
    """The same with a program of perftest's. It connects twice, and its server listens anew
    for the second connection: a client that comes too early is refused, and its next try
    uses freed memory. The kernel must not log such a crash, which would be taken for one of
    its own."""
    guest.write(TRACE, "0")
    for _ in range(TRIES):
        wrong = attempt(command, command + (ADDRESS,))
        if "REJECTED; error: 8" not in wrong:
            break
    guest.write(TRACE, "1")
    guest.ok(not wrong, " ".join(command), wrong)


def group():
    """A test point: a message to a multicast group reaches its members."""
    member = start(["stdbuf", "-oL", "mckey", "-m", GROUP, "-b", ADDRESS, "-C", "5"])
    joined = any(b"joined" in line for line in member.stdout)
    wrong = "" if joined else "nobody joins\n"
    wrong += end(start(["mckey", "-m", GROUP, "-b", ADDRESS, "-C", "5", "-s"]), "sender")
    wrong += end(member, "member")
    guest.ok(not wrong, "mckey", wrong)


def leave(name, action, come_back):
    """Takes the device away from a connection; then a new one can be made."""
    connected.left(name, action)
    come_back()
    guest.ok(address(), f"{name}: the device is back")
    both(*PROGRAMS[0])


def address():
    """Gives the NIC's interface its address. Returns True when the core has a GID of it."""
    netdev = os.path.basename(glob.glob(f"{guest.DRIVER}/*:*/net/*")[0])
    return guest.bring_up() and \
        not guest.run("ip", "addr", "replace", f"{ADDRESS}/24", "dev", netdev)[0] and \
        guest.wait_for(lambda: any("ffff:c000:0209" in guest.read(path) for path in
                                   glob.glob("/sys/class/infiniband/moor*/ports/1/gids/*")))


def port():
    """Test points: what the core has set up of the port, for MADs."""
    name = glob.glob(f"{guest.DRIVER}/*:*/infiniband/*")[0].rpartition("/")[2]
    keys = glob.glob(f"/sys/class/infiniband/{name}/ports/1/pkeys/*")
    guest.ok([guest.read(key).strip() for key in keys] == ["0xffff"], "its P_Key table has one entry", keys)
    _, queues = guest.run("rdma", "resource", "show", "qp", "link", f"{name}/1", "lqpn", "1")
    guest.ok("type GSI state RTS" in queues and "[ib_core]" in queues, "it has a GSI QP", queues)
    # Where it is no module, it is there.
    guest.run("modprobe", "-q", "ib_umad")
    guest.ok(guest.wait_for(lambda: os.path.exists(f"/sys/class/infiniband/{name}/device/infiniband_mad")),
             "programs can have MAD agents")


def main():
    """Runs the tests."""
    function = guest.functions()[0]
    port()
    guest.ok(address(), f"the NIC has the address {ADDRESS}")
    for server, client in PROGRAMS:
        both(server, client)
    perf("ib_send_bw", "-R", "-F", "-n", "100", "-s", "4096")
    perf("ib_send_lat", "-R", "-F", "-n", "100", "-c", "UD")
    perf("ib_write_bw", "-R", "-F", "-n", "100", "-s", "65536")
    perf("ib_read_lat", "-R", "-F", "-n", "100")
    group()
    leave("unbinding", lambda: guest.write(f"{guest.DRIVER}/unbind", function),
          lambda: guest.write(f"{guest.DRIVER}/bind", function))
    leave("function level reset",
          lambda: guest.write(f"/sys/bus/pci/devices/{function}/reset", "1"), lambda: None)
    guest.done()


main()
