"""What agents ask of a rendezvous: `RendezvousHandler`; what they tell it: `RendezvousParameters`.

Takes: how many machines take part, and where they meet. Gives: this machine's number, how many there are, and
a store that all of them see.
Keeps true: a wait that is over is a `RendezvousTimeoutError`; nobody joins a rendezvous that was closed.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from facula.core.errors import fail
from facula.distributed.stores import Store

__all__ = [
    "RendezvousClosedError",
    "RendezvousConnectionError",
    "RendezvousError",
    "RendezvousGracefulExitError",
    "RendezvousHandler",
    "RendezvousHandlerCreator",
    "RendezvousHandlerRegistry",
    "RendezvousInfo",
    "RendezvousParameters",
    "RendezvousStateError",
    "RendezvousStoreInfo",
    "RendezvousTimeoutError",
    "parse_rendezvous_endpoint",
    "rendezvous_handler_registry",
]


class RendezvousError(Exception):
    """Agents did not meet.

    Example:
        >>> from facula.distributed.elastic.rendezvous import RendezvousError, RendezvousTimeoutError
        >>> issubclass(RendezvousTimeoutError, RendezvousError)
        True
    """


class RendezvousClosedError(RendezvousError):
    """The job is over: nobody may join any more."""


class RendezvousTimeoutError(RendezvousError):
    """Too few agents came in time."""


class RendezvousConnectionError(RendezvousError):
    """The store by which agents meet can not be reached."""


class RendezvousStateError(RendezvousError):
    """What the store holds is no rendezvous."""


class RendezvousGracefulExitError(RendezvousError):
    """This machine is not needed, and may leave without an error."""


@dataclass
class RendezvousStoreInfo:
    """Where the workers of a job find their store.

    Args:
        master_addr: its address
        master_port: its port

    Example:
        >>> from facula.distributed.elastic.rendezvous import RendezvousStoreInfo
        >>> RendezvousStoreInfo("127.0.0.1", 29500).master_port
        29500
    """

    master_addr: str
    master_port: int

    @staticmethod
    def build(
        rank: int, store: Store, local_addr: str | None = None, server_port: int | None = None
    ) -> RendezvousStoreInfo:
        """What machine 0 tells all others: its address, and a port that is free (or `server_port`)."""
        if rank == 0:
            address = local_addr or socket.getfqdn()
            port = _free_port() if server_port is None else server_port
            store.multi_set(["MASTER_ADDR", "MASTER_PORT"], [address, str(port)])
        address, text = (v.decode() for v in store.multi_get(["MASTER_ADDR", "MASTER_PORT"]))
        return RendezvousStoreInfo(address, int(text))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


@dataclass
class RendezvousInfo:
    """What agents know when they have met.

    Args:
        store: keys of this round, for all machines
        rank: this machine's number
        world_size: how many machines there are
        bootstrap_store_info: where workers find their store

    Example:
        >>> from facula.distributed.elastic.rendezvous import RendezvousInfo
        >>> RendezvousInfo(None, 0, 1, None).world_size
        1
    """

    store: Any
    rank: int
    world_size: int
    bootstrap_store_info: RendezvousStoreInfo | Any

    def __iter__(self) -> Any:
        """As a tuple of store, rank and world size."""
        return iter((self.store, self.rank, self.world_size))


class RendezvousHandler(ABC):
    """How the agents of a job meet.

    Example:
        >>> from facula.distributed.elastic.rendezvous import RendezvousHandler
        >>> "next_rendezvous" in RendezvousHandler.__abstractmethods__
        True
    """

    @abstractmethod
    def get_backend(self) -> str:
        """The name of the kind."""

    @property
    def use_agent_store(self) -> bool:
        """Whether workers use the store by which agents meet."""
        return False

    @abstractmethod
    def next_rendezvous(self) -> RendezvousInfo:
        """Wait until enough machines have come.

        Raises:
            RendezvousClosedError: the job is over.
            RendezvousTimeoutError: too few came in time.
            RendezvousConnectionError: the store can not be reached.
        """

    @abstractmethod
    def is_closed(self) -> bool:
        """Whether the job is over."""

    @abstractmethod
    def set_closed(self) -> None:
        """Say that the job is over."""

    @abstractmethod
    def num_nodes_waiting(self) -> int:
        """How many machines wait to take part; their coming restarts the workers of all."""

    @abstractmethod
    def get_run_id(self) -> str:
        """The name of the job."""

    @abstractmethod
    def shutdown(self) -> bool:
        """Leave, and close the job; gives whether that could be said."""

    def leave(self) -> None:
        """Leave a job that goes on without this machine."""
        self.shutdown()


class RendezvousParameters:
    """How a handler is to be made.

    Args:
        backend: the kind: `static`, `c10d`, or one that a program registered
        endpoint: `address:port`
        run_id: the name of the job
        min_nodes: how many machines must come
        max_nodes: how many may come
        local_addr: this machine's address; None to find it
        **kwargs: more, as `--rdzv-conf` says

    Raises:
        ValueError: numbers or names make no sense.

    Example:
        >>> from facula.distributed.elastic.rendezvous import RendezvousParameters
        >>> RendezvousParameters("c10d", "", "job", 1, 4, timeout="30").get_as_int("timeout")
        30
    """

    def __init__(
        self,
        backend: str,
        endpoint: str,
        run_id: str,
        min_nodes: int,
        max_nodes: int,
        local_addr: str | None = None,
        **kwargs: Any,
    ) -> None:
        if not backend:
            fail(ValueError, "RendezvousParameters", "the name of a rendezvous backend was required",
                 repr(backend), hint="static or c10d")  # fmt: skip
        if min_nodes < 1 or max_nodes < min_nodes:
            fail(
                ValueError,
                "RendezvousParameters",
                "1 <= min_nodes <= max_nodes was required",
                f"min_nodes={min_nodes}, max_nodes={max_nodes}",
                hint="--nnodes=1:4 means one to four machines",
            )
        self.backend, self.endpoint, self.run_id = backend, endpoint, run_id
        self.min_nodes, self.max_nodes = min_nodes, max_nodes
        self.local_addr, self.config = local_addr, kwargs

    def get(self, key: str, default: object = None) -> Any:
        """A further parameter."""
        return self.config.get(key, default)

    def get_as_bool(self, key: str, default: bool | None = None) -> bool | None:
        """A further parameter as yes or no."""
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        text = str(value).lower()
        if text in ("1", "true", "t", "yes", "y"):
            return True
        if text in ("0", "false", "f", "no", "n"):
            return False
        return fail(ValueError, "rdzv_conf", f"true or false was required for {key!r}", repr(value),
                    hint=f"--rdzv-conf {key}=true")  # fmt: skip

    def get_as_int(self, key: str, default: int | None = None) -> int | None:
        """A further parameter as a whole number."""
        value = self.get(key, default)
        try:
            return None if value is None else int(value)
        except (TypeError, ValueError):
            return fail(ValueError, "rdzv_conf", f"a whole number was required for {key!r}", repr(value),
                        hint=f"--rdzv-conf {key}=30")  # fmt: skip


RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]


class RendezvousHandlerRegistry:
    """Kinds of rendezvous by name.

    Example:
        >>> from facula.distributed.elastic.rendezvous import rendezvous_handler_registry
        >>> "c10d" in rendezvous_handler_registry.names()
        True
    """

    def __init__(self) -> None:
        self._creators: dict[str, RendezvousHandlerCreator] = {}

    def names(self) -> list[str]:
        """The kinds that are known."""
        return sorted(self._creators)

    def register(self, backend: str, creator: RendezvousHandlerCreator) -> None:
        """Make a kind known.

        Raises:
            ValueError: another one has its name.
        """
        if not backend or self._creators.get(backend, creator) is not creator:
            fail(ValueError, "RendezvousHandlerRegistry.register", "a name that is not taken was required",
                 repr(backend), hint="choose another name")  # fmt: skip
        self._creators[backend] = creator

    def create_handler(self, params: RendezvousParameters) -> RendezvousHandler:
        """Make a handler of the kind that the parameters name."""
        creator = self._creators.get(params.backend)
        if creator is None:
            fail(
                ValueError,
                "create_handler",
                f"a rendezvous backend out of {', '.join(self.names())} was required (the rendezvous "
                "backend is not registered)",
                repr(params.backend),
                hint="rendezvous_handler_registry.register(name, creator) makes another one known",
            )
        handler = creator(params)
        if handler.get_backend() != params.backend:
            fail(
                RuntimeError,
                "create_handler",
                f"a handler of the backend {params.backend!r} was required",
                repr(handler.get_backend()),
                hint="get_backend() of a handler gives the name under which it is registered",
            )
        return handler


rendezvous_handler_registry = RendezvousHandlerRegistry()


def parse_rendezvous_endpoint(endpoint: str | None, default_port: int) -> tuple[str, int]:
    """The address and the port of `address`, `address:port` or `[address]:port`.

    Args:
        endpoint: the text; nothing means `localhost`
        default_port: the port where there is none

    Raises:
        ValueError: the text is of no such form.

    Example:
        >>> from facula.distributed.elastic.rendezvous.api import parse_rendezvous_endpoint
        >>> parse_rendezvous_endpoint("[::1]:29400", 1), parse_rendezvous_endpoint("", 7)
        (('::1', 29400), ('localhost', 7))
    """
    text = (endpoint or "").strip()
    if not text:
        return "localhost", default_port
    host, separator, port = text.rpartition(":")
    if not separator or text.endswith("]") or ":" in host and not host.startswith("["):
        host, port = text, str(default_port)
    host = host.strip("[]")
    if not host or not port.isdigit() or int(port) > 65535:
        fail(ValueError, "rdzv_endpoint", "address:port was required (a port from 0 to 65535)", repr(text),
             hint="for example --rdzv-endpoint=10.0.0.1:29400")  # fmt: skip
    return host, int(port)
