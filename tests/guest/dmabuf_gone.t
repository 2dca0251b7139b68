#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 300
"""The NIC is removed or reset while it waits for a dma-buf that is being moved: that does
not wait for the buffer's owner, nothing is written, nothing is left."""

import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position

PROMPTLY = 20 * guest.PATIENCE


def leave(name, action, come_back):
    """Takes the NIC away from a process while its dma-buf is being moved."""
    with subprocess.Popen([f"{guest.PROGRAMS}/remap"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        first = process.stdout.readline()
        if first == b"pinned\n":
            process.communicate(b"enough\n")
            return False
        guest.ok(first == b"ready\n", f"{name}: the NIC waits for a buffer", first)
        start = time.monotonic()
        action()
        guest.ok(time.monotonic() - start < PROMPTLY, f"{name}: does not wait for its owner")
        output, _ = process.communicate(b"gone\n", timeout=60 * guest.PATIENCE)
        guest.ok(process.returncode == 0, f"{name}: nothing is written when it arrives",
                 output.decode(errors="replace"))
    come_back()
    guest.ok(guest.bring_up(), f"{name}: the device is back")
    guest.ok(*guest.moves_data(name))
    return True


def main():
    """Runs the tests."""
    address = guest.functions()[0]
    device = f"/sys/bus/pci/devices/{address}"
    moves = leave("unbinding", lambda: guest.write(f"{guest.DRIVER}/unbind", address),
                  lambda: guest.write(f"{guest.DRIVER}/bind", address))
    version = [int(number) for number in re.findall(r"\d+", os.uname().release)[:2]]
    guest.ok(moves or version < [7, 2], f"buffers {'move' if moves else 'are pinned'} on Linux {version}")
    if moves:
        leave("reset", lambda: guest.write(f"{device}/reset", "1"), lambda: None)
        leave("removal", lambda: guest.write(f"{device}/remove", "1"),
              lambda: guest.write("/sys/bus/pci/rescan", "1"))
    guest.ok(guest.wait_for(lambda: guest.run("rmmod", "moor_exporter")[0] == 0),
             "all buffers have been given back to their owner")
    guest.done()


main()
