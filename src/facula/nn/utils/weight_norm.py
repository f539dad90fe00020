"""Weight normalization by a hook: `weight = g * v / |v|`. [Salimans & Kingma 2016]

Takes a module.  Gives it with `name` replaced by the parameters `name_g` and `name_v`.
Keeps true: the weight is computed before every forward.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import facula
from facula import core
from facula.core.errors import fail
from facula.nn.parameter import Parameter, is_lazy
from facula.nn.utils.forward_pre_hooks import take_off

if TYPE_CHECKING:
    from facula.nn.modules.module import Module


__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


def norm_except_dim(v: core.Tensor, pow: int = 2, dim: int = 0) -> Any:
    """The norms of the slices along ``dim``, in a shape that broadcasts; of everything for -1."""
    if dim == -1:
        return facula.linalg.vector_norm(v, pow)
    others = [d for d in range(v.dim()) if d != dim % v.dim()]
    return facula.linalg.vector_norm(v, pow, others, True) if others else v.abs()


class WeightNorm:
    """The hook that computes the weight."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """The weight from its magnitude and direction."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / norm_except_dim(v, 2, self.dim))

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Put weight normalization on a parameter."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                fail(
                    RuntimeError,
                    "weight_norm",
                    f"Cannot register two weight_norm hooks on the same parameter {name}",
                    hint="remove_weight_norm(module, name) takes the first off",
                )
        function = WeightNorm(name, dim)
        weight = getattr(module, name)
        if is_lazy(weight):
            fail(
                ValueError,
                "weight_norm",
                (
                    "The module passed to `WeightNorm` can't have uninitialized parameters. Make "
                    "sure to run the dummy forward before applying weight normalization"
                ),
                hint="one call of the module makes its parameters",
            )
        del module._parameters[name]
        norm = norm_except_dim(weight, 2, function.dim)
        module.register_parameter(name + "_g", Parameter(norm.data))
        module.register_parameter(name + "_v", Parameter(weight.data))
        setattr(module, name, function.compute_weight(module))
        module.register_forward_pre_hook(function)
        return function

    def remove(self, module: Module) -> None:
        """Make the present weight an ordinary parameter."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"]
        del module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Any:
    """Computes a parameter as ``g * v / |v|`` before each call; g and v are learned (older form of
    `nn.utils.parametrizations.weight_norm`). [Salimans & Kingma 2016]

    Args:
        module: whose parameter it is
        name: the parameter's name
        dim: the dimension of which each slice has a g of its own; None for one g

    Returns:
        the module, with ``<name>_g`` and ``<name>_v``.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", FutureWarning)
        ...     layer = facula.nn.utils.weight_norm(facula.nn.Linear(4, 3))
        >>> layer.weight_g.shape, layer.weight_v.shape
        (facula.Size([3, 1]), facula.Size([3, 4]))
    """
    warnings.warn(
        "`weight_norm` is deprecated in favor of `parametrizations.weight_norm`",
        FutureWarning,
        stacklevel=2,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Any:
    """Takes `weight_norm` off: the parameter keeps its present value.

    Args:
        module: whose parameter it is
        name: the parameter's name

    Raises:
        ValueError: there is none of that name.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", FutureWarning)
        ...     layer = facula.nn.utils.weight_norm(facula.nn.Linear(4, 3))
        >>> [name for name, _ in facula.nn.utils.remove_weight_norm(layer).named_parameters()]
        ['bias', 'weight']
    """
    if take_off(module, lambda hook: isinstance(hook, WeightNorm) and hook.name == name):
        return module
    fail(
        ValueError,
        "remove_weight_norm",
        f"weight_norm of '{name}' not found in {module}",
        hint="weight_norm(module, name) puts it there",
    )
