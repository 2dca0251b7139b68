# SPDX-License-Identifier: GPL-2.0
"""The files of tests/mutants/: their fields and replacements."""

import collections
import re

from .tree import Broken, TOP

# Those of kind "allowed" are no mistakes: the document permits them, so that no case may fail.
KINDS = ("model", "kunit", "guest", "host", "conformance", "allowed")
MUTABLE = ("drivers/", "include/", "model/", "provider/")
Edit = collections.namedtuple("Edit", "path scope old new")


class Mutant:
    """One file of tests/mutants/."""

    def __init__(self, name):
        self.name = name
        self.what = self.suite = self.expect = self.rule = ""
        self.edits = []
        with open(f"{TOP}/tests/mutants/{name}.mutant", encoding="utf-8") as file:
            self.text = file.read()
        path = scope = last = None
        for number, line in enumerate(self.text.splitlines(), 1):
            field, _, value = line.partition(":")
            if line.startswith("#") or not line.strip():
                last = None
            elif line[0] in "-+":
                if last not in ("-", "+") or (last, line[0]) == ("+", "-"):
                    self.edits.append(Edit(path, scope, [], []))
                self.edits[-1][2 if line[0] == "-" else 3].append(line[1:].removeprefix(" "))
                last = line[0]
            elif field in ("What", "Rule", "Suite", "Expect", "File", "In"):
                last = field
                if field == "File":
                    path, scope = value.strip(), None
                elif field == "In":
                    scope = value.strip()
                else:
                    setattr(self, field.lower(), value.strip())
            elif line[0].isspace() and last == "What":
                self.what += " " + line.strip()
            else:
                raise Broken(f"{name}.mutant:{number}: not understood: {line}")
        self.check()

    def check(self):
        """Are all fields given?"""
        kind = self.suite.split()[0] if self.suite else ""
        if not self.what or kind not in KINDS or len(self.suite.split()) < 2 or not self.edits:
            raise Broken(f"{self.name}.mutant: What, Suite or the replacements are missing or wrong")
        if kind == "allowed":
            if not self.rule or not re.fullmatch(r"(\d+ skipped)?", self.expect):
                raise Broken(f"{self.name}.mutant: the Rule that allows it is missing, or Expect is not 'N skipped'")
        elif self.expect not in ("", "hang"):
            raise Broken(f"{self.name}.mutant: Expect: {self.expect}: only a hang can be announced")
        for edit in self.edits:
            if not edit.path or not edit.path.startswith(MUTABLE) or not edit.old:
                raise Broken(f"{self.name}.mutant: a replacement without text to replace, or in no part "
                             f"that is tested: {edit.path}")

    @property
    def shows_outside(self):
        """Can the mistake be seen from outside of the device?"""
        return not self.is_allowed and bool(self.rule) and not self.rule.startswith("inside:")

    @property
    def is_allowed(self):
        """Is it no mistake, but what the document permits?"""
        return self.kind == "allowed"

    @property
    def kind(self):
        """The kind of its suite."""
        return self.suite.split()[0]

    def apply(self, sources):
        """The files that it changes: {path: bytes}."""
        changed = {}
        for edit in self.edits:
            if edit.path not in sources:
                raise Broken(f"does not apply: there is no {edit.path}")
            text = changed.get(edit.path, sources[edit.path]).decode()
            start, end = 0, len(text)
            if edit.scope:
                start, end = find_scope(text, edit.scope, edit.path)
            # Indentation and line breaks may differ, words may not.
            words = "\n".join(edit.old).split()
            pattern = re.compile(r"\s+".join(re.escape(word) for word in words))
            found = list(pattern.finditer(text, start, end))
            if len(found) != 1:
                where = f"{edit.path}{', ' + edit.scope if edit.scope else ''}"
                raise Broken(f"does not apply: '{' '.join(words)[:60]}' is {len(found)} times in {where}")
            at = found[0].start()
            indent = re.search(r"[ \t]*$", text[:at]).group(0)
            new = f"\n{indent}".join(edit.new).strip()
            text = text[:at] + new + text[found[0].end():]
            changed[edit.path] = text.encode()
        return changed

    def trouble(self, sources):
        """Why the mutant does not apply, or None."""
        try:
            self.apply(sources)
        except Broken as reason:
            return f"{self.name}.mutant: {reason}"
        return None


def find_scope(text, name, path):
    """Start and end of the definition of @name, a function or a table."""
    found = list(re.finditer(rf"^(?![\s*/#}}])[^;{{}}]*\b{re.escape(name)}\b[^;{{}}]*\{{", text, re.MULTILINE))
    if len(found) != 1:
        raise Broken(f"does not apply: {name} is defined {len(found)} times in {path}")
    return found[0].start(), text.index("\n}", found[0].end() - 1)
