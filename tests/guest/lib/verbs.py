# SPDX-License-Identifier: GPL-2.0
"""Loads the test module of the kernel's verbs (tests/kernel), and runs its tests."""

import os
import threading

import guest

TREE = f"{guest.TOP}/build/modules/{os.uname().release}/tree"
MODULE = f"{TREE}/tests/kernel/moor_verbs_test.ko"
FOLDER = "/sys/kernel/debug/moor_verbs_test"


def load():
    """Loads the module, unless it is loaded; False if that fails."""
    if os.path.isdir(FOLDER):
        return True
    impaired = "MOOR_TEST_IMPAIRED" in os.environ
    status, output = guest.run("insmod", MODULE, f"impaired={int(impaired)}")
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
    """The names of its tests."""
    return guest.read(f"{FOLDER}/tests").split()


def moved():
    """The count of transfers of all tests since it was loaded."""
    return int(guest.read(f"{FOLDER}/moved"))


def results():
    """The last test's output without the plan, once the test has ended."""
    return [line for line in guest.read(f"{FOLDER}/results").splitlines()
            if not line.startswith("1..")]


def start(name, device="moor0", seed=1):
    """Starts a test, in a thread that ends with it."""
    thread = threading.Thread(target=guest.write, args=(f"{FOLDER}/run", f"{device} {name} {seed}"))
    thread.start()
    return thread


def run(name, device="moor0", seed=1):
    """Runs a test and returns its output."""
    start(name, device, seed).join()
    return results()


def report(name, device="moor0", seed=1):
    """Runs a test and takes over its test points; False if one failed."""
    start(name, device, seed).join()
    return report_results(name)


def report_results(name):
    """Takes over the last test's points; False if one failed."""
    good, detail = True, []
    lines = results()
    count = sum(line.startswith(("ok ", "not ok ")) for line in lines)
    # The last line; results that do not fit into the module's memory lose it.
    if not count or not guest.read(f"{FOLDER}/results").endswith(f"1..{count}\n"):
        return guest.ok(False, f"{name}: has run to its end", "\n".join(lines))
    for line in lines:
        if line.startswith("#"):
            detail.append(line[2:])
            continue
        passed = line.startswith("ok ")
        good &= guest.ok(passed, f"{name}: {line.split(' - ', 1)[1]}", "\n".join(detail))
        detail = []
    return good
