"""`load` and `load_inline`: extensions that are built when a program asks for them.

Takes files or text of C++. Gives modules of Python, or loaded libraries of operators.
Keeps true: what cannot be built here (CUDA, SYCL) is refused before anything is compiled.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from facula.core.errors import fail
from facula.runtime import cache, programs
from facula.utils.cpp_extension.build import (
    Plan,
    build,
    cxx_compiler,
    default_root,
    import_module_at,
    include_folders,
    load_shared,
    make_folder,
)

_NAME = re.compile(r"[A-Za-z_]\w*\Z")


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """The folders of headers for an extension.

    Args:
        device_type: the device that it is for: 'cpu'
        torch_include_dirs: whether facula's own are among them

    Raises:
        RuntimeError: another device.

    Example:
        >>> from facula.utils.cpp_extension import include_paths
        >>> all(isinstance(path, str) for path in include_paths())
        True
    """
    _refuse_device("include_paths", device_type not in ("cpu", False), device_type)
    return include_folders() if torch_include_dirs else []


def library_paths(
    device_type: str = "cpu", torch_include_dirs: bool = True, cross_target_platform: object = None
) -> list[str]:
    """The folders of libraries to link with: none, since headers are all that an extension needs.

    Args:
        device_type: the device that it is for: 'cpu'
        torch_include_dirs: as for `include_paths`
        cross_target_platform: not used

    Raises:
        RuntimeError: another device.

    Example:
        >>> from facula.utils.cpp_extension import library_paths
        >>> library_paths()
        []
    """
    _refuse_device("library_paths", device_type not in ("cpu", False), device_type)
    return []


def get_default_build_root() -> str:
    """The folder below which extensions are built: `TORCH_EXTENSIONS_DIR`, else in facula's cache.

    Example:
        >>> from facula.utils.cpp_extension import get_default_build_root
        >>> isinstance(get_default_build_root(), str)
        True
    """
    return default_root()


def get_cxx_compiler() -> str:
    """The C++ compiler: `CXX`, else g++, c++ or clang++.

    Raises:
        RuntimeError: there is none.

    Example:
        >>> from facula.utils.cpp_extension import get_cxx_compiler
        >>> isinstance(get_cxx_compiler(), str)
        True
    """
    return " ".join(cxx_compiler())


def check_compiler_ok_for_platform(compiler: str) -> bool:
    """Whether a compiler is to be had.

    Args:
        compiler: its name or path

    Example:
        >>> from facula.utils.cpp_extension import check_compiler_ok_for_platform
        >>> check_compiler_ok_for_platform("no such compiler")
        False
    """
    return programs.find_program(compiler.split(" ")[0]) is not None


def check_compiler_is_gcc(compiler: str) -> bool:
    """Whether a compiler is GNU's for C++, by its name.

    Args:
        compiler: its name or path

    Example:
        >>> from facula.utils.cpp_extension import check_compiler_is_gcc
        >>> check_compiler_is_gcc("clang++")
        False
    """
    found = programs.find_program(compiler)
    return found is not None and "g++" in os.path.basename(os.path.realpath(found))


def get_compiler_abi_compatibility_and_version(compiler: str) -> tuple[bool, str]:
    """Whether libraries of a compiler fit, and its version: headers are all that extensions share with facula,
    so every compiler fits that is there.

    Args:
        compiler: its name or path

    Example:
        >>> from facula.utils.cpp_extension import get_compiler_abi_compatibility_and_version
        >>> get_compiler_abi_compatibility_and_version("no such compiler")
        (False, '0.0.0')
    """
    return check_compiler_ok_for_platform(compiler), "0.0.0"


def is_ninja_available() -> bool:
    """Whether the program ninja is to be had; nothing here needs it.

    Example:
        >>> from facula.utils.cpp_extension import is_ninja_available
        >>> isinstance(is_ninja_available(), bool)
        True
    """
    return programs.find_program("ninja") is not None


def verify_ninja_availability() -> None:
    """Raises RuntimeError where the program ninja is not to be had; `load` works without it.

    Raises:
        RuntimeError: there is none.

    Example:
        >>> from facula.utils.cpp_extension import is_ninja_available, verify_ninja_availability
        >>> if is_ninja_available():
        ...     verify_ninja_availability()
    """
    if not is_ninja_available():
        required = "the program ninja was required (Ninja is required to load C++ extensions)"
        hint = "leave the question out: facula builds without it"
        fail(RuntimeError, "verify_ninja_availability", required, "none on PATH", hint)


def remove_extension_h_precompiler_headers() -> None:
    """Nothing: headers are not compiled before they are used.

    Example:
        >>> from facula.utils.cpp_extension import remove_extension_h_precompiler_headers
        >>> remove_extension_h_precompiler_headers()
    """


def load(
    name: str,
    sources: str | Sequence[str],
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
) -> Any:
    """Builds an extension of source files, where it is not built yet, and loads it.

    Args:
        name: the name of the module
        sources: paths of files in C++
        extra_cflags: flags for the compiler
        extra_cuda_cflags: not used
        extra_sycl_cflags: not used
        extra_ldflags: flags for the linker
        extra_include_paths: more folders of headers
        build_directory: where it is built; None for a folder of its name in `get_default_build_root()`
        verbose: whether commands are printed
        with_cuda: not True
        with_sycl: not True
        is_python_module: whether it is a module (`PYBIND11_MODULE`); else it registers operators
            (`TORCH_LIBRARY`)
        is_standalone: not True: programs are not built
        keep_intermediates: not used, none are kept

    Returns:
        the module; the library's path where it is none.

    Raises:
        RuntimeError: the compiler does not accept the sources, or is not there; another device.
        FileNotFoundError: a source is not there.

    Example:
        >>> from facula.utils.cpp_extension import load
        >>> load("nothing", "no_such_file.cpp")
        Traceback (most recent call last):
            ...
        FileNotFoundError: ...
    """
    files = (
        [os.fspath(sources)]
        if isinstance(sources, (str, os.PathLike))
        else [os.fspath(s) for s in sources]
    )
    _refuse_device(
        "load", bool(with_cuda) or bool(with_sycl), "with_cuda" if with_cuda else "with_sycl"
    )
    if is_standalone:
        hint = "load it as a library: is_python_module=False"
        fail(NotImplementedError, "load", "a library was required", "is_standalone=True", hint)
    _check_name("load", name)
    _need_pybind("load", is_python_module)
    plan = Plan(
        name,
        files,
        build_directory,
        cflags=extra_cflags or (),
        ldflags=extra_ldflags or (),
        includes=extra_include_paths or (),
    )
    path = build(plan, verbose)
    if is_python_module:
        return import_module_at(plan.name, path)
    load_shared(path)
    return path


def load_inline(
    name: str,
    cpp_sources: str | Sequence[str],
    cuda_sources: str | Sequence[str] | None = None,
    sycl_sources: str | Sequence[str] | None = None,
    functions: str | Sequence[str] | Mapping[str, str] | None = None,
    extra_cflags: Sequence[str] | None = None,
    extra_cuda_cflags: Sequence[str] | None = None,
    extra_sycl_cflags: Sequence[str] | None = None,
    extra_ldflags: Sequence[str] | None = None,
    extra_include_paths: Sequence[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
) -> Any:
    """Builds an extension of text, where it is not built yet, and loads it.

    Args:
        name: the name of the module
        cpp_sources: text in C++, or several texts, which are joined
        cuda_sources: none
        sycl_sources: none
        functions: names of functions that the module has; or names and docstrings
        extra_cflags: flags for the compiler
        extra_cuda_cflags: not used
        extra_sycl_cflags: not used
        extra_ldflags: flags for the linker
        extra_include_paths: more folders of headers
        build_directory: where it is built; None for a folder of its name in `get_default_build_root()`
        verbose: whether commands are printed
        with_cuda: not True
        with_sycl: not True
        is_python_module: whether it is a module; else it registers operators (`TORCH_LIBRARY`)
        with_pytorch_error_handling: not used: errors of C++ are Python's in any case
        keep_intermediates: not used
        use_pch: not used
        no_implicit_headers: whether the text includes what it needs itself

    Returns:
        the module; the library's path where it is none.

    Raises:
        RuntimeError: the compiler does not accept the text, or is not there; another device.
        ValueError: `functions` are no names.

    Example:
        >>> from facula.utils.cpp_extension import load_inline
        >>> source = "at::Tensor twice(at::Tensor x) { return 2 * x; }"
        >>> load_inline("twice_of", source, functions="twice", with_cuda=True)
        Traceback (most recent call last):
            ...
        RuntimeError: ...
    """
    _refuse_device("load_inline", bool(cuda_sources) or bool(with_cuda), "CUDA")
    _refuse_device("load_inline", bool(sycl_sources) or bool(with_sycl), "SYCL")
    _check_name("load_inline", name)
    texts = [cpp_sources] if isinstance(cpp_sources, str) else list(cpp_sources)
    if not no_implicit_headers:
        header = "torch/extension.h" if is_python_module else "torch/all.h"
        texts.insert(0, f"#include <{header}>")
    if functions is not None:
        texts += _bindings(functions)
    folder = build_directory or os.path.join(default_root(), name)
    make_folder(folder)
    source = os.path.join(folder, "main.cpp")
    _write_changed(source, "\n".join(texts) + "\n")
    return load(
        name,
        source,
        extra_cflags,
        extra_ldflags=extra_ldflags,
        extra_include_paths=extra_include_paths,
        build_directory=folder,
        verbose=verbose,
        is_python_module=is_python_module,
    )


def _bindings(functions: Any) -> list[str]:
    """The text of a module with functions."""
    if isinstance(functions, str):
        functions = [functions]
    named = (
        dict(functions) if isinstance(functions, Mapping) else {name: name for name in functions}
    )
    lines = ["PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {"]
    for name, words in named.items():
        _check_name("load_inline", name)
        quoted = words.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'm.def("{name}", torch::wrap_pybind_function({name}), "{quoted}");')
    return [*lines, "}"]


def _write_changed(path: str, text: str) -> None:
    """Writes a file where its text is another."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except (OSError, UnicodeDecodeError):
        pass
    # a link in its place is replaced, not followed
    with cache.write_atomically(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(text)


def _check_name(where: str, name: str) -> None:
    if not isinstance(name, str) or not _NAME.match(name):
        hint = "letters, digits and underscores"
        fail(ValueError, where, "a name of C++ was required", repr(name), hint)


def _refuse_device(where: str, refused: bool, got: object) -> None:
    if refused:
        required = "an extension for the CPU was required (CUDA and SYCL are not available)"
        hint = "leave out what is for other devices"
        fail(RuntimeError, where, required, got, hint)


def _need_pybind(where: str, needed: bool) -> None:
    if needed and importlib.util.find_spec("pybind11") is None:
        fail(
            ModuleNotFoundError,
            where,
            "the package pybind11 was required",
            "none installed",
            hint="pip install 'facula[cpp]'; libraries of operators (is_python_module=False) do without",
        )
