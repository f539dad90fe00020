"""`facula._foreach_<name>`: one operator over lists of tensors, as optimizers and averages call it.

Takes: an operator's name, with an underscore behind it for the form in place. Gives: a function of
lists; an argument is one value for all tensors, or a list with one for each.
Keeps true: what a function does to each tensor is what the operator does, gradients included; there
is one for every operator of the table, so no list of them is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import PLACES, F

__all__ = ["function"]

PREFIX = "_foreach_"


def function(name: str) -> Callable[..., Any] | None:
    """The function of a name that begins with `_foreach_`; None where there is no such operator."""
    base = name.removeprefix(PREFIX)
    in_place = base.endswith("_")
    special = {"norm": _norm, "powsum": _powsum}.get(base)
    if special is not None:
        return special
    if base.startswith("_"):
        return None
    own = getattr(F, base.removesuffix("_"), None)
    operator = getattr(core.Tensor if in_place else F, base, None)
    if operator is None and own is not None:
        operator = _overwriting(own)
    if operator is None or not in_place and base not in PLACES[""]:
        return None  # forms that only PyTorch's graphs name have none
    parameters = own.definition.schema.parameters if own is not None else ()
    strict: tuple[int, ...] = ()
    if own is not None and own.definition.kind == "pointwise":
        strict = tuple(i for i, p in enumerate(parameters) if p.name in own.definition.strict)
    words = [p.name for p in parameters if p.keyword_only]
    count = len(parameters) - len(words)

    def foreach(self: Sequence[core.Tensor], *args: object, **kwargs: object) -> Any:
        scalars = kwargs.pop("scalars", None) if words else None
        if words and len(args) >= count:  # they come by position, too
            kwargs = {**dict(zip(words[1:], args[count:], strict=False)), **kwargs}
            scalars, args = args[count - 1], args[: count - 1]
        if isinstance(scalars, core.Tensor):
            scalars = _packed(name, scalars, len(self))
        if scalars is not None:
            kwargs[words[0]] = scalars
        rows = _rows(name, self, args, kwargs, strict)
        results = tuple([operator(*row, **named) for row, named in rows])
        return self if in_place else results

    foreach.__name__ = foreach.__qualname__ = name
    foreach.__doc__ = (
        f"`{base}` of each tensor; other arguments are for all, or lists with one each."
    )
    return foreach


def _overwriting(operator: Any) -> Callable[..., Any]:
    """An operator that has no form in place, written back."""

    def overwrite(self: core.Tensor, *args: object, **kwargs: object) -> core.Tensor:
        result = operator(self, *args, **kwargs)
        if not core.can_cast(result.dtype, self.dtype):
            fail(
                RuntimeError,
                operator.name,
                f"result type {result.dtype.type_word} can't be cast to the desired output type "
                f"{self.dtype.type_word}",
                hint=f"convert self with .to({result.dtype}) first",
            )
        return self.copy_(result)

    return overwrite


def _rows(
    name: str,
    tensors: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    strict: tuple[int, ...] = (),
) -> list[tuple[list[Any], dict[str, Any]]]:
    """The arguments of each call; numbers are tensors where the operator takes nothing else."""
    given = [tensors, *args, *kwargs.values()]
    lists = [a for a in given if isinstance(a, (list, tuple))]
    if not lists or not lists[0]:
        fail(
            RuntimeError,
            name,
            "Tensor list must have at least one tensor.",
            tensors,
            hint="skip the call where there is nothing to do",
        )
    names = ["input", *(f"argument {n}" for n in range(1, len(args) + 1)), *kwargs]
    pairs = zip(names, given, strict=True)
    columns = [_column(name, word, value, len(lists[0])) for word, value in pairs]
    for i in strict:
        if 0 < i < len(columns):
            columns[i] = [_tensor_like(v, t) for v, t in zip(columns[i], columns[0], strict=True)]
    first = len(args) + 1
    return [
        (list(row[:first]), dict(zip(kwargs, row[first:], strict=True)))
        for row in zip(*columns, strict=True)
    ]


def _tensor_like(value: object, tensor: core.Tensor) -> Any:
    """A number as a tensor without dimensions, which takes part in the dtype of the result as numbers do."""
    if isinstance(value, (int, float, complex)):
        return core.tensor(value, dtype=F.result_type(tensor, value), device=tensor.device)
    return value


def _column(name: str, given: str, value: object, count: int) -> list[Any]:
    """An argument for each of the calls."""
    if isinstance(value, (list, tuple)):
        if len(value) != count:
            numbers = not any(isinstance(item, core.Tensor) for item in value)
            fail(
                RuntimeError,
                name,
                "Tensor list must have same number of elements as scalar list."
                if numbers
                else f"Tensor lists must have the same number of tensors, got {count} and {len(value)}",
                f"{count} tensors and {len(value)} items ({given})",
                hint="give one item for each tensor, or one number for all",
            )
        return list(value)
    if isinstance(value, core.Tensor) and value.dim():
        if given == "value":
            return _packed(name, value, count)
        fail(
            RuntimeError,
            name,
            "scalar tensor expected to be 0 dim",
            f"{value.dim()} dimensions and {value.numel()} elements ({given})",
            hint="give a list of tensors, or a number for all",
        )
    return [value] * count


def _packed(name: str, value: core.Tensor, count: int) -> list[Any]:
    """The numbers that a tensor holds, one for each of the calls."""
    required = None
    if value.device.type != "cpu":
        required = f"Expected scalars to be on CPU, got {value.device.type} instead."
    elif not value.is_contiguous():
        required = "Expected scalars to be contiguous."
    elif value.dim() != 1:
        required = f"Expected packed scalar Tensor to be of dimension 1. Got {value.dim()} instead."
    elif len(value) != count:
        required = f"Expected length of scalars to match input of length {count} but got {len(value)} instead."
    if required:
        fail(RuntimeError, name, required, hint="a list of numbers does as well")
    return value.tolist()


def _norm(self: Any, ord: float = 2, dtype: core.dtype | None = None) -> Any:  # noqa: A002 - PyTorch's name
    """The norm of each tensor, in its own dtype or another one."""
    rows = _rows(f"{PREFIX}norm", self, (), {"ord": ord, "dtype": dtype})
    return tuple([F.linalg_vector_norm(*row, **named) for row, named in rows])


def _powsum(self: Any, ord: Any = 2, dtype: core.dtype | None = None) -> Any:  # noqa: A002 - PyTorch's name
    """The sum of the absolute elements' powers of each tensor."""
    rows = _rows(f"{PREFIX}powsum", self, (), {"ord": ord, "dtype": dtype})
    return tuple([(row[0].abs() ** named["ord"]).sum(dtype=named["dtype"]) for row, named in rows])
