"""`dynamic=True`: int arguments are symbolic from the first call; counts of results are checked."""

from __future__ import annotations

from typing import Any

import pytest
from capturing import Graphs, equal

import facula

X = facula.arange(24.0).reshape(4, 6)


def graphs_of(function: Any, *calls: tuple) -> int:
    """How many graphs some calls need, whose results are eager's."""
    graphs = Graphs()
    call = facula.compile(function, backend=graphs, dynamic=True, fullgraph=True)
    for args in calls:
        assert equal(call(*args), function(*args))
    native = facula.compile(function, dynamic=True, fullgraph=True)
    assert all(equal(native(*args), function(*args)) for args in calls)
    return len(graphs)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x.reshape(n, -1) * n,
        lambda x, n: facula.zeros(n, 3) + x.sum(),
        lambda x, n: x * (n + 1) // 2 + n**2,
        lambda x, n: x[:n] + x[n - 1],
        lambda x, n: facula.arange(n) + x.shape[0],
    ],
)
def test_one_graph_serves_all_ints(function):
    assert graphs_of(function, (X, 2), (X, 3), (X, 4)) == 1


def test_zero_and_one_are_graphs_of_their_own():
    assert graphs_of(lambda x, n: facula.zeros(n, 3) + x.sum(), (X, 2), (X, 0), (X, 1), (X, 9)) == 3


def test_ints_in_lists_and_by_name():
    assert graphs_of(lambda x, n: x.reshape(n) + n[0], (X, [4, 6]), (X, [6, 4]), (X, [2, 12])) == 1
    assert graphs_of(lambda x, k=3: x.repeat(k, 1), (X,), (X, 4), (X, 5)) == 1


def test_branches_on_ints_are_guards():
    assert graphs_of(lambda x, n: x * n if n > 5 else x + n, (X, 2), (X, 7), (X, 3), (X, 8)) == 2


def test_without_dynamic_an_int_is_static_at_first():
    graphs = Graphs()
    call = facula.compile(lambda x, n: x * n, backend=graphs)
    call(X, 2)
    (module, inputs), = graphs  # fmt: skip
    assert len(inputs) == 1


@pytest.mark.parametrize("function", [lambda x, n: x.chunk(n), lambda x, n: list(x.split(n))])
def test_how_many_results_there_are_is_checked(function):
    rows = [facula.arange(float(2 * n)).reshape(n, 2) for n in (8, 6, 4)]
    graphs_of(function, *[(row, n) for row in rows for n in (2, 3, 4)])
    graphs_of(lambda x: [part * 2 for part in (x * 2).split(2)], *[(row,) for row in rows])
