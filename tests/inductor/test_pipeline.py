"""The pipeline: each pass is a line that can be left out, shown, timed and checked by its name."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest

import facula
from facula import nn
from facula.compiler import options, passes, pipeline
from facula.core import config

POSSIBLE = [name for name, each in pipeline.PASSES.items() if each.instead is not None]
TITLE = re.compile(r"<b>(.*?)</b> ([0-9.]+ ms|left out)")


@pytest.fixture
def left_out(tmp_path: Path) -> Any:
    """A function that leaves passes out, with an empty disk cache, until the test is over."""

    def leave(text: str) -> None:
        facula.compiler.reset()
        config.set("cache_dir", str(tmp_path))
        config.set("passes", text)

    yield leave
    config.reset("passes")
    config.reset("cache_dir")
    facula.compiler.reset()


class Net(nn.Module):
    """Something for each pass: images, a norm, attention by hand, a product with what follows, views."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.linear, self.out = nn.Linear(8, 8), nn.Linear(8, 2)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Any) -> Any:
        x = self.bn(self.conv(x)).relu()
        rows = self.norm(x.flatten(2).transpose(1, 2))
        scores = (rows @ rows.transpose(1, 2) / 8**0.5).softmax(-1)
        rows = scores @ rows
        rows = self.linear(rows).relu() + (rows + 0).clone()
        return self.out(rows.mean(1)) + rows.mean((1, 2))[:, None]


def outcomes(training: bool) -> list[numpy.ndarray]:
    """Results, and gradients where there are some, of a compiled network."""
    facula.manual_seed(3)
    net = Net().train(training)
    x = facula.randn(2, 3, 12, 12)
    compiled = facula.compile(net)
    if not training:
        with facula.no_grad():
            return [compiled(x).numpy()]
    compiled(x).square().mean().backward()
    return [p.grad.numpy() for p in net.parameters()]


def close(got: numpy.ndarray, wanted: numpy.ndarray) -> None:
    """Sums in another order: equal to 1 part in 10 000 of the largest element."""
    numpy.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4 * abs(wanted).max())


@pytest.fixture(scope="module")
def plain() -> dict[bool, list[numpy.ndarray]]:
    """What eager gives."""
    found = {}
    for training in (False, True):
        with facula.compiler.set_stance("force_eager"):
            found[training] = outcomes(training)
    return found


@pytest.mark.parametrize("name", ["", *POSSIBLE])
def test_a_pass_that_is_left_out_changes_no_result(name: str, left_out: Any, plain: Any) -> None:
    left_out(f"-{name.replace(' ', '-')}" if name else "")
    for training in (False, True):
        before = {each: p.runs for each, p in pipeline.PASSES.items()}
        for got, wanted in zip(outcomes(training), plain[training], strict=True):
            close(got, wanted)
        ran = {each for each, p in pipeline.PASSES.items() if p.runs > before[each]}
        assert name not in ran and {"joint graph", "loops", "C text", "wrapper"} <= ran


def test_all_at_once(left_out: Any, plain: Any) -> None:
    left_out(",".join("-" + name for name in POSSIBLE))
    for training in (False, True):
        for got, wanted in zip(outcomes(training), plain[training], strict=True):
            close(got, wanted)


def test_each_pass_is_checked_with_debug(left_out: Any, plain: Any) -> None:
    left_out("")
    with options.patch(debug=True):
        for training in (False, True):
            for got, wanted in zip(outcomes(training), plain[training], strict=True):
                close(got, wanted)


def test_the_trace_shows_the_lines_of_the_pipeline_and_no_others(tmp_path: Path) -> None:
    program = (
        "import facula\n"
        "f = lambda x: (x * 5).sin() + 4\n"
        "facula.compile(f)(facula.ones(3)); print('done')"
    )
    environment = {
        **os.environ, "FACULA_TRACE": str(tmp_path), "FACULA_PASSES": "-fusion, -merge_views",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "done\n"
    rows = TITLE.findall((tmp_path / "index.html").read_text())
    names = [html.unescape(name) for name, _ in rows]
    order = list(pipeline.PASSES)
    assert set(names) <= set(order) and names == sorted(names, key=order.index)
    assert {"attention", "joint graph", "loops", "kernel text", "C compiler"} <= set(names)
    skipped = {html.unescape(name) for name, took in rows if took == "left out"}
    assert {"fusion", "merge views"} <= skipped
    files = {path.name.split("_", 2)[2] for path in tmp_path.glob("*_*")}
    assert {path.rpartition(".")[0].replace("_", " ") for path in files} <= set(names)
    assert {"joint_graph.py", "loops.txt", "C_text.c", "wrapper.py"} <= files


def test_passes_are_timed() -> None:
    each = pipeline.PASSES["loops"]
    before = each.seconds
    facula.compile(lambda x: x.cos() * 3.25, options={"force_disable_caches": True})(facula.ones(5))
    assert each.seconds > before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-fussion", "did you mean -fusion"),
        ("layout", "-name of a pass"),
        ("-loops", "something else can stand in for"),
    ],
)
def test_names_that_are_no_passes_are_errors(text: str, message: str, left_out: Any) -> None:
    left_out(text)
    with pytest.raises(ValueError, match=message):
        passes.left_out()


def test_what_is_left_out_is_part_of_what_is_kept_on_disk(left_out: Any) -> None:
    def program(x: Any) -> Any:
        return (x + 1).sin() * (x + 2).sum()

    x = facula.randn(6)
    for text in ("", "-fusion", ""):
        left_out(text)
        numpy.testing.assert_allclose(
            facula.compile(program)(x).numpy(), program(x).numpy(), rtol=1e-5
        )


def test_the_documentation_names_the_passes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "compiler.md").read_text()
    table = page.partition("## The pipeline")[2].partition("## Graphs")[0].partition("|---|---|")[2]
    assert set(re.findall(r"`(.+?)`", table)) == set(pipeline.PASSES)
