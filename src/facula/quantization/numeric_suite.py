"""The numeric suite: weights and results of a float model beside those of its quantized form.

Takes: a float model, its quantized form, inputs. Gives: pairs of weights, of results of layers, and of results of
float layers that run in the shadow of quantized ones on the same inputs. Keeps true: names are those of the
quantized model's modules; a shadow changes no result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import facula.nn as nn
from facula import core
from facula.core.errors import fail
from facula.quantization.create import dequantize
from facula.quantization.mappings import get_default_compare_output_module_list
from facula.quantization.modules import functional, intrinsic, stubs

__all__ = [
    "Logger",
    "OutputLogger",
    "Shadow",
    "ShadowLogger",
    "compare_model_outputs",
    "compare_model_stub",
    "compare_weights",
    "get_logger_dict",
    "get_matching_activations",
    "prepare_model_outputs",
    "prepare_model_with_stubs",
]

_PACKED = "_packed_params._packed_params"
#: borders whose results are numbers again, and layers that hold others
_UNSEEN = (stubs.DeQuantStub, stubs.DeQuantize)


# ------------------------------------------------------------------ weights


def compare_weights(
    float_dict: dict[str, Any], quantized_dict: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Weights of a float model beside those of its quantized form.

    Args:
        float_dict: the state dictionary of the float model
        quantized_dict: that of the quantized one

    Returns:
        by the name of the quantized weight: ``float`` and ``quantized``, tensors, or lists of them for
        recurrent layers

    Example:
        >>> layer = facula.nn.Sequential(facula.nn.Linear(2, 3))
        >>> integers = facula.ao.quantization.quantize_dynamic(layer)
        >>> from facula.quantization.numeric_suite import compare_weights
        >>> found = compare_weights(layer.state_dict(), integers.state_dict())
        >>> [pair["quantized"].shape for pair in found.values()]
        [facula.Size([3, 2])]
    """
    found: dict[str, dict[str, Any]] = {}
    for key, value in quantized_dict.items():
        if key.endswith(f".{_PACKED}") or key == _PACKED:
            name = _matching(float_dict, key[: -len(_PACKED) - 1], "weight")
            pair = (name, value[0]) if name is not None else None
        elif key.endswith("weight"):
            name = _matching(float_dict, key.rpartition(".")[0], "weight")
            pair = (name, value) if name is not None else None
        elif "._all_weight_values." in key and key.endswith(".param"):
            found.update(_recurrent(float_dict, key, value))
            continue
        else:
            continue
        if pair is not None:
            found[key] = {"float": float_dict[pair[0]], "quantized": pair[1]}
    return found


def _matching(names: Iterable[str], owner: str, last: str) -> str | None:
    """The name of a tensor of a module, or of the first module inside of a fused one."""
    for name in names:
        head, _, own = name.rpartition(".")
        if own == last and (head == owner or head.rpartition(".")[0] == owner):
            return name
    return None


def _recurrent(float_dict: dict[str, Any], key: str, value: Any) -> dict[str, dict[str, Any]]:
    owner, _, rest = key.partition("._all_weight_values.")
    layers = [n for n in float_dict if n.startswith(f"{owner}.weight_ih_l")]
    place = int(rest.partition(".")[0])
    if place >= len(layers):
        return {}
    ends = layers[place].rpartition("weight_ih_")[2]
    floats = [float_dict[f"{owner}.weight_{what}_{ends}"] for what in ("ih", "hh")]
    return {key: {"float": floats, "quantized": [part[0] for part in value]}}


# ------------------------------------------------------------------ loggers


class Logger(nn.Module):
    """Keeps what it is given, in ``stats``.

    Example:
        >>> from facula.quantization.numeric_suite import Logger
        >>> Logger().stats
        {}
    """

    def __init__(self) -> None:
        super().__init__()
        self.stats: dict[str, list[Any]] = {}
        self.dtype = core.quint8  # what looks at results is asked for it

    def forward(self, x: Any) -> Any:
        """The argument."""
        return x


class ShadowLogger(Logger):
    """Keeps results of a quantized layer, as numbers, and of the float one in its shadow.

    Example:
        >>> from facula.quantization.numeric_suite import ShadowLogger
        >>> logger = ShadowLogger()
        >>> logger(facula.zeros(1), facula.ones(1))
        >>> logger.stats["float"]
        [tensor([1.])]
    """

    def __init__(self) -> None:
        super().__init__()
        self.stats = {"float": [], "quantized": []}

    def forward(self, x: Any, y: Any) -> None:  # type: ignore[override]
        """Keep both; of several results the first."""
        x, y = (v[0] if isinstance(v, (tuple, list)) else v for v in (x, y))
        self.stats["quantized"].append(x.detach())
        self.stats["float"].append(y.detach())


class OutputLogger(Logger):
    """Keeps results.

    Example:
        >>> from facula.quantization.numeric_suite import OutputLogger
        >>> logger = OutputLogger()
        >>> _ = logger(facula.ones(1))
        >>> logger.stats["tensor_val"]
        [tensor([1.])]
    """

    def __init__(self) -> None:
        super().__init__()
        self.stats = {"tensor_val": []}

    def forward(self, x: Any) -> Any:
        """The argument, which is kept."""
        self.stats["tensor_val"].append(x)
        return x


def get_logger_dict(mod: nn.Module, prefix: str = "") -> dict[str, Any]:
    """What the loggers in a model keep.

    Args:
        mod: the model
        prefix: what the names begin with

    Returns:
        ``stats`` of each module's logger, by ``name.stats``

    Example:
        >>> from facula.quantization.numeric_suite import OutputLogger, get_logger_dict
        >>> list(get_logger_dict(facula.nn.Sequential(facula.nn.Sequential(OutputLogger()))))
        ['0.stats']
    """
    found: dict[str, Any] = {}
    head = f"{prefix}." if prefix else ""
    for name, module in mod.named_modules():
        logger = next((c for c in module.children() if isinstance(c, Logger)), None)
        if logger is not None:
            found[f"{head}{name}.stats" if name else f"{head}stats"] = logger.stats
    return found


# ------------------------------------------------------------------ shadows


class Shadow(nn.Module):
    """A quantized module, and the float one beside it, which runs on the same inputs as numbers.

    Args:
        q_module: the quantized module
        float_module: the float one
        logger_cls: what keeps the results of both

    Example:
        >>> from facula.quantization.numeric_suite import Shadow, ShadowLogger
        >>> both = Shadow(facula.nn.ReLU(), facula.nn.ReLU(), ShadowLogger)
        >>> both(facula.ones(1)), len(both.logger.stats["float"])
        (tensor([1.]), 1)
    """

    def __init__(self, q_module: nn.Module, float_module: nn.Module, logger_cls: Any) -> None:
        super().__init__()
        self.orig_module, self.shadow_module = q_module, float_module
        self.logger = logger_cls()

    def forward(self, *x: Any) -> Any:
        """The quantized module's result."""
        made = self.orig_module(*x)
        return self._kept(made, self.shadow_module(*_numbers(x)))

    def _kept(self, made: object, shadow: object) -> Any:
        self.logger(made, shadow)
        return made

    def _operation(self, name: str, x: object, y: object) -> Any:
        made = getattr(self.orig_module, name)(x, y)
        return self._kept(made, getattr(self.shadow_module, name)(_numbers(x), _numbers(y)))

    def add(self, x: object, y: object) -> Any:
        """``x + y`` of both."""
        return self._operation("add", x, y)

    def add_scalar(self, x: object, y: float) -> Any:
        """``x + y`` of both, for a number."""
        return self._operation("add_scalar", x, y)

    def mul(self, x: object, y: object) -> Any:
        """``x * y`` of both."""
        return self._operation("mul", x, y)

    def mul_scalar(self, x: object, y: float) -> Any:
        """``x * y`` of both, for a number."""
        return self._operation("mul_scalar", x, y)

    def cat(self, x: object, dim: int = 0) -> Any:
        """The tensors of a list, joined, of both."""
        return self._operation("cat", x, dim)

    def add_relu(self, x: object, y: object) -> Any:
        """``relu(x + y)`` of both."""
        return self._operation("add_relu", x, y)


def _numbers(x: Any) -> Any:
    """The same with integers as numbers."""
    if isinstance(x, (tuple, list)):
        return type(x)(_numbers(v) for v in x)
    return dequantize(x) if isinstance(x, core.Tensor) and x.is_quantized else x


def prepare_model_with_stubs(
    float_module: nn.Module, q_module: nn.Module, module_swap_list: Iterable[type], logger_cls: Any
) -> None:
    """Puts the float modules of some classes in the shadow of the quantized ones.

    Args:
        float_module: the float model
        q_module: its quantized form, which is changed
        module_swap_list: the classes of the float modules
        logger_cls: what keeps the results of both

    Example:
        >>> from facula.quantization.numeric_suite import ShadowLogger, prepare_model_with_stubs
        >>> model = facula.nn.Sequential(facula.nn.Linear(2, 3))
        >>> integers = facula.ao.quantization.quantize_dynamic(model)
        >>> prepare_model_with_stubs(model, integers, [facula.nn.Linear], ShadowLogger)
        >>> type(integers[0]).__name__
        'Shadow'
    """
    floats, chosen = dict(float_module.named_children()), set(module_swap_list)
    for name, mod in list(q_module.named_children()):
        other = floats.get(name)
        if other is None:
            continue
        if type(other) not in chosen:
            prepare_model_with_stubs(other, mod, chosen, logger_cls)
        elif [type(m) for m in mod.modules()] != [type(m) for m in other.modules()]:
            q_module._modules[name] = Shadow(mod, other, logger_cls)


def compare_model_stub(
    float_model: nn.Module, q_model: nn.Module, module_swap_list: Iterable[type], *data: object,
    logger_cls: object = ShadowLogger,
) -> dict[str, Any]:  # fmt: skip
    """Results of quantized modules beside those of the float ones on the same inputs.

    Args:
        float_model: the float model
        q_model: its quantized form, which is changed
        module_swap_list: the classes of the float modules that run in the shadow
        *data: the inputs
        logger_cls: what keeps the results

    Returns:
        by name: ``float`` and ``quantized``, a list each

    Example:
        >>> from facula.quantization.numeric_suite import compare_model_stub
        >>> model = facula.nn.Sequential(facula.nn.Linear(2, 3))
        >>> integers = facula.ao.quantization.quantize_dynamic(model)
        >>> list(compare_model_stub(model, integers, [facula.nn.Linear], facula.ones(1, 2)))
        ['0.stats']
    """
    prepare_model_with_stubs(float_model, q_model, module_swap_list, logger_cls)
    q_model(*data)
    return get_logger_dict(q_model)


# ------------------------------------------------------------------ results


def prepare_model_outputs(
    float_module: nn.Module,
    q_module: nn.Module,
    logger_cls: object = OutputLogger,
    allow_list: Any = None,
) -> None:
    """Has both models keep the results of their layers.

    Args:
        float_module: the float model
        q_module: its quantized form
        logger_cls: what keeps results
        allow_list: the classes of layers; None for those that quantization changes

    Example:
        >>> from facula.quantization.numeric_suite import get_logger_dict, prepare_model_outputs
        >>> model = facula.nn.Sequential(facula.nn.Linear(2, 3))
        >>> prepare_model_outputs(model, facula.ao.quantization.quantize_dynamic(model))
        >>> list(get_logger_dict(model))
        ['0.stats']
    """
    if allow_list is None:
        allow_list = get_default_compare_output_module_list()
    for module in (float_module, q_module):
        _observe(module, logger_cls, set(allow_list))


def _observe(module: nn.Module, logger_cls: Any, chosen: set[Any]) -> None:
    for child in list(module.children()):
        operations = isinstance(child, (functional.FloatFunctional, functional.QFunctional))
        seen = type(child) in chosen and not isinstance(child, _UNSEEN)
        if operations and type(child) in chosen:
            child.activation_post_process = logger_cls()
        elif seen and (_is_layer(child) or isinstance(child, intrinsic._FusedModule)):
            child.add_module("activation_post_process", logger_cls())
            child.register_forward_hook(_look)
        elif not isinstance(child, Logger):
            _observe(child, logger_cls, chosen)


def _is_layer(module: nn.Module) -> bool:
    """Whether a module holds no layers of the user's: parameters that are packed are modules, too."""
    return type(module) not in (nn.Sequential, nn.ModuleList)


def _look(module: Any, inputs: object, output: object) -> Any:
    return module.activation_post_process(output)


def get_matching_activations(
    float_module: nn.Module, q_module: nn.Module
) -> dict[str, dict[str, Any]]:
    """The results that both models have kept, of modules of one name.

    Args:
        float_module: the float model
        q_module: its quantized form

    Returns:
        by name: ``float`` and ``quantized``, a list each

    Example:
        >>> from facula.quantization.numeric_suite import get_matching_activations
        >>> get_matching_activations(facula.nn.ReLU(), facula.nn.ReLU())
        {}
    """
    floats, integers = get_logger_dict(float_module), get_logger_dict(q_module)
    found = {}
    for key, kept in integers.items():
        if not kept["tensor_val"]:
            continue
        name = (
            key
            if key in floats
            else _matching(sorted(floats, reverse=True), key[: -len(".stats")], "stats")
        )
        if name is not None:
            found[key] = {"float": floats[name]["tensor_val"], "quantized": kept["tensor_val"]}
    return found


def compare_model_outputs(
    float_model: nn.Module, q_model: nn.Module, *data: object, logger_cls: object = OutputLogger,
    allow_list: object = None,
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """Results of the layers of both models on the same inputs.

    Args:
        float_model: the float model
        q_model: its quantized form
        *data: the inputs
        logger_cls: what keeps results
        allow_list: the classes of layers; None for those that quantization changes

    Returns:
        by name: ``float`` and ``quantized``, a list each

    Example:
        >>> from facula.quantization.numeric_suite import compare_model_outputs
        >>> model = facula.nn.Sequential(facula.nn.Linear(2, 3))
        >>> integers = facula.ao.quantization.quantize_dynamic(model)
        >>> list(compare_model_outputs(model, integers, facula.ones(1, 2)))
        ['0.stats']
    """
    if not data:
        fail(TypeError, "compare_model_outputs", "inputs of the models were required", "none",
             hint="compare_model_outputs(float_model, q_model, x)")  # fmt: skip
    prepare_model_outputs(float_model, q_model, logger_cls, allow_list)
    float_model(*data)
    q_model(*data)
    return get_matching_activations(float_model, q_model)
