"""NCCL as a library of C: its functions, dtypes, operations and errors, by ctypes alone.

Takes: where the library lies, or nothing. Gives: `Library`, whose methods are NCCL's functions; `NCCLError`.
Keeps true: it imports the standard library only, so that it runs by itself; every answer of NCCL is looked
at: what is no success is an `NCCLError` with NCCL's name for it.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Callable, Iterator
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Any

__all__ = [
    "DTYPES",
    "OPERATIONS",
    "PROTOTYPES",
    "Config",
    "Library",
    "NCCLError",
    "UniqueId",
    "find",
]

SUCCESS, REMOTE_ERROR, IN_PROGRESS = 0, 6, 7
_ERRORS = {
    1: "ncclUnhandledCudaError", 2: "ncclSystemError", 3: "ncclInternalError", 4: "ncclInvalidArgument",
    5: "ncclInvalidUsage", 6: "ncclRemoteError", 7: "ncclInProgress", 8: "ncclTimeout",
}  # fmt: skip
#: dtypes by facula's names; what only travels goes as bytes
DTYPES = {
    "int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6, "float32": 7,
    "float64": 8, "bfloat16": 9, "float8_e4m3fn": 10, "float8_e5m2": 11,
}  # fmt: skip
OPERATIONS = {"SUM": 0, "PRODUCT": 1, "MAX": 2, "MIN": 3, "AVG": 4}
#: the oldest version whose communicators need not be waited for
_OLDEST = 21400
_MAGIC = 0xCAFEBEEF


class NCCLError(RuntimeError):
    """NCCL did not do what it was asked.

    Args:
        call: the function of NCCL
        code: its answer
        text: what NCCL says of it
    """

    def __init__(self, call: str, code: int, text: str = "") -> None:
        self.call, self.code = call, code
        self.name = _ERRORS.get(code, f"error {code}")
        super().__init__(f"{call}: {self.name}" + (f" ({text})" if text else ""))


class UniqueId(ctypes.Structure):
    """What the ranks of a communicator find each other by."""

    _fields_ = [("internal", ctypes.c_ubyte * 128)]


class Config(ctypes.Structure):
    """How a communicator is made: the part of `ncclConfig_t` that all versions since 2.14 have."""

    _fields_ = [
        ("size", c_size_t), ("magic", c_uint), ("version", c_uint), ("blocking", c_int),
    ]  # fmt: skip


_COUNTED = [c_void_p, c_void_p, c_size_t, c_int]
#: the arguments of each function; all answer with a code but the last
PROTOTYPES: dict[str, list[Any]] = {
    "ncclGetVersion": [POINTER(c_int)],
    "ncclGetUniqueId": [POINTER(UniqueId)],
    "ncclCommInitRankConfig": [POINTER(c_void_p), c_int, UniqueId, c_int, POINTER(Config)],
    "ncclCommGetAsyncError": [c_void_p, POINTER(c_int)],
    "ncclCommFinalize": [c_void_p],
    "ncclCommDestroy": [c_void_p],
    "ncclCommAbort": [c_void_p],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
    "ncclAllReduce": [*_COUNTED, c_int, c_void_p, c_void_p],
    "ncclReduce": [*_COUNTED, c_int, c_int, c_void_p, c_void_p],
    "ncclBroadcast": [*_COUNTED, c_int, c_void_p, c_void_p],
    "ncclAllGather": [*_COUNTED, c_void_p, c_void_p],
    "ncclReduceScatter": [*_COUNTED, c_int, c_void_p, c_void_p],
    "ncclSend": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclRecv": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p],
    "ncclGetErrorString": [c_int],
}


def _places() -> Iterator[str]:
    """Where the library may lie: in the wheel of NVIDIA, and where the system looks."""
    try:
        spec = importlib.util.find_spec("nvidia.nccl")
    except ImportError:
        spec = None
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        yield os.path.join(folder, "lib", "libnccl.so.2")
    yield "libnccl.so.2"


def find(path: str | None = None) -> Any:
    """The loaded library.

    Args:
        path: where it lies; None looks for the wheel `nvidia-nccl-cu12` or `-cu13`, then where the system does

    Raises:
        OSError: there is none; the text says where was looked.
    """
    tried = []
    for place in [path] if path else _places():
        try:
            return ctypes.CDLL(place)
        except OSError as error:
            tried.append(str(error))
    raise OSError(
        f"[nccl] libnccl.so.2 was required: got {'; '.join(tried)}\nhint: pip install 'facula[nccl]'"
    )


class Library:
    """NCCL's functions; each raises `NCCLError` where its answer is neither success nor "in progress".

    Args:
        handle: what has the functions as attributes; a loaded library

    Raises:
        OSError: a function is missing, or the version is older than 2.14.
    """

    def __init__(self, handle: Any) -> None:
        self._functions: dict[str, Callable[..., int]] = {}
        for name, arguments in PROTOTYPES.items():
            try:
                function = getattr(handle, name)
            except AttributeError:
                raise OSError(
                    f"[nccl] the function {name} was required of the library: got none\n"
                    f"hint: at least version {_OLDEST} is needed: pip install 'facula[nccl]'"
                ) from None
            function.argtypes = arguments
            function.restype = c_char_p if name == "ncclGetErrorString" else c_int
            self._functions[name] = function
        if self.version() < _OLDEST:
            raise OSError(
                f"[nccl] at least version {_OLDEST} of NCCL was required: got {self.version()}\n"
                "hint: pip install 'facula[nccl]'"
            )

    def call(self, name: str, *args: Any) -> int:
        """Call a function: SUCCESS or IN_PROGRESS."""
        code = int(self._functions[name](*args))
        if code not in (SUCCESS, IN_PROGRESS):
            raise self.error(name, code)
        return code

    def error(self, name: str, code: int) -> NCCLError:
        """The error that an answer is."""
        text: Any = self._functions["ncclGetErrorString"](code)
        return NCCLError(name, code, (text or b"").decode(errors="replace"))

    def version(self) -> int:
        """The version, as 22805 for 2.28.5."""
        found = c_int()
        self.call("ncclGetVersion", ctypes.byref(found))
        return found.value

    def unique(self) -> bytes:
        """What the ranks of a new communicator find each other by; one of them asks for it."""
        made = UniqueId()
        self.call("ncclGetUniqueId", ctypes.byref(made))
        return bytes(made.internal)

    def begin(self, size: int, rank: int, unique: bytes) -> c_void_p:
        """Begin to make a communicator that is not waited for: see `state`."""
        made, told = c_void_p(), UniqueId()
        ctypes.memmove(told.internal, unique, len(told.internal))
        config = Config(ctypes.sizeof(Config), _MAGIC, _OLDEST, 0)
        self.call(
            "ncclCommInitRankConfig", ctypes.byref(made), size, told, rank, ctypes.byref(config)
        )
        return made

    def state(self, communicator: c_void_p) -> int:
        """What became of what a communicator was asked: a code, whatever it is."""
        found = c_int()
        self.call("ncclCommGetAsyncError", communicator, ctypes.byref(found))
        return found.value
