"""From the text of a kernel to the code of a device: Triton compiles, the disk cache keeps.

Takes: a kernel's text, its arguments' kinds, constants, the device's capability. Gives: `Image`: machine code, the
memory that it shares, how many pointers follow its arguments.
Keeps true: Triton is imported only where code is not in the cache; a key covers all that the code depends on.
"""

from __future__ import annotations

import hashlib
import json
import linecache
import re
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

from facula.core.errors import fail
from facula.runtime import cache

__all__ = ["Image", "Request", "image"]

_KIND = "cuda"
_FORMAT = 1


class Image(NamedTuple):
    """Machine code of one kernel."""

    code: bytes
    name: str
    shared: int
    #: pointers to memory of Triton's own, which kernels take behind their arguments
    trailing: int


class Request(NamedTuple):
    """What is to be compiled: the module's text, the kinds of arguments, constants, warps and stages, the arguments
    that are divisible by 16, and the capability, as 90."""

    text: str
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, int], ...]
    warps: int
    stages: int
    divisible: tuple[str, ...]
    capability: int


def image(request: Request) -> Image:
    """The code of a kernel: from the cache, or compiled now.

    Raises:
        RuntimeError: Triton is needed and not there, or can not compile the kernel.
    """
    key = hashlib.sha256(repr((_FORMAT, _version(), *request)).encode()).hexdigest()
    found = cache.entry(_KIND, key, ".cubin", lambda path: _write(path, request))
    try:
        head, code = bytes(found.content).split(b"\n", 1)
    finally:
        found.close()
    told = json.loads(head)
    return Image(code, told["name"], told["shared"], told["trailing"])


def _version() -> str:
    """Triton's version, without importing it; what is kept without Triton serves as long as nobody installs one."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("triton")
    except PackageNotFoundError:
        return ""


def _write(path: str, request: Request) -> None:
    made = compiled(request)
    head = {"name": made.name, "shared": made.shared, "trailing": made.trailing}
    with open(path, "wb") as file:
        file.write(json.dumps(head).encode() + b"\n" + made.code)


def compiled(request: Request) -> Image:
    """The code of a kernel, compiled by Triton."""
    try:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError:
        required = "Triton was required, which compiles kernels for CUDA"
        fail(RuntimeError, "cuda", required, "none", hint="pip install triton")
    names = [name for name, _ in request.signature]
    divisible = {(names.index(n),): [["tt.divisibility", 16]] for n in request.divisible}
    source = ASTSource(
        module(request.text).kernel, dict(request.signature), dict(request.constants), divisible
    )
    options = {"num_warps": request.warps, "num_stages": request.stages}
    target = GPUTarget("cuda", request.capability, 32)
    try:
        made = triton.compile(source, target=target, options=options)
    except Exception as error:  # its own kinds, and those of the compilers below it
        reason = f"{type(error).__name__}: {str(error)[:400]}"
        hint = "FACULA_LOGS=+inductor shows its text"
        fail(RuntimeError, "cuda", "a kernel that Triton compiles was required", reason, hint)
    name = made.metadata.name
    trailing = _parameters(made.asm["ptx"], name) - len(names) + len(request.constants)
    return Image(bytes(made.asm["cubin"]), name, int(made.metadata.shared), trailing)


def _parameters(ptx: str, name: str) -> int:
    """How many arguments the machine code takes."""
    numbers = re.findall(rf"\b{re.escape(name)}_param_(\d+)[,\s)]", ptx)
    return 1 + max(map(int, numbers)) if numbers else 0


def module(text: str, namespace: Mapping[str, Any] | None = None) -> types.ModuleType:
    """A module of a kernel's text, whose lines Triton can look up."""
    name = f"<facula kernel {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    made = types.ModuleType("facula_cuda_kernel")
    made.__dict__.update(namespace or {})
    exec(compile(text, name, "exec"), made.__dict__)
    return made
