"""Segments without a frame of Python: what is called changes, and every answer follows."""

from __future__ import annotations

import pytest

import facula
from facula import core, nn
from facula.capture.driver import SESSIONS


def _kinds(name: str) -> set[str]:
    """The kinds of functions that the segments of a code object of this name have."""
    return {
        type(entry.function).__name__
        for session in list(SESSIONS)
        for key, place in session.places.items()
        if key[0].co_qualname.endswith(name)
        for entry in place.entries
    }


@pytest.fixture(autouse=True)
def _seed() -> None:
    facula.manual_seed(1)


def test_a_segment_that_is_its_graph_is_one_call() -> None:
    def direct_pair(x, y):
        return x + y, x * y

    x, y = facula.randn(3), facula.randn(3)
    compiled = facula.compile(direct_pair)
    for a, b in ((x, y), (y, x), (facula.randn(5), facula.randn(5))):
        got = compiled(a, b)
        assert type(got) is tuple
        assert facula.equal(got[0], a + b) and facula.equal(got[1], a * b)
    assert _kinds("direct_pair") == {"SegmentCall"}


@pytest.mark.parametrize(
    ("function", "want"),
    [
        (lambda x: (x, x + 1), 0),
        (lambda x: [x + 1], 0),
        (lambda x: (x.shape[0], x + 1), 3),
    ],
)
def test_other_results_are_made_as_ever(function, want) -> None:
    x = facula.randn(3)
    got = facula.compile(function)(x)
    assert type(got) is type(function(x))
    assert (got[0] is x) == (function(x)[0] is x)
    assert facula.equal(got[-1], function(x)[-1])


def test_errors_of_the_graph_reach_the_caller() -> None:
    compiled = facula.compile(lambda x, i: x.index_select(0, i) + 1)
    x = facula.randn(4, 3)
    assert compiled(x, facula.tensor([1, 2])).shape == (2, 3)
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(x, facula.tensor([1, 9]))


def test_a_module_call_follows_hooks_modes_and_keywords() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = facula.compile(net)
    x = facula.randn(2, 4)
    want = net(x)
    for _ in range(2):
        assert facula.allclose(compiled(x), want)
    assert facula.allclose(compiled(input=x), want)
    with facula.no_grad():
        assert not compiled(x).requires_grad
    assert facula.allclose(compiled(facula.cat([x, x])), facula.cat([want, want]))
    handle = net.register_forward_hook(lambda module, args, result: result + 1)
    assert facula.allclose(compiled(x), want + 1)
    handle.remove()
    assert facula.allclose(compiled(x), want)
    net[0].register_forward_hook(lambda module, args, result: -result)
    assert facula.allclose(compiled(x), net(x))


def test_a_module_call_follows_its_parameters() -> None:
    net = nn.Linear(3, 3)
    compiled = facula.compile(net)
    x = facula.randn(2, 3)
    compiled(x).sum().backward()
    assert net.weight.grad is not None
    net.weight = nn.Parameter(facula.randn(3, 3))
    assert facula.allclose(compiled(x), net(x))
    with facula.no_grad():
        net.bias.add_(1)
    assert facula.allclose(compiled(x), net(x))


def test_arguments_that_vary_take_the_long_way() -> None:
    class Sum(nn.Module):
        def forward(self, *xs, scale=1):
            return sum(xs) * scale

    compiled = facula.compile(Sum())
    x = facula.randn(3)
    assert facula.allclose(compiled(x, x), 2 * x)
    assert facula.allclose(compiled(x, scale=3), 3 * x)


def test_keys_are_compared_in_order() -> None:
    compiled = facula.compile(lambda d, x: x * list(d.values())[0])
    x = facula.ones(2)
    assert compiled({"a": 2, "b": 3}, x).tolist() == [2, 2]
    assert compiled({"b": 3, "a": 2}, x).tolist() == [3, 3]
    assert compiled({"a": 2, "b": 3, "c": 4}, x).tolist() == [2, 2]


def test_resets_are_seen() -> None:
    net = nn.Linear(3, 3)
    compiled = facula.compile(net)
    x = facula.randn(2, 3)
    want = compiled(x)
    facula.compiler.reset()
    assert facula.allclose(compiled(x), want)
    assert core.module_is_plain(net, ())
