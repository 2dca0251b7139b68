# SPDX-License-Identifier: GPL-2.0
"""The test module of the kernel's verbs (tests/kernel): loading it, running its tests."""

import os

import guest

TREE = f"{guest.TOP}/build/modules/{os.uname().release}/tree"
MODULE = f"{TREE}/tests/kernel/moor_verbs_test.ko"
FOLDER = "/sys/kernel/debug/moor_verbs_test"


def load():
    """Loads the module, unless it is loaded; False if that fails."""
    if os.path.isdir(FOLDER):
        return True
    status, output = guest.run("insmod", MODULE)
    if status:
        print(f"# insmod {MODULE}: {output}")
    return status == 0


def unload():
    """Unloads it; False if that fails."""
    status, output = guest.run("rmmod", "moor_verbs_test")
    if status:
        print(f"# rmmod: {output}")
    return status == 0


def names():
    """The tests that it has for this kernel."""
    return guest.read(f"{FOLDER}/tests").split()


def run(name, device="moor0", seed=1):
    """Runs one: the lines that it says, without the plan."""
    guest.write(f"{FOLDER}/run", f"{device} {name} {seed}")
    return [line for line in guest.read(f"{FOLDER}/results").splitlines()
            if not line.startswith("1..")]


def report(name, device="moor0", seed=1):
    """Runs one, and makes its points points of the caller's; False if one failed."""
    good, detail = True, []
    lines = run(name, device, seed)
    if not any(line.startswith(("ok ", "not ok ")) for line in lines):
        return guest.ok(False, f"{name}: says something", "\n".join(lines))
    for line in lines:
        if line.startswith("#"):
            detail.append(line[2:])
            continue
        passed = line.startswith("ok ")
        good &= guest.ok(passed, f"{name}: {line.split(' - ', 1)[1]}", "\n".join(detail))
        detail = []
    return good
