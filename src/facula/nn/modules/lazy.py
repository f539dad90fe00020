"""Layers that learn their input size from the first input.

Takes a layer class whose parameters are `UninitializedParameter`.  Gives `LazyModuleMixin`, which
makes them before the first forward and then turns the layer into an ordinary one.
Keeps true: a lazy layer's state dictionary can be loaded, which fixes its sizes; an initialised one
is of the ordinary class and carries no hook of this mixin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from facula.core.errors import fail
from facula.nn.parameter import is_lazy

if TYPE_CHECKING:
    from facula.nn.modules.module import Module


__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Mix in before a module class; set ``cls_to_become`` and define
    ``initialize_parameters(*args)``.
    """

    cls_to_become: Any = None

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)  # type: ignore[attr-defined]
        self._initialize_hook = self.register_forward_pre_hook(  # type: ignore[attr-defined]
            self._infer_parameters, with_kwargs=True
        )

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        # a tensor without a shape cannot be detached: it is stored as it is
        for name, parameter in self._parameters.items():  # type: ignore[attr-defined]
            if parameter is not None:
                if not (is_lazy(parameter) or keep_vars):
                    parameter = parameter.detach()
                destination[prefix + name] = parameter
        for name, buffer in self._buffers.items():  # type: ignore[attr-defined]
            if buffer is not None and name not in self._non_persistent_buffers_set:  # type: ignore[attr-defined]
                if not (is_lazy(buffer) or keep_vars):
                    buffer = buffer.detach()
                destination[prefix + name] = buffer

    def _lazy_load_hook(self, state_dict: dict[str, Any], prefix: str, *rest: object) -> None:
        """Give uninitialised tensors the shapes that the state dictionary has."""
        tensors = {**self._parameters, **self._buffers}  # type: ignore[attr-defined]
        for name, tensor in tensors.items():
            given = state_dict.get(prefix + name)
            if tensor is None or given is None:
                continue
            if is_lazy(tensor) and not is_lazy(given):
                tensor.materialize(given.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Make the parameters from the arguments of the first forward."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether some tensor has no shape yet."""
        tensors = [*self._parameters.values(), *self._buffers.values()]  # type: ignore[attr-defined]
        return any(is_lazy(t) for t in tensors)

    def _infer_parameters(self, module: Module, args: tuple, kwargs: dict | None = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            fail(
                RuntimeError,
                type(self).__name__,
                "initialize_parameters() to make every parameter",
                got="some left uninitialized",
                hint="call materialize(shape) of every parameter in it",
            )
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook
        del module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> Any:
        return fail(
            RuntimeError,
            type(self).__name__,
            "initialized modules in DataParallel",
            got="a lazy module",
            hint="run a forward once first",
        )
