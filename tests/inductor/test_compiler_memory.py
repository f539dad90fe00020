"""What a compiler leaves in memory: the compiled program, and nothing of what it was made with."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import facula
from facula import nn
from facula.codegen.c.loops.printer import Printer
from facula.core import config as settings
from facula.fx import Graph
from facula.lower.loops import index, ir
from facula.lower.loops.lowering import Lowering
from facula.lower.loops.nest import Flat, Rows
from facula.lower.loops.values import Value

#: what loops are made of
LOOPS = (
    index.Index, index.Quotient, index.Remainder, index.Var, ir.Load, ir.Elementwise, ir.Reduction,
    Value, Lowering, Flat, Rows, Printer,
)  # fmt: skip


@pytest.fixture
def no_collector(tmp_path: Any) -> Iterator[None]:
    """An empty cache on disk, and nobody who looks for cycles."""
    settings.set("cache_dir", str(tmp_path))
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    settings.reset("cache_dir")


def network() -> tuple[Any, Any]:
    """Calls, reductions by row, images, draws and an attention."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.GELU(), nn.Flatten(2), layer)
    net[4] = _Last(layer)
    return net, facula.randn(2, 3, 6, 6)


class _Last(nn.Module):
    """A layer over positions of a flattened image."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        return self.layer(x.transpose(1, 2)).softmax(-1)


def alive(kinds: tuple[type, ...]) -> list[Any]:
    return [found for found in gc.get_objects() if isinstance(found, kinds)]


def test_nothing_of_the_loops_outlives_compiling(no_collector: None) -> None:
    net, x = network()
    before = {id(found) for found in alive(LOOPS)}
    facula.compile(net)(x).square().sum().backward()
    left = Counter(type(found).__name__ for found in alive(LOOPS) if id(found) not in before)
    assert not left


def test_graphs_go_when_they_have_served(no_collector: None) -> None:
    net, x = network()
    before = {id(found) for found in alive((Graph,))}
    facula.compile(net)(x).square().sum().backward()
    left = [len(g.nodes) for g in alive((Graph,)) if id(g) not in before and len(g.nodes)]
    # what was captured, until Python looks for cycles, and the backward graph, for traces of it
    assert len(left) == 2


def test_a_graph_that_was_taken_apart_holds_nothing() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    y = graph.call_function(facula.sin, (x,))
    graph.output(y)
    graph.take_apart()
    assert list(graph.nodes) == [] and len(graph.nodes) == 0
    assert not x.users and y.args == () and y.all_input_nodes == []


PROGRAM = """
import json, sys
import facula
from facula import nn
net = nn.Sequential(nn.Linear(70, 70), nn.GELU(), nn.LayerNorm(70), nn.Linear(70, 4))
facula.manual_seed(0)
for p in net.parameters():
    nn.init.uniform_(p, -0.1, 0.1)
optimizer = facula.optim.SGD(net.parameters(), lr=0.1)
compiled = facula.compile(net)
losses = []
for _ in range(2):
    loss = compiled(facula.ones(3, 70)).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(float(loss))
print(json.dumps({"losses": losses, "modules": sorted(sys.modules)}))
"""


def run(folder: Path) -> dict[str, Any]:
    environment = {**os.environ, "FACULA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", PROGRAM]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_second_process_imports_nothing_that_lowers(tmp_path: Path) -> None:
    first, second = run(tmp_path), run(tmp_path)
    assert first["losses"] == second["losses"]
    making = {"facula.compiler.lowering", "facula.codegen.c.loops.fused", "facula.ops.expr.rows"}
    assert making <= set(first["modules"]) and making.isdisjoint(second["modules"])
    left = [
        m for m in second["modules"] if m.startswith(("facula.lower.loops.", "facula.codegen."))
    ]
    assert set(left) == {
        "facula.codegen.c", "facula.codegen.c.loops", "facula.codegen.c.loops.fused_unit", "facula.lower.loops.memory",
        "facula.lower.loops.program", "facula.lower.loops.targets",
    }  # fmt: skip


def test_compiling_imports_no_large_module_of_pythons(tmp_path: Path) -> None:
    large = {"subprocess", "locale", "pathlib", "urllib.parse", "tempfile", "html", "difflib"}
    assert large.isdisjoint(run(tmp_path)["modules"])
