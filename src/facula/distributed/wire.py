"""Bytes over sockets, with deadlines; who may speak.

Takes: connected sockets, addresses. Gives: `receive_exactly`, `connect`, `listen`; `prove` and
`ask_proof`, by which both ends find that the other knows a secret.
Keeps true: a peer that went away is a `ConnectionError`, time that is over a `TimeoutError`; nothing
waits longer than it was told to; memory is taken as bytes arrive, not as a peer announces them; the
secret itself is never sent.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import socket
import time

from facula.core import config
from facula.core.errors import fail
from facula.distributed.errors import DistNetworkError
from facula.runtime import cache, trust

#: what is taken at once for bytes that are only announced, and how much more than what has come later
_PART, _AHEAD = 1 << 20, 16
_GREETING = b"facula connection 1\n"
_NONCE = _PROOF = 32
#: how long a peer may take to say who it is
PATIENCE = 10.0


def receive_exactly(connection: socket.socket, size: int) -> bytearray:
    """This many bytes."""
    buffer = bytearray(min(size, _PART))
    at = 0
    while True:
        with memoryview(buffer) as view:
            while at < len(buffer):
                count = connection.recv_into(view[at:])
                if not count:
                    raise ConnectionError("the connection was closed by the peer")
                at += count
        if at == size:
            return buffer
        wanted = min(size, _AHEAD * at)
        buffer *= -(-wanted // at)  # whatever there is: no zeros are made first
        del buffer[wanted:]


def listen(host: str, port: int, backlog: int = 128) -> socket.socket:
    """A socket that listens at this address and no other; port 0 takes a free one."""
    made: socket.socket | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        # `localhost` is the older one of two, where clients of either find it
        family, _, _, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(backlog)
    except OSError as error:
        if made is not None:
            made.close()
        fail(
            DistNetworkError,
            "listen",
            f"an address of this machine that is free was required: {host}:{port} (The server socket has failed to "
            f"listen on any local network address. port: {port})",
            str(error),
            "choose another MASTER_PORT, or an address of rank 0's machine as MASTER_ADDR (0.0.0.0: all)",
        )
    return made


def take_over(number: int) -> socket.socket:
    """A socket that another part of the program has bound, by its number; it listens from now on."""
    try:
        made = socket.socket(fileno=number)
        made.listen(128)
    except OSError as error:
        fail(DistNetworkError, "listen", "the number of a bound socket was required", f"{number} ({error})",
             "socket.detach() gives the number of one")  # fmt: skip
    return made


def connect(host: str, port: int, seconds: float, *, starting: bool = True) -> socket.socket:
    """A connection to a server, which may still be about to start; where it may not, ConnectionRefusedError says
    that it has ended."""
    end = time.monotonic() + seconds
    pause = 0.005
    while True:
        left = max(end - time.monotonic(), 0.001)
        try:
            made = socket.create_connection((host, port), timeout=left)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made
        except OSError as error:
            if not starting and isinstance(error, ConnectionRefusedError):
                raise
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


def machine() -> str:
    """A name of this machine's network, the same in all processes that share its loopback address."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        with open("/proc/sys/kernel/random/boot_id") as file:
            parts.append(file.read().strip())
        parts.append(os.readlink("/proc/self/ns/net"))
    return " ".join(parts)


# ------------------------------------------------------------------ who may speak


def program_secret() -> bytes:
    """What the processes of a program know and others do not: `FACULA_STORE_SECRET`, which the launcher
    sets, else a secret of the user."""
    given = config.get("store_secret")
    key = given.encode() if given else trust.secret(cache.directory())
    return trust.seal(key, b"distributed")


def prove(connection: socket.socket, secret: bytes) -> None:
    """Show a server that the secret is known, and see that it knows it too."""
    nonce = secrets.token_bytes(_NONCE)
    connection.sendall(_GREETING + nonce)
    answer = bytes(receive_exactly(connection, _NONCE + _PROOF))
    if not hmac.compare_digest(
        answer[_NONCE:], trust.seal(secret, b"server", nonce, answer[:_NONCE])
    ):
        raise PermissionError("the server does not know the secret of this program")
    connection.sendall(trust.seal(secret, b"client", nonce, answer[:_NONCE]))
    if bytes(receive_exactly(connection, 1)) != b"\1":
        raise PermissionError("the server refused the secret of this program")


def ask_proof(connection: socket.socket, secret: bytes) -> None:
    """See that a client knows the secret; PermissionError where it does not."""
    greeting = bytes(receive_exactly(connection, len(_GREETING)))
    if greeting != _GREETING:
        raise PermissionError("a client that speaks otherwise")
    nonce, own = bytes(receive_exactly(connection, _NONCE)), secrets.token_bytes(_NONCE)
    connection.sendall(own + trust.seal(secret, b"server", nonce, own))
    proof = bytes(receive_exactly(connection, _PROOF))
    if not hmac.compare_digest(proof, trust.seal(secret, b"client", nonce, own)):
        connection.sendall(b"\0")
        raise PermissionError("a client that does not know the secret of this program")
    connection.sendall(b"\1")
