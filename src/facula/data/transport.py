"""Passing batches between processes: structure by a socket, elements by shared memory.

Takes Python objects that hold tensors and arrays, and a socket.  Gives the objects at the other
end, with tensors whose memory is the shared block itself.
Keeps true: one block a message, freed when the last tensor on it is; where no shared memory is to
be had (a full /dev/shm, no room for a file) the elements go through the socket; no name stays
behind in any file system.
"""

from __future__ import annotations

import array
import ctypes
import io
import mmap
import os
import pickle
import socket
import struct
import tempfile
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.namespaces.storage import TypedStorage

_HEADER = struct.Struct(
    "<QQQB"
)  # bytes of the pickle, of the block, in the socket; a descriptor comes along
_SENT_AS_MEMORY = (core.Tensor, core.UntypedStorage, TypedStorage)
_ALIGN = 64
_SMALL = 1 << 14  # below this a block of its own costs more than the copy through the socket


def _memfd(size: int) -> int:
    if not hasattr(os, "memfd_create"):
        fail(
            OSError,
            "DataLoader",
            "a system with anonymous memory files was required",
            hint="num_workers=0 loads without other processes",
        )
    return os.memfd_create("facula-batch", os.MFD_CLOEXEC)


def _shared_directory(size: int) -> int:
    return _unlinked_file("/dev/shm", size)


def _temporary_directory(size: int) -> int:
    return _unlinked_file(tempfile.gettempdir(), size)


def _unlinked_file(directory: str, size: int) -> int:
    descriptor, path = tempfile.mkstemp(prefix="facula-batch-", dir=directory)
    os.unlink(path)
    return descriptor


#: where blocks come from, best first: descriptors of empty files, given the bytes that will be written
BLOCK_SOURCES: list[Callable[[int], int]] = [_memfd, _shared_directory, _temporary_directory]


def _new_block(size: int, pieces: list[tuple[int, Any]]) -> int | None:
    """A descriptor of shared memory that holds these bytes at their places; None where there is no room.

    They are written rather than copied to a map: that takes half the time, since the pages of a map are
    entered one by one, and where room runs out it is an error and not the end of the process.
    """
    for source in BLOCK_SOURCES:
        try:
            descriptor = source(size)
        except OSError:
            continue
        try:
            for place, piece in pieces:
                _write(descriptor, memoryview(piece).cast("B"), place)
            return descriptor
        except OSError:
            os.close(descriptor)
    return None


def _write(descriptor: int, piece: memoryview, place: int) -> None:
    done = 0
    while done < piece.nbytes:  # the system takes 2 GiB at a time
        done += os.pwrite(descriptor, piece[done:], place + done)


class _Packer(ForkingPickler):
    """Pickles with plain tensors taken out."""

    def __init__(self, file: io.BytesIO, buffers: list) -> None:
        super().__init__(file, 5, True, buffers.append)
        # not as memory that lives as long as this process: a worker may end before it is mapped
        self.dispatch_table = {
            kind: reduce
            for kind, reduce in self.dispatch_table.items()
            if not issubclass(kind, _SENT_AS_MEMORY)
        }
        self.tensors: list[Any] = []
        self.numbers: dict[int, int] = {}

    def persistent_id(self, obj: object) -> Any:
        if type(obj) is not core.Tensor or obj.device.type != "cpu":
            return None
        number = self.numbers.get(id(obj))
        if number is None:
            number = self.numbers[id(obj)] = len(self.tensors)
            self.tensors.append(obj)
        return number


class _Unpacker(pickle.Unpickler):
    """Puts tensors back."""

    def __init__(self, file: io.BytesIO, buffers: list, tensors: list) -> None:
        super().__init__(file, buffers=buffers)
        self.tensors = tensors

    def persistent_load(self, pid: Any) -> Any:
        return self.tensors[pid]


def _aligned(n: int) -> int:
    return (n + _ALIGN - 1) // _ALIGN * _ALIGN


def _layout(tensors: list, buffers: list) -> tuple[list, int]:
    """(what each part is and where it goes, bytes in all)."""
    parts: list[tuple] = []
    offset = 0
    for t in tensors:
        nbytes = t.numel() * t.element_size()
        grad = t.requires_grad
        if grad and not t.is_leaf:
            fail(
                RuntimeError,
                "DataLoader",
                (
                    "samples without history were required: Cowardly refusing to serialize "
                    "non-leaf tensor which requires_grad, since autograd does not support "
                    "crossing process boundaries."
                ),
                hint="detach() it",
            )
        parts.append((offset, tuple(t.shape), t.dtype, grad))
        offset += _aligned(nbytes)
    for b in buffers:
        parts.append((offset, b.nbytes, None, False))
        offset += _aligned(b.nbytes)
    return parts, offset


def _fill(memory: bytearray, parts: list, tensors: list, buffers: list) -> None:
    for part, source in zip(parts, tensors + buffers, strict=True):
        offset, shape, dtype, _ = part
        if dtype is None:
            memory[offset : offset + shape] = source
        elif source.numel():
            target = core.frombuffer(memory, dtype=dtype, count=source.numel(), offset=offset)
            target.view(shape).copy_(source.detach())


def _pieces(parts: list, tensors: list, buffers: list) -> list[tuple[int, Any]]:
    """(place, bytes) of everything; tensors that do not lie in a row are copied."""
    pieces: list[tuple[int, Any]] = []
    for part, source in zip(parts, tensors + buffers, strict=True):
        offset, shape, dtype, _ = part
        if dtype is None:
            pieces.append((offset, source))
        elif source.numel():
            plain = source.detach().resolve_conj().resolve_neg().contiguous()
            kind = ctypes.c_char * (plain.numel() * plain.element_size())
            held = kind.from_address(plain.data_ptr())
            held.owner = plain
            pieces.append((offset, held))
    return pieces


def _read(memory: Any, parts: list) -> tuple[list, list]:
    """Tensors and buffers on ``memory``."""
    tensors, buffers = [], []
    for offset, shape, dtype, grad in parts:
        if dtype is None:
            buffers.append(memoryview(memory)[offset : offset + shape])
            continue
        count = 1
        for n in shape:
            count *= n
        if count:
            t = core.frombuffer(memory, dtype=dtype, count=count, offset=offset).view(shape)
        else:
            t = core.empty(shape, dtype=dtype)
        tensors.append(t.requires_grad_() if grad else t)
    return tensors, buffers


def _pack(value: object) -> tuple[bytes, list, list, list, int]:
    file = io.BytesIO()
    out_of_band: list[pickle.PickleBuffer] = []
    packer = _Packer(file, out_of_band)
    packer.dump(value)
    buffers = [b.raw() for b in out_of_band]
    parts, size = _layout(packer.tensors, buffers)
    text = ForkingPickler.dumps(parts, 5)
    head = struct.pack("<Q", len(text)) + bytes(text)
    return head + file.getvalue(), parts, packer.tensors, buffers, size


def send(channel: socket.socket, value: object) -> None:
    """Send one object."""
    text, parts, tensors, buffers, size = _pack(value)
    total = size + len(text)
    if total < _SMALL:
        inline = bytearray(size)
        _fill(inline, parts, tensors, buffers)
        channel.sendall(_HEADER.pack(len(text), size, size, 0) + text + inline)
        return
    # a long pickle goes into the block too, so that the socket never fills up
    start = _aligned(size)
    pieces = [*_pieces(parts, tensors, buffers), (start, text)]
    descriptor = _new_block(start + len(text), pieces)
    if descriptor is None:
        inline = bytearray(size)
        _fill(inline, parts, tensors, buffers)
        channel.sendall(_HEADER.pack(len(text), size, size, 0) + text)
        channel.sendall(inline)
        return
    try:
        _send_descriptor(channel, _HEADER.pack(len(text), size, 0, 1), descriptor)
    finally:
        os.close(descriptor)


def _send_descriptor(channel: socket.socket, data: bytes, descriptor: int) -> None:
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))
    sent = channel.sendmsg([data], [rights])
    if sent < len(data):
        channel.sendall(data[sent:])


def _receive_exactly(channel: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    view = memoryview(data)
    while view:
        got = channel.recv_into(view)
        if got == 0:
            raise EOFError
        view = view[got:]
    return data


def _receive_header(channel: socket.socket) -> tuple[tuple, int | None]:
    space = socket.CMSG_SPACE(array.array("i").itemsize)
    data, ancillary, _, _ = channel.recvmsg(_HEADER.size, space)
    if not data:
        raise EOFError
    descriptor = None
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors = array.array("i")
            descriptors.frombytes(payload[: descriptors.itemsize])
            descriptor = descriptors[0]
    if len(data) < _HEADER.size:
        data += _receive_exactly(channel, _HEADER.size - len(data))
    return _HEADER.unpack(data), descriptor


def receive(channel: socket.socket) -> Any:
    """The next object; EOFError when the other end is closed."""
    (length, size, inline, _), descriptor = _receive_header(channel)
    memory: Any
    if descriptor is None:
        text = _receive_exactly(channel, length)
        memory = _receive_exactly(channel, inline)
    else:
        try:
            memory = mmap.mmap(descriptor, _aligned(size) + length)
        finally:
            os.close(descriptor)
        start = _aligned(size)
        text = bytearray(memory[start : start + length])
    (head,) = struct.unpack_from("<Q", text)
    parts = pickle.loads(memoryview(text)[8 : 8 + head])
    tensors, buffers = _read(memory, parts)
    return _Unpacker(io.BytesIO(memoryview(text)[8 + head :]), buffers, tensors).load()


def channel_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
