"""Named tuples whose items are no tensors, without a type that says so: no attributes of scripts."""

import collections
import io
from typing import NamedTuple

import pytest

import facula
from facula import nn

Pair = collections.namedtuple("Pair", ["first", "second"])


class Holder(nn.Module):
    def __init__(self, pair):
        super().__init__()
        self.pair = pair
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x)


class Reader(Holder):
    def forward(self, x):
        return self.pair.first + x


@pytest.mark.parametrize(
    "pair", [Pair(len, print), Pair(facula.ones(2), 3), Pair(facula.ones(2), None)]
)
def test_they_are_left_out_of_files(pair):
    model = Holder(pair)
    scripted = facula.jit.script(model)
    buffer = io.BytesIO()
    facula.jit.save(scripted, buffer)
    buffer.seek(0)
    x = facula.ones(1, 2)
    assert facula.jit.load(buffer)(x).equal(model(x))
    with pytest.raises(RuntimeError, match=r"Pair\.(first|second) holds a"):
        facula.jit.script(Reader(pair))


def test_those_of_tensors_are_kept():
    model = Reader(Pair(facula.ones(2), facula.zeros(2)))
    scripted = facula.jit.script(model)
    buffer = io.BytesIO()
    facula.jit.save(scripted, buffer)
    buffer.seek(0)
    loaded = facula.jit.load(buffer)
    assert loaded(facula.ones(2)).tolist() == [2.0, 2.0] and loaded.pair.second.tolist() == [
        0.0,
        0.0,
    ]


class Step(NamedTuple):
    size: facula.Tensor
    count: int


@facula.jit.script
class Walk:
    def __init__(self, first: Step):
        self.first = first


class Steps(nn.Module):
    one: Step
    several: list[Step]
    perhaps: Step | None
    known: dict[str, Step]
    numbered: tuple[int, Step]
    walk: Walk

    def __init__(self):
        super().__init__()
        made = [Step(facula.full((1,), float(k)), 10**k) for k in range(6)]
        self.one, self.several, self.perhaps = made[0], [made[1]], made[2]
        self.known, self.numbered, self.walk = {"a": made[3]}, (1, made[4]), Walk(made[5])

    def forward(self, x):
        total = x + self.one.count + self.several[0].count + self.known["a"].count
        perhaps = self.perhaps
        if perhaps is not None:
            total = total + perhaps.count
        return total + self.numbered[1].count + self.walk.first.count + self.walk.first.size


def test_named_tuples_in_other_attributes_are_kept():
    model, x = Steps(), facula.zeros(1)
    buffer = io.BytesIO()
    facula.jit.save(facula.jit.script(model), buffer)
    buffer.seek(0)
    loaded = facula.jit.load(buffer)
    assert model(x).item() == 111116.0
    assert loaded(x).item() == 111116.0
    assert loaded.several[0].count == 10 and loaded.numbered[1].size.item() == 4.0
