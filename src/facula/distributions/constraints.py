"""Constraints: which values a parameter or a sample may have.

Takes: tensors. Gives: `constraint.check(value)`, true where the value lies in the set; an event of
`event_dim` dimensions gives one answer.
Keeps true: a constraint with parameters of a distribution (`dependent`) is made when its values are
known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import facula
from facula import core
from facula.core.errors import fail

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval",
    "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A set of values; ``check(value)`` says for each event whether it is inside.

    ``is_discrete`` and ``event_dim`` say what its values are.

    Example:
        >>> facula.distributions.constraints.positive.check(facula.tensor([1.0, -1.0]))
        tensor([ True, False])
    """

    is_discrete = False
    event_dim = 0

    def check(self, value: core.Tensor) -> Any:
        """True for every event that lies in the set."""
        raise NotImplementedError

    def __repr__(self) -> str:
        bounds = [f"{k}={v}" for k, v in vars(self).items() if k.endswith("_bound")]
        return f"{type(self).__name__.lstrip('_')}({', '.join(bounds)})"


class _Dependent(Constraint):
    """A set that depends on parameters which are not known yet.

    Args:
        is_discrete: whether its values are; None where that depends on parameters too
        event_dim: dimensions of an event; None likewise

    Example:
        >>> facula.distributions.constraints.dependent(is_discrete=True, event_dim=0).is_discrete
        True
    """

    def __init__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        """Whether values are, where that does not depend on parameters."""
        return self._known("is_discrete", self._is_discrete)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        """Dimensions of an event, where that does not depend on parameters."""
        return self._known("event_dim", self._event_dim)

    def _known(self, name: str, value: object) -> Any:
        if value is None:
            fail(
                NotImplementedError,
                name,
                f".{name} cannot be determined statically",
                hint="ask the support of a distribution, not that of its class",
            )
        return value

    def __call__(
        self, *, is_discrete: bool | None = None, event_dim: int | None = None
    ) -> _Dependent:
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is None else is_discrete,
            event_dim=self._event_dim if event_dim is None else event_dim,
        )

    def check(self, value: core.Tensor) -> Any:
        """Cannot be answered."""
        fail(
            ValueError,
            "constraint",
            "Cannot determine validity of dependent constraint",
            hint="check values against the distribution's support",
        )


class _DependentProperty(property, _Dependent):
    """A property of an instance that is a `dependent` constraint of its class.

    Args:
        fn: the method; None for a decorator with settings
        is_discrete: whether values are
        event_dim: dimensions of an event

    Example:
        >>> facula.distributions.constraints.is_dependent(facula.distributions.Uniform.support)
        True
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: bool | None = None,
        event_dim: int | None = None,
    ) -> None:
        super().__init__(fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[..., Any] | None = None, **options: Any) -> Any:
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """Another constraint, all of whose answers over the last dimensions must be true.

    Args:
        base_constraint: for each element
        reinterpreted_batch_ndims: how many dimensions

    Example:
        >>> c = facula.distributions.constraints
        >>> c.independent(c.positive, 1).check(facula.tensor([[1.0, 2.0], [1.0, -2.0]]))
        tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: core.Tensor) -> Any:
        result = self.base_constraint.check(value)
        if result.dim() < self.reinterpreted_batch_ndims:
            fail(
                ValueError,
                "constraint",
                f"Expected value.dim() >= {self.event_dim}",
                value.dim(),
                hint="unsqueeze() adds dimensions to the value",
            )
        lead = result.dim() - self.reinterpreted_batch_ndims
        return result.reshape(tuple(result.shape[:lead]) + (-1,)).all(-1)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture: that of its components, with their dimension taken off.

    Args:
        base_constraint: of the components

    Example:
        >>> c = facula.distributions.constraints
        >>> c.MixtureSameFamilyConstraint(c.positive).check(facula.tensor([1.0]))
        tensor([True])
    """

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim

    def check(self, value: core.Tensor) -> Any:
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        for _ in range(self.event_dim if result.dim() == value.dim() + 1 else 0):
            result = result.all(-1)
        return result.any(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Boolean(Constraint):
    """0 or 1."""

    is_discrete = True

    def check(self, value: object) -> Any:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    """One 1, the rest 0."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Any:
        boolean = (value == 0) | (value == 1)
        return boolean.all(-1) & value.sum(-1).eq(1)


class _IntegerInterval(Constraint):
    """Whole numbers of a closed interval.

    Args:
        lower_bound, upper_bound: both inside

    Example:
        >>> facula.distributions.constraints.integer_interval(0, 2).check(facula.tensor([2.0, 1.5]))
        tensor([ True, False])
    """

    is_discrete = True

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: core.Tensor) -> Any:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(Constraint):
    """Whole numbers up to a bound."""

    is_discrete = True

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: core.Tensor) -> Any:
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(Constraint):
    """Whole numbers from a bound on."""

    is_discrete = True

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: core.Tensor) -> Any:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    """Any number but NaN."""

    def check(self, value: object) -> Any:
        return value == value


class _GreaterThan(Constraint):
    """Numbers above a bound.

    Args:
        lower_bound: not inside

    Example:
        >>> facula.distributions.constraints.greater_than(0).check(facula.tensor([0.0, 1.0]))
        tensor([False,  True])
    """

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: core.Tensor) -> Any:
        return self.lower_bound < value


class _GreaterThanEq(Constraint):
    """Numbers from a bound on.

    Args:
        lower_bound: inside

    Example:
        >>> facula.distributions.constraints.greater_than_eq(0).check(facula.tensor([0.0, -1.0]))
        tensor([ True, False])
    """

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: core.Tensor) -> Any:
        return self.lower_bound <= value


class _LessThan(Constraint):
    """Numbers below a bound.

    Args:
        upper_bound: not inside

    Example:
        >>> facula.distributions.constraints.less_than(0).check(facula.tensor([0.0, -1.0]))
        tensor([False,  True])
    """

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: core.Tensor) -> Any:
        return value < self.upper_bound


class _Interval(Constraint):
    """Numbers of a closed interval.

    Args:
        lower_bound, upper_bound: both inside

    Example:
        >>> facula.distributions.constraints.interval(0, 1).check(facula.tensor([1.0, 2.0]))
        tensor([ True, False])
    """

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: core.Tensor) -> Any:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(Constraint):
    """Numbers of an interval without its upper end.

    Args:
        lower_bound: inside
        upper_bound: not inside

    Example:
        >>> facula.distributions.constraints.half_open_interval(0, 1).check(facula.tensor([0.0, 1.0]))
        tensor([ True, False])
    """

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: core.Tensor) -> Any:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    """Numbers from 0 on that add up to 1."""

    event_dim = 1

    def check(self, value: core.Tensor) -> Any:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Counts, not negative, that add up to at most a total.

    Args:
        upper_bound: the total

    Example:
        >>> facula.distributions.constraints.multinomial(3).check(facula.tensor([[1.0, 2.0]]))
        tensor([True])
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: core.Tensor) -> Any:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    """Square matrices with zeros above the diagonal."""

    event_dim = 2

    def check(self, value: core.Tensor) -> Any:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(Constraint):
    """Lower triangles with a positive diagonal."""

    event_dim = 2

    def check(self, value: core.Tensor) -> Any:
        triangle = (value.tril() == value).flatten(-2).all(-1)
        return triangle & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """Lower triangles with a positive diagonal and rows of length 1."""

    event_dim = 2

    def check(self, value: core.Tensor) -> Any:
        tolerance = facula.finfo(value.dtype).eps * value.size(-1) * 10
        unit = ((value.square().sum(-1).sqrt() - 1).abs() <= tolerance).all(-1)
        return lower_cholesky.check(value) & unit


class _Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value: core.Tensor) -> Any:
        shape = tuple(value.shape[:-2])
        return facula.full(shape, value.shape[-2] == value.shape[-1], dtype=facula.bool)


class _Symmetric(_Square):
    """Matrices equal to their transpose."""

    def check(self, value: core.Tensor) -> Any:
        square = super().check(value)
        if not square.all():
            return square
        return facula.isclose(value, value.mT, atol=1e-6).all(-1).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: core.Tensor) -> Any:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return facula.linalg.eigvalsh(value).ge(0).all(-1)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices that have a Cholesky factor."""

    def check(self, value: core.Tensor) -> Any:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return facula.linalg.cholesky_ex(value).info.eq(0)


class _Cat(Constraint):
    """Pieces along a dimension, each with a constraint of its own.

    Args:
        cseq: the constraints
        dim: the dimension
        lengths: of the pieces; None for 1 each

    Example:
        >>> c = facula.distributions.constraints
        >>> c.cat([c.positive, c.real]).check(facula.tensor([-1.0, -1.0]))
        tensor([False,  True])
    """

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        self.cseq = list(cseq)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        self.dim = dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(c.event_dim for c in self.cseq)

    def check(self, value: core.Tensor) -> Any:
        checks, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths, strict=True):
            checks.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        return facula.cat(checks, self.dim)


class _Stack(Constraint):
    """Slices along a dimension, each with a constraint of its own.

    Args:
        cseq: the constraints
        dim: the dimension

    Example:
        >>> c = facula.distributions.constraints
        >>> c.stack([c.positive, c.real]).check(facula.tensor([-1.0, -1.0]))
        tensor([False,  True])
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: core.Tensor) -> Any:
        slices = [value.select(self.dim, i) for i in range(value.size(self.dim))]
        return facula.stack([c.check(v) for c, v in zip(self.cseq, slices, strict=True)], self.dim)


def is_dependent(constraint: Constraint) -> bool:
    """Whether a constraint waits for parameters.

    Args:
        constraint: which

    Example:
        >>> facula.distributions.constraints.is_dependent(facula.distributions.constraints.positive)
        False
    """
    return isinstance(constraint, _Dependent)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real: Constraint = _Real()
real_vector = independent(real, 1)
positive: Constraint = _GreaterThan(0.0)
nonnegative: Constraint = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex: Constraint = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky: Constraint = _LowerCholesky()
corr_cholesky: Constraint = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite: Constraint = _PositiveSemidefinite()
positive_definite: Constraint = _PositiveDefinite()
cat = _Cat
stack = _Stack
