"""What a backend can quantize, as data: PyTorch's `ao.quantization.backend_config`.

Takes: patterns of modules and functions, dtypes with limits. Gives: `BackendConfig`, and what it consists of;
each to and from a dictionary. Keeps true: every `set_` gives the object itself; a pattern stands once in a
configuration, the last one counts.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from facula.core.errors import fail

__all__ = [
    "BackendConfig",
    "BackendPatternConfig",
    "DTypeConfig",
    "DTypeWithConstraints",
    "ObservationType",
]


class ObservationType(enum.Enum):
    """How results of a pattern are observed."""

    OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT = 0
    OUTPUT_SHARE_OBSERVER_WITH_INPUT = 1
    INPUT_OUTPUT_NOT_OBSERVED = 2


@dataclass
class DTypeWithConstraints:
    """A dtype, and limits that ranges and scales of its tensors have to keep."""

    dtype: Any = None
    quant_min_lower_bound: int | float | None = None
    quant_max_upper_bound: int | float | None = None
    scale_min_lower_bound: int | float | None = None
    scale_max_upper_bound: int | float | None = None
    scale_exact_match: float | None = None
    zero_point_exact_match: int | None = None


def _limited(given: object) -> DTypeWithConstraints:
    return given if isinstance(given, DTypeWithConstraints) else DTypeWithConstraints(dtype=given)


@dataclass
class DTypeConfig:
    """The dtypes of inputs, results, weights and biases of a pattern."""

    input_dtype_with_constraints: DTypeWithConstraints
    output_dtype_with_constraints: DTypeWithConstraints
    weight_dtype_with_constraints: DTypeWithConstraints
    bias_dtype: Any
    is_dynamic: bool | None

    def __init__(
        self, input_dtype: object = None, output_dtype: object = None, weight_dtype: object = None,
        bias_dtype: object = None, is_dynamic: bool | None = None,
    ) -> None:  # fmt: skip
        self.input_dtype_with_constraints = _limited(input_dtype)
        self.output_dtype_with_constraints = _limited(output_dtype)
        self.weight_dtype_with_constraints = _limited(weight_dtype)
        self.bias_dtype, self.is_dynamic = bias_dtype, is_dynamic

    @property
    def input_dtype(self) -> Any:
        """The dtype of inputs."""
        return self.input_dtype_with_constraints.dtype

    @property
    def output_dtype(self) -> Any:
        """The dtype of results."""
        return self.output_dtype_with_constraints.dtype

    @property
    def weight_dtype(self) -> Any:
        """The dtype of weights."""
        return self.weight_dtype_with_constraints.dtype

    @classmethod
    def from_dict(cls, dtype_config_dict: dict[str, Any]) -> DTypeConfig:
        """The configuration that a dictionary describes."""
        for name in ("input_dtype", "output_dtype", "weight_dtype"):
            given = dtype_config_dict.get(name)
            if isinstance(given, (str, int, float)):
                fail(
                    ValueError,
                    "DTypeConfig.from_dict",
                    f"{name}: Expected a dtype or a DTypeWithConstraints",
                    given,
                    hint="facula.quint8 is a dtype",
                )
        names = ("input_dtype", "output_dtype", "weight_dtype", "bias_dtype", "is_dynamic")
        return cls(*[dtype_config_dict.get(name) for name in names])

    def to_dict(self) -> dict[str, Any]:
        """The configuration as a dictionary; what is not set is left out."""
        made: dict[str, Any] = {}
        for name in ("input", "output", "weight"):
            limited = getattr(self, f"{name}_dtype_with_constraints")
            if limited.dtype is not None:
                made[f"{name}_dtype"] = limited
        if self.bias_dtype is not None:
            made["bias_dtype"] = self.bias_dtype
        if self.is_dynamic is not None:
            made["is_dynamic"] = self.is_dynamic
        return made


#: key of a dictionary -> attribute of a pattern's configuration
_OPTIONS = {
    "root_module": "root_module",
    "qat_module": "qat_module",
    "reference_quantized_module_for_root": "reference_quantized_module",
    "fused_module": "fused_module",
    "fuser_method": "fuser_method",
    "root_node_getter": "_root_node_getter",
    "extra_inputs_getter": "_extra_inputs_getter",
    "num_tensor_args_to_observation_type": "_num_tensor_args_to_observation_type",
    "input_type_to_index": "_input_type_to_index",
    "pattern_complex_format": "_pattern_complex_format",
}


class BackendPatternConfig:
    """What a backend does with a pattern: a module, a function, or a tuple of them in the order in which they run."""

    def __init__(self, pattern: object = None) -> None:
        self.pattern = pattern
        self.observation_type = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
        self.dtype_configs: list[DTypeConfig] = []
        self.root_module: Any = None
        self.qat_module: Any = None
        self.reference_quantized_module: Any = None
        self.fused_module: Any = None
        self.fuser_method: Any = None
        self._root_node_getter: Any = None
        self._extra_inputs_getter: Any = None
        self._num_tensor_args_to_observation_type: dict[int, ObservationType] = {}
        self._input_type_to_index: dict[str, int] = {}
        self._pattern_complex_format: Any = None

    def __repr__(self) -> str:
        shown = {k: v for k, v in vars(self).items() if v is not None and v not in ([], {})}
        return f"BackendPatternConfig({shown})"

    def _take(self, name: str, value: object) -> BackendPatternConfig:
        setattr(self, name, value)
        return self

    def set_pattern(self, pattern: object) -> BackendPatternConfig:
        """The modules and functions."""
        return self._take("pattern", pattern)

    def set_observation_type(self, observation_type: ObservationType) -> BackendPatternConfig:
        """How results are observed."""
        return self._take("observation_type", observation_type)

    def add_dtype_config(self, dtype_config: DTypeConfig) -> BackendPatternConfig:
        """One more combination of dtypes."""
        self.dtype_configs.append(dtype_config)
        return self

    def set_dtype_configs(self, dtype_configs: list[DTypeConfig]) -> BackendPatternConfig:
        """All combinations of dtypes."""
        return self._take("dtype_configs", dtype_configs)

    def set_root_module(self, root_module: object) -> BackendPatternConfig:
        """The class that has the weight."""
        return self._take("root_module", root_module)

    def set_qat_module(self, qat_module: object) -> BackendPatternConfig:
        """The class for training."""
        return self._take("qat_module", qat_module)

    def set_reference_quantized_module(
        self, reference_quantized_module: object
    ) -> BackendPatternConfig:
        """The reference class."""
        return self._take("reference_quantized_module", reference_quantized_module)

    def set_fused_module(self, fused_module: object) -> BackendPatternConfig:
        """The class of the whole pattern."""
        return self._take("fused_module", fused_module)

    def set_fuser_method(self, fuser_method: Callable[..., Any]) -> BackendPatternConfig:
        """What makes one module of the pattern's."""
        return self._take("fuser_method", fuser_method)

    def _set_root_node_getter(self, root_node_getter: Callable[..., Any]) -> BackendPatternConfig:
        return self._take("_root_node_getter", root_node_getter)

    def _set_extra_inputs_getter(self, getter: Callable[..., Any]) -> BackendPatternConfig:
        return self._take("_extra_inputs_getter", getter)

    def _set_num_tensor_args_to_observation_type(
        self, table: dict[int, ObservationType]
    ) -> BackendPatternConfig:
        return self._take("_num_tensor_args_to_observation_type", table)

    def _set_input_type_to_index(self, table: dict[str, int]) -> BackendPatternConfig:
        return self._take("_input_type_to_index", table)

    def _set_pattern_complex_format(self, pattern: object) -> BackendPatternConfig:
        """The pattern from its last part to its first, with tuples in tuples."""
        if self.pattern is not None:
            fail(
                ValueError,
                "BackendPatternConfig",
                "a pattern in one of the two forms was required: Only one of 'pattern' or "
                "'pattern_complex_format' can be set",
                self.pattern,
                hint="BackendPatternConfig() without a pattern takes the other form",
            )
        return self._take("_pattern_complex_format", pattern)

    @classmethod
    def from_dict(cls, backend_pattern_config_dict: dict[str, Any]) -> BackendPatternConfig:
        """The configuration that a dictionary describes."""
        given = backend_pattern_config_dict
        made = cls(given.get("pattern"))
        made.observation_type = given.get("observation_type", made.observation_type)
        for entry in given.get("dtype_configs", []):
            made.add_dtype_config(
                entry if isinstance(entry, DTypeConfig) else DTypeConfig.from_dict(entry)
            )
        for key, name in _OPTIONS.items():
            if given.get(key) is not None:
                setattr(made, name, given[key])
        return made

    def to_dict(self) -> dict[str, Any]:
        """The configuration as a dictionary; what is not set is left out."""
        made: dict[str, Any] = {
            "observation_type": self.observation_type,
            "dtype_configs": [config.to_dict() for config in self.dtype_configs],
        }
        if self.pattern is not None:
            made["pattern"] = self.pattern
        for key, name in _OPTIONS.items():
            value = getattr(self, name)
            if value is not None and value != {}:
                made[key] = value
        return made

    def _key(self) -> Any:
        """The pattern from its last part to its first, which is how graphs are searched."""
        if self._pattern_complex_format is not None:
            return self._pattern_complex_format
        if not isinstance(self.pattern, tuple):
            return self.pattern
        if len(self.pattern) == 2:
            return self.pattern[::-1]
        first, second, third = self.pattern
        return (third, (second, first))


class BackendConfig:
    """The patterns that a backend quantizes."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._pattern_complex_format_to_config: dict[Any, BackendPatternConfig] = {}

    def __repr__(self) -> str:
        return f"BackendConfig({vars(self)})"

    def set_name(self, name: str) -> BackendConfig:
        """The name of the backend."""
        self.name = name
        return self

    def set_backend_pattern_config(self, config: BackendPatternConfig) -> BackendConfig:
        """One more pattern."""
        if isinstance(config.pattern, tuple) and len(config.pattern) not in (2, 3):
            fail(
                ValueError,
                "BackendConfig",
                "a pattern of one, two or three parts was required: Expected a tuple with 2 or 3 elements",
                config.pattern,
                hint="set_pattern((Linear, ReLU))",
            )
        self._pattern_complex_format_to_config[config._key()] = config
        return self

    def set_backend_pattern_configs(self, configs: list[BackendPatternConfig]) -> BackendConfig:
        """More patterns."""
        for config in configs:
            self.set_backend_pattern_config(config)
        return self

    @property
    def configs(self) -> list[BackendPatternConfig]:
        """The patterns."""
        return list(self._pattern_complex_format_to_config.values())

    @classmethod
    def from_dict(cls, backend_config_dict: dict[str, Any]) -> BackendConfig:
        """The configuration that a dictionary describes."""
        made = cls(backend_config_dict.get("name", ""))
        for entry in backend_config_dict.get("configs", []):
            known = isinstance(entry, BackendPatternConfig)
            made.set_backend_pattern_config(
                entry if known else BackendPatternConfig.from_dict(entry)
            )
        return made

    def to_dict(self) -> dict[str, Any]:
        """The configuration as a dictionary."""
        return {"name": self.name, "configs": [config.to_dict() for config in self.configs]}
