"""Containers and lazy layers."""

import copy
from collections import OrderedDict

import pytest

import facula
from facula import nn


def test_sequential_list_manners():
    s = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    s.append(nn.Linear(3, 1))
    assert len(s) == 3 and isinstance(s[-1], nn.Linear) and len(s[:2]) == 2
    s.insert(1, nn.Tanh())
    assert [type(m).__name__ for m in s] == ["Linear", "Tanh", "ReLU", "Linear"]
    assert list(s._modules) == ["0", "1", "2", "3"]
    del s[1]
    assert list(s._modules) == ["0", "1", "2"] and isinstance(s.pop(1), nn.ReLU)
    assert len(s + s) == 4 and len(s * 2) == 4
    with pytest.raises(IndexError):
        _ = s[9]
    named = nn.Sequential(OrderedDict(a=nn.ReLU(), b=nn.Tanh()))
    assert named.a is named[0]


def test_module_list_and_dict():
    modules = nn.ModuleList([nn.ReLU()])
    modules += [nn.Tanh()]
    modules.insert(0, nn.Sigmoid())
    assert [type(m).__name__ for m in modules] == ["Sigmoid", "ReLU", "Tanh"]
    modules[1] = nn.ELU()
    assert isinstance(modules[1], nn.ELU) and len(modules[1:]) == 2
    table = nn.ModuleDict({"a": nn.ReLU()})
    table.update([("b", nn.Tanh())])
    assert list(table) == ["a", "b"] and "a" in table and isinstance(table.pop("a"), nn.ReLU)
    with pytest.raises(TypeError):
        table.update(3)


def test_parameter_containers():
    values = nn.ParameterList([facula.ones(2), facula.ones(3)])
    values.append(nn.Parameter(facula.ones(1)))
    assert [n for n, _ in values.named_parameters()] == ["0", "1", "2"]
    assert isinstance(values[0], nn.Parameter) and len(values[1:]) == 2
    table = nn.ParameterDict({"x": facula.ones(2)})
    table["y"] = facula.ones(1)
    assert list(table.keys()) == ["x", "y"] and len(table | {"z": facula.ones(1)}) == 3
    assert table.get("q") is None and table.setdefault("y") is table["y"]
    table.pop("x")
    assert "x" not in dict(table.named_parameters())


@pytest.mark.parametrize(
    ("lazy", "shape", "cls"),
    [
        (lambda: nn.LazyLinear(4), (2, 3), nn.Linear),
        (lambda: nn.LazyConv2d(4, 3), (1, 3, 5, 5), nn.Conv2d),
        (lambda: nn.LazyConvTranspose1d(4, 3), (1, 3, 5), nn.ConvTranspose1d),
        (lambda: nn.LazyBatchNorm1d(), (2, 3), nn.BatchNorm1d),
        (lambda: nn.LazyInstanceNorm1d(affine=True), (2, 3, 4), nn.InstanceNorm1d),
    ],
)
def test_lazy_layers(lazy, shape, cls):
    module = lazy()
    assert module.has_uninitialized_params()
    module(facula.randn(*shape))
    assert type(module) is cls and not module._forward_pre_hooks
    assert all(type(p) is nn.Parameter for p in module.parameters())


def test_lazy_layer_loads_state():
    source, lazy = nn.Linear(3, 4), nn.LazyLinear(4)
    lazy.load_state_dict(source.state_dict())
    assert tuple(lazy.weight.shape) == (4, 3)
    x = facula.randn(2, 3)
    assert float((lazy(x) - source(x)).abs().max()) == 0


def test_lazy_copy_initialises_on_its_own():
    lazy = nn.LazyLinear(4)
    twin = copy.deepcopy(lazy)
    twin(facula.randn(1, 2))
    assert type(twin) is nn.Linear and type(lazy) is nn.LazyLinear
    with pytest.raises(RuntimeError, match="dry run"):
        _ = lazy.weight.shape


def test_parameters_are_shown_with_their_kind():
    values = [facula.ones(2, 3, dtype=facula.float64)]
    assert "(0): Parameter containing: [facula.float64 of size 2x3]" in repr(
        nn.ParameterList(values)
    )
    shown = repr(nn.ParameterDict({"k": values[0], "n": 5}))
    assert "(k): Parameter containing: [facula.DoubleTensor of size 2x3]" in shown
    assert "(n): Object of type: int" in shown
