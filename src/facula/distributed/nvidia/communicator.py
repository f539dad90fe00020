"""Collectives of NCCL on a stream, with deadlines: what an engine needs of a communicator.

Takes: the libraries, a device, who takes part; pieces of device memory. Gives: `Communicator`, `Piece`.
Keeps true: it imports the standard library only; no call waits in NCCL: communicators are made "non-blocking"
and asked until the deadline; an error of NCCL, a rank that is known to be away and a deadline that has passed
all end the communicator (`ncclCommAbort`), which stops the kernels that wait for others; when a collective
returns, its results are there.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from ctypes import c_void_p
from dataclasses import dataclass, field
from typing import Any

from facula.distributed.nvidia.driver import Driver
from facula.distributed.nvidia.library import DTYPES, IN_PROGRESS, OPERATIONS, SUCCESS, Library

__all__ = ["Communicator", "Piece", "piece_of"]

#: looks without a pause, and seconds between later ones, at most
_LOOKS, _SHORT, _LONG = 500, 2e-5, 1e-3
_KINDS = {"f": "float", "i": "int", "u": "uint", "c": "complex", "b": "bool"}


@dataclass(frozen=True)
class Piece:
    """Elements that follow each other in the memory of a device."""

    pointer: int
    count: int
    dtype: str
    width: int
    #: behind what the elements are ready: a stream's handle; None: they are
    stream: int | None = None
    #: of how many dimensions, where there is not one
    dimensions: tuple[int, ...] | None = None
    #: what keeps the memory
    owner: Any = field(default=None, compare=False, repr=False)

    def __getitem__(self, part: slice) -> Piece:
        """Some of them."""
        start, stop, _ = part.indices(self.count)
        at = self.pointer + start * self.width
        return Piece(
            at, max(stop - start, 0), self.dtype, self.width, self.stream, None, self.owner
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the array."""
        return (self.count,) if self.dimensions is None else self.dimensions

    def split(self, sizes: Sequence[int]) -> list[Piece]:
        """Parts of so many rows each."""
        row = self.count // max(self.shape[0], 1)
        edges = [0, *itertools.accumulate(row * size for size in sizes)]
        return [self[a:b] for a, b in itertools.pairwise(edges)]

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.width

    def numel(self) -> int:
        """How many there are."""
        return self.count

    @property
    def nbytes(self) -> int:
        """How many bytes they take."""
        return self.count * self.width

    def moved(self) -> tuple[int, int]:
        """A count and a dtype of NCCL under which the elements travel as they are."""
        if self.dtype in DTYPES:
            return self.count, DTYPES[self.dtype]
        return self.nbytes, DTYPES["uint8"]


def piece_of(array: Any) -> Piece:
    """The elements of an array that has `__cuda_array_interface__`.

    Raises:
        ValueError: they do not follow each other.
    """
    told = array.__cuda_array_interface__
    shape, typestr = tuple(told["shape"]), str(told["typestr"])
    width = int(typestr[2:])
    count, dense = 1, []
    for size in reversed(shape):
        dense.append(count * width)
        count *= size
    strides = told.get("strides")
    if strides is not None and count and tuple(strides) != tuple(reversed(dense)):
        raise ValueError(
            f"[nccl] elements that follow each other were required: got strides {tuple(strides)} of "
            f"shape {shape}\nhint: copy the array first"
        )
    kind = _KINDS.get(typestr[1])
    name = f"{kind}{8 * width}" if kind and kind != "bool" else kind
    return Piece(
        int(told["data"][0]),
        count,
        name or str(array.dtype),
        width,
        told.get("stream"),
        shape,
        array,
    )


class Communicator:
    """One rank's end of a communicator.

    Args:
        library, driver: NCCL and the CUDA driver
        device: the number of this rank's device
        size: how many ranks there are
        rank: which this one is
        unique: what the ranks find each other by, of `Library.unique`
        end: when all ranks must have come, by the monotonic clock
        look: called while this waits; what it raises ends the communicator

    Raises:
        TimeoutError: the others did not come in time.
        NCCLError: NCCL failed.
    """

    def __init__(
        self, library: Library, driver: Driver, device: int, size: int, rank: int, unique: bytes,
        end: float, look: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self.library, self.driver, self.device = library, driver, device
        self.size, self.rank = size, rank
        driver.use(device)
        self.stream = driver.stream()
        try:
            self.handle: c_void_p | None = library.begin(size, rank, unique)
        except BaseException:
            self._drop_stream()
            raise
        self._settle("ncclCommInitRankConfig", end, look)

    # ---------------------------------------------------------------- waiting

    def _wait(
        self, what: str, done: Callable[[], bool], end: float, look: Callable[[], None]
    ) -> None:
        """Wait until something is so; an error, or the deadline, ends the communicator."""
        looks, pause = 0, _SHORT
        try:
            while True:
                assert self.handle is not None, "a communicator that was ended is not used"
                state = self.library.state(self.handle)
                if state not in (SUCCESS, IN_PROGRESS):
                    raise self.library.error(what, state)
                if state == SUCCESS and done():
                    return
                looks += 1
                if looks > _LOOKS:
                    look()
                    time.sleep(pause)
                    pause = min(1.2 * pause, _LONG)
                if time.monotonic() >= end:
                    raise TimeoutError
        except BaseException:
            self.abort()
            raise

    def _settle(self, what: str, end: float, look: Callable[[], None]) -> None:
        """Wait until NCCL has taken what it was asked."""
        self._wait(what, lambda: True, end, look)

    def run(
        self, what: str, begin: Callable[[Communicator], None], pieces: Iterable[Piece], end: float,
        look: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """Run what `begin` asks NCCL for, as one group, behind the streams of the pieces."""
        if self.handle is None:
            raise RuntimeError(
                f"[{what}] a communicator was required: got one that was ended\n"
                "hint: the first error says why"
            )
        self.driver.use(self.device)
        try:
            for other in {piece.stream for piece in pieces} - {None, 0}:
                self.driver.behind(self.stream, other)  # type: ignore[arg-type]
            self.library.call("ncclGroupStart")
            try:
                begin(self)
            finally:
                self.library.call("ncclGroupEnd")
        except BaseException:
            self.abort()
            raise
        self._settle(what, end, look)
        self._wait(what, lambda: self.driver.is_done(self.stream), end, look)

    # ---------------------------------------------------------------- what `begin` asks for

    def all_reduce(self, piece: Piece, op: str) -> None:
        """The combination of all ranks' elements, written to each."""
        self.library.call(
            "ncclAllReduce", piece.pointer, piece.pointer, piece.count, DTYPES[piece.dtype],
            OPERATIONS[op], self.handle, self.stream,
        )  # fmt: skip

    def reduce(self, piece: Piece, op: str, root: int) -> None:
        """The combination of all ranks' elements, written to the root's."""
        self.library.call(
            "ncclReduce", piece.pointer, piece.pointer, piece.count, DTYPES[piece.dtype],
            OPERATIONS[op], root, self.handle, self.stream,
        )  # fmt: skip

    def broadcast(self, piece: Piece, root: int) -> None:
        """The root's elements, written to all."""
        self.library.call(
            "ncclBroadcast", piece.pointer, piece.pointer, *piece.moved(), root, self.handle, self.stream
        )  # fmt: skip

    def all_gather(self, target: Piece, piece: Piece) -> None:
        """All ranks' elements, one behind the other."""
        self.library.call(
            "ncclAllGather", piece.pointer, target.pointer, *piece.moved(), self.handle, self.stream
        )

    def reduce_scatter(self, target: Piece, piece: Piece, op: str) -> None:
        """The combination of all ranks' part r, written to the target of rank r."""
        self.library.call(
            "ncclReduceScatter", piece.pointer, target.pointer, target.count, DTYPES[piece.dtype],
            OPERATIONS[op], self.handle, self.stream,
        )  # fmt: skip

    def swap(self, outs: dict[int, Piece], ins: dict[int, Piece]) -> None:
        """Send to ranks, and take what ranks send; to and from itself as well."""
        for peer, piece in sorted(outs.items()):
            self.library.call(
                "ncclSend", piece.pointer, *piece.moved(), peer, self.handle, self.stream
            )
        for peer, piece in sorted(ins.items()):
            self.library.call(
                "ncclRecv", piece.pointer, *piece.moved(), peer, self.handle, self.stream
            )

    def copy(self, target: Piece, source: Piece) -> None:
        """Copy within the device."""
        if target.pointer != source.pointer and source.nbytes:
            self.driver.call(
                "cuMemcpyDtoDAsync_v2", target.pointer, source.pointer, source.nbytes, self.stream
            )

    # ---------------------------------------------------------------- the end

    def abort(self) -> None:
        """End it at once, with all that runs in it."""
        handle, self.handle = self.handle, None
        if handle is not None:
            with contextlib.suppress(RuntimeError):  # it is broken: nothing more can be said
                self.library.call("ncclCommAbort", handle)
            self._drop_stream()

    def close(self, end: float) -> None:
        """End it in good order: what is under way is finished first, until a deadline."""
        if self.handle is None:
            return
        self.driver.use(self.device)
        self.library.call("ncclCommFinalize", self.handle)
        self._settle("ncclCommFinalize", end, lambda: None)
        handle, self.handle = self.handle, None
        self.library.call("ncclCommDestroy", handle)
        self._drop_stream()

    def _drop_stream(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.driver.call("cuStreamDestroy_v2", self.stream)


def follow(pieces: Sequence[Piece]) -> Piece | None:
    """Pieces that lie one behind the other, and are equally long, as one; None where they do not."""
    first = pieces[0]
    for number, piece in enumerate(pieces):
        at = first.pointer + number * first.nbytes
        if piece.pointer != at or piece.count != first.count or piece.dtype != first.dtype:
            return None
    return Piece(first.pointer, first.count * len(pieces), first.dtype, first.width, first.stream)
