"""`export.AdditionalInputs`: what differs among examples may change, and all examples are served."""

from __future__ import annotations

import dataclasses

import pytest

import facula
from facula import export, nn
from facula.export import Dim
from facula.fx import _pytree as pytree


@dataclasses.dataclass
class Item:
    """A container of a tensor, a number and a flag."""

    values: facula.Tensor
    count: int
    flag: bool = True


pytree.register_dataclass(Item)


class Sums(nn.Module):
    def forward(self, x, item, *, more):  # type: ignore[no-untyped-def]
        return x + item.values * item.count + more["y"][0]


def example(size: int, count: int = 2, flag: bool = True):  # type: ignore[no-untyped-def]
    args = (facula.randn(size, 3), Item(facula.randn(size, 1), count, flag))
    return args, {"more": {"y": [facula.randn(3)]}}


def test_sizes_that_differ_may_change():
    more = export.AdditionalInputs()
    more.add(*example(5))
    args, kwargs = example(4)
    assert more.dynamic_shapes(Sums(), args, kwargs) == {
        "x": (Dim.DYNAMIC, None),
        "item": [(Dim.DYNAMIC, None), None, None],
        "more": {"y": [(None,)]},
    }
    program = export.export(Sums(), args, kwargs, dynamic_shapes=more)
    args, kwargs = example(9)
    assert facula.allclose(program.module()(*args, **kwargs), Sums()(*args, **kwargs))


def test_examples_that_the_program_refuses_are_errors():
    class Least(nn.Module):
        def forward(self, x):  # type: ignore[no-untyped-def]
            return x + 1 if x.shape[0] >= 4 else x

    more = export.AdditionalInputs()
    more.add((facula.ones(2),))
    with pytest.raises(RuntimeError, match=r"x.size\(\)\[0\] >= 4"):
        export.export(Least(), (facula.ones(6),), dynamic_shapes=more)


def test_what_can_not_change_is_named():
    for other, words in (
        (example(5, flag=False), "True, False"),
        (example(5, count=True), "types"),
    ):
        more = export.AdditionalInputs()
        more.add(*other)
        with pytest.raises(ValueError, match=f"can ?not be marked as dynamic|{words}"):
            more.dynamic_shapes(Sums(), *example(4))
    more = export.AdditionalInputs()
    more.add((facula.ones(1), [facula.ones(1)]))
    with pytest.raises(ValueError, match="nested alike"):
        more.dynamic_shapes(lambda x, y: x, (facula.ones(1), facula.ones(1)))
    with pytest.raises(AssertionError, match="tuple"):
        more.add([facula.ones(1)])


def test_a_container_may_leave_fields_out():
    @dataclasses.dataclass
    class Named:
        x: facula.Tensor
        label: str = "none"

    pytree.register_dataclass(Named, drop_field_names=["label"])
    leaves, spec = pytree.tree_flatten(Named(facula.ones(1), "a"))
    assert len(leaves) == 1 and pytree.tree_unflatten(leaves, spec).label == "none"
    with pytest.raises(ValueError, match="fields"):
        pytree.register_dataclass(Named, field_names=["x"])


def test_placeholders_are_told_apart():
    from facula._export import utils

    class Held(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(facula.ones(2))
            self.register_buffer("hidden", facula.zeros(2), persistent=False)
            self.constant = facula.full((2,), 5.0)

        def forward(self, x):  # type: ignore[no-untyped-def]
            return x * self.weight + self.hidden + self.constant

    program = export.export(Held(), (facula.ones(2),))
    nodes = {n.name: n for n in program.graph.find_nodes(op="placeholder")}
    kinds = {
        "p_weight": (utils.is_param, utils.get_param, 1.0),
        "b_hidden": (utils.is_buffer, utils.get_buffer, 0.0),
        "c_constant": (utils.is_lifted_tensor_constant, utils.get_lifted_tensor_constant, 5.0),
    }
    for name, node in nodes.items():
        for own, (asked, given, value) in kinds.items():
            assert asked(program, node) == (own == name)
            found = given(program, node)
            assert found is None if own != name else float(found[0]) == value
