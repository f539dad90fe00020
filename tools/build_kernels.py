"""Writes, compiles and links the kernel libraries: `python tools/build_kernels.py --output DIR`.

Takes the facula package that Python finds first (its core is built, its kernels need not be) and
the manifest `codegen/c/units.py`; gives one shared library per instruction-set variant,
`DIR/<variant>.so`.  Keeps true: a unit is compiled again only if its text, its flags, `facula_abi.h`
or the compiler changed; a kernel's name stands for one kernel; a library is there whole or not at
all.
"""

import argparse
import ctypes
import hashlib
import importlib
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from facula.codegen.c.isa import isa
from facula.codegen.c.units import ENTRY, LEVEL, UNIT_FLAGS, UNITS, index_text, own_flags
from facula.core import check_operands
from facula.deploy import native
from facula.runtime import compile as runtime_compile
from facula.runtime import cpu_features

INCLUDED = re.compile(r'^\s*#\s*include\s*"(?!facula_abi\.h")([^"]+)"', re.MULTILINE)
#: what looks like the row of a table, whole or not
ROW = re.compile(r'\{\s*"[^"]+",\s*\'[mbd]\',')


@dataclass(frozen=True)
class Unit:
    """One translation unit: its name (a C identifier), its text, and the kernels it exports."""

    name: str
    text: str

    def kernels(self) -> list[str]:
        return [row["name"] for row in ENTRY.finditer(self.text)]


def collect(variant: str, manifest: Iterable[str] = UNITS) -> Iterator[Unit]:
    """Asks every generator in the manifest for its C."""
    for place in manifest:
        module, _, function = place.partition(":")
        written = getattr(importlib.import_module(module), function)(isa(variant))
        name = module.rpartition(".")[2]
        pairs = [(name, written)] if isinstance(written, str) else written
        for part, text in pairs:
            yield Unit(identifier(part), text)


def identifier(name: str) -> str:
    """A unit's name as a C identifier."""
    return re.sub(r"\W", "_", name)


@dataclass
class Builder:
    """Compiles the units of one variant into `work` and links them."""

    variant: str
    work: Path
    compiler: list[str]
    pool: ThreadPoolExecutor

    def __post_init__(self) -> None:
        self.flags = [*runtime_compile.default_flags(self.variant), *UNIT_FLAGS]
        self.flags += LEVEL
        self.seed = hashlib.sha256("\0".join([*self.compiler, *self.flags]).encode())
        self.seed.update(runtime_compile.header_digest())
        self.folder = self.work / self.variant
        self.folder.mkdir(parents=True, exist_ok=True)

    def submit(self, unit: Unit) -> "Future[tuple[Unit, Path, float]]":
        return self.pool.submit(self.compile, unit)

    def compile(self, unit: Unit) -> tuple[Unit, Path, float]:
        """The unit's object file, and the seconds it took (0 when it was there)."""
        flags = own_flags(unit.name, self.variant)
        digest = self.seed.copy()
        digest.update("\0".join([*flags, unit.text]).encode())
        target = self.folder / f"{unit.name}-{digest.hexdigest()[:16]}.o"
        if target.exists():
            target.touch()
            return unit, target, 0.0
        source = self.folder / f"{unit.name}.c"
        source.write_text(unit.text)
        begin = time.perf_counter()
        names = [f"-D{symbol}={symbol}_{unit.name}" for symbol in ("facula_kernels", "facula_abi")]
        self.run([*self.flags, *flags, *names, "-c", str(source)], target)
        return unit, target, time.perf_counter() - begin

    def run(self, arguments: list[str], target: Path) -> None:
        """Runs the compiler into a temporary file, then renames it."""
        temporary = target.with_suffix(f".{os.getpid()}.tmp")
        command = [*self.compiler, *arguments, f"-I{runtime_compile.include_folder()}"]
        command += ["-o", str(temporary)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            temporary.unlink(missing_ok=True)
            sys.exit(f"{shlex.join(command)}\n{result.stderr[:4000]}")
        os.replace(temporary, target)

    def link(self, units: list[Unit], objects: list[Path], output: Path) -> None:
        """Joins the objects and an index of their tables into one library."""
        text = index_text([unit.name for unit in units], sum(len(u.kernels()) for u in units))
        digest = hashlib.sha256(text.encode() + "".join(path.name for path in objects).encode())
        stamp = self.folder / "linked"
        if output.exists() and stamp.exists() and stamp.read_text() == digest.hexdigest():
            return
        index = self.folder / "index.c"
        index.write_text(text)
        # the index runs on any processor of the architecture: a builder checks what it cannot run
        plain = cpu_features.march_flags(cpu_features.variants()[0])
        arguments = ["-O1", "-fPIC", "-shared", "-s", *plain, str(index)]
        # checked under a name of its own: one of this name may be loaded, and would be found instead
        checked = self.folder / digest.hexdigest()[:16] / output.name
        checked.parent.mkdir(exist_ok=True)
        self.run([*arguments, *map(str, objects), "-lm"], checked)
        check_library(checked, units)
        shutil.move(checked, output)
        checked.parent.rmdir()
        stamp.write_text(digest.hexdigest())


def check_names(units: list[Unit]) -> None:
    """A name in two units, or twice in one, would hide a kernel; what a kernel says of its operands
    must be readable, since every launch is checked against it; a header of ours beyond
    `facula_abi.h` would not count in what tells objects apart."""
    for unit in units:
        if found := INCLUDED.search(unit.text):
            sys.exit(f"unit {unit.name} includes {found[1]}; a kernel knows facula_abi.h alone")
    counts = Counter(name for unit in units for name in unit.kernels())
    doubled = [name for name, count in counts.items() if count > 1]
    if doubled:
        sys.exit(f"kernels defined more than once: {', '.join(sorted(doubled)[:20])}")
    for unit in units:
        if len(unit.kernels()) != len(ROW.findall(unit.text)):
            sys.exit(f"{unit.name}: a kernel says nothing of its operands")
        for row in ENTRY.finditer(unit.text):
            check_operands(row["operands"])
    names = Counter(unit.name for unit in units)
    doubled = [name for name, count in names.items() if count > 1]
    if doubled:
        sys.exit(f"units with the same name: {', '.join(doubled)}")


class Entry(ctypes.Structure):
    """`fk_entry`, as the core reads it."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_char),
        ("function", ctypes.c_void_p),
        ("operands", ctypes.c_char_p),
    ]


def check_library(path: Path, units: list[Unit]) -> None:
    """Loads a library as the core will, and compares its table with the units' text."""
    library = ctypes.CDLL(str(path.resolve()))
    expected = [name for unit in units for name in unit.kernels()]
    table = (Entry * (len(expected) + 1)).in_dll(library, "facula_kernels")
    gathered = ctypes.c_int64.in_dll(library, "facula_gathered").value
    if gathered != len(expected) or [entry.name.decode() for entry in table[:-1]] != expected:
        sys.exit(f"{path}: the library's table is not that of its units")


def processor_seconds() -> float:
    """What this process and the compilers that it ran have used; other programs do not count."""
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return sum(usage.ru_utime + usage.ru_stime for usage in (own, children))


def build_variant(variant: str, arguments: argparse.Namespace, compiler: list[str]) -> None:
    """Writes, compiles and links one variant, and says what it took."""
    begin, spent = time.perf_counter(), processor_seconds()
    # what the variants loaded before hold already: units of the same text
    there = {unit for base in cpu_features.parts(variant)[:-1] for unit in collect(base)}
    # the longest first, so that no processor waits at the end
    own = [unit for unit in collect(variant) if unit not in there]
    units = sorted(own, key=lambda unit: -len(unit.text))
    check_names(units)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        builder = Builder(variant, arguments.work, compiler, pool)
        pending = [builder.submit(unit) for unit in units]
        written = time.perf_counter() - begin
        done = [future.result() for future in pending]
    output = arguments.output / f"{variant}.so"
    builder.link(units, [path for _, path, _ in done], output)
    kernels = sum(len(unit.kernels()) for unit in units)
    print(
        f"{variant}: {kernels} kernels in {len(units)} units, "
        f"{output.stat().st_size / 1e6:.2f} MB, {time.perf_counter() - begin:.1f} s "
        f"({written:.1f} s to write the C), {processor_seconds() - spent:.1f} s of processor time"
    )
    if arguments.verbose:
        for unit, _, seconds in sorted(done, key=lambda item: -item[2]):
            print(f"  {unit.name:<24} {seconds:7.1f} s  {len(unit.kernels()):5d} kernels")


def drop_stale(work: Path, days: float = 3) -> None:
    """Deletes objects that no build has asked for lately."""
    oldest = time.time() - days * 86400
    for path in work.glob("*/*.o"):
        if path.stat().st_mtime < oldest:
            path.unlink()


def wanted_variants(text: str) -> list[str]:
    """`all`, or variant names and `native` joined by commas."""
    known = cpu_features.variants()
    names = known if text == "all" else text.split(",")
    names = [cpu_features.detected() if name == "native" else name for name in names]
    unknown = set(names) - set(known)
    if unknown:
        sys.exit(f"unknown variants {sorted(unknown)}; there are {known}")
    return list(dict.fromkeys(part for name in names for part in cpu_features.parts(name)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, required=True, help="folder for <variant>.so")
    parser.add_argument(
        "--work", type=Path, default=Path("build/kernels"), help="folder for objects"
    )
    parser.add_argument("--isa", default="native", help="native, all, or names joined by commas")
    parser.add_argument("--jobs", type=int, default=2, help="compiler processes at a time")
    parser.add_argument(
        "--runtime", action="store_true", help="the runtime of packaged models, too"
    )
    parser.add_argument("--verbose", action="store_true", help="seconds and kernels of each unit")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    compiler = runtime_compile.compiler_command()
    variants = wanted_variants(arguments.isa)
    for variant in variants:
        build_variant(variant, arguments, compiler)
    drop_stale(arguments.work)
    for path in arguments.output.glob("*.so"):
        if path.stem not in cpu_features.variants():
            path.unlink()
    if arguments.runtime:
        native.build(str(arguments.output))


if __name__ == "__main__":
    main()
