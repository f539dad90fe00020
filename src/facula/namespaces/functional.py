"""Functions of the top level that are no operators: questions, and functions that methods serve.

Takes tensors; gives PyTorch's answers. Keeps true: what is no tensor is refused by name.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from facula import core
from facula.core.errors import fail, no_attribute
from facula.namespaces import overrides
from facula.ops.table.registry import PLACES

Tensor = core.Tensor


def is_tensor(obj: object) -> bool:
    """Whether an object is a tensor.

    Args:
        obj: any

    Example:
        >>> facula.is_tensor(facula.ones(1)), facula.is_tensor(1.0)
        (True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj: object) -> bool:
    """Whether an object is a storage.

    Args:
        obj: any

    Example:
        >>> facula.is_storage(facula.ones(1).untyped_storage())
        True
    """
    return isinstance(obj, core.UntypedStorage)


@overrides.offered
def is_floating_point(input: Tensor) -> bool:
    """Whether a tensor has a floating-point dtype.

    Args:
        input: a tensor

    Example:
        >>> facula.is_floating_point(facula.ones(1))
        True
    """
    return input.is_floating_point()


@overrides.offered
def is_complex(input: Tensor) -> bool:
    """Whether a tensor has a complex dtype.

    Args:
        input: a tensor

    Example:
        >>> facula.is_complex(facula.ones(1))
        False
    """
    return input.is_complex()


@overrides.offered
def is_nonzero(input: Tensor) -> bool:
    """Whether the only element of a tensor is not zero.

    Args:
        input: a tensor of one element

    Raises:
        RuntimeError: it has none or several elements.

    Example:
        >>> facula.is_nonzero(facula.tensor([0.0]))
        False
    """
    if input.numel() != 1:
        fail(
            RuntimeError,
            "is_nonzero",
            "Boolean value of Tensor with one value was required (is ambiguous otherwise)",
            list(input.shape),
            hint="use input.any() or input.all()",
        )
    return bool(input.item() != 0)


@overrides.offered
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one shape.

    Args:
        input, other: tensors

    Example:
        >>> facula.is_same_size(facula.ones(2), facula.zeros(2))
        True
    """
    return input.is_same_size(other)


def _debug_has_internal_overlap(input: Tensor) -> int:
    """Whether elements share memory: 0 no, 1 yes (an expanded dimension), 2 where strides do not tell."""
    sides = zip(input.stride(), input.shape, strict=True)
    steps, expected = sorted((step, size) for step, size in sides if size > 1), 1
    if input.numel() and steps and steps[0][0] == 0:
        return 1
    for step, size in steps if input.numel() else ():
        if step != expected:
            return 2
        expected *= size
    return 0


def _has_compatible_shallow_copy_type(input: Tensor, other: Tensor) -> bool:
    """Whether one tensor may take the other's memory: both have elements in one way. Subclasses say it themselves."""
    if overrides.has_torch_function((input, other)):
        return overrides.handle_torch_function(
            _has_compatible_shallow_copy_type, (input, other), input, other
        )
    return input.layout == other.layout and input.is_quantized == other.is_quantized


@overrides.offered
def numel(input: Tensor) -> int:
    """The number of elements.

    Args:
        input: a tensor

    Example:
        >>> facula.numel(facula.ones(2, 3))
        6
    """
    return input.numel()


def typename(obj: Any) -> str:
    """The name of an object's type, of a tensor with its dtype.

    Args:
        obj: any

    Example:
        >>> facula.typename(facula.ones(1))
        'facula.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    return (
        f"{kind.__module__}.{kind.__qualname__}"
        if kind.__module__ != "builtins"
        else kind.__qualname__
    )


def broadcast_shapes(*shapes: Any) -> core.Size:
    """The shape to which all shapes broadcast.

    Args:
        *shapes: tuples of ints

    Raises:
        RuntimeError: two sizes differ and none is 1.

    Example:
        >>> facula.broadcast_shapes((2, 1), (3,))
        facula.Size([2, 3])
    """
    for shape in shapes:
        if not isinstance(shape, int) and not hasattr(shape, "__iter__"):
            required = "ints or tuples of ints were required"
            hint = "pass tensor.shape, or sizes such as (2, 3)"
            fail(TypeError, "broadcast_shapes", required, type(shape).__name__, hint)
    lists = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    rank = max((len(s) for s in lists), default=0)
    result = [1] * rank
    for shape in lists:
        for i, size in enumerate(shape, rank - len(shape)):
            if size < 0:
                fail(
                    RuntimeError,
                    "broadcast_shapes",
                    "non-negative sizes were required",
                    shape,
                    hint="sizes are tensor.shape, where -1 does not occur",
                )
            if size != 1 and size != result[i]:
                if result[i] != 1:
                    fail(
                        RuntimeError,
                        "broadcast_shapes",
                        "Shape mismatch: objects cannot be broadcast to a single shape",
                        list(shapes),
                        hint="sizes are equal or 1, from the last dimension on",
                    )
                result[i] = size
    return core.Size(result)


def _sharing(obj: Any, dtype: object) -> Tensor | None:
    """A tensor on the memory of an object; None where it has none that can be shared."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, core.UntypedStorage):
        return obj.as_tensor(dtype)
    if hasattr(obj, "__array_interface__"):
        return core.as_tensor(obj) if getattr(obj, "ndim", 1) == 0 else core.from_numpy(obj)
    if hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        return core.from_dlpack(obj)
    if isinstance(obj, (bytes, bytearray, memoryview)):
        return core.frombuffer(obj, dtype=core.get_default_dtype() if dtype is None else dtype)
    return None


def asarray(
    obj: object,
    *,
    dtype: core.dtype | None = None,
    device: core.device | str | int | None = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """A tensor of anything, on the same memory where that can be.

    Args:
        obj: a tensor, array, buffer, DLPack object, number or nesting of them
        dtype: None for the object's
        device: None for the object's
        copy: whether to copy: True, False (an error where it must be), None for as needed
        requires_grad: None for the object's

    Example:
        >>> import numpy
        >>> a = numpy.zeros(2)
        >>> _ = facula.asarray(a).fill_(1)
        >>> a
        array([1., 1.])
    """
    shared = _sharing(obj, dtype)
    if shared is None:
        if copy is False:
            fail(
                ValueError,
                "asarray",
                "an object whose memory can be shared was required with copy=False",
                type(obj).__name__,
                hint="leave copy out to have the values copied",
            )
        shared = core.tensor(obj, dtype=dtype, device=device)
        copy = None
    result = shared.to(
        dtype=shared.dtype if dtype is None else dtype,
        device=shared.device if device is None else device,
        copy=bool(copy),
    )
    if copy is False and result is not shared:
        fail(
            ValueError,
            "asarray",
            "no copy was required: can't alias a tensor of another dtype or device",
            f"{shared.dtype}",
            hint="leave copy out to have the values copied where they must be",
        )
    if requires_grad is None and result.requires_grad:
        warnings.warn(
            "asarray: unspecified requires_grad now defaults to obj.requires_grad instead of "
            "False. Pass requires_grad=False explicitly to get the old behavior and silence this "
            "warning.",
            UserWarning,
            stacklevel=2,
        )
    elif result.requires_grad and not requires_grad:
        result = result.detach()
    return result.requires_grad_() if requires_grad and not result.requires_grad else result


def tensor_required(op: str, value: object) -> Tensor:
    if not isinstance(value, Tensor):
        fail(
            TypeError,
            op,
            "a tensor was required",
            type(value).__name__,
            hint="facula.as_tensor(value) makes one of numbers",
        )
    return value


@overrides.offered
def clone(input: Tensor, *, memory_format: object = core.preserve_format) -> Tensor:
    """A copy with memory of its own; gradients flow through it.

    Args:
        input: a tensor
        memory_format: of the copy; by default the input's order

    Example:
        >>> x = facula.ones(2)
        >>> facula.clone(x).add_(1), x
        (tensor([2., 2.]), tensor([1., 1.]))
    """
    return tensor_required("clone", input).clone(memory_format=memory_format)


@overrides.offered
def detach(input: Tensor) -> Tensor:
    """The same elements without their history; memory is shared.

    Args:
        input: a tensor

    Example:
        >>> facula.detach(facula.ones(1, requires_grad=True)).requires_grad
        False
    """
    return tensor_required("detach", input).detach()


@overrides.offered
def detach_(input: Tensor) -> Tensor:
    """Cuts a tensor off its history, in place.

    Args:
        input: a tensor

    Example:
        >>> x = facula.ones(1, requires_grad=True) * 2
        >>> facula.detach_(x).requires_grad
        False
    """
    return tensor_required("detach_", input).detach_()


@overrides.offered
def fill(input: Tensor, value: object) -> Tensor:
    """A tensor of a shape and dtype filled with a value.

    Args:
        input: a tensor
        value: a number, or a tensor of one element

    Example:
        >>> facula.fill(facula.zeros(2), 3)
        tensor([3., 3.])
    """
    return tensor_required("fill", input).clone().fill_(value)


@overrides.offered
def fill_(input: Tensor, value: object) -> Tensor:
    """Overwrites every element with a value.

    Args:
        input: a tensor
        value: a number, or a tensor of one element

    Example:
        >>> facula.fill_(facula.zeros(2), 3)
        tensor([3., 3.])
    """
    return tensor_required("fill_", input).fill_(value)


@overrides.offered
def zero_(input: Tensor) -> Tensor:
    """Overwrites every element with zero.

    Args:
        input: a tensor

    Example:
        >>> facula.zero_(facula.ones(2))
        tensor([0., 0.])
    """
    return tensor_required("zero_", input).zero_()


@overrides.offered
def resize_as_(
    input: Tensor, the_template: Tensor, *, memory_format: core.memory_format | None = None
) -> Tensor:
    """Gives a tensor the shape of another, in place; memory grows where it has to.

    Args:
        input: a tensor
        the_template: whose shape is taken
        memory_format: of the result; None for contiguous

    Example:
        >>> facula.resize_as_(facula.zeros(1), facula.ones(2, 3)).shape
        facula.Size([2, 3])
    """
    return tensor_required("resize_as_", input).resize_as_(
        the_template, memory_format=memory_format
    )


@overrides.offered
def is_signed(input: Tensor) -> bool:
    """Whether a tensor has a dtype with negative numbers.

    Args:
        input: a tensor

    Example:
        >>> facula.is_signed(facula.ones(1, dtype=facula.uint8))
        False
    """
    return tensor_required("is_signed", input).is_signed()


@overrides.offered
def is_conj(input: Tensor) -> bool:
    """Whether a tensor is a lazy conjugate: never, conjugates are computed.

    Args:
        input: a tensor

    Example:
        >>> facula.is_conj(facula.ones(1).conj())
        False
    """
    return tensor_required("is_conj", input).is_conj()


@overrides.offered
def is_neg(input: Tensor) -> bool:
    """Whether a tensor is a lazy negative: never, negatives are computed.

    Args:
        input: a tensor

    Example:
        >>> facula.is_neg(-facula.ones(1))
        False
    """
    return tensor_required("is_neg", input).is_neg()


@overrides.offered
def is_inference(input: Tensor) -> bool:
    """Whether a tensor was made in inference mode.

    Args:
        input: a tensor

    Example:
        >>> facula.is_inference(facula.ones(1))
        False
    """
    return tensor_required("is_inference", input).is_inference()


@overrides.offered
def is_distributed(input: Tensor) -> bool:
    """Whether a tensor is distributed over processes: False.

    Args:
        input: a tensor

    Example:
        >>> facula.is_distributed(facula.ones(1))
        False
    """
    return tensor_required("is_distributed", input).is_distributed()


def _is_functional_tensor(t: Tensor) -> bool:
    """Whether a tensor is a wrapper that removes writes: False, since `func.functionalize` wraps nothing."""
    tensor_required("_is_functional_tensor", t)
    return False


@overrides.offered
def get_device(input: Tensor) -> int:
    """The number of a tensor's device, -1 for the CPU.

    Args:
        input: a tensor

    Example:
        >>> facula.get_device(facula.ones(1))
        -1
    """
    return tensor_required("get_device", input).get_device()


def from_file(
    filename: str,
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: core.dtype | None = None,
    layout: core.layout | None = None,
    device: core.device | str | int | None = None,
    pin_memory: bool = False,
) -> Tensor:
    """A vector over a file's memory.

    Args:
        filename: the file
        shared: whether writes reach the file, which is made or grown as needed
        size: number of elements
        dtype: None for the default one
        layout, device, pin_memory: kept as in PyTorch

    Example:
        >>> x = facula.from_file("numbers.bin", shared=True, size=2)
        >>> _ = x.fill_(1)
        >>> facula.from_file("numbers.bin", size=2)
        tensor([1., 1.])
    """
    dtype = core.get_default_dtype() if dtype is None else dtype
    count = int(size or 0)
    length = count * dtype.itemsize
    if count == 0:
        return core.empty((0,), dtype=dtype, device=device)
    present = os.path.getsize(filename) if os.path.exists(filename) or not shared else 0
    if present < length and not shared:
        fail(
            RuntimeError,
            "from_file",
            f"a file of at least {length} bytes was required",
            f"{present} bytes",
            hint="shared=True makes the file as large as needed",
        )
    memory = core.UntypedStorage.from_file(filename, bool(shared), length)
    result = core.empty((0,), dtype=dtype, device="cpu").set_(memory)
    return result if device is None else result.to(device)


def _shape_of_ints(shape: Any) -> tuple[int, ...]:
    """The sizes that `unravel_index` is given, checked."""
    if hasattr(shape, "__index__") and not isinstance(shape, Tensor):
        return (shape.__index__(),)
    if isinstance(shape, str) or not isinstance(shape, Sequence):
        kind = type(shape).__name__
        required = f"expected 'shape' to be int or sequence of ints, but got {kind}"
        fail(TypeError, "unravel_index", required, hint="shape is that of the indexed tensor")
    for n in shape:
        if not hasattr(n, "__index__"):
            required = f"expected 'shape' sequence to only contain ints, but got {type(n).__name__}"
            fail(TypeError, "unravel_index", required, hint="int(size) converts a number")
    return tuple(n.__index__() for n in shape)


@overrides.offered
def _shape_as_tensor(self: Tensor) -> Tensor:
    """The sizes of a tensor, as a tensor of int64 on the CPU."""
    return core.tensor(list(self.shape), dtype=core.int64)


@overrides.offered
def unravel_index(indices: Tensor, shape: object) -> tuple[Tensor, ...]:
    """Flat positions as one tensor of coordinates for each dimension.

    Args:
        indices: integers
        shape: of the tensor that they point into

    Example:
        >>> facula.unravel_index(facula.tensor([4, 5]), (2, 3))
        (tensor([1, 1]), tensor([1, 2]))
    """
    tensor_required("unravel_index", indices)
    if indices.is_floating_point() or indices.is_complex() or indices.dtype is core.bool_:
        fail(
            TypeError,
            "unravel_index",
            f"integer positions were required: expected 'indices' to be integer dtype, but got {indices.dtype}",
            hint="convert them with .long()",
        )
    sizes = _shape_of_ints(shape)
    if any(n < 0 for n in sizes):
        fail(
            ValueError,
            "unravel_index",
            f"sizes were required: 'shape' cannot have negative values, but got {sizes}",
            hint="shape is that of the indexed tensor, x.shape",
        )
    places, rest = [], indices
    for size in reversed(sizes):
        places.append(rest % size if size else rest)
        rest = rest.div(size, rounding_mode="floor") if size else rest
    return tuple(reversed(places))


def __getattr__(name: str) -> Any:
    """An operator of the top level: PyTorch's module of this name has many of them."""
    if name == "F":
        # lazily: modules lie above; PyTorch's module of this name imports it
        return import_module("facula.nn.functional")
    found = None if name.startswith("_") else PLACES[""].get(name)
    if found is None:
        raise no_attribute(__name__, name)
    return found
