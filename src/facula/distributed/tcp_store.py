"""`TCPStore`: a store in the memory of one process, for all processes that reach its port.

Takes: an address; the master listens there, and nowhere else. Gives: a `Store`.
Keeps true: requests of one process are answered in their order; a waiting request does not hold up
others: each connection has a thread of the server; nobody is answered who does not know the program's
secret (`wire.program_secret`); what is no request is answered with an error, and the connection closed.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import socket
import struct
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from typing import Any

from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.distributed import wire
from facula.distributed.errors import DistNetworkError, DistStoreError
from facula.distributed.stores import (
    DEFAULT_TIMEOUT,
    HashStore,
    Store,
    as_bytes,
    keys_missing,
    seconds_of,
)

_LENGTH = struct.Struct("!I")
#: bytes of a request or an answer; bytes in it take a third more
LARGEST = 1 << 28
#: connections that have not said yet who they are
_STRANGERS = 256
#: a request may wait this long; clients ask again
_LONGEST_WAIT = 60.0
#: how many have come, and the key that says that all have
_JOINED, _ALL = "init/", "init/all"
#: seconds between looks whether who waits is still there
_LOOK = 0.5


def _send(connection: socket.socket, value: object) -> None:
    data = json.dumps(value).encode()
    if len(data) > LARGEST:
        fail(
            ValueError,
            "TCPStore",
            f"at most {LARGEST} bytes in a request were required",
            len(data),
            hint="send tensors by collectives, and keep what is short in a store",
        )
    connection.sendall(_LENGTH.pack(len(data)) + data)


def _receive(connection: socket.socket) -> Any:
    (size,) = _LENGTH.unpack(wire.receive_exactly(connection, _LENGTH.size))
    if size > LARGEST:
        raise ValueError(f"a message of {size} bytes")
    return json.loads(wire.receive_exactly(connection, size).decode())


def _packed(x: object) -> Any:
    """Bytes as text, in a nested value."""
    if isinstance(x, bytes):
        return {"bytes": b64encode(x).decode()}
    return [_packed(v) for v in x] if isinstance(x, (list, tuple)) else x


def _unpacked(x: object) -> Any:
    if isinstance(x, dict):
        return b64decode(x["bytes"])
    return [_unpacked(v) for v in x] if isinstance(x, list) else x


#: what clients may ask for
_REQUESTS = frozenset(
    ("set", "add", "append", "compare_set", "delete_key", "num_keys", "check", "multi_set", "wait",
     "multi_get", "queue_push", "_queue_take", "queue_len", "list_keys")
)  # fmt: skip


class _Table(HashStore):
    """The keys of a server."""

    def num_keys(self) -> int:
        """How many keys there are: what says that all have come is no key of the program."""
        return self._change(lambda table: len(table) - (_ALL in table))


class Server:
    """Answers requests on a table."""

    def __init__(self, host: str, port: int, listening: int | None = None) -> None:
        self.table = _Table()
        self.table.set_timeout(datetime.timedelta(0))  # clients wait by requests of their own
        self.secret = wire.program_secret()
        self.strangers = threading.BoundedSemaphore(_STRANGERS)
        self.users = 1
        self.socket = wire.listen(host, port) if listening is None else wire.take_over(listening)
        self.port: int = self.socket.getsockname()[1]
        self.connections: set[socket.socket] = set()
        threading.Thread(target=self._accept, name="facula-store", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return  # closed
            if not self.strangers.acquire(blocking=False):
                connection.close()
                continue
            self.connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                connection.settimeout(wire.PATIENCE)
                wire.ask_proof(connection, self.secret)
                connection.settimeout(None)
            finally:
                self.strangers.release()
            while self._serve_one(connection):
                pass
        except PermissionError as error:
            get_logger("distributed").warning("the store refused a connection: %s", error)
        except OSError:
            pass  # it went away
        finally:
            self.connections.discard(connection)
            connection.close()

    def _serve_one(self, connection: socket.socket) -> bool:
        """Answer a request; gives whether it was one."""
        try:
            name, args = _receive(connection)
            args = _unpacked(args)
            if name not in _REQUESTS or not isinstance(args, list):
                raise ValueError(f"unknown request {name!r}"[:200])
            if name == "wait":
                args = [args[0], datetime.timedelta(seconds=min(float(args[1]), _LONGEST_WAIT))]
        except OSError:
            raise
        except Exception as error:  # whatever it was, it was no request
            _send(connection, ["error", f"malformed request: {type(error).__name__}: {error}"])
            return False
        _send(
            connection,
            self._waited(connection, *args) if name == "wait" else self._answer(name, args),
        )
        return True

    def _waited(
        self, connection: socket.socket, keys: list[str], limit: datetime.timedelta
    ) -> list[Any]:
        """Answer who waits for keys; who has gone meanwhile is waited with no longer."""
        end = time.monotonic() + limit.total_seconds()
        while True:
            left = max(end - time.monotonic(), 0.0)
            step = datetime.timedelta(seconds=min(left, _LOOK))
            answer = self._answer("wait", [keys, step])
            if answer[0] != "missing":
                return answer
            with contextlib.suppress(BlockingIOError):  # first: a machine may have slept meanwhile
                if not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                    raise ConnectionResetError("it does not wait any more")
            if left <= _LOOK:
                return answer

    def _answer(self, name: str, args: list[Any]) -> list[Any]:
        try:
            return ["ok", _packed(getattr(self.table, name)(*args))]
        except DistStoreError as error:
            return ["missing", str(error)]
        except Exception as error:
            return ["error", str(error)]

    def close(self) -> None:
        """Stop answering."""
        wire.close(self.socket)
        for connection in list(self.connections):
            wire.close(connection)


#: servers of this process that several of its stores may share, by port
_SHARED: dict[int, Server] = {}


class TCPStore(Store):
    """A store that the master process keeps, for all that know its address.

    Args:
        host_name: the address of the master
        port: its port; 0 for any that is free
        world_size: how many processes use it; None where nobody says
        is_master: whether this process keeps the keys
        timeout: how long keys are waited for
        wait_for_workers: whether the master waits until all have come
        multi_tenant: whether several stores of this process may share the port
        master_listen_fd: the number of a socket that is bound already
        use_libuv: kept for PyTorch's API: `libuvBackend` gives it back

    Raises:
        DistNetworkError: the address can not be reached or listened on.

    Example:
        >>> store = facula.distributed.TCPStore("127.0.0.1", 0, 1, is_master=True)
        >>> store.add("count", 2)
        2
        >>> store.add("count", 3)
        5
        >>> store.close()
    """

    def __init__(
        self,
        host_name: str,
        port: int = 0,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: datetime.timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        """Listen (the master) and connect.

        Args:
            world_size: how many processes connect; the master waits for them.
            wait_for_workers: whether it does.
            use_libuv: kept for PyTorch's API; it changes nothing.

        Raises:
            ValueError: a world of 0.
        """
        super().__init__(timeout)
        if world_size == 0:
            fail(ValueError, "TCPStore", "a world of 1 or more was required (TCPStore world size cannot be 0)", 0,
                 hint="None where nobody knows how many come")  # fmt: skip
        self.libuvBackend = use_libuv
        self._server: Server | None = None
        if is_master:
            self._server = self._serving(host_name, port, multi_tenant, master_listen_fd)
            port = self._server.port
        self._host, self._port = host_name, port
        self._lock = threading.Lock()
        #: why the connection was closed
        self._lost: str | None = None
        self._connection = self._connected(timeout.total_seconds())
        if wait_for_workers and world_size is not None and world_size > 0:
            try:
                self._wait_for(world_size)
            except BaseException:
                self.close()
                raise

    def _serving(self, host: str, port: int, shared: bool, listening: int | None) -> Server:
        """A server, or one of this process that others share."""
        found = _SHARED.get(port) if shared else None
        if found is not None:
            found.users += 1
            return found
        made = Server(host, port, listening)
        if shared:
            _SHARED[made.port] = made
        return made

    def clone(self) -> TCPStore:
        """Another connection to the same keys, for another thread."""
        return TCPStore(
            self._host, self._port, None, False, self._timeout, use_libuv=self.libuvBackend
        )

    def __repr__(self) -> str:
        closed = self._connection.fileno() < 0
        own, far = (("closed",) * 2 if closed else
                    (self._connection.getsockname()[1], self._connection.getpeername()[1]))  # fmt: skip
        server = "<nullptr>" if self._server is None else f"TCPServer(port={self._server.port})"
        return (
            f"TCPStore(client=TCPClient(SocketImpl(fd={self._connection.fileno()}, addr=[{self._host}]:{own}, "
            f"remote=[{self._host}]:{far})), server={server})"
        )

    def _connected(self, seconds: float) -> socket.socket:
        """A connection to a server that knows the program's secret."""
        made = wire.connect(self._host, self._port, seconds)
        try:
            made.settimeout(max(min(seconds, wire.PATIENCE), 0.1))
            wire.prove(made, wire.program_secret())
        except OSError as error:
            made.close()
            self._stop_serving()
            fail(
                DistNetworkError,
                "TCPStore",
                f"a store of this program at {self._host}:{self._port} was required",
                str(error),
                "let all processes be of one user, or set FACULA_STORE_SECRET to the same text in all",
            )
        return made

    def _wait_for(self, world_size: int) -> None:
        joined = self.add(_JOINED, 1)
        if joined >= world_size:
            self.set(_ALL, b"1")
        if self._server is None:
            return  # it is the server that must not end before all have come
        try:
            self.wait([_ALL])
        except DistStoreError:
            if not self._alive():
                raise
            seconds, joined = self._timeout.total_seconds(), self.add(_JOINED, 0)
            fail(DistStoreError, "TCPStore", f"all {world_size} processes were required within {seconds:g} s (Timed "
                 f"out after {seconds:.0f} seconds waiting for clients. {joined}/{world_size} clients joined.)",
                 f"{joined}", "see whether all processes were started, with the same world_size")  # fmt: skip

    @property
    def host(self) -> str:
        """The server's name."""
        return self._host

    @property
    def port(self) -> int:
        """The server's port."""
        return self._port

    @property
    def local_address(self) -> str:
        """This process's address on the way to the server."""
        return self._connection.getsockname()[0]

    def _ask(self, name: str, *args: object, seconds: float | None = None) -> Any:
        limit = self._timeout.total_seconds() if seconds is None else seconds
        with self._lock:
            try:
                self._connection.settimeout(limit + 10)
                _send(self._connection, [name, _packed(args)])
                kind, value = _receive(self._connection)
            except OSError as error:
                wire.close(self._connection)
                self._lost = self._lost or str(error)
                fail(
                    DistStoreError,
                    f"TCPStore.{name}",
                    f"an answer of the store at {self._host}:{self._port} was required (connection "
                    "closed)",
                    self._lost,
                    "the process of rank 0 keeps the store and may have exited",
                )
        if kind != "ok":
            raise DistStoreError(value)
        return _unpacked(value)

    def set(self, key: str, value: object) -> None:
        """Keep a value."""
        self._ask("set", key, as_bytes(value))

    def get(self, key: str) -> bytes:
        """A value, once it is there."""
        return self.multi_get([key])[0]

    def add(self, key: str, amount: int) -> int:
        """Add to a number, which starts at 0; gives the sum."""
        return self._ask("add", key, amount)

    def append(self, key: str, value: object) -> None:
        """Put bytes behind those that are there."""
        self._ask("append", key, as_bytes(value))

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Keep a value if the present one is as expected; gives the one kept."""
        return self._ask("compare_set", key, as_bytes(expected_value), as_bytes(desired_value))

    def delete_key(self, key: str) -> bool:
        """Remove a value; gives whether there was one."""
        return self._ask("delete_key", key)

    def num_keys(self) -> int:
        """How many keys there are."""
        return self._ask("num_keys")

    def list_keys(self) -> list[str]:
        """All keys that there are."""
        return [key for key in self._ask("list_keys") if key != _ALL]

    def check(self, keys: Iterable[str]) -> bool:
        """Whether all keys are there now."""
        return self._ask("check", list(keys))

    def wait(self, keys: Sequence[str], timeout: datetime.timedelta | None = None) -> None:
        """Wait until all keys are there."""
        limit = seconds_of(timeout, self._timeout.total_seconds())
        end = time.monotonic() + limit
        while True:  # in short waits, so that other threads get their answers between
            part = min(max(end - time.monotonic(), 0.0), 0.2)
            try:
                self._ask("wait", list(keys), part, seconds=part)
                return
            except DistStoreError:
                if not self._alive():
                    raise
                if time.monotonic() >= end:
                    break
        keys_missing("TCPStore.wait", [key for key in keys if not self.check([key])], limit)

    def _alive(self) -> bool:
        return self._connection.fileno() >= 0

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Several values, once all are there."""
        self.wait(keys)
        return self._ask("multi_get", list(keys))

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Keep several values at once."""
        self._ask("multi_set", list(keys), [as_bytes(v) for v in values])

    def queue_push(self, key: str, value: object) -> None:
        """Put a value behind those that wait in a queue."""
        self._ask("queue_push", key, as_bytes(value))

    def _queue_take(self, key: str) -> bytes | None:
        return self._ask("_queue_take", key)

    def queue_len(self, key: str) -> int:
        """How many values wait in a queue."""
        return self._ask("queue_len", key)

    def close(self) -> None:
        """Close the connection, and the server where this process has it."""
        wire.close(self._connection)
        self._stop_serving()

    def _stop_serving(self) -> None:
        """Close the server, where no other store of this process shares it."""
        server, self._server = self._server, None
        if server is None:
            return
        server.users -= 1
        if not server.users:
            server.close()
            if _SHARED.get(server.port) is server:
                del _SHARED[server.port]
