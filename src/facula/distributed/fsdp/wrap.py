"""Which submodules become units of their own.

Takes: a policy. Gives: PyTorch's policies, `wrap`, `enable_wrap`.
Keeps true: inner modules are wrapped before outer ones; what is wrapped already stays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from facula import nn

__all__ = [
    "CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap", "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy", "transformer_auto_wrap_policy", "wrap", "wrap_children",
]  # fmt: skip


def always_wrap_policy(*args: object, **kwargs: object) -> bool:
    """Every module."""
    return True


def _or_policy(
    module: nn.Module, recurse: bool, nonwrapped_numel: int, policies: Sequence[Callable[..., Any]]
) -> bool:
    """Modules that one of some policies chooses."""
    told = {"module": module, "recurse": recurse, "nonwrapped_numel": nonwrapped_numel}
    return any(policy(**told) for policy in policies)


class ModuleWrapPolicy:
    """Modules of some classes."""

    def __init__(self, module_classes: Iterable[type]) -> None:
        self._classes = tuple(module_classes)

    def __call__(self, module: nn.Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, self._classes)


class CustomPolicy:
    """Modules for which a function is true, or gives the settings of the unit."""

    def __init__(self, lambda_fn: Callable[[nn.Module], Any]) -> None:
        self._function = lambda_fn

    def __call__(self, module: nn.Module, recurse: bool, *args: Any, **kwargs: Any) -> Any:
        return True if recurse else self._function(module)


def lambda_auto_wrap_policy(
    module: nn.Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[..., bool]
) -> bool:
    """Modules for which a function is true."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: nn.Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: Iterable[type]
) -> bool:
    """Modules of the classes of layers."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: nn.Module, recurse: bool, nonwrapped_numel: int, min_num_params: int = int(1e8),
    force_leaf_modules: set[type] | None = None, exclude_wrap_modules: set[type] | None = None,
) -> bool:  # fmt: skip
    """Modules with as many parameters that lie in no inner unit."""
    leaves = force_leaf_modules or {nn.MultiheadAttention}
    excluded = exclude_wrap_modules or {nn.ModuleList, nn.ModuleDict}
    enough = nonwrapped_numel >= min_num_params
    if recurse:
        return enough and not isinstance(module, tuple(leaves))
    return enough and not isinstance(module, tuple(excluded))


def wrap_children(
    module: nn.Module, policy: Any, make: Callable[[nn.Module, dict[str, Any]], nn.Module],
    ignored: set[int], root: bool = True,
) -> tuple[nn.Module, int]:  # fmt: skip
    """Wrap submodules by a policy; gives the module (wrapped, unless it is the root) and how many parameters lie
    in units now."""
    count = sum(p.numel() for p in module.parameters() if id(p) not in ignored)
    if not policy(module=module, recurse=True, nonwrapped_numel=count):
        return module, 0
    wrapped = 0
    for name, child in list(module.named_children()):
        if hasattr(child, "_fsdp_state") or id(child) in ignored:
            continue
        made, inner = wrap_children(child, policy, make, ignored, False)
        module._modules[name] = made
        wrapped += inner
    if root:
        return module, wrapped
    chosen = policy(module=module, recurse=False, nonwrapped_numel=count - wrapped)
    if not chosen:
        return module, wrapped
    return make(module, chosen if isinstance(chosen, dict) else {}), count


_ENABLED: list[tuple[Any, dict[str, Any]]] = []


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """A block in which `wrap` wraps."""
    _ENABLED.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _ENABLED.pop()


def wrap(module: nn.Module, **overrides: Any) -> nn.Module:
    """A module, wrapped in the block of `enable_wrap`, else as it is."""
    if not _ENABLED:
        return module
    kind, options = _ENABLED[-1]
    return kind(module, **{**options, **overrides})
