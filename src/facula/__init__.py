"""facula: a deep-learning framework with PyTorch's API, in Python.

Takes: the operator table and the kernel library of this processor. Gives: the public API; what is not needed by a plain
`import facula` is imported when it is first asked for (PEP 562).
Keeps true: importing facula imports neither NumPy nor the compiler; the modules in the rooms
(`namespaces`, `torch_api`, `domains`) are modules of facula itself: `facula.linalg` lies in `namespaces/linalg.py`.
"""

from __future__ import annotations

import os as _os
import sys as _sys
from importlib import import_module as _import_module
from typing import Any as _Any

__path__ += [_os.path.join(__path__[0], _room) for _room in ("namespaces", "torch_api", "domains")]

from facula import core, ops  # noqa: E402
from facula.core.errors import no_attribute as _no_attribute  # noqa: E402
from facula.ops.table.registry import PLACES as _PLACES  # noqa: E402
from facula.runtime.libraries import kernel_libraries as _kernel_libraries  # noqa: E402
from facula.version import __version__  # noqa: E402

if not _os.environ.get("FACULA_BUILDING"):
    for _path in _kernel_libraries():
        core.load_library(_path)

from facula import constants as _constants  # noqa: E402
from facula import tensor_methods as _tensor_methods  # noqa: E402
from facula.public import DOMAINS as _DOMAINS  # noqa: E402
from facula.public import LIBRARIES as _LIBRARIES  # noqa: E402
from facula.public import NAMES as _NAMES  # noqa: E402
from facula.public import SUBMODULES as _SUBMODULES  # noqa: E402
from facula.public import SecondNames as _SecondNames  # noqa: E402


def _make_kernel(*question: _Any) -> int | None:
    """Brings in what compiles missing kernels, when the first one is missing."""
    # lazily: it brings in the code generator
    from facula.devices.cpu import make_kernel

    core.MISSING_KERNEL[0] = make_kernel
    return make_kernel(*question)


def _find_backend(name: str) -> bool:
    """Looks for an installed package that offers a device, when one is named that is not there."""
    # lazily: most programs name the CPU only
    from facula.devices import load

    return load(name)


def _make_shared(nbytes: int) -> _Any:
    """Brings in what makes memory that processes share, when some is needed."""
    # lazily: it brings in Python's multiprocessing
    from facula import shared_memory

    return shared_memory.fresh(nbytes)


#: where operators are that are read when one is asked for
_OF_OPERATORS = ("facula.quantization.", "facula.ops.forms.rare")


def _find_operator(namespace: str, name: str) -> _Any:
    """An operator of a module that is imported when somebody asks for it: those of quantization and profiles."""
    if namespace == "profiler":
        _import_module("facula.autograd.profiler_operators")
        return ops.TABLE.get(f"{namespace}::{name}")
    if namespace in ("quantized", "quantized_decomposed", "onednn", "_quantized"):
        _import_module("facula.quantization.operators")
        return ops.TABLE.get(f"{namespace}::{name}")
    if namespace in ("_c10d_functional", "c10d_functional", "c10d"):
        file = "c10d_operators" if namespace == "c10d" else "functional_collectives"
        _import_module(f"facula.distributed.{file}")
        return ops.TABLE.get(f"{namespace}::{name}")
    if namespace == "higher_order":
        return _import_module("facula.fx.higher_order").OPERATORS.get(name)
    if namespace == "aten" and _NAMES.get(name, "").startswith(_OF_OPERATORS):
        return getattr(_import_module(_NAMES[name]), name)
    if namespace == "aten":  # forms that dispatch modes hear of
        core.HEARD[1]()
        return ops.TABLE.get(name)
    return None


core.MISSING_KERNEL[0] = _make_kernel
ops.table.overloads.ON_DEMAND[0] = _find_operator
core.SHARED_MEMORY[0] = _make_shared
core.FIND_BACKEND[0] = _find_backend
ops.SERVED_LIBRARIES.update(_LIBRARIES)
globals().update({_n: getattr(core, _n) for _n in core.PUBLIC})
globals().update(_PLACES[""])
globals().update({_n: getattr(_constants, _n) for _n in _constants.__all__})
for _name in _NAMES:
    globals().pop(_name, None)
_tensor_methods.attach()
_SecondNames.install()
if "multiprocessing.reduction" in _sys.modules:
    _import_module("facula.shared_memory")


def __getattr__(name: str) -> _Any:
    if name in _SUBMODULES:
        try:
            return _import_module(f"facula.{name}")
        except ModuleNotFoundError as error:
            # a part that this version does not have is no attribute, so that hasattr() may ask
            if error.name != f"facula.{name}":
                raise
    place = _NAMES.get(name)
    if place is not None:
        value = getattr(_import_module(place), name)
        globals()[name] = value
        return value
    if name.startswith("_foreach_"):
        # lazily: most programs call none
        made = _import_module("facula.foreach").function(name)
        if made is not None:
            globals()[name] = made
            return made
    if name == "torch":
        # PyTorch's root imports itself, and older programs say `torch.torch.Tensor`
        return _sys.modules[__name__]
    if name[:1].isupper() or name == "parse_ir":
        # lazily: PyTorch's root has the classes of its extension module, which few programs name there
        found = getattr(_import_module("facula._C"), name, None)
        if found is not None:
            return found
    raise _no_attribute(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_SUBMODULES} - {"annotations"})


__all__ = [name for name in __dir__() if not (name.startswith("_") or name in _DOMAINS)]
__all__ += ["__version__"]
