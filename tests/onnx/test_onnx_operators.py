"""Every operator of the table that has a form in ONNX gives its values there, by the table's samples."""

from __future__ import annotations

from typing import Any

import pytest

import facula
from facula import core
from facula.onnx.errors import UnsupportedOperatorError
from facula.onnx.scalars import FORMS
from facula.onnx.table import REWRITES, TRANSLATIONS
from facula.ops.expr.primitives import PRIMITIVES
from facula.ops.table.registry import own_operators
from facula.testing.samples import Samples, map_tensors, pointwise_samples
from tests.onnx.onnx_support import compare, exported, tensors

#: methods of the core that copy
METHODS = {"_to_copy"}


class Batch(facula.nn.Module):
    """Many calls as one model."""

    def __init__(self, calls: list[Any]) -> None:
        super().__init__()
        self.calls = calls

    def forward(self, *given: Any) -> list[Any]:
        left, results = iter(given), []
        for operator, args, kwargs in self.calls:
            args, kwargs = map_tensors(lambda t: next(left), (args, kwargs))
            results += tensors(operator(*args, **kwargs))
        return results


def inputs_of(calls: list[Any]) -> tuple[Any, ...]:
    found: list[Any] = []
    for _, args, kwargs in calls:
        map_tensors(lambda t: (found.append(t), t)[1], (args, kwargs))
    return tuple(found)


def samples(definition: Any, S: Samples) -> list[Any]:
    if definition.kind == "pointwise":
        return list(pointwise_samples(definition, S))
    return list(definition.samples(S)) if definition.samples else []


def written(operator: Any, args: Any, kwargs: Any, opset: int) -> Any:
    """A call as the only one of a model; None where ONNX has no form for it."""
    call = [(operator, args, kwargs)]
    try:
        return facula.onnx.export(Batch(call), inputs_of(call), optimize=False, opset_version=opset)
    except UnsupportedOperatorError as error:
        assert "hint: " in str(error)
        return None


def cases(kinds: tuple[str, ...], dtype: Any, opset: int = 20) -> tuple[list[Any], set[str]]:
    """Calls that have a form, and the operators of which some call has none."""
    calls, without = [], set[str]()
    for name, operator in own_operators().items():
        definition = operator.definition
        types = {p.type for p in definition.schema.parameters}
        known = definition.kind == "pointwise" or name in TRANSLATIONS or name in REWRITES
        # a second result that gradients alone read
        known = known and name != "_embedding_bag"
        if definition.kind not in kinds or not known or "generator" in types or definition.dynamic:
            continue
        for args, kwargs in samples(definition, Samples(dtype, seed=7)):
            args, kwargs = map_tensors(lambda t: t.detach(), (args, kwargs))
            try:
                operator(*args, **kwargs)
            except NotImplementedError:
                continue  # of another dtype
            if written(operator, args, kwargs, opset) is None:
                without.add(name)
            else:
                calls.append((operator, args, kwargs))
    return calls, without


def expected(calls: list[Any]) -> list[Any]:
    return [t for operator, args, kwargs in calls for t in tensors(operator(*args, **kwargs))]


def test_pointwise_operators_are_their_expressions():
    calls, without = cases(("pointwise",), core.float32)
    program = exported(Batch(calls), inputs_of(calls))
    compare(program(*inputs_of(calls)), expected(calls), 2e-5)
    # what has no form is made of a primitive that ONNX does not have
    assert len(without) <= 66
    assert len({operator.name for operator, _, _ in calls}) >= 110


@pytest.mark.parametrize("opset", [17, 20, 23])
def test_structured_operators_and_views(opset):
    calls, without = cases(("operator", "view"), core.float32, opset)
    program = exported(Batch(calls), inputs_of(calls), opset_version=opset)
    compare(program(*inputs_of(calls)), expected(calls), 5e-5)
    kept_for_backward = {"_lstm_layer", "batch_norm_train", "_adaptive_max_pool"}
    newer = {"index_reduce", "scatter_reduce", "grid_sampler", "col2im"} if opset == 17 else set()
    assert without <= kept_for_backward | {"real"} | newer


def test_every_translation_is_of_an_operator():
    known = set(own_operators())
    assert set(REWRITES) <= known
    assert set(TRANSLATIONS) - known == METHODS


def test_forms_are_of_primitives():
    assert set(FORMS) <= set(PRIMITIVES)


def test_a_version_without_a_node_is_an_error_that_names_one_with_it():
    model, x = (
        Batch([(own_operators()["bitwise_xor"], (facula.tensor([1]), 2), {})]),
        facula.tensor([1]),
    )
    with pytest.raises(UnsupportedOperatorError, match="opset_version=18"):
        facula.onnx.export(model, (x,), opset_version=17)


@pytest.mark.parametrize("name", ["lgamma", "i0"])
def test_a_primitive_without_a_form_is_named(name):
    model = Batch([(own_operators()[name], (facula.ones(3),), {})])
    with pytest.raises(UnsupportedOperatorError, match=name):
        facula.onnx.export(model, (facula.ones(3),))
