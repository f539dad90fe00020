"""`Distribution`, the base of all: shapes, checks and what follows from other methods.

Takes: a batch shape, an event shape. Gives: the interface of PyTorch's distributions.
Keeps true: parameters are checked when a distribution is made, and values when a density is asked
for, unless checking is off.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import facula
from facula import core
from facula.core.errors import fail, message
from facula.distributions import constraints
from facula.distributions.utils import lazy_property, sum_rightmost


class Distribution:
    """The base class of distributions over tensors.

    ``sample(shape)`` draws ``shape + batch_shape + event_shape`` numbers, ``rsample`` does so with
    gradients where ``has_rsample``; ``log_prob(value)`` gives ``batch_shape``. ``mean``,
    ``variance``, ``stddev``, ``mode``, ``cdf``, ``icdf``, ``entropy`` and ``enumerate_support`` are
    there where a class has them, ``expand`` gives another batch shape. ``arg_constraints`` and
    ``support`` are sets of `constraints`.

    Args:
        batch_shape: of the parameters
        event_shape: of one value
        validate_args: whether parameters and values are checked; None for the class's setting

    Raises:
        ValueError: a parameter is outside of its constraint.

    Example:
        >>> class Always(facula.distributions.Distribution):
        ...     arg_constraints = {}
        ...     def sample(self, sample_shape=()):
        ...         return facula.ones(self._extended_shape(facula.Size(sample_shape)))
        >>> Always(batch_shape=(2,)).sample((3,)).shape
        facula.Size([3, 2])
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether arguments are checked when nothing else is said."""
        if value not in (True, False):
            fail(
                ValueError,
                "set_default_validate_args",
                "True or False was required",
                value,
                hint="bool(value) converts",
            )
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Any = (),
        event_shape: Any = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = facula.Size(batch_shape)
        self._event_shape = facula.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()
        super().__init__()

    def _validate_parameters(self) -> None:
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            arg_constraints = {}
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set "
                "`arg_constraints = {}` or initialize the distribution with `validate_args=False`.",
                stacklevel=3,
            )
        for name, constraint in arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(
                getattr(type(self), name, None), lazy_property
            ):
                continue
            value = getattr(self, name)
            valid = constraint.check(value)
            if not valid.all():
                raise self._invalid(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) to satisfy the constraint {constraint!r}",
                    value,
                )

    def _invalid(self, required: str, value: core.Tensor) -> ValueError:
        hint = "look for nan and out-of-range values; validate_args=False skips the check"
        return ValueError(message(type(self).__name__, required, f"invalid values:\n{value}", hint))

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Distribution:
        """The distribution with its parameters expanded to another batch shape."""
        return self._expanded(batch_shape, _instance, tuple(self._parameter_names()))

    def _parameter_names(self) -> list[str]:
        """The tensors that make up this distribution: those of its parameters that are set."""
        return [
            name
            for name in self.arg_constraints
            if isinstance(self.__dict__.get(name), facula.Tensor)
        ]

    def _expanded(
        self, batch_shape: Sequence[int], instance: ExponentialFamily | None, names: tuple[str, ...]
    ) -> Any:
        new = self._get_checked_instance(type(self), instance)
        batch_shape = facula.Size(batch_shape)
        for name in names:
            value = getattr(self, name)
            events = value.dim() - len(self._batch_shape)
            tail = tuple(value.shape[value.dim() - events :]) if events > 0 else ()
            setattr(new, name, value.expand(tuple(batch_shape) + tail))
        for name, value in self.__dict__.items():
            if name not in names and not name.startswith("_"):
                new.__dict__.setdefault(name, value)
        if "_param" in self.__dict__:
            new._param = getattr(new, names[0])
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _get_checked_instance(self, cls: Any, _instance: Distribution | None = None) -> Any:
        if _instance is None and type(self).__init__ != cls.__init__:
            fail(
                NotImplementedError,
                "expand",
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method",
                hint="expand() makes an instance with __new__ and parameters of the larger shape",
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Any:
        """The shape over which parameters vary."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one sample of one member of the batch."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """What the parameters must satisfy."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """What the values satisfy."""
        raise NotImplementedError

    @property
    def mean(self) -> Any:
        """The expectation."""
        raise NotImplementedError

    @property
    def mode(self) -> Any:
        """A most likely value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Any:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Any:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Values without a gradient."""
        with facula.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Values with gradients to the parameters, where the distribution has them."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Any:
        """`sample((n,))` (deprecated)."""
        warnings.warn("sample_n will be deprecated. Use .sample((n,)) instead", stacklevel=2)
        return self.sample((n,))

    def log_prob(self, value: core.Tensor) -> Any:
        """The logarithm of the density or probability at a value."""
        raise NotImplementedError

    def cdf(self, value: core.Tensor) -> Any:
        """The probability of values up to this one."""
        raise NotImplementedError

    def icdf(self, value: core.Tensor) -> Any:
        """The value up to which the probability is the given one."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values, along a new first dimension."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return facula.exp(self.entropy())

    def _extended_shape(self, sample_shape: tuple[int, ...] = ()) -> Any:
        return facula.Size(
            tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape)
        )

    def _check_sample_shape(self, value: core.Tensor) -> None:
        if not isinstance(value, facula.Tensor):
            fail(
                ValueError,
                type(self).__name__,
                "The value argument to log_prob must be a Tensor",
                type(value).__name__,
                hint="facula.as_tensor(value) makes one",
            )
        events = len(self._event_shape)
        tail = tuple(value.shape[value.dim() - events :]) if events else ()
        if tail != tuple(self._event_shape):
            fail(
                ValueError,
                type(self).__name__,
                f"The right-most size of value must match event_shape {tuple(self._event_shape)}",
                tuple(value.shape),
                hint="the last dimensions of value are one event",
            )
        expected = tuple(self._batch_shape) + tuple(self._event_shape)
        for i, j in zip(reversed(tuple(value.shape)), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                fail(
                    ValueError,
                    type(self).__name__,
                    "Value is not broadcastable with batch_shape+event_shape",
                    f"{tuple(value.shape)} and {expected}",
                    hint="sizes are equal or 1, from the last dimension on",
                )

    def _validate_sample(self, value: core.Tensor) -> None:
        self._check_sample_shape(value)
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not support.check(value).all():
            # a plain `raise`: the compiler knows that a branch which only raises is not taken
            raise self._invalid(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to "
                f"be within the support ({support!r})",
                value,
            )

    def __repr__(self) -> str:
        names = [k for k in self.arg_constraints if k in self.__dict__]
        shown = ", ".join(
            f"{name}: {value if value.numel() == 1 else value.shape}"
            for name in names
            if isinstance(value := self.__dict__[name], facula.Tensor)
        )
        return f"{type(self).__name__}({shown})"


class ExponentialFamily(Distribution):
    """The base class of densities ``exp(<t(x), p> - A(p) + k(x))``: entropy and divergence follow from
    the gradient of A.

    A subclass defines ``_natural_params``, ``_log_normalizer`` and ``_mean_carrier_measure``.
    [Nielsen & Nock 2010]

    Args:
        batch_shape: of the parameters
        event_shape: of one value
        validate_args: whether parameters and values are checked; None for the class's setting

    Example:
        >>> isinstance(facula.distributions.Gamma(1.0, 1.0), facula.distributions.ExponentialFamily)
        True
    """

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError

    def entropy(self) -> Any:
        """By the derivative of the log-normaliser: its Bregman divergence. [Nielsen & Nock 2010]"""
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*natural)
        gradients = facula.autograd.grad(normalizer.sum(), natural, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for parameter, gradient in zip(natural, gradients, strict=True):
            product = parameter * gradient
            result = result - sum_rightmost(product, len(self._event_shape))
        return result
