"""`facula._export`: libraries of exported programs under PyTorch's name.

Takes: a module and example arguments. Gives: `aot_compile`, `aot_load`.
Keeps true: it holds nothing of its own: `facula.deploy.aot` does.
"""

from __future__ import annotations

from typing import Any

from facula import core
from facula.core.errors import fail
from facula.deploy.aot import LoadedPackage, compile_library, load_package
from facula.deploy.package import chosen_options
from facula.export import export

from . import config, verifier

__all__ = ["aot_compile", "aot_load", "capture_pre_autograd_graph", "config", "verifier"]


def capture_pre_autograd_graph(
    f: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    constraints: Any = None,
    dynamic_shapes: Any = None,
) -> Any:
    """A module's forward as a graph that can be trained and quantized: the first step of quantization by export in
    PyTorch 2.1 to 2.4. `export.export(f, args).module()` is the same.
    """
    return export(f, args, kwargs, dynamic_shapes=dynamic_shapes, constraints=constraints).module()


def aot_compile(
    f: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    options: dict[str, Any] | None = None,
    remove_runtime_assertions: bool = False,
    disable_constraint_solver: bool = False,
    same_signature: bool = True,
) -> str:
    """A module as a shared library for this processor; gives its path.

    `options` are those of the compiler; `aot_inductor.output_path` says where the library is to be.
    The last three arguments are kept for PyTorch's API.
    """
    chosen, target, metadata = chosen_options(options)
    program = export(f, args, kwargs, dynamic_shapes=dynamic_shapes)
    return compile_library(program, target, chosen, metadata)


def aot_load(so_path: str, device: str = "cpu") -> LoadedPackage:
    """A library of `aot_compile` as a function of the module's arguments."""
    if core.device(device).type != "cpu":
        fail(
            RuntimeError,
            "aot_load",
            "the device cpu was required, for which libraries are compiled",
            device,
            hint="aot_load(path, 'cpu')",
        )
    return load_package(so_path)
