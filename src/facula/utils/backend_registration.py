"""PyTorch's names for a device that a package adds, on top of `facula.backends`.

Takes a name for the device that PyTorch calls `privateuse1`. Gives `Tensor.is_<name>`,
`Tensor.<name>()`, `Module.<name>()` and `facula.<name>`.
Keeps true: the device itself is `facula.backends.register`'s; a name is given once.
"""

from __future__ import annotations

import sys
from typing import Any

import facula
from facula import core
from facula.core.errors import fail

__all__ = [
    "generate_methods_for_privateuse1_backend", "privateuse1_name", "register_device_module",
    "rename_privateuse1_backend",
]  # fmt: skip

DEFAULT = "privateuseone"
_name = [DEFAULT]


def privateuse1_name() -> str:
    """The name of the device that PyTorch calls `privateuse1`."""
    return _name[0]


def rename_privateuse1_backend(backend_name: str) -> None:
    """Names the device; it can then be registered with `facula.backends.register`.

    Raises:
        RuntimeError: it has another name already, or the name is that of a known device.
    """
    if _name[0] not in (DEFAULT, backend_name):
        required = f"the name '{_name[0]}' was required, which was given before"
        fail(
            RuntimeError,
            "rename_privateuse1_backend",
            required,
            backend_name,
            hint="rename the backend once in a program",
        )
    if backend_name in ("cpu", "meta", "cuda", "mps", "xpu"):
        required = "a name that no known device has was required"
        fail(
            RuntimeError,
            "rename_privateuse1_backend",
            required,
            backend_name,
            hint="take a name that no device has",
        )
    _name[0] = backend_name


def register_device_module(device_type: str, module: Any) -> None:
    """Makes a module `facula.<device_type>`.

    Raises:
        RuntimeError: there is one of that name.
    """
    known = core.device(device_type).type
    if known in vars(facula):
        required = "a device without a module was required"
        fail(
            RuntimeError,
            "register_device_module",
            required,
            f"facula.{known}",
            hint="register it for a device type of another name",
        )
    setattr(facula, known, module)
    sys.modules[f"facula.{known}"] = module


def generate_methods_for_privateuse1_backend(
    for_tensor: bool = True,
    for_module: bool = True,
    for_packed_sequence: bool = True,
    for_storage: bool = False,
    unsupported_dtype: list[Any] | None = None,
) -> None:
    """Adds `Tensor.is_<name>`, `Tensor.<name>()`, `Module.<name>()` and so on.

    Raises:
        RuntimeError: one of them exists.
    """
    name = privateuse1_name()
    if for_tensor:
        _attach(core.Tensor, f"is_{name}", property(lambda self: self.device.type == name))
        _attach(core.Tensor, name, _to_device(name))
    if for_module:
        # lazily: a device can be named without modules
        from facula.nn import Module

        _attach(Module, name, _to_device(name))
    if for_packed_sequence:
        # lazily: as above
        from facula.nn.utils.rnn import PackedSequence

        _attach(PackedSequence, f"is_{name}", property(lambda self: self.data.device.type == name))
        _attach(PackedSequence, name, _to_device(name))
    if for_storage:
        storage = core.UntypedStorage
        _attach(storage, f"is_{name}", property(lambda self: self.device.type == name))


def _to_device(name: str) -> Any:
    def method(
        self: Any,
        device: core.device | str | int | None = None,
        non_blocking: bool = False,
        **options: object,
    ) -> Any:
        index = device if isinstance(device, int) else getattr(device, "index", None)
        target = core.device(name) if index is None else core.device(name, index)
        return self.to(target, **options)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The same on the device `{name}`."
    return method


def _attach(cls: type, name: str, value: object) -> None:
    if hasattr(cls, name):
        required = f"a class without '{name}' was required"
        fail(
            RuntimeError,
            "generate_methods_for_privateuse1_backend",
            required,
            cls.__name__,
            hint="call it once, and before methods of these names are added",
        )
    if cls in (core.Tensor, core.UntypedStorage):
        core.set_type_attribute(cls, name, value)
    else:
        setattr(cls, name, value)
