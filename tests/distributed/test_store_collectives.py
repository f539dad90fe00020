"""Exchanges through a store: four threads stand for ranks."""

from __future__ import annotations

import copy
import datetime
import pickle
from collections.abc import Callable
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest

from facula import distributed as dist

SHORT = datetime.timedelta(milliseconds=1)


def together(run: Callable[[Any, int], Any]) -> list[Any]:
    store = dist.HashStore()
    with ThreadPool(4) as pool:
        return pool.map(lambda r: run(dist._StoreCollectives(store, r, 4), r), range(4))


def test_all_ranks_get_what_is_exchanged():
    assert together(lambda c, r: c.all_sum("a", r + 1)) == [10] * 4
    assert together(lambda c, r: c.all_gather("a", str(r))) == [[b"0", b"1", b"2", b"3"]] * 4
    assert together(lambda c, r: c.barrier("a")) == [None] * 4


def test_one_rank_gives_or_gets():
    sent = together(lambda c, r: c.broadcast_send("a", b"x") if r == 2 else c.broadcast_recv("a"))
    assert sent == [b"x", b"x", None, b"x"]
    values = [f"v{r}" for r in range(4)]
    got = together(lambda c, r: c.scatter_send("a", values) if r == 2 else c.scatter_recv("a"))
    assert got == [b"v0", b"v1", b"v2", b"v3"]
    came = together(lambda c, r: c.gather_recv("a", "m") if r == 1 else c.gather_send("a", str(r)))
    assert came == [None, [b"0", b"m", b"2", b"3"], None, None]


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("barrier", (), "barrier failed -- missing ranks: 0, 2, 3"),
        ("all_gather", ("x",), "all_gather failed -- missing ranks: 0, 2, 3"),
        ("gather_recv", ("x",), "gather failed -- missing ranks: 0, 2, 3"),
        ("all_sum", (1,), "barrier failed -- missing ranks: 0, 2, 3"),
        ("broadcast_recv", (), "Wait timeout"),
        ("scatter_recv", (), "Wait timeout"),
    ],
)
def test_ranks_that_do_not_come_are_named(name: str, arguments: tuple[Any, ...], text: str):
    one = dist._StoreCollectives(dist.HashStore(), 1, 4)
    with pytest.raises(dist.DistStoreError, match=text):
        getattr(one, name)("a", *arguments, SHORT)
    with pytest.raises(ValueError, match="Key a has already been used"):
        getattr(one, name)("a", *arguments, SHORT)


def test_a_value_for_each_rank():
    with pytest.raises(ValueError, match="4 values"):
        dist._StoreCollectives(dist.HashStore(), 1, 4).scatter_send("a", ["x"])


@pytest.mark.parametrize("name", ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"])
def test_ways_to_reduce_are_kept_in_files_and_copies(name: str):
    """Their functions could not be pickled, and they were no instances of `ReduceOp`."""
    way = getattr(dist.ReduceOp, name)
    assert isinstance(way, dist.ReduceOp) and not isinstance(name, dist.ReduceOp)
    for other in (pickle.loads(pickle.dumps(way)), copy.copy(way), copy.deepcopy(way)):
        assert other == way and other.combine is way.combine
