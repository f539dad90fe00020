"""A pytest plugin that writes down which tests reach which places and launch which kernels.

    MUTATION_PLACES=places.json MUTATION_MAP=map.json PYTEST_PLUGINS=mutation_probe python -m pytest

Takes: places as `mutation_places` draws them.
Gives: at the end of the session a map: for each place, and for each kernel of the prebuilt library,
tests that reach it, and how long each test takes.
Keeps true: a probe stands around the expression of its place and changes no value; places in the
constants of a module are reached by the functions that name them, or name what is made of them; what a
fixture of many tests reaches, all these tests reach; kernels are counted by a table of
trampolines that is loaded over the library, before any kernel is looked up. What child processes of
a test do is not seen; pytest-xdist's workers (`-n`) hand their maps to the process that started them.
"""

from __future__ import annotations

import ast
import builtins
import ctypes
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mutation_constants
import pytest

ROOT = Path(__file__).resolve().parent.parent
#: tests kept for a place or a kernel; of more, a random choice
KEPT = 300
#: what a process that records needs in its environment
PASSED_ON = ("MUTATION_MAP", "PYTEST_PLUGINS")

TRAMPOLINES = """\
#include <dlfcn.h>
#include <string.h>
#include "facula_abi.h"
#define COUNT {count}
unsigned char facula_hits[COUNT];
fk_entry facula_kernels[COUNT + 1];
const int facula_abi = FACULA_ABI;
static void *real[COUNT];
#define M(i) static void t##i(char *const *p, const fk_scalar *s, int64_t n) \\
    {{ facula_hits[i] = 1; ((fk_map)real[i])(p, s, n); }}
#define B(i) static void t##i(char *const *p, const int64_t *n, const fk_scalar *s, int64_t b, int64_t e) \\
    {{ facula_hits[i] = 1; ((fk_body)real[i])(p, n, s, b, e); }}
#define D(i) static int t##i(char *const *p, const int64_t *n, const fk_scalar *s, const fk_runtime *r) \\
    {{ facula_hits[i] = 1; return ((fk_driver)real[i])(p, n, s, r); }}
{functions}
static void *const made[COUNT] = {{ {names} }};
__attribute__((constructor)) static void gather(void) {{
    fk_entry *from = dlsym(dlopen("{library}", RTLD_NOW), "facula_kernels");
    for (int i = 0; i < COUNT; i++) {{
        facula_kernels[i] = from[i];
        real[i] = (void *)from[i].fn;
        facula_kernels[i].fn = made[i];
    }}
}}
"""


class Recorder:
    """What the running test has reached."""

    def __init__(self) -> None:
        self.test = ""
        self.places: dict[int, set[str]] = {}
        self.kernels: dict[str, set[str]] = {}
        self.seconds: dict[str, float] = {}
        self.tables: list[tuple[list[str], Any]] = []
        self.begun = 0.0
        #: what the environment held that made this process record
        self.environment: dict[str, str] = {}
        #: fixtures of many tests that are being set up, and what each has reached
        self.setups: list[set[int]] = []
        self.fixtures: dict[int, set[int]] = {}

    def reach(self, place: int) -> None:
        """Called by probes; gives None, so that `reach(i) or x` is x."""
        self.places.setdefault(place, set()).add(self.test)
        for reached in self.setups:
            reached.add(place)

    def begin(self, test: str) -> None:
        self.test, self.begun = test, time.perf_counter()
        self._clear()

    def end(self) -> None:
        if not self.test:  # reports of tests that workers run come as they please
            return
        self.seconds[self.test] = round(time.perf_counter() - self.begun, 3)
        for names, hits in self.tables:
            for number, hit in enumerate(bytes(hits)):
                if hit:
                    self.kernels.setdefault(names[number], set()).add(self.test)
        self._clear()
        self.test = ""

    def _clear(self) -> None:
        for _, hits in self.tables:
            ctypes.memset(hits, 0, len(hits))

    def data(self) -> dict[str, dict[str, Any]]:
        """The map, as JSON takes it."""
        chance = random.Random(0)

        def kept(tests: set[str]) -> list[str]:
            named = sorted(tests - {""})
            return sorted(chance.sample(named, KEPT)) if len(named) > KEPT else named

        return {
            "places": {str(place): kept(tests) for place, tests in self.places.items()},
            "kernels": {kernel: kept(tests) for kernel, tests in self.kernels.items()},
            "seconds": self.seconds,
        }

    def add(self, data: dict[str, dict[str, Any]]) -> None:
        """Takes in the map of another process, whose times count."""
        for place, tests in data["places"].items():
            self.places.setdefault(int(place), set()).update(tests)
        for kernel, tests in data["kernels"].items():
            self.kernels.setdefault(kernel, set()).update(tests)
        self.seconds.update(data["seconds"])


RECORDER = Recorder()


class _Prober(ast.NodeTransformer):
    """Puts probes around the smallest expressions that hold the places."""

    def __init__(
        self,
        places: list[tuple[int, dict[str, Any]]],
        text: str,
        names: dict[str, set[int]] | None = None,
    ) -> None:
        self.wanted: dict[int, list[int]] = {}
        self.names = {name: set(numbers) for name, numbers in (names or {}).items()}
        self.places, self.text = places, text

    def locate(self, tree: ast.Module) -> None:
        for number, place in self.places:
            node, statement = self._smallest(tree, place)
            if statement is not None:
                self._by_name(statement, number)
            elif node is not None:
                self.wanted.setdefault(id(node), []).append(number)

    def _smallest(self, tree: ast.Module, place: dict[str, Any]) -> tuple[Any, Any]:
        """The expression in a function that holds a place, or the statement of the module."""
        line, column = (
            place["line"],
            place["start"] - (self.text.rfind("\n", 0, place["start"]) + 1),
        )
        best, inside, outer = None, False, None
        for statement in tree.body:
            if statement.lineno <= line <= (statement.end_lineno or 0):
                outer = statement
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            body = function.body if isinstance(function.body, list) else [function.body]
            for part in body:
                for node in _expressions(part):
                    if _holds(node, line, column) and (best is None or _within(node, best)):
                        best, inside = node, True
        return best, None if inside else outer

    def _by_name(self, statement: ast.stmt, number: int) -> None:
        targets: list[Any] = [
            getattr(statement, "target", None),
            *getattr(statement, "targets", ()),
        ]
        for target in targets:
            for node in ast.walk(target) if target is not None else ():
                if isinstance(node, ast.Name):
                    self.names.setdefault(node.id, set()).add(number)

    def visit(self, node: ast.AST) -> Any:
        numbers = self.wanted.get(id(node), [])
        made = self.generic_visit(node)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            numbers = [*numbers, *sorted(self.names.get(ast.unparse(node), ()))]
        for number in numbers:
            made = ast.copy_location(_probed(made, number), node)
        return made

    def visit_match_case(self, node: ast.match_case) -> ast.match_case:
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        """Parts of an f-string stay as they are: only the whole is probed (by `visit`)."""
        return node


def _expressions(part: ast.AST) -> Iterator[ast.expr]:
    """Expressions that may stand in brackets: no parts of patterns, f-strings or targets."""
    stack: list[ast.AST] = [part]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            if not isinstance(node, ast.Slice | ast.Starred):
                yield node
        if isinstance(node, ast.JoinedStr | ast.pattern):
            continue
        stack.extend(ast.iter_child_nodes(node))


def _holds(node: Any, line: int, column: int) -> bool:
    return (node.lineno, node.col_offset) <= (line, column) < (node.end_lineno, node.end_col_offset)


def _within(node: Any, other: Any) -> bool:
    begin, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    return begin >= (other.lineno, other.col_offset) and end <= (
        other.end_lineno,
        other.end_col_offset,
    )


def _probed(node: Any, number: int) -> ast.expr:
    call = ast.Call(ast.Name("__mutation_probe__", ast.Load()), [ast.Constant(number)], [])
    return ast.BoolOp(ast.Or(), [call, node])


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module's source with its probes."""

    places: list[tuple[int, dict[str, Any]]]
    names: dict[str, set[int]]

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        text = Path(path).read_text()
        tree = ast.parse(text)
        prober = _Prober(self.places, text, self.names)
        prober.locate(tree)
        tree = ast.fix_missing_locations(prober.visit(tree))
        return compile(tree, path, "exec", dont_inherit=True)


class _Importer(importlib.abc.MetaPathFinder):
    """Gives the modules that hold places to `_Loader`."""

    def __init__(self, places: list[dict[str, Any]]) -> None:
        self.names = mutation_constants.holders(ROOT, places)
        self.by_module: dict[str, list[tuple[int, dict[str, Any]]]] = {n: [] for n in self.names}
        for number, place in enumerate(places):
            name = mutation_constants.module_name(Path(place["path"]).relative_to("src"))
            self.by_module.setdefault(name, []).append((number, place))

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        places = self.by_module.get(fullname)
        if places is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.origin is None:
            return None
        loader = _Loader(fullname, spec.origin)
        loader.places, loader.names = places, self.names.get(fullname, {})
        spec.loader = loader
        return spec


def _load_trampolines() -> None:
    """Loads, over each prebuilt library, one that notes which of its kernels are called."""
    # lazily: the importer of the probes comes first
    from facula import core
    from facula.runtime import compile as runtime_compile
    from facula.runtime.libraries import kernel_libraries

    for library in map(str, kernel_libraries()):
        kinds = _table(library)
        macros = {"m": "M", "b": "B", "d": "D"}
        text = TRAMPOLINES.format(
            count=len(kinds),
            functions="\n".join(f"{macros[kind]}({i})" for i, (_, kind) in enumerate(kinds)),
            names=", ".join(f"t{i}" for i in range(len(kinds))),
            library=library,
        )
        made = _compile(text, runtime_compile.compiler_command(), runtime_compile.include_folder())
        core.load_library(made)
        hits = (ctypes.c_ubyte * len(kinds)).in_dll(ctypes.CDLL(made), "facula_hits")
        RECORDER.tables.append(([name for name, _ in kinds], hits))


def _table(library: str) -> list[tuple[str, str]]:
    """Names and kinds of a library's kernels, in its order."""
    # lazily: it imports facula
    from build_kernels import Entry

    loaded = ctypes.CDLL(library)
    count = ctypes.c_int64.in_dll(loaded, "facula_gathered").value
    table = (Entry * count).in_dll(loaded, "facula_kernels")
    return [(entry.name.decode(), entry.kind.decode()) for entry in table]


def _compile(text: str, command: list[str], include: str) -> str:
    folder = tempfile.mkdtemp()
    source, output = os.path.join(folder, "trampolines.c"), os.path.join(folder, "trampolines.so")
    Path(source).write_text(text)
    flags = ["-O1", "-fPIC", "-shared", "-w", f"-I{include}", "-o", output, source]
    subprocess.run([*command, *flags], check=True)
    return output


def begin() -> None:
    """Puts probes and trampolines in place; the tests' own conftest imports facula, so this comes first."""
    if any(name.partition(".")[0] == "facula" for name in sys.modules):
        sys.exit("mutation_probe: facula was imported before the probes were in place")
    for name in PASSED_ON:  # a test that runs pytest makes no map of its own
        RECORDER.environment[name] = os.environ.pop(name, "")
    sys.path.insert(0, str(Path(__file__).parent))
    places = json.loads(Path(os.environ["MUTATION_PLACES"]).read_text())
    builtins.__mutation_probe__ = RECORDER.reach  # type: ignore[attr-defined]
    sys.meta_path.insert(0, _Importer(places))
    _load_trampolines()


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    RECORDER.begin(nodeid)


def pytest_runtest_logfinish(nodeid: str, location: Any) -> None:
    RECORDER.end()


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Iterator[None]:
    """What is set up once for many tests is reached by each of them."""
    reached: set[int] = set()
    if fixturedef.scope != "function":
        RECORDER.setups.append(reached)
        RECORDER.fixtures[id(fixturedef)] = reached
    yield
    if fixturedef.scope != "function":
        RECORDER.setups.remove(reached)


def pytest_runtest_call(item: Any) -> None:
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        for fixturedef in definitions:
            for place in RECORDER.fixtures.get(id(fixturedef), ()):
                RECORDER.reach(place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: Any, specs: Any) -> None:
    """Workers that are about to start record as well."""
    os.environ.update(RECORDER.environment)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """A worker hands its map over when it ends."""
    data = getattr(node, "workeroutput", {}).get("mutation_map")
    if data is not None:
        RECORDER.add(json.loads(data))


def pytest_sessionfinish(session: Any) -> None:
    path = RECORDER.environment.get("MUTATION_MAP")
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["mutation_map"] = json.dumps(RECORDER.data())
    elif path:
        Path(path).write_text(json.dumps(RECORDER.data()))


if __name__ == "mutation_probe" and "MUTATION_MAP" in os.environ:
    begin()
