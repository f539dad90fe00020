"""Arguments to try operators on: what a definition's `samples(S)` and `errors(S)` are given as `S`.

Takes: a dtype and a seed.
Gives: `Samples`, whose calls make tensors of random elements; `layouts`, the same elements in other
memory orders; `pointwise_samples`, the arguments of an elementwise operator out of its schema.
Keeps true: the same seed gives the same elements; nothing here asks facula's own random numbers, so
that a test of those stays independent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy

import facula
from facula import core
from facula.core import Tensor

if TYPE_CHECKING:
    from facula.ops.table.definition import Definition


__all__ = ["Samples", "layouts", "map_tensors", "pointwise_samples"]


class Samples:
    """Makes tensors; called with sizes it gives floating point numbers of its dtype."""

    def __init__(self, dtype: core.dtype | None = None, seed: int = 0, empty: bool = False) -> None:
        self.dtype = facula.float32 if dtype is None else dtype
        self.empty = empty
        self._random = numpy.random.default_rng(seed)

    def _shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape asked for; with `empty` its first size is zero."""
        return (0, *shape[1:]) if self.empty and shape else shape

    def __call__(
        self, *shape: int, low: float = -1.0, high: float = 1.0, dtype: core.dtype | None = None
    ) -> Tensor:
        """Numbers in `[low, high)`; integers from 1 to 6 and bools where the dtype asks for them."""
        dtype = self.dtype if dtype is None else dtype
        shape = self._shape(shape)
        if dtype == facula.bool:
            return facula.tensor(self._random.random(shape) < 0.5)
        if dtype.is_complex:
            parts = self._random.uniform(low, high, (2, *shape))
            return facula.tensor(parts[0] + 1j * parts[1]).to(dtype)
        if not dtype.is_floating_point:
            return facula.tensor(self._random.integers(1, 7, shape)).to(dtype)
        return facula.tensor(self._random.uniform(low, high, shape)).to(dtype)

    @property
    def wide(self) -> Any:
        """float64, or complex128 where this dtype is complex."""
        return facula.complex128 if self.dtype.is_complex else facula.float64

    @property
    def integer(self) -> Any:
        """The dtype of whole numbers."""
        return facula.int64

    def of(self, values: object) -> Tensor:
        """The given numbers: floating point ones in this dtype, others in their own."""
        made = facula.tensor(numpy.array(values))
        if made.is_floating_point():
            return made.to(self.dtype)
        return made.to(self.dtype.to_complex()) if made.is_complex() else made

    def rows_of_one(self, *shape: int) -> Tensor:
        """Positive numbers whose sum along the last dimension is one."""
        parts = self._random.uniform(0.1, 1.0, self._shape(shape))
        return self.of(parts / parts.sum(-1, keepdims=True))

    def complex(self, *shape: int) -> Tensor:
        """Complex numbers of twice this dtype's size."""
        return self(*shape, dtype=self.dtype.to_complex())

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> Tensor:
        """int64 numbers in `[low, high)`."""
        return facula.tensor(self._random.integers(low, high, self._shape(tuple(shape))))

    def index(self, size: int, shape: tuple[int, ...], unique: bool = False) -> Tensor:
        """Positions in a dimension of `size`; with `unique` none twice along the first dimension."""
        shape = self._shape(tuple(shape))
        if not unique:
            return facula.tensor(self._random.integers(0, size, shape))
        order = self._random.permuted(
            numpy.broadcast_to(
                numpy.arange(size).reshape(-1, *[1] * (len(shape) - 1)), (size, *shape[1:])
            ),
            axis=0,
        )
        return facula.tensor(numpy.ascontiguousarray(order[: shape[0]]))

    def full(self, shape: tuple[int, ...], value: int) -> Tensor:
        """An int64 tensor of one value."""
        return facula.tensor(numpy.full(shape, value))

    def mask(self, *shape: int) -> Tensor:
        """A bool tensor of which about half is true."""
        return self(*shape, dtype=facula.bool)

    def some(self, *shape: int) -> Tensor:
        """A bool tensor of which every line of any dimension holds true twice at least, and not all is true."""
        places = numpy.indices(self._shape(shape)).sum(0)
        return facula.tensor(places % 3 != int(self._random.integers(0, 3)))

    def logarithms(self, *shape: int) -> Tensor:
        """Logarithms of numbers whose sum along the last dimension is one."""
        return self.of(numpy.log(self.rows_of_one(*shape).double().numpy()))

    def sparse(
        self, elements: object, layout: str = "coo", blocks: tuple[int, int] = (2, 2)
    ) -> Tensor:
        """A sparse matrix of the elements that are not zero (in `blocks`, where its layout has blocks)."""
        dense = numpy.array(elements, dtype=float)
        if layout == "coo":
            places = numpy.argwhere(dense).T
            return facula.sparse_coo_tensor(places, self.of(dense[tuple(places)]), dense.shape)
        rows = layout in ("csr", "bsr")
        lines = dense if rows else dense.T
        high, wide = ((1, 1) if layout in ("csr", "csc") else blocks)[:: 1 if rows else -1]
        tiles = lines.reshape(lines.shape[0] // high, high, lines.shape[1] // wide, wide).swapaxes(
            1, 2
        )
        kept = tiles.any((2, 3))
        values = tiles[kept] if rows else tiles[kept].swapaxes(1, 2)
        values = values.reshape(-1) if layout in ("csr", "csc") else values
        starts = numpy.concatenate([[0], kept.sum(1).cumsum()])
        make = getattr(facula, f"sparse_{layout}_tensor")
        return make(
            facula.tensor(starts),
            facula.tensor(numpy.nonzero(kept)[1]),
            self.of(values),
            dense.shape,
        )

    def repeated(self, places: object, values: object, size: tuple[int, ...]) -> Tensor:
        """A sparse tensor that may name a place more than once."""
        return facula.sparse_coo_tensor(facula.tensor(places), self.of(values), size)

    def layout(self, name: str) -> Any:
        """The sparse layout of a name."""
        return getattr(facula, f"sparse_{name}")

    def sorted(self, *shape: int) -> Tensor:
        """Numbers that ascend along the last dimension."""
        values = numpy.sort(self._random.uniform(-1, 1, self._shape(shape)), axis=-1)
        return facula.tensor(values).to(self.dtype)


def map_tensors(function: Callable[[Tensor], Any], value: object) -> Any:
    """`value` with every tensor in it, however nested, replaced by `function(tensor)`."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, (tuple, list)):
        changed = [map_tensors(function, item) for item in value]
        return type(value)(*changed) if hasattr(value, "_fields") else type(value)(changed)
    if isinstance(value, dict):
        return {key: map_tensors(function, item) for key, item in value.items()}
    return value


def _transposed(x: Tensor) -> Tensor:
    if x.dim() < 2:
        return x
    dims = list(reversed(range(x.dim())))
    return x.detach().permute(dims).contiguous().permute(dims)


def _sliced(x: Tensor) -> Tensor:
    if x.dim() == 0:
        return facula.stack([x.detach(), x.detach(), x.detach()])[1]
    wide = facula.zeros((*[2 * n + 1 for n in x.shape],), dtype=x.dtype)
    view = wide[tuple(slice(1, 2 * n + 1, 2) for n in x.shape)]
    view.copy_(x.detach())
    return view


def _offset(x: Tensor) -> Tensor:
    wide = facula.zeros((x.numel() + 3,), dtype=x.dtype)
    view = wide[3:].view(x.shape)
    view.copy_(x.detach())
    return view


#: the same elements in another memory order, by name
layouts: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": _transposed,
    "sliced": _sliced,
    "offset": _offset,
}


def _bounds(domain: tuple[Any, ...] | None, name: str) -> tuple[float, float]:
    """Bounds of an argument's elements, within its domain and away from the ends."""
    low, high = (domain.get(name) if isinstance(domain, dict) else domain) or (None, None)
    first = -2.0 if low is None else low + 0.05
    last = max(2.0, first + 2.0) if high is None else high - 0.05
    return first, last


def _attributes(
    definition: Definition, chosen: dict[str, Any], dtype: core.dtype
) -> dict[str, Any]:
    """Values of the attributes that a call must give: required ones, and those of a variant.

    Numbers ascend, so that a lower bound lies below the upper one.
    """
    values: dict[str, Any] = {}
    inexact = dtype.is_floating_point or dtype.is_complex
    for position, p in enumerate(definition.schema.attributes):
        value = chosen.get(p.name)
        if value is None or isinstance(value, (bool, int, float, str)):
            if p.name in chosen:
                values[p.name] = value
            if p.name in chosen or p.has_default:
                continue
        whole = p.type == "int" or (p.type == "Number" and not inexact)
        values[p.name] = position + 1 if whole else 0.25 + 0.5 * position
    return values


def _variants(definition: Any) -> tuple[dict[str, Any], ...]:
    """The attributes, and the optional tensors, that calls are made with."""
    optional = {p.name for p in definition.schema.tensor_parameters if p.has_default}
    # where every variant is named by the tensors that it takes, a call without any is an error
    if any(optional & set(chosen) for chosen in definition.prebuilt):
        return definition.prebuilt
    return ({}, *definition.prebuilt)


def pointwise_samples(
    definition: Any, S: Samples, bounds: tuple[float, float] | None = None, shape: Any = (3, 4)
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Arguments for every variant that an elementwise definition is built with, as `(args, kwargs)`.

    Tensors have the given shape and elements in `bounds`, by default within the domain.
    """
    fixed = definition.compute or {}
    parameters = definition.schema.parameters
    for chosen in _variants(definition):
        values = _attributes(definition, chosen, S.dtype)
        for p in definition.schema.tensor_parameters:
            if p.has_default and chosen.get(p.name, p.default) is None and p.name not in chosen:
                continue
            low, high = _bounds(definition.domain, p.name) if bounds is None else bounds
            mask = fixed.get(p.name) == "b8"
            values[p.name] = S.mask(*shape) if mask else S(*shape, low=low, high=high)
        positional = []
        for p in parameters:
            if p.keyword_only or p.name not in values:
                break
            positional.append(values.pop(p.name))
        yield tuple(positional), values
