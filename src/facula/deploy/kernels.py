"""Native code for packages: the kernels that a program names, for each instruction set, and no others.

Takes: names of kernels, and the units of fused graphs for each variant. Gives: `libraries`: for each
variant the bytes of a shared library with a table of exactly these kernels.
Keeps true: a kernel is the one that the package's own libraries hold: the same text, the same flags;
each object is compiled once a machine.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from facula.codegen.c import units
from facula.codegen.c.isa import ISAS
from facula.core.errors import fail
from facula.deploy.native import source_folder
from facula.runtime import cache, cpu_features, programs
from facula.runtime.compile import (
    CompileError,
    compiler_command,
    default_flags,
    header_digest,
    include_folder,
    spelled_for,
)

#: the instruction sets that packages have code for, by architecture (`native/fm_load.h` looks for these)
VARIANTS = {
    machine: tuple(v for v in cpu_features.variants(machine) if cpu_features.parts(v) == (v,))
    for machine in ("x86_64", "aarch64")
}
#: what fused kernels are compiled with (`runtime.compile.graph_flags`)
_FUSED = ("-O2", "-fpeel-loops", "-fvect-cost-model=dynamic")


@functools.cache
def _family_of(name: str) -> str:
    """The family of units that has a kernel."""
    variant = ISAS[cpu_features.variants()[0]]
    for family, write in units.writers(variant):
        if name in _names_of(family, write):
            return family
    fail(
        NotImplementedError,
        "package",
        f"a kernel that can be written as C was required: {name} is in no unit",
        hint="operators from outside of facula have to be taken apart before a model is packaged",
    )


_known: dict[str, frozenset[str]] = {}


def _names_of(family: str, write: Callable[[], Iterable[tuple[str, str]]]) -> frozenset[str]:
    if family not in _known:
        texts = [text for _, text in write()]
        _known[family] = frozenset(m["name"] for t in texts for m in units.ENTRY.finditer(t))
    return _known[family]


def every_kernel(machine: str) -> list[str]:
    """The names of all kernels that an architecture has."""
    variant = cpu_features.variants(machine)[0]
    texts = (text for _, write in units.writers(ISAS[variant]) for _, text in write())
    return sorted({row["name"] for text in texts for row in units.ENTRY.finditer(text)})


@functools.lru_cache(maxsize=64)
def _written(variant: str, family: str) -> tuple[tuple[str, str], ...]:
    writers = dict(units.writers(ISAS[variant]))
    return tuple(writers[family]())


def _reduced(text: str, wanted: set[str]) -> str | None:
    """A unit without the rows of kernels that nobody wants; None where it has none of the others."""
    kept, rows = [], 0
    for line in text.splitlines(keepends=True):
        row = units.ENTRY.search(line)
        if row and row["name"] not in wanted:
            continue
        if row:
            wanted.discard(row["name"])
            rows += 1
        kept.append(line)
    return "".join(kept) if rows else None


def units_of(variant: str, names: Iterable[str]) -> list[tuple[str, str, tuple[str, ...]]]:
    """The units of a variant that have these kernels: name, text with them alone, flags."""
    wanted = set(names)
    found = []
    for family in sorted({_family_of(name) for name in wanted}):
        for name, text in _written(variant, family):
            reduced = _reduced(text, wanted)
            if reduced is not None:
                flags = (*units.UNIT_FLAGS, *units.LEVEL, *units.own_flags(name, variant))
                found.append((name, reduced, flags))
    if wanted:
        fail(
            NotImplementedError,
            "package",
            f"kernels for {variant} were required",
            f"none named {', '.join(sorted(wanted))}",
            hint="package the model for the other processors: variants=(...)",
        )
    return found


def _compile(command: Sequence[str]) -> None:
    status, errors = programs.run(list(command))
    if status:
        first = next((line for line in errors.splitlines() if "error" in line), errors[:200])
        fail(
            CompileError,
            "package",
            "the C compiler must accept the kernels",
            f"exit status {status}, {first.strip()}",
            hint=f"try by hand: {' '.join(command)}",
        )


def _object(variant: str, name: str, text: str, flags: Sequence[str]) -> bytes:
    """The object file of a unit, whose table has the unit's name."""
    symbol = re.sub(r"\W", "_", name)
    compiler = compiler_command(cpu_features.architecture(variant))
    chosen = [*default_flags(variant), "-fvisibility=hidden", *flags, "-ffunction-sections"]
    chosen += [f"-D{word}={word}_{symbol}" for word in ("facula_kernels", "facula_abi")]
    chosen = list(spelled_for(compiler, chosen))
    digest = hashlib.sha256("\0".join([*compiler, *chosen, text]).encode() + header_digest())

    def make(path: str) -> None:
        source = f"{path}.c"
        try:
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            _compile([*compiler, *chosen, f"-I{include_folder()}", "-c", source, "-o", path])
        finally:
            os.unlink(source)

    found = cache.entry("objects", digest.hexdigest()[:40], ".o", make)
    try:
        return bytes(found.content)
    finally:
        found.close()


#: a package among the read-only data of a library
_EMBEDDED = """__asm__(".section .rodata\\n.balign 64\\n.global facula_embedded\\n.global facula_embedded_end\\n"
        "facula_embedded:\\n.incbin \\"{path}\\"\\nfacula_embedded_end:\\n.byte 0\\n.previous\\n");
"""


def _linked(
    variant: str,
    names: Sequence[str],
    objects: Sequence[bytes],
    count: int,
    package: Sequence[bytes] = (),
) -> bytes:
    machine = cpu_features.architecture(variant)
    compiler = compiler_command(machine)
    plain = cpu_features.march_flags(cpu_features.variants(machine)[0])
    with tempfile.TemporaryDirectory(prefix="facula-package-") as folder:
        index, output = os.path.join(folder, "index.c"), os.path.join(folder, "kernels.so")
        with open(index, "w", encoding="utf-8") as file:
            file.write(units.index_text([re.sub(r"\W", "_", n) for n in names], count))
        paths = []
        for number, content in enumerate(objects):
            paths.append(os.path.join(folder, f"{number}.o"))
            with open(paths[-1], "wb") as file:
                file.write(content)
        if package:
            paths += _runtime_sources(folder, package)
        flags = ["-O2", "-std=gnu11", "-w", "-fPIC", "-shared", "-s", "-pthread", *plain]
        flags += ["-fvisibility=hidden", f'-DFACULA_VARIANT="{variant}"'] if package else []
        _compile(
            [*compiler, *spelled_for(compiler, flags), f"-I{include_folder()}", index, *paths]
            + ["-Wl,--gc-sections", "-lm", "-ldl", "-o", output]
        )
        with open(output, "rb") as file:
            return file.read()


def _runtime_sources(folder: str, package: Sequence[bytes]) -> list[str]:
    """The sources of a library that holds the runtime and a package."""
    content, source = os.path.join(folder, "package"), os.path.join(folder, "embedded.c")
    with open(content, "wb") as file:
        file.writelines(package)
    with open(source, "w", encoding="utf-8") as text:
        text.write(_EMBEDDED.format(path=content))
    return [source, os.path.join(source_folder(), "facula_model.c")]


def library_with(
    names: Iterable[str], fused: Sequence[str], variant: str, package: Sequence[bytes]
) -> bytes:
    """One shared library: the kernels of a variant, the runtime, and a package without native code."""
    parts = units_of(variant, sorted(names))
    parts += [(f"fused_{k}", text, _FUSED) for k, text in enumerate(fused)]
    objects = [_object(variant, *part) for part in parts]
    count = sum(len(units.ENTRY.findall(text)) for _, text, _ in parts)
    return _linked(variant, [name for name, _, _ in parts], objects, count, package)


def libraries(
    names: Iterable[str], fused: Mapping[str, Sequence[str]], variants: Sequence[str]
) -> dict[str, bytes]:
    """A library for each variant with the kernels of these names, and the fused units."""
    made: dict[str, bytes] = {}
    wanted = sorted(names)
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        for variant in variants:
            parts = units_of(variant, wanted)
            parts += [(f"fused_{k}", text, _FUSED) for k, text in enumerate(fused[variant])]
            objects = list(pool.map(lambda part, v=variant: _object(v, *part), parts))
            count = sum(len(units.ENTRY.findall(text)) for _, text, _ in parts)
            made[variant] = _linked(variant, [name for name, _, _ in parts], objects, count)
    return made
