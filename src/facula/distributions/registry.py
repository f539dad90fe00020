"""`biject_to` and `transform_to`: from a constraint to a transform out of unconstrained numbers onto it.

Takes: constraints. Gives: transforms. Keeps true: `biject_to` gives bijective ones only.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.distributions import constraints, matrix_transforms, transforms


class ConstraintRegistry:
    """Makes transforms by the class of a constraint: `biject_to` one-to-one ones, `transform_to` any.

    ``registry(constraint)`` gives a transform from unconstrained numbers; ``register(constraint)``
    is the decorator of what makes it.

    Args:
        constraint: an instance of `constraints.Constraint`

    Raises:
        NotImplementedError: at the call, where the constraint's class is not known.

    Example:
        >>> positive = facula.distributions.constraints.positive
        >>> facula.distributions.biject_to(positive)(facula.tensor(-1.0)) > 0
        tensor(True)
        >>> facula.distributions.transform_to(positive)(facula.tensor(-1.0)) > 0
        tensor(True)
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], transforms.Transform]] = {}

    def register(self, constraint: Any, factory: Callable[..., Any] | None = None) -> Any:
        """Enter a factory for a constraint's class; as a decorator without one."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            fail(
                TypeError,
                "register",
                "Expected constraint to be either a Constraint subclass or instance",
                constraint,
                hint="the constraints are in facula.distributions.constraints",
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: constraints.Constraint) -> transforms.Transform:
        factory = self._registry.get(type(constraint))
        if factory is None:
            fail(
                NotImplementedError,
                "transform",
                f"Cannot transform {type(constraint).__name__} constraints",
                hint="register() adds a factory for the constraint",
            )
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(constraint: Any, factory: Callable[[Any], transforms.Transform]) -> None:
    biject_to.register(constraint, factory)
    transform_to.register(constraint, factory)


def _to_interval(constraint: constraints._Interval) -> transforms.Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    plain = isinstance(low, numbers.Number) and isinstance(high, numbers.Number)
    if plain and low == 0 and high == 1:
        return transforms.SigmoidTransform()
    scale = transforms.AffineTransform(low, high - low)
    return transforms.ComposeTransform([transforms.SigmoidTransform(), scale])


def _above(constraint: constraints._GreaterThan) -> transforms.Transform:
    shift = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shift])


def _below(constraint: constraints._LessThan) -> transforms.Transform:
    flip = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), flip])


def _positive(constraint: constraints._GreaterThan) -> transforms.Transform:
    low = constraint.lower_bound
    plain = isinstance(low, numbers.Number) and low == 0
    return transforms.ExpTransform() if plain else _above(constraint)


_both(constraints.real, lambda c: transforms.identity_transform)
_both(constraints.positive, _positive)
_both(constraints.nonnegative, _positive)
_both(constraints.less_than, _below)
_both(constraints.interval, _to_interval)
_both(constraints.half_open_interval, _to_interval)
biject_to.register(constraints.simplex, lambda c: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda c: transforms.SoftmaxTransform())
_both(constraints.lower_cholesky, lambda c: transforms.LowerCholeskyTransform())
_both(constraints.corr_cholesky, lambda c: matrix_transforms.CorrCholeskyTransform())
_both(constraints.positive_definite, lambda c: matrix_transforms.PositiveDefiniteTransform())
_both(constraints.positive_semidefinite, lambda c: matrix_transforms.PositiveDefiniteTransform())


def _independent(registry: ConstraintRegistry) -> Callable[[Any], transforms.Transform]:
    def factory(constraint: constraints._IndependentConstraint) -> transforms.Transform:
        base = registry(constraint.base_constraint)
        return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    return factory


def _joined(registry: ConstraintRegistry, stacked: bool) -> Callable[[Any], transforms.Transform]:
    def factory(constraint: Any) -> transforms.Transform:
        parts = [registry(c) for c in constraint.cseq]
        if stacked:
            return transforms.StackTransform(parts, constraint.dim)
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    return factory


for _registry in (biject_to, transform_to):
    _registry.register(constraints.independent, _independent(_registry))
    _registry.register(constraints.cat, _joined(_registry, False))
    _registry.register(constraints.stack, _joined(_registry, True))
