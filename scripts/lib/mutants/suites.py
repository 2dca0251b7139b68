# SPDX-License-Identifier: GPL-2.0
"""How the suite of each kind is run on the copy, and how its output is read."""

import os
import re
import shutil
import signal

from . import guest
from .known import BROKEN, CAUGHT, HUNG, SURVIVED, Outcome
from .tree import Broken, make, place, run

# Of timeout, env and chroot, if there is nothing to run; and of what is killed, as the kernel
# does if memory is short.
NOT_RUN = (125, 126, 127, 137, -signal.SIGKILL)
CRASHED = (-signal.SIGABRT, -signal.SIGBUS, -signal.SIGFPE, -signal.SIGILL, -signal.SIGSEGV)
SUITE_SECONDS = {"model": 120, "conformance": 120, "allowed": 900, "kunit": 200, "kunit --guest": 900, "host": 600}


def must_have_run(status, output):
    """Raises Broken if a suite on the host has said nothing that is a verdict."""
    cases = re.search(r"^(?:not )?ok ", output, re.MULTILINE)
    complaint = re.search(r"Sanitizer: |runtime error: |Bail out!", output)
    if status in NOT_RUN or not (cases or complaint or status in CRASHED):
        raise Broken(f"the suite ran no case, status {status}: {output.strip()[-200:]}")


def run_model(words, log):
    """One program of model/test/."""
    program, out = words[0], f"{place.tree}/build/model"
    if program.startswith("unit_"):
        path = f"{out}/unit/{program.removeprefix('unit_')}"
        make(log, "model", path)
    else:
        path = f"{out}/test/{program}"
        make(log, "model", f"{out}/san/moor-nic", path)
    environment = dict(os.environ, MOOR_NIC=f"{out}/san/moor-nic", ASAN_OPTIONS="abort_on_error=1:detect_leaks=1")
    status, output = run(log, ["scripts/in-root", "--", "timeout", str(SUITE_SECONDS["model"]), path],
                         env=environment)
    if status == 124:
        return Outcome(HUNG, "time-out")
    must_have_run(status, output)
    failed = re.search(r"^not ok \d+ - (.*)$", output, re.MULTILINE)
    if failed:
        return Outcome(CAUGHT, failed.group(1))
    if status:
        report = re.search(r"^.*(?:Sanitizer: \S+|runtime error: .*|Bail out!.*)", output, re.MULTILINE)
        return Outcome(CAUGHT, report.group(0).strip() if report else f"status {status}")
    return Outcome(SURVIVED, "")


def build_conformance(log):
    """Builds the conformance suite and a NIC for it. Returns a function that runs it with
    options of the two: status and output."""
    nic, suite = f"{place.tree}/build/model/san/moor-nic", f"{place.tree}/build/tests/conformance/moor-conformance"
    make(log, "model", nic)
    make(log, "tests/conformance", suite)
    environment = dict(os.environ, ASAN_OPTIONS="abort_on_error=1:detect_leaks=1")
    return lambda kind, *options: run(log, ["scripts/in-root", "--", "timeout", str(SUITE_SECONDS[kind]), suite,
                                            "--nic", nic, *options], env=environment)


def run_conformance(_words, log):
    """The conformance suite up to the first failing case: on a strict NIC, on one that
    writes late, and on NICs that lack features."""
    conformance = build_conformance(log)
    with open(f"{place.tree}/tests/conformance/lesser", encoding="ascii") as file:
        lesser = [[f"--without={line.strip()}"] for line in file if not line.startswith("#")]
    for options in ([], ["--strict"], ["--trap-bar2"], *lesser):
        status, output = conformance("conformance", "--first", "--", *options)
        failed = re.search(r"^not ok \d+ - (.*)$|^(Bail out!.*)$", output, re.MULTILINE)
        if status == 124 and not failed:
            return Outcome(HUNG, "time-out")
        must_have_run(status, output)
        if failed or status:
            return Outcome(CAUGHT, failed.group(1) or failed.group(2) if failed else f"status {status}")
    return Outcome(SURVIVED, "")


def run_allowed(_words, log):
    """All of the conformance suite: what fails, or how many cases pass."""
    status, output = build_conformance(log)("allowed")
    failed = re.findall(r"^not ok \d+ - (.*)$|^(Bail out!.*)$", output, re.MULTILINE)
    if status == 124 and not failed:
        return Outcome(HUNG, "time-out")
    must_have_run(status, output)
    if failed or status:
        names = [case or end for case, end in failed] or [f"status {status}"]
        return Outcome(CAUGHT, f"{len(names)} failed: {'; '.join(names)}")
    return Outcome(SURVIVED, re.search(r"^# cases: (\d+ passed)", output, re.MULTILINE).group(1))


def run_kunit(words, log):
    """One suite of kunit/, or all of them; with --guest in the virtual machine."""
    kind = "kunit --guest" if "--guest" in words else "kunit"
    console = f"{place.tree}/build/{kind.replace(' --', '-')}/console.log"
    if os.path.exists(console):
        os.unlink(console)
    glob = words[0] if "." in words[0] else f"{words[0]}.*"
    status, output = run(log, ["scripts/kunit", *words[1:], glob],
                         env=dict(os.environ, MOOR_KUNIT_TIMEOUT=str(SUITE_SECONDS[kind])))
    if not os.path.exists(console):
        found = re.findall(r"^.*(?:error:|warning:|\*\*\*|undefined!).*$", output, re.MULTILINE)
        raise Broken(f"does not build: {found[0] if found else output.strip()[-200:]}")
    shutil.copy(console, os.path.dirname(log))
    # What fails may end the case in a crash, so that its line does not come.
    failed = re.search(r"^ *not ok \d+ (.*)$", output, re.MULTILINE) or \
        re.search(r"^ *# (.*: (?:EXPECTATION|ASSERTION) FAILED at .*)$", output, re.MULTILINE)
    if "kunit: stopped after" in output and not failed:
        return Outcome(HUNG, "time-out")
    if not status:
        return Outcome(SURVIVED, "")
    complaint = re.search(r"^kunit: the kernel complained: (?:\d+:)?(.*)$", output, re.MULTILINE)
    if failed or complaint:
        return Outcome(CAUGHT, failed.group(1) if failed else complaint.group(1))
    raise Broken(f"the suite did not run: {output.strip()[-200:]}")


def run_host(words, log):
    """A command that boots VMs and prints TAP."""
    guest.build_all([], log)
    status, output = run(log, ["timeout", str(SUITE_SECONDS["host"]), *words])
    failed = re.search(r"^not ok\b[ \d]*- (.*)$", output, re.MULTILINE)
    if failed:
        return Outcome(CAUGHT, failed.group(1))
    if status == 124:
        return Outcome(HUNG, "time-out")
    if status or not re.search(r"^1\.\.[1-9]", output, re.MULTILINE):
        raise Broken(f"the test did not run: {output.strip()[-200:]}")
    return Outcome(SURVIVED, "")


RUN = {"model": run_model, "conformance": run_conformance, "allowed": run_allowed, "kunit": run_kunit,
       "guest": guest.run_test, "host": run_host}


def attempt(suite, log):
    """Runs a suite on the copy."""
    words = suite.split()
    try:
        return RUN[words[0]](words[1:], log)
    except Broken as reason:
        return Outcome(BROKEN, str(reason))
