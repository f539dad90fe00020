"""What a bug report should say about the installation: `python -m facula.utils.collect_env`.

Takes: nothing. Gives: `get_env_info` and its text.
Keeps true: nothing leaves the machine, and no path of the user's is written.
"""

from __future__ import annotations

import os
import platform
import sys
from typing import Any, NamedTuple

import facula
from facula import core, devices
from facula.runtime import libraries
from facula.runtime.compile import find_compiler

__all__ = ["get_env_info", "get_pretty_env_info", "pretty_str"]


class SystemEnv(NamedTuple):
    """The facts, each a line of the report."""

    facula_version: str
    python_version: str
    os: str
    processor: str
    kernels: str
    threads: int
    compiler: str
    devices: str
    libraries: str


def _libraries() -> dict[str, str]:
    from importlib import metadata

    found = {}
    for name in ("numpy", "scipy", "safetensors", "ziglang"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def get_env_info() -> Any:
    """The facts, as a named tuple."""
    compiler = find_compiler()
    return SystemEnv(
        facula_version=facula.__version__,
        python_version=f"{platform.python_version()} ({platform.python_implementation()})",
        os=platform.platform(),
        processor=f"{platform.machine()}, {os.cpu_count()} logical processors",
        kernels=libraries.kernel_variant(),
        threads=core.get_num_threads(),
        compiler=os.path.basename(compiler[0]) if compiler else "none",
        devices=", ".join(("cpu", "meta", *devices.registered())),
        libraries=", ".join(f"{name} {version}" for name, version in _libraries().items()),
    )


def pretty_str(envinfo: Any) -> str:
    """The facts, one a line."""
    width = max(len(name) for name in envinfo._fields)
    pairs = zip(envinfo._fields, envinfo, strict=True)
    return "\n".join(f"{name.replace('_', ' '):<{width}}  {value}" for name, value in pairs)


def get_pretty_env_info() -> str:
    """The facts about this installation, one a line."""
    return pretty_str(get_env_info())


def main() -> None:
    """Writes the facts to the standard output."""
    sys.stdout.write(get_pretty_env_info() + "\n")


if __name__ == "__main__":
    main()
