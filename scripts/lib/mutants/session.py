# SPDX-License-Identifier: GPL-2.0
"""One run of scripts/mutants: first the suites without a mutant, then each mutant."""

import collections
import re
import time

from . import guest
from .known import BLAMED, BROKEN, CAUGHT, HUNG, PASSED, SURVIVED, Known, Outcome, folder_and_test, suite_key
from .mutant import KINDS
from .suites import attempt
from .tree import Broken, Copy, new_log, read_sources


class Session:
    """The options and mutants of a run."""

    def __init__(self, options, mutants):
        self.sources = read_sources()
        self.copy = Copy(self.sources)
        self.known = Known(options.again)
        self.named = set(options.names)
        self.mutants = mutants
        # Cases that pass without any mutant, of the suite of those that are allowed.
        self.passes = 0
        self.rows = []

    def baseline(self, suites):
        """Runs suites of one kind on the unchanged sources: {suite: why it fails, or ''}."""
        keys = {suite: suite_key(suite, self.sources, "") for suite in suites}
        found = {suite: self.known.get(f"suite {suite}", key) for suite, key in keys.items()}
        # Guest tests of a folder with the same machine share a boot, and so do all of KUnit's
        # under UML; in the guest they would take an hour.
        groups = collections.defaultdict(list)
        for suite in suites:
            if not found[suite] or found[suite][0].result != SURVIVED:
                words = suite.split()
                shared = {"kunit": (suite,) if words[2:] else ("kunit",),
                          "guest": (folder_and_test(words[1])[0], *words[2:])}
                groups[shared.get(words[0], (suite,))].append(suite)
        if groups:
            self.copy.become({})
        for (_, *options), group in groups.items():
            kind = group[0].split()[0]
            started = time.monotonic()
            together = Outcome(BROKEN, "")
            if kind == "guest" and len(group) > 1:
                together = guest.boot_suites(options, group)
            elif kind == "kunit" and len(group) > 1:
                together = attempt("kunit *.*", new_log("kunit-all"))
            # If they fail together, run each by itself.
            outcomes = [together] * len(group) if together.result == SURVIVED else [
                attempt(suite, new_log(re.sub(r"\W+", "-", suite))) for suite in group]
            for suite, outcome in zip(group, outcomes):
                found[suite] = (outcome, time.monotonic() - started)
                self.known.put(f"suite {suite}", keys[suite], *found[suite])
        for suite, (outcome, _) in found.items():
            if suite.split()[0] == "allowed" and outcome.result == SURVIVED:
                self.passes = int(outcome.detail.split()[0])
        return {suite: "" if outcome.result == SURVIVED else f"{outcome.result}: {outcome.detail}"
                for suite, (outcome, _) in found.items()}

    def run_one(self, mutant):
        """Runs a mutant: the outcome, and how long it took."""
        started = time.monotonic()
        try:
            changed = mutant.apply(self.sources)
        except Broken as reason:
            return Outcome(BROKEN, str(reason)), 0
        self.copy.become(changed)
        outcome = attempt(mutant.suite, new_log(mutant.name))
        if outcome.result == HUNG and mutant.expect == "hang":
            outcome = Outcome(CAUGHT, "hangs, as announced")
        elif outcome.result == HUNG:
            outcome = Outcome(HUNG, "a time-out that was not announced")
        if mutant.is_allowed:
            outcome = self.judge_allowed(mutant, outcome)
        return outcome, time.monotonic() - started

    def judge_allowed(self, mutant, outcome):
        """Turns the result round; what is skipped instead tests nothing."""
        if outcome.result == CAUGHT:
            return Outcome(BLAMED, outcome.detail)
        if outcome.result != SURVIVED:
            return outcome
        skipped = self.passes - int(outcome.detail.split()[0])
        if skipped > int(mutant.expect.partition(" ")[0] or 0):
            return Outcome(BLAMED, f"{skipped} cases are skipped")
        return Outcome(PASSED, outcome.detail)

    def run(self):
        """Runs everything, one kind of suites after the other."""
        print(f"TAP version 13\n1..{len(self.mutants)}", flush=True)
        for kind in KINDS:
            mutants = sorted((m for m in self.mutants if m.kind == kind), key=lambda m: (m.suite, m.name))
            keys = {m.name: suite_key(m.suite, self.sources, m.text) for m in mutants}
            known = {m.name: self.known.get(m.name, keys[m.name]) for m in mutants if m.name not in self.named}
            todo = [m for m in mutants if not known.get(m.name)]
            failing = self.baseline(sorted({m.suite for m in todo})) if todo else {}

            def keep(ended, keys=keys):
                for name, (outcome, seconds) in ended.items():
                    self.known.put(name, keys[name], outcome, seconds)

            together = guest.run_groups(self.copy, [m for m in todo if not failing[m.suite]], keep)
            for mutant in mutants:
                if known.get(mutant.name):
                    self.show(mutant, *known[mutant.name], " (known)")
                elif failing[mutant.suite]:
                    self.show(mutant, Outcome(BROKEN, f"its suite fails without it: {failing[mutant.suite]}"), 0)
                else:
                    if mutant.name not in together:
                        together[mutant.name] = self.run_one(mutant)
                        keep({mutant.name: together[mutant.name]})
                    self.show(mutant, *together[mutant.name])
        self.copy.become({})
        return self.table()

    def show(self, mutant, outcome, seconds, remark=""):
        """A TAP line."""
        number = len(self.rows) + 1
        if outcome.result == CAUGHT:
            print(f"ok {number} - {mutant.name} caught by {mutant.suite}: {outcome.detail}{remark}", flush=True)
        elif outcome.result == PASSED:
            print(f"ok {number} - {mutant.name} is allowed: {outcome.detail}{remark}", flush=True)
        else:
            print(f"not ok {number} - {mutant.name} {outcome.result}, {mutant.suite}{': ' if outcome.detail else ''}"
                  f"{outcome.detail}{remark}\n# {mutant.what}", flush=True)
        self.rows.append((mutant, outcome, seconds))

    def table(self):
        """Reports all results once more. Were all mutants caught?"""
        print(f"#\n# {'mutant':<28} {'result':<9} {'s':>5}  {'suite':<34} first failing case")
        for mutant, outcome, seconds in sorted(self.rows, key=lambda row: row[0].name):
            print(f"# {mutant.name:<28} {outcome.result:<9} {seconds:5.0f}  {mutant.suite:<34} {outcome.detail[:70]}")
        counts = collections.Counter(outcome.result for _, outcome, _ in self.rows)
        allowed = sum(mutant.is_allowed for mutant, _, _ in self.rows)
        print(f"#\n# {len(self.rows) - allowed} mutants: {counts[CAUGHT]} caught, {counts[SURVIVED]} survived, "
              f"{counts[HUNG]} hung, {counts[BROKEN]} errors; {sum(row[2] for row in self.rows):.0f} s", flush=True)
        if allowed:
            print(f"# {allowed} that the document permits: {counts[PASSED]} passed, {counts[BLAMED]} blamed",
                  flush=True)
        return counts[CAUGHT] + counts[PASSED] == len(self.rows) > 0
