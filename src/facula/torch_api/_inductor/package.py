"""`facula._inductor.package`: packages that were written, under PyTorch's names.

Takes: files. Gives: `AOTICompiledModel`, `load_package`.
Keeps true: it holds nothing of its own: `facula.deploy.aot` does.
"""

from __future__ import annotations

from facula.core.errors import fail
from facula.deploy.aot import LoadedPackage as AOTICompiledModel
from facula.deploy.aot import load_package as opened

__all__ = ["AOTICompiledModel", "load_package"]


def load_package(
    path: object,
    model_name: str = "model",
    run_single_threaded: bool = False,
    num_runners: int = 1,
    device_index: int = -1,
) -> AOTICompiledModel:
    """A package as a function of the module's arguments; any number of threads may call it.

    Args:
        path: the file, or one that is open for reading.
        model_name: `model`, the one that a package has.
        run_single_threaded: kept for PyTorch's API, as is `num_runners`: threads share one model.
        num_runners: as above.
        device_index: -1: packages run on the CPU.

    Raises:
        RuntimeError: the package is damaged, for another machine or version, or has no such model.
    """
    if model_name != "model":
        fail(
            RuntimeError,
            "load_package",
            "the model 'model' was required, the one that a package has",
            repr(model_name),
            hint="a file for each model: aoti_compile_and_package(program, package_path=...)",
        )
    return opened(path)
