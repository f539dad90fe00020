"""Masks as parametrizations, and names of modules and tensors in a model.

Takes: models, modules and dotted names. Gives: what a sparsifier has to know of a tensor; `FakeSparsity`.
Keeps true: a mask is a buffer that belongs to the sparsifier's state, not to that of the model.
"""

from __future__ import annotations

from typing import Any

import facula
from facula import nn
from facula.core.errors import fail
from facula.nn.utils.parametrize import is_parametrized, type_before_parametrizations

__all__ = [
    "FakeSparsity",
    "fqn_to_module",
    "get_arg_info_from_tensor_fqn",
    "module_contains_param",
    "module_to_fqn",
    "swap_module",
]


def module_contains_param(module: nn.Module, parametrization: type[nn.Module]) -> bool:
    """Whether one of a module's own tensors has a parametrization of this class.

    Args:
        module: the module.
        parametrization: the class.

    >>> from facula.ao.pruning.sparsifier.utils import FakeSparsity, module_contains_param
    >>> module_contains_param(facula.nn.Linear(2, 2), FakeSparsity)
    False
    """
    if not is_parametrized(module):
        return False
    return any(
        isinstance(one, parametrization)
        for chain in module.parametrizations.values()
        for one in chain
    )


def swap_module(mod: nn.Module, mapping: dict[type[nn.Module], type[nn.Module]]) -> nn.Module:
    """The module that stands for `mod` by a mapping of classes, or `mod` where there is none.

    Args:
        mod: the module; its hooks and its device go over.
        mapping: from classes to classes with a method `from_dense`.

    >>> from facula.ao.pruning.sparsifier.utils import swap_module
    >>> layer = facula.nn.ReLU()
    >>> swap_module(layer, {}) is layer
    True
    """
    target = mapping.get(type_before_parametrizations(mod))
    if target is None:
        return mod
    devices = {tensor.device for tensor in (*mod.parameters(), *mod.buffers())}
    if len(devices) > 1:
        fail(
            AssertionError,
            "swap_module",
            "all tensors of the module on one device",
            sorted(map(str, devices)),
            hint="move the module to one device first",
        )
    new = target.from_dense(mod)  # type: ignore[attr-defined]  # what a class of the mapping has
    for hook in mod._forward_pre_hooks.values():
        new.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        new.register_forward_hook(hook)
    return new.to(devices.pop()) if devices else new


def module_to_fqn(model: nn.Module, module: nn.Module, prefix: str = "") -> str | None:
    """The dotted name of a module in a model; None where it is not in it.

    Args:
        model: where to look.
        module: what to look for; the model itself has the name `""`.
        prefix: stands before the name, with a dot.

    >>> from facula.ao.pruning import module_to_fqn
    >>> model = facula.nn.Sequential(facula.nn.Linear(2, 2), facula.nn.ReLU())
    >>> module_to_fqn(model, model[1])
    '1'
    """
    for name, found in model.named_modules():
        if found is module:
            return f"{prefix}.{name}" if prefix and name else prefix or name
    return None


def fqn_to_module(model: nn.Module | None, path: str) -> nn.Module | None:
    """What a dotted name stands for in a model, a module or a tensor; None where there is nothing.

    Args:
        model: where to look.
        path: the name; `""` is the model itself.

    >>> from facula.ao.pruning import fqn_to_module
    >>> model = facula.nn.Sequential(facula.nn.Linear(2, 3))
    >>> fqn_to_module(model, "0.weight").shape
    facula.Size([3, 2])
    """
    found: Any = model
    for part in filter(None, path.split(".")):
        found = getattr(found, part, None)
    return found


def get_arg_info_from_tensor_fqn(model: nn.Module, tensor_fqn: str) -> dict[str, Any]:
    """What a sparsifier's group says of a tensor: its module, both names, and the name in the module.

    Args:
        model: where to look; `module` is None where it has no such module.
        tensor_fqn: the dotted name of the tensor.

    >>> from facula.ao.pruning.sparsifier.utils import get_arg_info_from_tensor_fqn
    >>> model = facula.nn.Sequential(facula.nn.Linear(2, 3))
    >>> found = get_arg_info_from_tensor_fqn(model, "0.weight")
    >>> found["module"] is model[0], found["module_fqn"], found["tensor_name"]
    (True, '0', 'weight')
    """
    module_fqn, _, tensor_name = tensor_fqn.rpartition(".")
    return {
        "module_fqn": module_fqn,
        "module": fqn_to_module(model, module_fqn),
        "tensor_name": tensor_name,
        "tensor_fqn": tensor_fqn,
    }


class FakeSparsity(nn.Module):
    """The parametrization of a sparsified tensor: the tensor times a mask.

    Args:
        mask: a tensor of the other one's shape, whose zeros are kept at zero.

    >>> from facula.ao.pruning import FakeSparsity
    >>> FakeSparsity(facula.tensor([0.0, 1.0]))(facula.tensor([5.0, 6.0]))
    tensor([0., 6.])
    """

    mask: facula.Tensor

    def __init__(self, mask: facula.Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: facula.Tensor) -> facula.Tensor:
        """The tensor times the mask.

        Args:
            x: the original tensor.
        """
        if self.mask.shape != x.shape:
            fail(
                AssertionError,
                "FakeSparsity",
                f"a tensor of the mask's shape, {tuple(self.mask.shape)}",
                tuple(x.shape),
                hint="prepare the model after its layers have their sizes",
            )
        return self.mask * x

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Nothing: masks are saved by the sparsifier.

        Args:
            args, kwargs: not looked at.
        """
        return {}
