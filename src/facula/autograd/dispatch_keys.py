"""PyTorch's dispatch keys, as far as programs switch layers off with them.

Takes: keys and sets of keys. Gives: `DispatchKey`, `DispatchKeySet`, and a guard under which the layers of
a set do nothing: autocast of a device type, or the recording of history.
Keeps true: a layer that facula cannot leave out alone is an error that names it; leaving the guard
restores what held before.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from enum import Enum
from typing import Any

from facula import core
from facula.autograd import autocast
from facula.core.errors import fail

__all__ = ["DispatchKey", "DispatchKeySet", "ExcludeDispatchKeyGuard", "excluded_keys"]

_DEVICES = ("CPU", "CUDA", "HIP", "XLA", "MPS", "IPU", "XPU", "HPU", "VE", "Lazy", "MTIA", "MAIA",
            "PrivateUse1", "PrivateUse2", "PrivateUse3", "Meta")  # fmt: skip
_PER_DEVICE = ("", "Quantized", "Sparse", "SparseCsr", "NestedTensor", "Autograd")
_LAYERS = (
    "Dense", "Quantized", "Sparse", "SparseCsr", "NestedTensor", "BackendSelect", "Python",
    "Functionalize", "Conjugate", "Negative", "ZeroTensor", "ADInplaceOrView", "AutogradOther",
    "AutogradFunctionality", "AutogradNestedTensor", "Autograd", "AutocastCPU", "AutocastXPU",
    "AutocastIPU", "AutocastHPU", "AutocastMPS", "AutocastCUDA", "AutocastPrivateUse1",
    "FuncTorchBatched", "FuncTorchBatchedDecomposition", "FuncTorchVmapMode",
    "FuncTorchGradWrapper", "FuncTorchDynamicLayerBackMode", "FuncTorchDynamicLayerFrontMode",
    "PreDispatch", "PythonTLSSnapshot", "PythonDispatcher", "CompositeImplicitAutograd",
    "CompositeImplicitAutogradNestedTensor", "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)  # fmt: skip
_NAMES = ("Undefined", *dict.fromkeys([*(k + d for k in _PER_DEVICE for d in _DEVICES), *_LAYERS]))

#: the kinds of work that an operator may meet on its way, by PyTorch's names
DispatchKey = Enum("DispatchKey", [(name, place) for place, name in enumerate(_NAMES)])  # type: ignore[misc]


class DispatchKeySet:
    """An immutable set of keys; `|`, `&` and `-` combine sets."""

    def __init__(self, keys: Any = ()) -> None:
        single = isinstance(keys, DispatchKey)
        self._keys = frozenset((keys,) if single else keys) - {DispatchKey["Undefined"]}

    def has(self, key: object) -> bool:
        """Whether a key is in the set."""
        return key in self._keys

    def add(self, key: object) -> DispatchKeySet:
        """The set with a key more."""
        return DispatchKeySet(self._keys | {key})

    def remove(self, key: core.Tensor) -> DispatchKeySet:
        """The set without a key."""
        return DispatchKeySet(self._keys - {key})

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys | other._keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys & other._keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys - other._keys)

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(self._keys, key=lambda key: key.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def highestPriorityTypeId(self) -> Any:  # noqa: N802 - PyTorch's name
        """The key that is asked first."""
        return max(self._keys, key=lambda key: key.value, default=DispatchKey["Undefined"])

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(key.name for key in self)})"


_LOCAL = threading.local()


def excluded_keys() -> DispatchKeySet:
    """The keys that this thread's guards leave out."""
    left_out = DispatchKeySet()
    for keys in getattr(_LOCAL, "keys", ()):
        left_out |= keys
    return left_out


class ExcludeDispatchKeyGuard:
    """A block in which the layers of a set of keys do nothing in this thread."""

    def __init__(self, keys: DispatchKeySet) -> None:
        names = [key.name for key in keys]
        kinds = tuple(name.removeprefix("Autocast").lower() for name in names if "Autocast" in name)
        self._cast = tuple(kind for kind in kinds if autocast.is_autocast_available(kind))
        self._recorded = any(name.startswith(("Autograd", "ADInplace")) for name in names)
        other = [
            name for name in names if not name.startswith(("Autocast", "Autograd", "ADInplace"))
        ]
        if other:
            required = "autocast or autograd keys were required"
            hint = "other layers are left by their own guards (no_dispatch, DisableTorchFunction)"
            fail(NotImplementedError, "ExcludeDispatchKeyGuard", required, other, hint)
        self._before: list[Any] = []
        self._keys = keys

    def __enter__(self) -> ExcludeDispatchKeyGuard:
        on = [kind for kind in self._cast if autocast.is_autocast_enabled(kind)]
        self._before.append((on, core.is_grad_enabled()))
        for kind in on:
            autocast.set_autocast_enabled(kind, False)
        if self._recorded:
            core.set_grad_enabled(False)
        _LOCAL.keys = [*getattr(_LOCAL, "keys", ()), self._keys]
        return self

    def __exit__(self, *exception: object) -> None:
        on, recorded = self._before.pop()
        _LOCAL.keys = _LOCAL.keys[:-1]
        for kind in on:
            autocast.set_autocast_enabled(kind, True)
        if self._recorded:
            core.set_grad_enabled(recorded)
