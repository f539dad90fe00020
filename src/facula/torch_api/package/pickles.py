"""Pickles in packages: objects of any class, whose code the package has or asks of the interpreter.

Takes objects and importers. Gives pickles, and objects from them.
Keeps true: an object's class is written under the name by which an importer finds it; names of facula's own
modules are PyTorch's in the file; reading imports what the pickle names, through the package's importer.
"""

from __future__ import annotations

import importlib
import io
import pickle
import struct
from collections.abc import Callable
from typing import Any

from facula import core
from facula.core.errors import fail, is_own, own_name
from facula.fx import GraphModule
from facula.serialization import rebuild, storages
from facula.serialization.pickle_writer import CheckpointPickler
from facula.serialization.rebuild import StorageType
from facula.serialization.unpickle import Maker

from . import graph_modules
from ._mangling import demangle
from .importer import Importer, ObjMismatchError, ObjNotFoundError

__all__ = ["PackagePickler", "PackageUnpickler"]


class PackagePickler(CheckpointPickler):
    """Pickles one object under the names by which an importer finds classes and functions."""

    def __init__(self, exporter: Any, stream: Any, protocol: int) -> None:
        super().__init__(stream, protocol)
        self.exporter, self.importer = exporter, exporter.importer
        self._reduced: dict[int, tuple[Any, Any]] = {}

    def key_of(self, storage: Any) -> str:
        """The number of a storage in the whole package."""
        key = self.exporter._storages.setdefault(
            storages.identity(storage), (len(self.exporter._storages), storage)
        )[0]
        self.storages.setdefault(str(key), storage)
        return str(key)

    def persistent_id(self, obj: object) -> tuple | None:
        found = super().persistent_id(obj)
        if found is not None:
            kind, storage_type, key, *rest = found
            return (kind, storage_type, int(key), *rest)
        if type(obj).__name__ in ("ScriptModule", "RecursiveScriptModule", "ScriptFunction"):
            fail(
                NotImplementedError,
                "save_pickle",
                "objects without TorchScript programs were required",
                type(obj).__name__,
                hint="save the program with jit.save into a BytesIO, and its bytes with save_binary()",
            )
        if isinstance(obj, GraphModule):
            if id(obj) not in self._reduced:
                self._reduced[id(obj)] = obj, graph_modules.parts_of(obj, self.exporter)
            parts = self._reduced[id(obj)][1]
            return "reduce_package", parts[1], self.named(*graph_modules.FUNCTION), parts
        if hasattr(obj, "__reduce_package__") and not isinstance(obj, type):
            if id(obj) not in self._reduced:
                self._reduced[id(obj)] = obj, self.exporter.get_unique_id()
            number = self._reduced[id(obj)][1]
            return ("reduce_package", number, *obj.__reduce_package__(self.exporter))
        return None

    def save_global(self, obj: object, name: str | None = None) -> None:
        if isinstance(obj, (core.dtype, core.memory_format)) or type(obj).__name__ in _CONSTANTS:
            super().save_global(obj, name)
            return
        if name is None and isinstance(obj, type) and obj in _SINGLE:
            self.save_reduce(type, (_SINGLE[obj],), obj=obj)
            return
        try:
            module, found = self.importer.get_name(obj, name)
        except (ObjNotFoundError, ObjMismatchError) as error:
            raise pickle.PicklingError(str(error)) from error
        self.write(f"c{_written_module(demangle(module))}\n{found}\n".encode())
        self.memoize(obj)


#: what PyTorch's names in a file stand for, and schemes of quantization
_CONSTANTS = ("_Name", "qscheme")
_SINGLE = {type(None): None, type(NotImplemented): NotImplemented, type(...): ...}


def _written_module(name: str) -> str:
    """A module's name in the file: PyTorch's for facula's own."""
    return "torch" + own_name(name).removeprefix("facula") if is_own(name) else name


class _Callable(Maker):
    """What makes tensors and the like, as Python's own pickles call it."""

    def __call__(self, *arguments: Any) -> Any:
        make = self.make
        assert make is not None
        return make(*arguments)


_Unpickler: Any = vars(pickle)["_Unpickler"]


class PackageUnpickler(_Unpickler):
    """Reads one pickle of a package: imports and calls what it names."""

    def __init__(
        self, importer: Importer, data: bytes, persistent: Callable[[Any], Any], **options: Any
    ) -> None:
        super().__init__(io.BytesIO(data), **options)
        self.importer, self.persistent_load = importer, persistent

    def find_class(self, module: str, name: str) -> Any:
        if module == "facula" or module.startswith(("facula.", "torch.")) or module == "torch":
            return _own(own_name(module).removeprefix("facula").removeprefix("torch"), name)
        found: Any = self.importer.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found


def _own(place: str, name: str) -> Any:
    """What a name of PyTorch means here."""
    if (f"torch{place}", name) == graph_modules.FUNCTION:
        return graph_modules.rebuilt
    known = rebuild.TABLE.get((f"torch{place}", name))
    if isinstance(known, Maker):
        if known.target is not None and isinstance(known.target, type):
            return known.target
        return _Callable(known.name, known.make, known.restore, known.target)
    if known is not None:
        return known
    try:
        found: Any = importlib.import_module(f"facula{place}")
        for part in name.split("."):
            found = getattr(found, part)
        return found
    except (ImportError, AttributeError):
        pass
    try:
        return rebuild.find(f"torch{place}", name).target
    except (KeyError, AttributeError):
        return fail(
            pickle.UnpicklingError,
            "load_pickle",
            "a name that facula has was required",
            f"torch{place}.{name}",
            hint="the package was made with another version",
        )


class Storages:
    """The storages of a package, each read the first time that a pickle names it."""

    def __init__(self, records: Any) -> None:
        self.records = records
        self.found: dict[Any, Any] = {}

    def get(self, identity: Any, place: Callable[[Any, str], Any]) -> Any:
        """A storage, put where the caller wants it."""
        _, kind, key, location, count = identity[:5]
        if not isinstance(kind, StorageType) or type(count) is not int or count < 0:
            raise struct.error("a storage is named by its type, key, location and count")
        if key not in self.found:
            data = self.records.get_record(f".data/{key}.storage")
            if len(data) != count * kind.itemsize:
                fail(
                    RuntimeError,
                    "load_pickle",
                    f"{count * kind.itemsize} bytes of the storage {key} were required",
                    len(data),
                    hint="the package is damaged",
                )
            made = storages.allocate(len(data))
            storages.contents(made)[:] = data
            self.found[key] = place(made, str(location))
        return rebuild.referenced(self.found[key], kind)
