"""How facula takes the name of torch.

Takes nothing. Gives `install_as_torch`. Keeps true: every loaded module `facula.x` stands in
`sys.modules` as `torch.x` too, also those that are loaded later, says `torch.x` when it is asked for
its name, as do its classes and functions when they are asked for their module; facula's own names keep working.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import FunctionType, ModuleType
from typing import Any

import facula
from facula import core, namespaces
from facula.core.errors import fail, no_attribute

from .. import second_names
from .version import API_VERSION, SITE, TorchVersion

__all__ = ["install_as_torch", "is_installed"]

_OURS, _THEIRS = "facula", "torch"


def is_installed() -> bool:
    """Whether `import torch` means facula."""
    return sys.modules.get(_THEIRS) is facula


def install_as_torch() -> None:
    """Makes ``import torch`` mean facula, in this process and in those that it starts; see
    docs/torch_programs.md.

    Raises:
        RuntimeError: another torch was imported before.

    Example:
        >>> import subprocess, sys
        >>> code = "import facula; facula.install_as_torch(); import torch; print(torch.ones(2))"
        >>> subprocess.check_output([sys.executable, "-c", code]).decode().strip()
        'tensor([1., 1.])'
    """
    if is_installed():
        return
    present = sys.modules.get(_THEIRS)
    if present is not None and not _is_doorway(present):
        fail(
            RuntimeError,
            "install_as_torch",
            "no other torch may be imported yet",
            got=f"torch from {getattr(present, '__file__', None)}",
            hint="call facula.install_as_torch() before anything imports torch",
        )
    core.name_types(_THEIRS)
    core.set_stream(_THEIRS)
    facula.__version__ = facula.version.__version__ = TorchVersion(API_VERSION)
    _Aliases.of_loaded_modules()
    sys.meta_path[:0] = [_TorchFinder(), _FaculaFinder()]
    sys.meta_path.append(_TorchDataFinder())
    _show_to_children()


#: the folder of such modules
_ROOM = os.path.dirname(str(namespaces.__file__))


def _is_doorway(module: ModuleType) -> bool:
    """Whether it is the package in `site`, through which child processes come here."""
    return str(getattr(module, "__file__", None)).startswith(str(SITE))


def _show_to_children() -> None:
    """Puts the folder with torch's name and metadata on the path, here and in child processes."""
    site = str(SITE)
    if site not in sys.path:
        sys.path.insert(1, site)
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    for folder in (*_source_folder(), site):
        if folder not in inherited:
            inherited.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join(part for part in inherited if part)


def _source_folder() -> list[str]:
    """The folder above facula, where a child would not look for it: a checkout.

    Never the folder of installed packages, which must not come before the standard library.
    """
    import site

    folder = os.path.dirname(facula.__path__[0])
    found_anyway = [*site.getsitepackages(), site.getusersitepackages()]
    return [] if folder in found_anyway else [folder]


def _theirs(name: str) -> str:
    return _THEIRS + name[len(_OURS) :]


def _is_ours(name: Any) -> bool:
    return isinstance(name, str) and (name == _OURS or name.startswith(_OURS + "."))


class _Aliases:
    """Modules whose import is under way: they are renamed when the outermost one is complete.

    While a package is being made, its own code may compare `__module__` with its own name.
    """

    depth = 0
    waiting: list[ModuleType] = []

    @staticmethod
    def of_loaded_modules() -> None:
        for name, module in list(sys.modules.items()):
            if _is_ours(name) and module is not None:
                _Aliases.add(name, module)

    @staticmethod
    def add(name: str, module: ModuleType) -> None:
        """Gives a complete module its second name."""
        # a module may have put another one in its place while it was executed
        sys.modules[_theirs(name)] = sys.modules.get(name, module)
        if module.__name__ == name:
            module.__name__ = _theirs(name)  # which Python's own messages say
        if name.startswith(f"{_OURS}.alias"):
            return
        if hasattr(module, "__path__") and name != _OURS:
            _find_parts(name, module)
        rooted = set(dir(facula)) if _is_room(module) else set()
        for value in vars(module).values():
            if isinstance(value, (type, FunctionType)) and value.__module__ == name:
                at_the_root = isinstance(value, FunctionType) and value.__name__ in rooted
                try:
                    value.__module__ = _THEIRS if at_the_root else _theirs(name)
                except TypeError:
                    continue  # a type made in C: `core.name_types` names those that users see


def _is_room(module: ModuleType) -> bool:
    """Whether it is a module of functions that PyTorch has in the package itself."""
    return os.path.dirname(str(getattr(module, "__file__", ""))) == _ROOM


def _find_parts(name: str, package: ModuleType) -> None:
    """Has a package find its modules when it is asked for them, as `torch.distributions.normal`.

    PyTorch imports most of its modules at once, so that programs reach them without an import.
    """
    known = vars(package).get("__getattr__")

    def __getattr__(part: str) -> Any:
        if known is not None:
            with contextlib.suppress(AttributeError):
                return known(part)
        if not part.startswith("__"):
            ours = f"{name}.{part}"
            try:
                return importlib.import_module(ours)
            except ModuleNotFoundError as error:
                if error.name != ours:
                    raise
        raise no_attribute(package.__name__, part)

    vars(package)["__getattr__"] = __getattr__


class _FaculaLoader(importlib.abc.Loader):
    """Runs a module's own loader, then gives the module its second name."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: object) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # what else asks for the loader (resources, sources, pickles) gets the real one
        assert module.__spec__ is not None
        module.__loader__ = module.__spec__.loader = self.loader
        sys.modules[_theirs(module.__name__)] = module
        _Aliases.depth += 1
        try:
            self.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(_theirs(module.__name__), None)
            raise
        finally:
            _Aliases.depth -= 1
        _Aliases.waiting.append(module)
        if _Aliases.depth == 0:
            complete, _Aliases.waiting = _Aliases.waiting, []
            for each in complete:
                _Aliases.add(each.__name__, each)


class _FaculaFinder(importlib.abc.MetaPathFinder):
    """Finds facula's modules where they are, and has them renamed once they are loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith(_OURS + ".") or second_names.first_name(name) is not None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _FaculaLoader(spec.loader)
        return spec


class _TorchFinder(importlib.abc.MetaPathFinder):
    """Finds `torch.x` in `facula.x`, and the package `functorch`, which comes with PyTorch."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _, rest = name.partition(".")
        if package == "functorch":
            ours = f"{_OURS}.{name}"
        elif package == _THEIRS:
            ours = f"{_OURS}.{rest}" if rest else _OURS
        else:
            return None
        try:
            module = importlib.import_module(ours)
        except ModuleNotFoundError as error:
            if error.name is None or not (ours == error.name or ours.startswith(error.name + ".")):
                raise  # the module is there, and something that it needs is not
            raise ModuleNotFoundError(
                f"No module named {name!r} (facula stands for torch here and has no {ours!r})",
                name=name,
            ) from None
        # were it there, the import system would take its own spec, and run the module again
        sys.modules.pop(name, None)
        return second_names.spec_of(name, module)


class _TorchDataFinder(importlib.abc.MetaPathFinder):
    """Finds `torchdata.datapipes` and `torchdata.dataloader2` in `facula.data`.

    It is asked last: an installed torchdata comes first, and today's has neither of them any more.
    """

    _PARTS = ("datapipes", "dataloader2")

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _, rest = name.partition(".")
        if package != "torchdata":
            return None
        if not rest:
            return importlib.machinery.ModuleSpec(name, _TorchDataLoader(), is_package=True)
        if rest.partition(".")[0] not in self._PARTS:
            return None
        ours = f"{_OURS}.data.{rest}"
        try:
            module = importlib.import_module(ours)
        except ModuleNotFoundError as error:
            if error.name is None or not ours.startswith(error.name):
                raise
            return None
        is_package = hasattr(module, "__path__")
        return second_names.spec_of(name, module, is_package)


class _TorchDataLoader(importlib.abc.Loader):
    """Makes the package `torchdata` where none is installed: its parts are found one by one."""

    def create_module(self, spec: object) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = "facula's DataPipes and DataLoader2, where no torchdata is installed."
