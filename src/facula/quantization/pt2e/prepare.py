"""Observers in an annotated graph.

Takes: a graph whose nodes have annotations. Gives: the same with observers (or fake quantization) behind values.
Keeps true: values that share their parameters share one observer; a value that is taken twice with the same
specification as it is made with passes one observer, not two.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from facula.core.errors import fail
from facula.fx.node import map_arg
from facula.quantization.observer import FixedQParamsObserver, ObserverBase
from facula.quantization.pt2e.quantizer.annotate import annotation_of
from facula.quantization.pt2e.quantizer.quantizer import (
    DerivedQuantizationSpec,
    FixedQParamsQuantizationSpec,
    QuantizationSpec,
    SharedQuantizationSpec,
)
from facula.quantization.tensor import PER_CHANNEL, per_channel_symmetric, per_tensor_affine

__all__ = ["observe"]


class DerivedObserver(ObserverBase):
    """Parameters by a function of the observers of other values."""

    def __init__(self, spec: Any, sources: list[Any]) -> None:
        super().__init__(spec.dtype, spec.is_dynamic)
        self.quant_min, self.quant_max = spec.quant_min, spec.quant_max
        self.qscheme, self.ch_axis = spec.qscheme, spec.ch_axis
        self._derive, self._sources = spec.derive_qparams_fn, tuple(sources)

    def forward(self, x: object) -> Any:
        """The argument."""
        return x

    def calculate_qparams(self, **_: object) -> Any:
        """What the function gives."""
        return self._derive(list(self._sources))


class _Observers:
    """Which values have which observer; values are nodes, or pairs of nodes where they are taken."""

    def __init__(self, model: Any) -> None:
        self.specs: dict[Any, Any] = {}
        self.made: dict[Any, Any] = {}
        for node in model.graph.nodes:
            annotation = annotation_of(node)
            if annotation is None:
                continue
            for source, spec in annotation.input_qspec_map.items():
                if spec is not None:
                    self.specs[source, node] = spec
            if annotation.output_qspec is not None:
                self.specs[node] = annotation.output_qspec

    def root(self, value: Any) -> Any:
        """The value whose observer another one has."""
        seen = [value]
        while True:
            spec = self._spec(seen[-1])
            if isinstance(spec, SharedQuantizationSpec):
                following = spec.edge_or_node
            elif self._taken_as_made(seen[-1], spec):
                following = seen[-1][0]
            else:
                return seen[-1]
            if following in seen:
                fail(
                    RuntimeError,
                    "prepare_pt2e",
                    "shared specifications that end at one with an observer were required",
                    f"a circle at {_told(following)}",
                    hint="one of the values needs a QuantizationSpec",
                )
            seen.append(following)

    def _taken_as_made(self, value: object, spec: QuantizationSpec) -> bool:
        """Whether a value is taken with the specification that it is made with."""
        if not isinstance(value, tuple) or value[0] not in self.specs:
            return False
        return self.specs[self.root(value[0])] == spec

    def _spec(self, value: object) -> Any:
        if value not in self.specs:
            fail(
                RuntimeError,
                "prepare_pt2e",
                "a value with a specification was required",
                f"{_told(value)}, which others share and nothing annotates",
                hint="annotate it, or let the others share another value",
            )
        return self.specs[value]

    def of(self, value: object) -> Any:
        """The observer of a value."""
        root = self.root(value)
        if root not in self.made:
            self.made[root] = self._new(self.specs[root])
        return self.made[root]

    def _new(self, spec: QuantizationSpec) -> Any:
        if isinstance(spec, DerivedQuantizationSpec):
            return DerivedObserver(spec, [self.of(value) for value in spec.derived_from])
        if isinstance(spec, FixedQParamsQuantizationSpec):
            scheme = spec.qscheme or per_tensor_affine
            limits: dict[str, Any] = {"quant_min": spec.quant_min, "quant_max": spec.quant_max}
            given: Any = {k: v for k, v in limits.items() if v is not None}
            return FixedQParamsObserver(
                spec.scale, spec.zero_point, dtype=spec.dtype, qscheme=scheme, **given
            )
        if isinstance(spec, QuantizationSpec):
            return _by_spec(spec)
        fail(
            RuntimeError,
            "prepare_pt2e",
            "a QuantizationSpec was required",
            type(spec).__name__,
            hint="annotations hold specifications of facula.ao.quantization.quantizer",
        )


def _by_spec(spec: QuantizationSpec) -> Any:
    given = {f.name: getattr(spec, f.name) for f in dataclasses.fields(spec)}
    maker = given.pop("observer_or_fake_quant_ctr")
    if spec.qscheme not in (*PER_CHANNEL, per_channel_symmetric):
        del given["ch_axis"]
    return maker.with_args(**{k: v for k, v in given.items() if v is not None})()


def _told(value: Any) -> str:
    if isinstance(value, tuple):
        return f"node {value[0].name} where {value[1].name} takes it"
    return f"node {value.name}"


def observe(model: Any, quantizer: Any) -> None:
    """Put observers behind the annotated values of a graph."""
    observers = _Observers(model)
    for value in observers.specs:
        observers.of(value)
    quantizer.prepare_obs_or_fq_callback(
        model, {value: observers.of(value) for value in observers.specs}
    )
    placed: dict[Any, Any] = {}
    nodes = list(model.graph.nodes)
    for node in nodes:
        if node in observers.specs:
            users = list(node.users)
            behind = _place(model, node, observers.root(node), observers, placed)
            for user in users:
                user.replace_input_with(node, behind)
    for node in nodes:
        annotation = annotation_of(node)
        for source in list(annotation.input_qspec_map) if annotation is not None else ():
            if (source, node) in observers.specs:
                _take(model, source, node, observers, placed)


def _take(
    model: object, source: object, node: Any, observers: _Observers, placed: dict[Any, Any]
) -> None:
    root = observers.root((source, node))
    own = placed.get((source, observers.root(source))) if source in observers.specs else None
    if own is not None and observers.root(source) == root:
        return
    behind = _place(model, source, root, observers, placed)
    if own is not None:  # numbers that have passed the observer of the value itself
        behind.args = (own,)
        own.append(behind)
    former = own if own is not None else source
    node.args = map_arg(node.args, lambda n: behind if n is former else n)


def _place(
    model: Any, source: Any, root: Any, observers: _Observers, placed: dict[Any, Any]
) -> Any:
    """The node that passes a value through an observer, which is made where it is not there."""
    if (source, root) not in placed:
        observer = observers.made[root]
        name = _name_of(model, observer)
        with model.graph.inserting_after(source):
            placed[source, root] = model.graph.call_module(name, (source,))
        placed[source, root].meta["val"] = source.meta.get("val")
    return placed[source, root]


def _name_of(model: Any, observer: Any) -> str:
    for name, child in model.named_children():
        if child is observer:
            return name
    number = 0
    while hasattr(model, f"activation_post_process_{number}"):
        number += 1
    model.add_module(f"activation_post_process_{number}", observer)
    return f"activation_post_process_{number}"
