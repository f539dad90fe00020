"""Frozen modules: attributes of plain objects, objects that nobody reads, sums with numbers of another dtype."""

from __future__ import annotations

import pytest

import facula
from facula import Tensor, jit, nn


class Scale:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def apply(self, x: Tensor) -> Tensor:
        return x * self.factor


class Scales(nn.Module):
    scale: Scale

    def __init__(self) -> None:
        super().__init__()
        self.scale = Scale(3.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.scale.apply(x)


class Rescales(Scales):
    def forward(self, x: Tensor) -> Tensor:
        self.scale.factor = self.scale.factor + 1.0
        return self.scale.apply(x)


def test_attributes_of_an_object_that_stays_are_constants() -> None:
    frozen = jit.freeze(jit.script(Scales().eval()))
    assert "GetAttr" not in str(frozen.graph)
    assert frozen(facula.ones(1)).item() == 3


def test_attributes_of_an_object_that_changes_are_none() -> None:
    frozen = jit.freeze(jit.script(Rescales().eval()))
    assert [frozen(facula.ones(1)).item() for _ in range(2)] == [4, 5]


@jit.script
class Holder:
    def __init__(self) -> None:
        self.held = facula.zeros([2])


class Forgets(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        made = Holder()
        made.held = x
        return x + 1


class Reads(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        made = Holder()
        made.held = x
        return made.held + 1


def test_objects_that_nobody_reads_are_not_made() -> None:
    frozen = jit.freeze(jit.script(Forgets().eval()))
    assert "SetAttr" not in str(frozen.graph) and "CreateObject" not in str(frozen.graph)
    assert frozen(facula.ones(1)).item() == 2
    assert jit.freeze(jit.script(Reads().eval()))(facula.ones(1)).item() == 2


class Adds(nn.Module):
    def __init__(self, value: Tensor) -> None:
        super().__init__()
        self.layer = nn.Conv1d(2, 3, 2)
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.value


@pytest.mark.parametrize(
    ("dtype", "folds"), [(facula.int32, True), (facula.float32, True), (facula.float64, False)]
)
def test_a_number_of_another_dtype_becomes_part_of_the_bias(
    dtype: facula.dtype, folds: bool
) -> None:
    net, x = Adds(facula.tensor([2], dtype=dtype)).eval(), facula.randn(1, 2, 5)
    frozen = jit.freeze(jit.script(net))
    assert ("aten::add" not in str(frozen.graph)) == folds
    facula.testing.assert_close(frozen(x), net(x))
