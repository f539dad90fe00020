"""Messages between workers, over gRPC.

Takes: a store through which workers find each other, and a function that answers requests. Gives: `Agent`.
Keeps true: every message carries a proof that its sender knows the program's secret, and is taken once; a
worker that dies is an error of the calls that wait for it, at once, and a call whose time is over is one,
both with the worker's name, and with what it said of others that it found away; requests run in as many
threads as there are, so that calls may nest; a process that ends waits for none of them.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import queue
import secrets
import threading
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.core.logs import get_logger
from facula.distributed import wire
from facula.distributed.errors import DistError
from facula.distributed.rpc.messages import HEAD
from facula.distributed.rpc.options import RpcBackendOptions, WorkerInfo
from facula.distributed.rpc.threads import Threads
from facula.distributed.stores import Store, of_every_rank
from facula.namespaces.futures import Future
from facula.runtime import trust

__all__ = ["Agent", "grpc_module", "take_leave"]

_METHOD = "/facula.rpc/call"
_NONCE, _SEAL = 16, 32  # and a sender's number of 4: `HEAD`
#: nonces of messages that were taken; one that comes again is refused
_REMEMBERED = 1 << 16
#: seconds between looks at whether a caller still waits
_PAUSE = 0.5
#: seconds that the first worker stays for others to hear why not all come
_FAREWELL = 10.0
_OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.so_reuseport", 0),
    # calls stay between the workers: no proxy of the environment
    ("grpc.enable_http_proxy", 0),
]


def grpc_module() -> Any:
    """gRPC, or an error that says how to get it."""
    try:
        # lazily: an extra that only programs with remote calls need
        import grpc
    except ImportError as error:
        fail(ImportError, "init_rpc", "the package grpcio was required", str(error),
             "pip install 'facula[rpc]'")  # fmt: skip
    return grpc


def take_leave(store: Store, rank: int, size: int) -> None:
    """A worker knows that not all will come; the first one, which keeps the store, stays until the others do."""
    with contextlib.suppress(DistError):  # the store may be gone before it answers
        store.set(f"told/{rank}", "")
        if rank == 0:
            store.set_timeout(datetime.timedelta(seconds=_FAREWELL))
            store.multi_get([f"told/{other}" for other in range(1, size)])


class Agent:
    """This worker's end of all calls."""

    def __init__(
        self, info: WorkerInfo, size: int, store: Store, options: RpcBackendOptions,
        answer: Callable[[WorkerInfo, memoryview], io.BytesIO], tell: Callable[[WorkerInfo, str], None],
    ) -> None:  # fmt: skip
        self.grpc = grpc_module()
        self.info, self.size, self.store, self.answer = info, size, store, answer
        #: tells other workers who is away, each once; and what those said, by their numbers
        self.tell, self.away, self.notes = tell, set[int](), dict[int, str]()
        self.log = get_logger("distributed")
        self.lock = threading.Lock()
        #: calls that this worker began, and requests that it is answering
        self.started = self.running = 0
        self.idle = threading.Condition(self.lock)
        self.secret = trust.seal(wire.program_secret(), b"rpc")
        self.seen: dict[bytes, None] = {}
        self.pool = Threads("facula-rpc")
        #: what is put off, until the end (None)
        self.duties: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.host = str(options.host or getattr(store, "local_address", "127.0.0.1"))
        self.tls = [_content(path) for path in options.tls] if options.tls else None
        #: others may be through with meeting, and call, before this worker knows whom it has met
        self.open = threading.Event()
        self.server = self._listen()
        try:
            self.workers = self._meet()
        except BaseException:
            self.server.stop(0)
            raise
        self.by_name = {w.name: w for w in self.workers}
        self.channels: dict[int, Any] = {}
        threading.Thread(target=self._do_duties, name="facula-rpc-duties", daemon=True).start()

    # ---------------------------------------------------------------- beginning

    def _listen(self) -> Any:
        grpc = self.grpc
        server = grpc.server(Threads("facula-rpc-serve"), options=_OPTIONS)
        handler = grpc.unary_unary_rpc_method_handler(self._serve)
        server.add_generic_rpc_handlers([_Handlers(handler)])
        address = f"{self.host}:0" if ":" not in self.host else f"[{self.host}]:0"
        if self.tls is None:
            self.port = server.add_insecure_port(address)
        else:
            key, certificate, trusted = self.tls
            credentials = grpc.ssl_server_credentials([(key, certificate)], trusted, True)
            self.port = server.add_secure_port(address, credentials)
        server.start()
        return server

    def _meet(self) -> list[WorkerInfo]:
        """Learn the names and addresses of all workers."""
        mine = json.dumps([self.info.name, self.host, self.port])
        self.store.set(f"worker/{self.info.id}", mine)
        found = of_every_rank(self.store, "worker", self.size, "init_rpc")
        every = [json.loads(text) for text in found]
        away = [f"rank {rank}: {why}" for rank, why in enumerate(every) if isinstance(why, str)]
        if away:
            take_leave(self.store, self.info.id, self.size)
            fail(RuntimeError, "init_rpc", "all workers were required", "; ".join(away),
                 "look at the output of these ranks")  # fmt: skip
        names = [name for name, _, _ in every]
        if len(set(names)) != len(names):
            fail(RuntimeError, "init_rpc", "a name of its own for each worker was required (names must "
                 "be unique)", names, "for example f'worker{rank}'")  # fmt: skip
        self.addresses = {r: (host, port) for r, (_, host, port) in enumerate(every)}
        return [WorkerInfo(r, name) for r, name in enumerate(names)]

    def worker(self, to: Any) -> WorkerInfo:
        """The worker that a name, a number or a `WorkerInfo` means."""
        if isinstance(to, WorkerInfo):
            return to
        if isinstance(to, int) and 0 <= to < len(self.workers):
            return self.workers[to]
        found = self.by_name.get(to)
        if found is None:
            fail(RuntimeError, "rpc", f"a worker out of {sorted(self.by_name)} was required (Unknown "
                 "destination worker)", repr(to), "workers go by the names that they gave init_rpc()")  # fmt: skip
        return found

    # ---------------------------------------------------------------- calls

    def _sealed(self, nonce: bytes, kind: bytes, body: memoryview) -> bytes:
        return trust.seal(self.secret, kind, nonce, body)

    def _channel(self, worker: int) -> Any:
        with self.lock:
            known = self.channels.get(worker)
            if known is None:
                host, port = self.addresses[worker]
                where = f"{host}:{port}" if ":" not in host else f"[{host}]:{port}"
                grpc = self.grpc
                if self.tls is None:
                    channel = grpc.insecure_channel(where, _OPTIONS)
                else:
                    key, certificate, trusted = self.tls
                    credentials = grpc.ssl_channel_credentials(trusted, key, certificate)
                    channel = grpc.secure_channel(where, credentials, _OPTIONS)
                known = self.channels[worker] = channel, channel.unary_unary(_METHOD)
            return known[1]

    def call(self, to: WorkerInfo, body: io.BytesIO, seconds: float, what: str) -> Future:
        """Have a worker answer a request (as `pack` makes it); gives a future of a view of the answer's bytes."""
        future: Future = Future()
        nonce = secrets.token_bytes(_NONCE)
        sender = self.info.id.to_bytes(4, "big")
        with body.getbuffer() as view:
            seal = self._sealed(nonce, b"request" + sender, view[HEAD:])
            view[:HEAD] = nonce + seal + sender
        with self.lock:
            self.started += 1
            self.running += 1
        try:
            pending = self._channel(to.id).future(body.getvalue(), timeout=seconds or None)
        except ValueError as error:  # the channel was closed
            self._ended()
            future.set_exception(RuntimeError(f"[rpc] {what}: workers that were not shut down were "
                                              f"required: got {error}\nhint: call before shutdown()"))  # fmt: skip
            return future
        pending.add_done_callback(
            lambda done: self.pool.submit(self._take, done, future, nonce, to, seconds, what)
        )
        return future

    def _take(
        self, done: Any, future: Future, nonce: bytes, to: WorkerInfo, seconds: float, what: str
    ) -> None:
        """An answer came, or will not."""
        try:
            try:
                data = memoryview(done.result())
                seal, body = data[HEAD - _SEAL : HEAD], data[HEAD:]
                if not secrets.compare_digest(seal, self._sealed(nonce, b"answer", body)):
                    fail(PermissionError, "rpc", "an answer of a worker of this program was required",
                         "another seal", "workers share the secret of the program")  # fmt: skip
            except Exception as error:
                failure = self._failure(error, to, seconds, what)
                self._spread(error, to, str(failure))
                future.set_exception(failure)
            else:
                future.set_result(body)
        finally:
            self._ended()

    def _failure(self, error: Exception, to: WorkerInfo, seconds: float, what: str) -> RuntimeError:
        codes, code = self.grpc.StatusCode, getattr(error, "code", lambda: None)()
        details = getattr(error, "details", lambda: str(error))() or str(error)
        if code is codes.DEADLINE_EXCEEDED:
            text = f"an answer within {seconds:g} s (timeout) was required (RPC ran for more than " \
                   f"set timeout ({seconds * 1000:.0f} ms))"  # fmt: skip
            got, hint = "none", "pass timeout=..., or look at what that worker does"
        elif code is codes.UNAVAILABLE:
            text, got = (
                "a connection to the worker was required",
                f"{details} (it exited, died or left)",
            )
            if to.id in self.notes:
                got += f"; before, it said: {self.notes[to.id]}"
            hint = "look at the output of that worker"
        else:
            text, got = "an answer was required", details
            hint = "look at the output of that worker"
        return RuntimeError(
            f"[rpc] {what} on {to.name} (rank {to.id}): {text}: got {got}\nhint: {hint}"
        )

    def _spread(self, error: Exception, away: WorkerInfo, text: str) -> None:
        """Tell the others of a worker that is away: it may be why this one is, soon."""
        codes = self.grpc.StatusCode  # one that leaves while it answers cancels the call
        if getattr(error, "code", lambda: None)() not in (codes.UNAVAILABLE, codes.CANCELLED):
            return
        with self.lock:
            known = away.id in self.away
            self.away.add(away.id)
        if not known:
            self.tell(away, text)

    def later(self, duty: Callable[[], None]) -> None:
        """Have a thread run a function. It takes no lock: the collector may call it where others are held."""
        self.duties.put(duty)

    def _do_duties(self) -> None:
        while (duty := self.duties.get()) is not None:
            with contextlib.suppress(Exception):  # the end of the workers
                duty()

    def _ended(self) -> None:
        with self.lock:
            self.running -= 1
            self.idle.notify_all()

    # ---------------------------------------------------------------- requests

    def _serve(self, data: bytes, context: Any) -> bytes:
        nonce, seal = data[:_NONCE], data[_NONCE : _NONCE + _SEAL]
        sender, body = data[_NONCE + _SEAL : HEAD], memoryview(data)[HEAD:]
        good = len(sender) == 4 and secrets.compare_digest(
            seal, self._sealed(nonce, b"request" + sender, body)
        )
        with self.lock:
            good = good and nonce not in self.seen
            if good:
                self.seen[nonce] = None
                if len(self.seen) > _REMEMBERED:
                    del self.seen[next(iter(self.seen))]
                self.running += 1
        if not good:
            self.log.warning(
                "a call was refused: its sender does not know the secret of this program"
            )
            context.abort(self.grpc.StatusCode.PERMISSION_DENIED, "the secret of this program")
        try:
            while not self.open.wait(_PAUSE):
                if not context.is_active():
                    return b""  # whoever called waits no longer
            answer = self.answer(self.workers[int.from_bytes(sender, "big")], body)
            with answer.getbuffer() as view:
                view[HEAD - _SEAL : HEAD] = self._sealed(nonce, b"answer", view[HEAD:])
            return answer.getvalue()
        finally:
            self._ended()

    # ---------------------------------------------------------------- the end

    def wait_idle(self, seconds: float | None) -> bool:
        """Wait until nothing runs here (None: however long); gives whether that came."""
        with self.idle:
            return self.idle.wait_for(lambda: not self.running, seconds)

    def close(self) -> None:
        """Close everything."""
        self.duties.put(None)
        self.server.stop(0.2).wait()
        for channel, _ in self.channels.values():
            channel.close()
        self.pool.shutdown(wait=False)


class _Handlers:
    """The one method that the server has."""

    def __init__(self, handler: Any) -> None:
        self.handler = handler

    def service(self, details: Any) -> Any:
        """The handler of a method; None where there is none."""
        return self.handler if details.method == _METHOD else None


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
