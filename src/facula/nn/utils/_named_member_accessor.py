"""One tensor of a module in place of another, under PyTorch's name."""

from __future__ import annotations

from facula import core
from facula.core.errors import fail
from facula.nn.modules.module import Module

__all__ = ["swap_tensor"]


def swap_tensor(
    module: Module, name: str, tensor: core.Tensor | None, allow_missing: bool = False
) -> core.Tensor | None:
    """Set the parameter, buffer or attribute `name` of a module, and give what was there before.

    Args:
        module: it is changed
        name: of one of its own tensors, without a dot
        tensor: the new one; None takes an attribute away
        allow_missing: whether there may be none before

    Raises:
        KeyError: the name has a dot in it.
        AttributeError: there is no such tensor.
        TypeError: what is there, or what is given, is no tensor.
    """
    if "." in name:
        fail(
            KeyError,
            "swap_tensor",
            "tensor name can't contain a dot",
            got=name,
            hint="get_submodule() gives the module that holds it",
        )
    for entries in (module._parameters, module._buffers, module.__dict__):
        if name in entries:
            before = entries[name]
            break
    else:
        if not allow_missing:
            fail(
                AttributeError,
                "swap_tensor",
                f"{module._get_name()} has no attribute `{name}`",
                hint="allow_missing=True adds it",
            )
        entries, before = module.__dict__, None
    for value in (before, tensor):
        if value is not None and not isinstance(value, core.Tensor):
            fail(
                TypeError,
                "swap_tensor",
                f"a tensor was required as `{name}`",
                got=str(type(value)),
                hint="setattr() sets attributes of other kinds",
            )
    if tensor is None and entries is module.__dict__:
        entries.pop(name, None)
    else:
        entries[name] = tensor
    return before
