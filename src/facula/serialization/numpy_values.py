"""NumPy's scalars and arrays in checkpoints.

Takes the names under which NumPy pickles its values; gives makers that build them from bytes.
Keeps true: arrays of objects are not made, an array has exactly the bytes that its shape and dtype
need, and no NumPy function is called with anything but checked values.
"""

import math
import re
from typing import Any

import numpy as np

from facula.core.errors import fail
from facula.serialization.unpickle import Maker, UnpicklingError

__all__ = ["find"]

_KINDS = "biufcSUmMV?"
#: NumPy evaluates other texts, as "(2,3)i4"
_DTYPE = re.compile(r"[<>=|]?[biufcSUmMVO?]\d{0,9}(\[\d{0,9}[a-zA-Z]{1,2}\])?", re.ASCII)


class _Pending:
    """An array or dtype whose state is still to come."""

    def __init__(self, text: str | None = None) -> None:
        self.text = text


def _checked(dtype: object) -> np.dtype:
    if not isinstance(dtype, np.dtype) or dtype.hasobject or dtype.kind not in _KINDS:
        fail(
            UnpicklingError,
            "load",
            "a NumPy dtype of plain values was required",
            got=repr(dtype),
            hint="save the values as tensors, or as arrays of numbers, texts or times",
        )
    return dtype


def _dtype(text: object, align: object = False, copy: object = True) -> np.dtype:
    if not isinstance(text, str) or not _DTYPE.fullmatch(text):
        raise TypeError("a dtype is named by a letter and a size")
    return _checked(np.dtype(text))


def _dtype_state(dtype: Any, state: Any) -> Any:
    """Of a dtype's state the byte order matters, and the unit of times; fields would be lost."""
    order = state[1]
    if order not in ("<", ">", "=", "|"):
        raise ValueError(f"a byte order was required: got {order!r}")
    if any(part is not None for part in state[2:5]):
        raise UnpicklingError(
            f"[load] a NumPy dtype of plain values was required: got one with fields, {state[3]!r}"
            "\nhint: save each field as an array of its own"
        )
    if dtype.kind in "mM" and len(state) > 8:
        unit, count = state[8][1][:2]
        dtype = _dtype(f"{dtype.kind}8[{int(count)}{unit.decode('ascii')}]")
    return dtype if order == "|" else dtype.newbyteorder(order)


def _scalar(dtype: object, data: object) -> Any:
    return np.frombuffer(_bytes(data), _checked(dtype), count=1)[0]


def _bytes(data: Any) -> bytes:
    return data if isinstance(data, bytes) else data.encode("latin1")


def _pending(kind: object, shape: object = None, code: object = None) -> _Pending:
    return _Pending()


def _array_state(pending: Any, state: Any) -> np.ndarray:
    _, shape, dtype, fortran, data = state
    return _array(_bytes(data), _checked(dtype), tuple(shape), "F" if fortran else "C")


def _array(data: Any, dtype: Any, shape: Any, order: Any) -> np.ndarray:
    """Protocol 5 gives the parts at once, older protocols as a state."""
    dtype = _checked(dtype)
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"an array of shape {shape} needs other than {len(data)} bytes")
    return np.frombuffer(data, dtype).reshape(shape, order=order).copy(order)


_TABLE = {
    "dtype": Maker("numpy.dtype", _dtype, _dtype_state, np.dtype),
    "ndarray": Maker("numpy.ndarray", None, None, np.ndarray),
    "scalar": Maker("numpy.scalar", _scalar),
    "_reconstruct": Maker("numpy._reconstruct", _pending, _array_state),
    "_frombuffer": Maker("numpy._frombuffer", _array),
}
_MODULES = {
    "numpy": ("dtype", "ndarray"),
    "numpy.core.multiarray": ("scalar", "_reconstruct"),
    "numpy._core.multiarray": ("scalar", "_reconstruct"),
    "numpy.core.numeric": ("_frombuffer",),
    "numpy._core.numeric": ("_frombuffer",),
}


def find(module: str, name: str) -> Maker:
    """The maker for one of NumPy's names; KeyError where there is none."""
    if module == "numpy.dtypes" and name.endswith("DType"):
        return Maker(f"numpy.dtypes.{name}", lambda: _checked(getattr(np.dtypes, name)()))
    if name not in _MODULES.get(module, ()):
        raise KeyError(name)
    return _TABLE[name]
