"""Writing programs: `jit.save`.

Takes a scripted module or function, and a path or stream. Writes a file that PyTorch and `jit.load` read.
Keeps true: everything is put together before anything is written; what PyTorch could not read (a part
that runs in Python) is an error that names it.
"""

from __future__ import annotations

import enum
import io
import os
from typing import Any, BinaryIO

from facula import core
from facula.core.errors import fail
from facula.jit.code_text import Names, code_and_constants, literal, unit_text
from facula.jit.module_views import module_of
from facula.jit.modules import scripted_class
from facula.jit.packed_types import PackedType, type_of_object
from facula.jit.portable import PortableFunction
from facula.jit.python_types import enum_type, type_of_value
from facula.jit.script_objects import CODE, SAVE, RecursiveScriptModule, ScriptFunction
from facula.nn import Module, Parameter
from facula.ops.table.schemas import types as T
from facula.ops.table.schemas.codes import CODED, code_of
from facula.serialization import storages
from facula.serialization.archive import ArchiveWriter
from facula.serialization.files import is_path, written_atomically
from facula.serialization.pickle_writer import CheckpointPickler

__all__ = ["save"]

#: the version of PyTorch's file format for programs
_VERSION = b"10\n"


def save(m: Any, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Writes a scripted module or function to a file; PyTorch reads it.

    Args:
        m: what is written
        f: a path, or a file opened for writing bytes

    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> facula.jit.save(facula.jit.script(facula.nn.ReLU()), file)
        >>> _ = file.seek(0)
        >>> facula.jit.load(file)(facula.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """
    m = module_of(m)
    if isinstance(m, ScriptFunction):
        m = _placeholder(m)
    if not isinstance(m, RecursiveScriptModule):
        fail(RuntimeError, "jit.save", "a scripted or traced module or function was required",
             type(m).__name__, hint="jit.script() makes one")  # fmt: skip
    program = _Writer(m)
    program.collect()
    if is_path(f):
        name = os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive"
        with written_atomically(f) as stream:
            program.write(stream, name, _extra_files or {})
    else:
        program.write(f, "archive", _extra_files or {})


def _placeholder(function: ScriptFunction) -> RecursiveScriptModule:
    """A function as the `forward` of a module without attributes."""
    kind = T.ClassType("__torch__.PlaceholderModule", True)
    kind.attributes["training"] = T.BOOL
    kind.methods["forward"] = _Method(function.unit.compiled(), kind)
    return RecursiveScriptModule(kind, {"training": True})


class _Method:
    """A function with a `self` that it does not use."""

    def __init__(self, unit: Any, kind: T.ClassType) -> None:
        self.unit, self.kind, self.definition = unit, kind, unit.definition

    def compiled(self) -> Any:
        return self

    def text(self, names: Names) -> str:
        """The definition."""
        made = unit_text(self.unit, "forward", names)
        comma = ",\n    " if self.unit.parameters else ""
        return made.replace(
            "def forward(", f"def forward(self: {names.of_type(self.kind)}{comma}", 1
        )


class _Writer:
    """A program that is being put together."""

    def __init__(self, module: RecursiveScriptModule) -> None:
        self.module, self.names = module, Names()
        self.texts: dict[Any, str] = {}
        self.needed: dict[T.ClassType, set[str]] = {}

    def collect(self) -> None:
        """The text of everything that the module's methods reach."""
        self._modules(self.module)
        while True:
            kinds = [k for k in list(self.names.types) if k not in self.texts]
            functions = [u for u in list(self.names.functions) if u not in self.texts]
            if not kinds and not functions:
                return
            for kind in kinds:
                self.texts[kind] = self._class(kind)
            for unit in functions:
                own = self.names.functions[unit].rpartition(".")[2]
                self.texts[unit] = self._checked(unit, unit_text(unit, own, self.names))

    def _modules(self, module: RecursiveScriptModule) -> None:
        self.names.of_type(module._script_type)
        for child in module._modules.values():
            if child is not None:
                self._modules(child)

    def _checked(self, unit: Any, text: str) -> str:
        """Refuses a function whose graph calls Python."""
        if isinstance(unit, PortableFunction):
            return text
        for node in unit.compiled().graph.all_nodes():
            if node.kind_ == "prim::PythonOp":
                fail(RuntimeError, "jit.save", "a program without parts that run in Python was required",
                     node.attributes["name"],
                     hint="write the part as TorchScript, or mark it @jit.unused")  # fmt: skip
        return text

    # ---- classes
    def _class(self, kind: Any) -> str:
        name = self.names.types[kind].rpartition(".")[2]
        if isinstance(kind, PackedType):
            return ""  # PyTorch has the class
        if isinstance(kind, T.NamedTupleType):
            fields = zip(kind.fields, kind.inner, strict=True)
            body = [f"  {f} : {self.names.annotation(t)}" for f, t in fields]
            return "\n".join([f"class {name}(NamedTuple):", *body, ""])
        if isinstance(kind, T.EnumType):
            body = [f"  {n} = {literal(m.value, self.names)}" for n, m in kind.members.items()]
            return "\n".join([f"class {name}(Enum):", *body, ""])
        return self._objects(kind, name)

    def _objects(self, kind: T.ClassType, name: str) -> str:
        if kind.is_interface:
            return self._interface(kind, name)
        base = "(Module)" if kind.is_module else ""
        lines = [f"class {name}{base}:"]
        if kind.is_module:
            for own, listed in kind.listed_names().items():
                if listed or own in ("__parameters__", "__buffers__"):
                    names = "".join(literal(n, self.names) + ", " for n in listed)
                    lines.append(f"  {own} = [{names}]")
            odd = [n for n in kind.attributes if not n.isidentifier()]
            if odd:
                lines.append("  __annotations__ = []")
        for attribute, of in kind.attributes.items():
            text = self.names.annotation(of)
            plain = attribute.isidentifier()
            lines.append(
                f"  {attribute} : {text}" if plain else f'  __annotations__["{attribute}"] = {text}'
            )
        for name_, value in kind.constants.items() if kind.is_module else ():
            kept = _constant_type(value)
            if kept is not None and name_.isidentifier() and name_ not in kind.attributes:
                lines.append(
                    f"  {name_} : Final[{self.names.annotation(kept)}] = {literal(value, self.names)}"
                )
        for method in self._methods(kind):
            lines.extend("  " + line for line in method.splitlines())
        if len(lines) == 1:
            lines.append("  pass")
        return "\n".join([*lines, ""])

    def _interface(self, kind: T.ClassType, name: str) -> str:
        """An interface: its methods with their types."""
        of_modules = (
            kind.is_module or isinstance(kind.python, type) and issubclass(kind.python, Module)
        )
        base = "ModuleInterface" if of_modules else "Interface"
        lines = [f"class {name}({base}):"]
        for own, unit in kind.methods.items():
            given = [
                "self",
                *(f"{n}: {self.names.annotation(k)}" for n, k, _ in unit.parameters[1:]),
            ]
            result = self.names.annotation(unit.result_type())
            lines += [f"  def {own}({', '.join(given)}) -> {result}:", "    pass"]
        return "\n".join([*lines, ""])

    def _methods(self, kind: T.ClassType) -> list[str]:
        """The methods that were compiled, and those that have to be."""
        made: list[str] = []
        if "__getstate__" in kind.methods and "__setstate__" in kind.methods:
            for name in ("__getstate__", "__setstate__"):  # the file has what they say
                kind.methods[name].compiled()
        own: Any = getattr(kind.methods.get("forward"), "unit", None)
        in_python = own is not None and getattr(own, "_whole", None) is own
        if in_python:
            own.graph  # noqa: B018  it says that there is none
        for name, unit in list(kind.methods.items()):
            if isinstance(unit, _Method):
                self._checked(unit.unit, "")
                made.append(unit.text(self.names))
                continue
            ready = self._compiled(name, unit)
            if ready is not None:
                self._checked(ready, "")
                made.append(unit_text(ready, name, self.names, typed_self=True))
        return made

    def _compiled(self, name: str, unit: Any) -> Any:
        inner = getattr(unit, "unit", unit) if getattr(unit, "_unit", unit) is not None else None
        if inner is None:
            return None
        whole = getattr(inner, "_whole", None)
        if whole is not None and whole is not inner:
            return whole
        if hasattr(inner, "_graph"):
            from_file = getattr(inner, "is_archive", False)  # what a file has, the next one has too
            return inner.compiled() if from_file or inner._graph is not None else None
        sequence = getattr(unit, "_unit", None)
        return sequence if hasattr(sequence, "_graph") else None

    # ---- the file
    def write(self, stream: BinaryIO, prefix: str, extra: dict[str, Any]) -> None:
        """All records."""
        body, constants = io.BytesIO(), io.BytesIO()
        data = _ProgramPickler(body, self.names)
        data.dump(self.module)
        self.collect()  # classes of objects of which the code knows an interface only
        tensors = _ProgramPickler(constants, self.names)
        tensors.dump(tuple(_plain(c) for c in self.names.constants))
        archive = ArchiveWriter(stream, prefix)
        with body.getbuffer() as content:
            archive.add("data.pkl", content)
        for key, storage in data.storages.items():
            archive.add(f"data/{key}", storages.contents(storage))
        for path, text in self._files().items():
            archive.add(f"code/{path}", text.encode())
        with constants.getbuffer() as content:
            archive.add("constants.pkl", content)
        for key, storage in tensors.storages.items():
            archive.add(f"constants/{key}", storages.contents(storage))
        for name, content in extra.items():
            archive.add(f"extra/{name}", content.encode() if isinstance(content, str) else content)
        archive.add("byteorder", b"little")
        archive.add("version", _VERSION)
        archive.close()

    def _files(self) -> dict[str, str]:
        """The texts by the file in which their names lie."""
        found: dict[str, str] = {}
        for thing, text in self.texts.items():
            name = self.names.types.get(thing) or self.names.functions[thing]
            path = name.rpartition(".")[0].replace(".", "/") + ".py"
            found[path] = found.get(path, "") + text + "\n"
        return found


def _constant_type(value: Any) -> T.Type | None:
    """The type of a constant that a class in a file can have; None for others."""
    items = value if type(value) in (tuple, list) else (value,)
    plain = items and all(type(v) in (bool, int, float, str) for v in items)
    return type_of_value(value) if plain or value is None else None


def _plain(value: object) -> Any:
    """A tensor as a file of a program has it: no parameter."""
    if isinstance(value, Parameter):
        return value.detach().requires_grad_(value.requires_grad)
    return value


class _ProgramPickler(CheckpointPickler):
    """Writes modules and objects of scripted classes under the names of their types."""

    def __init__(self, stream: BinaryIO, names: Names) -> None:
        super().__init__(stream, 2)
        self._types = names

    def save(self, obj: object, save_persistent_id: bool = True) -> None:
        if isinstance(obj, tuple) and hasattr(type(obj), "_fields"):
            obj = tuple(obj)  # the type of the attribute has the names
        if isinstance(obj, enum.Enum):  # a class called with the value itself, as PyTorch has it
            module, _, name = self._types.of_type(enum_type(type(obj))).rpartition(".")
            self.save(self.named(module, name))
            self.save(obj.value)
            self.write(b"R")
            return
        kind = (
            getattr(obj, "_script_type", None) or type_of_object(obj) or scripted_class(type(obj))
        )
        if not isinstance(kind, T.ClassType):
            super().save(obj, save_persistent_id)
            return
        known = self.memo.get(id(obj))
        if known is not None:
            self.write(self.get(known[0]))
            return
        module, _, name = self._types.of_type(kind).rpartition(".")
        self.save(self.named(module, name))
        self.write(b")\x81")
        self.memoize(obj)
        self.save(self._state(obj, kind))
        self.write(b"b")

    def _state(self, obj: Any, kind: T.ClassType) -> Any:
        """The attributes of an object, or what its class says that its state is."""
        if isinstance(kind, PackedType):
            return self._typed(kind.state_of(obj), kind.state_type)
        if "__getstate__" not in kind.methods or "__setstate__" not in kind.methods:
            return {n: self._attribute(obj, n, t) for n, t in kind.attributes.items()}
        unit: Any = kind.methods["__getstate__"].compiled()
        return self._typed(unit.run(obj), unit.result_type())

    def _typed(self, value: Any, kind: T.Type) -> Any:
        """A value with the types of the lists and dicts in it."""
        if isinstance(value, tuple) and kind.kind == "Tuple":
            return tuple(self._typed(v, t) for v, t in zip(value, kind.inner, strict=True))
        if isinstance(value, core.Tensor):
            return _plain(value)
        return (
            _Tagged(value, T.without_none(kind).annotation_str)
            if isinstance(value, (list, dict))
            else value
        )

    def _attribute(self, obj: object, name: str, kind: T.Type) -> Any:
        value = obj._modules.get(name) if kind.kind == "Class" and kind.is_module else None  # type: ignore[attr-defined]
        value = getattr(obj, name) if value is None else value
        if isinstance(value, CODED):
            return code_of(value)
        if isinstance(value, core.Tensor):
            return _plain(value)
        if kind.kind in ("List", "Dict") or (
            kind.kind == "Optional" and isinstance(value, (list, dict))
        ):
            return _Tagged(value, T.without_none(kind).annotation_str)
        return value

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, _Tagged):
            return self.named("torch.jit._pickle", "restore_type_tag"), (obj.value, obj.text)
        if type(obj) is complex:
            return self.named("builtins", "complex"), (obj.real, obj.imag)
        return super().reducer_override(obj)


class _Tagged:
    """A list or dict with its type."""

    def __init__(self, value: Any, text: str) -> None:
        self.value, self.text = value, text


SAVE.append(save)
CODE.append(code_and_constants)
