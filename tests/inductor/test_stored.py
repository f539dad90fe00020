"""Lowered graphs are kept on disk: read back, they are what lowering would give again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import facula
from facula.compiler import disk_cache, metrics, pipeline
from facula.compiler import options as config
from facula.core import config as settings
from facula.fx.experimental.proxy_tensor import make_fx
from tests.inductor.support import flat, same


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty disk cache."""
    settings.set("cache_dir", str(tmp_path))
    yield tmp_path
    settings.reset("cache_dir")


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The modules that were lowered, not read back."""
    found: list[Any] = []
    below = pipeline.lowered

    def note(module: Any) -> disk_cache.Lowered:
        found.append(module)
        return below(module)

    monkeypatch.setattr(pipeline, "lowered", note)
    return found


def traced(function: Any, *inputs: Any) -> Any:
    return make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)


def key(function: Any, *inputs: Any) -> str | None:
    return disk_cache.key_of(traced(function, *inputs))


def counted() -> tuple[int, ...]:
    return metrics.ir_nodes_pre_fusion, metrics.generated_kernel_count, metrics.extern_call_count


def mixed(x: Any, y: Any, places: Any) -> tuple[Any, ...]:
    """Loops, a reduction, calls that stay, views, gathers, numbers that text can not write."""
    product = facula.mm(x * 2, y).relu()
    spectrum = facula.linalg.cholesky(product @ product.t() + 7 * facula.eye(5))
    return (
        product.t(), spectrum[0], product.index_select(0, places) + float("inf"),
        product.softmax(1).to(facula.bfloat16), product.sort(dim=1)[1], x,
    )  # fmt: skip


def test_a_graph_is_lowered_once_and_then_read(lowered: list[Any], folder: Path) -> None:
    inputs = [facula.randn(5, 4), facula.randn(4, 6), facula.tensor([3, 0])]
    metrics.reset()
    first, counts = pipeline.compile_graph(traced(mixed, *inputs)), counted()
    metrics.reset()
    again = pipeline.compile_graph(traced(mixed, *inputs))
    assert len(lowered) == 1 and len(list(folder.glob("graphs/??/*.json"))) == 1
    assert (again.source, again.c_source) == (first.source, first.c_source)
    assert counts == counted() and all(counts)
    for got, want in zip(flat(again.call(list(inputs))), flat(mixed(*inputs)), strict=True):
        same(got, want, 1e-5)


def test_graphs_without_calls_stay_one_launch(lowered: list[Any]) -> None:
    x = facula.randn(6, 7)
    for _ in range(2):
        compiled = pipeline.compile_graph(traced(lambda x: (x.exp().sum(0),), x))
        assert isinstance(compiled.call, facula.core.GraphLaunch)
        same(compiled.call([x])[0], x.exp().sum(0), 1e-6)
    assert len(lowered) == 1


def test_results_that_lie_otherwise_are_one_launch(lowered: list[Any]) -> None:
    x = facula.randn(2, 3, 4)
    programs = (
        lambda x: (x.exp().permute(2, 0, 1),),
        lambda x: (x.sin().transpose(0, 2), x.exp().sum(0)),
    )
    for program in programs:
        compiled = pipeline.compile_graph(traced(program, x))
        assert isinstance(compiled.call, facula.core.GraphLaunch)
        for got, want in zip(compiled.call([x]), program(x), strict=True):
            same(got, want, 1e-6)
            assert got.stride() == want.stride()


def test_constants_are_those_of_the_graph_at_hand(lowered: list[Any]) -> None:
    x = facula.ones(3)
    for number in (2.0, 5.0):
        held = facula.full((3,), number)
        compiled = pipeline.compile_graph(traced(lambda x, held=held: (x * held + held,), x))
        same(compiled.call([x])[0], facula.full((3,), 2 * number))
    assert len(lowered) == 1


def test_the_key_covers_whatever_the_text_depends_on() -> None:
    x = facula.randn(4, 6)
    keys = [
        key(lambda x: x + 1, x),
        key(lambda x: x + 1.0, x),
        key(lambda x: x + True, x),
        key(lambda x: x - 1, x),
        key(lambda x: x + 1, x[:2]),
        key(lambda x: x + 1, x.t()),
        key(lambda x: x + 1, x.double()),
        key(lambda x: (x + 1,), x),
        key(lambda x: (x + 1).to(facula.float16), x),
    ]
    with config.patch(equal_rounding=True):
        keys.append(key(lambda x: x + 1, x))
    module = traced(lambda x: (x + 1,), x)
    module.meta["writes"] = {0: 0}
    keys.append(disk_cache.key_of(module))
    assert None not in keys and len(set(keys)) == len(keys)
    assert key(lambda other: other + 1, facula.zeros(4, 6)) == keys[0]


def test_the_files_of_the_package_are_part_of_the_key() -> None:
    surroundings = disk_cache._surroundings()
    for part in ("fused.py", "graph.py", "elementwise.py", ".so"):
        assert part in surroundings


def test_what_text_can_not_name_has_no_key() -> None:
    @facula.library.custom_op("stored_tests::twice", mutates_args=())
    def twice(x: facula.Tensor) -> facula.Tensor:
        return x * 2

    twice.register_fake(lambda x: facula.empty_like(x))
    x = facula.ones(3)
    assert key(lambda x: twice(x) + 1, x) is None
    for option in ("force_disable_caches", "debug"):
        with config.patch(option, value=True):
            assert key(lambda x: x + 1, x) is None


def test_a_damaged_file_is_made_anew(lowered: list[Any], folder: Path) -> None:
    x = facula.randn(5)
    module = traced(lambda x: (x * 3,), x)
    pipeline.compile_graph(module)
    (path,) = folder.glob("graphs/??/*.json")
    path.write_bytes(path.read_bytes()[:20])
    same(pipeline.compile_graph(module).call([x])[0], x * 3)
    assert len(lowered) == 2 and disk_cache.load(disk_cache.key_of(module), module) is not None
