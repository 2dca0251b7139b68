# SPDX-License-Identifier: GPL-2.0
"""How a suite can end, and the results of earlier runs."""

import collections
import functools
import hashlib
import json
import os
import re
import subprocess

from .tree import TOP, place

CAUGHT, SURVIVED, HUNG, BROKEN = "caught", "survived", "hung", "error"
# Of what the document permits: no case complains, or one does.
PASSED, BLAMED = "passed", "blamed"
Outcome = collections.namedtuple("Outcome", "result detail")

# The sources that decide how a suite of a kind ends: beginnings of paths.
SOURCES = {
    "model": ("include/", "model/", "model/test/unit/guest", "model/test/{test}.", "model/test/unit/{test}."),
    "conformance": ("include/", "model/", "tests/conformance/"),
    "allowed": ("include/", "model/", "tests/conformance/"),
    "kunit": ("drivers/", "include/", "kunit/", "scripts/kunit", "tests/kernel/"),
    "guest": ("drivers/", "include/", "model/", "provider/", "tests/Makefile", "tests/guest/lib/", "tests/kernels/",
              "tests/run-guest"),
    "host": ("drivers/", "include/", "model/", "provider/", "scripts/lib/", "scripts/vm", "tests/device/",
             "tests/guest/lib/", "tests/power/"),
}

# Programs that tests of the guest start.
HELPER = re.compile(r"tests/guest/(?!test_)\w+\.c$")


def folder_and_test(word):
    """For a test of the guest: "TEST" is in tests/guest/, "FOLDER/TEST" in tests/FOLDER/."""
    folder, _, test = word.rpartition("/")
    return folder or "guest", test


def sources_of(kind, name):
    """The beginnings of paths for a suite."""
    if kind != "guest":
        return tuple(prefix.replace("{test}", name) for prefix in SOURCES[kind])
    folder, test = folder_and_test(name)
    # In other folders programs share more than lib/, and one test needs a module.
    mine = f"tests/guest/{test}." if folder == "guest" else f"tests/{folder}/"
    has_module = test in ("figures", "kernel_verbs", "kernel_gone", "short")
    return (*SOURCES[kind], mine, *(["tests/kernel/"] if has_module else []))


@functools.cache
def versions():
    """The kernels, compilers and programs that suites run on: see scripts/versions."""
    return subprocess.run([f"{TOP}/scripts/lib/versions", "used"], capture_output=True, text=True, check=True).stdout


def suite_key(suite, sources, text):
    """A hash of everything that may change how @suite ends on a mutant of this text."""
    kind, name = suite.split()[:2]
    digest = hashlib.sha256(f"{suite}\0{text}\0{versions()}\0".encode())
    prefixes = sources_of(kind, name)
    for path in sorted(path for path in sources
                       if path.startswith(prefixes) or kind == "guest" and HELPER.match(path)):
        # No suite depends on the tests beside it.
        if re.match(r"model/test/(unit/)?(unit|test)_", path) and not path.startswith(prefixes[2:]):
            continue
        if re.match(r"kunit/test_", path) and f'"{name.split(".")[0]}"'.encode() not in sources[path]:
            continue
        digest.update(f"{path}\0".encode() + sources[path] + b"\0")
    return digest.hexdigest()[:16]


class Known:
    """Results by name, each with the key for which it holds."""

    def __init__(self, forget):
        self.results = {}
        if not forget and os.path.exists(place.state):
            with open(place.state, encoding="utf-8") as file:
                self.results = json.load(file)

    def get(self, name, key):
        """The outcome and its duration, or None."""
        found = self.results.get(name)
        return (Outcome(found["result"], found["detail"]), found["seconds"]) if found and found["key"] == key else None

    def put(self, name, key, outcome, seconds):
        """Stores a result, on disk when it returns; a time-out or an error, which may be the
        machine's, is none."""
        self.results.pop(name, None)
        if outcome.result not in (HUNG, BROKEN):
            self.results[name] = {"key": key, "result": outcome.result, "detail": outcome.detail,
                                  "seconds": round(seconds, 1)}
        with open(f"{place.state}.new", "w", encoding="utf-8") as file:
            json.dump(self.results, file, indent=1, sort_keys=True)
        os.replace(f"{place.state}.new", place.state)
