"""Which devices there are, and how a package adds one.

Takes backends: objects with `allocate`, `copy`, `fill` and `run` (`docs/adding_a_device.md`), given to
`register` or found under the entry point group `facula.backends` when a device of that name is first
asked for. Gives `register`, `registered`, `get`, `load`, which users find in `facula.backends`.
Keeps true: a device type has one backend; nothing is imported for a device that nobody names.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.devices.arrays import ArrayBackend

__all__ = ["get", "load", "register", "registered"]

GROUP = "facula.backends"
METHODS = ("allocate", "copy", "fill", "run")


def register(name: str, backend: Any) -> Any:
    """Adds a device type and gives its backend.

    Args:
        name: the device's name, for `facula.device(name)`; a Python identifier.
        backend: an object with `allocate(nbytes, device)`, `copy(target, source)`,
            `fill(tensor, value)` and `run(operator, arguments)`; or a mapping from operator names to
            functions on NumPy arrays, for which a backend in host memory is made.

    Raises:
        ValueError: the name is no identifier, or taken.
        TypeError: a method is missing, or a name in the mapping is no operator.
    """
    if not name.isidentifier() or name in ("cpu", "meta"):
        fail(
            ValueError,
            "backends.register",
            "a name of its own was required",
            repr(name),
            hint="a name is an identifier other than 'cpu' and 'meta'",
        )
    if isinstance(backend, Mapping):
        backend = ArrayBackend(name, backend)
    missing = [method for method in METHODS if not callable(getattr(backend, method, None))]
    if missing:
        required = f"a mapping of kernels, or an object with {', '.join(METHODS)}, was required"
        fail(
            TypeError,
            "backends.register",
            required,
            f"{type(backend).__name__} without {missing}",
            hint="define the methods that are missing",
        )
    if name in core.BACKENDS and core.BACKENDS[name] is not backend:
        fail(
            ValueError,
            "backends.register",
            "a device that has no backend was required",
            name,
            hint="take another name for the second backend",
        )
    core.register_backend(name, backend)
    return backend


def registered() -> tuple[str, ...]:
    """The device types with a backend, in order of registration."""
    return tuple(core.BACKENDS)


def get(name: str) -> Any:
    """The backend of a device type, loaded if need be.

    Raises:
        RuntimeError: no package offers one.
    """
    if name not in core.BACKENDS and not load(name):
        hint = "install the package of the device, or call facula.backends.register"
        fail(RuntimeError, "backends", "a device with a backend was required", repr(name), hint)
    return core.BACKENDS[name]


#: devices that come with facula: the module, which says whether one `is_there`, and the class in it
OWN = {"cuda": ("facula.devices.cuda.presence", "facula.devices.cuda", "Cuda")}


def load(name: str) -> bool:
    """Looks for an installed package that offers the device, then for facula's own, and registers it."""
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP, name=name):
        found = entry.load()
        if name not in core.BACKENDS:  # loading may have registered it
            register(name, found() if isinstance(found, type) else found)
        return True
    if name not in OWN:
        return False
    presence, module, backend = OWN[name]
    if not import_module(presence).is_there():
        return False
    register(name, getattr(import_module(module), backend)())
    return True


#: compiled programs ask once, while they are captured
load._facula_constant_result = True  # type: ignore[attr-defined]
