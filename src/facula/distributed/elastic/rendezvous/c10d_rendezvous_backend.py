"""`c10d`: agents meet in a store of one of them.

Takes: `address:port` of a machine of the job, whose agent keeps the store. Gives: `C10dRendezvousBackend`,
which keeps the state of the rendezvous under one key.
Keeps true: a state is replaced only where nobody else replaced it meanwhile.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import socket
import tempfile
from base64 import b64decode, b64encode
from typing import Any

from facula.core.errors import fail
from facula.distributed.elastic.rendezvous.api import (
    RendezvousConnectionError,
    RendezvousParameters,
    RendezvousStateError,
    parse_rendezvous_endpoint,
)
from facula.distributed.elastic.rendezvous.dynamic_rendezvous import RendezvousBackend, Token
from facula.distributed.errors import DistError
from facula.distributed.stores import FileStore, Store
from facula.distributed.tcp_store import TCPStore

__all__ = ["C10dRendezvousBackend", "create_backend"]

DEFAULT_PORT = 29400


class C10dRendezvousBackend(RendezvousBackend):
    """The state of a rendezvous in a store.

    Args:
        store: what keeps it
        run_id: the name of the job

    Example:
        >>> from facula.distributed import HashStore
        >>> from facula.distributed.elastic.rendezvous.c10d_rendezvous_backend import (
        ...     C10dRendezvousBackend,
        ... )
        >>> backend = C10dRendezvousBackend(HashStore(), "job")
        >>> backend.set_state(b"state")[2], backend.get_state()[0]
        (True, b'state')
    """

    def __init__(self, store: Store, run_id: str) -> None:
        if not run_id:
            fail(ValueError, "rdzv_id", "the name of a job was required", repr(run_id),
                 hint="--rdzv-id=my_job, the same on all machines")  # fmt: skip
        self._store, self._key = store, f"facula.rendezvous.{run_id}"

    @property
    def name(self) -> str:
        """`c10d`."""
        return "c10d"

    def _asked(self, *arguments: bytes) -> bytes:
        try:
            return self._store.compare_set(self._key, *arguments)
        except DistError as error:
            raise RendezvousConnectionError(
                f"the store of the rendezvous can not be reached: {error}"
            ) from error

    def get_state(self) -> tuple[bytes, Token] | None:
        """The state, and what stands for it; None before there is one."""
        # a comparison with nothing changes nothing but an absent key
        return self._decoded(self._asked(b"", b""))

    def set_state(
        self, state: bytes, token: Token | None = None
    ) -> tuple[bytes, Token, bool] | None:
        """Replace the state that `token` stands for; gives the one that stands, and whether it is the new."""
        before = token if isinstance(token, bytes) else b""
        wanted = b64encode(state)
        found = self._decoded(self._asked(before, wanted))
        return None if found is None else (*found, found[1] == wanted)

    def _decoded(self, kept: bytes) -> tuple[bytes, Token] | None:
        if not kept:
            return None
        try:
            return b64decode(kept, validate=True), kept
        except ValueError as error:
            raise RendezvousStateError(f"the key {self._key} holds no state: {error}") from error


def _is_this_machine(host: str) -> bool:
    """Whether an address or a name is one of this machine."""
    if host in ("localhost", socket.gethostname(), socket.getfqdn()):
        return True
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return True
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, _, _, address in found:  # only an own address can be listened on
        with contextlib.suppress(OSError), socket.socket(family, kind) as probe:
            probe.bind((address[0], 0))
            return True
    return False


def _tcp_store(params: RendezvousParameters) -> TCPStore:
    host, port = parse_rendezvous_endpoint(params.endpoint, DEFAULT_PORT)
    told = params.get_as_bool("is_host")
    seconds = params.get_as_int("read_timeout", 60) or 0
    if seconds <= 0:
        fail(ValueError, "rdzv_conf", "a read_timeout above 0 was required", seconds,
             hint="--rdzv-conf read_timeout=60")  # fmt: skip
    limit = datetime.timedelta(seconds=seconds)
    own = _is_this_machine(host) if told is None else told
    try:
        if own:
            try:
                return TCPStore(host, port, is_master=True, timeout=limit)
            except DistError:
                if told is not None:
                    raise
        return TCPStore(host, port, is_master=False, timeout=limit)  # another agent keeps it
    except DistError as error:
        raise RendezvousConnectionError(
            f"the store of the rendezvous at {host}:{port} can not be reached: {error}"
        ) from error


def create_backend(params: RendezvousParameters) -> tuple[C10dRendezvousBackend, Store]:
    """The backend that parameters ask for, and its store; `store_type` is `tcp` or `file`.

    Args:
        params: as the launcher made them

    Raises:
        RendezvousConnectionError: the store can not be reached.

    Example:
        >>> from facula.distributed.elastic.rendezvous import RendezvousParameters
        >>> from facula.distributed.elastic.rendezvous.c10d_rendezvous_backend import create_backend
        >>> backend, store = create_backend(RendezvousParameters("c10d", "localhost:0", "job", 1, 1))
        >>> backend.name
        'c10d'
        >>> store.close()
    """
    kind = str(params.get("store_type", "tcp")).strip().lower()
    store: Any
    if kind == "file":
        path = params.endpoint
        if not path:
            handle, path = tempfile.mkstemp()
            os.close(handle)
        store = FileStore(path)
    elif kind == "tcp":
        store = _tcp_store(params)
    else:
        fail(ValueError, "rdzv_conf", "a store_type of tcp or file was required", repr(kind),
             hint="--rdzv-conf store_type=tcp")  # fmt: skip
    return C10dRendezvousBackend(store, params.run_id), store
