#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
# lost on 6.12: 1040 pages
"""RDS over RDMA with the kernel's own modules: sockets of one guest, by two addresses of the
NIC's own and by one to itself. RDS has connections of such addresses go by the device
(__rds_conn_create() in net/rds/connection.c: of RDMA's transport no t_prefer_loopback), and
tells of which transport they are.

What RDS itself cannot, whatever the NIC:
- RDS_GET_MR is EOPNOTSUPP: fast registration wants a connection (rds_ib_reg_frmr()).
- Atomics: RDS posts masked ones alone (rds_ib_xmit_atomic()), which Moor does not have, and
  registers memory without the right (rds_ib_post_reg_frmr()). They are not tried: a request
  that cannot be posted stays at the head of its connection for good.
- Between two addresses of one machine nobody wakes who waits for a congested receiver:
  rds_ib_xmit() leaves such news out of a connection within the machine, and tells those
  who wait for the wrong end of it (c_fcong, where c_lcong is meant). So senders here do
  not wait in sendmsg(), but try again.
- On 7.3 rds_rdma warns as it goes, over rxe as well (net/rds/ib_recv.c:1103): connections
  have work queues of their own there, rds_ib_unregister_client() waits for the common one,
  and rds_ib_destroy_nodev_conns() misses those that still leave the device. So the NIC is
  taken from its driver first: the connections are without a device then, and are found.
- On 6.12 memory that RDS has registered stays pinned for good: __rds_ib_teardown_mr() in
  net/rds/ib_rdma.c gives back with put_page() what was taken with pin_user_pages_fast().
  Each of the two rounds of RDMA registers 1, 2, 3, 257, 256 and 1 pages.
- A connection that ends waits for its registrations and invalidations, and the last of
  them does not wake it (rds_ib_mr_cqe_handler() counts up i_fastreg_wrs after it has woken
  who waits in rds_ib_conn_path_shutdown()); nor does it end before its keys are given
  back. The one thread that ends connections then waits for good, and so do all who unload
  RDS or the driver. So nothing here ends a connection while a key is in use or is being
  invalidated.
"""

import ctypes
import errno
import glob
import os
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position
import rds  # pylint: disable=wrong-import-position
from guest import ADDRESS  # pylint: disable=wrong-import-position

OTHER = "192.0.2.10"
OTHER_GID = "ffff:c000:020a"
NOBODY = "127.0.0.1"
LENGTHS = (4, 100, 4096, 4097, 65536, 9000)
NOISE = os.urandom(1 << 17)
PAGES = 1 << 21
IN_FLIGHT = 600


def take_addresses():
    """Gives the NIC's interface both addresses, and waits for their GIDs."""
    if not guest.take_address():
        return False
    netdev = os.path.basename(glob.glob(f"{guest.DRIVER}/*:*/net/*")[0])
    return not guest.run("ip", "addr", "replace", f"{OTHER}/24", "dev", netdev)[0] and \
        guest.wait_for(lambda: any(OTHER_GID in guest.read(path) for path in
                                   glob.glob("/sys/class/infiniband/moor*/ports/1/gids/*")))


def queues():
    """The number of QPs that the CM has made; here all are RDS's."""
    return [line for line in guest.run("rdma", "resource", "show", "qp")[1].splitlines() if "[rdma_cm]" in line]


def message(number, length=0):
    """A message: its number, and random bytes that depend on it."""
    length = length or LENGTHS[number % len(LENGTHS)]
    return struct.pack("=I", number) + NOISE[number * 7:number * 7 + length - 4]


def sent(end, to, data):
    """Sends without waiting; False if either end has no room."""
    try:
        end.try_send(to, data)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.ENOBUFS):
            raise
        return False
    return True


class Stream(threading.Thread):
    """Sends messages until all are taken, or the socket refuses."""

    def __init__(self, end, to, count, length=0):
        super().__init__(daemon=True)
        self.end, self.to, self.count, self.length = end, to, count, length
        self.error = None
        self.start()

    def run(self):
        try:
            for i in range(self.count):
                if not guest.wait_for(lambda i=i: sent(self.end, self.to, message(i, self.length)), 60):
                    raise TimeoutError(f"message {i}")
        except OSError as error:
            self.error = error


def arrives(name, end, sender, count, length=0):
    """A test point: all messages come once, in order, unchanged, with the right sender."""
    for i in range(count):
        try:
            data, _, whence = end.receive()
        except OSError as error:
            return guest.ok(False, f"{name}: {count} messages", f"message {i}: {error}")
        if data != message(i, length) or whence != sender.name:
            return guest.ok(False, f"{name}: {count} messages",
                            f"message {i}, from {whence}: {data[:8].hex()}, {len(data)} bytes")
    # A duplicate would come before this message of the same connection.
    sender.send(end, b"last")
    return guest.ok(end.receive()[0] == b"last" and end.quiet(),
                    f"{name}: {count} messages come as sent, in order, once")


def transports(end, ours, theirs):
    """The transports by which the kernel connects two addresses."""
    return [name for one, other, name, flags in rds.connections(end)
            if (one, other) == (ours, theirs) and flags & rds.CONNECTED]


def gid(address):
    """The GID of an IPv4 address."""
    return bytes(10) + b"\xff\xff" + bytes(int(part) for part in address.split("."))


def talks(ours, theirs, transport, more):
    """Test points: messages both ways over a transport, and how many QPs that adds."""
    name = f"{ours} to {theirs}"
    before = len(queues())
    one, other = rds.End(ours), rds.End(theirs)
    streams = [Stream(one, other, 300), Stream(other, one, 300)]
    arrives(name, other, one, 300)
    arrives(f"{name}, the other way", one, other, 300)
    for stream in streams:
        stream.join(20 * guest.PATIENCE)
    guest.ok(transports(one, ours, theirs) == [transport], f"{name}: transport {transport}",
             rds.connections(one))
    wanted = (ours, theirs, gid(ours), gid(theirs))
    guest.ok((wanted in rds.over_ib(one)) == (transport == "infiniband"),
             f"{name}: it is among those of RDMA devices or not", rds.over_ib(one))
    guest.ok(len(queues()) - before == more, f"{name}: {more} QPs more", queues())
    one.close()
    other.close()


def congestion():
    """Test points: a receiver that does not read blocks senders, and then gets their messages."""
    one, other = rds.End(ADDRESS), rds.End(OTHER, 32768)
    taken, refusal = 0, None

    def congested():
        nonlocal taken, refusal
        try:
            while taken < 5000:
                one.try_send(other, message(taken, 8192))
                taken += 1
        except OSError as error:
            refusal = error.errno
        # EAGAIN: the sender's own queue is full.
        return refusal != errno.EAGAIN

    guest.ok(guest.wait_for(congested) and refusal == errno.ENOBUFS, f"congestion: ENOBUFS, after some messages",
             refusal)
    arrives("congestion", other, one, taken, 8192)
    guest.ok(guest.wait_for(lambda: sent(one, other, message(0, 8192))), "congestion: it ends when somebody reads")
    arrives("congestion is over", other, one, 1, 8192)
    one.close()
    other.close()


def offer(one, other, memory, offset, length, flags=rds.READWRITE):
    """Registers a range of memory with a message, which the peer gets with the key."""
    one.send(other, b"map", rds.RDMA_MAP, struct.pack("=QQQQ", memory.address + offset, length, 0, flags))
    return struct.unpack("=Q", other.receive()[1][rds.RDMA_DEST])[0]


def transfer(end, to, cookie, vectors, flags):
    """Requests an RDMA transfer with a message. Returns its status."""
    table = b"".join(struct.pack("=QQ", *vector) for vector in vectors)
    keep = ctypes.create_string_buffer(table)
    total = sum(length for _, length in vectors)
    end.send(to, b"done", rds.RDMA_ARGS,
             struct.pack("=QQQQQQQ", cookie, 0, total, ctypes.addressof(keep), len(vectors),
                         flags | rds.NOTIFY_ME, 77))
    token, status = struct.unpack_from("=Qi", end.receive()[1][rds.RDMA_STATUS])
    return status if token == 77 else None


def free(end, cookie):
    """Ends the registration of the memory."""
    end.socket.setsockopt(rds.SOL_RDS, rds.FREE_MR, struct.pack("=QQ", cookie, rds.INVALIDATE))


def flush(end):
    """Has RDS invalidate the keys that nobody uses any more, and waits until that is done."""
    end.socket.setsockopt(rds.SOL_RDS, rds.FREE_MR, struct.pack("=QQ", 0, 0))


def rdma():
    """Test points: memory is read and written by the keys that RDS makes, and by no other."""
    one, other = rds.End(ADDRESS), rds.End(OTHER)
    ours, theirs = rds.Memory(PAGES), rds.Memory(PAGES)
    for sender, receiver in ((one, other), (other, one)):
        sender.send(receiver, b"connect")
        receiver.receive()
    for length, pieces in ((8, 1), (5000, 3), (8192, 1), (1 << 20, 1), ((1 << 20) - 999, 7)):
        name = f"RDMA, {length} bytes in {pieces}"
        cookie = offer(other, one, theirs, 100, length)
        size = length // pieces
        vectors = [(ours.address + 40 + i * size, size if i < pieces - 1 else length - i * size)
                   for i in range(pieces)]
        data = os.urandom(length)
        ours.fill(data, 40)
        theirs.fill(bytes(length + 16), 92)
        status = transfer(one, other, cookie, vectors, rds.READWRITE)
        guest.ok(status == rds.SUCCESS and other.receive()[0] == b"done" and
                 theirs.read(92, length + 16) == bytes(8) + data + bytes(8), f"{name}: written", status)
        data = os.urandom(length)
        theirs.fill(data, 100)
        # RDS says that a transfer is over when the peer has acknowledged the message behind it:
        # that may be before a READ has its data.
        status = transfer(one, other, cookie, vectors, rds.FENCE)
        guest.ok(status == rds.SUCCESS and other.receive()[0] == b"done" and ours.read(40, length) == data,
                 f"{name}: read", status)
        free(other, cookie)
    refused(one, other, ours, theirs)
    try:
        one.socket.setsockopt(rds.SOL_RDS, rds.GET_MR, struct.pack("=QQQQ", ours.address, 4096, theirs.address, 0))
        guest.ok(False, "RDS_GET_MR works: what rds.t says of it is no longer so")
    except OSError as error:
        guest.ok(error.errno == errno.EOPNOTSUPP, "RDS_GET_MR: EOPNOTSUPP, of any NIC", error)
    one.close()
    other.close()


def refused(one, other, ours, theirs):
    """Test points: keys that are dead or were never valid; they end the connection, which
    returns."""
    cookie = offer(other, one, theirs, 0, 4096)
    # The message with the key holds the memory until it is acknowledged.
    one.send(other, b"thanks")
    other.receive()
    free(other, cookie)

    def is_refused(key):
        # The end of the connection must not meet an invalidation: see above.
        flush(other)
        theirs.fill(bytes(8192))
        status = transfer(one, other, key, [(ours.address, 4096)], rds.READWRITE)
        if status == rds.SUCCESS:
            other.receive()
        return status == rds.REMOTE_ERROR

    # RDS handles acknowledgments after it has woken receivers: memory is released a
    # moment later.
    for name, key, seconds in (("a key that was freed", cookie, 20), ("a key of nobody", cookie ^ 0x5a0000, 0)):
        guest.ok(guest.wait_for(lambda k=key: is_refused(k), seconds) and theirs.read(0, 8192) == bytes(8192),
                 f"{name}: the NIC refuses it, no byte changes")
        guest.ok(one.send(other, message(0)) and other.receive()[0] == message(0), f"{name}: messages go on")


def reset():
    """Test points: the NIC is reset while messages are under way: none is lost or duplicated."""
    one, other = rds.End(ADDRESS), rds.End(OTHER)
    stream = Stream(one, other, IN_FLIGHT, 8192)
    first = [other.receive()[0] for _ in range(20)]
    guest.write(f"/sys/bus/pci/devices/{guest.functions()[0]}/reset", "1")
    guest.ok(stream.is_alive(), "reset: messages were on their way")
    guest.ok(take_addresses(), "reset: the NIC has its addresses again")
    rest = []
    while len(first) + len(rest) < IN_FLIGHT:
        try:
            rest.append(other.receive()[0])
        except OSError as error:
            print(f"# {error}")
            break
    stream.join(20 * guest.PATIENCE)
    numbers = [struct.unpack_from("=I", data)[0] for data in first + rest]
    guest.ok(numbers == list(range(IN_FLIGHT)), f"reset: all of {IN_FLIGHT} messages came, in order, once",
             f"{len(numbers)}: {numbers}")
    guest.ok(all(data == message(i, 8192) for i, data in enumerate(first + rest)) and other.quiet(),
             "reset: as they were sent")
    guest.ok(transports(one, ADDRESS, OTHER) == ["infiniband"], "reset: they went by the NIC", rds.connections(one))
    one.close()
    other.close()


def leaves(name, closes):
    """Test points: an end is closed under load; other connections do not notice."""
    one, other = rds.End(ADDRESS), rds.End(OTHER)
    stream = Stream(one, other, IN_FLIGHT, 8192)
    for _ in range(20):
        other.receive()
    guest.ok(stream.is_alive(), f"{name}: messages were on their way")
    (other if closes == "receiver" else one).close()
    stream.join(60 * guest.PATIENCE)
    guest.ok(not stream.is_alive(), f"{name}: who sends does not wait for ever", stream.error)
    one.close()
    other.close()
    talks(ADDRESS, OTHER, "infiniband", 0)


def go():
    """Test points: the modules are unloaded, and leave nothing."""
    end = rds.End(ADDRESS)
    guest.ok(guest.run("modprobe", "-r", "rds_rdma")[0], "a socket holds the module")
    end.close()
    function = guest.functions()[0]
    guest.write(f"{guest.DRIVER}/unbind", function)
    guest.unload("rds_rdma")
    guest.unload("rds")
    guest.write(f"{guest.DRIVER}/bind", function)
    guest.ok(guest.bring_up(), "the NIC is up")
    guest.ok(not queues(), "no QP is left", queues())


def main():
    """Runs the tests."""
    guest.needs("RDS", "rds", "rds_rdma")
    guest.load("rds", "rds_rdma")
    guest.ok(take_addresses(), f"the NIC has the addresses {ADDRESS} and {OTHER}")
    talks(NOBODY, NOBODY, "loopback", 0)
    talks(ADDRESS, OTHER, "infiniband", 2)
    talks(ADDRESS, ADDRESS, "infiniband", 2)
    congestion()
    rdma()
    leaves("the receiver is closed", "receiver")
    leaves("the sender is closed", "sender")
    reset()
    rdma()
    go()
    guest.ok(*guest.moves_data("the NIC is there"))
    guest.done()


main()
