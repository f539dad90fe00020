"""Reading programs: `jit.load`.

Takes the path of a file that `jit.save` of PyTorch or facula wrote, or a stream. Gives the scripted module.
Keeps true: the code in the file is parsed and compiled to graphs, never executed by Python; what a
`__setstate__` of the file does while it is read is a bounded number of steps; pickles make data and
objects of the file's own classes only; whatever is wrong is a `RuntimeError` or `UnpicklingError`.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pickle import UnpicklingError
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.jit.archive_code import ArchiveCode
from facula.jit.interpreter import bounded
from facula.jit.older_calls import NEWEST, OlderOperators
from facula.jit.packed_types import PackedType
from facula.jit.python_types import NoType
from facula.jit.script_objects import RecursiveScriptModule, ScriptModule, run_unit
from facula.nn import Parameter
from facula.ops.table.schemas import types as T
from facula.serialization.archive import ArchiveReader, read_entry
from facula.serialization.checkpoint import StorageReader, placer
from facula.serialization.files import opened_for_reading
from facula.serialization.rebuild import find as find_data
from facula.serialization.unpickle import DataUnpickler, Maker, set_attributes

__all__ = ["load"]

#: code files are small: a larger one is not read
_CODE_LIMIT = 1 << 26


def load(
    f: Any,
    map_location: Any = None,
    _extra_files: dict[str, Any] | None = None,
    _restore_shapes: bool = False,
) -> Any:
    """The module of a file that `save` or `torch.jit.save` wrote.

    Args:
        f: a path, or a file opened for reading bytes
        map_location: where tensors go, as in `facula.load`

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> facula.jit.save(facula.jit.script(facula.nn.ReLU()), file)
        >>> _ = file.seek(0)
        >>> type(facula.jit.load(file)).__name__
        'RecursiveScriptModule'
    """
    with opened_for_reading(f, "jit.load") as stream:
        start = stream.tell()
        whole = stream if start == 0 else io.BytesIO(stream.read())
        try:
            with bounded():
                return _Program(whole, placer(map_location)).load(_extra_files)
        except (zipfile.BadZipFile, SyntaxError, RecursionError, zlib.error, UnicodeDecodeError,
                MemoryError, KeyError, IndexError, TypeError, AttributeError, AssertionError,
                NoType) as error:  # fmt: skip
            return fail(RuntimeError, "jit.load", "a well-formed program was required",
                        f"{type(error).__name__}: {str(error)[:200]}",
                        hint="the file is damaged, or no TorchScript program")  # fmt: skip


class _Program:
    """An archive that is being read."""

    def __init__(self, stream: Any, place: Callable[[Any, str], Any]) -> None:
        self.archive = ArchiveReader(stream, program=True)
        self.zip = zipfile.ZipFile(stream)
        if any(
            e.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            for e in self.zip.infolist()
        ):
            raise zipfile.BadZipFile("records that no program of PyTorch's is compressed like")
        self.place = place
        if "constants.pkl" not in self.archive:
            fail(RuntimeError, "jit.load", "a TorchScript program was required", "a file of tensors",
                 hint="read it with load()")  # fmt: skip
        self.code = ArchiveCode(self.text, self._constants, self._older_operators())
        self._loaded_constants: list[Any] | None = None

    def _older_operators(self) -> Any:
        """What the code's operators are, where some meant something else; None in files of today."""
        entry = self.archive.records.get(f"{self.archive.prefix}/version")
        if entry is None or entry.file_size > 20:
            return None
        written = read_entry(self.zip, entry, self.archive.length, packed=True).strip()
        if not written.isdigit() or int(written) > NEWEST:
            return None
        return OlderOperators(int(written))

    def text(self, path: str) -> str | None:
        """The code of a file in the archive."""
        name = f"{self.archive.prefix}/code/{path}"
        entry = self.archive.records.get(name)
        if entry is None:
            return None
        if entry.file_size > _CODE_LIMIT:
            fail(
                RuntimeError,
                "jit.load",
                "small files of code were required",
                entry.file_size,
                hint="the file is damaged, or no TorchScript program",
            )
        return read_entry(self.zip, entry, self.archive.length, packed=True).decode()

    def _constants(self) -> list[Any]:
        """The tensors that the code names `CONSTANTS.c0`, ..."""
        if self._loaded_constants is None:
            found = self._unpickled("constants.pkl", "constants")
            self._loaded_constants = list(found)
        return self._loaded_constants

    def _unpickled(self, record: str, folder: str) -> Any:
        order = bytes(self.archive.read("byteorder")) if "byteorder" in self.archive else b"little"
        reader = StorageReader(self.archive, self.place, order == b"big", folder)
        return DataUnpickler(self.archive.read(record), self._find, reader.persistent).load()

    def load(self, extra: dict[str, Any] | None) -> Any:
        """The module."""
        found = self._unpickled("data.pkl", "data")
        if not isinstance(found, ScriptModule):
            fail(RuntimeError, "jit.load", "a module was required", type(found).__name__,
                 hint="jit.save() writes modules and functions")  # fmt: skip
        for name in extra if extra is not None else ():
            if f"extra/{name}" in self.archive:
                assert extra is not None
                extra[name] = self._extra(name)
        self._compile(found)
        return found

    def _extra(self, name: str) -> bytes:
        record = f"{self.archive.prefix}/extra/{name}"
        return read_entry(self.zip, record, self.archive.length, packed=True)

    def _compile(self, module: Any) -> None:
        for unit in list(module._script_type.methods.values()):
            unit.compiled()

    # ---- names in pickles
    def _find(self, module: str, name: str) -> Any:
        if module == "__torch__" or module.startswith("__torch__."):
            return self._own(f"{module}.{name}")
        if module == "torch.jit._pickle":
            return _BUILDERS[name]
        return find_data(module, name)

    def _own(self, qualified: str) -> Maker:
        kind = self.code.type_named(qualified)
        if isinstance(kind, T.NamedTupleType):
            return Maker(qualified, kind.python)
        if isinstance(kind, T.EnumType):
            values = {m.value: m for m in kind.members.values()}
            return Maker(qualified, lambda value: values[value], bare=True)
        if not isinstance(kind, T.ClassType):
            fail(
                KeyError,
                "jit.load",
                "a class was required",
                qualified,
                hint="the file is damaged, or no TorchScript program",
            )
        if isinstance(kind, PackedType):
            made: Any = kind.python
            return Maker(qualified, lambda: made[0].__new__(made[0]), kind.fill)
        if kind.is_module:
            return Maker(qualified, lambda: RecursiveScriptModule(kind, {}), _fill)
        python: Any = kind.python
        return Maker(qualified, lambda: python.__new__(python), _fill_object)


def _fill_object(obj: Any, state: object) -> None:
    unit = obj._script_type.methods.get("__setstate__")
    if unit is not None:
        unit.compiled().run(obj, state)  # within the steps of the whole file
    else:
        if isinstance(state, dict):
            types = obj._script_type.attributes
            state = {k: _named(v, types[k]) if k in types else v for k, v in state.items()}
        set_attributes(obj, state)


def _fill(module: RecursiveScriptModule, state: object) -> None:
    """Gives a module its attributes."""
    kind = module._script_type
    _register_hooks(module, kind)
    unit = kind.methods.get("__setstate__")
    if unit is not None and "__getstate__" in kind.methods:
        unit.compiled().run(module, state)
        return
    if not isinstance(state, dict) or not all(isinstance(k, str) for k in state):
        fail(
            UnpicklingError,
            "jit.load",
            "a dict of attributes was required",
            type(state).__name__,
            hint="the file is damaged, or no TorchScript program",
        )
    for name, value in state.items():
        if name.startswith("__") or name not in kind.attributes:
            fail(
                UnpicklingError,
                "jit.load",
                f"an attribute of {kind.name} was required",
                name,
                hint="the file is damaged, or no TorchScript program",
            )
        if isinstance(value, ScriptModule):
            module._modules[name] = value
        elif name in kind.parameters:
            given = value if value is None else _parameter(value)
            module._parameters[name] = given
        elif name in kind.buffers:
            module._buffers[name] = value
        else:
            module.__dict__[name] = _named(value, kind.attributes[name])


def _named(value: Any, kind: T.Type) -> Any:
    """A value of a file, in which named tuples are plain ones, as its type says."""
    kind = T.without_none(kind)
    if kind.kind == "Tuple" and isinstance(value, tuple):
        if len(value) != len(kind.inner):
            required = f"{len(kind.inner)} items of a tuple were required"
            hint = "the file is damaged, or no TorchScript program"
            fail(UnpicklingError, "jit.load", required, len(value), hint=hint)
        items = [_named(v, t) for v, t in zip(value, kind.inner, strict=True)]
        return kind.python(*items) if isinstance(kind, T.NamedTupleType) else tuple(items)
    if kind.kind == "List" and isinstance(value, list):
        value[:] = [_named(v, kind.inner[0]) for v in value]
    if kind.kind == "Dict" and isinstance(value, dict):
        for key, item in value.items():
            value[key] = _named(item, kind.inner[1])
    return value


def _register_hooks(module: RecursiveScriptModule, kind: T.ClassType) -> None:
    """Has calls from Python run the methods that the file names as hooks."""
    for names, register in (
        (kind.pre_hooks, module.register_forward_pre_hook),
        (kind.hooks, module.register_forward_hook),
    ):
        for name in names:
            if name not in kind.methods:
                fail(UnpicklingError, "jit.load", f"a method of {kind.name} was required as hook", name,
                     hint="the file is damaged, or no TorchScript program")  # fmt: skip
            register(partial(_run_hook, name))


def _run_hook(name: str, module: RecursiveScriptModule, *given: Any) -> Any:
    return run_unit(module._script_type.methods[name], name, (module, *given), {})


def _parameter(value: object) -> Any:
    if not isinstance(value, core.Tensor):
        fail(
            UnpicklingError,
            "jit.load",
            "a tensor as parameter was required",
            type(value).__name__,
            hint="the file is damaged, or no TorchScript program",
        )
    return Parameter(value.detach(), bool(value.requires_grad))


def _list(kind: str) -> Maker:
    return Maker(kind, lambda items: list(items))


_BUILDERS: dict[str, Any] = {
    **{
        n: _list(n)
        for n in ("build_intlist", "build_tensorlist", "build_doublelist", "build_boollist")
    },
    "restore_type_tag": Maker("restore_type_tag", lambda value, tag: value),
}
