"""What operators do with quantized tensors.

Takes: calls that the core hands over because an argument is quantized. Gives: results. Keeps true: an operator that
only
moves or compares elements runs on the integers and keeps the quantizer; one whose result lies in the same range of
numbers runs on the numbers and is quantized again by the same quantizer; questions run on the numbers; a composite
runs through; anything else raises as PyTorch does. Nothing becomes a float without being asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.conv import pool
from facula.ops.table.registry import F, operator
from facula.ops.view import memory_order
from facula.quantization.create import integers_of, numbers
from facula.quantization.tensor import (
    PER_CHANNEL,
    QuantizedTensor,
    Quantizer,
    like,
    per_tensor_affine,
    wrap,
)

Tensor = core.Tensor

#: operators whose results lie in a range of their own: scale and zero point by the type of the integers (those of 32
#: bits have PyTorch's, with which results above one half are all the largest integer)
_UNIT = {core.quint8: (1 / 256, 0), core.qint8: (1 / 256, -128), core.qint32: (2.0**-32, 0)}
_SIGNED_UNIT = {core.quint8: (2 / 256, 128), core.qint8: (2 / 256, 0), core.qint32: (2.0**-31, 0)}
_OWN_RANGE = {"unit": _UNIT, "signed unit": _SIGNED_UNIT}

RULES: dict[str, Callable[..., Any]] = {}


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: what the named operators do with quantized arguments."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


# ------------------------------------------------------------------ calls


def route(op: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One call of an operator, or of its in-place form."""
    if op.name.startswith(("quantized::", "quantization::", "quantized_decomposed::", "onednn::")):
        return NotImplemented
    bound, out = core.bind_arguments(op, args, kwargs)
    if function is not op:
        return _written(op, bound[0], run(op, bound))
    result = run(op, bound)
    return result if out is None else _written(op, out, result)


def run(op: core.Op, args: tuple[Any, ...]) -> Any:
    """The functional form on arguments in schema order."""
    found = RULES.get(op.name)
    if found is not None:
        return found(*args)
    kind, how = op.definition.kind, op.definition.quantized
    if kind == "view":
        return _view(op, args)
    if how == "moves":
        return _moved(op, args)
    if how == "averages":
        return _averaged(op, args)
    if how:
        own = _OWN_RANGE.get(how)
        scale, zero = own[first_quantized(args)._kind] if own else (0, 0)
        quantizer = Quantizer(per_tensor_affine, scale, zero) if own else None
        return _quantized_again(op, args, quantizer)
    if kind == "pointwise" and op.definition.result == "bool":
        return _called(op, _replaced(args, numbers))
    if kind == "composite":
        return core.run_implementation(op, args)
    return unsupported(op.name, first_quantized(args))


def first_quantized(args: Any) -> Any:
    """The first quantized tensor among arguments and their lists."""
    for a in args:
        for x in a if isinstance(a, (tuple, list)) else (a,):
            if isinstance(x, QuantizedTensor):
                return x
    return None


def unsupported(name: str, tensor: Tensor) -> Any:
    """Raise for an operator that quantized tensors do not have."""
    fail(
        NotImplementedError,
        name,
        f"Could not run 'aten::{name}' with arguments from the 'QuantizedCPU' backend",
        tensor.dtype,
        hint=f"dequantize() first, or see whether facula.ops.quantized has {name}",
    )


def _replaced(args: tuple[Any, ...], change: Callable[[Any], Any]) -> tuple[Any, ...]:
    def changed(a: object) -> Any:
        if isinstance(a, QuantizedTensor):
            return change(a)
        if isinstance(a, (tuple, list)):
            return type(a)(changed(x) for x in a)
        return a

    return tuple(changed(a) for a in args)


def _called(op: core.Op, args: tuple[Any, ...]) -> Any:
    """Call an operator with arguments in schema order."""
    parameters = op.definition.schema.parameters
    positional = sum(not p.keyword_only for p in parameters)
    pairs = zip(parameters, args, strict=True)
    return op(*args[:positional], **{p.name: a for p, a in pairs if p.keyword_only})


def _wrapped(result: object, change: Callable[[Any], Any]) -> Any:
    """A result, or each of several, as the operator gives them."""
    if isinstance(result, Tensor):
        return change(result)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*[_wrapped(r, change) for r in result])
    if isinstance(result, (tuple, list)):
        return type(result)(_wrapped(r, change) for r in result)
    return result


def _written(op: str, target: core.Tensor, result: Tensor) -> Any:
    if target.shape != result.shape:
        target._integers.resize_(result.shape)
        target.resize_(result.shape)
    return target.copy_(result)


# ------------------------------------------------------------------ kinds of operators


def _view(op: Any, args: tuple[Any, ...]) -> Any:
    """A view of the integers."""
    tensor = args[0]
    made = _called(op, (tensor._integers, *args[1:]))
    if tensor._quantizer.scheme not in PER_CHANNEL:
        return _wrapped(made, lambda x: like(tensor, x))
    if isinstance(made, Tensor) and made.shape == tensor.shape and op.name == "view":
        return like(tensor, made)
    return _channels_of(op.name, tensor, made, args[1:])


def _channels_of(name: str, tensor: core.Tensor, made: Tensor, rest: tuple[Any, ...]) -> Any:
    """A part of a tensor with parameters for each channel, with those of its channels."""
    q = tensor._quantizer
    dim = rest[0] % tensor.dim() if rest and isinstance(rest[0], int) else 0
    if name == "select":
        if dim == q.axis:
            at = rest[1]
            return _by_one(tensor, made, q.scale[at].item(), q.zero_point[at].item())
        return tensor._again(made, q._replace(axis=q.axis - (dim < q.axis)))
    if name == "slice":
        if dim != q.axis:
            return tensor._again(made)
        scale, zero = F.slice(q.scale, 0, *rest[1:]), F.slice(q.zero_point, 0, *rest[1:])
        return tensor._again(made, q._replace(scale=scale, zero_point=zero))
    if name == "unsqueeze":
        dim = rest[0] % (tensor.dim() + 1)
        return tensor._again(made, q._replace(axis=q.axis + (dim <= q.axis)))
    if name == "squeeze":
        return tensor._again(made, q._replace(axis=_axis_behind(tensor, q.axis, rest)))
    fail(
        RuntimeError,
        name,
        "Setting strides is possible only on uniformly quantized tensor",
        q.scheme,
        hint="dequantize() first, or quantize again with quantize_per_tensor()",
    )


def _axis_behind(tensor: core.Tensor, axis: int, rest: tuple[Any, ...]) -> int:
    """Where an axis is when dimensions of one place are gone."""
    asked = rest[0] if rest else None
    if asked is None or asked == []:
        asked = range(tensor.dim())
    dims = {d % tensor.dim() for d in ([asked] if isinstance(asked, int) else asked)}
    gone = {d for d in dims if tensor.shape[d] == 1}
    if axis in gone:
        fail(
            RuntimeError,
            "squeeze",
            "Squeeze is only possible on non-axis dimension for Per-Channel Quantized Tensors.",
            f"dimension {axis}, that of the channels",
            hint="name the other dimensions",
        )
    return axis - sum(d < axis for d in gone)


def _by_one(tensor: core.Tensor, integers: Tensor, scale: float, zero: int) -> Any:
    return tensor._again(integers, Quantizer(per_tensor_affine, scale, zero))


def _uniform(name: str, args: tuple[Any, ...]) -> Any:
    """The first quantized argument, which decides how integers stand for numbers."""
    first = first_quantized(args)
    if first._quantizer.scheme in PER_CHANNEL:
        fail(
            RuntimeError,
            name,
            "a tensor quantized as a whole was required",
            first._quantizer.scheme,
            hint="dequantize() first, or quantize with quantize_per_tensor()",
        )
    return first


def _moved(op: Any, args: tuple[Any, ...]) -> Any:
    """Integers that were there, by an operator that has no arithmetic: on float32, which holds them."""
    first = _uniform(op.name, args)
    _no_other_numbers(op, args)
    kept = first._integers.dtype
    work = core.float32 if first._kind is not core.qint32 else core.float64

    def plain(x: core.Tensor) -> Any:
        same = x if x._quantizer == first._quantizer else requantized(x, first)
        return same._integers.to(work)

    made = _called(op, _replaced(args, plain))
    return _wrapped(made, lambda x: like(first, x.to(kept)) if x.dtype is work else x)


def _no_other_numbers(op: Any, args: tuple[Any, ...]) -> None:
    """Numbers beside quantized tensors are none of their integers."""
    for parameter, a in zip(op.definition.schema.parameters, args, strict=True):
        number = parameter.type == "Operand" and isinstance(a, (bool, int, float, complex))
        plain = isinstance(a, Tensor) and not isinstance(a, QuantizedTensor)
        if number or (plain and (parameter.type == "Operand" or a.dtype.is_floating_point)):
            _refuse_plain(op.name, parameter.name, a)


def _refuse_plain(name: str, place: str, given: Any) -> None:
    fail(
        RuntimeError,
        name,
        "quantized tensors beside quantized tensors were required: promoteTypes with quantized numbers is not handled",
        f"{given.dtype if isinstance(given, Tensor) else given} as {place}",
        hint="dequantize() the quantized ones, or quantize_per_tensor() the other",
    )


def requantized(x: Any, other: Any) -> Any:
    """A tensor as another's integers stand for its numbers."""
    return wrap(
        integers_of(numbers(x), other._kind, other._quantizer), other._kind, other._quantizer
    )


def _quantized_again(op: Any, args: tuple[Any, ...], quantizer: Quantizer | None = None) -> Any:
    """The operator on the numbers, and its result as integers."""
    first = _uniform(op.name, args)
    chosen = quantizer or first._quantizer
    made = _called(op, _replaced(args, numbers))
    return _wrapped(made, lambda x: wrap(integers_of(x, first._kind, chosen), first._kind, chosen))


def _averaged(op: core.Op, args: tuple[Any, ...]) -> Any:
    """The operator on the integers that are left when the zero point is taken off."""
    first = _uniform(op.name, args)
    q = first._quantizer
    plain = Quantizer(per_tensor_affine, 1.0, q.zero_point)
    made = _called(op, _replaced(args, lambda x: x._integers.to(core.float32) - q.zero_point))
    return _wrapped(made, lambda x: like(first, integers_of(x, first._kind, plain)))


# ------------------------------------------------------------------ single operators


@operator(
    "quantization::greatest(Tensor self, int[] kernel, int[] stride, int[] padding, int[] dilation, "
    "int[] size) -> Tensor",
    names=(),
    out=False,
    keeps=True,
)
class greatest:
    """The greatest integer of each window of an image with channels last."""

    images = ("self",)

    def meta(self, kernel, stride, padding, dilation, size):
        return memory_order.empty((*self.shape[:2], *size), self, True)

    def cpu(out, self, kernel, stride, padding, dilation, size):
        extents = (1, *self.shape[2:], self.shape[1], 1, *size)
        numbers = (*extents, 1, *kernel, 1, *stride, 0, *padding, 1, *dilation)
        core.kernel(f"quantized_maximum:{out.dtype.code}")(
            (out, memory_order.ordered(self, True)), numbers, (),
            total=self.shape[0] * math.prod(size), grain=64,
        )  # fmt: skip


@rule("_max_pool")
def _max_pool(self: Any, kernel: tuple[Any, ...], stride: tuple[Any, ...], padding: tuple[Any, ...],
    dilation: tuple[Any, ...], ceil_mode: bool,
              index_bytes: int) -> Any:  # fmt: skip
    windows, x = (kernel, stride, padding, dilation), self._integers
    whole = self._quantizer.scheme not in PER_CHANNEL and self._kind is not core.qint32
    # positions of 4 bytes are a gradient's, and integers have none
    if index_bytes == 8 or len(kernel) != 2 or not (whole and memory_order.channels_last(x)):
        return _moved(F._max_pool, (self, *windows, ceil_mode, index_bytes))
    outs = pool.check_windows("max_pool", x, *windows, ceil_mode)
    return like(self, greatest(x, *windows, outs)), core.empty((0,), dtype=core.int32)


@rule("relu")
def _relu(self: Any) -> Any:
    zero = _uniform("relu", (self,))._quantizer.zero_point
    return like(self, self._integers.clamp_min(zero))


def _all_quantized(name: str, tensors: tuple[Any, ...]) -> Any:
    """The first of several tensors to join, none of which is plain."""
    for x in tensors:
        if not isinstance(x, QuantizedTensor):
            _refuse_plain(name, "one of the tensors", x)
    return _uniform(name, (tensors,))


@rule("cat")
def _cat(tensors: tuple[Any, ...], dim: int) -> Any:
    first = _all_quantized("cat", tensors)
    same = [x if x._quantizer == first._quantizer else requantized(x, first) for x in tensors]
    return like(first, F.cat([x._integers for x in same], dim))


@rule("stack")
def _stack(tensors: tuple[Any, ...], dim: int) -> Any:
    first = _all_quantized("stack", tensors)
    same = [x if x._quantizer == first._quantizer else requantized(x, first) for x in tensors]
    return like(first, F.stack([x._integers for x in same], dim))


@rule("split_with_sizes", "split", "unsafe_split", "unsafe_split_with_sizes")
def _split(self: Any, sizes: Any, dim: int = 0) -> Any:
    length = self.shape[dim]
    if isinstance(sizes, int):
        sizes = [min(sizes, length - i) for i in range(0, length, max(sizes, 1))] or [0]
    parts, first = [], 0
    for size in sizes:
        parts.append(F.slice(self, dim, first, first + size, 1))
        first += size
    return tuple(parts)


@rule("chunk", "unsafe_chunk")
def _chunk(self: Any, chunks: int, dim: int = 0) -> Any:
    return _split(self, -(-self.shape[dim] // chunks), dim)


@rule("unbind")
def _unbind(self: Any, dim: int = 0) -> Any:
    return tuple(F.select(self, dim, i) for i in range(self.shape[dim]))


@rule("equal")
def _equal(self: Any, other: Tensor) -> bool:
    if not (isinstance(self, QuantizedTensor) and isinstance(other, QuantizedTensor)):
        return False
    if self._kind is not other._kind or self.shape != other.shape:
        return False
    return same_quantizer(self._quantizer, other._quantizer) and F.equal(
        self._integers, other._integers
    )


def same_quantizer(a: Quantizer, b: Quantizer) -> bool:
    """Whether integers stand for the same numbers by both."""
    if a.scheme is not b.scheme:
        return False
    if a.scheme not in PER_CHANNEL:
        return a == b
    return a.axis == b.axis and F.equal(a.scale, b.scale) and F.equal(a.zero_point, b.zero_point)


def _levels(self: Any, value: Any) -> Any:
    """The integers that stand for numbers in a tensor that is quantized as a whole."""
    if isinstance(value, QuantizedTensor):
        if value._kind is self._kind and value._quantizer == self._quantizer:
            return value._integers
        value = numbers(value)
    elif not isinstance(value, Tensor):
        value = core.tensor(float(value))
    return integers_of(value.to(core.float32), self._kind, self._quantizer)


@rule("masked_fill")
def _masked_fill(self: Any, mask: core.Tensor, value: float) -> Any:
    first = _uniform("masked_fill", (self,))
    return like(first, F.where(mask, _levels(first, value), first._integers))


@rule("index_put")
def _index_put(
    self: Any, indices: object, values: object, accumulate: bool = False, *_: object
) -> Any:
    first = _uniform("index_put", (self,))
    if accumulate:
        unsupported("index_put with accumulate=True", first)
    return like(first, F.index_put(first._integers, indices, _levels(first, values), False))


@rule("index_put_")
def _index_put_into(self: Any, indices: object, values: object, accumulate: bool = False) -> Any:
    return self.copy_(_index_put(self, indices, values, accumulate))


@rule("empty_like", "zeros_like", "new_empty")
def _empty_like(self: Any, *args: object) -> Any:
    return like(self, core.empty(self.shape, dtype=self._integers.dtype))


@rule("expand", "expand_as", "broadcast_to")
def _expand(self: Any, size: object, *rest: object) -> Any:
    return like(self, self._integers.expand(size))


@rule("reshape", "view_as", "reshape_as")
def _reshape(self: QuantizedTensor, shape: Sequence[int]) -> Any:
    shape = shape.shape if isinstance(shape, Tensor) else shape
    made = self._integers.reshape(shape)
    if self._quantizer.scheme in PER_CHANNEL and made.shape != self.shape:
        _channels_of("reshape", self, made, ())
    return like(self, made)


# ------------------------------------------------------------------ methods and subscripts


def route_method(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A method of the core whose tensor, or an argument, is quantized."""
    name = function.__name__.removeprefix("m_")
    target = args[0]
    if isinstance(target, QuantizedTensor):
        own = vars(QuantizedTensor).get(name)
        if own is not None:
            return own(*args, **kwargs)
        return unsupported(name, target)
    if name == "copy_":
        fail(
            RuntimeError,
            "copy_",
            "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use "
            "dequantize to get a float Tensor from a quantized Tensor",
            args[1].dtype,
            hint="use copy_(other.dequantize())",
        )
    return unsupported(name, first_quantized(args))


def assign(self: Any, index: object, value: object) -> None:
    """``self[index] = value``: numbers become integers by the tensor's own parameters."""
    if self._quantizer.scheme in PER_CHANNEL:
        self[index].copy_(value)
        return
    if isinstance(index, QuantizedTensor):
        unsupported("index_put", index)
    self._integers[index] = _levels(self, value)


def subscript(self: Any, index: object) -> Any:
    """``self[index]``: that of the integers; with channels by ints and slices."""
    if self._quantizer.scheme not in PER_CHANNEL:
        if isinstance(index, QuantizedTensor):
            unsupported("index", index)
        return like(self, self._integers[index])
    made, dim = self, 0
    for entry in index if isinstance(index, tuple) else (index,):
        if isinstance(entry, slice):
            made = F.slice(made, dim, entry.start, entry.stop, entry.step or 1)
            dim += 1
        elif isinstance(entry, int):
            made = F.select(made, dim, entry)
        else:
            unsupported("index", self)
    return made
