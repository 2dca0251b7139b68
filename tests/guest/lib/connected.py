# SPDX-License-Identifier: GPL-2.0
"""A connection of rdma_cm whose device leaves (tests/guest/connected.c)."""

import subprocess
import time

import guest

PROMPTLY = 20 * guest.PATIENCE
LIMIT = 60 * guest.PATIENCE


def left(name, action):
    """Test points: the device is taken away from a connection, and both ends get events."""
    with subprocess.Popen([f"{guest.PROGRAMS}/connected"], stdout=subprocess.PIPE) as process:
        said = []
        for line in process.stdout:
            said.append(line)
            if line == b"ready\n":
                break
        guest.ok(said and said[-1] == b"ready\n", f"{name}: there is a connection", said)
        started = time.monotonic()
        action()
        guest.ok(time.monotonic() - started < PROMPTLY, f"{name}: does not wait for it")
        try:
            output, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        guest.ok(process.returncode == 0, f"{name}: both its ends are told, and can be destroyed",
                 output.decode(errors="replace"))
