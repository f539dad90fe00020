"""Packages: exported programs as native code for several instruction sets, weights and a manifest.

Takes: an `ExportedProgram`. Gives: `compile_and_package`, `load_package`.
Keeps true: a package needs neither Python nor a compiler to run; loading one in Python opens no pickle
and runs nothing but its kernels, after their digests were checked.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.deploy.kernels import VARIANTS, libraries, library_with
from facula.deploy.model import Model
from facula.deploy.package import ALIGNMENT, package_bytes, unnamed, write_package
from facula.deploy.program_text import Value, kernels_in, plain_name, program_text
from facula.deploy.programs import Parts, Source, compiled_parts
from facula.export.description import write_spec
from facula.export.description_reader import read_spec
from facula.export.exported_program import ExportedProgram
from facula.fx import _pytree as pytree
from facula.runtime import cpu_features
from facula.runtime.cache import write_atomically
from facula.serialization.archive import read_entry


def variants_here() -> tuple[str, ...]:
    """The instruction sets that packages hold unless told otherwise."""
    return VARIANTS[cpu_features.architecture()]


def _checked_variants(variants: Sequence[str] | None) -> tuple[str, ...]:
    """The variants of a package, whatever machine they are for."""
    chosen = tuple(variants_here() if variants is None else variants)
    known = [variant for each in VARIANTS.values() for variant in each]
    if unknown := [variant for variant in chosen if variant not in known]:
        fail(
            ValueError,
            "package",
            f"variants among {', '.join(known)} were required, which the runtime looks for",
            ", ".join(map(str, unknown)),
            hint="leave variants out: a package then has code for this machine's processors",
        )
    return chosen


def _machine_of(variants: Sequence[str]) -> str:
    """The architecture of a package; `any` where it has code for several."""
    machines = {cpu_features.architecture(variant) for variant in variants}
    return machines.pop() if len(machines) == 1 else "any"


class Weights:
    """Constants one after the other, each at a multiple of 64 bytes; equal tables stand once."""

    def __init__(self, parts: Parts) -> None:
        self.pieces: list[bytes] = []
        self.length = 0
        self.values: list[Value] = []
        self.tables: dict[str, int] = {}
        read = _read_constants(parts)
        for number, (name, tensor) in enumerate(parts.source.constants):
            content = _content(tensor) if number in read else b""
            self.add(name, tensor, content)
        for k, tensor in enumerate(parts.derived):
            sizes = tuple((0, n, 0) for n in tensor.shape)
            nbytes = tensor.numel() * tensor.dtype.itemsize
            self.values.append(Value(f"derived.{k}", tensor.dtype.code, sizes, True, 0, nbytes))
        for region in parts.regions:
            for digest, content in region.noted.tables.items():
                if digest not in self.tables:
                    self.tables[digest] = len(self.values)
                    self.put(
                        Value(f"table.{len(self.tables)}", "u8", ((0, len(content), 0),)), content
                    )

    def add(self, name: str, tensor: core.Tensor, content: bytes) -> None:
        """A constant that has a name."""
        sizes = tuple((0, n, 0) for n in tensor.shape)
        self.put(Value(plain_name(name), tensor.dtype.code, sizes), content)

    def put(self, value: Value, content: bytes) -> None:
        """Append elements."""
        value.offset, value.nbytes = self.length, len(content)
        space = -len(content) % ALIGNMENT
        self.pieces += [content, bytes(space)]
        self.length += len(content) + space
        self.values.append(value)

    def content(self) -> bytes:
        """All of them."""
        return b"".join(self.pieces)


def _content(tensor: core.Tensor) -> bytes:
    plain = tensor.detach().contiguous()
    return ctypes.string_at(plain.data_ptr(), plain.numel() * plain.dtype.itemsize)


def _read_constants(parts: Parts) -> set[int]:
    """The constants that launches read: others are folded away."""
    return {
        number
        for region in parts.regions
        for step in region.noted.steps
        for base in step.bases
        if base is not None and base[0] == "constant"
        for number in (base[1],)
    } | {
        base[1]
        for region in parts.regions
        for base, _, _ in region.noted.results
        if base is not None and base[0] == "constant"
    }


def entries_of(parts: Parts, variants: Sequence[str]) -> dict[str, bytes]:
    """What stands in a package, by name."""
    weights = Weights(parts)
    kernels = kernels_in(parts.regions)
    prebuilt = [name for name in kernels if not name.startswith("fused/")]
    text = program_text(
        len(parts.source.symbols), parts.source.inputs, weights.values, weights.tables, kernels,
        parts.regions,
    )  # fmt: skip
    entries = {"program": text.encode()}
    if variants:
        made = libraries(prebuilt, parts.fused, variants)
        entries |= {f"lib/{variant}.so": content for variant, content in made.items()}
    return {**entries, "weights": weights.content()}


def compile_and_package(
    program: ExportedProgram,
    path: Any,
    options: dict[str, Any] | None = None,
    variants: Sequence[str] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Any:
    """Compile an exported program into one file; gives its path.

    Args:
        program: what `facula.export.export` gave.
        path: where the file is to be, or a file that is open for writing; None: among the temporary files, by
            what is in it.
        options: options of the compiler.
        variants: the instruction sets that it has code for, of one architecture or of several: `v2`, `v3`, `v4`,
            `neon`. Default: all of this machine's.
        metadata: texts that `LoadedPackage.get_metadata` gives.
    """
    if not isinstance(program, ExportedProgram):
        fail(
            TypeError,
            "package",
            "an exported program was required",
            type(program).__name__,
            hint="facula.export.export(module, args) makes one",
        )
    chosen = _checked_variants(variants)
    parts = compiled_parts(Source(program), chosen, options)
    entries = entries_of(parts, chosen)
    entries["call"] = call_text(program, metadata)
    return write_package(path, entries, _machine_of(chosen))


def compile_library(
    program: ExportedProgram,
    path: Any,
    options: dict[str, Any] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> str:
    """Compile an exported program into one shared library for this processor; gives its path.

    Where `path` is None, it lies among the temporary files, by what is in it. It exports the functions of
    `facula_model.h`; `facula_model_open_embedded` opens the model.
    """
    variant = cpu_features.parts(cpu_features.detected())[0]
    parts = compiled_parts(Source(program), (variant,), options)
    entries = {**entries_of(parts, ()), "call": call_text(program, metadata)}
    prebuilt = [k for k in kernels_in(parts.regions) if not k.startswith("fused/")]
    package = package_bytes(entries, cpu_features.architecture())
    content = library_with(prebuilt, parts.fused[variant], variant, package)
    target = unnamed(package, ".so") if path is None else os.path.abspath(os.fspath(path))
    with write_atomically(target) as temporary, open(temporary, "wb") as file:
        file.write(content)
    return target


def call_text(program: ExportedProgram, metadata: Mapping[str, str] | None = None) -> bytes:
    """How arguments and results are nested, which arguments are tensors, and what else is to be told."""
    tensors = [
        type(spec.arg).__name__ != "ConstantArgument"
        for spec in program.graph_signature.input_specs
        if spec.kind.name == "USER_INPUT"
    ]
    said = {
        "in": write_spec(program.in_spec),
        "out": write_spec(program.out_spec),
        "tensors": tensors,
        "metadata": {str(key): str(value) for key, value in (metadata or {}).items()},
    }
    return json.dumps(said).encode()


def _call_of(path: Any) -> tuple[Any, Any, list[bool], dict[str, str]]:
    """What `call_text` wrote: how arguments and results are nested, which are tensors, what else is told."""
    try:
        with zipfile.ZipFile(_package_in(path)) as file:  # its digests were checked
            most = len(path) if isinstance(path, bytes) else os.path.getsize(path)
            said = json.loads(read_entry(file, "call", most))
        given, made = read_spec(said["in"]), read_spec(said["out"])
        tensors, told = said["tensors"], said.get("metadata", {})
        if len(given.children_specs) != 2 or len(tensors) != given.num_leaves:
            fail(ValueError, "package", "arguments of the model were required in its description",
                 f"{len(tensors)} of {given.num_leaves}", hint="package the model again")  # fmt: skip
        return given, made, [bool(each) for each in tensors], dict(told)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, NotImplementedError,
            zipfile.BadZipFile) as error:  # fmt: skip
        return fail(RuntimeError, "package", "a description of the call was required (its entry `call` is damaged)",
                    f"{type(error).__name__}: {str(error)[:100]}", hint="package the model again")  # fmt: skip


def _package_in(path: Any) -> Any:
    """The package, which may stand inside of a library."""
    if isinstance(path, bytes):
        return io.BytesIO(path)
    if not os.fspath(path).endswith(".so"):
        return path
    with open(path, "rb") as file:
        content = file.read()
    begin = content.find(b"PK\x03\x04")
    end = content.rfind(b"PK\x05\x06")
    return io.BytesIO(content[begin : end + 22])


class LoadedPackage:
    """A package as a function of the arguments that the module took; any number of threads may call it."""

    def __init__(self, path: Any, kernels: str | None = None) -> None:
        self.model = Model(path, kernels)
        self._in, self._out, self._tensors, self._told = _call_of(path)
        #: the user's own tensors, each with the version of it that the model has
        self._managed: dict[str, tuple[Any, int]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._follow()
        leaves, spec = pytree.tree_flatten((args, self._ordered(kwargs)))
        if spec != self._in:
            fail(
                ValueError,
                "package",
                f"arguments nested as in the export were required: {self._in}",
                spec,
                hint="pass arguments as they were given to export()",
            )
        given = [x for x, is_tensor in zip(leaves, self._tensors, strict=True) if is_tensor]
        return pytree.tree_unflatten(list(self.model(*given)), self._out)

    def _ordered(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        names = self._in.children_specs[1].context or []
        return {name: kwargs[name] for name in names if name in kwargs} | kwargs

    def get_constant_fqns(self) -> list[str]:
        """The names of parameters and buffers."""
        hidden = ("derived.", "table.")
        return [c["name"] for c in self.model.constants() if not c["name"].startswith(hidden)]

    def load_constants(
        self, constants_map: Mapping[str, Any], *, check_full_update: bool = False,
        user_managed: bool = False, allow_h2d_copy: bool = False,
    ) -> None:  # fmt: skip
        """Other elements for parameters and buffers.

        Args:
            constants_map: tensors by the names of `get_constant_fqns`.
            check_full_update: whether all of them have to be there.
            user_managed: whether the model follows what is written to these tensors later.
            allow_h2d_copy: kept for PyTorch's API: elements lie on the CPU.
        """
        missing = set(self.get_constant_fqns()) - {plain_name(n) for n in constants_map}
        if check_full_update and missing:
            fail(
                RuntimeError,
                "package",
                "all constants were required",
                f"none for {', '.join(sorted(missing))}",
                hint="check_full_update=False changes some",
            )
        named = {plain_name(n): x for n, x in constants_map.items()}
        self.model.update_constants(named)
        for name, tensor in named.items():
            self._managed.pop(name, None)
            if user_managed:
                self._managed[name] = tensor, tensor._version

    def _follow(self) -> None:
        """What was written to the user's own tensors since."""
        for name, (tensor, version) in list(self._managed.items()):
            if tensor._version != version:
                self._managed[name] = tensor, tensor._version
                self.model.update_constants({name: tensor})

    def update_constant_buffer(
        self, tensor_map: Mapping[str, Any], use_inactive: bool = False,
        validate_full_updates: bool = False, user_managed: bool = False,
    ) -> None:  # fmt: skip
        """`load_constants` as the loader of PyTorch's packages has it.

        Args:
            tensor_map: tensors by the names of `get_constant_fqns`.
            use_inactive: False; there is no second set of constants.
            validate_full_updates: whether all of them have to be there.
            user_managed: whether the model follows what is written to these tensors later.

        Raises:
            NotImplementedError: `use_inactive` is True.
        """
        if use_inactive:
            fail(
                NotImplementedError,
                "update_constant_buffer",
                "use_inactive=False was required",
                use_inactive,
                hint="runs that have begun keep the constants that they began with; no second set is needed",
            )
        self.load_constants(
            tensor_map, check_full_update=validate_full_updates, user_managed=user_managed
        )

    def get_metadata(self) -> dict[str, str]:
        """What the package was made for, and what its maker told (`aot_inductor.metadata`)."""
        return {"AOTI_DEVICE_KEY": "cpu", "variant": self.model.variant, **self._told}

    @property
    def loader(self) -> PackageLoader:
        """The same on flat lists of tensors."""
        return PackageLoader(self)


class PackageLoader:
    """A package as a function of lists of tensors, under the names of PyTorch's loader."""

    def __init__(self, package: LoadedPackage) -> None:
        self._package = package
        self.get_constant_fqns = package.get_constant_fqns
        self.get_metadata = package.get_metadata
        self.update_constant_buffer = package.update_constant_buffer
        self.load_constants = package.update_constant_buffer

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The results of these inputs, as they stand in the file."""
        self._package._follow()
        return list(self._package.model(*inputs))

    def boxed_run(self, inputs: list[Any]) -> list[Any]:
        """The same; the list is empty afterwards."""
        given = list(inputs)
        inputs.clear()
        return self.run(given)


def load_package(path: Any) -> LoadedPackage:
    """A package, ready to be called: by its path, or out of an open file."""
    return LoadedPackage(path.read() if hasattr(path, "read") else os.fspath(path))
