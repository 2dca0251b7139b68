# SPDX-License-Identifier: GPL-2.0
"""Tests of the guest: each in a VM of its own, or several mutants in turn in one."""

import collections
import os
import re
import shlex
import shutil
import time

from .known import BROKEN, CAUGHT, HUNG, SURVIVED, Outcome, folder_and_test
from .tree import Broken, build, make, new_log, place, run

BOOT_SECONDS = 900
# For one test: none of tests/guest/ takes a quarter of it, and a mutant often makes one
# hang. Tests of other folders give their limits in their heads.
TEST_SECONDS = 60

# Messages of the guest's kernel that a busy machine causes, too.
STALL = re.compile("soft lockup|hard LOCKUP|rcu: INFO: .* stall")

# The guest's paths of driver and provider.
TAKE_DRIVER = """take_driver() {
	rmmod moor && insmod "$1" || exit 1
	for netdev in /sys/bus/pci/drivers/moor/*/net/*; do ip link set "${netdev##*/}" up; done
}"""


def build_driver(options, log):
    """The driver's file, for the kernel of a VM with these options."""
    kind = options[options.index("--kernel") + 1] if "--kernel" in options else "newest"
    if kind in ("newest", "lts"):
        with open(f"{place.tree}/build/root/etc/moor/kernel-{kind}", encoding="ascii") as file:
            version = file.read().strip()
        build(log, "scripts/build-module", f"/lib/modules/{version}/build", f"build/modules/{version}",
              "MOOR_TESTS=m")
    else:
        folder = os.path.realpath(f"{place.tree}/build/{kind}")
        if not os.path.isdir(folder):
            raise Broken(f"there is no {kind} kernel: 'make {kind}-kernel' builds it")
        with open(f"{folder}/include/config/kernel.release", encoding="ascii") as file:
            version = file.read().strip()
        status, output = run(log, ["scripts/lib/enter-tools", "scripts/build-module", folder,
                                   f"build/modules/{version}", "MOOR_TESTS=m"])
        if status:
            raise Broken(f"does not build: {output.strip()[-200:]}")
    return f"{place.tree}/build/modules/{version}/moor.ko"


def build_all(options, log):
    """Builds everything that a VM with these options uses."""
    build_driver(options, log)
    make(log, "provider")
    make(log, "model")
    make(log, "tests")


def boot(command, options, log):
    """Runs a command in a VM. Returns status and output."""
    folder = os.path.dirname(log)
    return run(log, ["scripts/vm", "--timeout", str(BOOT_SECONDS), "--log", folder, *options, "--", *command])


def run_guest(names):
    """The command for tests of one folder; it ends at the first failure."""
    folder = folder_and_test(names[0])[0]
    return ["env", "MOOR_FIRST=yes", "tests/run-guest", "--timeout", str(TEST_SECONDS), "--folder", folder,
            *(folder_and_test(name)[1] for name in names)]


def judge(status, output):
    """The results in the output of run-guest in a VM."""
    # The output of a boot that scripts/vm has tried again does not count.
    output = re.split(r"^vm: it is booted once more\n", output, flags=re.MULTILINE)[-1]
    failed = re.search(r"^    failed: (.*)$", output, re.MULTILINE)
    slow = re.search(r"^    failed: took longer than .*$", output, re.MULTILINE)
    trouble = re.search(r"^vm: guest kernel reported a problem:\n((?:  .*\n?)*)", output, re.MULTILINE)
    death = re.search(r"^vm: the model of .*$", output, re.MULTILINE)
    if "\nvm: a breakpoint outside the driver: " in output:
        raise Broken("the emulator has spoilt the boot: a breakpoint outside the driver")
    if trouble:
        lines = [line for line in trouble.group(1).splitlines()
                 if re.search(r"BUG|WARNING|Oops|KASAN|UBSAN|panic|DMAR|refcount|corruption|blocked|stall|LOCKUP", line)]
        return Outcome(CAUGHT, f"the kernel: {re.sub(r'^ *.[^]]*. *', '', lines[0]) if lines else '?'}")
    if death:
        return Outcome(CAUGHT, death.group(0).removeprefix("vm: "))
    if status == 124 or slow and slow.group(0) == failed.group(0):
        return Outcome(HUNG, "time-out")
    if failed:
        return Outcome(CAUGHT, failed.group(1))
    if status or not re.search(r"^[1-9]\d* passed, 0 failed", output, re.MULTILINE):
        raise Broken(f"the test did not run: {output.strip()[-200:]}")
    return Outcome(SURVIVED, "")


def run_test(words, log):
    """Runs one test in a VM."""
    build_all(words[1:], log)
    outcome = judge(*boot(run_guest(words[:1]), words[1:], log))
    if STALL.search(outcome.detail):
        outcome = judge(*boot(run_guest(words[:1]), words[1:], log))
    return outcome


def log_of(what, options):
    """The log of a boot for several tests."""
    return new_log("-".join([what] + [re.sub(r"\W+", "", option) for option in options]))


def boot_suites(options, suites):
    """Runs several tests of one folder in one boot. Do all pass?"""
    log = log_of("suites", options)
    try:
        build_all(options, log)
        return judge(*boot(run_guest([suite.split()[1] for suite in suites]), options, log))
    except Broken as reason:
        return Outcome(BROKEN, str(reason))


# --- mutants that share a boot --------------------------------------------------

def one_part(mutant):
    """The part that a mutant changes, if it can be changed in a running guest."""
    words = mutant.suite.split()
    # Tests of other folders break more than one test, or take long; and a mutant that
    # hangs as announced leaves the others less time.
    if mutant.expect or words[0] != "guest" or folder_and_test(words[1])[0] != "guest":
        return None
    parts = {edit.path.split("/")[0] for edit in mutant.edits}
    return parts.pop() if parts in ({"provider"}, {"drivers"}) else None


def variant(copy, mutant, log):
    """A provider or driver of the mutant's own: the commands by which the guest loads it."""
    folder = f"{place.tree}/build/variants/{mutant.name}"
    shutil.rmtree(folder, ignore_errors=True)
    copy.become(mutant.apply(copy.sources))
    if one_part(mutant) == "provider":
        make(log, "provider")
        shutil.copytree(f"{place.tree}/build/provider", folder, symlinks=True,
                        ignore=shutil.ignore_patterns("*.o", "*.d", "kernel-abi"))
        return [f"ln -sfn {shlex.quote(folder)} /run/moor"]
    os.makedirs(folder)
    shutil.copy(build_driver(mutant.suite.split()[2:], log), folder)
    return [f"ln -sfn {shlex.quote(place.tree)}/build/provider /run/moor",
            f"take_driver {shlex.quote(folder)}/moor.ko"]


def boot_together(copy, options, mutants):
    """Runs mutants of provider or driver one after the other in one boot: {name: (outcome,
    seconds)}.

    A mutant that ends the guest is missing, with all that come after it.
    """
    started = time.monotonic()
    log = log_of("together", options)
    found, commands = {}, [TAKE_DRIVER]
    for mutant in mutants:
        try:
            take = variant(copy, mutant, log)
        except Broken as reason:
            found[mutant.name] = Outcome(BROKEN, str(reason))
            continue
        commands += [f"echo '=== {mutant.name}'", *take, shlex.join(run_guest([mutant.suite.split()[1]]))]
    try:
        copy.become({})
        build_all(options, log)
    except Broken as reason:
        return {mutant.name: (Outcome(BROKEN, str(reason)), 0) for mutant in mutants}
    _, output = boot(["sh", "-c", "\n".join(commands)], options, log)
    parts = re.split(r"^=== (\S+)\n", output, flags=re.MULTILINE)
    for name, part in zip(parts[1::2], parts[2::2]):
        totals = re.search(r"^\d+ passed, (\d+) failed.*\n", part, re.MULTILINE)
        if totals:
            found[name] = judge(int(totals.group(1)), part[:totals.end()])
    seconds = (time.monotonic() - started) / len(mutants)
    return {name: (outcome, seconds) for name, outcome in found.items()}


def run_groups(copy, mutants, keep):
    """Runs the mutants that can share boots: {name: (outcome, seconds)}. Each boot's results are
    passed to @keep when it ends."""
    groups = collections.defaultdict(list)
    for mutant in mutants:
        if one_part(mutant):
            groups[tuple(mutant.suite.split()[2:])].append(mutant)
    found = {}
    for options, group in groups.items():
        # Mutants of the provider first: they need the driver as it was loaded.
        group.sort(key=lambda mutant: one_part(mutant) != "provider")
        while len(group) > 1:
            ended = boot_together(copy, list(options), group)
            keep(ended)
            found.update(ended)
            # A mutant that has ended the guest is run in a guest of its own.
            group = [mutant for mutant in group if mutant.name not in found][1:]
    return found
