"""What all sparsifiers of weights do: prepare a model, step, save, squash masks, exchange layers.

Takes: a model and what is to be sparsified in it. Gives: `BaseSparsifier`; a subclass has `update_mask`.
Keeps true: a group stands for one tensor, whose mask is one object in the parametrization and in `state`.
"""

from __future__ import annotations

import abc
import copy
from collections import defaultdict
from typing import Any

import facula
from facula import nn
from facula.core.errors import fail
from facula.nn.utils import parametrize

from .utils import (
    FakeSparsity,
    get_arg_info_from_tensor_fqn,
    module_contains_param,
    swap_module,
)

__all__ = ["BaseSparsifier"]

#: layers that are sparsified where a program does not say which
SUPPORTED_MODULES: set[type[nn.Module]] = {nn.Linear}
#: what of a group follows from the model
KEYS_NOT_IN_STATE_DICT = ["module", "module_fqn", "tensor_name"]


class BaseSparsifier(abc.ABC):
    """What computes masks for tensors of a model.

    Args:
        defaults: settings that every group has unless its entry says another; they reach `update_mask`.

    >>> from facula.ao.pruning import WeightNormSparsifier
    >>> model = facula.nn.Sequential(facula.nn.Linear(8, 2))
    >>> sparsifier = WeightNormSparsifier(sparsity_level=0.5)
    >>> sparsifier.prepare(model, config=[{"tensor_fqn": "0.weight"}])
    >>> sparsifier.step()
    >>> int((model[0].weight == 0).sum())
    8
    """

    def __init__(self, defaults: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.defaults: dict[str, Any] = defaults or {}
        self.state: dict[str, dict[str, Any]] = defaultdict(dict)
        self.groups: list[dict[str, Any]] = []
        self.enable_mask_update = True
        self._step_count = 0
        self.model: Any = None
        self.config: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "groups": self.groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.groups):
            if number:
                lines.append("")
            lines.append(f"\tGroup {number}")
            lines += [f"\t    {key}: {group[key]}" for key in sorted(group)]
        return "\n".join([*lines, ")"]) if self.groups else lines[0] + ")"

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` takes: `state`, with the masks, and `groups`, without their modules."""
        return {
            "state": self.state,
            "groups": [
                {key: value for key, value in group.items() if key not in KEYS_NOT_IN_STATE_DICT}
                for group in self.groups
            ],
        }

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Takes over groups and masks of another sparsifier, for the model that this one has prepared.

        Args:
            state_dict: what `state_dict` gave.
            strict: whether a tensor that the model lacks is an error; otherwise its group is left out.
        """
        state, groups = defaultdict(dict, state_dict["state"]), []
        for saved in copy.deepcopy(state_dict["groups"]):
            name = saved["tensor_fqn"]
            found = get_arg_info_from_tensor_fqn(self.model, name)
            tensor = getattr(found["module"], found["tensor_name"], None)
            if tensor is None:
                if not strict:
                    continue
                fail(
                    RuntimeError,
                    "load_state_dict",
                    "a tensor of the prepared model for every group",
                    name,
                    hint="prepare the same model first, or pass strict=False",
                )
            self._attach(found["module"], found["tensor_name"], state[name].get("mask"), tensor)
            groups.append({**saved, **found})
        self.__setstate__({"state": state, "groups": groups})

    def _attach(
        self, module: nn.Module, tensor_name: str, mask: facula.Tensor | None, tensor: facula.Tensor
    ) -> None:
        """Gives a tensor the mask, in the parametrization that it has or in a new one."""
        mask = facula.ones_like(tensor) if mask is None else mask
        if parametrize.is_parametrized(module, tensor_name):
            for one in module.parametrizations[tensor_name]:
                if isinstance(one, FakeSparsity):
                    one.mask = mask
                    return
        parametrize.register_parametrization(module, tensor_name, FakeSparsity(mask))

    def make_config_from_model(
        self, model: nn.Module, SUPPORTED_MODULES: set[type[nn.Module]] = SUPPORTED_MODULES
    ) -> None:
        """Sets `config` to the weights of all layers of some classes.

        Args:
            model: where to look.
            SUPPORTED_MODULES: the classes; a subclass does not count.
        """
        self.config = []
        waiting = [("", model)]
        while waiting:
            prefix, module = waiting.pop()
            for name, child in module.named_children():
                if type(child) in SUPPORTED_MODULES:
                    self.config.append({"tensor_fqn": f"{prefix}{name}.weight"})
                else:
                    waiting.append((f"{prefix}{name}.", child))

    def prepare(self, model: nn.Module, config: list[dict[str, Any]] | None) -> None:
        """Gives every tensor that is to be sparsified a mask of ones.

        Args:
            model: the model, which is changed.
            config: a dictionary for each tensor: `tensor_fqn`, its dotted name, and settings that
                differ from the defaults; None takes the weights of all linear layers.
        """
        self.model = model
        self.config = config
        if self.config is None:
            self.make_config_from_model(model)
        for entry in self.config:
            if not isinstance(entry, dict):
                fail(
                    AssertionError,
                    "prepare",
                    "config elements should be dicts",
                    entry,
                    hint='write [{"tensor_fqn": "layer.weight"}, ...], not modules',
                )
            self.groups.append(self._group_of(model, entry))
        self._prepare()

    def _group_of(self, model: nn.Module, entry: dict[str, Any]) -> dict[str, Any]:
        """The group that an entry asks for: the defaults, what it says, and what the model says."""
        name = entry.get("tensor_fqn")
        if name is None:
            fail(
                AssertionError,
                "prepare",
                "tensor_fqn is a required argument in the sparsity config",
                sorted(entry),
                hint='name the tensor: {"tensor_fqn": "layer.weight"}',
            )
        found = get_arg_info_from_tensor_fqn(model, name.removeprefix("."))
        for key, value in found.items():
            if key in entry and entry[key] not in (value, f".{value}"):
                fail(
                    AssertionError,
                    "prepare",
                    f"Given both `{key}` and `tensor_fqn` in the config, it is expected them to agree!",
                    f"{entry[key]} beside {name}",
                    hint=f"leave {key} out",
                )
        return {**self.defaults, **entry, **found}

    def _prepare(self, *args: Any, **kwargs: Any) -> None:
        """Registers the masks of all groups."""
        for group in self.groups:
            tensor = getattr(group["module"], group["tensor_name"])
            mask = group.get("mask", None)
            mask = facula.ones_like(tensor) if mask is None else mask
            self.state[group["tensor_fqn"]]["mask"] = mask
            parametrize.register_parametrization(
                group["module"],
                group["tensor_name"],
                group.get("parametrization", FakeSparsity)(mask),
            )

    def squash_mask(
        self,
        params_to_keep: tuple[str, ...] | None = None,
        params_to_keep_per_layer: dict[str, tuple[str, ...]] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Multiplies the masks into the tensors and takes them off.

        Args:
            params_to_keep: settings of a group that its module keeps in `sparse_params`.
            params_to_keep_per_layer: more of them, by the name of the module.
            args, kwargs: for subclasses.

        >>> from facula.ao.pruning import WeightNormSparsifier
        >>> model = facula.nn.Sequential(facula.nn.Linear(8, 2))
        >>> sparsifier = WeightNormSparsifier()
        >>> sparsifier.prepare(model, None)
        >>> sparsifier.squash_mask(params_to_keep=("sparsity_level",))
        >>> model[0].sparse_params
        {'sparsity_level': 0.5}
        """
        for group in self.groups:
            module = group["module"]
            parametrize.remove_parametrizations(
                module, group["tensor_name"], leave_parametrized=True
            )
            kept = list(params_to_keep or ())
            kept += (params_to_keep_per_layer or {}).get(group["module_fqn"], ())
            if kept:
                module.sparse_params = {key: group[key] for key in kept}

    def convert(
        self,
        module: nn.Module,
        mapping: dict[type[nn.Module], type[nn.Module]] | None = None,
        inplace: bool = False,
        parameterization: type[nn.Module] = FakeSparsity,
    ) -> nn.Module:
        """Exchanges the sparsified layers in a model.

        Args:
            module: the model.
            mapping: from classes of layers to classes with `from_dense`, which makes the new layer.
            inplace: whether to change the model instead of a copy.
            parameterization: what marks a layer as sparsified.
        """
        if mapping is None:
            fail(
                NotImplementedError,
                "convert",
                "a mapping of classes (Need to auto generate mapping)",
                None,
                hint="pass mapping={nn.Linear: YourSparseLinear}",
            )
        if not inplace:
            module = copy.deepcopy(module)
        for name, child in list(module.named_children()):
            if module_contains_param(child, parameterization):
                module._modules[name] = swap_module(child, mapping)
            else:
                self.convert(child, mapping, inplace=True, parameterization=parameterization)
        return module

    def step(self, use_path: bool = True) -> None:
        """Computes all masks anew, where `enable_mask_update` is on.

        Args:
            use_path: not looked at.
        """
        if not self.enable_mask_update:
            return
        with facula.no_grad():
            for group in self.groups:
                self.update_mask(**group)

    @abc.abstractmethod
    def update_mask(self, module: nn.Module, tensor_name: str, **kwargs: Any) -> None:
        """Changes the mask of one tensor.

        Args:
            module: the module that has it.
            tensor_name: its name there; the mask is `module.parametrizations[tensor_name][0].mask`.
            kwargs: the other entries of the group.
        """
