"""Packaged models in this process, through the C interface (`native/facula_model.h`).

Takes: the path of a package. Gives: `Model`: call it with tensors.
Keeps true: nothing of the package is Python; several threads may call one model; what the runtime
refuses is a `RuntimeError` with its line.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.deploy.native import runtime_library
from facula.deploy.noting import CODES

ABI = 1
_DIMS = 16
_ROOM = 512
#: room for what the runtime says of an error
_Line = ctypes.c_char * _ROOM
_DTYPES = {d.code: d for d in vars(core).values() if isinstance(d, core.dtype)}


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("shape", ctypes.c_int64 * _DIMS),
    ]


class _Description(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("least", ctypes.c_int64 * _DIMS),
        ("most", ctypes.c_int64 * _DIMS),
    ]


@functools.cache
def _runtime(path: str | None = None) -> Any:
    library = ctypes.CDLL(runtime_library() if path is None else path)
    if library.facula_model_abi() != ABI:
        fail(
            RuntimeError,
            "package",
            f"a runtime of ABI {ABI} was required",
            library.facula_model_abi(),
            hint="install facula again",
        )
    pointer: Any = ctypes.c_void_p
    text: Any = ctypes.c_char_p
    count: Any = ctypes.c_size_t
    library.facula_model_open.restype = pointer
    library.facula_model_open.argtypes = [text, text, text, count]
    library.facula_model_open_memory.restype = pointer
    library.facula_model_open_memory.argtypes = [text, count, text, text, count]
    library.facula_model_open_embedded.restype = pointer
    library.facula_model_open_embedded.argtypes = [text, count]
    library.facula_model_close.argtypes = [pointer]
    library.facula_model_variant.restype = text
    library.facula_model_variant.argtypes = [pointer]
    for name in ("inputs", "outputs", "constants"):
        getattr(library, f"facula_model_{name}").argtypes = [pointer]
    describe = [pointer, ctypes.c_int, ctypes.POINTER(_Description)]
    library.facula_model_describe_input.argtypes = describe
    library.facula_model_describe_constant.argtypes = describe
    run = [pointer, pointer, ctypes.c_int, pointer, ctypes.c_int, text, count]
    library.facula_model_run.argtypes = library.facula_model_sizes.argtypes = run
    update = [pointer, text, ctypes.POINTER(_Tensor), text, count]
    library.facula_model_update_constant.argtypes = update
    library.facula_digest.argtypes = [pointer, count, ctypes.c_uint64 * 2]
    return library


def digest_of(content: Any) -> str:
    """The digest of weights, as a manifest has it."""
    words = (ctypes.c_uint64 * 2)()
    buffer = (ctypes.c_char * len(content)).from_buffer_copy(content)
    _runtime().facula_digest(buffer, len(content), words)
    return f"w{words[0]:016x}{words[1]:016x}"


def set_threads(count: int) -> None:
    """How many threads packaged models use."""
    _runtime().facula_model_set_threads(count)


def _said(error: Any) -> None:
    what, _, got = error.value.decode(errors="replace").partition(": got ")
    where, _, required = what.partition(": ")
    fail(
        RuntimeError,
        where or "package",
        required or what,
        got or None,
        hint="facula-run MODEL describes a package: its inputs, sizes and dtypes",
    )


class Model:
    """A packaged model: call it with tensors; gives a tuple of tensors.

    Args:
        path: the package, or a shared library that has one in it; or the bytes of a package.
        kernels: the folder of kernel libraries, for a package without native code of its own.
    """

    def __init__(self, path: str | os.PathLike[str], kernels: str | None = None) -> None:
        self._handle: Any = None
        error = _Line()
        folder = None if kernels is None else os.fsencode(kernels)
        if isinstance(path, bytes):
            self._runtime, self._content = _runtime(), path  # weights are read where they are
            opened = self._runtime.facula_model_open_memory
            handle = opened(path, len(path), folder, error, _ROOM)
        elif os.fspath(path).endswith(".so"):
            self._runtime = _runtime(os.path.abspath(path))
            handle = self._runtime.facula_model_open_embedded(error, _ROOM)
        else:
            self._runtime = _runtime()
            handle = self._runtime.facula_model_open(os.fsencode(path), folder, error, _ROOM)
        if not handle:
            _said(error)
        self._runtime.facula_model_set_threads(core.get_num_threads())
        self._handle = handle
        self._ninputs = self._runtime.facula_model_inputs(handle)
        self._noutputs = self._runtime.facula_model_outputs(handle)
        self._sizes: dict[Any, list[tuple[tuple[int, ...], Any]]] = {}

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._runtime.facula_model_close(self._handle)
            self._handle = None

    @property
    def variant(self) -> str:
        """The native code that was chosen: v2, v3, v4 or neon."""
        return str(self._runtime.facula_model_variant(self._handle).decode())

    def describe(self) -> list[dict[str, Any]]:
        """The inputs: name, dtype, and the least and the greatest size of each dimension."""
        ask = self._runtime.facula_model_describe_input
        return [self._described(ask, k) for k in range(self._ninputs)]

    def constants(self) -> list[dict[str, Any]]:
        """The constants, described like inputs."""
        count = self._runtime.facula_model_constants(self._handle)
        ask = self._runtime.facula_model_describe_constant
        return [self._described(ask, k) for k in range(count)]

    def _described(self, ask: Any, number: int) -> dict[str, Any]:
        found = _Description()
        ask(self._handle, number, ctypes.byref(found))
        dims = range(found.ndim)
        return {
            "name": found.name.decode(),
            "dtype": _DTYPES[CODES[found.dtype]],
            "sizes": [(found.least[d], found.most[d]) for d in dims],
        }

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        given = [_plain(x) for x in inputs]
        count = len(given)
        words = (_Tensor * max(count, 1))()
        for word, x in zip(words, given, strict=False):
            _fill(word, x)
        outputs = self._outputs(words, given)
        results = (_Tensor * max(len(outputs), 1))()
        for word, x in zip(results, outputs, strict=False):
            word.data = x.data_ptr()
        error = _Line()
        run = self._runtime.facula_model_run
        if run(self._handle, words, count, results, len(outputs), error, _ROOM):
            _said(error)
        return tuple(outputs)

    def _outputs(self, words: Any, given: Sequence[Any]) -> list[Any]:
        key = tuple((tuple(x.shape), x.dtype) for x in given)
        known = self._sizes.get(key)
        if known is None:
            results = (_Tensor * max(self._noutputs, 1))()
            error = _Line()
            sizes = self._runtime.facula_model_sizes
            if sizes(self._handle, words, len(given), results, self._noutputs, error, _ROOM):
                _said(error)
            found = results[: self._noutputs]
            known = [(tuple(r.shape[: r.ndim]), _DTYPES[CODES[r.dtype]]) for r in found]
            if len(self._sizes) > 256:
                self._sizes.clear()
            self._sizes[key] = known
        return [core.empty(shape, dtype=dtype) for shape, dtype in known]

    def update_constants(self, values: Mapping[str, Any]) -> None:
        """Other elements for constants, by name; runs that begin later see them."""
        error = _Line()
        for name, value in values.items():
            x = _plain(value.detach())
            word = _Tensor()
            _fill(word, x)
            update = self._runtime.facula_model_update_constant
            if update(self._handle, name.encode(), ctypes.byref(word), error, _ROOM):
                _said(error)


def _plain(x: Any) -> Any:
    is_tensor = isinstance(x, core.Tensor)
    if not is_tensor or x.device.type != "cpu" or x.layout is not core.strided:
        fail(
            TypeError,
            "package",
            "dense tensors on the CPU were required as inputs",
            f"one of {x.layout} on {x.device}" if is_tensor else type(x).__name__,
            hint="facula.as_tensor(value) makes one, x.to_dense() of a sparse one",
        )
    return x.contiguous()


def _fill(word: _Tensor, x: core.Tensor) -> None:
    word.data = x.data_ptr() if x.numel() else None
    word.dtype, word.ndim = CODES.index(x.dtype.code), x.dim()
    word.shape[: x.dim()] = x.shape
