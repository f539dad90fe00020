"""Backends for captured graphs out of compilers for flat ones.

Takes: compilers for flat graphs.  Gives: a backend, `(captured graph module, inputs) -> callable`.
Keeps true: the captured graph is differentiated once, whatever runs the flat graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula.fx import GraphModule
from facula.lower.aot.api import aot_module_simplified, nop
from facula.lower.aot.min_cut import min_cut_rematerialization_partition

__all__ = ["AotAutograd", "aot_autograd", "aot_eager", "aot_eager_default_partitioner"]


class AotAutograd:
    """A backend made of compilers for flat graphs."""

    def __init__(self, **kwargs: Any) -> None:
        self.__name__ = "compiler_fn"
        self.kwargs = kwargs

    def __call__(
        self, gm: GraphModule, example_inputs: Sequence[Any], **kwargs: Any
    ) -> Callable[..., Any]:
        return aot_module_simplified(gm, example_inputs, **{**self.kwargs, **kwargs})


def aot_autograd(**kwargs: object) -> AotAutograd:
    """A backend out of `fw_compiler=`, `bw_compiler=` and the other options of `aot_function`."""
    return AotAutograd(**kwargs)


def aot_eager(
    gm: GraphModule,
    fake_tensor_inputs: Sequence[Any],
    options: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Callable[..., Any]:
    """The backend that makes flat graphs and runs them operator by operator; it has no `options`.

    kwargs: options of `aot_module_simplified`, which come before those of the backend.
    """
    own = {"fw_compiler": nop, "partition_fn": min_cut_rematerialization_partition}
    return aot_module_simplified(gm, fake_tensor_inputs, **{**own, **kwargs})


def aot_eager_default_partitioner(
    gm: GraphModule,
    fake_tensor_inputs: Sequence[Any],
    options: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Callable[..., Any]:
    """As `aot_eager`, saving everything that the backward reads."""
    return aot_module_simplified(gm, fake_tensor_inputs, **{"fw_compiler": nop, **kwargs})
