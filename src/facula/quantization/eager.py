"""Eager mode: a model whose layers have a `qconfig` is observed, then its layers are replaced.

Takes: a model with borders (`QuantStub`, `DeQuantStub`). Gives: `prepare`, the model with observers; `convert`, the
model of
integers; `prepare_qat`, the model to be trained; `quantize_dynamic`. Keeps true: modules without a configuration stay.
"""

from __future__ import annotations

import copy
import warnings
from importlib import import_module
from typing import Any

import facula.nn as nn
from facula import core
from facula.core.errors import fail, message
from facula.nn.utils.parametrize import is_parametrized, type_before_parametrizations
from facula.quantization import fake_quantize as fq
from facula.quantization import qconfig as qc
from facula.quantization.calls import FIXED_MODULES
from facula.quantization.modules import (
    convolution_sums,
    functional,
    instance_norms,
    qat_dynamic,
    recurrent,
    reference,
    stubs,
)
from facula.quantization.modules import dynamic as nnqd
from facula.quantization.modules import embedding as tables
from facula.quantization.modules import intrinsic as nni
from facula.quantization.modules import qat as nnqat
from facula.quantization.modules import quantized as nnq

_DIMS = (1, 2, 3)


def _static() -> dict[Any, Any]:
    made: dict[Any, Any] = {
        stubs.QuantStub: stubs.Quantize,
        stubs.DeQuantStub: stubs.DeQuantize,
        functional.FloatFunctional: functional.QFunctional,
        nni.LinearReLU: nnq.LinearReLU,
        nni.LinearLeakyReLU: nnq.LinearLeakyReLU,
        nni.LinearTanh: nnq.LinearTanh,
        nni.ConvAdd2d: convolution_sums.ConvAdd2d,
        nni.ConvAddReLU2d: convolution_sums.ConvAddReLU2d,
        nni.BNReLU2d: nnq.BNReLU2d,
        nni.BNReLU3d: nnq.BNReLU3d,
        nnqat.Linear: nnq.Linear,
        nnqat.LinearReLU: nnq.LinearReLU,
        nnqat.LinearBn1d: nnq.Linear,
    }
    made[nn.Embedding] = made[nnqat.Embedding] = tables.Embedding
    made[nn.EmbeddingBag] = tables.EmbeddingBag
    for name in (
        "Linear BatchNorm2d BatchNorm3d Dropout ELU GroupNorm Hardswish LayerNorm LeakyReLU ReLU6 "
        "PReLU ConvTranspose1d ConvTranspose2d ConvTranspose3d"
    ).split():
        made[getattr(nn, name)] = getattr(nnq, name)
    for n in _DIMS:
        made[getattr(nn, f"InstanceNorm{n}d")] = getattr(instance_norms, f"InstanceNorm{n}d")
        plain, relu = getattr(nnq, f"Conv{n}d"), getattr(nnq, f"ConvReLU{n}d")
        made[getattr(nn, f"Conv{n}d")] = made[getattr(nnqat, f"Conv{n}d")] = plain
        made[getattr(nnqat, f"ConvBn{n}d")] = plain
        for holder in (nni, nnqat):
            made[getattr(holder, f"ConvReLU{n}d")] = relu
        made[getattr(nnqat, f"ConvBnReLU{n}d")] = relu
    return made


def _qat() -> dict[Any, Any]:
    made: dict[Any, Any] = {
        nn.Linear: nnqat.Linear,
        nn.Embedding: nnqat.Embedding,
        nni.LinearReLU: nnqat.LinearReLU,
        nni.LinearBn1d: nnqat.LinearBn1d,
    }
    for n in _DIMS:
        made[getattr(nn, f"Conv{n}d")] = getattr(nnqat, f"Conv{n}d")
        for name in (f"ConvReLU{n}d", f"ConvBn{n}d", f"ConvBnReLU{n}d"):
            made[getattr(nni, name)] = getattr(nnqat, name)
    return made


DEFAULT_STATIC_QUANT_MODULE_MAPPINGS = _static()
DEFAULT_QAT_MODULE_MAPPINGS = _qat()
DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS: dict[Any, Any] = {
    nn.Linear: nnqd.Linear,
    nnqat.Linear: nnqd.Linear,
    qat_dynamic.Linear: nnqd.Linear,
    nni.LinearReLU: nnqd.LinearReLU,
    nnqat.LinearReLU: nnqd.LinearReLU,
    nn.EmbeddingBag: tables.EmbeddingBag,
    nn.Embedding: tables.Embedding,
    **recurrent.BY_FLOAT,
}


def get_default_static_quant_module_mappings() -> dict[Any, Any]:
    """Float layer -> layer of integers."""
    return dict(DEFAULT_STATIC_QUANT_MODULE_MAPPINGS)


def get_default_qat_module_mappings() -> dict[Any, Any]:
    """Float layer -> layer for training."""
    return dict(DEFAULT_QAT_MODULE_MAPPINGS)


def get_default_dynamic_quant_module_mappings() -> dict[Any, Any]:
    """Float layer -> layer that quantizes its inputs."""
    return dict(DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS)


def get_default_qconfig_propagation_list() -> set[Any]:
    """The modules that get a configuration."""
    return {*DEFAULT_STATIC_QUANT_MODULE_MAPPINGS, *DEFAULT_QAT_MODULE_MAPPINGS,
            *DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS}  # fmt: skip


def no_observer_set() -> set[Any]:
    """The modules whose results need no observer: those of their inputs count."""
    observed = get_default_custom_config_dict()["float_to_observed_custom_module_class"]
    return {stubs.QuantWrapper, nn.Dropout, nn.Identity, *observed.values()}


# ------------------------------------------------------------------ configurations and observers


def propagate_qconfig_(
    module: nn.Module, qconfig_dict: Any = None, prepare_custom_config_dict: Any = None
) -> None:
    """Give every module the configuration of its parent, unless it has one or a name or type has."""
    settings = prepare_custom_config_dict or {}
    apart = (
        {*settings.get("non_traceable_module_name", ())},
        {*settings.get("non_traceable_module_class", ())},
    )
    _propagate(module, qconfig_dict or {}, getattr(module, "qconfig", None), "", apart)


def _propagate(
    module: nn.Module,
    table: dict[Any, Any],
    inherited: object,
    name: str,
    apart: tuple[set[Any], set[Any]],
) -> None:
    own = getattr(module, "qconfig", inherited)
    own = table.get(type_before_parametrizations(module), own)
    own = table.get(name, own) if name or "" in table else own
    qc.assert_valid_qconfig(own, module)
    module.qconfig = own
    for child_name, child in module.named_children():
        path = f"{name}.{child_name}" if name else child_name
        if child_name not in apart[0] and type_before_parametrizations(child) not in apart[1]:
            _propagate(child, table, own, path, apart)


def add_observer_(
    module: nn.Module, qconfig_propagation_list: Any = None, non_leaf_module_list: Any = None,
    device: object = None, custom_module_class_mapping: Any = None,
) -> None:  # fmt: skip
    """Put an observer behind every layer that has a configuration.

    Args:
        qconfig_propagation_list: the classes of layers that are observed; None: the usual ones
        non_leaf_module_list: classes of modules that are observed as one, whatever they hold
        device: kept for PyTorch's API: observers stand where the layers are
        custom_module_class_mapping: classes, and those whose `from_float` makes the observed module
    """
    kinds = get_default_qconfig_propagation_list()
    if qconfig_propagation_list is not None:
        kinds = set(qconfig_propagation_list)
    if isinstance(module, nnqat._Weighted):
        _observe(module, getattr(module, "qconfig", None))
        return
    given = kinds, tuple(non_leaf_module_list or ()), dict(custom_module_class_mapping or {})
    _add_observers(module, *given)


def _add_observers(
    module: nn.Module, kinds: set[Any], whole: tuple[Any, ...], custom: dict[Any, Any]
) -> None:
    for name, child in list(module.named_children()):
        config = getattr(child, "qconfig", None)
        if fq.is_activation_post_process(child):
            continue
        if isinstance(child, functional.FloatFunctional):
            if config is not None:
                child.activation_post_process = config.activation()
        elif (
            isinstance(child, (nni._FusedModule, nnqat._Weighted))
            or type_before_parametrizations(child) in whole
        ):
            _observe(child, config)
        elif child.training and type_before_parametrizations(child) in FIXED_MODULES:
            _observe(child, config, FIXED_MODULES[type_before_parametrizations(child)])
        elif config is not None and type_before_parametrizations(child) in custom:
            made = custom[type_before_parametrizations(child)].from_float(child)
            setattr(module, name, made)
            if not isinstance(made, tuple(no_observer_set())):
                _observe(made, getattr(made, "qconfig", None))
        else:
            _add_observers(child, kinds, whole, custom)
    alone = not list(_layers(module))
    skipped = (stubs.DeQuantStub, *no_observer_set())
    if (
        alone
        and type_before_parametrizations(module) in kinds
        and type_before_parametrizations(module) not in skipped
    ):
        _observe(module, getattr(module, "qconfig", None))


_add_observer_ = add_observer_


def _observe(module: nn.Module, config: Any, interval: str | None = None) -> None:
    if config is None or config.activation is None or hasattr(module, "activation_post_process"):
        return
    module.add_module("activation_post_process", activation_maker(config, interval)())
    module.register_forward_hook(_look, prepend=True)  # others see what the observer gives


def activation_maker(config: Any, interval: str | None) -> Any:
    """What makes the observer of results; where these lie in a known interval, one that knows it."""
    if interval is None:
        return config.activation
    kind = qc.ob._spread(config.activation)[0]
    training = isinstance(kind, type) and issubclass(kind, fq.FakeQuantizeBase)
    return fq.fixed_range(interval, training)


def _look(module: nn.Module, inputs: tuple[Any, ...], output: core.Tensor | None) -> Any:
    """The hook by which an observer sees a result."""
    return module.activation_post_process(output)


def _get_observer_dict(mod: Any, target_dict: dict[str, Any], prefix: str = "") -> None:
    """Put every observer of a model into a dictionary, by the name of the module that it stands behind."""
    for name, child in mod.named_modules():
        if hasattr(child, "activation_post_process"):
            path = ".".join(part for part in (prefix, name, "activation_post_process") if part)
            target_dict[path] = child.activation_post_process


_observer_forward_hook = _look


# ------------------------------------------------------------------ the steps


def prepare(
    model: nn.Module, inplace: bool = False, allow_list: Any = None,
    observer_non_leaf_module_list: Any = None, prepare_custom_config_dict: Any = None,
) -> Any:  # fmt: skip
    """The model with observers, to be run on examples.

    Args:
        model: layers between `QuantStub` and `DeQuantStub`; `qconfig` says which are quantized, and how
        inplace: whether the model itself is changed
        allow_list: the classes of layers that are observed; None: the usual ones
        observer_non_leaf_module_list: classes of modules that are observed as one, whatever they hold
        prepare_custom_config_dict: `float_to_observed_custom_module_class`: classes of modules and those whose
            `from_float` makes the observed ones; `non_traceable_module_name` and `non_traceable_module_class`:
            modules that get no configuration
    """
    model = model if inplace else copy.deepcopy(model)
    settings = prepare_custom_config_dict
    settings = get_default_custom_config_dict() if settings is None else settings
    propagate_qconfig_(model, None, settings)
    if not any(getattr(m, "qconfig", None) for m in model.modules()):
        text = (
            "None of the submodule got qconfig applied. Make sure you passed correct configuration"
        )
        hint = "model.qconfig = get_default_qconfig()"
        warnings.warn(message("prepare", text, hint=hint), UserWarning, stacklevel=2)
    custom = settings.get("float_to_observed_custom_module_class")
    add_observer_(model, allow_list, observer_non_leaf_module_list, None, custom)
    return model


def prepare_qat(model: nn.Module, mapping: object = None, inplace: bool = False) -> Any:
    """The model to be trained: layers that pass their weights through levels, and observers."""
    if not model.training:
        fail(
            AssertionError,
            "prepare_qat",
            "prepare_qat only works on models in training mode",
            "a model in eval mode",
            hint="call model.train() first",
        )
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    convert(model, mapping or DEFAULT_QAT_MODULE_MAPPINGS, inplace=True, remove_qconfig=False)
    add_observer_(model)
    return model


def get_default_custom_config_dict() -> dict[str, Any]:
    """The layers of several steps, and those that are observed in their place, then of integers.

    Their module is imported when it is asked for: it prepares and converts by the functions here.
    """
    steps = import_module("facula.quantization.modules.quantized_steps")
    return {
        "float_to_observed_custom_module_class": dict(steps.OBSERVED),
        "observed_to_quantized_custom_module_class": dict(steps.INTEGERS),
    }


_get_default_custom_config_dict = get_default_custom_config_dict

#: what stands for itself in models of reference layers, too
_BORDERS = (stubs.QuantStub, stubs.DeQuantStub)


def swap_module(
    mod: nn.Module, mapping: Any, custom_module_class_mapping: Any = None,
    use_precomputed_fake_quant: bool = False, is_reference: bool = False,
) -> Any:  # fmt: skip
    """What stands in the place of a module; the module itself where it has no configuration."""
    target = mapping.get(type_before_parametrizations(mod))
    if getattr(mod, "qconfig", None) is None:
        return mod
    if (
        custom_module_class_mapping
        and type_before_parametrizations(mod) in custom_module_class_mapping
    ):
        return custom_module_class_mapping[type_before_parametrizations(mod)].from_observed(mod)
    if target is None:
        return mod
    if is_reference and not isinstance(mod, _BORDERS):
        if not reference.exists_for(mod):
            return mod
        made = reference.of(mod)
    else:
        made = target.from_float(mod)
    for hook in mod._forward_pre_hooks.values():
        made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _look:
            made.register_forward_hook(hook)
    return made


def _convert(
    module: nn.Module,
    mapping: dict[Any, Any],
    custom: dict[Any, Any] | None = None,
    is_reference: bool = False,
) -> None:
    for name, child in list(module.named_children()):
        own = type_before_parametrizations(child)
        if not (isinstance(child, nni._FusedModule) or own in mapping or own in (custom or {})):
            _convert(child, mapping, custom, is_reference)
        made = swap_module(child, mapping, custom, False, is_reference)
        if made is not child:
            setattr(module, name, made)


def convert(
    module: nn.Module, mapping: Any = None, inplace: bool = False, remove_qconfig: bool = True,
    is_reference: bool = False, convert_custom_config_dict: Any = None,
    use_precomputed_fake_quant: bool = False,
) -> Any:  # fmt: skip
    """The model whose observed layers are layers of integers; of numbers of integers where `is_reference`."""
    module = module if inplace else copy.deepcopy(module)
    mapping = mapping or DEFAULT_STATIC_QUANT_MODULE_MAPPINGS
    settings = convert_custom_config_dict
    settings = get_default_custom_config_dict() if settings is None else settings
    custom = settings.get("observed_to_quantized_custom_module_class")
    _convert(module, mapping, custom, is_reference)
    if type_before_parametrizations(module) in mapping and not list(_layers(module)):
        module = swap_module(module, mapping, is_reference=is_reference)
    if remove_qconfig:
        _remove_qconfig(module)
    return module


def _layers(module: nn.Module) -> Any:
    """The layers in a module: observers are none, nor is what a parametrized layer has beside itself."""
    parametrized = is_parametrized(module)
    return (
        child
        for name, child in module.named_children()
        if not (
            fq.is_activation_post_process(child) or (parametrized and name == "parametrizations")
        )
    )


def _remove_qconfig(module: nn.Module) -> None:
    for child in module.modules():
        vars(child).pop("qconfig", None)
        observer = child._modules.get("activation_post_process")
        if observer is not None and fq.is_activation_post_process(observer):
            del child._modules["activation_post_process"]
            for key in [k for k, hook in child._forward_hooks.items() if hook is _look]:
                del child._forward_hooks[key]


def quantize(
    model: Any, run_fn: Any, run_args: Any, mapping: object = None, inplace: bool = False
) -> Any:
    """`prepare`, a run on examples, and `convert`."""
    model = prepare(model if inplace else copy.deepcopy(model), inplace=True).eval()
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)


def quantize_qat(model: Any, run_fn: Any, run_args: Any, inplace: bool = False) -> Any:
    """`prepare_qat`, training, and `convert`."""
    model = (model if inplace else copy.deepcopy(model)).train()
    model = prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, inplace=True)


def quantize_dynamic(
    model: nn.Module, qconfig_spec: Any = None, dtype: core.dtype = core.qint8, mapping: Any = None,
    inplace: bool = False,
) -> Any:  # fmt: skip
    """The model with weights of 8 bits (or 16-bit floats), whose inputs are quantized by their range."""
    configs = {core.qint8: qc.default_dynamic_qconfig, core.float16: qc.float16_dynamic_qconfig}
    if dtype not in configs:
        fail(
            ValueError,
            "quantize_dynamic",
            "Don't know how to quantize with default settings: dtype qint8 or float16 was required",
            dtype,
            hint="a dict of types and configurations takes others",
        )
    mapping = mapping or DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS
    if qconfig_spec is None:  # tables need configurations of their own
        qconfig_spec = {
            kind for kind in mapping if not issubclass(kind, (nn.Embedding, nn.EmbeddingBag))
        }
    if isinstance(qconfig_spec, (set, frozenset, list, tuple)):
        qconfig_spec = dict.fromkeys(qconfig_spec, configs[dtype])
    model = (model if inplace else copy.deepcopy(model)).eval()
    propagate_qconfig_(model, qconfig_spec)
    return convert(model, mapping, inplace=True)
