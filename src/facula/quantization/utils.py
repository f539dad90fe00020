"""What the workflows of quantization ask of configurations, modules and integers; PyTorch's
`ao.quantization.utils`.

Takes: configurations, observers, dtypes, modules. Gives: dtypes of activations and weights, ranges of integers,
scale and zero point of a range, the inputs that every module of a model gets. Keeps true: a configuration is
asked by making its observers, which look at nothing.
"""

from __future__ import annotations

import inspect
from typing import Any

from facula import core
from facula.core.errors import fail
from facula.nn import Module
from facula.quantization import fake_quantize as fq
from facula.quantization import observer as ob
from facula.quantization.quant_type import QuantType
from facula.quantization.tensor import RANGES, per_tensor_affine, per_tensor_symmetric

__all__ = [
    "MatchAllNode",
    "NodePattern",
    "Pattern",
    "activation_dtype",
    "activation_is_dynamically_quantized",
    "activation_is_int32_quantized",
    "activation_is_int8_quantized",
    "activation_is_statically_quantized",
    "calculate_qmin_qmax",
    "check_min_max_valid",
    "check_node",
    "determine_qparams",
    "get_combined_dict",
    "get_fqn_to_example_inputs",
    "get_qconfig_dtypes",
    "get_qparam_dict",
    "get_quant_type",
    "get_swapped_custom_module_class",
    "getattr_from_fqn",
    "has_no_children_ignoring_parametrizations",
    "is_per_channel",
    "is_per_tensor",
    "op_is_int8_dynamically_quantized",
    "to_underlying_dtype",
    "validate_qmin_qmax",
    "weight_dtype",
    "weight_is_quantized",
    "weight_is_statically_quantized",
]

NodePattern = tuple[Any, Any] | Any
Pattern = Any
#: integers of activations that are chosen ahead of time
_STATIC = (core.quint8, core.qint8, core.qint32, core.uint8, core.int8, core.int16, core.int32,
           core.float8_e5m2, core.float8_e4m3fn)  # fmt: skip
_BYTES = (core.quint8, core.qint8, core.uint8, core.int8)
_WEIGHTS = (core.quint8, core.qint8, core.float16, core.quint4x2, core.uint8, core.int8,
            core.int16, core.int32, core.float8_e5m2, core.float8_e4m3fn)  # fmt: skip


class MatchAllNode:
    """In a pattern: a node of any kind."""


def check_node(node: Any, modules: dict[str, Any]) -> tuple[bool, bool, bool]:
    """Whether a node calls a function, a method, or a module that a graph has."""
    return (
        node.op == "call_function",
        node.op == "call_method",
        node.op == "call_module" and str(node.target) in modules,
    )


def get_combined_dict(default_dict: dict[Any, Any], additional_dict: dict[Any, Any]) -> Any:
    """Both dictionaries in one; entries of the second count."""
    return {**default_dict, **additional_dict}


def is_per_tensor(qscheme: object) -> bool:
    """Whether a tensor has one scale."""
    return qscheme in (per_tensor_affine, per_tensor_symmetric)


def is_per_channel(qscheme: object) -> bool:
    """Whether every channel has a scale."""
    return fq._is_per_channel(qscheme)


def getattr_from_fqn(obj: object, fqn: str) -> Any:
    """What a name with dots leads to: ``obj.a.b`` of ``"a.b"``."""
    for name in fqn.split("."):
        obj = getattr(obj, name)
    return obj


def to_underlying_dtype(qdtype: object) -> Any:
    """The dtype of the integers of a quantized dtype; AssertionError for another."""
    if qdtype not in RANGES:
        fail(AssertionError, "to_underlying_dtype", "Unsupported dtype: a quantized dtype was required",
             qdtype, hint="quint8, qint8 and qint32 are quantized dtypes")  # fmt: skip
    return RANGES[qdtype][0]


def get_qparam_dict(observer_or_fake_quant: Any) -> dict[str, Any]:
    """Everything an observer says of how its numbers become integers."""
    seen = observer_or_fake_quant
    scheme = getattr(seen, "qscheme", None)
    found = {"qscheme": scheme, "dtype": seen.dtype}
    if scheme is None:
        return found
    if is_per_tensor(scheme):
        found["qscheme"] = per_tensor_affine
    elif is_per_channel(scheme):
        found["axis"] = seen.ch_axis
        if scheme is not fq.per_channel_affine_float_qparams:
            found["qscheme"] = fq.per_channel_affine
    else:
        fail(RuntimeError, "get_qparam_dict", "Unrecognized qscheme: a scheme of tensors or channels was "
             "required", scheme, hint="per_tensor_affine is the default")  # fmt: skip
    found["scale"], found["zero_point"] = seen.calculate_qparams()
    found["quant_min"] = getattr(seen, "quant_min", None)
    found["quant_max"] = getattr(seen, "quant_max", None)
    return found


def get_swapped_custom_module_class(
    custom_module: object, mapping: dict[Any, Any], qconfig: object
) -> Any:
    """The class that stands for that of a module, by the kind of its configuration."""
    by_class = mapping.get(get_quant_type(qconfig), {})
    kind = type(custom_module)
    if kind not in by_class:
        fail(AssertionError, "convert", "a class of quantized modules for a custom module was required: "
             "did not find corresponding observed module class", kind.__name__,
             hint="name it in the settings' mappings of custom modules")  # fmt: skip
    return by_class[kind]


# ------------------------------------------------------------------ configurations


def activation_dtype(qconfig: Any) -> Any:
    """The dtype of activations."""
    return qconfig.activation().dtype


def weight_dtype(qconfig: Any) -> Any:
    """The dtype of weights."""
    return qconfig.weight().dtype


def get_qconfig_dtypes(qconfig: Any) -> tuple[Any, Any, bool]:
    """The dtypes of activations and weights, and whether activations are quantized by each input's range."""
    activation, weight = qconfig.activation(), qconfig.weight()
    return activation.dtype, weight.dtype, bool(getattr(activation, "is_dynamic", False))


def activation_is_statically_quantized(qconfig: Any) -> bool:
    """Whether activations become integers ahead of time."""
    made = qconfig.activation()
    return made.dtype in _STATIC and not getattr(made, "is_dynamic", False)


def activation_is_dynamically_quantized(qconfig: object) -> bool:
    """Whether activations become integers by each input's range."""
    return get_qconfig_dtypes(qconfig)[2]


def activation_is_int8_quantized(qconfig: object) -> bool:
    """Whether activations become bytes."""
    return activation_dtype(qconfig) in _BYTES


def activation_is_int32_quantized(qconfig: object) -> bool:
    """Whether activations become integers of 32 bits."""
    return activation_dtype(qconfig) in (core.qint32, core.int32)


def weight_is_quantized(qconfig: object) -> bool:
    """Whether weights become integers, or floats of 16 bits or fewer."""
    return weight_dtype(qconfig) in _WEIGHTS


def weight_is_statically_quantized(qconfig: object) -> bool:
    """Whether weights become bytes."""
    return weight_dtype(qconfig) in _BYTES


def op_is_int8_dynamically_quantized(qconfig: object) -> bool:
    """Whether activations become bytes by each input's range, and weights signed bytes."""
    activation, weight, dynamic = get_qconfig_dtypes(qconfig)
    return activation in (core.quint8, core.uint8) and weight in (core.qint8, core.int8) and dynamic


def get_quant_type(qconfig: Any) -> QuantType:
    """Which kind of quantization a configuration asks for; an exception where it is none."""
    activation, weight = qconfig.activation(), qconfig.weight()
    dynamic = getattr(activation, "is_dynamic", False)
    if weight.dtype in _WEIGHTS:
        if dynamic:
            return QuantType.DYNAMIC
        return QuantType.STATIC if activation.dtype in _STATIC else QuantType.WEIGHT_ONLY
    if weight.dtype is core.float16:
        return QuantType.DYNAMIC if dynamic else QuantType.STATIC
    fail(Exception, "get_quant_type", "a configuration with weights of few bits was required: Unrecognized "
         "dtype combination", f"{activation.dtype} and {weight.dtype}",
         hint="default_qconfig has weights of dtype qint8")  # fmt: skip


# ------------------------------------------------------------------ ranges


def check_min_max_valid(min_val: Any, max_val: Any) -> bool:
    """Whether extremes were seen; a warning where not, AssertionError where the least is above the greatest."""
    return ob._seen(min_val, max_val)


def calculate_qmin_qmax(
    quant_min: int, quant_max: int, has_customized_qrange: bool, dtype: Any, reduce_range: bool
) -> tuple[int, int]:
    """The integers that are used."""
    if has_customized_qrange:
        return ob._limits(dtype, reduce_range, quant_min, quant_max)
    return ob._limits(dtype, reduce_range, None, None)


def validate_qmin_qmax(quant_min: int, quant_max: int) -> None:
    """AssertionError where a range has no zero, or nothing."""
    ob._check_range("validate_qmin_qmax", quant_min, quant_max)


def determine_qparams(
    min_val: core.Tensor, max_val: core.Tensor, quant_min: int, quant_max: int, dtype: core.dtype, eps: core.Tensor,
    has_customized_qrange: bool, qscheme: object = per_tensor_affine,
) -> tuple[Any, Any]:  # fmt: skip
    """The scale and the zero point of a range."""
    kind: Any = ob.UniformQuantizationObserverBase  # for its formulas: it looks at nothing
    made = kind(dtype, qscheme, eps=float(eps))
    made.has_customized_qrange = has_customized_qrange
    made.quant_min, made.quant_max = quant_min, quant_max
    return made._calculate_qparams(min_val, max_val)


# ------------------------------------------------------------------ modules


def has_no_children_ignoring_parametrizations(module: Module) -> bool:
    """Whether a module has no modules of its own but for parametrizations."""
    return not [name for name in module._modules if name != "parametrizations"]


def get_fqn_to_example_inputs(model: Module, example_inputs: tuple[Any, ...]) -> dict[str, Any]:
    """Name of a module -> the arguments that it gets when the model runs on `example_inputs`.

    Arguments that a caller leaves out are there with their defaults, up to the last that was given by its name."""
    found: dict[str, Any] = {}
    names = {module: name for name, module in model.named_modules()}

    def look(module: Module, args: Any, kwargs: Any) -> None:
        values = list(args)
        rest = dict(kwargs)
        for name, parameter in list(inspect.signature(module.forward).parameters.items())[
            len(args) :
        ]:
            if not rest:
                break
            if name in rest:
                values.append(rest.pop(name))
            elif parameter.default is not inspect.Parameter.empty:
                values.append(parameter.default)
        found[names[module]] = tuple(values)

    hooks = [module.register_forward_pre_hook(look, with_kwargs=True) for module in names]
    try:
        model(*example_inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return found
