"""Where processes leave values for each other: stores of bytes by key.

Takes: a place (memory, a file, the address of a server). Gives: `Store` and its kinds `HashStore`,
`FileStore`, `PrefixStore`; `TCPStore` stands in `tcp_store`.
Keeps true: `get` and `wait` wait for keys until the time-out, and then name those that are missing;
`add` and `compare_set` are atomic among all processes.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import stat
import tempfile
import threading
import time
import weakref
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO

from facula.core.errors import fail
from facula.distributed.errors import DistStoreError, QueueEmptyError

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "seconds_of"]

DEFAULT_TIMEOUT = datetime.timedelta(minutes=5)
#: how many stores of a file there are, and how many have been given up
_USERS, _GONE = "cnt/", "cleanup/"
#: how long to sleep between looks at something that another process changes
_PAUSE = 0.01


def seconds_of(timeout: datetime.timedelta | float | None, default: float) -> float:
    """A time-out in seconds."""
    if timeout is None:
        return default
    if isinstance(timeout, datetime.timedelta):
        return timeout.total_seconds()
    return float(timeout)


def as_bytes(value: object) -> bytes:
    """A value as stores keep it."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    return fail(
        TypeError,
        "Store",
        "a string or bytes was required",
        type(value).__name__,
        hint="str(value) makes a string",
    )


Change = Callable[[dict[str, bytes]], Any]


def keys_missing(op: str, missing: Sequence[str], seconds: float) -> None:
    """Raise: keys were not there in time."""
    fail(
        DistStoreError,
        op,
        f"the keys {list(missing)} were required within {seconds:g} s (wait timeout after "
        f"{seconds * 1000:.0f}ms, keys: {', '.join('/' + key for key in missing)})",
        "no value for them",
        "see whether all processes were started, and with the same world_size",
    )


def of_every_rank(store: Store, name: str, size: int, op: str, who: str = "rank") -> list[bytes]:
    """What each of `size` ranks keeps under `name/<its number>`; the error of `op` names those that keep nothing.

    `who`: what has the numbers, where that is something else than ranks.
    """
    keys = [f"{name}/{number}" for number in range(size)]
    try:
        return store.multi_get(keys)
    except DistStoreError:
        away = [str(number) for number, key in enumerate(keys) if not store.check([key])]
        if not away:
            raise
        fail(
            DistStoreError,
            op,
            f"all {size} {who}s were required within {store.timeout.total_seconds():g} s (timeout)",
            f"no sign of {who} {', '.join(away)}",
            "see whether all processes were started, with the same world_size, and what they print",
        )


class Store:
    """Bytes by key. A kind of store says how to change its table atomically: `_change`.

    Args:
        timeout: how long keys are waited for

    Example:
        >>> isinstance(facula.distributed.HashStore(), facula.distributed.Store)
        True
    """

    def __init__(self, timeout: datetime.timedelta = DEFAULT_TIMEOUT) -> None:
        self._timeout = timeout

    @property
    def timeout(self) -> datetime.timedelta:
        """How long `get` and `wait` wait."""
        return self._timeout

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Choose how long `get` and `wait` wait."""
        self._timeout = timeout

    def _change(self, function: Change) -> Any:
        """Run a function on the table while nobody else does; stores that programs derive may have `set` and its
        like instead."""
        raise NotImplementedError("Not implemented.")

    def _changed(self, seconds: float) -> None:
        """Wait for a change, at most this long."""
        time.sleep(min(seconds, _PAUSE))

    def set(self, key: str, value: object) -> None:
        """Keep a value."""
        data = as_bytes(value)
        self._change(lambda table: table.__setitem__(key, data))

    def get(self, key: str) -> bytes:
        """A value, once it is there."""
        self.wait([key])
        return self._change(lambda table: table[key])

    def add(self, key: str, amount: int) -> int:
        """Add to a number, which starts at 0; gives the sum."""

        def added(table: dict[str, bytes]) -> int:
            present = table.get(key, b"0")
            try:
                total = int(present) + amount
            except ValueError:
                fail(
                    DistStoreError,
                    "Store.add",
                    f"a number under the key {key!r} was required",
                    repr(present[:50]),
                    "add to keys that nothing else sets",
                )
            table[key] = str(total).encode()
            return total

        return self._change(added)

    def append(self, key: str, value: object) -> None:
        """Put bytes behind those that are there."""
        data = as_bytes(value)
        self._change(lambda table: table.__setitem__(key, table.get(key, b"") + data))

    def compare_set(self, key: str, expected_value: object, desired_value: object) -> bytes:
        """Keep a value if the present one (none: an empty one) is as expected; gives the one kept."""
        expected, desired = as_bytes(expected_value), as_bytes(desired_value)

        def compared(table: dict[str, bytes]) -> bytes:
            present = table.get(key)
            if present == expected or (present is None and not expected):
                table[key] = desired
                return desired
            return expected if present is None else present

        return self._change(compared)

    def delete_key(self, key: str) -> bool:
        """Remove a value; gives whether there was one."""
        return self._change(lambda table: table.pop(key, None) is not None)

    def num_keys(self) -> int:
        """How many keys there are."""
        return self._change(len)

    def check(self, keys: Iterable[str]) -> bool:
        """Whether all keys are there now."""
        keys = list(keys)
        return self._change(lambda table: all(key in table for key in keys))

    def wait(self, keys: Sequence[str], timeout: datetime.timedelta | None = None) -> None:
        """Wait until all keys are there.

        Raises:
            DistStoreError: the time is over; it names the keys that are missing.
        """
        keys = list(keys)
        limit = seconds_of(timeout, self._timeout.total_seconds())
        end = time.monotonic() + limit
        while not self.check(keys):
            left = end - time.monotonic()
            if left <= 0:
                missing = self._change(lambda table: [k for k in keys if k not in table])
                keys_missing("Store.wait", missing, limit)
            self._changed(left)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Several values, once all are there."""
        self.wait(keys)
        return self._change(lambda table: [table[key] for key in keys])

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Keep several values at once."""
        pairs = [(k, as_bytes(v)) for k, v in zip(keys, values, strict=True)]
        self._change(lambda table: table.update(pairs))

    def queue_push(self, key: str, value: object) -> None:
        """Put a value behind those that wait in a queue."""
        data = as_bytes(value)

        def pushed(table: dict[str, bytes]) -> None:
            first, last = _ends(table, key)
            table[f"{key}/queue/{last}"] = data
            table[f"{key}/queue"] = f"{first} {last + 1}".encode()

        self._change(pushed)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """The first value of a queue, which leaves it.

        Args:
            block: whether a value is waited for

        Raises:
            QueueEmptyError: none is there, and nobody waits.
            DistStoreError: none came in time.
        """
        end = time.monotonic() + self._timeout.total_seconds()
        while True:
            found = self._queue_take(key)
            if found is not None:
                return found
            if not block:
                fail(QueueEmptyError, "Store.queue_pop", f"a value in the queue {key!r} was required", "none",
                     hint="block=True waits for one")  # fmt: skip
            left = end - time.monotonic()
            if left <= 0:
                fail(DistStoreError, "Store.queue_pop", f"a value in the queue {key!r} was required within "
                     f"{self._timeout.total_seconds():g} s (wait timeout)", "none",
                     hint="see whether the process that pushes runs")  # fmt: skip
            time.sleep(min(left, _PAUSE))

    def _queue_take(self, key: str) -> bytes | None:
        """The first value of a queue, if there is one."""

        def taken(table: dict[str, bytes]) -> bytes | None:
            first, last = _ends(table, key)
            if first == last:
                return None
            if first + 1 == last:
                del table[f"{key}/queue"]
            else:
                table[f"{key}/queue"] = f"{first + 1} {last}".encode()
            return table.pop(f"{key}/queue/{first}")

        return self._change(taken)

    def queue_len(self, key: str) -> int:
        """How many values wait in a queue."""

        def counted(table: dict[str, bytes]) -> int:
            first, last = _ends(table, key)
            return last - first

        return self._change(counted)

    def has_extended_api(self) -> bool:
        """Whether `append`, `multi_get` and `multi_set` work: in derived stores only if they say so."""
        return type(self)._change is not Store._change

    def list_keys(self) -> list[str]:
        """All keys that there are."""
        return self._change(list)

    def clone(self) -> Store:
        """Another object for the same keys, for another thread."""
        return self  # threads may share it

    def barrier(self, key: str, world_size: int, timeout: datetime.timedelta | None = None) -> None:
        """Wait until this many have called it with a key.

        Raises:
            DistStoreError: the time is over.
        """
        if self.add(f"{key}/barrier", 1) >= world_size:
            self.set(f"{key}/barrier/all", b"1")
        self.wait([f"{key}/barrier/all"], timeout)


def _ends(table: dict[str, bytes], key: str) -> tuple[int, int]:
    """The numbers of a queue's first value and of the one that comes next."""
    first, last = table.get(f"{key}/queue", b"0 0").split()
    return int(first), int(last)


class HashStore(Store):
    """A store for the threads of one process.

    Example:
        >>> store = facula.distributed.HashStore()
        >>> store.set("epoch", "3")
        >>> store.get("epoch")
        b'3'
    """

    def __init__(self) -> None:
        super().__init__()
        self._table: dict[str, bytes] = {}
        self._condition = threading.Condition()

    def _change(self, function: Change) -> Any:
        with self._condition:
            result = function(self._table)
            self._condition.notify_all()
            return result

    def _changed(self, seconds: float) -> None:
        with self._condition:
            self._condition.wait(min(seconds, 0.1))


class FileStore(Store):
    """A store in a file that all processes see; the file is locked while it is read or changed.

    Args:
        file_name: the file; it is made where there is none
        world_size: how many processes use it; -1 where nobody says

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = facula.distributed.FileStore(folder + "/keys", 1)
        ...     store.set("epoch", "3")
        ...     store.get("epoch")
        b'3'
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self._path = os.fspath(file_name)
        self._world_size = world_size
        self.add(_USERS, 1)
        if world_size >= 0:
            weakref.finalize(self, _left, self._path, world_size, os.getpid())

    def clone(self) -> FileStore:
        """Another object for the same keys."""
        made = FileStore(self._path, self._world_size)
        made.set_timeout(self.timeout)
        return made

    @property
    def path(self) -> str:
        """Where the file is."""
        return self._path

    def _change(self, function: Change) -> Any:
        with self._locked() as file:
            before = file.read()
            table = self._table(before)
            result = function(table)
            text = {k: b64encode(v).decode() for k, v in table.items()}
            after = json.dumps(text).encode()
            if after != before:
                self._replace(after, os.fstat(file.fileno()).st_mode)
            return result

    @contextlib.contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        """The file that stands under the name, locked: who waited for one that was replaced meanwhile
        looks again."""
        while True:
            with open(self._path, "a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                try:
                    current = os.path.samestat(os.fstat(file.fileno()), os.stat(self._path))
                except FileNotFoundError:
                    continue
                if current:
                    file.seek(0)
                    yield file
                    return

    def _table(self, content: bytes) -> dict[str, bytes]:
        try:
            return {k: b64decode(v) for k, v in json.loads(content.decode() or "{}").items()}
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            fail(
                DistStoreError,
                "FileStore",
                "a file that a FileStore wrote was required",
                f"{self._path} ({error})",
                "name a file that is not there yet",
            )

    def _replace(self, content: bytes, mode: int) -> None:
        folder, name = os.path.split(os.path.abspath(self._path))
        handle, temporary = tempfile.mkstemp(prefix=f".{name[:64]}.", dir=folder)
        try:
            with open(handle, "wb") as file:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
                file.write(content)
            os.replace(temporary, self._path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise


def _left(path: str, world_size: int, process: int) -> None:
    """A store of a file is used no more: the last of all that were to come takes the file along."""
    if os.getpid() != process or not os.path.exists(path):
        return
    store = FileStore.__new__(FileStore)
    store._path = path

    def changed(table: dict[str, bytes]) -> bool:
        users, gone = int(table.get(_USERS, b"0")) - 1, int(table.get(_GONE, b"0")) + 1
        table[_USERS], table[_GONE] = str(users).encode(), str(gone).encode()
        return users == 0 and gone >= world_size

    with contextlib.suppress(
        OSError, DistStoreError
    ):  # the file was removed or is another's by now
        if store._change(changed):
            os.unlink(path)


class PrefixStore(Store):
    """Another store's keys that begin with a prefix.

    Args:
        prefix: stands before each key, and a "/"
        store: where the keys are kept

    Example:
        >>> store = facula.distributed.HashStore()
        >>> mine = facula.distributed.PrefixStore("mine", store)
        >>> mine.set("epoch", "3")
        >>> mine.get("epoch")
        b'3'
    """

    def __init__(self, prefix: str, store: Store) -> None:
        if not isinstance(store, Store):
            fail(ValueError, "PrefixStore", "a store was required", store,
                 hint="PrefixStore('mine', HashStore())")  # fmt: skip
        super().__init__(store.timeout)
        self._prefix, self._store = prefix, store

    @property
    def underlying_store(self) -> Store:
        """The store that keeps the values."""
        return self._store

    @property
    def _underlying_non_prefix_store(self) -> Store:
        """The store at the bottom."""
        below = self._store
        return below._underlying_non_prefix_store if isinstance(below, PrefixStore) else below

    def path_of(self, key: str) -> str:
        """A key as the store at the bottom has it."""
        found = self._key(key)
        return self._store.path_of(found) if isinstance(self._store, PrefixStore) else found

    def _key(self, key: str) -> str:
        return f"{self._prefix}/{key}"

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """Choose how long `get` and `wait` wait."""
        super().set_timeout(timeout)
        self._store.set_timeout(timeout)

    def set(self, key: str, value: object) -> None:
        """Keep a value."""
        self._store.set(self._key(key), as_bytes(value))

    def get(self, key: str) -> bytes:
        """A value, once it is there."""
        return self._store.get(self._key(key))

    def add(self, key: str, amount: int) -> int:
        """Add to a number, which starts at 0; gives the sum."""
        return self._store.add(self._key(key), amount)

    def append(self, key: str, value: object) -> None:
        """Put bytes behind those that are there."""
        data = as_bytes(value)
        if self._store.has_extended_api():
            self._store.append(self._key(key), data)
            return
        before = b""
        while True:  # others may change it meanwhile
            found = self.compare_set(key, before, before + data)
            if found == before + data:
                return
            before = found

    def compare_set(self, key: str, expected_value: object, desired_value: object) -> bytes:
        """Keep a value if the present one is as expected; gives the one kept."""
        expected, desired = as_bytes(expected_value), as_bytes(desired_value)
        return self._store.compare_set(self._key(key), expected, desired)

    def delete_key(self, key: str) -> bool:
        """Remove a value; gives whether there was one."""
        return self._store.delete_key(self._key(key))

    def num_keys(self) -> int:
        """How many keys the whole store has."""
        return self._store.num_keys()

    def list_keys(self) -> list[str]:
        """The keys of the whole store, with their prefixes."""
        return self._store.list_keys()

    def clone(self) -> Store:
        """Another object for the same keys, for another thread."""
        return PrefixStore(self._prefix, self._store.clone())

    def has_extended_api(self) -> bool:
        """Whether the store below has `append`, `multi_get` and `multi_set` of its own."""
        return self._store.has_extended_api()

    def check(self, keys: Iterable[str]) -> bool:
        """Whether all keys are there now."""
        return self._store.check([self._key(key) for key in keys])

    def wait(self, keys: Sequence[str], timeout: datetime.timedelta | None = None) -> None:
        """Wait until all keys are there."""
        self._store.wait([self._key(key) for key in keys], timeout or self._timeout)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Several values, once all are there."""
        if not self._store.has_extended_api():
            return [self.get(key) for key in keys]
        return self._store.multi_get([self._key(key) for key in keys])

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Keep several values at once."""
        data = [as_bytes(value) for value in values]
        if self._store.has_extended_api():
            self._store.multi_set([self._key(key) for key in keys], data)
            return
        for key, value in zip(keys, data, strict=True):
            self.set(key, value)

    def queue_push(self, key: str, value: object) -> None:
        """Put a value behind those that wait in a queue."""
        self._store.queue_push(self._key(key), value)

    def _queue_take(self, key: str) -> bytes | None:
        return self._store._queue_take(self._key(key))

    def queue_len(self, key: str) -> int:
        """How many values wait in a queue."""
        return self._store.queue_len(self._key(key))
