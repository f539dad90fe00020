"""C++ extensions: sources written for PyTorch's `torch/extension.h` and `torch/library.h`, on facula.

Takes C++ for the CPU. Gives modules of Python (`load`, `load_inline`, or a `setup.py` with `CppExtension` and
`BuildExtension`) and operators (`TORCH_LIBRARY`). Keeps true: a tensor in C++ is facula's own object, and an
operator there is a call of facula's operator, so that gradients, modes and errors are the same.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from facula.core.errors import no_attribute as _no_attribute

_FROM = {
    "load": "jit",
    "load_inline": "jit",
    "include_paths": "jit",
    "library_paths": "jit",
    "get_default_build_root": "jit",
    "get_cxx_compiler": "jit",
    "get_compiler_abi_compatibility_and_version": "jit",
    "check_compiler_ok_for_platform": "jit",
    "check_compiler_is_gcc": "jit",
    "is_ninja_available": "jit",
    "verify_ninja_availability": "jit",
    "remove_extension_h_precompiler_headers": "jit",
    "CppExtension": "setup_extension",
    "CUDAExtension": "setup_extension",
    "SyclExtension": "setup_extension",
    "BuildExtension": "setup_extension",
}
#: where toolkits for other devices are: nowhere
CUDA_HOME = None
CUDNN_HOME = None
ROCM_HOME = None
SYCL_HOME = None
IS_HIP_EXTENSION = False
IS_WINDOWS = False
IS_LINUX = True
IS_MACOS = False
__all__ = sorted(_FROM)


def __getattr__(name: str) -> Any:
    if name in _FROM:
        return getattr(import_module(f"{__name__}.{_FROM[name]}"), name)
    raise _no_attribute(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_FROM})
