"""A device that was entered says where new tensors lie, and nothing about what operators make on their way.

Takes: `with device`, `set_default_device` and the samples of the operator table. Keeps true: a factory
that is told no device follows the device that holds now, however often it was called before; an operator
on CPU tensors gives what it gives without.
"""

from collections.abc import Iterator
from typing import Any

import pytest

import facula
from facula import core, nn
from facula.ops.table.registry import own_operators
from facula.testing.samples import Samples, pointwise_samples


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, facula.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _leaves(item)


def _samples(definition: Any) -> list[Any]:
    if definition.random:
        return []
    if definition.kind == "pointwise":
        dtype = facula.float32 if "float" in definition.dtypes else facula.int64
        return list(pointwise_samples(definition, Samples(dtype)))[:2]
    return list(definition.samples(Samples()))[:3] if definition.samples else []


def _has_tensor(args: Any, kwargs: Any) -> bool:
    return any(True for _ in _leaves([*args, *kwargs.values()]))


def test_a_factory_called_before_follows_the_device() -> None:
    for _ in range(2):
        assert facula.empty((2, 3), device=None, dtype=None).device.type == "cpu"
        assert nn.Linear(3, 2).weight.device.type == "cpu"
        with facula.device("meta"):
            assert facula.empty((2, 3), device=None, dtype=None).device.type == "meta"
            assert nn.Linear(3, 2).weight.device.type == "meta"
            with facula.device("cpu"):
                assert facula.zeros(3).device.type == "cpu"


def test_the_default_device_is_followed() -> None:
    facula.ones(2, 2)
    facula.set_default_device("meta")
    try:
        assert facula.ones(2, 2).device.type == "meta"
    finally:
        facula.set_default_device(None)
    assert facula.ones(2, 2).device.type == "cpu"


@pytest.mark.parametrize(
    "name", [n for n, operator in own_operators().items() if operator.definition.kind != "view"]
)
def test_operators_on_cpu_tensors_do_not_ask(name: str) -> None:
    operator = own_operators()[name]
    previous = core.set_keeping(False)
    try:
        for args, kwargs in _samples(operator.definition):
            if not _has_tensor(args, kwargs):
                continue
            with facula.device("meta"):
                found = list(_leaves(operator(*args, **kwargs)))
            expected = list(_leaves(operator(*args, **kwargs)))
            assert [x.device for x in found] == [x.device for x in expected]
            assert [x.shape for x in found] == [x.shape for x in expected]
    finally:
        core.set_keeping(previous)


def test_a_device_entered_inside_an_operator_holds() -> None:
    library = facula.library.Library("default_device_test", "DEF")
    library.define("places(Tensor x) -> Tensor")
    seen = []

    def places(x: Any) -> Any:
        seen.append(facula.zeros(1).device.type)
        with facula.device("meta"):
            seen.append(facula.zeros(1).device.type)
        seen.append(facula.zeros(1).device.type)
        return x.clone()

    library.impl("places", places, "CPU")
    with facula.device("meta"):
        facula.ops.default_device_test.places(facula.ones(2, device="cpu"))
        assert facula.zeros(1).device.type == "meta"
    assert seen == ["cpu", "meta", "cpu"]


@pytest.mark.parametrize("indices", [facula.tril_indices, facula.triu_indices])
def test_indices_of_a_triangle_lie_where_they_are_asked_for(indices: Any) -> None:
    expected = indices(3, 4)
    with facula.device("meta"):
        assert indices(3, 4).device.type == "meta" and indices(3, 4).shape == expected.shape
        assert facula.equal(indices(3, 4, device="cpu"), expected)


@pytest.mark.parametrize("entered", ["meta", "cpu"])
def test_a_device_that_is_named_comes_before_one_that_was_entered(entered: str) -> None:
    """What ranges, windows and numbers of other dtypes are made through lay on the device that was entered."""
    makers: dict[str, Any] = {
        "arange": lambda **k: facula.arange(5, dtype=facula.int32, **k),
        "linspace": lambda **k: facula.linspace(0, 5, 6, dtype=facula.float16, **k),
        "logspace": lambda **k: facula.logspace(0, 2, 3, dtype=facula.bfloat16, **k),
        "hann": lambda **k: facula.hann_window(4, **k),
        "kaiser": lambda **k: facula.kaiser_window(4, dtype=facula.float64, **k),
        "gaussian": lambda **k: facula.signal.windows.gaussian(4, **k),
        "randint": lambda **k: facula.randint(3, (4,), dtype=facula.float32, **k),
    }
    for name, make in makers.items():
        facula.manual_seed(0)
        want = make()
        facula.manual_seed(0)
        with facula.device(entered):
            got, there = make(device="cpu"), make()
        assert facula.equal(got, want) and got.device.type == "cpu", name
        assert there.device.type == entered, name
