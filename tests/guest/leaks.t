#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 600
"""Nothing is left behind: neither by many registrations, nor by many queue pairs, nor by
processes killed while they hold both."""

import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position

CHURN = f"{guest.PROGRAMS}/churn"
# With a vIOMMU each page mapped is a message to the model: a tenth of the rounds is enough.
SCALE = 10 if guest.has_iommu() else 1
REGISTRATIONS = 10000 // SCALE
QUEUE_PAIRS = 1000 // SCALE
KILLS = 100 // SCALE
AT_ONCE = 4
# Growth to tolerate: caches, and other parts of the kernel.
NOISE = 1 << 20


def live_mrs():
    """MRs that the driver knows, the kernel's own included."""
    lines = guest.read(f"/sys/kernel/debug/moor/{guest.functions()[0]}/mr").splitlines()
    return len(lines) - 1


def kill_many(count):
    """Kills processes that hold MRs and queues, some at a time."""
    for _ in range(-(-count // AT_ONCE)):
        holders = [subprocess.Popen([CHURN, "hold"], stdout=subprocess.PIPE)
                   for _ in range(AT_ONCE)]
        for holder in holders:
            if holder.stdout.readline() != b"ready\n":
                return False
        for holder in holders:
            holder.send_signal(signal.SIGKILL)
        for holder in holders:
            holder.wait()
            holder.stdout.close()
    return True


def measure(count, name, action):
    """Runs a tenth to warm up, then checks what the whole run leaves."""
    name = f"{count} {name}"
    if not guest.ok(action(count // 10), f"{name}: warmed up"):
        return
    pins, slabs, mrs = guest.pinned_pages(), guest.slab_bytes(), live_mrs()
    if not guest.ok(action(count), f"{name}: done"):
        return
    guest.ok(guest.wait_for(lambda: guest.pinned_pages() == pins),
             f"{name}: no page stays pinned", f"{guest.pinned_pages() - pins} pages")
    guest.ok(live_mrs() == mrs, f"{name}: no MR stays in the context table")
    after = guest.slab_bytes()
    grown = {cache: size - slabs.get(cache, 0) for cache, size in after.items()
             if size - slabs.get(cache, 0) > 65536}
    total = sum(after.values()) - sum(slabs.values())
    guest.ok(total < NOISE, f"{name}: slab caches are as they were",
             f"{total} bytes more: {grown}")


def churn(*args):
    """Runs the program. Returns True if it has found nothing wrong."""
    status, output = guest.run(CHURN, *args)
    if status:
        print(f"# {output}")
    return status == 0


measure(REGISTRATIONS, "registrations", lambda count: churn("reg", str(count)))
measure(QUEUE_PAIRS, "queue pairs", lambda count: churn("qp", str(count)))
measure(KILLS, "processes killed", kill_many)
guest.done()
