"""`Optimizer`: parameter groups, state, hooks and the state dictionary.

Takes parameters, or groups of them with settings of their own.  Gives `step`, `zero_grad` and a
state dictionary that is interchangeable with PyTorch's.
Keeps true: `state` is keyed by parameter, `param_groups` hold the settings; `step` of any subclass
runs the hooks around it.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

import facula
from facula import core
from facula.autograd.grad_mode import enable_grad
from facula.autograd.hooks import RemovableHandle
from facula.autograd.profiler_recorder import recorded_range
from facula.core.errors import fail, no_attribute

__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]

_global_optimizer_pre_hooks: OrderedDict = OrderedDict()
_global_optimizer_post_hooks: OrderedDict = OrderedDict()
ParamsT = Any
StateDict = dict[str, Any]


class _RequiredParameter:
    """Stands for a setting without a default."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def _register(hooks: OrderedDict, hook: Callable, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Run ``hook(optimizer, args, kwargs)`` before every optimizer's step."""
    return _register(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Run ``hook(optimizer, args, kwargs)`` after every optimizer's step."""
    return _register(_global_optimizer_post_hooks, hook)


def _run_with_hooks(self: Any, function: Callable, args: tuple, kwargs: dict) -> Any:
    for hook in chain(
        _global_optimizer_pre_hooks.values(), self._optimizer_step_pre_hooks.values()
    ):
        result = hook(self, args, kwargs)
        if result is None:
            continue
        if not (isinstance(result, tuple) and len(result) == 2):
            fail(
                RuntimeError,
                "Optimizer.step",
                "step pre-hooks that give None or a tuple of (new_args, new_kwargs)",
                got=result,
                hint="return nothing to leave the arguments as they are",
            )
        args, kwargs = result
    out = function(*args, **kwargs)
    for hook in chain(
        self._optimizer_step_post_hooks.values(), _global_optimizer_post_hooks.values()
    ):
        hook(self, args, kwargs)
    return out


def _names_and_parameters(given: list[Any]) -> tuple[list[str] | None, list[Any]]:
    """A group's parameters as a list, and their names where they come in pairs with them."""
    if isinstance(given, core.Tensor):
        given = [given]
    elif isinstance(given, set):
        fail(
            TypeError,
            "optimizer",
            (
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list "
                "instead."
            ),
            hint="sorted() or a list keeps an order",
        )
    params = list(given)
    if not params or not isinstance(params[0], tuple):
        return None, params
    if not all(isinstance(p, tuple) and len(p) == 2 for p in params):
        fail(
            ValueError,
            "optimizer",
            ("all optimizer params should be with/without names. Some param names are missing"),
            hint="pass model.named_parameters(), or model.parameters()",
        )
    return [n for n, _ in params], [p for _, p in params]


def _parameters_by_number(groups: list[dict], saved_groups: list[dict]) -> dict[Any, Any]:
    """The parameters by the numbers that saved groups have for them."""
    if len(groups) != len(saved_groups):
        fail(
            ValueError,
            "load_state_dict",
            "loaded state dict has a different number of parameter groups",
            hint="make the optimizer with the groups that it was saved with",
        )
    sizes = [len(g["params"]) for g in groups], [len(g["params"]) for g in saved_groups]
    if sizes[0] != sizes[1]:
        fail(
            ValueError,
            "load_state_dict",
            (
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            ),
            hint="the model must have the parameters that the state was saved with",
        )
    numbers = chain.from_iterable(g["params"] for g in saved_groups)
    return dict(zip(numbers, chain.from_iterable(g["params"] for g in groups), strict=True))


class Optimizer:
    """The base class of all optimizers: groups of parameters, their state, and hooks.

    A subclass defines ``step``. ``param_groups`` is a list of dictionaries, each with 'params' and
    its settings (change ``group['lr']`` at any time), ``state`` maps parameters to what is kept of
    them. ``state_dict`` and ``load_state_dict`` save and restore both, in PyTorch's format.

    Args:
        params: an iterable of tensors, of (name, tensor) pairs, or of dictionaries with 'params'
            and settings of their own
        defaults: the settings of groups that do not say otherwise

    Raises:
        TypeError: ``params`` is a tensor, or holds something else than tensors.
        ValueError: ``params`` is empty, or a tensor is no leaf or is in two groups.

    Example:
        >>> class SignDescent(facula.optim.Optimizer):
        ...     @facula.no_grad()
        ...     def step(self):
        ...         for group in self.param_groups:
        ...             for p in group["params"]:
        ...                 p.sub_(group["lr"] * p.grad.sign())
        >>> w = facula.nn.Parameter(facula.tensor([1.0, -2.0]))
        >>> optimizer = SignDescent([w], {"lr": 0.5})
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([ 0.5000, -1.5000])
    """

    _optimizer_step_pre_hooks: OrderedDict
    _optimizer_step_post_hooks: OrderedDict

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        for kind in ("step", "state_dict", "load_state_dict"):
            setattr(self, f"_optimizer_{kind}_pre_hooks", OrderedDict())
            setattr(self, f"_optimizer_{kind}_post_hooks", OrderedDict())
        self._patch_step_function()
        if isinstance(params, core.Tensor):
            fail(
                TypeError,
                type(self).__name__,
                "params argument given to the optimizer should be an iterable of Tensors or dicts",
                got=facula.typename(params),
                hint="wrap a single tensor in a list",
            )
        self.state: defaultdict = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups: list = list(params)
        if len(groups) == 0:
            fail(
                ValueError,
                "optimizer",
                "optimizer got an empty parameter list",
                hint=(
                    "list(model.parameters()) shows what it gets; a generator is used up after "
                    "one pass"
                ),
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        self._warned_capturable_if_run_uncaptured = True

    def _patch_step_function(self) -> None:
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"
        step = getattr(type(self), "step", None)
        if step is not None and not getattr(step, "hooked", None):
            type(self).step = self.profile_hook_step(step)  # type: ignore[method-assign]

    @staticmethod
    def profile_hook_step(func: Callable) -> Callable:
        """A step function that runs the hooks around ``func``, where there are any."""

        @functools.wraps(func)
        def wrapper(self: Optimizer, *args: object, **kwargs: object) -> Any:
            if core.is_profiling():
                with recorded_range(f"Optimizer.step#{type(self).__name__}.step"):
                    return _run_with_hooks(self, func, (self, *args), kwargs)
            if not (
                self._optimizer_step_pre_hooks
                or self._optimizer_step_post_hooks
                or _global_optimizer_pre_hooks
                or _global_optimizer_post_hooks
            ):
                return func(self, *args, **kwargs)
            return _run_with_hooks(self, func, (self, *args), kwargs)

        wrapper.hooked = True  # type: ignore[attr-defined]
        return wrapper

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for kind in ("step", "state_dict", "load_state_dict"):
            self.__dict__.setdefault(f"_optimizer_{kind}_pre_hooks", OrderedDict())
            self.__dict__.setdefault(f"_optimizer_{kind}_post_hooks", OrderedDict())
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            for key in sorted(group.keys()):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"

    # hooks ----------------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Run ``hook(optimizer, args, kwargs)`` before `step`; it may return other (args, kwargs)."""
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Run ``hook(optimizer, args, kwargs)`` after `step`."""
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable, prepend: bool = False
    ) -> RemovableHandle:
        """Run ``hook(optimizer)`` before `state_dict`."""
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable, prepend: bool = False
    ) -> RemovableHandle:
        """Run ``hook(optimizer, state_dict)`` after `state_dict`; it may return another."""
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable, prepend: bool = False
    ) -> RemovableHandle:
        """Run ``hook(optimizer, state_dict)`` before `load_state_dict`; it may return another."""
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable, prepend: bool = False
    ) -> RemovableHandle:
        """Run ``hook(optimizer)`` after `load_state_dict`."""
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    _optimizer_state_dict_pre_hooks: OrderedDict
    _optimizer_state_dict_post_hooks: OrderedDict
    _optimizer_load_state_dict_pre_hooks: OrderedDict
    _optimizer_load_state_dict_post_hooks: OrderedDict

    # state dictionary -----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """``{"state": by index, "param_groups": settings with indices in place of parameters}``."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        indices: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            packed = {k: v for k, v in group.items() if k != "params"}
            for parameter in group["params"]:
                indices.setdefault(id(parameter), len(indices))
            packed["params"] = [indices[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {
            (indices[id(k)] if isinstance(k, core.Tensor) else k): v for k, v in self.state.items()
        }
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, result)
            if replaced is not None:
                result = replaced
        return result

    @staticmethod
    def _process_value_according_to_param_policy(
        param: core.Tensor,
        value: Any,
        param_id: int,
        param_groups: list[dict[Any, Any]],
        key: Hashable = None,
    ) -> Any:
        """A state tensor in the parameter's dtype and on its device; step counts stay as they are."""
        if key == "step":
            owner = next((g for g in param_groups if param_id in g["params"]), {})
            if owner.get("capturable") or owner.get("fused"):
                return value.to(dtype=core.float32, device=param.device)
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)

    def _cast_state(
        self, param: Any, value: object, index: int, groups: list, key: core.Tensor | None = None
    ) -> Any:
        if isinstance(value, core.Tensor):
            return self._process_value_according_to_param_policy(param, value, index, groups, key)
        if isinstance(value, dict):
            return {k: self._cast_state(param, v, index, groups, k) for k, v in value.items()}
        if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
            return type(value)(self._cast_state(param, v, index, groups) for v in value)  # type: ignore[call-arg]
        return value

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take settings and state from what `state_dict` gave; the groups must have the same sizes."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            if replaced is not None:
                state_dict = replaced
        groups = self.param_groups
        saved_groups = deepcopy(state_dict["param_groups"])
        parameters = _parameters_by_number(groups, saved_groups)
        state: defaultdict = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in parameters:
                parameter = parameters[key]
                state[parameter] = self._cast_state(
                    parameter, value, key, state_dict["param_groups"]
                )
            else:
                state[key] = value
        new_groups = []
        for group, saved in zip(groups, saved_groups, strict=True):
            saved["params"] = group["params"]
            if "param_names" in group and "param_names" not in saved:
                saved["param_names"] = group["param_names"]
            new_groups.append(saved)
        self.__setstate__({"state": state, "param_groups": new_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # use ------------------------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros."""
        if not core.is_profiling():
            self._zero_grad(set_to_none)
            return
        with recorded_range(self._zero_grad_profile_name):
            self._zero_grad(set_to_none)

    def _zero_grad(self, set_to_none: bool) -> None:
        if set_to_none:
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.grad = None
            return
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    if parameter.grad.grad_fn is not None:
                        parameter.grad.detach_()
                    else:
                        parameter.grad.requires_grad_(False)
                    parameter.grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters; ``closure`` computes the loss again where the method asks for
        that.
        """
        raise NotImplementedError

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group: a dictionary with "params" and any settings that differ from the defaults."""
        if not isinstance(param_group, dict):
            fail(
                TypeError,
                "add_param_group",
                f"param_group must be a dict, but got {type(param_group)}",
                hint="{'params': [...], 'lr': 0.1} is one",
            )
        names, params = _names_and_parameters(param_group["params"])
        param_group["params"] = params
        if names is not None:
            param_group["param_names"] = names
        for parameter in params:
            self._check_parameter(parameter)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                fail(
                    ValueError,
                    "optimizer",
                    (
                        "parameter group didn't specify a value of required optimization parameter "
                        f"{name}"
                    ),
                    hint="give it in every group, or as a default to the optimizer",
                )
            param_group.setdefault(name, default)
        self._check_group(param_group)
        self.param_groups.append(param_group)

    def _check_parameter(self, parameter: core.Tensor) -> None:
        if not isinstance(parameter, core.Tensor):
            fail(
                TypeError,
                "optimizer",
                "optimizer can only optimize Tensors, but one of the params is "
                + facula.typename(parameter),
                hint="model.parameters() gives the tensors of a module",
            )
        leaf = parameter.is_leaf or parameter.retains_grad
        if not self.defaults.get("differentiable", None) and not leaf:
            fail(
                ValueError,
                "optimizer",
                "can't optimize a non-leaf Tensor",
                hint="x.detach().requires_grad_() is a leaf",
            )

    def _check_group(self, group: dict[str, Any]) -> None:
        """Raises where a parameter stands in two groups; warns where it stands twice in one."""
        ids = {id(p) for p in group["params"]}
        if len(ids) != len(group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters: each is changed once "
                "for every time that it is listed",
                stacklevel=4,
            )
        for other in self.param_groups:
            if ("param_names" in other) != ("param_names" in group):
                added = "with" if "param_names" in group else "without"
                fail(
                    ValueError,
                    "optimizer",
                    (
                        "all optimizer param groups should be with/without names. cannot add param "
                        f"group {added} names to the optimizer"
                    ),
                    hint="named_parameters() gives names, parameters() none",
                )
            if any(id(p) in ids for p in other["params"]):
                fail(
                    ValueError,
                    "optimizer",
                    "some parameters appear in more than one parameter group",
                    hint="leave each of them in one group",
                )

    def _cuda_graph_capture_health_check(self) -> None:
        """Nothing to check: there is no capture of graphs on a stream here."""

    _accelerator_graph_capture_health_check = _cuda_graph_capture_health_check

    def _optimizer_step_code(self) -> None:
        """Marks the step for profilers; does nothing."""

    @staticmethod
    def _group_tensors_by_device_and_dtype(tensorlistlist: Any, with_indices: bool = False) -> Any:
        """Rows of lists by the device and dtype of their first tensor, for optimizers outside of facula."""
        # lazily: nothing of facula needs it
        from facula.optim.tensor_groups import _group_tensors_by_device_and_dtype

        return _group_tensors_by_device_and_dtype(tensorlistlist, with_indices)


def run_closure(closure: Callable[[], Any] | None) -> Any:
    """The closure's loss, computed with recording on; None without a closure."""
    if closure is None:
        return None
    with enable_grad():
        return closure()


def __getattr__(name: str) -> Any:
    """What optimizers outside of facula take besides the base class, such as `_use_grad_for_differentiable`."""
    if not name.startswith("__"):
        # lazily: nothing of facula needs it
        from facula.optim import optimizer_helpers

        if hasattr(optimizer_helpers, name):
            return getattr(optimizer_helpers, name)
    raise no_attribute(__name__, name)
