"""Which layers, functions and methods are forms of the same one: PyTorch's `ao.ns.fx.mappings`.

Takes: the backends' patterns, the tables of layers with forms of integers, and the operators of integers. Gives: sets
of related ones, what takes and gives floats or integers, what is not compared, and the runs of nodes that are
compared as one. Keeps true: every set follows from the backends' configurations; sets that are handed out are
copies.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import facula.nn as nn
from facula import core, ops
from facula.fx import Node
from facula.ops.table.registry import PLACES
from facula.quantization import mappings
from facula.quantization.backend_config.classes import BackendPatternConfig, ObservationType
from facula.quantization.backend_config.native import (
    get_native_backend_config,
    get_onednn_backend_config,
)
from facula.quantization.calls import FIXED, FIXED_MODULES, modules_of
from facula.quantization.create import quantize_per_tensor
from facula.quantization.fake_quantize import FakeQuantizeBase
from facula.quantization.graph.matching import same_call
from facula.quantization.modules import functional, intrinsic, qat, quantized, stubs
from facula.quantization.observer import ObserverBase

__all__ = [
    "add_op_to_sets_of_related_ops",
    "end_node_matches_reversed_fusion",
    "get_base_name_for_op",
    "get_base_name_to_sets_of_related_ops",
    "get_node_type_to_io_type_map",
    "get_reversed_fusions",
    "get_type_a_related_to_b",
    "get_unmatchable_types_map",
]

_BUILTIN = {"add": operator.add, "mul": operator.mul, "floor_divide": operator.floordiv}
#: modules that are no layers: borders, and places of operators
_NO_LAYERS = (
    stubs.QuantStub,
    stubs.DeQuantStub,
    functional.FloatFunctional,
    functional.FXFloatFunctional,
)
#: methods that only say what a tensor is, or change its dtype
_PLAIN_METHODS = frozenset({"to", "dequantize", "numel", "shape", "size"})


class _Sets:
    """Sets that grow together where they share a member."""

    def __init__(self) -> None:
        self._of: dict[Any, list[Any]] = {}

    def join(self, *members: Any) -> None:
        """Put members, which are not None, into one set."""
        given = [m for m in members if m is not None]
        merged: list[Any] = []
        for member in given:
            for other in self._of.get(member, [member]):
                if other not in merged:
                    merged.append(other)
        for member in merged:
            self._of[member] = merged

    def all(self) -> Iterator[list[Any]]:
        """Every set once, in the order of their first members."""
        seen: set[int] = set()
        for members in self._of.values():
            if id(members) not in seen:
                seen.add(id(members))
                yield members


def _words(call: object) -> str:
    name = str(getattr(call, "__name__", call)).removeprefix("_functional_").rstrip("_")
    return {"iadd": "add", "imul": "mul", "floordiv": "floor_divide"}.get(name, name)


def _functions(word: str) -> list[Any]:
    """What programs call by an operator's name: functions, their forms that write, Python's operators."""
    found = [_BUILTIN.get(word)]
    for place in ("", "nn.functional"):
        for name in (word, f"{word}_"):
            found.append(PLACES[place].get(name))
    return [f for f in found if f is not None]


def _integers(word: str) -> list[Any]:
    """The operators of integers that compute what a float function does, with relu behind it or without."""
    names = (word, f"{word}_relu")
    return [getattr(ops.quantized, n) for n in names if hasattr(ops.quantized, n)]


def _flat(pattern: Any) -> list[Any]:
    """The parts of a pattern, the last first, along the arguments that are computed."""
    found = [pattern[0]] if isinstance(pattern, tuple) else [pattern]
    rest = pattern[1:] if isinstance(pattern, tuple) else ()
    return found + (_flat(rest[0]) if rest else [])


@cache
def _configs() -> list[tuple[Any, BackendPatternConfig]]:
    found: dict[Any, BackendPatternConfig] = {}
    for backend in (get_onednn_backend_config(), get_native_backend_config()):
        found.update(backend._pattern_complex_format_to_config)
    return list(found.items())


def _is_layer(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, nn.Module)


def _join_layers(sets: _Sets) -> None:
    for pattern, config in _configs():
        parts = _flat(pattern)
        base = parts[-1]
        if _is_layer(base):
            forms = (
                config.root_module,
                config.qat_module,
                config.reference_quantized_module,
                config.fused_module,
            )
            sets.join(base, *forms)
            sets.join(getattr(quantized, base.__name__, None), base)
    for name, kind in vars(intrinsic).items():
        if _is_layer(kind) and kind is not intrinsic._FusedModule:
            sets.join(kind, getattr(qat, name, None), getattr(quantized, name, None))
    for table in (
        mappings.DEFAULT_STATIC_QUANT_MODULE_MAPPINGS,
        mappings.DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS,
        mappings.get_embedding_qat_module_mappings(),
        mappings.DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS,
    ):
        for kind, form in table.items():
            if kind not in _NO_LAYERS:
                sets.join(kind, form)


def _join_calls(sets: _Sets) -> None:
    for pattern, _ in _configs():
        for part in _flat(pattern):
            if _is_layer(part) or part in _unmatchable_methods():
                continue
            word = _words(part)
            sets.join(part, *_functions(word), *_integers(word))
            if word in FIXED or word == "relu":
                sets.join(part, word, f"{word}_")
            if not _weighted(word):
                sets.join(part, *modules_of({word}))
    for call, form in mappings.DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS.items():
        sets.join(call, form)
    for word in PLACES["nn.functional"]:
        kinds = () if _weighted(word) else modules_of({word})
        sets.join(*kinds, *(_functions(word) if kinds else ()))


@cache
def _weighted(word: str) -> bool:
    """Whether a function takes the weight that its module keeps: their forms are not each other's."""
    call = PLACES["nn.functional"].get(word)
    return call is not None and any(p.name == "weight" for p in call.definition.schema.parameters)


def get_base_name_to_sets_of_related_ops() -> dict[str, set[Any]]:
    """Sets of layers, functions and methods that compute the same.

    Returns:
        the sets, by names that are numbers

    Example:
        >>> from facula.quantization.suite.relations import get_base_name_to_sets_of_related_ops
        >>> sets = get_base_name_to_sets_of_related_ops().values()
        >>> any({facula.nn.Linear, facula.ao.nn.quantized.Linear} <= found for found in sets)
        True
    """
    return {name: set(members) for name, members in _related().items()}


@cache
def _related() -> dict[str, tuple[Any, ...]]:
    sets = _Sets()
    _join_layers(sets)
    _join_calls(sets)
    return {str(number): tuple(members) for number, members in enumerate(sets.all())}


def get_base_name_for_op(
    base_name_to_sets_of_related_ops: dict[str, set[Any]], op: object
) -> str | None:
    """The name of the set that something is in; None where it is in none."""
    for name, members in base_name_to_sets_of_related_ops.items():
        if op in members:
            return name
    return None


def add_op_to_sets_of_related_ops(
    base_name_to_sets_of_related_ops: dict[str, set[Any]], op: object, related_op: object
) -> None:
    """Puts something into the set of another one, or, for None, into a set of its own."""
    if related_op is not None:
        for members in base_name_to_sets_of_related_ops.values():
            if related_op in members:
                members.add(op)
                return
    number = 0
    while str(number) in base_name_to_sets_of_related_ops:
        number += 1
    base_name_to_sets_of_related_ops[str(number)] = {op, related_op} - {None}


def get_type_a_related_to_b(
    base_name_to_sets_of_related_ops: dict[str, set[Any]],
) -> set[tuple[Any, Any]]:
    """All pairs of related ones, in both orders."""
    return {
        (a, b)
        for members in base_name_to_sets_of_related_ops.values()
        for a in members
        for b in members
    }


# ------------------------------------------------------------------ what is not compared


@cache
def _unmatchable_methods() -> frozenset[str]:
    """Methods that only change what a tensor looks like."""
    looks = (
        ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT,
        ObservationType.INPUT_OUTPUT_NOT_OBSERVED,
    )
    return _PLAIN_METHODS | {
        pattern
        for pattern, config in _configs()
        if isinstance(pattern, str)
        and config.observation_type in looks
        and not modules_of({pattern.rstrip("_")})
    }


def get_unmatchable_types_map() -> dict[str, set[Any]]:
    """What is not compared.

    Returns:
        sets of functions, modules and methods

    Example:
        >>> from facula.quantization.suite.relations import get_unmatchable_types_map
        >>> "reshape" in get_unmatchable_types_map()["meths_unmatchable"]
        True
    """
    return {
        "funs_unmatchable": {quantize_per_tensor, operator.getitem},
        "mods_unmatchable": {nn.Identity},
        "meths_unmatchable": set(_unmatchable_methods()),
    }


# ------------------------------------------------------------------ what is floats, what integers


def get_node_type_to_io_type_map() -> dict[str, set[Any]]:
    """What takes and gives floats, integers, or either.

    Returns:
        sets of functions, modules and methods

    Example:
        >>> from facula.quantization.suite.relations import get_node_type_to_io_type_map
        >>> facula.nn.Linear in get_node_type_to_io_type_map()["mods_io_type_fp32"]
        True
    """
    either = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT
    keys = ("funs_io_type_fp32", "funs_io_type_fp16", "funs_io_type_int8", "funs_io_type_fp32_or_int8",
            "mods_io_type_fp32", "mods_io_type_int8", "mods_io_type_fp32_or_int8",
            "meths_io_type_fp32_or_int8")  # fmt: skip
    found: dict[str, set[Any]] = {key: set() for key in keys}
    unseen = _unmatchable_methods()
    for pattern, config in _configs():
        if isinstance(pattern, tuple):
            continue
        shared = config.observation_type is either or _words(pattern) in FIXED
        if isinstance(pattern, str):
            if pattern not in unseen:
                found["meths_io_type_fp32_or_int8"].add(pattern)
        elif _is_layer(pattern):
            shared = shared or pattern in FIXED_MODULES or pattern is nn.Dropout
            found["mods_io_type_fp32_or_int8" if shared else "mods_io_type_fp32"].add(pattern)
        else:
            found["funs_io_type_fp32_or_int8" if shared else "funs_io_type_fp32"].add(pattern)
            found["funs_io_type_int8"].update(_integers(_words(pattern)))
    _add_forms(found)
    found["meths_io_type_fp32_or_int8"] |= {w for n in (*FIXED, "relu") for w in (n, f"{n}_")}
    return found


def _add_forms(found: dict[str, set[Any]]) -> None:
    """Layers of integers, and float layers that none of the patterns names."""
    integers, floats = found["mods_io_type_int8"], found["mods_io_type_fp32"]
    for kind, form in mappings.DEFAULT_STATIC_QUANT_MODULE_MAPPINGS.items():
        if kind not in _NO_LAYERS:
            integers.add(form)
            floats.add(kind)
    for name, kind in vars(intrinsic).items():
        if _is_layer(kind) and kind is not intrinsic._FusedModule:
            floats |= {kind, getattr(qat, name, kind)}
            integers |= {getattr(quantized, name)} if hasattr(quantized, name) else set()
    for kind, form in mappings.DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS.items():
        floats |= {kind, form}
    for call, form in mappings.DEFAULT_FLOAT_TO_QUANTIZED_OPERATOR_MAPPINGS.items():
        found["funs_io_type_fp32"].add(call)
        found["funs_io_type_int8"].add(form)
    for kind, form in mappings.DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS.items():
        floats |= set() if kind in _NO_LAYERS else {form}
    floats -= {
        kind for kind in floats if issubclass(kind, (nn.Embedding, nn.EmbeddingBag))
    }  # of indices


# ------------------------------------------------------------------ what is compared as one


def _halves() -> list[tuple[tuple[Any, ...], int]]:
    """Linear functions in floats of 16 bits: what is around them belongs to them."""
    linear = PLACES["nn.functional"]["linear"]
    half = ("to", core.float16)
    relus = (*_functions("relu"), nn.ReLU)
    made = [(half, relu, linear, "dequantize") for relu in relus]
    return [(fusion, 1) for fusion in (*made, (half, linear, "dequantize"))]


def get_reversed_fusions() -> list[tuple[tuple[Any, ...], int]]:
    """Runs of nodes that are compared as one: their parts, the last first, and the place of the base from the start.

    Returns:
        the runs, the longest first

    Example:
        >>> from facula.quantization.suite.relations import get_reversed_fusions
        >>> ((facula.nn.ReLU, facula.nn.Conv2d), 0) in get_reversed_fusions()
        True
    """
    made: dict[tuple[tuple[Any, ...], int], None] = dict.fromkeys(_halves())
    for pattern, _ in _configs():
        parts = tuple(_flat(pattern))
        if len(parts) > 1:
            made[parts, 0] = None
        for seen in (ObserverBase, FakeQuantizeBase):
            made[(seen, *parts), 0] = None
    return sorted(made, key=lambda fusion: -len(fusion[0]))


@cache
def fusions_by_end() -> dict[str, list[tuple[tuple[Any, ...], int]]]:
    """The same runs, by the kind of node that they end with."""
    found: dict[str, list[tuple[tuple[Any, ...], int]]] = {}
    for fusion in get_reversed_fusions():
        end = fusion[0][0]
        method = isinstance(end, (str, tuple))
        kind = "call_method" if method else "call_module" if _is_layer(end) else "call_function"
        found.setdefault(kind, []).append(fusion)
    return found


def _is_part(node: Node, part: Any, modules: Callable[[str], Any]) -> bool:
    if isinstance(part, tuple):
        return node.op == "call_method" and (node.target, node.args[1:2]) == (part[0], part[1:])
    if isinstance(part, str):
        return node.op == "call_method" and node.target == part
    if _is_layer(part):
        if node.op != "call_module":
            return False
        module = modules(str(node.target))
        return (
            isinstance(module, part)
            if part in (ObserverBase, FakeQuantizeBase)
            else type(module) is part
        )
    return node.op == "call_function" and same_call(node.target, part)


def end_node_matches_reversed_fusion(
    end_node: Node, reversed_fusion: tuple[Any, ...], gm: Any, seen_nodes: set[Node]
) -> bool:
    """Whether a run of nodes ends at a node; none of them may have been seen, and each takes the one before first."""
    node: Any = end_node
    for part in reversed_fusion:
        if not isinstance(node, Node) or node in seen_nodes:
            return False
        if not _is_part(node, part, gm.get_submodule):
            return False
        node = node.args[0] if node.args else None
    return isinstance(node, Node)
