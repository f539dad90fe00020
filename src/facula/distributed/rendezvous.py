"""How the processes of a program find their store: `env://`, `tcp://host:port`, `file:///path`, or another way.

Takes: an address, and what launchers say. Gives: `meet`, the store, this process's rank and the world's size;
`rendezvous` and `register_rendezvous_handler`, PyTorch's form of the same.
Keeps true: groups and workers of remote calls may meet at one port; under a launcher whose agent keeps a
store, that one is used.
"""

from __future__ import annotations

import datetime
import os
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from facula.core.errors import fail
from facula.distributed import starters
from facula.distributed.stores import FileStore, PrefixStore, Store
from facula.distributed.tcp_store import TCPStore

__all__ = ["meet", "register_rendezvous_handler", "release_store", "rendezvous"]

DEFAULT_TIMEOUT = datetime.timedelta(minutes=30)
Met = tuple[Store, int, int]
#: ways that programs registered, by the scheme of their addresses
_HANDLERS: dict[str, Callable[..., Iterator[Met]]] = {}
_OWN = ("env", "tcp", "file")


def register_rendezvous_handler(scheme: str, handler: Callable[..., Any]) -> None:
    """Make a way to find a store known.

    Args:
        scheme: what addresses begin with, before `://`
        handler: called with the address and with `timeout`; gives tuples of store, rank and world size

    Raises:
        RuntimeError: the scheme is taken.

    Example:
        >>> dist = facula.distributed
        >>> def alone(url, **options):
        ...     yield dist.HashStore(), 0, 1
        >>> dist.register_rendezvous_handler("example", alone)
        >>> store, rank, size = next(dist.rendezvous("example://"))
        >>> rank, size
        (0, 1)
    """
    if scheme in _HANDLERS or scheme in _OWN:
        fail(RuntimeError, "register_rendezvous_handler", f"a scheme that is not taken was required "
             f"(Rendezvous handler for {scheme}:// already registered)", repr(scheme),
             hint="choose another name")  # fmt: skip
    _HANDLERS[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Iterator[Met]:
    """The store at an address, this process's rank, and the world's size: an iterator of tuples.

    Args:
        url: `env://`, `tcp://host:port`, `file:///path`, or of a scheme that was registered
        rank: this process's; -1 where the address or the environment says it
        world_size: how many processes there are; -1 the same
        **kwargs: `timeout`, how long they are waited for

    Raises:
        RuntimeError: there is no such way.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = facula.distributed.rendezvous(f"file://{folder}/keys", rank=0, world_size=1)
        ...     store, rank, size = next(found)
        >>> rank, size
        (0, 1)
    """
    if not isinstance(url, str):
        fail(RuntimeError, "rendezvous", "an address was required as text (`url` must be a string)",
             type(url).__name__, hint="for example env://")  # fmt: skip
    _check_address(url, rank, world_size)
    return iter(
        _Later(partial(meet, url, rank, world_size, kwargs.get("timeout", DEFAULT_TIMEOUT)))
    )


@dataclass
class _Later:
    """What is found once it is asked for."""

    find: Callable[[], Met]

    def __iter__(self) -> Iterator[Met]:
        yield self.find()


def _check_address(method: str, rank: int, world_size: int) -> None:
    """Raise unless there is a way of the address's scheme, and ranks are said once."""
    url = urllib.parse.urlparse(method)
    if url.scheme not in _OWN and url.scheme not in _HANDLERS:
        _unknown(method)
    query = dict(urllib.parse.parse_qsl(url.query))
    if (rank >= 0 or world_size >= 0) and ("rank" in query or "world_size" in query):
        fail(AssertionError, "rendezvous", f"rank and world_size were required once (the url {method} has "
             "node-specific arguments (rank, world_size) already)", f"rank={rank}, world_size={world_size} beside it",
             hint="leave them out of one of the two")  # fmt: skip


def _unknown(method: str | None) -> NoReturn:
    """Raise: there is no way to meet at such an address."""
    scheme = urllib.parse.urlparse(method or "").scheme
    fail(
        RuntimeError,
        "init_process_group",
        "an init_method of env://, tcp://host:port or file:///path was required (No rendezvous handler for "
        f"{scheme}://)",
        repr(method),
        hint="env:// is the default; register_rendezvous_handler makes others known",
    )


def _numbers(url: Any, rank: int, world_size: int) -> tuple[int, int]:
    """Which rank this is and how many there are; an address of a file or a server must say what nobody else does."""
    for name, value, least in (("rank", rank, 0), ("world size", world_size, 1)):
        if value < least:
            fail(ValueError, "init_process_group", f"rank and world_size were required with {url.geturl()} (Error "
                 f"initializing using {url.scheme}:// rendezvous: {name} parameter missing)",
                 f"rank={rank}, world_size={world_size}", hint="pass both to init_process_group()")  # fmt: skip
    return rank, world_size


def _at_file(url: Any, world_size: int, timeout: datetime.timedelta) -> Store:
    """The store in the file of an address."""
    path = url.netloc + url.path
    if not path:
        fail(ValueError, "init_process_group", "the path of a file was required (Error initializing using file:// "
             "rendezvous: path missing)", url.geturl(), hint="file:///tmp/shared is a file of the machine")  # fmt: skip
    made = FileStore(path, world_size)
    made.set_timeout(timeout)
    return made


def _libuv(query: dict[str, str]) -> bool:
    """Whether a program asks for PyTorch's newer server, which is the default; here both are one."""
    asked = query.get("use_libuv", os.environ.get("USE_LIBUV", "1"))
    return str(asked).lower() in ("1", "true")


def _environment(name: str, given: int) -> int:
    if given >= 0:
        return given
    text = starters.value(name)
    if text is None or not text.strip().lstrip("-").isdigit():
        fail(
            ValueError,
            "init_process_group",
            f"the environment variable {name} was required (Error initializing process group using "
            f"env:// rendezvous: environment variable {name} expected, but not set)",
            "none" if text is None else repr(text),
            "start the program with `python -m facula.distributed.run`",
        )
    return int(text)


def meet(method: str | None, rank: int, world_size: int, timeout: datetime.timedelta) -> Met:
    """The store by which processes find each other, this process's rank, and the world's size."""
    url = urllib.parse.urlparse(method or "env://")
    if url.scheme in _HANDLERS:
        return _handled(url, rank, world_size, timeout)
    query = dict(urllib.parse.parse_qsl(url.query))
    rank = int(query.get("rank", rank))
    world_size = int(query.get("world_size", world_size))
    libuv = _libuv(query)
    if url.scheme == "env":
        rank, world_size = _environment("RANK", rank), _environment("WORLD_SIZE", world_size)
        host = starters.value("MASTER_ADDR") or ("127.0.0.1" if world_size == 1 else None)
        port = starters.value("MASTER_PORT") or ("0" if world_size == 1 else None)
        for name, value in (("MASTER_ADDR", host), ("MASTER_PORT", port)):
            if value is None or (name == "MASTER_PORT" and not value.isdigit()):
                fail(ValueError, "init_process_group", f"the environment variable {name} was required "
                     f"(environment variable {name} expected, but not set)", value or "none",
                     hint=f"set {name}, or use init_method='tcp://host:port'")  # fmt: skip
        made = _tcp_store(str(host), int(port or 0), rank, world_size, timeout, libuv)
        return made, rank, world_size
    if url.scheme == "file":
        path = url.netloc + url.path
        if path:  # else that is the error
            _numbers(url, rank, world_size)
        return _at_file(url, world_size, timeout), rank, world_size
    if url.scheme != "tcp":
        _unknown(method)
    if not url.port or not url.hostname:
        fail(ValueError, "init_process_group", "tcp://host:port was required (Error initializing using tcp:// "
             "rendezvous: port number missing)", repr(method), hint="for example tcp://127.0.0.1:29500")  # fmt: skip
    _numbers(url, rank, world_size)
    made = _tcp_store(url.hostname, url.port, rank, world_size, timeout, libuv)
    return made, rank, world_size


def _handled(url: Any, rank: int, world_size: int, timeout: datetime.timedelta) -> Met:
    """The same by a way that a program registered; it learns numbers from the address."""
    query = dict(urllib.parse.parse_qsl(url.query))
    query |= {"rank": str(rank)} if rank >= 0 else {}
    query |= {"world_size": str(world_size)} if world_size > 0 else {}
    address = url._replace(query=urllib.parse.urlencode(query)).geturl()
    return next(iter(_HANDLERS[url.scheme](address, timeout=timeout)))


#: servers of this process by address, with the number of those who use them: groups and workers of remote
#: calls may meet at one port
_SERVED: dict[tuple[str, int], list[Any]] = {}


def _agent_store(host: str, port: int, timeout: datetime.timedelta) -> Store | None:
    """The store of the agent that started this process, where that is what lies at an address."""
    known = (os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT"))
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" or (host, str(port)) != known:  # fmt: skip
        return None
    made = TCPStore(host, port, None, False, timeout)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    prefixed = PrefixStore(os.environ.get("FACULA_STORE_PREFIX", f"worker/attempt_{attempt}"), made)
    prefixed.local_address = made.local_address  # type: ignore[attr-defined]
    return prefixed


def _tcp_store(
    host: str, port: int, rank: int, world_size: int, timeout: datetime.timedelta, libuv: bool
) -> Store:
    shared = _agent_store(host, port, timeout)
    if shared is not None:
        return shared
    held = _SERVED.get((host, port)) if rank == 0 and port else None
    if held is None:
        made = TCPStore(host, port, world_size, rank == 0, timeout, use_libuv=libuv)
        if rank == 0:
            _SERVED[(host, made.port)] = [made, 1]
        return made
    held[1] += 1
    return TCPStore(host, port, world_size, False, timeout, use_libuv=libuv)


def release_store(store: Store) -> None:
    """Close what `meet` made: a server goes when nobody of this process uses it."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    if not isinstance(store, TCPStore):
        return
    for key, held in list(_SERVED.items()):
        if key[1] == store.port:
            held[1] -= 1
            if held[0] is not store:
                store.close()
            if not held[1]:
                held[0].close()
                del _SERVED[key]
            return
    store.close()
