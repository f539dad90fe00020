"""Operators that pad: a constant, a reflection, the edge, or the other end.

Takes `pad`, sizes before and after each dimension from the last one backwards (negative ones crop,
for constants); gives
a tensor in the memory order of the input. Keeps true: the transpose of a padding by index is a sum by the same index.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.index import launch
from facula.ops.table import batch_forms
from facula.ops.table.registry import F, composite, operator
from facula.ops.view import memory_order


def _padded_shape(op: str, shape: Sequence[int], pad: tuple[int, ...]) -> list[int]:
    if len(pad) % 2:
        fail(
            RuntimeError,
            op,
            "Padding length must be divisible by 2",
            len(pad),
            hint="give a pair (before, after) for each dimension, the last one first",
        )
    if len(pad) > 2 * len(shape):
        fail(
            RuntimeError,
            op,
            "Padding length should be less than or equal to two times the input dimension",
            f"padding length {len(pad)} and input of dimension {len(shape)}",
            hint=f"give at most {len(shape)} pair(s), the last dimension's first",
        )
    result = list(shape)
    for k in range(len(pad) // 2):
        d = len(shape) - 1 - k
        result[d] += pad[2 * k] + pad[2 * k + 1]
        if result[d] < 0:
            fail(
                RuntimeError,
                op,
                "the result must not have a negative size",
                f"{result[d]} from {shape[d]} with padding {pad[2 * k]} and {pad[2 * k + 1]} in "
                f"dimension {d}",
                hint=f"negative padding cuts: take at most {shape[d]} off dimension {d}",
            )
    return result


@operator(
    "constant_pad_nd(Tensor self, int[] pad, Number value=0) -> Tensor",
    names=("constant_pad_nd",),
    out=False,
    quantized="same range",
)
class constant_pad_nd:
    """Padding with a constant; negative sizes crop."""

    vmap = "whole"

    def meta(self, pad, value):
        shape = _padded_shape("constant_pad_nd", self.shape, pad)
        core.check_number("constant_pad_nd", "value", value, self.dtype)
        return memory_order.empty(shape, self, memory_order.channels_last(self))

    def cpu(out, self, pad, value):
        out.fill_(value)
        inner = out
        for k in range(len(pad) // 2):
            d, before, after = self.dim() - 1 - k, pad[2 * k], pad[2 * k + 1]
            size = self.shape[d] + min(before, 0) + min(after, 0)
            if size <= 0:
                return
            self = self.narrow(d, max(-before, 0), size)
            inner = inner.narrow(d, max(before, 0), size)
        inner.copy_(self)

    def backward(grad, pad):
        return F.constant_pad_nd(grad, [-n for n in pad])

    def samples(S):
        yield (S(3, 4), (1, 2, -1, 1), 2.5), {}


@lru_cache(maxsize=512)
def _table(size: int, before: int, after: int, mode: str) -> Any:
    """Where each element along a padded dimension comes from."""
    places = range(-before, size + after)
    if mode == "replicate":
        source = [min(max(i, 0), size - 1) for i in places]
    elif mode == "circular":
        source = [i % size for i in places]
    else:
        source = [-i if i < 0 else 2 * (size - 1) - i if i >= size else i for i in places]
    return core.tensor(source, dtype=core.int64)


def _plan(
    shape: Sequence[int], pad: tuple[int, ...], mode: str
) -> tuple[Any, list[int], list[int]]:
    """The tables of the last three dimensions, and their sizes after and before padding."""
    sizes = [1] * (3 - len(shape)) + list(shape[-3:])
    pads = list(pad) + [0] * (6 - len(pad))
    tables, results = [], []
    for d in range(3):
        before, after = pads[2 * (2 - d)], pads[2 * (2 - d) + 1]
        tables.append(_table(sizes[d], before, after, mode if before or after else "replicate"))
        results.append(sizes[d] + before + after)
    return F.cat(tables), results, sizes


def _check_index_pad(self: core.Tensor, pad: tuple[int, ...], mode: str) -> list[int]:
    dims = len(pad) // 2
    shape = _padded_shape("pad", self.shape, pad)
    if dims > 3 or self.dim() not in (dims + 1, dims + 2):
        fail(
            NotImplementedError,
            "pad",
            f"padding size {len(pad)} of a {self.dim()}-d tensor is not supported in mode {mode!r}",
            None,
            "sizes 2, 4, 6 go with 2-3, 3-4, 4-5 dimensions",
        )
    for k in range(dims):
        d, ends = self.dim() - 1 - k, pad[2 * k : 2 * k + 2]
        size = self.shape[d]
        limit = {"reflect": size - 1, "circular": size}.get(mode)
        if limit is not None and max(ends) > limit:
            least = "less than the corresponding" if mode == "reflect" else "at most the"
            what = f"{least} input dimension"
            fail(
                RuntimeError,
                "pad",
                f"Padding size should be {what}",
                f"padding {tuple(ends)} at dimension {d} of input {list(self.shape)}",
                hint="mode='replicate' takes padding of any size",
            )
        if (
            size == 0
            or shape[d] < 1
            or (mode != "circular" and self.numel() == 0 and 0 in self.shape[1:])
        ):
            fail(
                RuntimeError,
                "pad",
                f"Expected {dims + 1}D or {dims + 2}D tensor with possibly 0 batch size and other "
                "non-zero dimensions for input",
                f"input {list(self.shape)} padded by {list(pad)}",
                hint="mode='constant' pads empty tensors too",
            )
    return shape


#: what PyTorch calls the operators of these modes
_PADS = {"reflect": "Reflection", "replicate": "Replication", "circular": "Circular"}


@operator(
    "_pad_index(Tensor self, int[] pad, str mode) -> Tensor",
    names=(),
    out=False,
    quantized="moves",
    node=lambda call: f"{_PADS[call.saved['mode']]}Pad{len(call.saved['pad']) // 2}DBackward0",
    file_form="padded",
)
class _pad_index:
    """Padding with values of the tensor itself, in up to three dimensions."""

    vmap = "fold"
    jvp = "linear"

    ties = True

    def meta(self, pad, mode):
        last = mode != "circular" and memory_order.channels_last(self)
        return memory_order.empty(_check_index_pad(self, pad, mode), self, last)

    def cpu(out, self, pad, mode):
        if out.numel() == 0:
            return
        table, results, sizes = _plan(self.shape, pad, mode)
        target = out if out.is_contiguous() else core.empty(out.shape, dtype=out.dtype)
        core.kernel("pad:" + launch.size_code(self.dtype))(
            (target, self.contiguous(), table),
            (*results, *sizes),
            (),
            total=out.numel() // results[2],
            grain=max(1, launch.SERIAL // results[2]),
        )
        if target is not out:
            out.copy_(target)

    def backward(grad, self_shape, pad, mode):
        return F._pad_index_backward(grad, tuple(self_shape), pad, mode)

    def samples(S):
        yield (S(2, 3, 4, 5), (1, 2, 2, 1), "reflect"), {}
        yield (S(2, 3, 5), (2, 3), "circular"), {}
        yield (S(1, 2, 3, 4, 5), (1, 2, 2, 1, 0, 2), "replicate"), {}


@operator(
    "_pad_index_backward(Tensor grad_output, int[] shape, int[] pad, str mode) -> Tensor",
    names=(),
    out=False,
)
class _pad_index_backward:
    """The transpose of `_pad_index`: gradients meet where values were read."""

    vmap = batch_forms.pad_index_backward
    jvp = "linear"

    def meta(grad_output, shape, pad, mode):
        return core.empty(shape, dtype=grad_output.dtype, device=grad_output.device)

    def cpu(out, grad_output, shape, pad, mode):
        if out.numel() == 0:
            return
        work = launch.accumulation_dtype(out.dtype)
        target = out if work is out.dtype else core.empty(shape, dtype=work)
        table, results, sizes = _plan(shape, pad, mode)
        outer = out.numel() // launch.product(sizes)
        grad, summed = grad_output.to(work).contiguous(), target
        kernel = core.kernel(f"pad.sum:{launch.ARITHMETIC[work.code]}")
        worked = kernel.contract.dtypes[0]
        if worked is not work:  # the same bits in another dtype
            grad, summed = grad.view(worked), summed.view(worked)
        kernel(
            (summed, grad, table),
            (*results, *sizes),
            (),
            total=outer,
            grain=max(1, launch.SERIAL // launch.product(results)),
        )
        if target is not out:
            out.copy_(target)

    def backward(grad, pad, mode):
        return F._pad_index(grad, pad, mode)


@composite(
    "_pad_precisely(Tensor self, int[] pad, str mode) -> Tensor",
    names=(),
    out=False,
    autocast="cpu float32",
)
def _pad_precisely(self, pad, mode):
    """`_pad_index` of the modes that autocast computes in float32."""
    return F._pad_index(self, pad, mode)


@composite(
    "pad(Tensor self, int[] pad, str mode='constant', float? value=None) -> Tensor",
    names=("nn.functional.pad",),
    out=False,
)
def pad(self, pad, mode, value):
    """Padding of the last len(pad) / 2 dimensions: constant, reflect, replicate or circular."""
    if len(pad) % 2:
        fail(
            RuntimeError,
            "pad",
            "Padding length must be divisible by 2",
            len(pad),
            hint="give a pair (before, after) for each dimension, the last one first",
        )
    _padded_shape("pad", self.shape, pad)
    if mode == "constant":
        if value is not None and not self.dtype.is_floating_point and not self.dtype.is_complex:
            value = int(value)
        return F.constant_pad_nd(self, pad, 0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        fail(
            NotImplementedError,
            "pad",
            "Unrecognised padding mode",
            mode,
            hint="take 'constant', 'reflect', 'replicate' or 'circular'",
        )
    if value is not None and value != 0:
        fail(
            RuntimeError,
            "pad",
            f'Padding mode "{mode}" doesn\'t take in value argument',
            value,
            hint="value goes with mode='constant'",
        )
    if mode == "circular" and min(pad, default=0) < 0:
        self = F.constant_pad_nd(self, [min(n, 0) for n in pad])
        pad = tuple(max(n, 0) for n in pad)
    precise = mode == "replicate" or (mode == "reflect" and len(pad) < 6)
    return (F._pad_precisely if precise else F._pad_index)(self, pad, mode)
