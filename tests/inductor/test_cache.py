"""What is compiled is kept: between graphs, sizes, and processes; a missing compiler is said."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import facula
from facula.compiler import backend, metrics, trace
from facula.compiler import options as config
from facula.core import config as settings
from facula.fx.experimental.proxy_tensor import make_fx
from tests.inductor.support import check, compiled, same

PROGRAM = """
import facula
from facula.compiler import pipeline
from facula.fx.experimental.proxy_tensor import make_fx
x = facula.arange(24).float().reshape(4, 6)
f = lambda x: [(x * 3 + 1).sum(1)]
got = pipeline.compile_graph(make_fx(f)(x)).call([x])[0]
assert facula.equal(got, f(x)[0])
"""


@pytest.fixture
def folder(tmp_path: Path):
    """An empty disk cache."""
    settings.set("cache_dir", str(tmp_path))
    yield tmp_path
    settings.reset("cache_dir")


def libraries(folder: Path) -> list[Path]:
    return sorted(folder.glob("kernels/??/*.so"))


def run_beside(folder: Path, count: int, compiler: str | None = None) -> None:
    """Run the program in some processes at once."""
    environment = {"FACULA_CACHE_DIR": str(folder), "PATH": "/usr/bin:/bin"}
    if compiler is not None:
        environment["CC"] = compiler
    command = [sys.executable, "-c", PROGRAM]
    started = [subprocess.Popen(command, env=environment) for _ in range(count)]
    assert [process.wait() for process in started] == [0] * count


def test_processes_share_one_library(folder: Path) -> None:
    run_beside(folder, 3)
    assert len(libraries(folder)) == 1
    before = libraries(folder)[0].stat().st_mtime_ns
    run_beside(folder, 1)
    assert [p.stat().st_mtime_ns for p in libraries(folder)] == [before]
    assert not list(folder.glob("kernels/??/.*.so"))


def test_dynamic_graphs_of_other_sizes_use_the_same_library(folder: Path) -> None:
    def f(x, y):
        return (x * y).softmax(1), (x + 1).sum(0), x.t() * 2

    for rows, columns in ((20, 30), (37, 53), (64, 41)):
        x, y = facula.randn(rows, columns), facula.randn(columns)
        check(f, x, y, tolerance=1e-5, options={"dynamic": True})
    assert len(libraries(folder)) == 1


def test_equal_graphs_compile_once(folder: Path) -> None:
    x = facula.randn(5, 7)
    first = compiled(lambda x: x.exp() + 1, x)
    assert metrics.compiled_units == 1
    again = compiled(lambda x: x.exp() + 1, x)
    assert metrics.compiled_units == 0
    assert first.c_source == again.c_source


@pytest.mark.breaks("no-compiler")
def test_without_a_compiler_eager_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "find_compiler", lambda: None)
    module = make_fx(lambda x: (x * 2,))(facula.ones(3))
    x = facula.ones(3)
    with pytest.warns(backend.MissingCompilerWarning, match="pip install ziglang"):
        run = backend.compile_fx(module, [x])
    same(run(x)[0], x * 2)
    settings.set("jit", "error")
    try:
        with pytest.raises(RuntimeError, match="a C compiler is needed"):
            backend.compile_fx(module, [x])(x)
    finally:
        settings.reset("jit")


def test_a_broken_compiler_names_command_complaint_and_file(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "cc"
    script.write_text("#!/bin/sh\necho 'cc: error: out of order' >&2\nexit 1\n")
    script.chmod(0o755)
    settings.set("compiler", str(script))
    try:
        with pytest.raises(RuntimeError, match="out of order") as caught:
            compiled(lambda x: x * 5 - 4, facula.ones(3))
    finally:
        settings.reset("compiler")
    assert str(script) in str(caught.value) and "look at" in str(caught.value)


def test_every_stage_is_written_on_request(tmp_path: Path) -> None:
    begun = time.perf_counter()
    settings.set("trace", str(tmp_path))
    try:
        compiled(lambda x: x * 5 + 4, facula.ones(3))
    finally:
        settings.reset("trace")
    names = {p.name.split("_", 2)[2] for p in tmp_path.glob("*_*")}
    assert {"loops.txt", "fusion.txt", "C_text.c", "wrapper.py"} <= names
    assert "What the compiler did" in (tmp_path / "index.html").read_text()
    assert trace.folder() is None
    spent = [
        float(ms) for ms in re.findall(r"(-?[0-9.]+) ms", (tmp_path / "index.html").read_text())
    ]
    assert spent and 0 <= sum(spent) <= (time.perf_counter() - begun) * 1e3


def test_unknown_options_and_modes_are_errors() -> None:
    with pytest.raises(RuntimeError, match="Unexpected optimization option"):
        config.chosen(None, {"no_such": True})
    with pytest.raises(RuntimeError, match="Unexpected type of attr"):
        config.chosen(None, {"max_autotune": "yes"})
    with pytest.raises(RuntimeError, match="Unrecognized mode"):
        config.chosen("fast", None)
    assert config.chosen("reduce-overhead", {"debug": True})["debug"]
