# SPDX-License-Identifier: GPL-2.0
"""Shared by tests of storage: disks past the page cache, and fio on file systems."""

import os
import subprocess

import guest

MIB = 1 << 20
PLACE = "/tmp/moor-mount"
DATA = "/tmp/moor-data"
JOBS = {"4 KiB, at random": ["--rw=randwrite", "--bs=4k", "--size=4m", "--filename=random"],
        "128 KiB, in sequence": ["--rw=write", "--bs=128k", "--size=32m", "--filename=sequence"]}


def write_disk(disk, data, block):
    """Starts dd writing past the page cache. Returns the process."""
    with open(DATA, "wb") as file:
        file.write(data)
    return subprocess.Popen(["dd", f"if={DATA}", f"of={disk}", f"bs={block}", "oflag=direct",
                             "conv=fsync,nocreat", "status=none"], stdin=subprocess.DEVNULL)


def read_disk(disk, length, block):
    """Reads past the page cache."""
    return subprocess.run(["dd", f"if={disk}", f"bs={block}", f"count={length // block}", "iflag=direct",
                           "status=none"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False).stdout


def beginning(path, length):
    """Reads the far end's data."""
    with open(path, "rb") as file:
        return file.read(length)


def moves(disk, far_end, length, block):
    """Test points: written data is read back, and the far end has it."""
    data = os.urandom(length)
    name = f"blocks of {block // 1024} KiB"
    guest.ok(write_disk(disk, data, block).wait() == 0, f"{name}: written")
    guest.ok(read_disk(disk, length, block) == data, f"{name}: the same is read")
    guest.ok(beginning(far_end, length) == data, f"{name}: the target has it")


def begin(disk, far_end, length):
    """Starts writing, and waits until the far end has some of it. Returns the data, the
    process, and whether that worked."""
    data = os.urandom(length)
    writer = write_disk(disk, data, 65536)
    guest.wait_for(lambda: beginning(far_end, MIB) == data[:MIB])
    return data, writer, writer.poll() is None


def survives(name, disk, far_end, length, action):
    """Test points: connections end in the middle of writing, and the writer notices nothing."""
    data, writer, on_its_way = begin(disk, far_end, length)
    action()
    guest.ok(on_its_way, f"{name}: data was on its way")
    guest.ok(writer.wait() == 0, f"{name}: who writes is not told")
    guest.ok(read_disk(disk, length, 131072) == data and beginning(far_end, length) == data,
             f"{name}: no byte was lost")


def breaks(name, host, length, action, come_back):
    """Test points: the host's connections end for good in the middle of writing. What was
    not written is an error; what was is there after connecting again. HOST has disk(),
    disks(), connect() and DISK, the far end's."""
    data, writer, on_its_way = begin(host.disk(), host.DISK, length)
    action()
    guest.ok(on_its_way, f"{name}: data was on its way")
    guest.ok(writer.wait() != 0, f"{name}: who writes is told")
    guest.ok(guest.wait_for(lambda: not host.disks()), f"{name}: the disk is gone")
    come_back()
    guest.ok(guest.wait_for(lambda: host.connect() == 0, 60), f"{name}: connected anew")
    guest.ok(host.disk() and read_disk(host.disk(), MIB, 131072) == data[:MIB],
             f"{name}: what was written is there")


def make_file_system(disk):
    """A test point: an ext4 on the disk, which takes its data with barriers."""
    status, output = guest.run("mkfs.ext4", "-q", "-F", "-E", "nodiscard", disk)
    guest.ok(not status, "mkfs.ext4", output)


def mount(source, *options):
    """A test point: mounts the disk at PLACE."""
    os.makedirs(PLACE, exist_ok=True)
    status, output = guest.run("mount", *options, source, PLACE)
    return guest.ok(not status, f"mounted: {source} {' '.join(options)}".strip(), output)


def unmount():
    """A test point: unmounts it."""
    status, output = guest.run("umount", PLACE)
    guest.ok(not status, "unmounted", output)


def fio(job, *options):
    """Runs a fio job on the file system at PLACE, past the page cache: status and output."""
    return guest.run("fio", "--name=moor", f"--directory={PLACE}", "--direct=1", "--ioengine=libaio",
                     "--iodepth=16", "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0",
                     *JOBS[job], *options)


def fill():
    """Test points: fio writes, reads again and verifies."""
    for job in JOBS:
        status, output = fio(job)
        guest.ok(not status, f"fio: {job}: written and verified", output)


def still_there():
    """Test points: fio finds the data that it wrote, and notices a wrong byte."""
    for job in JOBS:
        status, output = fio(job, "--verify_only")
        guest.ok(not status, f"fio: {job}: verified after another mount", output)
    for job, options in JOBS.items():
        with open(f"{PLACE}/{options[-1].partition('=')[2]}", "r+b") as file:
            file.seek(MIB + 2048)
            was = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([was[0] ^ 1]))
            os.fsync(file.fileno())
        status, _ = fio(job, "--verify_only")
        guest.ok(status, f"fio: {job}: a bit that is wrong is found")


def file_system(disk):
    """Test points: fio writes to an ext4, and finds its data after mounting it again."""
    make_file_system(disk)
    if not mount(disk):
        return
    fill()
    unmount()
    status, output = guest.run("e2fsck", "-f", "-n", disk)
    guest.ok(not status, "e2fsck has nothing to say", output)
    mount(disk)
    still_there()
    unmount()
