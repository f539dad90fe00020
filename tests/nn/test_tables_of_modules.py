"""Tables of parameters, buffers and children that programs put in the place of a module's own."""

from collections import OrderedDict, UserDict

import pytest

import facula
from facula import nn


class Counting(OrderedDict):
    """A dictionary that says what was asked for."""

    def __init__(self, *given):
        super().__init__(*given)
        self.asked = []

    def __getitem__(self, name):
        self.asked.append(name)
        return super().__getitem__(name)


@pytest.mark.parametrize("kind", [OrderedDict, UserDict, Counting])
@pytest.mark.parametrize("table", ["_parameters", "_buffers", "_modules"])
def test_attributes_are_found_in_them(table, kind):
    module = nn.Module()
    value = nn.ReLU() if table == "_modules" else nn.Parameter(facula.ones(2))
    module.__dict__[table] = kind({"part": value})
    assert module.part is value
    assert getattr(module, "other", None) is None
    if kind is Counting:
        assert vars(module)[table].asked == ["part"]


def test_a_layer_computes_with_them():
    layer = nn.Linear(3, 2)
    layer._parameters = OrderedDict(weight=facula.ones(2, 3), bias=facula.tensor([1.0, 2.0]))
    assert layer(facula.ones(1, 3)).tolist() == [[4.0, 5.0]]
    with pytest.raises(AttributeError, match="weigth"):
        layer.weigth  # noqa: B018


def test_errors_of_such_tables_are_heard():
    class Broken(OrderedDict):
        def __getitem__(self, name):
            raise ValueError("not gathered yet")

    module = nn.Module()
    module.__dict__["_parameters"] = Broken(weight=None)
    with pytest.raises(ValueError, match="not gathered"):
        module.weight  # noqa: B018
