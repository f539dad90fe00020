"""`FileCheck`: checks that a text has parts in an order, in the manner of LLVM's tool of that name.

Takes: checks, one after the other; a text, or a file's text. Gives: nothing, or RuntimeError with the place
where it fails.
Keeps true: each check looks behind what the one before found; a `check_not` between two others holds for what
is between them.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from facula.core.errors import fail

__all__ = ["FileCheck"]


class FileCheck:
    """Checks of a text, one after another.

    Example:
        >>> checks = facula.testing.FileCheck().check("a").check_not("b").check_next("c")
        >>> checks.run("a\\nc\\n")
    """

    def __init__(self) -> None:
        self._checks: list[tuple[str, Any, int]] = []

    def _add(self, kind: str, what: object, count: int = 1) -> FileCheck:
        self._checks.append((kind, what, count))
        return self

    def check(self, test_string: str) -> FileCheck:
        """The text comes somewhere behind."""
        return self._add("check", test_string)

    def check_not(self, test_string: str) -> FileCheck:
        """The text does not come before what the next check finds, or to the end."""
        return self._add("not", test_string)

    def check_same(self, test_string: str) -> FileCheck:
        """The text comes behind, on the same line."""
        return self._add("same", test_string)

    def check_next(self, test_string: str) -> FileCheck:
        """The text comes on the next line."""
        return self._add("next", test_string)

    def check_count(self, test_string: str, count: int, exactly: bool = False) -> FileCheck:
        """The text comes so many times; `exactly`: and not once more."""
        self._add("count", test_string, count)
        return self._add("not", test_string) if exactly else self

    def check_dag(self, test_string: str) -> FileCheck:
        """The text comes behind, in whatever order with its neighbours of the same kind."""
        return self._add("dag", test_string)

    def check_regex(self, test_string: str) -> FileCheck:
        """A match of the pattern comes somewhere behind."""
        return self._add("regex", re.compile(test_string))

    def check_source_highlighted(self, test_string: str) -> FileCheck:
        """The text comes with a row of `~` under it."""
        return self._add("highlighted", test_string)

    def run(self, *given: object, checks_file: object = None, test_file: object = None) -> None:
        """Raise RuntimeError where a text (or a graph, by its text) does not do what the checks say.

        Args:
            *given: the text, or the text with the checks in it (`# CHECK: add`) and the one that is checked
            checks_file: the text with the checks in it
            test_file: the text
        """
        if len(given) + (checks_file is not None) + (test_file is not None) == 2:
            checks, tested = [*given, *(x for x in (checks_file, test_file) if x is not None)]
            made = FileCheck()
            made._checks = _written_checks(str(checks))
            made.run(tested)
            return
        text, at = str(given[0] if given else test_file), 0
        refused: list[str] = []
        checks, n = self._checks, 0
        while n < len(checks):
            kind, what, count = checks[n]
            if kind == "not":
                refused.append(what)
                n += 1
                continue
            begin = end = at
            if kind == "dag":
                ends = []
                while n < len(checks) and checks[n][0] == "dag":
                    begin, found = self._find(text, at, "dag", checks[n][1])
                    ends.append(found)
                    n += 1
                end = max(ends)
            else:
                for k in range(count):
                    start, end = self._find(text, end, kind, what)
                    begin = start if k == 0 else begin
                n += 1
            self._refuse(refused, text[at:begin])
            refused, at = [], end
        self._refuse(refused, text[at:])

    def _find(self, text: str, at: int, kind: str, what: Any) -> tuple[int, int]:
        if kind == "regex":
            match = what.search(text, at)
            return (
                match.span() if match else _fails(f"to find a match of {what.pattern!r}", text[at:])
            )
        begin = text.find(what, at)
        if begin < 0:
            _fails(f'to find "{what}"', text[at:])
        between = text[at:begin]
        if kind == "same" and "\n" in between:
            _fails(f'to find "{what}" on the same line', between)
        if kind == "next" and between.count("\n") != 1:
            _fails(f'to find "{what}" on the next line', between)
        end = begin + len(what)
        while kind == "highlighted" and not _highlighted(text, begin, end):
            again = text.find(what, begin + 1)
            if again < 0:
                _fails(
                    f'"{what}" to be highlighted', text[text.rfind("\n", 0, begin) + 1 : end + 160]
                )
            begin, end = again, again + len(what)
        return begin, end

    @staticmethod
    def _refuse(refused: list[str], between: str) -> None:
        for what in refused:
            if what in between:
                _fails(f'to not find "{what}"', between)


def _highlighted(text: str, begin: int, end: int) -> bool:
    """Whether the line below marks this piece of a line."""
    column = begin - (text.rfind("\n", 0, begin) + 1)
    below = text.find("\n", end) + 1
    length = end - begin
    return below > 0 and text[below + column : below + column + length] == "~" * length


_MARK = re.compile(
    r"CHECK(?:-(?P<kind>NEXT|SAME|NOT|DAG|SOURCE-HIGHLIGHTED|REGEX|COUNT(?P<exactly>-EXACTLY)?-(?P<count>\d+)))?:"
    r"(?P<what>.*)"
)
_KINDS = {None: "check", "NEXT": "next", "SAME": "same", "NOT": "not", "DAG": "dag",
          "SOURCE-HIGHLIGHTED": "highlighted"}  # fmt: skip


def _written_checks(text: str) -> list[tuple[str, Any, int]]:
    """The checks that stand in a text, one a line."""
    found: list[tuple[str, Any, int]] = []
    for line in text.splitlines():
        if "CHECK" not in line:
            continue
        match = _MARK.search(line)
        if match is None:
            fail(RuntimeError, "FileCheck", "a check such as '# CHECK-NEXT: add' was required (Could not parse check)",
                 line.strip(), hint="CHECK, -NEXT, -SAME, -NOT, -DAG, -COUNT-2, -COUNT-EXACTLY-2, -REGEX")  # fmt: skip
        what = match["what"].strip()
        if match["count"]:
            found.append(("count", what, int(match["count"])))
            if match["exactly"]:
                found.append(("not", what, 1))
        elif match["kind"] == "REGEX":
            found.append(("regex", re.compile(what), 1))
        else:
            found.append((_KINDS[match["kind"]], what, 1))
    return found


def _fails(expected: str, text: str) -> NoReturn:
    fail(
        RuntimeError,
        "FileCheck",
        f"a text that passes was required: Expected {expected}",
        f"from here\n{text}",
        hint="print the text to see what is there",
    )
