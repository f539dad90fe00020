"""Operators that stand in traces for what is done at once elsewhere.

Takes what the core does without a call: a constant that a program holds, sizes read off a tensor.
Gives operators, so that a trace can name them.
Keeps true: outside of traces nothing calls them, and they give the same numbers.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail, message
from facula.ops.table.registry import F, composite, operator


@operator("lift_fresh_copy(Tensor self) -> Tensor", names=(), inplace=False)
class lift_fresh_copy:
    """A new tensor with the elements of one that a program holds: what `tensor(data)` gives."""

    def meta(self: Any) -> Any:
        return core.empty_like(self)

    def cpu(out: core.Tensor, self: Any) -> None:
        out.copy_(self)

    def backward(grad: core.Tensor) -> Any:
        return grad

    def samples(S: Any) -> Any:
        yield (S(3, 4),), {}


@composite("sym_size(Tensor self, int dim) -> int", names=(), out=False, overload="int")
def sym_size(self, dim):
    """The size of a tensor along a dimension, as a number of the trace."""
    return self.shape[dim]


@composite("sym_stride(Tensor self, int dim) -> int", names=(), out=False, overload="int")
def sym_stride(self, dim):
    """The stride of a tensor along a dimension, as a number of the trace."""
    return self.stride()[dim]


@composite("sym_numel(Tensor self) -> int", names=(), out=False)
def sym_numel(self):
    """The number of elements, as a number of the trace."""
    return self.numel()


@composite("sym_storage_offset(Tensor self) -> int", names=(), out=False)
def sym_storage_offset(self):
    """The place of the first element in the storage, as a number of the trace."""
    return self.storage_offset()


def _said(text: str | None) -> str:
    """What a failed check says: the program's own words, if it has some."""
    required = "a number that is not zero was required"
    return text or message("_assert_scalar", required, hint="pass a message")


@composite("is_nonzero(Tensor self) -> bool", names=(), out=False)
def is_nonzero(self):
    """Whether the only element of a tensor is not zero."""
    if self.numel() != 1:
        several = "more than one value" if self.numel() else "no values"
        fail(RuntimeError, "is_nonzero", f"one element was required (Boolean value of Tensor with {several} is "
             "ambiguous)", tuple(self.shape), hint="use input.any() or input.all()")  # fmt: skip
    return self.item() != 0


@composite("_assert_scalar(any self, str assert_msg) -> ()", names=(), out=False)
def _assert_scalar(self, assert_msg):
    """Raise RuntimeError where a number, or a condition on numbers, is false."""
    expect = getattr(self, "expect", None)
    fulfilled = self if expect is None else expect(assert_msg)  # of another trace
    if not fulfilled:
        failed = RuntimeError(_said(assert_msg))
        raise failed


@operator(
    "_assert_async(Tensor self, str? assert_msg=None) -> ()", names=(), out=False, inplace=False,
    overload="assert_msg=msg",
)  # fmt: skip
class _assert_async:
    """Raise RuntimeError where the only element of a tensor is zero."""

    keeps = False

    def meta(self: Any, assert_msg: str | None) -> Any:
        if self.numel() != 1:
            fail(RuntimeError, "_assert_async", "a tensor of one element was required (Boolean value of Tensor "
                 "with one value)", tuple(self.shape), hint="use condition.all()")  # fmt: skip
        has_elements = not self.is_meta and getattr(self, "fake_mode", None) is None
        if has_elements and not self.item():
            required = "Expected Tensor with single nonzero value, but got zero"
            raise RuntimeError(
                assert_msg or message("_assert_async", required, hint="pass a message")
            )
        return ()

    def cpu(out: object, self: Any, assert_msg: str | None) -> None:
        """Nothing: there is no result."""

    def samples(S: Any) -> Any:
        yield (S(1) * 0 + 1,), {}

    def errors(S: Any) -> Any:
        yield (S(2),), {}, RuntimeError, "one element"


@composite(
    "sym_constrain_range(any size, *, int? min=None, int? max=None) -> ()",
    names=(),
    out=False,
)
def sym_constrain_range(size, min, max):  # noqa: A002
    """Raise RuntimeError where a number lies outside of a range."""
    if min is not None and max is not None and max < min:
        fail(
            RuntimeError,
            "sym_constrain_range",
            "Max must be greater than or equal to min",
            f"min={min} max={max}",
            hint="exchange the two ends",
        )
    for fits in (min is None or size >= min, max is None or size <= max):
        expect = getattr(fits, "expect", None)
        if not (fits if expect is None else expect()):
            fail(
                RuntimeError,
                "sym_constrain_range",
                f"Invalid value range: a number between [{min}, {max}] was required",
                size,
                hint="the program was made for numbers of this range",
            )


@composite(
    "sym_constrain_range_for_size(any size, *, int? min=None, int? max=None) -> ()",
    names=(),
    out=False,
)
def sym_constrain_range_for_size(size, min, max):  # noqa: A002
    """Raise RuntimeError where a number is no size, or lies outside of a range."""
    if max is not None and max <= 2:
        fail(
            RuntimeError,
            "sym_constrain_range_for_size",
            "Max value to constrain_range_for_size must be greater than 2",
            f"{max}",
            hint="sizes 0 and 1 are no symbols",
        )
    F.sym_constrain_range(size, min=0 if min is None else min, max=max)


@composite("_assert_tensor_metadata(Tensor a, int[]? size=None, int[]? stride=None, dtype? dtype=None, *, "
           "device? device=None, layout? layout=None) -> ()",
           names=("_assert_tensor_metadata",), out=False)  # fmt: skip
def _assert_tensor_metadata(a, size, stride, dtype, device, layout):
    """Raise RuntimeError where a tensor is not what a trace took it for.

    Example:
        >>> facula._assert_tensor_metadata(facula.zeros(2, 3), [2, 3], dtype=facula.float32)
    """
    for word, wanted, found in (
        ("sizes", None if size is None else tuple(size), tuple(a.shape)),
        ("strides", None if stride is None else tuple(stride), tuple(a.stride()) if stride else ()),
        ("dtype", dtype, a.dtype), ("device", device, a.device), ("layout", layout, a.layout),
    ):  # fmt: skip
        if wanted is not None and wanted != found:
            fail(
                RuntimeError,
                "_assert_tensor_metadata",
                f"Tensor {word} mismatch! {wanted} was required",
                found,
                hint="the program was traced for another tensor",
            )
