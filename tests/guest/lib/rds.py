# SPDX-License-Identifier: GPL-2.0
"""RDS sockets, what the kernel reports of RDS connections, and RDMA by control messages."""

import ctypes
import mmap
import socket
import struct

import guest

AF_RDS, SOL_RDS = 21, 276
GET_MR, FREE_MR = 2, 3
RDMA_ARGS, RDMA_DEST, RDMA_MAP, RDMA_STATUS = 1, 2, 3, 4
CONNECTIONS, IB_CONNECTIONS = 10001, 10008
READWRITE, FENCE, INVALIDATE, NOTIFY_ME = 1, 2, 4, 32
SUCCESS, REMOTE_ERROR = 0, 1
CONNECTED = 4


class Memory:
    """Whole pages of memory."""

    def __init__(self, length):
        self.pages = mmap.mmap(-1, length)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))

    def fill(self, data, offset=0):
        """Writes to the memory."""
        self.pages[offset:offset + len(data)] = data

    def read(self, offset, length):
        """Reads the memory."""
        return self.pages[offset:offset + length]


class End:
    """An RDS socket at an own address; calls that block have a time limit."""

    def __init__(self, address, buffer=0):
        self.socket = socket.socket(AF_RDS, socket.SOCK_SEQPACKET)
        # A limit by Python makes the socket non-blocking, of which RDS demands more.
        limit = struct.pack("@ll", 40 * guest.PATIENCE, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.bind((address, 0))
        self.name = self.socket.getsockname()

    def send(self, to, data, kind=None, content=b""):
        """Sends a message, with control messages for RDMA."""
        control = [(SOL_RDS, kind, content)] if kind else []
        return self.socket.sendmsg([data], control, 0, to.name)

    def try_send(self, to, data):
        """Sends a message if that does not block."""
        return self.socket.sendmsg([data], [], socket.MSG_DONTWAIT, to.name)

    def receive(self):
        """Receives: data, control messages by kind, sender."""
        data, control, _, sender = self.socket.recvmsg(1 << 20, 1024)
        return data, {kind: content for level, kind, content in control if level == SOL_RDS}, sender

    def quiet(self):
        """Is there nothing to receive? poll() cannot tell, for it also reports congestion."""
        try:
            self.socket.recv(1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        return False

    def close(self):
        """Closes the socket."""
        self.socket.close()


def information(end, which, layout):
    """Entries of one of RDS's tables in the kernel."""
    content = end.socket.getsockopt(SOL_RDS, which, 1020)
    size = struct.calcsize(layout)
    return [struct.unpack_from(layout, content, at) for at in range(0, len(content) - size + 1, size)]


def connections(end):
    """All connections: source, destination, transport, flags."""
    return [(socket.inet_ntoa(ours), socket.inet_ntoa(theirs), name.rstrip(b"\0").decode(), flags)
            for _, _, ours, theirs, name, flags, _ in information(end, CONNECTIONS, "=QQ4s4s16sBB")]


def over_ib(end):
    """Connections over RDMA devices: source, destination, both GIDs."""
    return [(socket.inet_ntoa(ours), socket.inet_ntoa(theirs), gid, remote)
            for ours, theirs, gid, remote, *_ in information(end, IB_CONNECTIONS, "=4s4s16s16sIIIIIBBxxI")]
