"""Instruction counts by Valgrind's callgrind.

Takes: a statement, its setup and globals. Gives: `CallgrindStats`, how many instructions each function
executed, without those of an empty loop.
Keeps true: only what runs inside the loop is counted: it is called through one C function that has
callgrind start and stop. Without Valgrind the error says how to get it.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import types
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import facula
from facula.core.errors import fail
from facula.runtime import libraries
from facula.runtime.compile import compile_library
from facula.utils.benchmark.measurement import TaskSpec

#: variants whose instructions Valgrind knows, the best first
VALGRIND_VARIANTS = ("v3", "v2")
GATE = """\
#include <valgrind/callgrind.h>
void facula_measured(void (*body)(void)) {
    CALLGRIND_TOGGLE_COLLECT;
    body();
    CALLGRIND_TOGGLE_COLLECT;
}
"""
SCRIPT = """\
import ctypes, importlib, pickle, sys
with open({data!r}, "rb") as file:
    stored = pickle.load(file)
for name, (kind, value) in stored.items():
    if kind == "module":
        value = importlib.import_module(value)
    elif kind == "tensor":
        import io, facula
        value = facula.load(io.BytesIO(value))
    globals()[name] = value
{copied}
{setup}
def measured_loop():
    global measured_finished
    for measured_round in range({number}):
{stmt}
    measured_finished = True
measured_loop()
measured_finished = False
gate = ctypes.PyDLL({gate!r})
gate.facula_measured(ctypes.PYFUNCTYPE(None)(measured_loop))
sys.exit(0 if measured_finished else 1)
"""


class CopyIfCallgrind:
    """A global that travels to the process in which instructions are counted, by pickling; `setup` is
    run there before, for what unpickling needs.
    """

    def __init__(self, value: Any, *, setup: str | None = None) -> None:
        self._value = value
        self._setup = setup or ""
        for attribute in ("value", "setup"):
            if hasattr(value, attribute) and isinstance(value, CopyIfCallgrind):
                fail(
                    ValueError,
                    "CopyIfCallgrind",
                    "a value that is not wrapped yet was required",
                    hint="pass the value itself",
                )

    @property
    def value(self) -> Any:
        """The wrapped value."""
        return self._value

    @property
    def setup(self) -> str:
        """What is run before the value is made again."""
        return self._setup

    @staticmethod
    def unwrap_all(globals: dict[str, Any]) -> dict[str, Any]:  # noqa: A002 - PyTorch's name
        """The globals without their wrappers."""
        return {k: v.value if isinstance(v, CopyIfCallgrind) else v for k, v in globals.items()}


#: CPython's functions that search a dictionary
_LOOKUP = re.compile(r"dictobject\.c:(lookdict|unicodekeys_lookup|dictkeys_)")


class FunctionCount(NamedTuple):
    """How many instructions a function executed."""

    count: int  # type: ignore[assignment]  # PyTorch's name, which tuples have a method of
    function: str


@dataclasses.dataclass(repr=False, eq=False, frozen=True)
class FunctionCounts:
    """Counts by function, the largest first; differences may be negative."""

    _data: tuple[FunctionCount, ...]
    inclusive: bool
    truncate_rows: bool = True
    _linewidth: int | None = None

    def __iter__(self) -> Iterator[FunctionCount]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, item: Any) -> Any:
        data = self._data[item]
        return data if isinstance(data, FunctionCount) else self._with(data)

    def _with(self, data: Any) -> FunctionCounts:
        return FunctionCounts(tuple(data), self.inclusive, self.truncate_rows, self._linewidth)

    def _combined(self, other: FunctionCounts, sign: int) -> FunctionCounts:
        if self.inclusive != other.inclusive:
            fail(
                ValueError,
                "FunctionCounts",
                "counts of one kind, inclusive or exclusive, were required",
                hint="stats(inclusive=...) gives either kind",
            )
        totals: dict[str, int] = defaultdict(int)
        for count, function in self:
            totals[function] += count
        for count, function in other:
            totals[function] += sign * count
        return self._with(_ordered({f: c for f, c in totals.items() if c}))

    def __add__(self, other: FunctionCounts) -> FunctionCounts:
        return self._combined(other, 1)

    def __sub__(self, other: FunctionCounts) -> FunctionCounts:
        return self._combined(other, -1)

    def __mul__(self, factor: float) -> FunctionCounts:
        return self._with(FunctionCount(int(c * factor), f) for c, f in self)

    def transform(self, map_fn: Callable[[str], str]) -> FunctionCounts:
        """The counts under other names; those that become equal are added."""
        totals: dict[str, int] = defaultdict(int)
        for count, function in self:
            totals[map_fn(function)] += count
        return self._with(_ordered(totals))

    def filter(self, filter_fn: Callable[[str], bool]) -> FunctionCounts:
        """The counts of the functions that `filter_fn` keeps."""
        return self._with(x for x in self if filter_fn(x.function))

    def sum(self) -> int:
        """All counts together."""
        return sum(count for count, _ in self)

    def denoise(self) -> FunctionCounts:
        """Without dictionary look-ups: how long they probe depends on addresses."""
        return self.filter(lambda name: not _LOOKUP.search(name))

    def __repr__(self) -> str:
        rows = list(self)
        cut = self.truncate_rows and len(rows) > 18
        width = max((len(str(c)) for c, _ in rows), default=1)
        shown = [f"  {c:>{width}}  {f}" for c, f in (rows[:9] if cut else rows)]
        if cut:
            shown += ["  ..."] + [f"  {c:>{width}}  {f}" for c, f in rows[-9:]]
        return "\n".join([super().__repr__(), *shown, "", f"Total: {self.sum()}"])


def _ordered(totals: dict[str, int]) -> list[FunctionCount]:
    return sorted((FunctionCount(c, f) for f, c in totals.items()), reverse=True)


@dataclasses.dataclass(repr=False, eq=False, frozen=True)
class CallgrindStats:
    """The instructions of a statement, and of the empty loop that ran beside it."""

    task_spec: TaskSpec
    number_per_run: int
    built_with_debug_symbols: bool
    baseline_inclusive_stats: FunctionCounts
    baseline_exclusive_stats: FunctionCounts
    stmt_inclusive_stats: FunctionCounts
    stmt_exclusive_stats: FunctionCounts
    stmt_callgrind_out: str | None

    def stats(self, inclusive: bool = False) -> FunctionCounts:
        """Counts by function, without those of the empty loop where they are exclusive."""
        if inclusive:
            return self.stmt_inclusive_stats - self.baseline_inclusive_stats
        return self.stmt_exclusive_stats - self.baseline_exclusive_stats

    def counts(self, *, denoise: bool = False) -> int:
        """All instructions of the statement, without those of the empty loop."""
        stats = self.stmt_exclusive_stats
        return (stats.denoise() if denoise else stats).sum() - (
            self.baseline_exclusive_stats.denoise() if denoise else self.baseline_exclusive_stats
        ).sum()

    def delta(self, other: CallgrindStats, inclusive: bool = False) -> FunctionCounts:
        """What this has more of, by function, than another."""
        return self.stats(inclusive) - other.stats(inclusive)

    def as_standardized(self) -> CallgrindStats:
        """With paths cut to what two installations have in common."""

        def short(name: str) -> str:
            for root in (sys.prefix, sys.base_prefix, os.getcwd()):
                name = name.replace(root.rstrip("/") + "/", "")
            return re.sub(r"^.*/(Objects|Python|Modules|facula)/", r"\1/", name)

        changed = {
            f"{kind}_{counted}_stats": getattr(self, f"{kind}_{counted}_stats").transform(short)
            for kind in ("baseline", "stmt")
            for counted in ("inclusive", "exclusive")
        }
        return dataclasses.replace(self, **changed)

    def __repr__(self) -> str:
        base, all_ = self.baseline_exclusive_stats, self.stmt_exclusive_stats
        lines = [
            super().__repr__(),
            self.task_spec.summarize().rstrip(),
            f"  {'':<24}{'All':>12}{'Noisy symbols removed':>24}",
            f"  {'Instructions:':<24}{all_.sum():>12}{all_.denoise().sum():>24}",
            f"  {'Baseline:':<24}{base.sum():>12}{base.denoise().sum():>24}",
            f"{self.number_per_run} runs per measurement, {self.task_spec.num_threads} thread(s)",
        ]
        return "\n".join(lines)


_NAME = re.compile(r"^(fl|fi|fe|fn|cfn|cfi|cfl|ob|cob)=(?:\((\d+)\))?\s*(.*)$")


class _Profile:
    """Counts of a callgrind file, by `file:function`."""

    def __init__(self) -> None:
        self.exclusive: dict[str, int] = defaultdict(int)
        self.inclusive: dict[str, int] = defaultdict(int)
        self.names: dict[tuple[str, str], str] = {}

    def named(self, kind: str, number: str | None, text: str) -> str:
        """A name, which stands in full the first time and by its number afterwards."""
        table = {"fn": "function", "cfn": "function", "ob": "object", "cob": "object"}.get(
            kind, "file"
        )
        if number is None:
            return text
        if text:
            self.names[table, number] = text
        return self.names.get((table, number), "???")

    def read(self, text: str) -> None:
        """Add up the lines of a file."""
        file = called_file = function = called = "???"
        after_call = False
        for line in text.splitlines():
            named = _NAME.match(line)
            if named:
                kind, name = named[1], self.named(*named.groups())
                if kind == "fl":
                    file = called_file = name
                elif kind in ("cfi", "cfl"):
                    called_file = name
                elif kind == "fn":
                    function = f"{file}:{name}"
                elif kind == "cfn":
                    called, called_file = f"{called_file}:{name}", file
            elif line.startswith("calls="):
                after_call = True
            elif line and (line[0].isdigit() or line[0] in "+-*"):
                cost = int((line.split() + ["0"])[1])
                self.inclusive[function] += cost if not after_call or called != function else 0
                if not after_call:
                    self.exclusive[function] += cost
                after_call = False


def parse(text: str) -> tuple[FunctionCounts, FunctionCounts]:
    """Inclusive and exclusive counts of a callgrind file."""
    profile = _Profile()
    profile.read(text)
    return (
        FunctionCounts(tuple(_ordered(dict(profile.inclusive))), True),
        FunctionCounts(tuple(_ordered(dict(profile.exclusive))), False),
    )


def _stored(globals: dict[str, Any]) -> tuple[dict[str, tuple[str, Any]], str]:  # noqa: A002
    """Globals in a form that another process makes again, and the code that it runs before."""
    stored: dict[str, tuple[str, Any]] = {}
    setups = []
    for name, value in globals.items():
        if name == "__builtins__":
            continue
        if isinstance(value, types.ModuleType):
            stored[name] = "module", value.__name__
        elif isinstance(value, CopyIfCallgrind):
            setups.append(value.setup)
            stored[name] = "value", value.value
        elif isinstance(value, facula.Tensor):
            stream = io.BytesIO()
            facula.save(value, stream)
            stored[name] = "tensor", stream.getvalue()
        elif isinstance(value, (bool, int, float, complex, str, bytes)) or value is None:
            stored[name] = "value", value
        else:
            fail(
                ValueError,
                "collect_callgrind",
                "globals that travel to another process were required",
                f"{name} of type {type(value).__name__}",
                "wrap it in CopyIfCallgrind, or make it in the setup",
            )
    return stored, "\n".join(setups)


def _environment(threads: int) -> dict[str, str]:
    """The environment of the counted process: a kernel variant that Valgrind can run."""
    environment = dict(os.environ)
    present = {path.stem for path in Path(libraries.kernel_folder()).glob("*.so")}
    usable = [v for v in VALGRIND_VARIANTS if v in present]
    if usable:
        environment["FACULA_ISA"] = usable[0]
    environment["FACULA_NUM_THREADS"] = str(threads)
    environment["PYTHONHASHSEED"] = "0"
    root = str(Path(__file__).resolve().parents[3])
    environment["PYTHONPATH"] = os.pathsep.join([root, *filter(None, sys.path)])
    return environment


def _run(task: TaskSpec, globals: dict[str, Any], number: int, folder: Path) -> str:  # noqa: A002
    """The text of the callgrind file of one process."""
    stored, copied = _stored(globals)
    data, script, out = folder / "globals.pickle", folder / "statement.py", folder / "callgrind.out"
    data.write_bytes(pickle.dumps(stored))
    gate = compile_library(GATE, flags=("-O1", "-fPIC"))
    body = textwrap.indent(task.stmt or "pass", " " * 8)
    script.write_text(
        SCRIPT.format(
            data=str(data),
            gate=gate,
            number=number,
            stmt=body,
            setup=task.setup,
            copied=copied,
        )
    )
    command = [
        "valgrind",
        "--tool=callgrind",
        f"--callgrind-out-file={out}",
        "--dump-instr=no",
        "--collect-atstart=no",
        sys.executable,
        str(script),
    ]
    result = subprocess.run(
        command, env=_environment(task.num_threads), capture_output=True, text=True, check=False
    )
    if result.returncode or not out.exists():
        tail = "\n".join((result.stdout + result.stderr).strip().splitlines()[-12:])
        fail(
            OSError,
            "collect_callgrind",
            "a statement that runs under Valgrind was required (Failed to collect callgrind profile)",
            tail,
            f"build the kernels for one of {VALGRIND_VARIANTS}: Valgrind does not know newer ones",
        )
    return out.read_text()


@functools.lru_cache(maxsize=32)
def _baseline(number: int, threads: int) -> str:
    task = TaskSpec(stmt="pass", setup="pass", num_threads=threads)
    with tempfile.TemporaryDirectory() as folder:
        return _run(task, {}, number, Path(folder))


def collect(
    task: TaskSpec,
    globals: dict[str, Any],  # noqa: A002 - PyTorch's name
    number: int,
    collect_baseline: bool,
    retain_out_file: bool,
) -> CallgrindStats:
    """Count the instructions of `number` runs."""
    if shutil.which("valgrind") is None:
        fail(
            OSError,
            "collect_callgrind",
            "Valgrind was required (Could not find valgrind)",
            "none on PATH",
            "install it, for example with `apt install valgrind`",
        )
    with tempfile.TemporaryDirectory() as folder:
        text = _run(task, globals, number, Path(folder))
    inclusive, exclusive = parse(text)
    nothing = FunctionCounts((), True), FunctionCounts((), False)
    base = parse(_baseline(number, task.num_threads)) if collect_baseline else nothing
    return CallgrindStats(
        task_spec=task,
        number_per_run=number,
        built_with_debug_symbols=False,
        baseline_inclusive_stats=base[0],
        baseline_exclusive_stats=base[1],
        stmt_inclusive_stats=inclusive,
        stmt_exclusive_stats=exclusive,
        stmt_callgrind_out=text if retain_out_file else None,
    )
