"""Operators that make tensors: constants, ranges, identities, index sets, and the dtype rules
behind them.

Takes sizes and PyTorch's options (`dtype`, `layout`, `device`, `pin_memory`, `requires_grad`,
`memory_format`); gives new
tensors. Keeps true: without `dtype`, whole numbers give int64, bools give bool, floats the default
dtype; the only layout
is `strided`, and memory is never pinned.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail, told
from facula.ops.sparse_layouts.tensor import nothing
from facula.ops.table.registry import F, composite

OPTIONS = (
    "dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=False, "
    "bool? requires_grad=False"
)
LIKE = OPTIONS + ", memory_format? memory_format=None"


def common_dtype(tensors: Iterable[Any]) -> Any:
    """The promoted dtype: tensors with dimensions decide, 0-d ones only where theirs is of a higher
    kind.
    """
    by_rank: dict[bool, Any] = {}
    for tensor in tensors:
        rank = tensor.dim() > 0
        known = by_rank.get(rank)
        by_rank[rank] = tensor.dtype if known is None else core.promote_types(known, tensor.dtype)
    return combined_dtype(by_rank.get(True), by_rank.get(False))


def combined_dtype(higher: Any, lower: Any) -> Any:
    """`higher` decides unless `lower` is of a higher kind (bool, int, float, complex)."""
    if higher is None or lower is None:
        return lower if higher is None else higher
    if lower.kind <= higher.kind:
        return higher
    if higher.is_floating_point and lower.is_complex:
        return higher.to_complex()
    return core.promote_types(higher, lower)


def number_dtype(value: object) -> Any:
    """The dtype that a Python number gives a new tensor."""
    if isinstance(value, bool):
        return core.bool_
    if isinstance(value, int):
        return core.int64
    if isinstance(value, complex):
        return core.get_default_dtype().to_complex()
    return core.get_default_dtype()


@composite(
    "result_type(Operand tensor1, Operand tensor2) -> any", names=("result_type",), out=False
)
def result_type(tensor1, tensor2):
    """The dtype that arithmetic on two tensors or numbers would give."""
    ranks: list[Any] = [None, None, None]
    for value in (tensor1, tensor2):
        is_tensor = isinstance(value, core.Tensor)
        rank = (0 if value.dim() else 1) if is_tensor else 2
        dtype = value.dtype if is_tensor else number_dtype(value)
        ranks[rank] = dtype if ranks[rank] is None else core.promote_types(ranks[rank], dtype)
    return combined_dtype(combined_dtype(ranks[0], ranks[1]), ranks[2])


def check_size(op: str, size: Sequence[int]) -> None:
    """Raise for negative sizes."""
    if any(n < 0 for n in size):
        fail(
            RuntimeError,
            op,
            "Trying to create tensor with negative dimension",
            list(size),
            hint="0 gives an empty dimension",
        )


def check_layout(op: str, layout: Any) -> None:
    """Raise unless the layout is strided."""
    if layout is not None and layout is not core.strided:
        fail(
            RuntimeError,
            op,
            "the strided layout was required",
            layout,
            "make sparse tensors with to_sparse()",
        )


def is_sparse_layout(layout: Any) -> bool:
    """Whether a layout is one of those that specify some elements only."""
    return layout is not None and layout is not core.strided and layout is not core.jagged


def _without_elements(
    size: Any, dtype: core.dtype, layout: Any, device: Any, requires_grad: Any
) -> Any:
    """A sparse tensor of zeros."""
    dtype = core.get_default_dtype() if dtype is None else dtype
    made = nothing(size, dtype, device, layout, len(size))
    return made.requires_grad_() if requires_grad else made


def strides_of(shape: Sequence[int], order: Sequence[int]) -> list[int]:
    """Dense strides whose dimensions lie in memory in `order`, slowest first."""
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(shape[d], 1)
    return strides


def new_tensor(
    shape: Sequence[int],
    dtype: core.dtype,
    device: Any,
    memory_format: core.memory_format | None = None,
) -> Any:
    """An unset tensor in a memory format."""
    if memory_format in (core.channels_last, core.channels_last_3d):
        rank = 4 if memory_format is core.channels_last else 5
        if len(shape) != rank:
            fail(
                RuntimeError,
                "empty",
                f"required rank {rank} tensor to use {memory_format} format",
                f"{len(shape)} dimensions",
                hint="leave memory_format out, or give facula.contiguous_format",
            )
        strides = strides_of(shape, [0, *range(2, rank), 1])
        return core.empty_strided(shape, strides, dtype=dtype, device=device)
    if memory_format is core.preserve_format:
        fail(
            RuntimeError,
            "empty",
            "a memory format other than preserve_format was required",
            memory_format,
            hint="preserve_format is for functions of a tensor, for example empty_like()",
        )
    return core.empty(shape, dtype=dtype, device=device)


def like(self: core.Tensor, dtype: core.dtype | None, device: Any, memory_format: Any) -> Any:
    """An unset tensor of the shape of `self`, in its memory order unless another format is asked
    for.
    """
    if memory_format is None or memory_format is core.preserve_format:
        return core.empty_like(self, dtype=dtype, device=device)
    return new_tensor(self.shape, dtype or self.dtype, device or self.device, memory_format)


def _unset(tensor: core.Tensor) -> Any:
    """The tensor, whose elements nobody set: filled where the program asked for that."""
    if core.UNSET[0] is not None:
        core.UNSET[0](tensor, 0)
    return tensor


def finished(tensor: core.Tensor, requires_grad: bool | None) -> Any:
    """What a function that makes a tensor gives: no writes counted yet, a leaf if a gradient is wanted."""
    core.forget_writes(tensor)
    return tensor.requires_grad_() if requires_grad else tensor


@composite(
    f"empty(int[]... size, *, {LIKE}) -> Tensor",
    names=("empty",),
    out_cast=True,
    overload="memory_format",
)
def empty(size, dtype, layout, device, pin_memory, requires_grad, memory_format):
    """A tensor of unset elements."""
    if is_sparse_layout(layout):
        return _without_elements(size, dtype, layout, device, requires_grad)
    check_layout("empty", layout)
    check_size("empty", size)
    return finished(_unset(new_tensor(size, dtype, device, memory_format)), requires_grad)


@composite(
    f"empty_strided(int[] size, int[] stride, *, {OPTIONS}) -> Tensor",
    names=("empty_strided",),
    out=False,
)
def empty_strided(size, stride, dtype, layout, device, pin_memory, requires_grad):
    """A tensor of unset elements with the given strides, in elements."""
    check_layout("empty_strided", layout)
    check_size("empty_strided", size)
    made = core.empty_strided(size, stride, dtype=dtype, device=device)
    return finished(_unset(made), requires_grad)


@composite(
    f"empty_permuted(int[] size, int[] physical_layout, *, {OPTIONS}) -> Tensor",
    names=("empty_permuted",),
    out=False,
)
def empty_permuted(size, physical_layout, dtype, layout, device, pin_memory, requires_grad):
    """A dense tensor of unset elements whose dimensions lie in memory in the order
    `physical_layout`.

    Example:
        >>> facula.empty_permuted((2, 3, 4), (0, 2, 1)).stride()
        (12, 1, 3)
    """
    check_size("empty_permuted", size)
    if sorted(physical_layout) != list(range(len(size))):
        fail(
            RuntimeError,
            "empty_permuted",
            f"a permutation of {len(size)} dimensions was required (Number of dimensions in size does "
            "not match the length of the physical_layout)"
            if len(size) != len(physical_layout)
            else f"a permutation of {len(size)} dimensions was required (Dimension out of range, or "
            "named twice)",
            list(physical_layout),
            hint=f"{tuple(range(len(size)))} is the usual layout",
        )
    strides = strides_of(size, physical_layout)
    made = core.empty_strided(size, strides, dtype=dtype, device=device)
    return finished(_unset(made), requires_grad)


def _filled(
    op: str, size: Any, value: Any, dtype: core.dtype, layout: Any, device: Any, requires_grad: Any
) -> Any:
    if value == 0 and is_sparse_layout(layout):
        return _without_elements(size, dtype, layout, device, requires_grad)
    check_layout(op, layout)
    check_size(op, size)
    tensor = core.empty(size, dtype=dtype, device=device)
    nothing = isinstance(value, int) and value == 0  # a float may be -0.0
    return finished(tensor.zero_() if nothing else tensor.fill_(value), requires_grad)


@composite(f"zeros(int[]... size, *, {OPTIONS}) -> Tensor", names=("zeros",), out_cast=True)
def zeros(size, dtype, layout, device, pin_memory, requires_grad):
    """A tensor of zeros."""
    return _filled("zeros", size, 0, dtype, layout, device, requires_grad)


@composite(f"ones(int[]... size, *, {OPTIONS}) -> Tensor", names=("ones",), out_cast=True)
def ones(size, dtype, layout, device, pin_memory, requires_grad):
    """A tensor of ones."""
    return _filled("ones", size, 1, dtype, layout, device, requires_grad)


@composite(
    f"full(int[] size, Number fill_value, *, {OPTIONS}) -> Tensor", names=("full",), out_cast=True
)
def full(size, fill_value, dtype, layout, device, pin_memory, requires_grad):
    """A tensor of one value; its dtype is the value's unless given."""
    dtype = number_dtype(fill_value) if dtype is None else dtype
    return _filled("full", size, fill_value, dtype, layout, device, requires_grad)


@composite(f"scalar_tensor(Number s, *, {OPTIONS}) -> Tensor", names=("scalar_tensor",), out=False)
def scalar_tensor(s, dtype, layout, device, pin_memory, requires_grad):
    """A 0-d tensor of a number, in the default dtype unless given."""
    return _filled("scalar_tensor", (), s, dtype, layout, device, requires_grad)


@composite(
    f"empty_like(Tensor self, *, {LIKE}) -> Tensor",
    names=("empty_like",),
    out=False,
    shards="like",
    elementwise=True,
)
def empty_like(self, dtype, layout, device, pin_memory, requires_grad, memory_format):
    """Unset elements in the shape, dtype and memory order of a tensor."""
    if is_sparse_layout(layout):
        return _without_elements(
            self.shape, dtype or self.dtype, layout, device or self.device, requires_grad
        )
    check_layout("empty_like", layout)
    return finished(_unset(like(self, dtype, device, memory_format)), requires_grad)


@composite(
    f"zeros_like(Tensor self, *, {LIKE}) -> Tensor",
    names=("zeros_like",),
    shards="like",
    elementwise=True,
)
def zeros_like(self, dtype, layout, device, pin_memory, requires_grad, memory_format):
    """Zeros in the shape, dtype and memory order of a tensor."""
    if is_sparse_layout(layout):
        return _without_elements(
            self.shape, dtype or self.dtype, layout, device or self.device, requires_grad
        )
    check_layout("zeros_like", layout)
    return finished(like(self, dtype, device, memory_format).zero_(), requires_grad)


@composite(
    f"ones_like(Tensor self, *, {LIKE}) -> Tensor",
    names=("ones_like",),
    shards="like",
    elementwise=True,
)
def ones_like(self, dtype, layout, device, pin_memory, requires_grad, memory_format):
    """Ones in the shape, dtype and memory order of a tensor."""
    check_layout("ones_like", layout)
    return finished(like(self, dtype, device, memory_format).fill_(1), requires_grad)


@composite(
    f"full_like(Tensor self, Number fill_value, *, {LIKE}) -> Tensor",
    names=("full_like",),
    shards="like",
    elementwise=True,
)
def full_like(self, fill_value, dtype, layout, device, pin_memory, requires_grad, memory_format):
    """One value in the shape, dtype and memory order of a tensor."""
    check_layout("full_like", layout)
    return finished(like(self, dtype, device, memory_format).fill_(fill_value), requires_grad)


def _new(op: str, self: Any, size: Any, value: Any, options: tuple[Any, ...]) -> Any:
    dtype, layout, device, _, requires_grad = options
    if not value and is_sparse_layout(layout):
        return _without_elements(
            size, dtype or self.dtype, layout, device or self.device, requires_grad
        )
    check_layout(op, layout)
    check_size(op, size)
    tensor = core.empty(size, dtype=dtype or self.dtype, device=device or self.device)
    return finished(_unset(tensor) if value is None else tensor.fill_(value), requires_grad)


@composite(
    f"new_empty(Tensor self, int[]... size, *, {OPTIONS}) -> Tensor",
    names=("Tensor.new_empty",),
    out=False,
    vmap="new",
    shards="new",
)
def new_empty(self, size, *options):
    """Unset elements of a given shape in the dtype and on the device of this tensor."""
    return _new("new_empty", self, size, None, options)


@composite(
    f"new_zeros(Tensor self, int[]... size, *, {OPTIONS}) -> Tensor",
    names=("Tensor.new_zeros",),
    out=False,
    vmap="new",
    shards="new",
)
def new_zeros(self, size, *options):
    """Zeros of a given shape in the dtype and on the device of this tensor."""
    return _new("new_zeros", self, size, 0, options)


@composite(
    f"new_ones(Tensor self, int[]... size, *, {OPTIONS}) -> Tensor",
    names=("Tensor.new_ones",),
    out=False,
    vmap="new",
    shards="new",
)
def new_ones(self, size, *options):
    """Ones of a given shape in the dtype and on the device of this tensor."""
    return _new("new_ones", self, size, 1, options)


@composite(
    f"new_full(Tensor self, int[] size, Number fill_value, *, {OPTIONS}) -> Tensor",
    names=("Tensor.new_full",),
    out=False,
    vmap="new",
    shards="new",
)
def new_full(self, size, fill_value, *options):
    """One value in a given shape, in the dtype and on the device of this tensor."""
    return _new("new_full", self, size, fill_value, options)


@composite(
    f"new_empty_strided(Tensor self, int[] size, int[] stride, *, {OPTIONS}) -> Tensor",
    names=("Tensor.new_empty_strided",),
    out=False,
    vmap="new",
)
def new_empty_strided(self, size, stride, dtype, layout, device, pin_memory, requires_grad):
    """Unset elements with given strides in the dtype and on the device of this tensor."""
    check_layout("new_empty_strided", layout)
    tensor = core.empty_strided(
        size, stride, dtype=dtype or self.dtype, device=device or self.device
    )
    return finished(_unset(tensor), requires_grad)


def _whole(*values: object) -> bool:
    return all(isinstance(v, int) for v in values)


def _is_finite(*values: Any) -> bool:
    return all(isinstance(v, int) or math.isfinite(v) for v in values)


def _integer(op: str, value: Any) -> int:
    """A number as an integer of 64 bits, towards zero."""
    if math.isfinite(value) and -(2**63) <= int(value) < 2**63:
        return int(value)
    fail(
        RuntimeError,
        op,
        "a number that fits int64 was required: value cannot be converted to type int64_t without "
        "overflow",
        value,
        hint="dtype=facula.float64 holds it",
    )


def _run_range(
    name: str, tensor: core.Tensor, ints: tuple[int, ...], scalars: tuple[Any, ...], whole: bool
) -> Any:
    """Fill a vector with a range kernel: exact in int64, else computed in float64 and rounded
    once.
    """
    if tensor.is_meta or tensor.numel() == 0:
        return tensor
    code = (
        tensor.dtype.code
        if tensor.dtype.code in ("f32", "f64", "i64")
        else "i64"
        if whole
        else "f64"
    )
    target = tensor
    if code != tensor.dtype.code or tensor.device.type != "cpu":
        wide = {"i64": core.int64, "f32": core.float32}.get(code, core.float64)
        target = core.empty(tensor.shape, dtype=wide, device="cpu")
    cast = int if code == "i64" and name == "arange" else float
    core.kernel(f"{name}:{code}")(
        (target,), ints, tuple(cast(v) for v in scalars), total=target.numel(), grain=32768
    )
    return tensor if target is tensor else tensor.copy_(target)


def _check_range(op: str, start: Any, end: Any, step: Any) -> None:
    """Refuse ranges that never end, and those that go the other way."""
    if step == 0:
        fail(RuntimeError, op, "step must be nonzero", step, hint="step=1 is the default")
    if not _is_finite(start, end):
        fail(
            RuntimeError,
            op,
            "unsupported range: finite ends were required",
            f"{start} -> {end}",
            hint="inf and nan are no ends of a range",
        )
    if step != step:
        fail(
            RuntimeError,
            op,
            "a step that is a number was required",
            step,
            hint="step=1 is the default",
        )
    if (step > 0 and end < start) or (step < 0 and end > start):
        fail(
            RuntimeError,
            op,
            "upper bound and lower bound inconsistent with step sign",
            f"start={start}, end={end}, step={step}",
            hint=f"step={-step} goes from start to end",
        )


def _range_length(op: str, start: Any, end: Any, step: Any, closed: bool) -> int:
    _check_range(op, start, end, step)
    if _whole(start, end, step):
        length = (end - start) // step + 1 if closed else -((start - end) // step)
    elif closed:
        length = int(math.floor((end - start) / step)) + 1
    else:
        length = int(math.ceil((end - start) / step))
    if length >= 2**63:
        fail(
            RuntimeError,
            op,
            "a length below 2**63 was required: invalid size, possible overflow",
            length,
            hint="a larger step gives fewer numbers",
        )
    return length


def _arange(
    op: str, start: Any, end: Any, step: Any, dtype: core.dtype, device: Any, closed: bool
) -> Any:
    if any(isinstance(v, complex) for v in (start, end, step)):
        fail(
            RuntimeError,
            op,
            "real numbers were required",
            (start, end, step),
            hint="give the real parts, z.real",
        )
    if dtype is core.bool_ or (dtype is not None and dtype.is_complex):
        fail(
            NotImplementedError,
            op,
            'a real number dtype was required: "arange_cpu" not implemented',
            dtype,
            hint=f"make the range as numbers, then convert with .to({dtype})",
        )
    if dtype is None:
        dtype = core.int64 if _whole(start, end, step) and not closed else core.get_default_dtype()
    rounded = not dtype.is_floating_point and not _whole(start, end, step)
    narrow = rounded and not closed and dtype is not core.int64
    if narrow:  # PyTorch counts these before it rounds the ends
        length = _range_length(op, start, end, step, closed)
    elif rounded and step and not _integer(op, step):
        fail(
            ValueError,
            op,
            "step must be nonzero in the range's dtype",
            f"{step} for {dtype}",
            hint="leave dtype out, or give a floating-point one",
        )
    if rounded:
        start, end, step = (_integer(op, v) for v in (start, end, step))
    if not narrow:
        length = _range_length(op, start, end, step, closed)
    tensor = core.empty((length,), dtype=dtype, device=device)
    return _run_range("arange", tensor, (), (start, step), not dtype.is_floating_point)


@composite(
    f"arange(Number? start=None, Number? end=None, Number step=1, *, {OPTIONS}) -> Tensor",
    names=("arange",),
    overload="step=start_step, end=start, default",
    file_arguments={"default.start": "end"},
    out_cast=True,
    out_fills=True,
)
def arange(start, end, step, dtype, layout, device, pin_memory, requires_grad):
    """start, start + step, ... below `end`; one number is the end. Whole numbers give int64.

    Example:
        >>> facula.arange(4)
        tensor([0, 1, 2, 3])
        >>> facula.arange(1, 2, 0.25)
        tensor([1.0000, 1.2500, 1.5000, 1.7500])
    """
    check_layout("arange", layout)
    if end is None:
        start, end = None, start
    if end is None:
        fail(
            TypeError,
            "arange",
            "the argument 'end' was required",
            "none",
            hint="facula.arange(end) or facula.arange(start, end, step)",
        )
    return finished(
        _arange("arange", 0 if start is None else start, end, step, dtype, device, False),
        requires_grad,
    )


@composite(
    f"range(Number start, Number end, Number step=1, *, {OPTIONS}) -> Tensor",
    names=("range",),
    out_cast=True,
    out_fills=True,
)
def range_closed(start, end, step, dtype, layout, device, pin_memory, requires_grad):
    """start, start + step, ... up to and including `end`; prefer `arange`."""
    told(
        "range",
        "facula.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use facula.arange",
        "arange() leaves the end out",
    )
    return finished(_arange("range", start, end, step, dtype, device, True), requires_grad)


def _end_tensors(op: str, start: Any, end: Any, steps: int) -> Any:
    """The ends that are tensors, after checks."""
    if steps < 0:
        fail(RuntimeError, op, "number of steps must be non-negative", steps,
             hint="steps counts the numbers, both ends included")  # fmt: skip
    ends = [x for x in (start, end) if isinstance(x, core.Tensor)]
    for x in ends:
        if x.dim():
            fail(
                RuntimeError,
                op,
                f"{op} only supports 0-dimensional start and end tensors",
                x.dim(),
                hint="give numbers instead, for example x.item() of a single element",
            )
    return ends


def _linspace(op: str, start: Any, end: Any, steps: int, dtype: core.dtype, device: Any) -> Any:
    ends = _end_tensors(op, start, end, steps)
    if any(x.is_meta for x in ends):
        return core.empty((steps,), dtype=dtype, device="meta")
    start, end = (x.item() if isinstance(x, core.Tensor) else x for x in (start, end))
    whole_ends = _whole(start, end)
    if dtype is None:
        dtype = core.get_default_dtype()
        if isinstance(start, complex) or isinstance(end, complex):
            dtype = dtype.to_complex()
    if dtype.is_complex:
        start, end, real = complex(start), complex(end), dtype.to_real()
        parts = [
            _linspace(op, a, b, steps, real, device)
            for a, b in ((start.real, end.real), (start.imag, end.imag))
        ]
        return F.complex(*parts)
    if isinstance(start, complex) or isinstance(end, complex):
        fail(RuntimeError, op, "a complex dtype was required for complex ends", dtype,
             hint="dtype=facula.complex64 holds complex numbers")  # fmt: skip
    if not dtype.is_floating_point and not whole_ends:
        start, end = _integer(op, start), _integer(op, end)
    for name, end_point in (("start", start), ("end", end)):
        core.check_number(op, name, end_point, dtype)
    tensor = core.empty((steps,), dtype=dtype, device=device)
    return _run_range("linspace", tensor, (steps,), (start, end), not dtype.is_floating_point)


@composite(
    f"linspace(Operand start, Operand end, int steps, *, {OPTIONS}) -> Tensor",
    names=("linspace",),
    out_cast=True,
    out_fills=True,
    vmap="entries",
)
def linspace(start, end, steps, dtype, layout, device, pin_memory, requires_grad):
    """`steps` values evenly from `start` to `end`, both included.

    Example:
        >>> facula.linspace(0, 1, 5)
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    check_layout("linspace", layout)
    return finished(_linspace("linspace", start, end, steps, dtype, device), requires_grad)


def _whole_end(op: str, x: object) -> Any:
    """An end towards zero; what is no real number, or has no elements, as it is."""
    if isinstance(x, core.Tensor):
        if x.is_meta or x.dim():
            return x
        x = x.item()
    return x if isinstance(x, complex) else _integer(op, x)


@composite(
    f"logspace(Operand start, Operand end, int steps, float base=10.0, *, {OPTIONS}) -> Tensor",
    names=("logspace",),
    out_cast=True,
    out_fills=True,
    vmap="entries",
)
def logspace(start, end, steps, base, dtype, layout, device, pin_memory, requires_grad):
    """`steps` powers of `base` with exponents evenly from `start` to `end`.

    Example:
        >>> facula.logspace(0, 3, 4)
        tensor([   1.,   10.,  100., 1000.])
    """
    check_layout("logspace", layout)
    if dtype is None:
        dtype = core.get_default_dtype()
        if isinstance(start, complex) or isinstance(end, complex):
            dtype = dtype.to_complex()
    work = core.complex128 if dtype.is_complex else core.float64
    if steps != 1 and not dtype.is_floating_point and not dtype.is_complex:
        start, end = (_whole_end("logspace", x) for x in (start, end))
    exponents = _linspace("logspace", start, end, steps, work, device)
    return finished(F.pow(base, exponents).to(dtype), requires_grad)


@composite(f"eye(int n, int? m=None, *, {OPTIONS}) -> Tensor", names=("eye",), out_cast=True,
           overload="m=m")  # fmt: skip
def eye(n, m, dtype, layout, device, pin_memory, requires_grad):
    """A matrix with ones on the diagonal."""
    check_layout("eye", layout)
    m = n if m is None else m
    for name, size in (("n", n), ("m", m)):
        if size < 0:
            fail(
                RuntimeError,
                "eye",
                f"{name} must be greater or equal to 0, got {size}",
                size,
                hint=f"{name}=0 gives an empty matrix",
            )
    matrix = core.empty((n, m), dtype=dtype, device=device).zero_()
    if n and m:
        matrix.diagonal().fill_(1)
    return finished(matrix, requires_grad)


def _triangle_indices(
    op: str, row: int, col: int, offset: int, dtype: core.dtype, device: Any, upper: bool
) -> Any:
    if row < 0 or col < 0:
        fail(
            RuntimeError,
            op,
            "row and col must be non-negative",
            f"{row} and {col}",
            hint="0 gives no indices",
        )
    if dtype not in (core.int64, core.int32):
        fail(
            RuntimeError,
            op,
            "int32 or int64 was required",
            dtype,
            hint="leave dtype out for int64, then convert with .to(dtype)",
        )
    # found where there are elements, whatever device is the default
    ones = core.empty((row, col), dtype=core.bool_, device="cpu").fill_(True)
    places = F.nonzero(F.triu(ones, offset) if upper else F.tril(ones, offset))
    device = core.empty((0,), device=device).device
    return places.transpose(0, 1).contiguous().to(device=device, dtype=dtype)


@composite(
    f"tril_indices(int row, int col, int offset=0, *, {OPTIONS}) -> Tensor",
    names=("tril_indices",),
    out=False,
)
def tril_indices(row, col, offset, dtype, layout, device, pin_memory, requires_grad):
    """Coordinates of the lower triangle of a matrix, row by row: int64 [2, count]."""
    return _triangle_indices("tril_indices", row, col, offset, dtype or core.int64, device, False)


@composite(
    f"triu_indices(int row, int col, int offset=0, *, {OPTIONS}) -> Tensor",
    names=("triu_indices",),
    out=False,
)
def triu_indices(row, col, offset, dtype, layout, device, pin_memory, requires_grad):
    """Coordinates of the upper triangle of a matrix, row by row: int64 [2, count]."""
    return _triangle_indices("triu_indices", row, col, offset, dtype or core.int64, device, True)


@composite(
    "vander(Tensor x, int? N=None, bool increasing=False) -> Tensor",
    names=("vander",),
    out=False,
)
def vander(x, N, increasing):  # noqa: N803
    """The powers of a vector's elements as columns, the highest first unless `increasing`."""
    if x.dim() != 1:
        fail(
            RuntimeError,
            "vander",
            "x must be a one-dimensional tensor",
            f"{x.dim()} dimensions",
            hint="linalg.vander() takes batches of vectors",
        )
    count = x.shape[0] if N is None else N
    if count < 0:
        fail(
            RuntimeError,
            "vander",
            "N must be non-negative",
            count,
            hint="leave N out for a square matrix",
        )
    dtype = (
        core.promote_types(x.dtype, core.int64)
        if not x.dtype.is_floating_point and not x.dtype.is_complex
        else x.dtype
    )
    columns = core.empty((x.shape[0], count), dtype=dtype, device=x.device).fill_(1)
    if count > 1:
        powers = x.unsqueeze(1).to(dtype).expand((x.shape[0], count - 1)).cumprod(1)
        columns = F.cat([columns.narrow(1, 0, 1), powers], 1)
    return columns if increasing else F.flip(columns, (1,))


@composite("is_pinned(Tensor self, device? device=None) -> bool", names=(), out=False)
def is_pinned(self, device):
    """Whether the memory is pinned for a device: no memory of the CPU is."""
    return core.Tensor.is_pinned(self, device)
