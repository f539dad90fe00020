"""`facula.mobile`: models as files for small machines, and the runtime in C that runs them.

Takes: modules and example inputs. Gives: `export`, `optimize`, `load`, `runtime_command`, `runtime_files`.
Keeps true: it holds nothing of its own but which kernels were asked for last: `facula.deploy.mobile`
does the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from facula import core
from facula.compiler.api import compile as compiled
from facula.deploy import mobile
from facula.deploy.aot import LoadedPackage
from facula.deploy.native import PROGRAM

__all__ = [
    "export", "is_vulkan_available", "load", "optimize", "runtime_command", "runtime_files",
]  # fmt: skip

_asked: list[str | None] = [None]


def export(model: Any, example_inputs: Sequence[Any], path: Any) -> str:
    """Write a model as one file of data; gives its path. Sizes are those of the examples."""
    return mobile.export_model(model, tuple(example_inputs), path)


def load(path: object) -> LoadedPackage:
    """A file of `export` in this process."""
    return LoadedPackage(path, mobile.runtime_folder(mobile.kernels_of(path)))


def optimize(model: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """The model for inference in this process: compiled, with norms folded and weights packed."""
    run = compiled(model.eval())

    def optimized(*inputs: object) -> Any:
        recording = core.set_grad_enabled(False)
        try:
            return run(*inputs)
        finally:
            core.set_grad_enabled(recording)

    optimized(*example_inputs)
    return optimized


def runtime_command(
    path: Any, inputs: Sequence[str], output: str, machine: str | None = None
) -> list[str]:
    """The command that runs a file on arrays (.npy), without Python.

    The kernels of the runtime are those that the file names.

    Args:
        path: a file of `export`.
        inputs: the arrays that the model takes, as paths.
        output: where the result is to be written.
        machine: the architecture that the runtime is for, `x86_64` or `aarch64`; another than this machine's
            takes a cross compiler (`docs/packages.md`). Default: this machine's.
    """
    folder = mobile.runtime_folder(mobile.kernels_of(path), machine)
    _asked[0] = folder
    return [os.path.join(folder, PROGRAM), os.fspath(path), *inputs, output]


def runtime_files() -> list[str]:
    """The files that the last `runtime_command` needs beside the model; without one, a runtime of all
    kernels."""
    folder = _asked[0] or mobile.runtime_folder()
    names = [PROGRAM, *sorted(n for n in os.listdir(folder) if n.endswith(".so"))]
    return [os.path.join(folder, name) for name in names if not name.startswith("lib")]


def is_vulkan_available() -> bool:
    """False: there are no kernels for Vulkan.

    Example:
        >>> facula.is_vulkan_available()
        False
    """
    return False
