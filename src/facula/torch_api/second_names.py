"""Modules that have a second name: PyTorch's, or that of the folder in which they lie.

Takes: second names, which `public.SecondNames` brings from the import system. Gives: the modules themselves.
Keeps true: no module is executed twice, so that a class is the same object under all its names; an import
by a second name binds no attribute of the package anew, as `multiprocessing.spawn`, which is a function there.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import facula
from facula.core.errors import fail

__all__ = ["find_spec", "first_name", "spec_of"]

#: folders whose modules are modules of facula itself (the root package has them on its path)
ROOMS = tuple(folder.rpartition(os.sep)[2] for folder in facula.__path__[1:])
#: a package that is another one, with all of its modules
_PACKAGES = {
    "facula.utils.data": "facula.data",
    "facula.distributed._tensor": "facula.distributed.tensor",
    "facula.distributed._composable.fsdp": "facula.distributed.fsdp",
    **{
        f"facula.nn.{name}": f"facula.ao.nn.{name}"
        for name in ("quantized", "intrinsic", "qat", "quantizable")
    },
    "facula.ao.quantization.quantizer": "facula.quantization.pt2e.quantizer",
    "facula.ao.quantization.backend_config": "facula.quantization.backend_config",
}
#: single modules
_MODULES = {
    **{
        f"facula.data._utils.{name}": f"facula.data.{name}"
        for name in ("collate", "fetch", "worker")
    },
    "facula.backends.arrays": "facula.devices.arrays",
    "facula.backends.results": "facula.devices.results",
    "facula.backends.quantized": "facula.quantization.engines",
    "facula.backends.cpu.kernels": "facula.devices.cpu",
    **{
        f"facula.distributed.{name}.device_mesh": "facula.distributed.device_mesh"
        for name in ("tensor", "_tensor")
    },
    **{
        f"facula.distributed.{package}.{name}": f"facula.distributed.tensor.{ours}"
        for package in ("tensor", "_tensor")
        for name, ours in (
            ("_dtensor_spec", "specs"),
            ("_collective_utils", "collective_utils"),
            ("_sharding_prop", "rules"),
            ("api", "distributing"),
            ("_api", "distributing"),
        )
    },
    "facula.distributed._tensor.placement_types": "facula.distributed.tensor.older_placements",
    "facula.distributed._functional_collectives": "facula.distributed.functional_collectives",
    **{
        f"facula.distributed.optim.functional_{name}": "facula.distributed.optim.functional"
        for name in ("adadelta", "adagrad", "adam", "adamax", "adamw", "rmsprop", "rprop", "sgd")
    },
    "facula.nn.parallel.distributed": "facula.distributed.data_parallel",
    "facula.nn.parallel.scatter_gather": "facula.nn.parallel.copies",
    "facula.distributions.constraint_registry": "facula.distributions.registry",
    **{
        f"facula.ao.quantization.{name}": f"facula.quantization.{name}"
        for name in (
            "observer",
            "fake_quantize",
            "qconfig",
            "qconfig_mapping",
            "quantize_fx",
            "quant_type",
            "utils",
        )
    },
    "facula.ao.quantization._learnable_fake_quantize": "facula.quantization.learnable",
    "facula.ao.quantization.fx._decomposed": "facula.quantization.decomposed",
    "facula.ao.quantization.fx._equalize": "facula.quantization.suite.equalizing",
    "facula.ao.quantization.fx.custom_config": "facula.quantization.custom_config",
    **{
        f"facula.ao.quantization.fx.{name}": f"facula.quantization.graph.{ours}"
        for name, ours in (
            ("match_utils", "matching"),
            ("utils", "nodes"),
            ("qconfig_mapping_utils", "configurations"),
            ("lower_to_fbgemm", "lowering"),
            ("fuse", "fusing"),
            ("convert", "converting"),
            ("quantize_handler", "handlers"),
            ("pattern_utils", "handlers"),
        )
    },
    "facula.ao.quantization.fx.tracer": "facula.quantization.quantize_fx",
    "facula.ao.quantization.fx.graph_module": "facula.quantization.quantize_fx",
    "facula.ao.nn.quantized.functional": "facula.quantization.quantized_functional",
    "facula.ao.nn.quantized.reference": "facula.quantization.modules.reference",
    "facula.ao.ns.fx.ns_types": "facula.quantization.suite_types",
    "facula.ao.ns._numeric_suite": "facula.quantization.numeric_suite",
    "facula.ao.ns._numeric_suite_fx": "facula.quantization.suite.comparing",
    **{
        f"facula.ao.ns.fx.{name}": f"facula.quantization.suite.{ours}"
        for name, ours in (
            ("graph_matcher", "pairs"),
            ("graph_passes", "passes"),
            ("mappings", "relations"),
            ("n_shadows_utils", "candidates"),
            ("pattern_utils", "relations"),
            ("qconfig_multi_mapping", "mappings"),
            ("utils", "kinds"),
            ("weight_utils", "weights"),
        )
    },
    "facula.ao.quantization._equalize": "facula.quantization.equalization",
    "facula.ao.quantization._correct_bias": "facula.quantization.equalization",
    "facula.ao.quantization.quantize_pt2e": "facula.quantization.pt2e.quantize_pt2e",
    **{
        f"facula.{place}.{name}": f"facula.quantization.{ours}"
        for place in ("quantization", "ao.quantization")
        for name, ours in (
            ("quantize", "eager"),
            ("stubs", "modules.stubs"),
            ("fuse_modules", "fuse"),
            ("fuser_method_mappings", "fuse"),
            ("quantization_mappings", "mappings"),
        )
    },
    "facula._jit_internal": "facula.jit.internal_names",
    "facula.ao.quantization.quantize_jit": "facula.jit.quantizing.quantize_jit",
    "facula.quantization.quantize_jit": "facula.jit.quantizing.quantize_jit",
    "facula.utils.mobile_optimizer": "facula.jit.mobile_optimizer",
    "facula.utils.bundled_inputs": "facula.jit.bundled_inputs",
    "facula.distributions.exp_family": "facula.distributions.distribution",
    "facula.distributions.relaxed_categorical": "facula.distributions.composed",
    "facula.autograd.variable": "facula.autograd",
    "facula.accelerator.memory": "facula.accelerator",
    "facula.signal.windows.windows": "facula.signal.windows",
    "facula.tensor": "facula._tensor",
    "facula.utils._foreach_utils": "facula.optim.tensor_groups",
    "facula.cpu.amp.autocast_mode": "facula.cpu.amp",
    "facula.cpu.amp.grad_scaler": "facula.cpu.amp",
    **{f"facula.cuda.{name}": "facula.cuda" for name in ("graphs", "memory", "streams")},
    **{
        f"facula.cuda.amp.{name}": "facula.cuda.amp"
        for name in ("autocast_mode", "grad_scaler", "common")
    },
    **{
        f"facula.nn.parallel.{name}": "facula.nn.parallel.copies"
        for name in ("data_parallel", "parallel_apply", "replicate")
    },
}
#: packages whose classes PyTorch has in several modules
_PARTED = {
    f"facula.ao.nn.{place}.modules": parts.split()
    for place, parts in {
        "intrinsic": "fused",
        "intrinsic.qat": "conv_fused linear_fused linear_relu",
        "intrinsic.quantized": "bn_relu conv_add conv_relu linear_relu",
        "qat": "conv embedding_ops linear",
        "qat.dynamic": "linear",
        "quantizable": "activation rnn",
        "quantized": "activation batchnorm conv dropout embedding_ops functional_modules linear normalization rnn",
        "quantized.dynamic": "conv linear rnn",
    }.items()
}
_MODULES |= {f"{package}.{part}": package for package, parts in _PARTED.items() for part in parts}
#: packages where PyTorch has a module for each class, named like the class
_BY_CLASS = ("facula.distributions",)


def _module_of_class(package: str, name: str) -> str | None:
    """The module that holds the class whose name is that of a module, as `half_normal`."""
    wanted = name.replace("_", "").lower()
    for value in vars(import_module(package)).values():
        if isinstance(value, type) and value.__name__.lower() == wanted:
            place = value.__module__.partition(".")[2]
            return f"facula.{place}" if f"facula.{place}".startswith(package) else None
    return None


def first_name(name: str) -> str | None:
    """The name under which facula has a module; None where it is the same or there is none."""
    if name in _MODULES or name in _PACKAGES:
        return _MODULES.get(name) or _PACKAGES[name]
    _, room, inside = (*name.split(".", 2), "", "")[:3]
    if inside and room in ROOMS:
        return f"facula.{inside}"
    package, _, last = name.rpartition(".")
    for theirs, ours in _PACKAGES.items():
        if name.startswith(theirs + "."):
            return ours + name[len(theirs) :]
    return _module_of_class(package, last) if package in _BY_CLASS else None


def _name_children(name: str, first: str) -> None:
    """Gives a package's modules that are there their second names too.

    The import system sets what it loads as an attribute of the package, where something else may have the name by now;
    what is there already it only hands out."""
    for child in [child for child in sys.modules if child.startswith(first + ".")]:
        sys.modules.setdefault(name + child[len(first) :], sys.modules[child])


class _Keeping(ModuleType):
    """A package for the moment in which the import system names a module in it: what has the name, or what the
    package finds when it is asked for it, stays."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__("__class__", ModuleType)
        if getattr(self, name, value) is value:
            setattr(self, name, value)


class _Loader:
    """Gives a module that is there, as it is, with what the first import said of it."""

    def __init__(self, name: str, module: ModuleType) -> None:
        self.package = name.rpartition(".")[0]
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: Any) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has put in that of the second name
        package = sys.modules.get(self.package)
        if type(package) is ModuleType:
            package.__class__ = _Keeping

    def get_code(self, name: str) -> Any:
        """The module's code: `python -m torch.distributed.run` runs it as a program."""
        return self._own().get_code(self._own_name())

    def get_source(self, name: str) -> str | None:
        """The module's text; None where it has none."""
        found: str | None = self._own().get_source(self._own_name())
        return found

    def is_package(self, name: str) -> bool:
        """Whether the module has modules below it."""
        return hasattr(self.module, "__path__")

    def _own_name(self) -> str:
        return self.module.__name__ if self.spec is None else self.spec.name

    def _own(self) -> Any:
        if self.spec is None or not hasattr(self.spec.loader, "get_code"):
            fail(ImportError, "import", "a module that is in a file was required",
                 f"{self.module.__name__}, which a program made", hint="import it, instead of running it")  # fmt: skip
        return self.spec.loader


def spec_of(name: str, module: ModuleType, is_package: bool | None = None) -> ModuleSpec:
    """What the import system takes for a module that is there, under another name."""
    loader: Any = _Loader(name, module)
    return ModuleSpec(name, loader, is_package=is_package)


def find_spec(name: str) -> ModuleSpec | None:
    """What the import system asks for: where the module of a second name is."""
    first = first_name(name)
    if first is None:
        return None
    try:
        module = import_module(first)
    except ModuleNotFoundError as error:
        if error.name == first:
            return None
        raise
    if hasattr(module, "__path__"):
        _name_children(name, first)
    return spec_of(name, module, hasattr(module, "__path__"))
