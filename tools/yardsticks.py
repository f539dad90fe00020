"""The yardsticks of the house: `python tools/yardsticks.py [--check] [--worst N]`.

Takes: the tree as git knows it, and the importable package. Gives: a table of what is measured, what is asked
and what there is, and with `--worst` the places that are furthest from what is asked. Keeps true: a row counts what its
first column says and nothing else; `--check` fails where a row misses what is asked.
"""

from __future__ import annotations

import argparse
import ast
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import api_reference
import module_imports

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "facula"
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Row(NamedTuple):
    """One measure: what is asked is a least number, or a greatest."""

    name: str
    asked: float
    at_least: bool
    measure: Callable[[], float]
    unit: str = ""

    def holds(self, found: float) -> bool:
        return found >= self.asked if self.at_least else found <= self.asked


@cache
def trees() -> dict[Path, ast.Module]:
    """The Python files of the package, parsed."""
    return {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def functions() -> Iterator[tuple[Path, Function]]:
    """Every function and method, those inside of others too."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, Function):
                yield path, node


def body_lines(function: Function) -> int:
    """Lines below the signature and the docstring."""
    first, *others = function.body
    if ast.get_docstring(function) is not None:
        if not others:
            return 0
        first = others[0]
    return (function.end_lineno or 0) - first.lineno + 1


def long_functions() -> list[tuple[int, str]]:
    """Functions by the lines of their bodies, longest first."""
    found = [(body_lines(f), f"{p.relative_to(ROOT)}:{f.lineno} {f.name}") for p, f in functions()]
    return sorted(found, reverse=True)


def arguments() -> Iterator[tuple[str, bool]]:
    """The package of each argument but `self` and `cls`, and whether it is annotated as bare Any."""
    for path, function in functions():
        own = function.args
        every = [*own.posonlyargs, *own.args, *own.kwonlyargs, own.vararg, own.kwarg]
        for argument in every:
            if argument is not None and argument.arg not in ("self", "cls"):
                bare = argument.annotation is not None and ast.unparse(argument.annotation) == "Any"
                yield path.relative_to(SOURCE).parts[0], bare


def share_of_any() -> float:
    """Bare Any among all arguments, in percent."""
    bare = [one for _, one in arguments()]
    return 100 * sum(bare) / len(bare)


def file_lengths() -> list[int]:
    """Lines of the Python files of the package, in order."""
    return sorted(len(path.read_bytes().splitlines()) for path in trees())


def circles() -> int:
    """1 where modules need each other (the first circle is printed), else 0."""
    try:
        list(TopologicalSorter(module_imports.needs()).static_order())
    except CycleError as error:
        print(*error.args[1], sep=" -> ")
        return 1
    return 0


def entries() -> int:
    """What stands directly in the package."""
    told = subprocess.run(
        ["git", "-C", SOURCE, "ls-files", "."], check=True, capture_output=True, text=True
    )
    return len({line.partition("/")[0] for line in told.stdout.splitlines()})


def emitter_lines() -> int:
    """Lines of the code emitters, without the kernels' templates."""
    folder = SOURCE / "codegen" / "c"
    texts = (path for path in folder.rglob("*.py") if "kernels" not in path.parts)
    return sum(len(path.read_bytes().splitlines()) for path in texts)


def explained() -> float:
    """Public names whose docstring tells every argument and has an example, in percent."""
    lacking = [bool(api_reference.lacks(public.value)) for public in api_reference.public_names()]
    return 100 * (1 - sum(lacking) / len(lacking))


ROWS = (
    Row("entries directly in src/facula", 30, False, entries),
    Row("functions of more than 40 lines below their docstring", 0, False,
        lambda: sum(lines > 40 for lines, _ in long_functions())),
    Row("arguments annotated as bare Any", 15, False, share_of_any, " %"),
    Row("median file, lines", 150, False, lambda: statistics.median(file_lengths())),
    Row("90th percentile file, lines", 450, False,
        lambda: file_lengths()[int(0.9 * len(file_lengths()))]),
    Row("circles between modules", 0, False, circles),
    # a quarter less than the 6298 of the two generators that there were
    Row("lines of code emitters", 4724, False, emitter_lines),
    Row("public names with a full docstring and an example", 95, True, explained, " %"),
)  # fmt: skip


def worst(count: int) -> None:
    """Print the longest functions, and bare Any by package."""
    for lines, place in long_functions()[:count]:
        print(f"{lines:7d}  {place}")
    packages: dict[str, list[bool]] = {}
    for package, bare in arguments():
        packages.setdefault(package, []).append(bare)
    for package, found in sorted(packages.items(), key=lambda row: -sum(row[1]))[:count]:
        print(f"{sum(found):7d} of {len(found)} arguments are Any in {package}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="fail where a row misses what is asked"
    )
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="so many places of each")
    options = parser.parse_args()
    missed = 0
    for row in ROWS:
        found = row.measure()
        missed += not row.holds(found)
        mark = " " if row.holds(found) else "*"
        bound = "at least" if row.at_least else "at most"
        print(f"{mark} {row.name:54s}{found:9.4g}{row.unit:3s}({bound} {row.asked:g}{row.unit})")
    worst(options.worst)
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
