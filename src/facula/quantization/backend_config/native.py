"""The patterns that facula's own engines quantize, as a `BackendConfig`.

Takes: the roles of operators (the field `quantizers` of their definitions) and the layers that have forms of
integers. Gives: the configuration of every engine. Keeps true: which functions and methods belong to a role is said
by their definitions; engines differ in dtypes and limits, and in what they fuse.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import facula.nn as nn
from facula import core
from facula.nn import functional
from facula.ops.table.registry import PLACES, own_operators
from facula.quantization import eager, fuse
from facula.quantization.backend_config.classes import (
    BackendConfig,
    BackendPatternConfig,
    DTypeConfig,
    DTypeWithConstraints,
    ObservationType,
)
from facula.quantization.calls import FIXED, FIXED_MODULES, KEEPING_METHODS, modules_of, named
from facula.quantization.modules import intrinsic as nni
from facula.quantization.modules import qat as nnqat
from facula.quantization.modules import recurrent, reference

__all__ = [
    "get_fbgemm_backend_config",
    "get_native_backend_config",
    "get_native_backend_config_dict",
    "get_onednn_backend_config",
    "get_qnnpack_backend_config",
    "get_test_only_legacy_native_backend_config",
    "get_test_only_legacy_native_backend_config_dict",
    "get_x86_backend_config",
]

_OWN = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
_SHARED = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT
_UNSEEN = ObservationType.INPUT_OUTPUT_NOT_OBSERVED
_U8, _S8, _F32, _F16 = core.quint8, core.qint8, core.float32, core.float16
_RELUS = (nn.ReLU, functional.relu)
_BUILTIN = {"add": operator.add, "mul": operator.mul}
#: the smallest scale that the engine of telephones computes with
_LEAST_SCALE = 2**-12

_BYTES = DTypeConfig(_U8, _U8)
_WEIGHTED = DTypeConfig(_U8, _U8, _S8, _F32)
_DYNAMIC = DTypeConfig(_U8, _F32, _S8, _F32, True)
_DYNAMIC_HALVES = DTypeConfig(_F16, _F32, _F16, _F32, True)
_HALVES = DTypeConfig(_F16, _F16, _F16, _F16)
_NORM = DTypeConfig(_U8, _U8, _F32, _F32)
_TABLES = [DTypeConfig(_F32, _F32, core.quint8), DTypeConfig(_F32, _F32, core.quint4x2)]


def _fixed(interval: str) -> DTypeConfig:
    """Bytes whose scale and zero point follow from an interval."""
    scale, zero = (1 / 256, 0) if interval == "0to1" else (2 / 256, 128)
    limits = DTypeWithConstraints(_U8, 0, 255, scale_exact_match=scale, zero_point_exact_match=zero)
    return DTypeConfig(limits, limits)


def _signed() -> tuple[DTypeConfig, DTypeConfig]:
    """Symmetric bytes of the engine of telephones: of layers, and of everything else."""
    seen = DTypeWithConstraints(_S8, scale_min_lower_bound=_LEAST_SCALE)
    weight = DTypeWithConstraints(_S8, -127, 127, _LEAST_SCALE)
    return DTypeConfig(seen, seen, weight, _F32), DTypeConfig(seen, seen)


class _Kinds:
    """The combinations of dtypes that an engine has, by role."""

    def __init__(
        self, *, halves: bool = False, signed: bool = False, dynamic_halves: bool = True
    ) -> None:
        layers, rest = _signed()
        half = [_HALVES] if halves else []
        self.convolution = [*([layers] if signed else []), _WEIGHTED]
        dynamic = [_DYNAMIC, _DYNAMIC_HALVES] if dynamic_halves else [_DYNAMIC]
        self.linear = [*self.convolution, *dynamic, *half]
        self.binary = [*([rest] if signed else []), _BYTES, *half]
        self.plain = [*([rest] if signed else []), _BYTES]
        self.norm = [_NORM, *half]
        self.recurrent = dynamic
        self.first = [rest] if signed else []
        self.half = half


def _functions(name: str) -> list[Any]:
    """The functions that programs call by an operator's name."""
    table = own_operators()
    found: list[Any] = [_BUILTIN.get(name), table.get(name), table.get(f"_functional_{name}")]
    if name.endswith("_") and name[:-1] in table:
        found.append(table[name[:-1]].inplace)
    return [function for function in found if function is not None]


def _one_result(name: str) -> bool:
    """Whether an operator gives one tensor always."""
    made = own_operators().get(name.removesuffix("_"))
    if made is None:
        return False
    return str(made.definition.schema.text.rpartition("->")[2].strip()) == "Tensor"


def _pattern(
    pattern: object, configs: list[DTypeConfig], how: ObservationType = _OWN
) -> BackendPatternConfig:
    return BackendPatternConfig(pattern).set_observation_type(how).set_dtype_configs(list(configs))


def _weights(config: BackendPatternConfig, weight: int = 1) -> BackendPatternConfig:
    return config._set_input_type_to_index({"weight": weight, "bias": weight + 1})


def _layer(kind: object, root: Any, configs: list[DTypeConfig]) -> BackendPatternConfig:
    """A layer with a weight, whose reference form follows from the layer that has it."""
    made = _pattern(kind, configs).set_root_module(root)
    trained = eager.DEFAULT_QAT_MODULE_MAPPINGS.get(kind)
    if trained is not None:
        made.set_qat_module(trained)
    form = getattr(reference, root.__name__, None)
    return made if form is None else made.set_reference_quantized_module(form)


def _fusion(
    pattern: Any, fused: object, method: Any, configs: list[DTypeConfig]
) -> BackendPatternConfig:
    made = _pattern(pattern, configs).set_fuser_method(method)
    return made if fused is None else made.set_fused_module(fused)


def _together(fused: Any) -> Any:
    """What makes one module of several that are computed one after another."""

    def fuse_parts(is_qat: bool, *parts: object) -> Any:
        return fused(*parts)

    return fuse_parts


def _convolutions(kinds: _Kinds) -> list[BackendPatternConfig]:
    made, types = [], kinds.convolution
    for n in (1, 2, 3):
        layer, norm = getattr(nn, f"Conv{n}d"), getattr(nn, f"BatchNorm{n}d")
        turned = getattr(nn, f"ConvTranspose{n}d")
        with_relu, with_norm, with_both = (
            getattr(nni, f"Conv{rest}{n}d") for rest in ("ReLU", "Bn", "BnReLU")
        )
        made += [_layer(layer, layer, types), _layer(getattr(nnqat, f"Conv{n}d"), layer, types)]
        for relu in _RELUS:
            made.append(_fusion((layer, relu), with_relu, _together(with_relu), types))
            made.append(_fusion((layer, norm, relu), with_both, fuse.fuse_conv_bn_relu, types))
        made.append(_fusion((layer, norm), with_norm, fuse.fuse_conv_bn, types))
        for fused in (with_relu, with_norm, with_both):
            trained = getattr(nnqat, fused.__name__)
            made += [_layer(fused, layer, types), _layer(trained, layer, types)]
        made.append(_layer(turned, turned, types))
        made.append(
            _fusion((turned, norm), None, fuse.fuse_convtranspose_bn, types).set_root_module(turned)
        )
        for name in (f"conv{n}d", f"conv_transpose{n}d"):
            call = getattr(functional, name)
            made.append(_weights(_pattern(call, types)))
            if "transpose" not in name:
                made += [_pattern((call, relu), types) for relu in _RELUS]
    return made


def _linears(kinds: _Kinds) -> list[BackendPatternConfig]:
    types, layer, call = kinds.linear, nn.Linear, functional.linear
    made = [_layer(kind, layer, types) for kind in (
        layer, nnqat.Linear, nni.LinearReLU, nnqat.LinearReLU, nni.LinearBn1d, nnqat.LinearBn1d,
    )]  # fmt: skip
    for relu in _RELUS:
        made.append(_fusion((layer, relu), nni.LinearReLU, _together(nni.LinearReLU), types))
        made.append(_pattern((call, relu), types))
    made.append(_fusion((layer, nn.BatchNorm1d), nni.LinearBn1d, fuse.fuse_linear_bn, types))
    return [*made, _weights(_pattern(call, types))]


def _binaries(kinds: _Kinds) -> list[BackendPatternConfig]:
    """Sums and products: of two tensors, or of one and a number."""
    made = []
    for name in ("add", "mul"):
        for call in _functions(name):
            for pattern in (*((call, relu) for relu in (*_RELUS, *_functions("relu")[:1])), call):
                config = _pattern(pattern, kinds.binary)
                config._set_num_tensor_args_to_observation_type({0: _OWN, 1: _SHARED, 2: _OWN})
                made.append(config)
    return made


def _calls(
    names: Iterable[str], configs: list[DTypeConfig], how: ObservationType
) -> list[BackendPatternConfig]:
    """Functions and methods by their names."""
    made: list[BackendPatternConfig] = []
    for name in sorted(names):
        made += [_pattern(call, configs, how) for call in _functions(name)]
        if hasattr(core.Tensor, name):
            made.append(_pattern(name, configs, how))
    return made


def _place_of_weight(name: str) -> int | None:
    """Which argument of a function of `nn.functional` is its weight; None where it has none."""
    function = PLACES["nn.functional"].get(name)
    words = [] if function is None else [p.name for p in function.definition.schema.parameters]
    return words.index("weight") if "weight" in words else None


def _own(kinds: _Kinds) -> list[BackendPatternConfig]:
    """Results with parameters of their own."""
    norms = {name: at for name in named("fx", "own") if (at := _place_of_weight(name)) is not None}
    names = named("fx", "own") - {"softmax", *norms}
    made = _calls(names, [*kinds.plain, *kinds.half], _OWN)
    made += _calls({"matmul"}, [*kinds.plain, *kinds.half], _OWN)
    places = modules_of({*names, "instance_norm1d", "instance_norm2d", "instance_norm3d"})
    made += [_pattern(kind, [*kinds.plain, *kinds.half]) for kind in (*places, nn.PReLU)]
    for name, weight in norms.items():
        types = kinds.norm if name == "layer_norm" else kinds.plain
        made += [_weights(_pattern(call, types), weight) for call in _functions(name)]
    made.append(_pattern(nn.LayerNorm, kinds.norm))
    for n in (2, 3):
        norm, fused = getattr(nn, f"BatchNorm{n}d"), getattr(nni, f"BNReLU{n}d")
        made += [_pattern(norm, kinds.plain), _pattern(fused, kinds.plain)]
        made += [_fusion((norm, relu), fused, _together(fused), kinds.plain) for relu in _RELUS]
    return made


def _with_input(kinds: _Kinds) -> list[BackendPatternConfig]:
    """Results with the parameters of what they are made of."""
    types = kinds.plain
    names = {n for n in named("fx", "shared") if _one_result(n)} - named("fx", "own")
    made = _calls({*names, *KEEPING_METHODS}, types, _SHARED)
    kinds_of = (*modules_of(names), nn.Identity, nn.Upsample)
    return made + [_pattern(kind, types, _SHARED) for kind in kinds_of]


def _in_intervals(kinds: _Kinds) -> list[BackendPatternConfig]:
    """Results in an interval that is known."""
    made = []
    for name, interval in FIXED.items():
        types = [*kinds.first, _fixed(interval), *kinds.half]
        made += _calls({name, f"{name}_"}, types, _OWN)
    for kind, interval in FIXED_MODULES.items():
        made.append(_pattern(kind, [*kinds.first, _fixed(interval), *kinds.half]))
    return made


def _tables_and_recurrent(kinds: _Kinds) -> list[BackendPatternConfig]:
    made = []
    for kind in (nn.Embedding, nn.EmbeddingBag):
        made += [_layer(k, kind, _TABLES) for k in (kind, getattr(nnqat, kind.__name__))]
    return made + [_layer(kind, kind, kinds.recurrent) for kind in recurrent.BY_FLOAT]


def _backend(name: str, kinds: _Kinds, more: Iterable[BackendPatternConfig] = ()) -> BackendConfig:
    made = BackendConfig(name).set_backend_pattern_configs(_with_input(kinds))
    for configs in (_own, _in_intervals, _binaries, _convolutions, _linears, _tables_and_recurrent):
        made.set_backend_pattern_configs(configs(kinds))
    made.set_backend_pattern_configs(_calls({"size", "shape"}, [_BYTES], _UNSEEN))
    return made.set_backend_pattern_configs(list(more))


def get_native_backend_config() -> BackendConfig:
    """What facula quantizes where nobody names a backend.

    Returns:
        the patterns with their dtypes

    Example:
        >>> from facula.ao.quantization.backend_config import get_native_backend_config
        >>> get_native_backend_config().name
        'native'
    """
    return _backend("native", _Kinds())


def get_native_backend_config_dict() -> dict[str, Any]:
    """`get_native_backend_config` as a dictionary."""
    return get_native_backend_config().to_dict()


def get_fbgemm_backend_config() -> BackendConfig:
    """What the engine `fbgemm` quantizes."""
    return _backend("fbgemm", _Kinds())


def get_x86_backend_config() -> BackendConfig:
    """What the engine `x86` quantizes."""
    return _backend("x86", _Kinds())


def get_qnnpack_backend_config() -> BackendConfig:
    """What the engine of telephones quantizes: symmetric signed bytes too."""
    return _backend("qnnpack", _Kinds(signed=True))


def get_test_only_legacy_native_backend_config() -> BackendConfig:
    """What facula quantizes, and the same in floats of 16 bits."""
    return _backend("_native_and_fp16", _Kinds(halves=True))


def get_test_only_legacy_native_backend_config_dict() -> dict[str, Any]:
    """`get_test_only_legacy_native_backend_config` as a dictionary."""
    return get_test_only_legacy_native_backend_config().to_dict()


def _linear_with(kinds: _Kinds) -> Iterable[BackendPatternConfig]:
    """Linear layers with the activations that the engine of oneDNN fuses."""
    types = kinds.linear
    for name, word in (("LeakyReLU", "leaky_relu"), ("Tanh", "tanh")):
        fused = getattr(nni, f"Linear{name}")
        yield _layer(fused, nn.Linear, types)
        for act in (getattr(nn, name), *_functions(word)):
            yield _pattern((functional.linear, act), types)
            yield _fusion((nn.Linear, act), fused, _together(fused), types)
    fused = nni.LinearLeakyReLU

    def with_norm(is_qat: bool, linear: object, norm: object, act: object) -> Any:
        return fused(fuse.fuse_linear_bn(is_qat, linear, norm), act)

    yield _fusion((nn.Linear, nn.BatchNorm1d, nn.LeakyReLU), fused, with_norm, types)


def get_onednn_backend_config() -> BackendConfig:
    """What the engine `onednn` quantizes: two activations behind linear layers too."""
    kinds = _Kinds(dynamic_halves=False)
    return _backend("onednn", kinds, _linear_with(kinds))
