"""Faults of the compiler are raised; where `suppress_errors` is on, each is counted and warned of."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest

import facula
from facula._dynamo import config
from facula._dynamo.exc import BackendCompilerFailed, InternalTorchDynamoError
from facula._dynamo.utils import counters
from facula.capture import driver, segment
from facula.capture.errors import SuppressedFaultWarning
from facula.capture.rules.table import RULES
from facula.capture.segment_code import MISS, SegmentCode
from facula.compiler import lowering, passes
from facula.compiler.api import listening
from facula.lower.loops.graph import GraphLowering

X = [1.0, 2.0, 3.0]


def odd(x: Any) -> Any:
    """A function whose rule has a fault."""
    return x * 2


def program(x: Any) -> Any:
    y = x + 1
    return odd(y) - 3


def broken(*given: Any, **words: Any) -> Any:
    raise ZeroDivisionError("a fault of ours")


@pytest.fixture
def fault_in_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, odd, broken)


def test_nothing_is_suppressed_unless_asked_for() -> None:
    assert config.suppress_errors is False


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_fault_of_capture_is_raised(fault_in_capture: None, fullgraph: bool) -> None:
    with pytest.raises(InternalTorchDynamoError) as error:
        facula.compile(program, fullgraph=fullgraph)(facula.tensor(X))
    text = str(error.value)
    assert "ZeroDivisionError: a fault of ours" in text and "stage: capture" in text
    assert "return odd(y) - 3" in text and "test_faults.py" in text and "\nhint: " in text
    assert isinstance(error.value.__cause__, ZeroDivisionError)


@pytest.mark.breaks("internal")
def test_a_suppressed_fault_of_capture_is_told(fault_in_capture: None) -> None:
    counters.clear()
    events: list[Any] = []
    with config.patch(suppress_errors=True), listening(events.append):
        with pytest.warns(SuppressedFaultWarning, match=r"capture\): ZeroDivisionError: a fault"):
            found = facula.compile(program)(facula.tensor(X))
        assert found.tolist() == [1.0, 3.0, 5.0]
        with pytest.warns(SuppressedFaultWarning):
            explained = facula._dynamo.explain(program)(facula.tensor(X))
    told = [event for event in events if event.kind == "suppressed error"]
    assert told and "return odd(y) - 3" in str(told[0].line)
    assert sum(counters["suppressed_errors"].values()) == len(told) == 2
    assert explained.suppressed_errors == [told[0].cause]
    assert "Suppressed error: capture: ZeroDivisionError" in str(explained)


STAGES = {
    "what is left to Python": (SegmentCode, "text"),
    "checks of what was captured": (segment, "check_hooks"),
    "lowering to loops": (GraphLowering, "_pointwise"),
    "fusion": (lowering.fuse, "fuse"),
    "loop nests": (lowering, "laid_out"),
    "kernel text": (lowering.fused, "kernel_text"),
    "memory plan": (lowering.memory, "plan"),
}


def sines(x: Any) -> Any:
    return (x.sin() + 0.4321).exp()


@pytest.mark.parametrize("stage", STAGES)
def test_a_fault_names_its_stage(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*STAGES[stage], broken)
    with pytest.raises((InternalTorchDynamoError, BackendCompilerFailed)) as error:
        facula.compile(sines, options={"force_disable_caches": True})(facula.tensor(X))
    text = str(error.value)
    assert "ZeroDivisionError: a fault of ours" in text and f"stage: {stage}" in text
    assert "\nhint: " in text
    if stage == "lowering to loops":
        assert "return (x.sin() + 0.4321).exp()" in text


def test_a_fault_of_a_pass_names_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes.PASSES["merge views"], "function", broken)
    with pytest.raises(BackendCompilerFailed, match="stage: merge views"):
        facula.compile(sines)(facula.tensor(X))


@pytest.mark.breaks("internal")
@pytest.mark.parametrize("stage", STAGES)
def test_a_suppressed_fault_of_any_stage_is_told(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters.clear()
    monkeypatch.setattr(*STAGES[stage], broken)
    x = facula.tensor(X)
    compiled = facula.compile(sines, options={"force_disable_caches": True})
    with config.patch(suppress_errors=True):
        with pytest.warns(SuppressedFaultWarning, match=stage):
            found = compiled(x)
        assert facula.equal(found, sines(x))
        assert facula.equal(compiled(x), sines(x))  # nothing is tried twice
    assert list(counters["suppressed_errors"]) == [f"{stage}: ZeroDivisionError: a fault of ours"]


@pytest.mark.breaks("internal")
def test_a_backend_that_fails() -> None:
    def mine(graph_module: Any, inputs: Any) -> Any:
        raise ZeroDivisionError("mine is broken")

    x = facula.tensor(X)
    with pytest.raises(BackendCompilerFailed, match="backend='mine' raised:\nZeroDivisionError"):
        facula.compile(sines, backend=mine)(x)
    with config.patch(suppress_errors=True):
        compiled = facula.compile(sines, backend=mine)
        with pytest.warns(SuppressedFaultWarning, match=r"backend\): ZeroDivisionError: mine"):
            assert facula.equal(compiled(x), sines(x))


@pytest.mark.breaks("internal")
def test_guards_that_fail_for_their_own_state(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = segment.capture

    def missing(*given: Any) -> Any:
        entry = capture(*given)
        entry.function = lambda *values: MISS
        return entry

    monkeypatch.setattr(driver.segment, "capture", missing)
    x = facula.tensor(X)
    with pytest.raises(InternalTorchDynamoError, match="stage: guards"):
        facula.compile(sines, backend="eager")(x)
    with config.patch(suppress_errors=True):
        with pytest.warns(SuppressedFaultWarning, match="guards"):
            assert facula.equal(facula.compile(sines, backend="eager")(x), sines(x))


@pytest.mark.breaks("internal")
def test_what_was_suppressed_is_tried_again_when_it_no_longer_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(segment, "check_hooks", broken)
    compiled, x = facula.compile(sines, backend="eager"), facula.tensor(X)
    with config.patch(suppress_errors=True), pytest.warns(SuppressedFaultWarning):
        compiled(x)
    with pytest.raises(InternalTorchDynamoError):
        compiled(x)


BREAKING = """
import pytest, facula

def run():
    def f(x):
        y = x + 1
        facula._dynamo.graph_break()
        return y * 2
    facula.compile(f, backend="eager")(facula.ones(2))

def test_unmarked():
    run()

@pytest.mark.breaks("explicit")
def test_marked():
    run()

@pytest.mark.breaks("data-dependent-value")
def test_marked_for_something_else():
    run()
"""


def test_tests_that_are_not_about_breaks_fail_where_there_are_some(tmp_path: Any) -> None:
    tests = pathlib.Path(__file__).parents[1]
    shutil.copy(tests / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(BREAKING)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "test_it.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "3 passed, 2 errors" in run.stdout, run.stdout
    assert "ERROR test_it.py::test_unmarked" in run.stdout
    assert "ERROR test_it.py::test_marked_for_something_else" in run.stdout
    assert "test_marked - " not in run.stdout
