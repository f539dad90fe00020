"""Several configurations in one run: PyTorch's `ao.ns.fx.qconfig_multi_mapping`.

Takes: lists of configurations, by the keys of a `QConfigMapping`. Gives: `QConfigMultiMapping`. Keeps true: mapping
number i has configuration number i of every list, or None where the list is shorter; a list has no configuration
twice.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from facula.core.errors import fail
from facula.quantization.qconfig import qconfig_equals
from facula.quantization.qconfig_mapping import QConfigMapping

__all__ = ["QConfigMultiMapping"]

#: the tables of a mapping, and what fills them
_TABLES = {
    "object_type_qconfigs": "set_object_type",
    "module_name_regex_qconfigs": "set_module_name_regex",
    "module_name_qconfigs": "set_module_name",
    "module_name_object_type_order_qconfigs": "set_module_name_object_type_order",
}


def _distinct(given: Any) -> list[Any]:
    """The configurations of a list without None, and each once."""
    if not isinstance(given, list):
        fail(TypeError, "QConfigMultiMapping", "a list of configurations was required", type(given).__name__,
             hint="set_global([qconfig])")  # fmt: skip
    found: list[Any] = []
    for config in given:
        if config is not None and not any(qconfig_equals(config, other) for other in found):
            found.append(config)
    return found


class QConfigMultiMapping:
    """Mappings that a model is quantized by side by side.

    Example:
        >>> from facula.ao.quantization import default_dynamic_qconfig, default_qconfig
        >>> from facula.quantization.suite.mappings import QConfigMultiMapping
        >>> made = QConfigMultiMapping().set_global([default_qconfig, default_dynamic_qconfig])
        >>> len(made.qconfig_mappings_list)
        2
    """

    def __init__(self) -> None:
        self.qconfig_mappings_list = [QConfigMapping()]

    def _grow(self, number: int) -> None:
        """Have at least so many mappings: new ones have None for all that is set."""
        first = self.qconfig_mappings_list[0]
        while len(self.qconfig_mappings_list) < number:
            made = QConfigMapping()
            for name in _TABLES:
                getattr(made, name).update(dict.fromkeys(getattr(first, name)))
            self.qconfig_mappings_list.append(made)

    def _insert(self, setter: str, key: tuple[Any, ...], given: Any) -> QConfigMultiMapping:
        configs = _distinct(given)
        self._grow(len(configs))
        for place, mapping in enumerate(self.qconfig_mappings_list):
            getattr(mapping, setter)(*key, configs[place] if place < len(configs) else None)
        return self

    def set_global(self, global_qconfig_list: list[Any]) -> QConfigMultiMapping:
        """The configurations of the whole model."""
        return self._insert("set_global", (), global_qconfig_list)

    def set_object_type(
        self, object_type: Callable[..., Any] | str, qconfig_list: list[Any]
    ) -> QConfigMultiMapping:
        """Those of a class, a function or a method."""
        return self._insert("set_object_type", (object_type,), qconfig_list)

    def set_module_name_regex(
        self, module_name_regex: str, qconfig_list: list[Any]
    ) -> QConfigMultiMapping:
        """Those of modules whose names fit a pattern."""
        return self._insert("set_module_name_regex", (module_name_regex,), qconfig_list)

    def set_module_name(self, module_name: str, qconfig_list: list[Any]) -> QConfigMultiMapping:
        """Those of a module, and of what it consists of."""
        return self._insert("set_module_name", (module_name,), qconfig_list)

    def set_module_name_object_type_order(
        self, module_name: str, object_type: Callable[..., Any], index: int, qconfig_list: list[Any]
    ) -> QConfigMultiMapping:
        """Those of the call number `index` of a type or function inside of a module."""
        key = module_name, object_type, index
        return self._insert("set_module_name_object_type_order", key, qconfig_list)

    @classmethod
    def from_list_qconfig_mapping(
        cls, qconfig_mapping_list: list[QConfigMapping]
    ) -> QConfigMultiMapping:
        """The same configurations, with those of each key without None and duplicates."""
        given = copy.deepcopy(qconfig_mapping_list)
        made = cls()
        made.set_global([mapping.global_qconfig for mapping in given])
        for name, setter in _TABLES.items():
            keys = dict.fromkeys(key for mapping in given for key in getattr(mapping, name))
            for key in keys:
                configs = [getattr(mapping, name).get(key) for mapping in given]
                made._insert(setter, key if isinstance(key, tuple) else (key,), configs)
        return made

    def __repr__(self) -> str:
        rows = "".join(f"\n{mapping}," for mapping in self.qconfig_mappings_list)
        return f"{type(self).__name__} [{rows}\n]"
