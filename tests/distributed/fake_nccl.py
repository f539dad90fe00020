"""NCCL and the CUDA driver without a device: functions of C's calling convention that record their calls.

Takes: what is to go wrong. Gives: `Fake`, whose attributes are the functions of both libraries.
Keeps true: memory of the device is memory of the process; a collective runs when all ranks of the communicator
have asked for it, which may be threads of this process; where `alone`, the others are in other processes, and
what they would send is missing, but for messages that go by files in a `folder` of all.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from facula.distributed.nvidia import driver, library

NAMES = {code: name for name, code in library.DTYPES.items()}
COMBINE = {0: np.add, 1: np.multiply, 2: np.maximum, 3: np.minimum, 4: np.add}
#: the first of the fake devices' addresses by which streams and communicators go
TEXT = ctypes.create_string_buffer(b"what the fake says")
HANDLES = itertools.count(0x1000, 0x10)


class Comm:
    """A rank's end of a communicator."""

    def __init__(
        self, clique: dict[int, Comm], size: int, rank: int, device: int, name: str
    ) -> None:
        self.clique, self.size, self.rank, self.device = clique, size, rank, device
        #: the same in all processes
        self.name = name
        self.batches: list[list[tuple[str, Any]]] = []
        self.done = self.error = 0


class Fake:
    """Both libraries.

    Args:
        devices: how many there are
        hangs: from which group of operations on nothing ends
        errors: from which group on a communicator has which asynchronous error
        answers: what functions answer instead of doing anything
        alone: whether the other ranks of communicators are elsewhere
        copying: seconds that a copy within a device takes
        folder: by which messages of other processes come
    """

    def __init__(
        self, devices: int = 1, hangs: int | None = None, errors: tuple[int, int] | None = None,
        answers: dict[str, int] | None = None, alone: bool = False, copying: float = 0.0,
        folder: str | None = None,
    ) -> None:  # fmt: skip
        self.devices, self.hangs, self.errors, self.alone = devices, hangs, errors, alone
        self.answers, self.copying, self.folder = answers or {}, copying, folder
        #: devices of memory that others gave out: called with an address
        self.others: Callable[[int], int | None] = lambda pointer: None
        #: until when streams and events are busy
        self.busy: dict[int, float] = {}
        self.calls: list[str] = []
        self.lock = threading.RLock()
        self.memory: dict[int, Any] = {}
        self.places: dict[int, int] = {}
        self.current = threading.local()
        self.cliques: dict[bytes, dict[int, Comm]] = {}
        self.comms: dict[int, Comm] = {}
        self.streams: dict[int, list[tuple[Comm, int]]] = {}
        self.group = threading.local()
        self._kept = []
        for name, arguments in {**library.PROTOTYPES, **driver.PROTOTYPES}.items():
            kind = ctypes.c_void_p if name == "ncclGetErrorString" else ctypes.c_int
            function = ctypes.CFUNCTYPE(kind, *arguments)(self._recorded(name))
            self._kept.append(function)
            setattr(self, name, function)

    def _recorded(self, name: str) -> Any:
        body = getattr(self, f"_{name}", lambda *args: 0)

        def run(*args: Any) -> Any:
            with self.lock:
                self.calls.append(name)
                return self.answers[name] if name in self.answers else body(*args) or 0

        def text(code: int) -> int:
            return ctypes.addressof(TEXT)

        return text if name == "ncclGetErrorString" else run

    # ---------------------------------------------------------------- the driver

    def _cuDriverGetVersion(self, found: Any) -> None:
        found[0] = 13000

    def _cuDeviceGetCount(self, found: Any) -> None:
        found[0] = self.devices

    def _cuDeviceGet(self, found: Any, number: int) -> None:
        found[0] = number

    def _cuDevicePrimaryCtxRetain(self, found: Any, device: int) -> None:
        found[0] = 0x100 + device

    def _cuCtxSetCurrent(self, context: int) -> None:
        self.current.device = context - 0x100

    def _cuMemAlloc_v2(self, found: Any, size: int) -> None:
        held = ctypes.create_string_buffer(b"\xcb" * size, size)
        found[0] = ctypes.addressof(held)
        self.memory[found[0]] = held
        self.places[found[0]] = self.current.device

    def _cuMemFree_v2(self, pointer: int) -> int:
        return 0 if self.memory.pop(pointer, None) is not None else 1

    def _cuMemcpyHtoD_v2(self, to: int, source: int, size: int) -> None:
        ctypes.memmove(to, source, size)

    def _cuMemcpyDtoH_v2(self, to: int, source: int, size: int) -> None:
        ctypes.memmove(to, source, size)

    def _cuMemcpyDtoDAsync_v2(self, to: int, source: int, size: int, stream: int) -> None:
        ctypes.memmove(to, source, size)
        if self.copying:
            self.busy[stream] = max(self.busy.get(stream, 0), time.monotonic()) + self.copying

    def _cuPointerGetAttribute(self, found: int, what: int, pointer: int) -> int:
        held = [p for p, held in self.memory.items() if p <= pointer < p + len(held)]
        device = self.places[held[0]] if held else self.others(pointer)
        value = (1 if device is None else 2) if what == 2 else device
        ctypes.c_int.from_address(found).value = value
        return 0

    def _cuStreamCreate(self, found: Any, flags: int) -> None:
        found[0] = next(HANDLES)
        self.streams[found[0]] = []

    def _cuStreamDestroy_v2(self, stream: int) -> None:
        del self.streams[stream]

    def _cuEventCreate(self, found: Any, flags: int) -> None:
        found[0] = next(HANDLES)

    def _cuEventRecord(self, event: int, stream: int) -> None:
        self.busy[event] = self.busy.get(stream, 0)

    def _cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        self.busy[stream] = max(self.busy.get(stream, 0), self.busy[event])

    def _cuStreamQuery(self, stream: int) -> int:
        if self.busy.get(stream, 0) > time.monotonic():
            return 600
        for comm, _ in self.streams[stream] if self.folder else ():
            self._run_all(comm.clique, comm.size)
        return 0 if all(comm.done > number for comm, number in self.streams[stream]) else 600

    # ---------------------------------------------------------------- communicators

    def _ncclGetVersion(self, found: Any) -> None:
        found[0] = 22805

    def _ncclGetUniqueId(self, found: Any) -> None:
        number = (os.getpid() << 64 | next(HANDLES)).to_bytes(128, "big")
        ctypes.memmove(found, number, 128)

    def _ncclCommInitRankConfig(
        self, found: Any, size: int, unique: Any, rank: int, config: Any
    ) -> int:
        told = config.contents
        assert (told.magic, told.blocking, told.size) == (0xCAFEBEEF, 0, 24)
        clique = self.cliques.setdefault(bytes(unique.internal), {})
        name = bytes(unique.internal)[-16:].hex()
        clique[rank] = Comm(clique, size, rank, self.current.device, name)
        found[0] = next(HANDLES)
        self.comms[found[0]] = clique[rank]
        return 7

    def _ncclCommGetAsyncError(self, comm: int, found: Any) -> None:
        one = self.comms[comm]
        if len({other.device for other in one.clique.values()}) < len(one.clique):
            one.error = 5  # two ranks on a device
        waits = len(one.clique) < one.size and not self.alone
        found[0] = one.error or (7 if waits else 0)

    def _ncclCommAbort(self, comm: int) -> None:
        del self.comms[comm]

    def _ncclCommDestroy(self, comm: int) -> None:
        del self.comms[comm]

    # ---------------------------------------------------------------- operations

    def _ncclGroupStart(self) -> None:
        self.group.asked = []

    def _ask(self, name: str, comm: int, stream: int, *args: Any) -> int:
        if any(isinstance(a, tuple) and a[0] in ("peer", "root")
               and not 0 <= a[1] < self.comms[comm].size for a in args):  # fmt: skip
            return 4
        self.group.asked.append(
            (comm, stream, name, [a[1] if isinstance(a, tuple) else a for a in args])
        )
        return 0

    def _ncclAllReduce(self, send, recv, count, dtype, op, comm, stream):  # type: ignore[no-untyped-def]
        return self._ask("all_reduce", comm, stream, send, recv, count, dtype, op)

    def _ncclReduce(self, send, recv, count, dtype, op, root, comm, stream):  # type: ignore[no-untyped-def]
        return self._ask("reduce", comm, stream, send, recv, count, dtype, op, ("root", root))

    def _ncclBroadcast(self, send, recv, count, dtype, root, comm, stream):  # type: ignore[no-untyped-def]
        return self._ask("broadcast", comm, stream, send, recv, count, dtype, ("root", root))

    def _ncclAllGather(self, send, recv, count, dtype, comm, stream):  # type: ignore[no-untyped-def]
        return self._ask("all_gather", comm, stream, send, recv, count, dtype)

    def _ncclReduceScatter(self, send, recv, count, dtype, op, comm, stream):  # type: ignore[no-untyped-def]
        return self._ask("reduce_scatter", comm, stream, send, recv, count, dtype, op)

    def _ncclSend(self, send, count, dtype, peer, comm, stream):  # type: ignore[no-untyped-def]
        return self._ask("send", comm, stream, send, count, dtype, ("peer", peer))

    def _ncclRecv(self, recv, count, dtype, peer, comm, stream):  # type: ignore[no-untyped-def]
        return self._ask("recv", comm, stream, recv, count, dtype, ("peer", peer))

    def _ncclGroupEnd(self) -> None:
        for comm, asked in itertools.groupby(self.group.asked, key=lambda one: one[:2]):
            one = self.comms[comm[0]]
            self.streams[comm[1]].append((one, len(one.batches)))
            one.batches.append([(name, args) for _, _, name, args in asked])
            if self.errors is not None and len(one.batches) > self.errors[0]:
                one.error = self.errors[1]
            self._run_all(one.clique, one.size)

    def _run_all(self, clique: dict[int, Comm], size: int) -> None:
        """Run what all ranks have asked for."""
        ranks = [clique[r] for r in sorted(clique)]
        if len(ranks) < size and not self.alone:
            return
        while all(len(one.batches) > one.done for one in ranks):
            if self.hangs is not None and ranks[0].done >= self.hangs:
                return
            if self.folder and not self._by_files(ranks[0]):
                return
            self._run([one.batches[one.done] for one in ranks])
            for one in ranks:
                one.done += 1

    def _by_files(self, one: Comm) -> bool:
        """Send messages of a batch to other processes, and take what came; whether all of it is there."""
        batch = one.batches[one.done]
        for number, (name, args) in enumerate(batch):
            if name not in ("send", "recv"):
                continue
            ends = (one.rank, args[3]) if name == "send" else (args[3], one.rank)
            place = os.path.join(self.folder or "", f"{one.name}-{ends[0]}-{ends[1]}-{one.done}")
            if name == "send":
                with open(f"{place}~", "wb") as file:
                    file.write(array(args[0], args[1], args[2]).tobytes())
                os.rename(f"{place}~", place)
            elif not os.path.exists(place):
                return False
            else:
                with open(place, "rb") as file:
                    got = file.read()
                ctypes.memmove(args[0], got, len(got))
            batch[number] = ("done", args)
        return True

    def _run(self, batches: list[list[tuple[str, Any]]]) -> None:
        sent: dict[tuple[int, int], list[bytes]] = {}
        for rank, batch in enumerate(batches):
            for name, args in batch:
                if name == "send":
                    data = array(args[0], args[1], args[2]).tobytes()
                    sent.setdefault((rank, args[3]), []).append(data)
        for rank, batch in enumerate(batches):
            for name, args in batch:
                if name == "recv":
                    got = sent.get((args[3], rank), [b""]).pop(0)
                    ctypes.memmove(args[0], got, len(got))
        for number, (name, _) in enumerate(batches[0]):
            if name not in ("send", "recv", "done"):
                self._collective(name, [batch[number][1] for batch in batches])

    def _collective(self, name: str, args: list[Any]) -> None:
        """One collective: the arguments of all ranks."""
        _, _, count, dtype = args[0][:4]
        if name in ("all_reduce", "reduce", "reduce_scatter"):
            size = count * (len(args) if name == "reduce_scatter" else 1)
            total = self.combined([array(a[0], size, dtype) for a in args], args[0][4], dtype)
        for rank, a in enumerate(args):
            if name == "all_reduce" or (name == "reduce" and rank == a[5]):
                array(a[1], count, dtype)[:] = total
            elif name == "reduce_scatter":
                array(a[1], count, dtype)[:] = total[rank * count :][:count]
            elif name == "broadcast":
                source = args[a[4]] if a[4] < len(args) else a
                array(a[1], count, dtype)[:] = array(source[0], count, dtype)
            elif name == "all_gather":
                target = array(a[1], count * len(args), dtype)
                target[:] = np.concatenate([array(b[0], count, dtype).copy() for b in args])

    def combined(self, arrays: list[Any], op: int, dtype: int) -> Any:
        """The combination of arrays."""
        if NAMES[dtype] == "bfloat16":
            arrays = [(a.astype("u4") << 16).view("f4") for a in arrays]
        total = COMBINE[op].reduce(arrays)
        total = total / np.float32(len(arrays)) if op == 4 else total
        return (total.view("u4") >> 16).astype("u2") if NAMES[dtype] == "bfloat16" else total


def array(pointer: int, count: int, dtype: int) -> Any:
    """Elements of the fake device."""
    name = NAMES[dtype]
    kind = {"bfloat16": "u2", "float8_e4m3fn": "u1", "float8_e5m2": "u1"}.get(name, name)
    kept = (ctypes.c_ubyte * (count * np.dtype(kind).itemsize)).from_address(pointer)
    return np.frombuffer(kept, dtype=kind)
