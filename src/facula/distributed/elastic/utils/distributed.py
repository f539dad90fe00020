"""Stores that agents make, and free ports.

Takes: an address. Gives: `create_c10d_store`, `get_free_port`, `get_socket_with_port`.
Keeps true: a server that was to wait for workers has met all of them when it is given.
"""

from __future__ import annotations

import datetime
import os

from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.distributed.elastic.utils.api import get_socket_with_port
from facula.distributed.errors import DistNetworkError
from facula.distributed.tcp_store import TCPStore

__all__ = ["create_c10d_store", "get_free_port", "get_socket_with_port"]


def get_free_port() -> int:
    """A port of this machine that nobody had when it was asked; somebody may take it before it is used."""
    with get_socket_with_port() as held:
        return int(held.getsockname()[1])


def create_c10d_store(
    is_server: bool, server_addr: str, server_port: int = -1, world_size: int = 1, timeout: float = 600,
    wait_for_workers: bool = True, retries: int = 3, use_libuv: bool | None = None,
) -> TCPStore:  # fmt: skip
    """A store, or a connection to one.

    Args:
        is_server: whether this process keeps it
        server_addr: the address of the process that does
        server_port: its port; -1 for any that is free, where there is one process
        world_size: how many processes use it
        timeout: seconds
        wait_for_workers: whether the server waits until all have come
        retries: how often a free port that somebody took meanwhile is chosen anew
        use_libuv: kept for PyTorch's API

    Raises:
        ValueError: no port was named, and there are several processes.
        DistNetworkError: the address can not be reached or listened on.
        DistStoreError: not all workers came.
    """
    if server_port == -1 and world_size > 1:
        fail(ValueError, "create_c10d_store", "a port was required for several processes (server_port must be "
             "specified when world_size > 1)", f"server_port=-1, world_size={world_size}",
             hint="all processes need to know it")  # fmt: skip
    libuv = os.environ.get("USE_LIBUV", "1") == "1" if use_libuv is None else use_libuv
    limit = datetime.timedelta(seconds=timeout)
    left = max(retries, 1)
    while True:
        port = get_free_port() if server_port == -1 else server_port
        try:
            return TCPStore(
                server_addr, port, world_size, is_server, limit, wait_for_workers, use_libuv=libuv
            )
        except DistNetworkError as error:
            left -= 1
            if server_port != -1 or left == 0:
                raise
            get_logger("distributed").warning("port %d was taken meanwhile: %s", port, error)
