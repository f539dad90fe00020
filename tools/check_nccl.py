"""Checks the parts of the nccl engine that touch the device, on a machine with one: `python tools/check_nccl.py`.

Takes: a CUDA driver, NCCL (the wheel `nvidia-nccl-cu12` or `-cu13`), NumPy; facula need not be built: the
modules are loaded by their paths. Gives: a table, and exit status 1 where something was wrong.
Keeps true: what a device computed is compared with NumPy's result, and nothing outlives the run.

With one device a communicator has one rank, so sums are of one rank's elements; `--devices=2` and more uses
as many devices, one thread each.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import threading
import time
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent.parent / "src/facula/distributed/nvidia"
SECONDS = 60.0
#: NumPy's dtypes, and those that it does not have, as what is as long
DTYPES = {
    "int8": "i1", "uint8": "u1", "int32": "i4", "uint32": "u4", "int64": "i8", "uint64": "u8",
    "float16": "f2", "float32": "f4", "float64": "f8", "bfloat16": "u2",
    "float8_e4m3fn": "u1", "float8_e5m2": "u1",
}  # fmt: skip
COUNT = 1000
#: bytes of a copy within the device, and how many keep a stream busy for half a second or longer
LARGE, COPIES = 1 << 30, 700


def parts() -> tuple[Any, Any, Any]:
    """The modules of the engine that need nothing of facula; where it is not loaded, packages stand in."""
    if "facula" not in sys.modules:
        for name in ("facula", "facula.distributed", "facula.devices", "facula.devices.cuda"):
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = [str(HERE.parents[2].joinpath(*name.split(".")))]
    names = ("library", "driver", "communicator")
    found = [importlib.import_module(f"facula.distributed.nvidia.{name}") for name in names]
    return found[0], found[1], found[2]


class Table:
    """What was checked, and how it went."""

    def __init__(self) -> None:
        self.failed = 0
        self.lock = threading.Lock()

    def row(self, name: str, good: bool, note: str = "") -> None:
        """Print a line."""
        with self.lock:
            self.failed += not good
            print(f"{'ok  ' if good else 'FAIL'}  {name:44} {note}", flush=True)

    def attempt(self, name: str, run: Callable[[], str]) -> None:
        """Print a line of what a function gives, or raises."""
        began = time.monotonic()
        try:
            note = run()
        except Exception as error:
            self.row(name, False, f"{type(error).__name__}: {error}")
        else:
            self.row(name, True, f"{note}  {1e3 * (time.monotonic() - began):.1f} ms")


class Rank:
    """One device, and its end of a communicator."""

    def __init__(self, modules: Any, table: Table, library: Any, driver: Any, number: int,
                 size: int, unique: bytes) -> None:  # fmt: skip
        self.library_module, self.driver_module, self.module = modules
        self.table, self.library, self.driver = table, library, driver
        self.number, self.size = number, size
        self.made = self.module.Communicator(
            library, driver, number, size, number, unique, time.monotonic() + SECONDS
        )

    def elements(self, kind: str, rank: int, count: int = COUNT) -> np.ndarray:
        """The elements that a rank begins with: small numbers, which every dtype holds."""
        data = (np.arange(count) * 7 + rank) % 5
        return (data if kind[0] != "f" else data - 2).astype(kind)

    def place(self, name: str, data: np.ndarray) -> tuple[Any, Any]:
        """Elements on the device: the memory, and the piece of it."""
        memory = self.driver_module.DeviceMemory(
            self.driver, self.number, data.size, data.dtype.str
        )
        memory.write(data.tobytes())
        piece = self.module.piece_of(memory)
        return memory, self.module.Piece(
            piece.pointer, piece.count, name, piece.width, piece.stream
        )

    def back(self, memory: Any, kind: str) -> np.ndarray:
        """The elements of device memory."""
        return np.frombuffer(memory.read(), dtype=kind)

    def run(self, what: str, begin: Callable[[Any], None], *pieces: Any) -> None:
        """A collective, within its time."""
        self.made.run(what, begin, pieces, time.monotonic() + SECONDS)

    def same(self, got: np.ndarray, want: np.ndarray) -> str:
        """Raise unless arrays are equal."""
        if not np.array_equal(got, want):
            raise AssertionError(f"got {got[:5]}, wanted {want[:5]}")
        return f"{got.size} x {got.dtype}"

    def check(self) -> None:
        """All collectives with all dtypes."""
        for name, kind in DTYPES.items():
            by_numpy = name.startswith(("int", "uint", "float16", "float32", "float64"))
            for op in ("SUM", "PRODUCT", "MAX", "MIN") if by_numpy else ():
                self._attempt(f"all_reduce {op} {name}", partial(self.reduced, name, kind, op))
                self._attempt(f"reduce {op} {name}", partial(self.reduced_to, name, kind, op))
            for what in ("broadcast", "all_gather", "swap"):
                self._attempt(f"{what} {name}", partial(getattr(self, what), name, kind))
            if by_numpy:
                self._attempt(f"reduce_scatter {name}", partial(self.reduce_scatter, name, kind))
        self._attempt("all_reduce SUM bfloat16", self.bfloat16)
        self._attempt("all_reduce AVG float32", self.average)
        self._attempt("100 all_reduce of 4 MB float32", self.speed)
        self._attempt("asynchronous error is none", self.state)

    def _attempt(self, name: str, run: Callable[[], str]) -> None:
        self.table.attempt(f"rank {self.number}: {name}", run)

    def combined(self, kind: str, op: str) -> np.ndarray:
        """What all ranks' elements are together, by NumPy."""
        function = {"SUM": np.add, "PRODUCT": np.multiply, "MAX": np.maximum, "MIN": np.minimum}[op]
        return function.reduce([self.elements(kind, r) for r in range(self.size)]).astype(kind)

    def reduced(self, name: str, kind: str, op: str) -> str:
        """All ranks get the combination."""
        memory, piece = self.place(name, self.elements(kind, self.number))
        self.run("all_reduce", lambda c: c.all_reduce(piece, op), piece)
        got = self.back(memory, kind)
        memory.free()
        return self.same(got, self.combined(kind, op))

    def reduced_to(self, name: str, kind: str, op: str) -> str:
        """The last rank gets the combination."""
        root = self.size - 1
        memory, piece = self.place(name, self.elements(kind, self.number))
        self.run("reduce", lambda c: c.reduce(piece, op, root), piece)
        got = self.back(memory, kind)
        memory.free()
        return self.same(got, self.combined(kind, op)) if self.number == root else "sent"

    def broadcast(self, name: str, kind: str) -> str:
        """All ranks get the last one's elements."""
        root = self.size - 1
        memory, piece = self.place(name, self.elements(kind, self.number))
        self.run("broadcast", lambda c: c.broadcast(piece, root), piece)
        got = self.back(memory, kind)
        memory.free()
        return self.same(got, self.elements(kind, root))

    def all_gather(self, name: str, kind: str) -> str:
        """All ranks get all elements."""
        mine, piece = self.place(name, self.elements(kind, self.number))
        whole, target = self.place(name, np.zeros(COUNT * self.size, kind))
        self.run("all_gather", lambda c: c.all_gather(target, piece), piece)
        got = self.back(whole, kind)
        mine.free()
        whole.free()
        return self.same(got, np.concatenate([self.elements(kind, r) for r in range(self.size)]))

    def reduce_scatter(self, name: str, kind: str) -> str:
        """Each rank gets its part of the sum."""
        count = COUNT * self.size
        whole, piece = self.place(name, self.elements(kind, self.number, count))
        mine, target = self.place(name, np.zeros(COUNT, kind))
        self.run("reduce_scatter", lambda c: c.reduce_scatter(target, piece, "SUM"), piece)
        got = self.back(mine, kind)
        mine.free()
        whole.free()
        total = np.add.reduce([self.elements(kind, r, count) for r in range(self.size)])
        return self.same(got, total[self.number * COUNT :][:COUNT].astype(kind))

    def swap(self, name: str, kind: str) -> str:
        """Each sends to the next one, in a group; with one rank to itself."""
        after, before = (self.number + 1) % self.size, (self.number - 1) % self.size
        mine, piece = self.place(name, self.elements(kind, self.number))
        theirs, target = self.place(name, np.zeros(COUNT, kind))
        self.run("swap", lambda c: c.swap({after: piece}, {before: target}), piece)
        got = self.back(theirs, kind)
        mine.free()
        theirs.free()
        return self.same(got, self.elements(kind, before))

    def bfloat16(self) -> str:
        """Sums of numbers that bfloat16 holds."""
        data = self.elements("f4", self.number)
        memory, piece = self.place("bfloat16", (data.view("u4") >> 16).astype("u2"))
        self.run("all_reduce", lambda c: c.all_reduce(piece, "SUM"), piece)
        got = (self.back(memory, "u2").astype("u4") << 16).view("f4")
        memory.free()
        return self.same(got, self.combined("f4", "SUM"))

    def average(self) -> str:
        """The mean of all ranks."""
        memory, piece = self.place("float32", self.elements("f4", self.number))
        self.run("all_reduce", lambda c: c.all_reduce(piece, "AVG"), piece)
        got = self.back(memory, "f4")
        memory.free()
        return self.same(got, (self.combined("f4", "SUM") / np.float32(self.size)).astype("f4"))

    def speed(self) -> str:
        """Time for each of many."""
        memory, piece = self.place("float32", np.ones(1 << 20, "f4"))
        began = time.monotonic()
        for _ in range(100):
            self.run("all_reduce", lambda c: c.all_reduce(piece, "MAX"), piece)
        each = (time.monotonic() - began) / 100
        got = self.back(memory, "f4")
        memory.free()
        self.same(got, np.ones(1 << 20, "f4"))
        return f"{1e6 * each:.1f} us each, waited for"

    def state(self) -> str:
        """NCCL says that all is well."""
        state = self.library.state(self.made.handle)
        if state:
            raise self.library.error("ncclCommGetAsyncError", state)
        return "ncclSuccess"


def failures(modules: Any, table: Table, library: Any, driver: Any) -> None:
    """Errors as errors: a rank that never comes, wrong arguments, a communicator that was ended."""
    library_module, _, module = modules

    def alone() -> str:
        try:
            unique = library.unique()
            module.Communicator(library, driver, 0, 2, 0, unique, time.monotonic() + 3)
        except TimeoutError as error:
            return type(error).__name__
        raise AssertionError("a communicator of two ranks was made by one")

    def wrong() -> str:
        made = module.Communicator(
            library, driver, 0, 1, 0, library.unique(), time.monotonic() + 60
        )
        try:
            piece = module.Piece(0, 4, "float32", 4)
            made.run("all_reduce", lambda c: c.broadcast(piece, 9), [piece], time.monotonic() + 9)
        except library_module.NCCLError as error:
            if made.handle is None:
                return str(error)
        raise AssertionError("no error, or the communicator was not ended")

    def ended() -> str:
        made = module.Communicator(
            library, driver, 0, 1, 0, library.unique(), time.monotonic() + 60
        )
        made.abort()
        try:
            made.run("all_reduce", lambda c: None, [], time.monotonic() + 9)
        except RuntimeError as error:
            return str(error).partition("\n")[0]
        raise AssertionError("a communicator that was ended ran something")

    late = partial(_late, modules, library, driver)

    def left() -> None:
        raise ConnectionError("rank 1 is away")

    table.attempt("a collective that is late: time-out, abort", partial(late, TimeoutError))
    table.attempt("a rank that left meanwhile: abort", partial(late, ConnectionError, left))
    table.attempt("two ranks on one device: NCCL's error", lambda: _twice(modules, library, driver))
    table.attempt("a rank that does not come: time-out, abort", alone)
    table.attempt("a root that there is not: NCCL's error, abort", wrong)
    table.attempt("a communicator that was aborted", ended)


def _late(modules: Any, library: Any, driver: Any, kind: type[Exception],
          look: Callable[[], None] = lambda: None) -> str:  # fmt: skip
    """A collective behind a stream that is busy for longer than it may take, and one after it."""
    driver_module, module = modules[1:]
    driver.use(0)
    stream = driver.stream()
    source, target = (driver_module.DeviceMemory(driver, 0, LARGE, "|u1") for _ in range(2))
    piece = module.Piece(target.pointer, 4, "float32", 4, stream.value)
    began = 0.0

    def reduced(seconds: float) -> Any:
        unique = library.unique()
        made = module.Communicator(library, driver, 0, 1, 0, unique, time.monotonic() + SECONDS)
        nonlocal began
        began = time.monotonic()
        made.run("all_reduce", lambda c: c.all_reduce(piece, "MAX"), [piece], began + seconds, look)
        return made

    for _ in range(COPIES):
        driver.call("cuMemcpyDtoDAsync_v2", target.pointer, source.pointer, LARGE, stream)
    try:
        reduced(0.1)
    except kind:
        note = f"{kind.__name__} after {time.monotonic() - began:.2f} s"
    else:
        raise AssertionError(f"no {kind.__name__}")
    while not driver.is_done(stream):
        time.sleep(0.01)
    look = lambda: None  # noqa: E731
    reduced(SECONDS).close(time.monotonic() + SECONDS)
    driver.call("cuStreamDestroy_v2", stream)
    source.free()
    target.free()
    return note + ", and the next one ran"


def _twice(modules: Any, library: Any, driver: Any) -> str:
    """NCCL has one rank on each device: the error reaches both ranks while they wait for each other."""
    module, unique = modules[2], library.unique()
    said: dict[int, str] = {}

    def one(number: int) -> None:
        try:
            module.Communicator(library, driver, 0, 2, number, unique, time.monotonic() + SECONDS)
            said[number] = "no error"
        except Exception as error:
            said[number] = f"{type(error).__name__}: {error}"

    threads = [threading.Thread(target=one, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if not all(text.startswith("NCCLError") for text in said.values()):
        raise AssertionError(said)
    return said[0]


def ranks(modules: Any, table: Table, library: Any, driver: Any, size: int) -> None:
    """One rank of a communicator on each of so many devices."""
    unique = library.unique()

    def one(number: int) -> None:
        try:
            rank = Rank(modules, table, library, driver, number, size, unique)
            rank.check()
            table.attempt(f"rank {number}: end in good order", lambda: _closed(rank.made))
        except Exception as error:
            table.row(f"rank {number}", False, f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=one, args=(number,)) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _closed(made: Any) -> str:
    made.close(time.monotonic() + SECONDS)
    return "finalized and destroyed"


def main() -> int:
    """Print the table; gives the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--nccl", help="the path of libnccl.so.2; by default that of the wheel")
    parser.add_argument("--cuda", help="the path of libcuda.so.1")
    options = parser.parse_args()
    table, modules = Table(), parts()
    library_module, driver_module, _ = modules
    try:
        driver = driver_module.Driver(driver_module.find(options.cuda))
        library = library_module.Library(library_module.find(options.nccl))
    except (OSError, RuntimeError) as error:
        print(f"FAIL  {type(error).__name__}: {error}")
        return 1
    table.row(
        "the CUDA driver", driver.count() > 0, f"CUDA {driver.version()}, {driver.count()} devices"
    )
    table.row("the library of NCCL", True, f"version {library.version()}")
    memory = driver_module.DeviceMemory(driver, 0, 4, "<f4")
    held = np.zeros(4)
    table.row("memory of the device is told from the host's",
              driver.device_of(memory.pointer) == 0 and driver.device_of(held.ctypes.data) is None)  # fmt: skip
    memory.free()
    ranks(modules, table, library, driver, options.devices)
    failures(modules, table, library, driver)
    print(f"{table.failed} of the rows failed")
    return int(table.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
