"""Compiled equals eager for every operator of the table, by its samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import facula
from facula import core
from facula.compiler import pipeline
from facula.fx.experimental.proxy_tensor import make_fx
from facula.ops.table.registry import own_operators
from facula.testing.samples import Samples, layouts, map_tensors, pointwise_samples
from tests.inductor.support import flat

BATCH = 40
KINDS = ("pointwise", "view", "operator")


def tensors(structure: Any) -> list[Any]:
    """The tensors in a nest."""
    found: list[Any] = []
    map_tensors(lambda t: (found.append(t.detach()), t)[1], structure)
    return found


def samples_of(definition: Any, S: Samples) -> list[Any]:
    """Arguments to try an operator on; none where they do not exist in the dtype."""
    try:
        if definition.kind == "pointwise":
            return list(pointwise_samples(definition, S))
        return list(definition.samples(S)) if definition.samples else []
    except NotImplementedError:
        return []


def cases(dtype: Any, layout: str) -> Iterator[tuple[str, Any, Any, Any, list[Any]]]:
    """(name, operator, args, kwargs, what eager gives) for every sample that eager takes."""
    change = layouts.get(layout)
    for name, op in own_operators().items():
        definition = op.definition
        names = [p.type for p in definition.schema.parameters]
        if definition.kind not in KINDS or "generator" in names:
            continue
        if getattr(definition, "dynamic", False) or (change and definition.kind == "view"):
            continue
        S = Samples(dtype, seed=7)
        for args, kwargs in samples_of(definition, S):
            if change is not None:
                args, kwargs = map_tensors(lambda t: change(t.detach()), (args, kwargs))
            try:
                want = flat(op(*args, **kwargs))
            except (RuntimeError, NotImplementedError, TypeError, ValueError):
                continue  # eager does not take this dtype
            yield name, op, args, kwargs, want


def run(batch: list[Any]) -> None:
    """Compile some calls as one graph, and compare."""
    inputs = [t for _, _, args, kwargs, _ in batch for t in tensors((args, kwargs))]

    def calls(*given: Any) -> list[Any]:
        left = iter(given)
        results = []
        for _, op, args, kwargs, _ in batch:
            args, kwargs = map_tensors(lambda t: next(left), (args, kwargs))
            results += flat(op(*args, **kwargs))
        return results

    module = make_fx(calls, tracing_mode="fake", _whole_indexing=True)(*inputs)
    options = {"equal_rounding": True, "debug": True}
    found = iter(pipeline.compile_graph(module, options).call(inputs))
    for name, _, _, _, wanted in batch:
        for want in wanted:
            got = next(found)
            assert got.shape == want.shape and got.dtype == want.dtype, name
            a, b = (facula.view_as_real(t) if t.is_complex() else t for t in (got, want.detach()))
            # in `a * b - c * d` either product may be the one that is not rounded
            tolerance = 1e-6 if got.dtype.is_complex else 0.0
            numpy.testing.assert_allclose(
                a.double().numpy(), b.double().numpy(), rtol=tolerance, atol=tolerance, err_msg=name
            )


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [
        ("float32", "contiguous"),
        ("float32", "transposed"),
        ("bfloat16", "contiguous"),
        ("int64", "sliced"),
        ("complex64", "contiguous"),
    ],
)
def test_compiled_equals_eager(dtype: str, layout: str) -> None:
    # states of random numbers are read as numbers: they stay what they are
    found = [c for c in cases(getattr(core, dtype), layout) if not c[0].startswith("_philox")]
    assert len(found) > 100
    for first in range(0, len(found), BATCH):
        run(found[first : first + BATCH])
