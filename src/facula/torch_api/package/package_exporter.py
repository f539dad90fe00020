"""Packages are made: an archive of modules, objects and files.

Takes sources, objects and files, and what is to become of the modules that they need. Gives a file that
`PackageImporter`, here or in PyTorch, reads.
Keeps true: every module that something in the package imports was decided about, or the package is not made; a
path holds the whole package or what was there before.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import os
import platform
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

from facula.autograd.hooks import RemovableHandle
from facula.core.errors import fail
from facula.serialization import storages
from facula.serialization.archive import ArchiveWriter
from facula.serialization.files import is_path, written_atomically
from facula.serialization.pickle_names import names_in

from ._digraph import DiGraph
from ._mangling import demangle, is_mangled
from ._mock_source import MODULE, OBJECTS
from .errors import EmptyMatchError, PackagingError, PackagingErrorReason
from .find_file_dependencies import find_files_source_depends_on
from .glob_group import GlobPattern
from .importer import Importer, OrderedImporter, sys_importer
from .patterns import Action, Hook, Patterns, comes_with_python
from .pickles import PackagePickler

__all__ = ["EmptyMatchError", "PackageExporter", "PackagingError", "PackagingErrorReason"]

#: modules that every package has
_PROVIDED = ("torch_package_importer", "_mock")
_EXTENSIONS = (".so", ".pyd", ".dll", ".dylib")


class PackageExporter:
    """Writes code, pickled objects and files into one archive; used in a `with` block.

    For each module that is needed the first pattern that matches decides: `intern` puts it into the package,
    `extern` leaves it to the interpreter that reads the package, `mock` puts an empty one in its place, `deny`
    refuses it. facula's and Python's own modules are extern unless a pattern says otherwise (`sys` and `io` have
    to be named).

    Args:
        f: a path, or a file opened for writing bytes.
        importer: where modules and classes are found; several are asked in order.
        debug: whether an error says who needs each module.

    Example:
        >>> with facula.package.PackageExporter("model.pt") as exporter:
        ...     exporter.intern("my_models.**")
        ...     exporter.extern("numpy.**")
        ...     exporter.save_pickle("model", "model.pkl", model)
    """

    def __init__(
        self,
        f: str | os.PathLike[str] | BinaryIO,
        importer: Importer | Sequence[Importer] = sys_importer,
        debug: bool = False,
    ) -> None:
        several = isinstance(importer, Sequence)
        self.importer: Any = OrderedImporter(*cast(Any, importer)) if several else importer
        self.debug, self.patterns, self.dependency_graph = debug, Patterns(), DiGraph()
        self._storages: dict[Any, tuple[int, Any]] = {}
        self._written: dict[str, int] = {}
        self._count = 0
        self._file = contextlib.ExitStack()
        stream: Any = f
        self.name = "archive"
        if is_path(f):
            self.name = os.path.basename(os.fspath(cast(str, f))).partition(".")[0] or "archive"
            stream = self._file.enter_context(written_atomically(cast(str, f)))
        self._archive: ArchiveWriter | None = ArchiveWriter(stream, self.name)

    # ------------------------------------------------------------------ what becomes of modules

    def intern(
        self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True
    ) -> None:
        """Put the modules that the patterns match into the package, with what they import."""
        self.patterns.add(Action.INTERN, include, exclude, allow_empty)

    def extern(
        self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True
    ) -> None:
        """Leave the modules that the patterns match to the interpreter that reads the package.

        Args:
            include: a pattern or several: `numpy.*`, `numpy.**`.
            exclude: what is not meant though `include` matches it.
            allow_empty: whether it is fine when no module matches (`EmptyMatchError` otherwise).
        """
        self.patterns.add(Action.EXTERN, include, exclude, allow_empty)

    def mock(
        self, include: GlobPattern, *, exclude: GlobPattern = (), allow_empty: bool = True
    ) -> None:
        """Put empty modules in the place of those that the patterns match; their objects refuse to be used."""
        self.patterns.add(Action.MOCK, include, exclude, allow_empty)

    def deny(self, include: GlobPattern, *, exclude: GlobPattern = ()) -> None:
        """Refuse to make a package that needs a module that the patterns match."""
        self.patterns.add(Action.DENY, include, exclude, True)

    def register_extern_hook(self, hook: Hook) -> RemovableHandle:
        """Have `hook(exporter, module_name)` called for each extern module."""
        return self.patterns.hook(Action.EXTERN, hook)

    def register_mock_hook(self, hook: Hook) -> RemovableHandle:
        """Have `hook(exporter, module_name)` called for each mocked module."""
        return self.patterns.hook(Action.MOCK, hook)

    def register_intern_hook(self, hook: Hook) -> RemovableHandle:
        """Have `hook(exporter, module_name)` called for each module that is put into the package."""
        return self.patterns.hook(Action.INTERN, hook)

    # ------------------------------------------------------------------ what is saved

    def save_module(self, module_name: str, dependencies: bool = True) -> None:
        """Put a module into the package by its name."""
        if not isinstance(module_name, str):
            fail(
                TypeError,
                "save_module",
                "the name of a module was required",
                type(module_name).__name__,
                hint="module.__name__ is its name",
            )
        self._intern(demangle(module_name), dependencies)

    def save_source_string(
        self, module_name: str, src: str, is_package: bool = False, dependencies: bool = True
    ) -> None:
        """Put a module of this source into the package."""
        self.dependency_graph.add_node(
            module_name,
            source=src,
            is_package=is_package,
            provided=True,
            action=Action.INTERN,
            error=None,
        )
        if dependencies:
            for needed in self._needs(module_name, src, is_package):
                self.dependency_graph.add_edge(module_name, needed)
                self.add_dependency(needed)

    def save_source_file(
        self, module_name: str, file_or_directory: str, dependencies: bool = True
    ) -> None:
        """Put a file, or all Python files of a folder, into the package under a name."""
        path = Path(file_or_directory)
        if not path.is_dir():
            self.save_source_string(module_name, path.read_text("utf-8"), False, dependencies)
            return
        for file in sorted(path.rglob("*.py")):
            parts = [module_name, *file.relative_to(path).with_suffix("").parts]
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            self.save_source_string(name, file.read_text("utf-8"), is_package, dependencies)

    def save_pickle(
        self,
        package: str,
        resource: str,
        obj: object,
        dependencies: bool = True,
        pickle_protocol: int = 3,
    ) -> None:
        """Pickle an object into the package; the modules of its classes are what it needs."""
        stream = io.BytesIO()
        PackagePickler(self, cast(BinaryIO, stream), pickle_protocol).dump(obj)
        data = stream.getvalue()
        where = f"<{package}.{resource}>"
        self.dependency_graph.add_node(where, is_pickle=True, provided=True)
        if dependencies:
            for module in dict.fromkeys(module for module, _ in names_in(data)):
                self.dependency_graph.add_edge(where, module)
                self.add_dependency(module)
                node = self.dependency_graph.nodes[module]
                if node.get("action") is Action.MOCK:
                    node["error"] = PackagingErrorReason.MOCKED_BUT_STILL_USED
        self._add(_path(package, resource), data)

    def save_text(self, package: str, resource: str, text: str) -> None:
        """Put a text into the package, as UTF-8."""
        self.save_binary(package, resource, text.encode("utf-8"))

    def save_binary(self, package: str, resource: str, binary: bytes) -> None:
        """Put bytes into the package."""
        self._add(_path(package, resource), binary)

    def get_unique_id(self) -> str:
        """A text that this exporter gives once."""
        self._count += 1
        return str(self._count - 1)

    # ------------------------------------------------------------------ what is needed

    def add_dependency(self, module_name: str, dependencies: bool = True) -> None:
        """Decide about a module that something in the package needs."""
        graph = self.dependency_graph
        if module_name in graph and graph.nodes[module_name].get("provided"):
            return
        if module_name in _PROVIDED:
            graph.add_node(module_name, provided=True)
            return
        action = (
            self.patterns.action_for(module_name)
            if not comes_with_python(module_name)
            else Action.EXTERN
        )
        if action is Action.INTERN:
            self._intern(module_name, dependencies)
            return
        graph.add_node(module_name, provided=True, action=action)
        if action is None:
            graph.add_node(module_name, error=PackagingErrorReason.NO_ACTION)
        elif action is Action.DENY:
            graph.add_node(module_name, error=PackagingErrorReason.DENIED)

    def _intern(self, module_name: str, dependencies: bool) -> None:
        graph = self.dependency_graph
        if graph.nodes.get(module_name, {}).get("source") is not None:
            return
        module = self.importer.import_module(module_name)
        graph.add_node(module_name, action=Action.INTERN, provided=True)
        is_package = hasattr(module, "__path__")
        error, source = self._source_of(module, module_name)
        if error is not None:
            graph.add_node(module_name, error=error, error_context=source)
            return
        self.save_source_string(module_name, cast(str, source), is_package, dependencies)

    def _source_of(self, module: Any, name: str) -> tuple[PackagingErrorReason | None, str | None]:
        """A module's source; or why there is none, and where it was looked for."""
        file = getattr(module, "__file__", None)
        if file is None:
            if hasattr(module, "__path__"):  # a folder without a source of its own
                return None, ""
            return PackagingErrorReason.NO_DUNDER_FILE, None
        if file.endswith(_EXTENSIONS):
            return PackagingErrorReason.IS_EXTENSION_MODULE, None
        if is_mangled(module.__name__):
            return None, module.__loader__.get_source(module.__name__)
        found = "".join(linecache.getlines(file, vars(module)))
        get = getattr(getattr(module, "__loader__", None), "get_source", None)
        if get is not None:
            with contextlib.suppress(ImportError, OSError):
                found = get(module.__name__) or found
        if not found and not os.path.isfile(file):
            return PackagingErrorReason.SOURCE_FILE_NOT_FOUND, file
        return None, found

    def _needs(self, module_name: str, source: str, is_package: bool) -> list[str]:
        """The modules that a source imports."""
        package = module_name if is_package else module_name.rpartition(".")[0]
        try:
            found = find_files_source_depends_on(source, package)
        except (ImportError, SyntaxError, ValueError) as error:
            self.dependency_graph.add_node(
                module_name,
                error=PackagingErrorReason.DEPENDENCY_RESOLUTION_FAILED,
                error_context=str(error),
            )
            return []
        names: dict[str, None] = {}
        for module, name in found:
            inside = f"{module}.{name}"
            names[inside if name is not None and self._is_module(inside) else module] = None
        return list(names)

    def _is_module(self, name: str) -> bool:
        if name in self.dependency_graph:
            return True
        try:
            self.importer.import_module(name)
        except Exception:  # whatever its code raises: it is no module that a package can have
            return False
        return True

    # ------------------------------------------------------------------ the file

    def _add(self, name: str, data: Any) -> None:
        if self._archive is None:
            fail(
                RuntimeError,
                "PackageExporter",
                "an exporter that is open was required",
                "a closed one",
                hint="save in the `with` block",
            )
        if name in self._written or any(part in ("", ".", "..") for part in name.split("/")):
            fail(
                RuntimeError,
                "PackageExporter",
                "a new name inside of the package was required",
                repr(name),
                hint="save each file once",
            )
        self._written[name] = zlib.crc32(data)
        self._archive.add(name, data)

    def close(self) -> None:
        """Write modules and the directory; done at the end of the `with` block.

        Raises:
            PackagingError: something about the modules that are needed is not decided.
            EmptyMatchError: a pattern with `allow_empty=False` matched nothing.
        """
        if self._archive is None:
            return
        try:
            self._finish()
        except BaseException as error:
            self._abandon(error)
            raise
        self._archive = None
        self._file.close()

    def _finish(self) -> None:
        nodes = self.dependency_graph.nodes
        for name, node in nodes.items():
            if node.get("error") is PackagingErrorReason.NO_ACTION and self._has_files(name):
                del node["error"]  # a folder of files that code of the package reads
        if any(node.get("error") is not None for node in nodes.values()):
            raise PackagingError(self.dependency_graph, self.debug)
        self.patterns.check_matched()
        externs = []
        for name, node in list(nodes.items()):
            action = node.get("action")
            if action is None:
                continue
            self.patterns.tell(action, self, name)
            if action is Action.EXTERN:
                externs.append(name)
            else:
                source = MODULE if action is Action.MOCK else node["source"]
                is_package = (
                    node.get("is_package", False)
                    or action is Action.MOCK
                    and self._has_modules(name)
                )
                self._add(_source_path(name, is_package), source.encode("utf-8"))
        if self.mocked_modules() or "_mock" in nodes:
            self._add("_mock.py", OBJECTS.encode())
        for number, storage in self._storages.values():
            self._add(f".data/{number}.storage", storages.contents(storage))
        self._add(".data/extern_modules", "".join(f"{name}\n" for name in externs).encode())
        self._add(".data/python_version", platform.python_version().encode())
        self._add("byteorder", b"little")
        self._add(".data/version", b"6\n")
        number = zlib.crc32(repr(sorted(self._written.items())).encode())
        self._add(".data/serialization_id", f"{number:040d}".encode())
        assert self._archive is not None
        self._archive.close()

    def _has_files(self, name: str) -> bool:
        folder = name.replace(".", "/") + "/"
        return any(written.startswith(folder) for written in self._written)

    def _has_modules(self, name: str) -> bool:
        return any(other.startswith(name + ".") for other in self.dependency_graph)

    def _abandon(self, error: BaseException) -> None:
        """Leave what was at the path."""
        self._archive = None
        with contextlib.suppress(type(error)):
            self._file.__exit__(type(error), error, error.__traceback__)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, exc_type: object, exc_value: Any, traceback: object) -> None:
        if exc_value is None:
            self.close()
        elif self._archive is not None:
            self._abandon(exc_value)

    # ------------------------------------------------------------------ questions

    def _with_action(self, action: Action) -> list[str]:
        found = self.dependency_graph.nodes.items()
        return [name for name, node in found if node.get("action") is action]

    def externed_modules(self) -> list[str]:
        """The modules that are left to the interpreter, but for facula's and Python's own."""
        return [n for n in self._with_action(Action.EXTERN) if not comes_with_python(n)]

    def interned_modules(self) -> list[str]:
        """The modules that are in the package."""
        return self._with_action(Action.INTERN)

    def mocked_modules(self) -> list[str]:
        """The modules that are empty in the package."""
        return self._with_action(Action.MOCK)

    def denied_modules(self) -> list[str]:
        """The modules that are needed, and denied."""
        return self._with_action(Action.DENY)

    def get_rdeps(self, module_name: str) -> list[str]:
        """What needs a module directly."""
        if module_name not in self.dependency_graph:
            return []
        return list(self.dependency_graph.predecessors(module_name))

    def all_paths(self, src: str, dst: str) -> str:
        """The ways from one module to another, as Graphviz's text."""
        return self.dependency_graph.all_paths(src, dst)

    def dependency_graph_string(self) -> str:
        """Who needs whom, as Graphviz's text."""
        return self.dependency_graph.to_dot()


def _path(package: str, resource: str) -> str:
    return f"{demangle(package).replace('.', '/')}/{resource}"


def _source_path(name: str, is_package: bool) -> str:
    return name.replace(".", "/") + ("/__init__.py" if is_package else ".py")
