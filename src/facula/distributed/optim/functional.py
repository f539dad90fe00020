"""Optimizers that are told gradients: for parameters that several threads or contexts compute gradients of.

Takes: parameters and options. Gives: objects whose `step(gradients)` updates them.
Keeps true: updates are those of `facula.optim`; the gradients that parameters have stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from facula import optim
from facula.core.errors import fail

__all__: list[str] = []


class _Functional:
    """An optimizer of a kind, without groups."""

    kind: ClassVar[type[optim.Optimizer]]

    def __init__(
        self,
        params: Sequence[Any],
        *args: Any,
        _allow_empty_param_list: bool = False,
        **options: Any,
    ) -> None:
        """Take parameters.

        Args:
            args, options: those of the optimizer
            _allow_empty_param_list: whether parameters may come with `step_param` alone
        """
        params = list(params)
        if not params and not _allow_empty_param_list:
            fail(ValueError, type(self).__name__, "parameters were required (optimizer got an empty parameter list)",
                 "none", hint="pass those that are trained")  # fmt: skip
        self._args, self._options = args, options
        self._inner: Any = None
        self.param_group: dict[str, Any] = {"params": params}
        if params:
            self._know(params)

    def _know(self, params: Sequence[Any]) -> None:
        """Make the optimizer, or have it know more parameters."""
        if self._inner is None:
            self._inner = self.kind(list(params), *self._args, **self._options)
            return
        known = {id(p) for p in self._inner.param_groups[0]["params"]}
        self._inner.param_groups[0]["params"] += [p for p in params if id(p) not in known]

    @property
    def state(self) -> Any:
        """The state of each parameter."""
        return {} if self._inner is None else self._inner.state

    def _update(self, pairs: list[tuple[Any, Any]]) -> None:
        """Update parameters by gradients; those without one stay."""
        self._know([p for p, _ in pairs])
        group = self._inner.param_groups[0]
        every, before = group["params"], [(p, p.grad) for p, _ in pairs]
        try:
            group["params"] = [p for p, grad in pairs if grad is not None]
            for p, grad in pairs:
                p.grad = grad
            self._inner.step()
        finally:
            group["params"] = every
            for p, grad in before:
                p.grad = grad

    def step_param(self, param: Any, grad: Any) -> None:
        """Update one parameter by a gradient."""
        self._update([(param, grad)])

    def step(self, gradients: Sequence[Any]) -> None:
        """Update all parameters by a gradient each; None for none.

        Raises:
            ValueError: there are more or fewer than parameters.
        """
        params = self.param_group["params"]
        if len(params) != len(gradients):
            fail(ValueError, type(self).__name__, f"{len(params)} gradients were required (the gradients passed in "
                 "does not equal to the size of the parameters!)", len(gradients),
                 hint="None stands for a parameter without one")  # fmt: skip
        self._update(list(zip(params, gradients, strict=True)))


class _FunctionalSGD(_Functional):
    kind = optim.SGD


class _FunctionalAdam(_Functional):
    kind = optim.Adam


class _FunctionalAdamW(_Functional):
    kind = optim.AdamW


class _FunctionalAdamax(_Functional):
    kind = optim.Adamax


class _FunctionalAdagrad(_Functional):
    kind = optim.Adagrad


class _FunctionalAdadelta(_Functional):
    kind = optim.Adadelta


class _FunctionalRMSprop(_Functional):
    kind = optim.RMSprop


class _FunctionalRprop(_Functional):
    kind = optim.Rprop


#: by the optimizer that does the same
KINDS: dict[type, type] = {one.kind: one for one in _Functional.__subclasses__()}
