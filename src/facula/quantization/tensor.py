"""Quantized tensors: integers with the scale and the zero point by which they stand for numbers.

Takes: integers and a `Quantizer`. Gives: `QuantizedTensor`, a Tensor on the memory of its integers whose dtype is
`quint8`, `qint8`, `qint32` or `quint4x2`; `wrap`, which makes one, and `like`, which makes one with another's
quantizer.
Keeps true: the core knows the integers only; every call that has a quantized tensor among its arguments goes to
`rules`, by the core's slot for tensors whose class handles their calls.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F

__all__ = [
    "QuantizedTensor",
    "Quantizer",
    "RANGES",
    "integer_dtype",
    "is_quantized_dtype",
    "like",
    "qscheme",
    "wrap",
]


class qscheme:  # noqa: N801 - PyTorch's name
    """How integers stand for numbers: a constant such as `facula.per_tensor_affine`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.__module__ = "facula"  # where pickle finds the constant

    def __repr__(self) -> str:
        return f"{core.DTYPE_PREFIX[0]}.{self.name}"

    def __reduce__(self) -> str:
        return self.name


per_tensor_affine = qscheme("per_tensor_affine")
per_channel_affine = qscheme("per_channel_affine")
per_tensor_symmetric = qscheme("per_tensor_symmetric")
per_channel_symmetric = qscheme("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")

#: the constants by name
SCHEMES = {name: value for name, value in list(globals().items()) if isinstance(value, qscheme)}

quint8, qint8, qint32 = core.quint8, core.qint8, core.qint32
quint4x2, quint2x4 = core.quint4x2, core.quint2x4

#: dtype -> what its elements are kept in, the lowest and the highest of them
RANGES: dict[Any, tuple[Any, int, int]] = {
    quint8: (core.uint8, 0, 255),
    qint8: (core.int8, -128, 127),
    qint32: (core.int32, -(2**31), 2**31 - 1),
    quint4x2: (core.uint8, 0, 15),
    quint2x4: (core.uint8, 0, 3),
}
#: elements in a byte of those that share one
PER_BYTE = {quint4x2: 2, quint2x4: 4}
PER_CHANNEL = (per_channel_affine, per_channel_affine_float_qparams)


class Quantizer(NamedTuple):
    """`scale` and `zero_point` are numbers, or tensors with an element for each place along `axis`."""

    scheme: qscheme
    scale: Any
    zero_point: Any
    axis: int = 0


def is_quantized_dtype(dtype: core.dtype) -> bool:
    """Whether tensors of a dtype are quantized."""
    return dtype in RANGES


def integer_dtype(op: str, dtype: core.dtype) -> Any:
    """The dtype of the integers of a quantized dtype; RuntimeError for another."""
    if not isinstance(dtype, core.dtype) or dtype not in RANGES:
        fail(
            RuntimeError,
            op,
            f"a quantized dtype was required: ScalarType {getattr(dtype, 'type_word', dtype)} is "
            "not supported in new_qtensor",
            dtype,
            hint="facula.quint8, facula.qint8 and facula.qint32 are quantized dtypes",
        )
    return RANGES[dtype][0]


class QuantizedTensor(core.Tensor):
    """A tensor of numbers that are kept as integers: ``(integer - zero_point) * scale``."""

    #: the core hands calls with such tensors over, see `core/tensor/sparse.pxi`
    _is_sparse_tensor = True
    _prints_plain = True
    __torch_function__ = core._disabled_torch_function_impl

    _integers: Any
    _quantizer: Quantizer
    _kind: Any

    @staticmethod
    def _route(op: str, function: core.Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of an operator with a quantized tensor among its arguments."""
        # lazily: the rules import this module
        return import_module("facula.quantization.rules").route(op, function, args, kwargs)

    @staticmethod
    def _route_method(function: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same of a method of the core."""
        # lazily: the rules import this module
        return import_module("facula.quantization.rules").route_method(function, args, kwargs)

    # ---------------------------------------------------------------- parts

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        """The names of the tensors that it is made of, and what else makes it; None: these are tensors, too."""
        whole = self._quantizer.scheme not in PER_CHANNEL
        return ["_integers"], (self._kind, self._quantizer) if whole else None

    @staticmethod
    def __tensor_unflatten__(
        parts: Any, context: Any, size: object, stride: object
    ) -> QuantizedTensor:
        """The tensor of these parts."""
        made: QuantizedTensor = wrap(parts["_integers"], *context)
        return made

    # ---------------------------------------------------------------- metadata

    @property
    def device(self) -> Any:
        """Where the integers are."""
        return self._integers.device

    @property
    def dtype(self) -> Any:
        """`quint8`, `qint8`, `qint32` or `quint4x2`."""
        return self._kind

    is_quantized = property(lambda self: True)

    def is_floating_point(self) -> bool:
        """False: the elements are integers."""
        return False

    def is_complex(self) -> bool:
        """False: the elements are integers."""
        return False

    def is_signed(self) -> bool:
        """Whether the integers may be negative."""
        return self._kind.is_signed

    def element_size(self) -> int:
        """Bytes of an element."""
        return self._integers.element_size()

    def type(self, dtype: core.dtype | None = None, non_blocking: bool = False) -> Any:
        """The name of the tensor type, or the tensor with another dtype."""
        if dtype is not None:
            return self.to(dtype)
        return f"{core.DTYPE_PREFIX[0]}.quantized.{self._kind.type_word}Tensor"

    def qscheme(self) -> qscheme:  # type: ignore[override]
        """How the integers stand for numbers."""
        return self._quantizer.scheme

    def q_scale(self) -> float:  # type: ignore[override]
        """The step between neighbouring integers."""
        return self._per_tensor("q_scale").scale

    def q_zero_point(self) -> int:  # type: ignore[override]
        """The integer that stands for zero."""
        return self._per_tensor("q_zero_point").zero_point

    def q_per_channel_scales(self) -> Any:
        """The scale of each channel."""
        return self._per_channel("q_per_channel_scales").scale

    def q_per_channel_zero_points(self) -> Any:
        """The zero point of each channel."""
        return self._per_channel("q_per_channel_zero_points").zero_point

    def q_per_channel_axis(self) -> int:  # type: ignore[override]
        """The dimension of the channels."""
        return self._per_channel("q_per_channel_axis").axis

    def _per_tensor(self, name: str) -> Quantizer:
        if self._quantizer.scheme in PER_CHANNEL:
            fail(
                RuntimeError,
                name,
                "a tensor quantized as a whole was required: Expected quantizer->qscheme() == "
                "kPerTensorAffine to be true, but got false",
                self._quantizer.scheme,
                hint="q_per_channel_scales() and q_per_channel_zero_points() are its parameters",
            )
        return self._quantizer

    def _per_channel(self, name: str) -> Quantizer:
        if self._quantizer.scheme not in PER_CHANNEL:
            fail(
                RuntimeError,
                name,
                "a tensor quantized by channels was required: Expected quantizer->qscheme() == "
                "kPerChannelAffine || quantizer->qscheme() == kPerChannelAffineFloatQParams to be "
                "true, but got false",
                self._quantizer.scheme,
                hint="q_scale() and q_zero_point() are its parameters",
            )
        return self._quantizer

    # ---------------------------------------------------------------- values

    def int_repr(self) -> Any:
        """The integers, in memory of their own (several in a byte where the dtype says so)."""
        # lazily: it imports this module; the operator, so that traces see one call
        return import_module("facula.quantization.create").int_repr(self)

    def _int_repr(self) -> Any:
        if self._kind in PER_BYTE:
            return _packed(self._integers, PER_BYTE[self._kind])
        return self._integers.clone()

    def dequantize(self) -> Any:
        """The numbers."""
        # lazily: it imports this module; the operator, so that traces see one call
        return import_module("facula.quantization.create").dequantize(self)

    def _stored_integers(self) -> Any:
        """The integers as files have them."""
        return self.int_repr() if self._kind in PER_BYTE else self._integers

    def _parameters(self) -> tuple[Any, ...]:
        """The scheme and its parameters, as files have them."""
        q = self._quantizer
        return tuple(q) if q.scheme in PER_CHANNEL else (q.scheme, q.scale, q.zero_point)

    def item(self) -> Any:
        """The only element as a number."""
        if self.numel() != 1:
            return super().item()
        return self.dequantize().item()

    def tolist(self) -> Any:
        """Raises: PyTorch has no lists of quantized tensors."""
        self._lacks("tolist", "load_scalar: invalid type", RuntimeError)

    def numpy(self, **_: object) -> Any:
        """Raises: NumPy has no such arrays."""
        word = self._kind.type_word
        self._lacks("numpy", f"Got unsupported ScalarType {word}", TypeError)

    def __array__(self, dtype: core.dtype | None = None) -> Any:
        return self.numpy()

    def _lacks(self, op: str, text: str, kind: Any = NotImplementedError) -> Any:
        fail(kind, op, text, self._kind, hint="use dequantize() or int_repr() first")

    def __bool__(self) -> bool:
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    # ---------------------------------------------------------------- copies

    def _again(self, integers: core.Tensor, quantizer: Quantizer | None = None) -> Any:
        return wrap(integers, self._kind, quantizer or self._quantizer)

    def clone(self, *, memory_format: core.memory_format = core.preserve_format) -> Any:
        """A copy."""
        return self._again(self._integers.clone(memory_format=memory_format))

    def contiguous(self, *, memory_format: core.memory_format = core.contiguous_format) -> Any:
        """The tensor with its memory in order."""
        made = self._integers.contiguous(memory_format=memory_format)
        return self if made is self._integers else self._again(made)

    def detach(self) -> Any:
        """The same integers: quantized tensors have no history."""
        return self._again(self._integers.detach())

    data = property(detach, lambda self, other: _assign(self, other))

    def detach_(self) -> Any:
        """The tensor itself: quantized tensors have no history."""
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """The tensor itself; RuntimeError where a gradient is asked for."""
        if requires_grad:
            fail(
                RuntimeError,
                "requires_grad_",
                "only Tensors of floating point and complex dtype can require gradients",
                self._kind,
                hint="fake_quantize_per_tensor_affine() has gradients",
            )
        return self

    def to(self, *args: object, **kwargs: object) -> Any:
        """The tensor on another device, in another order; the numbers for a dtype of numbers."""
        given = [a for a in (*args, *kwargs.values()) if isinstance(a, core.dtype)]
        dtype = given[0] if given else None
        if args and isinstance(args[0], core.Tensor):
            dtype, args = args[0].dtype, (args[0].device, *args[1:])
        if dtype is None or dtype is self._kind:
            rest = [a for a in args if not isinstance(a, core.dtype)]
            kwargs.pop("dtype", None)
            made = self._integers.to(*rest, **kwargs) if rest or kwargs else self._integers
            return self if made is self._integers else self._again(made)
        if is_quantized_dtype(dtype):
            self._lacks("to", f"a dtype of numbers was required: {dtype}", RuntimeError)
        return self.dequantize().to(dtype)

    def float(self, memory_format: core.memory_format | None = None) -> Any:
        """The numbers."""
        return self.dequantize()

    def double(self, memory_format: core.memory_format | None = None) -> Any:
        """The numbers in 64 bits."""
        return self.dequantize().double()

    def half(self, memory_format: core.memory_format | None = None) -> Any:
        """The numbers in 16 bits."""
        return self.dequantize().half()

    def cpu(self, memory_format: core.memory_format | None = None) -> Any:
        """The tensor itself."""
        return self

    def copy_(self, src: core.Tensor, non_blocking: bool = False) -> Any:
        """Take the elements of a quantized tensor with its quantizer, or quantize numbers."""
        if isinstance(src, QuantizedTensor):
            if src._kind is not self._kind or src._quantizer.scheme is not self._quantizer.scheme:
                fail(
                    RuntimeError,
                    "copy_",
                    f"a source of dtype {self._kind} and its scheme was required: Quantized Copy "
                    "only works with same dtype and qscheme",
                    f"{src._kind}, {src._quantizer.scheme}",
                    hint="copy_(src.dequantize()) quantizes again",
                )
            self._integers.copy_(src._integers)
            self._quantizer = src._quantizer
            return self
        made = import_module("facula.quantization.create").integers_of(
            src.expand(self.shape) if src.shape != self.shape else src, self._kind, self._quantizer
        )
        self._integers.copy_(made)
        return self

    def fill_(self, value: Any) -> Any:
        """Set every element to the nearest number there is."""
        return self.copy_(core.tensor(float(value)))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = self.clone()
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol: object) -> Any:
        rest = (self._kind.name, self._quantizer.scheme.name, *self._quantizer[1:])
        return _unpickled, (self._integers.detach(), *rest)

    # ---------------------------------------------------------------- subscripts

    def __getitem__(self, index: Any) -> Any:
        if core.FUNCTION_MODES:
            return _told(QuantizedTensor.__getitem__, (self, index))
        return import_module("facula.quantization.rules").subscript(self, index)

    def __setitem__(self, index: object, value: Any) -> None:
        if core.FUNCTION_MODES:
            _told(QuantizedTensor.__setitem__, (self, index, value))
            return
        value = value if isinstance(value, core.Tensor) else core.tensor(float(value))
        import_module("facula.quantization.rules").assign(self, index, value)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        return import_module("facula.quantization.printing").text(self)


def _told(function: Any, args: tuple[Any, ...]) -> Any:
    """A subscript as the innermost mode has it, which hears of this one and not of that of the integers."""
    mode = core.pop_function_mode()
    try:
        return mode.__torch_function__(function, (QuantizedTensor,), args, {})
    finally:
        core.push_function_mode(mode)


def _unpickled(
    integers: core.Tensor, kind: str, scheme: str, scale: object, zero: object, axis: int
) -> Any:
    quantizer = Quantizer(globals()[scheme], scale, zero, axis)
    return wrap(integers, core.QUANTIZED[kind], quantizer)


def _assign(tensor: QuantizedTensor, other: Any) -> None:
    tensor._integers.data = other._integers
    tensor.set_(other._integers)
    tensor._quantizer = other._quantizer


def _packed(values: Any, count: int) -> Any:
    """Values of few bits, `count` of them in a byte, the first one lowest."""
    flat, bits = values.reshape(-1), 8 // count
    missing = -flat.numel() % count
    if missing:
        flat = F.cat([flat, F.zeros((missing,), dtype=flat.dtype)])
    rows = flat.reshape(-1, count)
    made = rows[:, 0].clone()
    for place in range(1, count):
        made |= rows[:, place] << (bits * place)
    return made


def wrap(integers: core.Tensor, kind: object, quantizer: Quantizer) -> Any:
    """The quantized tensor on the memory of its integers."""
    made = core.Tensor._make_subclass(QuantizedTensor, integers)
    made._integers, made._kind, made._quantizer = integers, kind, quantizer
    return made


def like(tensor: QuantizedTensor, integers: core.Tensor) -> Any:
    """Other integers that stand for numbers as those of `tensor` do."""
    return wrap(integers, tensor._kind, tensor._quantizer)
