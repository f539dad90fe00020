"""Modules as functions of their parameters, the way of functorch before `functional_call`.

Takes a module. Gives a function of parameters (and buffers) and inputs, and the parameters.
Keeps true: the module that was given stays as it is; tied parameters are one parameter.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.nn import Module, Parameter
from facula.nn.utils.ensembling import functional_call, stack_module_state

Tensors = tuple[core.Tensor, ...]

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "make_functional",
    "make_functional_with_buffers",
]


def _taken(model: Module, tracked: bool) -> tuple[Module, Tensors, Tensors]:
    """A copy of a module, its parameters and its buffers."""
    twin = copy.deepcopy(model)
    given = [p.detach().clone() for p in model.parameters()]
    parameters = tuple(
        Parameter(p, requires_grad=old.requires_grad) if tracked else p
        for p, old in zip(given, model.parameters(), strict=True)
    )
    return twin, parameters, tuple(b.detach().clone() for b in model.buffers())


class FunctionalModuleWithBuffers(Module):
    """A function ``f(parameters, buffers, *inputs)``: what `make_functional_with_buffers` gives."""

    def __init__(self, stateless_model: Module) -> None:
        super().__init__()
        # in a list: its parameters are no parameters of this module
        self._stateless = [stateless_model]
        self.param_names = [name for name, _ in stateless_model.named_parameters()]
        self.buffer_names = [name for name, _ in stateless_model.named_buffers()]

    @property
    def stateless_model(self) -> Module:
        """The module whose tensors are replaced in a call."""
        return self._stateless[0]

    def _call(self, parameters: Sequence, buffers: Sequence, inputs: Any, named: Any) -> Any:
        names = [*self.param_names, *self.buffer_names]
        values = [*parameters, *buffers]
        if len(names) != len(values):
            fail(
                RuntimeError,
                "make_functional",
                f"{len(names)} tensors were required, for {names}",
                got=str(len(values)),
                hint="pass what make_functional returned, in its order",
            )
        return functional_call(
            self.stateless_model, dict(zip(names, values, strict=True)), inputs, named
        )

    def forward(self, params: Sequence, buffers: Sequence, *args: object, **kwargs: object) -> Any:
        """The module's result with these tensors."""
        return self._call(params, buffers, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A function ``f(parameters, *inputs)`` of a module without buffers: what `make_functional` gives."""

    def forward(self, params: Sequence, *args: object, **kwargs: object) -> Any:
        """The module's result with these parameters."""
        return self._call(params, (), args, kwargs)


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, Tensors]:
    """A function of a module's parameters, and the parameters. `func.functional_call` is the newer way.

    Args:
        model: a module without buffers
        disable_autograd_tracking: whether the parameters ask for no gradient

    Raises:
        RuntimeError: the module has buffers.

    Example:
        >>> import functorch
        >>> function, parameters = functorch.make_functional(facula.nn.Linear(2, 1))
        >>> function(parameters, facula.ones(3, 2)).shape
        facula.Size([3, 1])
    """
    if next(model.buffers(), None) is not None:
        fail(
            RuntimeError,
            "make_functional",
            "a module without buffers was required",
            got=str([name for name, _ in model.named_buffers()]),
            hint="make_functional_with_buffers takes it",
        )
    twin, parameters, _ = _taken(model, not disable_autograd_tracking)
    return FunctionalModule(twin), parameters


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """A function of a module's parameters and buffers, the parameters, and the buffers.

    Args:
        model: a module
        disable_autograd_tracking: whether the parameters ask for no gradient

    Example:
        >>> import functorch
        >>> function, parameters, buffers = functorch.make_functional_with_buffers(
        ...     facula.nn.BatchNorm1d(2)
        ... )
        >>> len(parameters), len(buffers)
        (2, 3)
    """
    twin, parameters, buffers = _taken(model, not disable_autograd_tracking)
    return FunctionalModuleWithBuffers(twin), parameters, buffers


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """A function for `vmap` over models of one class, their stacked parameters and stacked buffers.

    Args:
        models: modules of one class

    Raises:
        RuntimeError: there are none, or of several classes, or some train and some do not.

    Example:
        >>> import functorch
        >>> models = [facula.nn.Linear(2, 1) for _ in range(3)]
        >>> function, parameters, buffers = functorch.combine_state_for_ensemble(models)
        >>> facula.vmap(function, (0, 0, None))(parameters, buffers, facula.ones(4, 2)).shape
        facula.Size([3, 4, 1])
    """
    parameters, buffers = stack_module_state(models)
    function = FunctionalModuleWithBuffers(copy.deepcopy(models[0]))
    return function, tuple(parameters.values()), tuple(buffers.values())
