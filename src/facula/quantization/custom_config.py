"""Settings of graph mode beside configurations: PyTorch's `ao.quantization.fx.custom_config`.

Takes: names and classes of modules, places of inputs and results. Gives: `PrepareCustomConfig`,
`ConvertCustomConfig`, `FuseCustomConfig`, each to and from a dictionary. Keeps true: every `set_` gives the
object itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from facula.core.errors import fail
from facula.quantization.backend_config import BackendConfig
from facula.quantization.qconfig_mapping import QConfigMapping
from facula.quantization.quant_type import QuantType, quant_type_from_str, quant_type_to_str

__all__ = [
    "ConvertCustomConfig",
    "FuseCustomConfig",
    "PrepareCustomConfig",
    "StandaloneModuleConfigEntry",
]

STANDALONE_MODULE_NAME_DICT_KEY = "standalone_module_name"
STANDALONE_MODULE_CLASS_DICT_KEY = "standalone_module_class"
FLOAT_TO_OBSERVED_DICT_KEY = "float_to_observed_custom_module_class"
OBSERVED_TO_QUANTIZED_DICT_KEY = "observed_to_quantized_custom_module_class"
NON_TRACEABLE_MODULE_NAME_DICT_KEY = "non_traceable_module_name"
NON_TRACEABLE_MODULE_CLASS_DICT_KEY = "non_traceable_module_class"
INPUT_QUANTIZED_INDEXES_DICT_KEY = "input_quantized_idxs"
OUTPUT_QUANTIZED_INDEXES_DICT_KEY = "output_quantized_idxs"
PRESERVED_ATTRIBUTES_DICT_KEY = "preserved_attributes"

#: attributes that are lists, by their keys
_LISTS = {
    NON_TRACEABLE_MODULE_NAME_DICT_KEY: "non_traceable_module_names",
    NON_TRACEABLE_MODULE_CLASS_DICT_KEY: "non_traceable_module_classes",
    INPUT_QUANTIZED_INDEXES_DICT_KEY: "input_quantized_indexes",
    OUTPUT_QUANTIZED_INDEXES_DICT_KEY: "output_quantized_indexes",
    PRESERVED_ATTRIBUTES_DICT_KEY: "preserved_attributes",
}


@dataclass
class StandaloneModuleConfigEntry:
    """What a module that is quantized by itself is quantized with."""

    qconfig_mapping: QConfigMapping | None
    example_inputs: tuple[Any, ...]
    prepare_custom_config: PrepareCustomConfig | None
    backend_config: BackendConfig | None


def _entry(given: tuple[Any, ...]) -> StandaloneModuleConfigEntry:
    mapping, inputs, settings, backend = given
    if isinstance(mapping, dict):
        mapping = QConfigMapping.from_dict(mapping)
    if isinstance(settings, dict):
        settings = PrepareCustomConfig.from_dict(settings)
    if isinstance(backend, dict):
        backend = BackendConfig.from_dict(backend)
    return StandaloneModuleConfigEntry(mapping, inputs, settings, backend)


def _row(key: str, entry: StandaloneModuleConfigEntry) -> tuple[Any, ...]:
    mapping, settings = entry.qconfig_mapping, entry.prepare_custom_config
    return (
        key,
        None if mapping is None else mapping.to_dict(),
        entry.example_inputs,
        None if settings is None else settings.to_dict(),
        entry.backend_config,
    )


def _checked(op: str, given: object) -> dict[str, Any]:
    if not isinstance(given, dict):
        fail(TypeError, op, "a dictionary was required", type(given).__name__,
             hint="to_dict() of a configuration gives one")  # fmt: skip
    return given


def _by_kind(given: dict[str, dict[Any, Any]]) -> list[tuple[Any, Any, QuantType]]:
    """Class, class that stands for it, kind of quantization."""
    return [
        (first, second, quant_type_from_str(word))
        for word, table in given.items()
        for first, second in table.items()
    ]


def _by_word(given: dict[QuantType, dict[Any, Any]]) -> dict[str, dict[Any, Any]]:
    return {quant_type_to_str(kind): dict(table) for kind, table in given.items()}


class PrepareCustomConfig:
    """Settings of `prepare_fx` and `prepare_qat_fx`."""

    def __init__(self) -> None:
        self.standalone_module_names: dict[str, StandaloneModuleConfigEntry] = {}
        self.standalone_module_classes: dict[Any, StandaloneModuleConfigEntry] = {}
        self.float_to_observed_mapping: dict[QuantType, dict[Any, Any]] = {}
        self.non_traceable_module_names: list[str] = []
        self.non_traceable_module_classes: list[Any] = []
        self.input_quantized_indexes: list[int] = []
        self.output_quantized_indexes: list[int] = []
        self.preserved_attributes: list[str] = []

    def __repr__(self) -> str:
        return f"PrepareCustomConfig({ {k: v for k, v in vars(self).items() if v} })"

    def set_standalone_module_name(
        self, module_name: str, qconfig_mapping: Any, example_inputs: Any,
        prepare_custom_config: Any, backend_config: Any,
    ) -> PrepareCustomConfig:  # fmt: skip
        """Quantize the module of a name by itself."""
        made = (qconfig_mapping, example_inputs, prepare_custom_config, backend_config)
        self.standalone_module_names[module_name] = StandaloneModuleConfigEntry(*made)
        return self

    def set_standalone_module_class(
        self, module_class: Any, qconfig_mapping: Any, example_inputs: Any,
        prepare_custom_config: Any, backend_config: Any,
    ) -> PrepareCustomConfig:  # fmt: skip
        """Quantize modules of a class by themselves."""
        made = (qconfig_mapping, example_inputs, prepare_custom_config, backend_config)
        self.standalone_module_classes[module_class] = StandaloneModuleConfigEntry(*made)
        return self

    def set_float_to_observed_mapping(
        self, float_class: object, observed_class: object, quant_type: QuantType = QuantType.STATIC
    ) -> PrepareCustomConfig:
        """The class that observes, for a class of the model."""
        _check_static("set_float_to_observed_mapping", quant_type)
        self.float_to_observed_mapping.setdefault(quant_type, {})[float_class] = observed_class
        return self

    def set_non_traceable_module_names(self, module_names: list[str]) -> PrepareCustomConfig:
        """Modules that stay calls, by their names."""
        self.non_traceable_module_names = module_names
        return self

    def set_non_traceable_module_classes(self, module_classes: list[Any]) -> PrepareCustomConfig:
        """Modules that stay calls, by their classes."""
        self.non_traceable_module_classes = module_classes
        return self

    def set_input_quantized_indexes(self, indexes: list[int]) -> PrepareCustomConfig:
        """The inputs that are integers."""
        self.input_quantized_indexes = indexes
        return self

    def set_output_quantized_indexes(self, indexes: list[int]) -> PrepareCustomConfig:
        """The results that stay integers."""
        self.output_quantized_indexes = indexes
        return self

    def set_preserved_attributes(self, attributes: list[str]) -> PrepareCustomConfig:
        """Attributes of the model that the graph has, too."""
        self.preserved_attributes = attributes
        return self

    @classmethod
    def from_dict(cls, prepare_custom_config_dict: dict[str, Any]) -> PrepareCustomConfig:
        """The settings that a dictionary describes."""
        given = _checked("PrepareCustomConfig.from_dict", prepare_custom_config_dict)
        made = cls()
        for key, *rest in given.get(STANDALONE_MODULE_NAME_DICT_KEY, []):
            made.standalone_module_names[key] = _entry(tuple(rest))
        for key, *rest in given.get(STANDALONE_MODULE_CLASS_DICT_KEY, []):
            made.standalone_module_classes[key] = _entry(tuple(rest))
        for row in _by_kind(given.get(FLOAT_TO_OBSERVED_DICT_KEY, {})):
            made.set_float_to_observed_mapping(*row)
        for key, name in _LISTS.items():
            setattr(made, name, given.get(key, []))
        return made

    def to_dict(self) -> dict[str, Any]:
        """The settings as a dictionary; what is not set is left out."""
        made: dict[str, Any] = {}
        for name, entry in self.standalone_module_names.items():
            made.setdefault(STANDALONE_MODULE_NAME_DICT_KEY, []).append(_row(name, entry))
        for kind, entry in self.standalone_module_classes.items():
            made.setdefault(STANDALONE_MODULE_CLASS_DICT_KEY, []).append(_row(kind, entry))
        if self.float_to_observed_mapping:
            made[FLOAT_TO_OBSERVED_DICT_KEY] = _by_word(self.float_to_observed_mapping)
        return {**made, **{key: v for key, name in _LISTS.items() if (v := getattr(self, name))}}


def _check_static(op: str, quant_type: QuantType) -> None:
    if not isinstance(quant_type, QuantType):
        fail(ValueError, op, "a member of QuantType was required", quant_type,
             hint="QuantType.STATIC is the default")  # fmt: skip


class ConvertCustomConfig:
    """Settings of `convert_fx`."""

    def __init__(self) -> None:
        self.observed_to_quantized_mapping: dict[QuantType, dict[Any, Any]] = {}
        self.preserved_attributes: list[str] = []

    def __repr__(self) -> str:
        return f"ConvertCustomConfig({ {k: v for k, v in vars(self).items() if v} })"

    def set_observed_to_quantized_mapping(
        self,
        observed_class: object,
        quantized_class: object,
        quant_type: QuantType = QuantType.STATIC,
    ) -> ConvertCustomConfig:
        """The class of integers, for a class that observes."""
        _check_static("set_observed_to_quantized_mapping", quant_type)
        table = self.observed_to_quantized_mapping.setdefault(quant_type, {})
        table[observed_class] = quantized_class
        return self

    def set_preserved_attributes(self, attributes: list[str]) -> ConvertCustomConfig:
        """Attributes of the model that the graph has, too."""
        self.preserved_attributes = attributes
        return self

    @classmethod
    def from_dict(cls, convert_custom_config_dict: dict[str, Any]) -> ConvertCustomConfig:
        """The settings that a dictionary describes."""
        given = _checked("ConvertCustomConfig.from_dict", convert_custom_config_dict)
        made = cls()
        for row in _by_kind(given.get(OBSERVED_TO_QUANTIZED_DICT_KEY, {})):
            made.set_observed_to_quantized_mapping(*row)
        return made.set_preserved_attributes(given.get(PRESERVED_ATTRIBUTES_DICT_KEY, []))

    def to_dict(self) -> dict[str, Any]:
        """The settings as a dictionary; what is not set is left out."""
        made: dict[str, Any] = {}
        if self.observed_to_quantized_mapping:
            made[OBSERVED_TO_QUANTIZED_DICT_KEY] = _by_word(self.observed_to_quantized_mapping)
        if self.preserved_attributes:
            made[PRESERVED_ATTRIBUTES_DICT_KEY] = self.preserved_attributes
        return made


class FuseCustomConfig:
    """Settings of `fuse_fx`."""

    def __init__(self) -> None:
        self.preserved_attributes: list[str] = []

    def __repr__(self) -> str:
        return f"FuseCustomConfig({ {k: v for k, v in vars(self).items() if v} })"

    def set_preserved_attributes(self, attributes: list[str]) -> FuseCustomConfig:
        """Attributes of the model that the graph has, too."""
        self.preserved_attributes = attributes
        return self

    @classmethod
    def from_dict(cls, fuse_custom_config_dict: dict[str, Any]) -> FuseCustomConfig:
        """The settings that a dictionary describes."""
        given = _checked("FuseCustomConfig.from_dict", fuse_custom_config_dict)
        return cls().set_preserved_attributes(given.get(PRESERVED_ATTRIBUTES_DICT_KEY, []))

    def to_dict(self) -> dict[str, Any]:
        """The settings as a dictionary; what is not set is left out."""
        kept = self.preserved_attributes
        return {PRESERVED_ATTRIBUTES_DICT_KEY: kept} if kept else {}
