"""Exchanges of a few bytes through a store, without a process group.

Takes: a store, this process's rank, and how many there are. Gives: `StoreCollectives`.
Keeps true: each exchange has a name of its own; one that is not finished in time names the ranks that did not come.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, NoReturn

from facula.core.errors import fail
from facula.distributed.errors import DistStoreError
from facula.distributed.stores import Store, as_bytes

__all__ = ["StoreCollectives"]

Limit = datetime.timedelta
_FIVE_MINUTES = datetime.timedelta(minutes=5)


class StoreCollectives:
    """Collectives of one rank.

    Example:
        >>> store = facula.distributed.HashStore()
        >>> one = StoreCollectives(store, 0, 1)
        >>> one.all_sum("counted", 3)
        3
        >>> one.all_gather("said", "yes")
        [b'yes']
    """

    def __init__(self, store: Store, rank: int, world_size: int) -> None:
        """Exchange with the other ranks.

        Args:
            store: that of all ranks.
            rank: this process's number.
            world_size: how many ranks there are.
        """
        self.store, self.rank, self.world_size = store, rank, world_size
        self._used: set[str] = set()

    def _use(self, key: str) -> None:
        if key in self._used:
            fail(ValueError, "_StoreCollectives", f"a name that was not used was required (Key {key} has already been "
                 "used)", repr(key), "give each exchange a name of its own")  # fmt: skip
        self._used.add(key)

    def _values(self, op: str, key: str, timeout: Limit) -> list[bytes]:
        """What each rank has put down."""
        keys = [f"{key}/{rank}" for rank in range(self.world_size)]
        try:
            self.store.wait(keys, timeout)
        except DistStoreError:
            missing = [str(r) for r, one in enumerate(keys) if not self.store.check([one])]
            _missing(op, ", ".join(missing), timeout)
        return [self.store.get(one) for one in keys]

    def _value(self, op: str, key: str, timeout: Limit) -> bytes:
        try:
            self.store.wait([key], timeout)
        except DistStoreError:
            fail(DistStoreError, op, f"the value within {timeout.total_seconds()} s was required (Wait timeout)",
                 f"nothing under {key!r}", "the sender must use the same name")  # fmt: skip
        return self.store.get(key)

    def barrier(self, key: str, timeout: Limit = _FIVE_MINUTES, blocking: bool = True) -> None:
        """Tell that this rank is here, and wait for all.

        Args:
            key: a name of this exchange.
            timeout: how long it may take.
            blocking: whether to wait.
        """
        self._use(key)
        self.store.set(f"{key}/{self.rank}", b"1")
        if blocking:
            self._values("barrier", key, timeout)

    def broadcast_send(self, key: str, data: object, timeout: Limit = _FIVE_MINUTES) -> None:
        """Put down what all ranks get.

        Args:
            key: a name of this exchange.
            data: bytes or a text.
            timeout: how long it may take.
        """
        self._use(key)
        self.store.set(key, as_bytes(data))

    def broadcast_recv(self, key: str, timeout: Limit = _FIVE_MINUTES) -> bytes:
        """What one rank sends to all.

        Args:
            key: a name of this exchange.
            timeout: how long it may take.
        """
        self._use(key)
        return self._value("broadcast_recv", key, timeout)

    def gather_send(self, key: str, data: object, timeout: Limit = _FIVE_MINUTES) -> None:
        """Put down this rank's value for the one that gathers.

        Args:
            key: a name of this exchange.
            data: bytes or a text.
            timeout: how long it may take.
        """
        self._use(key)
        self.store.set(f"{key}/{self.rank}", as_bytes(data))

    def gather_recv(self, key: str, data: object, timeout: Limit = _FIVE_MINUTES) -> list[bytes]:
        """All ranks' values, this one's among them.

        Args:
            key: a name of this exchange.
            data: this rank's value.
            timeout: how long it may take.
        """
        self.gather_send(key, data, timeout)
        return self._values("gather", key, timeout)

    def scatter_send(self, key: str, data: Sequence[Any], timeout: Limit = _FIVE_MINUTES) -> bytes:
        """Put down a value for each rank; gives this one's.

        Args:
            key: a name of this exchange.
            data: a value for each rank.
            timeout: how long it may take.
        """
        self._use(key)
        if len(data) != self.world_size:
            fail(
                ValueError,
                "scatter_send",
                f"{self.world_size} values were required",
                len(data),
                "one for each rank",
            )
        for rank, value in enumerate(data):
            self.store.set(f"{key}/{rank}", as_bytes(value))
        return as_bytes(data[self.rank])

    def scatter_recv(self, key: str, timeout: Limit = _FIVE_MINUTES) -> bytes:
        """This rank's value of those that another one put down.

        Args:
            key: a name of this exchange.
            timeout: how long it may take.
        """
        self._use(key)
        return self._value("scatter_recv", f"{key}/{self.rank}", timeout)

    def all_gather(self, key: str, data: object, timeout: Limit = _FIVE_MINUTES) -> list[bytes]:
        """All ranks' values, on all ranks.

        Args:
            key: a name of this exchange.
            data: this rank's value.
            timeout: how long it may take.
        """
        self.gather_send(key, data, timeout)
        return self._values("all_gather", key, timeout)

    def all_sum(self, key: str, data: int, timeout: Limit = _FIVE_MINUTES) -> int:
        """The sum of all ranks' numbers.

        Args:
            key: a name of this exchange.
            data: this rank's number.
            timeout: how long it may take.
        """
        self._use(key)
        self.store.add(f"{key}/sum", data)
        self.store.set(f"{key}/{self.rank}", b"1")
        self._values("barrier", key, timeout)
        return self.store.add(f"{key}/sum", 0)


def _missing(op: str, ranks: str, timeout: Limit) -> NoReturn:
    fail(DistStoreError, op, f"all ranks within {timeout.total_seconds()} s were required ({op} failed -- missing "
         f"ranks: {ranks})", f"nothing of rank {ranks}", "have all ranks call it with the same name")  # fmt: skip
