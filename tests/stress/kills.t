#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 3000
"""A thousand processes are killed, in every phase (tests/guest/test_dead_process.c), or as
many as MOOR_STRESS_KILLS says. Slab caches are checked, too."""

import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../guest/lib"))
import guest  # pylint: disable=wrong-import-position

PROGRAM = f"{guest.PROGRAMS}/test_dead_process"
KILLS = int(os.environ.get("MOOR_STRESS_KILLS", "1000"))
POINT = re.compile(r"^(ok|not ok) \d+ - (.*)$")
# Growth to tolerate, of other parts of the kernel.
NOISE = 1 << 20


def kill(count):
    """Runs the program with that many kills, and takes over its test points."""
    status, output = guest.run(PROGRAM, "--kills", str(count))
    for line in output.splitlines():
        point = POINT.match(line)
        if point:
            guest.ok(point.group(1) == "ok", point.group(2))
        else:
            print(line if line.startswith("#") else f"# {line}")
    guest.ok(status == 0, f"{count} processes killed")


kill(max(KILLS // 10, 7))
slabs = guest.slab_bytes()
kill(KILLS)
after = guest.slab_bytes()
grown = {cache: size - slabs.get(cache, 0) for cache, size in after.items()
         if size - slabs.get(cache, 0) > 65536}
total = sum(after.values()) - sum(slabs.values())
guest.ok(total < NOISE, f"slab caches are as they were: {total} bytes more", grown)
guest.done()
