"""`RemoteModule`: a module that lives on a worker.

Takes: "worker/device", a class of modules and its arguments. Gives: `forward`, `forward_async`, references to
the parameters.
Keeps true: the module is made once, on that worker; a call in a context of distributed autograd is
differentiated there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula import nn
from facula.core.errors import fail
from facula.distributed import rpc

__all__ = ["RemoteModule"]


def _make(
    module_class: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], device: str
) -> Any:
    made = module_class(*args, **kwargs)
    if not isinstance(made, nn.Module):
        fail(ValueError, "RemoteModule", "a class of modules was required (Expect `module_cls(*args, "
             "**kwargs)` returns an instance of nn.Module)", type(made).__name__,
             "for example nn.Linear")  # fmt: skip
    return made.to(device)


def _parameters(reference: Any, recurse: bool) -> list[Any]:
    return [rpc.RRef(p) for p in reference.local_value().parameters(recurse)]


def _forward(reference: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return reference.local_value()(*args, **kwargs)


class RemoteModule(nn.Module):
    """A module on a worker, used as if it were here.

    >>> linear = RemoteModule("worker1/cpu", nn.Linear, args=(20, 30))
    >>> linear(x)
    """

    def __init__(
        self, remote_device: str, module_cls: Callable[..., Any], args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None, _module_interface_cls: Any = None,
    ) -> None:  # fmt: skip
        """Make a module there.

        Args:
            remote_device: "worker/device", or "worker" for its cpu.
        """
        super().__init__()
        worker, _, device = remote_device.partition("/")
        self.on, self.device = worker, device or "cpu"
        given = (module_cls, tuple(args or ()), dict(kwargs or {}), self.device)
        self.module_rref = rpc.rpc_sync(worker, _make_reference, args=given)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result."""
        return rpc.rpc_sync(
            self.module_rref.owner(), _forward, args=(self.module_rref, args, kwargs)
        )

    def forward_async(self, *args: object, **kwargs: object) -> Any:
        """A future of the module's result."""
        return rpc.rpc_async(
            self.module_rref.owner(), _forward, args=(self.module_rref, args, kwargs)
        )

    def remote_parameters(self, recurse: bool = True) -> list[Any]:
        """References to the parameters, for `DistributedOptimizer`."""
        return rpc.rpc_sync(self.module_rref.owner(), _parameters, args=(self.module_rref, recurse))

    def get_module_rref(self) -> Any:
        """A reference to the module."""
        return self.module_rref

    def parameters(self, recurse: bool = True) -> Any:
        """Not here: they are on the worker."""
        fail(ValueError, "RemoteModule.parameters", "remote_parameters() was required (Method "
             "``parameters`` not supported for RemoteModule)", "parameters()",
             "remote_parameters() gives references")  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        return {"on": self.on, "device": self.device, "module_rref": self.module_rref}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__.update(state)


def _make_reference(
    module_class: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], device: str
) -> Any:
    return rpc.RRef(_make(module_class, args, kwargs, device))
