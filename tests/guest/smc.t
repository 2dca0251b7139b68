#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""SMC-R where Debian's kernel has it: TCP connections whose data goes by RDMA, both ends in
one guest. The kernel falls back to TCP and says nothing; its own account of sockets
(smc_diag) tells who has, and does so here of a connection that has to."""

import glob
import os
import socket
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position

# The network of the loopback device, which has the route to all own addresses: SMC-R's
# first version compares prefixes of the route's device.
ADDRESS = "198.51.100.1"
IPPROTO_SMC = 256
SECONDS = 60

ACK, DUMP, REQUEST = 4, 0x300, 1
ERROR, DONE = 2, 3
GENERIC, SOCK_DIAG = 16, 4
CONTROL, GET_FAMILY, FAMILY_ID, FAMILY_NAME = 16, 3, 1, 2
PNET_ADD, PNET_FLUSH = 2, 4
PNET_NAME, PNET_NETDEV, PNET_DEVICE, PNET_PORT = 1, 2, 3, 4
BY_FAMILY, AF_SMC = 20, 43
OVER_RDMA, FALLEN_BACK = 0, 1


def attribute(kind, value):
    """A netlink attribute."""
    data = struct.pack("=HH", 4 + len(value), kind) + value
    return data + bytes(-len(data) % 4)


def netlink(protocol, kind, flags, content):
    """Sends a netlink request. Returns the answers (type, content); an error is an OSError."""
    answers = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as end:
        end.settimeout(SECONDS)
        end.send(struct.pack("=IHHII", 16 + len(content), kind, REQUEST | flags, 1, 0) + content)
        while True:
            data = end.recv(65536)
            while data:
                length, kind, _, _, _ = struct.unpack("=IHHII", data[:16])
                content, data = data[16:length], data[(length + 3) & ~3:]
                if kind == ERROR and struct.unpack("=i", content[:4])[0]:
                    raise OSError(-struct.unpack("=i", content[:4])[0], "netlink")
                if kind in (ERROR, DONE):
                    return answers
                answers.append(content)


def family(name):
    """The number of a family of generic netlink."""
    content = netlink(GENERIC, CONTROL, ACK, struct.pack("=BBH", GET_FAMILY, 1, 0) +
                      attribute(FAMILY_NAME, name.encode() + b"\0"))[0][4:]
    while content:
        length, kind = struct.unpack("=HH", content[:4])
        if kind == FAMILY_ID:
            return struct.unpack("=H", content[4:6])[0]
        content = content[(length + 3) & ~3:]
    raise OSError(f"no family {name}")


def networks(command, content=b""):
    """Changes the table of which network device and which RDMA device are in one network."""
    netlink(GENERIC, family("SMC_PNETID"), ACK, struct.pack("=BBH", command, 1, 0) + content)


def modes(port):
    """How the kernel carries the connections of a port, without listeners."""
    answers = netlink(SOCK_DIAG, BY_FAMILY, DUMP, struct.pack("=B2xB48x", AF_SMC, 0))
    sockets = [(answer[2], struct.unpack(">HH", answer[4:8])) for answer in answers]
    return [mode for mode, ports in sockets if port in ports and 0 not in ports]


class Echo(threading.Thread):
    """A server that echoes to one client until that has sent everything."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_SMC)
        self.listener.bind((ADDRESS, 0))
        self.listener.listen()
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        end, _ = self.listener.accept()
        with end, self.listener:
            while True:
                data = end.recv(65536)
                if not data:
                    return
                end.sendall(data)


def call(port):
    """Connects to the server."""
    end = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_SMC)
    end.settimeout(SECONDS)
    end.connect((ADDRESS, port))
    return end


def echoed(end, data):
    """Does the data come back? Sent in pieces, for a server that does not read also stops
    taking."""
    for i in range(0, len(data), 32768):
        end.sendall(data[i:i + 32768])
        piece = b""
        while len(piece) < len(data[i:i + 32768]):
            got = end.recv(32768)
            if not got:
                return False
            piece += got
        if piece != data[i:i + 32768]:
            return False
    return True


def queues():
    """The number of QPs that SMC has."""
    return [line for line in guest.run("rdma", "resource", "show", "qp")[1].splitlines() if "[smc]" in line]


def connection(name, mode):
    """Test points: data comes back, and both ends' connections have this mode."""
    server = Echo()
    end = call(server.port)
    guest.ok(echoed(end, b"x"), f"{name}: a byte comes back")
    for length in (1000, 100000, 4 << 20):
        guest.ok(echoed(end, os.urandom(length)), f"{name}: {length} bytes come back")
    guest.ok(modes(server.port) == [mode] * 2, f"{name}: both ends are what they should be", modes(server.port))
    guest.ok(bool(queues()) == (mode == OVER_RDMA), f"{name}: there are QPs or not", queues())
    end.shutdown(socket.SHUT_WR)
    guest.ok(end.recv(1) == b"", f"{name}: it ends")
    end.close()
    server.join(SECONDS)
    guest.ok(not server.is_alive(), f"{name}: the other end too")


def main():
    """Runs the tests."""
    guest.needs("SMC", "smc", "smc_diag")
    guest.ok(guest.bring_up(), "the NIC is up")
    guest.load("smc", "smc_diag")
    guest.run("ip", "addr", "replace", f"{ADDRESS}/24", "dev", "lo")
    connection("no network", FALLEN_BACK)
    device = os.path.basename(glob.glob(f"{guest.DRIVER}/*:*/infiniband/*")[0])
    networks(PNET_ADD, attribute(PNET_NAME, b"MOOR\0") + attribute(PNET_NETDEV, b"lo\0") +
             attribute(PNET_DEVICE, device.encode() + b"\0") + attribute(PNET_PORT, b"\1"))
    connection("a network", OVER_RDMA)
    connection("the same links", OVER_RDMA)
    networks(PNET_FLUSH)
    guest.run("ip", "addr", "del", f"{ADDRESS}/24", "dev", "lo")
    guest.unload("smc_diag", "smc")
    guest.ok(not queues(), "no QP is left", queues())
    guest.ok(*guest.moves_data("the NIC is there"))
    guest.done()


main()
