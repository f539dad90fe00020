"""Names that programs read from PyTorch's extension module.

Takes: nothing. Gives: the functions and classes of facula that stand for them.
Keeps true: re-exports; what facula has no counterpart for is absent.
"""

from __future__ import annotations

import faulthandler
import sys
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from facula import core, ops
from facula.autograd.autocast import is_autocast_enabled
from facula.autograd.dispatch_keys import (
    DispatchKey,
    DispatchKeySet,
    ExcludeDispatchKeyGuard,
    excluded_keys,
)
from facula.core import (
    Generator,
    Size,
    device,
    dtype,
    layout,
    memory_format,
)
from facula.core import Tensor as TensorBase
from facula.core import _disabled_torch_function_impl as _disabled_torch_function_impl
from facula.core import is_grad_enabled as is_grad_enabled
from facula.core import set_grad_enabled as _set_grad_enabled  # noqa: F401
from facula.core.errors import no_attribute
from facula.core.nested import tensors_in
from facula.namespaces import overrides, switches
from facula.namespaces.overrides import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
)
from facula.nn import functional
from facula.nn.modules.module_conversions import parse_to
from facula.ops.table.tags import Tag as Tag
from facula.utils.backend_registration import privateuse1_name

from .. import accelerator
from ..library.fallback import fallback_mode, set_fallback_mode
from . import _cpu as _cpu
from . import _functions as _functions

_TensorBase = TensorBase
StorageBase = core.UntypedStorage
_get_privateuse1_backend_name = privateuse1_name
_ExcludeDispatchKeyGuard = ExcludeDispatchKeyGuard
_dispatch_tls_local_exclude_set = excluded_keys
_TensorMeta = type(TensorBase)


def _log_api_usage_once(event: str) -> None:
    """Libraries announce their use to PyTorch's telemetry; there is none here."""


def _set_print_stack_traces_on_fatal_signal(print: bool) -> None:
    """Show where all threads stand when the process dies of a fault."""
    if print:
        faulthandler.enable()
    else:
        faulthandler.disable()


def _get_default_device() -> str:
    """The type of the device on which tensors are made where none is named."""
    return switches.get_default_device().type


_len_torch_function_stack = overrides._count_function_modes
_push_on_torch_function_stack = core.push_function_mode
_pop_torch_function_stack = core.pop_function_mode


def _get_function_stack_at(level: int) -> overrides.TorchFunctionMode:
    """An active function mode, the outermost first."""
    return overrides._get_current_function_mode_stack()[level]


class _DisableFuncTorch:
    """A block outside of the function transforms that are under way in this thread."""

    def __enter__(self) -> None:
        self._before = core.swap_interpreters([])

    def __exit__(self, *exception: object) -> None:
        core.swap_interpreters(self._before)


def _are_functorch_transforms_active() -> bool:
    """Whether a function transform (`vmap`, `grad`, ...) is under way in this thread."""
    return bool(core.interpreters())


class _AutoDispatchBelowAutograd:
    """A block in which operators run without being recorded."""

    def __enter__(self) -> None:
        self._before = core.set_grad_enabled(False)

    def __exit__(self, *exception: object) -> None:
        core.set_grad_enabled(self._before)


def _any_requires_grad(*args: object, **kwargs: object) -> bool:
    """Whether a tensor among the arguments, those in lists too, asks for a gradient."""
    given = [*args, *kwargs.values()]
    flat = [x for v in given for x in (v if isinstance(v, (list, tuple)) else (v,))]
    return any(isinstance(x, core.Tensor) and x.requires_grad for x in flat)


def _storage_address(tensor: core.Tensor) -> int:
    """What tells the storages of two tensors apart."""
    return hash(tensor.untyped_storage())


def _data_address(tensor: core.Tensor) -> int:
    """The address of the first element, to compare."""
    return int(core.address_of(tensor))


def _is_alias_of(one: core.Tensor, other: core.Tensor) -> bool:
    """Whether two tensors lie on one storage."""
    return _storage_address(one) == _storage_address(other)


def _any_output_is_alias_to_input_or_output(
    args: tuple[Any, ...], kwargs: dict[str, Any] | None, outputs: Any
) -> bool:
    """Whether a result has the memory of an argument, or of another result."""
    given = [*args, *(kwargs or {}).values()]
    seen = {core.storage_key(t) for t in tensors_in(given) if t.numel()}
    for tensor in tensors_in(outputs):
        key = core.storage_key(tensor) if tensor.numel() else None
        if key in seen:
            return True
        if key is not None:
            seen.add(key)
    return False


def _is_torch_function_enabled() -> bool:
    """Whether classes with `__torch_function__` are asked about calls of this thread."""
    disabled = core.set_overrides_disabled(True)
    core.set_overrides_disabled(disabled)
    return not disabled


def _is_torch_function_mode_enabled() -> bool:
    """Whether a `TorchFunctionMode` sees the calls of this thread."""
    return bool(overrides._get_current_function_mode_stack())


_get_autograd_fallback_mode = fallback_mode
_set_autograd_fallback_mode = set_fallback_mode
_is_cow_tensor = core.is_lazy_clone


def _is_any_autocast_enabled() -> bool:
    """Whether autocast is on, for whatever device."""
    return any(is_autocast_enabled(device) for device in ("cpu", "cuda"))


def _get_deterministic_fill_uninitialized_memory() -> bool:
    """Whether unset memory is filled in deterministic mode."""
    return switches.fill_unset_memory()


def _set_deterministic_fill_uninitialized_memory(mode: bool) -> None:
    """Say whether unset memory is filled in deterministic mode."""
    switches.fill_unset_memory(mode)


def _get_accelerator() -> core.device:
    """The device to prefer; the CPU where there is no other."""
    return accelerator.current_accelerator() or core.device("cpu")


class _Inlining:
    """Whether graphs of scripts are shown with all calls written out."""

    always = False


def _jit_get_inline_everything_mode() -> bool:
    """Whether graphs of scripts are shown with all calls written out."""
    return _Inlining.always


def _jit_set_inline_everything_mode(should_inline: bool) -> None:
    """Say whether graphs of scripts are shown with all calls written out."""
    _Inlining.always = bool(should_inline)


class _Space(ModuleType):
    """Functions of a public module by the names that PyTorch's extension module has for them."""

    def __getattr__(self, name: str) -> Any:
        place = self.__name__.rpartition("._")[2]
        if not name.startswith("__"):
            found = getattr(import_module(f"facula.{place}"), name.removeprefix(f"{place}_"), None)
            found = getattr(import_module("facula"), name, None) if found is None else found
            if found is not None:
                return found
        raise no_attribute(f"facula._C._{place}", name)


class _FunctionalSpace(_Space):
    """Functions of `torch.nn.functional` by their names, and operators that have none there."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise no_attribute("facula._C._nn", name)
        found = getattr(functional, name.replace("log_sigmoid", "logsigmoid"), None)
        return getattr(ops.aten, name) if found is None else found


def _space(name: str, kind: type[_Space] = _Space) -> _Space:
    """The part of PyTorch's extension module below a public module, which programs import as a module, too."""
    made = kind(
        f"{__name__}.{name}", f"The part of PyTorch's extension module below `torch.{name[1:]}`."
    )
    sys.modules[f"facula._C.{name}"] = made
    return made


_nn, _fft, _linalg = _space("_nn", _FunctionalSpace), _space("_fft"), _space("_linalg")
_special, _sparse = _space("_special"), _space("_sparse")
vars(_nn)["_parse_to"] = lambda *args, **kwargs: parse_to(args, kwargs)


def _storage_id(tensor: core.Tensor) -> int:
    """What tells the storages of two tensors apart."""
    return _storage_address(tensor)


def _get_tracing_state() -> None:
    """The trace that PyTorch's `jit.trace` would be writing; there is none here."""


def _is_tracing() -> bool:
    """Whether `jit.trace` follows the calls."""
    return import_module("facula.jit.marks").is_tracing()


__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "DispatchKey",
    "DispatchKeySet",
    "Generator",
    "Size",
    "TensorBase",
    "device",
    "dtype",
    "layout",
    "memory_format",
]


#: modules in this folder that stand for parts of PyTorch's extension module
_MODULES = frozenset(module.name for module in iter_modules(__path__)) - {"_executor"}


def __getattr__(name: str) -> Any:
    """Parts of the module, and TorchScript's types and graphs, which lie above: imported when they are asked for."""
    if not name.startswith("__"):
        if name.startswith(("_jit_", "_debug_")):
            # lazily: few programs set these
            from . import _executor

            switch = _executor.named(name)
            if switch is not None:
                return switch
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        found = getattr(import_module("facula.jit.extension_names"), name, None)
        if found is not None:
            return found
    raise no_attribute(__name__, name)
