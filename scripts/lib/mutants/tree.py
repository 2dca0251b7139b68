# SPDX-License-Identifier: GPL-2.0
"""The copy of the sources that is built, and how it is built."""

import os
import re
import shlex
import shutil
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))
COPIED = ("Documentation/hardware-interface.rst", "Documentation/hardware-layouts.rst", "Kbuild",
          "Makefile", "drivers", "include", "kunit", "model", "provider", "scripts", "tests")


class Place:
    """The folders of this run."""

    work = f"{TOP}/build/mutants"

    @property
    def tree(self):
        """The copy of the sources, and its builds."""
        return f"{self.work}/tree"

    @property
    def state(self):
        """The results so far."""
        return f"{self.work}/state.json"


class Broken(Exception):
    """An error that is not the suite's verdict on a mutant."""


place = Place()


def read_sources():
    """The files to copy: {path: bytes}."""
    sources = {}
    for part in COPIED:
        if os.path.isfile(f"{TOP}/{part}"):
            paths = [part]
        else:
            paths = [os.path.relpath(f"{folder}/{name}", TOP)
                     for folder, _, names in os.walk(f"{TOP}/{part}") for name in names]
        for path in paths:
            with open(f"{TOP}/{path}", "rb") as file:
                sources[path] = file.read()
    return sources


class Copy:
    """The tree that is built; only changed files are written, so that little is compiled."""

    def __init__(self, sources):
        self.sources = sources
        self.now = {}
        os.makedirs(f"{place.tree}/build", exist_ok=True)
        for link in ("root", "rdma-core", "tools", "uml", "debug"):
            if os.path.islink(f"{TOP}/build/{link}"):
                target = f"{place.tree}/build/{link}"
                if os.path.islink(target):
                    os.unlink(target)
                os.symlink(os.path.realpath(f"{TOP}/build/{link}"), target)
        for folder, folders, names in os.walk(place.tree):
            if folder == place.tree:
                folders.remove("build")
            for name in names:
                path = os.path.relpath(f"{folder}/{name}", place.tree)
                with open(f"{place.tree}/{path}", "rb") as file:
                    self.now[path] = file.read()

    def become(self, changed):
        """The sources, with the files of @changed replaced."""
        wanted = {**self.sources, **changed}
        for path in [path for path in self.now if path not in wanted]:
            os.unlink(f"{place.tree}/{path}")
            del self.now[path]
        for path, content in wanted.items():
            if self.now.get(path) == content:
                continue
            os.makedirs(os.path.dirname(f"{place.tree}/{path}"), exist_ok=True)
            with open(f"{place.tree}/{path}", "wb") as file:
                file.write(content)
            shutil.copymode(f"{TOP}/{path}", f"{place.tree}/{path}")
            self.now[path] = content


def new_log(name):
    """A log file in a folder of its own."""
    folder = f"{place.work}/log/{name}"
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return f"{folder}/log"


def run(log, command, **options):
    """Runs @command in the copy. Returns status and output."""
    done = subprocess.run(command, cwd=place.tree, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, **options)
    output = done.stdout.decode(errors="replace")
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"$ {shlex.join(command)}\n{output}\n")
    return done.returncode, output


def build(log, *command):
    """One step of building, inside the root."""
    status, output = run(log, ["scripts/in-root", "--", *command])
    if status:
        found = re.findall(r"^.*(?:error:|\*\*\*|No rule).*$", output, re.MULTILINE)
        raise Broken(f"does not build: {found[0] if found else output.strip()[-200:]}")


def make(log, folder, *targets):
    """make -C @folder, into the copy's build folder."""
    variables = [f"O={place.tree}/build/{folder}"]
    if folder == "provider":
        variables += [f"RDMA_CORE_BUILD={place.tree}/build/rdma-core/build"]
    build(log, "make", "-s", f"-j{os.cpu_count()}", "-C", folder, *variables, *targets)
