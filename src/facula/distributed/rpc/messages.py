"""Calls and answers as bytes.

Takes: functions, arguments, values. Gives: bytes, and back.
Keeps true: functions and classes travel by the name under which both sides import them, operators by
theirs, tensors as their elements, which are copied once on each side; a remote reference travels as a fork
that its owner knows of.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.distributed.buffers import host, view_of
from facula.ops.table.registry import own_operators

__all__ = ["HEAD", "pack", "unpack"]

#: bytes that are left free before a message, for what its sender proves
HEAD = 52
_SIZE = struct.Struct("!Q")
Tensor = core.Tensor


class _Pickler(pickle.Pickler):
    """Writes tensors beside the other values."""

    def __init__(self, file: Any, tensors: list[Any], fork: Callable[[Any], Any]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors, self.fork = tensors, fork
        #: tensor -> its place, so that what is sent twice is one tensor there
        self.places: dict[int, int] = {}

    def persistent_id(self, value: object) -> Any:
        """What stands for tensors, operators and remote references."""
        if type(value) is Tensor:  # a parameter is written as its class says, around its elements
            place = self.places.get(id(value))
            if place is None:
                place = self.places[id(value)] = len(self.tensors)
                self.tensors.append(value)
            return ("tensor", place)
        value = core.operator_of(value)
        if isinstance(value, core.Op):
            return ("operator", value.__name__)
        if getattr(value, "_is_remote_reference", False):
            return ("reference", self.fork(value))
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, tensors: list[Any], join: Callable[[Any], Any]) -> None:
        super().__init__(file)
        self.tensors, self.join = tensors, join

    def persistent_load(self, pid: Any) -> Any:
        """The tensor, operator or reference that was sent."""
        kind, what = pid
        if kind == "tensor":
            return self.tensors[what]
        if kind == "operator":
            return own_operators()[what]
        return self.join(what)


def pack(value: object, fork: Callable[[Any], Any]) -> tuple[io.BytesIO, list[Tensor]]:
    """Bytes of a value, behind as many as `HEAD` says, and the tensors in it, in order.

    Args:
        fork: gives what stands for a remote reference.
    """
    buffer = io.BytesIO()
    tensors: list[Any] = []
    try:
        _Pickler(buffer, tensors, fork).dump(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        fail(RuntimeError, "rpc", "functions that the other side imports by name, and values that can "
             "be pickled, were required", str(error),
             "define the function at the top of a module, not inside another one")  # fmt: skip
    body = buffer.getbuffer()
    made = io.BytesIO(bytes(HEAD))
    made.seek(HEAD)
    made.write(_SIZE.pack(len(body)))
    made.write(body)
    for tensor in tensors:
        dense = host(tensor)
        header = json.dumps([str(tensor.dtype), [*tensor.shape], tensor.requires_grad]).encode()
        data = view_of(dense)
        for part in (_SIZE.pack(len(header)), header, _SIZE.pack(data.nbytes), data):
            made.write(part)
    return made, tensors


def unpack(data: Any, join: Callable[[Any], Any]) -> tuple[Any, list[tuple[Tensor, bool]]]:
    """A value, and its tensors with whether the sender's required a gradient."""
    view, at = memoryview(data), 0

    def piece() -> memoryview:
        nonlocal at
        (size,) = _SIZE.unpack_from(view, at)
        at += _SIZE.size
        found = view[at : at + size]
        if len(found) != size:
            fail(ValueError, "rpc", f"{size} bytes were required", len(found),
                 "the message was cut off: look at the other worker's output")  # fmt: skip
        at += size
        return found

    body = piece()
    tensors: list[tuple[Tensor, bool]] = []
    while at < len(view):
        dtype, shape, needs = json.loads(bytes(piece()))
        made = core.empty(tuple(shape), dtype=getattr(core, dtype.rpartition(".")[2]))
        view_of(made)[:] = piece()
        tensors.append((made, needs))
    value = _Unpickler(io.BytesIO(body), [t for t, _ in tensors], join).load()
    return value, tensors
