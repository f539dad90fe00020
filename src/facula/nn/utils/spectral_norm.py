"""Spectral normalization by a hook: the weight divided by its largest singular value. [Miyato et
al. 2018]

Takes a module.  Gives it with `name` computed from `name_orig` and the power iteration's vector
`name_u`.
Keeps true: the vectors move only in training mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import facula
from facula import core
from facula.autograd.grad_mode import no_grad
from facula.core.errors import fail
from facula.nn import functional as F
from facula.nn.modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from facula.nn.parameter import Parameter, is_lazy
from facula.nn.utils.forward_pre_hooks import take_off

if TYPE_CHECKING:
    from facula.nn.modules.module import Module


__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]


class SpectralNorm:
    """The hook that computes the weight."""

    _version = 1

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            fail(
                ValueError,
                "spectral_norm",
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}",
                hint="n_power_iterations=1 is the default",
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: core.Tensor) -> Any:
        """The weight with ``dim`` first and the rest joined."""
        if self.dim != 0:
            rest = [d for d in range(weight.dim()) if d != self.dim]
            weight = weight.permute(self.dim, *rest)
        return weight.reshape(weight.size(0), -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Any:
        """The normalised weight; the vectors get better by ``n_power_iterations`` steps where
        asked.
        """
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(facula.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(facula.mv(matrix, v), dim=0, eps=self.eps))
                # later steps change the buffers in place: the graph needs the present values
                u = u.clone()
                v = v.clone()
        return weight / facula.dot(u, facula.mv(matrix, v))

    def remove(self, module: Module) -> None:
        """Make the present weight an ordinary parameter."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        delattr(module, self.name)
        for suffix in ("_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Put spectral normalization on a parameter."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                fail(
                    RuntimeError,
                    "spectral_norm",
                    f"Cannot register two spectral_norm hooks on the same parameter {name}",
                    hint="remove_spectral_norm(module, name) takes the first off",
                )
        function = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        _check_weight(weight, name)
        with no_grad():
            matrix = function.reshape_weight_to_matrix(weight)
            height, width = matrix.size()
            u = F.normalize(weight.new_empty(height).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(weight.new_empty(width).normal_(0, 1), dim=0, eps=eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # a plain tensor until the first forward, so that the attribute is there
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(function)
        module._register_state_dict_hook(_StateDictHook(function))
        module._register_load_state_dict_pre_hook(_LoadStateDictPreHook(function))
        return function


def _check_weight(weight: core.Tensor, name: str) -> None:
    if weight is None:
        fail(
            ValueError,
            "spectral_norm",
            f"`SpectralNorm` cannot be applied as parameter `{name}` is None",
            hint="assign the parameter first",
        )
    if is_lazy(weight):
        fail(
            ValueError,
            "spectral_norm",
            (
                "The module passed to `SpectralNorm` can't have uninitialized parameters. "
                "Make sure to run the dummy forward before applying spectral normalization"
            ),
            hint="one call of the module makes its parameters",
        )


class _StateDictHook:
    """Notes the format's version beside the module's own."""

    def __init__(self, function: SpectralNorm) -> None:
        self.function = function

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: dict) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        versions[self.function.name + ".version"] = SpectralNorm._version


class _LoadStateDictPreHook:
    """Makes entries of version 0 (a weight, no ``v``) into those of version 1."""

    def __init__(self, function: SpectralNorm) -> None:
        self.function = function

    def __call__(
        self,
        state_dict: dict,
        prefix: str,
        local_metadata: dict,
        strict: bool,
        missing_keys: list,
        unexpected_keys: list,
        error_msgs: list,
    ) -> None:
        name = self.function.name
        version = local_metadata.get("spectral_norm", {}).get(name + ".version", None)
        key = prefix + name
        if version is not None and version >= 1:
            return
        present = [key + suffix in state_dict for suffix in ("_orig", "_u")]
        if not all(present) or key + "_v" in state_dict or key not in state_dict:
            return
        with no_grad():
            matrix = self.function.reshape_weight_to_matrix(state_dict[key + "_orig"])
            u = state_dict[key + "_u"]
            sigma = (state_dict[key + "_orig"] / state_dict.pop(key)).mean()
            # v solves u' W v = sigma with W'W v in the direction of W'u
            v = facula.linalg.pinv(matrix.t() @ matrix) @ (matrix.t() @ u.unsqueeze(1))
            v = v.squeeze(1)
            state_dict[key + "_v"] = v.mul_(sigma / facula.dot(u, facula.mv(matrix, v)))


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Any:
    """Divides a parameter by its largest singular value, by power iteration (older form of
    `nn.utils.parametrizations.spectral_norm`). [Miyato et al. 2018]

    Args:
        module: whose parameter it is
        name: the parameter's name
        n_power_iterations: iterations before each call in training
        eps: the least norm that divides
        dim: the dimension of outputs; None for 1 in transposed convolutions and 0 in others

    Returns:
        the module, with ``<name>_orig``.

    Example:
        >>> layer = facula.nn.utils.spectral_norm(facula.nn.Linear(4, 3))
        >>> [name for name, _ in layer.named_parameters()]
        ['bias', 'weight_orig']
    """
    if dim is None:
        transposed = isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d))
        dim = 1 if transposed else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Any:
    """Takes `spectral_norm` off: the parameter keeps its present value.

    Args:
        module: whose parameter it is
        name: the parameter's name

    Raises:
        ValueError: there is none of that name.

    Example:
        >>> layer = facula.nn.utils.spectral_norm(facula.nn.Linear(4, 3))
        >>> [name for name, _ in facula.nn.utils.remove_spectral_norm(layer).named_parameters()]
        ['bias', 'weight']
    """
    if not take_off(module, lambda hook: isinstance(hook, SpectralNorm) and hook.name == name):
        fail(
            ValueError,
            "remove_spectral_norm",
            f"spectral_norm of '{name}' not found in {module}",
            hint="spectral_norm(module, name) puts it there",
        )
    for hooks, kind in (
        (module._state_dict_hooks, _StateDictHook),
        (module._load_state_dict_pre_hooks, _LoadStateDictPreHook),
    ):
        for key, hook in list(hooks.items()):
            inner = getattr(hook, "hook", hook)
            if isinstance(inner, kind) and inner.function.name == name:
                del hooks[key]
    return module
