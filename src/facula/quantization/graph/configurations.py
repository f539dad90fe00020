"""What each node of a graph is quantized with.

Takes: a `QConfigMapping`, a graph, and the module that each node stands in. Gives: a configuration or None for every
node, and in the attribute `qconfig` of every module. Keeps true: what is more particular counts: order, name,
pattern, type of the module that holds a call, type of the call, then the whole model's.
"""

from __future__ import annotations

import re
from typing import Any

from facula.core.errors import fail
from facula.quantization import fake_quantize as fq
from facula.quantization import observer as ob
from facula.quantization.backend_config.classes import DTypeConfig, DTypeWithConstraints
from facula.quantization.graph.matching import Match, same_call
from facula.quantization.modules import intrinsic as nni
from facula.quantization.qconfig import QConfig, assert_valid_qconfig, qconfig_equals
from facula.quantization.utils import get_qconfig_dtypes

_MISSING = object()


def _of_type(mapping: Any, kind: object, default: object) -> Any:
    """The configuration of a class, a function or a method's name."""
    table = mapping.object_type_qconfigs
    found = table.get(kind, _MISSING)
    if found is _MISSING and callable(kind) and not isinstance(kind, type):
        found = next((v for k, v in table.items() if callable(k) and same_call(kind, k)), _MISSING)
    return default if found is _MISSING else found


def _of_module(mapping: Any, name: str, kinds: tuple[Any, ...], default: Any) -> Any:
    """The configuration of a module by its types (the first that is named counts), patterns and names."""
    for kind in reversed(kinds):
        default = _of_type(mapping, kind, default)
    return mapping.by_name(name, default)


def _kinds(module: Any) -> tuple[Any, ...]:
    """The types under which a module's configuration is looked for."""
    kind = type(module)
    parts = [type(module)]
    if isinstance(module, nni._FusedModule):
        parts += [type(p) for p in module]
    base = next((b for b in kind.__mro__ if b.__module__.startswith("facula.nn.")), kind)
    return (*parts, base)


def _check_fused(mapping: Any, module: Any) -> None:
    """ValueError where the parts of a fused module have different configurations."""
    if not isinstance(module, nni._FusedModule):
        return
    first, *rest = [mapping.object_type_qconfigs.get(type(p)) for p in module]
    if any(other is not first and not qconfig_equals(other, first) for other in rest):
        kinds = [type(p).__name__ for p in module]
        fail(
            LookupError, "prepare_fx", "During fusion, we need to specify the same qconfigs for all module types in "
            f"{type(module).__name__}", kinds, hint="set_object_type for each of them",
        )  # fmt: skip


def _at(mapping: Any, inside: str, kind: object, counts: dict[Any, int], default: object) -> Any:
    """The configuration of the next call of a type inside of a module, or `default`."""
    number = counts.get((inside, kind), 0)
    counts[inside, kind] = number + 1
    for (name, wanted, index), found in mapping.module_name_object_type_order_qconfigs.items():
        same = wanted == kind or callable(kind) and callable(wanted) and same_call(kind, wanted)
        if name == inside and index == number and same:
            return found
    return default


def configure(model: Any, mapping: Any, scopes: dict[str, tuple[str, Any]]) -> dict[Any, Any]:
    """The configuration of every node.

    Args:
        model: the graph
        mapping: the configurations
        scopes: by the name of a node, the name and the class of the module that it stands in
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    for name, module in modules.items():
        module.qconfig = _of_module(mapping, name, _kinds(module), mapping.global_qconfig)
    counts: dict[Any, int] = {}
    found: dict[Any, Any] = {}
    for node in model.graph.nodes:
        config = None
        inside, kind = scopes.get(node.name, ("", None))
        whole = mapping.global_qconfig
        if node.op == "call_module":
            module = modules[node.target]
            if fq.is_activation_post_process(module):
                continue
            _check_fused(mapping, module)
            kinds = _kinds(module)
            config = _of_module(mapping, node.target, kinds, whole)
            first = kinds[1] if isinstance(module, nni._FusedModule) else kinds[-1]
            config = _at(mapping, node.target.rpartition(".")[0], first, counts, config)
            assert_valid_qconfig(config, module)
            module.qconfig = config
        elif node.op in ("call_function", "call_method"):
            own = _of_type(mapping, node.target, whole)
            config = _of_module(mapping, inside, (kind,), own)
            config = _at(mapping, inside, node.target, counts, config)
        elif node.op == "get_attr":
            config = _of_module(mapping, inside, (kind,), whole)
        found[node] = config
    return found


# ------------------------------------------------------------------ what a backend has


def reuses_input(config: Any) -> bool:
    """Whether a configuration says that a result has the parameters of its input."""
    if config is None:
        return False
    return isinstance(config, QConfig) and isinstance(config.activation(), ob.ReuseInputObserver)


def _fits(seen: Any, wanted: DTypeWithConstraints, dynamic: bool | None) -> bool:
    """Whether what an observer gives is what a backend takes."""
    if wanted.dtype is None:
        return True
    if seen.dtype is not wanted.dtype or bool(getattr(seen, "is_dynamic", False)) != bool(dynamic):
        return False
    return _keeps_limits(getattr(seen, "activation_post_process", seen), seen, wanted)


def _keeps_limits(observer: Any, seen: object, wanted: DTypeWithConstraints) -> bool:
    low, high = wanted.quant_min_lower_bound, wanted.quant_max_upper_bound
    least, most = getattr(observer, "quant_min", None), getattr(observer, "quant_max", None)
    if low is not None and high is not None:
        if least is None or most is None or least < low or most > high:
            return False
    if wanted.scale_min_lower_bound is not None:
        eps = getattr(observer, "eps", None)
        if eps is None or float(eps) < wanted.scale_min_lower_bound:
            return False
    if wanted.scale_exact_match is None or wanted.zero_point_exact_match is None:
        return True
    if not isinstance(seen, (ob.FixedQParamsObserver, fq.FixedQParamsFakeQuantize)):
        return False
    same = float(observer.scale) == wanted.scale_exact_match
    return same and int(observer.zero_point) == wanted.zero_point_exact_match


def combination(match: Match, config: Any) -> DTypeConfig | None:
    """The combination of dtypes with which a backend quantizes a match as its configuration asks; None for none."""
    if match.config is None:
        return None
    seen, weight = config.activation(), config.weight()
    dynamic = bool(getattr(seen, "is_dynamic", False))
    places = match.config._input_type_to_index
    for types in match.config.dtype_configs:
        if not _fits(seen, types.input_dtype_with_constraints, types.is_dynamic):
            continue
        wanted = types.output_dtype_with_constraints
        if not dynamic and not _fits(seen, wanted, False):
            continue
        has_weight = "weight" in places or match.config.root_module is not None
        limited = types.weight_dtype_with_constraints
        if has_weight and limited.dtype is not None:
            if weight.dtype is not limited.dtype or not _keeps_limits(
                getattr(weight, "activation_post_process", weight), weight, limited
            ):
                continue
        return types
    return None


def kinds_of(config: object) -> tuple[Any, Any, bool]:
    """The dtypes of activations and weights, and whether the former are quantized by each input's range."""
    return get_qconfig_dtypes(config)


def same_mapping(given: object, known: object) -> bool:
    """Whether a mapping for conversion has the keys of the one that was prepared with, and its values or None."""
    for name in vars(known):
        mine, theirs = getattr(given, name), getattr(known, name)
        if name == "global_qconfig":
            mine, theirs = {"": mine}, {"": theirs}
        for key, config in mine.items():
            if config is not None and not qconfig_equals(config, theirs.get(key)):
                return False
    return True


# ------------------------------------------------------------------ PyTorch's names


def _get_object_type_qconfig(
    qconfig_mapping: object, object_type: object, fallback_qconfig: object
) -> Any:
    return _of_type(qconfig_mapping, object_type, fallback_qconfig)


def _get_module_name_qconfig(
    qconfig_mapping: Any, module_name: str, fallback_qconfig: object
) -> Any:
    path = module_name
    while path:
        if path in qconfig_mapping.module_name_qconfigs:
            return qconfig_mapping.module_name_qconfigs[path]
        path = path.rpartition(".")[0]
    return fallback_qconfig


def _get_module_name_regex_qconfig(
    qconfig_mapping: Any, module_name: str, fallback_qconfig: object
) -> Any:
    for pattern, found in qconfig_mapping.module_name_regex_qconfigs.items():
        if re.match(pattern, module_name):
            return found
    return fallback_qconfig


def _maybe_adjust_qconfig_for_module_name_object_type_order(
    qconfig_mapping: Any, cur_module_path: str, cur_object_type: Any, cur_object_type_idx: int, fallback_qconfig: Any,
) -> Any:  # fmt: skip
    counts = {(cur_module_path, cur_object_type): cur_object_type_idx}
    return _at(qconfig_mapping, cur_module_path, cur_object_type, counts, fallback_qconfig)
