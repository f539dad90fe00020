"""Foreign programs connect and send garbage to the ports of a distributed program.

    python tools/fuzz_ports.py --messages 100000
    python tools/fuzz_ports.py --messages 1000 --targets store,rpc --seed 3

Takes: a number of messages, targets and a seed. The targets: `store` (of a program), `gloo` (the sockets of a
rank), `rpc` (a worker's gRPC port). A third of the messages comes from who does not know the program's
secret and changes what an honest peer sends first; the others come behind a good proof and change what it
sends then.
Gives: for each target how many messages it took, and how many threads and bytes are left; exit status 1 where an
honest client was not answered rightly, a thread of the server ended by an exception, a thread stayed, or memory
grew by more than `GROWTH`.
Keeps true: the same seed sends the same messages; the targets are in this process, on the loopback address.

`SystemError: deallocated bytearray object has exported buffers` on the error output is Python's own: its pickle makes
a bytearray as long as a changed message says, and where there is no such memory gives back one that was not filled in
yet, with whatever stood where buffers are counted. Nothing is freed twice; the call ends in a MemoryError, which is
answered.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import logging
import random
import secrets
import socket
import struct
import sys
import threading
import time
from abc import ABC, abstractmethod
from typing import Any

from fuzz_mutations import mutated_bytes
from held_port import held_port

import facula
from facula import distributed as dist
from facula.core import config
from facula.distributed import rpc, wire
from facula.distributed.engine import Rendezvous
from facula.distributed.engines import sockets
from facula.distributed.rpc.agent import Agent
from facula.distributed.rpc.options import TensorPipeRpcBackendOptions, WorkerInfo
from facula.distributed.rpc.requests import answer
from facula.distributed.tcp_store import Server
from facula.runtime import trust

#: bytes resident, beyond those after a tenth of the messages
GROWTH = 64 << 20
#: messages between questions of an honest client
_ASKED = 500
_WAIT = 5.0


class Target(ABC):
    """A port."""

    #: threads that honest connections keep
    keeps = 0

    def __init__(self, generator: random.Random) -> None:
        self.random = generator

    @abstractmethod
    def attack(self, known: bool) -> None:
        """Send a message; `known`: behind a good proof."""

    @abstractmethod
    def honest(self) -> bool:
        """Whether an honest client is served."""

    @abstractmethod
    def close(self) -> None:
        """Close the port."""

    def _stranger(self, port: int) -> None:
        """What an honest peer sends first, changed."""
        with _connected(port) as peer:
            good = (
                wire._GREETING + secrets.token_bytes(wire._NONCE) + secrets.token_bytes(wire._PROOF)
            )
            sent = good if self.random.random() < 0.1 else mutated_bytes(good, self.random)
            _said(peer, sent)

    def _behind_proof(self, port: int, secret: bytes, data: bytes) -> None:
        with _connected(port) as peer:
            wire.prove(peer, secret)
            _said(peer, data)


@contextlib.contextmanager
def _connected(port: int) -> Any:
    peer = socket.create_connection(("127.0.0.1", port), timeout=_WAIT)
    try:
        yield peer
    finally:
        peer.close()


def _said(peer: socket.socket, data: bytes) -> None:
    """Send bytes, end, and see the other end close."""
    try:
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(65536):
            pass
    except TimeoutError:
        raise
    except OSError:
        return  # it closed before all was said


class StorePort(Target):
    """The store of a program."""

    REQUESTS = (
        ["set", ["key", {"bytes": "dmFsdWU="}]], ["add", ["count", 1]], ["check", [["key"]]],
        ["multi_get", [["key", "other"]]], ["wait", [["none"], 0.001]], ["delete_key", ["key"]],
        ["compare_set", ["key", {"bytes": ""}, {"bytes": "dmFsdWU="}]], ["num_keys", []],
        ["append", ["text", {"bytes": "eA=="}]], ["multi_set", [["a"], [{"bytes": "eA=="}]]],
    )  # fmt: skip

    def __init__(self, generator: random.Random) -> None:
        super().__init__(generator)
        self.server = Server("127.0.0.1", 0)
        self.client = dist.TCPStore("127.0.0.1", self.server.port, None, False)
        self.asked = 0

    def attack(self, known: bool) -> None:
        """Send a message."""
        if not known:
            self._stranger(self.server.port)
            return
        data = json.dumps(self.random.choice(self.REQUESTS)).encode()
        if self.random.random() < 0.5:
            data = mutated_bytes(data, self.random)
            data = struct.pack("!I", len(data)) + data
        else:
            data = mutated_bytes(struct.pack("!I", len(data)) + data, self.random)
        self._behind_proof(self.server.port, self.server.secret, data)

    def honest(self) -> bool:
        """Whether an honest client is served."""
        self.asked += 1
        self.client.set("honest", str(self.asked))
        return self.client.get("honest") == str(self.asked).encode()

    def close(self) -> None:
        """Close the port."""
        self.client.close()
        self.server.close()


class EnginePort(Target):
    """The sockets of rank 0 of two."""

    keeps = 4  # of each rank to each: who is asked answers

    def __init__(self, generator: random.Random) -> None:
        super().__init__(generator)
        store = dist.HashStore()
        made: list[Any] = [None, None]

        def make(rank: int) -> None:
            made[rank] = sockets.SocketEngine(Rendezvous(store, rank, 2, 10.0))

        threads = [threading.Thread(target=make, args=(rank,)) for rank in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.engine, self.peer = made
        self.engine.status = lambda group: {"op": "nothing", "sequence": 0}
        self.asked = 0

    def attack(self, known: bool) -> None:
        """Send a message."""
        port = self.engine.server.getsockname()[1]
        if not known:
            self._stranger(port)
            return
        kind, label = self.random.randrange(7), b"all_reduce SUM"
        payload = self.random.randbytes(self.random.randrange(40))
        # of a group that nobody asks for
        head = sockets._HEADER.pack(1 << 20, kind, 1, 0, len(payload), len(label))
        data = mutated_bytes(sockets._HELLO.pack(1) + head + label + payload, self.random)
        self._behind_proof(port, self.engine.secret, data)
        self.engine.mailbox.messages.clear()
        self.engine.mailbox.notes.clear()
        self.engine.mailbox.failed.clear()
        self.engine.mailbox.gone.clear()

    def honest(self) -> bool:
        """Whether rank 1's message arrives."""
        self.asked += 1
        found: list[Any] = []
        ticket = self.engine.expect(1, (7, self.asked, 0), lambda *message: found.append(message))
        self.peer.send(0, (7, self.asked, 0), "label", b"payload")
        return ticket.done.wait(_WAIT) and found == [(1, "label", b"payload")]

    def close(self) -> None:
        """Close the port."""
        self.peer.close()
        self.engine.close()


def _doubled(x: Any) -> Any:
    return 2 * x


class WorkerPort(Target):
    """A worker of remote calls."""

    def __init__(self, generator: random.Random) -> None:
        super().__init__(generator)
        options = TensorPipeRpcBackendOptions(rpc_timeout=_WAIT)
        with held_port() as held:
            options.init_method = f"tcp://127.0.0.1:{held.getsockname()[1]}"
            rpc.init_rpc("worker0", rank=0, world_size=1, rpc_backend_options=options)
        self.agent: Agent = rpc.requests.agent()
        channel = self.agent.grpc.insecure_channel(f"127.0.0.1:{self.agent.port}")
        self.channel, self.method = channel, channel.unary_unary("/facula.rpc/call")
        self.bodies = self._bodies()
        self.asked = 0

    def _bodies(self) -> list[bytes]:
        """Requests as an honest worker makes them."""
        found: list[bytes] = []
        original = self.agent.answer

        def kept(sender: WorkerInfo, body: memoryview) -> io.BytesIO:
            found.append(bytes(body))
            return answer(sender, body)

        self.agent.answer = kept
        rpc.rpc_sync("worker0", max, (3, 4))
        rpc.rpc_sync("worker0", facula.add, (facula.ones(2), 1))
        rpc.remote("worker0", max, (3, 4)).to_here()
        self.agent.answer = original
        return found

    def attack(self, known: bool) -> None:
        """Send a message."""
        kind = self.random.randrange(3)
        if not known and kind == 0:
            with _connected(self.agent.port) as peer:
                good = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
                peer.settimeout(0.02)  # a half of a preface is waited for
                with contextlib.suppress(TimeoutError):
                    _said(peer, mutated_bytes(good, self.random))
            return
        body = self.random.choice(self.bodies)
        nonce, sender = secrets.token_bytes(16), (0).to_bytes(4, "big")
        if known:
            body = mutated_bytes(body, self.random)
            if kind == 0:
                sender = self.random.choice((1, 7, 2**32 - 1)).to_bytes(4, "big")
            seal = trust.seal(self.agent.secret, b"request" + sender, nonce, body)
            data = nonce + seal + sender + body
        else:
            data = mutated_bytes(nonce + bytes(32) + sender + body, self.random)
        with contextlib.suppress(self.agent.grpc.RpcError):
            self.method(data, timeout=_WAIT)

    def honest(self) -> bool:
        """Whether a call is answered."""
        self.asked += 1
        return bool(rpc.rpc_sync("worker0", max, (self.asked, 1)) == self.asked)

    def close(self) -> None:
        """Close the port."""
        self.channel.close()
        rpc.shutdown(graceful=False)


TARGETS: dict[str, type[Target]] = {"store": StorePort, "gloo": EnginePort, "rpc": WorkerPort}


def resident() -> int:
    """Bytes of this process's memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def settled(before: int) -> int:
    """How many threads more than before there are, when those that end have ended."""
    end = time.monotonic() + 15
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.05)
    return threading.active_count() - before


def attacked(name: str, messages: int, seed: int) -> list[str]:
    """What is wrong with a target after so many messages."""
    wrong: list[str] = []
    raised: list[Any] = []
    previous, threading.excepthook = threading.excepthook, raised.append
    target = TARGETS[name](random.Random(f"{name} {seed}"))
    level, threads = resident(), 0
    try:
        for number in range(messages):
            if number == messages // 10:
                threads, level = threading.active_count(), resident()
            target.attack(known=number % 3 != 0)
            if number % _ASKED == 0 and not target.honest():
                wrong.append(f"message {number}: an honest client is not served")
                break
        wrong += [] if target.honest() else ["at the end, an honest client is not served"]
        more = settled(threads) if name != "rpc" else 0  # gRPC keeps the threads of a pool
        gc.collect()
        grown = resident() - level
        names = sorted(thread.name for thread in threading.enumerate())
        wrong += [f"{more} threads stayed: {names}"] if more > target.keeps else []
        wrong += [f"memory grew by {grown} bytes"] if grown > GROWTH else []
        print(
            f"{name}: {messages} messages, {max(more, 0)} threads more, {grown / 1e6:.1f} MB more",
            flush=True,
        )
    except Exception as error:
        wrong.append(f"{type(error).__name__}: {error}")
    finally:
        target.close()
        threading.excepthook = previous
    wrong += [f"a thread ended with {one.exc_type.__name__}: {one.exc_value}" for one in raised[:5]]
    return [f"{name}: {text}" for text in wrong]


def main(given: list[str] | None = None) -> int:
    """Attack; gives the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=10_000, help="to each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", default=",".join(TARGETS))
    arguments = parser.parse_args(given)
    config.set("store_secret", secrets.token_hex(16))
    logging.getLogger("facula.distributed").setLevel(logging.CRITICAL)  # each refusal is told
    wrong: list[str] = []
    for name in arguments.targets.split(","):
        wrong += attacked(name, arguments.messages, arguments.seed)
    for text in wrong:
        print(f"FAULT {text}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
