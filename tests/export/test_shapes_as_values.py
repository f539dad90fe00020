"""`dynamic_shapes` as plain values and back; scripts in exported programs."""

from __future__ import annotations

import json

import pytest

import facula
from facula._export.serde.dynamic_shapes import (
    DynamicShapesSpec,
    RootDim,
    _dump_dynamic_shapes,
    _load_dynamic_shapes,
)
from facula.capture.errors import UserError
from facula.export import Dim, export


class Joined(facula.nn.Module):
    def forward(self, pair, more, word):
        return facula.cat([pair[0], pair[1][1:]]), more * 2


def inputs(n):
    return [facula.ones(2 * n, 4), facula.ones(2 * n + 1, 4)], facula.ones(n), "word"


def shapes():
    n = Dim("n", min=4, max=16)
    return {"pair": [(2 * n, 4), (2 * n + 1, None)], "more": (n,), "word": None}


def test_names_expressions_numbers_and_hints_are_plain():
    spec = _dump_dynamic_shapes(shapes(), inputs(4), to_dict=True)
    pair = [["2*n", 4], ["2*n + 1", "_DimHint.STATIC"]]
    bounds = {"min": 4, "max": 16, "derived": ["2*n", "2*n + 1"]}
    assert spec == {"dynamic_shapes": (pair, ["n"], None), "dims": {"n": bounds}}
    hints = _dump_dynamic_shapes(
        ((Dim.AUTO, Dim.DYNAMIC), None), (facula.ones(2, 3), facula.ones(1))
    )
    assert hints.dynamic_shapes == (["_DimHint.AUTO", "_DimHint.DYNAMIC"], ["_DimHint.STATIC"])
    assert hints.dims == {}


def test_shapes_that_went_through_text_export_the_same_program():
    text = json.dumps(_dump_dynamic_shapes(shapes(), inputs(4), to_dict=True))
    read = _load_dynamic_shapes(json.loads(text), from_dict=True)
    assert read[0][0][0].root is read[1][0] and read[0][1][0].root is read[1][0]
    run = export(Joined(), inputs(4), dynamic_shapes=read).module()
    assert run(*inputs(7))[0].shape == (28, 4)
    with pytest.raises(AssertionError, match="<= "):
        run(*inputs(17))


@pytest.mark.parametrize(
    "spec, said",
    [
        (
            {"dynamic_shapes": [["d"]], "dims": {"d": {"min": None, "max": 4, "derived": []}}},
            "map `min` to an int",
        ),
        (
            {"dynamic_shapes": [["d"]], "dims": {"e": {"min": 2, "max": 4, "derived": []}}},
            "got d which is not in",
        ),
        (
            {"dynamic_shapes": [["d"]], "dims": {"d": {"min": 2, "max": 4, "derived": ["d**2"]}}},
            "linear",
        ),
        (
            {"dynamic_shapes": [["d"]], "dims": {"d": {"min": 2, "max": 4, "derived": ["2*e"]}}},
            "linear",
        ),
        (DynamicShapesSpec([["d"]], {"d": RootDim(2, 4, [])}), "expected `spec` to be a dict"),
    ],
)
def test_values_of_another_form_are_refused(spec, said):
    with pytest.raises(UserError, match=said):
        _load_dynamic_shapes(spec, from_dict=True)


def test_other_structures_than_the_inputs_are_refused():
    with pytest.raises(UserError, match="is a <class 'list'>, but"):
        _dump_dynamic_shapes(({"k": (Dim("a"),)},), ({"k": [facula.ones(4)]},))


@facula.jit.script
def chosen(x: facula.Tensor) -> facula.Tensor:
    if facula.jit.is_scripting():
        return x.cos()
    return x.sin()


class Scripted(facula.nn.Module):
    def forward(self, x):
        return chosen(x) + 1


def test_a_script_is_its_python_in_exported_programs():
    x = facula.tensor([0.5, 1.0])
    assert facula.allclose(Scripted()(x), x.cos() + 1)
    assert facula.allclose(export(Scripted(), (x,)).module()(x), x.sin() + 1)
