"""Runs a page of the documentation: each block, and below it what it printed.

    python tools/site_tutorials.py docs/tutorials/train.md

Takes a page whose blocks are fenced as ``python`` (``python raises`` where an error is the point).
Gives the page with a ``text`` block behind each that printed something or ends in a value.
Keeps true: blocks share their names and are numbered as one program; an error that was not announced, a warning, or an
announced one that does not come, ends the run with the page's name and line of its program; the folder that a page
writes to is thrown away.
"""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```python([^\n]*)\n(.*?)^```\n", re.S | re.M)


def _statements(text: str, name: str, line: int) -> Iterator[Any]:
    """The compiled statements of a block; its last expression is shown, as a session does."""
    tree = ast.parse(text, name)
    ast.increment_lineno(tree, line)
    *body, last = tree.body
    if body:
        yield compile(ast.Module(body, []), name, "exec")
    if isinstance(last, ast.Expr):
        yield compile(ast.Interactive([last]), name, "single")
    else:
        yield compile(ast.Module([last], []), name, "exec")


def _output(text: str, name: str, line: int, names: dict[str, Any], raises: bool) -> str:
    """What a block prints; of an announced error, its kind and message."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            for code in _statements(text, name, line):
                exec(code, names)
        except Exception as error:
            if not raises:
                raise RuntimeError(f"{name}, block at line {line + 1}: {error}") from error
            print(f"{type(error).__name__}: {error}")
        else:
            if raises:
                raise RuntimeError(f"{name}, block at line {line + 1}: an error was announced")
    return printed.getvalue().rstrip()


def executed(page: Path) -> str:
    """The page, with what its blocks print."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    name = page.with_suffix(".py").name
    program: list[str] = []

    def run(found: re.Match[str]) -> str:
        line = len(program)
        program.extend(found[2].splitlines(keepends=True))
        # capture and its reports look for source lines where Python does
        linecache.cache[name] = (len(text), None, program, name)
        output = _output(found[2], name, line, names, found[1].strip() == "raises")
        shown = f"\n```text\n{output}\n```\n" if output else ""
        return f"```python\n{found[2]}```\n{shown}"

    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return BLOCK.sub(run, text)
        finally:
            os.chdir(here)


if __name__ == "__main__":
    sys.stdout.write(executed(Path(sys.argv[1]).resolve()))
