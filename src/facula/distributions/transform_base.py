"""What all transforms have, and those that are made of others or change the shape.

Takes: transforms and tensors. Gives: `Transform`, its inverse, chains, and views of several dimensions
as one event; `transforms.py` has the maps themselves.
Keeps true: `t.inv(t(x))` is `x` where the transform is bijective; a domain or codomain event of
`event_dim` dimensions gives one volume change.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Sequence
from functools import reduce
from typing import Any

import facula
from facula import core
from facula.core.errors import fail
from facula.distributions import constraints
from facula.distributions.utils import sum_rightmost


class Transform:
    """The base class of maps with an inverse and a volume change.

    A subclass defines ``_call(x)``, ``_inverse(y)``, ``log_abs_det_jacobian(x, y)`` and the
    constraints ``domain`` and ``codomain``. Calling it maps, ``inv`` is the inverse transform.

    Args:
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> t = facula.distributions.ExpTransform()
        >>> t.inv(t(facula.tensor(2.0))), t.log_abs_det_jacobian(facula.tensor(2.0), None)
        (tensor(2.), tensor(2.))
    """

    bijective = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            hint = "1 keeps the last value and its result, 0 none"
            fail(ValueError, "Transform", "cache_size must be 0 or 1", cache_size, hint)
        self._cache_size = cache_size
        self._inv: Any = None
        self._cached_x_y: tuple[Any, Any] = (None, None)
        super().__init__()  # a class of programs may be a module beside it

    @property
    def event_dim(self) -> int:
        """The dimensions of an event, where those of domain and codomain agree."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        required = "Please use either .domain.event_dim or .codomain.event_dim"
        fail(ValueError, "Transform", required, hint="the transform changes the dimensions")

    @property
    def inv(self) -> Transform:
        """The inverse transform."""
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> Any:
        """1 or -1: whether the map rises or falls."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same transform with another cache size."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        fail(
            NotImplementedError,
            "with_cache",
            f"{type(self)}.with_cache is not implemented",
            hint="define with_cache(cache_size) in the class: its __init__ takes arguments of its own",
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = object.__hash__

    def __call__(self, x: Any) -> Any:
        if self._cache_size == 0:
            return self._call(x)
        x_old, y_old = self._cached_x_y
        if x is x_old:
            return y_old
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: core.Tensor) -> Any:
        if self._cache_size == 0:
            return self._inverse(y)
        x_old, y_old = self._cached_x_y
        if y is y_old:
            return x_old
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: core.Tensor | None) -> Any:
        raise NotImplementedError

    def _inverse(self, y: core.Tensor) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: core.Tensor, y: core.Tensor) -> Any:
        """The logarithm of the volume change at `x`, where `y` is the image."""
        raise NotImplementedError

    def forward_shape(self, shape: Sequence[int]) -> Any:
        """The shape of the image."""
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        """The shape of the preimage."""
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    """A transform the other way round."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    @property
    def domain(self) -> Any:
        return self._inv.codomain

    @property
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self.inv.with_cache(cache_size).inv

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = object.__hash__

    def __call__(self, x: core.Tensor) -> Any:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: core.Tensor, y: core.Tensor) -> Any:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"


class ComposeTransform(Transform):
    """Several transforms, the first one first.

    Args:
        parts: a list of transforms
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> d = facula.distributions
        >>> t = d.ComposeTransform([d.AffineTransform(0.0, 2.0), d.ExpTransform()])
        >>> t(facula.tensor([0.0]))
        tensor([1.])
    """

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size=cache_size)
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    def _needed(self, codomain: bool) -> tuple[Any, int]:
        """The outer constraint, and how many event dimensions the whole needs there."""
        parts = self.parts if codomain else self.parts[::-1]
        outer = parts[-1].codomain if codomain else parts[-1].domain
        first = parts[0].domain if codomain else parts[0].codomain
        event_dim = first.event_dim
        for part in parts:
            here, there = part.domain.event_dim, part.codomain.event_dim
            if not codomain:
                here, there = there, here
            event_dim = max(event_dim + there - here, there)
        return outer, event_dim - outer.event_dim

    @property
    def domain(self) -> Any:
        if not self.parts:
            return constraints.real
        outer, more = self._needed(False)
        return constraints.independent(outer, more) if more > 0 else outer

    @property
    def codomain(self) -> Any:
        if not self.parts:
            return constraints.real
        outer, more = self._needed(True)
        return constraints.independent(outer, more) if more > 0 else outer

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(p.bijective for p in self.parts)

    @property
    def sign(self) -> Any:
        return reduce(operator.mul, (p.sign for p in self.parts), 1)

    @property
    def inv(self) -> Transform:
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = ComposeTransform([p.inv for p in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: core.Tensor) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: core.Tensor, y: core.Tensor) -> Any:
        if not self.parts:
            return facula.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        terms, event_dim = [], self.domain.event_dim
        for part, before, after in zip(self.parts, values[:-1], values[1:], strict=True):
            change = part.log_abs_det_jacobian(before, after)
            terms.append(sum_rightmost(change, event_dim - part.domain.event_dim))
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return reduce(operator.add, terms)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        inside = ",\n    ".join(repr(p) for p in self.parts)
        return f"{type(self).__name__}(\n    {inside}\n)"


identity_transform: Transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last dimensions count as one event: volume changes are summed over them.

    Args:
        base_transform: what is reread
        reinterpreted_batch_ndims: how many dimensions
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> t = facula.distributions.IndependentTransform(facula.distributions.ExpTransform(), 1)
        >>> t.log_abs_det_jacobian(facula.ones(3), facula.ones(3))
        tensor(3.)
    """

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    @property
    def domain(self) -> Any:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Any:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: object) -> Any:
        return self.base_transform(x)

    def _inverse(self, y: core.Tensor) -> Any:
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: core.Tensor, y: core.Tensor) -> Any:
        change = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(change, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ReshapeTransform(Transform):
    """Events in another shape.

    Args:
        in_shape: their shape
        out_shape: of as many elements
        cache_size: 1 to keep the last value and its image, 0 for none

    Example:
        >>> t = facula.distributions.ReshapeTransform((2, 2), (4,))
        >>> t(facula.ones(3, 2, 2)).shape
        facula.Size([3, 4])
    """

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = facula.Size(in_shape), facula.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            fail(
                ValueError,
                "ReshapeTransform",
                "in_shape, out_shape have different numbers of elements",
                f"{tuple(in_shape)} and {tuple(out_shape)}",
                hint="the shapes are those of one event, without batch dimensions",
            )
        super().__init__(cache_size=cache_size)

    @property
    def domain(self) -> Any:
        return constraints.independent(constraints.real, len(self.in_shape))

    @property
    def codomain(self) -> Any:
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Any) -> Any:
        lead = tuple(x.shape[: x.dim() - len(self.in_shape)])
        return x.reshape(lead + tuple(self.out_shape))

    def _inverse(self, y: core.Tensor) -> Any:
        lead = tuple(y.shape[: y.dim() - len(self.out_shape)])
        return y.reshape(lead + tuple(self.in_shape))

    def log_abs_det_jacobian(self, x: core.Tensor, y: core.Tensor) -> Any:
        return x.new_zeros(tuple(x.shape[: x.dim() - len(self.in_shape)]))

    def _changed(self, shape: Sequence[int], source: Any, target: Any) -> Any:
        cut = len(shape) - len(source)
        if cut < 0 or tuple(shape[cut:]) != tuple(source):
            fail(
                ValueError,
                "ReshapeTransform",
                f"Shape mismatch: expected {tuple(source)}",
                tuple(shape),
                hint="batch dimensions stand in front of the shape",
            )
        return facula.Size(tuple(shape[:cut]) + tuple(target))

    def forward_shape(self, shape: Sequence[int]) -> Any:
        return self._changed(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        return self._changed(shape, self.out_shape, self.in_shape)
