"""What agents exchange through a store: everybody's value, and a point that all have reached.

Takes: a store, ranks, and a prefix of keys that nothing else uses. Gives: `get_all`, `synchronize`, `barrier`.
Keeps true: rank 0, whose process may keep the store, returns last.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from facula.core.logs import get_logger
from facula.distributed.errors import DistStoreError

__all__ = ["barrier", "get_all", "store_timeout", "synchronize"]

_HERE = "<val_ignored>"
_COUNT, _LAST, _TRACE, _GATE = "/num_members", "/last_member", "/TRACE", "/TRACING_GATE"


@contextlib.contextmanager
def store_timeout(store: Any, timeout: float) -> Iterator[None]:
    """A block in which a store waits as long as told; after an error in it the time stays, for those who go on to
    find out who is missing.

    Args:
        timeout: seconds
    """
    before = store.timeout
    store.set_timeout(datetime.timedelta(seconds=timeout))
    yield
    store.set_timeout(before)


def get_all(store: Any, rank: int, prefix: str, world_size: int) -> list[bytes]:
    """The values under `prefix0`, `prefix1`, .., once all are there.

    Args:
        rank: this one
        prefix: what keys begin with
        world_size: how many there are
    """
    values: list[bytes] = store.multi_get([f"{prefix}{other}" for other in range(world_size)])
    last = _arrived(store, world_size, f"{prefix}/finished")
    if rank == 0:  # its process may keep the store: it waits until all have read
        store.wait([last])
    return values


def synchronize(
    store: Any, data: Any, rank: int, world_size: int, key_prefix: str, timeout: float = 300
) -> list[bytes]:
    """Everybody's value, on every rank.

    Args:
        data: this rank's
        rank: this one
        world_size: how many there are
        key_prefix: what keys begin with
        timeout: seconds for which values are waited for
    """
    with store_timeout(store, timeout):
        store.set(f"{key_prefix}{rank}", data)
        return get_all(store, rank, key_prefix, world_size)


def _arrived(store: Any, world_size: int, prefix: str) -> str:
    """One more is here; gives the key that is set when all are."""
    last = prefix + _LAST
    if store.add(prefix + _COUNT, 1) == world_size:
        store.set(last, _HERE)
    return last


def _missing(
    store: Any, world_size: int, prefix: str, rank: int, named: Callable[[int], str], seconds: float
) -> Iterable[str]:
    """Who has not come, in words; rank 0 looks, and the others wait until it has."""
    store.set(f"{prefix}{rank}{_TRACE}", _HERE)
    limit = datetime.timedelta(seconds=seconds)
    if rank != 0:
        with contextlib.suppress(DistStoreError):
            store.wait([prefix + _GATE], limit)
        return [f"[<check rank 0 ({named(0)}) for missing rank info>]"]
    lost = []
    for other in range(1, world_size):
        try:
            store.wait([f"{prefix}{other}{_TRACE}"], limit)
        except DistStoreError:
            lost.append(named(other))
    store.set(prefix + _GATE, _HERE)
    return lost


def barrier(
    store: Any, world_size: int, key_prefix: str, barrier_timeout: float = 300, rank: int | None = None,
    rank_tracing_decoder: Callable[[int], str] | None = None, trace_timeout: float = 10,
) -> None:  # fmt: skip
    """Wait until all have called this; once for each prefix.

    Args:
        world_size: how many there are
        key_prefix: what keys begin with
        barrier_timeout: seconds for which others are waited for
        rank: this one, where an error is to say who is missing
        rank_tracing_decoder: the name of a rank, for the error
        trace_timeout: seconds for which ranks that are missing, too, may tell that they are there

    Raises:
        DistStoreError: not all came in time.
    """
    named = rank_tracing_decoder or str
    with store_timeout(store, barrier_timeout):
        last = _arrived(store, world_size, key_prefix)
        try:
            store.wait([last])
        except DistStoreError as error:
            if rank is None:
                raise
            lost = _missing(store, world_size, key_prefix, rank, named, trace_timeout)
            text = f"missing_ranks=[{', '.join(lost)}]"
            get_logger("distributed").error("barrier %s: %s", key_prefix, text)
            raise DistStoreError(
                f"[barrier] all {world_size} ranks were required within {barrier_timeout:g} s under {key_prefix!r} "
                f"(Timed out waiting for barrier): got {text}\nhint: look at the output of those"
            ) from error
