"""Packages are read: modules, objects and files of an archive.

Takes the file of a package, of facula or PyTorch. Gives `PackageImporter`.
Keeps true: opening a package runs nothing of it. `import_module` and `load_pickle` run its code, with all that this
code may do: use them for packages that you trust. Modules of a package are its own, under mangled names; what is
neither in it nor among its extern modules is not found.
"""

from __future__ import annotations

import builtins
import importlib.util
import inspect
import linecache
import weakref
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from facula.core.errors import fail, message
from facula.serialization.checkpoint import placer

from ._mangling import PackageMangler, demangle
from .file_structure_representation import Directory, directory_of
from .glob_group import GlobPattern
from .importer import Importer
from .pickles import PackageUnpickler, Storages
from .readers import opened
from .resources import PackageResources

__all__ = ["PackageImporter"]


class PackageImporter(Importer):
    """Imports modules, and loads objects and files, from a package.

    Importing modules and loading pickles run the package's code: open packages that you trust only.

    Args:
        file_or_buffer: a path, a folder into which a package was unpacked, or a file opened for reading bytes.
        module_allowed: asked of each module that the package wants from the interpreter; False refuses it.

    Raises:
        ImportError: the package wants a module that is not allowed.

    Example:
        >>> importer = facula.package.PackageImporter("model.pt")
        >>> model = importer.load_pickle("model", "model.pkl")
    """

    def __init__(
        self, file_or_buffer: object, module_allowed: Callable[[str], bool] = lambda name: True
    ) -> None:
        self.zip_reader, self.filename = opened(file_or_buffer)
        self._mangler = PackageMangler()
        self.modules: dict[str, Any] = {"torch_package_importer": self}
        self._records = frozenset(self.zip_reader.get_all_records())
        self._folders = frozenset(
            name[:at] for name in self._records for at, sign in enumerate(name) if sign == "/"
        )
        listed = ".data/extern_modules"
        names = self._text(listed).split("\n") if listed in self._records else []
        self.extern_modules = [name for name in names if name]
        for name in self.extern_modules:
            if not module_allowed(name):
                fail(
                    ImportError,
                    "PackageImporter",
                    "extern modules that are allowed were required",
                    repr(name),
                    hint="the package needs it from the interpreter; module_allowed refuses it",
                )
        self._storages = Storages(self.zip_reader)
        self._reduced: dict[str, Any] = {}
        self._builtins = dict(vars(builtins), __import__=self.__import__)
        #: of the pickle that is being read: where storages go
        self.last_map_location: Any = None

    def _text(self, name: str) -> str:
        return self.zip_reader.get_record(name).decode()

    # ------------------------------------------------------------------ modules

    def import_module(self, name: str, package: str | None = None) -> ModuleType:
        """Import a module of the package, or one of its extern modules; its code is run.

        Raises:
            ModuleNotFoundError: the package neither has it nor wants it from the interpreter.
        """
        if name.startswith("."):
            name = importlib.util.resolve_name(name, package)
        found: ModuleType = self._imported(demangle(name))
        return found

    def _imported(self, name: str) -> Any:
        if name in self.modules:
            return self.modules[name]
        parent, _, last = name.rpartition(".")
        if parent:
            above = self._imported(parent)
            if name in self.modules:  # the parent's code has imported it
                return self.modules[name]
        made = self._made(name)
        if parent and not self._is_extern(parent):
            setattr(above, last, made)
        return made

    def _is_extern(self, name: str) -> bool:
        """Whether a module, or a package above it, comes from the interpreter."""
        parts = name.split(".")
        return any(".".join(parts[: n + 1]) in self.extern_modules for n in range(len(parts)))

    def _made(self, name: str) -> Any:
        path = name.replace(".", "/")
        if self._is_extern(name):
            self.modules[name] = importlib.import_module(_here(name))
            return self.modules[name]
        for record, is_package in ((f"{path}/__init__.py", True), (f"{path}.py", False)):
            if record in self._records:
                return self._run(name, record, is_package)
        if path in self._folders and not path.startswith(".data"):
            return self._run(name, None, True)
        if any(e.startswith(name + ".") for e in self.extern_modules):
            return self._run(name, None, True)
        raise ModuleNotFoundError(
            message(
                "import_module",
                "a module of the package, or one of its extern modules, was required",
                f"No module named {name!r} in {self.filename}",
                hint="intern or extern it when the package is made",
            ),
            name=name,
        )

    def _run(self, name: str, record: str | None, is_package: bool) -> ModuleType:
        """Make a module, and run its source."""
        mangled = self._mangler.mangle(name)
        spec = ModuleSpec(mangled, self, is_package=is_package)  # type: ignore[arg-type]
        module = ModuleType(mangled)
        namespace = vars(module)
        namespace.update(
            __spec__=spec,
            __loader__=self,
            __package__=mangled if is_package else mangled.rpartition(".")[0],
            __builtins__=self._builtins,
            __torch_package__=True,
        )
        if is_package:
            namespace["__path__"] = [f"{self._mangler.parent_name()}.{name.replace('.', '/')}"]
        self.modules[name] = module
        if record is None:
            return module
        namespace["__file__"] = f"{self._mangler.parent_name()}.{record}"
        linecache.lazycache(namespace["__file__"], namespace)
        _RUN[mangled] = module
        try:
            code = compile(self._text(record), namespace["__file__"], "exec", dont_inherit=True)
            exec(code, namespace)
        except BaseException:
            del self.modules[name]
            raise
        found: ModuleType = self.modules[name]
        return found

    def __import__(  # noqa: A003
        self,
        name: str,
        globals: Any = None,
        locals: object = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        """What `import` does inside of the package."""
        if level:
            above = demangle(str((globals or {}).get("__package__", "")))
            name = importlib.util.resolve_name("." * level + name, above)
        module = self._imported(name)
        if not fromlist:
            top = name.partition(".")[0] if not level else name
            return self.modules[top] if top in self.modules else module
        for wanted in getattr(module, "__all__", ()) if "*" in fromlist else fromlist:
            if not hasattr(module, wanted) and hasattr(module, "__path__"):
                try:
                    self._imported(f"{name}.{wanted}")
                except ModuleNotFoundError as error:
                    if error.name != f"{name}.{wanted}":
                        raise
        return module

    def get_source(self, module_name: str) -> str:
        """The source of a packaged module."""
        path = demangle(module_name).replace(".", "/")
        for record in (f"{path}/__init__.py", f"{path}.py"):
            if record in self._records:
                return self._text(record)
        return fail(
            ImportError,
            "get_source",
            "a module of the package was required",
            repr(module_name),
            hint="file_structure() shows what the package has",
        )

    def is_package(self, module_name: str) -> bool:
        """Whether a module of the package is a package of modules."""
        return demangle(module_name).replace(".", "/") in self._folders

    def get_resource_reader(self, fullname: str) -> PackageResources | None:
        """The files beside a module, for `importlib.resources`; None where there are none."""
        folder = demangle(fullname).replace(".", "/")
        return PackageResources(self.zip_reader, folder) if folder in self._folders else None

    # ------------------------------------------------------------------ files and objects

    def load_binary(self, package: str, resource: str) -> bytes:
        """The bytes of a file."""
        return self.zip_reader.get_record(_path(package, resource))

    def load_text(
        self, package: str, resource: str, encoding: str = "utf-8", errors: str = "strict"
    ) -> str:
        """A file as text."""
        return self.load_binary(package, resource).decode(encoding, errors)

    def load_pickle(self, package: str, resource: str, map_location: Any = None) -> Any:
        """An object, whose class may be the package's own; code of the package is run.

        Args:
            map_location: where tensors go, as in `facula.load`.
        """
        place = placer(map_location)
        before, self.last_map_location = self.last_map_location, map_location

        def persistent(identity: Any) -> Any:
            if identity[0] == "storage":
                return self._storages.get(identity, place)
            if identity[0] == "reduce_package":
                _, number, function, arguments = identity
                if number not in self._reduced:
                    self._reduced[number] = function(self, *arguments)
                return self._reduced[number]
            return fail(
                RuntimeError,
                "load_pickle",
                "a storage or an object of the package was required",
                repr(identity[0]),
                hint="the package was made with another version",
            )

        try:
            data = self.load_binary(package, resource)
            return PackageUnpickler(self, data, persistent).load()
        finally:
            self.last_map_location = before
            if before is None:
                self._storages.found.clear()

    def id(self) -> str:
        """What tells this importer from others in its process."""
        return self._mangler.parent_name()

    def file_structure(
        self, *, include: GlobPattern = "**", exclude: GlobPattern = ()
    ) -> Directory:
        """What the package holds, as a tree.

        Args:
            include, exclude: patterns of paths, as `**/*.py`.
        """
        return directory_of(self.filename, self.zip_reader.get_all_records(), include, exclude)

    def python_version(self) -> str | None:
        """The version of Python that made the package; None where it does not say."""
        name = ".data/python_version"
        return self._text(name).strip() if name in self._records else None


#: the packaged modules that were run, by mangled name: they are not in `sys.modules`
_RUN: weakref.WeakValueDictionary[str, ModuleType] = weakref.WeakValueDictionary()
_getfile = inspect.getfile


def _file_of(object: Any) -> str:  # noqa: A002 - Python's name
    """`inspect.getfile`, which finds a class's file by its module's name, for classes of packages too."""
    module = _RUN.get(object.__module__) if inspect.isclass(object) else None
    return str(module.__file__) if module is not None else _getfile(object)


inspect.getfile = _file_of


def _path(package: str, resource: str) -> str:
    """The record of a file beside a module."""
    return f"{demangle(package).replace('.', '/')}/{resource}"


def _here(name: str) -> str:
    """PyTorch's modules are facula's here."""
    top, dot, rest = name.partition(".")
    return f"facula{dot}{rest}" if top == "torch" else name
