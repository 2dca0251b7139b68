#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# timeout: 400
"""The module is unloaded and loaded a hundred times, ten with a vIOMMU."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import guest  # pylint: disable=wrong-import-position

LOADS = 10 if guest.has_iommu() else 100


def reload_many(count):
    """Unloads and loads the module; the number of times that it came up."""
    for turn in range(count):
        for command in (["rmmod", "moor"], ["insmod", guest.MODULE]):
            status, output = guest.run(*command)
            if status:
                print(f"# {' '.join(command)}: {output}")
                return turn
        if not guest.functions() or not os.path.isdir("/sys/class/infiniband/moor0"):
            return turn
    return count


guest.ok(reload_many(LOADS) == LOADS, f"{LOADS} times unloaded and loaded")
guest.ok(guest.bring_up(), "after that the device has GIDs")
guest.ok(*guest.moves_data("after that"))
guest.done()
