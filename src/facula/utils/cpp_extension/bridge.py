"""What the headers of C++ extensions ask of Python (`ask` in `include/facula/python.h`).

Takes names of operators, dtypes and constants, memory, functions of C++. Gives the objects behind them.
Keeps true: each function here is called by a header, by its name; registrations that fail while a library is loaded are
kept for who loads it (`raise_failures`).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

import facula
from facula import Generator, Tensor, device, dtype, promote_types, tensor
from facula.autograd import Function, backward
from facula.autograd import grad as _grad
from facula.core.errors import fail
from facula.ops.table.registry import TABLE
from facula.utils.cpp_extension import matching
from facula.utils.cpp_extension.headers import INPLACE

__all__ = [
    "Generator", "Tensor", "accumulate", "apply", "backward", "define", "device", "dtype",
    "find_constant", "find_dtype", "find_operator", "find_overload", "from_memory", "get_num_threads",
    "grad", "implement", "is_grad_enabled", "keep_failure", "manual_seed", "mark", "promote_types",
    "raise_failures", "save_for_backward", "set_grad_enabled", "set_num_threads", "tensor", "to", "unique",
    "unique_consecutive", "where",
]  # fmt: skip

get_num_threads = facula.get_num_threads
set_num_threads = facula.set_num_threads
is_grad_enabled = facula.is_grad_enabled
manual_seed = facula.manual_seed


def set_grad_enabled(enabled: bool) -> None:
    """Switches the recording of calls from now on."""
    facula.set_grad_enabled(enabled)


# ------------------------------------------------------------------ names


def find_operator(name: str) -> Any:
    """An operator of the table; with `INPLACE` behind its name, its in-place form."""
    if name.endswith(INPLACE):
        return TABLE[name.removesuffix(INPLACE)].inplace
    return TABLE[name]


def find_dtype(name: str) -> Any:
    """The dtype of a name."""
    return getattr(facula, name)


def find_constant(name: str) -> Any:
    """A layout or memory format."""
    return getattr(facula, name)


def find_overload(name: str, overload: str) -> Any:
    """An operator by its qualified name, as C++'s dispatcher finds it.

    Raises RuntimeError where there is none.
    """
    space, _, last = name.partition("::")
    packet = getattr(getattr(facula.ops, space), last, None)
    if packet is None:
        fail(
            RuntimeError,
            "findSchemaOrThrow",
            f"the name of an operator was required (could not find schema for {name}.{overload})",
            name,
            hint="define it with TORCH_LIBRARY before it is looked for",
        )
    return getattr(packet, overload or "default")


# ------------------------------------------------------------------ tensors


def to(x: Tensor, given: Sequence[Any]) -> Tensor:
    """`x.to(...)` for C++'s forms: options arrive as a list of device, dtype and memory format."""
    first, *flags = given
    if isinstance(first, list):
        place, kind, order = first
        words = {"device": place, "dtype": kind, "memory_format": order}
        named = {name: value for name, value in words.items() if value is not None}
        return x.to(**named, **dict(zip(("non_blocking", "copy"), flags, strict=False)))
    return x.to(first, *flags)


def where(condition: Tensor) -> Any:
    """The places of what is not zero, a tensor a dimension."""
    return facula.where(condition)


def unique(
    x: Tensor, dim: int | None, sorted: bool, inverse: bool, counts: bool
) -> tuple[Tensor, ...]:
    """Values, their places and counts, empty where they were not asked for."""
    found = facula.unique(x, sorted=sorted, return_inverse=True, return_counts=True, dim=dim)
    return _asked_for(found, inverse, counts)


def unique_consecutive(
    x: Tensor, dim: int | None, sorted: bool, inverse: bool, counts: bool
) -> tuple[Tensor, ...]:
    """The same of neighbours that are equal."""
    found = facula.unique_consecutive(x, return_inverse=True, return_counts=True, dim=dim)
    return _asked_for(found, inverse, counts)


def _asked_for(found: Any, inverse: bool, counts: bool) -> tuple[Tensor, ...]:
    values, places, numbers = found
    none = places.new_empty((0,))
    return values, places if inverse else none, numbers if counts else none


def accumulate(x: Tensor, indices: tuple[Any, ...], values: object) -> None:
    """Adds values at indices, those that occur twice too."""
    if all(isinstance(i, Tensor) for i in indices):
        x.index_put_(indices, facula.as_tensor(values, dtype=x.dtype), accumulate=True)
        return
    x[indices].shape  # noqa: B018 - says what is wrong with the indices in the words of indexing
    places = facula.arange(x.numel()).reshape(x.shape)[indices]
    added = facula.as_tensor(values, dtype=x.dtype).expand(places.shape)
    x.put_(places, added, accumulate=True)


def from_memory(
    address: int, sizes: list[int], strides: list[int] | None, kind: Any, owner: object
) -> Tensor:
    """A tensor on memory of C++'s, which keeps `owner` alive."""
    if any(n < 0 for n in sizes):
        required = "sizes that are not negative were required"
        fail(RuntimeError, "from_blob", required, sizes, hint="sizes are in elements")
    if strides is None:
        strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    if math.prod(sizes) == 0:
        return facula.empty(sizes, dtype=kind)
    elements = 1 + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
    memory = _Memory(elements * kind.itemsize)
    found = memory.from_address(address)
    found.owner = owner
    return facula.frombuffer(found, dtype=kind).as_strided(sizes, strides)


def _Memory(length: int) -> Any:
    """The type of so many bytes; its objects have attributes."""
    return type("Memory", (ctypes.c_char * length,), {})


# ------------------------------------------------------------------ gradients


class _CppFunction(Function):
    """A Function whose two directions are functions of C++."""

    @staticmethod
    def forward(ctx: Any, forward: Any, run_backward: Any, *args: Any) -> Any:
        ctx.run_backward = run_backward
        result = forward(ctx, *args)
        return tuple(result) if isinstance(result, list) else result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        found = ctx.run_backward(ctx, list(grads))
        expected = len(ctx.needs_input_grad) - 2
        # undefined ones behind the last argument say nothing
        while len(found) > expected and found[-1] is None:
            found.pop()
        if len(found) != expected:
            fail(
                RuntimeError,
                "torch::autograd::Function",
                "a gradient for each argument of forward was required (function returned an "
                f"incorrect number of gradients: expected {expected})",
                len(found),
                hint="return torch::Tensor() for arguments without a gradient",
            )
        return (None, None, *found)


def apply(forward: object, run_backward: object, inputs: tuple[Any, ...]) -> Any:
    """Runs a Function of C++'s: `forward(ctx, *inputs)`, and `run_backward(ctx, grads)` later."""
    return _CppFunction.apply(forward, run_backward, *inputs)


def grad(
    outputs: object, inputs: object, given: object, retain: bool | None, create: bool, unused: bool
) -> Any:
    """Gradients of outputs with respect to inputs."""
    return _grad(
        outputs, inputs, given, retain_graph=retain, create_graph=create, allow_unused=unused
    )


def save_for_backward(ctx: Any, tensors: list[Any]) -> None:
    """Keeps tensors with a node."""
    ctx.save_for_backward(*tensors)


def mark(ctx: object, method: str, tensors: list[Any]) -> None:
    """Tells a node what is special about tensors: `mark_dirty` and the like."""
    getattr(ctx, method)(*tensors)


# ------------------------------------------------------------------ operators that C++ registers

_failures: list[BaseException] = []


def keep_failure(error: BaseException) -> None:
    """Keeps what went wrong while a library was being loaded."""
    _failures.append(error)


def raise_failures() -> None:
    """Raises the first error that was kept, if any."""
    if _failures:
        first = _failures[0]
        _failures.clear()
        raise first


def define(space: str, schema: str, inferred: str) -> None:
    """Defines an operator; a name alone takes the schema that follows from the types of its function.

    Raises RuntimeError for a name of another namespace, and where a function that was registered before does not fit.
    """
    text = schema if "(" in schema else schema + inferred
    name, bracket, rest = text.partition("(")
    name = _own_name(space, name.strip(), f'm.def("{name.strip()}")')
    qualified = f"{space}::{name}"
    facula.library.define(qualified, bracket + rest)
    for key, function, signature in _early.pop(qualified, ()):
        implement(space, name, key, function, signature)


#: functions that were registered before their operator was defined: key, function, signature
_early: dict[str, list[tuple[str, Callable[..., Any], str]]] = {}


def _own_name(space: str, name: str, call: str) -> str:
    """A name without its namespace, which must be that of the block around it."""
    given, separator, last = name.rpartition("::")
    if separator and given != space:
        fail(
            RuntimeError,
            "TORCH_LIBRARY",
            f"a name of the namespace {space} was required ({call}: Explicitly provided namespace ({given}) in "
            f"operator name does not match namespace of enclosing TORCH_LIBRARY block ({space}))",
            name,
            hint=f"open a TORCH_LIBRARY_FRAGMENT({given}, m) for it",
        )
    return last


def implement(
    space: str, name: str, key: str, function: Callable[..., Any], signature: str
) -> None:
    """Registers a function of C++ under a dispatch key; `signature` is the schema that follows from its types.

    Raises RuntimeError where the operator's schema says other types, and for a name of another namespace.
    """
    qualified = f"{space}::{_own_name(space, name, f'm.impl({name!r})')}"
    if qualified not in TABLE:
        _early.setdefault(qualified, []).append((key, function, signature))
        return
    definition = TABLE[qualified].definition
    matching.check_signature(definition.schema, signature)

    def kernel(*args: Any, **kwargs: object) -> Any:
        if kwargs:
            named = [p.name for p in definition.schema.parameters][len(args) :]
            args = (*args, *(kwargs[n] for n in named))
        return function(*args)

    kernel.__name__ = kernel.__qualname__ = name
    facula.library.impl(qualified, key or "CompositeImplicitAutograd", kernel)
