"""Triton's language in NumPy: kernels' texts run as they are written, one program after the other.

Takes: the text of a kernel, its arguments, its grid. Gives: `run`.
Keeps true: what lies under a mask is touched, nothing else; a read or write outside of the memory that the fake
driver gave out is an `AssertionError`; integer quotients round to zero, as on the device.
"""

from __future__ import annotations

import ctypes
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.special

BF16 = np.dtype("u2")  # bfloat16 is kept as float32 between memory and memory


class Kind:
    """A dtype of the language."""

    def __init__(self, name: str, numpy: str, stored: str | None = None) -> None:
        self.name, self.numpy, self.stored = name, np.dtype(numpy), np.dtype(stored or numpy)


KINDS = {
    "float32": Kind("float32", "f4"), "float64": Kind("float64", "f8"), "float16": Kind("float16", "f2"),
    "bfloat16": Kind("bfloat16", "f4", "u2"), "int1": Kind("int1", "?"),
    **{f"int{n}": Kind(f"int{n}", f"i{n // 8}") for n in (8, 16, 32, 64)},
    **{f"uint{n}": Kind(f"uint{n}", f"u{n // 8}") for n in (8, 16, 32, 64)},
}  # fmt: skip
POINTED = {
    "fp32": "float32", "fp64": "float64", "fp16": "float16", "bf16": "bfloat16",
    **{f"i{n}": f"int{n}" for n in (8, 16, 32, 64)}, **{f"u{n}": f"uint{n}" for n in (8, 16, 32, 64)},
}  # fmt: skip


def _raw(x: Any) -> Any:
    return x.data if isinstance(x, Tile) else x


def _like(x: Any, data: Any) -> Any:
    """A Python number as the dtype that it meets."""
    x = _raw(x)
    if isinstance(x, np.ndarray):
        return x
    if isinstance(x, bool):
        return np.asarray(x)
    if (
        isinstance(x, int)
        and data.dtype.kind in "iuf"
        or isinstance(x, float)
        and data.dtype.kind == "f"
    ):
        return np.asarray(x, dtype=data.dtype)
    return np.asarray(x, dtype="f4" if isinstance(x, float) else "i4")


def _quotient(a: Any, b: Any) -> Any:
    a, b = np.broadcast_arrays(a, b)
    safe = np.where(b == 0, 1, b)
    found = np.abs(a) // np.abs(safe)
    return np.where((a < 0) != (safe < 0), -found, found).astype(a.dtype)


class Tile:
    """Values; `bf16` says that they were rounded to bfloat16."""

    def __init__(self, data: Any, bf16: bool = False) -> None:
        self.data, self.bf16 = np.asarray(data), bf16

    @property
    def dtype(self) -> Kind:
        return next(k for k in KINDS.values() if k.numpy == self.data.dtype)

    def _with(self, other: Any, function: Callable[..., Any], swap: bool = False) -> Any:
        if isinstance(other, Pointer):
            return other + self
        b = _like(other, self.data)
        a = self.data
        if a.dtype != b.dtype and a.dtype.kind in "iu" and b.dtype.kind in "iu":
            wide = max(a.dtype, b.dtype, key=lambda d: d.itemsize)
            a, b = a.astype(wide), b.astype(wide)
        with np.errstate(all="ignore"):
            return Tile(function(b, a) if swap else function(a, b))

    def __add__(self, o: Any) -> Any:
        return self._with(o, np.add)  # noqa: E704

    def __radd__(self, o: Any) -> Any:
        return self._with(o, np.add, True)  # noqa: E704

    def __sub__(self, o: Any) -> Any:
        return self._with(o, np.subtract)  # noqa: E704

    def __rsub__(self, o: Any) -> Any:
        return self._with(o, np.subtract, True)  # noqa: E704

    def __mul__(self, o: Any) -> Any:
        return self._with(o, np.multiply)  # noqa: E704

    def __rmul__(self, o: Any) -> Any:
        return self._with(o, np.multiply, True)  # noqa: E704

    def __truediv__(self, o: Any) -> Any:
        return self._with(o, np.true_divide)  # noqa: E704

    def __floordiv__(self, o: Any) -> Any:
        return self._with(o, _quotient)  # noqa: E704

    def __mod__(self, o: Any) -> Any:
        return self._with(o, lambda a, b: (a - b * _quotient(a, b)).astype(a.dtype))  # noqa: E704

    def __and__(self, o: Any) -> Any:
        return self._with(o, np.bitwise_and)  # noqa: E704

    def __or__(self, o: Any) -> Any:
        return self._with(o, np.bitwise_or)  # noqa: E704

    def __xor__(self, o: Any) -> Any:
        return self._with(o, np.bitwise_xor)  # noqa: E704

    def __lshift__(self, o: Any) -> Any:
        return self._with(o, np.left_shift)  # noqa: E704

    def __rshift__(self, o: Any) -> Any:
        return self._with(o, np.right_shift)  # noqa: E704

    def __lt__(self, o: Any) -> Any:
        return self._with(o, np.less)  # noqa: E704

    def __le__(self, o: Any) -> Any:
        return self._with(o, np.less_equal)  # noqa: E704

    def __gt__(self, o: Any) -> Any:
        return self._with(o, np.greater)  # noqa: E704

    def __ge__(self, o: Any) -> Any:
        return self._with(o, np.greater_equal)  # noqa: E704

    def __eq__(self, o: Any) -> Any:
        return self._with(o, np.equal)  # noqa: E704

    def __ne__(self, o: Any) -> Any:
        return self._with(o, np.not_equal)  # noqa: E704

    __hash__ = None  # type: ignore[assignment]

    def __neg__(self) -> Any:
        return Tile(
            np.subtract(np.zeros_like(self.data), self.data)
        )  # no negative zero, as in Triton

    def __invert__(self) -> Any:
        return Tile(np.invert(self.data))

    def __int__(self) -> int:
        return int(self.data)

    __index__ = __int__

    def __getitem__(self, key: Any) -> Any:
        return Tile(self.data[key])

    def to(self, kind: Kind, bitcast: bool = False) -> Any:
        if bitcast:
            return Tile(self.data.view(kind.numpy))
        with np.errstate(all="ignore"):
            if kind.name == "bfloat16":
                return Tile(_from_bf16(_to_bf16(self.data.astype("f4"))), True)
            return Tile(self.data.astype(kind.numpy))


def _to_bf16(x: Any) -> Any:
    bits = np.ascontiguousarray(x, dtype="f4").view("u4")
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("u2")
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


def _from_bf16(x: Any) -> Any:
    return (x.astype("u4") << 16).view("f4")


class Pointer:
    """Addresses of elements."""

    def __init__(self, memory: Any, kind: Kind, address: int, places: Any = 0) -> None:
        self.memory, self.kind, self.address, self.places = (
            memory,
            kind,
            address,
            np.asarray(places),
        )

    def __add__(self, other: Any) -> Any:
        return Pointer(self.memory, self.kind, self.address, self.places + _raw(other))

    def bytes_at(self, mask: Any) -> Any:
        """The memory as an array, and the places in it that the mask leaves."""
        size = self.kind.stored.itemsize
        where = self.places[mask] * size + self.address
        if not where.size:
            return np.zeros(0, self.kind.stored), where
        start, nbytes = self.memory(int(where.min()), int(where.max()) + size)
        held = np.frombuffer((ctypes.c_ubyte * nbytes).from_address(start), dtype="u1")
        offset = (self.address - start) % size
        count = (nbytes - offset) // size
        elements = held[offset : offset + count * size].view(self.kind.stored)
        return elements, (where - start - offset) // size


def _mask(mask: Any, shape: Any) -> Any:
    return np.ones(shape, bool) if mask is None else np.broadcast_to(_raw(mask), shape)


def load(pointer: Pointer, mask: Any = None, other: Any = 0) -> Tile:
    live = _mask(mask, pointer.places.shape)
    elements, places = pointer.bytes_at(live)
    found = np.zeros(pointer.places.shape, pointer.kind.stored)
    found[live] = elements[places]
    return Tile(_from_bf16(found), True) if pointer.kind.name == "bfloat16" else Tile(found)


def store(pointer: Pointer, value: Any, mask: Any = None) -> None:
    live = _mask(mask, pointer.places.shape)
    given = np.broadcast_to(_raw(value), pointer.places.shape)
    given = (
        _to_bf16(given) if pointer.kind.name == "bfloat16" else given.astype(pointer.kind.stored)
    )
    elements, places = pointer.bytes_at(live)
    elements[places] = given[live]


def atomic_add(pointer: Pointer, value: Any, mask: Any = None, sem: str = "") -> None:
    live = _mask(mask, pointer.places.shape)
    given = _raw(value)
    assert given.shape == pointer.places.shape, "an atomic takes a whole tile"
    elements, places = pointer.bytes_at(live)
    np.add.at(elements, places, given[live])


def where(condition: Any, a: Any, b: Any) -> Tile:
    one = a if isinstance(a, Tile) else b
    data = one.data if isinstance(one, Tile) else np.zeros((), "i4")
    return Tile(np.where(_raw(condition), _like(a, data), _like(b, data)))


def reduce(x: Tile, axis: int, join: Callable[..., Any], keep_dims: bool = False) -> Tile:
    data = x.data
    while data.shape[axis] > 1:  # in pairs, as the device does
        half = data.shape[axis] // 2
        with np.errstate(all="ignore"):
            data = join(Tile(data[:, :half]), Tile(data[:, half : 2 * half])).data
    return Tile(data if keep_dims else data[:, 0])


def _float(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Tile:
        kinds = {_raw(a).dtype for a in args}
        assert len(kinds) == 1, f"libdevice.{name} of {kinds}"
        with np.errstate(all="ignore"):
            return Tile(np.asarray(function(*map(_raw, args)), dtype=kinds.pop()))

    return run


_FUNCTIONS = {
    **{n: getattr(np, n) for n in (
        "floor ceil trunc rint fmod copysign nextafter sqrt exp exp2 expm1 log log2 log10 log1p hypot sin cos tan "
        "sinh cosh tanh"
    ).split()},
    "pow": np.power, "rsqrt": lambda x: 1 / np.sqrt(x), "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "atan2": np.arctan2,
    "erf": scipy.special.erf, "erfc": scipy.special.erfc, "erfcx": scipy.special.erfcx,
    "erfinv": scipy.special.erfinv, "normcdfinv": scipy.special.ndtri, "lgamma": scipy.special.gammaln,
    "j0": scipy.special.j0, "j1": scipy.special.j1, "y0": scipy.special.y0, "y1": scipy.special.y1,
    "cyl_bessel_i0": scipy.special.i0, "cyl_bessel_i1": scipy.special.i1,
}  # fmt: skip
libdevice = types.SimpleNamespace(**{n: _float(n, f) for n, f in _FUNCTIONS.items()})


def dot(x: Tile, y: Tile, total: Tile, input_precision: str = "", out_dtype: Any = None) -> Tile:
    assert x.data.dtype == y.data.dtype and x.bf16 == y.bf16
    return Tile(total.data + x.data.astype(total.data.dtype) @ y.data.astype(total.data.dtype))


class Language(types.SimpleNamespace):
    """The module `triton.language`."""

    def __init__(self, place: Sequence[int]) -> None:
        super().__init__(**KINDS)
        self.atomic_add = atomic_add
        self.load, self.store, self.where, self.reduce, self.dot = load, store, where, reduce, dot
        self.constexpr = lambda x=None: x
        self.program_id = lambda axis: Tile(np.int32(place[axis]))
        self.arange = lambda a, b: Tile(np.arange(a, b, dtype="i4"))
        self.full = lambda shape, value, kind: Tile(np.full(shape, value or 0, kind.numpy))
        self.zeros = lambda shape, dtype: Tile(np.zeros(shape, dtype.numpy))
        self.abs = lambda x: Tile(np.abs(_raw(x)))
        self.minimum = lambda a, b: Tile(np.minimum(_raw(a), _raw(b)))
        self.cdiv = lambda a, b: -(-int(a) // int(b))
        self.div_rn = _float("div_rn", np.true_divide)
        self.sqrt_rn = _float("sqrt_rn", np.sqrt)


def whole_range(*bounds: Any) -> Any:
    """`range` over numbers of the device: the loop's variable is one, too."""
    return (Tile(np.int32(k)) for k in range(*map(int, bounds)))


def run(text: str, arguments: dict[str, Any], grid: Sequence[int], memory: Any) -> None:
    """Run all programs of a kernel.

    `arguments` are numbers, and (address, kind) for pointers; `memory(first, behind)` gives the start and size of
    the block that holds these bytes.
    """
    body = "\n".join(line for line in text.splitlines() if not line.startswith(("import", "from")))
    code = compile("from __future__ import annotations\n" + body, "<kernel>", "exec")
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                names = {
                    "triton": types.SimpleNamespace(jit=lambda f: f), "tl": Language((x, y, z)),
                    "libdevice": libdevice, "range": whole_range,
                }  # fmt: skip
                exec(code, names)
                given = {
                    name: Pointer(memory, KINDS[POINTED[v[1]]], v[0]) if isinstance(v, tuple) else v
                    for name, v in arguments.items()
                }
                names["kernel"](**given)
