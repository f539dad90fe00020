"""Extensions that a `setup.py` builds: `CppExtension` and `BuildExtension`.

Takes names and sources. Gives an extension and a command of setuptools that knows facula's headers.
Keeps true: no rule of ninja's is written; the compiler is setuptools'.
"""

from __future__ import annotations

import copy
from typing import Any

from setuptools import Extension
from setuptools.command.build_ext import build_ext

from facula.core.errors import fail
from facula.utils.cpp_extension.build import STANDARD, include_folders

__all__ = ["BuildExtension", "CUDAExtension", "CppExtension", "SyclExtension"]


def CppExtension(name: str, sources: list[str], *args: object, **kwargs: Any) -> Extension:
    """An extension of setuptools in C++ for the CPU.

    Args:
        name: the module's full name
        sources: paths of files in C++
        args: as for setuptools.Extension
        kwargs: as for setuptools.Extension

    Returns:
        a setuptools.Extension, which `BuildExtension` builds.

    Example:
        >>> from facula.utils.cpp_extension import CppExtension
        >>> CppExtension("package._C", ["extension.cpp"]).language
        'c++'
    """
    include_dirs = [*(kwargs.pop("include_dirs", None) or []), *include_folders()]
    kwargs["language"] = "c++"
    return Extension(name, sources, *args, include_dirs=include_dirs, **kwargs)


def _refused(device: str) -> Any:
    required = f"an extension for the CPU was required ({device} is not available)"
    hint = "build a CppExtension of the sources in C++"
    fail(RuntimeError, f"{device}Extension", required, device, hint)


def CUDAExtension(name: str, sources: list[str], *args: object, **kwargs: object) -> Extension:
    """Refused: extensions run on the CPU.

    Args:
        name: the module's full name
        sources: paths of files
        args: not used
        kwargs: not used

    Raises:
        RuntimeError: always.

    Example:
        >>> from facula.utils.cpp_extension import CUDAExtension
        >>> CUDAExtension("package._C", ["kernels.cu"])
        Traceback (most recent call last):
            ...
        RuntimeError: ...
    """
    return _refused("CUDA")


def SyclExtension(name: str, sources: list[str], *args: object, **kwargs: object) -> Extension:
    """Refused: extensions run on the CPU.

    Args:
        name: the module's full name
        sources: paths of files
        args: not used
        kwargs: not used

    Raises:
        RuntimeError: always.

    Example:
        >>> from facula.utils.cpp_extension import SyclExtension
        >>> SyclExtension("package._C", ["kernels.sycl"])
        Traceback (most recent call last):
            ...
        RuntimeError: ...
    """
    return _refused("SYCL")


class BuildExtension(build_ext):
    """The command `build_ext` for extensions in C++: adds the standard of C++ and the module's name.

    Args:
        args: as for setuptools' command
        use_ninja: not used, ninja is not needed
        no_python_abi_suffix: whether files have no word of Python's version in their names
        kwargs: as for setuptools' command

    Example:
        >>> from facula.utils.cpp_extension import BuildExtension
        >>> issubclass(BuildExtension.with_options(no_python_abi_suffix=True), BuildExtension)
        True
    """

    def __init__(self, *args: object, **kwargs: Any) -> None:
        self.use_ninja = kwargs.pop("use_ninja", False)
        self.no_python_abi_suffix = kwargs.pop("no_python_abi_suffix", False)
        super().__init__(*args, **kwargs)

    @classmethod
    def with_options(cls, **options: object) -> type[BuildExtension]:
        """The command with options of its constructor."""

        class WithOptions(cls):  # type: ignore[valid-type, misc]
            def __init__(self, *args: object, **kwargs: object) -> None:
                super().__init__(*args, **{**kwargs, **options})

        return WithOptions

    def build_extension(self, ext: Extension) -> None:
        """Builds one extension."""
        for source in ext.sources:
            if source.endswith((".cu", ".sycl")):
                _refused("CUDA" if source.endswith(".cu") else "SYCL")
        made = copy.copy(ext)
        given = ext.extra_compile_args
        own = given.get("cxx", []) if isinstance(given, dict) else list(given or [])
        named = any(flag.startswith("-std=") for flag in own)
        made.extra_compile_args = [
            *([] if named else [STANDARD]),
            "-Wno-attributes",
            "-DTORCH_API_INCLUDE_EXTENSION_H",
            f"-DTORCH_EXTENSION_NAME={ext.name.rpartition('.')[2]}",
            *own,
        ]
        super().build_extension(made)

    def get_ext_filename(self, ext_name: str) -> str:
        """The file of an extension."""
        found = super().get_ext_filename(ext_name)
        if not self.no_python_abi_suffix:
            return found
        stem, *_, last = found.split(".")
        return f"{stem}.{last}"
