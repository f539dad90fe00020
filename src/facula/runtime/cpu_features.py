"""Which instruction sets this machine can run, and which kernel variant that means.

Takes the processor's feature flags as the operating system reports them (a flag that the kernel has
not enabled is not there) and `FACULA_ISA`; gives the variant's name.  Keeps true: a variant is
chosen only if every feature that its code may use is present, and a variant forced by `FACULA_ISA`
that the machine cannot run is an error, not a crash later.
"""

import contextlib
import functools
import os
import sys
from _thread import _local
from collections.abc import Iterable, Iterator

from facula.core import config
from facula.core.errors import fail

__all__ = [
    "architecture",
    "as_if",
    "choose",
    "detected",
    "features",
    "march_flags",
    "named_architecture",
    "parts",
    "requirements",
    "served",
    "serving",
    "variants",
]

_V2 = ("cx16", "popcnt", "sse4_1", "sse4_2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_V4X = (*_V4, "avx512_bf16", "avx512_vnni")
_V4A = (*_V4X, "amx_tile", "amx_int8")

# compilers prefer 256-bit vectors, from days when wider ones cost clock rate
_WIDE = "-mprefer-vector-width=512"

_PAIRS = ("-mavx512bf16", "-mavx512vnni")

Table = dict[str, tuple[tuple[str, ...], tuple[str, ...]]]

# variant: (features it needs, compiler flags that enable exactly those), plain to rich
_X86: Table = {
    "v2": (_V2, ("-march=x86-64-v2",)),
    "v3": (_V3, ("-march=x86-64-v3",)),
    "v4": (_V4, ("-march=x86-64-v4", _WIDE)),
    "v4x": (_V4X, ("-march=x86-64-v4", *_PAIRS, _WIDE)),
    "v4a": (_V4A, ("-march=x86-64-v4", *_PAIRS, "-mamx-tile", "-mamx-int8", _WIDE)),
}
# variant: the one whose library it only adds to, since most kernels are the same for both
_ADDS_TO = {"v4x": "v4", "v4a": "v4x"}
_ARM: Table = {"neon": ((), ("-march=armv8-a",))}
_TABLES = {"x86_64": _X86, "AMD64": _X86, "aarch64": _ARM, "arm64": _ARM}
# every variant of every architecture, for code that is written for another machine
_EVERY: Table = {**_X86, **_ARM}


def _table(machine: str | None = None) -> Table:
    machine = machine or os.uname().machine
    if machine not in _TABLES:
        fail(
            RuntimeError,
            "cpu_features",
            f"the processor must be one of {', '.join(sorted(_TABLES))}",
            got=machine,
            hint="run it on one of these; other processors have no kernels",
        )
    return _TABLES[machine]


def _linux_flags() -> set[str]:
    """The first processor's flags; only the head of the file is read, for it grows with the core
    count.
    """
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            key, _, value = line.partition(":")
            if key.strip() in ("flags", "Features"):
                return set(value.split())
    return set()


_MACOS_NAMES = {"avx1.0": "avx", "lzcnt": "abm"}


def _macos_flags() -> set[str]:
    import subprocess  # costs more to import than everything else here

    keys = ["machdep.cpu.features", "machdep.cpu.leaf7_features", "machdep.cpu.extfeatures"]
    found = subprocess.run(["sysctl", "-n", *keys], capture_output=True, text=True, check=False)
    words = found.stdout.lower().split()
    return {_MACOS_NAMES.get(word, word.replace(".", "_")) for word in words}


@functools.cache
def features() -> frozenset[str]:
    """The processor's features, by their Linux names."""
    if sys.platform == "linux":
        return frozenset(_linux_flags())
    if sys.platform == "darwin":
        return frozenset(_macos_flags())
    fail(
        RuntimeError,
        "cpu_features",
        "the platform must be linux or darwin",
        got=sys.platform,
        hint="run it in a linux container",
    )


def variants(machine: str | None = None) -> tuple[str, ...]:
    """Every variant of an architecture (this machine's), from the plainest to the richest."""
    return tuple(_table(machine))


def architecture(variant: str | None = None) -> str:
    """The architecture that a variant is of, or this machine: `x86_64` or `aarch64`."""
    return named_architecture() if variant is None else "x86_64" if variant in _X86 else "aarch64"


def named_architecture(machine: str | None = None) -> str:
    """The architecture that systems know by this name: `arm64` is `aarch64`. None: this machine's."""
    return "x86_64" if _table(machine) is _X86 else "aarch64"


def parts(variant: str) -> tuple[str, ...]:
    """The variants whose libraries, loaded in this order, hold the kernels of a variant."""
    base = _ADDS_TO.get(variant)
    return (variant,) if base is None else (*parts(base), variant)


def requirements(variant: str) -> tuple[str, ...]:
    """The processor features that a variant's code may use."""
    return _EVERY[variant][0]


def march_flags(variant: str) -> tuple[str, ...]:
    """The compiler flags that allow exactly the features of a variant."""
    return _EVERY[variant][1]


def _missing(variant: str) -> list[str]:
    return [feature for feature in requirements(variant) if feature not in features()]


_other = _local()


@contextlib.contextmanager
def as_if(variant: str) -> Iterator[None]:
    """A block in which this thread writes code for another processor."""
    before = getattr(_other, "variant", None)
    _other.variant = variant
    try:
        yield
    finally:
        _other.variant = before


@contextlib.contextmanager
def serving(variants: Iterable[str]) -> Iterator[None]:
    """A block in which what this thread makes has to do for all these variants: room for weights that
    any of them packs."""
    before = served()
    _other.served = tuple(variants)
    try:
        yield
    finally:
        _other.served = before


def served() -> tuple[str, ...]:
    """The variants that what is made now has to do for; empty: the one that this process runs."""
    found: tuple[str, ...] = getattr(_other, "served", ())
    return found


def detected() -> str:
    """The richest variant that this machine can run, or the one that `FACULA_ISA` names; in a block
    of `as_if` the one that it names."""
    return getattr(_other, "variant", None) or _detected()


@functools.cache
def _detected() -> str:
    forced = config.get("isa")
    if forced:
        return _checked(forced)
    for variant in reversed(variants()):
        if not _missing(variant):
            return variant
    plainest = variants()[0]
    fail(
        RuntimeError,
        "cpu_features",
        f"the processor must have the features of the variant {plainest}",
        got=f"no {', '.join(_missing(plainest))}",
        hint="run it on a newer processor",
    )


def _checked(forced: str) -> str:
    if forced not in variants():
        fail(
            ValueError,
            "cpu_features",
            f"FACULA_ISA must be one of {', '.join(variants())}",
            got=forced,
            hint="unset FACULA_ISA to have the variant chosen",
        )
    if _missing(forced):
        fail(
            RuntimeError,
            "cpu_features",
            f"FACULA_ISA={forced} needs features that this processor or its operating system has",
            got=f"no {', '.join(_missing(forced))}",
            hint="unset FACULA_ISA to have the variant chosen",
        )
    return forced


def choose(available: Iterable[str]) -> str:
    """The richest of the `available` variants that this machine can run.

    `FACULA_ISA` is taken by the letter: a forced variant must be available.
    """
    present = set(available)
    offered = {name for name in present if name in _table() and present.issuperset(parts(name))}
    best = detected()
    if config.get("isa"):
        if best not in offered:
            fail(
                RuntimeError,
                "cpu_features",
                f"FACULA_ISA={best} must name a variant that this installation holds",
                got=", ".join(sorted(offered)) or "none",
                hint=f"build it with FACULA_BUILD_ISA={best}",
            )
        return best
    order = variants()
    for variant in reversed(order[: order.index(best) + 1]):
        if variant in offered:
            return variant
    fail(
        RuntimeError,
        "cpu_features",
        f"the installation must hold kernels that a {best} processor can run",
        got=", ".join(sorted(offered)) or "no kernel library",
        hint="reinstall facula, or build in place with `pip install -e .`",
    )
