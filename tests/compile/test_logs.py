"""Every name that logs are switched on by makes a small program print something, and only then."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import facula
from facula import distributed, nn
from facula.core import logs


@pytest.fixture(autouse=True)
def quiet_afterwards() -> Iterator[None]:
    yield
    facula._logging.set_logs()


def doubled(x: Any) -> Any:
    return x * 2.5


def program(x: Any) -> Any:
    return doubled(x).sin().sum(0)


def run() -> None:
    facula.compile(program)(facula.ones(3, 4))


def run_without_capture_of_a_branch() -> None:
    def branching(x: Any) -> Any:
        return x + 1 if x.sum() > 0 else x

    facula.compile(branching, backend="eager")(facula.ones(2))


def run_with_two_sizes() -> None:
    compiled = facula.compile(program, backend="eager")
    for rows in (3, 5):
        compiled(facula.ones(rows, 4))


def train() -> None:
    x = facula.ones(3, 4, requires_grad=True)
    facula.compile(program)(x).sum().backward()


def with_a_call() -> None:
    facula.compile(lambda x: (x @ x).sort().values + 1)(facula.rand(70, 70))


def group_of_one(folder: Any) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=0, world_size=1
    )
    distributed.destroy_process_group()


#: name -> (what runs, what is printed, among other things)
SHOWN: dict[str, tuple[Callable[..., Any], str]] = {
    "dynamo": (run, "segment of program"),
    "aot": (run, "inference graph: "),
    "inductor": (run, "calls and runs of kernels"),
    "distributed": (group_of_one, "process group destroyed"),
    "export": (lambda: facula.export.export(nn.Linear(2, 2), (facula.ones(1, 2),)), "Linear"),
    "dynamic": (run_with_two_sizes, "size 0 of x is dynamic: it was 3, and is 5"),
    "graph": (run, "call_method"),
    "graph_code": (run, "def forward(self"),
    "graph_sizes": (run, "(3, 4)"),
    "graph_breaks": (run_without_capture_of_a_branch, "x.sum() > 0"),
    "guards": (run, "[3, 4]"),
    "verbose_guards": (run, "return doubled(x).sin().sum(0)"),
    "recompiles": (run_with_two_sizes, "recompile in program"),
    "recompiles_verbose": (run_with_two_sizes, "segment 0: "),
    "bytecode": (run, "LOAD_FAST"),
    "trace_source": (run, "return x * 2.5"),
    "trace_call": (run, "inlined call of doubled"),
    "aot_graphs": (run, "AOT inference graph"),
    "aot_joint_graph": (train, "tangents_1"),
    "fusion": (run, "kernel 0 over"),
    "schedule": (run, "launch of 1 kernels"),
    "output_code": (run, "def "),
    "kernel_code": (run, "for ("),
    "perf_hints": (with_a_call, "stays a call"),
}


def test_all_names_are_tried() -> None:
    assert set(SHOWN) == {*logs.COMPONENTS, *logs.ARTIFACTS}


@pytest.mark.breaks("data-dependent-branch")
@pytest.mark.parametrize("name", SHOWN)
def test_a_name_prints(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    action, text = SHOWN[name]
    given = [tmp_path] if name == "distributed" else []
    level = logging.DEBUG if name in logs.COMPONENTS else True
    facula._logging.set_logs(**{name: level})
    action(*given)
    shown = capsys.readouterr().err
    assert text in shown
    records = [line for line in shown.splitlines() if line.startswith("[")]
    own = logs.COMPONENTS.get(name, f"facula.artifact.{name}")
    assert records and all(f" {own}]" in line for line in records)
    facula._logging.set_logs()
    action(*given)
    assert capsys.readouterr().err == ""


def test_the_environment_switches_on(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("FACULA_LOGS", "+aot,graph_sizes")
    logs._configured[0] = False
    run()
    shown = capsys.readouterr().err
    assert "inference graph: " in shown and "(3, 4)" in shown


def test_a_weight_whose_address_is_known_is_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    net, x = nn.Linear(64, 64), facula.rand(32, 64)
    facula._logging.set_logs(perf_hints=True)
    compiled = facula.compile(net)
    with facula.no_grad():
        compiled(x)
        net.weight.data_ptr()
        compiled(x)
    assert "weights are read where they lie" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["cudagraphs", "onnx", "no_such"])
def test_other_names_are_refused_with_the_list(name: str) -> None:
    with pytest.raises(ValueError, match="perf_hints") as error:
        facula._logging.set_logs(**{name: True})
    assert name in str(error.value) and "hint" in str(error.value)
