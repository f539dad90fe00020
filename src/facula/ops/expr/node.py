"""Expression nodes: immutable, hash-consed real scalars, and pairs of them for complex numbers.

Takes: primitive names with arguments (nodes, or Python numbers, which adapt to the dtype they meet).
Gives: `Scalar`, `Complex`, leaves, `apply`, `topological_order`, `substitute`.
Keeps true: two nodes with the same meaning are the same object, so identity is equality; every node is real; constants
are stored rounded to their dtype; simplifications never change a bit of an IEEE result.
"""

from __future__ import annotations

import struct
import weakref
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from facula.core.errors import fail

FLOATS = ("f32", "f64")
INTEGERS = ("i32", "i64")
COMPLEX_PARTS = {"c64": "f32", "c128": "f64"}
_PAIRS = {"f32": "c64", "f64": "c128"}
_RANK = {"b8": 0, "i32": 1, "i64": 2, "f32": 3, "f64": 4}

_nodes: weakref.WeakValueDictionary[tuple, Scalar] = weakref.WeakValueDictionary()

Number = bool | int | float | complex
# a Scalar, a Complex or a Python number: which operations are allowed is known when they are built
Value: TypeAlias = Any


class _Operators:
    """Python's operators, shared by real and complex values: each names the primitive that it builds."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __add__(self, other: Value) -> Any:
        return apply("add", self, other)

    def __radd__(self, other: Value) -> Any:
        return apply("add", other, self)

    def __sub__(self, other: Value) -> Any:
        return apply("sub", self, other)

    def __rsub__(self, other: Value) -> Any:
        return apply("sub", other, self)

    def __mul__(self, other: Value) -> Any:
        return apply("mul", self, other)

    def __rmul__(self, other: Value) -> Any:
        return apply("mul", other, self)

    def __truediv__(self, other: Value) -> Any:
        return apply("div", self, other)

    def __rtruediv__(self, other: Value) -> Any:
        return apply("div", other, self)

    def __mod__(self, other: Value) -> Any:
        return apply("remainder", self, other)

    def __pow__(self, other: Value) -> Any:
        return power(self, other)

    def __rpow__(self, other: Value) -> Any:
        return power(other, self)

    def __neg__(self) -> Any:
        return apply("neg", self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return apply("abs", self)

    def __lt__(self, other: Value) -> Any:
        return apply("lt", self, other)

    def __le__(self, other: Value) -> Any:
        return apply("le", self, other)

    def __gt__(self, other: Value) -> Any:
        return apply("gt", self, other)

    def __ge__(self, other: Value) -> Any:
        return apply("ge", self, other)

    def __eq__(self, other: Value) -> Any:
        return apply("eq", self, other)

    def __ne__(self, other: Value) -> Any:
        return apply("ne", self, other)

    def __and__(self, other: Value) -> Any:
        return apply("bitwise_and", self, other)

    def __or__(self, other: Value) -> Any:
        return apply("bitwise_or", self, other)

    def __xor__(self, other: Value) -> Any:
        return apply("bitwise_xor", self, other)

    def __rand__(self, other: Value) -> Any:
        return apply("bitwise_and", other, self)

    def __ror__(self, other: Value) -> Any:
        return apply("bitwise_or", other, self)

    def __rxor__(self, other: Value) -> Any:
        return apply("bitwise_xor", other, self)

    def __invert__(self) -> Any:
        return apply("bitwise_not", self)

    def __lshift__(self, other: Value) -> Any:
        return apply("bitwise_left_shift", self, other)

    def __rshift__(self, other: Value) -> Any:
        return apply("bitwise_right_shift", self, other)

    def __bool__(self) -> bool:
        fail(
            TypeError,
            "scalar",
            "a branch on a value that is known before the kernel runs was required",
            "an expression",
            hint="use where(condition, a, b)",
        )


class Scalar(_Operators):
    """One real value of one element: a leaf, or a primitive applied to nodes.

    `weak` marks a value made of (a choice among) Python numbers and runtime attributes only: it takes the dtype that it
    meets.
    """

    __slots__ = ("op", "args", "dtype", "value", "weak", "__weakref__")

    op: str
    args: tuple[Scalar, ...]
    dtype: str
    value: Any
    weak: bool

    @property
    def is_complex(self) -> bool:
        """False: complex values are pairs (`Complex`)."""
        return False

    @property
    def is_float(self) -> bool:
        """Whether the dtype is a real floating-point one."""
        return self.dtype in FLOATS

    @property
    def is_integer(self) -> bool:
        """Whether the dtype is an integer (bool is none)."""
        return self.dtype in INTEGERS

    @property
    def is_bool(self) -> bool:
        """Whether the dtype is bool."""
        return self.dtype == "b8"

    def __repr__(self) -> str:
        if self.op == "constant":
            return f"{self.value!r}"
        if not self.args:
            return f"{self.op}({self.value})"
        return f"{self.op}({', '.join(map(repr, self.args))})"


class Complex(_Operators):
    """A complex value while tracing: two real expressions of one dtype."""

    __slots__ = ("re", "im")

    def __init__(self, re: Value, im: Value) -> None:
        self.re, self.im = unify(re, im)

    @property
    def dtype(self) -> str:
        """`c64` or `c128`."""
        return _PAIRS[self.re.dtype]

    @property
    def weak(self) -> bool:
        """Whether both parts are made of numbers and runtime attributes only."""
        return self.re.weak and self.im.weak

    is_complex = property(lambda self: True)
    is_float = property(lambda self: False)
    is_integer = property(lambda self: False)
    is_bool = property(lambda self: False)

    def __repr__(self) -> str:
        return f"complex({self.re!r}, {self.im!r})"


def _bits(value: object) -> Any:
    return struct.pack("<d", value) if type(value) is float else (type(value), value)


def node(
    op: str, args: tuple[Scalar, ...], dtype: str, value: object = None, weak: bool = False
) -> Scalar:
    """The one node with this meaning; no coercion, no simplification: `apply` is the usual way."""
    key = (op, tuple(map(id, args)), dtype, _bits(value), weak)
    found = _nodes.get(key)
    if found is None:
        found = object.__new__(Scalar)
        found.op, found.args, found.dtype, found.value, found.weak = op, args, dtype, value, weak
        _nodes[key] = found
    return found


def round_to(value: Any, dtype: str) -> Any:
    """A Python number rounded or wrapped as `dtype` stores it."""
    if dtype == "f64":
        return float(value)
    if dtype == "f32":
        try:
            return struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    if dtype == "b8":
        return bool(value)
    bits = 32 if dtype == "i32" else 64
    wrapped = int(value) & ((1 << bits) - 1)
    return wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped


def constant(value: Any, dtype: str | None = None) -> Scalar:
    """A known value; without a dtype it is weak."""
    if dtype is not None:
        return node("constant", (), dtype, round_to(value, dtype))
    if isinstance(value, bool):
        return node("constant", (), "b8", value, True)
    if isinstance(value, int):
        return node("constant", (), "i64", value, True)
    return node("constant", (), "f64", float(value), True)


def _leaf(op: str, number: int, dtype: str) -> Any:
    leaf = node(op, (), dtype, number)
    if dtype not in COMPLEX_PARTS:
        return leaf
    part = COMPLEX_PARTS[dtype]
    return Complex(node("real", (leaf,), part), node("imag", (leaf,), part))


def input(number: int, dtype: str) -> Any:
    """The element of tensor argument `number` (a pair for complex dtypes)."""
    return _leaf("input", number, dtype)


def result(number: int, dtype: str) -> Any:
    """The element of forward result `number`, in a gradient."""
    return _leaf("result", number, dtype)


def grad(number: int, dtype: str) -> Any:
    """The element of the gradient of forward result `number`."""
    return _leaf("grad", number, dtype)


def tangent_input(number: int, dtype: str) -> Any:
    """The element of the tangent of tensor argument `number`."""
    return _leaf("tangent", number, dtype)


def parameter(name: str, dtype: str = "f64") -> Scalar:
    """A runtime attribute: `f64` or `i64`, taking the dtype of what it is combined with."""
    return node("parameter", (), dtype, name, True)


def lift(value: Value) -> Any:
    """A Python number as a weak constant; nodes pass through."""
    if isinstance(value, (Scalar, Complex)):
        return value
    if isinstance(value, complex):
        return Complex(constant(value.real), constant(value.imag))
    return constant(value)


def cast(value: Value, dtype: str) -> Any:
    """Convert: floats to integers truncate, anything to bool is `!= 0`, complex to real drops the imaginary part."""
    value = lift(value)
    if dtype in COMPLEX_PARTS:
        part = COMPLEX_PARTS[dtype]
        re, im = parts(value)
        return Complex(cast(re, part), cast(im, part))
    if isinstance(value, Complex):
        if dtype == "b8":
            return apply("logical_or", cast(value.re, "b8"), cast(value.im, "b8"))
        return cast(value.re, dtype)
    if value.op == "constant" and not _undefined_cast(value.value, dtype):
        return constant(value.value, dtype)
    if value.dtype == dtype and not value.weak:
        return value
    if value.weak and value.op == "where":
        condition, a, b = value.args
        return node("where", (condition, cast(a, dtype), cast(b, dtype)), dtype)
    return node("cast", (value,), dtype)


def _undefined_cast(value: Any, dtype: str) -> bool:
    return dtype in INTEGERS and isinstance(value, float) and not abs(value) < 2.0**31


def parts(value: Value) -> tuple[Scalar, Scalar]:
    """Real and imaginary part; the imaginary part of a real value is zero."""
    value = lift(value)
    if isinstance(value, Complex):
        return value.re, value.im
    return value, constant(0.0) if value.weak else constant(0, value.dtype)


def unify(*values: Value) -> tuple[Scalar, ...]:
    """Bring real values to one dtype: weak ones adapt, the others are promoted."""
    lifted = [lift(value) for value in values]
    strong = [value.dtype for value in lifted if not value.weak]
    dtype = max(strong or [value.dtype for value in lifted], key=_RANK.__getitem__)
    if strong and dtype not in FLOATS:
        weak = [value.dtype for value in lifted if value.weak]
        if any(kind in FLOATS for kind in weak):
            fail(
                TypeError,
                "scalar",
                f"an integer beside {dtype} was required",
                "a float",
                hint="cast first",
            )
        if dtype == "b8" and "i64" in weak:
            dtype = "i64"
    if strong:
        return tuple(cast(value, dtype) for value in lifted)
    return tuple(_weak_cast(value, dtype) for value in lifted)


def _weak_cast(value: Scalar, dtype: str) -> Scalar:
    if value.dtype == dtype:
        return value
    if value.op == "constant":
        return node("constant", (), dtype, round_to(value.value, dtype), True)
    return node("cast", (value,), dtype, None, True)


# filled by `primitives` and `complex_functions`: name -> builder over real nodes, over complex values
real_builders: dict[str, Callable[..., Any]] = {}
complex_builders: dict[str, Callable[..., Any]] = {}


def apply(name: str, *args: Value) -> Any:
    """Build primitive `name` over the arguments: complex rules where one is complex, folded where all are known."""
    if any(isinstance(arg, (Complex, complex)) for arg in args):
        if name not in complex_builders:
            fail(
                NotImplementedError,
                name,
                "real operands were required",
                "a complex one",
                hint="take the real or the imaginary part, or the absolute value",
            )
        return complex_builders[name](*map(lift, args))
    return real_builders[name](*args)


def power(base: Value, exponent: Value) -> Any:
    """`base ** exponent`; small constant exponents become products, which are exact in the sense
    of pow's last place."""
    base, exponent = lift(base), lift(exponent)
    known = getattr(exponent, "op", None) == "constant" and exponent.value
    if known is False or isinstance(known, bool) or base.weak:
        return apply("pow", base, exponent)
    if known == 2:
        return base * base
    if known == 1:
        return base
    if known == 3:
        return base * base * base
    if known == 0.5 and base.is_float:
        return apply("sqrt", base)
    if known == -1 and not base.is_integer:
        return apply("reciprocal", base)
    return apply("pow", base, exponent)


def flatten(outputs: Iterable[Any]) -> list[Scalar]:
    """The real nodes behind a mixture of scalars and complex pairs."""
    flat: list[Scalar] = []
    for output in outputs:
        flat.extend((output.re, output.im) if isinstance(output, Complex) else (output,))
    return flat


def topological_order(outputs: Iterable[Any]) -> list[Scalar]:
    """Every node that the outputs need, arguments first, each once."""
    order: list[Scalar] = []
    seen: set[int] = set()
    stack: list[Any] = flatten(outputs)[::-1]  # any value does: every such order is one
    while stack:
        current = stack.pop()
        if type(current) is tuple:  # its arguments stand in the order now
            order.append(current[0])
        elif id(current) not in seen:
            seen.add(id(current))
            if current.args:
                stack.append((current,))
                stack.extend(arg for arg in reversed(current.args) if id(arg) not in seen)
            else:
                order.append(current)
    return order


def rebuild(origin: Scalar, args: tuple[Scalar, ...]) -> Scalar:
    """The node of the same primitive over other arguments."""
    if all(new is old for new, old in zip(args, origin.args, strict=True)):
        return origin
    return node(origin.op, args, origin.dtype, origin.value, origin.weak)


def substitute(outputs: tuple[Any, ...], replacement: dict[int, Scalar]) -> tuple[Any, ...]:
    """The outputs with nodes (by id) replaced; what lies below a replaced node is not visited."""
    done: dict[int, Scalar] = dict(replacement)
    for current in topological_order(outputs):
        if id(current) not in done:
            done[id(current)] = rebuild(current, tuple(done[id(arg)] for arg in current.args))
    return tuple(
        Complex(done[id(out.re)], done[id(out.im)]) if isinstance(out, Complex) else done[id(out)]
        for out in outputs
    )
