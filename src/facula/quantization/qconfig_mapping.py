"""Which configuration a layer of a model gets: `QConfigMapping`.

Takes: configurations for the whole model, for types, names, patterns of names and order. Gives: that of a module.
Keeps true: the most particular counts: name and type and index, name, pattern, type, then the whole model's.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import facula.nn as nn
from facula.core.errors import fail
from facula.quantization import fake_quantize as fq
from facula.quantization import observer as ob
from facula.quantization import qconfig as qc
from facula.quantization.calls import FIXED, FIXED_MODULES

__all__ = [
    "QConfigMapping",
    "get_default_qat_qconfig_mapping",
    "get_default_qconfig_mapping",
]


_GLOBAL_DICT_KEY = ""
_OBJECT_TYPE_DICT_KEY = "object_type"
_MODULE_NAME_REGEX_DICT_KEY = "module_name_regex"
_MODULE_NAME_DICT_KEY = "module_name"
_MODULE_NAME_OBJECT_TYPE_ORDER_DICT_KEY = "module_name_object_type_order"


class QConfigMapping:
    """Configurations by where in a model they count; every `set_` gives the mapping itself."""

    def __init__(self) -> None:
        self.global_qconfig: Any = None
        self.object_type_qconfigs: OrderedDict[Any, Any] = OrderedDict()
        self.module_name_regex_qconfigs: OrderedDict[str, Any] = OrderedDict()
        self.module_name_qconfigs: OrderedDict[str, Any] = OrderedDict()
        self.module_name_object_type_order_qconfigs: OrderedDict[Any, Any] = OrderedDict()

    def set_global(self, global_qconfig: object) -> QConfigMapping:
        """That of everything else."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type: object, qconfig: qc.QConfig) -> QConfigMapping:
        """That of a class of modules, of a function, or of a method by its name."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex: str, qconfig: object) -> QConfigMapping:
        """That of modules whose names match; patterns count in the order in which they came."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name: str, qconfig: object) -> QConfigMapping:
        """That of a module, and of what it consists of."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(
        self, module_name: str, object_type: Callable[..., Any], index: int, qconfig: object
    ) -> QConfigMapping:
        """That of the call number `index` of a type or function inside of a module."""
        key = (module_name, object_type, index)
        self.module_name_object_type_order_qconfigs[key] = qconfig
        return self

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for name, value in vars(self).items():
            if isinstance(value, OrderedDict):
                rows = "".join(f"\n  {k}: {v}" for k, v in value.items())
                lines.append(f" {name}\n{rows}" if value else f" {name} (empty)")
            else:
                lines.append(f" {name}\n  {value}")
        return "\n".join([*lines, ")"])

    def to_dict(self) -> dict[str, Any]:
        """The mapping as a dictionary."""
        return {
            "": self.global_qconfig,
            "object_type": list(self.object_type_qconfigs.items()),
            "module_name_regex": list(self.module_name_regex_qconfigs.items()),
            "module_name": list(self.module_name_qconfigs.items()),
            "module_name_object_type_order": [
                (*key, value) for key, value in self.module_name_object_type_order_qconfigs.items()
            ],
        }

    @classmethod
    def from_dict(cls, qconfig_dict: dict[str, Any]) -> QConfigMapping:
        """The mapping that a dictionary describes."""
        made = cls()
        if "" in qconfig_dict:
            made.set_global(qconfig_dict[""])
        for name in (
            "object_type", "module_name_regex", "module_name", "module_name_object_type_order"
        ):  # fmt: skip
            for row in qconfig_dict.get(name, []):
                getattr(made, f"set_{name}")(*row)
        return made

    # ---------------------------------------------------------------- asking

    def copied(self) -> QConfigMapping:
        """A mapping with the same configurations, which later changes leave as it is."""
        made = type(self)()
        for name, value in vars(self).items():
            setattr(made, name, value.copy() if isinstance(value, OrderedDict) else value)
        return made

    def by_name(self, name: str, default: object) -> Any:
        """The configuration of a module by its name, those around it, and patterns; `default` where none counts."""
        path = name
        while path:
            if path in self.module_name_qconfigs:
                return self.module_name_qconfigs[path]
            path = path.rpartition(".")[0]
        for pattern, found in self.module_name_regex_qconfigs.items():
            if name and re.match(pattern, name):
                return found
        return default


def as_mapping(given: object) -> QConfigMapping:
    """A mapping, from one or from a dictionary."""
    if isinstance(given, dict):
        return QConfigMapping.from_dict(given)
    if not isinstance(given, QConfigMapping):
        fail(
            TypeError,
            "prepare_fx",
            "a QConfigMapping was required",
            type(given).__name__,
            hint="get_default_qconfig_mapping() gives one",
        )
    return given


def _fixed() -> dict[Any, str]:
    """Modules, functions and words of calls whose results lie in an interval that is known: which one."""
    found: dict[Any, str] = dict(FIXED_MODULES)
    for name, interval in FIXED.items():
        found[getattr(nn.functional, name)] = found[name] = found[f"{name}_"] = interval
    return found


def _mapping(qconfig: qc.QConfig, qat: bool, backend: str) -> QConfigMapping:
    made = QConfigMapping().set_global(qconfig)
    made.set_object_type("reshape", qc.default_reuse_input_qconfig)
    weight = fq.default_weight_fake_quant if qat else ob.default_weight_observer
    transposed = qc.QConfig(qconfig.activation, weight)
    for n in (1, 2, 3):
        made.set_object_type(getattr(nn, f"ConvTranspose{n}d"), transposed)
        made.set_object_type(getattr(nn.functional, f"conv_transpose{n}d"), transposed)
    floats = qc.QConfig(qconfig.activation, ob.default_placeholder_observer)
    for norm in (nn.functional.layer_norm, nn.LayerNorm):
        made.set_object_type(norm, floats)
    made.set_object_type(nn.PReLU, qc.default_quint8_weight_qconfig)
    for kind, interval in _fixed().items():
        made.set_object_type(kind, qc.QConfig(fq.fixed_range(interval, qat), qconfig.weight))
    return made


def get_default_qconfig_mapping(backend: str = "x86", version: int = 0) -> QConfigMapping:
    """What a model gets that is quantized after training."""
    return _mapping(qc.get_default_qconfig(backend, version), False, backend)


def get_default_qat_qconfig_mapping(backend: str = "x86", version: int = 1) -> QConfigMapping:
    """What a model gets that is trained with fake quantization."""
    return _mapping(qc.get_default_qat_qconfig(backend, version), True, backend)


def get_default_qconfig_dict(backend: str = "x86", version: int = 0) -> dict[str, Any]:
    """`get_default_qconfig_mapping` as a dictionary."""
    return get_default_qconfig_mapping(backend, version).to_dict()


def get_default_qat_qconfig_dict(backend: str = "x86", version: int = 1) -> dict[str, Any]:
    """`get_default_qat_qconfig_mapping` as a dictionary."""
    return get_default_qat_qconfig_mapping(backend, version).to_dict()


def _get_symmetric_qnnpack_qconfig_mapping() -> QConfigMapping:
    return _mapping(qc.default_symmetric_qnnpack_qconfig, False, "qnnpack")


def _get_symmetric_qnnpack_qat_qconfig_mapping() -> QConfigMapping:
    return _mapping(qc.default_symmetric_qnnpack_qat_qconfig, True, "qnnpack")
