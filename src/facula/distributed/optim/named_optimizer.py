"""`_NamedOptimizer`: an optimizer whose state is kept under the names of parameters.

Takes: named parameters and a class of optimizers. Gives: an optimizer.
Keeps true: updates are those of the inner optimizer; a state may be loaded into one with more or fewer parameters, as
long as those that both have agree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from facula import core
from facula.core.errors import fail
from facula.ops.table.registry import F
from facula.optim import Optimizer

if TYPE_CHECKING:
    from facula.nn import Module

__all__: list[str] = []


class _NamedOptimizer(Optimizer):
    """An optimizer whose state is kept under names.

    Args:
        named_parameters: names and parameters, as `module.named_parameters()` gives them
        optimizer_class: what updates them
        param_groups: groups of parameters; default: one of all
        module: the module, whose names count where it is given
        args, kwargs: options of `optimizer_class`
    """

    def __init__(
        self, named_parameters: Mapping[str, Any] | Iterable[tuple[str, Any]], optimizer_class: type[Optimizer],
        param_groups: Collection[Mapping[str, Any]] | None = None, module: Module | None = None,
        *args: Any, **kwargs: Any,
    ) -> None:  # fmt: skip
        self.module = module
        self.named_parameters: dict[str, Any] = dict(named_parameters)
        given: list[Any] = [dict(group) for group in param_groups or ()]
        for group in given:
            group["params"] = self._listed(group["params"])
        chosen = given or list(self.named_parameters.values())
        self._optimizer = optimizer_class(chosen, *args, **kwargs)
        self.param_groups = self._optimizer.param_groups

    @staticmethod
    def _listed(params: Any) -> list[Any]:
        return [params] if isinstance(params, core.Tensor) else list(params)

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The inner optimizer's state, by parameter."""
        return self._optimizer.state

    def _names(self) -> dict[int, str]:
        return {id(p): name for name, p in self.named_parameters.items()}

    def state_dict(self) -> dict[str, Any]:
        """The state by the names of parameters."""
        names = self._names()
        groups = [
            {**group, "params": [names[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {names[id(p)]: value for p, value in self.state.items() if id(p) in names}
        return {"state": state, "param_groups": groups}

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters."""
        return self._optimizer.step() if closure is None else self._optimizer.step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients, or set them to 0."""
        self._optimizer.zero_grad(set_to_none=set_to_none)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the entries of parameters that this optimizer has, in place.

        Raises:
            ValueError: this one has no state yet (`init_state` makes it), or an entry lacks a part of it.
        """
        mine = self.state_dict()
        if not mine["state"]:
            fail(ValueError, "_NamedOptimizer", "a state to write to was required (Expects the optim to be initialized "
                 "before load but found not initialized)", "none", hint="call init_state() first")  # fmt: skip
        recording = core.set_grad_enabled(False)
        try:
            for name in mine["state"].keys() & state_dict["state"].keys():
                self._take(name, mine["state"][name], state_dict["state"][name])
        finally:
            core.set_grad_enabled(recording)
        given = {frozenset(group["params"]): group for group in state_dict["param_groups"]}
        for group, own in zip(mine["param_groups"], self.param_groups, strict=True):
            source = given.get(frozenset(group["params"]), {})
            own.update({key: value for key, value in source.items() if key != "params"})

    @staticmethod
    def _take(name: str, mine: dict[str, Any], given: Mapping[str, Any]) -> None:
        for key, value in mine.items():
            if key not in given:
                fail(ValueError, "_NamedOptimizer", f"a state with {key} was required for {name}", sorted(given),
                     hint="load a state of the same kind of optimizer")  # fmt: skip
            if isinstance(value, core.Tensor) and value.shape == given[key].shape:
                value.copy_(given[key])
            else:
                mine[key] = given[key]

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Update more parameters; they are the module's.

        Raises:
            ValueError: one is not.
        """
        group = {**param_group, "params": self._listed(param_group["params"])}
        if self.module is not None:
            self.named_parameters |= dict(self.module.named_parameters())
        names = self._names()
        if any(id(p) not in names for p in group["params"]):
            fail(ValueError, "_NamedOptimizer", "parameters with names were required (some parameters are not in the "
                 "module)", "others", hint="pass the module, or its named_parameters()")  # fmt: skip
        self._optimizer.add_param_group(group)

    def init_state(self) -> None:
        """Make the state that a first step would make, and change no parameter."""
        every = [p for group in self.param_groups for p in group["params"] if p.requires_grad]
        kept = [p.detach().clone() for p in every]
        for p in every:
            p.grad = F.zeros_like(p.detach())
        self.step()
        recording = core.set_grad_enabled(False)
        try:
            for p, before in zip(every, kept, strict=True):
                p.copy_(before)
        finally:
            core.set_grad_enabled(recording)
