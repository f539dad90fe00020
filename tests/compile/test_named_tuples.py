"""Named tuples with constructors of their own, packed sequences among them."""

from __future__ import annotations

import collections
from typing import Any, NamedTuple

import pytest

import facula
from facula import nn
from facula._dynamo import explain
from facula.nn.utils import rnn


class Plain(NamedTuple):
    first: Any
    second: Any = 3


class Doubled(collections.namedtuple("Doubled", "first second")):  # noqa: PYI024 - it is the case
    __slots__ = ()

    def __new__(cls, first, second=None):
        return super().__new__(cls, first * 2, first if second is None else second)

    @property
    def total(self):
        return self.first + self.second


class Inherited(Doubled):
    __slots__ = ()


def test_own_constructors_run():
    def function(x):
        plain, doubled, inherited = Plain(x), Doubled(x), Inherited(x, x + 1)
        return plain, doubled, inherited, doubled.total, doubled._replace(first=x * 5)

    x = facula.ones(2)
    expected, found = function(x), facula.compile(function, fullgraph=True)(x)
    assert [type(value) for value in found] == [type(value) for value in expected]
    facula.testing.assert_close(found, expected)


@pytest.mark.breaks("data-dependent-value")
def test_packed_sequences():
    layer = nn.LSTM(3, 4, batch_first=True)

    def function(x, lengths):
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, (hidden, _) = layer(packed)
        return rnn.pad_packed_sequence(output, batch_first=True)[0], hidden

    x, lengths = facula.randn(3, 5, 3), facula.tensor([2, 5, 4])
    facula.testing.assert_close(facula.compile(function)(x, lengths), function(x, lengths))


def test_packed_sequence_made_inside():
    def function(data, sizes, order):
        return rnn.PackedSequence(data, sizes, order)

    inputs = facula.ones(3), facula.tensor([2, 1]), facula.tensor([1, 0])
    expected, found = function(*inputs), facula.compile(function)(*inputs)
    assert type(found) is rnn.PackedSequence
    facula.testing.assert_close(found.unsorted_indices, expected.unsorted_indices)
    assert explain(function)(*inputs).graph_break_count == 0
