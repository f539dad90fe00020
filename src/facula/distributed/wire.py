"""Bytes over sockets, with deadlines.

Takes: connected sockets, addresses. Gives: `receive_exactly`, `connect`, `listen`.
Keeps true: a peer that went away is a `ConnectionError`, time that is over a `TimeoutError`; nothing
waits longer than it was told to.
"""

from __future__ import annotations

import contextlib
import socket
import time

from facula.core.errors import fail
from facula.distributed.errors import DistNetworkError


def receive_exactly(connection: socket.socket, size: int) -> bytearray:
    """This many bytes."""
    buffer = bytearray(size)
    view = memoryview(buffer)
    at = 0
    while at < size:
        count = connection.recv_into(view[at:])
        if not count:
            raise ConnectionError("the connection was closed by the peer")
        at += count
    return buffer


def listen(host: str, port: int, backlog: int = 128) -> socket.socket:
    """A socket that listens; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(backlog)
    except OSError as error:
        made.close()
        fail(
            DistNetworkError,
            "listen",
            f"an address that is free was required: {host}:{port}",
            str(error),
            "another program listens there; choose another MASTER_PORT",
        )
    return made


def connect(host: str, port: int, seconds: float) -> socket.socket:
    """A connection to a server, which may still be about to start."""
    end = time.monotonic() + seconds
    pause = 0.005
    while True:
        left = max(end - time.monotonic(), 0.001)
        try:
            made = socket.create_connection((host, port), timeout=left)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made
        except OSError as error:
            if time.monotonic() + pause > end:
                fail(
                    DistNetworkError,
                    "connect",
                    f"a server at {host}:{port} was required within {seconds:g} s (connection timeout)",
                    str(error),
                    "see whether the process of rank 0 runs, and MASTER_ADDR and MASTER_PORT",
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.25)


def close(connection: socket.socket) -> None:
    """Close a socket, also for a thread that waits in it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
