"""`dynamic_shapes` after what the error of an export suggests, and errors of what is no size."""

import pytest

import facula
from facula.capture.errors import UserError
from facula.export import Dim, export
from facula.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes as refine


class _Sum(facula.nn.Module):
    def forward(self, x, y):
        return x + y[0]


class _Fours(facula.nn.Module):
    def forward(self, x):
        return x.reshape(-1, 4)


def _refined(module, args, shapes):
    with pytest.raises(UserError, match="Suggested fixes") as raised:
        export(module, args, dynamic_shapes=shapes)
    return refine(str(raised.value), shapes)


def test_two_names_of_one_size_become_one():
    a, b = facula.export.dims("a", "b")
    args = facula.ones(3, 2), [facula.ones(3, 2)]
    shapes = _refined(_Sum(), args, {"x": {0: a}, "y": [(b, None)]})
    program = export(_Sum(), args, dynamic_shapes=shapes)
    assert program.module()(facula.ones(7, 2), [facula.ones(7, 2)]).shape == (7, 2)
    with pytest.raises(AssertionError):
        program.module()(facula.ones(7, 2), [facula.ones(6, 2)])


def test_a_size_that_the_program_fixes_becomes_a_number():
    args = facula.ones(3, 2), [facula.ones(3, 2)]
    shapes = _refined(_Sum(), args, ({0: Dim("a")}, [None]))
    assert shapes == ({0: 3}, [None])
    assert export(_Sum(), args, dynamic_shapes=shapes).module()(*args).shape == (3, 2)


def test_a_size_that_must_be_divisible_becomes_a_multiple():
    made = refine("Suggested fixes:\n  n = 4*_n", ({0: Dim("n", max=64)},))
    assert (made[0][0].root.max, made[0][0].factor) == (16, 4)
    program = export(_Fours(), (facula.ones(8),), dynamic_shapes=made)
    assert program.module()(facula.ones(32)).shape == (8, 4)


def test_texts_are_taken_apart_and_not_run():
    n = Dim("n", min=2)
    text = "Suggested fixes:\n  n = Dim('n', min=3, max=6)\n  L['x'].size()[0] = 4\n"
    (made,) = refine(text, [{0: n * 2 + 1}])
    assert (made[0].min, made[0].max, made[0].root.max) == (7, 13, 6)
    with pytest.raises(ValueError, match="Suggested fixes not found"):
        refine("an error without advice", {"x": {0: n}})
    with pytest.raises(ValueError, match="numbers, Dim"):
        refine("Suggested fixes:\n  n = print(1)", {"x": {0: n}})


def test_constraints_and_sizes_of_other_kinds_are_refused():
    layer, x = facula.nn.Linear(2, 1), facula.ones(3, 2)
    with pytest.raises(TypeError, match=r"\[export\] comparisons of dynamic_dim were required"):
        export(layer, (x,), constraints=[3])
    with pytest.raises(UserError, match=r"Unexpected dimension specified at inputs\['input'\]"):
        export(layer, (x,), dynamic_shapes=({0: "batch"},))
